/*
 * A request of a box, from its verdict to the upstream and back.
 */

#pragma once


#include "audit/ngx_agent_audit.h"


#define NGX_AGENT_ADDRS_MAX      32         /* judged for one request */

#define NGX_AGENT_UPSTREAM       "agent_broker"


/* ngx_agent_decide.c */

/* The handler of the preaccess phase: the verdict on a request. */
ngx_int_t ngx_agent_decide(ngx_http_request_t *r);

/*
 * Waits for a turn of `rate`, or to be one of the requests in flight: NGX_OK,
 * or NGX_AGAIN, as of ngx_agent_wait().
 */
ngx_int_t ngx_agent_decide_room(ngx_agent_ctx_t *ctx, ngx_agent_wait_e kind,
    void (*handler)(ngx_agent_wait_t *w));

/* Neither waits any more nor is in flight. */
void ngx_agent_decide_leave(ngx_agent_ctx_t *ctx);


/* ngx_agent_judge.c */

/* The context of a new request, with its task, an id and the time; or NULL. */
ngx_agent_ctx_t *ngx_agent_judge_begin(ngx_pool_t *pool,
    ngx_agent_task_t *task);

/*
 * Loads the task's policy: NGX_AGENT_REASON_RULE, or why it has none.  The
 * policies are kept until the pool is destroyed.
 */
ngx_agent_reason_e ngx_agent_judge_load(ngx_pool_t *pool, ngx_log_t *log,
    ngx_agent_ctx_t *ctx);

/* Finds the policy's rule for this host and port: _RULE, or why not. */
ngx_agent_reason_e ngx_agent_judge_find(const policy_t *policy,
    const authority_t *name, const policy_rule_t **rule);

/*
 * Does the rule allow the method and the path of ctx's target?  ctx->why may
 * say why not.  A CONNECT asks for neither.
 */
ngx_agent_reason_e ngx_agent_judge_request(ngx_agent_ctx_t *ctx,
    const policy_rule_t *rule);

/* Has the task requests and bytes left?  Counts one request. */
ngx_agent_reason_e ngx_agent_judge_bounds(ngx_agent_task_t *task);

/* May the task connect to this host and port?  For TLS and DNS. */
ngx_agent_reason_e ngx_agent_judge_name(ngx_agent_task_t *task,
    ngx_log_t *log, const authority_t *name);

/*
 * The rule of the newest policies that allows ctx's target and addresses, or
 * NULL.  ctx has these policies then.
 */
const policy_rule_t *ngx_agent_judge_again(ngx_pool_t *pool, ngx_log_t *log,
    ngx_agent_ctx_t *ctx);


/* ngx_agent_resolve.c */

/*
 * Finds the addresses of ctx's target: NGX_OK, they are in ctx; NGX_AGAIN,
 * ctx->resolved() is called when they are; NGX_DECLINED, there are none, and
 * ctx->why may say why; NGX_ERROR.
 */
ngx_int_t ngx_agent_resolve(ngx_agent_ctx_t *ctx,
    ngx_http_core_srv_conf_t *core);
void ngx_agent_resolve_cancel(void *ctx);

/*
 * Leaves the addresses that may be dialled, in that order, a kept connection's
 * first; sets the first's text.
 */
ngx_agent_reason_e ngx_agent_resolve_guard(ngx_agent_ctx_t *ctx);

/* Does this rule allow all addresses that are left in ctx? */
ngx_uint_t ngx_agent_resolve_is_allowed(ngx_agent_ctx_t *ctx,
    const policy_rule_t *rule);

/* An address of 4 or 16 bytes as a socket's; returns its length. */
socklen_t ngx_agent_resolve_sockaddr(ngx_sockaddr_t *sa, const u_char *bytes,
    size_t len, in_port_t port);

/* Sets the text of this address for logs and audit. */
ngx_int_t ngx_agent_resolve_name(ngx_agent_ctx_t *ctx, const address_t *a);

/* Writes the port's digits at p; returns their end. */
u_char *ngx_agent_resolve_port(u_char *p, in_port_t port);


/* ngx_agent_refuse.c */

/* Has it waited for a bound of speed, so that it can be asked for again? */

