/*
 * Asks the name servers for the addresses of one name.
 */

#pragma once


#include "base/ngx_agent_base.h"
#include "parse/dns.h"
#include "parse/dns_reply.h"


#define NGX_AGENT_ASK_ADDRESSES  (2 * DNS_ADDRESSES_MAX)


typedef struct ngx_agent_ask_s  ngx_agent_ask_t;


/* What came of it: no addresses, and then why (a constant). */

typedef struct {
    ngx_uint_t   count;
    address_t    addresses[NGX_AGENT_ASK_ADDRESSES];  /* IPv4 first */
    uint32_t     ttl;                       /* s */
    const char  *why;
} ngx_agent_answer_t;


/*
 * Asks all that the resolver knows, of name (which need not stay), for at most
 * the time, in ms.  Calls done() once, and not from within; the answer is gone
 * then.  NULL: nobody can be asked, or no memory.
 */
ngx_agent_ask_t *ngx_agent_ask(ngx_resolver_t *resolver, ngx_str_t *name,
    ngx_msec_t time, void (*done)(ngx_agent_answer_t *answer, void *data),
    void *data);

/* done() is not called any more. */
void ngx_agent_ask_cancel(ngx_agent_ask_t *ask);
