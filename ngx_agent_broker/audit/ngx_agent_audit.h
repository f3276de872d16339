/*
 * The audit, and a request's decision, which is what most of its lines record:
 * request/ and door/ fill the decision, ngx_agent_events.c writes it down.
 */

#pragma once


#include "task/ngx_agent_task.h"
#include "parse/chunk.h"
#include "audit/audit_line.h"
#include "credentials/ngx_agent_credentials.h"
#include "parse/answer.h"


#define NGX_AGENT_DIALS_MAX  3              /* addresses of one request */


/* A request's decision. */

typedef struct ngx_agent_ctx_s  ngx_agent_ctx_t;

typedef struct ngx_agent_name_s  ngx_agent_name_t;


/* A request or tunnel that waits for its line of the audit. */

typedef struct {
    ngx_queue_t        queue;
    uint64_t           sequence;            /* of the line */
    ngx_int_t          rc;                  /* NGX_AGAIN: is not written yet */
    ngx_agent_ctx_t   *ctx;
    void             (*handler)(ngx_agent_ctx_t *ctx);
} ngx_agent_audit_wait_t;


/* The bytes of a request; "taken" is what it has of its task's bounds. */

typedef struct {
    uint64_t               read;            /* of the box, with framing */
    uint64_t               body;            /* the same, without */
    uint64_t               discarded;       /* after its answer */
    uint64_t               sent;            /* to the upstream */
    uint64_t               received;        /* of the upstream */

    uint64_t               up_taken;
    uint64_t               up_known;        /* for a body of known length */
    uint64_t               down_taken;
    uint64_t               down_known;

    chunk_t                chunk;           /* of the box's body */
    ngx_output_chain_filter_pt  output;     /* the proxy's */
    void                  *output_data;
    void                 (*finalize)(ngx_http_request_t *r, ngx_int_t rc);

    unsigned               chunked:1;       /* `chunk` follows the body */
    unsigned               malformed:1;     /* the body's framing is */
    unsigned               up_over:1;       /* bytes_up is used up */
    unsigned               cut:1;           /* no more bytes pass */
    unsigned               stopped:1;       /* its upstream takes no more */
    unsigned               over:1;          /* its answer is complete */
} ngx_agent_flow_t;


/* A request or tunnel that is being carried, in its worker's list of them. */

typedef struct {
    ngx_queue_t            queue;
    ngx_msec_t             active;          /* when a byte was last moved */
    unsigned               upgraded:1;      /* or a tunnel: `idle` applies */

    /* by the newest policies: its rule, or NULL */
    const policy_rule_t *(*judge)(ngx_agent_ctx_t *ctx);
    void                 (*end)(ngx_agent_ctx_t *ctx,
                                ngx_agent_reason_e reason);
} ngx_agent_live_t;


typedef enum {
    NGX_AGENT_UNDECIDED = 0,
    NGX_AGENT_TURN,                         /* waits for its turn of `rate` */
    NGX_AGENT_ROOM,                         /* waits for one in flight to end */
    NGX_AGENT_RESOLVING,
    NGX_AGENT_RECORDING,
    NGX_AGENT_ALLOWED,
    NGX_AGENT_REFUSED
} ngx_agent_state_e;


struct ngx_agent_ctx_s {
    ngx_agent_state_e      state;
    ngx_agent_reason_e     reason;
    const char            *why;             /* a constant, or NULL */

    ngx_agent_task_t      *task;
    ngx_agent_connection_t *from;           /* the box's; NULL: a tunnel's */
    ngx_agent_wait_t       wait;
    ngx_msec_t             left;            /* ms that it may still wait */
    unsigned               held:1;          /* counted as in flight */

    ngx_agent_policies_t  *set;
    uint64_t               dialled_by;      /* generation of the policies that
                                               the connection was made by */
    const policy_t        *policy;
    const policy_rule_t   *rule;
    u_char                 policy_hash[POLICY_HASH_LEN + 1];
    uid_t                  uid;

