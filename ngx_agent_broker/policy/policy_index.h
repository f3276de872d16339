/* The hosts of a policy that is being made, kept with every rule added. */

#pragma once

#include "policy/policy.h"


/*
 * Adds a rule to the index, made when missing, before it is added to the
 * policy's rules.  -1: no memory; or policy->earlier, which it sets, is a rule
 * of the same host that serves one of this one's ports.
 */
int policy_index_add(policy_t *policy, const policy_rule_t *rule);

void policy_index_free(policy_t *policy);
