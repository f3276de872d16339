/*
 * `ask`: what a request would be answered, and by which rule.  It is judged by
 * the functions that judge a request of a box, as far as policies decide:
 * no name is resolved, nothing is sent, and nothing is counted.
 */


#include "control/ngx_agent_launcher.h"
#include "request/ngx_agent_request.h"


static ngx_agent_reason_e ngx_agent_question_judge(ngx_agent_ctx_t *ctx,
    const char *method, const char *url, ngx_pool_t *pool);
static const char *ngx_agent_question_line(const policy_rule_t *rule,
    char *text, size_t size);


void
ngx_agent_question(ngx_agent_launcher_t *l, json_t *request)
{
    char                   text[NGX_AGENT_HINT_MAX];
    char                   line[NGX_MAX_PATH + 32];
    json_t                *reply;
    ngx_uint_t             allowed;
    ngx_agent_ctx_t        ctx;
    ngx_agent_policies_t  *set;
    const policy_rule_t   *rule;

    ngx_memzero(&ctx, sizeof(ngx_agent_ctx_t));

    ctx.policy = ngx_agent_launcher_policy(l, request, &set);
    if (ctx.policy == NULL) {
        return;
    }

    ctx.reason = ngx_agent_question_judge(&ctx,
                    json_string_value(json_object_get(request, "method")),
                    json_string_value(json_object_get(request, "url")),
                    l->connection->pool);

    rule = ctx.rule;
    allowed = (ctx.reason == NGX_AGENT_REASON_RULE);

    reply = json_pack("{s:b, s:s, s:s, s:s?, s:s?, s:s?, s:s?, s:s?}",
                      "ok", 1,
                      "verdict", allowed ? "allowed" : "denied",
                      "reason", ngx_agent_reason(ctx.reason)->word,
                      "rule", rule ? rule->name : NULL,
                      "line", ngx_agent_question_line(rule, line,
                                                      sizeof(line)),
                      "credential", allowed && rule ? rule->credential : NULL,
                      "detail", ctx.why,
                      "hint", allowed ? NULL
                                      : ngx_agent_refuse_hint(&ctx, text));

    l->phase = NGX_AGENT_DONE;

    ngx_agent_launcher_send(l, reply);
    ngx_agent_policies_release(set);
}


/* As the first line of a request by the proxy's door would be. */

static ngx_agent_reason_e
ngx_agent_question_judge(ngx_agent_ctx_t *ctx, const char *method,
    const char *url, ngx_pool_t *pool)
{
    u_char              *p;
    size_t               len;
    target_t            *t;
    authority_error_t    err;
    target_error_t       rc;
    ngx_agent_reason_e   reason;

    t = &ctx->target;

    len = ngx_strlen(method) + ngx_strlen(url) + sizeof("  HTTP/1.1") - 1;

    p = ngx_pnalloc(pool, len);
    if (p == NULL) {
        return NGX_AGENT_REASON_INTERNAL;
    }

    (void) ngx_snprintf(p, len, "%s %s HTTP/1.1", method, url);

    if (ngx_strcmp(method, "CONNECT") == 0) {

        /* its target is a host and a port; all else is asked for inside */

        err = authority_parse((u_char *) url, ngx_strlen(url), 0,
                              &t->authority);

        if (err != AUTHORITY_OK || !t->authority.has_port) {
            ctx->why = err != AUTHORITY_OK ? authority_strerror(err)
                                           : "CONNECT needs HOST:PORT";
            ngx_memzero(t, sizeof(target_t));
            return NGX_AGENT_REASON_MALFORMED;
        }

    } else {

        rc = target_parse(p, len, NULL, 0, t, &ctx->why);

        if (rc != TARGET_OK) {
            return NGX_AGENT_REASON_MALFORMED;
        }

        ctx->why = NULL;
    }

    reason = ngx_agent_judge_find(ctx->policy, &t->authority, &ctx->rule);

    /* what is in a tunnel is not read */

    if (reason != NGX_AGENT_REASON_RULE || (ctx->rule->tunnel && t->https)) {
        return reason;
    }

    return ngx_agent_judge_request(ctx, ctx->rule);
}


/* "FILE:LINE" of the rule; or NULL. */

static const char *
ngx_agent_question_line(const policy_rule_t *rule, char *text, size_t size)
{
    if (rule == NULL || rule->file == NULL) {
        return NULL;
    }

    (void) snprintf(text, size, "%s:%u", rule->file, (unsigned) rule->line);

    return text;
}
