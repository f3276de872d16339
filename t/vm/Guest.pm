package Guest;

# What the tests inside the virtual machine share.  They run as root, without
# anything that watches them: a test that waits for ever ends with the
# machine.
#
#   my $j = jail({ user => 4242 }, qw(--memory 32m), '--', 'true');
#   $j->{reason}, $j->{error}{fix}; the status is in $j->{status}
#
# Options: user, in (a group that the launcher's process enters first, written
# by root), before (words before the launcher's own).

use v5.36;

use Cwd qw(abs_path);
use Exporter qw(import);
use File::Basename qw(dirname);
use IO::Handle;
use JSON::PP ();
use POSIX ();
use Test::More;

our @EXPORT = qw(jail start finish group write_to read_from wait_for boxes
                 as_user $ROOT $JAIL $SETUP $HIDE $USER $CGROUP);

our $ROOT   = abs_path(dirname(__FILE__) . '/../..');

# copies that every user can read: the tree may be in a directory of root's
our $JAIL   = '/run/agent/jail';
our $SETUP  = '/run/agent/setup-host';
our $HIDE   = '/run/agent/hide';

our $USER   = 4242;                   # in no file of the host
our $CGROUP = '/sys/fs/cgroup';

my $json = JSON::PP->new->utf8;

# diagnostics and results in one stream, each line at once
open STDERR, '>&', \*STDOUT;
$_->autoflush(1) for *STDOUT, *STDERR;
Test::More->builder->$_(\*STDOUT)
    for qw(output failure_output todo_output);

mkdir '/run/agent';
system('cp', "$ROOT/" . ($ENV{AGENT_TEST_OBJS} // 'objs') . '/jail', $JAIL)
    == 0 or die;
system('cp', "$ROOT/scripts/setup-host", "$ROOT/t/vm/hide", '/run/agent') == 0
    or die;
chmod 0755, '/run/agent', $JAIL, $SETUP, $HIDE;

sub as_user ($uid, @command) {
    return @command unless $uid;
    return ('setpriv', "--reuid=$uid", "--regid=$uid", '--clear-groups',
            '--', @command);
}

# A launcher that runs: its pid, and where its result comes from.
sub start ($how, @args) {
    my @command = as_user($how->{user}, @{ $how->{before} // [] }, $JAIL,
                          'run', '--offline', @args);
    pipe my $r, my $w or die "pipe: $!";
    my $pid = fork // die "fork: $!";

    if ($pid == 0) {
        write_to("$how->{in}/cgroup.procs", $$) if $how->{in};
        POSIX::dup2(fileno $w, 1);
        POSIX::dup2(fileno $w, 2);
        $SIG{PIPE} = 'DEFAULT';
        { no warnings; exec { $command[0] } @command; }
        POSIX::_exit(127);
    }

    return { pid => $pid, from => $r };
}

sub finish ($run) {
    my $text = do { local $/; readline $run->{from} };
    waitpid $run->{pid}, 0;
    my $status = $? & 127 ? 128 + ($? & 127) : $? >> 8;
    my ($line) = ($text // '') =~ /^(\{.*\})$/m;
    my $j = $line ? eval { $json->decode($line) } : undef;

    diag "no result: $text" unless $j;
    $j //= { reason => 'none' };
    $j->{status} = $status;
    return $j;
}

sub jail ($how, @args) { return finish(start($how, @args)) }

sub write_to ($file, $text) {
    open my $f, '>', $file or return 0;
    my $n = syswrite $f, $text;
    return defined $n;
}

sub read_from ($file) {
    open my $f, '<', $file or return '';
    local $/;
    return readline($f) // '';
}

# A group with these controllers for its children.
sub group ($path, $controllers = undef) {
    mkdir $path;
    write_to("$path/cgroup.subtree_control", $controllers) if $controllers;
    return $path;
}

# The boxes' directories below this group.
sub boxes ($path) { return glob "$path/box-*" }

sub wait_for ($what, $code) {
    for (1 .. 2000) {
        my $value = $code->();
        return $value if $value;
        select undef, undef, undef, 0.01;
    }
    die "gave up waiting for $what\n";
}

1;
