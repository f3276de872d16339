/*
 * What a name server answers: only the records of the name that was asked for
 * count, and nothing is read beyond its bytes.
 */

#include "unit.h"
#include "bytes.h"

#include "parse/dns.h"
#include "parse/dns_reply.h"


static dns_question_t  question;
static dns_reply_t     reply;


static void
add_name(bytes_t *m, const char *name)
{
    dns_name_t  wire;

    assert_int_equal(dns_name_set(&wire, name, strlen(name)), 0);
    bytes_add(m, wire.wire, wire.len);
}


/* An answer to api.test of type A, without records. */

static void
begin(bytes_t *m, unsigned flags, unsigned records)
{
    dns_name_t  name;

    assert_int_equal(dns_name_set(&name, "api.test", 8), 0);
    dns_question_write(&question, 0x1234, &name, DNS_TYPE_A);

    m->n = 0;
    bytes_add(m, question.bytes, question.len);
    m->p[2] = (unsigned char) (0x80 | flags >> 8);
    m->p[3] = (unsigned char) flags;
    m->p[6] = (unsigned char) (records >> 8);
    m->p[7] = (unsigned char) records;
}


static void
record(bytes_t *m, const char *owner, unsigned type, unsigned long ttl,
    const void *data, size_t n)
{
    if (owner) {
        add_name(m, owner);

    } else {
        bytes_add_number(m, 0xc00c, 2);
    }

    bytes_add_number(m, type, 2);
    bytes_add_number(m, 1, 2);
    bytes_add_number(m, (unsigned) (ttl >> 16), 2);
    bytes_add_number(m, (unsigned) (ttl & 0xffff), 2);
    bytes_add_number(m, (unsigned) n, 2);
    bytes_add(m, data, n);
}


static void
alias(bytes_t *m, const char *owner, const char *target, unsigned long ttl)
{
    dns_name_t  wire;

    assert_int_equal(dns_name_set(&wire, target, strlen(target)), 0);
    record(m, owner, 5, ttl, wire.wire, wire.len);
}


/* On the heap, to its size, so that a sanitizer sees a read beyond it. */

static dns_reply_kind_t
parse(const bytes_t *m, size_t n)
{
    unsigned char     *exact;
    dns_reply_kind_t   kind;

    exact = malloc(n ? n : 1);
    memcpy(exact, m->p, n);
    kind = dns_reply_parse(exact, n, &question, &reply);
    free(exact);

    return kind;
}


static void
test_question(void **state)
{
    size_t      i;
    char        longest[256];
    dns_name_t  name;

    static const char *const  none[] = { "", ".", "a..b", ".a" };

    (void) state;

    assert_int_equal(dns_name_set(&name, "Api.Test", 8), 0);
    assert_int_equal(name.len, 10);
    assert_memory_equal(name.wire, "\3api\4test\0", 10);

    dns_question_write(&question, 0xabcd, &name, DNS_TYPE_AAAA);
    assert_int_equal(question.len, 26);
    assert_memory_equal(question.bytes, "\xab\xcd\1\0\0\1\0\0\0\0\0\0"
                        "\3api\4test\0\0\x1c\0\1", 26);

    for (i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        assert_int_equal(dns_name_set(&name, none[i], strlen(none[i])), -1);
    }

    memset(longest, 'a', sizeof(longest));
    assert_int_equal(dns_name_set(&name, longest, 63), 0);
    assert_int_equal(dns_name_set(&name, longest, 64), -1);

    longest[63] = longest[127] = longest[191] = '.';
    assert_int_equal(dns_name_set(&name, longest, 253), 0);
    assert_int_equal(name.len, DNS_WIRE_MAX);
    assert_int_equal(dns_name_set(&name, longest, 254), -1);
}


