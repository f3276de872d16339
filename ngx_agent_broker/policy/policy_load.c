/*
 * Reads the text form of policies.  Only the text that policy_text.c writes is
 * read: the keys in their order, no white space, nothing left out.  That makes
 * the reader a list of what is expected next, five times as fast as a parser
 * of any JSON (a worker reads 100,000 hosts between two requests), and a text
 * that was cut or changed loads as nothing.
 *
 * The text comes from the master through shared memory, yet every value passes
 * through the functions that the directives use, and the whole is checked
 * before anyone sees it.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy_internal.h"
#include "policy/policy_reader.h"


#define HOST_TEXT_MAX  (AUTHORITY_HOST_MAX + sizeof("*.[]:65535"))


static int read_set(reader_t *r);
static int read_certificates(reader_t *r);
static int read_policy(reader_t *r);
static int read_limits(reader_t *r, policy_t *policy);
static int read_bounds(reader_t *r, policy_t *policy);
static int read_box(reader_t *r, policy_t *policy);
static int read_launchers(reader_t *r, policy_t *policy);
static int read_rule(reader_t *r, policy_t *policy);
static policy_rule_t *read_host(reader_t *r, policy_t *policy);
static int read_credential(reader_t *r, policy_rule_t *rule);
static int read_trusted(reader_t *r, char **text, policy_pem_t **pem);


policy_set_t *
policy_set_load(const char *text, size_t n, char err[POLICY_ERROR_MAX])
{
    int       rc;
    reader_t  r;

    memset(&r, 0, sizeof(reader_t));

    r.start = text;
    r.p = text;
    r.end = text + n;
    r.err = err;
    r.set = policy_set_new();

    if (r.set == NULL) {
        (void) reader_no_memory(&r);
        return NULL;
    }

    rc = read_set(&r);

    free(r.word);

    if (rc != 0) {
        policy_set_free(r.set);
        return NULL;
    }

    return r.set;
}


static int
read_set(reader_t *r)
{
    int        rc;
    char      *text, *trusted;
    size_t     i, n, count;
    uint64_t   version;

    if (reader_expect(r, "{\"v\":") != 0
        || reader_number(r, UINT32_MAX, &version) != 0)
    {
        return -1;
    }

    if (version != POLICY_TEXT_VERSION) {
        return policy_error(r->err, "policies", "v", "has an unknown value");
    }

    /* the default certificates are named before the text of any is known */

    trusted = NULL;

    if (reader_expect(r, ",\"generation\":") != 0
        || reader_number(r, UINT64_MAX, &r->set->generation) != 0
        || reader_expect(r, ",\"trusted\":") != 0)
    {
        return -1;
    }

    if (!reader_skip(r, "null")) {

        if (reader_string(r) == NULL) {
            return -1;
        }

        trusted = strdup(r->word);

        if (trusted == NULL) {
            return reader_no_memory(r);
        }
    }

    rc = read_certificates(r);

    if (rc == 0 && trusted) {
        r->set->pem = policy_set_find_pem(r->set, trusted);

        if (r->set->pem == NULL) {
            rc = policy_error(r->err, "trusted", trusted,
                              "names no certificate");

        } else {
            r->set->trusted_pem = r->set->pem->text;
        }
    }

    free(trusted);

    if (rc != 0 || reader_expect(r, ",\"policies\":[") != 0) {
        return -1;
    }

    for (count = 0; reader_next_item(r, "]", &count, &rc); /* void */ ) {
        if (read_policy(r) != 0) {
            return -1;
        }
    }

    if (rc != 0 || reader_expect(r, "}") != 0) {
        return -1;
    }

    if (r->p != r->end) {
        return reader_unexpected(r);
    }

    /* sets the hashes */

    for (i = 0; i < r->set->policies_count; i++) {

        text = policy_dump(r->set->policies[i], &n);

        if (text == NULL) {
            return reader_no_memory(r);
        }

        free(text);
    }

    return 0;
}


/* Each stands under the hash of its own text. */

static int
read_certificates(reader_t *r)
{
    int            rc;
    char           hash[POLICY_HASH_LEN + 1], *text;
    size_t         count;
    policy_pem_t  *pem;

    if (reader_expect(r, ",\"certificates\":{") != 0) {
        return -1;
    }

    for (count = 0; reader_next_item(r, "}", &count, &rc); /* void */ ) {

        if (reader_string(r) == NULL) {
            return -1;
        }

        if (strlen(r->word) != POLICY_HASH_LEN) {
            return policy_error(r->err, "certificates", r->word,
                                "is no hash");
        }

        (void) strcpy(hash, r->word);

        if (reader_expect(r, ":") != 0 || reader_string(r) == NULL) {
            return -1;
        }

        text = strdup(r->word);
        pem = NULL;

        if (text == NULL
            || policy_set_adopt_pem(r->set, &text, &pem) != 0)
        {
            free(text);
            return policy_error(r->err, "certificates", hash,
                                "has no PEM text");
        }

        if (strcmp(pem->hash, hash) != 0) {
            return policy_error(r->err, "certificates", hash,
                                "has the text of another");
        }
    }

    return rc;
}


