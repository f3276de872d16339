#!/usr/bin/perl

# Ordinary programs do in a box what they do outside of it: the same script is
# run both ways, each time in an empty directory, and its status and all that
# it prints must be the same.  A row whose program is not installed is
# skipped.  A box of an ordinary size is used, except where a row says so.

use v5.36;

use File::Path qw(remove_tree);
use FindBin;
use lib $FindBin::Bin;
use Jail;
use Test::More;
use Time::HiRes qw(time);

$SIG{PIPE} = 'IGNORE';

my @rows;
my %needs;

# ROW NAME: PROGRAM PROGRAM…, and then the script
{
    my $row;
    while (my $line = <DATA>) {
        if ($line =~ /^ROW (.+): (.+)$/) {
            $row = { name => $1, needs => [split ' ', $2], script => '' };
            push @rows, $row;
        } else {
            $row->{script} .= $line;
        }
    }
}

# A program, or "python3-MODULE" for a module of the system's Python.
sub is_there ($what) {
    return $needs{$what} //= do {
        my ($module) = $what =~ /^python3-(.*)/;
        my $ok = $module
            ? system("/usr/bin/python3 -c 'import $module' 2> /dev/null") == 0
            : (grep { -x "$_/$what" } qw(/usr/bin /bin /usr/sbin /sbin)) > 0;
        $ok ? 1 : 0;
    };
}

