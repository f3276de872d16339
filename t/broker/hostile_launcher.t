#!/usr/bin/perl

# A launcher's user may be hostile to its neighbours, and so may what runs in
# its box.  Whatever it hands over, sets on what it shares, or does with its
# doors: the worker goes on, others are served while it goes on, and nothing is
# left.  What it does goes on for ten minutes, or until the test ends it: a
# worker that waited for it would not answer before the watchdog.
#
# sanitizers: descriptors of every kind are taken and dropped

use v5.36;

use lib 't/lib';
use AgentTest;
use Test::More;

my $t    = AgentTest->new;
my $up   = $t->upstream(plain => 1);
my $safe = $t->upstream(names => ['api.internal']);
my $dns  = $t->dns({ 'api.internal' => { A => ['127.0.0.1'] } });
my ($port, $tls) = ($up->port, $safe->port);

my $rule = $t->rule;

my %opt = (dns => $dns, http => 'client_header_timeout 600s;',
           policy => <<"END");
    agent_policy analysis {
        launchers user:$>;
        wall_clock 1h;
        connections 300;
        refusals    1000000;
        audit_budget 1000000 1g;
        names       1000000;
        host 127.0.0.1:$port { plaintext on; private 127.0.0.0/8; }
        host api.internal:$tls { $rule }
    }
END

my $b = $t->broker(%opt, connections => 2048);
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

