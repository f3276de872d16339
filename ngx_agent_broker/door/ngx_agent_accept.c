/*
 * Accepts connections on a box's doors.  The listening socket determines the
 * task of a connection, so no byte that a box sends can change it.
 *
 * The launcher shares the listening sockets and may be hostile to its
 * neighbours.  Hence:
 *
 *   - it can clear O_NONBLOCK and take the pending connection before our
 *     accept4(), which then blocks: a timer interrupts it after 2 ms, and
 *     EINTR proves the attack;
 *   - its shutdown() of the listener makes it readable for ever: accept4()
 *     fails with EINVAL, and the door is closed;
 *   - accepted connections inherit the socket options it set: they are reset.
 */


#include "door/ngx_agent_door.h"


#define NGX_AGENT_ACCEPT_BATCH   16
#define NGX_AGENT_ACCEPT_PAUSE   500    /* ms, when descriptors run out */


static void ngx_agent_accept_admit(ngx_agent_connection_t *ac);
static void ngx_agent_accept_waited(ngx_agent_wait_t *w);
static void ngx_agent_accept_resume(ngx_agent_task_t *task);
static ngx_msec_t ngx_agent_accept_age(ngx_socket_t s);
static void ngx_agent_accept_pause(ngx_agent_task_t *task, ngx_uint_t pause);
static void ngx_agent_accept_connection(ngx_agent_door_t *door, ngx_socket_t s,
    ngx_sockaddr_t *sa, socklen_t socklen);
static void ngx_agent_accept_cleanup(void *data);


void
ngx_agent_accept(ngx_event_t *rev)
{
    ngx_err_t          err;
    ngx_uint_t         i, n, room, is_empty;
    ngx_agent_door_t  *door;
    ngx_connection_t  *lc;

    struct {
        ngx_socket_t    s;
        socklen_t       socklen;
        ngx_sockaddr_t  sa;
    } accepted[NGX_AGENT_ACCEPT_BATCH];

    lc = rev->data;
    door = ngx_agent_door_of(lc->listening);

    if (rev->timedout) {
        rev->timedout = 0;

        if (ngx_add_event(rev, NGX_READ_EVENT, 0) == NGX_ERROR) {
            ngx_agent_task_close_door(door);
        }

        return;
    }

    rev->ready = 0;

    if (ngx_agent_unread(rev)) {
        return;
    }

    if (door->task->paused) {               /* since this pass began */

        if (rev->active) {
            (void) ngx_del_event(rev, NGX_READ_EVENT, 0);
        }

        return;
    }

    err = 0;
    is_empty = 0;
    room = ngx_agent_share_room(door->task, NGX_AGENT_HELD_CONNECTIONS);
    room = ngx_max(room, 1);

    ngx_agent_given_interrupt(1);

    for (n = 0; n < ngx_min(room, NGX_AGENT_ACCEPT_BATCH); n++) {

        accepted[n].socklen = sizeof(ngx_sockaddr_t);
        accepted[n].s = accept4(lc->fd, &accepted[n].sa.sockaddr,
                                &accepted[n].socklen,
                                SOCK_NONBLOCK|SOCK_CLOEXEC);

        if (accepted[n].s == (ngx_socket_t) -1) {
            err = ngx_socket_errno;
            break;
        }
    }

    ngx_agent_given_interrupt(0);

    switch (err) {

    case NGX_EAGAIN:
        is_empty = 1;
        break;

    case 0:
    case NGX_ECONNABORTED:
        break;

    case NGX_EMFILE:
    case NGX_ENFILE:
    case NGX_ENOMEM:
    case ENOBUFS:
        ngx_log_error(NGX_LOG_CRIT, rev->log, err,
                      "accept4() on a box's door failed");

        (void) ngx_del_event(rev, NGX_READ_EVENT, 0);
        ngx_add_timer(rev, NGX_AGENT_ACCEPT_PAUSE);

        break;

    default:
        ngx_agent_tampered(door, err);
        break;
    }

    /* a connection's handler may end the task: this reference keeps it */

    door->task->references++;

    for (i = 0; i < n; i++) {
        ngx_agent_accept_connection(door, accepted[i].s, &accepted[i].sa,
                                    accepted[i].socklen);
    }

    /* what comes from here on is accepted at once */

    if (is_empty) {
        door->is_late = 0;
    }

    if (!ngx_queue_empty(&door->task->waits[NGX_AGENT_WAIT_CONNECTION])) {
        ngx_agent_accept_pause(door->task, 1);
    }

    ngx_agent_task_release(door->task);
}


