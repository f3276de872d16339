#!/usr/bin/perl

# Every limit, reached: what ends, with which reason, and what is left.
#
# A task that a limit ends would else go on for longer than the default wall
# clock, whose reason is another one: so the reason tells that it was ended by
# the limit, and before.

use v5.36;

use FindBin;
use lib $FindBin::Bin;
use Jail;
use Test::More;

sub start ($args, $script, %opt) {
    return spawn(['run', '--offline', @$args, '--', '/usr/bin/python3', '-c',
                  $script], %opt);
}

sub limited (@args) { return finish(start(@args))->{json} }

for my $user (ways()) {
    my $way = way($user);
    my @as = (user => $user);

    # these wait for a wall clock, and so at the same time

    my $daemons = start(['--wall-clock', '3s'], <<'END', @as);
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
    my $share = start(['--cpu', '0.2', '--wall-clock', '1s'],
                      'while True: pass', @as);
    my $stopped = start(['--wall-clock', '500ms'],
                        'import os; os.kill(os.getpid(), 19)', @as);

    subtest "$way: memory ends a task" => sub {
        my $j = limited(['--memory', '48m'], 'x = bytearray(200 << 20)', @as);
        is($j->{reason}, 'oom', 'the reason');
        is($j->{signal}, 'SIGKILL', 'the signal');
        cmp_ok($j->{usage}{memory_peak}, '<=', 48 << 20,
               'the most that it used is within the limit');
    };

    subtest "$way: memory that a child uses up ends the task" => sub {
        my $j = limited(['--memory', '48m'], <<'END', @as);
import os, time
if os.fork() == 0:
    x = bytearray(200 << 20)
time.sleep(99)
END
        is($j->{reason}, 'oom', 'the reason');
    };

    # by cgroup v1 what waits in sockets is not counted with the rest

    subtest "$way: what waits in sockets is memory as well" => sub {
        my $j = limited(['--memory', '64m'], <<'END', @as);
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
time.sleep(99)
END
        is($j->{reason}, 'oom', 'the reason');
    };

    subtest "A-107 $way: a fork bomb meets its limit" => sub {
        my $j = limited(['--pids', '20'], <<'END', @as);
import os, time
n = 0
try:
    while n < 1000:
        if os.fork() == 0:
            time.sleep(99)
        n += 1
except OSError as e:
    print(n, e.errno, flush=True)
    raise
END
        is($j->{reason}, 'pids', 'the reason');
        is($j->{stdout}, "19 11\n", 'the 21st process is EAGAIN');
        is($j->{usage}{pids_peak}, 20, 'the result has the number');
        is(box('true', @as)->{reason}, 'ok', 'the next box starts');
    };

    subtest "$way: processor time ends a task" => sub {
        my $j = limited(['--cpu-time', '1s'], "while True: pass", @as);
        is($j->{reason}, 'cpu_time', 'the reason');
        cmp_ok($j->{usage}{cpu_ms}, '>=', 1000, 'it had all of its second');
        note "after $j->{usage}{cpu_ms} ms of it";
    };

    subtest "A-089 $way: endless output ends a task" => sub {
        my $j = limited(['--output', '1000', '--output-bytes', '1m'],
                        'while True: print("y" * 99)', @as);
        is($j->{reason}, 'output', 'the reason');
        is(length $j->{stdout}, 1000, 'the text has the length of --output');
        ok($j->{truncated}{stdout}, 'the result says that it was cut');
        cmp_ok($j->{bytes}{stdout}, '<', 4 << 20,
               'four times the limit is not read');
    };

    subtest "$way: a run near its limit of output is in the result" => sub {
        my $j = limited(['--output-bytes', '1m'], 'print("x" * 900000)', @as);
        is("$j->{reason} @{[ map { $_->{limit} } @{ $j->{near_limits} } ]}",
           'ok output_bytes', 'the reason and the limit');
    };

    subtest "A-110 A-111 $way: a full disk ends a task" => sub {
        my $j = limited([], <<'END', @as);
try:
    with open('/tmp/work/big', 'wb') as f:
        while True:
            f.write(b'x' * (1 << 20))
except OSError as e:
    print(e.errno, flush=True)
    raise
END
        is($j->{stdout}, "28\n", 'the write is ENOSPC');
        is($j->{reason}, 'disk', 'the reason');
        cmp_ok($j->{usage}{disk_bytes}, '>', 250 << 20,
               'the result has the bytes that were used');
    };

    subtest "A-110 $way: a disk without inodes ends a task" => sub {
        my $j = limited([], <<'END', @as);
try:
    for i in range(100000):
        open('/tmp/work/%d' % i, 'w').close()
except OSError as e:
    print(e.errno, flush=True)
    raise
END
        is($j->{stdout}, "28\n", 'the open is ENOSPC');
        is($j->{reason}, 'disk', 'the reason');
    };

    subtest "A-096 $way: orphans are reaped" => sub {
        my $j = limited([], <<'END', @as);
import os, time
for i in range(3000):
    if os.fork() == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.wait()
def zombies():
    for p in os.listdir('/proc'):
        try:
            if p.isdigit() and open('/proc/%s/stat' % p).read() \
                    .rsplit(')')[-1].split()[0] == 'Z':
                return True
        except OSError:
            pass
    return False
while zombies():
    time.sleep(0.01)
print('none')
END
        is($j->{stdout}, "none\n", 'of 3000 none stays a zombie')
            or diag $j->{stderr}, $j->{reason};
    };

    subtest "$way: the wall clock ends daemons that ignore signals" => sub {
        my $j = finish($daemons)->{json};
        is($j->{reason}, 'timeout', 'the reason');
        ok($j->{timed_out}, 'timed_out is true');
        is($j->{exit_code}, undef, 'there is no exit code');
        is($j->{stdout}, "before\n", 'what it wrote is in the result');
        cmp_ok($j->{usage}{wall_ms}, '>=', 3000, 'it had all of its time');
    };

    # the two are measured together, so that it does not matter how much of
    # the machine there was

    subtest "$way: --cpu bounds the share of a processor" => sub {
        my $j = finish($share)->{json};
        my ($cpu, $wall) = @{ $j->{usage} }{qw(cpu_ms wall_ms)};
        is($j->{reason}, 'timeout', 'the reason');
        cmp_ok($cpu, '<=', 0.45 * $wall, 'a loop with --cpu 0.2 has no half');
        note "$cpu ms of $wall ms";
    };

    subtest "A-097 $way: a task that stopped itself is ended" => sub {
        is(finish($stopped)->{json}{reason}, 'timeout', 'the reason');
    };

    none_left("$way: no process of these boxes is left");
}

