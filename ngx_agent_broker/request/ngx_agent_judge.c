/*
 * What a task's policy says of a host, a method and a path, whoever asks: a
 * request, a tunnel, a name, a stream that a reload meets, a question.
 */


#include "request/ngx_agent_request.h"


ngx_agent_ctx_t *
ngx_agent_judge_begin(ngx_pool_t *pool, ngx_agent_task_t *task)
{
    size_t            n;
    ngx_agent_ctx_t  *ctx;

    /* for 256 requests at once, since each call costs; new in each process */

    static u_char      random[256 * PROTOCOL_ID_LEN / 4];
    static size_t      used;
    static ngx_pid_t   pid;

    n = PROTOCOL_ID_LEN / 4;

    if (pid != ngx_pid || used == sizeof(random)) {

        if (ngx_agent_random(random, sizeof(random)) != NGX_OK) {
            return NULL;
        }

        pid = ngx_pid;
        used = 0;
    }

    ctx = ngx_pcalloc(pool, sizeof(ngx_agent_ctx_t));
    if (ctx == NULL) {
        return NULL;
    }

    (void) ngx_hex_dump(ctx->request, random + used, n);
    used += n;

    ctx->task = task;
    ctx->uid = task->uid;
    ctx->started = ngx_current_msec;

    return ctx;
}


ngx_agent_reason_e
ngx_agent_judge_load(ngx_pool_t *pool, ngx_log_t *log, ngx_agent_ctx_t *ctx)
{
    const void             *hash;
    ngx_agent_slot_view_t   view;

    if (ngx_agent_slot_view(ctx->task->id, &view) != NGX_OK) {
        return NGX_AGENT_REASON_TASK_UNKNOWN;
    }

    ctx->set = ngx_agent_policies_hold(pool, log);
    if (ctx->set == NULL) {
        return NGX_AGENT_REASON_INTERNAL;
    }

    ctx->policy = policy_set_find(ctx->set->policies, (char *) view.policy);

    hash = ctx->policy ? (void *) ctx->policy->hash : view.policy_hash;
    ngx_memcpy(ctx->policy_hash, hash, sizeof(ctx->policy_hash));

    return ctx->policy ? NGX_AGENT_REASON_RULE : NGX_AGENT_REASON_POLICY_GONE;
}


ngx_agent_reason_e
ngx_agent_judge_find(const policy_t *policy, const authority_t *name,
    const policy_rule_t **rule)
{
    switch (policy_find_rule(policy, name, rule)) {

    case POLICY_NO_HOST:
        return NGX_AGENT_REASON_HOST;

    case POLICY_NO_PORT:
        return NGX_AGENT_REASON_PORT;

    case POLICY_STALE:
        return NGX_AGENT_REASON_CHANGED;

    default: /* POLICY_FOUND */
        return NGX_AGENT_REASON_RULE;
    }
}


ngx_agent_reason_e
ngx_agent_judge_request(ngx_agent_ctx_t *ctx, const policy_rule_t *rule)
{
    target_t  *t;

    t = &ctx->target;

    if (t->path == NULL) {
        return NGX_AGENT_REASON_RULE;
    }

    if (!policy_rule_allows_method(rule, (char *) t->method, t->method_len)) {
        return NGX_AGENT_REASON_METHOD;
    }

    ctx->why = policy_rule_refuses_path(rule, t->path, t->path_len);

    return ctx->why ? NGX_AGENT_REASON_PATH : NGX_AGENT_REASON_RULE;
}


ngx_agent_reason_e
ngx_agent_judge_bounds(ngx_agent_task_t *task)
{
    switch (ngx_agent_usage_admit(task->id)) {

    case BOUND_COUNT:
        return NGX_AGENT_REASON_RULE;

    case BOUND_AUDIT_LINES:
    case BOUND_AUDIT_BYTES:
        return NGX_AGENT_REASON_BUDGET;

    case BOUND_BYTES_UP:
        return NGX_AGENT_REASON_BYTES_UP;

    case BOUND_BYTES_DOWN:
        return NGX_AGENT_REASON_BYTES_DOWN;

    default: /* BOUND_REQUESTS */
        return NGX_AGENT_REASON_REQUESTS;
    }
}


ngx_agent_reason_e
ngx_agent_judge_name(ngx_agent_task_t *task, ngx_log_t *log,
    const authority_t *name)
{
    const policy_t         *policy;
    ngx_agent_reason_e      reason;
    const policy_rule_t    *rule;
    ngx_agent_policies_t   *set;
    ngx_agent_slot_view_t   view;

    if (ngx_agent_slot_view(task->id, &view) != NGX_OK) {
        return NGX_AGENT_REASON_TASK_UNKNOWN;
    }

    if (view.is_over) {
        return NGX_AGENT_REASON_BUDGET;
    }

    set = ngx_agent_policies_get(log);
    if (set == NULL) {
        return NGX_AGENT_REASON_INTERNAL;
    }

    policy = policy_set_find(set->policies, (char *) view.policy);

    reason = policy ? ngx_agent_judge_find(policy, name, &rule)
                    : NGX_AGENT_REASON_POLICY_GONE;

    ngx_agent_policies_release(set);

    return reason;
}


const policy_rule_t *
ngx_agent_judge_again(ngx_pool_t *pool, ngx_log_t *log, ngx_agent_ctx_t *ctx)
{
    const policy_rule_t  *rule;

    ctx->set = ngx_agent_policies_hold(pool, log);
    if (ctx->set == NULL) {
        return NULL;
    }

    ctx->policy = policy_set_find(ctx->set->policies,
                                  (char *) ctx->task->policy);

    return (ctx->policy
            && policy_find_rule(ctx->policy, &ctx->target.authority, &rule)
               == POLICY_FOUND
            && ngx_agent_judge_request(ctx, rule) == NGX_AGENT_REASON_RULE
            && ngx_agent_resolve_is_allowed(ctx, rule))
           ? rule : NULL;
}
