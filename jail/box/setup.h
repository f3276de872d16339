/*
 * The straight line from clone to exec.  Every function here runs in the
 * child only, returns -1 with errno when its step failed, and leaves in
 * `detail` what the step was about.
 */

#pragma once

#include <stdnoreturn.h>

#include "box/box.h"


typedef struct {
    const box_spec_t  *spec;
    int                root;            /* the box's root, a mount */
    int                work;            /* its working directory */
    int                children;        /* a signalfd for SIGCHLD */

    /* the first rows that were hidden: by a file, by a directory */
    const mount_op_t  *cover[2];

    /* a "0" written to each puts the process into the box's group */
    int                attach[CGROUP_ATTACH_MAX];
    unsigned           nattach;
    int                disks[BOX_DISKS_MAX];
    unsigned           ndisks;
    cause_t            cause;           /* of a failed step, if it knows */
    char               detail[BOX_DETAIL_MAX];
} setup_t;


/* The body of the box's first process. */
noreturn void setup_run(const box_spec_t *spec);

/* doors.c: the loopback interface, and the sockets made in this namespace */
int doors_loopback(setup_t *s);
int doors_open(setup_t *s);

/* routes.c: every address leads to the doors */
int routes_local(setup_t *s);

/* mounts.c: the box's file system */
int mounts_private(setup_t *s);
int mounts_root(setup_t *s);
int mounts_build(setup_t *s);
int mounts_workspace(setup_t *s);
int mounts_files(setup_t *s);
int mounts_pivot(setup_t *s);

/* landlock.c, seccomp.c: the last walls */
int landlock_enter(setup_t *s);
int seccomp_enter(setup_t *s);

/* exec.c: the main process, until it is the task's program */
noreturn void exec_main(setup_t *s);

/* reaper.c: what pid 1 of the box does until its end */
noreturn void reaper_run(int lifeline, int children, pid_t main_pid);
