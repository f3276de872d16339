/*
 * The task's streams in the loop: captured, or passed through.
 *
 * Passed through they may outlive the box, for what the pipes still hold is
 * the caller's; but only as long as the caller goes on reading.
 */

#include <errno.h>
#include <unistd.h>

#include "run/supervise.h"


#define SUPERVISE_READS     16          /* of a pipe, before others get on */


static void supervise_stream(supervise_t *s, stream_t *stream, int *fd,
    const struct pollfd *fds, output_t *out, int64_t now);


void
supervise_output(supervise_t *s, int *fd, output_t *out)
{
    int          i;
    ssize_t      n;
    static char  buf[65536];

    for (i = 0; i < SUPERVISE_READS; i++) {
        n = read(*fd, buf, sizeof(buf));

        if (n == -1 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }

        if (n <= 0) {
            (void) close(*fd);
            *fd = -1;
            return;
        }

        output_add(out, buf, (size_t) n);

        if (s->result->out.bytes + s->result->err.bytes
            > s->result->limits[LIMIT_OUTPUT_BYTES])
        {
            if (!s->is_dead) {
                supervise_kill(s, REASON_OUTPUT);
            }

            return;
        }
    }
}


void
supervise_streams(supervise_t *s, const struct pollfd *fds, int64_t now)
{
    if (s->in && s->box->in != -1) {
        (void) stream_step(s->in, fds);

        if (stream_is_done(s->in) || s->is_dead) {
            (void) close(s->box->in);
            s->box->in = -1;
            stream_drop(s->in);
        }
    }

    if (s->out) {
        supervise_stream(s, s->out, &s->box->out, fds + 2, &s->result->out,
                         now);
        supervise_stream(s, s->err, &s->box->err, fds + 4, &s->result->err,
                         now);
    }
}


/*
 * When the caller does not take the output any more, the pipe is closed: the
 * task gets SIGPIPE, as it would without a launcher in between.
 */

static void
supervise_stream(supervise_t *s, stream_t *stream, int *fd,
    const struct pollfd *fds, output_t *out, int64_t now)
{
    size_t    start;
    uint64_t  n;

    start = stream->start;
    n = stream_step(stream, fds);
    out->bytes += n;

    if (s->is_dead && (n > 0 || stream->start != start)) {
        s->deadline = now + SUPERVISE_RAW_WAIT;
    }

    if (*fd != -1 && (stream->from == -1 || stream->to == -1)) {
        (void) close(*fd);
        *fd = -1;
        stream->from = -1;
    }

    if (s->result->out.bytes + s->result->err.bytes
        > s->result->limits[LIMIT_OUTPUT_BYTES] && !s->is_dead)
    {
        supervise_kill(s, REASON_OUTPUT);
    }
}


bool
supervise_is_drained(const supervise_t *s)
{
    if (s->out) {
        return stream_is_done(s->out) && stream_is_done(s->err);
    }

    return s->box->out == -1 && s->box->err == -1;
}
