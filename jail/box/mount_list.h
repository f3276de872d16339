/*
 * What the box's file system is made of, as a list of operations: written by
 * the launcher (plan.c), carried out by the child from the first to the last
 * (mounts.c).
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>


/* What is hidden is covered by these, without the first "/". */

#define MOUNT_MASK   ".mask"            /* while the box is being built */
#define MOUNT_EMPTY  "var/empty"


typedef enum {

    /* what the child does */

    M_DIR,                      /* a directory */
    M_LINK,                     /* a symbolic link to `arg` */
    M_FILE,                     /* a file: see below */
    M_PARENTS,                  /* the directories above that are not there */
    M_BIND,                     /* the host's, read-only; `mode` is its type */
    M_OVERLAY,                  /* an overlay, `arg` are its lower layers; the
                                   host's directory where there can be none */
    M_DISK,                     /* a tmpfs of `size` bytes, the writable mount
                                   number `number`, with MS_* `flags` */
    M_DEVICE,                   /* the host's node, if it is device `number` */
    M_PROC,                     /* `arg` are its options */
    M_PTS,                      /* the same */
    M_SYSCTL,                   /* `arg` is written, if the kernel has it */
    M_RDONLY,                   /* a part of a mount becomes a read-only one */
    M_HIDE,                     /* `arg`, which is empty, over it */
    M_COVER,                    /* the file `arg` over the file that the name
                                   leads to in the box, if it is another */

    /* what only the table has, and the launcher turns into those above */

    M_TEXT,                     /* a file that holds `arg` */
    M_ONLINE,                   /* the same, where there is a broker */
    M_OFFLINE,                  /* and where there is none */
    M_SYSTEM,                   /* the host's, read-only; a link stays one;
                                   left out where the host has none */
    M_SHM,                      /* a disk of half of the box's memory */
    M_GIT,                      /* git's file: whose repositories it reads */
    M_TRUST,                    /* the certificates */
    M_TRUST_NAMES               /* and the other names they go by */
} mount_kind_t;


/*
 * A file holds the `head_len` bytes at `head`, then `size` bytes of `fd` from
 * `offset`, or as many as there are of the host's file `host`, or else of the
 * first of `others` that the box can read, and after them the `len` bytes at
 * `arg`.  A file of the host's that cannot be read is as one that is not
 * there.
 */

typedef struct {
    mount_kind_t     kind;
    unsigned         mode;
    const char      *path;      /* in the box, without the first "/" */
    const char      *arg;
    size_t           len;
    const char      *head;
    size_t           head_len;
    const char      *host;
    const char *const  *others; /* tried after it, up to NULL; or NULL */
    int              fd;
    unsigned         number;
    unsigned         flags;
    bool             keeps_time;        /* a file gets `mtime` */
    bool             is_awaited;        /* `arg` is not there before SYNC_JAVA
                                           has come; `fd` is the child's */
    uint64_t         size;
    off_t            offset;
    struct timespec  mtime;
} mount_op_t;


typedef struct {
    mount_op_t  *ops;
    size_t       n;
    size_t       cap;
    char       **texts;         /* of mount_list_text() */
    size_t       ntexts;
    bool         is_cut;        /* there was no memory for all of it */
} mount_list_t;


/* Appends one operation, whose strings are not copied. */
void mount_list_add(mount_list_t *list, mount_op_t op);

/* A string for an operation, which lasts as long as the list; never NULL. */
const char *mount_list_text(mount_list_t *list, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

void mount_list_free(mount_list_t *list);
