/*
 * The text form of policies: JSON without pointers, published in shared
 * memory and read by each worker, hashed for the audit log, and shown by
 * `jail policy NAME`.
 *
 * Every list is sorted and every default spelled out, so that two
 * configurations that mean the same are the same text.  What it has, and in
 * which order, is in the tables of policy_fields.c, and how the larger kinds
 * of fields look in policy_values.c; both serve writing and reading.
 *
 * Only a text that was written here is read.  That makes the reader a list of
 * what is expected next, five times as fast as a parser of any JSON (a worker
 * reads 100,000 hosts between two requests), and a text that was cut or
 * changed loads as nothing.  It comes from the master through shared memory,
 * yet every value passes through the functions that the directives use, and
 * the whole is checked before anyone sees it.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy_fields.h"
#include "policy/policy_text.h"
#include "policy/policy_values.h"


#define HOST_TEXT_MAX  (AUTHORITY_HOST_MAX + sizeof("*.[]:65535"))


typedef int  compare_t(const void *a, const void *b);


static char *text_write(policy_set_t *set, const policy_t *policy,
    bool is_bare, size_t *len);
static void text_set(coder_t *c);
static void text_policy(coder_t *c, policy_t *policy);
static policy_rule_t *text_rule(coder_t *c, policy_t *policy,
    policy_rule_t *rule);
static void text_reader(coder_t *c, const char *text, size_t n,
    char err[POLICY_ERROR_MAX]);
static policy_rule_t *text_read_host(coder_t *c, policy_t *policy);
static void text_fields(coder_t *c, const policy_field_t *field, void *object,
    const char *separator);
static void text_list(coder_t *c, const policy_field_t *field, void *object);
static void text_value(coder_t *c, const policy_field_t *field, void *object,
    void *value);
static compare_t  text_compare_strings, text_compare_ranges, text_compare_ids,
                  text_compare_policies;


/* The lists: an item's size and the order. */

static const struct {
    size_t      size;
    compare_t  *compare;
} text_lists[POLICY_KINDS] = {
    [POLICY_STRINGS] = { sizeof(char *), text_compare_strings },
    [POLICY_RANGES] = { sizeof(address_range_t), text_compare_ranges },
    [POLICY_IDS] = { sizeof(uint32_t), text_compare_ids },
    [POLICY_WRITABLE] = { sizeof(policy_writable_t), text_compare_strings },
    [POLICY_RULES] = { sizeof(policy_rule_t *), policy_text_compare_rules },
    [POLICY_POLICIES] = { sizeof(policy_t *), text_compare_policies },
};


char *
policy_set_dump(policy_set_t *set, size_t *len)
{
    return text_write(set, NULL, false, len);
}


char *
policy_dump(const policy_t *policy, size_t *len)
{
    return text_write(policy->set, policy, false, len);
}


policy_set_t *
policy_set_load(const char *text, size_t n, char err[POLICY_ERROR_MAX])
{
    coder_t  c;

    text_reader(&c, text, n, err);

    c.hashing = true;
    c.set = policy_set_new();

    if (c.set == NULL) {
        (void) policy_no_memory(err);
        return NULL;
    }

    text_set(&c);

    free(c.word);

    if (c.failed) {
        policy_set_free(c.set);
        return NULL;
    }

    return c.set;
}


static void
text_reader(coder_t *c, const char *text, size_t n,
    char err[POLICY_ERROR_MAX])
{
    memset(c, 0, sizeof(coder_t));

    c->reading = true;
    c->start = text;
    c->p = text;
    c->end = text + n;
    c->err = err;
}


char *
policy_text_bare(policy_set_t *set, const policy_t *policy, size_t *len)
{
    return text_write(set, policy, true, len);
}


/* The set's text, or only that of a policy. */

static char *
text_write(policy_set_t *set, const policy_t *policy, bool is_bare,
    size_t *len)
{
    coder_t  c;

    memset(&c, 0, sizeof(coder_t));
    c.set = set;
    c.bare = is_bare;

    if (policy) {
        text_policy(&c, (policy_t *) policy);   /* only read from */

    } else {
        c.hashing = !is_bare;
        text_set(&c);
    }

    if (c.failed) {
        free(c.data);
        return NULL;
    }

    *len = c.len;

    return c.data;
}


static void
text_set(coder_t *c)
{
    uint64_t  version;

    version = POLICY_TEXT_VERSION;

    coder_text(c, "{\"v\":");
    coder_number(c, &version, 0, UINT32_MAX);

    if (coder_has_read(c) && version != POLICY_TEXT_VERSION) {
        coder_check(c, policy_error(c->err, "policies", "v",
                                    "has an unknown value"));
    }

    text_fields(c, policy_set_fields, c->set, ",");
    coder_text(c, "}");

    if (c->p != c->end) {
        coder_unexpected(c);
    }
}


