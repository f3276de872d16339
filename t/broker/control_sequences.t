#!/usr/bin/perl

# Sequences of what launchers say, and of descriptors beside it, that nobody has
# thought of: of several users at the same time, who stop, die and are cut off
# in the middle, while the broker is reloaded and its workers and helpers are
# killed.  A launcher beside them notices nothing, and nothing of them is left.
#
#   make fuzz-control SECONDS=600 SEED=7
#
# SEED says what was sent; the order in which the broker sees it is
# the machine's.  Without SECONDS there are a few rounds of a fixed seed.
#
# sanitizers: this is what they are for

use v5.36;

use lib 't/lib';
use AgentTest;
use List::Util qw(max);
use Test::More;
use Time::HiRes qw(time);

my $seconds = $ENV{SEQUENCES_SECONDS} || 0;
my $seed    = $ENV{SEQUENCES_SEED} || ($seconds ? int time : 1);
my $lives   = $seconds ? 40 : 10;
my $tasks   = 3;                        # `tasks` of the policy
my $control = 16;                       # agent_control_connections

note "SEED=$seed";

my $t  = AgentTest->new;
my $up = $t->upstream(plain => 1);
my $port = $up->port;

# root may be anybody: two users whom the policy names, and a stranger
my @users = AgentTest::is_root() ? (undef, map { $t->user + $_ } 0 .. 2)
                                 : (undef);
my $last  = @users > 1 ? $#users - 1 : 0;
my $named = join ' ', map { 'user:' . ($_ // $>) } @users[0 .. $last];

my $b = $t->broker(workers => 2, http => <<"HTTP", policy => <<"END");
    agent_opens 100000r/s burst=100000;
    agent_control_connections $control;
HTTP
    agent_policy wild {
        launchers $named;
        tasks     $tasks;
        env       LANG;
        host plain.test;
    }
    agent_policy calm {
        launchers user:$>;
        host 127.0.0.1:$port { plaintext on; private 127.0.0.0/8; }
    }
END

sub fds ($pid) { my @fds = glob "/proc/$pid/fd/*"; return scalar @fds }

sub helper ($worker) {
    return (split ' ', $t->read("/proc/$worker/task/$worker/children"))[0];
}

sub helpers { return grep { defined } map { helper($_) } $b->workers }

AgentTest::wait_for('the helpers', sub { helpers() == 2 });
my @fresh = (max(map { fds($_) } $b->workers), max(map { fds($_) } helpers()));

$t->reachable("$AgentTest::LIB/launcher.py", $users[-1]);
my @wild = map {
    $t->helper('control_sequences.py', $b->control, 'wild',
               { user => $_, env => { PYTHONDONTWRITEBYTECODE => 1 } })
} @users;

sub hear ($wild) {
    my $select = IO::Select->new($wild->{out});
    return 'no answer' unless $select->can_read(4 * $AgentTest::WAIT);
    my $line = readline $wild->{out} // 'it has ended';
    return $line =~ s/\n//r;
}

# each of those that a policy names is asked: what is not as it should be
sub all_find ($line) {
    syswrite $_->{in}, "$line $AgentTest::WAIT\n" for @wild[0 .. $last];
    return grep { $_ ne 'done' } map { hear($_) } @wild[0 .. $last];
}

# a whole life as it should be: what there was instead, if so
sub calm {
    my ($l, $task) = eval { $b->task('calm') };
    return $@ unless $l;
    my $r = eval { $l->get("http://127.0.0.1:$port/echo") } // {};
    my $closed = $l->ask('task', { op => 'close', reason => 'ok' });
    $l->stop;
    return () if ($r->{status} // 0) == 200 && $closed->{ok};
    return 'no request: ' . ($r->{status} // 'no answer') . ' '
           . ($closed->{message} // '');
}

my (%killed, %did, @lost);

sub worker_is_killed { $killed{ $b->kill_worker } = 1 }

sub helper_gets ($signal) {
    my @workers = $b->workers;
    my $victim = helper($workers[rand @workers]) // return;
    kill $signal, $victim;
    push @lost, $victim;
}

my %events = (
    hup    => sub { $b->signal('HUP') },
    reload => sub { $b->reload },
    kill   => \&worker_is_killed,
    helper => sub { helper_gets('KILL') },
    reopen => sub { $b->signal('USR1') },
    none   => sub { },
);
my @names = sort keys %events;
my @short = (['none'], ['helper', 'hup'], ['kill']);

# what is not as it was, when all lives are over
sub settled {
    my @now;
    eval {
        AgentTest::wait_for('the workers and their descriptors', sub {
            return 0 if $b->leaving || $b->workers != 2 || helpers() != 2;
            @now = map { [fds($_), fds(helper($_) // 0)] } $b->workers;
            return !grep { $_->[0] > $fresh[0] || $_->[1] > $fresh[1] } @now;
        });
    };
    return $@ ? ("$@: of workers and helpers, at first @fresh: "
                 . join ', ', map { "@$_" } @now) : ();
}

is_deeply([all_find("tasks $tasks"), all_find("connections $control")], [],
          'control: each user may have so many tasks and connections');
is_deeply([calm()], [], 'control: a launcher is served');

srand $seed;                            # what is above draws, too

my $start = time;
my $round = 0;
my @bad;

while (!@bad && ($seconds ? time < $start + $seconds : $round < @short)) {
    my @events = $seconds ? map { $names[rand @names] } 1 .. 1 + rand 3
                          : @{ $short[$round] };
    $round++;
    syswrite $wild[$_]{in}, "lives $seed.$round.$_ $lives\n" for 0 .. $#wild;

    my @wrong = calm();
    for my $name (@events) {
        $did{$name}++;
        $events{$name}->();
    }
    push @wrong, grep { $_ ne 'done' } map { hear($_) } @wild;
    push @wrong, settled(), all_find("tasks $tasks"),
                 all_find("connections $control"), calm(), settled(),
                 $t->sanitizer_reports;
    @bad = map { "round $round (@events): $_" } @wrong;
}

is_deeply(\@bad, [], "A-078 after each of $round rounds all is as before them "
          . "(SEED=$seed)");
note join ', ', map { "$_ $did{$_}" } sort keys %did;
$_->stop for map { bless $_, 'AgentTest::Server' } @wild;

my (%start, %end);
for my $line ($b->audit) {
    $start{ $line->{task} }++ if $line->{event} eq 'task_start'
                                 && !$line->{resumed};
    $end{ $line->{task} }++ if $line->{event} eq 'task_end';
}
cmp_ok(keys %start, '>', 5 * $round, 'control: tasks were opened');
is_deeply([grep { ($end{$_} // 0) != 1 } sort keys %start], [],
          'each task that was opened has its end on record, once');

$b->stop;
my @errors = $b->audit_errors;
cmp_ok(scalar(grep { /^not JSON/ } @errors), '<=', keys %killed,
       'each worker that was killed tore one line at most');
is_deeply([grep { !/^not JSON/ } @errors], [],
          'every other line of the audit is whole and follows in number');

# a worker that is forked while the master is told to reopen its logs tries to
# do so before they are its own, and does so again
is_deeply([grep { /\[(?:alert|emerg|crit)\]/
                  && !/exited on signal 9\b|error\.log" failed \(13:/ }
           split /^/m, $b->error_log], [],
          'nothing is reported at alert, emerg or crit but what was done');

done_testing;
