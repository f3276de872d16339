/*
 * Patterns of paths.  A match is given a number of steps, which no pattern and
 * no path can make longer than some milliseconds, and no code is generated at
 * run time: a worker needs no memory that is writable and executable.
 *
 * A path that takes more steps than that is refused, even if a later pattern
 * would match: else a box could spend the steps of all of them.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH  8
#include <pcre2.h>

#include "parse/path.h"
#include "policy/policy_path.h"
#include "policy/policy_words.h"


#define PATH_STEPS  50000       /* of a match */
#define PATH_HEAP   1024        /* KiB, for what it goes back to */


static pcre2_code *policy_path_compile(const char *pattern,
    char err[POLICY_ERROR_MAX]);


int
policy_rule_add_path(policy_rule_t *rule, const char *pattern,
    char err[POLICY_ERROR_MAX])
{
    void        *list;
    size_t       i;
    pcre2_code  *code;

    if (strncmp(pattern, "^/", 2) != 0) {
        return policy_error(err, "path", pattern,
                            "does not begin with \"^/\", as each path does");
    }

    if (strlen(pattern) > POLICY_PATTERN_MAX) {
        return policy_error(err, "path", pattern,
                            "is longer than 1024 bytes");
    }

    for (i = 0; pattern[i]; i++) {
        if (pattern[i] < 0x20 || pattern[i] > 0x7e) {
            return policy_error(err, "path", pattern,
                                "has a byte that no path has: what is not "
                                "ASCII is percent-encoded, as in \"%C3%BC\"");
        }
    }

    if (rule->paths_count == POLICY_PATTERNS_MAX) {
        return policy_error(err, "path", pattern,
                            "is one more than the 64 that a host may have");
    }

    code = policy_path_compile(pattern, err);

    if (code == NULL) {
        return -1;
    }

    list = policy_grow(rule->patterns, rule->paths_count, sizeof(void *));

    if (list == NULL) {
        pcre2_code_free(code);
        return policy_no_memory(err);
    }

    rule->patterns = list;
    rule->patterns[rule->paths_count] = code;

    if (policy_list_add(&rule->paths, &rule->paths_count, &pattern,
                        sizeof(char *), true, "path", pattern, err)
        != 0)
    {
        pcre2_code_free(code);
        return -1;
    }

    return 0;
}


static pcre2_code *
policy_path_compile(const char *pattern, char err[POLICY_ERROR_MAX])
{
    int          error;
    char         phrase[256];
    PCRE2_UCHAR  message[160];
    pcre2_code  *code;
    PCRE2_SIZE   at;

    code = pcre2_compile((PCRE2_SPTR) pattern, PCRE2_ZERO_TERMINATED,
                         PCRE2_ANCHORED|PCRE2_DOLLAR_ENDONLY|PCRE2_NEVER_UTF
                         |PCRE2_NEVER_UCP|PCRE2_NEVER_BACKSLASH_C,
                         &error, &at, NULL);

    if (code == NULL) {
        (void) pcre2_get_error_message(error, message, sizeof(message));
        (void) snprintf(phrase, sizeof(phrase),
                        "is not a pattern: %s at its byte %zu",
                        (char *) message, (size_t) at);
        (void) policy_error(err, "path", pattern, phrase);
    }

    return code;
}


void
policy_path_free(policy_rule_t *rule)
{
    size_t  i;

    for (i = 0; i < rule->paths_count; i++) {
        pcre2_code_free(rule->patterns[i]);
    }

    free(rule->patterns);
}


const char *
policy_rule_refuses_path(const policy_rule_t *rule, const unsigned char *path,
    size_t n)
{
    int          rc;
    char         canonical[PATH_MAX_LEN];
    size_t       i, len;
    const char  *why;

    /* one for all matches of the process: it keeps its memory */

    static pcre2_match_data     *data;
    static pcre2_match_context  *bounds;

    if (rule->paths_count == 0) {
        return NULL;
    }

    if (n > PATH_MAX_LEN) {
        return "the path is longer than 4096 bytes";
    }

    why = path_canonical(path, n, canonical, &len);

    if (why) {
        return why;
    }

    if (bounds == NULL) {
        bounds = pcre2_match_context_create(NULL);
    }

    if (data == NULL) {
        data = pcre2_match_data_create(1, NULL);
    }

    if (bounds == NULL || data == NULL) {
        return "out of memory";
    }

    (void) pcre2_set_match_limit(bounds, PATH_STEPS);
    (void) pcre2_set_heap_limit(bounds, PATH_HEAP);

    for (i = 0; i < rule->paths_count; i++) {

        rc = pcre2_match(rule->patterns[i], (PCRE2_SPTR) canonical, len, 0, 0,
                         data, bounds);

        if (rc >= 0) {
            return NULL;
        }

        if (rc != PCRE2_ERROR_NOMATCH) {
            return "the path takes too long to compare with the patterns";
        }
    }

    return "no pattern of the rule matches the path";
}
