#!/usr/bin/perl

# The dns doors: an allowed name leads to the web doors, any other does not
# exist, at once, and nothing is ever asked outside.
#
# sanitizers: queries of a box are read

use v5.36;

use lib 't/lib';
use AgentTest;
use Test::More;

my $t   = AgentTest->new;
my $up  = $t->upstream(names => ['api.internal', '*.packages.example']);
my $port = $up->port;
my $rule = $t->rule;

my $b = $t->broker(names => ['api.internal'], policy => <<"END");
    host api.internal:$port { $rule }
    host *.packages.example;
END

my $dns = $b->{dns};
my ($l, $task) = $b->task;
my $ca = $t->write('box-ca.pem', $task->{ca});

my %TYPE = (A => 1, NS => 2, CNAME => 5, PTR => 12, MX => 15, TXT => 16,
            AAAA => 28, SRV => 33, HTTPS => 65, ANY => 255, AXFR => 252);
my $id = 7;

sub name ($text) {
    return join('', map { pack 'C/a*', $_ } split /\./, $text) . "\0";
}

sub query ($name, $type = 'A', %opt) {
    $id++;
    return pack('n6', $id, $opt{flags} // 0x0100, $opt{qd} // 1,
                $opt{an} // 0, $opt{ns} // 0, $opt{ar} // ($opt{edns} ? 1 : 0))
        . ($opt{raw} // name($name)) . pack('nn', $TYPE{$type}, $opt{class} // 1)
        . ($opt{edns} ? "\0" . pack('nnNn', 41, 1232, 0, 0) : '')
        . ($opt{tail} // '');
}

my $ask = <<'END';
import base64, socket, struct, sys
how, address, data = sys.argv[1], sys.argv[2], base64.b64decode(sys.argv[3])
family = socket.AF_INET6 if ":" in address else socket.AF_INET
if how == "udp":
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(float(sys.argv[4]))
    s.connect((address, 53))      # answers from elsewhere are not delivered
    s.send(data)
    try:
        sys.stdout.buffer.write(s.recv(4096))
    except TimeoutError:
        pass
else:
    s = socket.create_connection((address, 53))
    s.settimeout(float(sys.argv[4]))
    s.sendall(struct.pack(">H", len(data)) + data)
    try:
        sys.stdout.buffer.write(s.recv(4096)[2:])
    except TimeoutError:
        pass
END

sub ask ($data, %opt) {
    my $run = $l->do(run => { argv => ['/usr/bin/python3', '-c', $ask,
        $opt{how} // 'udp', $opt{address} // '127.0.0.1',
        MIME::Base64::encode_base64($data, ''), $opt{timeout} // '5'] });
    die $run->{err} if $run->{status};
    my $raw = $run->{data};
    return { none => 1 } if $raw eq '';
    my ($rid, $flags, $qd, $an, $ns, $ar) = unpack 'n6', $raw;
    my $address = $an && $raw =~ /\xc0\x0c\0\x01\0\x01....\0\x04(....)/s
                ? join '.', unpack 'C4', $1 : undef;
    return { id => $rid, rcode => $flags & 15, flags => $flags, qd => $qd,
             an => $an, ar => $ar, address => $address, raw => $raw };
}

sub denied { return scalar $b->audit('dns', verdict => 'denied') }


# Allowed names

for my $how ('udp', 'tcp') {
    my $r = ask(query('api.internal'), how => $how);
    is($r->{rcode}, 0, "$how: an allowed name exists");
    is($r->{id}, $id, "$how: the answer has the question's id");
    like($r->{address}, qr/^198\.1[89]\.\d+\.\d+$/,
         "$how: its address is of 198.18.0.0/15");
}

my $first = ask(query('api.internal'))->{address};
is(ask(query('API.Internal'))->{address}, $first,
   'a name has the same address however it is spelled');
like(ask(query('API.Internal'))->{raw}, qr/\x03API\x08Internal/,
     'the question is repeated in the answer as it was asked');
isnt(ask(query('a.packages.example'))->{address}, $first,
     'another name has another address');
is(ask(query('packages.example'))->{rcode}, 3,
   'a wildcard does not allow the name above it');

for my $type (qw(AAAA MX TXT SRV HTTPS ANY)) {
    my $r = ask(query('api.internal', $type));
    is("$r->{rcode} $r->{an}", '0 0',
       "$type of an allowed name: the name exists, without data");
}

my $r = ask(query('api.internal', 'A', edns => 1));
is("$r->{rcode} $r->{an} $r->{ar}", '0 1 1',
   'a question with EDNS is answered with EDNS');

for my $address ('8.8.8.8', '127.0.0.53', '::1', '2001:db8::53') {
    is(ask(query('api.internal'), address => $address)->{address}, $first,
       "a query sent to $address is answered from $address");
}
is(denied(), 1, 'a name that no rule has leaves a line, an allowed one none');


# Refused

subtest 'B-038 B-039 a name that no rule has does not exist, and is not asked '
    . 'for outside' => sub {
    my $n = denied();
    for my $name ('evil.example', 'api.internal.evil.example',
                  'xapi.internal', 'secret-0123456789.evil.example',
                  '1.0.0.127.in-addr.arpa', 'metadata.google.internal') {
        is(ask(query($name))->{rcode}, 3, "$name does not exist");
        is(denied(), ++$n, "$name leaves one line");
    }
    my ($line) = ($b->audit('dns'))[-1];
    is($line->{host}, 'metadata.google.internal', 'the line has the name');
    is($line->{task}, $task->{task_id}, 'the line has the task');
    is(scalar(grep { $_->{name} ne 'api.internal' } $dns->questions), 0,
       'no name is asked for at the name server outside');
};


# Not a query

my %bad = (
    'an answer'            => query('api.internal', 'A', flags => 0x8180),
    'less than a header'   => "\0\1\2",
);
for my $what (sort keys %bad) {
    ok(ask($bad{$what}, timeout => '0.3')->{none}, "$what is not answered");
}

my @formerr = (
    ['two questions',      query('api.internal', 'A', qd => 2)],
    ['no question',        query('api.internal', 'A', qd => 0)],
    ['an answer in it',    query('api.internal', 'A', an => 1)],
    ['a pointer',          query('', 'A', raw => "\xc0\x0c")],
    ['a loop',             query('', 'A', raw => "\x01a\xc0\x0c")],
    ['an unknown label',   query('', 'A', raw => "\x41aa\0")],
    ['a name cut short',   substr(query('api.internal'), 0, 20)],
    ['a name too long',    query('', 'A',
                                 raw => ("\x3f" . 'a' x 63) x 5 . "\0")],
    ['bytes behind it',    query('api.internal', 'A', tail => 'x')],
    ['a broken OPT',       query('api.internal', 'A', ar => 1,
                                 tail => "\0\0\x29\x04\xd0\0\0\0\0\0\x05x")],
);
for my $case (@formerr) {
    is(ask($case->[1])->{rcode}, 1,
       "a query with $case->[0] is answered as malformed");
}
is(ask(query('api.internal', 'A', flags => 0x2800))->{rcode}, 4,
   'another operation than a query is answered as not implemented');
is(ask(query('api.internal', 'A', class => 3))->{rcode}, 5,
   'a question of another class than IN is refused');
subtest 'B-017 a byte within a label ends no name' => sub {
    is(ask(query('', 'A', raw => "\x0capi.internal\0"))->{rcode}, 3,
       'a dot within a label does not make two labels of it');
    is(ask(query('', 'A', raw => "\x03a\0b\x03com\0"))->{rcode}, 3,
       'a NUL within a label does not end the name');
    my ($line) = ($b->audit('dns'))[-1];
    is($line->{host}, 'a\\000b.com', 'the line shows the NUL, escaped');
};


# The whole way: a name, any address, a web door, the host

$r = $l->do(run => { argv => ['curl', '-sS', '--max-time', '60', '--cacert',
    $ca, '--resolve', "api.internal:$port:$first", '-w', '%{http_code}',
    '-o', '/dev/null', "https://api.internal:$port/echo"],
    env => { PATH => $ENV{PATH} } });
is($r->{data}, 200,
   'the address of a name leads through a web door to its '
   . 'host') or diag $r->{err};

# a box on a host without IPv6 has IPv4 sockets

my $four = $t->launcher;
$four->do(connect => { name => 'task', path => $b->control });
my $opened = $four->ask('task', { v => 1, op => 'open',
                                  policy => 'analysis' });
my $served = $four->ask('task', { op => 'serve' }, kinds => [map {
    { ($_->{name} =~ /-udp$/ ? 'udp4' : 'listen4') => $_->{port} }
} @{ $opened->{doors} }]);
ok($served->{ok},
   'doors that are IPv4 sockets are served, as on a host without IPv6')
    or diag explain $served;
for my $address ('127.0.0.1', '127.0.0.53', '8.8.8.8') {
    my $run = $four->do(run => { argv => ['/usr/bin/python3', '-c', $ask,
        'udp', $address,
        MIME::Base64::encode_base64(query('api.internal'), ''), '5'] });
    ok(length $run->{data},
       "a query to $address is answered where the doors "
       . "are IPv4 sockets") or diag $run->{err};
}

subtest 'the result of a task has the names that it was refused' => sub {
    ask(query('evil.example', 'AAAA'));
    ask(query('EVIL.example'), how => 'tcp');
    my $end = $l->ask('task', { op => 'close', reason => 'ok' });
    is_deeply([grep { $_->{host} eq 'evil.example' }
               @{ $end->{egress}{denied} }],
              [{ door => 'dns', host => 'evil.example', count => 3,
                 reason => 'host_not_allowed', method => undef, port => undef,
                 path => undef, hint => "this task may call only: "
                                  . "api.internal:$port *.packages.example" }],
              'a name that was refused three times is there once, with a hint')
        or diag explain $end;
    is(scalar(grep { ($_->{door} // '') ne 'dns' }
              @{ $end->{egress}{denied} }), 0,
       'what was not a query is not there');
    is($end->{egress}{denied_count}, denied(), 'each refusal is counted once');
};

$b->is_clean;

done_testing;
