#!/usr/bin/perl

# The record: a decision is in the file before anything is dialled, one event
# is one whole line whatever a client sends, and what cannot be recorded does
# not happen.
#
# sanitizers: what a box writes becomes lines of the audit

use v5.36;

use lib 't/lib';
use AgentTest;
use JSON::PP ();
use MIME::Base64 ();
use POSIX ();
use Test::More;

my $token = 'sk_audit_0123456789abcdef_marker';

my $t   = AgentTest->new;
my $dns = $t->dns({ '*.internal' => { A => ['127.0.0.1'] } });

# made first, for the upstream to watch
my $prefix = $t->nginx_prefix(prefix => "$t->{dir}/watched");
my $file = $t->write("$prefix/logs/agent-audit.log",
                     '{"torn":"a line that a crash cut', 0600);

my $up = $t->upstream(names => ['api.internal'], no_keepalive => 1,
                      watch => $file, watch_for => '"event":"egress",');
my $port = $up->port;
my $A = "api.internal:$port";

my $ca = $t->ca->{cert};
my @names = (dns => $dns, vault => $t->write('vault', "api = $token\n", 0600));
my $policies = <<"END";
    agent_policy analysis {
        requests 1000000;
        audit_budget 1000000 1g;
        refusals 1000000;
        host $A { methods GET POST; bearer api; private 127.0.0.0/8;
                  trusted_certificate $ca; }
    }
    agent_policy other { }
END
my %opt = (@names, policy => $policies, http =>
           'resolver_timeout 3s; client_header_timeout 1500ms;');

my $b = $t->broker(%opt, prefix => $prefix, env => { TZ => 'Asia/Kolkata' });
my ($l, $task) = $b->task;


# The file

my @raw;

subtest 'D-025 half a line at the end of an earlier life is not glued to '
    . 'the next'
    => sub {
    my @stat = stat $file;
    is($stat[2] & 07777, 0640, 'the file is given mode 0640, whatever it had');
    is($stat[4], $>, 'the file belongs to the master\'s user');

    @raw = split /(?<=\n)/, $t->read($file);
    is($raw[0], "{\"torn\":\"a line that a crash cut\n",
       'the half line is ended with a newline');
    ok(JSON::PP::decode_json($raw[1]), 'the line after it is whole');
};

