#!/usr/bin/perl

# What programs of many kinds need of the box they run in, and what they are
# told where there is none of it; and a few ends of the launcher itself that
# no other test has.

use v5.36;

use FindBin;
use IPC::Open2 qw(open2);
use JSON::PP ();
use lib $FindBin::Bin;
use Jail;
use POSIX ();
use Test::More;
use Time::HiRes qw(time);

my $json = JSON::PP->new->utf8;
my $n = 0;

sub has (@programs) {
    for my $program (@programs) {
        return 0 if !grep { -x "$_/$program" } qw(/usr/bin /bin);
    }
    return 1;
}

sub broker (%box) {
    my $socket = dir() . '/needs.' . ++$n;
    my $scenario = { task => { box => { isolation => 'namespaces',
        writable => [{ path => '/tmp/work', bytes => 16777216 }],
        readable => [], env => [], %box } } };
    my $b = { socket => $socket };
    $b->{pid} = open2($b->{out}, $b->{in}, '/usr/bin/python3',
        "$FindBin::Bin/fake_broker.py", $socket, "$socket.log",
        $json->encode($scenario));
    readline($b->{out}) eq "ready\n" or die 'the fake broker did not start';
    return $b;
}

sub end ($b) {
    close $b->{in};
    waitpid $b->{pid}, 0;
}

sub file ($name, $text, $mode = 0644) {
    my $path = dir() . "/$name";
    open my $f, '>', $path or die $!;
    print $f $text;
    close $f;
    chmod $mode, $path;
    return $path;
}

