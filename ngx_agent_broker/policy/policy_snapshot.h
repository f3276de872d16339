/*
 * A set of policies in one piece of memory without pointers, which every
 * process that maps it can ask for the rule of a host: nothing is read before
 * it is needed, however many hosts there are.
 *
 * A snapshot has the set's text without rules (policy_text.h), and for each
 * policy its hosts in the text's order, a hash table of them, and the texts of
 * attributes, each once.  A reader never trusts an offset in it.
 */

#pragma once

#include "policy/policy.h"


/*
 * The snapshot of a complete set, malloc'd, and its length.  Sets each policy's
 * hash: the SHA-256 of its text, as in policy_set_dump.  NULL: out of memory.
 */
unsigned char *policy_snapshot_make(policy_set_t *set, size_t *len);

/*
 * A set that reads its rules from data, which must stay until
 * policy_snapshot_close.  NULL with err.
 */
policy_set_t *policy_snapshot_open(const unsigned char *data, size_t len,
    char err[POLICY_ERROR_MAX]);

/* What was found stays; what is looked for from now on is POLICY_STALE. */
void policy_snapshot_close(policy_set_t *set);

/*
 * The policy's text (malloc'd), with as many rules as fit into max bytes when
 * it is written in ASCII, and the number of all behind them.  NULL: no memory,
 * or the snapshot is closed.
 */
char *policy_snapshot_text(const policy_t *policy, size_t max, size_t *len);
