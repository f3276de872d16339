#!/usr/bin/perl

# What the box is, seen from inside: its mounts, its files, its identity.

use v5.36;

use FindBin;
use lib $FindBin::Bin;
use Jail;
use POSIX ();
use Test::More;

# A file of the host's that all may read
my $marker = write_file('marker', "host marker\n");

# name => [mount point, file system, flags]; what is not here fails the test
my %rw = map { $_ => 1 } qw(/tmp /run/task/out /dev/shm /dev/pts /dev/null
    /dev/zero /dev/full /dev/random /dev/urandom /dev/tty /proc);
my %dev = map { $_ => 1 } qw(/dev/null /dev/zero /dev/full /dev/random
    /dev/urandom /dev/tty /dev/pts);

my $mounts_before = () = do { local (@ARGV) = '/proc/self/mountinfo'; <> };

for my $user (ways()) {
    my $way = way($user);
    subtest "A-028 A-029 $way: every mount of a box has its flags" => sub {
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
        is(join("\n", @bad), '',
           'each is nosuid and nodev, and read-only or noexec where it should '
           . 'be');
        cmp_ok($lines, '>', 15, 'control: there are mounts');
    };

    subtest "A-028 $way: nothing of the host is writable" => sub {
        my $j = box('for d in / /usr /usr/bin /etc /etc/ssl/certs /etc/alternatives '
                 . '/dev /proc/sys/kernel /run /run/task /run/task/in /var; do '
                 . 'touch $d/x 2>&1; done; touch /tmp/ok /tmp/work/ok '
                 . '/run/task/out/ok /dev/shm/ok && echo written',
                 user => $user);
        my @refused = $j->{stdout} =~ /(Read-only file system|Permission denied|No such file)/g;
        is(scalar @refused, 12,
           'writing is refused in every directory of the host\'s')
            or diag $j->{stdout};
        like($j->{stdout}, qr/^written$/m,
             'control: the box\'s own directories are writable');
    };

    subtest "A-031 $way: the old root cannot be reached" => sub {
        my $j = box('stat -c %i / /..; ls -d /oldroot /host /old_root /.mask; '
                 . 'cat ' . $marker . ' ' . $FindBin::Bin . '/box.t',
                 user => $user);
        my ($a, $b) = $j->{stdout} =~ /^(\d+)\n(\d+)$/m;
        is($a, $b, '/.. is /');
        is(scalar(() = $j->{stderr} =~ /No such file/g), 6,
           'no name of the old root and no file of the host is there');
    };

    subtest "A-032 $way: /dev has the devices that everybody may have, and "
            . "no other" => sub
    {
        my $j = box('cd /dev; find . -mindepth 1 | sort; echo; stat -c "%n %F %t:%T" '
                 . 'null zero full random urandom tty', user => $user);
        is($j->{stdout}, <<'END', 'the names and the numbers of the devices');
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
    };

    subtest "A-033 $way: no device can be made" => sub {
        my $j = python(<<'END', user => $user);
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
           'mknod is EPERM in each writable directory; a FIFO can be made');
    };

    subtest "A-042 A-043 $way: files of /proc and /sys about the machine are "
            . "empty" => sub
    {
        my @masked = qw(acpi asound interrupts kcore keys latency_stats
            sched_debug scsi timer_list timer_stats kallsyms kmsg vmallocinfo
            softirqs slabinfo cmdline key-users);
        my $j = box("cd /proc; for f in @masked; do "
                 . 'n=$(if [ -d $f ]; then ls -A $f; else cat $f; fi 2>/dev/null '
                 . '| head -c 100 | wc -c); echo "$f $n"; done; '
                 . 'ls /sys/firmware /sys/fs/selinux /sys/devices; '
                 . 'head -c 9 /proc/cpuinfo', user => $user);
        is(join(' ', grep { !/ 0$/ } $j->{stdout} =~ /^([\w-]+ \d+)$/mg), '',
           'each is empty or not there');
        is(scalar(() = $j->{stdout} =~ / 0$/mg), scalar @masked,
           'control: all of them were read');
        like($j->{stdout}, qr/^processor$/m,
             'control: /proc/cpuinfo can be read');
    };

    subtest "A-044 $way: no setting of the kernel can be written" => sub {
        my $j = box('for f in kernel/core_pattern kernel/modprobe kernel/hotname '
                 . 'fs/binfmt_misc/register kernel/hostname net/ipv4/ip_forward '
                 . 'user/max_user_namespaces; do '
                 . '( : > /proc/sys/$f ) 2>&1; done; '
                 . '( : > /proc/sysrq-trigger ) 2>&1; '
                 . 'echo 500 > /proc/self/oom_score_adj && echo adj',
                 user => $user);
        is(scalar(() = $j->{stdout} =~ /(?:Read-only|Permission denied|nonexistent|No such)/g), 8,
           'each write is refused')
            or diag $j->{stdout};
        like($j->{stdout}, qr/^adj$/m,
             'control: a task\'s own file in /proc can be written');
    };

    subtest "A-045 $way: the cgroup file system can be neither reached nor "
            . "mounted" => sub
    {
        my $j = box('find / -name cgroup.procs 2>/dev/null; '
                 . 'mkdir /tmp/c; mount -t cgroup -o memory x /tmp/c 2>&1; '
                 . 'mount -t cgroup2 x /tmp/c 2>&1; '
                 . 'unshare -UC true 2>&1; cut -d: -f3 /proc/self/cgroup | sort -u',
                 user => $user);
        unlike($j->{stdout}, qr/cgroup\.procs/, 'there is no file of a cgroup');
        is(scalar(() = $j->{stdout} =~ /(?:not permitted|permission denied|must be superuser)/gi), 3,
           'each way to mount one is refused') or diag $j->{stdout};
        like($j->{stdout}, qr{^/$}m, 'the box\'s cgroup is its root');
    };

    subtest "A-046 A-120 $way: only the box's processes are seen, and killed "
            . "by -1" => sub
    {
        my $j = box('ls -d /proc/[0-9]*; kill -9 -1; echo alive; kill -0 1',
                 user => $user);
        cmp_ok(scalar(() = $j->{stdout} =~ m{^/proc/\d+$}mg), '<', 4,
               'processes in /proc');
        is($j->{reason}, 'ok', 'kill(-1) ends nothing but the box\'s own')
            if $j->{stdout} =~ /alive/;
    };

    subtest "A-047 $way: nothing of pid 1 can be opened" => sub {
        my $j = python(<<'END', user => $user);
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
           'no file of /proc/1; control: /proc/self/fd');
    };

    subtest "A-010 A-011 A-067 A-072 $way: the task has no privilege and a "
            . "filter" => sub
    {
        my $j = box('grep -E "^(Cap|NoNewPrivs|Seccomp|Uid|Gid|Groups)" '
                 . '/proc/self/status; id -un; id -gn; '
                 . 'unshare -U true 2>&1; hostname', user => $user);
        is(scalar(() = $j->{stdout} =~ /^Cap\w+:\t0{16}$/mg), 5,
           'no capability is in any of the five sets');
        like($j->{stdout}, qr/^NoNewPrivs:\t1$/m, 'no_new_privs is set');
        like($j->{stdout}, qr/^Seccomp:\t2\nSeccomp_filters:\t1$/m,
             'one filter of system calls is there');
        like($j->{stdout}, qr/^Uid:\t1000\t1000\t1000\t1000$/m,
             'its user id is 1000');
        like($j->{stdout}, qr/^Gid:\t1000\t1000\t1000\t1000$/m,
             'its group id is 1000');
        like($j->{stdout}, qr/^task\ntask$/m,
             'user and group have the name "task"');
        like($j->{stdout}, qr/Operation not permitted/,
             'no user namespace can be made');
        like($j->{stdout}, qr/^box$/m, 'the host\'s name is "box"');
    };

    subtest "$way: no secret file of the host is in the box" => sub {
        my $j = box('cat /etc/shadow /etc/gshadow /etc/ssl/private/* /etc/ssh/* '
                 . '/root/.bashrc /home/*/* 2>&1; cat /etc/passwd',
                 user => $user);
        unlike($j->{stdout}, qr/^\w+:[*!\$]/m,
               'no line of a shadow file can be read');
        like($j->{stdout}, qr/^task:x:1000:1000:/m,
             'control: the box has its own passwd');
    };

    subtest "A-105 A-108 A-109 $way: the caller's priority is not passed on"
        => sub
    {
        my $j = box('cat /proc/self/oom_score_adj; ulimit -a; nice',
                    user => $user,
            before => sub {
                return if $> != 0 || $user;
                open my $o, '>', '/proc/self/oom_score_adj';
                print $o "-900\n"; close $o;
                setpriority(0, 0, -5);
            });
        like($j->{stdout}, qr/\A0\n/, 'oom_score_adj is not negative');
        like($j->{stdout}, qr/^core.*\s0$/m, 'core files: none');
        like($j->{stdout}, qr/^(?:open files|nofiles).*\s1024$/m,
             'open files: 1024');
        like($j->{stdout}, qr/^0\n?\z/m, 'the nice value is not negative');
    };

    subtest "A-005 $way: /proc/self/exe is not a program of the box" => sub {
        my $exe = jail(['run', '--offline', '--', '/proc/self/exe',
                        '--version'],
                       user => $user);
        is($exe->{json}{reason}, 'exec',
           'the reason is exec');
        is($exe->{json}{error}{errno}, 'ELOOP', 'the errno is ELOOP');
        is($exe->{json}{stdout}, '', 'the launcher did not run in the box');
    };

    subtest "A-110 $way: short links end at a limit of inodes" => sub {
        my $j = python(<<'END', user => $user);
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
           'in /tmp and in /run/task/out');
    };

    subtest "A-110 A-111 $way: a file ends at the size of its directory"
        => sub
    {
        my $j = box('dd if=/dev/zero of=/tmp/work/big bs=1M count=400 2>&1; '
                 . 'df --output=avail /tmp/work | tail -1', user => $user);
        like($j->{stdout}, qr/No space left/,
             'the write fails for want of space');
    };
}

