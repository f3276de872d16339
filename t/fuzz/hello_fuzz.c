/*
 * The first bytes of a tunnel: a prefix of what is accepted is never refused
 * or accepted by itself, and the name is a valid one.
 */

#include "fuzz.h"

#include "hello.h"


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    size_t       i;
    authority_t  name, again;

    if (hello_parse(data, n, &name) != HELLO_OK) {
        return 0;
    }

    if (authority_parse_host((const unsigned char *) name.host,
                             name.host_len, &again) != AUTHORITY_OK
        || !authority_same_host(&name, &again))
    {
        abort();
    }

    for (i = 0; i < n; i += 1 + n / 64) {
        if (hello_parse(data, i, &again) != HELLO_MORE) {
            abort();
        }
    }

    return 0;
}
