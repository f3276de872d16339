#!/usr/bin/perl

# A task's share at once and in a second: `connections`, of the box and in
# flight, `rate` and `handshakes` over protocols, workers and reloads.  What is
# past them waits in order and is answered, with 429 at the latest.
#
# sanitizers: requests that wait end in every order

use v5.36;

use lib 't/lib';
use AgentTest;
use Test::More;

my $t    = AgentTest->new;
my $up   = $t->upstream(names => ['api.internal']);
my $port = $up->port;
my $rule = $t->rule;
my $to   = "api.internal:$port";
my $url  = "http://$to";

my $b = $t->broker(names => ['api.internal'], workers => 1, policy => <<"END");
    agent_policy plain {
        wall_clock  1h;
        host $to { $rule }
    }
    agent_policy few {
        wall_clock  1h;
        connections 4;
        refusals    1;
        host $to { $rule }
    }
    agent_policy twelve {
        wall_clock  1h;
        connections 12;
        host $to { $rule }
    }
    agent_policy rated {
        wall_clock  1h;
        rate     2r/s burst=4;
        refusals 1;
        host $to { $rule }
    }
    agent_policy shaken {
        wall_clock  1h;
        handshakes 2;
        host $to { $rule }
    }
END

my $json = JSON::PP->new;
my ($other) = $b->task('plain');

# Many requests at the same time, made in the box: see box_requests.py

sub many ($l, $task, $how, $path, $connections, $each = 1, $door = 8899) {
    my $ca = $t->write('box-ca.pem', $task->{ca});
    my $run = $l->do(run => { timeout => 120, env => { PATH => $ENV{PATH} },
        argv => ['/usr/bin/python3', "$AgentTest::LIB/box_requests.py", $how,
                 "$door", $to, $path, "$connections", "$each", $ca] });
    diag $run->{err} if $run->{status};
    return $json->decode($run->{data} || '{}');
}

# The sum of the counted lines, and of the line of the end, once it is there

