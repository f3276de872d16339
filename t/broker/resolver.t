#!/usr/bin/perl

# Name servers in trouble, and such as lie: a request has its answer, or its
# failure with the reason, within a few seconds; and a name that a box has made
# up leaves no trace outside before its line.
#
# sanitizers: questions end at every moment, and answers are hostile

use v5.36;

use lib 't/lib';
use AgentTest;
use JSON::PP ();
use Test::More;

my $t = AgentTest->new;
my $up = $t->upstream(plain => 1);
my $port = $up->port;
my @here = (A => ['127.0.0.1']);
my $json = JSON::PP->new;

# each kind of trouble has a name at which the first of two servers has it, and
# one at which the second has it: which of them is asked first, both are met

my %trouble = (
    servfail => { rcode => 'SERVFAIL' },
    refused  => { rcode => 'REFUSED' },
    formerr  => { rcode => 'FORMERR' },
    silent   => { drop => JSON::PP::true },
    map({ ("odd-$_" => { @here, odd => $_ }) } qw(count length cut)),
);

my (%first, %second);
for my $kind (keys %trouble) {
    $first{"$kind-1.test"} = $second{"$kind-2.test"} = $trouble{$kind};
    $first{"$kind-2.test"} = $second{"$kind-1.test"} = { @here };
    $first{"$kind.none.test"} = $second{"$kind.none.test"} = $trouble{$kind};
}

my %both = (
    'late.test'   => { @here, delay_ms => 1300 },
    'lie.test'    => { @here, elsewhere => '127.0.0.2' },
    'four.test'   => { @here, AAAA => ['::1'], drop => ['AAAA'] },
    'six.test'    => { A => ['127.0.0.1'], AAAA => ['::1'], drop => ['A'] },
    'long.test'   => { A => ['127.0.0.1', map {
                              '127.1.' . int($_ / 200) . '.' . $_ % 200 }
                              1 .. 900] },
    'huge.test'   => { A => [map { '127.2.' . int($_ / 200) . '.' . $_ % 200 }
                             1 .. 1100] },
    'notcp.test'  => { A => [map { "127.1.0.$_" } 1 .. 100], drop_tcp => 1 },
    'slow.test'   => { A => ['127.0.0.1', map("127.1.1.$_", 1 .. 100)],
                       delay_tcp_ms => 1500, cut => 50 },
    'empty.test'  => {},
    'many.test'   => { @here, delay_ms => 600 },
    'leave.test'  => { @here, delay_ms => 600 },
    'reload.test' => { @here, delay_ms => 900 },
    'quit.test'   => { drop => JSON::PP::true },
    '*.wild.test' => { @here },
    '*.seen.test' => { rcode => 'REFUSED' },
    map({ ("ttl-$_->[0].test" => { @here, ttl => $_->[0] }) }
        [0], [60], [4000], [2147483647], [4294967295]),
    'alias.test'  => { CNAME => 'ttl-60.test', ttl => 5 },
);

my @servers = ($t->dns({ %first, %both }), $t->dns({ %second, %both }));

sub broker (@dns) {
    my $resolver = join ' ', map { ref $_ ? "127.0.0.1:$_->{port}" : $_ } @dns;
    return $t->broker(log_level => 'debug', http => "resolver $resolver;",
                      policy => <<"END");
    agent_policy analysis {
        requests 1000000;
        @{[ map { "host $_:$port { plaintext on; private 127.0.0.0/8; }\n" }
            (grep { !/\*|none|seen/ } sort keys %first, keys %both),
            qw(*.none.test *.wild.test *.seen.test gone.test) ]}
    }
END
}

sub reason ($r) {
    my $body = eval { $json->decode($r->{body}) } // {};
    return join ' ', $r->{status} // 'cut', $body->{reason} // ();
}

sub questions ($name) {
    return map { $_->questions($name) } @servers;
}

my $b = broker(@servers);
my ($l, $task) = $b->task;
my $get = sub ($name) { return $l->get("http://$name:$port/") };


subtest 'G-025: of two name servers one in trouble is not the end' => sub {
    for my $kind (sort keys %trouble) {
        for my $n (1, 2, 1) {
            my $name = "$kind-$n.test";
            is(reason($get->($name)), 200,
               "server $n, $kind: the other one has the name");
        }
    }
};

