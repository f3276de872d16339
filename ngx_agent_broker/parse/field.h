/*
 * The bytes of header fields: names are tokens, values hold no control byte
 * but HTAB.  RFC 9110 sections 5.1, 5.5 and 5.6.2.
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>


/*
 * Words that Connection may have: each other header is compared with all of
 * them.
 */

#define FIELD_HOPS_MAX  32


typedef enum {
    FIELD_MALFORMED = 0,        /* empty, or not a token */
    FIELD_ODD,                  /* a token with more than letters, digits and
                                   "-": some servers take "_" for "-" */
    FIELD_PLAIN
} field_name_t;


/* What n bytes at p are as the name of a field. */
field_name_t field_name(const unsigned char *p, size_t n);

/* May a field have these n bytes as its value? */
bool field_is_value(const unsigned char *p, size_t n);

/*
 * The next word of a list with commas (Connection, Upgrade), between *p, which
 * is moved behind it, and end; its length in *len.  NULL: there is none.
 */
const unsigned char *field_next_word(const unsigned char **p,
    const unsigned char *end, size_t *len);

/*
 * Is this word, in upper or lower case, one of such a list?  The n bytes
 * at p are a field's value.
 */
bool field_has_word(const unsigned char *p, size_t n, const char *word);
