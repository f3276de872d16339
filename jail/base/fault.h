/*
 * The error contract.  A fallible call returns -1 and fills one fault: the
 * stage that failed, errno if the kernel said why, one sentence, and what
 * mends it.  The first fault is kept: what comes after it is a consequence.
 * It is printed once, at the edge.
 */

#ifndef JAIL_FAULT_H
#define JAIL_FAULT_H

#include <stdbool.h>


/*
 * Every step that can fail on the way to a running task, in the order in
 * which they happen.  The names are part of the result ("error"."stage").
 */
typedef enum {
    STAGE_NONE = 0,
    STAGE_USAGE,
    STAGE_NESTED,
    STAGE_CODE,
    STAGE_IN,
    STAGE_WORKSPACE,
    STAGE_OUT,
    STAGE_BROKER,
    STAGE_POLICY,
    STAGE_CGROUP,
    STAGE_NAMESPACES,
    STAGE_IDMAP,
    STAGE_RLIMITS,
    STAGE_TIE,
    STAGE_DESCRIPTORS,
    STAGE_CGROUP_ATTACH,
    STAGE_CGROUP_NAMESPACE,
    STAGE_NET_LO,
    STAGE_NET_ROUTE,
    STAGE_DOORS,
    STAGE_HOSTNAME,
    STAGE_IDENTITY,
    STAGE_PROPAGATION,
    STAGE_ROOT,
    STAGE_MOUNT,
    STAGE_FILES,
    STAGE_PIVOT,
    STAGE_SCHEDULING,
    STAGE_PRIVILEGES,
    STAGE_LANDLOCK,
    STAGE_SECCOMP,
    STAGE_START,
    STAGE_EXEC,
    STAGE_RUN,
    STAGE_COUNT
} stage_t;


typedef struct {
    stage_t  stage;             /* STAGE_NONE: nothing failed */
    int      err;               /* errno, or 0 */
    char     message[512];      /* one sentence, printable ASCII or UTF-8 */
    char     fix[512];          /* what mends it; may be empty */
} fault_t;


const char *stage_name(stage_t stage);

/*
 * Records a fault unless one is recorded already; always returns -1.  With
 * err != 0 the system's words for it are appended to the message.  The fix
 * is looked up by stage, errno and what the host tells (advice.h).
 */
int fault_set(fault_t *fault, stage_t stage, int err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Replaces the fix that was looked up. */
void fault_fix(fault_t *fault, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* "EPERM" for EPERM; NULL for 0. */
const char *errno_name(int err);


#endif /* JAIL_FAULT_H */
