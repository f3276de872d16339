#!/usr/bin/perl

# Whatever happens to a box or to who started it, it ends, and leaves
# nothing: no process, no mount, no file; at most the empty cgroup directory
# of a launcher that was killed, which the next start sweeps.  And whatever
# fails while it is set up, the program does not run, and the result names
# the stage.
#
# The launcher's and the box's system calls are failed and killed one by one
# by t/lib/step.c.  DEATH_ALL=1 walks all of them; else a sample, which is
# another one in each run.

use v5.36;

use FindBin;
use IO::Select;
use IPC::Open2 qw(open2);
use JSON::PP ();
use lib $FindBin::Bin;
use Jail;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

my $json = JSON::PP->new->utf8;

sub mounts { my $n = () = do { local (@ARGV) = '/proc/self/mountinfo'; <> } }

# What a launcher or a box of this test's user, or a box of root's, made
# outside the test's own directory.
sub files {
    return join ' ', grep {
        my $uid = (lstat)[4];
        $uid && ($uid == user_id() || $uid - 2000000000 < 65536
                                      && $uid >= 2000000000)
            && index($_, dir()) != 0;
    } glob '/tmp/* /tmp/.* /run/* /var/tmp/* /dev/shm/*';
}

# an ordinary user may have files of its own there before the test
my $files = $> ? files() : '';

# where the groups of boxes are, of launchers that are gone
sub swept ($user) {
    return wait_for('the sweep', sub {
        jail(['sweep'], user => $user);
        my $uid = $user ? user_id() : $>;
        !grep { m{/agent-jail/$uid/} } slots();
    });
}

my $mounts = mounts();

# Processes, and groups that are not those in %$before; another test's that
# are just being ended are given the time for it.
sub left ($before) {
    my @left;
    for (1 .. 100) {
        @left = (leftovers(), grep { !$before->{$_} } slots()) or return '';
        sleep 0.01;
    }
    return "@left";
}

