/*
 * What a task has used so far: looked at ten times a second while it lives,
 * and once more when it is dead.  A run of less than a tenth of a second is
 * looked at only then.
 *
 * That a file system is full is known from the file system, seen full; what
 * a program says of it may be about another one, or untrue.
 */

#include <sys/vfs.h>

#include "run/supervise.h"


#define SUPERVISE_DISK_SLACK  4         /* pages: a full disk has few left */
#define SUPERVISE_SOCKETS     2         /* of the memory: half beside it */


static void supervise_disks(supervise_t *s);
static void supervise_limit(supervise_t *s, limit_id_t id, uint64_t used);
static void supervise_use(supervise_t *s, unsigned use, uint64_t used,
    uint64_t max);


/* And the limits that no part of the kernel enforces. */

reason_t
supervise_limits(supervise_t *s, int64_t now)
{
    uint64_t         cpu_ms;
    const uint64_t  *limits;

    limits = s->result->limits;

    cgroup_usage(s->cgroup, s->is_dead, &s->usage);
    supervise_disks(s);

    cpu_ms = s->usage.cpu_ns / 1000000;

    supervise_limit(s, LIMIT_CPU_TIME, cpu_ms);
    supervise_limit(s, LIMIT_MEMORY, s->usage.memory_peak);
    supervise_limit(s, LIMIT_PIDS, s->usage.pids_peak);
    supervise_limit(s, LIMIT_OUTPUT_BYTES,
                   s->result->out.bytes + s->result->err.bytes);

    if (s->started) {
        supervise_limit(s, LIMIT_WALL_CLOCK, (uint64_t) (now - s->started));
    }

    if (cpu_ms >= limits[LIMIT_CPU_TIME]) {
        return REASON_CPU_TIME;
    }

    /* v1 kills one process; what goes on without it would lie */

    return s->usage.sockets > limits[LIMIT_MEMORY] / SUPERVISE_SOCKETS
           || s->usage.oom_kills > 0 ? REASON_OOM : REASON_OK;
}


static void
supervise_disks(supervise_t *s)
{
    unsigned       i;
    uint64_t       used, bytes;
    struct statfs  sfs;

    used = 0;

    for (i = 0; i < s->ndisks; i++) {

        if (fstatfs(s->disks[i], &sfs) != 0) {
            continue;
        }

        bytes = (uint64_t) (sfs.f_blocks - sfs.f_bfree)
                * (uint64_t) sfs.f_bsize;
        used += bytes;

        if (sfs.f_bfree < SUPERVISE_DISK_SLACK || sfs.f_ffree == 0) {
            s->verdict.disk_full = true;
        }

        supervise_use(s, RESULT_BYTES, bytes,
                      (uint64_t) sfs.f_blocks * (uint64_t) sfs.f_bsize);
        supervise_use(s, RESULT_INODES,
                      (uint64_t) (sfs.f_files - sfs.f_ffree),
                      (uint64_t) sfs.f_files);
    }

    if (used > s->result->disk_bytes) {
        s->result->disk_bytes = used;
    }
}


static void
supervise_limit(supervise_t *s, limit_id_t id, uint64_t used)
{
    supervise_use(s, id, used, s->result->limits[id]);
}


/*
 * The most of it counts, and of the file systems the fullest one: it is where
 * the next write fails.
 */

static void
supervise_use(supervise_t *s, unsigned use, uint64_t used, uint64_t max)
{
    bool           is_near;
    result_use_t  *u;

    u = &s->result->uses[use];

    if (max == 0 || (u->max && (double) used / (double) max
                               <= (double) u->used / (double) u->max))
    {
        return;
    }

    u->used = used;
    u->max = max;

    is_near = (double) used * 100
              >= (double) max * (double) s->result->limits[LIMIT_NEAR];

    if (is_near && !u->near && !s->is_dead) {
        broker_near_limit(s->broker, result_use_name(use), used);
    }

    u->near |= is_near;
}
