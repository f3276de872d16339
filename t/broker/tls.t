#!/usr/bin/perl

# The upstream's side: it must prove its name before a byte is sent, gets no
# more than it may, and tells the box and the broker no more than it may.  The
# token is on the wire to its own host, and nowhere else.
#
# sanitizers: handshakes and answers of upstreams are read

use v5.36;

use lib 't/lib';
use AgentTest;
use File::Find ();
use JSON::PP ();
use MIME::Base64 ();
use Test::More;

my $token = 'sk_tls/one+0123456789=abcdef_markerA';
my $other = 'sk_tls/two+0123456789=abcdef_markerB';

my $t   = AgentTest->new;
my $dns = $t->dns({ '*.internal' => { A => ['127.0.0.1'] },
                    'evil.example' => { A => ['127.0.0.1'] } });


# Upstreams whose certificates are wrong, each in its own way

sub self_signed ($name, $san) {
    my ($cert, $key) = map { "$t->{dir}/$name.$_" } qw(crt key);
    $t->openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt',
        'ec_paramgen_curve:P-256', '-nodes', '-days', 7,
        '-subj', "/CN=$san", '-addext', "subjectAltName=DNS:$san",
        '-keyout', $key, '-out', $cert);
    return { cert => $cert, key => $key };
}

sub signed ($name, $subject, $extensions) {
    my ($cert, $key, $csr, $ext)
        = map { "$t->{dir}/$name.$_" } qw(crt key csr ext);
    my $ca = $t->ca;
    $t->write($ext, $extensions);
    $t->openssl('req', '-new', '-newkey', 'ec', '-pkeyopt',
        'ec_paramgen_curve:P-256', '-nodes', '-subj', $subject,
        '-keyout', $key, '-out', $csr);
    $t->openssl('x509', '-req', '-in', $csr, '-CA', $ca->{cert}, '-CAkey',
        $ca->{key}, '-CAcreateserial', '-days', 7, '-extfile', $ext,
        '-out', $cert);
    return { cert => $cert, key => $key };
}

my %bad = (
    'self-signed'    => ['self.internal', self_signed('self', 'self.internal')],
    'another name'   => ['name.internal', $t->cert(['another.internal'])],
    'expired'        => ['old.internal',
                         $t->cert(['old.internal'], days => -1)],
    'unknown issuer' => ['issuer.internal',
                         $t->cert(['issuer.internal'], ca => 'unknown')],
    'a wildcard one level too deep'
                     => ['a.b.wild.internal', $t->cert(['*.wild.internal'])],
    'a wildcard within a label'
                     => ['part.internal', $t->cert(['pa*.internal'])],
    'only a CN, of another name'
                     => ['cn.internal', signed('cn', '/CN=xcn.internal',
                         "basicConstraints=CA:FALSE\n")],
    'a CN that fits and a name that does not'
                     => ['both.internal', signed('both', '/CN=both.internal',
                         "subjectAltName=DNS:another.internal\n")],
    'for clients only'
                     => ['client.internal', signed('client', '/CN=x',
                         "subjectAltName=DNS:client.internal\n"
                         . "extendedKeyUsage=clientAuth\n")],
);

my %bad_up;
for my $what (sort keys %bad) {
    $bad_up{$what} = $t->upstream(cert => $bad{$what}[1]);
}

my $ca = $t->ca->{cert};
my $ca2 = $t->ca('second')->{cert};

my $good  = $t->upstream(names => ['api.internal', 'open.internal',
                                   '*.deep.internal']);
my $pair  = $t->upstream(cert => $t->cert(['pair-a.internal']),
    sni => { 'pair-b.internal' => $t->cert(['pair-b.internal'],
                                           ca => 'unknown') });
my $old   = $t->upstream(names => ['tls12.internal'], tls_max => '1.2');
my $plain = $t->upstream(plain => 1);
my $by2   = $t->upstream(cert => $t->cert(['second.internal'],
                                          ca => 'second'));
my $port  = $good->port;

my $vault = $t->write('vault', "one = $token\ntwo = $other\n", 0600);

my $hosts = join '', map {
    "        host $bad{$_}[0]:" . $bad_up{$_}->port
    . " { bearer one; private 127.0.0.0/8; }\n"
} sort keys %bad;

