/*
 * The address guard: every special range by its ends and neighbours, and
 * every form in which IPv6 carries IPv4.
 */

#include <arpa/inet.h>

#include "unit.h"

#include "parse/address.h"


#define A  ADDRESS_ALLOWED
#define S  ADDRESS_SPECIAL
#define L  ADDRESS_LOOPBACK
#define F  ADDRESS_FORBIDDEN


static address_t
address(const char *text)
{
    address_t  a;

    memset(&a, 0, sizeof(address_t));
    a.v6 = (strchr(text, ':') != NULL);

    if (inet_pton(a.v6 ? AF_INET6 : AF_INET, text, a.bytes) != 1) {
        fail_msg("the test's own address \"%s\" is malformed", text);
    }

    return a;
}


static address_verdict_t
judge(const char *text, const char *const *ranges, bool exact_port,
    const char **why)
{
    size_t           n;
    address_t        a;
    const char      *err;
    address_range_t  parsed[8];

    for (n = 0; ranges && ranges[n]; n++) {
        if (address_range_parse(ranges[n], strlen(ranges[n]), &parsed[n],
                                &err)
            != 0)
        {
            fail_msg("the test's own range \"%s\" %s", ranges[n], err);
        }
    }

    a = address(text);

    return address_judge(&a, parsed, n, exact_port, why);
}


static void
test_special_ranges(void **state)
{
    static const struct {
        const char         *before;     /* NULL: nothing or a special one */
        const char         *first;
        const char         *last;
        const char         *after;
        address_verdict_t   verdict;
    } rows[] = {
        { NULL, "0.0.0.0", "0.255.255.255", "1.0.0.0", F },
        { "9.255.255.255", "10.0.0.0", "10.255.255.255", "11.0.0.0", S },
        { "100.63.255.255", "100.64.0.0", "100.127.255.255", "100.128.0.0",
          S },
        { "126.255.255.255", "127.0.0.0", "127.255.255.255", "128.0.0.0", L },
        { "169.253.255.255", "169.254.0.0", "169.254.255.255", "169.255.0.0",
          F },
        { "172.15.255.255", "172.16.0.0", "172.31.255.255", "172.32.0.0", S },
        { "191.255.255.255", "192.0.0.0", "192.0.0.255", "192.0.1.0", S },
        { "192.0.1.255", "192.0.2.0", "192.0.2.255", "192.0.3.0", S },
        { "192.88.98.255", "192.88.99.0", "192.88.99.255", "192.88.100.0",
          S },
        { "192.167.255.255", "192.168.0.0", "192.168.255.255", "192.169.0.0",
          S },
        { "198.17.255.255", "198.18.0.0", "198.19.255.255", "198.20.0.0", S },
        { "198.51.99.255", "198.51.100.0", "198.51.100.255", "198.51.101.0",
          S },
        { "203.0.112.255", "203.0.113.0", "203.0.113.255", "203.0.114.0", S },
        { "223.255.255.255", "224.0.0.0", "239.255.255.255", NULL, F },
        { NULL, "240.0.0.0", "255.255.255.254", NULL, S },
        { NULL, "255.255.255.255", "255.255.255.255", NULL, F },

        { NULL, "::", "::", NULL, F },
        { NULL, "::1", "::1", NULL, L },
        { NULL, "100::", "100::ffff:ffff:ffff:ffff", NULL, S },
        { NULL, "1fff:ffff::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
          "2000::", S },
        { "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
          "2001:0:808:808::f7f7:f7f7",
          "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:200::", S },
        { "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db8::",
          "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db9::", S },
        { "2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2002:100::",
          "2002:dfff:ffff:ffff:ffff:ffff:ffff:ffff", "2003::", S },
        { "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff::",
          "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:1000::", S },
        { "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "4000::",
          "5fff:ffff::", NULL, S },
        { NULL, "5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL,
          S },
        { NULL, "fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL,
          S },
        { NULL, "fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL,
          F },
        { NULL, "fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL,
          S },
        { NULL, "ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL,
          F },
    };

    size_t              i, k;
    const char         *texts[4], *why;
    address_verdict_t   expected, verdict;

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {

        texts[0] = rows[i].before;
        texts[1] = rows[i].first;
        texts[2] = rows[i].last;
        texts[3] = rows[i].after;

        for (k = 0; k < 4; k++) {

            if (texts[k] == NULL) {
                continue;
            }

            expected = (k == 0 || k == 3) ? A : rows[i].verdict;
            verdict = judge(texts[k], NULL, false, &why);

            expect(verdict == expected, "%s: expected %d, got %d (%s)",
                   texts[k], expected, verdict, why);
        }
    }
}


