/*
 * The text form of policies: JSON without pointers, published in shared
 * memory and read by each worker, hashed for the audit log, and shown by
 * `jail policy NAME`.
 *
 * It is written by hand, with every list sorted and every default spelled
 * out, so that two configurations that mean the same are the same text.  It is
 * read through the functions that read the configuration, with no key unknown
 * and none missing: a text that was cut or changed loads as nothing.
 *
 * Certificates stand beside the policies, once each, under their SHA-256, and
 * the policies name only that.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy_internal.h"


typedef struct {
    char    *data;
    size_t   len;
    size_t   cap;
    bool     failed;            /* no memory; data is kept for the free */
} text_t;


typedef int (*compare_t)(const void *a, const void *b);


static void dump_policy(text_t *t, const policy_t *policy);
static void dump_limits(text_t *t, const policy_t *policy);
static void dump_bounds(text_t *t, const policy_t *policy);
static void dump_rule(text_t *t, const policy_rule_t *rule);
static void dump_methods(text_t *t, const policy_rule_t *rule);
static void dump_ranges(text_t *t, const policy_rule_t *rule);
static void dump_strings(text_t *t, char *const *list, size_t count);
static void dump_ids(text_t *t, const uint32_t *list, size_t count);
static void *sorted(text_t *t, const void *list, size_t count, size_t size,
    compare_t compare);
static int adopt_pems(policy_set_t *set, policy_t *policy);

static int compare_policies(const void *a, const void *b);
static int compare_rules(const void *a, const void *b);
static int compare_ranges(const void *a, const void *b);
static int compare_writables(const void *a, const void *b);
static int compare_strings(const void *a, const void *b);
static int compare_ids(const void *a, const void *b);
static int compare_pems(const void *a, const void *b);

static void put(text_t *t, const char *text);
static void put_bytes(text_t *t, const char *p, size_t n);
static void put_string(text_t *t, const char *value);
static void put_number(text_t *t, uint64_t value);


char *
policy_set_dump(policy_set_t *set, size_t *len)
{
    char           *one;
    size_t          i, n, pems;
    text_t          t;
    policy_t      **list;
    policy_pem_t   *pem, **pem_list, **pem_sorted;

    memset(&t, 0, sizeof(text_t));

    if (policy_set_adopt_pem(set, &set->trusted_pem, &set->pem) != 0) {
        return NULL;
    }

    for (i = 0; i < set->policies_count; i++) {
        if (adopt_pems(set, set->policies[i]) != 0) {
            return NULL;
        }
    }

    put(&t, "{\"v\":");
    put_number(&t, POLICY_TEXT_VERSION);
    put(&t, ",\"generation\":");
    put_number(&t, set->generation);
    put(&t, ",\"trusted\":");
    put_string(&t, set->pem ? set->pem->hash : NULL);
    put(&t, ",\"certificates\":{");

    for (pems = 0, pem = set->pems; pem; pem = pem->next) {
        pems++;
    }

    pem_list = calloc(pems + 1, sizeof(policy_pem_t *));

    for (i = 0, pem = set->pems; pem && pem_list; pem = pem->next) {
        pem_list[i++] = pem;
    }

    pem_sorted = pem_list ? sorted(&t, pem_list, pems, sizeof(policy_pem_t *),
                                   compare_pems)
                          : NULL;

    for (i = 0; i < pems && pem_sorted; i++) {
        put(&t, i ? "," : "");
        put_string(&t, pem_sorted[i]->hash);
        put(&t, ":");
        put_string(&t, pem_sorted[i]->text);
    }

    t.failed |= (pem_sorted == NULL);
    free(pem_list);
    free(pem_sorted);

    put(&t, "},\"policies\":[");

    list = sorted(&t, set->policies, set->policies_count, sizeof(policy_t *),
                  compare_policies);

    for (i = 0; i < set->policies_count && list; i++) {

        one = policy_dump(list[i], &n);

        if (one == NULL) {
            t.failed = true;
            break;
        }

        put(&t, i ? "," : "");
        put_bytes(&t, one, n);
        free(one);
    }

    free(list);
    put(&t, "]}");

    if (t.failed) {
        free(t.data);
        return NULL;
    }

    *len = t.len;

    return t.data;
}


char *
policy_dump(policy_t *policy, size_t *len)
{
    text_t  t;

    memset(&t, 0, sizeof(text_t));

    if (policy_set_adopt_pem(policy->set, &policy->set->trusted_pem,
                             &policy->set->pem)
        != 0
        || adopt_pems(policy->set, policy) != 0)
    {
        return NULL;
    }

    dump_policy(&t, policy);

    if (t.failed) {
        free(t.data);
        return NULL;
    }

    policy_hash_text(t.data, t.len, policy->hash);
    *len = t.len;

    return t.data;
}


