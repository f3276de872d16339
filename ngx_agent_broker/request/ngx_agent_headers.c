/*
 * The header of a request as it goes up, and of an answer as it comes down.
 *
 * The request's is written anew: request line and Host from what was judged,
 * the client's own credentials and routing headers dropped, the credential of
 * the rule added.  The credential exists only in that buffer, which is then
 * wiped with the request; it is never a variable, a header of r->headers_in,
 * or a line of a log.
 */


#include "request/ngx_agent_request.h"


#define NGX_AGENT_NAMES     64              /* a power of two */


/* A list of names, those that may be one by length and letters in a chain. */

typedef struct {
    ngx_str_t   *list;
    u_char       first[NGX_AGENT_NAMES];    /* in the list, from 1; 0: none */
    u_char       next[NGX_AGENT_NAMES + 1];
    ngx_str_t   *prefix;                    /* the one that ends with "-" */
} ngx_agent_names_t;


static u_char *ngx_agent_headers_attach(u_char *p, u_char *last,
    ngx_agent_ctx_t *ctx);
static void ngx_agent_headers_names_init(ngx_agent_names_t *names);
static ngx_uint_t ngx_agent_headers_name_chain(u_char *name, size_t len);
static ngx_uint_t ngx_agent_headers_is_named(ngx_agent_names_t *names,
    u_char *name, size_t len);
static ngx_uint_t ngx_agent_headers_is_framing(u_char *name, size_t len);
static ngx_uint_t ngx_agent_headers_has_hops(ngx_http_request_t *r);
static ngx_uint_t ngx_agent_headers_is_hop(ngx_http_request_t *r, u_char *name,
    size_t len);
static void ngx_agent_headers_wipe(void *data);
static ngx_int_t ngx_agent_headers_filter(ngx_http_request_t *r);
static ngx_uint_t ngx_agent_headers_is_no_answer(ngx_http_request_t *r,
    ngx_http_upstream_t *u);


/*
 * What a client in the box cannot send on: a key of its own would be a way
 * out through an allowed host, and the rest would route or frame the request
 * otherwise than it was judged.  "x-forwarded-" stands for all of them.
 */

static ngx_str_t  ngx_agent_stripped_list[] = {

    /* credentials */
    ngx_string("authorization"), ngx_string("proxy-authorization"),
    ngx_string("cookie"), ngx_string("cookie2"), ngx_string("x-api-key"),
    ngx_string("api-key"), ngx_string("apikey"), ngx_string("x-auth-token"),
    ngx_string("x-auth-key"), ngx_string("x-access-token"),
    ngx_string("x-authorization"), ngx_string("x-token"),
    ngx_string("x-goog-api-key"), ngx_string("x-amz-security-token"),
    ngx_string("x-vault-token"), ngx_string("private-token"),
    ngx_string("job-token"), ngx_string("x-gitlab-token"),
    ngx_string("x-github-token"), ngx_string("x-shopify-access-token"),
    ngx_string("ocp-apim-subscription-key"), ngx_string("x-functions-key"),
    ngx_string("dd-api-key"), ngx_string("dd-application-key"),
    ngx_string("x-figma-token"), ngx_string("x-subscription-token"),
    ngx_string("x-rapidapi-key"), ngx_string("x-consul-token"),
    ngx_string("x-nomad-token"), ngx_string("circle-token"),

    /* another method or another target than the one judged */
    ngx_string("x-http-method-override"), ngx_string("x-http-method"),
    ngx_string("x-method-override"), ngx_string("x-original-url"),
    ngx_string("x-rewrite-url"), ngx_string("x-original-uri"),
    ngx_string("x-original-host"), ngx_string("x-host"),
    ngx_string("x-envoy-original-path"),

    /* who asks, from where */
    ngx_string("x-forwarded-"), ngx_string("forwarded"), ngx_string("via"),
    ngx_string("x-real-ip"), ngx_string("x-client-ip"),
    ngx_string("client-ip"), ngx_string("true-client-ip"),
    ngx_string("cf-connecting-ip"), ngx_string("x-agent-broker"),

    /* hop by hop, RFC 9110 section 7.6.1 */
    ngx_string("proxy"), ngx_string("proxy-connection"),
    ngx_string("proxy-authenticate"), ngx_string("keep-alive"),
    ngx_string("te"), ngx_string("trailer"), ngx_string("upgrade"),
    ngx_string("http2-settings"), ngx_string("expect"),
    ngx_string("alt-used"),

    ngx_null_string
};


/* Made by the proxy for this hop: a Connection header cannot name them. */

