/*
 * One name is asked for at one name server after the other, since a box must
 * have its answer long before its own time is over:
 *
 *   - one that fails, refuses or sends nonsense is not asked again, and the
 *     next one is asked at once;
 *   - one that is silent for a second is asked again after the others, and an
 *     answer that comes late is as good;
 *   - an answer that is cut is fetched over TCP, once from each server: that
 *     may take longer than a second, and more cut answers may come meanwhile;
 *   - when the time is over, the name has failed.
 *
 * IPv4 and IPv6 addresses are two questions; when one has addresses, the other
 * is waited for no longer than a second.
 *
 * nginx's own resolver waits 30 seconds, takes the first server's failure for
 * the answer, and believes any time to live.
 */


#include "request/ngx_agent_ask.h"
#include "request/ngx_agent_attempt.h"


#define NGX_AGENT_ASK_SERVERS   8           /* of a resolver */
#define NGX_AGENT_ASK_SILENCE   1000        /* ms */
#define NGX_AGENT_ASK_ALIASES   16          /* asked for one by one */


typedef struct {
    uint16_t                 type;
    ngx_uint_t               is_done;
    ngx_uint_t               failed;        /* servers, one bit each */
    ngx_uint_t               aliases;
    uint32_t                 ttl;           /* of those */
    dns_question_t           sent;
    dns_reply_t              reply;
} ngx_agent_ask_question_t;


typedef struct {
    ngx_agent_attempt_t      attempt;
    ngx_agent_ask_t         *ask;
    ngx_uint_t               server;
} ngx_agent_ask_attempt_t;


struct ngx_agent_ask_s {
    ngx_agent_name_server_t  servers[NGX_AGENT_ASK_SERVERS];
    ngx_uint_t               servers_count;
    ngx_uint_t               server;        /* asked last */

    ngx_agent_ask_question_t  questions[2];
    ngx_uint_t               questions_count;

    /* over UDP, one a server; over TCP, one a question of each */

    ngx_agent_ask_attempt_t  udp[NGX_AGENT_ASK_SERVERS];
    ngx_agent_ask_attempt_t  tcp[NGX_AGENT_ASK_SERVERS][2];

    ngx_event_t              silence;
    ngx_event_t              deadline;
    ngx_event_t              finished;
    ngx_uint_t               starting;

    const char              *why;
    uint32_t                 ttl;           /* of `resolver`, or 0 */
    void                   (*done)(ngx_agent_answer_t *answer, void *data);
    void                    *data;
};


static void ngx_agent_ask_servers(ngx_agent_ask_t *ask,
    ngx_resolver_t *resolver);
static ngx_int_t ngx_agent_ask_write(ngx_agent_ask_question_t *q,
    const dns_name_t *name);
static void ngx_agent_ask_next(ngx_agent_ask_t *ask);
static ngx_int_t ngx_agent_ask_attempt(ngx_agent_ask_t *ask,
    ngx_agent_ask_question_t *only, ngx_uint_t is_tcp);
static void ngx_agent_ask_event(ngx_agent_attempt_t *attempt, u_char *p,
    size_t n, const char *why);
static void ngx_agent_ask_reply(ngx_agent_ask_attempt_t *place, u_char *p,
    size_t n);
static void ngx_agent_ask_alias(ngx_agent_ask_t *ask,
    ngx_agent_ask_question_t *q);
static void ngx_agent_ask_failed(ngx_agent_ask_t *ask, ngx_uint_t server,
    const ngx_agent_ask_question_t *only, const char *why);
static void ngx_agent_ask_check(ngx_agent_ask_t *ask);
static ngx_uint_t ngx_agent_ask_found(ngx_agent_ask_t *ask);
static void ngx_agent_ask_silence(ngx_event_t *ev);
static void ngx_agent_ask_deadline(ngx_event_t *ev);
static void ngx_agent_ask_finish(ngx_agent_ask_t *ask);
static void ngx_agent_ask_finished(ngx_event_t *ev);
static void ngx_agent_ask_stop(ngx_agent_ask_t *ask);


/* The place of the server that has answered last: it is asked first. */

static ngx_uint_t  ngx_agent_ask_first;


