/*
 * In the box, before the task: the workspace's copy becomes the working
 * directory.  The list of what is in it came with the launcher's memory; its
 * bytes are in the sealed file.
 */

#include <errno.h>
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "box/report.h"
#include "files/workspace.h"


static int unpack_entry(int work, int content, const tree_entry_t *e);
static int unpack_file(int work, int content, const tree_entry_t *e);


int
workspace_unpack(setup_t *s)
{
    int            work;
    size_t         i;
    const tree_t  *tree;

    tree = s->spec->workspace;

    if (tree == NULL) {
        return 0;
    }

    work = openat(s->root, BOX_WORK + 1,
                  O_PATH|O_DIRECTORY|O_NOFOLLOW|O_CLOEXEC);

    if (work == -1) {
        return report_detail(s, BOX_WORK);
    }

    for (i = 0; i < tree->n; i++) {
        if (tree->entries[i].refused == NULL
            && unpack_entry(work, tree->content, &tree->entries[i]) != 0)
        {
            return report_detail(s, BOX_WORK "/%.120s", tree->entries[i].path);
        }
    }

    (void) close(tree->content);

    return close(work);
}


static int
unpack_entry(int work, int content, const tree_entry_t *e)
{
    switch (e->type) {

    case S_IFDIR:
        return mkdirat(work, e->path, 0755);

    case S_IFLNK:
        return symlinkat(e->target, work, e->path);

    default:
        return unpack_file(work, content, e);
    }
}


/* The time is kept, or `make` would make everything anew. */

static int
unpack_file(int work, int content, const tree_entry_t *e)
{
    int              fd;
    off_t            offset;
    ssize_t          n;
    uint64_t         left;
    struct timespec  times[2];

    fd = openat(work, e->path, O_WRONLY|O_CREAT|O_EXCL|O_NOFOLLOW|O_CLOEXEC,
                e->mode & S_IXUSR ? 0755 : 0644);

    if (fd == -1) {
        return -1;
    }

    offset = e->offset;

    for (left = e->size; left > 0; left -= (uint64_t) n) {
        n = sendfile(fd, content, &offset, left);

        if (n == -1 && errno == EINTR) {
            n = 0;

        } else if (n <= 0) {
            errno = n == 0 ? EIO : errno;
            return -1;
        }
    }

    times[0] = e->mtime;
    times[1] = e->mtime;

    return futimens(fd, times) != 0 ? -1 : close(fd);
}
