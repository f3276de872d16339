/*
 * Moves the bytes of a tunnel through two buffers, one each way, each byte
 * counted before it is read.  Like a request it is judged again when the
 * policies change.
 */


#include "door/ngx_agent_tunnel.h"


#define NGX_AGENT_TUNNEL_BUFFER   16384
#define NGX_AGENT_TUNNEL_ROUNDS   16        /* buffers, then others' turn */


static ngx_int_t ngx_agent_tunnel_flow_move(ngx_agent_tunnel_t *t,
    ngx_connection_t *from, ngx_connection_t *to, ngx_agent_tunnel_way_t *way);
static void ngx_agent_tunnel_flow_cut(ngx_agent_ctx_t *ctx,
    ngx_agent_reason_e reason);


ngx_int_t
ngx_agent_tunnel_flow_init(ngx_agent_tunnel_t *t)
{
    t->way_up.start = ngx_palloc(t->down->pool, NGX_AGENT_TUNNEL_BUFFER);
    t->way_down.start = ngx_palloc(t->down->pool, NGX_AGENT_TUNNEL_BUFFER);

    if (t->way_up.start == NULL || t->way_down.start == NULL) {
        return NGX_ERROR;
    }

    t->way_up.pos = t->way_up.last = t->way_up.start;
    t->way_down.pos = t->way_down.last = t->way_down.start;

    ngx_agent_live_add(t->ctx, ngx_agent_tunnel_flow_judge,
                       ngx_agent_tunnel_flow_cut);

    return NGX_OK;
}


void
ngx_agent_tunnel_flow_event(ngx_event_t *ev)
{
    ngx_connection_t    *c, *down, *up;
    ngx_agent_tunnel_t  *t;

    c = ev->data;
    t = c->data;
    down = t->down;
    up = t->peer.connection;

    if (c->close) {
        ngx_agent_tunnel_flow_end(t, NGX_AGENT_REASON_SHUTDOWN);
        return;
    }

    /* the end of what its box sends is not told from the end of its task */

    if (t->ctx->task->ended) {
        ngx_agent_tunnel_flow_end(t, NGX_AGENT_REASON_ABORTED);
        return;
    }

    if (ngx_agent_tunnel_flow_move(t, down, up, &t->way_up) != NGX_OK
        || ngx_agent_tunnel_flow_move(t, up, down, &t->way_down) != NGX_OK)
    {
        return;                             /* it has ended */
    }

    if (t->way_up.closed && t->way_down.closed) {
        ngx_agent_tunnel_flow_end(t, NGX_AGENT_REASON_NONE);
        return;
    }

    if (ngx_handle_read_event(down->read, 0) != NGX_OK
        || ngx_handle_write_event(down->write, 0) != NGX_OK
        || ngx_handle_read_event(up->read, 0) != NGX_OK
        || ngx_handle_write_event(up->write, 0) != NGX_OK)
    {
        ngx_agent_tunnel_flow_end(t, NGX_AGENT_REASON_INTERNAL);
    }
}


/*
 * Moves bytes one way while both sockets are ready, up to a number that lets
 * others be served in between; NGX_DONE when that ended the tunnel.
 */

static ngx_int_t
ngx_agent_tunnel_flow_move(ngx_agent_tunnel_t *t, ngx_connection_t *from,
    ngx_connection_t *to, ngx_agent_tunnel_way_t *way)
{
    size_t            size;
    ssize_t           n;
    uint64_t         *bytes;
    ngx_uint_t        i;
    ngx_agent_ctx_t  *ctx;

    ctx = t->ctx;
    bytes = (way->bound == BOUND_BYTES_UP) ? &ctx->flow.sent
                                           : &ctx->flow.received;

    for (i = 0; /* void */ ; i++) {

        while (way->pos < way->last) {

            if (!to->write->ready) {
                return NGX_OK;
            }

            n = to->send(to, way->pos, way->last - way->pos);

            if (n == NGX_AGAIN) {
                return NGX_OK;
            }

            if (n <= 0) {
                ngx_agent_tunnel_flow_end(t, NGX_AGENT_REASON_RESET);
                return NGX_DONE;
            }

            way->pos += n;
        }

        if (way->ended) {

            if (!way->closed) {
                way->closed = 1;
                (void) shutdown(to->fd, SHUT_WR);
            }

            return NGX_OK;
        }

        if (!from->read->ready) {
            return NGX_OK;
        }

        if (i == NGX_AGENT_TUNNEL_ROUNDS) {
            ngx_post_event(from->read, &ngx_posted_next_events);
            return NGX_OK;
        }

        size = ngx_agent_flow_room(ctx, way->bound, NGX_AGENT_TUNNEL_BUFFER);

        if (size == 0) {
            ngx_agent_flow_cut(ctx, way->bound == BOUND_BYTES_UP
                                    ? NGX_AGENT_REASON_BYTES_UP
                                    : NGX_AGENT_REASON_BYTES_DOWN);
            ngx_agent_tunnel_flow_end(t, NGX_AGENT_REASON_NONE);
            return NGX_DONE;
        }

        n = from->recv(from, way->start, size);

        if (n == NGX_AGAIN) {
            return NGX_OK;
        }

        if (n <= 0) {
            way->ended = 1;

            if (n == NGX_ERROR) {
                ngx_agent_tunnel_flow_end(t, NGX_AGENT_REASON_RESET);
                return NGX_DONE;
            }

            /* the host was the first to end it, and has sent nothing */

            if (way == &t->way_down && *bytes == 0 && !t->way_up.ended
                && ctx->failure == NGX_AGENT_REASON_NONE)
            {
                ctx->failure = NGX_AGENT_REASON_NO_ANSWER;
            }

            continue;
        }

        way->pos = way->start;
        way->last = way->start + n;

        *bytes += n;
        ctx->live.active = ngx_current_msec;
    }
}


const policy_rule_t *
ngx_agent_tunnel_flow_judge(ngx_agent_ctx_t *ctx)
{
    ngx_agent_tunnel_t   *t;
    const policy_rule_t  *rule;

    t = ctx->owner;

    rule = ngx_agent_judge_again(t->down->pool, t->down->log, ctx);

    return rule && rule->tunnel ? rule : NULL;
}


static void
ngx_agent_tunnel_flow_cut(ngx_agent_ctx_t *ctx, ngx_agent_reason_e reason)
{
    ngx_agent_tunnel_flow_end(ctx->owner, reason);
}


void
ngx_agent_tunnel_flow_end(ngx_agent_tunnel_t *t, ngx_agent_reason_e failure)
{
    if (t->ctx->failure == NGX_AGENT_REASON_NONE) {
        t->ctx->failure = failure;
    }

    /* the pool's cleanup does the rest, whichever way the box's side ends */

    ngx_http_close_connection(t->down);
}
