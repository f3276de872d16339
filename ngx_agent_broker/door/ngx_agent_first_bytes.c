/*
 * Peeks at the first bytes of a connection (MSG_PEEK) before nginx's HTTP
 * parser reads them:
 *
 *   proxy door   "CONNECT " is answered here, since the parser refuses it;
 *                the first byte after it is treated like a web door's
 *   web door     0x16 begins TLS, anything else is HTTP
 *
 * The bytes after a CONNECT are a tunnel only if the rule has `tunnel`
 * (ngx_agent_tunnel.c); else TLS ends here, and the requests in it are judged
 * one by one.  One side could take a byte that came before the CONNECT was
 * answered for a request, and the other for tunnel content, so it is refused.
 *
 * Sources: RFC 9110 section 9.3.6, RFC 9112 section 3.2.3.
 */


#include "door/ngx_agent_door.h"
#include "parse/connect.h"


#define NGX_AGENT_HEAD_MAX     4096         /* of a CONNECT */

#define NGX_AGENT_TLS_BYTE     0x16         /* RFC 8446 section 5.1 */

#define NGX_AGENT_OPEN         "HTTP/1.1 200 Connection established" CRLF CRLF


static void ngx_agent_first_bytes_wait(ngx_connection_t *c);
static void ngx_agent_first_bytes_read(ngx_event_t *rev);
static void ngx_agent_first_bytes_again(ngx_event_t *rev);
static void ngx_agent_first_bytes_tls(ngx_agent_connection_t *ac);
static void ngx_agent_first_bytes_turn(ngx_event_t *rev);
static void ngx_agent_first_bytes_http(ngx_agent_connection_t *ac,
    ngx_uint_t tls);
static void ngx_agent_first_bytes_connect(ngx_agent_connection_t *ac,
    u_char *head, size_t len, size_t early);
static ngx_agent_reason_e ngx_agent_first_bytes_judge(
    ngx_agent_connection_t *ac, ngx_agent_ctx_t *ctx, u_char *head,
    size_t len, const char **why);
static void ngx_agent_first_bytes_answer(ngx_connection_t *c,
    ngx_agent_reason_e reason, ngx_str_t *body);


void
ngx_agent_first_bytes(ngx_connection_t *c)
{
    c->log->connection = c->number;
    c->log->action = "waiting for a request of a box";

    c->write->handler = ngx_http_empty_handler;

    ngx_agent_first_bytes_wait(c);
}


static void
ngx_agent_first_bytes_wait(ngx_connection_t *c)
{
    ngx_event_t             *rev;
    ngx_agent_connection_t  *ac;

    rev = c->read;
    ac = ngx_agent_task_connection(c);

    rev->handler = ngx_agent_first_bytes_read;

    /* as core does with a connection that has sent nothing */

    ngx_add_timer(rev, ac->door->core->client_header_timeout);
    ngx_reusable_connection(c, 1);

    if (ngx_handle_read_event(rev, 0) != NGX_OK) {
        ngx_http_close_connection(c);
    }
}


static void
ngx_agent_first_bytes_read(ngx_event_t *rev)
{
    u_char                   head[NGX_AGENT_HEAD_MAX];
    size_t                   same, len;
    ssize_t                  n;
    ngx_connection_t        *c;
    ngx_agent_connection_t  *ac;

    c = rev->data;
    ac = ngx_agent_task_connection(c);

    n = c->close ? 0 : recv(c->fd, head, sizeof(head),
                            MSG_PEEK|MSG_DONTWAIT);

    if (n == -1 && ngx_socket_errno == NGX_EAGAIN && !rev->timedout) {
        ngx_agent_first_bytes_again(rev);
        return;
    }

    if (n <= 0) {
        ngx_http_close_connection(c);
        return;
    }

    if (rev->timedout) {
        rev->timedout = 0;

        /* part of a head: core ends it, which writes an audit line */

        ngx_agent_first_bytes_http(ac, 0);
        return;
    }

    if (ac->door->kind == NGX_AGENT_DOOR_WEB || ac->named.host_len) {

        if (head[0] == NGX_AGENT_TLS_BYTE) {
            ngx_agent_first_bytes_tls(ac);

        } else {
            ngx_agent_first_bytes_http(ac, 0);
        }

        return;
    }

    same = ngx_min((size_t) n, CONNECT_METHOD_LEN);

    if (ngx_memcmp(head, CONNECT_METHOD, same) != 0) {
        ngx_agent_first_bytes_http(ac, 0);
        return;
    }

    len = connect_head_length(head, n);

    if (len == 0 && n < (ssize_t) sizeof(head)) {

        if (rev->pending_eof) {
            ngx_agent_first_bytes_http(ac, 0);  /* nothing more is to come */

        } else {
            ngx_agent_first_bytes_again(rev);
        }

        return;
    }

    ngx_agent_first_bytes_connect(ac, head, len ? len : (size_t) n,
                                  len ? n - len : 0);
}


