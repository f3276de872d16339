/*
 * Actions that a box refuses and a host might not, with the control of each,
 * if they take more than one system call.  Tried in a box only.  The arguments
 * are valid, so that an action succeeds where nothing refuses it.
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor/attempt.h"


int
attempt_address(const target_t *t, const char *address)
{
    return attempt_connect(address, 443);
}


int
attempt_create(const target_t *t, const char *path)
{
    return attempt_open(path, O_WRONLY|O_CREAT);
}


int
attempt_process(const target_t *t, const char *arg)
{
    return target_find(t->name) ? 0 : ESRCH;
}


int
attempt_own_process(const target_t *t, const char *arg)
{
    char  name[16];

    return prctl(PR_GET_NAME, name, 0, 0, 0) == 0 && target_find(name)
           ? 0 : ESRCH;
}


/* A signal for a child, or with arg, tracing it. */

int
attempt_on_child(const target_t *t, const char *arg)
{
    int    err;
    pid_t  pid;

    pid = fork();

    if (pid == 0) {
        (void) pause();
        _exit(0);
    }

    if (pid == -1) {
        return errno;
    }

    err = arg ? ptrace(PTRACE_ATTACH, pid, NULL, NULL) == -1 ? errno : 0
              : kill(pid, 0) == -1 ? errno : 0;

    (void) kill(pid, SIGKILL);
    (void) waitpid(pid, NULL, 0);

    return err;
}


int
attempt_mkdir(const target_t *t, const char *path)
{
    return mkdir(path, 0700) == -1 && errno != EEXIST ? errno : 0;
}


/*
 * On a new terminal of this process' own, where the kernel allows it: types
 * arg, or without it asks for the size.
 */

int
attempt_tty(const target_t *t, const char *arg)
{
    int             master, slave, off;
    struct winsize  ws;

    off = 0;
    master = open("/dev/ptmx", O_RDWR|O_NOCTTY|O_CLOEXEC);

    if (master == -1 || ioctl(master, TIOCSPTLCK, &off) != 0) {
        return errno;
    }

    slave = ioctl(master, TIOCGPTPEER, O_RDWR|O_NOCTTY);

    if (slave == -1 || setsid() == -1 || ioctl(slave, TIOCSCTTY, 0) != 0) {
        return errno;
    }

    return (arg ? ioctl(slave, TIOCSTI, arg) : ioctl(slave, TIOCGWINSZ, &ws))
           == -1 ? errno : 0;
}


/* Becoming the user arg, or the one that this process is. */

int
attempt_setuid(const target_t *t, const char *arg)
{
    return setuid(arg ? (uid_t) atoi(arg) : getuid()) == -1 ? errno : 0;
}
