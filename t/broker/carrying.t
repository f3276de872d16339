#!/usr/bin/perl

# A request is carried once: to one address, on a connection that nothing else
# can be read out of, and its answer is the upstream's last one, or the box is
# told why there is none.
#
# sanitizers: answers of every form are read

use v5.36;

use lib 't/lib';
use AgentTest;
use MIME::Base64 qw(encode_base64);
use Test::More;

my $token = 'sk_carry_0123456789abcdef_marker';

my $t = AgentTest->new;
my $ca = $t->ca->{cert};

# three addresses, the same port: with TLS, and without
my @at = map { "127.0.0.$_" } 2 .. 4;
my @names = qw(one.internal reuse.internal three.internal five.internal half.internal
               wrong.internal);
my @tls = $t->upstream(names => \@names, bind => $at[0], keep => 0);
my @plain = $t->upstream(plain => 1, bind => $at[0], keep => 0);
my ($port, $plain) = map { $_->[0]->port } \(@tls, @plain);
for my $address (@at[1, 2]) {
    push @tls, $t->upstream(names => \@names, bind => $address, keep => 0,
                            port => $port);
    push @plain, $t->upstream(plain => 1, bind => $address, keep => 0,
                              port => $plain);
}

# and one with a certificate of another
my $wrong = $t->upstream(names => ['other.internal'], bind => '127.0.0.5',
                         port => $port);

my $dns = $t->dns({
    'one.internal'   => { A => [$at[0]] },
    'reuse.internal' => { A => [$at[0]] },
    'three.internal' => { A => \@at },
    'five.internal'  => { A => [map { "127.0.0.$_" } 2 .. 6] },
    'half.internal'  => { A => [$at[0], '127.0.0.9'] },
    'wrong.internal' => { A => [$at[0], '127.0.0.5'] },
    'bad.internal'   => { A => ['127.0.0.5'] },
    'gone.internal'  => { A => ['127.0.0.9'] },
});

my $here = 'methods GET HEAD POST PUT DELETE PATCH; private 127.0.0.0/8;';
my $policy = <<"END";
    agent_policy analysis {
        trusted_certificate $ca;
        host half.internal:$port  { $here }
        host reuse.internal:$port { $here reuse_after_body on; }
        host five.internal:$port  { $here }
        host one.internal:$plain   { $here plaintext on; }
        host three.internal:$plain { $here plaintext on; }
        host one.internal:$port   { $here bearer api; }
        host three.internal:$port { $here bearer api; }
        host wrong.internal:$port { $here bearer api; }
        host bad.internal:$port   { $here bearer api; }
        host gone.internal:$port  { $here bearer api; }
    }
END

my $b = $t->broker(dns => $dns, vault => "api = $token\n", policy => $policy);
my ($l, $task) = $b->task;
my $box_ca = $t->write('box-ca.pem', $task->{ca});

sub seen (@of) { return map { $_->requests } @of ? @of : (@tls, @plain) }

# The line of the decision and the line of the end, of the newest request.
sub lines ($count) {
    AgentTest::wait_for('the line of its end', sub {
        $b->audit('egress_end') >= $count });
    my ($end) = ($b->audit('egress_end'))[-1];
    my ($line) = grep { $_->{request} eq $end->{request} } $b->audit('egress');
    return ($line, $end);
}

sub asked ($url, %opt) {
    my $ends;
    AgentTest::wait_for('the ends of the requests before', sub {
        $ends = $b->audit('egress_end');
        $ends == $b->audit('egress', verdict => 'allowed') });
    my $r = $l->get($url, %opt);
    return ($r, lines($ends + 1));
}

sub path ($word, $text, $pad = 0) {
    return "/$word?pad=$pad&b64=" . encode_base64($text, '') =~ tr{+/}{-_}r;
}


# G-020: what may have been read is never sent again

my @cut = (
    ['closes the connection', '/drop'],
    ['resets the connection', '/reset'],
    ['sends half of a head, and closes', path(cut => "HTTP/1.1 200 OK\r\nX:")],
    ['sends an interim answer, and closes',
     path(cut => "HTTP/1.1 102 Wait\r\n\r\n")],
);

