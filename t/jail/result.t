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

sub ended ($name, $command, $want, %opt) {
    my $r = jail(['run', '--offline', @{ $opt{args} // [] }, '--', @$command],
                 %opt);
    my $j = $r->{json};
    is(join(' ', map { $_ // 'null' } $r->{status}, @$j{qw(reason exit_code
       signal)}), $want, $name);
    is(join(' ', sort keys %$j), "@keys", 'and every key is there');
    is($r->{err}, '', 'and nothing else is said');
    return $j;
}

ended('A-101 exit 0', ['true'], '0 ok 0 null');
ended('A-101 exit 1', ['false'], '0 nonzero 1 null');
ended("A-101 exit $_", ['sh', '-c', "exit $_"], "0 nonzero $_ null")
    for 2, 124, 125, 126, 127, 137, 255;
ended('A-101 killed by itself', ['sh', '-c', 'kill -9 $$'],
      '0 signal null SIGKILL');
ended('A-101 a crash', ['sh', '-c', 'kill -SEGV $$'], '0 signal null SIGSEGV');
ended('A-101 SIGSYS', ['sh', '-c', 'kill -SYS $$'], '0 signal null SIGSYS');
ended('A-101 a real-time signal', ['sh', '-c', 'kill -40 $$'],
      '0 signal null SIG40');

my $j = ended('A-101 not found', ['nosuch'], '0 exec null null');
is($j->{error}{errno}, 'ENOENT', 'with its errno');
is($j->{error}{stage}, 'exec', 'and its stage');
$j = ended('A-101 a directory', ['/usr'], '0 exec null null');
is($j->{error}{errno}, 'EACCES', 'with its errno');
$j = ended('A-101 not executable', ['/etc/passwd'], '0 exec null null');
is($j->{error}{errno}, 'EACCES', 'with its errno');

# what never stood is not said to have held

$j = jail(['run', '--offline', '--in', '/nosuch', '--', 'true'])->{json};
is($j->{reason}, 'setup', 'no box is built');
is_deeply([grep { defined } values %{ $j->{enforced} }], [], 'and no wall');

my $bad = dir() . '/bad.sh';
open my $f, '>', $bad; print $f "#!/nonexistent/interpreter\n"; close $f;
chmod 0755, $bad;
$j = ended('A-101 a bad interpreter', ['sh', '-c', 'cp bad.sh b; chmod +x b; '
           . 'exec ./b'], '0 nonzero 127 null', args => ['--in', $bad]);

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
    my $r = jail(['run', '--offline', '--', '/usr/bin/python3', '-c',
                  "import os; os.write(1, b'$bytes'); os.write(2, b'$bytes')"]);
    is($r->{json}{reason}, 'ok', "output of $name: the result is valid");
    is($r->{json}{stdout}, $r->{json}{stderr}, 'on both streams');
    ok($r->{json}{bytes}{stdout} > 0 && length $r->{json}{stdout},
       'and it is there');
}

$j = python('import os; os.write(1, b"a\xffb\xe2\x82c\xc3\xa9")');
is($j->{stdout}, "a\x{fffd}b\x{fffd}c\x{e9}", 'invalid UTF-8 becomes U+FFFD');

# the cap

$j = python('print("é" * 5000, end="")', args => ['--output', '1000']);
is(length $j->{stdout}, 1000, 'the cap counts characters, marker included');
like($j->{stdout},
     qr/\A\xe9*\n\[\.\.\. \d+ characters cut \.\.\.\]\n\xe9*\z/,
     'head, marker and tail');
my ($head, $cut, $tail) = $j->{stdout} =~ /\A(.*?)\n\[\.\.\. (\d+) .*\]\n(.*)\z/s;
is(length($head) + $cut + length($tail), 5000, 'the marker tells the truth');
cmp_ok(abs(length($head) / (length($head) + length $tail) - 0.4), '<', 0.01,
       '40 % of it are the head');
$j = python('print("x" * 1000, end="")', args => ['--output', '1000']);
is($j->{stdout}, 'x' x 1000, 'what fits is whole');
ok(!$j->{truncated}{stdout}, 'and not marked');
$j = python('print("x" * 1001, end="")', args => ['--output', '1000']);
is(length $j->{stdout}, 1000, 'one more is cut');
is($j->{bytes}{stdout}, 1001, 'all bytes are counted');

for (1 .. 10) {
    $j = box('seq 1 20000; printf END; seq 1 20000 >&2; printf END >&2');
    my $n = length(join '', map { "$_\n" } 1 .. 20000) + 3;
    is($j->{bytes}{stdout} . $j->{bytes}{stderr}, "$n$n",
       'A-086 no byte is lost');
    like($j->{stdout} . $j->{stderr}, qr/END.*END\z/s, 'A-086 nor the last');
}

$j = box('(sleep 50; echo late) & echo now');
is($j->{stdout}, "now\n", 'the main process\'s end is the box\'s');
cmp_ok($j->{usage}{wall_ms}, '<', 3000, 'whoever holds the pipes');

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
    my $r = jail($args);
    is($r->{status}, 2, "wrong usage: @$args" =~ s/[^ -~]/?/gr);
    like($r->{err}, $message, 'says what is wrong');
    is(scalar(() = $r->{err} =~ /\n/g), 1, 'in one line');
    is($r->{out}, '', 'and gives no result');
}

is(jail(['--version'])->{status}, 0, '--version');
like(jail([$_, '--help'])->{out}, qr/^usage: jail run/, "$_ --help")
    for qw(run policy doctor);
like(jail(['--help'])->{out}, qr/--wall-clock VALUE\s+default 20s/, '--help');

# failures of the set-up: before the box, and as a user who was not set up

my $r = jail(['run', '--offline', '--code', '/nonexistent.py', '--', 'x']);
is("$r->{status} $r->{json}{reason} $r->{json}{error}{stage} "
   . "$r->{json}{error}{errno}", '125 setup code ENOENT',
   'a missing file is a failure of the set-up');
is(join(' ', sort keys %{ $r->{json} }), "@keys", 'with every key');

SKIP: {
    skip 'needs root', 3 if $> != 0;
    my $u = 65001;
    $r = jail(['run', '--offline', '--', 'true'],
              before => sub { $) = "$u $u"; POSIX::setgid($u);
                              POSIX::setuid($u) });
    is($r->{status}, 125, 'A-129 no cgroup for this user: no box');
    is($r->{json}{error}{stage}, 'cgroup', 'the stage is named');
    like($r->{json}{error}{fix}, qr/scripts\/setup-host/, 'and the fix');
}

# A launcher that may not make a net namespace says so.  The limit of them is
# one of each user namespace, so it is tried in one of the test's own.

SKIP: {
    skip 'needs root', 3 if $> != 0;
    my $jail = dir() . '/jail';
    $r = jail(['run'], user => 1, before => sub {
        { exec 'unshare', '--user', '--map-current-user', '--keep-caps', 'sh',
               '-c', 'echo 0 > /proc/sys/user/max_net_namespaces; '
               . "exec $jail run --offline -- true" }
        POSIX::_exit(1);
    });
    is($r->{status}, 125, 'A-129 no net namespace to be had: no box');
    is($r->{json}{error}{stage}, 'namespaces', 'the stage is named')
        or diag $r->{out}, $r->{err};
    like($r->{json}{error}{fix} // '', qr/max_net_namespaces/, 'and the fix');
}

is(join(' ', slots()), '', 'no cgroup of a box is left');

done_testing;
