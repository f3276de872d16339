#!/usr/bin/perl

# One allowed host, every other refused: what the box gets, what the upstream
# gets, what the audit says, and where the token is and is not.
#
# sanitizers: requests and their refusals are made from a box's bytes

use v5.36;

use lib 't/lib';
use AgentTest;
use MIME::Base64 ();
use List::Util qw(sum0);
use Test::More;

my $token = 'sk_test_0123456789abcdef_marker';

my $t   = AgentTest->new;
my $up  = $t->upstream(names => ['api.internal']);
my $plain = $t->upstream(plain => 1);
my $port = $up->port;
my $rule = $t->rule;

my $ca = $t->ca->{cert};

# as much as a policy can say
my $methods = join ' ', 'GET', map { 'METHOD' . chr(64 + $_) x 20 } 1 .. 26;
my $advice = 'x' x 250 . '(end)';

my $b = $t->broker(names => [qw(api.internal plain.internal)],
                   vault => "# tokens\napi = $token\n",
                   http => 'resolver_timeout 3s;', policy => <<"END");
    agent_policy analysis {
        host api.internal:$port {
            methods  GET POST;
            bearer   api;
            hint     "use /v1/search";
            $rule
        }
        host plain.internal:$plain->{port} {
            plaintext on;
            private 127.0.0.0/8;
        }
    }
    agent_policy wordy {
        host api.internal { methods $methods; hint "$advice"; }
        host plain.internal;
    }
    agent_policy empty { }
END

my $dns = $b->{dns};
my ($l, $task) = $b->task;

like($task->{task_id}, qr/^[0-9a-f]{32}$/,
     'the id of a task is 32 hex digits');
is_deeply($task->{hosts}, ["api.internal:$port",
                           "plain.internal:$plain->{port}"],
          'the launcher is given the hosts of the policy');
is($task->{limits}{memory}, 536870912,
   'the launcher is given the limits of the policy');
is_deeply($task->{box}{writable},
          [{ path => '/tmp/work', bytes => 268435456 }],
          'the launcher is given what is writable in the box');


# An allowed request

my $url = "http://api.internal:$port";
my $r = $l->get("$url/headers?q=1", headers => [
    'Authorization: Bearer mine', 'Cookie: a=b', 'X-Api-Key: mine',
    'Proxy-Authorization: Basic bWluZQ==', 'X-Forwarded-For: 10.0.0.1',
    'X-HTTP-Method-Override: DELETE', 'X-Keep: yes', 'X-Mine: hop',
    'Connection: x-mine, close', 'Via: 1.1 me', 'X-Original-URL: /other']);


subtest 'an allowed request goes up by TLS with the token in place of the '
    . 'box\'s credentials' => sub {
    is($r->{status}, 200, 'it is answered') or diag $r->{raw}, $b->error_log;

    my ($seen) = $up->requests;
    is($seen->{target}, '/headers?q=1', 'the target goes up as it was sent');
    is($seen->{sni}, 'api.internal', 'the SNI is the name of the host');
    ok($seen->{tls}, 'the upstream is spoken to by TLS, although the box '
                     . 'wrote http');
    is_deeply($seen->{headers}{host}, ["api.internal:$port"],
              'Host is the name that was judged');
    is_deeply($seen->{headers}{authorization}, ["Bearer $token"],
              'the token is attached, as the only Authorization');
    is_deeply([grep { exists $seen->{headers}{$_} } qw(cookie x-api-key
               proxy-authorization x-forwarded-for x-http-method-override
               x-mine via x-original-url)], [],
              'credentials and routing headers of the client are removed');
    is_deeply($seen->{headers}{'x-keep'}, ['yes'],
              'an ordinary header goes up');
};

subtest 'an allowed request is on record, with its end' => sub {
    my ($egress) = $b->audit('egress');
    is($egress->{verdict}, 'allowed', 'the line has the verdict');
    is($egress->{task}, $task->{task_id}, 'the line has the task');
    is($egress->{policy_hash}, $task->{policy_hash},
       'the line has the hash of the policy');
    is($egress->{address}, '127.0.0.1', 'the line has the address');
    is($egress->{rule}, "api.internal:$port", 'the line has the rule');
    is($egress->{credential}, 'api', 'the line has the name of the credential');
    is($egress->{query_bytes}, 3, 'the line has the length of the query only');
    unlike($t->read($b->prefix . '/logs/agent-audit.log'), qr/\Q$token/,
           'the token is not in the audit');

    my $end = $b->audit_wait('egress_end');
    is($end->{request}, $egress->{request},
       'the line of the end names the request');
    is($end->{status}, 200, 'the line of the end has the status');
};