static void
dump_policy(text_t *t, const policy_t *policy)
{
    size_t               i;
    policy_rule_t      **rules;
    policy_writable_t   *writable;

    put(t, "{\"name\":");
    put_string(t, policy->name);
    put(t, ",\"isolation\":");
    put_string(t, policy->isolation);
    put(t, ",\"limits\":{");
    dump_limits(t, policy);
    put(t, "},\"bounds\":{");
    dump_bounds(t, policy);
    put(t, "},\"writable\":[");

    writable = sorted(t, policy->writable, policy->writable_count,
                      sizeof(policy_writable_t), compare_writables);

    for (i = 0; i < policy->writable_count && writable; i++) {
        put(t, i ? ",{\"path\":" : "{\"path\":");
        put_string(t, writable[i].path);
        put(t, ",\"bytes\":");
        put_number(t, writable[i].bytes);
        put(t, "}");
    }

    free(writable);

    put(t, "],\"readable\":");
    dump_strings(t, policy->readable, policy->readable_count);
    put(t, ",\"env\":");
    dump_strings(t, policy->env, policy->env_count);
    put(t, ",\"launchers\":{\"uids\":");
    dump_ids(t, policy->launcher_uids, policy->launcher_uids_count);
    put(t, ",\"gids\":");
    dump_ids(t, policy->launcher_gids, policy->launcher_gids_count);
    put(t, "},\"trusted\":");
    put_string(t, policy->set->pem ? policy->set->pem->hash : NULL);
    put(t, ",\"rules\":[");

    rules = sorted(t, policy->rules, policy->rules_count,
                   sizeof(policy_rule_t *), compare_rules);

    for (i = 0; i < policy->rules_count && rules; i++) {
        put(t, i ? "," : "");
        dump_rule(t, rules[i]);
    }

    free(rules);
    put(t, "]}");
}


static void
dump_limits(text_t *t, const policy_t *policy)
{
    char    number[32];
    size_t  i;

    for (i = 0; i < LIMIT_COUNT; i++) {

        put(t, i ? ",\"" : "\"");
        put(t, limit_table[i].key);
        put(t, "\":");

        if (limit_table[i].unit == UNIT_CORES) {
            put(t, limit_text(i, policy->limits[i], number, sizeof(number)));

        } else {
            put_number(t, policy->limits[i]);
        }
    }
}


static void
dump_bounds(text_t *t, const policy_t *policy)
{
    size_t  i;

    for (i = 0; i < BOUND_COUNT; i++) {
        put(t, i ? ",\"" : "\"");
        put(t, bound_table[i].directive);
        put(t, "\":");
        put_number(t, policy->bounds[i]);
    }
}


static void
dump_rule(text_t *t, const policy_rule_t *rule)
{
    put(t, "{\"host\":");

    if (rule->wildcard) {
        put(t, "\"*.");
        put(t, rule->host);         /* of a name: nothing to escape */
        put(t, "\"");

    } else {
        put_string(t, rule->host);
    }

    put(t, ",\"ports\":[");

    if (rule->port) {
        put_number(t, rule->port);

    } else {
        put(t, "80,443");
    }

    put(t, "],\"methods\":");
    dump_methods(t, rule);
    put(t, ",\"plaintext\":");
    put(t, rule->plaintext ? "true" : "false");
    put(t, ",\"websocket\":");
    put(t, rule->websocket ? "true" : "false");
    put(t, ",\"tunnel\":");
    put(t, rule->tunnel ? "true" : "false");
    put(t, ",\"credential\":");

    if (rule->credential) {
        put(t, "{\"kind\":\"bearer\",\"name\":");
        put_string(t, rule->credential);
        put(t, "}");

    } else {
        put(t, "null");
    }

    put(t, ",\"private\":[");
    dump_ranges(t, rule);
    put(t, "],\"trusted\":");
    put_string(t, rule->pem ? rule->pem->hash : NULL);
    put(t, ",\"hint\":");
    put_string(t, rule->hint);
    put(t, "}");
}


/* What is allowed, not what was written: HEAD follows GET. */

static void
dump_methods(text_t *t, const policy_rule_t *rule)
{
    bool     get, head;
    char   **list;
    size_t   i, n;

    get = (rule->methods_count == 0);
    head = false;

    for (i = 0; i < rule->methods_count; i++) {
        get = get || strcmp(rule->methods[i], "GET") == 0;
        head = head || strcmp(rule->methods[i], "HEAD") == 0;
    }

    list = calloc(rule->methods_count + 2, sizeof(char *));

    if (list == NULL) {
        t->failed = true;
        return;
    }

    for (n = 0; n < rule->methods_count; n++) {
        list[n] = rule->methods[n];
    }

    if (rule->methods_count == 0) {
        list[n++] = (char *) "GET";
    }

    if (get && !head) {
        list[n++] = (char *) "HEAD";
    }

    dump_strings(t, list, n);
    free(list);
}


