/*
 * The text form of policies: one meaning is one text and one hash, it loads
 * as what it was, and a damaged one does not load.
 */

#include <jansson.h>

#include "unit.h"

#include "policy.h"


#define PEM    "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
#define PEM2   "# \xc3\xbc\n-----BEGIN CERTIFICATE-----\nBBBB\n" \
               "-----END CERTIFICATE-----\n"


static char  err[POLICY_ERROR_MAX];


static policy_rule_t *
add_rule(policy_t *policy, const char *host)
{
    policy_rule_t  *rule;

    rule = policy_add_rule(policy, host, err);
    expect(rule != NULL, "%s", err);

    return rule;
}


#define must(call)  expect((call) == 0, "%s", err)


/* A set that uses everything; backwards gives the directives in turn. */

static policy_set_t *
full_set(bool backwards)
{
    size_t          i;
    policy_t       *policy;
    policy_set_t   *set;
    policy_rule_t  *rule;

    static const char *const  names[] = { "analysis", "build" };
    static const char *const  hosts[] = {
        "api.internal", "*.packages.example", "metrics.internal:9090",
        "10.1.2.3", "[2001:db8::1]:8443", "api.internal:8443"
    };

    set = policy_set_new();
    set->generation = 7;
    set->trusted_pem = strdup(PEM);

    for (i = 0; i < 2; i++) {
        policy = policy_set_add(set, names[backwards ? 1 - i : i], err);
        expect(policy != NULL, "%s", err);
    }

    policy = set->policies[backwards ? 1 : 0];

    policy->limits[LIMIT_CPU] = 1250;
    policy->limits[LIMIT_MEMORY] = 1ULL << 40;

    for (i = 0; i < 2; i++) {
        if ((i == 0) == !backwards) {
            must(policy_add_writable(policy, "/tmp/work", 268435456, err));
            must(policy_add_readable(policy, "/opt/venv", err));
            must(policy_add_env(policy, "LANG", err));
            must(policy_add_launcher(policy, "user:1000", err));
            must(policy_add_launcher(policy, "group:7", err));
        } else {
            must(policy_add_writable(policy, "/tmp/a", 4096, err));
            must(policy_add_readable(policy, "/opt/\xc3\xbc \"x\\y", err));
            must(policy_add_env(policy, "TZ", err));
            must(policy_add_launcher(policy, "user:9", err));
            must(policy_add_launcher(policy, "group:100", err));
        }
    }

    for (i = 0; i < COUNT(hosts); i++) {

        rule = add_rule(policy, hosts[backwards ? COUNT(hosts) - 1 - i : i]);

        if (strcmp(rule->host, "api.internal") == 0 && rule->port == 0) {

            must(policy_rule_add_method(rule, backwards ? "POST" : "GET",
                                        err));
            must(policy_rule_add_method(rule, backwards ? "GET" : "POST",
                                        err));
            must(policy_rule_add_range(rule, backwards ? "fd12::/16"
                                                       : "10.2.0.0/16", err));
            must(policy_rule_add_range(rule, backwards ? "10.2.0.0/16"
                                                       : "fd12::/16", err));
            must(policy_rule_set_hint(rule, "use /v1/\"search\" \xe2\x86\x92",
                                      err));
            rule->credential_kind = CREDENTIAL_BEARER;
            rule->credential = strdup("api_internal");
            rule->trusted_pem = strdup(PEM2);

        } else if (strcmp(rule->host, "metrics.internal") == 0) {
            rule->plaintext = true;
            must(policy_rule_add_range(rule, "10.0.0.0/8", err));
            rule->trusted_pem = strdup(PEM2);

        } else if (rule->kind == AUTHORITY_IPV4) {
            must(policy_rule_add_range(rule, "10.1.2.3", err));

        } else if (rule->kind == AUTHORITY_IPV6) {
            must(policy_rule_add_range(rule, "2001:db8::/32", err));
        }
    }

    for (i = 0; i < 2; i++) {
        must(policy_check(set->policies[i], err));
    }

    return set;
}


