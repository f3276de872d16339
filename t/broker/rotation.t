#!/usr/bin/perl

# A sealed token is rotated by agent-vault and a reload while requests, streams
# and connections of every kind are under way: from the reload's line in the
# audit on no request has the old value.

use v5.36;

use lib 't/lib';
use AgentTest;
use Test::More;

my $old = 'sk_rotation_old_0123456789abcdef';
my $new = 'sk_rotation_new_0123456789abcdef';

my $t    = AgentTest->new;
my $tool = "$t->{objs}/agent-vault";
my $up   = $t->upstream(names => ['api.internal']);
my $port = $up->port;
my $rule = $t->rule;
my @vault = ('--vault', "$t->{dir}/vault", '--key', "$t->{dir}/vault.key");

sub agent_vault ($args, %opt) {
    my $run = $t->run([$tool, @vault, @$args], %opt);
    is($run->{status}, 0, "agent-vault @$args") or diag $run->{err};
    return $run;
}

$t->write('vault', "api = $old\n", 0600);
agent_vault(['init-key']);
agent_vault(['seal']);

my $b = $t->broker(names => ['api.internal'], workers => 1,
    vault => "$t->{dir}/vault key=$t->{dir}/vault.key",
    policy => <<"END");
    host api.internal:$port { methods GET POST; bearer api; websocket on; $rule }
END

my ($l, $task) = $b->task;
my $host = "api.internal:$port";
my $url = "http://$host";

sub head ($target, @lines) {
    return join "\r\n", "GET $url$target HTTP/1.1", "Host: $host", @lines, '', '';
}

sub start ($id, $text) {
    $l->do(open => { id => $id, port => 8899 });
    $l->do(write => { id => $id, data => $text });
    return;
}

sub read_until ($id, $pattern) {
    my $text = '';
    AgentTest::wait_for("$pattern in the box", sub {
        my $got = $l->do(read => { id => $id, timeout => 5 });
        $text .= $got->{data} // '';
        return $text =~ $pattern || $got->{eof} || $got->{error};
    });
    return $text;
}

sub seen ($target) {
    return grep { $_->{target} eq $target } $up->requests;
}

sub arrives ($target) {
    AgentTest::wait_for("$target at the upstream", sub { seen($target) });
    return (seen($target))[0];
}

# An HTTP/2 connection: a stream that waits for the upstream, then, when the
# file is there, another one on the same connection.  It writes a file when it
# has ended.
my $h2 = $t->write('h2.py', <<'END');
import os, socket, ssl, struct, sys, time
host, ca, go, done = sys.argv[1:5]
s = socket.create_connection(('127.0.0.1', 8899), 60)
s.sendall(('CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n' % (host, host)).encode())
assert b' 200 ' in s.recv(4096)
c = ssl.create_default_context(cafile=ca)
c.set_alpn_protocols(['h2'])
s = c.wrap_socket(s, server_hostname=host.split(':')[0])
assert s.selected_alpn_protocol() == 'h2'

def text(t):
    assert len(t) < 127
    return bytes([len(t)]) + t.encode()

def frame(kind, flags, stream, body):
    return struct.pack('>I', len(body))[1:] + struct.pack('>BBI', kind, flags, stream) + body

def get(stream, path):
    s.sendall(frame(1, 5, stream, b''.join(b'\0' + text(k) + text(v) for k, v in (
        (':method', 'GET'), (':scheme', 'https'), (':authority', host), (':path', path)))))

s.sendall(b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + frame(4, 0, 0, b''))
get(1, '/gate/h2')
said, buffered, asked, ended = [], b'', [1], []
s.settimeout(0.02)
until = time.time() + 120
while time.time() < until and (len(asked) < 2 or len(ended) < 2):
    if len(asked) < 2 and os.path.exists(go):
        try:
            get(3, '/h2after')
        except OSError:
            said.append('closed')
            break
        asked.append(3)
    try:
        more = s.recv(65536)
    except (socket.timeout, ssl.SSLWantReadError):
        continue
    except OSError:
        more = b''
    if not more:
        said.append('closed')
        break
    buffered += more
    while len(buffered) >= 9 and len(buffered) >= 9 + int.from_bytes(buffered[:3], 'big'):
        n = int.from_bytes(buffered[:3], 'big')
        kind, flags, stream = struct.unpack('>BBI', buffered[3:9])
        buffered = buffered[9 + n:]
        if kind == 7:
            said.append('goaway')
        if kind == 3 or kind in (0, 1) and flags & 1:
            said.append('end %d' % stream)
            ended.append(stream)
