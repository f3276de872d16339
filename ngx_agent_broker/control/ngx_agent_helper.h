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


/*
 * What a helper begins with, a copy of the worker's; and, below, what it has
 * of its own.
 */

typedef struct {
    ngx_cycle_t              *cycle;
    const policy_set_t       *set;          /* who may launch */
    ngx_socket_t              channel;
    ngx_agent_helper_page_t  *page;
    ngx_agent_helper_hung_t  *hung;         /* NGX_AGENT_HUNG_UIDS */
    uint64_t                  id;           /* the last one given */
    ngx_uint_t                is_stopped;   /* accepts no more */
    ngx_uint_t                is_wary;      /* takes no rights unasked */

    int                       ep;
    ngx_queue_t               conns;
    ngx_queue_t               strangers;    /* answered, and soon closed */
    ngx_uint_t                strangers_count;
    ngx_queue_t               dead;         /* freed after the pass */
    ngx_msec_t                paused;       /* until then none is accepted */
} ngx_agent_helper_t;


/* A connection, as the helper has it. */

typedef struct {
    ngx_queue_t        queue;
    ngx_socket_t       fd;
    uint64_t           id;                  /* 0: a stranger's */
    uid_t              uid;
    ngx_msec_t         until;               /* a stranger's */
    unsigned           ended:1;             /* its END is sent */

    u_char            *line;                /* what has come of the next one */
    size_t             len;

    ngx_socket_t       fds[PROTOCOL_DOORS_MAX];
    ngx_agent_given_t  given[PROTOCOL_DOORS_MAX];
    ngx_uint_t         count;
    const char        *why;                 /* one cannot be a door */
} ngx_agent_helper_conn_t;


/* ngx_agent_helper.c */

/* The life of a helper, in a process of its own. */
void ngx_agent_helper_run(ngx_agent_helper_t *helper)
    __attribute__((noreturn));


/* ngx_agent_helper_gate.c */

/*
 * Accepts one: NGX_OK; NGX_AGAIN: there is none; NGX_ERROR: no descriptor is
 * left.  A stranger is answered, anybody else read.
 */
ngx_int_t ngx_agent_helper_accept(ngx_agent_helper_t *helper,
    ngx_uint_t listening);

/* Answers without reading: one line, as far as it can be sent at once. */
void ngx_agent_helper_answer(ngx_socket_t s, const char *error,
    const char *message);

/* Tells of strangers that the worker has not heard of, once a second. */
void ngx_agent_helper_tell_rest(ngx_agent_helper_t *helper);
ngx_uint_t ngx_agent_helper_has_untold(void);


/* ngx_agent_helper_read.c */

/* NULL without memory; the socket is the caller's then. */
ngx_agent_helper_conn_t *ngx_agent_helper_add(ngx_agent_helper_t *helper,
    ngx_socket_t s, uint64_t id, uid_t uid);
void ngx_agent_helper_close(ngx_agent_helper_t *helper,
    ngx_agent_helper_conn_t *conn);

/* What epoll says of it. */
void ngx_agent_helper_read(ngx_agent_helper_t *helper,
    ngx_agent_helper_conn_t *conn, uint32_t events);

/* A message to the worker: its head, and one descriptor or -1. */
void ngx_agent_helper_say(ngx_agent_helper_t *helper,
    ngx_agent_helper_message_t *message, ngx_socket_t s);

/*
 * Around each call that touches what a user has sent, or the last copy of a
 * socket in whose queue it waits: the worker watches how long it takes.
 */
void ngx_agent_helper_begin(ngx_agent_helper_t *helper, uid_t uid,
    uint64_t id);
void ngx_agent_helper_done(ngx_agent_helper_t *helper);

/* The worker is gone, or has another helper. */
void ngx_agent_helper_exit(ngx_agent_helper_t *helper)
    __attribute__((noreturn));

/* Monotonic, ms. */
ngx_msec_t ngx_agent_helper_now(void);
