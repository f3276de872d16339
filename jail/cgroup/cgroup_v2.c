/*
 * Limits by the controllers of the unified hierarchy.
 *
 * Order: the directory's lock, its limits, and only then its first process,
 * which is born in it by CLONE_INTO_CGROUP.  Where the kernel or a filter
 * refuses that, it joins by writing "0" to cgroup.procs through a descriptor
 * that was opened here, with the launcher's rights.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "cgroup/cgroup_dir.h"
#include "cgroup/cgroup_place.h"
#include "cgroup/cgroup_text.h"


/* a name of our own: what is delegated may hold groups of others */
#define V2_BOX         "box-"

#define V2_CPU_PERIOD  100000ULL        /* us, the kernel's default */
#define V2_EMPTY_WAIT  1000             /* ms, for the last process's end */
#define V2_TRIES       50               /* ms, for rmdir after that */


static int v2_swap_absent(fault_t *fault);


/*
 * The kernel shall kill the whole box for memory, not one process of it:
 * what goes on without it would lie.
 */

static const cgroup_limit_t  v2_limits[] = {
    { 0, "pids.max", LIMIT_PIDS, 1, 1, CGROUP_PIDS_OVERHEAD, false, "", NULL },
    { 0, "memory.max", LIMIT_MEMORY, 1, 1, 0, true, "", NULL },
    { 0, "memory.swap.max", LIMIT_MEMORY, 0, 1, 0, false, "", v2_swap_absent },
    { 0, "memory.oom.group", LIMIT_MEMORY, 0, 1, 1, false, "", NULL },
    { 0, "cpu.max", LIMIT_CPU, V2_CPU_PERIOD, 1000, 0, false, " 100000",
      NULL },
};


static const cgroup_counter_t  v2_counters[] = {
    { 0, "cpu.stat", "usage_usec", 1000, 0, false, USAGE(cpu_ns) },
    { 0, "memory.current", NULL, 1, 0, true, USAGE(memory) },

    /* since Linux 5.19; before, the largest value seen is the peak */
    { 0, "memory.peak", NULL, 1, 0, false, USAGE(memory_peak) },
    { 0, "memory.events", "oom_kill", 1, 0, false, USAGE(oom_kills) },
    { 0, "pids.current", NULL, 1, CGROUP_PIDS_OVERHEAD, true, USAGE(pids) },

    /* since Linux 6.1 */
    { 0, "pids.peak", NULL, 1, CGROUP_PIDS_OVERHEAD, false, USAGE(pids_peak) },
    { 0, "pids.events", "max", 1, 0, false, USAGE(pids_refused) },
};


static int v2_claim(cgroup_t *cg, fault_t *fault);
static int v2_limit(cgroup_t *cg, const uint64_t limits[LIMIT_COUNT],
    fault_t *fault);
static void v2_kill(cgroup_t *cg, pid_t init);
static void v2_remove(cgroup_t *cg);
static int v2_sweep(uid_t uid, unsigned max);
static int v2_sweep_all(void);

static void v2_wait(int dir);
static int v2_gone(void *data, const char *name, int lock);


const cgroup_ops_t  cgroup_v2 = {
    "v2",
    cgroup_place_offers,
    v2_claim,
    v2_limit,
    v2_counters,
    sizeof(v2_counters) / sizeof(v2_counters[0]),
    v2_kill,
    v2_remove,
    v2_sweep,
    v2_sweep_all
};


static int
v2_claim(cgroup_t *cg, fault_t *fault)
{
    char  where[CGROUP_PATH_MAX];

    cg->ops = &cgroup_v2;
    cg->parents[0] = cgroup_place_open(where, sizeof(where), fault);

    if (cg->parents[0] == -1
        || cgroup_dir_claim(cg, V2_BOX, where, CAUSE_NONE, fault) != 0)
    {
        return -1;
    }

    cg->into = cg->lock;
    cg->dirs[0] = fcntl(cg->lock, F_DUPFD_CLOEXEC, 3);
    cg->attach[0] = openat(cg->lock, "cgroup.procs", O_WRONLY|O_CLOEXEC);

    if (cg->dirs[0] == -1 || cg->attach[0] == -1) {
        return fault_set(fault, STAGE_CGROUP, errno,
                         "the box's group %.200s/%s cannot be opened", where,
                         cg->name);
    }

    cg->nattach = 1;

    return 0;
}


static int
v2_limit(cgroup_t *cg, const uint64_t limits[LIMIT_COUNT], fault_t *fault)
{
    return cgroup_limits_set(cg->dirs, v2_limits,
                             sizeof(v2_limits) / sizeof(v2_limits[0]), limits,
                             fault);
}