static ngx_str_t  ngx_agent_framing[] = {
    ngx_string("host"), ngx_string("connection"),
    ngx_string("content-length"), ngx_string("transfer-encoding"),
    ngx_null_string
};


/* What an upstream cannot tell the box or the broker. */

static ngx_str_t  ngx_agent_dropped_list[] = {
    ngx_string("x-accel-redirect"), ngx_string("x-accel-expires"),
    ngx_string("x-accel-limit-rate"), ngx_string("x-accel-buffering"),
    ngx_string("x-accel-charset"), ngx_string("alt-svc"), ngx_string("nel"),
    ngx_string("report-to"), ngx_string("x-agent-broker"), ngx_null_string
};


_Static_assert(sizeof(ngx_agent_stripped_list) / sizeof(ngx_str_t)
               <= NGX_AGENT_NAMES + 1, "the list is too long");

static ngx_agent_names_t  ngx_agent_stripped = {
    .list = ngx_agent_stripped_list
};

static ngx_agent_names_t  ngx_agent_dropped = {
    .list = ngx_agent_dropped_list
};

static ngx_http_output_header_filter_pt  ngx_http_next_header_filter;


ngx_int_t
ngx_agent_headers_init(ngx_conf_t *cf)
{
    ngx_http_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_agent_headers_filter;

    ngx_agent_headers_names_init(&ngx_agent_stripped);
    ngx_agent_headers_names_init(&ngx_agent_dropped);

    ngx_agent_error_page_init();

    return NGX_OK;
}


ngx_int_t
ngx_agent_headers_rewrite(ngx_http_request_t *r, ngx_agent_ctx_t *ctx)
{
    u_char              *p, *line, *end, *colon, *last;
    size_t               size;
    target_t            *t;
    ngx_buf_t           *from, *to;
    ngx_uint_t           websocket, hops;
    ngx_pool_cleanup_t  *cln;

    from = r->upstream->request_bufs->buf;
    t = &ctx->target;

    size = (from->last - from->pos)
           + t->method_len + t->path_len + t->query_len
           + t->authority.host_len + 128
           + (ctx->rule->credential ? VAULT_VALUE_MAX : 0);

    to = ngx_create_temp_buf(r->pool, size);
    if (to == NULL) {
        return NGX_ERROR;
    }

    p = to->last;
    last = to->end;

    p = ngx_cpymem(p, t->method, t->method_len);
    *p++ = ' ';
    p = ngx_cpymem(p, t->path, t->path_len);

    if (t->query) {
        *p++ = '?';
        p = ngx_cpymem(p, t->query, t->query_len);
    }

    p = ngx_cpymem(p, " HTTP/1.1" CRLF "Host: ",
                   sizeof(" HTTP/1.1" CRLF "Host: ") - 1);

    if (t->authority.kind == AUTHORITY_IPV6) {
        *p++ = '[';
    }

    p = ngx_cpymem(p, t->authority.host, t->authority.host_len);

    if (t->authority.kind == AUTHORITY_IPV6) {
        *p++ = ']';
    }

    if (ctx->port != (ctx->tls ? 443 : 80)) {
        *p++ = ':';
        p = ngx_agent_resolve_port(p, ctx->port);
    }

    *p++ = CR;
    *p++ = LF;

    if (ctx->rule->credential_kind != CREDENTIAL_NONE) {

        cln = ngx_pool_cleanup_add(r->pool, 0);
        if (cln == NULL) {
            return NGX_ERROR;
        }

        cln->handler = ngx_agent_headers_wipe;
        cln->data = to;

        p = ngx_agent_headers_attach(p, last, ctx);

        if (p == NULL) {
            ctx->failure = "credential_unavailable";
            ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                          "the credential \"%s\" is not in the vault: "
                          "nothing is sent", ctx->rule->credential);
            return NGX_ERROR;
        }
    }

    websocket = ngx_agent_headers_is_websocket(r, ctx);

    if (websocket) {
        p = ngx_slprintf(p, last, "Connection: upgrade" CRLF
                                  "Upgrade: websocket" CRLF);
    }

    /* HTTP/1.1 keeps a connection unless somebody says otherwise */

    hops = ngx_agent_headers_has_hops(r);

    /* the header lines that the proxy made, from the second on */

    line = memchr(from->pos, LF, from->last - from->pos);

    while (line && ++line < from->last) {

        end = memchr(line, LF, from->last - line);
        if (end == NULL) {
            return NGX_ERROR;
        }

        colon = ngx_strlchr(line, end, ':');

        if (colon
            && ((size_t) (colon - line) != 4
                || ngx_strncasecmp(line, (u_char *) "host", 4) != 0)
            && ((size_t) (colon - line) != 10
                || ngx_strncasecmp(line, (u_char *) "connection", 10) != 0)
            && !ngx_agent_headers_is_named(&ngx_agent_stripped, line,
                                           colon - line)
            && !(hops && ngx_agent_headers_is_hop(r, line, colon - line)))
        {
            p = ngx_cpymem(p, line, end + 1 - line);
        }

        line = end;
    }

    *p++ = CR;
    *p++ = LF;

    to->last = p;
    to->flush = from->flush;
    to->last_buf = from->last_buf;
    to->last_in_chain = from->last_in_chain;

    r->upstream->request_bufs->buf = to;

    return NGX_OK;
}


