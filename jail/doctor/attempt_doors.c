/*
 * The four doors that a plain child process leaves open, and the control of
 * each.  They are harmless anywhere, and are tried in a plain child as well.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor/attempt.h"


#define ATTEMPT_LEFT  60                /* s, if nothing ends it before */


int
attempt_variable(const target_t *t, const char *name)
{
    return getenv(name) ? 0 : ENOENT;
}


/* Of the target without a path. */

int
attempt_read(const target_t *t, const char *path)
{
    return attempt_open(path ? path : t->file, O_RDONLY);
}


int
attempt_target_port(const target_t *t, const char *arg)
{
    return attempt_connect("127.0.0.1", (unsigned) atoi(t->port));
}


int
attempt_loopback(const target_t *t, const char *arg)
{
    uint16_t  port;

    /* closed by the end of the child that this is in */

    (void) target_listen(&port);

    return port ? attempt_connect("127.0.0.1", port) : errno;
}


/*
 * Always succeeds: whether it outlives the task is seen from outside.  It
 * keeps nothing of the task's but its name.
 */

int
attempt_leave(const target_t *t, const char *arg)
{
    int    named[2];
    char   c;
    pid_t  pid;

    if (pipe2(named, O_CLOEXEC) != 0) {
        return errno;
    }

    pid = fork();

    if (pid == 0) {
        (void) setsid();

        if (fork() == 0) {
            (void) prctl(PR_SET_NAME, t->left, 0, 0, 0);
            (void) syscall(SYS_close_range, 0, 2, 0);
            (void) alarm(ATTEMPT_LEFT);
            (void) syscall(SYS_close_range, 3, ~0u, 0);
            (void) pause();
        }

        _exit(0);
    }

    if (pid == -1) {
        return errno;
    }

    (void) waitpid(pid, NULL, 0);
    (void) close(named[1]);

    /* its end of the pipe closes when it has its name */

    while (read(named[0], &c, 1) == -1 && errno == EINTR) { /* void */ }

    return close(named[0]);
}


/* Succeeds by being called: the child it runs in has been made. */

int
attempt_fork(const target_t *t, const char *arg)
{
    return 0;
}
