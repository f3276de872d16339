#!/usr/bin/perl

# What a box costs the broker does not grow with what it asks: memory and
# descriptors of the worker are counted over many requests of each kind, and
# over a flood of names.
#
#   COST=1000000 prove -v t/broker/worker_leaks.t      `make soak`; 500 without COST
#
# Each kind is asked once to warm up, what is allocated once is there then,
# and twice to count.  A leak of 130 bytes a request shows at 500, one of a
# byte in the soak.

use v5.36;

use lib 't/lib';
use AgentTest;
use Test::More;

# a worker is not dumpable: its descriptors are root's to count
plan skip_all => 'only root looks into a worker' if !AgentTest::is_root();

my $n = $ENV{COST} || 500;
my $most = 64;                          # KiB, of 500 requests and more

my $t     = AgentTest->new;
my $plain = $t->upstream(plain => 1);
my $safe  = $t->upstream(names => [qw(api.internal pinned.internal)]);
my ($port, $tls) = ($plain->port, $safe->port);
my $dns   = $t->dns({
    'api.internal'    => { A => ['127.0.0.1'], ttl => 3600 },
    'pinned.internal' => { A => ['127.0.0.1'], ttl => 3600 },
    '*.wild.example'  => { A => ['192.0.2.1'], ttl => 3600 },
    '*.mute.example'  => { drop => 1 },
});

my $bounds = join ' ', 'audit_budget 1000000000 1000g;',
             map { "$_ 1000000000;" }
             qw(requests names refusals bytes_up bytes_down);
my $here = 'private 127.0.0.0/8;';

# without AGENT_TEST's usual log at info: it would be most of the work
my $rule = $t->rule;
my $b = $t->broker(log_level => 'notice', connections => 1024, dns => $dns,
                   policy => <<"END");
    agent_policy analysis {
        launchers user:$>; wall_clock 168h; $bounds
        handshakes 100000; mints 1000000;
        host 127.0.0.1:$port { plaintext on; websocket on;
                               methods GET POST; $here }
        host api.internal:$tls { $rule }
        host pinned.internal:$tls { tunnel on; $here }
        host *.wild.example;
        host *.mute.example;
    }
    agent_policy few {
        launchers user:$>; names 100; requests 100;
        host *.wild.example;
        host *.gone.example;
    }
END

my ($worker) = $b->workers;

sub fds { my @fds = glob "/proc/$worker/fd/*"; return scalar @fds }

sub rss {
    return ($t->read("/proc/$worker/status") =~ /^VmRSS:\s+(\d+)/m)[0];
}

sub cpu {
    my @stat = split ' ', $t->read("/proc/$worker/stat") =~ s/.*\) //r;
    return $stat[11] + $stat[12];
}

# A program in the box; what it says.
sub in_box ($l, $program, @args) {
    my $run = $l->do(run => { timeout => 3600 + $n, argv =>
        ['/usr/bin/python3', '-c', $program, map { "$_" } @args],
        env => { PATH => $ENV{PATH} } });
    return $run->{error} // ($run->{data} . $run->{err});
}

my ($l, $task) = $b->task;
my ($other) = $b->task;
my $ca = $t->write('box-ca.pem', $task->{ca});
my $upstream_ca = $t->ca->{cert};
my $url = "http://127.0.0.1:$port";

is($l->get("$url/echo")->{status}, 200, 'control: a task is served');


# A client of each kind: asks N times, says how often it got what it should

my $client = <<'END';
import os, socket, ssl, struct, subprocess, sys
kind, n, port, tls, ca, up_ca = sys.argv[1], *map(int, sys.argv[2:5]), *sys.argv[5:7]
host = b"127.0.0.1:%d" % port
url = b"http://" + host
good = 0

def dial(port=8899):
    s = socket.create_connection(("127.0.0.1", port), 20)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s

def head(f):
    status = f.readline()[9:12]
    length = 0
    while (line := f.readline()) not in (b"\r\n", b"\n", b""):
        if line.lower().startswith(b"content-length:"):
            length = int(line[15:])
    f.read(length)
    return status

def request(line, *more):
    return b"\r\n".join((line + b" HTTP/1.1",) + more + (b"", b""))

