/*
 * The audit line: one event is one physical line of JSON with the program's
 * own keys, whatever a box sends.
 */

#include <time.h>

#include <jansson.h>

#include "unit.h"

#include "audit/audit_line.h"


static audit_line_t  line;


/* What every line must be; the parsed object, to be dropped by the caller. */

static json_t *
finish(void)
{
    size_t        i, n;
    json_t       *object;
    json_error_t  e;

    n = audit_line_end(&line);

    assert_true(n <= AUDIT_LINE_MAX);
    assert_int_equal(line.text[n - 1], '\n');

    for (i = 0; i < n - 1; i++) {
        expect(line.text[i] >= 0x20 && line.text[i] < 0x7f,
               "byte %02x at %zu of the line", (unsigned char) line.text[i],
               i);
    }

    object = json_loadb(line.text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL,
                        &e);
    expect(object != NULL, "no JSON: %s in %.*s", e.text, (int) n, line.text);

    return object;
}


static void
assert_line(const char *expected)
{
    size_t  n;

    n = audit_line_end(&line);

    expect(n == strlen(expected) && memcmp(line.text, expected, n) == 0,
           "expected %s got %.*s", expected, (int) n, line.text);
}


static void
test_shape(void **state)
{
    (void) state;

    audit_line_begin(&line);
    assert_line("{}\n");

    audit_line_begin(&line);
    audit_line_word(&line, "event", "egress");
    audit_line_number(&line, "seq", 4711);
    audit_line_number(&line, "low", INT64_MIN);
    audit_line_bool(&line, "ok", true);
    audit_line_bool(&line, "no", false);
    audit_line_word(&line, "hint", NULL);
    audit_line_text(&line, "host", "a.example/x", 9, 256);
    audit_line_word(&line, "empty", "");
    assert_line("{\"event\":\"egress\",\"seq\":4711,"
                "\"low\":-9223372036854775808,\"ok\":true,\"no\":false,"
                "\"hint\":null,\"host\":\"a.example\",\"empty\":\"\"}\n");

    audit_line_begin(&line);
    audit_line_copy(&line, "\"a\":1", 5);
    audit_line_own(&line, "own", "value", 5);
    audit_line_own(&line, "none", "", 0);
    audit_line_number(&line, "b", INT64_MAX);
    assert_line("{\"a\":1,\"own\":\"value\",\"none\":\"\","
                "\"b\":9223372036854775807}\n");

    audit_line_begin(&line);
    audit_line_open(&line, "claimed");
    audit_line_close(&line);
    audit_line_open(&line, "usage");
    audit_line_number(&line, "a", 1);
    audit_line_open(&line, "b");
    audit_line_number(&line, "c", 2);
    audit_line_close(&line);
    audit_line_number(&line, "d", 3);
    audit_line_close(&line);
    audit_line_number(&line, "e", 4);
    assert_line("{\"claimed\":{},\"usage\":{\"a\":1,\"b\":{\"c\":2},\"d\":3},"
                "\"e\":4}\n");

    audit_line_begin(&line);
    audit_line_word(&line, "event", "egress");
    audit_line_copy(&line, ",\"a\":\"b\",\"c\":1", 14);
    audit_line_number(&line, "d", 2);
    assert_line("{\"event\":\"egress\",\"a\":\"b\",\"c\":1,\"d\":2}\n");

    audit_line_begin(&line);
    audit_line_number(&line, "a", 1);

    while (!line.cut) {
        audit_line_copy(&line, ",\"b\":2222", 9);
    }

    assert_true(audit_line_end(&line) <= AUDIT_LINE_MAX);
}


static void
test_every_byte(void **state)
{
    int             i;
    json_t         *object, *value;
    char            expected[16];
    unsigned char   all[256];

    (void) state;

    for (i = 0; i < 256; i++) {

        all[i] = (unsigned char) i;

        audit_line_begin(&line);
        audit_line_text(&line, "path", &all[i], 1, 256);

        if (i < 0x20 || i >= 0x7f || i == '"' || i == '\\') {
            (void) snprintf(expected, sizeof(expected), "\\u%04x", i);
        } else {
            (void) snprintf(expected, sizeof(expected), "%c", i);
        }

        object = finish();

        expect(strncmp(line.text + 9, expected, strlen(expected)) == 0
               && line.text[9 + strlen(expected)] == '"',
               "byte %02x is written as %.*s", i, 12, line.text + 9);
        json_decref(object);
    }

    audit_line_begin(&line);
    audit_line_text(&line, "path", all, 256, 2048);
    object = finish();
    value = json_object_get(object, "path");

    /* 128 ASCII bytes, and 128 that became two bytes of UTF-8 */

    assert_int_equal(json_string_length(value), 128 + 2 * 128);
    json_decref(object);
}


/*
 * Eight are looked at at once, and fewer at the end: each byte is found at
 * each of their places, however long the value is.
 */

