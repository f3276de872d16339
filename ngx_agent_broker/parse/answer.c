/*
 * A line at a time.  Lines end with CRLF; there is no other CR, LF or control
 * byte, no folding, no space before a colon, and a body has one length.
 */

#include <string.h>
#include <strings.h>

#include "parse/answer.h"
#include "parse/field.h"


#define ANSWER_KEEP_MAX    3600
#define ANSWER_LENGTH_MAX  18           /* digits that fit into 63 bits */


static const char *answer_status(const unsigned char *p, size_t n,
    answer_t *a);
static const char *answer_field(const unsigned char *p, size_t n, answer_t *a);
static const char *answer_known(const unsigned char *name, size_t len,
    const unsigned char *value, size_t n, answer_t *a);
static const char *answer_length(const unsigned char *p, size_t n,
    answer_t *a);
static unsigned answer_keep(const unsigned char *p, size_t n);
static answer_rc_t answer_bad(answer_t *a, const char *why);


answer_rc_t
answer_read(const unsigned char *p, size_t n, answer_t *a)
{
    size_t                len;
    const char           *why;
    const unsigned char  *line, *lf;

    static const char  version[] = "HTTP/1.";

    for ( ;; ) {

        line = p + a->at;
        lf = memchr(line, '\n', n - a->at);

        if (a->at == 0) {
            len = n < sizeof(version) - 1 ? n : sizeof(version) - 1;

            if (memcmp(p, version, len) != 0) {
                return answer_bad(a, "it does not begin with HTTP/1.");
            }
        }

        if (lf == NULL) {
            return ANSWER_MORE;
        }

        len = lf - line;

        if (len == 0 || line[len - 1] != '\r') {
            return answer_bad(a, "a line of its head ends without CR");
        }

        len--;

        if (a->at && len == 0) {
            a->at += 2;
            break;
        }

        why = a->at ? answer_field(line, len, a) : answer_status(line, len, a);

        if (why) {
            return answer_bad(a, why);
        }

        a->at += len + 2;
    }

    if (a->chunked && a->has_length) {
        return answer_bad(a, "it has Content-Length and Transfer-Encoding");
    }

    if (a->chunked && a->is_1_0) {
        return answer_bad(a, "it is HTTP/1.0 and has Transfer-Encoding");
    }

    return ANSWER_DONE;
}


/* "HTTP/1.1 200 OK"; without a reason the last space may be missing. */

static const char *
answer_status(const unsigned char *p, size_t n, answer_t *a)
{
    size_t  i;

    static const char  why[] = "its status line is not valid";

    if (n < sizeof("HTTP/1.1 200") - 1 || (p[7] != '0' && p[7] != '1')
        || p[8] != ' ' || (n > 12 && p[12] != ' ') || !field_is_value(p, n))
    {
        return why;
    }

    for (i = 9; i < 12; i++) {

        if (p[i] < '0' || p[i] > '9') {
            return why;
        }

        a->status = a->status * 10 + (p[i] - '0');
    }

    if (a->status < 100 || a->status > 599) {
        return "its status is not from 100 to 599";
    }

    a->is_1_0 = p[7] == '0';

    return NULL;
}


static const char *
answer_field(const unsigned char *p, size_t n, answer_t *a)
{
    const unsigned char  *end, *colon;

    end = p + n;
    colon = memchr(p, ':', n);

    if (*p == ' ' || *p == '\t') {
        return "a line of its head is folded";
    }

    if (colon == NULL) {
        return "a line of its head has no colon";
    }

    if (field_name(p, colon - p) == FIELD_MALFORMED) {
        return "the name of a header is not a token";
    }

    if (!field_is_value(colon + 1, end - colon - 1)) {
        return "the value of a header has a control byte";
    }

    n = colon - p;

    do {
        colon++;
    } while (colon < end && (*colon == ' ' || *colon == '\t'));

    while (end > colon && (end[-1] == ' ' || end[-1] == '\t')) {
        end--;
    }

    return answer_known(p, n, colon, end - colon, a);
}


/* The fields that say where the answer ends, or what the connection becomes. */

static const char *
answer_known(const unsigned char *name, size_t len, const unsigned char *value,
    size_t n, answer_t *a)
{
    size_t                word;
    const char           *s;
    const unsigned char  *end;

    s = (const char *) name;
    end = value + n;

    switch (len) {

    case sizeof("upgrade") - 1:

        if (strncasecmp(s, "upgrade", len) == 0) {
            a->upgrades++;
            a->websocket = n == sizeof("websocket") - 1
                           && field_has_word(value, n, "websocket");
        }

        break;

    case sizeof("connection") - 1:      /* and Keep-Alive */

        if (strncasecmp(s, "connection", len) == 0) {
            a->upgrade |= field_has_word(value, n, "upgrade");

            while (field_next_word(&value, end, &word)) {

                if (++a->hops > FIELD_HOPS_MAX) {
                    return "its Connection has more than 32 words";
                }
            }

        } else if (strncasecmp(s, "keep-alive", len) == 0) {
            a->keep = answer_keep(value, n);
        }

        break;

    case sizeof("content-length") - 1:

        if (strncasecmp(s, "content-length", len) == 0) {
            return answer_length(value, n, a);
        }

        break;

    case sizeof("transfer-encoding") - 1:

        if (strncasecmp(s, "transfer-encoding", len) == 0) {

            if (a->chunked || n != sizeof("chunked") - 1
                || strncasecmp((const char *) value, "chunked", n) != 0)
            {
                return "its Transfer-Encoding is not just chunked";
            }

            a->chunked = true;
        }

        break;

    case sizeof("sec-websocket-accept") - 1:

        if (strncasecmp(s, "sec-websocket-accept", len) == 0) {
            a->accept = value;
            a->accept_len = n;
            a->accepts++;
        }

        break;
    }

    return NULL;
}


static const char *
answer_length(const unsigned char *p, size_t n, answer_t *a)
{
    size_t  i;

    if (a->has_length) {
        return "it has two of Content-Length";
    }

    a->has_length = true;

    for (i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9') {
            n = 0;
        }
    }

    return n == 0 || n > ANSWER_LENGTH_MAX
           ? "its Content-Length is not a number" : NULL;
}


/* "timeout=5, max=1000" */

static unsigned
answer_keep(const unsigned char *p, size_t n)
{
    unsigned              seconds;
    const unsigned char  *end;

    static const char  name[] = "timeout=";

    for (end = p + n; (size_t) (end - p) > sizeof(name) - 1; p++) {

        if (strncasecmp((const char *) p, name, sizeof(name) - 1) != 0) {
            continue;
        }

        seconds = 0;

        for (p += sizeof(name) - 1;
             p < end && *p >= '0' && *p <= '9' && seconds < ANSWER_KEEP_MAX;
             p++)
        {
            seconds = seconds * 10 + (*p - '0');
        }

        return seconds < ANSWER_KEEP_MAX ? seconds : ANSWER_KEEP_MAX;
    }

    return 0;
}


static answer_rc_t
answer_bad(answer_t *a, const char *why)
{
    a->why = why;

    return ANSWER_BAD;
}
