/*
 * Milliseconds of a clock that cannot be set back: CLOCK_MONOTONIC.
 */

#pragma once

#include <stdint.h>
#include <time.h>


static inline int64_t
clock_ms(void)
{
    struct timespec  ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts);

    return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}
