/*
 * Loading the text of policies: one that was damaged, cut or invented loads as
 * nothing, with a reason that is fit for a log.
 */

#include <jansson.h>

#include "policy_full.h"


/* The text with the first `was` behind `from` replaced; malloc'd. */

static char *
replaced(const char *text, const char *from, const char *was,
    const char *now)
{
    char        *copy;
    const char  *at;

    at = strstr(text, from);
    assert_non_null(at);
    at = strstr(at, was);
    assert_non_null(at);

    copy = malloc(strlen(text) + strlen(now) + 1);
    (void) sprintf(copy, "%.*s%s%s", (int) (at - text), text, now,
                   at + strlen(was));

    return copy;
}


/* A text without one of its keys, or with another value, does not load. */

static void
expect_no_load(const char *text, size_t n, const char *what)
{
    char          *exact;
    size_t         i;
    policy_set_t  *set;

    exact = malloc(n ? n : 1);
    memcpy(exact, text, n);
    (void) strcpy(err, "");

    set = policy_set_load(exact, n, err);
    free(exact);

    expect(set == NULL, "%s loads", what);
    expect(err[0] != '\0', "%s: no reason is given", what);

    for (i = 0; err[i]; i++) {
        expect((unsigned char) err[i] >= 0x20, "%s: the reason has a control "
               "byte", what);
    }
}


static void
walk(json_t *root, json_t *node, const char *where)
{
    char          *text;
    json_t        *value;
    size_t         i, k, count;
    const char    *key;

    char           keys[32][80];

    if (json_is_array(node)) {
        for (i = 0; i < json_array_size(node); i++) {
            walk(root, json_array_get(node, i), where);
        }

        return;
    }

    if (!json_is_object(node)) {
        return;
    }

    /* an unknown key */

    (void) json_object_set_new(node, "unknown", json_true());
    text = json_dumps(root, JSON_COMPACT);
    expect_no_load(text, strlen(text), where);
    free(text);
    (void) json_object_del(node, "unknown");

    count = 0;

    json_object_foreach(node, key, value) {
        assert_true(count < COUNT(keys));
        (void) snprintf(keys[count++], sizeof(keys[0]), "%s", key);
    }

    for (k = 0; k < count; k++) {

        json_t       *others[5];
        char          name[256];

        key = keys[k];
        value = json_object_get(node, key);

        (void) snprintf(name, sizeof(name), "%s with another type of %s",
                        where, key);

        json_incref(value);

        others[0] = json_integer(-1);
        others[1] = json_string("\n{}\"");
        others[2] = json_array();
        others[3] = json_object();
        others[4] = json_real(1e300);

        for (i = 0; i < 5; i++) {

            /* an empty list or object may be a value like any other */

            if (json_typeof(others[i]) == json_typeof(value)
                && (i == 2 || i == 3))
            {
                continue;
            }

            (void) json_object_set(node, key, others[i]);
            text = json_dumps(root, JSON_COMPACT);
            expect_no_load(text, strlen(text), name);
            free(text);
        }

        for (i = 0; i < 5; i++) {
            json_decref(others[i]);
        }

        (void) snprintf(name, sizeof(name), "%s without %s", where, key);

        (void) json_object_del(node, key);
        text = json_dumps(root, JSON_COMPACT);
        expect_no_load(text, strlen(text), name);
        free(text);

        (void) json_object_set(node, key, value);
        walk(root, value, key);
        json_decref(value);
    }
}


