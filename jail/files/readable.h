/*
 * The second look at a path that a policy makes readable.  The broker judged
 * its name; what it really is on this host is seen only here.
 */

#ifndef JAIL_READABLE_H
#define JAIL_READABLE_H

#include <stdbool.h>

#include "base/fault.h"


/*
 * Refuses what is no file or directory, what leads to or holds a home, a
 * device or the kernel's own files, and a directory with a socket in it or
 * one level below: a read-only mount does not keep a box from connecting.
 */
int readable_judge(const char *path, fault_t *fault);

/*
 * A real path is somebody's home, or above one; or, with below, in one.
 */
bool readable_home(const char *path, bool below);

/* One of two absolute paths is the other, or is above it. */
bool readable_overlaps(const char *one, const char *other);


#endif /* JAIL_READABLE_H */
