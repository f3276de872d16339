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

my $t    = AgentTest->new;
my $up   = $t->upstream(names => ['ws.internal', 'api.internal']);
my $port = $up->port;
my $rule = $t->rule;

my $b = $t->broker(names => [qw(ws.internal api.internal)],
                   vault => "api = $token\n", policy => <<"END");
    host ws.internal:$port { $rule websocket on; bearer api; }
    host api.internal:$port { $rule }
END

my ($l, $task) = $b->task;

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
    my $echo = $l->do(read => { id => $id, timeout => 10 })->{data};
    $l->do(shut => { id => $id });
    return ($head, $echo, ($up->requests)[-1]);
}

subtest 'F-038 a websocket to a host with `websocket on` is passed through'
    => sub {
    my ($head, $echo, $seen) = upgrade('ws.internal', 'websocket');
    like($head, qr/^HTTP\/1.1 101 /, 'the box is answered 101');
    is($echo, 'hello', 'bytes of the box come back from the upstream');
    is_deeply($seen->{headers}{upgrade}, ['websocket'],
              'the upstream is sent Upgrade: websocket');
    is_deeply($seen->{headers}{connection}, ['upgrade'],
              'the upstream is sent Connection: upgrade, once');
    is_deeply($seen->{headers}{authorization}, ["Bearer $token"],
              'the upstream is sent the credential of the rule');
    is_deeply($seen->{headers}{'sec-websocket-version'}, ['13'],
              'headers of the websocket itself go up');

    AgentTest::wait_for('the line of its end', sub {
        grep { $_->{status} == 101 } $b->audit('egress_end')
    });
    my ($end) = grep { $_->{status} == 101 } $b->audit('egress_end');
    cmp_ok($end->{bytes_down}, '>=', 5,
           'bytes of the websocket are counted in the line of its end');
};

for my $case (['api.internal', 'websocket', 'a host without `websocket on`'],
              ['ws.internal', 'h2c', 'an upgrade to h2c'],
              ['ws.internal', 'websocket, h2c', 'a list of protocols']) {
    my ($host, $to, $what) = @$case;
    subtest "B-049 $what is served without the upgrade" => sub {
        my ($head, undef, $seen) = upgrade($host, $to, '/echo');
        like($head, qr/^HTTP\/1.1 200 /, 'the box is answered 200');
        ok(!$seen->{headers}{upgrade}, 'the upstream is sent no Upgrade');
        ok(!$seen->{headers}{connection},
           'the upstream is sent no Connection: upgrade');
    };
}

subtest 'B-049 an upstream that upgrades unasked gets no tunnel' => sub {
    my ($head, $echo) = upgrade('api.internal', 'websocket', '/upgrade');
    unlike($head, qr/^HTTP\/1.1 101 /, 'the box is not answered 101');
    isnt($echo, 'hello', 'bytes of the box do not come back');
};

$b->is_clean;

done_testing;
