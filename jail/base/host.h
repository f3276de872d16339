/*
 * What is known about the machine, or the container, that the launcher runs
 * on: asked only when something failed, to name the cause.
 */

#pragma once

#include <stdbool.h>


/* Is this process itself in a box? */
bool host_is_box(void);

/* Is it in a container, as far as can be seen from inside? */
bool host_is_container(void);

/* Does a seccomp filter apply to it already? */
bool host_is_filtered(void);

/* Does an AppArmor profile other than "unconfined" apply to it? */
bool host_is_confined(void);

/* Does AppArmor take the capabilities of unprivileged user namespaces? */
bool host_apparmor_restricts(void);

/* Are user namespaces of ordinary users switched off (Debian, hardened)? */
bool host_userns_is_off(void);

/* Is the number of user namespaces limited to zero? */
bool host_userns_max_is_zero(void);

/* Is a part of /proc covered, so that no new one may be mounted? */
bool host_proc_is_masked(void);

/* Is /sys/fs/cgroup mounted read-only? */
bool host_cgroup_is_readonly(void);
