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
#include "box/mount_table.h"
#include "box/report.h"


#define MOUNTS_ROOT_BYTES   (8ull << 20)
#define MOUNTS_ROOT_INODES  "2048"


/* What the policy adds. */

typedef struct {
    const char   *path;         /* where it is mounted */
    const char   *make;         /* a directory in it to be made, or NULL */
    uint64_t      bytes;        /* 0: the host's, read-only */
    unsigned      disk;         /* its place among the writable ones */
} mount_path_t;


#define MOUNTS_PATHS_MAX  (BOX_WRITABLE_MAX + BOX_READABLE_MAX + 2)


static int mounts_do(setup_t *s, const mount_op_t *op);
static int mounts_sysctl(setup_t *s, const mount_op_t *op);
static int mounts_git(setup_t *s, const char *path);
static int mounts_hide(setup_t *s, const mount_op_t *op);
static int mounts_disk(setup_t *s, unsigned disk, const char *path,
    uint64_t bytes, unsigned mode, unsigned long flags);
static unsigned mounts_policy(const box_spec_t *spec,
    mount_path_t paths[MOUNTS_PATHS_MAX]);
static int mounts_path(setup_t *s, const mount_path_t *p);


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
    char      size[24];
    unsigned  i;
    uint64_t  bytes;

    const char *const  options[] = {
        "size", size, "nr_inodes", MOUNTS_ROOT_INODES, "mode", "0755", NULL
    };

    bytes = MOUNTS_ROOT_BYTES;

    for (i = 0; i < s->spec->nfiles; i++) {
        bytes += (s->spec->files[i].size + 4095) & ~4095ull;
    }

    (void) snprintf(size, sizeof(size), "%llu", (unsigned long long) bytes);

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
    size_t        i, n;
    mount_path_t  paths[MOUNTS_PATHS_MAX];

    if (mount_text(s, MOUNT_MASK, "") != 0) {
        return -1;
    }

    for (i = 0; i < sizeof(mount_plan) / sizeof(mount_plan[0]); i++) {
        if (mounts_do(s, &mount_plan[i]) != 0) {
            return s->detail[0] ? -1
                   : report_detail(s, "/%s of the box cannot be made",
                                   mount_plan[i].path);
        }
    }

    if (unlinkat(s->root, MOUNT_MASK, 0) != 0) {
        return report_detail(s, MOUNT_MASK);
    }

    n = mounts_policy(s->spec, paths);

    for (i = 0; i < n; i++) {
        if (mounts_path(s, &paths[i]) != 0) {
            return s->detail[0] ? -1 : report_detail(s, "%s", paths[i].path);
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
        return report_detail(s, BOX_WORK);
    }

    if (mount_text(s, BOX_LIMITS + 1, s->spec->limits) != 0) {
        return report_detail(s, BOX_LIMITS);
    }

    for (i = 0; i < s->spec->nfiles; i++) {
        file = &s->spec->files[i];

        if (mount_copy(s, file) != 0) {
            return report_detail(s, "/%s cannot be written", file->path);
        }

        (void) close(file->fd);

        if (file->link[0] == '\0') {
            continue;
        }

        (void) snprintf(target, sizeof(target), "/%s", file->path);

        if (symlinkat(target, s->work, file->link) != 0) {
            return report_detail(s, BOX_WORK "/%s", file->link);
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
mounts_do(setup_t *s, const mount_op_t *op)
{
    int  rc;

    switch (op->kind) {

    case M_DIR:
        return mkdirat(s->root, op->path, op->mode);

    case M_LINK:
        return symlinkat(op->arg, s->root, op->path);

    case M_TEXT:
        return mount_text(s, op->path, op->arg);

    case M_ONLINE:
        return s->spec->ndoors ? mount_text(s, op->path, op->arg) : 0;

    case M_OFFLINE:
        return s->spec->ndoors ? 0 : mount_text(s, op->path, op->arg);

    case M_SYSTEM:
        return mount_host(s, op->path, true);

    case M_DEVICE:
        return mount_device(s, op->path, op->dev);

    case M_SHM:
        return mounts_disk(s, BOX_DISK_SHM, op->path, s->spec->memory / 2,
                           01777, MS_NOSUID|MS_NODEV|MS_NOEXEC);

    case M_PROC:
        rc = sys_mount("proc", op->path, "proc",
                       MS_NOSUID|MS_NODEV|MS_NOEXEC, op->arg);
        s->cause = rc == 0 ? CAUSE_NONE : CAUSE_PROC_MOUNT;
        return rc;

    case M_PTS:
        return sys_mount("devpts", op->path, "devpts", MS_NOSUID|MS_NOEXEC,
                         op->arg);

    case M_SYSCTL:
        return mounts_sysctl(s, op);

    case M_GIT:
        return mounts_git(s, op->path);

    case M_RDONLY:
        return mount_over(s, op->path, op->path);

    case M_HIDE:
        return mounts_hide(s, op);

    case M_TRUST:
        return trust_files(s);

    case M_TRUST_NAMES:
        return trust_names(s);
    }

    errno = EINVAL;

    return -1;
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

    n = write(fd, op->arg, strlen(op->arg));

    return n == (ssize_t) strlen(op->arg) ? close(fd) : -1;
}


/*
 * git works in no repository of another user's, lest that user's hooks are
 * run.  In a box all that is readable is the policy's choice, and what it
 * shares is often another's.  A file and not variables: git keeps those from
 * the programs it starts for a clone, which look for the .git itself.
 */

static int
mounts_git(setup_t *s, const char *path)
{
    char         *text;
    FILE         *f;
    int           rc;
    size_t        len;
    unsigned      i;
    const char   *p;

    f = open_memstream(&text, &len);

    if (f == NULL) {
        return -1;
    }

    (void) fputs("[safe]\n\tdirectory = " BOX_WORK "\n", f);

    for (i = 0; i < s->spec->nreadable * 2; i++) {
        (void) fputs("\tdirectory = \"", f);

        for (p = s->spec->readable[i / 2]; *p; p++) {
            (void) fprintf(f, *p == '"' || *p == '\\' ? "\\%c" : "%c", *p);
        }

        (void) fputs(i % 2 ? "/.git\"\n" : "\"\n", f);
    }

    if (fclose(f) != 0) {
        return -1;
    }

    rc = mount_text(s, path, text);
    free(text);

    return rc;
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
mounts_disk(setup_t *s, unsigned disk, const char *path, uint64_t bytes,
    unsigned mode, unsigned long flags)
{
    int  fd;

    if (mount_tmpfs(path, bytes, mode, flags) != 0) {
        return -1;
    }

    fd = openat(s->root, path, O_PATH|O_DIRECTORY|O_NOFOLLOW|O_CLOEXEC);

    if (fd == -1) {
        return -1;
    }

    s->disks[disk] = fd;

    if (fd <= STDERR_FILENO) {
        s->disks[disk] = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        (void) close(fd);

        if (s->disks[disk] == -1) {
            return -1;
        }
    }

    s->ndisks++;

    return 0;
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
    unsigned      i, k, n;
    uint64_t      work, out;
    mount_path_t  path;

    work = BOX_WORK_BYTES;
    out = spec->nwritable ? spec->writable[0].bytes : BOX_WORK_BYTES;

    for (i = 0; i < spec->nwritable; i++) {
        if (strcmp(spec->writable[i].path, BOX_WORK) == 0) {
            work = spec->writable[i].bytes;
        }
    }

    n = 0;

    paths[n++] = box_has_tmp(spec)
                 ? (mount_path_t) { BOX_WORK, NULL, work, BOX_DISK_WORK }
                 : (mount_path_t) { "/tmp", BOX_WORK, work, BOX_DISK_WORK };

    paths[n++] = (mount_path_t) { "/run/task/out", NULL, out, BOX_DISK_OUT };

    for (i = 0; i < spec->nwritable; i++) {
        if (strcmp(spec->writable[i].path, BOX_WORK) != 0) {
            paths[n] = (mount_path_t) { spec->writable[i].path, NULL,
                                        spec->writable[i].bytes, n + 1 };
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
    const char  *where;

    where = p->path + 1;

    if (mount_parents(s, where) != 0) {
        return -1;
    }

    if (p->bytes == 0) {
        return mount_host(s, where, false);
    }

    if (mount_point(s, where) != 0
        || mounts_disk(s, p->disk, where, p->bytes,
                       strcmp(where, "tmp") == 0 ? 01777 : 0755,
                       MS_NOSUID|MS_NODEV)
           != 0)
    {
        return -1;
    }

    return p->make ? mkdirat(s->root, p->make + 1, 0755) : 0;
}


