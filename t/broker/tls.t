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

my $http = <<"END";
    resolver 127.0.0.1:$dns->{port} ipv6=off;
    resolver_timeout 3s;
    agent_vault $vault;
    agent_audit logs/agent-audit.log;
    log_format everything '$format';
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
    server {
        agent_control unix:%CONTROL%;
        access_log logs/access.log everything;
        include $AgentTest::ROOT/conf/agent_proxy.conf;
    }
END

my $b = $t->broker(http => $http, log_level => 'debug');

my %box;
for my $policy (qw(one two none roots)) {
    my $l = $t->launcher;
    my $task = $l->open_task($b->control, $policy);
    BAIL_OUT("no task: " . explain $task) unless $task->{ok};
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
    my $up = $bad_up{$what};
    my $r = $l->get("http://$bad{$what}[0]:" . $up->port . '/');
    is($r->{status}, 502, "a certificate that is wrong ($what): 502")
        or diag $r->{raw};
    is_deeply($r->{headers}{'x-agent-broker'}, ['failed'],
              "$what: the broker says so");
    like($r->{body}, qr/\A\{"error":"failed",
                       "reason":"certificate_unverified",
                       "detail":"[^"]+",/x,
         "$what: and why");
    my $end = ended($bad{$what}[0]);
    is($end->{failure}, 'certificate_unverified', "$what: and the audit, why");
    is($end->{status}, 502, "$what: and what the box got");
    ok($up->connections > 0, "$what: it was dialled");
    is(scalar(() = $up->requests), 0, "$what: and no byte reached it");
    is_deeply([grep { $_->{ok} } $up->events('handshake')], [],
              "$what: no handshake ended");
}

my $r = $l->get("http://api.internal:$port/");
is($r->{status}, 200, 'a right one is taken') or diag $r->{raw};
ok(!exists ended('api.internal')->{failure}, 'without a failure');
$r = $l->get("http://x.deep.internal:$port/");
is($r->{status}, 200, 'and a wildcard that fits');
is(($good->requests)[-1]{sni}, 'x.deep.internal', 'the name is in the SNI');
$r = $l->get("http://tls12.internal:$old->{port}/");
is($r->{status}, 200, 'TLS 1.2 is spoken where there is no newer');
is(($old->events('handshake'))[-1]{version}, 'TLSv1.2', 'as it is');


# Trust is each host's own

$r = $box{roots}{l}->get("http://api.internal:$port/");
is($r->{status}, 502, 'without trusted_certificate the system\'s roots count');
is(($b->audit('egress_end', task => $box{roots}{id}))[-1]{failure},
   'certificate_unverified', 'and the test\'s is none of them');
$r = $l->get("http://second.internal:$by2->{port}/");
is($r->{status}, 200, 'another authority is trusted where it is named');
$r = $box{roots}{l}->get("http://second.internal:$by2->{port}/");
is($r->{status}, 502, 'and not where another is');
is(scalar(() = $by2->requests), 1, 'nothing was sent there');


# B-055: a good host, then a bad one at the same address, warm

for (1 .. 5) {
    is($l->get("http://pair-a.internal:$pair->{port}/")->{status}, 200,
       "pair $_: the good one");
    is($l->get("http://pair-b.internal:$pair->{port}/")->{status}, 502,
       "pair $_: the bad one is not taken for it");
}
is_deeply([grep { $_->{sni} ne 'pair-a.internal' } $pair->requests], [],
          'nothing was sent to the bad one');
is(scalar(() = $pair->requests), 5, 'and all to the good one');


# B-057, C-009, C-010: nothing is mixed

