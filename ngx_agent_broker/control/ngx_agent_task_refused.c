/*
 * Refusals of the control socket in the audit.  Any user that reaches the
 * socket can cause refusals without end.  They must not fill the audit's disk,
 * because once it is full all requests are refused.  So a user has a thousand
 * lines, and one more each 100 ms; refusals beyond that are counted, and
 * recorded together in one line.  Each worker counts for itself.
 */


#include "control/ngx_agent_launcher.h"


#define NGX_AGENT_REFUSED_UIDS   64         /* users counted one by one */
#define NGX_AGENT_REFUSED_LINES  1000
#define NGX_AGENT_REFUSED_STRANGERS  100    /* of all strangers together */
#define NGX_AGENT_REFUSED_TIME   100        /* ms a line */


typedef struct {
    uid_t         uid;
    ngx_msec_t    paid;                     /* when its lines are forgotten */
    uint64_t      unwritten;
    unsigned      used:1;
} ngx_agent_task_refused_t;


static ngx_agent_task_refused_t *ngx_agent_task_refused_of(uid_t uid);
static ngx_int_t ngx_agent_task_refused_pay(ngx_agent_task_refused_t *refused,
    ngx_uint_t lines);
static void ngx_agent_task_refused_count(ngx_agent_task_refused_t *refused);
static void ngx_agent_task_refused_write(uid_t uid, pid_t pid,
    const char *reason, const char *message);


static ngx_agent_task_refused_t
    ngx_agent_task_refused_uids[NGX_AGENT_REFUSED_UIDS];
static ngx_agent_task_refused_t  ngx_agent_task_refused_others;


void
ngx_agent_task_refused(ngx_agent_launcher_t *l, const char *reason,
    const char *message)
{
    ngx_agent_task_refused_t  *refused;

    refused = ngx_agent_task_refused_of(l->peer.uid);

    if (ngx_agent_task_refused_pay(refused, NGX_AGENT_REFUSED_LINES) != NGX_OK)
    {
        refused->unwritten++;
        return;
    }

    ngx_agent_task_refused_write(l->peer.uid, l->peer.pid, reason, message);
}


/* These share one entry, so that a fresh uid is worth no more lines. */

void
ngx_agent_task_refused_strangers(const struct ucred *peer, ngx_uint_t count)
{
    ngx_agent_task_refused_t  *refused;

    refused = &ngx_agent_task_refused_others;
    refused->uid = peer->uid;

    if (ngx_agent_task_refused_pay(refused, NGX_AGENT_REFUSED_STRANGERS)
        == NGX_OK)
    {
        count--;
        ngx_agent_task_refused_write(peer->uid, peer->pid,
                                     PROTOCOL_NOT_ALLOWED,
                                     "the uid is not among the \"launchers\" "
                                     "of any policy");
    }

    refused->unwritten += count;
}


void
ngx_agent_task_refused_rest(void)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_AGENT_REFUSED_UIDS; i++) {
        ngx_agent_task_refused_count(&ngx_agent_task_refused_uids[i]);
    }

    ngx_agent_task_refused_count(&ngx_agent_task_refused_others);
}


/* Is a line left of so many? */

static ngx_int_t
ngx_agent_task_refused_pay(ngx_agent_task_refused_t *refused, ngx_uint_t lines)
{
    if ((ngx_msec_int_t) (refused->paid - ngx_current_msec) < 0) {
        refused->paid = ngx_current_msec;
    }

    if (refused->paid - ngx_current_msec >= lines * NGX_AGENT_REFUSED_TIME) {
        return NGX_DECLINED;
    }

    refused->paid += NGX_AGENT_REFUSED_TIME;

    return NGX_OK;
}


/* The entry of a uid: its own, or the one that is forgotten first. */

static ngx_agent_task_refused_t *
ngx_agent_task_refused_of(uid_t uid)
{
    ngx_uint_t                 i;
    ngx_agent_task_refused_t  *refused, *found;

    found = &ngx_agent_task_refused_uids[0];

    for (i = 0; i < NGX_AGENT_REFUSED_UIDS; i++) {

        refused = &ngx_agent_task_refused_uids[i];

        if (refused->used && refused->uid == uid) {
            found = refused;
            break;
        }

        if (found->used
            && (!refused->used
                || (ngx_msec_int_t) (refused->paid - found->paid) < 0))
        {
            found = refused;
        }
    }

    if (!found->used || found->uid != uid) {
        ngx_agent_task_refused_count(found);

        found->used = 1;
        found->uid = uid;
        found->paid = ngx_current_msec;
    }

    return found;
}


static void
ngx_agent_task_refused_count(ngx_agent_task_refused_t *refused)
{
    char  message[64];

    if (refused->unwritten == 0) {
        return;
    }

    (void) snprintf(message, sizeof(message), "%llu more refusals",
                    (unsigned long long) refused->unwritten);

    refused->unwritten = 0;

    ngx_agent_task_refused_write(refused->uid, 0, PROTOCOL_BUSY, message);
}


static void
ngx_agent_task_refused_write(uid_t uid, pid_t pid, const char *reason,
    const char *message)
{
    audit_line_t  line;

    ngx_agent_audit_begin(&line, "task_refused", NULL, NULL, NULL, 0);
    audit_line_number(&line, "uid", uid);
    audit_line_number(&line, "pid", pid);
    audit_line_word(&line, "reason", reason);
    audit_line_word(&line, "message", message);
    (void) ngx_agent_audit_write(&line, NULL);
}
