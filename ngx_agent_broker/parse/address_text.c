/*
 * Addresses and ranges as text.  Each address has exactly one text that is
 * accepted, the one that is written: a second spelling is a way past whoever
 * compares text, and every resolver reads the odd ones in its own way.
 */

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "parse/address.h"


static bool address_parse(const char *text, size_t n, bool v6,
    address_t *out);
static bool address_parse_prefix(const char *text, size_t n, unsigned max,
    uint8_t *prefix);


int
address_range_parse(const char *text, size_t n, address_range_t *out,
    const char **err)
{
    size_t      len;
    unsigned    i, bits;
    address_t   a;
    const char *slash;

    memset(out, 0, sizeof(address_range_t));

    slash = memchr(text, '/', n);
    len = slash ? (size_t) (slash - text) : n;

    if (!address_parse_v4(text, len, &a) && !address_parse_v6(text, len, &a)) {
        *err = "must be an IP address or a range like 10.2.0.0/16, in "
               "canonical form";
        return -1;
    }

    bits = a.v6 ? 128 : 32;
    out->prefix = (uint8_t) bits;

    if (slash
        && !address_parse_prefix(slash + 1, n - len - 1, bits, &out->prefix))
    {
        *err = a.v6 ? "must have a prefix length from 0 to 128"
                    : "must have a prefix length from 0 to 32";
        memset(out, 0, sizeof(address_range_t));
        return -1;
    }

    for (i = out->prefix; i < bits; i++) {
        if (a.bytes[i / 8] & (0x80 >> (i % 8))) {
            *err = "has bits set below its prefix length";
            memset(out, 0, sizeof(address_range_t));
            return -1;
        }
    }

    out->v6 = a.v6;
    memcpy(out->bytes, a.bytes, 16);

    return 0;
}


/*
 * inet_ntop, but for IPv4, of which each request writes one: its sprintf would
 * be 2 % of the request's CPU.  And but for ::/96: it writes those as
 * ::192.0.2.1, and RFC 5952 section 5 keeps dots for prefixes that are known
 * to hold IPv4 addresses.
 */

size_t
address_text(const address_t *a, char dst[ADDRESS_TEXT_MAX])
{
    char                        *p;
    unsigned                     i;
    const unsigned char         *b = a->bytes;
    static const unsigned char   zero[12];

    if (!a->v6) {
        for (i = 0, p = dst; i < 4; i++) {
            if (b[i] > 99) {
                *p++ = (char) ('0' + b[i] / 100);
            }

            if (b[i] > 9) {
                *p++ = (char) ('0' + b[i] / 10 % 10);
            }

            *p++ = (char) ('0' + b[i] % 10);
            *p++ = i < 3 ? '.' : '\0';
        }

        return (size_t) (p - dst) - 1;
    }

    if (a->v6 && memcmp(b, zero, 12) == 0 && (b[12] || b[13])) {
        return (size_t) sprintf(dst, "::%x:%x",
                                (unsigned) (b[12] << 8 | b[13]),
                                (unsigned) (b[14] << 8 | b[15]));
    }

    (void) inet_ntop(AF_INET6, b, dst, ADDRESS_TEXT_MAX);

    return strlen(dst);
}


bool
address_parse_v4(const char *text, size_t n, address_t *out)
{
    return address_parse(text, n, false, out);
}


bool
address_parse_v6(const char *text, size_t n, address_t *out)
{
    return address_parse(text, n, true, out);
}


/*
 * inet_pton is strict about the grammar; comparing with the canonical text
 * leaves one spelling an address (and refuses a NUL inside).
 */

static bool
address_parse(const char *text, size_t n, bool v6, address_t *out)
{
    char  copy[ADDRESS_TEXT_MAX], canonical[ADDRESS_TEXT_MAX];

    memset(out, 0, sizeof(address_t));

    if (n >= sizeof(copy)) {
        return false;
    }

    memcpy(copy, text, n);
    copy[n] = '\0';

    out->v6 = v6;

    if (inet_pton(v6 ? AF_INET6 : AF_INET, copy, out->bytes) == 1
        && address_text(out, canonical) == n
        && memcmp(canonical, text, n) == 0)
    {
        return true;
    }

    memset(out, 0, sizeof(address_t));

    return false;
}


static bool
address_parse_prefix(const char *text, size_t n, unsigned max, uint8_t *prefix)
{
    size_t    i;
    unsigned  v;

    if (n == 0 || n > 3 || (n > 1 && text[0] == '0')) {
        return false;
    }

    v = 0;

    for (i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }

        v = v * 10 + (unsigned) (text[i] - '0');
    }

    if (v > max) {
        return false;
    }

    *prefix = (uint8_t) v;

    return true;
}
