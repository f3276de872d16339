/* Messages put together byte by byte, to be given to a parser. */

#pragma once

#include "unit.h"


typedef struct {
    unsigned char  p[32768];
    size_t         n;
} bytes_t;


static inline void
bytes_add(bytes_t *b, const void *p, size_t n)
{
    assert_true(b->n + n <= sizeof(b->p));
    memcpy(b->p + b->n, p, n);
    b->n += n;
}


/* A number in so many bytes, the highest first. */

static inline void
bytes_add_number(bytes_t *b, size_t value, size_t bytes)
{
    unsigned char  c;

    while (bytes--) {
        c = (unsigned char) (value >> (8 * bytes));
        bytes_add(b, &c, 1);
    }
}
