#!/usr/bin/perl

# Where an allowed name leads: every address is judged, what was judged is
# what is dialled, and a name that is not allowed is not even asked for.
#
# sanitizers: answers of name servers are read

use v5.36;

use lib 't/lib';
use AgentTest;
use JSON::PP ();
use Socket qw(AF_INET AF_INET6 inet_pton);
use Test::More;

my $token = 'sk_address_0123456789abcdef_marker';

my $t  = AgentTest->new;
my $up = $t->upstream(names => [map { $_, "*.$_" } qw(good.test mix.test
                                bad.test chain.test api.test)]);
my $port = $up->port;

# the same port at an address that no rule opens: nothing must arrive there
my $private = $t->upstream(names => ['good.test'], port => $port,
                           bind => '127.0.0.2');
my $six   = $t->upstream(names => ['six.test'], bind => '::1');
my $plain = $t->upstream(plain => 1);
my $plain6 = $t->upstream(plain => 1, bind => '::1');

# a listener that never answers: its queue is full
my $deaf = IO::Socket::INET->new(LocalAddr => '127.0.0.4', Listen => 1,
                                 LocalPort => $port, ReuseAddr => 1)
    or BAIL_OUT("127.0.0.4: $!");
my @queued = map {
    IO::Socket::INET->new(PeerAddr => '127.0.0.4', PeerPort => $port,
                          Blocking => 0)
} 1 .. 8;

sub free_port () {
    return IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1)
        ->sockport;
}
my ($own, $own_any) = (free_port(), free_port());

# this host's address that is not loopback, if it has one
my ($outer) = $t->run(['hostname', '-I'])->{out} =~ /\b(\d+\.\d+\.\d+\.\d+)\b/;


# Each special range: an address in it, and at the ends

my @special = qw(
    10.0.0.0 10.1.2.3 10.255.255.255 100.64.0.1 100.127.255.255
    127.0.0.1 127.255.255.255 172.16.0.1 172.31.255.255 192.0.0.1 192.0.2.1
    192.88.99.1 192.168.0.1 192.168.255.255 198.18.0.1 198.19.255.255
    198.51.100.1 203.0.113.1 240.0.0.1 255.255.255.254
);
my @special6 = qw(
    ::1 fc00::1 fd00::1 fdff:ffff::1 fec0::1 2001:db8::1 100::1 5f00::1
    3fff::1 ::ffff:8.8.8.8 ::ffff:10.0.0.1 ::ffff:127.0.0.1 ::8.8.8.8
    64:ff9b::8.8.8.8 64:ff9b::a00:1 64:ff9b:1::1 2002:808:808::1
    2002:7f00:1::1 2001::1 fd00::5efe:a00:1 2000::5efe:7f00:1
);
my @forbidden = qw(
    169.254.169.254 169.254.170.2 169.254.169.253 169.254.0.1
    169.254.255.255 100.100.100.200 168.63.129.16 192.0.0.192 0.0.0.0 0.1.2.3
    224.0.0.1 239.255.255.255 255.255.255.255
);
my @forbidden6 = qw(
    fd00:ec2::254 fd00:ec2::253 fe80::1 febf::1 ff02::1 :: fd20:ce::254
    ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe::1
    ::169.254.169.254 ::ffff:0.0.0.0 fd00:42::42
);

my (%records, %address);
my $n = 0;
for my $set (['special', @special], ['special', @special6],
             ['meta', @forbidden], ['meta', @forbidden6]) {
    my ($under, @all) = @$set;
    for my $address (@all) {
        my $name = 'n' . $n++ . ".$under.test";
        $records{$name} = { ($address =~ /:/ ? 'AAAA' : 'A') => [$address] };
        $address{$name} = $address;
    }
}

sub chain ($n, %end) {
    my %chain = map {
        ("c$n-$_.chain.test" => { CNAME => $_ == $n ? "end$n.elsewhere.test"
                                      : "c$n-" . ($_ + 1) . '.chain.test' })
    } 1 .. $n;
    $records{"end$n.elsewhere.test"} = { %end };
    %records = (%records, %chain);
    return "c$n-1.chain.test";
}

