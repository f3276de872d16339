/*
 * The first bytes of a tunnel: a prefix of what is accepted is never refused
 * and names nothing else, and the name is a valid one.
 */

#include "fuzz.h"

#include "parse/client_hello.h"


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    size_t       i;
    authority_t  name, again;

    if (client_hello_parse(data, n, &name) != HELLO_OK) {
        return 0;
    }

    if (authority_parse_host((const unsigned char *) name.host,
                             name.host_len, &again) != AUTHORITY_OK
        || !authority_same_host(&name, &again))
    {
        abort();
    }

    for (i = 0; i < n; i += 1 + n / 64) {
        switch (client_hello_parse(data, i, &again)) {

        case HELLO_MORE:
            break;

        case HELLO_OK:                  /* the rest is behind the hello */
            must(authority_same_host(&name, &again));
            break;

        default:
            abort();
        }
    }

    return 0;
}
