/*
 * The parser of authorities.  It refuses rather than repairs: every odd
 * spelling that some other parser reads as another host (user information,
 * brackets around a name, octal or short IPv4, percent signs, control bytes,
 * a second dot at the end) has let somebody past a list of hosts.
 *
 * The order matters: bytes are judged before anything is split at ':' or
 * ']', so what is split has no byte that a resolver, a log or a certificate
 * check would read differently.
 */

#include <string.h>

#include "parse/address.h"
#include "parse/authority.h"


#define LABEL_MAX  63


static authority_error_t authority_read_host(const unsigned char *p, size_t n,
    authority_t *out);
static authority_error_t authority_read_name(const unsigned char *p, size_t n,
    authority_t *out);
static authority_error_t authority_read_ipv6(const unsigned char *p, size_t n,
    authority_t *out);
static authority_error_t authority_read_port(const unsigned char *p, size_t n,
    uint16_t *port);
static unsigned char authority_lower(unsigned char c);
static bool authority_ends_in_number(const unsigned char *p, size_t n);
static authority_error_t authority_failed(authority_t *out,
    authority_error_t err);


static const char *const  authority_errors[] = {
    [AUTHORITY_OK] = "no error",
    [AUTHORITY_EMPTY] = "no host is given",
    [AUTHORITY_BAD_BYTE] = "a byte that no host or port has",
    [AUTHORITY_BAD_LABEL] = "a label is empty, longer than 63 bytes, or has "
                            "\"-\" at an end",
    [AUTHORITY_TOO_LONG] = "the host is longer than 253 bytes",
    [AUTHORITY_BAD_PORT] = "the port is not a plain number from 1 to 65535",
    [AUTHORITY_NO_PORT] = "a port is required",
    [AUTHORITY_BAD_ADDRESS] = "an IP address that is not in its canonical "
                              "form"
};


authority_error_t
authority_parse(const unsigned char *p, size_t n, uint16_t default_port,
    authority_t *out)
{
    size_t                i, host, colon, colons;
    bool                  bracketed;
    authority_error_t     err;

    memset(out, 0, sizeof(authority_t));

    if (n == 0) {
        return AUTHORITY_EMPTY;
    }

    bracketed = (p[0] == '[');
    colon = n;
    colons = 0;

    for (i = bracketed; i < n; i++) {

        if (p[i] == ':') {
            if (colons++ == 0 && !bracketed) {
                colon = i;
            }

            continue;
        }

        if (p[i] == ']' && bracketed) {
            continue;
        }

        if (authority_lower(p[i]) == 0) {
            return authority_failed(out, AUTHORITY_BAD_BYTE);
        }
    }

    if (bracketed) {

        for (host = 1; host < n && p[host] != ']'; host++) { /* void */ }

        if (host == n || (host + 1 < n && p[host + 1] != ':')) {
            return authority_failed(out, AUTHORITY_BAD_ADDRESS);
        }

        colon = host + 1;
        err = authority_read_ipv6(p + 1, host - 1, out);

    } else {

        /* an IPv6 address without brackets has no knowable port */

        if (colons > 1) {
            return authority_failed(out, AUTHORITY_BAD_ADDRESS);
        }

        err = authority_read_host(p, colon, out);
    }

    if (err != AUTHORITY_OK) {
        return authority_failed(out, err);
    }

    if (colon == n) {

        if (default_port == 0) {
            return authority_failed(out, AUTHORITY_NO_PORT);
        }

        out->port = default_port;

        return AUTHORITY_OK;
    }

    err = authority_read_port(p + colon + 1, n - colon - 1, &out->port);

    if (err != AUTHORITY_OK) {
        return authority_failed(out, err);
    }

    out->has_port = true;

    return AUTHORITY_OK;
}


authority_error_t
authority_parse_host(const unsigned char *p, size_t n, authority_t *out)
{
    size_t             i;
    authority_error_t  err;

    memset(out, 0, sizeof(authority_t));

    for (i = 0; i < n; i++) {
        if (authority_lower(p[i]) == 0) {
            return authority_failed(out, AUTHORITY_BAD_BYTE);
        }
    }

    err = authority_read_host(p, n, out);

    return (err == AUTHORITY_OK) ? err : authority_failed(out, err);
}


bool
authority_same_host(const authority_t *a, const authority_t *b)
{
    return a->kind == b->kind
           && a->host_len == b->host_len
           && memcmp(a->host, b->host, a->host_len) == 0;
}


const char *
authority_strerror(authority_error_t err)
{
    if ((size_t) err >= sizeof(authority_errors) / sizeof(char *)) {
        return "an unknown error";
    }

    return authority_errors[err];
}


