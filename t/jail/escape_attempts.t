#!/usr/bin/perl

# What programs in other boxes have tried in order to get out, to stay, or to
# get more of the host than others.

use v5.36;

use FindBin;
use lib $FindBin::Bin;
use Jail;
use Test::More;

for my $user (ways()) {
    my $way = way($user);
    my @as = (user => $user);
    subtest "A-121 $way: a sibling by CLONE_PARENT is not taken for the task"
        => sub
    {
        my $j = python(<<'END', @as);
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
CLONE_PARENT, SIGCHLD = 0x8000, 17
pid = libc.syscall(56, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0)
if pid == 0:
    os._exit(9)
print(pid > 0, flush=True)
os._exit(4)
END
        is($j->{exit_code}, 4,
           'the exit code is the task\'s');
    };

    subtest "A-128 $way: grandchildren reach /dev/null, maps and their streams"
        => sub
    {
        my $j = python(<<'END', @as);
import os, subprocess
assert os.fstat(0).st_rdev == os.makedev(1, 3)
subprocess.run(['sh', '-c', 'sh -c "echo x > /dev/null && wc -c < '
                '/proc/self/maps"; echo e > /dev/stderr; echo o > /dev/stdout'])
END
        like($j->{stdout}, qr/^[1-9]\d*\no\n\z/,
             '/dev/null and /dev/stdout are written, maps are read');
        is($j->{stderr}, "e\n", '/dev/stderr is written');
    };

    subtest "A-048 $way: a crash leaves no core" => sub {
        my $j = box('cd /tmp/work; ulimit -c unlimited 2>&1; sh -c "kill -ABRT \$\$"; '
                    . 'ls -A', @as);
        unlike($j->{stdout}, qr/core/,
               'no file named core is in the working directory');
    };

    subtest "A-037 A-069 A-095 $way: new programs run, leases are refused"
        => sub
    {
        my $j = python(<<'END', @as);
import os, errno, fcntl
n = 0
for i in range(300):
    p = '/tmp/work/x%d' % i
    with open(p, 'w') as f:
        f.write('#!/bin/sh\nexit 0\n')
    os.chmod(p, 0o755)
    n += os.spawnv(os.P_WAIT, p, [p])
print(n)
fd = os.memfd_create('m')
os.write(fd, open('/bin/true', 'rb').read())
print(os.spawnve(os.P_WAIT, '/proc/self/fd/%d' % fd, ['m'], {}))
for cmd in (fcntl.F_SETLEASE, fcntl.F_NOTIFY):
    try:
        fcntl.fcntl(os.open('/usr', 0), cmd, 0)
        print('taken')
    except OSError as e:
        print(errno.errorcode[e.errno])
END
        is($j->{stdout}, "0\n0\nEPERM\nEPERM\n",
           '300 scripts and a program in memory run; leases and notices are '
           . 'EPERM')
            or diag $j->{stderr};
    };

    subtest "A-002 A-041 $way: the working directory is the box's own" => sub {
        my $j = python(<<'END', @as);
import os
for p in ('.git/hooks/x', '.bashrc', '.npmrc'):
    os.makedirs(os.path.dirname(p) or '.', exist_ok=True)
    open(p, 'w').close()
print(os.getcwd(), os.path.realpath('.'))
END
        is($j->{stdout}, "/tmp/work /tmp/work\n",
           'hooks and start-up files of the task stay in /tmp/work');
    };

    subtest "A-109 $way: no better place in the scheduler can be taken" => sub {
        my $j = python(<<'END', @as);
import os, resource, time
for p in (os.SCHED_FIFO, os.SCHED_RR):
    try:
        os.sched_setscheduler(0, p, os.sched_param(1))
        print('taken')
    except PermissionError:
        print('refused')
try:
    os.nice(-1)
    print('taken')
except PermissionError:
    print('refused')
END
        is($j->{stdout}, "refused\n" x 3,
           'FIFO, RR and a lower nice value are refused');
    };

    subtest "$way: a task can lower its own priority and limits, not those "
            . "of pid 1" => sub
    {
        my $j = python(<<'END', @as);
import ctypes, os, resource
libc = ctypes.CDLL(None, use_errno=True)
attr = (ctypes.c_uint32 * 14)(56, 5)
high = 1 << 32 | 1
def no(f):
    try:
        return f() == -1 and ctypes.get_errno() == 1
    except OSError as e:
        return e.errno == 1
print(no(lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0))),
      no(lambda: os.sched_setparam(1, os.sched_param(0))),
      no(lambda: os.sched_setaffinity(1, os.sched_getaffinity(0))),
      no(lambda: libc.syscall(314, 1, attr, 0)),
      no(lambda: libc.syscall(314, ctypes.c_ulong(high), attr, 0)),
      no(lambda: os.setpriority(os.PRIO_PROCESS, 1, 19)),
      no(lambda: os.setpriority(os.PRIO_USER, 0, 19)),
      no(lambda: libc.syscall(251, 1, 1, 3 << 13)),
      no(lambda: libc.syscall(251, 3, 0, 3 << 13)),
      no(lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0))),
      no(lambda: resource.prlimit(1, resource.RLIMIT_NOFILE)))
