/*
 * The primitives of the box's file system.  No mount is visible for a moment
 * without its flags: what is bound from the host comes from mounts that were
 * restricted before (mounts_private), a copy of a mount has its flags, and
 * what is new is made with them.  A bind and a remount would not give that,
 * nor read-only for every mount below.
 *
 * The old calls are not used instead: a kernel that lacks one of the new ones
 * (mount_setattr came last, with 5.12) has no Landlock either (5.13), and then
 * there is no box; a container's filter that hides them is named instead.
 * mount(2) is used where one call of it does what takes seven of theirs.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "box/mount_ops.h"
#include "box/report.h"


#define MOUNT_INODE_BYTES  4096         /* of a tmpfs, to one inode */
#define MOUNT_INODES_MIN   1024
#define MOUNT_PATH_MAX     512
#define MOUNT_TRIES        10000        /* of following ".." while it races */


static int mount_file(setup_t *s, const char *path);
static int mount_there(setup_t *s, const char *path, mode_t type);


/* For a caller's own directory as for a system's: both are the host's. */

int
mount_host(setup_t *s, const char *path, mode_t type)
{
    char  host[MOUNT_PATH_MAX];

    (void) snprintf(host, sizeof(host), "/%s", path);

    if ((type == S_IFDIR ? mount_point(s, path) : mount_file(s, path)) != 0) {
        return -1;
    }

    return mount_bind(host, path);
}


/* An empty file to mount on: a new one, or one that is there, and no link. */

static int
mount_file(setup_t *s, const char *path)
{
    return mknodat(s->root, path, S_IFREG|0444, 0) == 0
           ? 0 : mount_there(s, path, S_IFREG);
}


int
mount_point(setup_t *s, const char *path)
{
    return mkdirat(s->root, path, 0755) == 0
           ? 0 : mount_there(s, path, S_IFDIR);
}


static int
mount_there(setup_t *s, const char *path, mode_t type)
{
    struct stat  st;

    if (errno != EEXIST
        || fstatat(s->root, path, &st, AT_SYMLINK_NOFOLLOW) != 0)
    {
        return -1;
    }

    if ((st.st_mode & S_IFMT) == type) {
        return 0;
    }

    errno = EEXIST;

    return report_detail(s, "/%s of the box is %s: the policy must name "
                         "another place", path,
                         S_ISLNK(st.st_mode) ? "a link" : "something else");
}


/* Recursive, so that a directory has what is mounted in it. */

int
mount_bind(const char *source, const char *path)
{
    return sys_mount(source, path, NULL, MS_BIND|MS_REC, NULL);
}


/*
 * The node is judged by what has been mounted: a host whose /dev/null is a
 * file gets no box, instead of one with that file in it.
 */

int
mount_device(setup_t *s, const char *path, unsigned dev)
{
    char               host[64];
    struct stat        st;
    struct mount_attr  attr;

    (void) snprintf(host, sizeof(host), "/%s", path);

    attr = (struct mount_attr) { .attr_set = NOEXEC, .attr_clr = NODEV };

    if (mount_file(s, path) != 0
        || mount_bind(host, path) != 0
        || sys_mount_setattr(s->root, path, 0, &attr) != 0
        || fstatat(s->root, path, &st, AT_SYMLINK_NOFOLLOW) != 0)
    {
        return -1;
    }

    if (!S_ISCHR(st.st_mode)
        || st.st_rdev != makedev(dev >> 8, dev & 255))
    {
        errno = ENODEV;
        return report_detail(s, "%s is not the device %u:%u", host,
                             dev >> 8, dev & 255);
    }

    return 0;
}


/* A read-only clone of something in the box, over something in the box. */

int
mount_over(setup_t *s, const char *source, const char *path)
{
    int  tree;

    tree = sys_open_tree(s->root, source, OPEN_TREE_CLONE|OPEN_TREE_CLOEXEC
                                          |AT_SYMLINK_NOFOLLOW);

    if (tree == -1
        || mount_attr(tree, RDONLY|NOSUID|NODEV|NOEXEC, 0) != 0)
    {
        return -1;
    }

    return mount_attach(s, tree, path);
}


/* The name is looked up in the box, whatever its links begin with. */

