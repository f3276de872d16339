/*
 * What no policy may say: words that open the box, rules that would leak a
 * credential, ranges that open too much.
 */

#include "unit.h"

#include "policy/policy.h"


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


/* What the checks say; each row is one rule, and the reason or NULL. */

static void
test_rule_checks(void **state)
{
    size_t          i;
    policy_t       *policy;
    policy_set_t   *set;
    policy_rule_t  *rule;

    static const struct {
        const char  *host;
        bool         plaintext;
        const char  *credential;
        const char  *range;
        const char  *method;
        const char  *says;
    } rows[] = {
        { "a.test", false, NULL, NULL, NULL, NULL },
        { "a.test", false, "key", NULL, NULL, NULL },
        { "a.test:9090", true, NULL, NULL, NULL, NULL },
        { "a.test:9090", true, "key", NULL, NULL, "cleartext" },
        { "a.test", true, NULL, NULL, NULL, "exact port" },
        { "*.a.test", false, "key", NULL, NULL, "exact host" },
        { "a.test", false, "key", NULL, "TRACE", "TRACE" },
        { "a.test", false, NULL, NULL, "TRACE", NULL },
        { "a.test", false, NULL, "127.0.0.0/8", NULL, "exact port" },
        { "a.test", false, NULL, "127.0.0.1", NULL, "exact port" },
        { "a.test", false, NULL, "127.9.0.0/16", NULL, "exact port" },
        { "a.test", false, NULL, "::1", NULL, "exact port" },
        { "a.test:9090", false, NULL, "127.0.0.0/8", NULL, NULL },
        { "a.test:9090", false, NULL, "::1", NULL, NULL },
        { "8.8.8.8", false, NULL, NULL, NULL, NULL },
        { "10.1.2.3", false, NULL, NULL, NULL, "special range" },
        { "10.1.2.3", false, NULL, "10.0.0.0/8", NULL, NULL },
        { "10.1.2.3", false, NULL, "10.2.0.0/16", NULL, "special range" },
        { "127.0.0.1", false, NULL, NULL, NULL, "loopback" },
        { "127.0.0.1:80", false, NULL, NULL, NULL, "loopback" },
        { "127.0.0.1:80", false, NULL, "127.0.0.1", NULL, NULL },
        { "[::1]:80", false, NULL, "::1", NULL, NULL },
        { "169.254.169.254", false, NULL, NULL, NULL, "no rule opens" },
        { "[fd00:ec2::254]:80", false, NULL, "fd00::/8", NULL,
          "no rule opens" },
        { "224.0.0.1", false, NULL, NULL, NULL, "no rule opens" },
        { "0.0.0.0", false, NULL, NULL, NULL, "no rule opens" },
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {

        set = policy_set_new();
        policy = policy_set_add(set, "p", err);
        rule = add_rule(policy, rows[i].host);
        rule->plaintext = rows[i].plaintext;

        if (rows[i].credential) {
            must(policy_rule_set_credential(rule, CREDENTIAL_BEARER, NULL,
                                            rows[i].credential, err));
        }

        if (rows[i].range) {
            must(policy_rule_add_range(rule, rows[i].range, err));
        }

        if (rows[i].method) {
            must(policy_rule_add_method(rule, rows[i].method, err));
        }

        if (rows[i].says == NULL) {
            must(policy_rule_check(rule, err));
            must(policy_check(policy, err));

        } else {
            expect(policy_rule_check(rule, err) != 0, "row %zu is accepted",
                   i);
            expect(strstr(err, rows[i].says) != NULL,
                   "row %zu: no \"%s\" in: %s", i, rows[i].says, err);
            assert_int_not_equal(policy_check(policy, err), 0);
        }

        policy_set_free(set);
    }
}


/* What a tunnel and an upgrade need, beside what else a rule says. */

static void
test_tunnel_checks(void **state)
{
    size_t          i;
    policy_t       *policy;
    policy_set_t   *set;
    policy_rule_t  *rule;

    static const struct {
        const char  *host;
        bool         tunnel;
        bool         websocket;
        bool         plaintext;
        bool         credential;
        const char  *says;
    } rows[] = {
        { "a.test", true, false, false, false, NULL },
        { "a.test:8443", true, false, false, false, NULL },
        { "8.8.8.8", true, false, false, false, NULL },
        { "*.a.test", true, false, false, false, "exact host" },
        { "a.test", true, false, false, true, "no credential" },
        { "a.test:8080", true, false, true, false, "\"tunnel\"" },
        { "a.test", false, true, false, false, NULL },
        { "a.test", false, true, false, true, NULL },
        { "*.a.test", false, true, false, false, NULL },
        { "a.test:8080", false, true, true, false, NULL },
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {

        set = policy_set_new();
        policy = policy_set_add(set, "p", err);
        rule = add_rule(policy, rows[i].host);
        rule->tunnel = rows[i].tunnel;
        rule->websocket = rows[i].websocket;
        rule->plaintext = rows[i].plaintext;

        if (rows[i].credential) {
            must(policy_rule_set_credential(rule, CREDENTIAL_BEARER, NULL,
                                            "key", err));
        }

        if (rows[i].says == NULL) {
            must(policy_rule_check(rule, err));
            must(policy_check(policy, err));

        } else {
            expect(policy_rule_check(rule, err) != 0, "row %zu is accepted",
                   i);
            expect(strstr(err, rows[i].says) != NULL,
                   "row %zu: no \"%s\" in: %s", i, rows[i].says, err);
            assert_int_not_equal(policy_check(policy, err), 0);
        }

        policy_set_free(set);
    }
}


static void
test_bounds(void **state)
{
    size_t         i;
    policy_t      *policy;
    policy_set_t  *set;

    (void) state;

    set = policy_set_new();
    policy = policy_set_add(set, "p", err);

    for (i = 0; i < BOUND_COUNT; i++) {

        policy->bounds[i] = 0;
        expect(policy_check(policy, err) != 0
               && strstr(err, bound_table[i].directive),
               "%s of 0 is accepted", bound_table[i].directive);

        policy->bounds[i] = bound_table[i].max + 1;
        assert_int_not_equal(policy_check(policy, err), 0);

        policy->bounds[i] = 1;
        must(policy_check(policy, err));
        policy->bounds[i] = bound_table[i].max;
        must(policy_check(policy, err));
    }

    policy_set_free(set);
}


static void
test_words(void **state)
{
    size_t          i;
    policy_t       *policy;
    policy_set_t   *set;
    policy_rule_t  *rule;

    static const char *const  env[] = {
        "LD_PRELOAD", "LD_AUDIT", "PATH", "HOME", "TMPDIR", "HTTP_PROXY",
        "https_proxy", "ALL_PROXY", "no_proxy", "SSL_CERT_FILE",
        "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_NO_VERIFY",
        "NODE_TLS_REJECT_UNAUTHORIZED", "BASH_ENV", "AGENT_BROKER_URL",
        "TASK_OUT", "JAVA_TOOL_OPTIONS", "GLIBC_TUNABLES", "1A", "A-B",
        "A=B", "", "A B", "\xc3\xa9"
    };

    static const char *const  readable[] = {
        "/", "/home", "/home/me/venv", "/root", "/proc", "/proc/1", "/sys",
        "/dev", "/dev/null", "/run/docker.sock", "/var/run", "/etc",
        "/etc/shadow", "/etc/ssl/private/x", "opt", "./opt", "/opt/",
        "/opt/../etc", "/opt//x", "/opt/./x", "/..", "", "/opt/a\nb"
    };

    static const char *const  writable[] = {
        "/", "/usr", "/usr/local", "/bin", "/etc", "/etc/x", "/proc", "/dev",
        "/lib64", "/run", "/run/task/out", "/tmp", "tmp", "/tmp/../etc"
    };

    static const char *const  ranges[] = {
        "169.254.0.0/16", "169.254.169.254", "fe80::/10", "224.0.0.0/4",
        "0.0.0.0", "0.0.0.0/0", "::/0", "10.0.0.0/7", "fc00::/6",
        "100.100.100.200", "fd00:ec2::/32", "10.0.0.1/8", "ten"
    };

    static const char *const  names[] = {
        "", "-a", ".a", "a b", "a/b", "a\n", "\xc3\xa9",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    };

    static const char *const  hints[] = {
        "", "two\nlines", "\x1b[31m", "\x7f", "\xff", "a\xe2\x80\xae" "b",
        "a\xe2\x80\xa8" "b", "\xed\xa0\x80", "\xc0\xaf", "\xc2\x85"
    };

    (void) state;

    set = policy_set_new();
    policy = policy_set_add(set, "p", err);
    rule = add_rule(policy, "a.test:1");

    for (i = 0; i < COUNT(env); i++) {
        expect(policy_add_env(policy, env[i], err) != 0,
               "env \"%s\" is accepted", env[i]);
    }

    for (i = 0; i < COUNT(readable); i++) {
        expect(policy_add_readable(policy, readable[i], err) != 0,
               "readable \"%s\" is accepted", readable[i]);
    }

    for (i = 0; i < COUNT(writable); i++) {
        expect(policy_add_writable(policy, writable[i], 65536, err) != 0,
               "writable \"%s\" is accepted", writable[i]);
    }

    for (i = 0; i < COUNT(ranges); i++) {
        expect(policy_rule_add_range(rule, ranges[i], err) != 0,
               "private \"%s\" is accepted", ranges[i]);
    }

    for (i = 0; i < COUNT(names); i++) {
        expect(policy_set_add(set, names[i], err) == NULL,
               "policy \"%s\" is accepted", names[i]);
    }

    for (i = 0; i < COUNT(hints); i++) {
        expect(policy_rule_set_hint(rule, hints[i], err) != 0,
               "hint \"%s\" is accepted", hints[i]);
    }

    /* and the neighbours that are fine */

    must(policy_add_env(policy, "LANG", err));
    must(policy_add_env(policy, "MYPATH", err));
    must(policy_add_env(policy, "PATH_INFO", err));
    must(policy_add_env(policy, "LDAP_URL", err));
    assert_int_not_equal(policy_add_env(policy, "LANG", err), 0);

    must(policy_add_readable(policy, "/opt/venv", err));
    must(policy_add_readable(policy, "/etc/fonts", err));
    must(policy_add_readable(policy, "/homework", err));
    must(policy_add_readable(policy, "/opt/..x", err));
    assert_int_not_equal(policy_add_readable(policy, "/opt/venv", err), 0);

    must(policy_add_writable(policy, "/tmp/work", 4096, err));
    must(policy_add_writable(policy, "/data", 65536, err));
    assert_int_not_equal(policy_add_writable(policy, "/data", 65536, err), 0);
    assert_int_not_equal(policy_add_writable(policy, "/big", 1, err), 0);
    assert_int_not_equal(policy_add_writable(policy, "/big", UINT64_MAX, err),
                         0);

    must(policy_rule_add_range(rule, "10.0.0.0/8", err));
    must(policy_rule_add_range(rule, "240.0.0.0/4", err));
    must(policy_rule_add_range(rule, "fc00::/7", err));
    must(policy_rule_add_range(rule, "100.64.0.0/10", err));
    assert_int_not_equal(policy_rule_add_range(rule, "10.0.0.0/8", err), 0);

    must(policy_rule_set_hint(rule, "na\xc3\xafve \xe2\x86\x92 /v1", err));

    must(policy_check(policy, err));

    policy_set_free(set);
}


static void
test_doors(void **state)
{
    int            port;
    char           host[32];
    policy_t      *policy;
    policy_set_t  *set;

    (void) state;

    set = policy_set_new();
    policy = policy_set_add(set, "p", err);

    (void) add_rule(policy, "a.test");

    for (port = 1001; port < 1060; port++) {
        (void) snprintf(host, sizeof(host), "a.test:%d", port);
        (void) add_rule(policy, host);
        (void) snprintf(host, sizeof(host), "b.test:%d", port);
        (void) add_rule(policy, host);
    }

    must(policy_check(policy, err));

    (void) add_rule(policy, "a.test:1060");
    assert_int_not_equal(policy_check(policy, err), 0);
    assert_non_null(strstr(err, "door"));

    policy_set_free(set);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        PROMISE("a rule that would leak a credential or can never match is "
                "refused", test_rule_checks),
        PROMISE("a tunnel has an exact host, and no credential or cleartext",
                test_tunnel_checks),
        PROMISE("a bound is a number within its table's limits", test_bounds),
        PROMISE("words that would open the box are refused, their "
                "neighbours are not", test_words),
        PROMISE("a policy has no more ports than there are doors",
                test_doors),
    };

    return unit_run(tests);
}
