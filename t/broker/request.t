#!/usr/bin/perl

# One allowed host, every other refused: what the box gets, what the upstream
# gets, what the audit says, and where the token is and is not.
#
# sanitizers: requests and their refusals are made from a box's bytes

use v5.36;

use lib 't/lib';
use AgentTest;
use MIME::Base64 ();
use Test::More;

my $token = 'sk_test_0123456789abcdef_marker';

my $t   = AgentTest->new;
my $up  = $t->upstream(names => ['api.internal']);
my $dns = $t->dns({
    'api.internal'   => { A => ['127.0.0.1'] },
    'plain.internal' => { A => ['127.0.0.1'] },
});
my $plain = $t->upstream(plain => 1);
my $port = $up->port;

my $vault = $t->write('vault', "# tokens\napi = $token\n", 0600);
my $ca = $t->ca->{cert};

# as much as a policy can say
my $methods = join ' ', 'GET', map { 'METHOD' . chr(64 + $_) x 20 } 1 .. 26;
my $advice = 'x' x 250 . '(end)';

my $http = <<"END";
    resolver 127.0.0.1:$dns->{port};
    resolver_timeout 3s;
    agent_vault $vault;
    agent_audit logs/agent-audit.log;
    agent_policy analysis {
        host api.internal:$port {
            methods  GET POST;
            bearer   api;
            private  127.0.0.0/8;
            trusted_certificate $ca;
            hint     "use /v1/search";
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
    server {
        agent_control unix:%CONTROL%;
        include $AgentTest::ROOT/conf/agent_proxy.conf;
    }
END

my $b = $t->broker(http => $http);
my $l = $t->launcher;
my $task = $l->open_task($b->control, 'analysis');

ok($task->{ok}, 'a task is opened and served') or diag explain $task;
like($task->{task_id}, qr/^[0-9a-f]{32}$/, 'its id is 32 hex digits');
is_deeply($task->{hosts}, ["api.internal:$port",
                           "plain.internal:$plain->{port}"],
          'the launcher is told the hosts');
is($task->{limits}{memory}, 536870912, 'and the limits');
is_deeply($task->{box}{writable},
          [{ path => '/tmp/work', bytes => 268435456 }],
          'and what is writable');


# An allowed request

my $url = "http://api.internal:$port";
my $r = $l->get("$url/headers?q=1", headers => [
    'Authorization: Bearer mine', 'Cookie: a=b', 'X-Api-Key: mine',
    'Proxy-Authorization: Basic bWluZQ==', 'X-Forwarded-For: 10.0.0.1',
    'X-HTTP-Method-Override: DELETE', 'X-Keep: yes', 'X-Mine: hop',
    'Connection: x-mine, close', 'Via: 1.1 me', 'X-Original-URL: /other']);

is($r->{status}, 200, 'an allowed request is answered')
    or diag $r->{raw}, $b->error_log;

my ($seen) = $up->requests;
is($seen->{target}, '/headers?q=1', 'the path goes up as it was sent');
is($seen->{sni}, 'api.internal', 'the name is in the SNI');
ok($seen->{tls}, 'by TLS, although the box wrote http');
is_deeply($seen->{headers}{host}, ["api.internal:$port"],
          'Host is the judged one');
is_deeply($seen->{headers}{authorization}, ["Bearer $token"],
          'the token is attached, the only Authorization');
is_deeply([grep { exists $seen->{headers}{$_} } qw(cookie x-api-key
           proxy-authorization x-forwarded-for x-http-method-override x-mine
           via x-original-url)], [],
          'the client\'s credentials and routing headers are gone');
is_deeply($seen->{headers}{'x-keep'}, ['yes'], 'an ordinary header is not');

my @audit = $b->audit;
my ($egress) = grep { $_->{event} eq 'egress' } @audit;
is($egress->{verdict}, 'allowed', 'the decision is in the audit');
is($egress->{task}, $task->{task_id}, 'with the task');
is($egress->{policy_hash}, $task->{policy_hash}, 'its policy');
is($egress->{address}, '127.0.0.1', 'the address');
is($egress->{rule}, "api.internal:$port", 'the rule');
is($egress->{credential}, 'api', 'and the credential\'s name');
is($egress->{query_bytes}, 7 - 4, 'the query by its length only');
unlike($t->read($b->prefix . '/logs/agent-audit.log'), qr/\Q$token/,
       'the token is not in the audit');

AgentTest::wait_for('the end line', sub {
    grep { $_->{event} eq 'egress_end' } $b->audit
});
my ($end) = grep { $_->{event} eq 'egress_end' } $b->audit;
is($end->{request}, $egress->{request}, 'the end line names the request');
is($end->{status}, 200, 'and the status');


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
    is($r->{status}, $status, "$what is refused") or diag $r->{raw};
    next unless $reason;
    my $body = eval { JSON::PP::decode_json($r->{body}) } // {};
    is($body->{reason}, $reason, "$what: the body says why");
    is($body->{task}, $task->{task_id}, "$what: and for which task");
    ok($body->{hint}, "$what: with a hint");
    is_deeply($r->{headers}{'x-agent-broker'}, ['denied'],
              "$what: and it says who refused");
}

is($up->connections, $dials, 'nothing was dialled for them');
is(scalar(grep { $_->{name} eq 'evil.example' } $dns->questions), 0,
   'and no name was asked for');

my @denied = grep { $_->{event} eq 'egress' && $_->{verdict} eq 'denied' }
             $b->audit;
is(scalar @denied, 5, 'each refusal left one line');


# Host and request line

$r = $l->http("GET $url/ HTTP/1.1\r\nHost: evil.example\r\n\r\n");
is($r->{status}, 400, 'two names for one request are refused');
is(JSON::PP::decode_json($r->{body})->{reason}, 'authority_mismatch',
   'as a mismatch');
is_deeply($r->{headers}{connection}, ['close'],
          'and the connection is closed');

$r = $l->http("GET /echo HTTP/1.1\r\nHost: api.internal:$port\r\n"
              . "Connection: close\r\n\r\n");
is($r->{status}, 200, 'origin-form is served too');

$r = $l->get("http://plain.internal:$plain->{port}/");
is($r->{status}, 200, 'a plaintext host is served');
my ($clear) = $plain->requests;
ok(!$clear->{headers}{authorization}, 'without a credential');

$r = $l->get("$url/echo", method => 'POST', body => 'x' x 100000);
is($r->{status}, 200, 'a body is passed on');
is(length((grep { $_->{method} eq 'POST' } $up->requests)[0]{body}), 100000,
   'whole');


# What a launcher says of a limit is recorded, and not without end

$l->do(send => { name => 'task', message => { op => 'near_limit',
    limit => 'memory', used => $_ } }) for 1 .. 40;
$b->audit_wait('near_limit');


# The end

my $closed = $l->ask('task', { op => 'close', reason => 'ok',
                               exit_code => 0,
                               usage => { wall_ms => 12 } });
ok($closed->{ok}, 'the task is closed') or diag explain $closed;
is($closed->{egress}{allowed}, 4, 'the launcher is told what was allowed');
is($closed->{egress}{denied_count}, 7, 'and refused');
my ($evil) = grep { $_->{host} eq 'evil.example' }
             @{ $closed->{egress}{denied} };
is($evil->{reason}, 'host_not_allowed', 'each with its reason');

is(scalar($b->audit('near_limit')), 16, 'of its near limits the first are');

my ($over) = grep { $_->{event} eq 'task_end' } $b->audit;
is($over->{reason}, 'ok', 'the end of the task is in the audit');
is($over->{claimed}{wall_ms}, 12, 'with what the launcher claims');

# this launcher keeps its copies of the sockets: nobody accepts on them
is($l->get("$url/echo", timeout => 0.5)->{raw}, '', 'the door is closed');


# An empty policy

$l = $t->launcher;
$task = $l->open_task($b->control, 'empty');
ok($task->{ok}, 'a policy without hosts opens') or diag explain $task;
is(JSON::PP::decode_json($l->get('http://api.internal/')->{body})->{reason},
   'host_not_allowed', 'and allows nothing');



# B-076: what the broker says itself, where others choose the words

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
    is($r->{status}, 502, 'B-076 an answer that is none is a 502')
        or diag $r->{raw};
    unlike($r->{raw}, qr/forged|\x1b/, 'B-076 and none of it is repeated');
}
for my $path ('/a"},"error":"x', "/%0d%0a%0d%0adata:%20forged", '/a\\"b',
              '/%1b[31m') {
    $r = $l->get("http://evil.example$path",
                 headers => ['Accept: text/event-stream']);
    my $body = eval { JSON::PP::decode_json($r->{body}) };
    is_deeply([@{ $body // {} }{qw(error reason host)}],
              [qw(denied host_not_allowed evil.example)],
              'B-076 a path does not change what a refusal says')
        or diag $r->{raw};
    unlike($r->{body}, qr/[\0-\x09\x0b-\x1f]|\n./s,
           'B-076 which has no control bytes, and no second line');
    like("@{ $r->{headers}{'content-type'} }", qr{^application/json\b},
         'B-076 and is JSON whatever is asked for');
}


# B-004: a credential neither adds a host nor takes one away

{
    my $rule = "private 127.0.0.0/8; trusted_certificate $ca;";
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
           $served{$name}, "B-004 what the policy '$name' names is served, "
           . 'and nothing else');
    }
    my ($ok, $said) = $t->nginx_t(http => join "\n", $head,
        'agent_policy p { bearer api; }', $server);
    ok(!$ok, 'B-004 a credential without a host is refused');
}


