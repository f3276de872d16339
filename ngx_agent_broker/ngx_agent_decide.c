/*
 * The verdict on one request.  The order is fixed:
 *
 *   malformed, task, host, port, method, addresses, the audit line
 *
 * and only then does the request go on to be dialled.  The handler stands in
 * the preaccess phase, which `satisfy` cannot skip; ngx_agent_upstream.c
 * dials nothing for a request that was not allowed here.
 *
 * A name is resolved here, once: the addresses that pass the guard are the
 * ones that are dialled, so a second answer cannot change the verdict.
 */


#include "ngx_agent_broker.h"


static ngx_int_t ngx_agent_judge(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx);
static target_error_t ngx_agent_judge_door(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx, const char **why);
static ngx_int_t ngx_agent_judge_target(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx);
static ngx_int_t ngx_agent_resolve(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx);
static void ngx_agent_resolved(ngx_resolver_ctx_t *rctx);
static void ngx_agent_resolve_cancel(void *data);
static ngx_int_t ngx_agent_guard(ngx_http_request_t *r, ngx_agent_ctx_t *ctx,
    address_t *addresses, ngx_uint_t n);
static ngx_uint_t ngx_agent_is_own(address_t *a, in_port_t port);
static ngx_uint_t ngx_agent_is_local(u_char *bytes, size_t len);
static ngx_int_t ngx_agent_allow(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx);


ngx_int_t
ngx_agent_decide(ngx_http_request_t *r)
{
    ngx_agent_ctx_t       *ctx;
    ngx_agent_task_t      *task;
    ngx_agent_srv_conf_t  *ascf;

    ascf = ngx_http_get_module_srv_conf(r, ngx_agent_broker_module);
    task = ngx_agent_connection_task(r->connection);

    if (ascf->control.len == 0 && task == NULL) {
        return NGX_DECLINED;                /* another server's request */
    }

    if (ascf->control.len == 0 || task == NULL || r != r->main) {
        return NGX_HTTP_FORBIDDEN;          /* no door led here */
    }

    ctx = ngx_http_get_module_ctx(r, ngx_agent_broker_module);

    if (ctx == NULL) {

        ctx = ngx_pcalloc(r->pool, sizeof(ngx_agent_ctx_t));
        if (ctx == NULL || ngx_agent_decide_begin(ctx, task) != NGX_OK) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        ngx_http_set_ctx(r, ctx, ngx_agent_broker_module);
    }

    switch (ctx->state) {

    case NGX_AGENT_UNDECIDED:
        return ngx_agent_judge(r, ctx);

    case NGX_AGENT_RESOLVING:

        if (ctx->waiting) {
            return NGX_DONE;
        }

        return ngx_agent_guard(r, ctx, ctx->addresses, ctx->addresses_count);

    case NGX_AGENT_ALLOWED:
        return NGX_DECLINED;

    default:
        return NGX_HTTP_FORBIDDEN;
    }
}


ngx_int_t
ngx_agent_decide_begin(ngx_agent_ctx_t *ctx, ngx_agent_task_t *task)
{
    u_char  random[NGX_AGENT_ID_LEN / 4];

    if (ngx_agent_random(random, sizeof(random)) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_agent_hex(ctx->request, random, sizeof(random));
    ctx->task = task;
    ctx->uid = task->uid;
    ctx->started = ngx_current_msec;

    return NGX_OK;
}


ngx_agent_reason_e
ngx_agent_decide_load(ngx_pool_t *pool, ngx_log_t *log, ngx_agent_ctx_t *ctx)
{
    const u_char           *hash;
    ngx_agent_slot_view_t   view;

    if (ngx_agent_slot_view(ctx->task->id, &view) != NGX_OK) {
        return NGX_AGENT_REASON_TASK_UNKNOWN;
    }

    ctx->set = ngx_agent_set_hold(pool, log);
    if (ctx->set == NULL) {
        return NGX_AGENT_REASON_INTERNAL;
    }

    ctx->policy = policy_set_find(ctx->set->policies, (char *) view.policy);

    hash = ctx->policy ? (u_char *) ctx->policy->hash : view.policy_hash;
    (void) ngx_cpystrn(ctx->policy_hash, (u_char *) hash,
                       sizeof(ctx->policy_hash));

    return ctx->policy ? NGX_AGENT_REASON_RULE : NGX_AGENT_REASON_POLICY_GONE;
}


ngx_agent_reason_e
ngx_agent_decide_name(ngx_agent_connection_t *ac, const authority_t *name)
{
    const policy_t         *policy;
    ngx_agent_set_t        *set;
    ngx_agent_reason_e      reason;
    const policy_rule_t    *rule;
    ngx_agent_slot_view_t   view;

    if (ngx_agent_slot_view(ac->task->id, &view) != NGX_OK) {
        return NGX_AGENT_REASON_TASK_UNKNOWN;
    }

    set = ngx_agent_set_get(ac->connection->log);
    if (set == NULL) {
        return NGX_AGENT_REASON_INTERNAL;
    }

    policy = policy_set_find(set->policies, (char *) view.policy);

    if (policy == NULL) {
        reason = NGX_AGENT_REASON_POLICY_GONE;

    } else {

        switch (policy_find_rule(policy, name, &rule)) {

        case POLICY_NO_HOST:
            reason = NGX_AGENT_REASON_HOST;
            break;

        case POLICY_NO_PORT:
            reason = NGX_AGENT_REASON_PORT;
            break;

        default: /* POLICY_FOUND */
            reason = NGX_AGENT_REASON_RULE;
            break;
        }
    }

    ngx_agent_set_release(set);

    return reason;
}


static ngx_int_t
ngx_agent_judge(ngx_http_request_t *r, ngx_agent_ctx_t *ctx)
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
        err = ngx_agent_judge_door(r, ctx, &why);
    }

    reason = ngx_agent_decide_load(r->pool, r->connection->log, ctx);

    if (err != TARGET_OK) {
        return ngx_agent_refuse(r, ctx, err == TARGET_MISMATCH
                                        ? NGX_AGENT_REASON_MISMATCH
                                        : NGX_AGENT_REASON_MALFORMED, why);
    }

    if (reason != NGX_AGENT_REASON_RULE) {
        return ngx_agent_refuse(r, ctx, reason, NULL);
    }

    return ngx_agent_judge_target(r, ctx);
}


