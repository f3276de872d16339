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

subtest 'the variables that a policy lists are set' => sub {
    my $r = task('analysis', ['--env', 'TZ=Europe/Prague', '--env',
                              "LANG=$marker"], 'echo $TZ $LANG');
    is($r->{json}{stdout}, "Europe/Prague $marker\n",
       '--env sets them in the box') or diag $r->{out}, $r->{err};
};

for ('analysis', 'bare') {
    subtest "$_: a variable that the policy does not list is refused" => sub {
        my $r = task($_, ['--env', "OTHER=$marker"], 'true');
        is($r->{status}, 2, 'the status is 2');
        is($r->{out}, '', 'there is no result');
        like($r->{err}, qr/variable "OTHER".*"env"/,
             'the message names the variable and the directive');
        unlike($r->{err}, qr/$marker/, 'the message does not have the value');
    };
}

subtest 'no value of a variable is written to a log' => sub {
    unlike($t->read($_), qr/$marker/, "no value is in $_")
        for "$b->{prefix}/logs/agent-audit.log", "$b->{prefix}/error.log";
};

subtest 'what a policy makes readable and writable is in the box' => sub {
    my $r = task('analysis', [], "cat $venv/module; touch $venv/x; "
                 . 'for d in /tmp/work /data; do head -c 32m /dev/zero > $d/f; '
                 . 'stat -c %s $d/f; done');
    is($r->{json}{stdout}, "from the host\n16777216\n1048576\n",
       'a file of the host, and two directories of their sizes');
    like($r->{json}{stderr}, qr/Read-only file system/,
         'what is readable is read-only');
};

subtest 'D-028 a run that comes near a limit is in the audit' => sub {
    my $r = task('analysis', [], 'head -c 12m /dev/zero > f; sleep 0.5');
    is(join(' ', map { $_->{limit} } @{ $r->{json}{near_limits} }), 'disk',
       'the result names the limit');
    my @near = grep { $_->{event} eq 'near_limit'
                      && $_->{task} eq $r->{json}{task_id} }
               $t->read_lines("$b->{prefix}/logs/agent-audit.log");
    is(scalar @near, 1, 'there is one line with the task\'s id');
    is($near[0]{claimed}{limit}, 'disk',
       'the line says that the launcher claims it');
};

# By each door for the web.  A TLS client that calls an address names no host.

for my $address ('192.0.2.7', '[2001:db8::7]', '[2606:4700::1111]') {
    next if $address =~ /:/
            && `grep -c ' seg6_local_input' /proc/kallsyms` == 0;
    my ($host) = $address =~ /([^][]+)/;
    my $to = "--connect-to ::$address:";
    my $curl = "curl -gsS --noproxy '*' --max-time 20";

    subtest "$address: the broker is reached by each port, and decides" => sub {
        my $r = task('web', [],
        "$curl http://$address/; $curl http://$address:$port/;"
               . " $curl https://$address/; $curl https://$address:$port/; true");
        my @denied = $r->{json}{stdout} =~ /"host":"\Q$host\E","port":(\d+),/g;
        is("@denied", "80 $port", 'HTTP: a host that no rule names is refused')
            or diag $r->{out}, $r->{err};
        is(() = $r->{json}{stderr} =~ /unrecognized name/g, 2,
           'TLS: the alert says that there is no name');

        $r = task('web', [], "$curl $to -o /dev/null -w '%{http_code} ' "
            . "https://api.internal:$port/echo -o /dev/null "
            . "http://api.internal:$port/echo");
        is($r->{json}{stdout}, '200 200 ',
           'a host that a rule names is reached')
            or diag $r->{out}, $r->{err};
    };
}

done_testing;
