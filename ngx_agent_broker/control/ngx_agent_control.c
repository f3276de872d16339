/*
 * The control protocol: a launcher asks for a task's lease here, hands the
 * box's doors over, and ends the task.  The connection is the lease: when it
 * closes, the task's doors and connections close with it.
 *
 *   NEW --open--> OPENED --serve--> SERVING --close--> CLOSING --> closed
 *     '---resume-------------------^   |
 *                                      '--drain (worker leaves)--> DRAINED
 *
 * The launcher is trusted no further than its user.  The worker's helper reads
 * what it sends, and has looked at its descriptors (ngx_agent_helper.h); here
 * every line is parsed strictly, and nothing ever blocks.
 */


#include "control/ngx_agent_launcher.h"


#define NGX_AGENT_OPEN_TIMEOUT   5000       /* to open or resume, ms */
#define NGX_AGENT_SWEEP          1000

#define NGX_AGENT_REFUSED_LINGER 1000       /* ms, for what it came to ask */


static void ngx_agent_control_read(ngx_event_t *rev);
static void ngx_agent_control_write(ngx_event_t *wev);
static ngx_int_t ngx_agent_control_admit(ngx_agent_launcher_t *l);
static void ngx_agent_control_finish(ngx_agent_launcher_t *l);
static void ngx_agent_control_end_over(ngx_event_t *ev);
static void ngx_agent_control_sweep(ngx_event_t *ev);
static const char *ngx_agent_control_lost(ngx_agent_launcher_t *l);


static ngx_queue_t       ngx_agent_launchers;
static ngx_uint_t        ngx_agent_launchers_count;
static ngx_rbtree_t      ngx_agent_launchers_ids;
static ngx_rbtree_node_t ngx_agent_launchers_sentinel;
static ngx_event_t       ngx_agent_sweep_event;
static ngx_connection_t  ngx_agent_sweep_connection;


