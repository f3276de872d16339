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
static void supervise_disk(supervise_t *s, unsigned disk, uint64_t used,
    uint64_t max);
static void supervise_near(supervise_t *s, limit_id_t id, uint64_t used);


/* And the limits that no part of the kernel enforces. */

reason_t
supervise_limits(supervise_t *s, int64_t now)
{
    uint64_t         cpu_ms;
    const uint64_t  *limits;

    limits = s->result->limits;

    s->cgroup->ops->usage(s->cgroup, s->is_dead, &s->usage);
    supervise_disks(s);

    cpu_ms = s->usage.cpu_ns / 1000000;

    supervise_near(s, LIMIT_CPU_TIME, cpu_ms);
    supervise_near(s, LIMIT_MEMORY, s->usage.memory_peak);
    supervise_near(s, LIMIT_PIDS, s->usage.pids_peak);
    supervise_near(s, LIMIT_OUTPUT_BYTES,
                   s->result->out.bytes + s->result->err.bytes);

    if (s->started) {
        supervise_near(s, LIMIT_WALL_CLOCK, (uint64_t) (now - s->started));
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
    uint64_t       used;
    struct statfs  sfs;

    used = 0;

    for (i = 0; i < s->ndisks; i++) {

        if (fstatfs(s->disks[i], &sfs) != 0) {
            continue;
        }

        used += (uint64_t) (sfs.f_blocks - sfs.f_bfree)
                * (uint64_t) sfs.f_bsize;

        if (sfs.f_bfree < SUPERVISE_DISK_SLACK || sfs.f_ffree == 0) {
            s->verdict.disk_full = true;
        }

        supervise_disk(s, RESULT_BYTES, (uint64_t) (sfs.f_blocks - sfs.f_bfree)
                                        * (uint64_t) sfs.f_bsize,
                       (uint64_t) sfs.f_blocks * (uint64_t) sfs.f_bsize);
        supervise_disk(s, RESULT_INODES, (uint64_t) (sfs.f_files
                                                     - sfs.f_ffree),
                       (uint64_t) sfs.f_files);
    }

    if (used > s->result->disk_bytes) {
        s->result->disk_bytes = used;
    }
}


/* The fullest one counts: it is where the next write fails. */

static void
supervise_disk(supervise_t *s, unsigned disk, uint64_t used, uint64_t max)
{
    bool            is_near;
    result_disk_t  *d;

    d = &s->result->disks[disk];

    if (max == 0 || (d->max && (double) used / (double) max
                               <= (double) d->used / (double) d->max))
    {
        return;
    }

    d->used = used;
    d->max = max;

    is_near = (double) used * 100
              >= (double) max * (double) s->result->limits[LIMIT_NEAR];

    if (is_near && !d->near && !s->is_dead) {
        broker_near_limit(s->broker, result_disk_name(disk), used);
    }

    d->near |= is_near;
}


static void
supervise_near(supervise_t *s, limit_id_t id, uint64_t used)
{
    result_t  *r;

    r = s->result;

    if (used > r->used[id]) {
        r->used[id] = used;
    }

    if (r->near[id]
        || (double) used * 100
           < (double) r->limits[id] * (double) r->limits[LIMIT_NEAR])
    {
        return;
    }

    r->near[id] = true;

    if (!s->is_dead) {
        broker_near_limit(s->broker, limit_table[id].directive, used);
    }
}
