/*
 * The generic cell rate algorithm (ITU-T I.371 section 5): one number says
 * when all turns that were taken will be used up at the rate.  It runs ahead
 * of the clock by at most the burst, and who takes a turn past that waits.
 */

#include "policy/rate.h"


#define SECOND  1000000000ULL


uint64_t
rate_turn(uint64_t next, uint64_t now, uint64_t rate, uint64_t burst,
    uint64_t *wait)
{
    uint64_t  step, ahead;

    step = SECOND / rate;
    ahead = step * burst;

    next = (next > now ? next : now) + step;
    *wait = next > now + ahead ? next - now - ahead : 0;

    return next;
}
