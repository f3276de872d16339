#!/usr/bin/perl

# With `error_log ... debug` the log tells the story of a task and of a
# request, from accept to the last byte, without a secret.

use v5.36;

use lib 't/lib';
use AgentTest;
use Test::More;

my $t = AgentTest->new;

plan skip_all => 'this nginx is built without --with-debug'
    if $t->run([AgentTest::nginx_binary(), '-V'])->{err} !~ /--with-debug/;

my $token = 'sk_test_0123456789abcdef_marker';

my $up   = $t->upstream(names => ['api.internal']);
my $port = $up->port;
my $rule = $t->rule;

my $b = $t->broker(names => ['api.internal'], vault => "api = $token\n",
                   log_level => 'debug_http', policy => <<"END");
    agent_policy analysis {
        host api.internal:$port { bearer api; $rule }
    }
END

my ($l, $task) = $b->task;
my $id = $task->{task_id};

# the turns in their order; the log is as long as it is
sub turns ($what, @turns) {
    my @log = grep { /\bagent: / } split /^/m, $b->error_log;
    my @missing = grep {
        my $turn = $_;
        shift @log while @log && $log[0] !~ /$turn/;
        !@log;
    } @turns;
    is("@missing", '', $what) or diag $b->error_log;
}

turns('the log tells how a task begins',
      qr/launcher connected, uid \d+ pid \d+/, qr/launcher asks "open"/,
      qr/policies opened, generation 1/,
      qr/task $id opened, policy "analysis"/, qr/launcher asks "serve"/,
      qr/task $id served, \d+ doors/);

is($l->get("http://api.internal:$port/path?query=1")->{status}, 200,
   'an allowed request is answered');
$b->audit_wait('egress_end');

turns('the log tells the story of an allowed request',
      qr/accepted at proxy door port 8899, task $id/,
      qr/first bytes are HTTP/, qr/request \w+ begins, task $id/,
      qr/policy "analysis" rule "api\.internal:$port" found/,
      qr/guard lets 1 of 1 addresses/, qr/waits for audit line \d+/,
      qr/1 audit lines written/, qr/allowed, audit line \d+ written/,
      qr/header of \d+ bytes built, credential "api"/,
      qr/dials address 1 of 1/, qr/handshake must prove "api\.internal"/,
      qr/upstream verified as "api\.internal"/,
      qr/answer 200 for request/, qr/connection to \S+ kept/,
      qr/ends, \d+ bytes up, \d+ down, "done"/);

is($l->get("http://api.internal:$port/path?query=1")->{status}, 200,
   'another request is answered');

turns('the log tells of a kept connection that is used',
      qr/connection to \S+ kept/, qr/kept connection used/);

is($l->get('http://other.internal/')->{status}, 403,
   'a request to a host without a rule is refused');

turns('the log tells why a request is refused',
      qr/request \w+ refused: host_not_allowed/);

$l->ask('task', { op => 'close', reason => 'ok' });

turns('the log tells how a task ends', qr/launcher asks "close"/,
      qr/task $id closing/, qr/task $id ended: ok/);

unlike($b->error_log, qr/\Q$token/, 'the token is not in the log');

$b->is_clean;

done_testing;