static void
test_found(void **state)
{
    size_t     i;
    bytes_t  m;

    (void) state;

    begin(&m, 0, 2);
    record(&m, NULL, 1, 300, "\x0a\1\2\3", 4);
    record(&m, "API.test", 1, 77, "\x0a\1\2\4", 4);

    assert_int_equal(parse(&m, m.n), DNS_FOUND);
    assert_int_equal(reply.count, 2);
    assert_false(reply.addresses[0].v6);
    assert_memory_equal(reply.addresses[1].bytes, "\x0a\1\2\4\0", 5);
    assert_int_equal(reply.ttl, 77);

    /* each prefix of it is no answer, or a bad one */

    for (i = 0; i < m.n; i++) {
        assert_int_equal(parse(&m, i), i < 12 ? DNS_OTHER : DNS_BAD);
    }

    /* the question comes back in another case */

    m.p[13] = 'A';
    assert_int_equal(parse(&m, m.n), DNS_FOUND);

    begin(&m, 0, 0);
    assert_int_equal(parse(&m, m.n), DNS_FOUND);
    assert_int_equal(reply.count, 0);

    /* records of other names, types and classes do not count; nor does one
       address twice */

    begin(&m, 0, 5);
    record(&m, "evil.test", 1, 1, "\x0a\1\2\3", 4);
    record(&m, NULL, 28, 1, "0123456789abcdef", 16);
    record(&m, NULL, 16, 1, "\x0a\1\2\3", 4);
    record(&m, NULL, 1, 50, "\x0a\1\2\5", 4);
    record(&m, NULL, 1, 60, "\x0a\1\2\5", 4);
    assert_int_equal(parse(&m, m.n), DNS_FOUND);
    assert_int_equal(reply.count, 1);
    assert_int_equal(reply.ttl, 50);

    /* a life of more than 31 bits is none, RFC 2181 section 8 */

    begin(&m, 0, 1);
    record(&m, NULL, 1, 0xffffffff, "\x0a\1\2\3", 4);
    assert_int_equal(parse(&m, m.n), DNS_FOUND);
    assert_int_equal(reply.ttl, 0);

    /* more than are taken */

    begin(&m, 0, 1000);

    for (i = 0; i < 1000; i++) {
        record(&m, NULL, 1, 9, (unsigned char []) { 10, 1,
               (unsigned char) (i / 250), (unsigned char) (i % 250) }, 4);
    }

    assert_int_equal(parse(&m, m.n), DNS_FOUND);
    assert_int_equal(reply.count, DNS_ADDRESSES_MAX);
}


static void
test_aliases(void **state)
{
    int        i;
    char       from[32], to[32];
    bytes_t  m;

    (void) state;

    /* in order, and not */

    begin(&m, 0, 3);
    alias(&m, NULL, "b.test", 9);
    alias(&m, "b.test", "c.test", 5);
    record(&m, "c.test", 1, 60, "\x0a\1\2\3", 4);
    assert_int_equal(parse(&m, m.n), DNS_FOUND);
    assert_int_equal(reply.count, 1);
    assert_int_equal(reply.ttl, 5);

    begin(&m, 0, 3);
    record(&m, "c.test", 1, 60, "\x0a\1\2\3", 4);
    alias(&m, "b.test", "c.test", 5);
    alias(&m, NULL, "b.test", 9);
    assert_int_equal(parse(&m, m.n), DNS_FOUND);
    assert_int_equal(reply.count, 1);

    /* without the address at its end */

    begin(&m, 0, 1);
    alias(&m, NULL, "b.test", 9);
    assert_int_equal(parse(&m, m.n), DNS_ALIAS);
    assert_memory_equal(reply.alias.wire, "\1b\4test\0", 8);
    assert_int_equal(reply.ttl, 9);

    /* an address that leads by no alias to the name */

    begin(&m, 0, 2);
    alias(&m, NULL, "b.test", 9);
    record(&m, "c.test", 1, 60, "\x0a\1\2\3", 4);
    assert_int_equal(parse(&m, m.n), DNS_ALIAS);

    /* round and round; and more of them than anybody has */

    begin(&m, 0, 64);

    for (i = 0; i < 32; i++) {
        alias(&m, NULL, "b.test", 9);
        alias(&m, "b.test", "api.test", 9);
    }

    assert_int_equal(parse(&m, m.n), DNS_BAD);

    begin(&m, 0, 34);
    alias(&m, NULL, "n0.test", 9);

    for (i = 0; i < 32; i++) {
        (void) snprintf(from, sizeof(from), "n%d.test", i);
        (void) snprintf(to, sizeof(to), "n%d.test", i + 1);
        alias(&m, from, to, 9);
    }

    record(&m, "n32.test", 1, 60, "\x0a\1\2\3", 4);
    assert_int_equal(parse(&m, m.n), DNS_BAD);

    m.p[7] = 32;                        /* records, the last alias is n31 */
    assert_int_equal(parse(&m, m.n), DNS_ALIAS);
}


