/*
 * The addresses of names, as name servers have said: asked for once, whoever
 * waits, and kept for a while.  Of this worker.
 */

#pragma once


#include "audit/ngx_agent_audit.h"
#include "request/ngx_agent_ask.h"


/*
 * The name of ctx's target, at ctx's resolver: NGX_OK, its addresses are in
 * ctx; NGX_AGAIN, it is being asked for; NGX_DECLINED.
 */
ngx_int_t ngx_agent_names_find(ngx_agent_ctx_t *ctx);

/*
 * Asks for it, unless that is so already: NGX_AGAIN, ctx->resolved() is called
 * when ctx has the addresses, or why there are none; NGX_DECLINED, and
 * ctx->why says why.
 */
ngx_int_t ngx_agent_names_ask(ngx_agent_ctx_t *ctx);

/* ctx does not wait any more; without anybody the question ends. */
void ngx_agent_names_leave(ngx_agent_ctx_t *ctx);
