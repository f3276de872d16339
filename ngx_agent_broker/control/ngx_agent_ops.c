/*
 * What a launcher can ask for: the operations of the control protocol.  Each
 * is a row of the table, with the phases it is understood in and whether it
 * takes descriptors; message.c has checked its keys.  What the rows do not
 * allow never reaches a handler.
 */


#include "control/ngx_agent_control.h"
#include "parse/message.h"


#define NGX_AGENT_CLOSE_TIMEOUT  1000       /* for cut connections to end */
#define NGX_AGENT_NEAR_MAX       16         /* lines of one connection */


typedef struct {
    void       (*handler)(ngx_agent_launcher_t *l, json_t *request);
    ngx_uint_t   phases;                    /* bits: where it is understood */
    ngx_uint_t   fds;                       /* takes descriptors */
} ngx_agent_op_t;


static void ngx_agent_op_near(ngx_agent_launcher_t *l, json_t *request);
static void ngx_agent_op_close(ngx_agent_launcher_t *l, json_t *request);
static void ngx_agent_op_policy(ngx_agent_launcher_t *l, json_t *request);

static void ngx_agent_control_idle(ngx_agent_task_t *task);


#define IN(phase)  (1 << NGX_AGENT_ ## phase)

static const ngx_agent_op_t  ngx_agent_ops[MESSAGE_OPS] = {

    [MESSAGE_OPEN] = { ngx_agent_op_open, IN(NEW), 0 },

    [MESSAGE_SERVE] = { ngx_agent_op_serve, IN(OPENED), 1 },

    [MESSAGE_RESUME] = { ngx_agent_op_resume, IN(NEW), 1 },

    [MESSAGE_NEAR_LIMIT] = { ngx_agent_op_near, IN(SERVING)|IN(DRAINED), 0 },

    /*
     * In OPENED: the box could not be made.  In DRAINED: one that crossed the
     * event on its way.
     */

    [MESSAGE_CLOSE] = { ngx_agent_op_close,
                        IN(OPENED)|IN(SERVING)|IN(DRAINED), 0 },

    [MESSAGE_POLICY] = { ngx_agent_op_policy, IN(NEW), 0 },
};


void
ngx_agent_control_line(ngx_agent_launcher_t *l, u_char *line, size_t len)
{
    char           err[MESSAGE_ERROR_MAX];
    json_t        *request;
    message_op_t   op;

    if (l->is_over) {
        return;                             /* it crossed the end of its task */
    }

    request = message_parse(line, len, &op, err);

    if (request == NULL) {
        ngx_agent_control_refuse(l, "bad_request", "%s", err);
        return;
    }

    if (!(ngx_agent_ops[op].phases & (1 << l->phase))) {
        ngx_agent_control_refuse(l, "bad_request",
                                 "\"%s\" is not awaited here",
                                 message_op_name(op));

    } else if (l->fds_count && !ngx_agent_ops[op].fds) {
        ngx_agent_control_refuse(l, "bad_descriptor",
                                 "\"%s\" takes no descriptors",
                                 message_op_name(op));

    } else {
        ngx_agent_ops[op].handler(l, request);
    }

    json_decref(request);
}


/* NULL: refused. */

const policy_t *
ngx_agent_control_policy(ngx_agent_launcher_t *l, ngx_agent_set_t *set,
    const char *name)
{
    char             err[POLICY_ERROR_MAX];
    const policy_t  *policy;

    policy = policy_set_find(set->policies, name);

    if (policy == NULL) {
        (void) policy_error(err, "policy", name,
                            "is not in the broker's configuration");
        ngx_agent_control_refuse(l, "policy_unknown", "%s", err);
        return NULL;
    }

    if (!policy_allows_launcher(policy, l->peer.uid, l->groups,
                                l->groups_count, geteuid()))
    {
        ngx_agent_control_refuse(l, "not_allowed",
                                 "uid %u is not among the \"launchers\" of "
                                 "policy \"%s\"", (unsigned) l->peer.uid,
                                 policy->name);
        return NULL;
    }

    return policy;
}


ngx_int_t
ngx_agent_control_version(ngx_agent_launcher_t *l, json_t *request)
{
    json_t  *v;

    v = json_object_get(request, "v");

    if (!json_is_integer(v)
        || json_integer_value(v) != NGX_AGENT_PROTOCOL)
    {
        ngx_agent_control_refuse(l, "version",
                                 "this broker speaks version %d only",
                                 NGX_AGENT_PROTOCOL);
        return NGX_DECLINED;
    }

    return NGX_OK;
}


