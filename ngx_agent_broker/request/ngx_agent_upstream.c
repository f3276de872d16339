/*
 * Dials only the judged addresses, and has the credential attached.
 *
 * nginx's proxy does the work; the name in its proxy_pass leads to the peer
 * selection here, which is called when the request for the upstream has been
 * made and before anything is connected.  Then, in this order:
 *
 *   1. the proxy's configuration is checked to be safe;
 *   2. if the policies have changed, the new one must allow the request too;
 *   3. the request's header is rewritten, with the credential, by
 *      ngx_agent_headers.c, which says how the credential is kept secret.
 *
 * No request is sent a second time once a byte of it may have been read: only
 * a dial that failed before the first byte was given to the kernel, or a kept
 * connection that took none, is replaced by the next address.
 */


#include "request/ngx_agent_request.h"

#include <openssl/ssl.h>


static ngx_int_t ngx_agent_upstream_init(ngx_conf_t *cf,
    ngx_http_upstream_srv_conf_t *us);
static ngx_int_t ngx_agent_upstream_peer_init(ngx_http_request_t *r,
    ngx_http_upstream_srv_conf_t *us);
static ngx_int_t ngx_agent_upstream_peer_get(ngx_peer_connection_t *pc,
    void *data);
static void ngx_agent_upstream_dial_timeout(ngx_event_t *ev);
static void ngx_agent_upstream_peer_free(ngx_peer_connection_t *pc, void *data,
    ngx_uint_t state);
static const char *ngx_agent_upstream_late(ngx_http_upstream_t *u,
    ngx_connection_t *c);
static ngx_uint_t ngx_agent_upstream_is_read(ngx_connection_t *c,
    ngx_uint_t kept, ngx_agent_ctx_t *ctx);
static const policy_rule_t *ngx_agent_upstream_judge(ngx_agent_ctx_t *ctx);
static void ngx_agent_upstream_cut(ngx_agent_ctx_t *ctx,
    ngx_agent_reason_e reason);


ngx_int_t
ngx_agent_upstream_add(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf)
{
    ngx_url_t                      u;
    ngx_http_upstream_srv_conf_t  *uscf;

    ngx_memzero(&u, sizeof(ngx_url_t));

    ngx_str_set(&u.host, NGX_AGENT_UPSTREAM);
    u.no_resolve = 1;
    u.no_port = 1;

    uscf = ngx_http_upstream_add(cf, &u, NGX_HTTP_UPSTREAM_CREATE);
    if (uscf == NULL) {
        return NGX_ERROR;
    }

    uscf->peer.init_upstream = ngx_agent_upstream_init;

    amcf->upstream = uscf;

    return NGX_OK;
}


static ngx_int_t
ngx_agent_upstream_init(ngx_conf_t *cf, ngx_http_upstream_srv_conf_t *us)
{
    us->peer.init = ngx_agent_upstream_peer_init;

    return NGX_OK;
}


const char *
ngx_agent_upstream_unsafe(ngx_http_upstream_conf_t *ucf)
{
    ngx_uint_t  i, ignored;

    ignored = NGX_HTTP_UPSTREAM_IGN_XA_REDIRECT
              |NGX_HTTP_UPSTREAM_IGN_XA_EXPIRES
              |NGX_HTTP_UPSTREAM_IGN_XA_LIMIT_RATE
              |NGX_HTTP_UPSTREAM_IGN_XA_BUFFERING
              |NGX_HTTP_UPSTREAM_IGN_XA_CHARSET;

    const struct {
        ngx_uint_t   unsafe;
        const char  *what;
    } checks[] = {

        /* any other upstream, like a parent proxy, is dialled unjudged */

        { ucf->ssl == NULL || ucf->ssl->ctx == NULL || ucf->upstream == NULL
          || ucf->upstream->peer.init_upstream != ngx_agent_upstream_init,
          "proxy_pass must be https://" NGX_AGENT_UPSTREAM },

        { ucf->ssl_verify != 1, "proxy_ssl_verify must be on" },
        { ucf->ssl_server_name != 1, "proxy_ssl_server_name must be on" },
        { ucf->ssl_name == NULL, "proxy_ssl_name must be $agent_host" },
        { ucf->ssl_session_reuse != 1, "proxy_ssl_session_reuse must be on" },

        { ucf->ssl_certificate && ucf->ssl_certificate->value.len,
          "proxy_ssl_certificate must not be set" },

        { (ucf->ignore_headers & ignored) != ignored,
          "proxy_ignore_headers must name every X-Accel header" },

#if (NGX_HTTP_CACHE)
        { ucf->cache, "proxy_cache must be off" },
#endif

        { ucf->store, "proxy_store must be off" },
        { ucf->intercept_errors, "proxy_intercept_errors must be off" },

        /* else the broker keeps a slow peer's bodies on disk and in memory */

        { ucf->buffering, "proxy_buffering must be off" },
        { ucf->request_buffering, "proxy_request_buffering must be off" },
    };

    for (i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        if (checks[i].unsafe) {
            return checks[i].what;
        }
    }

    return NULL;
}


