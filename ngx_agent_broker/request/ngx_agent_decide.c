/*
 * The verdict on one request.  The order is fixed:
 *
 *   turn, malformed, task, host, port, method, path, room, bounds, addresses,
 *   the audit line
 *
 * and only then can an upstream be dialled.  The handler is in the preaccess
 * phase, which `satisfy` cannot skip; ngx_agent_upstream.c dials nothing for a
 * request that was not allowed here.
 *
 * A name is resolved once, before the verdict: see ngx_agent_resolve.c.
 */


#include "request/ngx_agent_request.h"


static ngx_int_t ngx_agent_decide_turn(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx);
static ngx_int_t ngx_agent_decide_target(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx);
static target_error_t ngx_agent_decide_door(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx, const char **why);
static ngx_int_t ngx_agent_decide_rule(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx);
static ngx_int_t ngx_agent_decide_bound(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx);
static ngx_int_t ngx_agent_decide_wait(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx, ngx_agent_state_e state);
static void ngx_agent_decide_waited(ngx_agent_wait_t *w);
static void ngx_agent_decide_resume(ngx_agent_ctx_t *ctx);
static ngx_int_t ngx_agent_decide_addresses(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx);
static void ngx_agent_decide_cleanup(void *data);
static ngx_int_t ngx_agent_decide_allow(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx);


