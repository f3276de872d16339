package Jail;

# What the launcher's tests share: running it, as root and as an ordinary
# user, and looking at what it leaves behind.
#
#   my $r = jail(['run', '--offline', '--', 'id'], user => 1);
#   $r->{status}, $r->{out}, $r->{err}, $r->{json}, $r->{ms}
#   my $j = box('echo hi');             the result of `sh -c` in a box
#   for my $user (ways()) { … }         0: as the caller of the test; 1: as
#                                       an ordinary user of the test's own
#   my $b = fake_broker({ … });         fake_broker.py with this scenario
#   none_left(); no_cgroup_left();      assertions: no process is left, or no
#                                       cgroup, of boxes whose launcher ended
#
# Files of tests run at the same time, on one host: each has a directory and
# an ordinary user of its own, and what it says of root's boxes holds beside
# those of others.  No assertion compares a time; the seconds in here only
# end what hangs.
#
# Options: user, stdin (text), env ({NAME => VALUE}, beside PATH), before (a
# sub that runs in the child before exec), args (for box: more options),
# program (words that come before the launcher's own, as of `env`).

use v5.36;

use Cwd qw(abs_path);
use Exporter qw(import);
use Fcntl qw(LOCK_EX LOCK_NB);
use File::Basename qw(dirname);
use File::Copy ();
use File::Temp ();
use IO::Select;
use IPC::Open2 qw(open2);
use JSON::PP ();
use POSIX ();
use Test::More;
use Time::HiRes qw(time sleep);

our @EXPORT = qw(jail spawn finish box python ways way wait_for dir user_id
                 cc deny leftovers remaining none_left no_cgroup_left
                 root_dir slots alive children write_file read_file
                 fake_broker fake_broker_end heard WATCHDOG);

use constant WATCHDOG => 60;            # seconds: later, something hangs

my $root = abs_path(dirname(__FILE__) . '/../..');
my $objs = $ENV{AGENT_TEST_OBJS} // 'objs';
my $jail = "$root/$objs/jail";
my $dir = File::Temp->newdir('jail.XXXXXX', TMPDIR => 1);
my $json = JSON::PP->new->utf8;
my $owner = $$;
my $is_set_up;
my $user_lock;
my $user = free_user();

chmod 0755, "$dir";

# An id that nobody has, for the ordinary user of this test; the lock keeps
# it from tests that run at the same time.
sub free_user {
    for my $uid (map { 61000 + ($$ + $_) % 4000 } 0 .. 3999) {
        next if getpwuid $uid;
        open $user_lock, '>>', "/tmp/.jail-test-user.$uid" or next;
        return $uid if flock $user_lock, LOCK_EX | LOCK_NB;
    }
    die 'no user id is free';
}

sub dir      { return "$dir" }
sub root_dir { return $root }

# The launcher as an ordinary user can run it: in a directory of the test's.
sub reachable {
    state $copy = do {
        File::Copy::copy($jail, "$dir/jail") or die "$jail: $!";
        chmod 0755, "$dir/jail";
        "$dir/jail";
    };
    return $copy;
}

sub user_id {
    return $> if $> != 0;
    if (!$is_set_up) {
        system("$root/scripts/setup-host", $user) == 0 or die 'setup-host';
        $is_set_up = 1;
    }
    return $user;
}

END {
    if ($is_set_up && $$ == $owner) {
        my $status = $?;
        system("$root/scripts/setup-host", '--remove', $user);
        $? = $status;
    }
    unlink "/tmp/.jail-test-user.$user" if $$ == $owner;
}

sub ways { return $> == 0 ? (0, 1) : (0) }

sub way ($user) {
    return $> == 0 && !$user ? 'root' : 'ordinary user';
}

