/*
 * The helper's connections: lines, and the descriptors that come with them.
 */


#include "control/ngx_agent_helper.h"

#include <poll.h>
#include <sys/epoll.h>


#define NGX_AGENT_HELPER_LINES    64        /* of a piece, then a look */
#define NGX_AGENT_HELPER_RETRY    1         /* ms */
#define NGX_AGENT_HELPER_WAITING  (2 * PROTOCOL_DOORS_MAX)  /* of a user */


static ssize_t ngx_agent_helper_recv(ngx_agent_helper_t *helper,
    ngx_agent_helper_conn_t *conn);
static void ngx_agent_helper_take(ngx_agent_helper_t *helper,
    ngx_agent_helper_conn_t *conn, ngx_socket_t s);
static ngx_uint_t ngx_agent_helper_waiting(ngx_agent_helper_t *helper,
    uid_t uid);
static void ngx_agent_helper_line(ngx_agent_helper_t *helper,
    ngx_agent_helper_conn_t *conn, u_char *line, size_t len);
static ngx_uint_t ngx_agent_helper_is_shut(ngx_agent_helper_conn_t *conn);
static void ngx_agent_helper_drop_fds(ngx_agent_helper_t *helper,
    ngx_agent_helper_conn_t *conn);
static void ngx_agent_helper_end(ngx_agent_helper_t *helper,
    ngx_agent_helper_conn_t *conn, ngx_uint_t is_gone);
static void ngx_agent_helper_send(ngx_agent_helper_t *helper,
    struct msghdr *msg);


ngx_agent_helper_conn_t *
ngx_agent_helper_add(ngx_agent_helper_t *helper, ngx_socket_t s, uint64_t id,
    uid_t uid)
{
    ngx_agent_helper_conn_t  *conn;

    conn = calloc(1, sizeof(ngx_agent_helper_conn_t));

    if (conn == NULL) {
        return NULL;
    }

    conn->fd = s;
    conn->id = id;
    conn->uid = uid;

    if (id) {
        ngx_queue_insert_tail(&helper->conns, &conn->queue);

    } else {
        ngx_queue_insert_tail(&helper->strangers, &conn->queue);
        helper->strangers_count++;
    }

    return conn;
}


/* One piece, so that every connection has its turn. */

void
ngx_agent_helper_read(ngx_agent_helper_t *helper,
    ngx_agent_helper_conn_t *conn, uint32_t events)
{
    u_char      *start, *end;
    ssize_t      n;
    ngx_uint_t   lines;

    if (conn->fd == (ngx_socket_t) -1) {
        return;                             /* closed in this pass */
    }

    if (conn->id == 0) {
        ngx_agent_helper_close(helper, conn);
        return;
    }

    if (conn->ended) {
        ngx_agent_helper_end(helper, conn, 1);
        return;
    }

    if (conn->line == NULL) {
        conn->line = malloc(PROTOCOL_LINE_MAX);

        if (conn->line == NULL) {
            return;
        }
    }

    n = ngx_agent_helper_recv(helper, conn);

    if (n == -1 && (ngx_errno == NGX_EAGAIN || ngx_errno == NGX_EINTR)
        && !(events & (EPOLLERR|EPOLLHUP)))
    {
        n = 0;

    } else if (n <= 0) {
        ngx_agent_helper_end(helper, conn, n == -1 || (events & EPOLLHUP));
        return;
    }

    conn->len += n;
    start = conn->line;
    lines = 0;

    while ((end = memchr(start, '\n', conn->line + conn->len - start))) {
        ngx_agent_helper_line(helper, conn, start, end - start);
        start = end + 1;

        /* the worker may have refused the first of a thousand */

        if (++lines % NGX_AGENT_HELPER_LINES == 0
            && ngx_agent_helper_is_shut(conn))
        {
            ngx_agent_helper_end(helper, conn, 1);
            return;
        }
    }

    conn->len = conn->line + conn->len - start;

    if (conn->len == PROTOCOL_LINE_MAX) {
        ngx_agent_helper_line(helper, conn, NULL, 0);
        conn->len = 0;
    }

    /*
     * What is refused does not wait for the rest of its line: it may be the
     * other end of this connection, whose end would never be seen.
     */

    if (conn->why) {
        ngx_agent_helper_drop_fds(helper, conn);
    }

    if (conn->len) {
        ngx_memmove(conn->line, start, conn->len);

    } else {
        free(conn->line);
        conn->line = NULL;
    }
}


