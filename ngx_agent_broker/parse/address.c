/*
 * The address guard.  A name on the list may resolve to anything its owner
 * likes, so what is dialled is judged by its bytes.  Three steps, and the
 * order matters:
 *
 *   1. the address's own class, from the tables below; everything in IPv6
 *      that is not global unicast (2000::/3) is special without being listed;
 *   2. the IPv4 addresses that an IPv6 one carries: each is judged by itself,
 *      and the worst of all is the verdict, so that no outer form can open
 *      what the inner one forbids;
 *   3. the rule's `private` ranges, which open special and loopback ones, and
 *      never a forbidden one.
 */

#include <string.h>

#include "parse/address.h"


#define EMBEDDED_MAX  4         /* of one form: the layouts of RFC 6052 */


typedef struct {
    unsigned char      bytes[16];
    uint8_t            prefix;
    address_verdict_t  verdict;
    const char        *why;
} address_class_t;


/* The IPv4 addresses in an IPv6 one of a form; how many there are. */

typedef size_t address_decode_t(const unsigned char *a,
    unsigned char inner[EMBEDDED_MAX][4]);


typedef struct {
    unsigned char      bytes[16];
    uint8_t            prefix;
    address_decode_t  *decode;
} address_embedding_t;


static address_verdict_t address_judge_one(const address_t *a,
    const address_range_t *ranges, size_t n, bool exact_port,
    const char **why);
static const address_class_t *address_classify(const address_t *a);
static bool address_same_prefix(const unsigned char *a, const unsigned char *b,
    unsigned bits);

static address_decode_t  address_decode_low32, address_decode_nat64_local,
                         address_decode_6to4, address_decode_teredo,
                         address_decode_isatap;


/*
 * The first class that holds the address is its class: single addresses and
 * forbidden ranges stand before the wider ranges around them.
 */

static const address_class_t  classes_v4[] = {
    { { 169, 254 }, 16, ADDRESS_FORBIDDEN, "metadata" },
    { { 168, 63, 129, 16 }, 32, ADDRESS_FORBIDDEN, "metadata" },  /* Azure */
    { { 100, 100, 100, 200 }, 32, ADDRESS_FORBIDDEN, "metadata" },
                                                                /* Alibaba */
    { { 192, 0, 0, 192 }, 32, ADDRESS_FORBIDDEN, "metadata" },   /* Oracle */
    { { 0 }, 8, ADDRESS_FORBIDDEN, "unspecified" },
    { { 224 }, 4, ADDRESS_FORBIDDEN, "multicast" },
    { { 255, 255, 255, 255 }, 32, ADDRESS_FORBIDDEN, "broadcast" },
    { { 127 }, 8, ADDRESS_LOOPBACK, "loopback" },
    { { 10 }, 8, ADDRESS_SPECIAL, "private" },
    { { 172, 16 }, 12, ADDRESS_SPECIAL, "private" },
    { { 192, 168 }, 16, ADDRESS_SPECIAL, "private" },
    { { 100, 64 }, 10, ADDRESS_SPECIAL, "carrier-grade NAT" },
    { { 192, 0, 0 }, 24, ADDRESS_SPECIAL, "protocol assignments" },
    { { 192, 0, 2 }, 24, ADDRESS_SPECIAL, "documentation" },
    { { 198, 51, 100 }, 24, ADDRESS_SPECIAL, "documentation" },
    { { 203, 0, 113 }, 24, ADDRESS_SPECIAL, "documentation" },
    { { 192, 88, 99 }, 24, ADDRESS_SPECIAL, "6to4 relay" },
    { { 198, 18 }, 15, ADDRESS_SPECIAL, "benchmarking" },
    { { 240 }, 4, ADDRESS_SPECIAL, "reserved" },
    { { 0 }, 0, ADDRESS_ALLOWED, "public" }
};


