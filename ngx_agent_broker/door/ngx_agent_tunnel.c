/*
 * `tunnel on`: TLS is passed through untouched, for a host whose certificate
 * the client must check itself (pinning, mutual TLS).  No credential can be
 * attached and no request seen, so the broker judges all it can see: the host
 * of the CONNECT, the same name in the client hello, the address, and how many
 * bytes go up.
 *
 * This file connects a tunnel; ngx_agent_tunnel_flow.c moves its bytes.
 */


#include "door/ngx_agent_tunnel.h"
#include "parse/client_hello.h"


#define NGX_AGENT_TUNNEL_CONNECT  5000      /* ms, all addresses */


static void ngx_agent_tunnel_hello(ngx_event_t *rev);
static void ngx_agent_tunnel_refuse(ngx_agent_tunnel_t *t,
    ngx_agent_reason_e reason, const char *why);
static void ngx_agent_tunnel_begin(ngx_agent_tunnel_t *t);
static void ngx_agent_tunnel_waited(ngx_agent_wait_t *w);
static void ngx_agent_tunnel_resolve(ngx_agent_tunnel_t *t);
static void ngx_agent_tunnel_waiting(ngx_event_t *ev);
static void ngx_agent_tunnel_resolved(ngx_agent_ctx_t *ctx);
static void ngx_agent_tunnel_dial(ngx_agent_tunnel_t *t);
static void ngx_agent_tunnel_connected(ngx_event_t *ev);
static void ngx_agent_tunnel_cleanup(void *data);


/* CONNECT was answered; waits for the client hello. */

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
    t->way_up.bound = BOUND_BYTES_UP;
    t->way_down.bound = BOUND_BYTES_DOWN;

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
    const char          *why;
    ngx_connection_t    *c;
    ngx_agent_reason_e   reason;
    ngx_agent_tunnel_t  *t;

    c = rev->data;
    t = c->data;

    n = (rev->timedout || c->close)
        ? 0 : recv(c->fd, hello, sizeof(hello), MSG_PEEK|MSG_DONTWAIT);

    if (n == 0 || (n == -1 && ngx_socket_errno != NGX_EAGAIN)) {
        ngx_http_close_connection(c);
        return;
    }

    reason = NGX_AGENT_REASON_SNI;

    switch (n == -1 ? HELLO_MORE : client_hello_parse(hello, n, &name)) {

    case HELLO_OK:

        if (authority_same_host(&name, &t->ac->named)) {
            ngx_agent_tunnel_begin(t);
            return;
        }

        why = "SNI and CONNECT name different hosts";
        break;

    case HELLO_MORE:

        rev->ready = 0;

        if (ngx_handle_read_event(rev, 0) != NGX_OK) {
            ngx_http_close_connection(c);
        }

        return;

    case HELLO_NO_NAME:
        why = "the client sends no host name (SNI)";
        break;

    case HELLO_ENCRYPTED:
        why = "the client hides the host name (ECH)";
        break;

    default: /* HELLO_MALFORMED */
        reason = NGX_AGENT_REASON_MALFORMED;
        why = "a tunnel must begin with a TLS client hello";
        break;
    }

    ngx_agent_tunnel_refuse(t, reason, why);
}


/* Records it, and sends the alert that a TLS server would send. */

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


/* A tunnel is a request in flight as long as it lives. */

static void
ngx_agent_tunnel_begin(ngx_agent_tunnel_t *t)
{
    t->ctx->left = NGX_AGENT_WAIT_MAX - t->ac->waited;

    if (ngx_agent_decide_room(t->ctx, NGX_AGENT_WAIT_REQUEST,
                              ngx_agent_tunnel_waited)
        == NGX_OK)
    {
        ngx_agent_tunnel_resolve(t);
        return;
    }

    t->down->read->handler = ngx_agent_tunnel_waiting;
}


static void
ngx_agent_tunnel_waited(ngx_agent_wait_t *w)
{
    ngx_agent_ctx_t  *ctx;

    ctx = w->data;

    if (w->rc != NGX_OK) {
        ngx_agent_tunnel_refuse(ctx->owner, ngx_agent_wait_reason(w), NULL);
        return;
    }

    ctx->held = 1;

    ngx_agent_tunnel_resolve(ctx->owner);
}


