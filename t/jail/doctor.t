#!/usr/bin/perl

# What `jail doctor` says is true: on this host, where boxes run, all layers
# are there; its object is complete and stable; what is forbidden is refused
# and its neighbour is not; nothing is left behind.

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

    subtest "$way: the doctor's object, on a host where boxes run" => sub {
        is($r->{status}, 0, 'the status is 0')
            or diag $r->{out}, $r->{err};
        is($r->{out} =~ tr/\n//, 1, 'it is one line');
        unlike($r->{out}, qr/\Q$secret\E/, 'it has nothing of the environment');

        is(join(' ', sort keys %$j), 'attempts compare container kernel layers '
           . 'ok schema uid version', 'it has the keys that wrappers rely on');
        is($j->{schema}, 1, 'the schema is 1');
        ok($j->{ok}, '"ok" is true');
        is($j->{compare}, undef, 'nothing is compared without --compare');
    };

    subtest "$way: the doctor finds every layer" => sub {
        is(join(' ', map { $_->{name} } @{ $j->{layers} }), "@layers",
           'their names');
        for my $l (@{ $j->{layers} }) {
            is(join(' ', sort keys %$l),
               'detail errno fix name required stage state',
               "$l->{name}: its keys");
            my $may = $l->{name} eq 'broker' ? qr/^skipped$/
                    : $l->{required} ? qr/^ok$/ : qr/^(?:ok|warning|skipped)$/;
            like($l->{state}, $may, "$l->{name}: $l->{state}");
        }
    };

    subtest "A-129 $way: what the doctor attempts is refused, and its neighbour is "
            . "not" => sub
    {
        is(join(' ', sort map { $_->{name} } @{ $j->{attempts} }),
           join(' ', sort keys %errno), 'the names of the attempts');
        for my $a (@{ $j->{attempts} }) {
            my $want = $errno{ $a->{name} } // next;
            ok($a->{refused}, "$a->{name} is refused");
            like($a->{errno}, ref $want ? $want : qr/^$want$/,
                 "$a->{name}: the errno");
            ok($a->{control}, "$a->{name}: its neighbour works");
        }
    };

    subtest "$way: the doctor as text, for people" => sub {
        my $r = jail(['doctor'], user => $user);
        is($r->{status}, 0, 'the status is 0');
        like($r->{out},
             qr/^This host can run boxes, but only with --offline: /m,
             'the first line');
        like($r->{out},
             qr{^skipped  the broker +no socket at\s+/run/\S+\n +fix: start }m,
             'there is no broker, and what starts one');
        is(scalar(grep { length > 80 } split /\n/, $r->{out}),
           0, 'no line is longer than 80 columns');
        like($r->{out}, qr/^refused +tracing a process +EPERM$/m,
             'an attempt');
    };

    # the naive way beside a box: the plain child is the control of each

    subtest "$way: --compare shows a plain child beside a box" => sub {
        my $r = jail(['doctor', '--json', '--compare'], user => $user);
        my $c = $r->{json}{compare};
        for my $door (qw(environment files sockets subprocesses)) {
            ok($c->{plain}{$door}{open},
               "$door: control: open to a plain child");
            ok(defined $c->{box}{$door}{open} && !$c->{box}{$door}{open},
               "$door: shut to a box");
        }

        $r = jail(['doctor', '--compare'], user => $user);
        like($r->{out}, qr/^ +a plain child process +a box$/m,
             'as text: two columns');
        like($r->{out},
             qr/^files +reads the caller's files +the file is absent$/m,
             'as text: side by side');
    };

    # other tests may run the doctor at this moment

    subtest "$way: the doctor leaves nothing behind" => sub {
        ok(wait_for('the end of its processes', sub {
            !grep { /^(?:left|host)-[0-9a-f]{8}$/ } orphans();
        }), 'no process');
        ok(wait_for('the end of its files', sub {
            !grep { -e && -o } glob '/tmp/jail-doctor-*';
        }), 'no file');
    };
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
    'a server that is not a broker' => ['missing',
                                        qr/./, "HTTP/1.1 400 Bad Request\r\n"],
);

