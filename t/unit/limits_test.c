/* The table of limits and the readers of its units. */

#include "unit.h"

#include "shared/limits.h"


static void
test_table(void **state)
{
    char         text[32];
    size_t       i, k;
    uint64_t     value, values[LIMIT_COUNT];
    const char  *err;

    (void) state;

    limits_default(values);

    for (i = 0; i < LIMIT_COUNT; i++) {

        assert_non_null(limit_table[i].directive);
        assert_non_null(limit_table[i].key);
        assert_true(limit_table[i].min <= limit_table[i].standard);
        assert_true(limit_table[i].standard <= limit_table[i].max);
        assert_int_equal(values[i], limit_table[i].standard);

        for (k = 0; k < i; k++) {
            assert_string_not_equal(limit_table[i].key, limit_table[k].key);
            assert_string_not_equal(limit_table[i].directive,
                                    limit_table[k].directive);
        }

        /* what a directive would say is read as the same value */

        for (k = 0; k < 3; k++) {

            value = (k == 0) ? limit_table[i].min
                    : (k == 1) ? limit_table[i].max : values[i];

            (void) limit_text((limit_id_t) i, value, text, sizeof(text));

            expect(limit_parse((limit_id_t) i, text, strlen(text), &values[i],
                               &err) == 0 && values[i] == value,
                   "\"%s %s\" is not read back", limit_table[i].directive,
                   text);
        }

        values[i] = limit_table[i].standard;
    }
}


