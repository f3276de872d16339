/*
 * Runs a command on a host that this one is not: with system calls refused,
 * with /proc masked, with settings that read otherwise, with no more user
 * namespaces.  So a test sees what the launcher does on Ubuntu, on a hardened
 * kernel, on an old one, in a container, without hooks in the launcher.
 *
 *   deny [OPTION]... -- COMMAND [ARG]...
 *
 *   --set FILE=TEXT       FILE reads TEXT; its directory has nothing else
 *   --mask PATH           a device that is empty, or an empty directory, there
 *   --read-only PATH      PATH and what is mounted below is read-only
 *   --userns-max N        in a user namespace that may have N more
 *   --no-write DIR        no file below DIR, an entry of /, may be written
 *   --refuse CALL=ERRNO   the call gives this error; CALL may be followed by
 *                         :ARG==VALUE or :ARG&MASK (all of its bits are set);
 *                         ERRNO "none": it does nothing and says it did
 *
 * The first four are root's.  They are done in this order, whatever the order
 * they are given in: what comes later would refuse what comes before.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/landlock.h>
#include <sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>


#define DENY_FAILED  99                 /* no status of the launcher's */


typedef struct {
    const char  *name;
    void       (*run)(char *value);
} deny_t;


static void deny_set(char *value);
static void deny_mask(char *value);
static void deny_read_only(char *value);
static void deny_userns_max(char *value);
static void deny_no_write(char *value);
static void deny_refuse(char *value);
static void deny_load(void);

static int deny_errno(const char *name);
static void deny_write(const char *path, const char *text);
static void deny_failed(const char *what);


static const deny_t  denials[] = {
    { "--set", deny_set },
    { "--mask", deny_mask },
    { "--read-only", deny_read_only },
    { "--userns-max", deny_userns_max },
    { "--no-write", deny_no_write },
    { "--refuse", deny_refuse },
};

#define DENIALS  (sizeof(denials) / sizeof(denials[0]))


static scmp_filter_ctx  filter;
static int              has_mounts;


int
main(int argc, char **argv)
{
    int     i, last;
    size_t  d;

    for (last = 1; last < argc && strcmp(argv[last], "--") != 0; last += 2) {

        for (d = 0; d < DENIALS; d++) {
            if (strcmp(argv[last], denials[d].name) == 0) {
                break;
            }
        }

        if (d == DENIALS || last + 1 >= argc) {
            errno = EINVAL;
            deny_failed(argv[last]);
        }

        has_mounts |= (d < 3);
    }

    if (last + 1 >= argc) {
        errno = EINVAL;
        deny_failed("no command");
    }

    if (has_mounts
        && (unshare(CLONE_NEWNS) != 0
            || mount(NULL, "/", NULL, MS_REC|MS_PRIVATE, NULL) != 0))
    {
        deny_failed("a mount namespace");
    }

    for (d = 0; d < DENIALS; d++) {
        for (i = 1; i < last; i += 2) {
            if (strcmp(argv[i], denials[d].name) == 0) {
                denials[d].run(argv[i + 1]);
            }
        }
    }

    if (filter) {
        deny_load();
    }

    (void) execvp(argv[last + 1], argv + last + 1);
    deny_failed(argv[last + 1]);

    return DENY_FAILED;
}


static void
deny_set(char *value)
{
    char  *text, *copy, *dir;

    text = strchr(value, '=');

    if (text == NULL) {
        errno = EINVAL;
        deny_failed("--set");
    }

    *text++ = '\0';
    copy = strdup(value);
    dir = copy ? dirname(copy) : NULL;

    if (dir == NULL || mount("deny", dir, "tmpfs", 0, "mode=0755") != 0) {
        deny_failed(value);
    }

    deny_write(value, text);
    free(copy);
}


static void
deny_mask(char *value)
{
    struct stat  st;

    if (stat(value, &st) != 0
        || (S_ISDIR(st.st_mode)
            ? mount("deny", value, "tmpfs", MS_RDONLY, NULL)
            : mount("/dev/null", value, NULL, MS_BIND, NULL)) != 0)
    {
        deny_failed(value);
    }
}


static void
deny_read_only(char *value)
{
    struct {
        uint64_t  set, clear, propagation, userns;
    } attr = { 1 /* MOUNT_ATTR_RDONLY */, 0, 0, 0 };

    if (mount(value, value, NULL, MS_BIND|MS_REC, NULL) != 0
        || syscall(SYS_mount_setattr, AT_FDCWD, value, AT_RECURSIVE, &attr,
                   sizeof(attr)) != 0)
    {
        deny_failed(value);
    }
}


/*
 * The map is the whole of this one, so that ids mean what they meant; who is
 * outside has to write it.
 */

