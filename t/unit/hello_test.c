/*
 * The name in a client hello: read alike however its bytes are cut, and only
 * where a server could read no other.
 */

#include "unit.h"
#include "bytes.h"

#include "parse/client_hello.h"
#include "hellos.h"


#define ROW(name, rc)  { #name, hello_##name, sizeof(hello_##name), rc }


typedef struct {
    const char           *what;
    const unsigned char  *p;
    size_t                n;
    hello_error_t         error;
} row_t;


static const row_t  hellos[] = {
    ROW(openssl_tls13, HELLO_OK),
    ROW(openssl_tls12, HELLO_OK),
    ROW(openssl_no_name, HELLO_NO_NAME),
    ROW(curl, HELLO_OK),
    ROW(curl_address, HELLO_NO_NAME),
    ROW(python, HELLO_OK),
    ROW(node, HELLO_OK),
};


/* On the heap, to its size, so that a sanitizer sees a read beyond it. */

static hello_error_t
parse(const unsigned char *p, size_t n, authority_t *name)
{
    hello_error_t   rc;
    unsigned char  *exact;

    exact = malloc(n ? n : 1);
    memcpy(exact, p, n);
    memset(name, 0xff, sizeof(authority_t));

    rc = client_hello_parse(exact, n, name);

    free(exact);

    expect(rc == HELLO_OK || name->host_len == 0,
           "a name is set after an error");

    return rc;
}


/* A record's message, cut into records of at most size bytes. */

static void
cut(const unsigned char *p, size_t n, size_t size, bytes_t *b)
{
    size_t  i, len;

    b->n = 0;

    for (i = 5; i < n; i += len) {
        len = n - i < size ? n - i : size;
        bytes_add(b, "\x16\x03\x01", 3);
        bytes_add_number(b, len, 2);
        bytes_add(b, p + i, len);
    }
}


/* A hello of just these extensions. */

static void
build(bytes_t *b, const void *extensions, size_t n)
{
    b->n = 0;

    bytes_add(b, "\x16\x03\x01", 3);
    bytes_add_number(b, 4 + 2 + 32 + 1 + 4 + 2 + 2 + n, 2);
    bytes_add(b, "\1", 1);
    bytes_add_number(b, 2 + 32 + 1 + 4 + 2 + 2 + n, 3);
    bytes_add(b, "\3\3", 2);
    bytes_add(b, "0123456789abcdef0123456789abcdef", 32);
    bytes_add(b, "\0", 1);                    /* session id */
    bytes_add(b, "\0\2\x13\1", 4);            /* one cipher suite */
    bytes_add(b, "\1\0", 2);                  /* no compression */
    bytes_add_number(b, n, 2);
    bytes_add(b, extensions, n);
}


static void
test_real(void **state)
{
    size_t         i;
    hello_error_t  rc;
    authority_t    name;

    (void) state;

    for (i = 0; i < COUNT(hellos); i++) {

        rc = parse(hellos[i].p, hellos[i].n, &name);

        expect(rc == hellos[i].error, "%s: %d", hellos[i].what, rc);
        expect(rc != HELLO_OK || strcmp(name.host, "api.internal") == 0,
               "%s names \"%s\"", hellos[i].what, name.host);
    }
}


static void
test_records(void **state)
{
    size_t         i, size;
    bytes_t        b;
    hello_error_t  rc;
    authority_t    name;

    (void) state;

    for (i = 0; i < COUNT(hellos); i++) {
        for (size = 1; size < hellos[i].n; size++) {

            cut(hellos[i].p, hellos[i].n, size, &b);

            rc = parse(b.p, b.n, &name);

            expect(rc == hellos[i].error, "%s in records of %zu: %d",
                   hellos[i].what, size, rc);
            expect(rc != HELLO_OK || strcmp(name.host, "api.internal") == 0,
                   "%s in records of %zu names \"%s\"", hellos[i].what, size,
                   name.host);
        }
    }
}


static void
test_truncated(void **state)
{
    size_t         i, k, n, size;
    bytes_t        b;
    hello_error_t  rc;
    authority_t    name;

    static const size_t  sizes[] = { 1, 3, 4, 5, 50, 16384 };

    (void) state;

    for (i = 0; i < COUNT(hellos); i++) {
        for (k = 0; k < COUNT(sizes); k++) {

            size = sizes[k];
            cut(hellos[i].p, hellos[i].n, size, &b);

            for (n = 0; n < b.n; n++) {
                rc = parse(b.p, n, &name);
                expect(rc == HELLO_MORE, "%zu of %zu bytes of %s in records "
                       "of %zu: %d", n, b.n, hellos[i].what, size, rc);
            }
        }
    }
}


/* A message that is cut within, with lengths that say so, is no hello. */

