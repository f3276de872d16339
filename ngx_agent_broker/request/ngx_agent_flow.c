/*
 * The bytes of a request as they flow.
 *
 * Every byte is counted before it is passed on.  A task's bytes_up and
 * bytes_down are in shared memory, under the zone's lock: a request takes a
 * slice of what is left in advance, uses it without the lock, and gives the
 * rest back when it ends.  A body of a known length is taken whole, before
 * anything is sent.  So a bound is never passed, whichever workers carry its
 * task's bytes; what was read from the box and will not be sent is counted
 * too.
 *
 *   bytes up     what was read from the box (header and body, with the framing
 *                of it, and what is read of a body after its answer), or what
 *                was given to the upstream, if that is more
 *   bytes down   what was read from the upstream, with the framing
 *
 * The upstream's connection is watched by functions in the place of its recv()
 * and send(); so is the box's, while a body is read from it.
 *
 * An upstream may answer before it has the whole body, and close.  Then sending
 * fails while the answer can still be read: the error ends the sending, and the
 * reading of the box's body, but not the request.  When the answer is complete,
 * core discards what the box still sends; that is bounded here.
 */


#include "request/ngx_agent_request.h"


#define NGX_AGENT_FLOW_SLICE      262144    /* bytes taken in advance */
#define NGX_AGENT_FLOW_LEAST      4096      /* near the bound */
#define NGX_AGENT_FLOW_REST       1048576   /* read of a body that is over */
#define NGX_AGENT_FLOW_REST_TIME  1000      /* ms, the same */
#define NGX_AGENT_FLOW_AGAIN      20        /* ms */


static ngx_int_t ngx_agent_flow_output(void *data, ngx_chain_t *in);
static ngx_agent_ctx_t *ngx_agent_flow_ctx(ngx_connection_t *c);
static ssize_t ngx_agent_flow_recv(ngx_connection_t *c, u_char *buf,
    size_t size);
static void ngx_agent_flow_stopped(ngx_http_request_t *r);
static void ngx_agent_flow_nothing(ngx_http_request_t *r,
    ngx_http_upstream_t *u);
static ssize_t ngx_agent_flow_send(ngx_connection_t *c, u_char *buf,
    size_t size);
static ngx_chain_t *ngx_agent_flow_send_chain(ngx_connection_t *c,
    ngx_chain_t *in, off_t limit);
static uint64_t ngx_agent_flow_size(ngx_chain_t *in);
static void ngx_agent_flow_finalize(ngx_http_request_t *r, ngx_int_t rc);
static ngx_int_t ngx_agent_flow_body(ngx_http_request_t *r, ngx_chain_t *in);
static ssize_t ngx_agent_flow_box_recv(ngx_connection_t *c, u_char *buf,
    size_t size);
static ngx_uint_t ngx_agent_flow_is_over(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx);
static void ngx_agent_flow_box_again(ngx_event_t *ev);
static void ngx_agent_flow_box_cleanup(void *data);


static ngx_http_request_body_filter_pt  ngx_http_next_request_body_filter;


void
ngx_agent_flow_init(void)
{
    ngx_http_next_request_body_filter = ngx_http_top_request_body_filter;
    ngx_http_top_request_body_filter = ngx_agent_flow_body;
}


void
ngx_agent_flow_location(ngx_http_core_loc_conf_t *clcf,
    ngx_http_upstream_conf_t *ucf)
{
    clcf->lingering_time = 2 * NGX_AGENT_FLOW_REST_TIME;    /* by seconds */
    clcf->lingering_timeout = NGX_AGENT_FLOW_REST_TIME;

    /* else a body is no longer sent once its answer has begun */

    ucf->preserve_output = 1;
}


