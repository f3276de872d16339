/* The bounds of what the broker does for one box, and how they are written. */

#include "unit.h"

#include "policy/bounds.h"


static void
test_defaults(void **state)
{
    size_t    i, k;
    uint64_t  values[BOUND_COUNT];

    static const struct {
        const char  *directive;
        uint64_t     standard;
    } rows[BOUND_COUNT] = {
        [BOUND_CONNECTIONS] = { "connections", 64 },
        [BOUND_RATE] = { "rate", 200 },
        [BOUND_BURST] = { "burst", 400 },
        [BOUND_REQUESTS] = { "requests", 10000 },
        [BOUND_HANDSHAKES] = { "handshakes", 200 },
        [BOUND_MINTS] = { "mints", 256 },
        [BOUND_NAMES] = { "names", 10000 },
        [BOUND_REFUSALS] = { "refusals", 1000 },
        [BOUND_BYTES_UP] = { "bytes_up", 100ULL << 20 },
        [BOUND_BYTES_DOWN] = { "bytes_down", 1ULL << 30 },
        [BOUND_AUDIT_LINES] = { "audit_lines", 42000 },
        [BOUND_AUDIT_BYTES] = { "audit_bytes", 42000ULL << 10 },
        [BOUND_LOG_BYTES] = { "log_bytes", 16ULL << 20 },
        [BOUND_TASKS] = { "tasks", 64 },
    };

    (void) state;

    memset(values, 0xff, sizeof(values));
    bounds_default(values);

    for (i = 0; i < BOUND_COUNT; i++) {

        expect(strcmp(bound_table[i].directive, rows[i].directive) == 0,
               "row %zu is \"%s\"", i, bound_table[i].directive);
        expect(values[i] == rows[i].standard, "%s: %llu",
               rows[i].directive, (unsigned long long) values[i]);
        expect(values[i] > 0 && values[i] <= bound_table[i].max,
               "%s: the default is none", rows[i].directive);
        expect(bound_table[i].unit && *bound_table[i].unit,
               "%s has no unit", rows[i].directive);

        for (k = 0; k < i; k++) {
            assert_string_not_equal(rows[i].directive, rows[k].directive);
        }
    }
}