/*
 * What the connection has already named, by its door, by CONNECT or by SNI,
 * must be what the request names.
 */

static target_error_t
ngx_agent_judge_door(ngx_http_request_t *r, ngx_agent_ctx_t *ctx,
    const char **why)
{
    in_port_t                port;
    target_t                *t;
    ngx_uint_t               tls;
    const authority_t       *named;
    ngx_agent_connection_t  *ac;

    t = &ctx->target;
    ac = ngx_agent_connection(r->connection);
    tls = (r->connection->ssl != NULL);

    if (tls && !t->absolute) {

        t->https = true;

        if (!t->authority.has_port) {
            t->authority.port = 443;
        }
    }

    if (tls && !t->https) {
        *why = "an http URL was sent over TLS";
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
ngx_agent_judge_target(ngx_http_request_t *r, ngx_agent_ctx_t *ctx)
{
    authority_t  *a;

    a = &ctx->target.authority;

    switch (policy_find_rule(ctx->policy, a, &ctx->rule)) {

    case POLICY_NO_HOST:
        return ngx_agent_refuse(r, ctx, NGX_AGENT_REASON_HOST, NULL);

    case POLICY_NO_PORT:
        return ngx_agent_refuse(r, ctx, NGX_AGENT_REASON_PORT, NULL);

    default: /* POLICY_FOUND */
        break;
    }

    if (!policy_rule_allows_method(ctx->rule, (char *) ctx->target.method,
                                   ctx->target.method_len))
    {
        return ngx_agent_refuse(r, ctx, NGX_AGENT_REASON_METHOD, NULL);
    }

    /*
     * A rule without a port serves 80 and 443 of the box, and goes out to
     * 443 by TLS whichever it was.
     */

    if (ngx_agent_slot_spend(ctx->task->id, BOUND_REQUESTS) != NGX_OK) {
        return ngx_agent_refuse(r, ctx, NGX_AGENT_REASON_REQUESTS, NULL);
    }

    ctx->tls = !ctx->rule->plaintext;
    ctx->port = ctx->rule->port ? ctx->rule->port : (ctx->tls ? 443 : 80);

    return ngx_agent_resolve(r, ctx);
}


static ngx_int_t
ngx_agent_resolve(ngx_http_request_t *r, ngx_agent_ctx_t *ctx)
{
    size_t                     n;
    authority_t               *a;
    ngx_resolver_t            *resolver;
    ngx_resolver_ctx_t        *rctx, temp;
    ngx_http_cleanup_t        *cln;
    ngx_agent_main_conf_t     *amcf;
    ngx_http_core_loc_conf_t  *clcf;

    a = &ctx->target.authority;

    ctx->addresses = ngx_pcalloc(r->pool,
                                 NGX_AGENT_ADDRS_MAX * sizeof(address_t));
    if (ctx->addresses == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (a->kind != AUTHORITY_NAME) {
        ctx->addresses[0].v6 = (a->kind == AUTHORITY_IPV6);
        ngx_memcpy(ctx->addresses[0].bytes, a->address, 16);

        return ngx_agent_guard(r, ctx, ctx->addresses, 1);
    }

    amcf = ngx_http_get_module_main_conf(r, ngx_agent_broker_module);

    n = amcf->hosts ? system_hosts_find(amcf->hosts, a->host, ctx->addresses,
                                        NGX_AGENT_ADDRS_MAX)
                    : 0;
    if (n) {
        return ngx_agent_guard(r, ctx, ctx->addresses,
                               ngx_min(n, NGX_AGENT_ADDRS_MAX));
    }

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    resolver = clcf->resolver;

    if (resolver == NULL || resolver->connections.nelts == 0) {
        resolver = amcf->resolver;
    }

    if (resolver == NULL) {
        return ngx_agent_refuse(r, ctx, NGX_AGENT_REASON_RESOLVE,
                                "no resolver is configured");
    }

    temp.name.data = (u_char *) a->host;
    temp.name.len = a->host_len;

    rctx = ngx_resolve_start(resolver, &temp);

    if (rctx == NULL || rctx == NGX_NO_RESOLVER) {
        return ngx_agent_refuse(r, ctx, NGX_AGENT_REASON_RESOLVE, NULL);
    }

    cln = ngx_http_cleanup_add(r, 0);
    if (cln == NULL) {
        ngx_resolve_name_done(rctx);
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    cln->handler = ngx_agent_resolve_cancel;
    cln->data = ctx;

    rctx->name = temp.name;
    rctx->handler = ngx_agent_resolved;
    rctx->data = r;
    rctx->timeout = clcf->resolver_timeout;

    ctx->resolving = rctx;
    ctx->state = NGX_AGENT_RESOLVING;
    ctx->waiting = 1;

    if (ngx_resolve_name(rctx) != NGX_OK) {
        ctx->resolving = NULL;
        ctx->waiting = 0;
        return ngx_agent_refuse(r, ctx, NGX_AGENT_REASON_RESOLVE, NULL);
    }

    if (!ctx->waiting) {

        /* a cached answer came at once */

        return ngx_agent_guard(r, ctx, ctx->addresses, ctx->addresses_count);
    }

    /* a client that goes away meanwhile is noticed */

    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_core_run_phases;

    if (ngx_handle_read_event(r->connection->read, 0) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return NGX_DONE;
}


static void
ngx_agent_resolved(ngx_resolver_ctx_t *rctx)
{
    ngx_uint_t            i, n, at_once;
    address_t            *a;
    struct sockaddr      *sa;
    ngx_connection_t     *c;
    ngx_agent_ctx_t      *ctx;
    ngx_http_request_t   *r;
    struct sockaddr_in   *sin;
    struct sockaddr_in6  *sin6;

    r = rctx->data;
    c = r->connection;
    ctx = ngx_http_get_module_ctx(r, ngx_agent_broker_module);

    n = 0;

    /* all are judged: the one that may be dialled can be the last */

    if (rctx->state == 0 && rctx->naddrs > NGX_AGENT_ADDRS_MAX) {

        a = ngx_pcalloc(r->pool, rctx->naddrs * sizeof(address_t));

        if (a) {
            ctx->addresses = a;

        } else {
            rctx->naddrs = NGX_AGENT_ADDRS_MAX;
        }
    }

    for (i = 0; rctx->state == 0 && i < rctx->naddrs; i++) {

        sa = rctx->addrs[i].sockaddr;
        a = &ctx->addresses[n];

        if (sa->sa_family == AF_INET6) {
            sin6 = (struct sockaddr_in6 *) sa;
            a->v6 = true;
            ngx_memcpy(a->bytes, &sin6->sin6_addr, 16);
            n++;

        } else if (sa->sa_family == AF_INET) {
            sin = (struct sockaddr_in *) sa;
            a->v6 = false;
            ngx_memcpy(a->bytes, &sin->sin_addr, 4);
            n++;
        }
    }

    ctx->why = rctx->state ? ngx_resolver_strerror(rctx->state) : NULL;

    at_once = !rctx->async;

    ngx_resolve_name_done(rctx);

    ctx->resolving = NULL;
    ctx->addresses_count = n;
    ctx->waiting = 0;

    if (at_once) {
        return;
    }

    r->read_event_handler = ngx_http_block_reading;

    ngx_http_core_run_phases(r);
    ngx_http_run_posted_requests(c);
}


static void
ngx_agent_resolve_cancel(void *data)
{
    ngx_agent_ctx_t *ctx = data;

    if (ctx->resolving) {
        ngx_resolve_name_done(ctx->resolving);
        ctx->resolving = NULL;
    }
}


/*
 * Every address is judged; those that pass, in their order, are the only
 * ones that can be dialled.
 */

static ngx_int_t
ngx_agent_guard(ngx_http_request_t *r, ngx_agent_ctx_t *ctx,
    address_t *addresses, ngx_uint_t n)
{
    u_char        text[64];
    ngx_uint_t    i, good;
    const char   *why, *first;

    first = NULL;
    good = 0;

    if (n == 0) {
        return ngx_agent_refuse(r, ctx, NGX_AGENT_REASON_RESOLVE, ctx->why);
    }

    /* the audit line names what would be, or was not, dialled */

    ctx->address.len = address_text(&addresses[0], (char *) text);

    for (i = 0; i < n; i++) {

        if (address_judge(&addresses[i], ctx->rule->ranges,
                          ctx->rule->ranges_count, ctx->rule->port != 0,
                          &why)
            != ADDRESS_ALLOWED)
        {
            first = first ? first : why;
            continue;
        }

        if (ngx_agent_is_own(&addresses[i], ctx->port)) {
            first = first ? first : "the broker itself";
            continue;
        }

        if (good == 0) {
            ctx->address.len = address_text(&addresses[i], (char *) text);
        }

        ctx->addresses[good++] = addresses[i];
    }

    ctx->address.data = ngx_pnalloc(r->pool, ctx->address.len);
    if (ctx->address.data == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_memcpy(ctx->address.data, text, ctx->address.len);

    ctx->addresses_count = good;

    if (good == 0) {
        return ngx_agent_refuse(r, ctx, NGX_AGENT_REASON_ADDRESS, first);
    }

    return ngx_agent_allow(r, ctx);
}


/* Would this be a connection to one of our own listeners? */

static ngx_uint_t
ngx_agent_is_own(address_t *a, in_port_t port)
{
    size_t                len;
    u_char               *bytes, *own;
    ngx_uint_t            i;
    ngx_listening_t      *ls;
    struct sockaddr_in   *sin;
    struct sockaddr_in6  *sin6;

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

        if (ls[i].sockaddr->sa_family == AF_INET) {
            sin = (struct sockaddr_in *) ls[i].sockaddr;
            bytes = (u_char *) &sin->sin_addr;

        } else if (ls[i].sockaddr->sa_family == AF_INET6) {
            sin6 = (struct sockaddr_in6 *) ls[i].sockaddr;
            bytes = (u_char *) &sin6->sin6_addr;

        } else {
            continue;
        }

        if (ngx_inet_get_port(ls[i].sockaddr) != port) {
            continue;
        }

        if (ngx_memcmp(bytes, any, ls[i].sockaddr->sa_family == AF_INET
                                   ? 4 : 16)
            == 0)
        {
            /* a wildcard: it answers on every address of this host */

            if (ngx_agent_is_local(own, len)) {
                return 1;
            }

        } else if ((ls[i].sockaddr->sa_family == AF_INET ? 4 : 16) == len
                   && ngx_memcmp(bytes, own, len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


/* Only an address of this host can be bound; no packet is sent for it. */

static ngx_uint_t
ngx_agent_is_local(u_char *bytes, size_t len)
{
    ngx_socket_t     s;
    ngx_uint_t       local;
    ngx_sockaddr_t   sa;

    ngx_memzero(&sa, sizeof(ngx_sockaddr_t));

    if (len == 4) {
        sa.sockaddr_in.sin_family = AF_INET;
        ngx_memcpy(&sa.sockaddr_in.sin_addr, bytes, 4);

    } else {
        sa.sockaddr_in6.sin6_family = AF_INET6;
        ngx_memcpy(&sa.sockaddr_in6.sin6_addr, bytes, 16);
    }

    s = socket(sa.sockaddr.sa_family, SOCK_DGRAM|SOCK_CLOEXEC, 0);

    if (s == (ngx_socket_t) -1) {
        return 1;                           /* not known: not dialled */
    }

    local = bind(s, &sa.sockaddr, len == 4 ? sizeof(struct sockaddr_in)
                                           : sizeof(struct sockaddr_in6))
            == 0 || ngx_socket_errno != EADDRNOTAVAIL;

    (void) ngx_close_socket(s);

    return local;
}


static ngx_int_t
ngx_agent_allow(ngx_http_request_t *r, ngx_agent_ctx_t *ctx)
{
    ctx->reason = NGX_AGENT_REASON_RULE;

    if (ngx_agent_audit_decision(ctx, "allowed") != NGX_OK) {
        return ngx_agent_refuse(r, ctx, NGX_AGENT_REASON_AUDIT, NULL);
    }

    ctx->state = NGX_AGENT_ALLOWED;

    /*
     * Core would switch protocols when the client asked for it and the
     * upstream answers 101, although Upgrade is not sent on.
     */

    if (!ngx_agent_is_websocket(r, ctx)) {
        r->headers_in.upgrade = NULL;
    }

    ngx_agent_slot_count(ctx->task->id, 1, 0, 0);

    return NGX_DECLINED;
}
