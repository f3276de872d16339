/*
 * A policy: what a box may use and what it may call.  The configuration
 * builds a policy_set_t in the master; its text form (JSON, no pointers) is
 * published in shared memory by generation; each worker loads that text
 * lazily.  What loads is checked: a policy that exists is valid.
 *
 * Memory: everything hangs from the set and is freed by policy_set_free.
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "parse/address.h"
#include "parse/authority.h"
#include "jail/shared/limits.h"
#include "jail/shared/protocol.h"
#include "policy/bounds.h"
#include "policy/policy_base.h"


#define POLICY_NAME_MAX   64     /* [A-Za-z0-9_.-] */
#define POLICY_HINT_MAX   256
#define POLICY_FIELD_MAX  64     /* of a header or query, for a credential */


typedef struct policy_pem_s  policy_pem_t;      /* see policy_pem.h */
typedef struct policy_set_s  policy_set_t;


typedef enum {
    CREDENTIAL_NONE = 0,
    CREDENTIAL_BEARER,                 /* Authorization: Bearer VALUE */
    CREDENTIAL_BASIC,                  /* Authorization: Basic, of NAME:VALUE */
    CREDENTIAL_HEADER,                 /* FIELD: VALUE */
    CREDENTIAL_QUERY                   /* ?FIELD=VALUE */
} credential_kind_t;


typedef struct {
    char               *name;          /* as the configuration spells it:
                                          "*.a.example", "[::1]:8443" */
    char               *host;          /* lower case; of a wildcard without
                                          its "*." */
    bool                wildcard;      /* one or more labels under host */
    authority_kind_t    kind;          /* a literal matches only itself */
    uint16_t            port;          /* 0: 80 and 443 */
    char              **methods;       /* empty: GET HEAD */
    size_t              methods_count;
    char              **paths;         /* empty: every path */
    size_t              paths_count;
    void              **patterns;      /* of paths, see policy_path.c */
    bool                plaintext;     /* the upstream speaks cleartext */
    bool                websocket;     /* an upgrade to it is passed on */
    bool                tunnel;        /* TLS by CONNECT is not ended here */
    uint64_t            request_body;  /* bytes; 0 until the set is
                                          complete: the policy's */
    uint64_t            idle;          /* ms; the same */
    bool                reuse_after_body;  /* of a connection to it */
    credential_kind_t   credential_kind;
    char               *credential;    /* vault entry, NULL without one */
    char               *credential_field;  /* of a header's or query's */
    bool                credential_wildcard;  /* meant for many hosts */
    bool                client_credentials;   /* the box's own pass */
    bool                cookies;       /* pass, beside a credential */
    char               *hint;          /* NULL without one */
    char               *trusted_pem;   /* NULL: the policy set's default */
    policy_pem_t       *pem;           /* the set's copy, once it has one */
    char               *crl_pem;       /* while the configuration is read:
                                          trusted_pem ends with it then */
    address_range_t    *ranges;        /* `private` */
    size_t              ranges_count;
    const char         *file;          /* the configuration's, and where in */
    uint32_t            line;          /* it; NULL: unknown; not in the text */
} policy_rule_t;


typedef struct {
    char      *path;
    uint64_t   bytes;
} policy_writable_t;


typedef struct {
    char                name[POLICY_NAME_MAX + 1];
    char                hash[POLICY_HASH_LEN + 1];  /* see policy_set_dump */
    uint64_t            limits[LIMIT_COUNT];        /* units of limits.h */
    uint64_t            bounds[BOUND_COUNT];
    uint64_t            request_body;               /* bytes, decoded */
    uint64_t            idle;                       /* ms, of a tunnel or an
                                                       upgrade */
    char               *isolation;                  /* "namespaces" */
    policy_writable_t  *writable;
    size_t              writable_count;
    char              **readable;
    size_t              readable_count;
    char              **env;                        /* names callers may set */
    size_t              env_count;
    char              **env_despite;                /* of these, those that
                                                       mean a secret */
    size_t              env_despite_count;
    uid_t              *launcher_uids;
    size_t              launcher_uids_count;
    gid_t              *launcher_gids;
    size_t              launcher_gids_count;
    policy_rule_t     **rules;                      /* configuration order; of
                                                       a snapshot those read
                                                       so far, else NULL */
    size_t              rules_count;
    uint16_t           *ports;                      /* of a snapshot: those */
    size_t              ports_count;                /* that rules name */
    size_t              record;                     /* in the snapshot */
    const policy_rule_t  *earlier;                  /* why policy_add_rule
                                                       refused; or NULL */
    struct policy_index_s  *index;                  /* see policy_index.c */
    policy_set_t           *set;                    /* the one it belongs to */
} policy_t;


