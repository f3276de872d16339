/*
 * The header of a request as it goes up, and of an answer as it comes down.
 *
 * The request's is rewritten: request line and Host from the judged target,
 * the client's own credentials and routing headers dropped, the rule's
 * credential added.  The credential exists only in that buffer and in the one
 * of the connection, both of which are wiped when it was sent; it is never in a
 * variable, in r->headers_in or in a log.
 */


#include "request/ngx_agent_request.h"
#include "parse/field.h"


#define NGX_AGENT_UPGRADE_TIMEOUT  90000000     /* ms: over the longest idle */


static u_char *ngx_agent_headers_attach(ngx_agent_ctx_t *ctx,
    ngx_agent_attach_e place, u_char *p, ngx_log_t *log);
static u_char *ngx_agent_headers_query(ngx_agent_ctx_t *ctx, u_char *p,
    ngx_log_t *log);
static ngx_uint_t ngx_agent_headers_hops(ngx_list_part_t *part,
    ngx_str_t hops[FIELD_HOPS_MAX]);
static ngx_uint_t ngx_agent_headers_is_hop(ngx_str_t *hops, ngx_uint_t n,
    u_char *name, size_t len);
static ngx_uint_t ngx_agent_headers_has_word(ngx_http_request_t *r,
    const char *name, const char *word);
static void ngx_agent_headers_wipe(void *data);
static ngx_int_t ngx_agent_headers_filter(ngx_http_request_t *r);
static void ngx_agent_headers_clean(ngx_http_request_t *r);
static ngx_int_t ngx_agent_headers_upgraded(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx);
static ngx_uint_t ngx_agent_headers_is_too_long(ngx_http_request_t *r,
    ngx_agent_ctx_t *ctx);


static ngx_http_output_header_filter_pt  ngx_http_next_header_filter;


ngx_int_t
ngx_agent_headers_init(ngx_conf_t *cf)
{
    ngx_http_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_agent_headers_filter;

    ngx_agent_header_names_init();
    ngx_agent_strip_init();

    ngx_agent_error_page_init();
    ngx_agent_flow_init();

    return NGX_OK;
}


ngx_int_t
ngx_agent_headers_rewrite(ngx_http_request_t *r, ngx_agent_ctx_t *ctx)
{
    u_char              *p, *line, *end, *colon, *last;
    size_t               size;
    target_t            *t;
    ngx_buf_t           *from, *to;
    ngx_str_t            hops[FIELD_HOPS_MAX];
    ngx_uint_t           hops_count;
    ngx_pool_cleanup_t  *cln;

    from = r->upstream->request_bufs->buf;
    t = &ctx->target;

    size = (from->last - from->pos)
           + t->method_len + t->path_len + t->query_len
           + t->authority.host_len + 128
           + ngx_agent_attach_room(ctx->rule);

    to = ngx_create_temp_buf(r->pool, size);
    if (to == NULL) {
        return NGX_ERROR;
    }

    if (ctx->rule->credential_kind != CREDENTIAL_NONE) {

        cln = ngx_pool_cleanup_add(r->pool, 0);
        if (cln == NULL) {
            return NGX_ERROR;
        }

        cln->handler = ngx_agent_headers_wipe;
        cln->data = to;
        ctx->head = to;
    }

    p = to->last;
    last = to->end;

    p = ngx_cpymem(p, t->method, t->method_len);
    *p++ = ' ';
    p = ngx_cpymem(p, t->path, t->path_len);
    p = ngx_agent_headers_query(ctx, p, r->connection->log);

    if (p == NULL) {
        return NGX_ERROR;
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

    p = ngx_agent_headers_attach(ctx, NGX_AGENT_ATTACH_HEADER, p,
                                 r->connection->log);
    if (p == NULL) {
        return NGX_ERROR;
    }

    if (ctx->websocket) {
        p = ngx_slprintf(p, last, "Connection: upgrade" CRLF
                                  "Upgrade: websocket" CRLF);
    }

    /* without a Connection header, HTTP/1.1 keeps the connection */

    hops_count = ngx_agent_headers_hops(&r->headers_in.headers.part, hops);

    /* the header lines that the proxy made, from the second on */

    line = memchr(from->pos, LF, from->last - from->pos);

    while (line != NULL && ++line < from->last) {

        end = memchr(line, LF, from->last - line);
        if (end == NULL) {
            return NGX_ERROR;
        }

        colon = ngx_strlchr(line, end, ':');

        if (colon
            && !(ctx->odd_names && field_name(line, colon - line) == FIELD_ODD)
            && !ngx_agent_header_names_is_stripped(line, colon - line)
            && !ngx_agent_strip_header(ctx->rule, line, colon - line)
            && !ngx_agent_headers_is_hop(hops, hops_count, line, colon - line))
        {
            /* cppcheck-suppress nullPointerArithmeticRedundantCheck */
            p = ngx_cpymem(p, line, end + 1 - line);
        }

        line = end;
    }

    *p++ = CR;
    *p++ = LF;

    to->last = p;
    ctx->head_size = to->last - to->pos;
    to->flush = from->flush;
    to->last_buf = from->last_buf;
    to->last_in_chain = from->last_in_chain;

    r->upstream->request_bufs->buf = to;

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "agent: header of %uz bytes built, credential \"%s\"",
                   (size_t) (to->last - to->pos),
                   ctx->rule->credential ? ctx->rule->credential : "none");

    return NGX_OK;
}


