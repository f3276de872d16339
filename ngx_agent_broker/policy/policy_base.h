/* What every file of the policy builds on: its errors, its lists, its hash. */

#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "jail/shared/protocol.h"


#define POLICY_ERROR_MAX  512
#define POLICY_HASH_LEN   PROTOCOL_POLICY_HASH_LEN


/* `what "value" why`, the value shown harmlessly; -1, for a return. */
int policy_error(char err[POLICY_ERROR_MAX], const char *what,
    const char *value, const char *why);

int policy_no_memory(char err[POLICY_ERROR_MAX]);

/*
 * Makes room for one more element of an array that is malloc'd, or NULL when
 * count is 0.  NULL: no memory, and the array stays as it was.
 */
void *policy_grow(void *array, size_t count, size_t size);

/*
 * Adds a copy of an item of size bytes to *list, whose length is *count.  -1
 * with err, also for an item that is there: the same bytes, or of a string,
 * the item's first member, the same text.  text is what a message shows.
 */
int policy_list_add(void *list, size_t *count, const void *item, size_t size,
    bool is_string, const char *what, const char *text,
    char err[POLICY_ERROR_MAX]);

/* "sha256:" and the hex digits of n bytes. */
void policy_hash_text(const void *p, size_t n,
    char dst[POLICY_HASH_LEN + 1]);

/* The same of a SHA-256. */
void policy_hash_digest(const unsigned char digest[32],
    char dst[POLICY_HASH_LEN + 1]);
