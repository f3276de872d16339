#!/usr/bin/perl

# Two tables of what nginx -t refuses in one line that names the directive and
# what to do: the values of each directive that stands in http or the broker's
# server, and each pair of a host's directives of which one has no effect.

use v5.36;

use lib 't/lib';
use AgentTest;
use ConfCheck;
use Test::More;

my $t  = AgentTest->new;
my $ca = $t->ca->{cert};

# revokes nothing
my $crl = $t->dir . '/empty.crl';
{
    my $dir = $t->dir;
    $t->write('index.txt', '');
    $t->write('ca.cnf', "[ca]\ndefault_ca = d\n[d]\ndatabase = $dir/index.txt\n"
                        . "default_md = sha256\ndefault_crl_days = 30\n");
    my $run = $t->run(['openssl', 'ca', '-config', "$dir/ca.cnf", '-gencrl',
                       '-cert', $ca, '-keyfile', $t->ca->{key}, '-out', $crl]);
    BAIL_OUT("openssl: $run->{err}") if $run->{status} != 0;
}

my %line = (
    agent_vault => 'agent_vault ' . $t->write('vault',
                       "api = sk_conf_0123456789abcdef\ngit = x-access-token:0123456789abcdef\n",
                       0600) . ';',
    agent_audit => 'agent_audit logs/agent-audit.log;',
    agent_control => 'agent_control unix:%CONTROL%;',
    agent_policy => 'agent_policy a { }',
);

# The text of http with other lines for these directives, or with more of them.
sub http (%other) {
    my %l = (%line, %other);
    my $control = delete $l{agent_control};
    return join("\n", map { $l{$_} } sort keys %l)
           . "\nserver {\n$control\n"
           . "include $AgentTest::ROOT/conf/agent_proxy.conf;\n}\n";
}

check_in($t);
accepted('what all cases begin with', http());


# directive, a good value, bad values, and what is said of these

my $count = qr/it must be a number from 1 to 65535/;
my $rate  = qr{it must be "Nr/s" or "Nr/s burst=N", from 1r/s to 100000r/s};
my $size  = qr/it must be a size such as 8m, from 4k to 65536m/;
my $path  = qr/takes a path, and no/;

my @numbers = ('0', '-1', 'x', '""', '1k', '1s', '1.5', '0x10', '65536',
               '99999999999999999999');

my @directives = (
    [agent_tasks => '64', { map { $_ => $count } @numbers }],
    [agent_control_connections => '64', { map { $_ => $count } @numbers }],
    [agent_zone => '8m',
     { map { $_ => $size } '0', '-1', 'x', '""', '8g', '1s', '1.5m', '4095',
                           '65537m', '99999999999999999999m' }],
    [agent_opens => '50r/s burst=10',
     { map { $_ => $rate } '0r/s', '-1r/s', 'x', '""', '50', '5r/m',
                           '100001r/s', '99999999999999999999r/s',
                           '5r/s 10', '5r/s burst=0', '5r/s burst=-1',
                           '5r/s burst=1k', '5r/s burst=1000001' }],
    [agent_audit => 'logs/a.log',
     { map { $_ => $path } 'off', 'stderr', 'syslog:server=127.0.0.1' }],
    [agent_state => 'state', { map { $_ => $path } 'off', 'stderr' }],
    [agent_ca => 'auto', { 'on' => qr/it must be "auto", or a certificate/,
                           'x.pem' => qr/it must be "auto", or a cert/ }],
    [agent_vault => undef, { '/nowhere/vault' => qr/No such file/ }],
    [agent_policy => undef, { '""' => qr/policy/, 'a/b {}' => qr/policy "a\/b"/,
                              'a b {}' => qr/number of arguments/ }],
    [agent_control => undef, { 'x' => qr/it must be "unix:PATH"/,
                               '127.0.0.1:1' => qr/it must be "unix:PATH"/ }],
);

for my $row (@directives) {
    my ($name, $good, $bad) = @$row;
    my $one = sub ($value) {
        http($name => "$name $value" . ($value =~ /\}$/ ? ' #!' : '; #!'));
    };
    subtest "$name: one message for a bad value" => sub {
        accepted("$name $good", $one->($good)) if defined $good;
        for my $value (sort keys %$bad) {
            my ($wrong) = grep { $_ !~ /^5r/ } reverse split ' ', $value;
            my $shown = $value eq '""' ? '""' : '"' . ($wrong // $value) . '"';
            $shown = '' if $name =~ /policy|vault/;
            my $words = $bad->{$value};
            refused("$name $value", $one->($value), $words =~ /arguments/
                    ? $words : qr/(?=.*\Q$name\E|.*policy|.*vault)(?=.*\Q$shown\E)(?=.*$words)/);
        }
        refused("$name without a value", http($name => "$name; #!"),
                qr/number of arguments in "$name"|"$name" has no opening/);
        refused("$name with four", $one->('a b c d'),
                qr/number of arguments in "$name"|"$name" has no opening/);
        my $line = $line{$name} // "$name $good;";
        refused("$name twice", http($name => "$line\n$line #!"),
                qr/"$name" directive is duplicate|"a" is defined already/)
            if $name ne 'agent_policy';
    };
}


