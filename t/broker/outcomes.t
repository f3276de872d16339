#!/usr/bin/perl

# One table: what a box is told by each door and protocol of what it was refused
# and of what failed, and that the audit, the line of the task's end and the
# task's result say the same.
#
# sanitizers: answers of the broker's own, in every protocol

use v5.36;

use lib 't/lib';
use AgentTest;
use IO::Socket::INET;
use JSON::PP ();
use List::Util qw(sum0);
use Test::More;

my $t    = AgentTest->new;
my $json = JSON::PP->new;
my $up = $t->spawn(['/usr/bin/python3', "$AgentTest::LIB/failing_upstream.py",
                    '--quiet'], pipes => 1);
chomp(my $port = readline($up->{out}) // die "no upstream\n");
my $safe = $t->upstream(names => ['cert.internal']);
my $tls  = $safe->port;

my $plain = $t->upstream(plain => 1);
my $ws    = $plain->port;
my $closing = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 8)
    or BAIL_OUT("a port: $!");

my $dns = $t->dns({ (map { $_ => { A => ['127.0.0.1'] } }
                     qw(up.internal cert.internal few.internal ws.internal
                        closes.internal)),
                    'gone.internal' => { A => ['127.0.0.2'] },
                    'none.internal' => { A => [] } });

my $proxy = $t->read("$AgentTest::ROOT/conf/agent_proxy.conf");
$proxy =~ s/\bproxy_read_timeout(\s+)\w+;/proxy_read_timeout$1 500ms;/
    or BAIL_OUT('agent_proxy.conf sets no proxy_read_timeout');

my $here = 'methods GET POST; private 127.0.0.0/8;';
my $b = $t->broker(dns => $dns, proxy => $t->write('proxy.conf', $proxy),
                   policy => <<"END");
    agent_policy analysis {
        host up.internal:$port   { plaintext on; request_body 8; $here }
        host gone.internal:$port { plaintext on; $here }
        host none.internal:$port { plaintext on; $here }
        host cert.internal:$tls  { $here }
    }
    agent_policy narrow {
        connections 1;
        host up.internal:$port   { plaintext on; $here }
    }
    agent_policy begun {
        idle 1s;
        bytes_up 1m;
        host up.internal:$port  { plaintext on; $here }
        host ws.internal:$ws    { plaintext on; websocket on; $here }
        host cert.internal:$tls { tunnel on; private 127.0.0.0/8; }
        host closes.internal:@{[$closing->sockport]} { tunnel on; private 127.0.0.0/8; }
    }
    agent_policy strict {
        refusals 1;
    }
    agent_policy few {
        requests 1;
        host few.internal:$port { plaintext on; $here }
    }
END

# what is asked for, and what is to be told

my @cases = (
    { name => 'method', how => ['-X', 'DELETE'], status => 403,
      reason => 'method_not_allowed', outcome => 'denied' },
    { name => 'body', how => ['-d', 'more than 8'], status => 413,
      reason => 'body_too_large', outcome => 'denied' },
    { name => 'none', host => 'none.internal', status => 502,
      reason => 'resolve_failed', outcome => 'failed', list => 'denied' },
    { name => 'gone', host => 'gone.internal', status => 502,
      reason => 'upstream_unreachable', outcome => 'failed' },
    { name => 'cert', host => 'cert.internal', port => $tls, status => 502,
      reason => 'certificate_unverified', outcome => 'failed' },
    { name => 'silent', path => 'silent', status => 504,
      reason => 'upstream_timeout', outcome => 'failed' },
    { name => 'close', path => 'gone', status => 502,
      reason => 'no_answer', outcome => 'failed' },
);

my @proxy = ('-x', 'http://127.0.0.1:8899');
my @protocols = (
    ['HTTP/1.1 by the proxy door', 'http', @proxy],
    ['HTTP/1.0 by the proxy door', 'http', @proxy, '-0'],
    ['HEAD by the proxy door', 'http', @proxy, '-I'],
    ['HTTP/1.1 by the web door', 'http'],
    ['HTTP/1.1 in TLS by the web door', 'https', '--http1.1'],
    ['HTTP/2 by the web door', 'https', '--http2'],
    ['HTTP/1.1 in CONNECT', 'https', @proxy, '--http1.1'],
    ['HTTP/2 in CONNECT', 'https', @proxy, '--http2'],
);

my $task_ca;

# a request by curl in the box, and the answer that it prints
sub command ($protocol, $host, $port, $path, @how) {
    my ($name, $scheme, @by) = @$protocol;
    push @by, '--resolve', "$host:$port:127.0.0.1" unless grep { $_ eq '-x' } @by;
    return ('curl', '-sS', '--max-time', '60', '--cacert', $task_ca, '-i',
            @by, @how, "$scheme://$host:$port/$path");
}