def one(data, s=None):
    with s or dial() as s:
        s.sendall(data)
        return head(s.makefile("rb"))

def connect(name, ctx):
    s = dial()
    s.sendall(b"CONNECT %s:%d HTTP/1.1\r\nHost: %s:%d\r\n\r\n" % (name, tls, name, tls))
    status = b""
    while not status.endswith(b"\r\n\r\n"):
        status += s.recv(1)
    return ctx.wrap_socket(s, server_hostname=name.decode())

box = ssl.create_default_context(cafile=ca)
outside = ssl.create_default_context(cafile=up_ca)
close = b"Connection: close"
get = request(b"GET " + url + b"/echo", b"Host: " + host)
get1 = request(b"GET " + url + b"/echo", b"Host: " + host, close)
api = b"api.internal:%d" % tls
tls1 = request(b"GET /echo", b"Host: " + api, close)
query = (struct.pack(">HHHHHH", 7, 256, 1, 0, 0, 0)
         + b"\3api\x08internal\0\0\1\0\1")
no = query.replace(b"\3api", b"\3evil"[:4])

if kind == "kept":
    s = f = None
    for i in range(n):
        if i % 500 == 0:
            s = dial()
            f = s.makefile("rb")
        s.sendall(get)
        good += head(f) == b"200"
elif kind == "one each":
    for i in range(n):
        good += one(get1) == b"200"
elif kind == "body":
    for i in range(n):
        good += one(request(b"POST " + url + b"/echo", b"Host: " + host, close,
                            b"Content-Length: 20000") + b"x" * 20000) == b"200"
elif kind == "refused":
    for i in range(n):
        good += one(request(b"GET http://evil.example/", b"Host: evil.example",
                            close)) == b"403"
elif kind == "malformed":
    for i in range(n):
        good += one(b"GET http://a b/ HTTP/1.1\r\n\r\n") == b"400"
elif kind == "cut short":
    for i in range(n):
        with dial() as s:
            s.sendall(get[:40])
        good += 1
elif kind == "answer cut":
    for i in range(n):
        with dial() as s:
            s.sendall(request(b"GET " + url + b"/stream?n=100000&ms=0",
                              b"Host: " + host))
            good += len(s.recv(100)) > 0
elif kind == "websocket":
    for i in range(n):
        good += one(request(b"GET " + url + b"/upgrade", b"Host: " + host,
                            b"Connection: Upgrade", b"Upgrade: websocket",
                            b"Sec-WebSocket-Version: 13",
                            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
                            )) == b"101"
elif kind == "CONNECT":
    for i in range(n):
        good += one(tls1, connect(b"api.internal", box)) == b"200"
elif kind == "TLS door":
    for i in range(n):
        s = box.wrap_socket(dial(tls), server_hostname="api.internal")
        good += one(tls1, s) == b"200"
elif kind == "no TLS":
    for i in range(n):
        with dial(tls) as s:
            s.sendall(b"\x16\3\1\0\5hello")
            s.recv(10)
        good += 1
elif kind == "tunnel":
    for i in range(n):
        good += one(tls1.replace(b"api", b"pinned"),
                    connect(b"pinned.internal", outside)) == b"200"
elif kind == "HTTP/2":
    env = {"PATH": os.environ["PATH"]}
    for i in range(0, n, 500):
        out = subprocess.run(["curl", "-s", "--http2", "--cacert", ca,
            "--connect-to", "::127.0.0.1:", "-o", "/dev/null", "-w",
            "%{http_code}/%{http_version}\n",
            "https://api.internal:%d/echo?[1-500]" % tls],
            env=env, capture_output=True).stdout
        good += out.count(b"200/2\n")
    good = min(good, n)
elif kind in ("names", "names that are not"):
    q = query if kind == "names" else no
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(60)
    s.connect(("127.0.0.1", 53))
    for i in range(n):
        s.send(q)
        good += s.recv(512)[3] & 15 == (0 if kind == "names" else 3)
elif kind == "names by TCP":
    for i in range(n):
        with dial(53) as s:
            s.sendall(struct.pack(">H", len(query)) + query)
            good += s.recv(512)[5] & 15 == 0
print(good, "of", n)
END

