/*
 * Each layer of a box that needs namespaces, tried by itself.  /proc is not
 * asked what should work: Ubuntu makes a user namespace but gives it no
 * capabilities, a container's filter answers with any errno, and only a trial
 * proves anything.
 */

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box/mount_ops.h"
#include "doctor/probe.h"


#define PROBE_BYTES  (1u << 20)
#define PROBE_FILES  64


static int probe_root(void);
static int probe_mount(setup_t *s, const char *type, const char *where,
    unsigned long flags, const char *options);


int
probe_user(doctor_t *d, layer_result_t *r)
{
    pid_t    pid;
    fault_t  fault;

    /* without probe_child(): before ids are mapped there is nothing to try */

    pid = (pid_t) syscall(SYS_clone, (unsigned long) CLONE_NEWUSER|SIGCHLD,
                          NULL, NULL, NULL, 0);

    if (pid == 0) {
        _exit(0);
    }

    if (pid == -1) {
        return probe_missing(r, errno, "the kernel refuses to make one");
    }

    (void) waitpid(pid, NULL, __WALL);
    fault = (fault_t) { 0 };

    return box_identity(&d->spec, CGROUP_SLOTS - 1, &fault) == 0
           ? 0 : probe_fault(r, &fault);
}


/* By use: capabilities may be listed and still be ineffective. */

int
probe_hostname(setup_t *s)
{
    return sethostname("box", 3) == 0
           ? 0 : report_detail(s, "the user namespace has no capabilities: "
                               "sethostname failed");
}


int
probe_pid(setup_t *s)
{
    errno = EINVAL;

    return syscall(SYS_getpid) == 1
           ? 0 : report_detail(s, "its first process does not have pid 1");
}


int
probe_routes(setup_t *s)
{
    static box_spec_t  spec;                /* outlives the step */

    /* routes are made only if there are doors */

    spec = (box_spec_t) { .ndoors = 1 };
    s->spec = &spec;

    return doors_loopback(s) != 0 ? -1 : routes_local(s);
}


/* A box starts without these: only a call to an IPv6 address needs them. */

int
probe_routes_v6(setup_t *s)
{
    int                  fd;
    struct sockaddr_in6  sin6;

    if (probe_routes(s) != 0) {
        return -1;
    }

    sin6 = (struct sockaddr_in6) {
        .sin6_family = AF_INET6,
        .sin6_port = htons(PROTOCOL_PORT_DNS),
        .sin6_addr = { { { 0x20, 0x01, 0x0d, 0xb8 } } }     /* RFC 3849 */
    };

    fd = socket(AF_INET6, SOCK_DGRAM|SOCK_CLOEXEC, 0);

    if (fd == -1) {
        errno = ENETUNREACH;
        return report_detail(s, "the kernel has no IPv6");
    }

    if (connect(fd, (struct sockaddr *) &sin6, sizeof(sin6)) != 0) {
        errno = ENETUNREACH;
        return report_detail(s, "IPv6 is off, or the kernel has no "
                             "IPV6_SEG6_LWTUNNEL");
    }

    return 0;
}


/* As in a box; `sync` receives the report with the sockets. */

int
probe_ports(setup_t *s)
{
    int  sync[2];

    static box_spec_t  spec;                /* outlives the step */

    if (socketpair(AF_UNIX, SOCK_SEQPACKET|SOCK_CLOEXEC, 0, sync) != 0) {
        return report_detail(s, "socketpair failed");
    }

    spec = (box_spec_t) {
        .sync = sync[0],
        .doors = {
            { PROTOCOL_PORT_HTTP, false }, { PROTOCOL_PORT_HTTPS, false },
            { PROTOCOL_PORT_DNS, false }, { PROTOCOL_PORT_DNS, true }
        },
        .ndoors = 4
    };
    s->spec = &spec;

    return doors_open(s);
}


/* The bounds must be enforced, not only accepted. */

