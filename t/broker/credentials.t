#!/usr/bin/perl

# Which credential a request has on its way out: the rule's, of each kind, and
# none of the box's own, wherever in a request that stands and however it is
# spelled; what was taken out is named in the line, and no value is anywhere.
#
# sanitizers: headers and queries are made anew from a box's bytes

use v5.36;

use lib 't/lib';
use AgentTest;
use MIME::Base64 qw(encode_base64);
use Test::More;

my %value = (
    plain  => 'sk_test_0123456789abcdef_plain',
    pair   => 'x-access-token:0123456789abcdef_pair',
    field  => 'sk_test_0123456789abcdef_field',
    odd    => 'a+b/c=d&e?f%g:h#i~0123456789',
);

my $t    = AgentTest->new;
my $up   = $t->upstream(names => [map { "$_.test" } qw(bearer basic header query odd none
                     pass cookies a.wild)]);
my $port = $up->port;
my $rule = $t->rule;
my $ca   = $t->ca->{cert};

my @hosts = qw(bearer basic header query odd none pass cookies a.wild);

my $b = $t->broker(
    names => [map { "$_.test" } @hosts],
    vault => join('', map { "$_ = $value{$_}\n" } sort keys %value),
    log_level => 'debug',
    policy => <<"END");
    host bearer.test:$port  { methods GET POST; bearer plain; $rule }
    host basic.test:$port   { basic pair; $rule }
    host header.test:$port  { header X-Custom-Key field; $rule }
    host query.test:$port   { query custom.key plain; $rule }
    host odd.test:$port     { query k odd; $rule }
    host none.test:$port    { methods GET POST; $rule }
    host pass.test:$port    { client_credentials pass; $rule }
    host cookies.test:$port { bearer plain; cookies on; $rule }
    host *.wild.test:$port  { bearer plain; credential_scope wildcard; $rule }
END

my ($l) = $b->task;

# a request by the proxy door: what the upstream saw, and the line
sub ask ($host, $target = '/x', @headers) {
    my $r = $l->get("http://$host.test:$port$target", headers => \@headers);
    my $line = ($b->audit('egress'))[-1];
    diag $r->{raw} if $r->{status} != 200;
    return (($up->requests)[-1], $line, $r);
}

# the same by TLS through CONNECT
sub curl ($way, $host, $target = '/x', @headers) {
    my $run = $l->do(run => { timeout => 60, argv => [
        'curl', '-sSig', $way, '--cacert', $l->{task}{ca} // $ca, '-k',
        '-x', 'http://127.0.0.1:8899', (map { ('-H', $_) } @headers),
        "https://$host.test:$port$target"] });
    diag $run->{err} if $run->{status};
    return (($up->requests)[-1], ($b->audit('egress'))[-1]);
}

# every request that goes up has these, and no other credential
sub attached ($seen, $what, %want) {
    my %headers = %{ $seen->{headers} };
    my %got = map { ($_ => $headers{$_}) }
              grep { $headers{$_} } qw(authorization x-custom-key cookie
              proxy-authorization x-api-key token);
    is_deeply(\%got, { map { ($_ => [$want{$_}]) } keys %want }, $what);
}


subtest 'each kind of credential is put where it belongs' => sub {
    attached((ask('bearer'))[0], 'bearer',
             authorization => "Bearer $value{plain}");
    attached((ask('basic'))[0], 'basic',
             authorization => 'Basic ' . encode_base64($value{pair}, ''));
    attached((ask('header'))[0], 'header', 'x-custom-key' => $value{field});
    attached((ask('a.wild'))[0], 'a wildcard with its scope',
             authorization => "Bearer $value{plain}");
    attached((ask('none'))[0], 'control: a host without one has none');

    my %target = (
        '/x'          => "/x?custom.key=$value{plain}",
        '/x?'         => "/x?custom.key=$value{plain}",
        '/x?a=1'      => "/x?a=1&custom.key=$value{plain}",
        '/x?a=1&'     => "/x?a=1&&custom.key=$value{plain}",
        '/x?custom.key=mine' => "/x?custom.key=$value{plain}",
    );
    is((ask('query', $_))[0]{target}, $target{$_}, "query, for $_")
        for sort keys %target;
    attached((ask('query'))[0], 'query: no header has it');
    my $odd = $value{odd} =~ s/([^\w.~-])/sprintf '%%%02X', ord $1/ger;
    is((ask('odd', '/x?a=1'))[0]{target}, "/x?a=1&k=$odd",
       'in a query all but unreserved characters are encoded');
};

subtest 'each kind is attached by TLS and HTTP/2 as well' => sub {
    for my $way ('--http1.1', '--http2') {
        attached((curl($way, 'bearer'))[0], "bearer, $way",
                 authorization => "Bearer $value{plain}");
        attached((curl($way, 'basic'))[0], "basic, $way",
                 authorization => 'Basic ' . encode_base64($value{pair}, ''));
        attached((curl($way, 'header'))[0], "header, $way",
                 'x-custom-key' => $value{field});
        is((curl($way, 'query', '/x?a=1'))[0]{target},
           "/x?a=1&custom.key=$value{plain}", "query, $way");
    }
};

