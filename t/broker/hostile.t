#!/usr/bin/perl

# A launcher's user may be hostile to its neighbours, and so may what runs in
# its box.  Whatever it hands over, sets on what it shares, or does with its
# doors: the worker goes on, others are served at once, and nothing is left.
#
# sanitizers: descriptors of every kind are taken and dropped

use v5.36;

use lib 't/lib';
use AgentTest;
use Test::More;
use Time::HiRes qw(time);

use constant SOON => 2;                 # seconds, for one request

my $t    = AgentTest->new;
my $up   = $t->upstream(plain => 1);
my $safe = $t->upstream(names => ['api.internal']);
my $dns  = $t->dns({ 'api.internal' => { A => ['127.0.0.1'] } });
my ($port, $tls) = ($up->port, $safe->port);

my $http = <<"END";
    resolver 127.0.0.1:$dns->{port};
    agent_audit logs/agent-audit.log;
    client_header_timeout 30s;
    agent_policy analysis {
        launchers user:$>;
        connections 300;
        refusals    1000000;
        audit_budget 1000000 1g;
        names       1000000;
        host 127.0.0.1:$port { plaintext on; private 127.0.0.0/8; }
        host api.internal:$tls {
            private 127.0.0.0/8;
            trusted_certificate @{[$t->ca->{cert}]};
        }
    }
    server {
        agent_control unix:%CONTROL%;
        include $AgentTest::ROOT/conf/agent_proxy.conf;
    }
END

my $b = $t->broker(http => $http, connections => 2048);
my ($worker) = $b->workers;

sub task ($kind = undef, $broker = $b) {
    my $l = $t->launcher;
    $l->do(connect => { name => 'task', path => $broker->control });
    my $reply = $l->ask('task', { v => 1, op => 'open', policy => 'analysis' });
    die "open: $reply->{message}\n" unless $reply->{ok};
    my @kinds = map {
        { ($_->{name} =~ /-udp$/ ? 'udp' : 'listen') => $_->{port} }
    } @{ $reply->{doors} };
    $kinds[0] = $kind if $kind;
    my $served = $l->ask('task', { op => 'serve' }, kinds => \@kinds);
    return ($l, { %$reply, served => $served });
}

sub close_task ($l) {
    my $reply = $l->ask('task', { op => 'close', reason => 'ok' });
    $l->stop;
    return $reply->{ok};
}

my ($good) = task();
my $url = "http://127.0.0.1:$port/echo";

