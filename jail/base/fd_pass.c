/*
 * The layout of a message with descriptors is in this file only.  The room
 * given to the kernel is exact: rounded up, as CMSG_SPACE does, it would hold
 * one descriptor more than the caller's array.
 */

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd_pass.h"


typedef union {
    struct cmsghdr  header;
    char            space[CMSG_SPACE(sizeof(int) * FD_PASS_MAX)];
} fd_pass_t;


ssize_t
fd_pass_send(int sock, const void *bytes, size_t len, const int *fds,
    unsigned n, int flags)
{
    ssize_t        rc;
    fd_pass_t      control;
    struct iovec   iov;
    struct msghdr  msg;

    iov = (struct iovec) { (void *) bytes, len };
    msg = (struct msghdr) { .msg_iov = &iov, .msg_iovlen = 1 };

    if (n > FD_PASS_MAX) {
        errno = EINVAL;
        return -1;
    }

    if (n > 0) {
        control = (fd_pass_t) {
            .header = { CMSG_LEN(sizeof(int) * n), SOL_SOCKET, SCM_RIGHTS }
        };

        (void) memcpy(CMSG_DATA(&control.header), fds, sizeof(int) * n);

        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * n);
    }

    do {
        rc = sendmsg(sock, &msg, flags|MSG_NOSIGNAL);
    } while (rc == -1 && errno == EINTR);

    return rc;
}


ssize_t
fd_pass_receive(int sock, void *bytes, size_t len, int *fds, unsigned *n,
    int flags)
{
    ssize_t        rc;
    unsigned       max;
    fd_pass_t      control;
    struct iovec   iov;
    struct msghdr  msg;

    max = *n;
    *n = 0;
    iov = (struct iovec) { bytes, len };
    msg = (struct msghdr) {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
        .msg_controllen = CMSG_LEN(sizeof(int) * max)
    };

    do {
        rc = recvmsg(sock, &msg, flags|MSG_CMSG_CLOEXEC);
    } while (rc == -1 && errno == EINTR);

    if (rc != -1 && msg.msg_controllen >= CMSG_LEN(sizeof(int))
        && control.header.cmsg_level == SOL_SOCKET
        && control.header.cmsg_type == SCM_RIGHTS)
    {
        *n = (unsigned) ((control.header.cmsg_len - CMSG_LEN(0))
                         / sizeof(int));
        (void) memcpy(fds, CMSG_DATA(&control.header), *n * sizeof(int));
    }

    return rc;
}
