/*
 * Phases, each with a deadline of its own:
 *
 *   set-up    until the child's end of `sync` closes at exec
 *   run       the wall clock, which starts then
 *   killed    from our SIGKILL until the pidfd says that the box is gone:
 *             that of pid 1 becomes readable when its whole pid namespace is
 *             reaped, so nothing of the box is left
 *   drain     the output pipes, which nobody of the box holds any more; and,
 *             when they are passed through, for as long as the caller reads
 *
 * Nothing in the loop waits for one thing only, and nothing that the box
 * does can keep it from the others.
 */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/clock.h"
#include "base/fd_pass.h"
#include "run/supervise.h"


#define SUPERVISE_SETUP_WAIT  30000     /* ms */
#define SUPERVISE_KILL_WAIT   30000
#define SUPERVISE_DRAIN_WAIT  1000
#define SUPERVISE_TICK        100


enum {
    FD_PIDFD = 0,
    FD_SYNC,
    FD_LIFELINE,
    FD_OUT,
    FD_ERR,
    FD_SIGNALS,
    FD_CALLER,                  /* where the result goes */
    FD_STREAMS,                 /* two for each of in, out, err */
    FD_BROKER = FD_STREAMS + 6,
    FD_COUNT = FD_BROKER + BROKER_POLLFDS
};


static void supervise_end(supervise_t *s, reason_t reason);
static void supervise_failed(supervise_t *s, const char *what);
static void supervise_sync(supervise_t *s, int64_t now);
static int supervise_report(supervise_t *s, report_t *report, int *fds,
    unsigned *nfds);
static void supervise_act(supervise_t *s, const report_t *report,
    const int *fds, unsigned nfds);
static void supervise_lifeline(supervise_t *s, int64_t now);
static void supervise_signals(supervise_t *s);
static void supervise_broker(supervise_t *s, int64_t now);
static void supervise_clock(supervise_t *s, int64_t now);
static void supervise_dead(supervise_t *s, int64_t now);
static int supervise_wait(const supervise_t *s, int64_t now);


void
supervise_run(supervise_t *s)
{
    box_t          *box;
    unsigned        n;
    int64_t         now;
    struct pollfd   fds[FD_COUNT];

    box = s->box;
    now = clock_ms();
    s->deadline = now + SUPERVISE_SETUP_WAIT;

    if (s->is_killed) {
        s->deadline = now + SUPERVISE_KILL_WAIT;
    }

    /* a box without doors is told to start before it asks */

    supervise_broker(s, now);

    while (!s->is_dead || !supervise_is_drained(s)) {

        (void) memset(fds, 0, sizeof(fds));
        fds[FD_PIDFD].fd = s->is_dead ? -1 : box->pidfd;
        fds[FD_SYNC].fd = box->sync;
        fds[FD_LIFELINE].fd = box->lifeline;
        fds[FD_OUT].fd = s->out ? -1 : box->out;
        fds[FD_ERR].fd = s->err ? -1 : box->err;
        fds[FD_SIGNALS].fd = s->signals;

        for (n = 0; n < FD_CALLER; n++) {
            fds[n].events = POLLIN;
        }

        /* streams that are passed through see the end of theirs */

        fds[FD_CALLER].fd = s->out || s->is_killed || s->is_dead
                            ? -1 : STDOUT_FILENO;

        for (n = FD_STREAMS; n < FD_BROKER; n++) {
            fds[n].fd = -1;
        }

        /* the caller's input is not touched before there is who reads it */

        if (s->in && s->started && !s->is_dead) {
            stream_poll(s->in, fds + FD_STREAMS);
        }

        if (s->out) {
            stream_poll(s->out, fds + FD_STREAMS + 2);
            stream_poll(s->err, fds + FD_STREAMS + 4);
        }

        /* a box that is being killed needs no lease, until it is closed */

        n = FD_BROKER + (s->is_killed ? 0 : broker_poll(s->broker,
                                                        fds + FD_BROKER));

        if (poll(fds, n, supervise_wait(s, now)) == -1 && errno != EINTR) {
            supervise_failed(s, "poll failed");
        }

        now = clock_ms();

        /* what the box said before its end is heard before its end */

        if (fds[FD_SYNC].revents) {
            supervise_sync(s, now);
        }

        if (fds[FD_LIFELINE].revents) {
            supervise_lifeline(s, now);
        }

        if (fds[FD_OUT].revents) {
            supervise_end(s, supervise_output(s, &box->out, &s->result->out));
        }

        if (fds[FD_ERR].revents) {
            supervise_end(s, supervise_output(s, &box->err, &s->result->err));
        }

        supervise_end(s, supervise_streams(s, fds + FD_STREAMS, now));

        if (fds[FD_SIGNALS].revents) {
            supervise_signals(s);
        }

        /* a caller that died reads no result; its ends of our pipes tell */

        if (!s->is_dead
            && ((fds[FD_CALLER].revents & (POLLERR|POLLHUP))
                || (s->out && s->out->to == -1 && s->err->to == -1)))
        {
            s->canceled = SIGPIPE;
            supervise_kill(s, REASON_CANCELED);
        }

        supervise_broker(s, now);

        if (fds[FD_PIDFD].revents) {
            supervise_dead(s, now);
        }

        supervise_clock(s, now);
    }
}