# Descriptors that are on their way through sockets count for the user, and
# one who has more of them than its limit of open files may send none.

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
    subtest "a box starts beside one that sent all descriptors that it can, "
        . "with $soft files" => sub
    {
        my @as = (user => 1, before => sub {
            syscall(160, 7, pack 'Q2', $soft, 4096) == 0 or die "$!";
        });
        pipe(my $r, my $w) or die $!;
        my $p = spawn(['run', '--offline', '--stdin', '--',
                       '/usr/bin/python3', '-c', $hog], user => 1,
                      before => sub { open STDIN, '<&', $r });
        close $r;
        wait_for('the hog', sub {
            my ($main) = children((alive($p))[0] // 0) or return;
            return -e "/proc/$main/cwd/full";
        });
        is(jail(['run', '--offline', '--', 'echo', 'ran'], @as)->{json}
           {stdout}, "ran\n", 'its command runs');
        close $w;
        is(finish($p)->{json}{stdout}, '1250 109',
           'control: the other sent 1250, and then ETOOMANYREFS');
    };
}

# Of one user: slots and ids do not collide

subtest 'A-114 forty boxes at once have ids of their own' => sub {
    pipe(my $r, my $w) or die $!;
    my @all = map {
        spawn(['run', '--offline', '--stdin', '--', 'sh', '-c',
               'cut -d" " -f2- /proc/self/uid_map; read line'],
              before => sub { open STDIN, '<&', $r })
    } 1 .. 40;
    close $r;
    ok(wait_for('all of them', sub {
        @all == grep { children((alive($_))[0] // 0) } @all;
    }), 'all live at the same time');
    close $w;

    my (%ids, %reasons);
    for my $p (@all) {
        my $j = finish($p)->{json};
        $reasons{ $j->{reason} }++;
        $ids{ $j->{stdout} }++;
    }
    # `read` fails at the end of its input
    is_deeply(\%reasons, { nonzero => 40 }, 'all run to their end');
    is(scalar keys %ids, $> == 0 ? 40 : 1, 'each of root\'s has its own id');
};

no_cgroup_left();

done_testing;
