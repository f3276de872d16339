/*
 * Reads the name that a TLS client hello asks for, without TLS: for tunnels
 * that are passed through untouched.
 *
 * Sources: RFC 8446 sections 4.1.2, 5.1; RFC 6066 section 3.
 */

#pragma once

#include <stddef.h>

#include "parse/authority.h"


#define HELLO_MAX  16384        /* the largest hello that is waited for */


typedef enum {
    HELLO_OK = 0,               /* *name is set */
    HELLO_MORE,                 /* a prefix of one so far */
    HELLO_NO_NAME,              /* a hello without server_name */
    HELLO_ENCRYPTED,            /* with an encrypted one as well (ECH): what
                                   it asks for is not known */
    HELLO_MALFORMED
} hello_error_t;


/* The first n bytes of a connection.  *name is all zero after an error. */
hello_error_t client_hello_parse(const unsigned char *p, size_t n,
    authority_t *name);

/*
 * The server_name extension's content: exactly one host name, and that a
 * valid one (port 0).  HELLO_OK or HELLO_MALFORMED.
 */
hello_error_t client_hello_server_name(const unsigned char *p, size_t n,
    authority_t *name);
