/*
 * What the files of the module share: its configuration, the zone's records,
 * a worker's tasks, and a request's decision.
 *
 * How the parts fit (one file each):
 *
 *   ngx_agent_broker_module.c  directives' table, life of master and workers
 *   ngx_agent_conf.c           agent_policy and its blocks
 *   ngx_agent_peek.c           a host with a block and without
 *   ngx_agent_check.c          what is checked when all of it is read
 *   ngx_agent_zone.c           shared memory: the policies by generation, the
 *                              vault's values
 *   ngx_agent_slot.c           shared memory: a slot for each live task
 *   ngx_agent_tally.c          what a task has used and was refused
 *   ngx_agent_set.c            a worker's compiled copy of the policies
 *   ngx_agent_audit.c          the lines of the audit
 *   ngx_agent_audit_shared.c   what its writers know of each other
 *   ngx_agent_audit_file.c     the file they go to, and its reopening
 *   ngx_agent_events.c         what stands in each event's line
 *   ngx_agent_listen.c         agent_control
 *   ngx_agent_control.c        a launcher's connection
 *   ngx_agent_ops.c            what a launcher can ask for
 *   ngx_agent_open.c           how a task begins, and is resumed
 *   ngx_agent_lease.c          the lease's proof
 *   ngx_agent_state.c          agent_state, and which master it is of
 *   ngx_agent_door.c           a box's listening sockets
 *   ngx_agent_accept.c         accepting on them
 *   ngx_agent_connect.c        what is looked at before nginx's HTTP parser
 *   ngx_agent_tunnel.c         TLS that is passed through
 *   ngx_agent_dns.c            the boxes' name server
 *   ngx_agent_tls.c            TLS that ends at a door
 *   ngx_agent_bio.c            the socket below TLS
 *   ngx_agent_decide.c         the verdict on a request
 *   ngx_agent_resolve.c        where an allowed name leads
 *   ngx_agent_refuse.c         the refusal
 *   ngx_agent_page.c           what is said where nginx itself answers
 *   ngx_agent_upstream.c       dialling what was judged
 *   ngx_agent_reuse.c          what one request leaves to the next
 *   ngx_agent_headers.c        the header that goes up, with the credential
 *   authority.c address.c target.c policy.c vault.c audit_line.c dns.c mint.c
 *   connect.c hello.c message.c
 *                              no nginx in them: parsers and plain data
 *
 * Which worker has a task: the one whose control connection the launcher's
 * lease came in on.  Only it accepts on the box's doors.  Every worker can
 * judge a request of a connection it has accepted before, by the newest
 * policies: these, the slots and the vault live in shared memory.
 */

#ifndef NGX_AGENT_BROKER_H
#define NGX_AGENT_BROKER_H


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_http.h>

#include <jansson.h>

#include "jail/shared/limits.h"
#include "parse/address.h"
#include "audit/audit_line.h"
#include "parse/authority.h"
#include "policy/bounds.h"
#include "door/mint.h"
#include "policy/policy.h"
#include "parse/system_names.h"
#include "parse/target.h"
#include "policy/vault.h"


#define NGX_AGENT_PROTOCOL       1
#define NGX_AGENT_LINE_MAX       65536      /* a control message */
#define NGX_AGENT_DOORS_MAX      64         /* what one message can carry */
#define NGX_AGENT_ID_LEN         32         /* hex digits of a task's id */
#define NGX_AGENT_LEASE_MAX      512
#define NGX_AGENT_REFUSALS_MAX   64         /* listed by `close` */
#define NGX_AGENT_HINT_MAX       512        /* a refusal's, with its NUL */
#define NGX_AGENT_ADDRS_MAX      32         /* judged for one request */

#define NGX_AGENT_PORT_PROXY     8899

#define NGX_AGENT_RESUME_TIME    12000      /* a launcher tries for 10 s */
#define NGX_AGENT_PORT_DNS       53

#define NGX_AGENT_UPSTREAM       "agent_broker"

/* contexts of agent_policy and host blocks, bits no core context uses */
#define NGX_AGENT_POLICY_CONF    0x00100000
#define NGX_AGENT_HOST_CONF      0x00200000


