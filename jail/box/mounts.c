/*
 * The box's file system.  What a task sees is the table of mount_table.h, and
 * then what its policy adds: writable and readable paths, and the task's own
 * files.  It is built on a private tmpfs; nothing is created on a file system
 * of the host.
 *
 * Every mount is nosuid and nodev; the device nodes' own are not nodev.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "box/mount_ops.h"
#include "box/report.h"


#define MOUNTS_ROOT_INODES  "2048"


static int mounts_run(setup_t *s, int dir, const mount_list_t *list,
    const char *where);
static int mounts_do(setup_t *s, int dir, const mount_op_t *op);
static int mounts_java(setup_t *s, int dir, const mount_op_t *op);
static int mounts_proc(setup_t *s, const mount_op_t *op);
static int mounts_overlay(setup_t *s, const mount_op_t *op);
static int mounts_sysctl(setup_t *s, const mount_op_t *op);
static int mounts_hide(setup_t *s, const mount_op_t *op);
static int mounts_disk(setup_t *s, const mount_op_t *op);


/*
 * No mount made on the host from now on shall appear in the box.  The kernel
 * made ours the slaves of the host's; a slave still receives.  And whatever
 * is bound from them is what they are: read-only, without set-user-ids and
 * devices.
 */

int
mounts_private(setup_t *s)
{
    struct mount_attr  attr;

    attr = (struct mount_attr) {
        .attr_set = RDONLY|NOSUID|NODEV, .propagation = MS_PRIVATE
    };

    if (sys_mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &attr) != 0) {
        return report_detail(s, "the host's mounts cannot be restricted");
    }

    return 0;
}


/* The root is attached first: a detached tree takes no mounts before 6.15. */

int
mounts_root(setup_t *s)
{
    char  size[24];

    const char *const  options[] = {
        "size", size, "nr_inodes", MOUNTS_ROOT_INODES, "mode", "0755", NULL
    };

    (void) snprintf(size, sizeof(size), "%llu",
                    (unsigned long long) s->spec->root_bytes);

    s->root = mount_fs("tmpfs", options, NOSUID|NODEV);

    if (s->root == -1
        || sys_move_mount(s->root, "", AT_FDCWD, "/",
                          MOVE_MOUNT_F_EMPTY_PATH) != 0
        || fchdir(s->root) != 0)
    {
        return report_detail(s, "a tmpfs for the root cannot be mounted");
    }

    return 0;
}


int
mounts_build(setup_t *s)
{
    if (mounts_run(s, s->root, &s->spec->system, "/") != 0) {
        return -1;
    }

    if (unlinkat(s->root, MOUNT_MASK, 0) != 0) {
        return report_detail(s, MOUNT_MASK);
    }

    s->work = openat(s->root, BOX_WORK + 1,
                     O_PATH|O_DIRECTORY|O_NOFOLLOW|O_CLOEXEC);

    return s->work == -1 ? report_detail(s, BOX_WORK) : 0;
}


int
mounts_workspace(setup_t *s)
{
    if (s->spec->workspace == NULL) {
        return 0;
    }

    if (mounts_run(s, s->work, &s->spec->unpack, BOX_WORK "/") != 0) {
        return -1;
    }

    return close(s->spec->workspace->content);
}


