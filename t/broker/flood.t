#!/usr/bin/perl

# While one box floods the broker, in every way that this file knows, another
# box's requests all succeed.  How long they take is a figure of `make bench`.
#
# sanitizers: bytes of a box are read while its connections come and go

use v5.36;

use lib 't/lib';
use AgentTest;
use Test::More;

my $t    = AgentTest->new;
my $up   = $t->upstream(names => ['api.internal']);
my $port = $up->port;
my $rule = $t->rule;
my $to   = "api.internal:$port";

my $b = $t->broker(names => ['api.internal'], workers => 1, policy => <<"END");
    agent_policy default {
        wall_clock  1h;
        host $to { methods GET POST; $rule }
    }
END

my ($other) = $b->task('default');
my $requests = 25;

sub served ($what) {
    my $good = 0;
    for (1 .. $requests) {
        $good++ if $other->get("http://$to/echo")->{status} == 200;
    }
    is($good, $requests, $what);
}

served('without a flood all requests of a box succeed');

for my $how (qw(half half_kept churn valid pipelined refused idle hello
                hello_half names slow_reader slow_writer h2_resets
                h2_pings)) {
    my ($l) = $b->task('default');
    my ($out, $stop) = map { "$t->{dir}/$how.$_" } qw(out stop);
    $l->do(run => { env => { PATH => $ENV{PATH} }, argv => ['/bin/sh', '-c',
        "/usr/bin/python3 $AgentTest::LIB/box_flood.py $how $port $to $stop "
        . ">$out 2>&1 </dev/null &"] });
    AgentTest::wait_for("the flood $how", sub {
        -e $out && $t->read($out) =~ /begun/ });
    served("G-011: $how: all requests of another box succeed");
    $t->write("$how.stop", '');
    AgentTest::wait_for("the end of $how", sub {
        $t->read($out) =~ /^\d+$/m });
    note "$how: ", $t->read($out) =~ s/\n/ /gr;
}

is(scalar(@{[$b->workers]}), 1, 'the worker has not ended');
$b->is_clean;

done_testing;