int
mount_cover(setup_t *s, const char *source, const char *path)
{
    int              fd, tree, tries;
    struct stat      theirs, ours;
    struct open_how  how;

    how = (struct open_how) {
        .flags = O_PATH|O_CLOEXEC,
        .resolve = RESOLVE_IN_ROOT|RESOLVE_NO_MAGICLINKS
    };

    tries = MOUNT_TRIES;

    /* EAGAIN: somebody mounted or renamed something while ".." was followed */

    do {
        fd = (int) syscall(SYS_openat2, s->root, path, &how, sizeof(how));
    } while (fd == -1 && errno == EAGAIN && --tries);

    if (fd == -1) {
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : -1;
    }

    if (fstat(fd, &theirs) != 0 || fstatat(s->root, source, &ours, 0) != 0) {
        return -1;
    }

    if (!S_ISREG(theirs.st_mode)
        || (theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino))
    {
        return close(fd);
    }

    tree = sys_open_tree(s->root, source, OPEN_TREE_CLONE|OPEN_TREE_CLOEXEC);

    if (tree == -1
        || mount_attr(tree, RDONLY|NOSUID|NODEV|NOEXEC, 0) != 0
        || sys_move_mount(tree, "", fd, "", MOVE_MOUNT_F_EMPTY_PATH
                                            |MOVE_MOUNT_T_EMPTY_PATH) != 0)
    {
        return -1;
    }

    (void) close(tree);

    return close(fd);
}


/* A new file system, mounted nowhere yet; options are names and values. */

int
mount_fs(const char *type, const char *const *options, uint64_t attr)
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

int
mount_tmpfs(const char *path, uint64_t bytes, unsigned mode,
    unsigned long flags)
{
    char      options[80];
    uint64_t  n;

    n = bytes / MOUNT_INODE_BYTES;

    (void) snprintf(options, sizeof(options),
                    "size=%" PRIu64 ",nr_inodes=%" PRIu64 ",mode=%o", bytes,
                    n < MOUNT_INODES_MIN ? MOUNT_INODES_MIN : n, mode);

    return sys_mount("tmpfs", path, "tmpfs", flags, options);
}


int
mount_attach(setup_t *s, int tree, const char *path)
{
    int  rc, err;

    rc = sys_move_mount(tree, "", s->root, path, MOVE_MOUNT_F_EMPTY_PATH);
    err = errno;
    (void) close(tree);
    errno = err;

    return rc;
}


int
mount_attr(int fd, uint64_t attr, unsigned flags)
{
    struct mount_attr  ma;

    ma = (struct mount_attr) { .attr_set = attr };

    return sys_mount_setattr(fd, "", AT_EMPTY_PATH|flags, &ma);
}


/* The directories above path that are not there. */

int
mount_parents(setup_t *s, const char *path)
{
    char   dir[512], *p;

    if (strlen(path) >= sizeof(dir)) {
        errno = ENAMETOOLONG;
        return -1;
    }

    (void) strcpy(dir, path);

    for (p = strchr(dir, '/'); p; p = strchr(p + 1, '/')) {
        *p = '\0';

        /* a link would lead out of the box, which has its root yet to come */

        if (mount_point(s, dir) != 0) {
            return -1;
        }

        *p = '/';
    }

    return 0;
}


/*
 * A file of the host's is opened with the box's rights, so that a launcher of
 * root's copies nothing that the box could not read.
 */

int
mount_copy(int dir, const mount_op_t *op)
{
    int                 in, out;
    off_t               offset;
    ssize_t             n;
    uint64_t            left;
    struct timespec     times[2];
    const char *const  *other;

    in = op->host ? open(op->host, O_RDONLY|O_NONBLOCK|O_NOCTTY|O_CLOEXEC)
                  : op->fd;

    for (other = op->others; in == -1 && other && *other; other++) {
        in = open(*other, O_RDONLY|O_NONBLOCK|O_NOCTTY|O_CLOEXEC);
    }

    if (in == -1 && op->host && op->len == 0) {
        return errno == ENOENT || errno == EACCES ? 0 : -1;
    }

    out = openat(dir, op->path, O_WRONLY|O_CREAT|O_EXCL|O_NOFOLLOW|O_CLOEXEC,
                 op->mode);

    if (out == -1) {
        return -1;
    }

    if (op->head_len
        && write(out, op->head, op->head_len) != (ssize_t) op->head_len)
    {
        return -1;
    }

    offset = op->offset;

    for (left = in == -1 ? 0 : op->size; left > 0; left -= (uint64_t) n) {
        n = sendfile(out, in, &offset, left);

        if (n == 0 && op->host) {
            break;
        }

        if (n == -1 && errno == EINTR) {
            n = 0;

        } else if (n <= 0) {
            errno = n == 0 ? EIO : errno;
            return -1;
        }
    }

    if (op->host && in != -1) {
        (void) close(in);
    }

    if (op->len && write(out, op->arg, op->len) != (ssize_t) op->len) {
        return -1;
    }

    times[0] = op->mtime;
    times[1] = op->mtime;

    return op->keeps_time && futimens(out, times) != 0 ? -1 : close(out);
}
