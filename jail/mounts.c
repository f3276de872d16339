/*
 * The box's file system.  What a task sees is the table below, read from top
 * to bottom, and then what its policy adds: writable and readable paths, and
 * the task's own files.
 *
 * It is built on a private tmpfs with the new mount API: a tree is cloned,
 * restricted while nobody can reach it, and only then attached.  So there is
 * no moment at which a mount is visible without its flags, and read-only
 * holds for every mount below it, which a bind and a remount do not give.
 * Nothing is created on a file system of the host.
 *
 * Every mount is nosuid and nodev; the device nodes' own are not nodev.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "mount_api.h"
#include "setup.h"


#define MOUNTS_INODE_BYTES  4096        /* of a tmpfs, to one inode */
#define MOUNTS_INODES_MIN   1024
#define MOUNTS_ROOT_BYTES   (8ull << 20)
#define MOUNTS_WORK_BYTES   (256ull << 20)
#define MOUNTS_SMALL        (128 << 10)
#define MOUNTS_PTYS         "64"

#define MOUNTS_MASK         ".mask"     /* while the box is being built */
#define MOUNTS_EMPTY        "var/empty"

#define DEVICE(major, minor)  ((major) << 8 | (minor))

#define NOEXEC              MOUNT_ATTR_NOEXEC
#define NOSUID              MOUNT_ATTR_NOSUID
#define NODEV               MOUNT_ATTR_NODEV
#define RDONLY              MOUNT_ATTR_RDONLY


typedef enum {
    M_DIR,                      /* a directory */
    M_LINK,                     /* a symbolic link to `arg` */
    M_TEXT,                     /* a file that holds `arg` */
    M_SYSTEM,                   /* the host's, read-only; a link stays one;
                                   left out where the host has none */
    M_ETC,                      /* the same, for a name in the host's /etc;
                                   with "*": for all that begin so */
    M_DEVICE,                   /* the host's node, if it is that device */
    M_TMPFS,
    M_PROC,
    M_PTS,
    M_FREEZE,                   /* the mount there becomes read-only */
    M_RDONLY,                   /* a part of a mount becomes a read-only one */
    M_HIDE                      /* an empty file or directory over it */
} mount_kind_t;


typedef struct {
    mount_kind_t  kind;
    const char   *path;         /* in the box, without the first "/" */
    const char   *arg;
    unsigned      mode;
    unsigned      dev;
} mount_op_t;


/* What the policy adds. */

typedef struct {
    const char   *path;         /* where it is mounted */
    const char   *make;         /* a directory in it to be made, or NULL */
    uint64_t      bytes;        /* 0: the host's, read-only */
    unsigned      disk;         /* its place among the writable ones */
} mount_path_t;


#define MOUNTS_PATHS_MAX  (BOX_WRITABLE_MAX + BOX_READABLE_MAX + 2)