ngx_agent_reason_e
ngx_agent_flow_begin(ngx_http_request_t *r, ngx_agent_ctx_t *ctx)
{
    off_t              length;
    uint64_t           n;
    ngx_buf_t         *b;
    ngx_agent_flow_t  *flow;

    flow = &ctx->flow;
    length = r->headers_in.content_length_n;

    if (length <= 0 && !r->headers_in.chunked) {
        return NGX_AGENT_REASON_RULE;
    }

    if (length > 0 && (uint64_t) length > ctx->rule->request_body) {
        return NGX_AGENT_REASON_BODY;
    }

    if (r->headers_in.chunked) {

        if (r->stream == NULL) {
            flow->chunked = 1;

            b = r->header_in;

            if (ngx_agent_flow_box(r) != NGX_OK) {
                return NGX_AGENT_REASON_INTERNAL;
            }

            if (chunk_follow(&flow->chunk, b->pos, b->last - b->pos)
                == CHUNK_MALFORMED)
            {
                return NGX_AGENT_REASON_MALFORMED;
            }
        }

        return NGX_AGENT_REASON_RULE;
    }

    n = (uint64_t) r->request_length + length;

    flow->up_taken = ngx_agent_usage_reserve(ctx->task->id, BOUND_BYTES_UP, n,
                                             n, 0);
    flow->up_known = flow->up_taken;

    return flow->up_taken ? NGX_AGENT_REASON_RULE : NGX_AGENT_REASON_BYTES_UP;
}


void
ngx_agent_flow_upstream(ngx_http_request_t *r, ngx_agent_ctx_t *ctx)
{
    ngx_http_upstream_t  *u;

    u = r->upstream;

    ctx->flow.output = u->output.output_filter;
    ctx->flow.output_data = u->output.filter_ctx;

    u->output.output_filter = ngx_agent_flow_output;
    u->output.filter_ctx = r;

    ctx->flow.finalize = u->finalize_request;
    u->finalize_request = ngx_agent_flow_finalize;

    ctx->flow.read = r->request_length;
}


/* The upstream is connected, its TLS is established: watches it from now on. */

static ngx_int_t
ngx_agent_flow_output(void *data, ngx_chain_t *in)
{
    ngx_http_request_t *r = data;

    ngx_agent_ctx_t   *ctx;
    ngx_connection_t  *c;

    c = r->upstream->peer.connection;
    ctx = ngx_http_get_module_ctx(r, ngx_agent_broker_module);

    c->recv = ngx_agent_flow_recv;
    c->send = ngx_agent_flow_send;
    c->send_chain = ngx_agent_flow_send_chain;

    return ctx->flow.output(ctx->flow.output_data, in);
}


ngx_int_t
ngx_agent_flow_up(ngx_agent_ctx_t *ctx, uint64_t total)
{
    ngx_agent_flow_t  *flow;

    flow = &ctx->flow;

    if (total > flow->up_taken) {
        flow->up_taken += ngx_agent_usage_reserve(ctx->task->id,
                                                  BOUND_BYTES_UP,
                                                  total - flow->up_taken,
                                                  NGX_AGENT_FLOW_SLICE, 1);
    }

    if (total > flow->up_taken) {
        flow->up_over = 1;
        return NGX_DECLINED;
    }

    return NGX_OK;
}


size_t
ngx_agent_flow_room(ngx_agent_ctx_t *ctx, bound_id_t bound, size_t size)
{
    uint64_t           used, *taken;
    ngx_agent_flow_t  *flow;

    flow = &ctx->flow;

    used = (bound == BOUND_BYTES_UP) ? flow->sent : flow->received;
    taken = (bound == BOUND_BYTES_UP) ? &flow->up_taken : &flow->down_taken;

    if (*taken - used < size) {
        *taken += ngx_agent_usage_reserve(ctx->task->id, bound,
                                          ngx_min(size - (*taken - used),
                                                  NGX_AGENT_FLOW_LEAST),
                                          NGX_AGENT_FLOW_SLICE, 1);
    }

    return (size_t) ngx_min(*taken - used, size);
}


ngx_int_t
ngx_agent_flow_answer(ngx_agent_ctx_t *ctx, uint64_t length)
{
    uint64_t           n;
    ngx_agent_flow_t  *flow;

    flow = &ctx->flow;
    n = flow->received + length;

    if (n > flow->down_taken) {
        n -= flow->down_taken;

        n = ngx_agent_usage_reserve(ctx->task->id, BOUND_BYTES_DOWN, n, n, 0);

        flow->down_taken += n;
        flow->down_known = flow->down_taken;

        return n ? NGX_OK : NGX_DECLINED;
    }

    return NGX_OK;
}