for my $case (@cut) {
    my ($what, $path) = @$case;
    for my $scheme (qw(https http)) {
        my $to = 'three.internal:' . ($scheme eq 'https' ? $port : $plain);
        subtest "G-020: an upstream that reads a request by $scheme and $what "
            . 'is the only one that gets it' => sub {
            for my $method (qw(GET DELETE PUT HEAD)) {
                my $had = () = seen();
                my ($r, $line, $end) = asked("http://$to$path",
                                             method => $method);
                is($r->{status}, 502, "$method is answered 502");
                like($r->{body}, qr/"reason":"no_answer"/,
                     "$method has the reason no_answer") if $method ne 'HEAD';
                is((() = seen()) - $had, 1, "$method is read once");
                my ($at) = grep { my $at = $_; grep { $_->{method} eq $method
                    && $_->{target} eq $path } seen($at) } reverse @tls, @plain;
                is_deeply([sort @{ $line->{addresses} }], \@at,
                          "$method: the line has the addresses");
                is($line->{address}, $line->{addresses}[0],
                   "$method: and the first of them");
                is($end->{address}, $line->{address},
                   "$method: it was sent to the first");
                is($end->{vault} > 0 ? 1 : 0, $scheme eq 'https' ? 1 : 0,
                   "$method: the end has the token's revision if it was sent");
            }
        };
    }
}

subtest 'G-020: a request with a body is read once' => sub {
    for my $how (["Content-Length: 5\r\n\r\nhello"],
                 ["Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"])
    {
        for my $method (qw(POST PUT PATCH DELETE)) {
            my $had = () = seen();
            my $r = $l->http("$method http://three.internal:$port/drop "
                . "HTTP/1.1\r\nHost: three.internal:$port\r\n$how->[0]");
            is($r->{status}, 502, "$method is answered 502");
            is((() = seen()) - $had, 1, "$method is read once");
        }
    }
};

subtest 'G-020: a request through HTTP/2 is read once' => sub {
    for my $path ('/drop', '/reset') {
        my $had = () = seen();
        my $run = $l->do(run => { argv => ['curl', '-sS', '--max-time', '30',
            '--http2', '--cacert', $box_ca, '-x', 'http://127.0.0.1:8899',
            '-o', '/dev/null', '-w', '%{http_version} %{http_code}',
            "https://three.internal:$port$path"],
            env => { PATH => $ENV{PATH} }, timeout => 40 });
        is($run->{data}, '2 502', 'the box is answered 502');
        is((() = seen()) - $had, 1, 'the request is read once');
    }
};

subtest 'G-020: a request on a kept connection is read once' => sub {
    for my $to ("three.internal:$port", "three.internal:$plain") {
        for my $path ('/drop', '/reset') {
            is($l->get("http://$to/kept")->{status}, 200,
               'control: a connection is kept');
            my ($kept) = (grep { $_->{target} eq '/kept' } seen())[-1];
            my $had = () = seen();
            my ($r, $line, $end) = asked("http://$to$path");
            is($r->{status}, 502, 'the box is answered 502');
            is((() = seen()) - $had, 1, 'the request is read once');
            is($end->{address}, $line->{addresses}[0],
               'at the address of the kept connection, which is the first');
        }
    }
};

subtest 'G-020: a kept connection that was closed is replaced' => sub {
    my $answer = path(cut => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
                             . "Keep-Alive: timeout=30\r\n\r\nok");
    for my $to ("one.internal:$port", "one.internal:$plain") {
        my ($up) = $to =~ /$port/ ? $tls[0] : $plain[0];
        for my $method (qw(GET POST DELETE)) {
            is($l->get("http://$to$answer")->{status}, 200,
               'control: an answer that says the connection is kept');
            my $dialled = $up->connections;
            AgentTest::wait_for('the upstream to have closed it', sub {
                $up->events('close') == $dialled });
            my ($r) = asked("http://$to/next", method => $method,
                            $method eq 'POST' ? (body => 'x') : ());
            is($r->{status}, 200, "$method after it is answered");
            is($up->connections, $dialled + 1, "$method has a new connection");
        }
    }
};

# nginx begins with any of the addresses: until the dead one was first

sub first ($host, $address, $path = '/x') {
    for (1 .. 200) {
        my ($r, $line, $end) = asked("http://$host:$port$path",
            method => 'POST', body => 'x');
        return ($r, $line, $end) if $line->{addresses}[0] eq $address;
    }
    die "$address never came first\n";
}