static void
test_values(void **state)
{
    size_t       i;
    uint64_t     value;
    const char  *err;

    static const struct {
        limit_id_t   id;
        const char  *text;
        int          rc;
        uint64_t     value;
    } rows[] = {
        { LIMIT_CPU, "1", 0, 1000 }, { LIMIT_CPU, "1.0", 0, 1000 },
        { LIMIT_CPU, "0.5", 0, 500 }, { LIMIT_CPU, "0.01", 0, 10 },
        { LIMIT_CPU, "0.125", 0, 125 }, { LIMIT_CPU, "1024", 0, 1024000 },
        { LIMIT_CPU, "0", -1, 0 }, { LIMIT_CPU, "0.009", -1, 0 },
        { LIMIT_CPU, "0.1234", -1, 0 }, { LIMIT_CPU, ".5", -1, 0 },
        { LIMIT_CPU, "1.", -1, 0 }, { LIMIT_CPU, "1.0.0", -1, 0 },
        { LIMIT_CPU, "-1", -1, 0 }, { LIMIT_CPU, "1e3", -1, 0 },
        { LIMIT_CPU, "inf", -1, 0 }, { LIMIT_CPU, "nan", -1, 0 },
        { LIMIT_CPU, "1025", -1, 0 }, { LIMIT_CPU, "", -1, 0 },
        { LIMIT_CPU, "99999999999999999999", -1, 0 },

        { LIMIT_WALL_CLOCK, "20s", 0, 20000 },
        { LIMIT_WALL_CLOCK, "20", 0, 20000 },
        { LIMIT_WALL_CLOCK, "500ms", 0, 500 },
        { LIMIT_WALL_CLOCK, "2m", 0, 120000 },
        { LIMIT_WALL_CLOCK, "168h", 0, 604800000 },
        { LIMIT_WALL_CLOCK, "169h", -1, 0 },
        { LIMIT_WALL_CLOCK, "9ms", -1, 0 },
        { LIMIT_WALL_CLOCK, "0", -1, 0 },
        { LIMIT_WALL_CLOCK, "1d", -1, 0 },
        { LIMIT_WALL_CLOCK, "s", -1, 0 },
        { LIMIT_WALL_CLOCK, "1 s", -1, 0 },
        { LIMIT_WALL_CLOCK, "1.5s", -1, 0 },
        { LIMIT_WALL_CLOCK, "18446744073709551616", -1, 0 },
        { LIMIT_WALL_CLOCK, "18446744073709551615h", -1, 0 },

        { LIMIT_MEMORY, "512m", 0, 536870912 },
        { LIMIT_MEMORY, "512M", 0, 536870912 },
        { LIMIT_MEMORY, "4194304", 0, 4194304 },
        { LIMIT_MEMORY, "4194303", -1, 0 },
        { LIMIT_MEMORY, "16t", 0, 17592186044416 },
        { LIMIT_MEMORY, "17t", -1, 0 },
        { LIMIT_MEMORY, "512mb", -1, 0 },
        { LIMIT_MEMORY, "0x1000000", -1, 0 },
        { LIMIT_MEMORY, "18446744073709551615t", -1, 0 },

        { LIMIT_PIDS, "2", 0, 2 }, { LIMIT_PIDS, "1", -1, 0 },
        { LIMIT_PIDS, "2k", -1, 0 }, { LIMIT_PIDS, "max", -1, 0 },

        { LIMIT_NEAR, "80%", 0, 80 }, { LIMIT_NEAR, "80", -1, 0 },
        { LIMIT_NEAR, "0%", -1, 0 }, { LIMIT_NEAR, "101%", -1, 0 },
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {

        err = NULL;
        value = 0;

        expect(limit_parse(rows[i].id, rows[i].text, strlen(rows[i].text),
                           &value, &err) == rows[i].rc,
               "\"%s %s\" is %s", limit_table[rows[i].id].directive,
               rows[i].text, rows[i].rc ? "accepted" : "refused");
        expect(value == rows[i].value, "\"%s %s\" is read as %llu",
               limit_table[rows[i].id].directive, rows[i].text,
               (unsigned long long) value);
        expect((err != NULL) == (rows[i].rc != 0),
               "\"%s %s\" has no reason, or one too many",
               limit_table[rows[i].id].directive, rows[i].text);
    }

    /* what is given, not what follows it */

    assert_int_equal(limit_parse(LIMIT_PIDS, "12345", 2, &value, &err), 0);
    assert_int_equal(value, 12);
    assert_int_equal(limit_parse(LIMIT_PIDS, "12\0", 3, &value, &err), -1);
}


static void
test_bytes(void **state)
{
    uint64_t  value;

    (void) state;

    assert_int_equal(limit_parse_bytes("64k", 3, &value), 0);
    assert_int_equal(value, 65536);
    assert_int_equal(limit_parse_bytes("0", 1, &value), 0);
    assert_int_equal(limit_parse_bytes("", 0, &value), -1);
    assert_int_equal(limit_parse_bytes("64kb", 4, &value), -1);
    assert_int_equal(limit_parse_bytes("16777216t", 9, &value), -1);
    assert_int_equal(limit_parse_bytes("16777215t", 9, &value), 0);
}


static void
test_text(void **state)
{
    char    text[32];
    size_t  i;

    static const struct {
        limit_id_t   id;
        uint64_t     value;
        const char  *text;
    } rows[] = {
        { LIMIT_CPU, 1000, "1.0" }, { LIMIT_CPU, 1500, "1.5" },
        { LIMIT_CPU, 10, "0.01" }, { LIMIT_CPU, 125, "0.125" },
        { LIMIT_CPU, 100000, "100.0" },
        { LIMIT_MEMORY, 536870912, "512m" }, { LIMIT_MEMORY, 1536, "1536" },
        { LIMIT_MEMORY, 0, "0" },
        { LIMIT_WALL_CLOCK, 20000, "20s" },
        { LIMIT_WALL_CLOCK, 60000, "1m" },
        { LIMIT_WALL_CLOCK, 1500, "1500ms" },
        { LIMIT_PIDS, 256, "256" }, { LIMIT_NEAR, 80, "80%" },
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {
        assert_string_equal(limit_text(rows[i].id, rows[i].value, text,
                                       sizeof(text)),
                            rows[i].text);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        PROMISE("every limit's bounds and default are spelled and read back",
                test_table),
        PROMISE("a limit is a number in its unit within its bounds, and "
                "nothing else", test_values),
        PROMISE("a size that is too large overflows nothing", test_bytes),
        PROMISE("a limit is shown as a directive spells it", test_text),
    };

    return unit_run(tests);
}