/*
 * Lets the connection in, if its task may have one more, and if it is the
 * task's turn: what comes in costs as much as a request, and its first one is
 * paid with it.  Else it waits, and the doors with it: those behind it are in
 * the kernel's queue, unread.
 */

static void
ngx_agent_accept_admit(ngx_agent_connection_t *ac)
{
    ngx_msec_t  left;

    left = NGX_AGENT_WAIT_MAX;

    if (ac->door->is_late) {
        left -= ngx_agent_accept_age(ac->connection->fd);
    }

    ac->wait.handler = ngx_agent_accept_waited;
    ac->wait.data = ac;
    ac->waited = NGX_AGENT_WAIT_MAX - left;

    if (ngx_agent_wait(&ac->wait, ac->task, NGX_AGENT_WAIT_CONNECTION, left)
        == NGX_OK)
    {
        ac->held = 1;
        ac->paid = 1;
        ac->door->ls.handler(ac->connection);
    }
}


static void
ngx_agent_accept_waited(ngx_agent_wait_t *w)
{
    ngx_agent_task_t        *task;
    ngx_agent_connection_t  *ac;

    ac = w->data;
    task = ac->task;

    ac->waited += ngx_current_msec - w->began;

    if (w->rc == NGX_OK) {
        ac->held = 1;
        ac->paid = 1;
        ac->door->ls.handler(ac->connection);

    } else {
        ngx_agent_first_bytes_late(ac, ngx_agent_wait_reason(w));
    }

    ngx_agent_accept_resume(task);
}


/* When none waits that was accepted, the doors accept again. */

static void
ngx_agent_accept_resume(ngx_agent_task_t *task)
{
    if (task->paused && !task->ended
        && ngx_queue_empty(&task->waits[NGX_AGENT_WAIT_CONNECTION]))
    {
        ngx_agent_accept_pause(task, 0);
    }
}


/* How long the connection, or what it sent last, was in the kernel, in ms. */

static ngx_msec_t
ngx_agent_accept_age(ngx_socket_t s)
{
    socklen_t        len;
    struct tcp_info  info;

    len = sizeof(struct tcp_info);

    if (getsockopt(s, IPPROTO_TCP, TCP_INFO, &info, &len) == -1) {
        return 0;
    }

    return ngx_min(info.tcpi_last_data_recv, NGX_AGENT_WAIT_MAX);
}


/* No door of the task accepts, or all do again. */

static void
ngx_agent_accept_pause(ngx_agent_task_t *task, ngx_uint_t pause)
{
    ngx_uint_t         i;
    ngx_connection_t  *c;

    task->paused = (pause != 0);

    ngx_log_debug4(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "agent: doors %s, task %*s has %ui connections",
                   pause ? "paused" : "resumed", (size_t) PROTOCOL_ID_LEN,
                   task->id, task->connections_count);

    for (i = 0; i < task->doors_count; i++) {

        c = task->doors[i].connection;

        if (c == NULL || task->doors[i].kind == NGX_AGENT_DOOR_DNS_UDP) {
            continue;
        }

        if (pause) {
            task->doors[i].is_late = 1;

            if (c->read->active) {
                (void) ngx_del_event(c->read, NGX_READ_EVENT, 0);
            }

        } else if (!c->read->active && !c->read->timer_set
                   && ngx_add_event(c->read, NGX_READ_EVENT, 0) == NGX_ERROR)
        {
            ngx_agent_task_close_door(&task->doors[i]);
        }
    }
}


/* Does what ngx_event_accept() does for core's own listeners. */

