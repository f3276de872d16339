/*
 * The lease and its life.  States and what leads from one to the other:
 *
 *   OPEN      -- serve answered ------------------------------> SERVING
 *   SERVING   -- the connection closes -----------------------> RESUMING
 *   SERVING   -- drain: resume on another connection, and keep the old ones
 *                until they close, since requests in flight end there
 *   RESUMING  -- resume answered -----------------------------> SERVING
 *   any       -- refused, garbage, ten seconds without answer -> LOST
 *
 * A refusal is final: the broker judges a resumption by its new policy, and
 * a box that the policy does not allow must end at once.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "broker/broker.h"
#include "broker/open_reply.h"


#define BROKER_OPEN_WAIT    5000        /* ms, for an answer to open */
#define BROKER_CLOSE_WAIT   5000        /* for an answer to close */
#define BROKER_OLD_WAIT     5000        /* for workers that leave */
#define BROKER_RESUME_WAIT  10000
#define BROKER_RETRY_MIN    20
#define BROKER_RETRY_MAX    200


static json_t *broker_env(const variables_t *variables);
static int broker_send(control_t *c, json_t *request, fault_t *fault);
static control_state_t broker_read(control_t **c, json_t **message,
    fault_t *fault);
static int broker_active(broker_t *b, int64_t now, fault_t *fault);
static int broker_next(broker_t *b, int64_t now, fault_t *fault);
static int broker_leased(broker_t *b, json_t *answer, fault_t *fault);
static void broker_resume(broker_t *b, int64_t now);
static void broker_try(broker_t *b, int64_t now);
static void broker_retry(broker_t *b, int64_t now);
static void broker_drain(broker_t *b);
static int broker_lost(broker_t *b);
static void broker_drop(broker_t *b);
static void broker_end_old(broker_t *b);


int
broker_open(broker_t *b, const char *path, const broker_request_t *request,
    fault_t *fault)
{
    json_t  *open;

    *b = (broker_t) {
        .state = BROKER_LOST, .path = path,
        .has_variables = request->variables->n > 0
    };

    b->active = control_connect(path, BROKER_OPEN_WAIT, fault);

    if (b->active == NULL) {
        return -1;
    }

    open = json_pack("{s:i, s:s, s:s, s:s*, s:s*, s:s*, s:o*}",
                     "v", PROTOCOL_VERSION,
                     "op", PROTOCOL_OPEN,
                     "policy", request->policy,
                     "external_id", request->external_id,
                     "label", request->label,
                     "code_sha256", request->code_sha256,
                     "env", broker_env(request->variables));

    if (broker_send(b->active, open, fault) != 0) {
        return -1;
    }

    b->state = BROKER_ASKED;

    return 0;
}


int
broker_opened(broker_t *b, uint64_t limits[LIMIT_COUNT], box_spec_t *spec,
    fault_t *fault)
{
    json_t      *answer;
    const char  *error;

    b->state = BROKER_LOST;
    answer = control_answer(b->active, clock_ms() + BROKER_OPEN_WAIT, fault);

    if (answer == NULL) {
        return -1;
    }

    b->task = answer;

    if (!json_is_true(json_object_get(answer, "ok"))) {
        error = json_string_value(json_object_get(answer, "error"));
        (void) control_refused(answer, fault);

        /* of all that is asked for only a variable's name can be wrong */

        if (b->has_variables && error
            && strcmp(error, PROTOCOL_BAD_REQUEST) == 0)
        {
            fault->stage = STAGE_USAGE;
        }

        return -1;
    }

    if (open_reply_read(answer, b->task_id, b->policy_hash, limits, spec,
                        fault)
        != 0)
    {
        return -1;
    }

    b->state = BROKER_OPEN;

    return 0;
}


/* NULL when there are none: the key is left out then. */

static json_t *
broker_env(const variables_t *v)
{
    char       name[VARIABLES_NAME_MAX + 1];
    json_t    *env;
    unsigned   i;

    env = v->n ? json_object() : NULL;

    for (i = 0; env && i < v->n; i++) {
        (void) memcpy(name, v->pairs[i], v->names[i]);
        name[v->names[i]] = '\0';
        (void) json_object_set_new(env, name,
                                json_string(v->pairs[i] + v->names[i] + 1));
    }

    return env;
}


