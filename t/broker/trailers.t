#!/usr/bin/perl

# Fields behind a chunked body are read and left out, in both directions: none
# of them becomes a header, and nothing in them another request or answer.
#
# sanitizers: trailers of every form are read

use v5.36;

use lib 't/lib';
use AgentTest;
use MIME::Base64 qw(encode_base64);
use Test::More;

my $token = 'sk_trailer_0123456789abcdef_mark';

my $t     = AgentTest->new;
my $safe  = $t->upstream(names => ['api.internal']);
my $plain = $t->upstream(plain => 1);
my ($tls, $port) = ($safe->port, $plain->port);
my $rule  = $t->rule('methods GET POST; reuse_after_body on;');

my $b = $t->broker(names => ['api.internal'], vault => "api = $token\n",
                   policy => <<"END");
    host 127.0.0.1:$port   { methods GET POST; plaintext on;
                             private 127.0.0.0/8; reuse_after_body on; }
    host api.internal:$tls { $rule bearer api; }
END

my ($l, $task) = $b->task;
my $box_ca = $t->write('box-ca.pem', $task->{ca});

# These bytes to a door, as they are: all that comes until the end.
my $client = $t->write('raw.py', <<'END');
import socket, ssl, sys
to, ca = sys.argv[1:3]
s = socket.create_connection(('127.0.0.1', 8899), 60)
if ca:
    s.sendall(b'CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n' % ((to.encode(),) * 2))
    assert b' 200 ' in s.recv(4096)
    s = ssl.create_default_context(cafile=ca).wrap_socket(
        s, server_hostname='api.internal')
s.sendall(sys.stdin.buffer.read())
while True:
    try:
        data = s.recv(65536)
    except OSError:
        break
    if not data:
        break
    sys.stdout.buffer.write(data)
END

my %door = (
    'the proxy door' => { to => "127.0.0.1:$port", up => $plain, ca => '',
                          base => "http://127.0.0.1:$port" },
    'CONNECT' => { to => "api.internal:$tls", up => $safe, ca => $box_ca,
                   base => '' },
);

sub raw ($door, $bytes) {
    my $run = $l->do(run => { argv => ['/usr/bin/python3', $client, $door->{to},
                              $door->{ca}], data => $bytes, timeout => 120 });
    is($run->{status}, 0, 'the client came to the end') or diag explain $run;
    return $run->{data} // '';
}

sub get ($door, $path, @more) {
    return join "\r\n", "GET $door->{base}$path HTTP/1.1",
                        "Host: $door->{to}", @more, '', '';
}

sub post ($door, $body, @more) {
    return join "\r\n", "POST $door->{base}/echo HTTP/1.1",
                        "Host: $door->{to}", 'Transfer-Encoding: chunked',
                        @more, '', $body;
}

# What would matter if it were a header; and what would be a request.
my @fields = ('X-Sum: 42', 'Content-Length: 3', 'Transfer-Encoding: identity',
              'Host: evil.example', 'Authorization: Bearer of-the-box',
              'Connection: close, upgrade', 'Upgrade: websocket',
              'X-Text: GET /smuggled HTTP/1.1', 'GET: /smuggled HTTP/1.1');