# every variable, and what a careless operator would log
my $format = join ' ', map { "\$$_" } qw(agent_task agent_policy agent_verdict
    agent_reason agent_rule agent_host agent_request
    http_authorization http_cookie http_host request request_uri
    upstream_addr upstream_status upstream_http_set_cookie
    sent_http_x_echo upstream_http_x_echo proxy_host);

my $before_policies = <<"END";
    resolver_timeout 3s;
    log_format everything '$format';
END
my $policies = <<"END";
    agent_policy one {
        trusted_certificate $ca;
        host api.internal:$port      { methods GET POST; bearer one;
                                       private 127.0.0.0/8; }
        host open.internal:$port     { private 127.0.0.0/8; }
        host *.deep.internal:$port   { private 127.0.0.0/8; }
        host pair-a.internal:$pair->{port} { bearer one; private 127.0.0.0/8; }
        host pair-b.internal:$pair->{port} { bearer one; private 127.0.0.0/8; }
        host tls12.internal:$old->{port}   { private 127.0.0.0/8; }
        host plain.internal:$plain->{port} { plaintext on;
                                             private 127.0.0.0/8; }
        host second.internal:$by2->{port}  { trusted_certificate $ca2;
                                             private 127.0.0.0/8; }
$hosts
    }
    agent_policy two {
        host api.internal:$port { bearer two; trusted_certificate $ca;
                                  private 127.0.0.0/8; }
    }
    agent_policy none {
        host api.internal:$port { trusted_certificate $ca;
                                  private 127.0.0.0/8; }
    }
    agent_policy roots {
        host api.internal:$port           { bearer one; private 127.0.0.0/8; }
        host second.internal:$by2->{port} { trusted_certificate $ca;
                                            private 127.0.0.0/8; }
    }
END

my %opt = (dns => $dns, vault => $vault, policy => $policies,
           http => $before_policies,
           server => 'access_log logs/access.log everything '
                     . 'if=$agent_logged;');
my $b = $t->broker(%opt, log_level => 'debug');

my %box;
for my $policy (qw(one two none roots)) {
    my ($l, $task) = $b->task($policy);
    $box{$policy} = { l => $l, id => $task->{task_id} };
}
my $l = $box{one}{l};

sub ended ($host, $n = 1) {
    my @lines;
    AgentTest::wait_for("the end of the request to $host", sub {
        @lines = $b->audit('egress_end', host => $host);
        return @lines >= $n;
    });
    return $lines[-1];
}


# B-054: no proof, no byte

for my $what (sort keys %bad) {
    subtest "B-054 a certificate that proves nothing ($what): no byte is sent"
        => sub {
        my $up = $bad_up{$what};
        my $r = $l->get("http://$bad{$what}[0]:" . $up->port . '/');
        is($r->{status}, 502, 'the box is answered 502') or diag $r->{raw};
        is_deeply($r->{headers}{'x-agent-broker'}, ['failed'],
                  'a header says that the broker failed the request');
        like($r->{body}, qr/\A\{"error":"failed",
                           "reason":"certificate_unverified",
                           "detail":"[^"]+",/x,
             'the body has the reason and a detail');
        my $end = ended($bad{$what}[0]);
        is($end->{failure}, 'certificate_unverified',
           'the line of the end has the failure');
        is($end->{status}, 502, 'the line of the end has the status');
        ok($up->connections > 0, 'control: the upstream was dialled');
        is(scalar(() = $up->requests), 0, 'no request reached the upstream');
        is_deeply([grep { $_->{ok} } $up->events('handshake')], [],
                  'no handshake was completed');
    };
}

my $r;

subtest 'a certificate that proves the name is taken' => sub {
    $r = $l->get("http://api.internal:$port/");
    is($r->{status}, 200,
       'a host with a right certificate is served') or diag $r->{raw};
    ok(!exists ended('api.internal')->{failure},
       'the line of its end has no failure');
    $r = $l->get("http://x.deep.internal:$port/");
    is($r->{status}, 200,
       'a host that a certificate\'s wildcard covers is served');
    is(($good->requests)[-1]{sni}, 'x.deep.internal',
       'the SNI is the name of the host');
    $r = $l->get("http://tls12.internal:$old->{port}/");
    is($r->{status}, 200, 'a host that speaks TLS 1.2 at most is served');
    is(($old->events('handshake'))[-1]{version}, 'TLSv1.2',
       'it is spoken to by TLS 1.2');
};


# Trust is each host's own

