/*
 * The helper's own process: a small loop, which knows nothing of tasks.  Calls
 * that touch what a launcher has sent are made between _begin and _end, which
 * the worker watches.
 */


#include "control/ngx_agent_helper.h"

#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>


#define NGX_AGENT_HELPER_EVENTS     64
#define NGX_AGENT_HELPER_STRANGERS_MAX  64  /* that were answered, and wait */
#define NGX_AGENT_HELPER_LINGER     1000    /* ms, for what they send */
#define NGX_AGENT_HELPER_PAUSE      100     /* ms, without descriptors */
#define NGX_AGENT_HELPER_TOLD       20      /* strangers a second, each told */

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS  83                   /* Linux 6.16 */
#endif

#ifndef SYS_close_range
#define SYS_close_range  436                /* Linux 5.9 */
#endif


typedef struct {
    ngx_queue_t        queue;
    ngx_socket_t       fd;
    uint64_t           id;                  /* 0: a stranger's */
    uid_t              uid;
    ngx_msec_t         until;               /* a stranger's */
    unsigned           ended:1;             /* its END is sent */

    u_char            *line;                /* what has come of the next one */
    size_t             len;

    ngx_socket_t       fds[PROTOCOL_DOORS_MAX];
    ngx_agent_given_t  given[PROTOCOL_DOORS_MAX];
    ngx_uint_t         count;
    const char        *why;
} ngx_agent_helper_conn_t;


static void ngx_agent_helper_forget(ngx_agent_helper_t *helper);
static void ngx_agent_helper_interrupted(int signo);
static void ngx_agent_helper_close_others(ngx_agent_helper_t *helper);
static void ngx_agent_helper_adopt(const ngx_agent_launcher_t *l);
static int ngx_agent_helper_compare(const void *one, const void *two);
static void ngx_agent_helper_orders(ngx_agent_helper_t *helper);
static void ngx_agent_helper_stop(ngx_agent_helper_t *helper);
static void ngx_agent_helper_listen(ngx_agent_helper_t *helper,
    ngx_uint_t on);
static ngx_int_t ngx_agent_helper_accept(ngx_agent_helper_t *helper,
    ngx_uint_t listening);
static void ngx_agent_helper_admit(ngx_agent_helper_t *helper,
    ngx_uint_t listening, ngx_socket_t s, uid_t uid);
static void ngx_agent_helper_stranger(ngx_agent_helper_t *helper,
    ngx_socket_t s, struct ucred *peer);
static void ngx_agent_helper_tell(ngx_agent_helper_t *helper);
static ngx_agent_helper_conn_t *ngx_agent_helper_add(ngx_socket_t s,
    uint64_t id, uid_t uid);
static void ngx_agent_helper_read(ngx_agent_helper_t *helper,
    ngx_agent_helper_conn_t *conn, uint32_t events);
static ssize_t ngx_agent_helper_recv(ngx_agent_helper_t *helper,
    ngx_agent_helper_conn_t *conn);
static void ngx_agent_helper_take(ngx_agent_helper_conn_t *conn,
    ngx_socket_t s);
static void ngx_agent_helper_line(ngx_agent_helper_t *helper,
    ngx_agent_helper_conn_t *conn, u_char *line, size_t len);
static void ngx_agent_helper_drop_fds(ngx_agent_helper_t *helper,
    ngx_agent_helper_conn_t *conn);
static void ngx_agent_helper_end(ngx_agent_helper_t *helper,
    ngx_agent_helper_conn_t *conn, ngx_uint_t is_gone);
static void ngx_agent_helper_close(ngx_agent_helper_t *helper,
    ngx_agent_helper_conn_t *conn);
static void ngx_agent_helper_send(ngx_agent_helper_t *helper,
    struct msghdr *msg);
static void ngx_agent_helper_begin(ngx_agent_helper_t *helper, uid_t uid,
    uint64_t id);