sub curl ($l, $protocol, $host, $port, $path, @how) {
    return answer($l->do(run => {
        argv => [command($protocol, $host, $port, $path,
                         '--suppress-connect-headers', @how)],
        env => { PATH => $ENV{PATH} } }));
}

sub answer ($run) {
    my ($head, $body) = split /\r\n\r\n/, $run->{data}, 2;
    my %header = map { /^([^:]+):\s*(.*)/ ? (lc $1 => $2) : () }
                 split /\r\n/, $head // '';
    my ($version, $status) = ($head // '') =~ m{^HTTP/(\S+) (\d+)};
    return { status => $status // 0, version => $version // '',
             header => \%header, body => $body // '', run => $run };
}

sub entries ($list) {
    return { map { ("$_->{method} $_->{host} $_->{port} $_->{path} "
                    . "$_->{reason}" => $_->{count}) } @$list };
}

sub sums_are_equal ($l, $task, $what, $cut = 0) {
    my $egress = $l->ask('task', { op => 'close', reason => 'ok' })->{egress};
    my $end = $b->audit_wait('task_end', task => $task->{task_id});
    is("$egress->{denied_count} $egress->{failed_count}",
       $end->{denied} + $end->{unanswered} . " $end->{failed}",
       "$what: the result counts as the line of the task's end");
    for my $list (qw(denied failed)) {
        is(sum0(map { $_->{count} } @{ $egress->{$list} }),
           $egress->{"${list}_count"}, "$what: $list has as many as it counts");
        is(scalar(grep { ($_->{hint} // '') !~ /\w/ } @{ $egress->{$list} }), 0,
           "$what: each of $list has a hint");
    }
    is(scalar(grep { $_->{failure} } $b->audit('egress_end',
                                               task => $task->{task_id})),
       $end->{failed} + $end->{unanswered} + $cut,
       "$what: as many lines have a failure");
    return $egress;
}


subtest 'G-044 G-025: every door and protocol tells the same, and the result all of it'
    => sub {
    my ($l, $task) = $b->task;
    $task_ca = $t->write('task-ca.pem', $task->{ca});
    my %want = (denied => {}, failed => {});
    for my $protocol (@protocols) {
        my ($what, $scheme) = @$protocol;
        my $is_head = $what =~ /^HEAD/;
        for my $case (@cases) {
            next if $is_head && $case->{how};
            my $host = $case->{host} // 'up.internal';
            my $p = $case->{port} // $port;
            my $path = $case->{path} // $case->{name};
            my $method = $is_head ? 'HEAD' : !$case->{how} ? 'GET'
                       : $case->{how}[0] eq '-d' ? 'POST' : $case->{how}[1];
            my $a = curl($l, $protocol, $host, $p, $path, @{ $case->{how} // [] });
            my $is = "$what: $case->{reason}";
            is($a->{status}, $case->{status}, "$is: status $case->{status}")
                or diag explain $a, $b->error_log;
            is($a->{version}, '2', "$is: over HTTP/2") if $what =~ m{^HTTP/2};
            is($a->{header}{'x-agent-broker'}, $case->{outcome},
               "$is: X-Agent-Broker: $case->{outcome}");
            ok(!$a->{header}{'retry-after'}, "$is: no Retry-After");
            if ($is_head) {
                is($a->{body}, '', "$is: no body");
                cmp_ok($a->{header}{'content-length'} // 0, '>', 2,
                       "$is: but its length");
            } else {
                my $body = eval { $json->decode($a->{body}) } // {};
                is(join(' ', map { $body->{$_} // '-' }
                        qw(error reason host port method path task)),
                   "$case->{outcome} $case->{reason} $host $p $method /$path "
                   . $task->{task_id}, "$is: the body says what and why");
                like($body->{hint}, qr/\w/, "$is: with a hint");
            }
            my $list = $case->{list} // $case->{outcome};
            $want{$list}{"$method $host $p /$path $case->{reason}"}++;
        }
    }
    my $egress = sums_are_equal($l, $task, 'all of them');
    is_deeply(entries($egress->{$_}), $want{$_}, "the result lists what has $_")
        for qw(denied failed);
    is($egress->{allowed}, $egress->{failed_count},
       'what has failed was allowed: nothing else was');
    $l->stop;
};

subtest 'a bound of amount is told by every door and protocol' => sub {
    my ($l, $task) = $b->task('few');
    $task_ca = $t->write('few-ca.pem', $task->{ca});
    is(curl($l, $protocols[0], 'few.internal', $port, 'quick')->{status}, 200,
       'control: the one request that is allowed');
    for my $protocol (@protocols) {
        my $what = $protocol->[0];
        my $a = curl($l, $protocol, 'few.internal', $port, 'quick');
        is($a->{status}, 429, "$what: status 429");
        is($a->{header}{'x-agent-broker'}, 'denied', "$what: it is denied");
        ok(!$a->{header}{'retry-after'}, "$what: no Retry-After");
        is((eval { $json->decode($a->{body}) } // {})->{reason}, 'requests',
           "$what: the reason") unless $what =~ /^HEAD/;
    }
    my $egress = sums_are_equal($l, $task, 'the bound');
    is($egress->{denied_count}, @protocols, 'each is counted');
    $l->stop;
};

# What is seen only when it has begun, and what names two hosts

subtest 'a body without a length, and two hosts, are told alike by each' => sub {
    my ($l, $task) = $b->task;
    $task_ca = $t->write('task-ca.pem', $task->{ca});
    my $bodies = 0;
    for my $protocol (@protocols) {
        my $what = $protocol->[0];
        my %told;
        if ($what !~ m{HTTP/1\.0|^HEAD}) {
            # of an upstream that does not answer before it has come
            my $a = curl($l, $protocol, 'up.internal', $port, 'silent', '-d',
                         'more than 8', '-H', 'Transfer-Encoding: chunked');
            is($a->{status}, 413, "$what: status 413 for a body without a length")
                or diag explain $a;
            $told{body_too_large} = $a;
            $bodies++;
        }
        my $a = curl($l, $protocol, 'up.internal', $port, 'quick', '-H',
                     'Host: other.internal');
        is($a->{status}, $what =~ m{^HTTP/2} ? 421 : 400,
           "$what: 400, or 421 where a client can begin anew, for two hosts")
            or diag explain $a;
        $told{authority_mismatch} = $a;
        for my $reason (sort keys %told) {
            is($told{$reason}{header}{'x-agent-broker'}, 'denied',
               "$what: $reason is denied");
            next if $what =~ /^HEAD/;
            my $body = eval { $json->decode($told{$reason}{body}) } // {};
            is("$body->{error} $body->{reason}", "denied $reason",
               "$what: the body has the reason $reason");
        }
    }
    my $egress = sums_are_equal($l, $task, 'bodies and hosts', $bodies);
    my %count;
    $count{ $_->{reason} } += $_->{count} for @{ $egress->{denied} };
    is_deeply(\%count, { body_too_large => $bodies,
                         authority_mismatch => scalar @protocols },
              'the result lists each');
    $l->stop;
};

subtest 'past the wait each door tells the bound, and when to come again' => sub {
    my ($l, $task) = $b->task('narrow');
    $task_ca = $t->write('narrow-ca.pem', $task->{ca});
    $l->do(open => { id => 'held', port => 8899 });
    # its body does not come
    $l->do(write => { id => 'held', data => "POST http://up.internal:$port/silent "
        . "HTTP/1.1\r\nHost: up.internal:$port\r\nContent-Length: 5\r\n\r\n" });
    $b->audit_wait('egress', path => '/silent', method => 'POST');
    my $dir = $t->dir;
    my $script = join "\n", (map {
        my @words = map { "'$_'" } command($protocols[$_], 'up.internal', $port, 'quick');
        "@words > $dir/narrow$_ &"
    } 0 .. $#protocols), 'wait';
    $l->do(run => { argv => ['sh', '-c', $script], env => { PATH => $ENV{PATH} } });
    for my $i (0 .. $#protocols) {
        my $what = $protocols[$i][0];
        my $a = answer({ data => $t->read("$dir/narrow$i") });
        if ($what =~ /^\S+ (?:in TLS )?by the web door/ && $protocols[$i][1] eq 'https') {
            is($a->{status}, 0, "$what: an alert, since TLS has not begun");
            next;
        }
        is($a->{status}, 429, "$what: status 429") or diag explain $a;
        is($a->{header}{'x-agent-broker'}, 'denied', "$what: it is denied");
        is($a->{header}{'retry-after'}, 1, "$what: Retry-After");
        is((eval { $json->decode($a->{body}) } // {})->{reason}, 'connections',
           "$what: the reason") unless $what =~ /^HEAD|CONNECT/;
        is($a->{body}, '', "$what: no body") if $what =~ /^HEAD/;
    }
    my $egress = $l->ask('task', { op => 'close', reason => 'ok' })->{egress};
    my ($entry) = grep { $_->{reason} eq 'connections' } @{ $egress->{denied} };
    is($entry->{count}, @protocols, 'the result counts all of them');
    $l->stop;
};

subtest 'past `refusals` CONNECT is answered as its body says' => sub {
    my ($l, $task) = $b->task('strict');
    for my $want ('403 host_not_allowed', '429 refusals') {
        my $r = $l->http("CONNECT evil.example:443 HTTP/1.1\r\n"
                         . "Host: evil.example:443\r\n\r\n");
        is("$r->{status} " . $json->decode($r->{body})->{reason}, $want, $want);
    }
    sums_are_equal($l, $task, 'refusals');
    $l->stop;
};

# What had begun, or was not HTTP for the broker

sub begin ($l, $id, $text) {
    $l->do(open => { id => $id, port => 8899 });
    $l->do(write => { id => $id, data => $text });
    return $l->do(read => { id => $id, timeout => 60 })->{data};
}

sub hello ($host) {
    my $run = $t->run(['/usr/bin/python3', '-c', <<'END', $host]);
import ssl, sys
out = ssl.MemoryBIO()
c = ssl.create_default_context()
c.check_hostname = False
c.verify_mode = ssl.CERT_NONE
s = c.wrap_bio(ssl.MemoryBIO(), out, server_hostname=sys.argv[1])
try:
    s.do_handshake()
except ssl.SSLWantReadError:
    print(out.read().hex())
END
    return pack 'H*', $run->{out} =~ s/\s//gr;
}

subtest 'G-025: what failed after it had begun says by what, once' => sub {
    my ($l, $task) = $b->task('begun');
    $l->get("http://up.internal:$port/$_") for qw(torn unchunked short);
    like(begin($l, 'ws', "GET http://ws.internal:$ws/upgrade HTTP/1.1\r\n"
               . "Host: ws.internal:$ws\r\nConnection: Upgrade\r\n"
               . "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
               . "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"),
         qr/ 101 /, 'control: the websocket is open');
    for my $host ('cert.internal', 'closes.internal') {
        my $p = $host eq 'cert.internal' ? $tls : $closing->sockport;
        like(begin($l, $host, "CONNECT $host:$p HTTP/1.1\r\nHost: $host:$p\r\n\r\n"),
             qr/ 200 /, "control: CONNECT to $host is answered");
        $l->do(write => { id => $host, data => hello($host) });
        next if $host eq 'cert.internal';
        my $c = $closing->accept;
        read $c, my $first, 5;
        $c->shutdown(1);
        is($l->do(read => { id => $host, timeout => 60 })->{data}, '',
           'its end reaches the box');
        $l->do(shut => { id => $host });
    }
    $b->audit_wait('egress_end', task => $task->{task_id}, host => $_)
        for qw(ws.internal cert.internal closes.internal);
    my $egress = sums_are_equal($l, $task, 'what had begun');
    is_deeply(entries($egress->{failed}), {
        "GET up.internal $port /torn answer_cut" => 1,
        "GET up.internal $port /short answer_cut" => 1,
        "GET up.internal $port /unchunked bad_answer" => 1,
        "GET ws.internal $ws /upgrade idle" => 1,
        "CONNECT cert.internal $tls  idle" => 1,
    }, 'what the box had a part of is listed as failed');
    is_deeply(entries($egress->{denied}), {
        "CONNECT closes.internal @{[$closing->sockport]}  no_answer" => 1,
    }, 'a tunnel of which it had nothing as unanswered, with the reason');
    $l->stop;
};

subtest 'G-025: the result of a real task lists what has failed' => sub {
    my $run = $t->jail(['run', '--control', $b->control, '--policy', 'analysis',
                        '--', 'curl', '-s', '-o', '/dev/null',
                        "http://gone.internal:$port/x"]);
    my $egress = $run->{json}{egress};
    is_deeply(entries($egress->{failed}),
              { "GET gone.internal $port /x upstream_unreachable" => 1 },
              'with its reason') or diag explain $run;
    is_deeply([@$egress{qw(allowed denied denied_count failed_count)}],
              [1, [], 0, 1], 'nothing is listed as denied');
};

subtest 'error.log names the upstream by the scheme that it is spoken to' => sub {
    my (%seen, $log);
    $log = $b->error_log;
    $seen{$2}{$1}++ while $log =~ m{upstream: "(\w+)://[^/]+/(\w+)"}g;
    is_deeply([map { join ' ', $_, sort keys %{ $seen{$_} } } qw(cert silent gone)],
              ['cert https', 'silent http', 'gone http'],
              'https where a certificate was verified, else http');
};

$b->stop;
$b->is_clean(level => qr{alert|emerg});

done_testing;