/* Why a request was refused or failed; the table is in ngx_agent_refuse.c. */

typedef enum {
    NGX_AGENT_REASON_RULE = 0,          /* allowed */
    NGX_AGENT_REASON_MALFORMED,
    NGX_AGENT_REASON_MISMATCH,
    NGX_AGENT_REASON_TASK_UNKNOWN,
    NGX_AGENT_REASON_POLICY_GONE,
    NGX_AGENT_REASON_HOST,
    NGX_AGENT_REASON_PORT,
    NGX_AGENT_REASON_METHOD,
    NGX_AGENT_REASON_SNI,
    NGX_AGENT_REASON_REQUESTS,
    NGX_AGENT_REASON_MINTS,
    NGX_AGENT_REASON_NAMES,
    NGX_AGENT_REASON_NOT_SERVED,
    NGX_AGENT_REASON_REFUSALS,
    NGX_AGENT_REASON_BYTES_UP,
    NGX_AGENT_REASON_BYTES_DOWN,
    NGX_AGENT_REASON_BUDGET,
    NGX_AGENT_REASON_RESOLVE,
    NGX_AGENT_REASON_ADDRESS,
    NGX_AGENT_REASON_AUDIT,
    NGX_AGENT_REASON_CREDENTIAL,
    NGX_AGENT_REASON_CHANGED,
    NGX_AGENT_REASON_UNREACHABLE,
    NGX_AGENT_REASON_UPSTREAM_TIMEOUT,
    NGX_AGENT_REASON_NO_ANSWER,
    NGX_AGENT_REASON_CERTIFICATE,
    NGX_AGENT_REASON_HANDSHAKE,
    NGX_AGENT_REASON_SHUTDOWN,
    NGX_AGENT_REASON_TIMEOUT,
    NGX_AGENT_REASON_BODY,
    NGX_AGENT_REASON_URI,
    NGX_AGENT_REASON_ABORTED,
    NGX_AGENT_REASON_CONFIGURATION,
    NGX_AGENT_REASON_INTERNAL,
    NGX_AGENT_REASONS
} ngx_agent_reason_e;


typedef struct {
    const char  *word;                  /* in audit lines and bodies */
    ngx_uint_t   status;
    const char  *hint;                  /* where the rule gives none */
} ngx_agent_reason_t;


/* Configuration. */

typedef struct {
    ngx_str_t        name;                  /* of a vault entry */
    ngx_str_t        file;                  /* and where it is asked for */
    ngx_uint_t       line;
} ngx_agent_credential_use_t;


/* Where a policy or a rule was written, for what is written a second time. */

typedef struct {
    const void      *what;
    ngx_str_t        file;
    ngx_uint_t       line;
} ngx_agent_place_t;


typedef struct {
    ngx_str_t                 vault_file;
    vault_t                  *vault;        /* till init_module, then NULL */

    ngx_str_t                 audit_file;
    ngx_fd_t                  audit_fd;
    ngx_uint_t                audit_torn;   /* it ends within a line */

    ngx_str_t                 state_dir;
    ngx_fd_t                  state_fd;     /* the master's */
    ngx_uint_t                state_locked;
    u_char                    lease_key[32];

    ngx_uint_t                ca_seen;
    ngx_str_t                 ca_file;      /* empty: auto */
    ngx_str_t                 ca_key_file;
    X509                     *ca_cert;
    EVP_PKEY                 *ca_key;
    char                     *ca_pem;       /* what boxes trust */

    size_t                    zone_size;
    ngx_shm_zone_t           *zone;
    ngx_shm_zone_t           *vault_zone;
    ngx_shm_zone_t           *audit_zone;

    policy_set_t             *set;          /* as configured */
    char                     *set_text;     /* its dump */
    size_t                    set_len;

    policy_t                 *policy;       /* the block being read */
    policy_rule_t            *rule;
    ngx_uint_t                policy_seen;  /* its directives so far */
    ngx_uint_t                rule_seen;
    char                     *policy_pem;   /* its trusted_certificate */
    ngx_array_t               credentials;  /* ngx_agent_credential_use_t */
    ngx_array_t               places;       /* ngx_agent_place_t */

    ngx_http_upstream_srv_conf_t  *upstream;

    ngx_resolver_t           *resolver;     /* of /etc/resolv.conf, or NULL */
    system_hosts_t           *hosts;

    ngx_uint_t                servers;      /* how many agent_control */
    ngx_uint_t                started;      /* it is in force, or was */
} ngx_agent_main_conf_t;


