/*
 * The task's streams in the loop: captured, or passed through.
 *
 * Passed through they may outlive the box, for what the pipes still hold is
 * the caller's; but only as long as the caller goes on reading.
 */

#include <errno.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "run/supervise.h"


#define SUPERVISE_READS     16          /* of a pipe, before others get on */


static void supervise_stream(supervise_t *s, stream_t *stream, int *fd,
    const struct pollfd *fds, output_t *out, int64_t now);
static reason_t supervise_output_bytes(const supervise_t *s);


reason_t
supervise_output(supervise_t *s, int *fd, output_t *out)
{
    int          i;
    ssize_t      n;
    static char  buf[65536];

    for (i = 0; i < SUPERVISE_READS; i++) {
        n = read(*fd, buf, sizeof(buf));

        if (n == -1 && (errno == EAGAIN || errno == EINTR)) {
            break;
        }

        if (n <= 0) {
            descriptors_close(fd, 1);
            break;
        }

        output_add(out, buf, (size_t) n);

        if (supervise_output_bytes(s) != REASON_OK) {
            break;
        }
    }

    return supervise_output_bytes(s);
}


reason_t
supervise_streams(supervise_t *s, const struct pollfd *fds, int64_t now)
{
    if (s->in && s->box->in != -1) {
        (void) stream_step(s->in, fds);

        if (stream_is_done(s->in) || s->is_dead) {
            descriptors_close(&s->box->in, 1);
            stream_drop(s->in);
        }
    }

    if (s->out) {
        supervise_stream(s, s->out, &s->box->out, fds + 2, &s->result->out,
                         now);
        supervise_stream(s, s->err, &s->box->err, fds + 4, &s->result->err,
                         now);
    }

    return supervise_output_bytes(s);
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
        descriptors_close(fd, 1);
        stream->from = -1;
    }
}


/* What is read after the end of the box ends nothing any more. */

static reason_t
supervise_output_bytes(const supervise_t *s)
{
    return s->result->out.bytes + s->result->err.bytes
           > s->result->limits[LIMIT_OUTPUT_BYTES] && !s->is_dead
           ? REASON_OUTPUT : REASON_OK;
}


bool
supervise_is_drained(const supervise_t *s)
{
    if (s->out) {
        return stream_is_done(s->out) && stream_is_done(s->err);
    }

    return s->box->out == -1 && s->box->err == -1;
}