ngx_agent_ask_t *
ngx_agent_ask(ngx_resolver_t *resolver, ngx_str_t *name, ngx_msec_t time,
    void (*done)(ngx_agent_answer_t *answer, void *data), void *data)
{
    dns_name_t        wire;
    ngx_uint_t        i;
    ngx_agent_ask_t  *ask;

    if (dns_name_set(&wire, (char *) name->data, name->len) != 0) {
        return NULL;
    }

    ask = ngx_calloc(sizeof(ngx_agent_ask_t), ngx_cycle->log);
    if (ask == NULL) {
        return NULL;
    }

    ngx_agent_ask_servers(ask, resolver);

    for (i = 0; i < ask->questions_count; i++) {

        ask->questions[i].ttl = NGX_MAX_UINT32_VALUE;

        if (ngx_agent_ask_write(&ask->questions[i], &wire) != NGX_OK) {
            ngx_free(ask);
            return NULL;
        }
    }

    if (ask->servers_count == 0 || ask->questions_count == 0) {
        ngx_free(ask);
        return NULL;
    }

    ask->done = done;
    ask->data = data;
    ask->ttl = (uint32_t) ngx_min(resolver->valid, NGX_MAX_INT32_VALUE);

    ask->silence.handler = ngx_agent_ask_silence;
    ask->deadline.handler = ngx_agent_ask_deadline;
    ask->finished.handler = ngx_agent_ask_finished;

    ask->silence.data = ask;
    ask->deadline.data = ask;
    ask->finished.data = ask;

    ask->silence.log = ngx_cycle->log;
    ask->deadline.log = ngx_cycle->log;
    ask->finished.log = ngx_cycle->log;

    ngx_add_timer(&ask->deadline, time);

    ask->starting = 1;
    ask->server = (ngx_agent_ask_first + ask->servers_count - 1)
                  % ask->servers_count;

    ngx_agent_ask_next(ask);

    ask->starting = 0;

    return ask;
}


void
ngx_agent_ask_cancel(ngx_agent_ask_t *ask)
{
    ngx_agent_ask_stop(ask);

    if (ask->finished.posted) {
        ngx_delete_posted_event(&ask->finished);
    }

    ngx_free(ask);
}


/* Copies of what the configuration says: a question may outlive it. */

static void
ngx_agent_ask_servers(ngx_agent_ask_t *ask, ngx_resolver_t *resolver)
{
    ngx_uint_t                  i;
    ngx_agent_name_server_t    *server;
    ngx_resolver_connection_t  *known;

    known = resolver->connections.elts;

    for (i = 0; i < resolver->connections.nelts; i++) {

        if (i == NGX_AGENT_ASK_SERVERS) {
            break;
        }

        server = &ask->servers[ask->servers_count++];

        server->socklen = known[i].socklen;
        server->name = known[i].server;
        ngx_memcpy(&server->sockaddr, known[i].sockaddr, server->socklen);
    }

#if (nginx_version >= 1023001)
    if (resolver->ipv4)
#endif
    {
        ask->questions[ask->questions_count++].type = DNS_TYPE_A;
    }

#if (NGX_HAVE_INET6)
    if (resolver->ipv6) {
        ask->questions[ask->questions_count++].type = DNS_TYPE_AAAA;
    }
#endif
}


/* A new question: its number must not be guessed. */

static ngx_int_t
ngx_agent_ask_write(ngx_agent_ask_question_t *q, const dns_name_t *name)
{
    uint16_t  id;

    if (ngx_agent_random((u_char *) &id, sizeof(id)) != NGX_OK) {
        return NGX_ERROR;
    }

    dns_question_write(&q->sent, id, name, q->type);

    return NGX_OK;
}


/* Asks the next server that has not failed what is still not known. */

static void
ngx_agent_ask_next(ngx_agent_ask_t *ask)
{
    ngx_uint_t  n;

    for (n = 0; n < ask->servers_count; n++) {

        ask->server = (ask->server + 1) % ask->servers_count;

        switch (ngx_agent_ask_attempt(ask, NULL, 0)) {

        case NGX_OK:
            return;

        case NGX_ERROR:
            ngx_agent_ask_failed(ask, ask->server, NULL,
                                 ngx_agent_attempt_unreached);
            break;

        default: /* NGX_DECLINED */
            break;
        }
    }

    ngx_agent_ask_finish(ask);
}


/*
 * Asks the current server: NGX_DECLINED, there is no question that it has not
 * failed to answer.
 */

