#!/usr/bin/perl

# The launcher and the real broker: what a policy lets the caller give, what
# the audit hears of a run that comes near its limits, and that whatever
# address a program calls, of IPv4 or IPv6, it is the broker that answers.

use v5.36;

use lib 't/lib';
use AgentTest;
use Test::More;

my $t = AgentTest->new;
my $venv = "$t->{dir}/venv";
mkdir $venv;
$t->write("$venv/module", "from the host\n");

my $dns = $t->dns({ 'api.internal' => { A => ['127.0.0.1'] } });
my $up = $t->upstream(names => ['api.internal']);
my $port = $up->port;
my $ca = $t->ca->{cert};

my $b = $t->broker(http => <<"END");
    resolver 127.0.0.1:$dns->{port} ipv6=off;
    agent_audit logs/agent-audit.log;
    agent_policy analysis {
        env       TZ LANG;
        readable  $venv;
        writable  /tmp/work 16m;
        writable  /data 1m;
        near_limit 50%;
    }
    agent_policy bare { }
    agent_policy web {
        trusted_certificate $ca;
        host api.internal:$port { private 127.0.0.0/8; }
    }
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

# By each web door.  A client of TLS that calls an address names no host, and
# is told that this is why.

for my $address ('192.0.2.7', '[2001:db8::7]', '[2606:4700::1111]') {
    next if $address =~ /:/
            && `grep -c ' seg6_local_input' /proc/kallsyms` == 0;
    my ($host) = $address =~ /([^][]+)/;
    my $to = "--connect-to ::$address:";
    my $curl = "curl -gsS --noproxy '*' --max-time 20";

    $r = task('web', [], "$curl http://$address/; $curl http://$address:$port/;"
        . " $curl https://$address/; $curl https://$address:$port/; true");
    my @denied = $r->{json}{stdout} =~ /"host":"\Q$host\E","port":(\d+),/g;
    is("@denied", "80 $port", "$address: a host that no rule names is refused")
        or diag $r->{out}, $r->{err};
    is(() = $r->{json}{stderr} =~ /unrecognized name/g, 2, 'TLS is answered');

    $r = task('web', [], "$curl $to -o /dev/null -w '%{http_code} ' "
        . "https://api.internal:$port/echo -o /dev/null "
        . "http://api.internal:$port/echo");
    is($r->{json}{stdout}, '200 200 ', 'one that a rule names is reached')
        or diag $r->{out}, $r->{err};
}

done_testing;