static void
ngx_agent_tunnel_resolve(ngx_agent_tunnel_t *t)
{
    ngx_int_t           rc;
    ngx_agent_reason_e  reason;

    reason = ngx_agent_judge_bounds(t->ac->task);

    if (reason != NGX_AGENT_REASON_RULE) {
        ngx_agent_tunnel_refuse(t, reason, NULL);
        return;
    }

    if (t->down->read->timer_set) {
        ngx_del_timer(t->down->read);
    }

    t->down->log->action = "connecting a tunnel";
    t->down->read->handler = ngx_agent_tunnel_waiting;

    ngx_log_debug4(NGX_LOG_DEBUG_HTTP, t->down->log, 0,
                   "agent: tunnel %*s begins, \"%s\" port %ui",
                   sizeof(t->ctx->request), t->ctx->request,
                   t->ctx->target.authority.host, (ngx_uint_t) t->ctx->port);

    t->ctx->state = NGX_AGENT_RESOLVING;

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


/*
 * The box may close the connection before the upstream is connected; the hello
 * is still to be read, so that its end is seen only by the event's flag.
 */

static void
ngx_agent_tunnel_waiting(ngx_event_t *ev)
{
    u_char               byte;
    ssize_t              n;
    ngx_connection_t    *c;

    c = ev->data;

    n = recv(c->fd, &byte, 1, MSG_PEEK|MSG_DONTWAIT);

    if (c->close || ev->pending_eof || n == 0
        || (n == -1 && ngx_socket_errno != NGX_EAGAIN))
    {
        ngx_agent_tunnel_flow_end(c->data, NGX_AGENT_REASON_ABORTED);
    }
}


static void
ngx_agent_tunnel_resolved(ngx_agent_ctx_t *ctx)
{
    ngx_agent_reason_e    reason;
    ngx_agent_tunnel_t   *t;
    const policy_rule_t  *rule;

    t = ctx->owner;

    reason = ngx_agent_resolve_guard(ctx);

    /* the hello may have come long after the CONNECT that was judged */

    if (reason == NGX_AGENT_REASON_RULE
        && ctx->set->generation != ngx_agent_zone_generation())
    {
        rule = ngx_agent_tunnel_flow_judge(ctx);

        if (rule) {
            ctx->rule = rule;
            ngx_memcpy(ctx->policy_hash, ctx->policy->hash,
                       sizeof(ctx->policy_hash));

        } else {
            reason = NGX_AGENT_REASON_CHANGED;
        }
    }

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

    if (ngx_agent_tunnel_flow_init(t) != NGX_OK) {
        ngx_agent_tunnel_flow_end(t, NGX_AGENT_REASON_INTERNAL);
        return;
    }

    ngx_agent_tunnel_dial(t);
}


static void
ngx_agent_tunnel_dial(ngx_agent_tunnel_t *t)
{
    ngx_int_t          rc;
    ngx_msec_t         share;
    ngx_connection_t  *c;
    ngx_agent_ctx_t   *ctx;

    ctx = t->ctx;

    while ((share = ngx_agent_upstream_share(ctx, NGX_AGENT_TUNNEL_CONNECT))) {

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
            ngx_add_timer(c->write, share);
            return;
        }

        ngx_agent_tunnel_connected(c->write);
        return;
    }

    ngx_agent_tunnel_flow_end(t, ctx->why ? NGX_AGENT_REASON_UPSTREAM_TIMEOUT
                                          : NGX_AGENT_REASON_UNREACHABLE);
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
        ngx_agent_tunnel_flow_end(t, NGX_AGENT_REASON_SHUTDOWN);
        return;
    }

    err = 0;
    len = sizeof(int);

    if (ev->timedout
        || getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len) == -1 || err)
    {
        ngx_log_error(NGX_LOG_ERR, c->log, ev->timedout ? NGX_ETIMEDOUT : err,
                      "a tunnel's connect() to %V failed", t->peer.name);

        t->ctx->why = ev->timedout ? "the connection took too long" : NULL;

        ngx_close_connection(c);
        t->peer.connection = NULL;

        ngx_agent_tunnel_dial(t);
        return;
    }

    /* else a handshake's small records wait for each other's ACK */

    if (ngx_tcp_nodelay(c) != NGX_OK || ngx_tcp_nodelay(t->down) != NGX_OK) {
        ngx_agent_tunnel_flow_end(t, NGX_AGENT_REASON_INTERNAL);
        return;
    }

    if (c->write->timer_set) {
        ngx_del_timer(c->write);
    }

    t->connected = 1;

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, c->log, 0,
                   "agent: tunnel connected to %V", &t->ctx->peer);

    c->log->action = "passing a tunnel through";

    t->ctx->live.upgraded = 1;
    t->ctx->live.active = ngx_current_msec;

    c->read->handler = ngx_agent_tunnel_flow_event;
    c->write->handler = ngx_agent_tunnel_flow_event;
    t->down->read->handler = ngx_agent_tunnel_flow_event;
    t->down->write->handler = ngx_agent_tunnel_flow_event;

    /* the hello was only peeked at, and is still to be read */

    t->down->read->ready = 1;

    ngx_agent_tunnel_flow_event(t->down->read);
}


static void
ngx_agent_tunnel_cleanup(void *data)
{
    ngx_agent_tunnel_t *t = data;

    ngx_agent_resolve_cancel(t->ctx);
    ngx_agent_decide_leave(t->ctx);

    ngx_agent_live_remove(t->ctx);
    ngx_agent_flow_end(t->ctx);

    if (t->peer.connection) {
        ngx_close_connection(t->peer.connection);
        t->peer.connection = NULL;
    }

    if (!t->decided) {

        if (t->ctx->state != NGX_AGENT_RESOLVING) {
            return;
        }

        if (ngx_agent_refusals_spend(t->ctx->task) == NGX_OK) {
            ngx_agent_events_aborted(t->ctx, NGX_AGENT_REASON_ABORTED);

        } else {
            ngx_agent_counted(t->ctx->task->id, NGX_AGENT_COUNTED_REFUSALS,
                              NULL, 0);
        }

        return;
    }

    if (t->ctx->flow.received == 0) {
        ngx_agent_events_unanswered(t->ctx);
    }

    ngx_agent_events_end(t->ctx, t->ctx->failure ? 0 : 200);
}
