#!/usr/bin/perl

# What a task waits for when it ends: its result names each request that has
# no answer yet, and says what that was waiting for.
#
# sanitizers: requests end at every moment

use v5.36;

use lib 't/lib';
use AgentTest;
use List::Util qw(sum0);
use Test::More;

my $t  = AgentTest->new;
my $up = $t->spawn(['/usr/bin/python3', "$AgentTest::LIB/failing_upstream.py"],
                   pipes => 1);
chomp(my $port = readline($up->{out}) // die "no upstream\n");

# one that never takes a connection: its queue is full
my $deaf = IO::Socket::INET->new(LocalAddr => '127.0.0.4', Listen => 1,
                                 LocalPort => $port)
    or BAIL_OUT("127.0.0.4: $!");
my @queued = map {
    IO::Socket::INET->new(PeerAddr => '127.0.0.4', PeerPort => $port,
                          Blocking => 0)
} 1 .. 8;

# one that takes connections and never reads, answers or closes: a box that is
# killed ends its side of a tunnel, which any other host may answer by its end
my $held = IO::Socket::INET->new(LocalAddr => '127.0.0.5', Listen => 64,
                                 LocalPort => $port)
    or BAIL_OUT("127.0.0.5: $!");

my $dns = $t->dns({ 'up.test'   => { A => ['127.0.0.1'] },
                    'tun.test'  => { A => ['127.0.0.5'] },
                    'itun.test' => { A => ['127.0.0.5'] },
                    'rtun.test' => { A => ['127.0.0.6'] },
                    'deaf.test' => { A => ['127.0.0.4'] },
                    'dtun.test' => { A => ['127.0.0.4'] },
                    'mute.test' => { drop => JSON::PP::true },
                    'mtun.test' => { drop => JSON::PP::true } });
my $here = 'private 127.0.0.0/8;';
my $b = $t->broker(dns => $dns, policy => <<"END");
    wall_clock 4s;
    host up.test:$port   { methods GET POST; plaintext on; $here }
    host deaf.test:$port { plaintext on; $here }
    host mute.test:$port { plaintext on; $here }
    host tun.test:$port  { tunnel on; $here }
    host dtun.test:$port { tunnel on; $here }
    host mtun.test:$port { tunnel on; $here }
    host itun.test:$port { tunnel on; idle 1s; $here }
    host rtun.test:$port { tunnel on; $here }
    bytes_up 10m;
END

my %waits = (
    'GET mute.test /name'  => q{waiting for the host's address},
    'GET deaf.test /dial'  => 'waiting for a connection to the host',
    'GET up.test /silent'  => q{waiting for the host's answer},
    'POST up.test /deaf'   => 'waiting for the rest of the request',
    'CONNECT mtun.test '   => q{waiting for the host's address},
    'CONNECT dtun.test '   => 'waiting for a connection to the host',
    'CONNECT tun.test '    => q{waiting for the host's answer},
);

# each request's first bytes, and for a tunnel what follows the answer
my %sent = map {
    my ($method, $host, $path) = split / /, "$_ ", 3;
    $path =~ s/ $//;
    ($_ => $method eq 'CONNECT'
        ? "CONNECT $host:$port HTTP/1.1\r\nHost: $host:$port\r\n\r\n"
        : "$method http://$host:$port$path HTTP/1.1\r\nHost: $host:$port\r\n"
          . ($method eq 'POST' ? "Content-Length: 100000\r\n" : '') . "\r\n")
} keys %waits;

sub hello ($host) {
    my $run = $t->run(['/usr/bin/python3', '-c', <<'END', $host]);
import ssl, sys
out = ssl.MemoryBIO()
c = ssl.create_default_context()
c.check_hostname = False
c.verify_mode = ssl.CERT_NONE
s = c.wrap_bio(ssl.MemoryBIO(), out, server_hostname=sys.argv[1])
try:
    s.do_handshake()
except ssl.SSLWantReadError:
    print(out.read().hex())
END
    return pack 'H*', $run->{out} =~ s/\s//gr;
}

# the same for a program in a box
my $ask = <<'END';
import json, socket, sys, time
kept = []
for head, hello in json.loads(sys.argv[1]):
    s = socket.create_connection(("127.0.0.1", 8899))
    s.sendall(head.encode())
    if hello:
        while b"\r\n\r\n" not in s.recv(4096):
            pass
        s.sendall(bytes.fromhex(hello))
    kept.append(s)
time.sleep(99)
END

my @all = map { /^CONNECT (\S+)/ ? [$sent{$_}, unpack('H*', hello($1))]
                                 : [$sent{$_}, ''] } sort keys %sent;

sub listed ($egress, $what) {
    my %got = map { ("$_->{method} $_->{host} " . ($_->{path} // '')
                     => "$_->{reason}: $_->{hint}") } @{ $egress->{denied} };
    my %want = map { ($_ => 'aborted: the request had no answer when its '
                            . "connection was closed: it was $waits{$_}") }
               keys %waits;
    is_deeply(\%got, \%want, "$what: each is named, with what it waited for")
        or diag explain $egress;
    is($egress->{denied_count}, sum0(map { $_->{count} } @{ $egress->{denied} }),
       "$what: the list has as many as its count says");
}

# every decision that allows has its end, and what was waiting says so
sub recorded ($what) {
    my %allowed = map { $_->{request} => $_ }
                  $b->audit('egress', verdict => 'allowed');
    my %end = map { $_->{request} => $_ } $b->audit('egress_end');
    is_deeply([sort keys %end], [sort keys %allowed],
              "$what: each that was allowed has an end");
    is_deeply([grep { ($_->{failure} // '') ne 'aborted' || !$_->{detail} }
               values %end], [], "$what: whose failure is aborted, with why");
    is(scalar(grep { $_->{detail} eq q{waiting for the host's address} }
              $b->audit('egress', verdict => 'denied', reason => 'aborted')), 2,
       "$what: what had no decision yet is denied as aborted");
}


subtest 'G-025: the reply to close names the requests that wait' => sub {
    my ($l) = $b->task;
    for my $which (sort keys %sent) {
        $l->do(open => { id => $which, port => 8899 });
        $l->do(write => { id => $which, data => $sent{$which} });
        next unless $which =~ /^CONNECT (\S+)/;
        like($l->do(read => { id => $which, timeout => 60 })->{data}, qr/ 200 /,
             "control: CONNECT to $1 is answered");
        $l->do(write => { id => $which, data => hello($1) });
    }
    AgentTest::wait_for('all of them', sub {
        $b->audit('egress', verdict => 'allowed') == 5
            && $dns->questions('mute.test') && $dns->questions('mtun.test');
    });
    AgentTest::wait_for('the upstream', sub {
        my %tcp = map { $_ => 1 } $t->read('/proc/net/tcp')
            =~ /^\s*\d+: \S+:(\S+) \S+:@{[sprintf '%04X', $port]} 01/mg;
        return keys %tcp >= 3;
    });
    my $end = $l->ask('task', { op => 'close', reason => 'ok' });
    listed($end->{egress}, 'close');
    is($end->{egress}{allowed}, 5, 'five of them were allowed');
    recorded('close');
    my ($line) = $b->audit('task_end');
    is("$line->{allowed} $line->{denied}", '5 2',
       'the line of the end counts decisions');
    $l->stop;
};

subtest 'G-025: the result of a box that is out of time names them' => sub {
    my $had = $b->audit('egress_end');
    my $run = $t->jail(['run', '--control', $b->control, '--policy', 'analysis',
                        '--', 'python3', '-c', $ask,
                        JSON::PP::encode_json(\@all)]);
    is($run->{json}{reason}, 'timeout', 'the result is timeout')
        or diag $run->{out};
    listed($run->{json}{egress}, 'result');
    is(scalar $b->audit('egress_end'), $had + 5, 'each has its end');
};

subtest 'G-025: so does the result of one that a reload left to an old worker'
    => sub {
    my $had = $b->audit('egress', verdict => 'allowed');
    my $box = $t->spawn([$t->jail_path, 'run', '--control', $b->control,
                         '--policy', 'analysis', '--', 'python3', '-c', $ask,
                         JSON::PP::encode_json(\@all)], pipes => 1,
                        env => { $t->sanitizer_env(0) });
    AgentTest::wait_for('all of them', sub {
        $b->audit('egress', verdict => 'allowed') == $had + 5 });
    $b->reload;
    my $text = do { local $/; readline $box->{out} };
    waitpid $box->{pid}, 0;
    $t->forget($box->{pid});
    my $result = JSON::PP::decode_json($text);
    is($result->{reason}, 'timeout', 'the result is timeout');
    listed($result->{egress}, 'after a reload');
};

subtest 'a client that gives up is named as well, one that has an answer not'
    => sub {
    my ($l) = $b->task;
    is($l->get("http://up.test:$port/own/200")->{status}, 200,
       'control: a request is answered');
    $l->do(open => { id => 'x', port => 8899 });
    $l->do(write => { id => 'x', data => $sent{'GET up.test /silent'} });
    my $had = $b->audit('egress_end');
    AgentTest::wait_for('its decision', sub {
        ($b->audit('egress'))[-1]{path} eq '/silent' });
    $l->do(shut => { id => 'x' });
    AgentTest::wait_for('its end', sub { $b->audit('egress_end') > $had });
    my $end = $l->ask('task', { op => 'close', reason => 'ok' });
    is_deeply([map { "$_->{path} $_->{reason}" } @{ $end->{egress}{denied} }],
              ['/silent aborted'], 'the one without an answer is named');
    is($end->{egress}{denied_count}, 1, 'it is counted once');
    $l->stop;
};

subtest 'a tunnel that failed is named with what went wrong' => sub {
    my ($l) = $b->task;
    my %failure = ('itun.test' => 'idle', 'rtun.test' => 'upstream_unreachable');
    for my $host (sort keys %failure) {
        $l->do(open => { id => $host, port => 8899 });
        $l->do(write => { id => $host, data => "CONNECT $host:$port HTTP/1.1\r\n"
                                              . "Host: $host:$port\r\n\r\n" });
        like($l->do(read => { id => $host, timeout => 60 })->{data}, qr/ 200 /,
             "control: CONNECT to $host is answered");
        $l->do(write => { id => $host, data => hello($host) });
        is($l->do(read => { id => $host, timeout => 60 })->{data}, '',
           'the tunnel ends');
        is($b->audit_wait('egress_end', host => $host)->{failure},
           $failure{$host}, 'its line has the failure');
    }
    my $end = $l->ask('task', { op => 'close', reason => 'ok' });
    is_deeply({ map { ($_->{host} => $_->{reason}) }
                @{ $end->{egress}{denied} } }, \%failure,
              'the result has the failures too');
    is(scalar(grep { !$_->{hint} } @{ $end->{egress}{denied} }), 0,
       'with a hint');
    is($end->{egress}{denied_count}, 2, 'each is counted once');
    $l->stop;
};

$b->stop;
$b->is_clean;

done_testing;
