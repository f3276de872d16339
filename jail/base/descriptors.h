/*
 * Closing descriptors: those that a process does not need, and those that it
 * no longer needs.
 */

#pragma once


/* Closes all but the n in keep, which it sorts; 0 or -1 with errno. */
int descriptors_close_but(int *keep, unsigned n);

/* Closes the n in fds that are not -1, and makes them -1. */
void descriptors_close(int *fds, unsigned n);
