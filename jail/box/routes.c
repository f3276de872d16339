/*
 * Every address is this box's own, so that a program that connects to
 * whatever address lands on the doors, and on "connection refused" where there
 * is none.  Without the routes such a connect fails as well, as unreachable:
 * they are for programs that know of no proxy, not a wall.
 *
 * For IPv4 this is "local default dev lo".  For IPv6 the same route would let
 * a box take the host's memory: for each address that it sends to the kernel
 * keeps a neighbour, which is charged to nobody, and on loopback gc_thresh3
 * does not apply (___neigh_create; IPv4 has one for all, __ipv4_neigh_lookup):
 * 400,000 of them, 200 MB, in three seconds.  A gateway, whose neighbour would
 * be the only one, is refused on loopback (ip6_validate_gw), and a device to
 * put it on costs a start more than all else here.
 *
 * So what is sent travels in a second packet to one address of the box, by two
 * routes of the kernel's segment routing (RFC 8986, H.Encaps and End.DT6):
 * the neighbour is that address, and the packet inside is looked up in a table
 * that only what has arrived there is looked up in:
 *
 *     local default encap seg6 mode encap segs 100::1 dev lo
 *     local 100::1  encap seg6local action End.DT6 table 1 dev lo
 *     local default dev lo table 1
 *
 * Nothing else of segment routing is switched on: with seg6_enabled at its
 * default, 0, such a header that a task makes itself is dropped.
 *
 * Set up by netlink, since a box has no `ip`, after the loopback interface is
 * up: a route on an interface that is down is refused.
 */

#include <errno.h>
#include <linux/ipv6.h>
#include <linux/lwtunnel.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/seg6_iptunnel.h>
#include <linux/seg6_local.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "box/report.h"


#define ROUTES_ARRIVED  1               /* the table of what has arrived */

/* of the prefix that is for discarding (RFC 6666): who sends there, waits */
#define ROUTES_INSIDE                                                         \
    { { { 0x01, 0x00, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x01 } } }


/* struct seg6_iptunnel_encap with one segment, as an attribute */

typedef struct {
    struct rtattr    head;
    int              mode;
    uint8_t          next;
    uint8_t          len;               /* in 8 bytes, without the first 8 */
    uint8_t          type;
    uint8_t          left;
    uint8_t          rest[4];
    struct in6_addr  segment;
} routes_encap_t;


typedef struct {
    struct rtattr    action_head;
    uint32_t         action;
    struct rtattr    table_head;
    uint32_t         table;
} routes_decap_t;


typedef struct {
    uint8_t          family;
    uint8_t          type;
    uint8_t          table;
    uint8_t          bits;              /* of `to` that count */
    struct in6_addr  to;
    uint16_t         tunnel;
    uint16_t         size;              /* of `how` */
    const void      *how;
} routes_route_t;


typedef struct {
    struct nlmsghdr  head;
    struct rtmsg     route;
    uint8_t          attributes[128];
} routes_request_t;


typedef struct {
    struct nlmsghdr  head;
    struct nlmsgerr  error;
    char             rest[512];         /* words of the kernel's, not read */
} routes_answer_t;


static int routes_add(int fd, const routes_route_t *route, unsigned n,
    int flags);
static void routes_request(routes_request_t *request,
    const routes_route_t *route);
static void routes_attribute(routes_request_t *request, unsigned short type,
    const void *data, size_t size);
static int routes_answer(int fd);


static const routes_encap_t  routes_encap = {
    .head = { sizeof(routes_encap_t), SEG6_IPTUNNEL_SRH },
    .mode = SEG6_IPTUN_MODE_ENCAP,
    .len = sizeof(struct in6_addr) / 8,
    .type = IPV6_SRCRT_TYPE_4,
    .segment = ROUTES_INSIDE
};


static const routes_decap_t  routes_decap = {
    .action_head = { RTA_LENGTH(sizeof(uint32_t)), SEG6_LOCAL_ACTION },
    .action = SEG6_LOCAL_ACTION_END_DT6,
    .table_head = { RTA_LENGTH(sizeof(uint32_t)), SEG6_LOCAL_TABLE },
    .table = ROUTES_ARRIVED
};


static const routes_route_t  routes_first[] = {

    { .family = AF_INET, .type = RTN_LOCAL, .table = RT_TABLE_LOCAL },

    { AF_INET6, RTN_LOCAL, RT_TABLE_MAIN, 128, ROUTES_INSIDE,
      LWTUNNEL_ENCAP_SEG6_LOCAL, sizeof(routes_decap), &routes_decap }
};


/*
 * Asked of a kernel that has taken those only.  It then has more tables than
 * one (IPV6_SEG6_LWTUNNEL selects IPV6_MULTIPLE_TABLES): in one without, what
 * is for the other table would be found for all that is sent.
 */

