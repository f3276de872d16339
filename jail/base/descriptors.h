/*
 * What a process of the launcher's does not need is not open in it.
 */

#ifndef JAIL_DESCRIPTORS_H
#define JAIL_DESCRIPTORS_H


/* Closes all but the n in keep, which it sorts; 0 or -1 with errno. */
int descriptors_close_but(int *keep, unsigned n);


#endif /* JAIL_DESCRIPTORS_H */
