#!/usr/bin/perl

# The launcher and the real broker: what a policy lets the caller give, and
# what the audit hears of a run that comes near its limits.

use v5.36;

use lib 't/lib';
use AgentTest;
use Test::More;

my $t = AgentTest->new;
my $venv = "$t->{dir}/venv";
mkdir $venv;
$t->write("$venv/module", "from the host\n");

my $b = $t->broker(http => <<"END");
    agent_audit logs/agent-audit.log;
    agent_policy analysis {
        env       TZ LANG;
        readable  $venv;
        writable  /tmp/work 16m;
        writable  /data 1m;
        near_limit 50%;
    }
    agent_policy bare { }
    server {
        agent_control unix:%CONTROL%;
        include $AgentTest::ROOT/conf/agent_proxy.conf;
    }
END

sub task ($policy, $args, $script) {
    return $t->jail(['run', '--control', $b->control, '--policy', $policy,
                     @$args, '--', 'sh', '-c', $script]);
}

my $marker = 'value-marker-xyzzy';

my $r = task('analysis', ['--env', 'TZ=Europe/Prague', '--env',
                          "LANG=$marker"], 'echo $TZ $LANG');
is($r->{json}{stdout}, "Europe/Prague $marker\n",
   'variables that the policy lists are set') or diag $r->{out}, $r->{err};

for ('analysis', 'bare') {
    $r = task($_, ['--env', "OTHER=$marker"], 'true');
    is($r->{status}, 2, "$_: a variable that it does not list: status 2");
    is($r->{out}, '', 'no object');
    like($r->{err}, qr/variable "OTHER".*"env"/, 'the message says which');
    unlike($r->{err}, qr/$marker/, 'and has no value in it');
}

unlike($t->read($_), qr/$marker/, "no value is in $_")
    for "$b->{prefix}/logs/agent-audit.log", "$b->{prefix}/error.log";

$r = task('analysis', [], "cat $venv/module; touch $venv/x; "
          . 'for d in /tmp/work /data; do head -c 32m /dev/zero > $d/f; '
          . 'stat -c %s $d/f; done');
is($r->{json}{stdout}, "from the host\n16777216\n1048576\n",
   'what the policy makes readable and writable is in the box');
like($r->{json}{stderr}, qr/Read-only file system/, 'as far as it says');

$r = task('analysis', [], 'head -c 12m /dev/zero > f; sleep 0.5');
is(join(' ', map { $_->{limit} } @{ $r->{json}{near_limits} }), 'disk',
   'a run that comes near a limit');
my @near = grep { $_->{event} eq 'near_limit'
                  && $_->{task} eq $r->{json}{task_id} }
           $t->read_lines("$b->{prefix}/logs/agent-audit.log");
is(scalar @near, 1, 'is in the audit, once');
is($near[0]{claimed}{limit}, 'disk', 'as claimed by the launcher');

done_testing;
