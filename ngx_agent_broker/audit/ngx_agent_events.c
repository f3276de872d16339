/*
 * The events of the audit: what the line of each has.  The order of
 * the keys is fixed, and part of the format.
 */


#include "audit/ngx_agent_audit_shared.h"


#define NGX_AGENT_RAW_MAX  512              /* of a malformed request */


static void ngx_agent_events_addresses(audit_line_t *line,
    ngx_agent_ctx_t *ctx);
static void ngx_agent_events_request_line(ngx_http_request_t *r,
    ngx_str_t *text);
static void ngx_agent_events_failed(ngx_agent_ctx_t *ctx);
static ngx_agent_reason_e ngx_agent_events_failure(ngx_http_request_t *r);
static void ngx_agent_events_stripped(audit_line_t *line,
    ngx_agent_stripped_t *stripped);
static void ngx_agent_events_raw(audit_line_t *line, ngx_str_t *request,
    ngx_str_t *host);


/* The name itself can carry data: it leaves no trace outside before this. */

ngx_int_t
ngx_agent_events_lookup(ngx_agent_ctx_t *ctx)
{
    authority_t   *a;
    audit_line_t   line;

    a = &ctx->target.authority;

    ngx_agent_audit_begin(&line, "lookup", ctx->task->id, ctx->task->policy,
                          ctx->policy_hash, ctx->uid);

    audit_line_word(&line, "rule", ctx->rule->name);
    audit_line_text(&line, "host", a->host, a->host_len, AUTHORITY_HOST_MAX);
    audit_line_own(&line, "request", (char *) ctx->request,
                   sizeof(ctx->request));

    ngx_agent_audit_await(&line, ctx->task->id, &ctx->record, 0);

    return NGX_AGAIN;
}


ngx_int_t
ngx_agent_events_decision(ngx_agent_ctx_t *ctx, const char *verdict)
{
    target_t      *t;
    const char    *reason;
    ngx_uint_t     tls;
    audit_line_t   line;

    t = &ctx->target;
    tls = ctx->rule ? ctx->tls : t->https;

    ngx_agent_audit_begin(&line, "egress", ctx->task->id, ctx->task->policy,
                          ctx->policy_hash, ctx->uid);

    reason = ngx_agent_reason(ctx->reason)->word;

    audit_line_own(&line, "verdict", verdict, ngx_strlen(verdict));
    audit_line_own(&line, "reason", reason, ngx_strlen(reason));

    if (ctx->why) {
        audit_line_word(&line, "detail", ctx->why);
    }

    audit_line_word(&line, "rule",
                    ctx->rule ? ctx->rule->name : NULL);
    audit_line_text(&line, "method", t->method, t->method_len, 64);
    audit_line_own(&line, "scheme", tls ? "https" : "http", tls ? 5 : 4);
    audit_line_text(&line, "host", t->authority.host, t->authority.host_len,
                    AUTHORITY_HOST_MAX);
    audit_line_number(&line, "port", ctx->port ? ctx->port
                                               : t->authority.port);
    audit_line_text(&line, "address", ctx->address.data, ctx->address.len,
                    64);

    if (ctx->reason == NGX_AGENT_REASON_RULE) {
        ngx_agent_events_addresses(&line, ctx);
    }

    audit_line_text(&line, "path", t->path, t->path_len, 1024);
    audit_line_number(&line, "query_bytes", (int64_t) t->query_len);
    audit_line_word(&line, "credential",
                    ctx->reason == NGX_AGENT_REASON_RULE && ctx->rule
                    ? ctx->rule->credential : NULL);
    audit_line_number(&line, "vault",
                      (int64_t) ngx_agent_zone_vault_revision());

    if (ctx->stripped) {
        ngx_agent_events_stripped(&line, ctx->stripped);
    }

    audit_line_own(&line, "request", (char *) ctx->request,
                   sizeof(ctx->request));

    if (ctx->reason == NGX_AGENT_REASON_MALFORMED
        || ctx->reason == NGX_AGENT_REASON_MISMATCH)
    {
        /* there is no one target: both names are recorded as they came */
        ngx_agent_events_raw(&line, &ctx->line, &ctx->host);
    }

    if (ctx->state == NGX_AGENT_RECORDING) {
        ngx_agent_audit_await(&line, ctx->task->id, &ctx->record, 1);
        return NGX_AGAIN;
    }

    return ngx_agent_audit_write(&line, ctx->task->id);
}


