/*
 * Refusals of the control socket in the audit.  Any user that reaches the
 * socket can cause refusals without end.  They must not fill the audit's disk,
 * because once it is full all requests are refused.  So a user that a policy
 * names has a thousand lines and ten more a second, and all others together
 * have a hundred and ten more a second (ngx_agent_peers.c); refusals beyond
 * that are counted, and recorded together in one line a second.
 */


#include "control/ngx_agent_launcher.h"


#define NGX_AGENT_REFUSED_UIDS   64         /* users counted one by one */


typedef struct {
    uid_t         uid;
    uint64_t      unwritten;
} ngx_agent_task_refused_t;


static ngx_agent_task_refused_t *ngx_agent_task_refused_of(uid_t uid);
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
    if (ngx_agent_peer_line(l->peer.uid) != NGX_OK) {
        ngx_agent_task_refused_of(l->peer.uid)->unwritten++;
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

    if (ngx_agent_peer_line(NGX_AGENT_PEER_STRANGER) == NGX_OK) {
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


/* The entry of a uid that waits to be told of, or one that is free. */

static ngx_agent_task_refused_t *
ngx_agent_task_refused_of(uid_t uid)
{
    ngx_uint_t                 i;
    ngx_agent_task_refused_t  *refused, *found;

    found = NULL;

    for (i = 0; i < NGX_AGENT_REFUSED_UIDS; i++) {

        refused = &ngx_agent_task_refused_uids[i];

        if (refused->unwritten && refused->uid == uid) {
            return refused;
        }

        if (refused->unwritten == 0) {
            found = refused;
        }
    }

    if (found == NULL) {
        found = &ngx_agent_task_refused_uids[0];
        ngx_agent_task_refused_count(found);
    }

    found->uid = uid;

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
