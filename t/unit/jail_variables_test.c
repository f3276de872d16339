/* The variables that a caller sets: what is taken, what is refused. */

#include "unit.h"

#include "env/variables.h"


#define SECRET  "s3cr3t-marker"


static const struct {
    const char  *text;
    const char  *where;         /* of the fault's message; NULL: none */
    unsigned     n;
    const char  *last;          /* the last pair */
} files[] = {
    { "", NULL, 0, NULL },
    { "A=1\n", NULL, 1, "A=1" },
    { "A=1", NULL, 1, "A=1" },
    { "# A=1\n\nB_2=x y  \n", NULL, 1, "B_2=x y  " },
    { "A=\n", NULL, 1, "A=" },
    { "A=\"q\" # no comment\n", NULL, 1, "A=\"q\" # no comment" },
    { "A=b=c\n", NULL, 1, "A=b=c" },
    { "A=1\nB=2\nC=3\n", NULL, 3, "C=3" },
    { "A=\xc3\xa9\n", NULL, 1, "A=\xc3\xa9" },

    { "A=1\n" SECRET "\n", "f:2", 0, NULL },
    { "=" SECRET "\n", "f:1", 0, NULL },
    { "export A=" SECRET "\n", "f:1", 0, NULL },
    { "A =" SECRET "\n", "f:1", 0, NULL },
    { " A=" SECRET "\n", "f:1", 0, NULL },
    { "1A=" SECRET "\n", "f:1", 0, NULL },
    { "A-B=" SECRET "\n", "f:1", 0, NULL },
    { "\n\nA=" SECRET "\r\n", "f:3", 0, NULL },
    { "A=1\n#\nA=" SECRET "\n", "f:3", 0, NULL },
    { "A=" SECRET "\xff\n", "f:1", 0, NULL },
    { "A=" SECRET "\xc3\n", "f:1", 0, NULL },
};


static void
test_files(void **state)
{
    char         text[256];
    size_t       i;
    fault_t      fault;
    variables_t  v;

    (void) state;

    for (i = 0; i < COUNT(files); i++) {
        v = (variables_t) { 0 };
        fault = (fault_t) { 0 };
        (void) strcpy(text, files[i].text);

        (void) variables_parse(&v, text, strlen(text), "f", &fault);

        expect((fault.stage != STAGE_NONE) == (files[i].where != NULL),
               "row %zu: %s", i, fault.message);
        expect(strstr(fault.message, SECRET) == NULL,
               "row %zu: a value in \"%s\"", i, fault.message);

        if (files[i].where) {
            expect(strstr(fault.message, files[i].where) != NULL,
                   "row %zu: no %s in \"%s\"", i, files[i].where,
                   fault.message);

        } else {
            assert_int_equal(v.n, files[i].n);
            expect(v.n == 0 || strcmp(v.pairs[v.n - 1], files[i].last) == 0,
                   "row %zu: %s", i, v.n ? v.pairs[v.n - 1] : "");
        }

        variables_free(&v);
    }
}


static void
test_nul(void **state)
{
    char         text[] = "A=1\nB=2\0" "3\n";
    fault_t      fault;
    variables_t  v;

    (void) state;

    v = (variables_t) { 0 };
    fault = (fault_t) { 0 };

    assert_int_equal(variables_parse(&v, text, sizeof(text) - 1, "f",
                                     &fault), -1);
    assert_non_null(strstr(fault.message, "f:2"));

    variables_free(&v);
}


static void
test_bounds(void **state)
{
    char         pair[VARIABLES_NAME_MAX + VARIABLES_VALUE_MAX + 8];
    size_t       i;
    fault_t      fault;
    variables_t  v;

    (void) state;

    v = (variables_t) { 0 };
    fault = (fault_t) { 0 };

    for (i = 0; i < VARIABLES_MAX; i++) {
        (void) sprintf(pair, "N%zu=%zu", i, i);
        assert_int_equal(variables_add(&v, pair, &fault), 0);
    }

    assert_int_equal(variables_add(&v, "ONE_MORE=1", &fault), -1);
    variables_free(&v);

    fault = (fault_t) { 0 };
    (void) memset(pair, 'a', sizeof(pair));
    pair[VARIABLES_NAME_MAX] = '=';
    pair[VARIABLES_NAME_MAX + 1 + VARIABLES_VALUE_MAX] = '\0';
    assert_int_equal(variables_add(&v, pair, &fault), 0);

    pair[VARIABLES_NAME_MAX - 1] = 'b';
    pair[VARIABLES_NAME_MAX + 1 + VARIABLES_VALUE_MAX] = 'a';
    pair[VARIABLES_NAME_MAX + 2 + VARIABLES_VALUE_MAX] = '\0';
    assert_int_equal(variables_add(&v, pair, &fault), -1);

    variables_free(&v);
}


static void
test_list(void **state)
{
    size_t       len;
    fault_t      fault;
    variables_t  v;
    const char  *name;

    static const char *const  list[] = { "LANG", "TZ" };

    (void) state;

    v = (variables_t) { 0 };
    fault = (fault_t) { 0 };

    assert_int_equal(variables_add(&v, "TZ=UTC", &fault), 0);
    assert_null(variables_unlisted(&v, list, 2, &len));
    assert_non_null(variables_unlisted(&v, list, 1, &len));

    assert_int_equal(variables_add(&v, "TZX=1", &fault), 0);
    name = variables_unlisted(&v, list, 2, &len);
    assert_non_null(name);
    assert_int_equal(len, 3);
    assert_memory_equal(name, "TZX", 3);

    variables_free(&v);
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        PROMISE("a file of variables is read strictly, and no message has a "
                "value in it", test_files),
        PROMISE("a NUL byte is refused with its line", test_nul),
        PROMISE("names, values and their number are bounded", test_bounds),
        PROMISE("a name that the policy does not list is reported", test_list),
    };

    return unit_run(tests);
}