static void
test_damaged(void **state)
{
    char          *text, *copy;
    size_t         n, i;
    json_t        *root;
    policy_set_t  *set;

    static const char *const  texts[] = {
        "", " ", "{}", "[]", "null", "1", "\"x\"", "{", "{\"v\":1}",
        "{\"v\":2,\"generation\":0,\"trusted\":null,\"certificates\":{},"
            "\"policies\":[]}",
        "{\"v\":1,\"generation\":-1,\"trusted\":null,\"certificates\":{},"
            "\"policies\":[]}",
        "{\"v\":1,\"generation\":0,\"trusted\":\"sha256:0\","
            "\"certificates\":{},\"policies\":[]}",
        "{\"v\":1,\"generation\":0,\"trusted\":null,"
            "\"certificates\":{\"sha256:0\":\"-----BEGIN \"},"
            "\"policies\":[]}",
        "{\"v\":1,\"v\":1,\"generation\":0,\"trusted\":null,"
            "\"certificates\":{},\"policies\":[]}",
        "{\"v\":1,\"generation\":0,\"trusted\":null,\"certificates\":{},"
            "\"policies\":[]}x",
        "{\"v\":1,\"generation\":99999999999999999999,\"trusted\":null,"
            "\"certificates\":{},\"policies\":[]}",
    };

    static const char  good[] =
        "{\"v\":1,\"generation\":0,\"trusted\":null,\"certificates\":{},"
        "\"policies\":[]}";

    (void) state;

    set = policy_set_load(good, sizeof(good) - 1, err);
    expect(set != NULL, "the good text: %s", err);
    policy_set_free(set);

    for (i = 0; i < COUNT(texts); i++) {
        expect_no_load(texts[i], strlen(texts[i]), texts[i]);
    }

    set = full_set(false);
    text = dump(set);
    policy_set_free(set);
    n = strlen(text);

    for (i = 0; i < n; i++) {
        expect_no_load(text, i, "a text that was cut");
    }

    /* a NUL, or a byte that is no UTF-8, anywhere */

    copy = malloc(n);

    for (i = 0; i < n; i += 5) {
        memcpy(copy, text, n);
        copy[i] = '\0';
        expect_no_load(copy, n, "a text with a NUL");
        copy[i] = (char) 0xff;
        expect_no_load(copy, n, "a text with a byte ff");
    }

    free(copy);

    /* written by another writer it loads, changed in one place it does not */

    root = json_loads(text, 0, NULL);
    copy = json_dumps(root, JSON_COMPACT);
    set = policy_set_load(copy, strlen(copy), err);
    expect(set != NULL, "another writer's text: %s", err);
    policy_set_free(set);
    free(copy);

    walk(root, root, "the set");
    json_decref(root);

    /* deeper than any parser should follow */

    copy = malloc(200000);
    memset(copy, '[', 200000);
    expect_no_load(copy, 200000, "200000 brackets");
    free(copy);
    free(text);
}


