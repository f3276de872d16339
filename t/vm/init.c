/*
 * The first process of the test machine, from its initial ramdisk.  The root
 * is the host's own, over virtiofs, read-only, with a layer in memory on top
 * of it for what is written.
 *
 * The new root is moved over the old one and not only entered: in a plain
 * chroot the kernel makes no user namespaces, and no box could be built.
 *
 * Environment, from the kernel's command line: AGENT_RUN, a program of the
 * host to be run as root; its status is printed, and the machine stops.  Or
 * AGENT_SYSTEMD, the name of systemd's first unit, and systemd takes over.
 * Run as `init stop STATUS` it stops a machine in which systemd runs.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>


#define INIT_EXIT_PORT  0xf4


typedef struct {
    const char  *source;
    const char  *target;
    const char  *type;
    const char  *options;
} init_mount_t;


/* each needs what stands before it */

static const char *const  init_modules[] = {
    "virtio_ring", "virtio", "virtio_mmio", "fuse", "virtiofs", "overlay"
};


static const init_mount_t  init_root[] = {
    { "host", "/lower", "virtiofs", NULL },
    { "memory", "/layer", "tmpfs", "size=512m" },
    { NULL, NULL, NULL, NULL }
};


/* systemd mounts these itself where they are not there */

static const init_mount_t  init_system[] = {
    { "proc", "/new/proc", "proc", NULL },
    { "sysfs", "/new/sys", "sysfs", NULL },
    { "cgroup2", "/new/sys/fs/cgroup", "cgroup2", "nsdelegate" },
    { "devtmpfs", "/new/dev", "devtmpfs", NULL },
    { "devpts", "/new/dev/pts", "devpts", "ptmxmode=0666" },
    { "shm", "/new/dev/shm", "tmpfs", NULL },
    { "run", "/new/run", "tmpfs", "mode=755" },
    { NULL, NULL, NULL, NULL }
};


static void init_load(void);
static void init_mount(const init_mount_t *mounts);
static void init_enter(void);
static int init_run(const char *program);
static void init_check(int rc, const char *what);
static void init_stop(int status);


int
main(int argc, char **argv)
{
    const char  *unit, *program;

    if (argc == 3 && strcmp(argv[1], "stop") == 0) {
        init_stop(atoi(argv[2]));
    }

    (void) mkdir("/dev", 0755);
    (void) mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);

    init_load();
    init_mount(init_root);

    (void) mkdir("/layer/upper", 0755);
    (void) mkdir("/layer/work", 0755);
    (void) mkdir("/new", 0755);

    init_check(mount("root", "/new", "overlay", 0, "lowerdir=/lower,"
                     "upperdir=/layer/upper,workdir=/layer/work"),
               "the overlay");

    init_mount(init_system);
    init_enter();

    (void) setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:"
                  "/sbin:/bin", 1);
    (void) setenv("HOME", "/root", 1);

    unit = getenv("AGENT_SYSTEMD");
    program = getenv("AGENT_RUN");

    if (unit) {
        execl("/lib/systemd/systemd", "systemd", "--unit", unit,
              "--show-status=no", "--log-target=null", (char *) NULL);
        init_check(-1, "/lib/systemd/systemd");
    }

    init_stop(program ? init_run(program) : 125);
}


static void
init_load(void)
{
    int     fd, rc;
    char    path[64];
    size_t  i;

    for (i = 0; i < sizeof(init_modules) / sizeof(init_modules[0]); i++) {
        (void) snprintf(path, sizeof(path), "/modules/%s.ko",
                        init_modules[i]);
        fd = open(path, O_RDONLY|O_CLOEXEC);

        /* one that is not there is part of the kernel */

        if (fd == -1) {
            continue;
        }

        rc = (int) syscall(SYS_finit_module, fd, "", 0);
        init_check(rc != 0 && errno != EEXIST ? -1 : 0, path);
        (void) close(fd);
    }
}


static void
init_mount(const init_mount_t *m)
{
    for ( /* void */ ; m->target; m++) {
        (void) mkdir(m->target, 0755);
        init_check(mount(m->source, m->target, m->type, 0, m->options),
                   m->target);
    }
}


static void
init_enter(void)
{
    int  fd;

    init_check(chdir("/new"), "/new");
    init_check(mount(".", "/", NULL, MS_MOVE, NULL), "the new root");
    init_check(chroot("."), "chroot");
    init_check(chdir("/"), "/");

    fd = open("/dev/console", O_RDWR);

    if (fd != -1) {
        (void) dup2(fd, 0);
        (void) dup2(fd, 1);
        (void) dup2(fd, 2);
    }
}


static int
init_run(const char *program)
{
    int    status;
    pid_t  pid, ended;

    pid = fork();

    if (pid == 0) {
        (void) setsid();
        execl(program, program, (char *) NULL);
        init_check(-1, program);
    }

    do {
        ended = wait(&status);
    } while (ended != pid && (ended != -1 || errno == EINTR));

    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}


static void
init_check(int rc, const char *what)
{
    if (rc != 0) {
        (void) fprintf(stderr, "init: %s: %s\n", what, strerror(errno));
        init_stop(125);
    }
}


/*
 * The status is for who reads the console.  The port is qemu's isa-debug-exit:
 * a reboot sometimes waits for ever for the other processor.
 */

static void
init_stop(int status)
{
    (void) printf("\nAGENT-STATUS %d\n", status);
    (void) fflush(stdout);
    (void) tcdrain(STDOUT_FILENO);

    if (ioperm(INIT_EXIT_PORT, 1, 1) == 0) {
        outb(0, INIT_EXIT_PORT);
    }

    (void) reboot(RB_AUTOBOOT);
    _exit(125);
}
