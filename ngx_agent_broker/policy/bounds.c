/* The table of bounds. */

#include <string.h>

#include "jail/shared/limits.h"
#include "policy/bounds.h"


#define MEGA  (1024ULL * 1024)
#define TERA  (MEGA * MEGA)


const bound_t  bound_table[BOUND_COUNT] = {

    /* directive, max, default, unit */

    [BOUND_CONNECTIONS] = { "connections", 65535, 64,
                            "connections at once", false },
    [BOUND_RATE] = { "rate", 100000, 200, "requests a second", false },
    [BOUND_BURST] = { "burst", 1000000, 400, "requests at once", false },
    [BOUND_REQUESTS] = { "requests", 1000000000, 10000, "requests",
                         false },
    [BOUND_HANDSHAKES] = { "handshakes", 100000, 200,
                           "TLS handshakes a second", false },
    [BOUND_MINTS] = { "mints", 1000000, 256, "certificates", false },
    [BOUND_NAMES] = { "names", 1000000000, 10000, "names asked", false },
    [BOUND_REFUSALS] = { "refusals", 1000000000, 1000, "refusals", false },
    [BOUND_BYTES_UP] = { "bytes_up", TERA, 100 * MEGA, "bytes", true },
    [BOUND_BYTES_DOWN] = { "bytes_down", TERA, 1024 * MEGA, "bytes", true },
    [BOUND_AUDIT_LINES] = { "audit_lines", 1000000000, 0,
                            "lines of the audit", false },
    [BOUND_AUDIT_BYTES] = { "audit_bytes", TERA, 0, "bytes", true },
    [BOUND_LOG_BYTES] = { "log_bytes", TERA, 16 * MEGA, "bytes", true },
    [BOUND_TASKS] = { "tasks", 65535, 64, "live tasks", false },
};


static void bounds_of_audit(uint64_t *values, bound_id_t id, uint64_t n);


void
bounds_default(uint64_t values[BOUND_COUNT])
{
    size_t  i;

    for (i = 0; i < BOUND_COUNT; i++) {
        values[i] = bound_table[i].standard;
    }

    bounds_complete(values);
}


void
bounds_complete(uint64_t values[BOUND_COUNT])
{
    uint64_t  lines;

    lines = 3 * values[BOUND_REQUESTS] + 2 * values[BOUND_REFUSALS]
            + values[BOUND_NAMES];

    bounds_of_audit(values, BOUND_AUDIT_LINES, lines);
    bounds_of_audit(values, BOUND_AUDIT_BYTES, lines * 1024);
}


static void
bounds_of_audit(uint64_t *values, bound_id_t id, uint64_t n)
{
    if (values[id] == 0) {
        values[id] = n < bound_table[id].max ? n : bound_table[id].max;
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


int
bound_parse_rate(const char *rate, const char *burst, uint64_t *per_second,
    uint64_t *at_once, const char **wrong)
{
    size_t  n;

    static const char  unit[] = "r/s";
    static const char  key[] = "burst=";

    *wrong = rate;

    n = strlen(rate);

    if (n < sizeof(unit) || strcmp(rate + n - (sizeof(unit) - 1), unit) != 0
        || bound_parse(BOUND_RATE, rate, n - (sizeof(unit) - 1), per_second)
           != 0)
    {
        return -1;
    }

    if (burst == NULL) {
        *at_once = 2 * *per_second;
        return 0;
    }

    *wrong = burst;

    n = sizeof(key) - 1;

    return strncmp(burst, key, n) == 0
           && bound_parse(BOUND_BURST, burst + n, strlen(burst + n), at_once)
              == 0 ? 0 : -1;
}
