/*
 * Each layer of a box that needs namespaces, tried by itself.  A question to
 * /proc about what should work is not asked: Ubuntu makes a user namespace
 * and takes its capabilities, a container's filter answers what it likes, and
 * only the thing itself tells.
 */

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor/doctor.h"
#include "box/mount_api.h"
#include "box/setup.h"


#define PROBE_BYTES  (1u << 20)
#define PROBE_FILES  64


static int probe_fs(const char *type, const char *const *options);
static int probe_root(void);


static int
body_none(char *detail, size_t cap)
{
    (void) detail;
    (void) cap;

    return 0;
}


int
probe_user(doctor_t *d, layer_result_t *r)
{
    pid_t    pid;
    fault_t  fault;

    /* not by probe_child(): without a map it says no more than this */

    pid = (pid_t) syscall(SYS_clone, (unsigned long) CLONE_NEWUSER|SIGCHLD,
                          NULL, NULL, NULL, 0);

    if (pid == 0) {
        _exit(0);
    }

    if (pid == -1) {
        return doctor_missing(r, errno, "none can be made");
    }

    (void) waitpid(pid, NULL, __WALL);
    fault = (fault_t) { 0 };

    return box_identity(&d->spec, CGROUP_SLOTS - 1, &fault) == 0
           ? 0 : doctor_fault(r, &fault);
}


int
probe_map(doctor_t *d, layer_result_t *r)
{
    return probe_child(d, r, CLONE_NEWUSER, body_none);
}


/* By use: it may exist and be worth nothing. */

static int
body_hostname(char *detail, size_t cap)
{
    (void) snprintf(detail, cap, "the user namespace has no capabilities: "
                    "its own host name cannot be set");

    return sethostname("box", 3);
}


int
probe_capabilities(doctor_t *d, layer_result_t *r)
{
    return probe_child(d, r, CLONE_NEWUSER|CLONE_NEWUTS, body_hostname);
}


int
probe_mount_ns(doctor_t *d, layer_result_t *r)
{
    return probe_child(d, r, CLONE_NEWUSER|CLONE_NEWNS, body_none);
}


static int
body_pid(char *detail, size_t cap)
{
    (void) snprintf(detail, cap, "its first process is not its first");
    errno = EINVAL;

    return syscall(SYS_getpid) == 1 ? 0 : -1;
}


int
probe_pid_ns(doctor_t *d, layer_result_t *r)
{
    return probe_child(d, r, CLONE_NEWUSER|CLONE_NEWPID, body_pid);
}


/* As the launcher's child does it. */

static int
body_net_ns(char *detail, size_t cap)
{
    (void) snprintf(detail, cap, "the net namespace cannot be made");

    return unshare(CLONE_NEWNET);
}


int
probe_net_ns(doctor_t *d, layer_result_t *r)
{
    return probe_child(d, r, CLONE_NEWUSER, body_net_ns);
}


int
probe_ipc_ns(doctor_t *d, layer_result_t *r)
{
    return probe_child(d, r, CLONE_NEWUSER|CLONE_NEWIPC, body_none);
}


int
probe_uts_ns(doctor_t *d, layer_result_t *r)
{
    return probe_child(d, r, CLONE_NEWUSER|CLONE_NEWUTS, body_none);
}


static int
body_cgroup_ns(char *detail, size_t cap)
{
    (void) snprintf(detail, cap, "the cgroup namespace cannot be made");

    return unshare(CLONE_NEWCGROUP);
}


int
probe_cgroup_ns(doctor_t *d, layer_result_t *r)
{
    return probe_child(d, r, CLONE_NEWUSER, body_cgroup_ns);
}


static int
body_time_ns(char *detail, size_t cap)
{
    (void) snprintf(detail, cap, "the time namespace cannot be made");

    return unshare(0x80 /* CLONE_NEWTIME */);
}


int
probe_time_ns(doctor_t *d, layer_result_t *r)
{
    return probe_child(d, r, CLONE_NEWUSER, body_time_ns);
}


static int
body_loopback(char *detail, size_t cap)
{
    int      rc;
    setup_t  s;

    s = (setup_t) { .root = -1 };
    rc = doors_loopback(&s);
    (void) snprintf(detail, cap, "%s", s.detail);

    return rc;
}


int
probe_loopback(doctor_t *d, layer_result_t *r)
{
    return probe_child(d, r, CLONE_NEWUSER|CLONE_NEWNET, body_loopback);
}


/* As the launcher does it; `sync` takes the report with the sockets. */

