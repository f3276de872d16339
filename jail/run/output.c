/*
 * Head and tail of a stream.  head_max + tail_max is the cap, so as long as
 * nothing is lost the two together are the whole.  When something is lost
 * both give up some of what they hold for the marker between them.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/output.h"


#define OUTPUT_HEAD_SHARE   40          /* per cent of the cap */
#define OUTPUT_CHAR_MAX     4           /* bytes of a character */
#define OUTPUT_MARKER_MAX   96
#define OUTPUT_MARKER       "\n[... %" PRIu64 " characters cut ...]\n"


static const char  output_replacement[] = "\xef\xbf\xbd";       /* U+FFFD */


static size_t output_ascii(const char *data, size_t n);
static void output_put(output_t *out, const char *data, size_t chars,
    size_t width);
static int output_append(output_text_t *text, size_t max, const char *bytes,
    size_t n, size_t chars);
static void output_drop(output_text_t *text, size_t chars);
static size_t output_offset(const output_text_t *text, size_t chars);


void
output_init(output_t *out, size_t cap)
{
    *out = (output_t) { 0 };

    out->cap = cap;
    out->head_max = cap * OUTPUT_HEAD_SHARE / 100;
    out->tail_max = cap - out->head_max;
}


void
output_keep(output_t *out, output_keep_t keep)
{
    out->keep = keep;

    if (keep != OUTPUT_ENDS) {
        out->head_max = keep == OUTPUT_HEAD ? out->cap : 0;
        out->tail_max = out->cap - out->head_max;
    }
}


void
output_add(output_t *out, const char *data, size_t n)
{
    size_t  i, ascii;

    out->bytes += n;

    for (i = 0; i < n; /* void */) {

        if (out->utf8.need == 0) {
            ascii = output_ascii(data + i, n - i);

            if (ascii > 0) {
                output_put(out, data + i, ascii, 1);
                i += ascii;
                continue;
            }
        }

        switch (utf8_step(&out->utf8, (unsigned char) data[i])) {

        case UTF8_MORE:
            i++;
            break;

        case UTF8_DONE:
            i++;
            output_put(out, (char *) out->utf8.bytes, 1, out->utf8.have);
            break;

        case UTF8_BAD:
            i++;
            /* fall through */

        case UTF8_BAD_AGAIN:
            output_put(out, output_replacement, 1,
                       sizeof(output_replacement) - 1);
            break;
        }
    }
}


char *
output_text(output_t *out, size_t *len, bool *cut)
{
    int       i, m;
    char     *text, marker[OUTPUT_MARKER_MAX];
    size_t    head, keep, room;
    uint64_t  lost;

    if (out->utf8.need != 0) {
        out->utf8.need = 0;
        output_put(out, output_replacement, 1, sizeof(output_replacement) - 1);
    }

    *cut = out->failed;
    m = 0;

    if (out->tail.chars > out->tail_max) {
        output_drop(&out->tail, out->tail.chars - out->tail_max);
    }

    *cut |= (out->chars > out->cap);

    if (*cut && out->keep == OUTPUT_ENDS) {

        /* the marker's length depends on the number in it, by a digit */

        lost = out->chars;

        for (i = 0; i < 3; i++) {
            m = snprintf(marker, sizeof(marker), OUTPUT_MARKER, lost);
            lost = out->chars + (uint64_t) m - out->cap;
        }

        room = out->cap > (size_t) m ? out->cap - (size_t) m : 0;
        head = room * OUTPUT_HEAD_SHARE / 100;
        keep = room - head;

        if (head < out->head.chars) {
            out->head.len = output_offset(&out->head, head);
            out->head.chars = head;
        }

        if (keep < out->tail.chars) {
            output_drop(&out->tail, out->tail.chars - keep);
        }

        m = snprintf(marker, sizeof(marker), OUTPUT_MARKER,
                     out->chars - out->head.chars - out->tail.chars);

        if ((size_t) m > out->cap) {
            m = (int) out->cap;
        }
    }

    *len = out->head.len + (size_t) m + out->tail.len;
    text = malloc(*len + 1);

    if (text == NULL) {
        return NULL;
    }

    if (out->head.len) {
        (void) memcpy(text, out->head.data, out->head.len);
    }

    (void) memcpy(text + out->head.len, marker, (size_t) m);

    if (out->tail.len) {
        (void) memcpy(text + out->head.len + m, out->tail.data,
                      out->tail.len);
    }

    text[*len] = '\0';

    return text;
}


void
output_free(output_t *out)
{
    free(out->head.data);
    free(out->tail.data);
    *out = (output_t) { 0 };
}


/* The length of the ASCII that data begins with, eight bytes at a time. */

static size_t
output_ascii(const char *data, size_t n)
{
    size_t    i;
    uint64_t  word;

    for (i = 0; i + sizeof(word) <= n; i += sizeof(word)) {
        (void) memcpy(&word, data + i, sizeof(word));

        if (word & 0x8080808080808080ull) {
            break;
        }
    }

    while (i < n && (unsigned char) data[i] < 0x80) {
        i++;
    }

    return i;
}


/*
 * Adds characters of so many bytes each.  What will be dropped for certain is
 * not copied.  The tail takes twice what it has to keep before the older half
 * is dropped, so each byte is moved once on the average.
 */

static void
output_put(output_t *out, const char *data, size_t chars, size_t width)
{
    size_t  m;

    out->chars += chars;

    if (out->failed) {
        return;
    }

    m = out->head_max - out->head.chars;
    m = chars < m ? chars : m;

    if (m > 0) {
        out->failed = output_append(&out->head, out->head_max, data,
                                    m * width, m) != 0;
        data += m * width;
        chars -= m;
    }

    if (chars == 0 || out->failed || out->tail_max == 0) {
        return;
    }

    if (chars >= out->tail_max) {
        out->tail.len = 0;
        out->tail.chars = 0;
        data += (chars - out->tail_max) * width;
        chars = out->tail_max;

    } else if (out->tail.chars + chars > 2 * out->tail_max) {
        output_drop(&out->tail, out->tail.chars - out->tail_max);
    }

    out->failed = output_append(&out->tail, 2 * out->tail_max, data,
                                chars * width, chars) != 0;
}


static int
output_append(output_text_t *text, size_t max, const char *bytes, size_t n,
    size_t chars)
{
    char    *data;
    size_t   cap;

    if (text->len + n > text->cap) {
        cap = text->cap ? 2 * text->cap : 4096;

        while (cap < text->len + n) {
            cap *= 2;
        }

        if (cap > max * OUTPUT_CHAR_MAX) {
            cap = max * OUTPUT_CHAR_MAX;
        }

        data = realloc(text->data, cap);

        if (data == NULL) {
            return -1;
        }

        text->data = data;
        text->cap = cap;
    }

    (void) memcpy(text->data + text->len, bytes, n);
    text->len += n;
    text->chars += chars;

    return 0;
}


/* Drops characters from the front. */

static void
output_drop(output_text_t *text, size_t chars)
{
    size_t  n;

    n = output_offset(text, chars);

    (void) memmove(text->data, text->data + n, text->len - n);
    text->len -= n;
    text->chars -= chars;
}


/* The number of bytes of the first chars characters; the text is valid. */

static size_t
output_offset(const output_text_t *text, size_t chars)
{
    size_t  i;

    for (i = 0; i < text->len; i++) {

        if (((unsigned char) text->data[i] & 0xc0) == 0x80) {
            continue;
        }

        if (chars-- == 0) {
            break;
        }
    }

    return i;
}
