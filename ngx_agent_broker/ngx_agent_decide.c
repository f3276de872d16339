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
static ngx_int_t ngx_agent_judge_target(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx);
static ngx_int_t ngx_agent_resolve(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx);
static void ngx_agent_resolved(ngx_resolver_ctx_t *rctx);
static void ngx_agent_resolve_cancel(void *data);
static ngx_int_t ngx_agent_guard(ngx_http_request_t *r, ngx_agent_ctx_t *ctx,
    address_t *addresses, ngx_uint_t n);
static ngx_uint_t ngx_agent_is_own(address_t *a, in_port_t port);
static ngx_int_t ngx_agent_allow(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx);
static ngx_int_t ngx_agent_refuse(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx, ngx_agent_reason_e reason, const char *why);
static ngx_int_t ngx_agent_refusal(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx, const char *hint);
static const char *ngx_agent_hint(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx);
static const char *ngx_agent_hosts_hint(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx);
static ngx_int_t ngx_agent_audit_decision(ngx_agent_ctx_t *ctx,
    const char *verdict);


static const ngx_agent_reason_t  ngx_agent_reasons[NGX_AGENT_REASONS] = {

    [NGX_AGENT_REASON_RULE] = { "rule", 0, NULL },

    [NGX_AGENT_REASON_MALFORMED] = { "malformed", 400,
        "send one HTTP/1.1 request with a plain host name" },

    [NGX_AGENT_REASON_MISMATCH] = { "authority_mismatch", 400,
        "the URL and the Host header must name the same host and port" },

    [NGX_AGENT_REASON_TASK_UNKNOWN] = { "task_unknown", 403,
        "the task of this box has ended" },

    [NGX_AGENT_REASON_POLICY_GONE] = { "policy_gone", 403,
        "the policy of this task is gone: nothing is allowed" },

    [NGX_AGENT_REASON_HOST] = { "host_not_allowed", 403, NULL },

    [NGX_AGENT_REASON_PORT] = { "port_not_allowed", 403,
        "this host is allowed on another port only" },

    [NGX_AGENT_REASON_METHOD] = { "method_not_allowed", 403, NULL },

    [NGX_AGENT_REASON_RESOLVE] = { "resolve_failed", 502,
        "the host is allowed, but its name has no address now" },

    [NGX_AGENT_REASON_ADDRESS] = { "address_not_allowed", 403,
        "the host is allowed, but not at the address its name has" },

    [NGX_AGENT_REASON_AUDIT] = { "audit_unavailable", 503,
        "the request cannot be recorded now, so it is not made: try later" },

    [NGX_AGENT_REASON_CREDENTIAL] = { "credential_unavailable", 502,
        "the credential of this host cannot be attached" },

    [NGX_AGENT_REASON_CHANGED] = { "policy_changed", 503,
        "the policy changed under this request: try again" },

    [NGX_AGENT_REASON_CONFIGURATION] = { "configuration", 500,
        "the broker's configuration is unsafe: nothing is sent" },

    [NGX_AGENT_REASON_INTERNAL] = { "internal", 500,
        "the broker has a problem of its own" },
};


/* As the configuration spells it: "*.packages.example", "[::1]:8443". */

char *
ngx_agent_rule_name(const policy_rule_t *rule, char dst[NGX_AGENT_RULE_NAME])
{
    size_t  len;

    len = snprintf(dst, NGX_AGENT_RULE_NAME,
                   "%s%s%s",
                   rule->kind == AUTHORITY_IPV6 ? "["
                                       : rule->wildcard ? "*." : "",
                   rule->host,
                   rule->kind == AUTHORITY_IPV6 ? "]" : "");

    if (rule->port) {
        (void) snprintf(dst + len, NGX_AGENT_RULE_NAME - len, ":%u",
                        (unsigned) rule->port);
    }

    return dst;
}


const ngx_agent_reason_t *
ngx_agent_reason(ngx_agent_reason_e reason)
{
    return &ngx_agent_reasons[reason];
}