typedef struct {
    ngx_str_t                  control;     /* path of the socket */
    ngx_http_core_srv_conf_t  *core;
    const char                *file;        /* where agent_control stands */
    ngx_uint_t                 line;
} ngx_agent_srv_conf_t;


/* Of a location: where it begins. */

typedef struct {
    ngx_str_t        file;
    ngx_uint_t       line;
} ngx_agent_loc_conf_t;


/* The zone: shared by every worker of every generation. */

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
    ngx_rbtree_node_t  node;                /* by the id's first bytes */
    ngx_queue_t        queue;               /* of all slots */

    u_char             id[NGX_AGENT_ID_LEN];
    ngx_pid_t          owner;               /* worker that has the lease */
    ngx_uint_t         sequence;            /* raised by each serve, resume */
    uid_t              uid;
    ngx_pid_t          pid;                 /* the launcher's */
    uint64_t           netns;               /* 0 until `serve` */
    ngx_msec_t         expires;             /* on ngx_current_msec's clock */
    ngx_msec_t         orphaned;            /* owner found dead, or 0 */

    u_char             policy[POLICY_NAME_MAX + 1];
    u_char             policy_hash[POLICY_HASH_LEN + 1];

    uint64_t           bounds[BOUND_COUNT]; /* as the policy said at open */
    uint64_t           used[BOUND_COUNT];
    ngx_msec_t         handshake;           /* when the next one may start */

    ngx_uint_t         allowed;
    ngx_uint_t         denied;
    ngx_uint_t         refusals_count;
    ngx_queue_t        refusals;
} ngx_agent_slot_t;


/* A copy of what a slot says, taken under the zone's lock. */

typedef struct {
    uint64_t     connections;               /* the bound */
    uid_t        uid;
    ngx_pid_t    pid;
    ngx_uint_t   sequence;
    ngx_uint_t   is_over;                   /* its audit_budget is used up */
    uint64_t     netns;
    u_char       policy[POLICY_NAME_MAX + 1];
    u_char       policy_hash[POLICY_HASH_LEN + 1];
    ngx_uint_t   allowed;
    ngx_uint_t   denied;
    ngx_uint_t   audit_lines;
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
    ngx_agent_task_t          *task;
    ngx_connection_t          *connection;  /* of the listening socket */
} ngx_agent_door_t;


struct ngx_agent_task_s {
    ngx_queue_t        queue;               /* of the worker's tasks */
    ngx_pool_t        *pool;
    ngx_uint_t         references;          /* control, connections */

    u_char             id[NGX_AGENT_ID_LEN];
    ngx_uint_t         sequence;            /* the slot's, when it was ours */
    u_char             policy[POLICY_NAME_MAX + 1];
    uid_t              uid;
    uint64_t           netns;

    ngx_agent_door_t  *doors;
    ngx_uint_t         doors_count;

    ngx_queue_t        connections;         /* ngx_agent_connection_t */
    ngx_uint_t         connections_count;
    ngx_uint_t         connections_max;
    ngx_uint_t         kept;                /* upstream ones that wait */
    void             (*idle)(ngx_agent_task_t *task);
    void              *data;                /* the control connection's */

    unsigned           ended:1;             /* its connections are cut */
    unsigned           paused:1;            /* no door accepts now */
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
} ngx_agent_connection_t;


/* A worker's compiled policies; requests hold references. */

typedef struct {
    policy_set_t  *policies;
    uint64_t       generation;
    ngx_uint_t     references;
} ngx_agent_set_t;


/* A request's decision. */

typedef struct ngx_agent_ctx_s  ngx_agent_ctx_t;


/* Who waits for a line of the audit. */

