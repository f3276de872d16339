/*
 * Layers that need no namespace: system calls that the launcher makes, and the
 * walls that the box's first process puts up for itself.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box/landlock.h"
#include "doctor/probe.h"


static int probe_ruleset(setup_t *s);


int
probe_kernel(doctor_t *d, layer_result_t *r)
{
    unsigned        major, minor;
    struct utsname  u;

    if (uname(&u) != 0 || sscanf(u.release, "%u.%u", &major, &minor) != 2) {
        return probe_missing(r, errno, "the kernel's version is unknown");
    }

    (void) snprintf(r->detail, sizeof(r->detail), "Linux %.100s", u.release);

    if (major < 5 || (major == 5 && minor < 13)) {
        (void) snprintf(r->fix, sizeof(r->fix), "use a kernel of 5.13 or "
                        "later: mount_setattr came with 5.12, Landlock with "
                        "5.13");
        return probe_missing(r, ENOSYS, "Linux %.100s is older than 5.13",
                              u.release);
    }

    return 0;
}


int
probe_clone3(doctor_t *d, layer_result_t *r)
{
    long               pid;
    struct clone_args  args;

    args = (struct clone_args) { .exit_signal = SIGCHLD };
    pid = syscall(SYS_clone3, &args, sizeof(args));

    if (pid == 0) {
        _exit(0);
    }

    if (pid == -1 && errno != ENOSYS && errno != EPERM) {
        r->state = LAYER_MISSING;
        return probe_missing(r, errno, "it makes no process");
    }

    if (pid == -1) {
        (void) snprintf(r->fix, sizeof(r->fix), "nothing to do: a seccomp "
                        "filter, as containers have one, hides it, and clone "
                        "is used");
        return probe_missing(r, errno, "clone is used instead");
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
        return probe_missing(r, errno, "clone returns no descriptor");
    }

    if (syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) != 0) {
        (void) probe_missing(r, errno, "pidfd_send_signal is refused");
        (void) kill(pid, SIGKILL);
        (void) waitpid(pid, NULL, __WALL);
        return -1;
    }

    fd = (struct pollfd) { .fd = pidfd, .events = POLLIN };

    if (poll(&fd, 1, 5000) != 1
        || waitid(P_PIDFD, (id_t) pidfd, &si, WEXITED|__WALL) != 0)
    {
        return probe_missing(r, errno, "the descriptor of a process "
                              "does not report its end");
    }

    return close(pidfd);
}


int
probe_close_range(doctor_t *d, layer_result_t *r)
{
    int  fd;

    fd = fcntl(STDERR_FILENO, F_DUPFD, 900);
    fd = fd == -1 ? fcntl(STDERR_FILENO, F_DUPFD, 3) : fd;

    if (fd == -1
        || syscall(SYS_close_range, fd, fd, 1u << 2 /* CLOEXEC */) != 0
        || (fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0
        || syscall(SYS_close_range, fd, fd, 0) != 0)
    {
        return probe_missing(r, errno, "it cannot mark or close a "
                              "range");
    }

    return fcntl(fd, F_GETFD) == -1 ? 0
           : probe_missing(r, 0, "it closes no descriptors");
}


int
probe_openat2(doctor_t *d, layer_result_t *r)
{
    long             fd;
    struct open_how  how;

    how = (struct open_how) {
        .flags = O_PATH|O_CLOEXEC,
        .resolve = RESOLVE_NO_MAGICLINKS
    };

    fd = syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof(how));

    if (fd == -1) {
        return probe_missing(r, errno, "it cannot open \"/\"");
    }

    (void) close((int) fd);
    fd = syscall(SYS_openat2, AT_FDCWD, "/proc/self/exe", &how, sizeof(how));

    return fd == -1 && errno == ELOOP ? 0
           : probe_missing(r, errno, "it followed a magic link");
}


int
probe_memfd(doctor_t *d, layer_result_t *r)
{
    int  fd;

    fd = memfd_create("doctor", MFD_CLOEXEC|MFD_ALLOW_SEALING);

    if (fd == -1 || write(fd, "x", 1) != 1
        || fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE|F_SEAL_GROW|F_SEAL_SHRINK) != 0)
    {
        return probe_missing(r, errno, "a memory file cannot be sealed");
    }

    if (write(fd, "x", 1) != -1 || errno != EPERM) {
        (void) close(fd);
        return probe_missing(r, 0, "a sealed file can be written to");
    }

    return close(fd);
}


int
probe_privileges(setup_t *s)
{
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
           && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1
           ? 0 : report_detail(s, "no_new_privs cannot be set");
}


/* With the filter that a box has. */

int
probe_seccomp(setup_t *s)
{
    if (probe_privileges(s) != 0 || seccomp_enter(s) != 0) {
        return -1;
    }

    if (syscall(SYS_unshare, 0) != -1 || errno != EPERM) {
        errno = EIO;
        return report_detail(s, "the filter is loaded but allows "
                             "unshare");
    }

    return 0;
}


/* A ruleset that allows reading no file. */

static int
probe_ruleset(setup_t *s)
{
    int       fd;
    uint64_t  rights;

    rights = LANDLOCK_ACCESS_FS_READ_FILE;
    fd = (int) syscall(SYS_landlock_create_ruleset, &rights, sizeof(rights),
                       0);

    if (fd == -1 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
        || syscall(SYS_landlock_restrict_self, fd, 0) != 0)
    {
        return report_detail(s, "a ruleset cannot be applied");
    }

    if (open("/etc/passwd", O_RDONLY|O_CLOEXEC) != -1 || errno != EACCES) {
        errno = EIO;
        return report_detail(s, "a ruleset is applied but refuses nothing");
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
        return probe_missing(r, errno, "the kernel does not offer Landlock");
    }

    (void) snprintf(r->detail, sizeof(r->detail), "ABI %d", abi);

    return probe_child(d, r, 0, 0, probe_ruleset);
}
