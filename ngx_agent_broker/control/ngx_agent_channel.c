/*
 * A worker's side of its helper: starts it, hears what it says, and starts
 * another one in its place when it does not come back from a descriptor.
 *
 * The one that hangs is left to itself: it may be past any signal, and what it
 * has in its hands is closed there when its call returns.
 */


#include "control/ngx_agent_helper.h"

#include <sys/mman.h>
#include <sys/wait.h>


#define NGX_AGENT_CHANNEL_BATCH    16       /* messages, then others' turn */
#define NGX_AGENT_CHANNEL_WATCH    500      /* ms; twice the same: it hangs */
#define NGX_AGENT_CHANNEL_LEFT     64       /* helpers that hang, at most */
#define NGX_AGENT_CHANNEL_BUFFER   (192 * 1024)


static ngx_int_t ngx_agent_channel_spawn(void);
static ngx_uint_t ngx_agent_channel_take_listening(ngx_cycle_t *cycle);
static void ngx_agent_channel_read(ngx_event_t *rev);
static ngx_int_t ngx_agent_channel_message(void);
static void ngx_agent_channel_dispatch(ngx_agent_helper_message_t *message,
    ngx_agent_given_t *given, ngx_socket_t *fds, ngx_uint_t count,
    u_char *line, size_t len);
static void ngx_agent_channel_order(ngx_agent_helper_order_t order);
static void ngx_agent_channel_close(void);
static void ngx_agent_channel_watch(ngx_event_t *ev);
static ngx_uint_t ngx_agent_channel_hangs(void);
static void ngx_agent_channel_hung(uid_t uid);


static ngx_agent_helper_t        ngx_agent_channel_helper;
static ngx_agent_helper_hung_t
    ngx_agent_channel_hung_uids[NGX_AGENT_HUNG_UIDS];
static ngx_pid_t                 ngx_agent_channel_pid;
static ngx_pid_t                 ngx_agent_channel_left[NGX_AGENT_CHANNEL_LEFT];
static ngx_connection_t         *ngx_agent_channel_connection;
static ngx_uint_t                ngx_agent_channel_turn;    /* seen last */
static ngx_uint_t                ngx_agent_channel_seen;    /* how often */
static ngx_event_t               ngx_agent_channel_event;
static ngx_connection_t          ngx_agent_channel_dummy;


