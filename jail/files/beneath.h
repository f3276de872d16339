/*
 * Opening what a task has left.  The kernel itself refuses a path that leads
 * out of the directory, through a link of any kind, or onto another mount; a
 * check before an open would be about another file than the open.
 */

#ifndef JAIL_BENEATH_H
#define JAIL_BENEATH_H

#include <fcntl.h>
#include <unistd.h>


/* A descriptor, or -1 with errno: ELOOP for a link, EXDEV for a way out. */
int beneath_open(int dir, const char *path, int flags);

/*
 * The same, for what `entry` is an O_PATH descriptor of.  A task may leave
 * what its owner cannot read; the owner outside is us, and the name cannot
 * lead elsewhere: it is that of an entry which is held open.
 */
int beneath_read(int dir, const char *name, int entry, int flags);

/* Closes what was opened, if it was; errno stays. */
void beneath_close(int fd);

/* The directory that the path is in; *name gets its last component. */
int beneath_parent(int dir, const char *path, const char **name);


#endif /* JAIL_BENEATH_H */
