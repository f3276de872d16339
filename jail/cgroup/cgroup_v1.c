/*
 * Limits by the controllers of cgroup v1, through raw files: libcgroup's
 * calls cost 1.5 to 2.4 ms a task, these 0.3 ms.  libcgroup is asked only
 * where a controller is mounted when it is not at the usual place.
 *
 * The box joins by writing "0" to `tasks` through descriptors that were
 * opened here.  The other way, a parent that writes the child's pid into
 * cgroup.procs, waits for an RCU grace period each time: 5 to 8 ms.
 *
 * Order: the directory below `pids` is the lock, so it is made first and
 * removed last.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libcgroup.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "cgroup/cgroup_dir.h"
#include "cgroup/cgroup_text.h"


#define V1_TREE         "agent-jail"
#define V1_CPU_PERIOD   100000ULL       /* us, what every group begins with */
#define V1_CPU_SHARES   1024ULL         /* likewise */
#define V1_SOCKETS_SHARE  8             /* of the memory: the eighth part */
#define V1_CROWD        16              /* processes that let pid 1 wait */

/* rmdir is refused for a moment after the last process is reaped */
#define V1_RMDIR_TRIES  200             /* ms */


enum {
    V1_PIDS = 0,                        /* the first one: the lock */
    V1_MEMORY,
    V1_CPU,
    V1_CPUACCT,
    V1_COUNT
};

_Static_assert(V1_COUNT <= CGROUP_ATTACH_MAX, "too many controllers");


static const char *const  v1_controllers[V1_COUNT] = {
    [V1_PIDS] = "pids",
    [V1_MEMORY] = "memory",
    [V1_CPU] = "cpu",
    [V1_CPUACCT] = "cpuacct",
};

static const cause_t  v1_causes[V1_COUNT] = {
    [V1_PIDS] = CAUSE_CONTROLLER_PIDS,
    [V1_MEMORY] = CAUSE_CONTROLLER_MEMORY,
    [V1_CPU] = CAUSE_CONTROLLER_CPU,
    [V1_CPUACCT] = CAUSE_CONTROLLER_CPUACCT,
};


/*
 * memsw can only be set once the limit it may not be below is set.
 *
 * What waits in TCP and UDP sockets counts only where this limit is set, and
 * not against the other one: without it a box could take all that the host
 * allows for the sockets of everybody.  The kernel lets each socket have a
 * little in spite of it; what many have is for the launcher to look at.
 */

static int v1_memsw_absent(fault_t *fault);


static const cgroup_limit_t  v1_limits[] = {
    { V1_PIDS, "pids.max", LIMIT_PIDS, 1, 1, CGROUP_PIDS_OVERHEAD, false, "",
      NULL },
    { V1_MEMORY, "memory.limit_in_bytes", LIMIT_MEMORY, 1, 1, 0, true, "",
      NULL },
    { V1_MEMORY, "memory.memsw.limit_in_bytes", LIMIT_MEMORY, 1, 1, 0, true,
      "", v1_memsw_absent },
    { V1_MEMORY, "memory.kmem.tcp.limit_in_bytes", LIMIT_MEMORY, 1,
      V1_SOCKETS_SHARE, 0, true, "", NULL },
    { V1_CPU, "cpu.cfs_quota_us", LIMIT_CPU, V1_CPU_PERIOD, 1000, 0, false,
      "", NULL },
};


static const cgroup_counter_t  v1_counters[] = {
    { V1_CPUACCT, "cpuacct.usage", NULL, 1, 0, false, USAGE(cpu_ns) },
    { V1_MEMORY, "memory.usage_in_bytes", NULL, 1, 0, true, USAGE(memory) },
    { V1_MEMORY, "memory.max_usage_in_bytes", NULL, 1, 0, false,
      USAGE(memory_peak) },
    { V1_MEMORY, "memory.kmem.tcp.usage_in_bytes", NULL, 1, 0, true,
      USAGE(sockets) },
    { V1_MEMORY, "memory.oom_control", "oom_kill", 1, 0, false,
      USAGE(oom_kills) },
    { V1_PIDS, "pids.current", NULL, 1, CGROUP_PIDS_OVERHEAD, true,
      USAGE(pids) },

    /* since Linux 6.1 */
    { V1_PIDS, "pids.peak", NULL, 1, CGROUP_PIDS_OVERHEAD, false,
      USAGE(pids_peak) },
    { V1_PIDS, "pids.events", "max", 1, 0, false, USAGE(pids_refused) },
};


