/*
 * The text form of policies: one meaning is one text and one hash, and it
 * loads as what it was.
 */

#include <jansson.h>

#include "unit.h"

#include "policy_full.h"
#include "policy_opened.h"

#include "policy/policy_pem.h"


static void
test_round_trip(void **state)
{
    char                  *text, *again, *pem;
    json_t                *object;
    policy_t              *policy;
    authority_t            a;
    policy_set_t          *set, *loaded;
    const policy_rule_t   *rule;

    (void) state;

    set = full_set(false);
    text = dump(set);

    object = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(object);
    json_decref(object);

    loaded = policy_set_load(text, strlen(text), err);
    expect(loaded != NULL, "%s", err);

    again = dump(loaded);
    assert_string_equal(text, again);

    assert_int_equal(loaded->generation, 7);
    assert_int_equal(loaded->policies_count, 2);
    assert_string_equal(loaded->trusted_pem, PEM);

    policy = (policy_t *) policy_set_find(loaded, "analysis");
    assert_non_null(policy);
    assert_string_equal(policy->hash, policy_set_find(set, "analysis")->hash);
    assert_int_equal(policy->limits[LIMIT_CPU], 1250);
    assert_int_equal(policy->limits[LIMIT_MEMORY], 1ULL << 40);
    assert_int_equal(policy->limits[LIMIT_WALL_CLOCK], 20000);
    assert_int_equal(policy->bounds[BOUND_CONNECTIONS], 7);
    assert_int_equal(policy->bounds[BOUND_BYTES_UP], 1 << 20);
    assert_int_equal(policy->bounds[BOUND_MINTS],
                     bound_table[BOUND_MINTS].standard);

    assert_int_equal(authority_parse((const unsigned char *) "API.internal",
                                     12, 443, &a), AUTHORITY_OK);
    assert_int_equal(policy_find_rule(opened(policy), &a, &rule), POLICY_FOUND);
    assert_int_equal(rule->port, 0);
    assert_string_equal(rule->credential, "api_internal");
    assert_string_equal(rule->hint, "use /v1/\"search\" \xe2\x86\x92");
    assert_string_equal(rule->trusted_pem, PEM2);
    assert_int_equal(rule->ranges_count, 2);
    assert_true(policy_rule_allows_method(rule, "POST", 4));

    /* one text of certificates, whoever names it */

    assert_int_equal(authority_parse((const unsigned char *)
                                     "metrics.internal:9090", 21, 443, &a),
                     AUTHORITY_OK);
    pem = rule->trusted_pem;
    assert_int_equal(policy_find_rule(opened(policy), &a, &rule), POLICY_FOUND);
    assert_true(rule->plaintext);
    assert_true(rule->websocket);
    assert_false(rule->tunnel);
    assert_ptr_equal(rule->trusted_pem, pem);

    assert_int_equal(authority_parse((const unsigned char *)
                                     "api.internal:8443", 17, 443, &a),
                     AUTHORITY_OK);
    assert_int_equal(policy_find_rule(opened(policy), &a, &rule), POLICY_FOUND);
    assert_true(rule->tunnel);
    assert_false(rule->websocket);

    free(text);
    free(again);
    policy_set_free(set);
    policy_set_free(loaded);
}


static void
test_canonical(void **state)
{
    char          *one, *other;
    policy_set_t  *a, *b;

    (void) state;

    a = full_set(false);
    b = full_set(true);

    one = dump(a);
    other = dump(b);

    assert_string_equal(one, other);
    assert_string_equal(policy_set_find(a, "analysis")->hash,
                        policy_set_find(b, "analysis")->hash);

    free(one);
    free(other);
    policy_set_free(a);
    policy_set_free(b);
}


static void
test_hash_of_text(void **state)
{
    char           hash[POLICY_HASH_LEN + 1], *text;
    size_t         n;
    policy_t      *policy;
    policy_set_t  *set;

    (void) state;

    set = full_set(false);
    policy = set->policies[0];
    free(dump(set));
    (void) strcpy(hash, policy->hash);

    text = policy_dump(policy, &n);
    assert_non_null(text);
    policy_hash_text(text, n, policy->hash);
    assert_string_equal(policy->hash, hash);
    assert_int_equal(strlen(policy->hash), POLICY_HASH_LEN);
    assert_memory_equal(policy->hash, "sha256:", 7);
    free(text);

    /* the generation is not the policy's, the default certificates are */

    set->generation = 8;
    text = dump(set);
    assert_string_equal(policy->hash, hash);
    assert_non_null(strstr(text, "\"generation\":8"));
    free(text);

    policy_set_free(set);

    set = full_set(false);
    free(set->trusted_pem);
    set->trusted_pem = strdup(PEM2);
    text = dump(set);
    assert_string_not_equal(set->policies[0]->hash, hash);
    free(text);
    policy_set_free(set);
}


static void  change_cpu(policy_t *p)
    { p->limits[LIMIT_CPU] += 1; }
static void  change_limit(policy_t *p)
    { p->limits[LIMIT_NEAR] -= 1; }
static void  change_env(policy_t *p)
    { must(policy_add_env(p, "LC_ALL", err)); }
