#!/usr/bin/perl

# Whatever happens to a box or to its caller, it ends, and leaves nothing: no
# process, no mount, no file; at most the empty cgroup directory of a launcher
# that was killed, which the next start sweeps.  And whatever fails while it
# is set up, the program does not run, and the result names the stage.
#
# The launcher's and the box's system calls are failed and killed one by one
# by t/lib/step.c.  DEATH_ALL=1 walks all of them; else a sample, which is
# another one in each run.

use v5.36;

use FindBin;
use IO::Select;
use lib $FindBin::Bin;
use Jail;
use POSIX ();
use Test::More;


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

# Processes, and groups of this user's that are not those in %$before.
sub left ($before, $user) {
    my $uid = $user ? user_id() : $>;
    return join ' ', remaining('the end of all', sub {
        return (leftovers(), grep { m{/agent-jail/$uid/} && !$before->{$_} }
                             slots());
    });
}

# pid 1 of a box whose program runs, which waits for its end by now
sub running ($p, $name = 'sleep') {
    my $is = sub ($pid, $what, $text) {
        return (read_file("/proc/$pid/$what") // '') =~ $text;
    };
    return wait_for('the program', sub {
        my $init = (alive($p))[0] // return;
        my ($main) = children($init);
        return $main && $is->($main, 'comm', qr/^$name$/)
               && $is->($init, 'stat', qr/\) S/) && $init;
    });
}