static const mount_op_t  mount_plan[] = {

    { M_SYSTEM, "usr", NULL, 0, 0 },
    { M_SYSTEM, "bin", NULL, 0, 0 },
    { M_SYSTEM, "sbin", NULL, 0, 0 },
    { M_SYSTEM, "lib", NULL, 0, 0 },
    { M_SYSTEM, "lib32", NULL, 0, 0 },
    { M_SYSTEM, "lib64", NULL, 0, 0 },
    { M_SYSTEM, "libx32", NULL, 0, 0 },

    /* /etc is made: the host's holds keys, and names of users and machines */

    { M_DIR, "etc", NULL, 0755, 0 },
    { M_TEXT, "etc/passwd",
      "root:x:0:0:root:/:/usr/sbin/nologin\n"
      "task:x:1000:1000:task:" BOX_WORK ":/bin/sh\n"
      "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n", 0, 0 },
    { M_TEXT, "etc/group",
      "root:x:0:\n" "task:x:1000:\n" "nogroup:x:65534:\n", 0, 0 },
    { M_TEXT, "etc/hosts",
      "127.0.0.1 localhost box\n"
      "::1 localhost ip6-localhost ip6-loopback\n", 0, 0 },
    { M_TEXT, "etc/hostname", "box\n", 0, 0 },
    { M_TEXT, "etc/resolv.conf",
      "nameserver 127.0.0.1\n" "options timeout:1 attempts:1\n", 0, 0 },
    { M_TEXT, "etc/nsswitch.conf",
      "passwd: files\n" "group: files\n" "shadow: files\n"
      "hosts: files dns\n" "networks: files\n" "protocols: files\n"
      "services: files\n" "ethers: files\n" "rpc: files\n", 0, 0 },
    { M_TEXT, "etc/shells", "/bin/sh\n" "/bin/bash\n", 0, 0 },
    { M_LINK, "etc/mtab", "/proc/self/mounts", 0, 0 },

    /* and the host's, where it is the same on every machine */

    { M_ETC, "ld.so.cache", NULL, 0, 0 },
    { M_ETC, "localtime", NULL, 0, 0 },
    { M_ETC, "timezone", NULL, 0, 0 },
    { M_ETC, "os-release", NULL, 0, 0 },
    { M_ETC, "debian_version", NULL, 0, 0 },
    { M_ETC, "alternatives", NULL, 0, 0 },
    { M_ETC, "mime.types", NULL, 0, 0 },
    { M_ETC, "protocols", NULL, 0, 0 },
    { M_ETC, "services", NULL, 0, 0 },
    { M_ETC, "locale.alias", NULL, 0, 0 },
    { M_ETC, "matplotlibrc", NULL, 0, 0 },
    { M_ETC, "fonts", NULL, 0, 0 },
    { M_ETC, "perl", NULL, 0, 0 },
    { M_ETC, "xml", NULL, 0, 0 },
    { M_ETC, "texmf", NULL, 0, 0 },
    { M_ETC, "crypto-policies", NULL, 0, 0 },
    { M_ETC, "R", NULL, 0, 0 },
    { M_ETC, "python3", "*", 0, 0 },
    { M_ETC, "java-", "*", 0, 0 },
    { M_ETC, "ImageMagick-", "*", 0, 0 },

    /* never /etc/ssl itself: it holds `private` */

    { M_DIR, "etc/ssl", NULL, 0755, 0 },
    { M_SYSTEM, "etc/ssl/certs", NULL, 0, 0 },
    { M_SYSTEM, "etc/ssl/cert.pem", NULL, 0, 0 },
    { M_SYSTEM, "etc/ssl/openssl.cnf", NULL, 0, 0 },
    { M_DIR, "etc/pki", NULL, 0755, 0 },
    { M_SYSTEM, "etc/pki/ca-trust", NULL, 0, 0 },
    { M_DIR, "etc/pki/tls", NULL, 0755, 0 },
    { M_SYSTEM, "etc/pki/tls/certs", NULL, 0, 0 },
    { M_SYSTEM, "etc/pki/tls/cert.pem", NULL, 0, 0 },

    /* its own /dev, with the nodes that everybody may have */

    { M_DIR, "dev", NULL, 0755, 0 },
    { M_TMPFS, "dev", "1048576", 0755, 0 },
    { M_DEVICE, "dev/null", NULL, 0, DEVICE(1, 3) },
    { M_DEVICE, "dev/zero", NULL, 0, DEVICE(1, 5) },
    { M_DEVICE, "dev/full", NULL, 0, DEVICE(1, 7) },
    { M_DEVICE, "dev/random", NULL, 0, DEVICE(1, 8) },
    { M_DEVICE, "dev/urandom", NULL, 0, DEVICE(1, 9) },
    { M_DEVICE, "dev/tty", NULL, 0, DEVICE(5, 0) },
    { M_DIR, "dev/pts", NULL, 0755, 0 },
    { M_PTS, "dev/pts", NULL, 0, 0 },
    { M_LINK, "dev/ptmx", "pts/ptmx", 0, 0 },
    { M_LINK, "dev/fd", "/proc/self/fd", 0, 0 },
    { M_LINK, "dev/stdin", "/proc/self/fd/0", 0, 0 },
    { M_LINK, "dev/stdout", "/proc/self/fd/1", 0, 0 },
    { M_LINK, "dev/stderr", "/proc/self/fd/2", 0, 0 },
    { M_DIR, "dev/shm", NULL, 0755, 0 },
    { M_TMPFS, "dev/shm", NULL, 01777, 0 },
    { M_FREEZE, "dev", NULL, 0, 0 },

    { M_DIR, "var", NULL, 0755, 0 },
    { M_DIR, MOUNTS_EMPTY, NULL, 0555, 0 },
    { M_LINK, "var/tmp", "/tmp", 0, 0 },
    { M_LINK, "var/run", "/run", 0, 0 },
    { M_DIR, "run", NULL, 0755, 0 },
    { M_DIR, "run/task", NULL, 0755, 0 },
    { M_DIR, "run/task/in", NULL, 0755, 0 },
    { M_DIR, "run/task/out", NULL, 0755, 0 },
    { M_DIR, "tmp", NULL, 0755, 0 },

    /*
     * Its own /proc: only the box's processes are in it, and pid 1, which
     * cannot be traced, is not shown.  Hidden is what everybody may read and
     * what tells of the machine or of its other work.  kcore, kmsg, slabinfo,
     * timer_list, vmallocinfo, sysrq-trigger and their like need no cover:
     * they are host root's, and nobody in the box is.
     */

    { M_DIR, "proc", NULL, 0555, 0 },
    { M_PROC, "proc", NULL, 0, 0 },
    { M_RDONLY, "proc/sys", NULL, 0, 0 },
    { M_HIDE, "proc/acpi", NULL, 0, 0 },
    { M_HIDE, "proc/asound", NULL, 0, 0 },
    { M_HIDE, "proc/bus", NULL, 0, 0 },
    { M_HIDE, "proc/cmdline", NULL, 0, 0 },
    { M_HIDE, "proc/diskstats", NULL, 0, 0 },
    { M_HIDE, "proc/interrupts", NULL, 0, 0 },
    { M_HIDE, "proc/irq", NULL, 0, 0 },
    { M_HIDE, "proc/kallsyms", NULL, 0, 0 },
    { M_HIDE, "proc/key-users", NULL, 0, 0 },
    { M_HIDE, "proc/keys", NULL, 0, 0 },
    { M_HIDE, "proc/latency_stats", NULL, 0, 0 },
    { M_HIDE, "proc/modules", NULL, 0, 0 },
    { M_HIDE, "proc/mtrr", NULL, 0, 0 },
    { M_HIDE, "proc/pressure", NULL, 0, 0 },
    { M_HIDE, "proc/sched_debug", NULL, 0, 0 },
    { M_HIDE, "proc/schedstat", NULL, 0, 0 },
    { M_HIDE, "proc/scsi", NULL, 0, 0 },
    { M_HIDE, "proc/softirqs", NULL, 0, 0 },
    { M_HIDE, "proc/timer_stats", NULL, 0, 0 },
};