os.sched_setaffinity(0, os.sched_getaffinity(0))
os.sched_setscheduler(os.getpid(), os.SCHED_BATCH, os.sched_param(0))
os.setpriority(os.PRIO_PROCESS, 0, 5)
os.setpriority(os.PRIO_PGRP, 0, 6)
assert libc.syscall(251, 1, 0, 3 << 13) == 0
resource.prlimit(os.getpid(), resource.RLIMIT_NOFILE, (9, 9))
print(os.getpriority(os.PRIO_PROCESS, 0), resource.prlimit(0, 7))
END
        is($j->{stdout}, 'True ' x 10 . "True\n6 (9, 9)\n",
           'eleven calls on pid 1 are EPERM; control: seven of its own work')
            or diag $j->{stderr};
    };

    subtest "A-049 A-073 A-080 $way: nothing listens to the box but itself"
        => sub
    {
        my $j = python(<<'END', @as);
import os, socket, ctypes
def no(f):
    try:
        f()
        return False
    except OSError:
        return True
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
print(no(lambda: s.sendto(b'x', '/dev/log')),
      no(lambda: s.sendto(b'x', '/run/systemd/journal/socket')),
      no(lambda: s.connect('\0/tmp/.X11-unix/X0')),
      no(lambda: socket.create_connection(('::ffff:192.0.2.1', 80), 1)),
      no(lambda: socket.create_connection(('2001:db8::1', 80), 1)))
print(sorted(i[1] for i in socket.if_nameindex()))
t = socket.create_server(('::1', 0), family=socket.AF_INET6)
socket.create_connection(t.getsockname()[:2]).close()
END
        is($j->{stdout}, "True True True True True\n['lo']\n",
           'the host\'s sockets and two addresses fail; control: ::1 works')
            or diag $j->{stderr};
    };
}

# `script` gives the launcher a terminal of its own

subtest 'A-055 a box started from a terminal cannot type into it' => sub {
    my $code = write_file('tty.py', <<'END');
import fcntl, os, errno
for fd in (0, 1, 2):
    for call in (0x5412, 0x541c):
        try:
            fcntl.ioctl(fd, call, b'x')
            print('typed')
        except OSError as e:
            print(errno.errorcode[e.errno])
try:
    os.open('/dev/tty', os.O_RDWR)
    print('opened')
except OSError as e:
    print(errno.errorcode[e.errno])
END
    my $jail = dir() . '/jail';
    my $out = `script -qec "$jail run --offline --code $code -- python3" /dev/null`;
    my ($text) = $out =~ /"stdout":"([^"]*)"/;
    is($text, 'EPERM\\n' x 6 . 'ENXIO\\n',
       'TIOCSTI and TIOCLINUX are EPERM, /dev/tty is ENXIO') or diag $out;
};

none_left();

done_testing;
