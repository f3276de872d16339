#!/usr/bin/perl

# Reloads, and the deaths of workers and masters, under tasks that live on:
# the next request is judged by the newest policy and gets the newest token,
# whichever worker has the connection; and nothing that was waited for is
# lost.
#
# sanitizers: what old and new workers share is freed in time

use v5.36;

use lib 't/lib';
use AgentTest;
use JSON::PP ();
use POSIX qw(fmod);
use Test::More;
use Time::HiRes qw(time);

my $old = 'sk_reload_old_0123456789abcdef';
my $new = 'sk_reload_new_0123456789abcdef';

my $t    = AgentTest->new;
my $up   = $t->upstream(names => ['api.internal', 'pinned.internal']);
my $port = $up->port;
my $dns  = $t->dns({ map { $_ => { A => ['127.0.0.1'] } }
                     qw(api.internal second.internal pinned.internal) });
my $plain = $t->upstream(plain => 1);
my $second = $plain->port;
my $ca   = $t->ca->{cert};
my $busy = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1');
my $taken = $busy->sockport;

sub token ($value) { $t->write('vault', "api = $value\n", 0600) }
token($old);

my $api = "host api.internal:$port { bearer api; private 127.0.0.0/8; "
        . "trusted_certificate $ca; }";
my $more = "host second.internal:$second { plaintext on; "
         . 'private 127.0.0.0/8; }';