# requests of the good task, all of which must be served
sub good_is_served ($what, $times = 5) {
    for (1 .. $times) {
        my $r = $good->get($url);
        return fail("$what: " . ($r->{status} // 'no answer'))
            if ($r->{status} // 0) != 200;
    }
    return pass($what);
}

# what runs beside the test in a box: its pid
sub background ($l, $program, @args) {
    my $run = $l->do(run => { argv => ['/bin/sh', '-c',
        'exec timeout 600 /usr/bin/python3 -c "$@" </dev/null >/dev/null 2>&1 & '
        . 'echo $!', 'sh', $program, map { "$_" } @args],
        env => { PATH => $ENV{PATH} } });
    die $run->{error} if $run->{error};
    return ($run->{data} =~ /(\d+)/)[0];
}

sub goes_on ($pid, $what) { ok((kill 0, $pid), "control: $what") }

sub in_box ($l, $program, @args) {
    my $run = $l->do(run => { timeout => 120,
        argv => ['/usr/bin/python3', '-c', $program,
                                      map { "$_" } @args] });
    return $run->{error} // ($run->{data} . $run->{err});
}

my $lookup = <<'END';
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(20)
s.connect(("127.0.0.1", 53))
s.send(bytes.fromhex("000101000001000000000000") + b"\4none\7example\0\0\1\0\1")
print("answered", s.recv(512)[3] & 15)
END

sub fds { my @fds = glob "/proc/$worker/fd/*"; return scalar @fds }

sub memory {
    return ($t->read("/proc/$worker/status") =~ /^VmRSS:\s+(\d+)/m)[0];
}

sub is_idle ($what) {
    $t->wait_idle($worker, "after $what");
    return pass("the worker has nothing to do after $what");
}

good_is_served('control: a good task is served');


# What a box's sockets carry over to what is accepted on them

for my $how (qw(linger linger_0 peek_off rcvbuf sndbuf rcvlowat defer_accept
                transparent busy_poll oobinline maxseg timeouts cork
                user_timeout window_clamp))
{
    subtest "A-078 an option that connections inherit ($how) harms nobody"
        => sub {
        my ($l) = task();
        my $did = $l->do(tamper => { index => 0, how => $how });
        plan skip_all => "the option cannot be set: $did->{error}"
            if $did->{error};

        # those that make it slow are not asked for the whole of it
        if ($how !~ /rcvbuf|sndbuf|maxseg|user_timeout|window|rcvlowat/) {
            my $r = eval { $l->get("http://127.0.0.1:$port/big?n=100000") };
            is(length($r->{body} // ''), 100000, 'the task itself is served');
        }
        $l->do(open => { id => 'x', port => 8899 });
        $l->do(write => { id => 'x', data => "GET http://127.0.0.1:$port"
            . "/big?n=50000000 HTTP/1.1\r\nHost: 127.0.0.1:$port\r\n\r\n" });
        good_is_served('others are served beside it', 2);
        ok(close_task($l), 'the task can be closed');
        good_is_served('others are served after its end', 1);
    };
}

is_idle('these options');


# Sockets that cannot be doors

for my $case (['SCTP', { sctp => 8897 }], ['MPTCP', { mptcp => 8897 }])
{
    my ($l, $task) = task($case->[1]);
    SKIP: {
        my $error = $task->{served}{error} // '';
        skip "this kernel has no $case->[0]: $error", 1
            if $error =~ /Protocol not (?:available|supported)/;
        is($error, 'bad_descriptor',
           "A-078 a listener of $case->[0] is refused");
    }
    $l->stop;
}

subtest 'A-078 one of a group of sockets serves its share' => sub {
    my ($l, $task) = task({ reuseport => 8899 });
    ok($task->{served}{ok}, 'the socket is taken');

    # half of the connections are the other's, who never accepts them
    AgentTest::wait_for('a connection that is served', sub {
        my $r = eval { $l->get($url, timeout => 0.5) } // {};
        return ($r->{status} // 0) == 200;
    });
    pass('some of its connections are served');
    good_is_served('others are served beside it');
    ok(close_task($l), 'the task can be closed');
};

subtest 'A-078 a file whose close never comes back holds nobody up' => sub {
    plan skip_all => 'only root can make a file system'
        if !AgentTest::is_root();

    my $own = $t->broker(%opt);
    my ($pid) = $own->workers;
    my ($l) = task(undef, $own);
    my ($bad, $task) = eval { task({ fuse => JSON::PP::true() }, $own) };
    plan skip_all => '/dev/fuse cannot be opened: '
                     . ($@ || $task->{served}{error})
        if !$task || ($task->{served}{error} // '') =~ /Error/;

    is($task->{served}{error}, 'bad_descriptor', 'the file is refused');
    is($l->get($url)->{status}, 200, 'others are served');
    my ($state) = $t->read("/proc/$pid/stat") =~ /\) (\S)/;
    isnt($state, 'D', 'the worker does not wait for the close');
    $own->reload;
    isnt(($own->workers)[0], $pid, 'a reload brings another worker');
    ok($bad->do('end_fuse')->{ok}, 'control: the file system goes away');
    AgentTest::wait_for('the old worker to leave',
                        sub { !-e "/proc/$pid/stat" });
    pass('when the file system is gone the old worker leaves');
    $l->stop;
    $bad->stop;
    $own->stop;
};


# One that is stopped, by SIGSTOP, reads nothing and closes nothing

my $ask_on = <<'END';
import socket, sys, time
while True:
    try:
        with socket.create_connection(("127.0.0.1", 8899)) as s:
            s.sendall(sys.argv[1].encode())
            if s.recv(12) == b"HTTP/1.1 200":
                open(sys.argv[2], "a").write("x")
    except OSError:
        pass                            # cut with the task
    time.sleep(0.05)
END

subtest 'A-078 a launcher that sends its own connection still ends with it'
    => sub {
    my $own = $t->broker(%opt);
    my ($l, $task) = task(undef, $own);
    $l->do(descriptors => { name => 'task', message => { v => 1 },
                            half => JSON::PP::true,
                            kinds => [{ connection => 'task' }] });
    $l->stop;
    my $end = $own->audit_wait('task_end', task => $task->{task_id});
    is($end->{reason}, 'launcher_lost', 'its task ends at once');
    $own->is_clean;
    $own->stop;
};

subtest 'A-078 a launcher that is stopped holds nobody up' => sub {
    my $own = $t->broker(%opt);
    my ($old) = $own->workers;
    my ($beside) = task(undef, $own);
    my ($l, $task) = task(undef, $own);
    my ($dead, $lost) = task(undef, $own);
    my $half = $t->launcher;
    $half->do(connect => { name => 'x', path => $own->control });
    $half->do(raw => { name => 'x', data => '{"v":1,' });

    my $mark = $t->dir . '/stopped';
    my $pid = background($l, $ask_on, "GET $url HTTP/1.1\r\n"
        . "Host: 127.0.0.1:$port\r\nConnection: close\r\n\r\n", $mark);
    AgentTest::wait_for('the box to be served', sub { -s $mark });

    kill 'STOP', map { $_->{pid} } $half, $l, $dead;
    is($beside->get($url)->{status}, 200, 'others are served beside it');
    my $served = -s $mark;
    AgentTest::wait_for('its box to be served on', sub { -s $mark > $served });
    pass('its own box is served on');

    kill 'KILL', $dead->{pid};
    is($own->audit_wait('task_end', task => $lost->{task_id})->{reason},
       'launcher_lost', 'the task of one that is killed then is lost');

    ok($own->reload, 'the broker is reloaded');
    AgentTest::wait_for('the old worker to leave',
                        sub { !-e "/proc/$old/stat" });
    pass('the old worker leaves');

    kill 'CONT', map { $_->{pid} } $half, $l;
    is_deeply($l->do(receive => { name => 'task' })->{message},
              { event => 'drain' }, 'when it goes on it hears of that');
    $l->do(connect => { name => 'again', path => $own->control });
    ok($l->ask('again', { v => 1, op => 'resume',
                          task_id => $task->{task_id},
                          lease => $task->{served}{lease} },
               kinds => [map { { again => $_ } } 0 .. $#{ $task->{doors} }]
       )->{ok}, 'its task is resumed');
    $served = -s $mark;
    AgentTest::wait_for('its box to be served again',
                        sub { -s $mark > $served });
    ok($l->ask('again', { op => 'close', reason => 'ok' })->{ok},
       'its task can be closed');
    ok($half->do(receive => { name => 'x' })->{eof},
       'the connection of one that had not asked was closed');
    kill 'TERM', $pid;
    $_->stop for $l, $half, $beside, $dead;
    $own->is_clean(level => qr/alert|emerg/);
    $own->stop;
};


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

subtest 'A-078 connections that are taken from a door hold nobody up' => sub {
    my ($l) = task();
    my $log = length $b->error_log;
    $l->do(steal => { index => 0, seconds => 30 });
    my $pid = background($l, $knock, 600);

    # a theft that is met closes the door
    my $closed;
    for (1 .. 300) {
        my $r = $good->get($url);
        return fail('others: ' . ($r->{status} // 'no answer'))
            if ($r->{status} // 0) != 200;
        last if $closed = substr($b->error_log, $log) =~ /tampered with/;
    }
    pass('others are served meanwhile');
    goes_on($pid, 'connections still come');
    kill 'TERM', $pid;
    note $closed ? 'the door was closed' : 'the theft was not met';
    ok(close_task($l), 'the task can be closed');
};

is_idle('stolen connections');


# A datagram socket that is ready for ever

for my $how (qw(shutdown shutdown_read queue_error)) {
    subtest "G-006: a UDP door that is ready for ever ($how) is closed" => sub {
        my ($l, $task) = task();
        my ($udp) = grep { $task->{doors}[$_]{name} eq 'dns-udp' }
                    0 .. $#{ $task->{doors} };
        like(in_box($l, $lookup), qr/^answered/, 'control: it answers');
        my $log = length $b->error_log;
        ok($l->do(tamper => { index => $udp, how => $how })->{ok},
           'the socket is tampered with');
        AgentTest::wait_for('the door to be closed', sub {
            substr($b->error_log, $log) =~ /port 53, was tampered with/ });
        my ($line) = $b->audit_wait('door_error', task => $task->{task_id});
        is("$line->{door} $line->{reason}", 'dns-udp tampered',
           'the audit has the door and the reason');
        is_idle('that');
        is($l->get($url)->{status}, 200, 'the other doors are served');
        good_is_served('others are served');
        ok(close_task($l), 'the task can be closed');
        is(scalar(() = substr($b->error_log, $log) =~ /tampered with/g), 1,
           'the log says it once');
    };
}


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
    subtest 'A-078 a queue of 65535 connections that say nothing'
        . ($defer ? ', deferred,' : '') . ' holds nobody up' => sub {
        my ($l, $task) = task({ deep => 8899 });
        ok($task->{served}{ok}, 'a listener with a deep queue is taken')
            or diag explain $task->{served};
        $l->do(tamper => { index => 0, how => 'defer_accept' }) if $defer;
        my $mark = $t->dir . "/filled$defer";
        my $pid = background($l, $fill, 3000, $mark, 600);
        AgentTest::wait_for('the queue to be filled', sub { -s $mark });
        cmp_ok($t->read($mark), '>', 500, 'control: hundreds of them wait');
        good_is_served('others are served beside them');
        is_idle('the queue is filled');
        goes_on($pid, 'the connections are still there');
        ok(close_task($l), 'the task can be closed');
        kill 'TERM', $pid;
        good_is_served('others are served after them');
    };
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

subtest 'E-007 connections dropped by the thousand starve nobody' => sub {
    my ($l) = task();
    my @pids = map { background($l, $knock, 600) } 1, 2;
    good_is_served('others are served beside them', 30);
    goes_on($_, 'connections are still dropped') for @pids;
    kill 'TERM', @pids;
    ok(close_task($l), 'the task can be closed');
};


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
time.sleep(600)
END

for my $case (['request lines', "GET $url HTTP/1.1\r\n"],
              ['CONNECTs', "CONNECT api.internal:$tls HTTP/1.1\r\n"],
              ['hellos', "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"])
{
    subtest "E-007 slow $case->[0], a byte a second from 200 connections, "
        . 'starve nobody' => sub {
        my ($l) = task();
        my $mark = $t->dir . "/drip-$case->[0]" =~ s/ /-/r;
        my $pid = background($l, $drip, unpack("H*", $case->[1]), $mark);
        AgentTest::wait_for('the connections', sub { -e $mark });
        good_is_served('others are served beside them', 20);
        my $r = eval { $l->get($url) } // {};
        is($r->{status}, 200, 'the task itself is served beside them');
        goes_on($pid, 'the connections are still there');
        ok(close_task($l), 'the task can be closed');
        kill 'TERM', $pid;
    };
}


# A thousand names, asked at once

my $ask = <<'END';
import socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
s.connect(("127.0.0.1", 53))
s.settimeout(60)
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

subtest 'E-007 names by the thousand starve nobody' => sub {
    my ($l, $task) = task();
    is(in_box($l, $ask), "1000\n", 'a thousand names at once are answered');
    good_is_served('others are served after them');
    my $pid = background($l, $ask);
    good_is_served('others are served beside another thousand', 20);
    AgentTest::wait_for('the lines of the names', sub {
        $b->audit('dns', task => $task->{task_id}) >= 1000 });
    kill 'TERM', $pid;
    ok(close_task($l), 'the task can be closed');
};


# Nothing is left

AgentTest::wait_for('the tasks to end', sub {
    $b->audit('task_end') + 1 == $b->audit('task_start') });
is_idle('all of that');
is_deeply([$b->workers], [$worker], 'the worker is the same');
$good->get($url);
AgentTest::wait_for('the descriptors to be what they were', sub {
    fds() <= $fds + 1 });
pass('E-007 the worker has the descriptors that it had');
SKIP: {
    skip 'a sanitizer keeps what is freed', 1 if $t->{sanitize};
    cmp_ok(memory() - $memory, '<', 4096, 'E-007 the worker has the memory that it had, within 4 MiB (KiB)')
        or diag "$memory KiB became " . memory();
}

close_task($good);
$b->is_clean(level => qr/alert|emerg/);

done_testing;
