/*
 * The parser of authorities: every door and every policy relies on it, so
 * what it refuses is tested byte by byte.
 */

#include "unit.h"

#include "parse/authority.h"


typedef struct {
    const char         *text;
    authority_error_t   error;
    const char         *host;           /* of an accepted one */
    int                 port;
} row_t;


static authority_error_t
parse(const char *text, size_t n, uint16_t port, authority_t *a)
{
    unsigned char      *exact;
    authority_error_t   rc;

    /* on the heap without a NUL, so that a sanitizer sees a read beyond */

    exact = malloc(n ? n : 1);
    memcpy(exact, text, n);
    rc = authority_parse(exact, n, port, a);
    free(exact);

    return rc;
}


static void
check_rows(const row_t *rows, size_t n, uint16_t port)
{
    size_t              i, k;
    authority_t         a;
    authority_error_t   rc;

    for (i = 0; i < n; i++) {

        rc = parse(rows[i].text, strlen(rows[i].text), port, &a);

        expect(rc == rows[i].error, "\"%s\": expected \"%s\", got \"%s\"",
               rows[i].text, authority_strerror(rows[i].error),
               authority_strerror(rc));

        if (rc == AUTHORITY_OK) {
            expect(strcmp(a.host, rows[i].host) == 0
                   && a.host_len == strlen(a.host),
                   "\"%s\": expected host \"%s\", got \"%s\"", rows[i].text,
                   rows[i].host, a.host);
            expect(a.port == rows[i].port, "\"%s\": expected port %d, got %d",
                   rows[i].text, rows[i].port, a.port);
            continue;
        }

        for (k = 0; k < sizeof(a); k++) {
            expect(((unsigned char *) &a)[k] == 0,
                   "\"%s\": something is left in the result", rows[i].text);
        }
    }
}


static void
test_names(void **state)
{
    static const row_t  rows[] = {
        { "api.internal", AUTHORITY_OK, "api.internal", 443 },
        { "API.Internal", AUTHORITY_OK, "api.internal", 443 },
        { "api.internal:80", AUTHORITY_OK, "api.internal", 80 },
        { "localhost", AUTHORITY_OK, "localhost", 443 },
        { "_dmarc.a_b.example", AUTHORITY_OK, "_dmarc.a_b.example", 443 },
        { "1.example", AUTHORITY_OK, "1.example", 443 },
        { "1e100.net", AUTHORITY_OK, "1e100.net", 443 },
        { "0x7f.example", AUTHORITY_OK, "0x7f.example", 443 },
        { "example.0xyz", AUTHORITY_OK, "example.0xyz", 443 },
        { "xn--bcher-kva.example", AUTHORITY_OK, "xn--bcher-kva.example",
          443 },
        { "", AUTHORITY_EMPTY, NULL, 0 },
        { ":443", AUTHORITY_EMPTY, NULL, 0 },
        { ":", AUTHORITY_EMPTY, NULL, 0 },
        { "a..example", AUTHORITY_BAD_LABEL, NULL, 0 },
        { ".example", AUTHORITY_BAD_LABEL, NULL, 0 },
        { "-a.example", AUTHORITY_BAD_LABEL, NULL, 0 },
        { "a-.example", AUTHORITY_BAD_LABEL, NULL, 0 },
        { "a.-", AUTHORITY_BAD_LABEL, NULL, 0 },
        { "*.example", AUTHORITY_BAD_BYTE, NULL, 0 },
        { "a,b", AUTHORITY_BAD_BYTE, NULL, 0 },
        { "a b", AUTHORITY_BAD_BYTE, NULL, 0 },
        { "\ta", AUTHORITY_BAD_BYTE, NULL, 0 },
        { "http://a", AUTHORITY_BAD_BYTE, NULL, 0 },
        { "a/", AUTHORITY_BAD_BYTE, NULL, 0 },
        { "a\\b", AUTHORITY_BAD_BYTE, NULL, 0 },
    };

    (void) state;

    check_rows(rows, COUNT(rows), 443);
}


