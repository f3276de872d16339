/*
 * What to do about a failure: one table for `jail run` and for `jail doctor`,
 * so that both give the same advice.
 */

#pragma once

#include <stdbool.h>

#include "base/fault.h"


#define ADVICE_PROFILE  "/etc/apparmor.d/agent-jail"


/*
 * The sentence for a stage, an errno and a cause, a constant; NULL if there is
 * none.  Where one errno has several reasons, facts of the host decide.
 */
const char *advice(stage_t stage, int err, cause_t cause);

/* The sentence, or a copy of it, says to install ADVICE_PROFILE. */
bool advice_is_profile(const char *fix);
