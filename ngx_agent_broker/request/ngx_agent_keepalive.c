/*
 * Upstream connections and TLS sessions that later requests can use again.
 *
 * nginx's own cache finds a connection only by its address, and would give one
 * task's connection, verified for one host, to another task's request to
 * another host at the same address.  Here connections and sessions are found
 * by everything that was judged: task, host, port, TLS, and the generation of
 * the policies (which implies the trust store).  They end with their task.
 *
 * No request is sent a second time when a kept connection turns out to be
 * closed, so it is not kept for long: 4 seconds, since the servers of some
 * languages close after 5, or what the answer's Keep-Alive says, less one.  It
 * is looked at before it is used.
 */


#include "request/ngx_agent_request.h"

#include <openssl/ssl.h>


#define NGX_AGENT_KEEPALIVE_MAX       256       /* connections, in a worker */
#define NGX_AGENT_KEEPALIVE_TASK_MAX  64        /* of one task */
#define NGX_AGENT_KEEPALIVE_IDLE      4000      /* ms */
#define NGX_AGENT_KEEPALIVE_IDLE_MAX  60000
#define NGX_AGENT_KEEPALIVE_TICK      100       /* at most so often, ms */
#define NGX_AGENT_KEEPALIVE_REQUESTS  100000    /* on one connection */
#define NGX_AGENT_SESSIONS_MAX    256


typedef struct {
    u_char             task[PROTOCOL_ID_LEN];
    uint64_t           generation;
    in_port_t          port;
    uint8_t            tls;
    uint8_t            host_len;
    u_char             host[AUTHORITY_HOST_MAX];
} ngx_agent_keepalive_key_t;


/* keys are compared as bytes */

_Static_assert(offsetof(ngx_agent_keepalive_key_t, host)
               == PROTOCOL_ID_LEN + sizeof(uint64_t) + sizeof(in_port_t) + 2,
               "a key has padding");


typedef struct {
    ngx_queue_t                queue;       /* most recently used first */
    ngx_agent_keepalive_key_t  key;
    ngx_agent_task_t          *task;        /* of a connection */
    ngx_connection_t          *connection;  /* either of these two; of its
                                               pool, or allocated */
    ngx_ssl_session_t     *session;
    address_t              address;         /* of its upstream */
    ngx_msec_t             until;           /* it is used */
} ngx_agent_keepalive_t;


static void ngx_agent_keepalive_drop(ngx_agent_task_t *task);
static void ngx_agent_keepalive_drop_all(ngx_queue_t *queue,
    ngx_agent_task_t *task, void (*drop)(ngx_agent_keepalive_t *item));
static void ngx_agent_keepalive_fit(ngx_agent_task_t *task);
static ngx_agent_keepalive_t *ngx_agent_keepalive_oldest(
    ngx_agent_task_t *task);
static void ngx_agent_keepalive_key(ngx_agent_ctx_t *ctx,
    ngx_agent_keepalive_key_t *key);
static ngx_agent_keepalive_t *ngx_agent_keepalive_find(ngx_queue_t *queue,
    ngx_agent_ctx_t *ctx, address_t **judged);
static address_t *ngx_agent_keepalive_judged(ngx_agent_ctx_t *ctx,
    ngx_agent_keepalive_t *item);
static ngx_msec_t ngx_agent_keepalive_time(ngx_agent_ctx_t *ctx);
static ngx_uint_t ngx_agent_keepalive_is_silent(ngx_connection_t *c);
static void ngx_agent_keepalive_idle(ngx_event_t *ev);
static void ngx_agent_keepalive_expire(ngx_event_t *ev);
static void ngx_agent_keepalive_take(ngx_agent_keepalive_t *item);
static void ngx_agent_keepalive_remove(ngx_agent_keepalive_t *item);
static void ngx_agent_keepalive_forget(ngx_agent_keepalive_t *item);
static void ngx_agent_keepalive_close(ngx_connection_t *c);