static void
test_shortened(void **state)
{
    size_t         i, n;
    bytes_t        b;
    hello_error_t  rc;
    authority_t    name;

    (void) state;

    for (i = 0; i < COUNT(hellos); i++) {
        for (n = 9; n < hellos[i].n; n++) {

            b.n = 0;
            bytes_add(&b, "\x16\x03\x01", 3);
            bytes_add_number(&b, n - 5, 2);
            bytes_add(&b, "\1", 1);
            bytes_add_number(&b, n - 9, 3);
            bytes_add(&b, hellos[i].p + 9, n - 9);

            rc = parse(b.p, b.n, &name);

            /* without extensions it is one, without a name */

            expect(rc == HELLO_MALFORMED || rc == HELLO_NO_NAME,
                   "%s shortened to %zu bytes: %d", hellos[i].what, n, rc);
        }
    }
}


static void
test_followed(void **state)
{
    bytes_t      b;
    authority_t  name;

    (void) state;

    /* more in the same record, and in a record behind it */

    b.n = 0;
    bytes_add(&b, "\x16\x03\x01", 3);
    bytes_add_number(&b, sizeof(hello_node) - 5 + 4, 2);
    bytes_add(&b, hello_node + 5, sizeof(hello_node) - 5);
    bytes_add(&b, "\1\0\0\0", 4);
    assert_int_equal(parse(b.p, b.n, &name), HELLO_MALFORMED);

    /* what comes in the next record is the tunnel's own, and not read here */

    b.n = 0;
    bytes_add(&b, hello_node, sizeof(hello_node));
    bytes_add(&b, hello_curl, sizeof(hello_curl));
    assert_int_equal(parse(b.p, b.n, &name), HELLO_OK);
    assert_string_equal(name.host, "api.internal");
}


