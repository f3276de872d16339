/*
 * An upstream's answer, before nginx's proxy reads it.
 *
 * The proxy of nginx 1.22 takes an interim answer for the last one, and other
 * bytes for the body of an answer without a head.  Its process_header is called
 * from here instead, when there is a whole head that answer_read() takes.  The
 * chunks of a body are followed beside the proxy's parser, which takes a bare
 * LF, and loses the head of an answer whose first chunk is not valid.
 */


#include "request/ngx_agent_request.h"

#include <openssl/sha.h>


#define NGX_AGENT_INTERIM_MAX    16         /* answers before the last one */
#define NGX_AGENT_INTERIM_BYTES  65536

#define NGX_AGENT_ACCEPT_LEN     28         /* SHA-1 as base64 */


static ngx_int_t ngx_agent_answer_header(ngx_http_request_t *r);
static ngx_int_t ngx_agent_answer_reinit(ngx_http_request_t *r);
static ngx_int_t ngx_agent_answer_skip(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx);
static const char *ngx_agent_answer_switch(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx);
static ngx_uint_t ngx_agent_answer_proves_key(ngx_http_request_t *r,
    answer_t *answer);
static ngx_int_t ngx_agent_answer_body_init(void *data);
static ngx_int_t ngx_agent_answer_chunks(void *data, ssize_t bytes);
static ngx_int_t ngx_agent_answer_bad(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx, const char *why);


void
ngx_agent_answer_init(ngx_http_request_t *r, ngx_agent_ctx_t *ctx)
{
    ngx_http_upstream_t  *u;

    u = r->upstream;

    ctx->process_header = u->process_header;
    ctx->reinit_request = u->reinit_request;

    u->process_header = ngx_agent_answer_header;
    u->reinit_request = ngx_agent_answer_reinit;

    ctx->body_init = u->input_filter_init;
    u->input_filter_init = ngx_agent_answer_body_init;
}


/* Before a request is sent a second time: nothing of an answer has come. */

static ngx_int_t
ngx_agent_answer_reinit(ngx_http_request_t *r)
{
    ngx_int_t         rc;
    ngx_agent_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_agent_broker_module);

    rc = ctx->reinit_request(r);

    ngx_memzero(&ctx->answer, sizeof(answer_t));
    r->upstream->process_header = ngx_agent_answer_header;

    return rc;
}


static ngx_int_t
ngx_agent_answer_header(ngx_http_request_t *r)
{
    ngx_int_t             rc;
    ngx_buf_t            *b;
    const char           *why;
    ngx_agent_ctx_t      *ctx;
    ngx_http_upstream_t  *u;

    u = r->upstream;
    b = &u->buffer;
    ctx = ngx_http_get_module_ctx(r, ngx_agent_broker_module);

    while (b->pos < b->last) {

        switch (answer_read(b->pos, b->last - b->pos, &ctx->answer)) {

        case ANSWER_MORE:
            return b->last < b->end
                   ? NGX_AGAIN
                   : ngx_agent_answer_bad(r, ctx, "its head is too long");

        case ANSWER_BAD:
            return ngx_agent_answer_bad(r, ctx, ctx->answer.why);

        case ANSWER_DONE:
            break;
        }

        if (ctx->answer.status == NGX_HTTP_SWITCHING_PROTOCOLS) {

            why = ngx_agent_answer_switch(r, ctx);
            if (why) {
                return ngx_agent_answer_bad(r, ctx, why);
            }

        } else if (ctx->answer.status < NGX_HTTP_OK) {

            if (ngx_agent_answer_skip(r, ctx) != NGX_OK) {
                return ngx_agent_answer_bad(r, ctx,
                                            "it has too many interim answers");
            }

            continue;
        }

        rc = ctx->process_header(r);

        if (rc == NGX_AGAIN || rc == NGX_HTTP_UPSTREAM_INVALID_HEADER) {
            return ngx_agent_answer_bad(r, ctx, "its head is not valid");
        }

        /* bytes after an answer that ends with its head belong to none */

        if (rc == NGX_OK && u->keepalive && b->pos < b->last) {
            ctx->spent = 1;
        }

        return rc;
    }

    return NGX_AGAIN;
}


/* Takes an interim answer out of the buffer. */