static ngx_queue_t  ngx_agent_connections = {
    &ngx_agent_connections, &ngx_agent_connections
};
static ngx_queue_t  ngx_agent_sessions = {
    &ngx_agent_sessions, &ngx_agent_sessions
};
static ngx_uint_t   ngx_agent_connections_count;
static ngx_uint_t   ngx_agent_sessions_count;

/* nginx logs the fd of a timer's connection */

static ngx_connection_t  ngx_agent_connections_none = {
    .fd = (ngx_socket_t) -1
};
static ngx_event_t  ngx_agent_connections_timer = {
    .data = &ngx_agent_connections_none,
    .handler = ngx_agent_keepalive_expire,
    .cancelable = 1
};


void
ngx_agent_keepalive_prefer(ngx_agent_ctx_t *ctx)
{
    address_t  *a, first;

    if (ngx_agent_keepalive_find(&ngx_agent_connections, ctx, &a)
        && a != ctx->addresses)
    {
        first = ctx->addresses[0];
        ctx->addresses[0] = *a;
        *a = first;
    }
}


/* Sets pc to a kept connection, and returns its address; or NULL. */

address_t *
ngx_agent_keepalive_get(ngx_peer_connection_t *pc, ngx_agent_ctx_t *ctx)
{
    address_t              *a;
    ngx_connection_t       *c;
    ngx_agent_keepalive_t  *item;

    for ( ;; ) {

        item = ngx_agent_keepalive_find(&ngx_agent_connections, ctx, &a);
        if (item == NULL) {
            ngx_agent_keepalive_fit(ctx->task);
        return NULL;
        }

        c = item->connection;

        if ((ngx_msec_int_t) (item->until - ngx_current_msec) > 0
            && ngx_agent_keepalive_is_silent(c))
        {
            break;
        }

        ngx_agent_keepalive_remove(item);
    }

    ngx_agent_keepalive_take(item);
    ctx->reused = item;
    ctx->written = c->ssl ? BIO_number_written(SSL_get_wbio(
                                                   c->ssl->connection)) : 0;

    c->idle = 0;
    c->sent = 0;
    c->data = NULL;
    c->log = pc->log;
    c->read->log = pc->log;
    c->write->log = pc->log;
    c->pool->log = pc->log;

    pc->connection = c;
    pc->cached = 1;

    return a;
}


/* Keeps pc's connection if a later request may use it. */

