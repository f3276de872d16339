/*
 * Reads the text form of policies.  The text comes from the master through
 * shared memory, yet it is read as a stranger's: every object has exactly its
 * keys, every value passes through the functions that the directives use, and
 * the whole is checked before anyone sees it.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "policy_internal.h"


typedef struct {
    policy_set_t  *set;
    char          *err;         /* POLICY_ERROR_MAX bytes */
    const char    *where;       /* the policy's or rule's name, for messages */
    json_t        *certificates;
} loader_t;


typedef struct {
    const char  *key;
    int          type;          /* json_type, or one of the following */
    json_t      *value;         /* set by load_members */
} member_t;


#define OR_NULL    16           /* added to a type: null as well */
#define ANY_BOOL   32
#define ANY_REAL   33           /* an integer or a real number */


static int load_set(loader_t *l, json_t *root);
static int load_certificates(loader_t *l);
static int load_policy(loader_t *l, json_t *object);
static int load_limits(loader_t *l, policy_t *policy, json_t *object);
static int load_box(loader_t *l, policy_t *policy, json_t *writable,
    json_t *readable, json_t *env);
static int load_launchers(loader_t *l, policy_t *policy, json_t *object);
static int load_rule(loader_t *l, policy_t *policy, json_t *object);
static int load_ports(loader_t *l, json_t *ports, int *port);
static int load_rule_lists(loader_t *l, policy_rule_t *rule, json_t *methods,
    json_t *ranges);
static int load_credential(loader_t *l, policy_rule_t *rule, json_t *object);
static int load_trusted(loader_t *l, json_t *name, char **text,
    policy_pem_t **pem);
static int load_members(loader_t *l, json_t *object, const char *what,
    member_t *members, size_t n);
static const char *load_word(loader_t *l, json_t *value, const char *what);
static int malformed(loader_t *l, const char *what);


policy_set_t *
policy_set_load(const char *text, size_t n, char err[POLICY_ERROR_MAX])
{
    int           rc;
    json_t       *root;
    loader_t      l;
    json_error_t  e;

    memset(&l, 0, sizeof(loader_t));
    l.err = err;
    l.where = "";

    /* jansson 2.14 swallows a NUL that follows a number */

    if (memchr(text, '\0', n)) {
        (void) malformed(&l, "a NUL byte: this is no text");
        return NULL;
    }

    root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &e);

    if (root == NULL) {
        (void) snprintf(err, POLICY_ERROR_MAX,
                        "policies: no JSON text at byte %d", e.position);
        return NULL;
    }

    l.set = policy_set_new();

    if (l.set == NULL) {
        (void) malformed(&l, "no memory");
        json_decref(root);
        return NULL;
    }

    rc = load_set(&l, root);

    json_decref(root);

    if (rc != 0) {
        policy_set_free(l.set);
        return NULL;
    }

    return l.set;
}


static int
load_set(loader_t *l, json_t *root)
{
    char    *text;
    size_t   i, n;

    member_t  m[] = {
        { "v", JSON_INTEGER, NULL },
        { "generation", JSON_INTEGER, NULL },
        { "trusted", JSON_STRING + OR_NULL, NULL },
        { "certificates", JSON_OBJECT, NULL },
        { "policies", JSON_ARRAY, NULL }
    };

    if (load_members(l, root, "the set", m, 5) != 0) {
        return -1;
    }

    if (json_integer_value(m[0].value) != POLICY_TEXT_VERSION) {
        return malformed(l, "\"v\" is unknown");
    }

    if (json_integer_value(m[1].value) < 0) {
        return malformed(l, "\"generation\" is negative");
    }

    l->set->generation = (uint64_t) json_integer_value(m[1].value);
    l->certificates = m[3].value;

    if (load_certificates(l) != 0
        || load_trusted(l, m[2].value, &l->set->trusted_pem, &l->set->pem)
           != 0)
    {
        return -1;
    }

    for (i = 0; i < json_array_size(m[4].value); i++) {
        if (load_policy(l, json_array_get(m[4].value, i)) != 0) {
            return -1;
        }
    }

    for (i = 0; i < l->set->policies_count; i++) {

        text = policy_dump(l->set->policies[i], &n);

        if (text == NULL) {
            return malformed(l, "no memory");
        }

        free(text);
    }

    return 0;
}


