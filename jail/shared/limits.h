/*
 * The one table of limits: the directive, the flag, the JSON key, the unit,
 * the bounds and the default of each.  The launcher and the broker are built
 * from the same table, so a limit cannot mean two things.
 *
 * Values are unsigned 64-bit integers in the unit's base: thousandths of a
 * core, milliseconds, bytes, a count, characters, percent.
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>


typedef enum {
    LIMIT_CPU = 0,
    LIMIT_CPU_TIME,
    LIMIT_MEMORY,
    LIMIT_PIDS,
    LIMIT_OPEN_FILES,
    LIMIT_WALL_CLOCK,
    LIMIT_OUTPUT,
    LIMIT_OUTPUT_BYTES,
    LIMIT_NEAR,
    LIMIT_COUNT
} limit_id_t;


typedef enum {
    UNIT_CORES = 0,             /* "0.5", "2": thousandths of a core */
    UNIT_TIME,                  /* "500ms", "20s", "2m", "1h": milliseconds;
                                   a bare number is seconds */
    UNIT_BYTES,                 /* "4096", "64k", "512m", "1g": bytes */
    UNIT_COUNT,
    UNIT_PERCENT                /* "80%" */
} limit_unit_t;


typedef struct {
    const char    *directive;   /* in agent_policy, also the name in messages */
    const char    *flag;        /* of jail run, without "--"; NULL: none */
    const char    *key;         /* in the JSON of `limits` */
    limit_unit_t   unit;
    uint64_t       min;
    uint64_t       max;
    uint64_t       standard;    /* the default */
} limit_t;


extern const limit_t  limit_table[LIMIT_COUNT];


/*
 * Reads a value in the limit's unit; the whole text must be used and the
 * value must lie within the bounds.  0, or -1 with *err set to a constant
 * sentence ("must be from 1m to 1t").
 */
int limit_parse(limit_id_t id, const char *text, size_t n, uint64_t *value,
    const char **err);

/* Reads a value without bounds, for values that are not in the table. */
int limit_parse_unit(limit_unit_t unit, const char *text, size_t n,
    uint64_t *value);

/* "64k", without bounds. */
int limit_parse_bytes(const char *text, size_t n, uint64_t *value);

/* Fills values with the defaults. */
void limits_default(uint64_t values[LIMIT_COUNT]);

/* Writes a value as a directive spells it; returns dst. */
char *limit_text(limit_id_t id, uint64_t value, char *dst, size_t cap);
char *limit_unit_text(limit_unit_t unit, uint64_t value, char *dst,
    size_t cap);