ngx_int_t
ngx_agent_control_start(ngx_cycle_t *cycle)
{
    ngx_queue_init(&ngx_agent_launchers);
    ngx_rbtree_init(&ngx_agent_launchers_ids, &ngx_agent_launchers_sentinel,
                    ngx_rbtree_insert_value);

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


/* Takes the socket over, but on NGX_ERROR. */

ngx_int_t
ngx_agent_control_new(ngx_agent_srv_conf_t *ascf, ngx_socket_t s, uint64_t id)
{
    ngx_pool_t            *pool;
    ngx_connection_t      *c;
    ngx_agent_launcher_t  *l;

    pool = ngx_create_pool(512, ngx_cycle->log);
    l = pool ? ngx_pcalloc(pool, sizeof(ngx_agent_launcher_t)) : NULL;
    c = l ? ngx_get_connection(s, ngx_cycle->log) : NULL;

    if (c == NULL) {

        if (pool) {
            ngx_destroy_pool(pool);
        }

        return NGX_ERROR;
    }

    c->pool = pool;
    c->type = SOCK_STREAM;
    c->recv = ngx_recv;
    c->send = ngx_send;
    c->recv_chain = ngx_recv_chain;
    c->send_chain = ngx_send_chain;
    c->number = ngx_atomic_fetch_add(ngx_connection_counter, 1);
    c->start_time = ngx_current_msec;
    c->log = ngx_cycle->log;
    c->read->log = c->log;
    c->write->log = c->log;
    c->write->ready = 1;

    c->data = l;
    c->read->handler = ngx_agent_control_read;
    c->write->handler = ngx_agent_control_write;

    /*
     * Core tells idle connections when the worker leaves (c->close): so the
     * launcher hears of it.  Not reusable: a lease is never recycled.
     */

    c->idle = 1;

    l->connection = c;
    l->id = id;
    l->ascf = ascf;
    l->amcf = ((ngx_http_conf_ctx_t *) ascf->core->ctx)
                  ->main_conf[ngx_agent_broker_module.ctx_index];

    ngx_queue_insert_tail(&ngx_agent_launchers, &l->queue);
    ngx_agent_launchers_count++;

    l->node.key = id;
    ngx_rbtree_insert(&ngx_agent_launchers_ids, &l->node);

    if (ngx_agent_control_admit(l) != NGX_OK) {
        ngx_agent_control_finish(l);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_agent_control_admit(ngx_agent_launcher_t *l)
{
    ngx_connection_t  *c;

    c = l->connection;

    l->groups = ngx_palloc(c->pool,
                           (NGX_AGENT_GROUPS_MAX + 1) * sizeof(gid_t));

    if (l->groups == NULL
        || ngx_agent_launcher_peer(c->fd, &l->peer, l->groups,
                                   &l->groups_count)
           != NGX_OK)
    {
        ngx_log_error(NGX_LOG_ALERT, c->log, ngx_errno,
                      "getsockopt(SO_PEERCRED) failed");
        return NGX_ERROR;
    }

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, c->log, 0,
                   "agent: launcher connected, uid %uD pid %P", l->peer.uid,
                   l->peer.pid);

    ngx_add_timer(c->read, NGX_AGENT_OPEN_TIMEOUT);

    /*
     * A worker's connections are for boxes too: of those that are left to
     * launchers each needs some more for its doors.
     */

    if (ngx_agent_launchers_count > ngx_cycle->connection_n / 4) {
        ngx_agent_launcher_refuse(l, PROTOCOL_BUSY,
                                  "launchers have a fourth of a worker's "
                                  "connections: raise \"worker_connections\"");

    } else if (ngx_agent_peer_connect(l->peer.uid,
                                      l->amcf->control_connections)
               != NGX_OK)
    {
        ngx_agent_launcher_refuse(l, PROTOCOL_BUSY,
                                  "uid %u already has %d control connections: "
                                  "close one, or raise "
                                  "\"agent_control_connections\"",
                                  (unsigned) l->peer.uid,
                                  (int) l->amcf->control_connections);

    } else {
        l->counted = 1;
    }

    if (l->phase == NGX_AGENT_NEW
        && ngx_agent_slot_netns_used(ngx_agent_given_netns(c->fd)))
    {
        ngx_agent_launcher_refuse(l, PROTOCOL_NOT_ALLOWED,
                                  "a launcher cannot run inside a box");
    }

    if (l->phase == NGX_AGENT_DONE) {

        /* it hears the answer when it has said what it came for */

        l->lingers = 1;
        ngx_add_timer(c->read, NGX_AGENT_REFUSED_LINGER);
    }

    return NGX_OK;
}


ngx_agent_launcher_t *
ngx_agent_control_find(uint64_t id)
{
    ngx_rbtree_node_t  *node;

    node = ngx_agent_launchers_ids.root;

    while (node != &ngx_agent_launchers_sentinel) {

        if (id == node->key) {
            return ngx_rbtree_data(node, ngx_agent_launcher_t, node);
        }

        node = (id < node->key) ? node->left : node->right;
    }

    return NULL;
}


void
ngx_agent_control_each(void (*handler)(const ngx_agent_launcher_t *l,
    void *data), void *data)
{
    ngx_queue_t  *q;

    ngx_agent_queue_each(q, &ngx_agent_launchers) {
        handler(ngx_queue_data(q, ngx_agent_launcher_t, queue), data);
    }
}


/* That the worker leaves, and the time. */

static void
ngx_agent_control_read(ngx_event_t *rev)
{
    ngx_connection_t      *c;
    ngx_agent_launcher_t  *l;

    c = rev->data;
    l = c->data;

    if (c->close) {
        c->close = 0;
        ngx_agent_launcher_drain(l);
        return;
    }

    if (!rev->timedout) {
        return;
    }

    rev->timedout = 0;

    if (l->phase == NGX_AGENT_CLOSING) {
        ngx_agent_launcher_closed(l);
        return;
    }

    if (l->phase == NGX_AGENT_DRAINED) {

        /* else it closes with the worker, after the task's last connection */

        if (l->ended) {
            ngx_agent_control_finish(l);
        }

        return;
    }

    ngx_log_error(NGX_LOG_INFO, c->log, NGX_ETIMEDOUT,
                  "launcher of uid %uD timed out", l->peer.uid);

    ngx_agent_control_finish(l);
}


/*
 * One line, with what l->fds and l->given have; `why`: a descriptor beside it
 * could not be a door.  No line: it was too long.
 */

void
ngx_agent_control_line(ngx_agent_launcher_t *l, u_char *line, size_t len,
    const char *why)
{
    if (l->phase == NGX_AGENT_DONE) {
        l->lingers = 0;

    } else if (line == NULL) {
        ngx_agent_launcher_refuse(l, PROTOCOL_BAD_REQUEST,
                                  "a line is longer than %d bytes",
                                  PROTOCOL_LINE_MAX);

    } else {
        ngx_agent_ops_line(l, line, len, why);
    }

    ngx_agent_launcher_drop_fds(l);

    if (l->phase == NGX_AGENT_DONE && l->out_len == 0) {
        ngx_agent_control_finish(l);
    }
}


/* A peer that only sends no more still gets its answer. */

void
ngx_agent_control_end(ngx_agent_launcher_t *l, ngx_uint_t is_gone)
{
    l->ended = 1;
    l->lingers = 0;

    if (l->phase == NGX_AGENT_DRAINED && !is_gone
        && !ngx_queue_empty(&l->task->connections))
    {
        /* by the end of this one it knows that all of theirs is recorded */

        ngx_agent_task_cut(l->task);
        ngx_agent_launcher_await(l);
        return;
    }

    if (is_gone || l->out_len == 0) {
        ngx_agent_control_finish(l);
    }
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

    ngx_agent_launcher_uncount(l);

    ngx_agent_launchers_count--;
    ngx_queue_remove(&l->queue);
    ngx_rbtree_delete(&ngx_agent_launchers_ids, &l->node);

    /*
     * The helper has the socket too: its entry would stay in epoll, and the
     * shutdown tells it.  With the last copy goes what was sent and not read,
     * and that is its own, unless it has just ended.
     */

    if (c->write->active) {
        (void) ngx_del_event(c->write, NGX_WRITE_EVENT, 0);
    }

    (void) shutdown(c->fd, SHUT_RDWR);

    ngx_destroy_pool(c->pool);

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

    if (l->out_len == 0 && l->phase == NGX_AGENT_DONE && !l->lingers) {
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
