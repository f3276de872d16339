/*
 * Tasks: the record of each in shared memory, which every worker sees, and
 * a worker's own side of it: its doors and connections, and the compiled
 * policies.
 */

#pragma once


#include "base/ngx_agent_base.h"

#include <jansson.h>

#include "jail/shared/limits.h"
#include "jail/shared/protocol.h"
#include "parse/address.h"
#include "parse/authority.h"
#include "parse/target.h"
#include "policy/bounds.h"
#include "policy/policy.h"
#include "task/ngx_agent_main_conf.h"


#define NGX_AGENT_HINT_MAX       512        /* a refusal's, with its NUL */
#define NGX_AGENT_COUNTED_HOST   64         /* more of a name is cut */
#define NGX_AGENT_RESUME_TIME    12000      /* a launcher tries for 10 s */
#define NGX_AGENT_MINTED         96         /* names that a task is known to
                                               have had a certificate for */


/* The zone: shared by every worker of every generation. */

typedef struct ngx_agent_share_s   ngx_agent_share_t;   /* ngx_agent_share.c */
typedef struct ngx_agent_holder_s  ngx_agent_holder_t;


/* What a task holds at once, each as many as its `connections`. */

typedef enum {
    NGX_AGENT_HELD_CONNECTIONS = 0,         /* of the box */
    NGX_AGENT_HELD_REQUESTS,                /* in flight */
    NGX_AGENT_HELD
} ngx_agent_held_e;


/* What it may do so many times a second. */

typedef enum {
    NGX_AGENT_TURN_REQUEST = 0,             /* `rate` */
    NGX_AGENT_TURN_HANDSHAKE,
    NGX_AGENT_TURNS
} ngx_agent_turn_e;


typedef struct {
    ngx_queue_t     queue;
    ngx_uint_t      count;
    in_port_t       port;
    uint8_t         reason;
    uint8_t         dns;                    /* no request: a name */
    uint8_t         method_len;
    uint8_t         host_len;
    uint8_t         path_len;
    uint16_t        hint_len;
    u_char          data[1];                /* method host path hint */
} ngx_agent_refusal_t;


typedef struct {
    ngx_queue_t     queue;                  /* ngx_agent_refusal_t */
    ngx_uint_t      count;                  /* of these */
} ngx_agent_list_t;


/*
 * What a bound refuses unread has no line of its own: it is counted, by the
 * bound, and told in one line a second.
 */

typedef enum {
    NGX_AGENT_COUNTED_RATE = 0,
    NGX_AGENT_COUNTED_CONNECTIONS,
    NGX_AGENT_COUNTED_HANDSHAKES,           /* up to here not of `refusals` */
    NGX_AGENT_COUNTED_NAMES,
    NGX_AGENT_COUNTED_REFUSALS,
    NGX_AGENT_COUNTED_BUDGET,
    NGX_AGENT_COUNTED
} ngx_agent_counted_e;


typedef struct {
    uint64_t           count;
    uint64_t           told;                /* of these, in lines */
    uint8_t            host_len;            /* as it was asked for */
    u_char             host[NGX_AGENT_COUNTED_HOST];  /* the first untold */
} ngx_agent_counted_t;


