/*
 * A launcher, as all operations see it: what it may use, what it is told, and
 * how its task ends.
 */


#include "control/ngx_agent_launcher.h"

#include <grp.h>


#define NGX_AGENT_DRAIN_TIME     500
#define NGX_AGENT_CLOSE_TIMEOUT  1000       /* for cut connections to end */

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS  59                   /* Linux 4.13 */
#endif


static void ngx_agent_launcher_idle(ngx_agent_task_t *task);
static void ngx_agent_launcher_record(ngx_agent_launcher_t *l,
    const char *reason, json_t *request, ngx_agent_slot_view_t *view);


static const struct {
    const char  *error;
    const char  *message;
} ngx_agent_ends[] = {

    [NGX_AGENT_END_BUDGET] = { PROTOCOL_AUDIT_BUDGET,
        "the task has used up its audit_budget, and has ended" },

    [NGX_AGENT_END_REFUSALS] = { PROTOCOL_REFUSALS,
        "the task went on after all refusals that its policy allows, and has "
        "ended" },

    [NGX_AGENT_END_OVERDUE] = { PROTOCOL_OVERDUE,
        "the task was still there a minute after its wall clock, and has "
        "ended" },
};

static uint64_t  ngx_agent_netns;           /* the broker's own */


uint64_t
ngx_agent_launcher_netns(void)
{
    ngx_socket_t  s;

    if (ngx_agent_netns == 0) {

        s = socket(AF_UNIX, SOCK_STREAM|SOCK_CLOEXEC, 0);

        if (s != (ngx_socket_t) -1) {
            ngx_agent_netns = ngx_agent_given_netns(s);
            (void) close(s);
        }
    }

    return ngx_agent_netns;
}


ngx_int_t
ngx_agent_launcher_version(ngx_agent_launcher_t *l, json_t *request)
{
    int          least;
    json_t      *v;
    const char  *op;

    v = json_object_get(request, "v");
    op = json_string_value(json_object_get(request, "op"));

    least = ngx_strcmp(op, PROTOCOL_ASK) == 0
            || ngx_strcmp(op, PROTOCOL_HEALTH) == 0 ? PROTOCOL_VERSION_ASK
                                                    : PROTOCOL_VERSION;

    if (!json_is_integer(v) || json_integer_value(v) < least
        || json_integer_value(v) > PROTOCOL_VERSION_MAX)
    {
        ngx_agent_launcher_refuse(l, PROTOCOL_BAD_VERSION,
                                  "this broker speaks versions %d to %d, and "
                                  "\"%s\" needs version %d", PROTOCOL_VERSION,
                                  PROTOCOL_VERSION_MAX, op, least);
        return NGX_DECLINED;
    }

    l->version = (int) json_integer_value(v);

    return NGX_OK;
}


const policy_t *
ngx_agent_launcher_policy(ngx_agent_launcher_t *l, json_t *request,
    ngx_agent_policies_t **set)
{
    char             err[POLICY_ERROR_MAX];
    const char      *name;
    const policy_t  *policy;

    if (ngx_agent_launcher_version(l, request) != NGX_OK) {
        return NULL;
    }

    *set = ngx_agent_policies_get(l->connection->log);
    if (*set == NULL) {
        ngx_agent_launcher_refuse(l, PROTOCOL_INTERNAL,
                                  "no policies are loaded");
        return NULL;
    }

    name = json_string_value(json_object_get(request, "policy"));
    policy = policy_set_find((*set)->policies, name);

    if (policy == NULL) {
        (void) policy_error(err, "policy", name,
                            "is not in the broker's configuration");
        ngx_agent_launcher_refuse(l, PROTOCOL_POLICY_UNKNOWN, "%s", err);
        goto refused;
    }

    if (!policy_allows_launcher(policy, l->peer.uid, l->groups,
                                l->groups_count, geteuid()))
    {
        ngx_agent_launcher_refuse(l, PROTOCOL_NOT_ALLOWED,
                                  "uid %u is not among the \"launchers\" of "
                                  "policy \"%s\"", (unsigned) l->peer.uid,
                                  policy->name);
        goto refused;
    }

    return policy;

refused:

    ngx_agent_policies_release(*set);

    return NULL;
}


