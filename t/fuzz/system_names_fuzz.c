/* The texts of /etc/resolv.conf and /etc/hosts. */

#include "fuzz.h"

#include "parse/system_names.h"


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t           n;
    address_t        out[SYSTEM_NAMESERVERS_MAX];
    system_hosts_t  *hosts;

    n = system_nameservers_parse((const char *) data, size, out);
    must(n <= SYSTEM_NAMESERVERS_MAX);

    hosts = system_hosts_parse((const char *) data, size);
    must(hosts != NULL);
    must(system_hosts_count(hosts) <= size / 2);

    n = system_hosts_find(hosts, "localhost", out, 1);
    must(n <= system_hosts_count(hosts));
    must(system_hosts_find(hosts, "", out, 1) == 0);

    system_hosts_free(hosts);

    return 0;
}
