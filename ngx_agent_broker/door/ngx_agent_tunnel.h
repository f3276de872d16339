/*
 * A tunnel: what ngx_agent_tunnel.c and ngx_agent_tunnel_flow.c share.
 */

#pragma once


#include "door/ngx_agent_door.h"


typedef struct {
    u_char             *start;
    u_char             *pos;                /* to be sent */
    u_char             *last;
    bound_id_t          bound;
    unsigned            ended:1;            /* its source sends no more */
    unsigned            closed:1;           /* its destination was shut down */
} ngx_agent_tunnel_way_t;


typedef struct {
    ngx_agent_connection_t  *ac;
    ngx_agent_ctx_t         *ctx;
    ngx_connection_t        *down;          /* to the box */
    ngx_peer_connection_t    peer;          /* to the upstream */
    ngx_agent_tunnel_way_t   way_up;
    ngx_agent_tunnel_way_t   way_down;
    unsigned                 decided:1;     /* there is an egress line */
    unsigned                 connected:1;
} ngx_agent_tunnel_t;


/* By the newest policies: the rule, or NULL when they refuse the tunnel. */
const policy_rule_t *ngx_agent_tunnel_flow_judge(ngx_agent_ctx_t *ctx);

/* Makes the buffers of both ways. */
ngx_int_t ngx_agent_tunnel_flow_init(ngx_agent_tunnel_t *t);

/* The handler of both sides' events after the upstream is connected. */
void ngx_agent_tunnel_flow_event(ngx_event_t *ev);

/* Ends the tunnel and frees t. */
void ngx_agent_tunnel_flow_end(ngx_agent_tunnel_t *t,
    ngx_agent_reason_e failure);
