#!/usr/bin/perl

# HTTP/2 as no client speaks it: frames made by hand, inside a CONNECT and at
# the web door.  What names the host must agree with the connection and with
# itself, stream by stream, and what a box can flood has an end.
#
# sanitizers: frames and headers of a box are read

use v5.36;

use lib 't/lib';
use AgentTest;
use JSON::PP ();
use Test::More;

my $t   = AgentTest->new;
my $up  = $t->upstream(names => ['api.internal', 'other.internal']);
my $dns = $t->dns({ 'gone.internal' => { A => ['127.0.0.2'] },
                    map { $_ => { A => ['127.0.0.1'] } }
                    qw(api.internal other.internal) });
my $port = $up->port;
my $rule = $t->rule;

my $b = $t->broker(dns => $dns, policy => <<"END");
    host api.internal:$port { methods GET POST; $rule }
    host gone.internal:$port { private 127.0.0.0/8; }
    host other.internal:$port { $rule }
END

my ($l, $task) = $b->task;
my $box_ca = $t->write('box-ca.pem', $task->{ca});

# The client.  Its script is a list of steps, in JSON:
#   ["headers", STREAM, [[NAME, VALUE], …]]   ends the stream
#   ["raw", TYPE, FLAGS, STREAM, HEX]         a frame
#   ["flood", N, TYPE, FLAGS, STREAM, HEX]    that frame N times; a stream of
#                                             0 steps: -1 counts up by two
#   ["read", STREAM]                          until that stream, or all, ended
# It prints what each stream was answered, and how the connection ended.
my $client = $t->write('h2.py', <<'END');
import json, select, socket, ssl, struct, sys, time
door, connect, sni, ca = sys.argv[1:5]
steps = json.load(sys.stdin)
if door == 'proxy':
    s = socket.create_connection(('127.0.0.1', 8899), 10)
    s.sendall(('CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n'
               % (connect, connect)).encode())
    head = s.recv(4096)
    assert b' 200 ' in head, head
else:
    s = socket.create_connection(('192.0.2.7', int(connect.split(':')[1])), 10)
c = ssl.create_default_context(cafile=ca)
c.set_alpn_protocols(['h2'])
s = c.wrap_socket(s, server_hostname=sni)
assert s.selected_alpn_protocol() == 'h2'
s.settimeout(60)

def frame(kind, flags, stream, body):
    return struct.pack('>I', len(body))[1:] + struct.pack('>BBI', kind, flags, stream) + body

def number(n, bits):
    top = (1 << bits) - 1
    if n < top:
        return bytes([n])
    out, n = bytes([top]), n - top
    while n > 127:
        out, n = out + bytes([n % 128 + 128]), n // 128
    return out + bytes([n])

def text(t):
    t = t.encode('latin1')
    return number(len(t), 7) + t

def block(headers):
    return b''.join(b'\0' + text(k) + text(v) for k, v in headers)

# just enough of HPACK to read :status: an indexed field, or a literal one
# with the name's index, in plain or in Huffman's code of digits
DIGITS = {'00000': '0', '00001': '1', '00010': '2', '011001': '3', '011010': '4',
          '011011': '5', '011100': '6', '011101': '7', '011110': '8', '011111': '9'}

def status(body):
    known = {8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500}
    while body and body[0] & 0xe0 == 0x20:      # a change of the table's size
        body = body[1:]
    if body[0] & 0x80:
        return known[body[0] & 0x7f]
    n = body[1] & 0x7f
    value = body[2:2 + n]
    if not body[1] & 0x80:
        return int(value)
    bits, out, at = ''.join('%08d' % int(bin(x)[2:]) for x in value), '', ''
    for bit in bits:
        at += bit
        if at in DIGITS:
            out, at = out + DIGITS[at], ''
    return int(out)

streams, end, buffered = {}, None, b''

