/*
 * Parsing the description of a task.  Unknown keys are ignored, known ones
 * must be what they should be.
 */

#include <errno.h>
#include <math.h>
#include <string.h>

#include "box/wall.h"
#include "broker/open_reply.h"
#include "shared/protocol.h"


static int open_reply_limits(json_t *object, uint64_t limits[LIMIT_COUNT],
    fault_t *fault);
static int open_reply_doors(json_t *array, box_spec_t *spec, fault_t *fault);
static int open_reply_box(json_t *box, box_spec_t *spec, fault_t *fault);
static const char *open_reply_hex(json_t *answer, const char *key, size_t len);
static const char *open_reply_path(json_t *value);
static int open_reply_wrong(fault_t *fault, const char *what);


int
open_reply_read(json_t *answer, char *task_id, char *policy_hash,
    uint64_t limits[LIMIT_COUNT], box_spec_t *spec, fault_t *fault)
{
    json_t      *ca, *version;
    const char  *id, *hash;

    id = open_reply_hex(answer, "task_id", PROTOCOL_ID_LEN);

    if (id == NULL) {
        return open_reply_wrong(fault, "task_id");
    }

    version = json_object_get(answer, "v");

    if (!json_is_integer(version)
        || json_integer_value(version) != PROTOCOL_VERSION)
    {
        return fault_set(fault, STAGE_BROKER, EPROTO,
                         "\"v\" in the broker's answer is %lld, and this "
                         "launcher speaks version %d of the protocol",
                         (long long) json_integer_value(version),
                         PROTOCOL_VERSION);
    }

    hash = json_string_value(json_object_get(answer, "policy_hash"));

    if (hash == NULL || strlen(hash) > PROTOCOL_POLICY_HASH_LEN) {
        return open_reply_wrong(fault, "policy_hash");
    }

    (void) strcpy(task_id, id);
    (void) strcpy(policy_hash, hash);

    if (open_reply_limits(json_object_get(answer, "limits"), limits, fault)
        != 0
        || open_reply_box(json_object_get(answer, "box"), spec, fault) != 0)
    {
        return -1;
    }

    /* no box without it: what the broker's doors show could not be verified */

    ca = json_object_get(answer, "ca");

    if (!json_is_string(ca)) {
        return open_reply_wrong(fault, "ca");
    }

    spec->trust.pem = json_string_value(ca);

    /* brokers did not send it before: then the certificate has a name less */

    if (json_object_get(answer, "ca_hash")) {
        hash = open_reply_hex(answer, "ca_hash", PROTOCOL_CA_HASH_LEN);

        if (hash == NULL) {
            return open_reply_wrong(fault, "ca_hash");
        }

        (void) strcpy(spec->trust.hash, hash);
    }

    return open_reply_doors(json_object_get(answer, "doors"), spec, fault);
}


static int
open_reply_limits(json_t *object, uint64_t limits[LIMIT_COUNT], fault_t *fault)
{
    double          number;
    json_t         *value;
    unsigned        i;
    const limit_t  *limit;

    if (!json_is_object(object)) {
        return open_reply_wrong(fault, "limits");
    }

    limits_default(limits);

    for (i = 0; i < LIMIT_COUNT; i++) {
        limit = &limit_table[i];
        value = json_object_get(object, limit->key);

        if (value == NULL && limit->flag == NULL) {
            continue;
        }

        if (!json_is_number(value)
            || (limit->unit != UNIT_CORES && !json_is_integer(value)))
        {
            return open_reply_wrong(fault, limit->key);
        }

        number = json_number_value(value);

        if (!(number >= 0) || number > 9e15) {
            return open_reply_wrong(fault, limit->key);
        }

        limits[i] = limit->unit == UNIT_CORES
                    ? (uint64_t) llround(number * 1000)
                    : (uint64_t) json_integer_value(value);

        if (limits[i] < limit->min || limits[i] > limit->max) {
            return open_reply_wrong(fault, limit->key);
        }
    }

    return 0;
}


