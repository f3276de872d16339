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
#define NGX_AGENT_DRAIN_MAX    (1024 * 1024)  /* read before a last answer */

#define NGX_AGENT_TLS_BYTE     0x16         /* RFC 8446 section 5.1 */

#define NGX_AGENT_OPEN         "HTTP/1.1 200 Connection established" CRLF CRLF


static void ngx_agent_first_bytes_wait(ngx_connection_t *c);
static void ngx_agent_first_bytes_read(ngx_event_t *rev);
static void ngx_agent_first_bytes_again(ngx_event_t *rev, ngx_uint_t begun);
static void ngx_agent_first_bytes_tls(ngx_agent_connection_t *ac);
static void ngx_agent_first_bytes_waited(ngx_agent_wait_t *w);
static void ngx_agent_first_bytes_waiting(ngx_event_t *rev);
static void ngx_agent_first_bytes_alert(ngx_agent_connection_t *ac,
    ngx_agent_reason_e reason);
static void ngx_agent_first_bytes_target(ngx_agent_ctx_t *ctx, u_char *head,
    size_t len);
static void ngx_agent_first_bytes_http(ngx_agent_connection_t *ac,
    ngx_uint_t tls);
static void ngx_agent_first_bytes_connect(ngx_agent_connection_t *ac,
    u_char *head, size_t len, size_t early);
static ngx_agent_reason_e ngx_agent_first_bytes_judge(
    ngx_agent_connection_t *ac, ngx_agent_ctx_t *ctx, u_char *head,
    size_t len, const char **why);
static void ngx_agent_first_bytes_answer(ngx_connection_t *c,
    ngx_agent_ctx_t *ctx, ngx_str_t *body);
static void ngx_agent_first_bytes_end(ngx_connection_t *c, const u_char *text,
    size_t len);


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
        ngx_agent_first_bytes_again(rev, 0);
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
            ngx_agent_first_bytes_again(rev, 1);
        }

        return;
    }

    ngx_agent_first_bytes_connect(ac, head, len ? len : (size_t) n,
                                  len ? n - len : 0);
}


/*
 * Waits for more bytes (events are edge-triggered: only new ones wake us).
 * Once some have come, the connection is not idle.
 */

static void
ngx_agent_first_bytes_again(ngx_event_t *rev, ngx_uint_t begun)
{
    rev->ready = 0;

    ngx_reusable_connection((ngx_connection_t *) rev->data, !begun);

    if (ngx_handle_read_event(rev, 0) != NGX_OK) {
        ngx_http_close_connection(rev->data);
    }
}


/* A handshake costs CPU: a box that makes many of them has to wait. */

static void
ngx_agent_first_bytes_tls(ngx_agent_connection_t *ac)
{
    ngx_event_t  *rev;

    ac->wait.handler = ngx_agent_first_bytes_waited;
    ac->wait.data = ac;

    if (ngx_agent_wait(&ac->wait, ac->task, NGX_AGENT_WAIT_HANDSHAKE,
                       NGX_AGENT_WAIT_MAX - ac->waited)
        == NGX_OK)
    {
        ngx_agent_first_bytes_http(ac, 1);
        return;
    }

    rev = ac->connection->read;

    ngx_reusable_connection(ac->connection, 0);

    if (rev->timer_set) {
        ngx_del_timer(rev);
    }

    rev->handler = ngx_agent_first_bytes_waiting;
}


/* More bytes of the hello, which is still only peeked at. */

static void
ngx_agent_first_bytes_waiting(ngx_event_t *rev)
{
    /* void */
}


static void
ngx_agent_first_bytes_waited(ngx_agent_wait_t *w)
{
    ngx_agent_connection_t  *ac;

    ac = w->data;

    if (w->rc != NGX_OK) {
        ngx_agent_first_bytes_alert(ac, ngx_agent_wait_reason(w));
        return;
    }

    ac->waited += ngx_current_msec - w->began;

    ngx_agent_first_bytes_http(ac, 1);
}


/* TLS has no answer with a reason before it has begun. */

static void
ngx_agent_first_bytes_alert(ngx_agent_connection_t *ac,
    ngx_agent_reason_e reason)
{
    ngx_connection_t  *c;

    /* fatal, access_denied: RFC 8446 section 6 */

    static const u_char  alert[] = { 21, 3, 3, 0, 2, 2, 49 };

    c = ac->connection;

    ngx_agent_counted(ac->task->id,
                      reason == NGX_AGENT_REASON_RATE
                      ? NGX_AGENT_COUNTED_RATE
                      : reason == NGX_AGENT_REASON_CONNECTIONS
                        ? NGX_AGENT_COUNTED_CONNECTIONS
                        : NGX_AGENT_COUNTED_HANDSHAKES,
                      ac->named.host, ac->named.host_len);

    ngx_agent_first_bytes_end(c, alert, sizeof(alert));
}


