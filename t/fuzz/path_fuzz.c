/*
 * A path.  Its canonical form is not longer, is its own form, and has nothing
 * that a server could read in another way: no dot segment, empty segment,
 * backslash, ";", control byte, nor these or "%" in encoded form, however often
 * it is decoded.
 */

#include "fuzz.h"

#include "parse/path.h"


/* Decodes once more, as a server would. */

static size_t
decode(const char *p, size_t n, char *out)
{
    char      hex[3];
    size_t    i, len;

    hex[2] = '\0';

    for (i = 0, len = 0; i < n; i++) {

        if (p[i] == '%') {
            must(i + 2 < n);
            hex[0] = p[++i];
            hex[1] = p[++i];
            must(strspn(hex, "0123456789ABCDEF") == 2);
            out[len++] = (char) strtoul(hex, NULL, 16);

        } else {
            out[len++] = p[i];
        }
    }

    return len;
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char        *form, *again, *plain;
    size_t       i, n, m;
    const char  *why;

    form = malloc(size + 1);
    again = malloc(size + 1);
    plain = malloc(size + 1);

    why = path_canonical(data, size, form, &n);

    if (why) {
        must(why[0] != '\0');

    } else {
        must(n > 0 && n <= size && n <= PATH_MAX_LEN && form[0] == '/');

        must(path_canonical((unsigned char *) form, n, again, &m) == NULL);
        must(m == n && memcmp(form, again, n) == 0);

        m = decode(form, n, plain);

        for (i = 0; i < m; i++) {
            must((unsigned char) plain[i] >= 0x20 && plain[i] != 0x7f
                 && plain[i] != '\\' && plain[i] != ';' && plain[i] != '%');
        }

        plain[m] = '\0';

        must(strstr(plain, "//") == NULL && strstr(plain, "/./") == NULL
             && strstr(plain, "/../") == NULL);
        must(m < 2 || memcmp(plain + m - 2, "/.", 2) != 0);
        must(m < 3 || memcmp(plain + m - 3, "/..", 3) != 0);
    }

    free(form);
    free(again);
    free(plain);

    return 0;
}
