/*
 * What a launcher can ask for: the operations of the control protocol.  Each
 * is a row of the table, with the phases it is understood in and whether it
 * takes descriptors; message.c has checked its keys.  What the rows do not
 * allow never reaches a handler.
 */


#include "control/ngx_agent_launcher.h"
#include "jail/shared/version.h"
#include "parse/message.h"
#include "policy/policy_snapshot.h"


#define NGX_AGENT_POLICY_MAX     60000      /* bytes, of a line */
#define NGX_AGENT_NEAR_MAX       16         /* lines of one connection */


typedef struct {
    void       (*handler)(ngx_agent_launcher_t *l, json_t *request);
    ngx_uint_t   phases;                    /* bits: where it is understood */
    ngx_uint_t   fds;                       /* takes descriptors */
    ngx_int_t  (*pay)(uid_t uid, ngx_uint_t rate, ngx_uint_t burst);
} ngx_agent_op_t;


static void ngx_agent_ops_near_limit(ngx_agent_launcher_t *l, json_t *request);
static void ngx_agent_ops_close(ngx_agent_launcher_t *l, json_t *request);
static void ngx_agent_ops_policy(ngx_agent_launcher_t *l, json_t *request);
static void ngx_agent_ops_health(ngx_agent_launcher_t *l, json_t *request);


#define IN(phase)  (1 << NGX_AGENT_ ## phase)

static const ngx_agent_op_t  ngx_agent_ops[MESSAGE_OPS] = {

    [MESSAGE_OPEN] = { ngx_agent_open_task, IN(NEW), 0, ngx_agent_peer_open },

    [MESSAGE_SERVE] = { ngx_agent_open_serve, IN(OPENED), 1, NULL },

    [MESSAGE_RESUME] = { ngx_agent_open_resume, IN(NEW), 1, NULL },

    [MESSAGE_NEAR_LIMIT] = { ngx_agent_ops_near_limit,
                             IN(SERVING)|IN(DRAINED), 0, NULL },

    /*
     * In OPENED: the box could not be made.  In DRAINED: one that crossed the
     * event on its way.
     */

    [MESSAGE_CLOSE] = { ngx_agent_ops_close,
                        IN(OPENED)|IN(SERVING)|IN(DRAINED), 0, NULL },

    [MESSAGE_POLICY] = { ngx_agent_ops_policy, IN(NEW), 0, ngx_agent_peer_ask },

    [MESSAGE_ASK] = { ngx_agent_question, IN(NEW), 0, ngx_agent_peer_ask },

    [MESSAGE_HEALTH] = { ngx_agent_ops_health, IN(NEW), 0, ngx_agent_peer_ask },
};


void
ngx_agent_ops_line(ngx_agent_launcher_t *l, u_char *line, size_t len,
    const char *why)
{
    char           err[MESSAGE_ERROR_MAX];
    json_t        *request;
    message_op_t   op;

    if (l->over) {
        return;                             /* it crossed the end of its task */
    }

    request = message_parse(line, len, &op, err);

    if (request == NULL) {
        ngx_agent_launcher_refuse(l, PROTOCOL_BAD_REQUEST, "%s", err);
        return;
    }

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, l->connection->log, 0,
                   "agent: launcher asks \"%s\"", message_op_name(op));

    if (!(ngx_agent_ops[op].phases & (1 << l->phase))) {
        ngx_agent_launcher_refuse(l, PROTOCOL_BAD_REQUEST,
                                  "\"%s\" is not expected now",
                                  message_op_name(op));

    } else if (l->phase >= NGX_AGENT_SERVING) {

        /* what comes with it is closed, and changes nothing */

        ngx_agent_launcher_drop_fds(l);
        ngx_agent_ops[op].handler(l, request);

    } else if ((l->fds_count || *why) && !ngx_agent_ops[op].fds) {
        ngx_agent_launcher_refuse(l, PROTOCOL_BAD_DESCRIPTOR,
                                  "\"%s\" takes no descriptors",
                                  message_op_name(op));

    } else if (*why) {
        ngx_agent_launcher_refuse(l, PROTOCOL_BAD_DESCRIPTOR, "%s", why);

    } else if (ngx_agent_ops[op].pay
               && ngx_agent_ops[op].pay(l->peer.uid, l->amcf->opens_rate,
                                        l->amcf->opens_burst)
                  != NGX_OK)
    {
        ngx_agent_launcher_refuse(l, PROTOCOL_BUSY,
                                  "uid %u %s more than %d times a second: "
                                  "try again in a second, or raise "
                                  "\"agent_opens\"", (unsigned) l->peer.uid,
                                  op == MESSAGE_OPEN ? "opens a task" : "asks",
                                  (int) l->amcf->opens_rate);

    } else {
        ngx_agent_ops[op].handler(l, request);
    }

    json_decref(request);
}


static void
ngx_agent_ops_near_limit(ngx_agent_launcher_t *l, json_t *request)
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
ngx_agent_ops_close(ngx_agent_launcher_t *l, json_t *request)
{
    ngx_agent_slot_view_t  view;

    if (ngx_agent_slot_view(l->task->id, &view) != NGX_OK
        || view.sequence != l->task->sequence)
    {
        ngx_agent_launcher_refuse(l, PROTOCOL_TASK_UNKNOWN,
                                  "the task was resumed on another connection, "
                                  "or has ended");
        return;
    }

    l->request = json_incref(request);

    ngx_agent_launcher_cut(l);
}


static void
ngx_agent_ops_policy(ngx_agent_launcher_t *l, json_t *request)
{
    char                  *text;
    size_t                 len;
    json_t                *value;
    const policy_t        *policy;
    ngx_agent_policies_t  *set;

    policy = ngx_agent_launcher_policy(l, request, &set);
    if (policy == NULL) {
        return;
    }

    text = policy_snapshot_text(policy, NGX_AGENT_POLICY_MAX, &len);
    value = text ? json_loadb(text, len, 0, NULL) : NULL;
    free(text);

    l->phase = NGX_AGENT_DONE;

    ngx_agent_launcher_send(l, json_pack("{s:b, s:o}", "ok", 1,
                                         "policy", value));

    ngx_agent_policies_release(set);
}


/* What `jail doctor` asks: would a task start, and its record be written? */

static void
ngx_agent_ops_health(ngx_agent_launcher_t *l, json_t *request)
{
    if (ngx_agent_launcher_version(l, request) != NGX_OK) {
        return;
    }

    (void) ngx_agent_ca_ready(l->amcf, l->connection->log);

    l->phase = NGX_AGENT_DONE;

    ngx_agent_launcher_send(l,
                 json_pack("{s:b, s:s, s:b, s:I}", "ok", 1,
                           "version", AGENT_BROKER_VERSION,
                           "audit", ngx_agent_audit_is_failing() ? 0 : 1,
                           "ca_left",
                           (json_int_t) mint_left(l->amcf->ca_cert)));
}
