/*
 * Reads from an upstream and sends to it, by functions in the place of its
 * connection's recv() and send(), which count before bytes pass.
 *
 * An upstream may answer before it has the whole body, and close.  Then sending
 * fails while the answer can still be read: the error ends the sending, and the
 * reading of the box's body, but not the request.
 */


#include "request/ngx_agent_request.h"


static ngx_int_t ngx_agent_flow_output(void *data, ngx_chain_t *in);
static ngx_agent_ctx_t *ngx_agent_flow_ctx(ngx_connection_t *c);
static ssize_t ngx_agent_flow_recv(ngx_connection_t *c, u_char *buf,
    size_t size);
static void ngx_agent_flow_stopped(ngx_http_request_t *r);
static void ngx_agent_flow_nothing(ngx_http_request_t *r,
    ngx_http_upstream_t *u);
static ssize_t ngx_agent_flow_send(ngx_connection_t *c, u_char *buf,
    size_t size);
static ngx_chain_t *ngx_agent_flow_send_chain(ngx_connection_t *c,
    ngx_chain_t *in, off_t limit);
static void ngx_agent_flow_finalize(ngx_http_request_t *r, ngx_int_t rc);


void
ngx_agent_flow_upstream(ngx_http_request_t *r, ngx_agent_ctx_t *ctx)
{
    ngx_http_upstream_t  *u;

    u = r->upstream;

    ctx->flow.output = u->output.output_filter;
    ctx->flow.output_data = u->output.filter_ctx;

    u->output.output_filter = ngx_agent_flow_output;
    u->output.filter_ctx = r;

    ctx->flow.finalize = u->finalize_request;
    u->finalize_request = ngx_agent_flow_finalize;

    ctx->flow.read = r->request_length;

    if (!r->reading_body) {
        ngx_agent_flow_watch(r);
    }
}


/* The upstream is connected, its TLS is established: watches it from now on. */

static ngx_int_t
ngx_agent_flow_output(void *data, ngx_chain_t *in)
{
    ngx_http_request_t *r = data;

    ngx_agent_ctx_t   *ctx;
    ngx_connection_t  *c;

    c = r->upstream->peer.connection;
    ctx = ngx_http_get_module_ctx(r, ngx_agent_broker_module);

    c->recv = ngx_agent_flow_recv;
    c->send = ngx_agent_flow_send;
    c->send_chain = ngx_agent_flow_send_chain;

    if (!r->reading_body && !ctx->flow.stopped) {
        ngx_agent_flow_watch(r);
    }

    return ctx->flow.output(ctx->flow.output_data, in);
}


/* NULL, where the connection is kept for a later request. */

static ngx_agent_ctx_t *
ngx_agent_flow_ctx(ngx_connection_t *c)
{
    ngx_http_request_t *r = c->data;

    return (c->idle || r == NULL)
           ? NULL : ngx_http_get_module_ctx(r, ngx_agent_broker_module);
}


static ssize_t
ngx_agent_flow_recv(ngx_connection_t *c, u_char *buf, size_t size)
{
    ssize_t           n;
    ngx_agent_ctx_t  *ctx;

    ctx = ngx_agent_flow_ctx(c);

    if (ctx) {

        if (ctx->flow.stopped) {
            ngx_agent_flow_stopped(ctx->http);
        }

        if (!ctx->flow.cut) {
            size = ngx_agent_flow_room(ctx, BOUND_BYTES_DOWN, size);

            if (size == 0) {
                ngx_agent_flow_cut(ctx, NGX_AGENT_REASON_BYTES_DOWN);
            }
        }

        if (ctx->flow.cut) {
            c->read->ready = 0;
            c->read->error = 1;
            return NGX_ERROR;
        }
    }

    n = c->ssl ? ngx_ssl_recv(c, buf, size) : ngx_recv(c, buf, size);

    if (ctx && n > 0) {
        ctx->flow.received += n;
        ctx->live.active = ngx_current_msec;
    }

    return n;
}