/* A header's name, or "?" and that of a query's field: all from our lists. */

static void
ngx_agent_events_stripped(audit_line_t *line, ngx_agent_stripped_t *stripped)
{
    u_char      *p, *last;
    u_char       text[NGX_AGENT_STRIPPED_MAX * (POLICY_FIELD_MAX + 4) + 8];
    ngx_uint_t   i;

    p = text;
    last = text + sizeof(text);
    *p++ = '[';

    for (i = 0; i < stripped->count; i++) {
        p = ngx_slprintf(p, last, "%s\"%s%s\"", i ? "," : "",
                         stripped->list[i].is_query ? "?" : "",
                         stripped->list[i].name);
    }

    p = ngx_slprintf(p, last, "%s]", stripped->cut ? ",\"...\"" : "");

    audit_line_json(line, "stripped", (char *) text, p - text);
}


/* Those that may be dialled, in the order in which they are. */

static void
ngx_agent_events_addresses(audit_line_t *line, ngx_agent_ctx_t *ctx)
{
    char        *p, text[NGX_AGENT_DIALS_MAX * (ADDRESS_TEXT_MAX + 3) + 2];
    ngx_uint_t   i;

    p = text;
    *p++ = '[';

    for (i = 0; i < ctx->addresses_count && i < NGX_AGENT_DIALS_MAX; i++) {

        if (i) {
            *p++ = ',';
        }

        *p++ = '"';
        p += address_text(&ctx->addresses[i], p);
        *p++ = '"';
    }

    *p++ = ']';

    audit_line_json(line, "addresses", text, p - text);
}


/* A CONNECT that was answered: the requests in it have lines of their own. */

ngx_int_t
ngx_agent_events_connect(ngx_agent_ctx_t *ctx)
{
    authority_t   *a;
    audit_line_t   line;

    a = &ctx->target.authority;

    ngx_agent_audit_begin(&line, "connect", ctx->task->id, ctx->task->policy,
                          ctx->policy_hash, ctx->uid);

    audit_line_word(&line, "verdict", "allowed");
    audit_line_word(&line, "reason", "rule");
    audit_line_word(&line, "rule", ctx->rule->name);
    audit_line_text(&line, "host", a->host, a->host_len, AUTHORITY_HOST_MAX);
    audit_line_number(&line, "port", a->port);
    audit_line_own(&line, "request", (char *) ctx->request,
                   sizeof(ctx->request));

    return ngx_agent_audit_write(&line, ctx->task->id);
}


void
ngx_agent_events_end(ngx_agent_ctx_t *ctx, ngx_uint_t status)
{
    uint64_t           up, down;
    audit_line_t       line;
    ngx_agent_flow_t  *flow;

    flow = &ctx->flow;

    up = flow->sent ? ngx_max(flow->sent, flow->read) + flow->discarded : 0;
    down = flow->received;

    ngx_log_debug5(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "agent: request %*s ends, %uL bytes up, %uL down, \"%s\"",
                   sizeof(ctx->request), ctx->request, up, down,
                   ctx->failure ? ngx_agent_reason(ctx->failure)->word
                                : "done");

    ngx_agent_audit_begin(&line, "egress_end", ctx->task->id,
                          ctx->task->policy, ctx->policy_hash, ctx->uid);

    audit_line_own(&line, "request", (char *) ctx->request,
                   sizeof(ctx->request));
    audit_line_number(&line, "status", (int64_t) status);
    audit_line_text(&line, "host", ctx->target.authority.host,
                    ctx->target.authority.host_len, AUTHORITY_HOST_MAX);
    audit_line_text(&line, "address",
                    ctx->next || ctx->reused ? ctx->address.data : NULL,
                    ctx->address.len, 64);

    if (ctx->failure) {
        ngx_agent_events_failed(ctx);

        audit_line_word(&line, "failure",
                        ngx_agent_reason(ctx->failure)->word);

        if (ctx->why) {
            audit_line_word(&line, "detail", ctx->why);
        }
    }

    audit_line_number(&line, "bytes_up", (int64_t) up);
    audit_line_number(&line, "bytes_down", (int64_t) down);
    audit_line_number(&line, "duration_ms",
                      (int64_t) (ngx_current_msec - ctx->started));
    audit_line_number(&line, "vault", ctx->sent ? (int64_t) ctx->vault : 0);

    ngx_agent_audit_gather(&line, ctx->task->id);
}


