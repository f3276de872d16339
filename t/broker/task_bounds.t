#!/usr/bin/perl

# What the broker does for one box is bounded: past a bound a box gets an answer with the reason,
# or waits, and another box does not notice.

use v5.36;

use lib 't/lib';
use AgentTest;
use Test::More;

my $t   = AgentTest->new;
my $up  = $t->upstream(names => ['api.internal', '*.wild.example']);
my $port = $up->port;
my $rule = $t->rule;

my $b = $t->broker(
    names => ['api.internal', map { "h$_.wild.example" } 1 .. 4],
    policy => <<"END");
    agent_policy narrow {
        connections 2;
        requests    3;
        handshakes  20;
        mints       2;
        names       4;
        refusals    5;
        host api.internal:$port { $rule }
        host *.wild.example:$port { $rule }
    }
    agent_policy spent { refusals 5; wall_clock 1h; host api.internal:$port { $rule } }
    agent_policy lines {
        refusals     1000000;
        names        1000000;
        audit_budget 200 1g;
        host api.internal:$port { $rule }
    }
    agent_policy bytes {
        audit_budget 1000000 16k;
        host api.internal:$port { $rule }
    }
    agent_policy flood {
        names        1000000000;
        refusals     1000000000;
        audit_budget 3000 16m;
        wall_clock   1h;
    }
    agent_policy repeats {
        names        1000000000;
        wall_clock   1h;
    }
    agent_policy scaled {
        requests     20;
        refusals     5;
        names        1;
        host api.internal:$port { $rule }
    }
    agent_policy plain {
        wall_clock   1h;
        host api.internal:$port { $rule }
    }
END

