/*
 * The target of a request: what names it must agree, and a byte that an
 * upstream could read otherwise than the rule did is no part of it.
 */

#include "unit.h"

#include "parse/target.h"


#define HOST_NONE  NULL


typedef struct {
    const char      *line;
    const char      *host;              /* the Host header, or HOST_NONE */
    target_error_t   error;
    const char      *name;              /* of an accepted one */
    int              port;
    const char      *path;
    const char      *query;             /* NULL: no "?" */
} row_t;


static target_error_t
parse(const char *line, size_t n, const char *host, target_t *t,
    unsigned char **exact)
{
    const char      *why;
    unsigned char   *h;
    target_error_t   rc;

    /* on the heap without a NUL, so that a sanitizer sees a read beyond */

    *exact = malloc(n ? n : 1);
    memcpy(*exact, line, n);

    h = NULL;

    if (host) {
        h = malloc(strlen(host) ? strlen(host) : 1);
        memcpy(h, host, strlen(host));
    }

    why = NULL;
    rc = target_parse(*exact, n, h, host ? strlen(host) : 0, t, &why);

    expect(rc == TARGET_OK || (why && *why), "\"%s\": no reason is given",
           line);

    free(h);

    return rc;
}


static void
check_rows(const row_t *rows, size_t n)
{
    size_t            i, k;
    target_t          t;
    const row_t      *r;
    target_error_t    rc;
    unsigned char    *exact;

    for (i = 0; i < n; i++) {

        r = &rows[i];
        rc = parse(r->line, strlen(r->line), r->host, &t, &exact);

        expect(rc == r->error, "\"%s\", Host \"%s\": expected %d, got %d",
               r->line, r->host ? r->host : "(none)", r->error, rc);

        if (rc == TARGET_OK) {
            expect(strcmp(t.authority.host, r->name) == 0
                   && t.authority.port == r->port,
                   "\"%s\": expected %s:%d, got %s:%d", r->line, r->name,
                   r->port, t.authority.host, t.authority.port);
            expect(t.path_len == strlen(r->path)
                   && memcmp(t.path, r->path, t.path_len) == 0,
                   "\"%s\": expected path \"%s\", got \"%.*s\"", r->line,
                   r->path, (int) t.path_len, t.path);
            expect((t.query == NULL) == (r->query == NULL)
                   && (r->query == NULL
                       || (t.query_len == strlen(r->query)
                           && memcmp(t.query, r->query, t.query_len) == 0)),
                   "\"%s\": another query than expected", r->line);

        } else {
            for (k = 0; k < sizeof(t); k++) {
                expect(((unsigned char *) &t)[k] == 0,
                       "\"%s\": something is left in the result", r->line);
            }
        }

        free(exact);
    }
}


static void
test_forms(void **state)
{
    static const row_t  rows[] = {
        { "GET / HTTP/1.1", "a.test", TARGET_OK, "a.test", 80, "/", NULL },
        { "GET /x/y?z=1 HTTP/1.1", "a.test:81", TARGET_OK, "a.test", 81,
          "/x/y", "z=1" },
        { "GET /? HTTP/1.0", "A.Test.", TARGET_OK, "a.test", 80, "/", "" },
        { "GET /?a?b HTTP/1.1", "a.test", TARGET_OK, "a.test", 80, "/",
          "a?b" },
        { "GET http://a.test HTTP/1.1", "a.test", TARGET_OK, "a.test", 80,
          "/", NULL },
        { "GET http://a.test/ HTTP/1.0", HOST_NONE, TARGET_OK, "a.test", 80,
          "/", NULL },
        { "GET http://a.test?q HTTP/1.1", "a.test", TARGET_OK, "a.test", 80,
          "/", "q" },
        { "GET https://a.test/x HTTP/1.1", "a.test", TARGET_OK, "a.test",
          443, "/x", NULL },
        { "GET HTTPS://A.TEST:444/x HTTP/1.1", "a.test:444", TARGET_OK,
          "a.test", 444, "/x", NULL },
        { "GET http://[::1]:81/ HTTP/1.1", "[::1]:81", TARGET_OK, "::1", 81,
          "/", NULL },
        { "M-SEARCH /x HTTP/1.1", "a.test", TARGET_OK, "a.test", 80, "/x",
          NULL },
        { "GET /http://b.test/x HTTP/1.1", "a.test", TARGET_OK, "a.test", 80,
          "/http://b.test/x", NULL },
        { "GET //b.test/x HTTP/1.1", "a.test", TARGET_OK, "a.test", 80,
          "//b.test/x", NULL },
        { "GET /%0d%0a/../%2f HTTP/1.1", "a.test", TARGET_OK, "a.test", 80,
          "/%0d%0a/../%2f", NULL },
        { "GET /@b.test HTTP/1.1", "a.test", TARGET_OK, "a.test", 80,
          "/@b.test", NULL },
    };

    check_rows(rows, COUNT(rows));
}


