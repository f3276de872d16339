#!/usr/bin/perl

# Endurance: boxes whose connections live and die in every way, and a reload
# a second; then the same without reloads.  The master's memory and descriptors
# stay as they are, those of each new worker are those of the first, and a
# worker that stays does not grow.
#
#   make soak                       8 boxes, ten minutes (SOAK_SECONDS)
#
# Memory is what is the process's own (RssAnon): pages of the shared zones
# count when they are first touched.  The first third of the samples is for
# caches and the allocator; the others are compared by their medians.

use v5.36;

use lib 't/lib';
use AgentTest;
use Lives;
use IO::Select;
use Test::More;
use Time::HiRes qw(time);

my $seconds = $ENV{SOAK_SECONDS} || 4;
my $boxes   = $seconds >= 60 ? 8 : 2;
my $slack   = 1024;                     # KiB, and a tenth

# before $b is a broker
sub median (@all) { return (sort { $a <=> $b } @all)[@all / 2] // 0 }

my $t     = AgentTest->new;
my $lives = Lives->new($t, log_level => 'error');
my $b     = $lives->{broker};
my @boxes = $lives->start($boxes);

my $select = IO::Select->new(map { $_->{out} } @boxes);
my %box = map { fileno $_->{out} => $_ } @boxes;
my (%did, @bad);
my $n = 0;

# every third turn is a probe: requests that must all be served
sub order ($box) {
    syswrite $box->{in}, ++$n % 3 ? "lives $n 5\n" : "probe 8\n";
}

sub hear ($wait) {
    for my $out ($select->can_read($wait)) {
        my $said = readline($out) // '';
        push @bad, $said if $said ne "done\n";
        $did{served}++;
        if ($said eq '') { $select->remove($out) } else { order($box{fileno $out}) }
    }
}

order($_) for @boxes;
AgentTest::wait_for('the boxes to work', sub { hear(0.05);
                                               $n >= 3 * $boxes || @bad });

sub anon ($pid) {
    my $text = eval { $t->read("/proc/$pid/status") } // '';
    return ($text =~ /^RssAnon:\s+(\d+)/m)[0] // 0;
}

sub fds ($pid) { return scalar(() = glob "/proc/$pid/fd/*") }

my @samples;                            # since the phase began

sub sample ($phase) {
    my @workers = $b->workers;
    my %now = (time => time, master => anon($b->master),
               master_fds => fds($b->master),
               worker => median(map { anon($_) } @workers),
               leaving => scalar $b->leaving);
    push @samples, \%now;
    note sprintf '%-8s %7.1f s  master %6d KiB %3d fds  workers %6d KiB  '
                 . '%d leaving  %d turns', $phase, $now{time} - $samples[0]{time},
                 @now{qw(master master_fds worker leaving)}, $did{served}
        if @samples % (1 + int($seconds / 30)) == 0;
}

# after the first third: the first and the last half of what is left
sub flat ($key, $name, $more = $slack) {
    my @all = map { $_->{$key} } @samples[@samples / 3 .. $#samples];
    my $early = median(@all[0 .. @all / 2]);
    my $late  = median(@all[@all / 2 .. $#all]);
    cmp_ok($late, '<=', $early * 1.1 + $more, "$name: $early, then $late");
}

my $until = time + $seconds * 2 / 3;
while (time < $until && !@bad) {
    my $next = time + 1;
    $b->signal('HUP');
    hear(0.05) while time < $next;
    sample('reloads');
}

flat('master', "the master's memory does not grow, KiB")
    unless $t->{sanitize};
flat('master_fds', 'nor do its descriptors', 0);
flat('worker', 'a new worker is as big as the first ones, KiB')
    unless $t->{sanitize};
cmp_ok((reverse map { $_->{leaving} } @samples)[0], '<=', 40,
       'old workers leave');

# a silent upstream holds its request, and so the worker, for a minute
AgentTest::wait_for('the old workers to leave', sub {
    hear(0.05);
    return @bad || (!$b->leaving && $b->workers == 2);
}, 150);

@samples = ();
my @workers = sort $b->workers;
$until = time + $seconds / 3;
while (time < $until && !@bad) {
    my $next = time + ($seconds >= 60 ? 1 : 0.2);
    hear(0.05) while time < $next;
    sample('steady');
}

flat('worker', 'a worker that stays does not grow, KiB') unless $t->{sanitize};
is_deeply([sort $b->workers], \@workers, 'no worker has ended');
is_deeply(\@bad, [], 'whatever happened, each probe was answered');
cmp_ok($did{served}, '>', 2 * $boxes, 'control: the boxes went on all the time');

for my $box (@boxes) {
    close $box->{in};
    1 while defined readline $box->{out};
    waitpid $box->{pid}, 0;
    is($?, 0, 'a box goes on to its own end');
    $t->forget($box->{pid});
}

AgentTest::wait_for('the workers to have nothing of the tasks', sub {
    return !grep { Lives::sockets($_) >= 16 } $b->workers;
});
pass('a worker without tasks has no socket of theirs');

$b->stop;
$b->is_clean;

done_testing;
