/*
 * What a task must not be able to do, tried.  Each row has a control: its
 * harmless neighbour, which must work, or the refusal would say nothing (a
 * connection is refused to who has no sockets, too).
 *
 * This runs inside, in the place of a task.  The rows of "doors" are harmless
 * anywhere and are tried in a plain child as well; the others are tried in a
 * box only, since a host might let them happen.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor/attempt.h"
#include "doctor/doctor.h"
#include "base/host.h"
#include "run/run.h"


#define ATTEMPT_LEFT   60               /* s, should nobody end it */


typedef struct {
    const char    *name;
    const char    *title;
    bool           anywhere;    /* of the set "doors" */
    attempt_try_t  forbidden;
    attempt_try_t  control;
} attempt_t;


static const attempt_t  attempts[] = {

    /* the four doors that the naive way leaves open */

    { "environment", "a variable of the caller's", true,
      try_environment, try_home },
    { "files", "a file of the caller's", true, try_file, try_passwd },
    { "sockets", "a connection to the host", true,
      try_host, try_own_loopback },
    { "subprocesses", "a process left behind", true, try_leave, try_fork },

    { "connect_out", "reaching another machine", false,
      try_other, try_own_loopback },
    { "raw_socket", "a raw socket", false, try_raw, try_socket },
    { "write_root", "writing into /", false, try_root, try_here },
    { "write_usr", "writing into /usr", false, try_usr, try_here },
    { "read_shadow", "reading /etc/shadow", false, try_shadow, try_passwd },
    { "host_processes", "seeing the host's processes", false,
      try_processes, try_self },
    { "ptrace", "tracing a process", false, try_ptrace, try_signal },
    { "mount", "mounting", false, try_mount, try_mkdir },
    { "unshare", "a user namespace", false, try_unshare, try_fork },
    { "keyctl", "the kernel's keyrings", false, try_keyctl, try_getpid },
    { "tiocsti", "typing into a terminal", false, try_tiocsti, try_tty },
    { "mknod", "a device node", false, try_device, try_fifo },
    { "bpf", "a program for the kernel", false, try_bpf, try_getpid },
    { "io_uring", "io_uring", false, try_io_uring, try_epoll },
    { "setuid", "becoming root", false, try_setuid, try_setuid_own },
};


int
doctor_attempt(int argc, char **argv)
{
    int               err, control;
    bool              all;
    aim_t             aim;
    size_t            i;
    const char       *name;

    if (argc != 5) {
        (void) fputs("jail: --attempt SET PORT FILE NAME LEFT\n", stderr);
        return STATUS_USAGE;
    }

    all = (strcmp(argv[0], "all") == 0);
    aim = (aim_t) { argv[1], argv[2], argv[3], argv[4] };

    if (all && !host_is_box()) {
        (void) fputs("jail: these things are tried in a box only\n", stderr);
        return STATUS_USAGE;
    }

    for (i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++) {

        if (!all && !attempts[i].anywhere) {
            continue;
        }

        control = attempts[i].control(&aim);
        err = attempts[i].forbidden(&aim);
        name = errno_name(err);

        (void) printf("{\"name\":\"%s\",\"refused\":%s,\"errno\":%s%s%s,"
                      "\"control\":%s}\n", attempts[i].name,
                      err ? "true" : "false", err ? "\"" : "",
                      err ? (name ? name : "unknown") : "null",
                      err ? "\"" : "", control ? "false" : "true");
        (void) fflush(stdout);
    }

    /* not exit(): a sanitizer's search for leaks wants to trace */

    _exit(0);
}


const char *
attempt_title(const char *name)
{
    size_t  i;

    for (i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++) {
        if (strcmp(attempts[i].name, name) == 0) {
            return attempts[i].title;
        }
    }

    return NULL;
}


int
try_environment(const aim_t *aim)
{
    (void) aim;

    return getenv(TARGET_SECRET) ? 0 : ENOENT;
}


int
try_home(const aim_t *aim)
{
    (void) aim;

    return getenv("PATH") ? 0 : ENOENT;
}


int
try_file(const aim_t *aim)
{
    return attempt_open(aim->file, O_RDONLY);
}


int
try_passwd(const aim_t *aim)
{
    (void) aim;

    return attempt_open("/etc/passwd", O_RDONLY);
}


int
try_host(const aim_t *aim)
{
    return attempt_connect("127.0.0.1", (unsigned) atoi(aim->port));
}


int
try_own_loopback(const aim_t *aim)
{
    int                 fd, err;
    socklen_t           len;
    struct sockaddr_in  sin;

    (void) aim;

    sin = (struct sockaddr_in) {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)
    };
    len = sizeof(sin);
    fd = socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC, 0);

    if (fd == -1 || bind(fd, (struct sockaddr *) &sin, sizeof(sin)) != 0
        || listen(fd, 1) != 0
        || getsockname(fd, (struct sockaddr *) &sin, &len) != 0)
    {
        return errno;
    }

    err = attempt_connect("127.0.0.1", ntohs(sin.sin_port));
    (void) close(fd);

    return err;
}


/*
 * Always goes through: whether it outlives the task is seen from outside.
 * It holds nothing of the task's but its name.
 */

int
try_leave(const aim_t *aim)
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
            (void) prctl(PR_SET_NAME, aim->left, 0, 0, 0);
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


static int
body_nothing(void)
{
    return 0;
}


int
try_fork(const aim_t *aim)
{
    (void) aim;

    return attempt_child(body_nothing);
}


int
attempt_connect(const char *address, unsigned port)
{
    int                 fd, err;
    struct timeval      tv;
    struct sockaddr_in  sin;

    sin = (struct sockaddr_in) {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t) port)
    };
    tv = (struct timeval) { .tv_sec = 2 };

    (void) inet_pton(AF_INET, address, &sin.sin_addr);
    fd = socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC, 0);

    if (fd == -1) {
        return errno;
    }

    (void) setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
    err = connect(fd, (struct sockaddr *) &sin, sizeof(sin)) == -1 ? errno
                                                                   : 0;
    (void) close(fd);

    return err;
}


int
attempt_open(const char *path, int flags)
{
    int  fd;

    fd = open(path, flags|O_CLOEXEC, 0600);

    return fd == -1 ? errno : close(fd);
}


/* What changes a process is tried in a child; the body's value is its. */

int
attempt_child(int (*body)(void))
{
    int    status;
    pid_t  pid;

    pid = fork();

    if (pid == 0) {
        _exit(body() & 255);
    }

    if (pid == -1) {
        return errno;
    }

    while (waitpid(pid, &status, 0) == -1 && errno == EINTR) { /* void */ }

    return WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}
