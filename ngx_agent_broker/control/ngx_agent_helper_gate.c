/*
 * Who may speak with the broker: known from the kernel before a byte or a
 * descriptor is taken.
 */


#include "control/ngx_agent_helper.h"

#include <sys/epoll.h>


#define NGX_AGENT_HELPER_STRANGERS_MAX  64  /* that were answered, and wait */
#define NGX_AGENT_HELPER_LINGER     1000    /* ms, for what they send */
#define NGX_AGENT_HELPER_TOLD       20      /* strangers a second, each told */

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS  83                   /* Linux 6.16 */
#endif


static ngx_uint_t ngx_agent_helper_may(const ngx_agent_helper_t *helper,
    ngx_socket_t s, struct ucred *peer);
static ngx_uint_t ngx_agent_helper_hung_count(
    const ngx_agent_helper_hung_t *hung, uid_t uid);
static void ngx_agent_helper_admit(ngx_agent_helper_t *helper,
    ngx_uint_t listening, ngx_socket_t s, uid_t uid);
static void ngx_agent_helper_stranger(ngx_agent_helper_t *helper,
    ngx_socket_t s, struct ucred *peer);
static void ngx_agent_helper_tell(ngx_agent_helper_t *helper);


/* strangers of this second, and the last of those that were not told */

static ngx_msec_t   ngx_agent_helper_second;
static ngx_uint_t   ngx_agent_helper_told;
static ngx_uint_t   ngx_agent_helper_untold;
static struct ucred  ngx_agent_helper_last;


ngx_int_t
ngx_agent_helper_accept(ngx_agent_helper_t *helper, ngx_uint_t listening)
{
    ngx_socket_t      s;
    struct ucred      peer;
    ngx_listening_t  *ls;

    ls = helper->cycle->listening.elts;

    s = accept4(ls[listening].fd, NULL, NULL, SOCK_NONBLOCK|SOCK_CLOEXEC);

    if (s == (ngx_socket_t) -1) {

        if (ngx_errno == NGX_EMFILE || ngx_errno == NGX_ENFILE
            || ngx_errno == NGX_ENOMEM || ngx_errno == ENOBUFS)
        {
            return NGX_ERROR;
        }

        return NGX_AGAIN;
    }

    if (!ngx_agent_helper_may(helper, s, &peer)) {
        ngx_agent_helper_stranger(helper, s, &peer);
        return NGX_OK;
    }

    if (ngx_agent_helper_hung_count(helper->hung, peer.uid)
        >= NGX_AGENT_HUNG_MAX)
    {
        ngx_agent_helper_answer(s, PROTOCOL_BUSY,
                                "descriptors of this user did not come back "
                                "when they were closed: send sockets only, or "
                                "ask the broker's operator for a reload");
        ngx_agent_helper_begin(helper, peer.uid, 0);
        (void) close(s);
        ngx_agent_helper_done(helper);
        return NGX_OK;
    }

    ngx_agent_helper_admit(helper, listening, s, peer.uid);

    return NGX_OK;
}


static void
ngx_agent_helper_admit(ngx_agent_helper_t *helper, ngx_uint_t listening,
    ngx_socket_t s, uid_t uid)
{
    int                          yes;
    struct epoll_event           ee;
    ngx_agent_helper_conn_t     *conn;
    ngx_agent_helper_message_t   message;

    /* a byte of its own (MSG_OOB) would be ready for ever, and never read */

    yes = 1;
    (void) setsockopt(s, SOL_SOCKET, SO_PASSRIGHTS, &yes, sizeof(int));
    (void) setsockopt(s, SOL_SOCKET, SO_OOBINLINE, &yes, sizeof(int));

    conn = ngx_agent_helper_add(helper, s, ++helper->id, uid);

    if (conn == NULL) {
        (void) close(s);
        return;
    }

    ngx_memzero(&message, sizeof(ngx_agent_helper_message_t));
    message.kind = NGX_AGENT_HELPER_NEW;
    message.id = conn->id;
    message.listening = listening;

    ngx_agent_helper_say(helper, &message, s);

    ee.events = EPOLLIN;
    ee.data.ptr = conn;

    (void) epoll_ctl(helper->ep, EPOLL_CTL_ADD, s, &ee);

    /* what it asks is mostly there already */

    ngx_agent_helper_read(helper, conn, 0);
}


/*
 * A user whom no policy names: it is told so, and nothing of it is read.  The
 * connection is kept until it has sent what it came for, or a second, so that
 * the answer is met by a peer that writes first.
 */