static void
test_extensions(void **state)
{
    size_t         i;
    bytes_t        b;
    hello_error_t  rc;
    authority_t    name;

#define SNI(len, list, type, n, text)                                        \
    "\0\0" "\0" len "\0" list type "\0" n text

    static const struct {
        const char     *what;
        const char     *p;
        size_t          n;
        hello_error_t   error;
        const char     *host;
    } rows[] = {

#define X(what, p, rc, host)  { what, p, sizeof(p) - 1, rc, host }

        X("none", "", HELLO_NO_NAME, ""),
        X("one name", SNI("\6", "\4", "\0", "\1", "a"), HELLO_OK, "a"),
        X("in capitals, with a dot at its end",
          SNI("\x09", "\7", "\0", "\4", "A.B."), HELLO_OK, "a.b"),
        X("an extension before it",
          "\x0a\x0a\0\0" SNI("\6", "\4", "\0", "\1", "a"), HELLO_OK, "a"),
        X("an extension behind it",
          SNI("\6", "\4", "\0", "\1", "a") "\0\x17\0\0", HELLO_OK, "a"),
        X("the extension twice", SNI("\6", "\4", "\0", "\1", "a")
          SNI("\6", "\4", "\0", "\1", "a"), HELLO_MALFORMED, ""),
        X("two names in it", "\0\0\0\x0a\0\x08\0\0\1a\0\0\1b",
          HELLO_MALFORMED, ""),
        X("an empty extension", "\0\0\0\0", HELLO_MALFORMED, ""),
        X("an empty list", "\0\0\0\2\0\0", HELLO_MALFORMED, ""),
        X("an empty name", SNI("\5", "\3", "\0", "\0", ""),
          HELLO_MALFORMED, ""),
        X("a name of another type", SNI("\6", "\4", "\1", "\1", "a"),
          HELLO_MALFORMED, ""),
        X("a list that is too long", SNI("\6", "\5", "\0", "\1", "a"),
          HELLO_MALFORMED, ""),
        X("a list that is too short", SNI("\6", "\3", "\0", "\1", "a"),
          HELLO_MALFORMED, ""),
        X("a name that is too long", SNI("\6", "\4", "\0", "\2", "a"),
          HELLO_MALFORMED, ""),
        X("a byte behind the name", SNI("\7", "\5", "\0", "\1", "ab"),
          HELLO_MALFORMED, ""),
        X("a byte behind the list", SNI("\7", "\4", "\0", "\1", "ab"),
          HELLO_MALFORMED, ""),
        X("an address", SNI("\x0e", "\x0c", "\0", "\x09", "127.0.0.1"),
          HELLO_MALFORMED, ""),
        X("an address of IPv6", SNI("\x08", "\6", "\0", "\3", "::1"),
          HELLO_MALFORMED, ""),
        X("a port", SNI("\x09", "\7", "\0", "\4", "a:80"),
          HELLO_MALFORMED, ""),
        X("a NUL in the name", SNI("\x08", "\6", "\0", "\3", "a\0b"),
          HELLO_MALFORMED, ""),
        X("a space in the name", SNI("\x08", "\6", "\0", "\3", "a b"),
          HELLO_MALFORMED, ""),
        X("a wildcard", SNI("\x08", "\6", "\0", "\3", "*.b"),
          HELLO_MALFORMED, ""),
        X("Unicode", SNI("\7", "\5", "\0", "\2", "\xc3\xbc"),
          HELLO_MALFORMED, ""),
        X("an encrypted hello alone", "\xfe\x0d\0\1\0", HELLO_ENCRYPTED, ""),
        X("an encrypted hello behind a name",
          SNI("\6", "\4", "\0", "\1", "a") "\xfe\x0d\0\0",
          HELLO_ENCRYPTED, ""),
        X("an encrypted hello before a name",
          "\xfe\x0d\0\0" SNI("\6", "\4", "\0", "\1", "a"),
          HELLO_ENCRYPTED, ""),
        X("half an extension", "\0", HELLO_MALFORMED, ""),
        X("an extension beyond the end", "\x0a\x0a\0\1", HELLO_MALFORMED,
          ""),
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {

        build(&b, rows[i].p, rows[i].n);
        rc = parse(b.p, b.n, &name);

        expect(rc == rows[i].error, "%s: %d", rows[i].what, rc);
        expect(strcmp(name.host, rows[i].host) == 0,
               "%s: names \"%s\"", rows[i].what, name.host);
    }
}


static void
test_no_hello(void **state)
{
    size_t         i;
    authority_t    name;
    hello_error_t  rc;

    static const struct {
        const char     *what;
        const char     *p;
        size_t          n;
        hello_error_t   error;
    } rows[] = {

#define Y(what, p, rc)  { what, p, sizeof(p) - 1, rc }

        Y("nothing", "", HELLO_MORE),
        Y("its first byte", "\x16", HELLO_MORE),
        Y("HTTP", "G", HELLO_MALFORMED),
        Y("a request", "GET / HTTP/1.1\r\n\r\n", HELLO_MALFORMED),
        Y("SSH", "SSH-2.0-x\r\n", HELLO_MALFORMED),
        Y("SSL 2", "\x80\x2e\1\3\1\0\x15\0\0\0\x10", HELLO_MALFORMED),
        Y("an alert", "\x15\3\1\0\2\2\x28", HELLO_MALFORMED),
        Y("application data", "\x17\3\3\0\1x", HELLO_MALFORMED),
        Y("a version of 2", "\x16\2\0\0\4\1\0\0\0", HELLO_MALFORMED),
        Y("an empty record", "\x16\3\1\0\0", HELLO_MALFORMED),
        Y("a record of 16385 bytes", "\x16\3\1\x40\1", HELLO_MALFORMED),
        Y("a server's hello", "\x16\3\3\0\4\2\0\0\0", HELLO_MALFORMED),
        Y("a message of 16 MB", "\x16\3\1\0\4\1\xff\xff\xff",
          HELLO_MALFORMED),
        Y("one of no bytes", "\x16\3\1\0\4\1\0\0\0", HELLO_MALFORMED),
        Y("another record between", "\x16\3\1\0\2\1\0\x17\3\3\0\1x",
          HELLO_MALFORMED),
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {
        rc = parse((const unsigned char *) rows[i].p, rows[i].n, &name);
        expect(rc == rows[i].error, "%s: %d", rows[i].what, rc);
    }
}


/* What never becomes one is not waited for beyond HELLO_MAX bytes. */

static void
test_endless(void **state)
{
    size_t         n;
    bytes_t        b;
    authority_t    name;

    (void) state;

    b.n = 0;
    bytes_add(&b, "\x16\x03\x01\x40\0\1\0\x3f\xfc", 9);

    while (b.n < HELLO_MAX) {
        bytes_add(&b, "", 1);
    }

    assert_int_equal(parse(b.p, HELLO_MAX - 1, &name), HELLO_MORE);
    assert_int_equal(parse(b.p, HELLO_MAX, &name), HELLO_MALFORMED);

    /* in records of one byte, each costs six */

    for (b.n = 0, n = 0; b.n + 6 <= HELLO_MAX; n++) {
        bytes_add(&b, "\x16\x03\x01\0\1", 5);
        bytes_add(&b, n == 0 ? "\1" : n == 2 ? "\x20" : "\0", 1);
    }

    assert_int_equal(parse(b.p, b.n - 1, &name), HELLO_MORE);

    while (b.n < HELLO_MAX) {
        bytes_add(&b, "\x16", 1);
    }

    assert_int_equal(parse(b.p, b.n, &name), HELLO_MALFORMED);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        PROMISE("the hellos of real programs give the names they hold",
                test_real),
        PROMISE("B-043 a hello in records of any size is read alike",
                test_records),
        PROMISE("the beginning of a hello waits for the rest",
                test_truncated),
        PROMISE("a hello whose lengths do not hold is malformed",
                test_shortened),
        PROMISE("nothing follows a hello in its records", test_followed),
        PROMISE("B-043 one valid name is accepted, and nothing that two "
                "readers could read differently", test_extensions),
        PROMISE("bytes that are not a hello are not waited for", test_no_hello),
        PROMISE("a hello that never ends is given up at a bound",
                test_endless),
    };

    return unit_run(tests);
}
