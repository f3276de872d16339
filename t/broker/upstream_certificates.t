#!/usr/bin/perl

# Certificates of upstreams are judged as ordinary clients judge them: by name
# or by address, with chains of any ordinary length, and without those that
# their authority has revoked.
#
# sanitizers: certificates of upstreams are read

use v5.36;

use lib 't/lib';
use AgentTest;
use IO::Socket::INET;
use Test::More;

my $t = AgentTest->new;
my $ca = $t->ca->{cert};

my $n = 0;

# A certificate that `issuer` has signed: { cert, key }.
sub signed ($issuer, $subject, $extensions) {
    my ($cert, $key, $csr, $ext)
        = map { "$t->{dir}/own" . $n . ".$_" } qw(crt key csr ext);
    $n++;
    $t->write($ext, $extensions);
    $t->openssl('req', '-new', '-newkey', 'ec', '-pkeyopt',
        'ec_paramgen_curve:P-256', '-nodes', '-subj', $subject,
        '-keyout', $key, '-out', $csr);
    $t->openssl('x509', '-req', '-in', $csr, '-CA', $issuer->{cert}, '-CAkey',
        $issuer->{key}, '-CAcreateserial', '-days', 7, '-extfile', $ext,
        '-out', $cert);
    return { cert => $cert, key => $key };
}

# A leaf below n authorities, which its file has behind it.
sub chain ($length, $name) {
    my $issuer = $t->ca;
    my @between;
    for my $i (1 .. $length) {
        $issuer = signed($issuer, "/CN=Between $i",
            "basicConstraints=critical,CA:TRUE\n"
            . "keyUsage=critical,keyCertSign,cRLSign\n");
        unshift @between, $t->read($issuer->{cert});
    }
    my $leaf = signed($issuer, '/CN=x', "subjectAltName=DNS:$name\n");
    $leaf->{cert} = $t->write("chain$length.crt",
                              join '', $t->read($leaf->{cert}), @between);
    return $leaf;
}


# What a client takes, and what it does not

my %cert = (
    'cn.internal'       => ['only a CN', 200,
        signed($t->ca, '/CN=cn.internal', "basicConstraints=CA:FALSE\n")],
    'mail.internal'     => ['a CN, and a SAN of another kind', 200,
        signed($t->ca, '/CN=mail.internal',
               "subjectAltName=email:a\@example.com\n")],
    'ip.internal'       => ['a CN, and a SAN with an address', 502,
        signed($t->ca, '/CN=ip.internal', "subjectAltName=IP:127.0.0.1\n")],
    'name.internal'     => ['a CN, and a SAN with another name', 502,
        signed($t->ca, '/CN=name.internal',
               "subjectAltName=DNS:other.internal\n")],
    'all.internal'      => ['a SAN with an address and the name', 200,
        signed($t->ca, '/CN=x',
               "subjectAltName=IP:127.0.0.9,DNS:all.internal\n")],
    'eight.internal'    => ['a chain of eight', 200,
                            chain(7, 'eight.internal')],
    'twenty.internal'   => ['a chain of twenty', 200,
                            chain(19, 'twenty.internal')],
);

my (%up, $rules);
for my $host (sort keys %cert) {
    $up{$host} = $t->upstream(cert => $cert{$host}[2]);
    $rules .= "host $host:$up{$host}{port} { private 127.0.0.0/8; }\n";
}


# Addresses

my $v4 = $t->upstream(names => ['127.0.0.1']);
my $v6 = $t->upstream(names => ['::1'], bind => '::1');
my $name = $t->upstream(names => ['localhost']);
my $other = $t->upstream(names => ['127.0.0.2']);
my $text = $t->upstream(cert => signed($t->ca, '/CN=127.0.0.1',
                                       "subjectAltName=DNS:127.0.0.1\n"));
$rules .= "host 127.0.0.1:$_->{port} { private 127.0.0.0/8; }\n"
    for $v4, $name, $other, $text;
$rules .= "host [::1]:$v6->{port} { private ::1/128; }\n";


# Revoked

