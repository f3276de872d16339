/*
 * What looks like a credential, and what is a name of one, or an ordinary
 * word.
 */

#include "unit.h"

#include "jail/shared/secret.h"


static bool
looks(const char *text)
{
    bool    found;
    char   *exact;
    size_t  n;

    n = strlen(text);
    exact = malloc(n ? n : 1);
    memcpy(exact, text, n);
    found = secret_is_in(exact, n);
    free(exact);

    return found;
}


static void
test_credentials(void **state)
{
    size_t  i;

    static const char *const  rows[] = {
        "sk_live_0123456789abcdef",
        "sk-proj-abcdefghijklmnopqrstuvwxyz",
        "sk-ant-api03-Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6",
        "ghp_abcdefghijklmnopqrstuvwxyzabcdefghij",
        "github_pat_11ABCDEFG0abcdefghijklm_nopqrstu",
        "glpat-ABCDEFGHIJKLMNOPQRST",
        "xoxb-123456789012-abcdefghijkl",
        "AKIAIOSFODNN7EXAMPLE",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln",
        "npm_abcdefghijklmnopqrstuvwxyzABCDEFGHIJ",
        "AIzaSyA1234567890abcdefghijklmnopqrstuvw",
        "tok-ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        "0123456789abcdef",
        "d41d8cd98f00b204e9800998ecf8427e",
        "550e8400-e29b-41d4-a716-446655440000",
        "XK4J-9F2M-77QP-ZT3A",
        "Zm9vYmFyYmF6cXV4",
        /* within a text */
        "OPENAI_API_KEY=sk_live_0123456789abcdef",
        "https://user:sk_live_0123456789abcdef@host/",
        "Bearer sk_live_0123456789abcdef",
        "\"sk_live_0123456789abcdef\"",
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {
        expect(looks(rows[i]), "\"%s\" is taken for a name", rows[i]);
    }
}


static void
test_names(void **state)
{
    size_t  i;

    static const char *const  rows[] = {
        "", "a", "api_internal", "sk_live_0123456", "0123456789abcde",
        "openai_production_key", "github-readonly-token-2024",
        "internalApiKeyReadonly", "internalgithubtoken",
        "npm_publish_internal", "sk-production-key", "customer_8f3a2c_prod",
        "k8s-cluster-prod-eu-west-1", "aws_s3_backup_bucket_rw",
        "GITHUB_PAT_READONLY_INTERNAL", "x-access-token-reader",
        "api_internal_v2_2024-11-30", "https://api.internal.example.com:8443/",
        "www.packages.example.org", "99999999999999999999r/s",
        "123456789012345678ms", "/etc/agent-broker/conf/trusted.pem",
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {
        expect(!looks(rows[i]), "\"%s\" is taken for a token", rows[i]);
    }
}


static void
test_hidden(void **state)
{
    char    text[128];
    size_t  i;

    static const struct {
        const char  *text;
        const char  *shown;
    } rows[] = {
        { "", "" },
        { "api_internal", "api_internal" },
        { "0123456789abcdef", "(not shown)" },
        { "A=0123456789abcdef", "A=(not shown)" },
        { "0123456789abcdef,0123456789abcdef0", "(not shown),(not shown)" },
        { "x 0123456789abcdef y sk_live_0123456789abcdef@h",
          "x (not shown) y (not shown)@h" },
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {
        (void) strcpy(text, rows[i].text);
        secret_hide(text);
        assert_string_equal(text, rows[i].shown);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        PROMISE("G-061 known tokens and random text look like credentials",
                test_credentials),
        PROMISE("G-061 names and ordinary words do not", test_names),
        PROMISE("G-061 what looks like one is replaced in a message",
                test_hidden),
    };

    return unit_run(tests);
}