my @one = (A => ['127.0.0.1']);
my %chains = map { $_ => chain($_, @one) } 1, 5, 20;
$records{'loop1.chain.test'} = { CNAME => 'loop2.chain.test' };
$records{'loop2.chain.test'} = { CNAME => 'loop1.chain.test' };
$records{'alone.chain.test'} = { CNAME => 'alone2.chain.test', alone => 1 };
$records{'alone2.chain.test'} = { CNAME => 'end.elsewhere.test', alone => 1 };
$records{'end.elsewhere.test'} = { @one };
$records{'around.chain.test'} = { CNAME => 'around.chain.test', alone => 1 };
$records{'inward.chain.test'} = { CNAME => 'inner.elsewhere.test' };
$records{'inner.elsewhere.test'} = { A => ['127.0.0.2'] };

my %odd = map { $_ => "$_.api.test" }
    qw(id question query loop nxdomain count length short cut nothing);
$records{ $odd{$_} } = { @one, odd => $_ } for keys %odd;

my %several = (
    both => { A => ['127.0.0.2', '127.0.0.1'] },
    six  => { A => ['127.0.0.1'], AAAA => ['fd00::1'] },
    dead => { A => ['127.0.0.3', '127.0.0.1'] },
    deaf => { A => ['127.0.0.4', '127.0.0.1'] },
    many => { A => [(map { "127.1.0.$_" } 1 .. 99), '127.0.0.1'] },
);
for my $kind (keys %several) {
    $records{"$kind$_.mix.test"} = $several{$kind} for 1 .. 20;
}

%records = (%records,
    'api.test'       => { @one },
    '*.good.test'    => { A => [['127.0.0.1'], ['127.0.0.2']] },
    '*.bad.test'     => { A => [['127.0.0.2'], ['127.0.0.1']] },
    'flip.mix.test'  => { A => [['127.0.0.1'], ['127.0.0.2']] },
    'all.mix.test'   => { A => [map { "127.1.0.$_" } 1 .. 50] },
    'six.test'       => { AAAA => ['::1'] },
    'loose.test'     => { @one },
    'mute.api.test'  => { drop => 1 },
    'late.api.test'  => { drop => 1 },
    'slow.api.test'  => { @one, delay_ms => 700 },
    'empty.api.test' => {},
    'fail.api.test'  => { rcode => 'SERVFAIL' },
    'refuse.api.test' => { rcode => 'REFUSED' },
    'form.api.test'  => { rcode => 'FORMERR' },
    'neighbour.test' => { @one },
    'self.test'      => { @one },
    'any.test'       => { A => ['127.0.0.1', '127.0.0.99',
                                ($outer ? $outer : ())] },
    '*.evil.test'    => { @one },
    'localhost'      => { A => ['127.0.0.2'] },
);

my $dns = $t->dns(\%records);
my $ca = $t->ca->{cert};

# a dead address shall not cost ten seconds here
my $proxy = $t->write('proxy.conf',
    $t->read("$AgentTest::ROOT/conf/agent_proxy.conf")
    =~ s/proxy_connect_timeout\s+\K\w+;/2s;/r);

# ranges around what no rule opens
my $wide = '100.64.0.0/10 168.0.0.0/8 169.0.0.0/8 192.0.0.0/24 fd00::/8 '
         . 'fc00::/7 64:ff9b::a900:0/104 ::ffff:169.0.0.0/104 '
         . '2002:a900::/24';

my $opens = "private 127.0.0.1/32 127.0.0.3/32 127.0.0.4/32";

my $b = $t->broker(dns => $dns, vault => "api = $token\n", proxy => $proxy,
                   http => <<"OUTSIDE", policy => <<"END");
    resolver_timeout 600ms;
    server { listen 127.0.0.1:$own; return 200 "mine"; }
    server { listen $own_any; return 200 "mine"; }
