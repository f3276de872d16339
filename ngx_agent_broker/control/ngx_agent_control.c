/*
 * The control protocol: a launcher asks for a task's lease here, hands the
 * box's doors over, and ends the task.  The connection is the lease: when it
 * closes, the task's doors and connections close with it.
 *
 *   NEW --open--> OPENED --serve--> SERVING --close--> CLOSING --> closed
 *     '---resume-------------------^   |
 *                                      '--drain (worker leaves)--> DRAINED
 *
 * The launcher is trusted no further than its user: every line is parsed
 * strictly, a descriptor is accepted only while one is awaited and looked at
 * before anything is done with it, and nothing here ever blocks.
 */


#include "control/ngx_agent_launcher.h"

#include <grp.h>


#define NGX_AGENT_OPEN_TIMEOUT   5000       /* to open or resume, ms */
#define NGX_AGENT_PER_UID        256        /* control connections of one uid */
#define NGX_AGENT_GROUPS_MAX     256
#define NGX_AGENT_SWEEP          1000

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS  59                   /* Linux 4.13 */
#endif


static void ngx_agent_control_read(ngx_event_t *rev);
static void ngx_agent_control_write(ngx_event_t *wev);
static ssize_t ngx_agent_control_recv(ngx_agent_launcher_t *l);
static ngx_int_t ngx_agent_control_peer(ngx_agent_launcher_t *l);
static void ngx_agent_control_finish(ngx_agent_launcher_t *l);
static void ngx_agent_control_end_over(ngx_event_t *ev);
static void ngx_agent_control_sweep(ngx_event_t *ev);
static const char *ngx_agent_control_lost(ngx_agent_launcher_t *l);


static ngx_queue_t       ngx_agent_launchers;
static ngx_event_t       ngx_agent_sweep_event;
static ngx_connection_t  ngx_agent_sweep_connection;


ngx_int_t
ngx_agent_control_start(ngx_cycle_t *cycle)
{
    ngx_queue_init(&ngx_agent_launchers);

    if (ngx_agent_launcher_netns() == 0) {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, ngx_errno,
                      "SO_NETNS_COOKIE is not available: a box's sockets "
                      "cannot be told from the host's; the broker needs "
                      "Linux 5.14 or newer");
        return NGX_ERROR;
    }

    ngx_agent_audit_over.handler = ngx_agent_control_end_over;
    ngx_agent_audit_over.log = cycle->log;

    ngx_agent_sweep_connection.fd = (ngx_socket_t) -1;
    ngx_agent_sweep_event.handler = ngx_agent_control_sweep;
    ngx_agent_sweep_event.data = &ngx_agent_sweep_connection;
    ngx_agent_sweep_event.log = cycle->log;
    ngx_agent_sweep_event.cancelable = 1;

    ngx_add_timer(&ngx_agent_sweep_event, NGX_AGENT_SWEEP);

    return NGX_OK;
}


/* A worker that exits: what it still has is closed, the launchers see it. */

void
ngx_agent_control_stop(ngx_cycle_t *cycle)
{
    ngx_queue_t           *q;
    ngx_agent_launcher_t  *l;

    ngx_agent_task_refused_rest();

    while (!ngx_queue_empty(&ngx_agent_launchers)) {

        q = ngx_queue_head(&ngx_agent_launchers);
        l = ngx_queue_data(q, ngx_agent_launcher_t, queue);

        if (l->task) {
            ngx_agent_task_close_doors(l->task);
        }

        if (l->phase == NGX_AGENT_OPENED) {
            /* without a lease it cannot be resumed */
            ngx_agent_launcher_end(l, "broker", NULL);

        } else if (l->phase == NGX_AGENT_SERVING
                   || l->phase == NGX_AGENT_DRAINED)
        {
            /* the task lives on: no task_end here, it is resumed elsewhere */
            l->phase = NGX_AGENT_DONE;
        }

        ngx_agent_control_finish(l);
    }
}


