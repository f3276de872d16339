#!/usr/bin/perl

# The result: always one valid object with every key, whatever the program
# writes and however it ends; and the launcher's own status.
#
# sanitizers: what a task printed is encoded

use v5.36;

use FindBin;
use lib $FindBin::Bin;
use Jail;
use POSIX ();
use Test::More;

my @keys = sort qw(task_id stdout exit_code timed_out schema reason signal
    stderr error truncated bytes limits usage near_limits egress artifacts
    artifacts_skipped workspace enforced);

# How a command ends: status, reason, exit code and signal; returns the result
# for more.
sub ended ($name, $command, $want, %opt) {
    my $more = delete $opt{more};
    subtest "A-101 $name" => sub {
        my $r = jail(['run', '--offline', @{ $opt{args} // [] }, '--',
                      @$command], %opt);
        my $j = $r->{json};
        is(join(' ', map { $_ // 'null' } $r->{status},
                @$j{qw(reason exit_code signal)}), $want,
           'status, reason, exit code and signal');
        is(join(' ', sort keys %$j), "@keys", 'the result has every key');
        is($r->{err}, '', 'nothing is written to stderr');
        $more->($j) if $more;
    };
}

# The error of a command that could not be executed.
sub not_executed ($errno) {
    return sub ($j) {
        is($j->{error}{errno}, $errno, 'the errno');
        is($j->{error}{stage}, 'exec', 'the stage is exec');
    };
}

ended('exit 0', ['true'], '0 ok 0 null');
ended('exit 1', ['false'], '0 nonzero 1 null');
ended("exit $_", ['sh', '-c', "exit $_"], "0 nonzero $_ null")
    for 2, 124, 125, 126, 127, 137, 255;
ended('killed by itself', ['sh', '-c', 'kill -9 $$'],
      '0 signal null SIGKILL');
ended('a crash', ['sh', '-c', 'kill -SEGV $$'], '0 signal null SIGSEGV');
ended('SIGSYS', ['sh', '-c', 'kill -SYS $$'], '0 signal null SIGSYS');
ended('a real-time signal', ['sh', '-c', 'kill -40 $$'],
      '0 signal null SIG40');

ended('a program that is not found', ['nosuch'], '0 exec null null',
      more => not_executed('ENOENT'));
ended('a directory', ['/usr'], '0 exec null null',
      more => not_executed('EACCES'));
ended('a file that is not executable', ['/etc/passwd'], '0 exec null null',
      more => not_executed('EACCES'));

subtest 'without a box the result says of no wall that it held' => sub {
    my $j = jail(['run', '--offline', '--in', '/nosuch', '--', 'true'])->{json};
    is($j->{reason}, 'setup', 'control: the box is not built');
    is_deeply([grep { defined } values %{ $j->{enforced} }], [],
              'each value of "enforced" is null');
};

my $bad = write_file('bad.sh', "#!/nonexistent/interpreter\n", 0755);
ended('a bad interpreter', ['sh', '-c', 'cp bad.sh b; chmod +x b; exec ./b'],
      '0 nonzero 127 null', args => ['--in', $bad]);

# hostile output

my @hostile = (
    ['NUL', '\0'], ['an invalid byte', '\xff'], ['overlong', '\xc0\xaf'],
    ['a surrogate', '\xed\xa0\x80'], ['beyond Unicode', '\xf4\x90\x80\x80'],
    ['a cut character', '\xe2\x82'], ['escapes', '\x1b[2J\x07\x08'],
    ['quotes', '"\\\\\n'], ['U+2028', '\xe2\x80\xa8'],
    ['all bytes', join '', map { sprintf '\x%02x', $_ } 0 .. 255],
);
for my $case (@hostile) {
    my ($name, $bytes) = @$case;
    subtest "output of $name: the result is valid" => sub {
        my $r = jail(['run', '--offline', '--', '/usr/bin/python3', '-c',
                      "import os; os.write(1, b'$bytes'); os.write(2, b'$bytes')"]);
        is($r->{json}{reason}, 'ok', 'the reason is ok');
        is($r->{json}{stdout}, $r->{json}{stderr},
           'both streams have the same text');
        ok($r->{json}{bytes}{stdout} > 0 && length $r->{json}{stdout},
           'the text is there');
    };
}

subtest 'output that is not UTF-8 has U+FFFD in its place' => sub {
    my $j = python('import os; os.write(1, b"a\xffb\xe2\x82c\xc3\xa9")');
    is($j->{stdout}, "a\x{fffd}b\x{fffd}c\x{e9}",
       'two wrong sequences, one character that is right');
};

subtest 'output longer than --output is cut in the middle' => sub {
    my $j = python('print("é" * 5000, end="")', args => ['--output', '1000']);
    is(length $j->{stdout}, 1000,
       'the length counts characters, marker included');
    like($j->{stdout},
         qr/\A\xe9*\n\[\.\.\. \d+ characters cut \.\.\.\]\n\xe9*\z/,
         'head, marker and tail');
    my ($head, $cut,
        $tail) = $j->{stdout} =~ /\A(.*?)\n\[\.\.\. (\d+) .*\]\n(.*)\z/s;
    is(length($head) + $cut + length($tail), 5000,
       'the marker has the number of what was cut');
    cmp_ok(abs(length($head) / (length($head) + length $tail) - 0.4), '<', 0.01,
           '40 % of it are the head');
    $j = python('print("x" * 1000, end="")', args => ['--output', '1000']);
    is($j->{stdout}, 'x' x 1000, 'a text that fits is whole');
    ok(!$j->{truncated}{stdout}, 'a text that fits is not marked as cut');
    $j = python('print("x" * 1001, end="")', args => ['--output', '1000']);
    is(length $j->{stdout}, 1000, 'a text of one more is cut');
    is($j->{bytes}{stdout}, 1001, 'all bytes are counted');
};

subtest 'A-086 the end of a program loses no byte' => sub {
    for (1 .. 10) {
        my $j = box('seq 1 20000; printf END; seq 1 20000 >&2; printf END >&2');
        my $n = length(join '', map { "$_\n" } 1 .. 20000) + 3;
        is($j->{bytes}{stdout} . $j->{bytes}{stderr}, "$n$n",
           "run $_: every byte is counted");
        like($j->{stdout} . $j->{stderr}, qr/END.*END\z/s,
             "run $_: both streams have their last line");
    }
};

subtest 'the main process\'s end is the box\'s, though its pipes are open'
    => sub
{
    my $j = box('(sleep 99; echo late) & echo now');
    is("$j->{reason} $j->{stdout}", "ok now\n",
       'the reason is not the wall clock');
};

# usage

for my $case (
    [[], qr/no command/], [['run'], qr/no command/],
    [['run', '--offline', '--'], qr/no command/],
    [['run', '--offline', '--', ''], qr/empty/],
    [['frob'], qr/unknown command "frob"/],
    [['run', '--frob', '--', 'true'], qr/unknown option "--frob"/],
    [['run', '-x', 'true'], qr/unknown option "-x"/],
    [['run', '--offline', '--control', '/x', '--', 'true'], qr/excludes/],
    [['run', '--offline', '--memory', '10q', '--', 'true'], qr/"10q"/],
    [['run', '--offline', '--memory', '1', '--', 'true'], qr/from 4m/],
    [['run', '--offline', '--pids', '-1', '--', 'true'], qr/"-1"/],
    [['run', '--offline', '--pids', '9', '--pids', '9', '--', 'true'],
     qr/twice/],
    [['run', '--offline=1', '--', 'true'], qr/no argument/],
    [['run', '--offline', '--in', '/etc/passwd:../x', '--', 'true'],
     qr{"../x" in --in must be one path component}],
    [['run', '--offline', '--in', '/etc/passwd:..', '--', 'true'],
     qr/one path component/],
    [['run', '--offline', '--in', '/etc/passwd:-x', '--', 'true'],
     qr/one path component/],
    [['run', '--offline', '--in', "/etc/passwd:a\nb", '--', 'true'],
     qr/one path component/],
    [['run', '--offline', '--in', '/etc/passwd:a', '--in', '/etc/group:a',
      '--', 'true'], qr/have the name "a"/],
    [['run', '--label', 'x' x 129, '--', 'true'], qr/at most 128/],
    [['run', '--label', "a\e[0m", '--', 'true'], qr/printable/],
    [['policy'], qr/no policy/], [['sweep', 'x'], qr/no argument/],
) {
    my ($args, $message) = @$case;
    subtest "wrong usage is refused: @$args" =~ s/[^ -~]/?/gr => sub {
        my $r = jail($args);
        is($r->{status}, 2, 'the status is 2');
        like($r->{err}, $message, 'the message says what is wrong');
        is(scalar(() = $r->{err} =~ /\n/g), 1, 'the message is one line');
        is($r->{out}, '', 'there is no result');
    };
}

subtest '--version and --help' => sub {
    is(jail(['--version'])->{status}, 0, '--version');
    like(jail([$_, '--help'])->{out}, qr/^usage: jail run/, "$_ --help")
        for qw(run policy doctor);
    like(jail(['--help'])->{out}, qr/--wall-clock VALUE\s+default 20s/,
         '--help');
};

subtest 'A-129 a missing file is a failure of the set-up' => sub {
    my $r = jail(['run', '--offline', '--code', '/nonexistent.py', '--', 'x']);
    is("$r->{status} $r->{json}{reason} $r->{json}{error}{stage} "
       . "$r->{json}{error}{errno}", '125 setup code ENOENT',
       'status, reason, stage and errno');
    is(join(' ', sort keys %{ $r->{json} }), "@keys",
       'the result has every key');
};

subtest 'A-129 a user without a cgroup gets no box' => sub {
    plan skip_all => 'needs root' if $> != 0;
    my $u = 65001;
    my $r = jail(['run', '--offline', '--', 'true'],
                 before => sub { $) = "$u $u"; POSIX::setgid($u);
                              POSIX::setuid($u) });
    is($r->{status}, 125, 'the status is 125');
    is($r->{json}{error}{stage}, 'cgroup', 'the stage is cgroup');
    like($r->{json}{error}{fix}, qr/scripts\/setup-host/,
         'the fix names the script');
};

# A launcher that may not make a net namespace says so.  The limit of them is
# one of each user namespace, so it is tried in one of the test's own.

subtest 'A-129 a launcher that may not make a net namespace makes no box'
    => sub
{
    plan skip_all => 'needs root' if $> != 0;
    my $jail = dir() . '/jail';
    my $r = jail(['run'], user => 1, before => sub {
        { exec 'unshare', '--user', '--map-current-user', '--keep-caps', 'sh',
                  '-c', 'echo 0 > /proc/sys/user/max_net_namespaces; '
                  . "exec $jail run --offline -- true" }
        POSIX::_exit(1);
    });
    is($r->{status}, 125, 'the status is 125');
    is($r->{json}{error}{stage}, 'namespaces', 'the stage is namespaces')
        or diag $r->{out}, $r->{err};
    like($r->{json}{error}{fix} // '', qr/max_net_namespaces/,
         'the fix names the setting');
};

no_cgroup_left();

done_testing;
