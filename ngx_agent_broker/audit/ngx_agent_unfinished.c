/*
 * Requests that have ended before they had an answer: the box closed the
 * connection, or its task ended.  What they were waiting for is on record, and
 * the result of the task names them, since it may be what the task was waiting
 * for when its time was over.
 */


#include "audit/ngx_agent_audit.h"


static const char *ngx_agent_unfinished_dial(ngx_agent_ctx_t *ctx);


const char *
ngx_agent_unfinished(ngx_agent_ctx_t *ctx, ngx_uint_t is_counted)
{
    char         hint[NGX_AGENT_HINT_MAX];
    const char  *waiting;

    switch (ctx->state) {

    case NGX_AGENT_UNDECIDED:
    case NGX_AGENT_TURN:
    case NGX_AGENT_ROOM:
        waiting = "waiting for its turn";
        break;

    case NGX_AGENT_RESOLVING:
        waiting = "waiting for the host's address";
        break;

    case NGX_AGENT_RECORDING:
        waiting = "waiting for its line in the audit";
        break;

    default: /* NGX_AGENT_ALLOWED */
        waiting = ngx_agent_unfinished_dial(ctx);
        break;
    }

    (void) snprintf(hint, sizeof(hint), "the request had no answer when its "
                    "connection was closed: it was %s", waiting);

    if (!is_counted) {
        ngx_agent_listed_unfinished(ctx->task->id);
    }

    ctx->listed = 1;

    /* what is known to have gone wrong says more than that nothing came */

    if (ctx->failure && ctx->failure != NGX_AGENT_REASON_ABORTED) {
        ngx_agent_listed_refused(ctx->task->id, &ctx->target, ctx->failure, 0,
                               ngx_agent_reason(ctx->failure)->hint);

    } else {
        ngx_agent_listed_refused(ctx->task->id, &ctx->target,
                               NGX_AGENT_REASON_ABORTED, 0, hint);
    }

    return waiting;
}


static const char *
ngx_agent_unfinished_dial(ngx_agent_ctx_t *ctx)
{
    ngx_http_request_t  *r;

    static const char  dial[] = "waiting for a connection to the host";
    static const char  rest[] = "waiting for the rest of the request";
    static const char  answer[] = "waiting for the host's answer";

    r = ctx->http;

    if (r == NULL) {
        /* a tunnel */
        return ctx->live.upgraded ? answer : dial;
    }

    if (r->upstream == NULL || r->upstream->state == NULL) {
        return rest;
    }

    /* core has the time that it took, once there is a connection */

    if (r->upstream->state->connect_time == (ngx_msec_t) -1) {
        return dial;
    }

    return r->reading_body ? rest : answer;
}
