#!/usr/bin/perl

# A host that lacks a layer: the launcher stops at the right stage, says how to
# get it, and runs nothing; the doctor says the same of the layer.  The hosts
# are made by t/lib/deny.c around the launcher, which does not know of it.

use v5.36;

use FindBin;
use lib $FindBin::Bin;
use Jail;
use Test::More;

my $deny = deny();

my $kernel = '/proc/sys/kernel';
my ($masked) = grep { -f } qw(/proc/keys /proc/timer_list /proc/cpuinfo);

# name => the host (options of deny; root: only root can make it), where the
# launcher stops, with which errno, what the fix names; the doctor's layers
# that must be missing
my @hosts = (
    {
        name  => 'user namespaces are switched off',
        deny  => ['--set', "$kernel/unprivileged_userns_clone=0",
                  '--refuse', 'clone3=ENOSYS',
                  '--refuse', 'clone:0&0x10000000=EPERM'],
        root  => 1, stage => 'namespaces', errno => 'EPERM',
        fix   => qr/sysctl -w kernel\.unprivileged_userns_clone=1/,
        layers => ['user_namespace'],
    }, {
        name  => 'no user namespace is left',
        deny  => ['--userns-max', 0],
        root  => 1, stage => 'namespaces', errno => 'ENOSPC',
        fix   => qr/sysctl -w user\.max_user_namespaces=/,
        layers => ['user_namespace'],
    }, {
        name  => 'AppArmor takes the capabilities',
        deny  => ['--set', "$kernel/apparmor_restrict_unprivileged_userns=1",
                  '--refuse', 'ioctl:1==0x8914=EPERM',
                  '--refuse', 'sethostname=EPERM'],
        root  => 1, stage => 'net_lo', errno => 'EPERM',
        fix   => qr{conf/apparmor/agent-jail.*/etc/apparmor\.d/agent-jail},
        layers => ['capabilities', 'loopback'],
    }, {
        name  => 'AppArmor refuses the map of ids',
        deny  => ['--set', "$kernel/apparmor_restrict_unprivileged_userns=1",
                  '--no-write', '/proc'],
        root  => 1, stage => 'idmap', errno => 'EACCES',
        fix   => qr{conf/apparmor/agent-jail.*/etc/apparmor\.d/agent-jail},
        layers => ['id_map'],
    }, {
        name  => 'a container hides user namespaces',
        deny  => ['--refuse', 'clone3=ENOSYS',
                  '--refuse', 'clone:0&0x10000000=EPERM',
                  '--refuse', 'unshare=EPERM', '--refuse', 'mount=EPERM'],
        stage => 'namespaces', errno => 'EPERM',
        fix   => qr/seccomp=unconfined.*seccompProfile.*clone, unshare/,
        layers => ['user_namespace'],
    }, {
        name  => 'a container refuses unshare',
        deny  => ['--refuse', 'unshare=EPERM'],
        stage => 'namespaces', errno => 'EPERM',
        fix   => qr/seccomp=unconfined/,
        layers => ['net_namespace', 'cgroup_namespace'],
    }, {
        name  => 'a container refuses mount_setattr',
        deny  => ['--refuse', 'mount_setattr=EPERM'],
        stage => 'propagation', errno => 'EPERM',
        fix   => qr/seccomp=unconfined.*mount_setattr/,
        layers => ['mount_private', 'read_only'],
    }, {
        name  => 'a container refuses open_tree',
        deny  => ['--refuse', 'open_tree=EPERM'],
        stage => 'mount', errno => 'EPERM',
        fix   => qr/seccomp=unconfined.*open_tree/, layers => ['read_only'],
    }, {
        name  => 'a container refuses mount',
        deny  => ['--refuse', 'mount=EPERM'],
        stage => 'mount', errno => 'EPERM',
        fix   => qr/seccomp=unconfined.*unshare, mount,/,
        layers => ['proc'],
    }, {
        name  => 'a container refuses move_mount',
        deny  => ['--refuse', 'move_mount=EPERM'],
        stage => 'root', errno => 'EPERM',
        fix   => qr/seccomp=unconfined.*move_mount/, layers => ['tmpfs'],
    }, {
        name  => 'a container refuses pivot_root',
        deny  => ['--refuse', 'pivot_root=EPERM'],
        stage => 'pivot', errno => 'EPERM',
        fix   => qr/seccomp=unconfined.*pivot_root/, layers => ['pivot_root'],
    }, {
        name  => 'a container does not know close_range',
        deny  => ['--refuse', 'close_range=EPERM'],
        stage => 'descriptors', errno => 'EPERM',
        fix   => qr/allow close_range/, layers => ['close_range'],
    }, {
        name  => 'the kernel has no new mount calls',
        deny  => ['--refuse', 'fsopen=ENOSYS'],
        stage => 'root', errno => 'ENOSYS',
        fix   => qr/fsopen/, layers => ['tmpfs', 'proc', 'pts'],
    }, {
        name  => 'a container masks a part of /proc',
        deny  => ['--mask', $masked],
        root  => 1, stage => 'mount', errno => 'EPERM',
        fix   => qr{unmask=/proc/\*.*systempaths=unconfined.*procMount: Unm},
        layers => ['proc'],
    }, {
        name  => 'a container has its cgroups read-only',
        deny  => ['--read-only', '/sys/fs/cgroup'],
        root  => 1, stage => 'cgroup', errno => 'EROFS',
        fix   => qr{--cgroupns=host -v /sys/fs/cgroup:/sys/fs/cgroup:rw},
        layers => ['cgroup'],
    }, {
        name  => 'no_new_privs cannot be set',
        deny  => ['--refuse', 'prctl:0==38=EINVAL'],
        stage => 'privileges', errno => 'EINVAL',
        fix   => qr/prctl/, layers => ['no_new_privs'],
    }, {
        name  => 'the kernel has no Landlock',
        deny  => ['--refuse', 'landlock_create_ruleset=ENOSYS'],
        stage => 'landlock', errno => 'ENOSYS',
        fix   => qr/5\.13.*CONFIG_SECURITY_LANDLOCK/,
        layers => ['landlock'],
    }, {
        name  => 'Landlock is not switched on',
        deny  => ['--refuse', 'landlock_create_ruleset=EOPNOTSUPP'],
        stage => 'landlock', errno => 'EOPNOTSUPP',
        fix   => qr/lsm=landlock/, layers => ['landlock'],
    }, {
        name  => 'a Landlock ruleset cannot be entered',
        deny  => ['--refuse', 'landlock_restrict_self=EPERM'],
        stage => 'landlock', errno => 'EPERM',
        fix   => qr/allow landlock_create_ruleset/, layers => ['landlock'],
    }, {
        name  => 'the kernel has no filters',
        deny  => ['--refuse', 'prctl:0==22=EINVAL'],
        stage => 'seccomp', errno => 'EINVAL',
        fix   => qr/CONFIG_SECCOMP_FILTER/, layers => ['seccomp'],
    },
);

