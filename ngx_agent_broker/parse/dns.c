/*
 * A query is hostile bytes: it is read once, forward, with a bound at every
 * step, and no compression pointer is followed (a question has none).
 */

#include <stdio.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "parse/dns.h"


#define DNS_HEADER      12
#define DNS_NAME_MAX    255
#define DNS_LABEL_MAX   63

#define DNS_QR          0x8000          /* an answer */
#define DNS_OPCODE      0x7800
#define DNS_AA          0x0400          /* authoritative */
#define DNS_RD          0x0100          /* recursion desired, repeated */
#define DNS_RA          0x0080          /* available: clients expect it */

#define DNS_FORMERR     1
#define DNS_NXDOMAIN    3
#define DNS_NOTIMP      4

#define DNS_TYPE_OPT    41
#define DNS_CLASS_IN    1

#define DNS_TTL         60
#define DNS_EDNS_SIZE   1232            /* what we would take, RFC 9715 */


static uint16_t dns_get16(const unsigned char *p);
static unsigned char *dns_put16(unsigned char *p, uint16_t value);
static size_t dns_name(const unsigned char *p, size_t n, dns_query_t *query);
static int dns_additional(const unsigned char *p, size_t n, unsigned count,
    dns_query_t *query);


dns_kind_t
dns_parse(const unsigned char *p, size_t n, dns_query_t *query)
{
    size_t  used;

    memset(query, 0, sizeof(dns_query_t));

    if (n < DNS_HEADER) {
        return DNS_GARBAGE;
    }

    query->id = dns_get16(p);
    query->flags = dns_get16(p + 2);

    if (query->flags & DNS_QR) {
        return DNS_GARBAGE;             /* never answer an answer */
    }

    if (query->flags & DNS_OPCODE) {
        query->rcode = DNS_NOTIMP;
        return DNS_REFUSED;
    }

    query->rcode = DNS_FORMERR;

    /* one question, no answer and no authority */

    if (dns_get16(p + 4) != 1 || dns_get16(p + 6) != 0
        || dns_get16(p + 8) != 0)
    {
        return DNS_MALFORMED;
    }

    used = dns_name(p + DNS_HEADER, n - DNS_HEADER, query);

    if (used == 0 || n - DNS_HEADER - used < 4) {
        return DNS_MALFORMED;
    }

    query->type = dns_get16(p + DNS_HEADER + used);
    query->class = dns_get16(p + DNS_HEADER + used + 2);

    used += 4;

    if (dns_additional(p + DNS_HEADER + used, n - DNS_HEADER - used,
                       dns_get16(p + 10), query)
        != 0)
    {
        return DNS_MALFORMED;
    }

    query->question = p + DNS_HEADER;
    query->question_len = used;

    if (query->class != DNS_CLASS_IN) {
        query->rcode = DNS_RCODE_REFUSED;
        return DNS_REFUSED;
    }

    query->rcode = 0;

    return DNS_QUERY;
}


size_t
dns_answer(const dns_query_t *query, const unsigned char *address,
    unsigned char *dst)
{
    bool            found;
    uint16_t        rcode;
    unsigned char  *p;

    rcode = query->rcode;

    if (rcode == 0 && address == NULL) {
        rcode = DNS_NXDOMAIN;
    }

    found = (rcode == 0 && query->type == DNS_TYPE_A);

    p = dns_put16(dst, query->id);
    p = dns_put16(p, (uint16_t) (DNS_QR | DNS_AA | DNS_RA
                                 | (query->flags & (DNS_OPCODE | DNS_RD))
                                 | rcode));
    p = dns_put16(p, query->question_len ? 1 : 0);
    p = dns_put16(p, found ? 1 : 0);
    p = dns_put16(p, 0);
    p = dns_put16(p, query->edns ? 1 : 0);

    memcpy(p, query->question ? query->question : dst, query->question_len);
    p += query->question_len;

    if (found) {
        p = dns_put16(p, 0xc000 | DNS_HEADER);  /* the question's name */
        p = dns_put16(p, DNS_TYPE_A);
        p = dns_put16(p, DNS_CLASS_IN);
        p = dns_put16(p, 0);
        p = dns_put16(p, DNS_TTL);
        p = dns_put16(p, 4);
        memcpy(p, address, 4);
        p += 4;
    }

    if (query->edns) {
        *p++ = 0;                       /* the root */
        p = dns_put16(p, DNS_TYPE_OPT);
        p = dns_put16(p, DNS_EDNS_SIZE);
        p = dns_put16(p, 0);
        p = dns_put16(p, 0);
        p = dns_put16(p, 0);
    }

    return (size_t) (p - dst);
}