void
ngx_agent_keepalive_put(ngx_peer_connection_t *pc, ngx_agent_ctx_t *ctx,
    ngx_uint_t state)
{
    ngx_msec_t              time;
    ngx_uint_t              max;
    ngx_connection_t       *c;
    ngx_agent_keepalive_t  *item;
    ngx_http_upstream_t    *u;

    c = pc->connection;
    u = ctx->http->upstream;
    time = ngx_agent_keepalive_time(ctx);

    if ((state & NGX_PEER_FAILED) || c == NULL || c->read->eof
        || c->read->error || c->read->timedout || c->write->error
        || c->write->timedout || !u->keepalive || !u->request_body_sent
        || c->requests >= NGX_AGENT_KEEPALIVE_REQUESTS || ctx->task->ended
        || ngx_terminate || ngx_exiting || time == 0 || ctx->spent
        || (c->ssl && SSL_has_pending(c->ssl->connection))
        || ngx_handle_read_event(c->read, 0) != NGX_OK)
    {
        return;
    }

    if (pc->cached) {
        item = ctx->reused;                 /* its key is this request's */

    } else if (ctx->dialled_by != ctx->set->generation) {
        return;                             /* verified by older policies */

    } else {
        item = ngx_palloc(c->pool, sizeof(ngx_agent_keepalive_t));
        if (item == NULL) {
            return;
        }

        ngx_agent_keepalive_key(ctx, &item->key);
    }

    /*
     * an upstream that did not read the body as one would read the next
     * request out of it, with its credential
     */

    if (c->sent > (off_t) ctx->head_size && !ctx->rule->reuse_after_body) {
        return;
    }

    /* kept connections leave most of the worker's connections to others */

    max = ngx_cycle->connection_n / 4;
    max = ngx_max(2, ngx_min(max, NGX_AGENT_KEEPALIVE_MAX));

    if (ctx->task->kept >= ngx_min(NGX_AGENT_KEEPALIVE_TASK_MAX, max / 2)) {
        ngx_agent_keepalive_remove(ngx_agent_keepalive_oldest(ctx->task));

    } else if (ngx_agent_connections_count >= max) {
        ngx_agent_keepalive_remove(ngx_agent_keepalive_oldest(NULL));
    }

    item->task = ctx->task;
    ctx->task->kept++;
    ctx->task->drop = ngx_agent_keepalive_drop;

    item->connection = c;
    item->session = NULL;
    item->address = *ctx->named;
    item->until = ngx_current_msec + time;

    if (!ngx_agent_connections_timer.timer_set
        || (ngx_msec_int_t) (item->until
                             - ngx_agent_connections_timer.timer.key) < 0)
    {
        ngx_agent_connections_timer.log = ngx_cycle->log;
        ngx_add_timer(&ngx_agent_connections_timer, time);
    }

    ngx_queue_insert_head(&ngx_agent_connections, &item->queue);
    ngx_agent_connections_count++;

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, pc->log, 0,
                   "agent: connection to %V kept, fd %d", &ctx->peer, c->fd);

    pc->connection = NULL;

    c->read->delayed = 0;

    if (c->read->timer_set) {
        ngx_del_timer(c->read);
    }

    if (c->write->timer_set) {
        ngx_del_timer(c->write);
    }

    c->write->handler = ngx_http_empty_handler;
    c->read->handler = ngx_agent_keepalive_idle;

    c->data = item;
    c->idle = 1;                            /* a worker that exits closes it */
    c->log = ngx_cycle->log;
    c->read->log = ngx_cycle->log;
    c->write->log = ngx_cycle->log;
    c->pool->log = ngx_cycle->log;

    if (c->read->ready) {
        ngx_agent_keepalive_idle(c->read);
    }
}


/* A session for a new connection, or NULL; this file still owns it. */

ngx_ssl_session_t *
ngx_agent_keepalive_session_get(ngx_agent_ctx_t *ctx)
{
    ngx_agent_keepalive_t  *item;

    item = ngx_agent_keepalive_find(&ngx_agent_sessions, ctx, NULL);
    if (item == NULL) {
        return NULL;
    }

    ngx_queue_remove(&item->queue);
    ngx_queue_insert_head(&ngx_agent_sessions, &item->queue);

    return item->session;
}


/* Keeps the session, and owns it from here on. */

void
ngx_agent_keepalive_session_put(ngx_agent_ctx_t *ctx,
    ngx_ssl_session_t *session)
{
    ngx_queue_t            *q;
    ngx_agent_keepalive_t  *item;

    if (ctx->dialled_by != ctx->set->generation) {
        ngx_ssl_free_session(session);
        return;
    }

    if (ngx_agent_keepalive_session_get(ctx)) {

        q = ngx_queue_head(&ngx_agent_sessions);
        item = ngx_queue_data(q, ngx_agent_keepalive_t, queue);

        ngx_ssl_free_session(item->session);
        item->session = session;

        return;
    }

    item = ngx_calloc(sizeof(ngx_agent_keepalive_t), ngx_cycle->log);

    if (item == NULL) {
        ngx_ssl_free_session(session);
        return;
    }

    if (ngx_agent_sessions_count == NGX_AGENT_SESSIONS_MAX) {
        q = ngx_queue_last(&ngx_agent_sessions);
        ngx_agent_keepalive_forget(ngx_queue_data(q, ngx_agent_keepalive_t,
                                                  queue));
    }

    ngx_agent_keepalive_key(ctx, &item->key);
    item->session = session;
    ctx->task->drop = ngx_agent_keepalive_drop;

    ngx_queue_insert_head(&ngx_agent_sessions, &item->queue);
    ngx_agent_sessions_count++;
}


