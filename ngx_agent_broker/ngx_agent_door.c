/*
 * A box's doors.  The launcher opened the listening sockets inside the box's
 * net namespace and handed them over; this file checks them, accepts on
 * them, and knows which connection belongs to which task: the task is the
 * listener, so no byte a box sends can change it.
 *
 * The launcher keeps copies of the same open file descriptions, and may be
 * hostile to its neighbours.  What follows from that:
 *
 *   - an epoll entry outlives our close(), so it is removed before it;
 *   - O_NONBLOCK can be cleared and a pending connection stolen under our
 *     accept4(): a timer interrupts it after 2 ms, and EINTR there is proof;
 *   - shutdown() on the listener makes it readable for ever: EINVAL closes
 *     the door;
 *   - socket options are inherited by what is accepted: they are reset.
 */


#include "ngx_agent_broker.h"

#include <signal.h>
#include <sys/syscall.h>


#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE  71             /* Linux 5.14 */
#endif

#ifndef IPV6_FREEBIND
#define IPV6_FREEBIND  78               /* Linux 4.15 */
#endif

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id  _sigev_un._tid
#endif

#define NGX_AGENT_ACCEPT_BATCH   16
#define NGX_AGENT_ACCEPT_NS      2000000
#define NGX_AGENT_ACCEPT_PAUSE   500    /* ms, when descriptors run out */


static ngx_int_t ngx_agent_door_open(ngx_agent_task_t *task,
    ngx_agent_door_t *door, ngx_agent_srv_conf_t *ascf,
    const ngx_agent_door_spec_t *spec, ngx_socket_t s);
static void ngx_agent_door_entrance(ngx_agent_entrance_t *entrance,
    ngx_agent_door_t *door, ngx_uint_t tls);
static void ngx_agent_door_close(ngx_agent_door_t *door);
static void ngx_agent_door_accept(ngx_event_t *rev);
static void ngx_agent_door_accepted(ngx_agent_door_t *door, ngx_socket_t s,
    ngx_sockaddr_t *sa, socklen_t socklen);
static ngx_uint_t ngx_agent_door_room(ngx_agent_task_t *task);
static void ngx_agent_doors_pause(ngx_agent_task_t *task);
static void ngx_agent_doors_resume(ngx_agent_task_t *task);
static void ngx_agent_door_timer(ngx_uint_t on);
static void ngx_agent_door_connection(ngx_connection_t *c);
static void ngx_agent_connection_cleanup(void *data);


/* The door of a listening socket itself, as of no accepted connection. */

#define ngx_agent_door_of(listening)                                          \
    ngx_queue_data(listening, ngx_agent_door_t, ls)


static timer_t     ngx_agent_accept_timer;
static ngx_pid_t   ngx_agent_accept_timer_pid;


uint64_t
ngx_agent_netns_cookie(ngx_socket_t s)
{
    uint64_t   cookie;
    socklen_t  len;

    cookie = 0;
    len = sizeof(cookie);

    if (getsockopt(s, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len) == -1) {
        return 0;
    }

    return cookie;
}