# An id of the box on the host: never root's.  The file is root's, with a
# control that shows that root can read it, and that the box reads the other.

subtest 'root\'s box has an id of its own on the host, not root\'s' => sub {
    plan skip_all => 'needs root' if $> != 0;
    my $secret = '/usr/local/share/jail-test-' . $$;
    open my $s, '>', $secret
        or plan skip_all => 'cannot write to /usr/local/share';
    print $s "root only\n";
    close $s;
    chmod 0600, $secret;
    my $j = box("cat $secret");
    like($j->{stderr}, qr/Permission denied/,
         'it cannot read what only root may');
    chmod 0644, $secret;
    $j = box("cat $secret");
    is($j->{stdout}, "root only\n", 'control: it reads what all may');
    $j = box('cat /proc/self/uid_map');
    like($j->{stdout}, qr/^\s+1000\s+20000\d{5}\s+1$/,
         'its id outside is of the range of boxes');
    unlink $secret;
};

subtest 'A-034 A-075 shared memory of one box is not another\'s' => sub {
    my $a = spawn(['run', '--offline', '--raw', '--', 'sh', '-c',
                   'echo a > /dev/shm/x; ipcmk -M 4096 >/dev/null; '
                   . 'echo made; sleep 99']);
    is(readline $a->{out}, "made\n", 'control: one box has both');
    my $j = box('ls /dev/shm; ipcs -m | grep -c task');
    is($j->{stdout}, "0\n",
       'the other box sees neither its file nor its segment');
    kill TERM => $a->{pid};
    finish($a);
    ok(!-e '/dev/shm/x', 'the host has no such file');
};
subtest 'A-119 a program that is not in the box is not found' => sub {
    my $j = jail(['run', '--offline', '--', 'ls-of-the-host-only'])->{json};
    is($j->{reason}, 'exec', 'the reason is exec');
};
subtest 'A-077 no socket leads out' => sub {
    my $j = box('find / -type s 2>/dev/null; echo; ls /run');
    is($j->{stdout}, "\ntask\n",
       'no socket is in the box, and /run has only "task"');
};
subtest 'A-030 the host has the mounts that it had' => sub {
    my $after = () = do { local (@ARGV) = '/proc/self/mountinfo'; <> };
    is($after, $mounts_before, 'as many as before');
};

none_left();
no_cgroup_left();

done_testing;
