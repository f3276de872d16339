/*
 * The head of a CONNECT: one target, named alike by all that names it, and
 * no byte that could be read as something else's.
 */

#include "unit.h"

#include "parse/connect.h"


#define C(target)  "CONNECT " target " HTTP/1.1\r\n"


typedef struct {
    const char       *what;
    const char       *head;
    size_t            n;
    connect_error_t   error;
    const char       *host;             /* as far as it could be read */
    int               port;
} row_t;

#define X(what, head, rc, host, port)                                        \
    { what, head, sizeof(head) - 1, rc, host, port }


static connect_error_t
parse(const char *head, size_t n, connect_t *c, const char **why,
    unsigned char **exact)
{
    /* on the heap without a NUL, so that a sanitizer sees a read beyond */

    *exact = malloc(n ? n : 1);
    memcpy(*exact, head, n);
    *why = NULL;

    return connect_parse(*exact, n, c, why);
}


static void
check(const row_t *rows, size_t n)
{
    size_t            i;
    connect_t         c;
    const char       *why;
    unsigned char    *exact;
    connect_error_t   rc;

    for (i = 0; i < n; i++) {

        rc = parse(rows[i].head, rows[i].n, &c, &why, &exact);

        expect(rc == rows[i].error, "%s: %d (%s)", rows[i].what, rc,
               why ? why : "-");
        expect(rc == CONNECT_OK || (why && *why), "%s: no reason is given",
               rows[i].what);
        expect(strcmp(c.authority.host, rows[i].host) == 0
               && c.authority.port == rows[i].port,
               "%s: the target is \"%s\" and %d", rows[i].what,
               c.authority.host, c.authority.port);

        expect(c.line >= exact && c.line + c.line_len <= exact + rows[i].n
               && memchr(c.line, '\r', c.line_len) == NULL,
               "%s: the line is not within the head", rows[i].what);
        expect(c.host == NULL
               || (c.host > exact && c.host + c.host_len <= exact + rows[i].n
                   && memchr(c.host, '\r', c.host_len) == NULL),
               "%s: Host is not within the head", rows[i].what);

        free(exact);
    }
}


static void
test_accepted(void **state)
{
    static const row_t  rows[] = {
        X("a name", C("api.internal:443") "\r\n", CONNECT_OK,
          "api.internal", 443),
        X("with Host", C("api.internal:443") "Host: api.internal:443\r\n\r\n",
          CONNECT_OK, "api.internal", 443),
        X("with a Host without port",
          C("api.internal:8443") "Host: api.internal\r\n\r\n", CONNECT_OK,
          "api.internal", 8443),
        X("in other letters, with a dot",
          C("API.internal.:443") "hOsT:\t api.INTERNAL:443\r\n\r\n",
          CONNECT_OK, "api.internal", 443),
        X("HTTP/1.0", "CONNECT a.b:1 HTTP/1.0\r\n\r\n", CONNECT_OK, "a.b", 1),
        X("IPv4", C("192.0.2.1:65535") "Host: 192.0.2.1\r\n\r\n", CONNECT_OK,
          "192.0.2.1", 65535),
        X("IPv6", C("[2001:db8::1]:443") "Host: [2001:db8::1]:443\r\n\r\n",
          CONNECT_OK, "2001:db8::1", 443),
        X("what clients send beside it", C("a.b:1") "User-Agent: curl\r\n"
          "Proxy-Connection: Keep-Alive\r\nProxy-Authorization: Basic "
          "YTpi\r\nX-Empty:\r\nHosts: x\r\nContent-Type: y\r\n\r\n",
          CONNECT_OK, "a.b", 1),
    };

    (void) state;

    check(rows, COUNT(rows));
}


static void
test_mismatch(void **state)
{
    static const row_t  rows[] = {
        X("another host", C("a.b:1") "Host: a.c:1\r\n\r\n", CONNECT_MISMATCH,
          "a.b", 1),
        X("another port", C("a.b:1") "Host: a.b:2\r\n\r\n", CONNECT_MISMATCH,
          "a.b", 1),
        X("a host that begins like it", C("a.b:1") "Host: a.b.c:1\r\n\r\n",
          CONNECT_MISMATCH, "a.b", 1),
        X("an address for a name", C("a.b:1") "Host: 192.0.2.1:1\r\n\r\n",
          CONNECT_MISMATCH, "a.b", 1),
        X("IPv4 in IPv6", C("192.0.2.1:1")
          "Host: [::ffff:192.0.2.1]:1\r\n\r\n", CONNECT_MISMATCH,
          "192.0.2.1", 1),
    };

    (void) state;

    check(rows, COUNT(rows));
}


