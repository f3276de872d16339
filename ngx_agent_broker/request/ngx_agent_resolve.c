/*
 * Resolves an allowed name, once, and judges every address: only those that
 * pass can be dialled, so a later answer of the name server (DNS rebinding)
 * cannot change the verdict.
 */


#include "request/ngx_agent_request.h"
#include "request/ngx_agent_names.h"


#define NGX_AGENT_RESOLVE_TIME  5000        /* ms, over all name servers */


static void ngx_agent_resolve_recorded(ngx_agent_ctx_t *ctx);
static size_t ngx_agent_resolve_bytes(struct sockaddr *sa, u_char **bytes);
static const char *ngx_agent_resolve_judge(const address_t *a,
    const policy_rule_t *rule);
static ngx_uint_t ngx_agent_resolve_is_own(address_t *a, in_port_t port);
static ngx_uint_t ngx_agent_resolve_is_local(u_char *bytes, size_t len);


ngx_int_t
ngx_agent_resolve(ngx_agent_ctx_t *ctx, ngx_http_core_srv_conf_t *core)
{
    size_t                     n;
    address_t                  found[NGX_AGENT_ADDRS_MAX];
    ngx_int_t                  rc;
    authority_t               *a;
    ngx_resolver_t            *resolver;
    ngx_agent_main_conf_t     *amcf;
    ngx_http_core_loc_conf_t  *clcf;

    a = &ctx->target.authority;

    amcf = core->ctx->main_conf[ngx_agent_broker_module.ctx_index];
    n = 0;

    if (a->kind != AUTHORITY_NAME) {
        found[0].v6 = (a->kind == AUTHORITY_IPV6);
        ngx_memcpy(found[0].bytes, a->address, 16);
        n = 1;

    } else if (amcf->hosts) {
        n = system_hosts_find(amcf->hosts, a->host, found,
                              NGX_AGENT_ADDRS_MAX);
        n = ngx_min(n, NGX_AGENT_ADDRS_MAX);
    }

    if (n) {
        ctx->addresses = ngx_palloc(ctx->pool, n * sizeof(address_t));
        if (ctx->addresses == NULL) {
            return NGX_ERROR;
        }

        ngx_memcpy(ctx->addresses, found, n * sizeof(address_t));
        ctx->addresses_count = n;

        return NGX_OK;
    }

    clcf = core->ctx->loc_conf[ngx_http_core_module.ctx_index];

    resolver = clcf->resolver;

    if (resolver == NULL || resolver->connections.nelts == 0) {
        resolver = amcf->resolver;
    }

    if (resolver == NULL) {
        ctx->why = "no resolver is configured";
        return NGX_DECLINED;
    }

    ctx->resolver = resolver;
    ctx->resolve_time = ngx_min(clcf->resolver_timeout, NGX_AGENT_RESOLVE_TIME);

    rc = ngx_agent_names_find(ctx);

    if (rc == NGX_OK || rc == NGX_ERROR) {
        return rc;
    }

    /*
     * The box chooses a name that a wildcard matches; and no name is asked for
     * that may have no decision on record afterwards.
     */

    if (rc == NGX_DECLINED
        && (ctx->rule->wildcard || ngx_agent_audit_is_failing()))
    {
        ctx->waiting = 1;
        ctx->record.ctx = ctx;
        ctx->record.handler = ngx_agent_resolve_recorded;

        return ngx_agent_events_lookup(ctx);
    }

    rc = ngx_agent_names_ask(ctx);

    ctx->waiting = (rc == NGX_AGAIN);

    return rc;
}


/* The line of the lookup is written, or is not. */

