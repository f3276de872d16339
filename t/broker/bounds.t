#!/usr/bin/perl

# What the broker does for one box is bounded: past a bound a box is told so,
# or waits, and another box does not notice.

use v5.36;

use lib 't/lib';
use AgentTest;
use Test::More;

my $t   = AgentTest->new;
my $up  = $t->upstream(names => ['api.internal', '*.wild.example']);
my $dns = $t->dns({ map { $_ => { A => ['127.0.0.1'] } }
                    'api.internal', map { "h$_.wild.example" } 1 .. 4 });
my $port = $up->port;

my $host = "private 127.0.0.0/8; trusted_certificate @{[$t->ca->{cert}]};";

my $b = $t->broker(http => <<"END");
    resolver 127.0.0.1:$dns->{port};
    agent_audit logs/agent-audit.log;
    agent_policy narrow {
        connections 2;
        requests    3;
        handshakes  20;
        mints       2;
        names       4;
        refusals    5;
        host api.internal:$port { $host }
        host *.wild.example:$port { $host }
    }
    agent_policy plain {
        host api.internal:$port { $host }
    }
    server {
        agent_control unix:%CONTROL%;
        include $AgentTest::ROOT/conf/agent_proxy.conf;
    }
END

sub box ($policy) {
    my $l = $t->launcher;
    my $task = $l->open_task($b->control, $policy);
    die explain $task unless $task->{ok};
    return ($l, $task);
}

sub reason ($r) { return (eval { JSON::PP::decode_json($r->{body}) } // {})->{reason} }

my $url = "http://api.internal:$port/echo";
my ($other) = box('plain');


# Requests

my ($l, $task) = box('narrow');
is($l->get($url)->{status}, 200, "request $_ of 3 is served") for 1 .. 3;
my $r = $l->get($url);
is("$r->{status} " . reason($r), '429 requests', 'the fourth is told why not');
is($other->get($url)->{status}, 200, 'another task goes on');


# Refusals

($l, $task) = box('narrow');
for (1 .. 5) {
    is(reason($l->get('http://evil.example/')), 'host_not_allowed',
       "refusal $_ of 5 says why");
}
for (1 .. 3) {
    $r = $l->get('http://evil.example/');
    is("$r->{status} " . reason($r), '429 refusals', 'and then no longer');
}
is(scalar($b->audit('egress', task => $task->{task_id})), 6,
   'five lines, and one that says that it is over');


# Names

($l, $task) = box('narrow');
my $ask = 'import socket,sys; s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM);'
        . 's.settimeout(5); s.connect(("127.0.0.1",53));'
        . 's.send(b"\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\3api\\x08internal\\0\\0\\1\\0\\1");'
        . 'print(s.recv(512)[3] & 15)';
my @codes = map {
    my $run = $l->do(run => { argv => ['/usr/bin/python3', '-c', $ask] });
    $run->{status} ? $run->{err} : $run->{data} =~ s/\s//gr;
} 1 .. 6;
is("@codes", '0 0 0 0 5 5', 'four names are answered, then none');
is(scalar($b->audit('dns', task => $task->{task_id}, reason => 'names')), 1,
   'and one line says so');


# Certificates

($l, $task) = box('narrow');
my $ca = $t->write('box-ca.pem', $task->{ca});
my @exits = map {
    $l->do(run => { argv => ['curl', '-sS', '-o', '/dev/null', '--max-time',
        '20', '--cacert', $ca, '--connect-to', '::127.0.0.1:',
        "https://h$_.wild.example:$port/echo"],
        env => { PATH => $ENV{PATH} } })->{status}
} 1, 2, 1, 3;
is("@exits", '0 0 0 35', 'two names are minted, the third is not');
is(scalar($b->audit('egress', task => $task->{task_id}, reason => 'mints')),
   1, 'and its line says so');


# Handshakes: none fails, they wait for their turn

my ($l2, $task2) = box('plain');
($l, $task) = box('narrow');
$ca = $t->write('box-ca.pem', $task->{ca});
my $shake = <<'END';
import socket, ssl, sys
c = ssl.create_default_context(cafile=sys.argv[1])
n = 0
for i in range(60):
    s = c.wrap_socket(socket.create_connection(("127.0.0.1", int(sys.argv[2]))),
                      server_hostname="api.internal")
    n += 1
    s.close()
print(n)
END
is($l->do(run => { argv => ['/usr/bin/python3', '-c', $shake, $ca, "$port"] })
   ->{data}, "60\n", 'sixty handshakes at twenty a second are all made');


# Connections at once

($l, $task) = box('narrow');
$l->do(open => { id => 'a', port => 8899 });
$l->do(write => { id => 'a', data => 'GET ' });
$l->do(open => { id => 'b', port => 8899 });
$l->do(write => { id => 'b', data => 'GET ' });
$l->do(open => { id => 'c', port => 8899 });
$l->do(write => { id => 'c', data => "GET $url HTTP/1.1\r\n"
                                   . "Host: api.internal:$port\r\n\r\n" });
is($l->do(read => { id => 'c', timeout => 0.3 })->{data}, '',
   'a third connection waits while two are busy');
$l->do(shut => { id => 'a' });
like($l->do(read => { id => 'c', timeout => 10 })->{data}, qr/^HTTP\/1.1 200/,
     'and is served when one of them ends');
$l->do(open => { id => 'd', port => 8899 });
$l->do(write => { id => 'd', data => "GET $url HTTP/1.1\r\n"
                                   . "Host: api.internal:$port\r\n\r\n" });
like($l->do(read => { id => 'd', timeout => 10 })->{data}, qr/^HTTP\/1.1 200/,
     'one that is idle makes room for the next');
is($other->get($url)->{status}, 200, 'another task goes on');

is_deeply([$b->audit_errors], [], 'the audit is whole');
unlike($b->error_log, qr/\[(alert|emerg|crit)\]/, 'nothing is wrong')
    or diag $b->error_log;

done_testing;
