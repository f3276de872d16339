#!/usr/bin/perl

# What the box is, seen from inside: its mounts, its files, its identity.

use v5.36;

use FindBin;
use lib $FindBin::Bin;
use Jail;
use POSIX ();
use Test::More;

# A secret of the host's that only root may read, and a marker that all may
my $marker = dir() . '/marker';
open my $f, '>', $marker; print $f "host marker\n"; close $f;

# name => [mount point, file system, flags]; what is not here fails the test
my %rw = map { $_ => 1 } qw(/tmp /run/task/out /dev/shm /dev/pts /dev/null
    /dev/zero /dev/full /dev/random /dev/urandom /dev/tty /proc);
my %dev = map { $_ => 1 } qw(/dev/null /dev/zero /dev/full /dev/random
    /dev/urandom /dev/tty /dev/pts);

my $mounts_before = () = do { local (@ARGV) = '/proc/self/mountinfo'; <> };

for my $user (ways()) {
    my $way = way($user);
    my $j = box('cat /proc/self/mountinfo', user => $user,
                args => ['--output', '10000']);
    my @bad;
    my $lines = 0;
    for (split /\n/, $j->{stdout}) {
        my (undef, undef, undef, $root, $at, $flags) = split;
        my %has = map { $_ => 1 } split /,/, $flags;
        $lines++;
        push @bad, "$at lacks nosuid" if !$has{nosuid};
        push @bad, "$at lacks nodev" if !$has{nodev} && !$dev{$at};
        push @bad, "$at is writable" if !$has{ro} && !$rw{$at};
        push @bad, "$at is unknown"
            if $at !~ m{^/(?:$|usr|bin|sbin|lib|etc/|dev|proc|tmp$|run/task/out$)};
        push @bad, "$at can be executed from"
            if $at =~ m{^/(?:dev|proc)} && !$has{noexec};
    }
    is(join("\n", @bad), '', "A-029 $way: every mount has its flags");
    cmp_ok($lines, '>', 15, 'and there are mounts');

    $j = box('for d in / /usr /usr/bin /etc /etc/ssl/certs /etc/alternatives '
             . '/dev /proc/sys/kernel /run /run/task /run/task/in /var; do '
             . 'touch $d/x 2>&1; done; touch /tmp/ok /tmp/work/ok '
             . '/run/task/out/ok /dev/shm/ok && echo written', user => $user);
    my @refused = $j->{stdout} =~ /(Read-only file system|Permission denied|No such file)/g;
    is(scalar @refused, 12, "A-028 $way: nothing of the host is writable")
        or diag $j->{stdout};
    like($j->{stdout}, qr/^written$/m, 'and what should be is');

    $j = box('stat -c %i / /..; ls -d /oldroot /host /old_root /.mask; '
             . 'cat ' . $marker . ' ' . $FindBin::Bin . '/box.t', user => $user);
    my ($a, $b) = $j->{stdout} =~ /^(\d+)\n(\d+)$/m;
    is($a, $b, "A-031 $way: / is the root");
    is(scalar(() = $j->{stderr} =~ /No such file/g), 6,
       'A-031 and the host\'s files are not there');

    $j = box('cd /dev; find . -mindepth 1 | sort; echo; stat -c "%n %F %t:%T" '
             . 'null zero full random urandom tty', user => $user);
    is($j->{stdout}, <<'END', "A-032 $way: /dev has these and no other");
./fd
./full
./null
./ptmx
./pts
./pts/ptmx
./random
./shm
./stderr
./stdin
./stdout
./tty
./urandom
./zero

null character special file 1:3
zero character special file 1:5
full character special file 1:7
random character special file 1:8
urandom character special file 1:9
tty character special file 5:0
END

    $j = python(<<'END', user => $user);
import os, stat, errno
for d in ('/tmp', '/tmp/work', '/run/task/out', '/dev/shm'):
    for kind, dev in ((stat.S_IFCHR, os.makedev(1, 1)),
                      (stat.S_IFBLK, os.makedev(8, 0))):
        try:
            os.mknod(d + '/node', kind | 0o666, dev)
            print(d, 'made')
        except OSError as e:
            print(d, errno.errorcode[e.errno])
os.mkfifo('/tmp/fifo')
print('fifo')
END
    is($j->{stdout}, join('', map { "$_ EPERM\n$_ EPERM\n" }
       qw(/tmp /tmp/work /run/task/out /dev/shm)) . "fifo\n",
       "A-033 $way: no device can be made");

    my @masked = qw(acpi asound interrupts kcore keys latency_stats
        sched_debug scsi timer_list timer_stats kallsyms kmsg vmallocinfo
        softirqs slabinfo cmdline key-users);
    $j = box("cd /proc; for f in @masked; do "
             . 'n=$(if [ -d $f ]; then ls -A $f; else cat $f; fi 2>/dev/null '
             . '| head -c 100 | wc -c); echo "$f $n"; done; '
             . 'ls /sys/firmware /sys/fs/selinux /sys/devices; '
             . 'head -c 9 /proc/cpuinfo', user => $user);
    is(join(' ', grep { !/ 0$/ } $j->{stdout} =~ /^([\w-]+ \d+)$/mg), '',
       "A-042 A-043 $way: what tells of the machine is empty or not there");
    is(scalar(() = $j->{stdout} =~ / 0$/mg), scalar @masked, 'all were asked');
    like($j->{stdout}, qr/^processor$/m, 'and cpuinfo can be read');

    $j = box('for f in kernel/core_pattern kernel/modprobe kernel/hotname '
             . 'fs/binfmt_misc/register kernel/hostname net/ipv4/ip_forward '
             . 'user/max_user_namespaces; do '
             . '( : > /proc/sys/$f ) 2>&1; done; '
             . '( : > /proc/sysrq-trigger ) 2>&1; '
             . 'echo 500 > /proc/self/oom_score_adj && echo adj', user => $user);
    is(scalar(() = $j->{stdout} =~ /(?:Read-only|Permission denied|nonexistent|No such)/g), 8,
       "A-044 $way: no setting of the kernel can be written")
        or diag $j->{stdout};
    like($j->{stdout}, qr/^adj$/m, 'and its own files in /proc can');

    $j = box('find / -name cgroup.procs 2>/dev/null; '
             . 'mkdir /tmp/c; mount -t cgroup -o memory x /tmp/c 2>&1; '
             . 'mount -t cgroup2 x /tmp/c 2>&1; '
             . 'unshare -UC true 2>&1; cut -d: -f3 /proc/self/cgroup | sort -u',
             user => $user);
    unlike($j->{stdout}, qr/cgroup\.procs/, "A-045 $way: no cgroup file");
    is(scalar(() = $j->{stdout} =~ /(?:not permitted|permission denied|must be superuser)/gi), 3,
       'A-045 and none can be mounted') or diag $j->{stdout};
    like($j->{stdout}, qr{^/$}m, 'A-045 the box is its root');

    $j = box('ls -d /proc/[0-9]*; kill -9 -1; echo alive; kill -0 1',
             user => $user);
    cmp_ok(scalar(() = $j->{stdout} =~ m{^/proc/\d+$}mg), '<', 4,
           "A-046 $way: only the box's processes are there");
    is($j->{reason}, 'ok', 'A-120 kill(-1) ends nothing but the box\'s own')
        if $j->{stdout} =~ /alive/;

    $j = python(<<'END', user => $user);
import os
for what in ('root', 'cwd', 'fd', 'mem', 'maps', 'environ', 'exe', 'ns/net'):
    try:
        p = '/proc/1/' + what
        os.listdir(p) if what == 'fd' else (
            open(p).read(1) if what in ('mem', 'maps', 'environ')
            else os.stat(p))
        print(what)
    except OSError:
        pass
print('self', len(os.listdir('/proc/self/fd')) > 0)
END
    is($j->{stdout}, "self True\n",
       "A-047 $way: nothing of pid 1 can be opened");

    $j = box('grep -E "^(Cap|NoNewPrivs|Seccomp|Uid|Gid|Groups)" '
             . '/proc/self/status; id -un; id -gn; '
             . 'unshare -U true 2>&1; hostname', user => $user);
    is(scalar(() = $j->{stdout} =~ /^Cap\w+:\t0{16}$/mg), 5,
       "A-010 $way: no capability in any of the five sets");
    like($j->{stdout}, qr/^NoNewPrivs:\t1$/m, 'A-011 no_new_privs is set');
    like($j->{stdout}, qr/^Seccomp:\t2\nSeccomp_filters:\t1$/m,
         'A-072 one filter of system calls is there');
    like($j->{stdout}, qr/^Uid:\t1000\t1000\t1000\t1000$/m, 'its id is 1000');
    like($j->{stdout}, qr/^Gid:\t1000\t1000\t1000\t1000$/m, 'and its group');
    like($j->{stdout}, qr/^task\ntask$/m, 'both have names');
    like($j->{stdout}, qr/Operation not permitted/,
         'A-067 no user namespace can be made');
    like($j->{stdout}, qr/^box$/m, 'the host\'s name is not known');

    $j = box('cat /etc/shadow /etc/gshadow /etc/ssl/private/* /etc/ssh/* '
             . '/root/.bashrc /home/*/* 2>&1; cat /etc/passwd', user => $user);
    unlike($j->{stdout}, qr/^\w+:[*!\$]/m, "$way: no shadow in the box");
    like($j->{stdout}, qr/^task:x:1000:1000:/m, 'its own passwd is there');

    $j = box('cat /proc/self/oom_score_adj; ulimit -a; nice', user => $user,
        before => sub {
            return if $> != 0 || $user;
            open my $o, '>', '/proc/self/oom_score_adj';
            print $o "-900\n"; close $o;
            setpriority(0, 0, -5);
        });
    like($j->{stdout}, qr/\A0\n/, "A-105 $way: oom_score_adj is not negative");
    like($j->{stdout}, qr/^core.*\s0$/m, 'A-108 core files: none');
    like($j->{stdout}, qr/^(?:open files|nofiles).*\s1024$/m,
         'A-108 open files: as said');
    like($j->{stdout}, qr/^0\n?\z/m, 'A-109 no urgency is passed on');

    my $exe = jail(['run', '--offline', '--', '/proc/self/exe', '--version'],
                   user => $user);
    is($exe->{json}{reason}, 'exec',
       "A-005 $way: /proc/self/exe is not a program of the box");
    is($exe->{json}{error}{errno}, 'ELOOP', 'A-005 and the errno says why');
    is($exe->{json}{stdout}, '', 'A-005 the launcher did not run in the box');

    $j = python(<<'END', user => $user);
import os
def flood(d):
    n = 0
    try:
        while n < 200000:
            os.symlink('x' * 90, '%s/s%d' % (d, n))
            n += 1
    except OSError as e:
        return e.errno == 28
print(flood('/tmp'), flood('/run/task/out'))
END
    is($j->{stdout}, "True True\n",
       "A-110 $way: short links end at a limit of inodes");

    $j = box('dd if=/dev/zero of=/tmp/work/big bs=1M count=400 2>&1; '
             . 'df --output=avail /tmp/work | tail -1', user => $user);
    like($j->{stdout}, qr/No space left/, "A-110 A-111 $way: and bytes, too");
}

