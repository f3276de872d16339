/*
 * Builds one audit line.  Two promises shape it: whatever a box sends, one
 * event is one physical line of valid JSON whose keys are the program's own;
 * and the line always fits, so it is written by one call and never torn.
 *
 * Room for the end ("cut", the brackets, the newline) is set aside from the
 * start, so that the line can be closed at any moment.
 */

#include <string.h>

#include "audit_line.h"


#define DEPTH_MAX  4

/* ,"cut":true with its comma, the open brackets, the last one, the newline */
#define RESERVED   (sizeof(",\"cut\":true") - 1 + DEPTH_MAX + 2)

#define ROOM       (AUDIT_LINE_MAX - RESERVED)


static bool line_key(audit_line_t *line, const char *key, size_t n,
    size_t value);
static void line_raw(audit_line_t *line, const char *key, size_t key_len,
    const char *value, size_t n);
static void line_escape(audit_line_t *line, unsigned char c);
static void line_put(audit_line_t *line, const void *p, size_t n);
static void put_digits(char *dst, unsigned value, size_t n, char behind);


/* Printable ASCII but the quote and the backslash. */

static const bool  is_plain[256] = {
    [' '] = true, ['!'] = true, ['#' ... '['] = true, [']' ... '~'] = true
};


void
audit_line_begin(audit_line_t *line)
{
    line->len = 0;
    line->depth = 0;
    line->lost = 0;
    line->cut = false;
    line->first = true;

    line_put(line, "{", 1);
}


void
audit_line_put_text(audit_line_t *line, const char *key, size_t key_len,
    const void *value, size_t n, size_t max)
{
    size_t                i, run, used, width;
    const unsigned char  *p;

    if (value == NULL) {
        line_raw(line, key, key_len, "null", 4);
        return;
    }

    if (!line_key(line, key, key_len, 2)) {
        return;
    }

    line_put(line, "\"", 1);

    p = value;
    used = 0;

    for (i = 0; i < n; i += run ? run : 1) {

        /* almost all of it is as it was: runs are copied, the rest escaped */

        for (run = 0; i + run < n && is_plain[p[i + run]]; run++) {
            /* void */
        }

        width = run ? run : 6;

        if (used + width > max || line->len + width + 1 > ROOM) {

            line->cut = true;

            if (run) {
                width = max - used < ROOM - 1 - line->len
                        ? max - used : ROOM - 1 - line->len;
                line_put(line, p + i, width);
            }

            break;
        }

        used += width;

        if (run) {
            line_put(line, p + i, run);

        } else {
            line_escape(line, p[i]);
        }
    }

    line_put(line, "\"", 1);
}


void
audit_line_put_number(audit_line_t *line, const char *key, size_t key_len,
    int64_t value)
{
    char      number[24], *p, *end;
    uint64_t  left;

    /* printf() would be half of what a line costs */

    end = number + sizeof(number);
    p = end;
    left = value < 0 ? 0 - (uint64_t) value : (uint64_t) value;

    do {
        *--p = (char) ('0' + left % 10);
        left /= 10;
    } while (left);

    if (value < 0) {
        *--p = '-';
    }

    line_raw(line, key, key_len, p, end - p);
}


void
audit_line_bool(audit_line_t *line, const char *key, bool value)
{
    line_raw(line, key, strlen(key), value ? "true" : "false",
             value ? 4 : 5);
}


void
audit_line_open(audit_line_t *line, const char *key)
{
    /* an object that does not fit is left out with all that is in it */

    if (line->lost || line->depth == DEPTH_MAX
        || !line_key(line, key, strlen(key), 1))
    {
        line->lost++;
        line->cut = true;
        return;
    }

    line_put(line, "{", 1);
    line->depth++;
    line->first = true;
}


void
audit_line_close(audit_line_t *line)
{
    if (line->lost) {
        line->lost--;
        return;
    }

    if (line->depth) {
        line_put(line, "}", 1);
        line->depth--;
        line->first = false;
    }
}


