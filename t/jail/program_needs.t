#!/usr/bin/perl

# What programs of many kinds need of the box they run in, and how they fail
# where it cannot be given; and a few ends of the launcher itself that no
# other test has.

use v5.36;

use FindBin;
use lib $FindBin::Bin;
use Jail;
use POSIX ();
use Test::More;


sub has (@programs) {
    for my $program (@programs) {
        return 0 if !grep { -x "$_/$program" } qw(/usr/bin /bin);
    }
    return 1;
}

sub broker (%box) {
    return fake_broker({ task => { box => { isolation => 'namespaces',
        writable => [{ path => '/tmp/work', bytes => 16777216 }],
        readable => [], env => [], %box } } });
}

for my $user (ways()) {
    my $way = way($user);
    my @as = (user => $user);

    subtest "F-002 $way: /dev/shm holds half of the memory, and a full one "
            . "is named" => sub
    {
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
           'it can be written to its end');
        is("$j->{reason} $j->{signal}", 'disk SIGBUS',
           'a byte more: the reason is disk, and the signal is there too');
    };

    subtest "F-003 $way: caches and fonts have their places" => sub {
        my $j = box('ls -Ad "$XDG_CACHE_HOME" 2>&1; fc-list | head -1; '
                    . 'mkdir -p "$XDG_CACHE_HOME" "$MPLCONFIGDIR" && echo made; '
                    . 'ls -A', @as);
        SKIP: {
            skip 'no fc-list (fontconfig)', 1 if !has('fc-list');
            like($j->{stdout}, qr/: \w.*:style=/, 'there is a font');
        }
        like($j->{stdout}, qr/^made\n\z/m,
             'caches have a place, which is not the working directory');
        SKIP: {
            skip 'no matplotlib', 2 if system("/usr/bin/python3 -c "
                . "'import matplotlib' 2> /dev/null") != 0;
            $j = python(<<'END', @as);
import matplotlib.pyplot as p, os
p.plot([1, 4, 9])
p.savefig('c.png')
print(os.listdir('.'))
END
            is($j->{stdout}, "['c.png']\n",
               'matplotlib draws a chart, and writes only that');
            is($j->{stderr}, '', 'matplotlib prints no warning');
        }
    };

    subtest "F-008 $way: git trusts shared repositories and workspaces" => sub {
        plan skip_all => 'no git' if !has('git');
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
           'it reads a repository that the policy shares')
            or diag $r->{json}{stderr};
        fake_broker_end($b);

        system('chown', '-R', "$as:$as", $tree) if $user && $> == 0;
        $r = jail(['run', '--offline', '--workspace', $tree, '--', 'sh', '-c',
            'git status --short && git log --format=%s && echo 2 > b && '
            . 'git add b && git -c user.email=a@b.c -c user.name=n '
            . 'commit -qm two && git clone -q . /tmp/c && cat /tmp/c/b'], @as);
        is($r->{json}{stdout}, "one\n2\n",
           'it commits to and clones a workspace') or diag $r->{json}{stderr};
        is_deeply([grep { (lstat)[4] != $as } glob "$tree/* $tree/.git"], [],
                  'the files are the caller\'s afterwards');

        my $j = box('mkdir d && git -C d init -q && '
                    . 'git config --system --get-all safe.directory', @as);
        is($j->{stdout}, "/tmp/work\n",
           'in a box /tmp/work is safe for it, not every directory');
    };

    subtest "F-010 $way: apt and dpkg -i fail and say why, dpkg -x works"
        => sub
    {
        plan skip_all => 'no apt' if !has('apt-get', 'dpkg', 'dpkg-deb');
        my $b = broker();
        my $r = jail(['run', '--control', $b->{socket}, '--', 'sh', '-c',
            'apt-get update; a=$?; mkdir -p p/DEBIAN; printf "Package: p\n'
            . 'Version: 1\nArchitecture: all\nMaintainer: m\nDescription: d\n"'
            . ' > p/DEBIAN/control; echo in > p/f; dpkg-deb -b p p.deb '
            . '> /dev/null; dpkg -i p.deb; b=$?; dpkg -x p.deb x; cat x/f; '
            . 'echo $a $b'], @as);
        is($r->{json}{stdout} =~ s/^Reading.*\n//r, "in\n100 2\n",
           'statuses and files');
        like($r->{json}{stderr}, qr/\bE: .*missing.*superuser privilege/s,
             'apt names the privilege that is missing');
        is($r->{json}{reason}, 'ok', 'none of them waits for the wall clock');
        fake_broker_end($b);
    };

    subtest "F-022 $way: it is UTC, and every other zone is known" => sub {
        my $j = box('date +%Z; TZ=America/New_York date -d @0 +%H%Z; '
                    . 'echo ${TZ-unset}; cat /etc/timezone; readlink /etc/localtime; '
                    . '/usr/bin/python3 -c "import zoneinfo, datetime as d; '
                    . 'print(d.datetime(2024, 7, 1, '
                    . 'tzinfo=zoneinfo.ZoneInfo(\'Europe/Prague\')).utcoffset())"',
                    @as);
        is($j->{stdout}, "UTC\n19EST\nunset\nEtc/UTC\n"
                         . "/usr/share/zoneinfo/Etc/UTC\n2:00:00\n",
           'date, files and Python')
            or diag $j->{stderr};
    };
    subtest "F-022 F-024 F-042 $way: node has UTC, no io_uring and no names"
        => sub
    {
        plan skip_all => 'no node' if !has('node');
        my $j = box('node -p "Intl.DateTimeFormat().resolvedOptions().timeZone'
                    . '"; UV_USE_IO_URING=1 node -e "const fs = require(\'fs\'); '
                    . 'fs.promises.writeFile(\'f\', \'x\').then(() => '
                    . 'console.log(fs.readFileSync(\'f\').length)); '
                 . 'setTimeout(() => console.log(\'waited\'), 5000).unref(); '
                 . 'require(\'dns\').lookup(\'x.test\', e => '
                 . 'console.log(e.code))" | sort', @as);
        like($j->{stdout}, qr/^UTC\n/, 'the zone is UTC');
        like($j->{stdout}, qr/^1\nE(?:NOTFOUND|AI_AGAIN)\n\z/m,
             'a file is written, and a name is unknown without a wait for a '
             . 'resolver');
    };

    for my $with (0, 1) {
        subtest "F-039 $way: ssh and databases are refused at once "
            . ($with ? 'with doors' : 'offline') => sub {
            my $b = $with ? broker() : undef;
            my @run = ('run', $b ? ('--control', $b->{socket}) : '--offline');
            my $r = jail([@run, '--', '/usr/bin/python3', '-c', <<'END'], @as);
import socket, subprocess
for port in 22, 5432, 3306, 6379:
    for at in '127.0.0.1', '192.0.2.1':
        try:
            socket.create_connection((at, port), 10)
            print('reached', port)
        except TimeoutError:
            print('waited', port)
        except OSError:
            pass
for words in (['ssh', '-o', 'BatchMode=yes', 'git@127.0.0.1'],
              ['ssh', '-o', 'BatchMode=yes', 'git@192.0.2.1'],
              ['psql', '-h', '192.0.2.1', '-c', 'select 1', 'x']):
    try:
        print(subprocess.run(words, stderr=-3, stdin=-3).returncode != 0)
    except FileNotFoundError:
        print(True)
END
            is($r->{json}{stdout}, "True\n" x 3, 'all fail, none after a wait')
                or diag $r->{out};
            fake_broker_end($b) if $b;
        };
    }

    subtest "F-041 F-043 $way: threads, socket pairs and descriptors in "
            . "messages" => sub
    {
        my $j = python(<<'END', @as);
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
           'each kind of socket pair passes a descriptor')
            or diag $j->{stderr};
    };

    subtest "F-043 $way: make shares its jobs" => sub {
        plan skip_all => 'no make' if !has('make');
        my $j = box('printf "all: \$(shell seq 20)\n%%:\n\t@sleep 0.01; echo '
                    . '\$@ > f\$@\ntwice: all\n\t@\$(MAKE) -s all\n" > Makefile; '
                    . 'make -s -j8 twice && ls f[0-9]* | wc -l', @as);
        is($j->{stdout}, "20\n", 'all of twenty files are made');
    };

    subtest "F-046 $way: /proc has what run-times read" => sub {
        my $j = box('sh -c "sh -c \"cat /proc/self/maps /proc/self/status '
                    . '/proc/self/cgroup /proc/cpuinfo /proc/meminfo /proc/stat | '
                    . 'wc -l; readlink /proc/self/exe; ls /proc/self/fd | wc -l\""; '
                    . 'cat /proc/1/cgroup 2>&1 | wc -l', @as);
        like($j->{stdout}, qr{^\d{2,}\n/usr/bin/readlink\n\d+\n\d+\n\z},
             'maps, status, processors, memory; its own program')
        or diag $j->{stdout};
    };

    subtest "F-048 $way: programs are told of the box's share of the processors"
        => sub
    {
        my $j = python('import os; print(os.environ["PYTHON_CPU_COUNT"])', @as,
                       args => ['--cpu', '0.5']);
        is($j->{stdout}, "1\n", 'half a processor is one');
        $j = box('nproc; echo $GOMAXPROCS $OMP_NUM_THREADS $TOKIO_WORKER_THREADS '
                 . '$LOKY_MAX_CPU_COUNT $POLARS_MAX_THREADS', @as);
        is($j->{stdout}, "1\n1 1 1 1 1\n",
           'nproc and the variables of run-times say one');
    };

    subtest "F-046 F-047 F-048 $way: java takes memory and processors from "
            . "the box" => sub
    {
        plan skip_all => 'no java' if !has('java');
        my $j = box('sh -c "sh -c \'java -XX:+PrintFlagsFinal -version\'" '
                    . '2> /dev/null > f; echo $?; grep -E "MaxHeapSize|'
                    . 'ActiveProc" f', @as, args => ['--memory', '400m']);
        like($j->{stdout}, qr/^0\n/, 'it starts at any depth of processes');
        like($j->{stdout}, qr/ MaxHeapSize += @{[200 << 20]} /,
             'its heap is half of the memory');
        like($j->{stdout}, qr/ ActiveProcessorCount += 1 /,
             'it has the processors of the box');
    };

    subtest "F-050 $way: a program with a sanitizer runs, and finds its faults"
        => sub
    {
        plan skip_all => 'no gcc' if !has('gcc');
        my $c = '#include <stdlib.h>\n#include <stdio.h>\nint main(void) { '
              . 'volatile char *p = malloc(9); p = 0; puts("clean"); '
              . 'return 0; }\n';
        my $bad = '#include <stdlib.h>\nint main(void) { char *p = malloc(9);'
                . ' free(p); return ((volatile char *) p)[1]; }\n';
        my $j = box("printf '$c' > a.c; printf '$bad' > b.c; "
                    . 'for k in address leak; do gcc -fsanitize=$k a.c -o a && '
                    . './a; echo $?; done; gcc -fsanitize=address b.c -o b && '
                    . './b; echo $?', @as, args => ['--memory', '512m']);
        is($j->{stdout}, "clean\n0\nclean\n0\n1\n",
           'two clean programs end with 0, one with a fault does not')
            or diag $j->{stderr};
    };

    subtest "F-050 $way: a tracer is refused, and says so" => sub {
        plan skip_all => 'no strace' if !has('strace');
        my $j = box('strace true; echo $?', @as);
        like($j->{stderr}, qr/PTRACE_TRACEME.*Operation not permitted/,
             'the message names the call');
        isnt($j->{stdout}, "0\n", 'its status is not 0');
    };

    subtest "F-053 $way: a box watches files beside one that takes all it can"
        => sub
    {
        my $greedy = spawn(['run', '--offline', '--', '/usr/bin/python3', '-c',
                            <<'END'], @as);
import ctypes, errno, os, time
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
    time.sleep(99)
END
        my $watcher = <<'END';
import ctypes, os
libc = ctypes.CDLL(None)
fd = libc.inotify_init1(0)
print(fd > 0, libc.inotify_add_watch(fd, b'.', 0x100) > 0)
open('made', 'w').close()
print(len(os.read(fd, 4096)) > 0)
END
        wait_for('the greedy box', sub {
            my $pid = (alive($greedy))[1] // return 0;
            # it sleeps only when it has taken all there is
            open my $f, '<', "/proc/$pid/syscall" or return 0;
            return ((readline $f) // '') =~ /^(?:230|35|115) /;
        });
        my $j = python($watcher, @as);
        is($j->{stdout}, "True True\nTrue\n",
           'the box beside it watches a directory');
        kill TERM => $greedy->{pid};
        my $g = finish($greedy)->{json};
        is($g->{stdout}, "16 EMFILE\n16384 ENOSPC\n",
           'control: the greedy one took all it may');
    };

    subtest "F-055 $way: a server in the background serves, and holds up "
            . "nothing" => sub
    {
        my $j = box('/usr/bin/python3 -m http.server 8123 --bind 127.0.0.1 '
                    . '2> /dev/null > log & for i in $(seq 90); do '
                    . '/usr/bin/python3 -c "import '
                    . 'urllib.request as u; print(u.build_opener('
                    . 'u.ProxyHandler({})).open(\'http://127.0.0.1:8123/\').status)" '
                    . '2> /dev/null && break; sleep 0.2; done', @as);
        is("$j->{reason} $j->{stdout}", "ok 200\n",
           'it serves, and the box ends with its main process');
        none_left('the server ends with the box');
    };

    # a 32-bit program: write(1, "hello\n", 6), exit(0)

    subtest "F-057 $way: a 32-bit program does nothing" => sub {
        my $code = "\xb8\x04\0\0\0\xbb\x01\0\0\0\xb9" . pack('V', 0x8048076)
                 . "\xba\x06\0\0\0\xcd\x80\xb8\x01\0\0\0\x31\xdb\xcd\x80\x0f\x0b"
                 . "hello\n";
        $code =~ s/\x76\x80\x04\x08/pack('V', 0x8048054 + length($code) - 6)/e;
        my $size = 84 + length $code;
        my $old = write_file("old.$user",
            "\x7fELF\1\1\1" . "\0" x 9
            . pack('vvVVVVVvvvvvv', 2, 3, 1, 0x8048054, 52, 0, 0, 52, 32, 1, 40,
                   0, 0)
            . pack('V8', 1, 0, 0x8048000, 0x8048000, $size, $size, 5, 0x1000)
            . $code, 0755);
        plan skip_all => 'this kernel runs no 32-bit programs'
            if (POSIX::uname())[4] ne 'x86_64' || `$old` ne "hello\n";
        my $j = box('cp old.* o && chmod 755 o && exec ./o', @as,
                    args => ['--in', $old]);
        is($j->{stdout}, '', 'nothing is written');
        like("$j->{reason} $j->{signal}", qr/^signal SIG(?:SEGV|ILL)$/,
             'it ends by a signal');
    };

    subtest "A-123 $way: what only the caller may read is opened by the "
            . "launcher" => sub
    {
        my $secret = dir() . "/own.$user";
        mkdir $secret;
        write_file("own.$user/x", "own\n", 0600);
        chown user_id(), user_id(), $secret, "$secret/x" if $user && $> == 0;
        chmod 0700, $secret;
        my $r = jail(['run', '--offline', '--in', "$secret/x", '--', 'cat',
                      'x'],
                     @as);
        is($r->{json}{stdout}, "own\n",
           'a file of mode 0600 is in the box')
            or diag $r->{out};
        my $b = broker(readable => [$secret]);
        $r = jail(['run', '--control', $b->{socket}, '--', 'sh', '-c',
                   "touch $secret/new $secret/x; cat $secret/x; ls -d $secret"],
                  @as);
        like($r->{json}{stdout}, qr/\Q$secret\E\n\z/,
             'a directory of mode 0700 is in the box');
        is(scalar(() = $r->{json}{stderr} =~ /Read-only|Permission denied/g) >= 2,
           1, 'it is not written') or diag $r->{out};
        fake_broker_end($b);
    };

    subtest "A-127 $way: no handle of the caller's comes in, the box's own work"
        => sub
    {
        opendir my $dir, '/etc' or die $!;
        my $r = jail(['run', '--offline', '--', '/usr/bin/python3', '-c',
                      <<'END'],
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
           'the caller\'s descriptor is EBADF, one of the box\'s opens a file')
            or diag $r->{out};
    };
}

    subtest 'F-024 F-041 a Go program with C runs, and a name fails without '
            . 'a wait' => sub
    {
        plan skip_all => 'no go' if !has('go', 'gcc');
        my $source = write_file('n.go', <<'END');
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
    got := make(chan error)
    go func() { _, err := net.Dial("tcp", "example.test:80"); got <- err }()
    select {
    case err := <-got: fmt.Println(n, err != nil)
    case <-time.After(5 * time.Second): fmt.Println(n, "waited")
    }
}
END
        my $go = dir() . '/n';
        my $built = do {
            local %ENV = (%ENV, GOCACHE => dir() . '/go', GOFLAGS => '-mod=mod',
                          HOME => dir(), CGO_ENABLED => 1,
                          GO111MODULE => 'off');
            system("cd ${\dir()} && go build -tags netgo -o n $source") == 0;
        };
        plan skip_all => 'go cannot build a program that uses cgo' if !$built;
        my $j = box('cp n m && chmod 755 m && ./m', args => ['--in', $go]);
        is($j->{stdout}, "50 true\n",
           'fifty calls of C, and an error')
            or diag $j->{stderr};
    };

