#!/usr/bin/perl

# Every limit, reached: what ends, with which reason, and what is left.

use v5.36;

use FindBin;
use lib $FindBin::Bin;
use Jail;
use Test::More;

sub limited ($args, $script, %opt) {
    my $r = jail(['run', '--offline', @$args, '--', '/usr/bin/python3', '-c',
                  $script], %opt);
    return ($r->{json}, $r);
}

for my $user (ways()) {
    my $way = way($user);
    my @as = (user => $user);

    my ($j, $r) = limited(['--wall-clock', '300ms'], <<'END', @as);
import os, signal, sys, time
for s in range(1, 65):
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(1000)
    os._exit(0)
print('before', flush=True)
time.sleep(1000)
END
    is($j->{reason}, 'timeout', "$way: the wall clock ends it");
    ok($j->{timed_out}, 'timed_out says so, too');
    is($j->{exit_code}, undef, 'it has no exit code');
    is($j->{stdout}, "before\n", 'what it wrote is there');
    cmp_ok($j->{usage}{wall_ms}, '>=', 300, 'not before its time');
    cmp_ok($r->{ms}, '<', 2000, 'and not long after');
    is(join(' ', leftovers()), '', 'daemons and ignored signals do not help');

    ($j) = limited(['--memory', '48m'], 'x = bytearray(200 << 20)', @as);
    is($j->{reason}, 'oom', "$way: memory ends it");
    is($j->{signal}, 'SIGKILL', 'whoever was first');
    cmp_ok($j->{usage}{memory_peak}, '<=', 48 << 20, 'at its limit');

    ($j, $r) = limited(['--memory', '48m'], <<'END', @as);
import os, time
if os.fork() == 0:
    x = bytearray(200 << 20)
time.sleep(15)
END
    is($j->{reason}, 'oom', "$way: a child's kill for memory ends it as well");
    cmp_ok($r->{ms}, '<', 5000, 'soon');

    # by cgroup v1 what waits in sockets is not counted with the rest

    ($j) = limited(['--memory', '64m'], <<'END', @as);
import os, socket, time
for i in range(8):
    if os.fork() == 0:
        break
keep = []
s = socket.create_server(('127.0.0.1', 0), backlog=500)
for i in range(300):
    c = socket.create_connection(s.getsockname())
    a = s.accept()[0]
    for x in (a, c):
        x.setblocking(False)
        try:
            while True:
                x.send(bytes(65536))
        except BlockingIOError:
            pass
    keep += [a, c]
time.sleep(5)
END
    is($j->{reason}, 'oom', "$way: what waits in sockets is memory as well");

    ($j) = limited(['--pids', '20'], <<'END', @as);
import os, time
n = 0
try:
    while n < 1000:
        if os.fork() == 0:
            time.sleep(100)
        n += 1
except OSError as e:
    print(n, e.errno, flush=True)
    raise
END
    is($j->{reason}, 'pids', "$way: a fork bomb meets its limit");
    is($j->{stdout}, "19 11\n", 'A-107 with EAGAIN, at exactly that number');
    is($j->{usage}{pids_peak}, 20, 'and the result tells');
    is(join(' ', leftovers()), '', 'nothing of it is left');

    ($j) = limited([], <<'END', @as, );
import os, time
print(os.cpu_count() > 0)
END
    is($j->{reason}, 'ok', "A-107 $way: the next box starts all the same");

    ($j, $r) = limited(['--cpu-time', '1s'], "while True: pass", @as);
    is($j->{reason}, 'cpu_time', "$way: processor time ends it");
    cmp_ok($j->{usage}{cpu_ms}, '>=', 1000, 'not before its time');
    cmp_ok($j->{usage}{cpu_ms}, '<', 1600, 'and not long after');

    ($j) = limited(['--cpu', '0.2', '--wall-clock', '1s'], 'while True: pass',
                   @as);
    is($j->{reason}, 'timeout', "$way: a share of a core");
    cmp_ok($j->{usage}{cpu_ms}, '<', 450, 'is no more than that');

    ($j) = limited(['--output', '1000', '--output-bytes', '1m'],
        'while True: print("y" * 99)', @as);
    is($j->{reason}, 'output', "$way: endless output ends it");
    is(length $j->{stdout}, 1000, 'A-089 the text has the cap\'s length');
    ok($j->{truncated}{stdout}, 'and is marked as cut');
    cmp_ok($j->{bytes}{stdout}, '<', 4 << 20, 'it is stopped at the limit');

    ($j) = limited([], <<'END', @as);
try:
    with open('/tmp/work/big', 'wb') as f:
        while True:
            f.write(b'x' * (1 << 20))
except OSError as e:
    print(e.errno, flush=True)
    raise
END
    is($j->{stdout}, "28\n", "$way: the disk is full at its size");
    is($j->{reason}, 'disk', 'and that is the reason');
    cmp_ok($j->{usage}{disk_bytes}, '>', 250 << 20, 'the use is told');

    ($j) = limited([], <<'END', @as);
try:
    for i in range(100000):
        open('/tmp/work/%d' % i, 'w').close()
except OSError as e:
    print(e.errno, flush=True)
    raise
END
    is($j->{stdout} . $j->{reason}, "28\ndisk", "A-110 $way: so are inodes");

    ($j) = limited([], <<'END', @as);
import os, time
for i in range(3000):
    if os.fork() == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.wait()
time.sleep(0.2)
z = [p for p in os.listdir('/proc') if p.isdigit()
     and open('/proc/%s/stat' % p).read().rsplit(')')[-1].split()[0] == 'Z']
print(len(z))
END
    is($j->{stdout}, "0\n", "A-096 $way: orphans are reaped")
        or diag $j->{stderr}, $j->{reason};

    ($j, $r) = limited(['--wall-clock', '500ms'],
        'import os; os.kill(os.getpid(), 19)', @as);
    is($j->{reason}, 'timeout', "A-097 $way: a stopped box is ended in time");
    cmp_ok($r->{ms}, '<', 2000, 'A-097 and removed');

    ($j) = limited(['--wall-clock', '1s'],
        'import time; time.sleep(0.9)', @as);
    is(join(' ', map { $_->{limit} } @{ $j->{near_limits} }), 'wall_clock',
       "$way: a run near its limit is told of");
}

