/*
 * The address guard: judges every address before it is dialled, literal or
 * resolved.  Default: only globally reachable unicast.  What a special range
 * needs is a `private` range of the rule that holds it; some addresses are
 * refused whatever the rule says.
 *
 * Sources: IANA special-purpose address registries (RFC 6890 and later),
 * RFC 4291, 6052, 8215 (NAT64), 3056 (6to4), 4380 (Teredo), 5214 (ISATAP);
 * the clouds' documentation for metadata addresses.
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>


#define ADDRESS_TEXT_MAX  46    /* the longest text, with its NUL */


typedef struct {
    bool           v6;
    uint8_t        prefix;             /* bits, 0..32 or 0..128 */
    unsigned char  bytes[16];          /* network order; v4 uses the first 4 */
} address_range_t;


typedef struct {
    bool           v6;
    unsigned char  bytes[16];
} address_t;


typedef enum {
    ADDRESS_ALLOWED = 0,
    ADDRESS_SPECIAL,            /* needs a `private` range that holds it */
    ADDRESS_LOOPBACK,           /* needs `private` and a rule with a port */
    ADDRESS_FORBIDDEN           /* unspecified, link-local, multicast,
                                   metadata: no rule opens it */
} address_verdict_t;


/*
 * Judges one address for a rule with these private ranges.  exact_port: the
 * rule names its port (loopback needs it).  IPv4 inside IPv6 is decoded
 * (mapped, compatible, translatable, 6to4, Teredo, NAT64 both prefixes,
 * ISATAP): the outer address is special, so it needs a range of its own, and
 * the inner one is judged as well; forbidden inside is forbidden.
 * *why gets a constant word: "public", "private", "metadata", "multicast" ...
 */
address_verdict_t address_judge(const address_t *a,
    const address_range_t *ranges, size_t n, bool exact_port,
    const char **why);

/*
 * "10.2.0.0/16", "fd00::/8", or a single address.  Strict: canonical text, no
 * bits set below the prefix.  0, or -1 with *err set to a constant sentence.
 */
int address_range_parse(const char *text, size_t n, address_range_t *out,
    const char **err);

/*
 * Is there nothing in it that a `private` could open?  Never so of IPv6: a
 * range of it has ISATAP addresses, which are special under any prefix.
 */
bool address_range_is_public(const address_range_t *range);

bool address_range_holds(const address_range_t *range, const address_t *a);

/*
 * Canonical text (RFC 5952; dotted only for ::ffff:0:0/96) with its NUL;
 * returns the length without it.
 */
size_t address_text(const address_t *a, char dst[ADDRESS_TEXT_MAX]);

/*
 * The way back: true for exactly the texts that address_text writes (for
 * IPv4 "127.0.0.1", never "127.1", "0177.0.0.1" or "2130706433").
 */
bool address_parse_v4(const char *text, size_t n, address_t *out);
bool address_parse_v6(const char *text, size_t n, address_t *out);