my %expected = (
    one  => { 'api.internal' => "Bearer $token", 'open.internal' => undef },
    two  => { 'api.internal' => "Bearer $other" },
    none => { 'api.internal' => undef },
);
my $before = () = $good->requests;
my $n = 0;
for my $round (1 .. 20) {
    for my $policy (sort keys %expected) {
        for my $host (sort keys %{ $expected{$policy} }) {
            my $r = $box{$policy}{l}->get("http://$host:$port/mix/$policy");
            $n++ if $r->{status} == 200;
        }
    }
}
is($n, 80, '80 requests of three boxes, two hosts, two tokens');
my @mixed = $good->requests;
@mixed = @mixed[$before .. $#mixed];
is(scalar @mixed, 80, 'all arrive');
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
is_deeply(\@wrong, [], 'each with its own token and name');
is_deeply([grep { keys %$_ > 1 } values %conn], [],
          'and no connection carried two of them');


# C-001: two names, no token

for my $case (["http://open.internal:$port/c1", "api.internal:$port"],
              ["http://api.internal:$port/c1", "open.internal:$port"],
              ["http://api.internal:$port\@open.internal:$port/c1",
               "api.internal:$port"]) {
    my ($url, $host) = @$case;
    $r = $l->http("GET $url HTTP/1.1\r\nHost: $host\r\n\r\n");
    is($r->{status}, 400, "$url with Host $host is refused");
}
is_deeply([grep { $_->{target} =~ /c1/ } $good->requests], [],
          'and nothing goes up');


# B-066: what a client cannot send on, to a host with a credential, without
# one, and without TLS

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
           "$case to $host is removed, and only it")
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
       'what Connection names is removed: ' . ($line =~ s/\s+/ /gr))
        or diag $seen->{head};
    ok(!$seen->{headers}{connection},
       'and what the client says of its connection stays on it');
}

$r = $l->http("POST http://api.internal:$port/frame HTTP/1.1\r\n"
    . "Host: api.internal:$port\r\n"
    . "Connection: host, content-length, authorization, close\r\n"
    . "Content-Length: 5\r\n\r\nhello");
my $seen = ($good->requests)[-1];
is("$r->{status} $seen->{body} @{ $seen->{headers}{host} } "
   . "@{ $seen->{headers}{authorization} }",
   "200 hello api.internal:$port Bearer $token",
   'Connection cannot name the framing, Host, or the credential');
is_deeply([grep { /127\.0\.0\.1|::1|$box{one}{id}/ }
           map { $_->{head} } $good->requests], [],
          'no address and no id of the box goes up');


# B-072: an upstream does not steer the broker, nor speak for it

my $lines = join '&', map { s/:/=/r } 'X-Accel-Redirect:/status/201',
    'X-Accel-Limit-Rate:1', 'X-Accel-Buffering:yes', 'X-Accel-Expires:99',
    'X-Accel-Charset:koi8-r', 'Alt-Svc:h3', 'NEL:x', 'Report-To:x',
    'X-Agent-Broker:denied', 'X-Own:kept';
for my $query ($lines, lc $lines, $lines =~ s/^|&\K/x=y&/gr) {
    $r = $l->get("http://open.internal:$port/set?$query");
    is($r->{status}, 200, 'X-Accel and the like are not obeyed');
    is($r->{body}, '{"set":true}', 'the answer is the upstream\'s');
    is_deeply([grep { /^x-accel|alt-svc|nel|report-to|x-agent-broker/ }
               keys %{ $r->{headers} }], [], 'and none is passed on');
    is_deeply($r->{headers}{'x-own'}, ['kept'], 'an ordinary header is');
}


# B-073, C-004, C-031: a redirect and a challenge go to the box

sub raw ($text) {
    return '/raw?b64=' . MIME::Base64::encode_base64($text, '')
                         =~ tr{+/}{-_}r;
}

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
        is(scalar(() = $good->requests), $count + 1, 'and not followed');
    }
}
is(scalar(grep { $_->{name} =~ /evil/ } $dns->questions), 0,
   'no name of a redirect was asked for');

$r = $l->get("http://api.internal:$port" . raw("HTTP/1.1 401 No\r\n"
    . "WWW-Authenticate: Bearer realm=\"https://evil.example/token\"\r\n"
    . "Content-Length: 2\r\n\r\nno"));
is($r->{status}, 401, 'a 401 is the box\'s to see');
is_deeply($r->{headers}{'www-authenticate'},
          ['Bearer realm="https://evil.example/token"'], 'with its challenge');
is(scalar(grep { $_->{name} =~ /evil/ } $dns->questions), 0,
   'whose realm is not contacted');


# C-032: nothing is kept

$before = () = $good->requests;
for my $policy (qw(one two none one)) {
    my $r = $box{$policy}{l}->get("http://api.internal:$port/set?"
                                  . 'Cache-Control=public,max-age=9999'
                                  . '&ETag=%22x%22&Expires=99999999');
    is($r->{status}, 200, "an answer that may be cached, for $policy");
}
is(scalar(() = $good->requests), $before + 4, 'each came from the upstream');


# B-053: lines without an end

sub memory () {
    my ($worker) = $b->workers;
    my ($kib) = $t->read("/proc/$worker/status") =~ /VmHWM:\s+(\d+)/;
    return $kib;
}

