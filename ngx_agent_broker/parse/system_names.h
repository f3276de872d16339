/*
 * What the system says about names: the name servers of /etc/resolv.conf and
 * the table of /etc/hosts, read from text that the caller has read.  Lines
 * that make no sense are skipped, as the C library does.
 */

#pragma once

#include <stddef.h>

#include "parse/address.h"


#define SYSTEM_NAMESERVERS_MAX  3       /* MAXNS of resolv.h */


typedef struct system_hosts_s  system_hosts_t;


/*
 * The addresses of the first three "nameserver" lines; their count.  One with
 * a zone ("fe80::1%eth0") is skipped.
 */
size_t system_nameservers_parse(const char *text, size_t n,
    address_t out[SYSTEM_NAMESERVERS_MAX]);

/*
 * The table of a hosts file: "ADDRESS NAME [ALIAS ...]", "#" begins a comment.
 * NULL: no memory.  The text is not needed afterwards.
 */
system_hosts_t *system_hosts_parse(const char *text, size_t n);

/*
 * Writes at most max addresses of a name (lower case, no dot at its end, as in
 * an authority), in the order of the file and each once; returns how many
 * there are in total.
 */
size_t system_hosts_find(const system_hosts_t *hosts, const char *name,
    address_t *out, size_t max);

/* The number of names with their addresses. */
size_t system_hosts_count(const system_hosts_t *hosts);

void system_hosts_free(system_hosts_t *hosts);
