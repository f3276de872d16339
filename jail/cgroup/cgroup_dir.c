/*
 * A slot's directory is made, then locked.  Whoever holds its lock, and has
 * seen that the name still leads to the locked directory, is the only one who
 * may touch the slot; the lock goes with its holder, however that dies.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "cgroup/cgroup_dir.h"
#include "cgroup/cgroup_text.h"


#define DIR_CLAIM_TRIES  256
#define DIR_WAIT         1000000L       /* ns */
#define FILE_SMALL       512            /* is read at once */


static int cgroup_dir_lock(int parent, const char *name);
static int cgroup_file_set(int dir, const char *file, const char *text,
    char *seen, size_t cap);
static int cgroup_file_do(int dir, const char *file, int flags,
    const char *text, char *seen, size_t cap);
static int cgroup_file_put(int fd, const char *text);
static int cgroup_file_get(int fd, char *text, size_t cap);


int
cgroup_dir_claim(cgroup_t *cg, const char *prefix, const char *where,
    cause_t cause, fault_t *fault)
{
    int       i, lock;
    uint32_t  slot;

    if (getrandom(&slot, sizeof(slot), 0) != sizeof(slot)) {
        return fault_set(fault, STAGE_CGROUP, errno, "getrandom failed");
    }

    for (i = 0; i < DIR_CLAIM_TRIES; i++) {
        slot = (slot + 1) % CGROUP_SLOTS;
        (void) snprintf(cg->name, sizeof(cg->name), "%s%" PRIu32, prefix,
                        slot);

        /* nobody else may open it: whoever can, can lock it */

        if (mkdirat(cg->parents[0], cg->name, 0700) != 0) {

            if (errno == EEXIST) {
                continue;
            }

            return fault_set_cause(fault, STAGE_CGROUP, errno, cause,
                                   "a group for the box could not be made "
                                   "below %s", where);
        }

        /*
         * Between mkdir and flock a sweep may have taken the directory for
         * a dead launcher's: then it is gone, and the next slot is tried.
         */

        lock = cgroup_dir_lock(cg->parents[0], cg->name);

        if (lock != -1) {
            cg->lock = lock;
            cg->slot = slot;
            return 0;
        }
    }

    return fault_set(fault, STAGE_CGROUP, EAGAIN,
                     "no free slot for a box was found in %d tries",
                     DIR_CLAIM_TRIES);
}


/* The locked directory, or -1 when somebody else's or gone. */

static int
cgroup_dir_lock(int parent, const char *name)
{
    int          fd;
    struct stat  held, named;

    fd = openat(parent, name, O_RDONLY|O_DIRECTORY|O_NOFOLLOW|O_CLOEXEC);

    if (fd == -1) {
        return -1;
    }

    /*
     * The name is compared under the lock: the directory may have been
     * removed, and one of the same name made, since it was opened.
     */

    if (flock(fd, LOCK_EX|LOCK_NB) != 0
        || fstat(fd, &held) != 0
        || fstatat(parent, name, &named, AT_SYMLINK_NOFOLLOW) != 0
        || held.st_dev != named.st_dev || held.st_ino != named.st_ino)
    {
        (void) close(fd);
        return -1;
    }

    return fd;
}


int
cgroup_dir_sweep(int parent, const char *prefix, unsigned max,
    int (*gone)(void *data, const char *name, int lock), void *data)
{
    int             fd, lock, n;
    DIR            *dir;
    size_t          len;
    struct dirent  *de;

    fd = openat(parent, ".", O_RDONLY|O_DIRECTORY|O_CLOEXEC);
    dir = fd == -1 ? NULL : fdopendir(fd);

    if (dir == NULL) {
        descriptors_close(&fd, 1);
        return -1;
    }

    n = 0;
    len = strlen(prefix);

    while (max > 0 && (de = readdir(dir)) != NULL) {

        if (de->d_type != DT_DIR || strncmp(de->d_name, prefix, len) != 0
            || de->d_name[len] < '0' || de->d_name[len] > '9')
        {
            continue;
        }

        max--;
        lock = cgroup_dir_lock(parent, de->d_name);

        if (lock != -1) {
            n += (gone(data, de->d_name, lock) == 0);
            (void) close(lock);
        }
    }

    (void) closedir(dir);

    return n;
}


int
cgroup_dir_remove(int parent, const char *name, unsigned *tries)
{
    struct timespec  wait;

    while (unlinkat(parent, name, AT_REMOVEDIR) != 0 && errno != ENOENT) {

        if (errno != EBUSY || *tries <= 1) {
            return -1;
        }

        (*tries)--;
        wait = (struct timespec) { .tv_nsec = DIR_WAIT };
        (void) nanosleep(&wait, NULL);
    }

    return 0;
}


int
cgroup_dir_uids(const char *path, int (*f)(uid_t uid, unsigned max))
{
    int             n, rc;
    DIR            *dir;
    char           *end;
    unsigned long   uid;
    struct dirent  *de;

    dir = opendir(path);

    if (dir == NULL) {
        return errno == ENOENT ? 0 : -1;
    }

    n = 0;

    while ((de = readdir(dir)) != NULL) {
        uid = strtoul(de->d_name, &end, 10);

        if (end == de->d_name || *end != '\0' || uid > UINT32_MAX) {
            continue;
        }

        rc = f((uid_t) uid, CGROUP_SLOTS);
        n += rc > 0 ? rc : 0;
    }

    (void) closedir(dir);

    return n;
}


