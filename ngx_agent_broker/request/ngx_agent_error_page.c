/*
 * Replaces core's own error pages, which are sent when an allowed request
 * failed, or when the bytes from the box were not a request.  Core's page of
 * HTML has nothing to act on; a box gets a JSON object like a refusal's, marked
 * X-Agent-Broker.  An upstream's answers pass untouched, its errors too: only
 * core's own pages have an err_status.
 */


#include "request/ngx_agent_request.h"


static ngx_int_t ngx_agent_error_page_filter(ngx_http_request_t *r,
    ngx_chain_t *in);


static ngx_http_output_body_filter_pt  ngx_http_next_body_filter;


void
ngx_agent_error_page_init(void)
{
    ngx_http_next_body_filter = ngx_http_top_body_filter;
    ngx_http_top_body_filter = ngx_agent_error_page_filter;
}


/*
 * Called by the header filter, before the header is made.  Nothing that an
 * upstream sent remains in it, even if part of an answer had come.
 */

ngx_int_t
ngx_agent_error_page(ngx_http_request_t *r)
{
    ngx_uint_t           status;
    ngx_agent_ctx_t     *ctx;
    ngx_agent_reason_e   reason;

    ctx = ngx_http_get_module_ctx(r, ngx_agent_broker_module);

    if (ctx == NULL) {

        ctx = ngx_pcalloc(r->pool, sizeof(ngx_agent_ctx_t));
        if (ctx == NULL) {
            return NGX_ERROR;
        }

        ctx->task = ngx_agent_task_of(r->connection);

        ngx_http_set_ctx(r, ctx, ngx_agent_broker_module);
    }

    status = r->err_status;
    reason = ngx_agent_events_reason(r);

    if (ctx->state == NGX_AGENT_ALLOWED) {

        /* the failure is more precise than core's status */

        if (ctx->failure) {
            reason = ctx->failure;
            status = ngx_agent_reason(reason)->status;

        } else {
            ctx->failure = reason;
        }
    }

    if (ngx_agent_refuse_body(r->pool, ctx, reason,
                              ngx_agent_reason(reason)->hint, &ctx->page)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "agent: error page, status %ui: %s", status,
                   ngx_agent_reason(reason)->word);

    ngx_http_clean_header(r);

    if (ngx_agent_refuse_mark(r, ngx_agent_reason(reason)->outcome)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    r->err_status = status;

    if (ngx_agent_flow_box(r) != NGX_OK) {
        return NGX_ERROR;
    }

    /* core closes the connection if a body is unread: announce it */

    if (r->reading_body) {
        r->keepalive = 0;
    }

    r->headers_out.status = status;
    r->headers_out.content_length_n = ctx->page.len;
    ngx_str_set(&r->headers_out.content_type, "application/json");
    r->headers_out.content_type_len = r->headers_out.content_type.len;
    r->headers_out.content_type_lowcase = NULL;

    return NGX_OK;
}


static ngx_int_t
ngx_agent_error_page_filter(ngx_http_request_t *r, ngx_chain_t *in)
{
    ngx_buf_t        *b;
    ngx_chain_t       out;
    ngx_agent_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_agent_broker_module);

    if (in == NULL || ctx == NULL || ctx->page.len == 0) {
        return ngx_http_next_body_filter(r, in);
    }

    b = ngx_calloc_buf(r->pool);
    if (b == NULL) {
        return NGX_ERROR;
    }

    b->start = b->pos = ctx->page.data;
    b->end = b->last = b->pos + ctx->page.len;
    b->memory = 1;
    b->last_buf = (r == r->main);
    b->last_in_chain = 1;

    ctx->page.len = 0;                      /* it is sent only once */

    out.buf = b;
    out.next = NULL;

    return ngx_http_next_body_filter(r, &out);
}
