/*
 * Reading a directory.  Whose it is does not matter here: a caller's own
 * workspace may be changed while it is read, and what a task left may be
 * made to mislead; so an entry is opened as a name first and judged by that.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/beneath.h"
#include "files/directory.h"
#include "files/tree.h"


static int tree_directory(tree_t *t, int dir, size_t len, unsigned depth);
static int tree_entry(tree_t *t, int dir, const char *name, size_t len,
    unsigned depth);
static int tree_open(const tree_t *t, int dir, const char *name, int entry,
    int flags);
static int tree_file(tree_t *t, tree_entry_t *e, int fd);
static int tree_link(tree_t *t, tree_entry_t *e, int entry);
static tree_entry_t *tree_add(tree_t *t);
static int tree_order(const void *one, const void *two);


int
tree_read(tree_t *t, int dir, uint64_t max, int content)
{
    *t = (tree_t) { .max = max, .content = content };

    if (tree_directory(t, dir, 0, 0) != 0) {
        return -1;
    }

    if (t->n > 0) {
        qsort(t->entries, t->n, sizeof(tree_entry_t), tree_order);
    }

    return 0;
}


const tree_entry_t *
tree_find(const tree_t *t, const char *path)
{
    tree_entry_t  key;

    key = (tree_entry_t) { .path = (char *) path };

    return t->n == 0 ? NULL : bsearch(&key, t->entries, t->n,
                                      sizeof(tree_entry_t), tree_order);
}


bool
tree_same(const tree_entry_t *one, const tree_entry_t *other)
{
    if (one->type != other->type) {
        return false;
    }

    switch (one->type) {

    case S_IFREG:
        return one->size == other->size
               && (one->mode & S_IXUSR) == (other->mode & S_IXUSR)
               && memcmp(one->hash, other->hash, sizeof(one->hash)) == 0;

    case S_IFLNK:
        return strcmp(one->target, other->target) == 0;

    default:
        return true;
    }
}


int
tree_compare(const char *one, const char *other)
{
    int  a, b;

    for ( /* void */ ; *one && *one == *other; one++, other++) { /* void */ }

    a = *one == '/' ? 1 : *one == '\0' ? 0 : (unsigned char) *one + 1;
    b = *other == '/' ? 1 : *other == '\0' ? 0 : (unsigned char) *other + 1;

    return a - b;
}


void
tree_free(tree_t *t)
{
    while (t->n > 0) {
        t->n--;
        free(t->entries[t->n].path);
        free(t->entries[t->n].target);
    }

    free(t->entries);
    *t = (tree_t) { .content = -1 };
}


static int
tree_directory(tree_t *t, int dir, size_t len, unsigned depth)
{
    int      rc;
    char   **names;
    size_t   i, n, m;

    names = names_read(dir, &n);

    if (names == NULL) {
        return -1;
    }

    rc = 0;

    for (i = 0; i < n && rc == 0; i++) {
        m = strlen(names[i]);

        if (len + 1 + m > TREE_PATH_MAX) {
            errno = ENAMETOOLONG;
            rc = -1;
            break;
        }

        if (len > 0) {
            t->path[len] = '/';
        }

        (void) memcpy(t->path + len + (len > 0), names[i], m + 1);

        rc = tree_entry(t, dir, names[i], len + (len > 0) + m, depth);

        if (rc == 0) {
            t->path[len] = '\0';
        }
    }

    names_free(names, n);

    return rc;
}


