/*
 * A box's doors.  The launcher opened the listening sockets inside the box's
 * net namespace and handed them over; this file checks them and makes them
 * listening sockets of nginx's own.
 */


#include "door/ngx_agent_door.h"


#ifndef IPV6_FREEBIND
#define IPV6_FREEBIND  78               /* Linux 4.15 */
#endif


static int ngx_agent_door_option(ngx_socket_t s, int name);
static ngx_int_t ngx_agent_door_open(ngx_agent_task_t *task,
    ngx_agent_door_t *door, ngx_agent_srv_conf_t *ascf,
    const ngx_agent_door_spec_t *spec, ngx_socket_t s);
static void ngx_agent_door_entrance(ngx_agent_entrance_t *entrance,
    ngx_agent_door_t *door, ngx_uint_t tls);


const char *
ngx_agent_door_check(ngx_socket_t s, const ngx_agent_door_spec_t *door,
    uint64_t broker_netns, uint64_t *netns)
{
    int             domain;
    uint64_t        cookie;
    socklen_t       len;
    ngx_uint_t      udp;
    ngx_sockaddr_t  sa;

    udp = (door->kind == NGX_AGENT_DOOR_DNS_UDP);

    /* it fails for all but sockets, and never blocks */

    domain = ngx_agent_door_option(s, SO_DOMAIN);

    if (domain == -1) {
        return "a descriptor is not a socket";
    }

    if (domain != AF_INET && domain != AF_INET6) {
        return "a socket is neither IPv4 nor IPv6";
    }

    if (ngx_agent_door_option(s, SO_TYPE) != (udp ? SOCK_DGRAM : SOCK_STREAM))
    {
        return udp ? "a socket is not a datagram socket"
                   : "a socket is not a stream socket";
    }

    /* MPTCP and SCTP sockets listen too */

    if (ngx_agent_door_option(s, SO_PROTOCOL)
        != (udp ? IPPROTO_UDP : IPPROTO_TCP))
    {
        return udp ? "a socket is not a UDP socket"
                   : "a socket is not a TCP socket";
    }

    if (!udp && ngx_agent_door_option(s, SO_ACCEPTCONN) != 1) {
        return "a socket is not listening";
    }

    len = sizeof(ngx_sockaddr_t);

    if (udp && getpeername(s, &sa.sockaddr, &len) == 0) {
        return "a datagram socket is connected";
    }

    cookie = ngx_agent_given_netns(s);

    if (cookie == 0 || cookie == broker_netns) {
        return "a socket is not in a net namespace of its own";
    }

    if (*netns == 0) {
        *netns = cookie;
    }

    if (*netns != cookie) {
        return "the sockets are in different net namespaces";
    }

    len = sizeof(ngx_sockaddr_t);

    if (getsockname(s, &sa.sockaddr, &len) == -1
        || ngx_inet_get_port(&sa.sockaddr) != door->port)
    {
        return "a socket is not bound to its door's port";
    }

    return NULL;
}


/* The value, or -1. */

static int
ngx_agent_door_option(ngx_socket_t s, int name)
{
    int        value;
    socklen_t  len;

    len = sizeof(int);

    return getsockopt(s, SOL_SOCKET, name, &value, &len) == 0 ? value : -1;
}


ngx_int_t
ngx_agent_door_open_all(ngx_agent_task_t *task, ngx_agent_srv_conf_t *ascf,
    const ngx_agent_door_spec_t *specs, ngx_socket_t *fds, ngx_uint_t n)
{
    ngx_uint_t  i;

    /*
     * An eighth of the connections is kept free, for the requests of running
     * tasks, and so that a launcher gets an error with the reason: without a
     * free connection core closes what it accepts and sends nothing.
     */

    if (ngx_cycle->free_connection_n >= n + ngx_cycle->connection_n / 8) {
        task->doors = ngx_pcalloc(task->pool, n * sizeof(ngx_agent_door_t));
    }

    for (i = 0; i < n; i++) {

        if (task->doors == NULL
            || ngx_agent_door_open(task, &task->doors[i], ascf, &specs[i],
                                   fds[i])
               != NGX_OK)
        {
            /* those that are not doors yet are closed here */

            for ( /* void */ ; i < n; i++) {
                ngx_agent_given_close(fds[i]);
            }

            ngx_agent_task_close_doors(task);

            return NGX_ERROR;
        }

        task->doors_count++;
    }

    return NGX_OK;
}


