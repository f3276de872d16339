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
 */


#include "request/ngx_agent_request.h"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>


static ngx_int_t ngx_agent_upstream_init(ngx_conf_t *cf,
    ngx_http_upstream_srv_conf_t *us);
static ngx_int_t ngx_agent_upstream_peer_init(ngx_http_request_t *r,
    ngx_http_upstream_srv_conf_t *us);
static ngx_int_t ngx_agent_upstream_peer_get(ngx_peer_connection_t *pc,
    void *data);
static void ngx_agent_upstream_peer_free(ngx_peer_connection_t *pc, void *data,
    ngx_uint_t state);
static ngx_int_t ngx_agent_upstream_peer_tls(ngx_peer_connection_t *pc,
    void *data);
static void ngx_agent_upstream_peer_save(ngx_peer_connection_t *pc, void *data);
static int ngx_agent_upstream_verify(int ok, X509_STORE_CTX *store);
static X509_STORE *ngx_agent_upstream_trust(const policy_rule_t *rule);
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
    const char           *why;
    ngx_agent_ctx_t      *ctx;
    ngx_http_upstream_t  *u;
    const policy_rule_t  *rule;

    u = r->upstream;
    ctx = ngx_http_get_module_ctx(r, ngx_agent_broker_module);

    if (ctx == NULL || ctx->state != NGX_AGENT_ALLOWED || r != r->main) {
        ngx_log_error(NGX_LOG_ALERT, r->connection->log, 0,
                      "a request that was not allowed reached the upstream");
        return NGX_ERROR;
    }

    why = ngx_agent_upstream_unsafe(u->conf);

    if (why) {
        ctx->failure = "configuration";
        ngx_log_error(NGX_LOG_ALERT, r->connection->log, 0,
                      "nothing is sent: %s", why);
        return NGX_ERROR;
    }

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

    ctx->http = r;
    ctx->next = 0;

    u->ssl = ctx->tls;                      /* by the rule, not by proxy_pass */

    u->peer.data = ctx;
    u->peer.get = ngx_agent_upstream_peer_get;
    u->peer.free = ngx_agent_upstream_peer_free;
    u->peer.tries = ctx->addresses_count;

#if (NGX_HTTP_SSL)
    u->peer.set_session = ngx_agent_upstream_peer_tls;
    u->peer.save_session = ngx_agent_upstream_peer_save;
#endif

    return NGX_OK;
}


/*
 * The policies have changed after the verdict: the new policy must allow the
 * request too, to the same port in the same way and with the same credential.
 */

static const policy_rule_t *
ngx_agent_upstream_judge(ngx_agent_ctx_t *ctx)
{
    ngx_http_request_t   *r;
    const policy_rule_t  *rule, *old;

    r = ctx->http;
    old = ctx->rule;
    rule = ngx_agent_decide_again(r->pool, r->connection->log, ctx);

    if (rule == NULL
        || rule->plaintext != old->plaintext || rule->port != old->port
        || rule->credential_kind != old->credential_kind
        || (rule->credential
            && ngx_strcmp(rule->credential, old->credential) != 0)
        || (r->upstream->upgrade && !rule->websocket))
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

    ngx_http_finalize_request(r, NGX_HTTP_CLOSE);
    ngx_http_run_posted_requests(c);
}


static ngx_int_t
ngx_agent_upstream_peer_get(ngx_peer_connection_t *pc, void *data)
{
    ngx_agent_ctx_t *ctx = data;

    address_t  *a;

    ctx->failure = NULL;                    /* of the address before this */
    ctx->why = NULL;

    /* if the upstream has closed a kept connection, a new one is made */

    if (!ctx->kept) {
        ctx->kept = 1;

        a = ngx_agent_keepalive_get(pc, ctx);

        if (a) {
            ngx_log_debug1(NGX_LOG_DEBUG_HTTP, pc->log, 0,
                           "agent: kept connection used, fd %d",
                           pc->connection->fd);

            return ngx_agent_upstream_peer_address(pc, ctx, a) == NGX_OK
                   ? NGX_DONE : NGX_ERROR;
        }
    }

    if (ctx->next == ctx->addresses_count) {
        return NGX_BUSY;
    }

    pc->cached = 0;
    pc->connection = NULL;

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, pc->log, 0,
                   "agent: dials address %ui of %ui", ctx->next + 1,
                   ctx->addresses_count);

    return ngx_agent_upstream_peer_address(pc, ctx,
                                           &ctx->addresses[ctx->next++]);
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

    if (ctx->failure == NULL && c
        && (c->read->timedout || c->write->timedout))
    {
        ctx->failure = "upstream_timeout";
    }

    if ((state & NGX_PEER_FAILED) && ctx->failure == NULL) {

        verified = (c && c->ssl)
                   ? SSL_get_verify_result(c->ssl->connection) : X509_V_OK;

        if (verified != X509_V_OK) {
            ctx->failure = "certificate_unverified";
            ctx->why = X509_verify_cert_error_string(verified);

        } else if (c && c->ssl && !c->ssl->handshaked) {
            ctx->failure = "tls_handshake";

        } else if (u->state && u->state->connect_time == (ngx_msec_t) -1) {
            ctx->failure = "upstream_unreachable";

        } else {
            ctx->failure = "no_answer";
        }
    }

    ngx_log_debug3(NGX_LOG_DEBUG_HTTP, pc->log, 0,
                   "agent: upstream %V left, state %ui, failure \"%s\"",
                   &ctx->peer, state, ctx->failure ? ctx->failure : "none");

    ngx_agent_keepalive_put(pc, ctx, state);

    if (pc->tries) {
        pc->tries--;
    }
}