static int
read_policy(reader_t *r)
{
    int            rc;
    size_t         count;
    policy_t      *policy;
    policy_pem_t  *pem;

    if (reader_expect(r, "{\"name\":") != 0 || reader_string(r) == NULL) {
        return -1;
    }

    policy = policy_set_add(r->set, r->word, r->err);

    if (policy == NULL
        || reader_expect(r, ",\"isolation\":") != 0
        || reader_string(r) == NULL)
    {
        return -1;
    }

    free(policy->isolation);
    policy->isolation = strdup(r->word);

    if (policy->isolation == NULL) {
        return reader_no_memory(r);
    }

    if (read_limits(r, policy) != 0
        || read_bounds(r, policy) != 0
        || read_box(r, policy) != 0
        || read_launchers(r, policy) != 0
        || reader_expect(r, ",\"trusted\":") != 0)
    {
        return -1;
    }

    /* the set's default, repeated so that it is in the policy's hash */

    if (reader_skip(r, "null")) {
        pem = NULL;

    } else {

        if (reader_string(r) == NULL) {
            return -1;
        }

        pem = policy_set_find_pem(r->set, r->word);

        if (pem == NULL) {
            return reader_unexpected(r);
        }
    }

    if (pem != r->set->pem) {
        return policy_error(r->err, "policy", policy->name,
                            "trusts others than its set");
    }

    if (reader_expect(r, ",\"rules\":[") != 0) {
        return -1;
    }

    for (count = 0; reader_next_item(r, "]", &count, &rc); /* void */ ) {
        if (read_rule(r, policy) != 0) {
            return -1;
        }
    }

    if (rc != 0 || reader_expect(r, "}") != 0) {
        return -1;
    }

    return policy_check(policy, r->err);
}


static int
read_bounds(reader_t *r, policy_t *policy)
{
    size_t  i;

    for (i = 0; i < BOUND_COUNT; i++) {

        if (reader_expect(r, i ? ",\"" : ",\"bounds\":{\"") != 0
            || reader_expect(r, bound_table[i].directive) != 0
            || reader_expect(r, "\":") != 0
            || reader_number(r, bound_table[i].max, &policy->bounds[i]) != 0)
        {
            return -1;
        }
    }

    return reader_expect(r, "}");
}


/* What values are allowed is policy_check's. */

static int
read_limits(reader_t *r, policy_t *policy)
{
    size_t       i;
    const char  *start, *why;

    for (i = 0; i < LIMIT_COUNT; i++) {

        if (reader_expect(r, i ? ",\"" : ",\"limits\":{\"") != 0
            || reader_expect(r, limit_table[i].key) != 0
            || reader_expect(r, "\":") != 0)
        {
            return -1;
        }

        if (limit_table[i].unit != UNIT_CORES) {

            if (reader_number(r, UINT64_MAX, &policy->limits[i]) != 0) {
                return -1;
            }

            continue;
        }

        start = r->p;

        while (r->p < r->end
               && ((*r->p >= '0' && *r->p <= '9') || *r->p == '.'))
        {
            r->p++;
        }

        if (limit_parse((limit_id_t) i, start, (size_t) (r->p - start),
                        &policy->limits[i], &why)
            != 0)
        {
            return policy_error(r->err, "limit", limit_table[i].key, why);
        }
    }

    return reader_expect(r, "}");
}


static int
read_box(reader_t *r, policy_t *policy)
{
    int       rc;
    size_t    count;
    uint64_t  bytes;

    if (reader_expect(r, ",\"writable\":[") != 0) {
        return -1;
    }

    for (count = 0; reader_next_item(r, "]", &count, &rc); /* void */ ) {

        if (reader_expect(r, "{\"path\":") != 0
            || reader_string(r) == NULL
            || reader_expect(r, ",\"bytes\":") != 0
            || reader_number(r, UINT64_MAX, &bytes) != 0
            || reader_expect(r, "}") != 0
            || policy_add_writable(policy, r->word, bytes, r->err) != 0)
        {
            return -1;
        }
    }

    if (rc != 0 || reader_expect(r, ",\"readable\":[") != 0) {
        return -1;
    }

    for (count = 0; reader_next_item(r, "]", &count, &rc); /* void */ ) {
        if (reader_string(r) == NULL
            || policy_add_readable(policy, r->word, r->err) != 0)
        {
            return -1;
        }
    }

    if (rc != 0 || reader_expect(r, ",\"env\":[") != 0) {
        return -1;
    }

    for (count = 0; reader_next_item(r, "]", &count, &rc); /* void */ ) {
        if (reader_string(r) == NULL
            || policy_add_env(policy, r->word, r->err) != 0)
        {
            return -1;
        }
    }

    return rc;
}


