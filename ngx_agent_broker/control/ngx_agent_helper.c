/*
 * The helper's own process: a small loop, which knows nothing of tasks.  Calls
 * that touch what a launcher has sent are made between ngx_agent_helper_begin()
 * and ngx_agent_helper_done(), which the worker watches.
 */


#include "control/ngx_agent_helper.h"

#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>


#define NGX_AGENT_HELPER_EVENTS     64
#define NGX_AGENT_HELPER_PAUSE      100     /* ms, without descriptors */

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS  83                   /* Linux 6.16 */
#endif

#ifndef SYS_close_range
#define SYS_close_range  436                /* Linux 5.9 */
#endif


static void ngx_agent_helper_init(ngx_agent_helper_t *helper);
static void ngx_agent_helper_event(ngx_agent_helper_t *helper,
    struct epoll_event *event);
static void ngx_agent_helper_passed(ngx_agent_helper_t *helper);
static void ngx_agent_helper_forget(ngx_agent_helper_t *helper);
static void ngx_agent_helper_interrupted(int signo);
static void ngx_agent_helper_close_others(ngx_agent_helper_t *helper);
static void ngx_agent_helper_adopt(const ngx_agent_launcher_t *l, void *data);
static int ngx_agent_helper_compare(const void *one, const void *two);
static void ngx_agent_helper_orders(ngx_agent_helper_t *helper);
static void ngx_agent_helper_stop(ngx_agent_helper_t *helper);
static void ngx_agent_helper_listen(ngx_agent_helper_t *helper,
    ngx_uint_t on);


/* What an event is of: a listener, the channel, or a connection. */

#define NGX_AGENT_HELPER_CHANNEL    ((uint64_t) -1)


void
ngx_agent_helper_run(ngx_agent_helper_t *helper)
{
    int                 i, n, timeout;
    struct epoll_event  events[NGX_AGENT_HELPER_EVENTS];

    ngx_agent_helper_init(helper);

    for ( ;; ) {

        timeout = -1;

        if (helper->paused
            || !ngx_queue_empty(&helper->strangers)
            || ngx_agent_helper_has_untold())
        {
            timeout = NGX_AGENT_HELPER_PAUSE;
        }

        n = epoll_wait(helper->ep, events, NGX_AGENT_HELPER_EVENTS,
                       timeout);

        for (i = 0; i < n; i++) {
            ngx_agent_helper_event(helper, &events[i]);
        }

        ngx_agent_helper_passed(helper);
    }
}


/* What this process must not have is closed before a peer is heard. */

static void
ngx_agent_helper_init(ngx_agent_helper_t *helper)
{
    ngx_queue_t              *q;
    struct epoll_event        ee;
    ngx_agent_helper_conn_t  *conn;

    ngx_queue_init(&helper->conns);
    ngx_queue_init(&helper->strangers);
    ngx_queue_init(&helper->dead);

    ngx_agent_helper_forget(helper);
    ngx_agent_control_each(ngx_agent_helper_adopt, helper);

    helper->ep = epoll_create1(EPOLL_CLOEXEC);

    ee.events = EPOLLIN;
    ee.data.u64 = NGX_AGENT_HELPER_CHANNEL;

    ngx_agent_helper_close_others(helper);

    if (helper->ep == -1
        || epoll_ctl(helper->ep, EPOLL_CTL_ADD, helper->channel, &ee)
           == -1)
    {
        ngx_agent_helper_exit(helper);
    }

    ngx_agent_queue_each(q, &helper->conns) {
        conn = ngx_queue_data(q, ngx_agent_helper_conn_t, queue);

        ee.events = conn->ended ? 0 : EPOLLIN;
        ee.data.ptr = conn;

        (void) epoll_ctl(helper->ep, EPOLL_CTL_ADD, conn->fd, &ee);
    }

    ngx_agent_helper_listen(helper, 1);
}


