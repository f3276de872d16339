/*
 * `tunnel on`: TLS that is passed through untouched, for a host whose
 * certificate must be the client's business (pinning, mutual TLS).  No
 * credential can be attached and no request be seen, so what remains is
 * judged all the more: the host of the CONNECT, the same name in the client
 * hello, the address, and how many bytes go up.
 *
 * Bytes are moved by two buffers, one each way.  A policy that changes is
 * asked again every second: a tunnel that it would refuse is closed.
 */


#include "door/ngx_agent_door.h"
#include "parse/client_hello.h"


#define NGX_AGENT_TUNNEL_BUFFER   16384
#define NGX_AGENT_TUNNEL_ROUNDS   16        /* buffers, then others' turn */
#define NGX_AGENT_TUNNEL_CONNECT  10000     /* ms */
#define NGX_AGENT_TUNNEL_IDLE     600000    /* ms without a byte either way */
#define NGX_AGENT_TUNNEL_TICK     1000      /* ms between looks at the policy */
#define NGX_AGENT_TUNNEL_CHARGE   65536     /* bytes counted at once */


typedef struct {
    u_char             *start;
    u_char             *pos;                /* to be sent */
    u_char             *last;
    uint64_t            bytes;              /* in all */
    uint64_t            uncharged;
    bound_id_t          bound;
    unsigned            ended:1;            /* its source sends no more */
    unsigned            closed:1;           /* and its destination was told */
} ngx_agent_flow_t;


typedef struct {
    ngx_agent_connection_t  *ac;
    ngx_agent_ctx_t         *ctx;
    ngx_connection_t        *down;          /* to the box */
    ngx_peer_connection_t    peer;          /* to the upstream */
    ngx_agent_flow_t         up_flow;
    ngx_agent_flow_t         down_flow;
    ngx_event_t              tick;
    ngx_msec_t               active;        /* when a byte was last moved */
    unsigned                 decided:1;     /* there is an egress line */
    unsigned                 connected:1;
} ngx_agent_tunnel_t;


static void ngx_agent_tunnel_hello(ngx_event_t *rev);
static void ngx_agent_tunnel_refuse(ngx_agent_tunnel_t *t,
    ngx_agent_reason_e reason, const char *why);
static void ngx_agent_tunnel_begin(ngx_agent_tunnel_t *t);
static void ngx_agent_tunnel_waiting(ngx_event_t *ev);
static void ngx_agent_tunnel_resolved(ngx_agent_ctx_t *ctx);
static void ngx_agent_tunnel_dial(ngx_agent_tunnel_t *t);
static void ngx_agent_tunnel_connected(ngx_event_t *ev);
static void ngx_agent_tunnel_event(ngx_event_t *ev);
static ngx_int_t ngx_agent_tunnel_move(ngx_agent_tunnel_t *t,
    ngx_connection_t *from, ngx_connection_t *to, ngx_agent_flow_t *flow);
static void ngx_agent_tunnel_tick(ngx_event_t *ev);
static void ngx_agent_tunnel_end(ngx_agent_tunnel_t *t, const char *failure);
static void ngx_agent_tunnel_cleanup(void *data);


/* The CONNECT was answered; the client hello is awaited. */

void
ngx_agent_tunnel(ngx_agent_connection_t *ac, ngx_agent_ctx_t *ctx)
{
    ngx_connection_t    *c;
    ngx_pool_cleanup_t  *cln;
    ngx_agent_tunnel_t  *t;

    c = ac->connection;

    t = ngx_pcalloc(c->pool, sizeof(ngx_agent_tunnel_t));
    cln = ngx_pool_cleanup_add(c->pool, 0);

    if (t == NULL || cln == NULL) {
        ngx_http_close_connection(c);
        return;
    }

    cln->handler = ngx_agent_tunnel_cleanup;
    cln->data = t;

    t->ac = ac;
    t->ctx = ctx;
    t->down = c;
    t->up_flow.bound = BOUND_BYTES_UP;
    t->down_flow.bound = BOUND_BYTES_DOWN;

    ctx->pool = c->pool;
    ctx->owner = t;
    ctx->resolved = ngx_agent_tunnel_resolved;
    ctx->port = ctx->target.authority.port;

    c->data = t;
    c->log->action = "waiting for the client hello of a tunnel";
    c->read->handler = ngx_agent_tunnel_hello;

    ngx_add_timer(c->read, ac->door->core->client_header_timeout);
    ngx_reusable_connection(c, 0);

    if (ngx_handle_read_event(c->read, 0) != NGX_OK) {
        ngx_http_close_connection(c);
    }
}


