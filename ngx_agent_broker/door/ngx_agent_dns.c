/*
 * The dns doors.  The answer is made at once, so no client waits; a name that
 * is not allowed gets NXDOMAIN and a line in the audit.  The launcher shares
 * the UDP socket and can change its mode, so every call uses MSG_DONTWAIT.
 */


#include "door/ngx_agent_door.h"
#include "parse/dns.h"


#define NGX_AGENT_DNS_BATCH    16           /* datagrams, then others' turn */
#define NGX_AGENT_DNS_FRUITLESS  1000       /* events without a datagram */
#define NGX_AGENT_DNS_MAX      4096         /* a query */
#define NGX_AGENT_DNS_TIMEOUT  10000        /* of an idle connection, ms */
#define NGX_AGENT_DNS_QUERIES  1000         /* on one connection */


typedef struct {
    u_char      data[NGX_AGENT_DNS_MAX + 2];
    size_t      len;
    ngx_uint_t  queries;
} ngx_agent_dns_t;


static size_t ngx_agent_dns_answer(ngx_agent_task_t *task,
    const char *door, u_char *query, size_t n, u_char *answer);
static ngx_int_t ngx_agent_dns_audit(ngx_agent_task_t *task,
    const char *door, dns_query_t *query, ngx_agent_reason_e reason);
static void ngx_agent_dns_fruitless(ngx_event_t *rev, ngx_err_t err,
    ngx_uint_t read);
static void ngx_agent_dns_read(ngx_event_t *rev);


/* Answers the datagrams of a door, from the address they were sent to. */

void
ngx_agent_dns_udp(ngx_event_t *rev)
{
    u_char              query[NGX_AGENT_DNS_MAX], answer[DNS_ANSWER_MAX];
    ssize_t             n;
    ngx_uint_t          i;
    struct iovec        iov;
    struct msghdr       msg;
    struct cmsghdr     *cmsg;
    ngx_sockaddr_t      sa;
    struct in_pktinfo  *info;
    ngx_connection_t   *lc;
    ngx_agent_door_t   *door;

    union {
        struct cmsghdr  align;
        u_char          space[CMSG_SPACE(sizeof(struct in6_pktinfo))
                              + CMSG_SPACE(sizeof(struct in_pktinfo))];
    } control;

    lc = rev->data;
    door = ngx_queue_data(lc->listening, ngx_agent_door_t, ls);

    if (rev->timedout) {
        rev->timedout = 0;

        if (ngx_add_event(rev, NGX_READ_EVENT, 0) == NGX_ERROR) {
            ngx_agent_task_close_door(door);
        }

        return;
    }

    if (ngx_agent_unread(rev)) {
        return;
    }

    for (i = 0; i < NGX_AGENT_DNS_BATCH; i++) {

        iov.iov_base = query;
        iov.iov_len = sizeof(query);

        ngx_memzero(&msg, sizeof(struct msghdr));
        msg.msg_name = &sa;
        msg.msg_namelen = sizeof(ngx_sockaddr_t);
        msg.msg_iov = &iov;
        msg.msg_iovlen = 1;
        msg.msg_control = &control;
        msg.msg_controllen = sizeof(control);

        n = recvmsg(lc->fd, &msg, MSG_DONTWAIT);

        if (n == -1) {
            ngx_agent_dns_fruitless(rev, ngx_socket_errno, i);
            break;                          /* level-triggered: called again */
        }

        door->fruitless = 0;

        if (msg.msg_flags & (MSG_TRUNC|MSG_CTRUNC)) {
            continue;
        }

        n = ngx_agent_dns_answer(door->task, "dns-udp", query, n, answer);

        if (n == 0) {
            continue;
        }

        /* the answer's source is the address that was asked */

        for (cmsg = CMSG_FIRSTHDR(&msg); cmsg; cmsg = CMSG_NXTHDR(&msg, cmsg))
        {
            if (cmsg->cmsg_level == IPPROTO_IPV6
                && cmsg->cmsg_type == IPV6_PKTINFO)
            {
                ((struct in6_pktinfo *) CMSG_DATA(cmsg))->ipi6_ifindex = 0;
            }

            if (cmsg->cmsg_level == IPPROTO_IP
                && cmsg->cmsg_type == IP_PKTINFO)
            {
                info = (struct in_pktinfo *) CMSG_DATA(cmsg);
                info->ipi_ifindex = 0;
                info->ipi_spec_dst = info->ipi_addr;
            }
        }

        iov.iov_base = answer;
        iov.iov_len = n;
        msg.msg_flags = 0;

        (void) sendmsg(lc->fd, &msg, MSG_DONTWAIT|MSG_NOSIGNAL);
    }
}