/*
 * Makes the door a listening socket of nginx's own: the port and address that
 * core looks up lead to the server with agent_control, which has no other
 * listener.
 */

static ngx_int_t
ngx_agent_door_open(ngx_agent_task_t *task, ngx_agent_door_t *door,
    ngx_agent_srv_conf_t *ascf, const ngx_agent_door_spec_t *spec,
    ngx_socket_t s)
{
    int                one;
    socklen_t          len;
    ngx_connection_t  *c;
    ngx_listening_t   *ls;

    one = 1;

    door->kind = spec->kind;
    door->port = spec->port;
    door->core = ascf->core;
    door->handler = spec->kind == NGX_AGENT_DOOR_DNS_TCP
                    ? ngx_agent_dns_tcp : ngx_agent_first_bytes;
    door->task = task;

    ls = &door->ls;

    len = sizeof(ngx_sockaddr_t);

    if (getsockname(s, &door->sockaddr.sockaddr, &len) == -1
        || ngx_nonblocking(s) == -1)
    {
        return NGX_ERROR;
    }

    ls->fd = s;
    ls->sockaddr = &door->sockaddr.sockaddr;
    ls->socklen = len;
    ls->type = SOCK_STREAM;
    ls->handler = ngx_agent_task_accepted;
    ls->pool_size = ascf->core->connection_pool_size;
    ls->addr_ntop = 1;
    ls->addr_text_max_len = NGX_SOCKADDR_STRLEN;
    ls->logp = ngx_cycle->log;
    ls->log = *ngx_cycle->log;
    ls->log.data = &ls->addr_text;
    ls->log.handler = ngx_accept_log_error;

    ls->addr_text.data = ngx_pnalloc(task->pool, NGX_SOCKADDR_STRLEN);
    if (ls->addr_text.data == NULL) {
        return NGX_ERROR;
    }

    ls->addr_text.len = ngx_sock_ntop(ls->sockaddr, len, ls->addr_text.data,
                                      NGX_SOCKADDR_STRLEN, 1);

    ngx_agent_door_entrance(&door->plain, door, 0);
    ngx_agent_door_entrance(&door->tls, door, 1);

    ls->servers = &door->plain.port;

    c = ngx_get_connection(s, ngx_cycle->log);
    if (c == NULL) {
        return NGX_ERROR;
    }

    c->type = SOCK_STREAM;
    c->log = &ls->log;
    c->listening = ls;
    c->read->log = c->log;
    c->read->accept = 1;
    c->read->handler = ngx_agent_accept;

    if (door->kind == NGX_AGENT_DOOR_DNS_UDP) {

        /*
         * An answer's source is the address that was asked.  A box's routes
         * make every address local; IPv6 needs IPV6_FREEBIND to send from an
         * address that no interface has.
         */

        if (ls->sockaddr->sa_family == AF_INET6) {
            (void) setsockopt(s, IPPROTO_IPV6, IPV6_RECVPKTINFO, &one,
                              sizeof(int));
            (void) setsockopt(s, IPPROTO_IPV6, IPV6_FREEBIND, &one,
                              sizeof(int));

        } else {
            (void) setsockopt(s, IPPROTO_IP, IP_PKTINFO, &one, sizeof(int));
        }

        c->type = SOCK_DGRAM;
        c->read->handler = ngx_agent_dns_udp;
    }

    ls->connection = c;
    door->connection = c;

    if (ngx_add_event(c->read, NGX_READ_EVENT, 0) == NGX_ERROR) {
        ngx_free_connection(c);
        c->fd = (ngx_socket_t) -1;
        door->connection = NULL;
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* Sets what core makes of `listen [::]:PORT [ssl http2]`. */

static void
ngx_agent_door_entrance(ngx_agent_entrance_t *entrance,
    ngx_agent_door_t *door, ngx_uint_t tls)
{
    ngx_http_addr_conf_t  *conf;

    conf = &entrance->addr.in.conf;

#if (NGX_HAVE_INET6)
    if (door->ls.sockaddr->sa_family == AF_INET6) {
        conf = &entrance->addr.in6.conf;
    }
#endif

    conf->default_server = door->core;
    conf->ssl = (tls != 0);
    conf->http2 = (tls != 0);

    entrance->port.naddrs = 1;
    entrance->port.addrs = &entrance->addr;
}
