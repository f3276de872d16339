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
 * removed last.  Whoever holds its lock, and has seen that the name still
 * leads to the locked directory, is the only one who may touch the slot.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libcgroup.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "cgroup.h"


#define V1_TREE         "agent-jail"
#define V1_CPU_PERIOD   100000ULL       /* us, the kernel's default */
#define V1_CLAIM_TRIES  256

/* rmdir is refused for a moment after the last process is reaped */
#define V1_RMDIR_TRIES  200
#define V1_RMDIR_WAIT   1000000L        /* ns */


enum {
    V1_PIDS = 0,                        /* the first one: the lock */
    V1_MEMORY,
    V1_CPU,
    V1_CPUACCT,
    V1_COUNT
};

_Static_assert(V1_COUNT <= CGROUP_ATTACH_MAX, "too many controllers");


typedef struct {
    int          controller;
    const char  *file;
    limit_id_t   limit;
    uint64_t     factor;                /* of the limit's unit */
    uint64_t     divisor;
    uint64_t     extra;
    bool         optional;              /* the file need not exist */
    bool         verify;                /* read back and compare */
} v1_limit_t;


static const char *const  v1_controllers[V1_COUNT] = {
    [V1_PIDS] = "pids",
    [V1_MEMORY] = "memory",
    [V1_CPU] = "cpu",
    [V1_CPUACCT] = "cpuacct",
};


/* memsw can only be set once the limit it may not be below is set */

static const v1_limit_t  v1_limits[] = {
    { V1_PIDS, "pids.max", LIMIT_PIDS, 1, 1, CGROUP_PIDS_OVERHEAD,
      false, true },
    { V1_MEMORY, "memory.limit_in_bytes", LIMIT_MEMORY, 1, 1, 0,
      false, true },
    { V1_MEMORY, "memory.memsw.limit_in_bytes", LIMIT_MEMORY, 1, 1, 0,
      true, true },
    { V1_CPU, "cpu.cfs_period_us", LIMIT_CPU, 0, 1, V1_CPU_PERIOD,
      false, false },
    { V1_CPU, "cpu.cfs_quota_us", LIMIT_CPU, V1_CPU_PERIOD, 1000, 0,
      false, true },
};


static int v1_create(cgroup_t *cg, const uint64_t limits[LIMIT_COUNT],
    fault_t *fault);
static void v1_usage(cgroup_t *cg, cgroup_usage_t *usage);
static void v1_remove(cgroup_t *cg);
static int v1_sweep(uid_t uid, unsigned max);
static int v1_sweep_all(void);

static int v1_locate(int controller, char *path, size_t cap);
static int v1_open_parent(int controller, uid_t uid, bool make);
static int v1_open_parents(int parents[V1_COUNT], uid_t uid, bool make,
    fault_t *fault);
static int v1_claim(cgroup_t *cg, fault_t *fault);
static int v1_lock(int parent, const char *name);
static int v1_remove_slot(int parents[V1_COUNT], const char *name,
    unsigned tries);
static int v1_set(int dir, const v1_limit_t *l, uint64_t limit,
    fault_t *fault);
static int v1_write(int dir, const char *file, uint64_t value);
static int v1_read(int dir, const char *file, const char *key,
    uint64_t *value);
static void v1_close(int *fds, unsigned n);


const cgroup_ops_t  cgroup_v1 = {
    "v1",
    v1_create,
    v1_usage,
    v1_remove,
    v1_sweep,
    v1_sweep_all
};