my $peak = memory();
for my $kind (qw(status header headers)) {
    $r = $l->get("http://open.internal:$port/flood/$kind?n=33554432");
    is($r->{status}, 502, "an answer with an endless $kind: 502");
}
cmp_ok(memory() - $peak, '<', 4096, 'and the worker did not grow');
is($l->get("http://open.internal:$port/")->{status}, 200, 'and serves on');


# Answers that are none, or not the one asked for

for my $case (
    ['no HTTP', "SSH-2.0-x\r\n"],
    ['a status of two digits', "HTTP/1.1 20 x\r\n\r\n"],
    ['a status of four digits', "HTTP/1.1 2000 x\r\n\r\n"],
    ['a status over 599', "HTTP/1.1 999 x\r\n\r\n"],
    ['a header that is none', "HTTP/1.1 200 x\r\nX-A\0b: c\r\n\r\n"],
    ['nothing', ''],
) {
    my ($what, $text) = @$case;
    my $r = $l->get("http://open.internal:$port" . raw($text));
    is($r->{status}, 502, "$what: 502") or diag $r->{raw};
    is_deeply($r->{headers}{'x-agent-broker'}, ['failed'], "$what: ours");
}

for my $first ('HTTP/1.1  403 x', 'HTTP/2.0 403 x', 'HTTP/1.0 403') {
    my $r = $l->get("http://open.internal:$port" . raw("$first\r\n"
        . "X-Agent-Broker: denied\r\nX-Own: 1\r\nContent-Length: 0\r\n\r\n"));
    is($r->{status}, 403, "a status line '$first' is written anew");
    ok($r->{headers}{'x-own'} && !$r->{headers}{'x-agent-broker'},
       'and its headers are looked at');
}

for my $status (100, 101, 102, 103, 199) {
    for my $ask ([], ['Upgrade: echo', 'Connection: upgrade']) {
        my $r = $l->get("http://open.internal:$port" . raw(
            "HTTP/1.1 $status Well\r\nUpgrade: echo\r\n"
            . "Connection: upgrade\r\n\r\n"
            . "HTTP/1.1 200 Yes\r\nX-Agent-Broker: denied\r\n"
            . "Content-Length: 2\r\n\r\nok"), headers => $ask);
        is($r->{status}, 502, "an interim answer $status: 502")
            or diag $r->{raw};
        unlike($r->{raw}, qr/denied/, 'and what follows is not passed on');
    }
}
$l->do(open => { id => 'up', port => 8899 });
$l->do(write => { id => 'up', data =>
    "GET http://open.internal:$port/upgrade HTTP/1.1\r\n"
    . "Host: open.internal:$port\r\nConnection: upgrade\r\n"
    . "Upgrade: echo\r\n\r\n" });
my $got = $l->do(read => { id => 'up', timeout => 10 });
like($got->{data}, qr{^HTTP/1\.1 502 }, 'an upgrade nobody may ask for: 502');
$l->do(shut => { id => 'up' });


is($l->get("http://open.internal:$port/interim/i")->{status}, 502,
   'an interim answer on a connection that stays open: 502');
my ($left) = grep { $_->{target} eq '/interim/i' } $good->requests;
for (1 .. 3) {
    my $r = $l->get("http://open.internal:$port/next");
    like($r->{body}, qr{"path": "/next"}, 'the next request has its own answer');
}
is_deeply([grep { $_->{conn} == $left->{conn} && $_->{target} eq '/next' }
           $good->requests], [], 'and another connection');
$l->get("http://open.internal:$port/open/i");


# An end that comes with the last bytes, or soon after them, is seen at once

my $began = time;
for my $n (1, 7, 100, 1000) {
    for (1 .. 8) {
        my $r = $l->get("http://open.internal:$port"
                        . raw("HTTP/1.1 200 Yes\r\n\r\n" . 'x' x $n));
        like($r->{body}, qr/^(?:\w+\r\n)?x{$n}(?:\r\n0\r\n\r\n)?\z/,
             "an answer of $n bytes ends with its connection")
            or diag $r->{raw};
    }
}
cmp_ok(time - $began, '<', 30, 'and none was waited for');


# An event is with the box before the next is sent

$l->do(open => { id => 'sse', port => 8899 });
$l->do(write => { id => 'sse', data =>
    "GET http://open.internal:$port/gate/g HTTP/1.1\r\n"
    . "Host: open.internal:$port\r\nConnection: close\r\n\r\n" });
