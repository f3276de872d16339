/*
 * The captured text: whatever is written, however it is cut into reads, the
 * text is valid UTF-8, within its cap, and says how much it left out.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run/output.h"


/* the text of data, fed in pieces of size bytes */

static char *
text_of(const char *data, size_t n, size_t size, size_t cap, bool *cut)
{
    char      *text;
    size_t     i, len;
    output_t   out;

    output_init(&out, cap);

    for (i = 0; i < n; i += size) {
        output_add(&out, data + i, n - i < size ? n - i : size);
    }

    assert_int_equal(out.bytes, n);

    text = output_text(&out, &len, cut);
    assert_non_null(text);
    assert_int_equal(strlen(text) <= len, 1);
    output_free(&out);

    return text;
}


static size_t
chars_of(const char *text)
{
    size_t  n;

    for (n = 0; *text; text++) {
        n += ((unsigned char) *text & 0xc0) != 0x80;
    }

    return n;
}


static bool
is_valid(const char *text)
{
    utf8_t  u;

    for (u = (utf8_t) { 0 }; *text; text++) {
        if (utf8_step(&u, (unsigned char) *text) >= UTF8_BAD) {
            return false;
        }
    }

    return u.need == 0;
}


static void
invalid_sequences_become_one_replacement_each(void **state)
{
    bool     cut;
    char    *text;
    size_t   i, size;

    static const struct {
        const char  *in;
        const char  *out;
    } cases[] = {
        { "a\xff" "b", "a\xef\xbf\xbd" "b" },
        { "\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd" },
        { "\xe2\x82", "\xef\xbf\xbd" },
        { "\xe2\x82x", "\xef\xbf\xbdx" },
        { "\xe2\x82\xac", "\xe2\x82\xac" },
        { "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80" },
        { "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
        { "\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                              "\xef\xbf\xbd" },
        { "\xc3\xc3\xa9", "\xef\xbf\xbd\xc3\xa9" },
        { "", "" },
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size = 1; size < 5; size++) {
            text = text_of(cases[i].in, strlen(cases[i].in), size, 100, &cut);
            assert_string_equal(text, cases[i].out);
            assert_false(cut);
            free(text);
        }
    }
}


static void
what_fits_is_whole_and_one_more_is_cut(void **state)
{
    bool   cut;
    char   data[1002], *text;

    (void) state;

    (void) memset(data, 'x', sizeof(data));

    text = text_of(data, 1000, 7, 1000, &cut);
    assert_int_equal(strlen(text), 1000);
    assert_false(cut);
    free(text);

    text = text_of(data, 1001, 7, 1000, &cut);
    assert_int_equal(strlen(text), 1000);
    assert_true(cut);
    free(text);
}


/* lengths, caps, widths of characters and sizes of reads, all together */

static void
head_and_tail_are_kept_and_the_marker_is_true(void **state)
{
    bool                cut;
    char               *data, *text, *mark, *end;
    size_t              i, n, w, cap, len, size, lost;

    static const char *const  wide[] = { "a", "\xc3\xa9", "\xe2\x82\xac",
                                         "\xf0\x9f\x98\x80" };

    (void) state;

    for (cap = 100; cap <= 1000; cap += 450) {
        for (w = 0; w < 4; w++) {
            for (n = cap - 2; n < 40 * cap; n = n < cap + 3 ? n + 1
                                                            : 3 * n + 1)
            {
                len = strlen(wide[w]);
                data = malloc(n * len);
                assert_non_null(data);

                for (i = 0; i < n; i++) {
                    (void) memcpy(data + i * len, wide[w], len);
                }

                for (size = 1; size < 100000; size = 17 * size + 1) {
                    text = text_of(data, n * len, size, cap, &cut);

                    assert_true(is_valid(text));
                    assert_int_equal(cut, n > cap);
                    assert_true(chars_of(text) <= cap);
                    assert_true(chars_of(text) >= (n < cap ? n : cap - 1));

                    if (cut) {
                        mark = strstr(text, "\n[... ");
                        assert_non_null(mark);
                        lost = strtoul(mark + 6, &end, 10);
                        assert_memory_equal(end, " characters cut ...]\n", 21);
                        *mark = '\0';
                        assert_int_equal(chars_of(text) + lost
                                         + chars_of(end + 21), n);
                    }

                    free(text);
                }

                free(data);
            }
        }
    }
}


static void
memory_does_not_grow_with_the_stream(void **state)
{
    int        i;
    bool       cut;
    char       block[4096], *text;
    size_t     len;
    output_t   out;

    (void) state;

    (void) memset(block, 'y', sizeof(block));
    (void) memcpy(block, "\xc3\xa9", 2);
    output_init(&out, 1000);

    for (i = 0; i < 10000; i++) {
        output_add(&out, block, sizeof(block));
        assert_true(out.head.cap + out.tail.cap <= 1000 * 4 * 2);
    }

    text = output_text(&out, &len, &cut);
    assert_true(cut);
    assert_int_equal(out.bytes, 10000ull * sizeof(block));
    free(text);
    output_free(&out);
}


static void
nul_is_a_character(void **state)
{
    bool       cut;
    char      *text;
    size_t     len;
    output_t   out;

    (void) state;

    output_init(&out, 100);
    output_add(&out, "a\0b", 3);
    text = output_text(&out, &len, &cut);
    assert_int_equal(len, 3);
    assert_memory_equal(text, "a\0b", 3);
    free(text);
    output_free(&out);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(invalid_sequences_become_one_replacement_each),
        cmocka_unit_test(what_fits_is_whole_and_one_more_is_cut),
        cmocka_unit_test(head_and_tail_are_kept_and_the_marker_is_true),
        { "A-089 memory does not grow with the stream",
          memory_does_not_grow_with_the_stream, NULL, NULL, NULL },
        cmocka_unit_test(nul_is_a_character),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);

    return cmocka_run_group_tests(tests, NULL, NULL);
}
