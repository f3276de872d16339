/*
 * Landlock: what is asked of each version of it, against a table of what the
 * kernel's documentation says that the version knows; and, on the version
 * that is here, what a ruleset alone refuses, without a mount beside it.
 */

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box/landlock.h"


#define REFER         (1ull << 13)
#define TRUNCATE      (1ull << 14)
#define IOCTL_DEV     (1ull << 15)
#define RESOLVE_UNIX  (1ull << 16)
#define NEWEST        10

/* rights that what is no directory can have: include/uapi and its users */
#define OF_FILES  ((1ull << 0)|(1ull << 1)|(1ull << 2)|TRUNCATE|IOCTL_DEV \
                   |RESOLVE_UNIX)


/* what each version knows */

static const struct {
    uint64_t  fs;
    uint64_t  net;
    uint64_t  scoped;
    uint32_t  flags;
    size_t    size;
} versions[NEWEST + 1] = {
    { 0, 0, 0, 0, 0 },
    { REFER - 1, 0, 0, 0, 8 },
    { TRUNCATE - 1, 0, 0, 0, 8 },
    { IOCTL_DEV - 1, 0, 0, 0, 8 },
    { IOCTL_DEV - 1, 3, 0, 0, 16 },
    { RESOLVE_UNIX - 1, 3, 0, 0, 16 },
    { RESOLVE_UNIX - 1, 3, 3, 0, 24 },
    { RESOLVE_UNIX - 1, 3, 3, 7, 24 },
    { RESOLVE_UNIX - 1, 3, 3, 15, 24 },
    { 2 * RESOLVE_UNIX - 1, 3, 3, 15, 24 },
    { 2 * RESOLVE_UNIX - 1, 15, 3, 15, 48 },
};

static const landlock_place_t  places[] = {
    LANDLOCK_SYSTEM, LANDLOCK_PROC, LANDLOCK_DEV, LANDLOCK_WORK
};


static void
test_versions(void **state)
{
    int             abi, known;
    size_t          i;
    uint64_t        rights;
    landlock_ask_t  ask;

    (void) state;

    for (abi = 0; abi <= NEWEST + 3; abi++) {
        known = abi > NEWEST ? NEWEST : abi;
        landlock_ask(abi, &ask);

        expect(ask.attr.fs == versions[known].fs,
               "version %d: rights 0x%llx", abi,
               (unsigned long long) ask.attr.fs);
        expect((ask.attr.net & ~versions[known].net) == 0
               && (ask.attr.scoped & ~versions[known].scoped) == 0
               && (ask.flags & ~versions[known].flags) == 0,
               "version %d does not know all this", abi);
        expect(abi < 6 || ask.attr.scoped == 3, "version %d: scopes", abi);
        expect(abi == 0 || ask.size <= versions[known].size,
               "version %d: size %zu", abi, ask.size);

        for (i = 0; i < COUNT(places); i++) {
            rights = landlock_rights(abi, places[i], 1);

            /* a right that is not handled would make the rule invalid */

            expect((rights & ~ask.attr.fs) == 0, "version %d, place %d", abi,
                   (int) places[i]);
            expect(landlock_rights(abi, places[i], 0)
                   == (rights & OF_FILES), "version %d, place %d: a file",
                   abi, (int) places[i]);
        }
    }
}


static void
test_places(void **state)
{
    int       abi;
    uint64_t  system, work, any;

    (void) state;

    for (abi = 1; abi <= NEWEST; abi++) {
        system = landlock_rights(abi, LANDLOCK_SYSTEM, 1);
        work = landlock_rights(abi, LANDLOCK_WORK, 1);
        any = system|work|landlock_rights(abi, LANDLOCK_PROC, 1)
              |landlock_rights(abi, LANDLOCK_DEV, 1);

        /* execute, read, list: nothing else of what is read-only */

        expect(system == ((1 << 0)|(1 << 2)|(1 << 3)), "version %d", abi);

        /* devices are made nowhere, sockets of others reached nowhere */

        expect((any & ((1 << 6)|(1 << 11)|RESOLVE_UNIX)) == 0, "version %d",
               abi);

        expect((abi >= 2) == ((work & REFER) != 0), "version %d", abi);
        expect((abi >= 3) == ((work & TRUNCATE) != 0), "version %d", abi);
    }
}


/* --- what the kernel here does with it: each try beside its control */

static char  base[] = "/tmp/landlock-test-XXXXXX";
static int   parent;


static int
err(int rc)
{
    return rc == -1 ? errno : 0;
}


