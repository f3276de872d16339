/*
 * Every IPv4 address is this box's own: "local default dev lo", so that a
 * program that connects to whatever address lands on the doors, and on
 * "connection refused" where there is none.  Without the route such a connect
 * fails as well, as unreachable: it is for programs that know of no proxy,
 * not a wall.
 *
 * There is no such route for IPv6.  The kernel would keep a neighbour for
 * each address that a box sends to, charged to nobody and bounded by nothing
 * (on loopback gc_thresh3 does not apply; IPv4 has one for all): 400,000 of
 * them, 200 MB, in three seconds.  Nothing needs it: an allowed name has an
 * IPv4 address in a box, and an IPv6 literal is asked of the proxy.
 *
 * Set up by netlink, since a box has no `ip`, after the loopback interface is
 * up: a route on an interface that is down is refused.
 */

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "setup.h"


typedef struct {
    struct nlmsghdr  head;
    struct rtmsg     route;
    struct rtattr    oif;
    int              index;
} routes_request_t;


typedef struct {
    struct nlmsghdr  head;
    struct nlmsgerr  error;
    char             rest[512];         /* words of the kernel's, not read */
} routes_answer_t;


static int routes_add(int fd);


int
routes_local(setup_t *s)
{
    int  fd;

    if (s->spec->ndoors == 0) {
        return 0;
    }

    fd = socket(AF_NETLINK, SOCK_RAW|SOCK_CLOEXEC, NETLINK_ROUTE);

    if (fd == -1) {
        return setup_detail(s, "a netlink socket cannot be made");
    }

    if (routes_add(fd) != 0) {
        return setup_detail(s, "the addresses cannot be made local");
    }

    return close(fd);
}


static int
routes_add(int fd)
{
    ssize_t             n;
    routes_answer_t     answer;
    routes_request_t    request;
    struct sockaddr_nl  kernel;

    request = (routes_request_t) {
        .head = {
            .nlmsg_len = sizeof(request),
            .nlmsg_type = RTM_NEWROUTE,
            .nlmsg_flags = NLM_F_REQUEST|NLM_F_ACK|NLM_F_CREATE|NLM_F_EXCL,
            .nlmsg_seq = 1
        },
        .route = {
            .rtm_family = AF_INET,
            .rtm_table = RT_TABLE_LOCAL,
            .rtm_protocol = RTPROT_BOOT,
            .rtm_scope = RT_SCOPE_HOST,
            .rtm_type = RTN_LOCAL
        },
        .oif = { RTA_LENGTH(sizeof(int)), RTA_OIF },
        .index = (int) if_nametoindex("lo")
    };

    kernel = (struct sockaddr_nl) { .nl_family = AF_NETLINK };

    n = sendto(fd, &request, sizeof(request), 0, (struct sockaddr *) &kernel,
               sizeof(kernel));

    if (n != (ssize_t) sizeof(request)) {
        return -1;
    }

    n = recv(fd, &answer, sizeof(answer), 0);

    if (n < (ssize_t) (sizeof(answer.head) + sizeof(answer.error))
        || answer.head.nlmsg_type != NLMSG_ERROR
        || answer.head.nlmsg_seq != request.head.nlmsg_seq)
    {
        errno = n == -1 ? errno : EPROTO;
        return -1;
    }

    if (answer.error.error != 0) {
        errno = -answer.error.error;
        return -1;
    }

    return 0;
}