my @kinds = ('kept', 'one each', 'body', 'refused', 'malformed', 'cut short',
             'answer cut', 'websocket', 'CONNECT', 'TLS door', 'no TLS',
             'tunnel', 'HTTP/2', 'names', 'names that are not',
             'names by TCP');

sub settled {
    # no descriptor more, and nothing to do
    my ($fds, $cpu) = (fds(), cpu());
    AgentTest::wait_for('the worker to be idle', sub {
        my @was = ($fds, $cpu);
        select undef, undef, undef, 0.02;
        ($fds, $cpu) = (fds(), cpu());
        return $was[0] == $fds && $was[1] == $cpu;
    });
    return ($fds, rss());
}

# control: what is held is seen

subtest 'control: what is held is seen in the memory of the worker' => sub {
    my ($fds, $rss) = settled();
    for (1 .. 60) {
        $other->do(open => { id => "h$_", port => 8899 });
        $other->do(write => { id => "h$_", data => "GET $url/echo HTTP/1.1\r\n"
                              . 'X: ' . 'x' x 3000 });
    }
    AgentTest::wait_for('the connections', sub { fds() >= $fds + 60 });
    my ($now, $kib) = settled();
    cmp_ok($kib - $rss, '>', $most, 'sixty half heads show (KiB)');
    $other->do(shut => { id => "h$_" }) for 1 .. 60;
    AgentTest::wait_for('their end', sub { fds() <= $fds + 1 });
};

my $slow = qr/^(?:body|answer cut|websocket|CONNECT|TLS door|tunnel)$/;

for my $kind (@kinds) {
    my $times = $kind =~ $slow ? int $n / 5 : $n;
    $times = int(($times + 499) / 500) * 500 if $kind eq 'HTTP/2';
    my $ask = sub ($n) {
        in_box($l, $client, $kind, $n, $port, $tls, $ca, $upstream_ca) };

    $ask->($times);
    subtest "E-033 $kind: no request leaves anything in the worker" => sub {
        my ($fds, $rss) = settled();
        is($ask->($times), "$times of $times\n", 'all are answered');
        my ($now, $kib) = settled();
        cmp_ok($now, '<=', $fds + 2, 'the worker has no descriptor more');
        cmp_ok($kib - $rss, '<', $most, 'the worker has no memory more (KiB)')
            if !$t->{sanitize};             # which keeps what is freed
    };
}

for my $round (1, 2) {
    my ($fds, $rss) = settled();
    for (1 .. $n / 15) {
        $other->do(connect => { name => 'x', path => $b->control });
        my $reply = $other->ask('x', { v => 1, op => 'open',
                                       policy => 'analysis' });
        $other->do(close => { name => 'x' });
        $reply->{ok} or fail('E-033 a task is opened');
    }
    AgentTest::wait_for('their ends', sub { (settled())[0] <= $fds + 2 });
    cmp_ok(rss() - $rss, '<', $most, 'E-033 tasks: the worker has no memory more (KiB)')
        if $round == 2 && !$t->{sanitize};
}


# E-024: 10^5 names under an allowed wildcard

my $flood = <<'END';
import socket, struct, sys
n, zone = int(sys.argv[1]), sys.argv[2].encode()
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
s.connect(("127.0.0.1", 53))
s.settimeout(60)
codes, seen = {}, set()
for i in range(0, n, 50):
    for k in range(i, i + 50):
        name = b"h%d" % k
        s.send(struct.pack(">HHHHHH", k & 65535, 256, 1, 0, 0, 0)
               + bytes([len(name)]) + name + bytes([len(zone)]) + zone
               + b"\7example\0\0\1\0\1")
    for k in range(50):
        data = s.recv(512)
        code = data[3] & 15
        codes[code] = codes.get(code, 0) + 1
        if code == 0:
            seen.add(data[-4:])
print(codes, len(seen) > n * 0.4)
END