static void
ngx_agent_op_near(ngx_agent_launcher_t *l, json_t *request)
{
    json_t                 *used;
    const char             *limit;
    audit_line_t            line;
    ngx_agent_slot_view_t   view;

    limit = json_string_value(json_object_get(request, "limit"));
    used = json_object_get(request, "used");

    /* each limit once is what there is to say: the audit is not a launcher's */

    if (l->near_limits == NGX_AGENT_NEAR_MAX
        || ngx_agent_slot_view(l->task->id, &view) != NGX_OK)
    {
        return;
    }

    l->near_limits++;

    ngx_agent_audit_begin(&line, "near_limit", l->task->id, view.policy,
                          view.policy_hash, view.uid);
    audit_line_open(&line, "claimed");
    audit_line_word(&line, "limit", limit);
    audit_line_number(&line, "used", json_integer_value(used));
    audit_line_close(&line);

    (void) ngx_agent_audit_write(&line, l->task->id);
}


/*
 * The task's connections are cut first, and their end lines written: then
 * its own end line, and only then the answer.
 */

static void
ngx_agent_op_close(ngx_agent_launcher_t *l, json_t *request)
{
    ngx_agent_slot_view_t  view;

    if (ngx_agent_slot_view(l->task->id, &view) != NGX_OK
        || view.sequence != l->task->sequence)
    {
        ngx_agent_control_refuse(l, "task_unknown",
                                 "the task was resumed on another connection, "
                                 "or has ended");
        return;
    }

    l->request = json_incref(request);

    ngx_agent_control_cut(l);
}


void
ngx_agent_control_cut(ngx_agent_launcher_t *l)
{
    l->phase = NGX_AGENT_CLOSING;

    ngx_agent_doors_close(l->task);
    ngx_agent_task_cut(l->task);

    if (ngx_queue_empty(&l->task->connections)) {
        ngx_agent_control_closed(l);
        return;
    }

    l->task->data = l;
    l->task->idle = ngx_agent_control_idle;

    ngx_add_timer(l->connection->read, NGX_AGENT_CLOSE_TIMEOUT);
}


/* The last connection is gone: the answer is sent from the event loop. */

static void
ngx_agent_control_idle(ngx_agent_task_t *task)
{
    ngx_agent_launcher_t *l = task->data;

    task->idle = NULL;

    l->connection->read->timedout = 1;
    ngx_post_event(l->connection->read, &ngx_posted_events);
}


void
ngx_agent_control_closed(ngx_agent_launcher_t *l)
{
    json_t                 *denied;
    ngx_uint_t              count;
    ngx_agent_slot_view_t   view;

    l->task->idle = NULL;

    if (l->connection->read->timer_set) {
        ngx_del_timer(l->connection->read);
    }

    /* the slot counts what was written of the task: all of it from here */

    (void) ngx_agent_audit_flush();

    if (l->is_over) {
        ngx_agent_control_end(l, "audit_budget", NULL);

        l->phase = NGX_AGENT_DONE;

        ngx_agent_control_send(l,
                 json_pack("{s:b, s:s, s:s}", "ok", 0, "error", "audit_budget",
                           "message", "the task has filled its share of the "
                           "audit, and has ended"));
        return;
    }

    denied = ngx_agent_slot_refusals(l->task->id, &count);

    if (ngx_agent_slot_view(l->task->id, &view) != NGX_OK) {
        ngx_memzero(&view, sizeof(ngx_agent_slot_view_t));
    }

    ngx_agent_control_end(l,
             json_string_value(json_object_get(l->request, "reason")),
             l->request);

    json_decref(l->request);
    l->request = NULL;

    l->phase = NGX_AGENT_DONE;

    ngx_agent_control_send(l,
             json_pack("{s:b, s:{s:I, s:o, s:I, s:I}}", "ok", 1, "egress",
                       "allowed", (json_int_t) view.allowed,
                       "denied", denied,
                       "denied_count", (json_int_t) count,
                       "audit_lines", (json_int_t) view.audit_lines + 1));
}


static void
ngx_agent_op_policy(ngx_agent_launcher_t *l, json_t *request)
{
    char             *text;
    size_t            len;
    json_t           *value;
    const char       *name;
    const policy_t   *policy;
    ngx_agent_set_t  *set;

    if (ngx_agent_control_version(l, request) != NGX_OK) {
        return;
    }

    name = json_string_value(json_object_get(request, "policy"));

    set = ngx_agent_set_get(l->connection->log);
    if (set == NULL) {
        ngx_agent_control_refuse(l, "internal", "no policies are loaded");
        return;
    }

    policy = ngx_agent_control_policy(l, set, name);

    if (policy) {
        text = policy_dump((policy_t *) policy, &len);
        value = text ? json_loadb(text, len, 0, NULL) : NULL;
        free(text);

        l->phase = NGX_AGENT_DONE;

        ngx_agent_control_send(l, json_pack("{s:b, s:o}", "ok", 1,
                                            "policy", value));
    }

    ngx_agent_set_release(set);
}


/* Writes the task's end, if its lease is still this worker's. */

void
ngx_agent_control_end(ngx_agent_launcher_t *l, const char *reason,
    json_t *request)
{
    ngx_agent_slot_view_t  view;

    (void) ngx_agent_audit_flush();

    if (ngx_agent_slot_free(l->task->id, l->task->sequence, &view)
        == NGX_OK)
    {
        ngx_agent_audit_task_end(l->task->id, &view, reason, request);
    }
}
