/*
 * One attempt to ask one name server: over UDP, or TCP.
 */

#pragma once


#include "base/ngx_agent_base.h"
#include "parse/dns.h"
#include "parse/dns_reply.h"


typedef struct {
    ngx_sockaddr_t         sockaddr;
    socklen_t              socklen;
    ngx_str_t              name;            /* for logs */
} ngx_agent_name_server_t;


typedef struct ngx_agent_attempt_s  ngx_agent_attempt_t;

struct ngx_agent_attempt_s {
    ngx_connection_t      *connection;      /* NULL: closed */
    ngx_uint_t            *closed;          /* set when that is so */
    ngx_uint_t             is_tcp;
    dns_question_t         questions[2];
    ngx_uint_t             questions_count;
    u_char                *reply;           /* of TCP: length and message */
    size_t                 have;            /* of it */

    /*
     * Called for each message that arrives; p NULL: none can arrive, for this
     * reason.  May close the attempt, and free it.
     */
    void                 (*handler)(ngx_agent_attempt_t *attempt, u_char *p,
                                    size_t n, const char *why);
    void                  *data;
};


extern const char  ngx_agent_attempt_unreached[];   /* why */


/*
 * Sends attempt's questions (TCP takes one), over the same socket if it has
 * one already: NGX_OK, or NGX_ERROR when that is not possible; it is closed
 * then.
 */
ngx_int_t ngx_agent_attempt_send(ngx_agent_attempt_t *attempt,
    ngx_agent_name_server_t *server);

void ngx_agent_attempt_close(ngx_agent_attempt_t *attempt);
