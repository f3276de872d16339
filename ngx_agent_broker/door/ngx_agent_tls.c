/*
 * TLS that ends at a door.  The box trusts our authority besides the system's
 * roots; a leaf is minted for the name that the client asks for, if the policy
 * allows that name, and the requests inside are judged like any other.
 *
 * The name is judged in the client hello, before a session is resumed: a
 * resumed handshake asks for no certificate, and under TLS 1.2 does not show
 * its SNI again.  Sessions are bound to task and host.
 */


#include "door/ngx_agent_door.h"
#include "parse/client_hello.h"

#include <openssl/sha.h>
#include <openssl/ssl.h>


#define NGX_AGENT_LEAVES       1024         /* cached, in each worker */
#define NGX_AGENT_TLS_TIMEOUT  300          /* of a session, s */


static int ngx_agent_tls_hello(SSL *ssl, int *alert, void *data);
static int ngx_agent_tls_cert(SSL *ssl, void *data);
static ngx_int_t ngx_agent_tls_pay(ngx_agent_connection_t *ac);
static int ngx_agent_tls_alpn(SSL *ssl, const unsigned char **out,
    unsigned char *outlen, const unsigned char *in, unsigned int inlen,
    void *data);
static const char *ngx_agent_tls_sni(SSL *ssl, authority_t *name);
static void ngx_agent_tls_dialled(ngx_agent_connection_t *ac,
    authority_t *name);
static ngx_int_t ngx_agent_tls_session(SSL *ssl, ngx_agent_connection_t *ac);
static void ngx_agent_tls_refuse(ngx_agent_connection_t *ac,
    ngx_agent_reason_e reason, const char *why, const authority_t *name);


static mint_t     *ngx_agent_mint;
static ngx_pid_t   ngx_agent_mint_pid;
static X509       *ngx_agent_mint_ca;       /* not its own reference */


/* Gives the server with agent_control a TLS context without certificates. */

ngx_int_t
ngx_agent_tls_init(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf,
    ngx_agent_srv_conf_t *ascf)
{
    SSL_CTX                  *ctx;
    ngx_pool_cleanup_t       *cln;
    ngx_http_ssl_srv_conf_t  *sscf;

    sscf = ascf->core->ctx->srv_conf[ngx_http_ssl_module.ctx_index];

    if (sscf->ssl.ctx) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"ssl_certificate\" must not be set in the server "
                      "with \"agent_control\": certificates are minted "
                      "in %s:%ui", ascf->file, ascf->line);
        return NGX_ERROR;
    }

    sscf->ssl.log = cf->log;

    if (ngx_ssl_create(&sscf->ssl, NGX_SSL_TLSv1_2|NGX_SSL_TLSv1_3, sscf)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    cln = ngx_pool_cleanup_add(cf->pool, 0);
    if (cln == NULL) {
        ngx_ssl_cleanup_ctx(&sscf->ssl);
        return NGX_ERROR;
    }

    cln->handler = ngx_ssl_cleanup_ctx;
    cln->data = &sscf->ssl;

    ctx = sscf->ssl.ctx;

    SSL_CTX_set_client_hello_cb(ctx, ngx_agent_tls_hello, NULL);
    SSL_CTX_set_cert_cb(ctx, ngx_agent_tls_cert, amcf);
    SSL_CTX_set_alpn_select_cb(ctx, ngx_agent_tls_alpn, NULL);

    /*
     * Sessions are resumed by tickets (the master makes the keys here, so all
     * workers have the same); no memory is kept for a box's sessions.
     */

    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_timeout(ctx, NGX_AGENT_TLS_TIMEOUT);
    SSL_CTX_set_num_tickets(ctx, 1);

    if (SSL_CTX_set1_groups_list(ctx, "X25519:P-256:P-384") != 1
        || SSL_CTX_set_session_id_context(ctx, (u_char *) "box", 3) != 1)
    {
        return NGX_ERROR;
    }

    return NGX_OK;
}