static cgroup_offer_t v1_offers(void);
static int v1_claim(cgroup_t *cg, fault_t *fault);
static int v1_limit(cgroup_t *cg, const uint64_t limits[LIMIT_COUNT],
    fault_t *fault);
static void v1_kill(cgroup_t *cg, pid_t init);
static void v1_remove(cgroup_t *cg);
static int v1_sweep(uid_t uid, unsigned max);
static int v1_sweep_all(void);

static int v1_locate(int controller, char *path, size_t cap);
static int v1_open_parent(int controller, uid_t uid, bool make);
static int v1_make(int controller, const char *path);
static int v1_open_parents(int parents[V1_COUNT], uid_t uid, bool make,
    fault_t *fault);
static int v1_gone(void *data, const char *name, int lock);
static int v1_remove_slot(int parents[V1_COUNT], const char *name,
    unsigned tries);


const cgroup_ops_t  cgroup_v1 = {
    "v1",
    v1_offers,
    v1_claim,
    v1_limit,
    v1_counters,
    sizeof(v1_counters) / sizeof(v1_counters[0]),
    v1_kill,
    v1_remove,
    v1_sweep,
    v1_sweep_all
};


static cgroup_offer_t
v1_offers(void)
{
    int   i, n;
    char  path[256];

    n = 0;

    for (i = 0; i < V1_COUNT; i++) {
        n += (v1_locate(i, path, sizeof(path)) == 0);
    }

    return n == 0 ? CGROUP_OFFERS_NONE
                  : n < V1_COUNT ? CGROUP_OFFERS_SOME : CGROUP_OFFERS_ALL;
}


static int
v1_claim(cgroup_t *cg, fault_t *fault)
{
    char  where[64];

    cg->ops = &cgroup_v1;

    if (v1_open_parents(cg->parents, geteuid(), true, fault) != 0) {
        return -1;
    }

    (void) snprintf(where, sizeof(where), V1_TREE "/%u of controller pids",
                    (unsigned) geteuid());

    return cgroup_dir_claim(cg, "", where, CAUSE_CONTROLLER_PIDS, fault);
}


static int
v1_limit(cgroup_t *cg, const uint64_t limits[LIMIT_COUNT], fault_t *fault)
{
    int  i;

    for (i = 0; i < V1_COUNT; i++) {

        /* EEXIST: cpu and cpuacct may be one mount */

        if (i != V1_PIDS
            && mkdirat(cg->parents[i], cg->name, 0755) != 0
            && !(errno == EEXIST && i == V1_CPUACCT))
        {
            return fault_set_cause(fault, STAGE_CGROUP, errno, v1_causes[i],
                                   "the box's group %s of controller %s "
                                   "could not be made", cg->name,
                                   v1_controllers[i]);
        }

        cg->dirs[i] = openat(cg->parents[i], cg->name,
                             O_PATH|O_DIRECTORY|O_CLOEXEC);

        if (cg->dirs[i] == -1) {
            return fault_set_cause(fault, STAGE_CGROUP, errno, v1_causes[i],
                                   "the box's group %s of controller %s "
                                   "could not be opened", cg->name,
                                   v1_controllers[i]);
        }

        cg->attach[i] = openat(cg->dirs[i], "tasks", O_WRONLY|O_CLOEXEC);

        if (cg->attach[i] == -1) {
            return fault_set_cause(fault, STAGE_CGROUP, errno, v1_causes[i],
                                   "tasks of controller %s could not be "
                                   "opened", v1_controllers[i]);
        }
    }

    cg->nattach = V1_COUNT;

    return cgroup_limits_set(cg->dirs, v1_limits,
                             sizeof(v1_limits) / sizeof(v1_limits[0]), limits,
                             fault);
}


