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
 */


#include "request/ngx_agent_request.h"


#define NGX_AGENT_FLOW_SLICE  262144    /* bytes taken in advance */
#define NGX_AGENT_FLOW_LEAST  4096      /* near the bound */


static ngx_int_t ngx_agent_flow_body(ngx_http_request_t *r, ngx_chain_t *in);


static ngx_http_request_body_filter_pt  ngx_http_next_request_body_filter;


void
ngx_agent_flow_init(void)
{
    ngx_http_next_request_body_filter = ngx_http_top_request_body_filter;
    ngx_http_top_request_body_filter = ngx_agent_flow_body;
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
    ctx->failure = reason;
    ctx->why = NULL;

    ngx_log_debug3(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "agent: request %*s is cut: %s", sizeof(ctx->request),
                   ctx->request, ngx_agent_reason(reason)->word);

    ctx->listed = 1;

    (void) ngx_agent_usage_spend(ctx->task->id, BOUND_REFUSALS);
    ngx_agent_listed_refused(ctx->task->id, &ctx->target, reason, 0,
                             ngx_agent_reason(reason)->hint);

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

    up = (int64_t) (ngx_max(flow->sent, flow->read) - flow->up_taken);

    if (ctx->state == NGX_AGENT_ALLOWED) {
        up += (int64_t) flow->discarded;    /* of a refusal it went nowhere */
    }

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


uint64_t
ngx_agent_flow_size(ngx_chain_t *in)
{
    uint64_t  size;

    for (size = 0; in; in = in->next) {
        size += ngx_buf_size(in->buf);
    }

    return size;
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
