/*
 * The table of limits and the readers of its units.  Bounds are judged where
 * the text is read, so a value that exists is one that can be enforced.
 */

#include <stdio.h>
#include <string.h>

#include "jail/shared/limits.h"


#define K  1024ULL
#define M  (1024 * K)
#define G  (1024 * M)
#define T  (1024 * G)

#define SECOND  1000ULL
#define HOUR    (3600 * SECOND)


const limit_t  limit_table[LIMIT_COUNT] = {

    /* directive, flag, key, unit, min, max, default */

    [LIMIT_CPU] = { "cpu", "cpu", "cpu", UNIT_CORES,
                    10, 1024000, 1000 },
    [LIMIT_CPU_TIME] = { "cpu_time", "cpu-time", "cpu_time_ms", UNIT_TIME,
                         1 * SECOND, 168 * HOUR, 60 * SECOND },
    [LIMIT_MEMORY] = { "memory", "memory", "memory", UNIT_BYTES,
                       4 * M, 16 * T, 512 * M },
    [LIMIT_PIDS] = { "pids", "pids", "pids", UNIT_COUNT,
                     2, 4194304, 256 },
    [LIMIT_OPEN_FILES] = { "open_files", "open-files", "open_files",
                           UNIT_COUNT, 16, 1048576, 1024 },
    [LIMIT_WALL_CLOCK] = { "wall_clock", "wall-clock", "wall_clock_ms",
                           UNIT_TIME, 10, 168 * HOUR, 20 * SECOND },
    [LIMIT_OUTPUT] = { "output", "output", "output", UNIT_COUNT,
                       100, 100000000, 10000 },
    [LIMIT_OUTPUT_BYTES] = { "output_bytes", "output-bytes", "output_bytes",
                             UNIT_BYTES, 4 * K, 16 * T, 1 * G },
    [LIMIT_NEAR] = { "near_limit", NULL, "near_limit", UNIT_PERCENT,
                     1, 100, 80 },
};


static const char *const  limit_errors[LIMIT_COUNT] = {
    [LIMIT_CPU] = "must be a number of cores from 0.01 to 1024",
    [LIMIT_CPU_TIME] = "must be a time from 1s to 168h",
    [LIMIT_MEMORY] = "must be a size from 4m to 16t",
    [LIMIT_PIDS] = "must be a count from 2 to 4194304",
    [LIMIT_OPEN_FILES] = "must be a count from 16 to 1048576",
    [LIMIT_WALL_CLOCK] = "must be a time from 10ms to 168h",
    [LIMIT_OUTPUT] = "must be a count of characters from 100 to 100000000",
    [LIMIT_OUTPUT_BYTES] = "must be a size from 4k to 16t",
    [LIMIT_NEAR] = "must be a share from 1% to 100%",
};


typedef struct {
    const char  *suffix;
    uint64_t     factor;
} unit_suffix_t;


static const unit_suffix_t  time_suffixes[] = {
    { "ms", 1 }, { "s", SECOND }, { "m", 60 * SECOND }, { "h", HOUR },
    { "", SECOND }, { NULL, 0 }
};

static const unit_suffix_t  bytes_suffixes[] = {
    { "", 1 }, { "k", K }, { "m", M }, { "g", G }, { "t", T },
    { "K", K }, { "M", M }, { "G", G }, { "T", T }, { NULL, 0 }
};

static const unit_suffix_t  count_suffixes[] = { { "", 1 }, { NULL, 0 } };

static const unit_suffix_t  percent_suffixes[] = { { "%", 1 }, { NULL, 0 } };


static int limit_parse_number(const char *text, size_t n,
    const unit_suffix_t *suffixes, uint64_t *value);
static int limit_parse_cores(const char *text, size_t n, uint64_t *value);


int
limit_parse(limit_id_t id, const char *text, size_t n, uint64_t *value,
    const char **err)
{
    uint64_t        v;
    const limit_t  *limit;

    limit = &limit_table[id];

    if (limit_parse_unit(limit->unit, text, n, &v) != 0
        || v < limit->min || v > limit->max)
    {
        *err = limit_errors[id];
        return -1;
    }

    *value = v;

    return 0;
}