typedef struct {
    ngx_rbtree_node_t  node;                /* by the id's first bytes */
    ngx_queue_t        queue;               /* of all slots */

    u_char             id[PROTOCOL_ID_LEN];
    ngx_pid_t          owner;               /* worker that has the lease */
    ngx_uint_t         sequence;            /* raised by each serve, resume */
    uid_t              uid;
    ngx_pid_t          pid;                 /* the launcher's */
    uint64_t           netns;               /* 0 until `serve` */
    ngx_msec_t         life;                /* ms from `serve` on */
    ngx_msec_t         expires;             /* on ngx_current_msec's clock */
    ngx_msec_t         orphaned;            /* owner found dead, or 0 */

    u_char             policy[POLICY_NAME_MAX + 1];
    u_char             policy_hash[POLICY_HASH_LEN + 1];

    uint64_t           bounds[BOUND_COUNT]; /* as the policy said at open */
    uint64_t           used[BOUND_COUNT];
    ngx_agent_share_t *share;               /* what it holds */

    uint64_t           minted[NGX_AGENT_MINTED];    /* hashes, the last ones */
    ngx_uint_t         minted_count;

    ngx_uint_t         allowed;
    ngx_uint_t         denied;
    ngx_uint_t         unfinished;          /* allowed, without an answer */
    ngx_msec_t         pause;               /* of the doors, past refusals */
    ngx_uint_t         is_spent;            /* so far past that it ends */
    ngx_uint_t         failed;              /* allowed, answered or begun */
    uint64_t           unlogged;            /* lines past log_bytes */
    ngx_agent_list_t   refusals;
    ngx_agent_list_t   failures;

    ngx_agent_counted_t  counted[NGX_AGENT_COUNTED];
    ngx_msec_t           counted_next;      /* line, not before */
} ngx_agent_slot_t;


/* A copy of what a slot says, taken under the zone's lock. */

typedef struct {
    uid_t        uid;
    ngx_pid_t    pid;
    ngx_uint_t   sequence;
    ngx_uint_t   is_over;                   /* its audit_budget is used up */
    ngx_uint_t   is_spent;                  /* it was refused far too often */
    ngx_uint_t   is_overdue;                /* its time is long over */
    ngx_msec_t   left;                      /* of it, ms */
    uint64_t     netns;
    u_char       policy[POLICY_NAME_MAX + 1];
    u_char       policy_hash[POLICY_HASH_LEN + 1];
    ngx_uint_t   allowed;
    ngx_uint_t   denied;
    ngx_uint_t   failed;
    ngx_uint_t   unfinished;
    ngx_uint_t   audit_lines;

    uint64_t     unlogged;                  /* lines past log_bytes */

    ngx_agent_counted_t  counted[NGX_AGENT_COUNTED];  /* of a freed slot */
} ngx_agent_slot_view_t;


/* A worker's side of a task. */

typedef struct ngx_agent_task_s  ngx_agent_task_t;


typedef enum {
    NGX_AGENT_DOOR_PROXY = 0,               /* proxy requests and CONNECT */
    NGX_AGENT_DOOR_WEB,                     /* TLS or HTTP, by the first byte */
    NGX_AGENT_DOOR_DNS_UDP,
    NGX_AGENT_DOOR_DNS_TCP,
    NGX_AGENT_DOORS
} ngx_agent_door_e;


typedef struct {
    ngx_agent_door_e  kind;
    in_port_t         port;
} ngx_agent_door_spec_t;


/* What a socket was when it was looked at; its launcher still has it. */

typedef struct {
    int             type;               /* a listening stream, or datagrams */
    uint64_t        netns;
    socklen_t       socklen;
    ngx_sockaddr_t  sa;                 /* what it is bound to */
} ngx_agent_given_t;


/* Where core finds the server of a connection: without TLS, and with. */

typedef struct {
    ngx_http_port_t            port;
    union {
        ngx_http_in_addr_t     in;
#if (NGX_HAVE_INET6)
        ngx_http_in6_addr_t    in6;
#endif
    } addr;
} ngx_agent_entrance_t;


typedef struct {
    ngx_agent_door_e           kind;
    in_port_t                  port;
    ngx_listening_t            ls;
    ngx_agent_entrance_t       plain;
    ngx_agent_entrance_t       tls;
    ngx_sockaddr_t             sockaddr;
    ngx_http_core_srv_conf_t  *core;
    ngx_connection_handler_pt  handler;     /* of what it accepts */
    ngx_agent_task_t          *task;
    ngx_connection_t          *connection;  /* of the listening socket */
    ngx_uint_t                 fruitless;   /* events that brought nothing */
    ngx_uint_t                 is_late;     /* what it accepts has waited */
} ngx_agent_door_t;