static void ngx_agent_helper_done(ngx_agent_helper_t *helper);
static void ngx_agent_helper_exit(ngx_agent_helper_t *helper);
static ngx_msec_t ngx_agent_helper_now(void);


static int          ngx_agent_helper_ep;
static ngx_queue_t  ngx_agent_helper_conns;
static ngx_queue_t  ngx_agent_helper_strangers;
static ngx_uint_t   ngx_agent_helper_strangers_count;
static ngx_queue_t  ngx_agent_helper_dead;
static ngx_msec_t   ngx_agent_helper_paused;

/* strangers of this second, and the last of those that were not told */

static ngx_msec_t   ngx_agent_helper_second;
static ngx_uint_t   ngx_agent_helper_told;
static ngx_uint_t   ngx_agent_helper_untold;
static struct ucred  ngx_agent_helper_last;


/* What an event is of: a listener, the channel, or a connection. */

#define NGX_AGENT_HELPER_CHANNEL    ((uint64_t) -1)


void
ngx_agent_helper_run(ngx_agent_helper_t *helper)
{
    int                       i, n, timeout;
    uint64_t                  data;
    ngx_msec_t                now;
    ngx_queue_t              *q;
    struct epoll_event        ee, events[NGX_AGENT_HELPER_EVENTS];
    ngx_agent_helper_conn_t  *conn;

    ngx_queue_init(&ngx_agent_helper_conns);
    ngx_queue_init(&ngx_agent_helper_strangers);
    ngx_queue_init(&ngx_agent_helper_dead);

    ngx_agent_helper_forget(helper);
    ngx_agent_control_each(ngx_agent_helper_adopt);

    ngx_agent_helper_ep = epoll_create1(EPOLL_CLOEXEC);

    ee.events = EPOLLIN;
    ee.data.u64 = NGX_AGENT_HELPER_CHANNEL;

    ngx_agent_helper_close_others(helper);

    if (ngx_agent_helper_ep == -1
        || epoll_ctl(ngx_agent_helper_ep, EPOLL_CTL_ADD, helper->channel, &ee)
           == -1)
    {
        ngx_agent_helper_exit(helper);
    }

    ngx_agent_queue_each(q, &ngx_agent_helper_conns) {
        conn = ngx_queue_data(q, ngx_agent_helper_conn_t, queue);

        ee.events = conn->ended ? 0 : EPOLLIN;
        ee.data.ptr = conn;

        (void) epoll_ctl(ngx_agent_helper_ep, EPOLL_CTL_ADD, conn->fd, &ee);
    }

    ngx_agent_helper_listen(helper, 1);

    for ( ;; ) {

        timeout = -1;

        if (ngx_agent_helper_paused
            || !ngx_queue_empty(&ngx_agent_helper_strangers)
            || ngx_agent_helper_untold)
        {
            timeout = NGX_AGENT_HELPER_PAUSE;
        }

        n = epoll_wait(ngx_agent_helper_ep, events, NGX_AGENT_HELPER_EVENTS,
                       timeout);

        for (i = 0; i < n; i++) {

            data = events[i].data.u64;

            if (data == NGX_AGENT_HELPER_CHANNEL) {
                ngx_agent_helper_orders(helper);

            } else if (data < helper->cycle->listening.nelts) {

                if (helper->is_stopped || ngx_agent_helper_paused) {
                    continue;
                }

                /* then it is another helper's turn, which waits longer */

                if (ngx_agent_helper_accept(helper, data) == NGX_OK) {
                    ngx_agent_helper_listen(helper, 0);
                    ngx_agent_helper_listen(helper, 1);
                }

            } else {
                ngx_agent_helper_read(helper, events[i].data.ptr,
                                      events[i].events);
            }
        }

        /* no event of this pass names them any more */

        while (!ngx_queue_empty(&ngx_agent_helper_dead)) {
            q = ngx_queue_head(&ngx_agent_helper_dead);
            ngx_queue_remove(q);
            free(ngx_queue_data(q, ngx_agent_helper_conn_t, queue));
        }

        now = ngx_agent_helper_now();

        while (!ngx_queue_empty(&ngx_agent_helper_strangers)) {

            q = ngx_queue_head(&ngx_agent_helper_strangers);
            conn = ngx_queue_data(q, ngx_agent_helper_conn_t, queue);

            if (now < conn->until) {
                break;
            }

            ngx_agent_helper_close(helper, conn);
        }

        if (ngx_agent_helper_paused && now >= ngx_agent_helper_paused) {
            ngx_agent_helper_paused = 0;
            ngx_agent_helper_listen(helper, 1);
        }

        if (ngx_agent_helper_untold
            && now - ngx_agent_helper_second >= 1000)
        {
            ngx_agent_helper_tell(helper);
        }
    }
}


