/*
 * Layers that need no namespace: calls of the kernel that the launcher makes,
 * the walls that a task puts up for itself, cgroups, and what the host does
 * with a task that crashes.
 */

#include <errno.h>
#include <fcntl.h>
#include <libcgroup.h>
#include <linux/landlock.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/broker.h"
#include "doctor/doctor.h"
#include "box/landlock.h"
#include "run/options.h"
#include "box/setup.h"


static void probe_found(layer_result_t *r, const char *controller);
static int probe_controller(layer_result_t *r, const char *controller,
    cause_t cause);


/* What the group of the throwaway box said, for the controllers' rows. */

static fault_t  cgroup_fault;
static bool     cgroup_made;


int
probe_kernel(doctor_t *d, layer_result_t *r)
{
    unsigned        major, minor;
    struct utsname  u;

    (void) d;

    if (uname(&u) != 0 || sscanf(u.release, "%u.%u", &major, &minor) != 2) {
        return doctor_missing(r, errno, "the kernel's version is not known");
    }

    (void) snprintf(r->detail, sizeof(r->detail), "Linux %.100s", u.release);

    if (major < 5 || (major == 5 && minor < 13)) {
        (void) snprintf(r->fix, sizeof(r->fix), "use a kernel of 5.13 or "
                        "later: mount_setattr came with 5.12, Landlock with "
                        "5.13");
        return doctor_missing(r, ENOSYS, "Linux %.100s is older than 5.13",
                              u.release);
    }

    return 0;
}


int
probe_clone3(doctor_t *d, layer_result_t *r)
{
    long               pid;
    struct clone_args  args;

    (void) d;

    args = (struct clone_args) { .exit_signal = SIGCHLD };
    pid = syscall(SYS_clone3, &args, sizeof(args));

    if (pid == 0) {
        _exit(0);
    }

    if (pid == -1 && errno != ENOSYS && errno != EPERM) {
        r->state = LAYER_MISSING;
        return doctor_missing(r, errno, "no process can be made by it");
    }

    if (pid == -1) {
        (void) snprintf(r->fix, sizeof(r->fix), "nothing to do: a filter "
                        "hides it, as a container has it, and clone is used");
        return doctor_missing(r, errno, "clone is used instead");
    }

    (void) waitpid((pid_t) pid, NULL, 0);

    return 0;
}


int
probe_pidfd(doctor_t *d, layer_result_t *r)
{
    int            pidfd;
    pid_t          pid;
    siginfo_t      si;
    struct pollfd  fd;

    (void) d;

    pidfd = -1;

#if defined(__s390x__)
    pid = (pid_t) syscall(SYS_clone, NULL,
                          (unsigned long) CLONE_PIDFD|SIGCHLD, &pidfd, NULL,
                          0);
#else
    pid = (pid_t) syscall(SYS_clone, (unsigned long) CLONE_PIDFD|SIGCHLD,
                          NULL, &pidfd, NULL, 0);
#endif

    if (pid == 0) {
        (void) pause();
        _exit(0);
    }

    if (pid == -1 || pidfd == -1) {
        return doctor_missing(r, errno, "a process has no descriptor");
    }

    if (syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) != 0) {
        (void) doctor_missing(r, errno, "pidfd_send_signal is refused");
        (void) kill(pid, SIGKILL);
        (void) waitpid(pid, NULL, __WALL);
        return -1;
    }

    fd = (struct pollfd) { .fd = pidfd, .events = POLLIN };

    if (poll(&fd, 1, 5000) != 1
        || waitid(P_PIDFD, (id_t) pidfd, &si, WEXITED|__WALL) != 0)
    {
        return doctor_missing(r, errno, "its end is not told by its "
                              "descriptor");
    }

    return close(pidfd);
}


