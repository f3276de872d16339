/*
 * The sockets through which the box reaches the broker.  They are made here,
 * inside the box's net namespace, because a socket belongs for ever to the
 * namespace that made it: the worker that gets it accepts in the box, and
 * which task a connection is of follows from the listener and cannot be
 * forged.  The capabilities in the user namespace, which the task will not
 * have, allow ports below 1024.
 */

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "box/report.h"


#define DOORS_BACKLOG  511


static int doors_socket(setup_t *s, const box_door_t *door);


int
doors_loopback(setup_t *s)
{
    int           fd;
    struct ifreq  ifr;

    fd = socket(AF_INET, SOCK_DGRAM|SOCK_CLOEXEC, 0);

    if (fd == -1) {
        return report_detail(s, "socket");
    }

    ifr = (struct ifreq) { 0 };
    (void) strcpy(ifr.ifr_name, "lo");
    ifr.ifr_flags = IFF_UP|IFF_RUNNING;

    if (ioctl(fd, SIOCSIFFLAGS, &ifr) != 0) {
        return report_detail(s, "the loopback interface cannot be set up");
    }

    return close(fd);
}


int
doors_open(setup_t *s)
{
    int       fds[PROTOCOL_DOORS_MAX];
    unsigned  i;

    if (s->spec->ndoors == 0) {
        return 0;
    }

    for (i = 0; i < s->spec->ndoors; i++) {
        fds[i] = doors_socket(s, &s->spec->doors[i]);

        if (fds[i] == -1) {
            return -1;
        }
    }

    if (report_send(s, REPORT_DOORS, STAGE_DOORS, 0, fds, i) != 0) {
        return report_detail(s, "the sockets cannot be handed over");
    }

    while (i > 0) {
        (void) close(fds[--i]);
    }

    return 0;
}


/*
 * One socket for both families; in a kernel without IPv6, for IPv4, which is
 * then all that a program of the box can try.
 */

static int
doors_socket(setup_t *s, const box_door_t *door)
{
    int                  fd, type, off;
    socklen_t            len;
    struct sockaddr     *sa;
    struct sockaddr_in   sin;
    struct sockaddr_in6  sin6;

    type = (door->udp ? SOCK_DGRAM : SOCK_STREAM)|SOCK_CLOEXEC|SOCK_NONBLOCK;

    sin = (struct sockaddr_in) {
        .sin_family = AF_INET,
        .sin_port = htons(door->port),
        .sin_addr = { htonl(INADDR_ANY) }
    };

    sin6 = (struct sockaddr_in6) {
        .sin6_family = AF_INET6,
        .sin6_port = htons(door->port),
        .sin6_addr = IN6ADDR_ANY_INIT
    };

    fd = socket(AF_INET6, type, 0);
    sa = (struct sockaddr *) &sin6;
    len = sizeof(sin6);
    off = 0;

    if (fd != -1
        && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) != 0)
    {
        return report_detail(s, "no socket for both IPv4 and IPv6 can be made");
    }

    if (fd == -1 && errno == EAFNOSUPPORT) {
        fd = socket(AF_INET, type, 0);
        sa = (struct sockaddr *) &sin;
        len = sizeof(sin);
    }

    if (fd == -1
        || bind(fd, sa, len) != 0
        || (!door->udp && listen(fd, DOORS_BACKLOG) != 0))
    {
        return report_detail(s, "port %u %s cannot be listened on",
                             (unsigned) door->port,
                             door->udp ? "udp" : "tcp");
    }

    return fd;
}
