#!/usr/bin/perl

# The control socket is open to every user of the host: what a stranger, whom
# no policy names, and a launcher that means harm can do through it.  Running
# boxes and other launchers notice nothing, and nothing is left.
#
# sanitizers: descriptors and lines of strangers are read

use v5.36;

use lib 't/lib';
use AgentTest;
use Test::More;

plan skip_all => 'only root can be other users' if !AgentTest::is_root();

my $t    = AgentTest->new;
my $up   = $t->upstream(plain => 1);
my $port = $up->port;
my $agent = $t->user;                       # who may open tasks
my $stranger = $agent + 1;                  # and up to a hundred more: who not

my %opt = (connections => 512, policy => <<"END");
    agent_policy analysis {
        launchers user:$agent;
        requests 100000;
        wall_clock 1h;
        host 127.0.0.1:$port { plaintext on; private 127.0.0.0/8; }
    }
END

my $b = $t->broker(%opt);
my ($worker) = $b->workers;
my ($good) = $b->task;

sub helper { return (split ' ', $t->read("/proc/$worker/task/$worker/children"))[0] }
sub fds ($pid) { my @fds = glob "/proc/$pid/fd/*"; return scalar @fds }

# requests of a task that was there before, all of which must be served
sub good_is_served ($what, $times = 5) {
    for (1 .. $times) {
        my $r = $good->get("http://127.0.0.1:$port/echo");
        return fail("$what: " . ($r->{status} // 'no answer'))
            if ($r->{status} // 0) != 200;
    }
    return pass($what);
}

# as these users, one after another: what each prints
sub as ($users, $program, @args) { return as_at($b, $users, $program, @args) }

sub as_at ($broker, $users, $program, @args) {
    my $head = <<'END';
import array, json, os, resource, select, socket, struct, sys, time
path, first, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
args = sys.argv[4:]
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
SCM = socket.SOL_SOCKET, socket.SCM_RIGHTS
def control():
    u = socket.socket(socket.AF_UNIX)
    u.connect(path)                     # waits, where the queue is full
    u.settimeout(60)
    return u
def send(u, data, fds=()):
    try:
        if fds:
            u.sendmsg([data], [(*SCM, array.array('i', fds))])
        else:
            u.sendall(data)
    except OSError:
        pass
def answer(u):
    line = b""
    try:
        while not line.endswith(b"\n"):
            more = u.recv(65536)
            if not more:
                break
            line += more
    except OSError:
        pass
    return json.loads(line) if line else {}
def ask(u, **message):
    send(u, (json.dumps(message) + "\n").encode())
    return answer(u)
OPEN = dict(v=1, op="open", policy="analysis")
def as_each(work):
    for uid in range(first, first + n):
        if os.fork() == 0:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            work(uid)
            sys.stdout.flush()
            os._exit(0)
    for i in range(n):
        os.wait()
END
    my ($first, $n) = ref $users ? @$users : ($users, 1);
    my $r = $t->run(['/usr/bin/python3', '-c', "$head$program\nas_each(work)",
                     $broker->control, $first, $n, @args], timeout => 120);
    return $r->{out} . $r->{err};
}

good_is_served('control: a task is served');

subtest 'G-005: a stranger gets one short answer' => sub {
    my $said = as($stranger, <<'END');
def work(uid):
    u = control()
    a = answer(u)
    print(a["ok"], a["error"], a["message"])
    print(u.recv(100))
    u = control()
    print(ask(u, **OPEN)["error"])
END
    is($said, <<"END", 'before it has said a word, and after it has');
False not_allowed uid $stranger is not among the "launchers" of any policy: ask the broker's operator to add it to one
b''
not_allowed
END
    my $line = $b->audit_wait('task_refused', uid => $stranger);
    is($line->{reason}, 'not_allowed', 'the audit has it, with its uid');
    is(as($agent, <<'END'), "True\n", 'control: who is named opens a task');
def work(uid):
    print(ask(control(), **OPEN)["ok"])
END
};

subtest 'G-005: descriptors of strangers are never held' => sub {
    my $helper = helper();
    my @before = (fds($worker), fds($helper));
    is(as($stranger, <<'END'), "250\n", '250 connections, 64 descriptors each');
def work(uid):
    null = os.open("/dev/null", os.O_RDONLY)
    kept = []
    for i in range(250):
        u = control()
        send(u, b"x", [null] * 64)
        kept.append(u)
    print(sum(answer(u).get("error") == "not_allowed" for u in kept))
    for u in kept:
        try:
            u.recv(100)             # until the broker has closed them
        except OSError:
            pass
END
    is(helper(), $helper, 'the helper is the same');
    AgentTest::wait_for('the descriptors to be gone', sub {
        fds($worker) <= $before[0] && fds($helper) <= $before[1] });
    pass('nothing of them is left');
    good_is_served('a running task is served');
};

subtest 'G-005: idle connections of many users cost nobody anything' => sub {
    my $mark = $t->dir . '/idle';
    mkdir $mark and chmod 0777, $mark or die "$mark: $!";
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        as([$stranger, 17], <<'END', $mark);
def work(uid):
    kept = []
    for i in range(250):
        kept.append(control())
    open(args[0] + "/" + str(uid), "w").write("x")
    end = time.monotonic() + 100
    while not os.path.exists(args[0] + "/over") and time.monotonic() < end:
        time.sleep(0.05)
END
        POSIX::_exit(0);
    }
    AgentTest::wait_for('the connections', sub {
        17 == (() = glob "$mark/*") });
    good_is_served('a running task is served', 20);
    my ($l, $task) = $b->task;
    ok($task->{task_id}, 'root starts a task');
    $l->stop;
    $t->write("$mark/over", 'x');
    waitpid $pid, 0;
};

subtest 'G-005: strangers share one budget of lines' => sub {
    my $own = $t->broker(%opt);
    is(as_at($own, [$stranger, 60], <<'END'), '', 'sixty users, ten refusals each');
def work(uid):
    for i in range(10):
        u = control()
        send(u, b"x\n")
        if answer(u).get("error") != "not_allowed":
            print("answered otherwise")
        u.close()
END
    my ($lines, $told);
    AgentTest::wait_for('all to be told', sub {
        my @all = $own->audit('task_refused');
        ($lines, $told) = (scalar @all, 0);
        $told += $_->{message} =~ /^(\d+) more refusals$/ ? $1 : 1 for @all;
        return $told >= 600;
    });
    is($told, 600, 'each of 600 refusals is counted');
    cmp_ok($lines, '<', 300, 'fewer lines than half of them are written');
    $own->stop;
};

# Sends it on one connection after the other until it is refused: whether so
# many were served as the burst and the time since then allow, how many, the
# error and its message.
sub until_busy ($broker, $user, $message) {
    return as_at($broker, $user, <<'END', $message);
def work(uid):
    good, begun = 0, time.monotonic()
    for i in range(3000):
        u = control()
        u.sendall(b'{"v":2,%s}\n' % args[0].encode())
        a = answer(u)
        u.close()
        if not a["ok"]:
            break
        good += 1
    print(100 <= good + 1 <= 102 + 51 * (time.monotonic() - begun), good,
          a["error"], a["message"])
END
}

subtest 'G-005: each user has a rate of opens' => sub {
    my $starts = $b->audit('task_start');
    like(until_busy($b, $agent, '"op":"open","policy":"analysis"'),
         qr/^True (\d+) busy .*opens a task more than 50 .*agent_opens/,
         'past it an open is busy, and the message says why');
    my ($l, $task) = $b->task;
    ok($task->{task_id}, 'another user opens one meanwhile');
    $l->stop;
    AgentTest::wait_for('time to pass', sub {
        as($agent, <<'END') eq "True\n" });
def work(uid):
    print(ask(control(), **OPEN)["ok"])
END
    pass('a moment later it opens again');
};

subtest 'G-005: each user has a rate of questions' => sub {
    for my $op (
        '"op":"policy","policy":"analysis"',
        '"op":"health"',
        '"op":"ask","policy":"analysis","method":"GET","url":"http://a.b/"')
    {
        my $own = $t->broker(%opt);
        like(until_busy($own, $agent, $op),
             qr/^True (\d+) busy .*asks more than 50 .*agent_opens/,
             "past it $op is busy, and the message says why");
        my ($l, $task) = $own->task;
        ok($task->{task_id}, 'a task is opened meanwhile');
        $l->stop;
        like(as_at($own, $agent, <<'END'), qr/^True/,
def work(uid):
    print(ask(control(), **OPEN)["ok"])
END
             'and so it is by the same user');
        $own->stop;
    }
};

subtest 'G-005: a user has 64 control connections, over all workers' => sub {
    my $own = $t->broker(%opt, workers => 2);
    my $l = $t->launcher;
    my $opened = 0;

    # an answer shows that the connection is counted
    for my $name (map { "k$_" } 1 .. 64) {
        $l->do(connect => { name => $name, path => $own->control });
        my $reply = $l->ask($name, { v => 1, op => 'open',
                                     policy => 'analysis' });
        $opened++ if $reply->{ok};
    }
    is($opened, 64, 'control: 64 are served');
    $l->do(connect => { name => 'k65', path => $own->control });
    my $got = $l->do(receive => { name => 'k65' });
    is($got->{message}{error}, 'busy', 'the 65th is refused as busy');
    like($got->{message}{message}, qr/64 control connections.*"agent_control_connections"/,
         'the message says what to do');
    ok($l->do(receive => { name => 'k65', timeout => 10 })->{eof},
       'the connection is closed after the answer');
    $l->do(close => { name => 'k64' });
    my $again = AgentTest::wait_for('room for another', sub {
        $l->do(connect => { name => 'k', path => $own->control });
        my $reply = $l->ask('k', { v => 1, op => 'policy',
                                   policy => 'analysis' });
        $l->do(close => { name => 'k' });
        return $reply->{ok};
    });
    ok($again, 'once one is closed another is served');

    # those of a worker that is killed are not counted
    $l->do(connect => { name => "m$_", path => $own->control }) for 1 .. 60;
    my ($victim) = $own->workers;
    kill 'KILL', $victim;
    AgentTest::wait_for('room again', sub {
        $l->do(connect => { name => 'k', path => $own->control });
        my $reply = $l->ask('k', { v => 1, op => 'policy',
                                   policy => 'analysis' });
        $l->do(close => { name => 'k' });
        return $reply->{ok};
    });
    pass('those of a worker that was killed are not counted');
    $l->stop;
    $own->stop;
};


# Descriptors that do not come back

subtest 'G-005: packet sockets hold up nobody but their sender' => sub {
    my $probe = as(0, "def work(uid):\n    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)\n    print('ok')");
    plan skip_all => "root may not open a packet socket: $probe" if $probe ne "ok\n";
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        as(0, <<'END');
def work(uid):
    packets = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
               for i in range(200)]
    fds = [p.fileno() for p in packets]
    for k in range(0, 200, 50):
        u = control()
        send(u, b'{"v":1,"op":"open","policy":"analysis"}\n', fds[k:k + 50])
        for i in range(k, k + 50):
            packets[i].close()
        u.close()
END
        POSIX::_exit(0);
    }
    good_is_served('a running task is served while they are closed', 50);
    waitpid $pid, 0;
    my ($l, $task) = $b->task;
    ok($task->{task_id}, 'a task can be started');
    $l->stop;
};

