#!/usr/bin/perl

# The end of a box: with its launcher, whenever and however that dies, and by
# a signal to it.  Nothing is left but a cgroup directory, and the next start
# or a sweep takes that.

use v5.36;

use FindBin;
use lib $FindBin::Bin;
use Jail;
use Test::More;
use Time::HiRes qw(sleep time);

my $daemon = 'trap "" TERM INT HUP; (setsid sh -c "sleep 99 & sleep 99" &); '
             . 'sleep 99';
my @run = ('run', '--offline', '--', 'sh', '-c', $daemon);

sub mounts { my $n = () = do { local (@ARGV) = '/proc/self/mountinfo'; <> } }

# a file of a test's own directory does not count
sub tmp { join ' ', grep { !m{/jail\.} } glob '/tmp/* /tmp/.[a-z]*' }

my $mounts = mounts();

for my $user (ways()) {
    my $way = way($user);

    # from the first instruction to a running box

    my $survivors = 0;
    for my $i (0 .. 59) {
        my $p = spawn(\@run, user => $user);
        sleep $i / 4000;
        kill KILL => $p->{pid};
        finish($p);
        wait_for('the box to end', sub { !leftovers() }, 1) or $survivors++;
    }
    is($survivors, 0,
       "A-083 A-098 $way: no box outlives its killed launcher by a second");

    my $p = spawn(\@run, user => $user);
    wait_for('the box', sub { alive($p) >= 5 });
    cmp_ok(scalar(alive($p)), '>=', 5, 'control: a living box is seen');
    kill KILL => $p->{pid};
    finish($p);
    ok(wait_for('the box to end', sub { !leftovers() }, 1),
       "A-083 $way: nor do its daemons");

    my @left = slots();
    cmp_ok(scalar @left, '>', 0, 'its cgroup is left') or diag "@left";
    is(box('true', user => $user)->{reason}, 'ok', 'the next start');
    ok(wait_for('the sweep', sub {
        box('true', user => $user);
        my @now = grep { $user ? !m{/agent-jail/$>/} : m{/agent-jail/$>/} }
                  slots();
        !@now;
    }), "A-113 $way: sweeps what was left");

    $p = spawn(\@run, user => $user);
    wait_for('the box', sub { alive($p) >= 5 });
    kill KILL => $p->{pid};
    finish($p);
    wait_for('the box to end', sub { !leftovers() }, 1);
    my $r;
    ok(wait_for('jail sweep', sub {
        $r = jail(['sweep'], user => $user);
        $r->{json}{removed};
    }), "A-098 $way: so does jail sweep");

    # a living box is not swept

    $p = spawn(\@run, user => $user);
    wait_for('the box', sub { alive($p) >= 5 });
    jail(['sweep'], user => $user) for 1 .. 3;
    my ($init) = alive($p);
    my ($group) = do { local (@ARGV) = "/proc/$init/cgroup";
                       map { /:pids:(.*)/ ? "/pids$1"
                             : /^0::(.*box.*)/ ? $1 : () } <> };
    like($group, qr{/agent-jail/\d+/(?:box-)?\d+$},
         "$way: a living box's cgroup");
    ok(-d "/sys/fs/cgroup$group", 'is not swept');
    is((stat _)[2] & 077, 0, 'nor opened by others, who could lock it');

    for my $signal (qw(TERM INT HUP)) {
        $p = spawn(\@run, user => $user) if $signal ne 'TERM';
        wait_for('the box', sub { alive($p) >= 5 });
        my $start = time;
        kill $signal => $p->{pid};
        $r = finish($p);
        is($r->{json}{reason}, 'canceled', "$way: SIG$signal cancels");
        is($r->{status}, 0, 'with a result');
        cmp_ok(time - $start, '<', 1, 'at once');
        is(join(' ', leftovers()), '', 'and nothing is left');
    }

    # as nohup does it

    $p = spawn(['run', '--offline', '--', 'sh', '-c', 'sleep 0.5; echo done'],
               user => $user, before => sub { $SIG{HUP} = 'IGNORE' });
    wait_for('the box', sub { alive($p) >= 2 });
    kill HUP => $p->{pid};
    is(finish($p)->{json}{stdout}, "done\n",
       "$way: an ignored SIGHUP stays ignored");

    # EINTR

    $p = spawn(['run', '--offline', '--', 'sh', '-c', 'sleep 0.3; echo done'],
               user => $user);
    my $until = time + 0.25;
    while (time < $until) {
        kill WINCH => $p->{pid};
        kill CONT => $p->{pid};
        sleep 0.0005;
    }
    is(finish($p)->{json}{stdout}, "done\n",
       "A-100 $way: interrupted calls fail nothing");
}

# short commands, many at once

{
    my $bad = 0;
    for (1 .. 12) {
        my @all = map { spawn(['run', '--offline', '--', 'true']) } 1 .. 8;
        $bad += finish($_)->{json}{reason} ne 'ok' for @all;
    }
    is($bad, 0, 'A-094 short commands do not hang');
}

jail(['sweep']);

is(join(' ', leftovers()), '', 'no process of a box is left');
is(mounts(), $mounts, 'A-030 the host has the mounts it had');

done_testing;