# Descriptors that are on their way through sockets count for the user, and
# one who has more of them than its limit of open files may send none.

{
    my $hog = <<'END';
import array, os, socket, sys
null, held, n = os.open('/dev/null', os.O_RDONLY), [], 0
try:
    while True:
        held.append(socket.socketpair())
        held[-1][0].sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                      array.array('i', [null] * 250))])
        n += 250
except OSError as e:
    os.write(1, b'%d %d' % (n, e.errno))
open('full', 'w')
sys.stdin.read()
END
    for my $soft (1024, 4096) {
        my @as = (user => 1, before => sub {
            syscall(160, 7, pack 'Q2', $soft, 4096) == 0 or die "$!";
        });
        pipe(my $r, my $w) or die $!;
        my $p = spawn(['run', '--offline', '--wall-clock', '15s', '--stdin',
                       '--', '/usr/bin/python3', '-c', $hog], user => 1,
                      before => sub { open STDIN, '<&', $r });
        close $r;
        wait_for('the hog', sub {
            my ($main) = children((alive($p))[0] // 0) or return;
            return -e "/proc/$main/cwd/full";
        });
        is(jail(['run', '--offline', '--', 'echo', 'ran'], @as)->{json}
           {stdout}, "ran\n", 'a box starts beside one that has sent as many '
           . "descriptors as it can, with $soft files at once");
        close $w;
        is(finish($p)->{json}{stdout}, '1250 109', 'control: it had');
    }
}

# 60 boxes at once, of one user: slots and ids do not collide

{
    my @all = map {
        spawn(['run', '--offline', '--', 'sh', '-c',
               'cut -d" " -f2- /proc/self/uid_map; sleep 0.2'])
    } 1 .. 40;
    my (%ids, $ok);
    for my $p (@all) {
        my $j = finish($p)->{json};
        $ok += $j->{reason} eq 'ok';
        $ids{$j->{stdout}}++;
    }
    is($ok, 40, 'A-114 forty boxes at once all run');
    is(scalar keys %ids, $> == 0 ? 40 : 1, 'A-114 each with an id of its own');
}

is(join(' ', slots()), '', 'no cgroup of a box is left');

done_testing;
