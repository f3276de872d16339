/*
 * The directory of one box, and the files in it: what both versions of
 * cgroups share.
 */

#pragma once

#include <stddef.h>

#include "cgroup/cgroup.h"


#define CGROUP_FILE_MAX  4096           /* of a file that is read */
#define CGROUP_PATH_MAX  4096

#define USAGE(member)    offsetof(cgroup_usage_t, member)


/* Where a value of cgroup_usage_t comes from. */
typedef struct cgroup_counter_s {
    int          dir;                   /* index of the group's directories */
    const char  *file;
    const char  *key;                   /* as in cgroup_text_value() */
    uint64_t     factor;
    uint64_t     overhead;              /* subtracted, it is not the task's */
    bool         is_now;                /* not a sum, nor a peak */
    size_t       member;                /* USAGE(member) */
} cgroup_counter_t;


/* What a limit of the task's becomes in a file of the group. */
typedef struct {
    int          dir;                   /* index of the group's directories */
    const char  *file;
    limit_id_t   limit;
    uint64_t     factor;                /* of the limit's unit */
    uint64_t     divisor;
    uint64_t     extra;
    bool         pages;                 /* kept in whole pages, rounded down */
    const char  *rest;                  /* what follows the number */

    /* 0 if the file need not exist, else -1 with a fault; NULL: it must */
    int        (*absent)(fault_t *fault);
} cgroup_limit_t;


/*
 * Claims a slot: makes the directory PREFIX<slot> below cg->parents[0],
 * locks it, sets cg->name, cg->slot and cg->lock.  `where` and
 * `cause` are for the fault.
 */
int cgroup_dir_claim(cgroup_t *cg, const char *prefix, const char *where,
    cause_t cause, fault_t *fault);

/*
 * Calls `gone` under its lock for each slot's directory below parent whose
 * lock is free; looks at no more than max.  The number of calls that
 * returned 0, or -1 with errno.
 */
int cgroup_dir_sweep(int parent, const char *prefix, unsigned max,
    int (*gone)(void *data, const char *name, int lock), void *data);

/*
 * Removes the directory, waiting up to tries milliseconds while the kernel
 * says that it is busy.  One that is not there is a success.
 */
int cgroup_dir_remove(int parent, const char *name, unsigned *tries);

/* Calls f for each name in path that is a number: a uid; the sum. */
int cgroup_dir_uids(const char *path, int (*f)(uid_t uid, unsigned max));

/* 0 or -1 with errno. */
int cgroup_file_write(int dir, const char *file, const char *text);

/* The text, at most cap - 1 bytes of it and a NUL; -1 with errno. */
int cgroup_file_read(int dir, const char *file, char *text, size_t cap);

/* The same of a file of the group at this path. */
int cgroup_path_read(const char *path, const char *file, char *text,
    size_t cap);

/* As cgroup_text_value(), of a file; -1 also when it cannot be read. */
int cgroup_file_value(int dir, const char *file, const char *key,
    uint64_t *value);

/*
 * Reads the counters; one that the kernel lacks is left as it is.  A peak is
 * at least the largest value that was ever read here.  Of a box that is gone,
 * what it has now is not read.
 */
void cgroup_usage_read(const int *dirs, const cgroup_counter_t *counters,
    size_t n, bool is_gone, cgroup_usage_t *usage);

/* Writes each limit, then reads and compares it; -1 with a fault. */
int cgroup_limits_set(const int *dirs, const cgroup_limit_t *table, size_t n,
    const uint64_t limits[LIMIT_COUNT], fault_t *fault);
