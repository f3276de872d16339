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
my $dns = $t->dns({ map { $_ => { A => ['127.0.0.1'] } }
                    qw(pinned.internal other.internal small.internal
                       private.internal down.internal) });
my $port = $up->port;

my $conf = sub ($tunnel) { <<"END" };
    resolver 127.0.0.1:$dns->{port};
    agent_audit logs/agent-audit.log;
    agent_policy analysis {
        bytes_up 1m;
        host pinned.internal:$port { private 127.0.0.0/8; tunnel $tunnel;
                                     trusted_certificate @{[$t->ca->{cert}]}; }
        host other.internal:$port  { private 127.0.0.0/8; }
        host private.internal:1    { tunnel on; }
        host down.internal:1       { private 127.0.0.0/8; tunnel on; }
    }
    agent_policy small {
        bytes_up 64k;
        host small.internal:$port { private 127.0.0.0/8; tunnel on; }
    }
    server {
        agent_control unix:%CONTROL%;
        include $AgentTest::ROOT/conf/agent_proxy.conf;
    }
END

my $b = $t->broker(http => $conf->('on'));
my $l = $t->launcher;
my $task = $l->open_task($b->control, 'analysis');
ok($task->{ok}, 'a task is opened') or diag explain $task;

sub curl ($l, @args) {
    return $l->do(run => {
        argv => ['curl', '-sS', '--max-time', '20', '-x',
                 'http://127.0.0.1:8899', '--cacert', $t->ca->{cert},
                 '-o', '/dev/null', '-w', '%{http_code}', @args],
        env => { PATH => $ENV{PATH} } });
}

my $r = curl($l, "https://pinned.internal:$port/echo");
is($r->{data}, 200, 'the client verifies the upstream\'s own certificate')
    or diag explain $r, $b->error_log;
is(($up->requests)[-1]{sni}, 'pinned.internal', 'SNI is as the client sent it');

my ($egress) = $b->audit('egress', method => 'CONNECT');
is("$egress->{verdict} $egress->{address} $egress->{port}",
   "allowed 127.0.0.1 $port", 'the decision was recorded');
my $end = $b->audit_wait('egress_end');
is($end->{request}, $egress->{request}, 'and the end');
ok($end->{bytes_up} > 100 && $end->{bytes_down} > 500, 'with its bytes');

my $body = $t->write('body', 'x' x 500000);
$r = curl($l, '-d', "\@$body", "https://pinned.internal:$port/echo");
is(length(($up->requests)[-1]{body}), 500000, 'a large body arrives whole');
$r = $l->do(run => { argv => ['curl', '-sS', '--max-time', '20', '-x',
    'http://127.0.0.1:8899', '--cacert', $t->ca->{cert},
    "https://pinned.internal:$port/big?n=3000000"],
    env => { PATH => $ENV{PATH} } });
is(length $r->{data}, 3000000, 'and a large answer comes back whole');

$r = curl($l, "https://other.internal:$port/");
is($r->{status}, 60, 'a host without the rule is not passed through');


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
like(inside($to, 'other.internal'), qr/ALERT.*UNRECOGNIZED/i,
     'B-043 another name in the hello is refused');
like(inside($to, 'evil.example'), qr/ALERT/, 'B-043 so is a denied one');
like(inside($to, ''), qr/ALERT/, 'B-043 and none');
like(inside($to, '-'), qr/\\x15/, 'and what is no TLS');
is($up->connections, $before, 'nothing was dialled for them');
is(scalar($b->audit('egress', verdict => 'denied', reason => 'sni_mismatch')),
   3, 'each left its line');

like(inside('private.internal:1', 'private.internal'), qr/ALERT/,
     'an address that the rule does not open is refused');
is(($b->audit('egress', host => 'private.internal'))[-1]{reason},
   'address_not_allowed', 'as such');
like(inside('down.internal:1', 'down.internal'), qr/ALERT/,
     'an upstream that does not answer ends the tunnel');
is($b->audit_wait('egress_end', host => 'down.internal')->{failure},
   'upstream_unreachable', 'and its line says so');


# Bounds

my $l2 = $t->launcher;
my $small = $l2->open_task($b->control, 'small');
ok($small->{ok}, 'a task with little to send is opened');
$r = curl($l2, '-d', "\@$body", "https://small.internal:$port/echo");
isnt($r->{status}, 0, 'past its bytes a tunnel ends');
is($b->audit_wait('egress_end', host => 'small.internal')->{failure},
   'bytes_up', 'and its line says why');
$r = curl($l2, "https://small.internal:$port/echo");
isnt($r->{status}, 0, 'and no other is opened');


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
s.settimeout(15)
try:
    print("CLOSED" if s.recv(1) == b"" else "DATA")
except TimeoutError:
    print("OPEN")
except OSError:
    print("CLOSED")
END

my $mark = $t->dir . '/open';
my $pid = fork // die;
if ($pid == 0) {
    AgentTest::wait_for('the tunnel', sub { -e $mark });
    $b->configure(http => $conf->('off'));
    kill 'HUP', $b->master;
    POSIX::_exit(0);
}
$r = $l->do(run => { argv => ['/usr/bin/python3', '-c', $hold, $to,
                              $t->ca->{cert}, $mark] });
waitpid $pid, 0;
is($r->{data}, "CLOSED\n", 'a tunnel that the new policy refuses is closed')
    or diag explain $r;
is($b->audit_wait('egress_end', failure => 'policy_changed')->{host},
   'pinned.internal', 'and its line says why');

is_deeply([$b->audit_errors], [], 'the audit is whole');
unlike($b->error_log, qr/\[(alert|emerg|crit)\]/, 'nothing is wrong')
    or diag $b->error_log;

done_testing;
