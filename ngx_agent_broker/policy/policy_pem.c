/* The certificates of a set, each text once. */

#include <stdlib.h>
#include <string.h>

#include "policy/policy_pem.h"
#include "policy/policy_words.h"


int
policy_pem_adopt(policy_set_t *set, char **text, policy_pem_t **pem)
{
    int             rc;
    char            hash[POLICY_HASH_LEN + 1];
    policy_pem_t   *p, **at;

    if (*text == NULL || *pem != NULL) {
        return 0;
    }

    if (!policy_is_pem(*text)) {
        return -1;
    }

    policy_hash_text(*text, strlen(*text), hash);

    /* in the order of the hashes, in which they are written */

    rc = 1;

    for (at = &set->pems; *at; at = &(*at)->next) {

        rc = strcmp((*at)->hash, hash);

        if (rc >= 0) {
            break;
        }
    }

    if (rc == 0) {
        free(*text);
        *text = (*at)->text;
        *pem = *at;
        return 0;
    }

    p = calloc(1, sizeof(policy_pem_t));

    if (p == NULL) {
        return -1;
    }

    p->text = *text;
    (void) strcpy(p->hash, hash);
    p->next = *at;
    *at = p;
    *pem = p;

    return 0;
}


policy_pem_t *
policy_pem_find(const policy_set_t *set, const char *hash)
{
    policy_pem_t  *p;

    for (p = set->pems; p && strcmp(p->hash, hash) != 0; p = p->next) {
        /* void */
    }

    return p;
}


void
policy_pem_free(policy_set_t *set)
{
    policy_pem_t  *p;

    while (set->pems) {
        p = set->pems;
        set->pems = p->next;

        if (p->data && set->data_free) {
            set->data_free(p->data);
        }

        free(p->text);
        free(p);
    }
}
