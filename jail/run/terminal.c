/*
 * The grammar is ECMA-48's, with both forms of its controls: ESC and a byte,
 * or one character U+0080 to U+009F.  A sequence is dropped from its first
 * byte on, so that nothing of it reaches the terminal; a line feed ends one
 * that has no end, so that it does not hide the rest of the output.
 */

#include <stdbool.h>
#include <string.h>

#include "run/terminal.h"


static bool terminal_is_shown(terminal_t *t, const unsigned char *c,
    unsigned n);
static bool terminal_text(terminal_t *t, unsigned c);


size_t
terminal_filter(terminal_t *t, const char *data, size_t n, char *dst)
{
    size_t  i, len;

    for (i = 0, len = 0; i < n; /* void */) {

        switch (utf8_step(&t->utf8, (unsigned char) data[i])) {

        case UTF8_MORE:
            i++;
            break;

        case UTF8_DONE:
            i++;

            if (terminal_is_shown(t, t->utf8.bytes, t->utf8.have)) {
                (void) memcpy(dst + len, t->utf8.bytes, t->utf8.have);
                len += t->utf8.have;
            }

            break;

        case UTF8_BAD:
            i++;
            /* fall through */

        case UTF8_BAD_AGAIN:

            if (t->state == TERMINAL_TEXT) {
                dst[len++] = '?';
            }

            break;
        }
    }

    return len;
}


static bool
terminal_is_shown(terminal_t *t, const unsigned char *bytes, unsigned n)
{
    unsigned  c;

    /* above U+009F there is only text: its number does not matter */

    c = n == 1 ? bytes[0] : n == 2 && bytes[0] == 0xc2 ? bytes[1] : 0x100;

    if (c == '\n' || c == 0x18 || c == 0x1a) {          /* CAN, SUB */
        t->state = TERMINAL_TEXT;
        return c == '\n';
    }

    switch (t->state) {

    case TERMINAL_TEXT:
        break;

    case TERMINAL_ESCAPE:

        if (c == '[') {
            t->state = TERMINAL_CSI;

        } else if (c < 0x80 && c != '\0' && strchr("PX]^_", (int) c)) {
            t->state = TERMINAL_STRING;

        } else if ((c < 0x20 || c > 0x2f) && c != 0x1b) {
            t->state = TERMINAL_TEXT;
        }

        return false;

    case TERMINAL_CSI:

        if (c == 0x1b) {
            t->state = TERMINAL_ESCAPE;

        } else if (c >= 0x40) {
            t->state = TERMINAL_TEXT;
        }

        return false;

    case TERMINAL_STRING:

        if (c == 0x1b) {
            t->state = TERMINAL_ESCAPE;

        } else if (c == 0x07 || c == 0x9c) {
            t->state = TERMINAL_TEXT;
        }

        return false;
    }

    return terminal_text(t, c);
}


static bool
terminal_text(terminal_t *t, unsigned c)
{
    switch (c) {

    case 0x1b:
        t->state = TERMINAL_ESCAPE;
        return false;

    case 0x9b:
        t->state = TERMINAL_CSI;
        return false;

    case 0x90:
    case 0x98:
    case 0x9d:
    case 0x9e:
    case 0x9f:
        t->state = TERMINAL_STRING;
        return false;

    case '\t':
    case '\r':
        return true;

    default:
        return c >= 0x20 && (c < 0x7f || c > 0x9f);
    }
}
