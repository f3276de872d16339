/*
 * The launcher while its box lives: one poll over everything that can
 * happen, until the box is gone and its output is read.
 */

#pragma once

#include "box/box.h"
#include "broker/broker.h"
#include "cgroup/cgroup.h"
#include "run/result.h"
#include "run/stream.h"


typedef struct {
    box_t            *box;
    broker_t         *broker;           /* state BROKER_NONE: offline */
    cgroup_t         *cgroup;
    result_t         *result;           /* limits set, outputs ready */
    int               signals;          /* a signalfd */
    stream_t         *in;               /* the caller's input, or NULL */
    stream_t         *out;              /* passed through; both or none */
    stream_t         *err;

    /* what follows is the loop's own, and its outcome */
    verdict_t         verdict;
    cgroup_usage_t    usage;
    int               canceled;         /* by this signal */
    bool              is_told;          /* SYNC_GO was sent */
    bool              is_executing;     /* what follows is execve */
    bool              is_killed;
    bool              is_dead;
    bool              is_reaped;        /* and it was seen to be gone */
    int64_t           started;          /* ms; 0: COMMAND does not run yet */
    int64_t           finished;
    int64_t           deadline;         /* of the phase that it is in */
    int64_t           tick;
    int               disks[BOX_DISKS_MAX];
    unsigned          ndisks;
} supervise_t;


#define SUPERVISE_RAW_WAIT  30000       /* ms, for one who does not read */


/* Returns when the box is gone; faults are in the result. */
void supervise_run(supervise_t *s);

/* The end of a box that could not be started, too. */
void supervise_kill(supervise_t *s, reason_t cause);


/*
 * Parts of the loop, which say why the box must end: REASON_OK, it need not.
 *
 * supervise_limits.c: the use of everything limited.
 */
reason_t supervise_limits(supervise_t *s, int64_t now);

/* supervise_streams.c; fds: two each for in, out and err, passed through */
reason_t supervise_output(supervise_t *s, int *fd, output_t *out);
reason_t supervise_streams(supervise_t *s, const struct pollfd *fds,
    int64_t now);
bool supervise_is_drained(const supervise_t *s);
