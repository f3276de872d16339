#!/usr/bin/perl

# Two hundred starts at once, with room for all of them and without: each has
# its result, or one error that names the limit that was reached; none is
# half-made.
#
# alone: two hundred boxes take all the room that there is for root's

use v5.36;

use FindBin;
use lib 't/lib', $FindBin::Bin;
use AgentTest;
use Jail;
use JSON::PP ();
use POSIX ();
use Test::More;

my $many = 200;
my $root = root_dir();

sub text ($path) { return read_file($path) // '' }

sub has_ended ($p) { return text("/proc/$p->{pid}/stat") =~ /\) Z/ }

# Starts them: how many there were of each outcome.  With `hold` each task
# that runs keeps its place until one of the others was refused.
sub crowd ($n, $args, %opt) {
    my $hold = delete $opt{hold};
    pipe(my $r, my $w) or die $!;
    my @crowd = map { spawn(['run', '--stdin', @$args, '--', 'sh', '-c',
                             'echo ran; read line || true'], %opt,
                            before => sub { open STDIN, '<&', $r }) } 1 .. $n;
    wait_for('a refusal', sub { grep { has_ended($_) } @crowd }) if $hold;
    close $w;

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

sub is_clean {
    none_left('no process is left');
    no_cgroup_left('no cgroup is left');
}

my $mounts = text('/proc/self/mountinfo') =~ tr/\n//;

for my $user (ways()) {
    my $way = way($user);
    subtest "E-036 $way: two hundred starts at once all run" => sub {
        is_deeply(crowd($many, ['--offline'], user => $user),
                  { ran => $many }, 'each has the same result');
        is_clean();
    };
}

subtest 'E-036 a broker with room for a few: the others say so' => sub {
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

    my $outcome = crowd($many, \@args, hold => 1);
    my $ran = delete $outcome->{ran} // 0;
    cmp_ok($ran, '>=', 8, 'some run');
    cmp_ok($ran, '<', $many, 'control: there was no room for all');
    my $limit = qr/worker_connections|"(?:agent_opens|agent_tasks|tasks
                                          |agent_control_connections)"/x;
    my @named = (qr/^refused: the broker refused \(busy\): .*$limit/,
                 qr/^refused: the broker closed the connection .*worker_conn/);
    my $no_limit = sub ($said) { !grep { $said =~ $_ } @named };
    is(join("\n", grep { $no_limit->($_) } keys %$outcome),
       '', 'each of the others has an error that names the limit');
    AgentTest::wait_for('their ends', sub {
        $b->audit('task_end') == grep { !$_->{resumed} }
                                 $b->audit('task_start') });
    ok(wait_for('the descriptors', sub { $fds->() <= $had }),
       'the broker has no descriptor of them');
    is_clean();
    is_deeply(crowd(1, \@args), { ran => 1 }, 'the next start works');
    is_deeply([$b->audit_errors], [], 'every line of the audit is valid');
    $b->stop;
};

subtest 'E-036 a host with few namespaces: the others say so' => sub {
    plan skip_all => 'only root makes such a host' if $> != 0;

    # all of them within one user namespace that may have twenty more; those
    # that run keep their places until one of the others was refused
    my $out = dir() . '/few';
    mkdir $out;
    my $jail = "$root/" . ($ENV{AGENT_TEST_OBJS} // 'objs') . '/jail';
    pipe(my $r, my $w) or die $!;
    my $pid = fork // die $!;
    if ($pid == 0) {
        close $w;
        open STDIN, '<&', $r;
        { exec deny(), '--userns-max', 20, '--', 'sh', '-c',
            "exec 3<&0; for i in \$(seq $many); do $jail run --offline --stdin "
            . "-- sh -c 'echo ran; read line || true' <&3 >$out/\$i 2>&1 & "
            . 'done; wait' }
        POSIX::_exit(1);
    }
    close $r;
    wait_for('a refusal', sub { grep { -s } glob "$out/*" });
    close $w;
    waitpid $pid, 0;

    my %outcome;
    for my $i (1 .. $many) {
        my $j = eval { JSON::PP::decode_json(text("$out/$i")) };
        $outcome{ !$j ? 'no result: ' . text("$out/$i")
            : $j->{stdout} eq "ran\n" ? 'ran'
            : "$j->{error}{stage}: $j->{error}{message} / "
              . ($j->{error}{fix} // 'no fix') }++;
    }
    my $ran = delete $outcome{ran} // 0;
    cmp_ok($ran, '<', $many, 'control: there was no room for all');
    is(join("\n", grep { !m{^\w+: .* / (?!no fix)} } keys %outcome), '',
       'each of the others has one error with its fix');
    cmp_ok(scalar keys %outcome, '<=', 3, 'the errors are of three kinds at most')
        or diag explain \%outcome;
    is_clean();
};

subtest 'A-030 the host has the mounts that it had' => sub {
    is(text('/proc/self/mountinfo') =~ tr/\n//, $mounts, 'as many as before');
};

done_testing;