subtest 'trusted_certificate is each rule\'s own' => sub {
    $r = $box{roots}{l}->get("http://api.internal:$port/");
    is($r->{status}, 502,
       'without trusted_certificate the system\'s roots count: 502 for the '
       . 'test\'s');
    my ($end) = AgentTest::wait_for('the end of its request', sub {
        ($b->audit('egress_end', task => $box{roots}{id}))[-1] });
    is($end->{failure}, 'certificate_unverified',
       'the line of the end has the failure certificate_unverified');
    $r = $l->get("http://second.internal:$by2->{port}/");
    is($r->{status}, 200,
       'another authority is trusted for the rule that names it');
    $r = $box{roots}{l}->get("http://second.internal:$by2->{port}/");
    is($r->{status}, 502,
       'another authority is not trusted for a rule that names the first');
    is(scalar(() = $by2->requests), 1,
       'nothing was sent to the host of an authority that is not trusted');
};


# B-055: a good host, then a bad one at the same address, warm

subtest 'B-055 a session with one host spares another at its address no '
    . 'proof'
    => sub {
    for (1 .. 5) {
        is($l->get("http://pair-a.internal:$pair->{port}/")->{status}, 200,
           "round $_: the host with a right certificate is served");
        is($l->get("http://pair-b.internal:$pair->{port}/")->{status}, 502,
           "round $_: the host with a wrong one at the same address gets 502");
    }
    is_deeply([grep { $_->{sni} ne 'pair-a.internal' } $pair->requests], [],
              'no request reached the host with the wrong certificate');
    is(scalar(() = $pair->requests), 5,
       'all five requests reached the host with the right one');
};


# Nothing is mixed

