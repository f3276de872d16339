/*
 * The words of the text form.  Every function stops at the end of the text and
 * at the first byte that is not the one expected; which byte that was is the
 * whole error, for nobody writes this text by hand.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy_reader.h"


static int read_escape(reader_t *r, char *c);


bool
reader_skip(reader_t *r, const char *text)
{
    size_t  n;

    n = strlen(text);

    if ((size_t) (r->end - r->p) < n || memcmp(r->p, text, n) != 0) {
        return false;
    }

    r->p += n;

    return true;
}


int
reader_expect(reader_t *r, const char *text)
{
    return reader_skip(r, text) ? 0 : reader_unexpected(r);
}


bool
reader_next_item(reader_t *r, const char *close, size_t *count, int *rc)
{
    *rc = 0;

    if (reader_skip(r, close)) {
        return false;
    }

    if ((*count)++ > 0) {
        *rc = reader_expect(r, ",");
    }

    return *rc == 0;
}


char *
reader_string(reader_t *r)
{
    char    *word, c;
    size_t   n;

    if (reader_expect(r, "\"") != 0) {
        return NULL;
    }

    for (n = 0; !reader_skip(r, "\""); n++) {

        if (n + 1 >= r->word_cap) {

            word = realloc(r->word, r->word_cap * 2 + 256);

            if (word == NULL) {
                (void) reader_no_memory(r);
                return NULL;
            }

            r->word = word;
            r->word_cap = r->word_cap * 2 + 256;
        }

        if (r->p == r->end || (unsigned char) *r->p < 0x20) {
            (void) reader_unexpected(r);
            return NULL;
        }

        c = *r->p++;

        if (c == '\\' && read_escape(r, &c) != 0) {
            return NULL;
        }

        r->word[n] = c;
    }

    if (n == 0 && r->word == NULL) {
        r->word = calloc(1, 256);
        r->word_cap = 256;

        if (r->word == NULL) {
            r->word_cap = 0;
            (void) reader_no_memory(r);
            return NULL;
        }
    }

    r->word[n] = '\0';

    return r->word;
}


/* What the writer escapes: ASCII, and never a NUL. */

static int
read_escape(reader_t *r, char *c)
{
    size_t       i;
    unsigned     v;
    const char  *at;

    static const char  hex[] = "0123456789abcdef";
    static const char  letters[] = "\"\\nrt";
    static const char  meant[] = "\"\\\n\r\t";

    if (r->p < r->end && *r->p && (at = strchr(letters, *r->p))) {
        *c = meant[at - letters];
        r->p++;
        return 0;
    }

    if (!reader_skip(r, "u00") || r->end - r->p < 2) {
        return reader_unexpected(r);
    }

    v = 0;

    for (i = 0; i < 2; i++, r->p++) {

        at = *r->p ? strchr(hex, *r->p) : NULL;

        if (at == NULL) {
            return reader_unexpected(r);
        }

        v = v * 16 + (unsigned) (at - hex);
    }

    if (v == 0 || v >= 0x80) {
        return reader_unexpected(r);
    }

    *c = (char) v;

    return 0;
}


int
reader_number(reader_t *r, uint64_t max, uint64_t *value)
{
    uint64_t     v, digit;
    const char  *start;

    v = 0;
    start = r->p;

    for ( /* void */ ; r->p < r->end && *r->p >= '0' && *r->p <= '9'; r->p++) {

        digit = (uint64_t) (*r->p - '0');

        if (v > (UINT64_MAX - digit) / 10) {
            return reader_unexpected(r);
        }

        v = v * 10 + digit;
    }

    if (r->p == start || (*start == '0' && r->p - start > 1) || v > max) {
        return reader_unexpected(r);
    }

    *value = v;

    return 0;
}


int
reader_unexpected(reader_t *r)
{
    (void) snprintf(r->err, POLICY_ERROR_MAX,
                    "the text of the policies is damaged at byte %zu",
                    (size_t) (r->p - r->start));

    return -1;
}


int
reader_no_memory(reader_t *r)
{
    (void) snprintf(r->err, POLICY_ERROR_MAX, "no memory");

    return -1;
}