void
ngx_agent_flow_cut(ngx_agent_ctx_t *ctx, ngx_agent_reason_e reason)
{
    ngx_http_upstream_t  *u;

    ctx->flow.cut = 1;
    ctx->failure = ngx_agent_reason(reason)->word;
    ctx->why = NULL;

    ngx_log_debug3(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "agent: request %*s is cut: %s", sizeof(ctx->request),
                   ctx->request, ctx->failure);

    if (ngx_agent_usage_spend(ctx->task->id, BOUND_REFUSALS) != NGX_BUSY) {
        ngx_agent_usage_refuse(ctx->task->id, &ctx->target, reason, 0,
                               ngx_agent_reason(reason)->hint);
    }

    u = ctx->http ? ctx->http->upstream : NULL;

    if (u) {
        u->peer.tries = 0;                  /* no other address is tried */
        u->peer.cached = 0;
    }
}


void
ngx_agent_flow_end(ngx_agent_ctx_t *ctx)
{
    int64_t            up, down;
    ngx_agent_flow_t  *flow;

    flow = &ctx->flow;

    up = (int64_t) (ngx_max(flow->sent, flow->read) + flow->discarded
                    - flow->up_taken);
    down = (int64_t) (flow->received - flow->down_taken);

    if (flow->up_over && up < 0) {
        up = 0;                             /* the bound is reached */
    }

    if (up || down) {
        ngx_agent_usage_settle(ctx->task->id, up, down);
    }

    flow->up_taken += up;
    flow->down_taken += down;
}


void
ngx_agent_flow_give_back(ngx_agent_ctx_t *ctx)
{
    uint64_t           up, down;
    ngx_agent_flow_t  *flow;

    flow = &ctx->flow;

    up = ngx_max(ngx_max(flow->sent, flow->read), flow->up_known);
    down = ngx_max(flow->received, flow->down_known);

    if (up < flow->up_taken || down < flow->down_taken) {

        ngx_agent_usage_settle(ctx->task->id,
                               -(int64_t) (flow->up_taken - up),
                               -(int64_t) (flow->down_taken - down));
        flow->up_taken = up;
        flow->down_taken = down;
    }
}


/* NULL, where the connection is kept for a later request. */

static ngx_agent_ctx_t *
ngx_agent_flow_ctx(ngx_connection_t *c)
{
    ngx_http_request_t *r = c->data;

    return (c->idle || r == NULL)
           ? NULL : ngx_http_get_module_ctx(r, ngx_agent_broker_module);
}


static ssize_t
ngx_agent_flow_recv(ngx_connection_t *c, u_char *buf, size_t size)
{
    ssize_t           n;
    ngx_agent_ctx_t  *ctx;

    ctx = ngx_agent_flow_ctx(c);

    if (ctx) {

        if (ctx->flow.stopped) {
            ngx_agent_flow_stopped(ctx->http);
        }

        if (!ctx->flow.cut) {
            size = ngx_agent_flow_room(ctx, BOUND_BYTES_DOWN, size);

            if (size == 0) {
                ngx_agent_flow_cut(ctx, NGX_AGENT_REASON_BYTES_DOWN);
            }
        }

        if (ctx->flow.cut) {
            c->read->ready = 0;
            c->read->error = 1;
            return NGX_ERROR;
        }
    }

    n = c->ssl ? ngx_ssl_recv(c, buf, size) : ngx_recv(c, buf, size);

    if (ctx && n > 0) {
        ctx->flow.received += n;
        ctx->live.active = ngx_current_msec;
    }

    return n;
}


/* Nothing can be sent any more: only the answer is waited for. */

static void
ngx_agent_flow_stopped(ngx_http_request_t *r)
{
    ngx_connection_t     *c;
    ngx_http_upstream_t  *u;

    u = r->upstream;
    c = u->peer.connection;

    r->read_event_handler = ngx_http_block_reading;
    u->write_event_handler = ngx_agent_flow_nothing;

    if (c->write->timer_set) {
        ngx_del_timer(c->write);
    }

    if (!c->read->timer_set) {
        ngx_add_timer(c->read, u->conf->read_timeout);
    }
}


static void
ngx_agent_flow_nothing(ngx_http_request_t *r, ngx_http_upstream_t *u)
{
}


/* After an upgrade. */