static ssize_t
ngx_agent_helper_recv(ngx_agent_helper_t *helper,
    ngx_agent_helper_conn_t *conn)
{
    int             *fds;
    ssize_t          n;
    ngx_err_t        err;
    ngx_uint_t       i, count;
    struct iovec     iov;
    struct msghdr    msg;
    struct cmsghdr  *cmsg;

    union {
        struct cmsghdr  align;
        u_char          space[CMSG_SPACE(sizeof(int) * PROTOCOL_DOORS_MAX)];
    } control;

    iov.iov_base = conn->line + conn->len;
    iov.iov_len = PROTOCOL_LINE_MAX - conn->len;

    ngx_memzero(&msg, sizeof(struct msghdr));
    msg.msg_iov = &iov;
    msg.msg_iovlen = 1;
    msg.msg_control = &control;
    msg.msg_controllen = sizeof(control);

    ngx_agent_helper_begin(helper, conn->uid, conn->id);

    n = recvmsg(conn->fd, &msg, MSG_DONTWAIT|MSG_CMSG_CLOEXEC);
    err = ngx_socket_errno;

    for (cmsg = (n != -1 && msg.msg_controllen) ? CMSG_FIRSTHDR(&msg) : NULL;
         cmsg;
         cmsg = CMSG_NXTHDR(&msg, cmsg))
    {
        if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS) {
            continue;
        }

        fds = (int *) CMSG_DATA(cmsg);
        count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        for (i = 0; i < count; i++) {
            ngx_agent_helper_take(helper, conn, fds[i]);
        }
    }

    ngx_agent_helper_done(helper);

    if (n != -1 && (msg.msg_flags & MSG_CTRUNC)) {
        conn->why = "more than 64 descriptors came in one message, or the "
                    "broker has none left";
    }

    ngx_set_socket_errno(err);

    return n;
}


/* What cannot be a door is closed with the rest, when its line is there. */

static void
ngx_agent_helper_take(ngx_agent_helper_t *helper,
    ngx_agent_helper_conn_t *conn, ngx_socket_t s)
{
    const char  *why;

    if (conn->count == PROTOCOL_DOORS_MAX) {
        conn->why = "more than 64 descriptors came before a line";
        (void) close(s);
        return;
    }

    /* the helper's descriptors are for all users */

    if (ngx_agent_helper_waiting(helper, conn->uid)
        >= NGX_AGENT_HELPER_WAITING)
    {
        conn->why = "descriptors of this user wait for the rest of a line";
        (void) close(s);
        return;
    }

    why = ngx_agent_given_judge(s, ngx_agent_launcher_netns(),
                                &conn->given[conn->count]);

    conn->fds[conn->count++] = s;

    if (why) {
        conn->why = why;
    }
}


/* How many descriptors of a user have come before their lines? */

static ngx_uint_t
ngx_agent_helper_waiting(ngx_agent_helper_t *helper, uid_t uid)
{
    ngx_uint_t                n;
    ngx_queue_t              *q;
    ngx_agent_helper_conn_t  *conn;

    n = 0;

    ngx_agent_queue_each(q, &helper->conns) {
        conn = ngx_queue_data(q, ngx_agent_helper_conn_t, queue);

        if (conn->uid == uid) {
            n += conn->count;
        }
    }

    return n;
}


