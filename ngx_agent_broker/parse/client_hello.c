/*
 * A cursor that never leaves its bytes: each read says how much it wants, and
 * once one has failed all later ones do.
 */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "parse/client_hello.h"


#define HELLO_RECORD_HANDSHAKE  22
#define HELLO_RECORD_MAX        16384
#define HELLO_CLIENT            1

#define HELLO_EXT_SERVER_NAME   0
#define HELLO_EXT_ECH           0xfe0d      /* RFC 9849 */


typedef struct {
    const unsigned char  *p;
    size_t                n;
    bool                  failed;
} cursor_t;


static uint32_t client_hello_number(cursor_t *c, size_t bytes);
static cursor_t client_hello_vector(cursor_t *c, size_t bytes);
static hello_error_t client_hello_message(const unsigned char *p, size_t n,
    authority_t *name);


hello_error_t
client_hello_parse(const unsigned char *p, size_t n, authority_t *name)
{
    size_t         used, len, have, need;
    hello_error_t  err;
    unsigned char  message[HELLO_MAX];

    memset(name, 0, sizeof(authority_t));

    have = 0;
    need = 4;

    /* the message may be cut into records of any size */

    for (used = 0; have < need; used += 5 + len) {

        if (used + 5 > n) {

            if (n > used && p[used] != HELLO_RECORD_HANDSHAKE) {
                return HELLO_MALFORMED;
            }

            return n < HELLO_MAX ? HELLO_MORE : HELLO_MALFORMED;
        }

        len = ((size_t) p[used + 3] << 8) | p[used + 4];

        if (p[used] != HELLO_RECORD_HANDSHAKE || p[used + 1] != 3
            || len == 0 || len > HELLO_RECORD_MAX)
        {
            return HELLO_MALFORMED;
        }

        if (have + len > sizeof(message)) {
            return HELLO_MALFORMED;
        }

        if (used + 5 + len > n) {
            return n < HELLO_MAX ? HELLO_MORE : HELLO_MALFORMED;
        }

        memcpy(message + have, p + used + 5, len);
        have += len;

        if (have >= 4) {

            if (message[0] != HELLO_CLIENT) {
                return HELLO_MALFORMED;
            }

            need = 4 + (((size_t) message[1] << 16)
                        | ((size_t) message[2] << 8) | message[3]);

            if (need > sizeof(message)) {
                return HELLO_MALFORMED;
            }
        }
    }

    /* nothing may follow the hello before it is answered */

    if (have != need) {
        return HELLO_MALFORMED;
    }

    err = client_hello_message(message + 4, need - 4, name);

    if (err != HELLO_OK) {
        memset(name, 0, sizeof(authority_t));       /* half of it is none */
    }

    return err;
}


hello_error_t
client_hello_server_name(const unsigned char *p, size_t n, authority_t *name)
{
    cursor_t  c, list, host;

    memset(name, 0, sizeof(authority_t));

    c.p = p;
    c.n = n;
    c.failed = false;

    list = client_hello_vector(&c, 2);

    if (c.failed || c.n != 0 || client_hello_number(&list, 1) != 0) {
        return HELLO_MALFORMED;
    }

    host = client_hello_vector(&list, 2);

    if (list.failed || list.n != 0
        || authority_parse_host(host.p, host.n, name) != AUTHORITY_OK
        || name->kind != AUTHORITY_NAME)
    {
        memset(name, 0, sizeof(authority_t));
        return HELLO_MALFORMED;
    }

    return HELLO_OK;
}


static hello_error_t
client_hello_message(const unsigned char *p, size_t n, authority_t *name)
{
    bool           seen, encrypted;
    cursor_t       c, extensions, content;
    uint32_t       type;
    hello_error_t  err;

    seen = false;
    encrypted = false;

    c.p = p;
    c.n = n;
    c.failed = false;

    (void) client_hello_number(&c, 2);             /* legacy_version */

    if (c.n < 32) {
        return HELLO_MALFORMED;
    }

    c.p += 32;                              /* random */
    c.n -= 32;

    (void) client_hello_vector(&c, 1);             /* legacy_session_id */
    (void) client_hello_vector(&c, 2);             /* cipher_suites */
    (void) client_hello_vector(&c, 1);             /* compression_methods */

    if (c.failed) {
        return HELLO_MALFORMED;
    }

    if (c.n == 0) {
        return HELLO_NO_NAME;
    }

    extensions = client_hello_vector(&c, 2);

    if (c.failed || c.n != 0) {
        return HELLO_MALFORMED;
    }

    while (extensions.n) {

        type = client_hello_number(&extensions, 2);
        content = client_hello_vector(&extensions, 2);

        if (extensions.failed) {
            return HELLO_MALFORMED;
        }

        if (type == HELLO_EXT_ECH) {
            encrypted = true;
        }

        if (type != HELLO_EXT_SERVER_NAME) {
            continue;
        }

        if (seen) {
            return HELLO_MALFORMED;
        }

        seen = true;

        err = client_hello_server_name(content.p, content.n, name);
        if (err != HELLO_OK) {
            return err;
        }
    }

    if (encrypted) {
        return HELLO_ENCRYPTED;
    }

    return seen ? HELLO_OK : HELLO_NO_NAME;
}


static uint32_t
client_hello_number(cursor_t *c, size_t bytes)
{
    uint32_t  value;

    if (c->failed || c->n < bytes) {
        c->failed = true;
        return 0;
    }

    for (value = 0; bytes; bytes--) {
        value = (value << 8) | *c->p++;
        c->n--;
    }

    return value;
}


/* A length of so many bytes, and that much. */

static cursor_t
client_hello_vector(cursor_t *c, size_t bytes)
{
    uint32_t  len;
    cursor_t  inner;

    len = client_hello_number(c, bytes);

    memset(&inner, 0, sizeof(cursor_t));

    if (c->failed || len > c->n) {
        c->failed = true;
        inner.failed = true;
        return inner;
    }

    inner.p = c->p;
    inner.n = len;

    c->p += len;
    c->n -= len;

    return inner;
}
