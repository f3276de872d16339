#!/usr/bin/perl

# The task's streams: what it reads, what is kept of what it writes, and what
# becomes of both when they are passed through.
#
# sanitizers: what a task prints is cut and passed on

use v5.36;

use Fcntl qw(F_GETFL F_SETFL O_NONBLOCK);
use FindBin;
use IO::Select;
use lib $FindBin::Bin;
use Jail;
use POSIX ();
use Test::More;

sub run ($args, @command) {
    return ['run', '--offline', @$args, '--', @command];
}

sub text ($path) { return read_file($path) // die "$path: $!" }

sub tasks ($pid) {
    return map { split ' ', text($_) } glob "/proc/$pid/task/*/children";
}

# The launcher with a pipe as its input; { in } is the writing end.
sub piped ($args, %opt) {
    pipe my $r, my $w or die $!;
    my $before = $opt{before};
    my $p = spawn($args, %opt, before => sub {
        POSIX::dup2(fileno $r, 0);
        POSIX::close(fileno $_) for $r, $w;
        $before->() if $before;
    });
    close $r;
    return { %$p, in => $w };
}

for my $user (ways()) {
    my $way = way($user);
    my @as = (user => $user);

    subtest "$way: --stdin passes every byte and the end, through a pipe"
        => sub
    {
        my $data = join '', map { chr($_ % 256) } 1 .. 300_000;
        my $r = jail(run(['--stdin'], 'sh', '-c',
                         'md5sum; readlink /proc/self/fd/0'),
                     @as, stdin => $data);
        require Digest::MD5;
        like($r->{json}{stdout}, qr/^${\Digest::MD5::md5_hex($data)} .*\npipe:/,
             'the sum of 300,000 bytes, and a pipe');
        $r = jail(run([], 'sh', '-c', 'cat; readlink /proc/self/fd/0'), @as,
                  stdin => 'secret');
        is($r->{json}{stdout}, "/dev/null\n",
           'control: without it the input is /dev/null');
    };

    subtest "$way: a task that does not read its input ends all the same"
        => sub
    {
        my $p = piped(run(['--stdin'], 'true'), @as);
        my $r = finish($p);
        # the input stays open
        is($r->{json}{reason}, 'ok', 'the reason is ok, before the wall clock');
    };

    subtest "$way: input comes while the task runs" => sub {
        my $p = piped(run(['--stdin'], 'sh', '-c', 'read a; echo "got $a"'),
                      @as);
        syswrite $p->{in}, "one\ntwo\n";
        my $r = finish($p);
        is($r->{json}{stdout}, "got one\n",
           'a line is read before the end of the input');
    };

    # bounded: until the pipes are full on the way to the task, and no further
    subtest "$way: input that the task does not read stays with the caller"
        => sub
    {
        my $p = piped(run(['--stdin'], 'sleep', '99'), @as);
        wait_for('the task', sub { children((alive($p))[0] // 0) });
        fcntl $p->{in}, F_SETFL, O_NONBLOCK;
        my ($taken, $refused) = (0, 0);
        wait_for('full pipes', sub {
            my $n = syswrite $p->{in}, 'x' x 65536;
            $taken += $n // 0;
            $refused = $n ? 0 : $refused + 1;
            # blocked for a while, or far beyond
            return $refused > 100 || $taken > 16 * 65536;
        });
        cmp_ok($taken, '<=', 4 * 65536, 'at most four pipes are taken');
        cmp_ok($taken, '>', 65536, 'control: one pipe was taken');
        kill TERM => $p->{pid};
        is(finish($p)->{json}{reason}, 'canceled',
           'the launcher is not held up');
    };

    subtest "$way: --code - and --stdin are refused together" => sub {
        my $r = jail(run(['--stdin', '--code', '-'], 'sh'), @as);
        is($r->{status}, 2, 'the status is 2');
    };

    for (['ends', '1', '1000', qr/characters cut/],
         ['head', '1', undef, undef], ['tail', undef, '1000', undef]) {
        my ($keep, $first, $last, $marker) = @$_;
        subtest "$way: --output-keep $keep" => sub {
            my $j = box('seq 1000', @as,
                        args => ['--output', '200', '--output-keep', $keep]);
            my $t = $j->{stdout};
            is(length $t, 200, 'the text has the length of --output');
            is($t =~ /^1\n2\n/ ? 1 : 0, $first ? 1 : 0, ($first ? 'the beginning is kept' : 'the beginning is cut'));
            is($t =~ /999\n1000\n$/ ? 1 : 0, $last ? 1 : 0, ($last ? 'the end is kept' : 'the end is cut'));
            is($t =~ /characters cut/ ? 1 : 0, $marker ? 1 : 0,
               'the marker of a cut is there for "ends" only');
            ok($j->{truncated}{stdout}, 'the result says that it was cut');
            $j = box('seq 10', @as,
                     args => ['--output', '200', '--output-keep', $keep]);
            is($j->{stdout}, join('', map { "$_\n" } 1 .. 10),
               'a text that fits is whole');
            ok(!$j->{truncated}{stdout}, 'the result says that it was not cut');
        };
    }
    subtest "$way: --output-keep with another word is refused" => sub {
        my $r = jail(run(['--output-keep', 'middle'], 'true'), @as);
        is($r->{status}, 2, 'the status is 2');
    };

    subtest "$way: --raw passes every byte and the status" => sub {
        my $r = jail(run(['--raw'], 'sh', '-c',
                         'printf "\0\377\033[1m"; echo err >&2; exit 7'), @as);
        is($r->{out}, "\0\xff\e[1m", 'stdout, with control characters');
        is($r->{err}, "err\n", 'stderr');
        is($r->{status}, 7, 'the program\'s status');
    };

    my @status = (
        [0, ['true']], [124, ['sh', '-c', 'exit 124']],
        [139, ['sh', '-c', 'kill -SEGV $$']], [137, ['sh', '-c', 'kill -9 $$']],
        [127, ['no-such-program']], [126, ['/usr']], [126, ['/etc/passwd']],
        [124, ['sleep', '99'], '--wall-clock', '200ms'],
        [137, ['/usr/bin/python3', '-c', 'x = bytearray(300 << 20)'],
         '--memory', '64m'],
        [152, ['sh', '-c', 'while :; do :; done'], '--cpu-time', '1s'],
        [153, ['yes'], '--output-bytes', '100k'],
        [3, ['sh', '-c', 'head -c 300m /dev/zero > f; exit 3']],
        [125, ['true'], '--in', dir() . '/none'],
        [2, ['true'], '--no-such-option'],
    );
    for (@status) {
        my ($want, $command, @args) = @$_;
        subtest "$way: --raw @args @$command: status $want" => sub {
            my $r = jail(run(['--raw', @args], @$command), @as);
            is($r->{status}, $want, 'the status');
            unlike($r->{out}, qr/task_id/, 'there is no result in JSON');
        };
    }

    subtest "$way: --raw of a task that is canceled: status 143" => sub {
        my $p = spawn(run(['--raw'], 'sh', '-c', 'echo go; sleep 99'), @as);
        sysread $p->{out}, my $go, 3;
        kill TERM => $p->{pid};
        is(finish($p)->{status}, 143, 'the status');
    };

    subtest "A-086 $way: --raw loses no byte, however slowly it is read"
        => sub
    {
        my $p = spawn(run(['--raw'], 'sh', '-c',
               '(seq 1 30000; printf END) & (seq 1 30000; printf END) >&2; wait'),
               @as);
        my %got = (out => '', err => '');
        my $select = IO::Select->new($p->{out}, $p->{err});
        my $reads = 0;
        while ($select->count) {
            for my $f ($select->can_read(WATCHDOG)) {
                my $name = $f == $p->{out} ? 'out' : 'err';
                select undef, undef, undef, 0.01 if $reads++ < 40;
                sysread($f, $got{$name}, 5000, length $got{$name})
                    or $select->remove($f);
            }
        }
        waitpid $p->{pid}, 0;
        my $all = join('', map { "$_\n" } 1 .. 30000) . 'END';
        is($got{$_} eq $all, 1, "every byte of $_ arrives, END last")
            for qw(out err);
    };

    subtest "$way: --raw, a reader that is gone ends the task by SIGPIPE"
        => sub
    {
        my $p = spawn(run(['--raw'], 'yes'), @as);
        sysread $p->{out}, my $go, 100;
        close $p->{out};
        waitpid $p->{pid}, 0;
        # `yes` has no end of its own, and the wall clock's is another status
        is($? >> 8, 141, 'the status');
    };

    subtest "$way: --raw, a reader that does not read does not stop the wall "
            . "clock" => sub
    {
        my $p = spawn(run(['--raw', '--wall-clock', '500ms'], 'yes'), @as);
        wait_for('the box', sub { tasks($p->{pid}) });
        ok(wait_for('its end', sub { !tasks($p->{pid}) }), 'the box ends');
        is(waitpid($p->{pid}, POSIX::WNOHANG()), 0,
           'the launcher stays: it has bytes for the reader');
        kill TERM => $p->{pid};
        waitpid $p->{pid}, 0;
        is($? >> 8, 124, 'a signal ends it, with the status of the task');
    };

    subtest "A-089 $way: endless output leaves the launcher small" => sub {
        my $p = spawn(run(['--raw', '--output-bytes', '300m'], 'yes'), @as);
        my ($peak, $bytes) = (0, 0);
        while (my $n = sysread $p->{out}, my $buf, 1 << 20) {
            $bytes += $n;
            last if $bytes > 100 << 20;
        }
        ($peak) = text("/proc/$p->{pid}/status") =~ /VmHWM:\s*(\d+)/;
        close $p->{out};
        waitpid $p->{pid}, 0;
        cmp_ok($peak, '<', 16384, 'its memory after 100 MB is under 16 MB');
    };
}


# A terminal: the launcher's output is one, the task's is not.

subtest 'control sequences of a task do not reach a terminal' => sub {
    my $script = write_file('on_terminal.py', <<'END');
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
data = b""
while True:
    try:
        more = os.read(fd, 65536)
    except OSError:
        break
    if not more:
        break
    data += more
os.waitpid(pid, 0)
os.write(1, data)
END

    my $task = 'printf "a\033[31mb\033]0;title\007c\302\2332Jd\n"; '
             . 'printf "\033[2Jerr\n" >&2; test -t 1 || echo no terminal; '
             . 'cat; test -c /dev/tty && (: < /dev/tty) 2>/dev/null '
             . '|| echo none to open';
    my $r = jail(run(['--raw', '--stdin'], 'sh', '-c', $task =~ s/cat; //r),
                 program => ['/usr/bin/python3', $script]);
    my $text = $r->{out} =~ s/\r//gr;
    like($text, qr/^abcd$/m, 'the text of stdout is there');
    like($text, qr/^err$/m, 'the text of stderr is there');
    unlike($text, qr/\e|\x9b|\x07/, 'no control character is there');
    like($text, qr/^no terminal$/m, 'the task\'s output is a pipe');
    like($text, qr/^none to open$/m, 'the task has no terminal to open');

    $r = jail(run(['--raw'], 'printf', '\033[31m'));
    is($r->{out}, "\e[31m", 'control: a pipe gets them as they are');
};

done_testing;
