#!/usr/bin/perl

# bytes_up, bytes_down and request_body hold while bytes flow: over all
# protocols, directions and workers, and to the byte.
#
# sanitizers: bodies of every kind are cut

use v5.36;

use lib 't/lib';
use AgentTest;
use JSON::PP;
use List::Util qw(sum);
use Test::More;

use constant MIB => 1024 * 1024;

my $t = AgentTest->new;
my %cert = %{ $t->cert(['api.internal', 'pinned.internal']) };

# An upstream that counts.
sub counting (@cert) {
    my $log = $t->dir . '/counted' . (@cert ? '-tls' : '') . '.log';
    my $up = $t->helper('counting_upstream.py', $log, @cert);
    return { %$up, log => $log };
}

my $tag = 'none';

# The ends of its connections since the task began, when there are so many.
sub ends ($up, $n = 1) {
    my @ends;
    AgentTest::wait_for("$n connections to end", sub {
        @ends = grep { exists $_->{raw} && $_->{path} =~ /\btag=$tag\b/ }
                     $t->read_lines($up->{log});
        return @ends >= $n;
    });
    return @ends;
}

my $plain = counting();
my $tls = counting($cert{cert}, $cert{key});
my ($port, $tls_port) = ($plain->{port}, $tls->{port});
my $rule = 'methods GET HEAD POST PUT; private 127.0.0.0/8;';
my $ca = $t->ca->{cert};

my $rules = <<"END";
    host 127.0.0.1:$port          { plaintext on; websocket on; $rule }
    host api.internal:$tls_port   { trusted_certificate $ca; websocket on;
                                    request_body 10g; $rule }
    host small.internal:$port     { plaintext on; request_body 64k; $rule }
    host pinned.internal:$tls_port { tunnel on; private 127.0.0.0/8; }
END

my $b = $t->broker(workers => 2, policy => <<"END",
    agent_policy up {
        request_body 10g; bytes_up 1m; refusals 10000; $rules
    }
    agent_policy down {
        bytes_up 1g; bytes_down 1m; refusals 10000; $rules
    }
    agent_policy body { request_body 100k; bytes_up 1g; $rules }
END
    names => [qw(api.internal small.internal pinned.internal)]);

my $n = 0;
my ($l, $task, @env);

# A URL of this task's.
sub url ($url) { return $url . ($url =~ /\?/ ? '&' : '?') . "tag=$tag" }


sub begin ($policy) {
    ($l, $task) = $b->task($policy);
    $tag = "t$n";
    @env = (BOX_CA => $t->write('box-ca' . ++$n . '.pem', $task->{ca}));
}

# What the box's side made of it: a list of hashes.
sub flows ($by_tls, @args) {
    my $run = $l->do(run => { timeout => 90, argv => [
        '/usr/bin/python3', "$AgentTest::LIB/box_flows.py",
        map { /^http/ ? url($_) : "$_" } @args ],
        env => { $by_tls ? @env : () } });
    my $flows = eval { decode_json($run->{data}) };
    die 'no flows: ', $run->{error} // $run->{err}, "\n" unless $flows;
    return @$flows;
}

sub curl (@args) {
    my $run = $l->do(run => { timeout => 90, argv => ['curl', '-sS', '-x',
        'http://127.0.0.1:8899', '--max-time', '60', '--cacert', $env[1],
        '-o', '/dev/null', '-w', '%{http_code} %{size_download}',
        map { /^http/ ? url($_) : "$_" } @args ],
        env => { PATH => $ENV{PATH} } });
    return $run->{data};
}

# What `close` says that the task was refused: reason => count.
sub denied () {
    my $reply = $l->ask('task', { op => 'close', reason => 'ok' });
    $l->stop;
    my %by;
    $by{ $_->{reason} } += $_->{count} for @{ $reply->{egress}{denied} };
    return \%by;
}

