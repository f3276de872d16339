/*
 * A request of a box, from its verdict to the upstream and back.
 */

#ifndef NGX_AGENT_REQUEST_H
#define NGX_AGENT_REQUEST_H


#include "audit/ngx_agent_audit.h"


#define NGX_AGENT_ADDRS_MAX      32         /* judged for one request */

#define NGX_AGENT_UPSTREAM       "agent_broker"


/* ngx_agent_decide.c */

/* Has the task requests and bytes left?  Counts one request. */
ngx_agent_reason_e ngx_agent_decide_bounds(ngx_agent_task_t *task);

/* The policy's rule for this host and port; or why there is none. */
ngx_agent_reason_e ngx_agent_decide_find(const policy_t *policy,
    const authority_t *name, const policy_rule_t **rule);

/* May the task speak to this host and port at all? */
ngx_agent_reason_e ngx_agent_decide_name(ngx_agent_task_t *task,
    ngx_log_t *log, const authority_t *name);

/* The handler of the preaccess phase: the verdict on a request. */
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
ngx_agent_reason_e ngx_agent_resolve_guard(ngx_agent_ctx_t *ctx);

/* Does this rule let all addresses through that were let through before? */
ngx_uint_t ngx_agent_resolve_is_allowed(ngx_agent_ctx_t *ctx,
    const policy_rule_t *rule);

/* An address of 4 or 16 bytes as a socket's; returns its length. */
socklen_t ngx_agent_resolve_sockaddr(ngx_sockaddr_t *sa, const u_char *bytes,
    size_t len, in_port_t port);

/* Makes this address the one that logs and audit name. */
ngx_int_t ngx_agent_resolve_name(ngx_agent_ctx_t *ctx, const address_t *a);

/* Its digits; where they end. */
u_char *ngx_agent_resolve_port(u_char *p, in_port_t port);


/* ngx_agent_refuse.c */


/* What can be done about a refusal: a constant, or in text; or NULL. */
const char *ngx_agent_refuse_hint(ngx_agent_ctx_t *ctx,
    char text[NGX_AGENT_HINT_MAX]);

/* Adds the header by which a box tells our answers from an upstream's. */
ngx_int_t ngx_agent_refuse_mark(ngx_http_request_t *r, const char *how);

/* Answers the request; what a phase handler returns then. */
ngx_int_t ngx_agent_refuse(ngx_http_request_t *r, ngx_agent_ctx_t *ctx,
    ngx_agent_reason_e reason, const char *why);

/*
 * The JSON object that tells a box why: a refusal's, or a failure's.  What
 * the task has asked for is in ctx, as far as it is known.
 */
ngx_int_t ngx_agent_refuse_body(ngx_pool_t *pool, ngx_agent_ctx_t *ctx,
    ngx_agent_reason_e reason, ngx_uint_t status, const char *hint,
    ngx_str_t *body);

/* Records a refusal; what is to be answered in *body. */
ngx_int_t ngx_agent_refuse_record(ngx_pool_t *pool, ngx_agent_ctx_t *ctx,
    ngx_agent_reason_e reason, const char *why, ngx_str_t *body);


/* ngx_agent_error_page.c */

/* Makes the answer that core is about to send ours, and says so. */
ngx_int_t ngx_agent_error_page(ngx_http_request_t *r);

/* Adds the body filter. */
void ngx_agent_error_page_init(void);


/* ngx_agent_upstream.c */

/* The upstream that proxy_pass names. */
ngx_int_t ngx_agent_upstream_add(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf);

/* Makes one judged address the peer's, with its names for logs and audit. */
ngx_int_t ngx_agent_upstream_peer_address(ngx_peer_connection_t *pc,
    ngx_agent_ctx_t *ctx, address_t *a);

/* NULL, or a constant phrase: the directive that makes this proxy unsafe. */
const char *ngx_agent_upstream_unsafe(ngx_http_upstream_conf_t *ucf);


/* ngx_agent_keepalive.c */

/*
 * What an earlier request of the task has left for one to the same place.  A
 * connection is the caller's from get on; a TLS session stays this file's.
 */
address_t *ngx_agent_keepalive_get(ngx_peer_connection_t *pc,
    ngx_agent_ctx_t *ctx);
void ngx_agent_keepalive_put(ngx_peer_connection_t *pc, ngx_agent_ctx_t *ctx,
    ngx_uint_t state);
ngx_ssl_session_t *ngx_agent_keepalive_session_get(ngx_agent_ctx_t *ctx);
void ngx_agent_keepalive_session_put(ngx_agent_ctx_t *ctx,
    ngx_ssl_session_t *session);


/* ngx_agent_header_names.c */

/* Links the lists, before the first request. */
void ngx_agent_header_names_init(void);

/* Of a request: is it one that the box cannot send on? */
ngx_uint_t ngx_agent_header_names_is_stripped(u_char *name, size_t len);

/* Of a request: does the proxy make it for this hop? */
ngx_uint_t ngx_agent_header_names_is_framing(u_char *name, size_t len);

/* Of an answer: is it one that the upstream cannot tell? */
ngx_uint_t ngx_agent_header_names_is_dropped(u_char *name, size_t len);


/* ngx_agent_headers.c */

/*
 * Writes the header that goes up anew, in a buffer of the request's that is
 * wiped with it if it holds a credential.  NGX_ERROR: nothing may be sent.
 */
ngx_int_t ngx_agent_headers_rewrite(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx);
ngx_int_t ngx_agent_headers_init(ngx_conf_t *cf);

/* Does it ask for a websocket, and may it? */
ngx_uint_t ngx_agent_headers_is_websocket(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx);


#endif /* NGX_AGENT_REQUEST_H */
