#!/usr/bin/perl

# What the kernel answers to the calls of a task: each rule by what it does,
# with a control that shows that the call would work without it.

use v5.36;

use FindBin;
use lib $FindBin::Bin;
use Jail;
use Test::More;

my $probe = cc('probe', <<'END') or die 'no probe';
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* probe NAME NUMBER ARG...: the call's errno, or "ok" */

static long
number(const char *s)
{
    return strcmp(s, "PTR") == 0 ? (long) calloc(1, 4096)
                                 : (long) strtoull(s, NULL, 0);
}

int
main(int argc, char **argv)
{
    int         i, j;
    long        a[6], rc;
    char       *p, *words[8];

    for (i = 1; i < argc; i++) {
        memset(a, 0, sizeof(a));
        for (j = 0, p = strtok(argv[i], ","); p && j < 8; j++) {
            words[j] = p;
            p = strtok(NULL, ",");
        }
        for (int k = 2; k < j; k++) {
            a[k - 2] = number(words[k]);
        }
        errno = 0;
        rc = syscall(number(words[1]), a[0], a[1], a[2], a[3], a[4], a[5]);
        if (rc == 0 && strncmp(words[0], "clone", 5) == 0) {
            _exit(0);
        }
        printf("%s %s\n", words[0],
               rc == -1 ? strerrorname_np(errno) : "ok");
        fflush(stdout);
    }
    return 0;
}
END

my $int80 = cc('int80', <<'END') or die 'no int80 probe';
#include <errno.h>
#include <stdio.h>

int
main(void)
{
    long  rc;

    /* getpid by the 32-bit entry, which has other numbers */
    __asm__ volatile ("int $0x80" : "=a" (rc) : "a" (20)
                      : "memory", "r8", "r9", "r10", "r11");
    printf("%ld\n", rc);
    return 0;
}
END