static int
v1_create(cgroup_t *cg, const uint64_t limits[LIMIT_COUNT], fault_t *fault)
{
    int                i;
    const v1_limit_t  *l, *end;

    cg->ops = &cgroup_v1;

    if (v1_open_parents(cg->parents, geteuid(), true, fault) != 0) {
        return -1;
    }

    if (v1_claim(cg, fault) != 0) {
        return -1;
    }

    for (i = 0; i < V1_COUNT; i++) {

        /* EEXIST: cpu and cpuacct may be one mount */

        if (i != V1_PIDS
            && mkdirat(cg->parents[i], cg->name, 0755) != 0
            && !(errno == EEXIST && i == V1_CPUACCT))
        {
            return fault_set(fault, STAGE_CGROUP, errno,
                             "the box's group %s of controller %s could not "
                             "be made", cg->name, v1_controllers[i]);
        }

        cg->dirs[i] = openat(cg->parents[i], cg->name,
                             O_PATH|O_DIRECTORY|O_CLOEXEC);

        if (cg->dirs[i] == -1) {
            return fault_set(fault, STAGE_CGROUP, errno,
                             "the box's group %s of controller %s could not "
                             "be opened", cg->name, v1_controllers[i]);
        }

        cg->attach[i] = openat(cg->dirs[i], "tasks", O_WRONLY|O_CLOEXEC);

        if (cg->attach[i] == -1) {
            return fault_set(fault, STAGE_CGROUP, errno,
                             "tasks of controller %s could not be opened",
                             v1_controllers[i]);
        }
    }

    cg->nattach = V1_COUNT;

    end = v1_limits + sizeof(v1_limits) / sizeof(v1_limits[0]);

    for (l = v1_limits; l < end; l++) {
        if (v1_set(cg->dirs[l->controller], l, limits[l->limit], fault) != 0) {
            return -1;
        }
    }

    return 0;
}


static void
v1_usage(cgroup_t *cg, cgroup_usage_t *usage)
{
    uint64_t  memory, pids;

    memory = usage->memory;
    pids = usage->pids;

    (void) v1_read(cg->dirs[V1_CPUACCT], "cpuacct.usage", NULL,
                   &usage->cpu_ns);
    (void) v1_read(cg->dirs[V1_MEMORY], "memory.usage_in_bytes", NULL,
                   &usage->memory);
    (void) v1_read(cg->dirs[V1_MEMORY], "memory.max_usage_in_bytes", NULL,
                   &usage->memory_peak);
    (void) v1_read(cg->dirs[V1_MEMORY], "memory.oom_control", "oom_kill",
                   &usage->oom_kills);

    if (v1_read(cg->dirs[V1_PIDS], "pids.current", NULL, &pids) == 0) {
        usage->pids = pids > CGROUP_PIDS_OVERHEAD
                      ? pids - CGROUP_PIDS_OVERHEAD : 0;
    }

    /* pids.peak: since Linux 6.1 */

    if (v1_read(cg->dirs[V1_PIDS], "pids.peak", NULL, &pids) == 0) {
        usage->pids_peak = pids > CGROUP_PIDS_OVERHEAD
                           ? pids - CGROUP_PIDS_OVERHEAD : 0;
    }

    if (usage->pids_peak < usage->pids) {
        usage->pids_peak = usage->pids;
    }

    if (usage->memory_peak < memory) {
        usage->memory_peak = memory;
    }

    (void) v1_read(cg->dirs[V1_PIDS], "pids.events", "max",
                   &usage->pids_refused);
}


static void
v1_remove(cgroup_t *cg)
{
    v1_close(cg->attach, CGROUP_ATTACH_MAX);
    v1_close(cg->dirs, CGROUP_ATTACH_MAX);

    if (cg->lock != -1) {
        (void) v1_remove_slot(cg->parents, cg->name, V1_RMDIR_TRIES);
        v1_close(&cg->lock, 1);
    }

    v1_close(cg->parents, CGROUP_ATTACH_MAX);
}