static const address_class_t  classes_v6[] = {
    { { 0 }, 128, ADDRESS_FORBIDDEN, "unspecified" },
    { { [15] = 1 }, 128, ADDRESS_LOOPBACK, "loopback" },
    { { 0xfe, 0x80 }, 10, ADDRESS_FORBIDDEN, "link-local" },
    { { 0xff }, 8, ADDRESS_FORBIDDEN, "multicast" },

    /* the clouds' own services, inside the unique-local range */
    { { 0xfd, 0x00, 0x0e, 0xc2 }, 32, ADDRESS_FORBIDDEN, "metadata" },
    { { 0xfd, 0x20, 0x00, 0xce, [14] = 0x02, [15] = 0x54 }, 128,
      ADDRESS_FORBIDDEN, "metadata" },                           /* Google */
    { { 0xfd, 0x00, 0x00, 0xc1, [12] = 0xa9, 0xfe, 0xa9, 0xfe }, 128,
      ADDRESS_FORBIDDEN, "metadata" },                           /* Oracle */
    { { 0xfd, 0x00, 0x00, 0x42, [15] = 0x42 }, 128,
      ADDRESS_FORBIDDEN, "metadata" },                         /* Scaleway */

    { { 0xfc }, 7, ADDRESS_SPECIAL, "private" },
    { { 0xfe, 0xc0 }, 10, ADDRESS_SPECIAL, "private" },     /* site-local */
    { { [10] = 0xff, 0xff }, 96, ADDRESS_SPECIAL, "IPv4-mapped" },
    { { [8] = 0xff, 0xff }, 96, ADDRESS_SPECIAL, "IPv4-translated" },
    { { 0 }, 96, ADDRESS_SPECIAL, "IPv4-compatible" },
    { { 0x00, 0x64, 0xff, 0x9b }, 96, ADDRESS_SPECIAL, "NAT64" },
    { { 0x00, 0x64, 0xff, 0x9b, 0x00, 0x01 }, 48, ADDRESS_SPECIAL, "NAT64" },
    { { 0x20, 0x01, 0x00, 0x00 }, 32, ADDRESS_SPECIAL, "Teredo" },
    { { 0x20, 0x01, 0x00 }, 23, ADDRESS_SPECIAL, "protocol assignments" },
    { { 0x20, 0x01, 0x0d, 0xb8 }, 32, ADDRESS_SPECIAL, "documentation" },
    { { 0x3f, 0xff }, 20, ADDRESS_SPECIAL, "documentation" },
    { { 0x20, 0x02 }, 16, ADDRESS_SPECIAL, "6to4" },
    { { 0x20 }, 3, ADDRESS_ALLOWED, "public" },
    { { 0 }, 0, ADDRESS_SPECIAL, "reserved" }
};


/* ISATAP is told by the interface part, under any prefix. */

static const address_class_t  class_isatap = {
    { 0 }, 0, ADDRESS_SPECIAL, "ISATAP"
};


static const address_embedding_t  embeddings[] = {
    { { [10] = 0xff, 0xff }, 96, address_decode_low32 },    /* mapped */
    { { [8] = 0xff, 0xff }, 96, address_decode_low32 },     /* translated */
    { { 0 }, 96, address_decode_low32 },                    /* compatible */
    { { 0x00, 0x64, 0xff, 0x9b }, 96, address_decode_low32 },   /* NAT64 */
    { { 0x00, 0x64, 0xff, 0x9b, 0x00, 0x01 }, 48,
      address_decode_nat64_local },
    { { 0x20, 0x02 }, 16, address_decode_6to4 },
    { { 0x20, 0x01, 0x00, 0x00 }, 32, address_decode_teredo },
    { { 0 }, 0, address_decode_isatap }
};


address_verdict_t
address_judge(const address_t *a, const address_range_t *ranges, size_t n,
    bool exact_port, const char **why)
{
    size_t                      i, k, count;
    address_t                   v4;
    const char                 *inner_why;
    unsigned char               inner[EMBEDDED_MAX][4];
    address_verdict_t           verdict, worst;
    const address_embedding_t  *e;

    worst = address_judge_one(a, ranges, n, exact_port, why);

    /* "::" and "::1" are themselves, not an IPv4 address in a compatible one */

    if (!a->v6 || address_same_prefix(a->bytes, classes_v6[0].bytes, 127)) {
        return worst;
    }

    for (i = 0; i < sizeof(embeddings) / sizeof(embeddings[0]); i++) {

        e = &embeddings[i];

        if (!address_same_prefix(a->bytes, e->bytes, e->prefix)) {
            continue;
        }

        count = e->decode(a->bytes, inner);

        for (k = 0; k < count; k++) {

            memset(&v4, 0, sizeof(address_t));
            memcpy(v4.bytes, inner[k], 4);

            verdict = address_judge_one(&v4, ranges, n, exact_port, &inner_why);

            if (verdict > worst) {
                worst = verdict;
                *why = inner_why;
            }
        }
    }

    return worst;
}


static address_verdict_t
address_judge_one(const address_t *a, const address_range_t *ranges, size_t n,
    bool exact_port, const char **why)
{
    size_t                  i;
    const address_class_t  *class;

    class = address_classify(a);

    *why = class->why;

    if (class->verdict == ADDRESS_ALLOWED
        || class->verdict == ADDRESS_FORBIDDEN
        || (class->verdict == ADDRESS_LOOPBACK && !exact_port))
    {
        return class->verdict;
    }

    for (i = 0; i < n; i++) {
        if (address_range_holds(&ranges[i], a)) {
            return ADDRESS_ALLOWED;
        }
    }

    return class->verdict;
}