/* Here and below: a policy, rule or value that is NULL is read. */

static void
text_policy(coder_t *c, policy_t *policy)
{
    size_t  start;

    start = coder_offset(c);

    coder_text(c, "{\"name\":");
    coder_string(c, policy ? policy->name : NULL);

    if (coder_has_read(c)) {
        policy = policy_set_add(c->set, c->word, c->err);
        coder_check(c, policy ? 0 : -1);
    }

    if (policy == NULL) {
        return;
    }

    text_fields(c, policy_fields, policy, ",");
    coder_text(c, "}");

    if (c->hashing && !c->failed) {
        policy_hash_text((c->reading ? c->start : c->data) + start,
                         coder_offset(c) - start, policy->hash);
    }

    if (coder_has_read(c)) {
        coder_check(c, policy_check(policy, c->err));
    }
}


static policy_rule_t *
text_rule(coder_t *c, policy_t *policy, policy_rule_t *rule)
{
    if (c->reading) {

        coder_text(c, "{\"host\":");

        rule = text_read_host(c, policy);

        if (rule == NULL) {
            c->failed = true;
            return NULL;
        }

        text_fields(c, policy_rule_fields, rule, ",");

    } else {
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it writes */
        policy_text_host(c, rule->host, rule->wildcard, rule->port);
        policy_text_attributes(c, rule);
    }

    coder_text(c, "}");

    /* no method would mean GET and HEAD, which the text always spells */

    if (coder_has_read(c) && rule->methods_count == 0) {
        coder_unexpected(c);
    }

    return rule;
}


void
policy_text_host(coder_t *c, const char *host, bool wildcard, uint16_t port)
{
    uint64_t  number;

    coder_text(c, wildcard ? "{\"host\":\"*." : "{\"host\":\"");
    coder_text(c, host);                /* nothing to escape */
    coder_text(c, "\",\"ports\":[");

    if (port) {
        number = port;
        coder_number(c, &number, 0, 0);

    } else {
        coder_text(c, "80,443");
    }

    coder_text(c, "]");
}


void
policy_text_attributes(coder_t *c, policy_rule_t *rule)
{
    if (policy_rule_imply_methods(rule) != 0) {
        c->failed = true;
        return;
    }

    text_fields(c, policy_rule_fields, rule, ",");
}


policy_rule_t *
policy_text_rule(policy_t *policy, const char *text, size_t n,
    char err[POLICY_ERROR_MAX])
{
    coder_t         c;
    policy_rule_t  *rule;

    text_reader(&c, text, n, err);

    c.set = policy->set;
    c.one_rule = true;

    rule = text_rule(&c, policy, NULL);

    if (!c.failed && c.p != c.end) {
        coder_unexpected(&c);
    }

    if (!c.failed) {
        coder_check(&c, policy_rule_check(rule, err));
    }

    free(c.word);

    if (c.failed && rule) {
        policy_rule_free(rule);
        rule = NULL;
    }

    return rule;
}


/* NULL: with the error. */

static policy_rule_t *
text_read_host(coder_t *c, policy_t *policy)
{
    int       n;
    char      host[HOST_TEXT_MAX];
    uint64_t  port;

    coder_string(c, NULL);

    if (c->failed) {
        return NULL;
    }

    /* an address of IPv6 is the one host with a colon; it has no brackets */

    n = snprintf(host, sizeof(host),
                 strchr(c->word, ':') ? "[%s]" : "%s", c->word);

    if (n > (int) sizeof(host) - (int) sizeof(":65535")
        || c->word[0] == '[')
    {
        (void) policy_error(c->err, "host", c->word, "is malformed");
        return NULL;
    }

    coder_text(c, ",\"ports\":[");

    if (!coder_skip(c, "80,443]")) {
        coder_number(c, &port, 0, 65535);
        coder_text(c, "]");
        (void) snprintf(host + n, sizeof(host) - (size_t) n, ":%u",
                        (unsigned) port);
    }

    return c->failed ? NULL
           : c->one_rule ? policy_rule_new(host, c->err)
                         : policy_add_rule(policy, host, c->err);
}


static void
text_fields(coder_t *c, const policy_field_t *field, void *object,
    const char *separator)
{
    for ( /* void */ ; field->name && !c->failed; field++) {

        coder_key(c, separator, field->name);
        separator = ",";

        if (field->count) {
            text_list(c, field, object);

        } else {
            text_value(c, field, object, (char *) object + field->offset);
        }
    }
}


