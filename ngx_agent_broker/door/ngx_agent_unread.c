/*
 * A door of a task that is past its refusals: what waits there is closed
 * unread, and the door pauses.  See ngx_agent_refusals.c.
 */


#include "door/ngx_agent_door.h"


#define NGX_AGENT_UNREAD_BATCH  16


ngx_uint_t
ngx_agent_unread(ngx_event_t *rev)
{
    char               byte;
    ssize_t            rc;
    ngx_uint_t         n;
    ngx_msec_t         pause;
    struct linger      linger;
    ngx_agent_door_t  *door;
    ngx_connection_t  *lc;

    lc = rev->data;
    door = ngx_agent_door_of(lc->listening);

    if (!door->task->unread) {
        return 0;
    }

    linger.l_onoff = 1;                     /* a reset: nothing is left */
    linger.l_linger = 0;

    ngx_agent_given_interrupt(1);

    for (n = 0; n < NGX_AGENT_UNREAD_BATCH; n++) {

        if (door->kind == NGX_AGENT_DOOR_DNS_UDP) {
            rc = recv(lc->fd, &byte, 1, MSG_DONTWAIT);

        } else {
            rc = accept4(lc->fd, NULL, NULL, SOCK_NONBLOCK|SOCK_CLOEXEC);
        }

        if (rc == -1) {
            break;
        }

        if (door->kind != NGX_AGENT_DOOR_DNS_UDP) {
            (void) setsockopt((ngx_socket_t) rc, SOL_SOCKET, SO_LINGER,
                              &linger, sizeof(linger));
            (void) close((ngx_socket_t) rc);
        }
    }

    ngx_agent_given_interrupt(0);

    if (n == 0) {
        return 0;                           /* the handler sees why */
    }

    pause = ngx_agent_refusals_unread(door->task->id, n);
    ngx_agent_counted_tell(door->task->id);

    (void) ngx_del_event(rev, NGX_READ_EVENT, 0);

    if (pause == 0) {
        ngx_post_event(&ngx_agent_audit_over, &ngx_posted_events);
        return 1;
    }

    ngx_add_timer(rev, pause);

    return 1;
}
