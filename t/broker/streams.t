#!/usr/bin/perl

# Long streams: each is judged again on a reload, whatever it is and whichever
# worker has it, and cut if it is not allowed any more; one that is loses
# nothing.  Upgrades and tunnels without a byte end.
#
# sanitizers: streams of every kind are cut

use v5.36;

use lib 't/lib';
use AgentTest;
use Test::More;

my $t = AgentTest->new;
my %cert = %{ $t->cert(['gone.internal', 'stays.internal', 'pinned.internal']) };
my $log = $t->dir . '/plain.log';
my $tls_log = $t->dir . '/tls.log';
my $plain = $t->helper('counting_upstream.py', $log);
my $safe = $t->helper('counting_upstream.py', $tls_log, $cert{cert},
                      $cert{key});
my ($port, $tls) = ($plain->{port}, $safe->{port});
my $ca = $t->ca->{cert};
my $to = 'methods GET POST; private 127.0.0.0/8;';

my $hosts = sub ($name, $more = '') { <<"END" };
        host $name.internal:$port { plaintext on; websocket on; $to $more }
        host $name.internal:$tls { trusted_certificate $ca; $to }
END
my $tunnel = "host pinned.internal:$tls { tunnel on; private 127.0.0.0/8; }";

my $policy = sub (@rules) { "agent_policy analysis { request_body 1g; "
    . "bytes_up 1g; @rules }\n" };
my $quick = "agent_policy quick { bytes_up 1g; idle 1s; "
    . $hosts->('gone') . $hosts->('stays', 'idle 1h;') . "$tunnel }\n";

my $b = $t->broker(workers => 2,
    names => [qw(gone.internal stays.internal pinned.internal)],
    policy => $policy->($hosts->('gone'), $hosts->('stays'), $tunnel) . $quick);