static const char *
at(const char *dir, const char *name)
{
    static char  path[4][256];
    static int   i;

    i = (i + 1) % 4;
    (void) snprintf(path[i], 256, "%s/%s/%s", base, dir, name);

    return path[i];
}


static int
try_write(const char *dir)
{
    return err(open(at(dir, "file"), O_WRONLY));
}


static int
try_create(const char *dir)
{
    return err(open(at(dir, "new"), O_RDONLY|O_CREAT, 0600));
}


static int
try_truncate(const char *dir)
{
    return err(truncate(at(dir, "file"), 0));
}


static int
try_mkdir(const char *dir)
{
    return err(mkdir(at(dir, "newdir"), 0700));
}


static int
try_fifo(const char *dir)
{
    return err(mkfifo(at(dir, "newfifo"), 0600));
}


static int
try_symlink(const char *dir)
{
    return err(symlink("x", at(dir, "newlink")));
}


static int
try_socket(const char *dir)
{
    int                 fd;
    struct sockaddr_un  addr;

    addr = (struct sockaddr_un) { .sun_family = AF_UNIX };
    (void) snprintf(addr.sun_path, sizeof(addr.sun_path), "%s",
                    at(dir, "newsock"));
    fd = socket(AF_UNIX, SOCK_STREAM, 0);

    return err(bind(fd, (struct sockaddr *) &addr, sizeof(addr)));
}


static int
try_unlink(const char *dir)
{
    return err(unlink(at(dir, "old")));
}


static int
try_rmdir(const char *dir)
{
    return err(rmdir(at(dir, "olddir")));
}


static int
try_rename(const char *dir)
{
    return err(rename(at(dir, "from/moved"), at(dir, "to/moved")));
}


static int
try_link(const char *dir)
{
    return err(link(at(dir, "from/linked"), at(dir, "to/linked")));
}


static const struct {
    const char  *name;
    int        (*run)(const char *dir);
    int          abi;           /* that judges it */
    int          refused;       /* the errno outside the writable place */
} tries[] = {
    { "write", try_write, 1, EACCES },
    { "create", try_create, 1, EACCES },
    { "truncate", try_truncate, 3, EACCES },
    { "mkdir", try_mkdir, 1, EACCES },
    { "mkfifo", try_fifo, 1, EACCES },
    { "symlink", try_symlink, 1, EACCES },
    { "bind a socket", try_socket, 1, EACCES },
    { "unlink", try_unlink, 1, EACCES },
    { "rmdir", try_rmdir, 1, EACCES },
    { "rename to another directory", try_rename, 2, EACCES },
    { "link to another directory", try_link, 2, EACCES },
};


static void
make_file(const char *dir, const char *name)
{
    int  fd;

    fd = open(at(dir, name), O_WRONLY|O_CREAT, 0600);
    assert_int_not_equal(fd, -1);
    assert_int_equal(write(fd, "x", 1), 1);
    assert_int_equal(close(fd), 0);
}


static int
set_up(void **state)
{
    size_t  i;

    static const char *const  dirs[] = { "work", "other" };

    (void) state;

    if (mkdtemp(base) == NULL) {
        return -1;
    }

    for (i = 0; i < COUNT(dirs); i++) {
        (void) mkdir(at(dirs[i], ""), 0700);
        (void) mkdir(at(dirs[i], "from"), 0700);
        (void) mkdir(at(dirs[i], "to"), 0700);
        (void) mkdir(at(dirs[i], "olddir"), 0700);
        make_file(dirs[i], "file");
        make_file(dirs[i], "sibling");
        make_file(dirs[i], "old");
        make_file(dirs[i], "from/moved");
        make_file(dirs[i], "from/linked");
        (void) mkfifo(at(dirs[i], "fifo"), 0600);
    }

    /* for root: a device outside of /dev, if the file system has such */

    (void) mknod(at("work", "null"), S_IFCHR|0600, makedev(1, 3));

    return 0;
}


static int
tear_down(void **state)
{
    char  command[64];

    (void) state;
    (void) snprintf(command, sizeof(command), "rm -rf %s", base);

    return system(command);
}


/* In a child, which is the only one restricted; the text is the failure. */