# from here on the file is a whole one
{
    open my $f, '+<', $file or die;
    my $rest = join '', @raw[1 .. $#raw];
    truncate $f, 0;
    syswrite $f, $rest;
}


# The decision is in the file before the upstream is dialled

subtest 'a decision is in the file before its upstream is dialled' => sub {
    for my $i (1 .. 20) {
        is($l->get("http://$A/first")->{status}, 200,
           "allowed request $i is served");
    }
    my @accepts = $up->events('accept');
    is(scalar @accepts, 20, '20 requests dial 20 times');
    is_deeply([grep { $_->{watched} < $_->{conn} } @accepts], [],
              'each decision was in the file when the upstream was dialled');
    AgentTest::wait_for('the ends', sub { $b->audit('egress_end') == 20 });
    is(scalar(grep { $_->{verdict} eq 'allowed' } $b->audit('egress')), 20,
       'each request has one decision');
    my %pairs;
    $pairs{ $_->{request} }++ for $b->audit('egress'), $b->audit('egress_end');
    is_deeply([grep { $_ != 2 } values %pairs], [],
              'each decision has one end, with an id that no other has');
};


# D-001, D-004: what a client writes stays inside its field

subtest 'D-001 D-004 D-026 what a client writes stays inside its field'
    => sub {
    my $forged = '{"@timestamp":"2026-01-01T00:00:00.000Z","schema":1,'
               . '"event":"egress","verdict":"allowed"}';
    my $lines = () = $t->read($file) =~ /\n/g;
    my $n = 0;
    for my $path ("/%0a$forged", "/%0d%0a$forged", '/x","verdict":"allowed","y":"',
                  '/\\","verdict":"allowed"', '/%c2%85%e2%80%a8x', "/'\"\\\\\"",
                  "/$forged", '/%22%7d%0a') {
        for my $host ($A, 'evil.example') {
            for my $form ("http://$host$path", $path) {
                my $r = $l->http("GET $form HTTP/1.1\r\nHost: $host\r\n"
                    . "User-Agent: $forged\r\nReferer: $forged\r\n"
                    . "Connection: close\r\n\r\n");
                is($r->{status}, $host eq $A ? 200 : 403,
                   "a path like a line of the audit is judged: $form")
                    or diag $r->{raw};
                $n += $host eq $A ? 2 : 1;
            }
        }
    }
    for my $raw ("GET /\n$forged\nHost: x\r\n\r\n", "$forged\r\n\r\n",
                 "GET / HTTP/1.1\r\nHost: a\"$forged\r\n\r\n",
                 "CONNECT evil.example:443\n$forged HTTP/1.1\r\n\r\n",
                 "\n$forged\r\n\r\n", "GET /\e[2J\x9b HTTP/1.1\r\n\r\n") {
        $l->http($raw);
        $n++;
    }
    AgentTest::wait_for('the lines', sub {
        ($t->read($file) =~ tr/\n//) - $lines >= $n
    });
    is(($t->read($file) =~ tr/\n//) - $lines, $n,
       'each request leaves one line');
    is_deeply([$b->audit_errors], [],
              'each line has the keys of the schema and no other');
    my @doubled = grep { my %seen; grep { $seen{$_}++ } /"([a-z_@]+)":/g }
                  grep { !/"request_line"|"path":"[^"]*\\"/ }
                  split /\n/, $t->read($file);
    is_deeply(\@doubled, [], 'no line has a key twice');
    my @order = map { join ' ', /"([a-z_@]+)":/g }
                grep { /"event":"egress",/ && /"path":"\/first"/ }
                split /\n/, $t->read($file);
    is_deeply([grep { $_ ne '@timestamp schema event writer seq task policy '
                      . 'policy_hash uid verdict reason rule method scheme host '
                      . 'port address addresses path query_bytes credential vault '
                      . 'request' }
               @order], [], 'the keys of a line are always in one order');
};


# D-005: long ones are cut, and say so

subtest 'D-005 what is too long is cut, and the line says so' => sub {
    for my $kib (1, 2, 4, 7, 8, 16, 32, 64) {
        for my $host ($A, 'evil.example') {
            my $path = '/' . 'p' x ($kib * 1024) . 'MARKER';
            my $before = () = $b->audit;
            my $r = $l->get("http://$host$path?q=" . 'q' x 10);
            my $line;
            AgentTest::wait_for("the line of $kib KiB", sub {
                my @new = $b->audit;
                ($line) = grep { $_->{event} =~ /^(egress|door_error)$/ }
                          @new[$before .. $#new];
                return $line;
            });
            ok($line->{cut}, "$kib KiB: the line says that it is cut");
            is($r->{status}, $kib >= 8 ? 414 : $host eq $A ? 200 : 403,
               "$kib KiB: the request is answered");
            if ($kib >= 8) {
                is($line->{reason}, 'uri_too_large',
                   "$kib KiB: the line has the reason uri_too_large");
                like($line->{request_line}, qr{^GET http://\Q$host\E/p},
                     "$kib KiB: the request line has the host");
            } else {
                is($line->{host}, $host =~ s/:.*//r,
                   "$kib KiB: the line has the host");
                like($line->{path}, qr{^/p{900}},
                     "$kib KiB: the line has as much of the path as fits");
                is($line->{query_bytes}, 12,
                   "$kib KiB: the line has the length of the query");
            }
            AgentTest::wait_for('its end', sub { (() = $b->audit) > $before + 1 })
                if $r->{status} == 200;
        }
    }
    my $long = join '.', ('a' x 60) x 4;
    $l->get("http://$long/");
    is($b->audit_wait('egress', host => $long)->{cut}, undef,
       'a name of 243 bytes is not cut');
};


# D-007: no secrets of anybody

subtest 'C-017 D-007 no secret of a client is kept' => sub {
    for my $host ($A, 'evil.example') {
        $l->get("http://$host/p?token=pa55query&sig=pa55sig", headers => [
            'Authorization: Basic pa55header', 'Cookie: pa55cookie',
            'X-Api-Key: pa55key']);
        my $line = $b->audit_wait('egress', query_bytes => 27,
                                  host => $host =~ s/:.*//r);
        is($line->{path}, '/p', 'the path is kept, the query only counted');
    }
    $l->http("GET http://user:pa55word\@evil.example/ HTTP/1.1\r\n\r\n");
    $l->http('CONNECT user:pa55word@evil.example:443 HTTP/1.1' . "\r\n\r\n");
    $l->http("GET http://user:" . 'pa55word' x 200 . "\@evil.example/ "
             . "HTTP/1.1\r\n\r\n");
    $l->get('http://evil.example/after');
    $b->audit_wait('egress', path => '/after');
    unlike($t->read($file), qr/pa55|\Q$token/,
           'no header, query or user information of a client is in the file');
};


# D-009, D-010: whose line it is

subtest 'D-009 D-010 a line has the task of its listener and an id of '
    . 'the broker'
    => sub {
    my $second = $t->launcher;
    my $task2 = $second->open_task($b->control, 'other');
    isnt($task2->{task_id}, $task->{task_id}, 'two tasks have two ids');
    my %hash = ($task->{task_id} => $task->{policy_hash},
                $task2->{task_id} => $task2->{policy_hash});
    for my $i (1 .. 10) {
        my @ids = ("X-Request-Id: $task->{task_id}", "X-Trace-Id: $i",
                   "traceparent: 00-$task->{task_id}-0-01",
                   "X-Request-Id: a\tb", 'X-Request-Id: ' . 'x' x 4000,
                   "X-Task: $task->{task_id}");
        $l->get("http://$A/mine/$i", headers => \@ids);
        $second->get("http://$A/theirs/$i", headers => \@ids);
    }
    my @mine = grep { ($_->{path} // '') =~ m{^/mine/} } $b->audit('egress');
    my @theirs = grep { ($_->{path} // '') =~ m{^/theirs/} } $b->audit('egress');
    is("@{[ scalar @mine ]} @{[ scalar @theirs ]}", '10 10',
       'ten requests of each of two tasks are recorded');
    is_deeply([grep { $_->{task} ne $task->{task_id} } @mine], [],
              'each request of the first task has its id');
    is_deeply([grep { $_->{task} ne $task2->{task_id} } @theirs], [],
              'each request of the second task has its id');
    is_deeply([grep { $_->{policy_hash} ne $hash{ $_->{task} } } @mine, @theirs],
              [], 'each line has the hash of its task\'s policy');
    my %request;
    $request{ $_->{request} }++ for @mine, @theirs;
    is(scalar keys %request, 20, 'each request has an id of its own');
    is_deeply([grep { !/^[0-9a-f]{16}$/ } keys %request], [],
              'no id is one that the client sent');
    $second->ask('task', { op => 'close', reason => 'ok', exit_code => 0,
                           usage => {} });
    my $third = $t->launcher;
    my $task3 = $third->open_task($b->control, 'other');
    ok(!$hash{ $task3->{task_id} }, 'the id of a task is not used again');
};


# D-011: time

subtest 'D-011 times are UTC, and a duration is that of the request' => sub {
    my $began = time;
    is($l->get("http://$A/slow?ms=300")->{status}, 200,
       'control: a slow answer is served');
    my ($end) = grep { $_->{duration_ms} >= 250 } $b->audit_wait('egress_end',
        request => ($b->audit_wait('egress', path => '/slow'))->{request});
    my $measured = (time - $began + 1) * 1000;
    cmp_ok($end->{duration_ms}, '<=', $measured,
           'the duration is at most what the test measured around it')
        or diag explain $end;
    my ($first, $last) = map { POSIX::strftime('%Y-%m-%dT%H:%M:%S', gmtime $_) }
                         $began, time + 1;
    my $at = $end->{'@timestamp'};
    like($at, qr/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/,
         'a time is UTC with milliseconds');
    ok($first le $at && $at le $last,
       'a time lies in the request, whatever TZ says')
        or diag "$first $at $last";
    my @times = map { $_->{'@timestamp'} } grep { $_->{writer} eq $end->{writer} }
                $b->audit;
    is_deeply(\@times, [sort @times],
              'the times of one writer do not go back');
};


# D-013: what never becomes a request

sub requests_recorded () {
    return grep { $_->{event} =~ /^(?:door_error|egress)$/ } $b->audit;
}

sub early ($what, $do, $reason) {
    my $before = () = requests_recorded();
    $do->();
    AgentTest::wait_for("the line of $what", sub {
        my $now = () = requests_recorded();
        return $now > $before;
    });
    my @new = requests_recorded();
    my $line = $new[-1];
    is(@new - $before, 1, "$what leaves one line");
    is($line->{task}, $task->{task_id}, "$what: the line has the task");
    like($line->{reason}, $reason, "$what: the line has the reason");
    return $line;
}
sub partial ($text, $wait = 0) {
    return sub {
        $l->do(open => { id => 'e', port => 8899 });
        $l->do(write => { id => 'e', data => $text });
        $l->do(read => { id => 'e', timeout => 10 }) if $wait;
        $l->do(shut => { id => 'e' });
    };
}
subtest 'D-013 what never becomes a request leaves a line' => sub {
    early('half a request line', partial("GET http://$A/ha"), qr/^malformed/);
    early('half a header', partial("GET http://$A/ HTTP/1.1\r\nHost: a"),
          qr/^malformed/);
    early('half a CONNECT', partial("CONNECT $A"), qr/^malformed/);
    early('half of the word', partial("CONN"), qr/^malformed/);
    early('a line that does not go on', partial("GET http://$A/st", 1),
          qr/^timeout/);
    early('headers that do not go on',
          partial("GET http://$A/ HTTP/1.1\r\nHost: $A\r\n", 1), qr/^timeout/);
    early('a CONNECT that does not go on', partial("CONNECT $A", 1),
          qr/^(?:timeout|malformed)/);
    early('noise', partial("\0\1\2\3\r\n\r\n", 1), qr/^malformed/);
    early('a TLS hello', partial("\x16\x03\x01\x00\xa5\x01\x00\x00\xa1" . 'x' x 161,
                                 1), qr/^malformed/);
    early('a client that is gone', sub {
        $l->do(open => { id => 'e', port => 8899 });
        $l->do(write => { id => 'e', data => "GET http://$A/slow?ms=30000 "
            . "HTTP/1.1\r\nHost: $A\r\n\r\n" });
        AgentTest::wait_for('it to arrive', sub {
            grep { $_->{target} =~ /ms=30000/ } $up->requests
        });
        $l->do(shut => { id => 'e' });
    }, qr/^rule/);
    ok($b->audit_wait('egress_end', status => 499),
       'the request of a client that is gone ends with status 499');

    my $quiet = () = $b->audit;
    for (1 .. 5) {
        $l->do(open => { id => 'q', port => 8899 });
        $l->do(shut => { id => 'q' });
    }
    $l->get('http://evil.example/quiet');
    $b->audit_wait('egress', path => '/quiet');
    is(scalar(() = $b->audit), $quiet + 1,
       'a connection that sends no byte leaves no line');
};


# D-020: only a regular file

subtest 'D-020 only a regular file is written to as the audit' => sub {
    for my $case (
        ['a symbolic link', sub ($p) { symlink "$p.to", $p }],
        ['a link to a file that is there', sub ($p) { symlink $file, $p }],
        ['a FIFO', sub ($p) { POSIX::mkfifo($p, 0600) }],
        ['a directory', sub ($p) { mkdir $p }],
        ['a device', sub ($p) { symlink '/dev/null', $p }],
    ) {
        my ($what, $make) = @$case;
        state $i = 0;
        my $path = "$t->{dir}/odd" . $i++;
        $make->($path);
        my ($fits, $said) = $t->nginx_t(%opt, audit_path => $path);
        ok(!$fits, "$what is refused by nginx -t") or diag $said;
        like($said, qr/agent_audit/, "$what: nginx -t names the directive");
        ok(!eval { $t->broker(%opt, audit_path => $path) },
           "$what is refused by the start");
        ok(!-e "$path.to", "$what: nothing is made behind it");
    }
    ok(!eval { $t->broker(%opt, audit_path => "$t->{dir}/none/x.log") },
       'a directory that does not exist is refused by the start');
};


# D-024: a worker that is killed

subtest 'D-024 no line is lost with a worker that is killed' => sub {
    my ($before) = scalar(() = $b->audit('egress'));
    for my $i (1 .. 50) {
        $l->get("http://$A/kill/$i");
    }
    my ($worker) = $b->workers;
    kill 'KILL', $worker;
    is(scalar(() = $b->audit('egress')), $before + 50,
       'each of 50 requests before the kill has its decision');
    AgentTest::wait_for('another worker', sub {
        my @now = $b->workers;
        return @now && $now[0] != $worker;
    });
    is_deeply([$b->audit_errors], [],
              'every line is whole and follows in number');
    $b->stop;
    like($b->error_log, qr/\[alert\].* \d+ bytes were cut off the audit file/,
         'control: what this test cut off at its start is reported');
    unlike($b->error_log =~ s/^.*(?:exited on signal 9|were cut off).*$//mgr,
           qr/\[(?:alert|emerg)\]/,
           'nothing else is reported at alert or emerg')
        or diag grep { /\[(?:alert|emerg)\]/ } split /^/m, $b->error_log;
};


# D-006: many writers

subtest 'D-006 lines of many writers are neither torn nor mixed' => sub {
    my $b = $t->broker(%opt, workers => 4);
    my @boxes = map { $t->launcher } 1 .. 12;
    for my $i (0 .. $#boxes) {
        ok($boxes[$i]->open_task($b->control, 'analysis')->{ok},
           "box $i has a task");
    }
    my ($rounds, $answers) = (40, 0);
    for my $round (1 .. $rounds) {
        for my $box (@boxes) {                  # all at once
            my $host = $round % 2 ? $A : 'evil.example';
            my $data = "GET http://$host/" . 'x' x int(rand 1500)
                . " HTTP/1.1\r\nHost: $host\r\nConnection: close\r\n\r\n";
            syswrite $box->{in}, JSON::PP::encode_json({
                do => 'exchange', port => 8899, timeout => 15,
                data => MIME::Base64::encode_base64($data, '') }) . "\n";
        }
        for my $box (@boxes) {
            my $answer = JSON::PP::decode_json(
                scalar readline $box->{out});
            $answers++ if MIME::Base64::decode_base64($answer->{data} // '')
                          =~ m{^HTTP/1\.1 (?:200|403)};
        }
    }
    my $all = @boxes * $rounds;
    is($answers, $all, "$all requests of 12 boxes at 4 workers are answered");
    AgentTest::wait_for('their ends', sub {
        $b->audit('egress_end') >= $all / 2
    });
    is(scalar(() = $b->audit('egress')), $all,
       'each request has one decision');
    is(scalar(() = $b->audit('egress_end')), $all / 2,
       'each allowed request has one end');
    my %writer = map { $_->{writer} => 1 } $b->audit('egress');
    cmp_ok(scalar keys %writer, '>', 1, 'control: several workers wrote them');
    is_deeply([$b->audit_errors], [],
              'every line is whole and follows in number');
    $b->stop;
};


# The ends of requests, many in one pass of the event loop, are in the file
# before the end of their task is, and before the worker's

subtest 'D-024 the ends of many requests are in the file before that of '
    . 'their task'
    => sub {
    for my $way ('close', 'QUIT') {
        my $b = $t->broker(%opt);
        my ($l, $task) = $b->task;
        my $all = 40;

        for my $i (1 .. $all) {
            $l->do(open => { id => $i, port => 8899 });
            $l->do(write => { id => $i, data => "GET http://$A/slow?ms=500 "
                . "HTTP/1.1\r\nHost: $A\r\nConnection: close\r\n\r\n" });
        }
        AgentTest::wait_for('all decisions', sub { $b->audit('egress') == $all });

        my $reply;
        if ($way eq 'close') {
            $reply = $l->ask('task', { op => 'close', reason => 'ok',
                                       exit_code => 0, usage => {} });
        } else {
            $b->quit;
        }

        my @lines = $b->audit;
        my ($last) = grep { $lines[$_]{event} eq 'egress_end' }
                     reverse 0 .. $#lines;
        my ($end) = grep { $lines[$_]{event} eq ($reply ? 'task_end' : 'worker')
                           && ($lines[$_]{action} // '') ne 'start' }
                    0 .. $#lines;
        is(scalar(() = $b->audit('egress_end')), $all,
           "$way: each request has an end");
        cmp_ok($last, '<', $end,
               "$way: the ends come before the line that ends them all");
        if ($reply) {
            my @mine = grep { ($_->{task} // '') eq $task->{task_id} } @lines;
            is($reply->{egress}{audit_lines}, scalar @mine,
               "$way: the reply to close counts all lines");
            is($lines[$end]{audit_lines}, scalar @mine,
               "$way: the line of the task's end counts all lines");
        } else {
            is($lines[$end]{last_seq}, $lines[$end]{seq} - 1,
               "$way: the line of the worker's end follows its last number");
        }
        is_deeply([$b->audit_errors], [],
                  "$way: every line is whole and follows in number");
        $b->stop if $reply;
    }
};


# What was recorded is sent once: also when the client's connection has an
# event between the write of the line, which came early with another request's
# refusal, and the turn of those who wait for theirs

subtest 'a request whose decision is on record is sent once' => sub {
    my $seldom = $t->dns({ 'api.internal' => { A => ['127.0.0.1'],
                                               ttl => 0 } });
    my $keeps = $t->upstream(names => ['api.internal']);
    my $K = 'api.internal:' . $keeps->port;
    my $b = $t->broker(%opt, dns => $seldom,
                       policy => $policies =~ s/host \K\Q$A\E/$K/r);
    my ($l) = $b->task;
    my ($worker) = $b->workers;
    my $get = sub ($url, $host = $K) {
        return "GET http://$url HTTP/1.1\r\nHost: $host\r\n\r\n";
    };
    my $write = sub ($id, $data) { $l->do(write => { id => $id,
                                                   data => $data }) };
    my $read = sub ($want) {
        my $data = '';
        while ($data !~ $want) {
            my $r = $l->do(read => { id => 'one', timeout => 5 });
            last unless length($r->{data} // '');
            $data = substr($data, -200) . $r->{data};
        }
        return $data;
    };

    # the writing of this answer waits, so that the connection is watched for
    # it from then on; and it leaves a connection to the upstream

    $l->do(open => { id => 'one', port => 8899 });
    $write->('one', $get->("$K/big?n=8000000"));
    sleep 2;                            # the name is asked for anew
    my $got = 0;
    while ($got < 8_000_000) {
        my $r = $l->do(read => { id => 'one', timeout => 5 });
        last unless length($r->{data} // '');
        $got += length $r->{data};
    }
    AgentTest::wait_for('its end', sub { $b->audit('egress_end') == 1 });

    # in one pass: the address, a refusal, and more from the client

    my $asked = () = $t->read($seldom->{log}) =~ /\n/g;
    $l->do(open => { id => 'other', port => 8899 });
    kill 'STOP', $seldom->{pid};
    $write->('one', $get->("$K/once"));
    $t->wait_idle($worker, 'while its question waits');
    kill 'STOP', $worker;
    kill 'CONT', $seldom->{pid};
    AgentTest::wait_for('the answers for both families', sub {
        (() = $t->read($seldom->{log}) =~ /\n/g) >= $asked + 2
            && $t->read('/proc/net/udp')
               =~ /:@{[sprintf '%04X', $seldom->{port}]} 01 \d+:0*[1-9A-F]/
    });
    $write->('other', $get->('evil.example/', 'evil.example'));
    $write->('one', $get->("$K/next"));
    kill 'CONT', $worker;
    $read->(qr/HTTP.*HTTP/s);

    my @seqs = map { $_->{seq} } $b->audit('egress', path => '/once'),
                                 $b->audit('egress', host => 'evil.example');
    is(scalar @seqs, 2, 'control: there are a decision and a refusal')
        or diag explain [$b->audit];
    is($seqs[1], $seqs[0] + 1, 'control: both were written together');
    is(scalar(grep { $_->{target} eq '/once' } $keeps->requests), 1,
       'the request was sent once');
    $b->stop;
};


# D-018: a full disk

SKIP: {
    skip 'D-018 a full disk: only root can mount a small file system', 1
        unless AgentTest::is_root();
    subtest 'D-018 on a full disk nothing is sent, and it goes on with room'
        => sub {

    my $small = "$t->{dir}/small";
    local $ENV{AGENT_TEST_NGINX} = $t->nginx_on_small_disk($small);
    my $b = $t->broker(%opt, audit_path => "$small/agent-audit.log");
    my $root = '/proc/' . $b->master . '/root';
    my $log = "$root$small/agent-audit.log";
    $b->{opt}{audit} = $log;
    ok(-s $log && !-e "$small/agent-audit.log",
       'control: the audit is in a small file system that only nginx sees');

    my ($l) = $b->task;
    is($l->get("http://$A/room")->{status}, 200,
       'while there is room a request is served');

    my ($full, $wrote) = (0, 0);
    for my $size (4096, 512, 1) {
        open my $f, '>>', "$root$small/filler" or die "filler: $!";
        $wrote += $size while syswrite $f, 'x' x $size;
    }

    my (%got, $r);
    my $served = () = $up->requests;
    my $i = 0;
    do {
        $r = $l->get("http://$A/fill/" . 'x' x 300);
        $got{ $r->{status} }++;
    } while ($r->{status} == 200 && ++$i < 200);
    is($r->{status}, 503, 'a request that cannot be recorded is answered 503');
    is(JSON::PP::decode_json($r->{body})->{reason}, 'audit_unavailable',
       'the answer has the reason audit_unavailable');
    is(scalar(() = $up->requests), $served + ($got{200} // 0),
       'a request that was not recorded was not sent');

    my $dials = $up->connections;
    for (1 .. 10) {
        is($l->get("http://$A/full")->{status}, 503,
           'without room every allowed request is answered 503');
    }
    is($up->connections, $dials, 'without room no upstream is dialled');
    is($l->get('http://evil.example/')->{status}, 403,
       'without room a refused request is refused as before');
    is($l->http("GET / HTTP/1.1\r\n\r\n")->{status}, 400,
       'without room bytes that are not a request are answered 400');
    like($b->error_log, qr/\[crit\].*audit line cannot be written/,
         'the error log says that the audit cannot be written');

    # of many decisions in one pass of the event loop, some find room

    truncate "$root$small/filler", (-s "$root$small/filler") - 4096
        or die "filler: $!";
    $served = () = $up->requests;
    my ($first) = $b->workers;
    kill 'STOP', $first;
    for my $i (1 .. 40) {
        $l->do(open => { id => $i, port => 8899 });
        $l->do(write => { id => $i, data => "GET http://$A/batch/$i HTTP/1.1"
            . "\r\nHost: $A\r\nConnection: close\r\n\r\n" });
    }
    kill 'CONT', $first;
    my %batch;
    for my $i (1 .. 40) {
        my $data = $l->do(read => { id => $i, timeout => 10 })->{data} // '';
        $batch{ ($data =~ m{^HTTP/1\.1 (\d+)})[0] // $data }++;
        $l->do(shut => { id => $i });
    }
    is(join(' ', sort keys %batch), '200 503',
       'of 40 decisions at once some find room and some do not');
    is($batch{200} + $batch{503}, 40, 'each of the 40 has an answer');
    is(scalar(() = $up->requests), $served + $batch{200},
       'a request whose decision found no room was not sent');
    is(scalar(() = $t->read($log) =~ /"verdict":"allowed".*batch.*\}\n/g),
       $batch{200}, 'a request whose decision found room is on record');

    unlink "$root$small/filler" or die "filler: $!";
    is($l->get("http://$A/again")->{status}, 200,
       'with room again a request is served');
    is($b->audit_wait('egress', path => '/again')->{verdict}, 'allowed',
       'with room again a request is recorded') if eval { $b->audit; 1 };

    my @lines = split /\n/, $t->read($log);
    my @torn = grep { !eval { JSON::PP::decode_json($_) } } @lines;
    cmp_ok(scalar @torn, '<=', 3, 'at most three lines are torn');
    is_deeply([grep { (() = /"\@timestamp"/g) > 1 } @lines], [],
              'no torn line is glued to another');
    is(scalar(grep { /"event":"egress",.*"verdict":"allowed".*\}$/ } @lines),
       2 + ($got{200} // 0) + $batch{200},
       'every request that was sent is on record');
    is(($b->workers)[0], $first, 'the worker is the same');
    $b->stop;
    unlike($b->error_log, qr/\[(?:alert|emerg)\]/,
           'nothing is reported at alert or emerg')
        or diag $b->error_log;
    };
}

unlike($b->error_log, qr/\Q$token/, 'the token is not in the error log');

done_testing;