ngx_int_t
ngx_agent_decide(ngx_http_request_t *r)
{
    ngx_agent_ctx_t       *ctx;
    ngx_agent_task_t      *task;
    ngx_http_cleanup_t    *cln;
    ngx_agent_srv_conf_t  *ascf;

    ascf = ngx_http_get_module_srv_conf(r, ngx_agent_broker_module);
    task = ngx_agent_task_of(r->connection);

    if (ascf->control.len == 0 && task == NULL) {
        return NGX_DECLINED;                /* another server's request */
    }

    if (ascf->control.len == 0 || task == NULL || r != r->main) {
        return NGX_HTTP_FORBIDDEN;          /* it did not come by a door */
    }

    ctx = ngx_http_get_module_ctx(r, ngx_agent_broker_module);

    if (ctx == NULL) {

        ctx = ngx_agent_judge_begin(r->pool, task);
        cln = ngx_http_cleanup_add(r, 0);

        if (ctx == NULL || cln == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        cln->handler = ngx_agent_decide_cleanup;
        cln->data = ctx;

        ngx_http_set_ctx(r, ctx, ngx_agent_broker_module);
    }

    switch (ctx->state) {

    case NGX_AGENT_UNDECIDED:
        return ngx_agent_decide_turn(r, ctx);

    case NGX_AGENT_TURN:

        if (ctx->wait.queue.next) {
            return NGX_DONE;
        }

        return ngx_agent_decide_target(r, ctx);

    case NGX_AGENT_ROOM:

        if (ctx->wait.queue.next) {
            return NGX_DONE;
        }

        return ngx_agent_decide_bound(r, ctx);

    case NGX_AGENT_RESOLVING:

        if (ctx->waiting) {
            return NGX_DONE;
        }

        return ngx_agent_decide_addresses(r, ctx);

    case NGX_AGENT_RECORDING:

        if (ctx->record.rc == NGX_AGAIN) {
            return NGX_DONE;
        }

        /* a client's event may have come first: resume is not called again */

        ngx_agent_audit_leave(&ctx->record);

        return ngx_agent_decide_allow(r, ctx);

    case NGX_AGENT_ALLOWED:
        return NGX_DECLINED;

    default:
        return NGX_HTTP_FORBIDDEN;
    }
}


/*
 * Each request takes a turn of `rate`, but for the first of a connection, which
 * took it when it was accepted.
 */

static ngx_int_t
ngx_agent_decide_turn(ngx_http_request_t *r, ngx_agent_ctx_t *ctx)
{
    ngx_agent_connection_t  *ac;

    ac = ngx_agent_task_connection(r->connection);

    ac->requests++;
    ctx->from = ac;
    ctx->http = r;

    ctx->left = NGX_AGENT_WAIT_MAX - ac->waited;
    ac->waited = 0;

#if (NGX_HTTP_V2)
    ctx->wait.is_stream = (r->stream != NULL);
    ac->has_streams = ctx->wait.is_stream;
#endif

    if (ac->paid) {
        ac->paid = 0;

    } else if (ngx_agent_decide_room(ctx, NGX_AGENT_WAIT_RATE,
                                     ngx_agent_decide_waited)
               == NGX_AGAIN)
    {
        return ngx_agent_decide_wait(r, ctx, NGX_AGENT_TURN);
    }

    return ngx_agent_decide_target(r, ctx);
}


ngx_int_t
ngx_agent_decide_room(ngx_agent_ctx_t *ctx, ngx_agent_wait_e kind,
    void (*handler)(ngx_agent_wait_t *w))
{
    ngx_int_t  rc;

    ctx->wait.handler = handler;
    ctx->wait.data = ctx;

    rc = ngx_agent_wait(&ctx->wait, ctx->task, kind, ctx->left);

    if (rc == NGX_OK) {
        ctx->wait.rc = NGX_OK;
        ctx->held = (kind == NGX_AGENT_WAIT_REQUEST);
    }

    return rc;
}


void
ngx_agent_decide_leave(ngx_agent_ctx_t *ctx)
{
    ngx_agent_wait_leave(&ctx->wait);

    if (ctx->held) {
        ctx->held = 0;
        ngx_agent_share_give(ctx->task, NGX_AGENT_HELD_REQUESTS);
        ngx_agent_wait_wake(ctx->task);
    }
}


/* The request stays where it is; a client that goes meanwhile is noticed. */

static ngx_int_t
ngx_agent_decide_wait(ngx_http_request_t *r, ngx_agent_ctx_t *ctx,
    ngx_agent_state_e state)
{
    ctx->state = state;

    ngx_agent_flow_watch(r);
    r->write_event_handler = ngx_http_core_run_phases;

    if (ngx_handle_read_event(r->connection->read, 0) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return NGX_DONE;
}


static void
ngx_agent_decide_waited(ngx_agent_wait_t *w)
{
    ngx_msec_t        waited;
    ngx_agent_ctx_t  *ctx;

    ctx = w->data;

    waited = ngx_current_msec - w->began;
    ctx->left -= ngx_min(ctx->left, waited);
    ctx->held = (w->kind == NGX_AGENT_WAIT_REQUEST && w->rc == NGX_OK);

    ngx_agent_decide_resume(ctx);
}


static ngx_int_t
ngx_agent_decide_target(ngx_http_request_t *r, ngx_agent_ctx_t *ctx)
{
    target_error_t       err;
    const char          *why;
    ngx_table_elt_t     *host;
    ngx_agent_reason_e   reason;

    host = r->headers_in.host;

    ctx->line = r->request_line;

    if (host) {
        ctx->host = host->value;
    }

    err = target_parse(ctx->line.data, ctx->line.len, ctx->host.data,
                       ctx->host.len, &ctx->target, &why);

    if (err == TARGET_OK) {
        err = ngx_agent_decide_door(r, ctx, &why);
    }

    if (err == TARGET_OK) {
        why = ngx_agent_fields_check(r, ctx);
        err = why ? TARGET_MALFORMED : TARGET_OK;
    }

    reason = ngx_agent_judge_load(r->pool, r->connection->log, ctx);

    ngx_log_debug6(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "agent: request %*s begins, task %*s, \"%s\" port %ui",
                   sizeof(ctx->request), ctx->request,
                   (size_t) PROTOCOL_ID_LEN, ctx->task->id,
                   ctx->target.authority.host,
                   (ngx_uint_t) ctx->target.authority.port);

    if (ctx->state == NGX_AGENT_TURN && ctx->wait.rc != NGX_OK) {
        return ngx_agent_refuse(r, ctx, NGX_AGENT_REASON_RATE, NULL);
    }

    if (err != TARGET_OK) {
        return ngx_agent_refuse(r, ctx, err == TARGET_MISMATCH
                                        ? NGX_AGENT_REASON_MISMATCH
                                        : NGX_AGENT_REASON_MALFORMED, why);
    }

    if (reason != NGX_AGENT_REASON_RULE) {
        return ngx_agent_refuse(r, ctx, reason, NULL);
    }

    return ngx_agent_decide_rule(r, ctx);
}


/*
 * The request must name the host and port that its connection has already
 * named by its door, by CONNECT or by SNI.
 */

static target_error_t
ngx_agent_decide_door(ngx_http_request_t *r, ngx_agent_ctx_t *ctx,
    const char **why)
{
    in_port_t                port;
    target_t                *t;
    ngx_uint_t               tls;
    const authority_t       *named;
    ngx_agent_connection_t  *ac;

    t = &ctx->target;
    ac = ngx_agent_task_connection(r->connection);
    tls = (r->connection->ssl != NULL);

    if (tls && !t->absolute) {

        t->https = true;

        if (!t->authority.has_port) {
            t->authority.port = 443;
        }
    }

    /* HTTP/2 sends the scheme separately, RFC 9113 section 8.3.1 */

    if (tls && r->http_version == NGX_HTTP_VERSION_20
        && (r->schema.len != 5
            || ngx_strncasecmp(r->schema.data, (u_char *) "https", 5) != 0))
    {
        t->https = false;
    }

    if (tls && !t->https) {
        *why = "a URL that is not https was sent over TLS";
        return TARGET_MISMATCH;
    }

    if (tls) {
        named = &ac->tls_name;
        port = ac->tls_name.port;

    } else if (ac->named.host_len) {
        named = &ac->named;
        port = ac->named.port;

    } else if (ac->door->kind == NGX_AGENT_DOOR_WEB) {
        named = NULL;
        port = ac->door->port;

    } else {
        return TARGET_OK;
    }

    if (named && !authority_same_host(named, &t->authority)) {
        *why = tls ? "the request and SNI name different hosts"
                   : "the request and CONNECT name different hosts";
        return TARGET_MISMATCH;
    }

    if (port != t->authority.port) {
        *why = "the request names another port than the one it came to";
        return TARGET_MISMATCH;
    }

    return TARGET_OK;
}


static ngx_int_t
ngx_agent_decide_rule(ngx_http_request_t *r, ngx_agent_ctx_t *ctx)
{
    ngx_agent_reason_e  reason;

    reason = ngx_agent_judge_find(ctx->policy, &ctx->target.authority,
                                  &ctx->rule);
    if (reason != NGX_AGENT_REASON_RULE) {
        return ngx_agent_refuse(r, ctx, reason, NULL);
    }

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "agent: policy \"%s\" rule \"%s\" found", ctx->policy->name,
                   ctx->rule->name);

    reason = ngx_agent_judge_request(ctx, ctx->rule);

    if (reason != NGX_AGENT_REASON_RULE) {
        return ngx_agent_refuse(r, ctx, reason, ctx->why);
    }

    if (ngx_agent_headers_asks_websocket(r)) {

        if (!ctx->rule->websocket) {
            return ngx_agent_refuse(r, ctx, NGX_AGENT_REASON_UPGRADE, NULL);
        }

        ctx->websocket = (r->method == NGX_HTTP_GET);
    }

    if (ngx_agent_decide_room(ctx, NGX_AGENT_WAIT_REQUEST,
                              ngx_agent_decide_waited)
        == NGX_AGAIN)
    {
        return ngx_agent_decide_wait(r, ctx, NGX_AGENT_ROOM);
    }

    return ngx_agent_decide_bound(r, ctx);
}


static ngx_int_t
ngx_agent_decide_bound(ngx_http_request_t *r, ngx_agent_ctx_t *ctx)
{
    ngx_int_t                rc;
    ngx_agent_reason_e       reason;
    ngx_agent_connection_t  *ac;

    reason = ctx->wait.rc == NGX_OK ? ngx_agent_flow_begin(r, ctx)
                                    : NGX_AGENT_REASON_CONNECTIONS;

    if (reason == NGX_AGENT_REASON_RULE) {
        reason = ngx_agent_judge_bounds(ctx->task);
    }

    if (reason != NGX_AGENT_REASON_RULE) {
        return ngx_agent_refuse(r, ctx, reason, NULL);
    }

    /*
     * A rule without a port allows the box 80 and 443, and dials 443 with TLS
     * for both.
     */

    ctx->tls = !ctx->rule->plaintext;
    ctx->port = ctx->rule->port ? ctx->rule->port : (ctx->tls ? 443 : 80);

    ctx->pool = r->pool;
    ctx->resolved = ngx_agent_decide_resume;

    ac = ngx_agent_task_connection(r->connection);

    rc = ngx_agent_resolve(ctx, ac->door->core);

    if (rc == NGX_OK) {
        return ngx_agent_decide_addresses(r, ctx);
    }

    if (rc != NGX_AGAIN) {
        return ngx_agent_refuse(r, ctx, NGX_AGENT_REASON_RESOLVE, ctx->why);
    }

    return ngx_agent_decide_wait(r, ctx, NGX_AGENT_RESOLVING);
}


/* Called when the addresses are known, and when the audit line is done. */

static void
ngx_agent_decide_resume(ngx_agent_ctx_t *ctx)
{
    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    r = ctx->http;
    c = r->connection;

    r->read_event_handler = ngx_http_block_reading;

    ngx_http_core_run_phases(r);
    ngx_http_run_posted_requests(c);
}


static ngx_int_t
ngx_agent_decide_addresses(ngx_http_request_t *r, ngx_agent_ctx_t *ctx)
{
    target_t              *t;
    ngx_agent_reason_e     reason;
    ngx_agent_stripped_t   stripped;

    reason = ngx_agent_resolve_guard(ctx);

    if (reason != NGX_AGENT_REASON_RULE) {
        return ngx_agent_refuse(r, ctx, reason, ctx->why);
    }

    ctx->state = NGX_AGENT_RECORDING;
    ctx->reason = NGX_AGENT_REASON_RULE;

    ctx->record.ctx = ctx;
    ctx->record.handler = ngx_agent_decide_resume;

    t = &ctx->target;
    stripped.count = 0;
    stripped.cut = 0;

    ngx_agent_strip_names(ctx->rule, &r->headers_in.headers.part, t->query,
                          t->query_len, &stripped);

    ctx->stripped = stripped.count ? &stripped : NULL;

    (void) ngx_agent_events_decision(ctx, "allowed");

    ctx->stripped = NULL;                   /* it is not ours to keep */

    ngx_log_debug3(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "agent: request %*s waits for audit line %uL",
                   sizeof(ctx->request), ctx->request, ctx->record.sequence);

    return NGX_DONE;
}


static void
ngx_agent_decide_cleanup(void *data)
{
    ngx_agent_ctx_t *ctx = data;

    ngx_agent_resolve_cancel(ctx);
    ngx_agent_audit_leave(&ctx->record);
    ngx_agent_live_remove(ctx);
    ngx_agent_flow_end(ctx);
    ngx_agent_decide_leave(ctx);

    if (ctx->from) {
        ctx->from->requests--;
        ngx_agent_wait_served(ctx->from);
    }
}


static ngx_int_t
ngx_agent_decide_allow(ngx_http_request_t *r, ngx_agent_ctx_t *ctx)
{
    if (ctx->record.rc != NGX_OK) {
        return ngx_agent_refuse(r, ctx, NGX_AGENT_REASON_AUDIT, NULL);
    }

    ctx->state = NGX_AGENT_ALLOWED;

    ngx_log_debug3(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "agent: request %*s allowed, audit line %uL written",
                   sizeof(ctx->request), ctx->request, ctx->record.sequence);

    /*
     * Core would switch protocols if the client asked for it and the upstream
     * answers 101, although Upgrade is not sent on.
     */

    if (!ctx->websocket) {
        r->headers_in.upgrade = NULL;
    }

    return NGX_DECLINED;
}