for my $what (sort keys %door) {
    my $door = $door{$what};

    subtest "$what: a request's trailers do not go up" => sub {
        my $had = () = $door->{up}->requests;
        my $got = raw($door, post($door, join("\r\n", '5', 'hello', 0,
            @fields, '', ''), 'Trailer: X-Sum') . get($door, '/last',
            'Connection: close'));
        is(() = $got =~ /HTTP\/1\.1 200 /g, 2,
           'both requests of the connection are answered') or diag $got;

        my @seen = ($door->{up}->requests)[$had .. 1000];
        @seen = grep { defined } @seen;
        is(join(' ', map { "$_->{method} $_->{target}" } @seen),
           'POST /echo GET /last', 'the upstream saw these two and no other');
        is($seen[0]{body}, 'hello', 'the body is what the chunks held');
        is_deeply([grep { exists $seen[0]{headers}{$_} }
                   qw(x-sum x-text get upgrade trailer)], [],
                  'none of the trailers is a header');
        is_deeply($seen[0]{headers}{'content-length'} // ['5'], ['5'],
                  'a length is that of the body');
        is_deeply($seen[0]{headers}{host}, [$door->{to}],
                  'the host is that of the request');
        is_deeply($seen[0]{headers}{authorization},
                  $door->{ca} ? ["Bearer $token"] : undef,
                  'the credential is that of the rule, or none');
    };

    # not the end of a line, or of the lines, for one reader and for another

    for my $case (['a bare LF', "X-Sum: 42\n"], ['a folded line',
                  "X-Sum: 42\r\n  more\r\n"], ['a bare CR', "X-Sum: 4\r2\r\n"],
                  ['NUL', "X-Sum: 4\0002\r\n"], ['a bare LF for the end',
                  "\nGET /smuggled HTTP/1.1\r\nHost: x\r\n"]) {
        my ($form, $lines) = @$case;
        subtest "$what: a request's trailer with $form is refused" => sub {
            my $had = () = $door->{up}->requests;
            my $got = raw($door, post($door, "5\r\nhello\r\n0\r\n$lines\r\n")
                                 . get($door, '/last', 'Connection: close'));
            like($got, qr/\AHTTP\/1\.1 400 .*"reason": ?"malformed"/s,
                 'the answer is 400');
            is(() = $got =~ /HTTP\/1\.1 /g, 1, 'it is the only answer');
            my @seen = ($door->{up}->requests)[$had .. 1000];
            is(join(' ', grep { $_ ne '/echo' } map { $_->{target} }
                         grep { defined } @seen), '',
               'the upstream saw nothing that came behind it');
        };
    }

    subtest "$what: an answer's trailers do not reach the box" => sub {
        my @down = (@fields[0, 1, 2], 'Set-Cookie: a=b', 'Alt-Svc: x',
                    "X-Token: $token", 'X-Agent-Broker: denied',
                    'X-Text: HTTP/1.1 200 OK');
        for my $more ('', "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled")
        {
            my $b64 = encode_base64(join("\r\n", 'HTTP/1.1 200 OK',
                'Transfer-Encoding: chunked', 'Trailer: X-Sum',
                $more ? () : 'Connection: close', '', '5', 'hello', 0, @down,
                '', $more), '') =~ tr{+/}{-_}r;
            my $got = raw($door, get($door, "/raw?b64=$b64", 'TE: trailers')
                          . get($door, '/headers', 'Connection: close'));
            my @answers = split /(?=HTTP\/1\.1 )/, $got;
            is(@answers, 2, 'both requests of the connection are answered')
                or diag $got;
            like($answers[0], qr/\r\n\r\n5\r\nhello\r\n0\r\n\r\n\z/,
                 'the answer ends with its last chunk');
            like($answers[1] // '', qr/"headers"/,
                 'the next answer is that of its own request');
            unlike($got, qr/smuggled|X-Sum: 42|X-Token|X-Text|Alt-Svc|a=b/i,
                   'nothing of the trailers, or behind them, is there');
        }
    };
}

subtest 'HTTP/2: an answer\'s trailers do not reach the box' => sub {
    my $b64 = encode_base64(join("\r\n", 'HTTP/1.1 200 OK',
        'Transfer-Encoding: chunked', '', '5', 'hello', 0, 'X-Sum: 42',
        "X-Token: $token", '', ''), '') =~ tr{+/}{-_}r;
    my $run = $l->do(run => { argv => ['curl', '-sS', '-i', '--http2',
        '--cacert', $box_ca, '-H', 'TE: trailers', '--connect-to',
        '::127.0.0.1:', "https://api.internal:$tls/raw?b64=$b64"],
        env => { PATH => $ENV{PATH} } });
    like($run->{data}, qr/\AHTTP\/2 200\b.*\r\n\r\nhello\z/s,
         'the body is the end') or diag explain $run;
    unlike($run->{data}, qr/x-sum|x-token/i, 'no trailer is there');
};

$b->is_clean;
done_testing;
