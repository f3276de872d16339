#!/usr/bin/perl

# Upstreams in trouble, and clients that are slow: each ends within a limit,
# the box is told what it was, and the audit says so.
#
# sanitizers: connections end at every moment

use v5.36;

use lib 't/lib';
use AgentTest;
use Compress::Zlib ();
use JSON::PP ();
use Test::More;
use Time::HiRes qw(time);

my $t = AgentTest->new;
my $up = $t->spawn(['/usr/bin/python3', "$AgentTest::LIB/trouble.py"],
                   pipes => 1);
chomp(my $port = readline($up->{out}) // die "no upstream\n");
my $dns = $t->dns({ 'trouble.internal' => { A => ['127.0.0.1'] },
                    'gone.internal' => { A => ['127.0.0.2'] },
                    map({ $_ => { A => ['127.0.0.1'] } }
                        qw(first.internal second.internal)),
                    'dead.internal' => { A => ['127.0.0.2', '127.0.0.1'] } });

# one that keeps its connections, and tells of their ends
my $keeps = $t->upstream(plain => 1);

# the shipped limits, but shorter
my $proxy = $t->read("$AgentTest::ROOT/conf/agent_proxy.conf");
my %limit = (proxy_connect_timeout => '1s', proxy_send_timeout => '1s',
             proxy_read_timeout => '1s');
for my $name (sort keys %limit) {
    ok($proxy =~ s/\b$name(\s+)\w+;/$name$1$limit{$name};/, "$name is there");
}
my $conf = $t->write('proxy.conf', $proxy);

my $b = $t->broker(http => <<"END");
    resolver 127.0.0.1:$dns->{port};
    agent_audit logs/agent-audit.log;
    client_header_timeout 1s;
    client_body_timeout 1s;
    send_timeout 1s;
    agent_policy analysis {
        requests 1000000;
        audit_budget 1000000 1g;
        host trouble.internal:$port { methods GET POST; plaintext on;
                                      private 127.0.0.0/8; }
        host first.internal:@{[$keeps->port]} {
            plaintext on; private 127.0.0.0/8;
        }
        host second.internal:@{[$keeps->port]} {
            plaintext on; private 127.0.0.0/8;
        }
        host gone.internal:$port    { plaintext on; private 127.0.0.0/8; }
        host dead.internal:$port    { plaintext on; private 127.0.0.0/8; }
    }
    server {
        agent_control unix:%CONTROL%;
        include $conf;
    }
END

my $l = $t->launcher;
my $task = $l->open_task($b->control, 'analysis');
ok($task->{ok}, 'a task is opened') or diag explain $task;
my $url = "http://trouble.internal:$port";

my $ends = 0;

# the answer, how long it took, and the line of its end
sub asked ($path, %opt) {
    my $begin = time;
    my $r = $l->get("$url/$path", timeout => 20, %opt);
    my $took = time - $begin;
    $ends++;
    AgentTest::wait_for('its end', sub { $b->audit('egress_end') >= $ends });
    return ($r, $took, ($b->audit('egress_end'))[-1]);
}


# A connection that is kept for the next request waits for 15 seconds, each
# from its own last answer; the rest of this file is done meanwhile

my %kept;

sub keep ($host) {
    $kept{$host} = time;
    my $r = $l->get("http://$host.internal:@{[$keeps->port]}/keep");
    is($r->{status}, 200, "a connection of $host is kept");
    $ends++;
    return;
}

sub closed { return map { $_->{conn} } $keeps->events('close') }

keep('first');


# What a box is told of a failure: the object that a refusal has too

my $json = JSON::PP->new;

sub told ($r, $reason, $what) {
    is_deeply($r->{headers}{'x-agent-broker'}, ['failed'],
              "$what: the broker says that it is its own");
    is_deeply($r->{headers}{'content-type'}, ['application/json'],
              "$what: as an object");
    my $body = eval { $json->decode($r->{body}) } // {};
    is("$body->{error} $body->{reason}", "failed $reason",
       "$what: with the reason") or diag $r->{raw};
    is($body->{task}, $task->{task_id}, "$what: of the task");
    like($body->{hint}, qr/\w/, "$what: and what to do");
    return $body;
}


# E-016: what does not go on is given up

for my $case (['silent', 'nothing is answered'],
              ['drip', 'a head comes byte by byte'],
              ['deaf', 'a body is not read', method => 'POST',
               body => 'x' x 8_000_000])
{
    my ($path, $what, @how) = @$case;
    my ($r, $took, $end) = asked($path, @how);
    is($r->{status}, 504, "E-016 $what: 504");
    cmp_ok($took, '<', 15, 'long before it would end by itself');
    is("$end->{status} $end->{failure}", '504 upstream_timeout',
       'as the audit says');
    my $body = told($r, 'upstream_timeout', $what);
    is("$body->{host} $body->{path}", "trouble.internal /$path",
       'and which request it was');
}

{
    my ($r, $took, $end) = asked('stop');
    is("$r->{status} $r->{body}", '200 beginning',
       'E-016 an answer that stops: what came of it');
    ok($r->{eof}, 'and no end');
    cmp_ok($took, '<', 15, 'it is given up');
    is("$end->{status} $end->{failure}", '200 upstream_timeout',
       'as the audit says');

    ($r, $took, $end) = asked('short');
    is("$r->{status} $r->{body}", '200 beginning', 'one that is cut short');
    ok($r->{eof}, 'is cut for the box');
    is("$end->{status} $end->{failure}", '200 answer_cut', 'and in the audit');

    ($r, $took, $end) = asked('quick');
    is("$r->{status} $r->{body}", '200 quick', 'control: one that is whole');
    ok(!exists $end->{failure}, 'has no failure');
}


{
    my ($r, $took, $end) = asked('gone');
    is($r->{status}, 502, 'a connection that ends without an answer: 502');
    told($r, 'no_answer', 'without an answer');
    is($end->{failure}, 'no_answer', 'and the audit has the same word');

    $r = $l->get("http://gone.internal:$port/x", timeout => 20);
    $ends++;
    is($r->{status}, 502, 'no connection: 502');
    is(told($r, 'upstream_unreachable', 'no connection')->{host},
       'gone.internal', 'and which host it was');
    is($b->audit_wait('egress_end', host => 'gone.internal')->{failure},
       'upstream_unreachable', 'and the audit has the same word');

    $r = $l->get("http://gone.internal:$port/x", method => 'HEAD',
                 timeout => 20);
    $ends++;
    is("$r->{status} [" . ($r->{body} // '') . ']', '502 []',
       'HEAD is told by status and header alone');
    is_deeply($r->{headers}{'x-agent-broker'}, ['failed'], 'as the broker\'s');

    # one whose request has not come whole does not, and says so

    $r = $l->http("POST $url/gone HTTP/1.1\r\nHost: trouble.internal:$port\r\n"
                  . "Content-Length: 99999\r\n\r\nbeginning");
    $ends++;
    told($r, 'no_answer', 'in the middle of a body');
    is_deeply($r->{headers}{connection}, ['close'], 'which says that it ends');

    # a kept connection goes on after it

    $l->do(open => { id => 'g', port => 8899 });
    for my $i (1, 2) {
        $l->do(write => { id => 'g', data => "GET http://gone.internal:$port/$i"
            . " HTTP/1.1\r\nHost: gone.internal:$port\r\n\r\n" });
        my $text = '';
        AgentTest::wait_for("answer $i", sub {
            my $got = $l->do(read => { id => 'g', timeout => 5 });
            $text .= $got->{data} // '';
            return $text =~ /\}\n\z/ || $got->{eof} || $got->{error} });
        like($text, qr{\AHTTP/1\.1 502 .*"path":"/$i".*\}\n\z}s,
             "request $i of one connection is answered");
        $ends++;
    }
    $l->do(shut => { id => 'g' });

    for my $status (500, 502, 504) {
        ($r, $took, $end) = asked("own/$status");
        is("$r->{status} $r->{body}", "$status my page",
           "an upstream's own $status passes as it is");
        is_deeply([$r->{headers}{'x-own'}, $r->{headers}{'x-agent-broker'}],
                  [['yes'], undef], 'and cannot be taken for the broker\'s');
        ok(!exists $end->{failure}, 'nor is it a failure');
    }

    $r = $l->http("POST $url/quick HTTP/1.1\r\nHost: trouble.internal:$port"
                  . "\r\nContent-Length: 99999999\r\n\r\n");
    is($r->{status}, 413, 'a body that is too large: 413');
    told($r, 'body_too_large', 'a body that is too large');
    $r = $l->http("GET\r\n\r\n");
    is($r->{status}, 400, 'what is no request: 400');
    told($r, 'malformed', 'what is no request');

    # what core does not know is no fault of the broker's

    for my $case ([501, "HTTP/1.1\r\nTransfer-Encoding: gzip"],
                  [505, 'HTTP/3.0'])
    {
        my ($status, $line) = @$case;
        $r = $l->http("POST $url/quick $line\r\n"
                      . "Host: trouble.internal:$port\r\n\r\n");
        is($r->{status}, $status, "what nginx does not know: $status");
        told($r, 'malformed', $status);
        is($b->audit_wait('door_error', status => $status)->{reason},
           'malformed', 'and the audit has the same word');
    }
}


