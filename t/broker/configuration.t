#!/usr/bin/perl

# nginx -t accepts what is safe and refuses what is not, with the line; it
# leaves nothing behind; and starting finds out whether a socket that is there
# is a running broker's or a dead one's.
#
# sanitizers: the configuration's own reader meets what is wrong

use v5.36;

use lib 't/lib';
use AgentTest;
use ConfCheck;
use File::Find ();
use IO::Socket::UNIX;
use POSIX qw(mkfifo);
use Test::More;

my $token = 'sk_conf_0123456789abcdef_marker';

my $t     = AgentTest->new;
my $vault = $t->write('vault', "api = $token\nother = other_$token\n", 0600);
my $ca    = $t->ca->{cert};
my $proxy = "$AgentTest::ROOT/conf/agent_proxy.conf";


# The text of http around the policies.
sub http ($policies, %opt) {
    my $vault_line = $opt{vault} // "agent_vault $vault;";
    my $audit = $opt{audit} // 'agent_audit logs/agent-audit.log;';
    my $control = $opt{control} // 'agent_control unix:%CONTROL%;';
    my $server = $opt{server} // "include $proxy;";
    my $late = $opt{late} // '';
    my $zone = $opt{zone} // '';

    return <<"END";
$vault_line
$audit
$zone
$policies
$late
server {
    $control
    $server
}
END
}

# What nginx -t leaves in it is looked at at the end.
my $prefix = check_in($t, secret => $token);

sub policy ($body) { return http("agent_policy a {\n$body\n}") }
sub host ($body, $name = 'api.internal') {
    return policy("host $name {\n$body\n}");
}


# Good ones

accepted('a policy of its own', policy(''));
accepted('no policy at all', http(''));
accepted('every directive', policy(<<"END"));
    isolation namespaces; cpu 0.5; cpu_time 10s; memory 64m; pids 32;
    open_files 64; wall_clock 1500ms; output 500; output_bytes 1m;
    near_limit 50%; mount_secrets off; network_default deny;
    writable /tmp/work 16m; writable /data 1m; readable /opt /usr/share;
    launchers user:root group:root; env LANG TZ; trusted_certificate $ca;
    host api.internal { methods GET POST; path ^/v1/; bearer api; hint "x; { y } # z"; }
    host metrics.internal:9090 { plaintext on; private 10.0.0.0/8; }
    host *.packages.example;
    host 93.184.216.34;
    host [2606:2800:220:1::1]:8443;
END
accepted('the shipped policies', http("include $AgentTest::ROOT/conf/policies/*.conf;"))
    if glob "$AgentTest::ROOT/conf/policies/*.conf"
       and $t->read((glob "$AgentTest::ROOT/conf/policies/*.conf")[0])
           !~ /bearer\s+(?!api;|other;)/;


# Patterns of paths

accepted('patterns of paths, on a line and on several',
         host("path ^/v1/ ^/v2/\\d+\$;\npath '^/a{2};';"));
subtest 'a bad pattern is refused at its line' => sub {
    refused('one without ^/', host("path /v1/; #!"),
            qr{path "/v1/" does not begin with "\^/"});
    refused('one with an open group', host("path ^/ok \"^/v1/(a\"; #!"),
            qr{path "\^/v1/\(a" is not a pattern: missing closing parenthesis at its byte 7});
    refused('one that is not ASCII', host("path ^/\xc3\xbc; #!"),
            qr/percent-encoded/);
    refused('one that is repeated', host("path ^/v1/;\npath ^/v1/; #!"),
            qr/is repeated/);
    refused('one without words', host("path; #!"), qr/number of arguments/);
    refused('one too many', host('path ' . join(' ', map { "^/$_/" } 1 .. 65)
                                 . '; #!'), qr/the 64 that a host may have/);
    refused('one outside of a host', policy("path ^/v1/; #!"),
            qr/not allowed here/);
    refused('one for a tunnel', policy("bytes_up 1m;\nhost api.internal {\n"
            . "tunnel on;\npath ^/v1/;\n} #!"),
            qr/"tunnel".*no "path" goes with it/);
};


# Switches that are never on

refused('mount_secrets on', policy("mount_secrets on; #!"),
        qr/"mount_secrets on" is never allowed.*vault/);
refused('mount_secrets maybe', policy("mount_secrets maybe; #!"),
        qr/must be "off"/);
refused('network_default allow', policy("network_default allow; #!"),
        qr/"network_default allow" is never allowed.*"host"/);
refused('mount_secrets twice', policy("mount_secrets off;\nmount_secrets off; #!"),
        qr/is duplicate/);
refused('isolation none', policy("isolation none; #!"), qr/"isolation"/);


# The vault

subtest 'C-006 a credential must be an entry of the vault' => sub {
    refused('an entry that is not there', host("bearer nothing; #!"),
            qr/"nothing" is not in the vault/);
};
refused('a credential without a vault', http("agent_policy a {\n"
        . "host api.internal {\nbearer api; #!\n}\n}", vault => ''),
        qr/"bearer api" needs a vault/);
accepted('a vault that is named after the policy', http("agent_policy a {\n"
        . "host api.internal { bearer api; }\n}", vault => '',
        late => "agent_vault $vault;"));
refused('an entry missing in a vault named after the policy',
        http("agent_policy a {\nhost api.internal {\nbearer nothing; #!\n}\n}",
             vault => '', late => "agent_vault $vault;"),
        qr/"nothing" is not in the vault/);
refused('two vaults', http('', vault => "agent_vault $vault;\n"
        . "agent_vault $vault; #!"), qr/is duplicate/);

