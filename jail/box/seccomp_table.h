/*
 * What a task may ask of the kernel: the one table, compiled into a program
 * for the kernel when the launcher is built (seccomp_gen.c) and loaded as it
 * is at each start (seccomp.c).
 *
 *   ALLOW      goes through
 *   REFUSE     EPERM: known, and privileged or a way around a wall
 *   everything that is not in the table: ENOSYS.  A call that is newer than
 *   this table must look like one that the kernel does not have, or programs
 *   do not fall back (glibc: clone3, faccessat2).  Nothing is ever killed.
 *
 * A row with conditions allows the call if one of them is true, and answers
 * its `otherwise` if none is.  A condition looks at the low 32 bits of an
 * argument: all arguments named here are ints for the kernel, which ignores
 * the upper half, so a 64-bit comparison could be passed by setting it.
 *
 * Not here, on purpose: families of send and receive, and AF_UNIX.  Refusing
 * them breaks asyncio, multiprocessing, Chromium and MSBuild; what a socket
 * can reach is decided by the namespaces.
 */

#pragma once

#include <errno.h>
#include <fcntl.h>
#include <linux/ioprio.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>


#define SECCOMP_PROFILE  "default/1"    /* as the result names it */

#define SECCOMP_CONDITIONS_MAX  10

#define SECCOMP_INIT     1              /* pid 1 of the box */

#define SECCOMP_MEMORY_MERGE  67        /* PR_SET_MEMORY_MERGE, since 6.4 */


typedef enum {
    COND_END = 0,
    COND_EQ,                    /* arg == value */
    COND_NE,                    /* arg != value, and != in the next, too */
    COND_CLEAR                  /* no bit of value is set in arg */
} seccomp_test_t;


typedef struct {
    seccomp_test_t  test;
    unsigned        arg;
    uint32_t        value;
    int             with_next;  /* true only together with the next one */
} seccomp_cond_t;


typedef struct {
    const char      *name;
    int              answer;    /* 0: allowed; else the errno */
    int              otherwise; /* where there are conditions */
    seccomp_cond_t   conds[SECCOMP_CONDITIONS_MAX];
} seccomp_rule_t;


#define ALLOW(name)          { name, 0, 0, { { 0 } } }
#define REFUSE(name)         { name, EPERM, 0, { { 0 } } }
#define ONLY(name, err, ...) { name, 0, err, { __VA_ARGS__ } }

#define EQ(arg, value)       { COND_EQ, arg, (uint32_t) (value), 0 }
#define NE_AND(arg, value)   { COND_NE, arg, (uint32_t) (value), 1 }
#define NE(arg, value)       { COND_NE, arg, (uint32_t) (value), 0 }
#define EQ_AND(arg, value)   { COND_EQ, arg, (uint32_t) (value), 1 }
#define CLEAR(arg, value)    { COND_CLEAR, arg, (uint32_t) (value), 0 }

#define NAMESPACES  (CLONE_NEWNS|CLONE_NEWCGROUP|CLONE_NEWUTS|CLONE_NEWIPC \
                     |CLONE_NEWUSER|CLONE_NEWPID|CLONE_NEWNET|0x80)

/* <linux/personality.h>: the query, and plain Linux */
#define PERSONALITY_QUERY  0xffffffffu
#define PERSONALITY_LINUX  0u