def take(want):
    global end, buffered
    until = time.time() + 60
    while end is None and not ended(want):
        if time.time() > until:
            end = 'waits'
            return
        while len(buffered) < 9 or len(buffered) < 9 + int.from_bytes(buffered[:3], 'big'):
            try:
                more = s.recv(65536)
            except socket.timeout:
                end = 'waits'
                return
            except OSError:
                more = b''
            if not more:
                end = 'closed'
                return
            buffered += more
        n = int.from_bytes(buffered[:3], 'big')
        kind, flags, stream = struct.unpack('>BBI', buffered[3:9])
        body, buffered = buffered[9:9 + n], buffered[9 + n:]
        at = streams.setdefault(stream, {'body': b''}) if stream else {}
        if kind == 1:
            at['status'] = status(body)
        elif kind == 0:
            at['body'] += body
        elif kind == 3:
            at['reset'] = struct.unpack('>I', body)[0]
            at['end'] = True
        elif kind == 7:
            end = 'goaway %d' % struct.unpack('>I', body[4:8])[0]
        elif kind == 4 and not flags & 1:
            send(frame(4, 1, 0, b''))
        if kind in (0, 1) and flags & 1:
            at['end'] = True

def ended(want):
    return all(streams.get(w, {}).get('end') for w in want)

def send(data):
    global end
    try:
        s.sendall(data)
    except OSError:
        end = end or 'closed'

send(b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + frame(4, 0, 0, b''))
asked = []
for step in steps:
    if step[0] == 'headers':
        asked.append(step[1])
        rest, kind = block(step[2]), 1
        while True:
            part, rest = rest[:16384], rest[16384:]
            send(frame(kind, (1 if kind == 1 else 0) | (0 if rest else 4), step[1], part))
            kind = 9
            if not rest:
                break
    elif step[0] == 'raw':
        send(frame(step[1], step[2], step[3], bytes.fromhex(step[4])))
    elif step[0] == 'flood':
        n, kind, flags, stream, body = step[1:]
        for at in range(0, n, 500):
            send(b''.join(frame(kind, flags, stream if stream >= 0 else 2 * (at + i) + 1001,
                                bytes.fromhex(body)) for i in range(500)))
            if end:
                break
    elif step[0] == 'rapid':
        for at in range(0, step[1], 100):
            send(b''.join(frame(1, 5, 2 * (at + i) + 1001, block(step[2]))
                          + frame(3, 0, 2 * (at + i) + 1001, b'\0\0\0\x08') for i in range(100)))
            if end:
                break
    else:
        take(step[1:] or asked)
if end is None:
    take(asked)
print(json.dumps({'end': end, 'streams': {str(k): {'status': v.get('status'),
    'reset': v.get('reset'), 'body': v['body'].decode('latin1')[:500]} for k, v in streams.items()}}))
END

my $json = JSON::PP->new->ascii;
my $api = "api.internal:$port";
our $to = 'api.internal';                   # whom the connection is to

sub speak ($door, @steps) {
    my $run = $l->do(run => { argv => ['/usr/bin/python3', $client, $door,
        "$to:$port", $to, $box_ca], data => $json->encode(\@steps),
        env => {}, timeout => 120 });
    my $got = eval { $json->decode($run->{data}) }
        or diag $run->{error} // $run->{err};
    return $got // { end => 'failed', streams => {} };
}

# pseudo headers of a GET, in order, with changes: undef takes one out
sub get (%change) {
    my %header = (':method' => 'GET', ':scheme' => 'https', ':path' => '/echo',
                  ':authority' => $api, %change);
    return map { defined $header{$_} ? [$_, $header{$_}] : () }
           qw(:method :scheme :path :authority);
}

# headers as a frame's bytes
sub packed (@headers) {
    return unpack 'H*', join '', map { pack 'x C/a C/a', @$_ } @headers;
}

sub said ($got, $stream = 1) {
    my $s = $got->{streams}{$stream};
    return $got->{end} if !$s;
    return $s->{status} // "reset $s->{reset}";
}

# nothing of it went up, and the connection or the stream heard of it
sub refused ($door, $what, $headers, $answer, $reason = undef) {
    subtest "B-048 $door: $what is refused" => sub {
        my $before = () = $up->requests;
        my $got = speak($door, ['headers', 1, $headers]);
        like(said($got), $answer, 'the stream or the connection is refused')
            or diag explain $got;
        like($got->{streams}{1}{body} // '', qr/"$reason"/,
             "the answer has the reason $reason") if $reason;
        is(scalar(() = $up->requests), $before, 'nothing goes up');
    };
}

