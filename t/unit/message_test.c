/*
 * A line of the control protocol: each operation has the keys of its table,
 * each key its type and size, and what is refused is refused with a sentence
 * that says what is wrong and nothing that the other side wrote.
 */

#include <stdbool.h>

#include "unit.h"

#include "parse/message.h"


#define ID    "0123456789abcdef0123456789abcdef"
#define HASH  ID ID


typedef struct {
    const char   *what;
    const char   *line;
    size_t        n;
    const char   *error;                /* a part of it; NULL: accepted */
} row_t;

#define X(what, line, error)  { what, line, sizeof(line) - 1, error }


static json_t *
parse(const char *line, size_t n, message_op_t *op,
    char err[MESSAGE_ERROR_MAX])
{
    json_t         *object;
    unsigned char  *exact;

    /* on the heap without a NUL, so that a sanitizer sees a read beyond */

    exact = malloc(n ? n : 1);
    memcpy(exact, line, n);
    memset(err, 0xff, MESSAGE_ERROR_MAX);

    object = message_parse(exact, n, op, err);

    free(exact);

    return object;
}


static void
check(const row_t *rows, size_t n)
{
    char           err[MESSAGE_ERROR_MAX];
    size_t         i;
    json_t        *object;
    message_op_t   op;

    for (i = 0; i < n; i++) {

        object = parse(rows[i].line, rows[i].n, &op, err);

        if (object) {
            expect(rows[i].error == NULL, "%s is accepted", rows[i].what);
            assert_string_equal(json_string_value(json_object_get(object,
                                                                  "op")),
                                message_op_name(op));
            json_decref(object);
            continue;
        }

        expect(memchr(err, '\0', sizeof(err)), "%s: no sentence",
               rows[i].what);
        expect(rows[i].error && strstr(err, rows[i].error), "%s: %s",
               rows[i].what, err);
    }
}


static void
test_accepted(void **state)
{
    static const row_t  rows[] = {
        X("open", "{\"v\":1,\"op\":\"open\",\"policy\":\"a\"}", NULL),
        X("open with everything", "{\"v\":1,\"op\":\"open\",\"policy\":\"a\","
          "\"external_id\":\"t-7\",\"label\":\"n\xc3\xa4her \xf0\x9f\x98\x80\""
          ",\"code_sha256\":\"" HASH "\",\"env\":{\"TZ\":\"UTC\"}}", NULL),
        X("open without a version", "{\"op\":\"open\",\"policy\":\"a\"}",
          NULL),
        X("open with any version", "{\"v\":[],\"op\":\"open\",\"policy\":"
          "\"a\"}", NULL),
        X("serve", "{\"op\":\"serve\"}", NULL),
        X("resume", "{\"v\":1,\"op\":\"resume\",\"task_id\":\"" ID "\","
          "\"lease\":\"1.2.3\"}", NULL),
        X("near_limit", "{\"op\":\"near_limit\",\"limit\":\"memory\","
          "\"used\":9007199254740993}", NULL),
        X("close", "{\"op\":\"close\",\"reason\":\"ok\"}", NULL),
        X("close with everything", "{\"op\":\"close\",\"reason\":"
          "\"disk_full\",\"exit_code\":3,\"usage\":{\"wall_ms\":1}}", NULL),
        X("close without an exit code", "{\"op\":\"close\",\"reason\":\"ok\""
          ",\"exit_code\":null}", NULL),
        X("policy", "{\"v\":1,\"op\":\"policy\",\"policy\":\"a\"}", NULL),
        X("with spaces", " { \"op\" : \"serve\" } ", NULL),
    };

    (void) state;

    check(rows, COUNT(rows));
}


