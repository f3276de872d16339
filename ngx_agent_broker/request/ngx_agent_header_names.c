/*
 * The names of headers that do not pass: those a box cannot send to an
 * upstream, those an upstream cannot send to a box, and those the proxy makes
 * for each hop.
 */


#include "request/ngx_agent_request.h"


/*
 * Headers that a client in the box cannot send on: they would make the request
 * be routed or framed in another way than it was judged.  Its own credentials
 * are in credentials/ngx_agent_strip.c.
 */

static ngx_str_t  ngx_agent_stripped_list[] = {

    /* another method or another target than the one judged */
    ngx_string("x-http-method-override"), ngx_string("x-http-method"),
    ngx_string("x-method-override"), ngx_string("x-original-url"),
    ngx_string("x-rewrite-url"), ngx_string("x-original-uri"),
    ngx_string("x-original-host"), ngx_string("x-host"),
    ngx_string("x-envoy-original-path"),

    /* the client and its address */
    ngx_string("x-forwarded-"), ngx_string("forwarded"), ngx_string("via"),
    ngx_string("x-real-ip"), ngx_string("x-client-ip"),
    ngx_string("client-ip"), ngx_string("true-client-ip"),
    ngx_string("cf-connecting-ip"), ngx_string("x-agent-broker"),

    /* hop by hop, RFC 9110 section 7.6.1 */
    ngx_string("proxy"), ngx_string("proxy-connection"),
    ngx_string("proxy-authorization"), ngx_string("proxy-authenticate"),
    ngx_string("keep-alive"), ngx_string("te"), ngx_string("trailer"),
    ngx_string("upgrade"), ngx_string("http2-settings"), ngx_string("expect"),
    ngx_string("alt-used"),

    /* the rewritten header has its own */
    ngx_string("host"), ngx_string("connection"),

    ngx_null_string
};


/* Headers that an upstream cannot send to the box or the broker. */

static ngx_str_t  ngx_agent_dropped_list[] = {
    ngx_string("x-accel-redirect"), ngx_string("x-accel-expires"),
    ngx_string("x-accel-limit-rate"), ngx_string("x-accel-buffering"),
    ngx_string("x-accel-charset"), ngx_string("alt-svc"), ngx_string("nel"),
    ngx_string("report-to"), ngx_string("reporting-endpoints"),
    ngx_string("x-agent-broker"),

    /* hop by hop, RFC 9110 section 7.6.1; clients of HTTP/2 refuse them all */
    ngx_string("upgrade"), ngx_string("te"), ngx_string("trailer"),
    ngx_string("keep-alive"), ngx_string("proxy-connection"),
    ngx_string("proxy-authenticate"), ngx_string("proxy-authentication-info"),
    ngx_string("http2-settings"),

    ngx_null_string
};


_Static_assert(sizeof(ngx_agent_stripped_list) / sizeof(ngx_str_t)
               <= NGX_AGENT_TABLE_MAX + 1, "the list is too long");

static ngx_agent_name_table_t  ngx_agent_stripped = {
    .list = ngx_agent_stripped_list
};

static ngx_agent_name_table_t  ngx_agent_dropped = {
    .list = ngx_agent_dropped_list
};


void
ngx_agent_header_names_init(void)
{
    ngx_agent_name_table_init(&ngx_agent_stripped);
    ngx_agent_name_table_init(&ngx_agent_dropped);
}


ngx_uint_t
ngx_agent_header_names_is_stripped(u_char *name, size_t len)
{
    return ngx_agent_name_table_find(&ngx_agent_stripped, name, len) != NULL;
}


ngx_uint_t
ngx_agent_header_names_is_dropped(u_char *name, size_t len)
{
    return ngx_agent_name_table_find(&ngx_agent_dropped, name, len) != NULL;
}


ngx_uint_t
ngx_agent_header_names_is(u_char *name, size_t len, const char *known)
{
    return len == ngx_strlen(known)
           && ngx_strncasecmp(name, (u_char *) known, len) == 0;
}