static void
test_other(void **state)
{
    bytes_t  m;

    (void) state;

    begin(&m, 3, 0);
    assert_int_equal(parse(&m, m.n), DNS_NO_NAME);
    begin(&m, 5, 0);
    assert_int_equal(parse(&m, m.n), DNS_SERVER_REFUSED);
    begin(&m, 2, 0);
    assert_int_equal(parse(&m, m.n), DNS_SERVER_FAILED);
    begin(&m, 0x0200, 0);
    assert_int_equal(parse(&m, m.n), DNS_CUT);

    /* an error without its question, but no such name needs one */

    begin(&m, 1, 0);
    m.p[5] = 0;
    assert_int_equal(parse(&m, 12), DNS_SERVER_FAILED);
    m.p[3] = 3;
    assert_int_equal(parse(&m, 12), DNS_OTHER);
    m.p[3] = 0;
    assert_int_equal(parse(&m, 12), DNS_OTHER);

    /* another number, question or type; a question, another operation */

    begin(&m, 3, 0);
    m.p[0] ^= 1;
    assert_int_equal(parse(&m, m.n), DNS_OTHER);
    begin(&m, 3, 0);
    m.p[14] ^= 1;
    assert_int_equal(parse(&m, m.n), DNS_OTHER);
    begin(&m, 3, 0);
    m.p[question.len - 3] ^= 1;
    assert_int_equal(parse(&m, m.n), DNS_OTHER);
    begin(&m, 3, 0);
    m.p[2] = 0;
    assert_int_equal(parse(&m, m.n), DNS_OTHER);
    begin(&m, 3, 0);
    m.p[2] |= 0x10;
    assert_int_equal(parse(&m, m.n), DNS_OTHER);
    begin(&m, 3, 0);
    m.p[5] = 2;
    assert_int_equal(parse(&m, m.n), DNS_OTHER);
}


static void
test_malformed(void **state)
{
    size_t         i, n, at, first;
    bytes_t        m;
    unsigned char  chain[401];

    (void) state;

    /* an address of three bytes, more records than there are */

    begin(&m, 0, 1);
    record(&m, NULL, 1, 9, "\x0a\1\2", 3);
    assert_int_equal(parse(&m, m.n), DNS_BAD);

    begin(&m, 0, 2);
    record(&m, NULL, 1, 9, "\x0a\1\2\3", 4);
    assert_int_equal(parse(&m, m.n), DNS_BAD);

    /* names: a pointer to itself, forwards, a label of another kind */

    for (i = 0; i < 3; i++) {
        begin(&m, 0, 1);
        bytes_add_number(&m, i == 2 ? 0x80ff : 0xc000 | (m.n + i * 4), 2);
        bytes_add(&m, "\0\1\0\1\0\0\0\1\0\4\x0a\1\2\3", 14);
        assert_int_equal(parse(&m, m.n), DNS_BAD);
    }

    /* two that lead to each other, within data that is a name */

    begin(&m, 0, 1);
    record(&m, NULL, 5, 9, "\1a\xc0\x26", 4);
    m.p[m.n - 1] = (unsigned char) (m.n - 4);
    assert_int_equal(parse(&m, m.n), DNS_BAD);

    /* pointers that lead to pointers: as many as labels, and more */

    for (i = 100; i <= 200; i += 100) {
        begin(&m, 0, 2);
        (void) memset(chain, 0, sizeof(chain));
        record(&m, NULL, 16, 9, (char *) chain, 1 + 2 * i);

        first = m.n - 2 * i;

        for (n = 0; n < i; n++) {
            at = first - 1 + (n ? 2 * n - 1 : 0);
            m.p[first + 2 * n] = (unsigned char) (0xc0 | at >> 8);
            m.p[first + 2 * n + 1] = (unsigned char) at;
        }

        bytes_add_number(&m, 0xc000 | (unsigned) (m.n - 2), 2);
        bytes_add(&m, "\0\1\0\1\0\0\0\1\0\4\x0a\1\2\3", 14);

        if (i == 100) {
            assert_int_not_equal(parse(&m, m.n), DNS_BAD);

        } else {
            assert_int_equal(parse(&m, m.n), DNS_BAD);
        }
    }

    /* a name of an alias that ends before its data, and after it */

    begin(&m, 0, 1);
    record(&m, NULL, 5, 9, "\1a\0x", 4);
    assert_int_equal(parse(&m, m.n), DNS_BAD);

    begin(&m, 0, 1);
    record(&m, NULL, 5, 9, "\1a", 2);
    bytes_add(&m, "\0", 1);
    assert_int_equal(parse(&m, m.n), DNS_BAD);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        PROMISE("a question has the name in lower case, and fits",
                test_question),
        PROMISE("addresses of the name count, each once, and the least life",
                test_found),
        PROMISE("aliases lead to an address, or to another question",
                test_aliases),
        PROMISE("B-040 what does not answer the question is told from errors",
                test_other),
        PROMISE("B-040 records and names that are odd are malformed",
                test_malformed),
    };

    return unit_run(tests);
}