# The paths that the upstreams say they have begun.
sub begun () {
    return map { $_->{wait} // () } map { $t->read_lines($_) } $log, $tls_log;
}

sub file ($name) { return $t->dir . "/out-$name" }
sub ended ($name) { return -e file($name) . '.end' }

# A program of the box that goes on; its output is in its file.
sub start ($l, $name, @command) {
    $l->do(run => { env => { PATH => $ENV{PATH} }, argv => ['/bin/sh', '-c',
        'out=$1; shift; ("$@" >"$out" 2>"$out.err"; echo $? >"$out.end") '
        . '</dev/null >/dev/null 2>&1 &', 'sh', file($name),
        map { "$_" } @command] });
}


subtest 'G-010: a websocket without a byte ends after `idle`, with its reason'
    => sub {
    my ($l, $task) = $b->task('quick');
    for my $host (qw(gone stays)) {
        $l->do(open => { id => $host, port => 8899 });
        $l->do(write => { id => $host, data => join "\r\n",
            "GET http://$host.internal:$port/ws?$host HTTP/1.1",
            "Host: $host.internal:$port", 'Connection: Upgrade',
            'Upgrade: websocket', 'Sec-WebSocket-Version: 13',
            'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==', '', '' });
        like($l->do(read => { id => $host, timeout => 30 })->{data},
             qr/^HTTP\/1.1 101 /, "control: $host is upgraded");
    }
    my $end = $b->audit_wait('egress_end', failure => 'idle');
    is($end->{host}, 'gone.internal',
       'the line of the end has the failure, and the host');
    ok($l->do(read => { id => 'gone', timeout => 30 })->{eof},
       'the box sees the end');
    my $got = $l->do(read => { id => 'stays', timeout => 0.1 });
    ok(!$got->{eof} && !$got->{error},
       'where the host\'s `idle` is longer than the policy\'s it goes on');
    is(scalar $b->audit('egress_end', host => 'stays.internal'), 0,
       'control: it has no line of its end');
    $l->stop;
};

subtest 'G-010: a tunnel without a byte ends after `idle` too' => sub {
    my ($l, $task) = $b->task('quick');
    start($l, 'idle-tunnel', 'curl', '-sSN', '--max-time', 90, '--cacert', $ca,
          '-x', 'http://127.0.0.1:8899',
          "https://pinned.internal:$tls/hold?idle");
    my $end = $b->audit_wait('egress_end', host => 'pinned.internal');
    is($end->{failure}, 'idle', 'the line of its end has the failure');
    cmp_ok($end->{bytes_up}, '>', 100, 'the line has its bytes');
    AgentTest::wait_for('the client', sub { ended('idle-tunnel') });
    isnt($t->read(file('idle-tunnel') . '.end'), "0\n",
         'the client sees the end');
    $l->stop;
};


subtest 'the end of what a box sends is not the end of its request' => sub {
    my ($l, $task) = $b->task;
    my $url = "http://stays.internal:$port";
    for my $case (['at once', 'down?n=300000', 300000],
                  ['after four seconds', 'wait?ms=4000', 7]) {
        my ($what, $path, $n) = @$case;
        my $run = $l->do(run => { timeout => 60, argv => ['/usr/bin/python3',
            "$AgentTest::LIB/box_flows.py", 'eof', "$url/$path"] });
        like($run->{data}, qr/"got": $n,.*"status": 200/,
             "an answer that comes $what arrives whole")
            or diag explain $run;
    }

    $l->do(open => { id => 'gone', port => 8899 });
    $l->do(write => { id => 'gone', data => "GET $url/wait?ms=60000 HTTP/1.1"
        . "\r\nHost: stays.internal:$port\r\n\r\n" });
    AgentTest::wait_for('the request', sub { grep { /60000/ } begun() });
    $l->do(shut => { id => 'gone' });
    is($b->audit_wait('egress_end', status => 499)->{failure}, 'aborted',
       'control: a client that is gone is noticed while it waits');
    $l->stop;
};


subtest 'G-003: on a reload every stream is judged again, and cut or left as '
    . 'it is' => sub {
    my ($l, $task) = $b->task;
    my $box_ca = $t->write('box-ca.pem', $task->{ca});
    my @curl = ('curl', '-sSN', '--max-time', 90, '--cacert', $box_ca, '-x',
                'http://127.0.0.1:8899');
    my @python = ('/usr/bin/python3', "$AgentTest::LIB/box_flows.py");
    my %begin = (
        download => sub ($h) { @curl, "http://$h.internal:$port/drip?$h-1" },
        'TLS download' => sub ($h) { @curl, '--http1.1',
            "https://$h.internal:$tls/drip?$h-2" },
        'HTTP/2 download' => sub ($h) { @curl, '--http2',
            "https://$h.internal:$tls/drip?$h-3" },
        'two HTTP/2 streams' => sub ($h) { @curl, '--http2', '-Z',
            "https://$h.internal:$tls/drip?$h-4",
            "https://$h.internal:$tls/drip?$h-5" },
        upload => sub ($h) { @python, 'send', 'stuck', 1, 100000,
            "http://$h.internal:$port/hold?$h-6" },
        websocket => sub ($h) { @python, 'ws', 1, 100,
            "http://$h.internal:$port/ws?$h-7" });

    for my $what (sort keys %begin) {
        start($l, "$what-$_" =~ tr|/ |--|r, $begin{$what}->($_))
            for qw(gone stays);
    }
    start($l, 'tunnel', 'curl', '-sSN', '--max-time', 90, '--cacert', $ca,
          '-x', 'http://127.0.0.1:8899',
          "https://pinned.internal:$tls/drip?gone-8");
    AgentTest::wait_for('all streams to begin', sub {
        my %begun = map { $_ => 1 } map { /\b((?:gone|stays)-\d)/ } begun();
        return keys %begun == 15;
    });

    my %old = map { $_ => 1 } $b->workers;
    $b->configure(policy => $policy->($hosts->('stays')) . $quick);
    kill 'HUP', $b->master;

    for my $what ((map { "$_-gone" } sort keys %begin), 'tunnel') {
        my $name = $what =~ tr|/ |--|r;
        AgentTest::wait_for("$what to be cut", sub { ended($name) });
        ok(1, "$what: it ends");
    }
    like($t->read(file('upload-gone')), qr/"status": 503.*"policy_changed"/,
         'an upload without an answer gets one that says why');

    my @lines;
    AgentTest::wait_for('the lines of their ends', sub {
        @lines = $b->audit('egress_end', failure => 'policy_changed',
                           task => $task->{task_id});
        return @lines >= 8;
    });
    is(scalar @lines, 8, 'each has a line with the failure policy_changed');
    is(scalar(grep { $_->{host} eq 'stays.internal' } @lines), 0,
       'none of them is of the host that stays');

    my %size = map { $_ => -s file($_) } my @stay =
        map { tr|/ |--|r . '-stays' } grep { /down|two/ } sort keys %begin;
    for my $name (@stay) {
        AgentTest::wait_for("$name to go on", sub {
            -s file($name) > $size{$name} + 20 });
        my @numbers = split /\n/, $t->read(file($name));
        pop @numbers;
        my $is_all = $name =~ /two/ ? 2 : 1;
        my %count;
        $count{$_}++ for @numbers;
        is(scalar(grep { ($count{$_} // 0) != $is_all }
                  0 .. @numbers / $is_all - 30), 0, "$name: it loses nothing");
    }
    ok(!ended($_), "$_: it goes on")
        for map { "$_-stays" } qw(upload websocket);
    ok(scalar(grep { $old{$_} } $b->leaving),
       'control: it is a worker that leaves which has them');

    my $reply = $l->ask('task', { op => 'close', reason => 'ok' });
    $reply = $l->do(receive => { name => 'task', timeout => 60 })->{message}
        if ($reply->{event} // '') eq 'drain';
    my ($changed) = 0;
    $changed += $_->{count} for grep { $_->{reason} eq 'policy_changed' }
        @{ $reply->{egress}{denied} };
    is($changed, 8, 'the result of the task counts all that was cut');
    $l->stop;
};

$b->is_clean;

done_testing;