/* Nothing can be sent any more: only the answer is waited for. */

static void
ngx_agent_flow_stopped(ngx_http_request_t *r)
{
    ngx_connection_t     *c;
    ngx_http_upstream_t  *u;

    u = r->upstream;
    c = u->peer.connection;

    r->read_event_handler = ngx_http_block_reading;
    u->write_event_handler = ngx_agent_flow_nothing;

    if (c->write->timer_set) {
        ngx_del_timer(c->write);
    }

    if (!c->read->timer_set) {
        ngx_add_timer(c->read, u->conf->read_timeout);
    }
}


static void
ngx_agent_flow_nothing(ngx_http_request_t *r, ngx_http_upstream_t *u)
{
}


/* After an upgrade. */

static ssize_t
ngx_agent_flow_send(ngx_connection_t *c, u_char *buf, size_t size)
{
    ssize_t           n;
    ngx_agent_ctx_t  *ctx;

    ctx = ngx_agent_flow_ctx(c);

    if (ctx) {

        if (!ctx->flow.cut) {
            size = ngx_agent_flow_room(ctx, BOUND_BYTES_UP, size);

            if (size == 0) {
                ngx_agent_flow_cut(ctx, NGX_AGENT_REASON_BYTES_UP);
            }
        }

        if (ctx->flow.cut) {
            return NGX_ERROR;
        }
    }

    n = c->ssl ? ngx_ssl_write(c, buf, size) : ngx_send(c, buf, size);

    if (ctx && n > 0) {
        ctx->flow.sent += n;
        ctx->live.active = ngx_current_msec;

        if (c->write->ready) {

            /* core takes less than all for a socket that is full */

            ngx_post_event(c->write, &ngx_posted_next_events);
        }
    }

    return n;
}


static ngx_chain_t *
ngx_agent_flow_send_chain(ngx_connection_t *c, ngx_chain_t *in, off_t limit)
{
    uint64_t              size;
    ngx_chain_t          *out;
    ngx_agent_ctx_t      *ctx;

    ctx = ngx_agent_flow_ctx(c);

    size = 0;

    if (ctx) {

        if (ctx->flow.stopped) {
            goto stopped;
        }

        size = ngx_agent_flow_size(in);

        if (!ctx->flow.cut
            && ngx_agent_flow_up(ctx, ctx->flow.sent + size) != NGX_OK)
        {
            ngx_agent_flow_cut(ctx, NGX_AGENT_REASON_BYTES_UP);
        }

        if (ctx->flow.cut) {
            return NGX_CHAIN_ERROR;
        }
    }

    out = c->ssl ? ngx_ssl_send_chain(c, in, limit)
                 : ngx_send_chain(c, in, limit);

    if (ctx == NULL) {
        return out;
    }

    if (out != NGX_CHAIN_ERROR) {
        ctx->flow.sent += size - ngx_agent_flow_size(out);
        return out;
    }

    if (c->sent == 0) {
        return out;                         /* a kept connection was closed */
    }

    ngx_log_debug0(NGX_LOG_DEBUG_HTTP, c->log, 0,
                   "agent: upstream takes no more, its answer is read");

    ctx->flow.stopped = 1;

stopped:

    /* what is there to be read decides, at the end of this pass */

    c->write->ready = 0;
    c->write->error = 1;
    c->read->ready = 1;

    /* what TLS had taken already */

    while (in && ngx_buf_size(in->buf) == 0 && !ngx_buf_special(in->buf)) {
        in = in->next;
    }

    return in;
}


/* The answer is complete, or will never be. */

static void
ngx_agent_flow_finalize(ngx_http_request_t *r, ngx_int_t rc)
{
    ngx_agent_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_agent_broker_module);

    ctx->flow.over = 1;

    if (r->reading_body || !r->keepalive) {
        (void) ngx_agent_flow_box(r);
    }

    ctx->flow.finalize(r, rc);
}