/* In the task's result, unless that has it as refused or unanswered. */

static void
ngx_agent_events_failed(ngx_agent_ctx_t *ctx)
{
    char         text[NGX_AGENT_HINT_MAX];
    const char  *hint;

    if (ctx->listed || ctx->failure == NGX_AGENT_REASON_ABORTED) {
        return;
    }

    hint = ngx_agent_reason(ctx->failure)->hint;

    if (ctx->why) {
        (void) snprintf(text, sizeof(text), "%s (%s)", hint, ctx->why);
        hint = text;
    }

    ngx_agent_listed_failed(ctx->task->id, &ctx->target, ctx->failure, hint);
}


void
ngx_agent_events_aborted(ngx_agent_ctx_t *ctx, ngx_agent_reason_e reason)
{
    ctx->reason = reason;
    ctx->why = ngx_agent_unfinished(ctx, 1);

    (void) ngx_agent_events_decision(ctx, "denied");
}


void
ngx_agent_events_unanswered(ngx_agent_ctx_t *ctx)
{
    const char  *waiting;

    waiting = ngx_agent_unfinished(ctx, 0);

    if (ctx->failure == NGX_AGENT_REASON_NONE) {
        ctx->failure = NGX_AGENT_REASON_ABORTED;
    }

    if (ctx->why == NULL) {
        ctx->why = waiting;
    }
}


/*
 * The log phase runs for every request, also for one whose parsing failed:
 * each leaves a line.  A refusal has left its own already.
 */

ngx_int_t
ngx_agent_events_log(ngx_http_request_t *r)
{
    ngx_int_t                   rc;
    ngx_str_t                   text, host;
    audit_line_t                line;
    ngx_agent_ctx_t            *ctx;
    ngx_agent_task_t           *task;
    ngx_agent_door_e            kind;
    ngx_agent_reason_e          reason;
    ngx_agent_slot_view_t       view;

    static const target_t  nothing;         /* it was not understood */

    task = ngx_agent_task_of(r->connection);

    if (task == NULL || r != r->main) {
        return NGX_OK;
    }

    ctx = ngx_http_get_module_ctx(r, ngx_agent_broker_module);

    if (ctx && ctx->state == NGX_AGENT_REFUSED) {
        return NGX_OK;
    }

    if (ctx && ctx->state >= NGX_AGENT_RECORDING) {

        if (ctx->failure == NGX_AGENT_REASON_NONE) {
            ctx->failure = ngx_agent_events_failure(r);
        }

        if (!r->header_sent) {
            ngx_agent_events_unanswered(ctx);
        }

        ngx_agent_events_end(ctx, r->headers_out.status);

        return NGX_OK;
    }

    rc = ngx_agent_refusals_spend(task);

    if (rc == NGX_ABORT) {
        ngx_agent_task_shut(r->connection);
    }

    if (rc != NGX_OK) {
        ngx_agent_counted(task->id, NGX_AGENT_COUNTED_REFUSALS, NULL, 0);
        return NGX_OK;
    }

    if (ctx && ctx->rule) {
        ngx_agent_events_aborted(ctx, ngx_agent_events_reason(r));
        return NGX_OK;
    }

    ngx_memzero(&view, sizeof(ngx_agent_slot_view_t));
    (void) ngx_agent_slot_view(task->id, &view);

    ngx_agent_audit_begin(&line, "door_error", task->id, task->policy,
                          view.policy_hash, task->uid);

    kind = ngx_agent_task_connection(r->connection)->door->kind;

    audit_line_word(&line, "door", ngx_agent_task_door_name(kind));
    reason = ngx_agent_events_reason(r);
    audit_line_word(&line, "reason", ngx_agent_reason(reason)->word);
    audit_line_number(&line, "status", (int64_t) r->headers_out.status);

    ngx_agent_events_request_line(r, &text);
    ngx_str_null(&host);

    if (r->headers_in.host) {
        host = r->headers_in.host->value;
    }

    ngx_agent_events_raw(&line, &text, &host);

    (void) ngx_agent_audit_write(&line, task->id);

    ngx_agent_listed_refused(task->id, &nothing, reason, 0,
                           ngx_agent_reason(reason)->hint);

    return NGX_OK;
}