ngx_int_t
ngx_agent_channel_start(ngx_cycle_t *cycle)
{
    ngx_agent_main_conf_t  *amcf;

    amcf = ngx_http_cycle_get_module_main_conf(cycle,
                                               ngx_agent_broker_module);

    if (ngx_agent_control_start(cycle) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_agent_channel_take_listening(cycle) == 0) {
        return NGX_OK;
    }

    ngx_agent_channel_helper.cycle = cycle;
    ngx_agent_channel_helper.set = amcf->set;
    ngx_agent_channel_helper.hung = ngx_agent_channel_hung_uids;

    if (ngx_agent_channel_spawn() != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_agent_channel_dummy.fd = (ngx_socket_t) -1;
    ngx_agent_channel_event.handler = ngx_agent_channel_watch;
    ngx_agent_channel_event.data = &ngx_agent_channel_dummy;
    ngx_agent_channel_event.log = cycle->log;
    ngx_agent_channel_event.cancelable = 1;

    ngx_add_timer(&ngx_agent_channel_event, NGX_AGENT_CHANNEL_WATCH);

    return NGX_OK;
}


/* The helper accepts on these, and core does not. */

static ngx_uint_t
ngx_agent_channel_take_listening(ngx_cycle_t *cycle)
{
    ngx_uint_t         i, n;
    ngx_listening_t   *ls;
    ngx_connection_t  *c;

    n = 0;
    ls = cycle->listening.elts;

    for (i = 0; i < cycle->listening.nelts; i++) {

        if (ls[i].handler != ngx_agent_listen_accepted) {
            continue;
        }

        n++;
        c = ls[i].connection;

        if (c == NULL) {
            continue;
        }

        if (c->read->active) {
            (void) ngx_del_event(c->read, NGX_READ_EVENT, 0);
        }

        ngx_free_connection(c);
        c->fd = (ngx_socket_t) -1;
        ls[i].connection = NULL;
    }

    return n;
}


static ngx_int_t
ngx_agent_channel_spawn(void)
{
    int                       size, pair[2];
    ngx_log_t                *log;
    ngx_pid_t                 pid;
    ngx_connection_t         *c;
    ngx_agent_helper_page_t  *page;

    log = ngx_cycle->log;

    page = mmap(NULL, sizeof(ngx_agent_helper_page_t), PROT_READ|PROT_WRITE,
                MAP_SHARED|MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED) {
        ngx_log_error(NGX_LOG_ALERT, log, ngx_errno,
                      "mmap() for the control helper failed");
        return NGX_ERROR;
    }

    /* it keeps messages apart */

    if (socketpair(AF_UNIX, SOCK_SEQPACKET|SOCK_CLOEXEC, 0, pair) == -1) {
        ngx_log_error(NGX_LOG_ALERT, log, ngx_errno,
                      "socketpair() for the control helper failed");
        goto failed;
    }

    size = NGX_AGENT_CHANNEL_BUFFER;
    (void) setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(int));

    c = NULL;

    if (ngx_nonblocking(pair[0]) != -1) {
        c = ngx_get_connection(pair[0], log);
    }

    if (c == NULL) {
        goto failed_pair;
    }

    ngx_agent_channel_helper.page = page;
    ngx_agent_channel_helper.channel = pair[1];

    pid = fork();

    if (pid == 0) {
        ngx_agent_helper_run(&ngx_agent_channel_helper);
    }

    if (pid == -1) {
        ngx_log_error(NGX_LOG_ALERT, log, ngx_errno,
                      "fork() of the control helper failed");
        goto failed_connection;
    }

    (void) close(pair[1]);

    c->log = log;
    c->read->log = log;
    c->write->log = log;
    c->read->handler = ngx_agent_channel_read;
    c->read->channel = 1;                   /* no alert that it is open */
    c->idle = 1;                            /* told when the worker leaves */

    ngx_agent_channel_connection = c;
    ngx_agent_channel_pid = pid;
    ngx_agent_channel_seen = 0;

    if (ngx_add_event(c->read, NGX_READ_EVENT, 0) == NGX_ERROR) {
        ngx_agent_channel_close();
        return NGX_ERROR;
    }

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, log, 0, "agent: helper %P started",
                   pid);

    return NGX_OK;

failed_connection:

    ngx_free_connection(c);
    c->fd = (ngx_socket_t) -1;

failed_pair:

    (void) close(pair[0]);
    (void) close(pair[1]);

failed:

    (void) munmap(page, sizeof(ngx_agent_helper_page_t));

    return NGX_ERROR;
}


static void
ngx_agent_channel_read(ngx_event_t *rev)
{
    ngx_int_t          rc;
    ngx_uint_t         i;
    ngx_connection_t  *c;

    c = rev->data;

    if (c->close) {
        c->close = 0;
        c->idle = 0;
        ngx_agent_channel_helper.is_stopped = 1;
        ngx_agent_channel_order(0);
        return;
    }

    for (i = 0; i < NGX_AGENT_CHANNEL_BATCH; i++) {

        rc = ngx_agent_channel_message();

        if (rc == NGX_AGAIN) {
            break;                          /* level-triggered: called again */
        }

        if (rc == NGX_ERROR) {
            ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                          "the control helper %P has ended, another one is "
                          "started", ngx_agent_channel_pid);
            ngx_agent_channel_close();
            return;
        }
    }
}


/* One message; NGX_AGAIN where there is none, NGX_ERROR at the end. */

