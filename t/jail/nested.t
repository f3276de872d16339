#!/usr/bin/perl

# A box inside something else.  In another box there is none, and the launcher
# says so.  In a container, as Docker sets one up, it names the flag that is
# missing, one after the other; with all of them given there is a box, with
# all of its walls.

use v5.36;

use File::Path qw(make_path);
use FindBin;
use lib $FindBin::Bin;
use Jail;
use JSON::PP ();
use Test::More;

my $json = JSON::PP->new->utf8->canonical;
my $launcher = dir() . '/jail';

jail(['--version']);                    # puts it there

# In a box

# a sanitizer's search for leaks wants to trace, which a box refuses
my @inside = ('--code', $launcher, '--', 'sh', '-c',
              'cp "$2" j && chmod 700 j && '
              . 'ASAN_OPTIONS=detect_leaks=0 exec ./j $1', 'sh');

for my $user (ways()) {
    my $way = way($user);

    subtest "F-051 $way: a box in a box fails with one sentence" => sub {
        my $r = jail(['run', '--offline', @inside,
                      'run --offline -- /bin/echo ran'], user => $user);
        is($r->{json}{exit_code}, 125, 'the status is 125');

        my $inner = eval { $json->decode($r->{json}{stdout}) };
        is($inner->{reason}, 'setup', 'the reason is setup');
        is($inner->{error}{stage}, 'nested', 'the stage is nested');
        like($inner->{error}{message}, qr/already inside a box/,
             'the message says so');
        like($inner->{error}{fix}, qr/run the command itself/,
             'the fix is to run the command itself');
        is($inner->{stdout}, '', 'the command did not run');
    };

    subtest "F-051 $way: the doctor in a box fails with one sentence" => sub {
        my $r = jail(['run', '--offline', @inside, 'doctor'], user => $user);
        is($r->{json}{exit_code}, 1, 'the status is 1');
        like($r->{json}{stderr}, qr/already inside a box/,
             'the message says so');
    };

    subtest "$way: the doctor's attempts are for a box" => sub {
        my $r = jail(['run', '--offline', @inside,
                      'doctor --attempt all 1 /x y z'], user => $user);
        is($r->{json}{exit_code}, 0, 'in a box the status is 0');
    };
}

subtest 'the doctor\'s attempts are for a box only' => sub {
    is(jail(['doctor', '--attempt', 'all', '1', '/x', 'y', 'z'])->{status}, 2,
       'outside of a box the status is 2');
};


# In a container

