/*
 * What the TLS handshake with an upstream must prove: the name or address that
 * was judged, by a certificate that the rule's authorities have signed and not
 * revoked.
 */


#include "request/ngx_agent_request.h"
#include "policy/policy_pem.h"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>


static int ngx_agent_verify_certificate(int ok, X509_STORE_CTX *store);
static X509_STORE *ngx_agent_verify_store(const policy_rule_t *rule, SSL *ssl);


/*
 * nginx asks here for a session to resume, when the TLS object is made and its
 * SNI set, and before a byte is sent.  The name and the trust store that the
 * handshake must prove are set on the connection itself.  nginx checks the
 * result again afterwards.
 */

ngx_int_t
ngx_agent_verify_begin(ngx_peer_connection_t *pc, void *data)
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
            ctx->failure = NGX_AGENT_REASON_CONFIGURATION;
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

    SSL_set_verify(ssl, SSL_VERIFY_PEER, ngx_agent_verify_certificate);

    if (ctx->rule->trusted_pem) {

        store = ngx_agent_verify_store(ctx->rule, ssl);

        if (store == NULL || SSL_set1_verify_cert_store(ssl, store) != 1) {
            ctx->failure = NGX_AGENT_REASON_CONFIGURATION;
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

void
ngx_agent_verify_save(ngx_peer_connection_t *pc, void *data)
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


/*
 * A common name counts only where no alternative name is a host's or an
 * address, as in curl: OpenSSL takes it beside an address too.
 */

static int
ngx_agent_verify_certificate(int ok, X509_STORE_CTX *store)
{
    int             i, hosts, addresses;
    SSL            *ssl;
    GENERAL_NAMES  *names;

    if (!ok || X509_STORE_CTX_get_error_depth(store) != 0) {
        return ok;
    }

    ssl = X509_STORE_CTX_get_ex_data(store,
                                     SSL_get_ex_data_X509_STORE_CTX_idx());

    if (SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name) == NULL) {
        return ok;                          /* it must prove an address */
    }

    names = X509_get_ext_d2i(X509_STORE_CTX_get_current_cert(store),
                             NID_subject_alt_name, NULL, NULL);
    hosts = 0;
    addresses = 0;

    for (i = 0; i < sk_GENERAL_NAME_num(names); i++) {

        switch (sk_GENERAL_NAME_value(names, i)->type) {

        case GEN_DNS:
            hosts = 1;
            break;

        case GEN_IPADD:
            addresses = 1;
            break;
        }
    }

    GENERAL_NAMES_free(names);

    if (addresses && !hosts) {
        X509_STORE_CTX_set_error(store, X509_V_ERR_HOSTNAME_MISMATCH);
        return 0;
    }

    return ok;
}


/*
 * The trust store of a rule, made once per worker and generation.  Where the
 * rule names only revoked certificates, the certificates are those of all.
 */

static X509_STORE *
ngx_agent_verify_store(const policy_rule_t *rule, SSL *ssl)
{
    int                     i, n;
    X509                   *x509;
    X509_STORE             *store;
    X509_INFO              *info;
    STACK_OF(X509_INFO)    *infos;
    BIO                    *bio;
    STACK_OF(X509_OBJECT)  *system;

    if (rule->pem->data) {
        return rule->pem->data;
    }

    bio = BIO_new_mem_buf(rule->trusted_pem, -1);
    infos = bio ? PEM_X509_INFO_read_bio(bio, NULL, NULL, NULL) : NULL;
    store = infos ? X509_STORE_new() : NULL;

    ERR_clear_error();
    BIO_free(bio);

    n = 0;

    for (i = 0; store && i < sk_X509_INFO_num(infos); i++) {

        info = sk_X509_INFO_value(infos, i);

        if (info->x509) {
            (void) X509_STORE_add_cert(store, info->x509);
            n++;
        }

        if (info->crl) {
            (void) X509_STORE_add_crl(store, info->crl);
            (void) X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK
                                               |X509_V_FLAG_CRL_CHECK_ALL);
        }
    }

    sk_X509_INFO_pop_free(infos, X509_INFO_free);

    if (store == NULL) {
        return NULL;
    }

    if (n == 0) {
        system = X509_STORE_get0_objects(
                          SSL_CTX_get_cert_store(SSL_get_SSL_CTX(ssl)));

        for (i = 0; i < sk_X509_OBJECT_num(system); i++) {
            x509 = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(system, i));

            if (x509) {
                (void) X509_STORE_add_cert(store, x509);
            }
        }
    }

    rule->pem->data = store;

    return store;
}
