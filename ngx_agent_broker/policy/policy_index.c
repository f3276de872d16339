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
    policy_rule_t  *rule;       /* NULL: the slot is free */
    uint32_t        hash;
} index_slot_t;


typedef struct policy_index_s {
    size_t         mask;
    size_t         used;
    index_slot_t  *slots;
} policy_index_t;


static int policy_index_reserve(policy_index_t *index);
static void policy_index_insert(policy_index_t *index, policy_rule_t *rule,
    uint32_t hash);
static uint32_t policy_index_hash(const policy_rule_t *rule);


const policy_rule_t *
policy_index_overlap(const policy_t *policy, const policy_rule_t *rule)
{
    size_t                 i;
    uint32_t               hash;
    const index_slot_t    *slot;
    const policy_rule_t   *other;
    const policy_index_t  *index;

    index = policy->index;

    if (index == NULL) {
        return NULL;
    }

    hash = policy_index_hash(rule);

    for (i = hash & index->mask; /* void */ ; i = (i + 1) & index->mask) {

        slot = &index->slots[i];
        other = slot->rule;

        if (other == NULL) {
            return NULL;
        }

        if (slot->hash == hash
            && (other->port == rule->port
                || (other->port == 0
                    && (rule->port == 80 || rule->port == 443))
                || (rule->port == 0
                    && (other->port == 80 || other->port == 443)))
            && other->wildcard == rule->wildcard
            && strcmp(other->host, rule->host) == 0)
        {
            return other;
        }
    }
}


int
policy_index_add(policy_t *policy, policy_rule_t *rule)
{
    if (policy->index == NULL) {
        policy->index = calloc(1, sizeof(policy_index_t));

        if (policy->index == NULL) {
            return -1;
        }
    }

    if (policy_index_reserve(policy->index) != 0) {
        return -1;
    }

    policy_index_insert(policy->index, rule, policy_index_hash(rule));

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
    size_t          i, size;
    policy_index_t  bigger;

    size = index->slots ? index->mask + 1 : 0;

    if (index->used < size / 2) {
        return 0;
    }

    size = size ? size * 4 : INDEX_FIRST;

    bigger.mask = size - 1;
    bigger.used = 0;
    bigger.slots = calloc(size, sizeof(index_slot_t));

    if (bigger.slots == NULL) {
        return -1;
    }

    for (i = 0; index->slots && i <= index->mask; i++) {
        if (index->slots[i].rule) {
            policy_index_insert(&bigger, index->slots[i].rule,
                                index->slots[i].hash);
        }
    }

    free(index->slots);
    *index = bigger;

    return 0;
}


static void
policy_index_insert(policy_index_t *index, policy_rule_t *rule, uint32_t hash)
{
    size_t  i;

    for (i = hash & index->mask; index->slots[i].rule;
         i = (i + 1) & index->mask)
    {
        /* void */
    }

    index->slots[i].rule = rule;
    index->slots[i].hash = hash;
    index->used++;
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
