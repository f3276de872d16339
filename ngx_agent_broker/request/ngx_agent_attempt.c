/*
 * Asks one name server.  Each attempt has a socket of its own, so that its
 * port is as random as the number of a question, and the socket is connected,
 * so that only the server's address can answer.
 */


#include "request/ngx_agent_attempt.h"


#define NGX_AGENT_ATTEMPT_READS  16         /* before others have their turn */


static ngx_int_t ngx_agent_attempt_open(ngx_agent_attempt_t *attempt,
    ngx_agent_name_server_t *server);
static void ngx_agent_attempt_write(ngx_event_t *wev);
static ngx_int_t ngx_agent_attempt_send_all(ngx_agent_attempt_t *attempt);
static void ngx_agent_attempt_read(ngx_event_t *rev);
static ssize_t ngx_agent_attempt_read_tcp(ngx_agent_attempt_t *attempt);
static void ngx_agent_attempt_end(ngx_agent_attempt_t *attempt,
    const char *why);


const char  ngx_agent_attempt_unreached[] = "no name server can be reached";


ngx_int_t
ngx_agent_attempt_send(ngx_agent_attempt_t *attempt,
    ngx_agent_name_server_t *server)
{
    ngx_int_t  rc;

    rc = NGX_OK;

    if (attempt->connection == NULL) {
        rc = ngx_agent_attempt_open(attempt, server);
    }

    if (rc == NGX_OK) {
        rc = ngx_agent_attempt_send_all(attempt);
    }

    if (rc == NGX_ERROR) {
        ngx_agent_attempt_close(attempt);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* NGX_AGAIN: it sends when it is connected. */

static ngx_int_t
ngx_agent_attempt_open(ngx_agent_attempt_t *attempt,
    ngx_agent_name_server_t *server)
{
    ngx_int_t               rc;
    ngx_connection_t       *c;
    ngx_peer_connection_t   peer;

    attempt->have = 0;

    if (attempt->is_tcp) {

        attempt->reply = ngx_alloc(2 + DNS_REPLY_MAX, ngx_cycle->log);
        if (attempt->reply == NULL) {
            return NGX_ERROR;
        }
    }

    ngx_memzero(&peer, sizeof(ngx_peer_connection_t));

    peer.sockaddr = &server->sockaddr.sockaddr;
    peer.socklen = server->socklen;
    peer.name = &server->name;
    peer.type = attempt->is_tcp ? SOCK_STREAM : SOCK_DGRAM;
    peer.get = ngx_event_get_peer;
    peer.log = ngx_cycle->log;
    peer.log_error = NGX_ERROR_ERR;

    rc = ngx_event_connect_peer(&peer);

    ngx_log_debug3(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "agent: name server %V is asked, %s, connect: %i",
                   &server->name, attempt->is_tcp ? "TCP" : "UDP", rc);

    if (rc != NGX_OK && rc != NGX_AGAIN) {
        return NGX_ERROR;
    }

    c = peer.connection;
    attempt->connection = c;

    c->data = attempt;
    c->read->handler = ngx_agent_attempt_read;
    c->write->handler = ngx_agent_attempt_write;

    /* core does not count it among what must end before a worker does */

    c->read->resolver = 1;

    return rc;
}


void
ngx_agent_attempt_close(ngx_agent_attempt_t *attempt)
{
    if (attempt->closed) {
        *attempt->closed = 1;
        attempt->closed = NULL;
    }

    if (attempt->connection) {
        ngx_close_connection(attempt->connection);
        attempt->connection = NULL;
    }

    if (attempt->reply) {
        ngx_free(attempt->reply);
        attempt->reply = NULL;
    }
}


/* TCP is connected, or cannot be. */

static void
ngx_agent_attempt_write(ngx_event_t *wev)
{
    ngx_connection_t     *c;
    ngx_agent_attempt_t  *attempt;

    c = wev->data;
    attempt = c->data;

    if (c->sent == 0 && ngx_agent_attempt_send_all(attempt) != NGX_OK) {
        ngx_agent_attempt_end(attempt, ngx_agent_attempt_unreached);
        return;
    }

    (void) ngx_handle_write_event(wev, 0);
}


static ngx_int_t
ngx_agent_attempt_send_all(ngx_agent_attempt_t *attempt)
{
    u_char             message[2 + DNS_QUESTION_MAX], *p;
    size_t             len;
    ngx_uint_t         i;
    dns_question_t    *q;
    ngx_connection_t  *c;

    c = attempt->connection;

    for (i = 0; i < attempt->questions_count; i++) {

        q = &attempt->questions[i];
        p = message;

        if (attempt->is_tcp) {
            *p++ = (u_char) (q->len >> 8);
            *p++ = (u_char) q->len;
        }

        p = ngx_cpymem(p, q->bytes, q->len);
        len = p - message;

        if (send(c->fd, message, len, MSG_NOSIGNAL) != (ssize_t) len) {
            return NGX_ERROR;
        }

        c->sent += len;
    }

    return NGX_OK;
}


static void
ngx_agent_attempt_read(ngx_event_t *rev)
{
    u_char                reply[DNS_REPLY_MAX];
    ssize_t               n;
    ngx_uint_t            i, closed;
    ngx_connection_t     *c;
    ngx_agent_attempt_t  *attempt;

    c = rev->data;
    attempt = c->data;

    closed = 0;
    attempt->closed = &closed;

    for (i = 0; i < NGX_AGENT_ATTEMPT_READS; i++) {

        if (attempt->is_tcp) {
            n = ngx_agent_attempt_read_tcp(attempt);

        } else {
            n = recv(c->fd, reply, sizeof(reply), MSG_DONTWAIT);

            if (n >= 0) {
                attempt->handler(attempt, reply, n, NULL);

            } else if (ngx_socket_errno != NGX_EAGAIN) {

                /* an ICMP message: nobody listens there */

                ngx_agent_attempt_end(attempt, ngx_agent_attempt_unreached);
            }
        }

        if (closed) {
            return;
        }

        if (n < 0) {
            attempt->closed = NULL;
            return;
        }
    }

    attempt->closed = NULL;

    ngx_post_event(rev, &ngx_posted_next_events);
}


/* Reads a part of a message: -1, nothing more can be read now. */

static ssize_t
ngx_agent_attempt_read_tcp(ngx_agent_attempt_t *attempt)
{
    u_char   *p;
    size_t    want;
    ssize_t   n;

    p = attempt->reply;
    want = 2;

    if (attempt->have >= 2) {

        want += p[0] << 8 | p[1];

        if (want > 2 + DNS_REPLY_MAX) {
            ngx_agent_attempt_end(attempt,
                                  "the name server's answer is too long");
            return -1;
        }
    }

    n = recv(attempt->connection->fd, p + attempt->have, want - attempt->have,
             MSG_DONTWAIT);

    if (n > 0) {

        attempt->have += n;

        if (attempt->have == want && want > 2) {
            attempt->have = 0;
            attempt->handler(attempt, p + 2, want - 2, NULL);
        }

    } else if (n == 0) {
        ngx_agent_attempt_end(attempt, "the name server's answer is cut");

    } else if (ngx_socket_errno != NGX_EAGAIN) {
        ngx_agent_attempt_end(attempt, ngx_agent_attempt_unreached);
    }

    return n;
}


static void
ngx_agent_attempt_end(ngx_agent_attempt_t *attempt, const char *why)
{
    ngx_agent_attempt_close(attempt);

    attempt->handler(attempt, NULL, 0, why);
}
