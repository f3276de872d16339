/*
 * Reads the head of a CONNECT request: its target, and that whatever else
 * names it agrees.
 *
 * Sources: RFC 9110 section 9.3.6, RFC 9112 section 3.2.3.
 */

#pragma once

#include <stddef.h>

#include "parse/authority.h"


#define CONNECT_METHOD      "CONNECT "
#define CONNECT_METHOD_LEN  (sizeof(CONNECT_METHOD) - 1)


typedef enum {
    CONNECT_OK = 0,
    CONNECT_MALFORMED,          /* *why says how */
    CONNECT_MISMATCH            /* Host names another target */
} connect_error_t;


typedef struct {
    authority_t           authority;    /* set as far as it could be read */
    const unsigned char  *line;         /* into the head, without its end */
    size_t                line_len;
    const unsigned char  *host;         /* the value of Host; NULL: none */
    size_t                host_len;
} connect_t;


/* The length of a head with its empty line; 0 while that is missing. */
size_t connect_head_length(const unsigned char *p, size_t n);

/*
 * n bytes that begin with CONNECT_METHOD; a head that is not complete is
 * malformed.  *why gets a constant sentence after an error.
 */
connect_error_t connect_parse(const unsigned char *p, size_t n,
    connect_t *out, const char **why);