/* A line, or one that is too long: NULL. */

static void
ngx_agent_helper_line(ngx_agent_helper_t *helper,
    ngx_agent_helper_conn_t *conn, u_char *line, size_t len)
{
    ngx_uint_t                   n;
    struct iovec                 iov[3];
    struct msghdr                msg;
    struct cmsghdr              *cmsg;
    ngx_agent_helper_message_t   message;

    union {
        struct cmsghdr  align;
        u_char          space[CMSG_SPACE(sizeof(int) * PROTOCOL_DOORS_MAX)];
    } control;

    ngx_memzero(&message, sizeof(ngx_agent_helper_message_t));
    message.kind = NGX_AGENT_HELPER_LINE;
    message.id = conn->id;
    message.is_long = (line == NULL);

    n = conn->count;

    if (conn->why) {
        (void) ngx_cpystrn((u_char *) message.why, (u_char *) conn->why,
                           sizeof(message.why));
        conn->why = NULL;
        n = 0;
    }

    message.count = n;

    ngx_memzero(&msg, sizeof(struct msghdr));

    iov[0].iov_base = &message;
    iov[0].iov_len = sizeof(message);
    iov[1].iov_base = conn->given;
    iov[1].iov_len = n * sizeof(ngx_agent_given_t);
    iov[2].iov_base = line;
    iov[2].iov_len = len;

    msg.msg_iov = iov;
    msg.msg_iovlen = 3;

    if (n) {
        ngx_memzero(&control, sizeof(control));

        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE(n * sizeof(int));

        cmsg = CMSG_FIRSTHDR(&msg);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(n * sizeof(int));
        ngx_memcpy(CMSG_DATA(cmsg), conn->fds, n * sizeof(int));
    }

    ngx_agent_helper_send(helper, &msg);
    ngx_agent_helper_drop_fds(helper, conn);
}


/* Has the worker, or the peer, ended it? */

static ngx_uint_t
ngx_agent_helper_is_shut(ngx_agent_helper_conn_t *conn)
{
    struct pollfd  pfd;

    pfd.fd = conn->fd;
    pfd.events = 0;

    return poll(&pfd, 1, 0) > 0;
}


static void
ngx_agent_helper_drop_fds(ngx_agent_helper_t *helper,
    ngx_agent_helper_conn_t *conn)
{
    if (conn->count == 0) {
        return;
    }

    ngx_agent_helper_begin(helper, conn->uid, conn->id);

    while (conn->count) {
        (void) close(conn->fds[--conn->count]);
    }

    ngx_agent_helper_done(helper);
}


/*
 * The peer sends no more.  It may have closed its sending side only: its
 * answer is still to come, so the socket stays until it is gone.
 */

static void
ngx_agent_helper_end(ngx_agent_helper_t *helper, ngx_agent_helper_conn_t *conn,
    ngx_uint_t is_gone)
{
    struct epoll_event           ee;
    ngx_agent_helper_message_t   message;

    ngx_memzero(&message, sizeof(ngx_agent_helper_message_t));
    message.kind = NGX_AGENT_HELPER_END;
    message.id = conn->id;
    message.is_gone = is_gone;

    conn->ended = 1;
    ngx_agent_helper_drop_fds(helper, conn);

    free(conn->line);
    conn->line = NULL;
    conn->len = 0;

    ngx_agent_helper_say(helper, &message, -1);

    ee.events = 0;                          /* and EPOLLHUP */
    ee.data.ptr = conn;

    if (is_gone
        || epoll_ctl(helper->ep, EPOLL_CTL_MOD, conn->fd, &ee) == -1)
    {
        ngx_agent_helper_close(helper, conn);
    }
}


