/*
 * A directory's content as a list of its entries, with the hash of each file.
 * Two lists of one directory show what has changed between them.
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "files/copy.h"
#include "files/walk.h"


#define TREE_ENTRIES_MAX  200000
#define TREE_DEPTH_MAX    64
#define TREE_PATH_MAX     WALK_PATH_MAX
#define TREE_TEXT_MAX     (32u << 20)   /* bytes of all paths and targets */


typedef struct {
    char            *path;              /* relative to the directory */
    char            *target;            /* of a symbolic link, or NULL */
    mode_t           type;              /* S_IFREG, S_IFDIR, S_IFLNK, 0 */
    mode_t           mode;              /* permissions */
    uint64_t         size;
    struct timespec  mtime;
    ino_t            ino;
    off_t            offset;            /* of a file's bytes in `content` */
    unsigned char    hash[SHA256_DIGEST_LENGTH];
    const char      *refused;           /* why it was not read, or NULL */
} tree_entry_t;


typedef struct {
    tree_entry_t  *entries;             /* in the order of tree_compare() */
    size_t         n;
    size_t         cap;
    uint64_t       bytes;               /* of all files */
    uint64_t       max;                 /* bytes that may be read */
    size_t         text;                /* bytes of paths and targets */
    int            content;             /* gets all bytes, unless it is -1 */
    char           path[TREE_PATH_MAX + 1];     /* where it failed */
} tree_t;


/*
 * Reads what is below a directory, without following links or leaving its
 * mount.  An entry that is neither a file nor a directory nor a link, cannot
 * be read, or is too large or too deep is listed as refused.  -1 with errno,
 * and the place in tree->path.
 */
int tree_read(tree_t *tree, int dir, uint64_t max, int content);

/* NULL: the tree has no entry of that path. */
const tree_entry_t *tree_find(const tree_t *tree, const char *path);

/* Type, content, target, and whether the owner may execute it. */
bool tree_same(const tree_entry_t *one, const tree_entry_t *other);

/* By components: a directory comes before what is in it. */
int tree_compare(const char *one, const char *other);

void tree_free(tree_t *tree);