static ssize_t
ngx_agent_flow_send(ngx_connection_t *c, u_char *buf, size_t size)
{
    ssize_t           n;
    ngx_agent_ctx_t  *ctx;

    ctx = ngx_agent_flow_ctx(c);

    if (ctx) {

        if (!ctx->flow.cut) {
            size = ngx_agent_flow_room(ctx, BOUND_BYTES_UP, size);

            if (size == 0) {
                ngx_agent_flow_cut(ctx, NGX_AGENT_REASON_BYTES_UP);
            }
        }

        if (ctx->flow.cut) {
            return NGX_ERROR;
        }
    }

    n = c->ssl ? ngx_ssl_write(c, buf, size) : ngx_send(c, buf, size);

    if (ctx && n > 0) {
        ctx->flow.sent += n;
        ctx->live.active = ngx_current_msec;
    }

    return n;
}


static ngx_chain_t *
ngx_agent_flow_send_chain(ngx_connection_t *c, ngx_chain_t *in, off_t limit)
{
    uint64_t              size;
    ngx_chain_t          *out;
    ngx_agent_ctx_t      *ctx;

    ctx = ngx_agent_flow_ctx(c);

    size = 0;

    if (ctx) {

        if (ctx->flow.stopped) {
            goto stopped;
        }

        size = ngx_agent_flow_size(in);

        if (!ctx->flow.cut
            && ngx_agent_flow_up(ctx, ctx->flow.sent + size) != NGX_OK)
        {
            ngx_agent_flow_cut(ctx, NGX_AGENT_REASON_BYTES_UP);
        }

        if (ctx->flow.cut) {
            return NGX_CHAIN_ERROR;
        }
    }

    out = c->ssl ? ngx_ssl_send_chain(c, in, limit)
                 : ngx_send_chain(c, in, limit);

    if (ctx == NULL) {
        return out;
    }

    if (out != NGX_CHAIN_ERROR) {
        ctx->flow.sent += size - ngx_agent_flow_size(out);
        return out;
    }

    if (c->sent == 0) {
        return out;                         /* a kept connection was closed */
    }

    ngx_log_debug0(NGX_LOG_DEBUG_HTTP, c->log, 0,
                   "agent: upstream takes no more, its answer is read");

    ctx->flow.stopped = 1;

stopped:

    /* what is there to be read decides, at the end of this pass */

    c->write->ready = 0;
    c->write->error = 1;
    c->read->ready = 1;

    return in;
}


static uint64_t
ngx_agent_flow_size(ngx_chain_t *in)
{
    uint64_t  size;

    for (size = 0; in; in = in->next) {
        size += ngx_buf_size(in->buf);
    }

    return size;
}


/* The answer is complete, or will never be. */

static void
ngx_agent_flow_finalize(ngx_http_request_t *r, ngx_int_t rc)
{
    ngx_agent_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_agent_broker_module);

    ctx->flow.over = 1;

    if (r->reading_body || !r->keepalive) {
        (void) ngx_agent_flow_box(r);
    }

    ctx->flow.finalize(r, rc);
}


/* A part of a request's body was read; in may be NULL. */

static ngx_int_t
ngx_agent_flow_body(ngx_http_request_t *r, ngx_chain_t *in)
{
    ngx_uint_t           status;
    ngx_agent_ctx_t     *ctx;
    ngx_agent_flow_t    *flow;
    ngx_agent_reason_e   reason;

    ctx = ngx_http_get_module_ctx(r, ngx_agent_broker_module);

    if (ctx == NULL || ctx->state != NGX_AGENT_ALLOWED) {
        return ngx_http_next_request_body_filter(r, in);
    }

    flow = &ctx->flow;

    flow->body += ngx_agent_flow_size(in);
    flow->read = r->request_length;

    if (flow->malformed) {
        reason = NGX_AGENT_REASON_MALFORMED;

    } else if (flow->body > ctx->rule->request_body) {
        reason = NGX_AGENT_REASON_BODY;

    } else if (ngx_agent_flow_up(ctx, flow->read) != NGX_OK) {
        reason = NGX_AGENT_REASON_BYTES_UP;

    } else {
        return ngx_http_next_request_body_filter(r, in);
    }

    if (!flow->cut) {
        ngx_agent_flow_cut(ctx, reason);
    }

    status = ngx_agent_reason(reason)->status;

    return (ngx_int_t) status;
}


