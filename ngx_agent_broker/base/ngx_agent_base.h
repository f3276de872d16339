/*
 * What every other folder of the module may use: nginx itself, the reasons
 * of a refusal, and helpers that know nothing of tasks.
 */

#pragma once


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_http.h>

#include "ngx_agent_broker.h"


/* Why a request was refused or failed; the table is in ngx_agent_reason.c. */

typedef enum {
    NGX_AGENT_REASON_RULE = 0,          /* allowed */
    NGX_AGENT_REASON_NONE = 0,          /* it did not fail */
    NGX_AGENT_REASON_MALFORMED,
    NGX_AGENT_REASON_MISMATCH,
    NGX_AGENT_REASON_TASK_UNKNOWN,
    NGX_AGENT_REASON_POLICY_GONE,
    NGX_AGENT_REASON_HOST,
    NGX_AGENT_REASON_PORT,
    NGX_AGENT_REASON_METHOD,
    NGX_AGENT_REASON_PATH,
    NGX_AGENT_REASON_UPGRADE,
    NGX_AGENT_REASON_SNI,
    NGX_AGENT_REASON_REQUESTS,
    NGX_AGENT_REASON_RATE,
    NGX_AGENT_REASON_CONNECTIONS,
    NGX_AGENT_REASON_HANDSHAKES,
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
    NGX_AGENT_REASON_IDLE,
    NGX_AGENT_REASON_RESET,
    NGX_AGENT_REASON_BAD_ANSWER,
    NGX_AGENT_REASON_ANSWER_CUT,
    NGX_AGENT_REASON_CA,
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
    const char  *outcome;               /* "denied": decided; or "failed" */
    const char  *hint;                  /* where the rule gives none */
} ngx_agent_reason_t;


/* Walks a queue; no item may be removed meanwhile. */

#define ngx_agent_queue_each(q, queue)                                        \
    for (q = ngx_queue_head(queue);                                           \
         q != ngx_queue_sentinel(queue);                                      \
         q = ngx_queue_next(q))


/* ngx_agent_bio.c */

/*
 * Makes the TLS of a connection read and write through our BIO.  After a fatal
 * alert c->error is set.
 */
ngx_int_t ngx_agent_bio(ngx_connection_t *c);


/* ngx_agent_reason.c */

/* The row of a reason; never NULL. */
const ngx_agent_reason_t *ngx_agent_reason(ngx_agent_reason_e reason);


/* ngx_agent_name_table.c */

#define NGX_AGENT_TABLE_MAX  128            /* a power of two */

/*
 * A list of names in lower case that ends in an empty one, chained by a hash
 * of the length and two letters.  One of them may end with "-": it matches all
 * names that begin with it.
 */

typedef struct {
    ngx_str_t   *list;                      /* to be set */
    u_char       first[NGX_AGENT_TABLE_MAX];    /* in it, from 1; 0: none */
    u_char       next[NGX_AGENT_TABLE_MAX + 1];
    ngx_str_t   *prefix;
} ngx_agent_name_table_t;

void ngx_agent_name_table_init(ngx_agent_name_table_t *table);

/* The name as it is listed, whatever its case here; NULL if it is not. */
ngx_str_t *ngx_agent_name_table_find(ngx_agent_name_table_t *table,
    const u_char *name, size_t len);


/* ngx_agent_random.c */

/* n random bytes from OpenSSL: NGX_OK, or NGX_ERROR when it fails. */
ngx_int_t ngx_agent_random(u_char *dst, size_t n);


/* ngx_agent_build.c */

#define NGX_AGENT_BUILD_ID  40              /* hex digits, at most */

/* The linker's build id of this module; empty if it has none. */
void ngx_agent_build_id(char hex[NGX_AGENT_BUILD_ID + 1]);

/*
 * Does the file that the module was loaded from, which path is set to, hold
 * another build by now, or none?  0 too if there is no build id.
 */
ngx_uint_t ngx_agent_build_is_replaced(char path[PATH_MAX]);


/* ngx_agent_words.c */

/* NGX_ERROR, which is logged, if a word contains a NUL byte. */
ngx_int_t ngx_agent_words_check(ngx_conf_t *cf, ngx_command_t *cmd);


/* ngx_agent_paths.c */

/* NGX_ERROR, which is logged, if another user could replace the file. */
ngx_int_t ngx_agent_paths_check(ngx_conf_t *cf, ngx_str_t *directive,
    ngx_str_t *path);

/*
 * The path with the links of its existing part resolved: NGX_OK, or
 * NGX_DECLINED.
 */
ngx_int_t ngx_agent_paths_real_path(const char *name, char real[PATH_MAX]);

/* Is the path the directory, or below it?  Neither may contain links. */
ngx_uint_t ngx_agent_paths_is_beneath(const char *dir, const char *path);
