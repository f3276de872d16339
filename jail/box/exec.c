/*
 * The main process, between the fork and its exec: it takes the streams of
 * the task, forgets what it has of its caller, and finds the program as a
 * shell does.  Everything that fails here is still told to the launcher.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "box/report.h"


#define EXEC_PATH_MAX  4096


static void exec_signals(void);
static int exec_program(setup_t *s);
static int exec_is_program(const char *path);


/* The main process: the caller's signals, session and streams are not its. */

noreturn void
exec_main(setup_t *s)
{
    int            fd, null;
    sigset_t       set;
    struct rlimit  files;

    exec_signals();

    (void) sigemptyset(&set);
    (void) umask(022);

    /* 0, 1 and 2 are free by now, or were taken by what is not needed here */

    fd = open("/dev/null", O_RDONLY|O_CLOEXEC);
    null = fd == -1 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);

    if (null == -1
        || sigprocmask(SIG_SETMASK, &set, NULL) != 0
        || setsid() == -1
        || dup2(s->spec->has_stdin ? s->spec->in : null, STDIN_FILENO) == -1
        || dup2(s->spec->out, STDOUT_FILENO) == -1
        || dup2(s->spec->err, STDERR_FILENO) == -1
        || syscall(SYS_close_range, 3, ~0u, CLOSE_RANGE_CLOEXEC) != 0)
    {
        (void) report_detail(s, "the task's session and streams cannot be "
                             "made");
        report_fault(s, STAGE_START);
    }

    /*
     * Nothing runs of which the launcher would say that it did not.  It gets
     * the writable mounts, to read what is used of them, also when the box is
     * gone.
     */

    if (report_send(s, REPORT_EXEC, STAGE_EXEC, 0, s->disks, s->ndisks)
        != 0)
    {
        (void) report_detail(s, "the launcher cannot be told of the start");
        report_fault(s, STAGE_START);
    }

    /*
     * Not before: the set-up needs more of them than some tasks may have, and
     * a user whose other boxes have as many on their way through sockets may
     * send none.
     */

    files = (struct rlimit) { s->spec->open_files, s->spec->open_files };

    if (setrlimit(RLIMIT_NOFILE, &files) != 0) {
        (void) report_detail(s, "the limit of open files cannot be set");
        report_fault(s, STAGE_START);
    }

    errno = exec_program(s);
    report_fault(s, STAGE_EXEC);
}


/*
 * What a caller ignores would stay ignored past exec, also with
 * CLONE_CLEAR_SIGHAND.  Not by sigaction(3): that leaves out two signals which
 * glibc keeps for itself, and which a caller can ignore as well.  A kernel's
 * sigaction that is all zeros is SIG_DFL on every architecture.
 */

static void
exec_signals(void)
{
    int                sig;
    static const char  none[64];

    for (sig = 1; sig < NSIG; sig++) {
        (void) syscall(SYS_rt_sigaction, sig, none, NULL, (NSIG - 1) / 8);
    }
}


/* As a shell does it, in the box: EACCES is told only if nothing ran. */

static int
exec_program(setup_t *s)
{
    int          err;
    char         path[EXEC_PATH_MAX];
    size_t       n;
    const char  *name, *dir;

    name = s->spec->argv[0];

    (void) report_detail(s, "%s", name);

    if (strchr(name, '/')) {
        if (exec_is_program(name) == 0) {
            (void) execve(name, s->spec->argv, s->spec->envp);
        }

        return errno;
    }

    err = ENOENT;

    for (dir = s->spec->path; *dir; dir += n + (dir[n] == ':')) {
        n = strcspn(dir, ":");

        if (snprintf(path, sizeof(path), "%.*s/%s", (int) n, dir, name)
            >= (int) sizeof(path))
        {
            continue;
        }

        (void) execve(path, s->spec->argv, s->spec->envp);

        if (errno != ENOENT && errno != ENOTDIR) {
            err = errno;
        }

        if (err != ENOENT && err != EACCES) {
            break;
        }
    }

    return err;
}


/*
 * /proc/self/exe is the launcher's own file, outside the box, until exec is
 * done: a name that leads through a link of /proc is refused.
 */

static int
exec_is_program(const char *path)
{
    long             fd;
    struct open_how  how;

    how = (struct open_how) {
        .flags = O_PATH|O_CLOEXEC,
        .resolve = RESOLVE_NO_MAGICLINKS
    };

    fd = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));

    return fd == -1 ? -1 : close((int) fd);
}
