#!/usr/bin/perl

# Raw bytes through the door: whatever the form of a request, it is judged as
# what it says, or refused; a refusal dials nothing, asks no name server, and
# leaves one line.
#
# sanitizers: requests of every form are read

use v5.36;

use lib 't/lib';
use AgentTest;
use JSON::PP ();
use Test::More;

my $token = 'sk_parse_0123456789abcdef_marker';

my $t     = AgentTest->new;
my $up    = $t->upstream(names => ['api.internal', 'b.internal',
                                   '*.pkg.internal']);
my $plain = $t->upstream(plain => 1);
my $port  = $up->port;

# every name leads to the upstream: what is not dialled was refused
my $here = { A => ['127.0.0.1'] };
my $dns  = $t->dns({ map { $_ => $here }
    'api.internal', 'b.internal', '*.pkg.internal', 'pkg.internal',
    'plain.internal', 'evil.example', '*.evil.example', '*.internal' });

my $ca = $t->ca->{cert};

my $b = $t->broker(dns => $dns, vault => "api = $token\n",
                   http => 'resolver_timeout 3s;', policy => <<"END");
    agent_policy analysis {
        trusted_certificate $ca;
        requests 1000000;
        audit_budget 1000000 1g;
        refusals 1000000;
        host api.internal:$port {
            methods GET POST HEAD;
            bearer  api;
            private 127.0.0.0/8;
        }
        host b.internal:$port     { private 127.0.0.0/8; }
        host *.pkg.internal:$port { private 127.0.0.0/8; }
        host plain.internal:$plain->{port} {
            plaintext on;
            private 127.0.0.0/8;
        }
    }
END

my ($l, $task) = $b->task;

my $A = "api.internal:$port";
my $end = "Connection: close\r\n\r\n";


# How many lines of requests there are: decisions, and what never was one.

sub lines () {
    my $text = $t->read($b->prefix . '/logs/agent-audit.log');
    my $n = () = $text =~ /"event":"(?:egress|door_error)"/g;
    return $n;
}

my $expected = 0;

# The newest line of a request, decoded.
sub newest () {
    my ($text) = $t->read($b->prefix . '/logs/agent-audit.log')
        =~ /.*^([^\n]*"event":"(?:egress|door_error)"[^\n]*)\n/ms;
    return JSON::PP::decode_json($text);
}

sub one_line ($what) {
    $expected++;
    AgentTest::wait_for("the line of $what", sub { lines() >= $expected });
    is(lines(), $expected, "$what: it leaves one line");
    return newest();
}