int
broker_serve(broker_t *b, const int *doors, unsigned ndoors, fault_t *fault)
{
    (void) memcpy(b->doors, doors, ndoors * sizeof(int));
    b->ndoors = ndoors;

    b->deadline = clock_ms() + BROKER_OPEN_WAIT;

    return control_send(b->active, json_pack("{s:s}", "op", PROTOCOL_SERVE),
                        doors, ndoors, b->deadline, fault);
}


unsigned
broker_poll(broker_t *b, struct pollfd *fds)
{
    unsigned    i, n;
    control_t  *c;

    n = 0;

    for (i = 0; i < BROKER_POLLFDS; i++) {

        c = (i == 0) ? b->active : (i == 1) ? b->next : b->draining[i - 2];

        if (c) {
            fds[n++] = (struct pollfd) { .fd = c->fd, .events = POLLIN };
        }
    }

    return n;
}


int64_t
broker_deadline(const broker_t *b)
{
    if (b->state == BROKER_OPEN && b->ndoors) {
        return b->deadline;
    }

    if (b->state != BROKER_RESUMING && b->next == NULL && b->retry_at == 0) {
        return INT64_MAX;
    }

    return b->retry_at && b->retry_at < b->deadline ? b->retry_at
                                                    : b->deadline;
}


int
broker_events(broker_t *b, int64_t now, fault_t *fault)
{
    json_t    *message;
    fault_t    ignored;
    unsigned   i;

    if (b->state == BROKER_NONE || b->state == BROKER_LOST) {
        return 0;
    }

    /* what crossed the resumption on its way is of no use */

    ignored = (fault_t) { 0 };

    for (i = 0; i < BROKER_DRAINING; i++) {
        while (broker_read(&b->draining[i], &message, &ignored)
               == CONTROL_MESSAGE)
        {
            json_decref(message);
        }
    }

    if (broker_active(b, now, fault) != 0) {
        return broker_lost(b);
    }

    if (b->retry_at && now >= b->retry_at) {
        broker_try(b, now);
    }

    if (broker_next(b, now, fault) != 0) {
        return broker_lost(b);
    }

    if (broker_deadline(b) != INT64_MAX && now >= b->deadline) {
        if (b->state == BROKER_OPEN) {
            (void) fault_set(fault, STAGE_BROKER, ETIMEDOUT,
                             "the broker did not accept the doors");

        } else {
            (void) fault_set_cause(fault, STAGE_BROKER, ETIMEDOUT,
                                   CAUSE_BROKER_GONE,
                                   "the broker was gone for %d s",
                                   BROKER_RESUME_WAIT / 1000);
        }

        return broker_lost(b);
    }

    return 0;
}


/*
 * The next message of a connection that may be NULL, without waiting.  One
 * that is closed, or not to be understood, is gone afterwards.
 */

static control_state_t
broker_read(control_t **c, json_t **message, fault_t *fault)
{
    control_state_t  state;

    state = *c ? control_read(*c, message) : CONTROL_AGAIN;

    if (state == CONTROL_GARBAGE) {
        (void) fault_set(fault, STAGE_BROKER, EPROTO,
                         "the broker did not follow the protocol");
    }

    if (state == CONTROL_CLOSED || state == CONTROL_GARBAGE) {
        control_free(*c);
        *c = NULL;
    }

    return state;
}


static int
broker_active(broker_t *b, int64_t now, fault_t *fault)
{
    int               rc;
    json_t           *message;
    const char       *event;
    control_state_t   state;

    while ((state = broker_read(&b->active, &message, fault))
           == CONTROL_MESSAGE)
    {
        rc = 0;
        event = json_string_value(json_object_get(message, "event"));

        if (event) {

            if (strcmp(event, PROTOCOL_DRAIN) == 0
                && b->state == BROKER_SERVING)
            {
                broker_resume(b, now);
            }

        } else if (json_object_get(message, "ok")) {
            rc = broker_leased(b, message, fault);
        }

        json_decref(message);

        if (rc != 0) {
            return -1;
        }
    }

    if (state == CONTROL_CLOSED && b->state == BROKER_OPEN) {
        return fault_set(fault, STAGE_BROKER, ECONNRESET,
                         "the broker closed the connection instead of "
                         "accepting the doors");
    }

    if (state == CONTROL_CLOSED) {
        broker_resume(b, now);
    }

    return state == CONTROL_GARBAGE ? -1 : 0;
}


