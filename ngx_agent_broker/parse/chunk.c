/* Follows the framing of a chunked body. */

#include "parse/chunk.h"


#define CHUNK_DIGITS_MAX  15            /* 60 bits */


enum {
    CHUNK_SIZE = 0,
    CHUNK_EXTENSION,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    CHUNK_TRAILER,                      /* the first byte of a line */
    CHUNK_TRAILER_LINE,
    CHUNK_TRAILER_LF,
    CHUNK_LAST_LF,
    CHUNK_ENDED,
    CHUNK_REFUSED
};


static int chunk_byte(chunk_t *c, unsigned char ch);
static int chunk_size(chunk_t *c, unsigned char ch);
static int chunk_digit(unsigned char ch);


chunk_result_t
chunk_follow(chunk_t *c, const unsigned char *data, size_t n)
{
    size_t  i;

    for (i = 0; i < n && c->state < CHUNK_ENDED; i++) {

        if (c->state == CHUNK_DATA && c->left) {

            if (n - i < c->left) {
                c->left -= n - i;
                break;
            }

            i += c->left;
            c->left = 0;
            c->state = CHUNK_DATA_CR;

            if (i == n) {
                break;
            }
        }

        c->state = (uint8_t) chunk_byte(c, data[i]);
    }

    return c->state == CHUNK_ENDED ? CHUNK_END
           : c->state == CHUNK_REFUSED ? CHUNK_MALFORMED : CHUNK_MORE;
}


/* The state after a byte of the framing. */

static int
chunk_byte(chunk_t *c, unsigned char ch)
{
    if (++c->line > CHUNK_LINE_MAX) {
        return CHUNK_REFUSED;
    }

    if (c->state >= CHUNK_TRAILER && ++c->trailers > CHUNK_TRAILERS_MAX) {
        return CHUNK_REFUSED;
    }

    switch (c->state) {

    case CHUNK_SIZE:
        return chunk_size(c, ch);

    case CHUNK_EXTENSION:
    case CHUNK_TRAILER_LINE:

        if (ch == '\r') {
            return c->state == CHUNK_EXTENSION ? CHUNK_SIZE_LF
                                               : CHUNK_TRAILER_LF;
        }

        return (ch >= ' ' || ch == '\t') && ch != 127 ? c->state
                                                      : CHUNK_REFUSED;

    case CHUNK_SIZE_LF:
        c->line = 0;
        c->digits = 0;

        if (ch != '\n') {
            return CHUNK_REFUSED;
        }

        return c->left ? CHUNK_DATA : CHUNK_TRAILER;

    case CHUNK_DATA_CR:
        return ch == '\r' ? CHUNK_DATA_LF : CHUNK_REFUSED;

    case CHUNK_DATA_LF:
        c->line = 0;
        return ch == '\n' ? CHUNK_SIZE : CHUNK_REFUSED;

    case CHUNK_TRAILER:

        if (ch == '\r') {
            return CHUNK_LAST_LF;
        }

        return ch > ' ' && ch != 127 ? CHUNK_TRAILER_LINE : CHUNK_REFUSED;

    case CHUNK_TRAILER_LF:
        c->line = 0;
        return ch == '\n' ? CHUNK_TRAILER : CHUNK_REFUSED;

    default: /* CHUNK_LAST_LF */
        return ch == '\n' ? CHUNK_ENDED : CHUNK_REFUSED;
    }
}


static int
chunk_size(chunk_t *c, unsigned char ch)
{
    int  digit;

    digit = chunk_digit(ch);

    if (digit >= 0) {
        c->left = c->left * 16 + (unsigned) digit;
        return ++c->digits <= CHUNK_DIGITS_MAX ? CHUNK_SIZE : CHUNK_REFUSED;
    }

    if (c->digits == 0) {
        return CHUNK_REFUSED;
    }

    switch (ch) {

    case '\r':
        return CHUNK_SIZE_LF;

    case ';':
    case ' ':
    case '\t':
        return CHUNK_EXTENSION;

    default:
        return CHUNK_REFUSED;
    }
}


static int
chunk_digit(unsigned char ch)
{
    if (ch >= '0' && ch <= '9') {
        return ch - '0';
    }

    ch |= 0x20;

    return ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : -1;
}
