/* What a task writes, as a terminal gets it. */

#include "unit.h"

#include "run/terminal.h"


static const struct {
    const char  *in;
    const char  *out;
} texts[] = {
    { "plain\ttext\r\n", "plain\ttext\r\n" },
    { "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac"
                                              "\xf0\x9f\x98\x80" },
    { "\a\b\v\f\x7f" "x", "x" },
    { "a\x1b[1;31mred\x1b[0m", "ared" },
    { "a\x1b[2Jb", "ab" },
    { "a\x1b]0;title\ab", "ab" },
    { "a\x1b]52;c;aGk=\x1b\\b", "ab" },         /* the clipboard */
    { "a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "alink" },
    { "a\x1bP+q544e\x1b\\b", "ab" },
    { "a\x1b(0b\x1b)Bc", "abc" },
    { "a\x1b" "cb", "ab" },                     /* reset */
    { "a\x1b\x1b[2Jb", "ab" },
    { "a\xc2\x9b" "2Jb", "ab" },
    { "a\xc2\x9d" "0;t\xc2\x9c" "b", "ab" },
    { "a\xc2\x85" "b", "ab" },
    { "a\x9b" "2Jb", "a?2Jb" },
    { "a\xff\xfe", "a??" },
    { "a\xe2\x82z", "a?z" },
    { "a\x1b]0;no end\nnext", "a\nnext" },
    { "a\x1b[12\x18" "b", "ab" },
    { "a\x1b[1;\xc3\xa9" "b", "ab" },
    { "a\x1b", "a" },
};


static void
test_filter(void **state)
{
    char        out[128];
    size_t      i, k, n, len, size;
    terminal_t  t;

    (void) state;

    for (i = 0; i < COUNT(texts); i++) {

        /* however it is cut into reads */

        for (size = 1; size <= strlen(texts[i].in); size++) {
            t = (terminal_t) { 0 };
            n = strlen(texts[i].in);
            len = 0;

            for (k = 0; k < n; k += size) {
                len += terminal_filter(&t, texts[i].in + k,
                                       n - k < size ? n - k : size,
                                       out + len);
            }

            out[len] = '\0';

            expect(strcmp(out, texts[i].out) == 0,
                   "row %zu in pieces of %zu: \"%s\"", i, size, out);
        }
    }
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        PROMISE("no byte that a terminal obeys reaches it", test_filter),
    };

    return unit_run(tests);
}