/* What core made of it: nothing else tells why the request ended here. */

ngx_agent_reason_e
ngx_agent_events_reason(ngx_http_request_t *r)
{
    ngx_uint_t        i;
    ngx_agent_ctx_t  *ctx;

    static const struct {
        ngx_uint_t          status;
        ngx_agent_reason_e  reason;
    } reasons[] = {
        { NGX_HTTP_BAD_REQUEST, NGX_AGENT_REASON_MALFORMED },
        { NGX_HTTP_NOT_ALLOWED, NGX_AGENT_REASON_METHOD },
        { NGX_HTTP_REQUEST_TIME_OUT, NGX_AGENT_REASON_TIMEOUT },
        { NGX_HTTP_REQUEST_ENTITY_TOO_LARGE, NGX_AGENT_REASON_BODY },
        { NGX_HTTP_REQUEST_URI_TOO_LARGE, NGX_AGENT_REASON_URI },
        { NGX_HTTP_CLIENT_CLOSED_REQUEST, NGX_AGENT_REASON_ABORTED },
        { NGX_HTTP_INTERNAL_SERVER_ERROR, NGX_AGENT_REASON_INTERNAL },
        { NGX_HTTP_BAD_GATEWAY, NGX_AGENT_REASON_NO_ANSWER },
        { NGX_HTTP_GATEWAY_TIME_OUT, NGX_AGENT_REASON_UPSTREAM_TIMEOUT },

        /* a transfer coding, a version: what was sent is at fault */
        { NGX_HTTP_NOT_IMPLEMENTED, NGX_AGENT_REASON_MALFORMED },
        { NGX_HTTP_VERSION_NOT_SUPPORTED, NGX_AGENT_REASON_MALFORMED },
        { 0, NGX_AGENT_REASON_RULE }
    };

    for (i = 0; reasons[i].status; i++) {
        if (r->headers_out.status == reasons[i].status) {
            return reasons[i].reason;
        }
    }

    if (r->headers_out.status > NGX_HTTP_INTERNAL_SERVER_ERROR) {
        return NGX_AGENT_REASON_INTERNAL;
    }

    ctx = ngx_http_get_module_ctx(r, ngx_agent_broker_module);

    return (ctx && ctx->state != NGX_AGENT_UNDECIDED)
           ? NGX_AGENT_REASON_ABORTED : NGX_AGENT_REASON_MALFORMED;
}


/* What nobody has told: why an answer that had begun has no end. */

static ngx_agent_reason_e
ngx_agent_events_failure(ngx_http_request_t *r)
{
    ngx_connection_t     *c;
    ngx_http_upstream_t  *u;

    c = r->connection;

#if (NGX_HTTP_V2)
    if (r->stream) {
        c = r->stream->connection->connection;
    }
#endif

    /* core's mark on what outlasts worker_shutdown_timeout */

    if (ngx_exiting && c->close && c->error) {
        return NGX_AGENT_REASON_SHUTDOWN;
    }

    u = r->upstream;

    if (u && u->header_sent && u->length > 0 && !r->connection->error) {
        return NGX_AGENT_REASON_ANSWER_CUT;
    }

    return NGX_AGENT_REASON_NONE;
}


/* The request line, or what arrived of it. */

static void
ngx_agent_events_request_line(ngx_http_request_t *r, ngx_str_t *text)
{
    u_char     *p, *end;
    ngx_buf_t  *b;

    *text = r->request_line;
    b = r->header_in;

    if (text->len || b == NULL) {
        return;
    }

    p = r->request_start;

    if (p == NULL || p < b->start || p > b->last) {
        p = b->pos;
    }

    end = ngx_strlchr(p, b->last, LF);

    text->data = p;
    text->len = (end ? end : b->last) - p;

    if (text->len && p[text->len - 1] == CR) {
        text->len--;
    }
}