# The ends of all that the task was allowed.
sub lines_of_ends () {
    AgentTest::wait_for('the lines of the ends', sub {
        scalar $b->audit('egress_end', task => $task->{task_id})
            >= $b->audit('egress', task => $task->{task_id},
                         verdict => 'allowed') });
    return $b->audit('egress_end', task => $task->{task_id});
}

sub ended (%match) { return $b->audit_wait('egress_end', %match) }

my $big = $t->write('big', '0123456789abcdef' x (9 * MIB / 16));


subtest 'G-003: a body of known length is taken from bytes_up before it is '
    . 'sent, or refused' => sub {
    begin('up');
    my @done = flows(0, 'send', 'length', 1, 1000, "http://127.0.0.1:$port/sink");
    is("$done[0]{status} $done[0]{text}", "200 1000\n",
       'control: a body that fits is sent');

    @done = flows(0, 'send', 'length', 20, 9 * MIB,
                  "http://127.0.0.1:$port/sink");
    is_deeply([map { "$_->{status} $_->{reason}" } @done],
              [('429 bytes_up') x 20],
              'twenty of 9 MiB at once are refused, each with its reason');
    cmp_ok(scalar $b->audit('egress', task => $task->{task_id},
                            verdict => 'denied', reason => 'bytes_up'),
           '==', 20, 'each has its line');
    like(curl('--http2', '-T', $big, "https://api.internal:$tls_port/sink"),
         qr/^429 /, 'one over HTTP/2 is refused too');

    # what was refused has used nothing: nearly all of the bound is left
    @done = flows(0, 'send', 'length', 1, MIB - 4096,
                  "http://127.0.0.1:$port/sink");
    is("$done[0]{status} $done[0]{text}", '200 ' . (MIB - 4096) . "\n",
       'a body of what is left is sent whole');
    @done = flows(0, 'send', 'length', 1, 4096, "http://127.0.0.1:$port/sink");
    is("$done[0]{status} $done[0]{reason}", '429 bytes_up',
       'the next one is refused');
    is(denied()->{bytes_up}, 22, 'the result of the task counts all of them');
};