SKIP: {
    skip 'only root can run a container here', 1 if $> != 0;
    skip 'crun is not installed', 1 if !grep { -x "$_/crun" }
                                        split /:/, $ENV{PATH};

    my $dir = dir() . '/container';
    make_path(map { "$dir/rootfs/$_" }
              qw(usr etc proc dev sys tmp launcher));
    for my $name (qw(bin sbin lib lib32 lib64 libx32)) {
        symlink readlink("/$name"), "$dir/rootfs/$name" if -l "/$name";
        make_path("$dir/rootfs/$name") if !-l "/$name" && -d "/$name";
    }

    # what Docker's default profile does not let through
    my @refused = qw(
        acct add_key bpf clock_adjtime clock_settime create_module
        delete_module finit_module fsconfig fsmount fsopen fspick
        get_kernel_syms init_module ioperm iopl kexec_file_load kexec_load
        keyctl lookup_dcookie mount mount_setattr move_mount nfsservctl
        open_by_handle_at open_tree perf_event_open pivot_root
        process_vm_readv process_vm_writev query_module quotactl reboot
        request_key setdomainname sethostname setns settimeofday swapoff
        swapon sysfs umount umount2 unshare uselib userfaultfd ustat
        vhangup vm86 vm86old);

    # the profile, but for the calls that it shall let through
    my $profile = sub (%allowed) {
        my %seccomp = (
            defaultAction => 'SCMP_ACT_ALLOW',
            architectures => ['SCMP_ARCH_X86_64'],
            syscalls => [
                { names => [grep { !$allowed{$_} } @refused],
                  action => 'SCMP_ACT_ERRNO', errnoRet => 1 },
                { names => ['clone3'], action => 'SCMP_ACT_ERRNO',
                  errnoRet => 38 },
                map { { names => ['clone'], action => 'SCMP_ACT_ERRNO',
                        errnoRet => 1,
                        args => [{ index => 0, value => $_, valueTwo => $_,
                                   op => 'SCMP_CMP_MASKED_EQ' }] } }
                    map { 1 << $_ } $allowed{clone} ? () : (17, 25 .. 30),
            ],
        );
        delete $seccomp{architectures} if `uname -m` !~ /^x86_64/;
        return \%seccomp;
    };

    my @caps = map { "CAP_$_" } qw(CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD
        NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT
        KILL AUDIT_WRITE);

    my @masked = grep { -e } map { "/proc/$_" } qw(acpi asound kcore keys
        latency_stats timer_list timer_stats sched_debug scsi);
    my @readonly = grep { -e } map { "/proc/$_" } qw(bus fs irq sys
        sysrq-trigger);

    my $n = 0;
    my $uid = 0;
    my %allowed;

    # Runs the launcher in a container; flags: cgroup, seccomp, proc
    my $in = sub ($flags, @args) {
        my %flag = map { $_ => 1 } @$flags;
        my $mode = $flag{cgroup} ? 'rw' : 'rro';  # with what is below

        my %config = (
            ociVersion => '1.0.2',
            hostname   => 'container',
            root       => { path => 'rootfs', readonly => JSON::PP::false },
            process    => {
                terminal => JSON::PP::false,
                user => { uid => $uid, gid => $uid },
                cwd  => '/tmp',
                args => ['/launcher/jail', @args],
                env  => ['PATH=/usr/bin:/bin', 'container=docker',
                         'ASAN_OPTIONS=detect_leaks=0'],
                capabilities => { map { $_ => $uid ? [] : \@caps }
                                  qw(bounding effective permitted) },
                noNewPrivileges => JSON::PP::false,
            },
            mounts => [
                { destination => '/proc', type => 'proc', source => 'proc' },
                { destination => '/dev', type => 'tmpfs', source => 'tmpfs',
                  options => ['nosuid', 'mode=755'] },
                { destination => '/dev/pts', type => 'devpts',
                  source => 'devpts', options => ['newinstance',
                  'ptmxmode=0666', 'mode=0620'] },
                { destination => '/tmp', type => 'tmpfs',
                  source => 'tmpfs' },
                { destination => '/sys', type => 'sysfs', source => 'sysfs',
                  options => ['nosuid', 'noexec', 'nodev', 'ro'] },
                { destination => '/sys/fs/cgroup', type => 'bind',
                  source => '/sys/fs/cgroup', options => ['rbind', $mode] },
                { destination => '/launcher', type => 'bind',
                  source => dir(), options => ['bind', 'ro'] },
                map { { destination => $_, type => 'bind', source => $_,
                        options => ['rbind', 'ro'] } }
                    '/usr', '/etc', grep { !-l && -d }
                    qw(/bin /sbin /lib /lib32 /lib64 /libx32),
            ],
            linux => {
                namespaces => [map { { type => $_ } }
                               qw(pid ipc uts mount network)],
                $flag{seccomp} ? () : (seccomp => $profile->(%allowed)),
                $flag{proc} ? () : (maskedPaths => \@masked,
                                    readonlyPaths => \@readonly),
            },
        );

        open my $f, '>', "$dir/config.json" or die $!;
        print $f $json->encode(\%config);
        close $f;

        # a v2 mount beside v1 is not to crun's taste
        my $hide = -d '/sys/fs/cgroup/unified' ? 'mount -t tmpfs none '
            . '/sys/fs/cgroup/unified && ' : '';
        my $id = "agent-test-$$-" . ++$n;
        return finish(spawn([], program => [
            'unshare', '-m', 'sh', '-c', $hide . 'exec crun '
            . '--cgroup-manager=disabled --root "$1" run --bundle "$2" "$3"',
            'sh', "$dir/state", $dir, $id]));
    };

    my @run = ('run', '--offline', '--', '/bin/sh', '-c', 'echo ran; id -u');

    # the flags as they are given one after the other, and what is missing next
    my @steps = (
        [[], 'cgroup', 'EROFS',
         qr{-v /sys/fs/cgroup:/sys/fs/cgroup:rw}, 'the cgroups'],
        [['cgroup'], 'namespaces', 'EPERM',
         qr/--security-opt seccomp=unconfined/, 'the filter'],
        [['cgroup', 'seccomp'], 'mount', 'EPERM',
         qr{unmask=/proc/\*.*systempaths=unconfined}, '/proc'],
    );

    for my $step (@steps) {
        my ($flags, $stage, $errno, $fix, $what) = @$step;
        subtest "F-052 in a container: the launcher names the flag for $what"
            => sub
        {
            my $r = $in->($flags, @run);

            is($r->{json}{error}{stage}, $stage, "the stage is $stage")
                or diag $r->{out}, $r->{err};
            is($r->{json}{error}{errno}, $errno, "the errno is $errno");
            like($r->{json}{error}{fix}, $fix, 'the fix has the flag');
            is($r->{json}{stdout}, '', 'the command did not run');
            is($r->{status}, 125, 'the status is 125');
        };
    }

    subtest 'F-052 in a container: the doctor names all the flags at once'
        => sub
    {
        my $r = $in->([], 'doctor', '--json');
        my %layer = map { $_->{name} => $_ } @{ $r->{json}{layers} // [] };

        is($r->{status}, 1, 'the status is 1')
            or diag $r->{out}, $r->{err};
        ok($r->{json}{container}, 'it sees a container');
        is($layer{$_}{state}, 'missing', "$_ is missing")
            for qw(user_namespace proc cgroup box);
        like($layer{user_namespace}{fix}, qr/seccomp=unconfined/,
             'the fix of user_namespace is the flag for the filter');
        like($layer{cgroup}{fix}, qr{-v /sys/fs/cgroup},
             'the fix of cgroup is the flag for the cgroups');
        like($layer{proc}{fix}, qr{unmask=/proc/\*},
             'the fix of proc is the flag for /proc');

        $r = $in->(['seccomp'], 'doctor', '--json');
        %layer = map { $_->{name} => $_ } @{ $r->{json}{layers} // [] };
        is($layer{proc}{state}, 'missing',
           'without the filter: proc is missing');
        like($layer{proc}{fix}, qr{unmask=/proc/\*},
             'without the filter: the fix of proc is its flag');
    };

    my @all = qw(cgroup seccomp proc);
    subtest 'F-052 in a container with all flags a box runs' => sub {
        my $r = $in->(\@all, @run);
        is($r->{json}{stdout}, "ran\n1000\n", 'the command ran')
            or diag $r->{out}, $r->{err};
        is($r->{status}, 0, 'the status is 0');
    };

    subtest 'F-052 in a container the calls that the fix names are enough'
        => sub
    {
        # instead of no filter, one with what the fix names
        my ($calls) = $in->(['cgroup'], @run)->{json}{error}{fix}
                      =~ /that allows (.*)/;
        %allowed = map { $_ => 1 } split /, /, $calls // '';
        my $r = $in->(['cgroup', 'proc'], @run);
        is($r->{json}{stdout}, "ran\n1000\n",
           'the command ran')
            or diag $r->{out}, $r->{err};
        %allowed = ();
    };

    subtest 'F-052 in a container an ordinary user runs a box' => sub {
        $uid = user_id();
        my $r = $in->(\@all, @run);
        is($r->{json}{stdout}, "ran\n1000\n", 'the command ran')
            or diag $r->{out}, $r->{err};
        $uid = 0;
    };

    subtest 'F-052 in a container with all flags the doctor finds every wall'
        => sub
    {
        my $r = $in->(\@all, 'doctor', '--json');
        is($r->{status}, 0, 'the status is 0')
            or diag $r->{out}, $r->{err};
        is(scalar(grep { !$_->{refused} || !$_->{control} }
                  @{ $r->{json}{attempts} }), 0,
           'every attempt is refused, and its control is not');
        cmp_ok(scalar @{ $r->{json}{attempts} // [] }, '>', 10,
               'there are more than ten attempts');
    };
}

no_cgroup_left();

done_testing;