static char *
dump(policy_set_t *set)
{
    char    *text;
    size_t   n;

    text = policy_set_dump(set, &n);
    assert_non_null(text);
    assert_int_equal(strlen(text), n);

    return text;
}


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

    assert_int_equal(authority_parse((const unsigned char *) "API.internal",
                                     12, 443, &a), AUTHORITY_OK);
    assert_int_equal(policy_find_rule(policy, &a, &rule), POLICY_FOUND);
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
    assert_int_equal(policy_find_rule(policy, &a, &rule), POLICY_FOUND);
    assert_true(rule->plaintext);
    assert_ptr_equal(rule->trusted_pem, pem);

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

    text = policy_dump(policy, &n);
    assert_non_null(text);
    assert_int_equal(strlen(policy->hash), POLICY_HASH_LEN);
    assert_memory_equal(policy->hash, "sha256:", 7);
    (void) strcpy(hash, policy->hash);
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
static void  change_hint(policy_t *p)
    { p->rules[0]->hint[0] = 'U'; }
static void  change_isolation(policy_t *p)
    { (void) strcpy(p->isolation, "gvisor"); }
static void  change_trusted(policy_t *p)
    { p->rules[0]->trusted_pem[0] = '%'; }
static void  change_port(policy_t *p)
    { p->rules[5]->port = 8444; }


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
        change_hint, change_isolation, change_trusted, change_port
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

        text = policy_dump(policy, &k);
        assert_non_null(strstr(text, "\"methods\":[\"GET\",\"HEAD\"]"));
        free(text);
    }

    policy_set_free(set);
}


/* A text without one of its keys, or with another value, does not load. */

static void
expect_no_load(const char *text, size_t n, const char *what)
{
    char          *exact;
    size_t         i;
    policy_set_t  *set;

    exact = malloc(n ? n : 1);
    memcpy(exact, text, n);
    (void) strcpy(err, "");

    set = policy_set_load(exact, n, err);
    free(exact);

    expect(set == NULL, "%s loads", what);
    expect(err[0] != '\0', "%s: no reason is given", what);

    for (i = 0; err[i]; i++) {
        expect((unsigned char) err[i] >= 0x20, "%s: the reason has a control "
               "byte", what);
    }
}


static void
walk(json_t *root, json_t *node, const char *where)
{
    char          *text;
    json_t        *value;
    size_t         i, k, count;
    const char    *key;

    char           keys[16][80];

    if (json_is_array(node)) {
        for (i = 0; i < json_array_size(node); i++) {
            walk(root, json_array_get(node, i), where);
        }

        return;
    }

    if (!json_is_object(node)) {
        return;
    }

    /* an unknown key */

    (void) json_object_set_new(node, "unknown", json_true());
    text = json_dumps(root, JSON_COMPACT);
    expect_no_load(text, strlen(text), where);
    free(text);
    (void) json_object_del(node, "unknown");

    count = 0;

    json_object_foreach(node, key, value) {
        assert_true(count < COUNT(keys));
        (void) snprintf(keys[count++], sizeof(keys[0]), "%s", key);
    }

    for (k = 0; k < count; k++) {

        json_t       *others[5];
        char          name[256];

        key = keys[k];
        value = json_object_get(node, key);

        (void) snprintf(name, sizeof(name), "%s with another type of %s",
                        where, key);

        json_incref(value);

        others[0] = json_integer(-1);
        others[1] = json_string("\n{}\"");
        others[2] = json_array();
        others[3] = json_object();
        others[4] = json_real(1e300);

        for (i = 0; i < 5; i++) {

            /* an empty list or object may be a value like any other */

            if (json_typeof(others[i]) == json_typeof(value)
                && (i == 2 || i == 3))
            {
                continue;
            }

            (void) json_object_set(node, key, others[i]);
            text = json_dumps(root, JSON_COMPACT);
            expect_no_load(text, strlen(text), name);
            free(text);
        }

        for (i = 0; i < 5; i++) {
            json_decref(others[i]);
        }

        (void) snprintf(name, sizeof(name), "%s without %s", where, key);

        (void) json_object_del(node, key);
        text = json_dumps(root, JSON_COMPACT);
        expect_no_load(text, strlen(text), name);
        free(text);

        (void) json_object_set(node, key, value);
        walk(root, value, key);
        json_decref(value);
    }
}