/* Each under the hash of its own text. */

static int
load_certificates(loader_t *l)
{
    char          *text;
    json_t        *value;
    const char    *key, *word;
    policy_pem_t  *pem;

    json_object_foreach(l->certificates, key, value) {

        word = load_word(l, value, "\"certificates\" has");

        if (word == NULL) {
            return -1;
        }

        text = strdup(word);
        pem = NULL;

        if (text == NULL
            || policy_set_adopt_pem(l->set, &text, &pem) != 0)
        {
            free(text);
            return malformed(l, "a certificate is no PEM text");
        }

        if (strcmp(pem->hash, key) != 0) {
            return malformed(l, "a certificate has another hash");
        }
    }

    return 0;
}


static int
load_policy(loader_t *l, json_t *object)
{
    size_t       i;
    policy_t    *policy;
    const char  *word, *trusted;

    member_t  m[] = {
        { "name", JSON_STRING, NULL },
        { "isolation", JSON_STRING, NULL },
        { "limits", JSON_OBJECT, NULL },
        { "writable", JSON_ARRAY, NULL },
        { "readable", JSON_ARRAY, NULL },
        { "env", JSON_ARRAY, NULL },
        { "launchers", JSON_OBJECT, NULL },
        { "trusted", JSON_STRING + OR_NULL, NULL },
        { "rules", JSON_ARRAY, NULL }
    };

    if (load_members(l, object, "a policy", m, 9) != 0) {
        return -1;
    }

    word = load_word(l, m[0].value, "\"name\" has");

    if (word == NULL) {
        return -1;
    }

    policy = policy_set_add(l->set, word, l->err);

    if (policy == NULL) {
        return -1;
    }

    l->where = policy->name;

    word = load_word(l, m[1].value, "\"isolation\" has");

    if (word == NULL) {
        return -1;
    }

    free(policy->isolation);
    policy->isolation = strdup(word);

    if (policy->isolation == NULL) {
        return malformed(l, "no memory");
    }

    /* the set's default, repeated so that it is in the policy's hash */

    trusted = json_string_value(m[7].value);

    if ((trusted == NULL) != (l->set->pem == NULL)
        || (trusted && strcmp(trusted, l->set->pem->hash) != 0))
    {
        return malformed(l, "\"trusted\" is not the set's");
    }

    if (load_limits(l, policy, m[2].value) != 0
        || load_box(l, policy, m[3].value, m[4].value, m[5].value) != 0
        || load_launchers(l, policy, m[6].value) != 0)
    {
        return -1;
    }

    for (i = 0; i < json_array_size(m[8].value); i++) {
        if (load_rule(l, policy, json_array_get(m[8].value, i)) != 0) {
            return -1;
        }
    }

    return policy_check(policy, l->err);
}


/* The bounds are policy_check's; here only what a number can be. */

static int
load_limits(loader_t *l, policy_t *policy, json_t *object)
{
    size_t      i;
    double      real;
    member_t    m[LIMIT_COUNT];
    json_int_t  integer;

    for (i = 0; i < LIMIT_COUNT; i++) {
        m[i].key = limit_table[i].key;
        m[i].type = (limit_table[i].unit == UNIT_CORES) ? ANY_REAL
                                                        : JSON_INTEGER;
    }

    if (load_members(l, object, "\"limits\"", m, LIMIT_COUNT) != 0) {
        return -1;
    }

    for (i = 0; i < LIMIT_COUNT; i++) {

        if (limit_table[i].unit == UNIT_CORES) {

            real = json_number_value(m[i].value);

            if (!(real >= 0 && real <= 1e9)) {
                return malformed(l, "a limit is out of its bounds");
            }

            policy->limits[i] = (uint64_t) (real * 1000 + 0.5);
            continue;
        }

        integer = json_integer_value(m[i].value);

        if (integer < 0) {
            return malformed(l, "a limit is negative");
        }

        policy->limits[i] = (uint64_t) integer;
    }

    return 0;
}