static void
in_child(const char *(*body)(void))
{
    int          status, fds[2];
    char         text[256];
    pid_t        pid;
    ssize_t      n;
    const char  *failure;

    if (landlock_abi() == 0) {
        skip();
    }

    assert_int_equal(pipe(fds), 0);
    parent = getpid();
    pid = fork();
    assert_int_not_equal(pid, -1);

    if (pid == 0) {
        failure = body();
        (void) !write(fds[1], failure ? failure : "", failure
                                                      ? strlen(failure) : 0);
        _exit(0);
    }

    (void) close(fds[1]);
    n = read(fds[0], text, sizeof(text) - 1);
    (void) close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    text[n > 0 ? n : 0] = '\0';

    expect(WIFEXITED(status) && n == 0, "%s", text);
}


static const char *
enter(const char *path, landlock_place_t place)
{
    const char       *what;
    landlock_rule_t   rules[] = {
        { "/", LANDLOCK_SYSTEM }, { "/dev", LANDLOCK_DEV }, { path, place }
    };

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
        || landlock_restrict(rules, COUNT(rules), &what) != 0)
    {
        return "the ruleset cannot be entered";
    }

    return NULL;
}


static const char *
body_files(void)
{
    int          e;
    size_t       i;
    const char  *failure;
    static char  text[128];

    failure = enter(at("work", ""), LANDLOCK_WORK);

    for (i = 0; i < COUNT(tries) && failure == NULL; i++) {

        if (tries[i].abi > landlock_abi()) {
            continue;
        }

        e = tries[i].run("other");

        if (e != tries[i].refused) {
            (void) snprintf(text, sizeof(text), "%s: not refused: %s",
                            tries[i].name, strerror(e));
            failure = text;
        }

        e = tries[i].run("work");

        if (e != 0) {
            (void) snprintf(text, sizeof(text), "%s: refused in the "
                            "writable place: %s", tries[i].name, strerror(e));
            failure = text;
        }
    }

    if (failure == NULL
        && (err(open(at("other", "file"), O_RDONLY)) != 0
            || access("/bin/sh", X_OK) != 0))
    {
        failure = "what is read-only cannot be read";
    }

    /* out of the writable place: a right too many would be gained */

    e = err(rename(at("work", "sibling"), at("other", "stolen")));

    if (failure == NULL && e != EACCES && e != EXDEV) {
        failure = "a file leaves the writable place";
    }

    return failure;
}


static void
test_files(void **state)
{
    (void) state;
    in_child(body_files);
}


/* a rule of one file, one FIFO, one device */

static const char *
body_one_file(void)
{
    const char  *failure;

    failure = enter(at("other", "file"), LANDLOCK_WORK);

    if (failure) {
        return failure;
    }

    return try_write("other") != 0 ? "the file of the rule is not writable"
           : err(open(at("other", "sibling"), O_WRONLY)) != EACCES
             ? "the file beside it is writable"
           : err(open("/dev/null", O_RDWR)) != 0 ? "/dev/null" : NULL;
}


static const char *
body_one_fifo(void)
{
    const char  *failure;

    failure = enter(at("other", "fifo"), LANDLOCK_WORK);

    return failure ? failure
           : err(open(at("other", "fifo"), O_RDWR|O_NONBLOCK)) != 0
             ? "the FIFO of the rule is not writable"
           : err(open(at("work", "fifo"), O_RDWR|O_NONBLOCK)) != EACCES
             ? "another FIFO is writable" : NULL;
}


static const char *
body_one_device(void)
{
    const char       *what;
    landlock_rule_t   rules[] = { { "/dev/null", LANDLOCK_DEV } };

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
        || landlock_restrict(rules, 1, &what) != 0)
    {
        return "no rule of a device";
    }

    return err(open("/dev/null", O_RDWR)) != 0
           ? "the device of the rule is not writable"
           : err(open("/dev/zero", O_RDWR)) != EACCES
             ? "another device is writable" : NULL;
}


static void
test_one_file(void **state)
{
    (void) state;
    in_child(body_one_file);
    in_child(body_one_fifo);
    in_child(body_one_device);
}


static const char *
body_devices(void)
{
    int          fd, arg;
    const char  *failure;

    failure = enter(at("work", ""), LANDLOCK_WORK);

    if (failure) {
        return failure;
    }

    /* root's, who could without the ruleset; others' are refused before */

    if (geteuid() == 0
        && err(mknod(at("work", "made"), S_IFCHR|0600, makedev(1, 3)))
           != EACCES)
    {
        return "a device can be made";
    }

    fd = open("/dev/null", O_RDWR);

    if (fd == -1 || err(ioctl(fd, FIONREAD, &arg)) != ENOTTY) {
        return "control: an ioctl of a device in /dev";
    }

    fd = open(at("work", "null"), O_RDWR);

    if (fd != -1 && landlock_abi() >= 5
        && err(ioctl(fd, FIONREAD, &arg)) != EACCES)
    {
        return "an ioctl of a device elsewhere";
    }

    return NULL;
}