/* Waiting in order for what a task's share bounds. */

typedef enum {
    NGX_AGENT_WAIT_CONNECTION = 0,          /* and a turn of `rate` */
    NGX_AGENT_WAIT_HANDSHAKE,
    NGX_AGENT_WAIT_RATE,
    NGX_AGENT_WAIT_REQUEST,
    NGX_AGENT_WAITS
} ngx_agent_wait_e;


typedef struct ngx_agent_wait_s  ngx_agent_wait_t;

struct ngx_agent_wait_s {
    ngx_queue_t        queue;               /* next is NULL: waits for none */
    ngx_agent_task_t  *task;
    ngx_agent_wait_e   kind;
    ngx_msec_t         began;
    ngx_msec_t         due;                 /* its turn comes */
    ngx_msec_t         left;                /* ms that it may wait, of began */
    ngx_int_t          rc;
    unsigned           refused:1;           /* no turn comes in that time */
    unsigned           is_stream:1;         /* of HTTP/2 */

    void             (*handler)(ngx_agent_wait_t *w);
    void              *data;
};


struct ngx_agent_task_s {
    ngx_queue_t        queue;               /* of the worker's tasks */
    ngx_pool_t        *pool;
    ngx_uint_t         references;          /* control, connections */

    u_char             id[PROTOCOL_ID_LEN];
    ngx_uint_t         sequence;            /* the slot's, when it was ours */
    u_char             policy[POLICY_NAME_MAX + 1];
    uid_t              uid;
    uint64_t           netns;

    ngx_agent_door_t  *doors;
    ngx_uint_t         doors_count;

    ngx_queue_t        connections;         /* ngx_agent_connection_t, the
                                               one idle longest first */
    ngx_uint_t         connections_count;
    size_t             logged;              /* of log_bytes, taken before */

    ngx_agent_share_t *share;               /* from `serve` on */
    ngx_agent_holder_t  *holder;            /* this worker's row of it */
    ngx_queue_t        waits[NGX_AGENT_WAITS];  /* ngx_agent_wait_t */
    ngx_event_t        wake;                /* of these */

    ngx_uint_t         kept;                /* upstream ones that wait */
    void             (*drop)(ngx_agent_task_t *task);  /* closes those */
    void             (*idle)(ngx_agent_task_t *task);
    void              *data;                /* the control connection's */

    unsigned           ended:1;             /* its connections are cut */
    unsigned           paused:1;            /* no door accepts now */
    unsigned           unread:1;            /* past its refusals */
};


/*
 * A connection of a box.  Core's c->listening points at ls, a copy of the
 * door's, which HTTP/2 streams share: so what a request came in by can not be
 * forged, and is one pointer away.
 */

typedef struct {
    ngx_listening_t    ls;                  /* first */
    ngx_queue_t        queue;
    ngx_connection_t  *connection;
    ngx_agent_door_t  *door;
    ngx_agent_task_t  *task;
    authority_t        named;               /* by CONNECT; no host: none */
    authority_t        tls_name;            /* judged in the client hello */
    ngx_http_log_ctx_t logged;              /* by which a log finds the task */

    /* of HTTP/1, while ngx_agent_flow.c reads for a request */

    ngx_http_request_t  *http;
    ngx_recv_pt          recv;              /* core's */
    ngx_event_t          again;
    ngx_event_t          probe;
    size_t               discarded;         /* of a body that is over */
    ngx_msec_t           discarding;        /* since when */

    ngx_agent_wait_t   wait;                /* to be let in, to shake hands */
    ngx_msec_t         waited;              /* ms, before its first request */
    ngx_msec_t         since;               /* accepted, or last served */
    ngx_uint_t         requests;            /* that are judged now */
    unsigned           held:1;              /* counted by the share */
    unsigned           served:1;            /* a request of it has ended */
    unsigned           has_streams:1;       /* HTTP/2 */
    unsigned           paid:1;              /* its turn is its first
                                               request's */
} ngx_agent_connection_t;