/* The vault, what is shared by the workers, and the keys. */

static void
ngx_agent_helper_forget(ngx_agent_helper_t *helper)
{
    ngx_uint_t              i;
    ngx_list_part_t        *part;
    ngx_shm_zone_t         *zone;
    struct sigaction        sa;
    ngx_agent_main_conf_t  *amcf;

    static const int  ignored[] = {
        SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH, SIGPIPE,
        SIGIO
    };

    /* it ends with its worker, whose connections it has */

    ngx_memzero(&sa, sizeof(struct sigaction));
    sa.sa_handler = SIG_IGN;

    for (i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++) {
        (void) sigaction(ignored[i], &sa, NULL);
    }

    sa.sa_handler = ngx_agent_helper_interrupted;
    (void) sigaction(SIGALRM, &sa, NULL);

    ngx_pid = ngx_getpid();
    ngx_process = NGX_PROCESS_HELPER;
    ngx_setproctitle("agent helper process");

    part = &helper->cycle->shared_memory.part;
    zone = part->elts;

    for (i = 0; /* void */ ; i++) {

        if (i >= part->nelts) {

            if (part->next == NULL) {
                break;
            }

            part = part->next;
            zone = part->elts;
            i = 0;
        }

        if (zone[i].shm.addr) {
            (void) munmap(zone[i].shm.addr, zone[i].shm.size);
        }
    }

    amcf = ngx_http_cycle_get_module_main_conf(helper->cycle,
                                               ngx_agent_broker_module);

    OPENSSL_cleanse(amcf->lease_key, sizeof(amcf->lease_key));
    EVP_PKEY_free(amcf->ca_key);
    amcf->ca_key = NULL;
}


/*
 * A copy of the worker's descriptors would keep boxes' namespaces, and
 * connections that the worker has closed.
 */

static void
ngx_agent_helper_close_others(ngx_agent_helper_t *helper)
{
    ngx_uint_t                i, n;
    ngx_queue_t              *q;
    ngx_socket_t             *keep, from;
    ngx_listening_t          *ls;
    ngx_agent_helper_conn_t  *conn;

    n = 3 + helper->cycle->listening.nelts;

    n += ngx_agent_helper_strangers_count;

    ngx_agent_queue_each(q, &ngx_agent_helper_conns) {
        n++;
    }

    keep = malloc(n * sizeof(ngx_socket_t));
    if (keep == NULL) {
        _exit(1);
    }

    n = 0;
    keep[n++] = STDERR_FILENO;
    keep[n++] = helper->channel;
    keep[n++] = ngx_agent_helper_ep;

    ls = helper->cycle->listening.elts;

    for (i = 0; i < helper->cycle->listening.nelts; i++) {

        if (ls[i].handler == ngx_agent_listen_accepted
            && !helper->is_stopped)
        {
            keep[n++] = ls[i].fd;
        }
    }

    ngx_agent_queue_each(q, &ngx_agent_helper_conns) {
        conn = ngx_queue_data(q, ngx_agent_helper_conn_t, queue);
        keep[n++] = conn->fd;
    }

    ngx_agent_queue_each(q, &ngx_agent_helper_strangers) {
        conn = ngx_queue_data(q, ngx_agent_helper_conn_t, queue);
        keep[n++] = conn->fd;
    }

    ngx_qsort(keep, n, sizeof(ngx_socket_t), ngx_agent_helper_compare);

    from = 0;

    for (i = 0; i < n; i++) {

        if (keep[i] > from) {
            (void) syscall(SYS_close_range, from, keep[i] - 1, 0);
        }

        from = keep[i] + 1;
    }

    (void) syscall(SYS_close_range, from, ~0U, 0);

    free(keep);
}


