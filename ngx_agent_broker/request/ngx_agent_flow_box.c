/*
 * Reads a request's body from the box, over HTTP/1, by a function in the place
 * of its connection's recv(): the framing of a chunked body is followed, and
 * what core reads only to discard it, after the answer, is bounded.  HTTP/2
 * bounds both by its windows.
 */


#include "request/ngx_agent_request.h"


#define NGX_AGENT_FLOW_REST       1048576   /* read of a body that is over */
#define NGX_AGENT_FLOW_REST_TIME  1000      /* ms, the same */
#define NGX_AGENT_FLOW_AGAIN      20        /* ms */


static ssize_t ngx_agent_flow_box_recv(ngx_connection_t *c, u_char *buf,
    size_t size);
static ngx_uint_t ngx_agent_flow_is_over(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx);
static void ngx_agent_flow_box_again(ngx_event_t *ev);
static void ngx_agent_flow_box_cleanup(void *data);


void
ngx_agent_flow_location(ngx_http_core_loc_conf_t *clcf,
    ngx_http_upstream_conf_t *ucf)
{
    clcf->lingering_time = 2 * NGX_AGENT_FLOW_REST_TIME;    /* by seconds */
    clcf->lingering_timeout = NGX_AGENT_FLOW_REST_TIME;

    /* else a body is no longer sent once its answer has begun */

    ucf->preserve_output = 1;
}


ngx_int_t
ngx_agent_flow_box(ngx_http_request_t *r)
{
    ngx_connection_t        *c;
    ngx_pool_cleanup_t      *cln;
    ngx_agent_connection_t  *ac;

    c = r->connection;

    if (r->stream) {
        return NGX_OK;
    }

    ac = ngx_agent_task_connection(c);

    if (ac->http != r) {

        cln = ngx_pool_cleanup_add(r->pool, 0);
        if (cln == NULL) {
            return NGX_ERROR;
        }

        cln->handler = ngx_agent_flow_box_cleanup;
        cln->data = ac;

        ac->http = r;
        ac->discarded = 0;
    }

    if (c->recv != ngx_agent_flow_box_recv) {
        ac->recv = c->recv;
        c->recv = ngx_agent_flow_box_recv;
    }

    /* before core discards what follows, it ends TLS and takes recv() back */

    if (c->ssl && ngx_agent_flow_is_over(r, ngx_http_get_module_ctx(r,
                                                   ngx_agent_broker_module))
        && !ac->again.timer_set)
    {
        ac->again.handler = ngx_agent_flow_box_again;
        ac->again.data = c;
        ac->again.log = c->log;
        ac->again.cancelable = 1;

        ngx_post_event(&ac->again, &ngx_posted_events);
    }

    return NGX_OK;
}


static void
ngx_agent_flow_box_again(ngx_event_t *ev)
{
    ngx_connection_t        *c;
    ngx_agent_connection_t  *ac;

    c = ev->data;
    ac = ngx_agent_task_connection(c);

    if (c->recv == ngx_agent_flow_box_recv) {
        ngx_add_timer(ev, NGX_AGENT_FLOW_AGAIN);
        return;
    }

    ac->recv = c->recv;
    c->recv = ngx_agent_flow_box_recv;
}


static void
ngx_agent_flow_box_cleanup(void *data)
{
    ngx_agent_connection_t *ac = data;

    ac->http = NULL;

    if (ac->again.posted) {
        ngx_delete_posted_event(&ac->again);
    }

    if (ac->again.timer_set) {
        ngx_del_timer(&ac->again);
    }
}


/* Reads from the box, over HTTP/1. */

static ssize_t
ngx_agent_flow_box_recv(ngx_connection_t *c, u_char *buf, size_t size)
{
    ssize_t                  n;
    ngx_uint_t               is_over;
    ngx_agent_ctx_t         *ctx;
    ngx_http_request_t      *r;
    ngx_agent_connection_t  *ac;

    ac = ngx_agent_task_connection(c);
    r = ac->http;

    if (r == NULL) {
        return ac->recv(c, buf, size);
    }

    ctx = ngx_http_get_module_ctx(r, ngx_agent_broker_module);

    is_over = ngx_agent_flow_is_over(r, ctx);

    if (is_over) {

        if (ac->discarded == 0) {
            ac->discarding = ngx_current_msec;
        }

        if (ac->discarded >= NGX_AGENT_FLOW_REST
            || ngx_current_msec - ac->discarding > NGX_AGENT_FLOW_REST_TIME)
        {
            c->read->ready = 0;
            c->read->eof = 1;
            return 0;
        }

        size = ngx_min(size, NGX_AGENT_FLOW_REST - ac->discarded);
    }

    n = ac->recv(c, buf, size);

    if (n <= 0) {
        return n;
    }

    if (is_over) {
        ac->discarded += n;

        if (ctx) {
            ctx->flow.discarded = ac->discarded;
        }

    } else if (ctx && ctx->flow.chunked
               && chunk_follow(&ctx->flow.chunk, buf, n) == CHUNK_MALFORMED)
    {
        ctx->flow.malformed = 1;
    }

    return n;
}


/* Is what the box sends now only discarded? */

static ngx_uint_t
ngx_agent_flow_is_over(ngx_http_request_t *r, ngx_agent_ctx_t *ctx)
{
    return ctx == NULL || ctx->flow.over || ctx->state == NGX_AGENT_REFUSED
           || r->err_status || r->discard_body || r->lingering_time;
}