static void
test_lines(void **state)
{
    static const row_t  rows[] = {
        X("no port", C("api.internal") "\r\n", CONNECT_MALFORMED, "", 0),
        X("an empty port", C("api.internal:") "\r\n", CONNECT_MALFORMED, "",
          0),
        X("port 0", C("a.b:0") "\r\n", CONNECT_MALFORMED, "", 0),
        X("port 65536", C("a.b:65536") "\r\n", CONNECT_MALFORMED, "", 0),
        X("a port with a zero before it", C("a.b:0443") "\r\n",
          CONNECT_MALFORMED, "", 0),
        X("two ports", C("a.b:1:2") "\r\n", CONNECT_MALFORMED, "", 0),
        X("no host", C(":443") "\r\n", CONNECT_MALFORMED, "", 0),
        X("nothing", "CONNECT  HTTP/1.1\r\n\r\n", CONNECT_MALFORMED, "", 0),
        X("a URL", C("https://a.b:1/") "\r\n", CONNECT_MALFORMED, "", 0),
        X("a path", C("a.b:1/x") "\r\n", CONNECT_MALFORMED, "", 0),
        X("user information", C("x@a.b:1") "\r\n", CONNECT_MALFORMED, "", 0),
        X("a query", C("a.b:1?x") "\r\n", CONNECT_MALFORMED, "", 0),
        X("another spelling of an address", C("127.1:1") "\r\n",
          CONNECT_MALFORMED, "", 0),
        X("IPv6 without brackets", C("2001:db8::1:443") "\r\n",
          CONNECT_MALFORMED, "", 0),
        X("a zone", C("[fe80::1%25eth0]:1") "\r\n", CONNECT_MALFORMED, "", 0),
        X("a NUL", C("a\0.b:1") "\r\n", CONNECT_MALFORMED, "", 0),
        X("a tab for a space", "CONNECT a.b:1\tHTTP/1.1\r\n\r\n",
          CONNECT_MALFORMED, "", 0),
        X("two spaces", "CONNECT a.b:1  HTTP/1.1\r\n\r\n", CONNECT_MALFORMED,
          "a.b", 1),
        X("a space at the end", "CONNECT a.b:1 HTTP/1.1 \r\n\r\n",
          CONNECT_MALFORMED, "a.b", 1),
        X("no version", "CONNECT a.b:1\r\n\r\n", CONNECT_MALFORMED, "a.b", 1),
        X("HTTP/2.0", "CONNECT a.b:1 HTTP/2.0\r\n\r\n", CONNECT_MALFORMED,
          "a.b", 1),
        X("http/1.1", "CONNECT a.b:1 http/1.1\r\n\r\n", CONNECT_MALFORMED,
          "a.b", 1),
        X("HTTP/1.10", "CONNECT a.b:1 HTTP/1.10\r\n\r\n", CONNECT_MALFORMED,
          "a.b", 1),
        X("small letters", "connect a.b:1 HTTP/1.1\r\n\r\n",
          CONNECT_MALFORMED, "", 0),
        X("another method", "CONNECTS a.b:1 HTTP/1.1\r\n\r\n",
          CONNECT_MALFORMED, "", 0),
        X("the method alone", "CONNECT ", CONNECT_MALFORMED, "", 0),
    };

    (void) state;

    check(rows, COUNT(rows));
}