static int
ngx_agent_helper_compare(const void *one, const void *two)
{
    return *(const ngx_socket_t *) one - *(const ngx_socket_t *) two;
}


/* A call that waits returns. */

static void
ngx_agent_helper_interrupted(int signo)
{
}


/* A connection that an earlier helper had. */

static void
ngx_agent_helper_adopt(const ngx_agent_launcher_t *l)
{
    ngx_agent_helper_conn_t  *conn;

    conn = ngx_agent_helper_add(l->connection->fd, l->id, l->peer.uid);

    if (conn == NULL) {
        _exit(1);
    }

    conn->ended = l->ended;
}


/* What the worker says; and its end, which is ours. */

static void
ngx_agent_helper_orders(ngx_agent_helper_t *helper)
{
    ssize_t                    n;
    ngx_queue_t               *q;
    ngx_agent_helper_conn_t   *conn;
    ngx_agent_helper_order_t   order;

    n = recv(helper->channel, &order, sizeof(order), MSG_DONTWAIT);

    if (n == -1 && (ngx_errno == NGX_EAGAIN || ngx_errno == NGX_EINTR)) {
        return;
    }

    if (n != sizeof(order)) {
        ngx_agent_helper_exit(helper);
    }

    if (order == 0) {
        ngx_agent_helper_stop(helper);
        return;
    }

    ngx_agent_queue_each(q, &ngx_agent_helper_conns) {
        conn = ngx_queue_data(q, ngx_agent_helper_conn_t, queue);

        if (conn->id == order) {
            ngx_agent_helper_answer(conn->fd, PROTOCOL_BUSY,
                                    "a worker of the broker has no connection "
                                    "or descriptor left: raise "
                                    "worker_connections and "
                                    "worker_rlimit_nofile");
            ngx_agent_helper_close(helper, conn);
            return;
        }
    }
}


/*
 * Other helpers accept on the same sockets, and each connection wakes one of
 * them: those that have woken this one, and nobody else, are taken.
 */

static void
ngx_agent_helper_stop(ngx_agent_helper_t *helper)
{
    ngx_uint_t        i;
    ngx_listening_t  *ls;

    ngx_agent_helper_listen(helper, 0);

    ls = helper->cycle->listening.elts;

    for (i = 0; i < helper->cycle->listening.nelts; i++) {

        if (ls[i].handler == ngx_agent_listen_accepted
            && !helper->is_stopped)
        {
            while (ngx_agent_helper_accept(helper, i) == NGX_OK) { /* void */ }
        }
    }

    helper->is_stopped = 1;
    ngx_agent_helper_close_others(helper);
}


/* Accepts on the control sockets, or not for a while. */

static void
ngx_agent_helper_listen(ngx_agent_helper_t *helper, ngx_uint_t on)
{
    int                 op, no;
    ngx_uint_t          i;
    ngx_listening_t    *ls;
    struct epoll_event  ee;

    if (helper->is_stopped) {
        return;
    }

    ls = helper->cycle->listening.elts;
    op = on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL;

    for (i = 0; i < helper->cycle->listening.nelts; i++) {

        if (ls[i].handler != ngx_agent_listen_accepted) {
            continue;
        }

        /*
         * Once one has come whose close waits, none is taken before its
         * sender's right is known.  Not from the start: `resume` has its
         * descriptors in the first message, which may be faster than we are.
         */

        if (on && helper->is_wary) {
            no = 0;
            (void) setsockopt(ls[i].fd, SOL_SOCKET, SO_PASSRIGHTS, &no,
                              sizeof(int));
        }

        ee.events = EPOLLIN|EPOLLEXCLUSIVE;
        ee.data.u64 = i;

        (void) epoll_ctl(ngx_agent_helper_ep, op, ls[i].fd, &ee);

    }
}


