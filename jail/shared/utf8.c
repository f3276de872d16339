/*
 * The decoder follows the table of RFC 3629: what may follow is known from
 * the first byte, and only the second byte has bounds of its own.
 */

#include <stdio.h>
#include <string.h>

#include "jail/shared/utf8.h"


static bool utf8_is_shown(const unsigned char *bytes, unsigned n);
static bool utf8_second_is_valid(unsigned char first, unsigned char second);


utf8_step_t
utf8_step(utf8_t *u, unsigned char c)
{
    if (u->need == 0) {
        u->bytes[0] = c;
        u->have = 1;

        if (c < 0x80) {
            return UTF8_DONE;
        }

        if (c >= 0xc2 && c <= 0xdf) {
            u->need = 2;

        } else if (c >= 0xe0 && c <= 0xef) {
            u->need = 3;

        } else if (c >= 0xf0 && c <= 0xf4) {
            u->need = 4;

        } else {
            return UTF8_BAD;
        }

        return UTF8_MORE;
    }

    if ((c & 0xc0) != 0x80
        || (u->have == 1 && !utf8_second_is_valid(u->bytes[0], c)))
    {
        u->need = 0;
        return UTF8_BAD_AGAIN;
    }

    u->bytes[u->have++] = c;

    if (u->have < u->need) {
        return UTF8_MORE;
    }

    u->need = 0;

    return UTF8_DONE;
}


static bool
utf8_second_is_valid(unsigned char first, unsigned char second)
{
    switch (first) {

    case 0xe0:
        return second >= 0xa0;          /* else overlong */

    case 0xed:
        return second <= 0x9f;          /* else a surrogate */

    case 0xf0:
        return second >= 0x90;          /* else overlong */

    case 0xf4:
        return second <= 0x8f;          /* else beyond U+10FFFF */

    default:
        return true;
    }
}


bool
utf8_is_printable(const char *text)
{
    utf8_t                u;
    const unsigned char  *p;

    u = (utf8_t) { 0 };

    for (p = (const unsigned char *) text; *p; p++) {

        switch (utf8_step(&u, *p)) {

        case UTF8_MORE:
            continue;

        case UTF8_DONE:
            break;

        default:
            return false;
        }

        if (u.bytes[0] < 0x20 || u.bytes[0] == 0x7f
            || (u.bytes[0] == 0xc2 && u.bytes[1] < 0xa0))
        {
            return false;
        }
    }

    return u.need == 0;
}


void
utf8_escape(const char *text, char *dst, size_t cap)
{
    char                   piece[4 * 4 + 1];
    size_t                 n;
    utf8_t                 u;
    unsigned               i, len;
    const unsigned char   *p;

    p = (const unsigned char *) text;

    for (n = 0; *p; p += len) {
        u = (utf8_t) { 0 };

        /* a NUL ends a character that is cut, and is not passed over */

        for (len = 1; utf8_step(&u, p[len - 1]) == UTF8_MORE; len++) {
            /* void */
        }

        if (u.have == len && utf8_is_shown(p, len)) {
            (void) memcpy(piece, p, len);
            piece[len] = '\0';

        } else if (p[0] == '\\') {
            (void) strcpy(piece, "\\\\");

        } else {

            /* of a bad sequence the last byte may begin the next one */

            len = u.have == len ? len : 1;

            for (i = 0; i < len; i++) {
                (void) sprintf(piece + 4 * i, "\\x%02x", p[i]);
            }
        }

        if (n + strlen(piece) >= cap) {
            break;
        }

        (void) strcpy(dst + n, piece);
        n += strlen(piece);
    }

    dst[n] = '\0';
}


/* U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069: the bidi controls */

static bool
utf8_is_shown(const unsigned char *b, unsigned n)
{
    if (n == 1) {
        return b[0] >= 0x20 && b[0] < 0x7f && b[0] != '\\';
    }

    if (n == 2) {
        return b[0] != 0xc2 || b[1] >= 0xa0;
    }

    return !(n == 3 && b[0] == 0xe2
             && ((b[1] == 0x80 && (b[2] == 0x8e || b[2] == 0x8f
                                   || (b[2] >= 0xaa && b[2] <= 0xae)))
                 || (b[1] == 0x81 && b[2] >= 0xa6 && b[2] <= 0xa9)));
}