struct policy_set_s {
    uint64_t    generation;
    char       *trusted_pem;           /* default CAs; NULL: the system's */
    policy_t  **policies;
    size_t      policies_count;
    void      (*data_free)(void *data);/* of pems' data, or NULL */
    policy_pem_t  *pem;                /* of trusted_pem, as in a rule */
    policy_pem_t  *pems;               /* each certificate text once */
    const unsigned char  *snapshot;    /* where the rules are read from, see */
    size_t      snapshot_len;          /* policy_snapshot.h; or NULL */
    size_t      loaded;                /* rules read from it so far */
    char      **files;                 /* the configuration's */
    size_t      files_count;
};


typedef enum {
    POLICY_FOUND = 0,
    POLICY_NO_HOST,                    /* host_not_allowed */
    POLICY_NO_PORT,                    /* the host has rules, not this port */
    POLICY_STALE                       /* its snapshot is closed, or damaged */
} policy_match_t;


policy_set_t *policy_set_new(void);
void policy_set_free(policy_set_t *set);

/* Frees what takes the most memory; the policies and their hashes stay. */
void policy_set_forget_rules(policy_set_t *set);

/* A policy with the default limits and nothing allowed; NULL with err. */
policy_t *policy_set_add(policy_set_t *set, const char *name,
    char err[POLICY_ERROR_MAX]);

const policy_t *policy_set_find(const policy_set_t *set, const char *name);

/*
 * Adds `host TEXT` ("api.internal", "*.packages.example", "metrics:9090",
 * "10.1.2.3", "[2001:db8::1]:8443").  Refuses what is not canonical after
 * lower-casing, non-ASCII (suggesting the xn-- form), a wildcard over a public
 * suffix (libpsl) or over fewer than two labels, and a host and port that
 * another rule serves already ("h:443" beside "h" is ambiguous).  The rule is
 * the policy's; the caller fills it in.
 */
policy_rule_t *policy_add_rule(policy_t *policy, const char *text,
    char err[POLICY_ERROR_MAX]);

/* The same without a policy; the caller frees it. */
policy_rule_t *policy_rule_new(const char *text, char err[POLICY_ERROR_MAX]);
void policy_rule_free(policy_rule_t *rule);

/* List helpers that copy; -1 with err for a malformed or repeated value. */
int policy_rule_add_method(policy_rule_t *rule, const char *method,
    char err[POLICY_ERROR_MAX]);
int policy_rule_add_range(policy_rule_t *rule, const char *text,
    char err[POLICY_ERROR_MAX]);
int policy_rule_set_hint(policy_rule_t *rule, const char *text,
    char err[POLICY_ERROR_MAX]);

/* What the directives are called, by credential_kind_t; then NULL. */
extern const char *const  policy_credential_kinds[];

/*
 * field: the name of the header or the query's field, NULL for other kinds.
 * -1 with err for a second one, a name that is none, or a field that frames or
 * routes a request, is of one hop, or a cookie's.
 */
int policy_rule_set_credential(policy_rule_t *rule, credential_kind_t kind,
    const char *field, const char *entry, char err[POLICY_ERROR_MAX]);

/* Would a request under one have the same credentials under the other? */
bool policy_rule_has_same_credential(const policy_rule_t *one,
    const policy_rule_t *other);

/* Adds GET and HEAD where none is named, and HEAD beside GET; -1: no memory. */
int policy_rule_imply_methods(policy_rule_t *rule);