/* NGX_OK, or NGX_AGAIN: there is none. */

static ngx_int_t
ngx_agent_helper_accept(ngx_agent_helper_t *helper, ngx_uint_t listening)
{
    ngx_socket_t      s;
    struct ucred      peer;
    ngx_listening_t  *ls;

    ls = helper->cycle->listening.elts;

    s = accept4(ls[listening].fd, NULL, NULL, SOCK_NONBLOCK|SOCK_CLOEXEC);

    if (s == (ngx_socket_t) -1) {

        if (ngx_errno == NGX_EMFILE || ngx_errno == NGX_ENFILE
            || ngx_errno == NGX_ENOMEM || ngx_errno == ENOBUFS)
        {
            ngx_agent_helper_listen(helper, 0);
            ngx_agent_helper_paused = ngx_agent_helper_now()
                                      + NGX_AGENT_HELPER_PAUSE;
        }

        return NGX_AGAIN;
    }

    if (!ngx_agent_helper_may(helper, s, &peer)) {
        ngx_agent_helper_stranger(helper, s, &peer);
        return NGX_OK;
    }

    if (ngx_agent_helper_hung_count(helper->hung, peer.uid)
        >= NGX_AGENT_HUNG_MAX)
    {
        ngx_agent_helper_answer(s, PROTOCOL_BUSY,
                                "descriptors of this user did not come back "
                                "when they were closed: send sockets only, or "
                                "ask the broker's operator for a reload");
        ngx_agent_helper_begin(helper, peer.uid, 0);
        (void) close(s);
        ngx_agent_helper_done(helper);
        return NGX_OK;
    }

    ngx_agent_helper_admit(helper, listening, s, peer.uid);

    return NGX_OK;
}


static void
ngx_agent_helper_admit(ngx_agent_helper_t *helper, ngx_uint_t listening,
    ngx_socket_t s, uid_t uid)
{
    int                          yes;
    struct iovec                 iov;
    struct msghdr                msg;
    struct cmsghdr              *cmsg;
    struct epoll_event           ee;
    ngx_agent_helper_conn_t     *conn;
    ngx_agent_helper_message_t   message;

    union {
        struct cmsghdr  align;
        u_char          space[CMSG_SPACE(sizeof(int))];
    } control;

    yes = 1;
    (void) setsockopt(s, SOL_SOCKET, SO_PASSRIGHTS, &yes, sizeof(int));

    conn = ngx_agent_helper_add(s, ++helper->id, uid);

    if (conn == NULL) {
        (void) close(s);
        return;
    }

    ngx_memzero(&message, sizeof(ngx_agent_helper_message_t));
    message.kind = NGX_AGENT_HELPER_NEW;
    message.id = conn->id;
    message.listening = listening;

    ngx_memzero(&msg, sizeof(struct msghdr));
    iov.iov_base = &message;
    iov.iov_len = sizeof(message);
    msg.msg_iov = &iov;
    msg.msg_iovlen = 1;
    msg.msg_control = &control;
    msg.msg_controllen = sizeof(control);

    cmsg = CMSG_FIRSTHDR(&msg);
    cmsg->cmsg_level = SOL_SOCKET;
    cmsg->cmsg_type = SCM_RIGHTS;
    cmsg->cmsg_len = CMSG_LEN(sizeof(int));
    ngx_memcpy(CMSG_DATA(cmsg), &s, sizeof(int));

    ngx_agent_helper_send(helper, &msg);

    ee.events = EPOLLIN;
    ee.data.ptr = conn;

    (void) epoll_ctl(ngx_agent_helper_ep, EPOLL_CTL_ADD, s, &ee);

    /* what it asks is mostly there already */

    ngx_agent_helper_read(helper, conn, 0);
}