static int mounts_do(setup_t *s, const mount_op_t *op);
static int mounts_text(setup_t *s, const char *path, const char *text);
static int mounts_host(setup_t *s, const char *path, bool optional);
static int mounts_small(setup_t *s, const char *host, const char *path);
static int mounts_etc(setup_t *s, const mount_op_t *rows);
static int mounts_device(setup_t *s, const mount_op_t *op);
static int mounts_over(setup_t *s, const char *source, const char *path);
static int mounts_hide(setup_t *s, const char *path);
static int mounts_fs(const char *type, const char *const *options,
    uint64_t attr);
static int mounts_tmpfs(uint64_t bytes, unsigned mode, uint64_t attr);
static unsigned mounts_policy(const box_spec_t *spec,
    mount_path_t paths[MOUNTS_PATHS_MAX]);
static int mounts_path(setup_t *s, const mount_path_t *p);
static int mounts_attach(setup_t *s, int tree, const char *path);
static int mounts_attr(int fd, uint64_t attr, unsigned flags);
static int mounts_parents(setup_t *s, const char *path);
static int mounts_copy(setup_t *s, const task_file_t *file);


/*
 * No mount made on the host from now on shall appear in the box.  The kernel
 * made ours the slaves of the host's; a slave still receives.
 */

int
mounts_private(setup_t *s)
{
    struct mount_attr  attr;

    attr = (struct mount_attr) { .propagation = MS_PRIVATE };

    if (sys_mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &attr) != 0) {
        return setup_detail(s, "the mounts cannot be made private");
    }

    return 0;
}


