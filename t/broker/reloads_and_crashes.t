#!/usr/bin/perl

# Reloads in storms, and workers that crash, under boxes that go on asking:
# the newest configuration wins, each box resumes, what was lost is what a
# dead worker had in its hands, and nothing is reported as served while no
# worker is there.

use v5.36;

use lib 't/lib';
use AgentTest;
use JSON::PP ();
use List::Util ();
use Test::More;

my $t    = AgentTest->new;
my $up   = $t->upstream(plain => 1);
my $port = $up->port;
my $here = 'plaintext on; private 127.0.0.0/8;';

# generation $n: only this one has the host g$n.example
sub generation ($n, $more = '') {
    return (http => $more, policy => <<"END");
    agent_policy analysis {
        launchers  user:$>;
        wall_clock 1h;
        requests   1000000;
        audit_budget 1000000 1g;
        refusals   1000000;
        host 127.0.0.1:$port { $here }
        host g$n.example { hint "generation $n"; }
    }
END
}

my $b = $t->broker(generation(0), workers => 2);

# A box that asks, a hundred times a second, until its stdin ends, and tells
# how it went: each answer is of the upstream's, or there is none.
my $ask = <<'END';
import http.client, json, sys, threading
count, over = {}, threading.Event()
def asks():
    while not over.wait(0.02):
        c = http.client.HTTPConnection("127.0.0.1", 8899, timeout=60)
        try:
            c.request("GET", sys.argv[1])
            r = c.getresponse()
            r.read()
            what = str(r.status)
        except (OSError, http.client.HTTPException):
            what = "lost"
        c.close()
        count[what] = count.get(what, 0) + 1
threads = [threading.Thread(target=asks) for _ in range(2)]
[x.start() for x in threads]
sys.stdin.read()
over.set()
[x.join() for x in threads]
print(json.dumps(count))
END