static void
test_replaced(void **state)
{
    char          *text, *copy, *at;
    size_t         i;
    policy_set_t  *set;

    static const struct {
        const char  *from;
        const char  *was;
        const char  *now;
        bool         loads;
    } rows[] = {
        { "\"hint\"", "use ", "USE ", true },
        { "\"hint\"", "use ", "\\u0055se ", false },
        { "\"hint\"", "use ", "u\\u0000se ", false },
        { "\"hint\"", "use ", "u\\u0080se ", false },
        { "\"hint\"", "use ", "u\\u20acse ", false },
        { "\"hint\"", "use ", "u\\xse ", false },
        { "\"hint\"", "use ", "u\\/se ", false },
        { "\"hint\"", "use ", "u\\", false },

        { "\"rules\"", "\"trusted\":null", "\"trusted\":\"sha256:0\"",
          false },

        { "\"generation\"", ":7", ":8", true },
        { "\"generation\"", ":7", ":07", false },
        { "\"generation\"", ":7", ": 7", false },
        { "\"generation\"", ":7", ":18446744073709551615", true },
        { "\"generation\"", ":7", ":18446744073709551616", false },
        { "\"cpu\"", ":1.25", ":1.5", true },
        { "\"cpu\"", ":1.25", ":1.2345", false },
        { "\"pids\"", ":256", ":1", false },
        { "\"uids\"", ":[9", ":[4294967294", true },
        { "\"uids\"", ":[9", ":[4294967295", false },
        { "\"ports\"", "80,443", "80", true },
        { "\"ports\"", "80,443", "443,80", false },
        { "\"ports\"", "80,443", "0", false },
        { "\"ports\"", "80,443", "65536", false },
        { "\"10.1.2.3\"", "10.1.2.3", "8.8.8.8", false },
        { "\"10.1.2.3\"", "10.1.2.3", "11.1.2.3:80", false },
        { "\"2001:db8::1\"", "2001:db8::1", "2001:db8::2", true },
        { "\"2001:db8::1\"", "2001:db8::1", "[2001:db8::1]", false },
        { "\"2001:db8::1\"", "2001:db8::1", "2001:db8::0:1", false },
        { "\"*.packages", "*.packages.example", "*.com", false },
        { "\"*.packages", "*.packages.example", "API.internal", false },
        { "\"methods\"", "[\"GET\",\"HEAD\"]", "[]", false },
        { "\"methods\"", "[\"GET\",\"HEAD\"]", "[\"GET\",]", false },
        { "\"methods\"", "[\"GET\",\"HEAD\"]", "[\"GET\"\"HEAD\"]", false },
        { "\"kind\"", "bearer", "basic", true },
        { "\"kind\"", "bearer", "header", false },
        { "\"kind\"", "bearer", "token", false },
        { "\"kind\"", "bearer\",\"field\":null",
          "header\",\"field\":\"X-Key\"", true },
        { "\"kind\"", "bearer\",\"field\":null",
          "header\",\"field\":\"Cookie\"", false },
        { "\"kind\"", "bearer\",\"field\":null",
          "query\",\"field\":\"api key\"", false },
        { "\"credential_scope\"", "exact", "wildcard", false },
        { "\"credential_scope\"", "exact", "all", false },
        { "\"client_credentials\"", "strip", "passed", false },
        { "\"isolation\"", "namespaces", "gvisor", true },
        { "\"isolation\"", "namespaces", "none", false },
        { "\"bounds\"", "\"connections\":7", "\"connections\":65535",
          true },
        { "\"bounds\"", "\"connections\":7", "\"connections\":65536",
          false },
        { "\"bounds\"", "\"connections\":7", "\"connections\":0", false },
        { "\"bounds\"", "\"connections\":7", "\"connections\":-7", false },
        { "\"bounds\"", "\"connections\":7", "\"connections\":\"7\"",
          false },
        { "\"bounds\"", "\"bytes_up\":1048576", "\"bytes_up\":\"1m\"",
          false },
        { "\"websocket\":true", "true", "false", true },
        { "\"websocket\":true", "true", "1", false },
        { "\"websocket\":true", "true", "null", false },
        { "\"websocket\":true", "true", "truefalse", false },
        { "\"reuse_after_body\":true", "true", "false", true },
        { "\"reuse_after_body\":true", "true", "1", false },
        { "\"tunnel\":true", "true", "false", true },
        { "\"tunnel\":true", "true", "\"on\"", false },
        { "\"*.packages", "\"tunnel\":false", "\"tunnel\":true", false },
        { "\"api_internal\"", "\"tunnel\":false", "\"tunnel\":true",
          false },
    };

    (void) state;

    set = full_set(false);
    text = dump(set);
    policy_set_free(set);

    for (i = 0; i < COUNT(rows); i++) {

        copy = replaced(text, rows[i].from, rows[i].was, rows[i].now);
        set = policy_set_load(copy, strlen(copy), err);

        expect((set != NULL) == rows[i].loads, "row %zu, %s instead of %s: %s",
               i, rows[i].now, rows[i].was, set ? "loads" : err);

        policy_set_free(set);
        free(copy);
    }

    free(text);

    /* certificates that only the policy names are not its set's */

    set = full_set(false);
    free(set->trusted_pem);
    set->trusted_pem = strdup(PEM2);
    text = dump(set);
    policy_set_free(set);

    copy = strdup(text);
    at = strstr(strstr(copy, "\"launchers\""), "\"trusted\":\"");
    (void) memmove(at + 14, at + 10 + 2 + POLICY_HASH_LEN,
                   strlen(at + 10 + 2 + POLICY_HASH_LEN) + 1);
    (void) memcpy(at + 10, "null", 4);

    assert_non_null(strstr(copy, "\"trusted\":null,\"rules\""));
    assert_null(policy_set_load(copy, strlen(copy), err));
    assert_non_null(strstr(err, "trusts others"));

    free(copy);
    free(text);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        PROMISE("a text that was cut, changed or invented does not load",
                test_damaged),
        PROMISE("a text with one value replaced loads if that value may be",
                test_replaced),
    };

    return unit_run(tests);
}
