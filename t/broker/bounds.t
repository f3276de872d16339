#!/usr/bin/perl

# What the broker does for one box is bounded: past a bound a box is told so,
# or waits, and another box does not notice.

use v5.36;

use lib 't/lib';
use AgentTest;
use Test::More;

my $t   = AgentTest->new;
my $up  = $t->upstream(names => ['api.internal', '*.wild.example']);
my $dns = $t->dns({ map { $_ => { A => ['127.0.0.1'] } }
                    'api.internal', map { "h$_.wild.example" } 1 .. 4 });
my $port = $up->port;

my $host = "private 127.0.0.0/8; trusted_certificate @{[$t->ca->{cert}]};";

my $b = $t->broker(http => <<"END");
    resolver 127.0.0.1:$dns->{port};
    agent_audit logs/agent-audit.log;
    agent_policy narrow {
        connections 2;
        requests    3;
        handshakes  20;
        mints       2;
        names       4;
        refusals    5;
        host api.internal:$port { $host }
        host *.wild.example:$port { $host }
    }
    agent_policy lines {
        refusals     1000000;
        names        1000000;
        audit_budget 200 1g;
        host api.internal:$port { $host }
    }
    agent_policy bytes {
        audit_budget 1000000 16k;
        host api.internal:$port { $host }
    }
    agent_policy flood {
        names        1000000000;
        refusals     1000000000;
        wall_clock   1h;
    }
    agent_policy repeats {
        names        1000000000;
        wall_clock   1h;
    }
    agent_policy plain {
        host api.internal:$port { $host }
    }
    server {
        agent_control unix:%CONTROL%;
        include $AgentTest::ROOT/conf/agent_proxy.conf;
    }
END

sub box ($policy) {
    my $l = $t->launcher;
    my $task = $l->open_task($b->control, $policy);
    die explain $task unless $task->{ok};
    return ($l, $task);
}

