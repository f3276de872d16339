/*
 * What separates a task from the host's kernel.  Every wall is put up in
 * the same box: namespaces, cgroup, doors, limits and the ways to end it are
 * the same.  A row says what becomes the box's main process.
 */

#pragma once

#include "box/setup.h"


#define WALL_DEFAULT  "namespaces"


struct wall_s {
    const char  *name;          /* "isolation" of a policy and of the result */
    const char  *kernel;        /* the task's: shared, userspace or own */

    /*
     * In the main process, when the box is complete: executes the task, or
     * what runs it.  Reports a fault and exits if it cannot; never returns.
     */
    void       (*run)(setup_t *s);
};


/* All that are built in; the last row has no name. */
extern const wall_t  wall_table[];

/*
 * The wall of this name; NULL with the fault set if none is built in.
 */
const wall_t *wall_find(const char *name, fault_t *fault);
