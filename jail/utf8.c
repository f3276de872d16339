/*
 * The decoder follows the table of RFC 3629: what may follow is known from
 * the first byte, and only the second byte has bounds of its own.
 */

#include "utf8.h"


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
