/*
 * Making the targets of the attempts, and finding processes by name.
 */

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "doctor/target.h"


int
target_make(target_t *t)
{
    int       fd;
    size_t    i;
    uint32_t  n;
    uint16_t  port;

    /* in a container few of these may be writable */

    static const char *const  dirs[] = {
        "/tmp", "/dev/shm", "/var/tmp", "/run", "."
    };

    *t = (target_t) { .listener = -1 };

    if (getrandom(&n, sizeof(n), 0) != (ssize_t) sizeof(n)) {
        return -1;
    }

    (void) snprintf(t->name, sizeof(t->name), "host-%08" PRIx32, n);
    (void) snprintf(t->left, sizeof(t->left), "left-%08" PRIx32, n);

    fd = -1;

    for (i = 0; fd == -1 && i < sizeof(dirs) / sizeof(dirs[0]); i++) {
        (void) snprintf(t->file, sizeof(t->file), "%s/jail-doctor-XXXXXX",
                        dirs[i]);
        fd = mkostemp(t->file, O_CLOEXEC);
    }

    if (fd == -1) {
        t->file[0] = '\0';
        return -1;
    }

    (void) close(fd);

    t->listener = target_listen(&port);

    if (port == 0) {
        return -1;
    }

    (void) snprintf(t->port, sizeof(t->port), "%u", (unsigned) port);
    (void) setenv(TARGET_SECRET, "a secret of the caller's", 1);
    (void) prctl(PR_SET_NAME, t->name, 0, 0, 0);

    return 0;
}


void
target_free(target_t *t)
{
    if (t->listener != -1) {
        (void) close(t->listener);
        t->listener = -1;
    }

    if (t->file[0]) {
        (void) unlink(t->file);
        t->file[0] = '\0';
    }

    (void) unsetenv(TARGET_SECRET);
}


int
target_listen(uint16_t *port)
{
    int                 fd;
    socklen_t           len;
    struct sockaddr_in  sin;

    sin = (struct sockaddr_in) {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)
    };
    len = sizeof(sin);
    fd = socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC, 0);

    *port = fd == -1 || bind(fd, (struct sockaddr *) &sin, len) != 0
            || listen(fd, 8) != 0
            || getsockname(fd, (struct sockaddr *) &sin, &len) != 0
            ? 0 : ntohs(sin.sin_port);

    return fd;
}


pid_t
target_find(const char *name)
{
    FILE           *f;
    DIR            *dir;
    char            path[288], comm[32];
    pid_t           found;
    struct dirent  *de;

    found = 0;
    dir = opendir("/proc");

    while (dir && found == 0 && (de = readdir(dir)) != NULL) {

        if (de->d_name[0] < '1' || de->d_name[0] > '9') {
            continue;
        }

        (void) snprintf(path, sizeof(path), "/proc/%s/comm", de->d_name);
        f = fopen(path, "re");

        if (f == NULL) {
            continue;
        }

        if (fgets(comm, sizeof(comm), f)) {
            comm[strcspn(comm, "\n")] = '\0';

            if (strcmp(comm, name) == 0) {
                found = (pid_t) atoi(de->d_name);
            }
        }

        (void) fclose(f);
    }

    if (dir) {
        (void) closedir(dir);
    }

    return found;
}
