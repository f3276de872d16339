/*
 * Policies: which rule a target meets, what no policy may say, and who may
 * open a task.
 */

#include <unistd.h>

#include "policy_opened.h"


static char  err[POLICY_ERROR_MAX];


/* A set with the policy "p" of these hosts, up to a NULL. */

static policy_set_t *
with_hosts(const char *const *hosts, policy_t **policy)
{
    policy_set_t  *set;

    opened_forget();

    set = policy_set_new();
    assert_non_null(set);

    *policy = policy_set_add(set, "p", err);
    assert_non_null(*policy);

    for ( /* void */ ; *hosts; hosts++) {
        expect(policy_add_rule(*policy, *hosts, err) != NULL, "%s", err);
    }

    return set;
}


/* As a request would: malformed is one way of not being found. */

static const policy_rule_t *
find(const policy_t *policy, const char *target, policy_match_t *match)
{
    authority_t           a;
    const policy_rule_t  *rule;

    rule = NULL;
    *match = POLICY_NO_HOST;

    if (authority_parse((const unsigned char *) target, strlen(target), 443,
                        &a)
        == AUTHORITY_OK)
    {
        *match = policy_find_rule(opened(policy), &a, &rule);
    }

    return rule;
}


typedef struct {
    const char      *target;
    const char      *rule;              /* its host, NULL: none */
    policy_match_t   match;
} lookup_t;


static void
check_lookups(const policy_t *policy, const char *what, const lookup_t *rows,
    size_t n)
{
    size_t                i;
    policy_match_t        match;
    const policy_rule_t  *rule;

    for (i = 0; i < n; i++) {

        rule = find(policy, rows[i].target, &match);

        expect(match == rows[i].match, "%s: \"%s\" expected %d, got %d", what,
               rows[i].target, rows[i].match, match);
        expect((rule != NULL) == (match == POLICY_FOUND),
               "%s: \"%s\" has a rule without a match, or none with one",
               what, rows[i].target);
        expect(rule == NULL || strcmp(rule->host, rows[i].rule) == 0,
               "%s: \"%s\" meets the rule of %s", what, rows[i].target,
               rule->host);
    }
}


static void
test_label_boundary(void **state)
{
    policy_t      *policy;
    policy_set_t  *set;

    static const char *const  hosts[] = { "example.com", "trusted.net",
                                          NULL };

    static const lookup_t  rows[] = {
        { "example.com", "example.com", POLICY_FOUND },
        { "EXAMPLE.com.", "example.com", POLICY_FOUND },
        { "evil-example.com", NULL, POLICY_NO_HOST },
        { "example.com.evil.test", NULL, POLICY_NO_HOST },
        { "xexample.com", NULL, POLICY_NO_HOST },
        { "example.comx", NULL, POLICY_NO_HOST },
        { "example.co", NULL, POLICY_NO_HOST },
        { "xample.com", NULL, POLICY_NO_HOST },
        { "com", NULL, POLICY_NO_HOST },
        { ".example.com", NULL, POLICY_NO_HOST },
        { "example.com..", NULL, POLICY_NO_HOST },
        { "a.example.com", NULL, POLICY_NO_HOST },
        { "untrusted.net", NULL, POLICY_NO_HOST },
        { "un.trusted.net", NULL, POLICY_NO_HOST },
    };

    (void) state;

    set = with_hosts(hosts, &policy);
    check_lookups(policy, "exact", rows, COUNT(rows));
    policy_set_free(set);
}


