/* The patterns of `path` in a rule: compiled with it, and freed with it. */

#pragma once

#include "policy/policy.h"


#define POLICY_PATTERN_MAX   1024   /* bytes of one pattern */
#define POLICY_PATTERNS_MAX  64     /* of a rule */


/*
 * Adds a pattern (PCRE2) that begins with "^/".  -1 with err, which says at
 * which byte of the pattern the error is.
 */
int policy_rule_add_path(policy_rule_t *rule, const char *pattern,
    char err[POLICY_ERROR_MAX]);

void policy_path_free(policy_rule_t *rule);
