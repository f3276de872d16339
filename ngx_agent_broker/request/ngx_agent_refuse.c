/*
 * Refuses a request: the hint that a model can act on, the JSON body, the
 * audit line and the record of the task.
 */


#include "request/ngx_agent_request.h"


#define NGX_AGENT_HINT_WORDS  200           /* the methods or hosts in it */


static ngx_int_t ngx_agent_refuse_header(ngx_http_request_t *r,
    const char *key, const char *value);
static const char *ngx_agent_refuse_hint_hosts(const policy_t *policy,
    char text[NGX_AGENT_HINT_MAX]);
static const char *ngx_agent_refuse_hint_rule(const policy_rule_t *rule,
    const char *lead, char **words, size_t n, char text[NGX_AGENT_HINT_MAX]);
static ngx_uint_t ngx_agent_refuse_hint_word(char text[NGX_AGENT_HINT_MAX],
    size_t *len, const char *word, size_t left);


ngx_int_t
ngx_agent_refuse(ngx_http_request_t *r, ngx_agent_ctx_t *ctx,
    ngx_agent_reason_e reason, const char *why)
{
    ngx_str_t                  type, body;
    ngx_int_t                  rc;
    ngx_uint_t                 status;
    ngx_http_complex_value_t   cv;

    rc = ngx_agent_refuse_record(r->pool, ctx, reason, why, &body);

    if (rc == NGX_ABORT) {
        ngx_agent_task_shut(r->connection);
        return NGX_HTTP_CLOSE;
    }

    if (rc != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    status = ngx_agent_reason(ctx->reason)->status;

    if (ngx_agent_refuse_mark(r, ngx_agent_reason(ctx->reason)->outcome)
        != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (ngx_agent_refuse_waited(ctx->reason)
        && ngx_agent_refuse_header(r, "Retry-After", "1") != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    /*
     * No 100 Continue is sent for a body that is discarded, and bytes that
     * follow on this connection are not read as another request.
     */

    r->expect_tested = 1;
    r->keepalive = 0;

    if (ngx_agent_flow_box(r) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }

    ngx_memzero(&cv, sizeof(ngx_http_complex_value_t));
    cv.value = body;

    ngx_str_set(&type, "application/json");

    /* so a client that coalesced hosts reconnects, RFC 9113 section 9.1.2 */

    if (ctx->reason == NGX_AGENT_REASON_MISMATCH
        && r->http_version == NGX_HTTP_VERSION_20)
    {
        status = NGX_HTTP_MISDIRECTED_REQUEST;
    }

    rc = ngx_http_send_response(r, status, &type, &cv);

    ngx_http_finalize_request(r, rc);

    return NGX_DONE;
}


ngx_int_t
ngx_agent_refuse_record(ngx_pool_t *pool, ngx_agent_ctx_t *ctx,
    ngx_agent_reason_e reason, const char *why, ngx_str_t *body)
{
    char          text[NGX_AGENT_HINT_MAX];
    ngx_int_t     rc;
    const char   *hint;
    authority_t  *name;

    ctx->state = NGX_AGENT_REFUSED;
    ctx->reason = reason;
    ctx->why = why;

    name = &ctx->target.authority;

    if (ngx_agent_refuse_waited(reason)) {

        /* more slowly it would have been allowed: `refusals` is not for it */

        ngx_agent_counted(ctx->task->id,
                          reason == NGX_AGENT_REASON_RATE
                          ? NGX_AGENT_COUNTED_RATE
                          : reason == NGX_AGENT_REASON_CONNECTIONS
                            ? NGX_AGENT_COUNTED_CONNECTIONS
                            : NGX_AGENT_COUNTED_HANDSHAKES,
                          name->host, name->host_len);

        hint = ngx_agent_reason(reason)->hint;
        goto body;
    }

    rc = ngx_agent_refusals_spend(ctx->task);

    if (rc != NGX_OK && reason != NGX_AGENT_REASON_TASK_UNKNOWN) {

        ngx_agent_counted(ctx->task->id, NGX_AGENT_COUNTED_REFUSALS,
                          name->host, name->host_len);

        if (rc == NGX_ABORT) {
            return NGX_ABORT;
        }

        ctx->reason = ngx_agent_usage_is_over(ctx->task->id)
                      ? NGX_AGENT_REASON_BUDGET : NGX_AGENT_REASON_REFUSALS;
        ctx->why = NULL;

        hint = ngx_agent_reason(ctx->reason)->hint;
        goto body;
    }

    ngx_log_debug4(NGX_LOG_DEBUG_HTTP, pool->log, 0,
                   "agent: request %*s refused: %s, %s", sizeof(ctx->request),
                   ctx->request, ngx_agent_reason(ctx->reason)->word,
                   ctx->why ? ctx->why : "-");

    hint = ngx_agent_refuse_hint(ctx, text);

    /*
     * The request is refused even if that cannot be recorded: nothing is sent
     * in either case.
     */

    (void) ngx_agent_events_decision(ctx, "denied");

    ngx_agent_listed_refused(ctx->task->id, &ctx->target, ctx->reason, 0, hint);

body:

    return ngx_agent_refuse_body(pool, ctx, ctx->reason, hint, body);
}


const char *
ngx_agent_refuse_hint(ngx_agent_ctx_t *ctx, char text[NGX_AGENT_HINT_MAX])
{
    const policy_rule_t  *rule;

    rule = ctx->rule;

    switch (ctx->reason) {

    case NGX_AGENT_REASON_METHOD:
        return ngx_agent_refuse_hint_rule(rule,
                                          rule->methods_count
                                          ? "allowed methods:"
                                          : "allowed methods: GET HEAD",
                                          rule->methods, rule->methods_count,
                                          text);

    case NGX_AGENT_REASON_PATH:
        return ngx_agent_refuse_hint_rule(rule, "allowed paths:", rule->paths,
                                          rule->paths_count, text);

    case NGX_AGENT_REASON_HOST:
    case NGX_AGENT_REASON_PORT:             /* rules are listed with ports */
        return ngx_agent_refuse_hint_hosts(ctx->policy, text);

    case NGX_AGENT_REASON_RESOLVE:
    case NGX_AGENT_REASON_ADDRESS:

        /* a result shows the hint without the detail */

        if (ctx->why == NULL) {
            return ngx_agent_reason(ctx->reason)->hint;
        }

        (void) snprintf(text, NGX_AGENT_HINT_MAX, "%s (%s)",
                        ngx_agent_reason(ctx->reason)->hint, ctx->why);
        return text;

    default:
        return ngx_agent_reason(ctx->reason)->hint;
    }
}


/*
 * Tells a model what is allowed instead: the hosts of the policy, if it still
 * exists; or what a rule has, and the rule's own hint.
 */

static const char *
ngx_agent_refuse_hint_hosts(const policy_t *policy,
    char text[NGX_AGENT_HINT_MAX])
{
    size_t                i, n, len;
    const policy_rule_t  *rule;

    n = policy ? policy->rules_count : 0;

    len = snprintf(text, NGX_AGENT_HINT_WORDS, "%s",
                   n ? "this task may call only:"
                     : "this task may call no host");

    for (i = 0; i < n; i++) {

        rule = policy_rule_at(policy, i);

        if (rule == NULL
            || !ngx_agent_refuse_hint_word(text, &len, rule->name, n - i))
        {
            break;
        }
    }

    return text;
}


static const char *
ngx_agent_refuse_hint_rule(const policy_rule_t *rule, const char *lead,
    char **words, size_t n, char text[NGX_AGENT_HINT_MAX])
{
    size_t  i, len;

    len = snprintf(text, NGX_AGENT_HINT_WORDS, "%s", lead);

    for (i = 0; i < n; i++) {
        if (!ngx_agent_refuse_hint_word(text, &len, words[i], n - i)) {
            break;
        }
    }

    if (rule->hint) {
        (void) snprintf(text + len, NGX_AGENT_HINT_MAX - len, "; %s",
                        rule->hint);
    }

    return text;
}


/* 0, and said how many are left, where the word does not fit. */

static ngx_uint_t
ngx_agent_refuse_hint_word(char text[NGX_AGENT_HINT_MAX], size_t *len,
    const char *word, size_t left)
{
    if (*len + ngx_strlen(word) + 2 > NGX_AGENT_HINT_WORDS) {
        *len += snprintf(text + *len, NGX_AGENT_HINT_MAX - *len,
                         " and %u more", (unsigned) left);
        return 0;
    }

    *len += snprintf(text + *len, NGX_AGENT_HINT_WORDS - *len, " %s", word);

    return 1;
}


/* The keys are fixed; jansson escapes all bytes from the box. */

ngx_int_t
ngx_agent_refuse_body(ngx_pool_t *pool, ngx_agent_ctx_t *ctx,
    ngx_agent_reason_e reason, const char *hint, ngx_str_t *body)
{
    char      *text;
    json_t    *object;
    target_t  *t;

    t = &ctx->target;

    object = json_pack("{s:s, s:s, s:s?, s:s#, s:i, s:s#, s:s#, s:s#, s:s, "
                       "s:s?}",
               "error", ngx_agent_reason(reason)->outcome,
               "reason", ngx_agent_reason(reason)->word,
               "detail", ctx->why,
               "host", t->authority.host, (int) t->authority.host_len,
               "port", (int) t->authority.port,
               "method", t->method ? (char *) t->method : "",
                         (int) ngx_min(t->method_len, 64),
               "path", t->path ? (char *) t->path : "",
                       (int) ngx_min(t->path_len, 512),
               "task", ctx->task->id, PROTOCOL_ID_LEN,
               "policy", ctx->task->policy,
               "hint", hint);

    text = object ? json_dumps(object, JSON_COMPACT|JSON_ENSURE_ASCII) : NULL;

    json_decref(object);

    if (text == NULL) {
        return NGX_ERROR;
    }

    body->len = ngx_strlen(text);
    body->data = ngx_pnalloc(pool, body->len + 1);

    if (body->data) {
        ngx_memcpy(body->data, text, body->len);
        body->data[body->len++] = '\n';
    }

    free(text);

    return body->data ? NGX_OK : NGX_ERROR;
}


ngx_int_t
ngx_agent_refuse_mark(ngx_http_request_t *r, const char *how)
{
    return ngx_agent_refuse_header(r, "X-Agent-Broker", how);
}


static ngx_int_t
ngx_agent_refuse_header(ngx_http_request_t *r, const char *key,
    const char *value)
{
    ngx_table_elt_t  *header;

    header = ngx_list_push(&r->headers_out.headers);
    if (header == NULL) {
        return NGX_ERROR;
    }

    header->hash = 1;
    header->key.data = (u_char *) key;
    header->key.len = ngx_strlen(key);
    header->value.data = (u_char *) value;
    header->value.len = ngx_strlen(value);

    return NGX_OK;
}