for my $how ('--http1.1', '--http2') {
    my $run = $l->do(run => { argv => ['curl', '-sSi', '--max-time', '60',
        $how, '-x', 'http://127.0.0.1:8899', '--cacert', $box_ca,
        "https://gone.internal:$port/x"], env => { PATH => $ENV{PATH} } });
    like($run->{data}, qr{^HTTP/[12]\S*\ 502\ .*^x-agent-broker:\ failed\s.*
                          "reason":"upstream_unreachable"}msix,
         "an upstream that cannot be reached, inside TLS, by $how: 502 with "
         . 'the reason')
        or diag explain $run;
}

for my $door ('proxy', 'web') {
    my $got = speak($door, ['headers', 1, [get()]]);
    is(said($got), 200, "B-048 $door: a plain request made by hand is served")
        or diag explain $got;

    {
        local $to = 'gone.internal';
        $got = speak($door, ['headers', 1, [get(':authority' => "$to:$port")]]);
        is(said($got), 502,
           "$door: an upstream that cannot be reached: 502 in the stream");
        my $body = eval { $json->decode($got->{streams}{1}{body}) } // {};
        is($body->{reason}, 'upstream_unreachable',
           "$door: an upstream that cannot be reached: the stream has the "
           . "reason")
            or diag explain $got;
    }

    $got = speak($door, ['headers', 1, [get(), ['host', $api]]]);
    like(said($got), qr/^(?:200|400)$/,
         "B-048 $door: the same Host beside :authority is served, or "
         . "refused for it");

    refused($door, 'a denied Host beside an allowed :authority',
            [get(), ['host', 'evil.example']], qr/^(?:400|421)$/);
    refused($door, 'another allowed Host beside :authority',
            [get(), ['host', "other.internal:$port"]], qr/^(?:400|421)$/);
    refused($door, 'a denied :authority beside an allowed Host',
            [get(':authority' => 'evil.example'), ['host', $api]],
            qr/^(?:400|421)$/);
    refused($door, 'only a Host, of a denied name',
            [get(':authority' => undef), ['host', 'evil.example']],
            qr/^(?:400|421)$/);
    refused($door, 'no name at all', [get(':authority' => undef)],
            qr/^(?:400|reset 1)$/);
    refused($door, 'two :authority', [get(), [':authority', $api]],
            qr/^(?:400|reset 1|goaway 1)$/);
    refused($door, 'two :authority, the second denied',
            [get(), [':authority', 'evil.example']],
            qr/^(?:400|reset 1|goaway 1)$/);
    refused($door, 'two Host lines', [get(':authority' => undef),
            ['host', $api], ['host', $api]], qr/^(?:400|reset 1)$/);
    refused($door, "user information ($_)", [get(':authority' => $_)],
            qr/^(?:400|421|reset 1)$/)
        for "u\@$api", "$api\@evil.example", "evil.example\@$api";
    refused($door, 'another port', [get(':authority' => 'api.internal:1')],
            qr/^(?:400|421)$/);
    refused($door, ":scheme $_", [get(':scheme' => $_)], qr/^(?:400|421)$/)
        for 'http', 'ftp';
    # bytes that no header has, and headers that HTTP/2 has not

    refused($door, "G-028: $_->[0]", [get(), [@$_[1, 2]]],
            qr/^(?:400|reset 1)$/)
        for ['a control byte in a value', 'x-a', "b\x01c"],
            ['ESC in a value', 'x-a', "b\e[0m"], ['DEL in a value', 'x-a', "b\x7f"],
            ['NUL in a value', 'x-a', "b\0c"], ['LF in a value', 'x-a', "b\nc: d"],
            ['CR in a value', 'x-a', "b\rc"], ['a name of 8 bits', "x\xe4", 'b'],
            ['a space in a name', 'x a', 'b'], ['a name with a colon', 'x:a', 'b'],
            ['a name that is not a token', 'x(a)', 'b'],
            ['a control byte in a name', "x\x01", 'b'],
            ['Connection', 'connection', 'keep-alive'],
            ['Keep-Alive', 'keep-alive', 'timeout=5'],
            ['Proxy-Connection', 'proxy-connection', 'close'],
            ['Transfer-Encoding', 'transfer-encoding', 'chunked'],
            ['Upgrade', 'upgrade', 'h2c'], ['TE', 'te', 'gzip'];
    is(said(speak($door, ['headers', 1, [get(), ['te', 'trailers'],
                                         ['x_a.b', "c\td\xe4"]]])), 200,
       "G-028: $door: control: te, tabs, bytes of 8 bits and odd names are "
       . 'served');

    refused($door, 'G-036: an extended CONNECT (RFC 8441)',
            [get(':method' => 'CONNECT'), [':protocol', 'websocket']],
            qr/^(?:4\d\d|reset 1)$/);

    refused($door, 'CONNECT with :path', [get(':method' => 'CONNECT')],
            qr/^(?:4\d\d|reset 1)$/);
    refused($door, 'CONNECT as it should be',
            [[':method', 'CONNECT'], [':authority', 'evil.example:443']],
            qr/^(?:4\d\d|reset 1)$/);
    refused($door, 'an absolute :path',
            [get(':path' => 'http://evil.example/')], qr/^(?:4\d\d|reset 1)$/);
    refused($door, 'a denied :authority behind a plain header',
            [(get(':authority' => undef)), ['x-a', 'b'],
             [':authority', 'evil.example']],
            qr/^(?:400|421|reset 1|goaway 1)$/);
    refused($door, 'an unknown pseudo header',
            [get(), [':protocol', 'websocket']],
            qr/^(?:400|reset 1|goaway 1)$/);
    refused($door, 'CR LF in a value',
            [get(), ['x-a', "b\r\nHost: evil.example"]],
            qr/^(?:400|reset 1|goaway 1)$/);

    # those of a connection, which HTTP/2 has not: refused, or not passed on
    for my $h (['connection', 'x-mine'], ['te', 'trailers, deflate'],
               ['upgrade', 'websocket'], ['transfer-encoding', 'chunked'],
               ['proxy-connection', 'keep-alive'], ['keep-alive', '300']) {
        my $before = () = $up->requests;
        $got = speak($door, ['headers', 1, [get(), $h, ['x-mine', 'hop']]]);
        my @more = ($up->requests)[$before .. (() = $up->requests) - 1];
        my $passed = grep { ($_->{headers}{ $h->[0] } // [''])->[0]
                            eq $h->[1] } @more;
        ok(said($got) =~ /^(?:400|501|reset 1|200)$/ && !$passed,
           "B-048 $door: $h->[0] does not go up") or diag explain $got, @more;
    }

    # fields behind a body: refused with the connection, or left out
    my $had = () = $up->requests;
    my @post = (['raw', 1, 4, 1, packed(get(':method' => 'POST'))],
                ['raw', 0, 0, 1, unpack 'H*', 'hello']);
    is(said(speak($door, @post, ['raw', 0, 1, 1, ''], ['read', 1])), 200,
       "$door: control: a body without trailers is answered");
    $had++;
    $got = speak($door, @post,
        ['raw', 1, 5, 1, packed(['x-sum', '42'], ['content-length', '3'],
                                ['host', 'evil.example'])],
        ['read', 1]);
    like(said($got), qr/^(?:goaway 1|closed|400|reset 1|200)$/,
         "$door: a stream with trailers has an end: " . said($got))
        or diag explain $got;
    is(() = (grep { $_->{headers}{'x-sum'}
                    || $_->{headers}{host}[0] eq 'evil.example' }
             grep { defined } ($up->requests)[$had .. 1000]), 0,
       "$door: no trailer of a stream goes up");

    # each stream is judged by itself
    my $before = () = $up->requests;
    $got = speak($door,
        ['headers', 1, [get()]],
        ['headers', 3, [get(':authority' => 'evil.example')]],
        ['headers', 5, [get(':authority' => "other.internal:$port")]],
        ['headers', 7, [get(':method' => 'DELETE')]],
        ['headers', 9, [get()]]);
    is(join(' ', map { said($got, $_) } 1, 3, 5, 7, 9), '200 421 421 403 200',
       "B-048 $door: each stream of a connection is "
       . "judged by itself") or diag explain $got;
    is(scalar(() = $up->requests), $before + 2,
       "B-048 $door: of five streams only the two that are allowed go up");
}

# What never ends

sub memory (@pids) {
    my $sum = 0;
    for my $pid (@pids) {
        $sum += $1 if $t->read("/proc/$pid/status") =~ /^VmRSS:\s+(\d+)/m;
    }
    return $sum;
}

for my $case (
    ['a header list of 1 MiB', ['headers', 1, [get(),
        map { ["x-$_", 'v' x 8000] } 1 .. 130]]],
    ['one header of 200,000 bytes', ['headers', 1, [get(),
        ['x-long', 'v' x 200_000]]]],
    ['ten thousand headers', ['headers', 1, [get(),
        map { ["x$_", ''] } 1 .. 10_000]]],
    ['headers that never end', ['raw', 1, 0, 1, '00'],
        ['flood', 20_000, 9, 0, 1, '0001780179' x 20], ['read', 1]],
    ['PRIORITY frames', ['flood', 200_000, 2, 0, -1, '0000000010'],
        ['headers', 1, [get()]]],
    ['RST_STREAM frames of streams that are not', ['flood', 200_000, 3, 0, 1,
        '00000008'], ['headers', 1, [get()]]],
    ['PING frames', ['flood', 200_000, 6, 0, 0, '00' x 8],
        ['headers', 1, [get()]]],
    ['SETTINGS frames', ['flood', 200_000, 4, 0, 0, '000400010000'],
        ['headers', 1, [get()]]],
    ['empty DATA frames', ['headers', 1, [get(':method' => 'POST')]],
        ['flood', 200_000, 0, 0, 1, ''], ['read', 1]],
    ['streams opened and reset', ['rapid', 20_000, [get()]], ['read', 1]],
) {
    my ($what, @steps) = @$case;
    subtest "B-048 $what: the worker is not harmed" => sub {
        my @workers = $b->workers;
        my $before = memory(@workers);
        my $got = speak('proxy', @steps);
        note "$what: $got->{end}" if $got->{end};

        # frames that cost nothing and are kept nowhere may come until a flood
        # of nothing else is one: what follows them is served, or nothing is
        my $answers = $what =~ /frames/ ? qr/^200$/ : qr/^4\d\d$/;
        like(said($got), qr/$answers|^(?:reset \d+|goaway \d+|closed)$/,
             'the flood is answered, or the connection is ended')
            or diag explain $got;

        # the sanitizers put freed memory aside before it is used again
        cmp_ok(memory(@workers) - $before, '<',
               $t->{sanitize} ? 512 << 10 : 16 << 10,
               'the worker\'s memory grew by less than 16 MiB (KiB)');
        is("@{[$b->workers]}", "@workers", 'the worker is the same');
        $got = speak('proxy', ['headers', 1, [get()]]);
        is(said($got), 200, 'the next connection is served')
            or diag explain $got;
    };
}

# A program of the box that answers its own good bytes with a record that no
# key has made, in one segment: what is answered to the good ones fails.
my $broken = $t->write('broken.py', <<'END');
import socket, ssl, sys
where, ca, alpn, first, last = sys.argv[1:6]
host = where.split(':')[0]
s = socket.create_connection(('127.0.0.1', 8899), 10)
s.settimeout(60)
s.sendall(('CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n' % (where, where)).encode())
assert b' 200 ' in s.recv(4096)
c = ssl.create_default_context(cafile=ca)
c.set_alpn_protocols([alpn])
into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
tls = c.wrap_bio(into, out, server_hostname=host)
while True:
    try:
        tls.do_handshake()
        break
    except ssl.SSLWantReadError:
        s.sendall(out.read())
        into.write(s.recv(65536))
tls.write(bytes.fromhex(first))
s.sendall(out.read() + bytes.fromhex(last))
got = b''
while True:
    try:
        got += tls.read(65536)
    except ssl.SSLWantReadError:
        more = s.recv(65536)
        into.write(more) if more else into.write_eof()
    except ssl.SSLError as e:
        print(e.reason)
        break
    if b'\0\0\x08\x06\x01' in got or b' 200 ' in got:
        print('answered')
        break
END

for my $case (
    ['h2', "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" . pack('H*',
        '000000040000000000' . '000008060000000000' . '00' x 8)],
    ['http/1.1', "GET /hello HTTP/1.1\r\nHost: api.internal:$port\r\n\r\n"],
) {
    my ($alpn, $first) = @$case;
    subtest "a record that cannot be read, behind $alpn that can" => sub {
        my $send = sub ($last) {
            return $l->do(run => { argv => ['/usr/bin/python3', $broken,
                "api.internal:$port", $box_ca, $alpn, unpack('H*', $first),
                $last], timeout => 60 })->{data};
        };
        like($send->(''), qr/answered/, 'control: without it there is an answer');
        like($send->('1703030020' . 'ab' x 32), qr/BAD_RECORD_MAC/,
             'the connection is ended by an alert');
        $b->is_clean;
    };
}

$b->is_clean;

done_testing;
