#!/usr/bin/perl

# What `jail doctor` says is what is so: on this host, which gives boxes, all
# layers are there; its object is complete and stable; the forbidden things
# are refused and their neighbours are not; nothing is left behind.

use v5.36;

use FindBin;
use lib $FindBin::Bin;
use IO::Socket::UNIX;
use Jail;
use JSON::PP ();
use POSIX ();
use Test::More;

my $json = JSON::PP->new->utf8;

# Keys and names that wrappers rely on; more may be added.
my @layers = qw(kernel user_namespace id_map capabilities mount_namespace
    pid_namespace net_namespace ipc_namespace uts_namespace cgroup_namespace
    time_namespace loopback routes routes_ipv6 low_ports mount_private tmpfs
    read_only proc pts pivot_root clone3 pidfd close_range openat2 memfd
    no_new_privs seccomp landlock cgroup cgroup_cpu cgroup_memory cgroup_pids
    broker core_pattern box);

my %errno = (
    environment => 'ENOENT', files => 'ENOENT', sockets => 'ECONNREFUSED',
    subprocesses => 'ESRCH', connect_out => qr/^(?:ENETUNREACH|ECONNREFUSED)$/,
    raw_socket => 'EPERM', write_root => 'EROFS', write_usr => 'EROFS',
    read_shadow => 'ENOENT', host_processes => 'ESRCH', ptrace => 'EPERM',
    mount => 'EPERM', unshare => 'EPERM', keyctl => 'EPERM',
    tiocsti => 'EPERM', mknod => 'EPERM', bpf => 'EPERM',
    io_uring => 'ENOSYS', setuid => 'EINVAL',
);