/*
 * A websocket is the only upgrade that is passed on.  Upgrade says nothing in
 * HTTP/1.0, nor where Connection does not name it: RFC 9110 section 7.8.
 */

ngx_uint_t
ngx_agent_headers_asks_websocket(ngx_http_request_t *r)
{
    return r->headers_in.upgrade && r->http_version == NGX_HTTP_VERSION_11
           && ngx_agent_headers_has_word(r, "connection", "upgrade")
           && ngx_agent_headers_has_word(r, "upgrade", "websocket");
}


ngx_table_elt_t *
ngx_agent_headers_find(ngx_http_request_t *r, const char *name)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header, *found;

    found = NULL;

    for (part = &r->headers_in.headers.part; part; part = part->next) {

        header = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (ngx_agent_header_names_is(header[i].key.data,
                                          header[i].key.len, name))
            {
                if (found) {
                    return NULL;
                }

                found = &header[i];
            }
        }
    }

    return found;
}


/* Has a header of this name, of which there may be several, the word? */

static ngx_uint_t
ngx_agent_headers_has_word(ngx_http_request_t *r, const char *name,
    const char *word)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    for (part = &r->headers_in.headers.part; part; part = part->next) {

        header = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (ngx_agent_header_names_is(header[i].key.data,
                                          header[i].key.len, name)
                && field_has_word(header[i].value.data, header[i].value.len,
                                  word))
            {
                return 1;
            }
        }
    }

    return 0;
}


/* What the box sent of it, and then the credential, if that is its place. */

static u_char *
ngx_agent_headers_query(ngx_agent_ctx_t *ctx, u_char *p, ngx_log_t *log)
{
    u_char    *query, *end;
    target_t  *t;

    t = &ctx->target;
    query = p + 1;
    end = query;

    if (t->query) {
        end += ngx_agent_strip_query(ctx->rule, t->query, t->query_len, query,
                                     NULL);
    }

    if (ctx->rule->credential_kind == CREDENTIAL_QUERY) {

        if (end > query) {
            *end++ = '&';
        }

        end = ngx_agent_headers_attach(ctx, NGX_AGENT_ATTACH_QUERY, end, log);

        if (end == NULL) {
            return NULL;
        }
    }

    /* an empty one stays, unless all of it was taken out */

    if (end == query && (t->query == NULL || t->query_len)) {
        return p;
    }

    *p = '?';

    return end;
}