static void
test_wildcard(void **state)
{
    policy_t      *policy;
    policy_set_t  *set;

    static const char *const  hosts[] = {
        "*.example.com", "*.deep.example.com", "www.example.com",
        "*.other.example.com:8443", "exact.port.example.com:9090", NULL
    };

    static const lookup_t  rows[] = {
        { "a.example.com", "example.com", POLICY_FOUND },
        { "a.b.example.com", "example.com", POLICY_FOUND },
        { "a.b.c.d.e.f.example.com", "example.com", POLICY_FOUND },
        { "A.Example.COM.", "example.com", POLICY_FOUND },
        { "example.com", NULL, POLICY_NO_HOST },
        { ".example.com", NULL, POLICY_NO_HOST },
        { "*.example.com", NULL, POLICY_NO_HOST },
        { "a..example.com", NULL, POLICY_NO_HOST },
        { "-.example.com", NULL, POLICY_NO_HOST },
        { "aexample.com", NULL, POLICY_NO_HOST },
        { "a-example.com", NULL, POLICY_NO_HOST },
        { "a.example.com.evil.test", NULL, POLICY_NO_HOST },

        /* the longest suffix, and the exact host before any */
        { "deep.example.com", "example.com", POLICY_FOUND },
        { "x.deep.example.com", "deep.example.com", POLICY_FOUND },
        { "x.y.deep.example.com", "deep.example.com", POLICY_FOUND },
        { "xdeep.example.com", "example.com", POLICY_FOUND },
        { "www.example.com", "www.example.com", POLICY_FOUND },
        { "x.www.example.com", "example.com", POLICY_FOUND },

        /* the most specific host alone decides about the port */
        { "x.other.example.com:8443", "other.example.com", POLICY_FOUND },
        { "x.other.example.com:443", NULL, POLICY_NO_PORT },
        { "exact.port.example.com:9090", "exact.port.example.com",
          POLICY_FOUND },
        { "exact.port.example.com", NULL, POLICY_NO_PORT },
        { "x.example.com:8443", NULL, POLICY_NO_PORT },
    };

    (void) state;

    set = with_hosts(hosts, &policy);
    check_lookups(policy, "wildcard", rows, COUNT(rows));
    policy_set_free(set);
}


static void
test_ports(void **state)
{
    policy_t      *policy;
    policy_set_t  *set;

    static const char *const  hosts[] = {
        "both.test", "both.test:8080", "one.test:443", "metrics:9090",
        "93.184.216.34", "[2606:2800::1]:8443", NULL
    };

    static const lookup_t  rows[] = {
        { "both.test", "both.test", POLICY_FOUND },
        { "both.test:80", "both.test", POLICY_FOUND },
        { "both.test:8080", "both.test", POLICY_FOUND },
        { "both.test:8443", NULL, POLICY_NO_PORT },
        { "both.test:444", NULL, POLICY_NO_PORT },
        { "one.test:443", "one.test", POLICY_FOUND },
        { "one.test:80", NULL, POLICY_NO_PORT },
        { "metrics:9090", "metrics", POLICY_FOUND },
        { "metrics", NULL, POLICY_NO_PORT },
        { "93.184.216.34:80", "93.184.216.34", POLICY_FOUND },
        { "10.1.2.4", NULL, POLICY_NO_HOST },
        { "x.93.184.216.34", NULL, POLICY_NO_HOST },
        { "[2606:2800::1]:8443", "2606:2800::1", POLICY_FOUND },
        { "[2606:2800::1]:443", NULL, POLICY_NO_PORT },
        { "[2001:db8::2]:8443", NULL, POLICY_NO_HOST },
        { "[::ffff:93.184.216.34]", NULL, POLICY_NO_HOST },
    };

    (void) state;

    set = with_hosts(hosts, &policy);
    check_lookups(policy, "ports", rows, COUNT(rows));

    assert_int_equal(policy->rules[1]->port, 8080);
    assert_int_equal(policy->rules[0]->port, 0);

    policy_set_free(set);
}


static void
test_empty(void **state)
{
    policy_t        *policy;
    policy_set_t    *set;
    policy_match_t   match;

    static const char *const  none[] = { NULL };

    (void) state;

    set = with_hosts(none, &policy);

    assert_int_equal(policy_check(policy, err), 0);
    assert_null(find(policy, "example.com", &match));
    assert_int_equal(match, POLICY_NO_HOST);
    assert_null(find(policy, "127.0.0.1", &match));

    policy_set_free(set);
}