static ngx_int_t
ngx_agent_upstream_peer_init(ngx_http_request_t *r,
    ngx_http_upstream_srv_conf_t *us)
{
    const char                *why;
    ngx_agent_ctx_t           *ctx;
    ngx_http_upstream_t       *u;
    const policy_rule_t       *rule;
    ngx_http_upstream_conf_t  *conf;

    static ngx_http_upstream_conf_t  *checked;

    u = r->upstream;
    ctx = ngx_http_get_module_ctx(r, ngx_agent_broker_module);

    if (ctx == NULL || ctx->state != NGX_AGENT_ALLOWED || r != r->main) {
        ngx_log_error(NGX_LOG_ALERT, r->connection->log, 0,
                      "a request that was not allowed reached the upstream");
        return NGX_ERROR;
    }

    /* a location's configuration is the same as long as the worker lives */

    why = (checked && u->conf == checked)
          ? NULL : ngx_agent_upstream_unsafe(u->conf);

    if (why) {
        ctx->failure = NGX_AGENT_REASON_CONFIGURATION;
        ngx_log_error(NGX_LOG_ALERT, r->connection->log, 0,
                      "nothing is sent: %s", why);
        return NGX_ERROR;
    }

    checked = u->conf;

    if (ctx->set->generation != ngx_agent_zone_generation()) {

        rule = ngx_agent_upstream_judge(ctx);

        if (rule == NULL) {
            ngx_agent_flow_cut(ctx, NGX_AGENT_REASON_CHANGED);
            return NGX_ERROR;
        }

        ctx->rule = rule;
    }

    if (ngx_agent_headers_rewrite(r, ctx) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_agent_flow_upstream(r, ctx);
    ngx_agent_live_add(ctx, ngx_agent_upstream_judge, ngx_agent_upstream_cut);
    ngx_agent_answer_init(r, ctx);

    ctx->http = r;
    ctx->next = 0;

    u->ssl = ctx->tls;                      /* by the rule, not by proxy_pass */

    if (!u->ssl) {
        ngx_str_set(&u->schema, "http://");     /* what error.log shows */
    }

    if (u->ssl && ctx->target.authority.kind != AUTHORITY_NAME) {
        /*
         * Core would send the address as SNI, cut at its first colon, and look
         * for a DNS name like it.  OpenSSL itself verifies the address.
         */

        conf = ngx_palloc(r->pool, sizeof(ngx_http_upstream_conf_t));
        if (conf == NULL) {
            return NGX_ERROR;
        }

        *conf = *u->conf;
        conf->ssl_verify = 0;
        conf->ssl_server_name = 0;

        u->conf = conf;
    }

    u->peer.data = ctx;
    u->peer.get = ngx_agent_upstream_peer_get;
    u->peer.free = ngx_agent_upstream_peer_free;
    u->peer.tries = ctx->addresses_count;

#if (NGX_HTTP_SSL)
    u->peer.set_session = ngx_agent_verify_begin;
    u->peer.save_session = ngx_agent_verify_save;
#endif

    return NGX_OK;
}


/*
 * The policies have changed after the verdict: the new policy must allow the
 * request too, to the same port in the same way and with the same credential;
 * an upgrade also before the upstream has taken it.
 */

static const policy_rule_t *
ngx_agent_upstream_judge(ngx_agent_ctx_t *ctx)
{
    ngx_http_request_t   *r;
    const policy_rule_t  *rule, *old;

    r = ctx->http;
    old = ctx->rule;
    rule = ngx_agent_judge_again(r->pool, r->connection->log, ctx);

    if (rule == NULL
        || rule->plaintext != old->plaintext || rule->port != old->port
        || !policy_rule_has_same_credential(rule, old)
        || (ctx->websocket && !rule->websocket))
    {
        return NULL;
    }

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "agent: judged again by generation %uL",
                   ctx->set->generation);

    return rule;
}