static void
test_every_place(void **state)
{
    int            i;
    bool           escaped;
    char           expected[64];
    size_t         n, at;
    unsigned char  text[19];

    (void) state;

    for (i = 0; i < 256; i++) {

        escaped = i < 0x20 || i >= 0x7f || i == '"' || i == '\\';

        for (n = 1; n <= sizeof(text); n++) {
            for (at = 0; at < n; at++) {

                memset(text, '!' + (i + at) % 2 * ('[' - '!'), n);

                (void) snprintf(expected, sizeof(expected),
                                escaped ? "{\"p\":\"%.*s\\u%04x%.*s\"}\n"
                                        : "{\"p\":\"%.*s%c%.*s\"}\n",
                                (int) at, text, i, (int) (n - at - 1), text);

                text[at] = (unsigned char) i;

                audit_line_begin(&line);
                audit_line_text(&line, "p", text, n, 256);
                assert_line(expected);
            }
        }
    }
}


static void
test_forgery(void **state)
{
    json_t  *object;
    size_t   i;

    static const char *const  texts[] = {
        "/x\n{\"event\":\"egress\",\"verdict\":\"allowed\"}",
        "/x\r\n2026-11-29 forged",
        "/x\",\"verdict\":\"allowed\",\"y\":\"",
        "/x\\",
        "/x\\\"",
        "/\xc2\x85/\xe2\x80\xa8/\xe2\x80\xa9",
        "/\x1b[2K\x1b[1A",
        "/\xff\xfe\xc0\xaf",
        "</script>",
        "\\u000a",
    };

    (void) state;

    for (i = 0; i < COUNT(texts); i++) {

        audit_line_begin(&line);
        audit_line_word(&line, "verdict", "denied");
        audit_line_word(&line, "path", texts[i]);
        audit_line_word(&line, "task", texts[i]);
        audit_line_number(&line, "seq", 1);

        object = finish();

        assert_int_equal(json_object_size(object), 4);
        assert_string_equal(
            json_string_value(json_object_get(object, "verdict")), "denied");
        assert_int_equal(json_integer_value(json_object_get(object, "seq")),
                         1);
        json_decref(object);
    }
}


static void
test_numbers(void **state)
{
    int      i;
    char     expected[64];
    int64_t  n;

    (void) state;

    for (n = 1; n <= INT64_MAX / 10; n *= 10) {
        for (i = -1; i <= 1; i++) {

            (void) snprintf(expected, sizeof(expected),
                            "{\"n\":%lld,\"minus\":%lld}\n",
                            (long long) (n + i), (long long) -(n + i));

            audit_line_begin(&line);
            audit_line_number(&line, "n", n + i);
            audit_line_number(&line, "minus", -(n + i));
            assert_line(expected);
        }
    }
}


static void
test_cut(void **state)
{
    char     long_text[70000];
    size_t   i;
    json_t  *object;

    static const struct {
        size_t  n;
        int     cut;
        size_t  kept;
    } rows[] = {
        { 0, 0, 0 }, { 255, 0, 255 }, { 256, 0, 256 }, { 257, 1, 256 },
        { 1024, 1, 256 }, { 65536, 1, 256 }
    };

    (void) state;

    memset(long_text, 'x', sizeof(long_text));

    for (i = 0; i < COUNT(rows); i++) {

        audit_line_begin(&line);
        audit_line_text(&line, "host", long_text, rows[i].n, 256);
        audit_line_number(&line, "seq", 7);
        object = finish();

        assert_int_equal(json_string_length(json_object_get(object, "host")),
                         rows[i].kept);
        assert_int_equal(json_integer_value(json_object_get(object, "seq")),
                         7);
        expect((json_object_get(object, "cut") != NULL) == rows[i].cut,
               "%zu bytes: \"cut\" is wrong", rows[i].n);
        expect(!rows[i].cut || json_is_true(json_object_get(object, "cut")),
               "%zu bytes: \"cut\" is not true", rows[i].n);
        json_decref(object);
    }

    /* the bound counts the escaped form, and no escape is cut in two */

    memset(long_text, '\n', 100);
    audit_line_begin(&line);
    audit_line_text(&line, "host", long_text, 100, 256);
    object = finish();
    assert_int_equal(json_string_length(json_object_get(object, "host")),
                     256 / 6);
    assert_true(json_is_true(json_object_get(object, "cut")));
    json_decref(object);
}


