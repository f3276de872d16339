/*
 * The error contract.  A fallible call returns -1 and fills one fault: the
 * stage that failed, errno if the kernel said why, the cause if the call
 * knows more than that, one sentence, and what to do about it.  The first
 * fault is kept: later ones are its consequences.  It is printed once, where
 * the command ends.
 *
 * The sentence is for people only.  What to do is found by stage, errno and
 * cause (advice.h), and code that has to tell one fault from another compares
 * the cause, so that a message may be worded anew at any time.
 */

#pragma once

#include <stdbool.h>


/*
 * Every step that can fail on the way to a running task, in the order in
 * which each is first reached: steps that launcher and box do at the same time
 * are side by side, and a workspace is locked early and unpacked late.
 * The names are part of the result ("error"."stage").
 */
typedef enum {
    STAGE_NONE = 0,
    STAGE_USAGE,
    STAGE_NESTED,
    STAGE_CODE,
    STAGE_IN,
    STAGE_OUT,
    STAGE_WORKSPACE,
    STAGE_BROKER,
    STAGE_POLICY,
    STAGE_CGROUP,
    STAGE_NAMESPACES,
    STAGE_IDMAP,
    STAGE_RLIMITS,
    STAGE_TIE,
    STAGE_DESCRIPTORS,
    STAGE_NET_LO,
    STAGE_NET_ROUTE,
    STAGE_DOORS,
    STAGE_HOSTNAME,
    STAGE_IDENTITY,
    STAGE_PROPAGATION,
    STAGE_ROOT,
    STAGE_MOUNT,
    STAGE_CGROUP_ATTACH,
    STAGE_CGROUP_NAMESPACE,
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


/*
 * Why a step failed, where its stage and errno do not say it: set by the call
 * that knows.  A cause that is added needs a row in advice.c.
 */
typedef enum {
    CAUSE_NONE = 0,             /* stage and errno are all that is known */

    /* the caller's files and directories */
    CAUSE_NOT_A_FILE,
    CAUSE_FILES_SIZE,
    CAUSE_OUT_NOT_EMPTY,
    CAUSE_WORKSPACE_HOME,
    CAUSE_WORKSPACE_OWNER,
    CAUSE_WORKSPACE_SIZE,
    CAUSE_WORKSPACE_BUSY,

    /* the broker, and the policy that it gave */
    CAUSE_BROKER_CLOSED,
    CAUSE_BROKER_GONE,
    CAUSE_BROKER_VERSION,
    CAUSE_BROKER_BUSY,
    CAUSE_BROKER_CA,
    CAUSE_POLICY_UNKNOWN,
    CAUSE_POLICY_NOT_ALLOWED,
    CAUSE_POLICY_GONE,
    CAUSE_POLICY_ISOLATION,
    CAUSE_TASK_REFUSALS,
    CAUSE_TASK_AUDIT_BUDGET,
    CAUSE_TASK_OVERDUE,
    CAUSE_READABLE_MISSING,
    CAUSE_READABLE_REFUSED,

    /* cgroups */
    CAUSE_CGROUP_NOT_MOUNTED,
    CAUSE_CGROUP_HIDDEN,
    CAUSE_CGROUP_SWAP,
    CAUSE_CONTROLLER_CPU,       /* with v1 one may fail, the others not */
    CAUSE_CONTROLLER_CPUACCT,
    CAUSE_CONTROLLER_MEMORY,
    CAUSE_CONTROLLER_PIDS,

    /* the box */
    CAUSE_ROOT_WITHOUT_IDS,
    CAUSE_GUARD,
    CAUSE_PROC_MOUNT,
    CAUSE_COUNT
} cause_t;


typedef struct {
    stage_t  stage;             /* STAGE_NONE: nothing failed */
    int      err;               /* errno, or 0 */
    cause_t  cause;
    char     message[512];      /* one sentence, printable ASCII or UTF-8 */
    char     fix[512];          /* what to do about it; may be empty */
} fault_t;


const char *fault_stage_name(stage_t stage);

/*
 * Records a fault unless one is recorded already; always returns -1.  With
 * err != 0 the system's words for it are appended to the message.  The fix
 * is looked up by stage, errno, cause and what the host shows (advice.h).
 */
int fault_set_cause(fault_t *fault, stage_t stage, int err, cause_t cause,
    const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* Records a fault whose stage and errno are all that is known. */
#define fault_set(fault, stage, err, ...)                                    \
    fault_set_cause(fault, stage, err, CAUSE_NONE, __VA_ARGS__)

/* Replaces the fix that was looked up: for one with values in it. */
void fault_fix(fault_t *fault, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints it to standard error, escaped: no byte of it controls a terminal. */
void fault_print(const fault_t *fault);

/* "EPERM" for EPERM; NULL for 0. */
const char *fault_errno_name(int err);
