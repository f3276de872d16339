#!/usr/bin/perl

# The certificate authorities that a box trusts: the system's and the
# broker's, by every name that programs know for them; and where the broker
# has none, the system's only.
#
# sanitizers: certificates are read and stores are written

use v5.36;

use Digest::SHA qw(sha256_hex);
use FindBin;
use JSON::PP ();
use lib $FindBin::Bin;
use Jail;
use Test::More;

my $json = JSON::PP->new->utf8;
my $bundle = '/etc/ssl/certs/ca-certificates.crt';

plan skip_all => "this host has no $bundle" if !-r $bundle;

sub broker ($task, %scenario) {
    return fake_broker({ task => $task, %scenario });
}

sub task ($b, $script, %opt) {
    my $r = jail(['run', '--control', $b->{socket}, '--', 'sh', '-c',
                  $script], %opt);
    diag $r->{out}, $r->{err} if !$r->{json} || $r->{json}{error};
    return $r->{json};
}

sub text ($path) { return read_file($path) }

sub openssl (@args) {
    my $said = `openssl @{[map { "'$_'" } @args]} 2>&1`;
    die "openssl @args: $said" if $?;
}

# An authority, and a leaf that it signed

my ($ca, $leaf) = map { dir() . "/$_" } qw(ca leaf);
openssl(qw(req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes
    -days 3 -subj), '/O=Some  Example/CN=The Box Authority', '-addext',
    'basicConstraints=critical,CA:TRUE', '-keyout', "$ca.key",
    '-out', "$ca.pem", '-batch');
openssl(qw(req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj),
    '/CN=leaf', '-keyout', "$leaf.key", '-out', "$leaf.csr", '-batch');
openssl(qw(x509 -req -days 2 -in), "$leaf.csr", '-CA', "$ca.pem", '-CAkey',
    "$ca.key", '-out', "$leaf.pem", '-CAcreateserial');
my $pem = text("$ca.pem");
chomp(my $hash = `openssl x509 -in $ca.pem -noout -subject_hash`);
my $roots = () = text($bundle) =~ /BEGIN CERT/g;
my @host = sort grep { !/^\.\.?$/ } do {
    opendir my $d, '/etc/ssl/certs' or die; readdir $d };

my @in = ('--in', "$leaf.pem");
my $java = -e '/usr/bin/java' || -e '/usr/lib/jvm';