static void
ngx_agent_resolve_recorded(ngx_agent_ctx_t *ctx)
{
    ngx_int_t  rc;

    rc = NGX_DECLINED;

    if (ctx->record.rc != NGX_OK) {
        ctx->reason = NGX_AGENT_REASON_AUDIT;

    } else {

        /* another request may have had the same name meanwhile */

        rc = ngx_agent_names_find(ctx);

        if (rc != NGX_OK) {
            rc = ngx_agent_names_ask(ctx);
        }
    }

    if (rc != NGX_AGAIN) {
        ctx->waiting = 0;
        ctx->resolved(ctx);
    }
}


/* Where a socket's address has its 4 or 16 bytes; 0: of another family. */

static size_t
ngx_agent_resolve_bytes(struct sockaddr *sa, u_char **bytes)
{
    switch (sa->sa_family) {

    case AF_INET:
        *bytes = (u_char *) &((struct sockaddr_in *) sa)->sin_addr;
        return 4;

    case AF_INET6:
        *bytes = (u_char *) &((struct sockaddr_in6 *) sa)->sin6_addr;
        return 16;

    default:
        return 0;
    }
}


void
ngx_agent_resolve_cancel(void *data)
{
    ngx_agent_ctx_t *ctx = data;

    ngx_agent_names_leave(ctx);
    ngx_agent_audit_leave(&ctx->record);
}


ngx_agent_reason_e
ngx_agent_resolve_guard(ngx_agent_ctx_t *ctx)
{
    ngx_uint_t    i, good;
    address_t    *addresses;
    const char   *why, *first;

    addresses = ctx->addresses;
    first = NULL;
    good = 0;

    if (ctx->addresses_count == 0) {
        return ctx->reason == NGX_AGENT_REASON_AUDIT ? ctx->reason
                                                     : NGX_AGENT_REASON_RESOLVE;
    }

    for (i = 0; i < ctx->addresses_count; i++) {

        why = ngx_agent_resolve_judge(&addresses[i], ctx->rule);

        if (why == NULL && ngx_agent_resolve_is_own(&addresses[i], ctx->port))
        {
            why = "the broker itself";
        }

        if (why == NULL) {
            addresses[good++] = addresses[i];

        } else if (first == NULL) {
            first = why;
        }
    }

    if (good) {
        ctx->addresses_count = good;
        ngx_agent_keepalive_prefer(ctx);
    }

    /* the audit line has the address that is dialled, or was refused */

    if (ngx_agent_resolve_name(ctx, &addresses[0]) != NGX_OK) {
        return NGX_AGENT_REASON_INTERNAL;
    }

    ngx_log_debug4(NGX_LOG_DEBUG_HTTP, ctx->pool->log, 0,
                   "agent: guard lets %ui of %ui addresses, first is %V, %s",
                   good, ctx->addresses_count, &ctx->peer,
                   first ? first : "none refused");

    ctx->addresses_count = ngx_min(good, NGX_AGENT_DIALS_MAX);
    ctx->why = good ? NULL : first;

    return good ? NGX_AGENT_REASON_RULE : NGX_AGENT_REASON_ADDRESS;
}


ngx_uint_t
ngx_agent_resolve_is_allowed(ngx_agent_ctx_t *ctx, const policy_rule_t *rule)
{
    ngx_uint_t  i;

    for (i = 0; i < ctx->addresses_count; i++) {

        if (ngx_agent_resolve_judge(&ctx->addresses[i], rule)) {
            return 0;
        }
    }

    return 1;
}


/* NULL, or why the rule does not allow this address (a constant). */

static const char *
ngx_agent_resolve_judge(const address_t *a, const policy_rule_t *rule)
{
    const char  *why;

    return address_judge(a, rule->ranges, rule->ranges_count, rule->port != 0,
                         &why)
           == ADDRESS_ALLOWED ? NULL : why;
}


/* "192.0.2.1:443", "[2001:db8::1]:443"; ctx->address points into it. */

