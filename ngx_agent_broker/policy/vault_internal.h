/*
 * What the sources of the vault share, and agent-vault with them; no one else
 * includes it.
 */

#pragma once

#include <sys/stat.h>

#include "policy/vault.h"


#define VAULT_SEAL        "{gcm1}"
#define VAULT_SEALED_MAX  5512      /* of a value of VAULT_VALUE_MAX bytes */


/* An entry, as two places in the text that was parsed: nothing is copied. */

typedef struct {
    const unsigned char  *name;
    const unsigned char  *value;
    size_t                name_len;
    size_t                value_len;
    size_t                number;       /* of the line, from 1 */
} vault_line_t;


/* What is wrong with a line. */

typedef struct {
    const char           *why;          /* a constant phrase */
    size_t                number;       /* of the line; 0: of none */
    const unsigned char  *name;         /* of the entry, if it may be shown */
    size_t                name_len;
    size_t                other;        /* 0, or the line that why ends with */
    const vault_line_t   *origin;       /* NULL, or the entry */
} vault_bad_t;


/* Memory that is not swapped, not dumped, and cleansed before it goes. */

typedef struct {
    unsigned char  *data;
    size_t          size;
} vault_memory_t;


/* Pages of their own; -1: there is no memory. */
int vault_memory_alloc(vault_memory_t *memory, size_t size);
void vault_memory_free(vault_memory_t *memory);

/*
 * The file in three steps: its directory is opened (with O_PATH, or to be read)
 * and judged, then the file in it, then n bytes of it are read into memory,
 * which the caller frees.  `what` names it in messages.  -1: err says why.
 */
int vault_file_directory(const char *what, const char *path, int flags,
    uid_t owner, char err[VAULT_ERROR_MAX]);
int vault_file_open(const char *what, const char *path, int dir, uid_t owner,
    struct stat *st, char err[VAULT_ERROR_MAX]);
int vault_file_read(const char *what, const char *path, int fd,
    const struct stat *st, vault_memory_t *memory, size_t *n,
    char err[VAULT_ERROR_MAX]);

/* All three, for a key: memory gets its VAULT_KEY_SIZE bytes. */
int vault_file_key(const char *path, uid_t owner, vault_memory_t *memory,
    char err[VAULT_ERROR_MAX]);

/* Formats into err, and returns -1. */
int vault_file_refuse(char err[VAULT_ERROR_MAX], const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * The entries in the order of their lines (malloc'd, holding no value), sealed
 * or not.  NULL: bad says why.
 */
vault_line_t *vault_lines(const unsigned char *p, size_t n, size_t *count,
    vault_bad_t *bad);

/* NULL, or why no entry can have this name or value. */
const char *vault_lines_judge_name(const unsigned char *p, size_t n);
const char *vault_lines_judge_value(const unsigned char *p, size_t n);

bool vault_lines_is_sealed(const vault_line_t *line);

/*
 * Opens the values of all lines into memory, and points the lines there.  -1:
 * bad says why; bad->number is 0 if there is no memory.
 */
int vault_seal_open_lines(const unsigned char *key, vault_line_t *lines,
    size_t count, vault_memory_t *memory, vault_bad_t *bad);

/*
 * The sealed form of a value in dst, as text without a NUL: its length, or 0
 * when there are no random bytes.
 */
size_t vault_seal_value(const unsigned char *key, const vault_line_t *line,
    char dst[VAULT_SEALED_MAX]);

/* err says what is wrong with the file. */
void vault_bad_say(const char *path, const vault_bad_t *bad,
    char err[VAULT_ERROR_MAX]);

/* The packed form of entries sorted by name: its size, and its making. */
void vault_packed_sort(vault_line_t *lines, size_t count);
size_t vault_packed_size(const vault_line_t *lines, size_t count);
void vault_packed_make(const vault_line_t *lines, size_t count,
    unsigned char *dst);

size_t vault_packed_count(const unsigned char *packed, size_t n);
