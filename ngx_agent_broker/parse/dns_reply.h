/*
 * The client's side of DNS: writes a question to a name server, and reads what
 * comes back, which may be anybody's bytes.  One question a message, as every
 * name server expects it.
 *
 * Sources: RFC 1035 section 4 (messages, aliases), RFC 2181 sections 5.4.1
 * and 8 (what to believe, times to live), RFC 2308 section 2 (no such name, no
 * data), RFC 5452 section 9 (what an answer must match).
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parse/address.h"


#define DNS_WIRE_MAX       255          /* a name's bytes in a message */
#define DNS_QUESTION_MAX   (12 + DNS_WIRE_MAX + 4)
#define DNS_REPLY_MAX      16384        /* longer ones are not read */
#define DNS_ADDRESSES_MAX  128          /* of one type; the rest is not used */

#define DNS_TYPE_AAAA      28           /* DNS_TYPE_A is in dns.h */


/* A name as in a message: labels in lower case, and the root's byte. */

typedef struct {
    size_t         len;
    unsigned char  wire[DNS_WIRE_MAX];
} dns_name_t;


typedef struct {
    size_t         len;
    unsigned char  bytes[DNS_QUESTION_MAX];
} dns_question_t;


typedef enum {
    DNS_FOUND = 0,              /* addresses: none means no data */
    DNS_ALIAS,                  /* and no address: ask for `alias` */
    DNS_NO_NAME,                /* no such name */
    DNS_SERVER_REFUSED,
    DNS_SERVER_FAILED,          /* SERVFAIL, or another error */
    DNS_CUT,                    /* too long for UDP: ask over TCP */
    DNS_BAD,                    /* an answer to the question, malformed */
    DNS_OTHER                   /* no answer to this question: to be ignored */
} dns_reply_kind_t;


typedef struct {
    size_t      count;
    address_t   addresses[DNS_ADDRESSES_MAX];
    uint32_t    ttl;            /* the least of what was used; s */
    dns_name_t  alias;
} dns_reply_t;


/* A host's name, as an authority has it: 0, or -1 if none can be asked for. */
int dns_name_set(dns_name_t *name, const char *text, size_t n);

void dns_question_write(dns_question_t *question, uint16_t id,
    const dns_name_t *name, uint16_t type);

/* Reads n bytes.  *reply is set for DNS_FOUND and DNS_ALIAS. */
dns_reply_kind_t dns_reply_parse(const unsigned char *p, size_t n,
    const dns_question_t *question, dns_reply_t *reply);