static ngx_int_t
ngx_agent_channel_message(void)
{
    ssize_t                      n;
    size_t                       size;
    ngx_uint_t                   i, count;
    ngx_socket_t                 fds[PROTOCOL_DOORS_MAX];
    struct iovec                 iov[2];
    struct msghdr                msg;
    struct cmsghdr              *cmsg;
    ngx_agent_helper_message_t   message;

    static union {
        ngx_agent_given_t  given[PROTOCOL_DOORS_MAX];
        u_char             bytes[PROTOCOL_DOORS_MAX * sizeof(ngx_agent_given_t)
                                 + PROTOCOL_LINE_MAX];
    } rest;

    union {
        struct cmsghdr  align;
        u_char          space[CMSG_SPACE(sizeof(int) * PROTOCOL_DOORS_MAX)];
    } control;

    message.kind = 0;

    iov[0].iov_base = &message;
    iov[0].iov_len = sizeof(message);
    iov[1].iov_base = &rest;
    iov[1].iov_len = sizeof(rest);

    ngx_memzero(&msg, sizeof(struct msghdr));
    msg.msg_iov = iov;
    msg.msg_iovlen = 2;
    msg.msg_control = &control;
    msg.msg_controllen = sizeof(control);

    do {
        n = recvmsg(ngx_agent_channel_connection->fd, &msg,
                    MSG_DONTWAIT|MSG_CMSG_CLOEXEC);
    } while (n == -1 && ngx_socket_errno == NGX_EINTR);

    if (n == -1) {
        return ngx_socket_errno == NGX_EAGAIN ? NGX_AGAIN : NGX_ERROR;
    }

    count = 0;

    for (cmsg = msg.msg_controllen ? CMSG_FIRSTHDR(&msg) : NULL;
         cmsg;
         cmsg = CMSG_NXTHDR(&msg, cmsg))
    {
        if (cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS
            && count == 0)
        {
            count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            ngx_memcpy(fds, CMSG_DATA(cmsg), count * sizeof(int));
        }
    }

    size = (size_t) n < sizeof(message)
           ? 0 : message.kind == NGX_AGENT_HELPER_LINE
                 ? message.count * sizeof(ngx_agent_given_t) : 0;

    if ((size_t) n < sizeof(message) + size || (msg.msg_flags & MSG_TRUNC)) {

        for (i = 0; i < count; i++) {
            ngx_agent_given_close(fds[i]);
        }

        return NGX_ERROR;
    }

    message.why[sizeof(message.why) - 1] = '\0';

    ngx_agent_channel_dispatch(&message, rest.given, fds, count,
                               rest.bytes + size, n - sizeof(message) - size);

    return NGX_OK;
}


static void
ngx_agent_channel_dispatch(ngx_agent_helper_message_t *message,
    ngx_agent_given_t *given, ngx_socket_t *fds, ngx_uint_t count,
    u_char *line, size_t len)
{
    ngx_uint_t              i;
    ngx_listening_t        *ls;
    ngx_agent_launcher_t   *l;

    switch (message->kind) {

    case NGX_AGENT_HELPER_NEW:

        ngx_agent_channel_helper.id = message->id;

        ls = ngx_agent_channel_helper.cycle->listening.elts;

        if (count != 1
            || ngx_agent_control_new(ls[message->listening].servers, fds[0],
                                     message->id)
               != NGX_OK)
        {
            ngx_agent_channel_order(message->id);
            break;
        }

        return;

    case NGX_AGENT_HELPER_LINE:

        l = ngx_agent_control_find(message->id);

        if (l == NULL) {
            break;                          /* refused meanwhile */
        }

        if (count != message->count) {
            (void) ngx_cpystrn((u_char *) message->why,
                               (u_char *) "a worker has no descriptor left: "
                               "raise worker_rlimit_nofile",
                               sizeof(message->why));
        }

        ngx_memcpy(l->fds, fds, count * sizeof(ngx_socket_t));
        l->fds_count = count;
        l->given = given;

        ngx_agent_control_line(l, message->is_long ? NULL : line, len,
                               message->why);
        return;

    case NGX_AGENT_HELPER_END:

        l = ngx_agent_control_find(message->id);

        if (l) {
            ngx_agent_control_end(l, message->is_gone);
        }

        break;

    case NGX_AGENT_HELPER_STRANGERS:

        ngx_agent_task_refused_strangers(&message->peer, message->count);

        break;
    }

    for (i = 0; i < count; i++) {
        ngx_agent_given_close(fds[i]);
    }
}


/* One that does not fit is lost: a helper that does not read is replaced. */

static void
ngx_agent_channel_order(ngx_agent_helper_order_t order)
{
    if (ngx_agent_channel_connection) {
        (void) send(ngx_agent_channel_connection->fd, &order, sizeof(order),
                    MSG_DONTWAIT|MSG_NOSIGNAL);
    }
}


/* The helper sees it, and ends if it can. */