# Sends the bytes, and expects one refusal, one line, and no dialling.
sub refused ($what, $raw, $status, $reason = undef, %opt) {
    my $line;
    subtest "$what: refused" => sub {
        my $dials = $up->connections + $plain->connections;
        my $asked = $dns->questions;
        my $r = $l->http($raw);
        if ($opt{http_0_9}) {
            unlike($r->{raw}, qr/"ok"/, 'it is not served');
        } else {
            ok(($r->{status} // '') =~ /^(?:$status)$/,
               "it is answered with $status") or diag $r->{raw};
            is_deeply($r->{headers}{'x-agent-broker'}, ['denied'],
                      'a header says that the broker decided so');
            like($r->{body}, qr/\A\{"error":"denied",/, 'the body too');
            my $answers = () = $r->{raw} =~ m{HTTP/1\.1 \d}g;
            is($answers, 1, 'it has one answer');
            ok($r->{eof} || ($r->{headers}{connection}[0] // '') eq 'close',
               'the connection is closed after it');
        }
        $line = one_line($what);
        is($line->{task}, $task->{task_id}, 'its line has the task');
        is($line->{reason}, $reason, "its line has the reason $reason")
            if $reason;
        is($up->connections + $plain->connections, $dials,
           'no upstream is dialled for it');
        is(scalar($dns->questions), scalar($asked),
           'no name is asked for it');
    };
    return $line;
}

sub allowed ($what, $raw, %opt) {
    my $r = $l->http($raw, %opt);
    is($r->{status}, 200,
       "$what: it is served") or diag $r->{raw}, $b->error_log;
    my $line = one_line($what);
    is($line->{verdict}, 'allowed', "$what: its line has the verdict");
    return $r;
}


# Every form, a host that is not allowed and one that is

subtest 'B-001 every form of a request is judged by the same rules' => sub {
    for my $host ('evil.example', "evil.example:$port") {
        refused("http URL of $host",
                "GET http://$host/ HTTP/1.1\r\nHost: $host\r\n$end", 403,
                'host_not_allowed');
        refused("https URL of $host",
                "GET https://$host/ HTTP/1.1\r\nHost: $host\r\n$end", 403,
                'host_not_allowed');
        refused("origin-form to $host",
                "GET / HTTP/1.1\r\nHost: $host\r\n$end", 403, 'host_not_allowed');
        refused("CONNECT $host",
                "CONNECT $host HTTP/1.1\r\nHost: $host\r\n\r\n", '4..');
    }

    for my $form (["http URL", "http://$A/"], ["https URL", "https://$A/"],
                  ["origin-form", '/'], ["HTTP in capitals", "HTTP://$A/"]) {
        my ($what, $target) = @$form;
        allowed($what, "GET $target HTTP/1.1\r\nHost: $A\r\n$end");
        refused("$what, another method",
                "DELETE $target HTTP/1.1\r\nHost: $A\r\n$end", 403,
                'method_not_allowed');
    }

    is($l->http("CONNECT $A HTTP/1.1\r\nHost: $A\r\n\r\n", timeout => 0.2)->{status},
       200, 'a CONNECT to an allowed host is answered 200');

    allowed('HTTP/1.0 with a URL and no Host', "GET http://$A/ HTTP/1.0\r\n\r\n");
};


# B-002, B-047: connection, its age and how bytes arrive change nothing

sub read_until ($id, $re) {
    my $data = '';
    while ($data !~ $re) {
        my $got = $l->do(read => { id => $id, timeout => 10 });
        die $got->{error} if $got->{error};
        $data .= $got->{data};
        last if $got->{eof} || $got->{data} eq '';
    }
    return $data;
}

my $data;
subtest 'B-002 B-047 the age of a connection changes no verdict, nor how '
    . 'bytes come'
    => sub {
    my $second = qr/\{"ok".*\}\z/s;

    $l->do(open => { id => 'k', port => 8899 });
    $l->do(write => { id => 'k', data => "GET http://$A/1 HTTP/1.1\r\n"
                                         . "Host: $A\r\n\r\n" });
    like(read_until('k', $second), qr{^HTTP/1\.1 200 },
         'a first request is served');
    one_line('the first request of the connection');
    $l->do(write => { id => 'k', data => "GET http://b.internal:$port/2 HTTP/1.1"
                                         . "\r\nHost: b.internal:$port\r\n\r\n" });
    like(read_until('k', $second), qr{^HTTP/1\.1 200 },
         'a second request, to another host, is served');
    one_line('the second request of the connection');
    my @pair = grep { $_->{target} =~ m{^/[12]$} } $up->requests;
    is_deeply([map { $_->{headers}{authorization} } @pair],
              [["Bearer $token"], undef],
              'each request has the credential of its own rule');
    is_deeply([map { $_->{sni} } @pair], ['api.internal', 'b.internal'],
              'each request has its own name in the SNI');
    isnt($pair[0]{conn}, $pair[1]{conn},
         'each request has its own connection to the upstream');
    for my $byte (split //, "GET http://evil.example/ HTTP/1.1\r\n"
                            . "Host: evil.example\r\n\r\n") {
        $l->do(write => { id => 'k', data => $byte });
    }
    $data = read_until('k', qr/\A(?!)/);
    like($data, qr{^HTTP/1\.1 403 },
         'a third request, which comes byte by byte, is refused');
    is(one_line('the third')->{reason}, 'host_not_allowed',
       'the line of the third request has the reason host_not_allowed');
    ok($l->do(read => { id => 'k', timeout => 5 })->{eof},
       'the connection is closed after the refusal');
    $l->do(shut => { id => 'k' });
};


# B-064: pipelined requests are judged one by one

subtest 'B-064 pipelined requests are judged one by one' => sub {
    for my $case (
        ['GET', "GET http://$A/p HTTP/1.1\r\nHost: $A\r\n\r\n", ''],
        ['with a body', "POST http://$A/p HTTP/1.1\r\nHost: $A\r\n"
                        . "Content-Length: 5\r\n\r\nhello", 'hello'],
        ['chunked', "POST http://$A/p HTTP/1.1\r\nHost: $A\r\n"
                    . "Transfer-Encoding: chunked\r\n\r\n"
                    . "5\r\nhello\r\n0\r\n\r\n", 'hello'],
    ) {
        my ($what, $first, $body) = @$case;
        my $before = () = $up->requests;
        $l->do(open => { id => 'p', port => 8899 });
        $l->do(write => { id => 'p', data => $first
            . "GET http://evil.example/x HTTP/1.1\r\nHost: evil.example\r\n\r\n"
            . "GET http://$A/third HTTP/1.1\r\nHost: $A\r\n\r\n" });
        my $raw = read_until('p', qr/\A(?!)/);
        $l->do(shut => { id => 'p' });
        is_deeply([$raw =~ m{HTTP/1\.1 (\d+)}g], [200, 403],
                  "pipelined, $what: the second is refused, the third is "
                  . "not read");
        $expected++;
        one_line("pipelined, $what");
        my @new = $up->requests;
        @new = @new[$before .. $#new];
        is_deeply([map { "$_->{target} $_->{body}" } @new], ["/p $body"],
                  "pipelined, $what: the upstream saw the first only");
        unlike(join('', map { $_->{head} } $up->requests), qr/evil|third/,
               "pipelined, $what: no byte of the rest went up");
    }
};


# B-010, B-014, B-020, B-028: names that are nearly right

subtest 'B-010 B-014 B-020 B-028 names that are nearly right are refused'
    => sub {
    for my $host (
        'evil-api.internal', 'api.internal.evil.example', 'xapi.internal',
        'api.internalx', 'api.interna', 'api', 'internal', 'pkg.internal',
        'api-internal', 'a.api.internal', 'xpkg.internal',
        'xn--pi-xka.internal', 'api.internal0',
    ) {
        refused("near miss $host",
                "GET http://$host:$port/ HTTP/1.1\r\nHost: $host:$port\r\n$end",
                403, 'host_not_allowed');
        refused("near miss $host, origin-form",
                "GET / HTTP/1.1\r\nHost: $host:$port\r\n$end", 403,
                'host_not_allowed');
    }

    for my $host (
        '.api.internal', 'api.internal..', 'api..internal', '.', '..',
        '-.pkg.internal', 'a..pkg.internal', '*.pkg.internal', '.pkg.internal',
        '127.0.0.1..', 'a' x 64 . '.pkg.internal', 'a.' x 130 . 'pkg.internal',
        'api.internal@evil.example', "api.internal:$port\@evil.example",
        'evil.example@api.internal', 'api.internal%40evil.example',
        'api.internal%2eevil.example', 'api.internal%00.evil.example',
        'api.internal%0d%0a', 'api.internal,evil.example',
        "api.internal\xc3\xa9", "api\xe3\x80\x82internal", "api.internal\xef\xbc\x8e",
        '[api.internal]', 'api.internal:', 'api.internal:80:80',
        '2130706433', '0x7f000001', '0x7f.1', '0177.0.0.1', '127.1', '127.0.1',
        '127.000.000.001', '1.1.1.1.1', '256.1.1.1', '%31%32%37.0.0.1',
        '127.0.0.01', '[::ffff:127.0.0.1%25lo]', '[::1%lo]', '[0:0:0:0:0:0:0:1]',
        '[::0001]', '[::1', '::1', '[::]]', '[fe80::1%25eth0]',
    ) {
        my $name = $host =~ /:\d*$|:80:80$|\@/ ? $host : "$host:$port";
        my $shown = $host =~ s/[^ -~]/?/gr;
        $shown = substr $shown, 0, 40;
        refused("malformed $shown",
                "GET http://$name/ HTTP/1.1\r\nHost: $name\r\n$end", 400,
                'malformed');
        refused("malformed $shown, origin-form",
                "GET / HTTP/1.1\r\nHost: $name\r\n$end", 400, 'malformed');
    }

    for my $p ('0', '65536', '99999999999999999999', '-12', '007', '0443',
               'https', '$p', '+80', '80 ', '0x50') {
        refused("port $p", "GET http://api.internal:$p/ HTTP/1.1\r\n"
                . "Host: api.internal:$p\r\n$end", 400);
        next if $p eq '80 ';                     # that is white space at the end
        refused("port $p, origin-form", "GET / HTTP/1.1\r\n"
                . "Host: api.internal:$p\r\n$end", 400);
    }

    for my $host ('127.0.0.1', '127.0.0.1.', '[::1]', '8.8.8.8',
                  '[::ffff:127.0.0.1]') {
        refused("address $host",
                "GET http://$host:$port/ HTTP/1.1\r\nHost: $host:$port\r\n$end",
                '40[03]');
    }
};

subtest 'B-014 another spelling of an allowed name is that name' => sub {
    for my $host ("API.Internal:$port", "api.internal.:$port",
                  "aPi.iNTERNAL.:$port") {
        allowed("another spelling $host",
                "GET http://$host/spelt HTTP/1.1\r\nHost: $host\r\n$end");
        allowed("another spelling $host, Host differs from the URL",
                "GET http://$A/spelt HTTP/1.1\r\nHost: $host\r\n$end");
    }
    is_deeply([grep { $_->{headers}{host}[0] ne $A || $_->{sni} ne 'api.internal' }
               grep { $_->{target} eq '/spelt' } $up->requests], [],
              'all spellings go up as one name, in Host and in the SNI');
    is_deeply([grep { $_->{host} ne 'api.internal' }
               grep { ($_->{path} // '') eq '/spelt' } $b->audit('egress')], [],
              'all spellings are one name in the audit');
};


# B-017: every byte that is not of a name, at every position

subtest 'B-017 a byte that no name has is refused at every position' => sub {
    my $dials = $up->connections;
    my $asked = () = $dns->questions;
    my (@wrong, $n);
    my @bytes = map { chr } 0x00 .. 0x20, 0x7f .. 0xff,
                map { ord } split //, q{!"#$%&'()*+,;<=>@[\\]^`{|}~};
    my @places = (sub { "$_[0]api.internal" }, sub { "api$_[0].internal" },
                  sub { "api.in$_[0]ternal" }, sub { "api.internal$_[0]" });

    for my $byte (@bytes) {
        for my $place (0 .. $#places) {
            my $host = $places[$place]->($byte) . ":$port";
            my @raw = ["URL", "GET http://$host/ HTTP/1.1\r\nHost: $A\r\n"
                              . $end];
            # white space before a value is none of the value, and a bare LF
            # ends the line: Host is what was before it
            push @raw, ["Host", "GET / HTTP/1.1\r\nHost: $host\r\n$end"]
                unless ($byte eq ' ' && $place == 0) || $byte eq "\n";
            for (@raw) {
                my ($where, $raw) = @$_;
                my $r = $l->http($raw);
                $n++;
                push @wrong, sprintf '0x%02x %s %d: %s', ord $byte, $where,
                                     $place, $r->{raw}
                    if ($r->{status} // '') ne '400';
            }
        }
    }
    is_deeply(\@wrong, [],
              "$n requests with a byte that no name has are answered 400");
    $expected += $n - 1;
    my $line = one_line('the last of them');
    is($up->connections, $dials, 'no upstream is dialled for them');
    is(scalar(() = $dns->questions), $asked, 'no name is asked for them');
    like($t->read($b->prefix . '/logs/agent-audit.log'),
         qr/api\\u00ff\.internal/, 'the bytes are in the audit, escaped');

    for my $place (1 .. 2) {
        my $host = $places[$place]->("\n");
        refused("LF in Host, place $place",
                "GET / HTTP/1.1\r\nHost: $host\r\n$end", '40[03]');
    }
    refused('LF before Host\'s value',
            "GET / HTTP/1.1\r\nHost: \napi.internal:$port\r\n$end", 400);
};


# B-021: Host as such

subtest 'B-021 C-011 a Host that is not one name, or not that of the URL, is '
    . 'refused'
    => sub {
    for my $case (
        ['two equal', "Host: $A\r\nHost: $A\r\n"],
        ['two different', "Host: $A\r\nHost: evil.example\r\n"],
        ['two different, the other first', "Host: evil.example\r\nHost: $A\r\n"],
        ['a comma', "Host: $A, evil.example\r\n"],
        ['a tab before', "Host:\t$A\r\n"],
        ['folded', "Host:\r\n $A\r\n"],
        ['folded after', "Host: $A\r\n evil.example\r\n"],
        ['a space before the colon', "Host : $A\r\n"],
        ['none', ''],
        ['empty', "Host:\r\n"],
        ['a URL', "Host: http://$A/\r\n"],
        ['a path', "Host: $A/x\r\n"],
        ['two names in one', "Host: $A evil.example\r\n"],
    ) {
        my ($what, $lines) = @$case;
        refused("Host: $what, origin-form", "GET / HTTP/1.1\r\n$lines$end", 400);
        refused("Host: $what, URL", "GET http://$A/ HTTP/1.1\r\n$lines$end", 400);
    }

    for my $host ('evil.example', "b.internal:$port", 'api.internal',
                  "api.internal:" . ($port - 1), 'api.internal:443') {
        my $line = refused("URL and Host $host differ",
                           "GET http://$A/ HTTP/1.1\r\nHost: $host\r\n$end", 400,
                           'authority_mismatch');
        is($line->{host_header}, $host, "the line has the Host, $host");
        like($line->{request_line}, qr{^GET http://\Q$A\E/ },
             "the line has the URL beside the Host $host");
    }
};


# B-023: a URL that is none

my $r;

subtest 'B-023 a URL in a path is a path, and what is not a URL is '
    . 'refused'
    => sub {
    $r = allowed('a URL in the path',
            "GET /http://evil.example/x HTTP/1.1\r\nHost: $A\r\n$end");
    is(($up->requests)[-1]{target}, '/http://evil.example/x',
       'a URL in the path goes up as a path');
    allowed('two slashes', "GET //evil.example/x HTTP/1.1\r\nHost: $A\r\n$end");
    is(($up->requests)[-1]{target}, '//evil.example/x',
       'a path with two slashes goes up as a path');

    for my $target ('http:/evil.example', 'http:evil.example', 'evil.example/',
                    "http:/$A/", "http:///$A/", 'http://', 'https://',
                    "ftp://$A/", "file:///etc/passwd", "ws://$A/", '*', '',
                    'javascript:x', "\\\\evil.example\\", "http:\\\\$A/",
                    "http://$A\\\@evil.example/", "http://$A#\@evil.example/",
                    "http://$A/#x", "http://$A/ x", "/ x", "/\x01", "/\x7f",
                    "/\xff", "/#x") {
        my $shown = $target =~ s/[^ -~]/?/gr;
        refused("target '$shown'", "GET $target HTTP/1.1\r\nHost: $A\r\n$end", 400);
    }

    refused('OPTIONS *', "OPTIONS * HTTP/1.1\r\nHost: $A\r\n$end", '4..');

    for my $target ("http://$A?q=1", "http://$A/?", "http://$A") {
        allowed("target $target", "GET $target HTTP/1.1\r\nHost: $A\r\n$end");
    }
    is_deeply([map { $_->{target} } ($up->requests)[-3 .. -1]],
              ['/?q=1', '/?', '/'],
              'a URL without a path goes up with / and its query');
};


# B-018: CONNECT has one form, and what follows it at once is not read

subtest 'B-018 B-051 CONNECT has one form, and what follows it is not '
    . 'read'
    => sub {
    for my $target ('HOST/', 'HOST?', 'HOST#', 'user:pw@HOST', 'http://HOST',
                    'api.internal', 'api.internal:', ':443', ':', '',
                    'api.internal:65536', 'api.internal:$p', 'api.internal:007',
                    'api.internal:-12', 'api.internal:https', '[api.internal]:443',
                    '[[api.internal]]:443', '[::1]:443', '::1:443',
                    'api.internal :443', 'HOST x') {
        my $full = $target =~ s/HOST/$A/r;
        refused("CONNECT $target", "CONNECT $full HTTP/1.1\r\nHost: $A\r\n\r\n",
                '4..');
    }

    for my $to ($A, "evil.example:443") {
        my $line = refused("CONNECT $to with bytes behind it",
            "CONNECT $to HTTP/1.1\r\nHost: $to\r\n\r\n"
            . "\x16\x03\x01\x00\x05hello"
            . "GET http://$A/smuggled HTTP/1.1\r\nHost: $A\r\n\r\n", '4..');
        is("$line->{method} $line->{host}:$line->{port}", "CONNECT $to",
           "the line of the CONNECT to $to has its target");
    }
};


# B-049, B-051: other protocols

subtest 'B-049 B-051 no other protocol opens the connection' => sub {
    allowed('Upgrade: h2c', "GET http://$A/h2c HTTP/1.1\r\nHost: $A\r\n"
            . "Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\n"
            . "HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n");
    is_deeply([grep { exists(($up->requests)[-1]{headers}{$_}) }
               'upgrade', 'http2-settings'], [],
               'Upgrade: h2c does not go up');
    ok(!($up->requests)[-1]{headers}{connection},
       'Connection: Upgrade does not go up');

    refused('the preface of HTTP/2',
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", '4..|505');

    for my $case (['to a host that is not allowed', 'http://evil.example/'],
                  ['that its rule does not allow', "http://$A/"]) {
        my ($what, $url) = @$case;
        my ($host) = $url =~ m{//([^/]+)};
        my $raw = "GET $url HTTP/1.1\r\nHost: $host\r\nConnection: Upgrade\r\n"
                . "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                . "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
                . "\x81\x85mask!!!!!";
        $l->do(open => { id => 'u', port => 8899 });
        $l->do(write => { id => 'u', data => $raw });
        my $data = read_until('u', qr/\A(?!)/);
        $l->do(shut => { id => 'u' });
        like($data, qr{^HTTP/1\.1 403 },
             "an upgrade $what is answered 403");
        unlike($data, qr{^HTTP/1\.1 101}m,
               "an upgrade $what is not answered 101");
        one_line("an upgrade $what");
    }
    unlike(join('', map { $_->{head} . $_->{body} } $up->requests),
           qr/smuggled|mask/,
           'no byte behind an upgrade or a CONNECT went up');
};


# Framing

for my $case (
    ['length and chunked', "Content-Length: 5\r\n"
     . "Transfer-Encoding: chunked\r\n", "0\r\n\r\n"],
    ['chunked and length', "Transfer-Encoding: chunked\r\n"
     . "Content-Length: 5\r\n", "0\r\n\r\n"],
    ['two lengths', "Content-Length: 5\r\nContent-Length: 5\r\n", 'hello'],
    ['two different lengths', "Content-Length: 5\r\nContent-Length: 6\r\n",
     'hello'],
    ['a list of lengths', "Content-Length: 5, 5\r\n", 'hello'],
    ['a negative length', "Content-Length: -5\r\n", 'hello'],
    ['a signed length', "Content-Length: +5\r\n", 'hello'],
    ['a hexadecimal length', "Content-Length: 0x5\r\n", 'hello'],
    ['a huge length', "Content-Length: 99999999999999999999\r\n", 'hello'],
    ['two codings', "Transfer-Encoding: chunked\r\n"
     . "Transfer-Encoding: chunked\r\n", "0\r\n\r\n"],
    ['gzip, chunked', "Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"],
    ['identity', "Transfer-Encoding: identity\r\n", ''],
    ['xchunked', "Transfer-Encoding: xchunked\r\n", ''],
    ['chunked with a tab', "Transfer-Encoding:\tchunked\r\n", "0\r\n\r\n"],
) {
    my ($what, $lines, $body) = @$case;
    refused("framing: $what", "POST http://$A/f HTTP/1.1\r\nHost: $A\r\n"
            . "$lines\r\n$body", '400|501');
}

refused('chunked in HTTP/1.0', "POST http://$A/f HTTP/1.0\r\n"
        . "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", '400|501');
refused('TRACE', "TRACE http://$A/ HTTP/1.1\r\nHost: $A\r\n$end", '40[35]');
refused('a method of small letters',
        "get http://$A/ HTTP/1.1\r\nHost: $A\r\n$end", 400);
refused('a body that is too large', "POST http://$A/ HTTP/1.1\r\nHost: $A\r\n"
        . "Content-Length: 999999999\r\n\r\n", 413, 'body_too_large');

for my $version ('HTTP/2.0', 'HTTP/0.9', 'HTTP/1', 'HTTP/1.1 x', 'HTTP/1.10',
                 'http/1.1', 'HTTPS/1.1') {
    refused("version '$version'",
            "GET http://$A/ $version\r\nHost: $A\r\n$end", '400|505');
}
for my $line ("GET /", "GET http://$A/", "GET http://$A/ ") {
    refused("a request of HTTP/0.9 '$line'", "$line\r\nHost: $A\r\n$end",
            400, undef, http_0_9 => 1);
}
refused('noise', "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400);
refused('an empty method', " http://$A/ HTTP/1.1\r\nHost: $A\r\n$end", 400);

allowed('a chunked body', "POST http://$A/echo HTTP/1.1\r\nHost: $A\r\n"
        . "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        . "5;x=y\r\nhello\r\n6\r\n world\r\n0\r\nX-Trailer: 1\r\n\r\n");
is(($up->requests)[-1]{body}, 'hello world',
   'a chunked body goes up with its bytes');
ok(!exists(($up->requests)[-1]{headers}{'x-trailer'}),
   'the trailer of a chunked body does not go up');

my $whole = 'b' x 300000;
allowed('a large chunked body', "POST http://$A/ HTTP/1.1\r\nHost: $A\r\n"
        . "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        . join('', map { "7530\r\n" . substr($whole, $_ * 30000, 30000)
                         . "\r\n" } 0 .. 9) . "0\r\n\r\n");
is(($up->requests)[-1]{body_bytes}, 300000,
   'a large chunked body goes up whole');


# B-067: Expect: 100-continue

subtest 'B-067 a refused body is not asked for with 100' => sub {
    $l->do(open => { id => 'x', port => 8899 });
    $l->do(write => { id => 'x', data => "POST http://evil.example/ HTTP/1.1\r\n"
        . "Host: evil.example\r\nContent-Length: 5\r\n"
        . "Expect: 100-continue\r\n\r\n" });
    $data = read_until('x', qr/\}\n\z/);
    like($data, qr{^HTTP/1\.1 403 },
         'a refused request that expects 100 is answered 403 before its body');
    unlike($data, qr{100 Continue},
           'a refused request that expects 100 is not answered 100');
    $l->do(shut => { id => 'x' });
    one_line('a refused request that expects 100');

    $l->do(open => { id => 'x', port => 8899 });
    $l->do(write => { id => 'x', data => "POST http://$A/x100 HTTP/1.1\r\n"
        . "Host: $A\r\nContent-Length: 5\r\nExpect: 100-continue\r\n$end" });
    like(read_until('x', qr/\r\n\r\n/), qr{^HTTP/1\.1 100 },
         'an allowed request that expects 100 is asked for its body');
    $l->do(write => { id => 'x', data => 'hello' });
    like(read_until('x', qr/\A(?!)/), qr{^HTTP/1\.1 200 },
         'an allowed request that expects 100 is answered');
    $l->do(shut => { id => 'x' });
    one_line('an allowed request that expects 100');
    is(($up->requests)[-1]{body}, 'hello', 'its body goes up');
    ok(!exists(($up->requests)[-1]{headers}{expect}), 'Expect does not go up');
};


# B-063: names that an upstream could take for others
my $headers;


subtest 'B-063 no header goes up that an upstream could take for another'
    => sub {
    allowed('names with underscores', "GET http://$A/u HTTP/1.1\r\nHost: $A\r\n"
            . "Authorization_: x\r\nX_Forwarded_For: 1.2.3.4\r\n"
            . "Content_Length: 7\r\nTransfer_Encoding: chunked\r\n"
            . "X_Api_Key: x\r\nProxy_Authorization: x\r\nHost_: evil\r\n"
            . "X.Dotted: x\r\nAuthorization\x00: x\r\n" =~ s/Auth\w+\0: x\r\n//r
            . "X-Good: 1\r\n$end");
    $headers = ($up->requests)[-1]{headers};
    is_deeply([grep { /[_.]/ } keys %$headers], [],
              'no header name with an underscore or a dot goes up');
    is_deeply($headers->{'x-good'}, ['1'], 'an ordinary header goes up');

    for my $line ("Authorization\0: x", "Authori\x01zation: x", "X-A: b\0c",
                  "X-A: b\rc", ": x", "X-A : x", "X-A", " X-A: x") {
        my $shown = $line =~ s/[^ -~]/?/gr;
        my $r = $l->http("GET http://$A/inv HTTP/1.1\r\nHost: $A\r\n$line\r\n"
                         . $end);
        ok(($r->{status} // '') =~ /^(200|400)$/,
           "a request with the header '$shown' is answered 200 or 400");
        one_line("a request with the header '$shown'");
        unlike(join('', map { $_->{head} } $up->requests),
               qr/Authori.?zation.?: x|b.c/s,
               "the header '$shown' does not go up")
    }
};


# G-028: bytes that HTTP does not have

my @not_http = (
    ['a control byte in a value', "X-A: b\x01c\r\n"],
    ['ESC in a value', "X-A: b\e[0m\r\n"],
    ['DEL in a value', "X-A: b\x7f\r\n"],
    ['NUL in a value', "X-A: b\0c\r\n"],
    ['CR in a value', "X-A: b\rc\r\n"],
    ['LF behind a value', "X-A: b\n"],
    ['LF behind a value of blanks', "X-A:   \n"],
    ['LF behind a value and blanks', "X-A: b   \n"],
    ['LF and then a header', "X-A: b\nX-B: c\r\n"],
    ['LF behind a header of core\'s', "User-Agent: b\n"],
    ['a folded line', "X-A: b\r\n c\r\n"],
    ['a line that is folded by a tab', "X-A: b\r\n\tc\r\n"],
    ['a line without colon', "X-A\r\n"],
    ['a line without colon, and LF', "X-A\n"],
    ['no name', ": b\r\n"],
    ['a space before the colon', "X-A : b\r\n"],
    ['a tab before the colon', "X-A\t: b\r\n"],
    ['a space in a name', "X A: b\r\n"],
    ['a name of 8 bits', "X\xe4: b\r\n"],
    ['a control byte in a name', "X\x01A: b\r\n"],
    ['a name that is not a token', "X(A): b\r\n"],
    ['a name with a slash', "X/A: b\r\n"],
    ['a name with quotes', "\"X\": b\r\n"],
);

for my $case (@not_http) {
    my ($what, $lines) = @$case;
    refused("G-028: $what", "GET http://$A/n HTTP/1.1\r\nHost: $A\r\n"
            . "$lines$end", 400, 'malformed');
    refused("G-028: $what, at the end", "GET http://$A/n HTTP/1.1\r\n"
            . "Host: $A\r\nConnection: close\r\n$lines\r\n", 400, 'malformed');
}

for my $case (
    ['LF behind the request line', "GET http://$A/n HTTP/1.1\nHost: $A\r\n$end"],
    ['LF in the place of the empty line', "GET http://$A/n HTTP/1.1\r\n"
     . "Host: $A\r\n\n"],
    ['nothing but LF', "GET http://$A/n HTTP/1.1\nHost: $A\n\n"],
    ['CR in the request line', "GET http://$A/n\r HTTP/1.1\r\nHost: $A\r\n$end"],
    ['a tab in the request line', "GET\thttp://$A/n HTTP/1.1\r\nHost: $A\r\n$end"],
    ['a method with a control byte', "G\x01T http://$A/ HTTP/1.1\r\n"
     . "Host: $A\r\n$end"],
    ['a method that is not a token', "G(T http://$A/ HTTP/1.1\r\nHost: $A\r\n$end"],
    ['a method of 8 bits', "G\xe4T http://$A/ HTTP/1.1\r\nHost: $A\r\n$end"],
    ['a header past the first buffer', "GET http://$A/n HTTP/1.1\r\nHost: $A\r\n"
     . "X-Long: " . 'x' x 4000 . "\r\nX-A: b\x01c\r\n$end"],
) {
    my ($what, $raw) = @$case;
    refused("G-028: $what", $raw, 400, 'malformed');
}


# Connection: each header line is compared with each word of it, which with
# thousands of both would hold up all others

sub hops ($n) { return join ', ', map { "X-Hop$_" } 1 .. $n }

for my $case (
    ['33 words', 'Connection: ' . hops(33) . "\r\n"],
    ['33 words in two lines', 'Connection: ' . hops(30) . "\r\n"
     . "cONNECTION: a,b,c\r\n"],
    ['33 lines', "Connection: a\r\n" x 33],
    ['thousands of words, and many headers', "X-A: b\r\n" x 900
     . ('Connection: ' . 'a,' x 3900 . "\r\n") x 2],
) {
    my ($what, $lines) = @$case;
    for my $version ('1.0', '1.1') {
        my $line = refused("Connection with $what, HTTP/$version",
            "GET http://$A/n HTTP/$version\r\nHost: $A\r\n$lines\r\n", 400,
            'malformed');
        is($line->{detail}, 'Connection has more than 32 words',
           'the line says why');
    }
}

subtest 'control: what up to 32 words of Connection name does not go up'
    => sub {
    allowed('32 words', "GET http://$A/hops HTTP/1.1\r\nHost: $A\r\n"
            . 'Connection: ,,' . hops(15) . "\t, Keep-Alive\r\n"
            . "X-Hop1: a\r\nx-hop15: a\r\nX-hOP31: a\r\nX-Hop311: a\r\n"
            . 'Connection: ' . join(',', map { "X-Hop$_" } 17 .. 31)
            . ", close\r\n\r\n");
    my $headers = ($up->requests)[-1]{headers};
    is_deeply([grep { /hop/ } keys %$headers], ['x-hop311'],
              'a header that none of them names goes up');
};

subtest 'G-028: control: what HTTP has is served' => sub {
    allowed('bytes of 8 bits, tabs, blanks and no value',
            "GET http://$A/ok HTTP/1.1\r\nHost: $A\r\nX-A: \xe4\tb \t \r\n"
            . "X-B:\r\nX-C:   \r\nX-D:e\r\nX!#\$%&'*+^`|~: f\r\n$end");
    my $headers = ($up->requests)[-1]{headers};
    is_deeply([map { $headers->{$_} } qw(x-b x-c x-d)], [[''], [''], ['e']],
              'values arrive as they are');
    ok(!(grep { /[!#]/ } keys %$headers), 'odd names do not go up');
    allowed('a header past the first buffer',
            "GET http://$A/ok HTTP/1.1\r\nHost: $A\r\nX-Long: " . 'x' x 4000
            . "\r\nX-Last: y\r\n$end");
    is_deeply(($up->requests)[-1]{headers}{'x-last'}, ['y'],
              'the one behind it arrives');
};

subtest 'G-028: a later request of a connection is read as the first' => sub {
    for my $between ('', 'wait') {
        $l->do(open => { id => 'n', port => 8899 });
        my $good = "GET http://$A/1 HTTP/1.1\r\nHost: $A\r\n\r\n";
        my $bad = "GET http://$A/2 HTTP/1.1\r\nHost: $A\r\nX-A: b\nX-B: c\r\n"
                . "\r\n";
        $l->do(write => { id => 'n', data => $between ? $good : $good . $bad });
        my $data = $between ? read_until('n', qr/\{"ok".*\}\z/s) : '';
        $l->do(write => { id => 'n', data => $bad }) if $between;
        $data .= read_until('n', qr/\A(?!)/);
        $l->do(shut => { id => 'n' });
        is_deeply([$data =~ m{HTTP/1\.1 (\d+)}g], [200, 400],
                  'the first is served, the second is refused');
        $expected++;
        is(one_line('the second')->{reason}, 'malformed', 'as malformed');
    }
};


# B-068: too much

subtest 'B-068 headers that are too many or too large leave one full line'
    => sub {
    for my $case (
        ['10000 headers', "GET http://$A/ HTTP/1.1\r\nHost: $A\r\n"
         . join('', map { "X-H$_: v\r\n" } 1 .. 10000) . $end],
        ['a header of 1 MiB', "GET http://$A/ HTTP/1.1\r\nHost: $A\r\nX-Big: "
         . 'x' x 1048576 . "\r\n$end"],
        ['a request line of 64 KiB', "GET http://$A/" . 'x' x 65536
         . " HTTP/1.1\r\nHost: $A\r\n$end"],
        ['a request line of 1 MiB', "GET http://$A/" . 'x' x 1048576
         . " HTTP/1.1\r\nHost: $A\r\n$end"],
        ['a header name of 64 KiB', "GET http://$A/ HTTP/1.1\r\nHost: $A\r\n"
         . 'X' x 65536 . ": v\r\n$end"],
        ['a Host of 64 KiB', "GET / HTTP/1.1\r\nHost: " . 'a' x 65536
         . "\r\n$end"],
        ['headers and no end', "GET / HTTP/1.1\r\nHost: $A\r\n"
         . "X-A: b\r\n" x 100000],
    ) {
        my ($what, $raw) = @$case;
        my $line = refused($what, $raw, '400|414|431');
        like(($line->{request_line} // '') . ($line->{host_header} // ''),
             qr/\Q$A\E|aaaa/, "$what: the line has the host")
            unless $what eq 'a Host of 64 KiB';
    }
    allowed('100 cookies', "GET http://$A/c HTTP/1.1\r\nHost: $A\r\n"
            . join('', map { "Cookie: a$_=b\r\n" } 1 .. 100) . $end);
    ok(!exists(($up->requests)[-1]{headers}{cookie}),
       'none of 100 cookies goes up');
};


# B-071: escapes stay escapes

subtest 'B-071 escapes stay escapes' => sub {
    for my $target ('/a%0d%0aX-Evil:%20yes%0d%0a%0d%0aGET%20/', '/a%0aX-Evil:x',
                    '/a?b=%0d%0aX-Evil:x', '/%c2%85%e2%80%a8', '/a/%2e%2e/%2f',
                    '/a%3fb', '/%25%32%65', "/'\"<>^`{|}") {
        for my $form ($target, "http://$A$target") {
            allowed("escapes $form", "GET $form HTTP/1.1\r\nHost: $A\r\n"
                    . "User-Agent: x%0d%0aX-Evil: y\r\n$end");
            my $seen = ($up->requests)[-1];
            is($seen->{target}, $target,
               "escapes $form: the target goes up as it was sent");
            ok(!exists $seen->{headers}{'x-evil'},
               "escapes $form: no header is made of them");
        }
    }
};


for my $target ('/%00', "http://$A/%00", '/%2e%2e/', '/../x',
                "http://$A/../x", '/%', '/%zz', '/%2') {
    refused("target $target", "GET $target HTTP/1.1\r\nHost: $A\r\n$end", 400);
}


# D-007: what a client holds secret is not kept

subtest 'D-007 what a client holds secret is in no line' => sub {
    refused('user information', "GET http://user:pa55word\@evil.example/"
            . "?token=pa55query HTTP/1.1\r\nHost: evil.example\r\n"
            . "Authorization: Basic pa55header\r\nCookie: pa55cookie\r\n$end",
            400);
    refused('a query', "GET http://evil.example/p?token=pa55query HTTP/1.1\r\n"
            . "Host: evil.example\r\nAuthorization: Basic pa55header\r\n$end",
            403);
    refused('a query of a malformed target', "GET ftp://x/p?token=pa55query "
            . "HTTP/1.1\r\nHost: evil.example\r\n$end", 400);
    refused('user information in Host', "GET / HTTP/1.1\r\n"
            . "Host: user:pa55word\@evil.example\r\n$end", 400);
};


# The end

is(lines(), $expected, 'every request left one line');
my ($starts) = grep { $_->{event} eq 'task_start' } $b->audit;
my $closed = $l->ask('task', { op => 'close', reason => 'ok',
                               exit_code => 0, usage => {} });
is($closed->{egress}{allowed},
   scalar(grep { ($_->{verdict} // '') eq 'allowed' } $b->audit('egress')),
   'the reply to close says how many requests were allowed');
is($closed->{egress}{allowed} + $closed->{egress}{denied_count}, $expected,
   'the reply to close counts every request, allowed or refused');
$b->is_clean(level => qr/alert|emerg/);
unlike($t->read($b->prefix . '/logs/agent-audit.log'), qr/pa55|\Q$token/,
       'D-007 no secret of a client and no token is in the audit');
unlike($b->error_log, qr/\Q$token/, 'the token is not in the error log');

done_testing;
