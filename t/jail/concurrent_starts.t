#!/usr/bin/perl

# Two hundred starts at once, with room for all of them and without: each has
# its result, or one error that says which limit was reached; none is left
# half-made.

use v5.36;

use FindBin;
use lib 't/lib', $FindBin::Bin;
use AgentTest;
use Jail;
use JSON::PP ();
use Test::More;

my $many = 200;
my $root = root_dir();

sub text ($path) {
    open my $f, '<', $path or return '';
    local $/;
    return scalar(<$f>) // '';
}

# Starts them, to live so many seconds each: how many there were of each
# outcome.
sub crowd ($n, $args, %opt) {
    my $life = delete $opt{life} // 0;
    my @crowd = map { spawn(['run', @$args, '--', 'sh', '-c',
                             "echo ran; sleep $life"], %opt) } 1 .. $n;
    my %outcome;
    for my $p (@crowd) {
        my $r = finish($p);
        my $j = $r->{json};
        my $what = !$j ? "no result: $r->{out}$r->{err}"
            : $r->{status} == 0 && $j->{reason} eq 'ok'
              && $j->{stdout} eq "ran\n" ? 'ran'
            : $r->{status} == 125 && $j->{error}{fix} && $j->{stdout} eq ''
              ? "refused: $j->{error}{message}; $j->{error}{fix}"
            : "odd: $r->{status} $r->{out}";
        $outcome{$what}++;
    }
    return \%outcome;
}

sub is_clean ($what) {
    ok(wait_for('the end', sub { !leftovers() }, 2), "$what: no process is left")
        or diag join "\n", leftovers();
    ok(wait_for('the directories', sub { !slots() }, 2), 'no cgroup directory');
}

my $mounts = text('/proc/self/mountinfo') =~ tr/\n//;

for my $user (ways()) {
    my $way = way($user);
    is_deeply(crowd($many, ['--offline'], user => $user), { ran => $many },
              "E-036 $many starts at once, as $way: each runs");
    is_clean($way);
}


# A broker with room for a few of them

{
    my $t = AgentTest->new;
    my $b = $t->broker(connections => 100, http => <<"END");
    agent_audit logs/agent-audit.log;
    agent_policy analysis { launchers user:$>; }
    server {
        agent_control unix:%CONTROL%;
        include $AgentTest::ROOT/conf/agent_proxy.conf;
    }
END
    my ($worker) = $b->workers;
    my $fds = sub { my @fds = glob "/proc/$worker/fd/*"; scalar @fds };
    my @args = ('--control', $b->control, '--policy', 'analysis');
    crowd(1, \@args);
    my $had = $fds->();

    my $outcome = crowd($many, \@args, life => 1);
    my $ran = delete $outcome->{ran} // 0;
    cmp_ok($ran, '>=', 8, 'E-036 with a broker of few connections some run');
    my @kinds = sort keys %$outcome;
    is(scalar(grep { !/^refused: the broker (?:refused \(busy\): .*"worker_connections"|closed the connection .*worker_connections)/ }
              @kinds), 0, 'the others have an error that says so')
        or diag explain $outcome;
    cmp_ok($ran, '<', $many, 'control: there was no room for all');
    AgentTest::wait_for('their ends', sub {
        $b->audit('task_end') == grep { !$_->{resumed} }
                                 $b->audit('task_start') });
    ok(wait_for('the descriptors', sub { $fds->() <= $had }, 5),
       'the broker has nothing left of them');
    is_clean('with a broker');
    is_deeply(crowd(1, \@args), { ran => 1 }, 'and the next start works');
    is_deeply([$b->audit_errors], [], 'the audit is whole');
    $b->stop;
}


# A host with room for a few of them

SKIP: {
    skip 'only root makes such a host', 3 if $> != 0;

    my $deny = dir() . '/deny';
    system('cc', '-std=gnu17', '-D_GNU_SOURCE=', '-O1', '-o', $deny,
           "$root/t/lib/deny.c", '-lseccomp') == 0 or die 'deny';

    # all of them within one user namespace that may have twenty more
    my $out = dir() . '/few';
    mkdir $out;
    my $jail = "$root/" . ($ENV{AGENT_TEST_OBJS} // 'objs') . '/jail';
    system($deny, '--userns-max', 20, '--', 'sh', '-c',
           "for i in \$(seq $many); do $jail run --offline -- "
           . "sh -c 'echo ran; sleep 0.3' >$out/\$i 2>&1 & done; wait");
    my %outcome;
    for my $i (1 .. $many) {
        my $j = eval { JSON::PP::decode_json(text("$out/$i")) };
        $outcome{ !$j ? 'no result: ' . text("$out/$i")
            : $j->{stdout} eq "ran\n" ? 'ran'
            : "$j->{error}{stage}: $j->{error}{message} / "
              . ($j->{error}{fix} // 'no fix') }++;
    }
    my $ran = delete $outcome{ran} // 0;
    cmp_ok($ran, '<', $many, "control: there was no room for all, $ran ran");
    is(scalar(grep { !m{^\w+: .* / (?!no fix)} } keys %outcome), 0,
       'E-036 a host of few namespaces: each other has one error with its fix')
        or diag explain \%outcome;
    cmp_ok(scalar keys %outcome, '<=', 3, 'of few kinds')
        or diag explain \%outcome;
    is_clean('on a small host');
}

is(text('/proc/self/mountinfo') =~ tr/\n//, $mounts, 'no mount is left');

done_testing;
