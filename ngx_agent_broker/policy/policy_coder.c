/*
 * The words of the text form.  Reading stops at the end of the text and at the
 * first byte that is not the one expected; which byte that was is the whole
 * error, for nobody writes this text by hand.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy_coder.h"


static void coder_put_string(coder_t *c, const char *value);
static void coder_read_number(coder_t *c, uint64_t *value);


static const char  escapes[] = "\"\\\n\r\t";
static const char  letters[] = "\"\\nrt";


bool
coder_has_read(const coder_t *c)
{
    return c->reading && !c->failed;
}


size_t
coder_offset(const coder_t *c)
{
    return c->reading ? (size_t) (c->p - c->start) : c->len;
}


void
coder_check(coder_t *c, int rc)
{
    c->failed |= (rc != 0);
}


void
coder_unexpected(coder_t *c)
{
    if (!c->failed) {
        (void) snprintf(c->err, POLICY_ERROR_MAX,
                        "the text of the policies is damaged at byte %zu",
                        coder_offset(c));
        c->failed = true;
    }
}


void
coder_text(coder_t *c, const char *text)
{
    if (!c->reading) {
        coder_bytes(c, text, strlen(text));

    } else if (!coder_skip(c, text)) {
        coder_unexpected(c);
    }
}


void
coder_key(coder_t *c, const char *separator, const char *name)
{
    coder_text(c, separator);
    coder_text(c, "\"");
    coder_text(c, name);
    coder_text(c, "\":");
}


bool
coder_skip(coder_t *c, const char *text)
{
    size_t  n;

    n = strlen(text);

    if (c->failed || (size_t) (c->end - c->p) < n
        || memcmp(c->p, text, n) != 0)
    {
        return false;
    }

    c->p += n;

    return true;
}


bool
coder_next(coder_t *c, const char *close, size_t *n)
{
    if (c->failed || coder_skip(c, close)) {
        return false;
    }

    coder_text(c, (*n)++ ? "," : "");

    return !c->failed;
}


bool
coder_null(coder_t *c, bool is_null)
{
    if (c->reading) {
        return coder_skip(c, "null");
    }

    if (is_null) {
        coder_text(c, "null");
    }

    return is_null;
}


void
coder_flag(coder_t *c, bool *value)
{
    if (c->reading) {
        *value = coder_skip(c, "true");
    }

    if (!c->reading || !*value) {
        coder_text(c, *value ? "true" : "false");
    }
}


void
coder_number(coder_t *c, uint64_t *value, uint64_t min, uint64_t max)
{
    char  number[32];

    if (!c->reading) {
        (void) snprintf(number, sizeof(number), "%" PRIu64, *value);
        coder_text(c, number);
        return;
    }

    coder_read_number(c, value);

    if (!c->failed && (*value < min || *value > max)) {
        coder_unexpected(c);
    }
}


static void
coder_read_number(coder_t *c, uint64_t *value)
{
    uint64_t     digit;
    const char  *start;

    *value = 0;
    start = c->p;

    for ( /* void */ ; c->p < c->end && *c->p >= '0' && *c->p <= '9'; c->p++) {

        digit = (uint64_t) (*c->p - '0');

        if (*value > (UINT64_MAX - digit) / 10) {
            coder_unexpected(c);
            return;
        }

        *value = *value * 10 + digit;
    }

    if (c->p == start || (*start == '0' && c->p - start > 1)) {
        coder_unexpected(c);
    }
}


void
coder_string(coder_t *c, const char *value)
{
    char        *word;
    size_t       n;
    const char  *at;

    if (!c->reading) {
        coder_put_string(c, value);
        return;
    }

    coder_text(c, "\"");

    for (n = 0; !c->failed; n++) {

        if (n + 1 >= c->word_cap) {

            word = realloc(c->word, c->word_cap * 2 + 256);

            if (word == NULL) {
                coder_check(c, policy_no_memory(c->err));
                return;
            }

            c->word = word;
            c->word_cap = c->word_cap * 2 + 256;
        }

        if (c->p == c->end || (unsigned char) *c->p < 0x20) {
            coder_unexpected(c);
            return;
        }

        c->word[n] = *c->p++;

        if (c->word[n] == '"') {
            c->word[n] = '\0';
            return;
        }

        if (c->word[n] == '\\') {

            at = (c->p < c->end && *c->p) ? strchr(letters, *c->p) : NULL;

            if (at == NULL) {
                coder_unexpected(c);
                return;
            }

            c->word[n] = escapes[at - letters];
            c->p++;
        }
    }
}


/*
 * What is valid UTF-8 stays so: JSON needs no more.  Of control characters
 * there are only those of a certificate's text.
 */

static void
coder_put_string(coder_t *c, const char *value)
{
    char         escape[2];
    size_t       n;
    const char  *at;

    coder_bytes(c, "\"", 1);

    for ( ;; ) {

        n = strcspn(value, escapes);
        coder_bytes(c, value, n);
        value += n;

        if (*value == '\0') {
            break;
        }

        at = strchr(escapes, *value++);
        escape[0] = '\\';
        escape[1] = letters[at - escapes];
        coder_bytes(c, escape, 2);
    }

    coder_bytes(c, "\"", 1);
}


void
coder_bytes(coder_t *c, const char *p, size_t n)
{
    char    *data;
    size_t   cap;

    if (c->failed) {
        return;
    }

    if (n >= c->cap - c->len) {

        cap = (c->cap + n + 1) * 2;
        data = realloc(c->data, cap);

        if (data == NULL) {
            c->failed = true;
            return;
        }

        c->data = data;
        c->cap = cap;
    }

    memcpy(c->data + c->len, p, n);
    c->len += n;
    c->data[c->len] = '\0';
}