# Refused ones

my $dials = $up->connections;

for my $case (
    ['another host', 'http://evil.example/', 403, 'host_not_allowed'],
    ['another port', 'http://api.internal/', 403, 'port_not_allowed'],
    ['another method', "$url/", 403, 'method_not_allowed', 'DELETE'],
    ['a name that ends alike', "http://xapi.internal:$port/", 403,
     'host_not_allowed'],
    ['an address', "http://127.0.0.1:$port/", 403, 'host_not_allowed'],
    ['user information', "http://api.internal:$port\@evil.example/", 400,
     undef],
) {
    my ($what, $target, $status, $reason, $method) = @$case;
    my $r = $l->get($target, method => $method // 'GET');
    is($r->{status}, $status,
       "$what is refused with $status") or diag $r->{raw};
    next unless $reason;
    my $body = eval { JSON::PP::decode_json($r->{body}) } // {};
    is($body->{reason}, $reason,
       "$what: the body of the refusal has the reason");
    is($body->{task}, $task->{task_id},
       "$what: the body of the refusal has the task");
    ok($body->{hint}, "$what: the body of the refusal has a hint");
    is_deeply($r->{headers}{'x-agent-broker'}, ['denied'],
              "$what: a header says that the broker refused");
}

is($up->connections, $dials, 'no upstream is dialled for a refused request');
is(scalar(grep { $_->{name} eq 'evil.example' } $dns->questions), 0,
   'no name is asked for a refused request');

my @denied = grep { $_->{event} eq 'egress' && $_->{verdict} eq 'denied' }
             $b->audit;
is(scalar @denied, 5, 'each refused request leaves one line');


# Host and request line

subtest 'two names for one request are refused' => sub {
    $r = $l->http("GET $url/ HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    is($r->{status}, 400, 'a request line and a Host that differ: 400');
    is(JSON::PP::decode_json($r->{body})->{reason}, 'authority_mismatch',
       'the refusal has the reason authority_mismatch');
    is_deeply($r->{headers}{connection}, ['close'],
              'the connection is closed after the refusal');
};

$r = $l->http("GET /echo HTTP/1.1\r\nHost: api.internal:$port\r\n"
              . "Connection: close\r\n\r\n");
is($r->{status}, 200, 'a request in origin-form is served');

$r = $l->get("http://plain.internal:$plain->{port}/");
is($r->{status}, 200, 'a host with `plaintext on` is served');
my ($clear) = $plain->requests;
ok(!$clear->{headers}{authorization},
   'a host with `plaintext on` is sent no credential');

$r = $l->get("$url/echo", method => 'POST', body => 'x' x 100000);
is($r->{status}, 200, 'a request with a body of 100,000 bytes is served');
is(length((grep { $_->{method} eq 'POST' } $up->requests)[0]{body}), 100000,
   'a body of 100,000 bytes arrives whole');


# What a launcher says of a limit is recorded, and not without end

$l->do(send => { name => 'task', message => { op => 'near_limit',
    limit => 'memory', used => $_ } }) for 1 .. 40;
$b->audit_wait('near_limit');


# The end

my $closed = $l->ask('task', { op => 'close', reason => 'ok',
                               exit_code => 0,
                               usage => { wall_ms => 12 } });
ok($closed->{ok}, 'the task can be closed') or diag explain $closed;
is($closed->{egress}{allowed}, 4,
   'the reply to close says how many requests were allowed');
is($closed->{egress}{denied_count}, 7,
   'the reply to close says how many requests were refused');
my %listed;
$listed{ $_->{host} // '' }{ $_->{reason} } += $_->{count}
    for @{ $closed->{egress}{denied} };
is(sum0(map { values %$_ } values %listed), 7,
   'the reply to close lists as many as it counts');
ok($listed{''}{malformed}, 'a malformed request is listed without a host')
    or diag explain $closed;
my ($evil) = grep { ($_->{host} // '') eq 'evil.example' }
             @{ $closed->{egress}{denied} };
is($evil->{reason}, 'host_not_allowed',
   'the reply to close names each refused request with its reason');

is(scalar($b->audit('near_limit')), 16,
   'of 40 reports of a near limit the first 16 are recorded');

my ($over) = grep { $_->{event} eq 'task_end' } $b->audit;
is($over->{reason}, 'ok', 'the line of the task\'s end has the reason');
is($over->{claimed}{wall_ms}, 12,
   'the line of the task\'s end has what the launcher claims');

# this launcher keeps its copies of the sockets: nobody accepts on them
is($l->get("$url/echo", timeout => 0.5)->{raw}, '',
   'after close nothing accepts at the door of the task');


# An empty policy

$l = $t->launcher;
$task = $l->open_task($b->control, 'empty');
ok($task->{ok},
   'a task of a policy without hosts opens') or diag explain $task;
is(JSON::PP::decode_json($l->get('http://api.internal/')->{body})->{reason},
   'host_not_allowed', 'a policy without hosts allows no host');



# B-076: what the broker says itself, where others choose the words

subtest 'B-076 what others write becomes no structure in the broker\'s '
    . 'text'
    => sub {
    my $words = "\x1b[31m\"}\x07data: forged event: x";
    my @bodies;
    $l = $t->launcher;
    $l->open_task($b->control, 'analysis');
    for my $bad ("HTTP/1.1 2x0 $words\r\n\r\ndata: forged\r\n\r\n",
                 "HTTP/1.1 200 OK\r\n$words\0: x\r\n\r\n",
                 "$words\r\n\r\ndata: forged\r\n\r\n") {
        my $raw = MIME::Base64::encode_base64($bad, '') =~ s/\+/%2B/gr;
        $r = $l->get("$url/raw?b64=$raw",
                     headers => ['Accept: text/event-stream']);
        is($r->{status}, 502,
           'an upstream\'s answer that is not HTTP becomes 502')
            or diag $r->{raw};
        unlike($r->{raw}, qr/forged|\x1b/,
               'no byte of an answer that is not HTTP is repeated');
    }
    for my $path ('/a"},"error":"x', "/%0d%0a%0d%0adata:%20forged", '/a\\"b',
                  '/%1b[31m') {
        $r = $l->get("http://evil.example$path",
                     headers => ['Accept: text/event-stream']);
        my $body = eval { JSON::PP::decode_json($r->{body}) };
        is_deeply([@{ $body // {} }{qw(error reason host)}],
                  [qw(denied host_not_allowed evil.example)],
                  "a refusal of $path has the broker's own error, reason and "
                  . "host")
            or diag $r->{raw};
        unlike($r->{body}, qr/[\0-\x09\x0b-\x1f]|\n./s,
               "a refusal of $path has no control bytes and no second line");
        like("@{ $r->{headers}{'content-type'} }", qr{^application/json\b},
             "a refusal of $path is JSON, whatever type is asked for");
    }
};


# B-004: a credential neither adds a host nor takes one away

subtest 'B-004 a credential neither adds a host nor takes one away' => sub {
    my $rule = "private 127.0.0.0/8; trusted_certificate $ca;";
    my $vault = $b->{opt}{vault};
    my %policy = (
        none     => '',
        one      => "host api.internal:$port { $rule }",
        with     => "host api.internal:$port { bearer api; $rule }",
        both     => "host api.internal:$port { $rule } "
                  . "host plain.internal:$plain->{port} { plaintext on; "
                  . 'private 127.0.0.0/8; }',
        bothwith => "host api.internal:$port { bearer api; $rule } "
                  . "host plain.internal:$plain->{port} { plaintext on; "
                  . 'private 127.0.0.0/8; }',
    );
    my %served = (none => '403 403 403', one => '200 403 403',
                  with => '200 403 403', both => '200 200 403',
                  bothwith => '200 200 403');
    my $server = "server { agent_control unix:%CONTROL%; "
               . "include $AgentTest::ROOT/conf/agent_proxy.conf; }";
    my $head = "resolver 127.0.0.1:$dns->{port}; agent_vault $vault; "
             . 'agent_audit logs/agent-audit.log;';
    my $c = $t->broker(http => join "\n", $head,
        map({ "agent_policy $_ { $policy{$_} }" } sort keys %policy),
        $server);

    for my $name (sort keys %policy) {
        my $l = $t->launcher;
        $l->open_task($c->control, $name);
        is(join(' ', map { $l->get($_)->{status} }
                "$url/echo", "http://plain.internal:$plain->{port}/echo",
                'http://evil.example/'),
           $served{$name},
           "the hosts that the policy '$name' names are served, "
           . 'and no other');
    }
    my ($ok, $said) = $t->nginx_t(http => join "\n", $head,
        'agent_policy p { bearer api; }', $server);
    ok(!$ok, 'a credential outside of a host is refused by nginx -t');
};


# F-036: the name and the answer as strict clients and signers have them

subtest 'F-036 strict clients see the answer, and signers the request, as '
    . 'they were' => sub {
    my $sig = eval { $t->upstream(names => ['sig.internal'],
                                  bind => '127.0.0.36', port => 443) };
    plan skip_all => 'port 443 of 127.0.0.36 is not free' if !$sig;
    $dns->set({ 'sig.internal' => { A => ['127.0.0.36'] } });
    my $c = $t->broker(http => <<"END");
    resolver 127.0.0.1:$dns->{port};
    agent_audit logs/agent-audit.log;
    agent_policy p {
        host sig.internal:443 { private 127.0.0.0/8; trusted_certificate $ca; }
    }
    server {
        agent_control unix:%CONTROL%;
        include $AgentTest::ROOT/conf/agent_proxy.conf;
    }
END
    my $l = $t->launcher;
    $l->open_task($c->control, 'p');
    my @signed = ('X-Amz-Date: 20240101T000000Z', 'x-amz-Meta:  a,  b ',
                  'Content-Type: a/b; C="d"');
    for my $host ('sig.internal', 'sig.internal:443') {
        my $r = $l->http("GET https://$host/echo?b=2&a=%7e HTTP/1.1\r\n"
            . "Host: $host\r\n" . join('', map { "$_\r\n" } @signed)
            . "Connection: close\r\n\r\n");
        is($r->{status}, 200, "$host is served") or diag $r->{raw};
        my ($last) = reverse $sig->requests;
        is_deeply([$last->{headers}{host}, $last->{target}],
                  [['sig.internal'], '/echo?b=2&a=%7e'],
                  "$host: Host goes up without the default port");
        is_deeply([map { $last->{headers}{$_}[0] =~ s/^ +| +$//gr }
                   qw(x-amz-date x-amz-meta content-type)],
                  ['20240101T000000Z', 'a,  b', 'a/b; C="d"'],
                  "$host: headers that may be signed go up as they were sent");
    }
    my $raw = MIME::Base64::encode_base64(
        "HTTP/1.0 200 All Is Fine\r\nContent-Length: 2\r\n\r\nok", '');
    my $r = $l->get("https://sig.internal/raw?b64=$raw");
    like($r->{raw}, qr{^HTTP/1\.1 200 All Is Fine\r\n.*\r\n\r\nok\z}s,
         'the answer is HTTP/1.1 with the words of the upstream');
};

# a method: which ones there are, and what the operator says to it

sub hint ($l, $url, $method) {
    my $body = JSON::PP::decode_json($l->get($url, method => $method)->{body});
    return $body->{hint};
}

my $h = $t->launcher;
$h->open_task($b->control, 'analysis');
is(hint($h, "$url/", 'DELETE'),
   'allowed methods: GET HEAD POST; use /v1/search',
   'a refused method has a hint with the methods and the policy\'s own words');
is(hint($h, "http://plain.internal:$plain->{port}/", 'PUT'),
   'allowed methods: GET HEAD',
   'a refused method of a rule without a hint has the methods');

subtest 'a long list of methods and a long hint share one hint' => sub {
    my $w = $t->launcher;
    my $opened = $w->open_task($b->control, 'wordy');
    ok($opened->{ok},
       'a task of a policy with a long hint and '
       . 'many methods opens') or diag explain $opened;
    my $hint = hint($w, 'http://api.internal/', 'DELETE');
    like($hint,
         qr/^allowed methods: GET HEAD METHODA.* and 20 more; x+\(end\)$/,
         'methods are cut to a count, and the policy\'s own words are whole');
    cmp_ok(length $hint, '<', 512, 'a hint is shorter than 512 bytes');
    my $end = $w->ask('task', { op => 'close', reason => 'ok' });
    is($end->{egress}{denied}[0]{hint}, $hint,
       'the result of the task has the hint that the '
       . 'box was given') or diag explain $end;
};

$b->is_clean;
unlike($b->error_log, qr/\Q$token/, 'the token is not in the error log');

done_testing;