# pid 1 of a box whose program runs, and which is about nothing else by now
sub running ($p) {
    wait_for('the program', sub {
        my ($main) = children((alive($p))[0] // 0);
        open my $f, '<', '/proc/' . ($main // 0) . '/comm' or return;
        return <$f> eq "sleep\n";
    });
    sleep 0.1;
    return (alive($p))[0];
}

# The guards of a box: the launcher's other children.
sub guards ($p) {
    return grep {
        open my $f, '<', "/proc/$_/comm";
        $f && (readline($f) // '') eq "jail-guard\n";
    } children($p->{pid});
}

sub is_gone ($pid) {
    open my $f, '<', "/proc/$pid/stat" or return 1;
    return <$f> =~ /\) Z/;
}

# The group of the box with this pid 1, by which its processes are counted and
# its share of the processors is set.
sub group ($init) {
    local (@ARGV) = "/proc/$init/cgroup";
    my ($v2, $path) = map { /:(pids|):(.*agent-jail.*|.*box-\d+)$/
                            ? ($1 eq '', $2) : () } <>;
    return $v2 ? { procs => "/sys/fs/cgroup$path/cgroup.procs",
                   quota => "/sys/fs/cgroup$path/cpu.max",
                   least => '1000 100000' }
               : { procs => "/sys/fs/cgroup/pids$path/cgroup.procs",
                   quota => "/sys/fs/cgroup/cpu$path/cpu.cfs_quota_us",
                   least => 1000 };
}

sub procs ($group) {
    open my $f, '<', $group->{procs} or return 0;
    my $n = () = <$f>;
    return $n;
}

# How a task dies, or does not want to.  Each has what `jail` is given, the
# program, the reason, and the time in ms after which the launcher is done.

my $linger = 'trap "" TERM INT HUP QUIT; ';
my $bomb = 'exec /usr/bin/python3 -c "
import os
while True:
    try: os.fork()
    except OSError: pass"';
my @ends = (
    ['A-083 a fork bomb with a small share of a processor is ended as soon',
     ['--wall-clock', '2s', '--pids', '128', '--cpu', '0.05'], $bomb,
     'timeout', 5000],
    ['A-083 a fork bomb that ignores SIGTERM is ended by the wall clock',
     ['--wall-clock', '1s', '--pids', '64'],
     $linger . $bomb,
     'timeout', 3000],
    ['A-083 a daemon of its own session that holds the streams ends with '
     . 'the main process', [],
     $linger . 'setsid sh -c "setsid sleep 99 & sleep 99" & echo end',
     'ok', 2000],
    ['A-097 a task that stopped all of its processes is ended',
     ['--wall-clock', '500ms'],
     'sleep 99 & sleep 99 & kill -STOP $! $$', 'timeout', 2000],
    ['A-108 a hog in a daemon is ended', ['--memory', '48m'],
     '(setsid /usr/bin/python3 -c "x = bytearray(200 << 20)" &); sleep 9',
     'oom', 5000],
    ['A-089 a flood on both streams is ended', ['--output-bytes', '1m'],
     $linger . 'yes >&2 & yes', 'output', 5000],
    ['A-110 a flood of bytes and of inodes is ended',
     ['--wall-clock', '1s', '--memory', '64m'],
     $linger . 'cat /dev/zero > /tmp/work/a 2>/dev/null & i=0; '
     . 'while :; do : > /tmp/work/f$i; i=$((i + 1)); done 2>/dev/null',
     qr/^(?:timeout|disk|oom)$/, 3000],
);

for my $user (ways()) {
    my $way = way($user);

    my %before = map { $_ => 1 } slots();

    for my $e (@ends) {
        my ($name, $args, $script, $reason, $ms) = @$e;
        my $r = jail(['run', '--offline', @$args, '--', 'sh', '-c', $script],
                     user => $user);
        like($r->{json}{reason}, ref $reason ? $reason : qr/^$reason$/,
             "$name ($way)") or diag $r->{out}, $r->{err};
        cmp_ok($r->{ms}, '<', $ms, 'in time');
        is(left(\%before), '', 'and nothing is left');
    }

    # pid 1 is stopped from outside: its ties are cut, the launcher's are not

    my $p = spawn(['run', '--offline', '--wall-clock', '600ms', '--', 'sleep',
                   '99'], user => $user);
    my $init = running($p);
    kill STOP => $init;
    my $r = finish($p);
    is($r->{json}{reason}, 'timeout', "A-097 a stopped init is ended ($way)");
    cmp_ok($r->{ms}, '<', 2000, 'in time');
    is(left(\%before), '', 'and nothing is left');

    $p = spawn(['run', '--offline', '--', 'sleep', '99'], user => $user);
    $init = running($p);
    kill STOP => $init;
    kill KILL => $p->{pid};
    finish($p);
    ok(wait_for('its end', sub { !leftovers() }, 1),
       "A-083 nor does a stopped init outlive its launcher ($way)");

    # A bomb with a small share dies slowly without its launcher; here it has
    # the smallest.

    my $bombed = sub {
        my $p = spawn(['run', '--offline', '--cpu', '0.05', '--pids', '128',
                       '--', 'sh', '-c', $bomb], user => $user,
                      before => sub { POSIX::setpgid(0, 0) });
        wait_for('the bomb', sub { alive($p) > 120 });
        cmp_ok(scalar(alive($p)), '>', 120,
               "control: there is a bomb ($way)");
        my $group = group((alive($p))[0]);
        open my $f, '>', $group->{quota} or die "$group->{quota}: $!";
        syswrite $f, $group->{least} or die "$group->{quota}: $!";
        my @guards = guards($p);
        is(scalar @guards, 1, 'and a guard of it');
        return ($p, $group, $guards[0] // 'none');
    };

    {
        my ($p, $group, $guard) = $bombed->();
        my @signals = qw(TERM INT HUP QUIT ALRM PIPE USR1);
        kill $_ => $guard for $guard eq 'none' ? () : @signals;

        my $start = time;
        kill KILL => -$p->{pid};        # all of the launcher's process group
        finish($p);
        ok(wait_for('its end', sub { !procs($group) }),
           "A-083 it ends with its launcher's process group ($way)");
        note sprintf 'the last process was gone after %d ms',
            1000 * (time - $start);
        ok(wait_for('the end of the guard', sub { is_gone($guard) }),
           'and its guard, which nothing else had ended');
        is(left(\%before) =~ s{\S+/agent-jail/\S+}{}gr =~ s/\s//gr, '',
           'and nothing is left but a group');
    }

    # what waits for the end of the launcher does not wait for the guard

    SKIP: {
        my ($p, $group, $guard) = $bombed->();
        if ($guard eq 'none') {
            kill KILL => $p->{pid};
            finish($p);
            skip 'no guard', 5;
        }
        my @fds = map { readlink } glob "/proc/$guard/fd/*";
        is(join(' ', grep { !m{^/sys/fs/cgroup/|^socket:|pidfd} } @fds), '',
           "a guard holds its group, the box's pidfd and a cord ($way)");
        is(scalar(grep { /^socket:/ } @fds), 1, 'which is one socket')
            or diag "@fds";
        kill STOP => $guard;
        kill KILL => $p->{pid};
        my $ends = grep {
            IO::Select->new($_)->can_read(10) && !sysread $_, my $text, 1
        } $p->{out}, $p->{err};
        is($ends, 2, 'the streams end with the launcher');
        cmp_ok(procs($group), '>', 60, 'control: the bomb is still there');
        kill CONT => $guard;
        waitpid $p->{pid}, 0;
        ok(wait_for('its end', sub { !procs($group) }),
           'until the guard comes to it');
    }

    # Without it, too, one only has to start a box

    {
        my ($p, $group, $guard) = $bombed->();
        kill KILL => $guard eq 'none' ? () : $guard, $p->{pid};
        finish($p);
        cmp_ok(procs($group), '>', 60, 'control: without both it dies slowly');
        box('true', user => $user);
        ok(wait_for('its end', sub { !procs($group) }),
           'A-113 the next start lets an orphaned bomb die at once');
    }

    # a guard is where one is needed, and changes nothing

    for my $e (['1', '256', 0], ['0.99', '16', 1]) {
        my ($cpu, $pids, $n) = @$e;
        my $p = spawn(['run', '--offline', '--cpu', $cpu, '--pids', $pids,
                       '--', 'sleep', '0.5'], user => $user);
        running($p);
        my @guards = guards($p);
        is(scalar @guards, $n, "$n guards with --cpu $cpu --pids $pids");
        is(finish($p)->{json}{reason}, 'ok', 'and a result');
        is(scalar(grep { -e "/proc/$_" } @guards), 0,
           'the guard is gone before the launcher') if $n;
    }

    {
        my $p = spawn(['run', '--offline', '--cpu', '0.4', '--', 'sh', '-c',
                       'sleep 0.5; echo done'], user => $user);
        my $guard = wait_for('the guard', sub { (guards($p))[0] });
        kill KILL => $guard if $guard;
        is(finish($p)->{json}{stdout}, "done\n",
           "the death of a guard changes no result ($way)");
    }

    ok(swept($user), "A-113 what killed launchers left is swept ($way)");

    # the death of the caller: what it read from has no reader any more

    for my $raw (0, 1) {
        my $name = $raw ? 'with --raw' : 'with a result';
        my $ends = spawn(['run', '--offline', $raw ? '--raw' : (), '--', 'sh',
                          '-c', $linger . 'sleep 99'], user => $user);
        wait_for('the box', sub { alive($ends) >= 3 });
        cmp_ok(scalar(alive($ends)), '>=', 3, 'control: there is a box');
        close $ends->{out};
        close $ends->{err};
        ok(wait_for('the launcher', sub {
            waitpid($ends->{pid}, POSIX::WNOHANG()) == $ends->{pid} }, 2),
           "a caller that died ends the box ($way, $name)")
            or kill KILL => $ends->{pid};
        is(left(\%before), '', 'and nothing is left');
    }
}

# --- step by step

SKIP: {
    my $step = dir() . '/step';
    skip 'a memory checker has calls of its own', 1
        if ($ENV{AGENT_TEST_OBJS} // '') =~ /asan/;
    skip 'step.c is for x86-64', 1 if (POSIX::uname())[4] ne 'x86_64';
    system('cc', '-std=gnu17', '-D_GNU_SOURCE=', '-O1', '-o', $step,
           root_dir() . '/t/lib/step.c', '-lseccomp') == 0
        or skip 'step.c does not compile', 1;

    # the launcher under step: [events], result
    my $stepped = sub ($user, $step_args, @run) {
        my $events = dir() . '/events';
        open my $f, '+>', $events or die $!;
        chmod 0666, $events;
        my $r = jail(@run ? \@run : ['run', '--offline', '--', '/bin/echo',
                                     'ran'],
                     user => $user, program => [$step, @$step_args, '--'],
                     before => sub {
                         # not from 3 to 3, which would leave it to be closed
                         POSIX::dup2(POSIX::dup(fileno $f), 3);
                     });
        seek $f, 0, 0;
        return ([map { chomp; $_ } <$f>], $r);
    };

    # What is done with the call, and what may come of it
    #   main_only: libc's own start fails in its own words
    my $walk = sub ($user, $way, $what, $process, $n, $first, @run) {
        my ($events, $r) = $stepped->($user,
            ['--process', $process, '--at', $n, @$what], @run);
        my ($hit) = map { /^hit (.*)/ } @$events;
        my ($last) = map { /^last (\d+)/ } @$events;
        return if !defined $hit;                # another machine's timing

        my $ran = grep { /^ran / } @$events;
        my $alive = grep { /^alive/ } @$events;
        my $j = $r->{json};
        my $error = $j->{error} // {};
        my $is_kill = $what->[0] eq '--kill';
        my @bad;

        push @bad, 'is alive after 5 s' if $alive;
        push @bad, "ends $last ms later"
            if $is_kill && ($last // 9999) > 1000;
        my $left = wait_for('the end', sub { !leftovers() }, 1)
                   ? '' : join ' ', leftovers();
        push @bad, "leaves $left" if $left;

        if ($r->{status} == 125 && $r->{err} =~ /^jail: /) {
            # before there are options, and when the result cannot be written
            push @bad, 'says what no result says'
                if $ran && $r->{err} !~ /result/;

        } elsif ($r->{status} == 125 && $j) {
            push @bad, 'has run all the same' if $ran;
            push @bad, "reason $j->{reason}" if $j->{reason} ne 'setup';
            push @bad, 'names no stage'
                if ($error->{stage} // 'none') =~ /^(?:none|unknown)$/;
            push @bad, "is told as generic: $error->{message}"
                if !$is_kill && $error->{stage} eq 'start'
                   && $error->{message} =~ /ended during set-up/;

        } elsif ($r->{status} == 0 && $j) {
            push @bad, "a result, but it is $j->{reason}"
                if $j->{reason} eq 'setup';
            push @bad, 'ok, but nothing ran' if $j->{reason} eq 'ok' && !$ran;

        } elsif ($is_kill && $process == 0 && $r->{status} == 128 + 9) {
            # no one is left to tell

        } elsif ($process == 0 && $n <= $first) {
            push @bad, 'has run' if $ran;

        } else {
            push @bad, "has status $r->{status} and no result";
        }

        diag "$way: @$what $hit: $_; $r->{out}$r->{err}" for @bad;
        return scalar @bad;
    };

    for my $user (ways()) {
        my $way = way($user);
        my ($events, $r) = $stepped->($user, ['--list']);
        is($r->{json}{stdout}, "ran\n", "control: it runs ($way)");
        my (%last, $first, $exec);
        for (@$events) {
            my ($p, $n, $call) = /^call (\d) (\d+) (\w+)/ or next;
            next if $p == 2 && $exec;
            $last{$p} = $n if $call ne 'exit_group';
            $first //= $n if $p == 0 && $call eq 'close_range';
            $exec = 1 if $p == 2 && $call eq 'execve';
        }
        cmp_ok($last{0}, '>', 100, 'of many calls of the launcher');
        cmp_ok($last{1}, '>', 100, 'and of its child');
        cmp_ok($last{2}, '>', 3, 'and before the program');

        # A-099: what is signalled by number may be another's by then

        my ($timed, $end) = $stepped->($user, ['--list'], 'run', '--offline',
            '--wall-clock', '200ms', '--', 'sleep', '9');
        my %calls = map { /^call 0 \d+ (\w+)/ ? ($1 => 1) : () } @$timed;
        is($end->{json}{reason}, 'timeout', 'control: a box is killed');
        is(join(' ', grep { $calls{$_} } qw(pidfd_send_signal kill tkill
                                            tgkill rt_sigqueueinfo)),
           'pidfd_send_signal', "A-099 by its pidfd alone ($way)");

        my $all = $ENV{DEATH_ALL};
        for my $what (['--error', 'EIO'], ['--kill']) {
            for my $p (0 .. 2) {
                my $every = $all ? 1 : int($last{$p} / 16) + 1;
                my ($bad, $n) = (0, 0);
                for (my $i = 1 + ($all ? 0 : $$ % $every); $i <= $last{$p};
                     $i += $every)
                {
                    my $b = $walk->($user, $way, $what, $p, $i, $first);
                    $n++ if defined $b;
                    $bad += $b // 0;
                }
                is($bad, 0, "A-098 A-129 $way: @$what, process $p, $n calls");
                cmp_ok($n, '>', 3, 'were tried');
            }
        }

        # the same, of a box that has a guard: it is made after pid 1

        my @guarded = ('run', '--offline', '--cpu', '0.4', '--', '/bin/echo',
                       'ran');
        my ($guarded, $with) = $stepped->($user, ['--list'], @guarded);
        is($with->{json}{stdout}, "ran\n", 'control: it runs with a guard');
        my ($fork) = map { /^call 0 (\d+) v?(?:fork|clone)$/ ? $1 : () }
                     @$guarded;
        my ($begin) = map { /^call 0 (\d+) socketpair$/ ? $1 : () }
                      reverse @$guarded;
        my ($end0) = map { /^call 0 (\d+)/ ? $1 : () } reverse @$guarded;
        my ($end2) = map { /^call 2 (\d+)/ ? $1 : () } reverse @$guarded;
        cmp_ok($fork // 0, '>', $begin // 9999, 'whose fork is seen');

        my (undef, $none) = $stepped->($user,
            ['--process', 0, '--at', $fork, '--error', 'EAGAIN'], @guarded);
        my $why = $none->{json}{error} // {};
        is("$none->{status} $none->{json}{reason} $why->{stage} "
           . "$why->{errno}", '125 setup tie EAGAIN',
           "A-098 a box without the guard that it needs does not start ($way)")
            or diag $none->{out};
        like($why->{fix}, qr/limit of processes/, 'and what mends it is told');

        for my $what (['--error', 'EIO'], ['--kill']) {
            for my $e ([0, $begin, $end0 - 1, 12], [2, 1, $end2, 24]) {
                my ($p, $from, $to, $max) = @$e;
                my $every = $all ? 1 : int(($to - $from) / $max) + 1;
                my ($bad, $n) = (0, 0);
                for (my $i = $from + ($all ? 0 : $$ % $every); $i <= $to;
                     $i += $every)
                {
                    my $b = $walk->($user, $way, $what, $p, $i, $first,
                                    @guarded);
                    $n++ if defined $b;
                    $bad += $b // 0;
                }
                is($bad, 0, "A-098 A-129 $way: @$what, with a guard, "
                            . "process $p, $n calls");
                cmp_ok($n, '>', 3, 'were tried');
            }
        }

        ok(swept($user), "A-113 the next start and a sweep take the rest");
        is(mounts(), $mounts, 'A-030 the host has the mounts it had');
    }

    # What the caller gave is never lost: a file that the task kept is there
    # whatever call fails, and one that is gone is told of

    my $ws = dir() . '/ws';
    my $out = dir() . '/out';
    my @give = ('run', '--offline', '--workspace', $ws, '--out', $out, '--',
                'sh', '-c', 'echo new > a; rm b; echo c > c; echo r > '
                            . '/run/task/out/r');
    my $fresh = sub {
        system 'rm', '-rf', $ws, $out;
        mkdir $ws;
        for (qw(a b keep)) {
            open my $f, '>', "$ws/$_" or die $!;
            print $f "old\n";
            close $f;
        }
    };
    $fresh->();
    my ($calls, $done) = $stepped->(0, ['--list'], @give);
    is(join(' ', map { $_->[0] } sort { $a->[0] cmp $b->[0] }
                 map { [m{([^/]+)$}] } glob "$ws/* $out/*"),
       'a c keep r', 'control: a workspace and an output directory');
    my ($end) = map { /^call 0 (\d+)/ ? $1 : () } reverse @$calls;
    my $stride = $ENV{DEATH_ALL} ? 1 : int($end / 40) + 1;
    my ($lost, $untold, $failed, $staged, $kept) = (0, 0, 0, 0, 0);
    for (my $i = 14 + $$ % $stride; $i <= $end; $i += $stride) {
        $fresh->();
        my ($e) = $stepped->(0, ['--process', 0, '--at', $i, '--kill'], @give);
        if (!-s "$ws/a" || !-s "$ws/keep") {
            $lost++;
            diag "killed: @$e";
        }
        if (-e "$ws/.agent-workspace") {
            $staged++;
            jail(['run', '--offline', '--workspace', $ws, '--', 'true']);
            $kept++ if -e "$ws/.agent-workspace";
        }

        $fresh->();
        ($e, my $r) = $stepped->(0, ['--process', 0, '--at', $i, '--error',
                                     'EIO'], @give);
        my ($hit) = map { /^hit (.*)/ } @$e or next;
        my $w = $r->{json}{workspace} // {};
        $failed++;
        if (!-s "$ws/a" || !-s "$ws/keep") {
            $lost++;
            diag "$hit: $r->{out}";
        }
        # where the result itself could not be written nobody is told
        if (!-e "$ws/b" && $r->{out} ne ''
            && !grep { $_ eq 'b' } @{ $w->{removed} // [] })
        {
            $untold++;
            diag "$hit: $r->{out}";
        }
    }
    cmp_ok($failed, '>', 10, 'calls fail, one by one');
    is($lost, 0, 'no file of the workspace is lost');
    is($kept, 0, "the next start takes what $staged killed launchers left");
    is($untold, 0, 'and none is removed that the result does not tell of');

    # With a broker: it sees the end of each launcher that is killed

    my %b = (socket => dir() . '/control', log => dir() . '/log');
    open my $f, '>', $b{log};
    close $f;
    $b{pid} = open2($b{out}, $b{in}, '/usr/bin/python3',
                    "$FindBin::Bin/fake_broker.py", $b{socket}, $b{log},
                    $json->encode({}));
    readline($b{out}) eq "ready\n" or die 'the fake broker did not start';
    my @run = ('run', '--control', $b{socket}, '--', '/bin/echo', 'ran');
    my ($events, $r) = $stepped->(0, ['--list'], @run);
    is($r->{json}{stdout}, "ran\n", 'control: it runs with a broker');
    my ($from, $to);
    for (@$events) {
        my ($n, $call) = /^call 0 (\d+) (\w+)/ or next;
        $from //= $n if $call eq 'connect';
        $to = $n;
    }
    my $every = $ENV{DEATH_ALL} ? 1 : int(($to - $from) / 16) + 1;
    my ($killed, $late) = (0, 0);
    for (my $i = $from + $$ % $every; $i <= $to; $i += $every) {
        my ($e) = $stepped->(0, ['--process', 0, '--at', $i, '--kill'], @run);
        my ($last) = map { /^last (\d+)/ } @$e;
        next if !grep { /^hit/ } @$e;           # another run's timing
        $killed++;
        $late++ if ($last // 9999) > 1000;
    }
    cmp_ok($killed, '>', 3, 'a launcher with a broker is killed at each step');
    is($late, 0, 'A-083 and no box is there a second later');
    my $open = sub {
        scalar grep { m{^socket:} } map { readlink } glob "/proc/$b{pid}/fd/*"
    };
    ok(wait_for('the broker', sub { $open->() <= 1 + $killed }, 5),
       'the broker keeps no connection of a dead launcher')
        or diag $open->();
    close $b{in};
    waitpid $b{pid}, 0;
    ok(swept(0), 'what they left is swept');
}

is(join(' ', leftovers()), '', 'no process of a box is left');
is(mounts(), $mounts, 'A-030 the host has the mounts it had');
is(files(), $files, 'A-113 and no file is left');

done_testing;
