/* One connection, one request, one answer. */

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "broker/control.h"
#include "broker/question.h"
#include "shared/protocol.h"


#define QUESTION_WAIT  5000             /* ms, for sending and for an answer */


static json_t *question(const char *path, json_t *request, fault_t *fault);


json_t *
question_policy(const char *path, const char *policy, fault_t *fault)
{
    json_t  *answer, *object;

    answer = question(path, json_pack("{s:i, s:s, s:s}",
                                      "v", PROTOCOL_VERSION,
                                      "op", PROTOCOL_POLICY,
                                      "policy", policy), fault);
    object = json_object_get(answer, "policy");

    if (answer && !json_is_object(object)) {
        (void) fault_set(fault, STAGE_BROKER, EPROTO,
                         "the broker's answer has no policy");
        object = NULL;
    }

    json_incref(object);
    json_decref(answer);

    return object;
}


json_t *
question_health(const char *path, fault_t *fault)
{
    return question(path, json_pack("{s:i, s:s}", "v", PROTOCOL_VERSION_ASK,
                                    "op", PROTOCOL_HEALTH), fault);
}


json_t *
question_ask(const char *path, const char *policy, const char *method,
    const char *url, bool *is_allowed, fault_t *fault)
{
    json_t      *answer;
    const char  *verdict;

    answer = question(path, json_pack("{s:i, s:s, s:s, s:s, s:s}",
                                      "v", PROTOCOL_VERSION_ASK,
                                      "op", PROTOCOL_ASK, "policy", policy,
                                      "method", method, "url", url), fault);
    if (answer == NULL) {

        /* a broker of version 1 does not know the word */

        if (strstr(fault->message, "unknown \"op\"")) {
            (void) fault_set(fault, STAGE_BROKER, EPROTO,
                             "--ask needs version %d of the control protocol, "
                             "and the broker speaks version %d",
                             PROTOCOL_VERSION_ASK, PROTOCOL_VERSION);
        }

        return NULL;
    }

    verdict = json_string_value(json_object_get(answer, "verdict"));
    *is_allowed = verdict && strcmp(verdict, "allowed") == 0;

    if (verdict == NULL || (!*is_allowed && strcmp(verdict, "denied") != 0)) {
        (void) fault_set(fault, STAGE_BROKER, EPROTO,
                         "the broker's answer has no verdict");
        json_decref(answer);
        return NULL;
    }

    (void) json_object_del(answer, "ok");

    return answer;
}


/* The answer that is not a refusal; drops the reference to the request. */

static json_t *
question(const char *path, json_t *request, fault_t *fault)
{
    json_t     *answer;
    control_t  *c;

    c = control_connect(path, QUESTION_WAIT, fault);

    if (c == NULL) {
        json_decref(request);
        return NULL;
    }

    answer = NULL;

    if (control_send(c, request, NULL, 0, clock_ms() + QUESTION_WAIT, fault)
        == 0)
    {
        answer = control_answer(c, clock_ms() + QUESTION_WAIT, fault);
    }

    if (answer && !json_is_true(json_object_get(answer, "ok"))) {
        (void) control_refused(answer, fault);
        json_decref(answer);
        answer = NULL;
    }

    control_free(c);

    return answer;
}