int
probe_close_range(doctor_t *d, layer_result_t *r)
{
    int  fd;

    (void) d;

    fd = fcntl(STDERR_FILENO, F_DUPFD, 900);
    fd = fd == -1 ? fcntl(STDERR_FILENO, F_DUPFD, 3) : fd;

    if (fd == -1
        || syscall(SYS_close_range, fd, fd, 1u << 2 /* CLOEXEC */) != 0
        || (fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0
        || syscall(SYS_close_range, fd, fd, 0) != 0)
    {
        return doctor_missing(r, errno, "descriptors cannot be closed "
                              "together");
    }

    return fcntl(fd, F_GETFD) == -1 ? 0
           : doctor_missing(r, 0, "descriptors are not closed");
}


int
probe_openat2(doctor_t *d, layer_result_t *r)
{
    long             fd;
    struct open_how  how;

    (void) d;

    how = (struct open_how) {
        .flags = O_PATH|O_CLOEXEC,
        .resolve = RESOLVE_NO_MAGICLINKS
    };

    fd = syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof(how));

    if (fd == -1) {
        return doctor_missing(r, errno, "a path cannot be opened strictly");
    }

    (void) close((int) fd);
    fd = syscall(SYS_openat2, AT_FDCWD, "/proc/self/exe", &how, sizeof(how));

    return fd == -1 && errno == ELOOP ? 0
           : doctor_missing(r, errno, "a magic link was followed");
}


int
probe_memfd(doctor_t *d, layer_result_t *r)
{
    int  fd;

    (void) d;

    fd = memfd_create("doctor", MFD_CLOEXEC|MFD_ALLOW_SEALING);

    if (fd == -1 || write(fd, "x", 1) != 1
        || fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE|F_SEAL_GROW|F_SEAL_SHRINK) != 0)
    {
        return doctor_missing(r, errno, "a memory file cannot be sealed");
    }

    if (write(fd, "x", 1) != -1 || errno != EPERM) {
        (void) close(fd);
        return doctor_missing(r, 0, "a seal does not hold");
    }

    return close(fd);
}


static int
body_privileges(char *detail, size_t cap)
{
    (void) snprintf(detail, cap, "no_new_privs cannot be set");

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
           && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? 0 : -1;
}


int
probe_privileges(doctor_t *d, layer_result_t *r)
{
    return probe_child(d, r, 0, body_privileges);
}


/* The very filter of a box. */

static int
body_seccomp(char *detail, size_t cap)
{
    setup_t  s;

    s = (setup_t) { .root = -1 };

    if (body_privileges(detail, cap) != 0) {
        return -1;
    }

    if (seccomp_enter(&s) != 0) {
        (void) snprintf(detail, cap, "%s", s.detail);
        return -1;
    }

    (void) snprintf(detail, cap, "the filter is loaded and lets unshare "
                    "through");

    if (syscall(SYS_unshare, 0) != -1 || errno != EPERM) {
        errno = EIO;
        return -1;
    }

    return 0;
}


int
probe_seccomp(doctor_t *d, layer_result_t *r)
{
    return probe_child(d, r, 0, body_seccomp);
}


/* A ruleset that allows reading no file. */

static int
body_landlock(char *detail, size_t cap)
{
    int       fd;
    uint64_t  rights;

    rights = LANDLOCK_ACCESS_FS_READ_FILE;
    (void) snprintf(detail, cap, "no ruleset can be entered");
    fd = (int) syscall(SYS_landlock_create_ruleset, &rights, sizeof(rights),
                       0);

    if (fd == -1 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
        || syscall(SYS_landlock_restrict_self, fd, 0) != 0)
    {
        return -1;
    }

    (void) snprintf(detail, cap, "a ruleset does not hold");

    if (open("/etc/passwd", O_RDONLY|O_CLOEXEC) != -1 || errno != EACCES) {
        errno = EIO;
        return -1;
    }

    return 0;
}


int
probe_landlock(doctor_t *d, layer_result_t *r)
{
    int  abi;

    errno = 0;
    abi = landlock_abi();

    if (abi == 0) {
        return doctor_missing(r, errno, "the kernel does not offer Landlock");
    }

    (void) snprintf(r->detail, sizeof(r->detail), "ABI %d", abi);

    return probe_child(d, r, 0, body_landlock);
}


/* A group with every limit of a box, made, verified and removed. */

int
probe_cgroup(doctor_t *d, layer_result_t *r)
{
    cgroup_t             cg;
    uint64_t             limits[LIMIT_COUNT];
    const cgroup_ops_t  *ops;

    (void) d;

    cgroup_clear(&cg);
    limits_default(limits);
    cgroup_fault = (fault_t) { 0 };
    cgroup_made = false;
    ops = cgroup_probe(&cgroup_fault);

    if (ops) {
        cgroup_made = (ops->claim(&cg, &cgroup_fault) == 0
                       && ops->limit(&cg, limits, &cgroup_fault) == 0);

        if (cg.ops) {
            cg.ops->remove(&cg);
        }
    }

    if (cgroup_made) {
        (void) snprintf(r->detail, sizeof(r->detail), "version %s",
                        ops->version + (ops->version[0] == 'v'));
        return 0;
    }

    return doctor_fault(r, &cgroup_fault);
}


