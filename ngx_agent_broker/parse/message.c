/*
 * The keys of each operation are a table.  A key is required or not, and has
 * a type; a text has a size and holds no control byte.
 */

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "jail/shared/protocol.h"
#include "jail/shared/utf8.h"
#include "parse/message.h"


typedef enum {
    KEY_TEXT = 0,
    KEY_WORD,                           /* of small letters and "_" */
    KEY_HEX,                            /* of exactly its size */
    KEY_ANY,                            /* the version is judged later */
    KEY_NUMBER,
    KEY_NUMBER_OR_NULL,
    KEY_OBJECT
} key_type_t;


typedef struct {
    const char  *name;
    key_type_t   type;
    size_t       max;                   /* bytes of a text */
    bool         required;
} message_key_t;


#define MESSAGE_KEYS_MAX  7


typedef struct {
    const char     *name;
    message_key_t   keys[MESSAGE_KEYS_MAX];
} message_row_t;


static const message_row_t  message_table[MESSAGE_OPS] = {

    [MESSAGE_OPEN] = { PROTOCOL_OPEN, {
        { "v", KEY_ANY, 0, false },
        { "policy", KEY_TEXT, 255, true },
        { "external_id", KEY_TEXT, PROTOCOL_LABEL_MAX, false },
        { "label", KEY_TEXT, PROTOCOL_LABEL_MAX, false },
        { "code_sha256", KEY_HEX, PROTOCOL_SHA256_LEN, false },
        { "env", KEY_OBJECT, 0, false },
    } },

    [MESSAGE_SERVE] = { PROTOCOL_SERVE, { { NULL, KEY_TEXT, 0, false } } },

    [MESSAGE_RESUME] = { PROTOCOL_RESUME, {
        { "v", KEY_ANY, 0, false },
        { "task_id", KEY_HEX, PROTOCOL_ID_LEN, true },
        { "lease", KEY_TEXT, PROTOCOL_LEASE_MAX, true },
    } },

    [MESSAGE_NEAR_LIMIT] = { PROTOCOL_NEAR_LIMIT, {
        { "limit", KEY_TEXT, PROTOCOL_WORD_MAX, true },
        { "used", KEY_NUMBER, 0, true },
    } },

    [MESSAGE_CLOSE] = { PROTOCOL_CLOSE, {
        { "reason", KEY_WORD, PROTOCOL_WORD_MAX, true },
        { "exit_code", KEY_NUMBER_OR_NULL, 0, false },
        { "usage", KEY_OBJECT, 0, false },
    } },

    [MESSAGE_POLICY] = { PROTOCOL_POLICY, {
        { "v", KEY_ANY, 0, false },
        { "policy", KEY_TEXT, 255, true },
    } },

    [MESSAGE_ASK] = { PROTOCOL_ASK, {
        { "v", KEY_ANY, 0, false },
        { "policy", KEY_TEXT, 255, true },
        { "method", KEY_TEXT, PROTOCOL_METHOD_MAX, true },
        { "url", KEY_TEXT, PROTOCOL_URL_MAX, true },
    } },

    [MESSAGE_HEALTH] = { PROTOCOL_HEALTH, { { "v", KEY_ANY, 0, false } } },
};


static int message_check(const message_row_t *row, json_t *object,
    char err[MESSAGE_ERROR_MAX]);
static bool message_is_text(const json_t *value, size_t max);
static bool message_is_of(const json_t *value, size_t min, size_t max,
    const char *alphabet);


json_t *
message_parse(const unsigned char *p, size_t n, message_op_t *op,
    char err[MESSAGE_ERROR_MAX])
{
    size_t         i;
    json_t        *object;
    const char    *name;
    json_error_t   error;

    object = NULL;

    /* jansson 2.14 skips a NUL byte behind a number */

    if (memchr(p, '\0', n) == NULL) {
        object = json_loadb((const char *) p, n, JSON_REJECT_DUPLICATES,
                            &error);
    }

    if (!json_is_object(object)) {
        (void) snprintf(err, MESSAGE_ERROR_MAX,
                        "a line is not one JSON object");
        json_decref(object);
        return NULL;
    }

    name = json_string_value(json_object_get(object, "op"));

    for (i = 0; i < MESSAGE_OPS; i++) {
        if (name && strcmp(name, message_table[i].name) == 0) {
            break;
        }
    }

    if (i == MESSAGE_OPS) {
        (void) snprintf(err, MESSAGE_ERROR_MAX, "unknown \"op\"");
        json_decref(object);
        return NULL;
    }

    if (message_check(&message_table[i], object, err) != 0) {
        json_decref(object);
        return NULL;
    }

    *op = (message_op_t) i;

    return object;
}


const char *
message_op_name(message_op_t op)
{
    return message_table[op].name;
}


static int
message_check(const message_row_t *row, json_t *object,
    char err[MESSAGE_ERROR_MAX])
{
    size_t                known;
    json_t               *value;
    const char           *what;
    const message_key_t  *key;

    known = 1;                          /* "op" */

    for (key = row->keys; key < row->keys + MESSAGE_KEYS_MAX && key->name;
         key++)
    {
        value = json_object_get(object, key->name);

        if (value == NULL) {

            if (key->required) {
                (void) snprintf(err, MESSAGE_ERROR_MAX,
                                "\"%s\" is missing in \"%s\"", key->name,
                                row->name);
                return -1;
            }

            continue;
        }

        known++;
        what = NULL;

        switch (key->type) {

        case KEY_TEXT:
            what = message_is_text(value, key->max) ? NULL : "a short text";
            break;

        case KEY_WORD:
            what = message_is_of(value, 1, key->max,
                                 "abcdefghijklmnopqrstuvwxyz_")
                   ? NULL : "a word of small letters";
            break;

        case KEY_HEX:
            what = message_is_of(value, key->max, key->max,
                                 "0123456789abcdef")
                   ? NULL : "small hex digits";
            break;

        case KEY_ANY:
            break;

        case KEY_NUMBER:
            what = json_is_integer(value) ? NULL : "a whole number";
            break;

        case KEY_NUMBER_OR_NULL:
            what = json_is_integer(value) || json_is_null(value)
                   ? NULL : "a whole number or null";
            break;

        case KEY_OBJECT:
            what = json_is_object(value) ? NULL : "an object";
            break;
        }

        if (what) {
            (void) snprintf(err, MESSAGE_ERROR_MAX, "\"%s\" must be %s",
                            key->name, what);
            return -1;
        }
    }

    if (json_object_size(object) != known) {
        (void) snprintf(err, MESSAGE_ERROR_MAX, "unknown key in \"%s\"",
                        row->name);
        return -1;
    }

    return 0;
}


/* Within its size, and no character that a log or a terminal would act on. */

static bool
message_is_text(const json_t *value, size_t max)
{
    const char  *p;

    p = json_string_value(value);

    return p && json_string_length(value) <= max && utf8_is_printable(p);
}


static bool
message_is_of(const json_t *value, size_t min, size_t max,
    const char *alphabet)
{
    size_t       n;
    const char  *p;

    p = json_string_value(value);
    n = json_string_length(value);

    return p && n >= min && n <= max && strspn(p, alphabet) == n;
}