void
ngx_agent_control_init(ngx_connection_t *c)
{
    ngx_uint_t             n;
    ngx_queue_t           *q;
    ngx_agent_launcher_t  *l, *other;

    l = ngx_pcalloc(c->pool, sizeof(ngx_agent_launcher_t));
    if (l == NULL) {
        ngx_destroy_pool(c->pool);
        ngx_close_connection(c);
        return;
    }

    l->connection = c;
    l->ascf = c->listening->servers;
    l->amcf = ((ngx_http_conf_ctx_t *) l->ascf->core->ctx)
                  ->main_conf[ngx_agent_broker_module.ctx_index];

    c->data = l;
    c->read->handler = ngx_agent_control_read;
    c->write->handler = ngx_agent_control_write;
    c->log->action = "talking to a launcher";

    /*
     * Core tells idle connections when the worker leaves (c->close): so the
     * launcher hears of it.  Not reusable: a lease is never recycled.
     */

    c->idle = 1;

    ngx_queue_insert_tail(&ngx_agent_launchers, &l->queue);

    l->line = ngx_palloc(c->pool, PROTOCOL_LINE_MAX);

    if (l->line == NULL || ngx_agent_control_peer(l) != NGX_OK) {
        ngx_agent_control_finish(l);
        return;
    }

    n = 0;

    ngx_agent_queue_each(q, &ngx_agent_launchers) {
        other = ngx_queue_data(q, ngx_agent_launcher_t, queue);
        n += (other->peer.uid == l->peer.uid);
    }

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, c->log, 0,
                   "agent: launcher connected, uid %uD pid %P", l->peer.uid,
                   l->peer.pid);

    ngx_add_timer(c->read, NGX_AGENT_OPEN_TIMEOUT);

    if (n > NGX_AGENT_PER_UID) {
        ngx_agent_launcher_refuse(l, PROTOCOL_BUSY,
                                  "this user already has %d control "
                                  "connections",
                                  NGX_AGENT_PER_UID);
        return;
    }

    if (ngx_agent_launcher_is_parked(l->peer.uid)) {
        ngx_agent_launcher_refuse(l, PROTOCOL_NOT_ALLOWED,
                                  "this user handed over a descriptor that "
                                  "was not a socket");
        return;
    }

    if (ngx_agent_slot_netns_used(ngx_agent_given_netns(c->fd))) {
        ngx_agent_launcher_refuse(l, PROTOCOL_NOT_ALLOWED,
                                  "a launcher cannot run inside a box");
        return;
    }

    if (ngx_handle_read_event(c->read, 0) != NGX_OK) {
        ngx_agent_control_finish(l);
    }
}


/* Who connects, as the kernel says: before any byte is read. */

static ngx_int_t
ngx_agent_control_peer(ngx_agent_launcher_t *l)
{
    socklen_t          len;
    ngx_connection_t  *c;

    c = l->connection;

    len = sizeof(struct ucred);

    if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &l->peer, &len) == -1) {
        ngx_log_error(NGX_LOG_ALERT, c->log, ngx_errno,
                      "getsockopt(SO_PEERCRED) failed");
        return NGX_ERROR;
    }

    len = NGX_AGENT_GROUPS_MAX * sizeof(gid_t);

    l->groups = ngx_palloc(c->pool, len + sizeof(gid_t));
    if (l->groups == NULL) {
        return NGX_ERROR;
    }

    l->groups[0] = l->peer.gid;
    l->groups_count = 1;

    if (getsockopt(c->fd, SOL_SOCKET, SO_PEERGROUPS, l->groups + 1, &len)
        == 0)
    {
        l->groups_count += len / sizeof(gid_t);
    }

    return NGX_OK;
}


static void
ngx_agent_control_read(ngx_event_t *rev)
{
    u_char                *end, *start;
    ssize_t                n;
    ngx_connection_t      *c;
    ngx_agent_launcher_t  *l;

    c = rev->data;
    l = c->data;

    if (c->close) {
        c->close = 0;
        ngx_agent_launcher_drain(l);
        return;
    }

    if (rev->timedout) {
        rev->timedout = 0;

        if (l->phase == NGX_AGENT_CLOSING) {
            ngx_agent_launcher_closed(l);
            return;
        }

        if (l->phase == NGX_AGENT_DRAINED) {
            /* it closes with the worker, after the task's last connection */
            return;
        }

        ngx_log_error(NGX_LOG_INFO, c->log, NGX_ETIMEDOUT,
                      "launcher of uid %uD timed out", l->peer.uid);

        ngx_agent_control_finish(l);
        return;
    }

    for ( ;; ) {

        n = ngx_agent_control_recv(l);

        if (n == NGX_AGAIN) {
            break;
        }

        if (n == 0 && l->out_len) {
            /* a half-closed peer still gets its answer */
            ngx_agent_control_write(c->write);
            return;
        }

        if (n == NGX_ERROR || n == 0) {
            ngx_agent_control_finish(l);
            return;
        }

        if (l->phase == NGX_AGENT_DONE) {
            l->len = 0;
            continue;
        }

        start = l->line;

        while ((end = memchr(start, '\n', l->line + l->len - start))) {

            /* a handler may refuse: nothing after that is looked at */

            ngx_agent_ops_line(l, start, end - start);

            start = end + 1;

            if (l->phase == NGX_AGENT_DONE) {
                start = l->line + l->len;
                break;
            }
        }

        l->len = l->line + l->len - start;
        ngx_memmove(l->line, start, l->len);

        if (l->len == PROTOCOL_LINE_MAX) {
            ngx_agent_launcher_refuse(l, PROTOCOL_BAD_REQUEST,
                                      "a line is longer than %d bytes",
                                      PROTOCOL_LINE_MAX);
            l->len = 0;
        }
    }

    if (l->phase == NGX_AGENT_DONE && l->out_len == 0) {
        ngx_agent_control_finish(l);
        return;
    }

    if (ngx_handle_read_event(rev, 0) != NGX_OK) {
        ngx_agent_control_finish(l);
    }
}


