/*
 * Snapshots: what a worker finds in one is what the configuration says, at the
 * same cost for few hosts and many, and a damaged one is never read beyond its
 * end.
 */

#include <jansson.h>

#include "policy_full.h"
#include "policy_opened.h"


static unsigned char *
snapshot(policy_set_t *set, size_t *len)
{
    unsigned char  *data;

    assert_int_equal(policy_set_complete(set), 0);
    data = policy_snapshot_make(set, len);
    assert_non_null(data);

    return data;
}


static policy_match_t
find(const policy_t *policy, const char *target, const policy_rule_t **rule)
{
    authority_t  a;

    assert_int_equal(authority_parse((const unsigned char *) target,
                                     strlen(target), 443, &a), AUTHORITY_OK);

    return policy_find_rule(policy, &a, rule);
}


/* Every rule has the text that it has in the set's own text. */

static void
test_same(void **state)
{
    char                  hash[POLICY_HASH_LEN + 1], *text;
    size_t                i, k, n;
    policy_t             *policy;
    const policy_t       *seen;
    policy_set_t         *set;
    const policy_rule_t  *rule, *found;

    (void) state;

    opened_forget();
    set = full_set(false);
    text = dump(set);

    for (i = 0; i < set->policies_count; i++) {

        policy = set->policies[i];
        (void) strcpy(hash, policy->hash);
        seen = opened(policy);

        assert_string_equal(policy->hash, hash);
        assert_string_equal(seen->hash, hash);
        assert_int_equal(seen->rules_count, policy->rules_count);

        for (k = 0; k < seen->rules_count; k++) {
            rule = policy_rule_at(seen, k);
            assert_non_null(rule);
            assert_int_equal(find(seen, rule->wildcard ? "a.packages.example"
                                        : rule->name, &found), POLICY_FOUND);
            assert_ptr_equal(found, rule);
        }

        assert_null(policy_rule_at(seen, k));
        assert_int_equal(opened_set->loaded, seen->rules_count);
        free(text);

        /* all that was read writes the same text */

        text = policy_dump(policy, &n);
        free(text);
        text = policy_dump(seen, &k);
        assert_int_equal(n, k);
        policy_hash_text(text, k, hash);
        assert_string_equal(hash, seen->hash);
    }

    free(text);
    policy_set_free(set);
}


static void
test_rule(void **state)
{
    policy_t             *policy;
    policy_set_t         *set;
    const policy_t       *seen;
    const policy_rule_t  *rule;

    (void) state;

    opened_forget();
    set = policy_set_new();
    policy = policy_set_add(set, "p", err);

    add_rule(policy, "b.test:8080");
    add_rule(policy, "*.test.example")->file = "/etc/other.conf";
    policy->rules[1]->line = 70000;
    add_rule(policy, "a.test")->file = "/etc/nginx.conf";
    policy->rules[2]->line = 7;
    add_rule(policy, "b.test:81");
    add_rule(policy, "b.test");

    seen = opened(policy);

    assert_int_equal(find(seen, "a.test", &rule), POLICY_FOUND);
    assert_string_equal(rule->name, "a.test");
    assert_string_equal(rule->file, "/etc/nginx.conf");
    assert_int_equal(rule->line, 7);
    assert_int_equal(rule->methods_count, 2);

    assert_int_equal(find(seen, "x.y.test.example:80", &rule), POLICY_FOUND);
    assert_string_equal(rule->name, "*.test.example");
    assert_string_equal(rule->file, "/etc/other.conf");
    assert_int_equal(rule->line, 70000);

    assert_int_equal(find(seen, "b.test:81", &rule), POLICY_FOUND);
    assert_null(rule->file);
    assert_int_equal(find(seen, "b.test", &rule), POLICY_FOUND);
    assert_int_equal(rule->port, 0);
    assert_int_equal(find(seen, "b.test:82", &rule), POLICY_NO_PORT);
    assert_null(rule);
    assert_int_equal(find(seen, "c.test", &rule), POLICY_NO_HOST);

    assert_int_equal(seen->ports_count, 2);
    assert_int_equal(seen->ports[0] + seen->ports[1], 8080 + 81);

    /* what was found stays when nothing more can be looked up */

    assert_int_equal(find(seen, "a.test", &rule), POLICY_FOUND);
    policy_snapshot_close(opened_set);
    assert_string_equal(rule->name, "a.test");
    assert_int_equal(find(seen, "a.test", &rule), POLICY_STALE);
    assert_null(rule);

    policy_set_free(set);
}