static void
test_lengths(void **state)
{
    char         text[300];
    size_t       i;
    authority_t  a;

    (void) state;

    memset(text, 'a', sizeof(text));

    assert_int_equal(parse(text, 63, 1, &a), AUTHORITY_OK);
    assert_int_equal(parse(text, 64, 1, &a), AUTHORITY_BAD_LABEL);

    for (i = 63; i < sizeof(text); i += 64) {
        text[i] = '.';
    }

    /* 253 bytes, and 254 of which the last is the root's dot */

    assert_int_equal(parse(text, 253, 1, &a), AUTHORITY_OK);
    assert_int_equal(a.host_len, 253);
    assert_int_equal(parse(text, 254, 1, &a), AUTHORITY_TOO_LONG);

    text[253] = '.';
    assert_int_equal(parse(text, 254, 1, &a), AUTHORITY_OK);
    assert_int_equal(a.host_len, 253);
    assert_int_equal(a.host[253], '\0');

    text[254] = '.';
    assert_int_not_equal(parse(text, 255, 1, &a), AUTHORITY_OK);
}


static void
test_ports(void **state)
{
    int                 port, zeros;
    char                text[64];
    authority_t         a;
    authority_error_t   rc;

    static const row_t  rows[] = {
        { "a:", AUTHORITY_BAD_PORT, NULL, 0 },
        { "a:+1", AUTHORITY_BAD_BYTE, NULL, 0 },
        { "a:-12", AUTHORITY_BAD_PORT, NULL, 0 },
        { "a:0x50", AUTHORITY_BAD_PORT, NULL, 0 },
        { "a:https", AUTHORITY_BAD_PORT, NULL, 0 },
        { "a:4294967376", AUTHORITY_BAD_PORT, NULL, 0 },
        { "a:18446744073709551696", AUTHORITY_BAD_PORT, NULL, 0 },
        { "a:80.", AUTHORITY_BAD_PORT, NULL, 0 },
        { "a:8_0", AUTHORITY_BAD_PORT, NULL, 0 },
        { "a:1:2", AUTHORITY_BAD_ADDRESS, NULL, 0 },
    };

    (void) state;

    check_rows(rows, COUNT(rows), 443);

    for (port = 0; port <= 70000; port++) {
        for (zeros = 0; zeros < 2; zeros++) {

            (void) snprintf(text, sizeof(text), "a:%s%d", zeros ? "0" : "",
                            port);

            rc = parse(text, strlen(text), 443, &a);

            if (port >= 1 && port <= 65535 && !zeros) {
                expect(rc == AUTHORITY_OK && a.port == port && a.has_port,
                       "\"%s\" is refused or misread", text);
            } else {
                expect(rc == AUTHORITY_BAD_PORT, "\"%s\" is accepted", text);
            }
        }
    }
}


