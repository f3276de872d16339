#!/usr/bin/perl

# What a box takes of its caller and of its host: not its clocks, limits,
# terminal, priority, children.  Each beside a control.

use v5.36;

use FindBin;
use lib $FindBin::Bin;
use Jail;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

# the memory checker's own maps count as data
my $asan = ($ENV{AGENT_TEST_OBJS} // '') =~ /asan/;

my ($uptime) = do { local (@ARGV) = '/proc/uptime'; map { split } <> };

# A-117: nothing is timed by the time of day, which can be set
my $root = root_dir();
my $clocks = 'CLOCK_REALTIME|\bgettimeofday\(|\btime\(NULL';
is(join(' ', `grep -lE '$clocks' $root/jail/*/*.[ch]`), '',
   'A-117 no timer is of the time of day');
cmp_ok(scalar(() = `grep -lE 'CLOCK_MONOTONIC' $root/jail/*/*.[ch]`), '>', 0,
       'control: but of one that nobody sets');

for my $user (ways()) {
    my $way = way($user);
    my @as = (user => $user);

    # --- clocks

    SKIP: {
        skip 'no time namespaces here', 3 if !-e '/proc/self/ns/time';
        skip 'this host is up for a moment only', 3 if $uptime < 120;
        my $j = python(<<'END_OF_PYTHON', @as);
import os, time
print(time.monotonic() < 60, time.clock_gettime(time.CLOCK_BOOTTIME) < 60,
      float(open('/proc/uptime').read().split()[0]) < 60)
t = time.monotonic(); time.sleep(0.2)
print(0.19 < time.monotonic() - t < 5, abs(time.time() - os.stat('/tmp').st_mtime) < 60)
print(os.readlink('/proc/self/ns/time'))
END_OF_PYTHON
        my ($first, $second, $ns) = split /\n/, $j->{stdout};
        is($first, 'True True True', "the box's clocks start with it ($way)")
            or diag $j->{stderr};
        is($second, 'True True', 'they run, and the time of day is right');
        isnt($ns, readlink '/proc/self/ns/time', 'in a namespace of its own');
    }

    # --- A-108: all limits of resources, from a caller with small ones

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
    cmp_ok(scalar keys %plain, '>=', 15, "A-108 limits are seen ($way)");
    for my $n (sort keys %want) {
        is("@{ $plain{$n} }", "@{ $want{$n} }", "A-108 $n is as documented");
    }
    my %soft = $limits->(program => ['prlimit', '--core=0:',
        $asan ? () : '--data=99999999:',
        '--fsize=9999:', '--cpu=5:', '--nofile=64:', '--nproc=500:',
        $asan ? () : '--stack=99999:', '--memlock=4096:', '--msgqueue=0:',
        '--']);
    for my $n (qw(core data fsize cpu nofile nproc as stack memlock
                  msgqueue)) {
        is("@{ $soft{$n} // [] }", "@{ $plain{$n} }",
           "A-108 the caller's soft limit of $n is not the task's");
    }
    %soft = $limits->(program => ['prlimit', '--stack=unlimited:', '--']);
    is($soft{stack}[0], 8 << 20,
       'A-108 nor is one without end, which has addresses guessed easily');

    my $r = jail(['run', '--offline', '--', 'echo', 'ran'], @as,
                 program => ['prlimit', '--nofile=100:100', '--']);
    if ($user || $r->{status} == 125) {
        is($r->{json}{error}{stage}, 'rlimits',
           'A-108 a hard limit below what a box gets is no box');
        like($r->{json}{error}{message}, qr/nofile.*1024/, 'it is named');
        is($r->{json}{stdout}, '', 'nothing ran');
    } else {
        is($r->{json}{stdout}, "ran\n", 'A-108 root raises a hard limit');
    }

    # --- A-109: place in the scheduler

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
    like($lines[0] // '', qr/^0 7 /, "A-109 modesty is passed on ($way)");
    is("@lines[1, 2]", '1 1', 'A-109 FIFO and RR are EPERM');
    isnt($lines[3], 'taken', 'A-109 so is DEADLINE');
    if (!$user && $> == 0) {
        $j = python($sched, @as, before => sub {
            setpriority 0, 0, -5;
            syscall(251, 1, 0, 1 << 13);        # ioprio_set: real time
        });
        like($j->{stdout}, qr/^0 0 \d+ [02]$/m,
             'A-109 urgency, for processors and disks, is not');
    }

    # --- timers of a caller that lets them be late, by a minute

    {
        my $late = sub {
            my %number = (x86_64 => 157, aarch64 => 167);
            my ($option, $slack) = (29, 60_000_000_000);  # PR_SET_TIMERSLACK
            syscall($number{(POSIX::uname())[4]}, $option, $slack, 0, 0, 0);
        };
        $r = jail(['run', '--offline', '--wall-clock', '200ms', '--', 'sh',
                   '-c', 'cat /proc/self/timerslack_ns; sleep 200'],
                  @as, before => $late);
        is($r->{json}{stdout}, "50000\n",
           "the task's timers are the kernel's ($way)");
        is($r->{json}{reason}, 'timeout', 'it is ended');
        cmp_ok($r->{json}{usage}{wall_ms}, '<', 30_000, 'by its own deadline');
    }

    # --- memory of a caller that shares equal pages with everybody (KSM)

    SKIP: {
        my %number = (x86_64 => 157, aarch64 => 167);
        my ($prctl, $merge, $on) = ($number{(POSIX::uname())[4]}, 67, 1);
        skip 'the kernel looks at each page of a sanitizer\'s map', 1 if $asan;
        skip 'a kernel that shares no pages', 1 if !-e '/proc/self/ksm_stat'
            || `cat /proc/self/ksm_stat` !~ /^ksm_merge_any/m;
        $r = jail(['run', '--offline', '--', 'grep', 'merge_any',
                   '/proc/self/ksm_stat'], @as,
                  before => sub { syscall $prctl, $merge, $on, 0, 0, 0 });
        is($r->{json}{stdout}, "ksm_merge_any: no\n",
           "what the caller's memory is, the task's is not ($way)");
    }

    # --- A-055: a caller's terminal, as all three streams and as the
    # controlling one; typed into it would be what the caller runs next

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
    is($tty->{stdout}, "True True\nENXIO\nEPERM EPERM done\ndone done\nEPERM\n",
       "A-055 F-019 no terminal but one's own, and nothing typed into it "
       . "($way)") or diag $tty->{stderr};

    # --- A-068: what weakens the caller does not weaken the task

    my $personality = 'cat /proc/self/personality';
    like(`setarch -R $personality`, qr/^0*40000$/, 'control: setarch -R');
    $j = box($personality, @as, program => ['setarch', '-R', '--']);
    is($j->{stdout}, "00000000\n",
       "A-068 a caller's personality is not the task's ($way)");

    # --- A-105

    $j = python(<<'END_OF_PYTHON', @as);
import os
def put(v):
    try:
        open('/proc/self/oom_score_adj', 'wb', 0).write(v.encode()); return 'ok'
    except OSError as e:
        return e.errno in (13, 1)
print(put('500'), put('0'), put('-1'), put('-1000'))
END_OF_PYTHON
    is($j->{stdout}, "ok ok True True\n",
       "A-105 the task cannot spare itself from the OOM killer ($way)");

    # --- A-093: children that the launcher did not make

    my $p = spawn(['run', '--offline', '--', 'sh', '-c', 'sleep 0.5; echo on'],
                  @as, program => ['sh', '-c',
                      'sleep 0.1 & sleep 2 >&- 2>&- & exec "$@"', 'sh']);
    $r = finish($p);
    is($r->{json}{stdout}, "on\n",
       "A-093 the end of another child is not the box's ($way)");

    # --- A-119: names are the box's

    SKIP: {
        my $bin = dir() . '/bin';
        mkdir $bin;
        open my $f, '>', "$bin/of-the-host"; print $f "#!/bin/sh\necho host\n";
        close $f;
        chmod 0755, "$bin/of-the-host";
        $r = jail(['run', '--offline', '--', 'of-the-host'], @as,
                  env => { PATH => "$bin:$ENV{PATH}" });
        is($r->{json}{reason}, 'exec', "A-119 a program of the host ($way)");
        is($r->{json}{error}{errno}, 'ENOENT', 'is not there');
        $j = box('mkdir b; printf "#!/bin/sh\necho box\n" > b/of-the-box; '
                 . 'chmod +x b/of-the-box; PATH=$PWD/b; of-the-box', @as);
        is($j->{stdout}, "box\n", 'A-119 one of the box is');
    }

    # --- A-012, A-015, A-027: what there is not

    for my $flag (qw(--user --uid --setuid --exec --enter --tar --image)) {
        $r = jail(['run', '--offline', $flag, '0', '--', 'true'], @as);
        is($r->{status}, 2, "A-012 A-015 A-027 no option $flag ($way)");
    }
    for my $command (qw(exec enter attach import)) {
        is(jail([$command, '1'], @as)->{status}, 2,
           "A-015 no command $command");
    }
    $j = box('id -u; id -g; id -G; grep -E "^(Uid|Gid)" /proc/self/status',
             @as);
    like($j->{stdout}, qr/^1000\n1000\n1000.*\nUid:(?:\t1000){4}\nGid:(?:\t1000){4}\n/,
         "A-012 all its ids are 1000 ($way)");

    # --- A-016: the launcher's own places

    $j = python(<<'END_OF_PYTHON', @as);
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
       "A-016 nothing that a launcher reads can be made or moved ($way)")
        or diag $j->{stdout}, $j->{stderr};

    # --- A-020, A-021: /dev and /proc are fresh mounts of ours

    $j = python(<<'END_OF_PYTHON', @as);
import os
m = {l.split()[4]: l.split(' - ')[1].split()[0]
     for l in open('/proc/self/mountinfo')}
print(m.get('/dev', m['/']), m['/proc'], m['/dev/pts'],
      os.path.islink('/dev'), os.path.islink('/proc'))
st = os.stat('/dev/null')
print(os.major(st.st_rdev), os.minor(st.st_rdev))
END_OF_PYTHON
    is($j->{stdout}, "tmpfs proc devpts False False\n1 3\n",
       "A-019 A-020 A-021 /dev and /proc are the box's own ($way)");

    # --- A-114: the claim of a slot is one's own: see limits.t

    # --- F-001, F-009, F-011, F-014, F-015, F-017, F-018, F-020, F-021

    $j = box(<<'END_OF_SHELL', @as, args => ['--output', '10000']);
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
    is($j->{stdout}, <<'END_OF_TEXT', "programs find what they expect ($way)")
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
    like($j->{stderr}, qr/^e\nt$/m, 'F-018 and so is stderr by its name');

    $j = python(<<'END_OF_PYTHON', @as);
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
       "F-001 F-017 F-019 F-020 semaphores, locks, terminals, text ($way)")
        or diag $j->{stderr};

    $j = box('printf "a\377\376b"; sudo -n true || su -c true </dev/null '
             . '|| echo; echo end', @as);
    like($j->{stdout}, qr/end\n\z/, "F-011 sudo and su do not hang ($way)");
    is(substr($j->{stdout}, 0, 1), 'a', 'F-021 bytes that are no text do not '
       . 'end the result');
}

# the other child of A-093 sleeps for a while
ok(wait_for('the end', sub { !leftovers() }, 5),
   'no process of a box is left') or diag leftovers();

done_testing;
