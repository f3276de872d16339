/*
 * The second opinion on files: what the mounts already say, said again by
 * another part of the kernel, so that a mistake in one of them is not a hole.
 * One ruleset, made when the root is the box's own.
 *
 * Each right is beside the version of Landlock that knows it.  A right
 * that the kernel does not know is not handled, and the result tells which
 * version it was; a version newer than the table is asked for no more than
 * the table has.  What the versions have brought:
 *
 *    1  5.13  rights on files       6  6.12  signals, abstract sockets
 *    2  5.19  REFER                 7  6.15  what is logged
 *    3  6.2   TRUNCATE              8  7.0   all threads at once
 *    4  6.7   TCP ports             9  7.1   RESOLVE_UNIX
 *    5  6.10  IOCTL_DEV            10  7.2   UDP ports, quiet rules
 *
 * Not used: ports, since the net namespace has nothing but the box and its
 * doors, where every port is the task's; all threads, of which there is one.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "box/landlock.h"
#include "box/report.h"


/* newer than the headers of Debian 12 */

#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE      (1ull << 14)
#endif

#ifndef LANDLOCK_ACCESS_FS_IOCTL_DEV
#define LANDLOCK_ACCESS_FS_IOCTL_DEV     (1ull << 15)
#endif

#ifndef LANDLOCK_ACCESS_FS_RESOLVE_UNIX
#define LANDLOCK_ACCESS_FS_RESOLVE_UNIX  (1ull << 16)
#endif

#define LANDLOCK_SCOPED_ABSTRACT_UNIX    (1ull << 0)
#define LANDLOCK_SCOPED_SIGNALS          (1ull << 1)

#define LANDLOCK_LOG_SAME_EXEC_OFF       (1u << 0)
#define LANDLOCK_LOG_SUBDOMAINS_OFF      (1u << 2)

#define LANDLOCK_ABI_SCOPED  6
#define LANDLOCK_ABI_LOG     7

#define SYSTEM  LANDLOCK_SYSTEM
#define PROC    LANDLOCK_PROC
#define DEV     LANDLOCK_DEV
#define WORK    LANDLOCK_WORK

#define LANDLOCK_RULES_MAX   (6 + BOX_WRITABLE_MAX)


typedef struct {
    int       abi;              /* the first version that knows it */
    int       of;               /* the places that have it */
    int       is_file;          /* files that are not directories can have it */
    uint64_t  right;
} landlock_right_t;


/*
 * Connecting to a socket in a file is nowhere given: those that the task
 * makes are of its own domain and need no right.
 */

static const landlock_right_t  landlock_table[] = {
    { 1, SYSTEM|WORK, 1, LANDLOCK_ACCESS_FS_EXECUTE },
    { 1, SYSTEM|PROC|DEV|WORK, 1, LANDLOCK_ACCESS_FS_READ_FILE },
    { 1, SYSTEM|PROC|DEV|WORK, 0, LANDLOCK_ACCESS_FS_READ_DIR },
    { 1, PROC|DEV|WORK, 1, LANDLOCK_ACCESS_FS_WRITE_FILE },
    { 1, WORK, 0, LANDLOCK_ACCESS_FS_REMOVE_DIR },
    { 1, WORK, 0, LANDLOCK_ACCESS_FS_REMOVE_FILE },
    { 1, WORK, 0, LANDLOCK_ACCESS_FS_MAKE_DIR },
    { 1, WORK, 0, LANDLOCK_ACCESS_FS_MAKE_REG },
    { 1, WORK, 0, LANDLOCK_ACCESS_FS_MAKE_SOCK },
    { 1, WORK, 0, LANDLOCK_ACCESS_FS_MAKE_FIFO },
    { 1, WORK, 0, LANDLOCK_ACCESS_FS_MAKE_SYM },
    { 1, 0, 0, LANDLOCK_ACCESS_FS_MAKE_CHAR },
    { 1, 0, 0, LANDLOCK_ACCESS_FS_MAKE_BLOCK },
    { 2, WORK, 0, LANDLOCK_ACCESS_FS_REFER },
    { 3, PROC|DEV|WORK, 1, LANDLOCK_ACCESS_FS_TRUNCATE },
    { 5, DEV, 1, LANDLOCK_ACCESS_FS_IOCTL_DEV },
    { 9, 0, 1, LANDLOCK_ACCESS_FS_RESOLVE_UNIX },
};

#define LANDLOCK_ROWS  (sizeof(landlock_table) / sizeof(landlock_table[0]))


