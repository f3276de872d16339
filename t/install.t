#!/usr/bin/perl

# What README.md tells an operator to type works as it stands there: install,
# account, directories, vault, nginx -t, start, a task, reload.  It is typed in
# a mount namespace whose /etc, /usr/local, /var/lib, /run and modules are
# layers over this machine's, so that nothing of it stays.

use v5.36;

use lib 't/lib';
use AgentTest;
use Test::More;

plan skip_all => 'installing is root\'s' unless AgentTest::is_root();

my $t = AgentTest->new;
my $tree = $t->copy_tree;
my ($operators) = $t->read("$tree/README.md")
                  =~ /^## For operators\n(.*?)^## /ms;
my ($block) = $operators =~ /^```\n(.*?)^```\n/ms;

like($block, qr/useradd.*install -m 600.*nginx -p/s,
     'README has the commands');

# The story as one script, which stops at the first command that fails.

my $script = $t->write('type-it', <<"END");
set -eu

mount -t tmpfs layers $t->{dir}/layers

for dir in /etc /usr/local /var/lib /usr/lib/nginx/modules; do
    mkdir -p \$dir $t->{dir}/layers\$dir/upper $t->{dir}/layers\$dir/work
    mount -t overlay -o lowerdir=\$dir,upperdir=$t->{dir}/layers\$dir/upper \\
        -o workdir=$t->{dir}/layers\$dir/work layer \$dir
done

mount -t tmpfs -o mode=755 run /run

sudo() { "\$@"; }
sudoedit() { sed -i 's/= replace-this-.*/= sk_of_this_test_0123456789/' "\$1"; }

cd $tree
(auto/configure && make -j2 && sudo make install) > $t->{dir}/build.log 2>&1

end() {
    [ -z "\${broker:-}" ] || \$broker -s stop 2> /dev/null || true
    while [ -e /var/lib/agent-broker/run/nginx.pid ]; do sleep 0.05; done
}
trap end EXIT

$block

echo "-- the task"
PATH=/usr/local/bin:\$PATH
jail run --policy analysis -- /bin/echo it works
echo "-- the policy"
jail policy analysis
echo "-- who holds what"
stat -c '%n %a %U' /etc/agent-broker/vault \\
    /var/lib/agent-broker/logs/agent-audit.log
echo "-- the audit"
log=/var/lib/agent-broker/logs/agent-audit.log
for try in \$(seq 200); do
    [ \$(grep -c '"event":"config"' \$log) -lt 2 ] || break
    sleep 0.05
done
cat /var/lib/agent-broker/logs/agent-audit.log
END

mkdir "$t->{dir}/layers";

my $run = $t->run(['unshare', '-m', '--propagation', 'private', 'bash',
                   $script], timeout => 300);

if ($run->{err} =~ /mount: .*overlay/) {
    plan skip_all => 'this kernel mounts no overlay';
}

is($run->{status}, 0, 'every command of the README works')
    or diag($run->{out}, $run->{err}, $t->read('build.log'));

my %part = map { /\A([^\n]*)\n(.*)\z/s } split /^-- /m, $run->{out};

my $result = eval { JSON::PP::decode_json($part{'the task'}) } // {};
is($result->{reason}, 'ok', 'a task runs under the example policy')
    or diag($part{'the task'});
is($result->{stdout}, "it works\n", 'the task\'s output is in its result');
is($result->{enforced}{broker}, '1',
   'the result says that the broker was there');

my $policy = eval { JSON::PP::decode_json($part{'the policy'}) } // {};
is($policy->{name}, 'analysis', 'jail policy shows the example policy');

like($part{'who holds what'}, qr{/vault 600 root$}m, 'the vault is root\'s');
like($part{'who holds what'}, qr{/agent-audit.log 640 root$}m,
     'the audit is root\'s, and its group may read it');

my @events = map { JSON::PP::decode_json($_)->{event} }
             split /\n/, $part{'the audit'};
is((grep { $_ eq 'task_start' } @events), 2,
   'the audit has the start of both tasks, the README\'s own as well');
is((grep { $_ eq 'task_end' } @events), 2,
   'the audit has the end of both tasks');
cmp_ok(scalar(grep { $_ eq 'config' } @events), '>=', 2,
       'the audit has the start and the reload');

ok(!-e '/etc/agent-broker/vault' && !-e '/var/lib/agent-broker/run',
   'nothing of the installation stays on this machine');

done_testing;