static int
read_launchers(reader_t *r, policy_t *policy)
{
    int       rc, group;
    size_t    count;
    uint64_t  id;

    for (group = 0; group < 2; group++) {

        if (reader_expect(r, group ? ",\"gids\":["
                                   : ",\"launchers\":{\"uids\":[")
            != 0)
        {
            return -1;
        }

        for (count = 0; reader_next_item(r, "]", &count, &rc); /* void */ ) {
            if (reader_number(r, UINT32_MAX - 1, &id) != 0
                || policy_add_launcher_id(policy, group == 1, (uint32_t) id,
                                          r->err)
                   != 0)
            {
                return -1;
            }
        }

        if (rc != 0) {
            return -1;
        }
    }

    return reader_expect(r, "}");
}


static int
read_rule(reader_t *r, policy_t *policy)
{
    int             rc;
    size_t          count;
    policy_rule_t  *rule;

    rule = read_host(r, policy);

    if (rule == NULL || reader_expect(r, ",\"methods\":[") != 0) {
        return -1;
    }

    for (count = 0; reader_next_item(r, "]", &count, &rc); /* void */ ) {
        if (reader_string(r) == NULL
            || policy_rule_add_method(rule, r->word, r->err) != 0)
        {
            return -1;
        }
    }

    /* none would mean GET and HEAD, which the text always spells */

    if (rc == 0 && rule->methods_count == 0) {
        return reader_unexpected(r);
    }

    if (rc != 0 || reader_expect(r, ",\"plaintext\":") != 0) {
        return -1;
    }

    rule->plaintext = reader_skip(r, "true");

    if ((!rule->plaintext && reader_expect(r, "false") != 0)
        || reader_expect(r, ",\"websocket\":") != 0)
    {
        return -1;
    }

    rule->websocket = reader_skip(r, "true");

    if ((!rule->websocket && reader_expect(r, "false") != 0)
        || reader_expect(r, ",\"tunnel\":") != 0)
    {
        return -1;
    }

    rule->tunnel = reader_skip(r, "true");

    if ((!rule->tunnel && reader_expect(r, "false") != 0)
        || read_credential(r, rule) != 0
        || reader_expect(r, ",\"private\":[") != 0)
    {
        return -1;
    }

    for (count = 0; reader_next_item(r, "]", &count, &rc); /* void */ ) {
        if (reader_string(r) == NULL
            || policy_rule_add_range(rule, r->word, r->err) != 0)
        {
            return -1;
        }
    }

    if (rc != 0
        || reader_expect(r, ",\"trusted\":") != 0
        || read_trusted(r, &rule->trusted_pem, &rule->pem) != 0
        || reader_expect(r, ",\"hint\":") != 0)
    {
        return -1;
    }

    if (!reader_skip(r, "null")
        && (reader_string(r) == NULL
            || policy_rule_set_hint(rule, r->word, r->err) != 0))
    {
        return -1;
    }

    return reader_expect(r, "}");
}


static policy_rule_t *
read_host(reader_t *r, policy_t *policy)
{
    int       n;
    char      host[HOST_TEXT_MAX];
    uint64_t  port;

    if (reader_expect(r, "{\"host\":") != 0 || reader_string(r) == NULL) {
        return NULL;
    }

    /* an address of IPv6 is the one host with a colon; it has no brackets */

    n = snprintf(host, sizeof(host), strchr(r->word, ':') ? "[%s]" : "%s",
                 r->word);

    if (n > (int) sizeof(host) - (int) sizeof(":65535") || r->word[0] == '[') {
        (void) policy_error(r->err, "host", r->word, "is malformed");
        return NULL;
    }

    if (reader_expect(r, ",\"ports\":[") != 0) {
        return NULL;
    }

    if (!reader_skip(r, "80,443]")) {

        if (reader_number(r, 65535, &port) != 0 || reader_expect(r, "]") != 0) {
            return NULL;
        }

        (void) sprintf(host + n, ":%u", (unsigned) port);
    }

    return policy_add_rule(policy, host, r->err);
}


static int
read_credential(reader_t *r, policy_rule_t *rule)
{
    if (reader_expect(r, ",\"credential\":") != 0) {
        return -1;
    }

    if (reader_skip(r, "null")) {
        return 0;
    }

    if (reader_expect(r, "{\"kind\":\"bearer\",\"name\":") != 0
        || reader_string(r) == NULL)
    {
        return -1;
    }

    rule->credential_kind = CREDENTIAL_BEARER;
    rule->credential = strdup(r->word);

    if (rule->credential == NULL) {
        return reader_no_memory(r);
    }

    return reader_expect(r, "}");
}


static int
read_trusted(reader_t *r, char **text, policy_pem_t **pem)
{
    if (reader_skip(r, "null")) {
        return 0;
    }

    if (reader_string(r) == NULL) {
        return -1;
    }

    *pem = policy_set_find_pem(r->set, r->word);

    if (*pem == NULL) {
        return policy_error(r->err, "trusted", r->word,
                            "names no certificate");
    }

    *text = (*pem)->text;

    return 0;
}