/*
 * The same table of names for every size of policy, with the entries that are
 * looked for first, last and in the middle.
 */

static void
test_sizes(void **state)
{
    char           text[64], what[64];
    size_t         i, k, place, at;
    policy_t      *policy;
    policy_set_t  *set;

    static const size_t  sizes[] = { 0, 1, 2, 98, 99, 100, 101, 1000,
                                     100000 };

    static const char *const  looked_for[] = {
        "api.internal", "*.packages.example", "xn--bcher-kva.example",
        "metrics.internal:9090"
    };

    static const lookup_t  rows[] = {
        { "api.internal", "api.internal", POLICY_FOUND },
        { "API.INTERNAL", "api.internal", POLICY_FOUND },
        { "Api.Internal.:443", "api.internal", POLICY_FOUND },
        { "api.internal:80", "api.internal", POLICY_FOUND },
        { "api.internal:8080", NULL, POLICY_NO_PORT },
        { "api.internal..", NULL, POLICY_NO_HOST },
        { "xapi.internal", NULL, POLICY_NO_HOST },
        { "x.api.internal", NULL, POLICY_NO_HOST },
        { "internal", NULL, POLICY_NO_HOST },
        { "a.packages.example", "packages.example", POLICY_FOUND },
        { "A.B.Packages.Example.", "packages.example", POLICY_FOUND },
        { "packages.example", NULL, POLICY_NO_HOST },
        { "apackages.example", NULL, POLICY_NO_HOST },
        { "a.packages.example:8080", NULL, POLICY_NO_PORT },
        { "XN--BCHER-KVA.example", "xn--bcher-kva.example", POLICY_FOUND },
        { "b\xc3\xbc" "cher.example", NULL, POLICY_NO_HOST },
        { "metrics.internal:9090", "metrics.internal", POLICY_FOUND },
        { "METRICS.internal:9090", "metrics.internal", POLICY_FOUND },
        { "metrics.internal", NULL, POLICY_NO_PORT },
        { "filler-7x.example", NULL, POLICY_NO_HOST },
        { "127.0.0.1", NULL, POLICY_NO_HOST },
    };

    (void) state;

    for (i = 0; i < COUNT(sizes); i++) {
        for (place = 0; place < 3; place++) {

            opened_forget();

            set = policy_set_new();
            policy = policy_set_add(set, "p", err);
            assert_non_null(policy);

            at = (place == 0) ? 0 : (place == 1) ? sizes[i] / 2 : sizes[i];

            for (k = 0; k <= sizes[i]; k++) {

                if (k == at) {
                    size_t  n;

                    for (n = 0; n < COUNT(looked_for); n++) {
                        expect(policy_add_rule(policy, looked_for[n], err)
                               != NULL, "%s", err);
                    }
                }

                if (k == sizes[i]) {
                    break;
                }

                /* every third a wildcard, some with a port */

                (void) snprintf(text, sizeof(text), "%sfiller-%zu.example%s",
                                k % 3 ? "" : "*.", k, k % 7 ? "" : ":8080");
                expect(policy_add_rule(policy, text, err) != NULL, "%s", err);
            }

            (void) snprintf(what, sizeof(what), "%zu others, at %zu",
                            sizes[i], at);
            check_lookups(policy, what, rows, COUNT(rows));

            /* and each of the others is found as well */

            for (k = 0; k < sizes[i]; k++) {

                lookup_t  row;

                row.target = text;
                row.match = POLICY_FOUND;
                row.rule = policy->rules[k < at ? k : k + COUNT(looked_for)]
                           ->host;

                (void) snprintf(text, sizeof(text), "%s%s:%d",
                                k % 3 ? "" : "sub.", row.rule,
                                k % 7 ? 443 : 8080);
                check_lookups(policy, what, &row, 1);
            }

            policy_set_free(set);
        }
    }
}