subtest 'G-025: of two name servers both in trouble, the reason says which'
    => sub {
    for my $case (['servfail', 'the name server failed'],
                  ['refused', 'the name server refused'],
                  ['odd-cut', q{the name server's answer is malformed}],
                  ['silent', 'timed out: no name server has answered']) {
        my ($kind, $why) = @$case;
        my $r = $get->("$kind.none.test");
        is(reason($r), '502 resolve_failed', "$kind: 502 resolve_failed");
        my $body = $json->decode($r->{body});
        is($body->{detail}, $why, "$kind: the answer says why");
        like($body->{hint}, qr/\(\Q$why\E\)/, "$kind: and so does the hint");
        is($b->audit_wait('egress', host => "$kind.none.test")->{detail}, $why,
           "$kind: and the line");

        # a second without an answer is one more question, also under load
        for my $n (0, 1) {
            my $asked = () = grep { $_->{type} eq 'A' }
                             $servers[$n]->questions("$kind.none.test");
            ok($asked >= 1 && $asked <= 3,
               "$kind: server $n is asked, and not for longer than 5 seconds");
        }
    }

    my $r = $get->('gone.test');
    like($json->decode($r->{body})->{detail}, qr/^no such name$/,
         'a name that is not there: the answer says so');
    is($json->decode($get->('empty.test')->{body})->{detail},
       'the name has no address', 'a name without an address');
};

subtest 'a late answer, and a family that is not answered, do not fail a name'
    => sub {
    is(reason($get->('late.test')), 200,
       'an answer after more than a second is taken');
    is(reason($get->('four.test')), 200, 'no answer for IPv6: IPv4 is used');
    is(reason($get->('six.test')), '403 address_not_allowed',
       'no answer for IPv4: the IPv6 address is judged');
};

subtest 'only the server that was asked can answer' => sub {
    is(reason($get->('lie.test')), 200, 'the name has an address');
    is($b->audit_wait('egress', host => 'lie.test')->{address}, '127.0.0.1',
       'an answer from another address is not taken');
    my %from = map { $_->{from} => 1 }
               grep { $_->{proto} eq 'udp' && $_->{type} eq 'A' }
               map { $_->questions } @servers;
    cmp_ok(keys %from, '>', 10, 'questions come from changing ports');
};

subtest 'an answer that does not fit UDP is read over TCP, up to a bound'
    => sub {
    is(reason($get->('long.test')), 200, 'a name has 901 addresses');
    my %by = map { $_->{proto} => 1 } questions('long.test');
    is_deeply([sort keys %by], ['tcp', 'udp'], 'it is asked for both ways');
    is($json->decode($get->('huge.test')->{body})->{detail},
       q{the name server's answer is too long}, 'more than 16 KiB fail');
    is($json->decode($get->('notcp.test')->{body})->{detail},
       q{the name server's answer is cut}, 'a server without TCP fails');

    # each server says 50 times and again each second that it was cut
    is(reason($get->('slow.test')), 200,
       'an answer that comes after more than a second is taken');
    for my $n (0, 1) {
        my $asked = () = grep { $_->{type} eq 'A' && $_->{proto} eq 'tcp' }
                         $servers[$n]->questions('slow.test');
        cmp_ok($asked, '<=', 1, "server $n is asked for it once");
    }

    ok(!(grep { $_->{type} eq 'A' && $_->{proto} eq 'tcp' }
         questions('many.test')), 'control: a short answer needs no TCP');
};


# One question for all who wait

sub send_some ($name, $n) {
    for my $i (1 .. $n) {
        $l->do(open => { id => "$name$i", port => 8899 });
        $l->do(write => { id => "$name$i", data =>
            "GET http://$name:$port/ HTTP/1.1\r\nHost: $name:$port\r\n"
            . "Connection: close\r\n\r\n" });
    }
    AgentTest::wait_for('the question', sub { questions($name) });
}

sub status ($id) {
    my $r = $l->do(read => { id => $id, timeout => 60 });
    return ($r->{data} // '') =~ m{^HTTP/1.1 (\d+)} ? $1 : 'none';
}

subtest 'G-026: many requests ask for a name once' => sub {
    send_some('many.test', 20);
    $l->do(shut => { id => "many.test$_" }) for 1, 20;
    my %got;
    $got{ status("many.test$_") }++ for 2 .. 19;
    is_deeply(\%got, { 200 => 18 }, 'all that have stayed have their answer');
    my %from = map { $_->{from} => 1 } questions('many.test');
    cmp_ok(keys %from, '<=', 2,
           'they were one question, of one socket a server');
    is(scalar $b->audit('lookup', host => 'many.test'), 0,
       'a name that a rule has needs no line of its own');

    send_some('leave.test', 3);
    $l->do(shut => { id => "leave.test$_" }) for 1 .. 3;
    AgentTest::wait_for('their ends', sub {
        3 == $b->audit('egress', host => 'leave.test', reason => 'aborted')
    });
    my $asked = () = questions('leave.test');
    is(reason($get->('leave.test')), 200,
       'a name that all have left is asked for anew');
    cmp_ok(scalar(() = questions('leave.test')), '>', $asked,
           'by one more question');
};


# What an answer says of its own life

subtest 'G-026: an answer lives for 1 to 300 seconds, whatever it says' => sub {
    my %lives = (0 => 1, 60 => 60, 4000 => 300, 2147483647 => 300,
                 4294967295 => 1);
    for my $ttl (sort keys %lives) {
        is(reason($get->("ttl-$ttl.test")), 200, "a TTL of $ttl: it is served");
        like($b->error_log,
             qr/"ttl-$ttl\.test" has 1 addresses for $lives{$ttl} s/,
             "a TTL of $ttl: its answer is kept for $lives{$ttl} s");
    }
    is(reason($get->('alias.test')), 200, 'an alias is served');
    like($b->error_log, qr/"alias\.test" has 1 addresses for 5 s/,
         'of an alias and its address the shorter life counts');
    my $asked = () = questions('ttl-60.test');
    for (1 .. 5) { $get->('ttl-60.test') }
    is(scalar(() = questions('ttl-60.test')), $asked,
       'while it lives the name is not asked for again');
    $asked = () = questions('ttl-0.test');
    AgentTest::wait_for('the name to be asked for again', sub {
        $get->('ttl-0.test');
        return $asked < (() = questions('ttl-0.test'));
    });
    pass('after its life the name is asked for again');
};


# G-024

subtest 'G-024: a name of a wildcard has its line before it is asked for'
    => sub {
    my $audit = $b->prefix . '/logs/agent-audit.log';
    my $dns = $t->dns({ '*.seen.test' => { @here, ttl => 300 } },
                      watch => $audit, watch_for => '"event":"lookup"');
    $b->reload(http => "resolver 127.0.0.1:$servers[0]{port} "
                     . "127.0.0.1:$dns->{port};");
    my ($l) = $b->task;
    for my $i (1 .. 4) {
        is(reason($l->get("http://n$i.seen.test:$port/")), 200,
           'a name of the wildcard is served');
    }
    is(reason($l->get("http://n1.seen.test:$port/")), 200, 'a name that is known already is served');
    for my $how ('--http1.1', '--http2') {
        my $run = $l->do(run => { argv => ['curl', '-sk', $how, '--proxy',
            'http://127.0.0.1:8899', '-o', '/dev/null', '-w', '%{http_code}',
            "https://tls$how.seen.test:$port/" =~ s/--|\.(?=\d)//gr] });
        is($run->{data}, 200, "over TLS, $how: it is served")
            or diag $run->{err};
    }
    my @asked = $dns->questions;
    ok((grep { $_->{name} =~ /^tls/ } @asked), 'control: so were these');
    ok(@asked && !(grep { !$_->{seen} } @asked),
       'its lookup line was in the file when the name server was asked');
    my @lines = $b->audit('lookup');
    is(scalar(grep { $_->{host} =~ /^tls/ } @lines), 2, 'each over TLS has one');
    @lines = grep { $_->{host} =~ /^n\d/ } @lines;
    is_deeply([map { $_->{host} } @lines], [map { "n$_.seen.test" } 1 .. 4],
              'a name has one line for all its questions, and none while its '
              . 'answer is kept');
    is($lines[0]{rule}, "*.seen.test:$port", 'the line has the rule');
    is($lines[0]{request}, ($b->audit('egress', host => 'n1.seen.test'))[0]
       {request}, 'the line has the id of its request');
    my ($end) = $l->ask('task', { op => 'close', reason => 'ok' });
    my $connect = $b->audit('connect');
    is($end->{egress}{audit_lines}, 1 + 6 + 2 * 7 + $connect + 1,
       'the lines are of the task');
};

SKIP: {
    skip 'a full disk: only root can mount a small file system', 1
        unless AgentTest::is_root();

    subtest 'G-024: while no line can be written no name is asked for' => sub {
        my $small = "$t->{dir}/small";
        local $ENV{AGENT_TEST_NGINX} = $t->nginx_on_small_disk($small);
        my $dns = $t->dns({ '*.wild.test' => { @here },
                            map { ("exact$_.test" => { @here }) } 1 .. 4 });
        my $b = $t->broker(dns => $dns, audit_path => "$small/audit.log",
                           workers => 2, policy => <<"END");
            agent_policy analysis {
                refusals 100000;
                @{[ map { "host $_:$port { plaintext on; "
                          . "private 127.0.0.0/8; }\n" }
                    '*.wild.test', map { "exact$_.test" } 1 .. 4 ]}
            }
END
        my $root = '/proc/' . $b->master . "/root$small";
        $b->{opt}{audit} = "$root/audit.log";

        # tasks of both workers
        my (%l, $i);
        AgentTest::wait_for('a task of each worker', sub {
            my ($l) = $b->task;
            $l->get("http://n.wild.test:$port/");
            my $writer = ($b->audit('egress'))[-1]{writer};
            $l{$writer} //= $l;
            return keys %l == 2;
        });
        my ($one, $other) = values %l;

        my $asked = () = $dns->questions;
        for my $size (4096, 512, 1) {
            open my $f, '>>', "$root/filler" or die "filler: $!";
            syswrite $f, 'x' x $size or last for 1 .. 100000;
        }

        my $r;
        for (1 .. 300) {
            $r = $one->get("http://n.wild.test:$port/" . 'x' x 300);
            last if $r->{status} != 200;
        }
        is(reason($r), '503 audit_unavailable', 'control: the disk is full');
        $asked = () = $dns->questions;
        is(reason($one->get("http://secret-1.wild.test:$port/")),
           '503 audit_unavailable', 'a name of a wildcard is refused');
        is(reason($one->get("http://exact1.test:$port/")),
           '503 audit_unavailable', 'a name of a rule is refused');
        is(reason($other->get("http://secret-2.wild.test:$port/")),
           '503 audit_unavailable', 'by the other worker: of a wildcard');
        is(reason($other->get("http://exact2.test:$port/")),
           '503 audit_unavailable', 'by the other worker: of a rule');
        is(reason($one->get("http://evil.test:$port/")),
           '403 host_not_allowed', 'control: a name of no rule is refused');
        is(scalar(() = $dns->questions), $asked,
           'no name server was asked for anything');

        unlink "$root/filler" or die "filler: $!";
        is(reason($one->get("http://exact3.test:$port/")), 200,
           'with room again a name is served');
        is(reason($other->get("http://secret-3.wild.test:$port/")), 200,
           'with room again the other worker serves one');
        cmp_ok(scalar(() = $dns->questions), '>', $asked,
               'control: they were asked for');
        $b->stop;
    };
}


# The life of a worker

subtest 'a worker that leaves waits for names after a reload, not after QUIT'
    => sub {
    $b->reload(http => 'resolver ' . join(' ', map { "127.0.0.1:$_->{port}" }
                                          @servers) . ';');
    ($l) = $b->task;
    send_some('reload.test', 2);
    $b->reload;
    is(status("reload.test$_"), 200,
       'after a reload the old worker has its answer') for 1, 2;

    ($l) = $b->task;
    send_some('quit.test', 2);
    $b->signal('QUIT');
    like(status('quit.test1'), qr/^502$/,
         'a worker that was told to quit fails the request, and ends');
    $b->quit;
    $b->is_clean;
};

# One server, which is gone; and the one of resolv.conf is another matter

subtest 'a name server that is not there fails a request at once' => sub {
    my $gone = $t->dns;
    $gone->stop;
    my $b = broker($gone);
    my ($l) = $b->task;
    my $r = $l->get("http://many.test:$port/");
    is(reason($r), '502 resolve_failed', 'nobody listens: 502 resolve_failed');
    is($json->decode($r->{body})->{detail}, 'no name server can be reached',
       'the answer says so');
    $b->stop;
    $b->is_clean;

    $b = broker($gone, @servers);
    ($l) = $b->task;
    is(reason($l->get("http://ttl-60.test:$port/")), 200,
       'with another one beside it the name is served');
    $b->stop;
};

done_testing;