int
probe_tmpfs(setup_t *s)
{
    int            root, fd, err;
    ssize_t        n;
    struct statfs  sfs;
    static char    page[4096];

    root = probe_root();

    if (root == -1 || fstatfs(root, &sfs) != 0) {
        return report_detail(s, "a tmpfs cannot be mounted (fsopen, fsconfig, "
                             "fsmount, move_mount)");
    }

    fd = openat(root, "full", O_WRONLY|O_CREAT|O_CLOEXEC, 0600);

    if (fd == -1) {
        return report_detail(s, "the size of a tmpfs does not hold");
    }

    do {
        n = write(fd, page, sizeof(page));
        err = errno;
    } while (n > 0 && lseek(fd, 0, SEEK_CUR) <= PROBE_BYTES);

    if (n != -1 || err != ENOSPC || sfs.f_files != PROBE_FILES) {
        errno = EIO;
        return report_detail(s, "the size of a tmpfs does not hold");
    }

    return 0;
}


int
probe_read_only(setup_t *s)
{
    int                tree, root;
    struct mount_attr  attr;

    tree = sys_open_tree(AT_FDCWD, "/usr", OPEN_TREE_CLONE|OPEN_TREE_CLOEXEC
                                           |AT_RECURSIVE);

    if (tree == -1) {
        return report_detail(s, "/usr cannot be cloned (open_tree)");
    }

    attr = (struct mount_attr) {
        .attr_set = MOUNT_ATTR_RDONLY|MOUNT_ATTR_NOSUID|MOUNT_ATTR_NODEV
    };

    if (sys_mount_setattr(tree, "", AT_EMPTY_PATH|AT_RECURSIVE, &attr) != 0) {
        return report_detail(s, "/usr cannot be made read-only "
                             "(mount_setattr)");
    }

    root = probe_root();

    if (root == -1 || mkdirat(root, "usr", 0755) != 0
        || sys_move_mount(tree, "", root, "usr", MOVE_MOUNT_F_EMPTY_PATH)
           != 0)
    {
        return report_detail(s, "/usr cannot be attached (move_mount)");
    }

    if (fchdir(root) != 0 || mkdir("bin", 0755) != 0
        || sys_mount("usr/bin", "bin", NULL, MS_BIND, NULL) != 0)
    {
        return report_detail(s, "/usr/bin cannot be mounted (mount)");
    }

    if (openat(root, "bin/attempt", O_WRONLY|O_CREAT|O_CLOEXEC, 0600) != -1
        || errno != EROFS
        || openat(root, "usr/attempt", O_WRONLY|O_CREAT|O_CLOEXEC, 0600) != -1
        || errno != EROFS)
    {
        errno = EIO;
        return report_detail(s, "it is mounted read-only but can be written "
                             "to");
    }

    return 0;
}


int
probe_proc(setup_t *s)
{
    return probe_mount(s, "proc", "proc", MS_NOSUID|MS_NODEV|MS_NOEXEC,
                       "hidepid=2");
}


int
probe_pts(setup_t *s)
{
    return probe_mount(s, "devpts", "dev/pts", MS_NOSUID|MS_NOEXEC,
                       "ptmxmode=0666,max=4");
}


/* In a root of its own, as in a box. */

static int
probe_mount(setup_t *s, const char *type, const char *where,
    unsigned long flags, const char *options)
{
    int  root;

    root = probe_root();

    if (root == -1 || fchdir(root) != 0 || mkdir("at", 0755) != 0
        || sys_mount(type, "at", type, flags, options) != 0)
    {
        return report_detail(s, "/%s of the box cannot be mounted (mount)",
                             where);
    }

    return 0;
}


int
probe_pivot(setup_t *s)
{
    int  root;

    root = probe_root();

    if (root == -1 || fchdir(root) != 0 || sys_pivot_root(".", ".") != 0
        || sys_umount2(".", MNT_DETACH) != 0 || chdir("/") != 0)
    {
        return report_detail(s, "the old root cannot be left");
    }

    errno = EIO;

    return access("/usr", F_OK) == -1
           ? 0 : report_detail(s, "the old root is still visible");
}


/* A private tmpfs over the root, as a box begins. */

static int
probe_root(void)
{
    int                root;
    struct mount_attr  attr;

    static const char *const  options[] = {
        "size", "1048576", "nr_inodes", "64", NULL
    };

    attr = (struct mount_attr) { .propagation = MS_PRIVATE };
    root = mount_fs("tmpfs", options, NOSUID|NODEV);

    if (root == -1
        || sys_mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &attr) != 0
        || sys_move_mount(root, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH)
           != 0)
    {
        return -1;
    }

    return root;
}