/* Called when the task has ended. */

static void
ngx_agent_keepalive_drop(ngx_agent_task_t *task)
{
    ngx_agent_keepalive_drop_all(&ngx_agent_connections, task,
                                 ngx_agent_keepalive_remove);
    ngx_agent_keepalive_drop_all(&ngx_agent_sessions, task,
                                 ngx_agent_keepalive_forget);
}


static void
ngx_agent_keepalive_drop_all(ngx_queue_t *queue, ngx_agent_task_t *task,
    void (*drop)(ngx_agent_keepalive_t *item))
{
    ngx_queue_t            *q, *next;
    ngx_agent_keepalive_t  *item;

    for (q = ngx_queue_head(queue);
         q != ngx_queue_sentinel(queue);
         q = next)
    {
        next = ngx_queue_next(q);
        item = ngx_queue_data(q, ngx_agent_keepalive_t, queue);

        if (ngx_memcmp(item->key.task, task->id, PROTOCOL_ID_LEN) == 0) {
            drop(item);
        }
    }
}


/* The one kept longest, of a task or (NULL) of all; there must be one. */

/*
 * One more is dialled.  A task has no more upstream connections than it may
 * have requests in flight, with those that are kept.
 */

static void
ngx_agent_keepalive_fit(ngx_agent_task_t *task)
{
    if (task->kept
        && task->kept > ngx_agent_share_room(task, NGX_AGENT_HELD_REQUESTS))
    {
        ngx_agent_keepalive_remove(ngx_agent_keepalive_oldest(task));
    }
}


static ngx_agent_keepalive_t *
ngx_agent_keepalive_oldest(ngx_agent_task_t *task)
{
    ngx_queue_t            *q;
    ngx_agent_keepalive_t  *item;

    for (q = ngx_queue_last(&ngx_agent_connections);
         /* void */ ;
         q = ngx_queue_prev(q))
    {
        item = ngx_queue_data(q, ngx_agent_keepalive_t, queue);

        if (task == NULL || item->task == task) {
            return item;
        }
    }
}


static void
ngx_agent_keepalive_key(ngx_agent_ctx_t *ctx, ngx_agent_keepalive_key_t *key)
{
    ngx_memcpy(key->task, ctx->task->id, PROTOCOL_ID_LEN);
    key->generation = ctx->set->generation;
    key->port = ctx->port;
    key->tls = ctx->tls;
    key->host_len = ctx->target.authority.host_len;
    ngx_memcpy(key->host, ctx->target.authority.host, key->host_len);
}


/* Of a connection also *judged: its address, which the request may use. */

static ngx_agent_keepalive_t *
ngx_agent_keepalive_find(ngx_queue_t *queue, ngx_agent_ctx_t *ctx,
    address_t **judged)
{
    size_t                      len;
    ngx_queue_t                *q;
    ngx_agent_keepalive_t      *item;
    ngx_agent_keepalive_key_t   key;

    ngx_agent_keepalive_key(ctx, &key);

    len = offsetof(ngx_agent_keepalive_key_t, host) + key.host_len;

    ngx_agent_queue_each(q, queue) {
        item = ngx_queue_data(q, ngx_agent_keepalive_t, queue);

        if (ngx_memcmp(&item->key, &key, len) != 0) {
            continue;
        }

        if (judged) {
            *judged = ngx_agent_keepalive_judged(ctx, item);
        }

        if (judged == NULL || *judged) {
            return item;
        }
    }

    return NULL;
}


/* The item's address among those the request may be sent to, or NULL. */