int
probe_cpu(doctor_t *d, layer_result_t *r)
{
    (void) d;

    return probe_controller(r, "cpu", CAUSE_CONTROLLER_CPU);
}


int
probe_memory(doctor_t *d, layer_result_t *r)
{
    (void) d;

    return probe_controller(r, "memory", CAUSE_CONTROLLER_MEMORY);
}


int
probe_pids(doctor_t *d, layer_result_t *r)
{
    (void) d;

    return probe_controller(r, "pids", CAUSE_CONTROLLER_PIDS);
}


/* When the group could be made, all of them did; else the fault names one. */

static int
probe_controller(layer_result_t *r, const char *controller, cause_t cause)
{
    probe_found(r, controller);

    if (cgroup_made) {
        return 0;
    }

    if (r->detail[0] && cgroup_fault.cause != cause) {
        r->state = LAYER_SKIPPED;
        return 0;
    }

    if (r->detail[0]) {
        return doctor_fault(r, &cgroup_fault);
    }

    (void) doctor_fault(r, &cgroup_fault);

    return doctor_missing(r, cgroup_fault.err,
                          "the controller is mounted nowhere");
}


/* Where libcgroup finds the controller: the explanation, not the proof. */

static void
probe_found(layer_result_t *r, const char *controller)
{
    char  *mount;

    mount = NULL;

    if (cgroup_init() == 0
        && cgroup_get_subsys_mount_point(controller, &mount) == 0
        && mount)
    {
        (void) snprintf(r->detail, sizeof(r->detail), "at %.200s", mount);
    }

    free(mount);
}


int
probe_broker(doctor_t *d, layer_result_t *r)
{
    json_t   *policy;
    fault_t   fault;

    if (d->control == NULL) {
        (void) snprintf(r->detail, sizeof(r->detail), "there is none at "
                        OPTIONS_CONTROL);
        (void) snprintf(r->fix, sizeof(r->fix), "start it (nginx with "
                        "\"agent_control unix:" OPTIONS_CONTROL ";\"), or name "
                        "its socket: jail doctor --control SOCKET");
        r->state = LAYER_SKIPPED;
        return 0;
    }

    fault = (fault_t) { 0 };
    policy = broker_policy(d->control,
                           d->policy ? d->policy : OPTIONS_POLICY, &fault);
    json_decref(policy);
    (void) snprintf(r->detail, sizeof(r->detail), "%.200s", d->control);

    if (policy) {
        return 0;
    }

    /* one that knows no such policy has answered all the same */

    if (d->policy == NULL && fault.cause == CAUSE_POLICY_UNKNOWN) {
        (void) snprintf(r->detail, sizeof(r->detail), "it answers at %.200s, "
                        "and has no policy \"" OPTIONS_POLICY "\"",
                        d->control);
        (void) snprintf(r->fix, sizeof(r->fix), "name the policy with "
                        "--policy, or add \"agent_policy " OPTIONS_POLICY
                        " { }\" to the broker's configuration and reload it");
        r->state = LAYER_WARNING;
        return 0;
    }

    return doctor_fault(r, &fault);
}


/*
 * The kernel hands the memory of what crashes to this program, outside and
 * as root.  A box's limit of one byte on core files keeps it from that, but a
 * task may lower its limit to zero, which does not.
 */

int
probe_core(doctor_t *d, layer_result_t *r)
{
    int      fd;
    char     pattern[160];
    ssize_t  n;

    (void) d;

    fd = open("/proc/sys/kernel/core_pattern", O_RDONLY|O_CLOEXEC);
    n = fd == -1 ? -1 : read(fd, pattern, sizeof(pattern) - 1);

    if (fd != -1) {
        (void) close(fd);
    }

    if (n <= 0) {
        (void) snprintf(r->detail, sizeof(r->detail), "it cannot be read");
        r->state = LAYER_SKIPPED;
        return 0;
    }

    pattern[n] = '\0';
    pattern[strcspn(pattern, "\n")] = '\0';

    if (pattern[0] != '|') {
        return 0;
    }

    (void) snprintf(r->fix, sizeof(r->fix), "sysctl -w "
                    "kernel.core_pattern=core (and a line in "
                    "/etc/sysctl.d), if no program needs it");

    return doctor_missing(r, 0, "a task can start \"%.120s\" on the host, as "
                          "root, by a crash", pattern + 1);
}
