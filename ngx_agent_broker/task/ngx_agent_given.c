/*
 * Sockets that a launcher has given.  It keeps the same open file description,
 * and may have prepared it so that a call on it waits: no worker waits with it.
 */


#include "task/ngx_agent_task.h"

#include <signal.h>
#include <sys/syscall.h>


#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id  _sigev_un._tid
#endif

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE  71             /* Linux 5.14 */
#endif

#ifndef IPV6_FREEBIND
#define IPV6_FREEBIND  78               /* Linux 4.15 */
#endif

#define NGX_AGENT_INTERRUPT_NS  2000000


static int ngx_agent_given_option(ngx_socket_t s, int name);
static void ngx_agent_given_pktinfo(ngx_socket_t s, int family);



static timer_t    ngx_agent_interrupt_timer;
static ngx_pid_t  ngx_agent_interrupt_pid;


void
ngx_agent_given_interrupt(ngx_uint_t on)
{
    struct sigevent    event;
    struct itimerspec  when;

    if (ngx_agent_interrupt_pid != ngx_pid) {

        /* timers are not inherited by fork(2) */

        ngx_memzero(&event, sizeof(struct sigevent));
        event.sigev_notify = SIGEV_THREAD_ID;
        event.sigev_signo = SIGALRM;
        event.sigev_notify_thread_id = (pid_t) syscall(SYS_gettid);

        if (timer_create(CLOCK_MONOTONIC, &event, &ngx_agent_interrupt_timer)
            == -1)
        {
            return;
        }

        ngx_agent_interrupt_pid = ngx_pid;
    }

    ngx_memzero(&when, sizeof(struct itimerspec));

    if (on) {
        when.it_value.tv_nsec = NGX_AGENT_INTERRUPT_NS;
        when.it_interval.tv_nsec = NGX_AGENT_INTERRUPT_NS;
    }

    (void) timer_settime(ngx_agent_interrupt_timer, 0, &when, NULL);
}


/*
 * A socket that lingers makes its last close wait until what it has sent is
 * taken.  Which close is the last is the launcher's to say, and a Unix socket
 * may hold such a one among the messages that it has not read.
 */

void
ngx_agent_given_close(ngx_socket_t s)
{
    ngx_agent_given_interrupt(1);
    (void) ngx_close_socket(s);
    ngx_agent_given_interrupt(0);
}


uint64_t
ngx_agent_given_netns(ngx_socket_t s)
{
    uint64_t   cookie;
    socklen_t  len;

    cookie = 0;
    len = sizeof(cookie);

    if (getsockopt(s, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len) == -1) {
        return 0;
    }

    return cookie;
}


const char *
ngx_agent_given_judge(ngx_socket_t s, uint64_t broker_netns,
    ngx_agent_given_t *given)
{
    int             domain, protocol;
    socklen_t       len;
    ngx_uint_t      udp;
    ngx_sockaddr_t  sa;

    /* it fails for all but sockets, and never blocks */

    domain = ngx_agent_given_option(s, SO_DOMAIN);

    if (domain == -1) {
        return "a descriptor is not a socket";
    }

    if (domain != AF_INET && domain != AF_INET6) {
        return "a socket is neither IPv4 nor IPv6";
    }

    given->type = ngx_agent_given_option(s, SO_TYPE);
    udp = (given->type == SOCK_DGRAM);

    if (!udp && given->type != SOCK_STREAM) {
        return "a socket is neither a stream nor a datagram socket";
    }

    /* MPTCP and SCTP sockets listen too */

    protocol = ngx_agent_given_option(s, SO_PROTOCOL);

    if (protocol != (udp ? IPPROTO_UDP : IPPROTO_TCP)) {
        return udp ? "a socket is not a UDP socket"
                   : "a socket is not a TCP socket";
    }

    if (!udp && ngx_agent_given_option(s, SO_ACCEPTCONN) != 1) {
        return "a socket is not listening";
    }

    len = sizeof(ngx_sockaddr_t);

    if (udp && getpeername(s, &sa.sockaddr, &len) == 0) {
        return "a datagram socket is connected";
    }

    given->netns = ngx_agent_given_netns(s);

    if (given->netns == 0 || given->netns == broker_netns) {
        return "a socket is not in a net namespace of its own";
    }

    given->socklen = sizeof(ngx_sockaddr_t);

    if (getsockname(s, &given->sa.sockaddr, &given->socklen) == -1
        || ngx_inet_get_port(&given->sa.sockaddr) == 0)
    {
        return "a socket is not bound to a port";
    }

    if (ngx_nonblocking(s) == -1) {
        return "a socket cannot be made not to block";
    }

    if (udp) {
        ngx_agent_given_pktinfo(s, domain);
    }

    return NULL;
}


/* The value, or -1. */

static int
ngx_agent_given_option(ngx_socket_t s, int name)
{
    int        value;
    socklen_t  len;

    len = sizeof(int);

    return getsockopt(s, SOL_SOCKET, name, &value, &len) == 0 ? value : -1;
}


/*
 * An answer's source is the address that was asked.  A box's routes make every
 * address local; IPv6 needs IPV6_FREEBIND to send from an address that no
 * interface has.
 */

static void
ngx_agent_given_pktinfo(ngx_socket_t s, int family)
{
    int  one;

    one = 1;

    if (family == AF_INET6) {
        (void) setsockopt(s, IPPROTO_IPV6, IPV6_RECVPKTINFO, &one,
                          sizeof(int));
        (void) setsockopt(s, IPPROTO_IPV6, IPV6_FREEBIND, &one, sizeof(int));

    } else {
        (void) setsockopt(s, IPPROTO_IP, IP_PKTINFO, &one, sizeof(int));
    }
}
