#!/usr/bin/perl

# A task is ended by the broker 60 s past the wall clock of its policy, counted from `serve`, when
# its launcher has not done it: a launcher that hangs holds a slot, sockets and a lease.

# All tasks of this file wait for the same minute.

use v5.36;

use lib 't/lib';
use AgentTest;
use Test::More;

my $t    = AgentTest->new;
my $up   = $t->upstream(names => ['api.internal']);
my $port = $up->port;
my $rule = $t->rule;
my $url  = "http://api.internal:$port/echo";

my %opt = (names => ['api.internal'], workers => 2, policy => <<"END");
    agent_policy short { wall_clock 100ms; host api.internal:$port { $rule } }
    agent_policy long  { wall_clock 1h;    host api.internal:$port { $rule } }
END

my $b = $t->broker(%opt);
my $k = $t->broker(%opt, workers => 1);

sub resume ($l, $broker, $task) {
    AgentTest::wait_for('the task to be resumed', sub {
        my $c = $l->do(connect => { name => 'again', path => $broker->control });
        return if $c->{error};
        my $r = $l->ask('again', { v => 1, op => 'resume',
            task_id => $task->{task_id}, lease => $task->{lease} },
            kinds => [map { { again => $_ } } 0 .. $#{ $task->{doors} }]);
        return $r->{ok};
    });
}

# a task that is resumed after a reload, and one whose worker was killed

my ($reloaded, $reloaded_task) = $b->task('short');
my ($killed, $killed_task) = $k->task('short');

$b->reload;
resume($reloaded, $b, $reloaded_task);

kill 'KILL', $k->workers;
resume($killed, $k, $killed_task);

my ($long, $long_task) = $b->task('long');
my ($plain, $plain_task) = $b->task('short');

$plain->do(open => { id => 'kept', port => 8899 });
$plain->do(write => { id => 'kept', data => "GET $url HTTP/1.1\r\n"
                      . "Host: api.internal:$port\r\n\r\n" });
like($plain->do(read => { id => 'kept', timeout => 60 })->{data},
     qr/^HTTP\/1.1 200/, 'past its wall clock the broker serves the task on');
$plain->do(open => { id => 'half', port => 8899 });
$plain->do(write => { id => 'half', data => 'GET ' });

sub seconds ($line) {
    my ($h, $m, $s) = $line->{'@timestamp'} =~ /T(\d+):(\d+):([\d.]+)Z/;
    return $h * 3600 + $m * 60 + $s;
}

for my $case (['a task', $plain, $plain_task, $b, 'task'],
              ['a task that was resumed after a reload', $reloaded,
               $reloaded_task, $b, 'again'],
              ['a task whose worker was killed', $killed, $killed_task, $k,
               'again']) {
    my ($what, $l, $task, $broker, $name) = @$case;
    subtest "G-038: $what is ended when it is long overdue" => sub {
        my $said = $l->do(receive => { name => $name, timeout => 120 });
        is($said->{message}{error}, 'overdue', 'the launcher is told')
            or diag explain $said;
        like($said->{message}{message}, qr/wall clock/, 'in a sentence');
        my ($end) = $broker->audit('task_end', task => $task->{task_id});
        is($end->{reason}, 'overdue', 'the line of its end has the reason');
        my ($start) = $broker->audit('task_start', task => $task->{task_id});
        cmp_ok((seconds($end) - seconds($start)) % 86400, '>=', 60,
               'a minute and its wall clock have passed');
        my $r = $l->do(connect => { name => 'late', path => $broker->control });
        is($l->ask('late', { v => 1, op => 'resume',
            task_id => $task->{task_id}, lease => $task->{lease} },
            kinds => [map { { again => $_ } } 0 .. $#{ $task->{doors} }])
           ->{ok}, JSON::PP::false, 'it cannot be resumed');
    };
}

is($plain->do(read => { id => $_, timeout => 60 })->{eof}, 1,
   "its connection is cut: $_") for qw(kept half);
is($long->get($url)->{status}, 200, 'a task within its time is served');

$b->is_clean;
$k->is_clean(ignore => qr/exited on signal 9/);

done_testing;
