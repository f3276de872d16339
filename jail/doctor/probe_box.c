/*
 * An ordinary box, made by this program the way a caller makes it, in which
 * forbidden actions are tried.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "doctor/attempt.h"
#include "doctor/probe.h"


/*
 * Every action must have been refused, and every control must have worked.
 * The process left behind always starts, and must be gone.
 */

int
probe_box(doctor_t *d, layer_result_t *r)
{
    bool         refused;
    size_t       i;
    json_t      *a;
    target_t     target;
    const char  *name;

    if (target_make(&target) != 0) {
        target_free(&target);
        return probe_missing(r, errno, "the targets of the attempts "
                             "cannot be made");
    }

    d->attempts = attempt_run(&target, "all", true, r, r->detail,
                             sizeof(r->detail));

    json_array_foreach(d->attempts, i, a) {
        name = json_string_value(json_object_get(a, "name"));

        if (name && strcmp(name, "subprocesses") == 0) {
            refused = (target_find(target.left) == 0);
            (void) json_object_set_new(a, "refused", json_boolean(refused));
            (void) json_object_set_new(a, "errno",
                                       refused ? json_string("ESRCH")
                                               : json_null());
        }
    }

    target_free(&target);

    if (d->attempts == NULL) {
        return -1;
    }

    json_array_foreach(d->attempts, i, a) {
        name = json_string_value(json_object_get(a, "name"));

        if (json_is_true(json_object_get(a, "refused"))
            && json_is_true(json_object_get(a, "control")))
        {
            continue;
        }

        (void) snprintf(r->fix, sizeof(r->fix), "do not run tasks on this "
                        "host, and report the output of jail doctor --json");

        return probe_missing(r, 0, "\"%s\" was %s in the box",
                              name ? name : "?",
                              json_is_true(json_object_get(a, "refused"))
                              ? "refused, but so was its control: this "
                                "proves nothing"
                              : "not refused");
    }

    (void) snprintf(r->detail, sizeof(r->detail), "%zu forbidden actions "
                    "were tried in it and refused",
                    json_array_size(d->attempts));

    return 0;
}