static void
ngx_agent_channel_close(void)
{
    ngx_connection_t  *c;

    c = ngx_agent_channel_connection;

    if (c == NULL) {
        return;
    }

    ngx_agent_channel_connection = NULL;

    (void) ngx_del_event(c->read, NGX_READ_EVENT, 0);

    ngx_close_connection(c);

    (void) munmap(ngx_agent_channel_helper.page,
                  sizeof(ngx_agent_helper_page_t));
    ngx_agent_channel_helper.page = NULL;
}


/*
 * All connections go on with another helper, but for that whose descriptor
 * was in hand.
 */

static void
ngx_agent_channel_watch(ngx_event_t *ev)
{
    uid_t                  uid;
    uint64_t               id;
    ngx_uint_t             i, n;
    ngx_agent_launcher_t  *l;

    n = NGX_AGENT_CHANNEL_LEFT;

    for (i = 0; i < NGX_AGENT_CHANNEL_LEFT; i++) {

        if (ngx_agent_channel_left[i] == 0
            || (kill(ngx_agent_channel_left[i], 0) == -1
                && ngx_errno == ESRCH))
        {
            ngx_agent_channel_left[i] = 0;
            n = i;
        }
    }

    if (ngx_agent_channel_connection && ngx_agent_channel_hangs()
        && n != NGX_AGENT_CHANNEL_LEFT)
    {
        uid = (uid_t) ngx_agent_channel_helper.page->uid;
        id = ngx_agent_channel_helper.page->id;

        ngx_agent_channel_helper.page->abandoned = 1;
        ngx_memory_barrier();

        ngx_log_error(NGX_LOG_ERR, ev->log, 0,
                      "the control helper %P waits for a descriptor of uid "
                      "%uD, another one is started", ngx_agent_channel_pid,
                      uid);

        ngx_agent_channel_left[n] = ngx_agent_channel_pid;
        ngx_agent_channel_helper.is_wary = 1;
        ngx_agent_channel_hung(uid);

        /* what it has said before */

        while (ngx_agent_channel_message() == NGX_OK) { /* void */ }

        ngx_agent_channel_close();

        l = id ? ngx_agent_control_find(id) : NULL;

        if (l) {
            ngx_agent_control_end(l, 1);
        }
    }

    if (ngx_agent_channel_connection == NULL) {
        (void) ngx_agent_channel_spawn();
    }

    ngx_add_timer(ev, NGX_AGENT_CHANNEL_WATCH);
}


/* The same descriptor in its hands at three looks, and it does not run. */

static ngx_uint_t
ngx_agent_channel_hangs(void)
{
    char        name[64], text[512], *state;
    ssize_t     n;
    ngx_fd_t    fd;
    ngx_uint_t  turn;

    turn = ngx_agent_channel_helper.page->turn;

    if (turn % 2 == 0 || turn != ngx_agent_channel_turn) {
        ngx_agent_channel_turn = turn;
        ngx_agent_channel_seen = 0;
        return 0;
    }

    if (++ngx_agent_channel_seen < 2) {
        return 0;
    }

    (void) snprintf(name, sizeof(name), "/proc/%d/stat",
                    (int) ngx_agent_channel_pid);

    fd = open(name, O_RDONLY|O_CLOEXEC);

    if (fd == NGX_INVALID_FILE) {
        return 1;
    }

    n = read(fd, text, sizeof(text) - 1);

    (void) close(fd);

    text[n > 0 ? n : 0] = '\0';
    state = strrchr(text, ')');

    return state == NULL || state[1] == '\0' || state[2] != 'R';
}


/* One whose place is needed has the fewest. */

static void
ngx_agent_channel_hung(uid_t uid)
{
    ngx_uint_t                i;
    ngx_agent_helper_hung_t  *hung, *found;

    found = &ngx_agent_channel_hung_uids[0];

    for (i = 0; i < NGX_AGENT_HUNG_UIDS; i++) {

        hung = &ngx_agent_channel_hung_uids[i];

        if (hung->count && hung->uid == uid) {
            found = hung;
            break;
        }

        if (hung->count < found->count) {
            found = hung;
        }
    }

    if (found->uid != uid) {
        found->count = 0;
    }

    found->uid = uid;
    found->count++;
}


void
ngx_agent_channel_stop(ngx_cycle_t *cycle)
{
    ngx_agent_control_stop(cycle);
    ngx_agent_channel_close();
}