/* Waits for more bytes (events are edge-triggered: only new ones wake us). */

static void
ngx_agent_first_bytes_again(ngx_event_t *rev)
{
    rev->ready = 0;

    if (ngx_handle_read_event(rev, 0) != NGX_OK) {
        ngx_http_close_connection(rev->data);
    }
}


/* A handshake costs CPU: a box that makes many of them has to wait. */

static void
ngx_agent_first_bytes_tls(ngx_agent_connection_t *ac)
{
    ngx_msec_t    wait;
    ngx_event_t  *rev;

    wait = ngx_agent_usage_handshake(ac->task->id);

    if (wait == 0) {
        ngx_agent_first_bytes_http(ac, 1);
        return;
    }

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, ac->connection->log, 0,
                   "agent: handshake waits %M ms", wait);

    rev = ac->connection->read;

    ngx_reusable_connection(ac->connection, 0);

    rev->handler = ngx_agent_first_bytes_turn;
    ngx_add_timer(rev, wait);
}


static void
ngx_agent_first_bytes_turn(ngx_event_t *rev)
{
    if (!rev->timedout) {
        return;                             /* more bytes of the hello */
    }

    rev->timedout = 0;

    ngx_agent_first_bytes_http(ngx_agent_task_connection(rev->data), 1);
}


/* Core takes the connection over, and reads it from its first byte. */

static void
ngx_agent_first_bytes_http(ngx_agent_connection_t *ac, ngx_uint_t tls)
{
    ngx_event_t       *rev;
    ngx_connection_t  *c;

    c = ac->connection;
    rev = c->read;

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, c->log, 0,
                   "agent: first bytes are %s", tls ? "TLS" : "HTTP");

    ngx_reusable_connection(c, 0);

    if (rev->timer_set) {
        ngx_del_timer(rev);
    }

    ac->ls.servers = tls ? &ac->door->tls.port : &ac->door->plain.port;

    rev->ready = 1;

    ngx_http_init_connection(c);
}