sub http ($policies, $extra = '') {

    # a slow machine takes its time over many reloads
    $policies =~ s/(agent_policy \w+ \{)/$1 wall_clock 1h; requests 1000000; audit_budget 1000000 1g;/g;

    return <<"END";
    resolver 127.0.0.1:$dns->{port};
    agent_vault $t->{dir}/vault;
    agent_audit logs/agent-audit.log;
    agent_state state;
    $policies
    $extra
    server {
        agent_control unix:%CONTROL%;
        include $AgentTest::ROOT/conf/agent_proxy.conf;
    }
END
}

my $both = "agent_policy analysis { $api $more } agent_policy other { $api }";
my $b = $t->broker(http => http($both), workers => 2);

my $url = "http://api.internal:$port";

# A task, its doors' descriptors in order, and what a launcher does with it.
sub task ($policy = 'analysis', $broker = $b) {
    my ($l, $task) = $broker->task($policy);
    return { l => $l, %$task, name => 'task', n => 0, broker => $broker,
             same => [map { { again => $_ } } 0 .. $#{ $task->{doors} }] };
}

# What the broker says on the control connection: a hash, or undef.
sub hears ($task, $timeout = 60) {
    my $got = $task->{l}->do(receive => { name => $task->{name},
                                          timeout => $timeout });
    return $got->{message} ? $got->{message}
         : $got->{eof} ? { eof => 1 } : undef;
}

# Resumes on another connection, as a launcher would: again until it works.
sub resume ($task) {
    my $name = 'r' . ++$task->{n};
    my $reply;
    AgentTest::wait_for('the resume', sub {
        my $did = $task->{l}->do(connect => { name => $name,
            path => $task->{broker}->control });
        return 0 if $did->{error};
        $reply = $task->{l}->ask($name, { v => 1, op => 'resume',
            task_id => $task->{task_id}, lease => $task->{lease} },
            kinds => $task->{same});
        return $reply->{ok} || $reply->{error}
               && $reply->{error} !~ /Error/;
    });
    if ($reply->{ok}) {
        $task->{lease} = $reply->{lease};
        push @{ $task->{old} }, $task->{name};
        $task->{name} = $name;
    }
    return $reply;
}

# Waits for the drain (or the end), and resumes.
sub follow ($task) {
    my $said = hears($task);
    return resume($task)->{ok} && ($said->{event} // 'eof');
}

# Resumes if that is due; false when it could not.
sub keep ($task, $timeout = 0.001) {
    return !hears($task, $timeout) || resume($task)->{ok};
}

# Resumes where it must, as a launcher would.
sub close_task ($task) {
    my $reply;
    for (1 .. 3) {
        $reply = $task->{l}->ask($task->{name}, { op => 'close',
                                                  reason => 'ok' });
        $reply = hears($task) if ($reply->{event} // '') eq 'drain';
        last if $reply->{ok};
        resume($task);
    }
    $task->{l}->stop;
    return $reply;
}

sub head ($target, $host, @lines) {
    return join "\r\n", "GET $target HTTP/1.1", "Host: $host", @lines, '', '';
}

# Reads from a stream of the box until the text matches; all that was read.
sub read_until ($l, $id, $pattern) {
    my $text = '';
    AgentTest::wait_for("$pattern in the box", sub {
        my $got = $l->do(read => { id => $id, timeout => 5 });
        $text .= $got->{data} // '';
        return $text =~ $pattern || $got->{eof} || $got->{error};
    });
    return $text;
}

sub reason ($answer) {
    my $body = eval { JSON::PP::decode_json($answer->{body}) } // {};
    return $body->{reason};
}

sub status ($text) { return $text =~ m{\AHTTP/1\.1 (\d+)} ? $1 : 'closed' }

sub tokens { return map { $_->{headers}{authorization}[0] // 'none' }
                    $up->requests }

# the worker that has a task: who wrote its newest beginning
sub worker_of ($task) {
    my @starts = $b->audit('task_start', task => $task->{task_id});
    return $starts[-1]{writer} =~ /\.(\d+)$/ ? $1 : undef;
}


# A task whose worker is killed and whose launcher goes too: nobody is left
# to end it but the others, which is looked at last.

my $orphan = task('other');
kill 'KILL', worker_of($orphan);
hears($orphan);
$orphan->{l}->stop;
my $orphaned = time;
AgentTest::wait_for('two workers', sub { $b->workers == 2 });


# From a reload on the newest policy and token count

my ($after, $stream, $stays);

my $task = task();
my $l = $task->{l};
my $api_host = "api.internal:$port";

subtest 'C-026 C-027 C-030 E-003 from a reload on the newest policy and token '
    . 'count'
    => sub {
    is($l->get("$url/first")->{status}, 200,
       'before the reload a request is served');
    is(($l->get("http://second.internal:$second/echo")->{status}), 200,
       'before the reload another host is allowed');
    is_deeply([tokens()], ["Bearer $old"],
              'before the reload the old token is attached');

    # open before the reload: kept alive, idle, with half a head
    for my $id (qw(alive idle half gone)) {
        $l->do(open => { id => $id, port => 8899 });
    }
    $l->do(write => { id => 'alive', data => head("$url/alive1", $api_host) });
    is(status(read_until($l, 'alive', qr/\r\n\r\n./s)), 200,
       'a connection is kept alive over the reload');
    $l->do(write => { id => 'half', data => "GET $url/half HTTP/1.1\r\nHo" });
    $l->do(write => { id => 'gone', data =>
        "GET http://second.internal:$second/gone HTTP/1.1\r\nHo" });
    $l->do(open => { id => 'stream', port => 8899 });
    $l->do(write => { id => 'stream', data => head(
        "http://second.internal:$second/stream?n=3000&ms=20",
        "second.internal:$second", 'Connection: close') });
    $stream = read_until($l, 'stream', qr/\r\n\r\n./s);
    is(status($stream), 200,
       'a long answer streams from the host that the reload removes');
    $l->do(open => { id => 'stays', port => 8899 });
    $l->do(write => { id => 'stays', data => head(
        "$url/stream?n=60&ms=20", $api_host, 'Connection: close') });
    $stays = read_until($l, 'stays', qr/\r\n\r\n./s);
    is(status($stays), 200, 'another streams from a host that stays');

    my ($before) = reverse $b->audit('config');
    my %leaving = map { $_ => 1 } $b->workers;

    token($new);
    ok($b->reload(http => http("agent_policy analysis { $api } "
                               . "agent_policy other { $api }")),
       'a configuration with a host less and another token is loaded');

    my $drain = hears($task);
    is_deeply($drain, { event => 'drain' }, 'the launcher is told to resume');

    # nobody accepts now: a connection waits
    $l->do(open => { id => 'waits', port => 8899 });
    $l->do(write => { id => 'waits', data => head("$url/waits", $api_host,
                                                  'Connection: close') });

    # the old worker's connections: served by the newest, or closed
    $l->do(write => { id => 'half', data => "st: $api_host\r\n\r\n" });
    is(status(read_until($l, 'half', qr/\r\n\r\n/)), 200,
       'a request of which half came before the reload is served');
    is((tokens())[-1], "Bearer $new", 'that request gets the new token');

    $l->do(write => { id => 'gone', data => "st: second.internal:$second\r\n\r\n" });
    like(read_until($l, 'gone', qr/\}/), qr/403.*host_not_allowed/s,
         'a request to the removed host, of which half came before, is '
         . 'refused');

    for my $id (qw(alive idle)) {
        $l->do(write => { id => $id, data => head("$url/$id", $api_host,
                                                  'Connection: close') });
        my $status = status(read_until($l, $id, qr/\r\n\r\n/));
        like($status, qr/^(?:200|closed)$/,
             "a request on the connection that was $id is served, or it is "
             . "closed");
        my ($seen) = grep { $_->{target} eq "/$id" } $up->requests;
        is($seen ? $seen->{headers}{authorization}[0] : "Bearer $new",
           "Bearer $new",
           "a request on the connection that was $id never gets the old "
           . "token");
    }

    is_deeply([grep { $leaving{ worker_of($task) } } 1], [1],
              'until it is resumed the old worker has the task');
    my $got = resume($task);
    ok($got->{ok},
       'the task is resumed with the same descriptors') or diag explain $got;
    ok(!$leaving{ worker_of($task) }, 'the task is resumed by a new worker');
    is(status(read_until($l, 'waits', qr/\r\n\r\n/)), 200,
       'a connection that waited for the resumption is served');
    is($l->get("$url/after")->{status}, 200, 'a new connection is served');
    is(reason($l->get("http://second.internal:$second/")), 'host_not_allowed',
       'a new connection is judged by the new policy');

    $stream .= read_until($l, 'stream', qr/\z(?!)/);
    unlike($stream, qr/\r\n0\r\n\r\n\z/,
           'the long answer of the removed host is cut');
    is($b->audit_wait('egress_end', failure => 'policy_changed')->{host},
       'second.internal', 'the line of its end has the failure');
    $stays .= read_until($l, 'stays', qr/\z(?!)/);
    my @ticks = $stays =~ /^data: (\d+)$/mg;
    is("@ticks", "@{[0 .. 59]}", 'the other loses nothing')
        or diag substr $stays, -80;

    AgentTest::wait_for('the old workers to end', sub { !$b->leaving });
    my $end = $l->do(receive => { name => 'task', timeout => 60 });
    ok($end->{eof}, 'when the old workers end the first connection closes');

    my @seen = tokens();
    my ($switch) = grep { $seen[$_] eq "Bearer $new" } 0 .. $#seen;
    is_deeply([grep { $_ ne "Bearer $new" } @seen[$switch .. $#seen]], [],
              'after the first request with the new token none has the old '
              . 'one');
    ($after) = reverse $b->audit('config');
    is($after->{action}, 'reload', 'the reload is in the audit');
    is($after->{vault}, $before->{vault} + 1,
       'the line of the reload has the next revision of the vault');
    is($after->{generation}, $before->{generation} + 1,
       'the line of the reload has the next generation');
    isnt($after->{policies}{analysis}, $before->{policies}{analysis},
         'the line of the reload has another hash of the policy');
    my ($line) = reverse $b->audit('egress', path => '/after');
    is($line->{policy_hash}, $after->{policies}{analysis},
       'the line of a request has the hash of the new policy');
    is($line->{vault}, $after->{vault},
       'the line of a request has the new revision of the vault');
};


# A reload that is refused changes nothing: E-004

for my $case (
    ['a switch that is never on',
     http("agent_policy analysis {\nmount_secrets on;\n}"), qr/never allowed/],
    ['a vault that is too open', undef, qr/chmod 600/],
    ['another size of the zone', http($both, 'agent_zone 16m;'),
     qr/cannot change on a reload/],
    ['an unknown directive', http($both, 'nonsense on;'), qr/unknown directive/],
    ['an address that is taken', http($both, "server { listen 127.0.0.1:$taken; }"),
     qr/Address already in use/],
) {
    my ($what, $text, $words) = @$case;
    subtest "E-004 a reload that is refused ($what) changes nothing" => sub {
    my @workers = $b->workers;
    my $log = length $b->error_log;
    my $configs = $b->audit('config');
    my $good = $b->{opt}{http};

    chmod 0644, "$t->{dir}/vault" unless $text;
    ok(!$b->reload(http => $text // $good), 'the reload is refused');
    AgentTest::wait_for('the reload to be given up', sub {
        $b->audit('config') > $configs });
    chmod 0600, "$t->{dir}/vault";
    like(substr($b->error_log, $log), $words, 'the error log says why');
    my ($said) = reverse $b->audit('config');
    is($said->{action}, 'refused', 'the audit has the refusal');
    is($said->{generation}, $after->{generation},
       'the generation of the policies is the same');
    is_deeply([$b->workers], \@workers, 'the workers are the same');
    is($l->get("$url/still")->{status}, 200, 'the task is served on');
    is(reason($l->get("http://second.internal:$second/")), 'host_not_allowed',
       'the task is judged by the same policy');
    is(hears($task, 0.01), undef, 'the launcher is told nothing');
    $b->configure(http => $good);
    };
}

# what a refused reload leaves in the master is not in the next worker
subtest 'E-004 what a refused reload leaves in the master is not in the '
    . 'next worker'
    => sub {
    my $worker = worker_of($task);
    kill 'KILL', $worker;
    ok(hears($task)->{eof}, 'a worker that is killed closes its connections');
    ok(resume($task)->{ok}, 'its task is resumed by the next worker');
    is($l->get("$url/respawned")->{status}, 200,
       'the next worker serves the task');
};


# A worker that is killed loses what it had, and nothing else

subtest 'E-007 a worker that is killed loses what it had, and nothing '
    . 'else'
    => sub {
    # tasks until there is one in each worker
    my (%by, @all);
    AgentTest::wait_for('a task in each worker', sub {
        my $task = task('other');
        push @all, $task;
        $by{ worker_of($task) } //= $task;
        return keys %by == 2;
    });
    my ($one, $two) = values %by;

    for my $task ($one, $two) {
        $task->{l}->do(open => { id => 's', port => 8899 });
        $task->{l}->do(write => { id => 's', data => head(
            "$url/stream?n=40&ms=20", $api_host, 'Connection: close') });
        is(status(read_until($task->{l}, 's', qr/\r\n\r\n./s)), 200,
           'an answer streams from each worker');
    }

    kill 'KILL', worker_of($one);
    ok(hears($one)->{eof},
       'the launcher of the killed worker sees the end of its connection');
    my $cut = read_until($one->{l}, 's', qr/\z(?!)/);
    unlike($cut, qr/\r\n0\r\n\r\n\z/,
           'the answer of the killed worker is cut');
    like(read_until($two->{l}, 's', qr/\z(?!)/), qr/(?:\r\n0\r\n\r\n|39\D*)\z/,
         'the answer of the other worker comes to its end');

    ok(resume($one)->{ok}, 'the task of the killed worker is resumed');
    is($_->{l}->get("$url/x")->{status}, 200,
       'the task of the ' . ($_ == $one ? 'killed' : 'other')
       . ' worker is served') for $one, $two;
    is(scalar $b->audit('task_end', task => $one->{task_id}), 0,
       'the task of the killed worker has not ended');
    my ($resumed) = reverse $b->audit('task_start', task => $one->{task_id});
    ok($resumed->{resumed}, 'the audit has its resumption');
    AgentTest::wait_for('two workers', sub { $b->workers == 2 });

    # it dies while it writes the audit, and holds the lock all workers need
    SKIP: {
        skip 'needs root, to stop a worker in a call', 1
            unless AgentTest::is_root();

        my $audit = "$b->{prefix}/logs/agent-audit.log";
        my $dying = worker_of($one);
        my @its = grep { worker_of($_) == $dying } $one, $two;
        my $killer = $t->spawn(['/usr/bin/python3',
            "$AgentTest::LIB/half_write.py", $dying, $audit, 0], pipes => 1);
        (readline($killer->{out}) // '') eq "ready\n"
            or die 'no tracer: ', readline $killer->{err};
        is($one->{l}->get("$url/cut")->{status}, undef,
           'a worker dies in the middle of a write of the audit');
        is(scalar(grep { follow($_) eq 'eof' } @its), @its,
           'the launchers that it had resume');
        is($_->{l}->get("$url/y")->{status}, 200, 'no other task is held up')
            for $one, $two;
        like($b->error_log, qr/"agent_audit" was locked by $dying\b/,
             'the lock that it held is freed');
        unlike($t->read($audit), qr/"path":"\/cut"|\n\n/,
               'the line that it had not written is not there');
        AgentTest::wait_for('two workers', sub { $b->workers == 2 });
    }

    close_task($_) for @all;
};


# A policy that is gone

subtest 'C-027 a task whose policy is removed is refused, and ends with '
    . 'its launcher'
    => sub {
    my $gone = task('other');
    $gone->{l}->do(open => { id => 'half', port => 8899 });
    $gone->{l}->do(write => { id => 'half', data => "GET $url/g HTTP/1.1\r\nHo" });
    # it is accepted once one after it is answered
    is($gone->{l}->get("$url/here")->{status}, 200,
       'control: a task of another policy is served');

    ok($b->reload(http => http("agent_policy analysis { $api }")),
       'a configuration without the policy is loaded');
    $gone->{l}->do(write => { id => 'half', data => "st: $api_host\r\n\r\n" });
    like(read_until($gone->{l}, 'half', qr/\}/), qr/403.*policy_gone/s,
         'a request of which half came before is refused as policy_gone');
    is(hears($gone)->{event}, 'drain', 'the launcher is told to resume');
    is(resume($gone)->{error}, 'policy_gone',
       'the resumption is refused as policy_gone');
    $gone->{l}->stop;
    is($b->audit_wait('task_end', task => $gone->{task_id})->{reason},
       'policy_gone',
       'when its launcher goes the task ends with the reason policy_gone');

    my $none = $t->launcher->open_task($b->control, 'other');
    is($none->{error}, 'policy_unknown',
       'no other task of the policy is opened');
    ok(follow($task), 'the task of the other policy is resumed');
    is($l->get("$url/on")->{status}, 200,
       'the task of the other policy is served');
    ok($b->reload(http => http($both)),
       'a configuration with the policy is loaded again');
    ok(follow($task), 'the task of the other policy is resumed again');
};


# A close that crosses the drain on its way

subtest 'a task can be closed, or lost, at any moment of a reload' => sub {
    my $late = task('other');
    ok($b->reload, 'a reload before a close');
    my $reply = $late->{l}->ask('task', { op => 'close', reason => 'ok' });
    is($reply->{event}, 'drain',
       'the launcher that closes finds the drain event first');
    my $closed = $late->{l}->do(receive => { name => 'task' })->{message};
    ok($closed->{ok},
       'its task is closed all the same') or diag explain $closed;
    my @ends = $b->audit('task_end', task => $late->{task_id});
    is_deeply([map { $_->{reason} } @ends], ['ok'], 'its task has ended once');
    $late->{l}->stop;

    # a launcher that goes while its worker leaves
    keep($task);
    my $lost = task('other');
    $lost->{l}->do(open => { id => 's', port => 8899 });
    $lost->{l}->do(write => { id => 's', data => head(
        "$url/stream?n=2000&ms=20", $api_host) });
    read_until($lost->{l}, 's', qr/\r\n\r\n./s);
    ok($b->reload, 'a reload before a launcher is lost');
    is(hears($lost)->{event}, 'drain', 'the launcher is told to resume');
    $lost->{l}->stop;
    is($b->audit_wait('task_end', task => $lost->{task_id})->{reason},
       'launcher_lost', 'when it goes instead its task ends as launcher_lost');

    # one that closes on the new worker, and keeps the old connection
    keep($task);
    my $kept = task('other');
    $kept->{l}->do(open => { id => 's', port => 8899 });
    $kept->{l}->do(write => { id => 's', data => head(
        "$url/stream?n=2000&ms=20", $api_host) });
    read_until($kept->{l}, 's', qr/\r\n\r\n./s);
    ok($b->reload, 'a reload before a close on the new worker');
    ok(follow($kept), 'a task with a stream on the old worker is resumed');
    my $over = $kept->{l}->ask($kept->{name}, { op => 'close', reason => 'ok' });
    ok($over->{ok}, 'that task is closed on the new worker');
    read_until($kept->{l}, 's', qr/\z(?!)/);
    ok(1, 'the stream of the old worker is cut then');
    $kept->{l}->stop;
    AgentTest::wait_for('the old workers to end', sub { !$b->leaving });
    ok(keep($task, 1), 'the first task is still there');
};


# Load: a process that asks again and again, and resumes as a launcher does

sub load ($what) {
    my $task = task('other');
    my $stop = "$t->{dir}/stop" . ++$t->{loads};
    my $out = "$stop.json";
    my $pid = fork // die "fork: $!";
    return { pid => $pid, stop => $stop, out => $out } if $pid;

    my %count = (ok => 0, lost => 0, bad => 0, resumed => 0);
    my $l = $task->{l};
    my $done = eval {
        until (-e $stop) {
            my $id = 'q' . ++$task->{q};
            $l->do(open => { id => $id, port => 8899 });
            $l->do(write => { id => $id, data => head("$url/load", $api_host,
                                                      'Connection: close') });
            my $text = '';
            my $end = time + 60;
            while (time < $end) {
                my $got = $l->do(read => { id => $id, timeout => 0.02 });
                $text .= $got->{data} // '';
                last if $got->{eof} || $got->{error};
                if (hears($task, 0.001)) {
                    die "not resumed\n" unless resume($task)->{ok};
                    $count{resumed}++;
                }
            }
            $l->do(shut => { id => $id });
            my $status = status($text);
            $count{ $status eq '200' ? 'ok'
                  : $status eq 'closed' ? 'lost' : 'bad' }++;
            $count{"status $status"}++;
        }
        1;
    };
    $count{died} = $@ unless $done;
    $count{died} //= 'not closed' unless close_task($task)->{ok};
    $t->write($out, JSON::PP::encode_json(\%count));
    POSIX::_exit(0);
}

sub loaded (@loads) {
    my %sum = (died => '');
    $t->write($_->{stop}, '') for @loads;
    for my $load (@loads) {
        waitpid $load->{pid}, 0;
        my $count = JSON::PP::decode_json($t->read($load->{out}));
        $sum{died} .= delete $count->{died} // '';
        $sum{$_} += $count->{$_} for keys %$count;
    }
    return \%sum;
}

subtest 'E-003 thirty reloads under load cost no request' => sub {
    my @loads = map { load("reload $_") } 1 .. 2;
    my $had = $b->audit('egress', verdict => 'allowed');
    for my $i (1 .. 30) {
        token($i % 2 ? $old : $new);
        $b->reload or fail("reload $i under load");
        keep($task);
    }
    AgentTest::wait_for('more than sixty requests', sub {
        $b->audit('egress', verdict => 'allowed') > $had + 80 });
    my $sum = loaded(@loads);
    is($sum->{died}, '', 'every launcher resumed its task');
    cmp_ok($sum->{ok}, '>', 60, 'control: there were requests all the while');
    is($sum->{lost} + $sum->{bad}, 0, 'no request failed')
        or diag explain $sum;
    cmp_ok($sum->{resumed}, '>=', 30,
           'control: tasks were resumed many times');
    ok(keep($task, 1), 'the first task is still there');
    is($l->get("$url/there")->{status}, 200, 'the first task is served');
    is((tokens())[-1], "Bearer $new", 'the first task gets the newest token');
};

# E-007
subtest 'E-007 twenty killed workers under load cost what they had in '
    . 'hand'
    => sub {
    my @loads = map { load("kill $_") } 1 .. 2;
    for my $i (1 .. 20) {
        my @workers = $b->workers;
        kill 'KILL', $workers[ $i % @workers ];
        AgentTest::wait_for('two workers', sub {
            my @now = $b->workers;
            return @now == 2 && "@now" ne "@workers";
        });
        keep($task);
    }
    my $had = $b->audit('egress', verdict => 'allowed');
    AgentTest::wait_for('more than ten requests', sub {
        $b->audit('egress', verdict => 'allowed') > $had + 20 });
    my $sum = loaded(@loads);
    is($sum->{died}, '', 'every launcher resumed its task');
    cmp_ok($sum->{ok}, '>', 10, 'control: there were requests all the while');
    cmp_ok($sum->{lost} + $sum->{bad}, '<=', 40,
           'each killed worker cost each of the '
           . 'two loads one request at most') or diag explain $sum;
    is($sum->{bad}, 0, 'no request was answered wrongly') or diag explain $sum;
    ok(keep($task, 1), 'the first task is resumed: no lock is held');
    is($l->get("$url/alive")->{status}, 200, 'the first task is served');
    my $fresh = task('other');
    is($fresh->{l}->get("$url/fresh")->{status}, 200, 'a new task is served');
    close_task($fresh);
};


# What reloads cost the master: E-004

subtest 'E-004 sixty reloads, half of them refused, leave nothing in the '
    . 'master'
    => sub {
    my $master = $b->master;
    my $fds = sub { my @fds = glob "/proc/$master/fd/*"; scalar @fds };
    my $rss = sub { $t->read("/proc/$master/status") =~ /VmRSS:\s+(\d+)/ ? $1 : 0 };
    my $good = $b->{opt}{http};
    my $round = sub {
        $b->reload(http => $good) or fail('a good configuration is loaded');
        my $configs = $b->audit('config');
        $b->reload(http => http("agent_policy analysis {\nmemory 0;\n}"))
            and fail('a bad configuration is refused');
        AgentTest::wait_for('the reload to be given up', sub {
            $b->audit('config') > $configs });
        keep($task);
    };

    # the channels of an old worker are closed a moment after it is reaped

    my $reaped = sub ($wanted = undef) {
        my $last = $wanted // -1;
        my $settled = sub {
            my @children = split ' ',
                $t->read("/proc/$master/task/$master/children");
            my $now = $fds->();
            my $is = @children == 2 && $now == $last;
            $last = $wanted // $now;
            return $is;
        };
        eval { AgentTest::wait_for('the old workers to be gone', $settled) };
        return $fds->();
    };

    $round->() for 1 .. 5;
    my $had_fds = $reaped->();
    my $had_rss = $rss->();
    $round->() for 1 .. 25;
    is($reaped->($had_fds), $had_fds,
       'the master has the descriptors that it had');
    cmp_ok($rss->() - $had_rss, '<', $t->{sanitize} ? 100_000 : 1024,
           'the master\'s memory grew by less than 1 MiB (kB)');
    is($b->master, $master, 'the master is the same');
    $b->configure(http => $good);
    ok(keep($task, 1), 'the first task has outlived them');
};


# The orphan

subtest 'a task without worker and launcher is ended by the other workers'
    => sub {
    my $end = AgentTest::wait_for('the end of the orphan', sub {
        ($b->audit('task_end', task => $orphan->{task_id}))[0] });
    is($end->{reason}, 'launcher_lost', 'it ends with launcher_lost');
    my ($hour, $min, $sec) = $end->{'@timestamp'} =~ /T(\d+):(\d+):([\d.]+)Z/;
    my $took = $hour * 3600 + $min * 60 + $sec - fmod($orphaned, 86400);
    cmp_ok($took < 0 ? $took + 86400 : $took, '>', 10,
           'it ends no sooner than a launcher may still resume it, after '
           . 'ten seconds');
    is(scalar $b->audit('task_end', task => $orphan->{task_id}), 1,
       'it ends once');
};


# The end of the master

subtest 'a broker that quits lets answers end, and the next adopts its '
    . 'tasks'
    => sub {
    $l->do(open => { id => 's', port => 8899 });
    $l->do(write => { id => 's', data => head("$url/stream?n=30&ms=20",
        $api_host, 'Connection: close') });
    is(status(read_until($l, 's', qr/\r\n\r\n./s)), 200,
       'control: an answer streams');
    $b->signal('QUIT');
    is(hears($task)->{event}, 'drain', 'the launcher is told to resume');
    like(read_until($l, 's', qr/\z(?!)/), qr/(?:\r\n0\r\n\r\n|29\D*)\z/,
         'the answer comes to its end');
    ok(hears($task)->{eof}, 'the connection of the launcher ends with it');
    $b->end('QUIT');
    is(($b->audit('config'))[-1]{action}, 'stop', 'the audit has the stop');
    is(scalar $b->audit('task_end', task => $task->{task_id}), 0,
       'the task has not ended');
    $b->start;
    ok(resume($task)->{ok}, 'the next broker resumes the task');
    is($l->get("$url/adopted")->{status}, 200,
       'the next broker serves the task');
    ok(close_task($task)->{ok}, 'the task can be closed');
};


# B-009: a launcher that is there first

subtest 'B-009 a launcher that connects during the start waits for its '
    . 'policy'
    => sub {
    my $hosts = join ' ', map { "host h$_.example;" } 1 .. 5000;
    my $early = $t->broker(http => http("agent_policy analysis { $hosts }"));
    my $l = $t->launcher;
    $early->stop;

    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        # connects as soon as there is anything to connect to
        my $ok = 0;
        my $end = time + 60;
        while (!$ok && time < $end) {
            next if $l->do(connect => { name => 'x',
                                        path => $early->control })->{error};
            my $reply = $l->ask('x', { v => 1, op => 'open',
                                       policy => 'analysis' });
            $ok = 1 if $reply->{ok} && $reply->{hosts_count} == 5000;
            last if !$ok && $reply->{error};
        }
        POSIX::_exit($ok ? 0 : 1);
    }
    $early->start;
    waitpid $pid, 0;
    is($?, 0, 'the reply to its open has all 5000 hosts of the policy');
    is_deeply([$early->audit_errors], [], 'every line of the audit is whole');
    $early->stop;
    $l->stop;
};


# C-034: two brokers of one vault, of which one is reloaded after it changed

subtest 'C-034 of two brokers of one vault each has its revision in '
    . 'every line'
    => sub {
    token($old);
    my @both = map { $t->broker(http => http("agent_policy analysis { $api }")) }
               1 .. 2;
    my @tasks = map { task('analysis', $_) } @both;
    token($new);
    ok($both[0]->reload, 'the first broker is reloaded with a new token');
    ok(keep($tasks[0], 5), 'the task of the first broker is resumed');

    for my $i (0, 1) {
        my $which = $i ? 'second' : 'first';
        is($tasks[$i]{l}->get("$url/two$i")->{status}, 200,
           "the $which broker serves its task");
        is((tokens())[-1], 'Bearer ' . ($i ? $old : $new),
           "the $which broker attaches the " . ($i ? 'old' : 'new')
           . ' token');
        my ($line) = $both[$i]->audit('egress', path => "/two$i");
        is($line->{vault}, $i ? 1 : 2,
           "the line of the $which broker has that revision of the vault");
    }

    ok($both[1]->reload, 'the second broker is reloaded');
    ok(keep($tasks[1], 5), 'the task of the second broker is resumed');
    is($tasks[1]{l}->get("$url/two2")->{status}, 200,
       'the second broker serves its task after its reload');
    is((tokens())[-1], "Bearer $new",
       'the second broker attaches the new token after its reload');
    close_task($_) for @tasks;
    $_->stop for @both;
};


# E-002, D-017: what outlasts the limit of a worker that leaves

subtest 'E-002 D-017 what outlasts the limit of a worker that leaves is '
    . 'cut'
    => sub {
    my $short = $t->broker(
        main => 'worker_shutdown_timeout 1s;',
        http => http("agent_policy analysis { bytes_up 1m; $api host pinned.internal:$port "
                     . "{ tunnel on; private 127.0.0.0/8; } }"));
    my $task = task('analysis', $short);
    my $l = $task->{l};

    $l->do(open => { id => 's', port => 8899 });
    $l->do(write => { id => 's', data => head("$url/stream?n=3000&ms=50",
        $api_host, 'Connection: close') });
    is(status(read_until($l, 's', qr/\r\n\r\n./s)), 200,
       'control: an answer streams');

    my $pid = fork // die "fork: $!";
    if (!$pid) {
        my $other = task('analysis', $short);
        my $r = $other->{l}->do(run => { argv => ['curl', '-sSk',
            '-x', 'http://127.0.0.1:8899', '--max-time', '90',
            "https://pinned.internal:$port/stream?n=3000&ms=50"],
            timeout => 120, env => { PATH => $ENV{PATH} } });
        POSIX::_exit($r->{status} == 28 ? 1 : 0);
    }
    $short->audit_wait('egress', method => 'CONNECT', verdict => 'allowed');
    AgentTest::wait_for('bytes in the tunnel', sub {
        grep { $_->{target} =~ /stream/ && $_->{sni} eq 'pinned.internal' }
             $up->requests });

    my @old = $short->workers;
    $short->signal('HUP');
    AgentTest::wait_for('the old worker to be gone', sub {
        !grep { kill 0, $_ } @old });
    waitpid $pid, 0;
    is($?, 0, 'the tunnel is cut before its client gives up');
    my @ends = $short->audit('egress_end');
    is(scalar @ends, 2, 'the answer and the tunnel have their end on record');
    is_deeply([map { $_->{failure} } @ends], ['shutdown', 'shutdown'],
              'both ends have the failure shutdown') or diag explain \@ends;
    unlike(read_until($l, 's', qr/\z(?!)/), qr/\r\n0\r\n\r\n\z/,
           'the answer is cut and has no end');
    $short->stop;
    $l->stop;
};


is_deeply([$b->audit_errors], [],
          'every line of the audit is whole, fits the schema and follows in '
          . 'number');
subtest 'each task has exactly one beginning and one end on record' => sub {
    my (%starts, %ends);
    $starts{ $_->{task} }++ for grep { !$_->{resumed} } $b->audit('task_start');
    $ends{ $_->{task} }++ for $b->audit('task_end');
    is_deeply([grep { $_ != 1 } values %starts, values %ends], [],
              'each task has begun once and ended once');
    is_deeply([sort keys %starts], [sort keys %ends],
              'the same tasks have begun and ended');
};

subtest 'D-017 a worker that leaves writes the end of each of its requests'
    => sub {
    my (%left, %sent, %ended);
    for my $line ($b->audit) {
        my $writer = $line->{writer};
        $left{$writer} = 1 if $line->{event} eq 'worker'
                              && $line->{action} eq 'end';
        $sent{$writer}++ if $line->{event} eq 'egress'
                            && $line->{verdict} eq 'allowed';
        $ended{$writer}++ if $line->{event} eq 'egress_end';
    }
    my @left = grep { $sent{$_} } sort keys %left;
    cmp_ok(scalar @left, '>', 30, 'control: many workers have left');
    is_deeply([grep { $sent{$_} != ($ended{$_} // 0) } @left], [],
              'each request of theirs has its end on record');
};
unlike($b->error_log =~ s/^.*(?:exited on signal (?:9|25)\b|" was locked by).*$//gmr
                     =~ s/^.*\[emerg\].*(?:nginx\.conf|vault|agent_zone|bind\(\)|still could not bind).*$//gmr,
       qr/\[(?:alert|emerg)\]/,
       'nothing is reported at alert or emerg but what the test caused')
    or diag grep { /alert|emerg/ } split /(?<=\n)/, $b->error_log;
unlike($b->error_log . $t->read($b->prefix . '/logs/agent-audit.log'),
       qr/\Q$old\E|\Q$new\E/, 'no token is in a log');

done_testing;
