#!/usr/bin/perl

# One broker for one agent_state: of two starts one wins, whatever an earlier
# broker left; nginx -s signals that broker's master and nobody else; a new
# binary takes over from the old one, or gives back, and tasks, socket and
# authority stay, as they do over a stop and a start.

use v5.36;

use lib 't/lib';
use AgentTest;
use IO::Socket::UNIX;
use Test::More;

my $t    = AgentTest->new;
my $up   = $t->upstream(plain => 1);
my $port = $up->port;
my $url  = "http://127.0.0.1:$port";

my %opt = (http => 'agent_state state;', policy => <<"END");
    agent_policy analysis {
        launchers user:$>;
        host 127.0.0.1:$port { plaintext on; private 127.0.0.0/8; }
    }
END

# A prefix with a configuration, as an operator would start nginx from.
sub prefix ($daemon = 'off') {
    my $p = $t->nginx_prefix;

    # a new binary is given no variable but these
    my $main = join ' ', map { "env $_;" } keys %{ { $t->nginx_env } };

    $t->write("$p/nginx.conf", $t->nginx_conf($p, %opt, main => $main)
                               =~ s/^daemon off/daemon $daemon/r);
    return $p;
}

sub start ($p) {
    state $n = 0;
    my $log = "$p/start" . ++$n . '.log';
    my $child = $t->spawn([$t->nginx_command($p)], env => { $t->nginx_env },
                          log => $log);
    return { %$child, prefix => $p, log => $log };
}

# its status when it has ended; undef: the pid file is its own
sub outcome ($start) {
    return AgentTest::wait_for('a start', sub {
        if (waitpid($start->{pid}, POSIX::WNOHANG()) == $start->{pid}) {
            $t->forget($start->{pid});
            return { status => $?, said => $t->read($start->{log}) };
        }
        return $t->read("$start->{prefix}/nginx.pid") =~ /^$start->{pid}$/m
               && { pid => $start->{pid} };
    });
}

sub said ($p, @command) {
    my $run = $t->run([$t->nginx_command($p, @command)],
                      env => { $t->nginx_env });
    return ($run->{status}, $run->{err});
}

sub is_served ($p, $what) {
    my $l = $t->launcher;
    my $task = $l->open_task("$p/run/control.sock", 'analysis');
    is($task->{ok} && $l->get("$url/x")->{status}, 200, $what);
    $l->ask('task', { op => 'close', reason => 'ok' });
    $l->stop;
}

sub is_gone ($pid) {
    return 1 if waitpid($pid, POSIX::WNOHANG()) == $pid;
    return !kill 0, $pid;
}

sub end ($pid) {
    kill 'TERM', $pid;
    AgentTest::wait_for('nginx to end', sub { is_gone($pid) });
    $t->forget($pid);
}


# E-010: what a pid file may say when there is no broker

my $stranger = $t->spawn(['sleep', 600])->{pid};
my $dead = $t->spawn(['true'])->{pid};
waitpid $dead, 0;
$t->forget($dead);
my $other = start(prefix());
ok(!defined outcome($other)->{status}, 'control: another broker runs');