#define ngx_agent_refuse_waited(reason)                                       \
    ((reason) == NGX_AGENT_REASON_RATE                                        \
     || (reason) == NGX_AGENT_REASON_CONNECTIONS                              \
     || (reason) == NGX_AGENT_REASON_HANDSHAKES)


/* How to avoid this refusal: a constant, or in text; or NULL. */
const char *ngx_agent_refuse_hint(ngx_agent_ctx_t *ctx,
    char text[NGX_AGENT_HINT_MAX]);

/* Adds the header that distinguishes our answers from an upstream's. */
ngx_int_t ngx_agent_refuse_mark(ngx_http_request_t *r, const char *how);

/* Refuses the request; returns a phase handler's result. */
ngx_int_t ngx_agent_refuse(ngx_http_request_t *r, ngx_agent_ctx_t *ctx,
    ngx_agent_reason_e reason, const char *why);

/*
 * The JSON object of a refusal or a failure.  ctx has the target as far as it
 * is known.
 */
ngx_int_t ngx_agent_refuse_body(ngx_pool_t *pool, ngx_agent_ctx_t *ctx,
    ngx_agent_reason_e reason, const char *hint, ngx_str_t *body);

/*
 * Records a refusal, and makes its body.  NGX_ABORT: the task is so far past
 * its refusals that it gets no answer, and the connection is closed.
 */
ngx_int_t ngx_agent_refuse_record(ngx_pool_t *pool, ngx_agent_ctx_t *ctx,
    ngx_agent_reason_e reason, const char *why, ngx_str_t *body);


/* ngx_agent_error_page.c */

/* Replaces core's error page with ours, marked as the broker's. */
ngx_int_t ngx_agent_error_page(ngx_http_request_t *r);

/* Adds the body filter. */
void ngx_agent_error_page_init(void);


/* ngx_agent_upstream.c */

/* Adds the upstream that proxy_pass must name. */
ngx_int_t ngx_agent_upstream_add(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf);

/* Sets the peer to a judged address, and its text for logs and audit. */
ngx_int_t ngx_agent_upstream_peer_address(ngx_peer_connection_t *pc,
    ngx_agent_ctx_t *ctx, address_t *a);

/*
 * How long, in milliseconds, the next address may be dialled: its share of the
 * rest of the total, which begins with the first; 0: the time is over.
 */
ngx_msec_t ngx_agent_upstream_share(ngx_agent_ctx_t *ctx, ngx_msec_t total);

/* NULL, or which directive makes this proxy unsafe (a constant phrase). */
const char *ngx_agent_upstream_unsafe(ngx_http_upstream_conf_t *ucf);


/* ngx_agent_flow.c */

/* Adds the filter of request bodies. */
void ngx_agent_flow_init(void);

/*
 * Before the verdict: may a body of this length be sent?  What is known of it
 * is taken from bytes_up: _RULE, or why not.
 */
ngx_agent_reason_e ngx_agent_flow_begin(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx);

/* May so many bytes in total go up?  NGX_OK, or NGX_DECLINED. */
ngx_int_t ngx_agent_flow_up(ngx_agent_ctx_t *ctx, uint64_t total);

/* How many more bytes, at most size, may go up or down now; 0: it is over. */
size_t ngx_agent_flow_room(ngx_agent_ctx_t *ctx, bound_id_t bound,
    size_t size);

/* Takes an answer's length, as far as it is not read: or NGX_DECLINED. */
ngx_int_t ngx_agent_flow_answer(ngx_agent_ctx_t *ctx, uint64_t length);

/* What was allowed is ended: on record as refused, in its task's result. */
void ngx_agent_flow_cut(ngx_agent_ctx_t *ctx, ngx_agent_reason_e reason);

/* What was taken in advance: all that was not used, when it waits, or ends. */
void ngx_agent_flow_give_back(ngx_agent_ctx_t *ctx);
void ngx_agent_flow_end(ngx_agent_ctx_t *ctx);

/* The bytes in a chain. */
uint64_t ngx_agent_flow_size(ngx_chain_t *in);


/* ngx_agent_flow_upstream.c */

