/*
 * No directory is trusted: a caller's own workspace may be changed while it is
 * read, and files that a task left may be made to mislead.  So an entry is
 * opened with O_PATH first and judged by that: no FIFO and no device is ever
 * opened for reading.
 */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "files/beneath.h"
#include "files/directory.h"
#include "files/walk.h"


static int walk_directory(walk_t *w, int dir, size_t len, unsigned depth);
static int walk_entry(walk_t *w, int dir, const char *name, size_t len,
    unsigned depth);
static int walk_open(const walk_t *w, int dir, const char *name, int entry,
    int flags);


int
walk_below(walk_t *w, int dir)
{
    w->path[0] = '\0';

    return walk_directory(w, dir, 0, 0);
}


static int
walk_directory(walk_t *w, int dir, size_t len, unsigned depth)
{
    int             rc, i, n;
    size_t          m;
    const char     *name;
    walk_entry_t    unnamed;
    struct dirent **entries;

    n = directory_read(dir, &entries);

    if (n == -1) {
        return -1;
    }

    rc = 0;

    for (i = 0; i < n; i++) {
        name = entries[i]->d_name;
        m = strlen(name);

        if (len + 1 + m > WALK_PATH_MAX) {
            unnamed = (walk_entry_t) { .fd = -1, .refused = "too_deep" };
            rc = w->visit(w, &unnamed);

        } else {

            if (len > 0) {
                /* cppcheck-suppress arrayIndexOutOfBoundsCond; see above */
                w->path[len] = '/';
            }

            (void) memcpy(w->path + len + (len > 0), name, m + 1);

            rc = walk_entry(w, dir, name, len + (len > 0) + m, depth);
        }

        if (rc != 0) {
            break;
        }

        w->path[len] = '\0';
    }

    directory_free(entries, n);

    return rc;
}


static int
walk_entry(walk_t *w, int dir, const char *name, size_t len, unsigned depth)
{
    int           rc, entry;
    struct stat   st;
    walk_entry_t  e;

    e = (walk_entry_t) { .name = name, .fd = -1 };
    entry = beneath_open(dir, name, O_PATH);

    if (entry == -1 || fstat(entry, &e.st) != 0) {

        /* O_PATH opens links, too: this entry went away or is hidden */

        e.refused = errno == EXDEV ? "mount" : "unreadable";

    } else if (S_ISREG(e.st.st_mode)) {
        e.fd = walk_open(w, dir, name, entry, O_RDONLY|O_NONBLOCK|O_NOCTTY);

        if (e.fd == -1 || fstat(e.fd, &st) != 0 || !S_ISREG(st.st_mode)) {
            e.refused = "unreadable";
        }

    } else if (S_ISDIR(e.st.st_mode)) {

        if (depth + 1 == w->depth_max) {
            e.refused = "too_deep";

        } else {
            e.fd = walk_open(w, dir, name, entry, O_RDONLY|O_DIRECTORY);
            e.refused = e.fd == -1 ? "unreadable" : NULL;
        }

    } else if (S_ISLNK(e.st.st_mode)) {
        e.fd = entry;
    }

    rc = w->visit(w, &e);

    if (rc == 0 && S_ISDIR(e.st.st_mode) && e.refused == NULL) {
        rc = walk_directory(w, e.fd, len, depth + 1);
    }

    if (e.fd != -1 && e.fd != entry) {
        (void) close(e.fd);
    }

    if (entry != -1) {
        (void) close(entry);
    }

    return rc;
}


/* Modes are overridden only in files of a task, not in the caller's own. */

static int
walk_open(const walk_t *w, int dir, const char *name, int entry, int flags)
{
    return w->is_left_by_task ? beneath_read(dir, name, entry, flags)
                              : beneath_open(dir, name, flags);
}
