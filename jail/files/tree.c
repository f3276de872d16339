/*
 * The list is in the order of the paths' components, whatever the order of
 * the walk, so that two lists can be compared entry by entry.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/copy.h"
#include "files/tree.h"


static int tree_visit(walk_t *walk, walk_entry_t *e);
static int tree_link(tree_t *t, tree_entry_t *e, int fd);
static tree_entry_t *tree_add(tree_t *t, const walk_entry_t *e,
    const char *path);
static int tree_order(const void *one, const void *two);


int
tree_read(tree_t *t, int dir, uint64_t max, int content)
{
    walk_t  walk;

    *t = (tree_t) { .max = max, .content = content };

    walk = (walk_t) {
        .visit = tree_visit, .data = t, .depth_max = TREE_DEPTH_MAX,
        .is_left_by_task = (content == -1)
    };

    if (walk_below(&walk, dir) != 0) {
        (void) strcpy(t->path, walk.path);
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
tree_visit(walk_t *walk, walk_entry_t *e)
{
    tree_t        *t;
    tree_entry_t  *entry;

    if (e->name == NULL) {
        errno = ENAMETOOLONG;
        return -1;
    }

    t = walk->data;
    entry = tree_add(t, e, walk->path);

    if (entry == NULL) {
        return -1;
    }

    if (entry->type == S_IFREG && entry->size > t->max - t->bytes) {
        entry->refused = "too_large";
    }

    if (entry->refused) {
        return 0;
    }

    switch (entry->type) {

    case S_IFREG:
        entry->offset = (off_t) t->bytes;

        if (copy_file(e->fd, t->content, t->max - t->bytes, &entry->size,
                      entry->hash)
            != COPY_OK)
        {
            return -1;
        }

        t->bytes += entry->size;
        return 0;

    case S_IFLNK:
        return tree_link(t, entry, e->fd);

    case S_IFDIR:
        return 0;

    default:
        entry->refused = "special";
        return 0;
    }
}


static int
tree_link(tree_t *t, tree_entry_t *e, int fd)
{
    ssize_t  n;
    char     target[TREE_PATH_MAX + 1];

    n = readlinkat(fd, "", target, sizeof(target));

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
tree_add(tree_t *t, const walk_entry_t *e, const char *path)
{
    size_t         cap;
    tree_entry_t  *more, *entry;

    t->text += strlen(path);

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

    entry = &t->entries[t->n];
    *entry = (tree_entry_t) {
        .path = strdup(path), .type = e->st.st_mode & S_IFMT,
        .mode = e->st.st_mode & 07777, .ino = e->st.st_ino,
        .mtime = e->st.st_mtim, .size = (uint64_t) e->st.st_size,
        .refused = e->refused
    };

    if (entry->path == NULL) {
        return NULL;
    }

    t->n++;

    return entry;
}


static int
tree_order(const void *one, const void *two)
{
    return tree_compare(((const tree_entry_t *) one)->path,
                        ((const tree_entry_t *) two)->path);
}