/* A worker's view of policies; requests hold references. */

typedef struct {
    ngx_queue_t    queue;                   /* of those that can look up */
    policy_set_t  *policies;
    uint64_t       generation;
    ngx_uint_t     references;
} ngx_agent_policies_t;


/* ngx_agent_zone.c */

/*
 * Adds both zones; NGX_ERROR, and said so, where the policies do not fit, or
 * not a slot and a share of share_size bytes for each task.
 */
ngx_int_t ngx_agent_zone_add(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf,
    size_t share_size);

/* One zone of shared memory, kept over reloads; or NULL. */
ngx_shm_zone_t *ngx_agent_zone_add_one(ngx_conf_t *cf, const char *name,
    size_t size, ngx_shm_zone_init_pt init, void *data);

/* In the master, when the new configuration has started: cannot fail. */
void ngx_agent_zone_publish(ngx_cycle_t *cycle, ngx_agent_main_conf_t *amcf);

/* Of the newest policies; raised by each start and reload. */
uint64_t ngx_agent_zone_generation(void);

/* Which start of the broker this is, kept by reloads. */
uint64_t ngx_agent_zone_instance(void);

/*
 * Copies a credential's value to dst; returns its length, 0 when there is
 * none or it does not fit.  *revision gets the vault's.
 */
size_t ngx_agent_zone_vault_copy(const char *name, u_char *dst, size_t cap,
    uint64_t *revision);

/* Is a value of the vault in the text? */
ngx_uint_t ngx_agent_zone_vault_is_in(const char *text, size_t len);

/* Raised by each reload that changes a value. */
uint64_t ngx_agent_zone_vault_revision(void);


/* ngx_agent_slot.c */

/*
 * A slot for a new task, of which there are at most `max`; 0 for one that is
 * taken over, which is not counted.  NGX_OK; NGX_BUSY, the zone is full;
 * NGX_AGAIN, there are `max`; NGX_ABORT, the user has as many of this policy as
 * its `tasks` allows; NGX_DECLINED, the task has one.
 */
ngx_int_t ngx_agent_slot_create(u_char *id, uid_t uid, ngx_pid_t pid,
    const policy_t *policy, ngx_msec_t life, ngx_uint_t max);


/*
 * The worker takes the task's lease: sets netns and returns the new sequence
 * in *sequence.  NGX_DECLINED: no such task; NGX_BUSY: the net namespace is
 * another task's; NGX_ABORT: the slot is another user's or namespace's.
 */
ngx_int_t ngx_agent_slot_take(const u_char *id, uid_t uid, uint64_t netns,
    ngx_uint_t *sequence);

/* The worker counts in the task's share: NGX_DECLINED, there is no slot. */
ngx_int_t ngx_agent_slot_join(ngx_agent_task_t *task);

/* NGX_OK with a copy of the slot, or NGX_DECLINED: there is none. */
ngx_int_t ngx_agent_slot_view(const u_char *id, ngx_agent_slot_view_t *view);

/* Is this net namespace a live task's? */
ngx_uint_t ngx_agent_slot_netns_used(uint64_t netns);

/* Frees the slot if `sequence` still has the lease: NGX_OK, else DECLINED. */
ngx_int_t ngx_agent_slot_free(const u_char *id, ngx_uint_t sequence,
    ngx_agent_slot_view_t *view);

/* The reason that a bound's refusals are counted under. */
ngx_agent_reason_e ngx_agent_slot_counted_reason(ngx_agent_counted_e kind);

/*
 * Counts one refusal of the task, and notes its host if it is the first that
 * is untold.  One of `refusals` is one of `audit_budget` where that is used
 * up.
 */
void ngx_agent_slot_count(const u_char *id, ngx_agent_counted_e kind,
    const void *host, size_t len);

/*
 * Is a line due that this worker has to write?  NGX_OK with a copy of what is
 * counted, and the next one is due in a second; else NGX_DECLINED.
 */