static void
ngx_agent_tunnel_hello(ngx_event_t *rev)
{
    u_char               hello[HELLO_MAX];
    ssize_t              n;
    authority_t          name;
    ngx_connection_t    *c;
    ngx_agent_tunnel_t  *t;

    c = rev->data;
    t = c->data;

    if (rev->timedout || c->close) {
        ngx_http_close_connection(c);
        return;
    }

    n = recv(c->fd, hello, sizeof(hello), MSG_PEEK|MSG_DONTWAIT);

    if (n == 0 || (n == -1 && ngx_socket_errno != NGX_EAGAIN)) {
        ngx_http_close_connection(c);
        return;
    }

    switch (n == -1 ? HELLO_MORE : hello_parse(hello, n, &name)) {

    case HELLO_OK:

        if (authority_same_host(&name, &t->ac->named)) {
            ngx_agent_tunnel_begin(t);
            return;
        }

        ngx_agent_tunnel_refuse(t, NGX_AGENT_REASON_SNI,
                                "SNI and CONNECT name different hosts");
        return;

    case HELLO_MORE:

        rev->ready = 0;

        if (ngx_handle_read_event(rev, 0) != NGX_OK) {
            ngx_http_close_connection(c);
        }

        return;

    case HELLO_NO_NAME:
        ngx_agent_tunnel_refuse(t, NGX_AGENT_REASON_SNI,
                                "the client names no host (SNI)");
        return;

    case HELLO_ENCRYPTED:
        ngx_agent_tunnel_refuse(t, NGX_AGENT_REASON_SNI,
                                "the client hides the host it asks for (ECH)");
        return;

    default: /* HELLO_MALFORMED */
        ngx_agent_tunnel_refuse(t, NGX_AGENT_REASON_MALFORMED,
                                "a tunnel begins with a TLS client hello");
        return;
    }
}


/* Recorded; the client gets the alert that a TLS server would send. */

static void
ngx_agent_tunnel_refuse(ngx_agent_tunnel_t *t, ngx_agent_reason_e reason,
    const char *why)
{
    ngx_str_t  body;

    /* fatal, unrecognized_name: RFC 8446 section 6 */

    static u_char  alert[] = { 21, 3, 3, 0, 2, 2, 112 };

    (void) ngx_agent_refuse_record(t->down->pool, t->ctx, reason, why, &body);
    (void) t->down->send(t->down, alert, sizeof(alert));

    ngx_http_close_connection(t->down);
}


static void
ngx_agent_tunnel_begin(ngx_agent_tunnel_t *t)
{
    ngx_int_t           rc;
    ngx_agent_reason_e  reason;

    reason = ngx_agent_decide_bounds(t->ac->task);

    if (reason != NGX_AGENT_REASON_RULE) {
        ngx_agent_tunnel_refuse(t, reason, NULL);
        return;
    }

    if (t->down->read->timer_set) {
        ngx_del_timer(t->down->read);
    }

    t->down->log->action = "connecting a tunnel";
    t->down->read->handler = ngx_agent_tunnel_waiting;

    rc = ngx_agent_resolve(t->ctx, t->ac->door->core);

    if (rc == NGX_AGAIN) {
        return;
    }

    if (rc != NGX_OK) {
        ngx_agent_tunnel_refuse(t, NGX_AGENT_REASON_RESOLVE, t->ctx->why);
        return;
    }

    ngx_agent_tunnel_resolved(t->ctx);
}


/* The box may go away before there is anybody to talk to. */

static void
ngx_agent_tunnel_waiting(ngx_event_t *ev)
{
    u_char               byte;
    ssize_t              n;
    ngx_connection_t    *c;

    c = ev->data;

    n = recv(c->fd, &byte, 1, MSG_PEEK|MSG_DONTWAIT);

    if (c->close || n == 0 || (n == -1 && ngx_socket_errno != NGX_EAGAIN)) {
        ngx_agent_tunnel_end(c->data, "aborted");
    }
}


