/*
 * Landlock by its versions: what each knows, what is asked of it, and which
 * rights a place gets.
 */

#pragma once

#include <stddef.h>
#include <stdint.h>


typedef enum {
    LANDLOCK_SYSTEM = 1,        /* the read-only rest of the box */
    LANDLOCK_PROC = 2,
    LANDLOCK_DEV = 4,
    LANDLOCK_WORK = 8           /* what the task may write to */
} landlock_place_t;


/* What a ruleset handles, in the form of the kernel's latest structure. */

typedef struct {
    uint64_t  fs;
    uint64_t  net;
    uint64_t  scoped;
} landlock_attr_t;


typedef struct {
    landlock_attr_t  attr;
    size_t           size;      /* of attr, for this version */
    uint32_t         flags;     /* of landlock_restrict_self() */
} landlock_ask_t;


typedef struct {
    const char        *path;    /* absolute */
    landlock_place_t   place;
} landlock_rule_t;


/* The version the kernel has; 0: none, with errno. */
int landlock_abi(void);

/* All that may be asked of this version; nothing of version 0. */
void landlock_ask(int abi, landlock_ask_t *ask);

/*
 * The rights of a place; of a file that is not a directory only those it can
 * have.
 */
uint64_t landlock_rights(int abi, landlock_place_t place, int is_dir);

/*
 * One ruleset of these rules, entered by this thread, which has
 * no_new_privs.  -1 with errno; then *what is what it was about: a path of
 * the rules, or NULL for the ruleset itself.
 */
int landlock_restrict(const landlock_rule_t *rules, unsigned n,
    const char **what);