static int
body_ports(char *detail, size_t cap)
{
    int         rc, sync[2];
    setup_t     s;
    box_spec_t  spec;

    (void) snprintf(detail, cap, "no sockets");

    if (socketpair(AF_UNIX, SOCK_SEQPACKET|SOCK_CLOEXEC, 0, sync) != 0) {
        return -1;
    }

    spec = (box_spec_t) {
        .sync = sync[0],
        .doors = { { 80, false }, { 443, false }, { 53, false }, { 53, true } },
        .ndoors = 4
    };

    s = (setup_t) { .spec = &spec, .root = -1 };
    rc = doors_open(&s);
    (void) snprintf(detail, cap, "%s", s.detail);

    return rc;
}


int
probe_ports(doctor_t *d, layer_result_t *r)
{
    return probe_child(d, r, CLONE_NEWUSER|CLONE_NEWNET, body_ports);
}


static int
body_routes(char *detail, size_t cap)
{
    int         rc;
    setup_t     s;
    box_spec_t  spec;

    spec = (box_spec_t) { .ndoors = 1 };
    s = (setup_t) { .spec = &spec, .root = -1 };
    rc = doors_loopback(&s) != 0 ? -1 : routes_local(&s);
    (void) snprintf(detail, cap, "%s", s.detail);

    return rc;
}


int
probe_routes(doctor_t *d, layer_result_t *r)
{
    return probe_child(d, r, CLONE_NEWUSER|CLONE_NEWNET, body_routes);
}


/* The launcher goes on without these: only who calls such an address knows. */

static int
body_routes_v6(char *detail, size_t cap)
{
    int                  fd;
    struct sockaddr_in6  sin6;

    if (body_routes(detail, cap) != 0) {
        return -1;
    }

    sin6 = (struct sockaddr_in6) {
        .sin6_family = AF_INET6,
        .sin6_port = htons(53),
        .sin6_addr = { { { 0x20, 0x01, 0x0d, 0xb8 } } }     /* RFC 3849 */
    };

    fd = socket(AF_INET6, SOCK_DGRAM|SOCK_CLOEXEC, 0);

    if (fd == -1) {
        (void) snprintf(detail, cap, "a kernel without IPv6");
        errno = ENETUNREACH;
        return -1;
    }

    if (connect(fd, (struct sockaddr *) &sin6, sizeof(sin6)) != 0) {
        (void) snprintf(detail, cap, "IPv6 is off, or the kernel has no "
                        "IPV6_SEG6_LWTUNNEL");
        errno = ENETUNREACH;
        return -1;
    }

    return 0;
}


int
probe_routes_v6(doctor_t *d, layer_result_t *r)
{
    return probe_child(d, r, CLONE_NEWUSER|CLONE_NEWNET, body_routes_v6);
}


static int
body_private(char *detail, size_t cap)
{
    int      rc;
    setup_t  s;

    s = (setup_t) { .root = -1 };
    rc = mounts_private(&s);
    (void) snprintf(detail, cap, "%s", s.detail);

    return rc;
}


int
probe_private(doctor_t *d, layer_result_t *r)
{
    return probe_child(d, r, CLONE_NEWUSER|CLONE_NEWNS, body_private);
}


static int
probe_fs(const char *type, const char *const *options)
{
    int  fd;

    fd = sys_fsopen(type, FSOPEN_CLOEXEC);

    if (fd == -1) {
        return -1;
    }

    for ( /* void */ ; options[0]; options += 2) {
        if (sys_fsconfig(fd, FSCONFIG_SET_STRING, options[0], options[1], 0)
            != 0)
        {
            return -1;
        }
    }

    if (sys_fsconfig(fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) != 0) {
        return -1;
    }

    return sys_fsmount(fd, FSMOUNT_CLOEXEC,
                       MOUNT_ATTR_NOSUID|MOUNT_ATTR_NODEV);
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
    root = probe_fs("tmpfs", options);

    if (root == -1
        || sys_mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &attr) != 0
        || sys_move_mount(root, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH)
           != 0)
    {
        return -1;
    }

    return root;
}


/* Its bounds must hold, and not only be taken. */

static int
body_tmpfs(char *detail, size_t cap)
{
    int            root, fd, err;
    ssize_t        n;
    struct statfs  sfs;
    static char    page[4096];

    (void) snprintf(detail, cap, "a tmpfs cannot be mounted "
                    "(fsopen, fsconfig, fsmount, move_mount)");
    root = probe_root();

    if (root == -1 || fstatfs(root, &sfs) != 0) {
        return -1;
    }

    (void) snprintf(detail, cap, "the size of a tmpfs does not hold");
    fd = openat(root, "full", O_WRONLY|O_CREAT|O_CLOEXEC, 0600);

    if (fd == -1) {
        return -1;
    }

    do {
        n = write(fd, page, sizeof(page));
        err = errno;
    } while (n > 0 && lseek(fd, 0, SEEK_CUR) <= PROBE_BYTES);

    if (n != -1 || err != ENOSPC || sfs.f_files != PROBE_FILES) {
        errno = EIO;
        return -1;
    }

    return 0;
}