/*
 * A datagram that is gone when it is read is a bad checksum, or another
 * reader's, whose turn ends.  What goes on for ever is the launcher's doing:
 * a socket that was shut down, or errors that it has asked to be queued.
 */

static void
ngx_agent_dns_fruitless(ngx_event_t *rev, ngx_err_t err, ngx_uint_t read)
{
    ngx_connection_t  *lc;
    ngx_agent_door_t  *door;

    lc = rev->data;
    door = ngx_agent_door_of(lc->listening);

    if (read) {
        return;
    }

    if (rev->pending_eof || ++door->fruitless == NGX_AGENT_DNS_FRUITLESS) {
        ngx_agent_tampered(door, err);
    }
}


/* A connection to the TCP door: each query follows its length, RFC 7766. */

void
ngx_agent_dns_tcp(ngx_connection_t *c)
{
    ngx_event_t  *rev;

    rev = c->read;

    c->data = ngx_pcalloc(c->pool, sizeof(ngx_agent_dns_t));

    if (c->data == NULL) {
        ngx_http_close_connection(c);
        return;
    }

    c->log->connection = c->number;
    c->log->action = "answering a name of a box";

    c->write->handler = ngx_http_empty_handler;
    rev->handler = ngx_agent_dns_read;

    ngx_add_timer(rev, NGX_AGENT_DNS_TIMEOUT);
    ngx_reusable_connection(c, 1);

    if (ngx_handle_read_event(rev, 0) != NGX_OK) {
        ngx_http_close_connection(c);
    }
}


static void
ngx_agent_dns_read(ngx_event_t *rev)
{
    u_char                   answer[DNS_ANSWER_MAX + 2];
    size_t                   size, len;
    ssize_t                  n;
    ngx_agent_dns_t         *dns;
    ngx_connection_t        *c;
    ngx_agent_connection_t  *ac;

    c = rev->data;
    dns = c->data;
    ac = ngx_agent_task_connection(c);

    if (rev->timedout || c->close) {
        goto close;
    }

    for ( ;; ) {

        n = c->recv(c, dns->data + dns->len, sizeof(dns->data) - dns->len);

        if (n == NGX_AGAIN) {
            break;
        }

        if (n <= 0) {
            goto close;
        }

        dns->len += n;

        while (dns->len >= 2) {

            size = (dns->data[0] << 8) | dns->data[1];

            if (size > NGX_AGENT_DNS_MAX) {
                goto close;
            }

            if (dns->len < size + 2) {
                break;
            }

            len = ngx_agent_dns_answer(ac->task, "dns-tcp", dns->data + 2,
                                       size, answer + 2);

            if (len == 0 || ++dns->queries > NGX_AGENT_DNS_QUERIES) {
                goto close;
            }

            answer[0] = (u_char) (len >> 8);
            answer[1] = (u_char) len;

            /* a client that does not read its answers gets no more */

            if (c->send(c, answer, len + 2) != (ssize_t) len + 2) {
                goto close;
            }

            dns->len -= size + 2;
            ngx_memmove(dns->data, dns->data + size + 2, dns->len);
        }
    }

    ngx_add_timer(rev, NGX_AGENT_DNS_TIMEOUT);

    if (ngx_handle_read_event(rev, 0) == NGX_OK) {
        return;
    }

close:

    ngx_http_close_connection(c);
}


/* Makes the answer, and returns its length; 0: nothing is answered. */