static void
test_deep_names(void **state)
{
    char             text[AUTHORITY_HOST_MAX + 1];
    size_t           i;
    policy_t        *policy;
    policy_set_t    *set;
    policy_match_t   match;

    static const char *const  hosts[] = { "*.a.a", "*.a.a.a.a", "b.b", NULL };

    (void) state;

    set = with_hosts(hosts, &policy);

    /* 127 labels of one byte */

    for (i = 0; i < 253; i++) {
        text[i] = (i % 2) ? '.' : 'a';
    }

    text[253] = '\0';

    assert_string_equal(find(policy, text, &match)->host, "a.a.a.a");

    text[252] = 'b';
    assert_null(find(policy, text, &match));
    assert_int_equal(match, POLICY_NO_HOST);

    policy_set_free(set);
}


static void
test_rule_names(void **state)
{
    size_t                i;
    policy_t             *policy;
    policy_set_t         *set;
    const policy_rule_t  *rule;

    static const char *const  none[] = { NULL };

    static const char *const  rows[][2] = {
        { "API.Internal", "api.internal" },
        { "*.Packages.example", "*.packages.example" },
        { "*.packages.example:8443", "*.packages.example:8443" },
        { "metrics:9090", "metrics:9090" },
        { "93.184.216.34", "93.184.216.34" },
        { "[2606:2800::1]", "[2606:2800::1]" },
        { "[2606:2800::1]:8443", "[2606:2800::1]:8443" },
    };

    (void) state;

    set = with_hosts(none, &policy);

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {

        rule = policy_add_rule(policy, rows[i][0], err);

        expect(rule != NULL, "%s", err);
        expect(strcmp(rule->name, rows[i][1]) == 0, "\"%s\" is named \"%s\"",
               rows[i][0], rule->name);
    }

    policy_set_free(set);
}


static void
test_bad_hosts(void **state)
{
    char           long_name[320];
    size_t         i;
    policy_t      *policy;
    policy_set_t  *set;

    static const char *const  none[] = { NULL };

    static const struct {
        const char  *text;
        const char  *says;
    } rows[] = {
        { "*", "refused" },
        { "*.", "refused" },
        { "*.com", "two labels" },
        { "*.internal", "two labels" },
        { "*.co.uk", "public suffix" },
        { "*.github.io", "public suffix" },
        { "*.s3.amazonaws.com", "public suffix" },
        { "*.blob.core.windows.net", "anyone can" },
        { "*.xn--55qx5d.cn", "public suffix" },
        { "*.amazonaws.com", "shared domain" },
        { "*.core.windows.net", "shared domain" },
        { "*.jfrog.io", "shared domain" },
        { "*.*.example.com", "refused" },
        { "**.example.com", "refused" },
        { "a*b.com", "refused" },
        { "a.*.com", "refused" },
        { "www.*", "refused" },
        { "*.1.2.3.4", "IP address" },
        { "*.[::1]", "IP address" },
        { "b\xc3\xbc" "cher.example", "xn--" },
        { "api.internal.", "without" },
        { "api.internal.:443", "without" },
        { "*.api.internal.", "without" },
        { "api..internal", "label" },
        { "api.internal:", "port" },
        { "api.internal:0", "port" },
        { "api.internal:080", "port" },
        { "api.internal:65536", "port" },
        { "https://api.internal", "refused" },
        { "api.internal/", "refused" },
        { "user@api.internal", "refused" },
        { "127.1", "canonical" },
        { "0x7f.0.0.1", "canonical" },
        { "010.0.0.1", "canonical" },
        { "[2001:db8:0::1]", "canonical" },
        { "2606:2800::1", "canonical" },
        { "a\nhost b.example", "refused" },
        { "a;b", "refused" }, { "a{b", "refused" }, { "a}b", "refused" },
        { "a#b", "refused" }, { "a\"b", "refused" }, { "a'b", "refused" },
        { "a$b", "refused" }, { "a b", "refused" }, { "a\tb", "refused" },
        { "a\x7f", "refused" }, { "", "refused" }, { " ", "refused" },
    };

    (void) state;

    set = with_hosts(none, &policy);

    for (i = 0; i < COUNT(rows); i++) {

        err[0] = '\0';

        expect(policy_add_rule(policy, rows[i].text, err) == NULL,
               "\"%s\" is accepted", rows[i].text);
        expect(strstr(err, rows[i].says) != NULL, "\"%s\": no \"%s\" in: %s",
               rows[i].text, rows[i].says, err);
        expect(strchr(err, '\n') == NULL && strchr(err, '\t') == NULL,
               "\"%s\" puts its control bytes into the message",
               rows[i].text);
    }

    memset(long_name, 'a', 300);
    long_name[300] = '\0';
    assert_null(policy_add_rule(policy, long_name, err));
    assert_null(strstr(err, long_name));

    /* the positive side of the wildcards */

    assert_non_null(policy_add_rule(policy, "*.packages.example", err));
    assert_non_null(policy_add_rule(policy, "*.example.co.uk", err));
    assert_non_null(policy_add_rule(policy, "*.bucket.s3.amazonaws.com",
                                    err));
    assert_non_null(policy_add_rule(policy, "*.me.github.io", err));

    assert_int_equal(policy->rules_count, 4);

    policy_set_free(set);
}