sub counted ($l, $task, $reason) {
    my $egress = $l->ask('task', { op => 'close', reason => 'ok', exit_code => 0,
                                   usage => {} })->{egress};
    my $end = $b->audit_wait('task_end', task => $task->{task_id});
    my %counted = %{ $end->{counted} // {} };
    my %listed = map { ($_->{reason} => $_->{count}) }
                 grep { !defined $_->{host} && $counted{ $_->{reason} } }
                 @{ $egress->{denied} };
    is_deeply(\%listed, \%counted, 'the result lists what bounds refused');
    my $all = 0;
    $all += $_->{count} for @{ $egress->{denied} };
    is($egress->{denied_count}, $all, 'the result counts no more than it lists');
    my $sum = 0;
    $sum += $_->{count} for $b->audit('counted', task => $task->{task_id},
                                      reason => $reason);
    is($sum, $end->{counted}{$reason} // 0,
       "the counted lines of $reason add up to the line of the end");
    return ($sum, $end);
}

sub other_is_served () {
    is($other->get("$url/echo")->{status}, 200, 'another task is served');
}

sub begin ($l, $id, $path, $with = '') {
    $l->do(open => { id => $id, port => 8899 });
    $l->do(write => { id => $id,
        data => "GET $url$path HTTP/1.1\r\nHost: $to\r\n$with\r\n" });
}

sub answer ($l, $id) {
    my $got = '';
    until ($got =~ /\r\n\r\n/) {
        my $more = $l->do(read => { id => $id, timeout => 60 });
        last if $more->{data} eq '';
        $got .= $more->{data};
    }
    return $got =~ m{^HTTP/1\.1 (\d+)} ? $1 : 'none';
}

sub at_upstream ($path, $n) {
    AgentTest::wait_for("$n requests of $path at the upstream",
        sub { $n == grep { $_->{target} eq $path } $up->requests });
}

# The answer, if there is one, on a connection of this name
sub resume ($l, $task, $name) {
    $l->do(connect => { name => $name, path => $b->control });
    return $l->do(descriptors => { name => $name,
        message => { op => 'resume', v => 1, task_id => $task->{task_id},
                     lease => $task->{lease} },
        kinds => [map { { again => $_ } } 0 .. $#{ $task->{doors} }] })
        && $l->do(receive => { name => $name, timeout => 60 })->{message};
}

sub open_gate ($name) {
    my $run = $t->run(['curl', '-sS', '-k', "https://127.0.0.1:$port/open/$name"]);
    is($run->{status}, 0, "gate $name is open") or diag explain $run;
}


subtest 'G-002: a connection that becomes idle makes room for the next' => sub {
    my ($l, $task) = $b->task('plain');
    my $got = many($l, $task, 'http', '/slow?ms=300', 65);
    is_deeply($got->{statuses}, { 200 => 65 },
              '65 connections that stay open are all answered');
    $got = many($l, $task, 'http', '/slow?ms=20', 300);
    is_deeply($got->{statuses}, { 200 => 300 }, '300 are all answered');

    ($l, $task) = $b->task('few');
    begin($l, "k$_", "/gate/two") for 1 .. 4;
    at_upstream('/gate/two', 4);
    begin($l, 'k5', '/echo');
    open_gate('two');
    is(answer($l, 'k5'), 200, 'the fifth of four is answered');
    begin($l, 'k6', '/echo');
    is(answer($l, 'k6'), 200, 'an idle one is closed for the sixth');
    is(many($l, $task, 'h2', '/echo', 1, 2)->{statuses}{200}, 2,
       'a connection of HTTP/2 is let in too');
    begin($l, 'k7', '/echo');
    is(answer($l, 'k7'), 200, 'an idle one of HTTP/2 makes room in turn');
    other_is_served();
};

subtest 'G-002: a connection that sends nothing makes room for the next' => sub {
    my ($l, $task) = $b->task('few');
    $l->do(open => { id => "s$_", port => 8899 }) for 1 .. 4;
    begin($l, 's5', '/echo');
    is(answer($l, 's5'), 200, 'four that say nothing do not hold up a fifth');
};

subtest 'G-002: past the wait the answer is 429 connections' => sub {
    my ($l, $task) = $b->task('few');
    begin($l, "w$_", "/gate/three") for 1 .. 4;
    at_upstream('/gate/three', 4);
    my $got = many($l, $task, 'http', '/echo', 6);
    is_deeply([@$got{qw(statuses reasons retry_after)}],
              [{ 429 => 6 }, { connections => 6 }, 6],
              'six more are answered 429, with the reason and Retry-After')
        or diag explain $got;
    my $r = $l->get("$url/echo");
    is("$r->{status} " . $json->decode($r->{body})->{host},
       '429 api.internal', 'the body names the host');
    is_deeply([@{$r->{headers}{'x-agent-broker'}},
               $json->decode($r->{body})->{error}], [('denied') x 2],
              'it is denied, not failed');
    other_is_served();

    # a body that is not read does not cost the client its answer
    my $body = 'x' x 200_000;
    $r = $l->http("POST $url/echo HTTP/1.1\r\nHost: $to\r\nContent-Length: "
                  . length($body) . "\r\n\r\n$body");
    is($r->{status}, 429, 'a request with a body is answered 429 too');

    $l->do(open => { id => 'half', port => 8899 });
    $l->do(write => { id => 'half', data => 'GET http://api' });
    is(answer($l, 'half'), 429, 'half a request is answered 429 too');

    my $tls = $l->do(run => { timeout => 60, env => { PATH => $ENV{PATH} },
        argv => ['curl', '-sS', '-k', '--connect-to', '::127.0.0.1:',
                 "https://$to/echo"] });
    isnt($tls->{status}, 0, 'TLS at the web door is ended');
    like($tls->{err}, qr/alert/, 'the end is an alert');
    $tls = $l->do(run => { timeout => 60, env => { PATH => $ENV{PATH} },
        argv => ['curl', '-sS', '-k', '-x', 'http://127.0.0.1:8899',
                 "https://$to/echo"] });
    like($tls->{err}, qr/response 429/, 'a CONNECT is answered 429');

    open_gate('three');
    is(answer($l, "w$_"), 200, "request $_ was not disturbed") for 1 .. 4;
    is($l->get("$url/echo")->{status}, 200, 'others are served again');
    is($l->get('http://evil.example/')->{status}, 403,
       'none of it was a refusal');
    my ($sum, $end) = counted($l, $task, 'connections');
    is($sum, 11, 'all are counted, with the alert');
    is($end->{denied}, 12, 'the end counts them as denied');
};

subtest 'G-001: streams of HTTP/2 are requests in flight' => sub {
    my ($l, $task) = $b->task('plain');
    my $got = many($l, $task, 'h2', '/slow?ms=200', 6, 32);
    is($got->{streams_max}, 32, 'a connection is told of 32 streams');
    is_deeply($got->{statuses}, { 200 => 192 }, '192 streams are all served');
    $got = many($l, $task, 'h2', '/slow?ms=6000', 6, 32);
    is_deeply($got->{statuses}, { 200 => 64, 429 => 128 },
              'of so many that take long 64 are in flight');
    is(scalar(grep { $_->{target} eq '/slow?ms=6000' } $up->requests), 64,
       '64 have gone up');

    ($l, $task) = $b->task('few');
    begin($l, "h$_", '/gate/four') for 1 .. 2;
    at_upstream('/gate/four', 2);
    $l->do(open => { id => 'half', port => 8899 });
    $l->do(write => { id => 'half', data => 'GET http://api' });
    $got = many($l, $task, 'h2', '/slow?ms=4000', 1, 3);
    is_deeply([@$got{qw(statuses reasons)}],
              [{ 200 => 1, 429 => 2 }, { connections => 2 }],
              'two requests, half of one and three streams are six of four')
        or diag explain $got;
    other_is_served();
    open_gate('four');
    is(answer($l, "h$_"), 200, "request $_ was not disturbed") for 1 .. 2;
    my ($sum) = counted($l, $task, 'connections');
    is($sum, 2, 'the refused streams are counted');
};

subtest 'G-011: a task has so many requests a second' => sub {
    my ($l, $task) = $b->task('rated');
    my $got = many($l, $task, 'http', '/echo', 12);
    # four, and the fourth of those that wait has its turn as the wait is over
    cmp_ok($got->{statuses}{200}, '>=', 7, 'the burst, and two a second');
    is($got->{statuses}{200} + $got->{statuses}{429}, 12,
       'the others are answered 429');
    is($got->{reasons}{rate}, $got->{statuses}{429}, 'those have the reason');
    is($got->{retry_after}, $got->{statuses}{429}, 'those have Retry-After');
    other_is_served();
    my $h2 = many($l, $task, 'h2', '/echo', 1, 20);
    is($h2->{statuses}{200} + $h2->{statuses}{429}, 20,
       'streams of HTTP/2 are answered as well');
    is($h2->{reasons}{rate}, $h2->{statuses}{429}, 'for the same reason');
    cmp_ok($h2->{statuses}{429}, '>', 0, 'some of them are too many');
    $l->do(open => { id => 'p', port => 8899 });
    my $pipe = "GET $url/echo HTTP/1.1\r\nHost: $to\r\n\r\n" x 10;
    $l->do(write => { id => 'p', data => $pipe });
    my ($all, $answers) = ('', 0);
    while ($answers < 10 && $all !~ / 429 /) {
        my $more = $l->do(read => { id => 'p', timeout => 60 });
        last if $more->{data} eq '';
        $all .= $more->{data};
        $answers = () = $all =~ /^HTTP\/1.1 200/mg;
    }
    like($all, qr/ 200 /, 'requests in one write are served in turn');
    is($l->get('http://evil.example/')->{status}, 403,
       'none of it was a refusal');
    my ($sum, $end) = counted($l, $task, 'rate');
    cmp_ok($sum, '>=', $got->{statuses}{429} + $h2->{statuses}{429},
           'all are counted');
    is($end->{denied}, $sum + 1, 'the end counts them as denied');
};

subtest 'G-011: a task begins so many handshakes a second' => sub {
    my ($l, $task) = $b->task('shaken');
    my $shake = <<'END';
import socket, ssl, sys
done = alerts = other = 0
c = ssl.create_default_context()
c.check_hostname, c.verify_mode = False, ssl.CERT_NONE
socks = [socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60)
         for _ in range(14)]
for s in socks:                        # all hellos are there at once
    i, o = ssl.MemoryBIO(), ssl.MemoryBIO()
    t = c.wrap_bio(i, o, server_hostname="api.internal")
    try:
        t.do_handshake()
    except ssl.SSLWantReadError:
        pass
    s.sendall(o.read())
for s in socks:
    first = s.recv(7, socket.MSG_WAITALL)
    done += first[:1] == b"\x16"
    alerts += first == b"\x15\x03\x03\x00\x02\x02\x31"
    s.close()
print(done, alerts)
END
    my $run = $l->do(run => { timeout => 60, argv => ['/usr/bin/python3',
        '-c', $shake, "$port"] });
    my ($done, $alerts) = split ' ', $run->{data} or diag $run->{err};
    cmp_ok($done, '>=', 5,
           'those of a second, and of the two that others wait, have TLS');
    is($done + $alerts, 14, 'each of 14 has TLS or an alert');
    cmp_ok($alerts, '>', 0, 'control: some are past the rate and get an alert');
    other_is_served();
    my ($sum) = counted($l, $task, 'handshakes');
    is($sum, $alerts, 'the alerts are counted as handshakes');
};

subtest 'G-002: over a reload and a killed worker the bound is one' => sub {
    my ($l, $task) = $b->task('few');
    begin($l, "r$_", '/gate/five') for 1 .. 4;
    at_upstream('/gate/five', 4);
    my ($old) = $b->workers;
    $b->reload;
    is($l->do(receive => { name => 'task', timeout => 60 })->{message}{event},
       'drain', 'the launcher is told to resume');
    ok(resume($l, $task, 'new')->{ok}, 'it resumes on the new worker');
    is($l->get("$url/echo")->{status}, 429,
       'the old worker has all four, so a fifth is too many on the new one');
    begin($l, 'r5', '/echo');
    open_gate('five');
    is(answer($l, 'r5'), 200, 'what ends on the old one makes room there');
    is(answer($l, "r$_"), 200, "request $_ was served by the old one")
        for 1 .. 4;
    AgentTest::wait_for('the old worker to end', sub { !kill 0, $old });

    begin($l, "d$_", '/gate/six') for 1 .. 4;
    at_upstream('/gate/six', 4);
    kill KILL => $b->workers;
    AgentTest::wait_for('the launcher to see its worker die', sub {
        $l->do(receive => { name => 'new', timeout => 60 })->{eof} });
    AgentTest::wait_for('the task to be resumed', sub {
        (resume($l, $task, 'again') // {})->{ok} });
    is($l->get("$url/echo")->{status}, 200,
       'what a killed worker had is not counted any more');
    open_gate('six');
};

subtest 'G-002: each of a dozen workers is told apart, also when it is killed'
    => sub {
    my ($l, $task) = $b->task('twelve');
    my $at = 'task';
    for my $i (1 .. 11) {
        begin($l, "w$i", "/gate/worker$i");
        at_upstream("/gate/worker$i", 1);
        $b->reload;
        is($l->do(receive => { name => $at, timeout => 60 })->{message}{event},
           'drain', "worker $i leaves, with a request");
        $at = "at$i";
        ok(resume($l, $task, $at)->{ok}, 'the next one has the task');
    }
    begin($l, 'w12', '/gate/worker12');
    at_upstream('/gate/worker12', 1);
    is($l->get("$url/echo")->{status}, 429, 'twelve are all that it may have');

    kill KILL => $b->leaving;
    AgentTest::wait_for('them to end', sub { !$b->leaving });
    begin($l, "n$_", '/gate/nine') for 1 .. 11;
    at_upstream('/gate/nine', 11);
    pass('what eleven killed workers had is free again');
    open_gate($_) for 'nine', map { "worker$_" } 1 .. 12;
    is(answer($l, 'w12'), 200, 'what the last one had was not disturbed');
};

for my $wrong ('', '0r/s', '10', '10r/m', '10r/s burst=0', '10r/s 5',
               'burst=5', '100001r/s', '10r/s burst=1000001', '10r/s; rate 5r/s',
               '10r/s burst=1 nodelay') {
    my ($fits, $said) = $t->nginx_t(policy => "rate $wrong;");
    ok(!$fits && $said =~ /"rate".* in \S+:\d+/,
       "`rate $wrong` is refused, with the line of the configuration")
           or diag $said;
}

for my $right ('1r/s', '200r/s burst=400', '100000r/s burst=1') {
    my ($fits, $said) = $t->nginx_t(policy => "rate $right;");
    ok($fits, "`rate $right` is taken") or diag $said;
}

$b->is_clean(ignore => qr/exited on signal 9/);

done_testing;