int
mounts_files(setup_t *s)
{
    unsigned  i;

    if (mounts_run(s, s->root, &s->spec->given, "/") != 0) {
        return -1;
    }

    for (i = 0; i < s->spec->nfiles; i++) {
        (void) close(s->spec->files[i].fd);
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
    if (sys_pivot_root(".", ".") != 0
        || sys_umount2(".", MNT_DETACH) != 0
        || chdir("/") != 0)
    {
        return report_detail(s, "the old root cannot be left");
    }

    if (mount_attr(s->root, RDONLY, 0) != 0) {
        return report_detail(s, "the root cannot be made read-only");
    }

    if (fchdir(s->work) != 0) {
        return report_detail(s, BOX_WORK);
    }

    (void) close(s->root);
    (void) close(s->work);

    return 0;
}


static int
mounts_run(setup_t *s, int dir, const mount_list_t *list, const char *where)
{
    size_t  i;

    for (i = 0; i < list->n; i++) {
        if (mounts_do(s, dir, &list->ops[i]) != 0) {
            return report_detail(s, "%s%.120s of the box cannot be made",
                                 where, list->ops[i].path);
        }
    }

    return 0;
}


static int
mounts_do(setup_t *s, int dir, const mount_op_t *op)
{
    switch (op->kind) {

    case M_DIR:
        return mkdirat(dir, op->path, op->mode);

    case M_LINK:
        return symlinkat(op->arg, dir, op->path);

    case M_FILE:
        return op->is_awaited ? mounts_java(s, dir, op) : mount_copy(dir, op);

    case M_PARENTS:
        return mount_parents(s, op->path);

    case M_BIND:
        return mount_host(s, op->path, op->mode);

    case M_OVERLAY:
        return mounts_overlay(s, op);

    case M_DISK:
        return mounts_disk(s, op);

    case M_DEVICE:
        return mount_device(s, op->path, op->number);

    case M_PROC:
        return mounts_proc(s, op);

    case M_PTS:
        return sys_mount("devpts", op->path, "devpts", MS_NOSUID|MS_NOEXEC,
                         op->arg);

    case M_SYSCTL:
        return mounts_sysctl(s, op);

    case M_RDONLY:
        return mount_over(s, op->path, op->path);

    case M_HIDE:
        return mounts_hide(s, op);

    case M_COVER:
        return mount_cover(s, op->arg, op->path);

    default:
        errno = EINVAL;
        return -1;
    }
}


static int
mounts_java(setup_t *s, int dir, const mount_op_t *op)
{
    if (report_wait(s, SYNC_JAVA) != 0) {
        return report_detail(s, "the launcher did not make the trust store");
    }

    if (mount_copy(dir, op) != 0) {
        return -1;
    }

    return op->fd == -1 ? 0 : close(op->fd);
}


static int
mounts_proc(setup_t *s, const mount_op_t *op)
{
    int  rc;

    rc = sys_mount("proc", op->path, "proc", MS_NOSUID|MS_NODEV|MS_NOEXEC,
                   op->arg);
    s->cause = rc == 0 ? CAUSE_NONE : CAUSE_PROC_MOUNT;

    return rc;
}


static int
mounts_overlay(setup_t *s, const mount_op_t *op)
{
    int  tree;

    const char *const  layers[] = { "lowerdir", op->arg, NULL };

    tree = mount_fs("overlay", layers, RDONLY|NOSUID|NODEV|NOEXEC);

    return tree == -1 ? mount_host(s, op->path, S_IFDIR)
                      : mount_attach(s, tree, op->path);
}


static int
mounts_sysctl(setup_t *s, const mount_op_t *op)
{
    int      fd;
    ssize_t  n;

    fd = openat(s->root, op->path, O_WRONLY|O_CLOEXEC|O_NOFOLLOW);

    if (fd == -1) {
        return errno == ENOENT ? 0 : -1;
    }

    n = write(fd, op->arg, op->len);

    return n == (ssize_t) op->len ? close(fd) : -1;
}


/*
 * What is not there needs no cover.  The covers are ours: an empty file that
 * has lost its name by the time the task runs, and an empty directory.  The
 * first mount of each gets its flags, and is then copied.
 */

static int
mounts_hide(setup_t *s, const mount_op_t *op)
{
    int                 rc;
    const mount_op_t  **first;

    first = &s->cover[strcmp(op->arg, MOUNT_EMPTY) == 0];

    rc = *first ? mount_bind((*first)->path, op->path)
                : mount_over(s, op->arg, op->path);

    if (rc != 0) {
        return errno == ENOENT ? 0 : -1;
    }

    if (*first == NULL) {
        *first = op;
    }

    return 0;
}


/*
 * A tmpfs that the task can write to, and the launcher can look at.  0, 1 and
 * 2 may be free here, and are the task's streams before the launcher gets it.
 */

static int
mounts_disk(setup_t *s, const mount_op_t *op)
{
    int  fd;

    if (mount_point(s, op->path) != 0
        || mount_tmpfs(op->path, op->size, op->mode, op->flags) != 0)
    {
        return -1;
    }

    fd = openat(s->root, op->path, O_PATH|O_DIRECTORY|O_NOFOLLOW|O_CLOEXEC);

    if (fd == -1) {
        return -1;
    }

    s->disks[op->number] = fd;

    if (fd <= STDERR_FILENO) {
        s->disks[op->number] = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        (void) close(fd);

        if (s->disks[op->number] == -1) {
            return -1;
        }
    }

    s->ndisks++;

    return 0;
}
