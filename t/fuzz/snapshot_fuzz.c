/*
 * The bytes of a snapshot: whatever they say, nothing beyond them is read, and
 * a rule that is found has passed the checks.
 */

#include "fuzz.h"

#include "policy/policy_snapshot.h"


static void
look_up(const policy_t *policy)
{
    char                  err[POLICY_ERROR_MAX], *text;
    size_t                i, n;
    authority_t           a;
    const policy_rule_t  *rule;

    static const char *const  targets[] = {
        "api.internal", "a.packages.example", "metrics.internal:9090",
        "api.internal:8443", "[2606:2800::1]:8443", "93.184.216.34"
    };

    for (i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {

        must(authority_parse((const unsigned char *) targets[i],
                             strlen(targets[i]), 443, &a)
             == AUTHORITY_OK);

        if (policy_find_rule(policy, &a, &rule) == POLICY_FOUND) {
            must(policy_rule_check(rule, err) == 0);

        } else {
            must(rule == NULL);
        }
    }

    for (i = 0; i < 8; i++) {
        rule = policy_rule_at(policy, i);
        must(rule == NULL || policy_rule_check(rule, err) == 0);
    }

    text = policy_snapshot_text(policy, 4096, &n);
    free(text);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char            err[POLICY_ERROR_MAX];
    size_t          i;
    policy_set_t   *set;
    unsigned char  *exact;

    exact = malloc(size ? size : 1);        /* aligned, as the zone is */
    memcpy(exact, data, size);

    set = policy_snapshot_open(exact, size, err);

    for (i = 0; set && i < set->policies_count; i++) {
        look_up(set->policies[i]);
    }

    policy_set_free(set);
    free(exact);

    return 0;
}
