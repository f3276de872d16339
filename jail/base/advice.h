/*
 * What to do about a failure: one table for `jail run` and for `jail doctor`,
 * so that both say the same.
 */

#ifndef JAIL_ADVICE_H
#define JAIL_ADVICE_H

#include <stdbool.h>

#include "base/fault.h"


#define ADVICE_PROFILE  "/etc/apparmor.d/agent-jail"


/*
 * The sentence for a stage, an errno and a cause, a constant; NULL when there
 * is none.  Looks at the host to tell reasons with the same errno apart.
 */
const char *advice(stage_t stage, int err, cause_t cause);

/* It is to install the profile ADVICE_PROFILE; may be a copy. */
bool advice_is_profile(const char *fix);


#endif /* JAIL_ADVICE_H */
