/*
 * The target of one request.  nginx's own idea of it is not used: it lets
 * the host of an absolute-form target win over another Host silently, and
 * accepts bytes in Host that an upstream may read otherwise.  So the bytes
 * are read here once, strictly, and everything later (the rule, the name
 * that is resolved, SNI, the Host header sent) comes from what was read.
 */

#include <string.h>
#include <strings.h>

#include "parse/target.h"


#define PORT_HTTP   80
#define PORT_HTTPS  443


static target_error_t target_read(const unsigned char *line, size_t n,
    const unsigned char *host, size_t host_len, target_t *t,
    const char **why);
static target_error_t target_url(const unsigned char *p,
    const unsigned char *end, const unsigned char *host, size_t host_len,
    target_t *t, const char **why);
static target_error_t target_authority(const unsigned char *p, size_t n,
    uint16_t port, authority_t *authority, const char **why);
static bool target_is_token_byte(unsigned char ch);
static bool target_is_version(const unsigned char *p,
    const unsigned char *end);
static void target_split(const unsigned char *p,
    const unsigned char *end, target_t *out);


target_error_t
target_parse(const unsigned char *line, size_t n, const unsigned char *host,
    size_t host_len, target_t *out, const char **why)
{
    target_error_t  err;

    memset(out, 0, sizeof(target_t));

    err = target_read(line, n, host, host_len, out, why);

    if (err != TARGET_OK) {
        memset(out, 0, sizeof(target_t));
    }

    return err;
}


/* Method SP target SP HTTP/x.y, one space each. */

static target_error_t
target_read(const unsigned char *line, size_t n, const unsigned char *host,
    size_t host_len, target_t *t, const char **why)
{
    size_t                i;
    target_error_t        err;
    const unsigned char  *p, *end, *last;

    *why = "the request line is malformed";

    for (i = 0; i < n && target_is_token_byte(line[i]); i++) { /* void */ }

    if (i == 0 || i == n || line[i] != ' ') {
        return TARGET_MALFORMED;
    }

    t->method = line;
    t->method_len = i;

    p = line + i + 1;
    last = line + n;

    end = memchr(p, ' ', (size_t) (last - p));

    if (end == NULL || end == p || !target_is_version(end + 1, last)) {
        *why = "the request line has no target or no HTTP version";
        return TARGET_MALFORMED;
    }

    for (i = 0; p + i < end; i++) {

        if (p[i] <= 0x20 || p[i] >= 0x7f || p[i] == '#') {
            *why = "the target holds a byte that must be percent-encoded";
            return TARGET_MALFORMED;
        }
    }

    if (*p != '/') {
        return target_url(p, end, host, host_len, t, why);
    }

    if (host == NULL) {
        *why = "there is no Host header";
        return TARGET_MALFORMED;
    }

    err = target_authority(host, host_len, PORT_HTTP, &t->authority, why);

    if (err == TARGET_OK) {
        target_split(p, end, t);
    }

    return err;
}


static target_error_t
target_url(const unsigned char *p, const unsigned char *end,
    const unsigned char *host, size_t host_len, target_t *t, const char **why)
{
    uint16_t              port;
    authority_t           by_host;
    target_error_t        err;
    const unsigned char  *slash;

    port = PORT_HTTP;

    if (end - p > 7 && strncasecmp((const char *) p, "http://", 7) == 0) {
        p += 7;

    } else if (end - p > 8
               && strncasecmp((const char *) p, "https://", 8) == 0)
    {
        p += 8;
        port = PORT_HTTPS;
        t->https = true;

    } else {
        *why = "the target is neither a path nor an http or https URL";
        return TARGET_MALFORMED;
    }

    t->absolute = true;

    for (slash = p; slash < end && *slash != '/' && *slash != '?'; slash++) {
        /* void */
    }

    err = target_authority(p, (size_t) (slash - p), port, &t->authority, why);

    if (err != TARGET_OK) {
        return err;
    }

    target_split(slash, end, t);

    if (host == NULL) {
        return TARGET_OK;
    }

    /*
     * RFC 9112 section 3.2.2 lets a proxy ignore Host here.  A client that
     * sends two names is refused instead: nobody has to guess which one the
     * next hop will believe.
     */

    err = target_authority(host, host_len, port, &by_host, why);

    if (err != TARGET_OK) {
        return err;
    }

    if (!authority_same_host(&by_host, &t->authority)
        || by_host.port != t->authority.port)
    {
        *why = "the request line and Host name different targets";
        return TARGET_MISMATCH;
    }

    return TARGET_OK;
}


static target_error_t
target_authority(const unsigned char *p, size_t n, uint16_t port,
    authority_t *authority, const char **why)
{
    authority_error_t  err;

    err = authority_parse(p, n, port, authority);

    if (err == AUTHORITY_OK) {
        return TARGET_OK;
    }

    *why = authority_strerror(err);

    return TARGET_MALFORMED;
}


/* RFC 9110 section 5.6.2, upper case only as every registered method is. */

static bool
target_is_token_byte(unsigned char ch)
{
    return (ch >= 'A' && ch <= 'Z') || ch == '-' || ch == '_';
}


/*
 * RFC 9112 section 2.3: one digit each, and nothing behind.  A stream of
 * HTTP/2 has no request line; nginx writes one with "HTTP/2.0" for it, and
 * takes that from no client.
 */

static bool
target_is_version(const unsigned char *p, const unsigned char *end)
{
    return end - p == 8
           && ((memcmp(p, "HTTP/1.", 7) == 0 && p[7] >= '0' && p[7] <= '9')
               || memcmp(p, "HTTP/2.0", 8) == 0);
}


static void
target_split(const unsigned char *p, const unsigned char *end, target_t *out)
{
    const unsigned char  *mark;

    mark = memchr(p, '?', (size_t) (end - p));

    out->path = p;
    out->path_len = (size_t) ((mark ? mark : end) - p);

    if (mark) {
        out->query = mark + 1;
        out->query_len = (size_t) (end - mark - 1);
    }

    if (out->path_len == 0) {
        out->path = (const unsigned char *) "/";
        out->path_len = 1;
    }
}
