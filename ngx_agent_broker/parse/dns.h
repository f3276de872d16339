/*
 * The name server of the boxes: reads one query, writes one answer.  Nothing
 * is ever forwarded.  An allowed name has an address that leads to the web
 * doors (every address does, in a box); anything else does not exist.
 *
 * Sources: RFC 1035 section 4 (messages), RFC 6891 (EDNS), RFC 8482 (ANY),
 * RFC 2308 (NODATA), RFC 2544 (198.18.0.0/15).
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parse/authority.h"


#define DNS_ANSWER_MAX  512             /* every answer fits */
#define DNS_TYPE_A      1

#define DNS_RCODE_REFUSED  5


typedef enum {
    DNS_QUERY = 0,              /* name and type are set */
    DNS_REFUSED,                /* readable, answered with an error */
    DNS_MALFORMED,              /* readable enough to say FORMERR */
    DNS_GARBAGE                 /* no header, or an answer: no answer to it */
} dns_kind_t;


typedef struct {
    uint16_t              id;
    uint16_t              flags;
    uint16_t              type;
    uint16_t              class;
    bool                  edns;
    authority_t           name;        /* no host: not one that a policy can
                                          name */
    char                  text[256];   /* as asked, escaped as "\046"; for
                                          the record */
    const unsigned char  *question;    /* into the query, to be repeated */
    size_t                question_len;
    uint16_t              rcode;       /* of DNS_REFUSED, DNS_MALFORMED */
} dns_query_t;


/* Reads n bytes, which must stay while *query is used. */
dns_kind_t dns_parse(const unsigned char *p, size_t n, dns_query_t *query);

/*
 * Writes the answer to at least DNS_ANSWER_MAX bytes; its length.  address:
 * four bytes in network order for a name that is allowed, NULL for one that
 * does not exist.  A type other than A gets NODATA.
 */
size_t dns_answer(const dns_query_t *query, const unsigned char *address,
    unsigned char *dst);

/*
 * The address of a name, in 198.18.0.0/15: a keyed hash (HMAC-SHA256), so
 * there is no table for a box to fill.  0, or -1 when OpenSSL fails.
 */
int dns_address(const unsigned char *key, size_t key_len, const char *name,
    unsigned char address[4]);
