#!/usr/bin/perl

# Upstreams in trouble, and clients that are slow: each ends within a limit,
# the box gets an answer with the reason, and the audit has it.
#
# sanitizers: connections end at every moment

use v5.36;

use lib 't/lib';
use AgentTest;
use Compress::Zlib ();
use IO::Socket::INET;
use JSON::PP ();
use Test::More;
use Time::HiRes qw(time);

my $t = AgentTest->new;
my $up = $t->spawn(['/usr/bin/python3', "$AgentTest::LIB/failing_upstream.py"],
                   pipes => 1);
chomp(my $port = readline($up->{out}) // die "no upstream\n");
my $dns = $t->dns({ 'trouble.internal' => { A => ['127.0.0.1'] },
                    'gone.internal' => { A => ['127.0.0.2'] },
                    'deaf.internal' => { A => [map { "127.0.1.$_" } 1 .. 3] },
                    'mute.internal' => { A => ['127.0.1.4'] },
                    map({ $_ => { A => ['127.0.0.1'] } }
                        qw(first.internal second.internal)),
                    'dead.internal' => { A => ['127.0.0.2', '127.0.0.1'] } });

# one that keeps its connections, and tells of their ends
my $keeps = $t->upstream(plain => 1, keep => 0);

# three whose queues are full, so that no SYN is answered, one port for HTTP and
# one for a tunnel; and one that takes connections and reads nothing

sub queue ($address, $port = 0) {
    return IO::Socket::INET->new(LocalAddr => $address, LocalPort => $port,
                                 Listen => 1, ReuseAddr => 1) // die "$!\n";
}

my @queues = queue('127.0.1.1');
my $deaf = $queues[0]->sockport;
push @queues, map { queue("127.0.1.$_", $deaf) } 2 .. 4;
push @queues, map { queue("127.0.1.$_", $port) } 1 .. 3;
my @waiting;
for my $queue (@queues[0 .. 2, 4 .. 6]) {
    push @waiting, map {
        IO::Socket::INET->new(PeerAddr => $queue->sockhost, Blocking => 0,
                              PeerPort => $queue->sockport) } 1 .. 4;
}

# the shipped limits, but shorter
my $proxy = $t->read("$AgentTest::ROOT/conf/agent_proxy.conf");
my %limit = (proxy_connect_timeout => '2s', proxy_send_timeout => '1s',
             proxy_read_timeout => '1s');
for my $name (sort keys %limit) {
    ok($proxy =~ s/\b$name(\s+)\w+;/$name$1$limit{$name};/,
       "control: agent_proxy.conf sets $name");
}
my $conf = $t->write('proxy.conf', $proxy);

my $here = 'plaintext on; private 127.0.0.0/8;';
my $b = $t->broker(dns => $dns, proxy => $conf,
                   http => <<'HTTP', policy => <<"END");
    client_header_timeout 1s;
    client_body_timeout 1s;
    send_timeout 1s;
HTTP
    agent_policy analysis {
        requests 1000000;
        audit_budget 1000000 1g;
        host trouble.internal:$port { methods GET POST; $here }
        host first.internal:@{[$keeps->port]}  { $here }
        host second.internal:@{[$keeps->port]} { $here }
        host gone.internal:$port    { $here }
        bytes_up 1g;
        host deaf.internal:$deaf    { $here }
        host deaf.internal:$port    { tunnel on; private 127.0.0.0/8; }
        host mute.internal:$deaf    { private 127.0.0.0/8; }
        host dead.internal:$port    { $here }
    }
END

my ($l, $task) = $b->task;
my $url = "http://trouble.internal:$port";

my $ends = 0;

# the answer, and the line of its end
sub asked ($path, %opt) {
    my $r = $l->get("$url/$path", %opt);
    $ends++;
    AgentTest::wait_for('its end', sub { $b->audit('egress_end') >= $ends });
    return ($r, ($b->audit('egress_end'))[-1]);
}


# A connection that is kept for the next request waits for 4 seconds, each
# from its own last answer; the rest of this file is done meanwhile

my %kept;

sub keep ($host) {
    $kept{$host} = time;
    my $r = $l->get("http://$host.internal:@{[$keeps->port]}/keep");
    is($r->{status}, 200, "control: a request is answered by the host $host");
    $ends++;
    return;
}

sub closed { return map { $_->{conn} } $keeps->events('close') }

keep('first');


# The answer to a box: the same kind of object as for a refusal

my $json = JSON::PP->new;

sub told ($r, $reason, $what, $outcome = 'failed') {
    is_deeply($r->{headers}{'x-agent-broker'}, [$outcome],
              "$what: a header says that it is $outcome");
    is_deeply($r->{headers}{'content-type'}, ['application/json'],
              "$what: the body is a JSON object");
    my $body = eval { $json->decode($r->{body}) } // {};
    is("$body->{error} $body->{reason}", "$outcome $reason",
       "$what: the body has the reason $reason") or diag $r->{raw};
    is($body->{task}, $task->{task_id}, "$what: the body has the task");
    like($body->{hint}, qr/\w/, "$what: the body has a hint");
    return $body;
}


# E-016: what does not go on is given up

for my $case (['silent', 'an upstream that answers nothing'],
              ['drip', 'an upstream whose head comes byte by byte'],
              ['deaf', 'an upstream that reads no body', method => 'POST',
               body => 'x' x 8_000_000])
{
    my ($path, $what, @how) = @$case;
    subtest "E-016 $what is given up" => sub {
        my ($r, $end) = asked($path, @how);
        is($r->{status}, 504, 'the box is answered 504');
        is("$end->{status} $end->{failure}", '504 upstream_timeout',
           'the line of the end has the failure upstream_timeout');
        my $body = told($r, 'upstream_timeout', $what);
        is("$body->{host} $body->{path}", "trouble.internal /$path",
           'the body has the host and the path');
    };
}

subtest 'G-020 G-025: all of a host\'s addresses share one time of dialling' => sub {
    my $r = $l->get("http://deaf.internal:$deaf/x");
    $ends++;
    is($r->{status}, 504, 'three addresses that answer no SYN: 504');
    my $body = told($r, 'upstream_timeout', 'three addresses');
    is($body->{detail}, 'the connection took too long',
       'the body says what took too long');
    my $end = $b->audit_wait('egress_end', host => 'deaf.internal');
    is("$end->{failure} $end->{detail}",
       'upstream_timeout the connection took too long',
       'the line of the end says it too');
    my %tried = map { $_ => 1 }
        $b->error_log =~ m{upstream: "https?://(127\.0\.1\.\d):}g;
    is(keys %tried, 3, 'each was tried');
    cmp_ok($end->{duration_ms}, '<', 10_000,
           'three addresses take less than twice the time of one');

    $r = $l->get("http://mute.internal:$deaf/x");
    $ends++;
    is($r->{status}, 504, 'one that ends no TLS handshake: 504');
    is(told($r, 'upstream_timeout', 'no handshake')->{detail},
       'the TLS handshake took too long', 'the body says what took too long');

    $l->do(run => { argv => ['curl', '-sS', '--max-time', '30', '-x',
        'http://127.0.0.1:8899', "https://deaf.internal:$port/"],
        env => { PATH => $ENV{PATH} }, timeout => 40 });
    $ends++;
    $end = $b->audit_wait('egress_end', host => 'deaf.internal',
                          failure => 'upstream_timeout', status => 0);
    is($end->{detail}, 'the connection took too long',
       'a tunnel to them ends with the same reason');
};

subtest 'an answer that is reset, or whose chunks are wrong, is cut' => sub {
    for my $case (['torn', 'answer_cut'], ['unchunked', 'bad_answer'],
                  ['unchunked/1', 'bad_answer'], ['unchunked/lf', 'bad_answer'])
    {
        my ($path, $failure) = @$case;
        my ($r, $end) = asked($path);
        is($r->{status}, 200, "$path: the box has its beginning");
        like($r->{body}, qr/beginning/, "$path: with what came of the body")
            if $path ne 'unchunked/1';
        unlike($r->{raw}, qr/\r\n0\r\n\r\n\z/, "$path: without an end");
        ok($r->{eof}, "$path: the connection of the box is closed");
        is("$end->{status} $end->{failure}", "200 $failure",
           "$path: the line of the end has $failure");
    }
};

subtest 'E-016 an answer that stops, or is cut short, is cut for the box' => sub {
    my ($r, $end) = asked('stop');
    is("$r->{status} $r->{body}", '200 beginning',
       'an answer that stops: the box has what came of it');
    ok($r->{eof}, 'an answer that stops: the connection of the box is closed');
    is("$end->{status} $end->{failure}", '200 upstream_timeout',
       'an answer that stops: the line of the end has upstream_timeout');

    ($r, $end) = asked('short');
    is("$r->{status} $r->{body}", '200 beginning',
       'an answer that is cut: the box has what came of it');
    ok($r->{eof}, 'an answer that is cut: the connection of the box is closed');
    is("$end->{status} $end->{failure}", '200 answer_cut',
       'an answer that is cut: the line of the end has answer_cut');

    ($r, $end) = asked('quick');
    is("$r->{status} $r->{body}", '200 quick',
       'control: an answer that is complete arrives');
    ok(!exists $end->{failure},
       'control: the end of an answer that is complete has no failure');
};


subtest 'a failure of an upstream cannot be taken for an answer of it' => sub {
    my ($r, $end) = asked('gone');
    is($r->{status}, 502,
       'an upstream that ends the connection without an answer: 502');
    told($r, 'no_answer', 'without an answer');
    is($end->{failure}, 'no_answer', 'its line has the failure no_answer');

    $r = $l->get("http://gone.internal:$port/x");
    $ends++;
    is($r->{status}, 502, 'an upstream that refuses the connection: 502');
    is(told($r, 'upstream_unreachable', 'no connection')->{host},
       'gone.internal', 'the body of that 502 has the host');
    is($b->audit_wait('egress_end', host => 'gone.internal')->{failure},
       'upstream_unreachable',
       'its line has the failure upstream_unreachable');

    $r = $l->get("http://gone.internal:$port/x", method => 'HEAD');
    $ends++;
    is("$r->{status} [" . ($r->{body} // '') . ']', '502 []',
       'HEAD is answered 502 without a body');
    is_deeply($r->{headers}{'x-agent-broker'}, ['failed'],
              'HEAD is answered with the header of the broker');

    # one whose request has not come whole does not, and says so

    $r = $l->http("POST $url/gone HTTP/1.1\r\nHost: trouble.internal:$port\r\n"
                  . "Content-Length: 99999\r\n\r\nbeginning");
    $ends++;
    told($r, 'no_answer', 'in the middle of a body');
    is_deeply($r->{headers}{connection}, ['close'],
              'a failure in the middle of a request\'s body closes the '
              . 'connection');

    # a kept connection goes on after it

    $l->do(open => { id => 'g', port => 8899 });
    for my $i (1, 2) {
        $l->do(write => { id => 'g', data => "GET http://gone.internal:$port/$i"
            . " HTTP/1.1\r\nHost: gone.internal:$port\r\n\r\n" });
        my $text = '';
        AgentTest::wait_for("answer $i", sub {
            my $got = $l->do(read => { id => 'g', timeout => 60 });
            $text .= $got->{data} // '';
            return $text =~ /\}\n\z/ || $got->{eof} || $got->{error} });
        like($text, qr{\AHTTP/1\.1 502 .*"path":"/$i".*\}\n\z}s,
             "request $i of one connection is answered with the failure");
        $ends++;
    }
    $l->do(shut => { id => 'g' });

    for my $status (500, 502, 504) {
        ($r, $end) = asked("own/$status");
        is("$r->{status} $r->{body}", "$status my page",
           "an upstream's own $status is passed on as it is");
        is_deeply([$r->{headers}{'x-own'}, $r->{headers}{'x-agent-broker'}],
                  [['yes'], undef],
                  "an upstream's own $status does not pass for the broker's");
        ok(!exists $end->{failure},
           "an upstream's own $status is not recorded as a failure");
    }

    $r = $l->http("POST $url/quick HTTP/1.1\r\nHost: trouble.internal:$port"
                  . "\r\nContent-Length: 99999999\r\n\r\n");
    is($r->{status}, 413, 'a body that is too large is answered 413');
    told($r, 'body_too_large', 'a body that is too large', 'denied');
    $r = $l->http("GET\r\n\r\n");
    is($r->{status}, 400, 'bytes that are not a request are answered 400');
    told($r, 'malformed', 'bytes that are not a request', 'denied');

    # what nginx does not know is not a fault of the broker

    for my $case ([501, "HTTP/1.1\r\nTransfer-Encoding: gzip"],
                  [505, 'HTTP/3.0'])
    {
        my ($status, $line) = @$case;
        $r = $l->http("POST $url/quick $line\r\n"
                      . "Host: trouble.internal:$port\r\n\r\n");
        is($r->{status}, $status,
           "what nginx does not know is answered $status");
        told($r, 'malformed', $status, 'denied');
        is($b->audit_wait('door_error', status => $status)->{reason},
           'malformed', "the line of the $status has the reason malformed");
    }
};


# E-017: one side ends before the other

subtest 'E-017 an upstream that ends its side first loses nothing' => sub {
    my ($r, $end) = asked('fin');
    like($r->{body}, qr/half/, 'all that the upstream sent has come');
    ok(!exists $end->{failure}, 'its line has no failure');

    my ($worker) = $b->workers;
    my $fds = sub { my @fds = glob "/proc/$worker/fd/*"; scalar @fds };
    asked('fin') for 1 .. 3;
    my $had = $fds->();
    asked('fin') for 1 .. 100;
    AgentTest::wait_for('the descriptors to be closed', sub {
        $fds->() <= $had });
    cmp_ok($fds->(), '<=', $had,
           'no descriptor is left of a hundred such answers');
};


# E-019: every request of a kept connection is answered

subtest 'E-019 every request of a kept connection is answered' => sub {
    $l->do(open => { id => 'k', port => 8899 });
    my $answered = 0;
    for my $i (1 .. 100) {
        $l->do(write => { id => 'k', data => "GET $url/quick HTTP/1.1\r\n"
            . "Host: trouble.internal:$port\r\n\r\n" });
        my $text = '';
        AgentTest::wait_for("answer $i", sub {
            my $got = $l->do(read => { id => 'k', timeout => 60 });
            $text .= $got->{data} // '';
            return $text =~ /quick\z/ || $got->{eof} || $got->{error} });
        $answered++ if $text =~ m{\AHTTP/1\.1 200 .*\r\n\r\nquick\z}s;
    }
    is($answered, 100,
       'a hundred requests of one connection have a hundred answers');
    $l->do(shut => { id => 'k' });
    AgentTest::wait_for('their ends', sub {
        $b->audit('egress_end') >= $ends + 100 });
    $ends = $b->audit('egress_end');
};


keep('second');
is($keeps->connections, 2,
   'each host has a connection of its own that is kept');


# E-022: a body is passed as it is, whatever it is said to be

subtest 'E-022 a coded body is passed on as it is' => sub {
    my $plain = 'the same bytes, again and again ' x 64;
    for my $how (qw(gzip deflate br zstd identity wrong)) {
        my ($r, $end) = asked("coded/$how",
                                     headers => ["Accept-Encoding: $how"]);
        is($r->{headers}{'content-encoding'}[0], $how,
           "the coding $how is said as the upstream said it");
        is(length $r->{body}, $r->{headers}{'content-length'}[0],
           "a body in $how has the length that the upstream said");
        my $got = $how eq 'gzip' ? uncompressed($r->{body})
                : $how eq 'deflate' ? Compress::Zlib::uncompress($r->{body})
                : $r->{body} =~ s/\A\0\xff//r;
        is($got, $plain, "a body in $how is passed on byte by byte");
    }
};

sub uncompressed ($body) { return Compress::Zlib::memGunzip($body) }


# E-028: an address that does not answer is not the end

# nginx begins with any of them, and no connection of these is kept: among so
# many some begin with the dead one

subtest 'E-028 of two addresses the one that lives is found' => sub {
    for my $i (1 .. 16) {
        my $r = $l->get("http://dead.internal:$port/fin");
        is($r->{status}, 200,
           "request $i is answered by the address that lives");
        like($r->{body}, qr/half/, "request $i has its body");
        $ends++;
    }
    AgentTest::wait_for('the ends', sub { $b->audit('egress_end') >= $ends });
    like($b->error_log, qr/connect\(\) failed .*127\.0\.0\.2:$port/,
         'control: the dead address was tried');
};


# E-029: slow clients are closed, and cost others nothing

subtest 'E-029 twenty slow clients are closed, and others are served '
    . 'meanwhile'
    => sub {
    my $errors = $b->audit('door_error');
    $l->do(open => { id => "slow$_", port => 8899 }) for 1 .. 20;
    my %open = map { $_ => 1 } 1 .. 20;
    my $others = 0;
    AgentTest::wait_for('the slow ones to be closed', sub {
        for my $i (keys %open) {
            my $did = $l->do(write => { id => "slow$i", data => 'G' });
            my $got = $l->do(read => { id => "slow$i", timeout => 0.001 });
            delete $open{$i} if $did->{error} || $got->{eof} || $got->{error};
        }
        $others++ if $l->get("$url/quick")->{status} == 200;
        return !keys %open;
    });
    cmp_ok($others, '>', 1,
           'requests of others are served while they are open');
    AgentTest::wait_for('the errors', sub {
        $b->audit('door_error') >= $errors + 20 });
    is(scalar $b->audit('door_error'), $errors + 20,
       'each of them has a line');
};

# the two that were kept: how long they waited is known from their ends

subtest 'a connection is kept for 4 seconds after its own last answer' => sub {
    my ($one) = map { $_->{conn} } $keeps->events('accept');
    AgentTest::wait_for('the first to be closed', sub { closed() }, 90);
    my $took = time - $kept{first};
    is((closed())[0], $one,
       'the connection that has waited longer is closed first');
    cmp_ok($took, '>=', 4,
           'the first connection is closed 4 seconds after its answer, or '
           . 'later');

    AgentTest::wait_for('the second to be closed',
                        sub { scalar(() = closed()) == 2 }, 90);
    cmp_ok(time - $kept{second}, '>=', 4,
           'the second connection is closed 4 seconds after its own, or '
           . 'later');

    is($l->get("http://first.internal:@{[$keeps->port]}/new")->{status}, 200,
       'the next request after the close is served');
    is($keeps->connections, 3,
       'the next request after the close has a new connection');
};

$b->stop;
$b->is_clean(level => qr/alert|emerg/);

done_testing;
