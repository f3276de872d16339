#!/usr/bin/perl

# Unmodified clients: CONNECT, TLS that ends at the door, the web doors for
# programs that know of no proxy, and HTTP/2.  What the connection has named
# and what the request names must agree.
#
# sanitizers: targets and first bytes of a connection are read

use v5.36;

use lib 't/lib';
use AgentTest;
use Test::More;

my $token = 'sk_test_0123456789abcdef_marker';

my $t   = AgentTest->new;
my $up  = $t->upstream(names => ['api.internal', 'other.internal']);
my $port = $up->port;
my $rule = $t->rule;

my $b = $t->broker(names => [qw(api.internal other.internal)],
                   vault => "api = $token\n", policy => <<"END");
    host api.internal:$port { methods GET POST; bearer api; $rule }
    host other.internal:$port { $rule }
END

my ($l, $task) = $b->task;
is_deeply([map { "$_->{name} $_->{port}" } @{ $task->{doors} }],
          ['proxy 8899', 'web 80', 'web 443', "web $port", 'dns-udp 53',
           'dns-tcp 53'],
          'a task has a door for the proxy, each port of a rule and names');

my $ca = $t->write('box-ca.pem', $task->{ca});
my $seen = 0;

# curl in the box; what it printed, with its status at the end
sub curl (@args) {
    my $run = $l->do(run => {
        argv => ['curl', '-sS', '--max-time', '60', '--cacert', $ca,
                 '-w', '\n%{http_code} %{http_version} %{exitcode}', @args],
        env => { PATH => $ENV{PATH} } });
    die $run->{error} if $run->{error};
    my ($body, $code, $version, $exit)
        = $run->{data} =~ /^(.*)\n(\d+) ([\d.]+) (\d+)\z/s;
    return { body => $body, code => $code, version => $version,
             exit => $run->{status}, err => $run->{err} };
}

sub through_proxy (@args) { curl('-x', 'http://127.0.0.1:8899', @args) }

sub to_web (@args) {
    curl('--noproxy', '*', '--connect-to', '::192.0.2.7:', @args);
}

sub newest { return ($up->requests)[-1] }


my $r;

subtest 'https by CONNECT reaches the host' => sub {
    $r = through_proxy("https://api.internal:$port/echo", '--http1.1');
    is($r->{code}, 200,
       'the client is answered 200') or diag explain $r, $b->error_log;
    is_deeply(newest->{headers}{authorization}, ["Bearer $token"],
              'the token is attached outside of the box');
    is(newest->{sni}, 'api.internal',
       'the upstream is spoken to by TLS, with its name');
};

$r = through_proxy("https://api.internal:$port/echo");
is("$r->{code} $r->{version}", '200 2',
   'HTTP/2 is spoken through a CONNECT, by ALPN');

subtest 'B-001 a client that knows of no proxy meets the same rules' => sub {
    $r = to_web("https://api.internal:$port/echo");
    is("$r->{code} $r->{version}", '200 2',
       'https to any IPv4 address reaches the host, by HTTP/2')
        or diag explain $r;

    $r = to_web("http://api.internal:$port/echo");
    is($r->{code}, 200, 'cleartext to any IPv4 address reaches the host');
    is(newest->{tls}, JSON::PP::true,
       'a cleartext request of the box goes up by TLS');

    $r = curl('--noproxy', '*', '--connect-to', '::[2001:db8::7]:',
              "https://api.internal:$port/echo");
    is($r->{code}, 200, 'https to any IPv6 address reaches the host');
};

$r = through_proxy('-p', "http://api.internal:$port/echo");
is($r->{code}, 200, 'plain HTTP in a CONNECT is served');

my $body = $t->write('body', 'x' x 200000);
$r = through_proxy("https://api.internal:$port/echo", '-d', "\@$body");
is(length newest->{body}, 200000, 'a body over HTTP/2 arrives whole');

$r = through_proxy("https://api.internal:$port/echo",
                   "https://other.internal:$port/echo");
is(newest->{sni}, 'other.internal',
   'a second host over the same proxy is reached by its own name');
ok(!newest->{headers}{authorization},
   'a second host is not sent the credential of the first');

my @connects = $b->audit('connect');
ok(@connects >= 5, 'each CONNECT leaves a line');
is($connects[0]{host}, 'api.internal', 'the line of a CONNECT has the host');


subtest 'B-048 a stream for another host than that of its connection' => sub {
    $r = through_proxy('-H', "Host: other.internal:$port",
                       "https://api.internal:$port/echo");
    is("$r->{code} $r->{version}", '421 2',
       'it is answered 421 over HTTP/2');
    like($r->{body}, qr/authority_mismatch/,
         'the answer has the reason authority_mismatch');
};


# Refused

subtest 'a host that no rule names is refused at each door' => sub {
    my $before = $up->connections;

    $r = through_proxy('https://evil.example/');
    is($r->{exit}, 56, 'the client of a CONNECT to it fails');
    like($r->{err}, qr/403/, 'the CONNECT is answered 403');

    $r = to_web('https://evil.example/');
    is($r->{exit}, 35, 'the client of TLS to it fails');
    like($r->{err}, qr/unrecognized name/i,
         'the TLS alert is unrecognized_name');

    $r = to_web('http://evil.example/');
    is($r->{code}, 403, 'cleartext to it is answered 403');
    like($r->{body}, qr/host_not_allowed/,
         'the answer to cleartext has the reason host_not_allowed');

    $r = to_web('https://api.internal/');
    is($r->{exit}, 35, 'TLS to another port of an allowed host fails');

    is($up->connections, $before, 'no upstream is dialled for a refused host');
    is_deeply([map { "$_->{host}:$_->{port} $_->{reason}" }
               $b->audit('egress', verdict => 'denied')],
              ["other.internal:$port authority_mismatch",
               'evil.example:443 host_not_allowed',
               'evil.example:443 host_not_allowed',
               'evil.example:80 host_not_allowed',
               'api.internal:443 port_not_allowed'],
              'each refused host leaves one line, with its reason');
};