static int
v1_sweep(uid_t uid, unsigned max)
{
    int             fd, lock, n, parents[V1_COUNT];
    DIR            *dir;
    fault_t         fault;
    struct dirent  *de;

    fault = (fault_t) { 0 };

    if (v1_open_parents(parents, uid, false, &fault) != 0) {
        errno = fault.err;
        return -1;
    }

    n = 0;
    fd = openat(parents[V1_PIDS], ".", O_RDONLY|O_DIRECTORY|O_CLOEXEC);
    dir = fd == -1 ? NULL : fdopendir(fd);

    if (dir == NULL) {
        v1_close(&fd, 1);
        v1_close(parents, V1_COUNT);
        return -1;
    }

    while (max > 0 && (de = readdir(dir)) != NULL) {

        if (de->d_type != DT_DIR || de->d_name[0] < '0'
            || de->d_name[0] > '9')
        {
            continue;
        }

        max--;
        lock = v1_lock(parents[V1_PIDS], de->d_name);

        if (lock == -1) {
            continue;
        }

        /* one that still holds a dying process is left to the next sweep */

        n += (v1_remove_slot(parents, de->d_name, 1) == 0);
        v1_close(&lock, 1);
    }

    (void) closedir(dir);
    v1_close(parents, V1_COUNT);

    return n;
}


static int
v1_sweep_all(void)
{
    int             n, rc;
    DIR            *dir;
    char            path[256], *end;
    unsigned long   uid;
    struct dirent  *de;

    if (geteuid() != 0) {
        return v1_sweep(geteuid(), CGROUP_SLOTS);
    }

    if (v1_locate(V1_PIDS, path, sizeof(path) - sizeof("/" V1_TREE)) != 0) {
        return -1;
    }

    (void) strcat(path, "/" V1_TREE);
    dir = opendir(path);

    if (dir == NULL) {
        return errno == ENOENT ? 0 : -1;
    }

    n = 0;

    while ((de = readdir(dir)) != NULL) {
        uid = strtoul(de->d_name, &end, 10);

        if (end == de->d_name || *end != '\0') {
            continue;
        }

        rc = v1_sweep((uid_t) uid, CGROUP_SLOTS);
        n += rc > 0 ? rc : 0;
    }

    (void) closedir(dir);

    return n;
}


/* Where a controller is mounted: at the usual place, or libcgroup knows. */

