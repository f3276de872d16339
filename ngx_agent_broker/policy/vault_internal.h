/* What the sources of the vault share; no one else includes it. */

#pragma once

#include "policy/vault.h"


/* An entry, as two places in the text that was parsed: nothing is copied. */

typedef struct {
    const unsigned char  *name;
    const unsigned char  *value;
    size_t                name_len;
    size_t                value_len;
    size_t                number;       /* of the line, from 1 */
    size_t                other;        /* of an error: the earlier line */
} vault_line_t;


/*
 * The entries, sorted by name (malloc'd, holding no value).  NULL: *why is a
 * constant phrase, bad->number the line, or 0 when there was no memory.
 */
vault_line_t *vault_lines(const unsigned char *p, size_t n, size_t *count,
    vault_line_t *bad, const char **why);

/* The packed form of sorted entries: its size, and its making. */
size_t vault_packed_size(const vault_line_t *lines, size_t count);
void vault_pack_lines(const vault_line_t *lines, size_t count,
    unsigned char *dst);

size_t vault_packed_count(const unsigned char *packed, size_t n);
