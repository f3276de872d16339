/*
 * The events of the audit: what stands in the line of each.  The order of
 * the keys is fixed, and part of the format.
 */


#include "ngx_agent_broker.h"


ngx_int_t
ngx_agent_audit_decision(ngx_agent_ctx_t *ctx, const char *verdict)
{
    char           rule[NGX_AGENT_RULE_NAME];
    target_t      *t;
    audit_line_t   line;

    t = &ctx->target;

    ngx_agent_audit_begin(&line, "egress", ctx->task->id, ctx->task->policy,
                          ctx->policy_hash, ctx->uid);

    audit_line_word(&line, "verdict", verdict);
    audit_line_word(&line, "reason", ngx_agent_reason(ctx->reason)->word);

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


void
ngx_agent_audit_task_end(const u_char *id, ngx_agent_slot_view_t *view,
    const char *reason, json_t *claimed)
{
    json_t        *usage, *value;
    audit_line_t   line;
    const char   **key;

    static const char  *keys[] = { "wall_ms", "cpu_ms", "memory_peak",
                                   "pids_peak", "disk_bytes", NULL };

    ngx_agent_audit_begin(&line, "task_end", id, view->policy,
                          view->policy_hash, view->uid);

    audit_line_word(&line, "reason", reason);
    audit_line_number(&line, "allowed", (int64_t) view->allowed);
    audit_line_number(&line, "denied", (int64_t) view->denied);
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


void
ngx_agent_audit_config(ngx_cycle_t *cycle, ngx_agent_main_conf_t *amcf,
    const char *what)
{
    ngx_uint_t    i;
    audit_line_t  line;

    ngx_agent_audit_begin(&line, "config", NULL, NULL, NULL, 0);

    audit_line_word(&line, "action", what);
    audit_line_number(&line, "generation",
                      (int64_t) ngx_agent_zone_generation());
    audit_line_number(&line, "vault", (int64_t) ngx_agent_vault_revision());

    audit_line_open(&line, "policies");

    for (i = 0; i < amcf->set->policies_count; i++) {
        audit_line_word(&line, amcf->set->policies[i]->name,
                        amcf->set->policies[i]->hash);
    }

    audit_line_close(&line);

    (void) ngx_agent_audit_write(&line, NULL);
}


void
ngx_agent_audit_worker(const char *what)
{
    audit_line_t  line;

    ngx_agent_audit_begin(&line, "worker", NULL, NULL, NULL, 0);

    audit_line_word(&line, "action", what);
    audit_line_number(&line, "last_seq", (int64_t) ngx_agent_audit_last());

    (void) ngx_agent_audit_write(&line, NULL);
}
