/*
 * Helpers of several attempts: opening a path, and connecting to an address.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "doctor/attempt.h"


int
attempt_open(const char *path, int flags)
{
    int  fd;

    fd = open(path, flags|O_CLOEXEC, 0600);

    return fd == -1 ? errno : close(fd);
}


int
attempt_connect(const char *address, unsigned port)
{
    int                 fd, err;
    struct timeval      tv;
    struct sockaddr_in  sin;

    sin = (struct sockaddr_in) {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t) port)
    };
    tv = (struct timeval) { .tv_sec = 2 };

    (void) inet_pton(AF_INET, address, &sin.sin_addr);
    fd = socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC, 0);

    if (fd == -1) {
        return errno;
    }

    (void) setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
    err = connect(fd, (struct sockaddr *) &sin, sizeof(sin)) == -1 ? errno
                                                                   : 0;
    (void) close(fd);

    return err;
}