static ngx_int_t
ngx_agent_answer_skip(ngx_http_request_t *r, ngx_agent_ctx_t *ctx)
{
    ngx_buf_t  *b;

    b = &r->upstream->buffer;

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "agent: interim answer %ui of %uz bytes skipped",
                   (ngx_uint_t) ctx->answer.status, ctx->answer.at);

    ctx->interim++;
    ctx->interim_bytes += ctx->answer.at;

    b->last = ngx_movemem(b->pos, b->pos + ctx->answer.at,
                          b->last - b->pos - ctx->answer.at);

    ngx_memzero(&ctx->answer, sizeof(answer_t));

    return ctx->interim <= NGX_AGENT_INTERIM_MAX
           && ctx->interim_bytes <= NGX_AGENT_INTERIM_BYTES
           ? NGX_OK : NGX_DECLINED;
}


/* NULL, or why this is not the switch that was asked for: RFC 6455, 4.1. */

static const char *
ngx_agent_answer_switch(ngx_http_request_t *r, ngx_agent_ctx_t *ctx)
{
    answer_t  *a;

    a = &ctx->answer;

    if (!ctx->websocket) {
        return "it switches protocols, which was not asked for";
    }

    if (!a->upgrade || a->upgrades != 1 || !a->websocket) {
        return "it switches to another protocol than was asked for";
    }

    if (a->accepts != 1 || !ngx_agent_answer_proves_key(r, a)) {
        return "its Sec-WebSocket-Accept does not fit the request";
    }

    return a->chunked || a->has_length
           ? "it switches protocols and has a body" : NULL;
}


static ngx_uint_t
ngx_agent_answer_proves_key(ngx_http_request_t *r, answer_t *answer)
{
    u_char           *p, text[64], digest[SHA_DIGEST_LENGTH];
    u_char            accept[ngx_base64_encoded_length(SHA_DIGEST_LENGTH)];
    ngx_str_t         from, to;
    ngx_table_elt_t  *key;

    static u_char  guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

    key = ngx_agent_headers_find(r, "sec-websocket-key");

    /* 16 bytes as base64 */

    if (key == NULL || key->value.len != 24
        || answer->accept_len != NGX_AGENT_ACCEPT_LEN)
    {
        return 0;
    }

    p = ngx_cpymem(text, key->value.data, key->value.len);
    p = ngx_cpymem(p, guid, sizeof(guid) - 1);

    SHA1(text, p - text, digest);

    from.data = digest;
    from.len = sizeof(digest);
    to.data = accept;

    ngx_encode_base64(&to, &from);

    return ngx_memcmp(accept, answer->accept, NGX_AGENT_ACCEPT_LEN) == 0;
}


/* The head has been passed on, and the body begins. */

static ngx_int_t
ngx_agent_answer_body_init(void *data)
{
    ngx_http_request_t *r = data;

    ngx_int_t             rc;
    ngx_agent_ctx_t      *ctx;
    ngx_http_upstream_t  *u;

    u = r->upstream;
    ctx = ngx_http_get_module_ctx(r, ngx_agent_broker_module);

    rc = ctx->body_init(data);

    if (rc == NGX_OK && ctx->answer.chunked && u->length != 0) {
        ctx->body = u->input_filter;
        u->input_filter = ngx_agent_answer_chunks;
    }

    return rc;
}


/*
 * The bytes are behind the buffer's last.  After an error the body is cut, and
 * what came before is passed on.
 */

static ngx_int_t
ngx_agent_answer_chunks(void *data, ssize_t bytes)
{
    ngx_http_request_t *r = data;

    ngx_int_t             rc;
    chunk_result_t        result;
    ngx_agent_ctx_t      *ctx;
    ngx_http_upstream_t  *u;

    u = r->upstream;
    ctx = ngx_http_get_module_ctx(r, ngx_agent_broker_module);

    result = chunk_follow(&ctx->chunks, u->buffer.last, bytes);

    rc = ctx->body(data, bytes);

    if (result != CHUNK_MALFORMED && rc == NGX_OK) {
        return NGX_OK;
    }

    (void) ngx_agent_answer_bad(r, ctx, "a chunk of its body is not valid");

    u->keepalive = 0;
    u->length = 1;                          /* it has no end */
    u->error = 1;

    return NGX_OK;
}


static ngx_int_t
ngx_agent_answer_bad(ngx_http_request_t *r, ngx_agent_ctx_t *ctx,
    const char *why)
{
    ctx->failure = NGX_AGENT_REASON_BAD_ANSWER;
    ctx->why = why;

    ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                  "upstream sent no valid answer: %s", why);

    return NGX_HTTP_UPSTREAM_INVALID_HEADER;
}
