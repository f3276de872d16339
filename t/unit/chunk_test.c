/*
 * The framing of a chunked body: followed to its end wherever it is cut, and
 * refused where a line of it is too long or not as RFC 9112 has it.
 */

#include "unit.h"

#include "parse/chunk.h"


typedef struct {
    const char      *what;
    const char      *body;
    chunk_result_t   result;
} row_t;


static const row_t rows[] = {
    { "a chunk", "5\r\nhello\r\n0\r\n\r\n", CHUNK_END },
    { "large digits", "A\r\n0123456789\r\n0\r\n\r\n", CHUNK_END },
    { "zeros before a size", "0005\r\nhello\r\n000\r\n\r\n", CHUNK_END },
    { "two chunks", "1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", CHUNK_END },
    { "CRLF as data", "4\r\n\r\n\r\n\r\n0\r\n\r\n", CHUNK_END },
    { "no chunk but the last", "0\r\n\r\n", CHUNK_END },
    { "an extension", "5;a=b\r\nhello\r\n0;c\r\n\r\n", CHUNK_END },
    { "a space before an extension", "5 ;a\r\nhello\r\n0\r\n\r\n", CHUNK_END },
    { "trailers", "0\r\nA: b\r\nC: d\r\n\r\n", CHUNK_END },
    { "another request after it", "0\r\n\r\nGET / HTTP/1.1\r\n", CHUNK_END },
    { "an empty body", "", CHUNK_MORE },
    { "a size without its end", "5\r", CHUNK_MORE },
    { "data without its end", "5\r\nhel", CHUNK_MORE },
    { "the last chunk without its end", "0\r\n", CHUNK_MORE },
    { "no size", "\r\nhello\r\n", CHUNK_MALFORMED },
    { "no size before an extension", ";a\r\n", CHUNK_MALFORMED },
    { "a sign", "+5\r\nhello\r\n", CHUNK_MALFORMED },
    { "a prefix", "0x5\r\nhello\r\n", CHUNK_MALFORMED },
    { "a size of 16 digits", "fffffffffffffff0\r\n", CHUNK_MALFORMED },
    { "a bare LF after a size", "5\nhello\r\n0\r\n\r\n", CHUNK_MALFORMED },
    { "a bare LF in an extension", "5;a\nhello\r\n0\r\n\r\n",
      CHUNK_MALFORMED },
    { "a bare LF after data", "5\r\nhello\n0\r\n\r\n", CHUNK_MALFORMED },
    { "a bare LF at the end", "0\r\n\n", CHUNK_MALFORMED },
    { "a bare LF after a trailer", "0\r\nA: b\n\r\n", CHUNK_MALFORMED },
    { "a bare CR in an extension", "5;a\rb\r\nhello\r\n", CHUNK_MALFORMED },
    { "a control byte in an extension", "5;a\1\r\n", CHUNK_MALFORMED },
    { "a control byte in a trailer", "0\r\nA: \2\r\n\r\n", CHUNK_MALFORMED },
    { "a folded trailer", "0\r\nA: b\r\n c\r\n\r\n", CHUNK_MALFORMED },
    { "data longer than its size", "5\r\nhellos\r\n", CHUNK_MALFORMED },
    { "data shorter than its size", "5\r\nhell\r\n0\r\n\r\n",
      CHUNK_MALFORMED },
    { NULL, NULL, CHUNK_MORE }
};


static chunk_result_t
follow(const char *body, size_t n, size_t step)
{
    size_t           i;
    chunk_t          c;
    chunk_result_t   result;
    unsigned char   *exact;

    memset(&c, 0, sizeof(c));
    result = CHUNK_MORE;

    for (i = 0; i < n; i += step) {

        step = step < n - i ? step : n - i;

        /* on the heap, so that a sanitizer sees a read beyond */

        exact = malloc(step);
        memcpy(exact, body + i, step);

        result = chunk_follow(&c, exact, step);
        free(exact);
    }

    return result;
}


static void
test_cut(void **state)
{
    size_t        n, step;
    const row_t  *row;

    (void) state;

    for (row = rows; row->what; row++) {

        n = strlen(row->body);

        for (step = 1; step <= (n ? n : 1); step++) {
            expect(follow(row->body, n, step) == row->result,
                   "%s, in pieces of %zu", row->what, step);
        }
    }
}


/* A line of `bytes` between head and tail. */

static chunk_result_t
long_line(const char *head, size_t bytes, const char *tail)
{
    char            *body;
    size_t           n;
    chunk_result_t   result;

    n = strlen(head) + bytes + strlen(tail);
    body = malloc(n + 1);

    memset(body, 'a', n);
    memcpy(body, head, strlen(head));
    memcpy(body + strlen(head) + bytes, tail, strlen(tail) + 1);

    result = follow(body, n, 1000);
    free(body);

    return result;
}


static void
test_lines(void **state)
{
    char    *body;
    size_t   i;

    (void) state;

    /* "5;", the extension, CR and LF */

    assert_int_equal(long_line("5;", CHUNK_LINE_MAX - 4,
                               "\r\nhello\r\n0\r\n\r\n"), CHUNK_END);
    assert_int_equal(long_line("5;", CHUNK_LINE_MAX - 3,
                               "\r\nhello\r\n0\r\n\r\n"), CHUNK_MALFORMED);
    assert_int_equal(long_line("0\r\nA:", CHUNK_LINE_MAX - 4, "\r\n\r\n"),
                     CHUNK_END);
    assert_int_equal(long_line("0\r\nA:", CHUNK_LINE_MAX - 3, "\r\n\r\n"),
                     CHUNK_MALFORMED);

    /* and all trailers together */

    body = malloc(32 + CHUNK_TRAILERS_MAX);
    strcpy(body, "0\r\n");

    for (i = 3; i < CHUNK_TRAILERS_MAX; i += 8) {
        memcpy(body + i, "A: bcd\r\n", 8);
    }

    assert_int_equal(follow(body, i, i), CHUNK_MORE);
    memcpy(body + i, "A: bcd\r\n", 8);
    assert_int_equal(follow(body, i + 8, i), CHUNK_MALFORMED);
    free(body);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        PROMISE("G-028 a chunked body is followed to its end wherever it is "
                "cut, and refused where it is not as RFC 9112 has it",
                test_cut),
        PROMISE("G-028 a line of the framing is bounded, and so are all "
                "trailers", test_lines),
    };

    return unit_run(tests);
}