static void
ngx_agent_first_bytes_connect(ngx_agent_connection_t *ac, u_char *head,
    size_t len, size_t early)
{
    ngx_str_t            body;
    const char          *why;
    ngx_agent_ctx_t     *ctx;
    ngx_connection_t    *c;
    ngx_agent_reason_e   reason;

    c = ac->connection;
    why = NULL;

    ctx = ngx_agent_decide_begin(c->pool, ac->task);

    if (ctx == NULL) {
        ngx_http_close_connection(c);
        return;
    }

    reason = ngx_agent_first_bytes_judge(ac, ctx, head, len, &why);

    if (reason == NGX_AGENT_REASON_RULE && early) {
        reason = NGX_AGENT_REASON_MALFORMED;
        why = "bytes came before the CONNECT was answered";
    }

    if (reason == NGX_AGENT_REASON_RULE
        && ngx_agent_events_connect(ctx) != NGX_OK)
    {
        reason = NGX_AGENT_REASON_AUDIT;
    }

    ngx_log_debug3(NGX_LOG_DEBUG_HTTP, c->log, 0,
                   "agent: CONNECT \"%s\" port %ui: %s",
                   ctx->target.authority.host,
                   (ngx_uint_t) ctx->target.authority.port,
                   ngx_agent_reason(reason)->word);

    if (reason != NGX_AGENT_REASON_RULE) {

        if (ngx_agent_refuse_record(c->pool, ctx, reason, why, &body)
            != NGX_OK)
        {
            ngx_http_close_connection(c);
            return;
        }

        ngx_agent_first_bytes_answer(c, reason, &body);
        return;
    }

    /*
     * Reads exactly the head: the bytes after it are the tunnel's.  The answer
     * fits the send buffer of a connection that has sent nothing yet.
     */

    if (recv(c->fd, head, len, MSG_DONTWAIT) != (ssize_t) len
        || c->send(c, (u_char *) NGX_AGENT_OPEN, sizeof(NGX_AGENT_OPEN) - 1)
           != (ssize_t) sizeof(NGX_AGENT_OPEN) - 1)
    {
        ngx_http_close_connection(c);
        return;
    }

    ac->named = ctx->target.authority;

    if (ctx->rule->tunnel) {
        ngx_agent_tunnel(ac, ctx);
        return;
    }

    c->read->ready = 0;
    ngx_agent_first_bytes_wait(c);
}


static ngx_agent_reason_e
ngx_agent_first_bytes_judge(ngx_agent_connection_t *ac, ngx_agent_ctx_t *ctx,
    u_char *head, size_t len, const char **why)
{
    connect_t            request;
    connect_error_t      err;
    ngx_agent_reason_e   reason;

    reason = ngx_agent_decide_load(ac->connection->pool, ac->connection->log,
                                   ctx);

    err = connect_parse(head, len, &request, why);

    ctx->tls = 1;
    ctx->line.data = (u_char *) request.line;
    ctx->line.len = request.line_len;
    ctx->host.data = (u_char *) request.host;
    ctx->host.len = request.host_len;

    ctx->target.authority = request.authority;
    ctx->target.method = (u_char *) "CONNECT";
    ctx->target.method_len = sizeof("CONNECT") - 1;
    ctx->target.https = true;

    if (err != CONNECT_OK) {
        return err == CONNECT_MISMATCH ? NGX_AGENT_REASON_MISMATCH
                                       : NGX_AGENT_REASON_MALFORMED;
    }

    *why = NULL;

    if (reason != NGX_AGENT_REASON_RULE) {
        return reason;
    }

    return ngx_agent_decide_find(ctx->policy, &request.authority, &ctx->rule);
}


static void
ngx_agent_first_bytes_answer(ngx_connection_t *c, ngx_agent_reason_e reason,
    ngx_str_t *body)
{
    u_char      *p, *last, *text, drain[NGX_AGENT_HEAD_MAX];
    size_t       size;
    ngx_uint_t   status;

    status = ngx_agent_reason(reason)->status;
    size = body->len + 512;

    text = ngx_pnalloc(c->pool, size);

    if (text) {
        last = text + size;

        p = ngx_slprintf(text, last,
                         "HTTP/1.1 %ui %s" CRLF
                         "Content-Type: application/json" CRLF
                         "Content-Length: %uz" CRLF
                         "X-Agent-Broker: %s" CRLF
                         "Connection: close" CRLF CRLF "%V",
                         status, status == 403 ? "Forbidden"
                                 : status == 400 ? "Bad Request"
                                 : status == 503 ? "Service Unavailable"
                                                 : "Internal Server Error",
                         body->len, status == 403 ? "denied" : "failed",
                         body);

        /*
         * The peeked bytes are read first: closing a socket with unread bytes
         * resets it, and the client would not see the answer.
         */

        (void) recv(c->fd, drain, sizeof(drain), MSG_DONTWAIT);
        (void) c->send(c, text, p - text);
        (void) shutdown(c->fd, SHUT_WR);
    }

    ngx_http_close_connection(c);
}
