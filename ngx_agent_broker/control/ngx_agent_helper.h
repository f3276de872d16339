/*
 * The helper: a process beside each worker, which receives what launchers
 * send.  A descriptor can make whoever receives, looks at or closes it wait
 * for as long as its sender likes, past any signal (a file of a FUSE mount, a
 * packet socket, a message with one that is dropped unread).  So the event
 * loop never has one in its hands: the helper accepts the control connections,
 * knows who connects before it reads a byte, and hands to the worker the lines,
 * and the descriptors that can be doors.  It has no keys.
 *
 * Both have the connection's socket: the helper reads, the worker writes.  The
 * worker ends a connection by shutdown(), which the helper sees as its end, and
 * closes its copy while the helper has one, whose close is then the last.
 *
 * A helper that does not come back from a descriptor for a second is left to
 * itself, and a new one made.  It ends when its call returns.
 */

#pragma once


#include "control/ngx_agent_launcher.h"


typedef enum {
    NGX_AGENT_HELPER_NEW = 0,               /* with the connection's socket */
    NGX_AGENT_HELPER_LINE,                  /* with what can be doors */
    NGX_AGENT_HELPER_END,                   /* nothing more will come */
    NGX_AGENT_HELPER_STRANGERS              /* were refused */
} ngx_agent_helper_kind_e;


/*
 * The head of a message to the worker; after it the descriptors' descriptions,
 * then the line.  The socket pair keeps messages apart.
 */

#define NGX_AGENT_HELPER_WHY  96

typedef struct {
    ngx_agent_helper_kind_e  kind;
    uint64_t                 id;            /* of the connection */
    ngx_uint_t               listening;     /* NEW: index in the cycle's */
    ngx_uint_t               is_gone;       /* END: takes no answer */
    ngx_uint_t               is_long;       /* LINE: longer than it may be */
    ngx_uint_t               count;         /* of descriptors, of strangers */
    struct ucred             peer;          /* of the last stranger */
    char                     why[NGX_AGENT_HELPER_WHY];  /* refused, if any */
} ngx_agent_helper_message_t;


/*
 * To the helper: the id of a connection that the worker cannot take, or 0: no
 * more connections are accepted.
 */

typedef uint64_t  ngx_agent_helper_order_t;


/* A page that worker and helper share. */

typedef struct {
    ngx_atomic_t    turn;                   /* odd: a descriptor is in hand, */
    ngx_atomic_t    uid;                    /* of this user */
    ngx_atomic_t    id;                     /* on this connection, or 0 */
    ngx_atomic_t    abandoned;              /* another one serves */
} ngx_agent_helper_page_t;


/* Users whose descriptors were not given back, and how often. */

#define NGX_AGENT_HUNG_UIDS  64
#define NGX_AGENT_HUNG_MAX   4

typedef struct {
    uid_t         uid;
    ngx_uint_t    count;
} ngx_agent_helper_hung_t;


/* What a helper begins with; all of it is a copy of the worker's. */

typedef struct {
    ngx_cycle_t              *cycle;
    const policy_set_t       *set;          /* who may launch */
    ngx_socket_t              channel;
    ngx_agent_helper_page_t  *page;
    ngx_agent_helper_hung_t  *hung;         /* NGX_AGENT_HUNG_UIDS */
    uint64_t                  id;           /* the last one given */
    ngx_uint_t                is_stopped;   /* accepts no more */
    ngx_uint_t                is_wary;      /* take no rights unasked */
} ngx_agent_helper_t;


/* ngx_agent_helper.c */

/* The life of a helper, in a process of its own. */
void ngx_agent_helper_run(ngx_agent_helper_t *helper)
    __attribute__((noreturn));


/* ngx_agent_helper_gate.c */

/* Does any policy name this peer, so that it is served at all? */
ngx_uint_t ngx_agent_helper_may(const ngx_agent_helper_t *helper,
    ngx_socket_t s, struct ucred *peer);

/* One more for whom the helper's predecessors waited: the count of them. */
ngx_uint_t ngx_agent_helper_hung_count(const ngx_agent_helper_hung_t *hung,
    uid_t uid);

/* Answers without reading: one line, as far as it can be sent at once. */
void ngx_agent_helper_answer(ngx_socket_t s, const char *error,
    const char *message);
