#!/usr/bin/perl

# The end of a box: with its launcher, whenever and however that ends, and by
# a signal to it.  Only a cgroup directory is left, which the next start or a
# sweep removes.

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

# A box whose launcher was killed, and which has ended.
sub killed ($user) {
    my $p = spawn(\@run, user => $user);
    wait_for('the box', sub { alive($p) >= 5 });
    kill KILL => $p->{pid};
    finish($p);
    return wait_for('the box to end', sub { !leftovers() });
}

sub runs ($pid) {
    open my $f, '<', "/proc/$pid/stat" or return;
    return (readline($f) // ') X ') !~ /\) [ZX] /;
}

# Seconds from an act until none of these processes runs any more.
sub gone_after ($act, @pids) {
    my $start = time;
    $act->();
    wait_for('their end', sub {
        !grep { runs($_) } @pids });
    return time - $start;
}

my $mounts = mounts();

for my $user (ways()) {
    my $way = way($user);

    # from the first instruction to a running box

    subtest "A-083 A-098 $way: no box outlives a launcher that is killed at "
            . "any moment" => sub
    {
        my $survivors = 0;
        for my $i (0 .. 59) {
            my $p = spawn(\@run, user => $user);
            sleep $i / 4000;
            kill KILL => $p->{pid};
            finish($p);
            wait_for('the box to end', sub { !leftovers() }) or $survivors++;
        }
        is($survivors, 0,
           'none of sixty boxes, of tasks that sleep, is left');
    };

    # the promise is a time: the quickest of ten counts, beside as many plain
    # processes that are killed one by one, so that a busy host fails neither
    subtest "A-083 $way: a box is gone a second after its launcher is killed"
        => sub
    {
        my ($box, $plain);
        for (1 .. 10) {
            my $p = spawn(\@run, user => $user);
            wait_for('the box', sub { alive($p) >= 5 });
            my $took = gone_after(sub { kill KILL => $p->{pid} }, alive($p));
            finish($p);
            $box = $took if !defined $box || $took < $box;

            my @plain = map { fork // die $! or do { sleep 99; exit } } 1 .. 5;
            $took = gone_after(sub { kill KILL => @plain }, @plain);
            waitpid $_, 0 for @plain;
            $plain = $took if !defined $plain || $took < $plain;
        }
        note sprintf '%.0f ms, plain processes %.0f ms', $box * 1000,
                     $plain * 1000;
        cmp_ok($box, '<', 1 + $plain, 'the quickest of ten ends within it');
    };

    subtest "A-083 A-113 $way: what a killed launcher leaves is swept by the "
            . "next start" => sub
    {
        my $p = spawn(\@run, user => $user);
        wait_for('the box', sub { alive($p) >= 5 });
        cmp_ok(scalar(alive($p)), '>=', 5, 'control: a living box is seen');
        kill KILL => $p->{pid};
        finish($p);
        ok(wait_for('the box to end', sub { !leftovers() }),
           'daemons of the box end with it');

        # a start of another test's, as the same user, may have swept it
        ok(wait_for('a cgroup', sub { slots() || !killed($user) }),
           'control: its cgroup is left');
        is(box('true', user => $user)->{reason}, 'ok', 'the next start works');
        ok(wait_for('the sweep', sub {
            box('true', user => $user);
            my @now = grep { $user ? !m{/agent-jail/$>/} : m{/agent-jail/$>/} }
                      slots();
            !@now;
        }), 'starts of boxes remove the cgroup');
    };

    subtest "A-098 $way: what a killed launcher leaves is removed by jail sweep"
        => sub
    {
        # again if a start of another test's, as the same user, was faster
        ok(wait_for('jail sweep', sub {
            killed($user);
            jail(['sweep'], user => $user)->{json}{removed};
        }), 'jail sweep removes it');
    };

    my $p;

    subtest "A-113 $way: a living box is not swept" => sub {
        $p = spawn(\@run, user => $user);
        wait_for('the box', sub { alive($p) >= 5 });
        jail(['sweep'], user => $user) for 1 .. 3;
        my ($init) = alive($p);
        my ($group) = do { local (@ARGV) = "/proc/$init/cgroup";
                           map { /:pids:(.*)/ ? "/pids$1"
                                 : /^0::(.*box.*)/ ? $1 : () } <> };
        like($group, qr{/agent-jail/\d+/(?:box-)?\d+$},
             'control: the cgroup of a living box');
        ok(-d "/sys/fs/cgroup$group", 'it is there after three sweeps');
        is((stat _)[2] & 077, 0, 'others cannot open, and so not lock it');
    };

    for my $signal (qw(TERM INT HUP)) {
        subtest "A-083 $way: SIG$signal to the launcher ends the box with a "
                . "result" => sub
        {
            $p = spawn(\@run, user => $user) if $signal ne 'TERM';
            wait_for('the box', sub { alive($p) >= 5 });
            kill $signal => $p->{pid};
            my $r = finish($p);
            is($r->{json}{reason}, 'canceled', 'the reason is canceled');
            is($r->{status}, 0, 'the status is 0');
            # else the task's own 99 seconds had passed
            none_left('no process of the box is left');
        };
    }

    subtest "A-092 $way: a SIGHUP that the caller ignores, as by nohup, "
            . "stays ignored" => sub
    {
        my $p = spawn(['run', '--offline', '--', 'sh', '-c',
                       'sleep 0.5; echo done'],
                   user => $user, before => sub { $SIG{HUP} = 'IGNORE' });
        wait_for('the box', sub { alive($p) >= 2 });
        kill HUP => $p->{pid};
        is(finish($p)->{json}{stdout}, "done\n",
           'the task runs to its end');
    };

    subtest "A-100 $way: calls that are interrupted by signals do not fail"
        => sub
    {
        # while the task starts, runs and ends
        my $p = spawn(['run', '--offline', '--', 'sh', '-c',
                       'sleep 0.3; echo done'], user => $user);
        for (1 .. 500) {
            kill WINCH => $p->{pid};
            kill CONT => $p->{pid};
            select undef, undef, undef, 0.0005;
        }
        is(finish($p)->{json}{stdout}, "done\n",
           'the task runs to its end');
    };
}

subtest 'A-094 many short commands at once all end' => sub {
    my $bad = 0;
    for (1 .. 12) {
        my @all = map { spawn(['run', '--offline', '--', 'true']) } 1 .. 8;
        $bad += finish($_)->{json}{reason} ne 'ok' for @all;
    }
    is($bad, 0, 'none of 96 fails');
};

jail(['sweep']);

none_left();
subtest 'A-030 the host has the mounts that it had' => sub {
    is(mounts(), $mounts, 'as many as before');
};

done_testing;