my $stream = '';
AgentTest::wait_for('the first event', sub {
    $stream .= $l->do(read => { id => 'sse', timeout => 10 })->{data};
    return $stream =~ /data: 0/;
});
unlike($stream, qr/data: 1/, 'the first event of a stream comes by itself');
is($l->get("http://open.internal:$port/open/g")->{status}, 200,
   'the next is sent after it');
AgentTest::wait_for('the next event', sub {
    $stream .= $l->do(read => { id => 'sse', timeout => 10 })->{data};
    return $stream =~ /data: 1/;
});
like($stream, qr/data: 0\n\n.*data: 1\n\n/s, 'and comes, too');
$l->do(shut => { id => 'sse' });


# C-015, C-016: the token is in no file

$l->get("http://api.internal:$port/set?X-Echo=1", headers =>
        ['Authorization: Bearer sk_mine_0123456789', 'Cookie: c=1']);
$l->do(close => { name => 'task' });
AgentTest::wait_for('the end of the task', sub {
    $b->audit('task_end', task => $box{one}{id})
});
is_deeply([$b->audit_errors], [], 'the audit is well formed');
unlike($b->error_log, qr/\[(?:alert|emerg)\]/, 'and nothing is wrong')
    or diag grep { /\[(?:alert|emerg)\]/ } split /^/m, $b->error_log;

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
is_deeply(\@hits, [], 'no token in any file under the prefix, at debug level');
cmp_ok($bytes, '>', 1e6, 'where there was a lot to look at');
like($t->read($b->prefix . '/logs/access.log'), qr/\Q$box{one}{id}\E one /,
     'the access log was written');
like($b->error_log, qr/\[debug\]/, 'and the log of every step');

my ($worker) = $b->workers;
for my $pid ($b->master, $worker) {
    unlike($t->read("/proc/$pid/environ") . $t->read("/proc/$pid/cmdline"),
           qr/$needle/, 'nor in what /proc shows of it');
}


# C-018: the memory of a worker

SKIP: {
    skip 'needs root, to be two users', 5 unless AgentTest::is_root();

    my $nobody = getpwnam 'nobody';
    my $child = $t->spawn(['sleep', '60'], user => $nobody);
    AgentTest::wait_for('the control', sub {
        $t->read("/proc/$child->{pid}/cmdline") =~ /^sleep/
    });
    my $look = sub ($pid, $file) {
        return $t->run(['/usr/bin/python3', '-c', 'import sys; open(sys.argv[1], "rb")',
                        "/proc/$pid/$file"], user => $nobody)->{err};
    };
    is($look->($child->{pid}, 'environ'), '', 'a process is open to its user');
    for my $file (qw(mem environ maps auxv)) {
        like($look->($worker, $file), qr/PermissionError|Permission denied/,
             "a worker's $file is not");
    }
    kill 'KILL', $child->{pid};
    waitpid $child->{pid}, 0;
    $t->forget($child->{pid});
}

my %env = $t->nginx_env;                 # a sanitizer takes no part in this
my $c = $t->broker(http => $http, main => "working_directory %DIR%/temp;\n"
                                          . "worker_rlimit_core 100m;",
    env => { map { /^ASAN/ ? ($_ => "$env{$_}:handle_segv=0") : () }
             keys %env });
my $control = $c->prefix . '/temp/control';
mkdir $control;
chmod 01777, $control, $c->prefix . '/temp';
my $second = $t->launcher;
ok($second->open_task($c->control, 'one')->{ok}, 'a task of another broker');
is($second->get("http://api.internal:$port/")->{status}, 200,
   'so that a worker held a token');
my ($victim) = $c->workers;
kill 'SEGV', $victim;
AgentTest::wait_for('another worker', sub {
    my @now = $c->workers;
    return @now && $now[0] != $victim;
});
like($c->error_log, qr/exited on signal 11/, 'a worker crashed');
unlike($c->error_log, qr/core dumped/, 'and left no core');
is_deeply([grep { -f } glob $c->prefix . '/temp/*core*'], [], 'nowhere');

SKIP: {
    skip 'cores go elsewhere here', 1
        if $t->read('/proc/sys/kernel/core_pattern') =~ m{^\s*[|/]|^$};
    $t->run(['sh', '-c', 'ulimit -c unlimited; sh -c \'kill -SEGV $$\''],
            cwd => $control);
    ok(scalar(glob "$control/*core*"), 'where another process does');
}

done_testing;