static int
load_box(loader_t *l, policy_t *policy, json_t *writable, json_t *readable,
    json_t *env)
{
    size_t       i;
    const char  *word;

    member_t  m[] = {
        { "path", JSON_STRING, NULL },
        { "bytes", JSON_INTEGER, NULL }
    };

    for (i = 0; i < json_array_size(writable); i++) {

        if (load_members(l, json_array_get(writable, i), "\"writable\"", m, 2)
            != 0)
        {
            return -1;
        }

        word = load_word(l, m[0].value, "\"path\" has");

        if (word == NULL) {
            return -1;
        }

        if (json_integer_value(m[1].value) < 0) {
            return malformed(l, "\"bytes\" is negative");
        }

        if (policy_add_writable(policy, word,
                                (uint64_t) json_integer_value(m[1].value),
                                l->err)
            != 0)
        {
            return -1;
        }
    }

    for (i = 0; i < json_array_size(readable); i++) {

        word = load_word(l, json_array_get(readable, i), "\"readable\" has");

        if (word == NULL || policy_add_readable(policy, word, l->err) != 0) {
            return -1;
        }
    }

    for (i = 0; i < json_array_size(env); i++) {

        word = load_word(l, json_array_get(env, i), "\"env\" has");

        if (word == NULL || policy_add_env(policy, word, l->err) != 0) {
            return -1;
        }
    }

    return 0;
}


static int
load_launchers(loader_t *l, policy_t *policy, json_t *object)
{
    size_t       i, k;
    json_t      *value;
    json_int_t   id;

    member_t  m[] = {
        { "uids", JSON_ARRAY, NULL },
        { "gids", JSON_ARRAY, NULL }
    };

    if (load_members(l, object, "\"launchers\"", m, 2) != 0) {
        return -1;
    }

    for (k = 0; k < 2; k++) {
        for (i = 0; i < json_array_size(m[k].value); i++) {

            value = json_array_get(m[k].value, i);
            id = json_integer_value(value);

            if (!json_is_integer(value) || id < 0 || id >= UINT32_MAX) {
                return malformed(l, "\"launchers\" has a malformed id");
            }

            if (policy_add_launcher_id(policy, k == 1, (uint32_t) id, l->err)
                != 0)
            {
                return -1;
            }
        }
    }

    return 0;
}


static int
load_rule(loader_t *l, policy_t *policy, json_t *object)
{
    int             port;
    char            text[AUTHORITY_HOST_MAX + 16];
    const char     *word, *hint;
    policy_rule_t  *rule;

    member_t  m[] = {
        { "host", JSON_STRING, NULL },
        { "ports", JSON_ARRAY, NULL },
        { "methods", JSON_ARRAY, NULL },
        { "plaintext", ANY_BOOL, NULL },
        { "credential", JSON_OBJECT + OR_NULL, NULL },
        { "private", JSON_ARRAY, NULL },
        { "trusted", JSON_STRING + OR_NULL, NULL },
        { "hint", JSON_STRING + OR_NULL, NULL }
    };

    if (load_members(l, object, "a rule", m, 8) != 0) {
        return -1;
    }

    word = load_word(l, m[0].value, "\"host\" has");

    if (word == NULL || load_ports(l, m[1].value, &port) != 0) {
        return -1;
    }

    /* an address of IPv6 is the one host with a colon */

    if (strlen(word) > AUTHORITY_HOST_MAX + 2
        || (strchr(word, ':') && word[0] == '['))
    {
        return malformed(l, "\"host\" is malformed");
    }

    if (strchr(word, ':')) {
        (void) snprintf(text, sizeof(text), "[%s]", word);

    } else {
        (void) snprintf(text, sizeof(text), "%s", word);
    }

    if (port) {
        (void) snprintf(text + strlen(text), sizeof(text) - strlen(text),
                        ":%d", port);
    }

    rule = policy_add_rule(policy, text, l->err);

    if (rule == NULL) {
        return -1;
    }

    rule->plaintext = json_is_true(m[3].value);

    if (load_rule_lists(l, rule, m[2].value, m[5].value) != 0
        || load_credential(l, rule, m[4].value) != 0
        || load_trusted(l, m[6].value, &rule->trusted_pem, &rule->pem) != 0)
    {
        return -1;
    }

    if (json_is_null(m[7].value)) {
        return 0;
    }

    hint = load_word(l, m[7].value, "\"hint\" has");

    return hint ? policy_rule_set_hint(rule, hint, l->err) : -1;
}


/* [80,443] is a rule without a port; else there is exactly one. */