/* A kernel that does not count swap. */

static int
v1_memsw_absent(fault_t *fault)
{
    return 0;
}


/*
 * To die takes time of a processor, which is charged to the group: hundreds
 * of processes with a small share would die for many seconds.
 *
 * The kernel ends them by pid 1, which has to run for it, and waits for its
 * turn among them: a second among 256 that are busy.  So it goes to the
 * directory above, where it is the only one.  That waits for an RCU grace
 * period: it is done for a crowd only.
 */

static void
v1_kill(cgroup_t *cg, pid_t init)
{
    char      text[24];
    uint64_t  pids;

    if (cg->dirs[V1_CPU] == -1) {
        return;
    }

    (void) cgroup_file_write(cg->dirs[V1_CPU], "cpu.cfs_quota_us", "-1");

    if (cgroup_file_value(cg->dirs[V1_PIDS], "pids.current", NULL, &pids) == 0
        && pids > V1_CROWD)
    {
        (void) sprintf(text, "%d", (int) init);
        (void) cgroup_file_write(cg->parents[V1_CPU], "tasks", text);
    }
}


static void
v1_remove(cgroup_t *cg)
{
    descriptors_close(cg->attach, CGROUP_ATTACH_MAX);
    descriptors_close(cg->dirs, CGROUP_ATTACH_MAX);

    if (cg->lock != -1) {
        (void) v1_remove_slot(cg->parents, cg->name, V1_RMDIR_TRIES);
        descriptors_close(&cg->lock, 1);
    }

    descriptors_close(cg->parents, CGROUP_ATTACH_MAX);
}


static int
v1_sweep(uid_t uid, unsigned max)
{
    int      n, parents[V1_COUNT];
    fault_t  fault;

    fault = (fault_t) { 0 };

    if (v1_open_parents(parents, uid, false, &fault) != 0) {
        errno = fault.err;
        return -1;
    }

    n = cgroup_dir_sweep(parents[V1_PIDS], "", max, v1_gone, parents);
    descriptors_close(parents, V1_COUNT);

    return n;
}


/*
 * One that still holds dying processes is left to the next sweep; nobody else
 * is there any more to let them die as fast as they can.
 */

static int
v1_gone(void *data, const char *name, int lock)
{
    int  dir, *parents;

    parents = data;

    if (v1_remove_slot(parents, name, 1) == 0) {
        return 0;
    }

    dir = openat(parents[V1_CPU], name,
                 O_PATH|O_DIRECTORY|O_NOFOLLOW|O_CLOEXEC);

    if (dir != -1) {
        (void) cgroup_file_write(dir, "cpu.cfs_quota_us", "-1");
        (void) close(dir);
    }

    return -1;
}


static int
v1_sweep_all(void)
{
    char  path[256];

    if (geteuid() != 0) {
        return v1_sweep(geteuid(), CGROUP_SLOTS);
    }

    if (v1_locate(V1_PIDS, path, sizeof(path) - sizeof("/" V1_TREE)) != 0) {
        return -1;
    }

    (void) strcat(path, "/" V1_TREE);

    return cgroup_dir_uids(path, v1_sweep);
}


/* Where a controller is mounted: at the usual place, or libcgroup knows. */

static int
v1_locate(int controller, char *path, size_t cap)
{
    char           *mount;
    struct statfs   sfs;

    static bool     is_usual[V1_COUNT];

    (void) snprintf(path, cap, "/sys/fs/cgroup/%s",
                    v1_controllers[controller]);

    if (is_usual[controller]
        || (statfs(path, &sfs) == 0
            && (unsigned long) sfs.f_type == CGROUP_SUPER_MAGIC))
    {
        is_usual[controller] = true;
        return 0;
    }

    mount = NULL;

    if (cgroup_init() != 0
        || cgroup_get_subsys_mount_point(v1_controllers[controller], &mount)
           != 0)
    {
        errno = ENODEV;
        return -1;
    }

    if (strlen(mount) >= cap
        || statfs(mount, &sfs) != 0
        || (unsigned long) sfs.f_type != CGROUP_SUPER_MAGIC)
    {
        free(mount);
        errno = ENODEV;
        return -1;
    }

    (void) strcpy(path, mount);
    free(mount);

    return 0;
}


