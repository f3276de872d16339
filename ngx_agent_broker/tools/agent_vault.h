/* What the sources of agent-vault share. */

#pragma once

#include "policy/vault_internal.h"


/* The exit statuses. */

#define AGENT_VAULT_DONE    0
#define AGENT_VAULT_FAILED  1       /* the file is as it was */
#define AGENT_VAULT_USAGE   2


#define AGENT_VAULT_NEW  ".agent-vault.new"

/* A vault that is open: locked, if it may be changed. */

typedef struct {
    const char       *path;
    const char       *base;         /* its name in the directory */
    int               dir;
    bool              exists;
    struct stat       st;           /* of the file, if it exists */
    uid_t             owner;
    size_t            n;
    vault_memory_t    text;         /* n bytes of it */
    vault_memory_t    key;          /* data is NULL without one */
    size_t            count;
    vault_line_t     *lines;
    bool              is_sealed;    /* one of its values is */
    vault_memory_t    opened;
    vault_line_t     *values;       /* as lines, opened with the key */
} agent_vault_t;

typedef enum {
    AGENT_VAULT_IN_CLEAR,
    AGENT_VAULT_WITH_KEY,
    AGENT_VAULT_AS_LINES
} agent_vault_as_t;

typedef struct {
    const char  *vault;
    const char  *key;
    const char  *name;
    bool         is_plain;
    bool         is_help;
    bool         is_version;
} agent_vault_options_t;

/* What becomes of a line's value. */

typedef struct {
    const char  *text;              /* NULL: it is kept */
    size_t       len;
    bool         is_removed;        /* the line goes */
} agent_vault_change_t;


/*
 * Opens and checks the vault, and its key if key_path is not NULL.  For a
 * change its directory is locked, and a file that is not there is an empty one
 * if may_be_new.  Returns 0, or -1 with err.  The caller closes it in any case.
 */
int agent_vault_open(agent_vault_t *av, const char *path, const char *key_path,
    bool is_change, bool may_be_new, char err[VAULT_ERROR_MAX]);
void agent_vault_close(agent_vault_t *av);

/* Opens all values with the key; one that is not sealed is an error. */
int agent_vault_open_values(agent_vault_t *av, char err[VAULT_ERROR_MAX]);

/*
 * Replaces the file by one with these changes, one for each line, and `added`
 * behind it.  The new text must be what the broker reads: with the key, without
 * one, or by its lines, where values are sealed and their key is not needed.
 * Returns 0, or -1 with err.
 */
int agent_vault_replace(agent_vault_t *av, const agent_vault_change_t *changes,
    const agent_vault_change_t *added, agent_vault_as_t how,
    char err[VAULT_ERROR_MAX]);

/*
 * Writes the file `base` of the directory, which is locked, at once or not at
 * all, with the owner and mode of st if it is not NULL.  0, or -1 with err.
 */
int agent_vault_store(const char *path, int dir, const char *base,
    const struct stat *st, const unsigned char *p, size_t n,
    char err[VAULT_ERROR_MAX]);

/* Makes a file with the key's random bytes, if there is none.  0 or -1. */
int agent_vault_new_key(const char *path, char err[VAULT_ERROR_MAX]);

/*
 * Reads a value from standard input: one line, or what is typed without an
 * echo at a terminal.  Returns 0, or -1 with err.  The caller frees the memory.
 */
int agent_vault_value(const char *name, vault_memory_t *memory, size_t *n,
    char err[VAULT_ERROR_MAX]);

/* The commands.  0, or -1 with err. */
int agent_vault_command_init_key(const agent_vault_options_t *options,
    char err[VAULT_ERROR_MAX]);
int agent_vault_command_seal(const agent_vault_options_t *options,
    char err[VAULT_ERROR_MAX]);
int agent_vault_command_unseal(const agent_vault_options_t *options,
    char err[VAULT_ERROR_MAX]);
int agent_vault_command_add(const agent_vault_options_t *options,
    char err[VAULT_ERROR_MAX]);
int agent_vault_command_rotate(const agent_vault_options_t *options,
    char err[VAULT_ERROR_MAX]);
int agent_vault_command_remove(const agent_vault_options_t *options,
    char err[VAULT_ERROR_MAX]);
int agent_vault_command_list(const agent_vault_options_t *options,
    char err[VAULT_ERROR_MAX]);