sub crl ($authority, $file, $days, @revoked) {
    my $dir = "$t->{dir}/crl" . $n++;
    mkdir $dir;
    $t->write("$dir/index.txt", '');
    $t->write("$dir/crlnumber", "01\n");
    my $conf = $t->write("$dir/conf", <<"END");
[ca]
default_ca = own
[own]
database = $dir/index.txt
crlnumber = $dir/crlnumber
default_md = sha256
default_crl_days = $days
certificate = $authority->{cert}
private_key = $authority->{key}
END
    $t->openssl('ca', '-config', $conf, '-revoke', $_->{cert}) for @revoked;
    my @when = $days > 0 ? ()
        : ('-crl_lastupdate', '20240101000000Z',
           '-crl_nextupdate', '20240201000000Z');
    $t->openssl('ca', '-config', $conf, '-gencrl', @when, '-out',
                "$t->{dir}/$file");
    return "$t->{dir}/$file";
}

my %leaf = map { $_ => $t->cert(["$_.internal"]) }
           qw(revoked valid stale foreign);
my $crl = crl($t->ca, 'ca.crl', 7, $leaf{revoked});
my $stale = crl($t->ca, 'stale.crl', 0);
my $foreign = crl($t->ca('second'), 'second.crl', 7);
my %list = (revoked => $crl, valid => $crl, stale => $stale,
            foreign => $foreign);

for my $word (sort keys %leaf) {
    $up{"$word.internal"} = $t->upstream(cert => $leaf{$word});
    $rules .= "host $word.internal:$up{\"$word.internal\"}{port} "
            . "{ private 127.0.0.0/8; crl $list{$word}; }\n";
}

# the same upstreams in another policy, by their own names of certificates

my $shared = $rules =~ s/ \}$/ trusted_certificate $ca; }/mgr;

my $dns = $t->dns({ '*.internal' => { A => ['127.0.0.1'] } });
my $b = $t->broker(dns => $dns, policy => <<"END");
    agent_policy analysis { trusted_certificate $ca; $rules }
    agent_policy own { $shared }
END
my ($l, $task) = $b->task;
my ($own) = $b->task('own');
my $box_ca = $t->write('box-ca.pem', $task->{ca});

sub end_of ($host, $port) {
    my ($line) = reverse $b->audit('egress', host => $host, port => $port);
    return $b->audit_wait('egress_end', request => $line->{request});
}

for my $host (sort keys %cert) {
    my ($what, $status) = @{ $cert{$host} };
    subtest "G-037: a certificate with $what: $status" => sub {
        my $r = $l->get("http://$host:$up{$host}{port}/");
        is($r->{status}, $status, "the box is answered $status")
            or diag $r->{raw};
        if ($status == 502) {
            like($r->{body}, qr/"reason":"certificate_unverified"/,
                 'with the reason certificate_unverified');
            is_deeply([$up{$host}->requests], [], 'nothing was sent');
        }
    };
}

