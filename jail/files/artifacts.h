/*
 * The files that a task leaves under /run/task/out, copied into a directory of
 * the caller's after the end of the box.
 */

#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/fault.h"


#define ARTIFACTS_FILES_MAX    1000
#define ARTIFACTS_SKIPPED_MAX  100      /* that are named in the result */
#define ARTIFACTS_TEXT_MAX     65536    /* bytes of names in a list of it */
#define ARTIFACTS_DEPTH_MAX    32


typedef struct {
    const char  *path;                  /* of the caller's directory */
    int          dir;                   /* -1: there is no --out */
    bool         is_made;               /* it did not exist before */

    json_t      *artifacts;             /* of {name, bytes, sha256, type} */
    json_t      *skipped;               /* of {name, reason}, and perhaps a
                                           last {reason: "more", count} */
} artifacts_t;


/*
 * Before the box: makes the directory, or opens an empty one of the caller's,
 * so that a bad --out is reported before the task runs.
 */
int artifacts_prepare(artifacts_t *artifacts, const char *path,
    fault_t *fault);

/*
 * Takes the files of the tmpfs whose root the descriptor is.  0, or -1 with the
 * fault set, and everything that was written is removed.
 */
int artifacts_take(artifacts_t *artifacts, int mount, fault_t *fault);

/* Undoes artifacts_prepare() for a task that did not run. */
void artifacts_drop(artifacts_t *artifacts);

void artifacts_free(artifacts_t *artifacts);
