/*
 * Making the box's first process.  What the child needs is opened here,
 * before it exists; what must be done to it from outside (its maps of ids,
 * its resource limits) is done here while it works on what it can do by itself.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/fd_pass.h"
#include "box/plan.h"
#include "box/setup.h"


/*
 * No time namespace here: given to clone3 it freezes the offsets.  The
 * cgroup namespace follows when the child has joined its group: its root is
 * where the process is when it is made.  The net namespace takes as long to
 * make as all of these: the child makes it, while the launcher goes on.
 */
#define BOX_NAMESPACES  (CLONE_NEWUSER|CLONE_NEWNS|CLONE_NEWPID \
                         |CLONE_NEWIPC|CLONE_NEWUTS)


typedef enum {
    RLIMIT_SAME = 0,            /* soft and hard are the value, or no box */
    RLIMIT_FULL,                /* soft becomes the hard limit */
    RLIMIT_USUAL,               /* soft is the value, below the hard limit */
    RLIMIT_ROOM                 /* the same, and the hard one at least value */
} box_rlimit_mode_t;


typedef struct {
    int                resource;
    const char        *name;
    box_rlimit_mode_t  mode;
    rlim_t             value;
} box_rlimit_t;


/*
 * Not here: RLIMIT_NPROC and RLIMIT_AS as limits.  The first counts all
 * processes of the id outside, the second breaks Node and Java; the cgroup
 * bounds both honestly.  A caller's own soft limits are not the task's.
 *
 * No core file is written at one byte as at none, but where core_pattern
 * starts a program on the host, zero does not keep the kernel from it and one
 * does.
 */

static const box_rlimit_t  box_rlimits[] = {
    { RLIMIT_CORE, "core", RLIMIT_SAME, 1 },
    { RLIMIT_NICE, "nice", RLIMIT_SAME, 0 },
    { RLIMIT_RTPRIO, "rtprio", RLIMIT_SAME, 0 },
    { RLIMIT_CPU, "cpu", RLIMIT_FULL, 0 },
    { RLIMIT_FSIZE, "fsize", RLIMIT_FULL, 0 },
    { RLIMIT_DATA, "data", RLIMIT_FULL, 0 },
    { RLIMIT_AS, "as", RLIMIT_FULL, 0 },
    { RLIMIT_NPROC, "nproc", RLIMIT_FULL, 0 },

    /* as the kernel starts its first process: <asm-generic/resource.h> */
    { RLIMIT_STACK, "stack", RLIMIT_USUAL, 8 << 20 },
    { RLIMIT_MEMLOCK, "memlock", RLIMIT_USUAL, 8 << 20 },
    { RLIMIT_MSGQUEUE, "msgqueue", RLIMIT_USUAL, 819200 },
};


static pid_t box_clone(box_spec_t *spec, int *pidfd);
static int box_map(box_t *box, const box_spec_t *spec, fault_t *fault);
static int box_tell(box_t *box, char message, fault_t *fault);
static int box_write(pid_t pid, const char *file, const char *text,
    fault_t *fault);
static int box_rlimit(box_t *box, const uint64_t limits[LIMIT_COUNT],
    fault_t *fault);
static int box_oom_score(box_t *box, fault_t *fault);


/*
 * An id of the box mapped to host root could, without any capability, read
 * what root's files allow their owner.  So root gives the box an id of its
 * own.  Root of a container may not have that range; then its own id is not
 * the host's 0, and is as good as an ordinary user's.
 */

int
box_identity(box_spec_t *spec, uint32_t slot, fault_t *fault)
{
    int      found;
    FILE    *map;
    unsigned long  inside, outside, count, root;

    spec->outer_uid = geteuid();
    spec->outer_gid = getegid();
    spec->is_root = false;

    if (spec->outer_uid != 0) {
        return 0;
    }

    map = fopen("/proc/self/uid_map", "re");

    if (map == NULL) {
        return fault_set(fault, STAGE_IDMAP, errno,
                         "/proc/self/uid_map cannot be read");
    }

    found = 0;
    root = 0;

    while (fscanf(map, "%lu %lu %lu", &inside, &outside, &count) == 3) {

        if (inside == 0) {
            root = outside;
        }

        if (inside <= BOX_OUTER_BASE
            && count > BOX_OUTER_BASE - inside
            && count - (BOX_OUTER_BASE - inside) >= CGROUP_SLOTS)
        {
            found = 1;
        }
    }

    (void) fclose(map);

    if (found) {
        spec->outer_uid = BOX_OUTER_BASE + slot;
        spec->outer_gid = BOX_OUTER_BASE + slot;
        spec->is_root = true;
        return 0;
    }

    if (root != 0) {
        return 0;
    }

    return fault_set_cause(fault, STAGE_IDMAP, 0, CAUSE_ROOT_WITHOUT_IDS,
                           "this root has no id for a box: its user namespace "
                           "maps host root but not the ids from %u",
                           BOX_OUTER_BASE);
}


