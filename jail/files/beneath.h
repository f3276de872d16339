/*
 * Opening files that a task has left.  The kernel itself refuses a path that
 * leads out of the directory, through a link of any kind, or onto another
 * mount; a check before the open could see another file than the open.
 */

#pragma once

#include <fcntl.h>
#include <unistd.h>


/* A descriptor, or -1 with errno: ELOOP for a link, EXDEV for a way out. */
int beneath_open(int dir, const char *path, int flags);

/*
 * Opens name for reading; `entry` is an O_PATH descriptor of it.  A task may
 * leave files that their owner cannot read: the mode is changed first, which
 * we may, as the owner outside, and through `entry`, which cannot be exchanged.
 */
int beneath_read(int dir, const char *name, int entry, int flags);

/* Closes fd unless it is -1; errno stays. */
void beneath_close(int fd);

/* Opens the parent directory of path; *name becomes its last component. */
int beneath_parent(int dir, const char *path, const char **name);
