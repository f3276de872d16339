/*
 * The configuration, as conf/ leaves it to the folders below: read once when
 * nginx starts or reloads, and never changed by a request.
 */

#pragma once


#include "base/ngx_agent_base.h"
#include "parse/system_names.h"
#include "policy/policy.h"
#include "policy/vault.h"


typedef struct ngx_agent_allowed_s  ngx_agent_allowed_t;


/* Where a policy or a rule was written, for what is written a second time. */

/*
 * The lease key, and the authority's as EVP_PKEY_fromdata() takes it: the
 * parameters point into data, which is at the same address in each process.
 */

typedef struct {
    u_char                    lease_key[32];
    char                      ca_type[16];
    OSSL_PARAM                ca_params[24];
    size_t                    ca_len;
    u_char                    ca_data[12288];
} ngx_agent_secrets_t;


typedef struct {
    const void      *what;
    ngx_str_t        file;
    ngx_uint_t       line;
} ngx_agent_place_t;


typedef struct {
    ngx_str_t                 vault_file;
    ngx_str_t                 vault_key_file;
    vault_t                  *vault;        /* until init_module, then NULL */

    ngx_str_t                 audit_file;
    ngx_fd_t                  audit_fd;
    ngx_uint_t                audit_torn;   /* it ends within a line */

    ngx_str_t                 state_dir;
    ngx_fd_t                  state_fd;     /* the master's */
    ngx_uint_t                state_locked;
    ngx_agent_secrets_t      *secrets;

    ngx_str_t                 ca_file;      /* empty: auto */
    ngx_str_t                 ca_key_file;
    X509                     *ca_cert;
    EVP_PKEY                 *ca_key;       /* while it is read or made */
    ngx_pool_t               *ca_pool;      /* of what follows */
    char                     *ca_pem;       /* what boxes trust */
    char                      ca_hash[PROTOCOL_CA_HASH_LEN + 1];

    uint64_t                  opens_rate;   /* of a user, a second */
    uint64_t                  opens_burst;
    ngx_int_t                 control_connections;  /* of a user */

    size_t                    zone_size;
    ngx_int_t                 tasks;        /* live at once, at most */
    ngx_array_t               logs;         /* ngx_log_t *, of locations */
    ngx_shm_zone_t           *zone;
    ngx_shm_zone_t           *vault_zone;
    ngx_shm_zone_t           *audit_zone;

    policy_set_t             *set;          /* as configured */
    u_char                   *snapshot;     /* of it, until init_module */
    size_t                    snapshot_len;

    policy_t                 *policy;       /* the block being read */
    policy_rule_t            *rule;
    uint64_t                  seen;         /* the directives so far, */
    uint64_t                  policy_seen;  /* and those of the block */
    uint64_t                  rule_seen;
    ngx_uint_t                rule_trace;   /* 1 and where in places it says
                                               TRACE, or 0 */
    char                     *policy_pem;   /* its trusted_certificate */
    ngx_array_t               credentials;  /* ngx_agent_credential_use_t */
    ngx_array_t               places;       /* ngx_agent_place_t */
    ngx_agent_place_t         absent;       /* a `readable` that is not there */
    ngx_agent_allowed_t      *allowed;      /* ngx_agent_allowed.c */

    ngx_http_upstream_srv_conf_t  *upstream;

    ngx_resolver_t           *resolver;     /* of /etc/resolv.conf, or NULL */
    system_hosts_t           *hosts;

    ngx_uint_t                servers;      /* how many agent_control */
    ngx_uint_t                started;      /* it is in force, or was */
    ngx_uint_t                listens;      /* sockets beside agent_control */
    ngx_uint_t                replaced;     /* the module's file has another */
} ngx_agent_main_conf_t;


typedef struct {
    ngx_str_t                  control;     /* path of the socket */
    ngx_http_core_srv_conf_t  *core;
    const char                *file;        /* where agent_control is */
    ngx_uint_t                 line;
} ngx_agent_srv_conf_t;