static void
test_audit(void **state)
{
    size_t    i;
    uint64_t  values[BOUND_COUNT];

    static const struct {
        uint64_t  requests, refusals, names, lines, bytes;  /* 0: not set */
        uint64_t  all_lines, all_bytes;
    } rows[] = {
        { 10000, 1000, 10000, 0, 0, 42000, 42000 << 10 },
        { 1, 1, 1, 0, 0, 6, 6 << 10 },
        { 20, 5, 7, 0, 0, 77, 77 << 10 },
        { 20, 5, 7, 9, 0, 9, 77 << 10 },
        { 20, 5, 7, 9, 8, 9, 8 },
        { 1000000000, 1000000000, 1000000000, 0, 0, 1000000000, 1ULL << 40 },
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {

        bounds_default(values);

        values[BOUND_REQUESTS] = rows[i].requests;
        values[BOUND_REFUSALS] = rows[i].refusals;
        values[BOUND_NAMES] = rows[i].names;
        values[BOUND_AUDIT_LINES] = rows[i].lines;
        values[BOUND_AUDIT_BYTES] = rows[i].bytes;

        bounds_complete(values);

        expect(values[BOUND_AUDIT_LINES] == rows[i].all_lines
               && values[BOUND_AUDIT_BYTES] == rows[i].all_bytes,
               "row %zu: %llu lines, %llu bytes", i,
               (unsigned long long) values[BOUND_AUDIT_LINES],
               (unsigned long long) values[BOUND_AUDIT_BYTES]);
    }
}


static void
test_rate(void **state)
{
    int          rc;
    size_t       i;
    uint64_t     rate, burst;
    const char  *wrong;

    static const struct {
        const char  *rate;
        const char  *burst;
        uint64_t     per_second;        /* 0: refused */
        uint64_t     at_once;           /* 0: the burst is wrong */
    } rows[] = {
        { "200r/s", "burst=400", 200, 400 },
        { "200r/s", NULL, 200, 400 },
        { "1r/s", NULL, 1, 2 },
        { "1r/s", "burst=1", 1, 1 },
        { "100000r/s", "burst=1000000", 100000, 1000000 },
        { "100000r/s", NULL, 100000, 200000 },
        { "100001r/s", NULL, 0, 1 },
        { "0r/s", NULL, 0, 1 },
        { "r/s", NULL, 0, 1 },
        { "", NULL, 0, 1 },
        { "200", NULL, 0, 1 },
        { "200r/m", NULL, 0, 1 },
        { "200r/s ", NULL, 0, 1 },
        { "-1r/s", NULL, 0, 1 },
        { "1.5r/s", NULL, 0, 1 },
        { "02r/s", NULL, 0, 1 },
        { "burst=1", "1r/s", 0, 1 },
        { "1r/s", "burst=0", 0, 0 },
        { "1r/s", "burst=", 0, 0 },
        { "1r/s", "burst", 0, 0 },
        { "1r/s", "", 0, 0 },
        { "1r/s", "5", 0, 0 },
        { "1r/s", "burst=1000001", 0, 0 },
        { "1r/s", "burst=1r/s", 0, 0 },
        { "1r/s", "nodelay", 0, 0 },
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {

        rc = bound_parse_rate(rows[i].rate, rows[i].burst, &rate, &burst,
                              &wrong);

        expect(rc == (rows[i].per_second ? 0 : -1),
               "rate \"%s\" \"%s\": %d", rows[i].rate,
               rows[i].burst ? rows[i].burst : "-", rc);

        if (rc == 0) {
            expect(rate == rows[i].per_second && burst == rows[i].at_once,
                   "rate \"%s\": %llu, %llu at once", rows[i].rate,
                   (unsigned long long) rate, (unsigned long long) burst);

        } else {
            expect(wrong == (rows[i].at_once ? rows[i].rate : rows[i].burst),
                   "rate \"%s\": \"%s\" is wrong", rows[i].rate, wrong);
        }
    }
}


static void
test_counts(void **state)
{
    int       rc;
    size_t    i, k;
    uint64_t  v;

    static const struct {
        const char  *text;
        uint64_t     value;             /* 0: refused */
    } rows[] = {
        { "1", 1 }, { "64", 64 }, { "65535", 65535 }, { "0", 0 },
        { "", 0 }, { "01", 0 }, { "+1", 0 }, { "-1", 0 }, { " 1", 0 },
        { "1 ", 0 }, { "1k", 0 }, { "1m", 0 }, { "0x10", 0 }, { "1e3", 0 },
        { "1.5", 0 }, { "off", 0 }, { "unlimited", 0 },
        { "18446744073709551616", 0 }, { "18446744073709551617", 0 },
        { "99999999999999999999999999999999999999999", 0 },
    };

    (void) state;

    for (i = 0; i < BOUND_COUNT; i++) {

        if (bound_table[i].bytes) {
            continue;
        }

        for (k = 0; k < COUNT(rows); k++) {

            v = 4711;
            rc = bound_parse((bound_id_t) i, rows[k].text,
                             strlen(rows[k].text), &v);

            expect(rc == (rows[k].value ? 0 : -1)
                   && v == (rows[k].value ? rows[k].value : 4711),
                   "%s \"%s\": %d and %llu", bound_table[i].directive,
                   rows[k].text, rc, (unsigned long long) v);
        }
    }
}


static void
test_sizes(void **state)
{
    int       rc;
    size_t    i, k;
    uint64_t  v;

    static const struct {
        const char  *text;
        uint64_t     value;             /* 0: refused */
    } rows[] = {
        { "1", 1 }, { "512k", 512 << 10 }, { "100m", 100 << 20 },
        { "5g", 5ULL << 30 }, { "1048576", 1 << 20 }, { "0", 0 }, { "", 0 },
        { "0m", 0 }, { "m", 0 }, { "-1m", 0 }, { "1.5m", 0 },
        { "1mm", 0 }, { "1 m", 0 }, { "99999999999999999999g", 0 },
        { "17179869184g", 0 }, { "18446744073709551617", 0 },
    };

    (void) state;

    for (i = 0; i < BOUND_COUNT; i++) {

        if (!bound_table[i].bytes) {
            continue;
        }

        for (k = 0; k < COUNT(rows); k++) {

            v = 4711;
            rc = bound_parse((bound_id_t) i, rows[k].text,
                             strlen(rows[k].text), &v);

            expect(rc == (rows[k].value ? 0 : -1)
                   && v == (rows[k].value ? rows[k].value : 4711),
                   "%s \"%s\": %d and %llu", bound_table[i].directive,
                   rows[k].text, rc, (unsigned long long) v);
        }
    }
}


/* The largest of each is taken, one more is not; what follows n is not read. */

static void
test_ends(void **state)
{
    char      text[32], longer[40];
    size_t    i;
    uint64_t  v;

    (void) state;

    for (i = 0; i < BOUND_COUNT; i++) {

        (void) snprintf(text, sizeof(text), "%llu",
                        (unsigned long long) bound_table[i].max);
        expect(bound_parse((bound_id_t) i, text, strlen(text), &v) == 0
               && v == bound_table[i].max, "%s %s is refused",
               bound_table[i].directive, text);

        (void) snprintf(longer, sizeof(longer), "%s7", text);
        expect(bound_parse((bound_id_t) i, longer, strlen(text), &v) == 0
               && v == bound_table[i].max, "%s: more than n is read",
               bound_table[i].directive);

        (void) snprintf(text, sizeof(text), "%llu",
                        (unsigned long long) bound_table[i].max + 1);
        expect(bound_parse((bound_id_t) i, text, strlen(text), &v) == -1,
               "%s %s is taken", bound_table[i].directive, text);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        PROMISE("every bound has its default, within its limits",
                test_defaults),
        PROMISE("G-032: without a budget of its own the audit has room for "
                "what the other bounds allow", test_audit),
        PROMISE("a count is canonical decimal", test_counts),
        PROMISE("a rate is so many a second, and a burst of them", test_rate),
        PROMISE("bytes may be written with k, m and g", test_sizes),
        PROMISE("the largest value of a bound is accepted, no larger one",
                test_ends),
    };

    return unit_run(tests);
}
