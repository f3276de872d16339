/*
 * What a box is made of: filled by the launcher, read by the child between
 * clone and exec.  The child gets it by copy-on-write; nothing of it is
 * reachable from the task.
 */

#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "box/mount_list.h"
#include "cgroup/cgroup.h"
#include "base/fault.h"
#include "files/files.h"
#include "shared/box_paths.h"
#include "shared/limits.h"
#include "shared/protocol.h"
#include "env/trust.h"
#include "files/tree.h"


#define BOX_UID            1000         /* in the box; the same for the gid */
#define BOX_OUTER_BASE     2000000000u  /* run by root: this plus the slot */

#define BOX_DISKS_MAX      (BOX_WRITABLE_MAX + 3)
#define BOX_DETAIL_MAX     160


/* The writable mounts that every box has, among all of them. */

#define BOX_DISK_WORK      0            /* of the working directory */
#define BOX_DISK_OUT       1            /* of /run/task/out */
#define BOX_DISK_SHM       2            /* of /dev/shm */


typedef struct {
    uint16_t  port;
    bool      udp;
} box_door_t;


typedef struct {
    const char  *path;                  /* absolute */
    uint64_t     bytes;
} box_writable_t;


typedef struct wall_s  wall_t;          /* wall.h */


typedef struct {

    const wall_t    *wall;

    /* the identity outside, and whether the caller may leave its groups */
    uid_t            outer_uid;
    gid_t            outer_gid;
    bool             is_root;

    bool             has_stdin;

    /* descriptors of the child */
    int              sync;              /* SOCK_SEQPACKET to the launcher */
    int              lifeline;          /* ends with the launcher */
    int              in;                /* -1: /dev/null */
    int              out;
    int              err;
    bool             is_born_in_group;

    /* of the launcher: the group that the box starts in, or -1 */
    int              into;

    /* the launcher's own text, to be wiped in the child */
    char            *scrub;
    size_t           scrub_len;

    /* the file system */
    task_file_t     *files;
    unsigned         nfiles;
    const tree_t    *workspace;         /* NULL: none */
    box_writable_t   writable[BOX_WRITABLE_MAX];
    unsigned         nwritable;
    const char      *readable[BOX_READABLE_MAX];
    unsigned         nreadable;
    const char      *env[BOX_ENV_MAX];  /* names that the caller may set */
    unsigned         nenv;
    uint64_t         memory;            /* the limit, for the size of shm */
    uint64_t         open_files;        /* the limit */
    char            *limits;            /* all of them, as JSON */

    /* what the child makes of that (plan.c) */
    mount_list_t     system;            /* all mounts, and files of the root */
    mount_list_t     unpack;            /* the workspace, below BOX_WORK */
    mount_list_t     given;             /* the task's files, below the root */
    size_t           planned;           /* rows of the table done so far */
    uint64_t         root_bytes;        /* the size of the root */

    /* the network */
    box_door_t       doors[PROTOCOL_DOORS_MAX];
    unsigned         ndoors;

    trust_t          trust;

    /* the program */
    char           **argv;
    char           **envp;
    const char      *path;              /* of envp: where programs are found */

} box_spec_t;


/*
 * Messages on `sync`, each one packet.  The launcher sends one byte, the
 * child a report.  The socket's end at exec is the sign of its success, and
 * with it the wall clock starts.
 */

#define SYNC_MAPPED  'M'                /* the ids are mapped; with what the
                                           child joins its group by */
#define SYNC_JAVA    'J'                /* trust.java_tail is filled; only
                                           where there is one */
#define SYNC_GO      'G'                /* the broker serves: execute */


typedef enum {
    REPORT_FAULT = 1,                   /* a step failed: all below is set */
    REPORT_DOORS,                       /* with the doors' sockets */
    REPORT_EXEC                         /* what follows is execve; with the
                                           writable mounts */
} report_kind_t;


typedef struct {
    uint32_t  kind;
    uint32_t  stage;
    int32_t   err;
    uint32_t  cause;
    char      detail[BOX_DETAIL_MAX];   /* what it was about; may be empty */
} report_t;


/*
 * On `lifeline`, from the box's init to the launcher: how the main process
 * ended, as waitpid(2) gives it.
 */
typedef struct {
    int32_t  status;
} box_end_t;


/* spec.c: the policy gives /tmp a size of its own, apart from BOX_WORK's. */
bool box_has_tmp(const box_spec_t *spec);


/* The launcher's side. */

typedef struct {
    pid_t          pid;
    int            pidfd;
    int            sync;
    int            lifeline;
    int            in;                  /* -1: none */
    int            out;
    int            err;
    const wall_t  *wall;
} box_t;


/*
 * Which id outside the box is used, from whom the launcher runs as and
 * from the slot its cgroup claimed.
 */
int box_identity(box_spec_t *spec, uint32_t slot, fault_t *fault);

/*
 * Makes the namespaces and the box's first process, which goes on in
 * setup_run().
 */
int box_start(box_t *box, box_spec_t *spec, fault_t *fault);

/*
 * Maps its ids, sets its resource limits, and hands it the descriptors by
 * which it joins its group.
 */
int box_admit(box_t *box, const box_spec_t *spec,
    const uint64_t limits[LIMIT_COUNT], const int *attach, unsigned nattach,
    fault_t *fault);

/* Fills the tail of the store for Java, where there is one, and says so. */
int box_trust(box_t *box, box_spec_t *spec, fault_t *fault);

/* Tells the child that it may execute the program. */
int box_go(box_t *box, fault_t *fault);

void box_kill(box_t *box);

/* Of the launcher's own children only, before they are waited for. */
void box_kill_child(int pidfd, pid_t pid);

void box_close(box_t *box);
