/*
 * The floor of what a box can cost: the time that the kernel takes to make
 * and to remove the namespaces, the cgroups with their limits and a root of
 * five mounts, around one command.  It sets up none of the walls of a box.
 * No launcher on this machine can be faster, so the other rows of the bench
 * are compared with it.  It needs root and cgroup v1.
 *
 *     bench_least COMMAND
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>


#define LEAST_ID      2000070000u       /* above those of boxes */
#define LEAST_GROUPS  4

#define LEAST_NAMESPACES  (CLONE_NEWUSER|CLONE_NEWPID|CLONE_NEWNS \
                           |CLONE_NEWIPC|CLONE_NEWUTS|CLONE_NEWNET)


static void least_box(char *command, int sync);
static void least_root(void);
static void least_map(long pid);
static void least_groups(char paths[LEAST_GROUPS][96], long pid);
static void least_write(const char *dir, const char *file, const char *text);
static void must(int is, const char *what);


int
main(int argc, char **argv)
{
    int                i, status, sync[2];
    char               paths[LEAST_GROUPS][96];
    long               pid;
    struct clone_args  args;

    must(argc == 2, "needs one argument, the command");
    must(socketpair(AF_UNIX, SOCK_SEQPACKET|SOCK_CLOEXEC, 0, sync) == 0,
         "socketpair");

    args = (struct clone_args) {
        .flags = LEAST_NAMESPACES, .exit_signal = SIGCHLD
    };

    pid = syscall(SYS_clone3, &args, sizeof(args));
    must(pid != -1, "clone3");

    if (pid == 0) {
        least_box(argv[1], sync[1]);
    }

    least_map(pid);
    least_groups(paths, pid);
    must(send(sync[0], "", 1, 0) == 1, "send");
    must(waitpid((pid_t) pid, &status, 0) == pid, "waitpid");

    for (i = LEAST_GROUPS - 1; i >= 0; i--) {
        must(rmdir(paths[i]) == 0, paths[i]);
    }

    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}


static void
least_box(char *command, int sync)
{
    int    status;
    char   byte;
    char  *argv[] = { command, NULL }, *envp[] = { NULL };
    pid_t  pid;

    must(recv(sync, &byte, 1, 0) == 1, "recv");
    must(setresgid(1000, 1000, 1000) == 0, "setresgid");
    must(setresuid(1000, 1000, 1000) == 0, "setresuid");
    must(unshare(CLONE_NEWCGROUP) == 0, "unshare");

    least_root();

    pid = vfork();

    if (pid == 0) {
        (void) execve(command, argv, envp);
        _exit(127);
    }

    must(pid != -1 && waitpid(pid, &status, 0) == pid, "waitpid");
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}


static void
least_root(void)
{
    must(mount("", "/", NULL, MS_PRIVATE|MS_REC, NULL) == 0, "private");
    must(mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID|MS_NODEV, "size=8m") == 0,
         "root");
    must(chdir("/tmp") == 0 && mkdir("usr", 0755) == 0
         && mkdir("proc", 0755) == 0 && mkdir("tmp", 0755) == 0
         && mkdir("out", 0755) == 0
         && symlink("usr/bin", "bin") == 0 && symlink("usr/lib", "lib") == 0
         && symlink("usr/lib64", "lib64") == 0, "directories");
    must(mount("/usr", "usr", NULL, MS_BIND|MS_REC, NULL) == 0, "usr");
    must(mount("proc", "proc", "proc", MS_NOSUID|MS_NODEV|MS_NOEXEC, NULL)
         == 0, "proc");
    must(mount("tmpfs", "tmp", "tmpfs", MS_NOSUID|MS_NODEV, "size=8m") == 0,
         "tmp");
    must(mount("tmpfs", "out", "tmpfs", MS_NOSUID|MS_NODEV, "size=8m") == 0,
         "out");
    must(syscall(SYS_pivot_root, ".", ".") == 0
         && umount2(".", MNT_DETACH) == 0 && chdir("/") == 0, "pivot_root");
}


static void
least_map(long pid)
{
    char  dir[64], map[64];

    (void) snprintf(dir, sizeof(dir), "/proc/%ld", pid);
    (void) snprintf(map, sizeof(map), "1000 %u 1", LEAST_ID);
    least_write(dir, "uid_map", map);
    least_write(dir, "gid_map", map);
}


static void
least_groups(char paths[LEAST_GROUPS][96], long pid)
{
    int   i;
    char  text[32];

    static const char *const  names[LEAST_GROUPS] = {
        "pids", "memory", "cpu", "cpuacct"
    };

    (void) snprintf(text, sizeof(text), "%ld", pid);

    for (i = 0; i < LEAST_GROUPS; i++) {
        (void) snprintf(paths[i], sizeof(paths[i]),
                        "/sys/fs/cgroup/%s/agent-jail/0/least-%d", names[i],
                        (int) getpid());
        must(mkdir(paths[i], 0755) == 0, paths[i]);
        least_write(paths[i], "tasks", text);
    }

    least_write(paths[0], "pids.max", "257");
    least_write(paths[1], "memory.limit_in_bytes", "536870912");
    least_write(paths[1], "memory.memsw.limit_in_bytes", "536870912");
    least_write(paths[2], "cpu.cfs_quota_us", "100000");
}


static void
least_write(const char *dir, const char *file, const char *text)
{
    int   fd;
    char  path[160];

    (void) snprintf(path, sizeof(path), "%s/%s", dir, file);
    fd = open(path, O_WRONLY|O_CLOEXEC);
    must(fd != -1 && write(fd, text, strlen(text)) == (ssize_t) strlen(text),
         path);
    (void) close(fd);
}


static void
must(int is, const char *what)
{
    if (!is) {
        (void) fprintf(stderr, "bench_least: %s: %s\n", what,
                       strerror(errno));
        _exit(1);
    }
}