my %nr = do {
    my %n;
    open my $f, '-|', 'echo "#include <sys/syscall.h>" | gcc -E -dM -'
        or die $!;
    while (<$f>) { $n{$1} = $2 if /^#define __NR_(\w+) (\d+)/ }
    %n;
};

# Each promise has its probes: the answer in the box, the name of the call or
# its number, arguments.
my (@promises, @probes);
sub promise ($name) { push @promises, [$name, scalar @probes] }

sub probe ($want, $name, @args) {
    my $nr = $name =~ /^\d/ ? $name : $nr{$name} // return;
    push @probes, [$want, "$name(" . join(' ', @args) . ')',
                   join ',', 'p' . @probes, $nr, @args];
}

# family, type, protocol
promise('A-060 A-062 sockets are of four families, netlink for routes only');
my %family = (UNIX => 1, INET => 2, AX25 => 3, IPX => 4, INET6 => 10,
    NETLINK => 16, PACKET => 17, ALG => 38, VSOCK => 40, XDP => 44,
    BLUETOOTH => 31, CAN => 29, TIPC => 30, RDS => 21, KEY => 15, QRTR => 42,
    SMC => 43);
probe($_ =~ /^(?:UNIX|INET6?|NETLINK)$/ ? 'ok' : 'EAFNOSUPPORT', 'socket',
      $family{$_}, $_ eq 'NETLINK' ? 3 : 1, 0) for sort keys %family;
probe('EAFNOSUPPORT', 'socket', 16, 3, $_) for 1 .. 22;
probe('ok', 'socket', '0x100000001', 1, 0);     # the kernel sees AF_UNIX
probe('EAFNOSUPPORT', 'socket', '0x100000026', 5, 0);   # and AF_ALG here
probe('EPERM', 'socket', 2, 3, 1);              # raw: no capability
probe('EAFNOSUPPORT', 'socketpair', 2, 1, 0, 'PTR');
probe('ok', 'socketpair', 1, 1, 0, 'PTR');

# TIOCSTI, TIOCLINUX, with high bits, and one that is allowed
promise('A-055 terminals are not typed into');
probe('EPERM', 'ioctl', 0, $_, 'PTR') for qw(0x5412 0x541c 0x100005412
    0xffffffff0000541c);
probe('ENOTTY', 'ioctl', 0, '0x5413', 'PTR');

promise('A-067 no namespace is made or entered');
# NEWNS NEWCGROUP NEWUTS NEWIPC NEWUSER NEWPID NEWNET
probe('EPERM', 'clone', sprintf('0x%x', $_ | 17), 0, 0, 0, 0)
    for 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000,
        0x40000000;
probe('EPERM', 'clone', '0x100000000010000011' =~ s/0010000011/10000011/r);
probe('ok', 'clone', '0x11', 0, 0, 0, 0);
probe('ENOSYS', 'clone3', 'PTR', 88);
probe('EPERM', 'unshare', '0x10000000');
probe('EPERM', 'setns', 0, 0);

# the query and 0; not the others
promise('A-068 the personality is not changed');
probe('ok', 'personality', '0xffffffff');
probe('ok', 'personality', 0);
probe('EPERM', 'personality', $_) for qw(0x0040000 0x0400000 0x20000 8);

promise('A-059 io_uring and its kin are not there');
probe('ENOSYS', $_, 1, 'PTR') for qw(io_uring_setup io_uring_enter
    io_uring_register io_setup);

sub refused (@names) { probe('EPERM', $_, 0, 0, 0, 0, 0) for @names }

promise('A-065 other processes are neither traced nor read');
refused(qw(ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp
           process_madvise));

promise('A-063 userfaultfd, perf_event_open and bpf are refused');
refused(qw(bpf perf_event_open userfaultfd));

promise('A-070 file handles are not opened');
refused(qw(open_by_handle_at));

promise('A-049 the log of the kernel is not read');
refused(qw(syslog));

promise('A-071 administrative calls are refused');
refused(qw(keyctl add_key request_key mount umount2 pivot_root chroot
    open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr
    fanotify_init vhangup acct swapon swapoff reboot kexec_load
    kexec_file_load init_module finit_module delete_module settimeofday
    clock_settime clock_adjtime adjtimex sethostname setdomainname iopl
    ioperm modify_ldt quotactl lookup_dcookie uselib nfsservctl));
probe('EPERM', 'mknod', 'PTR', '020666', '0x101');

promise('A-037 leases and directory notices are refused');
probe('EPERM', 'fcntl', 1, 1024, 0);
probe('EPERM', 'fcntl', 1, 1026, 0);
probe('ok', 'fcntl', 1, 3, 0);

promise('A-058 unknown numbers and calls newer than the table are ENOSYS');
probe('ENOSYS', 1023);
probe('ENOSYS', $_) for 500, 600, 2000, 0xffff;

promise('A-050 calls of x32 are not there, ordinary ones work');
probe('ENOSYS', 0x40000000 | $_) for 0, 1, 39, 41, 59;
probe('ok', $_) for qw(getpid getppid gettid sched_yield);
probe('EBADF', 'fsync', -1);

for my $user (ways()) {
    my $way = way($user);
    my $r = jail(['run', '--offline', '--in', $probe, '--output', '10000',
                  '--', 'sh', '-c', 'cp probe p; chmod +x p; exec ./p "$@"',
                  'sh', map { $_->[2] } @probes], user => $user);
    my %got = $r->{json}{stdout} =~ /^(p\d+) (\w+)$/mg;

    for my $i (0 .. $#promises) {
        my ($name, $first) = @{ $promises[$i] };
        my $last = ($promises[$i + 1] // [0, scalar @probes])->[1] - 1;
        subtest "$name ($way)" => sub {
            is($got{"p$_"}, $probes[$_][0], $probes[$_][1])
                for $first .. $last;
        };
    }

    subtest "A-050 A-051 $way: the 32-bit entry answers ENOSYS" => sub {
        my $r = jail(['run', '--offline', '--in', $int80, '--', 'sh', '-c',
                      'cp int80 p; chmod +x p; exec ./p'], user => $user);
        is($r->{json}{stdout}, "-38\n",
           'a call through int 0x80');
    };
}

subtest 'control: outside of a box the same calls are answered otherwise'
    => sub
{
    my %outside = `$probe p0,$nr{clone3},PTR,88 p2,$nr{unshare},0x400 \\
                   p3,$nr{personality},0x0040000` =~ /^(p\d+) (\w+)$/mg;
    isnt($outside{p0}, 'ENOSYS', 'clone3 is there');
    is($outside{p2}, 'ok', 'unshare is allowed');
    is($outside{p3}, 'ok', 'personality is allowed');
    like(`$int80`, qr/^\d+$/, 'the 32-bit entry works');
};

subtest 'real programs run with the filter' => sub {
    my $j = python(<<'END');
import asyncio, multiprocessing, os, socket, subprocess, threading, tempfile
a, b = socket.socketpair()
a.send(b'x'); b.recv(1)
async def f():
    p = await asyncio.create_subprocess_exec('echo', 'sub',
        stdout=asyncio.subprocess.PIPE)
    return await p.stdout.read()
print(asyncio.run(f()))
with multiprocessing.Pool(2) as pool:
    print(pool.map(abs, [-1, -2]))
t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()
s = socket.create_server(('127.0.0.1', 0))
socket.create_connection(s.getsockname())
print(tempfile.TemporaryFile() is not None, len(os.listdir('/')) > 3)
try:
    socket.create_connection(('192.0.2.1', 80), 2)
except OSError as e:
    print(e.errno)
END
    is($j->{stdout}, "b'sub\\n'\n[1, 2]\nthread\nTrue True\n101\n",
       'asyncio, pools, threads and sockets work; the network is not reachable')
        or diag $j->{stderr};
};

done_testing;
