/*
 * The name server of the boxes: a query is read within its bytes, an answer
 * repeats the question and says no more than was decided.
 */

#include "unit.h"
#include "bytes.h"

#include "parse/dns.h"


static void
add_header(bytes_t *m, unsigned flags, unsigned questions,
    unsigned additional)
{
    m->n = 0;
    bytes_add_number(m, 0x1234, 2);
    bytes_add_number(m, flags, 2);
    bytes_add_number(m, questions, 2);
    bytes_add_number(m, 0, 2);
    bytes_add_number(m, 0, 2);
    bytes_add_number(m, additional, 2);
}


/* "a.b" as labels; a dot within a label cannot be written so. */

static void
add_name(bytes_t *m, const char *name)
{
    size_t         n;
    unsigned char  len;

    while (*name) {
        n = strcspn(name, ".");
        len = (unsigned char) n;
        bytes_add(m, &len, 1);
        bytes_add(m, name, n);
        name += n + (name[n] == '.');
    }

    bytes_add(m, "", 1);
}


static void
add_opt(bytes_t *m, const char *data, size_t n)
{
    bytes_add(m, "", 1);
    bytes_add_number(m, 41, 2);
    bytes_add_number(m, 4096, 2);
    bytes_add_number(m, 0, 2);
    bytes_add_number(m, 0x8000, 2);                   /* DO */
    bytes_add_number(m, (unsigned) n, 2);
    bytes_add(m, data, n);
}


static void
question(bytes_t *m, const char *name, unsigned type)
{
    add_header(m, 0x0100, 1, 0);
    add_name(m, name);
    bytes_add_number(m, type, 2);
    bytes_add_number(m, 1, 2);
}


/* On the heap, to its size, so that a sanitizer sees a read beyond it. */

static dns_kind_t
parse(const bytes_t *m, size_t n, dns_query_t *q, unsigned char **exact)
{
    *exact = malloc(n ? n : 1);
    memcpy(*exact, m->p, n);

    return dns_parse(*exact, n, q);
}


static const unsigned char  address[4] = { 198, 19, 7, 8 };


static void
test_ordinary(void **state)
{
    bytes_t         m;
    dns_query_t     q;
    unsigned char  *exact, answer[DNS_ANSWER_MAX];
    size_t          n;

    static const unsigned char  rest[] = {
        0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 198, 19, 7, 8
    };

    (void) state;

    question(&m, "Api.Internal", 1);

    assert_int_equal(parse(&m, m.n, &q, &exact), DNS_QUERY);
    assert_int_equal(q.id, 0x1234);
    assert_int_equal(q.type, DNS_TYPE_A);
    assert_string_equal(q.name.host, "api.internal");
    assert_string_equal(q.text, "Api.Internal");
    assert_false(q.edns);

    n = dns_answer(&q, address, answer);

    /* the question as it was asked: clients compare its letters' case */

    assert_int_equal(n, m.n + sizeof(rest));
    assert_memory_equal(answer, "\x12\x34\x85\x80\0\1\0\1\0\0\0\0", 12);
    assert_memory_equal(answer + 12, m.p + 12, m.n - 12);
    assert_memory_equal(answer + m.n, rest, sizeof(rest));

    free(exact);
}


static void
test_other_types(void **state)
{
    size_t          i, n;
    bytes_t         m;
    dns_query_t     q;
    unsigned char  *exact, answer[DNS_ANSWER_MAX];

    static const unsigned  types[] = { 28, 2, 5, 6, 12, 15, 16, 33, 65, 255 };

    (void) state;

    for (i = 0; i < COUNT(types); i++) {

        question(&m, "api.internal", types[i]);
        assert_int_equal(parse(&m, m.n, &q, &exact), DNS_QUERY);

        n = dns_answer(&q, address, answer);

        expect(n == m.n && (answer[3] & 15) == 0 && answer[7] == 0,
               "type %u of a name that exists is not NODATA", types[i]);

        n = dns_answer(&q, NULL, answer);

        expect(n == m.n && (answer[3] & 15) == 3 && answer[7] == 0,
               "type %u of another name is not NXDOMAIN", types[i]);

        free(exact);
    }
}