static void
test_trailing_dot(void **state)
{
    authority_t  with, without;

    static const row_t  rows[] = {
        { "allowed.", AUTHORITY_OK, "allowed", 443 },
        { "allowed.:8443", AUTHORITY_OK, "allowed", 8443 },
        { "allowed.test.", AUTHORITY_OK, "allowed.test", 443 },
        { "allowed..", AUTHORITY_BAD_LABEL, NULL, 0 },
        { "allowed..:443", AUTHORITY_BAD_LABEL, NULL, 0 },
        { "127.0.0.1.", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "127.0.0.1..", AUTHORITY_BAD_LABEL, NULL, 0 },
        { "127.0.0.1.:80", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { ".", AUTHORITY_EMPTY, NULL, 0 },
        { ".:443", AUTHORITY_EMPTY, NULL, 0 },
        { "..", AUTHORITY_BAD_LABEL, NULL, 0 },
        { "[::1].", AUTHORITY_BAD_ADDRESS, NULL, 0 },
    };

    (void) state;

    check_rows(rows, COUNT(rows), 443);

    assert_int_equal(parse("Allowed.Test.", 13, 443, &with), AUTHORITY_OK);
    assert_int_equal(parse("allowed.test", 12, 443, &without), AUTHORITY_OK);
    assert_memory_equal(&with, &without, sizeof(authority_t));
}


static void
test_every_byte(void **state)
{
    int                 c;
    char                text[64];
    size_t              at, n;
    authority_t         a;
    authority_error_t   rc;

    static const char  good[] = "ab.example:443";
    static const char  host_bytes[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
        "0123456789-_.";

    (void) state;

    n = sizeof(good) - 1;

    /* each byte instead of one, and between two */

    for (at = 0; at <= n; at++) {
        for (c = 0; c < 256; c++) {

            if (c == ':' || c == '[' || c == ']'
                || (c && strchr(host_bytes, c)))
            {
                continue;
            }

            memcpy(text, good, n);

            if (at < n) {
                text[at] = (char) c;
                rc = parse(text, n, 443, &a);
                expect(rc == AUTHORITY_BAD_BYTE,
                       "byte %02x in place of byte %zu: %s", c, at,
                       authority_strerror(rc));
            }

            memcpy(text, good, at);
            text[at] = (char) c;
            memcpy(text + at + 1, good + at, n - at);

            rc = parse(text, n + 1, 443, &a);
            expect(rc == AUTHORITY_BAD_BYTE,
                   "byte %02x before byte %zu: %s", c, at,
                   authority_strerror(rc));

            if (at > 10) {
                continue;               /* the port: not in a bare host */
            }

            rc = authority_parse_host((unsigned char *) text, 11, &a);
            expect(rc == AUTHORITY_BAD_BYTE,
                   "byte %02x in a bare host at %zu: %s", c, at,
                   authority_strerror(rc));
        }
    }
}


static void
test_percent(void **state)
{
    static const row_t  rows[] = {
        { "evil.test\0.allowed", AUTHORITY_OK, "evil.test", 443 },
        { "evil.test%00.allowed", AUTHORITY_BAD_BYTE, NULL, 0 },
        { "evil%2etest", AUTHORITY_BAD_BYTE, NULL, 0 },
        { "evil.test%0d%0a", AUTHORITY_BAD_BYTE, NULL, 0 },
        { "evil.test:80%20", AUTHORITY_BAD_BYTE, NULL, 0 },
        { "[fe80::1%25eth0]", AUTHORITY_BAD_BYTE, NULL, 0 },
        { "[fe80::1%eth0]", AUTHORITY_BAD_BYTE, NULL, 0 },
    };

    authority_t  a;

    (void) state;

    /* the first row ends at its NUL, as C sees it; whole, it is refused */

    check_rows(rows, COUNT(rows), 443);
    assert_int_equal(parse("evil.test\0.allowed", 18, 443, &a),
                     AUTHORITY_BAD_BYTE);
    assert_int_equal(parse("evil.test\0", 10, 443, &a), AUTHORITY_BAD_BYTE);
}


static void
test_connect_target(void **state)
{
    static const row_t  rows[] = {
        { "host:443", AUTHORITY_OK, "host", 443 },
        { "host:443/", AUTHORITY_BAD_BYTE, NULL, 0 },
        { "host:443?", AUTHORITY_BAD_BYTE, NULL, 0 },
        { "host:443#", AUTHORITY_BAD_BYTE, NULL, 0 },
        { "user:pw@host:443", AUTHORITY_BAD_BYTE, NULL, 0 },
        { "http://host:443", AUTHORITY_BAD_BYTE, NULL, 0 },
        { "host", AUTHORITY_NO_PORT, NULL, 0 },
        { "host:", AUTHORITY_BAD_PORT, NULL, 0 },
        { ":443", AUTHORITY_EMPTY, NULL, 0 },
        { ":", AUTHORITY_EMPTY, NULL, 0 },
        { "host:0", AUTHORITY_BAD_PORT, NULL, 0 },
        { "host:65536", AUTHORITY_BAD_PORT, NULL, 0 },
        { "host:$p", AUTHORITY_BAD_BYTE, NULL, 0 },
        { "host:007", AUTHORITY_BAD_PORT, NULL, 0 },
        { "host:-12", AUTHORITY_BAD_PORT, NULL, 0 },
        { "host:https", AUTHORITY_BAD_PORT, NULL, 0 },
        { "[host]:443", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "[[host]]:443", AUTHORITY_BAD_BYTE, NULL, 0 },
        { "[[::1]]:443", AUTHORITY_BAD_BYTE, NULL, 0 },
        { "[::1]:443", AUTHORITY_OK, "::1", 443 },
        { "::1:443", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "[::1]", AUTHORITY_NO_PORT, NULL, 0 },
        { "[::1]443", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "[::1", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "::1]:443", AUTHORITY_BAD_BYTE, NULL, 0 },
        { "[]:443", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "host :443", AUTHORITY_BAD_BYTE, NULL, 0 },
        { "host: 443", AUTHORITY_BAD_BYTE, NULL, 0 },
        { "host:443 x", AUTHORITY_BAD_BYTE, NULL, 0 },
        { "host:443\r\n", AUTHORITY_BAD_BYTE, NULL, 0 },
    };

    (void) state;

    check_rows(rows, COUNT(rows), 0);
}


static void
test_userinfo(void **state)
{
    size_t       i;
    authority_t  a;

    static const char *const  texts[] = {
        "allowed@denied", "allowed:443@denied", "denied@allowed",
        "allowed:x@denied", "@allowed", "allowed@", "allowed:443@",
        "allowed%40denied", "a@b@c:443"
    };

    (void) state;

    for (i = 0; i < COUNT(texts); i++) {
        expect(parse(texts[i], strlen(texts[i]), 443, &a)
               == AUTHORITY_BAD_BYTE, "\"%s\" is accepted", texts[i]);
    }
}


static void
test_international(void **state)
{
    size_t       i;
    authority_t  a;

    static const char *const  texts[] = {
        "b\xc3\xbc" "cher.example",              /* UTF-8 */
        "b\xfc" "cher.example",                  /* Latin-1 */
        "\xef\xbd\x81.example",                  /* fullwidth a */
        "a\xe3\x80\x82" "example",               /* U+3002 */
        "a\xef\xbc\x8e" "example",               /* U+FF0E */
        "stra\xc3\x9f" "e.example",              /* sharp s */
        "a\xe2\x80\x8d" "b.example",             /* zero-width joiner */
        "\xd0\xb0pi.internal",                   /* Cyrillic a */
        "\xef\xbc\x91.1.1.1",                    /* fullwidth digit */
    };

    (void) state;

    for (i = 0; i < COUNT(texts); i++) {
        expect(parse(texts[i], strlen(texts[i]), 443, &a)
               == AUTHORITY_BAD_BYTE, "row %zu is accepted", i);
    }

    assert_int_equal(parse("XN--BCHER-KVA.Example", 21, 443, &a),
                     AUTHORITY_OK);
    assert_string_equal(a.host, "xn--bcher-kva.example");
}


static void
test_ipv4_spellings(void **state)
{
    static const row_t  rows[] = {
        { "127.0.0.1", AUTHORITY_OK, "127.0.0.1", 443 },
        { "255.255.255.255", AUTHORITY_OK, "255.255.255.255", 443 },
        { "0.0.0.0", AUTHORITY_OK, "0.0.0.0", 443 },
        { "2130706433", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "0x7f000001", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "0X7F000001", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "0x7f.1", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "0x7f.0x1", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "127.0.0.0x1", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "127.0.0.0x", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "0177.0.0.1", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "012.0.0.1", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "127.1", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "127.0.1", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "127.000.000.001", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "127.0.0.01", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "1.1.1.1.1", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "256.1.1.1", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "1.1.1.256", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "1.1.1.99999999999999999999", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "a.1", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "0", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "0x", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "1..1", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "%31%32%37.0.0.1", AUTHORITY_BAD_BYTE, NULL, 0 },
        { "1.1.1.1:53", AUTHORITY_OK, "1.1.1.1", 53 },
    };

    authority_t  a;

    (void) state;

    check_rows(rows, COUNT(rows), 443);

    assert_int_equal(parse("10.2.0.7", 8, 443, &a), AUTHORITY_OK);
    assert_int_equal(a.kind, AUTHORITY_IPV4);
    assert_memory_equal(a.address, "\x0a\x02\x00\x07", 4);
}


static void
test_ipv6_spellings(void **state)
{
    static const row_t  rows[] = {
        { "[::]", AUTHORITY_OK, "::", 443 },
        { "[2001:db8::1]", AUTHORITY_OK, "2001:db8::1", 443 },
        { "[2001:DB8::1]:8443", AUTHORITY_OK, "2001:db8::1", 8443 },
        { "[1:2:3:4:5:6:7:8]", AUTHORITY_OK, "1:2:3:4:5:6:7:8", 443 },
        { "[::ffff:1.2.3.4]", AUTHORITY_OK, "::ffff:1.2.3.4", 443 },
        { "[1:0:0:2::3]", AUTHORITY_OK, "1:0:0:2::3", 443 },
        { "[1::2:0:0:0:3]", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "[1::2:0:0:3:4]", AUTHORITY_OK, "1::2:0:0:3:4", 443 },
        { "[1:0:0:2::3:4]", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "[::ffff:102:304]", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "[2001:0db8::1]", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "[2001:db8:0:0:0:0:0:1]", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "[2001:db8::0:1]", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "[0::1]", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "[::1.2.3.4]", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "[::0.0.0.1]", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "[1:2:3:4:5:6:7::]", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "[1::2::3]", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "[:::]", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "[1.2.3.4]", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "[12345::]", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "[::1]]", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "[::1]x", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "[", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "[]", AUTHORITY_BAD_ADDRESS, NULL, 0 },
        { "::1", AUTHORITY_BAD_ADDRESS, NULL, 0 },
    };

    authority_t  a;

    (void) state;

    check_rows(rows, COUNT(rows), 443);

    assert_int_equal(parse("[64:ff9b::a]", 12, 443, &a), AUTHORITY_OK);
    assert_int_equal(a.kind, AUTHORITY_IPV6);
    assert_memory_equal(a.address, "\0\x64\xff\x9b\0\0\0\0\0\0\0\0\0\0\0\x0a",
                        16);
}


static void
test_bare_host(void **state)
{
    size_t       i;
    authority_t  a;

    static const struct {
        const char         *text;
        authority_error_t   error;
    } rows[] = {
        { "Example.COM.", AUTHORITY_OK },
        { "127.0.0.1", AUTHORITY_OK },
        { "example.com:443", AUTHORITY_BAD_BYTE },
        { "[::1]", AUTHORITY_BAD_BYTE },
        { "::1", AUTHORITY_BAD_BYTE },
        { "", AUTHORITY_EMPTY },
        { "0x1", AUTHORITY_BAD_ADDRESS },
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {
        assert_int_equal(
            authority_parse_host((const unsigned char *) rows[i].text,
                                 strlen(rows[i].text), &a),
            rows[i].error);
    }
}


static void
test_same_host(void **state)
{
    authority_t  a, b;

    (void) state;

    (void) parse("api.internal", 12, 443, &a);
    (void) parse("API.INTERNAL.:80", 16, 443, &b);
    assert_true(authority_same_host(&a, &b));

    (void) parse("api.interna", 11, 443, &b);
    assert_false(authority_same_host(&a, &b));

    (void) parse("1.2.3.4", 7, 443, &a);
    (void) parse("[::ffff:1.2.3.4]", 16, 443, &b);
    assert_false(authority_same_host(&a, &b));
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        PROMISE("a name is accepted in lower case, all else refused",
                test_names),
        PROMISE("a label has at most 63 bytes, a name at most 253",
                test_lengths),
        PROMISE("a port is 1 to 65535 without a leading zero", test_ports),
        PROMISE("B-014 one dot at the end equals none, two are refused",
                test_trailing_dot),
        PROMISE("B-017 no foreign byte at any position is accepted",
                test_every_byte),
        PROMISE("B-017 a NUL or a percent sign does not end a host",
                test_percent),
        PROMISE("B-018 a CONNECT target is host:port and nothing else",
                test_connect_target),
        PROMISE("B-020 user information is refused", test_userinfo),
        PROMISE("B-024 non-ASCII is refused, an A-label is lower-cased",
                test_international),
        PROMISE("B-028 only dotted decimal is an IPv4 address, and all that "
                "ends in a number must be one", test_ipv4_spellings),
        PROMISE("an IPv6 literal has brackets and is canonical",
                test_ipv6_spellings),
        PROMISE("a bare host has no port and no brackets", test_bare_host),
        PROMISE("the same host is the same kind and bytes", test_same_host),
    };

    return unit_run(tests);
}
