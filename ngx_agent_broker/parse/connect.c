/*
 * The head of a CONNECT.  A client may leave the port out of Host, as some
 * do; a body it cannot have, since where it ends and the tunnel begins would
 * be a matter of opinion.
 */

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "parse/connect.h"


static connect_error_t connect_lines(const unsigned char *p,
    const unsigned char *last, connect_t *out, const char **why);
static bool connect_is_header(const unsigned char *p, size_t name, size_t n);
static connect_error_t connect_host(const unsigned char *p,
    const unsigned char *last, connect_t *out, const char **why);


size_t
connect_head_length(const unsigned char *p, size_t n)
{
    size_t  i;

    for (i = 3; i < n; i++) {
        if (p[i] == '\n' && memcmp(p + i - 3, "\r\n\r\n", 4) == 0) {
            return i + 1;
        }
    }

    return 0;
}


connect_error_t
connect_parse(const unsigned char *p, size_t n, connect_t *out,
    const char **why)
{
    authority_error_t     err;
    const unsigned char  *end, *space, *target;

    memset(out, 0, sizeof(connect_t));

    end = memchr(p, '\r', n);

    out->line = p;
    out->line_len = end ? (size_t) (end - p) : n;

    *why = "the request line is malformed";

    if (out->line_len < CONNECT_METHOD_LEN
        || memcmp(p, CONNECT_METHOD, CONNECT_METHOD_LEN) != 0)
    {
        return CONNECT_MALFORMED;
    }

    target = p + CONNECT_METHOD_LEN;
    end = p + out->line_len;
    space = memchr(target, ' ', (size_t) (end - target));

    err = authority_parse(target, (size_t) ((space ? space : end) - target),
                          0, &out->authority);

    if (err != AUTHORITY_OK) {
        *why = authority_strerror(err);
        return CONNECT_MALFORMED;
    }

    if (space == NULL || end - space != sizeof(" HTTP/1.1") - 1
        || (memcmp(space, " HTTP/1.1", sizeof(" HTTP/1.1") - 1) != 0
            && memcmp(space, " HTTP/1.0", sizeof(" HTTP/1.0") - 1) != 0))
    {
        return CONNECT_MALFORMED;
    }

    if (connect_head_length(p, n) != n) {
        *why = "the request's head is too large";
        return CONNECT_MALFORMED;
    }

    /* from the end of the request line to the empty line */

    return connect_lines(end, p + n - 2, out, why);
}


static connect_error_t
connect_lines(const unsigned char *p, const unsigned char *last,
    connect_t *out, const char **why)
{
    size_t                name;
    connect_error_t       err;
    const unsigned char  *end, *colon;

    for ( ;; ) {

        /* p is at the end of a line */

        if (last - p < 2 || p[0] != '\r' || p[1] != '\n') {
            *why = "a header line is malformed";
            return CONNECT_MALFORMED;
        }

        p += 2;

        if (p == last) {
            return CONNECT_OK;
        }

        end = memchr(p, '\r', (size_t) (last - p));
        colon = end ? memchr(p, ':', (size_t) (end - p)) : NULL;

        if (colon == NULL
            || !connect_is_header(p, (size_t) (colon - p),
                                  (size_t) (end - p)))
        {
            *why = "a header line is malformed";
            return CONNECT_MALFORMED;
        }

        name = (size_t) (colon - p);

        if ((name == 14 && strncasecmp((const char *) p, "content-length",
                                       name) == 0)
            || (name == 17 && strncasecmp((const char *) p,
                                          "transfer-encoding", name) == 0))
        {
            *why = "a CONNECT has no body";
            return CONNECT_MALFORMED;
        }

        if (name == 4 && strncasecmp((const char *) p, "host", name) == 0) {

            err = connect_host(colon + 1, end, out, why);
            if (err != CONNECT_OK) {
                return err;
            }
        }

        p = end;
    }
}


/*
 * A name of RFC 9110's token characters, so that neither "Host :" nor a
 * folded line is a header to one reader and none to another, and a value
 * without control bytes.
 */

static bool
connect_is_header(const unsigned char *p, size_t name, size_t n)
{
    size_t  i;

    for (i = 0; i < name; i++) {
        if (p[i] <= 0x20 || p[i] >= 0x7f
            || strchr("\"(),/:;<=>?@[\\]{}", p[i]))
        {
            return false;
        }
    }

    for (i = name; i < n; i++) {
        if ((p[i] < 0x20 && p[i] != '\t') || p[i] == 0x7f) {
            return false;
        }
    }

    return name > 0;
}


static connect_error_t
connect_host(const unsigned char *p, const unsigned char *last,
    connect_t *out, const char **why)
{
    authority_t        host;
    authority_error_t  err;

    while (p < last && (*p == ' ' || *p == '\t')) {
        p++;
    }

    if (out->host) {
        *why = "there are two Host lines";
        return CONNECT_MALFORMED;
    }

    out->host = p;
    out->host_len = (size_t) (last - p);

    err = authority_parse(p, out->host_len, out->authority.port, &host);

    if (err != AUTHORITY_OK) {
        *why = authority_strerror(err);
        return CONNECT_MALFORMED;
    }

    if (!authority_same_host(&host, &out->authority)
        || host.port != out->authority.port)
    {
        *why = "the request line and Host name different targets";
        return CONNECT_MISMATCH;
    }

    return CONNECT_OK;
}