/*
 * Not there in a kernel without swap, or told not to count it: a line after
 * the heading of /proc/swaps; what cannot be read may be one.
 */

static int
v2_swap_absent(fault_t *fault)
{
    char  text[CGROUP_FILE_MAX], *p;

    p = NULL;

    if (cgroup_file_read(AT_FDCWD, "/proc/swaps", text, sizeof(text)) == 0) {
        p = strchr(text, '\n');

        if (p == NULL || p[1] == '\0') {
            return 0;
        }

    } else if (errno == ENOENT) {
        return 0;
    }

    return fault_set_cause(fault, STAGE_CGROUP, ENOENT, CAUSE_CGROUP_SWAP,
                           "this host has swap and does not limit it");
}


/*
 * Since Linux 5.14: all at once, so that nothing forks on meanwhile.  To die
 * takes time of a processor, which is charged to the group: hundreds of
 * processes with a small share would die for many seconds.
 */

static void
v2_kill(cgroup_t *cg, pid_t init)
{
    if (cg->dirs[0] != -1) {
        (void) cgroup_file_write(cg->dirs[0], "cgroup.kill", "1");
        (void) cgroup_file_write(cg->dirs[0], "cpu.max", "max");
    }
}


static void
v2_remove(cgroup_t *cg)
{
    unsigned  tries;

    if (cg->dirs[0] != -1) {
        v2_wait(cg->dirs[0]);
    }

    descriptors_close(cg->attach, CGROUP_ATTACH_MAX);
    descriptors_close(cg->dirs, CGROUP_ATTACH_MAX);
    cg->into = -1;

    if (cg->lock != -1) {
        tries = V2_TRIES;
        (void) cgroup_dir_remove(cg->parents[0], cg->name, &tries);
        descriptors_close(&cg->lock, 1);
    }

    descriptors_close(cg->parents, CGROUP_ATTACH_MAX);
}


/* A change of cgroup.events is POLLPRI; reading it arms the next one. */

static void
v2_wait(int dir)
{
    int            fd, tries;
    char           text[256];
    ssize_t        n;
    uint64_t       populated;
    struct pollfd  pfd;

    fd = openat(dir, "cgroup.events", O_RDONLY|O_CLOEXEC);

    if (fd == -1) {
        return;
    }

    for (tries = 0; tries < 10; tries++) {
        n = pread(fd, text, sizeof(text) - 1, 0);
        text[n > 0 ? n : 0] = '\0';

        if (cgroup_text_value(text, "populated", &populated) != 0
            || populated == 0)
        {
            break;
        }

        pfd = (struct pollfd) { .fd = fd, .events = POLLPRI };
        (void) poll(&pfd, 1, V2_EMPTY_WAIT / 10);
    }

    (void) close(fd);
}


/*
 * A user's own launchers are where this one is; root sweeps the trees of
 * others too, and finds them by their names.
 */

static int
v2_sweep(uid_t uid, unsigned max)
{
    int      parent, n;
    char     path[CGROUP_PATH_MAX];
    fault_t  fault;

    fault = (fault_t) { 0 };

    if (geteuid() == 0) {

        if (cgroup_place_tree(uid, path, sizeof(path)) != 0) {
            return -1;
        }

        parent = open(path, O_PATH|O_DIRECTORY|O_NOFOLLOW|O_CLOEXEC);

    } else {
        parent = cgroup_place_open(path, sizeof(path), &fault);
        errno = fault.err ? fault.err : errno;
    }

    if (parent == -1) {
        return -1;
    }

    n = cgroup_dir_sweep(parent, V2_BOX, max, v2_gone, &parent);
    (void) close(parent);

    return n;
}


/*
 * A box ends with its launcher.  If one did not, it is killed here, and its
 * group removed by the sweep after this one.
 */

static int
v2_gone(void *data, const char *name, int lock)
{
    unsigned  tries;

    tries = 1;

    if (cgroup_dir_remove(*(int *) data, name, &tries) == 0) {
        return 0;
    }

    if (errno == EBUSY) {
        (void) cgroup_file_write(lock, "cgroup.kill", "1");
        (void) cgroup_file_write(lock, "cpu.max", "max");
    }

    return -1;
}


static int
v2_sweep_all(void)
{
    char  path[CGROUP_PATH_MAX];

    if (geteuid() != 0) {
        return v2_sweep(geteuid(), CGROUP_SLOTS);
    }

    if (cgroup_place_tree((uid_t) -1, path, sizeof(path)) != 0) {
        return -1;
    }

    return cgroup_dir_uids(path, v2_sweep);
}