/* The root is attached first: a detached tree takes no mounts before 6.15. */

int
mounts_root(setup_t *s)
{
    unsigned  i;
    uint64_t  bytes;

    bytes = MOUNTS_ROOT_BYTES;

    for (i = 0; i < s->spec->nfiles; i++) {
        bytes += (s->spec->files[i].size + 4095) & ~4095ull;
    }

    s->root = mounts_tmpfs(bytes, 0755, NOSUID|NODEV);

    if (s->root == -1
        || sys_move_mount(s->root, "", AT_FDCWD, "/",
                          MOVE_MOUNT_F_EMPTY_PATH) != 0)
    {
        return setup_detail(s, "a tmpfs for the root cannot be mounted");
    }

    return 0;
}


int
mounts_build(setup_t *s)
{
    size_t             i, n;
    mount_path_t       paths[MOUNTS_PATHS_MAX];

    if (mounts_text(s, MOUNTS_MASK, "") != 0) {
        return -1;
    }

    for (i = 0; i < sizeof(mount_plan) / sizeof(mount_plan[0]); i++) {
        if (mounts_do(s, &mount_plan[i]) != 0) {
            return s->detail[0] ? -1 : setup_detail(s, "/%s",
                                                    mount_plan[i].path);
        }
    }

    if (unlinkat(s->root, MOUNTS_MASK, 0) != 0) {
        return setup_detail(s, MOUNTS_MASK);
    }

    n = mounts_policy(s->spec, paths);

    for (i = 0; i < n; i++) {
        if (mounts_path(s, &paths[i]) != 0) {
            return setup_detail(s, "%s", paths[i].path);
        }
    }

    return 0;
}


/* The task's files, and the links to them from the working directory. */

int
mounts_files(setup_t *s)
{
    char                target[512];
    unsigned            i;
    const task_file_t  *file;

    s->work = openat(s->root, BOX_WORK + 1,
                     O_PATH|O_DIRECTORY|O_NOFOLLOW|O_CLOEXEC);

    if (s->work == -1) {
        return setup_detail(s, BOX_WORK);
    }

    for (i = 0; i < s->spec->nfiles; i++) {
        file = &s->spec->files[i];

        if (mounts_copy(s, file) != 0) {
            return setup_detail(s, "/%s", file->path);
        }

        (void) close(file->fd);

        if (file->link[0] == '\0') {
            continue;
        }

        (void) snprintf(target, sizeof(target), "/%s", file->path);

        if (symlinkat(target, s->work, file->link) != 0) {
            return setup_detail(s, BOX_WORK "/%s", file->link);
        }
    }

    return 0;
}


/*
 * The old root is left by pivot_root onto itself and detached: after that no
 * path and no ".." leads out.  The new one is frozen when nothing is left to
 * be created in it.
 */