static void
test_metadata(void **state)
{
    size_t              i;
    const char         *why;
    address_verdict_t   verdict;

    static const char *const  texts[] = {
        "169.254.169.254", "169.254.170.2", "169.254.169.253",
        "100.100.100.200", "168.63.129.16", "192.0.0.192",
        "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254",
        "fd00:c1::a9fe:a9fe", "fd00:42::42",
        "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe"
    };

    static const char *const  all[] = {
        "169.254.169.254", "169.254.0.0/16", "0.0.0.0/0", "::/0", NULL
    };

    static const struct {
        const char         *text;
        address_verdict_t   verdict;
    } neighbours[] = {
        { "100.100.100.199", S }, { "100.100.100.201", S },
        { "168.63.129.15", A }, { "168.63.129.17", A },
        { "192.0.0.191", S }, { "192.0.0.193", S },
        { "fd00:ec1:ffff::1", S }, { "fd00:ec3::1", S },
        { "fd20:ce::253", S }, { "fd20:ce::255", S },
    };

    (void) state;

    for (i = 0; i < COUNT(texts); i++) {

        verdict = judge(texts[i], NULL, true, &why);
        expect(verdict == F, "%s is not forbidden", texts[i]);

        verdict = judge(texts[i], all, true, &why);
        expect(verdict == F, "%s is opened by a range", texts[i]);
        expect(strcmp(why, "metadata") == 0, "%s is called %s", texts[i],
               why);
    }

    for (i = 0; i < COUNT(neighbours); i++) {
        verdict = judge(neighbours[i].text, NULL, true, &why);
        expect(verdict == neighbours[i].verdict, "%s: got %d (%s)",
               neighbours[i].text, verdict, why);
    }
}


/* Each outer form, printed with the bytes of an IPv4 address. */

typedef struct {
    const char  *name;
    const char  *range;         /* that opens the outer form */
    const char  *format;        /* %1$02x to %4$02x: the four bytes */
    bool         inverted;
} form_t;


static const form_t  forms[] = {
    { "mapped, in hexadecimal", "::ffff:0.0.0.0/96",
      "::ffff:%1$02x%2$02x:%3$02x%4$02x", false },
    { "mapped, dotted", "::ffff:0.0.0.0/96", "::ffff:%1$d.%2$d.%3$d.%4$d",
      false },
    { "compatible", "::/96", "::%1$02x%2$02x:%3$02x%4$02x", false },
    { "compatible, dotted", "::/96", "::%1$d.%2$d.%3$d.%4$d", false },
    { "translated (SIIT)", "::ffff:0:0:0/96",
      "::ffff:0:%1$02x%2$02x:%3$02x%4$02x", false },
    { "NAT64", "64:ff9b::/96", "64:ff9b::%1$02x%2$02x:%3$02x%4$02x", false },
    { "NAT64 local /48", "64:ff9b:1::/48",
      "64:ff9b:1:%1$02x%2$02x:%3$02x:%4$02x00::", false },
    { "NAT64 local /56", "64:ff9b:1::/48",
      "64:ff9b:1:77%1$02x:%2$02x:%3$02x%4$02x::", false },
    { "NAT64 local /64", "64:ff9b:1::/48",
      "64:ff9b:1:7777:%1$02x:%2$02x%3$02x:%4$02x00:0", false },
    { "NAT64 local /96", "64:ff9b:1::/48",
      "64:ff9b:1:7777:7777:7777:%1$02x%2$02x:%3$02x%4$02x", false },
    { "6to4", "2002::/16", "2002:%1$02x%2$02x:%3$02x%4$02x::1", false },
    { "Teredo server", "2001::/32",
      "2001:0:%1$02x%2$02x:%3$02x%4$02x:0:0:f7f7:f7f7", false },
    { "Teredo client", "2001::/32",
      "2001:0:808:808:0:0:%1$02x%2$02x:%3$02x%4$02x", true },
    { "ISATAP", "2600::/16", "2600::5efe:%1$02x%2$02x:%3$02x%4$02x", false },
    { "ISATAP, universal", "2600::/16",
      "2600::200:5efe:%1$02x%2$02x:%3$02x%4$02x", false },
    { "ISATAP in unique-local", "fd12::/16",
      "fd12::5efe:%1$02x%2$02x:%3$02x%4$02x", false },
};