static void
test_not_an_object(void **state)
{
    static const row_t  rows[] = {
        X("nothing", "", "not one JSON object"),
        X("a list", "[]", "not one JSON object"),
        X("a string", "\"serve\"", "not one JSON object"),
        X("a number", "1", "not one JSON object"),
        X("null", "null", "not one JSON object"),
        X("half an object", "{\"op\":\"serve\"", "not one JSON object"),
        X("two", "{\"op\":\"serve\"}{\"op\":\"serve\"}",
          "not one JSON object"),
        X("something behind it", "{\"op\":\"serve\"} x",
          "not one JSON object"),
        X("a NUL behind it", "{\"op\":\"serve\"}\0", "not one JSON object"),
        X("a NUL behind a number", "{\"op\":\"near_limit\",\"limit\":\"x\","
          "\"used\":1\0}", "not one JSON object"),
        X("a NUL in a string", "{\"op\":\"serve\0\"}", "not one JSON object"),
        X("an escaped NUL", "{\"op\":\"serve\\u0000\"}",
          "not one JSON object"),
        X("a key twice", "{\"op\":\"serve\",\"op\":\"serve\"}",
          "not one JSON object"),
        X("broken UTF-8", "{\"op\":\"open\",\"policy\":\"\xff\"}",
          "not one JSON object"),
        X("UTF-8 of a surrogate", "{\"op\":\"open\",\"policy\":"
          "\"\xed\xa0\x80\"}", "not one JSON object"),
        X("an overlong form", "{\"op\":\"open\",\"policy\":\"\xc0\xaf\"}",
          "not one JSON object"),
        X("a number out of range", "{\"op\":\"near_limit\",\"limit\":\"x\","
          "\"used\":99999999999999999999}", "not one JSON object"),
        X("a comment", "{\"op\":\"serve\"} // x", "not one JSON object"),
        X("no op", "{}", "unknown \"op\""),
        X("another op", "{\"op\":\"drain\"}", "unknown \"op\""),
        X("an op in capitals", "{\"op\":\"SERVE\"}", "unknown \"op\""),
        X("an op that is a number", "{\"op\":1}", "unknown \"op\""),
        X("an op that is a list", "{\"op\":[\"serve\"]}", "unknown \"op\""),
        X("an empty op", "{\"op\":\"\"}", "unknown \"op\""),
    };

    (void) state;

    check(rows, COUNT(rows));
}


/* Every op with every key of the others, and each of its own left out. */

static void
test_keys(void **state)
{
    bool           has, may;
    char           err[MESSAGE_ERROR_MAX], line[1024];
    char           spaced[32], quoted[32];
    size_t         i, k;
    json_t        *object;
    message_op_t   op;

    static const struct {
        message_op_t  op;
        const char   *required;         /* the op itself stands before it */
        const char   *keys;             /* that it may have */
    } rows[] = {
        { MESSAGE_OPEN, ",\"policy\":\"a\"",
          " v policy external_id label code_sha256 env " },
        { MESSAGE_SERVE, "", " " },
        { MESSAGE_RESUME, ",\"task_id\":\"" ID "\",\"lease\":\"x\"",
          " v task_id lease " },
        { MESSAGE_NEAR_LIMIT, ",\"limit\":\"x\",\"used\":1",
          " limit used " },
        { MESSAGE_CLOSE, ",\"reason\":\"ok\"",
          " reason exit_code usage " },
        { MESSAGE_POLICY, ",\"policy\":\"a\"", " v policy " },
        { MESSAGE_ASK, ",\"policy\":\"a\",\"method\":\"a\",\"url\":\"a\"",
          " v policy method url " },
        { MESSAGE_HEALTH, "", " v " },
    };

    static const struct {
        const char  *name;
        const char  *value;
    } keys[] = {
        { "v", "1" }, { "policy", "\"a\"" }, { "external_id", "\"a\"" },
        { "label", "\"a\"" }, { "code_sha256", "\"" HASH "\"" },
        { "env", "{}" }, { "task_id", "\"" ID "\"" }, { "lease", "\"x\"" },
        { "limit", "\"x\"" }, { "used", "1" }, { "reason", "\"ok\"" },
        { "method", "\"a\"" }, { "url", "\"a\"" },
        { "exit_code", "1" }, { "usage", "{}" }, { "task", "\"x\"" },
        { "", "1" }, { "Policy", "\"a\"" }, { "v ", "1" }, { "ok", "true" },
    };

    (void) state;

    assert_int_equal(COUNT(rows), MESSAGE_OPS);

    for (i = 0; i < COUNT(rows); i++) {
        for (k = 0; k < COUNT(keys); k++) {

            (void) snprintf(spaced, sizeof(spaced), " %s ", keys[k].name);
            (void) snprintf(quoted, sizeof(quoted), "\"%s\":",
                            keys[k].name);
            has = strstr(rows[i].required, quoted) != NULL;
            may = *keys[k].name && keys[k].name[1] != ' '
                  && strstr(rows[i].keys, spaced);

            (void) snprintf(line, sizeof(line), "{\"op\":\"%s\"%s%s%s%s}",
                            message_op_name(rows[i].op), rows[i].required,
                            has ? "" : ",", has ? "" : quoted,
                            has ? "" : keys[k].value);

            object = parse(line, strlen(line), &op, err);

            expect((object != NULL) == may, "%s is %s", line,
                   object ? "accepted" : err);
            expect(object || strstr(err, "unknown key"), "%s: %s", line,
                   err);
            expect(object == NULL || op == rows[i].op, "%s is another op",
                   line);
            json_decref(object);
        }

        (void) snprintf(line, sizeof(line), "{\"op\":\"%s\"}",
                        message_op_name(rows[i].op));
        object = parse(line, strlen(line), &op, err);
        expect((object != NULL) == (rows[i].required[0] == '\0'),
               "%s is %s", line, object ? "accepted" : err);
        expect(object || strstr(err, "is missing"), "%s: %s", line, err);
        json_decref(object);
    }
}