static int
load_ports(loader_t *l, json_t *ports, int *port)
{
    json_int_t  first, second;

    first = json_integer_value(json_array_get(ports, 0));
    second = json_integer_value(json_array_get(ports, 1));

    if (json_array_size(ports) == 2 && first == 80 && second == 443) {
        *port = 0;
        return 0;
    }

    if (json_array_size(ports) != 1 || first < 1 || first > 65535) {
        return malformed(l, "\"ports\" is malformed");
    }

    *port = (int) first;

    return 0;
}


static int
load_rule_lists(loader_t *l, policy_rule_t *rule, json_t *methods,
    json_t *ranges)
{
    size_t       i;
    const char  *word;

    /* none would mean GET and HEAD: the text always spells them */

    if (json_array_size(methods) == 0) {
        return malformed(l, "\"methods\" is empty");
    }

    for (i = 0; i < json_array_size(methods); i++) {

        word = load_word(l, json_array_get(methods, i), "\"methods\" has");

        if (word == NULL || policy_rule_add_method(rule, word, l->err) != 0) {
            return -1;
        }
    }

    for (i = 0; i < json_array_size(ranges); i++) {

        word = load_word(l, json_array_get(ranges, i), "\"private\" has");

        if (word == NULL || policy_rule_add_range(rule, word, l->err) != 0) {
            return -1;
        }
    }

    return 0;
}


static int
load_credential(loader_t *l, policy_rule_t *rule, json_t *object)
{
    const char  *word;

    member_t  m[] = {
        { "kind", JSON_STRING, NULL },
        { "name", JSON_STRING, NULL }
    };

    if (json_is_null(object)) {
        return 0;
    }

    if (load_members(l, object, "\"credential\"", m, 2) != 0) {
        return -1;
    }

    if (strcmp(json_string_value(m[0].value), "bearer") != 0) {
        return malformed(l, "\"kind\" is unknown");
    }

    word = load_word(l, m[1].value, "\"credential\" has");

    if (word == NULL) {
        return -1;
    }

    rule->credential_kind = CREDENTIAL_BEARER;
    rule->credential = strdup(word);

    return rule->credential ? 0 : malformed(l, "no memory");
}


static int
load_trusted(loader_t *l, json_t *name, char **text, policy_pem_t **pem)
{
    policy_pem_t  *p;

    if (json_is_null(name)) {
        return 0;
    }

    for (p = l->set->pems; p; p = p->next) {
        if (strcmp(p->hash, json_string_value(name)) == 0) {
            *text = p->text;
            *pem = p;
            return 0;
        }
    }

    return malformed(l, "\"trusted\" names no certificate");
}


/* Exactly these keys, each of its type. */

static int
load_members(loader_t *l, json_t *object, const char *what, member_t *members,
    size_t n)
{
    int     type;
    char    text[128];
    size_t  i;
    json_t *value;

    if (!json_is_object(object) || json_object_size(object) != n) {
        (void) snprintf(text, sizeof(text), "%s has not the known keys", what);
        return malformed(l, text);
    }

    for (i = 0; i < n; i++) {

        value = json_object_get(object, members[i].key);
        type = members[i].type;

        if (value == NULL
            || (type == ANY_BOOL ? !json_is_boolean(value)
                : type == ANY_REAL ? !json_is_number(value)
                : type >= OR_NULL ? (!json_is_null(value)
                                     && (int) json_typeof(value)
                                        != type - OR_NULL)
                : (int) json_typeof(value) != type))
        {
            (void) snprintf(text, sizeof(text), "%s lacks \"%s\"", what,
                            members[i].key);
            return malformed(l, text);
        }

        members[i].value = value;
    }

    return 0;
}


/* A string without a NUL inside, which C would take for its end. */

static const char *
load_word(loader_t *l, json_t *value, const char *what)
{
    char         text[128];
    const char  *word;

    word = json_string_value(value);

    if (word && strlen(word) == json_string_length(value)) {
        return word;
    }

    (void) snprintf(text, sizeof(text), "%s no word", what);
    (void) malformed(l, text);

    return NULL;
}


static int
malformed(loader_t *l, const char *what)
{
    (void) snprintf(l->err, POLICY_ERROR_MAX, "policies%s%s: %s",
                    l->where[0] ? " of " : "", l->where, what);

    return -1;
}
