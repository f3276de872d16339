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
#define NGX_AGENT_FLOW_PROBE      1000      /* ms after the end of a request */
#define NGX_AGENT_FLOW_PROBE_NEXT  15000    /* ms after that */


static ssize_t ngx_agent_flow_box_recv(ngx_connection_t *c, u_char *buf,
    size_t size);
static ngx_uint_t ngx_agent_flow_is_over(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx);
static void ngx_agent_flow_watched(ngx_http_request_t *r);
static void ngx_agent_flow_probe(ngx_event_t *ev);
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

    /* else the end of what it sends is the end of a box's request */

    ucf->ignore_client_abort = 1;
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

    if (ac->probe.timer_set) {
        ngx_del_timer(&ac->probe);
    }
}


void
ngx_agent_flow_watch(ngx_http_request_t *r)
{
    ngx_connection_t  *c;

    c = r->connection;

    if (r->read_event_handler != ngx_agent_flow_watched) {
        r->read_event_handler = ngx_agent_flow_watched;

        if (c->read->ready && r->stream == NULL) {
            ngx_post_event(c->read, &ngx_posted_events);
        }
    }
}


/*
 * The end of what a box sends may be the end of its request (a half-close), or
 * of the client: only what is sent to it shows which.  While the request waits
 * for a decision, and a second after it was sent on, that is an interim answer.
 */

static void
ngx_agent_flow_watched(ngx_http_request_t *r)
{
    int                      err;
    socklen_t                len;
    ngx_agent_ctx_t         *ctx;
    ngx_connection_t        *c;
    ngx_agent_connection_t  *ac;

    c = r->connection;
    ctx = ngx_http_get_module_ctx(r, ngx_agent_broker_module);

    if (!c->error) {

        if (r->stream) {
            return;
        }

        if (!c->read->pending_eof) {
            return;
        }

        ac = ngx_agent_task_connection(c);

        /* recv() would say nothing of an error that came after the end */

        err = 0;
        len = sizeof(int);

        if (!ac->task->ended
            && getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len) == 0
            && err == 0 && ngx_agent_flow_box(r) == NGX_OK)
        {
            if (!ac->probe.timer_set) {
                ac->probe.handler = ngx_agent_flow_probe;
                ac->probe.data = c;
                ac->probe.log = c->log;

                /* before anything is dialled it is worth an answer at once */

                ngx_add_timer(&ac->probe,
                              ctx && ctx->state == NGX_AGENT_ALLOWED
                              ? NGX_AGENT_FLOW_PROBE : 1);
            }

            return;
        }

        c->error = 1;
        c->read->eof = 1;

        if (c->ssl) {
            c->ssl->no_send_shutdown = 1;
        }
    }

    ngx_log_error(NGX_LOG_INFO, c->log, 0,
                  "client prematurely closed connection");

    r->main->count++;                       /* the upstream's end takes one */

    ngx_http_finalize_request(r, ctx && ctx->state == NGX_AGENT_ALLOWED
                                 ? NGX_HTTP_CLIENT_CLOSED_REQUEST : 0);
}


/* A client that is gone resets the connection for it. */

static void
ngx_agent_flow_probe(ngx_event_t *ev)
{
    ngx_str_t                interim;
    ngx_connection_t        *c;
    ngx_http_request_t      *r;
    ngx_agent_connection_t  *ac;

    c = ev->data;
    ac = ngx_agent_task_connection(c);
    r = ac->http;

    if (r->header_sent || r->http_version < NGX_HTTP_VERSION_11) {
        return;
    }

    ngx_str_set(&interim, "HTTP/1.1 100 Continue" CRLF CRLF);

    if (c->send(c, interim.data, interim.len) != (ssize_t) interim.len) {
        c->error = 1;
        ngx_post_event(c->read, &ngx_posted_events);
        return;
    }

    ngx_add_timer(ev, NGX_AGENT_FLOW_PROBE_NEXT);
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