void
supervise_kill(supervise_t *s, reason_t cause)
{
    if (s->verdict.cause == REASON_OK) {
        s->verdict.cause = cause;
    }

    if (!s->is_killed && !s->is_dead) {
        s->is_killed = true;
        s->deadline = clock_ms() + SUPERVISE_KILL_WAIT;
        box_kill(s->box);
        s->cgroup->ops->kill(s->cgroup, s->box->pid);
    }
}


static void
supervise_end(supervise_t *s, reason_t reason)
{
    if (reason != REASON_OK) {
        supervise_kill(s, reason);
    }
}


/* A box that was told to start may have run, whatever it said. */

static void
supervise_failed(supervise_t *s, const char *what)
{
    (void) fault_set(&s->result->fault, s->is_told ? STAGE_RUN : STAGE_START,
                     errno, "%s", what);
    supervise_kill(s, s->is_told ? REASON_INTERNAL : REASON_SETUP);
}


static void
supervise_sync(supervise_t *s, int64_t now)
{
    int       rc, fds[PROTOCOL_DOORS_MAX];
    report_t  report;
    unsigned  nfds;

    while ((rc = supervise_report(s, &report, fds, &nfds)) == 1) {
        supervise_act(s, &report, fds, nfds);
    }

    if (rc == 0) {
        return;
    }

    /* the end: of the child, or of what the child was before exec */

    descriptors_close(&s->box->sync, 1);

    if (s->result->fault.stage != STAGE_NONE || s->is_killed) {
        return;
    }

    if (!s->is_executing) {
        (void) fault_set(&s->result->fault, STAGE_START, 0,
                         "the box's first process ended during set-up");
        supervise_kill(s, REASON_SETUP);
        return;
    }

    s->started = now;
    s->tick = now + SUPERVISE_TICK;
    s->deadline = now + (int64_t) s->result->limits[LIMIT_WALL_CLOCK];
}


/* 1: a report; 0: none yet; -1: the end. */

static int
supervise_report(supervise_t *s, report_t *report, int *fds, unsigned *nfds)
{
    ssize_t  n;

    /*
     * A child that failed before it read what it was sent leaves ECONNRESET,
     * once, in front of its report.
     */

    do {
        *nfds = PROTOCOL_DOORS_MAX;
        n = fd_pass_receive(s->box->sync, report, sizeof(*report), fds, nfds,
                            MSG_DONTWAIT);
    } while (n == -1 && errno == ECONNRESET);

    if (n == -1 && errno == EAGAIN) {
        return 0;
    }

    if (n == -1) {
        supervise_failed(s, "the reports of the box cannot be read");
    }

    if (n != (ssize_t) sizeof(*report)) {
        return -1;
    }

    report->detail[sizeof(report->detail) - 1] = '\0';

    return 1;
}


static void
supervise_act(supervise_t *s, const report_t *report, const int *fds,
    unsigned nfds)
{
    fault_t  *fault;
    stage_t   stage;

    fault = &s->result->fault;

    switch (report->kind) {

    case REPORT_DOORS:
        if (broker_serve(s->broker, fds, nfds, fault) != 0) {
            supervise_kill(s, REASON_SETUP);
        }

        break;

    case REPORT_EXEC:
        s->is_executing = true;
        s->result->wall = s->box->wall;
        s->ndisks = nfds < BOX_DISKS_MAX ? nfds : BOX_DISKS_MAX;
        (void) memcpy(s->disks, fds, s->ndisks * sizeof(int));
        break;

    case REPORT_FAULT:
        if (report->stage == STAGE_EXEC) {
            (void) fault_set(fault, STAGE_EXEC, report->err,
                             "\"%s\" cannot be executed", report->detail);
            supervise_kill(s, REASON_EXEC);
            break;
        }

        stage = report->stage < STAGE_COUNT ? report->stage : STAGE_START;

        (void) fault_set_cause(fault, stage, report->err, report->cause,
                               report->detail[0] ? "%s"
                                                 : "the step \"%s\" failed",
                               report->detail[0] ? report->detail
                                                 : fault_stage_name(stage));
        supervise_kill(s, REASON_SETUP);
        break;
    }
}