# An id of the box on the host: never root's.  The file is root's, with a
# control that shows that root can read it, and that the box reads the other.

SKIP: {
    skip 'needs root', 3 if $> != 0;
    my $secret = '/usr/local/share/jail-test-' . $$;
    open my $s, '>', $secret or skip 'cannot write to /usr/local/share', 3;
    print $s "root only\n";
    close $s;
    chmod 0600, $secret;
    my $j = box("cat $secret");
    like($j->{stderr}, qr/Permission denied/,
         'a root-run box reads nothing that only root may');
    chmod 0644, $secret;
    $j = box("cat $secret");
    is($j->{stdout}, "root only\n", 'and does what all may');
    $j = box('cat /proc/self/uid_map');
    like($j->{stdout}, qr/^\s+1000\s+20000\d{5}\s+1$/,
         'its id outside is of the range of boxes');
    unlink $secret;
}

# Two boxes, one secret place

{
    my $a = spawn(['run', '--offline', '--wall-clock', '10s', '--', 'sh', '-c',
                   'echo a > /dev/shm/x; ipcmk -M 4096 >/dev/null; sleep 1']);
    my $j = box('ls /dev/shm; ipcs -m | grep -c task');
    is($j->{stdout}, "0\n",
       'A-034 A-075 shared memory of one box is not another\'s');
    kill TERM => $a->{pid};
    finish($a);
    ok(!-e '/dev/shm/x', 'A-034 nor the host\'s');
}

{
    my $j = jail(['run', '--offline', '--', 'ls-of-the-host-only'])->{json};
    is($j->{reason}, 'exec', 'A-119 a program that is not in the box');
    $j = box('find / -type s 2>/dev/null; echo; ls /run');
    is($j->{stdout}, "\ntask\n", 'A-077 no socket leads out');
    $j = box('exit 0');
    my $after = () = do { local (@ARGV) = '/proc/self/mountinfo'; <> };
    is($after, $mounts_before, 'A-030 the host has the mounts it had');
}

is(join(' ', leftovers()), '', 'no process of a box is left');
is(join(' ', slots()), '', 'no cgroup of a box is left');

done_testing;
