/*
 * The socket below a TLS connection, as OpenSSL sees it.
 *
 * nginx reads until recv() returns EAGAIN, so each answer costs a second
 * system call that returns nothing else.  That call is saved here.  A read
 * that got less than it asked for has emptied the socket, and events are
 * edge-triggered: later bytes are reported in the next pass of the event loop.
 * Until then EAGAIN is returned without asking the kernel.  Only the mark of
 * urgent data also cuts a read short: TLS has none, and a peer that sends it
 * anyway waits until it sends more.
 *
 * After a fatal alert, sent or received, OpenSSL fails to write and gives no
 * reason, which nginx logs as critical.  What was read before it would still be
 * answered, so the connection is marked as broken at once.
 *
 * A connection keeps OpenSSL's two buffers, 33 KiB, as long as it lives.  The
 * number of connections is bounded: from boxes by `connections`, to upstreams
 * by the limits in ngx_agent_keepalive.c.
 */


#include "base/ngx_agent_base.h"

#include <openssl/bio.h>


typedef struct {
    ngx_connection_t  *connection;
    ngx_uint_t         empty;               /* the pass that emptied it */
} ngx_agent_bio_t;


static BIO_METHOD *ngx_agent_bio_make(void);
static int ngx_agent_bio_read(BIO *bio, char *buf, int size);
static int ngx_agent_bio_write(BIO *bio, const char *buf, int size);
static long ngx_agent_bio_ctrl(BIO *bio, int cmd, long num, void *data);
static void ngx_agent_bio_passed(ngx_event_t *ev);
static void ngx_agent_bio_message(int sent, int version, int type,
    const void *buf, size_t len, SSL *ssl, void *data);


static BIO_METHOD   *ngx_agent_bio_method;
static ngx_event_t   ngx_agent_bio_event;
static ngx_uint_t    ngx_agent_bio_pass = 1;


ngx_int_t
ngx_agent_bio(ngx_connection_t *c)
{
    BIO              *bio;
    ngx_agent_bio_t  *data;

    SSL_set_msg_callback(c->ssl->connection, ngx_agent_bio_message);
    SSL_set_msg_callback_arg(c->ssl->connection, c);

    /* without EPOLLRDHUP an end that came with the last bytes is missed */

    if (!(ngx_event_flags & NGX_USE_EPOLL_EVENT) || !ngx_use_epoll_rdhup) {
        return NGX_OK;
    }

    if (ngx_agent_bio_method == NULL) {
        ngx_agent_bio_method = ngx_agent_bio_make();

        if (ngx_agent_bio_method == NULL) {
            return NGX_ERROR;
        }

        ngx_agent_bio_event.handler = ngx_agent_bio_passed;
        ngx_agent_bio_event.log = ngx_cycle->log;
    }

    data = ngx_pcalloc(c->pool, sizeof(ngx_agent_bio_t));
    if (data == NULL) {
        return NGX_ERROR;
    }

    data->connection = c;

    bio = BIO_new(ngx_agent_bio_method);
    if (bio == NULL) {
        return NGX_ERROR;
    }

    BIO_set_data(bio, data);
    BIO_set_init(bio, 1);

    SSL_set_bio(c->ssl->connection, bio, bio);

    /* else the buffers would be freed and allocated for each record */

    SSL_clear_mode(c->ssl->connection, SSL_MODE_RELEASE_BUFFERS);

    return NGX_OK;
}


static BIO_METHOD *
ngx_agent_bio_make(void)
{
    int          type;
    BIO_METHOD  *method;

    type = BIO_get_new_index();

    if (type == -1) {
        return NULL;
    }

    method = BIO_meth_new(type|BIO_TYPE_SOURCE_SINK, "agent_broker socket");

    if (method
        && BIO_meth_set_read(method, ngx_agent_bio_read) == 1
        && BIO_meth_set_write(method, ngx_agent_bio_write) == 1
        && BIO_meth_set_ctrl(method, ngx_agent_bio_ctrl) == 1)
    {
        return method;
    }

    BIO_meth_free(method);

    return NULL;
}


static int
ngx_agent_bio_read(BIO *bio, char *buf, int size)
{
    ssize_t            n;
    ngx_agent_bio_t   *data;
    ngx_connection_t  *c;

    data = BIO_get_data(bio);
    c = data->connection;

    BIO_clear_retry_flags(bio);

    if (data->empty == ngx_agent_bio_pass && !c->read->pending_eof) {
        BIO_set_retry_read(bio);
        return -1;
    }

    ngx_set_errno(0);                       /* else an end shows an old error */

    n = recv(c->fd, buf, size, 0);

    if (n > 0) {

        if (n < size) {
            data->empty = ngx_agent_bio_pass;
            ngx_post_event(&ngx_agent_bio_event, &ngx_posted_events);
        }

    } else if (n == 0) {
        BIO_set_flags(bio, BIO_FLAGS_IN_EOF);

    } else if (BIO_sock_should_retry((int) n)) {
        BIO_set_retry_read(bio);
    }

    return (int) n;
}


static int
ngx_agent_bio_write(BIO *bio, const char *buf, int size)
{
    ssize_t           n;
    ngx_agent_bio_t  *data;

    data = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);

    ngx_set_errno(0);

    n = send(data->connection->fd, buf, size, 0);

    if (n <= 0 && BIO_sock_should_retry((int) n)) {
        BIO_set_retry_write(bio);
    }

    return (int) n;
}


static long
ngx_agent_bio_ctrl(BIO *bio, int cmd, long num, void *data)
{
    switch (cmd) {

    case BIO_CTRL_FLUSH:
        return 1;                           /* nothing is held back */

    case BIO_CTRL_EOF:
        return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;

    default:
        return 0;
    }
}


/* Posted events are run before the kernel is asked for new ones. */

static void
ngx_agent_bio_passed(ngx_event_t *ev)
{
    ngx_agent_bio_pass++;
}


/* An alert is a level and a description: RFC 8446 section 6. */

static void
ngx_agent_bio_message(int sent, int version, int type, const void *buf,
    size_t len, SSL *ssl, void *data)
{
    ngx_connection_t  *c;

    if (type == SSL3_RT_ALERT && len == 2
        && *(const u_char *) buf == SSL3_AL_FATAL)
    {
        c = data;
        c->error = 1;
    }
}