/*
 * The directory of one uid.  Root's launcher makes its own; an ordinary
 * user's is made once by root, who delegates the directory, cgroup.procs and
 * tasks to that user, and no limit file.
 */

static int
v1_open_parent(int controller, uid_t uid, bool make)
{
    int   fd, i;
    char  path[256], *p, *cut[2];

    if (v1_locate(controller, path, sizeof(path) - 32) != 0) {
        return -1;
    }

    p = path + strlen(path);
    cut[0] = p + sprintf(p, "/" V1_TREE);
    cut[1] = cut[0] + sprintf(cut[0], "/%u", (unsigned) uid);

    fd = open(path, O_PATH|O_DIRECTORY|O_NOFOLLOW|O_CLOEXEC);

    if (fd != -1 || errno != ENOENT || !make || geteuid() != 0) {
        return fd;
    }

    for (i = 0; i < 2; i++) {
        char  c = *cut[i];

        *cut[i] = '\0';

        if (v1_make(controller, path) != 0 && errno != EEXIST) {
            return -1;
        }

        *cut[i] = c;
    }

    return open(path, O_PATH|O_DIRECTORY|O_NOFOLLOW|O_CLOEXEC);
}


/*
 * All boxes together have the share of this directory, which the kernel
 * divides among the processors: to weigh on each as much as one process of
 * the host there, it needs as many times the usual share.
 */

static int
v1_make(int controller, const char *path)
{
    int   fd;
    char  text[24];
    long  n;

    if (mkdir(path, 0755) != 0) {
        return -1;
    }

    n = sysconf(_SC_NPROCESSORS_ONLN);

    if (controller != V1_CPU || n <= 1) {
        return 0;
    }

    fd = open(path, O_PATH|O_DIRECTORY|O_NOFOLLOW|O_CLOEXEC);

    if (fd != -1) {
        (void) sprintf(text, "%llu", V1_CPU_SHARES * (unsigned) n);
        (void) cgroup_file_write(fd, "cpu.shares", text);
        (void) close(fd);
    }

    return 0;
}


static int
v1_open_parents(int parents[V1_COUNT], uid_t uid, bool make, fault_t *fault)
{
    int  i, err;

    for (i = 0; i < V1_COUNT; i++) {
        parents[i] = v1_open_parent(i, uid, make);

        if (parents[i] != -1) {
            continue;
        }

        err = errno;
        descriptors_close(parents, (unsigned) i);

        if (err == ENOENT) {
            return fault_set_cause(fault, STAGE_CGROUP, err, v1_causes[i],
                                   "controller %s has no directory "
                                   V1_TREE "/%u for this user",
                                   v1_controllers[i], (unsigned) uid);
        }

        (void) fault_set_cause(fault, STAGE_CGROUP, err, v1_causes[i],
                               "controller %s of cgroup v1 cannot be used",
                               v1_controllers[i]);

        if (err == ENODEV) {
            fault_fix(fault, "mount -t cgroup -o %s %s /sys/fs/cgroup/%s",
                      v1_controllers[i], v1_controllers[i],
                      v1_controllers[i]);
        }

        return -1;
    }

    return 0;
}


/* Called under the slot's lock; the lock's own directory goes last. */

static int
v1_remove_slot(int parents[V1_COUNT], const char *name, unsigned tries)
{
    int  i;

    for (i = V1_COUNT - 1; i >= 0; i--) {
        if (cgroup_dir_remove(parents[i], name, &tries) != 0) {
            return -1;
        }
    }

    return 0;
}
