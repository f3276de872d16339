#!/usr/bin/perl

# Limits are where a program can read them, may be tightened one by one, and
# are told of before they are reached; a verdict needs evidence.

use v5.36;

use FindBin;
use IPC::Open2 qw(open2);
use JSON::PP ();
use lib $FindBin::Bin;
use Jail;
use Test::More;

my $json = JSON::PP->new->utf8;
my $n = 0;

sub broker (%limits) {
    my $socket = dir() . '/near.' . ++$n;
    my $b = { socket => $socket, log => "$socket.log" };
    my %all = (cpu => 1.0, cpu_time_ms => 60000, memory => 268435456,
        pids => 64, open_files => 1024, wall_clock_ms => 20000,
        output => 10000, output_bytes => 1048576, near_limit => 80, %limits);
    $b->{pid} = open2($b->{out}, $b->{in}, '/usr/bin/python3',
        "$FindBin::Bin/fake_broker.py", $socket, $b->{log},
        $json->encode({ task => { limits => \%all, box => {
            isolation => 'namespaces', readable => [], env => [],
            writable => [{ path => '/tmp/work', bytes => 16777216 }] } } }));
    readline($b->{out}) eq "ready\n" or die 'the fake broker did not start';
    return $b;
}

sub told ($b) {
    open my $f, '<', $b->{log} or die $!;
    my @all = map { $json->decode($_) } <$f>;
    my ($end) = grep { ($all[$_]{op} // '') eq 'close' } 0 .. $#all;
    return map { $_->{message} } grep { ($_->{op} // '') eq 'near_limit' }
           @all[0 .. $end // $#all];
}

sub near ($j) { return join ' ', map { $_->{limit} } @{ $j->{near_limits} } }

for my $user (ways()) {
    my $way = way($user);

    # where the program reads them

    my $j = box('cat "$AGENT_LIMITS"; echo x > "$AGENT_LIMITS"; '
                . 'rm -f "$AGENT_LIMITS"; test -e /run/task/limits.json '
                . '&& echo; echo still', user => $user,
                args => ['--memory', '100m', '--cpu', '0.5']);
    my ($text) = $j->{stdout} =~ /^(.*)\nstill\n$/;
    is_deeply($json->decode($text // 'null'), $j->{limits},
              "$way: the limits are in the box, as they are in the result");
    is($j->{limits}{memory}, 100 << 20, 'a tighter one is in force');
    like($j->{stderr}, qr/Read-only|Permission denied/,
         'and cannot be rewritten');

    # each may be tightened, none loosened

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
        $j = box('true', user => $user, args => ["--$flag", $tight]);
        is($j->{limits}{ $keys{$flag} // $flag }, $value,
           "$way: --$flag $tight is in force");
        my $r = jail(['run', '--offline', "--$flag", $loose, '--', 'true'],
                     user => $user);
        is($r->{status}, 2, "--$flag $loose is refused");
    }

    $j = python('import os' . "\n" . <<'END', user => $user,
n = 0
try:
    while n < 1000:
        os.open('/dev/null', os.O_RDONLY)
        n += 1
except OSError as e:
    print(n + 3, e.errno)
END
        args => ['--open-files', '40']);
    is($j->{stdout}, "40 24\n", "$way: open files end at their number");

    # told before it is reached, once, while it lives

    my @near = (
        ['memory', 'x = bytearray(230 << 20); import time; time.sleep(.4)'],
        ['pids', "import os, time\nfor i in range(55):\n"
               . "    if os.fork() == 0: time.sleep(9)\ntime.sleep(.4)"],
        ['cpu_time', "import time\nwhile time.process_time() < 1.7: pass",
         cpu_time_ms => 2000],
        ['wall_clock', 'import time; time.sleep(3.3)',
         wall_clock_ms => 4000],
        ['disk', "open('/tmp/work/f', 'wb').write(b'x' * (14 << 20)); "
               . 'import time; time.sleep(.4)'],
        ['disk', "import time\nf = open('/dev/shm/f', 'wb')\n"
               . "for i in range(110): f.write(b'x' * (1 << 20))\n"
               . 'time.sleep(.4)'],
        ['inodes', "import time\nfor i in range(3500): "
               . "open('/tmp/work/%d' % i, 'w').close()\ntime.sleep(.4)"],
        ['output_bytes', "print('x' * 900000, flush=True); "
               . 'import time; time.sleep(.4)'],
    );

    for (@near) {
        my ($limit, $script, %limits) = @$_;
        my $b = broker(%limits);
        my $r = jail(['run', '--control', $b->{socket}, '--',
                      '/usr/bin/python3', '-c', $script], user => $user);
        is($r->{json}{reason}, 'ok', "$way: a run near its limit of $limit")
            or diag $r->{out};
        is(near($r->{json}), $limit, 'is told of in the result');
        my ($it) = @{ $r->{json}{near_limits} };
        cmp_ok($it->{used}, '>=', 0.8 * $it->{max}, 'with how near it was');
        my @told = told($b);
        is(join(' ', map { $_->{limit} } @told), $limit,
           'and to the broker, once, before its end');
        cmp_ok($told[0]{used} // 0, '>=', 0.8 * $it->{max}, 'with its use');
        close $b->{in};
        waitpid $b->{pid}, 0;
    }

    my $b = broker();
    my $r = jail(['run', '--control', $b->{socket}, '--', 'sleep', '0.5'],
                 user => $user);
    is(near($r->{json}), '', "$way: a run that is not near is told of nowhere");
    is(scalar(told($b)), 0, 'nor to the broker');
    close $b->{in};
    waitpid $b->{pid}, 0;

    # a verdict needs both: the limit was hit, and the program failed

    my $fill = 'head -c 300m /dev/zero > /tmp/work/f';
    for (['ok', "$fill; exit 0", 'a full disk that the program bears'],
         ['disk', "$fill; exit 1", 'a full disk that it does not'],
         ['disk', 'head -c 300m /dev/zero > /dev/shm/f; exit 1',
          'full shared memory'],
         ['nonzero', 'exit 28', 'a failure with room left'],
         ['nonzero', 'head -c 200m /dev/zero > /tmp/work/f; exit 1',
          'a failure with much written']) {
        my ($reason, $script, $what) = @$_;
        $j = box($script, user => $user);
        is($j->{reason}, $reason, "A-110 $way: $what: $reason");
    }

    for (['ok', 0], ['pids', 1]) {
        my ($reason, $status) = @$_;
        $j = python(<<"END", user => $user, args => ['--pids', '8']);
import os, sys, time
try:
    for i in range(20):
        if os.fork() == 0: time.sleep(9)
except OSError:
    sys.exit($status)
END
        is($j->{reason}, $reason,
           "$way: processes at their limit and status $status: $reason");
    }
}

done_testing;