static int landlock_allow(int abi, int ruleset, const landlock_rule_t *rule);


int
landlock_abi(void)
{
    long  abi;

    abi = syscall(SYS_landlock_create_ruleset, NULL, 0,
                  LANDLOCK_CREATE_RULESET_VERSION);

    return abi > 0 ? (int) abi : 0;
}


void
landlock_ask(int abi, landlock_ask_t *ask)
{
    size_t  i;

    *ask = (landlock_ask_t) { .size = sizeof(ask->attr.fs) };

    for (i = 0; i < LANDLOCK_ROWS; i++) {
        if (landlock_table[i].abi <= abi) {
            ask->attr.fs |= landlock_table[i].right;
        }
    }

    if (abi >= LANDLOCK_ABI_SCOPED) {
        ask->attr.scoped = LANDLOCK_SCOPED_ABSTRACT_UNIX
                           |LANDLOCK_SCOPED_SIGNALS;
        ask->size = sizeof(ask->attr);
    }

    /* what a task is refused, by us or by itself, is not logged for the host */

    if (abi >= LANDLOCK_ABI_LOG) {
        ask->flags = LANDLOCK_LOG_SAME_EXEC_OFF|LANDLOCK_LOG_SUBDOMAINS_OFF;
    }
}


/* A right that the inode cannot have makes the kernel refuse the whole rule. */

uint64_t
landlock_rights(int abi, landlock_place_t place, int is_dir)
{
    size_t    i;
    uint64_t  rights;

    rights = 0;

    for (i = 0; i < LANDLOCK_ROWS; i++) {
        if (landlock_table[i].abi <= abi
            && (landlock_table[i].of & (int) place)
            && (is_dir || landlock_table[i].is_file))
        {
            rights |= landlock_table[i].right;
        }
    }

    return rights;
}


int
landlock_restrict(const landlock_rule_t *rules, unsigned n, const char **what)
{
    int             abi, ruleset, err;
    unsigned        i;
    landlock_ask_t  ask;

    *what = NULL;
    abi = landlock_abi();

    if (abi == 0) {
        return -1;
    }

    landlock_ask(abi, &ask);

    ruleset = (int) syscall(SYS_landlock_create_ruleset, &ask.attr, ask.size,
                            0);

    if (ruleset == -1) {
        return -1;
    }

    for (i = 0; i < n; i++) {
        if (landlock_allow(abi, ruleset, &rules[i]) != 0) {
            *what = rules[i].path;
            goto failed;
        }
    }

    if (syscall(SYS_landlock_restrict_self, ruleset, ask.flags) != 0) {
        goto failed;
    }

    (void) close(ruleset);

    return 0;

failed:

    err = errno;
    (void) close(ruleset);
    errno = err;

    return -1;
}


static int
landlock_allow(int abi, int ruleset, const landlock_rule_t *rule)
{
    int          rc, err;
    struct stat  st;

    struct landlock_path_beneath_attr  attr;

    attr.parent_fd = open(rule->path, O_PATH|O_CLOEXEC);

    if (attr.parent_fd == -1) {
        return -1;
    }

    rc = -1;

    if (fstat(attr.parent_fd, &st) == 0) {
        attr.allowed_access = landlock_rights(abi, rule->place,
                                              S_ISDIR(st.st_mode));

        rc = (int) syscall(SYS_landlock_add_rule, ruleset,
                           LANDLOCK_RULE_PATH_BENEATH, &attr, 0);
    }

    err = errno;
    (void) close(attr.parent_fd);
    errno = err;

    return rc;
}


int
landlock_enter(setup_t *s)
{
    unsigned          i, n;
    const char       *what;
    landlock_rule_t   rules[LANDLOCK_RULES_MAX];

    n = 0;

    rules[n++] = (landlock_rule_t) { "/", SYSTEM };
    rules[n++] = (landlock_rule_t) { "/proc", PROC };
    rules[n++] = (landlock_rule_t) { "/dev", DEV };
    rules[n++] = (landlock_rule_t) { "/dev/shm", WORK };
    rules[n++] = (landlock_rule_t) { "/tmp", WORK };
    rules[n++] = (landlock_rule_t) { "/run/task/out", WORK };

    for (i = 0; i < s->spec->nwritable; i++) {
        rules[n++] = (landlock_rule_t) { s->spec->writable[i].path, WORK };
    }

    if (landlock_restrict(rules, n, &what) != 0) {
        return report_detail(s, what ? "no Landlock rule can be made for %s"
                                    : "the Landlock ruleset cannot be entered",
                            what);
    }

    return 0;
}