typedef struct {
    ngx_queue_t        queue;
    uint64_t           sequence;            /* of the line */
    ngx_int_t          rc;                  /* NGX_AGAIN: is not written yet */
    ngx_agent_ctx_t   *ctx;
    void             (*handler)(ngx_agent_ctx_t *ctx);
} ngx_agent_audit_wait_t;


typedef enum {
    NGX_AGENT_UNDECIDED = 0,
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
    ngx_agent_set_t       *set;
    const policy_t        *policy;
    const policy_rule_t   *rule;
    u_char                 policy_hash[POLICY_HASH_LEN + 1];
    uid_t                  uid;

    ngx_str_t              line;            /* the request line, as it came */
    ngx_str_t              host;            /* and Host */
    target_t               target;
    in_port_t              port;            /* of the upstream */
    unsigned               tls:1;           /* to the upstream */
    unsigned               dns:1;           /* a name was asked for */
    unsigned               waiting:1;       /* for the resolver */
    unsigned               kept:1;          /* a kept connection was tried */
    void                  *reused;          /* what it was kept in */
    ngx_msec_t             started;

    u_char                 request[NGX_AGENT_ID_LEN / 2];  /* its id */
    ngx_agent_audit_wait_t record;          /* of the decision */

    ngx_pool_t            *pool;            /* of the addresses */
    void                 (*resolved)(ngx_agent_ctx_t *ctx);
    ngx_resolver_ctx_t    *resolving;
    address_t             *addresses;       /* those that may be dialled */
    ngx_uint_t             addresses_count;
    ngx_uint_t             next;            /* to be dialled */
    ngx_sockaddr_t         sockaddr;        /* of the one being dialled */
    const address_t       *named;           /* the last one, and as text: */
    ngx_str_t              address;
    ngx_str_t              peer;            /* "address:port", for logs */

    void                  *owner;           /* the tunnel, without a request */
    ngx_http_request_t    *http;
    const char            *failure;         /* after the decision */
    ngx_str_t              page;            /* in the place of nginx's */
    uint64_t               vault;           /* revision of what was attached */
};


extern ngx_module_t  ngx_agent_broker_module;


/* ngx_agent_conf.c */