static void
test_malformed(void **state)
{
    static const char  *lines[] = {
        "", " ", "GET", "GET ", "GET /", "GET / ", "GET  / HTTP/1.1",
        " GET / HTTP/1.1", "GET /  HTTP/1.1", "GET / HTTP/1.1 ",
        "GET / HTTP/1.1 x", "GET / x HTTP/1.1", "GET / HTTP/1.10",
        "GET / HTTP/1.", "GET / HTTP/1", "GET / HTTP/0.9", "GET / http/1.1",
        "GET / HTTP/1.x", "GET / HTTPS/1.1", "GET\t/ HTTP/1.1",
        "get / HTTP/1.1", "G3T / HTTP/1.1", "GET: / HTTP/1.1",
        "/ HTTP/1.1", "GET HTTP/1.1", "GET  HTTP/1.1",
        "GET * HTTP/1.1", "GET x HTTP/1.1", "GET a.test/ HTTP/1.1",
        "GET a.test:80 HTTP/1.1", "GET ftp://a.test/ HTTP/1.1",
        "GET ws://a.test/ HTTP/1.1", "GET http:/a.test/ HTTP/1.1",
        "GET http:a.test HTTP/1.1", "GET http:///a.test/ HTTP/1.1",
        "GET http:// HTTP/1.1", "GET http://a.test:/ HTTP/1.1",
        "GET http://a.test:0/ HTTP/1.1", "GET http://a.test:65536/ HTTP/1.1",
        "GET http://a.test@b.test/ HTTP/1.1",
        "GET http://b.test:x@a.test/ HTTP/1.1",
        "GET http://a.test\\@b.test/ HTTP/1.1",
        "GET http://a.test#@b.test/ HTTP/1.1", "GET /#x HTTP/1.1",
        "GET http://a.test%2fb/ HTTP/1.1", "GET http://.a.test/ HTTP/1.1",
        "GET http://a..test/ HTTP/1.1", "GET http://[a.test]/ HTTP/1.1",
        "GET http://::1/ HTTP/1.1", "GET http://127.1/ HTTP/1.1",
    };

    size_t            i;
    target_t          t;
    unsigned char    *exact;

    for (i = 0; i < COUNT(lines); i++) {

        expect(parse(lines[i], strlen(lines[i]), "a.test", &t, &exact)
               == TARGET_MALFORMED, "\"%s\" is accepted", lines[i]);
        free(exact);
    }
}


/* Any byte that is not printable ASCII ends the matter, wherever it is. */

static void
test_bytes(void **state)
{
    static const char  *places[] = {
        "?ET / HTTP/1.1", "GET /? HTTP/1.1", "GET /x?y HTTP/1.1",
        "GET http://?a.test/ HTTP/1.1", "GET http://a?.test/ HTTP/1.1",
        "GET http://a.test?/ HTTP/1.1", "GET / ?TTP/1.1",
        "GET / HTTP/1.1?",
    };

    int               ch;
    char              line[64];
    size_t            i, n;
    target_t          t;
    unsigned char    *exact;

    for (i = 0; i < COUNT(places); i++) {

        n = strlen(places[i]);

        for (ch = 0; ch < 256; ch++) {

            if (ch > 0x20 && ch < 0x7f) {
                continue;
            }

            memcpy(line, places[i], n);
            *(char *) memchr(line, '?', n) = (char) ch;

            expect(parse(line, n, "a.test", &t, &exact) == TARGET_MALFORMED,
                   "\"%s\" with byte 0x%02x is accepted", places[i],
                   (unsigned) ch);
            free(exact);
        }
    }
}


static void
test_host(void **state)
{
    static const row_t  rows[] = {
        { "GET / HTTP/1.1", HOST_NONE, TARGET_MALFORMED, NULL, 0, NULL,
          NULL },
        { "GET / HTTP/1.1", "", TARGET_MALFORMED, NULL, 0, NULL, NULL },
        { "GET / HTTP/1.1", "a.test, b.test", TARGET_MALFORMED, NULL, 0,
          NULL, NULL },
        { "GET / HTTP/1.1", " a.test", TARGET_MALFORMED, NULL, 0, NULL,
          NULL },
        { "GET / HTTP/1.1", "a.test\t", TARGET_MALFORMED, NULL, 0, NULL,
          NULL },
        { "GET / HTTP/1.1", "x@a.test", TARGET_MALFORMED, NULL, 0, NULL,
          NULL },
        { "GET / HTTP/1.1", "a.test/", TARGET_MALFORMED, NULL, 0, NULL,
          NULL },
        { "GET http://a.test/ HTTP/1.1", "", TARGET_MALFORMED, NULL, 0, NULL,
          NULL },
        { "GET http://a.test/ HTTP/1.1", "a.test b.test", TARGET_MALFORMED,
          NULL, 0, NULL, NULL },
        { "GET http://a.test/ HTTP/1.1", "b.test", TARGET_MISMATCH, NULL, 0,
          NULL, NULL },
        { "GET http://a.test/ HTTP/1.1", "a.test:81", TARGET_MISMATCH, NULL,
          0, NULL, NULL },
        { "GET http://a.test:81/ HTTP/1.1", "a.test", TARGET_MISMATCH, NULL,
          0, NULL, NULL },
        { "GET https://a.test/ HTTP/1.1", "a.test:80", TARGET_MISMATCH, NULL,
          0, NULL, NULL },
        { "GET http://127.0.0.1/ HTTP/1.1", "[::1]", TARGET_MISMATCH, NULL,
          0, NULL, NULL },
        { "GET http://a.test/ HTTP/1.1", "A.TEST.:80", TARGET_OK, "a.test",
          80, "/", NULL },
        { "GET https://a.test/ HTTP/1.1", "a.test:443", TARGET_OK, "a.test",
          443, "/", NULL },
    };

    check_rows(rows, COUNT(rows));
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        PROMISE("B-014 B-023 each form gives one authority, path and query",
                test_forms),
        PROMISE("B-020 what is not a request line of HTTP/1.x is refused",
                test_malformed),
        PROMISE("B-017 a byte outside of printable ASCII is refused anywhere",
                test_bytes),
        PROMISE("Host is strict, and must agree with a URL", test_host),
    };

    return unit_run(tests);
}
