/*
 * The certificates that rules trust.  A text is kept once in a set, however
 * many rules name it, and is known by its SHA-256.
 */

#pragma once

#include "policy/policy.h"


struct policy_pem_s {
    policy_pem_t  *next;
    char          *text;
    void          *data;            /* its user's own, see data_free */
    char           hash[POLICY_HASH_LEN + 1];
};


/*
 * Replaces *text, malloc'd or the set's already, by the set's copy, frees it,
 * and sets *pem.  -1: no memory, or no PEM text; *text stays the caller's.
 */
int policy_pem_adopt(policy_set_t *set, char **text, policy_pem_t **pem);

/* By its hash; NULL: there is none. */
policy_pem_t *policy_pem_find(const policy_set_t *set, const char *hash);

void policy_pem_free(policy_set_t *set);