static address_t *
ngx_agent_keepalive_judged(ngx_agent_ctx_t *ctx, ngx_agent_keepalive_t *item)
{
    ngx_uint_t   i;
    address_t   *a;

    for (i = 0; i < ctx->addresses_count; i++) {

        a = &ctx->addresses[i];

        if (a->v6 == item->address.v6
            && ngx_memcmp(a->bytes, item->address.bytes, a->v6 ? 16 : 4) == 0)
        {
            return a;
        }
    }

    return NULL;
}


/* How long the connection of an answer is kept: 0, it is not. */

static ngx_msec_t
ngx_agent_keepalive_time(ngx_agent_ctx_t *ctx)
{
    ngx_msec_t  time;

    if (ctx->answer.keep == 0) {
        return NGX_AGENT_KEEPALIVE_IDLE;
    }

    time = (ngx_msec_t) (ctx->answer.keep - 1) * 1000;

    return ngx_min(time, NGX_AGENT_KEEPALIVE_IDLE_MAX);
}


/* Has it neither an end, nor bytes that answer no request? */

static ngx_uint_t
ngx_agent_keepalive_is_silent(ngx_connection_t *c)
{
    u_char  byte;

    return recv(c->fd, &byte, 1, MSG_PEEK) == -1
           && ngx_socket_errno == NGX_EAGAIN;
}


static void
ngx_agent_keepalive_idle(ngx_event_t *ev)
{
    ngx_connection_t  *c;

    c = ev->data;

    if (!c->close && ngx_agent_keepalive_is_silent(c)) {
        ev->ready = 0;

        if (ngx_handle_read_event(ev, 0) == NGX_OK) {
            return;
        }
    }

    /* it was closed, or has bytes that answer no request: never used again */

    ngx_agent_keepalive_remove(c->data);
}


/*
 * One timer for all of them: with one for each connection, each request would
 * set and delete it.  It is set to the first end that may have come.
 */

static void
ngx_agent_keepalive_expire(ngx_event_t *ev)
{
    ngx_queue_t            *q, *next;
    ngx_msec_int_t          left, least;
    ngx_agent_keepalive_t  *item;

    least = NGX_AGENT_KEEPALIVE_IDLE_MAX;

    for (q = ngx_queue_head(&ngx_agent_connections);
         q != ngx_queue_sentinel(&ngx_agent_connections);
         q = next)
    {
        next = ngx_queue_next(q);
        item = ngx_queue_data(q, ngx_agent_keepalive_t, queue);

        left = (ngx_msec_int_t) (item->until - ngx_current_msec);

        if (left > 0) {
            least = ngx_min(least, left);

        } else {
            ngx_agent_keepalive_remove(item);
        }
    }

    if (!ngx_queue_empty(&ngx_agent_connections)) {
        ngx_add_timer(ev, ngx_max((ngx_msec_t) least,
                                  NGX_AGENT_KEEPALIVE_TICK));
    }
}


static void
ngx_agent_keepalive_take(ngx_agent_keepalive_t *item)
{
    /*
     * The analyzer does not see that a removed item is in no list, and so is
     * never removed again.
     */

    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) see above */
    ngx_queue_remove(&item->queue);
    ngx_agent_connections_count--;
    item->task->kept--;
}


static void
ngx_agent_keepalive_remove(ngx_agent_keepalive_t *item)
{
    ngx_agent_keepalive_take(item);
    ngx_agent_keepalive_close(item->connection);
}


/* Drops a session. */

static void
ngx_agent_keepalive_forget(ngx_agent_keepalive_t *item)
{
    ngx_queue_remove(&item->queue);
    ngx_agent_sessions_count--;
    ngx_ssl_free_session(item->session);
    ngx_free(item);
}


static void
ngx_agent_keepalive_close(ngx_connection_t *c)
{
    if (c->ssl) {
        c->ssl->no_wait_shutdown = 1;
        c->ssl->no_send_shutdown = 1;

        if (ngx_ssl_shutdown(c) == NGX_AGAIN) {
            c->ssl->handler = ngx_agent_keepalive_close;
            return;
        }
    }

    ngx_destroy_pool(c->pool);
    ngx_close_connection(c);
}
