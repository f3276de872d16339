/*
 * What follows from a box's description, for the launcher and for the child.
 */

#include <string.h>

#include "box/box.h"


bool
box_has_tmp(const box_spec_t *spec)
{
    unsigned  i;

    for (i = 0; i < spec->nwritable; i++) {
        if (strcmp(spec->writable[i].path, "/tmp") == 0) {
            return true;
        }
    }

    return false;
}