int
mounts_pivot(setup_t *s)
{
    if (fchdir(s->root) != 0
        || sys_pivot_root(".", ".") != 0
        || sys_umount2(".", MNT_DETACH) != 0
        || chdir("/") != 0)
    {
        return setup_detail(s, "the old root cannot be left");
    }

    if (mounts_attr(s->root, RDONLY, 0) != 0) {
        return setup_detail(s, "the root cannot be made read-only");
    }

    if (fchdir(s->work) != 0) {
        return setup_detail(s, BOX_WORK);
    }

    (void) close(s->root);
    (void) close(s->work);

    return 0;
}


static int
mounts_do(setup_t *s, const mount_op_t *op)
{
    int       tree;
    uint64_t  bytes;

    static const char *const  proc_options[] = {
        "hidepid", "2", NULL
    };

    static const char *const  pts_options[] = {
        "ptmxmode", "0666", "mode", "0620", "max", MOUNTS_PTYS, NULL
    };

    switch (op->kind) {

    case M_DIR:
        return mkdirat(s->root, op->path, op->mode);

    case M_LINK:
        return symlinkat(op->arg, s->root, op->path);

    case M_TEXT:
        return mounts_text(s, op->path, op->arg);

    case M_SYSTEM:
        return mounts_host(s, op->path, true);

    case M_ETC:

        /* all these rows at once, by one reading of the directory */

        return op == mount_plan || op[-1].kind != M_ETC ? mounts_etc(s, op)
                                                        : 0;

    case M_DEVICE:
        return mounts_device(s, op);

    case M_TMPFS:
        bytes = op->arg ? strtoull(op->arg, NULL, 10) : s->spec->memory / 2;
        tree = mounts_tmpfs(bytes, op->mode, NOSUID|NODEV|NOEXEC);
        return mounts_attach(s, tree, op->path);

    case M_PROC:
        tree = mounts_fs("proc", proc_options, NOSUID|NODEV|NOEXEC);
        return mounts_attach(s, tree, op->path);

    case M_PTS:
        tree = mounts_fs("devpts", pts_options, NOSUID|NOEXEC);
        return mounts_attach(s, tree, op->path);

    case M_FREEZE:
        tree = openat(s->root, op->path, O_PATH|O_CLOEXEC);
        return tree == -1 || mounts_attr(tree, RDONLY, 0) != 0 ? -1
                                                               : close(tree);

    case M_RDONLY:
        return mounts_over(s, op->path, op->path);

    case M_HIDE:
        return mounts_hide(s, op->path);
    }

    errno = EINVAL;

    return -1;
}


static int
mounts_text(setup_t *s, const char *path, const char *text)
{
    int     fd;
    size_t  n;

    n = strlen(text);
    fd = openat(s->root, path, O_WRONLY|O_CREAT|O_EXCL|O_CLOEXEC, 0444);

    if (fd == -1 || write(fd, text, n) != (ssize_t) n) {
        return -1;
    }

    return close(fd);
}


/*
 * A part of the host's file system, read-only, at the same place.  A link
 * stays one if what it leads to is in the box as well.
 */

