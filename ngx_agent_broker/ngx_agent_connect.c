/*
 * The first bytes of a connection.  nginx's HTTP parser refuses CONNECT with
 * a page that says nothing, before any phase; so the bytes are looked at
 * (MSG_PEEK, they stay where they are) before the parser gets the
 * connection.  A CONNECT is judged like any request, recorded, and answered
 * with the same body; nothing that follows it is read.
 */


#include "ngx_agent_broker.h"


#define NGX_AGENT_CONNECT_MAX   4096        /* of a CONNECT's head */

#define NGX_AGENT_CONNECT       "CONNECT "
#define NGX_AGENT_CONNECT_LEN   (sizeof(NGX_AGENT_CONNECT) - 1)


static void ngx_agent_connect_read(ngx_event_t *rev);
static void ngx_agent_connect_refuse(ngx_connection_t *c, u_char *line,
    size_t len);
static void ngx_agent_connect_answer(ngx_connection_t *c,
    ngx_uint_t status, ngx_str_t *body);
static ngx_http_core_srv_conf_t *ngx_agent_connect_core(ngx_connection_t *c);


void
ngx_agent_connect(ngx_connection_t *c)
{
    ngx_event_t  *rev;

    rev = c->read;

    rev->handler = ngx_agent_connect_read;
    c->write->handler = ngx_http_empty_handler;
    c->log->connection = c->number;
    c->log->action = "waiting for a request of a box";

    /* as core treats a connection that has sent nothing */

    ngx_add_timer(rev, ngx_agent_connect_core(c)->client_header_timeout);
    ngx_reusable_connection(c, 1);

    if (ngx_handle_read_event(rev, 0) != NGX_OK) {
        ngx_http_close_connection(c);
    }
}


static void
ngx_agent_connect_read(ngx_event_t *rev)
{
    u_char             head[NGX_AGENT_CONNECT_MAX], *end;
    size_t             same;
    ssize_t            n;
    ngx_connection_t  *c;

    c = rev->data;

    if (rev->timedout || c->close) {
        ngx_http_close_connection(c);
        return;
    }

    n = recv(c->fd, head, sizeof(head), MSG_PEEK|MSG_DONTWAIT);

    if (n == -1 && ngx_socket_errno == NGX_EAGAIN) {
        rev->ready = 0;

        if (ngx_handle_read_event(rev, 0) != NGX_OK) {
            ngx_http_close_connection(c);
        }

        return;
    }

    if (n <= 0) {
        ngx_http_close_connection(c);
        return;
    }

    same = ngx_min((size_t) n, NGX_AGENT_CONNECT_LEN);

    if (ngx_memcmp(head, NGX_AGENT_CONNECT, same) != 0) {

        /* an ordinary request: core reads it from its first byte */

        ngx_reusable_connection(c, 0);

        if (rev->timer_set) {
            ngx_del_timer(rev);
        }

        rev->ready = 1;
        ngx_http_init_connection(c);

        return;
    }

    end = (same == NGX_AGENT_CONNECT_LEN) ? memchr(head, LF, n) : NULL;

    if (end == NULL && n < (ssize_t) sizeof(head)) {

        /* more is to come: only new bytes wake us (the event is an edge) */

        rev->ready = 0;

        if (ngx_handle_read_event(rev, 0) != NGX_OK) {
            ngx_http_close_connection(c);
        }

        return;
    }

    end = end ? end : head + n;

    if (end > head && end[-1] == CR) {
        end--;
    }

    ngx_agent_connect_refuse(c, head, end - head);
}


/* "CONNECT host:port HTTP/1.1": what it names is judged for the record. */

static void
ngx_agent_connect_refuse(ngx_connection_t *c, u_char *line, size_t len)
{
    u_char              *p, *space;
    ngx_str_t            body;
    target_t            *t;
    const char          *why;
    ngx_agent_ctx_t     *ctx;
    authority_error_t    err;
    ngx_agent_reason_e   reason;

    ctx = ngx_pcalloc(c->pool, sizeof(ngx_agent_ctx_t));

    if (ctx == NULL
        || ngx_agent_decide_begin(ctx, ngx_agent_connection_task(c))
           != NGX_OK)
    {
        ngx_http_close_connection(c);
        return;
    }

    ctx->line.data = line;
    ctx->line.len = len;

    t = &ctx->target;
    why = NULL;

    p = line + NGX_AGENT_CONNECT_LEN;
    space = memchr(p, ' ', line + len - p);

    err = authority_parse(p, (space ? space : line + len) - p, 0,
                          &t->authority);

    t->method = (u_char *) "CONNECT";
    t->method_len = NGX_AGENT_CONNECT_LEN - 1;
    t->https = true;

    reason = ngx_agent_decide_load(c->pool, c->log, ctx);

    if (err != AUTHORITY_OK || space == NULL
        || ngx_strncmp(space, " HTTP/1.", sizeof(" HTTP/1.") - 1) != 0)
    {
        reason = NGX_AGENT_REASON_MALFORMED;
        why = err ? authority_strerror(err) : "the request line is malformed";

    } else if (reason == NGX_AGENT_REASON_RULE) {

        switch (policy_find_rule(ctx->policy, &t->authority, &ctx->rule)) {

        case POLICY_NO_HOST:
            reason = NGX_AGENT_REASON_HOST;
            break;

        case POLICY_NO_PORT:
            reason = NGX_AGENT_REASON_PORT;
            break;

        default: /* POLICY_FOUND */
            reason = NGX_AGENT_REASON_CONNECT;
            break;
        }
    }

    ctx->tls = 1;

    if (ngx_agent_refusal(c->pool, ctx, reason, why, &body) != NGX_OK) {
        ngx_http_close_connection(c);
        return;
    }

    ngx_agent_connect_answer(c, ngx_agent_reason(reason)->status, &body);
}


static void
ngx_agent_connect_answer(ngx_connection_t *c, ngx_uint_t status,
    ngx_str_t *body)
{
    u_char  *p, *last, *text, drain[NGX_AGENT_CONNECT_MAX];
    size_t   size;

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
                                                 : "Internal Server Error",
                         body->len, status == 403 ? "denied" : "failed",
                         body);

        /*
         * A fresh connection's send buffer takes this at once.  What was
         * peeked at is read first: closing a socket with unread bytes resets
         * it, and the client would not see the answer.
         */

        (void) recv(c->fd, drain, sizeof(drain), MSG_DONTWAIT);
        (void) c->send(c, text, p - text);
        (void) shutdown(c->fd, SHUT_WR);
    }

    ngx_http_close_connection(c);
}


static ngx_http_core_srv_conf_t *
ngx_agent_connect_core(ngx_connection_t *c)
{
    ngx_http_port_t      *port;
    ngx_http_in_addr_t   *addr;
#if (NGX_HAVE_INET6)
    ngx_http_in6_addr_t  *addr6;
#endif

    port = c->listening->servers;

#if (NGX_HAVE_INET6)
    if (c->local_sockaddr->sa_family == AF_INET6) {
        addr6 = port->addrs;
        return addr6->conf.default_server;
    }
#endif

    addr = port->addrs;

    return addr->conf.default_server;
}