static int
tree_entry(tree_t *t, int dir, const char *name, size_t len, unsigned depth)
{
    int            rc, entry, fd;
    struct stat    st;
    tree_entry_t  *e;

    e = tree_add(t);

    if (e == NULL) {
        return -1;
    }

    entry = beneath_open(dir, name, O_PATH);

    if (entry == -1 && errno == EXDEV) {
        e->refused = "mount";
        return 0;
    }

    if (entry == -1 || fstat(entry, &st) != 0) {

        if (entry != -1) {
            (void) close(entry);
        }

        /* links are opened by O_PATH too: this one went away or is hidden */

        e->refused = "unreadable";
        return 0;
    }

    rc = 0;
    fd = -1;
    e->type = st.st_mode & S_IFMT;
    e->mode = st.st_mode & 07777;
    e->ino = st.st_ino;
    e->mtime = st.st_mtim;
    e->size = (uint64_t) st.st_size;

    switch (e->type) {

    case S_IFREG:

        if (e->size > t->max - t->bytes) {
            e->refused = "too_large";
            break;
        }

        fd = tree_open(t, dir, name, entry, O_RDONLY|O_NONBLOCK|O_NOCTTY);

        if (fd == -1 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
            e->refused = "unreadable";

        } else {
            rc = tree_file(t, e, fd);
        }

        break;

    case S_IFDIR:

        if (depth + 1 == TREE_DEPTH_MAX) {
            e->refused = "too_deep";
            break;
        }

        fd = tree_open(t, dir, name, entry, O_RDONLY|O_DIRECTORY);

        if (fd == -1) {
            e->refused = "unreadable";

        } else {
            rc = tree_directory(t, fd, len, depth + 1);
        }

        break;

    case S_IFLNK:
        rc = tree_link(t, e, entry);
        break;

    default:
        e->refused = "special";
        break;
    }

    if (fd != -1) {
        (void) close(fd);
    }

    (void) close(entry);

    return rc;
}


/* Modes are overridden only in what a task left: the caller's are its own. */

static int
tree_open(const tree_t *t, int dir, const char *name, int entry, int flags)
{
    return t->content == -1 ? beneath_read(dir, name, entry, flags)
                            : beneath_open(dir, name, flags);
}


static int
tree_file(tree_t *t, tree_entry_t *e, int fd)
{
    ssize_t     n, done, rc;
    SHA256_CTX  sha;

    static char  buf[65536];

    (void) SHA256_Init(&sha);
    e->size = 0;
    e->offset = (off_t) t->bytes;

    for ( ;; ) {
        n = read(fd, buf, sizeof(buf));

        if (n == -1 && errno == EINTR) {
            continue;
        }

        if (n == -1) {
            return -1;
        }

        if (n == 0) {
            break;
        }

        /* it may have grown */

        if ((uint64_t) n > t->max - t->bytes) {
            errno = EFBIG;
            return -1;
        }

        (void) SHA256_Update(&sha, buf, (size_t) n);

        for (done = 0; t->content != -1 && done < n; done += rc) {
            rc = write(t->content, buf + done, (size_t) (n - done));

            if (rc == -1 && errno == EINTR) {
                rc = 0;

            } else if (rc == -1) {
                return -1;
            }
        }

        e->size += (uint64_t) n;
        t->bytes += (uint64_t) n;
    }

    (void) SHA256_Final(e->hash, &sha);

    return 0;
}


static int
tree_link(tree_t *t, tree_entry_t *e, int entry)
{
    ssize_t  n;
    char     target[TREE_PATH_MAX + 1];

    n = readlinkat(entry, "", target, sizeof(target));

    if (n == -1) {
        return -1;
    }

    if (n == (ssize_t) sizeof(target)) {
        e->refused = "too_deep";
        n = 0;
    }

    t->text += (size_t) n;
    e->target = strndup(target, (size_t) n);

    return e->target ? 0 : -1;
}


/* The new entry; it is good until the next one is added. */

static tree_entry_t *
tree_add(tree_t *t)
{
    size_t         cap;
    tree_entry_t  *more, *e;

    t->text += strlen(t->path);

    if (t->n == TREE_ENTRIES_MAX || t->text > TREE_TEXT_MAX) {
        errno = E2BIG;
        return NULL;
    }

    if (t->n == t->cap) {
        cap = t->cap ? 2 * t->cap : 64;
        more = realloc(t->entries, cap * sizeof(tree_entry_t));

        if (more == NULL) {
            return NULL;
        }

        t->entries = more;
        t->cap = cap;
    }

    e = &t->entries[t->n];
    *e = (tree_entry_t) { .path = strdup(t->path) };

    if (e->path == NULL) {
        return NULL;
    }

    t->n++;

    return e;
}


static int
tree_order(const void *one, const void *two)
{
    return tree_compare(((const tree_entry_t *) one)->path,
                        ((const tree_entry_t *) two)->path);
}