my %expected = (
    one  => { 'api.internal' => "Bearer $token", 'open.internal' => undef },
    two  => { 'api.internal' => "Bearer $other" },
    none => { 'api.internal' => undef },
);
my $before;
subtest 'B-057 C-006 C-009 C-010 each task and host has its own connection and token'
    => sub {
    $before = () = $good->requests;
    my $n = 0;
    for my $round (1 .. 20) {
        for my $policy (sort keys %expected) {
            for my $host (sort keys %{ $expected{$policy} }) {
                my $r = $box{$policy}{l}->get("http://$host:$port/mix/$policy");
                $n++ if $r->{status} == 200;
            }
        }
    }
    is($n, 80, '80 requests of three tasks for two hosts are served');
    my @mixed = $good->requests;
    @mixed = @mixed[$before .. $#mixed];
    is(scalar @mixed, 80, 'all 80 arrive');
    my (%conn, @wrong);
    for my $q (@mixed) {
        my ($policy) = $q->{target} =~ m{/mix/(\w+)};
        my $auth = $q->{headers}{authorization};
        my $want = $expected{$policy}{ $q->{sni} };
        push @wrong, "$policy $q->{sni}"
            if ($auth ? "@$auth" : '') ne ($want // '');
        push @wrong, "$q->{sni} is not @{ $q->{headers}{host} }"
            if $q->{headers}{host}[0] ne "$q->{sni}:$port";
        $conn{ $q->{conn} }{ "$policy $q->{sni}" }++;
    }
    is_deeply(\@wrong, [],
              'each has the token of its task and rule, or none, and the name '
              . 'of its host');
    is_deeply([grep { keys %$_ > 1 } values %conn], [],
              'no connection carried requests of two tasks or hosts');
};


# C-001: two names, no token

subtest 'C-001 a request that names two hosts gets the token of neither'
    => sub {
    for my $case (["http://open.internal:$port/c1", "api.internal:$port"],
                  ["http://api.internal:$port/c1", "open.internal:$port"],
                  ["http://api.internal:$port\@open.internal:$port/c1",
                   "api.internal:$port"]) {
        my ($url, $host) = @$case;
        $r = $l->http("GET $url HTTP/1.1\r\nHost: $host\r\n\r\n");
        is($r->{status}, 400, "$url with Host $host is refused with 400");
    }
    is_deeply([grep { $_->{target} =~ /c1/ } $good->requests], [],
              'no request with two names goes up');
};


# B-066: what a client cannot send on, to a host with a credential, without
# one, and without TLS

subtest 'B-066 C-011 what a client may not send on does not go up' => sub {
    my @strip = qw(
        Authorization Proxy-Authorization Cookie Cookie2 X-Api-Key Api-Key ApiKey
        X-Auth-Token X-Access-Token X-Goog-Api-Key X-Amz-Security-Token
        X-Vault-Token Private-Token Job-Token Ocp-Apim-Subscription-Key
        X-HTTP-Method-Override X-HTTP-Method X-Method-Override X-Original-URL
        X-Rewrite-URL X-Original-Host X-Host X-Forwarded-For X-Forwarded-Host
        X-Forwarded-Proto X-Forwarded-Port X-Forwarded-Prefix X-Forwarded-Whatever
        Forwarded Via X-Real-IP X-Client-IP True-Client-IP CF-Connecting-IP
        X-Agent-Broker Proxy Proxy-Connection Keep-Alive TE Trailer Upgrade
        HTTP2-Settings);

    for my $case (map { ($_, lc, uc) } @strip) {
        for my $to (["api.internal:$port", $good], ["open.internal:$port", $good],
                    ["plain.internal:$plain->{port}", $plain]) {
            my ($host, $up) = @$to;
            my $r = $l->get("http://$host/strip",
                headers => ["$case: stripped-value", "X-Keep-$case: kept"]);
            my $seen = ($up->requests)[-1];
            ok($r->{status} == 200 && $seen->{target} eq '/strip'
               && $seen->{head} !~ /stripped-value/
               && $seen->{head} =~ /^X-Keep-\Q$case\E: kept\r$/m,
               "the client's $case does not go up to $host, X-Keep-$case "
               . "does")
                or diag $seen->{head};
        }
    }

    for my $line ('Connection: x-hop, close', "Connection: close\r\nConnection: "
                  . "x-other, X-HOP", 'connection:X-Hop,close',
                  "Connection: close\t,\tx-hop\t", 'CONNECTION: ,,x-hop,,close') {
        my $r = $l->http("GET http://open.internal:$port/hop HTTP/1.1\r\n"
            . "Host: open.internal:$port\r\n$line\r\nX-Hop: hop\r\nX-Stay: 1\r\n"
            . ($line =~ /close/ ? '' : "Connection: close\r\n") . "\r\n");
        my $seen = ($good->requests)[-1];
        ok($r->{status} == 200 && !$seen->{headers}{'x-hop'}
           && $seen->{headers}{'x-stay'},
           'a header that Connection names does not go up: '
               . ($line =~ s/\s+/ /gr))
            or diag $seen->{head};
        ok(!$seen->{headers}{connection},
           'the client\'s Connection does not go up: '
               . ($line =~ s/\s+/ /gr));
    }

    $r = $l->http("POST http://api.internal:$port/frame HTTP/1.1\r\n"
        . "Host: api.internal:$port\r\n"
        . "Connection: host, content-length, authorization, close\r\n"
        . "Content-Length: 5\r\n\r\nhello");
    my $seen = ($good->requests)[-1];
    is("$r->{status} $seen->{body} @{ $seen->{headers}{host} } "
       . "@{ $seen->{headers}{authorization} }",
       "200 hello api.internal:$port Bearer $token",
       'Connection cannot remove the framing, Host or the credential');
    is_deeply([grep { /127\.0\.0\.1|::1|$box{one}{id}/ }
               map { $_->{head} } $good->requests], [],
              'neither the address of the box nor the id of its task goes '
              . 'up');
};


# B-072: an upstream does not steer the broker, nor speak for it

subtest 'B-072 an upstream does not steer the broker, nor speak for it'
    => sub {
    my $lines = join '&', map { s/:/=/r } 'X-Accel-Redirect:/status/201',
        'X-Accel-Limit-Rate:1', 'X-Accel-Buffering:yes', 'X-Accel-Expires:99',
        'X-Accel-Charset:koi8-r', 'Alt-Svc:h3', 'NEL:x', 'Report-To:x',
        'Reporting-Endpoints:x',
        'X-Agent-Broker:denied', 'X-Own:kept';
    for my $query ($lines, lc $lines, $lines =~ s/^|&\K/x=y&/gr) {
        $r = $l->get("http://open.internal:$port/set?$query");
        is($r->{status}, 200,
           'an answer with X-Accel and the like is passed on with its '
           . 'status');
        is($r->{body}, '{"set":true}',
           'X-Accel-Redirect does not change the body of an answer');
        is_deeply([grep { /^x-accel|alt-svc|nel|report|x-agent-broker/ }
                   keys %{ $r->{headers} }], [],
                   'neither X-Accel-* nor Alt-Svc, NEL or X-Agent-Broker '
                   . 'reaches the box');
        is_deeply($r->{headers}{'x-own'}, ['kept'],
                  'an ordinary header of such an answer reaches the box');
    }
};


# B-073, C-004, C-031: a redirect and a challenge go to the box

sub raw ($text) {
    return '/raw?b64=' . MIME::Base64::encode_base64($text, '')
                         =~ tr{+/}{-_}r;
}

# What is about the connection to the upstream is not about that to the box,
# and a client of HTTP/2 takes an answer with such a header for an error.

subtest 'B-072 headers about the connection to an upstream end with it' => sub {
    my @hops = ('Connection: X-Hop, close', 'connection: x-other,Upgrade',
                'X-Hop: a', 'X-Other: a', 'Upgrade: h2,h2c', 'TE: trailers',
                'Trailer: X-T', 'Keep-Alive: timeout=5',
                'Proxy-Connection: close', 'Proxy-Authenticate: Basic',
                'Proxy-Authentication-Info: a', 'HTTP2-Settings: a');
    my $answer = sub (@lines) {
        return raw(join("\r\n", 'HTTP/1.1 200 OK', @lines, 'X-Own: kept',
                        'Content-Length: 2', '', 'ok'));
    };
    for my $way ('--http1.1', '--http2') {
        for my $lines (\@hops, [map { lc } reverse @hops],
                       map { [$_] } grep { !/^X-/ } @hops) {
            my $run = $l->do(run => { env => { PATH => $ENV{PATH} }, argv => [
                'curl', '-sSik', $way, '-x', 'http://127.0.0.1:8899',
                "https://open.internal:$port" . $answer->(@$lines)] });
            my ($head, $body) = ($run->{data} =~ s/\A.*established\r\n\r\n//sr)
                              =~ /\A(.*?)\r\n\r\n(.*)/s;
            my %got = map { lc s/:.*//sr => 1 } split /\r\n/, $head // '';
            delete @got{qw(server date content-length connection)};
            is($body, 'ok', "$way: an answer with $$lines[0] arrives")
                or diag $run->{err};
            is_deeply([sort keys %got], [sort keys %{{ map { $_ => 1 }
                (lc(($head // '') =~ s/\r\n.*//sr)), 'x-own' }}],
                '... and has its own headers only') or diag $head;
        }
    }

    my $words = join ',', map { "x$_" } 1 .. 33;
    my $r = $l->get("http://open.internal:$port"
                    . $answer->("Connection: $words"));
    is($r->{status}, 502, 'Connection with 33 words is 502');
    like($r->{body}, qr/"detail":"its Connection has more than 32 words"/,
         'the answer says why');
};

subtest 'B-073 C-004 C-031 a redirect and a challenge go to the box, unfollowed'
    => sub {
    my $asked = () = $dns->questions;
    for my $status (301, 302, 303, 307, 308) {
        for my $to ('http://evil.example/', "http://open.internal:$port/x",
                    'http://169.254.169.254/', '/raw', "//api.internal:$port/") {
            my $count = () = $good->requests;
            $r = $l->get("http://api.internal:$port" . raw(
                "HTTP/1.1 $status Go\r\nLocation: $to\r\nRefresh: 0; url=$to\r\n"
                . "Content-Length: 2\r\n\r\ngo"));
            ok($r->{status} == $status && $r->{headers}{location}[0] eq $to
               && $r->{headers}{refresh}[0] eq "0; url=$to" && $r->{body} eq 'go',
               "a $status to $to is passed back unchanged") or diag $r->{raw};
            is(scalar(() = $good->requests), $count + 1,
               "a $status to $to is not followed");
        }
    }
    is(scalar(grep { $_->{name} =~ /evil/ } $dns->questions), 0,
       'no name of a redirect is asked for');

    $r = $l->get("http://api.internal:$port" . raw("HTTP/1.1 401 No\r\n"
        . "WWW-Authenticate: Bearer realm=\"https://evil.example/token\"\r\n"
        . "Content-Length: 2\r\n\r\nno"));
    is($r->{status}, 401, 'a 401 is passed back to the box');
    is_deeply($r->{headers}{'www-authenticate'},
              ['Bearer realm="https://evil.example/token"'],
              'the challenge of a 401 is passed back unchanged');
    is(scalar(grep { $_->{name} =~ /evil/ } $dns->questions), 0,
       'the name of the challenge\'s realm is not asked for');
};


# C-032: nothing is kept

subtest 'C-032 an answer to one task is not kept for another' => sub {
    $before = () = $good->requests;
    for my $policy (qw(one two none one)) {
        my $r = $box{$policy}{l}->get("http://api.internal:$port/set?"
                                      . 'Cache-Control=public,max-age=9999'
                                      . '&ETag=%22x%22&Expires=99999999');
        is($r->{status}, 200,
           "an answer that may be cached is given to a task of policy "
           . "$policy");
    }
    is(scalar(() = $good->requests), $before + 4,
       'each of four requests was answered by the upstream');
};


# B-053: lines without an end

sub memory () {
    my ($worker) = $b->workers;
    my ($kib) = $t->read("/proc/$worker/status") =~ /VmHWM:\s+(\d+)/;
    return $kib;
}

subtest 'B-053 an answer with a line without an end is cut off' => sub {
    my $peak = memory();
    for my $kind (qw(status header headers)) {
        my $r = $l->get("http://open.internal:$port/flood/$kind?n=33554432");
        is($r->{status}, 502, "an answer with an endless $kind: 502");
    }
    cmp_ok(memory() - $peak, '<', 4096,
           'the worker\'s memory grew by less than 4 MiB');
    is($l->get("http://open.internal:$port/")->{status}, 200,
       'the next request to the same host is served');
};


# Answers that are none, or not the one asked for

for my $case (
    ['no HTTP', "SSH-2.0-x\r\n"],
    ['a status of two digits', "HTTP/1.1 20 x\r\n\r\n"],
    ['a status of four digits', "HTTP/1.1 2000 x\r\n\r\n"],
    ['a status over 599', "HTTP/1.1 999 x\r\n\r\n"],
    ['two spaces before the status', "HTTP/1.1  403 x\r\n\r\n"],
    ['HTTP/2.0', "HTTP/2.0 403 x\r\n\r\n"],
    ['a header that is none', "HTTP/1.1 200 x\r\nX-A\0b: c\r\n\r\n"],
    ['nothing', ''],
) {
    my ($what, $text) = @$case;
    my $r = $l->get("http://open.internal:$port" . raw($text));
    is($r->{status}, 502,
       "an answer that is not HTTP ($what): 502") or diag $r->{raw};
    is_deeply($r->{headers}{'x-agent-broker'}, ['failed'],
              "an answer that is not HTTP ($what): the broker says that it "
              . "failed");
}

for my $first ('HTTP/1.1 403 x', 'HTTP/1.0 403', 'HTTP/1.1 403 ') {
    my $r = $l->get("http://open.internal:$port" . raw("$first\r\n"
        . "X-Agent-Broker: denied\r\nX-Own: 1\r\nConnection: close\r\n"
        . "Content-Length: 0\r\n\r\n"));
    is($r->{status}, 403,
       "B-072 an answer with the status line '$first' has its status");
    ok($r->{headers}{'x-own'} && !$r->{headers}{'x-agent-broker'},
       "B-072 the headers of an answer with the status line '$first' are "
       . "filtered");
}

for my $status (100, 101, 102, 103, 199) {
    for my $ask ([], ['Upgrade: echo', 'Connection: upgrade']) {
        my $last = $status == 101 ? 502 : 200;
        my $r = $l->get("http://open.internal:$port" . raw(
            "HTTP/1.1 $status Well\r\nUpgrade: echo\r\n"
            . "Connection: upgrade\r\n\r\n"
            . "HTTP/1.1 200 Yes\r\nX-Agent-Broker: denied\r\n"
            . "Connection: close\r\n"
            . "Content-Length: 2\r\n\r\nok"), headers => $ask);
        my $how = "$status, " . (@$ask ? 'with' : 'without') . ' Upgrade';
        is($r->{status}, $last,
           "B-072 G-023: after an interim answer ($how) comes $last")
            or diag $r->{raw};
        unlike($r->{raw}, qr/denied/,
               "B-072 what follows an interim answer ($how) does not speak for "
               . 'the broker');
    }
}
$l->do(open => { id => 'up', port => 8899 });
$l->do(write => { id => 'up', data =>
    "GET http://open.internal:$port/upgrade HTTP/1.1\r\n"
    . "Host: open.internal:$port\r\nConnection: upgrade\r\n"
    . "Upgrade: echo\r\n\r\n" });
my $got = $l->do(read => { id => 'up', timeout => 10 });
like($got->{data}, qr{^HTTP/1\.1 502 },
     'B-072 an upgrade that the rule does not allow becomes 502');
$l->do(shut => { id => 'up' });


subtest 'E-020 G-023: an answer is waited for behind an interim one' => sub {
    $l->do(open => { id => 'i', port => 8899 });
    $l->do(write => { id => 'i', data =>
        "GET http://open.internal:$port/interim/i HTTP/1.1\r\n"
        . "Host: open.internal:$port\r\n\r\n" });
    my $left;
    AgentTest::wait_for('the request', sub {
        ($left) = grep { $_->{target} eq '/interim/i' } $good->requests });
    for (1 .. 3) {
        my $r = $l->get("http://open.internal:$port/next");
        like($r->{body}, qr{"path": "/next"},
             'another request meanwhile has its own answer');
    }
    is_deeply([grep { $_->{conn} == $left->{conn} && $_->{target} eq '/next' }
               $good->requests], [],
               'the others go over another connection');
    $l->get("http://open.internal:$port/open/i");
    like($l->do(read => { id => 'i', timeout => 10 })->{data},
         qr{^HTTP/1\.1 200 .*"late":true}s,
         'the answer comes when the upstream sends it');
    $l->do(shut => { id => 'i' });
    like($l->get("http://open.internal:$port/next")->{body},
         qr{"path": "/next"}, 'the next request has its own answer');
};


# An end that comes with the last bytes, or soon after them, is an end

subtest 'E-020 an answer that ends with its connection is complete' => sub {
    my $had = $b->audit('egress_end', host => 'open.internal');
    for my $n (1, 7, 100, 1000) {
        for my $i (1 .. 8) {
            my $r = $l->get("http://open.internal:$port"
                            . raw("HTTP/1.1 200 Yes\r\n\r\n" . 'x' x $n));
            like($r->{body}, qr/^(?:\w+\r\n)?x{$n}(?:\r\n0\r\n\r\n)?\z/,
                 "answer $i of $n bytes has all of them") or diag $r->{raw};
        }
    }

    # an end that nobody sees becomes one by proxy_read_timeout
    my @ends;
    AgentTest::wait_for('the ends', sub {
        @ends = $b->audit('egress_end', host => 'open.internal');
        return @ends >= $had + 32;
    });
    is_deeply([grep { defined } map { $_->{failure} } @ends[$had .. $#ends]],
              [], 'none of their ends is that of a timeout');
};


subtest 'E-020 an event is with the box before the next is sent' => sub {

    $l->do(open => { id => 'sse', port => 8899 });
    $l->do(write => { id => 'sse', data =>
        "GET http://open.internal:$port/gate/g HTTP/1.1\r\n"
        . "Host: open.internal:$port\r\nConnection: close\r\n\r\n" });
    my $stream = '';
    AgentTest::wait_for('the first event', sub {
        $stream .= $l->do(read => { id => 'sse', timeout => 10 })->{data};
        return $stream =~ /data: 0/;
    });
    unlike($stream, qr/data: 1/,
           'the first event arrives while the upstream holds the second back');
    is($l->get("http://open.internal:$port/open/g")->{status}, 200,
       'the request that lets the upstream go on is served meanwhile');
    AgentTest::wait_for('the next event', sub {
        $stream .= $l->do(read => { id => 'sse', timeout => 10 })->{data};
        return $stream =~ /data: 1/;
    });
    like($stream, qr/data: 0\n\n.*data: 1\n\n/s,
         'the second event arrives when it is sent');
    $l->do(shut => { id => 'sse' });
};


# C-015, C-016: the token is in no file

$l->get("http://api.internal:$port/set?X-Echo=1", headers =>
        ['Authorization: Bearer sk_mine_0123456789', 'Cookie: c=1']);
$l->do(close => { name => 'task' });
AgentTest::wait_for('the end of the task', sub {
    $b->audit('task_end', task => $box{one}{id})
});
$b->is_clean(level => qr/alert|emerg/);

sub renderings ($secret) {
    my @all = ($secret, lc unpack('H*', $secret), uc unpack('H*', $secret),
               $secret =~ s/(\W)/sprintf '%%%02X', ord $1/ger,
               $secret =~ s/(\W)/sprintf '%%%02x', ord $1/ger,
               $secret =~ s{/}{\\/}gr, substr($secret, -8));
    for my $pad ('', 'x', 'xx') {
        my $text = MIME::Base64::encode_base64("$pad$secret", '');
        push @all, substr $text, length $pad ? 4 : 0, -4;
    }
    return map { quotemeta } @all;
}

my ($bytes, @hits) = (0);
my $needle = join '|', map { renderings($_) } $token, $other;
File::Find::find({ no_chdir => 1, wanted => sub {
    return unless -f $_;
    my $text = $t->read($File::Find::name);
    $bytes += length $text;
    push @hits, "$File::Find::name: $1" if $text =~ /(.{0,40}(?:$needle))/;
} }, $b->prefix);
subtest 'C-015 C-016 no token is in a file of the broker, at debug level'
    => sub {
    is_deeply(\@hits, [], 'no token is in any file under the prefix');
    cmp_ok($bytes, '>', 1e6, 'control: a megabyte and more was searched');
    like($t->read($b->prefix . '/logs/access.log'),
         qr/\Q$box{one}{id}\E one /, 'control: the access log was written');
    like($b->error_log, qr/\[debug\]/,
         'control: the error log has the level debug');
};

my ($worker) = $b->workers;
for my $pid ($b->master, $worker) {
    unlike($t->read("/proc/$pid/environ") . $t->read("/proc/$pid/cmdline"),
           qr/$needle/, "C-015 no token is in what /proc shows of pid $pid");
}


# C-018: the memory of a worker

SKIP: {
    skip 'C-018 the memory of a worker: only root can be two users', 1
        if !AgentTest::is_root();
    subtest 'C-018 the memory of a worker is closed to its user' => sub {

    my $nobody = getpwnam 'nobody';
    my $child = $t->spawn(['sleep', '60'], user => $nobody);
    AgentTest::wait_for('the control', sub {
        $t->read("/proc/$child->{pid}/cmdline") =~ /^sleep/
    });
    my $look = sub ($pid, $file) {
        return $t->run(['/usr/bin/python3', '-c', 'import sys; open(sys.argv[1], "rb")',
                        "/proc/$pid/$file"], user => $nobody)->{err};
    };
    is($look->($child->{pid}, 'environ'), '',
       'control: a process of that user is open to it');
    for my $file (qw(mem environ maps auxv)) {
        like($look->($worker, $file), qr/PermissionError|Permission denied/,
             "/proc/PID/$file of a worker is closed to its user");
    }
    kill 'KILL', $child->{pid};
    waitpid $child->{pid}, 0;
    $t->forget($child->{pid});
    };
}

subtest 'C-018 a worker that crashes with a token leaves no core' => sub {
    my %env = $t->nginx_env;                 # a sanitizer takes no part in this
    my $c = $t->broker(%opt, main => "working_directory %DIR%/temp;\n"
                                     . "worker_rlimit_core 100m;",
        env => { map { /^ASAN/ ? ($_ => "$env{$_}:handle_segv=0") : () }
                 keys %env });
    my $control = $c->prefix . '/temp/control';
    mkdir $control;
    chmod 01777, $control, $c->prefix . '/temp';
    my ($second) = $c->task('one');
    is($second->get("http://api.internal:$port/")->{status}, 200,
       'a request with a token is served by the worker');
    my ($victim) = $c->workers;
    kill 'SEGV', $victim;
    AgentTest::wait_for('another worker', sub {
        my @now = $c->workers;
        return @now && $now[0] != $victim;
    });
    like($c->error_log, qr/exited on signal 11/, 'control: the worker crashed');
    unlike($c->error_log, qr/core dumped/, 'nginx does not report a core');
    is_deeply([grep { -f } glob $c->prefix . '/temp/*core*'], [],
              'no core is in the worker\'s directory');

    SKIP: {
        skip 'core_pattern puts cores into no directory', 1
            if $t->read('/proc/sys/kernel/core_pattern') =~ m{^\s*[|/]|^$};
        $t->run(['sh', '-c', 'ulimit -c unlimited; sh -c \'kill -SEGV $$\''],
                cwd => $control);
        ok(scalar(glob "$control/*core*"),
           'control: another process leaves a core there');
    }
};

done_testing;