static void
test_edns(void **state)
{
    size_t          n;
    bytes_t         m;
    dns_query_t     q;
    unsigned char  *exact, answer[DNS_ANSWER_MAX];

    static const unsigned char  opt[] = {
        0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 0
    };

    (void) state;

    add_header(&m, 0x0120, 1, 1);
    add_name(&m, "api.internal");
    bytes_add_number(&m, 1, 2);
    bytes_add_number(&m, 1, 2);
    add_opt(&m, "\0\x0a\0\x08" "cookie12", 12);

    assert_int_equal(parse(&m, m.n, &q, &exact), DNS_QUERY);
    assert_true(q.edns);

    n = dns_answer(&q, address, answer);

    assert_int_equal(answer[11], 1);
    assert_memory_equal(answer + n - sizeof(opt), opt, sizeof(opt));

    free(exact);
}


static void
test_flags(void **state)
{
    size_t          i;
    bytes_t         m;
    dns_query_t     q;
    unsigned char  *exact, answer[DNS_ANSWER_MAX];

    static const struct {
        unsigned    flags;
        dns_kind_t  kind;
        unsigned    rcode;
        unsigned    answered;           /* opcode and RD are repeated */
    } rows[] = {
        { 0x0000, DNS_QUERY, 0, 0x8480 },
        { 0x0100, DNS_QUERY, 0, 0x8580 },
        { 0x0130, DNS_QUERY, 0, 0x8580 },       /* AD, CD */
        { 0x0800, DNS_REFUSED, 4, 0x8c80 },     /* IQUERY */
        { 0x1000, DNS_REFUSED, 4, 0x9480 },     /* STATUS */
        { 0x2000, DNS_REFUSED, 4, 0xa480 },     /* NOTIFY */
        { 0x2800, DNS_REFUSED, 4, 0xac80 },     /* UPDATE */
        { 0x7800, DNS_REFUSED, 4, 0xfc80 },
        { 0x8000, DNS_GARBAGE, 0, 0 },
        { 0x8180, DNS_GARBAGE, 0, 0 },
        { 0xffff, DNS_GARBAGE, 0, 0 },
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {

        question(&m, "api.internal", 1);
        m.p[2] = (unsigned char) (rows[i].flags >> 8);
        m.p[3] = (unsigned char) rows[i].flags;

        expect(parse(&m, m.n, &q, &exact) == rows[i].kind,
               "flags %04x are read otherwise", rows[i].flags);

        if (rows[i].kind != DNS_GARBAGE) {
            (void) dns_answer(&q, address, answer);
            expect(((unsigned) answer[2] << 8 | answer[3])
                   == (rows[i].answered | rows[i].rcode),
                   "flags %04x are answered with %02x%02x", rows[i].flags,
                   answer[2], answer[3]);
        }

        free(exact);
    }
}


/* No beginning of a query is one, and none is answered with what it asks. */

static void
test_truncated(void **state)
{
    size_t          i, n;
    bytes_t         m;
    dns_kind_t      kind;
    dns_query_t     q;
    unsigned char  *exact, answer[DNS_ANSWER_MAX];

    (void) state;

    add_header(&m, 0x0120, 1, 1);
    add_name(&m, "a-long-label-of-a-name.packages.example");
    bytes_add_number(&m, 1, 2);
    bytes_add_number(&m, 1, 2);
    add_opt(&m, "\0\x0a\0\x08" "cookie12", 12);

    for (i = 0; i < m.n; i++) {

        kind = parse(&m, i, &q, &exact);

        expect(kind == (i < 12 ? DNS_GARBAGE : DNS_MALFORMED),
               "%zu of %zu bytes are taken for %d", i, m.n, kind);

        if (kind == DNS_MALFORMED) {
            n = dns_answer(&q, address, answer);
            expect(n <= 12 + 11 && (answer[3] & 15) == 1 && answer[5] == 0
                   && answer[7] == 0,
                   "%zu bytes are not answered with FORMERR alone", i);
        }

        free(exact);
    }

    bytes_add(&m, "x", 1);
    assert_int_equal(parse(&m, m.n, &q, &exact), DNS_MALFORMED);
    free(exact);
}


static void
test_malformed(void **state)
{
    size_t          i, k, n;
    bytes_t         m;
    dns_query_t     q;
    unsigned char  *exact;

    /* a header's counts: questions, answers, authorities, additional */

    static const unsigned char  counts[][4] = {
        { 0, 0, 0, 0 }, { 2, 0, 0, 0 }, { 1, 1, 0, 0 }, { 1, 0, 1, 0 },
        { 1, 0, 0, 1 }, { 1, 0, 0, 2 }, { 255, 0, 0, 0 },
    };

    static const struct {
        const char  *what;
        const char  *name;
        size_t       n;
    } names[] = {
        { "a pointer", "\xc0\x0c", 2 },
        { "a pointer to itself", "\1a\xc0\x0c", 4 },
        { "the 0x40 kind of label", "\x40" "a", 3 },
        { "the 0x80 kind of label", "\x80" "a", 3 },
        { "a label of 64 bytes", "\x40" "0123456789012345678901234567890123"
          "456789012345678901234567890123", 66 },
        { "a label beyond the end", "\x3f" "a", 3 },
    };

    (void) state;

    for (i = 0; i < COUNT(counts); i++) {

        question(&m, "api.internal", 1);

        for (k = 0; k < 4; k++) {
            m.p[5 + 2 * k] = counts[i][k];
        }

        expect(parse(&m, m.n, &q, &exact) == DNS_MALFORMED,
               "the counts of row %zu are accepted", i);
        free(exact);
    }

    for (i = 0; i < COUNT(names); i++) {

        add_header(&m, 0x0100, 1, 0);
        bytes_add(&m, names[i].name, names[i].n);
        bytes_add_number(&m, 1, 2);
        bytes_add_number(&m, 1, 2);

        expect(parse(&m, m.n, &q, &exact) == DNS_MALFORMED,
               "%s is accepted", names[i].what);
        free(exact);
    }

    /* an additional record that is no OPT, or no whole one */

    for (i = 0; i < 3; i++) {

        add_header(&m, 0x0100, 1, 1);
        add_name(&m, "api.internal");
        bytes_add_number(&m, 1, 2);
        bytes_add_number(&m, 1, 2);
        n = m.n;
        add_opt(&m, "abcd", 4);

        switch (i) {
        case 0: m.p[n + 2] = 1;  break;         /* A */
        case 1: m.p[n + 10] = 5; break;         /* one byte too many */
        case 2: m.p[n + 10] = 3; break;
        }

        expect(parse(&m, m.n, &q, &exact) == DNS_MALFORMED,
               "the additional record of row %zu is accepted", i);
        free(exact);
    }
}


static void
test_class(void **state)
{
    size_t          i;
    bytes_t         m;
    dns_query_t     q;
    unsigned char  *exact, answer[DNS_ANSWER_MAX];

    static const unsigned  classes[] = { 0, 2, 3, 4, 254, 255, 0xffff };

    (void) state;

    for (i = 0; i < COUNT(classes); i++) {

        question(&m, "api.internal", 1);
        m.p[m.n - 2] = (unsigned char) (classes[i] >> 8);
        m.p[m.n - 1] = (unsigned char) classes[i];

        expect(parse(&m, m.n, &q, &exact) == DNS_REFUSED,
               "class %u is accepted", classes[i]);

        (void) dns_answer(&q, address, answer);
        assert_int_equal(answer[3] & 15, DNS_RCODE_REFUSED);
        assert_int_equal(answer[7], 0);
        free(exact);
    }
}


/* 255 bytes are a name, with the longest text and the longest answer. */

static void
test_longest(void **state)
{
    size_t          i, n;
    bytes_t         m;
    dns_query_t     q;
    unsigned char  *exact, len, answer[DNS_ANSWER_MAX];

    (void) state;

    for (i = 61; i <= 62; i++) {

        add_header(&m, 0x0100, 1, 1);

        for (n = 0; n < 3; n++) {
            bytes_add(&m, "\x3f", 1);
            bytes_add(&m, "0123456789012345678901234567890123456789"
                      "01234567890123456789abc", 63);
        }

        len = (unsigned char) i;
        bytes_add(&m, &len, 1);
        bytes_add(&m, "012345678901234567890123456789012345678901234567890123"
                  "456789abc", i);
        bytes_add(&m, "", 1);
        bytes_add_number(&m, 1, 2);
        bytes_add_number(&m, 1, 2);
        add_opt(&m, "", 0);

        if (i == 62) {
            assert_int_equal(parse(&m, m.n, &q, &exact), DNS_MALFORMED);
            free(exact);
            break;
        }

        assert_int_equal(parse(&m, m.n, &q, &exact), DNS_QUERY);
        assert_int_equal(strlen(q.text), 253);
        assert_int_equal(q.name.host_len, 253);

        n = dns_answer(&q, address, answer);
        assert_int_equal(n, m.n + 16);

        free(exact);
    }
}


/* What no policy can name is recorded as it was asked, and nothing more. */

static void
test_odd_names(void **state)
{
    char            controls[63];
    size_t          i;
    bytes_t         m;
    dns_query_t     q;
    unsigned char  *exact;

    static const struct {
        const char  *name;              /* labels */
        size_t       n;
        const char  *text;
        const char  *host;              /* "" where it is none */
    } rows[] = {
        { "", 1, "", "" },
        { "\x03" "a.b\x01" "c", 7, "a\\046b.c", "" },
        { "\x03" "a\\b", 5, "a\\092b", "" },
        { "\x03" "a\0b", 5, "a\\000b", "" },
        { "\x03" "a\nb", 5, "a\\010b", "" },
        { "\x03" "a b", 5, "a\\032b", "" },
        { "\x02\xc3\xbc", 4, "\\195\\188", "" },
        { "\x01*\x07" "example", 11, "*.example", "" },
        { "\x03" "1.2", 5, "1\\0462", "" },
        { "\x03" "127\x01" "0\x01" "0\x01" "1", 11, "127.0.0.1", "" },
        { "\x04" "0x7f", 6, "0x7f", "" },
        { "\x02" "-a", 4, "-a", "" },
        { "\x04" "_dns\x07" "Example", 14, "_dns.Example", "_dns.example" },
        { "\x0b" "xn--mller-k", 13, "xn--mller-k", "xn--mller-k" },
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {

        add_header(&m, 0x0100, 1, 0);
        bytes_add(&m, rows[i].name, rows[i].n);
        bytes_add_number(&m, 1, 2);
        bytes_add_number(&m, 1, 2);

        expect(parse(&m, m.n, &q, &exact) == DNS_QUERY,
               "\"%s\" is no question", rows[i].text);
        expect(strcmp(q.text, rows[i].text) == 0,
               "\"%s\" is recorded as \"%s\"", rows[i].text, q.text);
        expect(strcmp(q.name.host, rows[i].host) == 0,
               "\"%s\" is taken for \"%s\"", rows[i].text, q.name.host);
        free(exact);
    }

    /* nothing but controls: its text is cut, and ends within its room */

    add_header(&m, 0x0100, 1, 0);
    memset(controls, 1, sizeof(controls));

    for (i = 0; i < 4; i++) {
        bytes_add(&m, i < 3 ? "\x3f" : "\x3d", 1);
        bytes_add(&m, controls, i < 3 ? 63 : 61);
    }

    bytes_add(&m, "", 1);
    bytes_add_number(&m, 1, 2);
    bytes_add_number(&m, 1, 2);

    assert_int_equal(parse(&m, m.n, &q, &exact), DNS_QUERY);
    assert_in_range(strlen(q.text), 248, sizeof(q.text) - 1);
    assert_int_equal(q.name.host_len, 0);
    free(exact);
}


static void
test_address(void **state)
{
    size_t         i, same;
    char           name[32];
    unsigned char  a[4], b[4];

    (void) state;

    assert_int_equal(dns_address((const unsigned char *) "key", 3,
                                 "api.internal", a), 0);
    assert_int_equal(dns_address((const unsigned char *) "key", 3,
                                 "api.internal", b), 0);
    assert_memory_equal(a, b, 4);

    assert_int_equal(dns_address((const unsigned char *) "kez", 3,
                                 "api.internal", b), 0);
    assert_memory_not_equal(a, b, 4);

    for (i = 0, same = 0; i < 2000; i++) {

        (void) snprintf(name, sizeof(name), "h%zu.example", i);
        assert_int_equal(dns_address((const unsigned char *) "key", 3, name,
                                     b), 0);

        expect(b[0] == 198 && (b[1] & 0xfe) == 18,
               "%s has an address outside of 198.18.0.0/15", name);
        same += (memcmp(a, b, 4) == 0);
    }

    /* two names may share one; most do not */

    assert_in_range(same, 0, 2);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        PROMISE("an allowed name has its address, its letters unchanged",
                test_ordinary),
        PROMISE("other types of an allowed name are NODATA, other names do "
                "not exist", test_other_types),
        PROMISE("EDNS is answered with EDNS, its options are ignored",
                test_edns),
        PROMISE("B-040 an answer is never answered, other operations are not "
                "implemented", test_flags),
        PROMISE("B-040 a query that is cut is not taken for a whole one",
                test_truncated),
        PROMISE("B-017 counts, pointers and labels that are odd are malformed",
                test_malformed),
        PROMISE("a question of another class than IN is refused", test_class),
        PROMISE("a name has 255 bytes at most, and its answer fits",
                test_longest),
        PROMISE("B-017 an odd name is recorded escaped and matches nothing",
                test_odd_names),
        PROMISE("an address is a keyed hash of the name, in 198.18.0.0/15",
                test_address),
    };

    return unit_run(tests);
}
