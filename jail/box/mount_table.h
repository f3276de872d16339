/*
 * The file system of a box, from top to bottom.  What a policy adds comes
 * after it.
 */

#pragma once

#include "box/box.h"
#include "box/mount_list.h"


#define MOUNT_NSS                                                            \
    "passwd: files\n" "group: files\n" "shadow: files\n"                     \
    "networks: files\n" "protocols: files\n" "services: files\n"             \
    "ethers: files\n" "rpc: files\n"

#define MOUNT_PYTHON(n)  { M_SYSTEM, "etc/python3." n, NULL, 0, 0 }
#define MOUNT_JAVA(n)    { M_SYSTEM, "etc/java-" n "-openjdk", NULL, 0, 0 }

#define DEVICE(major, minor)  ((major) << 8 | (minor))


typedef struct {
    mount_kind_t  kind;
    const char   *path;         /* in the box, without the first "/" */
    const char   *arg;
    unsigned      mode;
    unsigned      number;       /* of a device */
} mount_row_t;


static const mount_row_t  mount_table[] = {

    { M_TEXT, MOUNT_MASK, "", 0, 0 },

    { M_SYSTEM, "usr", NULL, 0, 0 },
    { M_SYSTEM, "bin", NULL, 0, 0 },
    { M_SYSTEM, "sbin", NULL, 0, 0 },
    { M_SYSTEM, "lib", NULL, 0, 0 },
    { M_SYSTEM, "lib32", NULL, 0, 0 },
    { M_SYSTEM, "lib64", NULL, 0, 0 },
    { M_SYSTEM, "libx32", NULL, 0, 0 },

    /* /etc is made: the host's holds keys, and names of users and machines */

    { M_DIR, "etc", NULL, 0755, 0 },
    { M_TEXT, "etc/passwd",
      "root:x:0:0:root:/:/usr/sbin/nologin\n"
      "task:x:1000:1000:task:" BOX_WORK ":/bin/sh\n"
      "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n", 0, 0 },
    { M_TEXT, "etc/group",
      "root:x:0:\n" "task:x:1000:\n" "nogroup:x:65534:\n", 0, 0 },
    { M_TEXT, "etc/hosts",
      "127.0.0.1 localhost box\n"
      "::1 localhost ip6-localhost ip6-loopback\n", 0, 0 },
    { M_TEXT, "etc/hostname", "box\n", 0, 0 },

    /* the host's own would tell where it is */

    { M_LINK, "etc/localtime", "/usr/share/zoneinfo/Etc/UTC", 0, 0 },
    { M_TEXT, "etc/timezone", "Etc/UTC\n", 0, 0 },

    { M_TEXT, "etc/shells", "/bin/sh\n" "/bin/bash\n", 0, 0 },
    { M_LINK, "etc/mtab", "/proc/self/mounts", 0, 0 },

    /*
     * And the host's, where it is the same on every machine.  Names are
     * tried: to read the whole of a large /etc takes longer than all of them.
     */

    { M_SYSTEM, "etc/ld.so.cache", NULL, 0, 0 },
    { M_SYSTEM, "etc/os-release", NULL, 0, 0 },
    { M_SYSTEM, "etc/debian_version", NULL, 0, 0 },
    { M_SYSTEM, "etc/alternatives", NULL, 0, 0 },
    { M_SYSTEM, "etc/mime.types", NULL, 0, 0 },
    { M_SYSTEM, "etc/protocols", NULL, 0, 0 },
    { M_SYSTEM, "etc/services", NULL, 0, 0 },
    { M_SYSTEM, "etc/locale.alias", NULL, 0, 0 },
    { M_SYSTEM, "etc/matplotlibrc", NULL, 0, 0 },
    { M_SYSTEM, "etc/fonts", NULL, 0, 0 },
    { M_SYSTEM, "etc/perl", NULL, 0, 0 },
    { M_SYSTEM, "etc/xml", NULL, 0, 0 },
    { M_SYSTEM, "etc/texmf", NULL, 0, 0 },
    { M_SYSTEM, "etc/crypto-policies", NULL, 0, 0 },
    { M_SYSTEM, "etc/R", NULL, 0, 0 },
    { M_SYSTEM, "etc/chromium.d", NULL, 0, 0 },
    { M_SYSTEM, "etc/python3", NULL, 0, 0 },
    MOUNT_PYTHON("7"), MOUNT_PYTHON("8"), MOUNT_PYTHON("9"),
    MOUNT_PYTHON("10"), MOUNT_PYTHON("11"), MOUNT_PYTHON("12"),
    MOUNT_PYTHON("13"), MOUNT_PYTHON("14"), MOUNT_PYTHON("15"),
    MOUNT_PYTHON("16"), MOUNT_PYTHON("17"), MOUNT_PYTHON("18"),
    MOUNT_JAVA("8"), MOUNT_JAVA("11"), MOUNT_JAVA("17"), MOUNT_JAVA("18"),
    MOUNT_JAVA("19"), MOUNT_JAVA("20"), MOUNT_JAVA("21"), MOUNT_JAVA("22"),
    MOUNT_JAVA("23"), MOUNT_JAVA("24"), MOUNT_JAVA("25"), MOUNT_JAVA("26"),
    MOUNT_JAVA("27"), MOUNT_JAVA("28"), MOUNT_JAVA("29"), MOUNT_JAVA("30"),
    { M_SYSTEM, "etc/ImageMagick-6", NULL, 0, 0 },
    { M_SYSTEM, "etc/ImageMagick-7", NULL, 0, 0 },

    /* from here on it is the policy that says */

    /*
     * The door answers at once; the patience is for a broker that restarts.
     * Without one nobody is asked, and the nameserver is for libraries that
     * do not look into nsswitch.conf: they are refused at once.
     */

    { M_ONLINE, "etc/resolv.conf",
      "nameserver 127.0.0.1\n" "options timeout:2 attempts:3\n", 0, 0 },
    { M_OFFLINE, "etc/resolv.conf",
      "nameserver 127.0.0.1\n" "options timeout:1 attempts:1\n", 0, 0 },
    { M_ONLINE, "etc/nsswitch.conf", MOUNT_NSS "hosts: files dns\n", 0, 0 },
    { M_OFFLINE, "etc/nsswitch.conf", MOUNT_NSS "hosts: files\n", 0, 0 },

    { M_GIT, "etc/gitconfig", NULL, 0, 0 },

    /* never /etc/ssl itself: it holds `private` */

    { M_DIR, "etc/ssl", NULL, 0755, 0 },
    { M_TRUST, "etc/ssl/certs", NULL, 0, 0 },
    { M_SYSTEM, "etc/ssl/cert.pem", NULL, 0, 0 },
    { M_SYSTEM, "etc/ssl/openssl.cnf", NULL, 0, 0 },
    { M_DIR, "etc/pki", NULL, 0755, 0 },
    { M_SYSTEM, "etc/pki/ca-trust", NULL, 0, 0 },
    { M_DIR, "etc/pki/tls", NULL, 0755, 0 },
    { M_SYSTEM, "etc/pki/tls/certs", NULL, 0, 0 },
    { M_SYSTEM, "etc/pki/tls/cert.pem", NULL, 0, 0 },
    { M_TRUST_NAMES, "etc/pki", NULL, 0, 0 },

    /* its own /dev, with the nodes that everybody may have */

    { M_DIR, "dev", NULL, 0755, 0 },
    { M_DEVICE, "dev/null", NULL, 0, DEVICE(1, 3) },
    { M_DEVICE, "dev/zero", NULL, 0, DEVICE(1, 5) },
    { M_DEVICE, "dev/full", NULL, 0, DEVICE(1, 7) },
    { M_DEVICE, "dev/random", NULL, 0, DEVICE(1, 8) },
    { M_DEVICE, "dev/urandom", NULL, 0, DEVICE(1, 9) },
    { M_DEVICE, "dev/tty", NULL, 0, DEVICE(5, 0) },
    { M_DIR, "dev/pts", NULL, 0755, 0 },
    { M_PTS, "dev/pts", "ptmxmode=0666,mode=0620,max=64", 0, 0 },
    { M_LINK, "dev/ptmx", "pts/ptmx", 0, 0 },
    { M_LINK, "dev/fd", "/proc/self/fd", 0, 0 },
    { M_LINK, "dev/stdin", "/proc/self/fd/0", 0, 0 },
    { M_LINK, "dev/stdout", "/proc/self/fd/1", 0, 0 },
    { M_LINK, "dev/stderr", "/proc/self/fd/2", 0, 0 },
    { M_SHM, "dev/shm", NULL, 01777, 0 },

    { M_DIR, "var", NULL, 0755, 0 },
    { M_DIR, MOUNT_EMPTY, NULL, 0555, 0 },
    { M_LINK, "var/tmp", "/tmp", 0, 0 },
    { M_LINK, "var/run", "/run", 0, 0 },
    { M_DIR, "run", NULL, 0755, 0 },
    { M_DIR, "run/task", NULL, 0755, 0 },
    { M_DIR, "run/task/in", NULL, 0755, 0 },
    { M_DIR, "run/task/out", NULL, 0755, 0 },
    { M_DIR, "tmp", NULL, 0755, 0 },

    /*
     * Its own /proc: only the box's processes are in it, and pid 1, which
     * cannot be traced, is not shown.  Hidden is what everybody may read and
     * what tells of the machine or of its other work.  kcore, kmsg, slabinfo,
     * timer_list, vmallocinfo, sysrq-trigger and their like need no cover:
     * they are host root's, and nobody in the box is.
     */

    { M_DIR, "proc", NULL, 0555, 0 },
    { M_PROC, "proc", "hidepid=2", 0, 0 },

    /*
     * What is watched counts for the user on the host, whose boxes would take
     * it from each other; these are the limits of this box only.  While
     * /proc/sys can be written: they are the user namespace's own.
     */

    { M_SYSCTL, "proc/sys/user/max_inotify_instances", "16", 0, 0 },
    { M_SYSCTL, "proc/sys/user/max_inotify_watches", "16384", 0, 0 },
    { M_RDONLY, "proc/sys", NULL, 0, 0 },
    { M_HIDE, "proc/acpi", MOUNT_EMPTY, 0, 0 },
    { M_HIDE, "proc/asound", MOUNT_EMPTY, 0, 0 },
    { M_HIDE, "proc/bus", MOUNT_EMPTY, 0, 0 },
    { M_HIDE, "proc/cmdline", MOUNT_MASK, 0, 0 },
    { M_HIDE, "proc/diskstats", MOUNT_MASK, 0, 0 },
    { M_HIDE, "proc/interrupts", MOUNT_MASK, 0, 0 },
    { M_HIDE, "proc/irq", MOUNT_EMPTY, 0, 0 },
    { M_HIDE, "proc/kallsyms", MOUNT_MASK, 0, 0 },
    { M_HIDE, "proc/key-users", MOUNT_MASK, 0, 0 },
    { M_HIDE, "proc/keys", MOUNT_MASK, 0, 0 },
    { M_HIDE, "proc/latency_stats", MOUNT_MASK, 0, 0 },
    { M_HIDE, "proc/modules", MOUNT_MASK, 0, 0 },
    { M_HIDE, "proc/mtrr", MOUNT_MASK, 0, 0 },
    { M_HIDE, "proc/pressure", MOUNT_EMPTY, 0, 0 },
    { M_HIDE, "proc/sched_debug", MOUNT_MASK, 0, 0 },
    { M_HIDE, "proc/schedstat", MOUNT_MASK, 0, 0 },
    { M_HIDE, "proc/scsi", MOUNT_EMPTY, 0, 0 },
    { M_HIDE, "proc/softirqs", MOUNT_MASK, 0, 0 },
    { M_HIDE, "proc/timer_stats", MOUNT_MASK, 0, 0 },
};