sub reason ($r) {
    return (eval { JSON::PP::decode_json($r->{body}) } // {})->{reason};
}

my $url = "http://api.internal:$port/echo";
my ($other) = $b->task('plain');
my $r;

# The first counted line of this reason, when it is there

sub told ($task, $reason) {
    my $line;
    AgentTest::wait_for("a counted line of $reason", sub {
        ($line) = $b->audit('counted', task => $task->{task_id},
                            reason => $reason) });
    return $line;
}

sub other_is_served () {
    is($other->get($url)->{status}, 200, 'another task is served meanwhile');
}

subtest 'past its `requests` a task is refused with 429 requests' => sub {
    my ($l) = $b->task('narrow');
    is($l->get($url)->{status}, 200, "request $_ of 3 is served") for 1 .. 3;
    $r = $l->get($url);
    is("$r->{status} " . reason($r), '429 requests',
       'the fourth request is refused with the reason');
    is_deeply([@{$r->{headers}{'x-agent-broker'}},
               JSON::PP::decode_json($r->{body})->{error}], [('denied') x 2],
              'it is denied, not failed');
    other_is_served();
};


subtest 'past its `refusals` a task is refused with 429, without lines' => sub {
    my ($l, $task) = $b->task('narrow');
    for (1 .. 5) {
        is(reason($l->get('http://evil.example/')), 'host_not_allowed',
           "refusal $_ of 5 has its own reason");
    }
    for (6 .. 8) {
        $r = $l->get('http://evil.example/');
        is("$r->{status} " . reason($r), '429 refusals',
           "refusal $_ has the reason refusals");
    }
    is(scalar($b->audit('egress', task => $task->{task_id})), 5,
       'there are five lines of refusals');
    is(told($task, 'refusals')->{host}, 'evil.example',
       'a line says that the bound is reached, and the first host');
};


subtest 'past its `names` a task is given no address' => sub {
    my ($l, $task) = $b->task('narrow');
    my $ask = <<'END';
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(60)
s.connect(("127.0.0.1", 53))
s.send(b"\0\1\1\0\0\1\0\0\0\0\0\0\3api\x08internal\0\0\1\0\1")
print(s.recv(512)[3] & 15)
END
    my @codes = map {
        my $run = $l->do(run => { argv => ['/usr/bin/python3', '-c', $ask],
                                  timeout => 90 });
        $run->{status} ? $run->{err} : $run->{data} =~ s/\s//gr;
    } 1 .. 6;
    is("@codes", '0 0 0 0 5 5', 'four names are answered, then none');
    is(told($task, 'names')->{host}, 'api.internal',
       'a line says that the bound is reached, and the first name');
    is(scalar($b->audit('dns', task => $task->{task_id})), 0,
       'no name past the bound has a line of its own');
};


subtest 'past its `mints` a task is given no certificate' => sub {
    my ($l, $task) = $b->task('narrow');
    my $ca = $t->write('box-ca.pem', $task->{ca});
    my @exits = map {
        $l->do(run => { argv => ['curl', '-sS', '-o', '/dev/null',
            '--max-time', '60', '--cacert', $ca, '--connect-to',
            '::127.0.0.1:', "https://h$_.wild.example:$port/echo"],
            timeout => 90, env => { PATH => $ENV{PATH} } })->{status}
    } 1, 2, 1, 3;
    is("@exits", '0 0 0 35',
       'two names are given a certificate, the third is not');
    is(scalar($b->audit('egress', task => $task->{task_id},
                        reason => 'mints')), 1,
       'the line of the third name has the reason mints');
};


subtest 'a name that a worker signs for again does not count again' => sub {
    my $own = $t->broker(names => [map { "h$_.wild.example" } 1 .. 3],
                         policy => "mints 2; host *.wild.example:$port { $rule }");
    my ($l, $task) = $own->task;
    my $ca = $t->write('box-ca.pem', $task->{ca});
    my $shake = sub (@names) {
        return join ' ', map {
            $l->do(run => { argv => ['curl', '-sS', '-o', '/dev/null',
                '--max-time', '60', '--cacert', $ca, '--connect-to',
                '::127.0.0.1:', "https://h$_.wild.example:$port/echo"],
                timeout => 90, env => { PATH => $ENV{PATH} } })->{status}
        } @names;
    };
    my $lease = $task->{lease};
    my $control = 'task';
    is($shake->(1, 2), '0 0', 'two names are given a certificate');

    for my $n (1, 2) {
        $own->reload;
        is($l->do(receive => { name => $control, timeout => 60 })->{message}
           {event}, 'drain', "reload $n: the launcher is told to resume");
        my $last = $control;
        $control = "new$n";
        $l->do(connect => { name => $control, path => $own->control });
        my $reply = $l->ask($control, { op => 'resume', v => 1,
            task_id => $task->{task_id}, lease => $lease },
            kinds => [map { { again => $_ } } 0 .. $#{ $task->{doors} }]);
        ok($reply->{ok}, 'it resumes on the new worker');
        $lease = $reply->{lease} // $lease;
        $l->do(close => { name => $last });
        is($shake->(2, 1, 3), '0 0 35', 'the same two are given one, and no third');
    }
    $own->stop;
};


subtest 'past its `handshakes` a second a task waits, and none fails' => sub {
    my ($l, $task) = $b->task('narrow');
    my $ca = $t->write('box-ca.pem', $task->{ca});
    my $shake = <<'END';
import socket, ssl, sys
c = ssl.create_default_context(cafile=sys.argv[1])
n = 0
for i in range(60):
    s = c.wrap_socket(socket.create_connection(("127.0.0.1", int(sys.argv[2]))),
                      server_hostname="api.internal")
    n += 1
    s.close()
print(n)
END
    is($l->do(run => { argv => ['/usr/bin/python3', '-c', $shake, $ca,
                                "$port"], timeout => 120 })->{data}, "60\n",
       'sixty handshakes at twenty a second are all made');
};


subtest 'past its `connections` a task waits for one of its own to end' => sub {
    my ($l) = $b->task('narrow');
    my $request = "GET $url HTTP/1.1\r\nHost: api.internal:$port\r\n\r\n";
    for my $id ('a', 'b') {
        $l->do(open => { id => $id, port => 8899 });
        $l->do(write => { id => $id, data => 'GET ' });
    }
    $l->do(open => { id => 'c', port => 8899 });
    $l->do(write => { id => 'c', data => $request });
    is($l->do(read => { id => 'c', timeout => 0.3 })->{data}, '',
       'a third connection is not served while two are busy');
    $l->do(shut => { id => 'a' });
    like($l->do(read => { id => 'c', timeout => 60 })->{data},
         qr/^HTTP\/1.1 200/, 'the third is served when one of the two ends');
    $l->do(open => { id => 'd', port => 8899 });
    $l->do(write => { id => 'd', data => $request });
    like($l->do(read => { id => 'd', timeout => 60 })->{data},
         qr/^HTTP\/1.1 200/, 'a connection that is idle is closed for the next');
    other_is_served();
};

# E-035: lines of the audit: past its budget a task ends, and what it was
# refused is in the line of its end

sub has_ended ($task) {
    return scalar $b->audit('task_end', task => $task->{task_id});
}

sub ends ($l, $task) {
    my $said = $l->do(receive => { name => 'task', timeout => 60 })->{message};
    is($said->{error}, 'audit_budget', 'the launcher is told the reason')
        or diag explain $said;
    ok($l->do(receive => { name => 'task', timeout => 60 })->{eof},
       'the connection of the launcher is closed');
    my $end = $b->audit_wait('task_end', task => $task->{task_id});
    is($end->{reason}, 'audit_budget', 'the line of the end has the reason');
    my @lines = grep { ($_->{task} // '') eq $task->{task_id} } $b->audit;
    is($end->{audit_lines}, scalar @lines,
       'the line of the end counts all lines');
    is($lines[-1]{event}, 'task_end', 'the end of the task is its last line');
    return ($end, scalar @lines);
}

subtest 'E-035 refused requests end a task at its budget of lines' => sub {
    my ($l, $task) = $b->task('lines');
    my $got = 0;
    for (1 .. 1000) {
        $r = eval { $l->get('http://evil.example/again', timeout => 1) };
        last if ($r->{status} // 0) != 403 && has_ended($task);
        $got++ if ($r->{status} // 0) == 403;
    }
    my ($end, $lines) = ends($l, $task);
    cmp_ok($lines, '<=', 202, 'a budget of 200 lines is kept');
    cmp_ok($end->{denied}, '>=', $got, 'each refusal is counted');
    ok(!eval { $l->get($url, timeout => 1)->{status} },
       'nothing of the task is served after its end');
    other_is_served();
};

subtest 'E-035 allowed requests end a task at its budget of lines' => sub {
    my ($l, $task) = $b->task('lines');
    for (1 .. 1000) {
        $r = eval { $l->get($url, timeout => 1) };
        last if ($r->{status} // 0) != 200 && has_ended($task);
    }
    my (undef, $lines) = ends($l, $task);
    cmp_ok($lines, '<=', 203, 'a budget of 200 lines is kept');
};

subtest 'E-035 bytes that are not a request end a task at its budget' => sub {
    my ($l, $task) = $b->task('lines');
    $l->do(open => { id => 'k', port => 8899 });
    for (1 .. 300) {                            # a line each
        eval { $l->http("\0\1\r\n\r\n", timeout => 1) };
        last if has_ended($task);
        $l->do(open => { id => 'n', port => 8899 });
        $l->do(shut => { id => 'n' });
    }
    ends($l, $task);
};

subtest 'E-035 a task ends at its budget of bytes in the audit' => sub {
    my ($l, $task) = $b->task('bytes');
    for (1 .. 1000) {
        $r = eval { $l->get('http://evil.example/' . 'x' x 900,
                            timeout => 1) };
        last if ($r->{status} // 0) != 403 && has_ended($task);
    }
    ends($l, $task);
    my $bytes = 0;
    $bytes += length for grep { /"task":"$task->{task_id}"/ }
                         split /^/,
                         $t->read($b->prefix . '/logs/agent-audit.log');
    cmp_ok($bytes, '<', 16 * 1024 + 4 * 4096, 'a budget of 16 KiB is kept');
    cmp_ok($bytes, '>', 8 * 1024, 'half of the budget and more was used');
};



for my $wrong ('0 1m', '10 0', '10', '10 1m 1', '-1 1m', '10000000000 1m',
               '10 x', '10 1m; audit_budget 10 1m') {
    my ($fits, $said) = $t->nginx_t(policy => "audit_budget $wrong;");
    ok(!$fits && $said =~ /"audit_budget".* in \S+:\d+/,
       "`audit_budget $wrong` is refused, with the line of the configuration")
           or diag $said;
}


# A flood without end: a budget ends it; and with the default of
# `refusals` it is a thousand lines, the rest is counted

my $events = $ENV{AGENT_TEST_EVENTS} || 20_000;

sub flood ($policy) {
    my ($l, $task) = $b->task($policy);
    my $run = $l->do(run => { timeout => 600, argv => ['/usr/bin/python3',
        "$AgentTest::LIB/ask_names.py", "$policy-",
        "$t->{dir}/never", "$events"], env => { PATH => $ENV{PATH} } });
    return ($l, $task, $run->{data} + 0);
}

subtest 'E-035 a flood of refusals ends a task at its budget' => sub {
    my ($l, $task, $answered) = flood('flood');
    my ($end, $lines) = ends($l, $task);
    cmp_ok($lines, '>=', 3000, 'three thousand lines are written');
    cmp_ok($lines, '<=', 3002, 'at most one line more is written, and one '
           . 'that counts what came after it');
    cmp_ok($end->{denied}, '>=', $answered, 'each refusal is counted');
};

subtest 'E-035 past the default `refusals` a flood is counted, not written'
    => sub {
    my ($l, $task, $answered) = flood('repeats');
    is($answered, 1064, 'a thousand refused names are answered, and a few');
    my $reply = $l->ask('task', { op => 'close', reason => 'ok',
                                  exit_code => 0, usage => {} });
    my @told = $b->audit('counted', task => $task->{task_id});
    is($reply->{egress}{audit_lines}, 1002 + @told,
       'a thousand have lines, beside the first and the last of the task');
    my $sum = 0;
    $sum += $_->{count} for @told;
    is($reply->{egress}{denied_count}, 1000 + $sum, 'each refusal is counted');
    cmp_ok($sum, '>=', 64, 'those after the thousandth in counted lines');
};


# What the broker ends leaves a result that says what it did, and what helps

for my $case (
    ['spent', 'refusals', qr/\braise "refusals"/],
    ['lines', 'audit_budget', qr/\braise "audit_budget"/],
) {
    my ($policy, $bound, $fix) = @$case;
    subtest "a box that is ended for its $bound has a summary and a fix" => sub {
        my $run = $t->jail(['run', '--control', $b->control, '--policy',
                            $policy, '--', 'python3', '-c', <<'END']);
import socket
while True:
    try:
        s = socket.create_connection(("127.0.0.1", 8899))
        s.sendall(b"GET http://evil.example/x HTTP/1.0\r\n\r\n")
        s.recv(4096)
        s.close()
    except OSError:
        pass
END
        my $r = $run->{json};
        is($r->{reason}, 'broker', 'the broker ended it') or diag explain $run;
        like($r->{error}{message}, qr/\($bound\)/, 'the message names the bound');
        like($r->{error}{fix}, $fix, 'the fix says what to raise');
        my $egress = $r->{egress};
        is("$egress->{denied}[0]{host} $egress->{denied}[0]{reason}",
           'evil.example host_not_allowed', 'what it was denied is listed');
        my ($end) = $b->audit('task_end', task => $r->{task_id});
        is($egress->{denied_count}, $end->{denied},
           'it has as many refusals as the line of its end');
        is($egress->{audit_lines},
           scalar(grep { ($_->{task} // '') eq $r->{task_id} } $b->audit),
           'it counts the lines of the audit');
    };
}


# G-004: past `refusals` a task's requests cost nearly nothing, and then it ends

# The task ends by `refusals`: the launcher is told, its lines of refusals are
# as many as the policy allows, and the counted ones add up

sub counts_add_up ($l, $task, $lines, $what) {
    my $said = $l->do(receive => { name => 'task', timeout => 60 });
    is($said->{message}{error} // $said->{message}, 'refusals',
       "$what: the launcher is told that the task has ended, and by what");
    my ($end) = $b->audit('task_end', task => $task->{task_id});
    is($end->{reason}, 'refusals', 'the line of its end has the reason');
    my @all = grep { ($_->{task} // '') eq $task->{task_id} } $b->audit;
    is(scalar(grep { $_->{event} =~ /^(?:egress|dns|door_error)$/
                     && ($_->{verdict} // 'denied') eq 'denied' } @all),
       $lines, "$lines refusals have lines of their own");
    my @counted = grep { $_->{event} eq 'counted' } @all;
    my $sum = 0;
    $sum += $_->{count} for @counted;
    is($sum, $end->{counted}{refusals},
       'the counted lines add up to what the end says');
    is($lines + $sum, $end->{denied}, 'both make all that was denied');
    is($all[-1]{event}, 'task_end', 'none comes after the end');
    my %seconds;
    $seconds{substr $_->{'@timestamp'}, 0, 19}++ for @counted;
    cmp_ok(scalar(@counted), '<=', 1 + keys(%seconds) + 1,
           'they are one a second') or diag explain \@counted;
    is($end->{audit_lines}, scalar @all, 'the end counts all lines');
}

# In the box: does a thing until nothing listens any more

my $flood = <<'END';
import socket, ssl, sys
what, port = sys.argv[1], int(sys.argv[2])
text = {
    "requests": b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "old": b"GET http://evil.example/ HTTP/1.0\r\n\r\n",
    "methods": b"X" * 8000 + b" http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "garbage": b"\0\1\2\r\n\r\n",
    "names": b"\0\1\1\0\0\1\0\0\0\0\0\0\4evil\7example\0\0\1\0\1",
    "names by TCP": b"\0\x1e\0\1\1\0\0\1\0\0\0\0\0\0\4evil\7example\0\0\1\0\1",
    "connects": b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
}.get(what)
context = ssl.create_default_context()
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
answers = failed = 0
while what == "names":
    try:
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.connect(("127.0.0.1", port))
        s.settimeout(0.02)
        s.send(text)
        s.send(text)
        s.recv(512)
    except TimeoutError:
        pass
    except ConnectionRefusedError:
        break
while what != "names":
    try:
        s = socket.create_connection(("127.0.0.1", port), timeout=60)
    except ConnectionRefusedError:
        break
    except OSError:
        failed += 1
        continue
    try:
        if text is None:
            context.wrap_socket(s, server_hostname="evil.example")
        s.sendall(text)
        if "names" in what:
            s.shutdown(socket.SHUT_WR)
        while s.recv(65536):
            answers += 1
    except OSError:
        failed += 1
    s.close()
print(answers, failed)
END

for my $what (['requests', 8899], ['old', 8899], ['methods', 8899],
              ['garbage', 8899], ['connects', 8899], ['hellos', 443],
              ['names', 53], ['names by TCP', 53]) {
    subtest "G-004: past its refusals a task ends: $what->[0]" => sub {
        my ($l, $task) = $b->task('spent');
        $l->do('forget');
        my $run = $l->do(run => { timeout => 120, argv => [
            '/usr/bin/python3', '-c', $flood, map { "$_" } @$what] });
        is($run->{status}, 0, 'the flood is over when nothing listens')
            or diag $run->{err};
        counts_add_up($l, $task, 5, $what->[0]);
        other_is_served();
    };
}


subtest 'G-004: past its refusals a task ends: streams of HTTP/2' => sub {
    my ($l, $task) = $b->task('spent');
    my $ca = $t->write('box-ca.pem', $task->{ca});
    $l->do('forget');
    for (1 .. 100) {
        last if has_ended($task);
        $l->do(run => { argv => ['curl', '-sS', '-Z', '--http2',
            '--cacert', $ca, '--connect-to', '::127.0.0.1:', '-X', 'DELETE',
            '-o', '/dev/null', "https://api.internal:$port/?[1-100]"],
            timeout => 90, env => { PATH => $ENV{PATH} } });
    }
    counts_add_up($l, $task, 5, 'streams');
    other_is_served();
};


# G-032: by default the audit has room for all that the other bounds allow

subtest 'G-032: a task makes all its requests within the default budget' => sub {
    my ($l, $task) = $b->task('scaled');
    my $ca = $t->write('box-ca.pem', $task->{ca});
    my $run = $l->do(run => { argv => ['curl', '-sS', '--max-time', '60',
        '--cacert', $ca, '-p', '-x', 'http://127.0.0.1:8899',
        map({ ('-o', '/dev/null', '-w', '%{http_code} ',
               '-H', 'Connection: close',
               "https://api.internal:$port/echo?[1-20]") } 1)],
        timeout => 90, env => { PATH => $ENV{PATH} } });
    is($run->{data}, '200 ' x 20, 'twenty requests in CONNECTs of their own');
    is(reason($l->get('http://evil.example/')), 'host_not_allowed',
       "refusal $_ has its reason") for 1 .. 5;
    is(reason($l->get($url)), 'refusals',
       'request 21 is refused by a bound that is used up, not by the audit');
    my $reply = $l->ask('task', { op => 'close', reason => 'ok',
                                  exit_code => 0, usage => {} });
    ok($reply->{ok}, 'the task has not ended by itself')
        or diag explain $reply;
    is($reply->{egress}{allowed}, 20, 'twenty requests were allowed');
};


# Live tasks: of a policy and user, and in all, over workers and a reload

subtest 'past `tasks` an open is busy, and another policy has its own' => sub {
    my $few = $t->broker(names => ['api.internal'], workers => 2,
        http => 'agent_tasks 6;', policy => <<'END');
    agent_policy few   { tasks 3; wall_clock 1h; }
    agent_policy other { wall_clock 1h; }
END
    my $l = $t->launcher;
    my $n = 0;
    my $open = sub ($policy) {
        my $name = 'open' . $n++;
        $l->do(connect => { name => $name, path => $few->control });
        return ($name, $l->ask($name, { v => 1, op => 'open',
                                        policy => $policy }));
    };
    my @few = map { [$open->('few')] } 1 .. 3;
    is(scalar(grep { $_->[1]{ok} } @few), 3, 'three tasks are opened');
    my (undef, $busy) = $open->('few');
    is($busy->{error}, 'busy', 'the fourth is refused as busy');
    like($busy->{message}, qr/^uid \d+ has 3 live tasks of policy "few".*"tasks"/,
         'the refusal says how many there are, and which directive');
    $few->reload;
    is((($open->('few'))[1])->{error}, 'busy', 'so it is after a reload');
    my @other = map { [$open->('other')] } 1 .. 3;
    is(scalar(grep { $_->[1]{ok} } @other), 3, 'another policy is served');
    (undef, $busy) = $open->('other');
    is($busy->{error}, 'busy', 'the seventh task of all is refused as busy');
    like($busy->{message}, qr/has 6 live tasks.*"agent_tasks"/,
         'the refusal says how many there are, and which directive');
    is($l->ask($other[0][0], { op => 'close', reason => 'ok',
                               exit_code => 0, usage => {} })->{ok}, 1,
       'one of them ends');
    ok((($open->('other'))[1])->{ok}, 'there is room for another then');
    $few->is_clean;
};


$b->is_clean;

done_testing;
