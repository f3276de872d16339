#!/usr/bin/perl

# Limits are where a program can read them, may be tightened one by one, and
# are reported before they are reached; a verdict needs evidence.

use v5.36;

use FindBin;
use JSON::PP ();
use lib $FindBin::Bin;
use Jail;
use Test::More;

my $json = JSON::PP->new->utf8;

sub broker (%limits) {
    my %all = (cpu => 1.0, cpu_time_ms => 60000, memory => 268435456,
        pids => 64, open_files => 1024, wall_clock_ms => 20000,
        output => 10000, output_bytes => 1048576, near_limit => 80, %limits);
    return fake_broker({ task => { limits => \%all, box => {
            isolation => 'namespaces', readable => [], env => [],
            writable => [{ path => '/tmp/work', bytes => 16777216 }] } } });
}

# The launcher's reports, before it told of the end of the task.
sub reported ($b) {
    my @all = heard($b);
    my ($end) = grep { ($all[$_]{op} // '') eq 'close' } 0 .. $#all;
    return map { $_->{message} } grep { ($_->{op} // '') eq 'near_limit' }
           @all[0 .. $end // $#all];
}

sub near ($j) { return join ' ', map { $_->{limit} } @{ $j->{near_limits} } }

# A task that uses something up, and then waits for the end of its input.
my $wait = "\nimport sys\nsys.stdin.read()\n";
my @near = (
    ['memory', 'x = bytearray(230 << 20)'],
    ['pids', "import os, time\nfor i in range(55):\n"
           . '    if os.fork() == 0: time.sleep(99)'],
    # of these there is more with each moment, until there is the report
    ['cpu_time', "import select\n"
               . "while not select.select([0], [], [], 0)[0]: pass",
     cpu_time_ms => 20000, wall_clock_ms => 600000, near_limit => 5],
    ['wall_clock', '', wall_clock_ms => 60000, near_limit => 2],
    ['disk', "open('/tmp/work/f', 'wb').write(b'x' * (14 << 20))"],
    ['disk', "f = open('/dev/shm/f', 'wb')\n"
           . "for i in range(110): f.write(b'x' * (1 << 20))"],
    ['inodes', "for i in range(3500): "
             . "open('/tmp/work/%d' % i, 'w').close()"],
    ['output_bytes', "print('x' * 900000, flush=True)"],
);

for my $user (ways()) {
    my $way = way($user);

    subtest "$way: the limits are in the box, read-only" => sub {
        my $j = box('cat "$AGENT_LIMITS"; echo x > "$AGENT_LIMITS"; '
                    . 'rm -f "$AGENT_LIMITS"; test -e /run/task/limits.json '
                    . '&& echo; echo still', user => $user,
                    args => ['--memory', '100m', '--cpu', '0.5']);
        my ($text) = $j->{stdout} =~ /^(.*)\nstill\n$/;
        is_deeply($json->decode($text // 'null'), $j->{limits},
                  'the file holds what the result says');
        is($j->{limits}{memory}, 100 << 20, '--memory 100m is in force');
        like($j->{stderr}, qr/Read-only|Permission denied/,
             'the file cannot be rewritten');
    };

    my %flags = (cpu => ['0.5', 0.5, '1.5'], 'cpu-time' => ['2s', 2000, '2m'],
        memory => ['64m', 64 << 20, '1g'], pids => [9, 9, 300],
        'open-files' => [64, 64, 2000],
        'wall-clock' => ['3s', 3000, '21s'], output => [500, 500, 10001],
        'output-bytes' => ['1m', 1 << 20, '2g']);
    my %keys = ('cpu-time' => 'cpu_time_ms', 'open-files' => 'open_files',
                'wall-clock' => 'wall_clock_ms',
                'output-bytes' => 'output_bytes');

    for my $flag (sort keys %flags) {
        my ($tight, $value, $loose) = @{ $flags{$flag} };
        subtest "$way: --$flag tightens a limit and loosens none" => sub {
            my $j = box('true', user => $user, args => ["--$flag", $tight]);
            is($j->{limits}{ $keys{$flag} // $flag }, $value,
               "--$flag $tight is in force");
            my $r = jail(['run', '--offline', "--$flag", $loose, '--', 'true'],
                         user => $user);
            is($r->{status}, 2, "--$flag $loose is refused");
        };
    }

    subtest "$way: --open-files bounds the open files" => sub {
        my $j = python('import os' . "\n" . <<'END', user => $user,
n = 0
try:
    while n < 1000:
        os.open('/dev/null', os.O_RDONLY)
        n += 1
except OSError as e:
    print(n + 3, e.errno)
END
            args => ['--open-files', '40']);
        is($j->{stdout}, "40 24\n", 'the 41st is EMFILE');
    };

    # all at once; each task lives until the broker was told of it

    my @runs = map {
        my ($limit, $script, %limits) = @$_;
        my $b = broker(%limits);
        pipe(my $r, my $w) or die $!;
        my $p = spawn(['run', '--control', $b->{socket}, '--stdin', '--',
                       '/usr/bin/python3', '-c', $script . $wait],
                      user => $user, before => sub { open STDIN, '<&', $r });
        [$limit, ($limits{near_limit} // 80) / 100, $b, $p, $w];
    } @near;

    for (@runs) {
        my ($limit, $near, $b, $p, $w) = @$_;
        subtest "$way: a run that comes near its limit of $limit is reported"
            => sub
        {
            wait_for('the report', sub { heard($b, 'near_limit') });
            close $w;
            my $r = finish($p);
            is($r->{json}{reason}, 'ok', 'the run itself ends well')
                or diag $r->{out};
            is(near($r->{json}), $limit, 'the result names the limit');
            my ($it) = @{ $r->{json}{near_limits} };
            cmp_ok($it->{used}, '>=', $near * $it->{max},
                   'the result says how near it was');
            my @reports = reported($b);
            is(join(' ', map { $_->{limit} } @reports), $limit,
               'the broker was told once, before the end of the task');
            cmp_ok($reports[0]{used} // 0, '>=', $near * $it->{max},
                   'the broker was told how near it was');
            fake_broker_end($b);
        };
    }

    subtest "$way: a run far from its limits is not reported" => sub {
        my $b = broker();
        my $r = jail(['run', '--control', $b->{socket}, '--', 'sleep', '0.5'],
                     user => $user);
        is(near($r->{json}), '', 'the result names no limit');
        is(scalar(reported($b)), 0, 'the broker was told of none');
        fake_broker_end($b);
    };

    # a verdict needs both: the limit was hit, and the program failed

    my $fill = 'head -c 300m /dev/zero > /tmp/work/f';
    for (['ok', "$fill; exit 0", 'a full disk, but the program succeeds'],
         ['disk', "$fill; exit 1", 'a full disk, and the program fails'],
         ['disk', 'head -c 300m /dev/zero > /dev/shm/f; exit 1',
          'full shared memory, and the program fails'],
         ['nonzero', 'exit 28', 'a failure with room left'],
         ['nonzero', 'head -c 200m /dev/zero > /tmp/work/f; exit 1',
          'a failure with much written, but room left']) {
        my ($reason, $script, $what) = @$_;
        subtest "A-110 $way: $what: the reason is $reason" => sub {
            is(box($script, user => $user)->{reason}, $reason, 'the reason');
        };
    }

    for (['ok', 0], ['pids', 1]) {
        my ($reason, $status) = @$_;
        subtest "$way: at the limit of processes, with status $status: the "
            . "reason is $reason" => sub
        {
            my $j = python(<<"END", user => $user, args => ['--pids', '8']);
import os, sys, time
try:
    for i in range(20):
        if os.fork() == 0: time.sleep(99)
except OSError:
    sys.exit($status)
END
            is($j->{reason}, $reason, 'the reason');
        };
    }
}

done_testing;
