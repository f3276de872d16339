/* The table of bounds. */

#include "jail/shared/limits.h"
#include "policy/bounds.h"


#define MEGA  (1024ULL * 1024)
#define TERA  (MEGA * MEGA)


const bound_t  bound_table[BOUND_COUNT] = {

    /* directive, max, default, unit */

    [BOUND_CONNECTIONS] = { "connections", 65535, 64,
                            "connections at once", false },
    [BOUND_REQUESTS] = { "requests", 1000000000, 10000, "requests",
                         false },
    [BOUND_HANDSHAKES] = { "handshakes", 100000, 200,
                           "TLS handshakes a second", false },
    [BOUND_MINTS] = { "mints", 1000000, 256, "certificates", false },
    [BOUND_NAMES] = { "names", 1000000000, 10000, "names asked", false },
    [BOUND_REFUSALS] = { "refusals", 1000000000, 1000, "refusals", false },
    [BOUND_BYTES_UP] = { "bytes_up", TERA, 100 * MEGA, "bytes", true },
    [BOUND_BYTES_DOWN] = { "bytes_down", TERA, 1024 * MEGA, "bytes", true },
    [BOUND_AUDIT_LINES] = { "audit_lines", 1000000000, 10000,
                            "lines of the audit", false },
    [BOUND_AUDIT_BYTES] = { "audit_bytes", TERA, 16 * MEGA, "bytes", true },
};


void
bounds_default(uint64_t values[BOUND_COUNT])
{
    size_t  i;

    for (i = 0; i < BOUND_COUNT; i++) {
        values[i] = bound_table[i].standard;
    }
}


/* A size may have a suffix; a count has one spelling. */

int
bound_parse(bound_id_t id, const char *text, size_t n, uint64_t *value)
{
    uint64_t        v;
    const bound_t  *bound;

    bound = &bound_table[id];

    if (limit_parse_unit(bound->bytes ? UNIT_BYTES : UNIT_COUNT, text, n, &v)
        != 0
        || v == 0 || v > bound->max || (!bound->bytes && text[0] == '0'))
    {
        return -1;
    }

    *value = v;

    return 0;
}
