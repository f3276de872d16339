/*
 * A process that outlives the launcher, so that a box with a small share of
 * the processors is gone soon after a launcher that was killed.
 */

#pragma once

#include "box/box.h"
#include "cgroup/cgroup.h"


typedef struct {
    pid_t  pid;                         /* 0: none */
    int    pidfd;                       /* -1: the kernel gives none */
    int    hangup;                      /* its other end is the guard's */
} guard_t;


/* Whether a box with these limits would die too slowly without one. */
bool guard_is_needed(const uint64_t limits[LIMIT_COUNT]);

/* When it returns 0 the guard watches.  The group has its limits. */
int guard_start(guard_t *g, const box_t *box, cgroup_t *cg, fault_t *fault);

/* To be called when the box is gone, before its group is removed. */
void guard_end(guard_t *g);
