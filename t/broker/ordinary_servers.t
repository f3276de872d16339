#!/usr/bin/perl

# An nginx with the module in it does for its ordinary servers what it did
# without: byte for byte, whether a broker is configured beside them or not.

use v5.36;

use lib 't/lib';
use AgentTest;
use IO::Socket::INET;
use IO::Socket::SSL;
use MIME::Base64 qw(encode_base64);
use Test::More;

my $t    = AgentTest->new;
my $up   = $t->upstream(plain => 1);
my $safe = $t->upstream(names => ['api.internal']);
my $cert = $t->cert(['plain.internal']);
my $ca   = $t->ca->{cert};

my $files = $t->dir . '/files';
$t->write('files/a.txt', 'a' x 1000);
$t->write('files/empty', '');
$t->write('files/big', join '', map { "line $_ of many lines;\n" } 10 .. 40000);
$t->write('files/dir/index.html', '<p>index</p>');
$t->write('files/e50x.html', 'sorry');
utime 1e9, 1e9, map { "$files/$_" } qw(a.txt empty big dir/index.html
                                       e50x.html);
my $tried = $t->write('htpasswd', 'me:{PLAIN}secret' . "\n");

sub free_port {
    return IO::Socket::INET->new(Listen => 1,
                                 LocalAddr => '127.0.0.1')->sockport;
}

