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


# What is no upgrade, or another one, is an ordinary request: RFC 9110, 7.8

my @key = ('Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
           'Sec-WebSocket-Version: 13');
my @ask = ('Connection: Upgrade', 'Upgrade: websocket');

# One request in these words: its answer, and what the upstream saw of it.
sub ask ($host, $version, $path, @lines) {
    my $seen = () = $up->requests;
    my $method = $path =~ s/^(\w+) // ? $1 : 'GET';
    my $r = $l->http(join '', map { "$_\r\n" }
        "$method http://$host:$port$path HTTP/$version", "Host: $host:$port",
        @lines, @key, '');
    my @new = $up->requests;
    return ($r, @new[$seen .. $#new]);
}

for my $case (
    ['an upgrade to h2c', '1.1', 'Connection: close, Upgrade', 'Upgrade: h2c'],
    ['an upgrade to h2c, as Java asks for it', '1.1',
     'Connection: close, Upgrade, HTTP2-Settings', 'Upgrade: h2c',
     'HTTP2-Settings: AAMAAABkAAQAAP__'],
    ['two protocols', '1.1', 'Connection: close, Upgrade',
     'Upgrade: h2c, irc/6.9'],
    ['HTTP/1.0', '1.0', @ask],
    ['no Connection: Upgrade', '1.1', 'Connection: close',
     'Upgrade: websocket'],
    ['no Upgrade', '1.1', 'Connection: close, Upgrade'],
    ['a word that has websocket in it', '1.1', 'Connection: close, Upgrade',
     'Upgrade: xwebsocket'],
) {
    my ($what, $version, @lines) = @$case;
    for my $host (qw(api.internal ws.internal)) {
        subtest "B-049 G-036: $what to $host is served without an upgrade" => sub {
            my ($r, $seen) = ask($host, $version, '/echo', @lines);
            is($r->{status}, 200, 'the box is answered 200');
            ok($seen && !$seen->{headers}{upgrade},
               'the upstream is sent no Upgrade');
            ok($seen && !$seen->{headers}{connection},
               'the upstream is sent no Connection: upgrade');
            ok($seen && !$seen->{headers}{'http2-settings'},
               'the upstream is sent no HTTP2-Settings');
        };
    }
}

my @websockets = (
    ['an ordinary one', @ask],
    ['in capitals', 'Connection: UPGRADE', 'Upgrade: WebSocket'],
    ['in a list', 'Connection: keep-alive, Upgrade', 'Upgrade: h2c, websocket'],
    ['in two lines', 'Connection: keep-alive', 'Connection: Upgrade',
     'Upgrade: h2c', 'Upgrade: websocket'],
);

for my $case (@websockets) {
    my ($what, @lines) = @$case;
    subtest "G-036: a websocket that the rule does not have, $what, is refused"
        => sub {
        my $dials = $up->connections;
        my ($r, $seen) = ask('api.internal', '1.1', '/upgrade', @lines);
        is($r->{status}, 403, 'the box is answered 403');
        like($r->{body}, qr/"reason":"upgrade_not_allowed"/,
             'with the reason upgrade_not_allowed');
        ok(!$seen, 'the upstream sees no request');
        is($up->connections, $dials, 'the upstream is not dialled');
        my ($line) = ($b->audit('egress'))[-1];
        is("$line->{verdict} $line->{reason} $line->{path}",
           'denied upgrade_not_allowed /upgrade', 'the line says so');
    };
    subtest "G-036: a websocket that the rule has, $what, is passed on" => sub {
        my $id = 'w' . ++$n;
        $l->do(open => { id => $id, port => 8899 });
        $l->do(write => { id => $id, data => join '', map { "$_\r\n" }
            "GET http://ws.internal:$port/upgrade HTTP/1.1",
            "Host: ws.internal:$port", @lines, @key, '' });
        like($l->do(read => { id => $id, timeout => 10 })->{data},
             qr{^HTTP/1\.1 101 }, 'the box is answered 101');
        $l->do(shut => { id => $id });
    };
}

subtest 'G-036: POST asks for no websocket, and is refused where there is none'
    => sub {
    my ($r) = ask('api.internal', '1.1', 'POST /echo', @ask,
                  'Content-Length: 0');
    is($r->{status}, 403, 'the box is answered 403');
};


# G-030: what the upstream switches to is what was asked for

sub upgraded ($query, @lines) {
    my ($r) = ask('ws.internal', '1.1', "/upgrade?$query",
                  @lines ? @lines : @ask);
    return $r;
}

for my $case (
    ['a wrong Sec-WebSocket-Accept',
     'accept=Sec-WebSocket-Accept:%20s3pPLMBiTxaQ9kYGzzhZRbK%2BxOp='],
    ['a short Sec-WebSocket-Accept', 'accept=Sec-WebSocket-Accept:%20s3pP'],
    ['two of Sec-WebSocket-Accept',
     'accept=Sec-WebSocket-Accept:%20s3pPLMBiTxaQ9kYGzzhZRbK%2BxOo='
     . '%0d%0aSec-WebSocket-Accept:%20s3pPLMBiTxaQ9kYGzzhZRbK%2BxOo='],
    ['no Sec-WebSocket-Accept', 'accept='],
    ['another Upgrade', 'upgrade=Upgrade:%20echo'],
    ['two protocols', 'upgrade=Upgrade:%20websocket,%20echo'],
    ['no Upgrade', 'upgrade='],
    ['no Connection', 'connection='],
    ['another Connection', 'connection=Connection:%20keep-alive'],
    ['a body', 'accept=Sec-WebSocket-Accept:%20s3pPLMBiTxaQ9kYGzzhZRbK%2BxOo='
     . '%0d%0aContent-Length:%205'],
) {
    my ($what, $query) = @$case;
    subtest "G-030: a 101 with $what is refused" => sub {
        my $r = upgraded($query);
        is($r->{status}, 502, 'the box is answered 502');
        like($r->{body}, qr/"reason":"bad_answer"/, 'with the reason bad_answer');
        unlike($r->{raw}, qr/101/, 'nothing of the 101 is passed on');
        AgentTest::wait_for('the line of its end', sub {
            grep { ($_->{failure} // '') eq 'bad_answer' }
                 ($b->audit('egress_end'))[-1] });
    };
}

subtest 'G-030: a 101 that was not asked for is refused' => sub {
    for my $lines (['Connection: close'],
                   ['Connection: close, Upgrade', 'Upgrade: echo'],
                   ['Connection: close', 'Upgrade: websocket'])
    {
        my $r = upgraded('', @$lines);
        is($r->{status}, 502, "the box is answered 502 (@$lines)");
        like($r->{body}, qr/"reason":"bad_answer"/,
             "with the reason bad_answer (@$lines)");
    }
};

subtest 'G-030: a websocket without a key is not opened' => sub {
    @key = 'Sec-WebSocket-Version: 13';
    is(upgraded('')->{status}, 502, 'the box is answered 502');
};

subtest 'E-001 an upgrade that the upstream takes after a reload is judged by '
    . 'the new policy' => sub {
    my $policy = sub ($on) { <<"END" };
    host ws.internal:$port { $rule websocket $on; bearer api; }
    host api.internal:$port { $rule }
END
    for my $on ('on', 'off') {
        my $id = "reload-$on";
        my ($l2) = $b->task;
        $l2->do(open => { id => $id, port => 8899 });
        $l2->do(write => { id => $id, data => join "\r\n",
            "GET http://ws.internal:$port/upgrade?gate=$id HTTP/1.1",
            "Host: ws.internal:$port", @ask, 'Sec-WebSocket-Version: 13',
            'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==', '', '' });
        AgentTest::wait_for('the request upstream', sub {
            grep { $_->{target} =~ /gate=$id/ } $up->requests
        });
        ok($b->reload(policy => $policy->($on)), "control: a reload, to $on");

        my ($l3) = $b->task;
        $b->audit_wait('egress_end', failure => 'policy_changed')
            if $on eq 'off';
        is($l3->get("http://api.internal:$port/open/$id")->{status}, 200,
           'control: the upstream goes on');

        my $head = $l2->do(read => { id => $id, timeout => 60 })->{data};
        my $status = $on eq 'on' ? 101 : 503;
        like($head, qr/^HTTP\/1.1 $status /,
             "the box is answered $status when the new policy has $on");
        $_->stop for $l2, $l3;
    }
};

$b->is_clean;

done_testing;