# What a container's filter often refuses and a box does not need, or has
# another way for
my @enough = (
    ['clone3 is hidden', '--refuse', 'clone3=ENOSYS'],
    ['clone3 is refused', '--refuse', 'clone3=EPERM'],
    ['keyctl is refused', '--refuse', 'keyctl=EPERM', '--refuse',
     'add_key=EPERM', '--refuse', 'request_key=EPERM'],
    ['ptrace, bpf and perf are refused', '--refuse', 'ptrace=EPERM',
     '--refuse', 'bpf=EPERM', '--refuse', 'perf_event_open=EPERM'],
);

# The words before the launcher; the change to an ordinary user comes last,
# since most hosts are root's to make.
sub program ($user, @deny) {
    my @as = $user && $> == 0
        ? ('setpriv', '--reuid=' . user_id(), '--regid=' . user_id(),
           '--clear-groups', '--')
        : ();
    return ($deny, @deny, '--', @as);
}

sub doctor ($user, @deny) {
    my $r = jail(['doctor', '--json'], program => [program($user, @deny)]);
    diag "no answer: $r->{out}$r->{err}" if !$r->{json};
    return ($r, map { $_->{name} => $_ } @{ $r->{json}{layers} // [] });
}

for my $user (ways()) {
    my $way = way($user);
    my @run = ('run', '--offline', '--', 'echo', 'ran');

    subtest "$way: where nothing is denied a box runs" => sub {
        my $r = jail(\@run, program => [program($user)]);
        is($r->{json}{stdout}, "ran\n", 'the command ran');
    };

    for my $h (@hosts) {
        next if $h->{root} && $> != 0;
        my $id = $h->{stage} eq 'landlock' ? 'A-126 A-129' : 'A-129 F-052';

        subtest "$id $way: $h->{name}" => sub {
            my $r = jail(\@run, program => [program($user, @{ $h->{deny} })]);
            my $error = $r->{json}{error};

            is($r->{status}, 125, 'the status is 125');
            is($r->{json}{reason}, 'setup', 'the reason is setup');
            is($r->{json}{stdout}, '', 'the command did not run');
            is($r->{json}{exit_code}, undef, 'there is no exit code');
            is($error->{stage}, $h->{stage}, 'the stage of the error');
            is($error->{errno}, $h->{errno}, 'the errno of the error');
            like($error->{fix}, $h->{fix}, 'the fix of the error');

            my ($doctor, %layer) = doctor($user, @{ $h->{deny} });

            is($doctor->{status}, 1, 'the doctor\'s status is 1');
            ok(defined $doctor->{json}{ok} && !$doctor->{json}{ok},
               'the doctor says that it is not ok');
            for my $name (@{ $h->{layers} }) {
                is($layer{$name}{state}, 'missing',
                   "the doctor says that $name is missing");
            }
            like($layer{ $h->{layers}[0] }{fix}, $h->{fix},
                 'the doctor has the same fix for the layer');
            is($layer{box}{state}, 'missing',
               'the doctor says that there is no box');
            is($layer{box}{stage}, $h->{stage},
               'the doctor has the same stage for the box');
            like($layer{box}{fix}, $h->{fix},
                 'the doctor has the same fix for the box');
        };
    }

    # A kernel that has Landlock has these, so a box has no other way to
    # mount; a filter that does not know them is named
    for my $call (qw(open_tree move_mount fsopen fsconfig fsmount
                     mount_setattr))
    {
        subtest "A-129 $way: where the kernel has no $call there is no box" => sub {
            my $r = jail(\@run, program => [program($user, '--refuse',
                                                    "$call=ENOSYS")]);
            my $error = $r->{json}{error};
            is($r->{status}, 125, 'the status is 125');
            like($error->{stage}, qr/^(?:propagation|root|mount)$/,
                 'the stage is one of mounts');
            is($error->{errno}, 'ENOSYS', 'the errno is ENOSYS');
            like($error->{fix} // '', qr/\Q$call\E|5\.1[23]/,
                 'the fix names the call or the kernel');
            is($r->{json}{stdout}, '', 'the command did not run');
        };
    }

    for my $e (@enough) {
        my ($name, @deny) = @$e;
        subtest "$way: $name: a box runs all the same" => sub {
            my $r = jail(\@run, program => [program($user, @deny)]);
            is($r->{json}{stdout}, "ran\n", 'the command ran');
        };
    }

    # whatever the child had been sent and not read
    subtest "$way: a child that fails at once is reported with its stage"
        => sub
    {
        my %stages;
        for (1 .. 20) {
            my $r = jail(\@run, program => [
                program($user, '--refuse', 'close_range=ENOSYS')]);
            $stages{ $r->{json}{error}{stage} // 'none' }++;
        }
        is(join(' ', sort keys %stages), 'descriptors',
           'twenty of twenty');
    };

    subtest "$way: where a pidfd cannot kill the wall clock ends a box all "
            . "the same" => sub
    {
        my $k = jail(['run', '--offline', '--wall-clock', '300ms', '--',
                      'sleep',
                      '99'], program => [
                program($user, '--refuse', 'pidfd_send_signal=EPERM')]);
        is($k->{json}{reason}, 'timeout', 'the reason is timeout');
    };
}


subtest 'a user without a cgroup gets no box' => sub {
    plan skip_all => 'needs root' if $> != 0;
    my $r = jail(['run', '--offline', '--', 'echo', 'ran'], program => [
        'setpriv', '--reuid=65123', '--regid=65123', '--clear-groups', '--']);
    is($r->{status}, 125, 'the status is 125');
    is($r->{json}{error}{stage}, 'cgroup', 'the stage is cgroup');
    like($r->{json}{error}{fix}, qr{scripts/setup-host},
         'the fix names the script');
    is($r->{json}{stdout}, '', 'the command did not run');
};

subtest 'without a broker at the named socket there is no box' => sub {
    my $none = dir() . '/none.sock';
    my $r = jail(['run', '--control', $none, '--', 'echo', 'ran']);
    is($r->{status}, 125, 'the status is 125');
    is($r->{json}{error}{stage}, 'broker', 'the stage is broker');
    like($r->{json}{error}{fix}, qr/start the broker/,
         'the fix is to start it');
    is($r->{json}{stdout}, '', 'the command did not run');

    $r = jail(['doctor', '--json', '--control', $none]);
    my ($broker) = grep { $_->{name} eq 'broker' } @{ $r->{json}{layers} };
    is($broker->{state}, 'missing', 'the doctor says that it is missing');
    like($broker->{fix}, qr/start the broker/, 'the doctor has the same fix');
};

no_cgroup_left();
none_left();

done_testing;