ngx_int_t
ngx_agent_flow_box(ngx_http_request_t *r)
{
    ngx_connection_t        *c;
    ngx_pool_cleanup_t      *cln;
    ngx_agent_connection_t  *ac;

    c = r->connection;

    if (r->stream) {
        return NGX_OK;                      /* HTTP/2 bounds it by windows */
    }

    ac = ngx_agent_task_connection(c);

    if (ac->http != r) {

        cln = ngx_pool_cleanup_add(r->pool, 0);
        if (cln == NULL) {
            return NGX_ERROR;
        }

        cln->handler = ngx_agent_flow_box_cleanup;
        cln->data = ac;

        ac->http = r;
        ac->discarded = 0;
    }

    if (c->recv != ngx_agent_flow_box_recv) {
        ac->recv = c->recv;
        c->recv = ngx_agent_flow_box_recv;
    }

    /* before core discards what follows, it ends TLS and takes recv() back */

    if (c->ssl && ngx_agent_flow_is_over(r, ngx_http_get_module_ctx(r,
                                                   ngx_agent_broker_module))
        && !ac->again.timer_set)
    {
        ac->again.handler = ngx_agent_flow_box_again;
        ac->again.data = c;
        ac->again.log = c->log;
        ac->again.cancelable = 1;

        ngx_post_event(&ac->again, &ngx_posted_events);
    }

    return NGX_OK;
}


static void
ngx_agent_flow_box_again(ngx_event_t *ev)
{
    ngx_connection_t        *c;
    ngx_agent_connection_t  *ac;

    c = ev->data;
    ac = ngx_agent_task_connection(c);

    if (c->recv == ngx_agent_flow_box_recv) {
        ngx_add_timer(ev, NGX_AGENT_FLOW_AGAIN);
        return;
    }

    ac->recv = c->recv;
    c->recv = ngx_agent_flow_box_recv;
}


static void
ngx_agent_flow_box_cleanup(void *data)
{
    ngx_agent_connection_t *ac = data;

    ac->http = NULL;

    if (ac->again.posted) {
        ngx_delete_posted_event(&ac->again);
    }

    if (ac->again.timer_set) {
        ngx_del_timer(&ac->again);
    }
}


/* Reads from the box, over HTTP/1. */

static ssize_t
ngx_agent_flow_box_recv(ngx_connection_t *c, u_char *buf, size_t size)
{
    ssize_t                  n;
    ngx_uint_t               is_over;
    ngx_agent_ctx_t         *ctx;
    ngx_http_request_t      *r;
    ngx_agent_connection_t  *ac;

    ac = ngx_agent_task_connection(c);
    r = ac->http;

    if (r == NULL) {
        return ac->recv(c, buf, size);
    }

    ctx = ngx_http_get_module_ctx(r, ngx_agent_broker_module);

    is_over = ngx_agent_flow_is_over(r, ctx);

    if (is_over) {

        if (ac->discarded == 0) {
            ac->discarding = ngx_current_msec;
        }

        if (ac->discarded >= NGX_AGENT_FLOW_REST
            || ngx_current_msec - ac->discarding > NGX_AGENT_FLOW_REST_TIME)
        {
            c->read->ready = 0;
            c->read->eof = 1;
            return 0;
        }

        size = ngx_min(size, NGX_AGENT_FLOW_REST - ac->discarded);
    }

    n = ac->recv(c, buf, size);

    if (n <= 0) {
        return n;
    }

    if (is_over) {
        ac->discarded += n;

        if (ctx) {
            ctx->flow.discarded = ac->discarded;
        }

    } else if (ctx && ctx->flow.chunked
               && chunk_follow(&ctx->flow.chunk, buf, n) == CHUNK_MALFORMED)
    {
        ctx->flow.malformed = 1;
    }

    return n;
}


/* Is what the box sends now only discarded? */

static ngx_uint_t
ngx_agent_flow_is_over(ngx_http_request_t *r, ngx_agent_ctx_t *ctx)
{
    return ctx == NULL || ctx->flow.over || ctx->state == NGX_AGENT_REFUSED
           || r->err_status || r->discard_body || r->lingering_time;
}
