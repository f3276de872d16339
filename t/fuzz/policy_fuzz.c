/*
 * A text of policies, and a `host` word.  What loads is dumped and loaded
 * again as the same bytes, finds its own rules, and has passed the checks.
 */

#include "fuzz.h"

#include "policy/policy.h"


static void
check_policy(const policy_t *policy)
{
    char                  err[POLICY_ERROR_MAX], text[300];
    size_t                i;
    authority_t           a;
    const policy_rule_t  *rule, *found;

    must(policy_check(policy, err) == 0);
    must(strlen(policy->hash) == POLICY_HASH_LEN);

    for (i = 0; i < policy->rules_count; i++) {

        rule = policy->rules[i];

        (void) snprintf(text, sizeof(text), "%s%s%s%s:%u",
                        rule->wildcard ? "x." : "",
                        rule->kind == AUTHORITY_IPV6 ? "[" : "", rule->host,
                        rule->kind == AUTHORITY_IPV6 ? "]" : "",
                        rule->port ? rule->port : 443);

        if (authority_parse((const unsigned char *) text, strlen(text), 0, &a)
            != AUTHORITY_OK)
        {
            must(rule->wildcard);       /* no room for the "x." */
            continue;
        }

        must(policy_find_rule(policy, &a, &found) != POLICY_NO_HOST);

        /* a more specific host may stand before a wildcard */

        must(rule->wildcard || found == rule);
    }
}


static void
fuzz_host(const uint8_t *data, size_t size)
{
    char            err[POLICY_ERROR_MAX], text[512];
    size_t          i;
    policy_t       *policy;
    policy_set_t   *set;

    if (size >= sizeof(text)) {
        return;
    }

    memcpy(text, data, size);
    text[size] = '\0';

    set = policy_set_new();
    policy = policy_set_add(set, "p", err);
    must(policy != NULL);

    if (policy_add_rule(policy, text, err) == NULL) {

        for (i = 0; err[i]; i++) {
            must(err[i] >= 0x20 && err[i] < 0x7f);
        }

        must(i > 0);

    } else {
        must(policy_add_rule(policy, text, err) == NULL);
    }

    policy_set_free(set);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char           err[POLICY_ERROR_MAX], *one, *two;
    size_t         i, n, m;
    policy_set_t  *set, *again;

    fuzz_host(data, size);

    err[0] = '\0';
    set = policy_set_load((const char *) data, size, err);

    if (set == NULL) {
        must(err[0] != '\0');
        return 0;
    }

    for (i = 0; i < set->policies_count; i++) {
        check_policy(set->policies[i]);
    }

    one = policy_set_dump(set, &n);
    must(one != NULL);

    again = policy_set_load(one, n, err);
    must(again != NULL);

    two = policy_set_dump(again, &m);
    must(two != NULL && n == m && memcmp(one, two, n) == 0);

    free(one);
    free(two);
    policy_set_free(set);
    policy_set_free(again);

    return 0;
}