# B-043, B-046: what was named first holds

sub inside ($sni, @lines) {
    my $script = <<'END';
import socket, ssl, sys
connect, sni, ca, text = sys.argv[1:5]
s = socket.create_connection(("127.0.0.1", 8899))
s.sendall(("CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (connect, connect)).encode())
head = s.recv(4096)
assert b" 200 " in head, head
c = ssl.create_default_context(cafile=ca)
c.check_hostname = False
try:
    s = c.wrap_socket(s, server_hostname=sni or None)
    s.sendall(text.encode("latin1").decode("unicode_escape").encode("latin1"))
    print(s.recv(65536).decode("latin1"))
except ssl.SSLError as e:
    print("ALERT", e.reason)
END
    my $run = $l->do(run => { argv => ['/usr/bin/python3', '-c', $script,
        "api.internal:$port", $sni, $ca, join('', map { "$_\\r\\n" } @lines, '')],
        env => {} });
    return $run->{data} || $run->{err};
}

subtest 'B-043 the SNI must be the name of the CONNECT' => sub {
    like(inside('api.internal', 'GET /echo HTTP/1.1', "Host: api.internal:$port"),
         qr/^HTTP\/1.1 200/, 'the same name is served');
    like(inside('other.internal', 'GET / HTTP/1.1', 'Host: x'),
         qr/^ALERT/, 'another allowed name gets an alert');
    like(inside('', 'GET / HTTP/1.1', 'Host: x'), qr/^ALERT/,
         'a hello without a name gets an alert');
    like(inside('API.Internal', 'GET /echo HTTP/1.1',
                "Host: api.internal:$port"), qr/^HTTP\/1.1 200/,
         'the same name in capitals is served');
};

subtest 'B-046 inside a CONNECT a request must name the host of the CONNECT'
    => sub {
    for my $case (
        ['another host',          "Host: other.internal:$port", '/'],
        ['a denied host',         'Host: evil.example', '/'],
        ['another port',          'Host: api.internal:8443', '/'],
        ['no port',               'Host: api.internal', '/'],
        ['an absolute http URL',  "Host: api.internal:$port",
         "http://api.internal:$port/"],
        ['another absolute URL',  "Host: other.internal:$port",
         "https://other.internal:$port/"],
        ['an address',            'Host: 10.0.0.1', '/'],
    ) {
        my ($what, $host, $target) = @$case;
        my $got = inside('api.internal', "GET $target HTTP/1.1", $host);
        like($got, qr/^HTTP\/1.1 400.*authority_mismatch/s,
             "a request with $what is "
             . "refused") or diag $got;
    }
};


# B-051: early bytes

subtest 'B-051 bytes behind a CONNECT are refused' => sub {
    for my $more ("GET http://api.internal:$port/early HTTP/1.1\r\nHost: x\r\n\r\n",
                  "\x16\x03\x01\x00\x05hello") {
        my $got = $l->http("CONNECT api.internal:$port HTTP/1.1\r\n"
                           . "Host: api.internal:$port\r\n\r\n$more");
        is($got->{status}, 400,
           'a CONNECT with bytes behind it is answered 400');
    }
    is(scalar(grep { $_->{target} =~ /early/ } $up->requests), 0,
       'no byte behind a CONNECT is taken for a request');
};


# B-018: what CONNECT may name

subtest 'B-018 a CONNECT names one host and one port, and nothing else'
    => sub {
    for my $target ('api.internal', 'api.internal:', ':443', ':',
                    "api.internal:$port/", "api.internal:$port?",
                    "u\@api.internal:$port", "http://api.internal:$port",
                    'api.internal:65536', 'api.internal:007', 'api.internal:-1',
                    'api.internal:https', "[api.internal]:$port",
                    '[[::1]]:443', '::1:443', "api.internal :$port") {
        my $got = $l->http("CONNECT $target HTTP/1.1\r\nHost: x\r\n\r\n");
        is($got->{status}, 400, "CONNECT $target is malformed")
            or diag $got->{raw};
    }
    is($l->http("CONNECT api.internal:$port HTTP/1.1\r\nHost: evil.example\r\n\r\n")
       ->{status}, 400, 'a CONNECT with another Host is refused with 400');
    is($l->http("CONNECT api.internal:$port HTTP/1.1\r\n"
                . "Content-Length: 5\r\n\r\nhello")->{status}, 400,
       'a CONNECT with a body is refused with 400');
};


# The authority of the boxes

subtest 'the authority that signs for the boxes is limited and kept' => sub {
    my $text = $t->openssl('x509', '-in', $ca, '-noout', '-text');
    like($text, qr/CA:TRUE, pathlen:0/,
         'the boxes\' authority cannot sign another authority');
    my $key = $b->prefix . '/agent-state/ca.pem';
    is((stat $key)[2] & 07777, 0600,
       'the key of the boxes\' authority has mode 0600');
    my $old = $t->read($key);
    $b->reload;
    is($t->read($key), $old,
       'the boxes\' authority is the same after a reload');
};

$b->is_clean;

done_testing;