static void
ngx_agent_accept_connection(ngx_agent_door_t *door, ngx_socket_t s,
    ngx_sockaddr_t *sa, socklen_t socklen)
{
    int                      zero;
    ngx_log_t               *log;
    ngx_pool_t              *pool;
    struct linger            linger;
    ngx_listening_t         *ls;
    ngx_connection_t        *c;
    ngx_pool_cleanup_t      *cln;
    ngx_agent_connection_t  *ac;
    ngx_http_core_loc_conf_t  *clcf;

    ls = &door->ls;

    linger.l_onoff = 0;
    linger.l_linger = 0;
    zero = -1;

    (void) setsockopt(s, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    (void) setsockopt(s, SOL_SOCKET, SO_PEEK_OFF, &zero, sizeof(zero));

#if (NGX_STAT_STUB)
    (void) ngx_atomic_fetch_add(ngx_stat_accepted, 1);
#endif

    pool = ngx_create_pool(ls->pool_size, ls->logp);
    c = pool ? ngx_get_connection(s, ls->logp) : NULL;

    if (c == NULL) {

        if (pool) {
            ngx_destroy_pool(pool);
        }

        (void) ngx_close_socket(s);
        return;
    }

#if (NGX_STAT_STUB)
    (void) ngx_atomic_fetch_add(ngx_stat_active, 1);
#endif

    c->type = SOCK_STREAM;
    c->pool = pool;

    c->sockaddr = ngx_palloc(c->pool, socklen);
    c->addr_text.data = ngx_pnalloc(c->pool, ls->addr_text_max_len);
    log = ngx_palloc(c->pool, sizeof(ngx_log_t));
    ac = ngx_pcalloc(c->pool, sizeof(ngx_agent_connection_t));
    cln = ngx_pool_cleanup_add(c->pool, 0);

    if (c->sockaddr == NULL || c->addr_text.data == NULL || log == NULL
        || ac == NULL || cln == NULL)
    {
        ngx_http_close_connection(c);
        return;
    }

    ngx_memcpy(c->sockaddr, sa, socklen);

    *log = ls->log;
    log->handler = NULL;

    c->recv = ngx_recv;
    c->send = ngx_send;
    c->recv_chain = ngx_recv_chain;
    c->send_chain = ngx_send_chain;

    c->log = log;
    c->pool->log = log;

    /* before there is a request: core sets the same again with it */

    clcf = door->core->ctx->loc_conf[ngx_http_core_module.ctx_index];

    ngx_set_connection_log(c, clcf->error_log);

    ac->logged.connection = c;
    log->data = &ac->logged;

    ac->ls = *ls;

    c->socklen = socklen;
    c->listening = &ac->ls;
    c->local_sockaddr = ls->sockaddr;
    c->local_socklen = ls->socklen;

    c->write->ready = 1;
    c->read->log = log;
    c->write->log = log;

    c->number = ngx_atomic_fetch_add(ngx_connection_counter, 1);
    c->start_time = ngx_current_msec;

    c->addr_text.len = ngx_sock_ntop(c->sockaddr, c->socklen,
                                     c->addr_text.data,
                                     ls->addr_text_max_len, 0);

    ac->connection = c;
    ac->door = door;
    ac->task = door->task;
    ac->since = ngx_current_msec;
    door->task->references++;
    ngx_queue_insert_tail(&door->task->connections, &ac->queue);
    door->task->connections_count++;

    cln->handler = ngx_agent_accept_cleanup;
    cln->data = ac;

#if (NGX_STAT_STUB)
    (void) ngx_atomic_fetch_add(ngx_stat_handled, 1);
#endif

    ngx_log_debug6(NGX_LOG_DEBUG_HTTP, log, 0,
                   "agent: *%uA accepted at %s door port %ui, task %*s, %V",
                   c->number, ngx_agent_task_door_name(door->kind),
                   (ngx_uint_t) door->port, (size_t) PROTOCOL_ID_LEN,
                   door->task->id, &c->addr_text);

    ngx_agent_accept_admit(ac);
}


static void
ngx_agent_accept_cleanup(void *data)
{
    ngx_agent_connection_t *ac = data;

    ngx_agent_task_t  *task;

    task = ac->task;

    /* what is logged from here on is of no task: this may free it */

    ac->connection->log->handler = NULL;
    ac->connection->log->data = NULL;

    ngx_queue_remove(&ac->queue);
    task->connections_count--;

    ngx_agent_wait_leave(&ac->wait);

    if (ac->held) {
        ngx_agent_share_give(task, NGX_AGENT_HELD_CONNECTIONS);
        ngx_agent_wait_wake(task);
    }

    ngx_agent_accept_resume(task);

    if (task->idle && ngx_queue_empty(&task->connections)) {
        task->idle(task);
    }

    ngx_agent_task_release(task);
}
