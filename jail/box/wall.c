/*
 * The walls that are built in.  Another one is a row here, and a file with
 * what it runs.
 */

#include <string.h>

#include "box/wall.h"


const wall_t  wall_table[] = {
    { WALL_DEFAULT, "shared", exec_main },
    { NULL, NULL, NULL }
};


const wall_t *
wall_find(const char *name, fault_t *fault)
{
    const wall_t  *wall;

    for (wall = wall_table; wall->name; wall++) {
        if (strcmp(wall->name, name) == 0) {
            return wall;
        }
    }

    (void) fault_set_cause(fault, STAGE_POLICY, 0, CAUSE_POLICY_ISOLATION,
                           "the policy asks for isolation \"%.40s\", which "
                           "this launcher does not build", name);

    return NULL;
}