ngx_int_t
ngx_agent_decide(ngx_http_request_t *r)
{
    u_char                 random[NGX_AGENT_ID_LEN / 4];
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
        if (ctx == NULL
            || ngx_agent_random(random, sizeof(random)) != NGX_OK)
        {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        ngx_agent_hex(ctx->request, random, sizeof(random));
        ctx->task = task;
        ctx->started = ngx_current_msec;

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


static ngx_int_t
ngx_agent_judge(ngx_http_request_t *r, ngx_agent_ctx_t *ctx)
{
    target_error_t          err;
    const char             *why;
    ngx_agent_slot_view_t   view;
    ngx_table_elt_t        *host;

    (void) ngx_cpystrn(ctx->policy_hash, (u_char *) "",
                       sizeof(ctx->policy_hash));
    ctx->uid = ctx->task->uid;

    host = r->headers_in.host;

    err = target_parse(r->request_line.data, r->request_line.len,
                       host ? host->value.data : NULL,
                       host ? host->value.len : 0, &ctx->target, &why);

    if (ngx_agent_slot_view(ctx->task->id, &view) != NGX_OK) {
        return ngx_agent_refuse(r, ctx, NGX_AGENT_REASON_TASK_UNKNOWN, NULL);
    }

    (void) ngx_cpystrn(ctx->policy_hash, view.policy_hash,
                       sizeof(ctx->policy_hash));

    ctx->set = ngx_agent_set_hold(r->pool, r->connection->log);
    if (ctx->set == NULL) {
        return ngx_agent_refuse(r, ctx, NGX_AGENT_REASON_INTERNAL, NULL);
    }

    ctx->policy = policy_set_find(ctx->set->policies, (char *) view.policy);

    if (ctx->policy) {
        (void) ngx_cpystrn(ctx->policy_hash, (u_char *) ctx->policy->hash,
                           sizeof(ctx->policy_hash));
    }

    if (err != TARGET_OK) {
        return ngx_agent_refuse(r, ctx, err == TARGET_MISMATCH
                                        ? NGX_AGENT_REASON_MISMATCH
                                        : NGX_AGENT_REASON_MALFORMED, why);
    }

    if (ctx->policy == NULL) {
        return ngx_agent_refuse(r, ctx, NGX_AGENT_REASON_POLICY_GONE, NULL);
    }

    return ngx_agent_judge_target(r, ctx);
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

    for (i = 0; rctx->state == 0 && i < rctx->naddrs; i++) {

        if (n == NGX_AGENT_ADDRS_MAX) {
            break;
        }

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
    u_char               *bytes;
    size_t                len;
    ngx_uint_t            i;
    ngx_listening_t      *ls;
    struct sockaddr_in   *sin;
    struct sockaddr_in6  *sin6;

    static const u_char  any[16];

    ls = ngx_cycle->listening.elts;

    for (i = 0; i < ngx_cycle->listening.nelts; i++) {

        if (ls[i].sockaddr->sa_family == AF_INET) {
            sin = (struct sockaddr_in *) ls[i].sockaddr;
            bytes = (u_char *) &sin->sin_addr;
            len = 4;

        } else if (ls[i].sockaddr->sa_family == AF_INET6) {
            sin6 = (struct sockaddr_in6 *) ls[i].sockaddr;
            bytes = (u_char *) &sin6->sin6_addr;
            len = 16;

        } else {
            continue;
        }

        if (ngx_inet_get_port(ls[i].sockaddr) != port) {
            continue;
        }

        /*
         * A wildcard listener answers on every address of this host; which
         * those are is not known here, so its port is refused on the
         * addresses that are surely ours, loopback.
         */

        if (ngx_memcmp(bytes, any, len) == 0) {
            if (a->v6 ? a->bytes[0] == 0 : a->bytes[0] == 127) {
                return 1;
            }

        } else if (len == (a->v6 ? 16 : 4)
                   && ngx_memcmp(bytes, a->bytes, len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


static ngx_int_t
ngx_agent_allow(ngx_http_request_t *r, ngx_agent_ctx_t *ctx)
{
    ctx->reason = NGX_AGENT_REASON_RULE;

    if (ngx_agent_audit_decision(ctx, "allowed") != NGX_OK) {
        return ngx_agent_refuse(r, ctx, NGX_AGENT_REASON_AUDIT, NULL);
    }

    ctx->state = NGX_AGENT_ALLOWED;

    ngx_agent_slot_count(ctx->task->id, 1, 0, 0);

    return NGX_DECLINED;
}


static ngx_int_t
ngx_agent_refuse(ngx_http_request_t *r, ngx_agent_ctx_t *ctx,
    ngx_agent_reason_e reason, const char *why)
{
    const char  *hint;

    ctx->state = NGX_AGENT_REFUSED;
    ctx->reason = reason;
    ctx->why = why;

    hint = ngx_agent_hint(r, ctx);

    /*
     * A refusal is refused whether or not it can be recorded: nothing leaves
     * either way.
     */

    (void) ngx_agent_audit_decision(ctx, "denied");

    ngx_agent_slot_refuse(ctx->task->id, ctx, hint);

    return ngx_agent_refusal(r, ctx, hint);
}


static const char *
ngx_agent_hint(ngx_http_request_t *r, ngx_agent_ctx_t *ctx)
{
    if (ctx->rule && ctx->rule->hint) {
        return ctx->rule->hint;
    }

    switch (ctx->reason) {

    case NGX_AGENT_REASON_HOST:
    case NGX_AGENT_REASON_METHOD:
        return ngx_agent_hosts_hint(r, ctx);

    default:
        return ngx_agent_reasons[ctx->reason].hint;
    }
}


/* What a model can do instead: the hosts of the task, or a rule's methods. */

static const char *
ngx_agent_hosts_hint(ngx_http_request_t *r, ngx_agent_ctx_t *ctx)
{
    char    *hint, rule[NGX_AGENT_RULE_NAME];
    size_t   i, n, len, max;

    max = 200;

    hint = ngx_pnalloc(r->pool, max + 64);
    if (hint == NULL) {
        return NULL;
    }

    if (ctx->reason == NGX_AGENT_REASON_METHOD) {

        len = snprintf(hint, max, "allowed methods:");
        n = ctx->rule->methods_count;

        if (n == 0) {
            (void) snprintf(hint + len, max - len, " GET HEAD");
            return hint;
        }

        for (i = 0; i < n && len + ngx_strlen(ctx->rule->methods[i]) + 1 < max;
             i++)
        {
            len += snprintf(hint + len, max - len, " %s",
                            ctx->rule->methods[i]);
        }

        return hint;
    }

    n = ctx->policy ? ctx->policy->rules_count : 0;

    if (n == 0) {
        return "this task may call no host";
    }

    len = snprintf(hint, max, "this task may call only:");

    for (i = 0; i < n; i++) {

        (void) ngx_agent_rule_name(ctx->policy->rules[i], rule);

        if (len + ngx_strlen(rule) + 2 > max) {
            (void) snprintf(hint + len, 64, " and %u more",
                            (unsigned) (n - i));
            break;
        }

        len += snprintf(hint + len, max - len, " %s", rule);
    }

    return hint;
}


/* The body of a refusal: fixed keys, every foreign byte escaped by jansson. */

static ngx_int_t
ngx_agent_refusal(ngx_http_request_t *r, ngx_agent_ctx_t *ctx,
    const char *hint)
{
    char                      *text;
    json_t                    *body;
    ngx_str_t                  content, type;
    ngx_int_t                  rc;
    ngx_table_elt_t           *header;
    ngx_http_complex_value_t   cv;

    body = json_pack("{s:s, s:s, s:s?, s:s#, s:i, s:s#, s:s#, s:s#, s:s, "
                     "s:s?}",
               "error", ngx_agent_reasons[ctx->reason].status == 403
                        ? "denied" : "failed",
               "reason", ngx_agent_reasons[ctx->reason].word,
               "detail", ctx->why,
               "host", ctx->target.authority.host,
                       (int) ctx->target.authority.host_len,
               "port", (int) ctx->target.authority.port,
               "method", ctx->target.method ? (char *) ctx->target.method
                                            : "",
                         (int) ngx_min(ctx->target.method_len, 64),
               "path", ctx->target.path ? (char *) ctx->target.path : "",
                       (int) ngx_min(ctx->target.path_len, 512),
               "task", ctx->task->id, NGX_AGENT_ID_LEN,
               "policy", ctx->task->policy,
               "hint", hint);

    text = body ? json_dumps(body, JSON_COMPACT|JSON_ENSURE_ASCII) : NULL;

    json_decref(body);

    if (text == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    content.len = ngx_strlen(text);
    content.data = ngx_pnalloc(r->pool, content.len + 1);

    if (content.data == NULL) {
        free(text);
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_memcpy(content.data, text, content.len);
    content.data[content.len++] = '\n';

    free(text);

    header = ngx_list_push(&r->headers_out.headers);
    if (header == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    header->hash = 1;
    ngx_str_set(&header->key, "X-Agent-Broker");

    if (ngx_agent_reasons[ctx->reason].status == 403) {
        ngx_str_set(&header->value, "denied");

    } else {
        ngx_str_set(&header->value, "failed");
    }

    /*
     * At once and for good: no 100 Continue for a body that goes nowhere,
     * and what follows on this connection is not read as another request.
     */

    r->expect_tested = 1;
    r->keepalive = 0;

    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }

    ngx_memzero(&cv, sizeof(ngx_http_complex_value_t));
    cv.value = content;

    ngx_str_set(&type, "application/json");

    rc = ngx_http_send_response(r, ngx_agent_reasons[ctx->reason].status,
                                &type, &cv);

    ngx_http_finalize_request(r, rc);

    return NGX_DONE;
}


static ngx_int_t
ngx_agent_audit_decision(ngx_agent_ctx_t *ctx, const char *verdict)
{
    char           rule[NGX_AGENT_RULE_NAME];
    target_t      *t;
    audit_line_t   line;

    t = &ctx->target;

    ngx_agent_audit_begin(&line, "egress", ctx->task->id, ctx->task->policy,
                          ctx->policy_hash, ctx->uid);

    audit_line_word(&line, "verdict", verdict);
    audit_line_word(&line, "reason", ngx_agent_reasons[ctx->reason].word);

    if (ctx->why) {
        audit_line_word(&line, "detail", ctx->why);
    }

    audit_line_word(&line, "rule",
                    ctx->rule ? ngx_agent_rule_name(ctx->rule, rule) : NULL);
    audit_line_text(&line, "method", t->method, t->method_len, 64);
    audit_line_word(&line, "scheme", ctx->rule ? (ctx->tls ? "https" : "http")
                                               : (t->https ? "https"
                                                           : "http"));
    audit_line_text(&line, "host", t->authority.host, t->authority.host_len,
                    AUTHORITY_HOST_MAX);
    audit_line_number(&line, "port", ctx->port ? ctx->port
                                               : t->authority.port);
    audit_line_text(&line, "address", ctx->address.data, ctx->address.len,
                    64);
    audit_line_text(&line, "path", t->path, t->path_len, 1024);
    audit_line_number(&line, "query_bytes", (int64_t) t->query_len);
    audit_line_word(&line, "credential",
                    ctx->reason == NGX_AGENT_REASON_RULE && ctx->rule
                    ? ctx->rule->credential : NULL);
    audit_line_number(&line, "vault", (int64_t) ngx_agent_vault_revision());
    audit_line_text(&line, "request", ctx->request, sizeof(ctx->request),
                    sizeof(ctx->request));

    return ngx_agent_audit_write(&line, ctx->task->id);
}


/*
 * The log phase runs for every request, also for one whose parsing failed:
 * each leaves a line.  A refusal has left its own already.
 */

ngx_int_t
ngx_agent_log(ngx_http_request_t *r)
{
    audit_line_t                line;
    ngx_agent_ctx_t            *ctx;
    ngx_agent_task_t           *task;
    ngx_agent_slot_view_t       view;
    ngx_http_upstream_state_t  *state;

    task = ngx_agent_connection_task(r->connection);

    if (task == NULL || r != r->main) {
        return NGX_OK;
    }

    ctx = ngx_http_get_module_ctx(r, ngx_agent_broker_module);

    if (ctx && ctx->state == NGX_AGENT_REFUSED) {
        return NGX_OK;
    }

    if (ctx && ctx->state == NGX_AGENT_ALLOWED) {

        ngx_agent_audit_begin(&line, "egress_end", task->id, task->policy,
                              ctx->policy_hash, ctx->uid);

        audit_line_text(&line, "request", ctx->request, sizeof(ctx->request),
                        sizeof(ctx->request));
        audit_line_number(&line, "status", (int64_t) r->headers_out.status);
        audit_line_text(&line, "host", ctx->target.authority.host,
                        ctx->target.authority.host_len, AUTHORITY_HOST_MAX);
        audit_line_text(&line, "address", ctx->address.data,
                        ctx->address.len, 64);

        if (ctx->failure) {
            audit_line_word(&line, "failure", ctx->failure);
        }

        state = NULL;

        if (r->upstream_states && r->upstream_states->nelts) {
            state = (ngx_http_upstream_state_t *) r->upstream_states->elts
                    + r->upstream_states->nelts - 1;
        }

        audit_line_number(&line, "bytes_up",
                          state ? (int64_t) state->bytes_sent : 0);
        audit_line_number(&line, "bytes_down",
                          state ? (int64_t) state->bytes_received : 0);
        audit_line_number(&line, "duration_ms",
                          (int64_t) (ngx_current_msec - ctx->started));
        audit_line_number(&line, "vault", (int64_t) ctx->vault);

        (void) ngx_agent_audit_write(&line, task->id);

        return NGX_OK;
    }

    ngx_memzero(&view, sizeof(ngx_agent_slot_view_t));
    (void) ngx_agent_slot_view(task->id, &view);

    ngx_agent_audit_begin(&line, "door_error", task->id, task->policy,
                          view.policy_hash, task->uid);

    audit_line_word(&line, "door", "proxy");
    audit_line_word(&line, "reason", ctx ? "aborted" : "malformed");
    audit_line_number(&line, "status", (int64_t) r->headers_out.status);
    audit_line_text(&line, "request_line", r->request_line.data,
                    r->request_line.len, 512);

    (void) ngx_agent_audit_write(&line, task->id);
    ngx_agent_slot_count(task->id, 0, 1, 0);

    return NGX_OK;
}
