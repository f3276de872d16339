/*
 * Descriptors sent beside bytes on a Unix socket (SCM_RIGHTS).
 */

#pragma once

#include <sys/types.h>

#include "shared/protocol.h"


#define FD_PASS_MAX  PROTOCOL_DOORS_MAX         /* in one message */


/*
 * Sends len bytes, and n descriptors beside the first of them; they stay open
 * here.  The number of bytes sent, on a stream perhaps fewer, or -1 with
 * errno.  flags as of sendmsg(2).
 */
ssize_t fd_pass_send(int sock, const void *bytes, size_t len,
    const int *fds, unsigned n, int flags);

/*
 * Receives at most len bytes, and the descriptors beside them.  *n is the
 * room in fds, at most FD_PASS_MAX, and becomes the number of those that came;
 * they are close-on-exec, and the caller's.  The kernel closes what is beyond
 * the room.  The number of bytes, 0 at the end, or -1 with errno, and then
 * *n is 0.
 */
ssize_t fd_pass_receive(int sock, void *bytes, size_t len, int *fds,
    unsigned *n, int flags);