sub ordinary ($plain, $tls) { return <<"END" }
    limit_req_zone \$binary_remote_addr zone=slow:1m rate=1r/m;
    upstream kept {
        server 127.0.0.1:@{[$up->port]};
        keepalive 4;
    }
    server {
        listen 127.0.0.1:$plain;
        listen 127.0.0.1:$tls ssl http2;
        server_name plain.internal;
        ssl_certificate $cert->{cert};
        ssl_certificate_key $cert->{key};
        ssl_protocols TLSv1.2 TLSv1.3;
        root $files;
        gzip on;
        gzip_types text/plain;
        gzip_min_length 500;
        client_max_body_size 3m;
        lingering_timeout 100ms;
        error_page 502 504 /e50x.html;
        resolver 127.0.0.1:1;
        location = /status  { stub_status; }
        location /autoindex/ { alias $files/dir/; autoindex on; }
        location /return    { return 200 "\$request_method \$scheme \$uri \$args \$server_protocol\\n"; }
        location /moved     { return 301 /return; }
        location /denied    { deny all; }
        location /auth      { auth_basic x; auth_basic_user_file $tried; }
        location /rewrite   { rewrite ^/rewrite/(.*)\$ /return/\$1?r=1 last; }
        location /sub       { add_header X-Sub 1; sub_filter a b; sub_filter_once off; try_files /a.txt =404; }
        location /limited   { limit_req zone=slow; return 204; }
        location /proxy/    { proxy_pass http://kept/; proxy_http_version 1.1; proxy_set_header Connection ""; }
        location /old/      { proxy_pass http://kept/; }
        location /nobuf/    { proxy_pass http://kept/; proxy_buffering off; proxy_request_buffering off; proxy_http_version 1.1; }
        location /up/       { proxy_pass http://kept/; proxy_http_version 1.1; proxy_set_header Upgrade \$http_upgrade; proxy_set_header Connection upgrade; }
        location /tls/      {
            proxy_pass https://127.0.0.1:@{[$safe->port]}/;
            proxy_ssl_verify on;
            proxy_ssl_name api.internal;
            proxy_ssl_server_name on;
            proxy_ssl_trusted_certificate $ca;
        }
        location /wrong/    {
            proxy_pass https://127.0.0.1:@{[$safe->port]}/;
            proxy_ssl_verify on;
            proxy_ssl_name other.internal;
            proxy_ssl_trusted_certificate $ca;
        }
        location /dead/     { proxy_pass http://127.0.0.1:1/; }
        location /name/     { set \$to nowhere.internal; proxy_pass http://\$to/; resolver_timeout 1s; }
        location /mirror/   { mirror /return; proxy_pass http://kept/; }
        location /x-accel/  { proxy_pass http://kept/; }
        location /internal/ { internal; alias $files/; }
    }
END

my $policies = <<"END";
    agent_audit logs/agent-audit.log;
    agent_policy analysis { host api.internal { } }
    server {
        agent_control unix:%CONTROL%;
        include $AgentTest::ROOT/conf/agent_proxy.conf;
    }
END

my @ways = ('without the module', 'with the module',
            'with a broker beside');
my @servers;

for my $way (0 .. 2) {
    my ($plain, $tls) = (free_port(), free_port());
    my $b = $t->broker(module => $way ? $t->module_path : '',
        listen => $plain,
        http => ordinary($plain, $tls) . ($way == 2 ? $policies : ''));
    push @servers, { broker => $b, plain => $plain, tls => $tls };
}


# A request as it is; the answer without what differs by time or port

sub exchange ($server, $raw, $tls) {
    my $port = $server->{ $tls ? 'tls' : 'plain' };
    my $s = $tls
        ? IO::Socket::SSL->new(PeerAddr => '127.0.0.1', PeerPort => $port,
              SSL_ca_file => $ca, SSL_verifycn_name => 'plain.internal',
              SSL_hostname => 'plain.internal', Timeout => 60,
              SSL_version => $tls)
        : IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port);
    die "no connection: $!" unless $s;

    # of a long body the answer may come before it was all sent
    my $pid = fork // die;
    if ($pid == 0) {
        local $SIG{PIPE} = 'IGNORE';
        print $s $raw;
        POSIX::_exit(0);
    }

    my $got = '';
    local $SIG{ALRM} = sub { die "timed out after: $got" };
    alarm 120;
    while (sysread $s, my $data, 65536) { $got .= $data }
    alarm 0;
    waitpid $pid, 0;
    return normal($got, $server);
}

sub normal ($text, $server) {
    $text =~ s/^date: .*\r\n//gim;
    $text =~ s/:(?:$server->{plain}|$server->{tls})\b/:PORT/g;
    $text =~ s/"conn": ?\d+/"conn":N/g;
    return $text;
}

my $end = "Host: plain.internal\r\nConnection: close\r\n";
my $kept = "Host: plain.internal\r\n";

sub request ($line, $headers = '', $body = '') {
    return "$line HTTP/1.1\r\n$end$headers\r\n$body";
}

sub raw_path ($answer) {
    return '/cut?b64=' . encode_base64($answer, '') =~ s/\+/%2B/gr
                                                    =~ s/=/%3D/gr;
}

my $sent = 'x' x 2_000_000;

my @rows = (
    ['a file', request('GET /a.txt')],
    ['a file, compressed', request('GET /a.txt', "Accept-Encoding: gzip\r\n")],
    ['an empty file', request('GET /empty')],
    ['a large file', request('GET /big')],
    ['HEAD of a file', request('HEAD /big')],
    ['a range', request('GET /big', "Range: bytes=5-20\r\n")],
    ['a range outside of the file', request('GET /a.txt', "Range: bytes=5000-\r\n")],
    ['a file that is not modified', request('GET /a.txt',
        "If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT\r\n")],
    ['a directory', request('GET /dir')],
    ['the index of a directory', request('GET /dir/')],
    ['the list of a directory', request('GET /autoindex/')],
    ['a file that is not there', request('GET /nothing')],
    ['a path above the root', request('GET /../x')],
    ['a path with a query', request('GET /return/x?a=b%20c')],
    ['a URL in absolute-form', request('GET http://plain.internal/return/x')],
    ['a URL with another host', request('GET http://other.internal/return/x')],
    ['a redirect', request('GET /moved')],
    ['a path that is rewritten', request('GET /rewrite/y?z')],
    ['a file with sub_filter', request('GET /sub')],
    ['a location that denies all', request('GET /denied')],
    ['auth_basic without credentials', request('GET /auth/')],
    ['auth_basic with wrong credentials', request('GET /auth/', "Authorization: Basic bWU6eA==\r\n")],
    ['auth_basic with right credentials', request('GET /auth/',
        "Authorization: Basic bWU6c2VjcmV0\r\n")],
    ['the method OPTIONS', request('OPTIONS /a.txt')],
    ['the method PUT', request('PUT /a.txt', "Content-Length: 1\r\n", 'x')],
    ['the method TRACE', request('TRACE /')],
    ['the method CONNECT', "CONNECT plain.internal:443 HTTP/1.1\r\n$end\r\n"],
    ['HTTP/1.0', "GET /return HTTP/1.0\r\n\r\n"],
    ['HTTP/0.9', "GET /return\r\n"],
    ['garbage in place of a request', "\x01\x02\x03\r\n\r\n"],
    ['a hello without TLS', "\x16\x03\x01\x00\x05hello\r\n\r\n"],
    ['a request without Host', "GET / HTTP/1.1\r\n\r\n"],
    ['a request with two Host lines', "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"],
    ['a request with two lengths', request('POST /proxy/echo',
        "Content-Length: 1\r\nContent-Length: 2\r\n", 'xy')],
    ['a request with a length and chunks', request('POST /proxy/echo',
        "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", 'x')],
    ['a long request line', request('GET /' . 'x' x 40000)],
    ['a long header', request('GET /', 'X: ' . 'x' x 40000 . "\r\n")],
    ['a header with an underscore', request('GET /return', "X_Y: z\r\n")],
    ['a request that expects 100', request('POST /proxy/echo',
        "Expect: 100-continue\r\nContent-Length: 3\r\n", 'abc')],
    ['a body that is too large', request('POST /proxy/echo',
        "Content-Length: 4000000\r\n")],
    ['limited: a first request', request('GET /limited') , 1],
    ['limited: a second request', request('GET /limited')],
    ['three requests on a connection', "GET /return/1 HTTP/1.1\r\n$kept\r\n"
        . "GET /proxy/ HTTP/1.1\r\n$kept\r\n" . request('GET /return/3')],
    ['a body between two requests', "POST /proxy/echo HTTP/1.1\r\n$kept"
        . "Content-Length: 5\r\n\r\nhello" . request('GET /return/3')],

    (map {
        my $at = $_;
        ["$at: a request", request("GET $at/")],
        ["$at: HEAD", request("HEAD $at/")],
        ["$at: a body", request("POST $at/echo",
            "Content-Length: 2000000\r\n", $sent)],
        ["$at: chunks", request("POST $at/echo",
            "Transfer-Encoding: chunked\r\n",
            "5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nX-T: y\r\n\r\n")],
        ["$at: a large answer", request("GET $at/big?n=3000000")],
        ["$at: a stream", request("GET $at/stream?n=5&ms=1")],
        ["$at: a status of $_", request("GET $at/status/$_")]
            } qw(/proxy /old /nobuf /tls)),
    (map { ["a status of $_", request("GET /proxy/status/$_")] }
        qw(204 301 304 400 404 500 502 503)),
    ['an answer that is cut', request('GET /proxy/short?n=1000')],
    ['an answer that is dropped', request('GET /proxy/drop')],
    ['an upgrade', request('GET /up/', "Upgrade: websocket\r\n")],
    ['a dead upstream', request('GET /dead/')],
    ['an upstream that is not verified', request('GET /wrong/')],
    ['a request that is mirrored', request('GET /mirror/')],
    (map { my ($what, $answer) = @$_;
           map { ["$what, by $_", request("GET /$_" . raw_path($answer))] }
               qw(proxy old nobuf) } (
        ['chunks with trailers', "HTTP/1.1 200 OK\r\nTransfer-Encoding: "
            . "chunked\r\nTrailer: X\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n"],
        ['an interim answer', "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
            . "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"],
        ['an answer with headers twice', "HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nSet-Cookie: "
            . "c=d\r\nX-Agent-Broker: denied\r\nAlt-Svc: x\r\n"
            . "Content-Length: 0\r\n\r\n"],
        ['an answer with a bad header', "HTTP/1.1 200 OK\r\nX Y: z\r\n\r\n"],
        ['an answer that is not HTTP', "hello\r\n"],
        ['an answer with a long header', "HTTP/1.1 200 OK\r\nX: " . 'x' x 5000
            . "\r\n\r\n"],
        ['an internal redirect', "HTTP/1.1 200 OK\r\nX-Accel-Redirect: "
            . "/internal/a.txt\r\nContent-Length: 0\r\n\r\n"],
        ['an answer of HTTP/1.0', "HTTP/1.0 200 OK\r\n\r\nto the end"])),
);

for my $tls ('', 'TLSv1_2', 'TLSv1_3') {
    for my $row (@rows) {
        my ($what, $raw) = @$row;

        # the line may be garbage, and /limited counts once for all
        next if $tls && $what =~ /^limited|hello without|garbage|0\.9/;

        my @got = map { scalar eval { exchange($_, $raw, $tls) } // $@ }
                  @servers;

        # how a stream is cut into chunks is a matter of time
        @got = map { s/\r\n[0-9a-f]+\r\n/\r\n/gr =~ s/\n\r\n(?=data)/\n/gr }
               @got if $what =~ /stream/;

        for my $way (1, 2) {
            ok($got[$way] eq $got[0], "$what: answered $ways[$way] as without"
                                      . ($tls ? ", over $tls" : ''))
                or diag short($got[0]), "\n--- became ---\n",
                        short($got[$way]);
        }
    }
}

sub short ($text) {
    return length $text > 1500 ? substr($text, 0, 1500) . '...' : $text;
}


# HTTP/2, by a client that shows the headers

sub h2 ($server, @args) {
    my $run = $t->run(['curl', '-sS', '-i', '--http2', '--max-time', '60',
        '--cacert', $ca, '--connect-to', "::127.0.0.1:$server->{tls}",
        map { s{^/}{https://plain.internal/}r } @args]);
    return normal($run->{out}, $server) . $run->{status};
}

my $file = $t->write('sent', $sent);

for my $args (['/a.txt'], ['/big'], ['-I', '/big'], ['/nothing'],
              ['--compressed', '/a.txt'], ['/moved'], ['/denied'],
              ['/proxy/'], ['/proxy/stream?n=5&ms=1'], ['/tls/'],
              ['/nobuf/big?n=3000000'], ['/dead/'], ['/return/1', '/return/2'],
              ['--data-binary', "\@$file", '/proxy/echo'],
              ['--data-binary', "\@$file", '/nobuf/echo'],
              ['-H', "X: " . 'x' x 3000, '/return'],
              ['/proxy/status/204'], ['/proxy/short?n=1000'], ['/wrong/'])
{
    my @got = map { h2($_, @$args) } @servers;
    my $what = join ' ', map { short($_) } grep { length > 1 } @$args;
    $what = substr $what, 0, 60;

    like($got[0], qr/^HTTP\/2 \d/, "control: HTTP/2 answers $what");
    for my $way (1, 2) {
        ok($got[$way] eq $got[0], "HTTP/2 $what: answered $ways[$way] as without")
            or diag short($got[0]), "\n--- became ---\n", short($got[$way]);
    }
}


# What nginx counts

AgentTest::wait_for('the connections to be closed', sub {
    !grep { exchange($_, request('GET /status'), '') !~ /^Active connections: 1 /m } @servers
});
my @counts = map { [exchange($_, request('GET /status'), '')
                    =~ /^ (\d+) (\d+) (\d+) /m] } @servers;
for my $way (0 .. 2) {
    is($counts[$way][0], $counts[$way][1],
       "$ways[$way]: stub_status has handled every connection");
}
like(exchange($servers[$_], request('GET /status'), ''),
     qr/Reading: 0 Writing: 1 Waiting: 0/,
     "$ways[$_]: stub_status has no connection left")
    for 0 .. 2;

# the same connections and requests, of which the last ones only waited
my $row = request('GET /return');
for my $server (@servers) {
    my $at = exchange($server, request('GET /status'), '');
    exchange($server, $row, '') for 1 .. 5;
    exchange($server, "GET /return HTTP/1.1\r\n$kept\r\n$row", '');
    $server->{more} = [map { $_->[1] - $_->[0] } do {
        my @before = $at =~ /^ (\d+) (\d+) (\d+) /m;
        my @after = exchange($server, request('GET /status'), '')
                    =~ /^ (\d+) (\d+) (\d+) /m;
        map { [$before[$_], $after[$_]] } 0 .. 2;
    }];
}
is_deeply($servers[$_]{more}, [7, 7, 8], 
          "$ways[$_]: stub_status counts connections and requests as without")
    for 0 .. 2;


# A reload, and the end

for my $way (0 .. 2) {
    my $server = $servers[$way];
    ok($server->{broker}->reload, "$ways[$way]: nginx reloads");
    is(exchange($server, $row, ''), exchange($servers[0], $row, ''),
       "$ways[$way]: after the reload a request is answered as without");
    unlike($server->{broker}->error_log, qr/\[(?:alert|emerg)\]/,
           "$ways[$way]: nothing is reported at alert or emerg")
        or diag $server->{broker}->error_log;
}

done_testing;