sub boxes ($n) {
    my $had = $b->audit('task_start');
    my @boxes = map { $t->spawn([$t->jail_path, 'run', '--control',
        $b->control, '--policy', 'analysis', '--stdin', '--', 'python3', '-c',
        $ask, "http://127.0.0.1:$port/echo"], pipes => 1,
        env => { $t->sanitizer_env(0) }) } 1 .. $n;
    AgentTest::wait_for("the boxes to ask", sub {
        my @starts = $b->audit('task_start');
        my %new = map { $_->{task} => 1 } @starts[$had .. $#starts];
        my %by = map { $_->{task} => 1 } grep { $new{ $_->{task} } }
                 $b->audit('egress', verdict => 'allowed');
        return keys %by == $n;
    });
    return @boxes;
}

# Waits until the boxes were answered so often more.
sub asked ($more) {
    my $had = $b->audit('egress', verdict => 'allowed');
    AgentTest::wait_for("$more answers", sub {
        $b->audit('egress', verdict => 'allowed') >= $had + $more });
}

# their results, added up
sub results (@boxes) {
    my %sum = (lost => 0, 200 => 0);
    close $_->{in} for @boxes;
    for my $box (@boxes) {
        my $text = do { local $/; readline $box->{out} };
        waitpid $box->{pid}, 0;
        $t->forget($box->{pid});
        my $result = eval { JSON::PP::decode_json($text) } // {};
        is($result->{reason}, 'ok', "box $box->{pid} goes on to its own end")
            or diag $text;
        my $count = eval { JSON::PP::decode_json($result->{stdout}) } // {};
        $sum{$_} += $count->{$_} for keys %$count;
    }
    return \%sum;
}

sub reason ($l, $host) {
    my $r = $l->get("http://$host/");
    return (eval { JSON::PP::decode_json($r->{body}) } // {})->{reason}
           // $r->{status};
}


subtest 'E-005 after a hundred reloads at once the last one is in force' => sub {
    my @boxes = boxes(2);
    my $most = 0;

    for my $n (1 .. 100) {
        # each tenth is refused, which must not bring an older one back
        $b->configure(generation($n, $n % 10 == 5 ? 'nonsense;' : ''));
        $b->signal('HUP');
        $most = List::Util::max($most, $b->workers + $b->leaving);
    }

    AgentTest::wait_for('the newest generation', sub {
        my ($line) = reverse $b->audit('config');
        $b->workers == 2 && !$b->leaving or return 0;
        my $again = $t->launcher;
        my $task = $again->open_task($b->control, 'analysis');
        my $got = $task->{ok} ? reason($again, 'g100.example') : '';
        $again->stop;
        return $got eq 'resolve_failed';
    });
    my ($l, $task) = $b->task;
    for my $n (0, 1, 50, 98, 99) {
        is(reason($l, "g$n.example"), 'host_not_allowed',
           "the policy of reload $n is not in force");
    }
    isnt(reason($l, 'g100.example'), 'host_not_allowed',
         'the policy of the last reload is in force');

    my @config = $b->audit('config');
    my $last = 0;
    my @back = grep { my $is = $_->{generation} < $last;
                      $last = $_->{generation}; $is } @config;
    is_deeply(\@back, [], 'the generations in the audit go up only');
    my @made = grep { $_->{action} eq 'reload' } @config;
    is($task->{policy_hash}, $made[-1]{policies}{analysis},
       'a new task has the hash of the last reload that was made');
    note scalar @made, " reloads were made, at most $most workers";
    is_deeply([scalar $b->workers, scalar $b->leaving], [2, 0],
              'no old worker is left');

    asked(40);
    my $sum = results(@boxes);
    cmp_ok($sum->{200}, '>', 20, 'control: boxes asked all the while');
    is_deeply([grep { $_ ne '200' && $sum->{$_} } keys %$sum], [],
              'no request of a box failed') or diag explain $sum;
    $l->ask('task', { op => 'close', reason => 'ok' });
    $l->stop;
};


subtest 'E-006 twenty workers that crash cost what they had in their hands'
    => sub {
    my @boxes = boxes(3);
    my $crash = $t->{sanitize} ? 'KILL' : 'SEGV';   # which it would report

    for my $i (1 .. 20) {
        my @before = $b->workers;
        my $victim = $before[ $i % 2 ];
        my $starts = $b->audit('task_start');
        my %has;
        $has{ $_->{task} } = $_->{writer} =~ /\.(\d+)$/ ? $1 : 0
            for $b->audit('task_start');
        my %over = map { $_->{task} => 1 } $b->audit('task_end');
        my $orphans = grep { $has{$_} == $victim && !$over{$_} } keys %has;
        kill $i % 2 ? $crash : 'KILL', $victim;
        AgentTest::wait_for('another worker', sub {
            my @now = $b->workers;
            return @now == 2 && !grep { $_ == $victim } @now;
        });
        AgentTest::wait_for('its boxes to resume', sub {
            $b->audit('task_start') >= $starts + $orphans });
    }

    my $said = $b->error_log;
    like($said, qr/exited on signal 9/, 'control: workers were killed');
    like($said, qr/exited on signal 11/, 'control: workers crashed')
        if $crash eq 'SEGV';

    asked(40);
    my $sum = results(@boxes);
    cmp_ok($sum->{200}, '>', 20, 'boxes are served over twenty crashes');
    cmp_ok($sum->{lost}, '<=', 20 * 6,
           'each crash cost each of three boxes two requests at most');
    is_deeply([grep { $_ !~ /^(?:200|lost)$/ } keys %$sum], [],
              'no request was answered wrongly') or diag explain $sum;
    note JSON::PP::encode_json($sum);
    my %ends;
    $ends{ $_->{task} }++ for $b->audit('task_end');
    is_deeply([grep { $_ != 1 } values %ends], [], 'each task ended once');
};


# Connections that are kept, on which one request follows the other: where core
# closes one that is idle, a request that crosses that is lost to any client.

my $keep = <<'END';
import http.client, json, sys, threading
port, url = int(sys.argv[1]), sys.argv[2]
count, over = {}, threading.Event()
def asks():
    c = None
    while not over.wait(0.005):
        if c is None:
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            what = "opened"
            count[what] = count.get(what, 0) + 1
        begun = False
        try:
            c.request("GET", url)
            r = c.getresponse()
            begun = True
            r.read()
            what = str(r.status)
        except (OSError, http.client.HTTPException):
            what = "cut" if begun else "lost"
        if what != "200" or r.will_close:
            c.close()
            c = None
        count[what] = count.get(what, 0) + 1
threads = [threading.Thread(target=asks) for _ in range(2)]
[x.start() for x in threads]
sys.stdin.read()
over.set()
[x.join() for x in threads]
print(json.dumps(count))
END

subtest 'kept connections bear reloads as they do with an ordinary nginx'
    => sub {
    my $plain = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1)
        ->sockport;
    my $server = "server { listen 127.0.0.1:$plain; location / { "
               . "proxy_pass http://127.0.0.1:$port; } }";
    $b->reload(generation(100, $server));

    my $url = "http://127.0.0.1:$port/echo";
    my $box = $t->spawn([$t->jail_path, 'run', '--control', $b->control,
        '--policy', 'analysis', '--stdin', '--', 'python3', '-c', $keep, 8899,
        $url], pipes => 1, env => { $t->sanitizer_env(0) });
    my $beside = $t->spawn(['python3', '-c', $keep, $plain, '/echo'],
                           pipes => 1);
    asked(10);

    my $reloads = 20;
    for (1 .. $reloads) {
        $b->reload;
        asked(2);
    }
    AgentTest::wait_for('the old workers', sub { !$b->leaving });
    asked(10);

    my $kept = results($box);
    close $beside->{in};
    my $ordinary = JSON::PP::decode_json(
        do { local $/; readline $beside->{out} });
    waitpid $beside->{pid}, 0;
    $t->forget($beside->{pid});
    note 'broker ', JSON::PP::encode_json($kept), ' ordinary ',
         JSON::PP::encode_json($ordinary);

    cmp_ok($kept->{opened}, '<', $kept->{200},
           'control: connections are kept');
    is($kept->{cut} // 0, 0, 'no answer that has begun is cut');
    is_deeply([grep { !/^(?:200|lost|opened|cut)$/ } keys %$kept], [],
              'no request is answered wrongly');
    cmp_ok($kept->{lost}, '<=', 2 * $reloads,
           'at most one request of a connection is lost by a reload');
    cmp_ok($ordinary->{lost} // 0, '<=', 2 * $reloads,
           'control: the same holds for an ordinary nginx');
};


subtest 'an answer that lasts over several reloads comes to its end' => sub {
    my ($reloads, $n) = (4, 500);
    my $box = $t->spawn([$t->jail_path, 'run', '--control', $b->control,
        '--policy', 'analysis', '--stdin', '--', 'python3', '-c', <<'END',
import http.client, json, sys
c = http.client.HTTPConnection("127.0.0.1", 8899, timeout=60)
c.request("GET", sys.argv[1])
r = c.getresponse()
try:
    print(json.dumps({"whole": len(r.read()) > 0}))
except http.client.HTTPException:
    print(json.dumps({"cut": 1}))
END
        "http://127.0.0.1:$port/stream?n=$n&ms=15"], pipes => 1,
        env => { $t->sanitizer_env(0) });
    AgentTest::wait_for('the answer to begin', sub {
        grep { $_->{path} =~ /stream/ } $b->audit('egress') });
    my $resumed = 0;
    for (1 .. $reloads) {
        my $starts = $b->audit('task_start');
        $b->reload;
        AgentTest::wait_for('the box to resume, or to have ended', sub {
            return $b->audit('task_start') > $starts
                   || grep { $_->{request} && ($_->{bytes_down} // 0) > $n }
                      $b->audit('egress_end');
        });
    }
    my $sum = results($box);
    ok($sum->{whole} && !$sum->{cut}, "it is whole after $reloads reloads");
};


subtest 'boxes go on over stops, starts and a master that is killed' => sub {
    my @boxes = boxes(2);

    for my $signal (qw(QUIT TERM KILL)) {
        my $starts = $b->audit('task_start');
        $b->end($signal);
        $b->start;
        AgentTest::wait_for('the boxes to resume', sub {
            $b->audit('task_start') >= $starts + 2 });
        asked(10);
    }

    my $sum = results(@boxes);
    note JSON::PP::encode_json($sum);
    cmp_ok($sum->{200}, '>', 20, 'control: boxes asked all the while');
    cmp_ok($sum->{lost}, '<=', 2 * 2 * 2,
           'TERM and KILL cost the requests that were being served');
    is_deeply([grep { !/^(?:200|lost)$/ } keys %$sum], [],
              'no request was answered wrongly');
};


subtest 'E-006 without a worker no box starts, and none runs on' => sub {
    my ($box) = boxes(1);
    my @workers = $b->workers;
    $b->signal('STOP');
    kill 'KILL', @workers;

    my $run = $t->jail(['run', '--control', $b->control, '--policy',
                        'analysis', '--', 'echo', 'ran']);
    is($run->{status}, 125, 'a run without a worker ends with 125');
    is($run->{json}{error}{stage}, 'broker',
       'its result names the stage broker');
    is($run->{json}{stdout}, '', 'its program did not run');

    # what ran has ten seconds, of which five are over
    my $text = do { local $/; readline $box->{out} };
    waitpid $box->{pid}, 0;
    $t->forget($box->{pid});
    is(JSON::PP::decode_json($text)->{reason}, 'broker',
       'a box that waits for a worker in vain ends with the reason broker');

    $b->signal('CONT');
    AgentTest::wait_for('workers', sub { $b->workers == 2 });
    $run = $t->jail(['run', '--control', $b->control, '--policy', 'analysis',
                     '--', 'echo', 'ran']);
    is($run->{json}{stdout}, "ran\n",
       'control: with workers again a box runs');
};


# a worker that is killed in a write may leave half of one line
my @errors = $b->audit_errors;
cmp_ok(scalar(grep { /^not JSON/ } @errors), '<=', 22,
       'each of the killed workers tore one line of the audit at most');
is_deeply([grep { !/^not JSON/ } @errors], [],
          'every other line of the audit is whole and follows in number');
unlike($b->error_log =~ s/^.*(?:exited on signal (?:9|11)\b|unknown directive|" was locked by).*$//gmr,
       qr/\[(?:alert|emerg)\]/,
       'nothing is reported at alert or emerg but what the test caused');

done_testing;
