/*
 * Lines to and from the broker.  The broker is trusted with more than the
 * launcher is, but a reply is still parsed as a stranger's: what sits on the
 * socket's path may be something else.
 */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/clock.h"
#include "base/fd_pass.h"
#include "broker/control.h"
#include "shared/utf8.h"


typedef struct {
    const char  *error;
    cause_t      cause;
} control_error_t;


static const control_error_t  control_errors[] = {
    { PROTOCOL_BAD_VERSION, CAUSE_BROKER_VERSION },
    { PROTOCOL_POLICY_UNKNOWN, CAUSE_POLICY_UNKNOWN },
    { PROTOCOL_NOT_ALLOWED, CAUSE_POLICY_NOT_ALLOWED },
    { PROTOCOL_BUSY, CAUSE_BROKER_BUSY },
    { PROTOCOL_CA_EXPIRED, CAUSE_BROKER_CA },
    { PROTOCOL_POLICY_GONE, CAUSE_POLICY_GONE },
    { PROTOCOL_REFUSALS, CAUSE_TASK_REFUSALS },
    { PROTOCOL_AUDIT_BUDGET, CAUSE_TASK_AUDIT_BUDGET },
    { PROTOCOL_OVERDUE, CAUSE_TASK_OVERDUE },
    { NULL, CAUSE_NONE }
};


#define CONTROL_RETRY      5            /* ms */
#define CONTROL_PERM_WAIT  100          /* ms, for the broker to accept */


static int control_dial(int fd, const struct sockaddr_un *sun, int64_t wait);
static int control_wait(control_t *c, short events, int64_t deadline);


control_t *
control_connect(const char *path, int64_t wait, fault_t *fault)
{
    int                 err;
    size_t              n;
    control_t          *c;
    struct stat         st;
    struct sockaddr_un  sun;

    n = strlen(path);
    sun = (struct sockaddr_un) { .sun_family = AF_UNIX };

    /* a path that is cut would be another socket's */

    if (n >= sizeof(sun.sun_path)) {
        (void) fault_set(fault, STAGE_BROKER, ENAMETOOLONG,
                         "the path of the broker's socket has %zu bytes: "
                         "at most %zu are possible", n,
                         sizeof(sun.sun_path) - 1);
        return NULL;
    }

    c = malloc(sizeof(control_t));

    if (c == NULL) {
        (void) fault_set(fault, STAGE_BROKER, ENOMEM, "no memory");
        return NULL;
    }

    (void) strcpy(sun.sun_path, path);
    c->len = 0;
    c->fd = socket(AF_UNIX, SOCK_STREAM|SOCK_CLOEXEC|SOCK_NONBLOCK, 0);

    if (c->fd == -1 || control_dial(c->fd, &sun, wait) != 0) {
        err = errno;
        control_free(c);

        /* refused, or not to be written by this user: in any case no socket */

        if ((err == ECONNREFUSED || err == EACCES) && stat(path, &st) == 0
            && !S_ISSOCK(st.st_mode))
        {
            err = ENOTSOCK;
        }

        (void) fault_set(fault, STAGE_BROKER, err,
                         "no broker answers on %.200s", path);
        errno = err;
        return NULL;
    }

    return c;
}


static int
control_dial(int fd, const struct sockaddr_un *sun, int64_t wait)
{
    int      err;
    int64_t  until;

    until = clock_ms() + wait;

    while (connect(fd, (const struct sockaddr *) sun, sizeof(*sun)) != 0) {

        err = errno;

        if (err != EAGAIN || clock_ms() >= until) {
            errno = err;
            return -1;
        }

        (void) poll(NULL, 0, CONTROL_RETRY);
    }

    return 0;
}


void
control_free(control_t *c)
{
    if (c) {

        descriptors_close(&c->fd, 1);

        free(c);
    }
}


