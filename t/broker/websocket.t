#!/usr/bin/perl

# An upgrade goes to the hosts that may be upgraded to, and only to a
# websocket; elsewhere it is neither asked for nor accepted.
#
# sanitizers: frames and upgrades pass through

use v5.36;

use lib 't/lib';
use AgentTest;
use Test::More;

my $token = 'sk_test_0123456789abcdef_marker';

my $t   = AgentTest->new;
my $up  = $t->upstream(names => ['ws.internal', 'api.internal']);
my $dns = $t->dns({ map { $_ => { A => ['127.0.0.1'] } }
                    qw(ws.internal api.internal) });
my $port = $up->port;
my $vault = $t->write('vault', "api = $token\n", 0600);
my $host = "private 127.0.0.0/8; trusted_certificate @{[$t->ca->{cert}]};";

my $b = $t->broker(http => <<"END");
    resolver 127.0.0.1:$dns->{port};
    agent_vault $vault;
    agent_audit logs/agent-audit.log;
    agent_policy analysis {
        host ws.internal:$port { $host websocket on; bearer api; }
        host api.internal:$port { $host }
    }
    server {
        agent_control unix:%CONTROL%;
        include $AgentTest::ROOT/conf/agent_proxy.conf;
    }
END

my $l = $t->launcher;
my $task = $l->open_task($b->control, 'analysis');
ok($task->{ok}, 'a task is opened') or diag explain $task;

my $n = 0;

# Asks for an upgrade, and sends a word behind the answer: both answers.
sub upgrade ($host, $to, $path = '/upgrade', $method = 'GET') {
    my $id = 'u' . ++$n;
    $l->do(open => { id => $id, port => 8899 });
    $l->do(write => { id => $id, data =>
        "$method http://$host:$port$path HTTP/1.1\r\nHost: $host:$port\r\n"
        . "Connection: keep-alive, Upgrade\r\nUpgrade: $to\r\n"
        . "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        . "Sec-WebSocket-Version: 13\r\n\r\n" });
    my $head = $l->do(read => { id => $id, timeout => 10 })->{data};
    $l->do(write => { id => $id, data => 'hello' });
    my $echo = $l->do(read => { id => $id, timeout => 1 })->{data};
    $l->do(shut => { id => $id });
    return ($head, $echo, ($up->requests)[-1]);
}

my ($head, $echo, $seen) = upgrade('ws.internal', 'websocket');
like($head, qr/^HTTP\/1.1 101 /, 'a websocket is upgraded to');
is($echo, 'hello', 'and its bytes go both ways');
is_deeply($seen->{headers}{upgrade}, ['websocket'], 'Upgrade was sent on');
is_deeply($seen->{headers}{connection}, ['upgrade'], 'once, with Connection');
is_deeply($seen->{headers}{authorization}, ["Bearer $token"],
          'and the credential');
is_deeply($seen->{headers}{'sec-websocket-version'}, ['13'],
          'the websocket\'s own headers stay');

for my $case (['api.internal', 'websocket', 'a host without the rule'],
              ['ws.internal', 'h2c', 'another protocol'],
              ['ws.internal', 'websocket, h2c', 'a list']) {
    my ($host, $to, $what) = @$case;
    ($head, $echo, $seen) = upgrade($host, $to, '/echo');
    like($head, qr/^HTTP\/1.1 200 /, "$what is served without the upgrade");
    ok(!$seen->{headers}{upgrade}, 'which is not asked for');
    ok(!$seen->{headers}{connection}, 'nor in Connection');
}

for my $host ('api.internal') {
    ($head, $echo) = upgrade($host, 'websocket', '/upgrade');
    isnt($echo, 'hello', 'an upstream that upgrades unasked gets no tunnel');
}

AgentTest::wait_for('the end line', sub {
    grep { $_->{status} == 101 } $b->audit('egress_end')
});
my ($end) = grep { $_->{status} == 101 } $b->audit('egress_end');
ok($end->{bytes_down} >= 5, 'the end line counts its bytes');

is_deeply([$b->audit_errors], [], 'the audit is whole');
unlike($b->error_log, qr/\[(alert|emerg|crit)\]/, 'nothing is wrong')
    or diag $b->error_log;

done_testing;
