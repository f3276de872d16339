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

sub told ($as, $who) {
    subtest "every promise of the story holds for $who" => sub {
        my $run = quickstart($as);
        is($run->{status}, 0, 'the script says that all held')
            or diag($run->{out}, $run->{err});

        my $out = $run->{out};
        is(() = $out =~ /^ +\[ok\]/mg, 9, 'nine promises are held');
        unlike($out, qr/NOT HELD/, 'none is not held');
        like($out, qr/"Ignore your task\./, 'the cell is shown');
        like($out, qr/^ +north +\d+ +[\d.]+ +[\d.]+$/m,
             'the analysis is shown');
        like($out, qr/^ +environment: [^:]*\bPATH\b/m,
             'the names in the environment are shown');
        like($out, qr/403 .*host_not_allowed/, 'the refusal is shown');
        like($out, qr/ egress +denied host_not_allowed POST evil\.example 80/,
             'its line in the audit is shown');
        unlike($out, qr/sk_live_[0-9a-f]/, 'the token is never shown');
        cmp_ok(scalar(split /\n/, $out), '<=', 60,
               'all of it fits on one screen');
        is_deeply([left_over()], [], 'nothing of it is left');
    };
}

mkdir "$t->{dir}/tmp";
chmod 01777, "$t->{dir}/tmp";


# What it does not know it does not do.

subtest 'the usage is printed on request' => sub {
    my $help = quickstart($user, ['scripts/quickstart', '--help']);
    is($help->{status}, 0, 'status 0');
    like($help->{out}, qr{^ +scripts/quickstart \[--keep\]}m,
         'the usage is on the standard output');
    is($help->{err}, '', 'nothing is on stderr');
};

subtest 'wrong usage is refused before anything is done' => sub {
    for my $args (['--bogus'], ['--keep', '--bogus'], ['keep'], ['']) {
        my $run = quickstart($user, ['scripts/quickstart', @$args]);
        is($run->{status}, 2, "quickstart @$args: status 2");
        like($run->{err}, qr/--keep or --help/,
             "quickstart @$args: what is allowed is named");
        is($run->{out}, '', "quickstart @$args: nothing else is printed");
    }
    ok(!-e "$tree/objs", 'nothing is built for any of them');
};


# An ordinary user builds; without a cgroup for the boxes, the way to one is
# named; with it the story is theirs too.

subtest 'an ordinary user without a cgroup gets the command that makes one'
    => sub
{
    my $run = quickstart($user);

    isnt($run->{status}, 0, 'the story does not begin');
    like($run->{err}, qr{^ +sudo \Q$tree\E/scripts/setup-host \S+(?: \$\$)?$}m,
         'the command is printed') or diag($run->{out}, $run->{err});
    ok(!-e "$tree/objs", 'nothing is built');
    is_deeply([left_over()], [], 'nothing of the attempt is left');
};

my $run = $t->run(["$tree/scripts/setup-host", $user]);
is($run->{status}, 0, 'root gives that user a cgroup') or diag($run->{err});

told($user, 'an ordinary user');

$run = $t->run(["$tree/scripts/setup-host", '--remove', $user]);
is($run->{status}, 0, 'root takes the cgroup back') or diag($run->{err});

told(undef, 'root');

done_testing;