static int
broker_next(broker_t *b, int64_t now, fault_t *fault)
{
    int               rc;
    json_t           *message;
    control_state_t   state;

    while ((state = broker_read(&b->next, &message, fault))
           == CONTROL_MESSAGE)
    {
        if (json_object_get(message, "ok") == NULL) {
            json_decref(message);
            continue;
        }

        rc = broker_leased(b, message, fault);
        json_decref(message);

        if (rc != 0) {
            return -1;
        }

        broker_drain(b);
        b->active = b->next;
        b->next = NULL;
        b->retry_at = 0;
    }

    if (state == CONTROL_CLOSED) {
        broker_retry(b, now);
    }

    return state == CONTROL_GARBAGE ? -1 : 0;
}


/* {"ok":true,"lease":"…"}, to serve or to resume */

static int
broker_leased(broker_t *b, json_t *answer, fault_t *fault)
{
    json_t      *egress;
    const char  *lease;

    if (!json_is_true(json_object_get(answer, "ok"))) {
        egress = json_object_get(answer, "egress");

        if (b->egress == NULL && json_is_object(egress)) {
            b->egress = json_incref(egress);
        }

        return control_refused(answer, fault);
    }

    lease = json_string_value(json_object_get(answer, "lease"));

    if (lease == NULL || strlen(lease) > PROTOCOL_LEASE_MAX) {

        if (b->state == BROKER_SERVING && b->next == NULL) {
            return 0;
        }

        return fault_set(fault, STAGE_BROKER, EPROTO,
                         "the broker's answer has no lease");
    }

    (void) strcpy(b->lease, lease);
    b->state = BROKER_SERVING;

    return 0;
}


static void
broker_resume(broker_t *b, int64_t now)
{
    if (b->active == NULL) {
        b->state = BROKER_RESUMING;
    }

    if (b->next || b->retry_at) {
        return;
    }

    b->deadline = now + BROKER_RESUME_WAIT;
    b->retry_wait = 0;
    broker_try(b, now);
}


/* A failure to connect or to send is a broker that is not back yet. */

static void
broker_try(broker_t *b, int64_t now)
{
    json_t   *resume;
    fault_t   ignored;

    ignored = (fault_t) { 0 };
    b->retry_at = 0;
    b->next = control_connect(b->path, 0, &ignored);

    if (b->next == NULL) {
        broker_retry(b, now);
        return;
    }

    resume = json_pack("{s:i, s:s, s:s, s:s}",
                       "v", PROTOCOL_VERSION,
                       "op", PROTOCOL_RESUME,
                       "task_id", b->task_id,
                       "lease", b->lease);

    if (control_send(b->next, resume, b->doors, b->ndoors, b->deadline,
                     &ignored)
        != 0)
    {
        control_free(b->next);
        b->next = NULL;
        broker_retry(b, now);
    }
}


static void
broker_retry(broker_t *b, int64_t now)
{
    b->retry_wait = b->retry_wait == 0 ? BROKER_RETRY_MIN
                                       : 2 * b->retry_wait;

    if (b->retry_wait > BROKER_RETRY_MAX) {
        b->retry_wait = BROKER_RETRY_MAX;
    }

    b->retry_at = now + b->retry_wait;
}


/*
 * The active connection is an old one from here on.  A worker that leaves has
 * requests of the task to serve until it closes: another reload must not end
 * them.  Only the oldest has to go where there are too many.
 */

static void
broker_drain(broker_t *b)
{
    unsigned  i;

    for (i = 0; i < BROKER_DRAINING - 1 && b->draining[i]; i++) { /* void */ }

    control_free(b->draining[i]);

    while (i > 0) {
        b->draining[i] = b->draining[i - 1];
        i--;
    }

    b->draining[0] = b->active;
}


static int
broker_lost(broker_t *b)
{
    b->state = BROKER_LOST;
    b->retry_at = 0;

    control_free(b->next);
    b->next = NULL;
    broker_drop(b);

    return -1;
}


static void
broker_drop(broker_t *b)
{
    unsigned  i;

    for (i = 0; i < BROKER_DRAINING; i++) {
        control_free(b->draining[i]);
        b->draining[i] = NULL;
    }
}


void
broker_near_limit(broker_t *b, const char *limit, uint64_t used)
{
    json_t   *message;
    fault_t   ignored;

    if (b->state != BROKER_SERVING || b->active == NULL) {
        return;
    }

    message = json_pack("{s:s, s:s, s:I}", "op", PROTOCOL_NEAR_LIMIT,
                        "limit", limit, "used", (json_int_t) used);
    ignored = (fault_t) { 0 };

    (void) control_send(b->active, message, NULL, 0, clock_ms(), &ignored);
}


