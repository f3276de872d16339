/*
 * The version of Landlock the kernel has; 0: none, with errno.
 */

#ifndef JAIL_LANDLOCK_H
#define JAIL_LANDLOCK_H

int landlock_abi(void);

#endif /* JAIL_LANDLOCK_H */
