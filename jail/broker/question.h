/* What is asked of a broker without a task: `jail policy`. */

#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/fault.h"


/* The effective policy as one object; NULL with the fault set. */
json_t *question_policy(const char *path, const char *policy, fault_t *fault);

/*
 * Whether the broker can serve a task: its release, whether the audit can be
 * written, the seconds until the boxes' authority ends.  NULL with the fault
 * set, as by a broker of version 1.
 */
json_t *question_health(const char *path, fault_t *fault);

/*
 * What the policy says to a request: the broker's answer, without "ok", and in
 * *is_allowed its verdict.  NULL with the fault set.
 */
json_t *question_ask(const char *path, const char *policy,
    const char *method, const char *url, bool *is_allowed, fault_t *fault);