const char *
ngx_agent_door_check(ngx_socket_t s, const ngx_agent_door_spec_t *door,
    uint64_t broker_netns, uint64_t *netns)
{
    int             value;
    uint64_t        cookie;
    socklen_t       len;
    ngx_uint_t      udp;
    ngx_sockaddr_t  sa;

    udp = (door->kind == NGX_AGENT_DOOR_DNS_UDP);

    /* nothing but a socket answers this, and it never blocks */

    len = sizeof(int);

    if (getsockopt(s, SOL_SOCKET, SO_DOMAIN, &value, &len) == -1) {
        return "a descriptor is not a socket";
    }

    if (value != AF_INET && value != AF_INET6) {
        return "a socket is not an inet socket";
    }

    len = sizeof(int);

    if (getsockopt(s, SOL_SOCKET, SO_TYPE, &value, &len) == -1
        || value != (udp ? SOCK_DGRAM : SOCK_STREAM))
    {
        return udp ? "a socket is not a datagram socket"
                   : "a socket is not a stream socket";
    }

    /* MPTCP and SCTP listen as well */

    len = sizeof(int);

    if (getsockopt(s, SOL_SOCKET, SO_PROTOCOL, &value, &len) == -1
        || value != (udp ? IPPROTO_UDP : IPPROTO_TCP))
    {
        return udp ? "a socket is not a UDP socket"
                   : "a socket is not a TCP socket";
    }

    len = sizeof(int);

    if (!udp
        && (getsockopt(s, SOL_SOCKET, SO_ACCEPTCONN, &value, &len) == -1
            || value != 1))
    {
        return "a socket is not listening";
    }

    len = sizeof(ngx_sockaddr_t);

    if (udp && getpeername(s, &sa.sockaddr, &len) == 0) {
        return "a datagram socket is connected";
    }

    cookie = ngx_agent_netns_cookie(s);

    if (cookie == 0 || cookie == broker_netns) {
        return "a socket is not in a net namespace of its own";
    }

    if (*netns == 0) {
        *netns = cookie;
    }

    if (*netns != cookie) {
        return "the sockets are in different net namespaces";
    }

    len = sizeof(ngx_sockaddr_t);

    if (getsockname(s, &sa.sockaddr, &len) == -1
        || ngx_inet_get_port(&sa.sockaddr) != door->port)
    {
        return "a socket is not bound to its door's port";
    }

    return NULL;
}


ngx_agent_task_t *
ngx_agent_task_create(ngx_log_t *log)
{
    ngx_pool_t        *pool;
    ngx_agent_task_t  *task;

    pool = ngx_create_pool(4096, ngx_cycle->log);
    if (pool == NULL) {
        return NULL;
    }

    task = ngx_pcalloc(pool, sizeof(ngx_agent_task_t));
    if (task == NULL) {
        ngx_destroy_pool(pool);
        return NULL;
    }

    task->pool = pool;
    task->references = 1;
    ngx_queue_init(&task->connections);

    return task;
}


void
ngx_agent_task_release(ngx_agent_task_t *task)
{
    if (--task->references == 0) {
        ngx_destroy_pool(task->pool);
    }
}


ngx_int_t
ngx_agent_doors_open(ngx_agent_task_t *task, ngx_agent_srv_conf_t *ascf,
    const ngx_agent_door_spec_t *specs, ngx_socket_t *fds, ngx_uint_t n)
{
    ngx_uint_t  i;

    task->doors = ngx_pcalloc(task->pool, n * sizeof(ngx_agent_door_t));

    for (i = 0; i < n; i++) {

        if (task->doors == NULL
            || ngx_agent_door_open(task, &task->doors[i], ascf, &specs[i],
                                   fds[i])
               != NGX_OK)
        {
            /* what is not a door yet is closed here */

            for ( /* void */ ; i < n; i++) {
                (void) ngx_close_socket(fds[i]);
            }

            ngx_agent_doors_close(task);

            return NGX_ERROR;
        }

        task->doors_count++;
    }

    return NGX_OK;
}


void
ngx_agent_doors_close(ngx_agent_task_t *task)
{
    ngx_uint_t  i;

    for (i = 0; i < task->doors_count; i++) {
        ngx_agent_door_close(&task->doors[i]);
    }
}


/*
 * The door as a listening socket of nginx's own: the port and address that
 * core looks up lead to the server with agent_control, which has no other
 * listener.
 */