/* A name or an IPv4 address; each byte is one of a host. */

static authority_error_t
authority_read_host(const unsigned char *p, size_t n, authority_t *out)
{
    address_t  address;

    if (n == 0) {
        return AUTHORITY_EMPTY;
    }

    if (!authority_ends_in_number(p, n)) {
        return authority_read_name(p, n, out);
    }

    /*
     * Whatever ends in a number is an address for some resolver (inet_aton,
     * the WHATWG URL parser), so it must be one here, in the one spelling
     * that all of them read alike.
     */

    if (!address_parse_v4((const char *) p, n, &address)) {
        return AUTHORITY_BAD_ADDRESS;
    }

    out->kind = AUTHORITY_IPV4;
    out->host_len = (uint8_t) n;
    memcpy(out->host, p, n);
    memcpy(out->address, address.bytes, 4);

    return AUTHORITY_OK;
}


static authority_error_t
authority_read_name(const unsigned char *p, size_t n, authority_t *out)
{
    size_t  i, start;

    if (p[n - 1] == '.') {
        n--;                    /* the root's dot; a second one is a label */
    }

    if (n == 0) {
        return AUTHORITY_EMPTY;
    }

    if (n > AUTHORITY_HOST_MAX) {
        return AUTHORITY_TOO_LONG;
    }

    for (i = 0, start = 0; i <= n; i++) {

        if (i < n && p[i] != '.') {
            out->host[i] = (char) authority_lower(p[i]);
            continue;
        }

        if (i == start || i - start > LABEL_MAX
            || p[start] == '-' || p[i - 1] == '-')
        {
            return AUTHORITY_BAD_LABEL;
        }

        if (i < n) {
            out->host[i] = '.';
        }

        start = i + 1;
    }

    out->kind = AUTHORITY_NAME;
    out->host_len = (uint8_t) n;

    return AUTHORITY_OK;
}


/* The text between the brackets. */

static authority_error_t
authority_read_ipv6(const unsigned char *p, size_t n, authority_t *out)
{
    char       text[ADDRESS_TEXT_MAX];
    size_t     i;
    address_t  address;

    if (n == 0 || n >= sizeof(text)) {
        return AUTHORITY_BAD_ADDRESS;
    }

    for (i = 0; i < n; i++) {
        text[i] = (p[i] == ':') ? ':' : (char) authority_lower(p[i]);
    }

    if (!address_parse_v6(text, n, &address)) {
        return AUTHORITY_BAD_ADDRESS;
    }

    out->kind = AUTHORITY_IPV6;
    out->host_len = (uint8_t) n;
    memcpy(out->host, text, n);
    memcpy(out->address, address.bytes, 16);

    return AUTHORITY_OK;
}


static authority_error_t
authority_read_port(const unsigned char *p, size_t n, uint16_t *port)
{
    size_t    i;
    uint32_t  v;

    if (n == 0 || n > 5 || p[0] == '0') {
        return AUTHORITY_BAD_PORT;
    }

    v = 0;

    for (i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9') {
            return AUTHORITY_BAD_PORT;
        }

        v = v * 10 + (uint32_t) (p[i] - '0');
    }

    if (v > 65535) {
        return AUTHORITY_BAD_PORT;
    }

    *port = (uint16_t) v;

    return AUTHORITY_OK;
}


/* Is the last label (before a dot at the end) all digits, or 0x and hex? */

static bool
authority_ends_in_number(const unsigned char *p, size_t n)
{
    size_t         i, start;
    bool           digits, hex;
    unsigned char  c;

    if (p[n - 1] == '.') {
        n--;
    }

    for (start = n; start > 0 && p[start - 1] != '.'; start--) { /* void */ }

    if (start == n || p[start] < '0' || p[start] > '9') {
        return false;
    }

    digits = true;
    hex = (n - start >= 2 && p[start] == '0'
           && authority_lower(p[start + 1]) == 'x');

    for (i = start; i < n; i++) {
        c = authority_lower(p[i]);

        if (c >= '0' && c <= '9') {
            continue;
        }

        digits = false;

        if (i != start + 1 && (c < 'a' || c > 'f')) {
            hex = false;
        }
    }

    return digits || hex;
}


static authority_error_t
authority_failed(authority_t *out, authority_error_t err)
{
    memset(out, 0, sizeof(authority_t));

    return err;
}


/*
 * A byte of a host in lower case, or 0 for one that no host has; not
 * tolower(), which follows the locale.
 */

static unsigned char
authority_lower(unsigned char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c | 0x20;
    }

    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'
           || c == '.' || c == '_' ? c : 0;
}