static void
ngx_agent_helper_event(ngx_agent_helper_t *helper, struct epoll_event *event)
{
    uint64_t   data;
    ngx_int_t  rc;

    data = event->data.u64;

    if (data == NGX_AGENT_HELPER_CHANNEL) {
        ngx_agent_helper_orders(helper);
        return;
    }

    if (data >= helper->cycle->listening.nelts) {
        ngx_agent_helper_read(helper, event->data.ptr, event->events);
        return;
    }

    if (helper->is_stopped || helper->paused) {
        return;
    }

    rc = ngx_agent_helper_accept(helper, data);

    if (rc == NGX_AGAIN) {
        return;
    }

    ngx_agent_helper_listen(helper, 0);

    if (rc == NGX_OK) {

        /* now it is another helper's turn, which waits longer */

        ngx_agent_helper_listen(helper, 1);

    } else {
        helper->paused = ngx_agent_helper_now() + NGX_AGENT_HELPER_PAUSE;
    }
}


/* After the events of one epoll_wait(). */

static void
ngx_agent_helper_passed(ngx_agent_helper_t *helper)
{
    ngx_msec_t                now;
    ngx_queue_t              *q;
    ngx_agent_helper_conn_t  *conn;

    /* no event names them any more */

    q = ngx_queue_head(&helper->dead);

    while (q != ngx_queue_sentinel(&helper->dead)) {
        conn = ngx_queue_data(q, ngx_agent_helper_conn_t, queue);
        q = ngx_queue_next(q);
        free(conn);
    }

    ngx_queue_init(&helper->dead);

    now = ngx_agent_helper_now();

    while (!ngx_queue_empty(&helper->strangers)) {

        q = ngx_queue_head(&helper->strangers);
        conn = ngx_queue_data(q, ngx_agent_helper_conn_t, queue);

        if (now < conn->until) {
            break;
        }

        ngx_agent_helper_close(helper, conn);
    }

    if (helper->paused && now >= helper->paused) {
        helper->paused = 0;
        ngx_agent_helper_listen(helper, 1);
    }

    ngx_agent_helper_tell_rest(helper);
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

    ngx_agent_secrets_free(&amcf->secrets);
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

    n += helper->strangers_count;

    ngx_agent_queue_each(q, &helper->conns) {
        n++;
    }

    keep = malloc(n * sizeof(ngx_socket_t));
    if (keep == NULL) {
        _exit(1);
    }

    n = 0;
    keep[n++] = STDERR_FILENO;
    keep[n++] = helper->channel;
    keep[n++] = helper->ep;

    ls = helper->cycle->listening.elts;

    for (i = 0; i < helper->cycle->listening.nelts; i++) {

        if (ls[i].handler == ngx_agent_listen_accepted
            && !helper->is_stopped)
        {
            keep[n++] = ls[i].fd;
        }
    }

    ngx_agent_queue_each(q, &helper->conns) {
        conn = ngx_queue_data(q, ngx_agent_helper_conn_t, queue);
        keep[n++] = conn->fd;
    }

    ngx_agent_queue_each(q, &helper->strangers) {
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
ngx_agent_helper_adopt(const ngx_agent_launcher_t *l, void *data)
{
    ngx_agent_helper_t *helper = data;

    ngx_agent_helper_conn_t  *conn;

    conn = ngx_agent_helper_add(helper, l->connection->fd, l->id,
                                l->peer.uid);

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

    ngx_agent_queue_each(q, &helper->conns) {
        conn = ngx_queue_data(q, ngx_agent_helper_conn_t, queue);

        if (conn->id == order) {
            ngx_agent_helper_answer(conn->fd, PROTOCOL_BUSY,
                                    "a worker of the broker has no connection "
                                    "or descriptor left: raise "
                                    "\"worker_connections\" and "
                                    "\"worker_rlimit_nofile\"");
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

        (void) epoll_ctl(helper->ep, op, ls[i].fd, &ee);

    }
}