for my $case (['over cleartext', 0, $plain, "http://127.0.0.1:$port"],
              ['over TLS', 1, $tls, "https://api.internal:$tls_port"]) {
    my ($what, $by_tls, $up, $url) = @$case;

    subtest "G-003: $what, bodies without a length stop at bytes_up, all "
        . 'together' => sub {
        begin('up');
        my @done = flows($by_tls, 'send', 'chunked', 20, 9 * MIB, "$url/sink");
        is(scalar(grep { ($_->{status} // 0) == 429
                         && $_->{reason} eq 'bytes_up' } @done), 20,
           'each of twenty is answered 429') or diag explain \@done;
        my @lines = lines_of_ends();
        is(scalar(grep { $_->{failure} ne 'bytes_up' } @lines), 0,
           'the line of each that was begun has the failure bytes_up');
        my @ends = ends($up, scalar grep { $_->{bytes_up} } @lines);
        my $sum = sum(map { $_->{raw} } @ends);
        cmp_ok($sum, '<=', MIB, 'no byte over the bound has left');
        cmp_ok($sum, '>', MIB / 2, 'control: what is in it has');
        is((flows(0, 'get', 1, "$url/hold"))[0]{reason}, 'bytes_up',
           'nothing more is sent for this task');
        is(denied()->{bytes_up}, 21, 'the result of the task counts them');
    };

    subtest "G-003: $what, answers stop at bytes_down" => sub {
        for my $how ('length', 'chunked', 'end') {
            begin('down');
            my @done = flows($by_tls, 'get', 1, "$url/down?n=200000&how=$how");
            is("$done[0]{status}", 200, "$how: control: a short one passes");
            @done = flows($by_tls, 'get', 6, "$url/down?n=@{[20 * MIB]}&how=$how");
            cmp_ok(sum(map { $_->{got} } @done), '<=',
                   ($how eq 'length' ? 8192 : MIB),
                   "$how: of six long ones no more than the bound passes");
            is(scalar(grep { $_->{closed} || $_->{status} == 429 } @done), 6,
               "$how: each is cut, or refused");
            my @lines;
            AgentTest::wait_for("$how: the lines of their ends", sub {
                @lines = $b->audit('egress_end', task => $task->{task_id},
                                   failure => 'bytes_down');
                @lines + $b->audit('egress', task => $task->{task_id},
                                   reason => 'bytes_down') == 6 });
            if ($how eq 'length') {
                is_deeply([map { "$_->{status} $_->{reason}" } @done],
                          [('429 bytes_down') x 6],
                          "$how: an answer that does not fit is refused");
            }
            cmp_ok(sum(map { $_->{bytes_down} } $b->audit('egress_end',
                       task => $task->{task_id})), '<=', MIB,
                   "$how: what was read of the upstream is in the bound");
            is(denied()->{bytes_down}, 6, "$how: the result counts them");
        }
    };

    subtest "G-003: $what, a websocket stops at its bounds" => sub {
        begin('up');
        my @done = flows($by_tls, 'ws', 3, 40 * MIB, "$url/ws");
        is(scalar(grep { $_->{closed} || $_->{reason} } @done), 3,
           'three that send 40 MiB each are closed, or refused')
            or diag explain \@done;
        my @lines = lines_of_ends();
        cmp_ok(sum(map { $_->{raw} }
                   ends($up, scalar grep { $_->{bytes_up} } @lines)),
               '<=', MIB, 'no byte over bytes_up has left');
        is_deeply([grep { $_->{failure} ne 'bytes_up' } @lines], [],
                  'their lines have the failure bytes_up');
        is(denied()->{bytes_up}, 3, 'the result of the task counts them');

        begin('down');
        @done = flows($by_tls, 'ws', 3, 0, "$url/ws?n=@{[40 * MIB]}");
        is(scalar(grep { $_->{closed} || $_->{reason} } @done), 3,
           'three that receive 40 MiB each are closed, or refused');
        cmp_ok(sum(map { $_->{got} } grep { $_->{status} == 101 } @done),
               '<=', MIB,
               'no byte over bytes_down has come');
        is(ended(task => $task->{task_id})->{failure}, 'bytes_down',
           'their lines have the failure bytes_down');
        is(denied()->{bytes_down}, 3, 'the result of the task counts them');
    };
}

subtest 'G-003: HTTP/2: an upload without a length, and answers, stop too'
    => sub {
    begin('up');
    like(curl('--http2', '-X', 'POST', '-H', 'Content-Length:', '-T', '-',
              "https://api.internal:$tls_port/sink"), qr/^(?:200|411)/,
         'control: one without a body passes');
    my $run = $l->do(run => { timeout => 90, argv => ['/bin/sh', '-c',
        'head -c 9437184 /dev/zero | curl -sS -x http://127.0.0.1:8899 '
        . '--http2 --max-time 60 --cacert "$1" -T - -w "%{http_code}" "$2"',
        'sh', $env[1], url("https://api.internal:$tls_port/sink")],
        env => { PATH => $ENV{PATH} } });
    like($run->{data}, qr/"bytes_up".*429$/s, 'the upload is answered 429');
    my $end = ended(task => $task->{task_id}, failure => 'bytes_up');
    denied();
    cmp_ok(sum(map { $_->{raw} } ends($tls)), '<=', MIB,
           'no byte over the bound has left');

    begin('down');
    my ($code, $got) = split ' ', curl('--http2',
        "https://api.internal:$tls_port/down?n=@{[20 * MIB]}&how=chunked");
    cmp_ok($got, '<=', MIB, 'no byte over bytes_down has come');
    is(ended(task => $task->{task_id})->{failure}, 'bytes_down',
       'the line has the failure bytes_down');
    is(denied()->{bytes_down}, 1, 'the result of the task counts it');
};

subtest 'G-003: a tunnel stops at the byte' => sub {
    begin('up');
    $env[1] = $ca;
    curl('-T', $big, "https://pinned.internal:$tls_port/sink");
    my $end = ended(task => $task->{task_id}, failure => 'bytes_up');
    is($end->{bytes_up}, MIB, 'bytes_up have gone up, not one more');
    denied();

    begin('down');
    $env[1] = $ca;
    curl("https://pinned.internal:$tls_port/down?n=@{[20 * MIB]}");
    $end = ended(task => $task->{task_id}, failure => 'bytes_down');
    is($end->{bytes_down}, MIB, 'bytes_down have come down, not one more');
    is(denied()->{bytes_down}, 1, 'the result of the task counts it');
};

subtest 'G-003: request_body bounds a body, a host\'s replaces its policy\'s'
    => sub {
    begin('body');
    my %at = (policy => "http://127.0.0.1:$port/sink",
              less => "http://small.internal:$port/sink",
              more => "https://api.internal:$tls_port/sink");
    my %bound = (policy => 100 * 1024, less => 64 * 1024, more => 0);

    for my $how ('length', 'chunked') {
        for my $which (qw(policy less)) {
            my $bound = $bound{$which};
            my @done = flows(0, 'send', $how, 1, $bound, $at{$which});
            is("$done[0]{status} $done[0]{text}", "200 $bound\n",
               "$how: $which: a body of the bound passes");
            @done = flows(0, 'send', $how, 1, $bound + 1, $at{$which});
            is("$done[0]{status} $done[0]{reason}", '413 body_too_large',
               "$how: $which: one byte more does not");
        }
        my @done = flows(1, 'send', $how, 1, 300000, $at{more});
        is("$done[0]{status} $done[0]{text}", "200 300000\n",
           "$how: more: a body over the policy's bound passes");
    }
    is(curl('--http2', '-T', $big, $at{more} =~ s/api/api/r), "200 8",
       'HTTP/2: more: a body over the policy\'s bound passes');
    my ($line) = $b->audit('egress', task => $task->{task_id},
                           reason => 'body_too_large');
    is($line->{verdict}, 'denied', 'a body of known length is refused');
    is(ended(task => $task->{task_id}, failure => 'body_too_large')->{status},
       413, 'one without a length is cut, and on record');
    is(denied()->{body_too_large}, 4, 'the result of the task counts all');
};

subtest 'G-028: the framing of a body is bounded, and counted' => sub {
    begin('up');
    my $url = "http://127.0.0.1:$port/sink";
    for my $case (['line=4096', 200, "5\n", undef], ['line=4097', 400, undef,
                  'malformed'], ['line=1000000', 400, undef, 'malformed'],
                  ['line=20971520', 400, undef, 'malformed'],
                  ['trailer=4096', 200, "5\n", undef],
                  ['trailer=4097', 400, undef, 'malformed'],
                  ['trailer=1000000', 400, undef, 'malformed']) {
        my ($how, $status, $text, $reason) = @$case;
        begin('up') if $how =~ /20971520|trailer=4096|trailer=1000000/;
        my ($done) = flows(0, 'send', $how, 1, 0, $url);
        is($done->{status}, $status, "$how is answered $status")
            or diag explain $done;
        is($done->{reason}, $reason, "$how has the reason "
           . ($reason // 'none'));
        cmp_ok($done->{took}, '<', 20 * MIB, "$how is not read to its end")
            if $how =~ /20971520/;
    }

    begin('up');
    my ($done) = flows(0, 'send', 'lines=4000', 1, 5000, $url);
    is("$done->{status} $done->{reason}", '429 bytes_up',
       '20 MB of extensions, 4,000 bytes each, stop at bytes_up');
    my $end = ended(task => $task->{task_id}, failure => 'bytes_up');
    cmp_ok($end->{bytes_up}, '>=', MIB, 'the framing is counted as bytes_up');
    cmp_ok($end->{bytes_up}, '<', 2 * MIB + 65536,
           'of what follows a mebibyte is read');
};

$b->is_clean;

done_testing;
