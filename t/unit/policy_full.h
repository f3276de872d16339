/* A set of policies that uses everything, for the tests of its text. */

#pragma once

#include "unit.h"

#include "policy/policy.h"
#include "policy/policy_path.h"


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
    policy->bounds[BOUND_CONNECTIONS] = 7;
    policy->bounds[BOUND_BYTES_UP] = 1 << 20;

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
            must(policy_rule_add_path(rule, backwards ? "^/v2/\\d\"+$"
                                                      : "^/v1/", err));
            must(policy_rule_add_path(rule, backwards ? "^/v1/"
                                                      : "^/v2/\\d\"+$", err));
            must(policy_rule_set_hint(rule, "use /v1/\"search\" \xe2\x86\x92",
                                      err));
            must(policy_rule_set_credential(rule, CREDENTIAL_BEARER, NULL,
                                            "api_internal", err));
            rule->cookies = true;
            rule->trusted_pem = strdup(PEM2);

        } else if (strcmp(rule->host, "metrics.internal") == 0) {
            rule->plaintext = true;
            rule->websocket = true;
            rule->reuse_after_body = true;
            rule->client_credentials = true;
            must(policy_rule_add_range(rule, "10.0.0.0/8", err));
            rule->trusted_pem = strdup(PEM2);

        } else if (rule->wildcard) {
            must(policy_rule_set_credential(rule, CREDENTIAL_HEADER,
                                            "X-Package-Key", "packages", err));
            rule->credential_wildcard = true;

        } else if (rule->port == 8443 && rule->kind == AUTHORITY_NAME) {
            rule->tunnel = true;

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

    assert_int_equal(policy_set_complete(set), 0);
    text = policy_set_dump(set, &n);
    assert_non_null(text);
    assert_int_equal(strlen(text), n);

    return text;
}