char *ngx_agent_policy_block(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_agent_host_block(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* NGX_ERROR, and said so, where a word holds a NUL byte. */
ngx_int_t ngx_agent_conf_words(ngx_conf_t *cf, ngx_command_t *cmd);

char *ngx_agent_conf_limit(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_agent_conf_fixed(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_agent_conf_isolation(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_agent_conf_writable(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_agent_conf_list(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_agent_conf_trusted(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_agent_conf_bearer(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_agent_conf_bound(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_agent_conf_budget(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_agent_conf_switch(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_agent_conf_hint(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);


/* ngx_agent_peek.c */

/* Readies the table for the next directive of an agent_policy. */
void ngx_agent_host_peek(ngx_conf_t *cf);


/* ngx_agent_check.c */

ngx_int_t ngx_agent_check_master(ngx_cycle_t *cycle);
ngx_int_t ngx_agent_check_user(ngx_conf_t *cf);

/* NGX_ERROR, and said so, where others could replace what is there. */
ngx_int_t ngx_agent_check_path(ngx_conf_t *cf, ngx_str_t *directive,
    ngx_str_t *path);

ngx_int_t ngx_agent_check_readable(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf);
ngx_int_t ngx_agent_check_credentials(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf);
ngx_int_t ngx_agent_check_servers(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf);
ngx_int_t ngx_agent_system_names(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf);


/* ngx_agent_zone.c */

ngx_int_t ngx_agent_zone_add(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf);

/* In the master, when the new configuration has started: cannot fail. */
void ngx_agent_zone_publish(ngx_cycle_t *cycle, ngx_agent_main_conf_t *amcf);

uint64_t ngx_agent_zone_generation(void);

/* Which start of the broker this is, kept by reloads. */
uint64_t ngx_agent_zone_instance(void);

/* The newest policies' text (malloc'd) and generation. */
char *ngx_agent_zone_text(size_t *len, uint64_t *generation);

/*
 * Copies a credential's value to dst; returns its length, 0 when there is
 * none or it does not fit.  *revision gets the vault's.
 */
size_t ngx_agent_vault_copy(const char *name, u_char *dst, size_t cap,
    uint64_t *revision);

uint64_t ngx_agent_vault_revision(void);


/* ngx_agent_slot.c */

/* NGX_OK, or NGX_BUSY when the zone is full. */
ngx_int_t ngx_agent_slot_create(u_char *id, uid_t uid, ngx_pid_t pid,
    const policy_t *policy, ngx_msec_t life);

/*
 * The worker takes the task's lease: sets netns and returns the new sequence
 * in *sequence.  NGX_DECLINED: no such task; NGX_BUSY: the net namespace is
 * another task's; NGX_ABORT: the slot is another user's or namespace's.
 */
ngx_int_t ngx_agent_slot_take(const u_char *id, uid_t uid, uint64_t netns,
    ngx_uint_t *sequence);

ngx_int_t ngx_agent_slot_view(const u_char *id, ngx_agent_slot_view_t *view);

/* Is this net namespace a live task's? */
ngx_uint_t ngx_agent_slot_netns_used(uint64_t netns);

/* Frees the slot if `sequence` still has the lease: NGX_OK, else DECLINED. */
ngx_int_t ngx_agent_slot_free(const u_char *id, ngx_uint_t sequence,
    ngx_agent_slot_view_t *view);

/*
 * Takes one slot whose worker is gone, and whose life is over or whose
 * launcher has had its time to resume.
 */
ngx_int_t ngx_agent_slot_expired(u_char *id, ngx_agent_slot_view_t *view);


/* ngx_agent_tally.c */

/*
 * Counts one of a bounded thing: NGX_OK, NGX_BUSY past the bound, NGX_ABORT
 * the first time past it (so that one line can say so).  NGX_BUSY also where
 * the audit's budget is used up.
 */
ngx_int_t ngx_agent_slot_spend(const u_char *id, bound_id_t bound);

/* Counts one more request: BOUND_COUNT, or the bound that is used up. */
bound_id_t ngx_agent_slot_admit(const u_char *id);

/* Counts n of it at once: NGX_OK, or NGX_BUSY past the bound. */
ngx_int_t ngx_agent_slot_charge(const u_char *id, bound_id_t bound,
    uint64_t n);

/* The bytes of what has ended. */
void ngx_agent_slot_bytes(const u_char *id, uint64_t up, uint64_t down);

/* How long a TLS handshake of the task has to wait, in ms. */
ngx_msec_t ngx_agent_slot_handshake(const u_char *id);

void ngx_agent_slot_deny(const u_char *id);

/*
 * Lines of the task are in the audit: NGX_ABORT the first time that they
 * reach its budget.
 */
ngx_int_t ngx_agent_slot_recorded(const u_char *id, ngx_uint_t allowed,
    ngx_uint_t lines, size_t bytes);

/* Is the budget used up?  Then nothing more of the task is recorded. */
ngx_uint_t ngx_agent_slot_is_over(const u_char *id);

void ngx_agent_slot_refuse(const u_char *id, ngx_agent_ctx_t *ctx,
    const char *hint);

/* The refusals as a JSON array, the number of all in *count. */
json_t *ngx_agent_slot_refusals(const u_char *id, ngx_uint_t *count);


/* ngx_agent_set.c */

ngx_agent_set_t *ngx_agent_set_get(ngx_log_t *log);     /* adds a reference */
void ngx_agent_set_release(ngx_agent_set_t *set);
ngx_agent_set_t *ngx_agent_set_hold(ngx_pool_t *pool, ngx_log_t *log);
                                        /* released with the pool */


/* ngx_agent_audit_file.c */

ngx_int_t ngx_agent_audit_open(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf);

/* Has this process a file to write to? */
ngx_uint_t ngx_agent_audit_ready(void);


/* ngx_agent_audit_shared.c */

ngx_int_t ngx_agent_audit_zone_add(ngx_conf_t *cf);

/* This process is a worker from here on: should it be killed, it is told. */
void ngx_agent_audit_serve(void);


/* ngx_agent_audit.c */

void ngx_agent_audit_start(ngx_cycle_t *cycle, ngx_agent_main_conf_t *amcf);

/* "@timestamp" to "seq", then the task's keys where there is a task. */
void ngx_agent_audit_begin(audit_line_t *line, const char *event,
    const u_char *task, const u_char *policy, const u_char *policy_hash,
    uid_t uid);

/* Ends and writes the line: NGX_ERROR when it is not in the file. */
ngx_int_t ngx_agent_audit_write(audit_line_t *line, const u_char *task);

/* The same at the end of this pass of the event loop, or before. */
void ngx_agent_audit_gather(audit_line_t *line, const u_char *task);

/*
 * The same for a request's decision, which is counted as allowed when it is
 * written.  Calls the handler then, with rc as of ngx_agent_audit_write; who
 * cannot be called any more leaves.
 */
void ngx_agent_audit_await(audit_line_t *line, const u_char *task,
    ngx_agent_audit_wait_t *wait);
void ngx_agent_audit_leave(ngx_agent_audit_wait_t *wait);

/* The same for the last line of this process. */
ngx_int_t ngx_agent_audit_write_end(audit_line_t *line);

/* Writes what was gathered: NGX_ERROR when not all of it is in the file. */
ngx_int_t ngx_agent_audit_flush(void);

/* The number of the line that this process wrote last. */
uint64_t ngx_agent_audit_last(void);


/* ngx_agent_events.c */

/* At once, or with ctx->record: NGX_AGAIN. */
ngx_int_t ngx_agent_audit_decision(ngx_agent_ctx_t *ctx,
    const char *verdict);
ngx_int_t ngx_agent_audit_connect(ngx_agent_ctx_t *ctx);
void ngx_agent_audit_tunnel_end(ngx_agent_ctx_t *ctx, uint64_t up,
    uint64_t down);
ngx_int_t ngx_agent_log(ngx_http_request_t *r);
void ngx_agent_audit_task_end(const u_char *id, ngx_agent_slot_view_t *view,
    const char *reason, json_t *claimed);
void ngx_agent_audit_config(ngx_cycle_t *cycle, ngx_agent_main_conf_t *amcf,
    const char *what);
void ngx_agent_audit_worker(const char *what);

/* Workers that were killed since, should nobody have told of them. */
void ngx_agent_audit_lost(void);

/* Somebody has cut so many bytes off the file. */
void ngx_agent_audit_cut(off_t bytes);


/* ngx_agent_lease.c */

ngx_int_t ngx_agent_random(u_char *dst, size_t n);
void ngx_agent_hex(u_char *dst, const u_char *src, size_t n);
size_t ngx_agent_lease_make(ngx_agent_main_conf_t *amcf, const u_char *task,
    uid_t uid, const u_char *policy, uint64_t netns, time_t expires,
    char dst[NGX_AGENT_LEASE_MAX]);
/*
 * NGX_OK with the policy's name and the expiry, else NGX_DECLINED.  *instance
 * is the start of the broker that made it.
 */
ngx_int_t ngx_agent_lease_check(ngx_agent_main_conf_t *amcf,
    const char *lease, const u_char *task, uid_t uid, uint64_t netns,
    u_char policy[POLICY_NAME_MAX + 1], time_t *expires, uint64_t *instance);
ngx_int_t ngx_agent_lease_key(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf);


/* ngx_agent_state.c */

/* NGX_BUSY: another broker has it. */
ngx_int_t ngx_agent_state_lock(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf);
/* A worker has no use for it. */
void ngx_agent_state_worker(ngx_agent_main_conf_t *amcf);
/* nginx -s: refused where the pid file's number is another's. */
ngx_int_t ngx_agent_state_signalled(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf);


/* ngx_agent_door.c */

/* What a descriptor is for; NULL, or a constant sentence why it is refused. */
const char *ngx_agent_door_check(ngx_socket_t s,
    const ngx_agent_door_spec_t *door, uint64_t broker_netns,
    uint64_t *netns);
uint64_t ngx_agent_netns_cookie(ngx_socket_t s);

/* With one reference; gone when the last one is released. */
ngx_agent_task_t *ngx_agent_task_create(ngx_log_t *log);
void ngx_agent_task_release(ngx_agent_task_t *task);

/* The doors of a task: takes the descriptors over, also when it fails. */
ngx_int_t ngx_agent_doors_open(ngx_agent_task_t *task,
    ngx_agent_srv_conf_t *ascf, const ngx_agent_door_spec_t *specs,
    ngx_socket_t *fds, ngx_uint_t n);
void ngx_agent_doors_close(ngx_agent_task_t *task);

/* Cuts every connection of the task that this worker has. */
void ngx_agent_task_cut(ngx_agent_task_t *task);

/* One door: removed from the event loop first, then closed. */
void ngx_agent_door_close(ngx_agent_door_t *door);

/* The protocol's word for a kind of door. */
const char *ngx_agent_door_name(ngx_agent_door_e kind);

/* The door of a listening socket itself, as of no accepted connection. */

#define ngx_agent_door_of(listening)                                          \
    ngx_queue_data(listening, ngx_agent_door_t, ls)


/* ngx_agent_accept.c */

/* The handlers of a door's listening socket, and of what it accepts. */
void ngx_agent_door_accept(ngx_event_t *rev);

/*
 * While it is on, a system call does not wait for longer than 2 ms: a signal
 * interrupts it.  For calls that use, take or close what a launcher has given
 * and may have prepared, so that they wait.
 */
void ngx_agent_interrupt(ngx_uint_t on);

/* Closes a socket that a launcher has given. */
void ngx_agent_close_given(ngx_socket_t s);
void ngx_agent_door_connection(ngx_connection_t *c);

/* NULL where no door led to the connection. */
ngx_agent_connection_t *ngx_agent_connection(ngx_connection_t *c);
ngx_agent_task_t *ngx_agent_connection_task(ngx_connection_t *c);


/* ngx_agent_control.c */

char *ngx_agent_control_directive(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
ngx_int_t ngx_agent_control_stale(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf, ngx_agent_srv_conf_t *ascf);
ngx_int_t ngx_agent_control_start(ngx_cycle_t *cycle);
void ngx_agent_control_stop(ngx_cycle_t *cycle);

/* Ends the tasks that are over, at the end of this pass of the event loop. */
void ngx_agent_control_over(void);


/* ngx_agent_connect.c */

/* Takes a new connection over, until its first bytes are known. */
void ngx_agent_connect(ngx_connection_t *c);


/* ngx_agent_tunnel.c */

/* The CONNECT of this context was answered: its TLS is passed through. */
void ngx_agent_tunnel(ngx_agent_connection_t *ac, ngx_agent_ctx_t *ctx);


/* ngx_agent_dns.c */

void ngx_agent_dns_udp(ngx_event_t *rev);
void ngx_agent_dns_tcp(ngx_connection_t *c);


/* ngx_agent_tls.c */

ngx_int_t ngx_agent_ca_auto(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf);
ngx_int_t ngx_agent_ca_files(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf);
ngx_int_t ngx_agent_ca_text(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf);
ngx_int_t ngx_agent_tls_init(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf,
    ngx_agent_srv_conf_t *ascf);


/* ngx_agent_bio.c */

/* Puts our reading and writing below the TLS of a connection. */
ngx_int_t ngx_agent_bio(ngx_connection_t *c);


/* ngx_agent_decide.c */

/* Has the task requests and bytes left?  Counts one request. */
ngx_agent_reason_e ngx_agent_decide_bounds(ngx_agent_task_t *task);

/* May the task of this connection speak to this host and port at all? */
ngx_agent_reason_e ngx_agent_decide_name(ngx_agent_connection_t *ac,
    const authority_t *name);

ngx_int_t ngx_agent_decide(ngx_http_request_t *r);

/* Fills the context of a new request of a task. */
ngx_int_t ngx_agent_decide_begin(ngx_agent_ctx_t *ctx,
    ngx_agent_task_t *task);

/*
 * Loads what the verdict is made from: NGX_AGENT_REASON_RULE, or why there
 * can be none.  The policies are held by the pool.
 */
ngx_agent_reason_e ngx_agent_decide_load(ngx_pool_t *pool, ngx_log_t *log,
    ngx_agent_ctx_t *ctx);


/* ngx_agent_resolve.c */

/*
 * Finds the addresses of ctx's target: NGX_OK, they are in ctx; NGX_AGAIN,
 * ctx->resolved() is called when they are; NGX_DECLINED, ctx->why may say why
 * there are none; NGX_ERROR.
 */
ngx_int_t ngx_agent_resolve(ngx_agent_ctx_t *ctx,
    ngx_http_core_srv_conf_t *core);
void ngx_agent_resolve_cancel(void *ctx);

/* Leaves the addresses that may be dialled, and the first as text. */
ngx_agent_reason_e ngx_agent_guard(ngx_agent_ctx_t *ctx);

ngx_int_t ngx_agent_name_peer(ngx_agent_ctx_t *ctx, const address_t *a);

/* Its digits; where they end. */
u_char *ngx_agent_port(u_char *p, in_port_t port);


/* ngx_agent_refuse.c */

const ngx_agent_reason_t *ngx_agent_reason(ngx_agent_reason_e reason);

/* What can be done about a refusal: a constant, or in text; or NULL. */
const char *ngx_agent_hint(ngx_agent_ctx_t *ctx,
    char text[NGX_AGENT_HINT_MAX]);

/* Answers the request; what a phase handler returns then. */
ngx_int_t ngx_agent_refuse(ngx_http_request_t *r, ngx_agent_ctx_t *ctx,
    ngx_agent_reason_e reason, const char *why);

/*
 * The JSON object that tells a box why: a refusal's, or a failure's.  What
 * the task has asked for is in ctx, as far as it is known.
 */
ngx_int_t ngx_agent_refusal_body(ngx_pool_t *pool, ngx_agent_ctx_t *ctx,
    ngx_agent_reason_e reason, ngx_uint_t status, const char *hint,
    ngx_str_t *body);

/* Records a refusal; what is to be answered in *body. */
ngx_int_t ngx_agent_refusal(ngx_pool_t *pool, ngx_agent_ctx_t *ctx,
    ngx_agent_reason_e reason, const char *why, ngx_str_t *body);


/* ngx_agent_page.c */

/* Makes the answer that core is about to send ours, and says so. */
ngx_int_t ngx_agent_page(ngx_http_request_t *r);

/* Why core ended a request of a box, of which nothing else tells. */
ngx_agent_reason_e ngx_agent_page_reason(ngx_http_request_t *r);
void ngx_agent_page_filter_init(void);


/* ngx_agent_upstream.c */

ngx_int_t ngx_agent_upstream_add(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf);
/* Makes one judged address the peer's, with its names for logs and audit. */
ngx_int_t ngx_agent_peer_address(ngx_peer_connection_t *pc,
    ngx_agent_ctx_t *ctx, address_t *a);

const char *ngx_agent_upstream_unsafe(ngx_http_upstream_conf_t *ucf);


/* ngx_agent_reuse.c */

address_t *ngx_agent_reuse_get(ngx_peer_connection_t *pc,
    ngx_agent_ctx_t *ctx);
void ngx_agent_reuse_put(ngx_peer_connection_t *pc, ngx_agent_ctx_t *ctx,
    ngx_uint_t state);
ngx_ssl_session_t *ngx_agent_session_get(ngx_agent_ctx_t *ctx);
void ngx_agent_session_put(ngx_agent_ctx_t *ctx, ngx_ssl_session_t *session);
void ngx_agent_reuse_drop(ngx_agent_task_t *task);


/* ngx_agent_headers.c */

ngx_int_t ngx_agent_rewrite(ngx_http_request_t *r, ngx_agent_ctx_t *ctx);
ngx_int_t ngx_agent_upstream_filter_init(ngx_conf_t *cf);

/* Does it ask for a websocket, and may it? */
ngx_uint_t ngx_agent_is_websocket(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx);


#endif /* NGX_AGENT_BROKER_H */