/*
 * Ends a request that is carried.  Before its answer has begun, reading that
 * fails makes core answer with the failure; afterwards the answer is cut.
 */

static void
ngx_agent_upstream_cut(ngx_agent_ctx_t *ctx, ngx_agent_reason_e reason)
{
    ngx_connection_t     *c;
    ngx_http_request_t   *r;
    ngx_http_upstream_t  *u;

    r = ctx->http;
    u = r->upstream;

    if (!u->header_sent) {

        c = u->peer.connection;

        if (c && u->request_sent) {
            c->read->ready = 1;
            ngx_post_event(c->read, &ngx_posted_events);
        }

        return;
    }

    c = r->connection;

    /* core ends its part in a cleanup, and would free the request there */

    r->main->count++;

    r->main->count++;                       /* the upstream's end takes one */

    ngx_http_finalize_request(r, NGX_HTTP_CLOSE);
    ngx_http_run_posted_requests(c);
}


static ngx_int_t
ngx_agent_upstream_peer_get(ngx_peer_connection_t *pc, void *data)
{
    ngx_agent_ctx_t *ctx = data;

    ngx_int_t             rc;
    address_t            *a;
    ngx_msec_t            share;
    ngx_http_upstream_t  *u;

    /* if the upstream has closed a kept connection, a new one is made */

    if (!ctx->kept) {
        ctx->kept = 1;

        a = ngx_agent_keepalive_get(pc, ctx);

        if (a) {
            ctx->failure = NGX_AGENT_REASON_NONE;
            ctx->why = NULL;

            ngx_log_debug1(NGX_LOG_DEBUG_HTTP, pc->log, 0,
                           "agent: kept connection used, fd %d",
                           pc->connection->fd);

            return ngx_agent_upstream_peer_address(pc, ctx, a) == NGX_OK
                   ? NGX_DONE : NGX_ERROR;
        }
    }

    u = ctx->http->upstream;

    share = ngx_agent_upstream_share(ctx, u->conf->connect_timeout);

    if (share == 0) {
        return NGX_BUSY;
    }

    ctx->failure = NGX_AGENT_REASON_NONE;    /* of the address before it */
    ctx->why = NULL;

    pc->cached = 0;
    pc->connection = NULL;
    ctx->dialled_by = ctx->set->generation;

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, pc->log, 0,
                   "agent: dials address %ui of %ui", ctx->next + 1,
                   ctx->addresses_count);

    rc = ngx_agent_upstream_peer_address(pc, ctx,
                                         &ctx->addresses[ctx->next++]);
    if (rc != NGX_OK) {
        return rc;
    }

    ctx->dial.handler = ngx_agent_upstream_dial_timeout;
    ctx->dial.data = ctx->http->connection;
    ctx->dial.log = pc->log;

    ngx_add_timer(&ctx->dial, share);

    return NGX_OK;
}


ngx_msec_t
ngx_agent_upstream_share(ngx_agent_ctx_t *ctx, ngx_msec_t total)
{
    ngx_msec_t  passed;

    if (ctx->next == 0) {
        ctx->dialled = ngx_current_msec;
    }

    passed = ngx_current_msec - ctx->dialled;

    if (ctx->next == ctx->addresses_count || passed >= total) {
        return 0;
    }

    return (total - passed) / (ctx->addresses_count - ctx->next) + 1;
}


/*
 * The time of this address is over: core's own timer begins anew with each
 * address.  The handlers see it as core's.
 */