for my $user (ways()) {
    my $way = way($user);
    my @as = (user => $user);

    # memory that is shared

    my $j = python(<<'END', @as);
import mmap, os
size = os.statvfs('/dev/shm').f_frsize * os.statvfs('/dev/shm').f_blocks
fd = os.open('/dev/shm/x', os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 2 * size)
m = mmap.mmap(fd, 2 * size)
for at in range(0, size, 4096):
    m[at] = 1
print(size, flush=True)
m[size] = 1
print('more')
END
    is($j->{stdout}, $j->{limits}{memory} / 2 . "\n",
       "F-002 $way: /dev/shm holds half of the memory, and no more");
    is("$j->{reason} $j->{signal}", 'disk SIGBUS',
       'F-002 and the result names what was full, not the signal only');

    # caches

    $j = box('ls -Ad "$XDG_CACHE_HOME" 2>&1; fc-list | head -1; '
             . 'mkdir -p "$XDG_CACHE_HOME" "$MPLCONFIGDIR" && echo made; '
             . 'ls -A', @as);
    SKIP: {
        skip 'no fontconfig', 1 if !has('fc-list');
        like($j->{stdout}, qr/: \w.*:style=/, "F-003 $way: there is a font");
    }
    like($j->{stdout}, qr/^made\n\z/m,
         'F-003 caches have a place, which is not the working directory');
    SKIP: {
        skip 'no matplotlib', 2 if system("/usr/bin/python3 -c "
            . "'import matplotlib' 2> /dev/null") != 0;
        $j = python(<<'END', @as);
import matplotlib.pyplot as p, os
p.plot([1, 4, 9])
p.savefig('c.png')
print(os.listdir('.'))
END
        is($j->{stdout}, "['c.png']\n", "F-003 $way: a chart, and only that");
        is($j->{stderr}, '', 'F-003 without a warning');
    }

    # git

    SKIP: {
        skip 'no git', 6 if !has('git');
        my $as = $user ? user_id() : $>;
        my $tree = dir() . "/repository.$as";
        my $script = <<'END';
cd "$1" && git init -q . && git config user.email a@b.c &&
git config user.name n && echo 1 > a && git add a && git commit -qm one
END
        my @git = ('sh', '-c', $script, 'sh', $tree);
        mkdir $tree;
        system(@git) == 0 or die 'git';

        my $b = broker(readable => [$tree]);
        my $r = jail(['run', '--control', $b->{socket}, '--', 'sh', '-c',
            "git -C $tree status --short && git -C $tree log --format=%s && "
            . "git clone -q $tree c && cat c/a"], @as);
        is($r->{json}{stdout}, "one\n1\n",
           "F-008 $way: git reads a repository that the policy shares")
            or diag $r->{json}{stderr};
        end($b);

        system('chown', '-R', "$as:$as", $tree) if $user && $> == 0;
        $r = jail(['run', '--offline', '--workspace', $tree, '--', 'sh', '-c',
            'git status --short && git log --format=%s && echo 2 > b && '
            . 'git add b && git -c user.email=a@b.c -c user.name=n '
            . 'commit -qm two && git clone -q . /tmp/c && cat /tmp/c/b'], @as);
        is($r->{json}{stdout}, "one\n2\n",
           "F-008 $way: and one that it works in") or diag $r->{json}{stderr};
        is_deeply([grep { (lstat)[4] != $as } glob "$tree/* $tree/.git"], [],
                  'F-008 whose files are the caller\'s afterwards');

        $j = box('mkdir d && git -C d init -q && '
                 . 'git config --system --get-all safe.directory', @as);
        is($j->{stdout}, "/tmp/work\n", 'F-008 never every directory');
    }

    SKIP: {
        skip 'no apt', 3 if !has('apt-get', 'dpkg', 'dpkg-deb');
        my $b = broker();
        my $r = jail(['run', '--control', $b->{socket}, '--', 'sh', '-c',
            'apt-get update; a=$?; mkdir -p p/DEBIAN; printf "Package: p\n'
            . 'Version: 1\nArchitecture: all\nMaintainer: m\nDescription: d\n"'
            . ' > p/DEBIAN/control; echo in > p/f; dpkg-deb -b p p.deb '
            . '> /dev/null; dpkg -i p.deb; b=$?; dpkg -x p.deb x; cat x/f; '
            . 'echo $a $b'], @as);
        is($r->{json}{stdout} =~ s/^Reading.*\n//r, "in\n100 2\n",
           "F-010 $way: apt and dpkg -i fail, dpkg -x works");
        like($r->{json}{stderr}, qr/\bE: .*missing.*superuser privilege/s,
             'F-010 and say why');
        cmp_ok($r->{json}{usage}{wall_ms}, '<', 10000, 'F-010 without a wait');
        end($b);
    }

    # time and names

    $j = box('date +%Z; TZ=America/New_York date -d @0 +%H%Z; '
             . 'echo ${TZ-unset}; cat /etc/timezone; readlink /etc/localtime; '
             . '/usr/bin/python3 -c "import zoneinfo, datetime as d; '
             . 'print(d.datetime(2024, 7, 1, '
             . 'tzinfo=zoneinfo.ZoneInfo(\'Europe/Prague\')).utcoffset())"',
             @as);
    is($j->{stdout}, "UTC\n19EST\nunset\nEtc/UTC\n"
                     . "/usr/share/zoneinfo/Etc/UTC\n2:00:00\n",
       "F-022 $way: it is UTC, and every other zone is known")
        or diag $j->{stderr};
    SKIP: {
        skip 'no node', 2 if !has('node');
        $j = box('node -p "Intl.DateTimeFormat().resolvedOptions().timeZone'
                 . '"; UV_USE_IO_URING=1 node -e "const fs = require(\'fs\'); '
                 . 'fs.promises.writeFile(\'f\', \'x\').then(() => '
                 . 'console.log(fs.readFileSync(\'f\').length)); '
                 . 'require(\'dns\').lookup(\'x.test\', e => '
                 . 'console.log(e.code))" | sort', @as);
        like($j->{stdout}, qr/^UTC\n/, "F-022 $way: for node, too");
        like($j->{stdout}, qr/^1\nE(?:NOTFOUND|AI_AGAIN)\n\z/m,
             'F-042 F-024 node does without io_uring, and names are unknown');
        cmp_ok($j->{usage}{wall_ms}, '<', 5000, 'F-024 at once');
    }

    for my $with (0, 1) {
        my $b = $with ? broker() : undef;
        my @run = ('run', $b ? ('--control', $b->{socket}) : '--offline');
        my $r = jail([@run, '--', '/usr/bin/python3', '-c', <<'END'], @as);
import socket, subprocess, time
begin = time.time()
for port in 22, 5432, 3306, 6379:
    for at in '127.0.0.1', '192.0.2.1':
        try:
            socket.create_connection((at, port), 10)
            print('reached', port)
        except OSError as e:
            pass
for words in (['ssh', '-o', 'BatchMode=yes', 'git@127.0.0.1'],
              ['ssh', '-o', 'BatchMode=yes', 'git@192.0.2.1'],
              ['psql', '-h', '192.0.2.1', '-c', 'select 1', 'x']):
    try:
        print(subprocess.run(words, stderr=-3, stdin=-3).returncode != 0)
    except FileNotFoundError:
        print(True)
print(time.time() - begin < 5)
END
        is($r->{json}{stdout}, "True\n" x 4, "F-039 $way: ssh and databases "
           . 'are refused at once ' . ($with ? 'beside a door' : 'offline'))
            or diag $r->{out};
        end($b) if $b;
    }

    # processes

    $j = python(<<'END', @as);
import array, os, socket, threading
ts = [threading.Thread(target=lambda: None) for _ in range(100)]
[t.start() for t in ts]; [t.join() for t in ts]
print('threads')
for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET:
    a, b = socket.socketpair(socket.AF_UNIX, kind)
    r, w = os.pipe()
    socket.send_fds(a, [b'x'], [r])
    _, fds, _, _ = socket.recv_fds(b, 9, 1)
    os.write(w, b'through')
    print(os.read(fds[0], 9).decode(), end=' ')
    a.send(b'y'); print(b.recvfrom(9)[0].decode())
END
    is($j->{stdout}, "threads\n" . "through y\n" x 3,
       "F-041 F-043 $way: threads, socket pairs and descriptors in messages")
        or diag $j->{stderr};

    SKIP: {
        skip 'no make', 1 if !has('make');
        $j = box('printf "all: \$(shell seq 20)\n%%:\n\t@sleep 0.01; echo '
                 . '\$@ > f\$@\ntwice: all\n\t@\$(MAKE) -s all\n" > Makefile; '
                 . 'make -s -j8 twice && ls f[0-9]* | wc -l', @as);
        is($j->{stdout}, "20\n", "F-043 $way: make shares its jobs");
    }

    $j = box('sh -c "sh -c \"cat /proc/self/maps /proc/self/status '
             . '/proc/self/cgroup /proc/cpuinfo /proc/meminfo /proc/stat | '
             . 'wc -l; readlink /proc/self/exe; ls /proc/self/fd | wc -l\""; '
             . 'cat /proc/1/cgroup 2>&1 | wc -l', @as);
    like($j->{stdout}, qr{^\d{2,}\n/usr/bin/readlink\n\d+\n\d+\n\z},
         "F-046 $way: /proc has what run-times read") or diag $j->{stdout};

    # a share of the machine

    $j = python('import os; print(os.environ["PYTHON_CPU_COUNT"])', @as,
                args => ['--cpu', '0.5']);
    is($j->{stdout}, "1\n", "F-048 $way: half a processor is one");
    $j = box('nproc; echo $GOMAXPROCS $OMP_NUM_THREADS $TOKIO_WORKER_THREADS '
             . '$LOKY_MAX_CPU_COUNT $POLARS_MAX_THREADS', @as);
    is($j->{stdout}, "1\n1 1 1 1 1\n",
       "F-048 $way: programs that ask are told of the share");

    SKIP: {
        skip 'no java', 3 if !has('java');
        $j = box('sh -c "sh -c \'java -XX:+PrintFlagsFinal -version\'" '
                 . '2> /dev/null > f; echo $?; grep -E "MaxHeapSize|'
                 . 'ActiveProc" f', @as, args => ['--memory', '400m']);
        like($j->{stdout}, qr/^0\n/, "F-046 $way: java starts at any depth");
        like($j->{stdout}, qr/ MaxHeapSize += @{[200 << 20]} /,
             'F-047 with a heap of half the memory');
        like($j->{stdout}, qr/ ActiveProcessorCount += 1 /,
             'F-048 and the processors of the box');
    }

    # debugging

    SKIP: {
        skip 'no gcc', 3 if !has('gcc');
        my $c = '#include <stdlib.h>\n#include <stdio.h>\nint main(void) { '
              . 'volatile char *p = malloc(9); p = 0; puts("clean"); '
              . 'return 0; }\n';
        my $bad = '#include <stdlib.h>\nint main(void) { char *p = malloc(9);'
                . ' free(p); return ((volatile char *) p)[1]; }\n';
        $j = box("printf '$c' > a.c; printf '$bad' > b.c; "
                 . 'for k in address leak; do gcc -fsanitize=$k a.c -o a && '
                 . './a; echo $?; done; gcc -fsanitize=address b.c -o b && '
                 . './b; echo $?', @as, args => ['--memory', '512m']);
        is($j->{stdout}, "clean\n0\nclean\n0\n1\n",
           "F-050 $way: a program with a sanitizer runs, and finds its faults")
            or diag $j->{stderr};
    }
    SKIP: {
        skip 'no strace', 2 if !has('strace');
        $j = box('strace true; echo $?', @as);
        like($j->{stderr}, qr/PTRACE_TRACEME.*Operation not permitted/,
             "F-050 $way: a tracer is told that it may not");
        isnt($j->{stdout}, "0\n", 'F-050 and fails');
    }

    # watching files: a greedy box, and another beside it

    my $greedy = spawn(['run', '--offline', '--', '/usr/bin/python3', '-c',
                        <<'END'], @as);
import ctypes, errno, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
fds = []
while True:
    fd = libc.inotify_init1(0)
    if fd == -1:
        break
    fds.append(fd)
print(len(fds), errno.errorcode[ctypes.get_errno()])
n = 0
while True:
    os.mkdir('d%d' % n)
    if libc.inotify_add_watch(fds[0], b'd%d' % n, 2) == -1:
        break
    n += 1
print(n, errno.errorcode[ctypes.get_errno()], flush=True)
while True:
    time.sleep(0.05)
END
    my $watcher = q{import ctypes, os
libc = ctypes.CDLL(None)
fd = libc.inotify_init1(0)
print(fd > 0, libc.inotify_add_watch(fd, b'.', 0x100) > 0)
open('made', 'w').close()
print(len(os.read(fd, 4096)) > 0)};
    wait_for('the greedy box', sub {
        my $pid = (alive($greedy))[1] // return 0;
        # it sleeps only when it has taken all there is
        open my $f, '<', "/proc/$pid/syscall" or return 0;
        return ((readline $f) // '') =~ /^(?:230|35|115) /;
    }, 20);
    $j = python($watcher, @as);
    is($j->{stdout}, "True True\nTrue\n",
       "F-053 $way: a box watches files beside one that takes all it can");
    kill TERM => $greedy->{pid};
    my $g = finish($greedy)->{json};
    is($g->{stdout}, "16 EMFILE\n16384 ENOSPC\n",
       'F-053 which has an end of its own');

    # ends

    $j = box('/usr/bin/python3 -m http.server 8123 --bind 127.0.0.1 '
             . '2> /dev/null > log & for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 '
             . '14 15 16 17 18 19 20; do /usr/bin/python3 -c "import '
             . 'urllib.request as u; print(u.build_opener('
             . 'u.ProxyHandler({})).open(\'http://127.0.0.1:8123/\').status)" '
             . '2> /dev/null && break; sleep 0.2; done', @as);
    is("$j->{reason} $j->{stdout}", "ok 200\n",
       "F-055 $way: a server in the background serves, and holds up nothing");
    cmp_ok($j->{usage}{wall_ms}, '<', 15000, 'F-055 the box ends at once');
    is(join(' ', leftovers()), '', 'F-055 and the server with it');

    # a program of 32 bits: write(1, "hello\n", 6), exit(0)

    my $code = "\xb8\x04\0\0\0\xbb\x01\0\0\0\xb9" . pack('V', 0x8048076)
             . "\xba\x06\0\0\0\xcd\x80\xb8\x01\0\0\0\x31\xdb\xcd\x80\x0f\x0b"
             . "hello\n";
    $code =~ s/\x76\x80\x04\x08/pack('V', 0x8048054 + length($code) - 6)/e;
    my $size = 84 + length $code;
    my $old = file("old.$n." . ($user ? 1 : 0),
        "\x7fELF\1\1\1" . "\0" x 9
        . pack('vvVVVVVvvvvvv', 2, 3, 1, 0x8048054, 52, 0, 0, 52, 32, 1, 40,
               0, 0)
        . pack('V8', 1, 0, 0x8048000, 0x8048000, $size, $size, 5, 0x1000)
        . $code, 0755);
    SKIP: {
        skip 'this kernel has no programs of 32 bits', 2
            if (POSIX::uname())[4] ne 'x86_64' || `$old` ne "hello\n";
        $j = box('cp old.* o && chmod 755 o && exec ./o', @as,
                 args => ['--in', $old]);
        is($j->{stdout}, '', "F-057 $way: a program of 32 bits does nothing");
        like("$j->{reason} $j->{signal}", qr/^signal SIG(?:SEGV|ILL)$/,
             'F-057 and ends by a signal');
    }

    # the launcher's own

    my $secret = dir() . "/own.$user";
    mkdir $secret;
    file("own.$user/x", "own\n", 0600);
    chown user_id(), user_id(), $secret, "$secret/x" if $user && $> == 0;
    chmod 0700, $secret;
    my $r = jail(['run', '--offline', '--in', "$secret/x", '--', 'cat', 'x'],
                 @as);
    is($r->{json}{stdout}, "own\n",
       "A-123 $way: a file that only the caller may read is opened as it")
        or diag $r->{out};
    my $b = broker(readable => [$secret]);
    $r = jail(['run', '--control', $b->{socket}, '--', 'sh', '-c',
               "touch $secret/new $secret/x; cat $secret/x; ls -d $secret"],
              @as);
    like($r->{json}{stdout}, qr/\Q$secret\E\n\z/,
         'A-123 a directory that only the caller may enter is there');
    is(scalar(() = $r->{json}{stderr} =~ /Read-only|Permission denied/g) >= 2,
       1, 'A-123 and is not written') or diag $r->{out};
    end($b);

    opendir my $dir, '/etc' or die $!;
    $r = jail(['run', '--offline', '--', '/usr/bin/python3', '-c', <<'END'],
import errno, os
for fd in 50, os.open('/etc', os.O_RDONLY):
    try:
        os.close(os.open('hosts', os.O_RDONLY, dir_fd=fd))
        print('opened')
    except OSError as e:
        print(errno.errorcode[e.errno])
END
              @as, before => sub {
                  POSIX::dup2(fileno($dir), 50) or die $!;
              });
    is($r->{json}{stdout}, "EBADF\nopened\n",
       "A-127 $way: no handle of the caller's comes in, the box's own work")
        or diag $r->{out};
}

# F-041: a program of Go's with C in it, and its own resolver

SKIP: {
    skip 'no go', 2 if !has('go', 'gcc');
    my $source = file('n.go', <<'END');
package main

// #include <unistd.h>
import "C"
import (
    "fmt"
    "net"
    "time"
)

func main() {
    done := make(chan int)
    for i := 0; i < 50; i++ {
        go func() { C.usleep(1000); done <- 1 }()
    }
    n := 0
    for i := 0; i < 50; i++ { n += <-done }
    begin := time.Now()
    _, err := net.Dial("tcp", "example.test:80")
    fmt.Println(n, err != nil, time.Since(begin) < time.Second)
}
END
    my $go = dir() . '/n';
    my $built = do {
        local %ENV = (%ENV, GOCACHE => dir() . '/go', GOFLAGS => '-mod=mod',
                      HOME => dir(), CGO_ENABLED => 1, GO111MODULE => 'off');
        system("cd ${\dir()} && go build -tags netgo -o n $source") == 0;
    };
    skip 'go builds nothing here', 1 if !$built;
    my $j = box('cp n m && chmod 755 m && ./m', args => ['--in', $go]);
    is($j->{stdout}, "50 true true\n",
       'F-041 F-024 Go with C runs, and is told at once that a name is none')
        or diag $j->{stderr};
}

# A-099, A-117: how the launcher ends a box, and by which clock

SKIP: {
    skip 'no strace', 3 if !has('strace');
    my $log = dir() . '/calls';
    for my $case (['timeout', '--wall-clock', '300ms', '--', 'sleep', '9'],
                  ['ok', '--', '/usr/bin/env', 'true']) {
        my ($reason, @args) = @$case;
        my $r = jail(['run', '--offline', @args], program => ['strace', '-f',
            '-o', $log, '-e', 'trace=kill,tkill,tgkill,rt_sigqueueinfo,'
            . 'rt_tgsigqueueinfo,pidfd_send_signal,timerfd_create,'
            . 'timer_create,setitimer,alarm']);
        my $calls = do { local (@ARGV, $/) = $log; <> };
        is($r->{json}{reason}, $reason, "a box that ends by $reason")
            or diag $r->{out}, $r->{err};
        unlike($calls, qr/\b(?:t?g?kill|rt_t?g?sigqueueinfo)\(/,
               'A-099 nobody is signalled by a number');
        unlike($calls, qr/CLOCK_REALTIME|ITIMER_REAL|alarm\(/,
               'A-117 and no timer goes by the wall clock');
        like($calls, qr/pidfd_send_signal/, 'A-099 but by a pidfd')
            if $reason eq 'timeout';
    }
}

SKIP: {
    # the launcher of these objects, with a wall clock that jumps
    my $objs = root_dir() . '/' . ($ENV{AGENT_TEST_OBJS} // 'objs');
    my $shim = file('clock.c', <<'END');
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int __real_clock_gettime(clockid_t id, struct timespec *t);

static long
jump(void)
{
    static int  n;

    return n++ % 2 ? -3600 : 3600;
}

int
__wrap_clock_gettime(clockid_t id, struct timespec *t)
{
    int  rc = __real_clock_gettime(id, t);

    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) {
        t->tv_sec += jump();
    }

    return rc;
}

time_t
__wrap_time(time_t *t)
{
    struct timespec  now;

    __wrap_clock_gettime(CLOCK_REALTIME, &now);
    if (t) *t = now.tv_sec;
    return now.tv_sec;
}

int
__wrap_gettimeofday(struct timeval *t, void *zone)
{
    t->tv_sec = __wrap_time(0);
    t->tv_usec = 0;
    return 0;
}
END
    my $mine = dir() . '/jumps';
    my $flags = join ' ', map { "-Wl,--wrap=$_" }
                          qw(clock_gettime time gettimeofday);
    skip 'the launcher cannot be linked here', 3
        if system("cc -o $mine $objs/o/jail/*.o $objs/o/jail/*/*.o $shim $flags -lcgroup "
                  . '-lseccomp -ljansson -lcrypto -lm 2> /dev/null') != 0;
    for my $case (['timeout', 500, 3000, 'sleep', 9],
                  ['ok', 300, 3000, 'sleep', 0.3]) {
        my ($reason, $least, $most, @words) = @$case;
        my $r = jail(['run', '--offline', '--wall-clock', '500ms', '--',
                      @words], program => ['sh', '-c', 'shift; exec "$0" "$@"',
                                           $mine]);
        is($r->{json}{reason}, $reason,
           'A-117 a wall clock that jumps by hours ends nothing')
            or diag $r->{out}, $r->{err};
        my $ms = $r->{json}{usage}{wall_ms};
        ok($ms >= $least - 20 && $ms < $most, "A-117 nor changes what is told ($ms)");
    }
}

# A-074: nobody outside of the box decides about its calls

{
    my $objs = root_dir() . '/' . ($ENV{AGENT_TEST_OBJS} // 'objs');
    open my $f, '<', "$objs/seccomp_filter.h" or die $!;
    my %answers = map { /\{ 0x0006, 0, 0, 0x(\w{4})/ ? ($1 => 1) : () } <$f>;
    is(join(' ', sort keys %answers), '0005 7fff',
       'A-074 the filter allows or refuses, and asks no supervisor');
}

# F-056: from a terminal

SKIP: {
    my $code = file('terminal.py', <<'END');
import json, os, pty, select, signal, sys, termios, time
def until(fd, what, text=b''):
    while what not in text and select.select([fd], [], [], 10)[0]:
        try:
            more = os.read(fd, 4096)
        except OSError:
            break
        if not more:
            break
        text += more
    return text
for how in 'interrupt', 'kill', 'suspend':
    pid, fd = pty.fork()
    if pid == 0:
        os.execv('/bin/bash', ['bash', '--norc', '-ic', 'stty -echo; "$@"; '
                 'echo "status $?"; sleep 60', 'bash', sys.argv[1], 'run',
                 '--offline', '--raw', '--', 'sh', '-c',
                 'trap "" INT; echo up; sleep 5'])
    text = until(fd, b'up')
    before = termios.tcgetattr(fd)
    if how == 'interrupt':
        os.write(fd, b'\x03')
    elif how == 'kill':
        group = os.tcgetpgrp(fd)
        os.kill(group, signal.SIGKILL)
    else:
        os.write(fd, b'\x1a')
    begin = time.time()
    text = until(fd, b'status ', text)
    text = until(fd, b'\n', text.split(b'status ')[-1])
    print(how, text.decode().strip(), time.time() - begin < 4,
          termios.tcgetattr(fd) == before)
    os.kill(pid, signal.SIGKILL)
    os.close(fd)
    os.waitpid(pid, 0)
END
    my $jail = dir() . '/jail';
    my $out = `/usr/bin/python3 $code $jail`;
    is($out, "interrupt 130 True True\nkill 137 True True\n"
             . "suspend 148 True True\n",
       'F-056 from a terminal the launcher is interrupted, killed and '
       . 'suspended as any program is, and leaves the terminal as it was');
}

ok(wait_for('the boxes to end', sub { !leftovers() }, 10),
   'no process of a box is left');

done_testing;
