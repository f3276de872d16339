#!/usr/bin/perl

# What a box makes the broker write beside the audit, access.log and error.log, is bounded by its
# task's `log_bytes`, whatever it sends, and says nothing to a terminal.

use v5.36;

use lib 't/lib';
use AgentTest;
use Test::More;

my $t    = AgentTest->new;
my $up   = $t->upstream(names => ['api.internal']);
my $port = $up->port;
my $rule = $t->rule;

# the log_format and access_log that are shipped

my $conf = $t->read("$AgentTest::ROOT/conf/nginx.conf");
my ($format) = $conf =~ /(log_format  agent [^;]*;)/ or die;
my ($access_log) = $conf =~ /(access_log  logs[^;]*;)/ or die;

my %opt = (names => ['api.internal'], log_level => 'info', workers => 2,
    server => $access_log, http => $format, policy => <<"END");
    agent_policy small {
        log_bytes 32k;
        refusals  1000000;
        requests  1000000;
        wall_clock 1h;
        host api.internal:$port { $rule }
    }
    agent_policy roomy {
        wall_clock 1h;
        host api.internal:$port { $rule }
    }
END

my $b = $t->broker(%opt);
my $prefix = $b->prefix;
my $url = "http://api.internal:$port/echo";

sub access () { return $t->read("$prefix/logs/access.log") }
sub errors () { return $b->error_log }

# The bytes of lines with this task, in the access log; all of the error log
# that is of no request are not the box's

sub access_of ($task) {
    return join '', grep { /\b\Q$task->{task_id}\E\b/ } split /^/, access();
}

# An answer may be there before its line is

sub lines_of ($task, $n) {
    my @lines;
    AgentTest::wait_for("$n lines in access.log", sub {
        return (@lines = split /^/, access_of($task)) >= $n && $lines[-1] =~ /\n\z/;
    });
    return @lines;
}

sub at_end ($l, $task) {
    $l->ask('task', { op => 'close', reason => 'ok', exit_code => 0,
                      usage => {} });
    my ($end) = $b->audit('task_end', task => $task->{task_id});
    return $end;
}

my ($other, $other_task) = $b->task('roomy');
my $served = 0;

# In the box: one request after the other of this kind, each on a connection
# of its own

my $requests = <<'END';
import socket, sys
what, n, port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
name = b"api.internal:" + sys.argv[4].encode()
text = {
    "methods": b"X" * 8000 + b" http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "allowed": b"GET http://" + name + b"/echo HTTP/1.1\r\nHost: " + name
               + b"\r\nReferer: " + b"r" * 2000 + b"\r\nConnection: close\r\n\r\n",
    "garbage": b"G\x1b[2J\x07 " + b"\x1b]0;title\x07" * 90 + b"\r\n\r\n",
    "headers": b"GET / HTTP/1.1\r\n: " + b"y" * 3000 + b"\r\n\r\n",
    "twice": b"GET / HTTP/1.1\r\nHost: a\r\nHost: \x1b[31m" + b"b" * 900
             + b"\r\nReferer: \x1b[2J\x9b2J\xc2\x9b\r\n\r\n",
    "old": b"GET /" + b"z" * 1500 + b"\r\n",
    "connects": b"CONNECT evil.example:443 HTTP/1.1\r\nHost: " + b"h" * 900 + b"\r\n\r\n",
    "hellos": b"\x16\x03\x01\x00\x05hello",
}[what]
for i in range(n):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
        s.sendall(text)
        try:
            while s.recv(65536):
                pass
        except ConnectionResetError:
            pass
END

for my $what (['methods', 300], ['allowed', 100], ['garbage', 300], ['headers', 300],
              ['twice', 300], ['old', 300], ['connects', 300],
              ['hellos', 1000, 443]) {
    my ($name, $n, $to) = (@$what, 8899);
    subtest "G-004: a task's share of the logs is bounded: $name" => sub {
        my ($l, $task) = $b->task('small');
        my $before = length(errors());
        my $run = $l->do(run => { timeout => 120, argv => ['/usr/bin/python3',
            '-c', $requests, $name, "$n", "$to", "$port"] });
        is($run->{status}, 0, "$n of them are sent") or diag $run->{err};
        my $access = access_of($task);
        my $error = substr errors(), $before;
        cmp_ok(length $access, '<', 32 * 1024, 'access.log: within log_bytes');
        is(scalar(grep { length > 500 } split /^/, $access), 0,
           'no line of it is long');
        cmp_ok(length($access) + length $error, '<', 33 * 1024,
               'both together: within log_bytes, and a line more');
        if ($name eq 'connects') {
            is($access . $error, '', 'a refused CONNECT leaves no line');
            return;
        }
        my @said = grep { /\Q$task->{task_id}\E.*"log_bytes"/ }
                   split /^/, $error;
        is(scalar @said, 1, 'one line says that there is no more');
        is($other->get($url)->{status}, 200, 'another task is served');
        is(scalar(grep { / GET api\.internal 200 \d+ [\d.]+$/ }
                  lines_of($other_task, ++$served)), $served,
           'its line is in access.log');
        my $end = at_end($l, $task);
        cmp_ok($end->{unlogged} // 0, '>', 0,
               'the end of the task says how many lines were left out');
    };
}

subtest 'G-004: a method is cut in access.log' => sub {
    my ($l, $task) = $b->task('roomy');
    $l->http("GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n"
             . "Connection: close\r\n\r\n");
    $l->http('X' x 8000 . " http://evil.example/ HTTP/1.1\r\n"
             . "Host: evil.example\r\nConnection: close\r\n\r\n");
    my @lines = lines_of($task, 2);
    is(scalar @lines, 2, 'each request has a line');
    like($lines[0], qr/ denied host_not_allowed GET evil\.example 403 /,
         'a short method is whole');
    like($lines[1], qr/ denied host_not_allowed X{32} evil\.example 403 /,
         'a long one has its first 32 bytes');
    is(at_end($l, $task)->{unlogged}, undef, 'no line was left out');
};

subtest 'G-045: control sequences of a box do not reach the error log' => sub {
    my $all = errors();
    like($all, qr/client sent .*\\x1B\[31m/, 'a message has them escaped');
    unlike($all, qr/[^\n -~]/, 'there is no byte but printable ones');
};

subtest 'G-004: the share is one over workers and a reload' => sub {
    my ($l, $task) = $b->task('small');
    my $before = length(errors());
    my @argv = ('/usr/bin/python3', '-c', $requests, 'twice', '300', '8899',
                "$port");
    is($l->do(run => { timeout => 120, argv => \@argv })->{status}, 0,
       'its share is used up');
    $b->reload;
    $l->do(connect => { name => 'again', path => $b->control });
    my $r = $l->ask('again', { v => 1, op => 'resume',
        task_id => $task->{task_id}, lease => $task->{lease} },
        kinds => [map { { again => $_ } } 0 .. $#{ $task->{doors} }]);
    ok($r->{ok}, 'the task is resumed') or diag explain $r;
    my $used = length errors();
    is($l->do(run => { timeout => 120, argv => \@argv })->{status}, 0,
       'it goes on as before');
    unlike(substr(errors(), $used), qr/client sent/,
           'nothing more of it is in error.log');
};

$b->is_clean(level => qr/alert|emerg/);

done_testing;
