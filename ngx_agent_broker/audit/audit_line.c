/*
 * Builds one audit line.  Two promises shape it: whatever a box sends, one
 * event is one physical line of valid JSON whose keys are the program's own;
 * and the line always fits, so it is written by one call and never torn.
 *
 * Room for the end ("cut", the brackets, the newline) is set aside from the
 * start, so that the line can be closed at any moment.
 */

#include <string.h>

#include "audit/audit_line.h"


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
audit_line_put_text(audit_line_t *line, const void *value, size_t n,
    size_t max)
{
    char                 *q, *end;
    size_t                i;
    const unsigned char  *p;

    static const char  hex[] = "0123456789abcdef";

    if (value == NULL) {
        line_put(line, "null", 4);
        return;
    }

    p = value;
    q = line->text + line->len;
    *q++ = '"';

    end = line->text + AUDIT_LINE_ROOM - 1;

    if (max < (size_t) (end - q)) {
        end = q + max;
    }

    for (i = 0; i < n; i++) {

        if (end - q < (is_plain[p[i]] ? 1 : 6)) {
            line->cut = true;
            break;
        }

        if (is_plain[p[i]]) {
            *q++ = (char) p[i];
            continue;
        }

        *q++ = '\\';
        *q++ = 'u';
        *q++ = '0';
        *q++ = '0';
        *q++ = hex[p[i] >> 4];
        *q++ = hex[p[i] & 0xf];
    }

    *q++ = '"';

    line->len = q - line->text;
}


void
audit_line_put_number(audit_line_t *line, int64_t value)
{
    char      *p;
    uint64_t   left, rest;

    /*
     * printf() would be half of what a line costs, and digits that are moved
     * to their place must wait until each of them is stored.
     */

    p = line->text + line->len;
    left = value < 0 ? 0 - (uint64_t) value : (uint64_t) value;

    if (value < 0) {
        *p++ = '-';
    }

    for (rest = left; rest > 9; rest /= 10) {
        p++;
    }

    line->len = p + 1 - line->text;

    do {
        *p-- = (char) ('0' + left % 10);
        left /= 10;
    } while (left);
}


void
audit_line_bool(audit_line_t *line, const char *key, bool value)
{
    if (audit_line_key(line, key, 5)) {
        line_put(line, value ? "true" : "false", value ? 4 : 5);
    }
}


void
audit_line_open(audit_line_t *line, const char *key)
{
    /* an object that does not fit is left out with all that is in it */

    if (line->lost || line->depth == AUDIT_LINE_DEPTH
        || !audit_line_key(line, key, 1))
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
    if (line->lost || line->len + n > AUDIT_LINE_ROOM) {
        line->cut = true;
        return;
    }

    line_put(line, text, n);
    line->first = false;
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

    /* the years 0000 to 9999 have four digits; other times are not valid */

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


/* So many digits, and the separator after them. */

static void
put_digits(char *dst, unsigned value, size_t n, char behind)
{
    dst[n] = behind;

    while (n--) {
        dst[n] = (char) ('0' + value % 10);
        value /= 10;
    }
}


static void
line_put(audit_line_t *line, const void *p, size_t n)
{
    memcpy(line->text + line->len, p, n);
    line->len += n;
}
