/*
 * The listening sockets inside a box (doors), what they accept, TLS and DNS.
 */

#pragma once


#include "request/ngx_agent_request.h"
#include "door/mint.h"


/* ngx_agent_door.c */

/* Is this the socket of that door?  NULL, or why not (a constant). */
const char *ngx_agent_door_check(const ngx_agent_given_t *given,
    const ngx_agent_door_spec_t *door, uint64_t *netns);


/* Opens a task's doors.  Takes the descriptors over, also on NGX_ERROR. */
ngx_int_t ngx_agent_door_open_all(ngx_agent_task_t *task,
    ngx_agent_srv_conf_t *ascf, const ngx_agent_door_spec_t *specs,
    const ngx_agent_given_t *given, ngx_socket_t *fds, ngx_uint_t n);


/* The door of a listening socket; not for the copy in a connection. */

#define ngx_agent_door_of(listening)                                          \
    ngx_queue_data(listening, ngx_agent_door_t, ls)


/* ngx_agent_tampered.c */

/*
 * The launcher has made the door's socket useless, or one that is ready for
 * ever: closes it, and says so in the log and in the audit.
 */
void ngx_agent_tampered(ngx_agent_door_t *door, ngx_err_t err);


/* ngx_agent_accept.c */

/* The read handler of a door's listening socket. */
void ngx_agent_accept(ngx_event_t *rev);


/* ngx_agent_unread.c */

/*
 * Closes what waits at a door of a task that is past its refusals, and pauses
 * the door: 1.  0: there is nothing, or the task may be read.
 */
ngx_uint_t ngx_agent_unread(ngx_event_t *rev);


/* ngx_agent_first_bytes.c */

/* The handler of a new connection, until its first bytes are read. */
void ngx_agent_first_bytes(ngx_connection_t *c);

/*
 * Answers a connection that has waited for too long, by what it has sent, and
 * closes it.
 */
void ngx_agent_first_bytes_late(ngx_agent_connection_t *ac,
    ngx_agent_reason_e reason);


/* ngx_agent_tunnel.c */

/* Called when CONNECT was answered: passes the TLS after it through. */
void ngx_agent_tunnel(ngx_agent_connection_t *ac, ngx_agent_ctx_t *ctx);


/* ngx_agent_dns.c */

/* The handlers of a DNS door: of its datagrams, and of its connections. */
void ngx_agent_dns_udp(ngx_event_t *rev);
void ngx_agent_dns_tcp(ngx_connection_t *c);


/* ngx_agent_tls.c */

/*
 * The boxes' authority: from agent_state, where it is made if it is missing
 * and renewed if it ends soon, or from the files of agent_ca; and its
 * certificate as text.  NGX_ERROR is logged.
 */
ngx_int_t ngx_agent_ca_load(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf);

/*
 * In a worker, before a box is told of the authority or a leaf is signed:
 * renews that of agent_state, warns of the end of another.  NGX_DECLINED: its
 * end is past.  ca_cert may be another object afterwards.
 */
ngx_int_t ngx_agent_ca_ready(ngx_agent_main_conf_t *amcf, ngx_log_t *log);

ngx_int_t ngx_agent_tls_init(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf,
    ngx_agent_srv_conf_t *ascf);