for my $user (ways()) {
    my $way = way($user);
    my $b = broker({ ca => $pem, ca_hash => $hash });

    subtest "$way: the directory and the bundles hold the broker's authority"
        => sub
    {
        my $j = task($b, <<'END', user => $user);
echo "files: $(ls -A /etc/ssl/certs | LC_ALL=C sort | sha256sum)"
echo "agent: $(ls /etc/ssl/agent | tr '\n' ' ')"
for f in /etc/ssl/certs/ca-certificates.crt "$SSL_CERT_FILE"; do
    echo "count: $(grep -c 'BEGIN CERT' $f)"
done
touch /etc/ssl/certs/x /etc/ssl/agent/x "$SSL_CERT_FILE" 2>/dev/null \
    && echo written
cat "$NODE_EXTRA_CA_CERTS"
END
        my ($files) = $j->{stdout} =~ /^files: (\w+)/m;
        is($files, sha256_hex(join '', map { "$_\n" } sort @host, "$hash.0"),
           'the directory is the host\'s, and the hash of the CA');
        is_deeply([$j->{stdout} =~ /^count: (\d+)$/mg], [($roots + 1) x 2],
                  'the bundle has the system\'s roots and one more');
        like($j->{stdout}, qr/\Q$pem\E$/,
             'NODE_EXTRA_CA_CERTS has that one only');
        unlike($j->{stdout}, qr/written/, 'nothing of it can be changed');
        like($j->{stdout}, $java ? qr/^agent:.*cacerts/m
                                 : qr/^agent: (?!.*cacerts)/m,
             'a store for Java is there where a Java is');
    };

    subtest "$way: OpenSSL verifies a leaf of the broker's authority" => sub {
        my $j = jail(['run', '--control', $b->{socket}, @in, '--', 'sh', '-c',
            <<'END'], user => $user)->{json};
v() { openssl verify "$@" leaf.pem >/dev/null 2>&1; echo "$?"; }
v
env -u SSL_CERT_FILE openssl verify leaf.pem > /dev/null 2>&1; echo $?
v -no-CAfile -no-CAstore -CApath /etc/ssl/certs
v -no-CApath -no-CAstore -CAfile /etc/ssl/certs/ca-certificates.crt
v -no-CApath -no-CAstore -no-CAfile
END
        is($j->{stdout}, "0\n0\n0\n0\n2\n",
           'by variable, by default, by hash and by bundle; not without them');
    };

    subtest "F-027 $way: variables name the trust store" => sub {
        my %env = map { /^([^=]+)=(.*)/ ? ($1, $2) : () }
                  split /\n/, task($b, 'env', user => $user)->{stdout};
        my $all = '/etc/ssl/agent/ca-bundle.crt';
        is($env{$_}, $all, "$_ names the bundle of all")
            for qw(SSL_CERT_FILE REQUESTS_CA_BUNDLE CURL_CA_BUNDLE PIP_CERT
                   GIT_SSL_CAINFO NPM_CONFIG_CAFILE npm_config_cafile
                   CARGO_HTTP_CAINFO AWS_CA_BUNDLE);
        is($env{$_}, '/etc/ssl/agent/ca.crt', "$_ names the broker's own")
            for qw(NODE_EXTRA_CA_CERTS DENO_CERT);
        like($env{JAVA_TOOL_OPTIONS}, $java
             ? qr{-Djavax.net.ssl.trustStore=/etc/ssl/agent/cacerts}
             : qr{^(?!.*trustStore)},
             'JAVA_TOOL_OPTIONS names the store for Java');
    };
    fake_broker_end($b);
}

subtest 'F-030 a store for Java holds the system\'s authorities and ours'
    => sub
{
    plan skip_all => 'no keytool' if !-x '/usr/bin/keytool';
    my $b = broker({ ca => $pem, ca_hash => $hash });
    my $j = task($b, 'keytool -list -storepass changeit -keystore '
                 . '/etc/ssl/agent/cacerts > list 2>&1; '
                 . 'grep -c trustedCertEntry list; grep agent-broker list; '
                 . 'keytool -list -storepass another -keystore '
                 . '/etc/ssl/agent/cacerts 2>&1 | grep -i password');
    my ($entries) = $j->{stdout} =~ /^(\d+)$/m;
    my $theirs = () = `keytool -list -storepass changeit -cacerts 2>&1`
                      =~ /trustedCertEntry/g;
    $theirs = 0 if !-e '/etc/ssl/certs/java/cacerts';
    is($entries, $theirs + 1, 'the number of its entries')
        or diag $j->{stdout};
    like($j->{stdout}, qr/^agent-broker-0,/m, 'ours has its name');
    like($j->{stdout}, qr/password was incorrect/i,
         'another password than its own is wrong');
    fake_broker_end($b);
};

# as brokers did before they sent it

subtest 'without ca_hash there is no link, and the bundles verify' => sub {
    my $b = broker({ ca => $pem }, without => ['ca_hash']);
    my $j = jail(['run', '--control', $b->{socket}, @in, '--', 'sh', '-c',
        <<'END'])->{json};
echo "files: $(ls -A /etc/ssl/certs | LC_ALL=C sort | sha256sum)"
openssl verify leaf.pem
END
    my ($files) = $j->{stdout} =~ /^files: (\w+)/;
    is($files, sha256_hex(join '', map { "$_\n" } @host),
       'the directory has the names that it has on the host');
    like($j->{stdout}, qr/^leaf\.pem: OK$/m, 'OpenSSL verifies by the bundle');
    fake_broker_end($b);
};

