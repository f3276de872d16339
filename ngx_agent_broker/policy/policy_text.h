/*
 * Parts of the text form, for a snapshot, in which hosts and attributes of
 * rules are kept apart.  `{"host":"a","ports":[80,443],"methods":...}` is the
 * host's part, the attributes' and a brace.
 */

#pragma once

#include "policy/policy_coder.h"


/*
 * The text of a complete set, or of one of its policies, without rules: the
 * policy's ends in "]}", which close these and it.  NULL: no memory.
 */
char *policy_text_bare(policy_set_t *set, const policy_t *policy,
    size_t *len);

/* Writes the parts of a rule; what its methods imply is added to it. */
void policy_text_host(coder_t *c, const char *host, bool wildcard,
    uint16_t port);
void policy_text_attributes(coder_t *c, policy_rule_t *rule);

/* The order of rules in a text, of pointers to them; see qsort(3). */
int policy_text_compare_rules(const void *a, const void *b);

/*
 * Reads the text of a rule, which is checked and not added to its policy.
 * NULL with err.
 */
policy_rule_t *policy_text_rule(policy_t *policy, const char *text, size_t n,
    char err[POLICY_ERROR_MAX]);