/*
 * A user whom no policy names: it is told so, and nothing of it is read.  The
 * connection is kept until it has sent what it came for, or a second, so that
 * the answer is met by a peer that writes first.
 */

static void
ngx_agent_helper_stranger(ngx_agent_helper_t *helper, ngx_socket_t s,
    struct ucred *peer)
{
    char                      message[160];
    struct epoll_event        ee;
    ngx_agent_helper_conn_t  *conn;

    (void) snprintf(message, sizeof(message),
                    "uid %u is not among the \\\"launchers\\\" of any policy: "
                    "ask the broker's operator to add it to one",
                    (unsigned) peer->uid);

    ngx_agent_helper_answer(s, PROTOCOL_NOT_ALLOWED, message);

    conn = ngx_agent_helper_add(s, 0, peer->uid);

    if (conn == NULL) {
        ngx_agent_helper_begin(helper, peer->uid, 0);
        (void) close(s);
        ngx_agent_helper_done(helper);

    } else {
        conn->until = ngx_agent_helper_now() + NGX_AGENT_HELPER_LINGER;

        ee.events = EPOLLIN;
        ee.data.ptr = conn;

        (void) epoll_ctl(ngx_agent_helper_ep, EPOLL_CTL_ADD, s, &ee);
    }

    if (ngx_agent_helper_strangers_count > NGX_AGENT_HELPER_STRANGERS_MAX) {
        conn = ngx_queue_data(ngx_queue_head(&ngx_agent_helper_strangers),
                              ngx_agent_helper_conn_t, queue);
        ngx_agent_helper_close(helper, conn);
    }

    ngx_agent_helper_last = *peer;
    ngx_agent_helper_untold++;

    if (ngx_agent_helper_now() - ngx_agent_helper_second >= 1000) {
        ngx_agent_helper_second = ngx_agent_helper_now();
        ngx_agent_helper_told = 0;
    }

    if (ngx_agent_helper_told < NGX_AGENT_HELPER_TOLD) {
        ngx_agent_helper_told++;
        ngx_agent_helper_tell(helper);
    }
}


static void
ngx_agent_helper_tell(ngx_agent_helper_t *helper)
{
    struct iovec                 iov;
    struct msghdr                msg;
    ngx_agent_helper_message_t   message;

    ngx_memzero(&message, sizeof(ngx_agent_helper_message_t));
    message.kind = NGX_AGENT_HELPER_STRANGERS;
    message.peer = ngx_agent_helper_last;
    message.count = ngx_agent_helper_untold;

    ngx_agent_helper_untold = 0;

    ngx_memzero(&msg, sizeof(struct msghdr));
    iov.iov_base = &message;
    iov.iov_len = sizeof(message);
    msg.msg_iov = &iov;
    msg.msg_iovlen = 1;

    ngx_agent_helper_send(helper, &msg);
}


static ngx_agent_helper_conn_t *
ngx_agent_helper_add(ngx_socket_t s, uint64_t id, uid_t uid)
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
        ngx_queue_insert_tail(&ngx_agent_helper_conns, &conn->queue);

    } else {
        ngx_queue_insert_tail(&ngx_agent_helper_strangers, &conn->queue);
        ngx_agent_helper_strangers_count++;
    }

    return conn;
}


/* One piece, so that every connection has its turn. */