static const address_class_t *
address_classify(const address_t *a)
{
    unsigned char           inner[EMBEDDED_MAX][4];
    const address_class_t  *class;

    class = a->v6 ? classes_v6 : classes_v4;

    /* the last class of each table holds every address */

    while (!address_same_prefix(a->bytes, class->bytes, class->prefix)) {
        class++;
    }

    if (a->v6 && class->verdict == ADDRESS_ALLOWED
        && address_decode_isatap(a->bytes, inner) != 0)
    {
        return &class_isatap;
    }

    return class;
}


bool
address_range_is_public(const address_range_t *range)
{
    unsigned                bits;
    const address_class_t  *class;

    if (range->v6) {
        return false;
    }

    /* none of the classes is in it, and it is in none, but for the public */

    for (class = classes_v4; class->verdict != ADDRESS_ALLOWED; class++) {

        bits = class->prefix < range->prefix ? class->prefix : range->prefix;

        if (address_same_prefix(range->bytes, class->bytes, bits)) {
            return false;
        }
    }

    return true;
}


bool
address_range_holds(const address_range_t *range, const address_t *a)
{
    return range->v6 == a->v6
           && address_same_prefix(range->bytes, a->bytes, range->prefix);
}


static bool
address_same_prefix(const unsigned char *a, const unsigned char *b,
    unsigned bits)
{
    unsigned  mask;

    /* nearly all differ in the first byte */

    if (bits >= 8 && (a[0] != b[0] || memcmp(a, b, bits / 8) != 0)) {
        return false;
    }

    mask = 0xff00U >> (bits % 8) & 0xff;

    return mask == 0 || ((a[bits / 8] ^ b[bits / 8]) & mask) == 0;
}


static size_t
address_decode_low32(const unsigned char *a,
    unsigned char inner[EMBEDDED_MAX][4])
{
    memcpy(inner[0], a + 12, 4);

    return 1;
}


/*
 * 64:ff9b:1::/48 is for an operator's own translator, which may use any
 * prefix length of RFC 6052 inside it, and nothing in the address tells which.
 * So it is read in every layout whose fixed bits (the octet 64..71 and the
 * suffix) are zero, and every reading is judged.  A reading in 0.0.0.0/8 is
 * an artefact of another layout (no translator sends there), unless nothing
 * else can be read.
 */

static size_t
address_decode_nat64_local(const unsigned char *a,
    unsigned char inner[EMBEDDED_MAX][4])
{
    static const struct {
        uint8_t  at[4];         /* bytes that hold the IPv4 address */
        uint8_t  suffix;        /* first byte after it; 16: none */
    } layouts[] = {
        { { 6, 7, 9, 10 }, 11 },                                /* /48 */
        { { 7, 9, 10, 11 }, 12 },                               /* /56 */
        { { 9, 10, 11, 12 }, 13 },                              /* /64 */
        { { 12, 13, 14, 15 }, 16 }                              /* /96 */
    };

    static const unsigned char  zero[16];

    size_t  i, k, count;

    count = 0;

    for (i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {

        if (layouts[i].suffix < 16
            && (a[8] != 0
                || memcmp(a + layouts[i].suffix, zero,
                          16U - layouts[i].suffix) != 0))
        {
            continue;
        }

        for (k = 0; k < 4; k++) {
            inner[count][k] = a[layouts[i].at[k]];
        }

        if (inner[count][0] != 0) {
            count++;
        }
    }

    if (count == 0) {
        memset(inner[0], 0, 4);
        count = 1;
    }

    return count;
}


static size_t
address_decode_6to4(const unsigned char *a,
    unsigned char inner[EMBEDDED_MAX][4])
{
    memcpy(inner[0], a + 2, 4);

    return 1;
}


/* The server, and the client with its bits turned. */

static size_t
address_decode_teredo(const unsigned char *a,
    unsigned char inner[EMBEDDED_MAX][4])
{
    size_t  i;

    memcpy(inner[0], a + 4, 4);

    for (i = 0; i < 4; i++) {
        inner[1][i] = a[12 + i] ^ 0xff;
    }

    return 2;
}


/* Interface part 0000:5efe or 0200:5efe, then the IPv4 address. */

static size_t
address_decode_isatap(const unsigned char *a,
    unsigned char inner[EMBEDDED_MAX][4])
{
    if ((a[8] & 0xfd) != 0 || a[9] != 0 || a[10] != 0x5e || a[11] != 0xfe) {
        return 0;
    }

    memcpy(inner[0], a + 12, 4);

    return 1;
}