/*
 * Makes trusted_pem whole: the rule's own certificates, else these (or NULL),
 * and behind them crl_pem, which is freed.  -1: no memory.
 */
int policy_rule_trust(policy_rule_t *rule, const char *trusted_pem);

int policy_choose_isolation(policy_t *policy, const char *text,
    char err[POLICY_ERROR_MAX]);
int policy_add_env(policy_t *policy, const char *name,
    char err[POLICY_ERROR_MAX]);
/* Before policy_add_env(), which refuses a name that means a secret. */
int policy_add_env_despite(policy_t *policy, const char *name,
    char err[POLICY_ERROR_MAX]);
int policy_add_readable(policy_t *policy, const char *path,
    char err[POLICY_ERROR_MAX]);
int policy_add_writable(policy_t *policy, const char *path, uint64_t bytes,
    char err[POLICY_ERROR_MAX]);
int policy_add_launcher(policy_t *policy, const char *text /* user:x */,
    char err[POLICY_ERROR_MAX]);
int policy_add_launcher_id(uint32_t **list, size_t *count, uint64_t id,
    char err[POLICY_ERROR_MAX]);

/*
 * What can be checked only when a rule or policy is complete: a credential on
 * plaintext, on a wildcard or with TRACE, plaintext without a port, loopback
 * in `private` without a port, an address that its own rule does not open,
 * more ports than doors.  (Env names that would loosen the box, LD_*, PATH,
 * *_PROXY, the CA variables, are refused by policy_add_env.)
 */
int policy_rule_check(const policy_rule_t *rule, char err[POLICY_ERROR_MAX]);
int policy_check(const policy_t *policy, char err[POLICY_ERROR_MAX]);

/*
 * To be called when all policies are there and checked.  Takes over each
 * rule's and the set's trusted_pem (malloc'd by the caller), so that one text
 * used by many rules is kept once.  -1: out of memory, or a trusted_pem that
 * is not PEM.
 */
int policy_set_complete(policy_set_t *set);

/*
 * The text form of a complete set or policy, as `jail policy NAME` shows it
 * (malloc'd, NUL-terminated, *len without the NUL): canonical, so the same
 * policy has the same text however its directives are ordered and spelled.
 * policy_set_dump also sets every policy's hash: the SHA-256 of its text, in
 * which a certificate is given by its own SHA-256.  NULL: out of memory.
 */
char *policy_set_dump(policy_set_t *set, size_t *len);
char *policy_dump(const policy_t *policy, size_t *len);

/* The way back; builds the indexes and sets the hashes.  NULL with err. */
policy_set_t *policy_set_load(const char *text, size_t n,
    char err[POLICY_ERROR_MAX]);

/*
 * The most specific rule: exact host before wildcard, longer suffix before
 * shorter; among the rules of one host the one for this port.  Only the
 * most specific host decides: where it has no rule for the port, a wider
 * wildcard is not asked.  A rule without a port serves 80 and 443.  The same
 * cost for 10 and for 100,000 hosts.  The set is a snapshot's; the rule stays
 * as long as it does.
 */
policy_match_t policy_find_rule(const policy_t *policy,
    const authority_t *target, const policy_rule_t **rule);

/* The rule with this number, in the order of the text; NULL: there is none. */
const policy_rule_t *policy_rule_at(const policy_t *policy, size_t i);

/* Is the method allowed?  HEAD follows GET (RFC 9110 section 9.3.2). */
bool policy_rule_allows_method(const policy_rule_t *rule, const char *method,
    size_t n);

/*
 * NULL: a pattern of the rule matches the path's canonical form (see path.h),
 * or the rule has none.  Else why not: a constant phrase.
 */
const char *policy_rule_refuses_path(const policy_rule_t *rule,
    const unsigned char *path, size_t n);

/* May this peer open tasks?  owner: the broker's own uid (root always may). */
bool policy_allows_launcher(const policy_t *policy, uid_t uid,
    const gid_t *groups, size_t groups_count, uid_t owner);