static ngx_int_t
ngx_agent_ask_attempt(ngx_agent_ask_t *ask, ngx_agent_ask_question_t *only,
    ngx_uint_t is_tcp)
{
    ngx_uint_t                 i;
    ngx_agent_attempt_t       *attempt;
    ngx_agent_ask_attempt_t   *place;
    ngx_agent_ask_question_t  *q;

    place = is_tcp ? &ask->tcp[ask->server][only - ask->questions]
                   : &ask->udp[ask->server];
    attempt = &place->attempt;

    if (is_tcp) {

        if (attempt->connection
            && ngx_memcmp(attempt->questions[0].bytes, only->sent.bytes, 2)
               == 0)
        {
            return NGX_OK;                  /* its answer is on the way */
        }

        ngx_agent_attempt_close(attempt);
    }

    attempt->questions_count = 0;

    for (i = 0; i < ask->questions_count; i++) {

        q = &ask->questions[i];

        if (!q->is_done && !(q->failed & (1u << ask->server))
            && (only == NULL || only == q))
        {
            attempt->questions[attempt->questions_count++] = q->sent;
        }
    }

    if (attempt->questions_count == 0) {
        return NGX_DECLINED;
    }

    place->ask = ask;
    place->server = ask->server;

    attempt->is_tcp = is_tcp;
    attempt->handler = ngx_agent_ask_event;
    attempt->data = place;

    if (ngx_agent_attempt_send(attempt, &ask->servers[ask->server]) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ask->silence.timer_set) {
        ngx_del_timer(&ask->silence);
    }

    ngx_add_timer(&ask->silence, NGX_AGENT_ASK_SILENCE);

    return NGX_OK;
}


static void
ngx_agent_ask_event(ngx_agent_attempt_t *attempt, u_char *p, size_t n,
    const char *why)
{
    ngx_uint_t                 i;
    ngx_agent_ask_t           *ask;
    ngx_agent_ask_attempt_t   *place;
    ngx_agent_ask_question_t  *q;

    place = attempt->data;
    ask = place->ask;

    if (p) {
        ngx_agent_ask_reply(place, p, n);
        return;
    }

    for (i = 0; i < ask->questions_count; i++) {

        q = &ask->questions[i];

        if (!attempt->is_tcp
            || ngx_memcmp(q->sent.bytes, attempt->questions[0].bytes, 2) == 0)
        {
            ngx_agent_ask_failed(ask, place->server, q, why);
        }
    }

    ngx_agent_ask_check(ask);
}


static void
ngx_agent_ask_reply(ngx_agent_ask_attempt_t *place, u_char *p, size_t n)
{
    dns_reply_t                reply;
    ngx_uint_t                 i;
    const char                *why;
    ngx_agent_ask_t           *ask;
    dns_reply_kind_t           kind;
    ngx_agent_ask_question_t  *q;

    ask = place->ask;
    kind = DNS_OTHER;
    q = NULL;

    for (i = 0; i < ask->questions_count && kind == DNS_OTHER; i++) {

        q = &ask->questions[i];

        if (!q->is_done) {
            kind = dns_reply_parse(p, n, &q->sent, &reply);
        }
    }

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "agent: name server %V answers, kind %ui",
                   &ask->servers[place->server].name, (ngx_uint_t) kind);

    switch (kind) {

    case DNS_OTHER:
        return;

    case DNS_FOUND:
        q->is_done = 1;
        q->reply = reply;
        q->reply.ttl = ngx_min(reply.ttl, q->ttl);
        ngx_agent_ask_first = place->server;
        ngx_agent_ask_check(ask);
        return;

    case DNS_ALIAS:
        q->reply.alias = reply.alias;
        q->ttl = ngx_min(reply.ttl, q->ttl);
        ask->server = place->server;
        ngx_agent_ask_alias(ask, q);
        return;

    case DNS_NO_NAME:
        ask->why = "no such name";
        ngx_agent_ask_first = place->server;
        ngx_agent_ask_finish(ask);
        return;

    case DNS_CUT:

        if (place->attempt.is_tcp) {
            why = "the name server's answer is malformed";
            break;
        }

        ask->server = place->server;

        if (ngx_agent_ask_attempt(ask, q, 1) == NGX_OK) {
            return;
        }

        why = ngx_agent_attempt_unreached;
        break;

    case DNS_SERVER_REFUSED:
        why = "the name server refused";
        break;

    case DNS_SERVER_FAILED:
        why = "the name server failed";
        break;

    default: /* DNS_BAD */
        why = "the name server's answer is malformed";
        break;
    }

    ngx_agent_ask_failed(ask, place->server, q, why);
    ngx_agent_ask_check(ask);
}


/* The servers that have failed may know the other name. */