static address_verdict_t
judge_form(const form_t *form, const char *v4, const char *const *ranges,
    bool exact_port)
{
    int          i, b[4];
    char         text[64];
    address_t    a;
    const char  *why;

    a = address(v4);

    for (i = 0; i < 4; i++) {
        b[i] = form->inverted ? a.bytes[i] ^ 0xff : a.bytes[i];
    }

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void) snprintf(text, sizeof(text), form->format, b[0], b[1], b[2], b[3]);
#pragma GCC diagnostic pop

    return judge(text, ranges, exact_port, &why);
}


static void
test_embedded_refused(void **state)
{
    size_t              i, k;
    address_verdict_t   verdict;

    static const struct {
        const char         *text;
        address_verdict_t   verdict;
    } inner[] = {
        { "8.8.8.8", S },               /* public, and yet refused */
        { "10.0.0.1", S },
        { "127.0.0.1", L },
        { "169.254.169.254", F },
        { "224.0.0.1", F },
    };

    (void) state;

    for (i = 0; i < COUNT(forms); i++) {
        for (k = 0; k < COUNT(inner); k++) {

            verdict = judge_form(&forms[i], inner[k].text, NULL, true);

            expect(verdict == inner[k].verdict,
                   "%s with %s: expected %d, got %d", forms[i].name,
                   inner[k].text, inner[k].verdict, verdict);
        }
    }
}


static void
test_embedded_opened(void **state)
{
    size_t       i;
    const char  *outer[2], *both[3], *inner[2], *loop[3];

    (void) state;

    for (i = 0; i < COUNT(forms); i++) {

        outer[0] = forms[i].range;
        outer[1] = NULL;

        inner[0] = "10.0.0.0/8";
        inner[1] = NULL;

        both[0] = forms[i].range;
        both[1] = "10.0.0.0/8";
        both[2] = NULL;

        loop[0] = forms[i].range;
        loop[1] = "127.0.0.0/8";
        loop[2] = NULL;

        expect(judge_form(&forms[i], "8.8.8.8", outer, true) == A,
               "%s: its range does not open a public address",
               forms[i].name);
        expect(judge_form(&forms[i], "10.0.0.1", outer, true) == S,
               "%s: its range alone opens a private address", forms[i].name);
        expect(judge_form(&forms[i], "10.0.0.1", inner, true) == S,
               "%s: the inner range alone opens it", forms[i].name);
        expect(judge_form(&forms[i], "10.0.0.1", both, true) == A,
               "%s: both ranges do not open a private address",
               forms[i].name);
        expect(judge_form(&forms[i], "127.0.0.1", both, true) == L,
               "%s: loopback is opened by another range", forms[i].name);
        expect(judge_form(&forms[i], "127.0.0.1", loop, false) == L,
               "%s: loopback is opened without a port", forms[i].name);
        expect(judge_form(&forms[i], "127.0.0.1", loop, true) == A,
               "%s: loopback is not opened with range and port",
               forms[i].name);
        expect(judge_form(&forms[i], "169.254.169.254", both, true) == F,
               "%s: metadata is opened", forms[i].name);
    }
}


static void
test_private_opens(void **state)
{
    const char  *why;

    static const char *const  ten[] = { "10.2.0.0/16", NULL };
    static const char *const  loop[] = { "127.0.0.0/8", "::1", NULL };
    static const char *const  multi[] = { "224.0.0.0/4", "ff00::/8",
                                          "fe80::/10", "0.0.0.0/8", NULL };

    (void) state;

    assert_int_equal(judge("10.2.0.7", ten, false, &why), A);
    assert_int_equal(judge("10.1.255.255", ten, false, &why), S);
    assert_string_equal(why, "private");
    assert_int_equal(judge("10.3.0.0", ten, false, &why), S);
    assert_int_equal(judge("8.8.8.8", ten, false, &why), A);
    assert_string_equal(why, "public");

    assert_int_equal(judge("127.0.0.1", ten, true, &why), L);
    assert_int_equal(judge("127.0.0.1", loop, false, &why), L);
    assert_int_equal(judge("127.0.0.1", loop, true, &why), A);
    assert_int_equal(judge("::1", loop, false, &why), L);
    assert_int_equal(judge("::1", loop, true, &why), A);

    assert_int_equal(judge("224.0.0.1", multi, true, &why), F);
    assert_int_equal(judge("ff02::1", multi, true, &why), F);
    assert_int_equal(judge("fe80::1", multi, true, &why), F);
    assert_int_equal(judge("0.0.0.0", multi, true, &why), F);
    assert_int_equal(judge("::", multi, true, &why), F);
}


