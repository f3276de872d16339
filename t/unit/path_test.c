/*
 * The canonical form of a path, and the patterns of a rule: two spellings that
 * a server takes for one path are judged alike, and what servers read in
 * different ways is refused.
 */

#include "unit.h"

#include "parse/path.h"
#include "policy/policy.h"
#include "policy/policy_path.h"


static char  err[POLICY_ERROR_MAX];


/* On the heap without a NUL, so that a sanitizer sees a read beyond. */

static const char *
canonical(const char *path, size_t n, char *out, size_t *len)
{
    const char     *why;
    unsigned char  *exact;

    exact = malloc(n ? n : 1);
    memcpy(exact, path, n);

    why = path_canonical(exact, n, out, len);

    free(exact);

    return why;
}


static void
one_spelling(void **state)
{
    char         out[256], again[256];
    size_t       i, len, len_again;
    const char  *why;

    static const char *const  rows[][2] = {
        { "/", "/" },
        { "/v1/", "/v1/" },
        { "/v1", "/v1" },
        { "/a/b/c", "/a/b/c" },
        { "/%61dmin", "/admin" },
        { "/%41-%5f%7e%2d%39", "/A-_~-9" },
        { "/a%20b", "/a%20b" },
        { "/a%2cb,%3A:", "/a%2Cb,%3A:" },
        { "/%c3%bc", "/%C3%BC" },
        { "/%f0%9f%98%80", "/%F0%9F%98%80" },
        { "/...", "/..." },
        { "/.hidden", "/.hidden" },
        { "/a..b/..c/d..", "/a..b/..c/d.." },
        { "/a.", "/a." },
        { "/%3f%23", "/%3F%23" },
        { "/a=b&c+d!$'()*@:", "/a=b&c+d!$'()*@:" },
    };

    for (i = 0; i < COUNT(rows); i++) {

        why = canonical(rows[i][0], strlen(rows[i][0]), out, &len);

        expect(why == NULL, "%s: %s", rows[i][0], why);
        expect(len == strlen(rows[i][1]) && memcmp(out, rows[i][1], len) == 0,
               "%s: got %.*s", rows[i][0], (int) len, out);

        /* the form of the form is itself */

        why = canonical(out, len, again, &len_again);

        expect(why == NULL && len == len_again
               && memcmp(out, again, len) == 0, "%s: not stable", rows[i][0]);
    }
}


static void
no_form(void **state)
{
    char    out[256];
    size_t  i, len;

    static const char *const  rows[] = {
        "", "v1/", "*", "%2F", "//", "//v1", "/v1//", "/v1//x", "/.", "/..",
        "/./", "/../", "/v1/.", "/v1/..", "/v1/./x", "/v1/../admin",
        "/%2e", "/%2E%2e/", "/.%2e/", "/%2e./x", "/a%2eb", "/v1%2f", "/v1%2Fx",
        "/%5c", "/%5Cx", "/\\", "/a\\b", "/;", "/a;b=c", "/a;/../b", "/%3b",
        "/a%3Bb", "/%25", "/%252e", "/%2525", "/%", "/%2", "/%zz", "/%g0",
        "/%0g", "/a%", "/a%6", "/%00", "/a%00.png", "/%0d%0a", "/%1f", "/%7f",
        "/%c0%af", "/%c0%ae%c0%ae/", "/%e0%80%af", "/%f0%80%80%af", "/%ff",
        "/%80", "/%c3", "/%c3/", "/%c3a", "/%ed%a0%80", "/%f4%90%80%80",
        "/\xc3\xbc", "/a b", "/a\tb", "/a\x7f", "/%u002e", "/%u2215",
    };

    for (i = 0; i < COUNT(rows); i++) {
        expect(canonical(rows[i], strlen(rows[i]), out, &len) != NULL,
               "\"%s\" has the form %.*s", rows[i], (int) len, out);
    }

    assert_non_null(canonical("/a\0b", 4, out, &len));
}


static void
longest(void **state)
{
    char    text[PATH_MAX_LEN + 1], out[PATH_MAX_LEN + 1];
    size_t  len;

    memset(text, 'a', sizeof(text));
    text[0] = '/';

    assert_null(canonical(text, PATH_MAX_LEN, out, &len));
    assert_int_equal(len, PATH_MAX_LEN);
    assert_non_null(canonical(text, PATH_MAX_LEN + 1, out, &len));
}


static policy_rule_t *
rule_with(policy_set_t **set, const char *const *patterns, size_t n)
{
    size_t          i;
    policy_t       *policy;
    policy_rule_t  *rule;

    *set = policy_set_new();
    policy = policy_set_add(*set, "p", err);
    rule = policy_add_rule(policy, "api.internal", err);

    for (i = 0; i < n; i++) {
        expect(policy_rule_add_path(rule, patterns[i], err) == 0, "%s", err);
    }

    return rule;
}


static const char *
refused(const policy_rule_t *rule, const char *path)
{
    return policy_rule_refuses_path(rule, (const unsigned char *) path,
                                    strlen(path));
}