ngx_int_t ngx_agent_slot_untold(const u_char *id,
    ngx_agent_counted_t counted[NGX_AGENT_COUNTED]);

/* n more of them are in a line. */
void ngx_agent_slot_told(const u_char *id, ngx_agent_counted_e kind,
    uint64_t n);

/*
 * Takes one slot whose worker is gone, and whose life is over or whose
 * launcher has had its time to resume.
 */
ngx_int_t ngx_agent_slot_expired(u_char *id, ngx_agent_slot_view_t *view);


/* ngx_agent_refusals.c */

/*
 * Counts one refusal: NGX_OK, it has a line and an answer of its own; NGX_BUSY,
 * it is one of those past a bound, and is answered with that; NGX_ABORT, it is
 * not answered, and its connection is closed.
 */
ngx_int_t ngx_agent_refusals_spend(ngx_agent_task_t *task);

/*
 * n connections or datagrams were closed unread: how long the door pauses, in
 * ms; 0: the task is to end.
 */
ngx_msec_t ngx_agent_refusals_unread(const u_char *id, ngx_uint_t n);


/* ngx_agent_logged.c */

/*
 * A line of so many bytes in a log that is not the audit: 1, it may be written,
 * and is charged to the task's log_bytes; 0, it is left out.
 */
ngx_uint_t ngx_agent_logged(ngx_agent_task_t *task, size_t n);


/* ngx_agent_peers.c */

/*
 * One more control connection of this worker's, at most `max` of a user over
 * all workers: NGX_OK, or NGX_BUSY; and one less.
 */
ngx_int_t ngx_agent_peer_connect(uid_t uid, ngx_uint_t max);
void ngx_agent_peer_disconnect(uid_t uid);

/* One more `open`, at this rate a second: NGX_OK, or NGX_BUSY. */
ngx_int_t ngx_agent_peer_open(uid_t uid, ngx_uint_t rate, ngx_uint_t burst);

/* The same for what it asks without a task: these have a rate of their own. */
ngx_int_t ngx_agent_peer_ask(uid_t uid, ngx_uint_t rate, ngx_uint_t burst);

/* May one more refusal have a line?  All users that no policy names are one. */

#define NGX_AGENT_PEER_STRANGER  ((uid_t) -1)

ngx_int_t ngx_agent_peer_line(uid_t uid);


/* ngx_agent_usage.c */

/*
 * Counts one of a bounded thing: NGX_OK, NGX_BUSY past the bound, NGX_ABORT
 * the first time past it (so that one line can say so).  NGX_BUSY also where
 * the audit's budget is used up.  A refusal is counted as denied in any case.
 */
ngx_int_t ngx_agent_usage_spend(const u_char *id, bound_id_t bound);

/*
 * The same of `mints`, for a name with this hash.  One that the task has had
 * already is not counted again: that it is not cached any more, on this worker
 * or by now, is not the task's doing.
 */
ngx_int_t ngx_agent_usage_mint(const u_char *id, uint64_t name);

/* Counts one more request: BOUND_COUNT, or the bound that is used up. */
bound_id_t ngx_agent_usage_admit(const u_char *id);

/*
 * Takes least to most bytes of what is left of a bound, and returns how many.
 * Fewer than least are taken only where `rest` is set; else it is 0 then.
 */
uint64_t ngx_agent_usage_reserve(const u_char *id, bound_id_t bound,
    uint64_t least, uint64_t most, ngx_uint_t rest);

/* Adds to what was taken of bytes_up and bytes_down, or gives it back. */
void ngx_agent_usage_settle(const u_char *id, int64_t up, int64_t down);


/*
 * Lines of the task are in the audit: NGX_ABORT the first time that they
 * reach its budget.
 */
ngx_int_t ngx_agent_usage_recorded(const u_char *id, ngx_uint_t allowed,
    ngx_uint_t lines, size_t bytes);

/* Is the budget used up?  Then nothing more of the task is recorded. */
ngx_uint_t ngx_agent_usage_is_over(const u_char *id);


