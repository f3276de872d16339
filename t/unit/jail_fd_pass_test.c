/* Descriptors beside bytes: those that fit arrive, no more, close-on-exec. */

#include "unit.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd_pass.h"


static unsigned
count_open(void)
{
    int       fd;
    unsigned  n;

    for (fd = 0, n = 0; fd < 256; fd++) {
        n += (fcntl(fd, F_GETFD) != -1);
    }

    return n;
}


/* The room is odd on purpose: rounded up, one more would fit. */

static void
test_pass(void **state)
{
    int       pair[2], sent[FD_PASS_MAX], got[FD_PASS_MAX + 1];
    char      c;
    size_t    i;
    unsigned  k, n, before;

    static const struct {
        unsigned  sent;
        unsigned  room;
        unsigned  got;
    } cases[] = {
        { 0, 3, 0 }, { 1, 3, 1 }, { 3, 3, 3 }, { 4, 3, 3 },
        { 4, 1, 1 }, { FD_PASS_MAX, FD_PASS_MAX, FD_PASS_MAX },
        { FD_PASS_MAX, 5, 5 },
    };

    (void) state;

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET|SOCK_CLOEXEC, 0,
                                pair), 0);

    for (k = 0; k < FD_PASS_MAX; k++) {
        sent[k] = pair[0];
    }

    for (i = 0; i < COUNT(cases); i++) {
        before = count_open();

        for (k = 0; k <= FD_PASS_MAX; k++) {
            got[k] = -1;
        }

        assert_int_equal(fd_pass_send(pair[0], "x", 1, sent, cases[i].sent,
                                      0), 1);
        n = cases[i].room;
        assert_int_equal(fd_pass_receive(pair[1], &c, 1, got, &n, 0), 1);

        expect(c == 'x' && n == cases[i].got, "case %zu: %u arrived", i, n);
        expect(got[n] == -1, "case %zu: %d behind the last", i, got[n]);
        expect(count_open() == before + n, "case %zu: %u are open", i,
               count_open() - before);

        for (k = 0; k < n; k++) {
            expect(fcntl(got[k], F_GETFD) == FD_CLOEXEC, "case %zu", i);
            (void) close(got[k]);
        }
    }

    n = 1;
    (void) close(pair[0]);
    assert_int_equal(fd_pass_receive(pair[1], &c, 1, got, &n, 0), 0);
    assert_int_equal(n, 0);
    (void) close(pair[1]);
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        PROMISE("descriptors arrive as far as there is room, others are "
                "closed", test_pass),
    };

    return unit_run(tests);
}
