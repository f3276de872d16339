/*
 * Actions that a box refuses and a host might not, with the control of each.
 * Tried in a box only.  The arguments are valid, so that an action succeeds
 * where nothing refuses it.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
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
attempt_raw_socket(const target_t *t, const char *arg)
{
    return socket(AF_INET, SOCK_RAW, 1) == -1 ? errno : 0;
}


int
attempt_socket(const target_t *t, const char *arg)
{
    return socket(AF_INET, SOCK_DGRAM, 0) == -1 ? errno : 0;
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
attempt_mount(const target_t *t, const char *path)
{
    return syscall(SYS_mount, "none", path, "tmpfs", 0, NULL) == -1 ? errno
                                                                    : 0;
}


int
attempt_mkdir(const target_t *t, const char *path)
{
    return mkdir(path, 0700) == -1 && errno != EEXIST ? errno : 0;
}


int
attempt_unshare(const target_t *t, const char *arg)
{
    return unshare(CLONE_NEWUSER) == -1 ? errno : 0;
}


int
attempt_keyctl(const target_t *t, const char *arg)
{
    /* KEYCTL_GET_KEYRING_ID of KEY_SPEC_USER_KEYRING */

    return syscall(SYS_keyctl, 0, -4, 0, 0, 0) == -1 ? errno : 0;
}


int
attempt_getpid(const target_t *t, const char *arg)
{
    return syscall(SYS_getpid) > 0 ? 0 : errno;
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
attempt_device(const target_t *t, const char *path)
{
    return mknod(path, S_IFBLK|0600, makedev(8, 0)) == -1 ? errno : 0;
}


int
attempt_fifo(const target_t *t, const char *path)
{
    return mkfifo(path, 0600) == -1 && errno != EEXIST ? errno : 0;
}


int
attempt_bpf(const target_t *t, const char *arg)
{
    union bpf_attr  attr;

    (void) memset(&attr, 0, sizeof(attr));
    attr.map_type = BPF_MAP_TYPE_ARRAY;
    attr.key_size = 4;
    attr.value_size = 4;
    attr.max_entries = 1;

    return syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr)) == -1
           ? errno : 0;
}


int
attempt_io_uring(const target_t *t, const char *arg)
{
    struct io_uring_params  params;

    params = (struct io_uring_params) { 0 };

    return syscall(SYS_io_uring_setup, 1, &params) == -1 ? errno : 0;
}


int
attempt_epoll(const target_t *t, const char *arg)
{
    return syscall(SYS_epoll_create1, 0) == -1 ? errno : 0;
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
