/*
 * A directory of the caller's that a task works on: copied into the box, and
 * back when the task has ended by itself.
 */

#ifndef JAIL_WORKSPACE_H
#define JAIL_WORKSPACE_H

#include <jansson.h>

#include "base/fault.h"
#include "files/tree.h"


#define WORKSPACE_NAMES_MAX  1000       /* of each kind in the result */
#define WORKSPACE_TEXT_MAX   65536      /* bytes of all names in it */

/* while files are copied back; what a killed launcher left of it is removed */
#define WORKSPACE_STAGING    ".agent-workspace"


typedef struct {
    const char  *path;
    int          dir;                   /* locked; -1: there is none */
    tree_t       before;                /* what the box gets */
    json_t      *result;                /* see workspace_result() */
} workspace_t;


/*
 * Opens and locks the directory, which must be the caller's own and hold no
 * home.  One that is locked is refused at once, with its holder.
 */
int workspace_lock(workspace_t *workspace, const char *path,
    fault_t *fault);

/* Reads it; max is the most bytes that all files may have. */
int workspace_read(workspace_t *workspace, uint64_t max, fault_t *fault);

/*
 * Copies back what has changed in the box's copy, of which `work` is a
 * descriptor.  0, or -1 with the fault set and nothing changed, or not all
 * of what the result tells.  With work -1 nothing is copied.
 */
int workspace_take(workspace_t *workspace, int work, fault_t *fault);

void workspace_free(workspace_t *workspace);


/* The rules: pure, on paths relative to the directory. */

/* A file that makes a program on the host run code, or part of such. */
bool workspace_runs_code(const char *path, mode_t type);

/*
 * What is new or changed at this path is the config of a directory that looks
 * like a repository of git, or part of what makes it one.
 */
bool workspace_makes_repository(const tree_t *before, const tree_t *after,
    const char *path);

/* A link at this path with this target leads to no place outside. */
bool workspace_link_is_inside(const char *path, const char *target);


#endif /* JAIL_WORKSPACE_H */
