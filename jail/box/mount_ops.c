/*
 * The primitives of the box's file system.  No mount is visible for a moment
 * without its flags: what is bound from the host comes from mounts that were
 * restricted before (mounts_private), a copy of a mount has its flags, and
 * what is new is made with them.  A bind and a remount would not give that,
 * nor read-only for every mount below.
 *
 * The old calls are no second way: a kernel that lacks one of the new ones
 * (mount_setattr came last, with 5.12) has no Landlock either (5.13), and then
 * there is no box; a container's filter that hides them is named instead.
 * mount(2) is used where one call of it does what takes seven of theirs.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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
#define MOUNT_SMALL        4096         /* a mount is cheaper than two pages */


static int mount_small(setup_t *s, const char *host, const char *path,
    off_t size);
static int mount_file(setup_t *s, const char *path);
static int mount_there(setup_t *s, const char *path, mode_t type);


int
mount_text(setup_t *s, const char *path, const char *text)
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

int
mount_host(setup_t *s, const char *path, bool optional)
{
    char         host[512], target[512];
    ssize_t      n;
    struct stat  st;

    if (strlen(path) > sizeof(host) - 2) {
        errno = ENAMETOOLONG;
        return -1;
    }

    host[0] = '/';
    (void) strcpy(host + 1, path);

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

    if (S_ISLNK(st.st_mode) && stat(host, &st) != 0) {
        return optional && errno == ENOENT ? 0 : -1;
    }

    if (S_ISREG(st.st_mode)) {

        if (optional && st.st_size <= MOUNT_SMALL) {
            return mount_small(s, host, path, st.st_size);
        }

        return mount_file(s, path) == 0 ? mount_bind(host, path) : -1;
    }

    if (S_ISDIR(st.st_mode)) {
        return mount_point(s, path) == 0 ? mount_bind(host, path) : -1;
    }

    errno = EINVAL;

    return report_detail(s, "/%s is neither a file nor a directory", path);
}



/*
 * A short file is copied, which is cheaper than a mount and its end; one that
 * cannot be read is left out.
 */

static int
mount_small(setup_t *s, const char *host, const char *path, off_t size)
{
    int      in, out;
    ssize_t  n;

    in = open(host, O_RDONLY|O_NONBLOCK|O_NOCTTY|O_CLOEXEC);

    if (in == -1) {
        return errno == ENOENT || errno == EACCES ? 0 : -1;
    }

    out = openat(s->root, path, O_WRONLY|O_CREAT|O_EXCL|O_CLOEXEC, 0444);

    if (out == -1) {
        return -1;
    }

    while (size > 0) {
        n = sendfile(out, in, NULL, (size_t) size);

        if (n == -1 && errno != EINTR) {
            return -1;
        }

        if (n == 0) {
            break;
        }

        size -= n > 0 ? n : 0;
    }

    (void) close(in);

    return close(out);
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

    if (tree == -1) {
        return -1;
    }

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



int
mount_copy(setup_t *s, const task_file_t *file)
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