my @own = ('Authorization: Bearer mine', 'Cookie: a=b', 'X-Api-Key: mine',
           'Proxy-Authorization: Basic bWluZQ==', 'x-custom-key: mine',
           'CF-Access-Client-Secret: mine', 'Authentication: mine',
           'Token: mine', 'Access-Token: mine', 'X-Api-Token: mine',
           'X-Session-Token: mine', 'X-Keep: mine');

subtest 'G-031: a header of the box that is a credential does not pass' => sub {
    my @gone = qw(authorization cookie x-api-key proxy-authorization
                  cf-access-client-secret authentication token access-token
                  x-api-token x-session-token);
    for my $host (qw(bearer basic header query none a.wild)) {
        my ($seen, $line) = ask($host, '/x', @own);
        my %headers = %{ $seen->{headers} };
        my @mine = grep { "@{ $headers{$_} }" =~ /mine|bWluZQ|a=b/ }
                   sort keys %headers;
        my @kept = ($host eq 'header' ? () : 'x-custom-key', 'x-keep');
        is_deeply(\@mine, \@kept,
                  "$host: only ordinary headers go up");
        is_deeply([sort @{ $line->{stripped} // [] }],
                  [sort @gone, $host eq 'header' ? 'X-Custom-Key' : ()],
                  "$host: the line names what was taken out");
    }
    for my $way ('--http1.1', '--http2') {
        my ($seen, $line) = curl($way, 'bearer', '/x', 'x-api-key: mine',
                                 'authorization: mine', 'cookie: mine');
        attached($seen, "$way: nothing of it goes up",
                 authorization => "Bearer $value{plain}");
        is_deeply([sort @{ $line->{stripped} // [] }],
                  [qw(authorization cookie x-api-key)], "$way: it is named");
    }
    is((ask('none'))[1]{stripped}, undef,
       'control: a request without any has no such key in its line');
};

subtest 'G-031: a field of the query that is a credential does not pass' => sub {
    my %rest = (
        '/x?access_token=mine'             => ['/x', '?access_token'],
        '/x?a=1&access_token=mine&b=2'     => ['/x?a=1&b=2', '?access_token'],
        '/x?access_token=mine&b=2'         => ['/x?b=2', '?access_token'],
        '/x?access_token=m&access_token=n' => ['/x', '?access_token'],
        '/x?access%5Ftoken=mine'           => ['/x', '?access_token'],
        '/x?%61ccess_token=mine'           => ['/x', '?access_token'],
        '/x?ACCESS_TOKEN=mine'             => ['/x', '?access_token'],
        '/x?access-token=mine'             => ['/x', '?access_token'],
        '/x?access.token=mine'             => ['/x', '?access_token'],
        '/x?access_token[]=mine'           => ['/x', '?access_token'],
        '/x?access_token%5B0%5D=mine'      => ['/x', '?access_token'],
        '/x?%20access_token=mine'          => ['/x', '?access_token'],
        '/x?access_token%00=mine'          => ['/x', '?access_token'],
        '/x?[access_token]=mine'           => ['/x', '?access_token'],
        '/x?access_token]=mine'            => ['/x', '?access_token'],
        '/x?[]access_token=mine'           => ['/x', '?access_token'],
        '/x?%5Baccess_token%5D=mine'       => ['/x', '?access_token'],
        '/x?%09%0aaccess_token=mine'       => ['/x', '?access_token'],
        '/x?accessToken=mine&a=1'          => ['/x?a=1', '?accesstoken'],
        '/x?sig=mine&a=1'                  => ['/x?a=1', '?sig'],
        '/x?access_token'                  => ['/x', '?access_token'],
        '/x?a=1;access_token=mine'         => ['/x?a=1', '?access_token'],
        '/x?&&access_token=mine&'          => ['/x?&&', '?access_token'],
        '/x?api_key=mine'                  => ['/x', '?api_key'],
        '/x?X-Amz-Signature=mine&a=1'      => ['/x?a=1', '?x_amz_signature'],
    );
    for my $target (sort keys %rest) {
        my ($seen, $line) = ask('bearer', $target);
        is($seen->{target}, $rest{$target}[0], "$target: the rest goes up");
        is_deeply($line->{stripped}, [$rest{$target}[1]], "$target: is named");
    }
    my @same = ('/x?', '/x?a=1', '/x?&', '/x?a=1&&b=%zz;c', '/x?token=1&key=2',
                '/x?q=access_token=1', '/x?my_access_token_count=3', '/x?=',
                '/x?' . 'n' x 200 . '=1', '/x?%', '/x?%6');
    is((ask('bearer', $_))[0]{target}, $_, 'unchanged: ' . substr $_, 0, 40)
        for @same;
    my ($seen, $line) = ask('query', '/x?custom_key=1&CUSTOM.KEY=2&a=3'
                                     . '&[custom.key]=4&custom.key]=5');
    is($seen->{target}, "/x?a=3&custom.key=$value{plain}",
       'the field of the rule\'s own credential is the rule\'s');
    is_deeply($line->{stripped}, ['?custom.key'], 'what was there is named');
};

subtest 'many names are cut in the line' => sub {
    my @many = map { "$_: mine" } qw(authorization cookie x-api-key token
        api-key apikey x-token x-auth x-auth-token x-auth-key access-token
        x-access-token x-access-key x-secret-key session-token private-token
        job-token deploy-token);
    my ($seen, $line) = ask('none', '/x', @many);
    is(scalar @{ $line->{stripped} }, 17, 'sixteen, and a mark');
    is($line->{stripped}[16], '...', 'the mark says that there were more');
    attached($seen, 'none of them goes up');
};

subtest 'where the rule says so the credentials of the box pass' => sub {
    my ($seen, $line) = ask('pass', '/x?access_token=mine', @own);
    attached($seen, 'all but that of the hop', 'x-api-key' => 'mine',
             cookie => 'a=b', token => 'mine', 'x-custom-key' => 'mine',
             authorization => 'Bearer mine');
    is($seen->{target}, '/x?access_token=mine', 'the query goes up as it came');
    is($line->{stripped}, undef, 'nothing was taken out');
};

subtest 'a cookie is not a second way to use a credential' => sub {
    my $set = '/raw?b64=' . encode_base64("HTTP/1.1 200 OK\r\nX-Seen: 1\r\n"
        . "Set-Cookie: session=abc\r\nContent-Length: 0\r\n\r\n", '')
        =~ tr{+/}{-_}r;
    for my $host (qw(bearer basic header query a.wild)) {
        my $r = (ask($host, $set))[2];
        like($r->{raw}, qr/^X-Seen: 1\r$/mi, "control: $host answers");
        unlike($r->{raw}, qr/^Set-Cookie:/mi, "$host: none reaches the box");
    }
    for my $host (qw(none pass cookies)) {
        like((ask($host, $set))[2]{raw}, qr/^Set-Cookie: session=abc\r$/mi,
             "$host: it reaches the box");
    }
    my ($seen, $line) = ask('cookies', '/x', 'Cookie: session=abc', 'Token: a');
    attached($seen, '`cookies on`: the box can send it back',
             cookie => 'session=abc', authorization => "Bearer $value{plain}");
    is_deeply($line->{stripped}, ['token'], 'the line names the rest');
};

subtest 'C-017: a credential in a query is in no log' => sub {
    my $odd = $value{odd} =~ s/([^\w.~-])/sprintf '%%%02X', ord $1/ger;
    my $logs = join '', map { $t->read($_) } glob($b->prefix . '/logs/*'),
                        $b->prefix . '/error.log';
    my @found = grep { index($logs, $_) >= 0 }
                (values %value, $odd, encode_base64($value{pair}, ''));
    is_deeply(\@found, [], 'no value, in no rendering');
    like($logs, qr/custom\.key/, 'control: its name is in a line');
};

subtest 'a configuration that would misuse a credential is refused' => sub {
    my $host = sub ($body, $name = 'a.test') {
        return ($t->nginx_t(http => $t->policy_http(vault => $b->{opt}{vault},
            policy => "host $name { $body }")))[1];
    };
    my %said = (
        'header Cookie plain;'            => qr/"Cookie" is a cookie's header/,
        'header Content-Length plain;'    => qr/frames or routes/,
        'header connection plain;'        => qr/of one hop/,
        'header Proxy-Whatever plain;'    => qr/of one hop/,
        'header Host plain;'              => qr/frames or routes/,
        'header X-Forwarded-For plain;'   => qr/the broker sets itself/,
        'header "X Y" plain;'             => qr/not the name of a header/,
        'header "X:Y" plain;'             => qr/not the name of a header/,
        'query "a&b" plain;'              => qr/not the name of a query's/,
        'query "" plain;'                 => qr/not the name of a query's/,
        'header X-Key;'                   => qr/invalid number of arguments/,
        'bearer plain; basic pair;'       => qr/a host has one credential/,
        'bearer plain; client_credentials pass;' => qr/hosts without one/,
        'credential_scope every;'         => qr/"wildcard" or "exact"/,
        'client_credentials on;'          => qr/"pass" or "strip"/,
        'cookies on;'                     => qr/no effect without a credential/,
        'credential_scope wildcard; bearer plain;'
                                          => qr/is for a wildcard that has/,
        'basic plain;'                    => qr/is not NAME:PASSWORD/,
        'tunnel on; client_credentials pass;' => qr/no "client_cred\S+ goes/,
    );
    like($host->($_), $said{$_}, $_) for sort keys %said;
    like($host->('bearer plain;', '*.wild.test'),
         qr/credential_scope wildcard/, 'a wildcard without its scope');
};

$l->stop;
$b->stop;
$b->is_clean;

done_testing;