/* RFC 6455 section 4.1: nothing else is upgraded to. */

ngx_uint_t
ngx_agent_headers_is_websocket(ngx_http_request_t *r, ngx_agent_ctx_t *ctx)
{
    ngx_table_elt_t  *upgrade;

    upgrade = r->headers_in.upgrade;

    return ctx->rule->websocket && upgrade && r->method == NGX_HTTP_GET
           && upgrade->value.len == sizeof("websocket") - 1
           && ngx_strncasecmp(upgrade->value.data, (u_char *) "websocket",
                              sizeof("websocket") - 1)
              == 0;
}


/* The one place where a credential is attached. */

static u_char *
ngx_agent_headers_attach(u_char *p, u_char *last, ngx_agent_ctx_t *ctx)
{
    size_t  n;

    /* nothing is attached where the upstream was not verified by TLS */

    if (!ctx->tls) {
        return NULL;
    }

    p = ngx_cpymem(p, "Authorization: Bearer ",
                   sizeof("Authorization: Bearer ") - 1);

    n = ngx_agent_zone_vault_copy(ctx->rule->credential, p, last - p,
                                  &ctx->vault);
    if (n == 0) {
        return NULL;
    }

    p += n;

    *p++ = CR;
    *p++ = LF;

    return p;
}


static void
ngx_agent_headers_names_init(ngx_agent_names_t *names)
{
    ngx_str_t   *known;
    ngx_uint_t   i, chain;

    ngx_memzero(names->first, sizeof(names->first));

    for (i = 0; names->list[i].len; i++) {

        known = &names->list[i];

        if (known->data[known->len - 1] == '-') {
            names->prefix = known;
            continue;
        }

        chain = ngx_agent_headers_name_chain(known->data, known->len);

        names->next[i + 1] = names->first[chain];
        names->first[chain] = i + 1;
    }
}


/* Of both cases alike. */

static ngx_uint_t
ngx_agent_headers_name_chain(u_char *name, size_t len)
{
    return (len + 7 * (name[0] & 0x1f) + 29 * (name[len - 1] & 0x1f))
           & (NGX_AGENT_NAMES - 1);
}


/* The name that ends with "-" stands for all that begin with it. */

static ngx_uint_t
ngx_agent_headers_is_named(ngx_agent_names_t *names, u_char *name, size_t len)
{
    ngx_str_t   *known;
    ngx_uint_t   i;

    if (len == 0) {
        return 0;
    }

    for (i = names->first[ngx_agent_headers_name_chain(name, len)];
         i;
         i = names->next[i])
    {
        known = &names->list[i - 1];

        if (known->len == len
            && ngx_strncasecmp(name, known->data, len) == 0)
        {
            return 1;
        }
    }

    known = names->prefix;

    return known && known->len <= len
           && (name[0] | 0x20) == known->data[0]
           && ngx_strncasecmp(name, known->data, known->len) == 0;
}


