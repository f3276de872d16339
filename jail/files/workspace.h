/*
 * A directory of the caller's that a task works on: copied into the box, and
 * back if the task ended by itself.
 */

#pragma once

#include <jansson.h>

#include "base/fault.h"
#include "files/tree.h"


#define WORKSPACE_NAMES_MAX  1000       /* of each kind in the result */
#define WORKSPACE_TEXT_MAX   65536      /* bytes of all names in it */

/* for files that are copied back; removed later if a launcher was killed */
#define WORKSPACE_STAGING    ".agent-workspace"


typedef struct {
    const char  *path;
    int          dir;                   /* locked; -1: there is none */
    tree_t       before;                /* what the box gets */
    json_t      *result;                /* see workspace_result() */
} workspace_t;


/*
 * Opens and locks the directory, which must be the caller's own and contain no
 * home.  A locked one is refused at once, naming the process that has it.
 */
int workspace_lock(workspace_t *workspace, const char *path,
    fault_t *fault);

/* Reads it; max is the most bytes that all files may have. */
int workspace_read(workspace_t *workspace, uint64_t max, fault_t *fault);

/*
 * Copies back what has changed in the box's copy, of which `work` is a
 * descriptor.  0, with each path that could not be changed in "refused" of the
 * result; or -1 with the fault set, and nothing is changed.  With work -1
 * nothing is copied.
 */
int workspace_take(workspace_t *workspace, int work, fault_t *fault);

void workspace_free(workspace_t *workspace);


/* The rules: pure, on paths relative to the directory. */

/* A file that makes a program on the host run code, or is in such a place. */
bool workspace_runs_code(const char *path, mode_t type);

/*
 * The new or changed file at this path is the config of a directory that looks
 * like a git repository, or is part of what makes it one.
 */
bool workspace_makes_repository(const tree_t *before, const tree_t *after,
    const char *path);

/* A link at this path with this target does not lead outside. */
bool workspace_link_is_inside(const char *path, const char *target);
