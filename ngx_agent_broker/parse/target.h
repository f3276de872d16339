/*
 * Reads the target of one request: the request line and the Host header, as
 * received, into one authority and one path.  Whatever names the target must
 * agree, or there is no target.
 *
 * Sources: RFC 9112 sections 3.2 and 3.2.2, RFC 9110 section 7.2.
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "parse/authority.h"


typedef enum {
    TARGET_OK = 0,
    TARGET_MALFORMED,           /* of any kind; *why says which */
    TARGET_MISMATCH             /* request line and Host name two targets */
} target_error_t;


typedef struct {
    authority_t           authority;   /* port: written, or by the scheme */
    bool                  absolute;    /* absolute-form */
    bool                  https;       /* "https://" was written */
    const unsigned char  *method;      /* into the request line */
    size_t                method_len;
    const unsigned char  *path;        /* into the request line, up to "?";
                                          "/" where it was empty */
    size_t                path_len;
    const unsigned char  *query;       /* after "?"; NULL without one */
    size_t                query_len;
} target_t;


/*
 * line: "GET http://host/path HTTP/1.1", n bytes without its CRLF.  host: the
 * value of the Host header, NULL without one.  *why gets a constant sentence
 * after an error; *out is all zero then.
 */
target_error_t target_parse(const unsigned char *line, size_t n,
    const unsigned char *host, size_t host_len, target_t *out,
    const char **why);
