#!/usr/bin/perl

# Sequences of events that nobody has thought of: connections of boxes live and
# die at random while the broker is reloaded and its workers are killed, and
# what must hold after all of it holds.
#
#   make fuzz-sequences SECONDS=600 SEED=7
#
# SEED says what was sent; the order in which the broker sees it is
# the machine's.  Without SECONDS there are a few rounds of a fixed seed.
#
# sanitizers: this is what they are for

use v5.36;

use lib 't/lib';
use AgentTest;
use Lives;
use List::Util qw(max);
use Test::More;
use Time::HiRes qw(time);

my $seconds = $ENV{SEQUENCES_SECONDS} || 0;
my $seed    = $ENV{SEQUENCES_SEED} || ($seconds ? int time : 1);
my $rounds  = 4;
my $turn    = 12;                       # lives of a box in a round
my $boxes   = 2;

my $t     = AgentTest->new;
my $lives = Lives->new($t);
my $b     = $lives->{broker};
my $fresh = max(map { Lives::sockets($_) } $b->workers);
my @boxes = $lives->start($boxes);

# behind what takes names and ports at random: those of another run differ
note "SEED=$seed";
srand $seed;

sub order ($box, $line) {
    syswrite $box->{in}, "$line\n";
}

sub hear ($box) {
    my $select = IO::Select->new($box->{out});
    die "a box does not answer\n" unless $select->can_read($AgentTest::WAIT);
    my $line = readline $box->{out};
    if (!defined $line) {
        my $err = do { local $/; readline $box->{err} };
        return "the box has ended: $err";
    }
    chomp $line;
    return $line;
}

my (%killed, %did);

sub worker_is_killed { $killed{ $b->kill_worker } = 1 }

my @events = (
    ['reload', sub { $b->reload }],
    ['reload', sub { $b->signal('HUP') }],
    ['kill',   \&worker_is_killed],
    ['reopen', sub { $b->signal('USR1') }],
    ['none',   sub { }],
);

# a start that meets a killed worker fails, which is not what is tried here
order($_, "probe $Lives::AT_ONCE") for @boxes;
is_deeply([map { hear($_) } @boxes], [('done') x @boxes],
          'control: the boxes run, and may have so many connections');

my $start = time;
my $round = 0;
my @bad;

while ($seconds ? time < $start + $seconds : $round < $rounds) {
    $round++;
    order($boxes[$_], "lives $seed.$round.$_ $turn") for 0 .. $#boxes;
    for (1 .. 1 + rand 3) {
        my ($name, $code) = @{ $events[rand @events] };
        $did{$name}++;
        $code->();
    }
    push @bad, map { "round $round: $_" } grep { $_ ne 'done' }
               map { hear($_) } @boxes;
    last if @bad;

    # whatever was held of the task's connections is free again
    order($_, "probe $Lives::AT_ONCE") for @boxes;
    push @bad, map { "round $round: $_" } grep { $_ ne 'done' }
               map { hear($_) } @boxes;
    last if @bad;
}

is_deeply(\@bad, [], "after each of $round rounds all connections of a task are "
          . "free again (SEED=$seed)");
note join ', ', map { "$_ $did{$_}" } sort keys %did;

for my $box (@boxes) {
    close $box->{in};
    waitpid $box->{pid}, 0;
    is($?, 0, 'a box goes on to its own end');
    $t->forget($box->{pid});
}

# all have ended, in whichever worker they were

AgentTest::wait_for('the old workers to leave', sub {
    $b->workers == 2 && !$b->leaving });

my %left;
eval {
    AgentTest::wait_for('the workers to have no socket of the tasks', sub {
        %left = map { $_ => Lives::sockets($_) } $b->workers;
        return !grep { $_ > $fresh } values %left;
    }, 20);
};
is_deeply([grep { $_ > $fresh } values %left], [],
          "a worker without tasks has no socket more than a new one, $fresh")
    or diag $t->run(['ss', '-xtuanp'])->{out}
            =~ s/^(?!.*pid=(?:@{[join '|', keys %left]}),).*\n//gmr;

my (%allowed, %end, %twice);
for my $line ($b->audit) {
    my ($pid) = $line->{writer} =~ /\.(\d+)$/;
    if ($line->{event} eq 'egress' && $line->{verdict} eq 'allowed') {
        $allowed{ $line->{request} } = $line unless $killed{$pid};
        $twice{ $line->{request} }++;
    }
    $end{ $line->{request} }++ if $line->{event} eq 'egress_end';
}
cmp_ok(keys %allowed, '>', $round, 'control: requests were allowed');
is_deeply([map { "$_->{host} $_->{path}" }
           @allowed{ grep { !$end{$_} } sort keys %allowed }], [],
          'each request that was allowed has its end on record');
is_deeply([grep { ($end{$_} // 0) > 1 || ($twice{$_} // 0) > 1 } keys %end], [],
          'no request has two decisions or two ends');

my @tasks = map { $_->{task} } $b->audit('task_end');
is(scalar @tasks, $boxes, 'each task has its end');

$b->stop;
my @errors = $b->audit_errors;
cmp_ok(scalar(grep { /^not JSON/ } @errors), '<=', keys %killed,
       'each worker that was killed tore one line at most');
is_deeply([grep { !/^not JSON/ } @errors], [],
          'every other line of the audit is whole and follows in number');
# a worker that is forked while the master is told to reopen its logs tries to
# do so before they are its own, and does so again
unlike($b->error_log =~ s/^.*(?:exited on signal 9\b|error\.log" failed \(13:).*$//gmr,
       qr/\[(?:alert|emerg)\]/,
       'nothing is reported at alert or emerg but what was done');

done_testing;