# F-036: the name and the answer as strict clients and signers have them

SKIP: {
    my $sig = eval { $t->upstream(names => ['sig.internal'],
                                  bind => '127.0.0.36', port => 443) };
    skip 'port 443 is not free', 7 if !$sig;
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
        is($r->{status}, 200, "F-036 $host is served") or diag $r->{raw};
        my ($last) = reverse $sig->requests;
        is_deeply([$last->{headers}{host}, $last->{target}],
                  [['sig.internal'], '/echo?b=2&a=%7e'],
                  'F-036 Host goes up without the default port');
        is_deeply([map { $last->{headers}{$_}[0] =~ s/^ +| +$//gr }
                   qw(x-amz-date x-amz-meta content-type)],
                  ['20240101T000000Z', 'a,  b', 'a/b; C="d"'],
                  'F-036 and what may be signed as it was');
    }
    my $raw = MIME::Base64::encode_base64(
        "HTTP/1.0 200 All Is Fine\r\nContent-Length: 2\r\n\r\nok", '');
    my $r = $l->get("https://sig.internal/raw?b64=$raw");
    like($r->{raw}, qr{^HTTP/1\.1 200 All Is Fine\r\n.*\r\n\r\nok\z}s,
         'F-036 the answer is HTTP/1.1, with its own words');
}

