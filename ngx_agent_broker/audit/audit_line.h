/*
 * Builds one audit line: a JSON object in a fixed key order, at most
 * AUDIT_LINE_MAX bytes with its newline.  Foreign bytes are escaped (control,
 * DEL, quote, backslash and every byte outside ASCII as \u00XX), so that one
 * event is one physical line that greps and parses.  A value over its own
 * bound is cut, and the line then says "cut":true.
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>


#define AUDIT_LINE_MAX    4096
#define AUDIT_LINE_DEPTH  4             /* of objects in it */
#define AUDIT_NUMBER_MAX  20            /* with its sign */

/* ,"cut":true with its comma, the open brackets, the last one, the newline */
#define AUDIT_LINE_END    (sizeof(",\"cut\":true") - 1 + AUDIT_LINE_DEPTH + 2)

#define AUDIT_LINE_ROOM   (AUDIT_LINE_MAX - AUDIT_LINE_END)


typedef struct {
    size_t  len;
    size_t  depth;                      /* objects open inside the line */
    size_t  lost;                       /* objects open that had no room */
    bool    cut;                        /* some value was cut */
    bool    first;                      /* no key written at this depth yet */
    char    text[AUDIT_LINE_MAX];
} audit_line_t;


/* Opens the object. */
void audit_line_begin(audit_line_t *line);

/*
 * "key":"value" of n foreign bytes, cut so that its escaped form takes at
 * most max bytes (and never more than the line still holds, with room kept
 * for the end).  value NULL writes null.  Keys are constants of the program.
 */
static inline void audit_line_text(audit_line_t *line, const char *key,
    const void *value, size_t n, size_t max);

/* The same for a NUL-terminated value, bound 256. */
static inline void audit_line_word(audit_line_t *line, const char *key,
    const char *value);

/* The same for n bytes that need no escape: the program's own. */
static inline void audit_line_own(audit_line_t *line, const char *key,
    const char *value, size_t n);

static inline void audit_line_number(audit_line_t *line, const char *key,
    int64_t value);

void audit_line_bool(audit_line_t *line, const char *key, bool value);

/*
 * "key":{ ... }: opened and closed; not nested deeper than four.  What is
 * open at the end is closed by it.
 */
void audit_line_open(audit_line_t *line, const char *key);
void audit_line_close(audit_line_t *line);

/*
 * n bytes of whole keys and values as another line has them, from the comma
 * in front of the first (which the first of a line has not) to where the next
 * would stand.
 */
void audit_line_copy(audit_line_t *line, const char *text, size_t n);

/* "cut":true where due, "}" and "\n"; the line's length in bytes. */
size_t audit_line_end(audit_line_t *line);

/* "2026-11-29T12:00:00.123Z" (UTC, proleptic Gregorian) into 25 bytes. */
void audit_line_time(int64_t unix_ms, char dst[25]);


/* Inline, so that a key which is a constant is stored and not copied. */

static inline bool audit_line_key(audit_line_t *line, const char *key,
    size_t value);
void audit_line_put_text(audit_line_t *line, const void *value, size_t n,
    size_t max);
void audit_line_put_number(audit_line_t *line, int64_t value);


static inline void
audit_line_text(audit_line_t *line, const char *key, const void *value,
    size_t n, size_t max)
{
    if (audit_line_key(line, key, value ? 2 : 4)) {
        audit_line_put_text(line, value, n, max);
    }
}


static inline void
audit_line_word(audit_line_t *line, const char *key, const char *value)
{
    audit_line_text(line, key, value, value ? strlen(value) : 0, 256);
}


static inline void
audit_line_own(audit_line_t *line, const char *key, const char *value,
    size_t n)
{
    char  *p;

    if (audit_line_key(line, key, n + 2)) {
        p = line->text + line->len;

        *p++ = '"';
        memcpy(p, value, n);
        p[n] = '"';

        line->len += n + 2;
    }
}


/* n bytes that are JSON themselves. */

static inline void
audit_line_json(audit_line_t *line, const char *key, const char *value,
    size_t n)
{
    if (audit_line_key(line, key, n)) {
        memcpy(line->text + line->len, value, n);
        line->len += n;
    }
}


static inline void
audit_line_number(audit_line_t *line, const char *key, int64_t value)
{
    if (audit_line_key(line, key, AUDIT_NUMBER_MAX)) {

        if (value >= 0 && value <= 9) {
            line->text[line->len++] = (char) ('0' + value);

        } else {
            audit_line_put_number(line, value);
        }
    }
}


/*
 * "key": and its comma; false, and the line is cut, when the key and so many
 * bytes of a value do not fit.
 */

static inline bool
audit_line_key(audit_line_t *line, const char *key, size_t value)
{
    char    *p;
    size_t   n;

    /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): never NULL */
    n = strlen(key);

    if (line->lost
        || line->len + !line->first + n + 3 + value > AUDIT_LINE_ROOM)
    {
        line->cut = true;
        return false;
    }

    p = line->text + line->len;

    *p = ',';
    p += !line->first;
    *p++ = '"';
    memcpy(p, key, n);
    p += n;
    *p++ = '"';
    *p++ = ':';

    line->len = p - line->text;
    line->first = false;

    return true;
}
