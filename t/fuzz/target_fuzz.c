/*
 * A request line, and after its newline a Host header.  A target that is
 * accepted is a valid authority, the Host's own, and its path and query lie in
 * the line without a byte that could end it.
 */

#include "fuzz.h"

#include "parse/target.h"


static void
check_part(const uint8_t *line, size_t n, const unsigned char *p, size_t len)
{
    size_t  i;

    must(p >= line && len <= n && p + len <= line + n);

    for (i = 0; i < len; i++) {
        must(p[i] > 0x20 && p[i] != 0x7f && p[i] != '#');
    }
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char                  text[AUTHORITY_HOST_MAX + 16];
    size_t                n, host_len;
    target_t              target, zero;
    authority_t           a;
    const char           *why;
    const unsigned char  *host;

    host = memchr(data, '\n', size);
    n = host ? (size_t) (host - data) : size;
    host_len = host ? size - n - 1 : 0;
    host = host ? host + 1 : NULL;

    why = NULL;
    memset(&zero, 0, sizeof(zero));

    if (target_parse(data, n, host, host_len, &target, &why) != TARGET_OK) {
        must(why != NULL);
        must(memcmp(&target, &zero, sizeof(zero)) == 0);
        return 0;
    }

    must(target.authority.host_len > 0 && target.authority.port != 0);

    (void) snprintf(text, sizeof(text), "%s%s%s:%u",
                    target.authority.kind == AUTHORITY_IPV6 ? "[" : "",
                    target.authority.host,
                    target.authority.kind == AUTHORITY_IPV6 ? "]" : "",
                    target.authority.port);
    must(authority_parse((const unsigned char *) text, strlen(text), 0, &a)
         == AUTHORITY_OK);
    must(authority_same_host(&a, &target.authority));

    must(target.method_len > 0);
    check_part(data, n, target.method, target.method_len);

    must(target.path_len > 0 && target.path[0] == '/');

    if (target.path >= data && target.path < data + n) {
        check_part(data, n, target.path, target.path_len);

    } else {
        must(target.path_len == 1);             /* the constant "/" */
    }

    if (target.query) {
        check_part(data, n, target.query, target.query_len);
    }

    if (host) {
        must(authority_parse(host, host_len, 80, &a) == AUTHORITY_OK);
        must(authority_same_host(&a, &target.authority));
    }

    return 0;
}