subtest 'G-020: an address that is not connected to is replaced by the next'
    => sub {
    my ($r, $line, $end) = first('half.internal', '127.0.0.9');
    is($r->{status}, 200, 'connect() is refused: the next has it');
    is_deeply($line->{addresses}, ['127.0.0.9', $at[0]],
              'both are on record, in their order');
    is($end->{address}, $at[0], 'the end has the one that got it');

    ($r, $line, $end) = first('wrong.internal', '127.0.0.5');
    is($r->{status}, 200, 'the certificate is another\'s: the next has it');
    is_deeply($line->{addresses}, ['127.0.0.5', $at[0]],
              'both are on record, in their order');
    is($end->{address}, $at[0], 'the end has the one that got it');
    cmp_ok($end->{vault}, '>', 0, 'with the token');
    is_deeply([$wrong->requests], [], 'the first has got no request');
};

subtest 'G-020: egress_end says that no byte and no token was sent' => sub {
    my ($r, $line, $end) = asked("http://bad.internal:$port/x");
    is($r->{status}, 502, 'no certificate is right: 502');
    is("$end->{failure} $end->{address} $end->{vault} $end->{bytes_up}",
       'certificate_unverified 127.0.0.5 0 0',
       'the address, no token, no byte');
    ($r, $line, $end) = asked("http://gone.internal:$port/x");
    is("$end->{failure} $end->{address} $end->{vault} $end->{bytes_up}",
       'upstream_unreachable 127.0.0.9 0 0', 'the same of no connection');
};

subtest 'G-020: at most three addresses are dialled' => sub {
    my ($r, $line) = asked("http://five.internal:$port/x");
    is($r->{status}, 200, 'control: it is served');
    is(scalar @{ $line->{addresses} }, 3, 'the line has three');
};


# G-022: a body is nobody's next request

# An upstream that does not read the body takes it for a request.
sub unread ($how) {
    $l->do(open => { id => 'b', port => 8899 });
    $l->do(write => { id => 'b', data =>
        "POST http://one.internal:$port/unread HTTP/1.1\r\n"
        . "Host: one.internal:$port\r\n$how" });
    my $got = $l->do(read => { id => 'b', timeout => 10 });
    $l->do(shut => { id => 'b' });
    return $got->{data};
}

subtest 'G-022: no request goes where a body was sent before' => sub {
    my $evil = "DELETE /admin HTTP/1.1\r\nHost: one.internal\r\nX: ";
    my $n = length $evil;
    for my $how ("Content-Length: $n\r\n\r\n$evil",
                 sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n"
                         . "0\r\n\r\n", $n, $evil))
    {
        like(unread($how), qr{^HTTP/1\.1 200 },
             'control: an upstream answers without having read the body');
        my ($post) = ($tls[0]->requests)[-1];
        is($l->get("http://one.internal:$port/next")->{status}, 200,
           'the next request is answered');
        my ($next) = grep { $_->{target} eq '/next' } reverse seen();
        isnt($next->{conn}, $post->{conn}, 'on another connection');
        is_deeply([grep { $_->{method} eq 'DELETE'
                          && ($_->{target} eq '/admin'
                              || $_->{headers}{x}) } seen()], [],
                  'the body has become no request');
    }

    my $conn = sub ($method, %opt) {
        is($l->get("http://one.internal:$port/conn", method => $method,
                   %opt)->{status}, 200, "control: $method is answered");
        return (grep { $_->{target} eq '/conn' } seen())[-1]{conn};
    };
    $conn->('GET');
    is($conn->('GET'), $conn->('DELETE'), 'without a body it is used again');
    is($conn->('POST', body => ''), $conn->('GET'),
       'after an empty body it is used again');
    isnt($conn->('PUT', body => 'x'), $conn->('GET'),
         'after a body of one byte it is not');
};


subtest 'G-022: with `reuse_after_body on` the connection is used again' => sub {
    my %conn;
    for my $how ("Content-Length: 4\r\n\r\nbody",
                 "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n")
    {
        for my $method (qw(POST PUT)) {
            my $r = $l->http("$method http://reuse.internal:$port/echo HTTP/1.1"
                . "\r\nHost: reuse.internal:$port\r\nConnection: close\r\n$how");
            is("$r->{status} $r->{body}", '200 body', "$method is answered");
            $conn{ ($tls[0]->requests)[-1]{conn} } = 1;
        }
    }
    is(keys %conn, 1, 'one connection has served them');
};


# What is behind an answer is nobody's