static ngx_uint_t
ngx_agent_headers_is_framing(u_char *name, size_t len)
{
    ngx_str_t  *known;

    for (known = ngx_agent_framing; known->len; known++) {

        if (known->len == len && ngx_strncasecmp(name, known->data, len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


/* May a Connection header of the client's name one that is not stripped? */

static ngx_uint_t
ngx_agent_headers_has_hops(ngx_http_request_t *r)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    for (part = &r->headers_in.headers.part; part; part = part->next) {

        header = part->elts;

        for (i = 0; i < part->nelts; i++) {
            if (header[i].key.len == sizeof("connection") - 1
                && (header[i].value.len != sizeof("keep-alive") - 1
                    || ngx_strncasecmp(header[i].value.data,
                                       (u_char *) "keep-alive",
                                       sizeof("keep-alive") - 1)
                       != 0)
                && ngx_strncasecmp(header[i].key.data,
                                   (u_char *) "connection",
                                   sizeof("connection") - 1)
                   == 0)
            {
                return 1;
            }
        }
    }

    return 0;
}


/* Is it named by a Connection header of the client's? */

static ngx_uint_t
ngx_agent_headers_is_hop(ngx_http_request_t *r, u_char *name, size_t len)
{
    u_char           *p, *last, *word;
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    if (ngx_agent_headers_is_framing(name, len)) {
        return 0;
    }

    part = &r->headers_in.headers.part;
    header = part->elts;

    for (i = 0; /* void */ ; i++) {

        if (i >= part->nelts) {
            if (part->next == NULL) {
                return 0;
            }

            part = part->next;
            header = part->elts;
            i = 0;

            if (part->nelts == 0) {
                return 0;
            }
        }

        if (header[i].key.len != sizeof("connection") - 1
            || ngx_strncasecmp(header[i].key.data, (u_char *) "connection",
                               sizeof("connection") - 1)
               != 0)
        {
            continue;
        }

        p = header[i].value.data;
        last = p + header[i].value.len;

        while (p < last) {

            while (p < last && (*p == ' ' || *p == '\t' || *p == ',')) {
                p++;
            }

            word = p;

            while (p < last && *p != ' ' && *p != '\t' && *p != ',') {
                p++;
            }

            if ((size_t) (p - word) == len
                && ngx_strncasecmp(word, name, len) == 0)
            {
                return 1;
            }
        }
    }
}


static void
ngx_agent_headers_wipe(void *data)
{
    ngx_buf_t *b = data;

    ngx_explicit_memzero(b->start, b->end - b->start);
}


static ngx_int_t
ngx_agent_headers_filter(ngx_http_request_t *r)
{
    ngx_uint_t        i;
    ngx_agent_ctx_t  *ctx;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    ctx = ngx_http_get_module_ctx(r, ngx_agent_broker_module);

    /* core's own page: no upstream said this */

    if (r->err_status && ngx_agent_task_of(r->connection)) {
        return ngx_agent_error_page(r) == NGX_OK
               ? ngx_http_next_header_filter(r) : NGX_ERROR;
    }

    if (ctx == NULL || ctx->state != NGX_AGENT_ALLOWED) {
        return ngx_http_next_header_filter(r);
    }

    if (r->upstream && ngx_agent_headers_is_no_answer(r, r->upstream)) {
        /*
         * What follows it would reach the box as it is, past this filter: as
         * the body of an interim answer, through a tunnel, or raw.
         */

        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "upstream sent no final HTTP/1.x answer");

        ctx->failure = "no_answer";

        ngx_http_clean_header(r);

        r->http_version = NGX_HTTP_VERSION_11;
        r->keepalive = 0;
        r->upstream->keepalive = 0;         /* the rest is still to come */

        return NGX_HTTP_BAD_GATEWAY;
    }

    part = &r->headers_out.headers.part;
    header = part->elts;

    for (i = 0; /* void */ ; i++) {

        if (i >= part->nelts) {
            if (part->next == NULL) {
                break;
            }

            part = part->next;
            header = part->elts;
            i = 0;

            if (part->nelts == 0) {
                break;
            }
        }

        if (ngx_agent_headers_is_named(&ngx_agent_dropped, header[i].key.data,
                                       header[i].key.len))
        {
            header[i].hash = 0;
        }
    }

    if (r->upstream == NULL) {

        /* nor this, whatever made it */

        header = ngx_list_push(&r->headers_out.headers);
        if (header == NULL) {
            return NGX_ERROR;
        }

        header->hash = 1;
        ngx_str_set(&header->key, "X-Agent-Broker");
        ngx_str_set(&header->value, "failed");
    }

    return ngx_http_next_header_filter(r);
}


/*
 * Only 2xx to 5xx with a status line of HTTP/1.x is an answer.  A box cannot
 * ask for an upgrade (101), nor for what comes before an answer; and bytes
 * without a status line nginx takes for an answer of HTTP/0.9.
 */

static ngx_uint_t
ngx_agent_headers_is_no_answer(ngx_http_request_t *r, ngx_http_upstream_t *u)
{
    /* headers_in.upgrade is there only where the rule lets it, see decide */

    if (u->headers_in.status_n == NGX_HTTP_SWITCHING_PROTOCOLS
        && r->headers_in.upgrade)
    {
        return 0;
    }

    return u->headers_in.status_n < 200 || u->headers_in.status_n > 599
           || r->http_version < NGX_HTTP_VERSION_10;
}
