/*
 * What mends a failure: one table for `jail run` and for `jail doctor`, so
 * that both say the same.
 */

#ifndef JAIL_ADVICE_H
#define JAIL_ADVICE_H

#include "base/fault.h"


#define ADVICE_PROFILE  "/etc/apparmor.d/agent-jail"


/*
 * The sentence for a stage, an errno and what the message speaks of; NULL
 * when there is none.  Looks at the host to tell causes with one errno apart.
 */
const char *advice(stage_t stage, int err, const char *message);


#endif /* JAIL_ADVICE_H */
