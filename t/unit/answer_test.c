/*
 * The head of an upstream's answer: what is taken has one end and one body for
 * every reader, what is not HTTP is refused as soon as that is known, and how
 * the bytes arrive makes no difference.
 */

#include "unit.h"

#include "parse/answer.h"
#include "parse/field.h"


typedef struct {
    const char   *head;
    size_t        n;
    answer_rc_t   rc;
} row_t;

#define X(rc, head)  { head, sizeof(head) - 1, rc }
#define OK           "HTTP/1.1 200 OK\r\n"


/* all at once, or byte by byte; in a copy that ends where it ends */

static answer_rc_t
feed(const char *head, size_t n, size_t step, answer_t *a)
{
    size_t          have;
    answer_rc_t     rc;
    unsigned char  *copy;

    memset(a, 0, sizeof(answer_t));
    rc = ANSWER_MORE;

    for (have = step; rc == ANSWER_MORE; have += step) {

        have = have < n ? have : n;

        copy = malloc(have ? have : 1);
        memcpy(copy, head, have);
        rc = answer_read(copy, have, a);
        free(copy);

        if (have == n) {
            break;
        }
    }

    a->accept = NULL;

    return rc;
}


static const row_t  rows[] = {

    X(ANSWER_DONE, "HTTP/1.1 200 OK\r\n\r\n"),
    X(ANSWER_DONE, "HTTP/1.1 200\r\n\r\n"),
    X(ANSWER_DONE, "HTTP/1.1 200 \r\n\r\n"),
    X(ANSWER_DONE, "HTTP/1.0 404 Not\tfound \xff\r\n\r\n"),
    X(ANSWER_DONE, "HTTP/1.1 100 Continue\r\n\r\n"),
    X(ANSWER_DONE, "HTTP/1.1 599 x\r\n\r\n"),
    X(ANSWER_DONE, OK "X-A: b\r\nX.B_!#$%&'*+^`|~: c\r\n\r\n"),
    X(ANSWER_DONE, OK "X-A:\r\nX-B: \t \r\nX-C:a\tb\x80 \r\n\r\nbody"),
    X(ANSWER_DONE, OK "Content-Length: 0\r\n\r\n"),
    X(ANSWER_DONE, OK "Content-Length: 999999999999999999\r\n\r\n"),
    X(ANSWER_DONE, OK "Transfer-Encoding: Chunked\r\n\r\n"),
    X(ANSWER_DONE, OK "Transfer-Encoding:\tchunked \r\n\r\n"),

    X(ANSWER_MORE, ""),
    X(ANSWER_MORE, "HTT"),
    X(ANSWER_MORE, "HTTP/1.1 200 OK"),
    X(ANSWER_MORE, "HTTP/1.1 200 OK\r"),
    X(ANSWER_MORE, OK),
    X(ANSWER_MORE, OK "X-A: b\r\n"),
    X(ANSWER_MORE, OK "X-A: b\r\n\r"),

    X(ANSWER_BAD, "SSH"),
    X(ANSWER_BAD, "\r\nHTTP/1.1 200 OK\r\n\r\n"),
    X(ANSWER_BAD, "http/1.1 200 OK\r\n\r\n"),
    X(ANSWER_BAD, "HTTP/2.0 200 OK\r\n\r\n"),
    X(ANSWER_BAD, "HTTP/1.2 200 OK\r\n\r\n"),
    X(ANSWER_BAD, "HTTP/1.11 200 OK\r\n\r\n"),
    X(ANSWER_BAD, "HTTP/1.1  200 OK\r\n\r\n"),
    X(ANSWER_BAD, "HTTP/1.1\t200 OK\r\n\r\n"),
    X(ANSWER_BAD, "HTTP/1.1 20 OK\r\n\r\n"),
    X(ANSWER_BAD, "HTTP/1.1 2000 OK\r\n\r\n"),
    X(ANSWER_BAD, "HTTP/1.1 099 OK\r\n\r\n"),
    X(ANSWER_BAD, "HTTP/1.1 600 OK\r\n\r\n"),
    X(ANSWER_BAD, "HTTP/1.1 +20 OK\r\n\r\n"),
    X(ANSWER_BAD, "HTTP/1.1 200OK\r\n\r\n"),
    X(ANSWER_BAD, "HTTP/1.1 200\tOK\r\n\r\n"),
    X(ANSWER_BAD, "HTTP/1.1 200 O\x01K\r\n\r\n"),
    X(ANSWER_BAD, "HTTP/1.1 200 O\rK\r\n\r\n"),
    X(ANSWER_BAD, "HTTP/1.1 200 O\0K\r\n\r\n"),
    X(ANSWER_BAD, "HTTP/1.1 200 OK\n\n"),
    X(ANSWER_BAD, "\n"),

    X(ANSWER_BAD, OK "X-A: b\n\r\n"),
    X(ANSWER_BAD, OK "X-A: b\r\n\n"),
    X(ANSWER_BAD, OK "X-A: b\r\r\n\r\n"),
    X(ANSWER_BAD, OK "X-A: b\rc\r\n\r\n"),
    X(ANSWER_BAD, OK "X-A: b\0c\r\n\r\n"),
    X(ANSWER_BAD, OK "X-A: b\x1b[0m\r\n\r\n"),
    X(ANSWER_BAD, OK "X-A: b\x7f\r\n\r\n"),
    X(ANSWER_BAD, OK "X-A\r\n\r\n"),
    X(ANSWER_BAD, OK ": b\r\n\r\n"),
    X(ANSWER_BAD, OK "X-A : b\r\n\r\n"),
    X(ANSWER_BAD, OK " X-A: b\r\n\r\n"),
    X(ANSWER_BAD, OK "X-A: b\r\n c\r\n\r\n"),
    X(ANSWER_BAD, OK "X-A: b\r\n\tc\r\n\r\n"),
    X(ANSWER_BAD, OK "X\xe4: b\r\n\r\n"),
    X(ANSWER_BAD, OK "X\0A: b\r\n\r\n"),
    X(ANSWER_BAD, OK "X(A): b\r\n\r\n"),

    X(ANSWER_BAD, OK "Content-Length: 5\r\nContent-Length: 5\r\n\r\n"),
    X(ANSWER_BAD, OK "content-length: 5\r\nCONTENT-LENGTH: 6\r\n\r\n"),
    X(ANSWER_BAD, OK "Content-Length: 5, 5\r\n\r\n"),
    X(ANSWER_BAD, OK "Content-Length: -5\r\n\r\n"),
    X(ANSWER_BAD, OK "Content-Length: +5\r\n\r\n"),
    X(ANSWER_BAD, OK "Content-Length: 0x5\r\n\r\n"),
    X(ANSWER_BAD, OK "Content-Length:\r\n\r\n"),
    X(ANSWER_BAD, OK "Content-Length: 5 5\r\n\r\n"),
    X(ANSWER_BAD, OK "Content-Length: 9999999999999999999\r\n\r\n"),
    X(ANSWER_BAD, OK "Transfer-Encoding: chunked\r\n"
                     "Content-Length: 5\r\n\r\n"),
    X(ANSWER_BAD, OK "Content-Length: 5\r\n"
                     "Transfer-Encoding: chunked\r\n\r\n"),
    X(ANSWER_BAD, OK "Transfer-Encoding: gzip, chunked\r\n\r\n"),
    X(ANSWER_BAD, OK "Transfer-Encoding: chunked, chunked\r\n\r\n"),
    X(ANSWER_BAD, OK "Transfer-Encoding: chunked\r\n"
                     "Transfer-Encoding: chunked\r\n\r\n"),
    X(ANSWER_BAD, OK "Transfer-Encoding: xchunked\r\n\r\n"),
    X(ANSWER_BAD, OK "Transfer-Encoding: identity\r\n\r\n"),
    X(ANSWER_BAD, OK "Transfer-Encoding:\r\n\r\n"),
    X(ANSWER_BAD, "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
};


static void
test_rows(void **state)
{
    size_t        i;
    answer_t      once, slow;
    answer_rc_t   rc;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {

        rc = feed(rows[i].head, rows[i].n, rows[i].n ? rows[i].n : 1, &once);

        expect(rc == rows[i].rc, "row %zu \"%s\": %d, %s", i, rows[i].head,
               (int) rc, once.why ? once.why : "-");
        expect((rc == ANSWER_BAD) == (once.why != NULL),
               "row %zu: a reason if it is refused", i);

        expect(feed(rows[i].head, rows[i].n, 1, &slow) == rc
               && (rc == ANSWER_BAD || memcmp(&once, &slow, sizeof(once)) == 0),
               "row %zu is read otherwise byte by byte", i);
    }
}


static void
test_values(void **state)
{
    answer_t  a;

    static const char  head[] =
        "HTTP/1.0 101 x\r\nConnection: keep-alive , UPGRADE\r\n"
        "upgrade: WebSocket\r\nKeep-Alive: max=5, Timeout=17, x\r\n"
        "Sec-WebSocket-Accept: abc\r\nContent-Length: 12\r\n\r\nbehind";

    assert_int_equal(feed(head, sizeof(head) - 1, sizeof(head) - 1, &a),
                     ANSWER_DONE);

    assert_int_equal(a.at, sizeof(head) - 1 - strlen("behind"));
    assert_int_equal(a.status, 101);
    assert_true(a.is_1_0 && a.has_length && !a.chunked);
    assert_true(a.upgrade && a.websocket && a.upgrades == 1);
    assert_int_equal(a.keep, 17);
    assert_int_equal(a.accept_len, 3);
    assert_int_equal(a.accepts, 1);
}


static unsigned
keep(const char *value)
{
    int       n;
    char      head[256];
    answer_t  a;

    n = snprintf(head, sizeof(head), OK "Keep-Alive: %s\r\n\r\n", value);

    return feed(head, n, n, &a) == ANSWER_DONE ? a.keep : 999999;
}


static void
test_keep(void **state)
{
    assert_int_equal(keep("timeout=5"), 5);
    assert_int_equal(keep("timeout=1, max=100"), 1);
    assert_int_equal(keep("max=100, timeout=60"), 60);
    assert_int_equal(keep("timeout=99999999999999999999"), 3600);
    assert_int_equal(keep("timeout=0"), 0);
    assert_int_equal(keep("timeout="), 0);
    assert_int_equal(keep("timeout=x"), 0);
    assert_int_equal(keep("max=100"), 0);
    assert_int_equal(keep(""), 0);
}


static void
test_names(void **state)
{
    int             i;
    unsigned char   byte;
    field_name_t    want;

    for (i = 0; i < 256; i++) {

        byte = (unsigned char) i;

        want = i && strchr("-0123456789abcdefghijklmnopqrstuvwxyz"
                           "ABCDEFGHIJKLMNOPQRSTUVWXYZ", i) ? FIELD_PLAIN
               : i && strchr("!#$%&'*+.^_`|~", i) ? FIELD_ODD
               : FIELD_MALFORMED;

        expect(field_name(&byte, 1) == want, "the name 0x%02x", i);
        expect(field_is_value(&byte, 1)
               == (i == '\t' || (i >= 0x20 && i != 0x7f)),
               "the value 0x%02x", i);
    }

    assert_int_equal(field_name((const unsigned char *) "", 0),
                     FIELD_MALFORMED);
    assert_int_equal(field_name((const unsigned char *) "a_b", 3), FIELD_ODD);
    assert_int_equal(field_name((const unsigned char *) "a_ b", 4),
                     FIELD_MALFORMED);
    assert_true(field_is_value((const unsigned char *) "", 0));
}


static int
has(const char *list, const char *word)
{
    return field_has_word((const unsigned char *) list, strlen(list), word);
}


static void
test_words(void **state)
{
    assert_true(has("upgrade", "upgrade"));
    assert_true(has("keep-alive,\tUpGrade ,x", "upgrade"));
    assert_true(has(",, upgrade", "upgrade"));
    assert_false(has("upgrades", "upgrade"));
    assert_false(has("xupgrade", "upgrade"));
    assert_false(has("upgrade;q=1", "upgrade"));
    assert_false(has("", "upgrade"));
    assert_false(has(" , ", "upgrade"));
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        PROMISE("G-028: what is not HTTP is refused, also byte by byte",
                test_rows),
        PROMISE("the fields that the broker acts on are read", test_values),
        PROMISE("Keep-Alive is read as seconds, or as nothing", test_keep),
        PROMISE("G-028: each byte in a name and in a value", test_names),
        PROMISE("a word is found in a list, whole", test_words),
    };

    return unit_run(tests);
}