int
control_send(control_t *c, json_t *message, const int *fds, unsigned nfds,
    int64_t deadline, fault_t *fault)
{
    char     *text;
    size_t    len, done;
    int64_t   perm;
    ssize_t   n;

    perm = clock_ms() + CONTROL_PERM_WAIT;
    text = json_dumps(message, JSON_COMPACT);
    json_decref(message);

    if (text == NULL) {
        return fault_set(fault, STAGE_BROKER, ENOMEM, "no memory");
    }

    len = strlen(text);
    text[len++] = '\n';                 /* over the NUL */

    if (len > PROTOCOL_LINE_MAX) {
        free(text);
        return fault_set(fault, STAGE_BROKER, EMSGSIZE,
                         "a message to the broker is too long");
    }

    for (done = 0; done < len; done += (size_t) n) {
        n = fd_pass_send(c->fd, text + done, len - done, fds, nfds,
                         MSG_DONTWAIT);

        if (n > 0) {
            nfds = 0;
            continue;
        }

        /* a broker can take no descriptors before it knows who sends them */

        if (errno == EPERM && nfds && clock_ms() < perm) {
            (void) poll(NULL, 0, CONTROL_RETRY);
            n = 0;
            continue;
        }

        if (errno != EAGAIN || control_wait(c, POLLOUT, deadline) != 0) {
            n = errno;
            free(text);

            /* what it said before it closed is read next, if it did */

            if (n == EPIPE || n == ECONNRESET) {
                return 0;
            }

            return fault_set(fault, STAGE_BROKER, (int) n,
                             "no message can be sent to the broker");
        }

        n = 0;
    }

    free(text);

    return 0;
}


control_state_t
control_read(control_t *c, json_t **message)
{
    char     *end;
    size_t    used;
    ssize_t   n;

    for ( ;; ) {
        end = memchr(c->buf, '\n', c->len);

        if (end) {
            used = (size_t) (end - c->buf);

            /* jansson takes a NUL after a number for white space */

            *message = memchr(c->buf, '\0', used)
                       ? NULL : json_loadb(c->buf, used,
                                           JSON_REJECT_DUPLICATES, NULL);

            c->len -= used + 1;
            (void) memmove(c->buf, end + 1, c->len);

            if (!json_is_object(*message)) {
                json_decref(*message);
                return CONTROL_GARBAGE;
            }

            return CONTROL_MESSAGE;
        }

        if (c->len == sizeof(c->buf)) {
            return CONTROL_GARBAGE;
        }

        n = recv(c->fd, c->buf + c->len, sizeof(c->buf) - c->len,
                 MSG_DONTWAIT);

        if (n > 0) {
            c->len += (size_t) n;
            continue;
        }

        if (n == 0) {
            return CONTROL_CLOSED;
        }

        if (errno == EAGAIN) {
            return CONTROL_AGAIN;
        }

        if (errno != EINTR) {
            return CONTROL_CLOSED;
        }
    }
}


json_t *
control_answer(control_t *c, int64_t deadline, fault_t *fault)
{
    json_t  *message;

    for ( ;; ) {

        switch (control_read(c, &message)) {

        case CONTROL_MESSAGE:

            if (json_object_get(message, "ok")) {
                return message;
            }

            json_decref(message);
            continue;

        case CONTROL_CLOSED:
            (void) fault_set_cause(fault, STAGE_BROKER, ECONNRESET,
                                   CAUSE_BROKER_CLOSED,
                                   "the broker closed the connection instead "
                                   "of answering");
            return NULL;

        case CONTROL_GARBAGE:
            (void) fault_set(fault, STAGE_BROKER, EPROTO,
                             "the answer on the broker's socket does not "
                             "follow the control protocol");
            return NULL;

        case CONTROL_AGAIN:
            break;
        }

        if (control_wait(c, POLLIN, deadline) != 0) {
            (void) fault_set(fault, STAGE_BROKER, errno,
                             "the broker did not answer in time");
            return NULL;
        }
    }
}


int
control_refused(json_t *answer, fault_t *fault)
{
    const char             *error, *text;
    const control_error_t  *e;

    error = json_string_value(json_object_get(answer, "error"));
    text = json_string_value(json_object_get(answer, "message"));

    if (error == NULL || strlen(error) > 64 || !utf8_is_printable(error)) {
        error = PROTOCOL_INTERNAL;
    }

    if (text == NULL || strlen(text) > 300 || !utf8_is_printable(text)) {
        text = "no message";
    }

    for (e = control_errors; e->error; e++) {
        if (strcmp(e->error, error) == 0) {
            break;
        }
    }

    return fault_set_cause(fault, STAGE_BROKER, 0, e->cause,
                           "the broker refused (%s): %s", error, text);
}


/* 0 when ready; -1 with ETIMEDOUT. */

static int
control_wait(control_t *c, short events, int64_t deadline)
{
    int            rc;
    int64_t        left;
    struct pollfd  fd;

    for ( ;; ) {
        left = deadline - clock_ms();

        if (left <= 0) {
            errno = ETIMEDOUT;
            return -1;
        }

        fd = (struct pollfd) { .fd = c->fd, .events = events };
        rc = poll(&fd, 1, left > 60000 ? 60000 : (int) left);

        if (rc > 0) {
            return 0;
        }

        if (rc == -1 && errno != EINTR) {
            return -1;
        }
    }
}