static void
ngx_agent_helper_read(ngx_agent_helper_t *helper,
    ngx_agent_helper_conn_t *conn, uint32_t events)
{
    u_char   *start, *end;
    ssize_t   n;

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

    if (n == -1 && (ngx_errno == NGX_EAGAIN || ngx_errno == NGX_EINTR)) {
        n = 0;

    } else if (n <= 0) {
        ngx_agent_helper_end(helper, conn, n == -1 || (events & EPOLLHUP));
        return;
    }

    conn->len += n;
    start = conn->line;

    while ((end = memchr(start, '\n', conn->line + conn->len - start))) {
        ngx_agent_helper_line(helper, conn, start, end - start);
        start = end + 1;
    }

    conn->len = conn->line + conn->len - start;

    if (conn->len == PROTOCOL_LINE_MAX) {
        ngx_agent_helper_line(helper, conn, NULL, 0);
        conn->len = 0;
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
            ngx_agent_helper_take(conn, fds[i]);
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
ngx_agent_helper_take(ngx_agent_helper_conn_t *conn, ngx_socket_t s)
{
    const char  *why;

    if (conn->count == PROTOCOL_DOORS_MAX) {
        conn->why = "more than 64 descriptors came before a line";
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
    struct iovec                 iov;
    struct msghdr                msg;
    struct epoll_event           ee;
    ngx_agent_helper_message_t   message;

    ngx_memzero(&message, sizeof(ngx_agent_helper_message_t));
    message.kind = NGX_AGENT_HELPER_END;
    message.id = conn->id;
    message.is_gone = is_gone;

    ngx_memzero(&msg, sizeof(struct msghdr));
    iov.iov_base = &message;
    iov.iov_len = sizeof(message);
    msg.msg_iov = &iov;
    msg.msg_iovlen = 1;

    conn->ended = 1;
    ngx_agent_helper_drop_fds(helper, conn);

    free(conn->line);
    conn->line = NULL;
    conn->len = 0;

    ngx_agent_helper_send(helper, &msg);

    ee.events = 0;                          /* and EPOLLHUP */
    ee.data.ptr = conn;

    if (is_gone
        || epoll_ctl(ngx_agent_helper_ep, EPOLL_CTL_MOD, conn->fd, &ee) == -1)
    {
        ngx_agent_helper_close(helper, conn);
    }
}


static void
ngx_agent_helper_close(ngx_agent_helper_t *helper,
    ngx_agent_helper_conn_t *conn)
{
    ngx_agent_helper_drop_fds(helper, conn);

    /* the worker has it too, so that the entry would stay */

    (void) epoll_ctl(ngx_agent_helper_ep, EPOLL_CTL_DEL, conn->fd, NULL);
    (void) shutdown(conn->fd, SHUT_RDWR);

    ngx_agent_helper_begin(helper, conn->uid, conn->id);
    (void) close(conn->fd);
    ngx_agent_helper_done(helper);

    if (conn->id == 0) {
        ngx_agent_helper_strangers_count--;
    }

    conn->fd = (ngx_socket_t) -1;
    free(conn->line);
    conn->line = NULL;

    ngx_queue_remove(&conn->queue);
    ngx_queue_insert_tail(&ngx_agent_helper_dead, &conn->queue);
}


/* Waits as long as the worker has no time: it is not watched meanwhile. */

static void
ngx_agent_helper_send(ngx_agent_helper_t *helper,
    struct msghdr *msg)
{
    ssize_t  n;

    do {
        n = sendmsg(helper->channel, msg, MSG_NOSIGNAL);
    } while (n == -1 && ngx_errno == NGX_EINTR);

    if (n == -1) {
        ngx_agent_helper_exit(helper);
    }
}


static void
ngx_agent_helper_begin(ngx_agent_helper_t *helper, uid_t uid, uint64_t id)
{
    helper->page->uid = uid;
    helper->page->id = id;
    ngx_memory_barrier();
    helper->page->turn++;

    /* a socket that lingers can be interrupted, and waits for nobody */

    ngx_agent_given_interrupt(1);
}


static void
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

static void
ngx_agent_helper_exit(ngx_agent_helper_t *helper)
{
    ngx_queue_t              *q;
    ngx_agent_helper_conn_t  *conn;

    if (!helper->page->abandoned) {

        ngx_agent_queue_each(q, &ngx_agent_helper_conns) {
            conn = ngx_queue_data(q, ngx_agent_helper_conn_t, queue);
            (void) shutdown(conn->fd, SHUT_RDWR);
        }
    }

    _exit(0);
}


static ngx_msec_t
ngx_agent_helper_now(void)
{
    struct timespec  ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts);

    return (ngx_msec_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}