static void
test_devices(void **state)
{
    (void) state;
    in_child(body_devices);
}


static int
abstract_socket(const char *name, int (*f)(int, const struct sockaddr *,
    socklen_t))
{
    int                 fd;
    socklen_t           len;
    struct sockaddr_un  addr;

    addr = (struct sockaddr_un) { .sun_family = AF_UNIX };
    (void) snprintf(addr.sun_path + 1, sizeof(addr.sun_path) - 1,
                    "%s.%s", base, name);
    len = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1
                       + strlen(addr.sun_path + 1));
    fd = socket(AF_UNIX, SOCK_DGRAM, 0);

    return f(fd, (struct sockaddr *) &addr, len);
}


static const char *
body_scope(void)
{
    pid_t        pid;
    const char  *failure;

    if (err(kill(parent, 0)) != 0 || err(abstract_socket("out", connect)) != 0)
    {
        return "control: without a ruleset";
    }

    failure = enter(at("work", ""), LANDLOCK_WORK);

    if (failure || landlock_abi() < 6) {
        return failure;
    }

    if (err(kill(parent, 0)) != EPERM) {
        return "a process outside can be signalled";
    }

    if (err(abstract_socket("out", connect)) != EPERM) {
        return "an abstract socket outside can be reached";
    }

    if (err(abstract_socket("in", bind)) != 0
        || err(abstract_socket("in", connect)) != 0)
    {
        return "one's own abstract socket cannot be reached";
    }

    pid = fork();

    if (pid == 0) {
        (void) pause();
        _exit(0);
    }

    return err(kill(pid, SIGKILL)) != 0 || waitpid(pid, NULL, 0) != pid
           ? "one's own child cannot be signalled" : NULL;
}


static void
test_scope(void **state)
{
    (void) state;
    assert_int_equal(abstract_socket("out", bind), 0);
    in_child(body_scope);
}


/* a socket in a file that others listen on: only newer kernels refuse */

static const char *
body_unix(void)
{
    int                 fd, e;
    const char         *failure;
    struct sockaddr_un  addr;

    failure = enter(at("work", ""), LANDLOCK_WORK);
    addr = (struct sockaddr_un) { .sun_family = AF_UNIX };
    (void) snprintf(addr.sun_path, sizeof(addr.sun_path), "%s",
                    at("other", "listens"));
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    e = err(connect(fd, (struct sockaddr *) &addr, sizeof(addr)));

    return failure ? failure
           : e != (landlock_abi() >= 9 ? EACCES : 0)
             ? "a socket in a file: not as the version says" : NULL;
}


static void
test_unix(void **state)
{
    int                 fd;
    struct sockaddr_un  addr;

    (void) state;

    addr = (struct sockaddr_un) { .sun_family = AF_UNIX };
    (void) snprintf(addr.sun_path, sizeof(addr.sun_path), "%s",
                    at("other", "listens"));
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *) &addr, sizeof(addr)), 0);
    assert_int_equal(listen(fd, 8), 0);
    in_child(body_unix);
    (void) close(fd);
}


/* nothing is entered in part */

static const char *
body_missing(void)
{
    const char  *failure;

    failure = enter(at("nowhere", ""), LANDLOCK_WORK);

    return failure == NULL ? "a rule of a missing path is passed over"
           : err(open(at("other", "file"), O_WRONLY)) != 0
             ? "a ruleset that failed was entered" : NULL;
}


static void
test_missing(void **state)
{
    (void) state;
    in_child(body_missing);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        PROMISE("A-126 each version is asked for the rights it knows, a "
                "newer one for those of the newest known", test_versions),
        PROMISE("F-013 a place has its rights in each version, and no more",
                test_places),
        PROMISE("A-126 a ruleset alone keeps the files that are not to be "
                "changed, and moves go across directories", test_files),
        PROMISE("A-124 a rule of a file, a FIFO, a device is in force",
                test_one_file),
        PROMISE("A-033 devices are not made, and only those of /dev are "
                "controlled", test_devices),
        PROMISE("A-120 signals and abstract sockets stay in the box",
                test_scope),
        PROMISE("A-077 a socket in a file that another holds", test_unix),
        PROMISE("A-126 what cannot be entered whole is not entered",
                test_missing),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