static int
v1_locate(int controller, char *path, size_t cap)
{
    char           *mount;
    struct statfs   sfs;

    (void) snprintf(path, cap, "/sys/fs/cgroup/%s",
                    v1_controllers[controller]);

    if (statfs(path, &sfs) == 0
        && (unsigned long) sfs.f_type == CGROUP_SUPER_MAGIC)
    {
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

        if (mkdir(path, 0755) != 0 && errno != EEXIST) {
            return -1;
        }

        *cut[i] = c;
    }

    return open(path, O_PATH|O_DIRECTORY|O_NOFOLLOW|O_CLOEXEC);
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
        v1_close(parents, (unsigned) i);

        if (err == ENOENT) {
            return fault_set(fault, STAGE_CGROUP, err,
                             "controller %s has no directory " V1_TREE "/%u "
                             "for this user", v1_controllers[i],
                             (unsigned) uid);
        }

        (void) fault_set(fault, STAGE_CGROUP, err,
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


static int
v1_claim(cgroup_t *cg, fault_t *fault)
{
    int       i, lock;
    uint32_t  slot;

    if (getrandom(&slot, sizeof(slot), 0) != sizeof(slot)) {
        return fault_set(fault, STAGE_CGROUP, errno, "getrandom failed");
    }

    for (i = 0; i < V1_CLAIM_TRIES; i++) {
        slot = (slot + 1) % CGROUP_SLOTS;
        (void) sprintf(cg->name, "%" PRIu32, slot);

        if (mkdirat(cg->parents[V1_PIDS], cg->name, 0755) != 0) {

            if (errno == EEXIST) {
                continue;
            }

            return fault_set(fault, STAGE_CGROUP, errno,
                             "a group for the box could not be made below "
                             V1_TREE "/%u of controller pids",
                             (unsigned) geteuid());
        }

        /*
         * Between mkdir and flock a sweep may have taken the directory for
         * a dead launcher's: then it is gone, and the next slot is tried.
         */

        lock = v1_lock(cg->parents[V1_PIDS], cg->name);

        if (lock != -1) {
            cg->lock = lock;
            cg->slot = slot;
            return 0;
        }
    }

    return fault_set(fault, STAGE_CGROUP, EAGAIN,
                     "no free slot for a box was found in %d tries",
                     V1_CLAIM_TRIES);
}


/* The locked directory, or -1 when somebody else's or gone. */

static int
v1_lock(int parent, const char *name)
{
    int          fd;
    struct stat  held, named;

    fd = openat(parent, name, O_RDONLY|O_DIRECTORY|O_NOFOLLOW|O_CLOEXEC);

    if (fd == -1) {
        return -1;
    }

    /*
     * The name is compared under the lock: the directory may have been
     * removed, and one of the same name made, since it was opened.
     */

    if (flock(fd, LOCK_EX|LOCK_NB) != 0
        || fstat(fd, &held) != 0
        || fstatat(parent, name, &named, AT_SYMLINK_NOFOLLOW) != 0
        || held.st_dev != named.st_dev || held.st_ino != named.st_ino)
    {
        (void) close(fd);
        return -1;
    }

    return fd;
}


/* Called under the slot's lock; the lock's own directory goes last. */

static int
v1_remove_slot(int parents[V1_COUNT], const char *name, unsigned tries)
{
    int              i;
    struct timespec  wait;

    for (i = V1_COUNT - 1; i >= 0; i--) {

        while (unlinkat(parents[i], name, AT_REMOVEDIR) != 0
               && errno != ENOENT)
        {
            if (errno != EBUSY || --tries == 0) {
                return -1;
            }

            wait = (struct timespec) { .tv_nsec = V1_RMDIR_WAIT };
            (void) nanosleep(&wait, NULL);
        }
    }

    return 0;
}


static int
v1_set(int dir, const v1_limit_t *l, uint64_t limit, fault_t *fault)
{
    uint64_t  value, seen;

    value = limit * l->factor / l->divisor + l->extra;

    if (v1_write(dir, l->file, value) != 0) {

        if (l->optional && errno == ENOENT) {
            return 0;
        }

        return fault_set(fault, STAGE_CGROUP, errno,
                         "%" PRIu64 " could not be written to %s", value,
                         l->file);
    }

    if (!l->verify) {
        return 0;
    }

    /* memory is kept in whole pages, rounded down */

    if (v1_read(dir, l->file, NULL, &seen) != 0
        || (seen != value && seen != (value & ~(uint64_t) 4095)))
    {
        return fault_set(fault, STAGE_CGROUP, 0,
                         "%s does not hold the %" PRIu64 " that was written "
                         "to it", l->file, value);
    }

    return 0;
}


static int
v1_write(int dir, const char *file, uint64_t value)
{
    int      fd, n, err;
    char     text[24];
    ssize_t  rc;

    fd = openat(dir, file, O_WRONLY|O_CLOEXEC);

    if (fd == -1) {
        return -1;
    }

    n = sprintf(text, "%" PRIu64, value);

    do {
        rc = write(fd, text, (size_t) n);
    } while (rc == -1 && errno == EINTR);

    err = errno;
    (void) close(fd);
    errno = err;

    return rc == n ? 0 : -1;
}


/* The file's number, or the one after "key " at the start of a line. */

static int
v1_read(int dir, const char *file, const char *key, uint64_t *value)
{
    int      fd;
    char     buf[512], *p;
    ssize_t  n;

    fd = openat(dir, file, O_RDONLY|O_CLOEXEC);

    if (fd == -1) {
        return -1;
    }

    n = read(fd, buf, sizeof(buf) - 1);
    (void) close(fd);

    if (n <= 0) {
        return -1;
    }

    buf[n] = '\0';
    p = buf;

    if (key) {

        while (strncmp(p, key, strlen(key)) != 0 || p[strlen(key)] != ' ') {
            p = strchr(p, '\n');

            if (p == NULL) {
                return -1;
            }

            p++;
        }

        p += strlen(key) + 1;
    }

    if (*p < '0' || *p > '9') {
        return -1;
    }

    *value = strtoull(p, NULL, 10);

    return 0;
}


static void
v1_close(int *fds, unsigned n)
{
    unsigned  i;

    for (i = 0; i < n; i++) {
        if (fds[i] != -1) {
            (void) close(fds[i]);
            fds[i] = -1;
        }
    }
}