# The pairs of a host's directives: what is said of them beside each other

my %host = (
    bearer => 'bearer api;', plaintext => 'plaintext on;',
    methods => 'methods GET POST;', path => 'path ^/v1/;',
    websocket => 'websocket on;', request_body => 'request_body 1m;',
    reuse_after_body => 'reuse_after_body on;', tunnel => 'tunnel on;',
    trusted_certificate => "trusted_certificate $ca;", crl => "crl $crl;",
    idle => 'idle 10s;', hint => 'hint "ask first";',
    private => 'private 10.0.0.0/8;',
    basic => 'basic git;', header => 'header X-Key api;',
    query => 'query key api;', cookies => 'cookies on;',
    client_credentials => 'client_credentials pass;',
    credential_scope => 'credential_scope wildcard;',
);
my $credential = qr/\b(?:bearer|basic|header|query)\b/;
my %vain = (
    'client_credentials tunnel'
                           => qr/no "client_credentials" goes with it/,
    'plaintext tunnel'     => qr/no "plaintext" goes with it/,
    'path tunnel'          => qr/no "path" goes with it/,
    'methods tunnel'       => qr/"tunnel", which passes TLS on unread: no "methods" goes with it/,
    'tunnel websocket'     => qr/"tunnel", which passes TLS on unread: no "websocket" goes with it/,
    'request_body tunnel'  => qr/"tunnel", which passes TLS on unread: no "request_body" goes with it/,
    'reuse_after_body tunnel'
                           => qr/"tunnel", which passes TLS on unread: no "reuse_after_body" goes with it/,
    'trusted_certificate tunnel'
                           => qr/"tunnel", which passes TLS on unread: no "trusted_certificate" goes with it/,
    'crl tunnel'           => qr/"tunnel", which passes TLS on unread: no "crl" goes with it/,
    'plaintext trusted_certificate'
                           => qr/"plaintext", which uses no TLS: no "trusted_certificate" goes with it/,
    'crl plaintext'        => qr/"plaintext", which uses no TLS: no "crl" goes with it/,
);
my $idle = qr/"idle", which has no effect without "tunnel on" or "websocket on": remove it/;

# and of a pair by what is in it, the first that fits
my @kinds = (
    [qr/$credential.*$credential/, qr/one credential/],
    [qr/^(?!.*$credential).*\bcookies\b/, qr/"cookies", which has no effect without a/],
    [qr/^(?=.*$credential).*\bplaintext\b/, qr/would send its credential in cleartext/],
    [qr/^(?=.*$credential).*client_credentials/, qr/"client_credentials pass" is for hosts/],
    [qr/credential_scope/, qr/"credential_scope wildcard", which is for a wildcard/],
    [qr/^(?=.*$credential).*\btunnel\b/, qr/no credential .* goes with it/],
    [qr/^(?!.*(?:tunnel|websocket)).*\bidle\b/, $idle],
);

sub policy ($body, $name = 'api.internal:8443') {
    return http(agent_policy => "agent_policy a {\nbytes_up 1m;\nhost $name {\n"
                              . "$body\n} #!\n}");
}

subtest 'each pair of a host\'s directives has an effect, or is refused' => sub {
    my @names = sort keys %host;
    for my $i (0 .. $#names) {
        for my $j ($i + 1 .. $#names) {
            my $pair = "$names[$i] $names[$j]";
            my $text = "$host{$names[$i]}\n$host{$names[$j]}";
            my ($kind) = grep { $pair =~ $_->[0] } @kinds;
            my $words = $vain{$pair} // ($kind ? $kind->[1] : undef);
            my $http = policy($text);
            $http =~ s/ #!//g if $words && $words =~ /one credential/;
            $words ? refused($pair, $http, $words) : accepted($pair, $http);
        }
    }
};

subtest 'what has no effect by itself is refused, with what to do' => sub {
    refused('idle alone', policy('idle 10s;'), $idle);
    refused('websocket without GET', policy("websocket on;\nmethods POST;"),
            qr/"websocket", which needs the method GET: add it to "methods"/);
    refused('private beside an address outside of it',
            policy('private 10.0.0.0/8;', '93.184.216.34'),
            qr/address that no range of its "private" holds: remove/);
    accepted('private that holds one', policy('private 10.0.0.0/8;', '10.1.2.3'));
    accepted('what is off beside a tunnel',
             policy('tunnel on; websocket off; plaintext off; reuse_after_body off;'));
    accepted('the policy\'s certificate and idle, for whom it concerns',
             http(agent_policy => "agent_policy a { trusted_certificate $ca; idle 10s;"
                  . ' bytes_up 1m; host a.internal { tunnel on; } host b.internal;'
                  . ' host c.internal:80 { plaintext on; private 10.0.0.0/8; } }'));
};

done_testing;