static int
mounts_host(setup_t *s, const char *path, bool optional)
{
    int          rc, tree, fd;
    char         host[512], target[512];
    ssize_t      n;
    struct stat  st;

    (void) snprintf(host, sizeof(host), "/%s", path);

    if (lstat(host, &st) != 0) {
        return optional && errno == ENOENT ? 0 : -1;
    }

    if (S_ISLNK(st.st_mode) && optional) {
        n = readlink(host, target, sizeof(target) - 1);

        if (n == -1) {
            return -1;
        }

        target[n] = '\0';

        if (strncmp(path, "etc/", 4) != 0
            || strncmp(target, "/usr/", 5) == 0
            || strncmp(target, "../usr/", 7) == 0
            || strncmp(target, "/etc/alternatives/", 18) == 0)
        {
            return symlinkat(target, s->root, path);
        }
    }

    if (optional && !S_ISDIR(st.st_mode)) {
        rc = mounts_small(s, host, path);

        if (rc != 1) {
            return rc;
        }
    }

    tree = sys_open_tree(AT_FDCWD, host, OPEN_TREE_CLONE|OPEN_TREE_CLOEXEC
                                         |AT_RECURSIVE);

    if (tree == -1) {
        return optional && errno == ENOENT ? 0 : -1;
    }

    if (fstat(tree, &st) != 0
        || mounts_attr(tree, RDONLY|NOSUID|NODEV, AT_RECURSIVE) != 0)
    {
        return -1;
    }

    if (S_ISDIR(st.st_mode)) {

        if (mkdirat(s->root, path, 0755) != 0 && errno != EEXIST) {
            return -1;
        }

    } else if (S_ISREG(st.st_mode)) {
        fd = openat(s->root, path, O_WRONLY|O_CREAT|O_CLOEXEC, 0444);

        if (fd == -1 || close(fd) != 0) {
            return -1;
        }

    } else {
        errno = EINVAL;
        return setup_detail(s, "/%s is neither a file nor a directory", path);
    }

    return mounts_attach(s, tree, path);
}


/*
 * A short file is copied, which is cheaper than a mount and its end.  1: it
 * was not a short file.
 */

static int
mounts_small(setup_t *s, const char *host, const char *path)
{
    int          in, out;
    ssize_t      n;
    struct stat  st;

    in = open(host, O_RDONLY|O_NONBLOCK|O_NOCTTY|O_CLOEXEC);

    if (in == -1) {
        return errno == ENOENT || errno == EACCES ? 0 : -1;
    }

    if (fstat(in, &st) != 0) {
        return -1;
    }

    if (!S_ISREG(st.st_mode) || st.st_size > MOUNTS_SMALL) {
        return close(in) == 0 ? 1 : -1;
    }

    out = openat(s->root, path, O_WRONLY|O_CREAT|O_EXCL|O_CLOEXEC, 0444);

    if (out == -1) {
        return -1;
    }

    do {
        n = sendfile(out, in, NULL, MOUNTS_SMALL);
    } while (n > 0 || (n == -1 && errno == EINTR));

    if (n == -1) {
        return -1;
    }

    (void) close(in);

    return close(out);
}


static int
mounts_etc(setup_t *s, const mount_op_t *rows)
{
    DIR               *dir;
    char               path[280];
    struct dirent     *de;
    const mount_op_t  *op;

    dir = opendir("/etc");

    if (dir == NULL) {
        return -1;
    }

    while ((de = readdir(dir)) != NULL) {

        for (op = rows; op->kind == M_ETC; op++) {
            if (op->arg ? strncmp(de->d_name, op->path, strlen(op->path)) == 0
                        : strcmp(de->d_name, op->path) == 0)
            {
                break;
            }
        }

        if (op->kind != M_ETC) {
            continue;
        }

        (void) snprintf(path, sizeof(path), "etc/%s", de->d_name);

        if (mounts_host(s, path, true) != 0) {
            return setup_detail(s, "/%s", path);
        }
    }

    return closedir(dir);
}


/*
 * The node is opened first and judged by what was opened: a host whose
 * /dev/null is a link or a file gets no box, instead of one with that file
 * in it.
 */

static int
mounts_device(setup_t *s, const mount_op_t *op)
{
    int          tree;
    char         host[64];
    struct stat  st;

    (void) snprintf(host, sizeof(host), "/%s", op->path);

    tree = sys_open_tree(AT_FDCWD, host, OPEN_TREE_CLONE|OPEN_TREE_CLOEXEC
                                         |AT_SYMLINK_NOFOLLOW);

    if (tree == -1 || fstat(tree, &st) != 0) {
        return -1;
    }

    if (!S_ISCHR(st.st_mode)
        || st.st_rdev != makedev(op->dev >> 8, op->dev & 255))
    {
        errno = ENODEV;
        return setup_detail(s, "%s is not the device %u:%u", host,
                            op->dev >> 8, op->dev & 255);
    }

    if (mounts_attr(tree, NOSUID|NOEXEC, 0) != 0
        || mounts_text(s, op->path, "") != 0)
    {
        return -1;
    }

    return mounts_attach(s, tree, op->path);
}


