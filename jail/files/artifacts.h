/*
 * What a task leaves under /run/task/out, taken into a directory of the
 * caller's after the box is dead.
 */

#ifndef JAIL_COLLECT_H
#define JAIL_COLLECT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/fault.h"


#define COLLECT_FILES_MAX    1000
#define COLLECT_SKIPPED_MAX  100        /* that are named in the result */
#define COLLECT_TEXT_MAX     65536      /* bytes of all names in a list of it */
#define COLLECT_DEPTH_MAX    32
#define COLLECT_PATH_MAX     4095


typedef struct {
    const char  *path;                  /* of the caller's directory */
    int          dir;                   /* -1: nothing is to be taken */
    bool         is_made;               /* it was not there before */

    json_t      *artifacts;             /* of {name, bytes, sha256, type} */
    json_t      *skipped;               /* of {name, reason}, and perhaps a
                                           last {reason: "more", count} */
} collect_t;


/*
 * Before the box: makes the directory, or takes an empty one of the
 * caller's.  So it is known early that there is a place for the files.
 */
int collect_prepare(collect_t *collect, const char *path, fault_t *fault);

/*
 * Takes the files of the tmpfs that the descriptor is the root of.  0, or -1
 * with the fault set, and nothing is left of what was written.
 */
int collect_take(collect_t *collect, int mount, fault_t *fault);

/* Undoes collect_prepare() for a task that did not run. */
void collect_drop(collect_t *collect);

void collect_free(collect_t *collect);


#endif /* JAIL_COLLECT_H */