static const routes_route_t  routes_then[] = {

    { .family = AF_INET6, .type = RTN_LOCAL, .table = ROUTES_ARRIVED },

    /* link-local and multicast have no door: fe80::/10, ff00::/8 */
    { AF_INET6, RTN_UNREACHABLE, RT_TABLE_MAIN, 7, { { { 0xfe } } },
      LWTUNNEL_ENCAP_NONE, 0, NULL },

    { AF_INET6, RTN_LOCAL, RT_TABLE_MAIN, 0, IN6ADDR_ANY_INIT,
      LWTUNNEL_ENCAP_SEG6, sizeof(routes_encap), &routes_encap }
};

#define ROUTES_FIRST  (sizeof(routes_first) / sizeof(routes_first[0]))
#define ROUTES_THEN   (sizeof(routes_then) / sizeof(routes_then[0]))
#define ROUTES_MOST   ROUTES_THEN


/*
 * A kernel without IPv6, or without its segment routing, leaves a box with the
 * route of IPv4: an allowed name has an IPv4 address in a box, and an IPv6
 * literal can be asked of the proxy.
 */

int
routes_local(setup_t *s)
{
    int  fd;

    if (s->spec->ndoors == 0) {
        return 0;
    }

    fd = socket(AF_NETLINK, SOCK_RAW|SOCK_CLOEXEC, NETLINK_ROUTE);

    if (fd == -1) {
        return report_detail(s, "a netlink socket cannot be made");
    }

    if (routes_add(fd, routes_first, ROUTES_FIRST, NLM_F_ACK) != 0
        || routes_answer(fd) != 0)
    {
        return report_detail(s, "the addresses cannot be made local");
    }

    if (routes_answer(fd) == 0) {
        (void) routes_add(fd, routes_then, ROUTES_THEN, 0);
    }

    return close(fd);
}


/* All in one message, which is carried out before sendmsg returns. */

static int
routes_add(int fd, const routes_route_t *route, unsigned n, int flags)
{
    ssize_t             size;
    unsigned            i;
    struct iovec        iov[ROUTES_MOST];
    struct msghdr       message;
    routes_request_t    requests[ROUTES_MOST];
    struct sockaddr_nl  kernel;

    size = 0;

    for (i = 0; i < n; i++) {
        routes_request(&requests[i], &route[i]);
        requests[i].head.nlmsg_flags |= (uint16_t) flags;
        iov[i] = (struct iovec) { &requests[i], requests[i].head.nlmsg_len };
        size += (ssize_t) iov[i].iov_len;
    }

    kernel = (struct sockaddr_nl) { .nl_family = AF_NETLINK };

    message = (struct msghdr) {
        .msg_name = &kernel,
        .msg_namelen = sizeof(kernel),
        .msg_iov = iov,
        .msg_iovlen = n
    };

    return sendmsg(fd, &message, 0) == size ? 0 : -1;
}


static void
routes_request(routes_request_t *request, const routes_route_t *route)
{
    static const int  lo = 1;           /* the first of every namespace */

    *request = (routes_request_t) {
        .head = {
            .nlmsg_len = offsetof(routes_request_t, attributes),
            .nlmsg_type = RTM_NEWROUTE,
            .nlmsg_flags = NLM_F_REQUEST|NLM_F_CREATE|NLM_F_EXCL
        },
        .route = {
            .rtm_family = route->family,
            .rtm_dst_len = route->bits,
            .rtm_table = route->table,
            .rtm_protocol = RTPROT_BOOT,
            .rtm_scope = RT_SCOPE_HOST,
            .rtm_type = route->type
        }
    };

    routes_attribute(request, RTA_OIF, &lo, sizeof(lo));

    if (route->bits != 0) {
        routes_attribute(request, RTA_DST, &route->to, sizeof(route->to));
    }

    if (route->tunnel != LWTUNNEL_ENCAP_NONE) {
        routes_attribute(request, RTA_ENCAP_TYPE, &route->tunnel,
                         sizeof(route->tunnel));
        routes_attribute(request, RTA_ENCAP|NLA_F_NESTED, route->how,
                         route->size);
    }
}


/* Only for what is in the tables above: all of it fits. */

static void
routes_attribute(routes_request_t *request, unsigned short type,
    const void *data, size_t size)
{
    struct rtattr  *a;

    a = (struct rtattr *) ((uint8_t *) request + request->head.nlmsg_len);
    a->rta_type = type;
    a->rta_len = (unsigned short) RTA_LENGTH(size);
    (void) memcpy(RTA_DATA(a), data, size);

    request->head.nlmsg_len += (uint32_t) RTA_SPACE(size);
}


static int
routes_answer(int fd)
{
    ssize_t          n;
    routes_answer_t  answer;

    n = recv(fd, &answer, sizeof(answer), 0);

    if (n < (ssize_t) (sizeof(answer.head) + sizeof(answer.error))
        || answer.head.nlmsg_type != NLMSG_ERROR)
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