#if (NGX_HTTP_SSL)

/*
 * nginx asks here for a session to resume, when the TLS object is made and its
 * SNI set, and before a byte is sent.  The name and the trust store that the
 * handshake must prove are set on the connection itself.  nginx checks the
 * result again afterwards.
 */

static ngx_int_t
ngx_agent_upstream_peer_tls(ngx_peer_connection_t *pc, void *data)
{
    ngx_agent_ctx_t *ctx = data;

    SSL                *ssl;
    X509_STORE         *store;
    authority_t        *a;
    const char         *sni;
    ngx_ssl_session_t  *session;

    ssl = pc->connection->ssl->connection;
    a = &ctx->target.authority;

    if (a->kind == AUTHORITY_NAME) {

        sni = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);

        if (sni == NULL || ngx_strcmp(sni, a->host) != 0) {
            ctx->failure = "configuration";
            ngx_log_error(NGX_LOG_ALERT, pc->log, 0,
                          "nothing is sent: proxy_ssl_name must be "
                          "$agent_host");
            return NGX_ERROR;
        }

        SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);

        if (SSL_set1_host(ssl, a->host) != 1) {
            return NGX_ERROR;
        }

    } else if (X509_VERIFY_PARAM_set1_ip(SSL_get0_param(ssl), a->address,
                                         a->kind == AUTHORITY_IPV6 ? 16 : 4)
               != 1)
    {
        return NGX_ERROR;
    }

    SSL_set_verify(ssl, SSL_VERIFY_PEER, ngx_agent_upstream_verify);

    if (ctx->rule->trusted_pem) {

        store = ngx_agent_upstream_trust(ctx->rule);

        if (store == NULL || SSL_set1_verify_cert_store(ssl, store) != 1) {
            ctx->failure = "configuration";
            return NGX_ERROR;
        }
    }

    if (ngx_agent_bio(pc->connection) != NGX_OK) {
        return NGX_ERROR;
    }

    session = ngx_agent_keepalive_session_get(ctx);

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, pc->log, 0,
                   "agent: handshake must prove \"%s\", %s", a->host,
                   session ? "resumed" : "full");

    if (session && ngx_ssl_set_session(pc->connection, session) != NGX_OK) {
        return NGX_ERROR;
    }

    return NGX_OK;
}


/*
 * A resumed session skips the check of the name: it is used only for the name,
 * the task and the trust store that it was verified with.
 */

static void
ngx_agent_upstream_peer_save(ngx_peer_connection_t *pc, void *data)
{
    ngx_agent_ctx_t *ctx = data;

    ngx_ssl_session_t  *session;

    if (SSL_get_verify_result(pc->connection->ssl->connection) != X509_V_OK
        || ctx->task->ended)
    {
        return;
    }

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, pc->log, 0,
                   "agent: upstream verified as \"%s\"",
                   ctx->target.authority.host);

    session = ngx_ssl_get_session(pc->connection);

    if (session) {
        ngx_agent_keepalive_session_put(ctx, session);
    }
}

#endif


static int
ngx_agent_upstream_verify(int ok, X509_STORE_CTX *store)
{
    return ok;
}


/* The trust store of a rule, made once per worker and generation. */

static X509_STORE *
ngx_agent_upstream_trust(const policy_rule_t *rule)
{
    BIO         *bio;
    X509        *x509;
    X509_STORE  *store;

    if (rule->data) {
        return rule->data;
    }

    bio = BIO_new_mem_buf(rule->trusted_pem, -1);
    store = X509_STORE_new();

    if (bio == NULL || store == NULL) {
        BIO_free(bio);
        X509_STORE_free(store);
        return NULL;
    }

    while ((x509 = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
        (void) X509_STORE_add_cert(store, x509);
        X509_free(x509);
    }

    ERR_clear_error();
    BIO_free(bio);

    ((policy_rule_t *) rule)->data = store;

    return store;
}
