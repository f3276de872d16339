#!/usr/bin/perl

# `tunnel on`: TLS that is passed through untouched, to the judged address of
# the host that CONNECT and the client hello both name, within its bounds.
#
# sanitizers: the first bytes of a tunnel are read

use v5.36;

use lib 't/lib';
use AgentTest;
use Test::More;

my $t   = AgentTest->new;
my $up  = $t->upstream(names => ['pinned.internal', 'other.internal',
                                 'small.internal']);
my $port = $up->port;

my $policy = sub ($tunnel) { <<"END" };
    agent_policy analysis {
        bytes_up 1m;
        host pinned.internal:$port { tunnel $tunnel; private 127.0.0.0/8; }
        host other.internal:$port  { private 127.0.0.0/8; }
        host private.internal:1    { tunnel on; }
        host down.internal:1       { private 127.0.0.0/8; tunnel on; }
    }
    agent_policy small {
        bytes_up 64k;
        host small.internal:$port { private 127.0.0.0/8; tunnel on; }
    }
END

my $b = $t->broker(policy => $policy->('on'),
                   names => [qw(pinned.internal other.internal small.internal
                                private.internal down.internal)]);
my ($l, $task) = $b->task;

sub curl ($l, @args) {
    return $l->do(run => {
        argv => ['curl', '-sS', '--max-time', '60', '-x',
                 'http://127.0.0.1:8899', '--cacert', $t->ca->{cert},
                 '-o', '/dev/null', '-w', '%{http_code}', @args],
        env => { PATH => $ENV{PATH} } });
}

my $r;

subtest 'D-015 a tunnel is TLS to the upstream itself, on record from its '
    . 'start' => sub {
    $r = curl($l, "https://pinned.internal:$port/echo");
    is($r->{data}, 200, 'the client verifies the upstream\'s own certificate')
        or diag explain $r, $b->error_log;
    is(($up->requests)[-1]{sni}, 'pinned.internal',
       'the SNI is as the client sent it');

    my ($egress) = $b->audit('egress', method => 'CONNECT');
    is("$egress->{verdict} $egress->{address} $egress->{port}",
       "allowed 127.0.0.1 $port", 'the decision is on record');
    my $end = $b->audit_wait('egress_end');
    is($end->{request}, $egress->{request}, 'the end is on record');
    ok($end->{bytes_up} > 100 && $end->{bytes_down} > 500,
       'the line of the end has the bytes of both directions')
        or diag explain $end;
};

my $body = $t->write('body', 'x' x 500000);
$r = curl($l, '-d', "\@$body", "https://pinned.internal:$port/echo");
is(length(($up->requests)[-1]{body}), 500000,
   'a large body arrives whole through a tunnel');
$r = $l->do(run => { argv => ['curl', '-sS', '--max-time', '60', '-x',
    'http://127.0.0.1:8899', '--cacert', $t->ca->{cert},
    "https://pinned.internal:$port/big?n=3000000"],
    env => { PATH => $ENV{PATH} } });
is(length $r->{data}, 3000000,
   'a large answer comes back whole through a tunnel');

$r = curl($l, "https://other.internal:$port/");
is($r->{status}, 60, 'a host without `tunnel on` shows its client the boxes\' '
   . 'authority, not its own');


# What does not lead to it

my $before = $up->connections;