/*
 * A resumption under way is waited for: the summary of what the task was
 * refused is kept by the broker, whichever worker it is now.
 */

void
broker_close(broker_t *b, const broker_close_t *end)
{
    json_t         *close;
    int64_t         now, until;
    fault_t         ignored;
    unsigned        n;
    struct pollfd   fds[BROKER_POLLFDS];

    ignored = (fault_t) { 0 };

    for (now = clock_ms(); b->state == BROKER_RESUMING; now = clock_ms()) {

        if (broker_events(b, now, &ignored) != 0) {
            break;
        }

        n = broker_poll(b, fds);
        until = broker_deadline(b) - now;
        (void) poll(fds, n, until > 1000 ? 1000 : until < 0 ? 0 : (int) until);
    }

    if (b->active == NULL || b->egress
        || (b->state != BROKER_SERVING && b->state != BROKER_OPEN))
    {
        return;
    }

    broker_end_old(b);

    close = json_pack("{s:s, s:s, s:o, s:{s:I, s:I, s:I, s:I, s:I}}",
                      "op", PROTOCOL_CLOSE,
                      "reason", end->reason,
                      "exit_code", end->exit_code < 0
                                   ? json_null()
                                   : json_integer(end->exit_code),
                      "usage",
                      "wall_ms", (json_int_t) end->wall_ms,
                      "cpu_ms", (json_int_t) end->cpu_ms,
                      "memory_peak", (json_int_t) end->memory_peak,
                      "pids_peak", (json_int_t) end->pids_peak,
                      "disk_bytes", (json_int_t) end->disk_bytes);

    b->is_closing = control_send(b->active, close, NULL, 0,
                                 clock_ms() + BROKER_CLOSE_WAIT, &ignored)
                    == 0;
}


/*
 * Workers that leave end what they still serve of the task, and record it,
 * before its end is asked for: the answer names what had none.
 */

static void
broker_end_old(broker_t *b)
{
    json_t         *message;
    int64_t         left, until;
    fault_t         ignored;
    unsigned        i, n;
    struct pollfd   fds[BROKER_DRAINING];

    ignored = (fault_t) { 0 };

    for (i = 0; i < BROKER_DRAINING; i++) {
        if (b->draining[i]) {
            (void) shutdown(b->draining[i]->fd, SHUT_WR);
        }
    }

    until = clock_ms() + BROKER_OLD_WAIT;

    for ( ;; ) {

        n = 0;

        for (i = 0; i < BROKER_DRAINING; i++) {

            while (broker_read(&b->draining[i], &message, &ignored)
                   == CONTROL_MESSAGE)
            {
                json_decref(message);
            }

            if (b->draining[i]) {
                fds[n++] = (struct pollfd) { .fd = b->draining[i]->fd,
                                             .events = POLLIN };
            }
        }

        left = until - clock_ms();

        if (n == 0 || left <= 0) {
            return;
        }

        (void) poll(fds, n, (int) left);
    }
}


json_t *
broker_closed(broker_t *b)
{
    json_t   *answer, *egress;
    int64_t   deadline;
    fault_t   ignored;

    if (!b->is_closing) {
        return json_incref(b->egress);
    }

    ignored = (fault_t) { 0 };
    deadline = clock_ms() + BROKER_CLOSE_WAIT;

    do {
        answer = control_answer(b->active, deadline, &ignored);
        egress = json_object_get(answer, "egress");

        if (json_is_object(egress)) {
            json_incref(egress);
            json_decref(answer);
            return egress;
        }

        json_decref(answer);
    } while (answer && b->state == BROKER_OPEN);

    return NULL;
}


void
broker_free(broker_t *b)
{
    while (b->ndoors > 0) {
        (void) close(b->doors[--b->ndoors]);
    }

    control_free(b->active);
    control_free(b->next);
    broker_drop(b);
    json_decref(b->task);
    json_decref(b->egress);

    *b = (broker_t) { 0 };
}


/* Drops the reference to the request. */

static int
broker_send(control_t *c, json_t *request, fault_t *fault)
{
    return control_send(c, request, NULL, 0, clock_ms() + BROKER_OPEN_WAIT,
                        fault);
}