static void
ngx_agent_upstream_dial_timeout(ngx_event_t *ev)
{
    ngx_agent_ctx_t      *ctx;
    ngx_connection_t     *c;
    ngx_http_upstream_t  *u;

    ctx = (ngx_agent_ctx_t *) ((u_char *) ev - offsetof(ngx_agent_ctx_t, dial));

    u = ctx->http->upstream;
    c = u->peer.connection;

    if (c == NULL || u->request_sent) {
        return;
    }

    if (c->write->timer_set) {
        ngx_del_timer(c->write);
    }

    c->write->timedout = 1;
    c->write->handler(c->write);
}


ngx_int_t
ngx_agent_upstream_peer_address(ngx_peer_connection_t *pc,
    ngx_agent_ctx_t *ctx, address_t *a)
{
    pc->socklen = ngx_agent_resolve_sockaddr(&ctx->sockaddr, a->bytes,
                                             a->v6 ? 16 : 4, ctx->port);
    pc->sockaddr = &ctx->sockaddr.sockaddr;
    pc->name = &ctx->peer;

    return (a == ctx->named) ? NGX_OK : ngx_agent_resolve_name(ctx, a);
}


static void
ngx_agent_upstream_peer_free(ngx_peer_connection_t *pc, void *data,
    ngx_uint_t state)
{
    ngx_agent_ctx_t *ctx = data;

    long                  verified;
    ngx_connection_t     *c;
    ngx_http_upstream_t  *u;

    c = pc->connection;
    u = ctx->http->upstream;

    if (ctx->dial.timer_set) {
        ngx_del_timer(&ctx->dial);
    }

    if (ctx->failure == NGX_AGENT_REASON_NONE && c
        && (c->read->timedout || c->write->timedout))
    {
        ctx->failure = NGX_AGENT_REASON_UPSTREAM_TIMEOUT;
        ctx->why = ngx_agent_upstream_late(u, c);
    }

    if ((state & NGX_PEER_FAILED) && ctx->failure == NGX_AGENT_REASON_NONE) {

        verified = (c && c->ssl)
                   ? SSL_get_verify_result(c->ssl->connection) : X509_V_OK;

        if (verified != X509_V_OK) {
            ctx->failure = NGX_AGENT_REASON_CERTIFICATE;
            ctx->why = X509_verify_cert_error_string(verified);

        } else if (c && c->ssl && !c->ssl->handshaked) {
            ctx->failure = NGX_AGENT_REASON_HANDSHAKE;

        } else if (u->state && u->state->connect_time == (ngx_msec_t) -1) {
            ctx->failure = NGX_AGENT_REASON_UNREACHABLE;

        } else {
            ctx->failure = NGX_AGENT_REASON_NO_ANSWER;
        }
    }

    ngx_log_debug3(NGX_LOG_DEBUG_HTTP, pc->log, 0,
                   "agent: upstream %V left, state %ui, failure \"%s\"",
                   &ctx->peer, state,
                   ctx->failure ? ngx_agent_reason(ctx->failure)->word
                                : "none");

    /* without a connection request_sent is still that of the one before */

    ngx_agent_headers_forget(ctx, c);

    if (c && u->request_sent && ngx_agent_upstream_is_read(c, pc->cached, ctx))
    {
        ngx_agent_keepalive_put(pc, ctx, state);

        pc->tries = 0;
        pc->cached = 0;                     /* else core adds one */

    } else if (pc->tries) {
        pc->tries--;
    }
}


/* What was waited for: a constant. */

static const char *
ngx_agent_upstream_late(ngx_http_upstream_t *u, ngx_connection_t *c)
{
    if (!u->request_sent) {
        return c->ssl ? "the TLS handshake took too long"
                      : "the connection took too long";
    }

    if (u->header_sent) {
        return "the answer stopped";
    }

    return c->write->timedout ? "the request was not read in time"
                              : "no answer came in time";
}


/*
 * May the upstream have read of the request?  Only a kept connection that took
 * not one byte has surely not.
 */

static ngx_uint_t
ngx_agent_upstream_is_read(ngx_connection_t *c, ngx_uint_t kept,
    ngx_agent_ctx_t *ctx)
{
    if (c->sent > 0
        || (c->ssl && kept
            && BIO_number_written(SSL_get_wbio(c->ssl->connection))
               != ctx->written))
    {
        ctx->sent = 1;
    }

    return ctx->sent || !kept;
}