static int
ngx_agent_tls_hello(SSL *ssl, int *alert, void *data)
{
    authority_t              name;
    const char              *why;
    ngx_connection_t        *c;
    ngx_agent_reason_e       reason;
    ngx_agent_connection_t  *ac;

    c = ngx_ssl_get_connection(ssl);
    ac = ngx_agent_task_connection(c);

    *alert = SSL_AD_UNRECOGNIZED_NAME;

    if (ac == NULL) {
        return SSL_CLIENT_HELLO_ERROR;
    }

    reason = NGX_AGENT_REASON_RULE;

    why = ngx_agent_tls_sni(ssl, &name);

    if (why) {
        reason = NGX_AGENT_REASON_MALFORMED;

    } else if (name.host_len == 0) {
        name = ac->named;

        /* RFC 6066 section 3: an address is never in the SNI */

        if (name.host_len == 0 && ac->door->kind == NGX_AGENT_DOOR_WEB) {
            ngx_agent_tls_dialled(ac, &name);
        }

        if (name.host_len == 0 || name.kind == AUTHORITY_NAME) {
            reason = NGX_AGENT_REASON_SNI;
            why = "the client names no host (SNI)";
        }

    } else if (ac->named.host_len && !authority_same_host(&name, &ac->named)) {
        reason = NGX_AGENT_REASON_SNI;
        why = "SNI and CONNECT name different hosts";
    }

    name.port = ac->named.host_len ? ac->named.port : ac->door->port;

    if (reason == NGX_AGENT_REASON_RULE) {
        reason = ngx_agent_judge_name(ac->task, c->log, &name);
    }

    ngx_log_debug3(NGX_LOG_DEBUG_HTTP, c->log, 0,
                   "agent: TLS name \"%s\" port %ui: %s", name.host,
                   (ngx_uint_t) name.port, ngx_agent_reason(reason)->word);

    if (reason != NGX_AGENT_REASON_RULE) {
        ngx_agent_tls_refuse(ac, reason, why, &name);
        return SSL_CLIENT_HELLO_ERROR;
    }

    ac->tls_name = name;

    if (ngx_agent_tls_session(ssl, ac) != NGX_OK
        || ngx_agent_bio(c) != NGX_OK)
    {
        *alert = SSL_AD_INTERNAL_ERROR;
        return SSL_CLIENT_HELLO_ERROR;
    }

    return SSL_CLIENT_HELLO_SUCCESS;
}


/*
 * Reads the name in the client hello: NULL, or why it is refused.  Without SNI
 * the name is empty.
 */

static const char *
ngx_agent_tls_sni(SSL *ssl, authority_t *name)
{
    size_t                n;
    const unsigned char  *p;

    ngx_memzero(name, sizeof(authority_t));

    if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &p, &n) == 1
        && client_hello_server_name(p, n, name) != HELLO_OK)
    {
        return "the SNI extension does not contain one valid name";
    }

    return NULL;
}


/*
 * The address that the client has connected to: all are local in a box.  It
 * stays empty if the policy does not name it, so that a client without SNI is
 * told of that.
 */

static void
ngx_agent_tls_dialled(ngx_agent_connection_t *ac, authority_t *name)
{
    char                  text[ADDRESS_TEXT_MAX + 2];
    size_t                n;
    socklen_t             len;
    address_t             address;
    struct sockaddr_in6   sa;

    len = sizeof(struct sockaddr_in6);
    ngx_memzero(&sa, sizeof(struct sockaddr_in6));

    if (getsockname(ac->connection->fd, (struct sockaddr *) &sa, &len) == -1
        || sa.sin6_family != AF_INET6)
    {
        return;
    }

    ngx_memzero(&address, sizeof(address_t));

    address.v6 = !IN6_IS_ADDR_V4MAPPED(&sa.sin6_addr);
    ngx_memcpy(address.bytes, &sa.sin6_addr.s6_addr[address.v6 ? 0 : 12],
               address.v6 ? 16 : 4);

    n = address_text(&address, text + 1);

    if (address.v6) {
        text[0] = '[';
        text[n + 1] = ']';
    }

    if (authority_parse((u_char *) text + !address.v6,
                        n + (address.v6 ? 2 : 0), ac->door->port, name)
        != AUTHORITY_OK
        || ngx_agent_judge_name(ac->task, ac->connection->log, name)
           != NGX_AGENT_REASON_RULE)
    {
        ngx_memzero(name, sizeof(authority_t));
    }
}


/* A session can be resumed only by its task and for its host. */