for my $case (
    ['an address of IPv4', '127.0.0.1', $v4, 200],
    ['an address of IPv6', '[::1]', $v6, 200],
    ['a name', '127.0.0.1', $name, 502],
    ['another address', '127.0.0.1', $other, 502],
    ['the address as a name', '127.0.0.1', $text, 502],
) {
    my ($what, $host, $up, $status) = @$case;
    subtest "G-027: a rule's address and a certificate with $what: $status"
        => sub {
        for my $scheme (qw(http https)) {
            my $r = $l->get("$scheme://$host:$up->{port}/");
            is($r->{status}, $status, "$scheme: the box is answered $status")
                or diag $r->{raw};
        }
        if ($status == 502) {
            is(end_of($host =~ tr/[]//dr, $up->{port})->{failure},
               'certificate_unverified',
               'the line has the failure certificate_unverified');
            is_deeply([$up->requests], [], 'nothing was sent');
        } else {
            is_deeply([map { $_->{sni} } $up->requests], [undef, undef],
                      'the upstream is sent no SNI');
        }
    };
}


# A client in the box, by every door: it sends no SNI for an address

sub curl (@args) {
    return $l->do(run => { argv => ['curl', '-sS', '--max-time', '30',
        '--cacert', $box_ca, '-w', ' %{http_code}', @args],
        env => { PATH => $ENV{PATH} }, timeout => 40 });
}

subtest 'G-027: TLS to an address, by the web door and by CONNECT' => sub {
    for my $url ("https://127.0.0.1:$v4->{port}/", "https://[::1]:$v6->{port}/")
    {
        for my $how (['--http1.1'], ['--http2'],
                     ['-x', 'http://127.0.0.1:8899', '--http1.1'],
                     ['-x', 'http://127.0.0.1:8899', '--http2'])
        {
            my $run = curl(@$how, $url);
            like($run->{data}, qr/"ok".* 200\z/, "@$how $url is served")
                or diag $run->{err};
        }
    }
};

subtest 'G-027: a hello without SNI is judged by the address it came to' => sub {
    my $port = $up{'cn.internal'}{port};
    for my $ip ('127.0.0.1', '127.0.0.7', '198.18.1.1', '10.1.1.1') {
        my $run = curl("https://$ip:$port/");
        is($run->{status}, 35, "$ip, which no rule of this port names, gets an "
           . 'alert');
        my ($line) = reverse $b->audit('egress', verdict => 'denied');
        is($line->{reason}, 'sni_mismatch', 'its line has sni_mismatch');
    }
    my $run = curl('--http1.1', '-H', "Host: cn.internal:$port",
                   "https://127.0.0.1:$v4->{port}/");
    like($run->{data}, qr/"authority_mismatch".* 400\z/s,
         'a Host of another name than the address is a mismatch');
};

subtest 'G-037: P-384 is offered to the box beside P-256 and X25519' => sub {
    for my $curve (qw(P-384 P-256 X25519)) {
        my $run = curl('--curves', $curve, "https://127.0.0.1:$v4->{port}/");
        like($run->{data}, qr/ 200\z/, "$curve is enough") or diag $run->{err};
    }
    is(curl('--curves', 'P-521', "https://127.0.0.1:$v4->{port}/")->{status},
       35, 'control: P-521 is not');
};

for my $who (['its policy\'s certificates', $l], ['its own', $own]) {
    my ($what, $launcher) = @$who;
    for my $case (['revoked', 502, qr/revoked/], ['valid', 200],
                  ['stale', 502, qr/CRL has expired/],
                  ['foreign', 502, qr/unable to get certificate CRL/])
    {
        my ($word, $status, $why) = @$case;
        subtest "G-037: with `crl` and $what, $word: $status" => sub {
            my $up = $up{"$word.internal"};
            my $had = () = $up->requests;
            my $r = $launcher->get("http://$word.internal:$up->{port}/");
            is($r->{status}, $status, "the box is answered $status")
                or diag $r->{raw};
            return if $status == 200;
            like($r->{body}, qr/"reason":"certificate_unverified"/,
                 'with the reason certificate_unverified');
            my $end = end_of("$word.internal", $up->{port});
            like($end->{detail}, $why, 'the line of its end says why');
            is(scalar(() = $up->requests), $had, 'nothing was sent');
        };
    }
}

subtest 'G-037: nginx -t refuses a `crl` that cannot be read, and warns of one '
    . 'that has expired' => sub {
    my $conf = sub ($file) {
        return $t->nginx_t(policy => "host a.internal { crl $file; }");
    };
    my ($ok, $said) = $conf->($crl);
    ok($ok, 'control: one that is there is taken') or diag $said;
    unlike($said, qr/expired/, 'without a warning');
    ($ok, $said) = $conf->($stale);
    ok($ok, 'one that has expired is taken');
    like($said, qr/\[warn\].*"crl" file "\S+" has a list that has expired/,
         'with a warning');
    for my $file ("$t->{dir}/none", $ca) {
        ($ok, $said) = $conf->($file);
        ok(!$ok, 'another file is refused');
        like($said, qr/"crl" file "\Q$file\E" (?:cannot be read|holds no list)/,
             'by its name');
    }
};

$b->is_clean(level => qr/alert|emerg/);

done_testing;