int
cgroup_file_write(int dir, const char *file, const char *text)
{
    return cgroup_file_do(dir, file, O_WRONLY, text, NULL, 0);
}


/* Writes, and reads what the kernel then has: as cgroup_file_read(). */

static int
cgroup_file_set(int dir, const char *file, const char *text, char *seen,
    size_t cap)
{
    return cgroup_file_do(dir, file, O_RDWR, text, seen, cap);
}


int
cgroup_file_read(int dir, const char *file, char *text, size_t cap)
{
    return cgroup_file_do(dir, file, O_RDONLY, NULL, text, cap);
}


static int
cgroup_file_do(int dir, const char *file, int flags, const char *text,
    char *seen, size_t cap)
{
    int  fd, rc, err;

    fd = openat(dir, file, flags|O_CLOEXEC);

    if (fd == -1) {
        return -1;
    }

    rc = text ? cgroup_file_put(fd, text) : 0;

    if (rc == 0 && seen) {
        rc = cgroup_file_get(fd, seen, cap);
    }

    err = errno;
    (void) close(fd);
    errno = err;

    return rc;
}


static int
cgroup_file_put(int fd, const char *text)
{
    size_t   n;
    ssize_t  rc;

    n = strlen(text);

    do {
        rc = write(fd, text, n);
    } while (rc == -1 && errno == EINTR);

    if (rc >= 0 && rc != (ssize_t) n) {
        errno = EIO;
    }

    return rc == (ssize_t) n ? 0 : -1;
}


/* The kernel gives whole lines: one short of the room is the last. */

static int
cgroup_file_get(int fd, char *text, size_t cap)
{
    size_t   len;
    ssize_t  n;

    len = 0;

    do {
        n = pread(fd, text + len, cap - 1 - len, (off_t) len);
        len += n > 0 ? (size_t) n : 0;
    } while ((n == -1 && errno == EINTR)
             || (n > 0 && len < cap - 1
                 && (len >= FILE_SMALL || text[len - 1] != '\n')));

    text[len] = '\0';

    return n == -1 ? -1 : 0;
}


int
cgroup_path_read(const char *path, const char *file, char *text, size_t cap)
{
    char  whole[CGROUP_PATH_MAX + 64];

    if (snprintf(whole, sizeof(whole), "%s/%s", path, file)
        >= (int) sizeof(whole))
    {
        errno = ENAMETOOLONG;
        return -1;
    }

    return cgroup_file_read(AT_FDCWD, whole, text, cap);
}


int
cgroup_file_value(int dir, const char *file, const char *key,
    uint64_t *value)
{
    char  text[CGROUP_FILE_MAX];

    if (cgroup_file_read(dir, file, text, sizeof(text)) != 0) {
        return -1;
    }

    return cgroup_text_value(text, key, value);
}


int
cgroup_limits_set(const int *dirs, const cgroup_limit_t *table, size_t n,
    const uint64_t limits[LIMIT_COUNT], fault_t *fault)
{
    size_t                 i;
    char                   text[64], seen[64];
    uint64_t               value;
    const cgroup_limit_t  *l;

    for (i = 0; i < n; i++) {
        l = &table[i];
        value = limits[l->limit] * l->factor / l->divisor + l->extra;

        if (l->pages) {
            value -= value % (uint64_t) sysconf(_SC_PAGESIZE);
        }

        (void) snprintf(text, sizeof(text), "%" PRIu64 "%s", value, l->rest);

        if (cgroup_file_set(dirs[l->dir], l->file, text, seen, sizeof(seen))
            != 0)
        {
            if (errno == ENOENT && l->absent) {

                if (l->absent(fault) == 0) {
                    continue;
                }

                return -1;
            }

            return fault_set(fault, STAGE_CGROUP, errno,
                             "%s could not be written to %s", text, l->file);
        }

        seen[strcspn(seen, "\n")] = '\0';

        if (strcmp(seen, text) != 0) {
            return fault_set(fault, STAGE_CGROUP, 0,
                             "%s holds \"%.32s\" and not the \"%.32s\" that "
                             "was written to it", l->file, seen, text);
        }
    }

    return 0;
}


void
cgroup_usage_read(const int *dirs, const cgroup_counter_t *counters,
    size_t n, bool is_gone, cgroup_usage_t *usage)
{
    size_t                   i;
    uint64_t                 value;
    const cgroup_counter_t  *c;

    for (i = 0; i < n; i++) {
        c = &counters[i];

        if ((c->is_now && is_gone)
            || cgroup_file_value(dirs[c->dir], c->file, c->key, &value) != 0)
        {
            continue;
        }

        value *= c->factor;
        value = value > c->overhead ? value - c->overhead : 0;
        (void) memcpy((char *) usage + c->member, &value, sizeof(value));
    }

    if (usage->memory_peak < usage->memory) {
        usage->memory_peak = usage->memory;
    }

    if (usage->pids_peak < usage->pids) {
        usage->pids_peak = usage->pids;
    }
}