static ngx_int_t
ngx_agent_tls_session(SSL *ssl, ngx_agent_connection_t *ac)
{
    u_char      *p, text[PROTOCOL_ID_LEN + AUTHORITY_HOST_MAX + 16];
    u_char       digest[SHA256_DIGEST_LENGTH];

    p = ngx_slprintf(text, text + sizeof(text), "%*s|%s|%ui",
                     (size_t) PROTOCOL_ID_LEN, ac->task->id,
                     ac->tls_name.host, (ngx_uint_t) ac->tls_name.port);

    SHA256(text, p - text, digest);

    return SSL_set_session_id_context(ssl, digest, sizeof(digest)) == 1
           ? NGX_OK : NGX_ERROR;
}


static int
ngx_agent_tls_cert(SSL *ssl, void *data)
{
    ngx_agent_main_conf_t *amcf = data;

    bool                     fresh;
    X509                    *leaf;
    ngx_connection_t        *c;
    ngx_agent_connection_t  *ac;

    c = ngx_ssl_get_connection(ssl);
    ac = ngx_agent_task_connection(c);

    if (ac == NULL || ac->tls_name.host_len == 0) {
        return 0;                           /* the hello was not judged */
    }

    if (ngx_agent_ca_ready(amcf, c->log) != NGX_OK) {
        ngx_agent_tls_refuse(ac, NGX_AGENT_REASON_CA, NULL, &ac->tls_name);
        return 0;
    }

    if (ngx_agent_mint_pid != ngx_pid
        || ngx_agent_mint_ca != amcf->ca_cert)
    {
        /* each worker makes its own: a leaf key is not shared over fork() */

        if (ngx_agent_mint_pid == ngx_pid) {
            mint_free(ngx_agent_mint);
        }

        ngx_agent_mint = mint_new(amcf->ca_cert, ngx_agent_secrets_open,
                                  amcf->secrets, NGX_AGENT_LEAVES);
        ngx_agent_mint_pid = ngx_pid;
        ngx_agent_mint_ca = amcf->ca_cert;
    }

    if (ngx_agent_mint == NULL) {
        return 0;
    }

    if (!mint_has(ngx_agent_mint, &ac->tls_name)
        && ngx_agent_tls_pay(ac) != NGX_OK)
    {
        ngx_agent_tls_refuse(ac, NGX_AGENT_REASON_MINTS, NULL, &ac->tls_name);
        return 0;
    }

    leaf = mint_leaf(ngx_agent_mint, &ac->tls_name, &fresh);

    if (leaf == NULL) {
        ngx_ssl_error(NGX_LOG_ALERT, c->log, 0, "minting a leaf failed");
        return 0;
    }

    if (fresh) {
        ngx_log_error(NGX_LOG_INFO, c->log, 0, "minted a leaf for \"%s\"",
                      ac->tls_name.host);
    }

    return SSL_use_certificate(ssl, leaf) == 1
           && SSL_use_PrivateKey(ssl, mint_key(ngx_agent_mint)) == 1;
}


static ngx_int_t
ngx_agent_tls_pay(ngx_agent_connection_t *ac)
{
    u_char    digest[SHA256_DIGEST_LENGTH];
    uint64_t  name;

    SHA256((u_char *) ac->tls_name.host, ac->tls_name.host_len, digest);
    ngx_memcpy(&name, digest, sizeof(uint64_t));

    return ngx_agent_usage_mint(ac->task->id, name);
}


static int
ngx_agent_tls_alpn(SSL *ssl, const unsigned char **out, unsigned char *outlen,
    const unsigned char *in, unsigned int inlen, void *data)
{
    static const unsigned char  protocols[] = "\x02h2\x08http/1.1";

    if (SSL_select_next_proto((unsigned char **) out, outlen, protocols,
                              sizeof(protocols) - 1, in, inlen)
        != OPENSSL_NPN_NEGOTIATED)
    {
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    }

    return SSL_TLSEXT_ERR_OK;
}


/* Without a request to answer, the client gets an alert; it is recorded. */

static void
ngx_agent_tls_refuse(ngx_agent_connection_t *ac, ngx_agent_reason_e reason,
    const char *why, const authority_t *name)
{
    ngx_str_t         body;
    ngx_pool_t       *pool;
    ngx_agent_ctx_t  *ctx;

    pool = ac->connection->pool;

    ctx = ngx_agent_judge_begin(pool, ac->task);

    if (ctx == NULL) {
        return;
    }

    (void) ngx_agent_judge_load(pool, ac->connection->log, ctx);

    ctx->target.authority = *name;
    ctx->target.https = true;
    ctx->tls = 1;

    (void) ngx_agent_refuse_record(pool, ctx, reason, why, &body);
}