subtest 'E-024 names under an allowed wildcard fill nothing' => sub {
    my ($fds, $rss) = settled();
    my $asked = $dns->questions;
    my ($mark, $over) = map { $t->dir . "/flood-$_" } 'served', 'over';
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        # beside the flood, and until it is over
        my $served = 0;
        while (!-e $over) {
            POSIX::_exit(1) if $other->get("$url/echo")->{status} != 200;
            $t->write($mark, ++$served);
        }
        POSIX::_exit(0);
    }
    AgentTest::wait_for('the other box', sub { -e $mark });
    is(in_box($l, $flood, 100_000, 'wild'), "{0: 100000} True\n",
       'a hundred thousand names of a wildcard have their addresses');
    my $served = $t->read($mark);
    $t->write($over, '');
    waitpid $pid, 0;
    is($?, 0, 'another box is served beside that');
    cmp_ok($served, '>=', 20, 'the other box had many answers meanwhile');
    my ($now, $kib) = settled();
    cmp_ok($now, '<=', $fds + 2, 'the worker has no descriptor more');
    cmp_ok($kib - $rss, '<', 256, 'the worker keeps none of the names (KiB)')
        unless $t->{sanitize};
    is(scalar $dns->questions, $asked, 'no name was asked for outside');

    my ($few) = $b->task('few');
    is(in_box($few, $flood, 1000, 'wild'), "{0: 100, 5: 900} False\n",
       'past the bound of its names a box is refused');
};

# each request for a name is a question outside: there are `requests` of them

my $requests = <<'END';
import http.client, sys
codes = {}
c = http.client.HTTPConnection("127.0.0.1", 8899, timeout=20)
for i in range(int(sys.argv[1])):
    for again in range(2):
        try:
            c.request("GET", "http://n%d.%s.example/" % (i, sys.argv[2]))
            r = c.getresponse()
            break
        except (OSError, http.client.HTTPException):
            c.close()
    r.read()
    codes[r.status] = codes.get(r.status, 0) + 1
print(codes)
END

for my $zone ('gone', 'wild') {
    my ($few) = $b->task('few');
    my $asked = $dns->questions;
    my $status = $zone eq 'gone' ? 502 : 403;
    is(in_box($few, $requests, 500, $zone), "{$status: 100, 429: 400}\n",
       "E-024 requests for names of $zone.example are bounded by `requests`");
    cmp_ok($dns->questions - $asked, '<=', 200,
           "E-024 each request for a name of $zone.example asks two questions "
           . 'at most');
    cmp_ok($dns->questions - $asked, '>', 90,
           "control: names of $zone.example were asked for");
}

# the resolver forgets what it has not been asked for thirty seconds: what it
# has of one box is bounded by its requests

subtest 'E-024 what the resolver keeps of a box is bounded by its requests'
    => sub {
    my ($fds, $rss) = settled();
    like(in_box($l, $requests, 3000, 'wild'), qr/^\{403: 3000\}/,
         'three thousand names are resolved');
    my ($now, $kib) = settled();
    cmp_ok($now, '<=', $fds + 2, 'the worker has no descriptor more');
    cmp_ok(($kib - $rss) * 1024 / 3000, '<', 512,
           'a name costs a few hundred bytes') unless $t->{sanitize};
};

# a name server that says nothing: as many wait as there are connections

my $mute = <<'END';
import socket, sys, time
kept = []
for i in range(150):
    h = "m%d.mute.example" % i
    s = socket.create_connection(("127.0.0.1", 8899))
    s.sendall(("GET http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n" % (h, h)).encode())
    kept.append(s)
END

subtest 'E-024 names that a name server does not answer hold nobody up' => sub {
    my ($fds) = settled();
    my $asked = $dns->questions;
    is(in_box($l, $mute, ''), '',
       'control: a hundred and fifty requests for such names are sent');
    cmp_ok(fds() - $fds, '<=', 2 * 64,
           'as many wait as a task has connections, each with one socket');
    my %names = map { $_->{name} => 1 }
                grep { $_->{name} =~ /mute/ } $dns->questions;
    cmp_ok(scalar keys %names, '<=', 150, 'no other name is asked for');
    is($other->get("$url/echo")->{status}, 200, 'another box is served');
    ok($l->ask('task', { op => 'close', reason => 'ok' })->{ok},
       'the task can be closed');
    AgentTest::wait_for('the descriptors', sub { fds() <= $fds });
    pass('after its close nothing waits for the names');
};

is_deeply([$b->workers], [$worker], 'the worker is the same');
$b->is_clean(audit => 0);

done_testing;