void
ngx_agent_launcher_send(ngx_agent_launcher_t *l, json_t *reply)
{
    char    *text;
    size_t   len;
    u_char  *out;

    text = reply ? json_dumps(reply, JSON_COMPACT|JSON_ENSURE_ASCII
                                     |JSON_REAL_PRECISION(9)) : NULL;

    json_decref(reply);

    if (text == NULL) {
        ngx_log_error(NGX_LOG_ALERT, l->connection->log, 0,
                      "no memory for an answer to a launcher");
        return;
    }

    len = ngx_strlen(text);
    out = realloc(l->out, l->out_len + len + 1);

    if (out) {
        ngx_memcpy(out + l->out_len, text, len);
        out[l->out_len + len] = '\n';
        l->out = out;
        l->out_len += len + 1;
    }

    free(text);

    ngx_post_event(l->connection->write, &ngx_posted_events);
}


void
ngx_agent_launcher_refuse(ngx_agent_launcher_t *l, const char *error,
    const char *fmt, ...)
{
    char     message[256];
    va_list  args;

    va_start(args, fmt);
    (void) vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);

    ngx_agent_task_refused(l, error, message);

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, l->connection->log, 0,
                   "agent: launcher refused: %s, %s", error, message);

    if (l->task) {
        ngx_agent_task_close_doors(l->task);
        ngx_agent_task_cut(l->task);
        ngx_agent_launcher_end(l, "launcher_refused", NULL);
    }

    l->phase = NGX_AGENT_DONE;

    ngx_agent_launcher_drop_fds(l);

    ngx_agent_launcher_send(l, json_pack("{s:b, s:s, s:s}", "ok", 0,
                                         "error", error,
                                         "message", message));
}


/*
 * This worker leaves (reload, quit): the launcher is told, the doors are
 * free for the next worker at once.  Connections that were accepted here are
 * served to their end; this connection stays, so that the end of the task is
 * heard.
 */

void
ngx_agent_launcher_drain(ngx_agent_launcher_t *l)
{
    if (l->phase != NGX_AGENT_SERVING) {

        /*
         * What was begun here goes on here: a launcher that has connected
         * may have asked already.  Its time to ask is bounded, and what is
         * served by a worker that leaves is drained at once.
         */

        return;
    }

    ngx_agent_task_close_doors(l->task);
    l->phase = NGX_AGENT_DRAINED;

    /* the launcher needs a second one now */

    ngx_agent_launcher_uncount(l);

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, l->connection->log, 0,
                   "agent: task %*s drained", (size_t) PROTOCOL_ID_LEN,
                   l->task->id);

    ngx_agent_launcher_send(l, json_pack("{s:s}", "event", PROTOCOL_DRAIN));

    /* the worker stays until the event is sent and what crosses it heard */

    ngx_add_timer(l->connection->read, NGX_AGENT_DRAIN_TIME);
}


void
ngx_agent_launcher_cut(ngx_agent_launcher_t *l)
{
    l->phase = NGX_AGENT_CLOSING;

    ngx_log_debug3(NGX_LOG_DEBUG_HTTP, l->connection->log, 0,
                   "agent: task %*s closing, %ui connections are cut",
                   (size_t) PROTOCOL_ID_LEN, l->task->id,
                   l->task->connections_count);

    ngx_agent_task_close_doors(l->task);
    ngx_agent_task_cut(l->task);

    if (ngx_queue_empty(&l->task->connections)) {
        ngx_agent_launcher_closed(l);
        return;
    }

    ngx_agent_launcher_await(l);
}