void
ngx_agent_helper_close(ngx_agent_helper_t *helper,
    ngx_agent_helper_conn_t *conn)
{
    ngx_agent_helper_drop_fds(helper, conn);

    /* the worker has it too, so that the entry would stay */

    (void) epoll_ctl(helper->ep, EPOLL_CTL_DEL, conn->fd, NULL);
    (void) shutdown(conn->fd, SHUT_RDWR);

    ngx_agent_helper_begin(helper, conn->uid, conn->id);
    (void) close(conn->fd);
    ngx_agent_helper_done(helper);

    if (conn->id == 0) {
        helper->strangers_count--;
    }

    conn->fd = (ngx_socket_t) -1;
    free(conn->line);
    conn->line = NULL;

    ngx_queue_remove(&conn->queue);
    ngx_queue_insert_tail(&helper->dead, &conn->queue);
}


void
ngx_agent_helper_say(ngx_agent_helper_t *helper,
    ngx_agent_helper_message_t *message, ngx_socket_t s)
{
    struct iovec     iov;
    struct msghdr    msg;
    struct cmsghdr  *cmsg;

    union {
        struct cmsghdr  align;
        u_char          space[CMSG_SPACE(sizeof(int))];
    } control;

    ngx_memzero(&msg, sizeof(struct msghdr));
    ngx_memzero(&control, sizeof(control));

    iov.iov_base = message;
    iov.iov_len = sizeof(ngx_agent_helper_message_t);

    msg.msg_iov = &iov;
    msg.msg_iovlen = 1;

    if (s != (ngx_socket_t) -1) {
        msg.msg_control = &control;
        msg.msg_controllen = sizeof(control);

        cmsg = CMSG_FIRSTHDR(&msg);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(sizeof(int));
        ngx_memcpy(CMSG_DATA(cmsg), &s, sizeof(int));
    }

    ngx_agent_helper_send(helper, &msg);
}


/*
 * Waits as long as the worker has no time: it is not watched meanwhile.  What
 * is on its way may be too much for the socket, which then waits by itself, or
 * too many descriptors for a user without privileges, unix(7), which it does
 * not wait for.
 */

static void
ngx_agent_helper_send(ngx_agent_helper_t *helper,
    struct msghdr *msg)
{
    struct pollfd  pfd;

    pfd.fd = helper->channel;
    pfd.events = 0;

    while (sendmsg(helper->channel, msg, MSG_NOSIGNAL) == -1) {

        switch (ngx_errno) {

        case NGX_EINTR:
            break;

        case ETOOMANYREFS:
        case ENOBUFS:
        case NGX_ENOMEM:

            if (poll(&pfd, 1, NGX_AGENT_HELPER_RETRY) <= 0) {
                break;
            }

            /* fall through */

        default:
            ngx_agent_helper_exit(helper);
        }
    }
}


void
ngx_agent_helper_begin(ngx_agent_helper_t *helper, uid_t uid, uint64_t id)
{
    helper->page->uid = uid;
    helper->page->id = id;
    ngx_memory_barrier();
    helper->page->turn++;

    /* a socket that lingers can be interrupted, and waits for nobody */

    ngx_agent_given_interrupt(1);
}


void
ngx_agent_helper_done(ngx_agent_helper_t *helper)
{
    ngx_agent_given_interrupt(0);

    helper->page->turn++;
    ngx_memory_barrier();

    if (helper->page->abandoned) {
        _exit(0);
    }
}


/* The worker is gone: launchers hear of it, whoever else has their sockets. */

void
ngx_agent_helper_exit(ngx_agent_helper_t *helper)
{
    ngx_queue_t              *q;
    ngx_agent_helper_conn_t  *conn;

    if (!helper->page->abandoned) {

        ngx_agent_queue_each(q, &helper->conns) {
            conn = ngx_queue_data(q, ngx_agent_helper_conn_t, queue);
            (void) shutdown(conn->fd, SHUT_RDWR);
        }
    }

    _exit(0);
}


ngx_msec_t
ngx_agent_helper_now(void)
{
    struct timespec  ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts);

    return (ngx_msec_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}