/*
 * Bytes of the next lines, and descriptors where one is awaited: elsewhere
 * the kernel drops them before they are ours.
 */

static ssize_t
ngx_agent_control_recv(ngx_agent_launcher_t *l)
{
    int             *fd;
    ssize_t          n;
    ngx_uint_t       i, count;
    struct iovec     iov;
    struct msghdr    msg;
    struct cmsghdr  *cmsg;

    union {
        struct cmsghdr  align;
        u_char          space[CMSG_SPACE(sizeof(int) * PROTOCOL_DOORS_MAX)];
    } control;

    iov.iov_base = l->line + l->len;
    iov.iov_len = PROTOCOL_LINE_MAX - l->len;

    ngx_memzero(&msg, sizeof(struct msghdr));
    msg.msg_iov = &iov;
    msg.msg_iovlen = 1;

    if (l->phase == NGX_AGENT_NEW || l->phase == NGX_AGENT_OPENED) {
        msg.msg_control = &control;
        msg.msg_controllen = sizeof(control);
    }

    /* what the kernel drops is closed by it in here, by whoever calls */

    ngx_agent_given_interrupt(1);

    do {
        n = recvmsg(l->connection->fd, &msg, MSG_DONTWAIT|MSG_CMSG_CLOEXEC);
    } while (n == -1 && ngx_socket_errno == NGX_EINTR);

    ngx_agent_given_interrupt(0);

    if (n == -1) {

        if (ngx_socket_errno == NGX_EAGAIN) {
            l->connection->read->ready = 0;
            return NGX_AGAIN;
        }

        return NGX_ERROR;
    }

    for (cmsg = msg.msg_controllen ? CMSG_FIRSTHDR(&msg) : NULL;
         cmsg;
         cmsg = CMSG_NXTHDR(&msg, cmsg))
    {
        if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS) {
            continue;
        }

        fd = (int *) CMSG_DATA(cmsg);
        count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        for (i = 0; i < count; i++) {

            if (l->fds_count == PROTOCOL_DOORS_MAX) {
                ngx_agent_launcher_close_fd(l, fd[i]);
                continue;
            }

            l->fds[l->fds_count++] = fd[i];
        }
    }

    l->len += n;

    if (msg.msg_flags & MSG_CTRUNC && msg.msg_control) {
        ngx_agent_launcher_refuse(l, PROTOCOL_BAD_DESCRIPTOR,
                                  "more than %d descriptors in one message",
                                  PROTOCOL_DOORS_MAX);
        l->len = 0;
    }

    return n;
}


/* The connection is over, whoever ended it; l is gone with it. */

static void
ngx_agent_control_finish(ngx_agent_launcher_t *l)
{
    ngx_connection_t  *c;

    c = l->connection;

    if (l->task) {
        ngx_agent_task_close_doors(l->task);
        l->task->idle = NULL;

        if (l->phase != NGX_AGENT_NEW && l->phase != NGX_AGENT_DONE) {
            /* nothing, if another connection has the lease by now */
            ngx_agent_launcher_end(l, ngx_agent_control_lost(l), NULL);
        }

        ngx_agent_task_cut(l->task);
        ngx_agent_task_release(l->task);
        l->task = NULL;
    }

    ngx_agent_launcher_drop_fds(l);

    json_decref(l->request);
    free(l->out);

    ngx_queue_remove(&l->queue);

    ngx_destroy_pool(c->pool);

    /* with it goes what was sent with descriptors and not read */

    ngx_agent_given_interrupt(1);
    ngx_close_connection(c);
    ngx_agent_given_interrupt(0);
}


