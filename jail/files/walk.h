/*
 * Walking over everything below a directory: a workspace of the caller's, or
 * the files that a task left.
 */

#pragma once

#include <stdbool.h>
#include <sys/stat.h>


#define WALK_PATH_MAX  4095


typedef struct {
    const char   *name;                 /* NULL: its path would be too long,
                                           and walk->path is its directory's */
    int           fd;                   /* a file's or a directory's, to read
                                           from; of a link, as by O_PATH; -1 */
    struct stat   st;                   /* zeros: it cannot be looked at */
    const char   *refused;              /* NULL, or why it cannot be read:
                                           mount, unreadable, too_deep */
} walk_entry_t;


typedef struct walk_s  walk_t;

struct walk_s {

    /*
     * Called for each entry, for a directory before what is in it; -1 with
     * errno ends the walk.  A directory that it refuses is not entered.
     */
    int       (*visit)(walk_t *walk, walk_entry_t *entry);
    void       *data;

    unsigned    depth_max;              /* of directories */
    bool        is_left_by_task;        /* modes that forbid reading are
                                           overridden */

    char        path[WALK_PATH_MAX + 1];        /* relative to the directory */
};


/*
 * Visits the entries in the order of their names' bytes, so that the same
 * files give the same result; follows no link, leaves neither the directory
 * nor its mount, and opens only files and directories.  -1 with errno
 * and the place in walk->path.
 */
int walk_below(walk_t *walk, int dir);