static void
ngx_agent_ask_alias(ngx_agent_ask_t *ask, ngx_agent_ask_question_t *q)
{
    q->failed = 0;

    if (++q->aliases > NGX_AGENT_ASK_ALIASES
        || ngx_agent_ask_write(q, &q->reply.alias) != NGX_OK)
    {
        ask->why = "the name is an alias of an alias, and so on";
        q->is_done = 1;

    } else if (ngx_agent_ask_attempt(ask, q, 0) != NGX_OK) {
        ngx_agent_ask_failed(ask, ask->server, q, ngx_agent_attempt_unreached);
    }

    ngx_agent_ask_check(ask);
}


/* This server is not asked again: for one of the questions, or for any. */

static void
ngx_agent_ask_failed(ngx_agent_ask_t *ask, ngx_uint_t server,
    const ngx_agent_ask_question_t *only, const char *why)
{
    ngx_uint_t                 i;
    ngx_agent_ask_question_t  *q;

    for (i = 0; i < ask->questions_count; i++) {

        q = &ask->questions[i];

        if (q->is_done || (only && only != q)) {
            continue;
        }

        ask->why = why;
        q->failed |= 1u << server;
        q->is_done = (q->failed == (1u << ask->servers_count) - 1);
    }
}


/* Is all known, or all that can be?  Or is another server to be asked? */

static void
ngx_agent_ask_check(ngx_agent_ask_t *ask)
{
    ngx_uint_t                 i, left, stuck;
    ngx_agent_ask_question_t  *q;

    left = 0;
    stuck = 0;

    for (i = 0; i < ask->questions_count; i++) {

        q = &ask->questions[i];

        if (!q->is_done) {
            left++;
            stuck |= q->failed & (1u << ask->server);
        }
    }

    if (left == 0 || (stuck && ngx_agent_ask_found(ask))) {
        ngx_agent_ask_finish(ask);

    } else if (stuck) {
        ngx_agent_ask_next(ask);
    }
}


/* How many addresses are known. */

static ngx_uint_t
ngx_agent_ask_found(ngx_agent_ask_t *ask)
{
    return ask->questions[0].reply.count + ask->questions[1].reply.count;
}


static void
ngx_agent_ask_silence(ngx_event_t *ev)
{
    ngx_agent_ask_t *ask = ev->data;

    if (ngx_agent_ask_found(ask)) {
        ngx_agent_ask_finish(ask);

    } else {
        ngx_agent_ask_next(ask);
    }
}


static void
ngx_agent_ask_deadline(ngx_event_t *ev)
{
    ngx_agent_ask_t *ask = ev->data;

    ask->why = "timed out: no name server has answered";

    ngx_agent_ask_finish(ask);
}


/* The last thing that is done with it.  Who asks is not told while it asks. */

static void
ngx_agent_ask_finish(ngx_agent_ask_t *ask)
{
    ngx_agent_ask_stop(ask);

    if (ask->starting) {
        ngx_post_event(&ask->finished, &ngx_posted_events);

    } else {
        ngx_agent_ask_finished(&ask->finished);
    }
}


static void
ngx_agent_ask_finished(ngx_event_t *ev)
{
    void                      *data;
    size_t                     k;
    ngx_uint_t                 i;
    ngx_agent_ask_t           *ask;
    ngx_agent_answer_t         answer;
    ngx_agent_ask_question_t  *q;
    void                     (*done)(ngx_agent_answer_t *answer, void *data);

    ask = ev->data;
    done = ask->done;
    data = ask->data;

    answer.count = 0;
    answer.ttl = NGX_MAX_UINT32_VALUE;

    for (i = 0; i < ask->questions_count; i++) {

        q = &ask->questions[i];

        for (k = 0; k < q->reply.count; k++) {
            answer.addresses[answer.count++] = q->reply.addresses[k];
            answer.ttl = ngx_min(answer.ttl, q->reply.ttl);
        }
    }

    if (ask->ttl) {
        answer.ttl = ask->ttl;
    }

    answer.why = NULL;

    if (answer.count == 0) {
        answer.why = ask->why ? ask->why : "the name has no address";
    }

    ngx_free(ask);

    done(&answer, data);
}


static void
ngx_agent_ask_stop(ngx_agent_ask_t *ask)
{
    ngx_uint_t  i, k;

    for (i = 0; i < ask->servers_count; i++) {
        ngx_agent_attempt_close(&ask->udp[i].attempt);

        for (k = 0; k < ask->questions_count; k++) {
            ngx_agent_attempt_close(&ask->tcp[i][k].attempt);
        }
    }

    if (ask->silence.timer_set) {
        ngx_del_timer(&ask->silence);
    }

    if (ask->deadline.timer_set) {
        ngx_del_timer(&ask->deadline);
    }
}
