/*
 * How the kinds of fields look in the text form.  Each function writes its
 * value, or reads it into the set, the policy or the rule that has it; the
 * items of lists are added by the functions that the directives use, and are
 * NULL while one is read.  Failures are the coder's.
 */

#pragma once

#include "policy/policy_coder.h"
#include "policy/policy_fields.h"


/* A string, or an address range as one, that field has a function for. */
void value_word(coder_t *c, const policy_field_t *field, void *object,
    const char *value);
void value_range(coder_t *c, const policy_field_t *field, void *object,
    const address_range_t *range);

void value_writable(coder_t *c, policy_t *policy,
    policy_writable_t *writable);
void value_limits(coder_t *c, uint64_t *limits);
void value_bounds(coder_t *c, uint64_t *bounds);
void value_choice(coder_t *c, const policy_field_t *field, bool *value);
void value_credential(coder_t *c, policy_rule_t *rule);

/* The hash of a certificate text: a rule's, a set's, and a policy's, which is
   its set's, repeated so that it is in the policy's hash. */
void value_trusted(coder_t *c, char **text, policy_pem_t **pem);
void value_set_trusted(coder_t *c);
void value_same_trusted(coder_t *c, policy_t *policy);

/* All certificate texts of the set. */
void value_pems(coder_t *c);
