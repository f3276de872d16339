#!/usr/bin/perl

# The quickstart, as a newcomer runs it: in a clean copy of the sources, as
# root and as an ordinary user.  The story checks itself; here it is checked
# that it does, that it is told in full, and that nothing of it is left.

use v5.36;

use lib 't/lib';
use AgentTest;
use Test::More;

plan skip_all => 'the quickstart installs packages as root only'
    unless AgentTest::is_root();

my $t = AgentTest->new;
my $tree = $t->copy_tree;
my $user = $t->user;

$t->give($tree, $user);

sub quickstart ($as, $command = ['scripts/quickstart']) {
    return $t->run($command, cwd => $tree, user => $as, timeout => 600,
                   env => { TMPDIR => "$t->{dir}/tmp", HOME => $t->dir,
                            AGENT_QUICKSTART => $t->dir });
}

sub left_over {
    my @left;
    for my $environ (glob '/proc/[0-9]*/environ') {
        push @left, $environ =~ s{/environ}{}r
            if $t->read($environ) =~ /\0?AGENT_QUICKSTART=\Q$t->{dir}\E\0/;
    }
    return (@left, glob "$t->{dir}/tmp/agent-broker-quickstart*");
}

sub told ($run, $who) {
    is($run->{status}, 0, "every promise of the story holds for $who")
        or diag($run->{out}, $run->{err});

    my $out = $run->{out};
    is(() = $out =~ /^ +\[ok\]/mg, 9, 'nine of them');
    unlike($out, qr/NOT HELD/, 'and none does not');
    like($out, qr/"Ignore your task\./, 'the cell is shown');
    like($out, qr/^ +north +\d+ +[\d.]+ +[\d.]+$/m, 'the analysis');
    like($out, qr/^ +environment: [^:]*\bPATH\b/m, 'the names in the environment');
    like($out, qr/403 .*host_not_allowed/, 'the refusal');
    like($out, qr/ egress +denied host_not_allowed POST evil\.example 80/,
         'its line in the audit');
    unlike($out, qr/sk_live_[0-9a-f]/, 'and never the token');
    cmp_ok(scalar(split /\n/, $out), '<=', 60, 'on one screen');
    is_deeply([left_over()], [], 'nothing of it is left');
}

mkdir "$t->{dir}/tmp";
chmod 01777, "$t->{dir}/tmp";


# What it does not know it does not do.

{
    my $help = quickstart($user, ['scripts/quickstart', '--help']);
    is($help->{status}, 0, '--help: status 0');
    like($help->{out}, qr{^ +scripts/quickstart \[--keep\]}m, 'and the usage');
    is($help->{err}, '', 'on the standard output');

    for my $args (['--bogus'], ['--keep', '--bogus'], ['keep'], ['']) {
        my $run = quickstart($user, ['scripts/quickstart', @$args]);
        is($run->{status}, 2, "wrong usage: quickstart @$args");
        like($run->{err}, qr/--keep or --help/, 'which is said');
        is($run->{out}, '', 'and nothing else is done');
    }
    ok(!-e "$tree/objs", 'nothing is built for any of them');
}


# An ordinary user builds; without a cgroup for the boxes, the way to one is
# named; with it the story is theirs too.

my $run = quickstart($user);

isnt($run->{status}, 0, 'an ordinary user needs a cgroup first');
like($run->{err}, qr{^ +sudo \Q$tree\E/scripts/setup-host \S+(?: \$\$)?$}m,
     'and is told how to get one') or diag($run->{out}, $run->{err});
ok(!-e "$tree/objs", 'before anything is built');
is_deeply([left_over()], [], 'nothing of the attempt is left');

$run = $t->run(["$tree/scripts/setup-host", $user]);
is($run->{status}, 0, 'root gives them one') or diag($run->{err});

told(quickstart($user), 'an ordinary user');

$run = $t->run(["$tree/scripts/setup-host", '--remove', $user]);
is($run->{status}, 0, 'and takes it back') or diag($run->{err});

told(quickstart(undef), 'root');

done_testing;