void
ngx_agent_launcher_await(ngx_agent_launcher_t *l)
{
    l->task->data = l;
    l->task->idle = ngx_agent_launcher_idle;

    ngx_add_timer(l->connection->read, NGX_AGENT_CLOSE_TIMEOUT);
}


/* The last connection is gone: the event loop calls the read handler. */

static void
ngx_agent_launcher_idle(ngx_agent_task_t *task)
{
    ngx_agent_launcher_t *l = task->data;

    task->idle = NULL;

    l->connection->read->timedout = 1;
    ngx_post_event(l->connection->read, &ngx_posted_events);
}


void
ngx_agent_launcher_closed(ngx_agent_launcher_t *l)
{
    json_t                 *listed, *egress, *reply;
    ngx_agent_slot_view_t   view;

    l->task->idle = NULL;

    if (l->connection->read->timer_set) {
        ngx_del_timer(l->connection->read);
    }

    /* the slot counts what was written of the task: all of it from here */

    (void) ngx_agent_audit_flush();

    listed = ngx_agent_listed(l->task->id);

    if (ngx_agent_slot_view(l->task->id, &view) != NGX_OK) {
        ngx_memzero(&view, sizeof(ngx_agent_slot_view_t));
    }

    ngx_agent_launcher_record(l,
           l->over ? ngx_agent_ends[l->over].error
                   : json_string_value(json_object_get(l->request, "reason")),
           l->request, &view);

    egress = json_pack("{s:I}", "allowed", (json_int_t) view.allowed);

    (void) json_object_update(egress, listed);
    (void) json_object_set_new(egress, "audit_lines",
                               json_integer((json_int_t) view.audit_lines + 1));
    json_decref(listed);

    reply = l->over ? json_pack("{s:b, s:s, s:s, s:o}", "ok", 0,
                                "error", ngx_agent_ends[l->over].error,
                                "message", ngx_agent_ends[l->over].message,
                                "egress", egress)
                    : json_pack("{s:b, s:o}", "ok", 1, "egress", egress);

    json_decref(l->request);
    l->request = NULL;

    l->phase = NGX_AGENT_DONE;

    ngx_agent_launcher_send(l, reply);
}


void
ngx_agent_launcher_end(ngx_agent_launcher_t *l, const char *reason,
    json_t *request)
{
    ngx_agent_slot_view_t  view;

    ngx_agent_launcher_record(l, reason, request, &view);
}


/*
 * Writes the task's end, if its lease is still this worker's; the view has all
 * lines of the task then, but that one.
 */

static void
ngx_agent_launcher_record(ngx_agent_launcher_t *l, const char *reason,
    json_t *request, ngx_agent_slot_view_t *view)
{
    (void) ngx_agent_audit_flush();

    if (ngx_agent_slot_free(l->task->id, l->task->sequence, view) == NGX_OK) {
        ngx_agent_events_task_end(l->task->id, view, reason, request);
    }
}


void
ngx_agent_launcher_uncount(ngx_agent_launcher_t *l)
{
    if (l->counted) {
        l->counted = 0;
        ngx_agent_peer_disconnect(l->peer.uid);
    }
}


void
ngx_agent_launcher_drop_fds(ngx_agent_launcher_t *l)
{
    while (l->fds_count) {
        ngx_agent_given_close(l->fds[--l->fds_count]);
    }
}


ngx_int_t
ngx_agent_launcher_peer(ngx_socket_t s, struct ucred *peer, gid_t *groups,
    ngx_uint_t *count)
{
    socklen_t  len;

    len = sizeof(struct ucred);

    if (getsockopt(s, SOL_SOCKET, SO_PEERCRED, peer, &len) == -1) {
        return NGX_ERROR;
    }

    groups[0] = peer->gid;
    *count = 1;

    len = NGX_AGENT_GROUPS_MAX * sizeof(gid_t);

    if (getsockopt(s, SOL_SOCKET, SO_PEERGROUPS, groups + 1, &len) == 0) {
        *count += len / sizeof(gid_t);
    }

    return NGX_OK;
}