static void
supervise_lifeline(supervise_t *s, int64_t now)
{
    ssize_t    n;
    box_end_t  end;

    n = recv(s->box->lifeline, &end, sizeof(end), MSG_DONTWAIT);

    if (n == -1 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }

    if (n == (ssize_t) sizeof(end)) {
        s->verdict.ended = true;
        s->verdict.status = end.status;
        s->finished = now;

        /* pid 1 ends by itself now; the rest is not to take its time */

        supervise_kill(s, REASON_OK);
    }

    /* nothing follows its one message */

    descriptors_close(&s->box->lifeline, 1);
}


static void
supervise_signals(supervise_t *s)
{
    struct signalfd_siginfo  si;

    if (read(s->signals, &si, sizeof(si)) != (ssize_t) sizeof(si)) {
        return;
    }

    if (!s->is_dead) {
        s->canceled = (int) si.ssi_signo;
        supervise_kill(s, REASON_CANCELED);

    } else if (s->out) {
        stream_drop(s->out);
        stream_drop(s->err);
    }
}


static void
supervise_broker(supervise_t *s, int64_t now)
{
    fault_t  gone;

    if (s->is_killed) {
        return;
    }

    if (broker_events(s->broker, now, &s->result->fault) != 0) {
        supervise_kill(s, s->started || s->is_told ? REASON_BROKER
                                                   : REASON_SETUP);
        return;
    }

    /* only a task whose doors are served, or that has none, may start */

    if (!s->is_told && (s->broker->state == BROKER_SERVING
                        || s->broker->state == BROKER_NONE))
    {
        s->is_told = true;

        /* a child that is gone has said why, or its end of `sync` does */

        gone = (fault_t) { 0 };

        if (box_go(s->box, &gone) != 0 && gone.err != EPIPE
            && gone.err != ECONNRESET)
        {
            (void) fault_set(&s->result->fault, STAGE_START, gone.err,
                             "the box cannot be told to start");
            supervise_kill(s, REASON_SETUP);
        }
    }
}


static void
supervise_clock(supervise_t *s, int64_t now)
{
    if (s->started && !s->is_dead && now >= s->tick) {
        s->tick = now + SUPERVISE_TICK;
        supervise_end(s, supervise_limits(s, now));
    }

    if (now < s->deadline) {
        return;
    }

    if (s->is_dead) {

        /* somebody outside the box holds a pipe: what it holds is enough */

        if (s->out) {
            stream_drop(s->out);
            stream_drop(s->err);
        }

        descriptors_close(&s->box->out, 1);

        descriptors_close(&s->box->err, 1);

        return;
    }

    if (s->is_killed) {
        (void) fault_set(&s->result->fault, STAGE_RUN, ETIMEDOUT,
                         "the box did not end when it was killed");
        supervise_dead(s, now);
        return;
    }

    if (s->started) {
        supervise_kill(s, REASON_TIMEOUT);
        return;
    }

    (void) fault_set(&s->result->fault, STAGE_START, ETIMEDOUT,
                     "the box was not set up in %d s",
                     SUPERVISE_SETUP_WAIT / 1000);
    supervise_kill(s, REASON_SETUP);
}


/* The counters are read now: after the last process, before the removal. */

static void
supervise_dead(supervise_t *s, int64_t now)
{
    result_t   *r;
    siginfo_t   si;

    r = s->result;

    /* anything it said is in the sockets by now */

    if (s->box->sync != -1) {
        supervise_sync(s, now);
    }

    if (s->box->lifeline != -1 && !s->verdict.ended) {
        supervise_lifeline(s, now);
    }

    si.si_pid = 0;
    (void) waitid(P_PIDFD, (id_t) s->box->pidfd, &si, WEXITED|WNOHANG|__WALL);

    s->is_reaped = (si.si_pid != 0);
    s->is_dead = true;
    s->deadline = now + (s->out ? SUPERVISE_RAW_WAIT : SUPERVISE_DRAIN_WAIT);

    if (s->finished == 0) {
        s->finished = now;
    }

    supervise_end(s, supervise_limits(s, s->finished));

    s->verdict.oom_kills = s->usage.oom_kills;
    s->verdict.pids_refused = s->usage.pids_refused;

    r->cpu_ms = s->usage.cpu_ns / 1000000;
    r->memory_peak = s->usage.memory_peak;
    r->pids_peak = s->usage.pids_peak;
    r->wall_ms = s->started ? (uint64_t) (s->finished - s->started) : 0;
}


static int
supervise_wait(const supervise_t *s, int64_t now)
{
    int64_t  until, broker;

    until = s->deadline;

    if (s->started && !s->is_dead && s->tick < until) {
        until = s->tick;
    }

    if (!s->is_killed) {
        broker = broker_deadline(s->broker);

        if (broker < until) {
            until = broker;
        }
    }

    if (until <= now) {
        return 0;
    }

    return until - now > 60000 ? 60000 : (int) (until - now);
}