/* ngx_agent_listed.c */

/* One more refusal; of a name that was asked for where is_dns. */
void ngx_agent_listed_refused(const u_char *id, const target_t *target,
    ngx_agent_reason_e reason, ngx_uint_t is_dns, const char *hint);

/* One more request that was allowed, and has failed. */
void ngx_agent_listed_failed(const u_char *id, const target_t *target,
    ngx_agent_reason_e reason, const char *hint);

/* One more that was allowed, and has ended without an answer. */
void ngx_agent_listed_unfinished(const u_char *id);

/* The lists "denied" and "failed" with their counts, as `close` has them. */
json_t *ngx_agent_listed(const u_char *id);


/* ngx_agent_share.c */

/* Of a new slot; expects the zone's lock to be held.  NULL: it is full. */
ngx_agent_share_t *ngx_agent_share_create(const policy_t *policy);

/* Its size in bytes. */
size_t ngx_agent_share_size(void);

/* The slot is gone; expects the zone's lock to be held. */
void ngx_agent_share_end(ngx_agent_share_t *share);

/* This worker counts in it; expects the zone's lock to be held. */
void ngx_agent_share_join(ngx_agent_share_t *share, ngx_agent_task_t *task);
void ngx_agent_share_leave(ngx_agent_task_t *task);

/* Forgets what workers held that were killed. */
void ngx_agent_share_lost(ngx_agent_task_t *task);

/* How many more the task may hold. */
ngx_uint_t ngx_agent_share_room(ngx_agent_task_t *task,
    ngx_agent_held_e what);

/* Holds one more, if there is room for it and for so many beside it: 1, or 0 */
ngx_uint_t ngx_agent_share_take(ngx_agent_task_t *task, ngx_agent_held_e what,
    ngx_uint_t beside);
void ngx_agent_share_give(ngx_agent_task_t *task, ngx_agent_held_e what);

/*
 * Takes the next turn: the ms until it comes; or -1, and none is taken, where
 * it comes after the most.
 */
ngx_msec_int_t ngx_agent_share_turn(ngx_agent_task_t *task,
    ngx_agent_turn_e what, ngx_msec_t most);


/* ngx_agent_wait.c */

#define NGX_AGENT_WAIT_MAX  2000            /* ms, of one request */

/* Before the doors are opened. */
void ngx_agent_wait_init(ngx_agent_task_t *task);

/*
 * Waits, for `left` ms at most: NGX_OK, it need not; NGX_AGAIN, the handler is
 * called with w->rc: NGX_OK, or NGX_BUSY when the time is over.  Of what is
 * held the caller has one more with NGX_OK, and gives it back.
 */
ngx_int_t ngx_agent_wait(ngx_agent_wait_t *w, ngx_agent_task_t *task,
    ngx_agent_wait_e kind, ngx_msec_t left);

/* Whoever can no longer be called leaves; also one that does not wait. */
void ngx_agent_wait_leave(ngx_agent_wait_t *w);

/* What it waited for in vain. */
ngx_agent_reason_e ngx_agent_wait_reason(ngx_agent_wait_t *w);

/* Something has ended that others may wait for. */
void ngx_agent_wait_wake(ngx_agent_task_t *task);

/* A request of this connection has ended: the same. */
void ngx_agent_wait_served(ngx_agent_connection_t *ac);


/* ngx_agent_policies.c */

/* The newest ones with one more reference, or NULL. */
ngx_agent_policies_t *ngx_agent_policies_get(ngx_log_t *log);
void ngx_agent_policies_release(ngx_agent_policies_t *set);

/* The same, released with the pool. */
ngx_agent_policies_t *ngx_agent_policies_hold(ngx_pool_t *pool,
    ngx_log_t *log);

/*
 * The worker does not read its snapshot any more, whose memory the next reload
 * may need: when there is a newer one, and before the worker's exit, which can
 * take longer than a reload waits.
 */
void ngx_agent_policies_leave(void);


/* ngx_agent_lease.c */

