/*
 * It reads only when it holds nothing, so what is under way is bounded by the
 * buffer, and the writer waits for the reader as in any pipe.
 *
 * The caller's descriptors may be shared with other processes, so they are
 * not made non-blocking: that would be seen by all of them.  poll(2) says
 * when to go on, and at most PIPE_BUF bytes are written then, which a pipe
 * that is ready takes at once.  Another process that fills it in between can
 * make the call wait; the launcher's timer interrupts it.
 */

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "run/stream.h"


#define STREAM_CHUNK  4096              /* PIPE_BUF */


static uint64_t stream_read(stream_t *s);
static void stream_write(stream_t *s);


void
stream_init(stream_t *s, int from, int to)
{
    s->from = from;
    s->to = to;
    s->is_terminal = (isatty(to) == 1);
    s->terminal = (terminal_t) { 0 };
    s->start = 0;
    s->end = 0;
}


/* An entry that is not waited for must be -1: poll tells of its end anyway. */

void
stream_poll(const stream_t *s, struct pollfd fds[2])
{
    bool  is_empty;

    is_empty = (s->start == s->end);

    fds[0] = (struct pollfd) {
        .fd = is_empty && s->to != -1 ? s->from : -1, .events = POLLIN
    };

    /* with nothing to write only the reader's end is listened for */

    fds[1] = (struct pollfd) {
        .fd = s->from != -1 || !is_empty ? s->to : -1,
        .events = is_empty ? 0 : POLLOUT
    };
}


uint64_t
stream_step(stream_t *s, const struct pollfd fds[2])
{
    uint64_t  n;

    n = 0;

    if (fds[1].revents & (POLLERR|POLLHUP|POLLNVAL)) {
        stream_drop(s);
        return 0;
    }

    if (fds[0].revents && s->from != -1) {
        n = stream_read(s);
    }

    if ((fds[1].revents & POLLOUT) && s->start < s->end) {
        stream_write(s);
    }

    return n;
}


bool
stream_is_done(const stream_t *s)
{
    return s->to == -1 || (s->from == -1 && s->start == s->end);
}


void
stream_drop(stream_t *s)
{
    s->to = -1;
    s->start = 0;
    s->end = 0;
}


static uint64_t
stream_read(stream_t *s)
{
    ssize_t  n;

    static char  buf[STREAM_BUFFER];

    n = read(s->from, buf, sizeof(buf));

    if (n == -1 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }

    if (n <= 0) {
        s->from = -1;
        return 0;
    }

    s->start = 0;

    if (s->is_terminal) {
        s->end = terminal_filter(&s->terminal, buf, (size_t) n, s->buf);

    } else {
        (void) memcpy(s->buf, buf, (size_t) n);
        s->end = (size_t) n;
    }

    return (uint64_t) n;
}


static void
stream_write(stream_t *s)
{
    size_t   len;
    ssize_t  n;

    len = s->end - s->start;
    n = write(s->to, s->buf + s->start, len < STREAM_CHUNK ? len
                                                           : STREAM_CHUNK);

    if (n >= 0) {
        s->start += (size_t) n;

    } else if (errno != EAGAIN && errno != EINTR) {
        stream_drop(s);
    }
}
