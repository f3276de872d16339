/*
 * Whatever an authority accepts is written again and read as the same value,
 * has no byte outside its grammar, and is what address_parse_* and inet_pton
 * take it for.
 */

#include <arpa/inet.h>

#include "fuzz.h"

#include "parse/address.h"
#include "parse/authority.h"


static void
check_host(const authority_t *a)
{
    size_t         i, label;
    address_t      address;
    unsigned char  bytes[16];

    must(a->host_len > 0 && a->host_len <= AUTHORITY_HOST_MAX);
    must(strlen(a->host) == a->host_len);

    if (a->kind == AUTHORITY_IPV4) {
        must(inet_pton(AF_INET, a->host, bytes) == 1);
        must(memcmp(bytes, a->address, 4) == 0);
        must(address_parse_v4(a->host, a->host_len, &address));
        return;
    }

    if (a->kind == AUTHORITY_IPV6) {
        must(inet_pton(AF_INET6, a->host, bytes) == 1);
        must(memcmp(bytes, a->address, 16) == 0);
        must(address_parse_v6(a->host, a->host_len, &address));
        return;
    }

    /* no reader may take a name for an address */

    {
        struct in_addr  in;

        must(inet_aton(a->host, &in) == 0);
    }

    for (i = 0, label = 0; i <= a->host_len; i++) {

        if (i == a->host_len || a->host[i] == '.') {
            must(label > 0 && label <= 63);
            must(a->host[i - 1] != '-' && a->host[i - label] != '-');
            label = 0;
            continue;
        }

        must((a->host[i] >= 'a' && a->host[i] <= 'z')
             || (a->host[i] >= '0' && a->host[i] <= '9')
             || a->host[i] == '-' || a->host[i] == '_');
        label++;
    }
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int                 n;
    char                text[AUTHORITY_HOST_MAX + 16];
    uint16_t            port;
    authority_t         a, again, zero;
    authority_error_t   rc;

    memset(&zero, 0, sizeof(zero));

    for (port = 0; port < 444; port = (uint16_t) (port + 443)) {

        rc = authority_parse(data, size, port, &a);

        must(authority_strerror(rc) != NULL);

        if (rc != AUTHORITY_OK) {
            must(memcmp(&a, &zero, sizeof(a)) == 0);
            continue;
        }

        check_host(&a);
        must(a.port != 0);
        must(a.has_port || a.port == port);

        n = snprintf(text, sizeof(text), "%s%s%s",
                     a.kind == AUTHORITY_IPV6 ? "[" : "", a.host,
                     a.kind == AUTHORITY_IPV6 ? "]" : "");

        if (a.has_port) {
            n += snprintf(text + n, sizeof(text) - (size_t) n, ":%u", a.port);
        }

        must(authority_parse((const unsigned char *) text, (size_t) n, port,
                             &again)
             == AUTHORITY_OK);
        must(memcmp(&a, &again, sizeof(a)) == 0);
        must(authority_same_host(&a, &again));
    }

    rc = authority_parse_host(data, size, &a);

    if (rc != AUTHORITY_OK) {
        must(memcmp(&a, &zero, sizeof(a)) == 0);
        return 0;
    }

    check_host(&a);
    must(a.kind != AUTHORITY_IPV6 && a.port == 0 && !a.has_port);

    /* what a bare host may be, an authority may be */

    must(authority_parse(data, size, 443, &again) == AUTHORITY_OK);
    must(authority_same_host(&a, &again));

    return 0;
}