# E-017: one side ends before the other

{
    my ($r, $took, $end) = asked('fin');
    like($r->{body}, qr/half/, 'E-017 the upstream ends first: all has come');
    ok(!exists $end->{failure}, 'which is no failure');

    my ($worker) = $b->workers;
    my $fds = sub { my @fds = glob "/proc/$worker/fd/*"; scalar @fds };
    asked('fin') for 1 .. 3;
    my $had = $fds->();
    asked('fin') for 1 .. 100;
    AgentTest::wait_for('the descriptors to be closed', sub {
        $fds->() <= $had });
    cmp_ok($fds->(), '<=', $had, 'and nothing is left of a hundred');
}


# E-019: every request of a kept connection is answered

{
    $l->do(open => { id => 'k', port => 8899 });
    my $answered = 0;
    for my $i (1 .. 100) {
        $l->do(write => { id => 'k', data => "GET $url/quick HTTP/1.1\r\n"
            . "Host: trouble.internal:$port\r\n\r\n" });
        my $text = '';
        AgentTest::wait_for("answer $i", sub {
            my $got = $l->do(read => { id => 'k', timeout => 5 });
            $text .= $got->{data} // '';
            return $text =~ /quick\z/ || $got->{eof} || $got->{error} });
        $answered++ if $text =~ m{\AHTTP/1\.1 200 .*\r\n\r\nquick\z}s;
    }
    is($answered, 100, 'E-019 a hundred requests of one connection');
    $l->do(shut => { id => 'k' });
    AgentTest::wait_for('their ends', sub {
        $b->audit('egress_end') >= $ends + 100 });
    $ends = $b->audit('egress_end');
}