static const seccomp_rule_t  seccomp_rules[] = {

    /* files */

    ALLOW("read"), ALLOW("write"), ALLOW("open"), ALLOW("openat"),
    ALLOW("openat2"), ALLOW("creat"), ALLOW("close"), ALLOW("close_range"),
    ALLOW("stat"), ALLOW("fstat"), ALLOW("lstat"), ALLOW("newfstatat"),
    ALLOW("statx"), ALLOW("statfs"), ALLOW("fstatfs"), ALLOW("ustat"),
    ALLOW("poll"), ALLOW("ppoll"), ALLOW("select"), ALLOW("pselect6"),
    ALLOW("lseek"), ALLOW("pread64"), ALLOW("pwrite64"), ALLOW("readv"),
    ALLOW("writev"), ALLOW("preadv"), ALLOW("pwritev"), ALLOW("preadv2"),
    ALLOW("pwritev2"), ALLOW("sendfile"), ALLOW("copy_file_range"),
    ALLOW("splice"), ALLOW("tee"), ALLOW("vmsplice"), ALLOW("readahead"),
    ALLOW("fadvise64"), ALLOW("fallocate"), ALLOW("truncate"),
    ALLOW("ftruncate"), ALLOW("fsync"), ALLOW("fdatasync"),
    ALLOW("sync_file_range"), ALLOW("sync"), ALLOW("syncfs"),
    ALLOW("access"), ALLOW("faccessat"), ALLOW("faccessat2"),
    ALLOW("dup"), ALLOW("dup2"), ALLOW("dup3"), ALLOW("pipe"),
    ALLOW("pipe2"), ALLOW("flock"), ALLOW("getdents"),
    ALLOW("getdents64"), ALLOW("getcwd"), ALLOW("chdir"), ALLOW("fchdir"),
    ALLOW("rename"), ALLOW("renameat"), ALLOW("renameat2"),
    ALLOW("mkdir"), ALLOW("mkdirat"), ALLOW("rmdir"), ALLOW("link"),
    ALLOW("linkat"), ALLOW("unlink"), ALLOW("unlinkat"), ALLOW("symlink"),
    ALLOW("symlinkat"), ALLOW("readlink"), ALLOW("readlinkat"),
    ALLOW("chmod"), ALLOW("fchmod"), ALLOW("fchmodat"), ALLOW("chown"),
    ALLOW("fchown"), ALLOW("lchown"), ALLOW("fchownat"), ALLOW("umask"),
    ALLOW("utime"), ALLOW("utimes"), ALLOW("utimensat"),
    ALLOW("futimesat"),
    ALLOW("getxattr"), ALLOW("lgetxattr"), ALLOW("fgetxattr"),
    ALLOW("setxattr"), ALLOW("lsetxattr"), ALLOW("fsetxattr"),
    ALLOW("listxattr"), ALLOW("llistxattr"), ALLOW("flistxattr"),
    ALLOW("removexattr"), ALLOW("lremovexattr"), ALLOW("fremovexattr"),
    ALLOW("name_to_handle_at"),
    ALLOW("inotify_init"), ALLOW("inotify_init1"),
    ALLOW("inotify_add_watch"), ALLOW("inotify_rm_watch"),
    ALLOW("io_destroy"), ALLOW("io_submit"),
    ALLOW("io_cancel"), ALLOW("io_getevents"), ALLOW("io_pgetevents"),
    ALLOW("epoll_create"), ALLOW("epoll_create1"), ALLOW("epoll_ctl"),
    ALLOW("epoll_ctl_old"), ALLOW("epoll_wait_old"),
    ALLOW("epoll_wait"), ALLOW("epoll_pwait"), ALLOW("epoll_pwait2"),
    ALLOW("eventfd"), ALLOW("eventfd2"), ALLOW("signalfd"),
    ALLOW("signalfd4"), ALLOW("timerfd_create"), ALLOW("timerfd_settime"),
    ALLOW("timerfd_gettime"), ALLOW("memfd_create"),

    /* the bit that of all kinds of nodes only devices have */

    ONLY("mknod", EPERM, CLEAR(1, S_IFCHR)),
    ONLY("mknodat", EPERM, CLEAR(2, S_IFCHR)),

    /* leases and directory notices on the host's files tell other boxes */

    ONLY("fcntl", EPERM, NE_AND(1, F_SETLEASE), NE(1, F_NOTIFY)),

    /* TIOCSTI and TIOCLINUX type into the caller's terminal */

    ONLY("ioctl", EPERM, NE_AND(1, TIOCSTI), NE(1, TIOCLINUX)),

    /* memory */

    ALLOW("brk"), ALLOW("mmap"), ALLOW("munmap"), ALLOW("mremap"),
    ALLOW("mprotect"), ALLOW("pkey_alloc"), ALLOW("pkey_free"),
    ALLOW("pkey_mprotect"), ALLOW("mincore"),
    ALLOW("msync"), ALLOW("mlock"), ALLOW("mlock2"), ALLOW("munlock"),
    ALLOW("mlockall"), ALLOW("munlockall"), ALLOW("membarrier"),
    ALLOW("remap_file_pages"), ALLOW("get_mempolicy"),
    ALLOW("set_mempolicy"), ALLOW("mbind"), ALLOW("memfd_secret"),

    /*
     * Pages that the kernel shares with equal ones of others (KSM) answer a
     * guess at those: as if it had no such thing.
     */

    ONLY("madvise", EINVAL, NE(2, MADV_MERGEABLE)),
    ONLY("prctl", EINVAL, NE(0, SECCOMP_MEMORY_MERGE)),

    /* processes */

    ONLY("clone", EPERM, CLEAR(0, NAMESPACES)),
    ALLOW("fork"), ALLOW("vfork"), ALLOW("execve"), ALLOW("execveat"),
    ALLOW("exit"), ALLOW("exit_group"), ALLOW("wait4"), ALLOW("waitid"),
    ALLOW("kill"), ALLOW("tkill"), ALLOW("tgkill"), ALLOW("getpid"),
    ALLOW("getppid"), ALLOW("gettid"), ALLOW("getpgid"), ALLOW("setpgid"),
    ALLOW("getpgrp"), ALLOW("getsid"), ALLOW("setsid"), ALLOW("getuid"),
    ALLOW("geteuid"), ALLOW("getgid"), ALLOW("getegid"),
    ALLOW("getresuid"), ALLOW("getresgid"), ALLOW("setuid"),
    ALLOW("setgid"), ALLOW("setreuid"), ALLOW("setregid"),
    ALLOW("setresuid"), ALLOW("setresgid"), ALLOW("setfsuid"),
    ALLOW("setfsgid"), ALLOW("getgroups"), ALLOW("setgroups"),
    ALLOW("capget"), ALLOW("capset"), ALLOW("arch_prctl"),
    ALLOW("set_tid_address"),
    ALLOW("set_robust_list"), ALLOW("get_robust_list"), ALLOW("rseq"),
    ALLOW("futex"), ALLOW("futex_waitv"), ALLOW("restart_syscall"),
    ALLOW("getrlimit"), ALLOW("setrlimit"),
    ALLOW("getrusage"), ALLOW("times"), ALLOW("sysinfo"), ALLOW("uname"),
    ALLOW("getcpu"), ALLOW("getpriority"), ALLOW("ioprio_get"),
    ALLOW("sched_yield"), ALLOW("sched_getaffinity"),
    ALLOW("sched_getattr"), ALLOW("sched_getparam"),
    ALLOW("sched_getscheduler"),
    ALLOW("sched_get_priority_max"), ALLOW("sched_get_priority_min"),
    ALLOW("sched_rr_get_interval"), ALLOW("pidfd_open"),
    ALLOW("pidfd_send_signal"), ALLOW("seccomp"),
    ALLOW("landlock_create_ruleset"), ALLOW("landlock_add_rule"),
    ALLOW("landlock_restrict_self"),

    /*
     * The box ends when its init runs to its own end, so nobody may put that
     * behind the others, tie it to a busy processor or take its descriptors
     * away.  It has the task's id, so the kernel would allow it; and all that
     * have this id are meant by PRIO_USER and IOPRIO_WHO_USER.
     */

    ONLY("prlimit64", EPERM, NE(0, SECCOMP_INIT)),
    ONLY("sched_setaffinity", EPERM, NE(0, SECCOMP_INIT)),
    ONLY("sched_setattr", EPERM, NE(0, SECCOMP_INIT)),
    ONLY("sched_setparam", EPERM, NE(0, SECCOMP_INIT)),
    ONLY("sched_setscheduler", EPERM, NE(0, SECCOMP_INIT)),
    ONLY("setpriority", EPERM, NE_AND(0, PRIO_USER), NE(1, SECCOMP_INIT)),
    ONLY("ioprio_set", EPERM, NE_AND(0, IOPRIO_WHO_USER),
                              NE(1, SECCOMP_INIT)),

    /* ADDR_NO_RANDOMIZE and READ_IMPLIES_EXEC weaken what runs after */

    ONLY("personality", EPERM, EQ(0, PERSONALITY_LINUX),
                               EQ(0, PERSONALITY_QUERY)),

    /* signals and time */

    ALLOW("rt_sigaction"), ALLOW("rt_sigprocmask"), ALLOW("rt_sigreturn"),
    ALLOW("rt_sigpending"), ALLOW("rt_sigtimedwait"),
    ALLOW("rt_sigqueueinfo"), ALLOW("rt_tgsigqueueinfo"),
    ALLOW("rt_sigsuspend"), ALLOW("sigaltstack"), ALLOW("pause"),
    ALLOW("alarm"), ALLOW("getitimer"), ALLOW("setitimer"),
    ALLOW("timer_create"), ALLOW("timer_settime"), ALLOW("timer_gettime"),
    ALLOW("timer_getoverrun"), ALLOW("timer_delete"),
    ALLOW("nanosleep"), ALLOW("clock_nanosleep"), ALLOW("clock_gettime"),
    ALLOW("clock_getres"), ALLOW("gettimeofday"), ALLOW("time"),
    ALLOW("getrandom"),

    /* sockets: their kinds are limited, what they do is not */

    ONLY("socket", EAFNOSUPPORT, EQ(0, AF_UNIX), EQ(0, AF_INET),
         EQ(0, AF_INET6), EQ_AND(0, AF_NETLINK), EQ(2, NETLINK_ROUTE)),
    ONLY("socketpair", EAFNOSUPPORT, EQ(0, AF_UNIX)),
    ALLOW("bind"), ALLOW("listen"), ALLOW("accept"), ALLOW("accept4"),
    ALLOW("connect"), ALLOW("shutdown"), ALLOW("getsockname"),
    ALLOW("getpeername"), ALLOW("getsockopt"), ALLOW("setsockopt"),
    ALLOW("sendto"), ALLOW("recvfrom"), ALLOW("sendmsg"),
    ALLOW("recvmsg"), ALLOW("sendmmsg"), ALLOW("recvmmsg"),

    /* System V IPC and message queues, in the box's own namespace */

    ALLOW("shmget"), ALLOW("shmat"), ALLOW("shmdt"), ALLOW("shmctl"),
    ALLOW("semget"), ALLOW("semop"), ALLOW("semtimedop"),
    ALLOW("semctl"), ALLOW("msgget"), ALLOW("msgsnd"), ALLOW("msgrcv"),
    ALLOW("msgctl"), ALLOW("mq_open"), ALLOW("mq_unlink"),
    ALLOW("mq_timedsend"), ALLOW("mq_timedreceive"), ALLOW("mq_notify"),
    ALLOW("mq_getsetattr"),

    /* the walls themselves */

    REFUSE("unshare"), REFUSE("setns"), REFUSE("mount"),
    REFUSE("umount2"), REFUSE("pivot_root"), REFUSE("chroot"),
    REFUSE("open_tree"), REFUSE("move_mount"), REFUSE("fsopen"),
    REFUSE("fsconfig"), REFUSE("fsmount"), REFUSE("fspick"),
    REFUSE("mount_setattr"), REFUSE("open_by_handle_at"),
    REFUSE("fanotify_init"), REFUSE("fanotify_mark"),

    /* other processes' memory and descriptors */

    REFUSE("ptrace"), REFUSE("process_vm_readv"),
    REFUSE("process_vm_writev"), REFUSE("pidfd_getfd"), REFUSE("kcmp"),
    REFUSE("process_madvise"), REFUSE("process_mrelease"),
    REFUSE("migrate_pages"), REFUSE("move_pages"),
    REFUSE("set_mempolicy_home_node"),

    /* parts of the kernel that are not namespaced, or seldom right */

    REFUSE("bpf"), REFUSE("perf_event_open"), REFUSE("userfaultfd"),
    REFUSE("keyctl"), REFUSE("add_key"), REFUSE("request_key"),
    REFUSE("lookup_dcookie"), REFUSE("quotactl"), REFUSE("quotactl_fd"),
    REFUSE("nfsservctl"), REFUSE("syslog"), REFUSE("vhangup"),

    /* administration */

    REFUSE("acct"), REFUSE("swapon"), REFUSE("swapoff"),
    REFUSE("reboot"), REFUSE("kexec_load"), REFUSE("kexec_file_load"),
    REFUSE("init_module"), REFUSE("finit_module"),
    REFUSE("delete_module"), REFUSE("create_module"),
    REFUSE("query_module"), REFUSE("get_kernel_syms"),
    REFUSE("settimeofday"), REFUSE("clock_settime"),
    REFUSE("clock_adjtime"), REFUSE("adjtimex"),
    REFUSE("sethostname"), REFUSE("setdomainname"), REFUSE("iopl"),
    REFUSE("ioperm"), REFUSE("modify_ldt"), REFUSE("uselib"),
    REFUSE("_sysctl"), REFUSE("sysfs"), REFUSE("afs_syscall"),
    REFUSE("getpmsg"), REFUSE("putpmsg"), REFUSE("security"),
    REFUSE("tuxcall"), REFUSE("vserver"),

    /* answered as if the kernel had none, so that programs use epoll */

    { "io_uring_setup", ENOSYS, 0, { { 0 } } },
    { "io_uring_enter", ENOSYS, 0, { { 0 } } },
    { "io_uring_register", ENOSYS, 0, { { 0 } } },

    /* takes from fs.aio-max-nr, which is one number for the whole host */

    { "io_setup", ENOSYS, 0, { { 0 } } },

    /* its flags lie in memory, where a filter cannot look */

    { "clone3", ENOSYS, 0, { { 0 } } },
};