for my $case (['a dead process', "$dead\n", qr/No such process/],
              ['another program', "$stranger\n", qr/not this broker's master/],
              ['another broker', "$other->{pid}\n",
               qr/not this broker's master/],
              ['this test', "$$\n", qr/not this broker's master/],
              ['nothing', '', qr/invalid PID number/],
              ['no number', "nginx\n", qr/invalid PID number/],
              ['a group of processes', "-1\n", qr/invalid PID number/],
              ['zero', "0\n", qr/not this broker's master/])
{
    my ($what, $text, $words) = @$case;
    subtest "E-010 a pid file with $what signals nobody and stops no start"
        => sub {
    my $p = prefix();

    for my $signal (qw(stop reload)) {
        $t->write("$p/nginx.pid", $text);
        my ($status, $err) = said($p, '-s', $signal);
        isnt($status, 0, "nginx -s $signal fails");
        like($err, $words, "nginx -s $signal says why it fails");
        is(scalar(() = $err =~ /\[(?:emerg|error|alert)\]/g), 1,
           "nginx -s $signal says so once");
    }

    my $start = start($p);
    ok(!defined outcome($start)->{status}, 'nginx starts');
    is_served($p, 'the broker that was started serves');
    my ($status, $err) = said($p, '-s', 'stop');
    is($status, 0, 'control: then nginx -s stop works') or diag $err;
    AgentTest::wait_for('its end', sub { is_gone($start->{pid}) });
    $t->forget($start->{pid});
    };
}
is(waitpid($stranger, POSIX::WNOHANG()), 0,
   'E-010 the other program whose pid a file had was not signalled');
is_served($other->{prefix},
'E-010 the other broker whose pid a file had serves on');
end($other->{pid});

# one that drains has given its socket back, and is its pid file's all the same
subtest 'a broker that drains is still the one that its pid file names' => sub {
    my $p = prefix();
    my $start = start($p);
    outcome($start);
    my $l = $t->launcher;
    $l->open_task("$p/run/control.sock", 'analysis');
    $l->do(open => { id => 's', port => 8899 });
    $l->do(write => { id => 's', data => "GET $url/stream?n=9999&ms=20 "
                      . "HTTP/1.1\r\nHost: 127.0.0.1:$port\r\n\r\n" });
    AgentTest::wait_for('the stream', sub {
        ($l->do(read => { id => 's' })->{data} // '') =~ /\r\n\r\n/ });
    is((said($p, '-s', 'quit'))[0], 0, 'control: nginx -s quit is accepted');
    AgentTest::wait_for('its socket to go', sub { !-e "$p/run/control.sock" });

    my $second = outcome(start($p));
    ok($second->{status}, 'no other broker starts beside it');
    like($second->{said}, qr/another broker is running with "agent_state"/,
         'the error names agent_state');
    is((said($p, '-s', 'stop'))[0], 0, 'nginx -s stop ends it');
    AgentTest::wait_for('its end', sub { is_gone($start->{pid}) });
    $t->forget($start->{pid});
    $l->stop;
};


# E-010: two starts at once, and a socket that an earlier broker left

for my $round (1 .. 5) {
    subtest "E-010 of two starts at once one wins (round $round)" => sub {
    my $p = prefix();
    close IO::Socket::UNIX->new(Local => "$p/run/control.sock", Listen => 1);
    my @starts = map { start($p) } 1 .. 2;
    my @alive;
    AgentTest::wait_for('one of them to give up', sub {
        @alive = grep { !is_gone($_->{pid}) } @starts;
        return @alive < 2;
    });
    is(scalar @alive, 1, 'one of them is left');
    $t->forget($_->{pid}) for @starts;
    my ($lost) = grep { $_ != $alive[0] } @starts;
    my @errors = grep { /\[emerg\]/ } split /\n/, $t->read($lost->{log});
    is(scalar @errors, 1, 'the other has one error');
    like($errors[0], qr/another broker is running/,
         'its error names the broker that is running');
    AgentTest::wait_for('the pid file', sub {
        $t->read("$p/nginx.pid") =~ /^$alive[0]{pid}$/ });
    is_served($p, 'the one that is left serves');
    end($alive[0]{pid});
    };
}

# whatever became of its socket
subtest 'E-010 a broker whose socket was removed is still the one broker'
    => sub {
    my $p = prefix();
    my $start = start($p);
    outcome($start);
    unlink "$p/run/control.sock";
    my $second = outcome(start($p));
    ok($second->{status}, 'no second one starts beside it');
    like($second->{said}, qr/another broker is running with "agent_state"/,
         'the error names agent_state');

    kill 'HUP', $start->{pid};
    AgentTest::wait_for('a reload', sub {
        $t->read("$p/logs/agent-audit.log") =~ /"action":"reload"/ });
    ok(outcome(start($p))->{status},
       'no second one starts after a reload either');

    kill 'KILL', $start->{pid};
    waitpid $start->{pid}, 0;
    $t->forget($start->{pid});
    my $next = start($p);
    ok(!defined outcome($next)->{status},
       'control: after it was killed the next starts');
    is_served($p, 'the next one serves');

    # the next start after a stop does not fail for being early
    kill 'TERM', $next->{pid};
    my $early = start($p);
    AgentTest::wait_for('its end', sub { is_gone($next->{pid}) });
    $t->forget($next->{pid});
    my $outcome = outcome($early);
    SKIP: {
        skip 'the old broker still answered', 1
            if ($outcome->{said} // '') =~ /running on "agent_control"/;
        ok(!defined $outcome->{status},
           'a start right after a stop waits for it')
            or diag $outcome->{said};
    }
    end($early->{pid}) if !defined $outcome->{status};
};


# E-027: without the boxes' authority nobody serves, and so no box starts

for my $case (['half of one', sub ($f, $whole) { substr $whole, 0, 100 }],
              ['an empty file', sub ($f, $whole) { '' }],
              ['no key', sub ($f, $whole) { $whole =~ s/.*?END.*?\n//sr }],
              ['one that others read', sub ($f, $whole) { $whole }, 0644])
{
    my ($what, $make, $mode) = @$case;
    subtest "E-027 $what for the boxes' authority: no broker starts" => sub {
    my $p = prefix();
    my $first = start($p);
    outcome($first);
    end($first->{pid});
    my $file = "$p/state/ca.pem";
    my $whole = $t->read($file);
    $t->write($file, $make->($file, $whole), $mode // 0600);
    unlink "$p/nginx.pid";

    my $start = outcome(start($p));
    ok($start->{status}, 'nginx does not start');
    like($start->{said}, qr/boxes' authority "\Q$file\E" (?:cannot|must) be/,
         'the error says what is wrong with the file');
    ok(!-e "$p/run/control.sock", 'there is no socket to open a task at');

    # as a start that was killed leaves it
    unlink $file;
    $t->write("$file.new", substr($whole, 0, 100), 0600);
    my $next = start($p);
    ok(!defined outcome($next)->{status},
       'without the file, and with half of one beside it, one is made');
    my $l = $t->launcher;
    my $task = $l->open_task("$p/run/control.sock", 'analysis');
    like($task->{ca}, qr/^-----BEGIN CERTIFICATE-----\n.*\n-----END/s,
         'a task is given the certificate of the authority');
    is(index($t->read($file), $task->{ca}) > 0, 1,
       'it is the certificate in the file');
    unlike($task->{ca}, qr/PRIVATE/, 'a task is not given the key');
    my $ca = $t->write('given-ca.pem', $task->{ca});
    is($task->{ca_hash}, `openssl x509 -in $ca -noout -subject_hash` =~ s/\n//r,
       'ca_hash is the hash that OpenSSL has of its subject');
    $l->stop;
    end($next->{pid});
    };
}


# E-012: a new binary beside the old one

subtest 'E-012 C-034 a new binary takes over, or gives back, and tasks '
    . 'go on'
    => sub {
    my $p = prefix('on');
    my $control = "$p/run/control.sock";
    my $master = sub { ($t->read("$p/nginx.pid") =~ /^(\d+)$/m)[0] };
    my $launch = sub {
        is((said($p))[0], 0, 'control: nginx starts in the background');
        return AgentTest::wait_for('its pid', $master);
    };

    my $old = $launch->();
    my $broker = bless { test => $t, prefix => $p, pid => $old, opt => {} },
                 'AgentTest::Broker';
    AgentTest::wait_for('a worker', sub { scalar $broker->workers });

    my $l = $t->launcher;
    my $task = $l->open_task($control, 'analysis');
    my $inode = (stat $control)[1];
    $l->do(open => { id => 's', port => 8899 });
    $l->do(write => { id => 's', data => "GET $url/stream?n=60&ms=10 HTTP/1.1"
        . "\r\nHost: 127.0.0.1:$port\r\nConnection: close\r\n\r\n" });

    # Resumes as a launcher does after the drain event.
    my $name = 'task';
    my $follow = sub ($what) {
        my $said = $l->do(receive => { name => $name, timeout => 10 });
        is_deeply($said->{message} // $said, { event => 'drain' },
                  "$what: the launcher is told to "
                  . "resume") or diag explain $said;
        state $n = 0;
        my $again = 'again' . ++$n;
        $l->do(connect => { name => $again, path => $control });
        my $got = $l->ask($again, { v => 1, op => 'resume',
            task_id => $task->{task_id}, lease => $task->{lease} },
            kinds => [map { { again => $_ } } 0 .. $#{ $task->{doors} }]);
        ok($got->{ok},
           "$what: the launcher resumes its task") or diag explain $got;
        ($name, $task->{lease}) = ($again, $got->{lease});
        is($l->get("$url/moved")->{status}, 200, "$what: the task is served");
    };
    my $another = sub {
        AgentTest::wait_for('the new binary', sub {
            -e "$p/nginx.pid.oldbin" && ($master->() // $old) != $old
                && (said($p, '-t'))[0] == 0
        });
        my $pid = $master->();
        my $beside = bless { %$broker, pid => $pid }, 'AgentTest::Broker';
        AgentTest::wait_for('its worker', sub { scalar $beside->workers });
        return $pid;
    };
    my $is_left = sub ($pid) {
        my $its = bless { %$broker, pid => $pid }, 'AgentTest::Broker';
        AgentTest::wait_for('its workers to be gone', sub { !$its->workers });
    };

    # forth, and back again

    kill 'USR2', $old;
    my $new = $another->();
    is_served($p, "both binaries beside each other serve (round $_)")
        for 1 .. 5;
    my $third = outcome(start($p));
    ok($third->{status}, 'no third one starts beside the two');
    like($third->{said}, qr/another broker is running/,
         'the third one says why');

    kill 'WINCH', $old;
    $follow->('the old workers leave');
    is_served($p, "the new binary serves new tasks (round $_)") for 1 .. 5;
    my $stream = '';
    AgentTest::wait_for('the end of the stream', sub {
        my $got = $l->do(read => { id => 's', timeout => 5 });
        $stream .= $got->{data} // '';
        return $got->{eof};
    });
    like($stream, qr/\r\n0\r\n\r\n\z/,
         'an answer comes to its end while the old workers leave');

    kill 'HUP', $old;
    AgentTest::wait_for('the old workers', sub { scalar $broker->workers });
    kill 'QUIT', $new;
    $follow->('the old binary takes over again');
    AgentTest::wait_for('the new one to end', sub { is_gone($new) });
    is_served($p, "the old binary serves again (round $_)") for 1 .. 5;
    is((stat $control)[1], $inode,
       'the socket is the same after the old binary took over again');

    # and for good

    AgentTest::wait_for('the pid file', sub { ($master->() // 0) == $old });
    kill 'USR2', $old;
    $new = $another->();
    kill 'QUIT', $old;
    $follow->('the old binary quits');
    AgentTest::wait_for('its end', sub { is_gone($old) });
    is_served($p, "the new binary serves for good (round $_)") for 1 .. 5;
    is((stat $control)[1], $inode,
       'the socket is the same after the new binary took over');
    ok(outcome(start($p))->{status}, 'no other starts beside the new binary');
    is((said($p, '-s', 'reload'))[0], 0,
       'the new binary can be told to reload');
    $follow->('a reload');
    my $fresh = $t->launcher->open_task($control, 'analysis');
    is($fresh->{ca}, $task->{ca},
       'the boxes\' authority is the same after the reload');
    $old = $new;

    # the other way
    is((said($p, '-s', 'stop'))[0], 0, 'the new binary can be stopped');
    AgentTest::wait_for('its end', sub { is_gone($old) });
    $new = $launch->();
    isnt($new, $old, 'control: a start after the stop is another master');
    $l->do(connect => { name => 'r', path => $control });
    my $got = $l->ask('r', { v => 1, op => 'resume',
        task_id => $task->{task_id}, lease => $task->{lease} },
        kinds => [map { { again => $_ } } 0 .. $#{ $task->{doors} }]);
    ok($got->{ok},
       'the next broker takes the task by its lease') or diag explain $got;
    is($l->get("$url/after")->{status}, 200,
       'the next broker serves the task');
    ok($l->ask('r', { op => 'close', reason => 'ok' })->{ok},
       'the task can be closed at the next broker');

    my $next = $t->launcher->open_task($control, 'analysis');
    is($next->{ca}, $task->{ca},
       'the boxes\' authority is the same after a stop and a start');
    $l->stop;
    is((said($p, '-s', 'stop'))[0], 0, 'the next broker can be stopped');
    AgentTest::wait_for('its end', sub { is_gone($new) });
    ok(!-e $control, 'an orderly stop removes the socket');
    is(scalar(grep { $_->{task} eq $task->{task_id} }
              $broker->audit('task_end')), 1, 'the task has ended once');
    is_deeply([$broker->audit_errors], [],
              'every line of the audit is whole and follows in number');
};

# however nginx was found

for my $case (['by a name from PATH', 'nginx'],
              ['by a relative path', '../nginx'],
              ['by its full path', AgentTest::nginx_binary()])
{
    my ($what, $name) = @$case;
    subtest "G-094: a broker that was started $what is upgraded by USR2" => sub {
        my $p = prefix('on');
        my $run = $t->run(['bash', '-c', 'name=$1; shift; exec -a "$name" "$@"',
                           'sh', $name, $t->nginx_command($p)],
                          env => { $t->nginx_env });
        is($run->{status}, 0, 'control: it starts') or diag $run->{err};
        my $master = sub { ($t->read("$p/nginx.pid") =~ /^(\d+)$/m)[0] };
        my $old = AgentTest::wait_for('its pid', $master);
        my $its = sub ($pid) {
            bless { test => $t, prefix => $p, pid => $pid, opt => {} },
                  'AgentTest::Broker';
        };
        AgentTest::wait_for('its worker', sub { scalar $its->($old)->workers });
        kill 'USR2', $old;
        AgentTest::wait_for('the new binary', sub {
            -e "$p/nginx.pid.oldbin" && ($master->() // $old) != $old
            || $t->read("$p/error.log") =~ /\[(?:alert|emerg)\]/
        });
        my $new = $master->() // $old;
        isnt($new, $old, 'another master runs') or diag $t->read("$p/error.log");
        if ($new != $old) {
            AgentTest::wait_for('its worker',
                                sub { scalar $its->($new)->workers });
            kill 'QUIT', $old;
            AgentTest::wait_for('the old one\'s end', sub { is_gone($old) });
        }
        is_served($p, 'it serves');
        kill 'TERM', $new;
        AgentTest::wait_for('its end', sub { is_gone($new) });
    };
}

subtest 'G-095: a reload says that it does not load a new module' => sub {
    my $p = $t->nginx_prefix;
    my $file = "$p/module.so";
    my $module = $t->read($t->module_path);
    my ($id) = `readelf -n @{[$t->module_path]}` =~ /Build ID: ([0-9a-f]+)/
        or plan skip_all => 'this linker writes no build id';
    my $put = sub ($bytes) {
        $t->write("$file.new", $bytes, 0755);
        rename "$file.new", $file or die $!;
    };
    $put->($module);
    my $b = $t->broker(%opt, prefix => $p, module => $file);
    my $warned = sub {
        scalar(() = $b->error_log
               =~ /\[warn\].*"\Q$file\E" is not the build of the module that runs: a reload does not load it; send USR2/g)
    };
    my $last = sub { ($b->audit('config'))[-1] };
    is(join(' ', map { $last->()->{$_} // 'none' }
            qw(module build listens module_replaced)),
       "0.1.0 $id 0 none", 'the config line has release and build');

    $put->($module);
    ok($b->reload, 'control: a reload');
    is($warned->(), 0, 'the same build in another file: no warning');

    my $other = $module;
    my $bytes = pack 'H*', $id;
    substr($other, index($other, $bytes), length $bytes) = ~. $bytes;
    $put->($other);
    ok($b->reload, 'another build in the file: a reload is accepted');
    is($warned->(), 1, 'the error log says so');
    is(join(' ', map { $last->()->{$_} // 'none' } qw(build module_replaced)),
       "$id 1", 'the config line says which build runs');
    is_served($p, 'the broker serves');

    unlink $file;
    ok($b->reload, 'no file: a reload is accepted');
    is($warned->(), 2, 'the error log says so again');

    $put->($other);
    $b->stop;
    $b->start;
    is(join(' ', map { $last->()->{$_} // 'none' } qw(build module_replaced)),
       unpack("H*", ~. $bytes) . ' none', 'a start loads the other build');
    $b->stop;
};

subtest 'G-021: what the broker\'s nginx listens on besides is reported' => sub {
    my $p = $t->nginx_prefix;
    my $beside = "server { listen unix:$p/x.sock; return 200; }";
    my $b = $t->broker(%opt, prefix => $p, http => "$opt{http} $beside");
    is(($b->audit('config'))[-1]{listens}, 1, 'the config line counts it');
    like($b->error_log, qr/\[warn\].*listens on "unix:\S+x\.sock" too: /,
         'the error log warns of it');
    ok($b->reload(http => $opt{http}), 'a reload without it');
    is(($b->audit('config'))[-1]{listens}, 0, 'the config line says 0');
    my ($ok, $said) = $t->nginx_t(http => <<"END");
    agent_audit logs/agent-audit.log;
    $beside
    server { agent_control unix:%CONTROL%;
             include $AgentTest::ROOT/conf/agent_proxy.conf; }
END
    ok($ok && $said =~ /\[warn\].*listens on "unix:\S+x\.sock" too/,
       'nginx -t warns of it, and accepts it') or diag $said;
    $b->stop;
};

done_testing;