static void
test_full(void **state)
{
    char      value[5000], key[32];
    size_t    n, i;
    json_t   *object;

    (void) state;

    memset(value, 'v', sizeof(value));

    /* any fill, and then every kind of value at the edge */

    for (n = 3900; n < 4200; n++) {
        for (i = 0; i < 2; i++) {

            audit_line_begin(&line);
            audit_line_word(&line, "event", "egress");
            audit_line_text(&line, "path", value, n, 5000);
            audit_line_text(&line, "escaped", i ? "\n\n\n\n" : "", i ? 4 : 0,
                            256);
            audit_line_number(&line, "seq", INT64_MIN);
            audit_line_number(&line, "digit", (int64_t) i);
            audit_line_own(&line, "own", "value", 5);
            audit_line_open(&line, "a");
            audit_line_bool(&line, "in", true);
            audit_line_open(&line, "b");
            audit_line_open(&line, "c");
            audit_line_open(&line, "d");
            audit_line_word(&line, "deep", NULL);
            audit_line_close(&line);
            audit_line_close(&line);
            audit_line_close(&line);
            audit_line_close(&line);
            audit_line_word(&line, "after", "x");

            object = finish();

            /* the first keys are always there, and a loss is always told */

            assert_non_null(json_object_get(object, "event"));
            assert_non_null(json_object_get(object, "path"));

            if (json_object_get(object, "after") == NULL
                || json_object_get(object, "a") == NULL
                || json_string_length(json_object_get(object, "path")) != n)
            {
                assert_true(json_is_true(json_object_get(object, "cut")));
            }

            json_decref(object);
        }
    }

    /* a thousand keys */

    audit_line_begin(&line);

    for (i = 0; i < 1000; i++) {
        (void) snprintf(key, sizeof(key), "key%zu", i);
        audit_line_number(&line, key, (int64_t) i);
    }

    object = finish();
    assert_true(json_is_true(json_object_get(object, "cut")));
    json_decref(object);
}


static void
test_nesting(void **state)
{
    size_t   i;
    json_t  *object;

    (void) state;

    /* deeper than there is room for: left out with all that is in it */

    audit_line_begin(&line);

    for (i = 0; i < 6; i++) {
        audit_line_open(&line, "o");
    }

    audit_line_number(&line, "lost", 1);
    audit_line_close(&line);
    audit_line_close(&line);
    audit_line_number(&line, "kept", 2);

    object = finish();
    expect(strcmp(line.text, "") != 0, "no line");
    assert_null(strstr(line.text, "lost"));
    line.text[line.len] = '\0';
    assert_non_null(strstr(line.text, "{\"o\":{\"o\":{\"o\":{\"o\":"
                                      "{\"kept\":2}}}}"));
    json_decref(object);

    /* closed more often than opened */

    audit_line_begin(&line);
    audit_line_close(&line);
    audit_line_number(&line, "a", 1);
    audit_line_close(&line);
    assert_line("{\"a\":1}\n");
}


static void
test_time(void **state)
{
    char       text[25], expected[64];
    time_t     seconds;
    int64_t    ms;
    struct tm  tm;

    static const struct {
        int64_t      ms;
        const char  *text;
    } rows[] = {
        { 0, "1970-01-01T00:00:00.000Z" },
        { 1795953600123, "2026-11-29T12:00:00.123Z" },
        { 951782400000, "2000-02-29T00:00:00.000Z" },
        { 4107542400000, "2100-03-01T00:00:00.000Z" },
        { -1, "1969-12-31T23:59:59.999Z" },
        { 253402300799999, "9999-12-31T23:59:59.999Z" },
        { INT64_MAX, "9999-12-31T23:59:59.999Z" },
        { INT64_MIN, "0000-01-01T00:00:00.000Z" },
    };

    size_t  i;

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {
        audit_line_time(rows[i].ms, text);
        assert_string_equal(text, rows[i].text);
    }

    /* every 9 hours 20 minutes or so for 400 years, against the C library */

    for (ms = -6311433600000; ms < 6311433600000; ms += 33600123) {

        seconds = (time_t) ((ms - ((ms % 1000) + 1000) % 1000) / 1000);
        (void) gmtime_r(&seconds, &tm);
        (void) snprintf(expected, sizeof(expected),
                        "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ",
                        tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
                        tm.tm_hour, tm.tm_min, tm.tm_sec,
                        (int) (((ms % 1000) + 1000) % 1000));

        audit_line_time(ms, text);
        assert_string_equal(text, expected);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        PROMISE("keys come in the order written, values as JSON",
                test_shape),
        PROMISE("D-001 every foreign byte is escaped, none is lost",
                test_every_byte),
        PROMISE("D-001 a foreign byte is escaped at every place of a value",
                test_every_place),
        PROMISE("a number has its digits and no more", test_numbers),
        PROMISE("D-004 a box's text forges neither a line nor a field",
                test_forgery),
        PROMISE("D-005 a long value is cut at its bound and the line says so",
                test_cut),
        PROMISE("D-006 a line has at most 4096 bytes and stays JSON when "
                "full", test_full),
        PROMISE("objects nest four deep, what is deeper is left out whole",
                test_nesting),
        PROMISE("D-011 times are UTC with milliseconds", test_time),
    };

    return unit_run(tests);
}
