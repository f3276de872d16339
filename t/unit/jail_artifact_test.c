/* What is said of a task's files: their types and their names. */

#include "unit.h"

#include "files/media_type.h"
#include "shared/utf8.h"


#define OCTETS  "application/octet-stream"


static const struct {
    const char  *name;
    const char  *head;
    size_t       n;             /* 0: strlen(head) */
    const char  *type;
} kinds[] = {
    { "a", "\x89PNG\r\n\x1a\n....", 0, "image/png" },
    { "a.csv", "\x89PNG\r\n\x1a\n", 0, "image/png" },
    { "a.png", "just text\n", 0, "text/plain" },
    { "a", "\xff\xd8\xff\xe0", 0, "image/jpeg" },
    { "a", "GIF89a", 0, "image/gif" },
    { "a", "GIF88a", 0, "text/plain" },
    { "a", "%PDF-1.7\n", 0, "application/pdf" },
    { "a", "PK\3\4\0\0", 6, "application/zip" },
    { "a", "\x1f\x8b\x08\0", 4, "application/gzip" },
    { "a", "\x1f\x8b\x07\0", 4, OCTETS },
    { "a", "", 0, "text/plain" },
    { "a", "a\0b", 3, OCTETS },
    { "a", "a\x1b[1m", 0, OCTETS },
    { "a", "caf\xe9", 0, "text/plain" },        /* may go on */
    { "a", "caf\xe9 x", 0, OCTETS },
    { "a", "caf\xc3\xa9", 0, "text/plain" },
    { "a", "{\"a\": 1}", 0, "application/json" },
    { "a", " \n[1, 2]", 0, "application/json" },
    { "a", "[null]", 0, "application/json" },
    { "a", "[]", 0, "application/json" },
    { "a", "[section]\nx=1\n", 0, "text/plain" },
    { "a", "{ x }", 0, "text/plain" },
    { "a", "[", 0, "text/plain" },
    { "t.CSV", "a,b\n", 0, "text/csv" },
    { ".csv", "a,b\n", 0, "text/plain" },
    { "a", "<!DOCTYPE html>\n", 0, "text/html" },
    { "a", "\n <HTML>", 0, "text/html" },
    { "a", "<svg xmlns='x'>", 0, "image/svg+xml" },
    { "a", "<?xml version='1.0'?>\n<svg>", 0, "image/svg+xml" },
    { "a", "<?xml version='1.0'?>\n<doc>", 0, "text/plain" },
};


static void
test_kinds(void **state)
{
    char         head[64];
    size_t       i, n;
    const char  *type;

    (void) state;

    for (i = 0; i < COUNT(kinds); i++) {
        n = kinds[i].n ? kinds[i].n : strlen(kinds[i].head);
        (void) memcpy(head, kinds[i].head, n);

        type = media_type_of(kinds[i].name, (unsigned char *) head, n);

        expect(strcmp(type, kinds[i].type) == 0, "row %zu: %s", i, type);
    }
}


static const struct {
    const char  *text;
    const char  *shown;
} names[] = {
    { "", "" },
    { "a b.txt", "a b.txt" },
    { "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
      "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80" },
    { "a\\b", "a\\\\b" },
    { "a\nb\x1b[2J\x7f", "a\\x0ab\\x1b[2J\\x7f" },
    { "\xc2\x9b" "2J", "\\xc2\\x9b2J" },
    { "\xff\xfe", "\\xff\\xfe" },
    { "\xc3", "\\xc3" },
    { "\xc3(", "\\xc3(" },
    { "\xe2\x82", "\\xe2\\x82" },
    { "\xe2\x82z", "\\xe2\\x82z" },
    { "\xed\xa0\x80", "\\xed\\xa0\\x80" },
    { "x\xe2\x80\xaetxt", "x\\xe2\\x80\\xaetxt" },
    { "x\xe2\x81\xa6y", "x\\xe2\\x81\\xa6y" },
    { "x\xe2\x80\x94y", "x\xe2\x80\x94y" },
};


static void
test_names(void **state)
{
    char    shown[128];
    size_t  i;

    (void) state;

    for (i = 0; i < COUNT(names); i++) {
        utf8_escape(names[i].text, shown, sizeof(shown));
        expect(strcmp(shown, names[i].shown) == 0, "row %zu: %s", i, shown);
    }

    /* cut between what it writes */

    utf8_escape("ab\n", shown, 6);
    assert_string_equal(shown, "ab");
    utf8_escape("ab\n", shown, 7);
    assert_string_equal(shown, "ab\\x0a");
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        PROMISE("a file's type is found from its content", test_kinds),
        PROMISE("a name is shown without what a terminal obeys", test_names),
    };

    return unit_run(tests);
}
