/*
 * The index of the hosts of a policy that is being made: an open hash table of
 * its rules, each by host and port, so that one that is served already is found
 * at once.
 */

#include <stdlib.h>
#include <string.h>

#include "policy/policy_index.h"
#include "policy/policy_snapshot_format.h"


#define INDEX_FIRST   64        /* slots; a power of two */


typedef struct {
    uint32_t  hash;
    uint32_t  rule;             /* its place, and 1; 0: the slot is free */
} index_slot_t;


typedef struct policy_index_s {
    size_t         mask;
    size_t         used;
    index_slot_t  *slots;
} policy_index_t;


static int policy_index_reserve(policy_index_t *index);
static uint32_t policy_index_hash(const policy_rule_t *rule);


int
policy_index_add(policy_t *policy, const policy_rule_t *rule)
{
    size_t                i;
    uint32_t              hash;
    index_slot_t         *slot;
    policy_index_t       *index;
    const policy_rule_t  *other;

    policy->earlier = NULL;

    if (policy->index == NULL) {
        policy->index = calloc(1, sizeof(policy_index_t));
    }

    index = policy->index;

    if (index == NULL || policy_index_reserve(index) != 0) {
        return -1;
    }

    hash = policy_index_hash(rule);

    for (i = hash & index->mask; /* void */ ; i = (i + 1) & index->mask) {

        slot = &index->slots[i];

        if (slot->rule == 0) {
            break;
        }

        if (slot->hash != hash) {
            continue;
        }

        other = policy->rules[slot->rule - 1];

        if ((other->port == rule->port
             || (other->port == 0 && (rule->port == 80 || rule->port == 443))
             || (rule->port == 0
                 && (other->port == 80 || other->port == 443)))
            && other->wildcard == rule->wildcard
            && strcmp(other->host, rule->host) == 0)
        {
            policy->earlier = other;
            return -1;
        }
    }

    slot->hash = hash;
    slot->rule = (uint32_t) policy->rules_count + 1;
    index->used++;

    return 0;
}


void
policy_index_free(policy_t *policy)
{
    if (policy->index) {
        free(policy->index->slots);
        free(policy->index);
        policy->index = NULL;
    }
}


/* At most half of the slots are taken, so runs are short and always end. */

static int
policy_index_reserve(policy_index_t *index)
{
    size_t         i, k, size, mask;
    index_slot_t  *slots;

    size = index->slots ? index->mask + 1 : 0;

    if (index->used < size / 2) {
        return 0;
    }

    mask = (size ? size * 4 : INDEX_FIRST) - 1;
    slots = calloc(mask + 1, sizeof(index_slot_t));

    if (slots == NULL) {
        return -1;
    }

    for (i = 0; i < size; i++) {

        if (index->slots[i].rule == 0) {
            continue;
        }

        for (k = index->slots[i].hash & mask; slots[k].rule;
             k = (k + 1) & mask)
        {
            /* void */
        }

        slots[k] = index->slots[i];
    }

    free(index->slots);
    index->slots = slots;
    index->mask = mask;

    return 0;
}


/* The same for all rules of a host that could overlap. */

static uint32_t
policy_index_hash(const policy_rule_t *rule)
{
    uint16_t     port;
    uint64_t     hash;
    const char  *p;

    port = rule->port == 80 || rule->port == 443 ? 0 : rule->port;

    for (p = rule->host, hash = SNAPSHOT_HASH_START; *p; p++) {
        hash = snapshot_hash_byte(hash, *p);
    }

    return snapshot_hash_end(hash + port, rule->wildcard);
}