    ngx_str_t              line;            /* the request line, as it came */
    ngx_str_t              host;            /* and Host */
    target_t               target;
    in_port_t              port;            /* of the upstream */
    unsigned               tls:1;           /* to the upstream */
    unsigned               waiting:1;       /* for addresses */
    unsigned               kept:1;          /* a kept connection was tried */
    unsigned               websocket:1;     /* is asked for, and allowed */
    unsigned               odd_names:1;     /* of headers: with "_", "." ... */
    unsigned               sent:1;          /* a byte went to the upstream */
    unsigned               listed:1;        /* among the task's refusals */
    unsigned               spent:1;         /* its connection is not kept */
    ngx_agent_stripped_t  *stripped;        /* while its line is made */
    void                  *reused;          /* what it was kept in */
    ngx_msec_t             started;

    u_char                 request[PROTOCOL_ID_LEN / 2];  /* its id */
    ngx_agent_audit_wait_t record;          /* of the decision */

    ngx_pool_t            *pool;            /* of the addresses */
    void                 (*resolved)(ngx_agent_ctx_t *ctx);
    ngx_resolver_t        *resolver;        /* that is asked */
    ngx_msec_t             resolve_time;    /* ms, at most */
    ngx_agent_name_t      *name;            /* that it waits for */
    ngx_queue_t            name_queue;      /* of those that wait for it */
    address_t             *addresses;       /* those that may be dialled */
    ngx_uint_t             addresses_count;
    ngx_uint_t             next;            /* to be dialled */
    ngx_msec_t             dialled;         /* since when it is tried */
    ngx_event_t            dial;            /* ends a dial */
    ngx_sockaddr_t         sockaddr;        /* of the one being dialled */
    const address_t       *named;           /* the last one, and as text: */
    ngx_str_t              address;
    ngx_str_t              peer;            /* "address:port", for logs */

    void                  *owner;           /* the tunnel, without a request */
    ngx_http_request_t    *http;
    ngx_agent_flow_t       flow;
    ngx_agent_live_t       live;
    size_t                 head_size;       /* of the request sent up */
    ngx_buf_t             *head;            /* it, if it has a credential */
    uint64_t               written;         /* earlier, by a kept connection */

    ngx_int_t            (*process_header)(ngx_http_request_t *r);
    ngx_int_t            (*reinit_request)(ngx_http_request_t *r);
    ngx_int_t            (*body_init)(void *data);
    ngx_int_t            (*body)(void *data, ssize_t bytes);
    answer_t               answer;          /* its head */
    chunk_t                chunks;          /* and its body, as it comes */
    ngx_uint_t             interim;         /* answers before it */
    size_t                 interim_bytes;

    ngx_agent_reason_e     failure;         /* after the decision */
    ngx_str_t              page;            /* in the place of nginx's */
    uint64_t               vault;           /* revision of what was attached */
};


/* ngx_agent_audit_file.c */

/*
 * Opens the file while the configuration is read, where it will be started;
 * the descriptor belongs to the cycle.  NGX_ERROR when it cannot be written to,
 * and said so.
 */
ngx_int_t ngx_agent_audit_file_open(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf);

/* In the master: the file of a configuration that has started. */
void ngx_agent_audit_file_start(ngx_agent_main_conf_t *amcf, ngx_log_t *log);

/* Has this process a file to write to? */
ngx_uint_t ngx_agent_audit_file_is_open(void);


/* ngx_agent_audit_shared.c */

/* Adds the zone in which the writers know of each other. */
ngx_int_t ngx_agent_audit_shared_add(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf);

/* This process is a worker from here on: should it be killed, it is told. */
void ngx_agent_audit_shared_serve(void);


/* ngx_agent_audit.c */

/* Posted when a task is to end by a bound of it; control/ handles it. */
extern ngx_event_t  ngx_agent_audit_over;

/* In the master, once the file is there: lines can be written. */
void ngx_agent_audit_start(ngx_cycle_t *cycle);

/* "@timestamp" to "seq", then the task's keys where there is a task. */
void ngx_agent_audit_begin(audit_line_t *line, const char *event,
    const u_char *task, const u_char *policy, const u_char *policy_hash,
    uid_t uid);

/* Ends and writes the line: NGX_ERROR when it is not in the file. */
ngx_int_t ngx_agent_audit_write(audit_line_t *line, const u_char *task);