int
box_start(box_t *box, box_spec_t *spec, fault_t *fault)
{
    int       sync[2], lifeline[2], in[2], out[2], err[2];
    unsigned  i;

    if (plan_make(spec, fault) != 0) {
        return -1;
    }

    in[0] = -1;
    in[1] = -1;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET|SOCK_CLOEXEC, 0, sync) != 0
        || socketpair(AF_UNIX, SOCK_STREAM|SOCK_CLOEXEC, 0, lifeline) != 0
        || pipe2(out, O_CLOEXEC) != 0
        || pipe2(err, O_CLOEXEC) != 0
        || (spec->has_stdin && pipe2(in, O_CLOEXEC) != 0))
    {
        return fault_set(fault, STAGE_NAMESPACES, errno,
                         "the box's descriptors cannot be made");
    }

    *box = (box_t) {
        .pid = -1, .pidfd = -1, .sync = sync[0], .lifeline = lifeline[0],
        .in = in[1], .out = out[0], .err = err[0], .wall = spec->wall
    };

    spec->sync = sync[1];
    spec->lifeline = lifeline[1];
    spec->in = in[0];
    spec->out = out[1];
    spec->err = err[1];

    /* so that the task may open /dev/stdout and /dev/stderr by name */

    if (spec->is_root
        && (fchown(out[1], spec->outer_uid, spec->outer_gid) != 0
            || fchown(err[1], spec->outer_uid, spec->outer_gid) != 0
            || (spec->has_stdin
                && fchown(in[0], spec->outer_uid, spec->outer_gid) != 0)))
    {
        return fault_set(fault, STAGE_NAMESPACES, errno,
                         "the output pipes cannot be given to the box");
    }

    /* only our own ends: a task must not make its launcher wait */

    if (fcntl(out[0], F_SETFL, O_NONBLOCK) != 0
        || fcntl(err[0], F_SETFL, O_NONBLOCK) != 0
        || (spec->has_stdin && fcntl(in[1], F_SETFL, O_NONBLOCK) != 0))
    {
        return fault_set(fault, STAGE_NAMESPACES, errno,
                         "the output pipes cannot be made non-blocking");
    }

    box->pid = box_clone(spec, &box->pidfd);

    if (box->pid == 0) {
        (void) close(sync[0]);
        (void) close(lifeline[0]);
        setup_run(spec);
    }

    if (box->pid == -1) {
        return fault_set(fault, STAGE_NAMESPACES, errno,
                         "the namespaces cannot be made");
    }

    plan_free(spec);

    (void) close(sync[1]);
    (void) close(lifeline[1]);
    (void) close(out[1]);
    (void) close(err[1]);

    if (spec->has_stdin) {
        (void) close(in[0]);
    }

    for (i = 0; i < spec->nfiles; i++) {
        descriptors_close(&spec->files[i].fd, 1);
    }

    return 0;
}


int
box_admit(box_t *box, const box_spec_t *spec,
    const uint64_t limits[LIMIT_COUNT], const int *attach, unsigned nattach,
    fault_t *fault)
{
    static const char  mapped = SYNC_MAPPED;

    if (box_map(box, spec, fault) != 0
        || box_rlimit(box, limits, fault) != 0
        || box_oom_score(box, fault) != 0)
    {
        return -1;
    }

    if (fd_pass_send(box->sync, &mapped, 1, attach,
                     spec->is_born_in_group ? 0 : nattach, 0)
        != 1)
    {
        return fault_set(fault, STAGE_IDMAP, errno,
                         "the box's first process is gone");
    }

    return 0;
}


/*
 * Raw, since glibc has no clone3 with a fork's meaning.  What glibc keeps of
 * the thread is stale in the child: it uses system calls by number or calls
 * that do not look at it.
 */

static pid_t
box_clone(box_spec_t *spec, int *pidfd)
{
    long                pid;
    struct clone_args   args;

    args = (struct clone_args) {
        .flags = BOX_NAMESPACES|CLONE_PIDFD,
        .pidfd = (uint64_t) (uintptr_t) pidfd,
        .exit_signal = SIGCHLD
    };

    if (spec->into != -1) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t) spec->into;

        pid = syscall(SYS_clone3, &args, sizeof(args));

        if (pid != -1) {
            spec->is_born_in_group = true;
            return (pid_t) pid;
        }

        /*
         * whatever it was: without the flag the kernel says so to a process
         * that cannot join
         */

        args.flags &= ~(uint64_t) CLONE_INTO_CGROUP;
        args.cgroup = 0;
    }

    pid = syscall(SYS_clone3, &args, sizeof(args));

    /*
     * A container's filter may hide clone3, so that flags can be judged; an
     * old one, that does not know it, answers EPERM.
     */

    if (pid == -1 && (errno == ENOSYS || errno == EPERM)) {
#if defined(__s390x__)
        pid = syscall(SYS_clone, NULL,
                      (unsigned long) (args.flags|SIGCHLD), pidfd, NULL, 0);
#else
        pid = syscall(SYS_clone, (unsigned long) (args.flags|SIGCHLD), NULL,
                      pidfd, NULL, 0);
#endif
    }

    return (pid_t) pid;
}