static size_t
ngx_agent_dns_answer(ngx_agent_task_t *task, const char *door, u_char *p,
    size_t n, u_char *answer)
{
    u_char                  address[4];
    ngx_int_t               rc;
    dns_kind_t              kind;
    dns_query_t             query;
    ngx_agent_reason_e      reason;
    ngx_agent_main_conf_t  *amcf;

    kind = dns_parse(p, n, &query);

    ngx_log_debug4(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "agent: %s query for \"%s\", task %*s", door, query.text,
                   (size_t) PROTOCOL_ID_LEN, task->id);

    rc = ngx_agent_usage_spend(task->id, BOUND_NAMES);

    if (rc != NGX_OK) {

        /* past the bound the name is not judged: the answer is REFUSED */

        reason = NGX_AGENT_REASON_NAMES;
        query.rcode = DNS_RCODE_REFUSED;

    } else if (kind == DNS_GARBAGE || kind == DNS_MALFORMED) {
        reason = NGX_AGENT_REASON_MALFORMED;

    } else if (kind == DNS_REFUSED) {
        reason = NGX_AGENT_REASON_NOT_SERVED;

    } else {
        amcf = ngx_http_cycle_get_module_main_conf(ngx_cycle,
                                                   ngx_agent_broker_module);

        reason = query.name.host_len
                 ? ngx_agent_judge_name(task, ngx_cycle->log, &query.name)
                 : NGX_AGENT_REASON_HOST;

        /* a rule for any port of this host is enough */

        if ((reason == NGX_AGENT_REASON_RULE || reason == NGX_AGENT_REASON_PORT)
            && dns_address(amcf->secrets->lease_key,
                           sizeof(amcf->secrets->lease_key),
                           query.name.host, address)
               == 0)
        {
            return dns_answer(&query, address, answer);
        }

        reason = NGX_AGENT_REASON_HOST;
    }

    rc = ngx_agent_dns_audit(task, door, &query, reason);

    return kind == DNS_GARBAGE || rc == NGX_ABORT
           ? 0 : dns_answer(&query, NULL, answer);
}


/*
 * Records a refusal in the audit, and in the task's result: a program that
 * resolves a name before it connects makes no request that could be refused.
 * NGX_ABORT: it is not even answered.
 */

static ngx_int_t
ngx_agent_dns_audit(ngx_agent_task_t *task, const char *door,
    dns_query_t *query, ngx_agent_reason_e reason)
{
    ngx_int_t               rc;
    char                    text[NGX_AGENT_HINT_MAX];
    authority_t            *name;
    audit_line_t            line;
    ngx_agent_ctx_t         ctx;
    ngx_agent_policies_t   *set;
    ngx_agent_slot_view_t   view;

    rc = ngx_agent_refusals_spend(task);

    if (rc != NGX_OK || reason == NGX_AGENT_REASON_NAMES) {
        ngx_agent_counted(task->id, rc != NGX_OK
                                    ? NGX_AGENT_COUNTED_REFUSALS
                                    : NGX_AGENT_COUNTED_NAMES,
                          query->text, ngx_strlen(query->text));
        return rc;
    }

    ngx_memzero(&view, sizeof(ngx_agent_slot_view_t));
    (void) ngx_agent_slot_view(task->id, &view);

    ngx_agent_audit_begin(&line, "dns", task->id, task->policy,
                          view.policy_hash, task->uid);

    audit_line_word(&line, "verdict", "denied");
    audit_line_word(&line, "reason", ngx_agent_reason(reason)->word);
    audit_line_word(&line, "door", door);
    audit_line_word(&line, "host", query->text);
    audit_line_number(&line, "type", query->type);

    (void) ngx_agent_audit_write(&line, task->id);

    ngx_memzero(&ctx, sizeof(ngx_agent_ctx_t));

    ctx.reason = reason;

    name = &ctx.target.authority;

    if (query->name.host_len) {
        *name = query->name;
        name->port = 0;

    } else {
        (void) ngx_cpystrn((u_char *) name->host, (u_char *) query->text,
                           sizeof(name->host));
        name->host_len = (uint8_t) ngx_strlen(name->host);
    }

    set = ngx_agent_policies_get(ngx_cycle->log);

    if (set) {
        ctx.policy = policy_set_find(set->policies, (char *) view.policy);
    }

    ngx_agent_listed_refused(task->id, &ctx.target, reason, 1,
                           reason == NGX_AGENT_REASON_MALFORMED
                           ? "ask one question, with a plain host name"
                           : ngx_agent_refuse_hint(&ctx, text));

    if (set) {
        ngx_agent_policies_release(set);
    }

    return NGX_OK;
}