static int
open_reply_box(json_t *box, box_spec_t *spec, fault_t *fault)
{
    size_t           i;
    json_t          *list, *value;
    const char      *isolation;
    box_writable_t  *w;

    isolation = json_string_value(json_object_get(box, "isolation"));

    if (isolation == NULL) {
        return open_reply_wrong(fault, "box.isolation");
    }

    spec->wall = wall_find(isolation, fault);

    if (spec->wall == NULL) {
        return -1;
    }

    list = json_object_get(box, "writable");

    if (json_array_size(list) > BOX_WRITABLE_MAX) {
        return open_reply_wrong(fault, "box.writable");
    }

    json_array_foreach(list, i, value) {
        w = &spec->writable[i];
        w->path = open_reply_path(json_object_get(value, "path"));
        w->bytes = (uint64_t)
                   json_integer_value(json_object_get(value, "bytes"));

        if (w->path == NULL || w->bytes < 4096 || w->bytes > 1ull << 44) {
            return open_reply_wrong(fault, "box.writable");
        }

        spec->nwritable++;
    }

    list = json_object_get(box, "readable");

    if (json_array_size(list) > BOX_READABLE_MAX) {
        return open_reply_wrong(fault, "box.readable");
    }

    json_array_foreach(list, i, value) {
        spec->readable[i] = open_reply_path(value);

        if (spec->readable[i] == NULL) {
            return open_reply_wrong(fault, "box.readable");
        }

        spec->nreadable++;
    }

    list = json_object_get(box, "env");

    if (json_array_size(list) > BOX_ENV_MAX) {
        return open_reply_wrong(fault, "box.env");
    }

    json_array_foreach(list, i, value) {

        spec->env[i] = json_string_value(value);

        if (spec->env[i] == NULL) {
            return open_reply_wrong(fault, "box.env");
        }

        spec->nenv++;
    }

    return 0;
}


/* A door whose name ends in "-udp" is a datagram socket. */

static int
open_reply_doors(json_t *array, box_spec_t *spec, fault_t *fault)
{
    size_t       i, n;
    json_t      *value;
    json_int_t   port;
    const char  *name;

    if (!json_is_array(array) || json_array_size(array) == 0
        || json_array_size(array) > PROTOCOL_DOORS_MAX)
    {
        return open_reply_wrong(fault, "doors");
    }

    json_array_foreach(array, i, value) {
        name = json_string_value(json_object_get(value, "name"));
        port = json_integer_value(json_object_get(value, "port"));

        if (name == NULL || port < 1 || port > 65535) {
            return open_reply_wrong(fault, "doors");
        }

        n = strlen(name);

        spec->doors[i].port = (uint16_t) port;
        spec->doors[i].udp = n >= 4 && strcmp(name + n - 4, "-udp") == 0;
    }

    spec->ndoors = (unsigned) i;

    return 0;
}


/* Text of exactly so many digits, or NULL. */

static const char *
open_reply_hex(json_t *answer, const char *key, size_t len)
{
    const char  *text;

    text = json_string_value(json_object_get(answer, key));

    return text && strlen(text) == len
           && strspn(text, "0123456789abcdef") == len ? text : NULL;
}


/* An absolute path without empty, "." or ".." components, not "/"; or NULL. */

static const char *
open_reply_path(json_t *value)
{
    size_t       n;
    const char  *path, *p;

    path = json_string_value(value);

    if (path == NULL || path[0] != '/' || path[1] == '\0'
        || strlen(path) > BOX_PATH_MAX)
    {
        return NULL;
    }

    for (p = path + 1; /* void */; p += n + 1) {
        n = strcspn(p, "/");

        if (n == 0 || (n == 1 && p[0] == '.')
            || (n == 2 && p[0] == '.' && p[1] == '.'))
        {
            return NULL;
        }

        if (p[n] == '\0') {
            return path;
        }
    }
}


static int
open_reply_wrong(fault_t *fault, const char *what)
{
    return fault_set(fault, STAGE_BROKER, EPROTO,
                     "\"%s\" in the broker's answer is invalid",
                     what);
}