static void  change_readable(policy_t *p)
    { must(policy_add_readable(p, "/srv/data", err)); }
static void  change_writable(policy_t *p)
    { p->writable[0].bytes++; }
static void  change_user(policy_t *p)
    { must(policy_add_launcher(p, "user:77", err)); }
static void  change_group(policy_t *p)
    { must(policy_add_launcher(p, "group:77", err)); }
static void  change_host(policy_t *p)
    { (void) add_rule(p, "one.more.internal"); }
static void  change_method(policy_t *p)
    { must(policy_rule_add_method(p->rules[0], "PUT", err)); }
static void  change_range(policy_t *p)
    { must(policy_rule_add_range(p->rules[0], "10.3.0.0/16", err)); }
static void  change_plaintext(policy_t *p)
    { p->rules[2]->plaintext = false; }
static void  change_credential(policy_t *p)
    { p->rules[0]->credential[0] = 'b'; }
static void  change_kind(policy_t *p)
    { p->rules[1]->credential_kind = CREDENTIAL_QUERY; }
static void  change_field(policy_t *p)
    { p->rules[1]->credential_field[0] = 'Y'; }
static void  change_scope(policy_t *p)
    { p->rules[1]->credential_wildcard = false; }
static void  change_client(policy_t *p)
    { p->rules[2]->client_credentials = false; }
static void  change_cookies(policy_t *p)
    { p->rules[0]->cookies = false; }
static void  change_hint(policy_t *p)
    { p->rules[0]->hint[0] = 'U'; }
static void  change_isolation(policy_t *p)
    { (void) strcpy(p->isolation, "gvisor"); }
static void  change_trusted(policy_t *p)
    { p->rules[0]->trusted_pem[0] = '%'; }
static void  change_port(policy_t *p)
    { p->rules[5]->port = 8444; }
static void  change_bound(policy_t *p)
    { p->bounds[BOUND_CONNECTIONS]++; }
static void  change_last_bound(policy_t *p)
    { p->bounds[BOUND_COUNT - 1]--; }
static void  change_websocket(policy_t *p)
    { p->rules[2]->websocket = false; }
static void  change_other_websocket(policy_t *p)
    { p->rules[1]->websocket = true; }
static void  change_tunnel(policy_t *p)
    { p->rules[5]->tunnel = false; }


static void
test_sensitive(void **state)
{
    char           hashes[32][POLICY_HASH_LEN + 1], *text;
    size_t         i, k;
    policy_set_t  *set;

    static void  (*const changes[])(policy_t *) = {
        NULL, change_cpu, change_limit, change_env, change_readable,
        change_writable, change_user, change_group, change_host,
        change_method, change_range, change_plaintext, change_credential,
        change_hint, change_isolation, change_trusted, change_port,
        change_bound, change_last_bound, change_websocket,
        change_other_websocket, change_tunnel, change_kind, change_field,
        change_scope, change_client, change_cookies
    };

    (void) state;

    for (i = 0; i < COUNT(changes); i++) {

        set = full_set(false);

        if (changes[i]) {
            changes[i](set->policies[0]);
        }

        text = dump(set);
        (void) strcpy(hashes[i], set->policies[0]->hash);
        free(text);
        policy_set_free(set);

        for (k = 0; k < i; k++) {
            expect(strcmp(hashes[i], hashes[k]) != 0,
                   "changes %zu and %zu have one hash", i, k);
        }
    }

    /* what means the same is the same: GET HEAD is the default */

    set = policy_set_new();

    for (i = 0; i < 3; i++) {

        policy_t       *policy;
        policy_rule_t  *rule;

        policy = policy_set_add(set, i ? (i == 1 ? "b" : "c") : "a", err);
        rule = add_rule(policy, "x.test");

        if (i == 1) {
            must(policy_rule_add_method(rule, "GET", err));
        }

        if (i == 2) {
            must(policy_rule_add_method(rule, "HEAD", err));
            must(policy_rule_add_method(rule, "GET", err));
        }

        assert_int_equal(policy_set_complete(set), 0);
        text = policy_dump(policy, &k);
        assert_non_null(strstr(text, "\"methods\":[\"GET\",\"HEAD\"]"));
        free(text);
    }

    policy_set_free(set);
}


static void
count_free(void *data)
{
    ++*(int *) data;
}


static void
test_data(void **state)
{
    int            freed;
    char          *text;
    policy_set_t  *set;

    (void) state;

    freed = 0;
    set = full_set(false);
    set->data_free = count_free;
    text = dump(set);
    set->pem->data = &freed;
    policy_set_free(set);
    assert_int_equal(freed, 1);
    free(text);

    policy_set_free(NULL);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        PROMISE("a dumped set loads as it was, byte for byte",
                test_round_trip),
        PROMISE("one meaning is one text, in whatever order it was written",
                test_canonical),
        PROMISE("a policy's hash is of its own text and the certificates it "
                "trusts", test_hash_of_text),
        PROMISE("every change of a policy changes its hash", test_sensitive),
        PROMISE("the data of certificates is freed once with its set",
                test_data),
    };

    return unit_run(tests);
}