# Starts the launcher; { pid, out, err } with the reading ends.
sub spawn ($args, %opt) {
    my @command = (@{ $opt{program} // [] }, reachable(), @$args);

    pipe(my $out, my $out_w) or die $!;
    pipe(my $err, my $err_w) or die $!;
    my $in = File::Temp->new(DIR => "$dir");
    print $in $opt{stdin} // '';
    close $in;

    my $uid = $opt{user} && $> == 0 ? user_id() : undef;
    my $pid = fork // die $!;

    if ($pid == 0) {
        open STDIN, '<', "$in";
        open STDOUT, '>&', $out_w;
        open STDERR, '>&', $err_w;
        if (defined $uid) {
            # with cgroup v2 it must run in what was delegated
            my $place = "/sys/fs/cgroup/agent-jail/$uid/launcher";
            if (open my $f, '>', "$place/cgroup.procs") {
                syswrite $f, $$;
            }

            # numeric, so that no user of that name need exist
            $) = "$uid $uid";
            POSIX::setgid($uid);
            POSIX::setuid($uid);
        }
        $opt{before}->() if $opt{before};
        %ENV = (PATH => $ENV{PATH}, %{ $opt{env} // {} });
        { exec { $command[0] } @command }
        POSIX::_exit(111);
    }

    return { pid => $pid, out => $out, err => $err, start => time,
             in => $in };
}

# Reads everything and waits; what says nothing for so long is killed.
sub finish ($p) {
    my %text = (out => '', err => '');
    my $select = IO::Select->new($p->{out}, $p->{err});
    my $until = time + WATCHDOG;

    while ($select->count) {
        my @ready = $select->can_read(1);
        if (!@ready && time > $until) {
            kill KILL => $p->{pid};
            diag 'the launcher hung and was killed';
        }
        for my $f (@ready) {
            my $name = $f == $p->{out} ? 'out' : 'err';
            sysread($f, $text{$name}, 65536, length $text{$name})
                or $select->remove($f);
        }
    }

    waitpid $p->{pid}, 0;
    my $status = $?;
    my $ms = int 1000 * (time - $p->{start});

    return {
        %text, ms => $ms, pid => $p->{pid}, signal => $status & 127,
        status => $status & 127 ? -1 : $status >> 8,
        json => scalar eval { $json->decode($text{out}) },
    };
}

sub jail ($args, %opt) { return finish(spawn($args, %opt)) }

sub box ($script, %opt) {
    my $r = jail(['run', '--offline', @{ $opt{args} // [] }, '--', 'sh', '-c',
                  $script], %opt);
    diag "no result: $r->{out}$r->{err}" if !$r->{json};
    return $r->{json};
}

sub python ($script, %opt) {
    my $r = jail(['run', '--offline', @{ $opt{args} // [] }, '--',
                  '/usr/bin/python3', '-c', $script], %opt);
    diag "no result: $r->{out}$r->{err}" if !$r->{json};
    return $r->{json};
}

# Until the test is true, whose value is returned; false if it never is.
sub wait_for ($what, $test) {
    my $until = time + WATCHDOG;
    while (time < $until) {
        my $v = $test->();
        return $v if $v;
        sleep 0.005;
    }
    diag "waited in vain for $what";
    return;
}

sub write_file ($name, $text, $mode = 0644) {
    my $path = $name =~ m{^/} ? $name : "$dir/$name";
    open my $f, '>', $path or die "$path: $!";
    print $f $text;
    close $f;
    chmod $mode, $path;
    return $path;
}

# The whole text of a file; undef if it cannot be read.
sub read_file ($path) {
    open my $f, '<', $path or return;
    local $/;
    return scalar(<$f>) // '';
}

# A broker that does what the scenario says (see fake_broker.py): { socket,
# log, pid }.
sub fake_broker ($scenario = {}) {
    state $n = 0;
    my $b = { socket => "$dir/broker." . ++$n };
    $b->{log} = "$b->{socket}.log";
    write_file($b->{log}, '');
    $b->{pid} = open2($b->{out}, $b->{in}, '/usr/bin/python3',
                      "$root/t/jail/fake_broker.py", $b->{socket}, $b->{log},
                      $json->encode($scenario));
    readline($b->{out}) eq "ready\n" or die 'the fake broker did not start';
    return $b;
}

sub fake_broker_end ($b) {
    close $b->{in};
    waitpid $b->{pid}, 0;
}

# What the fake broker was asked, of one kind or of all: lines of its log.
sub heard ($b, $op = undef) {
    my @all = map { $json->decode($_) } split /\n/, read_file($b->{log});
    return grep { !defined $op || ($_->{op} // '') eq $op } @all;
}

# t/lib/deny.c, which makes a host that refuses things to what it starts.
sub deny {
    state $deny = do {
        system('cc', '-std=gnu17', '-D_GNU_SOURCE=', '-O1', '-o', "$dir/deny",
               "$root/t/lib/deny.c", '-lseccomp') == 0
            or BAIL_OUT('deny.c does not compile');
        "$dir/deny";
    };
    return $deny;
}

# A static program that a box can be given by --in.
sub cc ($name, $source, @flags) {
    open my $f, '>', "$dir/$name.c" or die $!;
    print $f $source;
    close $f;
    system('gcc', '-std=gnu17', '-O1', '-static', '-o', "$dir/$name",
           "$dir/$name.c", @flags) == 0 or return;
    return "$dir/$name";
}

# Other tests may run boxes at the same time, as root as well.  What is left
# over is what belongs to no living launcher: the lock of its slot is free.

sub is_free ($dir) {
    # v1: the slot's directory of the controller pids is the locked one
    open my $f, '<', $dir =~ s{cgroup/\w+/agent-jail}{cgroup/pids/agent-jail}r
        or return 1;
    return flock $f, LOCK_EX | LOCK_NB;
}

sub slot_of ($n) {
    return -d '/sys/fs/cgroup/pids' ? "/sys/fs/cgroup/pids/agent-jail/0/$n"
                                    : "/sys/fs/cgroup/agent-jail/0/box-$n";
}

# The cgroup directories of this test's users whose launchers are gone.
sub slots {
    my @dirs;
    for my $uid ($>, $user) {
        push @dirs, grep { is_free($_) }
                    glob("/sys/fs/cgroup/*/agent-jail/$uid/*[0-9]"),
                    glob("/sys/fs/cgroup/agent-jail/$uid/box-*");
    }
    return grep { -d } @dirs;
}

# Processes whose id is a box's and whose launcher is gone.
sub leftovers {
    my @left;
    for my $status (glob '/proc/[0-9]*/status') {
        open my $f, '<', $status or next;
        my %s = map { /^(\w+):\s*(.*)/ ? ($1, $2) : () } <$f>;
        my ($uid) = ($s{Uid} // '') =~ /^(\d+)/ or next;
        next if ($s{State} // '') =~ /^Z/;
        next if $uid != $user && ($uid < 2000000000 || $uid > 2000065535);
        next if $uid != $user
            && !is_free(slot_of($uid - 2000000000));
        push @left, "$s{Pid} $s{Name} $uid";
    }
    return @left;
}

# What remains of the list that `all` gives, when it has had the time to go.
# A launcher of root's may just have been killed by another test: its box
# needs a moment to end, and its cgroup goes with the next start, or with a
# sweep if none comes.
sub remaining ($what, $all) {
    my ($tries, @left) = (0);
    wait_for($what, sub {
        jail(['sweep']) if ++$tries % 1000 == 0;
        @left = $all->();
        return !@left;
    });
    return @left;
}

# Two assertions, of processes and of cgroups.  Nobody else has this test's
# user, so of its boxes nothing is left at this moment.

sub is_none ($name, $own, $all) {
    my @left = grep { $_ =~ $own } $all->();
    @left = remaining($name, $all) if !@left;
    return is(join("\n", @left), '', $name);
}

sub none_left ($name = 'no process of a box is left') {
    return is_none($name, qr/ $user$/, \&leftovers);
}

sub no_cgroup_left ($name = 'no cgroup of a box is left') {
    return is_none($name, qr{/agent-jail/$user/}, \&slots);
}

sub children ($pid) {
    open my $f, '<', "/proc/$pid/task/$pid/children" or return;
    return split ' ', <$f> // '';
}

# The processes of a box whose launcher lives: pid 1 of it comes first.
sub alive ($p) {
    my @all = children($p->{pid});
    for (my $i = 0; $i < @all; $i++) {
        push @all, children($all[$i]);
    }
    return @all;
}

1;
