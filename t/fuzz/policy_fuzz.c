/*
 * A text of policies, and a `host` word.  What loads is dumped and loaded
 * again as the same bytes, and its snapshot, which has the same hashes, finds
 * its own rules, which have passed the checks.
 */

#include "fuzz.h"

#include "policy/policy_snapshot.h"


static void
check_policy(const policy_t *policy, const policy_t *original)
{
    char                  err[POLICY_ERROR_MAX], text[300];
    size_t                i;
    authority_t           a;
    const policy_rule_t  *rule, *found;

    must(policy_check(original, err) == 0);
    must(strcmp(policy->hash, original->hash) == 0);
    must(policy->rules_count == original->rules_count);

    for (i = 0; i < policy->rules_count; i++) {

        rule = policy_rule_at(policy, i);
        must(rule != NULL);

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
    char            err[POLICY_ERROR_MAX], *one, *two;
    size_t          i, n, m;
    policy_set_t   *set, *again;
    unsigned char  *snapshot;

    fuzz_host(data, size);

    err[0] = '\0';
    set = policy_set_load((const char *) data, size, err);

    if (set == NULL) {
        must(err[0] != '\0');
        return 0;
    }

    one = policy_set_dump(set, &n);
    must(one != NULL);

    snapshot = policy_snapshot_make(set, &m);
    must(snapshot != NULL);

    again = policy_snapshot_open(snapshot, m, err);
    must(again != NULL && again->policies_count == set->policies_count);

    for (i = 0; i < set->policies_count; i++) {
        check_policy(again->policies[i],
                     policy_set_find(set, again->policies[i]->name));
    }

    policy_set_free(again);
    free(snapshot);

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
