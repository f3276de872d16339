/*
 * The index of a policy's hosts: one open hash table for exact names and
 * wildcards.  Each host has a slot of its own, and each of its rules one more
 * for the port, so a lookup costs a fixed number of probes, however many hosts
 * and ports there are.
 *
 * There is one matcher for every size of policy: a second one for short lists
 * is how products came to decide differently above a hundred hosts.
 *
 * A name is hashed from its last byte to its first, so that on the way the
 * hash of each suffix falls out, and all wildcards that could hold the name
 * are asked in one pass over it.  What is equal is judged by the bytes; a
 * suffix begins after a dot and nowhere else.
 */

#include <stdlib.h>
#include <string.h>

#include "policy/policy_index.h"


#define INDEX_FIRST   64        /* slots; a power of two */
#define HOST_SLOT     0x10000   /* no port: stands for the host */

#define HASH_START    0xcbf29ce484222325ULL                      /* FNV-1a */
#define HASH_PRIME    0x100000001b3ULL


typedef struct {
    policy_rule_t  *rule;       /* NULL: the slot is free */
    uint32_t        hash;
    uint32_t        port;       /* of the rule, or HOST_SLOT */
} index_slot_t;


typedef struct policy_index_s {
    size_t         mask;
    size_t         used;
    index_slot_t  *slots;
} policy_index_t;


static policy_rule_t *policy_index_probe(const policy_index_t *index,
    const char *host, size_t n, uint64_t hash, bool wildcard, uint32_t port);
static int policy_index_reserve(policy_index_t *index, size_t more);
static void policy_index_insert(policy_index_t *index, policy_rule_t *rule,
    uint32_t hash, uint32_t port);
static uint64_t policy_index_hash(const char *host, size_t n);
static uint64_t policy_index_hash_byte(uint64_t hash, char c);
static uint32_t policy_index_hash_end(uint64_t hash, bool wildcard,
    uint32_t port);


policy_match_t
policy_find_rule(const policy_t *policy, const authority_t *target,
    const policy_rule_t **rule)
{
    size_t                 i, n, at;
    bool                   wildcard, found;
    uint64_t               hash, at_hash;
    const char            *host;
    const policy_index_t  *index;

    *rule = NULL;
    index = policy->index;

    if (index == NULL || target->host_len == 0) {
        return POLICY_NO_HOST;
    }

    host = target->host;
    n = target->host_len;

    found = false;
    wildcard = false;
    at = 0;
    at_hash = 0;
    hash = HASH_START;

    for (i = n; i-- > 0; /* void */ ) {

        /* host[i + 1 ..] is a suffix of whole labels, something before it */

        if (host[i] == '.' && i > 0 && i + 1 < n
            && target->kind == AUTHORITY_NAME
            && policy_index_probe(index, host + i + 1, n - i - 1, hash, true,
                                  HOST_SLOT))
        {
            found = true;
            wildcard = true;
            at = i + 1;                 /* longer ones come later */
            at_hash = hash;
        }

        hash = policy_index_hash_byte(hash, host[i]);
    }

    if (policy_index_probe(index, host, n, hash, false, HOST_SLOT)) {
        found = true;
        wildcard = false;
        at = 0;
        at_hash = hash;
    }

    if (!found) {
        return POLICY_NO_HOST;
    }

    *rule = policy_index_probe(index, host + at, n - at, at_hash, wildcard,
                               target->port);

    if (*rule == NULL && (target->port == 80 || target->port == 443)) {
        *rule = policy_index_probe(index, host + at, n - at, at_hash,
                                   wildcard, 0);
    }

    return *rule ? POLICY_FOUND : POLICY_NO_PORT;
}


policy_rule_t *
policy_index_find(const policy_t *policy, const char *host, bool wildcard,
    uint16_t port)
{
    size_t  n;

    if (policy->index == NULL) {
        return NULL;
    }

    n = strlen(host);

    return policy_index_probe(policy->index, host, n,
                              policy_index_hash(host, n), wildcard, port);
}