/* A read-only clone of something in the box, over something in the box. */

static int
mounts_over(setup_t *s, const char *source, const char *path)
{
    int  tree;

    tree = sys_open_tree(s->root, source, OPEN_TREE_CLONE|OPEN_TREE_CLOEXEC
                                          |AT_SYMLINK_NOFOLLOW);

    if (tree == -1
        || mounts_attr(tree, RDONLY|NOSUID|NODEV|NOEXEC, 0) != 0)
    {
        return -1;
    }

    return mounts_attach(s, tree, path);
}


/*
 * What is not there needs no cover.  The covers are ours: an empty file that
 * has lost its name by the time the task runs, and an empty directory.
 */

static int
mounts_hide(setup_t *s, const char *path)
{
    struct stat  st;

    if (fstatat(s->root, path, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return errno == ENOENT ? 0 : -1;
    }

    return mounts_over(s, S_ISDIR(st.st_mode) ? MOUNTS_EMPTY : MOUNTS_MASK,
                       path);
}


/* A new file system, mounted nowhere yet; options are names and values. */

static int
mounts_fs(const char *type, const char *const *options, uint64_t attr)
{
    int  fd, mount, err;

    fd = sys_fsopen(type, FSOPEN_CLOEXEC);

    if (fd == -1) {
        return -1;
    }

    mount = -1;

    for ( /* void */ ; options[0]; options += 2) {
        if (sys_fsconfig(fd, FSCONFIG_SET_STRING, options[0], options[1], 0)
            != 0)
        {
            goto done;
        }
    }

    if (sys_fsconfig(fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0) {
        mount = sys_fsmount(fd, FSMOUNT_CLOEXEC, (unsigned) attr);
    }

done:

    err = errno;
    (void) close(fd);
    errno = err;

    return mount;
}


/*
 * A tmpfs without a size takes half of the machine's memory, and its size
 * does not count what has no pages: empty files, short links.  So it has a
 * limit of inodes as well.
 */

static int
mounts_tmpfs(uint64_t bytes, unsigned mode, uint64_t attr)
{
    char         size[24], inodes[24], octal[8];
    uint64_t     n;
    const char  *options[] = {
        "size", size, "nr_inodes", inodes, "mode", octal, NULL
    };

    n = bytes / MOUNTS_INODE_BYTES;

    (void) snprintf(size, sizeof(size), "%" PRIu64, bytes);
    (void) snprintf(inodes, sizeof(inodes), "%" PRIu64,
                    n < MOUNTS_INODES_MIN ? MOUNTS_INODES_MIN : n);
    (void) snprintf(octal, sizeof(octal), "%o", mode);

    return mounts_fs("tmpfs", options, attr);
}


/*
 * What is above comes first, or it would hide what is below: a readable
 * directory may hold a writable one, and the other way round.
 *
 * Unless the policy gives /tmp a size of its own, it shares the working
 * directory's: a temporary file then has all the room the policy gives.
 */

static unsigned
mounts_policy(const box_spec_t *spec, mount_path_t paths[MOUNTS_PATHS_MAX])
{
    bool          has_tmp;
    unsigned      i, k, n;
    uint64_t      work, out;
    mount_path_t  path;

    work = MOUNTS_WORK_BYTES;
    out = spec->nwritable ? spec->writable[0].bytes : MOUNTS_WORK_BYTES;
    has_tmp = false;

    for (i = 0; i < spec->nwritable; i++) {

        has_tmp |= (strcmp(spec->writable[i].path, "/tmp") == 0);

        if (strcmp(spec->writable[i].path, BOX_WORK) == 0) {
            work = spec->writable[i].bytes;
        }
    }

    n = 0;

    paths[n++] = has_tmp
                 ? (mount_path_t) { BOX_WORK, NULL, work, BOX_DISK_WORK }
                 : (mount_path_t) { "/tmp", BOX_WORK, work, BOX_DISK_WORK };

    paths[n++] = (mount_path_t) { "/run/task/out", NULL, out, BOX_DISK_OUT };

    for (i = 0; i < spec->nwritable; i++) {
        if (strcmp(spec->writable[i].path, BOX_WORK) != 0) {
            paths[n] = (mount_path_t) { spec->writable[i].path, NULL,
                                        spec->writable[i].bytes, n };
            n++;
        }
    }

    for (i = 0; i < spec->nreadable; i++) {
        paths[n++] = (mount_path_t) { spec->readable[i], NULL, 0, 0 };
    }

    for (i = 1; i < n; i++) {
        path = paths[i];

        for (k = i; k > 0 && strlen(paths[k - 1].path) > strlen(path.path);
             k--)
        {
            paths[k] = paths[k - 1];
        }

        paths[k] = path;
    }

    return n;
}


static int
mounts_path(setup_t *s, const mount_path_t *p)
{
    int          tree, disk;
    bool         is_tmp;
    const char  *where;

    where = p->path + 1;

    if (mounts_parents(s, where) != 0) {
        return -1;
    }

    if (p->bytes == 0) {
        return mounts_host(s, where, false);
    }

    is_tmp = (strcmp(where, "tmp") == 0);
    tree = mounts_tmpfs(p->bytes, is_tmp ? 01777 : 0755, NOSUID|NODEV);

    if (tree == -1
        || (mkdirat(s->root, where, 0755) != 0 && errno != EEXIST))
    {
        return -1;
    }

    disk = fcntl(tree, F_DUPFD_CLOEXEC, 3);

    if (disk == -1 || mounts_attach(s, tree, where) != 0
        || (p->make && mkdirat(s->root, p->make + 1, 0755) != 0))
    {
        return -1;
    }

    s->disks[p->disk] = disk;
    s->ndisks++;

    return 0;
}


static int
mounts_attach(setup_t *s, int tree, const char *path)
{
    if (tree == -1
        || sys_move_mount(tree, "", s->root, path, MOVE_MOUNT_F_EMPTY_PATH)
           != 0)
    {
        return -1;
    }

    return close(tree);
}


static int
mounts_attr(int fd, uint64_t attr, unsigned flags)
{
    struct mount_attr  ma;

    ma = (struct mount_attr) { .attr_set = attr };

    return sys_mount_setattr(fd, "", AT_EMPTY_PATH|flags, &ma);
}


/* The directories above path that are not there. */

static int
mounts_parents(setup_t *s, const char *path)
{
    char   dir[512], *p;

    if (strlen(path) >= sizeof(dir)) {
        errno = ENAMETOOLONG;
        return -1;
    }

    (void) strcpy(dir, path);

    for (p = strchr(dir, '/'); p; p = strchr(p + 1, '/')) {
        *p = '\0';

        if (mkdirat(s->root, dir, 0755) != 0 && errno != EEXIST) {
            return -1;
        }

        *p = '/';
    }

    return 0;
}


static int
mounts_copy(setup_t *s, const task_file_t *file)
{
    int       fd;
    off_t     offset;
    ssize_t   n;
    uint64_t  left;

    fd = openat(s->root, file->path, O_WRONLY|O_CREAT|O_EXCL|O_CLOEXEC, 0444);

    if (fd == -1) {
        return -1;
    }

    offset = 0;

    for (left = file->size; left > 0; left -= (uint64_t) n) {
        n = sendfile(fd, file->fd, &offset, left);

        if (n <= 0) {

            if (n == -1 && errno == EINTR) {
                n = 0;
                continue;
            }

            return -1;
        }
    }

    return close(fd);
}