static void
ngx_agent_tunnel_resolved(ngx_agent_ctx_t *ctx)
{
    ngx_agent_reason_e   reason;
    ngx_agent_tunnel_t  *t;

    t = ctx->owner;

    reason = ngx_agent_resolve_guard(ctx);

    if (reason == NGX_AGENT_REASON_RULE
        && ngx_agent_events_decision(ctx, "allowed") != NGX_OK)
    {
        reason = NGX_AGENT_REASON_AUDIT;
    }

    if (reason != NGX_AGENT_REASON_RULE) {
        ngx_agent_tunnel_refuse(t, reason, ctx->why);
        return;
    }

    t->decided = 1;
    ctx->state = NGX_AGENT_ALLOWED;
    (void) ngx_agent_usage_recorded(t->ac->task->id, 1, 0, 0);

    t->up_flow.start = ngx_palloc(t->down->pool, NGX_AGENT_TUNNEL_BUFFER);
    t->down_flow.start = ngx_palloc(t->down->pool, NGX_AGENT_TUNNEL_BUFFER);

    if (t->up_flow.start == NULL || t->down_flow.start == NULL) {
        ngx_agent_tunnel_end(t, "internal");
        return;
    }

    t->up_flow.pos = t->up_flow.last = t->up_flow.start;
    t->down_flow.pos = t->down_flow.last = t->down_flow.start;

    t->tick.handler = ngx_agent_tunnel_tick;
    t->tick.data = t->down;                 /* nginx logs the fd of it */
    t->tick.log = t->down->log;
    ngx_add_timer(&t->tick, NGX_AGENT_TUNNEL_TICK);

    t->active = ngx_current_msec;

    ngx_agent_tunnel_dial(t);
}


static void
ngx_agent_tunnel_dial(ngx_agent_tunnel_t *t)
{
    ngx_int_t          rc;
    ngx_connection_t  *c;
    ngx_agent_ctx_t   *ctx;

    ctx = t->ctx;

    while (ctx->next < ctx->addresses_count) {

        ngx_memzero(&t->peer, sizeof(ngx_peer_connection_t));

        if (ngx_agent_upstream_peer_address(&t->peer, ctx,
                                            &ctx->addresses[ctx->next++])
            != NGX_OK)
        {
            break;
        }

        t->peer.get = ngx_event_get_peer;
        t->peer.log = t->down->log;
        t->peer.log_error = NGX_ERROR_ERR;

        rc = ngx_event_connect_peer(&t->peer);

        if (rc == NGX_ERROR || rc == NGX_BUSY || rc == NGX_DECLINED) {

            if (t->peer.connection) {
                ngx_close_connection(t->peer.connection);
                t->peer.connection = NULL;
            }

            continue;
        }

        c = t->peer.connection;

        c->data = t;
        c->log = t->down->log;
        c->read->log = c->log;
        c->write->log = c->log;
        c->read->handler = ngx_agent_tunnel_connected;
        c->write->handler = ngx_agent_tunnel_connected;

        if (rc == NGX_AGAIN) {
            ngx_add_timer(c->write, NGX_AGENT_TUNNEL_CONNECT);
            return;
        }

        ngx_agent_tunnel_connected(c->write);
        return;
    }

    ngx_agent_tunnel_end(t, "upstream_unreachable");
}


static void
ngx_agent_tunnel_connected(ngx_event_t *ev)
{
    int                  err;
    socklen_t            len;
    ngx_connection_t    *c;
    ngx_agent_tunnel_t  *t;

    c = ev->data;
    t = c->data;

    if (c->close) {
        ngx_agent_tunnel_end(t, "shutdown");
        return;
    }

    err = 0;
    len = sizeof(int);

    if (ev->timedout
        || getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len) == -1 || err)
    {
        ngx_log_error(NGX_LOG_ERR, c->log, ev->timedout ? NGX_ETIMEDOUT : err,
                      "a tunnel's connect() to %V failed", t->peer.name);

        ngx_close_connection(c);
        t->peer.connection = NULL;

        ngx_agent_tunnel_dial(t);
        return;
    }

    /* a handshake's small records must not wait for each other's ACK */

    if (ngx_tcp_nodelay(c) != NGX_OK || ngx_tcp_nodelay(t->down) != NGX_OK) {
        ngx_agent_tunnel_end(t, "internal");
        return;
    }

    if (c->write->timer_set) {
        ngx_del_timer(c->write);
    }

    t->connected = 1;

    c->log->action = "passing a tunnel through";

    c->read->handler = ngx_agent_tunnel_event;
    c->write->handler = ngx_agent_tunnel_event;
    t->down->read->handler = ngx_agent_tunnel_event;
    t->down->write->handler = ngx_agent_tunnel_event;

    /* the hello was only looked at: it is there to be read */

    t->down->read->ready = 1;

    ngx_agent_tunnel_event(t->down->read);
}


