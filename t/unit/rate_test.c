/* Turns of what may be done so many times a second. */

#include "unit.h"

#include "policy/rate.h"


#define SECOND  1000000000ULL


/* How many of n calls at this time need not wait. */

static unsigned
at_once(uint64_t *next, uint64_t now, uint64_t rate, uint64_t burst,
    unsigned n)
{
    unsigned  i, free;
    uint64_t  wait;

    free = 0;

    for (i = 0; i < n; i++) {
        *next = rate_turn(*next, now, rate, burst, &wait);
        free += (wait == 0);
    }

    return free;
}


static void
test_burst(void **state)
{
    size_t    i;
    uint64_t  next;

    static const struct {
        uint64_t  rate, burst;
    } rows[] = {
        { 200, 400 }, { 1, 1 }, { 1, 2 }, { 3, 7 }, { 7, 3 }, { 333, 1 },
        { 100000, 1000 }, { 1000000, 1000 },
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {

        next = 0;

        expect(at_once(&next, 5 * SECOND, rows[i].rate, rows[i].burst, 2000)
               == rows[i].burst, "%llu/s: the burst is not %llu",
               (unsigned long long) rows[i].rate,
               (unsigned long long) rows[i].burst);

        /* unused time is worth one burst at most */

        next = 0;
        (void) at_once(&next, 5 * SECOND, rows[i].rate, rows[i].burst, 1);

        expect(at_once(&next, 5000000 * SECOND, rows[i].rate, rows[i].burst,
                       2000) == rows[i].burst,
               "%llu/s: a long silence is worth more than a burst",
               (unsigned long long) rows[i].rate);
    }
}


static void
test_order(void **state)
{
    unsigned  i;
    uint64_t  next, wait;

    (void) state;

    next = 0;

    /* 10 a second, 5 at once: the sixth waits 100 ms, the next 200 */

    for (i = 0; i < 25; i++) {
        next = rate_turn(next, SECOND, 10, 5, &wait);

        expect(wait == (i < 5 ? 0 : (i - 4) * SECOND / 10),
               "turn %u waits %llu ns", i, (unsigned long long) wait);
    }

    /* a second later ten of these are over: the next waits one second more */

    next = rate_turn(next, 2 * SECOND, 10, 5, &wait);

    assert_int_equal(wait, SECOND + SECOND / 10);
}


static void
test_rate(void **state)
{
    unsigned  i, free;
    uint64_t  next, now;

    (void) state;

    next = 0;
    free = 0;

    /* asked every ms, and whoever would wait goes away without a turn */

    for (i = 0; i < 10000; i++) {
        uint64_t  after, wait;

        now = SECOND + (uint64_t) i * (SECOND / 1000);
        after = rate_turn(next, now, 200, 400, &wait);

        if (wait == 0) {
            next = after;
            free++;
        }
    }

    assert_in_range(free, 400 + 10 * 200 - 2, 400 + 10 * 200 + 1);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        PROMISE("a burst is free at once, and no more", test_burst),
        PROMISE("whoever waits has a turn after those before", test_order),
        PROMISE("in the long run it is the rate", test_rate),
    };

    return unit_run(tests);
}