/* The text of a lease in dst; its length, or 0 when it cannot be made. */
size_t ngx_agent_lease_make(ngx_agent_main_conf_t *amcf, const u_char *task,
    uid_t uid, const u_char *policy, uint64_t netns, time_t expires,
    char dst[PROTOCOL_LEASE_MAX + 1]);
/*
 * NGX_OK with the policy's name and the expiry, else NGX_DECLINED.  *instance
 * is the start of the broker that made it.
 */
ngx_int_t ngx_agent_lease_check(ngx_agent_main_conf_t *amcf,
    const char *lease, const u_char *task, uid_t uid, uint64_t netns,
    u_char policy[POLICY_NAME_MAX + 1], time_t *expires, uint64_t *instance);
ngx_int_t ngx_agent_lease_key(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf);


/* ngx_agent_secrets.c */

/* NULL: there is no memory. */
ngx_agent_secrets_t *ngx_agent_secrets_new(void);
void ngx_agent_secrets_free(ngx_agent_secrets_t **secrets);

/* In each process that has them. */
void ngx_agent_secrets_lock(ngx_agent_secrets_t *secrets);

/* Keeps a copy of the authority's key; NGX_ERROR if it is too large. */
ngx_int_t ngx_agent_secrets_keep(ngx_agent_secrets_t *secrets, EVP_PKEY *key);

/* The same from other secrets, which have one. */
void ngx_agent_secrets_take(ngx_agent_secrets_t *secrets,
    const ngx_agent_secrets_t *from);

/* The authority's key, for the caller to free at once; data: the secrets. */
EVP_PKEY *ngx_agent_secrets_open(void *data);


/* ngx_agent_state.c */

/* NGX_BUSY: another broker has it. */
ngx_int_t ngx_agent_state_lock(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf);
/* A worker has no use for it. */
void ngx_agent_state_worker(ngx_agent_main_conf_t *amcf);
/* nginx -s: refused where the pid file's number is another's. */
ngx_int_t ngx_agent_state_signalled(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf);

/* ngx_agent_task.c */

/* With one reference; gone when the last one is released. */
ngx_agent_task_t *ngx_agent_task_create(ngx_log_t *log);
void ngx_agent_task_release(ngx_agent_task_t *task);

/* Cuts every connection of the task that this worker has. */
void ngx_agent_task_cut(ngx_agent_task_t *task);

/* The same for one connection of a box. */
void ngx_agent_task_shut(ngx_connection_t *c);

/* One door: removed from the event loop first, then closed. */
void ngx_agent_task_close_door(ngx_agent_door_t *door);
void ngx_agent_task_close_doors(ngx_agent_task_t *task);

/* The protocol's word for a kind of door. */
const char *ngx_agent_task_door_name(ngx_agent_door_e kind);

/* The handler of every door, by which its connections are known. */
void ngx_agent_task_accepted(ngx_connection_t *c);

/* NULL where no door led to the connection. */
ngx_agent_connection_t *ngx_agent_task_connection(ngx_connection_t *c);
ngx_agent_task_t *ngx_agent_task_of(ngx_connection_t *c);


/* ngx_agent_given.c */

/*
 * While it is on, a system call does not wait for longer than 2 ms: a signal
 * interrupts it.  For calls that use, take or close what a launcher has given
 * and may have prepared, so that they wait.
 */
void ngx_agent_given_interrupt(ngx_uint_t on);

/* Closes a socket that a launcher has given. */
void ngx_agent_given_close(ngx_socket_t s);

/*
 * Can this be the socket of a door?  NULL, with what is known of it; or why
 * not (a constant).  It may wait for as long as the launcher likes: never in
 * the event loop.
 */
const char *ngx_agent_given_judge(ngx_socket_t s, uint64_t broker_netns,
    ngx_agent_given_t *given);

/* The net namespace of a socket, as SO_NETNS_COOKIE names it; or 0. */
uint64_t ngx_agent_given_netns(ngx_socket_t s);