static void
test_headers(void **state)
{
    static const row_t  rows[] = {
        X("a body", C("a.b:1") "Content-Length: 5\r\n\r\n",
          CONNECT_MALFORMED, "a.b", 1),
        X("a body of nothing", C("a.b:1") "cOnTent-length:0\r\n\r\n",
          CONNECT_MALFORMED, "a.b", 1),
        X("a chunked body", C("a.b:1") "Transfer-Encoding: chunked\r\n\r\n",
          CONNECT_MALFORMED, "a.b", 1),
        X("Host twice", C("a.b:1") "Host: a.b:1\r\nHost: a.b:1\r\n\r\n",
          CONNECT_MALFORMED, "a.b", 1),
        X("an empty Host", C("a.b:1") "Host:\r\n\r\n", CONNECT_MALFORMED,
          "a.b", 1),
        X("a Host with a space behind it", C("a.b:1") "Host: a.b:1 \r\n\r\n",
          CONNECT_MALFORMED, "a.b", 1),
        X("a Host of two", C("a.b:1") "Host: a.b:1, a.c:1\r\n\r\n",
          CONNECT_MALFORMED, "a.b", 1),
        X("a folded line", C("a.b:1") "X: y\r\n Host: a.c\r\n\r\n",
          CONNECT_MALFORMED, "a.b", 1),
        X("a folded line with a tab", C("a.b:1") "X: y\r\n\tz:\r\n\r\n",
          CONNECT_MALFORMED, "a.b", 1),
        X("a name that is no token", C("a.b:1") "X(y): z\r\n\r\n",
          CONNECT_MALFORMED, "a.b", 1),
        X("a name in Unicode", C("a.b:1") "\xc3\xbc: z\r\n\r\n",
          CONNECT_MALFORMED, "a.b", 1),
        X("a control byte in a value", C("a.b:1") "X: \x1b[1m\r\n\r\n",
          CONNECT_MALFORMED, "a.b", 1),
        X("a line without a colon", C("a.b:1") "Host\r\n\r\n",
          CONNECT_MALFORMED, "a.b", 1),
        X("a line without a name", C("a.b:1") ": x\r\n\r\n",
          CONNECT_MALFORMED, "a.b", 1),
        X("a space before the colon", C("a.b:1") "Host : a.c:1\r\n\r\n",
          CONNECT_MALFORMED, "a.b", 1),
        X("a bare LF in a line", C("a.b:1") "X: y\nHost: a.c:1\r\n\r\n",
          CONNECT_MALFORMED, "a.b", 1),
        X("a bare CR in a line", C("a.b:1") "X: y\rHost: a.c:1\r\n\r\n",
          CONNECT_MALFORMED, "a.b", 1),
        X("a bare LF at the request line's end",
          "CONNECT a.b:1 HTTP/1.1\nHost: a.c:1\r\n\r\n", CONNECT_MALFORMED,
          "a.b", 1),
        X("a NUL in a line", C("a.b:1") "X: \0\r\n\r\n", CONNECT_MALFORMED,
          "a.b", 1),
        X("a NUL in a name", C("a.b:1") "Content\0-Length: 1\r\n\r\n",
          CONNECT_MALFORMED, "a.b", 1),
        X("no end", C("a.b:1") "X: y\r\n", CONNECT_MALFORMED, "a.b", 1),
        X("something behind the end", C("a.b:1") "\r\nGET", CONNECT_MALFORMED,
          "a.b", 1),
        X("an end before the end", C("a.b:1") "\r\nX: y\r\n\r\n",
          CONNECT_MALFORMED, "a.b", 1),
    };

    (void) state;

    check(rows, COUNT(rows));
}


static void
test_truncated(void **state)
{
    size_t           n;
    connect_t        c;
    const char      *why;
    unsigned char   *exact;

    static const char  head[] = C("api.internal:443")
                                "Host: api.internal:443\r\n"
                                "User-Agent: x\r\n\r\n";

    (void) state;

    for (n = 0; n < sizeof(head) - 1; n++) {
        expect(parse(head, n, &c, &why, &exact) == CONNECT_MALFORMED,
               "%zu bytes are accepted", n);
        expect(connect_head_length(exact, n) == 0,
               "%zu bytes are taken for a head", n);
        free(exact);
    }

    assert_int_equal(parse(head, n, &c, &why, &exact), CONNECT_OK);
    free(exact);
}


static void
test_length(void **state)
{
    size_t  i;

    static const struct {
        const char  *text;
        size_t       length;
    } rows[] = {
        { "", 0 }, { "\r\n\r", 0 }, { "\r\n\r\n", 4 }, { "a\r\n\r\n", 5 },
        { "a\r\n\r\nb\r\n\r\n", 5 }, { "a\n\n", 0 }, { "a\r\n\n", 0 },
        { "a\n\r\n", 0 }, { "\r\r\n\r\n", 5 }, { "a\r\n\r\r\n\r\n", 8 },
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {
        expect(connect_head_length((const unsigned char *) rows[i].text,
                                   strlen(rows[i].text)) == rows[i].length,
               "row %zu has another length", i);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        PROMISE("a CONNECT as real clients send it is accepted", test_accepted),
        PROMISE("a Host that names another target is a mismatch",
                test_mismatch),
        PROMISE("B-018 a request line that two readers could read differently "
                "is malformed", test_lines),
        PROMISE("B-018 a header with two readings is refused, and so is a body",
                test_headers),
        PROMISE("a head that is cut is not taken for a whole one",
                test_truncated),
        PROMISE("a head ends at its first empty line", test_length),
    };

    return unit_run(tests);
}
