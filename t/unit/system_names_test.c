/* The name servers and the hosts table of the system. */

#include "unit.h"

#include "parse/system_names.h"


static size_t
servers(const char *text, char shown[256])
{
    size_t     i, n, count;
    address_t  out[SYSTEM_NAMESERVERS_MAX];
    char      *exact;

    n = strlen(text);
    exact = malloc(n ? n : 1);
    memcpy(exact, text, n);
    count = system_nameservers_parse(exact, n, out);
    free(exact);

    shown[0] = '\0';

    for (i = 0; i < count; i++) {
        (void) address_text(&out[i], shown + strlen(shown));
        (void) strcat(shown, " ");
    }

    return count;
}


static void
test_nameservers(void **state)
{
    char    shown[256];
    size_t  i;

    static const struct {
        const char  *text;
        const char  *servers;
    } rows[] = {
        { "", "" },
        { "nameserver 127.0.0.53\n", "127.0.0.53 " },
        { "nameserver 127.0.0.53", "127.0.0.53 " },
        { "# x\nsearch a.example\nnameserver\t 10.0.0.1 \noptions edns0\n"
          "nameserver 2001:DB8::1\n", "10.0.0.1 2001:db8::1 " },
        { "nameserver 1.1.1.1\nnameserver 1.0.0.1\nnameserver 8.8.8.8\n"
          "nameserver 8.8.4.4\n", "1.1.1.1 1.0.0.1 8.8.8.8 " },
        { "nameserver 1.1.1.1 # first\nnameserver 1.0.0.1 ; second\n",
          "1.1.1.1 1.0.0.1 " },
        { "#nameserver 1.1.1.1\n;nameserver 1.1.1.1\n nameserver 1.1.1.1\n",
          "" },
        { "nameserver\nnameserver \nnameservers 1.1.1.1\nnameserver1.1.1.1\n"
          "nameserver 1.1.1\nnameserver 1.1.1.1.1\nnameserver ::1::\n"
          "nameserver fe80::1%eth0\nnameserver localhost\n"
          "NAMESERVER 1.1.1.1\nnameserver 9.9.9.9\r\n", "9.9.9.9 " },
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {
        (void) servers(rows[i].text, shown);
        expect(strcmp(shown, rows[i].servers) == 0,
               "row %zu: expected \"%s\", got \"%s\"", i, rows[i].servers,
               shown);
    }
}


static void
test_hosts(void **state)
{
    char              text[ADDRESS_TEXT_MAX];
    size_t            i, k, n;
    address_t         out[4];
    system_hosts_t   *hosts;

    static const char  file[] =
        "127.0.0.1\tlocalhost\n"
        "# 10.0.0.9 commented\n"
        "10.0.0.1 api.internal API.Alias. # 10.0.0.2 no.more\n"
        "   10.0.0.2   api.internal\n"
        "2001:db8::1 api.internal\n"
        "10.0.0.1 api.internal again\n"
        "10.0.0.300 bad.address\n"
        "nonsense bad.address2\n"
        "10.0.0.3\n"
        "10.0.0.4 bad_but_fine -bad- b\xc3\xbc" "cher good 1.2.3.4 a..b\r\n"
        "fe80::1%lo0 scoped\n"
        "10.0.0.5 last";

    static const struct {
        const char  *name;
        size_t       count;
        const char  *first;
    } rows[] = {
        { "localhost", 1, "127.0.0.1" },
        { "api.internal", 3, "10.0.0.1" },
        { "api.alias", 1, "10.0.0.1" },
        { "again", 1, "10.0.0.1" },
        { "bad_but_fine", 1, "10.0.0.4" },
        { "good", 1, "10.0.0.4" },
        { "last", 1, "10.0.0.5" },
        { "commented", 0, NULL }, { "no.more", 0, NULL },
        { "bad.address", 0, NULL }, { "bad.address2", 0, NULL },
        { "-bad-", 0, NULL }, { "1.2.3.4", 0, NULL }, { "a..b", 0, NULL },
        { "scoped", 0, NULL }, { "internal", 0, NULL }, { "", 0, NULL },
        { "zzz", 0, NULL }, { "api.internal.", 0, NULL },
    };

    (void) state;

    hosts = system_hosts_parse(file, sizeof(file) - 1);
    assert_non_null(hosts);

    for (i = 0; i < COUNT(rows); i++) {

        n = system_hosts_find(hosts, rows[i].name, out, 4);
        expect(n == rows[i].count, "\"%s\" has %zu addresses", rows[i].name,
               n);

        if (n) {
            (void) address_text(&out[0], text);
            assert_string_equal(text, rows[i].first);
        }
    }

    /* the order of the file; no more than there is room for */

    memset(out, 0xff, sizeof(out));
    assert_int_equal(system_hosts_find(hosts, "api.internal", out, 2), 3);
    (void) address_text(&out[1], text);
    assert_string_equal(text, "10.0.0.2");

    for (k = 0; k < sizeof(address_t); k++) {
        assert_int_equal(((unsigned char *) &out[2])[k], 0xff);
    }

    assert_int_equal(system_hosts_find(hosts, "api.internal", NULL, 0), 3);

    system_hosts_free(hosts);

    hosts = system_hosts_parse("", 0);
    assert_non_null(hosts);
    assert_int_equal(system_hosts_count(hosts), 0);
    assert_int_equal(system_hosts_find(hosts, "a", out, 4), 0);
    system_hosts_free(hosts);
    system_hosts_free(NULL);
}


static void
test_large(void **state)
{
    char             *text, name[32];
    size_t            i, len;
    address_t         out[2];
    system_hosts_t   *hosts;

    (void) state;

    text = malloc(100000 * 48);

    for (i = 0, len = 0; i < 100000; i++) {
        len += (size_t) sprintf(text + len, "10.%zu.%zu.%zu h%zu.example\n",
                                i >> 16, (i >> 8) & 255, i & 255,
                                (i * 7919) % 100000);
    }

    hosts = system_hosts_parse(text, len);
    free(text);
    assert_non_null(hosts);
    assert_int_equal(system_hosts_count(hosts), 100000);

    for (i = 0; i < 100000; i++) {
        (void) sprintf(name, "h%zu.example", (i * 7919) % 100000);
        assert_int_equal(system_hosts_find(hosts, name, out, 2), 1);
        assert_int_equal(out[0].bytes[3], i & 255);
        assert_int_equal(out[0].bytes[2], (i >> 8) & 255);
    }

    system_hosts_free(hosts);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        PROMISE("the first three name servers are read, other text skipped",
                test_nameservers),
        PROMISE("a hosts file gives each name its addresses in order",
                test_hosts),
        PROMISE("a name is found in a hosts file of 100000 lines", test_large),
    };

    return unit_run(tests);
}