for my $case (
    ['open to others', sub { $t->write('v1', "api = $token\n", 0644) },
     qr/mode 0644.*chmod 600/],
    ['open to its group', sub { $t->write('v2', "api = $token\n", 0640) },
     qr/mode 0640.*chmod 600/],
    ['a symbolic link', sub { symlink $vault, $t->dir . '/v3';
                              $t->dir . '/v3' }, qr/symbolic link/],
    ['missing', sub { $t->dir . '/v4' },
     qr/v4.*cannot be opened: No such file: make it/],
    ['a directory', sub { mkdir $t->dir . '/v5', 0700; $t->dir . '/v5' },
     qr/v5" is not a regular file/],
    ['that is a FIFO', sub { my $f = $t->dir . '/fifo'; mkfifo($f, 0600); $f },
     qr/fifo" is not a regular file/],
    ['that is a socket', sub {
        my $f = $t->dir . '/sock';
        IO::Socket::UNIX->new(Local => $f, Listen => 1) or die $!;
        $f }, qr/sock" cannot be opened: it is a socket/],
    ['that is too large', sub {
        $t->write('v15', join('', ("# a comment\n") x 90000), 0600) },
     qr/v15" is larger than 1 MiB/],
    ['with an entry twice', sub {
        $t->write('v8', "api = $token\nb = 0123456789abcdef0\napi = $token\n",
                  0600) }, qr/v8", line 3, entry "api": the same name as in line 1/],
    ['with two names', sub {
        my $v = $t->write('v9', "api = $token\n", 0600);
        link $v, "$v.link"; $v }, qr/2 names/],
    ['as it is shipped', sub { $t->write('v11',
        $t->read("$AgentTest::ROOT/conf/vault.example"), 0600) },
     qr/v11", line \d+, entry "example_api": .* still that of vault\.example: put the token in/],
    ['in a directory that others write', sub {
        $t->write('open/vault', "api = $token\n", 0600);
        chmod 0777, $t->dir . '/open'; $t->dir . '/open/vault' },
     qr/written by others/],
) {
    my ($what, $make, $words) = @$case;
    my $file = $make->();
    refused("a vault $what", http('', vault => "agent_vault $file; #!"),
            $words);
}

# Each mistake in a line: what is said with the file and the line, the entry
# if it is surely a name, and never a part of the value.
subtest 'G-061 each mistake in the vault is named by its line and entry' => sub {
    my $file = $t->dir . '/lines';
    for my $case (
        ["api = short_marker",     'api', qr/shorter than 16/],
        ["api = ",                 'api', qr/no value/],
        ["api = $token\x01",       'api', qr/control character/],
        ["api = $token\x7f",       'api', qr/not ASCII/],
        ["api = $token\xc3\xa9",   'api', qr/not ASCII/],
        ["api = $token\r",         undef, qr/carriage return/],
        ["api = $token\0",         undef, qr/NUL byte/],
        ["api = \"$token\"",       'api', qr/in quotes.*write it without/],
        ["api = '$token' ",        'api', qr/in quotes.*write it without/],
        ["api = Bearer $token",    'api', qr/begins with "Bearer": leave this/],
        ["api = bearer\t$token",   'api', qr/begins with "Bearer"/],
        ["api = Basic $token",     'api', qr/begins with "Basic"/],
        ["api = Authorization: Bearer $token", 'api',
         qr/begins with "Authorization:"/],
        ["api = $token $token",    'api', qr/has a blank in it/],
        ["api = $token # mine",    'api', qr/has a blank in it/],
        ["api = " . 'x' x 4097,    'api', qr/longer than 4096/],
        ["api = {gcm1}AAAA",       'api', qr/is sealed: name its key/],
        [$token,                   undef, qr/no "="/],
        ["Bearer $token",          undef, qr/no "="/],
        ["api $token",             undef, qr/no "="/],
        ["$token = api",           undef, qr/looks like a token/],
        ["$token = api_internal_readonly", undef, qr/looks like a token/],
        ["$token==",               undef, qr/looks like a token/],
        [" = $token",              undef, qr/no name/],
        ["a:$token = $token",      undef, qr/something else than letters/],
        ["1 = $token",             undef, qr/does not begin with a letter/],
        ['a' x 65 . " = $token",   undef, qr/longer than 64/],
    ) {
        my ($line, $entry, $words) = @$case;
        $t->write('lines', "# one\n$line\n", 0600);
        my $at = qr/\[emerg\] vault "\Q$file\E", line 2/;
        $at = qr/$at, entry "$entry"/ if defined $entry;
        refused($line =~ s/[^ -~]/?/gr, http('', vault => "agent_vault $file; #!"),
                qr/$at: .*$words/);
        my (undef, $said) = try(http('', vault => "agent_vault $file;"));
        unlike($said . $t->read("$prefix/error.log"),
               qr/short_marker|conf_0123|x{20}|ghp_/, 'nothing of it is shown');
    }
    $t->write('lines', "\xef\xbb\xbfapi = $token\n", 0600);
    refused('a byte order mark', http('', vault => "agent_vault $file; #!"),
            qr/line 1: the file begins with a byte order mark/);
};


# Every place of nginx.conf where a token may be pasted: none of it is printed.
subtest 'G-061 a token pasted into nginx.conf is not printed' => sub {
    my $jwt = 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJrMSJ9.' . 'Zm9v' x 40;
    for my $pasted ($token, 'ghp_abcdefghijklmnopqrstuvwxyzABCDEFGHIJ',
                    'sk-proj-abcdefghijklmnopqrstuvwx', 'AKIAIOSFODNN7EXAMPLE',
                    $jwt, '550e8400-e29b-41d4-a716-446655440000')
    {
        for my $case (
            ['bearer',        host("bearer $pasted; #!"),
             qr/"bearer" directive, which (?:looks like a token|is not the name)/],
            ['bearer, as a header', host("bearer \"Bearer $pasted\"; #!"),
             qr/"bearer" directive, which is not the name of an entry/],
            ['bearer, two words', host("bearer Bearer $pasted; #!"),
             qr/invalid number of arguments in "bearer"/],
            ['bearer without a vault', http("agent_policy a {\nhost h.example "
                . "{\nbearer $pasted; #!\n}\n}", vault => ''), qr/"bearer"/],
            ['bearer\'s sibling basic', host("basic $pasted; #!"),
             qr/"basic" directive, which (?:looks like a token|is not the name)/],
            ['bearer\'s sibling header', host("header X-Key $pasted; #!"),
             qr/"header" directive, which (?:looks like a token|is not the name)/],
            ['bearer\'s sibling header, exchanged', host("header $pasted X-Key; #!"),
             qr/"(?:header" directive|X-Key" is not in the vault)/],
            ['bearer\'s sibling query', host("query key $pasted; #!"),
             qr/"query" directive, which (?:looks like a token|is not the name)/],
            ['bearer\'s sibling query, one word', host("query $pasted; #!"),
             qr/invalid number of arguments in "query"/],
            ['a directive of a host', host("$pasted; #!"),
             qr/what looks like a token is in the place of a directive/],
            ['the second directive of a host',
             host("hint x;\n\n  # x\n\"$pasted\" x; #!"),
             qr/what looks like a token is in the place of a directive/],
            ['bearer=', host("bearer=$pasted; #!"),
             qr/what looks like a token is in the place of a directive/],
            ['a directive of a policy', policy("host a.example;\n$pasted; #!"),
             qr/what looks like a token is in the place of a directive/],
            ['a directive behind ours', http("agent_tasks 10;\n"
                . "agent_policy a {\n}\n$pasted; #!"),
             qr/what looks like a token is in the place of a directive/],
            ['env', policy("env OPENAI_API_KEY=$pasted; #!"), qr/"env"/],
            ['launchers', policy("launchers user:$pasted; #!"), qr/"launchers"/],
            ['methods', host("methods $pasted; #!"), qr/"methods"/],
            ['private', host("private $pasted; #!"), qr/"private"/],
            ['path', host("path $pasted; #!"), qr/"path"/],
            ['a host', policy("host https://user:$pasted\@api.internal/; #!"),
             qr/"host"/],
            ['a limit', policy("memory $pasted; #!"), qr/"memory"/],
            ['a bound', policy("requests $pasted; #!"), qr/"requests"/],
            ['a switch', host("plaintext $pasted; #!"), qr/"plaintext"/],
            ['mount_secrets', policy("mount_secrets $pasted; #!"),
             qr/"mount_secrets"/],
            ['agent_vault', http('', vault => "agent_vault $pasted; #!"),
             qr/"agent_vault" directive: it looks like a token/],
            ['its key', http('', vault => "agent_vault $vault key=$pasted; #!"),
             qr/it looks like the key itself/],
            ['its second word', http('', vault => "agent_vault $vault $pasted; #!"),
             qr/must be key=FILE/],
            ['agent_ca', http("agent_ca $pasted; #!"), qr/"agent_ca"/],
        ) {
            my ($where, $text, $words) = @$case;
            next if $pasted ne $token && $where !~ /^(?:bearer|a directive|env)/;
            refused("$where: " . substr($pasted, 0, 8), $text, $words);
            my (undef, $said) = try($text);
            unlike($said . $t->read("$prefix/error.log"),
                   qr/\Q${\substr($pasted, 4, 12)}\E/, "$where: it is not shown");
        }
    }
    refused('control: an ordinary name is', host("bearer no_such_entry; #!"),
            qr/"no_such_entry" is not in the vault/);
    refused('control: an ordinary word is', policy("memory a_lot; #!"),
            qr/"a_lot" in "memory"/);
};


accepted('quotes that are a part of a value', http('', vault => 'agent_vault '
         . $t->write('v14', "a = \"$token\nb = ${token}'x\n", 0600) . ';'));


# Credentials

refused('a credential in cleartext',
        host("bearer api;\nplaintext on;\n} #!\nhost b.internal {",
             'api.internal:80'),
        qr/\[emerg\] host "api\.internal" would send its credential in cleartext/);
refused('a credential on a wildcard',
        host("bearer api;\n} #!\nhost b.internal {", '*.api.internal'),
        qr/host "\*\.api\.internal" is a wildcard/);
refused('two credentials', host("bearer api;\nbearer other; #!"),
        qr/is duplicate/);
refused('a credential for TRACE',
        host("methods TRACE;\nbearer api;\n} #!\nhost b.internal {"),
        qr/TRACE/);
refused('a credential by a strange name',
        host("bearer 'a b'; #!"), qr/"bearer" directive, which is not the name/);


# Names

refused('a URL for a host', policy("host https://a.internal/; #!"),
        qr/without scheme and path/);
refused('a host twice', policy("host a.internal;\nhost A.internal; #!"),
        qr/earlier rule.*; the first is in \S+nginx\.conf:\d+, in /);
refused('a policy twice', http("agent_policy a { }\nagent_policy a { #!\n}"),
        qr/defined already; the first is in \S+nginx\.conf:\d+, in /);
{
    # after much else, and in another file
    my $many = join '', map { "host h$_.internal {\n}\n" } 1 .. 50;
    my $body = "host a.internal;\nhost b.internal:80; #1\n$many\n"
             . "host b.internal; #!";
    my @lines = split /\n/, policy($body);
    my ($at) = grep { $lines[$_] =~ /#1$/ } 0 .. $#lines;
    my ($mark) = grep { $lines[$_] =~ /#!$/ } 0 .. $#lines;
    my ($ok, $said, $line) = try(policy($body));
    like($said, qr/the first is in \S+:@{[$line - $mark + $at]}, in /,
         'a host twice: the message names the first of the two');
    my $first = $t->write('first.conf', "\nagent_policy a { }\n");
    refused('a policy that an included file has',
            http("include $first;\nagent_policy a { #!\n}"),
            qr/already; the first is in \Q$first\E:2, in /);
}

refused('an unknown directive in a policy', policy("tunnel_all on; #!"),
        qr/unknown directive "tunnel_all"/);
refused('an unknown directive in a host', host("follow on; #!"),
        qr/unknown directive "follow"/);
refused('a core directive in a policy', policy("client_max_body_size 1m; #!"),
        qr/not allowed here/);
refused('a core directive in a host', host("proxy_pass http://x; #!"),
        qr/not allowed here/);
refused('a policy directive in a host', host("memory 1m; #!"),
        qr/not allowed here/);
refused('a host directive in a policy', policy("methods GET; #!"),
        qr/not allowed here/);
refused('a host outside of a policy', http("host a.internal; #!"),
        qr/not allowed here/);
refused('a host block outside of a policy', http("host a.internal { #!\n}"),
        qr/not allowed here/);
refused('a policy in a server', http('', server => "agent_policy a { #!\n}"),
        qr/not allowed here/);
refused('a policy without a name', http("agent_policy { #!\n}"),
        qr/invalid number of arguments/);
refused('a host without a name', policy("host ; #!"),
        qr/invalid number of arguments/);
refused('a host; without a name', policy("host; #!"),
        qr/invalid number of arguments/);
refused('a host with two names', policy("host a.internal b.internal; #!"),
        qr/invalid number of arguments/);

# the broker's own host, and no name that DNS gives

for my $name ('localhost', 'LOCALHOST', 'localhost:8080', 'app.localhost:8080')
{
    refused("host $name", policy("host $name; #!"),
            qr/broker's own host.*its port and "private 127\.0\.0\.0\/8"/);
    refused("host $name of a private range that is not it",
            policy("host $name {\nprivate 10.0.0.0/8;\n} #!"),
            qr/broker's own host/);
}
refused('host localhost without a port',
        policy("host localhost {\nprivate 127.0.0.0/8;\n} #!"),
        qr/needs an exact port/);
accepted("host $_ with port and range",
         policy("host $_ { private 127.0.0.0/8; plaintext on; }"))
    for 'localhost:8080', 'app.localhost:8080';
accepted('names that are not localhost',
         policy('host mylocalhost; host localhost.example;'));
accepted('ranges that hold something special', policy(<<'END'));
    host api.internal { private 172.0.0.0/8 100.0.0.0/8 198.51.100.7
                                2606:2800::/32; }
END

refused('methods with commas, which are told to be spaces',
        host('methods GET, POST; #!'), qr/"methods GET POST"/);

# B-012: anyone could register a name under it
subtest 'B-012 a wildcard under which anyone could register is refused'
    => sub {
    for my $name ('*', '*.', '*.com', '*.co.uk', '*.github.io', '*.jfrog.io',
                  '*.s3.amazonaws.com', '*.blob.core.windows.net', 'a*b.com',
                  'a.*.example', '*.*.example.com', '**.example.com', '*.com.',
                  '*.COM', '*.xn--p1ai', '*example.com', '*.127.0.0.1',
                  '*.internal')
    {
        refused("the wildcard $name", policy("host $name; #!"),
                $name =~ /^\*\.(?:127|com\.|$)/ ? qr/"host"/
                : qr/as in "\*\.example\.com"|for all|write the hosts that are/);
    }
};

# B-013, B-024: each is one name or none
subtest 'B-013 B-024 a host is one name in ASCII or is refused' => sub {
    for my $case (
        ['a newline',      "\"a.internal\nb.internal\""],
        ['a semicolon',    '"a.internal;b"'],
        ['an open brace',  '"a.internal{"'],
        ['a close brace',  '"a.internal}"'],
        ['a hash',         '"a.internal#b"'],
        ['a quote',        "\"a.internal'\""],
        ['a double quote', "'a.internal\"'"],
        ['a dollar',       '"a.internal$host"'],
        ['a variable',     '"${host}.internal"'],
        ['a space',        '"a.internal b"'],
        ['a tab',          "\"a.internal\tb\""],
        ['a NUL',          "\"a.internal\0b\""],
        ['a NUL at the end', "\"a.internal\0\""],
        ['a DEL',          "\"a.internal\x7f\""],
        ['an escape',      "\"\e[2Ja.internal\""],
        ['a backslash',    '"a.internal\\\\b"'],
        ['a slash',        'a.internal/v1'],
        ['a scheme',       'https://a.internal'],
        ['user information', 'me@a.internal'],
        ['a percent sign', 'a%2einternal'],
        ['an underscore at the label\'s start is none of these, but a hyphen is',
         '-a.internal'],
        ['300 characters', join('.', ('a' x 59) x 5)],
        ['a label of 64',  'a' x 64 . '.internal'],
        ['an empty label', 'a..internal'],
        ['a leading dot',  '.a.internal'],
        ['a last dot',     'a.internal.'],
        ['nothing',        '""'],
        ['port 0',         'a.internal:0'],
        ['port 65536',     'a.internal:65536'],
        ['port 080',       'a.internal:080'],
        ['an empty port',  'a.internal:'],
        ['port words',     'a.internal:http'],
        ['127.1',          '127.1:80'],
        ['octal',          '0177.0.0.1:80'],
        ['hex',            '0x7f.0.0.1:80'],
        ['one number',     '2130706433:80'],
        ['leading zeros',  '010.0.0.1:80'],
        ['an IPv6 without brackets', '2606:2800:220:1::1'],
        ['an IPv6 in long form', '[2606:2800:0220:0001:0:0:0:1]'],
        ['an IPv6 with a zone', '[fe80::1%eth0]'],
        ['an umlaut',      "b\xc3\xbccher.example"],
        ['fullwidth letters', "\xef\xbd\x81.example"],
        ['an ideographic dot', "a\xe3\x80\x82example"],
        ['broken UTF-8',   "a\xff.example"],
    ) {
        my ($what, $name) = @$case;
        refused("a host with $what", policy("host $name; #!"), qr/"host"/);
        refused("a host block with $what", policy("host $name { #!\n}"),
                qr/"host"/);
    }

    refused('an umlaut; the message asks for the xn-- form',
            policy("host b\xc3\xbccher.example; #!"), qr/xn--/);
    accepted('an xn-- name', policy('host xn--bcher-kva.example;'));
};

for my $name ('""', '"a b"', '"a;b"', '"a{b"', "\"a\nb\"", "\"a\0b\"",
              '"../a"', "b\xc3\xbc", '-a', '.a', 'a' x 65, '"a$b"')
{
    refused('a policy called ' . $name =~ s/([^ -~])/sprintf '\x%02x', ord $1/ger,
            http("agent_policy $name { #!\n}"), qr/polic/);
}

# a NUL ends a string early: the word is not the one that the operator sees
for my $case (
    ['methods',  host("methods \"GET\0X\"; #!")],
    ['private',  host("private \"10.0.0.0/8\0X\"; #!")],
    ['bearer',   host("bearer \"api\0X\"; #!")],
    ['plaintext', host("plaintext \"off\0X\"; #!")],
    ['hint',     host("hint \"use it\0X\"; #!")],
    ['trusted_certificate', host("trusted_certificate \"$ca\0X\"; #!")],
    ['env',      policy("env \"LANG\0X\"; #!")],
    ['launchers', policy("launchers \"user:root\0X\"; #!")],
    ['readable', policy("readable \"/opt\0X\"; #!")],
    ['writable', policy("writable \"/data\0X\" 1m; #!")],
    ['isolation', policy("isolation \"namespaces\0X\"; #!")],
    ['mount_secrets', policy("mount_secrets \"off\0X\"; #!")],
    ['network_default', policy("network_default \"deny\0X\"; #!")],
    ['memory',   policy("memory \"64m\0X\"; #!")],
    ['agent_vault', http('', vault => "agent_vault \"$vault\0X\"; #!")],
    ['agent_audit', http('', audit => "agent_audit \"logs/a.log\0X\"; #!")],
    ['agent_state', http('', late => "agent_state \"state\0X\"; #!")],
    ['agent_control', http('', control =>
                           "agent_control \"unix:%CONTROL%\0X\"; #!")],
) {
    my ($what, $http) = @$case;
    refused("$what with a NUL", $http, qr/"\Q$what\E"/);
}

symlink '/etc', "$prefix/etc-link";

for my $case (
    ['a method in small letters', host('methods get; #!')],
    ['CONNECT as a method',       host('methods CONNECT; #!')],
    ['methods with a comma',      host('methods GET,POST; #!')],
    ['a method with a space',     host('methods "GET POST"; #!')],
    ['a method twice',            host('methods GET GET; #!')],
    ['a range of no network',     host('private 10.0.0.1/8; #!')],
    ['every address',             host('private 0.0.0.0/0; #!')],
    ['link-local',                host('private 169.254.0.0/16; #!')],
    ['a range that is none',      host('private internal; #!')],
    ['a public range',            host('private 93.184.216.0/24; #!')],
    ['a public address',          host('private 8.8.8.8; #!')],
    ['a range beside a private one', host('private 172.32.0.0/11; #!')],
    ['plaintext maybe',           host('plaintext maybe; #!')],
    ['a hint of two lines',       host("hint \"a\nb\"; #!")],
    ['a hint with an escape',     host("hint \"a\e[1mb\"; #!")],
    ['an empty hint',             host('hint ""; #!')],
    ['a long hint',               host('hint "' . 'x' x 257 . '"; #!')],
    ['two hints',                 host("hint a;\nhint b; #!")],
    ['plaintext twice',           host("plaintext off;\nplaintext off; #!")],
    ['LD_PRELOAD in env',         policy('env LD_PRELOAD; #!')],
    ['PATH in env',               policy('env PATH; #!')],
    ['a proxy variable in env',   policy('env https_proxy; #!')],
    ['an env name with =',        policy('env "A=b"; #!')],
    ['/ readable',                policy('readable /; #!')],
    ['/etc readable',             policy('readable /etc; #!')],
    ['/home readable',            policy('readable /home/me; #!')],
    ['a relative readable',       policy('readable opt; #!')],
    ['a readable with ..',        policy('readable /opt/../etc; #!')],
    ['/usr writable',             policy('writable /usr/local 1m; #!')],
    ['a writable without a size', policy('writable /data; #!')],
    ['a writable of no size',     policy('writable /data 0; #!')],
    ['a writable of a strange size', policy('writable /data 1x; #!')],
    ['a writable twice',          policy("writable /d 1m;\nwritable /d 1m; #!")],
    ['launchers of no kind',      policy('launchers root; #!')],
    ['a readable that leads to /etc', policy("readable $prefix/etc-link; #!")],
    ['launchers nobody has',      policy('launchers user:no_such_user_x; #!')],
) {
    refused($case->[0], $case->[1], qr/"[a-z]/);
}


# Policies under which no task could start

subtest 'G-033: a policy that no task can start with is refused' => sub {
    my $bound = sub ($name, $most, $one) {
        accepted("$most $name", policy(join "\n", map { $one->($_) } 1 .. $most));
        refused("$name, one more than $most", policy(join("\n",
                map { $one->($_) } 1 .. $most + 1) . ' #!'),
                qr/"\Q$name\E".*one more than a box can be given.* \Q$most\E/);
    };
    for my $case (['53', qr/has port 53, where a box asks for names/],
                  ['8899', qr/has port 8899, where a box has its proxy/])
    {
        my ($port, $words) = @$case;
        refused("a host at $port", policy("host a.internal:$port; #!"), $words);
        refused("a host block at $port",
                policy("host a.internal:$port {\nplaintext on;\n} #!"), $words);
        refused("a wildcard at $port", policy("host *.a.example:$port; #!"),
                $words);
        refused("an address at $port", policy("host 8.8.8.8:$port; #!"),
                $words);
    }
    accepted('hosts at the ports beside them', policy('host a.internal:54; '
             . 'host a.internal:8898; host a.internal:80; host b.example:443;'));
    refused('TRACE', host('methods TRACE; #!'),
            qr/has the method TRACE, which nginx never passes on/);
    refused('TRACE among others', host("methods GET\nTRACE; #!\nhint x;"),
            qr/has the method TRACE/);
    refused('TRACE with a credential before it',
            host("bearer api;\nmethods TRACE;\n} #!\nhost b.internal {"),
            qr/TRACE would send back/);

    # what is made readable is there, and is a file or a directory
    my $dir = $t->dir;
    my $socket = IO::Socket::UNIX->new(Local => "$dir/a.sock", Listen => 1);
    $t->run(['mkfifo', "$dir/a.fifo"]);
    symlink '/dev/null', "$dir/null";
    symlink "$dir/nowhere", "$dir/dangling";
    my $file = $t->write('a-file', 'x');
    refused("readable of $_->[0]", policy("cpu 1;\nreadable /usr/share\n"
            . "$_->[1]; #!"), $_->[2])
        for ['what is not there', '/missing',
             qr{"readable /missing" cannot be found, and no task}],
            ['a socket', "$dir/a.sock", qr/is neither a file nor a directory/],
            ['a FIFO', "$dir/a.fifo", qr/is neither a file nor a directory/],
            ['a link to a device', "$dir/null",
             qr/is neither a file nor a directory/],
            ['a link to nothing', "$dir/dangling", qr/cannot be found/],
            ['what is below a file', "$file/x", qr/cannot be found/];
    accepted('readable of a file', policy("readable $file;"));

    # as many as a box can be given
    mkdir "$dir/r$_" for 1 .. 33;
    $bound->('readable', 32, sub ($n) { "readable $dir/r$n;" });
    $bound->('writable', 16, sub ($n) { "writable /data$n 1m;" });
    $bound->('env', 64, sub ($n) { "env VALUE_$n;" });
    accepted('a path of 255 bytes', policy('writable /' . 'x' x 254 . ' 1m;'));
    refused('a path of 256 bytes', policy('writable /' . 'x' x 255 . " 1m; #!"),
            qr/"writable"/);

    # five doors are always there, and a message carries 64
    my $ports = sub ($n) { join ' ', map { "host a.internal:$_;" }
                           10001 .. 10000 + $n };
    accepted('64 doors', policy($ports->(59)));
    refused('65 doors', policy($ports->(60)), qr/more than 59 ports/);

    # the boxes' authority
    for my $case (['not valid yet', '20400101000000Z', '20500101000000Z',
                   qr/the certificate is not valid yet/],
                  ['past', '20200101000000Z', '20210101000000Z',
                   qr/the certificate has expired/],
                  ['in force', '20200101000000Z', '20500101000000Z'])
    {
        my ($what, $from, $to, $words) = @$case;
        my $own = $t->authority($from, $to);
        my $text = http('', zone => "agent_ca $own->{cert} $own->{key};");
        $words ? refused("an agent_ca that is $what", $text, $words)
               : accepted("control: an agent_ca that is $what", $text);
    }
};


# Limits

for my $case (
    # directive, least, most; too little, too much, wrong unit
    [cpu          => '0.01', '1024', '0', '1025', '1.0s', '-1', '1e3', '1,5'],
    [cpu_time     => '1s', '168h', '0s', '169h', '10m5', '-1s', '1d'],
    [memory       => '4m', '16t', '1m', '17t', '64mb', '-4m', '64s',
                     '99999999999999999999', '18446744073709551616k'],
    [pids         => '2', '4194304', '1', '4194305', '2k', '-2', '2.5'],
    [open_files   => '16', '1048576', '15', '1048577', '16k', '-16'],
    [wall_clock   => '10ms', '168h', '0', '9ms', '169h', '10ns', '-1s'],
    [output       => '100', '100000000', '99', '100000001', '1k', '-100'],
    [output_bytes => '4k', '16t', '1k', '17t', '4s', '-4k'],
    [near_limit   => '1%', '100%', '0%', '101%', '80', '80s', '-1%'],
) {
    my ($name, $least, $most, @bad) = @$case;
    accepted("$name from $least", policy("$name $least;"));
    accepted("$name to $most", policy("$name $most;"));
    refused("$name $_", policy("$name $_; #!"), qr/"\Q$name\E" directive: must/)
        for @bad;
    refused("$name ''", policy("$name ''; #!"), qr/"\Q$name\E" directive: must/);
    refused("$name unlimited", policy("$name unlimited; #!"),
            qr/"\Q$name\E" directive: must/);
    refused("$name twice", policy("$name $least;\n$name $least; #!"),
            qr/is duplicate/);
    refused("$name with two values", policy("$name $least $least; #!"),
            qr/invalid number of arguments/);
}


# The server

refused('no agent_audit', http('', audit => ''), qr/"agent_audit" is required/);
refused('no agent_control', http('agent_policy a { }', control => '',
                                 server => 'listen 127.0.0.1:1;'),
        qr/no "agent_control"/);
refused("agent_opens $_", http('', late => "agent_opens $_; #!"),
        qr/"Nr\/s" or "Nr\/s burst=N"/)
    for '50', '0r/s', '-1r/s', '100001r/s', 'r/s', '5r/m', '5r/s burst=0',
        '5r/s 10', '5r/s burst=', '5r/s burst=1000001';
accepted("agent_opens $_", http('', late => "agent_opens $_;"))
    for '1r/s', '100000r/s burst=1000000';
refused("agent_control_connections $_",
        http('', late => "agent_control_connections $_; #!"),
        qr/agent_control_connections|must be|invalid/)
    for '0', '-1', 'x', '65536';
refused('agent_opens twice',
        http('', late => 'agent_opens 1r/s; agent_opens 2r/s; #!'),
        qr/"agent_opens" directive is duplicate/);
refused('agent_control at a path without unix:',
        http('', control => 'agent_control /run/x.sock; #!'), qr/unix:PATH/);
refused('agent_control at a port',
        http('', control => 'agent_control 127.0.0.1:8080; #!'), qr/unix:PATH/);
refused('agent_control at nothing',
        http('', control => 'agent_control unix:; #!'), qr/unix:PATH/);
refused('agent_control at a long path',
        http('', control => 'agent_control unix:/' . 'x' x 120 . '; #!'),
        qr/longer than a socket's may be: 121 bytes, at most 107/);
refused('agent_control in no directory', http('', control =>
        'agent_control unix:' . $t->dir . '/none/c.sock; #!'),
        qr{none/c\.sock" does not exist: install -d -m 755 \S+/none in });
refused('agent_control twice', http('', control =>
        "agent_control unix:%CONTROL%;\nagent_control unix:/tmp/x; #!"),
        qr/is duplicate/);
# only the sockets of boxes lead to the server
for my $listen ('127.0.0.1:1', '[::1]:1', 'unix:/tmp/x.sock') {
    refused("listen $listen beside agent_control", http('', control =>
            'agent_control unix:%CONTROL%; #!',
            server => "include $proxy;\nlisten $listen;"),
            qr/"listen \Q$listen\E" too: remove it/);
    refused("listen $listen before agent_control", http('', control =>
            "listen $listen;\nagent_control unix:%CONTROL%; #!"),
            qr/"listen \Q$listen\E" too: remove it/);
}
accepted('listen in another server', http('', late =>
         "server { listen unix:$prefix/other.sock; return 403; }"));
refused('a zone that is too small', http('', zone => 'agent_zone 64k;'),
        qr/too small.*they need "agent_zone \d+k"/);
{
    my $many = join "\n", map { "host h$_.example;" } 1 .. 4000;
    my ($ok, $said) = try(http("agent_policy a {\n$many\n}",
                               zone => 'agent_zone 300k;'));
    my ($need) = $said =~ /they need "agent_zone (\d+k)"/;
    ok(!$ok && $need,
       'a zone too small for its policies is refused with the size they need')
        or diag $said;
    accepted('and that size is enough', http("agent_policy a {\n$many\n}",
             zone => "agent_zone $need;")) if $need;
}
refused('agent_audit that is a directory',
        http('', audit => "agent_audit $prefix/logs;"), qr/"agent_audit"/);
symlink $t->write('elsewhere', ''), "$prefix/logs/link.log";
refused('agent_audit that is a symbolic link',
        http('', audit => 'agent_audit logs/link.log;'), qr/"agent_audit"/);
$t->run(['mkfifo', "$prefix/logs/fifo.log"]);
refused('agent_audit that is a pipe',
        http('', audit => 'agent_audit logs/fifo.log;'), qr/"agent_audit"/);

refused('a missing trusted_certificate',
        host("trusted_certificate /nowhere/ca.pem; #!"),
        qr/"trusted_certificate" file "\/nowhere\/ca.pem".*No such file/);
my $garbage = $t->write('garbage.pem', "-----BEGIN CERTIFICATE-----\nxx\n");
refused('a trusted_certificate that is none',
        host("trusted_certificate $garbage; #!"), qr/holds no certificate/);
refused('a trusted_certificate that is a key',
        host('trusted_certificate ' . $t->ca->{key} . '; #!'),
        qr/holds no certificate/);
my $half = $t->write('half.pem', $t->read($ca)
                     . "-----BEGIN CERTIFICATE-----\nMIIB\n"
                     . "-----END CERTIFICATE-----\n");
refused('a trusted_certificate of which one is broken',
        host("trusted_certificate $half; #!"), qr/trusted_certificate/);
refused('two trusted_certificate',
        host("trusted_certificate $ca;\ntrusted_certificate $ca; #!"),
        qr/is duplicate/);

# what agent_proxy.conf sets is held to, in every location of the server
my $good = $t->read($proxy);
my ($inner) = $good =~ /location \/ \{\n(.*)\n\}/s or die;
my $pair = $t->cert(['client']);

subtest 'C-012 E-021 what agent_proxy.conf sets is held to in every location'
    => sub {
    for my $case (
        ['proxy_ssl_verify off',
         sub { s/proxy_ssl_verify .*on;/proxy_ssl_verify off;/r },
         qr/proxy_ssl_verify must be on/],
        ['no proxy_ssl_verify', sub { s/proxy_ssl_verify .*on;//r },
         qr/proxy_ssl_verify must be on/],
        ['proxy_ssl_server_name off',
         sub { s/proxy_ssl_server_name .*on;/proxy_ssl_server_name off;/r },
         qr/proxy_ssl_server_name must be on/],
        ['no proxy_ssl_name', sub { s/proxy_ssl_name .*;//r },
         qr/proxy_ssl_name must be/],
        ['proxy_store', sub { "$_\nproxy_store on;" }, qr/proxy_store must be off/],
        ['a cache', sub { "$_\nproxy_cache c;" }, qr/proxy_cache must be off/,
         "proxy_cache_path $prefix/temp/cache keys_zone=c:1m;"],
        ['error_page', sub { "$_\nerror_page 502 /x;" },
         qr/error_page must not be set/],
        ['proxy_intercept_errors',
         sub { s/proxy_intercept_errors .*off;/proxy_intercept_errors on;/r },
         qr/proxy_intercept_errors must be off/],
        ['C-012 a parent proxy',
         sub { s{https://agent_broker}{http://127.0.0.1:3128}r },
         qr{proxy_pass must be https://agent_broker}],
        ['C-012 a parent proxy over TLS',
         sub { s{https://agent_broker}{https://127.0.0.1:3128}r },
         qr{proxy_pass must be https://agent_broker}],
        ['C-012 a proxy that a variable names',
         sub { s{https://agent_broker}{https://\$host}r },
         qr{proxy_pass must be https://agent_broker}],
        ['E-021 proxy_buffering',
         sub { s/proxy_buffering .*off;/proxy_buffering on;/r },
         qr/proxy_buffering must be off/],
        ['no proxy_buffering', sub { s/proxy_buffering .*off;//r },
         qr/proxy_buffering must be off/],
        ['E-021 proxy_request_buffering',
         sub { s/proxy_request_buffering .*off;/proxy_request_buffering on;/r },
         qr/proxy_request_buffering must be off/],
        ['no proxy_ignore_headers',
         sub { s/proxy_ignore_headers[^;]*;//r }, qr/proxy_ignore_headers must/],
        ['one X-Accel header not ignored', sub { s/X-Accel-Redirect X/X/r },
         qr/proxy_ignore_headers must/],
        ['a client certificate', sub { "$_\nproxy_ssl_certificate "
            . "$pair->{cert};\nproxy_ssl_certificate_key $pair->{key};" },
         qr/proxy_ssl_certificate must/],
    ) {
        my ($what, $change, $words, $http) = @$case;
        my $bad = do { local $_ = $inner; $change->() };
        my $more = $http // '';

        for my $place (
            ['',                    "location / { #!\n$bad\n}"],
            ['in a prefix below',   "location / {\n$inner\n}\n"
                                    . "location /v1/ { #!\n$bad\n}"],
            ['in an exact one',     "location / {\n$inner\n}\n"
                                    . "location = /x { #!\n$bad\n}"],
            ['in a regex',          "location / {\n$inner\n}\n"
                                    . "location ~ x\$ { #!\n$bad\n}"],
            ['in a nested one',     "location / {\n$inner\n"
                                    . "location /v1/ { #!\n$bad\n}\n}"],
            ['in a regex nested',   "location / {\n$inner\n"
                                    . "location ~ x\$ { #!\n$bad\n}\n}"],
            ['in a named one',      "location / {\n$inner\n}\n"
                                    . "location \@x { #!\n$bad\n}"],
            ['in limit_except',     "location / {\n$inner\n"
                                    . "limit_except GET {\n$bad\n}\n}"],
            ['in an if',            "location / {\n$inner\n"
                                    . "if (\$agent_task) {\n$bad\n}\n}"],
        ) {
            # what is left out in a nested location is inherited
            next if $place->[0] =~ /nested/ && $what =~ /^no /;

            # most directives are not allowed in these two at all: nginx says so
            my $other = $place->[0] =~ /limit_except|an if/;
            refused("$what $place->[0]",
                    http($more, server => $place->[1]),
                    $other ? qr/$words|not allowed here/ : $words);
        }
    }
};

for my $case (
    ['no location',              '', qr/has no "location \/"/],
    ['only an exact location',   "location = / {\n$inner\n}",
     qr/has no "location \/"/],
    ['a location of files',      "location / {\n$inner\n}\n"
                                 . "location /files/ { root /etc; } #!",
     qr/"\/files\/".*no proxy_pass/],
    ['a location of files in a location', "location / {\n$inner\n"
                                 . "location ~ x { root /etc; } #!\n}",
     qr/"x".*no proxy_pass/],
) {
    my ($what, $server, $words) = @$case;
    my $mark = $server =~ /#!/ ? '' : ' #!';
    refused($what, http('', control => "agent_control unix:%CONTROL%;$mark",
                        server => $server), $words);
}

{
    my $edited = $t->write('edited.conf',
                           $good =~ s/proxy_ssl_verify .*on;/
                                      proxy_ssl_verify off;/xr);
    my ($before) = $t->read($edited) =~ /^(.*?^)location/ms;
    my $at = 1 + ($before =~ tr/\n//);
    refused('an agent_proxy.conf that was edited', http('', server =>
            "include $edited;"),
            qr/proxy_ssl_verify must be on.* in \Q$edited\E:$at$/);
}
# E-034: no pattern but a `path` is matched against what a box sends

subtest 'E-034 no pattern but a `path` is matched against what a box sends' => sub {
    my $slow = '^/(a+)+$';
    for my $case (
        ['a regex location', "location / {\n$inner\n}\n"
                             . "location ~ $slow {\n$inner\n}"],
        ['a regex location in a location', "location / {\n$inner\n"
                             . "location ~* $slow {\n$inner\n}\n}"],
        ['a regex in if', "if (\$request_uri ~ $slow) { set \$x 1; }\n"
                          . "location / {\n$inner\n}"],
        ['a regex in an if of a location', "location / {\n$inner\nset \$x 1;\n"
                          . "if (\$http_a !~* $slow) { set \$x 2; }\n}"],
        ['rewrite', "location / {\n$inner\nrewrite $slow /x break;\n}"],
        ['rewrite in the server', "rewrite $slow /x last;\n"
                                  . "location / {\n$inner\n}"],
    ) {
        my ($what, $server) = @$case;
        refused("$what", http('', server => $server),
                qr/regular expression.*can hold up all others.*nginx\.conf:\d+/);
    }
    accepted('control: the same without one', http('', server =>
        "location / {\n$inner\n}\nlocation /v1/ {\n$inner\n}"));
    for my $word (qw(pattern host_regex)) {
        refused("a rule with $word", host("$word ^/(a+)+\$; #!"),
                qr/unknown directive "$word"/);
    }
    refused('a host that is a pattern', policy("host ~^(a+)+\$; #!"),
            qr/"host"/);
};

refused('underscores_in_headers', http('', control =>
        'agent_control unix:%CONTROL%; #!',
        server => "underscores_in_headers on;\ninclude $proxy;"),
        qr/underscores_in_headers off/);
refused('invalid headers let through', http('', control =>
        'agent_control unix:%CONTROL%; #!',
        server => "ignore_invalid_headers off;\ninclude $proxy;"),
        qr/ignore_invalid_headers on/);
refused('error_page of http', http('error_page 404 /x;', control =>
        'agent_control unix:%CONTROL%; #!'), qr/error_page/);


# `host NAME;` and `host NAME { }` in any mixture

# nginx reads 4096 bytes at a time
my $long = ('# ' . 'x' x 3900 . "\n") x 2;
my $lines = join '', map { '# ' . 'y' x 70 . " $_; {\n" } 1 .. 200;

for my $case (
    ['one line only',       'host a.example;', 1],
    ['one block only',      'host a.example { }', 1],
    ['without spaces',      'host a.example{}host b.example;host c.example{}', 3],
    ['first and last',      "host a.example;\nmemory 64m;\nhost b.example;", 2],
    ['blocks first and last', "host a.example{}\nmemory 64m;\nhost b.example{}", 2],
    ['a line then a block', "host a.example;\nhost b.example { methods GET; }", 2],
    ['a block then a line', "host a.example { methods GET; }\nhost b.example;", 2],
    ['over lines',          "host\n  a.example\n;\nhost\n\tb.example\n{\n}\n", 2],
    ['over lines with CR',  "host\r\n  a.example\r\n;\r\nhost\r\n\tb.example\r\n{\r\n}\r\n", 2],
    ['a comment before',    "# ; {\nhost a.example;\n# {\nhost b.example { }\n# ;\nhost c.example;", 3],
    ['a comment within a line', "host # { ;\na.example # {\n;\nhost b.example;", 2],
    ['a comment within a block', "host # ;\na.example # ;\n{ # ;\n}\nhost b.example { }", 2],
    ['a comment on the line', "host a.example; # {\nhost b.example { } # ;\nhost c.example;", 3],
    ['quotes',              "host \"a.example\";\nhost 'b.example' { }\nhost \"c.example\"{}", 3],
    ['a quoted directive',  "\"host\" a.example;\n'host' b.example { }\n\"host\" c.example;", 3],
    ['words in a hint',     "host a.example { hint \"a; { host b.example; } #\"; }\nhost b.example;\n"
                            . "host c.example { hint 'it\\'s; \"x\" {'; }\nhost d.example;", 4],
    ['a long comment before a line', "memory 64m;\n${long}host a.example;", 1],
    ['a long comment before a block', "memory 64m;\n${long}host a.example { }", 1],
    ['a long comment between lines', "host a.example;\n${long}host b.example;\n${long}host c.example;", 3],
    ['a long comment after a block', "host a.example { }\n${long}host b.example;\n${long}host c.example { }", 3],
    ['many comment lines',  "host a.example;\n${lines}host b.example;\n${lines}host c.example { }\n${lines}", 3],
    ['a long comment within', "host\n${lines}a.example\n${lines};\nhost\n${lines}b.example\n${lines}{\n}", 2],
    ['much space',          "host a.example;" . ' ' x 9000 . "host" . "\n" x 9000 . "b.example" . ' ' x 9000 . ';', 2],
    ['a name that begins alike', "host a.example;\nhost hosts.example { }\nhost host.example;", 3],
    ['after every directive', join("\n", map { ("$_;", 'host h' . ++$t->{n} . '.example;') }
        'cpu 1', 'isolation namespaces', 'writable /d 1m', 'readable /opt',
        'env LANG', 'launchers user:root', 'mount_secrets off',
        'network_default deny', "trusted_certificate $ca"), 9],
    ['blocks after every directive', join("\n", map { ("$_;", 'host i' . ++$t->{n} . '.example { }') }
        'cpu 1', 'isolation namespaces', 'writable /d 1m', 'readable /opt',
        'env LANG', 'launchers user:root', 'mount_secrets off',
        'network_default deny', "trusted_certificate $ca"), 9],
    ['3000 hosts',          join("\n", map { $_ % 3 ? "host h$_.example;" : "host h$_.example { methods GET; }" } 1 .. 3000), 3000],
) {
    my ($what, $hosts, $count) = @$case;
    accepted("hosts: $what", policy($hosts));
    accepted("hosts: $what, in the last line",
             http("agent_policy a { $hosts }\nagent_policy b { host a.example; }"
                  . "\nagent_policy c { host a.example { } }"))
        unless $hosts =~ /#/;
}

for my $case (
    ['a line without its end', "host a.example\nhost b.example { #!\n}",
     qr/invalid number of arguments/],
    ['a block without its end', "host a.example {\nmethods GET;\n",
     qr/unexpected end of file/],
    ['a file that ends in a comment', "host a.example; # the end",
     qr/unexpected end of file|"\}"/],
    ['a brace in the name', "host a.example{b;\n}", qr/unknown directive|invalid/],
) {
    my ($what, $hosts, $words) = @$case;
    refused("hosts: $what", "agent_audit logs/a.log; agent_policy a {\n$hosts",
            $words) if $what =~ /end/;
    refused("hosts: $what", policy($hosts), $words) if $what !~ /end/;
}

# Plain lines are read past nginx's parser: each refusal of one has the words
# and the line that it has for the same host in quotes, which nginx reads.

subtest 'a plain host is refused as one that nginx reads' => sub {
    my $many = join '', map { 'host h' . 'x' x ($_ % 50) . "$_.example;"
                              . ($_ % 3 ? "\n" : "  \t\r\n\n") } 1 .. 400;
    for my $before ('', $many) {
        for my $name ('localhost', 'a.example:53', '127.0.0.1', '*', '*.com',
                      'first.example', 'first.example:443', 'a..example',
                      '-', 'a.example:0', 'a.example:65536', 'a' x 64,
                      'a' x 290, 'a' x 310, '10.1.2.3:80')
        {
            my @said = map {
                my ($ok, $said, $line) = try(policy("host first.example;\n"
                    . "${before}host $_; #!\nhost last.example;"));
                my ($emerg) = $said =~ /^nginx: \[emerg\] (.*)$/m;
                like($emerg // $said, qr{/nginx\.conf:$line$},
                     substr("host $_", 0, 40) . ' is refused at its line')
                    unless $ok;
                $emerg;
            } $name, "'$name'";
            ok($said[0], 'the plain one is refused');
            is($said[0], $said[1], 'in the same words');
        }
    }
};


# nginx -t leaves nothing behind

subtest 'E-009 nginx -t leaves nothing behind' => sub {
    my $clean = $t->nginx_prefix;
    my $http = http("agent_policy a { host a.example { bearer api; } }",
                    late => 'agent_state state;');
    my ($ok, $said) = $t->nginx_t(prefix => $clean, http => $http);
    ok($ok,
       'a good configuration in a fresh directory is accepted') or diag $said;

    my @left;
    File::Find::find(sub { push @left, $File::Find::name if !-d }, $clean);
    # nginx itself makes its pid file and its log
    @left = grep { !m{/(?:nginx\.conf|nginx\.pid|error\.log)$} } @left;
    is_deeply(\@left, [], 'nginx -t leaves no file of the module');
    ok(!-e "$clean/state", 'nginx -t leaves no directory of the module');

    ($ok, $said) = $t->nginx_t(prefix => $clean, http => $http
                               . 'server { unknown_here; }');
    @left = ();
    File::Find::find(sub { push @left, $File::Find::name if !-d }, $clean);
    @left = grep { !m{/(?:nginx\.conf|nginx\.pid|error\.log)$} } @left;
    is_deeply(\@left, [],
              'nginx -t of a bad configuration leaves no file of the module');

    my $log = $t->write("$clean/logs/agent-audit.log", "{}\n", 0600);
    $t->nginx_t(prefix => $clean, http => $http);
    is(join(' ', (stat $log)[2] & 0777, -s $log), join(' ', 0600, 3),
       'nginx -t does not touch an audit file that is there');
};

# C-020: where a token could show
subtest 'C-020 nginx -T shows no token' => sub {
    my $p = $t->nginx_prefix;
    my $http = http("agent_policy a { host a.example { bearer api; } }");
    $t->write("$p/nginx.conf", $t->nginx_conf($p, http => $http));
    my $run = $t->run([$t->nginx_command($p, '-T')],
                      env => { $t->nginx_env });
    is($run->{status}, 0, 'control: nginx -T shows the configuration');
    like($run->{out}, qr/\Q$vault/, 'control: it shows the name of the vault');
    unlike($run->{out} . $run->{err}, qr/\Q$token/, 'it shows no token');
};


# A running broker

sub pings ($b) {
    my $l = $t->launcher;
    my $task = $l->open_task($b->control, 'a');
    my $r = $task->{ok} ? $l->get('http://evil.example/') : {};
    $l->stop;
    return ($r->{status} // 0) == 403;
}

my $http = http("agent_policy a { host a.example { bearer api; } }");
my $b = $t->broker(http => $http);
ok(pings($b), 'control: a broker runs and serves');

for my $pid ($b->master, $b->workers) {
    unlike($t->read("/proc/$pid/environ") . $t->read("/proc/$pid/cmdline"),
           qr/\Q$token/,
           "C-020 the token is in no environment and no argument of pid $pid");
}

my $inode = (stat $b->control)[1];
my @audit = stat $b->prefix . '/logs/agent-audit.log';

my ($ok, $said) = $t->nginx_t(prefix => $b->prefix, http => $http);
ok($ok,
   'nginx -t beside a running broker accepts a good '
   . 'configuration') or diag $said;
is((stat $b->control)[1], $inode,
   'E-009 nginx -t beside a running broker leaves its socket');
ok(pings($b), 'E-009 nginx -t beside a running broker leaves it serving');

($ok, $said) = $t->nginx_t(prefix => $b->prefix,
    http => http("agent_policy a {\nmount_secrets on; #!\n}"));
ok(!$ok, 'nginx -t beside a running broker refuses a bad configuration');
is((stat $b->control)[1], $inode,
   'E-009 a nginx -t that is refused leaves the socket of a running broker');

# Starts nginx as an operator would: nothing is removed before.
sub start ($prefix, $http) {
    $t->write("$prefix/nginx.conf", $t->nginx_conf($prefix, http => $http));
    my $log = "$prefix/start" . ++$t->{starts} . '.log';
    my $child = $t->spawn([$t->nginx_command($prefix)],
                          env => { $t->nginx_env }, log => $log);
    my $status;
    AgentTest::wait_for('nginx to start or end', sub {
        if (waitpid($child->{pid}, POSIX::WNOHANG()) == $child->{pid}) {
            $status = $?;
            return 1;
        }
        return $t->read("$prefix/nginx.pid") =~ /^$child->{pid}$/m;
    });
    return ($child->{pid}, $status, $t->read($log)
            . $t->read("$prefix/error.log"));
}

# E-009
for my $case (['the same prefix', $b->prefix],
              ['another prefix', $t->nginx_prefix])
{
    my ($what, $second) = @$case;
    subtest "E-009 a second start at $what on a live socket is refused" => sub {
        my $text = $http =~ s/%CONTROL%/$b->control/er;
        my ($pid, $status, $said) = start($second, $text);
        ok($status, 'it does not start');
        like($said, qr/another broker is running.*nginx\.conf:\d+/,
             'it says why, with the line');
        is((stat $b->control)[1], $inode, 'the socket is left');
        ok(pings($b), 'the running broker serves');
    };
}

# E-009: no socket
subtest 'E-009 a file that is not a socket is not removed' => sub {
    my $p = $t->nginx_prefix;
    my $file = $t->write("$p/run/control.sock", "precious\n");
    my ($pid, $status, $said) = start($p, $http);
    ok($status,
       'a start with a regular file in place of the socket is refused');
    like($said, qr/exists and is not a socket in \S+nginx\.conf:\d+/,
         'it says why, with the line');
    is($t->read($file), "precious\n", 'the file is untouched');
};

# E-008
subtest 'E-008 workers end with a master that is killed, the next one starts'
    => sub {
    my $p = $b->prefix;
    my $log = length $b->error_log;
    my @workers = $b->workers;
    my $pid = $b->master;
    kill 'KILL', $pid;
    waitpid $pid, 0;
    $t->forget($pid);

    AgentTest::wait_for('the workers to end with their master', sub {
        !grep { ($t->read("/proc/$_/stat") =~ /\) (\w)/ ? $1 : 'Z') ne 'Z' }
              @workers
    });
    ok(1, 'the workers end');
    ok(-S $b->control, 'control: the socket stays behind');

    my ($new, $status, $said) = start($p, $http);
    ok(!defined $status, 'the next start is not stopped by the socket')
        or diag $said;
    like(substr($b->error_log, $log), qr/removing the socket/,
         'the next start says that it removes the socket');
    $b->{pid} = $new;
    ok(pings($b), 'the next broker serves');
    is_deeply([$b->audit_errors], [],
              'every line of the audit is whole and follows in number');
    my $errors = substr $b->error_log, $log;
    unlike($errors, qr/\[(alert|emerg)\]/,
           'nothing is reported at alert or emerg') or diag $errors;

    # a socket of another user, or of something else, is not ours to remove
    $b->end('TERM');
    ok(!-e $b->control, 'an orderly end removes the socket');
};

# What is the broker's own is in no box, by whatever name

{
    my $dir = $t->dir;
    mkdir "$dir/keep";
    mkdir "$dir/keep/state", 0700;
    mkdir "$dir/other";
    my $kept = $t->write('keep/vault', "api = $token\n", 0600);
    symlink "$dir/keep", "$dir/link";
    my $key = $t->write('keep/vault.key', 'x' x 32, 0600);
    my $sealed = $t->run(["$t->{objs}/agent-vault", '--vault', $kept,
                          '--key', $key, 'seal']);
    is($sealed->{status}, 0, 'control: the vault is sealed')
        or diag $sealed->{err};
    my %own = (vault => "agent_vault $kept key=$key;",
               audit => "agent_audit $dir/keep/audit.log;",
               zone => "agent_state $dir/keep/state;");
    for my $case (['the directory it is in', "$dir/keep"],
                  ['what holds that', $dir],
                  ['a link to it', "$dir/link"],
                  ['the vault', $kept],
                  ['the vault\'s key', $key],
                  ['the state', "$dir/keep/state"],
                  ['a part of the state', "$dir/keep/state/ca"],
                  ['an audit that is not there yet', "$dir/keep/audit.log"])
    {
        my ($what, $path) = @$case;
        refused("$what, readable in a box",
                http("agent_policy a { readable $path; }", %own),
                qr/"readable \Q$path\E" of policy "a" would show "agent_\w+ /);
    }
    mkdir "$dir/keepsake";
    accepted('what lies beside them, readable in a box',
             http("agent_policy a { readable $dir/other $dir/keepsake; }",
                  %own));
}

# What others could replace: in a directory that they may write, or below one

{
    my $dir = $t->dir;
    my $pair = $t->cert(['boxes.internal']);
    for my $name (qw(theirs/own sticky/own)) {
        $t->write("$name/vault", "api = $token\n", 0600);
        $t->write("$name/key", 'x' x 32, 0600);
        mkdir "$dir/$name/state", 0700;
        $t->write("$name/ca.pem", $t->read($ca));
    }
    chmod 0777, "$dir/theirs";
    chmod 01777, "$dir/sticky";
    symlink "$dir/theirs/own", "$dir/to-theirs";

    my %at = (
        agent_vault => sub ($at) { http('', vault => "agent_vault $at/vault; #!") },
        agent_audit => sub ($at) { http('', audit => "agent_audit $at/a.log; #!") },
        agent_state => sub ($at) { http('', zone => "agent_state $at/state; #!") },
        agent_ca    => sub ($at) { http('', zone =>
                           "agent_ca $at/ca.pem $pair->{key}; #!") },
        agent_control => sub ($at) { http('', control =>
                           "agent_control unix:$at/c.sock; #!") },
        trusted_certificate => sub ($at) {
            host("trusted_certificate $at/ca.pem; #!") },
    );
    my $empty = $t->write('empty-vault', '', 0600);
    refused('the key of a vault in what others may write', http('', vault =>
            "agent_vault $empty key=$dir/theirs/own/key; #!"),
            qr{"agent_vault \S+/key" could be replaced, since others may write});
    accepted('control: the key where they may not', http('', vault =>
             "agent_vault $empty key=$dir/sticky/own/key;"));
    for my $directive (sort keys %at) {
        for my $at ("$dir/theirs/own", "$dir/to-theirs") {
            refused("$directive in $at", $at{$directive}->($at),
                    qr{"$directive \S+" could be replaced, since others may }
                    . qr{write "\Q$dir\E/theirs" \(mode 0777\): }
                    . qr{chmod go-w \Q$dir\E/theirs,});
        }
        accepted("$directive below a sticky directory",
                 $at{$directive}->("$dir/sticky/own"))
            if $directive ne 'agent_ca';
    }
    chmod 0775, "$dir/theirs", "$dir/theirs/own";
    accepted('an audit in what the master\'s own group may write',
             $at{agent_audit}->("$dir/theirs/own"));
    chmod 0777, "$dir/sticky/own/state";
    refused('an agent_state that others may write', http('', zone =>
            "agent_state $dir/sticky/own/state;"),
            qr/"agent_state" "\S+" must be a directory that only .*chmod 700/);

    SKIP: {
        skip 'only root can give directories away', 10 if !AgentTest::is_root();
        chown 0, 12345, "$dir/theirs", "$dir/theirs/own" or die $!;
        refused('an audit in what another group may write',
                $at{agent_audit}->("$dir/theirs/own"),
                qr{may write "\Q$dir\E/theirs/own" \(mode 0775\)});
        chmod 0755, "$dir/theirs/own";
        my ($ok, $said) = try($at{agent_audit}->("$dir/theirs/own"));
        ok($ok && $said =~ qr{\[warn\] .*may write "\Q$dir\E/theirs" },
           'a group that may write higher up is warned of') or diag $said;
        chmod 0755, "$dir/theirs";
        accepted('one that nobody else may write',
                 $at{agent_audit}->("$dir/theirs/own"));
        $t->give("$dir/theirs/own", 12345);
        refused('an audit in a directory of another user',
                $at{agent_audit}->("$dir/theirs/own"),
                qr/could be replaced, since "\S+own" belongs to uid 12345/);
        my $log = $t->write('sticky/own/a.log', '');
        $t->give($log, 12345);
        refused('an audit file of another user', http('', audit =>
                "agent_audit $log;"), qr/uid 12345.*chown/);

        # what is another's in a sticky directory, and each link on the way
        my $theirs = qr/could be replaced, since "\S+" belongs to uid 12345/;
        symlink "$dir/ours", "$dir/sticky/link";
        symlink 'theirs/own/back', "$dir/hop";
        mkdir "$dir/ours";
        symlink "$dir/ours", "$dir/theirs/own/back";
        my $pem = $t->write('ours/ca.pem', $t->read($ca));
        $t->write('ours/vault', "api = $token\n", 0600);
        system('chown', '-h', '12345', "$dir/sticky/link") == 0 or die;
        refused("$_ by another's link", $at{$_}->("$dir/sticky/link"), $theirs)
            for qw(agent_vault trusted_certificate);
        refused('a link through another\'s directory and back',
                $at{agent_vault}->("$dir/hop"), $theirs);
        chmod 0666, $pem;
        refused('a certificate that others may write',
                $at{trusted_certificate}->("$dir/ours"),
                qr{may write "\Q$pem\E" \(mode 0666\)});
        $t->give($pem, 12345);
        refused('a certificate of another user',
                $at{trusted_certificate}->("$dir/ours"), $theirs);
    }
}

for my $word (qw(off stderr syslog:server=127.0.0.1 memory:1m)) {
    refused("agent_audit $word", http('', audit => "agent_audit $word; #!"),
            qr/"agent_audit" takes a path, and no "\Q$word\E"/);
}

# E-038: a switch that would widen is none, or refused

subtest 'E-038 there is no switch for debugging or measuring that opens a wall'
    => sub {
    for my $when ('before', 'after') {
        my $off = "master_process off;\n";
        my $conf = $t->nginx_conf($prefix, http => http('agent_policy a { }'));
        $t->write("$prefix/nginx.conf", $when eq 'before' ? $off . $conf
                                                          : $conf . $off);
        my $run = $t->run([$t->nginx_command($prefix, '-t')],
                          env => { $t->nginx_env });
        my ($ok, $said) = ($run->{status} == 0, $run->{err});
        ok(!$ok, "master_process off, $when http, is refused");
        like($said, qr/"master_process off" is never allowed/,
             "master_process off, $when http: the message says why");
    }
    accepted('control: master_process on', http('agent_policy a { }'),
             main => 'master_process on;');
    for my $word (qw(agent_debug agent_unsafe agent_learning agent_passthrough
                     agent_verify agent_trace agent_profile agent_test))
    {
        for my $at (qw(http policy host server)) {
            my $text = $at eq 'http' ? http("$word on; #!")
                     : $at eq 'policy' ? policy("$word on; #!")
                     : $at eq 'host' ? host("$word on; #!")
                     : http('', server => "$word on; #!\ninclude $proxy;");
            refused("$word on in $at", $text, qr/unknown directive "$word"/);
        }
    }
};

SKIP: {
    skip 'only root has workers of another user', 2 if !AgentTest::is_root();
    refused('workers that are root', policy(''), qr/would run as root.*"user/,
            worker_user => 'root');
    accepted('workers that are not', policy(''), worker_user => 'nobody nogroup');
}

SKIP: {
    skip 'only root can give a socket away', 2 if !AgentTest::is_root();
    my $p = $t->nginx_prefix;
    my $s = IO::Socket::UNIX->new(Local => "$p/run/control.sock", Listen => 1)
        or die;
    close $s;
    chown 12345, 12345, "$p/run/control.sock";
    my ($pid, $status, $said) = start($p, $http);
    ok($status, 'a start on the dead socket of another user is refused');
    ok(-S "$p/run/control.sock", 'the dead socket of another user is left');
}

done_testing;
