/*
 * A box's doors.  The launcher opened the listening sockets inside the box's
 * net namespace and handed them over; this file checks them and makes them
 * listening sockets of nginx's own.
 */


#include "door/ngx_agent_door.h"



static ngx_int_t ngx_agent_door_open(ngx_agent_task_t *task,
    ngx_agent_door_t *door, ngx_agent_srv_conf_t *ascf,
    const ngx_agent_door_spec_t *spec, const ngx_agent_given_t *given,
    ngx_socket_t s);
static void ngx_agent_door_entrance(ngx_agent_entrance_t *entrance,
    ngx_agent_door_t *door, ngx_uint_t tls);


const char *
ngx_agent_door_check(const ngx_agent_given_t *given,
    const ngx_agent_door_spec_t *door, uint64_t *netns)
{
    if ((given->type == SOCK_DGRAM) != (door->kind == NGX_AGENT_DOOR_DNS_UDP)) {
        return given->type == SOCK_DGRAM ? "a socket is not a stream socket"
                                         : "a socket is not a datagram socket";
    }

    if (*netns == 0) {
        *netns = given->netns;
    }

    if (*netns != given->netns) {
        return "the sockets are in different net namespaces";
    }

    if (ngx_inet_get_port((struct sockaddr *) &given->sa.sockaddr)
        != door->port)
    {
        return "a socket is not bound to its door's port";
    }

    return NULL;
}


ngx_int_t
ngx_agent_door_open_all(ngx_agent_task_t *task, ngx_agent_srv_conf_t *ascf,
    const ngx_agent_door_spec_t *specs, const ngx_agent_given_t *given,
    ngx_socket_t *fds, ngx_uint_t n)
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
                                   &given[i], fds[i])
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
    const ngx_agent_given_t *given, ngx_socket_t s)
{
    ngx_connection_t  *c;
    ngx_listening_t   *ls;

    door->kind = spec->kind;
    door->port = spec->port;
    door->core = ascf->core;
    door->handler = spec->kind == NGX_AGENT_DOOR_DNS_TCP
                    ? ngx_agent_dns_tcp : ngx_agent_first_bytes;
    door->task = task;

    ls = &door->ls;

    door->sockaddr = given->sa;

    ls->fd = s;
    ls->sockaddr = &door->sockaddr.sockaddr;
    ls->socklen = given->socklen;
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

    ls->addr_text.len = ngx_sock_ntop(ls->sockaddr, ls->socklen,
                                      ls->addr_text.data,
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