int
policy_index_add(policy_t *policy, policy_rule_t *rule)
{
    size_t           n;
    uint64_t         hash;
    policy_index_t  *index;

    if (policy->index == NULL) {
        policy->index = calloc(1, sizeof(policy_index_t));

        if (policy->index == NULL) {
            return -1;
        }
    }

    index = policy->index;

    if (policy_index_reserve(index, 2) != 0) {
        return -1;
    }

    n = strlen(rule->host);
    hash = policy_index_hash(rule->host, n);

    if (!policy_index_probe(index, rule->host, n, hash, rule->wildcard,
                            HOST_SLOT))
    {
        policy_index_insert(index, rule,
                            policy_index_hash_end(hash, rule->wildcard,
                                                  HOST_SLOT),
                            HOST_SLOT);
    }

    policy_index_insert(index, rule,
                        policy_index_hash_end(hash, rule->wildcard,
                                              rule->port),
                        rule->port);

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


static policy_rule_t *
policy_index_probe(const policy_index_t *index, const char *host, size_t n,
    uint64_t hash, bool wildcard, uint32_t port)
{
    size_t         i;
    uint32_t       finished;
    index_slot_t  *slot;

    if (index->slots == NULL) {
        return NULL;
    }

    finished = policy_index_hash_end(hash, wildcard, port);

    for (i = finished & index->mask; /* void */ ; i = (i + 1) & index->mask) {

        slot = &index->slots[i];

        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the table is alive */
        if (slot->rule == NULL) {
            return NULL;
        }

        if (slot->hash == finished
            && slot->port == port
            && slot->rule->wildcard == wildcard
            && strncmp(slot->rule->host, host, n) == 0
            && slot->rule->host[n] == '\0')
        {
            return slot->rule;
        }
    }
}


/* At most half of the slots are taken, so runs are short and always end. */

static int
policy_index_reserve(policy_index_t *index, size_t more)
{
    size_t          i, size;
    policy_index_t  bigger;

    size = index->slots ? index->mask + 1 : 0;

    if (index->used + more <= size / 2) {
        return 0;
    }

    size = size ? size * 2 : INDEX_FIRST;

    bigger.mask = size - 1;
    bigger.used = 0;
    bigger.slots = calloc(size, sizeof(index_slot_t));

    if (bigger.slots == NULL) {
        return -1;
    }

    for (i = 0; index->slots && i <= index->mask; i++) {
        if (index->slots[i].rule) {
            policy_index_insert(&bigger, index->slots[i].rule,
                                index->slots[i].hash, index->slots[i].port);
        }
    }

    free(index->slots);
    *index = bigger;

    return 0;
}


static void
policy_index_insert(policy_index_t *index, policy_rule_t *rule, uint32_t hash,
    uint32_t port)
{
    size_t  i;

    for (i = hash & index->mask; index->slots[i].rule;
         i = (i + 1) & index->mask)
    {
        /* void */
    }

    index->slots[i].rule = rule;
    index->slots[i].hash = hash;
    index->slots[i].port = port;
    index->used++;
}


static uint64_t
policy_index_hash(const char *host, size_t n)
{
    uint64_t  hash;

    for (hash = HASH_START; n-- > 0; /* void */ ) {
        hash = policy_index_hash_byte(hash, host[n]);
    }

    return hash;
}


static uint64_t
policy_index_hash_byte(uint64_t hash, char c)
{
    return (hash ^ (unsigned char) c) * HASH_PRIME;
}


/* FNV's low bits mix badly; the finisher is the one of MurmurHash3. */

static uint32_t
policy_index_hash_end(uint64_t hash, bool wildcard, uint32_t port)
{
    hash ^= ((uint64_t) port << 1 | wildcard) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 33;
    hash *= 0xff51afd7ed558ccdULL;
    hash ^= hash >> 33;
    hash *= 0xc4ceb9fe1a85ec53ULL;
    hash ^= hash >> 33;

    return (uint32_t) hash;
}