/* An upstream that TLS does not verify gets no credential. */

static u_char *
ngx_agent_headers_attach(ngx_agent_ctx_t *ctx, ngx_agent_attach_e place,
    u_char *p, ngx_log_t *log)
{
    if (ctx->rule->credential_kind == CREDENTIAL_NONE) {
        return p;
    }

    if (ctx->tls) {
        p = ngx_agent_attach(ctx->rule, place, p, &ctx->vault);

        if (p) {
            return p;
        }
    }

    ctx->failure = NGX_AGENT_REASON_CREDENTIAL;
    ngx_log_error(NGX_LOG_ERR, log, 0,
                  "the credential \"%s\" is not in the vault, or is not "
                  "NAME:PASSWORD as \"basic\" needs it: nothing is sent",
                  ctx->rule->credential);

    return NULL;
}


/* The headers that Connection names, and how many they are. */

static ngx_uint_t
ngx_agent_headers_hops(ngx_list_part_t *part,
    ngx_str_t hops[FIELD_HOPS_MAX])
{
    size_t            len;
    u_char           *last;
    ngx_uint_t        i, n;
    const u_char     *p, *word;
    ngx_table_elt_t  *header;

    n = 0;

    for ( /* void */ ; part; part = part->next) {

        header = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (!ngx_agent_header_names_is(header[i].key.data,
                                           header[i].key.len, "connection"))
            {
                continue;
            }

            p = header[i].value.data;
            last = header[i].value.data + header[i].value.len;

            while ((word = field_next_word(&p, last, &len)) != NULL
                   && n < FIELD_HOPS_MAX)
            {
                hops[n].data = (u_char *) word;
                hops[n].len = len;

                /* nothing has the names of these, but for a websocket's */

                n += !ngx_agent_header_names_is(hops[n].data, len, "close")
                     && !ngx_agent_header_names_is(hops[n].data, len,
                                                   "keep-alive")
                     && !ngx_agent_header_names_is(hops[n].data, len,
                                                   "upgrade");
            }
        }
    }

    return n;
}


static ngx_uint_t
ngx_agent_headers_is_hop(ngx_str_t *hops, ngx_uint_t n, u_char *name,
    size_t len)
{
    ngx_uint_t  i;

    for (i = 0; i < n; i++) {

        if (hops[i].len == len
            && ngx_strncasecmp(hops[i].data, name, len) == 0)
        {
            /* the proxy frames the body: nobody can have that removed */

            return !ngx_agent_header_names_is(name, len, "content-length")
                   && !ngx_agent_header_names_is(name, len,
                                                 "transfer-encoding");
        }
    }

    return 0;
}


/*
 * The credential goes as soon as it was sent: from the header, and from where
 * core copies what it writes over TLS, which lives as long as a connection that
 * is kept, or a websocket.
 */