ngx_int_t
ngx_agent_resolve_name(ngx_agent_ctx_t *ctx, const address_t *a)
{
    u_char  *p;

    p = ngx_pnalloc(ctx->pool, ADDRESS_TEXT_MAX + sizeof("[]:65535") - 1);
    if (p == NULL) {
        return NGX_ERROR;
    }

    ctx->named = a;
    ctx->peer.data = p;

    if (a->v6) {
        *p++ = '[';
    }

    ctx->address.data = p;
    ctx->address.len = address_text(a, (char *) p);

    p += ctx->address.len;

    if (a->v6) {
        *p++ = ']';
    }

    *p++ = ':';
    p = ngx_agent_resolve_port(p, ctx->port);

    ctx->peer.len = p - ctx->peer.data;

    return NGX_OK;
}


u_char *
ngx_agent_resolve_port(u_char *p, in_port_t port)
{
    u_char  text[sizeof("65535") - 1], *first;

    first = text + sizeof(text);

    do {
        *--first = (u_char) ('0' + port % 10);
        port /= 10;
    } while (port);

    return ngx_cpymem(p, first, text + sizeof(text) - first);
}


/* Is one of our own listeners at this address and port? */

static ngx_uint_t
ngx_agent_resolve_is_own(address_t *a, in_port_t port)
{
    size_t            n, len;
    u_char           *bytes, *own;
    ngx_uint_t        i;
    ngx_listening_t  *ls;

    static const u_char  any[16];
    static const u_char  mapped[12] = { [10] = 0xff, [11] = 0xff };

    own = a->bytes;
    len = a->v6 ? 16 : 4;

    if (a->v6 && ngx_memcmp(own, mapped, sizeof(mapped)) == 0) {
        own += sizeof(mapped);              /* is dialled as IPv4 */
        len = 4;
    }

    ls = ngx_cycle->listening.elts;

    for (i = 0; i < ngx_cycle->listening.nelts; i++) {

        n = ngx_agent_resolve_bytes(ls[i].sockaddr, &bytes);

        if (n == 0 || ngx_inet_get_port(ls[i].sockaddr) != port) {
            continue;
        }

        if (ngx_memcmp(bytes, any, n) == 0) {

            /* a wildcard: it listens on every address of this host */

            if (ngx_agent_resolve_is_local(own, len)) {
                return 1;
            }

        } else if (n == len && ngx_memcmp(bytes, own, n) == 0) {
            return 1;
        }
    }

    return 0;
}


socklen_t
ngx_agent_resolve_sockaddr(ngx_sockaddr_t *sa, const u_char *bytes, size_t len,
    in_port_t port)
{
    ngx_memzero(sa, sizeof(ngx_sockaddr_t));

    if (len == 4) {
        sa->sockaddr_in.sin_family = AF_INET;
        sa->sockaddr_in.sin_port = htons(port);
        ngx_memcpy(&sa->sockaddr_in.sin_addr, bytes, 4);
        return sizeof(struct sockaddr_in);
    }

    sa->sockaddr_in6.sin6_family = AF_INET6;
    sa->sockaddr_in6.sin6_port = htons(port);
    ngx_memcpy(&sa->sockaddr_in6.sin6_addr, bytes, 16);

    return sizeof(struct sockaddr_in6);
}


/* Only an address of this host can be bound; bind() sends no packet. */

static ngx_uint_t
ngx_agent_resolve_is_local(u_char *bytes, size_t len)
{
    socklen_t        socklen;
    ngx_socket_t     s;
    ngx_uint_t       local;
    ngx_sockaddr_t   sa;

    socklen = ngx_agent_resolve_sockaddr(&sa, bytes, len, 0);

    s = socket(sa.sockaddr.sa_family, SOCK_DGRAM|SOCK_CLOEXEC, 0);

    if (s == (ngx_socket_t) -1) {
        return 1;                           /* unknown: it is not dialled */
    }

    local = bind(s, &sa.sockaddr, socklen) == 0
            || ngx_socket_errno != EADDRNOTAVAIL;

    (void) ngx_close_socket(s);

    return local;
}
