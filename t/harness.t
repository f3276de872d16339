#!/usr/bin/perl

# The tests' own instruments tell the truth: the upstream writes down what it
# was sent and to which name, the DNS server answers as its file says at that
# moment, nginx is reported as it is, and a box made by hand is cut off.

use v5.36;

use lib 't/lib';
use AgentTest;
use Test::More;

use IO::Socket::INET;
use IO::Socket::UNIX;

my $t = AgentTest->new;


# The upstream

my $up = $t->upstream(names => ['localhost'],
                      sni => { 'other.test' => $t->cert(['other.test']) });

sub curl (@args) {
    return $t->run(['curl', '-s', '--max-time', 20, '--cacert',
                    $t->ca->{cert}, @args]);
}

is($up->connections, 0, 'the upstream counts no connection at first');

curl('-d', 'a body', '-H', 'X-Two: 1', '-H', 'X-Two: 2',
     "https://localhost:$up->{port}/x?y=1");
my ($r) = $up->requests;
is($r->{sni}, 'localhost', 'the upstream notes the name it was asked for');
like($r->{head}, qr{^POST /x\?y=1 HTTP/1.1\r\n.*\r\n\r\n\z}s,
     'the upstream notes the request as it was sent');
is_deeply($r->{headers}{'x-two'}, [1, 2],
          'the upstream notes every header');
is($r->{body}, 'a body', 'the upstream notes the body');
is($up->connections, 1, 'the upstream counts each connection');

my $run = curl('--connect-to', "other.test::localhost:$up->{port}",
               'https://other.test/');
is($run->{status}, 0, 'the upstream chooses its certificate by name');

$run = $t->run(['curl', '-s', "https://localhost:$up->{port}/"]);
is($run->{status}, 60, 'a client that does not trust the upstream refuses it');
my @failed = grep { !$_->{ok} } $up->events('handshake');
is(scalar @failed, 1, 'the upstream notes the failed handshake');

is(curl("https://localhost:$up->{port}/status/418", '-o', '/dev/null', '-w',
        '%{http_code}')->{out}, 418,
   'the upstream answers with any status');
is(length curl("https://localhost:$up->{port}/big?n=300000")->{out}, 300000,
   'the upstream answers with any number of bytes');
is(curl("https://localhost:$up->{port}/short?n=50")->{status}, 18,
   'the upstream answers with fewer bytes than it said');


# The DNS server

my $dns = $t->dns({
    'api.internal' => { A => ['127.0.0.1'], AAAA => ['::1'] },
    'turn.test'    => { A => [['192.0.2.1'], ['192.0.2.2']] },
    'big.test'     => { A => [map { "10.0.0.$_" } 1 .. 60] },
});

# (rcode, is it cut, the IPv4 addresses)
sub ask ($name, $proto = 'udp') {
    my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', Proto => $proto,
                                  PeerPort => $dns->{port}) or die "dns: $!";
    my $query = pack('n6', 7, 0x0100, 1, 0, 0, 0)
              . join('', map { pack 'C/a', $_ } split /\./, $name)
              . pack('xnn', 1, 1);
    my $answer = '';
    if ($proto eq 'udp') {
        $s->send($query);
        $s->recv($answer, 4096);
    } else {
        $s->print(pack 'n/a', $query);
        read $s, my $size, 2;
        read $s, $answer, unpack 'n', $size;
    }
    my (undef, $flags, undef, $n) = unpack 'n4', $answer;
    my @addresses = map { join '.', unpack 'C4', substr $answer, 16 * $_ - 4
                          + length($query), 4 } 1 .. $n;
    return [$flags & 15, $flags & 0x200 ? 1 : 0, @addresses];
}

is_deeply(ask('api.internal'), [0, 0, '127.0.0.1'],
          'the name server answers with an address');
is_deeply(ask('API.internal'), [0, 0, '127.0.0.1'],
          'the name server takes a name in any case');
is_deeply(ask('nobody.test'), [3, 0], 'an unknown name is NXDOMAIN');
is_deeply([map { ask('turn.test')->[2] } 1 .. 3],
          ['192.0.2.1', '192.0.2.2', '192.0.2.1'], 'a name may alternate');
is_deeply(ask('big.test'), [0, 1], 'a long answer is cut over UDP');
is(scalar ask('big.test', 'tcp')->@*, 62,
   'a long answer is whole over TCP');
$dns->set({ 'nobody.test' => { A => ['192.0.2.9'] } });
is_deeply(ask('nobody.test'), [0, 0, '192.0.2.9'],
          'the name server reads its file anew');
is(scalar $dns->questions('turn.test'), 3,
   'the name server notes what it was asked');


# nginx, as root with workers of another user, and as an ordinary user

for my $user (AgentTest::is_root() ? (undef, $t->user) : undef) {
    my $as = defined $user ? 'as an ordinary user' : 'as the test\'s user';
    my $server = sub ($text) {
        return "server { listen unix:%CONTROL%; return 200 '$text'; }";
    };
    my $broker = $t->broker(module => '', workers => 2, user => $user,
                            http => $server->('one'));
    my $get = sub {
        return curl('--unix-socket', $broker->control, 'http://x/')->{out};
    };
    my @workers = $broker->workers;

    is(scalar @workers, 2, "nginx runs $as");
    is($get->(), 'one', "nginx serves $as");
    ok($broker->reload(http => $server->('two')), "nginx reloads $as");
    is($get->(), 'two',
       "nginx serves the new configuration after the reload $as");
    ok(!$broker->reload(http => 'no_such_directive;'),
       "a refused configuration is reported $as");
    is($get->(), 'two',
       "the old configuration goes on after a refused one $as");
    $broker->quit;
    ok(!(grep { kill 0, $_ } @workers), "nginx ends with all its workers $as");
}

my ($ok, $said) = $t->nginx_t(module => '', http => 'no_such_directive;');
ok(!$ok, 'nginx -t refuses what nginx refuses');
like($said, qr/unknown directive "no_such_directive"/,
     'nginx -t prints the reason');


# A box made by hand

my $path = $t->dir . '/control';
my $control = IO::Socket::UNIX->new(Local => $path, Listen => 1);
my $l = $t->launcher;

ok($l->do(connect => { name => 'a', path => $path })->{ok},
   'a launcher driven by hand reaches the control socket');
my $peer = $control->accept;
$l->do(descriptors => { name => 'a', message => { op => 'serve' },
                        kinds => [{ listen => 8899 }] });
is(readline $peer, qq({"op": "serve"}\n), 
   'a launcher driven by hand sends the message given');
ok(!$l->do(open => { id => 1, port => 8899 })->{error},
   'the box of that launcher reaches its own door');
like($l->do(open => { id => 2, port => $up->{port} })->{error},
     qr/ConnectionRefused/,
     'the box of that launcher reaches no port of the host');

done_testing;
