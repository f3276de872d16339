/*
 * The launcher's side of a lease: open, serve, resume, close.
 *
 * The connection is the lease.  While the task runs its end is not the end
 * of the task: the broker may have reloaded or lost a worker, so the
 * launcher connects again and offers the same sockets, for ten seconds.
 */

#pragma once

#include <poll.h>

#include "box/box.h"
#include "broker/control.h"
#include "env/variables.h"
#include "shared/protocol.h"


#define BROKER_DRAINING     8       /* kept: reloads in a row, streams */
#define BROKER_POLLFDS      (2 + BROKER_DRAINING)


typedef enum {
    BROKER_NONE = 0,            /* offline */
    BROKER_ASKED,               /* `open` is sent, its answer is not read */
    BROKER_OPEN,                /* opened; the doors are not served yet */
    BROKER_SERVING,             /* a lease is held */
    BROKER_RESUMING,            /* a lease is held, the connection is not */
    BROKER_LOST
} broker_state_t;


typedef struct {
    broker_state_t  state;
    const char     *path;
    control_t      *active;
    control_t      *next;               /* that resumes, if any */
    control_t      *draining[BROKER_DRAINING];  /* the old ones, until they
                                                   close; the newest first */

    json_t         *task;               /* the answer to `open` */
    char            task_id[PROTOCOL_ID_LEN + 1];
    char            policy_hash[PROTOCOL_POLICY_HASH_LEN + 1];
    char            lease[PROTOCOL_LEASE_MAX + 1];

    int             doors[PROTOCOL_DOORS_MAX];
    unsigned        ndoors;

    int64_t         deadline;           /* of the resumption, ms */
    int64_t         retry_at;
    int             retry_wait;

    bool            has_variables;      /* in `open` */
    bool            is_closing;         /* `close` is sent */
    json_t         *egress;             /* of a task that the broker ended */
} broker_t;


typedef struct {
    const char  *policy;
    const char  *external_id;           /* or NULL */
    const char  *label;                 /* or NULL */
    const char  *code_sha256;           /* or NULL */
    const variables_t  *variables;
} broker_request_t;


typedef struct {
    const char  *reason;
    int          exit_code;             /* -1: none */
    uint64_t     wall_ms;
    uint64_t     cpu_ms;
    uint64_t     memory_peak;
    uint64_t     pids_peak;
    uint64_t     disk_bytes;
} broker_close_t;


/* Asks for a task; the answer is read by broker_opened(). */
int broker_open(broker_t *broker, const char *path,
    const broker_request_t *request, fault_t *fault);

/*
 * Waits for the answer and fills the limits, and of the box the doors, the
 * writable and the readable paths and the names of variables, which point into
 * broker->task.
 */
int broker_opened(broker_t *broker, uint64_t limits[LIMIT_COUNT],
    box_spec_t *spec, fault_t *fault);

/* Hands the doors over; the lease comes by broker_events().  Owns the fds. */
int broker_serve(broker_t *broker, const int *doors, unsigned ndoors,
    fault_t *fault);

/* Fills at most BROKER_POLLFDS entries, gives their number. */
unsigned broker_poll(broker_t *broker, struct pollfd *fds);

/* The time of the next thing to do, or INT64_MAX. */
int64_t broker_deadline(const broker_t *broker);

/*
 * Does what can be done without waiting.  -1 with the fault set when the
 * lease is refused or lost: the box must not go on.
 */
int broker_events(broker_t *broker, int64_t now, fault_t *fault);

void broker_near_limit(broker_t *broker, const char *limit, uint64_t used);

/* Ends the task; the answer is read by broker_closed(). */
void broker_close(broker_t *broker, const broker_close_t *end);

/* Waits for the answer: the egress summary, or NULL. */
json_t *broker_closed(broker_t *broker);

void broker_free(broker_t *broker);
