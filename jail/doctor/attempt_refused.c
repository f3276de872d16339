/*
 * Actions that a box refuses and a host might not, with the control of each,
 * if they take more than one system call.  Tried in a box only.  The arguments
 * are valid, so that an action succeeds where nothing refuses it.
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor/attempt.h"


static int attempt_on_child(bool trace);
static int attempt_tty(unsigned long request, void *arg);


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


int
attempt_ptrace(const target_t *t, const char *arg)
{
    return attempt_on_child(true);
}


int
attempt_signal(const target_t *t, const char *arg)
{
    return attempt_on_child(false);
}


static int
attempt_on_child(bool trace)
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

    err = trace ? ptrace(PTRACE_ATTACH, pid, NULL, NULL) == -1 ? errno : 0
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


int
attempt_tiocsti(const target_t *t, const char *arg)
{
    return attempt_tty(TIOCSTI, "x");
}


int
attempt_winsize(const target_t *t, const char *arg)
{
    struct winsize  ws;

    return attempt_tty(TIOCGWINSZ, &ws);
}


/* On a new terminal of this process' own, where the kernel allows it. */

static int
attempt_tty(unsigned long request, void *arg)
{
    int  master, slave, off;

    off = 0;
    master = open("/dev/ptmx", O_RDWR|O_NOCTTY|O_CLOEXEC);

    if (master == -1 || ioctl(master, TIOCSPTLCK, &off) != 0) {
        return errno;
    }

    slave = ioctl(master, TIOCGPTPEER, O_RDWR|O_NOCTTY);

    if (slave == -1 || setsid() == -1 || ioctl(slave, TIOCSCTTY, 0) != 0) {
        return errno;
    }

    return ioctl(slave, request, arg) == -1 ? errno : 0;
}


int
attempt_setuid(const target_t *t, const char *arg)
{
    return setuid(0) == -1 ? errno : 0;
}


int
attempt_setuid_own(const target_t *t, const char *arg)
{
    return setuid(getuid()) == -1 ? errno : 0;
}