static void
test_duplicates(void **state)
{
    size_t         i;
    policy_t      *policy;
    policy_set_t  *set;

    static const char *const  hosts[] = {
        "a.test", "b.test:443", "c.test:80", "d.test:8080", "*.e.test", NULL
    };

    static const char *const  refused[] = {
        "a.test", "A.TEST", "a.test:443", "a.test:80", "b.test:443",
        "b.test", "c.test", "c.test:80", "d.test:8080", "*.e.test",
        "*.E.test:443"
    };

    static const char *const  accepted[] = {
        "a.test:8080", "b.test:80", "c.test:443", "d.test", "e.test",
        "*.e.test:8080", "*.a.test"
    };

    (void) state;

    set = with_hosts(hosts, &policy);

    for (i = 0; i < COUNT(refused); i++) {
        expect(policy_add_rule(policy, refused[i], err) == NULL,
               "\"%s\" is accepted a second time", refused[i]);
        expect(strstr(err, "earlier rule") != NULL, "%s", err);
    }

    for (i = 0; i < COUNT(accepted); i++) {
        expect(policy_add_rule(policy, accepted[i], err) != NULL, "%s", err);
    }

    assert_non_null(policy_set_add(set, "q", err));
    assert_null(policy_set_add(set, "p", err));
    assert_non_null(policy_set_find(set, "p"));
    assert_non_null(policy_set_find(set, "q"));
    assert_null(policy_set_find(set, "P"));

    policy_set_free(set);
}


static void
test_methods(void **state)
{
    size_t          i;
    policy_t       *policy;
    policy_set_t   *set;
    policy_rule_t  *rule;

    static const char *const  hosts[] = { "a.test", "b.test", "c.test",
                                          NULL };
    static const char *const  bad[] = {
        "get", "Get", "", "GET ", "GET,POST", "G\nT", "-GET", "CONNECT",
        "M\xc3\x89", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    };

    (void) state;

    set = with_hosts(hosts, &policy);

    rule = policy->rules[0];

    assert_true(policy_rule_allows_method(rule, "GET", 3));
    assert_true(policy_rule_allows_method(rule, "HEAD", 4));
    assert_false(policy_rule_allows_method(rule, "POST", 4));
    assert_false(policy_rule_allows_method(rule, "get", 3));
    assert_false(policy_rule_allows_method(rule, "GE", 2));
    assert_false(policy_rule_allows_method(rule, "GETX", 4));
    assert_false(policy_rule_allows_method(rule, "", 0));

    rule = policy->rules[1];

    for (i = 0; i < COUNT(bad); i++) {
        expect(policy_rule_add_method(rule, bad[i], err) != 0,
               "\"%s\" is accepted", bad[i]);
    }

    assert_int_equal(policy_rule_add_method(rule, "GET", err), 0);
    assert_int_equal(policy_rule_add_method(rule, "VERSION-CONTROL", err), 0);
    assert_int_not_equal(policy_rule_add_method(rule, "GET", err), 0);

    assert_true(policy_rule_allows_method(rule, "GET", 3));
    assert_true(policy_rule_allows_method(rule, "HEAD", 4));
    assert_true(policy_rule_allows_method(rule, "VERSION-CONTROL", 15));
    assert_false(policy_rule_allows_method(rule, "POST", 4));

    rule = policy->rules[2];

    assert_int_equal(policy_rule_add_method(rule, "HEAD", err), 0);
    assert_true(policy_rule_allows_method(rule, "HEAD", 4));
    assert_false(policy_rule_allows_method(rule, "GET", 3));

    policy_set_free(set);
}