subtest 'no bytes behind an answer become the next one' => sub {
    my $evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    for my $to ("one.internal:$port", "one.internal:$plain") {
        for my $case (['a body', "200 OK\r\nContent-Length: 2\r\n\r\nok", 'GET'],
                      ['chunks', "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                       . "2\r\nok\r\n0\r\n\r\n", 'GET'],
                      ['no body', "200 OK\r\nContent-Length: 0\r\n\r\n", 'GET'],
                      ['204', "204 No\r\n\r\n", 'GET'],
                      ['304', "304 No\r\nContent-Length: 9\r\n\r\n", 'GET'],
                      ['HEAD', "200 OK\r\nContent-Length: 9\r\n\r\n", 'HEAD'])
        {
            my ($what, $first, $method) = @$case;
            my $r = $l->get("http://$to" . path(raw => "HTTP/1.1 $first$evil"),
                            method => $method);
            like($r->{raw}, qr{^HTTP/1\.1 (?:200|204|304) },
                 "$what: the answer is passed on");
            unlike($r->{raw}, qr/evil/, "$what: nothing behind it is");
            $r = $l->get("http://$to/mine");
            is($r->{status}, 200, "$what: the next request is answered");
            unlike($r->{raw}, qr/evil/, "$what: with its own answer");
        }
    }
};


# G-023: interim answers

my $last = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlast";

for my $to ("one.internal:$port", "one.internal:$plain") {
    subtest "G-023: interim answers of $to are skipped" => sub {
        for my $status (100, 102, 103, 104, 199) {
            my ($r, $line, $end) = asked("http://$to" . path(raw =>
                "HTTP/1.1 $status Wait\r\nX-Interim: 1\r\n\r\n$last"));
            is("$r->{status} $r->{body}", '200 last', "$status is skipped");
            ok(!$r->{headers}{'x-interim'}, "nothing of $status is passed on");
            ok(!exists $end->{failure}, "$status is not a failure");
        }
        my $all = join '', map { "HTTP/1.1 $_ Wait\r\n\r\n" } 100, 102, 103;
        is($l->get("http://$to" . path(raw => $all . $last))->{body}, 'last',
           'several are skipped');
        is($l->get("http://$to" . path(cut => $all
               . "HTTP/1.1 204 No\r\nConnection: close\r\n\r\n"))->{status},
           204, 'before 204');
        like($l->get("http://$to" . path(cut => $all
                 . "HTTP/1.0 200 Yes\r\n\r\nto the end"))->{body},
             qr/\r\nto the end\r\n0\r\n\r\n\z/,
             'before an answer that ends with its connection');
        like($l->get("http://$to" . path(cut => $all
                 . "HTTP/1.1 200 Yes\r\nConnection: close\r\n"
                 . "Transfer-Encoding: chunked\r\n\r\n4\r\nlast\r\n0\r\n\r\n")
                 )->{body}, qr/\r\nlast\r\n0\r\n\r\n\z/,
             'before an answer in chunks');
        my $r = $l->get("http://$to" . path(cut => $all
            . "HTTP/1.1 200 Yes\r\nConnection: close\r\n"
            . "Content-Length: 9\r\n\r\n"), method => 'HEAD');
        is("$r->{status} $r->{headers}{'content-length'}[0]", '200 9',
           'before an answer to HEAD');
    };
}

subtest 'G-023: interim answers have a bound' => sub {
    my $one = "HTTP/1.1 103 Hints\r\n\r\n";
    my $big = "HTTP/1.1 103 Hints\r\nX: \@PAD@\r\n\r\n";
    my $url = "http://one.internal:$port";
    is($l->get($url . path(raw => $one x 16 . $last))->{body}, 'last',
       'sixteen are skipped');
    is($l->get($url . path(raw => $big x 7 . $last, 9000))->{body}, 'last',
       '63,000 bytes are skipped');
    for my $text ($one x 17 . $last, $big x 8 . $last) {
        my ($r, undef, $end) = asked($url . path(cut => $text, 9000));
        is($r->{status}, 502, 'more are refused');
        like($r->{body}, qr/"reason":"bad_answer","detail":"it has too many /,
             'with the reason bad_answer');
        is($end->{failure}, 'bad_answer', 'in the line of the end too');
    }
};

subtest 'G-023: an Expect of the box is answered by the broker' => sub {
    my $r = $l->http("POST http://one.internal:$port/echo HTTP/1.1\r\n"
        . "Host: one.internal:$port\r\nExpect: 100-continue\r\n"
        . "Connection: close\r\nContent-Length: 5\r\n\r\nhello");
    like($r->{raw}, qr{(?:^|\r\n\r\n)HTTP/1\.1 200 .*\r\n\r\nhello\z}s,
         'the answer comes');
};


# G-028: what is not an answer in HTTP

my $h = "HTTP/1.1 200 OK\r\n";
my $cl = "Content-Length: 2\r\n\r\nok";

for my $case (
    ['nothing of HTTP', "SSH-2.0-x\r\n"],
    ['a body alone', "<html>\r\n\r\n"],
    ['HTTP/2', "HTTP/2.0 200 OK\r\n$cl"],
    ['HTTP/1.2', "HTTP/1.2 200 OK\r\n$cl"],
    ['a status of 600', "HTTP/1.1 600 x\r\n$cl"],
    ['two spaces', "HTTP/1.1  200 OK\r\n$cl"],
    ['a control byte in the status line', "HTTP/1.1 200 O\eK\r\n$cl"],
    ['LF behind the status line', "HTTP/1.1 200 OK\n$cl"],
    ['LF behind a header', "${h}X-A: b\n$cl"],
    ['LF in the place of the empty line', "${h}Content-Length: 2\r\n\nok"],
    ['CR in a value', "${h}X-A: b\rc\r\n$cl"],
    ['NUL in a value', "${h}X-A: b\0c\r\n$cl"],
    ['a control byte in a value', "${h}X-A: b\x01c\r\n$cl"],
    ['DEL in a value', "${h}X-A: b\x7fc\r\n$cl"],
    ['a line without colon', "${h}X-A\r\n$cl"],
    ['no name', "${h}: b\r\n$cl"],
    ['a space before the colon', "${h}X-A : b\r\n$cl"],
    ['a folded line', "${h}X-A: b\r\n c\r\n$cl"],
    ['a name of 8 bits', "${h}X\xe4: b\r\n$cl"],
    ['a name that is not a token', "${h}X(A): b\r\n$cl"],
    ['a second status line', "${h}HTTP/1.1 200 OK\r\n$cl"],
    ['two lengths', "${h}Content-Length: 2\r\n$cl"],
    ['two different lengths', "${h}Content-Length: 3\r\n$cl"],
    ['a list of lengths', "${h}Content-Length: 2, 2\r\n\r\nok"],
    ['a negative length', "${h}Content-Length: -2\r\n\r\nok"],
    ['a length in hex', "${h}Content-Length: 0x2\r\n\r\nok"],
    ['a length and chunks', "${h}Transfer-Encoding: chunked\r\n$cl"],
    ['chunks and a length', "${h}Content-Length: 2\r\n"
     . "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"],
    ['an unknown coding', "${h}Transfer-Encoding: gzip\r\n\r\nok"],
    ['two codings', "${h}Transfer-Encoding: gzip, chunked\r\n\r\nok"],
    ['chunked twice', "${h}Transfer-Encoding: chunked\r\n"
     . "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"],
    ['chunks in HTTP/1.0', "HTTP/1.0 200 OK\r\n"
     . "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"],
    ['a switch of protocols', "HTTP/1.1 101 Switch\r\nUpgrade: x\r\n"
     . "Connection: upgrade\r\n\r\n"],
    ['a head past 64 KiB', "${h}X-A: \@PAD@\r\nX-B: \@PAD@\r\n$cl", 40000],
    ['a line past 64 KiB', "${h}X-A: \@PAD@\r\n$cl", 80000],
    ['no end of its head', "${h}X-A: \@PAD@", 80000],
) {
    my ($what, $text, $pad) = (@$case, 0);
    subtest "G-028: an answer with $what is not passed on" => sub {
        for my $to ("one.internal:$port", "one.internal:$plain") {
            my ($r, undef, $end) = asked("http://$to" . path(cut => $text, $pad));
            is($r->{status}, 502, 'the box is answered 502');
            like($r->{body}, qr/"reason":"bad_answer","detail":"\w/,
                 'with the reason bad_answer and a detail') or diag $r->{raw};
            is("$end->{failure} $end->{status}", 'bad_answer 502',
               'so says the line of its end');
            ok(length $end->{detail}, 'which has the detail');
        }
    };
}

for my $case (
    ['no reason phrase', "HTTP/1.1 200\r\n$cl"],
    ['bytes of 8 bits in a value', "${h}X-A: \xe4\xff\r\n$cl"],
    ['tabs and odd names', "${h}X.a_b!:\tb\tc\t\r\n$cl"],
    ['a head of 60,000 bytes', "${h}X-A: \@PAD@\r\n$cl", 60000],
) {
    my ($what, $text, $pad) = (@$case, 0);
    my $r = $l->get("http://one.internal:$port" . path(raw => $text, $pad));
    is("$r->{status} $r->{body}", '200 ok',
       "G-028 control: an answer with $what is passed on");
}


# nginx takes a certificate that is not verified for critical
$b->is_clean(level => qr/alert|emerg/);

done_testing;
