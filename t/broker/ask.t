#!/usr/bin/perl

# `jail policy NAME --ask METHOD URL`: what a request would be answered and by
# which rule, without a box, a lookup or a connection.
#
# sanitizers: methods and URLs of a launcher are read

use v5.36;

use lib 't/lib';
use AgentTest;
use JSON::PP ();
use Test::More;

my $token = 'sk_test_0123456789abcdef_marker';
my $t     = AgentTest->new;
my $up    = $t->upstream(names => ['api.internal']);
my $port  = $up->port;
my $rule  = $t->rule;

# the marks tell the lines of the rules
my $b = $t->broker(names => ['api.internal'],
                   vault => "api = $token\n", policy => <<"END");
    agent_policy analysis {
        bytes_up 10m;
        host api.internal:$port { #api
            methods GET POST;
            path ^/v1/;
            bearer api;
            hint "see /v1/help";
            $rule
        }
        host *.wild.example; #wild
        host tunnel.example { tunnel on; } #tunnel
        host 93.184.216.34; #address
    }
    agent_policy empty { }
    agent_policy hers { launchers user:nobody; host api.internal; }
END
my $config = $b->prefix . '/nginx.conf';
my @lines = split /\n/, $t->read($config);

sub place ($mark) {
    my ($at) = grep { $lines[$_] =~ /#\Q$mark\E$/ } 0 .. $#lines;
    return "$config:" . ($at + 1);
}

sub ask (@args) {
    my $r = $t->jail(['policy', '--control', $b->control, @args]);
    return ($r->{status}, eval { JSON::PP::decode_json($r->{out}) } // {},
            $r->{out} . $r->{err});
}

my $dns = $b->{dns};
my $asked = () = $dns->questions;

subtest '--ask of an allowed request ends with 0 and has its rule' => sub {
    my ($status, $said, $all) = ask('analysis', '--ask', 'POST',
                                    "https://api.internal:$port/v1/x?q=1");
    is($status, 0, 'the status is 0') or diag $all;
    is_deeply($said, { verdict => 'allowed', reason => 'rule',
                       rule => "api.internal:$port", line => place('api'),
                       credential => 'api', detail => undef, hint => undef },
              'the object has all of it');
    unlike($all, qr/\Q$token/, 'the value of the credential is not shown');
};

for my $case (
    # method, URL, verdict, reason, rule's mark
    ['GET', "http://api.internal:$port/v1/", 'allowed', 'rule', 'api'],
    ['HEAD', "HTTPS://API.internal.:$port/%761/", 'allowed', 'rule', 'api'],
    ['DELETE', "https://api.internal:$port/v1/", 'denied',
     'method_not_allowed', 'api'],
    ['get', "https://api.internal:$port/v1/", 'denied', 'malformed'],
    ['GET', "https://api.internal:$port/v2/", 'denied', 'path_not_allowed',
     'api'],
    ['GET', "https://api.internal:$port", 'denied', 'path_not_allowed', 'api'],
    ['GET', "https://api.internal:$port/v1/../x", 'denied', 'path_not_allowed',
     'api'],
    ['GET', 'https://api.internal/v1/', 'denied', 'port_not_allowed'],
    ['GET', 'https://evil.example/', 'denied', 'host_not_allowed'],
    ['GET', 'http://a.b.wild.example/x', 'allowed', 'rule', 'wild'],
    ['GET', 'https://wild.example/x', 'denied', 'host_not_allowed'],
    ['GET', 'http://93.184.216.34/', 'allowed', 'rule', 'address'],
    ['GET', 'http://93.184.216.034/', 'denied', 'malformed'],
    ['GET', 'http://me@api.internal/', 'denied', 'malformed'],
    ['GET', 'http:///v1/', 'denied', 'malformed'],
    ['GET', 'http://api.internal/ x', 'denied', 'malformed'],
    ['GET', 'http://api.internal/#x', 'denied', 'malformed'],
    ['GET', "http://\xc3\xbc.example/", 'denied', 'malformed'],
    ['PUT', 'https://tunnel.example/any/../path', 'allowed', 'rule', 'tunnel'],
    ['PUT', 'http://tunnel.example/', 'denied', 'method_not_allowed',
     'tunnel'],
    ['CONNECT', 'tunnel.example:443', 'allowed', 'rule', 'tunnel'],
    ['CONNECT', "api.internal:$port", 'allowed', 'rule', 'api'],
    ['CONNECT', 'evil.example:443', 'denied', 'host_not_allowed'],
    ['CONNECT', 'api.internal', 'denied', 'malformed'],
) {
    my ($method, $url, $verdict, $reason, $mark) = @$case;
    subtest "$method $url is $verdict: $reason" => sub {
        my ($status, $said, $all) = ask('analysis', '--ask', $method, $url);
        is($status, $verdict eq 'allowed' ? 0 : 1, 'the status says so')
            or diag $all;
        is($said->{verdict}, $verdict, 'the verdict says so');
        is($said->{reason}, $reason, "the reason is $reason");
        is($said->{line}, $mark ? place($mark) : undef,
           'the line is that of the rule');
        ok(defined $said->{hint}, 'a refusal has a hint')
            if $verdict eq 'denied';
        is($said->{credential}, undef, 'a refusal has no credential')
            if $verdict eq 'denied';
    };
}

subtest '--ask has the words of the answer that a box gets' => sub {
    my ($l) = $b->task;
    for my $url ("http://api.internal:$port/no", 'http://evil.example/') {
        my $said = JSON::PP::decode_json($l->get($url)->{body});
        my (undef, $told) = ask('analysis', '--ask', 'GET', $url);
        is($told->{$_}, $said->{$_}, "$url: the $_ is the same")
            for qw(reason hint detail);
    }
    $l->stop;
};

subtest '--ask with wrong arguments ends with 2' => sub {
    for my $args (['--ask'], ['--ask', 'GET'], ['--ask', 'GET', 'api.internal'],
                  ['--ask', 'GET', 'ftp://api.internal/'],
                  ['--ask', 'GET', ''], ['--ask', '', 'http://x/'],
                  ['--ask', 'GET', 'http://x/' . 'a' x 9000],
                  ['--ask=GET', 'http://x/'],
                  ['--ask', 'GET', 'http://x/', '--ask', 'GET', 'http://x/'],
                  ['--ask', 'GET', 'http://x/', 'other']) {
        my ($status, undef, $all) = ask('analysis', @$args);
        is($status, 2, join(' ', map { substr $_, 0, 30 } @$args))
            or diag $all;
    }
    my ($status) = ask('--ask', 'GET', 'http://x/');
    is($status, 2, 'no policy is named');
};

subtest '--ask that cannot be answered ends with 125' => sub {
    my ($status, undef, $all) = ask('nothing', '--ask', 'GET', 'http://x/');
    is($status, 125, 'a policy that is not there') or diag $all;
    like($all, qr/policy_unknown/, 'the message has policy_unknown');
    my $r = $t->jail(['policy', '--control', "$config.sock", 'analysis',
                      '--ask', 'GET', 'http://x/']);
    is($r->{status}, 125, 'no broker');
};

# Who may ask, and by which version

my $mine = $t->launcher;
my $n = 0;

sub says ($message, $l = $mine) {
    my $name = 'c' . ++$n;
    $l->do(connect => { name => $name, path => $b->control });
    return $l->ask($name, $message);
}

my %ask = (op => 'ask', policy => 'analysis', method => 'GET',
           url => 'http://evil.example/');

subtest 'versions 1 and 2 are served, another one is told the range' => sub {
    is(says({ v => 2, %ask })->{verdict}, 'denied', 'ask by version 2');
    for my $v (0, 1, 3, '2', undef) {
        my $said = says({ (defined $v ? (v => $v) : ()), %ask });
        is($said->{error}, 'version', 'ask by version ' . ($v // 'none'));
        like($said->{message}, qr/versions 1 to 2/, 'the range is named');
    }
    for my $v (1, 2) {
        my $said = says({ v => $v, op => 'open', policy => 'analysis' });
        is($said->{v}, $v, "open by version $v is answered by it");
    }
    my $said = says({ v => 3, op => 'open', policy => 'analysis' });
    is($said->{error}, 'version', 'open by version 3 is refused');
    like($said->{message}, qr/versions 1 to 2/, 'the range is named');
};

subtest 'a message that is not whole is refused' => sub {
    for my $key (qw(policy method url)) {
        my %less = %ask;
        delete $less{$key};
        is(says({ v => 2, %less })->{error}, 'bad_request', "without $key");
        is(says({ v => 2, %ask, $key => 7 })->{error}, 'bad_request',
           "a number as $key");
    }
    is(says({ v => 2, %ask, more => 1 })->{error}, 'bad_request',
       'with another key');
    is(says({ v => 2, %ask, url => 'http://x/' . 'a' x 9000 })->{error},
       'bad_request', 'with a long URL');
    is(says({ v => 2, %ask, method => "G\nT" })->{error}, 'bad_request',
       'with a control byte');
};

SKIP: {
    skip 'another user needs root', 1 unless AgentTest::is_root();
    subtest 'a user who may not open a task may not ask' => sub {
        my $other = $t->launcher(user => $t->user);
        my $said = says({ v => 2, %ask }, $other);
        my $open = says({ v => 1, op => 'open', policy => 'analysis' }, $other);
        is($said->{error}, 'not_allowed', 'the user is refused as not_allowed');
        is_deeply($said, $open, 'it hears the same as to open');
    };
}

is(scalar(() = $dns->questions), $asked, 'no name was asked for');
is($up->connections, 0, 'nothing was dialled');

$b->is_clean;

done_testing;