static void
ngx_agent_helper_stranger(ngx_agent_helper_t *helper, ngx_socket_t s,
    struct ucred *peer)
{
    char                      message[160];
    struct epoll_event        ee;
    ngx_agent_helper_conn_t  *conn;

    (void) snprintf(message, sizeof(message),
                    "uid %u is not among the \\\"launchers\\\" of any policy: "
                    "ask the broker's operator to add it to one",
                    (unsigned) peer->uid);

    ngx_agent_helper_answer(s, PROTOCOL_NOT_ALLOWED, message);

    conn = ngx_agent_helper_add(helper, s, 0, peer->uid);

    if (conn == NULL) {
        ngx_agent_helper_begin(helper, peer->uid, 0);
        (void) close(s);
        ngx_agent_helper_done(helper);

    } else {
        conn->until = ngx_agent_helper_now() + NGX_AGENT_HELPER_LINGER;

        ee.events = EPOLLIN;
        ee.data.ptr = conn;

        (void) epoll_ctl(helper->ep, EPOLL_CTL_ADD, s, &ee);
    }

    if (helper->strangers_count > NGX_AGENT_HELPER_STRANGERS_MAX) {
        conn = ngx_queue_data(ngx_queue_head(&helper->strangers),
                              ngx_agent_helper_conn_t, queue);
        ngx_agent_helper_close(helper, conn);
    }

    ngx_agent_helper_last = *peer;
    ngx_agent_helper_untold++;

    if (ngx_agent_helper_now() - ngx_agent_helper_second >= 1000) {
        ngx_agent_helper_second = ngx_agent_helper_now();
        ngx_agent_helper_told = 0;
    }

    if (ngx_agent_helper_told < NGX_AGENT_HELPER_TOLD) {
        ngx_agent_helper_told++;
        ngx_agent_helper_tell(helper);
    }
}


static void
ngx_agent_helper_tell(ngx_agent_helper_t *helper)
{
    ngx_agent_helper_message_t  message;

    ngx_memzero(&message, sizeof(ngx_agent_helper_message_t));
    message.kind = NGX_AGENT_HELPER_STRANGERS;
    message.peer = ngx_agent_helper_last;
    message.count = ngx_agent_helper_untold;

    ngx_agent_helper_untold = 0;

    ngx_agent_helper_say(helper, &message, -1);
}


static ngx_uint_t
ngx_agent_helper_may(const ngx_agent_helper_t *helper, ngx_socket_t s,
    struct ucred *peer)
{
    size_t      i;
    gid_t       groups[NGX_AGENT_GROUPS_MAX + 1];
    ngx_uint_t  n;

    ngx_memzero(peer, sizeof(struct ucred));

    if (ngx_agent_launcher_peer(s, peer, groups, &n) != NGX_OK) {
        return 0;
    }

    for (i = 0; i < helper->set->policies_count; i++) {

        if (policy_allows_launcher(helper->set->policies[i], peer->uid, groups,
                                   n, geteuid()))
        {
            return 1;
        }
    }

    /* who may open no task may be told so of a policy */

    return peer->uid == 0 || peer->uid == geteuid();
}


/* How often did a helper wait for descriptors of this user? */

static ngx_uint_t
ngx_agent_helper_hung_count(const ngx_agent_helper_hung_t *hung, uid_t uid)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_AGENT_HUNG_UIDS; i++) {

        if (hung[i].count && hung[i].uid == uid) {
            return hung[i].count;
        }
    }

    return 0;
}


void
ngx_agent_helper_answer(ngx_socket_t s, const char *error, const char *message)
{
    int   n;
    char  line[512];

    n = snprintf(line, sizeof(line),
                 "{\"ok\":false,\"error\":\"%s\",\"message\":\"%s\"}\n",
                 error, message);

    if (n > 0 && (size_t) n < sizeof(line)) {
        (void) send(s, line, n, MSG_DONTWAIT|MSG_NOSIGNAL);
    }
}


ngx_uint_t
ngx_agent_helper_has_untold(void)
{
    return ngx_agent_helper_untold;
}


void
ngx_agent_helper_tell_rest(ngx_agent_helper_t *helper)
{
    if (ngx_agent_helper_untold
        && ngx_agent_helper_now() - ngx_agent_helper_second >= 1000)
    {
        ngx_agent_helper_tell(helper);
    }
}