static void
deny_userns_max(char *value)
{
    int    ready[2], go[2], status;
    char   c, path[64];
    pid_t  pid;

    if (pipe(ready) != 0 || pipe(go) != 0) {
        deny_failed("pipe");
    }

    pid = fork();

    if (pid == -1) {
        deny_failed("fork");
    }

    if (pid > 0) {
        (void) close(ready[1]);
        (void) close(go[0]);

        if (read(ready[0], &c, 1) == 1) {
            (void) sprintf(path, "/proc/%d/uid_map", (int) pid);
            deny_write(path, "0 0 4294967295");
            (void) sprintf(path, "/proc/%d/gid_map", (int) pid);
            deny_write(path, "0 0 4294967295");
        }

        (void) close(go[1]);

        if (waitpid(pid, &status, 0) != pid) {
            deny_failed("waitpid");
        }

        exit(WIFEXITED(status) ? WEXITSTATUS(status) : DENY_FAILED);
    }

    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0
        || unshare(CLONE_NEWUSER) != 0 || write(ready[1], "", 1) != 1)
    {
        deny_failed("a user namespace");
    }

    (void) close(ready[1]);
    (void) close(go[1]);
    (void) !read(go[0], &c, 1);
    (void) close(ready[0]);
    (void) close(go[0]);

    deny_write("/proc/sys/user/max_user_namespaces", value);
}


static void
deny_no_write(char *value)
{
    int             ruleset;
    DIR            *dir;
    uint64_t        rights;
    struct dirent  *de;

    struct landlock_path_beneath_attr  attr;

    rights = LANDLOCK_ACCESS_FS_WRITE_FILE;
    ruleset = (int) syscall(SYS_landlock_create_ruleset, &rights,
                            sizeof(rights), 0);
    dir = opendir("/");

    if (ruleset == -1 || dir == NULL || value[0] != '/') {
        deny_failed("Landlock");
    }

    while ((de = readdir(dir)) != NULL) {

        if (de->d_name[0] == '.' || strcmp(de->d_name, value + 1) == 0) {
            continue;
        }

        attr.allowed_access = rights;
        attr.parent_fd = openat(dirfd(dir), de->d_name, O_PATH|O_CLOEXEC);

        if (attr.parent_fd == -1
            || syscall(SYS_landlock_add_rule, ruleset,
                       LANDLOCK_RULE_PATH_BENEATH, &attr, 0) != 0)
        {
            deny_failed(de->d_name);
        }

        (void) close(attr.parent_fd);
    }

    (void) closedir(dir);

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
        || syscall(SYS_landlock_restrict_self, ruleset, 0) != 0)
    {
        deny_failed("Landlock");
    }

    (void) close(ruleset);
}


static void
deny_refuse(char *value)
{
    int                  nr, err, rc;
    char                *name, *cond, *end;
    unsigned long        arg, number;
    struct scmp_arg_cmp  cmp;

    name = strrchr(value, '=');
    err = name ? deny_errno(name + 1) : -1;

    if (err == -1) {
        errno = EINVAL;
        deny_failed(value);
    }

    *name = '\0';
    cond = strchr(value, ':');

    if (cond) {
        *cond++ = '\0';
    }

    nr = seccomp_syscall_resolve_name(value);

    if (filter == NULL) {
        filter = seccomp_init(SCMP_ACT_ALLOW);
    }

    if (nr == __NR_SCMP_ERROR || filter == NULL) {
        errno = EINVAL;
        deny_failed(value);
    }

    if (cond) {
        arg = strtoul(cond, &end, 10);
        number = strtoul(end + (*end == '=' ? 2 : 1), NULL, 0);

        cmp = (struct scmp_arg_cmp) {
            .arg = (unsigned) arg, .op = SCMP_CMP_MASKED_EQ,
            .datum_a = *end == '=' ? 0xffffffff : number, .datum_b = number
        };

        rc = seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(err), nr, 1, &cmp);

    } else {
        rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(err), nr, 0);
    }

    if (rc != 0) {
        errno = -rc;
        deny_failed(value);
    }
}


static void
deny_load(void)
{
    int  rc;

    rc = seccomp_load(filter);

    if (rc != 0) {
        errno = -rc;
        deny_failed("seccomp");
    }

    seccomp_release(filter);
}


static int
deny_errno(const char *name)
{
    int          i;
    const char  *s;

    for (i = 1; i < 256; i++) {
        s = strerrorname_np(i);

        if (s && strcmp(s, name) == 0) {
            return i;
        }
    }

    return strcmp(name, "none") == 0 ? 0 : -1;
}


static void
deny_write(const char *path, const char *text)
{
    int  fd;

    fd = open(path, O_WRONLY|O_CREAT|O_CLOEXEC, 0644);

    if (fd == -1 || write(fd, text, strlen(text)) != (ssize_t) strlen(text)
        || close(fd) != 0)
    {
        deny_failed(path);
    }
}


static void
deny_failed(const char *what)
{
    (void) fprintf(stderr, "deny: %s: %s\n", what, strerror(errno));
    exit(DENY_FAILED);
}