# A-099, A-117: how the launcher ends a box, and by which clock

subtest 'A-099 A-117 a box is ended by its pidfd and a monotonic clock' => sub {
    plan skip_all => 'no strace' if !has('strace');
    my $log = dir() . '/calls';
    for my $case (['timeout', '--wall-clock', '300ms', '--', 'sleep', '9'],
                  ['ok', '--', '/usr/bin/env', 'true']) {
        my ($reason, @args) = @$case;
        my $r = jail(['run', '--offline', @args], program => ['strace', '-f',
            '-o', $log, '-e', 'trace=kill,tkill,tgkill,rt_sigqueueinfo,'
            . 'rt_tgsigqueueinfo,pidfd_send_signal,timerfd_create,'
            . 'timer_create,setitimer,alarm']);
        my $calls = do { local (@ARGV, $/) = $log; <> };
        is($r->{json}{reason}, $reason, "the reason is $reason")
            or diag $r->{out}, $r->{err};
        unlike($calls, qr/\b(?:t?g?kill|rt_t?g?sigqueueinfo)\(/,
               "$reason: no process is signalled by its number");
        unlike($calls, qr/CLOCK_REALTIME|ITIMER_REAL|alarm\(/,
               "$reason: no timer follows the time of day");
        like($calls, qr/pidfd_send_signal/, "$reason: a pidfd is used")
            if $reason eq 'timeout';
    }
};


# the launcher of these objects, with a clock that jumps

subtest 'A-117 a time of day that jumps by hours changes no limit' => sub {
    my $objs = root_dir() . '/' . ($ENV{AGENT_TEST_OBJS} // 'objs');
    my $shim = write_file('clock.c', <<'END');
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
    plan skip_all => 'its objects cannot be linked with a shim'
        if system("cc -o $mine $objs/o/jail/*.o $objs/o/jail/*/*.o $shim $flags -lcgroup "
                  . '-lseccomp -ljansson -lcrypto -lm 2> /dev/null') != 0;
    for my $case (['timeout', '500ms', 'sleep', 99], ['ok', '20s', 'true']) {
        my ($reason, $limit, @words) = @$case;
        my $r = jail(['run', '--offline', '--wall-clock', $limit, '--',
                      @words], program => ['sh', '-c', 'shift; exec "$0" "$@"',
                                           $mine]);
        is($r->{json}{reason}, $reason, "$limit for @words: the reason")
            or diag $r->{out}, $r->{err};
        my $ms = $r->{json}{usage}{wall_ms};
        cmp_ok(abs $ms, '<', 3600 * 1000 / 2,
               "$limit for @words: no jump is in "
               . 'the time it took');
    }
};

subtest 'A-074 the filter asks no supervisor outside of the box' => sub {
    my $objs = root_dir() . '/' . ($ENV{AGENT_TEST_OBJS} // 'objs');
    open my $f, '<', "$objs/seccomp_filter.h" or die $!;
    my %answers = map { /\{ 0x0006, 0, 0, 0x(\w{4})/ ? ($1 => 1) : () } <$f>;
    is(join(' ', sort keys %answers), '0005 7fff',
       'it only allows or refuses');
};

subtest 'F-056 at a terminal the launcher is interrupted, killed and suspended'
    => sub
{
    my $code = write_file('terminal.py', <<'END');
import os, pty, select, signal, sys, termios
def until(fd, what, text=b''):
    while what not in text and select.select([fd], [], [], 60)[0]:
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
                 'echo "status $?"; sleep 99', 'bash', sys.argv[1], 'run',
                 '--offline', '--raw', '--', 'sh', '-c',
                 'trap "" INT; echo up; sleep 99'])
    text = until(fd, b'up')
    before = termios.tcgetattr(fd)
    if how == 'interrupt':
        os.write(fd, b'\x03')
    elif how == 'kill':
        group = os.tcgetpgrp(fd)
        os.kill(group, signal.SIGKILL)
    else:
        os.write(fd, b'\x1a')
    text = until(fd, b'status ', text)
    text = until(fd, b'\n', text.split(b'status ')[-1])
    print(how, text.decode().strip(), termios.tcgetattr(fd) == before)
    os.kill(pid, signal.SIGKILL)
    os.close(fd)
    os.waitpid(pid, 0)
END
    my $jail = dir() . '/jail';
    my $out = `/usr/bin/python3 $code $jail`;
    is($out, "interrupt 130 True\nkill 137 True\nsuspend 148 True\n",
       'statuses of the shell, and whether the terminal is as it was');
};

none_left();

done_testing;
