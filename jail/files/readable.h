/*
 * The second check of a path that a policy makes readable.  The broker checked
 * its name; only the launcher sees what is there on this host.
 */

#pragma once

#include <stdbool.h>

#include "base/fault.h"


/*
 * Refuses anything but a file or a directory, a path that leads to or contains
 * a home, a device or the kernel's own files, and a directory with a socket in
 * it or one level below: a read-only mount does not prevent connecting.
 */
int readable_judge(const char *path, fault_t *fault);

/*
 * A real path is a user's home, or above one; or, with below, in one.
 */
bool readable_home(const char *path, bool below);
