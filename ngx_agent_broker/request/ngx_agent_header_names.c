/*
 * The names of headers that do not pass: those a box cannot send to an
 * upstream, those an upstream cannot send to a box, and those the proxy makes
 * for each hop.
 */


#include "request/ngx_agent_request.h"


#define NGX_AGENT_NAMES     64              /* a power of two */


/* A list of names, chained by a hash of the length and two letters. */

typedef struct {
    ngx_str_t   *list;
    u_char       first[NGX_AGENT_NAMES];    /* in the list, from 1; 0: none */
    u_char       next[NGX_AGENT_NAMES + 1];
    ngx_str_t   *prefix;                    /* the one that ends with "-" */
} ngx_agent_names_t;


static void ngx_agent_header_names_link(ngx_agent_names_t *names);
static ngx_uint_t ngx_agent_header_names_chain(u_char *name, size_t len);
static ngx_uint_t ngx_agent_header_names_find(ngx_agent_names_t *names,
    u_char *name, size_t len);


/*
 * Headers that a client in the box cannot send on: with a key of its own it
 * could send data out through an allowed host, and the others would make the
 * request be routed or framed in another way than it was judged.
 * "x-forwarded-" matches all names that begin with it.
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

    /* the client and its address */
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

    /* the rewritten header has its own */
    ngx_string("host"), ngx_string("connection"),

    ngx_null_string
};


/* Headers that an upstream cannot send to the box or the broker. */

static ngx_str_t  ngx_agent_dropped_list[] = {
    ngx_string("x-accel-redirect"), ngx_string("x-accel-expires"),
    ngx_string("x-accel-limit-rate"), ngx_string("x-accel-buffering"),
    ngx_string("x-accel-charset"), ngx_string("alt-svc"), ngx_string("nel"),
    ngx_string("report-to"), ngx_string("x-agent-broker"),

    /* hop by hop, RFC 9110 section 7.6.1; clients of HTTP/2 refuse them all */
    ngx_string("upgrade"), ngx_string("te"), ngx_string("trailer"),
    ngx_string("keep-alive"), ngx_string("proxy-connection"),
    ngx_string("proxy-authenticate"), ngx_string("proxy-authentication-info"),
    ngx_string("http2-settings"),

    ngx_null_string
};


_Static_assert(sizeof(ngx_agent_stripped_list) / sizeof(ngx_str_t)
               <= NGX_AGENT_NAMES + 1, "the list is too long");

static ngx_agent_names_t  ngx_agent_stripped = {
    .list = ngx_agent_stripped_list
};

static ngx_agent_names_t  ngx_agent_dropped = {
    .list = ngx_agent_dropped_list
};


void
ngx_agent_header_names_init(void)
{
    ngx_agent_header_names_link(&ngx_agent_stripped);
    ngx_agent_header_names_link(&ngx_agent_dropped);
}


ngx_uint_t
ngx_agent_header_names_is_stripped(u_char *name, size_t len)
{
    return ngx_agent_header_names_find(&ngx_agent_stripped, name, len);
}


ngx_uint_t
ngx_agent_header_names_is_dropped(u_char *name, size_t len)
{
    return ngx_agent_header_names_find(&ngx_agent_dropped, name, len);
}


ngx_uint_t
ngx_agent_header_names_is(u_char *name, size_t len, const char *known)
{
    return len == ngx_strlen(known)
           && ngx_strncasecmp(name, (u_char *) known, len) == 0;
}


static void
ngx_agent_header_names_link(ngx_agent_names_t *names)
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

        chain = ngx_agent_header_names_chain(known->data, known->len);

        names->next[i + 1] = names->first[chain];
        names->first[chain] = (u_char) (i + 1);
    }
}


/* The hash of a name, the same for upper and lower case. */

static ngx_uint_t
ngx_agent_header_names_chain(u_char *name, size_t len)
{
    return (len + 7 * (name[0] & 0x1f) + 29 * (name[len - 1] & 0x1f))
           & (NGX_AGENT_NAMES - 1);
}


/* A listed name that ends with "-" matches all names that begin with it. */

static ngx_uint_t
ngx_agent_header_names_find(ngx_agent_names_t *names, u_char *name, size_t len)
{
    ngx_str_t   *known;
    ngx_uint_t   i;

    if (len == 0) {
        return 0;
    }

    for (i = names->first[ngx_agent_header_names_chain(name, len)];
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