int
limit_parse_unit(limit_unit_t unit, const char *text, size_t n,
    uint64_t *value)
{
    static const unit_suffix_t *const  suffixes[] = {
        [UNIT_TIME] = time_suffixes,
        [UNIT_BYTES] = bytes_suffixes,
        [UNIT_COUNT] = count_suffixes,
        [UNIT_PERCENT] = percent_suffixes,
    };

    return unit == UNIT_CORES
           ? limit_parse_cores(text, n, value)
           : limit_parse_number(text, n, suffixes[unit], value);
}


int
limit_parse_bytes(const char *text, size_t n, uint64_t *value)
{
    return limit_parse_unit(UNIT_BYTES, text, n, value);
}


void
limits_default(uint64_t values[LIMIT_COUNT])
{
    size_t  i;

    for (i = 0; i < LIMIT_COUNT; i++) {
        values[i] = limit_table[i].standard;
    }
}


char *
limit_text(limit_id_t id, uint64_t value, char *dst, size_t cap)
{
    return limit_unit_text(limit_table[id].unit, value, dst, cap);
}


char *
limit_unit_text(limit_unit_t unit, uint64_t value, char *dst, size_t cap)
{
    size_t                i;
    unsigned long long    v;
    const unit_suffix_t  *s, *best;

    v = value;

    switch (unit) {

    case UNIT_CORES:
        (void) snprintf(dst, cap, "%llu.%03llu", v / 1000, v % 1000);

        /* "1.500" is spelled "1.5", "1.000" is "1.0" */
        for (i = strlen(dst); i > 2 && dst[i - 1] == '0' && dst[i - 2] != '.';
             i--)
        {
            dst[i - 1] = '\0';
        }

        return dst;

    case UNIT_COUNT:
        (void) snprintf(dst, cap, "%llu", v);
        return dst;

    case UNIT_PERCENT:
        (void) snprintf(dst, cap, "%llu%%", v);
        return dst;

    case UNIT_TIME:
        s = time_suffixes;
        break;

    default: /* UNIT_BYTES */
        s = bytes_suffixes;
        break;
    }

    /* the largest suffix that divides the value exactly */

    for (best = s; s->suffix; s++) {
        if (v != 0 && v % s->factor == 0 && s->factor > best->factor) {
            best = s;
        }
    }

    (void) snprintf(dst, cap, "%llu%s",
                    v / (unsigned long long) best->factor, best->suffix);

    return dst;
}


/* Digits, then one of the suffixes, and nothing else; no overflow. */

static int
limit_parse_number(const char *text, size_t n, const unit_suffix_t *suffixes,
    uint64_t *value)
{
    size_t    i;
    uint64_t  v;

    v = 0;

    for (i = 0; i < n && text[i] >= '0' && text[i] <= '9'; i++) {
        if (v > (UINT64_MAX - 9) / 10) {
            return -1;
        }

        v = v * 10 + (uint64_t) (text[i] - '0');
    }

    if (i == 0) {
        return -1;
    }

    for ( /* void */ ; suffixes->suffix; suffixes++) {

        if (strlen(suffixes->suffix) != n - i
            || memcmp(suffixes->suffix, text + i, n - i) != 0)
        {
            continue;
        }

        if (v > UINT64_MAX / suffixes->factor) {
            return -1;
        }

        *value = v * suffixes->factor;

        return 0;
    }

    return -1;
}


/* "2", "0.5", "1.25": at most three decimals, kept as thousandths. */

static int
limit_parse_cores(const char *text, size_t n, uint64_t *value)
{
    size_t    i, decimals;
    bool      point;
    uint64_t  v;

    v = 0;
    decimals = 0;
    point = false;

    for (i = 0; i < n; i++) {

        if (text[i] == '.' && !point && i > 0) {
            point = true;
            continue;
        }

        if (text[i] < '0' || text[i] > '9' || decimals == 3 || v > 10000000) {
            return -1;
        }

        v = v * 10 + (uint64_t) (text[i] - '0');
        decimals += point;
    }

    if (n == 0 || (point && decimals == 0)) {
        return -1;
    }

    for ( /* void */ ; decimals < 3; decimals++) {
        v *= 10;
    }

    *value = v;

    return 0;
}