/* A list of any length costs what is used of it. */

static void
test_many(void **state)
{
    char                  host[64], *text;
    size_t                i, n;
    json_t               *object;
    policy_t             *policy;
    policy_set_t         *set;
    const policy_t       *seen;
    const policy_rule_t  *rule;

    (void) state;

    opened_forget();
    set = policy_set_new();
    policy = policy_set_add(set, "p", err);

    for (i = 0; i < 20000; i++) {

        /* not in their order */

        (void) snprintf(host, sizeof(host), "h%zu.svc.example.com",
                        i * 7919 % 20000);
        rule = add_rule(policy, host);

        if (i % 2) {
            must(policy_rule_add_method((policy_rule_t *) rule, "POST", err));
        }
    }

    seen = opened(policy);

    for (i = 0; i < 20000; i += 1999) {
        (void) snprintf(host, sizeof(host), "h%zu.svc.example.com", i);
        assert_int_equal(find(seen, host, &rule), POLICY_FOUND);
        assert_string_equal(rule->host, host);
    }

    assert_int_equal(find(seen, "h20000.svc.example.com", &rule),
                     POLICY_NO_HOST);
    assert_int_equal(opened_set->loaded, 11);
    assert_true(opened_set->snapshot_len < 20000 * 80);

    text = policy_snapshot_text(seen, 60000, &n);
    assert_non_null(text);
    assert_true(n <= 60000 && n > 50000);
    object = json_loadb(text, n, 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(object,
                                                        "rules_count")),
                     20000);
    assert_true(json_array_size(json_object_get(object, "rules")) > 100);
    json_decref(object);
    free(text);

    policy_set_free(set);
}


/* Each byte in turn has other values: nothing is read beyond the end. */

static void
test_damaged(void **state)
{
    size_t                i, k, len, n;
    policy_set_t         *set, *seen;
    unsigned char        *data, *exact, was;
    const policy_rule_t  *rule;

    static const unsigned char  values[] = { 0, 1, 0x7f, 0xff };

    (void) state;

    set = full_set(false);
    data = snapshot(set, &len);
    exact = malloc(len);
    memcpy(exact, data, len);

    for (i = 0; i < len; i++) {

        was = exact[i];

        for (k = 0; k < COUNT(values); k++) {

            exact[i] = values[k];
            seen = policy_snapshot_open(exact, len, err);

            for (n = 0; seen && n < seen->policies_count; n++) {
                (void) find(seen->policies[n], "api.internal:8443", &rule);
                (void) find(seen->policies[n], "a.packages.example", &rule);
                (void) policy_rule_at(seen->policies[n], 0);
            }

            policy_set_free(seen);
        }

        exact[i] = was;
    }

    free(exact);

    for (i = 0; i < len; i += 7) {
        exact = malloc(i + 1);
        memcpy(exact, data, i);
        assert_null(policy_snapshot_open(exact, i, err));
        free(exact);
    }

    free(data);
    policy_set_free(set);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        PROMISE("what is read from a snapshot is what was written",
                test_same),
        PROMISE("a rule is found with its place in the configuration",
                test_rule),
        PROMISE("of many hosts only those that are asked for are read",
                test_many),
        PROMISE("a damaged snapshot is not read beyond its end",
                test_damaged),
    };

    int  rc;

    rc = unit_run(tests);
    opened_forget();

    return rc;
}
