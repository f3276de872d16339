/*
 * What this worker carries now: requests that have been passed on, upgrades
 * and tunnels, each in one list.  A timer looks at it twice a second, in a
 * worker that is shutting down too:
 *
 *   - when the policies have changed, each is judged again by the new ones, and
 *     cut if it is not allowed any more;
 *   - an upgrade or tunnel without a byte either way for as long as its rule
 *     allows is ended;
 *   - what one has taken of its task's bytes and does not use is given back.
 *
 * A long list is looked at in parts, so that other events wait for no more than
 * one part.
 */


#include "request/ngx_agent_request.h"


#define NGX_AGENT_LIVE_TICK  500            /* ms */
#define NGX_AGENT_LIVE_PART  256            /* of the list at once */


static void ngx_agent_live_tick(ngx_event_t *ev);
static void ngx_agent_live_look(ngx_agent_ctx_t *ctx);


static ngx_queue_t  ngx_agent_lives = { &ngx_agent_lives, &ngx_agent_lives };
static ngx_uint_t   ngx_agent_lives_count;
static ngx_uint_t   ngx_agent_lives_left;   /* of this round */

/* nginx logs the fd of a timer's connection */

static ngx_connection_t  ngx_agent_lives_none = { .fd = (ngx_socket_t) -1 };
static ngx_event_t       ngx_agent_lives_timer = {
    .data = &ngx_agent_lives_none,
    .handler = ngx_agent_live_tick
};


void
ngx_agent_live_add(ngx_agent_ctx_t *ctx,
    const policy_rule_t *(*judge)(ngx_agent_ctx_t *ctx),
    void (*end)(ngx_agent_ctx_t *ctx, ngx_agent_reason_e reason))
{
    if (ctx->live.end == NULL) {
        ngx_queue_insert_tail(&ngx_agent_lives, &ctx->live.queue);
        ngx_agent_lives_count++;
    }

    ctx->live.judge = judge;
    ctx->live.end = end;
    ctx->live.active = ngx_current_msec;

    if (!ngx_agent_lives_timer.timer_set) {
        ngx_agent_lives_timer.log = ngx_cycle->log;
        ngx_add_timer(&ngx_agent_lives_timer, NGX_AGENT_LIVE_TICK);
    }
}


void
ngx_agent_live_remove(ngx_agent_ctx_t *ctx)
{
    if (ctx->live.end) {
        ngx_queue_remove(&ctx->live.queue);
        ngx_agent_lives_count--;
        ctx->live.end = NULL;
    }

    /* a worker ends when it has no timer: a tunnel has no other one */

    if (ngx_exiting && ngx_queue_empty(&ngx_agent_lives)
        && ngx_agent_lives_timer.timer_set)
    {
        ngx_del_timer(&ngx_agent_lives_timer);
    }
}


static void
ngx_agent_live_tick(ngx_event_t *ev)
{
    ngx_uint_t        n;
    ngx_queue_t      *q;
    ngx_agent_ctx_t  *ctx;

    if (ngx_agent_lives_left == 0) {
        ngx_agent_lives_left = ngx_agent_lives_count;
    }

    for (n = 0; n < NGX_AGENT_LIVE_PART && ngx_agent_lives_left; n++) {

        if (ngx_queue_empty(&ngx_agent_lives)) {
            ngx_agent_lives_left = 0;
            break;
        }

        q = ngx_queue_head(&ngx_agent_lives);
        ctx = ngx_queue_data(q, ngx_agent_ctx_t, live.queue);

        /* it may end, and others with it */

        ngx_queue_remove(q);
        ngx_queue_insert_tail(&ngx_agent_lives, q);
        ngx_agent_lives_left--;

        ngx_agent_live_look(ctx);
    }

    if (!ngx_queue_empty(&ngx_agent_lives)) {
        ngx_add_timer(ev, ngx_agent_lives_left ? 1 : NGX_AGENT_LIVE_TICK);
    }
}


static void
ngx_agent_live_look(ngx_agent_ctx_t *ctx)
{
    ngx_msec_t            quiet;
    const policy_rule_t  *rule;

    if (ctx->flow.cut) {
        return;                             /* it is about to end */
    }

    if (ctx->set->generation != ngx_agent_zone_generation()) {

        rule = ctx->live.judge(ctx);

        if (rule == NULL) {
            ngx_agent_flow_cut(ctx, NGX_AGENT_REASON_CHANGED);
            ctx->live.end(ctx, NGX_AGENT_REASON_CHANGED);
            return;
        }

        ctx->rule = rule;
    }

    quiet = ngx_current_msec - ctx->live.active;

    if (ctx->live.upgraded && quiet >= ctx->rule->idle) {
        ctx->flow.cut = 1;
        ctx->failure = NGX_AGENT_REASON_IDLE;
        ctx->live.end(ctx, NGX_AGENT_REASON_IDLE);
        return;
    }

    if (quiet >= NGX_AGENT_LIVE_TICK) {
        ngx_agent_flow_give_back(ctx);
    }
}