static int
box_map(box_t *box, const box_spec_t *spec, fault_t *fault)
{
    char  uid[64], gid[64];

    (void) sprintf(uid, "%d %u 1", BOX_UID, (unsigned) spec->outer_uid);
    (void) sprintf(gid, "%d %u 1", BOX_UID, (unsigned) spec->outer_gid);

    if (!spec->is_root
        && box_write(box->pid, "setgroups", "deny", fault) != 0)
    {
        return -1;
    }

    if (box_write(box->pid, "uid_map", uid, fault) != 0) {
        return -1;
    }

    return box_write(box->pid, "gid_map", gid, fault);
}


static int
box_write(pid_t pid, const char *file, const char *text, fault_t *fault)
{
    int   fd, err;
    char  path[64];

    (void) sprintf(path, "/proc/%d/%s", (int) pid, file);
    fd = open(path, O_WRONLY|O_CLOEXEC);

    if (fd == -1 || write(fd, text, strlen(text)) != (ssize_t) strlen(text)) {
        err = errno;

        descriptors_close(&fd, 1);

        return fault_set(fault, STAGE_IDMAP, err,
                         "\"%s\" cannot be written to %s of the box", text,
                         file);
    }

    (void) close(fd);

    return 0;
}


static int
box_rlimit(box_t *box, const uint64_t limits[LIMIT_COUNT], fault_t *fault)
{
    size_t               i, n;
    struct rlimit        old, new;
    const box_rlimit_t  *l;
    box_rlimit_t         nofile;

    nofile = (box_rlimit_t) {
        RLIMIT_NOFILE, "nofile", RLIMIT_ROOM, limits[LIMIT_OPEN_FILES]
    };

    n = sizeof(box_rlimits) / sizeof(box_rlimits[0]);

    for (i = 0; i <= n; i++) {
        l = i < n ? &box_rlimits[i] : &nofile;
        new = (struct rlimit) { l->value, l->value };

        if (l->mode != RLIMIT_SAME) {

            if (prlimit(box->pid, l->resource, NULL, &old) != 0) {
                return fault_set(fault, STAGE_RLIMITS, errno,
                                 "the limit %s cannot be read", l->name);
            }

            if (l->mode != RLIMIT_ROOM || old.rlim_max > l->value) {
                new.rlim_max = old.rlim_max;
            }

            if (l->mode != RLIMIT_USUAL || new.rlim_cur > new.rlim_max) {
                new.rlim_cur = new.rlim_max;
            }

            if (old.rlim_cur == new.rlim_cur && old.rlim_max == new.rlim_max) {
                continue;
            }
        }

        if (prlimit(box->pid, l->resource, &new, NULL) != 0) {
            return fault_set(fault, STAGE_RLIMITS, errno,
                             "the limit %s cannot be set to %" PRIu64,
                             l->name, (uint64_t) new.rlim_max);
        }
    }

    return 0;
}


/*
 * A launcher that the kernel is told to spare must not pass that on.  Written
 * from here, because written by one who may lower it, the value is also the
 * floor for those who may not.
 */

static int
box_oom_score(box_t *box, fault_t *fault)
{
    int    n, score;
    FILE  *f;

    f = fopen("/proc/self/oom_score_adj", "re");
    n = f ? fscanf(f, "%d", &score) : 0;

    if (f) {
        (void) fclose(f);
    }

    if (n != 1) {
        return fault_set(fault, STAGE_RLIMITS, f ? EIO : errno,
                         "/proc/self/oom_score_adj cannot be read");
    }

    return score < 0 ? box_write(box->pid, "oom_score_adj", "0", fault) : 0;
}


int
box_trust(box_t *box, box_spec_t *spec, fault_t *fault)
{
    if (spec->trust.java_tail == NULL) {
        return 0;
    }

    return trust_java_fill(&spec->trust, fault) == 0
           ? box_tell(box, SYNC_JAVA, fault) : -1;
}


int
box_go(box_t *box, fault_t *fault)
{
    return box_tell(box, SYNC_GO, fault);
}


static int
box_tell(box_t *box, char message, fault_t *fault)
{
    if (send(box->sync, &message, 1, MSG_NOSIGNAL) != 1) {
        return fault_set(fault, STAGE_START, errno,
                         "the box's first process is gone");
    }

    return 0;
}


/* By pidfd: a number may be another's by now. */

void
box_kill_child(int pidfd, pid_t pid)
{
    /*
     * An old container's filter refuses the call; until it is waited for, the
     * number of our own child is nobody else's.
     */

    if (syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) == -1
        && errno != ESRCH)
    {
        (void) kill(pid, SIGKILL);
    }
}


void
box_kill(box_t *box)
{
    if (box->pidfd != -1) {
        box_kill_child(box->pidfd, box->pid);
    }
}


void
box_close(box_t *box)
{
    int       *fds[] = { &box->pidfd, &box->sync, &box->lifeline, &box->in,
                         &box->out, &box->err };
    unsigned   i;

    for (i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        descriptors_close(fds[i], 1);
    }
}
