/*
 * The header of a request as bytes: what is not HTTP is refused, although
 * core's parser takes it.  The server's `ignore_invalid_headers` is off, or
 * core would drop some of it unseen.
 *
 * RFC 9112 sections 2.2 and 5, RFC 9113 section 8.2.
 */


#include "request/ngx_agent_request.h"
#include "parse/field.h"


static const char *ngx_agent_fields_line(ngx_table_elt_t *header, u_char *next,
    ngx_buf_t *b);
static ngx_uint_t ngx_agent_fields_words(ngx_str_t *value);
static ngx_uint_t ngx_agent_fields_is_hop(ngx_table_elt_t *header);


const char *
ngx_agent_fields_check(ngx_http_request_t *r, ngx_agent_ctx_t *ctx)
{
    u_char           *end, *next;
    ngx_buf_t        *b;
    ngx_uint_t        i, lines, hops;
    const char       *why;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    lines = r->http_version < NGX_HTTP_VERSION_20;
    b = r->header_in;
    hops = 0;

    if (lines) {
        end = ctx->line.data + ctx->line.len;

        if (end[0] != CR || end[1] != LF) {
            return "the request line does not end with CR LF";
        }

        if (b->pos - b->start < 2 || b->pos[-2] != CR) {
            return "the header does not end with CR LF";
        }
    }

    for (part = &r->headers_in.headers.part; part; part = part->next) {

        header = part->elts;

        for (i = 0; i < part->nelts; i++) {

            switch (field_name(header[i].key.data, header[i].key.len)) {

            case FIELD_MALFORMED:
                return "the name of a header is not a token";

            case FIELD_ODD:
                ctx->odd_names = 1;
                break;

            default: /* FIELD_PLAIN */
                break;
            }

            if (!field_is_value(header[i].value.data, header[i].value.len)) {
                return "the value of a header has a control byte";
            }

            if (!lines) {

                if (ngx_agent_fields_is_hop(&header[i])) {
                    return "a header is not one of HTTP/2";
                }

                continue;
            }

            if (ngx_agent_header_names_is(header[i].key.data,
                                          header[i].key.len, "connection"))
            {
                hops += ngx_agent_fields_words(&header[i].value);

                if (hops > FIELD_HOPS_MAX) {
                    return "Connection has more than 32 words";
                }
            }

            next = (i + 1 < part->nelts) ? header[i + 1].key.data
                   : part->next && part->next->nelts
                     ? ((ngx_table_elt_t *) part->next->elts)->key.data
                     : b->pos - 2;

            why = ngx_agent_fields_line(&header[i], next, b);
            if (why) {
                return why;
            }
        }
    }

    return NULL;
}


/*
 * How the line ends.  Core has put a NUL behind the name, in the place of the
 * colon, and behind the value, in the place of CR, LF or a space.
 */

static const char *
ngx_agent_fields_line(ngx_table_elt_t *header, u_char *next, ngx_buf_t *b)
{
    u_char  *p;

    if (header->value.data == header->key.data + header->key.len) {
        return "a header line has no colon";
    }

    p = header->value.data + header->value.len + 1;

    if (*p != LF) {

        while (*p == ' ') {
            p++;
        }

        if (p[0] != CR || p[1] != LF) {
            return "a header line does not end with CR LF";
        }

        p++;
    }

    /* a line that is continued in another buffer begins there */

    if (p >= b->start && p < b->end && next >= b->start && next < b->end
        && p + 1 != next)
    {
        return "a header line does not end with CR LF";
    }

    return NULL;
}


static ngx_uint_t
ngx_agent_fields_words(ngx_str_t *value)
{
    size_t         len;
    ngx_uint_t     n;
    const u_char  *p, *last;

    p = value->data;
    last = p + value->len;

    for (n = 0; field_next_word(&p, last, &len); n++) { /* void */ }

    return n;
}


/* RFC 9113 section 8.2.2: what is about the connection is not in HTTP/2. */

static ngx_uint_t
ngx_agent_fields_is_hop(ngx_table_elt_t *header)
{
    u_char  *name;
    size_t   len;

    name = header->key.data;
    len = header->key.len;

    switch (len) {

    case sizeof("te") - 1:
        return ngx_agent_header_names_is(name, len, "te")
               && !ngx_agent_header_names_is(header->value.data,
                                             header->value.len, "trailers");

    case sizeof("upgrade") - 1:
        return ngx_agent_header_names_is(name, len, "upgrade");

    case sizeof("connection") - 1:
        return ngx_agent_header_names_is(name, len, "connection")
               || ngx_agent_header_names_is(name, len, "keep-alive");

    case sizeof("proxy-connection") - 1:
        return ngx_agent_header_names_is(name, len, "proxy-connection");

    case sizeof("transfer-encoding") - 1:
        return ngx_agent_header_names_is(name, len, "transfer-encoding");

    default:
        return 0;
    }
}
