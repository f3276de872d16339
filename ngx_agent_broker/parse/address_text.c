/*
 * Addresses and ranges as text.  Each address has exactly one text that is
 * accepted, the one that is written: a second spelling is a way past whoever
 * compares text, and every resolver reads the odd ones in its own way.
 */

#include <arpa/inet.h>
#include <string.h>

#include "parse/address.h"


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


size_t
address_text(const address_t *a, char dst[ADDRESS_TEXT_MAX])
{
    static const char           hex[] = "0123456789abcdef";
    static const unsigned char  mapped[12] = { [10] = 0xff, 0xff };

    int                   shift;
    char                 *p;
    size_t                i, run, best, best_len, words;
    unsigned              v;
    const unsigned char  *b;

    p = dst;
    b = a->bytes;
    words = 0;
    best = 8;
    best_len = 1;               /* one zero word is not shortened */

    if (a->v6) {
        words = (memcmp(b, mapped, 12) == 0) ? 6 : 8;

        /* the first of the longest runs of zero words */

        for (i = 0; i < words; i += run + 1) {

            for (run = 0; i + run < words; run++) {
                if (b[2 * (i + run)] || b[2 * (i + run) + 1]) {
                    break;
                }
            }

            if (run > best_len) {
                best = i;
                best_len = run;
            }
        }
    }

    for (i = 0; i < words; i++) {

        if (i == best) {
            *p++ = ':';
            *p++ = ':';
            i += best_len - 1;
            continue;
        }

        if (i > 0 && p[-1] != ':') {
            *p++ = ':';
        }

        v = (unsigned) (b[2 * i] << 8 | b[2 * i + 1]);

        for (shift = 12; shift > 0 && (v >> shift) == 0; shift -= 4) {
            /* void */
        }

        for ( /* void */ ; shift >= 0; shift -= 4) {
            *p++ = hex[(v >> shift) & 0xf];
        }
    }

    if (words != 8) {

        if (words) {
            *p++ = ':';
            b += 12;
        }

        for (i = 0; i < 4; i++) {
            v = b[i];

            if (v >= 100) {
                *p++ = hex[v / 100];
            }

            if (v >= 10) {
                *p++ = hex[v / 10 % 10];
            }

            *p++ = hex[v % 10];

            if (i < 3) {
                *p++ = '.';
            }
        }
    }

    *p = '\0';

    return (size_t) (p - dst);
}


bool
address_parse_v4(const char *text, size_t n, address_t *out)
{
    size_t    i, octet, digits;
    unsigned  v;

    memset(out, 0, sizeof(address_t));

    v = 0;
    octet = 0;
    digits = 0;

    for (i = 0; i <= n; i++) {

        if (i < n && text[i] >= '0' && text[i] <= '9') {

            /* a leading zero means octal to some readers */

            if (digits > 0 && v == 0) {
                break;
            }

            v = v * 10 + (unsigned) (text[i] - '0');
            digits++;

            if (v > 255) {
                break;
            }

            continue;
        }

        if (digits == 0 || octet == 4 || (i < n && text[i] != '.')) {
            break;
        }

        out->bytes[octet++] = (unsigned char) v;
        v = 0;
        digits = 0;
    }

    if (i == n + 1 && octet == 4) {
        return true;
    }

    memset(out, 0, sizeof(address_t));

    return false;
}


bool
address_parse_v6(const char *text, size_t n, address_t *out)
{
    char  copy[ADDRESS_TEXT_MAX], canonical[ADDRESS_TEXT_MAX];

    memset(out, 0, sizeof(address_t));

    if (n >= sizeof(copy)) {
        return false;
    }

    memcpy(copy, text, n);
    copy[n] = '\0';

    out->v6 = true;

    /*
     * inet_pton is strict about the grammar; comparing with the canonical
     * text leaves one spelling an address (and refuses a NUL inside).
     */

    if (inet_pton(AF_INET6, copy, out->bytes) == 1
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