/*
 * Bytes that are not a request, for the record.  A client's own secrets are not
 * for it: a query is left out, as in every line, and so is the user
 * information of an authority.
 */

static void
ngx_agent_events_raw(audit_line_t *line, ngx_str_t *request, ngx_str_t *host)
{
    u_char      *start, *p, *last, *end, *at, text[NGX_AGENT_RAW_MAX];
    size_t       head, tail;
    ngx_str_t   *value;
    ngx_uint_t   i;

    for (i = 0; i < 2; i++) {

        value = (i == 0) ? request : host;
        start = value->data;

        if (start == NULL) {
            audit_line_word(line, i == 0 ? "request_line" : "host_header",
                            NULL);
            continue;
        }

        last = start + value->len;
        p = ngx_strlchr(start, last, '?');
        last = p ? p : last;

        /* where the authority begins, if there is one */

        p = start;

        if (i == 0) {
            p = ngx_strlchr(start, last, ' ');
            p = p ? p + 1 : start;

            for (end = p; end + 1 < last; end++) {
                if (end > p && end[0] == '/' && end[1] == '/') {
                    p = end + 2;
                    break;
                }
            }
        }

        at = NULL;

        for (end = p; end < last && *end != '/'; end++) {
            if (*end == '@') {
                at = end;
            }
        }

        if (at == NULL && p < end && *p != '[') {

            /*
             * what is not a port may be a password that was cut before its "@"
             */

            at = ngx_strlchr(p, end, ':');

            if (at && at > p && at + 1 < end
                && (at[1] < '0' || at[1] > '9'))
            {
                last = at;
            }

            at = NULL;
        }

        at = at ? at : p;

        head = ngx_min((size_t) (p - start), sizeof(text));
        tail = ngx_min((size_t) (last - at), sizeof(text) - head);

        ngx_memcpy(text, start, head);
        ngx_memcpy(text + head, at, tail);

        audit_line_text(line, i == 0 ? "request_line" : "host_header", text,
                        head + tail, NGX_AGENT_RAW_MAX);

        if ((size_t) (p - start) + (last - at) > sizeof(text)) {
            line->cut = true;
        }
    }
}


void
ngx_agent_events_task_end(const u_char *id, ngx_agent_slot_view_t *view,
    const char *reason, json_t *claimed)
{
    json_t        *usage, *value;
    audit_line_t   line;
    const char   **key;

    static const char  *keys[] = { "wall_ms", "cpu_ms", "memory_peak",
                                   "pids_peak", "disk_bytes", NULL };

    ngx_log_debug3(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "agent: task %*s ended: %s", (size_t) PROTOCOL_ID_LEN, id,
                   reason ? reason : "-");

    ngx_agent_counted_rest(id, view);

    ngx_agent_audit_begin(&line, "task_end", id, view->policy,
                          view->policy_hash, view->uid);

    audit_line_word(&line, "reason", reason);
    audit_line_number(&line, "allowed", (int64_t) view->allowed);
    audit_line_number(&line, "denied", (int64_t) view->denied);
    audit_line_number(&line, "failed", (int64_t) view->failed);
    audit_line_number(&line, "unanswered", (int64_t) view->unfinished);
    ngx_agent_counted_keys(&line, view);

    if (view->unlogged) {
        audit_line_number(&line, "unlogged", (int64_t) view->unlogged);
    }

    audit_line_number(&line, "audit_lines", (int64_t) view->audit_lines + 1);

    if (claimed) {
        audit_line_open(&line, "claimed");

        value = json_object_get(claimed, "exit_code");

        if (json_is_integer(value)) {
            audit_line_number(&line, "exit_code", json_integer_value(value));
        }

        usage = json_object_get(claimed, "usage");

        for (key = keys; *key; key++) {
            value = json_object_get(usage, *key);

            if (json_is_integer(value)) {
                audit_line_number(&line, *key, json_integer_value(value));
            }
        }

        audit_line_close(&line);
    }

    (void) ngx_agent_audit_write(&line, NULL);
}
