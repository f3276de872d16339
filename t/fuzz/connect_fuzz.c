/*
 * The head of a CONNECT: what is accepted names one target, and its Host, if
 * there is one, the same.
 */

#include "fuzz.h"

#include "parse/connect.h"


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    size_t       len;
    connect_t    head;
    authority_t  host;
    const char  *why;

    why = NULL;
    len = connect_head_length(data, n);

    if (len > n) {
        abort();
    }

    if (connect_parse(data, len ? len : n, &head, &why) != CONNECT_OK) {

        if (why == NULL || why[0] == '\0') {
            abort();
        }

        return 0;
    }

    if (len == 0 || head.authority.host_len == 0 || head.authority.port == 0
        || !head.authority.has_port)
    {
        abort();
    }

    if (head.host
        && (authority_parse(head.host, head.host_len, head.authority.port,
                            &host) != AUTHORITY_OK
            || !authority_same_host(&host, &head.authority)
            || host.port != head.authority.port))
    {
        abort();
    }

    return 0;
}
