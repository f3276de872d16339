/*
 * The box's cgroup: claimed before the box is made, limited while it is being
 * built, joined by the box's first process itself before anything of the task
 * is in it, read after its end, then removed.  A version of cgroups is one
 * table of functions; nothing else in the launcher knows which one it is.
 *
 * Where: v1 <controller>/agent-jail/<uid of the launcher>/<slot>, v2 as
 * cgroup_place.c says.  The directory is at the same time the claim on the
 * slot, a number below CGROUP_SLOTS that no other live box below the same
 * directory has, and is locked (flock) by its launcher, and by its guard if it
 * has one, for as long as they live.  So a directory whose lock is free
 * belongs to nobody, whatever pid namespace its launcher lived in, and may be
 * swept.
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/fault.h"
#include "shared/limits.h"


#define CGROUP_SLOTS       65536
#define CGROUP_ATTACH_MAX  4


typedef struct cgroup_ops_s  cgroup_ops_t;


typedef struct {
    const cgroup_ops_t  *ops;
    uint32_t             slot;
    char                 name[16];      /* the slot, as the directory's name */
    int                  lock;          /* the locked directory, -1: none */
    int                  parents[CGROUP_ATTACH_MAX];
    int                  dirs[CGROUP_ATTACH_MAX];

    /* for CLONE_INTO_CGROUP; not to be closed; -1: there is no such thing */
    int                  into;

    /*
     * Descriptors for the child: a "0" written to each by a process puts
     * that process into the group.
     */
    int                  attach[CGROUP_ATTACH_MAX];
    unsigned             nattach;
} cgroup_t;


typedef struct {
    uint64_t  cpu_ns;
    uint64_t  memory;           /* bytes, now */
    uint64_t  memory_peak;
    uint64_t  sockets;          /* bytes in them that memory does not have */
    uint64_t  pids;
    uint64_t  pids_peak;
    uint64_t  oom_kills;
    uint64_t  pids_refused;     /* forks that failed at the limit */
} cgroup_usage_t;


typedef enum {
    CGROUP_OFFERS_NONE = 0,     /* not mounted */
    CGROUP_OFFERS_SOME,         /* not all of what a box needs */
    CGROUP_OFFERS_ALL
} cgroup_offer_t;


struct cgroup_ops_s {
    const char  *version;       /* "v1", as in the result */

    /* What this host, not this user, has of the version. */
    cgroup_offer_t (*offers)(void);

    /* Claims a slot, and makes the group as far as a box is born in it. */
    int        (*claim)(cgroup_t *cg, fault_t *fault);

    /* Makes the rest of the group, sets and verifies the limits. */
    int        (*limit)(cgroup_t *cg, const uint64_t limits[LIMIT_COUNT],
                        fault_t *fault);

    /* What is read of the group (cgroup_dir.h). */
    const struct cgroup_counter_s  *counters;
    size_t       ncounters;

    /*
     * When pid 1 of the box is killed, and not reaped: kills all that is in
     * the group, if the version can, and lets it die as fast as the machine
     * can.
     */
    void       (*kill)(cgroup_t *cg, pid_t init);

    /* To be called when every process of the box is reaped. */
    void       (*remove)(cgroup_t *cg);

    /*
     * Removes the directories of one uid whose launchers are dead; looks at
     * no more than max of them.  The number removed, or -1 with errno.
     */
    int        (*sweep)(uid_t uid, unsigned max);

    /* Calls sweep for every uid the caller may sweep; the sum. */
    int        (*sweep_all)(void);
};


/* The box's init is not the task's: it is not counted against its limit. */
#define CGROUP_PIDS_OVERHEAD  1


extern const cgroup_ops_t  cgroup_v1;
extern const cgroup_ops_t  cgroup_v2;

/* The operations for this host; NULL with a fault when there are none. */
const cgroup_ops_t *cgroup_probe(fault_t *fault);

/*
 * What has been used.  Values that cannot be read are left as they are; of a
 * box that is gone, those of the moment as well.
 */
void cgroup_usage(const cgroup_t *cg, bool is_gone, cgroup_usage_t *usage);

/* Beside this box's directory there are others, of the living or the dead. */
bool cgroup_has_neighbours(const cgroup_t *cg);

/* A group that holds nothing, so that it may be removed at any time. */
void cgroup_clear(cgroup_t *cg);
