/*
 * Turns of what may be done so many times a second, with a burst of them at
 * once: who comes gets the next free turn, and waits for it.
 */

#pragma once

#include <stdint.h>


/*
 * Takes one turn.  next: what the last call returned, 0 at first; now: ns of
 * any clock that does not go back; rate: turns a second, from 1 to 1000000;
 * burst: turns that are free at once when none were taken, from 1.  Returns
 * the new next, and in *wait the ns until the turn.
 */
uint64_t rate_turn(uint64_t next, uint64_t now, uint64_t rate, uint64_t burst,
    uint64_t *wait);