static void
test_types(void **state)
{
    static const row_t  rows[] = {
        X("a policy that is a number", "{\"op\":\"open\",\"policy\":1}",
          "\"policy\" must be a short text"),
        X("a policy that is null", "{\"op\":\"open\",\"policy\":null}",
          "\"policy\" must be a short text"),
        X("a label with a newline", "{\"op\":\"open\",\"policy\":\"a\","
          "\"label\":\"a\\nb\"}", "\"label\" must be a short text"),
        X("a label with an escape", "{\"op\":\"open\",\"policy\":\"a\","
          "\"label\":\"\\u001b[1m\"}", "\"label\" must be a short text"),
        X("a label with DEL", "{\"op\":\"open\",\"policy\":\"a\","
          "\"label\":\"\x7f\"}", "\"label\" must be a short text"),
        X("a label with C1", "{\"op\":\"open\",\"policy\":\"a\","
          "\"label\":\"\xc2\x9b\"}", "\"label\" must be a short text"),
        X("a label with C1, escaped", "{\"op\":\"open\",\"policy\":\"a\","
          "\"label\":\"\\u0085\"}", "\"label\" must be a short text"),
        X("a label with the first that is none", "{\"op\":\"open\","
          "\"policy\":\"a\",\"label\":\"\xc2\xa0\"}", NULL),
        X("a hash in capitals", "{\"op\":\"open\",\"policy\":\"a\","
          "\"code_sha256\":\"ABCDEF6789abcdef0123456789abcdef" ID "\"}",
          "\"code_sha256\" must be small hex digits"),
        X("a short hash", "{\"op\":\"open\",\"policy\":\"a\","
          "\"code_sha256\":\"" ID "\"}", "must be small hex digits"),
        X("a long hash", "{\"op\":\"open\",\"policy\":\"a\","
          "\"code_sha256\":\"" HASH "0\"}", "must be small hex digits"),
        X("an env that is a list", "{\"op\":\"open\",\"policy\":\"a\","
          "\"env\":[]}", "\"env\" must be an object"),
        X("an id that is none", "{\"op\":\"resume\",\"task_id\":\"x\","
          "\"lease\":\"x\"}", "\"task_id\" must be small hex digits"),
        X("a lease that is a number", "{\"op\":\"resume\",\"task_id\":\"" ID
          "\",\"lease\":7}", "\"lease\" must be a short text"),
        X("a real for a number", "{\"op\":\"near_limit\",\"limit\":\"x\","
          "\"used\":1.5}", "\"used\" must be a whole number"),
        X("a real that is whole", "{\"op\":\"near_limit\",\"limit\":\"x\","
          "\"used\":1.0}", "\"used\" must be a whole number"),
        X("a number in a string", "{\"op\":\"near_limit\",\"limit\":\"x\","
          "\"used\":\"1\"}", "\"used\" must be a whole number"),
        X("null for a number", "{\"op\":\"near_limit\",\"limit\":\"x\","
          "\"used\":null}", "\"used\" must be a whole number"),
        X("a reason of two words", "{\"op\":\"close\",\"reason\":\"a b\"}",
          "\"reason\" must be a word"),
        X("an empty reason", "{\"op\":\"close\",\"reason\":\"\"}",
          "\"reason\" must be a word"),
        X("a reason in capitals", "{\"op\":\"close\",\"reason\":\"OK\"}",
          "\"reason\" must be a word"),
        X("a reason with a newline", "{\"op\":\"close\",\"reason\":\"ok\\n"
          "\"}", "\"reason\" must be a word"),
        X("an exit code that is a string", "{\"op\":\"close\",\"reason\":"
          "\"ok\",\"exit_code\":\"0\"}",
          "\"exit_code\" must be a whole number or null"),
        X("a usage that is null", "{\"op\":\"close\",\"reason\":\"ok\","
          "\"usage\":null}", "\"usage\" must be an object"),
    };

    (void) state;

    check(rows, COUNT(rows));
}


