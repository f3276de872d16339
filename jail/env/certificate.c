/*
 * PEM by its two lines and base64 (RFC 7468).  The text comes from the broker,
 * and is still read as a stranger's.
 */

#include <string.h>

#include "env/certificate.h"


static int certificate_digit(char c);


long
certificate_next(const char **pem, uint8_t der[CERTIFICATE_DER_MAX])
{
    int          digit;
    size_t       n, bits;
    uint32_t     value;
    const char  *p, *end;

    static const char  begin[] = "-----BEGIN CERTIFICATE-----";
    static const char  finish[] = "-----END CERTIFICATE-----";

    p = strstr(*pem, "-----BEGIN ");

    if (p == NULL) {
        return 0;
    }

    end = strstr(p, finish);

    if (strncmp(p, begin, sizeof(begin) - 1) != 0 || end == NULL) {
        return -1;
    }

    n = 0;
    bits = 0;
    value = 0;

    for (p += sizeof(begin) - 1; p < end; p++) {

        if (strchr(" \t\r\n=", *p)) {
            continue;
        }

        digit = certificate_digit(*p);

        if (digit == -1) {
            return -1;
        }

        value = value << 6 | (uint32_t) digit;
        bits += 6;

        if (bits >= 8) {

            if (n == CERTIFICATE_DER_MAX) {
                return -1;
            }

            bits -= 8;
            der[n++] = (uint8_t) (value >> bits);
        }
    }

    *pem = end + sizeof(finish) - 1;

    return n ? (long) n : -1;
}


static int
certificate_digit(char c)
{
    const char  *p;

    static const char  digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    p = c ? strchr(digits, c) : NULL;

    return p ? (int) (p - digits) : -1;
}
