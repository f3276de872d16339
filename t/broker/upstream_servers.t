#!/usr/bin/perl

# Real servers behind real doors: nginx, and node with HTTP/1.1 only and with
# HTTP/2 beside it, through each door.  Bodies go both ways whole, an event is
# there when it is sent, what has no body has none, and one connection to an
# upstream serves the requests of one task to one host, and never another's.
#
# sanitizers: answers of real servers are read

use v5.36;

use lib 't/lib';
use AgentTest;
use Digest::SHA qw(sha256_hex);
use IO::Socket::INET;
use Test::More;

my $node = (grep { -x } map { "$_/node" } split /:/, $ENV{PATH})[0];
plan skip_all => 'no node here: apt-get install nodejs' if !$node;

my $t = AgentTest->new;
my $ca = $t->ca->{cert};
my @names = map { ("$_.internal", "twin.$_.internal") }
            qw(nginx http1 http2);
my $cert = $t->cert(\@names);
my $dns = $t->dns({ map { $_ => { A => ['127.0.0.1'] } } @names });

sub node_server ($mode) {
    my $child = $t->spawn([$node, "$AgentTest::LIB/upstream_node.js", $mode,
                           $cert->{cert}, $cert->{key}], pipes => 1);
    chomp(my $port = readline($child->{out}) // die "node does not start");
    return { %$child, port => $port };
}

my %server = map { $_ => node_server($_) } qw(plain http1 http2);
my $free = IO::Socket::INET->new(Listen => 1,
                                 LocalAddr => '127.0.0.1')->sockport;

# an nginx in front of a service, as many have
$t->broker(module => '', listen => $free, http => <<"END");
    upstream service {
        server 127.0.0.1:$server{plain}{port};
        keepalive 8;
    }
    keepalive_timeout 75s 61;
    server {
        listen 127.0.0.1:$free ssl http2;
        ssl_certificate $cert->{cert};
        ssl_certificate_key $cert->{key};
        ssl_protocols TLSv1.2 TLSv1.3;
        client_max_body_size 10m;
        location / {
            proxy_pass http://service;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
            proxy_request_buffering off;
            proxy_hide_header X-Conn;
            add_header X-Conn \$connection always;
        }
    }
END

my %port = (nginx => $free, map { $_ => $server{$_}{port} } qw(http1 http2));

my $rules = join '', map {
    my $port = $port{ (split /\./)[-2] };
    "        host $_:$port { private 127.0.0.0/8; methods GET POST; "
        . "trusted_certificate $ca; }\n"
} @names;

my $b = $t->broker(dns => $dns, policy => $rules);
my ($l, $task) = $b->task;
my ($other) = $b->task;

my $box_ca = $t->write('box-ca.pem', $task->{ca});
my @proxy = ('-x', 'http://127.0.0.1:8899');
my @web = ('--connect-to', '::127.0.0.1:', '--noproxy', '*');

# the scheme in the box, and the client's way
my @doors = (
    ['absolute-form', 'http', @proxy],
    ['CONNECT', 'https', @proxy, '--http1.1'],
    ['CONNECT with HTTP/2', 'https', @proxy, '--http2'],
    ['the web door', 'https', @web, '--http1.1'],
    ['the web door with HTTP/2', 'https', @web, '--http2'],
    ['the web door without TLS', 'http', @web],
);

# a first argument that is a list goes before the command
sub curl ($l, $door, $host, @args) {
    my (undef, $scheme, @way) = @$door;
    my ($kind) = $host =~ /(\w+)\.internal/;
    my @command = (@{ ref $args[0] ? shift @args : [] }, 'curl', '-sS',
        '--max-time', '60', '--cacert', $box_ca,
        @way, map { s{^/}{$scheme://$host:$port{$kind}/}r } @args);
    return $l->do(run => { argv => \@command, env => { PATH => $ENV{PATH} },
                           timeout => 40 });
}

# megabytes do not fit into JSON: their sum is made in the box
my @sum = ('/bin/sh', '-c', '"$@" | sha256sum | cut -c1-64 | tr -d "\n"',
           'sh');

# head and body of one answer, from curl -i
sub parts ($run) {
    my ($head, $body) = ($run->{data} // '')
        =~ /\A((?:HTTP.*?\r\n\r\n)+)(.*)\z/s;
    $head =~ s/\A.*\r\n\r\n(?=HTTP)//s if $head;    # of CONNECT
    return ($head // '', $body // '');
}

my $file = $t->write('body', join '', map { "$_ of a body\n" } 1 .. 40000);
my $sum = sha256_hex($t->read($file));
my $big = sha256_hex(join '', map { sprintf "%015d\n", $_ * 16 } 0 .. 187499);

for my $kind (qw(nginx http1 http2)) {
    for my $door (@doors) {
        my $what = "$kind by $door->[0]";
        my $host = "$kind.internal";
        subtest "E-020 $what: answers, bodies and events pass unchanged" => sub {

        my $run = curl($l, $door, $host, '-i', '/');
        my ($head, $body) = parts($run);
        like($head, qr/\AHTTP\/\S+ 200\b/, 'a request is answered 200')
            or diag explain $run, $b->error_log;
        like($head, qr/^x-seen: GET \/ 1\.1\r$/mi,
             'the upstream saw the request as it was sent');
        is($body, 'hello', 'the answer has its body');

        $run = curl($l, $door, $host, \@sum, '/big?n=3000000');
        is($run->{data}, $big, 'a large answer comes back whole');

        $run = curl($l, $door, $host, \@sum,
            '--data-binary', "\@$file", '/echo');
        is($run->{data}, $sum, 'a body arrives whole');
        $run = curl($l, $door, $host, \@sum,
            '-H', 'Expect: 100-continue', '-H', 'Transfer-Encoding: chunked',
            '--data-binary', "\@$file", '/echo');
        is($run->{data}, $sum, 'a body in chunks arrives whole');

        $run = curl($l, $door, $host, '-I', '/big?n=100');
        ($head) = parts($run);
        like($head, qr/\AHTTP\/\S+ 200\b.*^content-length: 100\r$/msi,
             'HEAD is answered with the length of the body');
        is($run->{status}, 0, 'HEAD is answered without a body');

        for my $status (204, 304) {
            ($head, $body) = parts(curl($l, $door, $host, '-i',
                                        "/status/$status"));
            like($head, qr/\AHTTP\/\S+ $status\b/,
                 "a status of $status is passed on");
            is($body, '', "a status of $status has no body");
        }

        $run = curl($l, $door, $host, '/status/204', '/status/304', '/',
                    '-I', '/big?n=100');
        is($run->{status}, 0,
           'answers after one without a body are read as their own');

        ($head, $body) = parts(curl($l, $door, $host, '-i', '/trailers'));
        is($body, 'first, second',
           'an answer in chunks with trailers has its body');

        # an event is there before the next one is sent

        my $out = $t->dir . '/sse.out';
        unlink $out;
        my $id = "$kind-$door->[0]" =~ s/\W/-/gr;
        my (undef, $scheme, @way) = @$door;
        my $pid = $l->do(run => { argv => ['/bin/sh', '-c',
            'out=$1; shift; "$@" >"$out" 2>&1 </dev/null & echo $!', 'sh',
            $out, 'curl', '-sSN', '--max-time', '60', '--cacert', $box_ca,
            @way, "$scheme://$host:$port{$kind}/sse?id=$id"],
            env => { PATH => $ENV{PATH} } })->{data};
        AgentTest::wait_for('the first event', sub {
            $t->read($out) eq "data: one\n\n" });
        pass('E-020 an event arrives while the next is held back');
        is(curl($l, $door, $host, "/release?id=$id")->{data}, 'released',
           'another request is served while a stream is open');
        AgentTest::wait_for('the second event', sub {
            $t->read($out) eq "data: one\n\ndata: two\n\n" });
        pass('E-020 the next event arrives when it is sent');

        return if $kind eq 'nginx';

        # 1.22 has no interim answers of an upstream: none is passed on

        ($head, $body) = parts(curl($l, $door, $host, '-i', '/early'));
        like($head, qr/\AHTTP\/\S+ 200\b/,
             'G-023: behind interim answers the last one is found');
        is($body, 'late', 'G-023: with its body');
        unlike($head, qr/preload/, 'of interim answers nothing is passed on');
        is(curl($l, $door, $host, '/')->{data}, 'hello',
           'the request after an interim answer has its own answer');
        };
    }
}


# Whose connection it is

sub number ($l, $door, $host) {
    my ($head) = parts(curl($l, $door, $host, '-i', '/'));
    return ($head =~ /^x-conn: (\d+)/mi)[0] // 'none';
}

for my $kind (qw(nginx http1 http2)) {

    my %mine = map { number($l, $_, "$kind.internal") => 1 } @doors, @doors;
    is(keys %mine, 1,
       "one connection to $kind serves all requests of a task, by every door")
        or diag join ' ', sort keys %mine;

    my %its = map { number($other, $_, "$kind.internal") => 1 } @doors;
    is(scalar(grep { $mine{$_} } keys %its), 0,
       "the connection to $kind serves no other task");

    my %twin = map { number($l, $_, "twin.$kind.internal") => 1 } @doors;
    is(scalar(grep { $mine{$_} || $its{$_} } keys %twin), 0,
       "the connection to $kind serves no other host at the same address");
    is(keys %twin, 1,
       "the other host at the address of $kind has one connection of its own");
    is(number($l, $doors[1], "$kind.internal"), (keys %mine)[0],
       "the connection to $kind is used again after all of that");
}

$b->is_clean;

done_testing;
