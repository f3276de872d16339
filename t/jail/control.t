#!/usr/bin/perl

# The lease: what the launcher tells the broker, what it takes from it, and
# that no box runs without one.  The broker is a fake one that refuses, goes
# away and sends nonsense as a test says.
#
# sanitizers: the broker's replies are read, also wrong ones

use v5.36;

use FindBin;
use JSON::PP ();
use lib $FindBin::Bin;
use Jail;
use Test::More;

my $json = JSON::PP->new->utf8;
sub task ($b, $script, %opt) {
    return jail(['run', '--control', $b->{socket}, @{ $opt{args} // [] }, '--',
                 'sh', '-c', $script], %opt);
}

my $curl = 'curl -s -m 5 http://127.0.0.1:8899/';

for my $user (ways()) {
    my $way = way($user);
    subtest "$way: a leased task runs, with what the broker and it agreed on"
        => sub
    {
        my $b = fake_broker();
        my $code = write_file('hello.sh', "$curl; exit 3\n");

        my $r = jail(['run', '--control', $b->{socket}, '--policy', 'analysis',
                      '--external-id', 'job-7', '--label', 'a label', '--code',
                      $code, '--', 'sh'], user => $user);
        is($r->{json}{reason}, 'nonzero', 'the task ends as its code does');
        is($r->{json}{stdout}, 'serve', 'its door is served by the broker');
        is($r->{json}{task_id}, '0123456789abcdef' x 2,
           'the task id is the broker\'s');
        is($r->{json}{enforced}{policy_hash}, 'sha256:' . 'ab' x 32,
           'the hash of the policy is the broker\'s');
        is($r->{json}{enforced}{broker}, '1',
           'the result names the version of the protocol');
        is_deeply($r->{json}{egress}, { allowed => 3, denied => [],
                  denied_count => 0, audit_lines => 7 },
                  'the summary of the egress is the broker\'s');

        my ($open) = heard($b, 'open');
        my $m = $open->{message};
        is_deeply([@$m{qw(v policy external_id label)}],
                  [1, 'analysis', 'job-7', 'a label'],
                  '"open" has the policy, the external id and the label');
        like($m->{code_sha256}, qr/^[0-9a-f]{64}$/,
             '"open" has a hash of the code');
        my ($sum) = split ' ', `sha256sum $code`;
        is($m->{code_sha256}, $sum, 'the hash of the code in "open" is right');

        my ($serve) = heard($b, 'serve');
        my $door = $serve->{fds}[0];
        is(scalar @{ $serve->{fds} }, 1,
           '"serve" has one descriptor for the one door');
        is_deeply([@$door{qw(family type listening v6only)}, $door->{name}[1]],
                  [10, 1, 1, 0, 8899], 'it is a dual-stack listening socket');
        my $mine = `/usr/bin/python3 -c 'import socket, sys; print(
            int.from_bytes(socket.socket().getsockopt(1, 71, 8),
                           sys.byteorder))'`;
        chomp $mine;
        isnt($door->{cookie}, $mine,
             'the socket is of another net namespace than the test');

        my ($close) = heard($b, 'close');
        is($close->{message}{reason}, 'nonzero', '"close" has the reason');
        is($close->{message}{exit_code}, 3, '"close" has the exit code');
        is(join(' ', sort keys %{ $close->{message}{usage} }),
           'cpu_ms disk_bytes memory_peak pids_peak wall_ms',
           '"close" has the usage');
        fake_broker_end($b);
    };
}

subtest 'the environment of a box points to the door' => sub {
    my $b = fake_broker();
    my $r = task($b, 'env');
    my %env = $r->{json}{stdout} =~ /^(\w+)=(.*)$/mg;
    is($env{$_}, 'http://127.0.0.1:8899', "$_ names the door")
        for qw(HTTP_PROXY http_proxy HTTPS_PROXY https_proxy AGENT_BROKER_URL);
    is($env{$_}, 'localhost,127.0.0.1,::1,[::1]', "$_ names the box itself")
        for qw(NO_PROXY no_proxy);
    is($env{NODE_USE_ENV_PROXY}, 1,
       'NODE_USE_ENV_PROXY makes node use the door');
    fake_broker_end($b);
};

subtest 'an offline box has no proxy and no interface but lo' => sub {
    my $offline = box('env; ls /proc/net/tcp >/dev/null && cat /proc/net/dev');
    unlike($offline->{stdout}, qr/proxy|PROXY/, 'no variable names a proxy');
    is(join(' ', $offline->{stdout} =~ /^\s*(\w+):/mg), 'lo',
       'lo is the only interface');
    is($offline->{enforced}{broker}, undef, 'the result names no broker');
    is($offline->{egress}, undef, 'the result has no egress');
};

subtest 'limits are the broker\'s, and a flag tightens them only' => sub {
    my $b = fake_broker({ task => { limits => {
        cpu => 0.5, cpu_time_ms => 30000, memory => 67108864, pids => 20,
        open_files => 64, wall_clock_ms => 3000, output => 500,
        output_bytes => 1048576, near_limit => 50 } } });
    my $r = task($b, 'ulimit -n; ulimit -c', args => ['--pids', '10']);
    is($r->{json}{limits}{memory}, 67108864, 'the memory is the policy\'s');
    is($r->{json}{limits}{pids}, 10, '--pids 10 tightens a limit');
    is($r->{json}{stdout}, "64\n0\n",
       'the limit of open files is the policy\'s');

    $r = task($b, 'echo ran', args => ['--memory', '65m']);
    is($r->{status}, 2, '--memory 65m, which is looser, is refused');
    like($r->{err}, qr/--memory 65m is more than the 64m that the policy/,
         'the message has both values');
    like($r->{err}, qr/ask its operator for "memory 65m;"/,
         'the message says what the operator can do');
    is($r->{out}, '', 'the command did not run');
    is(scalar heard($b, 'close'), 2,
       'the task that was refused was closed, too');
    fake_broker_end($b);
};

subtest '--offline has the defaults as its bounds' => sub {
    my $r = jail(['run', '--offline', '--wall-clock', '21s', '--', 'true']);
    is($r->{status}, 2, 'a looser value is refused');
    like($r->{err}, qr/the 20s that --offline gives: run under a broker's /,
         'the message says that a policy can give more');
    like($r->{err}, qr/policy that has "wall_clock 21s;"/,
         'the message has the line of that policy');
};

subtest 'doors for UDP and below port 1024 are served' => sub {
    my $b = fake_broker({ task => { doors => [
        { name => 'proxy', port => 8899 }, { name => 'web', port => 80 },
        { name => 'dns-udp', port => 53 }, { name => 'dns-tcp', port => 53 },
    ] } });
    my $r = task($b, 'curl -s -m 5 http://127.0.0.1/');
    is($r->{json}{stdout}, 'serve', 'port 80 is a door');
    my ($serve) = heard($b, 'serve');
    is_deeply([map { [$_->{name}[1], $_->{type}] } @{ $serve->{fds} }],
              [[8899, 1], [80, 1], [53, 2], [53, 1]],
              'sockets come in the order of the doors; -udp is a datagram one');
    fake_broker_end($b);
};

subtest 'a policy\'s paths are in the box, with their sizes' => sub {
    # not below a home, where the clone may be: homes are never readable
    my $readable = dir() . '/readable';
    mkdir $readable or die "$readable: $!";
        write_file("$readable/inside", '');
    my $b = fake_broker({ task => { box => { isolation => 'namespaces',
        writable => [{ path => '/data/x', bytes => 1 << 20 },
                     { path => '/tmp/work', bytes => 2 << 20 }],
        readable => [$readable], env => [] } } });
    my $r = task($b, "df -k --output=size,target; ls $readable; "
        . "touch $readable/x; echo x >/data/x/f && cat /data/x/f");
    like($r->{json}{stdout}, qr{ 1024 /data/x\n},
         'a writable path has its size');
    like($r->{json}{stdout}, qr{ 2048 /tmp\n},
         'the working directory has its size');
    like($r->{json}{stdout}, qr/^inside$/m, 'a readable path is there');
    like($r->{json}{stderr}, qr/Read-only file system/,
         'a readable path is read-only');
    like($r->{json}{stdout}, qr/^x$/m, 'a writable path can be written to');
    fake_broker_end($b);
};

subtest 'a policy that asks for another wall than namespaces: no box' => sub {
    my $b = fake_broker({ task => { box => { isolation => 'microvm' } } });
    my $r = task($b, 'true');
    is($r->{status}, 125, 'the status is 125');
    is($r->{json}{error}{stage}, 'policy', 'the stage is the policy');
    fake_broker_end($b);
};

# Refusals and nonsense before the start: no box

my @bad = (
    [{ open => { refuse => 'policy_unknown' } }, qr/policy_unknown/],
    [{ open => { refuse => 'not_allowed' } }, qr/not_allowed/],
    [{ open => { raw => "hello\n" } }, qr/follow the control protocol/],
    [{ open => { raw => "[1]\n" } }, qr/follow the control protocol/],
    [{ open => { raw => '{"ok":true,"ok":false}' . "\n" } }, qr/protocol/],
    [{ open => { raw => "{\"ok\":true,\"n\":1\0}\n" } }, qr/protocol/],
    [{ open => { raw => 'x' x 70000 } }, qr/follow the control protocol/],
    [{ open => { raw => '{"ok":true}' . "\n" } }, qr/task_id/],
    [{ open => 'close' }, qr/closed the connection/],
    [{ serve => { refuse => 'bad_descriptor' } }, qr/bad_descriptor/],
    [{ serve => 'close' }, qr/closed the connection/],
    [{ serve => { raw => "{]\n" } }, qr/protocol/],
    [{ serve => { raw => '{"ok":true}' . "\n" } }, qr/no lease/],
    [{ task => { doors => [] } }, qr/doors/],
    [{ task => { doors => [{ name => 'x', port => 70000 }] } }, qr/doors/],
    [{ task => { limits => {} } }, qr/cpu/],
    [{ task => { task_id => '../../../../../../../../../../etc/pass' } },
     qr/task_id/],
    [{ task => { box => { isolation => 'namespaces',
       writable => [{ path => '/tmp/../usr', bytes => 4096 }] } } },
     qr/writable/],
);

for my $case (@bad) {
    my ($scenario, $message) = @$case;
    my $name = substr($json->canonical->encode($scenario), 0, 60);
    subtest "A-129 the start is refused after $name" => sub {
        my $b = fake_broker($scenario);
        my $r = task($b, 'echo ran');
        is($r->{status}, 125, 'the status is 125');
        is($r->{json}{reason}, 'setup', 'the reason is setup');
        is($r->{json}{error}{stage}, 'broker', 'the stage is the broker');
        like($r->{json}{error}{message}, $message, 'the message has the cause');
        is($r->{json}{stdout}, '', 'the command did not run');
        fake_broker_end($b);
    };
}

for my $path ('/nonexistent/control.sock', '/' . 'long' x 40) {
    subtest 'A-082 no box without a broker at ' . substr($path, 0, 30) => sub {
        my $r = jail(['run', '--control', $path, '--', 'echo', 'ran']);
        is($r->{status}, 125, 'the status is 125');
        is($r->{json}{error}{stage}, 'broker', 'the stage is the broker');
        ok(length $r->{json}{error}{fix}, 'there is a fix');
        is($r->{json}{stdout}, '', 'the command did not run');
        if (length $path > 107) {
            is($r->{json}{error}{errno}, 'ENAMETOOLONG',
               'a path that is too long is not cut');
            like($r->{json}{error}{message}, qr/107/,
                 'the message has the longest length');
        }
    };
}

subtest 'AGENT_BROKER_CONTROL is the socket where no --control is given'
    => sub
{
    my $r = jail(['run', '--', 'true'],
                 env => { AGENT_BROKER_CONTROL => '/nonexistent/env.sock' });
    like($r->{json}{error}{message}, qr{/nonexistent/env\.sock},
         'the error names it');
};

# The connection is lost while the task runs: the same doors, a new connection

my $twice = "$curl; echo; for i in \$(seq 300); do sleep 0.05; "
            . "[ \"\$($curl)\" = resume ] && break; done; $curl";

for my $case (['a worker died', ['close']], ['a reload', ['drain']],
              ['a restart', ['stop', 1]]) {
    my ($name, $loss) = @$case;
    subtest "after $name the task goes on with the same doors" => sub {
        my $b = fake_broker({ after => [['wait', 'door'], $loss] });
        my $r = task($b, $twice);
        is($r->{json}{reason}, 'ok', 'the task ends well')
            or diag $json->encode($r->{json}{error} // {});
        like($r->{json}{stdout}, qr/\Aserve\n.*resume\z/,
             'its door is served before and after');
        my ($resume) = heard($b, 'resume');
        is($resume->{message}{lease}, 'lease of serve',
           '"resume" has the lease of "serve"');
        is($resume->{message}{task_id}, '0123456789abcdef' x 2,
           '"resume" has the id of the task');
        my ($serve) = heard($b, 'serve');
        is_deeply($resume->{fds}, $serve->{fds},
                  '"resume" has the same sockets');
        is(scalar heard($b, 'close'), 1, 'the task is closed once');
        is($r->{json}{egress}{allowed}, 3,
           'the summary of the egress comes by the new connection');
        fake_broker_end($b);
    };
}

# These tasks sleep for longer than the wall clock lets them, so that an end
# for another reason is an end before that

for my $error (qw(policy_gone lease_invalid)) {
    subtest "a resumption that is refused ($error) ends the task" => sub {
        my $b = fake_broker({ after => [['wait', 'door'], ['close']],
                              resume => { refuse => $error } });
        my $r = task($b, "$curl; sleep 99");
        is($r->{json}{reason}, 'broker', 'the reason is broker');
        is($r->{status}, 0, 'there is a result, of status 0');
        is($r->{json}{exit_code}, undef, 'there is no exit code');
        like($r->{json}{error}{message}, qr/$error/,
             'the message has the cause');
        fake_broker_end($b);
    };
}

subtest 'nonsense from the broker ends the task' => sub {
    my $b = fake_broker({ after => [['wait', 'door'],
                                    ['raw', "nonsense\n"]] });
    is(task($b, "$curl; sleep 99")->{json}{reason}, 'broker',
       'the reason is broker');
    fake_broker_end($b);
};

# The promise is ten seconds.  The two tasks are started together: one ends by
# itself in half of that, the other would at the wall clock, which is twice.

subtest 'a broker that stays away for ten seconds ends the task' => sub {
    my @tasks = map {
        my $b = fake_broker({ after => [['wait', 'door'], ['close']],
                              resume => 'close' });
        [$b, spawn(['run', '--control', $b->{socket}, '--', 'sh',
                    '-c', "$curl; sleep $_"])];
    } 5, 99;
    my ($short, $long) = map { finish($_->[1]) } @tasks;
    is($short->{json}{reason}, 'ok',
       'control: a task of five seconds ends well');
    is($long->{json}{reason}, 'broker', 'the other ends for reason broker');
    like($long->{json}{error}{fix}, qr/^start the broker again/,
         'the fix says to start it');
    note "after $long->{ms} ms";
    fake_broker_end($_->[0]) for @tasks;
};

for my $path (dir(), '/etc/passwd') {
    subtest "$path as the broker's socket is refused" => sub {
        my $r = jail(['run', '--control', $path, '--', 'true']);
        is($r->{status}, 125, 'the status is 125');
        is($r->{json}{error}{errno}, 'ENOTSOCK', 'the errno is ENOTSOCK');
        like($r->{json}{error}{fix}, qr/--control/, 'the fix names the option');
    };
}

subtest 'jail policy prints a policy' => sub {
    my $b = fake_broker();
    my $r = jail(['policy', '--control', $b->{socket}, 'analysis']);
    is($r->{status}, 0, 'the status is 0');
    is_deeply($r->{json}, { name => 'analysis' },
              'the policy is the broker\'s');
    fake_broker_end($b);
};

subtest 'jail policy fails for a policy that is not there' => sub {
    my $b = fake_broker({ policy => { refuse => 'policy_unknown' } });
    my $r = jail(['policy', '--control', $b->{socket}, 'analysis']);
    is($r->{status}, 125, 'the status is 125');
    like($r->{err}, qr/policy_unknown/, 'the message has the broker\'s error');
    fake_broker_end($b);
};

none_left();
no_cgroup_left();

done_testing;
