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
use Time::HiRes qw(sleep time);

sub run ($args, @command) {
    return ['run', '--offline', @$args, '--', @command];
}

sub text ($path) {
    open my $f, '<', $path or die $!;
    local $/;
    return scalar <$f>;
}

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

    # input

    my $data = join '', map { chr($_ % 256) } 1 .. 300_000;
    my $r = jail(run(['--stdin'], 'sh', '-c', 'md5sum; readlink /proc/self/fd/0'),
                 @as, stdin => $data);
    require Digest::MD5;
    like($r->{json}{stdout}, qr/^${\Digest::MD5::md5_hex($data)} .*\npipe:/,
         "$way: --stdin passes every byte and the end, through a pipe");
    $r = jail(run([], 'sh', '-c', 'cat; readlink /proc/self/fd/0'), @as,
              stdin => 'secret');
    is($r->{json}{stdout}, "/dev/null\n", 'without it there is nothing');

    my $p = piped(run(['--stdin'], 'true'), @as);
    $r = finish($p);
    is($r->{json}{reason}, 'ok', "$way: a task that does not read its input");
    cmp_ok($r->{ms}, '<', 10000, 'ends all the same, though it is open');

    $p = piped(run(['--stdin'], 'sh', '-c', 'read a; echo "got $a"'), @as);
    syswrite $p->{in}, "one\ntwo\n";
    $r = finish($p);
    is($r->{json}{stdout}, "got one\n", 'input comes while the task runs');

    # bounded: what nobody reads is not taken

    $p = piped(run(['--stdin', '--wall-clock', '1200ms'], 'sleep', '9'), @as);
    fcntl $p->{in}, F_SETFL, O_NONBLOCK;
    my ($taken, $quiet) = (0, time + 0.6);
    while (time < $quiet) {
        my $n = syswrite $p->{in}, 'x' x 65536;
        $taken += $n // 0;
        $quiet = time + 0.4 if $n;
        sleep 0.01;
    }
    cmp_ok($taken, '<=', 4 * 65536, "$way: what the task does not read waits "
                                    . 'with the caller');
    cmp_ok($taken, '>', 65536, 'and some of it was taken');
    is(finish($p)->{json}{reason}, 'timeout', 'the wall clock goes on');

    $r = jail(run(['--stdin', '--code', '-'], 'sh'), @as);
    is($r->{status}, 2, "$way: --code - and --stdin are refused together");

    # what is kept

    for (['ends', '1', '1000', qr/characters cut/],
         ['head', '1', undef, undef], ['tail', undef, '1000', undef]) {
        my ($keep, $first, $last, $marker) = @$_;
        my $j = box('seq 1000', @as,
                    args => ['--output', '200', '--output-keep', $keep]);
        my $t = $j->{stdout};
        is(length $t, 200, "$way: --output-keep $keep has the cap's length");
        is($t =~ /^1\n2\n/ ? 1 : 0, $first ? 1 : 0, 'the beginning');
        is($t =~ /999\n1000\n$/ ? 1 : 0, $last ? 1 : 0, 'the end');
        is($t =~ /characters cut/ ? 1 : 0, $marker ? 1 : 0, 'and the marker');
        ok($j->{truncated}{stdout}, 'that it was cut is told');
        $j = box('seq 10', @as,
                 args => ['--output', '200', '--output-keep', $keep]);
        is($j->{stdout}, join('', map { "$_\n" } 1 .. 10), 'what fits is whole');
        ok(!$j->{truncated}{stdout}, 'and not told of');
    }
    $r = jail(run(['--output-keep', 'middle'], 'true'), @as);
    is($r->{status}, 2, '--output-keep takes no other word');

    # passed through

    $r = jail(run(['--raw'], 'sh', '-c',
                  'printf "\0\377\033[1m"; echo err >&2; exit 7'), @as);
    is($r->{out}, "\0\xff\e[1m", "$way: --raw passes every byte");
    is($r->{err}, "err\n", 'each stream to its own');
    is($r->{status}, 7, 'with the program\'s status');

    my @status = (
        [0, ['true']], [124, ['sh', '-c', 'exit 124']],
        [139, ['sh', '-c', 'kill -SEGV $$']], [137, ['sh', '-c', 'kill -9 $$']],
        [127, ['no-such-program']], [126, ['/usr']], [126, ['/etc/passwd']],
        [124, ['sleep', '9'], '--wall-clock', '200ms'],
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
        $r = jail(run(['--raw', @args], @$command), @as);
        is($r->{status}, $want, "$way: @args @$command: $want");
        unlike($r->{out}, qr/task_id/, 'and no object');
    }

    $p = spawn(run(['--raw'], 'sh', '-c', 'echo go; sleep 9'), @as);
    sysread $p->{out}, my $go, 3;
    kill TERM => $p->{pid};
    is(finish($p)->{status}, 143, "$way: a task that is canceled: 143");

    # every byte, however slowly it is read

    $p = spawn(run(['--raw'], 'sh', '-c',
        '(seq 1 30000; printf END) & (seq 1 30000; printf END) >&2; wait'),
        @as);
    my %got = (out => '', err => '');
    my $select = IO::Select->new($p->{out}, $p->{err});
    my $reads = 0;
    while ($select->count) {
        for my $f ($select->can_read(10)) {
            my $name = $f == $p->{out} ? 'out' : 'err';
            sleep 0.01 if $reads++ < 40;
            sysread($f, $got{$name}, 5000, length $got{$name})
                or $select->remove($f);
        }
    }
    waitpid $p->{pid}, 0;
    my $all = join('', map { "$_\n" } 1 .. 30000) . 'END';
    is($got{$_} eq $all, 1, "A-086 $way: every byte of $_ arrives, END last")
        for qw(out err);

    # a reader that is gone, and one that does not read

    $p = spawn(run(['--raw'], 'yes'), @as);
    sysread $p->{out}, $go, 100;
    my $start = time;
    close $p->{out};
    waitpid $p->{pid}, 0;
    is($? >> 8, 141, "$way: a reader that is gone ends the task by SIGPIPE");
    cmp_ok(time - $start, '<', 10, 'at once');

    $p = spawn(run(['--raw', '--wall-clock', '500ms'], 'yes'), @as);
    wait_for('the box', sub { tasks($p->{pid}) });
    $start = time;
    wait_for('its end', sub { !tasks($p->{pid}) });
    cmp_ok(time - $start, '<', 10,
           "$way: a reader that does not read does not stop the wall clock");
    is(waitpid($p->{pid}, POSIX::WNOHANG()), 0,
       'the launcher still has bytes for it');
    kill TERM => $p->{pid};
    waitpid $p->{pid}, 0;
    is($? >> 8, 124, 'until it is told to go, and says how it was');

    # flat memory

    $p = spawn(run(['--raw', '--output-bytes', '300m'], 'yes'), @as);
    my ($peak, $bytes) = (0, 0);
    while (my $n = sysread $p->{out}, my $buf, 1 << 20) {
        $bytes += $n;
        last if $bytes > 100 << 20;
    }
    ($peak) = text("/proc/$p->{pid}/status") =~ /VmHWM:\s*(\d+)/;
    close $p->{out};
    waitpid $p->{pid}, 0;
    cmp_ok($peak, '<', 16384, "A-089 $way: endless output leaves the "
                              . 'launcher as small as it was');
}

# A terminal: the launcher's output is one, the task's is not.

{
    my $script = dir() . '/on_terminal.py';
    open my $f, '>', $script or die $!;
    print $f <<'END';
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
    close $f;

    my $task = 'printf "a\033[31mb\033]0;title\007c\302\2332Jd\n"; '
             . 'printf "\033[2Jerr\n" >&2; test -t 1 || echo no terminal; '
             . 'cat; test -c /dev/tty && (: < /dev/tty) 2>/dev/null '
             . '|| echo none to open';
    my $r = jail(run(['--raw', '--stdin'], 'sh', '-c', $task =~ s/cat; //r),
                 program => ['/usr/bin/python3', $script]);
    my $text = $r->{out} =~ s/\r//gr;
    like($text, qr/^abcd$/m, 'control sequences do not reach a terminal');
    like($text, qr/^err$/m, 'on neither stream');
    unlike($text, qr/\e|\x9b|\x07/, 'none of them');
    like($text, qr/^no terminal$/m, 'the task has a pipe');
    like($text, qr/^none to open$/m, 'and no terminal to open');

    $r = jail(run(['--raw'], 'printf', '\033[31m'));
    is($r->{out}, "\e[31m", 'what is no terminal gets them as they are');
}

done_testing;