static void
test_launchers(void **state)
{
    size_t         i;
    policy_t      *policy;
    policy_set_t  *set;

    static const char *const  none[] = { NULL };
    static const gid_t        groups[] = { 7, 50, 100 };

    static const char *const  bad[] = {
        "root", "user:", "group:", "user:no-such-user-here", "user:01",
        "group:no-such-group-here", "user:-1", "user:1x", "user:4294967295",
        "user:4294967296", "users:root", "USER:root", ""
    };

    (void) state;

    set = with_hosts(none, &policy);

    assert_true(policy_allows_launcher(policy, 0, NULL, 0, 33));
    assert_true(policy_allows_launcher(policy, 33, NULL, 0, 33));
    assert_false(policy_allows_launcher(policy, 34, groups, 3, 33));

    for (i = 0; i < COUNT(bad); i++) {
        expect(policy_add_launcher(policy, bad[i], err) != 0,
               "\"%s\" is accepted", bad[i]);
    }

    assert_int_equal(policy_add_launcher(policy, "user:1000", err), 0);
    assert_int_not_equal(policy_add_launcher(policy, "user:1000", err), 0);
    assert_int_equal(policy_add_launcher(policy, "group:50", err), 0);
    assert_int_equal(policy_add_launcher(policy, "user:root", err), 0);
    assert_int_not_equal(policy_add_launcher(policy, "user:0", err), 0);

    assert_true(policy_allows_launcher(policy, 0, NULL, 0, 33));
    assert_true(policy_allows_launcher(policy, 1000, NULL, 0, 33));
    assert_true(policy_allows_launcher(policy, 1001, groups, 3, 33));
    assert_false(policy_allows_launcher(policy, 1001, groups, 1, 33));
    assert_false(policy_allows_launcher(policy, 50, NULL, 0, 33));

    /* who is listed replaces the broker's own user */

    assert_false(policy_allows_launcher(policy, 33, NULL, 0, 33));

    policy_set_free(set);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        PROMISE("B-010 B-014 a name matches whole, never by its end or "
                "beginning", test_label_boundary),
        PROMISE("B-011 a wildcard holds one or more whole labels under it, "
                "the most specific host decides", test_wildcard),
        PROMISE("a rule without a port serves 80 and 443, with one only that",
                test_ports),
        PROMISE("an empty policy denies everything", test_empty),
        PROMISE("B-016 policies of every size decide the same",
                test_sizes),
        PROMISE("a name of 127 labels meets the longest suffix",
                test_deep_names),
        PROMISE("B-012 B-013 B-024 B-028 what is not a host, or a wildcard "
                "over strangers' names, is refused and shown harmlessly",
                test_bad_hosts),
        PROMISE("a rule is named as the configuration spells it",
                test_rule_names),
        PROMISE("a host and port that a rule serves already is refused",
                test_duplicates),
        PROMISE("methods are those listed, else GET; HEAD follows GET",
                test_methods),
        PROMISE("root and those listed may open a task, else root and the "
                "broker's user", test_launchers),
    };

    return unit_run(tests);
}
