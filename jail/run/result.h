/*
 * What happened, as the caller gets it: one JSON object on one line.
 */

#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "broker/broker.h"
#include "base/fault.h"
#include "shared/limits.h"
#include "run/output.h"


#define RESULT_SCHEMA  1


typedef enum {
    REASON_OK = 0,
    REASON_NONZERO,
    REASON_SIGNAL,
    REASON_TIMEOUT,
    REASON_CPU_TIME,
    REASON_OOM,
    REASON_PIDS,
    REASON_DISK,
    REASON_OUTPUT,
    REASON_CANCELED,
    REASON_SETUP,
    REASON_EXEC,
    REASON_BROKER,
    REASON_INTERNAL,
    REASON_COUNT
} reason_t;


/* How the main process ended, and what was seen of its limits. */

typedef struct {
    reason_t  cause;            /* why the launcher ended it; REASON_OK: not */
    bool      ended;            /* status is known */
    int       status;           /* as of waitpid(2) */
    uint64_t  oom_kills;
    uint64_t  pids_refused;
    bool      disk_full;
} verdict_t;


/*
 * The use of each limit, by limit_id_t, and how full the fullest of the
 * writable file systems was.
 */

enum {
    RESULT_BYTES = LIMIT_COUNT,
    RESULT_INODES,
    RESULT_USES
};


typedef struct {
    uint64_t      used;
    uint64_t      max;          /* 0: not looked at */
    bool          near;
} result_use_t;


typedef struct {
    char          task_id[PROTOCOL_ID_LEN + 1];
    reason_t      reason;
    int           exit_code;    /* -1: it did not exit by itself */
    int           signal;       /* 0: none */
    fault_t       fault;

    output_t      out;
    output_t      err;

    uint64_t      limits[LIMIT_COUNT];
    result_use_t  uses[RESULT_USES];

    uint64_t      wall_ms;
    uint64_t      cpu_ms;
    uint64_t      memory_peak;
    uint64_t      pids_peak;
    uint64_t      disk_bytes;

    json_t       *egress;       /* or NULL */
    json_t       *artifacts;    /* or NULL */
    json_t       *skipped;      /* or NULL */
    json_t       *workspace;    /* or NULL */
    bool          broker;
    char          policy_hash[PROTOCOL_POLICY_HASH_LEN + 1];
    const char   *cgroup;       /* version, or NULL */
    int           landlock;     /* version, or 0 */
    const wall_t *wall;         /* the one that was up, or NULL */
} result_t;


const char *result_reason_name(reason_t reason);

/* The reason, and exit_code and signal that go with it. */
void result_judge(result_t *result, const verdict_t *verdict);

/* Only the limits, to be freed; NULL when out of memory. */
char *result_limits_text(const result_t *result);

/* "memory", "disk": as in "near_limits" of the result. */
const char *result_use_name(unsigned use);

/* The text with its newline, to be freed; NULL when out of memory. */
char *result_text(result_t *result);

void result_free(result_t *result);