void
ngx_agent_first_bytes_late(ngx_agent_connection_t *ac,
    ngx_agent_reason_e reason)
{
    u_char             head[NGX_AGENT_HEAD_MAX];
    ssize_t            n;
    ngx_str_t          body;
    ngx_agent_ctx_t   *ctx;
    ngx_connection_t  *c;

    c = ac->connection;

    n = recv(c->fd, head, sizeof(head), MSG_PEEK|MSG_DONTWAIT);

    if (n <= 0) {
        ngx_http_close_connection(c);       /* nothing was asked for */
        return;
    }

    if (ac->door->kind == NGX_AGENT_DOOR_DNS_TCP
        || (ac->door->kind == NGX_AGENT_DOOR_WEB
            && head[0] == NGX_AGENT_TLS_BYTE))
    {
        ngx_agent_first_bytes_alert(ac, reason);
        return;
    }

    ctx = ngx_agent_judge_begin(c->pool, ac->task);

    if (ctx) {
        ngx_agent_first_bytes_target(ctx, head, n);
    }

    if (ctx == NULL
        || ngx_agent_refuse_record(c->pool, ctx, reason, NULL, &body)
           != NGX_OK)
    {
        ngx_http_close_connection(c);
        return;
    }

    ngx_agent_first_bytes_answer(c, ctx, &body);
}


/* What a request of which this has come asks for, as far as can be seen. */

static void
ngx_agent_first_bytes_target(ngx_agent_ctx_t *ctx, u_char *head, size_t len)
{
    u_char      *p, *end, *last;
    connect_t    request;
    const char  *why;

    if (len > CONNECT_METHOD_LEN
        && ngx_memcmp(head, CONNECT_METHOD, CONNECT_METHOD_LEN) == 0)
    {
        (void) connect_parse(head, len, &request, &why);

        ctx->target.authority = request.authority;
        ctx->target.method = (u_char *) "CONNECT";
        ctx->target.method_len = sizeof("CONNECT") - 1;
        return;
    }

    last = head + len;
    end = ngx_strlchr(head, last, LF);

    if (end == NULL) {
        return;
    }

    ctx->line.data = head;
    ctx->line.len = end - head - (end > head && end[-1] == CR);

    for (p = end + 1; p + 5 < last && ctx->host.data == NULL; p = end + 1) {

        end = ngx_strlchr(p, last, LF);

        if (end == NULL) {
            break;
        }

        if (ngx_strncasecmp(p, (u_char *) "host:", 5) == 0) {
            ctx->host.data = p + 5 + (p[5] == ' ');
            ctx->host.len = end - ctx->host.data - (end[-1] == CR);
        }
    }

    (void) target_parse(ctx->line.data, ctx->line.len, ctx->host.data,
                        ctx->host.len, &ctx->target, &why);
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

    ctx = ngx_agent_judge_begin(c->pool, ac->task);

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

        ngx_agent_first_bytes_answer(c, ctx, &body);
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

    reason = ngx_agent_judge_load(ac->connection->pool, ac->connection->log,
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

    return ngx_agent_judge_find(ctx->policy, &request.authority, &ctx->rule);
}


static void
ngx_agent_first_bytes_answer(ngx_connection_t *c, ngx_agent_ctx_t *ctx,
    ngx_str_t *body)
{
    u_char              *p, *last, *text;
    size_t               size, shown;
    ngx_uint_t           status;
    ngx_agent_reason_e   reason;

    reason = ctx->reason;
    status = ngx_agent_reason(reason)->status;
    size = body->len + 512;

    /* RFC 9110 section 9.3.2 */

    shown = (ctx->target.method_len == 4
             && ngx_memcmp(ctx->target.method, "HEAD", 4) == 0)
            ? 0 : body->len;

    text = ngx_pnalloc(c->pool, size);

    if (text == NULL) {
        ngx_http_close_connection(c);
        return;
    }

    last = text + size;

    p = ngx_slprintf(text, last,
                     "HTTP/1.1 %ui %s" CRLF
                     "Content-Type: application/json" CRLF
                     "Content-Length: %uz" CRLF
                     "X-Agent-Broker: %s" CRLF
                     "%s"
                     "Connection: close" CRLF CRLF "%*s",
                     status, status == 403 ? "Forbidden"
                             : status == 400 ? "Bad Request"
                             : status == 429 ? "Too Many Requests"
                             : status == 503 ? "Service Unavailable"
                                             : "Internal Server Error",
                     body->len, ngx_agent_reason(reason)->outcome,
                     ngx_agent_refuse_waited(reason)
                     ? "Retry-After: 1" CRLF : "",
                     shown, body->data);

    ngx_agent_first_bytes_end(c, text, p - text);
}


/*
 * The last bytes to the box.  What it has sent is read first: closing a socket
 * with unread bytes resets it, and the client would not see them.
 */

static void
ngx_agent_first_bytes_end(ngx_connection_t *c, const u_char *text, size_t len)
{
    u_char      drain[16384];
    size_t      left;
    ssize_t     n;

    for (left = NGX_AGENT_DRAIN_MAX; left > sizeof(drain); left -= n) {

        n = recv(c->fd, drain, sizeof(drain), MSG_DONTWAIT);

        if (n <= 0) {
            break;
        }
    }

    (void) c->send(c, (u_char *) text, len);
    (void) shutdown(c->fd, SHUT_WR);

    ngx_http_close_connection(c);
}