/* The same at the end of this pass of the event loop, or before. */
void ngx_agent_audit_gather(audit_line_t *line, const u_char *task);

/*
 * The same for a line that is waited for; a request's decision (is_allowed)
 * is counted as allowed when it is written.  Calls the handler then, with rc as
 * of ngx_agent_audit_write; what ends before that must leave.
 */
void ngx_agent_audit_await(audit_line_t *line, const u_char *task,
    ngx_agent_audit_wait_t *wait, ngx_uint_t is_allowed);
void ngx_agent_audit_leave(ngx_agent_audit_wait_t *wait);

/* The same for the last line of this process. */
ngx_int_t ngx_agent_audit_write_end(audit_line_t *line);

/* Writes what was gathered: NGX_ERROR when not all of it is in the file. */
ngx_int_t ngx_agent_audit_flush(void);

/* Has the last write of any process failed? */
ngx_uint_t ngx_agent_audit_is_failing(void);

/* The number of the line that this process wrote last. */
uint64_t ngx_agent_audit_last(void);


/* ngx_agent_counted.c */

/*
 * One more was refused by this bound, without a line of its own; of the host
 * that it asked for, where it is known.  Those of `names` and `refusals` were
 * counted as denied before, by ngx_agent_refusals_spend().
 */
void ngx_agent_counted(const u_char *id, ngx_agent_counted_e kind,
    const void *host, size_t len);

/* Writes the lines that are due, if this worker has the task's lease. */
void ngx_agent_counted_tell(const u_char *id);

/* Writes the rest, of a slot that was freed. */
void ngx_agent_counted_rest(const u_char *id, ngx_agent_slot_view_t *view);

/* The totals, for the line of the task's end. */
void ngx_agent_counted_keys(audit_line_t *line, ngx_agent_slot_view_t *view);


/* ngx_agent_events.c */

/* That the name is about to be asked for, with ctx->record: NGX_AGAIN. */
ngx_int_t ngx_agent_events_lookup(ngx_agent_ctx_t *ctx);

/* At once, or with ctx->record: NGX_AGAIN. */
ngx_int_t ngx_agent_events_decision(ngx_agent_ctx_t *ctx,
    const char *verdict);
ngx_int_t ngx_agent_events_connect(ngx_agent_ctx_t *ctx);

/* A request that has ended before its decision, counted as denied before. */
void ngx_agent_events_aborted(ngx_agent_ctx_t *ctx, ngx_agent_reason_e reason);

/* One that was allowed, and has ended before its answer. */
void ngx_agent_events_unanswered(ngx_agent_ctx_t *ctx);

/* How what was allowed has ended; status 0: without an answer. */
void ngx_agent_events_end(ngx_agent_ctx_t *ctx, ngx_uint_t status);

/* The handler of the log phase: the last line of a request of a box. */
ngx_int_t ngx_agent_events_log(ngx_http_request_t *r);

/* Why core ended a request of a box, of which nothing else tells. */
ngx_agent_reason_e ngx_agent_events_reason(ngx_http_request_t *r);

/*
 * The last line of a task.  claimed: what the launcher says of it, from its
 * `close`, or NULL.
 */
void ngx_agent_events_task_end(const u_char *id, ngx_agent_slot_view_t *view,
    const char *reason, json_t *claimed);


/* ngx_agent_unfinished.c */

/*
 * What a request was waiting for that has ended without an answer (a constant).
 * The task's refusals list it, and count it unless that is done.
 */
const char *ngx_agent_unfinished(ngx_agent_ctx_t *ctx, ngx_uint_t is_counted);


/* ngx_agent_audit_broker.c */

/*
 * what: "start", "reload", "refused", "reopen" or "stop"; of a worker "start"
 * or "end".
 */
void ngx_agent_audit_broker_config(ngx_cycle_t *cycle,
    ngx_agent_main_conf_t *amcf, const char *what);
void ngx_agent_audit_broker_worker(const char *what);

/* Workers that were killed since, should nobody have told of them. */
void ngx_agent_audit_broker_lost(void);