int
dns_address(const unsigned char *key, size_t key_len, const char *name,
    unsigned char address[4])
{
    unsigned int   len;
    unsigned char  digest[EVP_MAX_MD_SIZE];

    if (HMAC(EVP_sha256(), key, (int) key_len, (const unsigned char *) name,
             strlen(name), digest, &len)
        == NULL)
    {
        return -1;
    }

    address[0] = 198;
    address[1] = (unsigned char) (18 | (digest[0] & 1));
    address[2] = digest[1];
    address[3] = digest[2];

    return 0;
}


/*
 * The name of a question: its length in the message with the root's byte, or
 * 0.  query->text gets it for the record, query->name when it is one.
 */

static size_t
dns_name(const unsigned char *p, size_t n, dns_query_t *query)
{
    char            plain[DNS_NAME_MAX];
    bool            ordinary;
    size_t          i, k, label, len, text;

    len = 0;
    text = 0;
    ordinary = true;

    for (i = 0; i < n && p[i] != 0; i += label + 1) {

        label = p[i];

        /* 0xc0: a pointer; the other high bits were never used */

        if (label > DNS_LABEL_MAX || label >= n - i
            || i + label + 2 > DNS_NAME_MAX)
        {
            return 0;
        }

        if (len) {
            plain[len++] = '.';

            if (text + 1 < sizeof(query->text)) {
                query->text[text++] = '.';
            }
        }

        for (k = i + 1; k <= i + label; k++) {

            plain[len++] = (char) p[k];

            if (p[k] > 0x20 && p[k] < 0x7f && p[k] != '.' && p[k] != '\\') {

                if (text + 1 < sizeof(query->text)) {
                    query->text[text++] = (char) p[k];
                }

                continue;
            }

            ordinary = false;           /* a dot within a label, a control */

            if (text + 5 < sizeof(query->text)) {
                text += (size_t) snprintf(query->text + text, 5, "\\%03u",
                                          (unsigned) p[k]);
            }
        }
    }

    query->text[text] = '\0';

    if (i == n) {
        return 0;                       /* no root */
    }

    if (ordinary
        && (authority_parse_host((const unsigned char *) plain, len,
                                 &query->name) != AUTHORITY_OK
            || query->name.kind != AUTHORITY_NAME))
    {
        memset(&query->name, 0, sizeof(authority_t));
    }

    return i + 1;
}


/* At most an OPT record; what it asks for is ignored.  0, or -1. */

static int
dns_additional(const unsigned char *p, size_t n, unsigned count,
    dns_query_t *query)
{
    size_t  data;

    if (count == 0) {
        return n == 0 ? 0 : -1;
    }

    /* root, type, class, ttl, length: RFC 6891 section 6.1.2 */

    if (count != 1 || n < 11 || p[0] != 0
        || dns_get16(p + 1) != DNS_TYPE_OPT)
    {
        return -1;
    }

    data = dns_get16(p + 9);

    if (data != n - 11) {
        return -1;
    }

    query->edns = true;

    return 0;
}


static uint16_t
dns_get16(const unsigned char *p)
{
    return (uint16_t) ((p[0] << 8) | p[1]);
}


static unsigned char *
dns_put16(unsigned char *p, uint16_t value)
{
    p[0] = (unsigned char) (value >> 8);
    p[1] = (unsigned char) value;

    return p + 2;
}
