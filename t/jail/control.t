#!/usr/bin/perl

# The lease: what the launcher tells the broker, what it takes from it, and
# that a box never runs without one.  The broker is a fake that can be told
# to refuse, to vanish and to talk nonsense.
#
# sanitizers: the broker's replies are read, also wrong ones

use v5.36;

use FindBin;
use IPC::Open2 qw(open2);
use JSON::PP ();
use lib $FindBin::Bin;
use Jail;
use Test::More;
use Time::HiRes qw(sleep time);

my $json = JSON::PP->new->utf8;
my $n = 0;

sub broker ($scenario) {
    $n++;
    my %b = (socket => dir() . "/control.$n", log => dir() . "/log.$n");
    open my $f, '>', $b{log};
    $b{pid} = open2($b{out}, $b{in}, '/usr/bin/python3',
                    "$FindBin::Bin/fake_broker.py", $b{socket}, $b{log},
                    $json->encode($scenario));
    readline($b{out}) eq "ready\n" or die 'the fake broker did not start';
    return \%b;
}

sub heard ($b, $op = undef) {
    open my $f, '<', $b->{log} or die $!;
    my @all = map { $json->decode($_) } <$f>;
    return $op ? grep { ($_->{op} // '') eq $op } @all : @all;
}

sub end ($b) {
    close $b->{in};
    waitpid $b->{pid}, 0;
}

sub task ($b, $script, %opt) {
    return jail(['run', '--control', $b->{socket}, @{ $opt{args} // [] }, '--',
                 'sh', '-c', $script], %opt);
}

my $curl = 'curl -s -m 5 http://127.0.0.1:8899/';

for my $user (ways()) {
    my $way = way($user);
    my $b = broker({});
    my $code = dir() . "/hello.sh";
    open my $f, '>', $code; print $f "$curl; exit 3\n"; close $f;

    my $r = jail(['run', '--control', $b->{socket}, '--policy', 'analysis',
                  '--external-id', 'job-7', '--label', 'a label', '--code',
                  $code, '--', 'sh'], user => $user);
    is($r->{json}{reason}, 'nonzero', "$way: a leased task runs");
    is($r->{json}{stdout}, 'serve', 'its door is served by the broker');
    is($r->{json}{task_id}, '0123456789abcdef' x 2, 'the task id is its');
    is($r->{json}{enforced}{policy_hash}, 'sha256:' . 'ab' x 32,
       'and so is the hash of the policy');
    is($r->{json}{enforced}{broker}, '1', 'the result names the protocol');
    is_deeply($r->{json}{egress}, { allowed => 3, denied => [],
              denied_count => 0, audit_lines => 7 },
              'the summary of the egress is the broker\'s');

    my ($open) = heard($b, 'open');
    my $m = $open->{message};
    is_deeply([@$m{qw(v policy external_id label)}],
              [1, 'analysis', 'job-7', 'a label'], 'open says what was asked');
    like($m->{code_sha256}, qr/^[0-9a-f]{64}$/, 'and the hash of the code');
    my ($sum) = split ' ', `sha256sum $code`;
    is($m->{code_sha256}, $sum, 'which is right');

    my ($serve) = heard($b, 'serve');
    my $door = $serve->{fds}[0];
    is(scalar @{ $serve->{fds} }, 1, 'one descriptor a door');
    is_deeply([@$door{qw(family type listening v6only)}, $door->{name}[1]],
              [10, 1, 1, 0, 8899], 'a dual-stack listening socket');
    my $mine = `python3 -c 'import socket, sys
print(int.from_bytes(socket.socket().getsockopt(1, 71, 8), sys.byteorder))'`;
    chomp $mine;
    isnt($door->{cookie}, $mine, 'of another net namespace than ours');

    my ($close) = heard($b, 'close');
    is($close->{message}{reason}, 'nonzero', 'close says how it ended');
    is($close->{message}{exit_code}, 3, 'with the exit code');
    is(join(' ', sort keys %{ $close->{message}{usage} }),
       'cpu_ms disk_bytes memory_peak pids_peak wall_ms', 'and what was used');
    end($b);
}

# What points the task to its door

{
    my $b = broker({});
    my $r = task($b, 'env');
    my %env = $r->{json}{stdout} =~ /^(\w+)=(.*)$/mg;
    is($env{$_}, 'http://127.0.0.1:8899', "$_ names the door")
        for qw(HTTP_PROXY http_proxy HTTPS_PROXY https_proxy AGENT_BROKER_URL);
    is($env{$_}, 'localhost,127.0.0.1,::1,[::1]', "$_ leaves the box alone")
        for qw(NO_PROXY no_proxy);
    is($env{NODE_USE_ENV_PROXY}, 1, 'node is told to look');
    end($b);

    my $alone = box('env; ls /proc/net/tcp >/dev/null && cat /proc/net/dev');
    unlike($alone->{stdout}, qr/proxy|PROXY/, 'an offline box has no proxy');
    is(join(' ', $alone->{stdout} =~ /^\s*(\w+):/mg), 'lo',
       'and no interface but lo');
    is($alone->{enforced}{broker}, undef, 'its result says: no broker');
    is($alone->{egress}, undef, 'and no egress');
}

# The broker's limits hold, flags tighten them and do not loosen them

{
    my $b = broker({ task => { limits => {
        cpu => 0.5, cpu_time_ms => 30000, memory => 67108864, pids => 20,
        open_files => 64, wall_clock_ms => 3000, output => 500,
        output_bytes => 1048576, near_limit => 50 } } });
    my $r = task($b, 'ulimit -n; ulimit -c', args => ['--pids', '10']);
    is($r->{json}{limits}{memory}, 67108864, 'the limits are the policy\'s');
    is($r->{json}{limits}{pids}, 10, 'a flag tightens one');
    is($r->{json}{stdout}, "64\n0\n", 'open_files is set');

    $r = task($b, 'echo ran', args => ['--memory', '65m']);
    is($r->{status}, 2, 'a looser value is refused');
    like($r->{err}, qr/--memory 65m is more than the 64m that the policy/,
         'with both values');
    like($r->{err}, qr/ask its operator for "memory 65m;"/,
         'and what would give it');
    is($r->{out}, '', 'and nothing ran');
    is(scalar heard($b, 'close'), 2, 'the task is closed, too');

    $r = jail(['run', '--offline', '--wall-clock', '21s', '--', 'true']);
    is($r->{status}, 2, '--offline has the defaults as its bounds');
    like($r->{err}, qr/the 20s that --offline gives: run under a broker's /,
         'and a broker would give more');
    like($r->{err}, qr/policy that has "wall_clock 21s;"/, 'by which line');
    end($b);
}

# More doors: udp, and a port below 1024

{
    my $b = broker({ task => { doors => [
        { name => 'proxy', port => 8899 }, { name => 'web', port => 80 },
        { name => 'dns-udp', port => 53 }, { name => 'dns-tcp', port => 53 },
    ] } });
    my $r = task($b, 'curl -s -m 5 http://127.0.0.1/');
    is($r->{json}{stdout}, 'serve', 'port 80 is a door');
    my ($serve) = heard($b, 'serve');
    is_deeply([map { [$_->{name}[1], $_->{type}] } @{ $serve->{fds} }],
              [[8899, 1], [80, 1], [53, 2], [53, 1]],
              'sockets come in the order of the doors; -udp is a datagram one');
    end($b);
}

# Paths of the policy

{
    # not below a home, where the clone may be: homes are never readable
    my $readable = dir() . '/readable';
    mkdir $readable or die "$readable: $!";
    open my $file, '>', "$readable/inside" or die "$readable/inside: $!";
    close $file;
    my $b = broker({ task => { box => { isolation => 'namespaces',
        writable => [{ path => '/data/x', bytes => 1 << 20 },
                     { path => '/tmp/work', bytes => 2 << 20 }],
        readable => [$readable], env => [] } } });
    my $r = task($b, "df -k --output=size,target; ls $readable; "
        . "touch $readable/x; echo x >/data/x/f && cat /data/x/f");
    like($r->{json}{stdout}, qr{ 1024 /data/x\n}, 'a writable path has its size');
    like($r->{json}{stdout}, qr{ 2048 /tmp\n}, 'and so has the working directory');
    like($r->{json}{stdout}, qr/^inside$/m, 'a readable path is there');
    like($r->{json}{stderr}, qr/Read-only file system/, 'and is read-only');
    like($r->{json}{stdout}, qr/^x$/m, 'a writable one can be written to');
    end($b);

    $b = broker({ task => { box => { isolation => 'microvm' } } });
    $r = task($b, 'true');
    is($r->{status}, 125, 'a wall that cannot be built is no box');
    is($r->{json}{error}{stage}, 'policy', 'and says so');
    end($b);
}

# Refusals and nonsense before the start: no box

my @bad = (
    [{ open => { refuse => 'policy_unknown' } }, qr/policy_unknown/],
    [{ open => { refuse => 'not_allowed' } }, qr/not_allowed/],
    [{ open => { raw => "hello\n" } }, qr/not the broker's protocol/],
    [{ open => { raw => "[1]\n" } }, qr/not the broker's protocol/],
    [{ open => { raw => '{"ok":true,"ok":false}' . "\n" } }, qr/protocol/],
    [{ open => { raw => "{\"ok\":true,\"n\":1\0}\n" } }, qr/protocol/],
    [{ open => { raw => 'x' x 70000 } }, qr/not the broker's protocol/],
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
    my $b = broker($scenario);
    my $r = task($b, 'echo ran');
    my $name = $json->canonical->encode($scenario);
    $name = substr($name, 0, 60);
    is($r->{status}, 125, "A-129 $name: the start is refused");
    is($r->{json}{reason}, 'setup', 'as a failure of the set-up');
    is($r->{json}{error}{stage}, 'broker', 'of the stage "broker"');
    like($r->{json}{error}{message}, $message, 'with the cause');
    is($r->{json}{stdout}, '', 'nothing ran');
    end($b);
}

for my $path ('/nonexistent/control.sock', '/' . 'long' x 40) {
    my $r = jail(['run', '--control', $path, '--', 'echo', 'ran']);
    is($r->{status}, 125, "no broker there: no box");
    is($r->{json}{error}{stage}, 'broker', 'the stage is named');
    ok(length $r->{json}{error}{fix}, 'and the fix');
    is($r->{json}{stdout}, '', 'nothing ran');
    if (length $path > 107) {
        is($r->{json}{error}{errno}, 'ENAMETOOLONG',
           'A-082: a long path is not cut');
        like($r->{json}{error}{message}, qr/107/, 'A-082: the limit is named');
    }
}

{
    my $r = jail(['run', '--', 'true'],
                 env => { AGENT_BROKER_CONTROL => '/nonexistent/env.sock' });
    like($r->{json}{error}{message}, qr{/nonexistent/env\.sock},
         'the socket is AGENT_BROKER_CONTROL\'s when none is given');
}

# The connection goes while the task runs: the same doors, a new connection

my $twice = "$curl; echo; for i in \$(seq 100); do sleep 0.05; "
            . "[ \"\$($curl)\" = resume ] && break; done; $curl";

for my $case (['a worker died', [['sleep', 0.1], ['close']]],
              ['a reload', [['sleep', 0.1], ['drain']]],
              ['a restart', [['sleep', 0.1], ['stop', 1]]]) {
    my ($name, $after) = @$case;
    my $b = broker({ after => $after });
    my $r = task($b, $twice);
    is($r->{json}{reason}, 'ok', "$name: the task goes on")
        or diag $json->encode($r->{json}{error} // {});
    like($r->{json}{stdout}, qr/\Aserve\n.*resume\z/,
         'its door is served before and after');
    my ($resume) = heard($b, 'resume');
    is($resume->{message}{lease}, 'lease of serve', 'by the lease it had');
    is($resume->{message}{task_id}, '0123456789abcdef' x 2, 'of that task');
    my ($serve) = heard($b, 'serve');
    is_deeply($resume->{fds}, $serve->{fds}, 'with the same sockets');
    is(scalar heard($b, 'close'), 1, 'and is closed once');
    is($r->{json}{egress}{allowed}, 3, 'the summary comes from the new one');
    end($b);
}

for my $error (qw(policy_gone lease_invalid)) {
    my $b = broker({ after => [['sleep', 0.1], ['close']],
                     resume => { refuse => $error } });
    my $r = task($b, 'sleep 15');
    is($r->{json}{reason}, 'broker', "a resumption refused ($error) ends it");
    is($r->{status}, 0, 'the result is delivered');
    is($r->{json}{exit_code}, undef, 'without an exit code');
    cmp_ok($r->{ms}, '<', 3000, 'at once');
    like($r->{json}{error}{message}, qr/$error/, 'the cause is named');
    end($b);
}

{
    my $b = broker({ after => [['sleep', 0.1], ['raw', "nonsense\n"]] });
    my $r = task($b, 'sleep 15');
    is($r->{json}{reason}, 'broker', 'nonsense while it runs ends it');
    cmp_ok($r->{ms}, '<', 3000, 'at once');
    end($b);

    $b = broker({ after => [['sleep', 0.1], ['close']], resume => 'close' });
    $r = task($b, 'sleep 18');
    is($r->{json}{reason}, 'broker', 'a broker that stays away ends it');
    cmp_ok($r->{ms}, '>', 9500, 'not before ten seconds');
    cmp_ok($r->{ms}, '<', 13000, 'and not long after');
    like($r->{json}{error}{fix}, qr/^start the broker again/, 'and says so');
    end($b);
}

# what is no socket

for my $path (dir(), '/etc/passwd') {
    my $r = jail(['run', '--control', $path, '--', 'true']);
    is($r->{status}, 125, "$path as the broker's socket");
    is($r->{json}{error}{errno}, 'ENOTSOCK', 'is none');
    like($r->{json}{error}{fix}, qr/--control/, 'and the fix names the option');
}

# near_limit

{
    my $b = broker({});
    my $r = task($b, "exec python3 -c 'import time; x = bytearray(60 << 20); "
                     . "time.sleep(0.5)'", args => ['--memory', '64m']);
    my ($near) = heard($b, 'near_limit');
    is($near->{message}{limit}, 'memory', 'a run near its limit is reported');
    is($r->{json}{near_limits}[0]{limit}, 'memory', 'and is in the result');
    end($b);
}

# jail policy

{
    my $b = broker({});
    my $r = jail(['policy', '--control', $b->{socket}, 'analysis']);
    is($r->{status}, 0, 'jail policy');
    is_deeply($r->{json}, { name => 'analysis' }, 'prints the policy');
    end($b);

    $b = broker({ policy => { refuse => 'policy_unknown' } });
    $r = jail(['policy', '--control', $b->{socket}, 'analysis']);
    is($r->{status}, 125, 'an unknown one fails');
    like($r->{err}, qr/policy_unknown/, 'and says so');
    end($b);
}

is(join(' ', leftovers()), '', 'no process of a box is left');
is(join(' ', slots()), '', 'no cgroup of a box is left');

done_testing;
