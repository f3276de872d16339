/*
 * Finds credentials in a text that may be long and mostly something else: only
 * what is certain counts, since what is found stops a task.
 *
 *   a token: a word that begins as a known kind does, is as long as these are,
 *     and is not readable;
 *   a private key in PEM, with a line of its text;
 *   an address with a password, unless that is a stand-in.
 *
 * A token, and the first line of a key's text, has a word of at least 20 bytes:
 * so eight bytes are looked at, every twelve.
 */

#define _GNU_SOURCE                     /* memmem(), memrchr() */

#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "secret.h"


#define SCAN_RUN       20
#define SCAN_STRIDE    12
#define SCAN_LOOK      8            /* bytes at once */
#define SCAN_KEY_BACK  256          /* bytes from a key's text to its begin */
#define SCAN_URL_BACK  512
#define SCAN_PASSWORD  8


static const char *scan_words(const char *text, size_t n);
static bool scan_has_break(const char *p);
static const char *scan_word(const char *text, const char *p, size_t len);
static const char *scan_line_end(const char *text, const char *p);
static bool scan_is_key(const char *text, const char *end);
static const char *scan_urls(const char *text, size_t n);
static bool scan_is_password(const char *p, size_t n);
static bool scan_is_hex(char c);
static bool scan_is_word(unsigned char c);


static const char  scan_key[] = "a private key";
static const char  scan_token[] = "a token";
static const char  scan_url[] = "an address with a password";


const char *
secret_scan(const char *text, size_t n)
{
    const char  *found;

    found = scan_words(text, n);

    return found ? found : scan_urls(text, n);
}


static const char *
scan_words(const char *text, size_t n)
{
    size_t       i, from, to;
    const char  *found;

    for (i = 0; i + SCAN_LOOK <= n; i += SCAN_STRIDE) {

        if (scan_has_break(text + i)) {
            continue;
        }

        to = i;

        while (to < n && scan_is_word((unsigned char) text[to])) {
            to++;
        }

        if (to < i + SCAN_LOOK) {
            continue;
        }

        from = i;

        while (from > 0 && scan_is_word((unsigned char) text[from - 1])) {
            from--;
        }

        if (to - from >= SCAN_RUN) {
            found = scan_word(text, text + from, to - from);

            if (found) {
                return found;
            }
        }

        /* the next look is behind this word */

        if (to > i + SCAN_STRIDE) {
            i = to - SCAN_STRIDE;
        }
    }

    return NULL;
}


/* Is one of eight bytes a blank, a quote, a bracket or a comma? */

static bool
scan_has_break(const char *p)
{
    uint64_t  x, comma;

    static const uint64_t  ones = 0x0101010101010101, high = ones << 7;

    memcpy(&x, p, sizeof(x));
    comma = x ^ ones * ',';

    /* a byte below "+", or one that is zero: the sign is borrowed */

    return (((x - ones * '+') & ~x) | ((comma - ones) & ~comma)) & high;
}


static const char *
scan_word(const char *text, const char *p, size_t len)
{
    const char  *end;

    /* other things than a JSON web token are JSON in base64 */

    if (secret_is_token(p, len)
        && (memcmp(p, "eyJ", 3) != 0 || memmem(p, len, ".eyJ", 4)))
    {
        return scan_token;
    }

    /* the first line of its text, behind its begin or an empty line */

    end = scan_line_end(text, p);

    return end
           && (end[-1] == '-' || p - end > 3 || memcmp(end, "\n\n", 2) == 0)
           && scan_is_key(text, end)
           ? scan_key : NULL;
}


/*
 * Where the line before this word ends, or NULL if the word does not begin one:
 * before line breaks, also those that a string of a program has as "\n".
 */

static const char *
scan_line_end(const char *text, const char *p)
{
    const char  *q;

    q = p;

    while (q > text) {

        if (q[-1] == '\n' || q[-1] == '\r' || q[-1] == ' ' || q[-1] == '\t'
            || q[-1] == '\\')
        {
            q--;

        } else if (q < p && (q[-1] == 'n' || q[-1] == 'r') && q - 1 > text
                   && q[-2] == '\\')
        {
            q -= 2;

        } else {
            break;
        }
    }

    return q < p && q > text ? q : NULL;
}


/*
 * Does a private key begin above the line that ends here?  RFC 7468 section 2;
 * RFC 1421 section 4.6 has header lines between, and an empty one.
 */

static bool
scan_is_key(const char *text, const char *end)
{
    size_t       n;
    const char  *p;

    n = (size_t) (end - text);
    n = n < SCAN_KEY_BACK ? n : SCAN_KEY_BACK;

    p = memmem(end - n, n, "-----BEGIN ", 11);
    p = p ? memmem(p, (size_t) (end - p), "PRIVATE KEY-----", 16) : NULL;

    return p && memmem(p, (size_t) (end - p), "-----END", 8) == NULL;
}


/* scheme://user:password@ */

static const char *
scan_urls(const char *text, size_t n)
{
    size_t       back;
    const char  *p, *colon, *scheme, *last;

    last = text + n;

    for (p = text; (p = memchr(p, '@', (size_t) (last - p))) != NULL; p++) {

        back = (size_t) (p - text) < SCAN_URL_BACK ? (size_t) (p - text)
                                                   : SCAN_URL_BACK;
        colon = memrchr(p - back, ':', back);

        if (colon == NULL || !scan_is_password(colon + 1,
                                               (size_t) (p - colon) - 1))
        {
            continue;
        }

        /* before the user's name, which has no "/" and no blank */

        for (scheme = colon;
             scheme > p - back && scheme[-1] != '/' && scheme[-1] > ' ';
             scheme--)
        {
            /* void */
        }

        if (scheme - (p - back) >= 3 && memcmp(scheme - 3, "://", 3) == 0) {
            return scan_url;
        }
    }

    return NULL;
}


/* Not a variable's name, nor a word that a manual writes in its place. */

static bool
scan_is_password(const char *p, size_t n)
{
    size_t  i, k;

    static const char *const  stand_ins[] = {
        "pass", "secret", "changeme", "example", "your", "xxxx", "token",
        "anonymous", "foobar", "postgres", "12345678"
    };

    if (n < SCAN_PASSWORD) {
        return false;
    }

    for (i = 0; i < n; i++) {

        if ((unsigned char) p[i] <= ' ' || strchr("/${}<>()[]\"'`\\*", p[i])
            || (p[i] == '%' && (n - i < 3 || !scan_is_hex(p[i + 1])
                                || !scan_is_hex(p[i + 2]))))
        {
            return false;
        }

        for (k = 0; k < sizeof(stand_ins) / sizeof(stand_ins[0]); k++) {
            if (n - i >= strlen(stand_ins[k])
                && strncasecmp(p + i, stand_ins[k], strlen(stand_ins[k])) == 0)
            {
                return false;
            }
        }
    }

    return true;
}


static bool
scan_is_hex(char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}


static bool
scan_is_word(unsigned char c)
{
    static const bool  is_word[256] = {
        ['0' ... '9'] = true, ['A' ... 'Z'] = true, ['a' ... 'z'] = true,
        ['_'] = true, ['-'] = true, ['.'] = true, ['+'] = true
    };

    return is_word[c];
}
