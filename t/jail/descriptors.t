#!/usr/bin/perl

# Nothing of the caller's process enters the box: no descriptor, no word
# of its environment or arguments, no signal state, no child.

use v5.36;

use Fcntl qw(F_SETFD);
use FindBin;
use lib $FindBin::Bin;
use Jail;
use POSIX ();
use Test::More;

my $list = 'ls -l /proc/self/fd; ls -l /proc/$$/fd';

for my $user (ways()) {
    my $way = way($user);

    subtest "A-001 A-127 $way: the caller's open descriptors are not in the box"
        => sub
    {
        my $r = jail(['run', '--offline', '--', 'sh', '-c', $list],
                     user => $user, before => sub {
                for my $n (3 .. 50) {
                    POSIX::open($n % 2 ? '/' : '/etc/hostname',
                                POSIX::O_RDONLY());
                }
            });
        my @fds = $r->{json}{stdout} =~ /(\d+ -> \S+)/g;
        my @known = grep { m{^0 -> /dev/null$|^[12] -> pipe:|^\d -> /proc/\d+/fd$} }
                    @fds;
        is(scalar @known, scalar @fds,
           'the box has no descriptor but its own three and the list\'s')
            or diag $r->{json}{stdout};
        cmp_ok(scalar @fds, '>=', 6, 'control: the list is not empty');
    };

    subtest "A-003 $way: descriptors with high numbers are not in the box"
        => sub
    {
        my $r = jail(['run', '--offline', '--', 'sh', '-c', $list],
                     user => $user, before => sub {
                my $fd = POSIX::open('/', POSIX::O_RDONLY());
                POSIX::dup2($fd, $_) for 900, 1023, 4096, 19000;
            });
        # closing each number up to the limit, one by one, would take minutes
        unlike($r->{json}{stdout}, qr{ (?:900|1023|4096|19000) ->},
               'none of 900, 1023, 4096, 19000 is open');
        is($r->{json}{reason}, 'ok', 'the task ends by itself');
    };

    # what a closed 0, 1 or 2 could become is seen in the box

    for my $closed (0 .. 7) {
        my @which = grep { $closed & 1 << $_ } 0 .. 2;

        subtest "A-004 $way: with (@which) closed 0, 1 and 2 are the box's "
                . "own" => sub
        {
            my $r = jail(['run', '--offline', '--', 'sh', '-c',
                       'ls -l /proc/self/fd; echo e >&2'], user => $user,
                before => sub { POSIX::close($_) for @which });
            is($r->{status}, 0, 'the status is 0');
            return if $closed & 2;          # there is nobody to print to
            like($r->{json}{stdout},
                 qr{ 0 -> /dev/null\n.* 1 -> pipe:.* 2 -> pipe:}s,
                 '0 is /dev/null, 1 and 2 are pipes');
            is($r->{json}{stderr}, "e\n",
               'what is written to 2 arrives as stderr');
        };
    }

    subtest "A-006 A-007 $way: no process of the box shows the caller's "
            . "secrets" => sub
    {
        my $r = jail(['run', '--offline', '--label', 'label-xyzzy-argv', '--',
                      'sh',
                   '-c',
                   'cat /proc/*/environ /proc/*/cmdline /proc/*/auxv; env; '
                   . 'ls /proc; cat /proc/1/cmdline'],
                  user => $user, env => { MARKER_SECRET => 'xyzzy-env' });
        unlike($r->{json}{stdout}, qr/xyzzy/,
               'environments, arguments and /proc hold no marker');
        like($r->{json}{stdout}, qr/TASK_OUT=/,
             'control: the environments were read');
    };

    # pid 1 as the host sees it: its memory of them is wiped as well

    subtest "A-006 A-007 $way: pid 1 of a box has wiped the caller's "
            . "secrets" => sub
    {
        plan skip_all => 'needs root to look into pid 1 of the box'
            if $> != 0;
        my $p = spawn(['run', '--offline', '--wall-clock', '20s', '--label',
                       'label-xyzzy-argv', '--', 'sleep', '30'],
                      user => $user, env => { MARKER_SECRET => 'xyzzy-env' });
        my $init = wait_for('pid 1 of the box', sub {
            my ($pid, $main) = alive($p);
            return $main ? $pid : 0;
        });
        my $seen = join '', map {
            local (@ARGV, $/) = "/proc/$init/$_"; <> // ''
        } qw(cmdline environ);
        unlike($seen, qr/xyzzy/,
               'its arguments and environment hold no marker');
        kill TERM => $p->{pid};
        is(finish($p)->{json}{reason}, 'canceled',
           'the box is ended by a signal to its launcher');
    };

    subtest "A-092 $way: the caller's signal state is not the task's" => sub {
        my $r = jail(['run', '--offline', '--', 'sh', '-c',
                   'grep ^Sig /proc/self/status; '
                   . '(yes; echo $? >&2) | head -1 >/dev/null'],
            user => $user,
            before => sub {
                $SIG{$_} = 'IGNORE' for grep { !/^(?:KILL|STOP|NUM|CLD)/ }
                                        keys %SIG;
                POSIX::sigprocmask(POSIX::SIG_SETMASK(),
                                   POSIX::SigSet->new(1 .. 31, 34 .. 64));
                ignore_glibcs();
            });
        like($r->{json}{stdout}, qr/SigBlk:\t0+\n.*SigIgn:\t0+\n/s,
             'no signal is blocked or ignored in the box');
        is($r->{json}{stderr}, "141\n",
           'a writer without a reader dies of SIGPIPE');
    };

    subtest "A-091 $way: SIGCHLD ignored by the caller: the exit code is "
            . "right" => sub
    {
        my $r = jail(['run', '--offline', '--', 'sh', '-c', 'exit 7'],
                  user => $user, before => sub { $SIG{CHLD} = 'IGNORE' });
        is($r->{json}{exit_code}, 7,
           'the exit code is the task\'s');
    };

    subtest "A-093 $way: a child that the launcher did not make is not the "
            . "box" => sub
    {
        my $r = jail(['run', '--offline', '--', 'sh', '-c',
                      'sleep 0.3; exit 8'],
            user => $user,
            before => sub { exec_child() });
        is($r->{json}{exit_code}, 8,
           'the exit code is the task\'s, not the child\'s');
    };
}

# Two signals are glibc's own: its functions touch neither, a caller may.
sub ignore_glibcs {
    my %number = (x86_64 => 13, aarch64 => 134);
    my $sigaction = $number{(POSIX::uname())[4]} // return;
    my $ignore = pack 'Q4', 1, 0, 0, 0;
    for my $sig (32, 33) {
        syscall($sigaction, $sig + 0, $ignore, 0, 8) == 0
            or die "signal $sig: $!";
    }
}

# a child of the process that becomes the launcher, which ends before the box
sub exec_child {
    my $pid = fork // die $!;
    if ($pid == 0) {
        select undef, undef, undef, 0.1;
        POSIX::_exit(3);
    }
}

done_testing;
