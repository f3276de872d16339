/*
 * How a snapshot is laid out.  Offsets are from its first byte, and multiples
 * of 4 but those of bytes.
 */

#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "policy/policy_base.h"


#define SNAPSHOT_MAGIC   0x31746e6567616c70ULL      /* of this layout */


typedef struct {
    uint64_t  magic;
    uint64_t  size;
    uint32_t  text;             /* of the set, without rules */
    uint32_t  text_len;
    uint32_t  policies;         /* snapshot_policy_t, in the text's order */
    uint32_t  policies_count;
    uint32_t  files;            /* offsets of names with a NUL */
    uint32_t  files_count;
} snapshot_head_t;


typedef struct {
    char      hash[POLICY_HASH_LEN + 1];
    uint32_t  rules;            /* snapshot_rule_t, in the text's order, so */
    uint32_t  rules_count;      /* that the rules of a host are together */
    uint32_t  slots;            /* snapshot_slot_t */
    uint32_t  slots_mask;
    uint32_t  ports;            /* uint16_t, each port once */
    uint32_t  ports_count;
} snapshot_policy_t;


typedef struct {
    uint32_t  host;             /* bytes, with a NUL */
    uint32_t  attributes;       /* uint32_t, their number, and bytes */
    uint32_t  line;
    uint16_t  file;             /* and 1; 0: unknown */
    uint16_t  port;
    uint16_t  same;             /* of a host's first: how many it has */
    uint8_t   host_len;
    uint8_t   wildcard;
} snapshot_rule_t;


/* One for each host, by its hash; at most half of them are taken. */

typedef struct {
    uint32_t  hash;
    uint32_t  rule;             /* the host's first, and 1; 0: free */
} snapshot_slot_t;


/*
 * A name is hashed from its last byte to its first, so that on the way the
 * hash of each suffix falls out, and all wildcards that could hold the name
 * are asked in one pass over it.
 */

#define SNAPSHOT_HASH_START  0xcbf29ce484222325ULL              /* FNV-1a */


static inline uint64_t
snapshot_hash_byte(uint64_t hash, char c)
{
    return (hash ^ (unsigned char) c) * 0x100000001b3ULL;
}


/* FNV's low bits mix badly; the finisher is the one of MurmurHash3. */

static inline uint32_t
snapshot_hash_end(uint64_t hash, bool wildcard)
{
    hash ^= (uint64_t) wildcard * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 33;
    hash *= 0xff51afd7ed558ccdULL;
    hash ^= hash >> 33;
    hash *= 0xc4ceb9fe1a85ec53ULL;
    hash ^= hash >> 33;

    return (uint32_t) hash;
}