# A host where there can be no layer: a mount lies in the directory

subtest 'a mount of the host\'s among the certificates does no harm' => sub {
    plan skip_all => 'only root mounts' if $> != 0;
    my $b = broker({ ca => $pem, ca_hash => $hash });
    my $over = dir() . '/over';
    open my $f, '>', $over; print $f "covered\n"; close $f;
    my ($name) = grep { -f "/etc/ssl/certs/$_" && /\.pem$/ } @host;

    my $j = jail(['run', '--control', $b->{socket}, @in, '--', 'sh', '-c',
        "cat /etc/ssl/certs/$name; grep -c overlay /proc/self/mountinfo; "
        . 'grep -c "BEGIN CERT" /etc/ssl/certs/ca-certificates.crt; '
        . 'openssl verify leaf.pem'],
        program => ['unshare', '-m', 'sh', '-c',
                    "mount --bind $over \$(readlink -f /etc/ssl/certs/$name); "
                    . "mount --bind $over /etc/ssl/certs/$name; "
                    . 'mount --bind /etc/ssl/openssl.cnf '
                    . '/etc/ssl/certs/java/cacerts; exec "$@"', 'sh'])
            ->{json};
    diag explain $j if !$j || $j->{error};
    my $count = $roots + 1;
    like($j->{stdout}, qr/^covered\n\d+\n$count\nleaf.pem: OK\n$/,
         'the mount, the bundle and a leaf that is verified');
    fake_broker_end($b);
};

# Root may read what its box may not: then the next of the host's bundles counts

for my $case (['whose mode is 0600',
               'chmod 600 $S/certs/ca-certificates.crt'],
              ['behind a directory of root\'s',
               'mkdir -m 700 $S/locked && '
               . 'mv $S/certs/ca-certificates.crt $S/locked/all && '
               . 'ln -s /etc/ssl/locked/all $S/certs/ca-certificates.crt'])
{
    subtest "a bundle $case->[0] is passed over" => sub {
    plan skip_all => 'only root mounts' if $> != 0;
    my $b = broker({ ca => $pem, ca_hash => $hash });
    my $ssl = dir() . '/ssl' . ($case->[0] =~ s/\W//gr);
    my $hide = $case->[1] =~ s/\$S/$ssl/gr;
    my $r = jail(['run', '--control', $b->{socket}, @in, '--', 'sh', '-c',
        'grep -c "BEGIN CERT" /etc/ssl/agent/ca-bundle.crt; '
        . 'openssl verify leaf.pem'],
        program => ['unshare', '-m', 'sh', '-c',
                    "mkdir $ssl && cp -a /etc/ssl/certs $ssl && "
                    . "cp $bundle $ssl/cert.pem && "
                    . "$hide && "
                    . "chmod 755 $ssl && mount --bind $ssl /etc/ssl && "
                    . 'exec "$@"', 'sh']);
    my $count = $roots + 1;
    is($r->{json}{stdout}, "$count\nleaf.pem: OK\n",
       'the box has the roots of the second bundle, and the broker\'s')
        or diag $r->{out}, $r->{err};
    fake_broker_end($b);
    };
}

# A certificate that is missing or wrong

for my $bad (undef, '', 'nonsense', "-----BEGIN CERTIFICATE-----\n*\n"
             . "-----END CERTIFICATE-----\n", 7, ['x']) {
    subtest 'E-027 no box for a "ca" of '
        . $json->allow_nonref->encode($bad) => sub {
        my $b = broker({ ca => $bad });
        my $r = jail(['run', '--control', $b->{socket}, '--', 'true']);
        is($r->{json}{error}{stage}, 'broker', 'the stage is broker');
        is($r->{status}, 125, 'the status is 125');
        fake_broker_end($b);
    };
}

done_testing;
