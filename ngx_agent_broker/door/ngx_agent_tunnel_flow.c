/*
 * Moves the bytes of a tunnel through two buffers, one each way, and charges
 * them to the task's bounds.  Within a second of a change of the policies, a
 * tunnel that the new policy refuses is closed.
 */


#include "door/ngx_agent_tunnel.h"


#define NGX_AGENT_TUNNEL_BUFFER   16384
#define NGX_AGENT_TUNNEL_ROUNDS   16        /* buffers, then others' turn */
#define NGX_AGENT_TUNNEL_IDLE     600000    /* ms without a byte either way */
#define NGX_AGENT_TUNNEL_TICK     1000      /* ms between looks at the policy */
#define NGX_AGENT_TUNNEL_CHARGE   65536     /* bytes counted at once */


static ngx_int_t ngx_agent_tunnel_flow_move(ngx_agent_tunnel_t *t,
    ngx_connection_t *from, ngx_connection_t *to, ngx_agent_flow_t *flow);
static void ngx_agent_tunnel_flow_tick(ngx_event_t *ev);


ngx_int_t
ngx_agent_tunnel_flow_init(ngx_agent_tunnel_t *t)
{
    t->up_flow.start = ngx_palloc(t->down->pool, NGX_AGENT_TUNNEL_BUFFER);
    t->down_flow.start = ngx_palloc(t->down->pool, NGX_AGENT_TUNNEL_BUFFER);

    if (t->up_flow.start == NULL || t->down_flow.start == NULL) {
        return NGX_ERROR;
    }

    t->up_flow.pos = t->up_flow.last = t->up_flow.start;
    t->down_flow.pos = t->down_flow.last = t->down_flow.start;

    t->tick.handler = ngx_agent_tunnel_flow_tick;
    t->tick.data = t->down;                 /* nginx logs the fd of it */
    t->tick.log = t->down->log;
    ngx_add_timer(&t->tick, NGX_AGENT_TUNNEL_TICK);

    t->active = ngx_current_msec;

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
        ngx_agent_tunnel_flow_end(t, "shutdown");
        return;
    }

    if (ngx_agent_tunnel_flow_move(t, down, up, &t->up_flow) != NGX_OK
        || ngx_agent_tunnel_flow_move(t, up, down, &t->down_flow) != NGX_OK)
    {
        return;                             /* it has ended */
    }

    if (t->up_flow.closed && t->down_flow.closed) {
        ngx_agent_tunnel_flow_end(t, NULL);
        return;
    }

    if (ngx_handle_read_event(down->read, 0) != NGX_OK
        || ngx_handle_write_event(down->write, 0) != NGX_OK
        || ngx_handle_read_event(up->read, 0) != NGX_OK
        || ngx_handle_write_event(up->write, 0) != NGX_OK)
    {
        ngx_agent_tunnel_flow_end(t, "internal");
    }
}


/*
 * Moves bytes one way while both sockets are ready, up to a number that lets
 * others be served in between; NGX_DONE when that ended the tunnel.
 */

static ngx_int_t
ngx_agent_tunnel_flow_move(ngx_agent_tunnel_t *t, ngx_connection_t *from,
    ngx_connection_t *to, ngx_agent_flow_t *flow)
{
    ssize_t     n;
    ngx_uint_t  i;

    for (i = 0; /* void */ ; i++) {

        while (flow->pos < flow->last) {

            if (!to->write->ready) {
                return NGX_OK;
            }

            n = to->send(to, flow->pos, flow->last - flow->pos);

            if (n == NGX_AGAIN) {
                return NGX_OK;
            }

            if (n <= 0) {
                ngx_agent_tunnel_flow_end(t, "reset");
                return NGX_DONE;
            }

            flow->pos += n;
        }

        if (flow->ended) {

            if (!flow->closed) {
                flow->closed = 1;
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

        n = from->recv(from, flow->start, NGX_AGENT_TUNNEL_BUFFER);

        if (n == NGX_AGAIN) {
            return NGX_OK;
        }

        if (n <= 0) {
            flow->ended = 1;

            if (n == NGX_ERROR) {
                ngx_agent_tunnel_flow_end(t, "reset");
                return NGX_DONE;
            }

            continue;
        }

        flow->pos = flow->start;
        flow->last = flow->start + n;
        flow->bytes += n;
        flow->uncharged += n;

        t->active = ngx_current_msec;

        if (flow->uncharged >= NGX_AGENT_TUNNEL_CHARGE) {

            n = flow->uncharged;
            flow->uncharged = 0;

            if (ngx_agent_usage_charge(t->ac->task->id, flow->bound, n)
                != NGX_OK)
            {
                ngx_agent_tunnel_flow_end(t,
                                   bound_table[flow->bound].directive);
                return NGX_DONE;
            }
        }
    }
}


static void
ngx_agent_tunnel_flow_tick(ngx_event_t *ev)
{
    ngx_agent_ctx_t      *ctx;
    ngx_connection_t     *c;
    const policy_rule_t  *rule;
    ngx_agent_tunnel_t   *t;

    c = ev->data;
    t = c->data;
    ctx = t->ctx;

    if (ngx_current_msec - t->active > NGX_AGENT_TUNNEL_IDLE) {
        ngx_agent_tunnel_flow_end(t, "timeout");
        return;
    }

    if (ctx->set->generation != ngx_agent_zone_generation()) {

        rule = ngx_agent_decide_again(c->pool, c->log, ctx);

        if (rule == NULL || !rule->tunnel) {
            ngx_agent_tunnel_flow_end(t, "policy_changed");
            return;
        }
    }

    ngx_add_timer(ev, NGX_AGENT_TUNNEL_TICK);
}


void
ngx_agent_tunnel_flow_end(ngx_agent_tunnel_t *t, const char *failure)
{
    if (t->ctx->failure == NULL) {
        t->ctx->failure = failure;
    }

    /* the pool's cleanup does the rest, whichever way the box's side ends */

    ngx_http_close_connection(t->down);
}
