#!/usr/bin/perl

# What a box must not inherit from its caller and its host: clocks, limits,
# priority, terminal, memory, children.  Each beside a control.

use v5.36;

use FindBin;
use lib $FindBin::Bin;
use Jail;
use POSIX ();
use Test::More;

# the memory checker's own maps count as data
my $asan = ($ENV{AGENT_TEST_OBJS} // '') =~ /asan/;

sub uptime { return (split ' ', read_file('/proc/uptime'))[0] }

subtest 'A-117 no timer follows the time of day, which can be set' => sub {
    my $root = root_dir();
    my $clocks = 'CLOCK_REALTIME|\bgettimeofday\(|\btime\(NULL';
    is(join(' ', `grep -lE '$clocks' $root/jail/*/*.[ch]`), '',
       'no source reads the time of day');
    cmp_ok(scalar(() = `grep -lE 'CLOCK_MONOTONIC' $root/jail/*/*.[ch]`), '>',
           0, 'control: sources read the clock that nobody sets');
};

for my $user (ways()) {
    my $way = way($user);
    my @as = (user => $user);

    # bounded by what the host's clocks showed before and after, whatever it
    # took

    subtest "$way: a box has clocks of its own, which start with it" => sub {
        plan skip_all => 'this kernel has no time namespaces' if !-e '/proc/self/ns/time';
        my ($up, $day) = (uptime(), time);
        my $j = python(<<'END_OF_PYTHON', @as);
import os, time
t = time.monotonic()
print(t, time.clock_gettime(time.CLOCK_BOOTTIME),
      open('/proc/uptime').read().split()[0], time.time())
time.sleep(0.01)
print(time.monotonic() > t)
print(os.readlink('/proc/self/ns/time'))
END_OF_PYTHON
        my ($clocks, $runs, $ns) = split /\n/, $j->{stdout};
        my ($monotonic, $boot, $box_up, $now) = split ' ', $clocks;
        # its offset is in whole seconds; without one it had the host's value
        my $most = uptime() - $up + 1;
        plan skip_all => 'this host was started just before the test' if $up < $most;
        cmp_ok($monotonic, '<=', $most, 'the monotonic clock started with it');
        cmp_ok($boot, '<=', $most, 'the clock since boot started with it');
        cmp_ok($box_up, '<=', $most, '/proc/uptime started with it');
        is($runs, 'True', 'the monotonic clock runs');
        ok($day <= $now && $now <= time + 1, 'the time of day is the host\'s');
        isnt($ns, readlink '/proc/self/ns/time',
             'the namespace is another than the host\'s');
    };

    subtest "A-108 $way: the limits of resources are the box's, not the "
            . "caller's" => sub
    {
        my %want = (
            core => [1, 1], nice => [0, 0], rtprio => [0, 0],
            nofile => [1024, 1024],
        );
        my $limits = sub (%opt) {
            my $j = python(<<'END_OF_PYTHON', @as, %opt);
import resource as r
for n in sorted(x for x in dir(r) if x.startswith('RLIMIT_')):
    s, h = r.getrlimit(getattr(r, n))
    print(n[7:].lower(), s, h)
END_OF_PYTHON
            return map { /^(\w+) (-?\d+) (-?\d+)$/ ? ($1 => [$2, $3]) : () }
                   split /\n/, $j->{stdout};
        };
        my %plain = $limits->();
        cmp_ok(scalar keys %plain, '>=', 15, 'control: the limits are seen');
        for my $n (sort keys %want) {
            is("@{ $plain{$n} }", "@{ $want{$n} }", "$n is as documented");
        }
        my %soft = $limits->(program => ['prlimit', '--core=0:',
            $asan ? () : '--data=99999999:',
            '--fsize=9999:', '--cpu=5:', '--nofile=64:', '--nproc=500:',
            $asan ? () : '--stack=99999:', '--memlock=4096:', '--msgqueue=0:',
            '--']);
        for my $n (qw(core data fsize cpu nofile nproc as stack memlock
                      msgqueue)) {
            is("@{ $soft{$n} // [] }", "@{ $plain{$n} }",
               "the caller's soft limit of $n is not the task's");
        }
        %soft = $limits->(program => ['prlimit', '--stack=unlimited:', '--']);
        is($soft{stack}[0], 8 << 20,
           'a stack without end, whose addresses are easily guessed, is not '
           . 'either');
    };

    subtest "A-108 $way: a hard limit below what a box gets is named, or raised"
        => sub
    {
        my $r = jail(['run', '--offline', '--', 'echo', 'ran'], @as,
                     program => ['prlimit', '--nofile=100:100', '--']);
        if ($user || $r->{status} == 125) {
            is($r->{json}{error}{stage}, 'rlimits',
               'the stage is rlimits');
            like($r->{json}{error}{message}, qr/nofile.*1024/,
                 'the message names the limit');
            is($r->{json}{stdout}, '', 'the command did not run');
        } else {
            is($r->{json}{stdout}, "ran\n", 'root raises a hard limit');
        }
    };

    subtest "A-109 $way: the place in the scheduler is lowered, never raised"
        => sub
    {
        my $sched = <<'END_OF_PYTHON';
import ctypes, os
libc = ctypes.CDLL(None)
print(os.sched_getscheduler(0), os.nice(0), len(os.sched_getaffinity(0)),
      libc.syscall(252, 1, 0) >> 13)
for policy in (1, 2, 6):
    try:
        os.sched_setscheduler(0, policy, os.sched_param(1 if policy < 6 else 0))
        print('taken')
    except OSError as e:
        print(e.errno)
END_OF_PYTHON
        my $j = python($sched, @as, program => ['nice', '-n', '7', '--']);
        my @lines = split /\n/, $j->{stdout};
        like($lines[0] // '', qr/^0 7 /,
             'a caller\'s nice value of 7 is passed on');
        is("@lines[1, 2]", '1 1', 'the policies FIFO and RR are EPERM');
        isnt($lines[3], 'taken', 'the policy DEADLINE is refused');
        if (!$user && $> == 0) {
            $j = python($sched, @as, before => sub {
                setpriority 0, 0, -5;
                syscall(251, 1, 0, 1 << 13);        # ioprio_set: real time
            });
            like($j->{stdout}, qr/^0 0 \d+ [02]$/m,
                 'a caller\'s urgency, for processors and disks, is not passed '
                 . 'on');
        }
    };

    # a caller that lets its timers be late, by a minute
    subtest "$way: timers are exact, though the caller's may be late" => sub {
        my $late = sub {
            my %number = (x86_64 => 157, aarch64 => 167);
            my ($option, $slack) = (29, 60_000_000_000);  # PR_SET_TIMERSLACK
            syscall($number{(POSIX::uname())[4]}, $option, $slack, 0, 0, 0);
        };
        my $r = jail(['run', '--offline', '--wall-clock', '200ms', '--', 'sh',
                      '-c', 'cat /proc/self/timerslack_ns; sleep 200'],
                     @as, before => $late);
        is($r->{json}{stdout}, "50000\n",
           'the task\'s timers have the kernel\'s slack');
        # with the caller's slack finish() had ended it
        is($r->{json}{reason}, 'timeout', 'the wall clock ends the task');
    };


    # a caller that shares equal pages with everybody (KSM)
    subtest "$way: memory of the task is not shared with equal pages of others"
        => sub
    {
        my %number = (x86_64 => 157, aarch64 => 167);
        my ($prctl, $merge, $on) = ($number{(POSIX::uname())[4]}, 67, 1);
        plan skip_all => 'KSM looks at each page of a sanitizer\'s map'
            if $asan;
        plan skip_all => 'this kernel has no KSM for a process'
            if !-e '/proc/self/ksm_stat'
                || `cat /proc/self/ksm_stat` !~ /^ksm_merge_any/m;
        my $r = jail(['run', '--offline', '--', 'grep', 'merge_any',
                      '/proc/self/ksm_stat'], @as,
                     before => sub { syscall $prctl, $merge, $on, 0, 0, 0 });
        is($r->{json}{stdout}, "ksm_merge_any: no\n",
           'merging is off, though the caller\'s is on');
    };

    # a caller's terminal, as all three streams and as the controlling one;
    # what is typed into it would be what the caller runs next

    subtest "A-055 F-019 $way: no terminal but the task's own, not typed into"
        => sub
    {
        my $tty = python(<<'END_OF_PYTHON', @as);
import fcntl, os, termios, errno
print(os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid())
def no(f):
    try:
        f(); return 'done'
    except OSError as e:
        return errno.errorcode[e.errno]
m, s = os.openpty()
print(no(lambda: os.open('/dev/tty', os.O_RDWR)))
print(no(lambda: fcntl.ioctl(s, termios.TIOCSTI, b'x')),
      no(lambda: fcntl.ioctl(s, 0x541c, b'\x02')),
      no(lambda: fcntl.ioctl(s, termios.TIOCGWINSZ, b' ' * 8)))
print(no(lambda: fcntl.ioctl(s, termios.TIOCSCTTY, 0)),
      no(lambda: os.open('/dev/tty', os.O_RDWR)))
print(no(lambda: fcntl.ioctl(s, termios.TIOCSTI, b'x')))
END_OF_PYTHON
        is($tty->{stdout},
           "True True\nENXIO\nEPERM EPERM done\ndone done\nEPERM\n",
           'sessions, /dev/tty, TIOCSTI, TIOCLINUX') or diag $tty->{stderr};
    };

    subtest "A-068 $way: the caller's personality is not the task's" => sub {
        my $personality = 'cat /proc/self/personality';
        like(`setarch -R $personality`, qr/^0*40000$/,
             'control: the caller\'s is set');
        my $j = box($personality, @as, program => ['setarch', '-R', '--']);
        is($j->{stdout}, "00000000\n",
           'the task\'s is 0');
    };

    subtest "A-105 $way: the task cannot spare itself from the OOM killer"
        => sub
    {
        my $j = python(<<'END_OF_PYTHON', @as);
import os
def put(v):
    try:
        open('/proc/self/oom_score_adj', 'wb', 0).write(v.encode()); return 'ok'
    except OSError as e:
        return e.errno in (13, 1)
print(put('500'), put('0'), put('-1'), put('-1000'))
END_OF_PYTHON
        is($j->{stdout}, "ok ok True True\n",
           'its score can be raised, and lowered to 0 only');
    };

    subtest "A-093 $way: the end of another child is not the box's" => sub {
        my $p = spawn(['run', '--offline', '--', 'sh', '-c',
                       'sleep 0.5; echo on'],
                      @as, program => ['sh', '-c',
                          'sleep 0.1 & sleep 2 >&- 2>&- & exec "$@"', 'sh']);
        my $r = finish($p);
        is($r->{json}{stdout}, "on\n",
           'the task runs to its end');
    };

    subtest "A-119 $way: names of programs are looked up in the box" => sub {
        my $bin = dir() . '/bin';
        mkdir $bin;
        write_file("$bin/of-the-host", "#!/bin/sh\necho host\n", 0755);
        my $r = jail(['run', '--offline', '--', 'of-the-host'], @as,
                     env => { PATH => "$bin:$ENV{PATH}" });
        is($r->{json}{reason}, 'exec',
           'a program of the host\'s PATH: the reason is exec');
        is($r->{json}{error}{errno}, 'ENOENT',
           'a program of the host\'s PATH: the errno is ENOENT');
        my $j = box('mkdir b; printf "#!/bin/sh\necho box\n" > b/of-the-box; '
                    . 'chmod +x b/of-the-box; PATH=$PWD/b; of-the-box', @as);
        is($j->{stdout}, "box\n", 'a program of the box\'s PATH runs');
    };

    subtest "A-012 A-015 A-027 $way: no option or command enters a box" => sub {
        for my $flag (qw(--user --uid --setuid --exec --enter --tar --image)) {
            my $r = jail(['run', '--offline', $flag, '0', '--', 'true'], @as);
            is($r->{status}, 2, "there is no option $flag");
        }
        for my $command (qw(exec enter attach import)) {
            is(jail([$command, '1'], @as)->{status}, 2,
               "there is no command $command");
        }
    };

    subtest "A-012 $way: all ids of the task are 1000" => sub {
        my $j = box('id -u; id -g; id -G; grep -E "^(Uid|Gid)" /proc/self/status',
                    @as);
        like($j->{stdout},
             qr/^1000\n1000\n1000.*\nUid:(?:\t1000){4}\nGid:(?:\t1000){4}\n/,
             'id, and the four of user and group each');
    };

    subtest "A-016 $way: nothing that a launcher reads can be made or moved"
        => sub
    {
        my $j = python(<<'END_OF_PYTHON', @as);
import os
for d in ('/run/agent-jail', '/var/lib/agent-jail', '/etc/agent-jail',
          '/run/ngx_agent_broker', '/etc/nginx', '/sys/fs/cgroup/agent-jail'):
    try:
        os.makedirs(d); print(d, 'made')
    except OSError as e:
        print(e.errno in (30, 2, 13))
for f in ('/run/task/limits.json', '/etc/passwd', '/etc/hosts',
          '/run/task/in'):
    try:
        os.rename(f, f + '.old'); print(f, 'moved')
    except OSError as e:
        print(e.errno in (30, 13, 2, 16, 18))
open('/tmp/work/mine', 'w').close()
print('control')
END_OF_PYTHON
        is($j->{stdout}, "True\n" x 10 . "control\n",
           'six directories, four files; control: a file of the task\'s own')
            or diag $j->{stdout}, $j->{stderr};
    };

    subtest "A-019 A-020 A-021 $way: /dev and /proc are fresh mounts of the "
            . "box's" => sub
    {
        my $j = python(<<'END_OF_PYTHON', @as);
import os
m = {l.split()[4]: l.split(' - ')[1].split()[0]
     for l in open('/proc/self/mountinfo')}
print(m.get('/dev', m['/']), m['/proc'], m['/dev/pts'],
      os.path.islink('/dev'), os.path.islink('/proc'))
st = os.stat('/dev/null')
print(os.major(st.st_rdev), os.minor(st.st_rdev))
END_OF_PYTHON
        is($j->{stdout}, "tmpfs proc devpts False False\n1 3\n",
           'their kinds, and the number of /dev/null');
    };

    my $cases = 'F-009 F-014 F-015 F-017 F-018 F-020';
    subtest "$cases $way: scripts find paths, devices, locks and text as "
            . "outside" => sub
    {
        my $j = box(<<'END_OF_SHELL', @as, args => ['--output', '10000']);
echo "pwd $PWD $(pwd -P)"
printf '#!/usr/bin/env python3\nprint("shebang")\n' > s.py
./s.py; echo "plain $?"
chmod +x s.py; ./s.py
echo x > /dev/null; echo o > /dev/stdout; echo e > /dev/stderr
echo t | tee /dev/fd/2 > /dev/null
head -c1 /dev/urandom | wc -c
bash -c 'cat <(echo sub)'
mkdir a; echo 1 > a/f; tar cf a.tar --owner=57095740 --group=57095740 a
rm -r a; tar xf a.tar && echo "tar $(cat a/f)"
cp -a a b && mv a/f b/g && ln b/g b/h && echo moved
locale 2>&1 | grep -c C.UTF-8
printf 'é\n' | grep -c é
flock lock true && echo flock
END_OF_SHELL
        is($j->{stdout}, <<'END_OF_TEXT', 'each line of the script')
pwd /tmp/work /tmp/work
plain 126
shebang
o
1
sub
tar 1
moved
13
1
flock
END_OF_TEXT
            or diag $j->{stderr};
        like($j->{stderr}, qr/^e\nt$/m, 'stderr can be written by its name');
    };

    subtest "F-001 F-017 F-019 F-020 $way: semaphores, locks, terminals, text"
        => sub
    {
        my $j = python(<<'END_OF_PYTHON', @as);
import multiprocessing as m, os, sqlite3, subprocess
from concurrent.futures import ProcessPoolExecutor as P
from multiprocessing import shared_memory
print(list(P(2).map(abs, [-1])))
s = shared_memory.SharedMemory(create=True, size=1 << 20); s.buf[0] = 1
s.close(); s.unlink()
def rows(path):
    c = sqlite3.connect(path, timeout=30)
    for i in range(200):
        c.execute('insert into t values (1)'); c.commit()
for d in ('/tmp/work', '/tmp', '/dev/shm'):
    p = d + '/wal.db'
    c = sqlite3.connect(p); c.execute('pragma journal_mode=wal')
    c.execute('create table t (x)'); c.commit(); c.close()
    a = [m.Process(target=rows, args=(p,)) for _ in (1, 2)]
    [x.start() for x in a]; [x.join() for x in a]
    c = sqlite3.connect(p)
    print(c.execute('select count(*) from t').fetchone()[0],
          c.execute('pragma integrity_check').fetchone()[0])
import pty
print(pty.spawn(['true']))
print('\u2197')
END_OF_PYTHON
        is($j->{stdout}, "[1]\n400 ok\n400 ok\n400 ok\n0\n\x{2197}\n",
           'each line of the script')
            or diag $j->{stderr};
    };

    subtest "F-011 F-021 $way: sudo and su do not hang, bytes that are not "
            . "text do not either" => sub
    {
        my $j = box('printf "a\377\376b"; sudo -n true || su -c true </dev/null '
                    . '|| echo; echo end', @as);
        like($j->{stdout}, qr/end\n\z/, 'the script goes on after both');
        is(substr($j->{stdout}, 0, 1), 'a', 'the result is valid');
    };
}

# the other child of A-093 sleeps for a while
ok(wait_for('the end', sub { !leftovers() }),
   'no process of a box is left') or diag leftovers();

done_testing;