int
probe_tmpfs(doctor_t *d, layer_result_t *r)
{
    return probe_child(d, r, CLONE_NEWUSER|CLONE_NEWNS, body_tmpfs);
}


static int
body_bind(char *detail, size_t cap)
{
    int                tree, root;
    struct mount_attr  attr;

    (void) snprintf(detail, cap, "/usr cannot be cloned (open_tree)");
    tree = sys_open_tree(AT_FDCWD, "/usr", OPEN_TREE_CLONE|OPEN_TREE_CLOEXEC
                                           |AT_RECURSIVE);

    if (tree == -1) {
        return -1;
    }

    (void) snprintf(detail, cap, "it cannot be made read-only "
                    "(mount_setattr)");
    attr = (struct mount_attr) {
        .attr_set = MOUNT_ATTR_RDONLY|MOUNT_ATTR_NOSUID|MOUNT_ATTR_NODEV
    };

    if (sys_mount_setattr(tree, "", AT_EMPTY_PATH|AT_RECURSIVE, &attr) != 0) {
        return -1;
    }

    (void) snprintf(detail, cap, "it cannot be attached (move_mount)");
    root = probe_root();

    if (root == -1 || mkdirat(root, "usr", 0755) != 0
        || sys_move_mount(tree, "", root, "usr", MOVE_MOUNT_F_EMPTY_PATH)
           != 0)
    {
        return -1;
    }

    (void) snprintf(detail, cap, "a part of it cannot be mounted (mount)");

    if (fchdir(root) != 0 || mkdir("bin", 0755) != 0
        || sys_mount("usr/bin", "bin", NULL, MS_BIND, NULL) != 0)
    {
        return -1;
    }

    (void) snprintf(detail, cap, "it is read-only and was written to");

    if (openat(root, "bin/attempt", O_WRONLY|O_CREAT|O_CLOEXEC, 0600) != -1
        || errno != EROFS
        || openat(root, "usr/attempt", O_WRONLY|O_CREAT|O_CLOEXEC, 0600) != -1
        || errno != EROFS)
    {
        errno = EIO;
        return -1;
    }

    return 0;
}


int
probe_bind(doctor_t *d, layer_result_t *r)
{
    return probe_child(d, r, CLONE_NEWUSER|CLONE_NEWNS, body_bind);
}


/* In a root of its own, as in a box. */

static int
probe_mount(const char *type, unsigned long flags, const char *options)
{
    int  root;

    root = probe_root();

    return root == -1 || fchdir(root) != 0 || mkdir("at", 0755) != 0
           || sys_mount(type, "at", type, flags, options) != 0 ? -1 : 0;
}


static int
body_proc(char *detail, size_t cap)
{
    (void) snprintf(detail, cap, "/proc of the box cannot be mounted (mount)");

    return probe_mount("proc", MS_NOSUID|MS_NODEV|MS_NOEXEC, "hidepid=2");
}


int
probe_proc(doctor_t *d, layer_result_t *r)
{
    r->cause = CAUSE_PROC_MOUNT;

    return probe_child(d, r, CLONE_NEWUSER|CLONE_NEWNS|CLONE_NEWPID,
                       body_proc);
}


static int
body_pts(char *detail, size_t cap)
{
    (void) snprintf(detail, cap, "/dev/pts of the box cannot be mounted "
                    "(mount)");

    return probe_mount("devpts", MS_NOSUID|MS_NOEXEC, "ptmxmode=0666,max=4");
}


int
probe_pts(doctor_t *d, layer_result_t *r)
{
    return probe_child(d, r, CLONE_NEWUSER|CLONE_NEWNS, body_pts);
}


static int
body_pivot(char *detail, size_t cap)
{
    int  root;

    (void) snprintf(detail, cap, "the old root cannot be left");
    root = probe_root();

    if (root == -1 || fchdir(root) != 0 || sys_pivot_root(".", ".") != 0
        || sys_umount2(".", MNT_DETACH) != 0 || chdir("/") != 0)
    {
        return -1;
    }

    (void) snprintf(detail, cap, "the old root is still there");
    errno = EIO;

    return access("/usr", F_OK) == -1 ? 0 : -1;
}


int
probe_pivot(doctor_t *d, layer_result_t *r)
{
    return probe_child(d, r, CLONE_NEWUSER|CLONE_NEWNS, body_pivot);
}
