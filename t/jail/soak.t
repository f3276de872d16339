#!/usr/bin/perl

# Many boxes, a tenth of which lose their launcher at a random moment, and
# nothing that grows: what a box leaves is counted on the whole machine, as
# the kernel counts it, before and after.
#
# alone: what other boxes use is in the same counts
#
#   SOAK=10000 prove -v t/jail/soak.t       `make soak`; 200 without SOAK
#
# Other work on the machine moves these counts as well, both ways.  So each
# is waited for to come down again, to within a twentieth of the number of
# boxes: what every box leaves is twenty times that, and what every killed
# one leaves is twice that.  What the kernel keeps ready on each processor is
# counted by /proc/slabinfo as if it were in use, and allowed for.

use v5.36;

use FindBin;
use lib $FindBin::Bin;
use Jail;
use POSIX qw(:sys_wait_h);
use Test::More;
use Time::HiRes qw(sleep time);

my $n = $ENV{SOAK} || 200;
my $killed_share = 0.1;
my $at_once = 4;
my $slack = int($n / 20);
my $slack_slab = 100;
my $uid = $>;

my @commands = (
    ['/bin/true'],
    ['sh', '-c', 'exit 3'],
    ['sh', '-c', 'head -c 1000000 /dev/zero > /tmp/work/f; ls -l'],
    ['sh', '-c', '(setsid sleep 99 &) ; sleep 99 & exit 0'],
    ['sh', '-c', 'mkfifo p; cat p & echo x > p; wait'],
    ['/nonexistent'],
);

sub text ($path) { return read_file($path) // '' }

sub slab ($name) { return (text('/proc/slabinfo') =~ /^\Q$name\E +(\d+)/m)[0] }

sub meminfo (@names) {
    my $text = text('/proc/meminfo');
    my $sum = 0;
    $sum += ($text =~ /^$_: +(\d+)/m)[0] // 0 for @names;
    return $sum;
}

my %count = (
    'processes'     => sub { scalar(() = glob '/proc/[0-9]*') },
    'open files'    => sub { (split ' ', text('/proc/sys/fs/file-nr'))[0] },
    'mounts'        => sub { text('/proc/self/mountinfo') =~ tr/\n// },
    'all mounts'    => sub { slab('mnt_cache') },
    'net namespaces'  => sub { slab('net_namespace') },
    'user namespaces' => sub { slab('user_namespace') },
    'pid namespaces'  => sub { slab('pid_namespace') },
    'cgroup directories' => sub {
        my @d = (glob("/sys/fs/cgroup/*/agent-jail/$uid/*[0-9]"),
                 glob("/sys/fs/cgroup/agent-jail/$uid/box-*"));
        scalar @d;
    },
    'own descriptors' => sub { scalar(() = glob "/proc/$$/fd/*") },
    'System V shared memory' => sub { text('/proc/sysvipc/shm') =~ tr/\n// },
);

# without /proc/slabinfo, which is root's, those are not to be known
delete @count{ grep { !defined $count{$_}->() } keys %count };

sub start ($i) {
    my $command = $commands[$i % @commands];
    my $pid = fork // die $!;
    if ($pid == 0) {
        open STDOUT, '>', '/dev/null';
        open STDERR, '>', '/dev/null';
        my @launcher = (root_dir() . '/' . ($ENV{AGENT_TEST_OBJS} // 'objs')
                        . '/jail', 'run', '--offline', '--', @$command);
        { exec { $launcher[0] } @launcher }
        POSIX::_exit(111);
    }
    return $pid;
}

my (%live, %kill_at, %bad, $killed);

# one wave before, so that caches and directories of the first box are there

sub run ($boxes, $share) {
    my $i = 0;
    $killed = 0;
    while ($i < $boxes || %live) {
        while ($i < $boxes && keys %live < $at_once) {
            my $pid = start($i++);
            $live{$pid} = $i;
            if (rand() < $share) {
                $kill_at{$pid} = time + rand(0.03);
                $killed++;
            }
        }
        for my $pid (keys %kill_at) {
            next if time < $kill_at{$pid};
            kill KILL => $pid;
            delete $kill_at{$pid};
        }
        my $pid = waitpid -1, %kill_at ? WNOHANG : 0;
        if ($pid > 0) {
            my $status = $?;
            delete $live{$pid};
            delete $kill_at{$pid};
            $bad{$status}++ if $status != 0 && $status != 9;
        } else {
            sleep 0.0005;
        }
    }
}

run(2 * @commands, 0);
my $start = time;
my %before = map { $_ => $count{$_}->() } keys %count;
my $memory = meminfo(qw(SUnreclaim PageTables KernelStack Percpu Shmem));
my $groups = (text('/proc/cgroups') =~ /^memory\s+\d+\s+(\d+)/m)[0] // 0;

run($n, $killed_share);

my $took = time - $start;

is_deeply(\%bad, {}, "A-113 each of $n boxes has a result or was killed")
    or diag explain \%bad;
cmp_ok($killed, '>', 0, "control: $killed were killed");
note sprintf '%d boxes in %.1f s, %.0f a second', $n, $took, $n / $took;

none_left('A-113 after the last one no process of a box is left');

# the directories of the killed are the next start's to take, 64 at a time

wait_for('the sweep', sub { run(1, 0); !slots() });
no_cgroup_left('A-113 no cgroup is left, when others have started');

for my $name (sort keys %count) {
    my $now;
    my $down = wait_for("$name to come down", sub {
        $now = $count{$name}->();
        $now <= $before{$name} + $slack
                + ($name =~ /namespaces|all mounts/ ? $slack_slab : 0);
    });
    ok($down, "$name: $before{$name} before, $now after");
}

# a net namespace has 60 KiB, a mount namespace with its mounts 20

my $now;
ok(wait_for('memory', sub {
       $now = meminfo(qw(SUnreclaim PageTables KernelStack Percpu Shmem));
       $now <= $memory + $n * 8 + 65536;
   }),
   sprintf 'memory of the kernel: %d MiB before, %d after',
           $memory / 1024, $now / 1024);

$now = (text('/proc/cgroups') =~ /^memory\s+\d+\s+(\d+)/m)[0] // 0;
note "memory cgroups of the kernel, removed ones included: $groups before, "
     . "$now after";

done_testing;