# The names of processes that have lost their parent: other tests may run the
# doctor at the same time.
sub orphans {
    my @names;
    for my $status (glob '/proc/[0-9]*/status') {
        open my $f, '<', $status or next;
        my %s = map { /^(\w+):\s*(.*)/ ? ($1, $2) : () } <$f>;
        push @names, $s{Name} if ($s{PPid} // 0) == 1;
    }
    return @names;
}

for my $user (ways()) {
    my $way = way($user);
    my $secret = 'a-secret-of-the-test';
    my $r = jail(['doctor', '--json'], user => $user,
                 env => { TEST_SECRET => $secret });
    my $j = $r->{json} // {};

    is($r->{status}, 0, "this host gives boxes: status 0 ($way)")
        or diag $r->{out}, $r->{err};
    is($r->{out} =~ tr/\n//, 1, "one line ($way)");
    unlike($r->{out}, qr/\Q$secret\E/, "nothing of the environment ($way)");

    is(join(' ', sort keys %$j), 'attempts compare container kernel layers '
       . 'ok schema uid version', "the object's keys ($way)");
    is($j->{schema}, 1, "schema 1 ($way)");
    ok($j->{ok}, "ok ($way)");
    is($j->{compare}, undef, "nothing is compared unasked ($way)");

    is(join(' ', map { $_->{name} } @{ $j->{layers} }), "@layers",
       "the layers ($way)");
    for my $l (@{ $j->{layers} }) {
        is(join(' ', sort keys %$l),
           'detail errno fix name required stage state',
           "$l->{name}: its keys ($way)");
        my $may = $l->{name} eq 'broker' ? qr/^skipped$/
                : $l->{required} ? qr/^ok$/ : qr/^(?:ok|warning|skipped)$/;
        like($l->{state}, $may, "$l->{name}: $l->{state} ($way)");
    }

    is(join(' ', sort map { $_->{name} } @{ $j->{attempts} }),
       join(' ', sort keys %errno), "what is tried ($way)");
    for my $a (@{ $j->{attempts} }) {
        my $want = $errno{ $a->{name} } // next;
        ok($a->{refused}, "$a->{name} is refused ($way)");
        like($a->{errno}, ref $want ? $want : qr/^$want$/,
             "$a->{name}: the errno ($way)");
        ok($a->{control}, "$a->{name}: its neighbour works ($way)");
    }

    # for people

    $r = jail(['doctor'], user => $user);
    is($r->{status}, 0, "as text: status 0 ($way)");
    like($r->{out}, qr/^This host can give a box, but only with --offline: /m,
         "as text ($way)");
    like($r->{out}, qr{^skipped  the broker +there is none at\s+/run/\S+\n +fix: start it }m,
         "without a broker, what starts one ($way)");
    is(scalar(grep { length > 80 } split /\n/, $r->{out}),
       0, "in 80 columns ($way)");
    like($r->{out}, qr/^refused +tracing a process +EPERM$/m,
         "what was tried ($way)");

    # the naive way beside a box: the plain child is the control of each

    $r = jail(['doctor', '--json', '--compare'], user => $user);
    my $c = $r->{json}{compare};
    for my $door (qw(environment files sockets subprocesses)) {
        ok($c->{plain}{$door}{open}, "$door: open to a plain child ($way)");
        ok(defined $c->{box}{$door}{open} && !$c->{box}{$door}{open},
           "$door: shut to a box ($way)");
    }

    $r = jail(['doctor', '--compare'], user => $user);
    like($r->{out}, qr/^ +a plain child process +a box$/m,
         "two columns ($way)");
    like($r->{out}, qr/^files +reads the caller's files +the file is absent$/m,
         "side by side ($way)");

    my @named = grep { /^(?:left|host)-[0-9a-f]{8}$/ } orphans();
    is("@named", '', "no process is left behind ($way)");
    is(join(' ', grep { -e && -o } glob '/tmp/jail-doctor-*'), '',
       "no file is left behind ($way)");
}

# The broker: one that answers, one that does not speak the protocol, none

sub broker ($answer) {
    state $n = 0;
    my $path = dir() . '/broker' . ++$n . '.sock';
    my $socket = IO::Socket::UNIX->new(Local => $path, Listen => 4) or die $!;
    my $pid = fork // die $!;
    if ($pid == 0) {
        while (my $c = $socket->accept) {
            my $line = <$c>;
            print $c $answer->(eval { $json->decode($line) });
        }
        POSIX::_exit(0);
    }
    return ($path, $pid);
}

sub layer_of ($name, @args) {
    my $r = jail(['doctor', '--json', @args]);
    my ($l) = grep { $_->{name} eq $name } @{ $r->{json}{layers} };
    return ($l, $r);
}

my @asked;
my %answers = (
    'a broker that has the policy' =>
        ['ok', qr/./, '{"ok":true,"policy":{}}' . "\n"],
    'a broker that has another' =>
        ['warning', qr/no policy "default"/,
         '{"ok":false,"error":"policy_unknown","message":"x"}'
                      . "\n"],
    'a broker of another version' =>
        ['missing', qr/version/, '{"ok":false,"error":"version","message":'
                                 . '"1 is not served"}' . "\n"],
    'what is no broker' => ['missing', qr/./, "HTTP/1.1 400 Bad Request\r\n"],
);

for my $what (sort keys %answers) {
    my ($state, $detail, $text) = @{ $answers{$what} };
    my ($path, $pid) = broker(sub ($asked) {
        return ($asked->{op} // '') eq 'policy' && $asked->{v} == 1
            ? $text : '{"ok":false,"error":"bad_request","message":"x"}'
                      . "\n" });
    my ($l, $r) = layer_of('broker', '--control', $path);

    my $text_of = jail(['doctor', '--control', $path])->{out};
    kill KILL => $pid;
    waitpid $pid, 0;

    like($text_of, $state eq 'ok' ? qr/^This host can give a box\.$/m
                 : $state eq 'warning'
                 ? qr/^This host can give a box to who names a policy/m
                 : qr/^This host cannot give a box/m, "$what: the last line");
    is($l->{state}, $state, "$what: $state");
    like($l->{detail}, $detail, "$what: it is said");
    is($r->{status}, $state eq 'missing' ? 1 : 0, "$what: the status");
    like($l->{fix}, qr/--policy, or add "agent_policy default \{ \}"/,
         "$what: the fix") if $state eq 'warning';
}

my ($l) = layer_of('broker', '--control', dir() . '/none.sock');
is($l->{state}, 'missing', 'no broker where one is named: missing');
is($l->{errno}, 'ENOENT', 'the errno');

# A kernel that takes what it does not enforce: only who tries finds out

my $deny = dir() . '/deny';
system('cc', '-std=gnu17', '-D_GNU_SOURCE=', '-O1', '-o', $deny,
       root_dir() . '/t/lib/deny.c', '-lseccomp') == 0 or die;

for my $lie (['seccomp', 'prctl:0==22'],
             ['landlock', 'landlock_restrict_self'],
             ['read_only', 'mount_setattr'])
{
    my ($name, $call) = @$lie;
    my $r = jail(['doctor', '--json'],
                 program => [$deny, '--refuse', "$call=none", '--']);
    my %layer = map { $_->{name} => $_ } @{ $r->{json}{layers} };

    is($r->{status}, 1, "a $name that does not hold: status 1");
    is($layer{$name}{state}, 'missing', 'it is missing');
    next if $name ne 'seccomp';

    my %attempt = map { $_->{name} => $_ } @{ $r->{json}{attempts} };
    ok(!$attempt{$_}{refused}, "without a filter $_ goes through")
        for qw(ptrace unshare keyctl);
    is($layer{box}{state}, 'missing', 'and such a box is none');
    like($layer{box}{detail}, qr/was not refused/, 'for what was not refused');

    $r = jail(['doctor'],
              program => [$deny, '--refuse', "$call=none", '--']);
    like($r->{out}, qr/^DONE +tracing a process *$/m, 'as text');
}

# A program that the host starts for each crash is warned of

SKIP: {
    skip 'only root can make such a host', 4 if $> != 0;

    my $ro = jail(['doctor', '--json'],
                  program => [$deny, '--read-only', '/tmp', '--']);
    is($ro->{status}, 0, 'a read-only /tmp: status 0')
        or diag $ro->{out}, $ro->{err};

    # the rest of the settings is covered with it, and so no proc is mounted
    my $r = jail(['doctor', '--json'], program => [$deny, '--set',
        '/proc/sys/kernel/core_pattern=|/usr/bin/handler %p', '--']);
    my ($core) = grep { $_->{name} eq 'core_pattern' }
                 @{ $r->{json}{layers} };
    is($core->{state}, 'warning', 'a crash starts a program: a warning');
    like($core->{detail}, qr{/usr/bin/handler}, 'which');
    like($core->{fix}, qr/sysctl -w kernel\.core_pattern=core/, 'the fix');
}

# Usage

for my $args (['--jsn'], ['--control'], ['--control', ''], ['x'],
              ['--attempt'])
{
    my $r = jail(['doctor', @$args]);
    is($r->{status}, 2, "wrong usage: doctor @$args");
    is($r->{out}, '', 'nothing on stdout');
}

is(join("\n", slots()), '', 'no cgroup is left behind');
is(join("\n", leftovers()), '', 'no process is left behind');

done_testing;