/* A launcher that a reload took the policy from can only go. */

static const char *
ngx_agent_control_lost(ngx_agent_launcher_t *l)
{
    ngx_int_t              gone;
    const policy_t        *policy;
    ngx_agent_policies_t  *set;

    if (l->phase != NGX_AGENT_DRAINED) {
        return "launcher_lost";
    }

    set = ngx_agent_policies_get(l->connection->log);
    if (set == NULL) {
        return "launcher_lost";
    }

    policy = policy_set_find(set->policies, (char *) l->task->policy);

    gone = (policy == NULL
            || !policy_allows_launcher(policy, l->peer.uid, l->groups,
                                       l->groups_count, geteuid()));

    ngx_agent_policies_release(set);

    return gone ? "policy_gone" : "launcher_lost";
}


static void
ngx_agent_control_write(ngx_event_t *wev)
{
    ssize_t                n;
    ngx_connection_t      *c;
    ngx_agent_launcher_t  *l;

    c = wev->data;
    l = c->data;

    while (l->out_len) {

        n = c->send(c, l->out, l->out_len);

        if (n == NGX_ERROR) {
            ngx_agent_control_finish(l);
            return;
        }

        if (n == NGX_AGAIN) {
            break;
        }

        l->out_len -= n;
        ngx_memmove(l->out, l->out + n, l->out_len);
    }

    if (l->out_len == 0 && l->phase == NGX_AGENT_DONE) {
        ngx_agent_control_finish(l);
        return;
    }

    if (ngx_handle_write_event(wev, 0) != NGX_OK) {
        ngx_agent_control_finish(l);
    }
}


/*
 * A box that has filled its share of the audit: nothing more of it is
 * recorded, so nothing more is done for it.  Or one that goes on after it was
 * refused far too often, or is there long after its time.  What it was refused
 * meanwhile is counted in the line of its end.  Found by the worker that sees
 * it first, and by the sweep of the one that has the lease.
 */

static void
ngx_agent_control_end_over(ngx_event_t *ev)
{
    ngx_queue_t            *q;
    ngx_agent_launcher_t   *l;
    ngx_agent_slot_view_t   view;

    ngx_agent_queue_each(q, &ngx_agent_launchers) {
        l = ngx_queue_data(q, ngx_agent_launcher_t, queue);

        if ((l->phase != NGX_AGENT_SERVING && l->phase != NGX_AGENT_DRAINED)
            || ngx_agent_slot_view(l->task->id, &view) != NGX_OK
            || view.sequence != l->task->sequence)
        {
            continue;
        }

        l->over = view.is_over ? NGX_AGENT_END_BUDGET
                  : view.is_spent ? NGX_AGENT_END_REFUSALS
                  : view.is_overdue ? NGX_AGENT_END_OVERDUE
                                    : NGX_AGENT_END_NOT;

        if (l->over) {
            ngx_agent_launcher_cut(l);
        }
    }
}


/*
 * Tasks whose worker was killed and whose launcher is gone too: nobody is
 * left to end them but their time.  And tasks that have ended elsewhere, of
 * which this worker still has connections from before it was drained.
 */

static void
ngx_agent_control_sweep(ngx_event_t *ev)
{
    u_char                  id[PROTOCOL_ID_LEN];
    ngx_queue_t            *q;
    ngx_agent_launcher_t   *l;
    ngx_agent_slot_view_t   view;

    ngx_agent_audit_broker_lost();
    ngx_agent_task_refused_rest();
    ngx_agent_control_end_over(ev);

    while (ngx_agent_slot_expired(id, &view) == NGX_OK) {
        ngx_agent_events_task_end(id, &view,
                                  view.is_overdue ? "overdue"
                                                  : "launcher_lost", NULL);
    }

    q = ngx_queue_head(&ngx_agent_launchers);

    while (q != ngx_queue_sentinel(&ngx_agent_launchers)) {

        l = ngx_queue_data(q, ngx_agent_launcher_t, queue);
        q = ngx_queue_next(q);

        if (l->phase != NGX_AGENT_SERVING && l->phase != NGX_AGENT_DRAINED) {
            continue;
        }

        if (ngx_agent_slot_view(l->task->id, &view) != NGX_OK) {
            ngx_agent_control_finish(l);
            continue;
        }

        ngx_agent_counted_tell(l->task->id);
    }

    ngx_add_timer(ev, NGX_AGENT_SWEEP);
}