subtest 'G-005: a helper that does not come back is replaced' => sub {
    my $own = $t->broker(%opt, http => 'agent_opens 1000r/s;');
    my ($worker) = $own->workers;
    my ($l, $task) = $own->task;
    my $first = (split ' ', $t->read("/proc/$worker/task/$worker/children"))[0];

    my @bad;
    my $hang = sub {
        my $bad = $t->launcher(user => undef);
        push @bad, $bad;
        $bad->do(connect => { name => 'x', path => $own->control });
        my $reply = $bad->ask('x', { v => 1, op => 'open', policy => 'analysis' });
        return $reply if !$reply->{ok};
        return $bad->ask('x', { op => 'serve' }, kinds => [
            { fuse => JSON::PP::true() }], timeout => 60);
    };
    my $got = $hang->();
    plan skip_all => "/dev/fuse cannot be opened: $got->{error}"
        if ($got->{error} // '') =~ /Error/;

    is($l->get("http://127.0.0.1:$port/echo")->{status}, 200,
       'a running task is served');
    AgentTest::wait_for('another helper', sub {
        my @now = split ' ', $t->read("/proc/$worker/task/$worker/children");
        return grep { $_ != $first } @now;
    });
    pass('another helper is started');
    like($own->error_log, qr/helper \d+ waits for a descriptor of uid 0/,
         'the log says so, and whose it is');
    is($l->get("http://127.0.0.1:$port/echo")->{status}, 200,
       'the task is served on');
    ok($l->ask('task', { op => 'near_limit', limit => 'memory', used => 1 },
               timeout => 1)->{timeout}, 'its lease goes on');
    ok($own->audit_wait('near_limit', task => $task->{task_id}),
       'what its launcher says is heard by the new helper');

    $hang->() for 1 .. 3;
    my $busy = AgentTest::wait_for('the refusal', sub {
        my $probe = $t->launcher;
        $probe->do(connect => { name => 'x', path => $own->control });
        my $reply = $probe->ask('x', { v => 1, op => 'policy',
                                       policy => 'analysis' });
        $probe->stop;
        return ($reply->{error} // '') eq 'busy' && $reply;
    });
    like($busy->{message}, qr/did not come back/,
         'a user that hung four is refused as busy');
    my $user = $t->launcher(user => $agent);
    my $served = $user->open_task($own->control, 'analysis');
    ok($served->{ok}, 'another user starts a task');
    is($user->get("http://127.0.0.1:$port/echo")->{status}, 200,
       'that task is served');
    is($l->get("http://127.0.0.1:$port/echo")->{status}, 200,
       'the first task is served still');
    ok($l->ask('task', { op => 'close', reason => 'ok' })->{ok},
       'the first task can be closed by its launcher');
    is_deeply([$own->workers], [$worker], 'the worker is the same');
    $_->do('end_fuse') for grep { $_ } @bad;
    $own->stop;
    $_->stop for @bad, $l, $user;
};


# Launchers that mean harm, of a user who may

my $helper_idle = sub ($what) {
    $t->wait_idle(helper(), $what);
    $t->wait_idle($worker, $what);
    return pass("worker and helper have nothing to do $what");
};

subtest 'G-005: half lines, urgent bytes and answers that nobody reads harm '
    . 'nobody' => sub {
    is(as($agent, <<'END'), "done\n", 'all of it is sent');
def work(uid):
    kept = []
    for data in (b"x", b"{", b"x" * 65535, b"\n" * 1000):
        u = control()
        send(u, data)
        kept.append(u)
    u = control()                       # ready, and not to be read
    u.send(b"x", socket.MSG_OOB)
    kept.append(u)
    u = control()                       # answers that are not taken
    u.setblocking(False)
    u.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    for i in range(200):
        send(u, b'{"v":1,"op":"policy","policy":"analysis"}\n' * 100)
    kept.append(u)
    u = control()                       # lines beside descriptors of ours
    for i in range(20):
        send(u, b"x", [u.fileno(), kept[0].fileno()])
    kept.append(u)
    for u in kept[:4]:
        u.settimeout(60)
        answer(u)
    print("done")
END
    $helper_idle->('after that');
    good_is_served('a running task is served');
    is_deeply([$b->workers], [$worker], 'the worker is the same');
};

subtest 'G-005: descriptors of one user take nothing from another' => sub {
    is(as($agent, <<'END'), "8 of 10 refused\n", 'of ten connections two may '
import ctypes, fcntl, struct, termios
def unread(u):
    return struct.unpack("i", fcntl.ioctl(u, termios.TIOCOUTQ, bytes(4)))[0]
def work(uid):
    # what can be a door: anything else is closed before its line has come
    if ctypes.CDLL(None).unshare(0x10000000 | 0x40000000) != 0:
        print("no net namespace")
        return
    door = socket.create_server(("", 0))
    conns = [control() for i in range(10)]
    for u in conns:
        send(u, b" ", [door.fileno()] * 64)
    while any(unread(u) for u in conns):
        time.sleep(0.004)
    said = [ask(u, v=1, op="resume", task_id="0" * 32, lease="1").get("message", "") for u in conns]
    print(sum("of this user" in x for x in said), "of 10 refused")
END
       . 'send 64 descriptors before their lines');
    good_is_served('a running task is served');

    # Linux limits what is on its way between processes of a user
    my $own = $t->broker(%opt, connections => 128, worker_user => 'nobody nogroup',
                         main => 'worker_rlimit_nofile 256;');
    my ($l) = $own->task;
    my ($w) = $own->workers;
    my $h = (split ' ', $t->read("/proc/$w/task/$w/children"))[0];
    my $many = $t->launcher;
    $many->do(connect => { name => "c$_", path => $own->control }) for 1 .. 8;
    kill 'STOP', $w;
    $many->do(descriptors => { name => "c$_", message => { op => 'serve' },
        kinds => [$_ == 1 ? { listen => 1234 } : { again => 0 },
                  ({ again => 0 }) x 63] }) for 1 .. 8;
    AgentTest::wait_for('the helper to wait, or its end', sub {
        $t->read("/proc/$h/stat") =~ /\) Z /
            || $t->read("/proc/$h/wchan") =~ /poll_schedule/
    });
    kill 'CONT', $w;
    ok($many->do(receive => { name => "c$_", timeout => 60 })->{message},
       "more of them than a user may send at once: answer $_") for 1 .. 8;
    is((split ' ', $t->read("/proc/$w/task/$w/children"))[0], $h,
       'the helper is the same');
    ok($l->ask('task', { op => 'close', reason => 'ok' })->{ok},
       'a lease that was there goes on, and ends in order');
    $_->stop for $l, $many;
};

$good->ask('task', { op => 'close', reason => 'ok' });
$good->stop;
$b->is_clean(level => qr/alert|emerg/);

done_testing;
