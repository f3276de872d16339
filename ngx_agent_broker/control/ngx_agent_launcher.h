/*
 * A launcher's control connection, as the files of the control protocol share
 * it: ngx_agent_control.c reads and writes it, ngx_agent_ops.c understands
 * what is said, ngx_agent_open.c begins tasks.
 */

#pragma once


#include "control/ngx_agent_control.h"

#include <jansson.h>


typedef enum {
    NGX_AGENT_NEW = 0,
    NGX_AGENT_OPENED,
    NGX_AGENT_SERVING,
    NGX_AGENT_CLOSING,
    NGX_AGENT_DRAINED,
    NGX_AGENT_DONE                          /* a refusal is being sent */
} ngx_agent_phase_e;


/* Why the broker itself ends a task. */

typedef enum {
    NGX_AGENT_END_NOT = 0,
    NGX_AGENT_END_BUDGET,
    NGX_AGENT_END_REFUSALS,
    NGX_AGENT_END_OVERDUE
} ngx_agent_end_e;


#define NGX_AGENT_GROUPS_MAX  256


typedef struct {
    ngx_queue_t            queue;           /* of the worker's launchers */
    ngx_rbtree_node_t      node;            /* by its id */
    uint64_t               id;              /* the helper's name of it */
    ngx_connection_t      *connection;
    ngx_agent_srv_conf_t  *ascf;
    ngx_agent_main_conf_t *amcf;

    ngx_agent_phase_e      phase;
    int                    version;         /* that it has asked for */
    ngx_agent_task_t      *task;

    struct ucred           peer;
    gid_t                 *groups;
    ngx_uint_t             groups_count;

    ngx_agent_door_spec_t  doors[PROTOCOL_DOORS_MAX];
    ngx_uint_t             doors_count;
    time_t                 expires;

    ngx_socket_t           fds[PROTOCOL_DOORS_MAX];     /* with a line, */
    ngx_agent_given_t     *given;           /* as long as it is handled */
    ngx_uint_t             fds_count;

    u_char                *out;             /* what is still to be sent */
    size_t                 out_len;

    ngx_uint_t             near_limits;     /* recorded so far */

    json_t                *request;         /* of `close`, while cutting */
    ngx_agent_end_e        over;            /* cut by a bound of its own */
    unsigned               ended:1;         /* it sends no more */
    unsigned               counted:1;       /* among its user's */
    unsigned               lingers:1;       /* refused before it has asked */
} ngx_agent_launcher_t;


/* ngx_agent_listen.c */

/* The mark of a control socket among core's; never called. */
void ngx_agent_listen_accepted(ngx_connection_t *c);


/* ngx_agent_control.c */

/* In a worker: launchers can be served; and, when it exits, no longer. */
ngx_int_t ngx_agent_control_start(ngx_cycle_t *cycle);
void ngx_agent_control_stop(ngx_cycle_t *cycle);

/*
 * A launcher has connected; has sent a line, with the descriptors in l->fds;
 * has sent its last one, or is gone.  After each of these it may be freed.
 */
ngx_int_t ngx_agent_control_new(ngx_agent_srv_conf_t *ascf, ngx_socket_t s,
    uint64_t id);
void ngx_agent_control_line(ngx_agent_launcher_t *l, u_char *line, size_t len,
    const char *why);
void ngx_agent_control_end(ngx_agent_launcher_t *l, ngx_uint_t is_gone);

/* By the helper's name of it, or NULL. */
ngx_agent_launcher_t *ngx_agent_control_find(uint64_t id);

/* Calls the handler with each. */
void ngx_agent_control_each(void (*handler)(const ngx_agent_launcher_t *l,
    void *data), void *data);


/* ngx_agent_ops.c */

/*
 * One line of the protocol, without its newline; `why` a descriptor beside it
 * was refused, or an empty text.
 */
void ngx_agent_ops_line(ngx_agent_launcher_t *l, u_char *line,
    size_t len, const char *why);


/* ngx_agent_open.c */

/* The operations that begin a task, or take it over. */
void ngx_agent_open_task(ngx_agent_launcher_t *l, json_t *request);
void ngx_agent_open_serve(ngx_agent_launcher_t *l, json_t *request);
void ngx_agent_open_resume(ngx_agent_launcher_t *l, json_t *request);


/* ngx_agent_question.c */

/* What would a request be answered, and by which rule? */
void ngx_agent_question(ngx_agent_launcher_t *l, json_t *request);


/* ngx_agent_launcher.c */

/* The broker's own net namespace, as SO_NETNS_COOKIE names it. */
uint64_t ngx_agent_launcher_netns(void);

/*
 * Checks that refuse by themselves: NGX_DECLINED, or NULL.  A policy lives as
 * long as its set, which the caller releases.
 */
ngx_int_t ngx_agent_launcher_version(ngx_agent_launcher_t *l,
    json_t *request);
const policy_t *ngx_agent_launcher_policy(ngx_agent_launcher_t *l,
    json_t *request, ngx_agent_policies_t **set);

/* Takes the reply over; it is sent from the event loop. */
void ngx_agent_launcher_send(ngx_agent_launcher_t *l, json_t *reply);

/* Sends and records a refusal, and ends what there is of a task. */
void ngx_agent_launcher_refuse(ngx_agent_launcher_t *l, const char *error,
    const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * This worker leaves: the launcher is told, and the doors are closed, so that
 * another worker can have them.
 */
void ngx_agent_launcher_drain(ngx_agent_launcher_t *l);

/* Cuts the task's connections; it is closed when they are gone. */
void ngx_agent_launcher_cut(ngx_agent_launcher_t *l);

/*
 * The connection's read handler is called as on a timeout, once the last of
 * the task's connections, which are cut, is gone or their time is over.
 */
void ngx_agent_launcher_await(ngx_agent_launcher_t *l);

/* `close`, then. */
void ngx_agent_launcher_closed(ngx_agent_launcher_t *l);

/* Writes the task's end, if its lease is still this worker's. */
void ngx_agent_launcher_end(ngx_agent_launcher_t *l, const char *reason,
    json_t *request);

/* It is no longer one of its user's: it has ended, or is drained. */
void ngx_agent_launcher_uncount(ngx_agent_launcher_t *l);

/* Closes what was handed over and not used. */
void ngx_agent_launcher_drop_fds(ngx_agent_launcher_t *l);

/*
 * Who is at the other end, as the kernel says, with its groups:
 * NGX_AGENT_GROUPS_MAX + 1 of them at most.
 */
ngx_int_t ngx_agent_launcher_peer(ngx_socket_t s, struct ucred *peer,
    gid_t *groups, ngx_uint_t *count);


/* ngx_agent_task_refused.c */

/* A refusal's line in the audit, or one more that is told later. */
void ngx_agent_task_refused(ngx_agent_launcher_t *l, const char *reason,
    const char *message);

/* So many whom no policy names; `peer` was the last. */
void ngx_agent_task_refused_strangers(const struct ucred *peer,
    ngx_uint_t count);

/* Tells of those that have no line: each second, and when a worker ends. */
void ngx_agent_task_refused_rest(void);
