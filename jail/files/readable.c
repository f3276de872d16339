/*
 * The real path is judged: a link from a harmless name to a home is the home.
 * This is done with the caller's identity and before a box exists, so the
 * caller learns nothing that it could not find out itself.
 *
 * It guards against a mistake in a policy, not against the policy's author: a
 * socket deeper in a tree, or made later, is not seen.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/readable.h"


#define READABLE_USERS     1000         /* the first id of a person */
#define READABLE_NOBODY    65534


typedef struct {
    const char  *path;
    const char  *why;
} readable_refusal_t;


static const readable_refusal_t  readable_refusals[] = {
    { "/home", "is, contains or is in the homes of users" },
    { "/root", "is, contains or is in a home" },
    { "/proc", "is, contains or is in the kernel's own files" },
    { "/sys", "is, contains or is in the kernel's own files" },
    { "/dev", "is, contains or is in the directory of devices" },
    { "/run", "is, contains or is in the directory of the host's sockets" },
    { NULL, NULL }
};


static bool readable_overlaps(const char *one, const char *other);
static bool readable_is_beneath(const char *path, const char *dir);
static bool readable_meets_home(const char *path, const char *home,
    bool below);
static bool readable_has_socket(int fd, int depth);
static int readable_refuse(const char *path, const char *real,
    const char *why, fault_t *fault);


int
readable_judge(const char *path, fault_t *fault)
{
    int                        fd, rc;
    char                       real[PATH_MAX];
    struct stat                st;
    const readable_refusal_t  *r;

    if (realpath(path, real) == NULL) {
        return fault_set_cause(fault, STAGE_POLICY, errno,
                               CAUSE_READABLE_MISSING,
                               "%.200s, which the policy makes readable, "
                               "cannot be found", path);
    }

    for (r = readable_refusals; r->path; r++) {
        if (readable_overlaps(real, r->path)) {
            return readable_refuse(path, real, r->why, fault);
        }
    }

    if (readable_home(real, true)) {
        return readable_refuse(path, real, "is, contains or is in a home",
                               fault);
    }

    fd = open(real, O_PATH|O_NOFOLLOW|O_CLOEXEC);

    if (fd == -1 || fstat(fd, &st) != 0) {
        (void) fault_set(fault, STAGE_POLICY, errno,
                         "%.200s, which the policy makes readable, cannot be "
                         "opened", path);
        return -1;
    }

    rc = 0;

    if (S_ISDIR(st.st_mode)) {

        if (readable_has_socket(fd, 1)) {
            rc = readable_refuse(path, real, "contains a socket", fault);
        }

    } else if (!S_ISREG(st.st_mode)) {
        rc = readable_refuse(path, real, S_ISSOCK(st.st_mode)
                                         ? "is a socket"
                                         : S_ISFIFO(st.st_mode)
                                         ? "is a FIFO" : "is a device",
                             fault);
    }

    (void) close(fd);

    return rc;
}


/* One of two absolute paths is the other, or is above it. */

static bool
readable_overlaps(const char *one, const char *other)
{
    return readable_is_beneath(other, one) || readable_is_beneath(one, other);
}


/* The path is the directory, or below it. */

static bool
readable_is_beneath(const char *path, const char *dir)
{
    size_t  n;

    n = strlen(dir);

    return strncmp(dir, path, n) == 0
           && (path[n] == '\0' || path[n] == '/' || n == 1);
}


/*
 * Root's home and those of people: a service's home is where its data is, and
 * "/" is not a home.  Reads the file itself: a static program has no NSS.
 */

bool
readable_home(const char *path, bool below)
{
    FILE           *file;
    bool            found;
    const char     *home;
    struct passwd  *user;

    home = getenv("HOME");

    if (home && readable_meets_home(path, home, below)) {
        return true;
    }

    file = fopen("/etc/passwd", "re");

    if (file == NULL) {
        return false;
    }

    found = false;

    while (!found && (user = fgetpwent(file)) != NULL) {
        found = (user->pw_uid == 0 || user->pw_uid >= READABLE_USERS)
                && user->pw_uid != READABLE_NOBODY
                && readable_meets_home(path, user->pw_dir, below);
    }

    (void) fclose(file);

    return found;
}


static bool
readable_meets_home(const char *path, const char *home, bool below)
{
    char  real[PATH_MAX];

    return home[0] == '/' && realpath(home, real) && real[1] != '\0'
           && (below ? readable_overlaps(path, real)
                     : readable_is_beneath(real, path));
}


/* A directory that cannot be read cannot be read by the box either. */

static bool
readable_has_socket(int fd, int depth)
{
    int             dir_fd, below;
    DIR            *dir;
    bool            found;
    struct dirent  *de;

    dir_fd = openat(fd, ".", O_RDONLY|O_DIRECTORY|O_CLOEXEC);
    dir = dir_fd == -1 ? NULL : fdopendir(dir_fd);

    if (dir == NULL) {

        if (dir_fd != -1) {
            (void) close(dir_fd);
        }

        return false;
    }

    found = false;

    while (!found && (de = readdir(dir)) != NULL) {

        if (de->d_type == DT_SOCK) {
            found = true;

        } else if (de->d_type == DT_DIR && depth > 0
                   && strcmp(de->d_name, ".") != 0
                   && strcmp(de->d_name, "..") != 0)
        {
            below = openat(dir_fd, de->d_name,
                           O_PATH|O_DIRECTORY|O_NOFOLLOW|O_CLOEXEC);

            if (below != -1) {
                found = readable_has_socket(below, depth - 1);
                (void) close(below);
            }
        }
    }

    (void) closedir(dir);

    return found;
}


static int
readable_refuse(const char *path, const char *real, const char *why,
    fault_t *fault)
{
    return fault_set_cause(fault, STAGE_POLICY, 0, CAUSE_READABLE_REFUSED,
                           "%.160s, which the policy makes readable, "
                           "%s%.160s%s%s",
                           path, strcmp(path, real) == 0 ? "" : "leads to ",
                           strcmp(path, real) == 0 ? "" : real,
                           strcmp(path, real) == 0 ? "" : ", which ", why);
}