my $inside = <<'END';
import socket, ssl, sys
target, sni, ca = sys.argv[1:4]
s = socket.create_connection(("127.0.0.1", 8899))
s.sendall(("CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (target, target)).encode())
head = s.recv(4096)
if b" 200 " not in head:
    print(head.decode()); sys.exit()
if sni == "-":
    s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    print(s.recv(4096)); sys.exit()
c = ssl.create_default_context(cafile=ca)
c.check_hostname = False
try:
    s = c.wrap_socket(s, server_hostname=sni or None)
    print("OPEN")
except (ssl.SSLError, OSError) as e:
    print("ALERT", e)
END

sub inside ($target, $sni) {
    my $run = $l->do(run => { argv => ['/usr/bin/python3', '-c', $inside,
        $target, $sni, $t->ca->{cert}] });
    return $run->{data} || $run->{err};
}

my $to = "pinned.internal:$port";
subtest 'B-043 what the hello names must be the host of the CONNECT' => sub {
    like(inside($to, 'other.internal'), qr/ALERT.*UNRECOGNIZED/i,
         'a hello with another allowed name gets an alert');
    like(inside($to, 'evil.example'), qr/ALERT/,
         'a hello with a name that no rule has gets an alert');
    like(inside($to, ''), qr/ALERT/, 'a hello without a name gets an alert');
    like(inside($to, '-'), qr/\\x15/, 'bytes that are not TLS get an alert');
    is($up->connections, $before,
       'no upstream is dialled for a hello that does not fit');
    is(scalar($b->audit('egress', verdict => 'denied', reason => 'sni_mismatch')),
       3, 'each hello that does not fit leaves one line');
};

like(inside('private.internal:1', 'private.internal'), qr/ALERT/,
     'a tunnel to an address that the rule does not open gets an alert');
is(($b->audit('egress', host => 'private.internal'))[-1]{reason},
   'address_not_allowed',
   'the line of that tunnel has the reason address_not_allowed');
like(inside('down.internal:1', 'down.internal'), qr/ALERT/,
     'a tunnel to an upstream that does not answer gets an alert');
is($b->audit_wait('egress_end', host => 'down.internal')->{failure},
   'upstream_unreachable',
   'the line of its end has the failure upstream_unreachable');


# Bounds

subtest 'past the `bytes_up` of its task a tunnel ends' => sub {
    my ($l2) = $b->task('small');
    $r = curl($l2, '-d', "\@$body", "https://small.internal:$port/echo");
    isnt($r->{status}, 0, 'the client of the tunnel fails');
    is($b->audit_wait('egress_end', host => 'small.internal')->{failure},
       'bytes_up', 'the line of its end has the failure bytes_up');
    $r = curl($l2, "https://small.internal:$port/echo");
    isnt($r->{status}, 0, 'the task can open no other tunnel');
};


# A reload is felt by a tunnel that is open

my $hold = <<'END';
import socket, ssl, sys
target, ca = sys.argv[1:3]
s = socket.create_connection(("127.0.0.1", 8899))
s.sendall(("CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (target, target)).encode())
s.recv(4096)
c = ssl.create_default_context(cafile=ca)
s = c.wrap_socket(s, server_hostname=target.split(":")[0])
open(sys.argv[3], "w").close()
s.settimeout(60)
try:
    print("CLOSED" if s.recv(1) == b"" else "DATA")
except TimeoutError:
    print("OPEN")
except OSError:
    print("CLOSED")
END

subtest 'C-027 E-001 E-003 an open tunnel that a new policy refuses is '
    . 'closed'
    => sub {
    my $mark = $t->dir . '/open';
    my $pid = fork // die;
    if ($pid == 0) {
        AgentTest::wait_for('the tunnel', sub { -e $mark });
        $b->configure(policy => $policy->('off'));
        kill 'HUP', $b->master;
        POSIX::_exit(0);
    }
    $r = $l->do(run => { timeout => 60, argv => ['/usr/bin/python3', '-c', $hold,
                         $to, $t->ca->{cert}, $mark] });
    waitpid $pid, 0;
    is($r->{data}, "CLOSED\n", 'the client sees the end of its connection')
        or diag explain $r;
    is($b->audit_wait('egress_end', failure => 'policy_changed')->{host},
       'pinned.internal',
       'the line of its end has the failure policy_changed');
};

# The CONNECT before the reload, the hello after it, both by the worker that
# is about to leave: its answer, and whether an upstream was dialled.
my $first = <<'END';
import ssl, sys
i, o = ssl.MemoryBIO(), ssl.MemoryBIO()
s = ssl.create_default_context().wrap_bio(i, o, server_hostname=sys.argv[1])
try:
    s.do_handshake()
except ssl.SSLWantReadError:
    pass
sys.stdout.buffer.write(o.read())
END

sub hello_after ($id, $l3, $change) {
    my $hello = $l3->do(run => { argv => ['/usr/bin/python3', '-c', $first,
        'pinned.internal'], env => { PATH => $ENV{PATH} } })->{data};
    $l3->do(open => { id => $id, port => 8899 });
    $l3->do(write => { id => $id,
        data => "CONNECT $to HTTP/1.1\r\nHost: $to\r\n\r\n" });
    like($l3->do(read => { id => $id, timeout => 60 })->{data}, qr/^HTTP.* 200 /,
         'control: CONNECT is answered before the reload');
    my $dialled = $up->connections;
    ok($b->reload(policy => $policy->($change)), 'control: the reload is done');
    $l3->do(write => { id => $id, data => $hello });
    my $got = $l3->do(read => { id => $id, timeout => 60 })->{data};
    return ($got, $up->connections - $dialled);
}

subtest 'C-027 a tunnel whose hello comes after a reload is judged by the new '
    . 'policy before it is dialled' => sub {
    ok($b->reload(policy => $policy->('on')), 'control: tunnels are allowed');
    my ($l3) = $b->task;
    my ($got, $dialled) = hello_after('same', $l3, 'on');
    is(ord $got, 22, 'one that both policies allow is a handshake');
    is($dialled, 1, 'its upstream is dialled');

    ($l3) = $b->task;
    ($got, $dialled) = hello_after('gone', $l3, 'off');
    is(unpack('H*', $got), '15030300020270',
       'one that the new policy refuses gets an alert');
    is($dialled, 0, 'no upstream is dialled for it');
    is($b->audit_wait('egress', verdict => 'denied',
                      reason => 'policy_changed')->{host}, 'pinned.internal',
       'its line has the reason policy_changed');
};

$b->is_clean;

done_testing;