sub outside ($script) {
    my $home = dir() . '/outside';
    remove_tree($home);
    mkdir $home or die $!;

    my $pid = open(my $out, '-|') // die $!;
    if ($pid == 0) {
        chdir $home or die $!;
        %ENV = (PATH => '/usr/local/bin:/usr/bin:/bin', HOME => $home,
                LANG => 'C.UTF-8', TMPDIR => $home);
        open STDIN, '<', '/dev/null';
        open STDERR, '>', "$home/.err";
        { exec '/bin/bash', '-c', $script }
        POSIX::_exit(111);
    }

    local $/;
    my $text = <$out> // '';
    close $out;
    my $status = $? >> 8;
    open my $err, '<', "$home/.err" or die $!;
    return { status => $status, out => $text, err => <$err> // '' };
}

# Started while the same runs outside; no wall clock ends it.
my $broker = fake_broker({ task => { limits => {
    cpu => 1.0, cpu_time_ms => 600000, memory => 536870912, pids => 256,
    open_files => 1024, wall_clock_ms => 600000, output => 10000,
    output_bytes => 1073741824, near_limit => 80 } } });

sub start_inside ($script) {
    return spawn(['run', '--control', $broker->{socket}, '--', '/bin/bash',
                  '-c', $script]);
}

sub inside ($p) {
    my $r = finish($p);
    my $j = $r->{json}
        or return { status => -1, out => '', err => "$r->{out}$r->{err}" };
    my $out = $j->{stdout};
    utf8::encode($out);
    return { status => $j->{exit_code} // -1, out => $out,
             err => "$j->{reason}: $j->{stderr}", bytes => $j->{bytes}{stdout},
             ms => $j->{usage}{wall_ms} };
}

for my $row (@rows) {
    SKIP: {
        my @missing = grep { !is_there($_) } @{ $row->{needs} };
        skip "$row->{name}: no @missing", 1 if @missing;

        my $p = start_inside($row->{script});
        my $begin = time;
        my $free = outside($row->{script});
        my $took = time - $begin;
        my $boxed = inside($p);
        my @differs;

        if ($free->{status} != 0) {
            push @differs, "outside it failed: $free->{err}";
        }

        for my $what (qw(status out)) {
            next if $free->{$what} eq $boxed->{$what};
            push @differs, "$what outside: " . substr($free->{$what}, -2000),
                           "$what inside:  " . substr($boxed->{$what}, -2000),
                           "errors inside: " . substr($boxed->{err}, -2000);
        }

        subtest "$row->{name}: the same inside and outside" => sub {
            is(join("\n", @differs), '', 'status and output');
        };
        note sprintf '%.1f s outside, %.1f s inside, %d bytes', $took,
             ($boxed->{ms} // 0) / 1000, length $boxed->{out};
    }
}

subtest 'a hundred megabytes of output are taken, counted and cut' => sub {
    my $r = finish(start_inside('head -c 100000000 /dev/zero | tr "\0" a; '
                                . 'echo >&2 done'));
    is_deeply([@{ $r->{json} }{qw(exit_code reason)},
               $r->{json}{bytes}{stdout}, length $r->{json}{stdout},
               $r->{json}{stderr}],
              [0, 'ok', 100_000_000, 10000, "done\n"],
              'status, reason, bytes, length and stderr');
};

fake_broker_end($broker);

done_testing;

__DATA__
ROW bash: pipes, functions, process substitution, traps, background jobs: bash
set -eu -o pipefail
trap 'echo bye' EXIT
f() { local n=$1; for ((i = 0; i < n; i++)); do echo "line $i"; done; }
f 2000 | sort -r | uniq -c | awk '{ s += $1 } END { print s }'
diff <(f 3) <(f 4) || echo "differs $?"
tee >(wc -c > count) < /etc/shells > /dev/null; wait; sleep 0.1; cat count | wc -l
mkfifo p; (sleep 0.05; echo through > p) & cat p; wait
exec 3<> /dev/fd/0; echo "here" | cat /dev/stdin
cat <<< "$(printf '%s-' {a..e})"
kill -0 $$ && timeout 0.1 sleep 5 || echo "status $?"
[[ "$(id -un)" ]] && printf '%(%Y)T\n' 0
find /usr/share/zoneinfo/Etc -name 'UTC' | xargs -n1 basename
ROW text in every script, and a locale of UTF-8: bash
printf 'ÄÖÜ żółć 日本語 🙂 العربية \u00e9\n' | tee t; wc -m < t
python3 -c 'print("naïve ☕", len("日本"), "\N{SNOWMAN}")'
printf 'ä' | od -An -tx1; locale charmap; sort <<< $'b\nä\na' | tr '\n' ' '
ROW coreutils and friends: tar gzip xz sed
for i in $(seq 200); do echo "$i" > "f$i"; done
tar czf a.tgz f*; mkdir x; tar xzf a.tgz -C x; ls x | wc -l
cat x/* | xz -T2 | xz -d | md5sum; ln -s f1 l; readlink -f l | sed 's,.*/,,'
cp -a x y; diff -r x y && echo same; touch -d @0 f1; stat -c %Y f1
chmod 600 f2; stat -c %a f2; mv f2 z; ! ls f2 2> /dev/null; df . > /dev/null
dd if=/dev/urandom of=r bs=1M count=8 2> /dev/null; stat -c %s r; ps > /dev/null
ROW python: processes by fork, spawn and fork server: python3
cat > m.py <<'EOF'
import multiprocessing as mp, os
def f(x): return x * x
def g(q, lock):
    with lock: q.put(os.getpid() > 0)
if __name__ == '__main__':
    for how in 'fork', 'spawn', 'forkserver':
        c = mp.get_context(how)
        with c.Pool(3) as p: print(how, sum(p.map(f, range(500))))
        q, lock = c.Queue(), c.Lock()
        ps = [c.Process(target=g, args=(q, lock)) for _ in range(3)]
        [p.start() for p in ps]; print([q.get() for _ in ps]); [p.join() for p in ps]
    from multiprocessing import shared_memory
    s = shared_memory.SharedMemory(create=True, size=1 << 20); s.buf[5] = 7
    print(s.buf[5]); s.close(); s.unlink()
EOF
/usr/bin/python3 m.py
ROW python: asyncio, sockets, subprocesses, threads, signals: python3
/usr/bin/python3 - <<'EOF'
import asyncio, signal, os, socket, subprocess, threading, tempfile, select
async def main():
    async def h(r, w):
        w.write((await r.readline()).upper()); await w.drain(); w.close()
    for kind in 'tcp', 'unix':
        if kind == 'tcp':
            s = await asyncio.start_server(h, '127.0.0.1', 0)
            r, w = await asyncio.open_connection(*s.sockets[0].getsockname())
        else:
            s = await asyncio.start_unix_server(h, 'sock')
            r, w = await asyncio.open_unix_connection('sock')
        w.write(b'hello\n'); print(kind, await r.readline()); w.close(); s.close()
    p = await asyncio.create_subprocess_exec('sort', stdin=-1, stdout=-1)
    print((await p.communicate(b'b\na\n'))[0])
    got = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, got.set)
    os.kill(os.getpid(), signal.SIGUSR1); await got.wait(); print('signal')
    print(sum(await asyncio.gather(*[asyncio.to_thread(len, 'x' * i) for i in range(50)])))
asyncio.run(main())
print(subprocess.run('exit 7', shell=True).returncode)
a, b = socket.socketpair(); a.send(b'x'); print(b.recv(1))
e = select.epoll(); r, w = os.pipe(); e.register(r, 1); os.write(w, b'.'); print(len(e.poll(1)))
with tempfile.NamedTemporaryFile() as f: print(f.write(b'abc'))
print(os.memfd_create('m') > 0, len(os.urandom(8)), socket.getaddrinfo('localhost', 80)[0][4][1])
pid, fd = os.forkpty() if hasattr(os, 'forkpty') else (1, 0)
if pid == 0: os.write(1, b'tty' if os.isatty(0) else b'no'); os._exit(0)
print(os.read(fd, 3)); os.waitpid(pid, 0)
EOF
ROW python: SQLite with a write-ahead log: python3
/usr/bin/python3 - <<'EOF'
import sqlite3, threading
a = sqlite3.connect('d.db'); print(a.execute('pragma journal_mode=wal').fetchone())
a.execute('create table t (n)'); a.commit()
def w(k):
    c = sqlite3.connect('d.db', timeout=20)
    for i in range(50):
        with c: c.execute('insert into t values (?)', (k * i,))
ts = [threading.Thread(target=w, args=(k,)) for k in range(3)]
[t.start() for t in ts]; [t.join() for t in ts]
print(a.execute('select count(*), sum(n) from t').fetchone(), a.execute('pragma integrity_check').fetchone())
EOF
ROW python: numpy with threads, pandas, Excel: python3-numpy python3-pandas python3-openpyxl
/usr/bin/python3 - <<'EOF'
import numpy as np, pandas as pd, concurrent.futures as f
m = np.arange(90000.).reshape(300, 300)
with f.ThreadPoolExecutor(4) as p: print(sum(p.map(lambda i: float((m @ m)[i, i]), range(8))))
d = pd.DataFrame({'k': list('abab'), 'n': [1, 2, 3, 4]}, index=pd.date_range('2024', periods=4))
print(d.groupby('k').n.sum().to_dict(), d.resample('2D').n.mean().tolist())
d.to_csv('d.csv'); d.reset_index().to_excel('d.xlsx'); print(pd.read_excel('d.xlsx').n.sum(), pd.read_csv('d.csv').shape)
print(pd.Timestamp('2024-07-01', tz='Europe/Berlin').utcoffset())
EOF
ROW python: a chart by matplotlib: python3-matplotlib
MPLCONFIGDIR=$PWD/c /usr/bin/python3 - <<'EOF' 2> /dev/null
import matplotlib; matplotlib.use('Agg')
import matplotlib.pyplot as p, hashlib
p.plot([1, 4, 9]); p.title('x² – žluť'); p.savefig('c.png', metadata={'Software': None})
b = open('c.png', 'rb').read(); print(b[:4], len(b) > 5000, hashlib.md5(b).hexdigest())
EOF
ROW pip: a wheel from a directory, without a network: python3 pip3
/usr/bin/python3 - <<'EOF'
import zipfile
with zipfile.ZipFile('demo-1.0-py3-none-any.whl', 'w') as z:
    z.writestr('demo.py', 'print("demo runs")\n')
    z.writestr('demo-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n')
    z.writestr('demo-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
    z.writestr('demo-1.0.dist-info/RECORD', '')
EOF
/usr/bin/python3 -m pip install --quiet --no-index --find-links . --target lib --disable-pip-version-check --root-user-action=ignore demo 2> /dev/null
PYTHONPATH=lib /usr/bin/python3 -m demo; ls lib
ROW node: worker threads, streams, a server, child processes: node
cat > w.js <<'EOF'
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const http = require('http'), cp = require('child_process'), zlib = require('zlib');
if (!isMainThread) { parentPort.postMessage(workerData ** 2); return; }
(async () => {
  const r = await Promise.all([1, 2, 3, 4].map(n => new Promise(k =>
      new Worker(__filename, { workerData: n }).on('message', k))));
  console.log(r);
  const s = http.createServer((q, a) => a.end('served ' + q.url)).listen(0, '127.0.0.1');
  await new Promise(k => s.on('listening', k));
  await new Promise(k => http.get({ port: s.address().port, host: '127.0.0.1', path: '/x' },
      a => a.on('data', d => console.log(String(d))).on('end', k)));
  s.close();
  console.log(cp.execSync('echo child').toString(), zlib.gunzipSync(zlib.gzipSync('z')).toString());
  console.log(new Intl.NumberFormat('en').format(1234567.8), require('crypto').createHash('sha1').update('a').digest('hex'));
  require('fs').writeFileSync('f', 'x'.repeat(1e6)); console.log(require('fs').statSync('f').size);
})();
EOF
node w.js
ROW npm: a package from a file, without a network: npm
mkdir p app; echo '{"name":"demo","version":"1.0.0","main":"i.js"}' > p/package.json
echo 'module.exports = "from demo"' > p/i.js
(cd p && npm pack --silent > /dev/null); cd app; echo '{"name":"app","version":"1.0.0"}' > package.json
npm install --silent --offline --no-audit --no-fund ../p/demo-1.0.0.tgz
node -p 'require("demo")'; ls node_modules
ROW git: init, commit, branch, merge, log, clone: git
export GIT_AUTHOR_DATE='2024-01-01T00:00:00Z' GIT_COMMITTER_DATE='2024-01-01T00:00:00Z'
git config --global user.email a@b.c; git config --global user.name n
git init -q -b main r && cd r && echo 1 > a && git add a && git commit -qm one
git checkout -qb two && echo 2 > b && git add b && git commit -qm two
git checkout -q main && echo 3 > c && git add c && git commit -qm three
git merge -q --no-edit two && git log --oneline --graph | sed 's/ *$//'
git clone -q . ../s && cd ../s && git status --short && git grep -n 2 && git fsck 2>&1 | grep -v '^$'
git gc -q && git rev-parse HEAD
ROW gcc and make, threads and a shared library: gcc make
cat > l.c <<'EOF'
int twice(int n) { return 2 * n; }
EOF
cat > m.c <<'EOF'
#include <pthread.h>
#include <stdio.h>
int twice(int);
static void *f(void *p) { return (void *) (long) twice((int) (long) p); }
int main(void) { pthread_t t; void *r; long s = 0; for (long i = 0; i < 50; i++) {
    pthread_create(&t, 0, f, (void *) i); pthread_join(t, &r); s += (long) r; }
    printf("%ld\n", s); return 0; }
EOF
printf 'all: m\nl.so: l.c\n\tgcc -shared -fPIC -o $@ $<\nm: m.c l.so\n\tgcc -O2 -pthread -o $@ m.c ./l.so\n' > Makefile
make -s -j2 && ./m && ldd ./m | grep -c l.so
ROW perl: processes, sockets, files, Unicode: perl
perl -CS -Mutf8 -MIO::Socket::INET -MFile::Temp -MPOSIX -e '
  my $s = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1") or die $!;
  if (!fork) { my $c = IO::Socket::INET->new("127.0.0.1:" . $s->sockport); print $c "hi\n"; exit }
  my $a = $s->accept; print scalar <$a>; wait; print $? >> 8, "\n";
  print "žluť " =~ /\w+/ ? "word\n" : "no\n"; print length(`seq 1000`), "\n";
  print strftime("%F", gmtime 0), "\n"; local $SIG{ALRM} = sub { print "alarm\n" }; alarm 1; pause'
ROW java: compiled and run, with threads and files: javac java
cat > Main.java <<'EOF'
import java.nio.file.*; import java.util.concurrent.*; import java.util.stream.*;
public class Main { public static void main(String[] a) throws Exception {
    ExecutorService e = Executors.newFixedThreadPool(4);
    long s = 0; for (Future<Long> f : e.invokeAll(LongStream.range(0, 20).mapToObj(i -> (Callable<Long>) () -> i * i).collect(Collectors.toList()))) s += f.get();
    e.shutdown(); Files.writeString(Path.of("f"), "žluť"); System.out.println(s + " " + Files.size(Path.of("f")));
    System.out.println(IntStream.range(0, 100000).parallel().sum());
    System.out.println(new String(new ProcessBuilder("echo", "child").start().getInputStream().readAllBytes()).trim()); } }
EOF
unset JAVA_TOOL_OPTIONS; javac -encoding UTF-8 Main.java && java -Xmx128m Main
ROW chromium, headless: a page's text after its script has run: chromium
cat > p.html <<'EOF'
<!doctype html><title>t</title><body><p id=a>before</p>
<script>document.getElementById('a').textContent = 'after ' + [1, 2, 3].map(n => n * n).join('-');</script>
EOF
chromium --headless --no-sandbox --disable-gpu --user-data-dir="$PWD/u" --dump-dom "file://$PWD/p.html" 2> err | grep -o 'after [0-9-]\+' || { tail -3 err >&2; exit 1; }
