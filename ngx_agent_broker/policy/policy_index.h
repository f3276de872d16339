/* The hosts of a policy that is being made, kept with every rule added. */

#pragma once

#include "policy/policy.h"


/* Adds a rule to the policy's index, made when missing; -1: no memory. */
int policy_index_add(policy_t *policy, policy_rule_t *rule);

/* An earlier rule of the same host that serves one of this one's ports. */
const policy_rule_t *policy_index_overlap(const policy_t *policy,
    const policy_rule_t *rule);

void policy_index_free(policy_t *policy);
