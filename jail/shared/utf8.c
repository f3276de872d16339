/*
 * The decoder follows the table of RFC 3629: the first byte decides how many
 * bytes follow, and only the second byte has bounds of its own.
 */

#include <stdio.h>
#include <string.h>

#include "jail/shared/utf8.h"


static bool utf8_second_is_valid(unsigned char first, unsigned char second);
static uint32_t utf8_code(const utf8_t *u);
static bool utf8_is_no_control(uint32_t code);
static bool utf8_is_shown(uint32_t code);


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
utf8_is_valid(const char *text, size_t len, utf8_judge_pt *is_fine,
    bool may_be_cut)
{
    size_t  i;
    utf8_t  u;

    u = (utf8_t) { 0 };

    for (i = 0; i < len; i++) {

        switch (utf8_step(&u, (unsigned char) text[i])) {

        case UTF8_MORE:
            break;

        case UTF8_DONE:

            if (is_fine && !is_fine(utf8_code(&u))) {
                return false;
            }

            break;

        default:
            return false;
        }
    }

    return u.need == 0 || may_be_cut;
}


bool
utf8_is_printable(const char *text)
{
    return utf8_is_valid(text, strlen(text), utf8_is_no_control, false);
}


static bool
utf8_is_no_control(uint32_t code)
{
    return code >= 0x20 && (code < 0x7f || code >= 0xa0);
}


/* Of a complete character: its first byte has a leading bit for each byte. */

static uint32_t
utf8_code(const utf8_t *u)
{
    uint32_t  code;
    unsigned  i;

    code = u->have > 1 ? u->bytes[0] & (0x7f >> u->have) : u->bytes[0];

    for (i = 1; i < u->have; i++) {
        code = code << 6 | (u->bytes[i] & 0x3f);
    }

    return code;
}


void
utf8_escape(const char *text, char *dst, size_t cap)
{
    char                   piece[4 * 4 + 1];
    size_t                 n;
    utf8_t                 u;
    unsigned               i, len;
    utf8_step_t            step;
    const unsigned char   *p;

    p = (const unsigned char *) text;

    for (n = 0; *p; p += len) {
        u = (utf8_t) { 0 };

        /* a NUL ends an incomplete character, and is never skipped */

        for (len = 1; (step = utf8_step(&u, p[len - 1])) == UTF8_MORE; len++) {
            /* void */
        }

        if (step == UTF8_DONE && utf8_is_shown(utf8_code(&u))) {
            (void) memcpy(piece, p, len);
            piece[len] = '\0';

        } else if (p[0] == '\\') {
            (void) strcpy(piece, "\\\\");

        } else {

            /* of a bad sequence the last byte may begin the next one */

            len = step == UTF8_DONE ? len : 1;

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


/* Those refused change the direction of the text after them. */

static bool
utf8_is_shown(uint32_t code)
{
    return utf8_is_no_control(code) && code != '\\'
           && code != 0x200e && code != 0x200f
           && (code < 0x202a || code > 0x202e)
           && (code < 0x2066 || code > 0x2069);
}