void
ngx_agent_headers_forget(ngx_agent_ctx_t *ctx, ngx_connection_t *c)
{
    ngx_buf_t  *b;

    if (ctx->head == NULL) {
        return;
    }

    b = (c && c->ssl) ? c->ssl->buf : NULL;

    if (b && b->pos == b->last) {
        ngx_explicit_memzero(b->start, ngx_min(ctx->head_size,
                                               (size_t) (b->end - b->start)));
    }

    /* an answer may come before all of the header has gone */

    if (ctx->head->pos == ctx->head->last) {
        ngx_agent_headers_wipe(ctx->head);
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
    u_char           *name;
    size_t            len;
    ngx_str_t         hops[FIELD_HOPS_MAX];
    ngx_uint_t        i, n, is_switch, is_cookie;
    ngx_agent_ctx_t  *ctx;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    ctx = ngx_http_get_module_ctx(r, ngx_agent_broker_module);

    /* core's own page: it is not an upstream's answer */

    if (r->err_status && ngx_agent_task_of(r->connection)) {
        return ngx_agent_error_page(r) == NGX_OK
               ? ngx_http_next_header_filter(r) : NGX_ERROR;
    }

    if (ctx == NULL || ctx->state != NGX_AGENT_ALLOWED) {
        return ngx_http_next_header_filter(r);
    }

    ngx_log_debug3(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "agent: answer %ui for request %*s", r->headers_out.status,
                   sizeof(ctx->request), ctx->request);

    if (r->upstream) {
        ngx_agent_headers_forget(ctx, r->upstream->peer.connection);
    }

    if (r->upstream && r->upstream->upgrade) {

        if (ngx_agent_headers_upgraded(r, ctx) != NGX_OK) {
            return NGX_ERROR;
        }

    } else if (r->upstream && ngx_agent_headers_is_too_long(r, ctx)) {
        return NGX_HTTP_BAD_GATEWAY;
    }

    is_switch = (r->headers_out.status == NGX_HTTP_SWITCHING_PROTOCOLS);

    /* one that our credential was good for would be good without it */

    is_cookie = ctx->rule->credential && !ctx->rule->cookies;

    n = (r->upstream && ctx->answer.hops)
        ? ngx_agent_headers_hops(&r->upstream->headers_in.headers.part, hops)
        : 0;

    for (part = &r->headers_out.headers.part; part; part = part->next) {

        header = part->elts;

        for (i = 0; i < part->nelts; i++) {

            name = header[i].key.data;
            len = header[i].key.len;

            if ((ngx_agent_header_names_is_dropped(name, len)
                 && !(is_switch
                      && ngx_agent_header_names_is(name, len, "upgrade")))
                || ngx_agent_headers_is_hop(hops, n, name, len)
                || (is_cookie
                    && ngx_agent_header_names_is(name, len, "set-cookie")))
            {
                header[i].hash = 0;
            }
        }
    }

    /* an answer that another module made is marked too */

    if (r->upstream == NULL && ngx_agent_refuse_mark(r, "failed") != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_next_header_filter(r);
}


/* Nothing of the upstream's answer is passed on. */

static void
ngx_agent_headers_clean(ngx_http_request_t *r)
{
    ngx_http_clean_header(r);

    r->http_version = NGX_HTTP_VERSION_11;
    r->keepalive = 0;
    r->upstream->keepalive = 0;             /* the rest is still unread */
}


/* From here on the rule's `idle` ends it, and not the proxy's time-outs. */

static ngx_int_t
ngx_agent_headers_upgraded(ngx_http_request_t *r, ngx_agent_ctx_t *ctx)
{
    ngx_http_upstream_conf_t  *conf;

    conf = ngx_palloc(r->pool, sizeof(ngx_http_upstream_conf_t));
    if (conf == NULL) {
        return NGX_ERROR;
    }

    *conf = *r->upstream->conf;

    conf->read_timeout = NGX_AGENT_UPGRADE_TIMEOUT;
    conf->send_timeout = NGX_AGENT_UPGRADE_TIMEOUT;

    r->upstream->conf = conf;

    ctx->live.upgraded = 1;

    return NGX_OK;
}


/* Is the answer's body, of known length, more than is left of bytes_down? */

static ngx_uint_t
ngx_agent_headers_is_too_long(ngx_http_request_t *r, ngx_agent_ctx_t *ctx)
{
    off_t                 length;
    ngx_http_upstream_t  *u;

    u = r->upstream;

    length = u->headers_in.content_length_n
             - (u->buffer.last - u->buffer.pos);

    if (length <= 0 || r->method == NGX_HTTP_HEAD
        || r->headers_out.status == NGX_HTTP_NO_CONTENT
        || r->headers_out.status == NGX_HTTP_NOT_MODIFIED
        || ngx_agent_flow_answer(ctx, length) == NGX_OK)
    {
        return 0;
    }

    ngx_agent_flow_cut(ctx, NGX_AGENT_REASON_BYTES_DOWN);
    ngx_agent_headers_clean(r);

    return 1;
}
