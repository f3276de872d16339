/*
 * What a box refuses and a host might not, with the harmless neighbour of
 * each.  Tried in a box only.  The arguments are right, so that it goes
 * through where nothing refuses it.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
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
#include "doctor/doctor.h"


#define ATTEMPT_OTHER  "192.0.2.1"      /* RFC 5737: nobody's */


static int attempt_tty(unsigned long request, void *arg);


int
try_other(const aim_t *aim)
{
    (void) aim;

    return attempt_connect(ATTEMPT_OTHER, 443);
}


int
try_raw(const aim_t *aim)
{
    (void) aim;

    return socket(AF_INET, SOCK_RAW, 1) == -1 ? errno : 0;
}


int
try_socket(const aim_t *aim)
{
    int  fd;

    (void) aim;

    fd = socket(AF_INET, SOCK_DGRAM, 0);

    return fd == -1 ? errno : close(fd);
}


int
try_root(const aim_t *aim)
{
    (void) aim;

    return attempt_open("/attempt", O_WRONLY|O_CREAT);
}


int
try_usr(const aim_t *aim)
{
    (void) aim;

    return attempt_open("/usr/attempt", O_WRONLY|O_CREAT);
}


int
try_here(const aim_t *aim)
{
    (void) aim;

    return attempt_open("attempt", O_WRONLY|O_CREAT);
}


int
try_shadow(const aim_t *aim)
{
    (void) aim;

    return attempt_open("/etc/shadow", O_RDONLY);
}


int
try_processes(const aim_t *aim)
{
    return target_find(aim->name) ? 0 : ESRCH;
}


int
try_self(const aim_t *aim)
{
    char  name[16];

    (void) aim;

    return prctl(PR_GET_NAME, name, 0, 0, 0) == 0 && target_find(name)
           ? 0 : ESRCH;
}


static int
attempt_on_child(int trace)
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
try_ptrace(const aim_t *aim)
{
    (void) aim;

    return attempt_on_child(1);
}


int
try_signal(const aim_t *aim)
{
    (void) aim;

    return attempt_on_child(0);
}


int
try_mount(const aim_t *aim)
{
    (void) aim;

    return syscall(SYS_mount, "none", "directory", "tmpfs", 0, NULL) == -1
           ? errno : 0;
}


int
try_mkdir(const aim_t *aim)
{
    (void) aim;

    return mkdir("directory", 0700) == -1 && errno != EEXIST ? errno : 0;
}


static int
body_unshare(void)
{
    return unshare(CLONE_NEWUSER) == -1 ? errno : 0;
}


int
try_unshare(const aim_t *aim)
{
    (void) aim;

    return attempt_child(body_unshare);
}


int
try_keyctl(const aim_t *aim)
{
    (void) aim;

    /* KEYCTL_GET_KEYRING_ID of KEY_SPEC_USER_KEYRING */

    return syscall(SYS_keyctl, 0, -4, 0, 0, 0) == -1 ? errno : 0;
}


int
try_getpid(const aim_t *aim)
{
    (void) aim;

    return syscall(SYS_getpid) > 0 ? 0 : errno;
}


static int
body_tiocsti(void)
{
    return attempt_tty(TIOCSTI, "x");
}


int
try_tiocsti(const aim_t *aim)
{
    (void) aim;

    return attempt_child(body_tiocsti);
}


static int
body_tty(void)
{
    struct winsize  ws;

    return attempt_tty(TIOCGWINSZ, &ws);
}


int
try_tty(const aim_t *aim)
{
    (void) aim;

    return attempt_child(body_tty);
}


int
try_device(const aim_t *aim)
{
    (void) aim;

    return mknod("device", S_IFBLK|0600, makedev(8, 0)) == -1 ? errno : 0;
}


int
try_fifo(const aim_t *aim)
{
    (void) aim;

    return mkfifo("fifo", 0600) == -1 && errno != EEXIST ? errno : 0;
}


int
try_bpf(const aim_t *aim)
{
    union bpf_attr  attr;

    (void) aim;
    (void) memset(&attr, 0, sizeof(attr));

    attr.map_type = BPF_MAP_TYPE_ARRAY;
    attr.key_size = 4;
    attr.value_size = 4;
    attr.max_entries = 1;

    return syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr)) == -1
           ? errno : 0;
}


int
try_io_uring(const aim_t *aim)
{
    struct io_uring_params  params;

    (void) aim;
    (void) memset(&params, 0, sizeof(params));

    return syscall(SYS_io_uring_setup, 1, &params) == -1 ? errno : 0;
}


int
try_epoll(const aim_t *aim)
{
    int  fd;

    (void) aim;

    fd = (int) syscall(SYS_epoll_create1, 0);

    return fd == -1 ? errno : close(fd);
}


int
try_setuid(const aim_t *aim)
{
    (void) aim;

    return setuid(0) == -1 ? errno : 0;
}


int
try_setuid_own(const aim_t *aim)
{
    (void) aim;

    return setuid(getuid()) == -1 ? errno : 0;
}


/* On a terminal that is this process' own, where the kernel allows it. */

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
