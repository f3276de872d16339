/*
 * The one strict parser of authorities (host and port), used for everything
 * that names a target: the request line, Host, a CONNECT target, SNI, and the
 * names in a policy.  What it accepts is a value that cannot be wrong: two
 * authorities that name one target are equal byte for byte.
 *
 * Sources: RFC 3986 section 3.2, RFC 9110 section 7.2, RFC 1123 section 2.1,
 * RFC 5952 (canonical IPv6 text).
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>


#define AUTHORITY_HOST_MAX  253


typedef enum {
    AUTHORITY_NAME = 0,
    AUTHORITY_IPV4,
    AUTHORITY_IPV6
} authority_kind_t;


typedef enum {
    AUTHORITY_OK = 0,
    AUTHORITY_EMPTY,            /* no host */
    AUTHORITY_BAD_BYTE,         /* control, space, % @ \ # / ? non-ASCII ... */
    AUTHORITY_BAD_LABEL,        /* empty, over 63 bytes, "-" at an end */
    AUTHORITY_TOO_LONG,         /* host over 253 bytes */
    AUTHORITY_BAD_PORT,         /* not 1..65535 in canonical decimal */
    AUTHORITY_NO_PORT,          /* a port is required here */
    AUTHORITY_BAD_ADDRESS       /* an IP address, but not canonical */
} authority_error_t;


typedef struct {
    authority_kind_t  kind;
    bool              has_port;        /* a port was written */
    uint16_t          port;            /* the written one, else the default */
    uint8_t           host_len;
    char              host[AUTHORITY_HOST_MAX + 1];
                                       /* lower case, one trailing dot
                                          dropped, no brackets, ends in NUL */
    unsigned char     address[16];     /* of a literal, network byte order */
} authority_t;


/*
 * Parses n bytes at p into *out.  default_port is taken where none is
 * written; 0 makes a written port mandatory (CONNECT).  An IPv6 literal must
 * be in brackets and canonical, an IPv4 one canonical dotted decimal; a name
 * whose last label is all digits or 0x... is a bad address, never a name.
 * Labels: letters, digits, "-" and "_".  *out is all zero after an error.
 */
authority_error_t authority_parse(const unsigned char *p, size_t n,
    uint16_t default_port, authority_t *out);

/* The same for a bare host (SNI, a DNS name): no port, no brackets. */
authority_error_t authority_parse_host(const unsigned char *p, size_t n,
    authority_t *out);

/* Same host (kind and bytes); the ports are not looked at. */
bool authority_same_host(const authority_t *a, const authority_t *b);

/* A short constant sentence for an error, for logs and refusals. */
const char *authority_strerror(authority_error_t err);