static void
test_range_text(void **state)
{
    size_t           i;
    const char      *err;
    address_range_t  r;

    static const struct {
        const char  *text;
        int          rc;
        int          prefix;
    } rows[] = {
        { "10.2.0.0/16", 0, 16 }, { "10.2.0.1", 0, 32 },
        { "0.0.0.0/0", 0, 0 }, { "fd00::/8", 0, 8 }, { "::1", 0, 128 },
        { "::/0", 0, 0 }, { "10.2.0.1/32", 0, 32 },
        { "10.2.0.0/15", 0, 15 }, { "10.128.0.0/9", 0, 9 },
        { "10.2.0.1/16", -1, 0 }, { "10.128.0.0/8", -1, 0 },
        { "10.3.0.0/15", -1, 0 },
        { "10.2.0.0/33", -1, 0 }, { "10.2.0.0/016", -1, 0 },
        { "10.2.0.0/", -1, 0 }, { "10.2.0.0/-1", -1, 0 },
        { "10.2.0.0/1 ", -1, 0 }, { "10.2/16", -1, 0 },
        { "10.2.0.0/16/8", -1, 0 }, { "010.2.0.0/16", -1, 0 },
        { "fd00::/129", -1, 0 }, { "fd00::1/8", -1, 0 },
        { "FD00::/8", -1, 0 }, { "[fd00::]/8", -1, 0 },
        { "fd00:0::/8", -1, 0 }, { "", -1, 0 }, { "/8", -1, 0 },
        { "all", -1, 0 }, { "10.0.0.0-10.0.0.9", -1, 0 },
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {

        err = NULL;

        expect(address_range_parse(rows[i].text, strlen(rows[i].text), &r,
                                   &err)
               == rows[i].rc, "\"%s\" is %s", rows[i].text,
               rows[i].rc ? "accepted" : "refused");
        expect((rows[i].rc != 0) == (err != NULL),
               "\"%s\" has no reason, or one too many", rows[i].text);
        expect(r.prefix == rows[i].prefix, "\"%s\" has the prefix %d",
               rows[i].text, r.prefix);
    }
}


static void
test_text(void **state)
{
    char         text[ADDRESS_TEXT_MAX], system[INET6_ADDRSTRLEN];
    size_t       i, k, n;
    unsigned     seed;
    address_t    a, back;

    static const char *const  texts[] = {
        "::", "::1", "1::", "2001:db8::1", "2001:db8:0:1:1:1:1:1",
        "2001:0:0:1::1", "2001:db8::1:0:0:1", "1:2:3:4:5:6:7:8",
        "::ffff:0.0.0.0", "::ffff:192.0.2.1", "::1:0:0",
        "64:ff9b::c000:221", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "0.0.0.0", "1.2.3.4", "255.255.255.255", "10.100.9.99"
    };

    (void) state;

    for (i = 0; i < COUNT(texts); i++) {
        a = address(texts[i]);
        n = address_text(&a, text);
        assert_string_equal(text, texts[i]);
        assert_int_equal(n, strlen(text));
    }

    /* words of zero, small and large ones, against the C library's text */

    seed = 1;

    for (i = 0; i < 200000; i++) {

        memset(&a, 0, sizeof(a));
        a.v6 = true;

        for (k = 0; k < 8; k++) {
            seed = seed * 1103515245 + 12345;

            if ((seed >> 16) & 1) {
                a.bytes[2 * k + 1] = (unsigned char) (seed >> 20);
                a.bytes[2 * k] = ((seed >> 17) & 1)
                                 ? (unsigned char) (seed >> 8) : 0;
            }
        }

        n = address_text(&a, text);

        (void) inet_ntop(AF_INET6, a.bytes, system, sizeof(system));

        /* the C library writes compatible addresses dotted; we do not */

        if (strchr(system, '.') == NULL) {
            assert_string_equal(text, system);
        }

        assert_true(address_parse_v6(text, n, &back));
        assert_memory_equal(&a, &back, sizeof(address_t));
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        PROMISE("B-030 every special range is refused from its first address "
                "to its last, its neighbours are not", test_special_ranges),
        PROMISE("B-032 metadata addresses are refused whatever a rule says",
                test_metadata),
        PROMISE("B-029 IPv4 inside IPv6 is refused in every form, public "
                "addresses too", test_embedded_refused),
        PROMISE("B-029 a range opens an outer form only for an inner address "
                "that is open itself", test_embedded_opened),
        PROMISE("B-033 a private range opens what it holds, loopback needs "
                "a port, forbidden stays forbidden", test_private_opens),
        PROMISE("a range is canonical text without bits below its prefix",
                test_range_text),
        PROMISE("an address has one text, that of RFC 5952", test_text),
    };

    return unit_run(tests);
}
