/* Sets of policies: how they begin, and how all that hangs from one ends. */

#include <stdlib.h>
#include <string.h>

#include "policy/policy_fields.h"
#include "policy/policy_index.h"
#include "policy/policy_path.h"
#include "policy/policy_pem.h"
#include "policy/policy_words.h"




policy_set_t *
policy_set_new(void)
{
    return calloc(1, sizeof(policy_set_t));
}


void
policy_set_free(policy_set_t *set)
{
    size_t     i;
    policy_t  *policy;

    if (set == NULL) {
        return;
    }

    policy_set_forget_rules(set);

    for (i = 0; i < set->policies_count; i++) {
        policy = set->policies[i];
        policy_fields_free(policy_fields, policy);
        free(policy->ports);
        free(policy);
    }

    policy_fields_free(policy_set_fields, set);

    if (set->pem == NULL) {
        free(set->trusted_pem);
    }

    policy_pem_free(set);

    for (i = 0; i < set->files_count; i++) {
        free(set->files[i]);
    }

    free(set->files);
    free(set);
}


void
policy_set_forget_rules(policy_set_t *set)
{
    size_t     i, k;
    policy_t  *policy;

    for (i = 0; i < set->policies_count; i++) {

        policy = set->policies[i];
        policy_index_free(policy);

        for (k = 0; k < policy->rules_count; k++) {
            policy_rule_free(policy->rules[k]);
        }

        free(policy->rules);
        policy->rules = NULL;
        policy->rules_count = 0;
    }
}


void
policy_rule_free(policy_rule_t *rule)
{
    if (rule == NULL) {
        return;
    }

    if (rule->pem == NULL) {
        free(rule->trusted_pem);
    }

    policy_path_free(rule);
    policy_fields_free(policy_rule_fields, rule);
    free(rule->credential_field);
    free(rule->crl_pem);
    free(rule);
}


policy_t *
policy_set_add(policy_set_t *set, const char *name,
    char err[POLICY_ERROR_MAX])
{
    void      *list;
    policy_t  *policy;

    if (!policy_is_name(name)) {
        (void) policy_error(err, "policy", name,
                            "is not a name: 1 to 64 letters, digits, "
                            "\"_\", \".\" and \"-\", beginning with a "
                            "letter, digit or \"_\"");
        return NULL;
    }

    if (policy_set_find(set, name)) {
        (void) policy_error(err, "policy", name, "is defined already");
        return NULL;
    }

    list = policy_grow(set->policies, set->policies_count, sizeof(policy_t *));

    if (list == NULL) {
        (void) policy_no_memory(err);
        return NULL;
    }

    set->policies = list;

    policy = calloc(1, sizeof(policy_t));

    if (policy == NULL) {
        (void) policy_no_memory(err);
        return NULL;
    }

    policy->set = set;
    (void) strcpy(policy->name, name);
    limits_default(policy->limits);
    bounds_default(policy->bounds);
    policy_fields_default(policy_fields, policy);

    if (policy_choose_isolation(policy, "namespaces", err) != 0) {
        free(policy);
        return NULL;
    }

    set->policies[set->policies_count++] = policy;

    return policy;
}


const policy_t *
policy_set_find(const policy_set_t *set, const char *name)
{
    size_t  i;

    for (i = 0; i < set->policies_count; i++) {
        if (strcmp(set->policies[i]->name, name) == 0) {
            return set->policies[i];
        }
    }

    return NULL;
}


int
policy_set_complete(policy_set_t *set)
{
    size_t          i, k;
    policy_t       *policy;
    policy_rule_t  *rule;

    if (policy_pem_adopt(set, &set->trusted_pem, &set->pem) != 0) {
        return -1;
    }

    for (i = 0; i < set->policies_count; i++) {

        policy = set->policies[i];

        for (k = 0; k < policy->rules_count; k++) {

            rule = policy->rules[k];

            if (rule->request_body == 0) {
                rule->request_body = policy->request_body;
            }

            if (rule->idle == 0) {
                rule->idle = policy->idle;
            }

            if (policy_pem_adopt(set, &rule->trusted_pem, &rule->pem) != 0) {
                return -1;
            }
        }
    }

    return 0;
}