sub reason ($r) { return (eval { JSON::PP::decode_json($r->{body}) } // {})->{reason} }

my $url = "http://api.internal:$port/echo";
my ($other) = box('plain');


# Requests

my ($l, $task) = box('narrow');
is($l->get($url)->{status}, 200, "request $_ of 3 is served") for 1 .. 3;
my $r = $l->get($url);
is("$r->{status} " . reason($r), '429 requests', 'the fourth is told why not');
is($other->get($url)->{status}, 200, 'another task goes on');


# Refusals

($l, $task) = box('narrow');
for (1 .. 5) {
    is(reason($l->get('http://evil.example/')), 'host_not_allowed',
       "refusal $_ of 5 says why");
}
for (1 .. 3) {
    $r = $l->get('http://evil.example/');
    is("$r->{status} " . reason($r), '429 refusals', 'and then no longer');
}
is(scalar($b->audit('egress', task => $task->{task_id})), 6,
   'five lines, and one that says that it is over');


# Names

($l, $task) = box('narrow');
my $ask = 'import socket,sys; s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM);'
        . 's.settimeout(5); s.connect(("127.0.0.1",53));'
        . 's.send(b"\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\3api\\x08internal\\0\\0\\1\\0\\1");'
        . 'print(s.recv(512)[3] & 15)';
my @codes = map {
    my $run = $l->do(run => { argv => ['/usr/bin/python3', '-c', $ask] });
    $run->{status} ? $run->{err} : $run->{data} =~ s/\s//gr;
} 1 .. 6;
is("@codes", '0 0 0 0 5 5', 'four names are answered, then none');
is(scalar($b->audit('dns', task => $task->{task_id}, reason => 'names')), 1,
   'and one line says so');


# Certificates

($l, $task) = box('narrow');
my $ca = $t->write('box-ca.pem', $task->{ca});
my @exits = map {
    $l->do(run => { argv => ['curl', '-sS', '-o', '/dev/null', '--max-time',
        '20', '--cacert', $ca, '--connect-to', '::127.0.0.1:',
        "https://h$_.wild.example:$port/echo"],
        env => { PATH => $ENV{PATH} } })->{status}
} 1, 2, 1, 3;
is("@exits", '0 0 0 35', 'two names are minted, the third is not');
is(scalar($b->audit('egress', task => $task->{task_id}, reason => 'mints')),
   1, 'and its line says so');


# Handshakes: none fails, they wait for their turn

my ($l2, $task2) = box('plain');
($l, $task) = box('narrow');
$ca = $t->write('box-ca.pem', $task->{ca});
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
is($l->do(run => { argv => ['/usr/bin/python3', '-c', $shake, $ca, "$port"] })
   ->{data}, "60\n", 'sixty handshakes at twenty a second are all made');


# Connections at once

($l, $task) = box('narrow');
$l->do(open => { id => 'a', port => 8899 });
$l->do(write => { id => 'a', data => 'GET ' });
$l->do(open => { id => 'b', port => 8899 });
$l->do(write => { id => 'b', data => 'GET ' });
$l->do(open => { id => 'c', port => 8899 });
$l->do(write => { id => 'c', data => "GET $url HTTP/1.1\r\n"
                                   . "Host: api.internal:$port\r\n\r\n" });
is($l->do(read => { id => 'c', timeout => 0.3 })->{data}, '',
   'a third connection waits while two are busy');
$l->do(shut => { id => 'a' });
like($l->do(read => { id => 'c', timeout => 10 })->{data}, qr/^HTTP\/1.1 200/,
     'and is served when one of them ends');
$l->do(open => { id => 'd', port => 8899 });
$l->do(write => { id => 'd', data => "GET $url HTTP/1.1\r\n"
                                   . "Host: api.internal:$port\r\n\r\n" });
like($l->do(read => { id => 'd', timeout => 10 })->{data}, qr/^HTTP\/1.1 200/,
     'one that is idle makes room for the next');
is($other->get($url)->{status}, 200, 'another task goes on');

# E-035: lines of the audit: past its budget a task ends, and what it was
# refused is in the line of its end

sub ends ($l, $task, $what) {
    my $said = $l->do(receive => { name => 'task', timeout => 10 })->{message};
    is($said->{error}, 'audit_budget', "$what: the launcher is told why")
        or diag explain $said;
    ok($l->do(receive => { name => 'task', timeout => 10 })->{eof},
       "$what: and has no lease any more");
    my $end = $b->audit_wait('task_end', task => $task->{task_id});
    is($end->{reason}, 'audit_budget', "$what: so is the auditor");
    my @lines = grep { ($_->{task} // '') eq $task->{task_id} } $b->audit;
    is($end->{audit_lines}, scalar @lines, "$what: all lines are counted");
    is($lines[-1]{event}, 'task_end', "$what: its end is the last of them");
    return ($end, scalar @lines);
}

($l, $task) = box('lines');
my $got = 0;
for (1 .. 1000) {
    $r = eval { $l->get('http://evil.example/again') };
    last unless $r && ($r->{status} // 0) == 403;
    $got++;
}
my ($end, $lines) = ends($l, $task, 'refusals');
cmp_ok($lines, '<=', 202, 'a budget of 200 lines is kept');
cmp_ok($end->{denied}, '>=', $got, 'each refusal is counted');
ok(!eval { $l->get($url)->{status} }, 'nothing of the task is served then');
is($other->get($url)->{status}, 200, 'another task goes on');

($l, $task) = box('lines');
for (1 .. 1000) {
    $r = eval { $l->get($url) };
    last unless $r && ($r->{status} // 0) == 200;
}
(undef, $lines) = ends($l, $task, 'requests');
cmp_ok($lines, '<=', 203, 'allowed ones fill it, too');

($l, $task) = box('lines');
$l->do(open => { id => 'k', port => 8899 });
for (1 .. 300) {                        # noise is no request, and a line each
    last if eval { $l->http("\0\1\r\n\r\n"); 0 };
    last if !eval { $l->do(open => { id => 'n', port => 8899 }); 1 };
    $l->do(shut => { id => 'n' });
    last if $b->audit('task_end', task => $task->{task_id});
}
ends($l, $task, 'noise');

($l, $task) = box('bytes');
for (1 .. 1000) {
    $r = eval { $l->get('http://evil.example/' . 'x' x 900) };
    last unless $r && ($r->{status} // 0) == 403;
}
ends($l, $task, 'bytes');
my $bytes = 0;
$bytes += length for grep { /"task":"$task->{task_id}"/ }
                     split /^/, $t->read($b->prefix . '/logs/agent-audit.log');
cmp_ok($bytes, '<', 16 * 1024 + 4 * 4096, 'a budget of 16 KiB is kept');
cmp_ok($bytes, '>', 8 * 1024, 'and was there to be used');


for my $wrong ('0 1m', '10 0', '10', '10 1m 1', '-1 1m', '10000000000 1m',
               '10 x', '10 1m; audit_budget 10 1m') {
    my ($fits, $said) = $t->nginx_t(http => <<"END");
    agent_audit logs/agent-audit.log;
    agent_policy analysis { audit_budget $wrong; }
    server {
        agent_control unix:%CONTROL%;
        include $AgentTest::ROOT/conf/agent_proxy.conf;
    }
END
    ok(!$fits && $said =~ /"audit_budget".* in \S+:\d+/,
       "`audit_budget $wrong` is refused, with its line") or diag $said;
}


# A flood without end: the default budget ends it; and with the default of
# `refusals` it is a thousand lines, the rest is counted

my $events = $ENV{AGENT_TEST_EVENTS} || 50_000;

sub flood ($policy) {
    my ($l, $task) = box($policy);
    my $run = $l->do(run => { timeout => 600, argv => ['/usr/bin/python3',
        "$AgentTest::LIB/ask_names.py", "$policy-",
        "$t->{dir}/never", "$events"], env => { PATH => $ENV{PATH} } });
    return ($l, $task, $run->{data} + 0);
}

my $answered;
($l, $task, $answered) = flood('flood');
($end, $lines) = ends($l, $task, 'a flood');
cmp_ok($lines, '>=', 10_000, 'ten thousand lines are written');
cmp_ok($lines, '<=', 10_001, 'and no more');
cmp_ok($end->{denied}, '>=', $answered, 'each refusal is counted');

($l, $task, $answered) = flood('repeats');
is($answered, $events, "$events refused names, past `refusals`");
my $reply = $l->ask('task', { op => 'close', reason => 'ok', exit_code => 0,
                              usage => {} });
is($reply->{egress}{audit_lines}, 1003, 'are a thousand lines and three');
is($reply->{egress}{denied_count}, $events, 'and all are counted')
    or diag explain $reply;

is_deeply([$b->audit_errors], [], 'the audit is whole');
unlike($b->error_log, qr/\[(alert|emerg|crit)\]/, 'nothing is wrong')
    or diag $b->error_log;

done_testing;