void
audit_line_copy(audit_line_t *line, const char *text, size_t n)
{
    if (line->lost || line->len + n > ROOM) {
        line->cut = true;
        return;
    }

    line_put(line, text, n);
}


size_t
audit_line_end(audit_line_t *line)
{
    line->lost = 0;

    while (line->depth) {
        audit_line_close(line);
    }

    if (line->cut) {
        line_put(line, ",", line->first ? 0 : 1);
        line_put(line, "\"cut\":true", sizeof("\"cut\":true") - 1);
    }

    line_put(line, "}\n", 2);

    return line->len;
}


void
audit_line_time(int64_t unix_ms, char dst[25])
{
    int64_t   days, ms, era, year;
    unsigned  of_era, year_of_era, of_year, shifted, month, day;

    /* the years 0000 to 9999 have four digits; other times are no times */

    if (unix_ms < -62167219200000) {
        unix_ms = -62167219200000;
    }

    if (unix_ms > 253402300799999) {
        unix_ms = 253402300799999;
    }

    days = unix_ms / 86400000;
    ms = unix_ms % 86400000;

    if (ms < 0) {
        ms += 86400000;
        days--;
    }

    /*
     * Years that begin on March 1 have their odd day last, and 400 of them
     * always the same length.
     */

    days += 719468;                         /* since 0000-03-01 */
    era = (days >= 0 ? days : days - 146096) / 146097;
    of_era = (unsigned) (days - era * 146097);
    year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096)
                  / 365;
    of_year = of_era - (365 * year_of_era + year_of_era / 4
                        - year_of_era / 100);
    shifted = (5 * of_year + 2) / 153;
    day = of_year - (153 * shifted + 2) / 5 + 1;
    month = shifted < 10 ? shifted + 3 : shifted - 9;
    year = (int64_t) year_of_era + era * 400 + (month <= 2);

    put_digits(dst, (unsigned) year, 4, '-');
    put_digits(dst + 5, month, 2, '-');
    put_digits(dst + 8, day, 2, 'T');
    put_digits(dst + 11, (unsigned) (ms / 3600000), 2, ':');
    put_digits(dst + 14, (unsigned) (ms / 60000 % 60), 2, ':');
    put_digits(dst + 17, (unsigned) (ms / 1000 % 60), 2, '.');
    put_digits(dst + 20, (unsigned) (ms % 1000), 3, 'Z');
    dst[24] = '\0';
}


/* So many digits, and what stands behind them. */

static void
put_digits(char *dst, unsigned value, size_t n, char behind)
{
    dst[n] = behind;

    while (n--) {
        dst[n] = (char) ('0' + value % 10);
        value /= 10;
    }
}


/* "key": and its comma; false, and the line is cut, when the key and value
   more bytes of what follows do not fit. */

static bool
line_key(audit_line_t *line, const char *key, size_t n, size_t value)
{
    char  *p;

    if (line->lost || line->len + !line->first + n + 3 + value > ROOM) {
        line->cut = true;
        return false;
    }

    p = line->text + line->len;

    if (!line->first) {
        *p++ = ',';
    }

    *p++ = '"';
    memcpy(p, key, n);
    p += n;
    *p++ = '"';
    *p++ = ':';

    line->len = p - line->text;
    line->first = false;

    return true;
}


static void
line_raw(audit_line_t *line, const char *key, size_t key_len,
    const char *value, size_t n)
{
    if (line_key(line, key, key_len, n)) {
        line_put(line, value, n);
    }
}


static void
line_escape(audit_line_t *line, unsigned char c)
{
    static const char  hex[] = "0123456789abcdef";

    char  escape[6] = { '\\', 'u', '0', '0', hex[c >> 4], hex[c & 0xf] };

    line_put(line, escape, sizeof(escape));
}


static void
line_put(audit_line_t *line, const void *p, size_t n)
{
    memcpy(line->text + line->len, p, n);
    line->len += n;
}
