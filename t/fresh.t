#!/usr/bin/perl

# G-097: both commands of the README hold wherever a newcomer clones, and
# install what they need by themselves.  `make test-fresh` does all of it on a
# bare system; here are the parts that can be seen on any: a tree that only
# root can enter, and a machine on which no package is installed.

use v5.36;

use lib 't/lib';
use AgentTest;
use Test::More;

my $t = AgentTest->new;
my $user = $t->user;


subtest 'G-097 an ordinary user is tested out of a tree that is closed' => sub {
    plan skip_all => 'only root has such a tree' if !AgentTest::is_root();

    my $tree = $t->copy_tree('closed/project');
    chmod 0700, "$t->{dir}/closed";
    symlink $t->{objs}, "$tree/objs" or die "symlink: $!";

    my $refused = $t->run(['cat', "$tree/README.md"], user => $user);
    like($refused->{err}, qr/Permission denied/,
         'control: that user cannot read the tree');

    my $run = $t->run(['perl', '-It/lib', '-e', <<'END'], cwd => $tree);
use v5.36;
use AgentTest;
my $t = AgentTest->new;
my $user = $t->user;
my $up = $t->upstream(plain => 1);
my $b = $t->broker(user => $user, http => <<"CONF");
    agent_audit logs/agent-audit.log;
    agent_policy p { }
    server {
        agent_control unix:%CONTROL%;
        include $AgentTest::ROOT/conf/agent_proxy.conf;
    }
CONF
my $l = $t->launcher(user => $user);
my $task = $l->open_task($b->control, 'p');
say "task ", $task->{ok} // JSON::PP::encode_json($task);
say "status ", $l->get('http://evil.example/')->{status} // 'none';
END
    is($run->{out}, "task 1\nstatus 403\n",
       'nginx and the launcher of that user run') or diag($run->{err});
};


# dpkg-query of a machine on which no package is, and apt-get to be seen

my $bin = "$t->{dir}/bin";

$t->write('bin/dpkg-query', "#!/bin/sh\nexit 1\n", 0755);
$t->write('bin/apt-get', "#!/bin/sh\necho \"apt-get \$*\" >> $t->{dir}/apt\n",
          0755);
for my $name (qw(sh id dirname nproc sed grep readlink cat rm mkdir
                 setpriv)) {
    my ($path) = grep { -x } "/usr/bin/$name", "/bin/$name";
    symlink $path, "$bin/$name" or die "$name: $!";
}

sub bare ($command, %opt) {
    unlink "$t->{dir}/apt";
    return $t->run(['sh', '-c', $command], cwd => $t->{tree},
                   env => { PATH => $bin }, %opt);
}

$t->{tree} = $t->copy_tree('open');
$t->give($t->{tree}) if defined $user;

# what is in Debian for all that a test skips itself without
my %WANTED = (
    'scripts/quickstart' => [qw(gcc make nginx nginx-dev python3 openssl)],
    'scripts/test' => [qw(gcc make nginx nginx-dev libcmocka-dev perl git
        nodejs npm chromium default-jdk-headless golang-go strace man-db
        fontconfig python3-matplotlib crun qemu-system-x86 cpio)],
);

for my $script (sort keys %WANTED) {
    subtest "G-097 $script names all that is missing to an ordinary user"
        => sub
    {
        my $run = bare($script, user => $user);
        is($run->{status}, 1, 'it ends before it builds');
        ok(!-e "$t->{tree}/objs", 'nothing is built');
        my @lines = $run->{err} =~ /^ +sudo apt-get install (.*)$/mg;
        is(scalar @lines, 1, 'one command installs everything')
            or diag($run->{err});
        my %named = map { $_ => 1 } split ' ', $lines[0] // '';
        is_deeply([grep { !$named{$_} } @{ $WANTED{$script} }], [],
                  'it names what they need');
    };
}

subtest 'G-097 root\'s packages are installed, all at once' => sub {
    plan skip_all => 'only root installs' if !AgentTest::is_root();

    my $script = '. scripts/packages.sh; packages_need "a-package $(packages_of'
               . ' "sh:the-shell no-such-program:another")"';
    my $run = bare($script);
    is($run->{status}, 0, 'it has worked') or diag($run->{err});
    is($t->read('apt'), "apt-get update -qq\napt-get install -y -qq "
       . "--no-install-recommends a-package another\n",
       'by one update and one install, without what is there');
};

done_testing;
