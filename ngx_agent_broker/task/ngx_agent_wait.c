/*
 * Waiting in order for what the share of a task bounds: at most 2 s, then the
 * answer is 429.
 *
 * What is waited for comes by two ways.  A turn of `rate` or `handshakes` is
 * taken when the wait begins, so that its time is known.  A connection or a
 * request in flight has to end: whatever could have ended one wakes the task
 * in the next pass of the event loop, when what has ended is idle or closed;
 * what ends on another worker, or with it, is looked for by a timer.
 */


#include "task/ngx_agent_task.h"


#define NGX_AGENT_WAIT_TICK  20             /* ms */
#define NGX_AGENT_SILENCE    1000           /* ms: a connection is idle that
                                               has sent nothing for so long */


static ngx_uint_t ngx_agent_wait_take(ngx_agent_wait_t *w);
static ngx_uint_t ngx_agent_wait_close_idle(ngx_agent_task_t *task);
static ngx_uint_t ngx_agent_wait_half(ngx_agent_task_t *task);
static void ngx_agent_wait_event(ngx_event_t *ev);
static void ngx_agent_wait_next(ngx_agent_task_t *task, ngx_queue_t *queue);
static void ngx_agent_wait_expired(ngx_queue_t *queue);
static void ngx_agent_wait_done(ngx_agent_wait_t *w, ngx_int_t rc);
static ngx_msec_t ngx_agent_wait_timer(ngx_agent_task_t *task);


/* nginx logs the fd of a timer's connection */

static ngx_connection_t  ngx_agent_wait_none = { .fd = (ngx_socket_t) -1 };


void
ngx_agent_wait_init(ngx_agent_task_t *task)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_AGENT_WAITS; i++) {
        ngx_queue_init(&task->waits[i]);
    }

    task->wake.handler = ngx_agent_wait_event;
    task->wake.data = &ngx_agent_wait_none;
    task->wake.log = ngx_cycle->log;
}


ngx_int_t
ngx_agent_wait(ngx_agent_wait_t *w, ngx_agent_task_t *task,
    ngx_agent_wait_e kind, ngx_msec_t left)
{
    ngx_msec_int_t  turn;

    w->task = task;
    w->kind = kind;
    w->began = ngx_current_msec;
    w->left = left;
    w->refused = 0;

    turn = 0;

    if (kind != NGX_AGENT_WAIT_REQUEST) {
        turn = ngx_agent_share_turn(task, kind == NGX_AGENT_WAIT_HANDSHAKE
                                          ? NGX_AGENT_TURN_HANDSHAKE
                                          : NGX_AGENT_TURN_REQUEST, left);
    }

    if (turn == 0 && ngx_queue_empty(&task->waits[kind])
        && ngx_agent_wait_take(w))
    {
        return NGX_OK;
    }

    /* who would have to wait for too long takes no turn, and waits in vain */

    w->refused = (turn < 0);
    w->due = w->began + (turn < 0 ? 0 : turn);

    ngx_queue_insert_tail(&task->waits[kind], &w->queue);

    if (!task->wake.timer_set) {
        ngx_add_timer(&task->wake, ngx_agent_wait_timer(task));
    }

    ngx_log_debug4(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "agent: task %*s waits, kind %ui, turn in %M ms",
                   (size_t) PROTOCOL_ID_LEN, task->id, (ngx_uint_t) kind,
                   turn);

    return NGX_AGAIN;
}


void
ngx_agent_wait_leave(ngx_agent_wait_t *w)
{
    if (w->queue.next) {
        ngx_queue_remove(&w->queue);
        w->queue.next = NULL;

        ngx_agent_wait_wake(w->task);
    }
}


ngx_agent_reason_e
ngx_agent_wait_reason(ngx_agent_wait_t *w)
{
    if (w->kind == NGX_AGENT_WAIT_HANDSHAKE) {
        return NGX_AGENT_REASON_HANDSHAKES;
    }

    return (w->refused || w->kind == NGX_AGENT_WAIT_RATE)
           ? NGX_AGENT_REASON_RATE : NGX_AGENT_REASON_CONNECTIONS;
}


void
ngx_agent_wait_wake(ngx_agent_task_t *task)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_AGENT_WAITS; i++) {

        if (!ngx_queue_empty(&task->waits[i])) {
            ngx_post_event(&task->wake, &ngx_posted_next_events);
            return;
        }
    }
}


void
ngx_agent_wait_served(ngx_agent_connection_t *ac)
{
    ac->served = 1;
    ac->since = ngx_current_msec;

    ngx_queue_remove(&ac->queue);
    ngx_queue_insert_tail(&ac->task->connections, &ac->queue);

    ngx_agent_wait_wake(ac->task);
}


/* Whoever's turn it is takes what it needs, if that is there. */

static ngx_uint_t
ngx_agent_wait_take(ngx_agent_wait_t *w)
{
    ngx_uint_t         half;
    ngx_agent_task_t  *task;

    task = w->task;

    switch (w->kind) {

    case NGX_AGENT_WAIT_CONNECTION:

        return ngx_agent_share_take(task, NGX_AGENT_HELD_CONNECTIONS, 0)
               || (ngx_agent_wait_close_idle(task)
                   && ngx_agent_share_take(task, NGX_AGENT_HELD_CONNECTIONS,
                                           0));

    case NGX_AGENT_WAIT_REQUEST:

        /*
         * A request that is half received has its place beside the streams of
         * HTTP/2; they are looked at only where there could be too many.
         */

        half = 0;

        if (w->is_stream
            && ngx_agent_share_room(task, NGX_AGENT_HELD_REQUESTS)
               <= task->connections_count)
        {
            half = ngx_agent_wait_half(task);
        }

        return ngx_agent_share_take(task, NGX_AGENT_HELD_REQUESTS, half);

    default:
        return 1;
    }
}