# a method: which ones there are, and what the operator says to it

sub hint ($l, $url, $method) {
    my $body = JSON::PP::decode_json($l->get($url, method => $method)->{body});
    return $body->{hint};
}

my $h = $t->launcher;
$h->open_task($b->control, 'analysis');
is(hint($h, "$url/", 'DELETE'),
   'allowed methods: GET HEAD POST; use /v1/search',
   'a refused method: the methods, and the policy\'s own hint');
is(hint($h, "http://plain.internal:$plain->{port}/", 'PUT'),
   'allowed methods: GET HEAD', 'the methods alone where it has none');

{
    my $w = $t->launcher;
    my $opened = $w->open_task($b->control, 'wordy');
    ok($opened->{ok}, 'a policy of many words') or diag explain $opened;
    my $hint = hint($w, 'http://api.internal/', 'DELETE');
    like($hint,
         qr/^allowed methods: GET HEAD METHODA.* and 20 more; x+\(end\)$/,
         'neither crowds out the other');
    cmp_ok(length $hint, '<', 512, 'and all of it is bounded');
    my $end = $w->ask('task', { op => 'close', reason => 'ok' });
    is($end->{egress}{denied}[0]{hint}, $hint,
       'the result has the same words') or diag explain $end;
}

is_deeply([$b->audit_errors], [], 'the audit is whole');
unlike($b->error_log, qr/\Q$token/, 'the token is in no log');
unlike($b->error_log, qr/\[(alert|emerg|crit)\]/, 'and nothing is wrong')
    or diag $b->error_log;

done_testing;