OUTSIDE
    agent_policy analysis {
        trusted_certificate $ca;
        host api.test:$port      { bearer api; $opens; }
        host *.api.test:$port    { $opens; }
        host *.good.test:$port   { $opens; }
        host *.bad.test:$port    { $opens; }
        host *.mix.test:$port    { $opens; }
        host *.chain.test:$port  { $opens; }
        host *.special.test      { }
        host *.special.test:$port { }
        host *.meta.test         { private $wide; }
        host *.meta.test:$port   { private $wide; }
        host loose.test          { }
        host six.test:$six->{port} { private ::1/128; }
        host self.test:$own      { plaintext on; private 127.0.0.0/8; }
        host any.test:$own_any   { plaintext on;
                                   private 127.0.0.0/8
                                           @{[ $outer ? "$outer/32" : '' ]}; }
        host 127.0.0.1:$plain->{port} { plaintext on; private 127.0.0.0/8; }
        host [::1]:$plain6->{port}    { plaintext on; private ::1/128; }
        host localhost:$plain->{port} { plaintext on;
                                        private 127.0.0.0/8 ::1/128; }
    }
END

my ($l, $task) = $b->task;

sub reason ($r) {
    my $body = eval { JSON::PP::decode_json($r->{body}) } // {};
    return "$r->{status} " . ($body->{reason} // '');
}

sub line ($host) { return $b->audit_wait('egress', host => $host) }

sub refused ($name, $p, $reason = '403 address_not_allowed') {
    my $r = $l->get("http://$name" . ($p ? ":$p" : '') . '/');
    is(reason($r), $reason, "$name is refused as $reason") or diag $r->{raw};
    my $body = eval { JSON::PP::decode_json($r->{body}) } // {};
    like($body->{hint}, qr/^the host is allowed.* \(\Q$body->{detail}\E\)$/,
         "the hint for $name says what its address is")
        if defined $body->{detail} && $reason =~ /resolve|address/;
    return line($name);
}


# B-033, B-032

for my $name (sort keys %address) {
    for my $p ($port, undef) {
        subtest "B-032 B-033 a special address, $address{$name}, is not dialled"
            . ' at port ' . ($p // 443) => sub {
            my $line = refused($name, $p);
            is($line->{verdict}, 'denied', 'the line has the verdict');
            is(inet_pton($line->{address} =~ /:/ ? AF_INET6 : AF_INET,
                         $line->{address}),
               inet_pton($address{$name} =~ /:/ ? AF_INET6 : AF_INET,
                         $address{$name}),
               "the line has the address $address{$name}");
            ok($line->{detail}, 'the line says what the address is');
        };
    }
}
is_deeply([$b->audit('egress_end')], [],
          'B-032 B-033 no special address was dialled');


# B-034: one question, one verdict, one address

my (%got, $served);

subtest 'B-034 an address is judged once, and that one is dialled' => sub {
    for my $i (1 .. 100) {
        my $r = $l->get("http://n$i.good.test:$port/");
        $got{$r->{status}}++;
        $got{ reason($l->get("http://n$i.bad.test:$port/")) }++;
    }
    is_deeply(\%got, { 200 => 100, '403 address_not_allowed' => 100 },
              '200 names whose next answer is the other address have one '
              . 'verdict each');
    is($private->connections, 0, 'no connection arrived at the private address');
    is_deeply([grep { $_->{address} ne '127.0.0.1' } $b->audit('egress_end')], [],
              'each address that was dialled is the one that was judged');
    is(scalar(grep { $_->{name} =~ /^n1\.good\.test$/ && $_->{type} eq 'A' }
              $dns->questions), 1, 'a name is asked for once for a request');

    %got = ();
    for (1 .. 200) {
        $got{ $l->get("http://flip.mix.test:$port/")->{status} }++;
    }
    is_deeply([grep { !/^(200|403)$/ } keys %got], [],
              '200 requests for a name that changes are allowed or refused, '
              . 'none fails');
    is($private->connections, 0,
       'no connection arrived at the private address that it changes to');
};


# B-035: several answers

subtest 'B-035 of several addresses one that the rule opens is enough' => sub {
    for my $kind (qw(both six dead deaf many)) {
        my %got;
        my $n = $kind eq 'deaf' ? 6 : 20;
        for my $i (1 .. $n) {
            $got{ $l->get("http://$kind$i.mix.test:$port/")->{status} }++;
        }
        is_deeply(\%got, { 200 => $n },
                  "names whose answer has one good address are all served: "
                  . "$kind");
    }
    is($private->connections, 0,
       'no connection arrived at the address that the rule does not open');
    is_deeply([grep { $_ ne '127.0.0.1' } map { $_->{address} }
               grep { $_->{status} == 200 } $b->audit('egress_end')], [],
              'the last address on record is the one that answered');
    refused('all.mix.test', $port);
};


# B-036: aliases

my $line;

subtest 'B-036 aliases lead to an address, which is judged' => sub {
    for my $n (1, 5, 20) {
        my $r = $l->get("http://$chains{$n}:$port/");
        is($r->{status}, 200,
           "a chain of $n aliases leads to the host") or diag $r->{raw};
        is(line($chains{$n})->{address}, '127.0.0.1',
           "the address at the end of $n aliases is on record");
    }
    is($l->get("http://alone.chain.test:$port/")->{status}, 200,
       'aliases that come one by one are followed');
    is(($up->requests)[-1]{sni}, 'alone.chain.test',
       'the SNI is the name that was asked for, not its alias');
    for my $name ('loop1.chain.test', 'around.chain.test') {
        refused($name, $port, '502 resolve_failed');
    }
    $line = refused('inward.chain.test', $port);
    is("$line->{host} $line->{address}", 'inward.chain.test 127.0.0.2',
       'an alias to an address that the rule does not open: both are on '
       . 'record');
    refused('end.elsewhere.test', $port, '403 host_not_allowed');
};


# B-040: odd answers, and none

subtest 'B-040 an odd answer, or none, is a failure and not an address'
    => sub {
    my ($worker) = $b->workers;
    for my $how (sort keys %odd) {
        my $r = $l->get("http://$odd{$how}:$port/");
        is(reason($r), '502 resolve_failed',
           "an odd answer of the name server ($how): 502 resolve_failed")
            or diag $r->{raw};
    }
    for my $name (map { "$_.api.test" } qw(mute slow empty fail refuse form gone)) {
        my $line = refused($name, $port, '502 resolve_failed');
        is($line->{address}, undef, "the line of $name has no address");
        ok($line->{detail} || $name =~ /^empty/,
           "the line of $name says what the name server answered")
            or diag explain $line;
    }
    is(($b->workers)[0], $worker, 'the worker is the same after odd answers');
    is($l->get("http://api.test:$port/")->{status}, 200,
       'another name is served after odd answers');
};


# A client that goes while its name is asked for

subtest 'a client that goes while its name is asked for' => sub {
    my $dials = $up->connections;
    $l->do(open => { id => 'gone', port => 8899 });
    $l->do(write => { id => 'gone', data =>
        "GET http://late.api.test:$port/ HTTP/1.1\r\n"
        . "Host: late.api.test:$port\r\n\r\n" });
    AgentTest::wait_for('the question', sub { $dns->questions('late.api.test') });
    $l->do(shut => { id => 'gone' });
    $line = $b->audit_wait('egress', reason => 'aborted');
    is("$line->{verdict} $line->{host} $line->{path} $line->{detail}",
       "denied late.api.test / waiting for the host's address",
       'it leaves a line, with what it was waiting for');
    is($up->connections, $dials, 'no upstream is dialled for it');
};


# B-038: no question for a denied name

subtest 'B-038 a name that is not allowed is not asked for' => sub {
    my $asked = () = $dns->questions;
    for my $i (1 .. 25) {
        my $h = "n$i.evil.test";
        for my $raw ("GET http://$h/ HTTP/1.1\r\nHost: $h\r\n",
                     "GET http://$h:$port/ HTTP/1.1\r\nHost: $h:$port\r\n",
                     "GET / HTTP/1.1\r\nHost: $h\r\nReferer: http://$h/\r\n",
                     "CONNECT $h:443 HTTP/1.1\r\nHost: $h\r\n",
                     "DELETE http://api.test:$port/ HTTP/1.1\r\n"
                     . "Host: api.test:$port\r\nReferer: http://$h/\r\n"
                     . "Origin: http://$h\r\n") {
            my $r = $l->http("$raw\r\n");
            is($r->{status}, 403, "$h is refused: " . ($raw =~ s/\r.*//sr))
                or diag $r->{raw};
        }
    }
    is(scalar(() = $dns->questions), $asked,
       'none of 125 requests with such a name led to a question');
    is_deeply([grep { !/^(?:A|AAAA)$/ } map { $_->{type} } $dns->questions], [],
              'no address is ever asked for its name');
};


# B-042: a name is allowed, its neighbour at the same address is not

subtest 'B-042 a neighbour at the address of an allowed name is refused'
    => sub {
    refused('neighbour.test', $port, '403 host_not_allowed');
    is(reason($l->http("GET http://api.test:$port/ HTTP/1.1\r\n"
                       . "Host: neighbour.test:$port\r\n\r\n")),
       '400 authority_mismatch',
       'another Host does not lead to the neighbour');
    is($l->get("http://api.test:$port/")->{status}, 200,
       'the allowed name is served');
};


# Literals, loopback, /etc/hosts

subtest 'an address is served only where a rule names it' => sub {
    is($l->get("http://127.0.0.1:$plain->{port}/")->{status}, 200,
       'an IPv4 address that a rule names is served');
    is($l->get("http://[::1]:$plain6->{port}/")->{status}, 200,
       'an IPv6 address that a rule names is served');
    is(($plain6->requests)[-1]{headers}{host}[0], "[::1]:$plain6->{port}",
       'Host of an IPv6 address has its brackets');
    for my $host ("127.0.0.2:$plain->{port}", "[::1]:$plain->{port}",
                  "127.0.0.1:$port", '127.0.0.1', "[::ffff:7f00:1]:$port") {
        like(reason($l->get("http://$host/")),
             qr/^403 (?:host|port)_not_allowed|^400 malformed/,
             "an address that no rule names is refused: $host");
    }
};

$line = refused('loose.test', undef);
is($line->{detail}, 'loopback',
   'loopback is refused to a rule without a port');
my ($fits, $said) = $t->nginx_t(http => <<"END");
    agent_audit logs/agent-audit.log;
    agent_policy p { host loose.test { private 127.0.0.0/8; } }
    server { agent_control unix:%CONTROL%; $proxy }
END
ok(!$fits, 'a rule without a port cannot open loopback: nginx -t refuses it');
like($said, qr/loopback, which needs an exact port/,
     'nginx -t says that loopback needs an exact port');

is($l->get("http://localhost:$plain->{port}/")->{status}, 200,
   'a name of /etc/hosts is served where a rule names it');
is(scalar(grep { $_->{name} =~ /^localhost/ } $dns->questions), 0,
   'a name of /etc/hosts is not asked for at the name server');
my ($alias) = grep { !/^localhost$|:/ }
              map { (split)[1] } grep { /^127/ && (split) > 1 }
              split /\n/, $t->read('/etc/hosts');
refused($alias // 'localhost.localdomain', undef, '403 host_not_allowed');

is($l->get("http://six.test:$six->{port}/")->{status}, 200,
   'a name with an IPv6 address only is served');
is(line('six.test')->{address}, '::1', 'the IPv6 address is on record');


# The broker's own listeners

$line = refused('self.test', $own);
is($line->{detail}, 'the broker itself',
   'a listener of the broker itself is refused');
$line = refused('any.test', $own_any);
is($line->{detail}, 'the broker itself', 'a listener of the broker at every '
   . 'address is refused: ' . ($outer // 'no other address here'));
unlike($t->read($b->prefix . '/logs/agent-audit.log'), qr/"host":"(?:self|any)\.test"[^\n]*"allowed"/,
       'no listener of the broker was reached at any of its addresses');


# A resolver that is gone

$dns->stop;
refused('new.api.test', $port, '502 resolve_failed');

$b->is_clean(level => qr/alert|emerg/);
unlike($b->error_log, qr/\Q$token/, 'the token is not in the error log');

done_testing;