/* Closes the one that was idle longest: 1, or 0 where there is none. */

static ngx_uint_t
ngx_agent_wait_close_idle(ngx_agent_task_t *task)
{
    char                     byte;
    ngx_uint_t               i, n;
    ngx_queue_t             *q;
    ngx_connection_t        *c;
    ngx_agent_connection_t  *ac;

    ngx_agent_queue_each(q, &task->connections) {
        ac = ngx_queue_data(q, ngx_agent_connection_t, queue);
        c = ac->connection;

        /*
         * Core makes a connection reusable while it waits for the first byte
         * of a request, which may have come in this pass of the event loop.
         */

        if (!ac->held || !c->reusable
            || (!ac->served
                && ngx_current_msec - ac->since < NGX_AGENT_SILENCE)
            || recv(c->fd, &byte, 1, MSG_PEEK|MSG_DONTWAIT) > 0)
        {
            continue;
        }

        /* that of HTTP/2 says goodbye first, and lingers until told again */

        n = task->connections_count;

        for (i = 0; i < 3 && n == task->connections_count; i++) {
            c->close = 1;
            c->read->handler(c->read);
        }

        return n != task->connections_count;
    }

    return 0;
}


static ngx_uint_t
ngx_agent_wait_half(ngx_agent_task_t *task)
{
    ngx_uint_t               n;
    ngx_queue_t             *q;
    ngx_connection_t        *c;
    ngx_agent_connection_t  *ac;

    n = 0;

    ngx_agent_queue_each(q, &task->connections) {
        ac = ngx_queue_data(q, ngx_agent_connection_t, queue);
        c = ac->connection;

        /* core makes a connection reusable until the first byte */

        n += (ac->held && !ac->has_streams && ac->requests == 0
              && !c->reusable && (c->ssl == NULL || c->ssl->handshaked));
    }

    return n;
}


static void
ngx_agent_wait_event(ngx_event_t *ev)
{
    ngx_uint_t         i;
    ngx_agent_task_t  *task;

    task = ngx_queue_data(ev, ngx_agent_task_t, wake);

    task->references++;                     /* handlers may end all others */

    if (ev->timedout) {
        ngx_agent_share_lost(task);
    }

    for (i = 0; i < NGX_AGENT_WAITS; i++) {
        ngx_agent_wait_next(task, &task->waits[i]);

        if (ev->timedout) {
            ngx_agent_wait_expired(&task->waits[i]);
        }
    }

    ev->timedout = 0;

    for (i = 0; i < NGX_AGENT_WAITS; i++) {

        if (!ngx_queue_empty(&task->waits[i])) {
            ngx_add_timer(ev, ngx_agent_wait_timer(task));
            break;
        }
    }

    ngx_agent_task_release(task);
}


static void
ngx_agent_wait_next(ngx_agent_task_t *task, ngx_queue_t *queue)
{
    ngx_agent_wait_t  *w;

    while (!ngx_queue_empty(queue)) {

        w = ngx_queue_data(ngx_queue_head(queue), ngx_agent_wait_t, queue);

        if (w->refused || (ngx_msec_int_t) (ngx_current_msec - w->due) < 0
            || !ngx_agent_wait_take(w))
        {
            return;
        }

        ngx_agent_wait_done(w, NGX_OK);
    }
}


static void
ngx_agent_wait_expired(ngx_queue_t *queue)
{
    ngx_queue_t       *q;
    ngx_agent_wait_t  *w;

    for (q = ngx_queue_head(queue); q != ngx_queue_sentinel(queue); /* void */)
    {
        w = ngx_queue_data(q, ngx_agent_wait_t, queue);
        q = ngx_queue_next(q);

        if ((ngx_msec_int_t) (ngx_current_msec - w->began - w->left) >= 0) {
            ngx_agent_wait_done(w, NGX_BUSY);

            q = ngx_queue_head(queue);      /* the others may have left */
        }
    }
}


static void
ngx_agent_wait_done(ngx_agent_wait_t *w, ngx_int_t rc)
{
    ngx_queue_remove(&w->queue);
    w->queue.next = NULL;

    w->rc = rc;
    w->handler(w);
}


/* When the first in one of the queues may go on, at the latest in a tick. */

static ngx_msec_t
ngx_agent_wait_timer(ngx_agent_task_t *task)
{
    ngx_msec_t         timer;
    ngx_uint_t         i;
    ngx_msec_int_t     due;
    ngx_agent_wait_t  *w;

    timer = NGX_AGENT_WAIT_TICK;

    for (i = 0; i < NGX_AGENT_WAITS; i++) {

        if (ngx_queue_empty(&task->waits[i])) {
            continue;
        }

        w = ngx_queue_data(ngx_queue_head(&task->waits[i]), ngx_agent_wait_t,
                           queue);

        due = (ngx_msec_int_t) (w->due - ngx_current_msec);

        if (due > 0 && (ngx_msec_t) due < timer) {
            timer = due;
        }
    }

    return timer;
}
