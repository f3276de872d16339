/*
 * One table of what each byte may be in a field, for requests of boxes and
 * answers of upstreams.
 */

#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "parse/field.h"


#define TOKEN  1                        /* of a name */
#define PLAIN  2                        /* of a name that no server changes */
#define VALUE  4                        /* of a value */


static const uint8_t  field_bytes[256] = {
    ['\t'] = VALUE, [' '] = VALUE, ['"'] = VALUE, ['('] = VALUE,
    [')'] = VALUE, [','] = VALUE, ['/'] = VALUE, [':' ... '@'] = VALUE,
    ['[' ... ']'] = VALUE, ['{'] = VALUE, ['}'] = VALUE,
    [0x80 ... 0xff] = VALUE,

    ['!'] = TOKEN|VALUE, ['#' ... '\''] = TOKEN|VALUE, ['*'] = TOKEN|VALUE,
    ['+'] = TOKEN|VALUE, ['.'] = TOKEN|VALUE, ['^' ... '`'] = TOKEN|VALUE,
    ['|'] = TOKEN|VALUE, ['~'] = TOKEN|VALUE,

    ['-'] = TOKEN|PLAIN|VALUE, ['0' ... '9'] = TOKEN|PLAIN|VALUE,
    ['A' ... 'Z'] = TOKEN|PLAIN|VALUE, ['a' ... 'z'] = TOKEN|PLAIN|VALUE,
};


field_name_t
field_name(const unsigned char *p, size_t n)
{
    size_t    i;
    unsigned  all;

    all = TOKEN|PLAIN;

    for (i = 0; i < n; i++) {
        all &= field_bytes[p[i]];
    }

    return n == 0 || !(all & TOKEN) ? FIELD_MALFORMED
           : all & PLAIN ? FIELD_PLAIN : FIELD_ODD;
}


bool
field_is_value(const unsigned char *p, size_t n)
{
    size_t    i;
    unsigned  all;

    all = VALUE;

    for (i = 0; i < n; i++) {
        all &= field_bytes[p[i]];
    }

    return all != 0;
}


const unsigned char *
field_next_word(const unsigned char **p, const unsigned char *end, size_t *len)
{
    const unsigned char  *at, *word;

    at = *p;

    while (at < end && (*at == ' ' || *at == '\t' || *at == ',')) {
        at++;
    }

    word = at;

    while (at < end && *at != ' ' && *at != '\t' && *at != ',') {
        at++;
    }

    *p = at;
    *len = (size_t) (at - word);

    return *len ? word : NULL;
}


bool
field_has_word(const unsigned char *p, size_t n, const char *word)
{
    size_t                len, found_len;
    const unsigned char  *end, *found;

    end = p + n;
    len = strlen(word);

    while ((found = field_next_word(&p, end, &found_len)) != NULL) {

        if (found_len == len
            && strncasecmp((const char *) found, word, len) == 0)
        {
            return true;
        }
    }

    return false;
}