with open(done + '.new', 'w') as f:
    f.write(' '.join(said))
os.rename(done + '.new', done)
END

subtest 'C-026 agent-vault and a reload rotate a token under everything that '
    . 'is open'
    => sub {
    my $ca = $t->write('box-ca.pem', $task->{ca});
    my ($go, $done) = ("$t->{dir}/go", "$t->{dir}/done");

    is($l->get("$url/first")->{status}, 200, 'a request is served');
    start('kept', head('/kept1'));
    like(read_until('kept', qr/\r\n\r\n./s), qr/^HTTP\/1.1 200 /,
         'a connection is kept');
    start('flight', head('/gate/flight'));
    start('half', "GET $url/half HTTP/1.1\r\nHo");
    start('body', "POST $url/body HTTP/1.1\r\nHost: $host\r\n"
                  . "Content-Length: 10\r\n\r\n01234");
    start('ws', head('/upgrade', 'Connection: Upgrade', 'Upgrade: websocket',
          'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
          'Sec-WebSocket-Version: 13'));
    like(read_until('ws', qr/\r\n\r\n/), qr/^HTTP\/1.1 101 /,
         'a websocket is open');
    $l->do(run => { argv => ['/bin/sh', '-c',
        'exec timeout 300 python3 "$@" </dev/null >/dev/null 2>&1 & echo $!',
        'sh', $h2, $host, $ca, $go, $done], env => { PATH => $ENV{PATH} } });
    arrives($_) for '/gate/flight', '/gate/h2';
    is_deeply([grep { $_->{headers}{authorization}[0] ne "Bearer $old" }
               $up->requests], [], 'control: all had the old value');

    my ($before) = reverse $b->audit('config');
    like($t->read('vault'), qr/\Aapi = \{gcm1\}\S+\n\z/,
         'control: the vault is sealed');
    agent_vault([qw(rotate api)], stdin => "$new\n");
    ok($b->reload, 'the broker is reloaded');
    my ($after) = reverse $b->audit('config');
    is($after->{vault}, $before->{vault} + 1,
       'the line of the reload has the next revision of the vault');
    my $had = () = $up->requests;

    # as a launcher does when it is told to
    is_deeply($l->do(receive => { name => 'task', timeout => 60 })->{message},
              { event => 'drain' }, 'the launcher is told to resume');
    AgentTest::wait_for('the resume', sub {
        $l->do(connect => { name => 'again', path => $b->control });
        return $l->ask('again', { v => 1, op => 'resume',
            task_id => $task->{task_id}, lease => $task->{lease} },
            kinds => [map { { again => $_ } } 0 .. $#{ $task->{doors} }])->{ok};
    });

    # the old worker has them all still
    is(scalar $b->leaving, 1, 'control: the old worker is there');
    $l->do(write => { id => 'ws', data => 'still' });
    is(read_until('ws', qr/still/), 'still', 'the websocket goes on');
    $l->do(write => { id => 'kept', data => head('/kept2') });
    $l->do(write => { id => 'half', data => "st: $host\r\n\r\n" });
    like(read_until('half', qr/\r\n\r\n/), qr/^HTTP\/1.1 200 /,
         'a request of which half came before is served');
    $t->write('go', '');
    $l->do(write => { id => 'body', data => '56789' });
    read_until('kept', qr/\r\n\r\n/);
    for my $name (qw(flight h2)) {
        is($l->get("$url/open/$name")->{status}, 200,
           'a new connection is served');
    }
    like(read_until('flight', qr/data: 1/), qr/data: 1/,
         'what was in flight gets the rest of its answer');
    AgentTest::wait_for('the end of the HTTP/2 client', sub { -e $done });
    my $said = $t->read('done');
    like($said, qr/end 1/, 'the stream that was open gets its answer');
    like($said, qr/end 3|closed|goaway/,
         'another on that connection is served, or it is closed');

    my @late = ($up->requests)[$had .. scalar(() = $up->requests) - 1];
    # of `body` the header may have gone up before
    is_deeply([map { "$_->{target} $_->{headers}{authorization}[0]" }
               grep { $_->{headers}{authorization}[0] ne "Bearer $new"
                      && $_->{target} ne '/body' } @late], [],
              'none that came to the upstream after the reload had the old '
              . 'value');
    cmp_ok(scalar @late, '>=', 3, 'control: there were some');
    for my $line ($b->audit('egress_end', path => '/half')) {
        is($line->{vault}, $after->{vault},
           'the line of an end has the revision that was sent');
    }
    $l->do(shut => { id => 'ws' });
};

$t->finish;
done_testing;