static void
ngx_agent_tunnel_event(ngx_event_t *ev)
{
    ngx_connection_t    *c, *down, *up;
    ngx_agent_tunnel_t  *t;

    c = ev->data;
    t = c->data;
    down = t->down;
    up = t->peer.connection;

    if (c->close) {
        ngx_agent_tunnel_end(t, "shutdown");
        return;
    }

    if (ngx_agent_tunnel_move(t, down, up, &t->up_flow) != NGX_OK
        || ngx_agent_tunnel_move(t, up, down, &t->down_flow) != NGX_OK)
    {
        return;                             /* it has ended */
    }

    if (t->up_flow.closed && t->down_flow.closed) {
        ngx_agent_tunnel_end(t, NULL);
        return;
    }

    if (ngx_handle_read_event(down->read, 0) != NGX_OK
        || ngx_handle_write_event(down->write, 0) != NGX_OK
        || ngx_handle_read_event(up->read, 0) != NGX_OK
        || ngx_handle_write_event(up->write, 0) != NGX_OK)
    {
        ngx_agent_tunnel_end(t, "internal");
    }
}


/*
 * What the sockets give and take, so much at once that others are served in
 * between; NGX_DONE when that ended the tunnel.
 */

static ngx_int_t
ngx_agent_tunnel_move(ngx_agent_tunnel_t *t, ngx_connection_t *from,
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
                ngx_agent_tunnel_end(t, "reset");
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
                ngx_agent_tunnel_end(t, "reset");
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

            if (ngx_agent_usage_charge(t->ac->task->id, flow->bound,
                                       flow->uncharged)
                != NGX_OK)
            {
                flow->uncharged = 0;
                ngx_agent_tunnel_end(t, bound_table[flow->bound].directive);
                return NGX_DONE;
            }

            flow->uncharged = 0;
        }
    }
}


static void
ngx_agent_tunnel_tick(ngx_event_t *ev)
{
    ngx_uint_t            i;
    const char           *why;
    const policy_t       *policy;
    ngx_agent_ctx_t      *ctx;
    ngx_connection_t     *c;
    const policy_rule_t  *rule;
    ngx_agent_tunnel_t   *t;

    c = ev->data;
    t = c->data;
    ctx = t->ctx;

    if (ngx_current_msec - t->active > NGX_AGENT_TUNNEL_IDLE) {
        ngx_agent_tunnel_end(t, "timeout");
        return;
    }

    if (ctx->set->generation != ngx_agent_zone_generation()) {

        ctx->set = ngx_agent_policies_hold(c->pool, c->log);

        policy = ctx->set ? policy_set_find(ctx->set->policies,
                                            (char *) t->ac->task->policy)
                          : NULL;

        if (policy == NULL
            || policy_find_rule(policy, &ctx->target.authority, &rule)
               != POLICY_FOUND
            || !rule->tunnel)
        {
            ngx_agent_tunnel_end(t, "policy_changed");
            return;
        }

        for (i = 0; i < ctx->addresses_count; i++) {

            if (address_judge(&ctx->addresses[i], rule->ranges,
                              rule->ranges_count, rule->port != 0, &why)
                != ADDRESS_ALLOWED)
            {
                ngx_agent_tunnel_end(t, "policy_changed");
                return;
            }
        }
    }

    ngx_add_timer(ev, NGX_AGENT_TUNNEL_TICK);
}


static void
ngx_agent_tunnel_end(ngx_agent_tunnel_t *t, const char *failure)
{
    if (t->ctx->failure == NULL) {
        t->ctx->failure = failure;
    }

    /* the rest is the pool's: whoever closes the box's side comes there */

    ngx_http_close_connection(t->down);
}


static void
ngx_agent_tunnel_cleanup(void *data)
{
    ngx_agent_tunnel_t *t = data;

    ngx_agent_resolve_cancel(t->ctx);

    if (t->tick.timer_set) {
        ngx_del_timer(&t->tick);
    }

    if (t->peer.connection) {
        ngx_close_connection(t->peer.connection);
        t->peer.connection = NULL;
    }

    if (!t->decided) {
        return;
    }

    ngx_agent_usage_bytes(t->ac->task->id, t->up_flow.uncharged,
                          t->down_flow.uncharged);

    ngx_agent_events_tunnel_end(t->ctx, t->up_flow.bytes, t->down_flow.bytes);
}
