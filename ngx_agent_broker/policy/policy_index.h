/* The index of a policy's hosts, kept with every rule that is added. */

#pragma once

#include "policy/policy.h"


/* Adds a rule to the policy's index, made when missing; -1: no memory. */
int policy_index_add(policy_t *policy, policy_rule_t *rule);

/* The rule of the host with exactly this port (0: without one), or NULL. */
policy_rule_t *policy_index_find(const policy_t *policy, const char *host,
    bool wildcard, uint16_t port);

void policy_index_free(policy_t *policy);