static void
dump_ranges(text_t *t, const policy_rule_t *rule)
{
    char              text[ADDRESS_TEXT_MAX];
    size_t            i;
    address_t         a;
    address_range_t  *ranges;

    ranges = sorted(t, rule->ranges, rule->ranges_count,
                    sizeof(address_range_t), compare_ranges);

    for (i = 0; i < rule->ranges_count && ranges; i++) {

        a.v6 = ranges[i].v6;
        memcpy(a.bytes, ranges[i].bytes, 16);
        (void) address_text(&a, text);

        put(t, i ? ",\"" : "\"");
        put(t, text);
        put(t, "/");
        put_number(t, ranges[i].prefix);
        put(t, "\"");
    }

    free(ranges);
}


static void
dump_strings(text_t *t, char *const *list, size_t count)
{
    char   **copy;
    size_t   i;

    copy = sorted(t, list, count, sizeof(char *), compare_strings);

    put(t, "[");

    for (i = 0; i < count && copy; i++) {
        put(t, i ? "," : "");
        put_string(t, copy[i]);
    }

    put(t, "]");
    free(copy);
}


static void
dump_ids(text_t *t, const uint32_t *list, size_t count)
{
    size_t     i;
    uint32_t  *copy;

    copy = sorted(t, list, count, sizeof(uint32_t), compare_ids);

    put(t, "[");

    for (i = 0; i < count && copy; i++) {
        put(t, i ? "," : "");
        put_number(t, copy[i]);
    }

    put(t, "]");
    free(copy);
}


/* A sorted copy; NULL, with the failure noted, without memory. */

static void *
sorted(text_t *t, const void *list, size_t count, size_t size,
    compare_t compare)
{
    void  *copy;

    copy = calloc(count + 1, size);

    if (copy == NULL) {
        t->failed = true;
        return NULL;
    }

    if (count) {
        memcpy(copy, list, count * size);
        qsort(copy, count, size, compare);
    }

    return copy;
}


static int
adopt_pems(policy_set_t *set, policy_t *policy)
{
    size_t  i;

    for (i = 0; i < policy->rules_count; i++) {
        if (policy_set_adopt_pem(set, &policy->rules[i]->trusted_pem,
                                 &policy->rules[i]->pem)
            != 0)
        {
            return -1;
        }
    }

    return 0;
}


static int
compare_policies(const void *a, const void *b)
{
    return strcmp((*(policy_t *const *) a)->name,
                  (*(policy_t *const *) b)->name);
}


static int
compare_rules(const void *a, const void *b)
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
compare_ranges(const void *a, const void *b)
{
    int                     rc;
    const address_range_t  *x, *y;

    x = a;
    y = b;

    rc = (int) x->v6 - (int) y->v6;

    if (rc == 0) {
        rc = memcmp(x->bytes, y->bytes, 16);
    }

    return rc ? rc : (int) x->prefix - (int) y->prefix;
}


static int
compare_writables(const void *a, const void *b)
{
    return strcmp(((const policy_writable_t *) a)->path,
                  ((const policy_writable_t *) b)->path);
}


static int
compare_strings(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}


static int
compare_ids(const void *a, const void *b)
{
    uint32_t  x, y;

    x = *(const uint32_t *) a;
    y = *(const uint32_t *) b;

    return (x > y) - (x < y);
}


static int
compare_pems(const void *a, const void *b)
{
    return strcmp((*(policy_pem_t *const *) a)->hash,
                  (*(policy_pem_t *const *) b)->hash);
}


static void
put(text_t *t, const char *text)
{
    put_bytes(t, text, strlen(text));
}


static void
put_bytes(text_t *t, const char *p, size_t n)
{
    char    *data;
    size_t   cap;

    if (t->failed) {
        return;
    }

    if (n >= t->cap - t->len) {

        cap = (t->cap + n + 1) * 2;
        data = realloc(t->data, cap);

        if (data == NULL) {
            t->failed = true;
            return;
        }

        t->data = data;
        t->cap = cap;
    }

    memcpy(t->data + t->len, p, n);
    t->len += n;
    t->data[t->len] = '\0';
}


/* NULL is null.  What is valid UTF-8 stays so: JSON needs no more. */

static void
put_string(text_t *t, const char *value)
{
    char         escape[8];
    const char  *p, *start, *at;

    static const char  special[] = "\"\\\n\r\t";
    static const char  letters[] = "\"\\nrt";

    if (value == NULL) {
        put(t, "null");
        return;
    }

    put(t, "\"");

    for (p = start = value; *p; p++) {

        if ((unsigned char) *p >= 0x20 && *p != 0x7f && *p != '"'
            && *p != '\\')
        {
            continue;
        }

        put_bytes(t, start, (size_t) (p - start));
        start = p + 1;

        at = strchr(special, *p);

        if (at) {
            escape[0] = '\\';
            escape[1] = letters[at - special];
            put_bytes(t, escape, 2);
            continue;
        }

        (void) snprintf(escape, sizeof(escape), "\\u%04x",
                        (unsigned char) *p);
        put(t, escape);
    }

    put_bytes(t, start, (size_t) (p - start));
    put(t, "\"");
}


static void
put_number(text_t *t, uint64_t value)
{
    char  number[32];

    (void) snprintf(number, sizeof(number), "%" PRIu64, value);
    put(t, number);
}
