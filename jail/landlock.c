/*
 * The second opinion on files: what the mounts already say, said again by
 * another part of the kernel, so that a mistake in one of them is not a hole.
 * One ruleset, made when the root is the box's own.
 *
 * Each right stands beside the version of Landlock that knows it.  A right
 * that the kernel does not know is not handled, and the result tells which
 * version it was.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "landlock.h"
#include "setup.h"


/* newer than the headers of Debian 12 */

#ifndef LANDLOCK_ACCESS_FS_REFER
#define LANDLOCK_ACCESS_FS_REFER      (1ull << 13)
#endif

#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE   (1ull << 14)
#endif

#ifndef LANDLOCK_ACCESS_FS_IOCTL_DEV
#define LANDLOCK_ACCESS_FS_IOCTL_DEV  (1ull << 15)
#endif

#define LANDLOCK_SCOPE_ABSTRACT_UNIX  (1ull << 0)
#define LANDLOCK_SCOPE_SIGNALS        (1ull << 1)


/* struct landlock_ruleset_attr of ABI 6 */

typedef struct {
    uint64_t  fs;
    uint64_t  net;
    uint64_t  scoped;
} landlock_attr_t;


enum {
    OF_SYSTEM = 1,              /* the read-only rest of the box */
    OF_PROC = 2,
    OF_DEV = 4,
    OF_WORK = 8                 /* what the task may write to */
};


typedef struct {
    int       abi;              /* the first version that knows it */
    int       of;
    uint64_t  right;
} landlock_right_t;


static const landlock_right_t  landlock_rights[] = {
    { 1, OF_SYSTEM|OF_WORK, LANDLOCK_ACCESS_FS_EXECUTE },
    { 1, OF_SYSTEM|OF_PROC|OF_DEV|OF_WORK, LANDLOCK_ACCESS_FS_READ_FILE },
    { 1, OF_SYSTEM|OF_PROC|OF_DEV|OF_WORK, LANDLOCK_ACCESS_FS_READ_DIR },
    { 1, OF_PROC|OF_DEV|OF_WORK, LANDLOCK_ACCESS_FS_WRITE_FILE },
    { 1, OF_WORK, LANDLOCK_ACCESS_FS_REMOVE_DIR },
    { 1, OF_WORK, LANDLOCK_ACCESS_FS_REMOVE_FILE },
    { 1, OF_WORK, LANDLOCK_ACCESS_FS_MAKE_DIR },
    { 1, OF_WORK, LANDLOCK_ACCESS_FS_MAKE_REG },
    { 1, OF_WORK, LANDLOCK_ACCESS_FS_MAKE_SOCK },
    { 1, OF_WORK, LANDLOCK_ACCESS_FS_MAKE_FIFO },
    { 1, OF_WORK, LANDLOCK_ACCESS_FS_MAKE_SYM },
    { 1, 0, LANDLOCK_ACCESS_FS_MAKE_CHAR },
    { 1, 0, LANDLOCK_ACCESS_FS_MAKE_BLOCK },
    { 2, OF_WORK, LANDLOCK_ACCESS_FS_REFER },
    { 3, OF_PROC|OF_DEV|OF_WORK, LANDLOCK_ACCESS_FS_TRUNCATE },
    { 5, OF_DEV, LANDLOCK_ACCESS_FS_IOCTL_DEV },
};


static uint64_t landlock_of(int abi, int of);
static int landlock_allow(setup_t *s, int ruleset, const char *path,
    uint64_t rights);


int
landlock_abi(void)
{
    long  abi;

    abi = syscall(SYS_landlock_create_ruleset, NULL, 0,
                  LANDLOCK_CREATE_RULESET_VERSION);

    return abi > 0 ? (int) abi : 0;
}


int
landlock_enter(setup_t *s)
{
    int              abi, ruleset;
    size_t           size;
    unsigned         i;
    uint64_t         work;
    landlock_attr_t  attr;

    abi = landlock_abi();

    if (abi == 0) {
        return setup_detail(s, "Landlock is not there");
    }

    attr = (landlock_attr_t) { .fs = landlock_of(abi, ~0) };
    size = sizeof(attr.fs);

    if (abi >= 6) {
        attr.scoped = LANDLOCK_SCOPE_ABSTRACT_UNIX|LANDLOCK_SCOPE_SIGNALS;
        size = sizeof(attr);
    }

    ruleset = (int) syscall(SYS_landlock_create_ruleset, &attr, size, 0);

    if (ruleset == -1) {
        return setup_detail(s, "no ruleset can be made");
    }

    work = landlock_of(abi, OF_WORK);

    if (landlock_allow(s, ruleset, "/", landlock_of(abi, OF_SYSTEM)) != 0
        || landlock_allow(s, ruleset, "/proc", landlock_of(abi, OF_PROC)) != 0
        || landlock_allow(s, ruleset, "/dev", landlock_of(abi, OF_DEV)) != 0
        || landlock_allow(s, ruleset, "/dev/shm", work) != 0
        || landlock_allow(s, ruleset, "/tmp", work) != 0
        || landlock_allow(s, ruleset, "/run/task/out", work) != 0)
    {
        return -1;
    }

    for (i = 0; i < s->spec->nwritable; i++) {
        if (landlock_allow(s, ruleset, s->spec->writable[i].path, work) != 0) {
            return -1;
        }
    }

    if (syscall(SYS_landlock_restrict_self, ruleset, 0) != 0) {
        return setup_detail(s, "the ruleset cannot be entered");
    }

    return close(ruleset);
}


/* The rights of these places; with ~0 every right the kernel knows. */

static uint64_t
landlock_of(int abi, int of)
{
    size_t    i;
    uint64_t  rights;

    rights = 0;

    for (i = 0; i < sizeof(landlock_rights) / sizeof(landlock_rights[0]);
         i++)
    {
        if (landlock_rights[i].abi <= abi
            && (of == ~0 || (landlock_rights[i].of & of)))
        {
            rights |= landlock_rights[i].right;
        }
    }

    return rights;
}


static int
landlock_allow(setup_t *s, int ruleset, const char *path, uint64_t rights)
{
    struct landlock_path_beneath_attr  attr;

    attr = (struct landlock_path_beneath_attr) {
        .allowed_access = rights,
        .parent_fd = open(path, O_PATH|O_CLOEXEC)
    };

    if (attr.parent_fd == -1
        || syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH,
                   &attr, 0) != 0)
    {
        return setup_detail(s, "no rule can be made for %s", path);
    }

    return close(attr.parent_fd);
}