static void
patterns_are_alternatives(void **state)
{
    size_t          i;
    policy_set_t   *set;
    policy_rule_t  *rule;

    static const char *const  patterns[] = { "^/v1/", "^/v2/[^/]+$",
                                             "^/a(?=b)" };
    static const char *const  good[] = {
        "/v1/", "/v1/x/y", "/%76%31/", "/v2/x", "/ab", "/v2/%C3%bc"
    };
    static const char *const  bad[] = {
        "/", "/v1", "/V1/", "/v2/", "/v2/x/y", "/x/v1/", "/a", "/ac",
        "/v1/../x", "/v1/%2e%2e/x", "/v1//x", "/v1/x;y", "/v1%2f", "x/v1/"
    };

    rule = rule_with(&set, patterns, COUNT(patterns));

    for (i = 0; i < COUNT(good); i++) {
        expect(refused(rule, good[i]) == NULL, "%s: %s", good[i],
               refused(rule, good[i]));
    }

    for (i = 0; i < COUNT(bad); i++) {
        expect(refused(rule, bad[i]) != NULL, "%s is allowed", bad[i]);
    }

    policy_set_free(set);
}


static void
anchored_in_each_branch(void **state)
{
    policy_set_t   *set;
    policy_rule_t  *rule;

    static const char *const  patterns[] = { "^/a|/b", "^/(?m:^c)" };

    rule = rule_with(&set, patterns, COUNT(patterns));

    assert_null(refused(rule, "/a"));
    assert_null(refused(rule, "/b"));
    assert_non_null(refused(rule, "/x/b"));
    assert_non_null(refused(rule, "/x/a"));

    policy_set_free(set);
}


static void
no_pattern_allows_all(void **state)
{
    policy_set_t   *set;
    policy_rule_t  *rule;

    rule = rule_with(&set, NULL, 0);

    assert_null(refused(rule, "/v1/../x;%00"));

    policy_set_free(set);
}


/* Each of these would take from seconds to years without a bound. */

static void
steps_are_bounded(void **state)
{
    char            path[PATH_MAX_LEN];
    size_t          i;
    const char     *why;
    policy_set_t   *set;
    policy_rule_t  *rule;

    static const char *const  patterns[] = {
        "^/(a+)+b", "^/(?:a|aa)+b", "^/(.*)*b$", "^/(?:(?:a|b)*)*x",
        "^/(a|b)*c", "^/(?:a+(?:a+(?:a+)+)+)+b",
    };

    /* what the patterns end in is there, or they would not be tried at all */

    memset(path, 'a', sizeof(path));
    path[0] = '/';
    memcpy(path + sizeof(path) - 6, "XbXcXx", 6);

    for (i = 0; i < COUNT(patterns); i++) {

        rule = rule_with(&set, &patterns[i], 1);
        why = policy_rule_refuses_path(rule, (unsigned char *) path,
                                       sizeof(path));
        expect(why != NULL, "%s matches", patterns[i]);
        policy_set_free(set);
    }

    /* past the bound a later pattern is not asked */

    rule = rule_with(&set, (const char *const []) { "^/(?:a|aa)+b", "^/a" },
                     2);

    why = policy_rule_refuses_path(rule, (unsigned char *) path, sizeof(path));
    assert_string_equal(why, "the path takes too long to compare with the "
                             "patterns");
    assert_null(refused(rule, "/a"));

    policy_set_free(set);
}


static void
bad_patterns(void **state)
{
    char            many[32];
    size_t          i;
    policy_set_t   *set;
    policy_rule_t  *rule;

    static const char *const  rows[][2] = {
        { "/v1/", "does not begin with \"^/\"" },
        { "v1", "does not begin with \"^/\"" },
        { "", "does not begin with \"^/\"" },
        { "^v1", "does not begin with \"^/\"" },
        { "(*UTF)^/", "does not begin with \"^/\"" },
        { "^/(", "at its byte 3" },
        { "^/v1/[a", "at its byte 7" },
        { "^/a**b)", "at its byte " },           /* versions of PCRE2 differ */
        { "^/\\C", "is not a pattern" },
        { "^/(?<=a*)b", "is not a pattern" },
        { "^/\xc3\xbc", "percent-encoded" },
        { "^/a\tb", "percent-encoded" },
        { "^/((((a{200}){200}){200}){200}", "is not a pattern" },
    };

    rule = rule_with(&set, NULL, 0);

    for (i = 0; i < COUNT(rows); i++) {
        expect(policy_rule_add_path(rule, rows[i][0], err) == -1,
               "%s is taken", rows[i][0]);
        expect(strstr(err, rows[i][1]) != NULL, "%s: %s", rows[i][0], err);
    }

    for (i = 0; i < POLICY_PATTERNS_MAX; i++) {
        (void) snprintf(many, sizeof(many), "^/%zu/", i);
        assert_int_equal(policy_rule_add_path(rule, many, err), 0);
    }

    assert_int_equal(policy_rule_add_path(rule, "^/one-more", err), -1);
    policy_set_free(set);

    rule = rule_with(&set, (const char *const []) { "^/a" }, 1);
    assert_int_equal(policy_rule_add_path(rule, "^/a", err), -1);
    assert_non_null(strstr(err, "is repeated"));

    /* with a tunnel nothing is read */

    rule->tunnel = true;
    assert_int_equal(policy_rule_check(rule, err), -1);
    assert_non_null(strstr(err, "no \"path\" goes with it"));

    policy_set_free(set);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        PROMISE("two spellings of a path have one form", one_spelling),
        PROMISE("what servers read in different ways has none", no_form),
        PROMISE("a path of 4096 bytes has a form, a longer one none", longest),
        PROMISE("any of the patterns allows a path",
                patterns_are_alternatives),
        PROMISE("every branch of a pattern is anchored at the start",
                anchored_in_each_branch),
        PROMISE("a rule without patterns allows every path",
                no_pattern_allows_all),
        PROMISE("no pattern and no path makes a match take long",
                steps_are_bounded),
        PROMISE("a bad pattern is refused with the place of its error",
                bad_patterns),
    };

    return unit_run(tests);
}