static void
test_damaged(void **state)
{
    char          *text, *copy;
    size_t         n, i;
    json_t        *root;
    policy_set_t  *set;

    static const char *const  texts[] = {
        "", " ", "{}", "[]", "null", "1", "\"x\"", "{", "{\"v\":1}",
        "{\"v\":2,\"generation\":0,\"trusted\":null,\"certificates\":{},"
            "\"policies\":[]}",
        "{\"v\":1,\"generation\":-1,\"trusted\":null,\"certificates\":{},"
            "\"policies\":[]}",
        "{\"v\":1,\"generation\":0,\"trusted\":\"sha256:0\","
            "\"certificates\":{},\"policies\":[]}",
        "{\"v\":1,\"generation\":0,\"trusted\":null,"
            "\"certificates\":{\"sha256:0\":\"-----BEGIN \"},"
            "\"policies\":[]}",
        "{\"v\":1,\"v\":1,\"generation\":0,\"trusted\":null,"
            "\"certificates\":{},\"policies\":[]}",
        "{\"v\":1,\"generation\":0,\"trusted\":null,\"certificates\":{},"
            "\"policies\":[]}x",
        "{\"v\":1,\"generation\":99999999999999999999,\"trusted\":null,"
            "\"certificates\":{},\"policies\":[]}",
    };

    static const char  good[] =
        "{\"v\":1,\"generation\":0,\"trusted\":null,\"certificates\":{},"
        "\"policies\":[]}";

    (void) state;

    set = policy_set_load(good, sizeof(good) - 1, err);
    expect(set != NULL, "the good text: %s", err);
    policy_set_free(set);

    for (i = 0; i < COUNT(texts); i++) {
        expect_no_load(texts[i], strlen(texts[i]), texts[i]);
    }

    set = full_set(false);
    text = dump(set);
    policy_set_free(set);
    n = strlen(text);

    for (i = 0; i < n; i++) {
        expect_no_load(text, i, "a text that was cut");
    }

    /* a NUL, or a byte that is no UTF-8, anywhere */

    copy = malloc(n);

    for (i = 0; i < n; i += 5) {
        memcpy(copy, text, n);
        copy[i] = '\0';
        expect_no_load(copy, n, "a text with a NUL");
        copy[i] = (char) 0xff;
        expect_no_load(copy, n, "a text with a byte ff");
    }

    free(copy);

    /* written by another writer it loads, changed in one place it does not */

    root = json_loads(text, 0, NULL);
    copy = json_dumps(root, JSON_COMPACT);
    set = policy_set_load(copy, strlen(copy), err);
    expect(set != NULL, "another writer's text: %s", err);
    policy_set_free(set);
    free(copy);

    walk(root, root, "the set");
    json_decref(root);

    /* deeper than any parser should follow */

    copy = malloc(200000);
    memset(copy, '[', 200000);
    expect_no_load(copy, 200000, "200000 brackets");
    free(copy);
    free(text);
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
    policy_t      *policy;
    policy_set_t  *set;

    (void) state;

    freed = 0;
    set = policy_set_new();
    set->data = &freed;
    set->data_free = count_free;
    policy = policy_set_add(set, "p", err);
    add_rule(policy, "a.test")->data = &freed;
    add_rule(policy, "b.test")->data = NULL;
    policy_set_free(set);
    assert_int_equal(freed, 2);

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
        PROMISE("a text that was cut, changed or invented does not load",
                test_damaged),
        PROMISE("the loader's data is freed once with its set", test_data),
    };

    return unit_run(tests);
}