/* Counts what the request's upstream is sent, and sends. */
void ngx_agent_flow_upstream(ngx_http_request_t *r, ngx_agent_ctx_t *ctx);


/* ngx_agent_flow_box.c */

/* Sets what core's own reading and sending of bodies needs in a location. */
void ngx_agent_flow_location(ngx_http_core_loc_conf_t *clcf,
    ngx_http_upstream_conf_t *ucf);

/* Ends the request when its client is gone, and not when it sends no more. */
void ngx_agent_flow_watch(ngx_http_request_t *r);

/* Watches what is read from the box for this request, over HTTP/1. */
ngx_int_t ngx_agent_flow_box(ngx_http_request_t *r);


/* ngx_agent_live.c */

/*
 * ctx is carried from here on, until it is removed: judged again when the
 * policies change, and ended by end(), which may free it.
 */
void ngx_agent_live_add(ngx_agent_ctx_t *ctx,
    const policy_rule_t *(*judge)(ngx_agent_ctx_t *ctx),
    void (*end)(ngx_agent_ctx_t *ctx, ngx_agent_reason_e reason));
void ngx_agent_live_remove(ngx_agent_ctx_t *ctx);


/* ngx_agent_verify.c */

/*
 * The functions of an upstream's peer that nginx calls when the TLS object is
 * made, and when there is a session that can be resumed.
 */
ngx_int_t ngx_agent_verify_begin(ngx_peer_connection_t *pc, void *data);
void ngx_agent_verify_save(ngx_peer_connection_t *pc, void *data);


/* ngx_agent_keepalive.c */

/*
 * Connections and sessions of earlier requests of the task to the same host.
 * The caller owns a connection that get returns; this file owns the sessions.
 * prefer: the address of one, if there is any, is dialled first.
 */
void ngx_agent_keepalive_prefer(ngx_agent_ctx_t *ctx);
address_t *ngx_agent_keepalive_get(ngx_peer_connection_t *pc,
    ngx_agent_ctx_t *ctx);
void ngx_agent_keepalive_put(ngx_peer_connection_t *pc, ngx_agent_ctx_t *ctx,
    ngx_uint_t state);
ngx_ssl_session_t *ngx_agent_keepalive_session_get(ngx_agent_ctx_t *ctx);
void ngx_agent_keepalive_session_put(ngx_agent_ctx_t *ctx,
    ngx_ssl_session_t *session);


/* ngx_agent_header_names.c */

/* Makes the hash chains; called before the first request. */
void ngx_agent_header_names_init(void);

/* Is this a request header that a box cannot send to an upstream? */
ngx_uint_t ngx_agent_header_names_is_stripped(u_char *name, size_t len);

/* Is it this name, or word, in upper or lower case? */
ngx_uint_t ngx_agent_header_names_is(u_char *name, size_t len,
    const char *known);

/* Is this an answer's header that an upstream cannot send to a box? */
ngx_uint_t ngx_agent_header_names_is_dropped(u_char *name, size_t len);


/* ngx_agent_headers.c */

/*
 * Rewrites the header that is sent to the upstream, in a buffer that is wiped
 * with the request if it has a credential.  NGX_ERROR: nothing may be sent.
 */
ngx_int_t ngx_agent_headers_rewrite(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx);

/* Wipes what c, which may be NULL, has sent of a header with a credential. */
void ngx_agent_headers_forget(ngx_agent_ctx_t *ctx, ngx_connection_t *c);

ngx_int_t ngx_agent_headers_init(ngx_conf_t *cf);

/* The one header of this name that the client sent; NULL: none, or several. */
ngx_table_elt_t *ngx_agent_headers_find(ngx_http_request_t *r,
    const char *name);

/* Does the client ask for a websocket? */
ngx_uint_t ngx_agent_headers_asks_websocket(ngx_http_request_t *r);


/* ngx_agent_fields.c */

/* NULL, or why the request's header is not HTTP (a constant). */
const char *ngx_agent_fields_check(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx);


/* ngx_agent_answer.c */

/* Has the heads of answers read here before the proxy reads them. */
void ngx_agent_answer_init(ngx_http_request_t *r, ngx_agent_ctx_t *ctx);