static void
text_list(coder_t *c, const policy_field_t *field, void *object)
{
    char    *copy;
    void    *list;
    size_t   i, count, size;

    coder_text(c, "[");

    if (c->reading) {

        for (i = 0; coder_next(c, "]", &i); /* void */ ) {
            text_value(c, field, object, NULL);
        }

        return;
    }

    if (field->kind == POLICY_RULES && c->bare) {
        coder_text(c, "]");
        return;
    }

    size = text_lists[field->kind].size;
    count = *(size_t *) ((char *) object + field->count);
    list = *(void **) ((char *) object + field->offset);

    copy = calloc(count + 1, size);

    if (copy == NULL) {
        c->failed = true;
        return;
    }

    if (count) {
        memcpy(copy, list, count * size);
        qsort(copy, count, size, text_lists[field->kind].compare);
    }

    for (i = 0; i < count; i++) {
        coder_text(c, i ? "," : "");
        text_value(c, field, object, copy + i * size);
    }

    coder_text(c, "]");
    free(copy);
}


/* value: the member of object; of a list's item NULL while it is read. */

static void
text_value(coder_t *c, const policy_field_t *field, void *object, void *value)
{
    uint64_t        id;
    policy_rule_t  *rule = object;

    switch (field->kind) {

    case POLICY_FLAG:
        coder_flag(c, value);
        break;

    case POLICY_CHOICE:
        value_choice(c, field, value);
        break;

    case POLICY_COUNT:
    case POLICY_BYTES:
    case POLICY_TIME:
        coder_number(c, value, field->bounds.min,
                     field->bounds.max ? field->bounds.max : UINT64_MAX);
        break;

    case POLICY_STRING_OR_NULL:
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): no list */
        if (coder_null(c, *(char **) value == NULL)) {
            break;
        }

        /* fall through */

    case POLICY_STRING:
    case POLICY_STRINGS:
        value_word(c, field, object, value ? *(char **) value : NULL);
        break;

    case POLICY_RANGES:
        value_range(c, field, object, value);
        break;

    case POLICY_IDS:
        id = value ? *(uint32_t *) value : 0;
        coder_number(c, &id, 0, UINT32_MAX - 1);

        if (coder_has_read(c)) {
            coder_check(c, policy_add_launcher_id(
                               (void *) ((char *) object + field->offset),
                               (void *) ((char *) object + field->count),
                               id, c->err));
        }

        break;

    case POLICY_WRITABLE:
        value_writable(c, object, value);
        break;

    case POLICY_OBJECT:
        coder_text(c, "{");
        text_fields(c, field->fields, object, "");
        coder_text(c, "}");
        break;

    case POLICY_LIMITS:
        value_limits(c, value);
        break;

    case POLICY_BOUNDS:
        value_bounds(c, value);
        break;

    case POLICY_CREDENTIAL:
        value_credential(c, rule);
        break;

    case POLICY_TRUSTED:
        value_trusted(c, &rule->trusted_pem, &rule->pem);
        break;

    case POLICY_SET_TRUSTED:
        value_set_trusted(c);
        break;

    case POLICY_SAME_TRUSTED:
        value_same_trusted(c, object);
        break;

    case POLICY_PEMS:
        value_pems(c);
        break;

    case POLICY_RULES:
        (void) text_rule(c, object, value ? *(policy_rule_t **) value : NULL);
        break;

    case POLICY_POLICIES:
    case POLICY_KINDS:
        text_policy(c, value ? *(policy_t **) value : NULL);
        break;
    }
}


static int
text_compare_strings(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}


static int
text_compare_ranges(const void *a, const void *b)
{
    int                     rc;
    const address_range_t  *x = a, *y = b;

    rc = (int) x->v6 - (int) y->v6;

    if (rc == 0) {
        rc = memcmp(x->bytes, y->bytes, 16);
    }

    return rc ? rc : (int) x->prefix - (int) y->prefix;
}


static int
text_compare_ids(const void *a, const void *b)
{
    const uint32_t  *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}


int
policy_text_compare_rules(const void *a, const void *b)
{
    int                   rc;
    const policy_rule_t  *x, *y;

    x = *(policy_rule_t *const *) a;
    y = *(policy_rule_t *const *) b;

    rc = strcmp(x->host, y->host);

    if (rc == 0) {
        rc = (int) x->wildcard - (int) y->wildcard;
    }

    return rc ? rc : (int) x->port - (int) y->port;
}


static int
text_compare_policies(const void *a, const void *b)
{
    return strcmp((*(policy_t *const *) a)->name,
                  (*(policy_t *const *) b)->name);
}