# The guards of a box: the launcher's other children.
sub guards ($p) {
    return grep {
        open my $f, '<', "/proc/$_/comm";
        $f && (readline($f) // '') eq "jail-guard\n";
    } children($p->{pid});
}

sub is_gone ($pid) {
    return (read_file("/proc/$pid/stat") // ') Z') =~ /\) Z/;
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

# How a task dies, or does not want to.  Each has its name, what `jail` is
# given, the program and the reason; by itself it would not end, or not in the
# time of the default wall clock.

my $linger = 'trap "" TERM INT HUP QUIT; ';
my $bomb = 'exec /usr/bin/python3 -c "
import os
while True:
    try: os.fork()
    except OSError: pass"';
my @ends = (
    ['A-083 a fork bomb with a small share of a processor is ended',
     ['--wall-clock', '2s', '--pids', '128', '--cpu', '0.05'], $bomb,
     'timeout'],
    ['A-083 a fork bomb that ignores SIGTERM is ended by the wall clock',
     ['--wall-clock', '1s', '--pids', '64'],
     $linger . $bomb,
     'timeout'],
    ['A-083 a daemon of its own session that holds the streams ends with '
     . 'the main process', [],
     $linger . 'setsid sh -c "setsid sleep 99 & sleep 99" & echo end',
     'ok'],
    ['A-097 a task that stopped all of its processes is ended',
     ['--wall-clock', '500ms'],
     'sleep 99 & sleep 99 & kill -STOP $! $$', 'timeout'],
    ['A-108 a hog in a daemon is ended', ['--memory', '48m'],
     '(setsid /usr/bin/python3 -c "x = bytearray(200 << 20)" &); sleep 99',
     'oom'],
    ['A-089 a flood on both streams is ended', ['--output-bytes', '1m'],
     $linger . 'yes >&2 & yes', 'output'],
    ['A-110 a flood of bytes and of inodes is ended',
     ['--wall-clock', '1s', '--memory', '64m'],
     $linger . 'cat /dev/zero > /tmp/work/a 2>/dev/null & i=0; '
     . 'while :; do : > /tmp/work/f$i; i=$((i + 1)); done 2>/dev/null',
     qr/^(?:timeout|disk|oom)$/],
);

for my $user (ways()) {
    my $way = way($user);

    my %before = map { $_ => 1 } slots();

    for my $e (@ends) {
        my ($name, $args, $script, $reason) = @$e;
        subtest "$name ($way)" => sub {
            my $r = jail(['run', '--offline', @$args, '--', 'sh', '-c',
                          $script],
                         user => $user);
            like($r->{json}{reason}, ref $reason ? $reason : qr/^$reason$/,
                 'the reason') or diag $r->{out}, $r->{err};
            is(left(\%before, $user), '', 'nothing is left');
        };
    }

    subtest "A-097 $way: a box whose pid 1 is stopped is ended" => sub {
        my $p = spawn(['run', '--offline', '--wall-clock', '600ms', '--',
                       'sleep',
                       '99'], user => $user);
        my $init = running($p);
        kill STOP => $init;
        my $r = finish($p);
        is($r->{json}{reason}, 'timeout', 'the reason');
        is(left(\%before, $user), '', 'nothing is left');
    };

    subtest "A-083 $way: a box whose pid 1 is stopped does not outlive its "
            . "launcher" => sub
    {
        my $p = spawn(['run', '--offline', '--', 'sleep', '99'], user => $user);
        my $init = running($p);
        kill STOP => $init;
        kill KILL => $p->{pid};
        finish($p);
        ok(wait_for('its end', sub { !leftovers() }),
           'no process is left');
    };

    # A bomb with a small share dies slowly without its launcher; here it has
    # the smallest.

    my $bombed = sub {
        my $p = spawn(['run', '--offline', '--cpu', '0.05', '--pids', '128',
                       '--', 'sh', '-c', $bomb], user => $user,
                      before => sub { POSIX::setpgid(0, 0) });
        wait_for('the bomb', sub { alive($p) > 120 });
        cmp_ok(scalar(alive($p)), '>', 120, 'control: there is a bomb');
        my $group = group((alive($p))[0]);
        open my $f, '>', $group->{quota} or die "$group->{quota}: $!";
        syswrite $f, $group->{least} or die "$group->{quota}: $!";
        my @guards = guards($p);
        is(scalar @guards, 1, 'control: there is a guard of it');
        return ($p, $group, $guards[0] // 'none');
    };

    subtest "A-083 $way: a fork bomb ends with its launcher's process group"
        => sub
    {
        my ($p, $group, $guard) = $bombed->();
        my @signals = qw(TERM INT HUP QUIT ALRM PIPE USR1);
        kill $_ => $guard for $guard eq 'none' ? () : @signals;

        kill KILL => -$p->{pid};        # all of the launcher's process group
        finish($p);
        ok(wait_for('its end', sub { !procs($group) }),
           'no process of it is left');
        ok(wait_for('the end of the guard', sub { is_gone($guard) }),
           'its guard, which nothing else had ended, has ended');
        is(left(\%before, $user) =~ s{\S+/agent-jail/\S+}{}gr =~ s/\s//gr, '',
           'only a cgroup is left');
    };

    # what waits for the end of the launcher does not wait for the guard

    subtest "A-083 $way: what waits for the end of the launcher does not "
            . "wait for the guard" => sub
    {
        my ($p, $group, $guard) = $bombed->();
        if ($guard eq 'none') {
            kill KILL => $p->{pid};
            finish($p);
            plan skip_all => 'the box has no guard to be stopped';
        }
        my @fds = map { readlink } glob "/proc/$guard/fd/*";
        is(join(' ', grep { !m{^/sys/fs/cgroup/|^socket:|pidfd} } @fds), '',
           'a guard holds its cgroup, the box\'s pidfd and a socket');
        is(scalar(grep { /^socket:/ } @fds), 1, 'a guard holds one socket')
            or diag "@fds";
        kill STOP => $guard;
        kill KILL => $p->{pid};
        my $ends = grep {
            IO::Select->new($_)->can_read(WATCHDOG) && !sysread $_, my $text, 1
        } $p->{out}, $p->{err};
        is($ends, 2, 'the streams end with the launcher');
        cmp_ok(procs($group), '>', 60, 'control: the bomb is still there');
        kill CONT => $guard;
        waitpid $p->{pid}, 0;
        ok(wait_for('its end', sub { !procs($group) }),
           'it ends when the guard goes on');
    };

    # Without it, too, a start of a box is enough; one of another test's, as
    # root, may come before

    subtest "A-113 $way: the next start ends an orphaned bomb" => sub {
        my $group;
        ok(wait_for('an orphaned bomb', sub {
            (my $p, $group, my $guard) = $bombed->();
            kill KILL => $guard eq 'none' ? () : $guard, $p->{pid};
            finish($p);
            return procs($group) > 60;
        }), 'control: without launcher and guard it dies slowly');
        box('true', user => $user);
        ok(wait_for('its end', sub { !procs($group) }), 'no process is left');
    };

    # a guard is there where one is needed, and changes nothing

    for my $e (['1', '256', 0], ['0.99', '16', 1]) {
        my ($cpu, $pids, $n) = @$e;
        subtest "$way: --cpu $cpu --pids $pids: there are $n guards" => sub {
            pipe(my $in, my $go) or die $!;
            my $p = spawn(['run', '--offline', '--cpu', $cpu, '--pids', $pids,
                           '--stdin', '--', 'cat'], user => $user,
                          before => sub { open STDIN, '<&', $in });
            close $in;
            running($p, 'cat');
            my @guards = guards($p);
            is(scalar @guards, $n, "there are $n");
            close $go;
            is(finish($p)->{json}{reason}, 'ok', 'the task ends well');
            is(scalar(grep { -e "/proc/$_" } @guards), 0,
               'the guard has ended before the launcher') if $n;
        };
    }

    subtest "$way: the death of a guard changes no result" => sub {
        pipe(my $in, my $go) or die $!;
        my $p = spawn(['run', '--offline', '--cpu', '0.4', '--stdin', '--',
                       'sh', '-c', 'cat; echo done'], user => $user,
                      before => sub { open STDIN, '<&', $in });
        close $in;
        my $guard = wait_for('the guard', sub { (guards($p))[0] });
        kill KILL => $guard if $guard;
        close $go;
        is(finish($p)->{json}{stdout}, "done\n", 'the task runs to its end');
    };

    subtest "A-113 $way: what killed launchers left is swept" => sub {
        ok(swept($user), 'no cgroup is left');
    };

    # the death of the caller: what it read from has no reader any more

    for my $raw (0, 1) {
        my $name = $raw ? 'with --raw' : 'with a result';
        subtest "$way: a caller that died ends the box, $name" => sub {
            my $ends = spawn(['run', '--offline', $raw ? '--raw' : (), '--',
                              'sh',
                              '-c', $linger . 'sleep 99'], user => $user);
            wait_for('the box', sub { alive($ends) >= 3 });
            cmp_ok(scalar(alive($ends)), '>=', 3, 'control: there is a box');
            close $ends->{out};
            close $ends->{err};
            ok(wait_for('the launcher', sub {
                waitpid($ends->{pid}, POSIX::WNOHANG()) == $ends->{pid} }),
               'the launcher ends')
                or kill KILL => $ends->{pid};
            is(left(\%before, $user), '', 'nothing is left');
        };
    }
}

# --- step by step

SKIP: {
    my $step = dir() . '/step';
    skip 'a sanitizer makes system calls of its own', 1
        if ($ENV{AGENT_TEST_OBJS} // '') =~ /asan/;
    skip 't/lib/step.c is for x86-64', 1 if (POSIX::uname())[4] ne 'x86_64';
    system('cc', '-std=gnu17', '-D_GNU_SOURCE=', '-O1', '-o', $step,
           root_dir() . '/t/lib/step.c', '-lseccomp') == 0
        or skip 't/lib/step.c cannot be compiled', 1;

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

        push @bad, 'is alive after a minute' if $alive;
        my $left = wait_for('the end', sub { !leftovers() })
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
            push @bad, "has the generic error: $error->{message}"
                if !$is_kill && $error->{stage} eq 'start'
                   && $error->{message} =~ /ended during set-up/;

        } elsif ($r->{status} == 0 && $j) {
            push @bad, "a result, but it is $j->{reason}"
                if $j->{reason} eq 'setup';
            push @bad, 'ok, but nothing ran' if $j->{reason} eq 'ok' && !$ran;

        } elsif ($is_kill && $process == 0 && $r->{status} == 128 + 9) {
            # there is nobody to write a result

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

        my (%last, $first, $exec);
        subtest "$way: the calls of a launcher and its box are seen" => sub {
            my ($events, $r) = $stepped->($user, ['--list']);
            is($r->{json}{stdout}, "ran\n", 'control: the command runs');
            for (@$events) {
                my ($p, $n, $call) = /^call (\d) (\d+) (\w+)/ or next;
                next if $p == 2 && $exec;
                $last{$p} = $n if $call ne 'exit_group';
                $first //= $n if $p == 0 && $call eq 'close_range';
                $exec = 1 if $p == 2 && $call eq 'execve';
            }
            cmp_ok($last{0}, '>', 100, 'more than 100 of the launcher');
            cmp_ok($last{1}, '>', 100, 'more than 100 of its child');
            cmp_ok($last{2}, '>', 3, 'more than three before the program');
        };

        subtest "A-099 $way: a box is killed by its pidfd, not by a number"
            => sub
        {
            my ($timed, $end) = $stepped->($user, ['--list'], 'run',
                                        '--offline',
                '--wall-clock', '200ms', '--', 'sleep', '99');
            my %calls = map { /^call 0 \d+ (\w+)/ ? ($1 => 1) : () } @$timed;
            is($end->{json}{reason}, 'timeout', 'control: the box is killed');
            is(join(' ', grep { $calls{$_} } qw(pidfd_send_signal kill tkill
                                                tgkill rt_sigqueueinfo)),
               'pidfd_send_signal', 'the only call that sends a signal');
        };

        my $all = $ENV{DEATH_ALL};
        for my $what (['--error', 'EIO'], ['--kill']) {
            for my $p (0 .. 2) {
                subtest "A-098 A-129 $way: @$what at calls of process $p"
                    => sub
                {
                    my $every = $all ? 1 : int($last{$p} / 16) + 1;
                    my ($bad, $n) = (0, 0);
                    for (my $i = 1 + ($all ? 0 : $$ % $every); $i <= $last{$p};
                         $i += $every)
                    {
                        my $b = $walk->($user, $way, $what, $p, $i, $first);
                        $n++ if defined $b;
                        $bad += $b // 0;
                    }
                    is($bad, 0, "none of $n has another end than promised");
                    cmp_ok($n, '>', 3, 'control: calls were tried');
                };
            }
        }

        # a box that has a guard, which is made after pid 1
        my @guarded = ('run', '--offline', '--cpu', '0.4', '--', '/bin/echo',
                       'ran');
        my ($fork, $begin, $end0, $end2);

        subtest "A-098 $way: a box without the guard that it needs does not "
                . "start" => sub
        {
            my ($guarded, $with) = $stepped->($user, ['--list'], @guarded);
            is($with->{json}{stdout}, "ran\n",
               'control: the command runs with a guard');
            ($fork) = map { /^call 0 (\d+) v?(?:fork|clone)$/ ? $1 : () }
                         @$guarded;
            ($begin) = map { /^call 0 (\d+) socketpair$/ ? $1 : () }
                          reverse @$guarded;
            ($end0) = map { /^call 0 (\d+)/ ? $1 : () } reverse @$guarded;
            ($end2) = map { /^call 2 (\d+)/ ? $1 : () } reverse @$guarded;
            cmp_ok($fork // 0, '>', $begin // 9999,
                   'control: the fork of the guard is seen');

            my (undef, $none) = $stepped->($user,
                ['--process', 0, '--at', $fork, '--error', 'EAGAIN'], @guarded);
            my $why = $none->{json}{error} // {};
            is("$none->{status} $none->{json}{reason} $why->{stage} "
               . "$why->{errno}", '125 setup tie EAGAIN',
               'status, reason, stage and errno')
                or diag $none->{out};
            like($why->{fix}, qr/process limit/,
                 'the fix names the limit');
        };

        for my $what (['--error', 'EIO'], ['--kill']) {
            for my $e ([0, $begin, $end0 - 1, 12], [2, 1, $end2, 24]) {
                my ($p, $from, $to, $max) = @$e;
                subtest "A-098 A-129 $way: @$what with a guard, at calls of "
                        . "process $p" => sub
                {
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
                    is($bad, 0, "none of $n has another end than promised");
                    cmp_ok($n, '>', 3, 'control: calls were tried');
                };
            }
        }

        subtest "A-113 $way: the next start and a sweep take the rest" => sub {
            ok(swept($user), 'no cgroup is left');
        };
        subtest "A-030 $way: the host has the mounts that it had" => sub {
            is(mounts(), $mounts, 'as many as before');
        };
    }

    # What the caller gave is never lost: a file that the task kept is there
    # whatever call fails, and the result names one that is gone

    my $ws = dir() . '/ws';
    my $out = dir() . '/out';
    my @give = ('run', '--offline', '--workspace', $ws, '--out', $out, '--',
                'sh', '-c', 'echo new > a; rm b; echo c > c; echo r > '
                            . '/run/task/out/r');
    my $fresh = sub {
        system 'rm', '-rf', $ws, $out;
        mkdir $ws;
        for (qw(a b keep)) {
            write_file("$ws/$_", "old\n");
        }
    };
    subtest 'no file of a workspace is lost, whatever call fails' => sub {
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
            my ($e) = $stepped->(0, ['--process', 0, '--at', $i, '--kill'],
                                 @give);
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
            # where the result itself could not be written it names nothing
            if (!-e "$ws/b" && $r->{out} ne ''
                && !grep { $_ eq 'b' } @{ $w->{removed} // [] })
            {
                $untold++;
                diag "$hit: $r->{out}";
            }
        }
        cmp_ok($failed, '>', 10, 'control: calls fail, one by one');
        is($lost, 0, 'no file is lost');
        is($kept, 0,
           "the next start removes what $staged killed launchers left");
        is($untold, 0, 'the result names each file that is removed');
    };

    subtest 'A-083 a broker sees the end of each launcher that is killed'
        => sub
    {
        my $b = fake_broker();
        my @run = ('run', '--control', $b->{socket}, '--', '/bin/echo', 'ran');
        my ($events, $r) = $stepped->(0, ['--list'], @run);
        is($r->{json}{stdout}, "ran\n",
           'control: the command runs with a broker');
        my ($from, $to);
        for (@$events) {
            my ($n, $call) = /^call 0 (\d+) (\w+)/ or next;
            $from //= $n if $call eq 'connect';
            $to = $n;
        }
        my $every = $ENV{DEATH_ALL} ? 1 : int(($to - $from) / 16) + 1;
        my ($killed, $late) = (0, 0);
        for (my $i = $from + $$ % $every; $i <= $to; $i += $every) {
            my ($e) = $stepped->(0, ['--process', 0, '--at', $i, '--kill'],
                                 @run);
            next if !grep { /^hit/ } @$e;           # another run's timing
            $killed++;
            $late++ if grep { /^alive/ } @$e;
        }
        cmp_ok($killed, '>', 3, 'control: launchers are killed');
        is($late, 0, 'no box outlives its launcher');
        my $open = sub {
            scalar grep { m{^socket:} } map { readlink } glob "/proc/$b->{pid}/fd/*"
        };
        ok(wait_for('the broker', sub { $open->() <= 1 + $killed }),
           'the broker keeps no connection of a dead launcher')
            or diag $open->();
        fake_broker_end($b);
        ok(swept(0), 'what they left is swept');
    };
}

none_left();
subtest 'A-030 the host has the mounts that it had at the beginning' => sub {
    is(mounts(), $mounts, 'as many as before');
};
subtest 'A-113 no file of a launcher or a box is left' => sub {
    is(files(), $files, 'in /tmp, /run, /var/tmp and /dev/shm');
};

done_testing;