static ngx_int_t
ngx_agent_door_open(ngx_agent_task_t *task, ngx_agent_door_t *door,
    ngx_agent_srv_conf_t *ascf, const ngx_agent_door_spec_t *spec,
    ngx_socket_t s)
{
    int                one;
    socklen_t          len;
    ngx_connection_t  *c;
    ngx_listening_t   *ls;

    one = 1;

    door->kind = spec->kind;
    door->port = spec->port;
    door->core = ascf->core;
    door->task = task;

    ls = &door->ls;

    len = sizeof(ngx_sockaddr_t);

    if (getsockname(s, &door->sockaddr.sockaddr, &len) == -1
        || ngx_nonblocking(s) == -1)
    {
        return NGX_ERROR;
    }

    ls->fd = s;
    ls->sockaddr = &door->sockaddr.sockaddr;
    ls->socklen = len;
    ls->type = SOCK_STREAM;
    ls->handler = ngx_agent_door_connection;
    ls->pool_size = ascf->core->connection_pool_size;
    ls->addr_ntop = 1;
    ls->addr_text_max_len = NGX_SOCKADDR_STRLEN;
    ls->logp = ngx_cycle->log;
    ls->log = *ngx_cycle->log;
    ls->log.data = &ls->addr_text;
    ls->log.handler = ngx_accept_log_error;

    ls->addr_text.data = ngx_pnalloc(task->pool, NGX_SOCKADDR_STRLEN);
    if (ls->addr_text.data == NULL) {
        return NGX_ERROR;
    }

    ls->addr_text.len = ngx_sock_ntop(ls->sockaddr, len, ls->addr_text.data,
                                      NGX_SOCKADDR_STRLEN, 1);

    ngx_agent_door_entrance(&door->plain, door, 0);
    ngx_agent_door_entrance(&door->tls, door, 1);

    ls->servers = &door->plain.port;

    c = ngx_get_connection(s, ngx_cycle->log);
    if (c == NULL) {
        return NGX_ERROR;
    }

    c->type = SOCK_STREAM;
    c->log = &ls->log;
    c->listening = ls;
    c->read->log = c->log;
    c->read->accept = 1;
    c->read->handler = ngx_agent_door_accept;

    if (door->kind == NGX_AGENT_DOOR_DNS_UDP) {

        /*
         * An answer comes from the address that was asked.  Every address is
         * local in a box, by route; IPv6 wants to be told that it may be one
         * of no interface.
         */

        (void) setsockopt(s, IPPROTO_IPV6, IPV6_RECVPKTINFO, &one,
                          sizeof(int));
        (void) setsockopt(s, IPPROTO_IPV6, IPV6_FREEBIND, &one, sizeof(int));

        c->type = SOCK_DGRAM;
        c->read->handler = ngx_agent_dns_udp;
    }

    ls->connection = c;
    door->connection = c;

    if (ngx_add_event(c->read, NGX_READ_EVENT, 0) == NGX_ERROR) {
        ngx_free_connection(c);
        c->fd = (ngx_socket_t) -1;
        door->connection = NULL;
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* What core would have made of `listen [::]:PORT [ssl http2]`. */

static void
ngx_agent_door_entrance(ngx_agent_entrance_t *entrance,
    ngx_agent_door_t *door, ngx_uint_t tls)
{
    ngx_http_addr_conf_t  *conf;

    conf = &entrance->addr.in.conf;

#if (NGX_HAVE_INET6)
    if (door->ls.sockaddr->sa_family == AF_INET6) {
        conf = &entrance->addr.in6.conf;
    }
#endif

    conf->default_server = door->core;
    conf->ssl = tls;
    conf->http2 = tls;

    entrance->port.naddrs = 1;
    entrance->port.addrs = &entrance->addr;
}


static void
ngx_agent_door_close(ngx_agent_door_t *door)
{
    ngx_socket_t       s;
    ngx_connection_t  *c;

    c = door->connection;

    if (c == NULL) {
        return;
    }

    door->connection = NULL;

    /*
     * Before the close: the launcher shares the description, so the entry
     * would stay in epoll and wake this worker for every connection.
     */

    if (c->read->active) {
        (void) ngx_del_event(c->read, NGX_READ_EVENT, 0);
    }

    if (c->read->timer_set) {
        ngx_del_timer(c->read);
    }

    if (c->read->posted) {
        ngx_delete_posted_event(c->read);
    }

    s = c->fd;

    ngx_free_connection(c);
    c->fd = (ngx_socket_t) -1;

    (void) ngx_close_socket(s);
}


static void
ngx_agent_door_accept(ngx_event_t *rev)
{
    ngx_err_t          err;
    ngx_uint_t         i, n, room;
    ngx_agent_door_t  *door;
    ngx_connection_t  *lc;

    struct {
        ngx_socket_t    s;
        socklen_t       socklen;
        ngx_sockaddr_t  sa;
    } accepted[NGX_AGENT_ACCEPT_BATCH];

    lc = rev->data;
    door = ngx_agent_door_of(lc->listening);

    if (rev->timedout) {
        rev->timedout = 0;

        if (ngx_add_event(rev, NGX_READ_EVENT, 0) == NGX_ERROR) {
            ngx_agent_door_close(door);
        }

        return;
    }

    rev->ready = 0;
    err = 0;
    room = ngx_agent_door_room(door->task);

    if (room == 0) {
        ngx_agent_doors_pause(door->task);
        return;
    }

    ngx_agent_door_timer(1);

    for (n = 0; n < ngx_min(room, NGX_AGENT_ACCEPT_BATCH); n++) {

        accepted[n].socklen = sizeof(ngx_sockaddr_t);
        accepted[n].s = accept4(lc->fd, &accepted[n].sa.sockaddr,
                                &accepted[n].socklen,
                                SOCK_NONBLOCK|SOCK_CLOEXEC);

        if (accepted[n].s == (ngx_socket_t) -1) {
            err = ngx_socket_errno;
            break;
        }
    }

    ngx_agent_door_timer(0);

    switch (err) {

    case 0:
    case NGX_EAGAIN:
    case NGX_ECONNABORTED:
        break;

    case NGX_EMFILE:
    case NGX_ENFILE:
    case NGX_ENOMEM:
    case ENOBUFS:
        ngx_log_error(NGX_LOG_CRIT, rev->log, err,
                      "accept4() on a box's door failed");

        (void) ngx_del_event(rev, NGX_READ_EVENT, 0);
        ngx_add_timer(rev, NGX_AGENT_ACCEPT_PAUSE);

        break;

    default:
        ngx_log_error(NGX_LOG_ERR, rev->log, err,
                      "the listening socket of task %*s was tampered "
                      "with, the door is closed",
                      (size_t) NGX_AGENT_ID_LEN, door->task->id);

        ngx_agent_door_close(door);

        break;
    }

    /* a connection's handler may end the task: it is held meanwhile */

    door->task->references++;

    for (i = 0; i < n; i++) {
        ngx_agent_door_accepted(door, accepted[i].s, &accepted[i].sa,
                                accepted[i].socklen);
    }

    ngx_agent_task_release(door->task);
}


/*
 * How many more connections the task may have.  At its bound one of its own
 * that waits between two requests makes room, as core does when its
 * connections run out; if there is none, what comes waits in the queue.
 */

static ngx_uint_t
ngx_agent_door_room(ngx_agent_task_t *task)
{
    ngx_queue_t             *q;
    ngx_connection_t        *c;
    ngx_agent_connection_t  *ac;

    if (task->connections_count < task->connections_max) {
        return task->connections_max - task->connections_count;
    }

    for (q = ngx_queue_head(&task->connections);
         q != ngx_queue_sentinel(&task->connections);
         q = ngx_queue_next(q))
    {
        ac = ngx_queue_data(q, ngx_agent_connection_t, queue);
        c = ac->connection;

        if (c->idle && c->reusable) {
            c->close = 1;
            c->read->handler(c->read);
            break;
        }
    }

    return task->connections_count < task->connections_max ? 1 : 0;
}


static void
ngx_agent_doors_pause(ngx_agent_task_t *task)
{
    ngx_uint_t         i;
    ngx_connection_t  *c;

    task->paused = 1;

    for (i = 0; i < task->doors_count; i++) {

        c = task->doors[i].connection;

        if (c && c->read->active
            && task->doors[i].kind != NGX_AGENT_DOOR_DNS_UDP)
        {
            (void) ngx_del_event(c->read, NGX_READ_EVENT, 0);
        }
    }
}


static void
ngx_agent_doors_resume(ngx_agent_task_t *task)
{
    ngx_uint_t         i;
    ngx_connection_t  *c;

    task->paused = 0;

    for (i = 0; i < task->doors_count; i++) {

        c = task->doors[i].connection;

        if (c && !c->read->active && !c->read->timer_set
            && ngx_add_event(c->read, NGX_READ_EVENT, 0) == NGX_ERROR)
        {
            ngx_agent_door_close(&task->doors[i]);
        }
    }
}


static void
ngx_agent_door_timer(ngx_uint_t on)
{
    struct sigevent    event;
    struct itimerspec  when;

    if (ngx_agent_accept_timer_pid != ngx_pid) {

        /* timers are not inherited by fork(2) */

        ngx_memzero(&event, sizeof(struct sigevent));
        event.sigev_notify = SIGEV_THREAD_ID;
        event.sigev_signo = SIGALRM;
        event.sigev_notify_thread_id = syscall(SYS_gettid);

        if (timer_create(CLOCK_MONOTONIC, &event, &ngx_agent_accept_timer)
            == -1)
        {
            return;
        }

        ngx_agent_accept_timer_pid = ngx_pid;
    }

    ngx_memzero(&when, sizeof(struct itimerspec));

    if (on) {
        when.it_value.tv_nsec = NGX_AGENT_ACCEPT_NS;
        when.it_interval.tv_nsec = NGX_AGENT_ACCEPT_NS;
    }

    (void) timer_settime(ngx_agent_accept_timer, 0, &when, NULL);
}


/* What ngx_event_accept() does for a connection of its own. */

static void
ngx_agent_door_accepted(ngx_agent_door_t *door, ngx_socket_t s,
    ngx_sockaddr_t *sa, socklen_t socklen)
{
    int                      zero;
    ngx_log_t               *log;
    struct linger            linger;
    ngx_listening_t         *ls;
    ngx_connection_t        *c;
    ngx_pool_cleanup_t      *cln;
    ngx_agent_connection_t  *ac;

    ls = &door->ls;

    linger.l_onoff = 0;
    linger.l_linger = 0;
    zero = -1;

    (void) setsockopt(s, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    (void) setsockopt(s, SOL_SOCKET, SO_PEEK_OFF, &zero, sizeof(zero));

#if (NGX_STAT_STUB)
    (void) ngx_atomic_fetch_add(ngx_stat_accepted, 1);
#endif

    c = ngx_get_connection(s, ls->logp);

    if (c == NULL) {
        (void) ngx_close_socket(s);
        return;
    }

#if (NGX_STAT_STUB)
    (void) ngx_atomic_fetch_add(ngx_stat_active, 1);
#endif

    c->type = SOCK_STREAM;

    c->pool = ngx_create_pool(ls->pool_size, ls->logp);
    if (c->pool == NULL) {
        goto failed;
    }

    c->sockaddr = ngx_palloc(c->pool, socklen);
    log = ngx_palloc(c->pool, sizeof(ngx_log_t));
    ac = ngx_pcalloc(c->pool, sizeof(ngx_agent_connection_t));
    cln = ngx_pool_cleanup_add(c->pool, 0);

    if (c->sockaddr == NULL || log == NULL || ac == NULL || cln == NULL) {
        goto failed;
    }

    ngx_memcpy(c->sockaddr, sa, socklen);

    *log = ls->log;
    log->data = NULL;
    log->handler = NULL;

    c->recv = ngx_recv;
    c->send = ngx_send;
    c->recv_chain = ngx_recv_chain;
    c->send_chain = ngx_send_chain;

    c->log = log;
    c->pool->log = log;

    ac->ls = *ls;

    c->socklen = socklen;
    c->listening = &ac->ls;
    c->local_sockaddr = ls->sockaddr;
    c->local_socklen = ls->socklen;

    c->write->ready = 1;
    c->read->log = log;
    c->write->log = log;

    c->number = ngx_atomic_fetch_add(ngx_connection_counter, 1);
    c->start_time = ngx_current_msec;

    c->addr_text.data = ngx_pnalloc(c->pool, ls->addr_text_max_len);
    if (c->addr_text.data == NULL) {
        goto failed;
    }

    c->addr_text.len = ngx_sock_ntop(c->sockaddr, c->socklen,
                                     c->addr_text.data,
                                     ls->addr_text_max_len, 0);

    ac->connection = c;
    ac->door = door;
    ac->task = door->task;
    door->task->references++;
    ngx_queue_insert_tail(&door->task->connections, &ac->queue);
    door->task->connections_count++;

    cln->handler = ngx_agent_connection_cleanup;
    cln->data = ac;

#if (NGX_STAT_STUB)
    (void) ngx_atomic_fetch_add(ngx_stat_handled, 1);
#endif

    ls->handler(c);

    return;

failed:

    if (c->pool) {
        ngx_destroy_pool(c->pool);
    }

    ngx_close_connection(c);

#if (NGX_STAT_STUB)
    (void) ngx_atomic_fetch_add(ngx_stat_active, -1);
#endif
}


static void
ngx_agent_connection_cleanup(void *data)
{
    ngx_agent_connection_t *ac = data;

    ngx_agent_task_t  *task;

    task = ac->task;

    ngx_queue_remove(&ac->queue);
    task->connections_count--;

    if (task->paused && !task->ended) {
        ngx_agent_doors_resume(task);
    }

    if (task->idle && ngx_queue_empty(&task->connections)) {
        task->idle(task);
    }

    ngx_agent_task_release(task);
}


static void
ngx_agent_door_connection(ngx_connection_t *c)
{
    if (ngx_agent_connection(c)->door->kind == NGX_AGENT_DOOR_DNS_TCP) {
        ngx_agent_dns_tcp(c);

    } else {
        ngx_agent_connect(c);
    }
}


ngx_agent_connection_t *
ngx_agent_connection(ngx_connection_t *c)
{
    if (c->listening == NULL
        || c->listening->handler != ngx_agent_door_connection)
    {
        return NULL;
    }

    return (ngx_agent_connection_t *) c->listening;
}


ngx_agent_task_t *
ngx_agent_connection_task(ngx_connection_t *c)
{
    ngx_agent_connection_t  *ac;

    ac = ngx_agent_connection(c);

    return ac ? ac->task : NULL;
}


const char *
ngx_agent_door_name(ngx_agent_door_e kind)
{
    static const char  *names[NGX_AGENT_DOORS] = {
        [NGX_AGENT_DOOR_PROXY] = "proxy",
        [NGX_AGENT_DOOR_WEB] = "web",
        [NGX_AGENT_DOOR_DNS_UDP] = "dns-udp",
        [NGX_AGENT_DOOR_DNS_TCP] = "dns-tcp",
    };

    return names[kind];
}


/*
 * The connections see the end of their peer, and core's own handlers finish
 * them: requests are logged, upstream connections closed.
 */

void
ngx_agent_task_cut(ngx_agent_task_t *task)
{
    ngx_queue_t             *q;
    ngx_agent_connection_t  *ac;

    task->ended = 1;

    ngx_agent_reuse_drop(task);

    for (q = ngx_queue_head(&task->connections);
         q != ngx_queue_sentinel(&task->connections);
         q = ngx_queue_next(q))
    {
        ac = ngx_queue_data(q, ngx_agent_connection_t, queue);

        (void) shutdown(ac->connection->fd, SHUT_RDWR);
    }
}