for my $what (sort keys %answers) {
    my ($state, $detail, $text) = @{ $answers{$what} };
    subtest "the doctor and $what" => sub {
        my ($path, $pid) = broker(sub ($asked) {
            return ($asked->{op} // '') eq 'policy' && $asked->{v} == 1
                ? $text : '{"ok":false,"error":"bad_request","message":"x"}'
                          . "\n" });
        my ($l, $r) = layer_of('broker', '--control', $path);

        my $text_of = jail(['doctor', '--control', $path])->{out};
        kill KILL => $pid;
        waitpid $pid, 0;

        like($text_of, $state eq 'ok' ? qr/^This host can run boxes\.$/m
                     : $state eq 'warning'
                     ? qr/^This host can run boxes; name one of the broker's /m
                     : qr/^This host cannot run boxes/m,
                     'as text: the verdict');
        is($l->{state}, $state, "the broker is $state");
        like($l->{detail}, $detail, 'the detail');
        is($r->{status}, $state eq 'missing' ? 1 : 0, 'the status');
        like($l->{fix}, qr/--policy, or add "agent_policy default \{ \}"/,
             'the fix names --policy and the directive') if $state eq 'warning';
    };
}

subtest 'the doctor and no broker where one is named' => sub {
    my ($l) = layer_of('broker', '--control', dir() . '/none.sock');
    is($l->{state}, 'missing', 'the broker is missing');
    is($l->{errno}, 'ENOENT', 'the errno is ENOENT');
};

# A kernel that accepts what it does not enforce

my $deny = deny();

for my $lie (['seccomp', 'prctl:0==22'],
             ['landlock', 'landlock_restrict_self'],
             ['read_only', 'mount_setattr'])
{
    my ($name, $call) = @$lie;
    subtest "A-129 a kernel that accepts $name and does not enforce it" => sub {
        my $r = jail(['doctor', '--json'],
                     program => [$deny, '--refuse', "$call=none", '--']);
        my %layer = map { $_->{name} => $_ } @{ $r->{json}{layers} };

        is($r->{status}, 1, 'the status is 1');
        is($layer{$name}{state}, 'missing', "$name is missing");
        return if $name ne 'seccomp';

        my %attempt = map { $_->{name} => $_ } @{ $r->{json}{attempts} };
        ok(!$attempt{$_}{refused}, "the attempt $_ succeeds")
            for qw(ptrace unshare keyctl);
        is($layer{box}{state}, 'missing', 'the box is missing');
        like($layer{box}{detail}, qr/was not refused/,
             'the detail is what was not refused');

        $r = jail(['doctor'],
                  program => [$deny, '--refuse', "$call=none", '--']);
        like($r->{out}, qr/^DONE +tracing a process *$/m,
             'as text: the attempt is DONE');
    };
}

subtest 'a host with a read-only /tmp is good enough' => sub {
    plan skip_all => 'only root can make such a host' if $> != 0;
    my $r = jail(['doctor', '--json'],
                 program => [$deny, '--read-only', '/tmp', '--']);
    is($r->{status}, 0, 'the status is 0') or diag $r->{out}, $r->{err};
};

subtest 'a program that the host starts for each crash is a warning' => sub {
    plan skip_all => 'only root can make such a host' if $> != 0;
    # the rest of the settings is covered with it, and so no proc is mounted
    my $r = jail(['doctor', '--json'], program => [$deny, '--set',
        '/proc/sys/kernel/core_pattern=|/usr/bin/handler %p', '--']);
    my ($core) = grep { $_->{name} eq 'core_pattern' }
                 @{ $r->{json}{layers} };
    is($core->{state}, 'warning', 'core_pattern is a warning');
    like($core->{detail}, qr{/usr/bin/handler}, 'the detail has the program');
    like($core->{fix}, qr/sysctl -w kernel\.core_pattern=core/,
         'the fix is a setting');
};

for my $args (['--jsn'], ['--control'], ['--control', ''], ['x'],
              ['--attempt'])
{
    subtest "wrong usage is refused: doctor @$args" => sub {
        my $r = jail(['doctor', @$args]);
        is($r->{status}, 2, 'the status is 2');
        is($r->{out}, '', 'nothing is on stdout');
    };
}

no_cgroup_left();
none_left();

done_testing;