# the slowest of some requests of the good task, and whether all were served
sub good_is_served ($what, $times = 5) {
    my $slowest = 0;
    for (1 .. $times) {
        my $start = time;
        my $r = $good->get($url);
        my $took = time - $start;
        $slowest = $took if $took > $slowest;
        return fail("$what: " . ($r->{status} // 'no answer'))
            if ($r->{status} // 0) != 200;
    }
    return cmp_ok($slowest, '<', SOON, $what);
}

# what runs beside the test in a box: its pid, and an end within a minute
sub background ($l, $program, @args) {
    my $run = $l->do(run => { argv => ['/bin/sh', '-c',
        'timeout 60 /usr/bin/python3 -c "$@" </dev/null >/dev/null 2>&1 & '
        . 'echo $!', 'sh', $program, map { "$_" } @args],
        env => { PATH => $ENV{PATH} } });
    die $run->{error} if $run->{error};
    return $run->{data} =~ /(\d+)/;
}

sub in_box ($l, $program, @args) {
    my $run = $l->do(run => { timeout => 60,
        argv => ['/usr/bin/python3', '-c', $program,
                                      map { "$_" } @args] });
    return $run->{error} // ($run->{data} . $run->{err});
}

sub fds { my @fds = glob "/proc/$worker/fd/*"; return scalar @fds }

sub cpu {
    my @stat = split ' ', $t->read("/proc/$worker/stat") =~ s/.*\) //r;
    return $stat[11] + $stat[12];       # ticks of 10 ms
}

sub memory {
    return ($t->read("/proc/$worker/status") =~ /^VmRSS:\s+(\d+)/m)[0];
}

sub is_idle ($what) {
    my $before;
    AgentTest::wait_for("the worker to be idle after $what", sub {
        $before = cpu();
        select undef, undef, undef, 0.3;    # time, to see what it costs
        return cpu() - $before < 3;
    });
    return pass("the worker has nothing to do after $what");
}

good_is_served('a good task is served');


# What a box's sockets carry over to what is accepted on them

for my $how (qw(linger linger_0 peek_off rcvbuf sndbuf rcvlowat defer_accept
                transparent busy_poll oobinline maxseg timeouts cork
                user_timeout window_clamp))
{
    my ($l) = task();
    my $did = $l->do(tamper => { index => 0, how => $how });

    SKIP: {
        skip "$how cannot be set here: $did->{error}", 3 if $did->{error};

        my $r = eval { $l->get("http://127.0.0.1:$port/big?n=100000") } // {};
        is(length($r->{body} // ''), 100000, "the task that set $how is served")
            if $how !~ /rcvbuf|sndbuf|maxseg|user_timeout|window|rcvlowat/;
        $l->do(open => { id => 'x', port => 8899 });
        $l->do(write => { id => 'x', data => "GET http://127.0.0.1:$port"
            . "/big?n=50000000 HTTP/1.1\r\nHost: 127.0.0.1:$port\r\n\r\n" });
        good_is_served("others are, beside $how", 2);
        my $start = time;
        ok(close_task($l), "its task is closed, $how");
        good_is_served("and nothing waits for that, $how", 1);
        cmp_ok(time - $start, '<', SOON + 1, "at once, $how");
    }
}

is_idle('that');


# Sockets that are no door

for my $case (['an SCTP listener', { sctp => 8897 }],
              ['an MPTCP listener', { mptcp => 8897 }])
{
    my ($l, $task) = task($case->[1]);
    SKIP: {
        my $error = $task->{served}{error} // '';
        skip "no $case->[0] here: $error", 1 if $error =~ /Error/;
        is($error, 'bad_descriptor', "refused: $case->[0]");
    }
    $l->stop;
}

{
    my ($l, $task) = task({ reuseport => 8899 });
    ok($task->{served}{ok}, 'one of a group of sockets is taken');

    # half of the connections are the other's, who never accepts them
    my $served = 0;
    for (1 .. 20) {
        my $r = eval { $l->get($url, timeout => 0.2) } // {};
        $served++ if ($r->{status} // 0) == 200;
    }
    cmp_ok($served, '>', 0, 'and serves its share');
    good_is_served('others are served beside it');
    ok(close_task($l), 'it is closed');
}

SKIP: {
    skip 'only root can make a file system here', 6 if !AgentTest::is_root();

    my $own = $t->broker(http => $http);
    my ($pid) = $own->workers;
    my ($l) = task(undef, $own);
    my ($bad, $task) = eval { task({ fuse => JSON::PP::true() }, $own) };
    skip "no FUSE here: " . ($@ || $task->{served}{error}), 6
        if !$task || ($task->{served}{error} // '') =~ /Error/;

    is($task->{served}{error}, 'bad_descriptor', 'refused: a file whose close '
                                                 . 'never comes back');
    is($l->get($url)->{status}, 200, 'others are served beside it');
    my ($state) = $t->read("/proc/$pid/stat") =~ /\) (\S)/;
    isnt($state, 'D', 'the worker does not wait for it');
    $own->reload;
    isnt(($own->workers)[0], $pid, 'a reload brings another worker');
    ok($bad->do('end_fuse')->{ok}, 'the file system goes away');
    AgentTest::wait_for('the old worker to leave',
                        sub { !-e "/proc/$pid/stat" });
    pass('and then the old worker leaves');
    $l->stop;
    $bad->stop;
    $own->stop;
}


# A listener that is made to block, and its connections taken away

my $knock = <<'END';
import socket, sys, time
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    s = socket.socket()
    s.settimeout(0.2)
    try:
        s.connect(("127.0.0.1", 8899))
    except OSError:
        pass
    s.close()
END

{
    my ($l) = task();
    my $log = length $b->error_log;
    $l->do(steal => { index => 0, seconds => 6 });
    my $pid = background($l, $knock, 6);
    my ($tries, $slowest, $closed) = (0, 0, 0);
    my $end = time + 6;

    while (time < $end && !$closed) {
        my $start = time;
        my $r = $good->get($url);
        $slowest = time - $start if time - $start > $slowest;
        $tries++ if ($r->{status} // 0) == 200;
        $closed = substr($b->error_log, $log) =~ /tampered with/;
    }

    kill 'TERM', $pid if $pid;
    cmp_ok($tries, '>', 0, 'others are served while connections are stolen');
    cmp_ok($slowest, '<', SOON, 'at once');
    note $closed ? 'the door was closed' : 'the theft was not met';
    close_task($l);
}

is_idle('stolen connections');


# A queue of 65535, in which connections wait that never say a word

my $fill = <<'END';
import resource, socket, sys, time
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
kept = []
n = min(int(sys.argv[1]), hard - 100)
for i in range(n):
    s = socket.socket()
    s.setblocking(False)
    try:
        s.connect(("127.0.0.1", 8899))
    except BlockingIOError:
        pass
    except OSError:
        break
    kept.append(s)
open(sys.argv[2], "w").write(str(len(kept)))
time.sleep(float(sys.argv[3]))
END

for my $defer (0, 1) {
    my ($l, $task) = task({ deep => 8899 });
    ok($task->{served}{ok}, 'a listener with a deep queue is taken')
        or diag explain $task->{served};
    $l->do(tamper => { index => 0, how => 'defer_accept' }) if $defer;
    my $mark = $t->dir . "/filled$defer";
    my $pid = background($l, $fill, 3000, $mark, 30);
    AgentTest::wait_for('the queue to be filled', sub { -s $mark });
    cmp_ok($t->read($mark), '>', 500, 'hundreds of connections wait'
           . ($defer ? ', deferred' : ''));
    good_is_served('others are served beside them');
    my $before = cpu();
    select undef, undef, undef, 0.3;        # time, to see what it costs
    cmp_ok(cpu() - $before, '<', 10, 'and they cost the worker nothing');
    ok(close_task($l), 'its task is closed');
    kill 'TERM', $pid;
    good_is_served('others go on');
}

is_idle('the queues');


# From here on nothing may be left: descriptors and memory are counted

my $warm = sub {
    my ($l) = task();
    in_box($l, $knock, 0.2);
    $l->get($url);
    $l->get('http://evil.example/');
    close_task($l);
};
$warm->() for 1 .. 3;
AgentTest::wait_for('the tasks to end', sub {
    $b->audit('task_end') + 1 == $b->audit('task_start') });
is_idle('a few tasks');
my ($fds, $memory) = (fds(), memory());

{
    my ($l) = task();
    my $pid = background($l, $knock, 3);
    my $pid2 = background($l, $knock, 3);
    good_is_served('others are served beside thousands of connections that '
                   . 'are dropped', 30);
    kill 'TERM', $pid, $pid2;
    ok(close_task($l), 'its task is closed');
}


# Requests of a byte a second, from 200 connections

my $drip = <<'END';
import socket, sys, time
request = bytes.fromhex(sys.argv[1])
kept = []
for i in range(200):
    s = socket.create_connection(("127.0.0.1", 8899))
    kept.append(s)
open(sys.argv[2], "w").write("x")
for byte in request:
    for s in kept:
        try:
            s.send(bytes([byte]))
        except OSError:
            pass
    time.sleep(1)
END

for my $case (['request lines', "GET $url HTTP/1.1\r\n"],
              ['CONNECTs', "CONNECT api.internal:$tls HTTP/1.1\r\n"],
              ['hellos', "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"])
{
    my ($l) = task();
    my $mark = $t->dir . "/drip-$case->[0]" =~ s/ /-/r;
    my $pid = background($l, $drip, unpack("H*", $case->[1]), $mark);
    AgentTest::wait_for('the connections', sub { -e $mark });
    good_is_served("others are served beside slow $case->[0]", 20);
    my $r = eval { $l->get($url) } // {};
    is($r->{status}, 200, "and so is the task of the slow $case->[0]");
    ok(close_task($l), 'it is closed');
    kill 'TERM', $pid;
}


# A thousand names, asked at once

my $ask = <<'END';
import socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
s.connect(("127.0.0.1", 53))
s.settimeout(5)
got = 0
for i in range(0, 1000, 50):
    for k in range(i, i + 50):
        name = b"h%d" % k
        s.send(struct.pack(">HHHHHH", k, 256, 1, 0, 0, 0)
               + bytes([len(name)]) + name + b"\7example\0\0\1\0\1")
    for k in range(50):
        try:
            got += s.recv(512)[3] & 15 == 3
        except TimeoutError:
            break
print(got)
END

{
    my ($l, $task) = task();
    my $answered = in_box($l, $ask);
    is($answered, "1000\n", 'a thousand names are answered');
    good_is_served('others are served after them');
    my $pid = background($l, $ask);
    good_is_served('and beside them', 20);
    AgentTest::wait_for('their lines', sub {
        $b->audit('dns', task => $task->{task_id}) >= 1000 }, 60);
    kill 'TERM', $pid;
    ok(close_task($l), 'its task is closed');
}


# Nothing is left

AgentTest::wait_for('the tasks to end', sub {
    $b->audit('task_end') + 1 == $b->audit('task_start') });
is_idle('all of that');
is($_, $worker, 'the worker is the same') for $b->workers;
$good->get($url);
AgentTest::wait_for('the descriptors to be what they were', sub {
    fds() <= $fds + 1 });
pass('it has the descriptors it had');
SKIP: {
    skip 'a sanitizer keeps what is freed', 1 if $t->{sanitize};
    cmp_ok(memory() - $memory, '<', 4096, 'and its memory, within 4 MiB')
        or diag "$memory KiB became " . memory();
}

close_task($good);
is_deeply([$b->audit_errors], [], 'the audit is whole');
unlike($b->error_log, qr/\[(?:alert|emerg)\]/, 'nothing is wrong')
    or diag $b->error_log;

done_testing;