/* Texts of their size are taken, of one byte more are not. */

static void
test_sizes(void **state)
{
    char           err[MESSAGE_ERROR_MAX], line[2048], text[1024];
    size_t         i, n;
    json_t        *object;
    message_op_t   op;

    static const struct {
        const char  *before;
        const char  *after;
        char         fill;
        size_t       max;
    } rows[] = {
        { "{\"op\":\"open\",\"policy\":\"", "\"}", 'a', 255 },
        { "{\"op\":\"policy\",\"policy\":\"", "\"}", 'a', 255 },
        { "{\"op\":\"open\",\"policy\":\"a\",\"external_id\":\"", "\"}", 'x',
          128 },
        { "{\"op\":\"open\",\"policy\":\"a\",\"label\":\"", "\"}", ' ', 128 },
        { "{\"op\":\"resume\",\"task_id\":\"" ID "\",\"lease\":\"", "\"}",
          '.', 511 },
        { "{\"op\":\"near_limit\",\"used\":1,\"limit\":\"", "\"}", '_', 32 },
        { "{\"op\":\"close\",\"reason\":\"", "\"}", 'z', 32 },
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {
        for (n = rows[i].max; n <= rows[i].max + 1; n++) {

            memset(text, rows[i].fill, n);
            text[n] = '\0';
            (void) snprintf(line, sizeof(line), "%s%s%s", rows[i].before,
                            text, rows[i].after);

            object = parse(line, strlen(line), &op, err);

            expect((object != NULL) == (n == rows[i].max),
                   "%zu bytes in %s...: %s", n, rows[i].before,
                   object ? "accepted" : err);
            json_decref(object);
        }
    }
}


static void
test_truncated(void **state)
{
    char           err[MESSAGE_ERROR_MAX];
    size_t         n;
    message_op_t   op;

    static const char  line[] = "{\"v\":1,\"op\":\"open\",\"policy\":\"a\","
                                "\"label\":\"n\xc3\xa4her\",\"env\":{\"TZ\":"
                                "\"UTC\"}}";

    (void) state;

    for (n = 0; n < sizeof(line) - 1; n++) {
        expect(parse(line, n, &op, err) == NULL, "%zu bytes are accepted", n);
    }
}


/* Deep and wide ones cost neither the stack nor a sentence. */

static void
test_large(void **state)
{
    char          *line, err[MESSAGE_ERROR_MAX];
    size_t         i, n;
    message_op_t   op;

    (void) state;

    n = 65536;
    line = malloc(n);

    memset(line, '[', n);
    assert_null(parse(line, n, &op, err));
    memset(line, '{', n);
    assert_null(parse(line, n, &op, err));
    memset(line, '9', n);
    assert_null(parse(line, n, &op, err));

    n = (size_t) sprintf(line, "{\"op\":\"serve\"");

    for (i = 0; n < 65000; i++) {
        n += (size_t) sprintf(line + n, ",\"k%zu\":1", i);
    }

    line[n++] = '}';
    assert_null(parse(line, n, &op, err));
    assert_string_equal(err, "unknown key in \"serve\"");

    free(line);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        PROMISE("each operation is understood", test_accepted),
        PROMISE("a line is one JSON object with a known op",
                test_not_an_object),
        PROMISE("A-078 an operation has its own keys and no others",
                test_keys),
        PROMISE("A-078 a value of another type than its key's is refused",
                test_types),
        PROMISE("A-078 a text longer than its key allows is refused",
                test_sizes),
        PROMISE("a line that is cut is not taken for a whole one",
                test_truncated),
        PROMISE("a large line is refused like any other", test_large),
    };

    return unit_run(tests);
}