keep('second');
is($keeps->connections, 2, 'each host has its own');


# E-022: a body is passed as it is, whatever it is said to be

{
    my $plain = 'the same bytes, again and again ' x 64;
    for my $how (qw(gzip deflate br zstd identity wrong)) {
        my ($r, undef, $end) = asked("coded/$how",
                                     headers => ["Accept-Encoding: $how"]);
        is($r->{headers}{'content-encoding'}[0], $how, "E-022 $how is kept");
        is(length $r->{body}, $r->{headers}{'content-length'}[0], 'all of it');
        my $got = $how eq 'gzip' ? uncompressed($r->{body})
                : $how eq 'deflate' ? Compress::Zlib::uncompress($r->{body})
                : $r->{body} =~ s/\A\0\xff//r;
        is($got, $plain, 'byte by byte');
    }
}

sub uncompressed ($body) { return Compress::Zlib::memGunzip($body) }


# E-028: an address that does not answer is not the end

# nginx begins with any of them, and no connection of these is kept: among so
# many some begin with the dead one

for (1 .. 16) {
    my $r = $l->get("http://dead.internal:$port/fin", timeout => 20);
    is($r->{status}, 200, 'E-028 the address that lives is found');
    like($r->{body}, qr/half/, 'and answers');
    $ends++;
}
AgentTest::wait_for('the ends', sub { $b->audit('egress_end') >= $ends });
like($b->error_log, qr/connect\(\) failed .*127\.0\.0\.2:$port/,
     'the dead one was tried');


# E-029: slow clients are closed, and cost others nothing

{
    my $errors = $b->audit('door_error');
    $l->do(open => { id => "slow$_", port => 8899 }) for 1 .. 20;
    my $begin = time;
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
    cmp_ok($others, '>', 1, 'E-029 others are served all the while');
    AgentTest::wait_for('the errors', sub {
        $b->audit('door_error') >= $errors + 20 });
    is(scalar $b->audit('door_error'), $errors + 20, 'each is on record');
}

# the two that were kept: how long they waited is known from their ends

{
    my ($one) = map { $_->{conn} } $keeps->events('accept');
    AgentTest::wait_for('the first to be closed', sub { closed() }, 40);
    my $took = time - $kept{first};
    is((closed())[0], $one, 'the one that waited longer is closed first');
    cmp_ok($took, '>=', 15, 'and not before 15 seconds');

    AgentTest::wait_for('the second to be closed',
                        sub { scalar(() = closed()) == 2 }, 40);
    cmp_ok(time - $kept{second}, '>=', 15, 'nor is the other, in its own time');

    is($l->get("http://first.internal:@{[$keeps->port]}/new")->{status}, 200,
       'the next request has a new one');
    is($keeps->connections, 3, 'which was dialled for it');
}

is_deeply([$b->audit_errors], [], 'the audit is whole');
$b->stop;
unlike($b->error_log, qr/\[(?:alert|emerg)\]/, 'and nothing is wrong');

done_testing;
