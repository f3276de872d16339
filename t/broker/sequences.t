#!/usr/bin/perl

# Sequences of events that nobody has thought of: connections of boxes live and
# die at random while the broker is reloaded and its workers are killed, and
# what must hold after all of it holds.
#
#   make fuzz-sequences SECONDS=600 SEED=7
#
# SEED says what was sent; the order in which the broker sees it is
# the machine's.  Without SECONDS there are a few rounds of a fixed seed.
#
# sanitizers: this is what they are for

use v5.36;

use lib 't/lib';
use AgentTest;
use List::Util qw(max);
use Test::More;
use Time::HiRes qw(time);

my $seconds = $ENV{SEQUENCES_SECONDS} || 0;
my $seed    = $ENV{SEQUENCES_SEED} || ($seconds ? int time : 1);
my $rounds  = 4;
my $lives   = 12;
my $boxes   = 2;
my $at_once = 16;                       # `connections` of the policy

note "SEED=$seed";
srand $seed;

my $t  = AgentTest->new;
my $up = $t->spawn(['/usr/bin/python3', "$AgentTest::LIB/failing_upstream.py"],
                   pipes => 1);
chomp(my $port = readline($up->{out}) // die "no upstream\n");
my $tls = $t->upstream(names => ['tls.test', 'tunnel.test']);

my $dns = $t->dns({ map({ ("$_.test" => { A => ['127.0.0.1'], ttl => 2 }) }
                        qw(plain tls tunnel *.wild)),
                    'mute.test' => { drop => JSON::PP::true } });
my $rule = $t->rule;
my @policy = (dns => $dns, workers => 2, vault => "api = sk_0123456789abcdef\n",
              http => "client_header_timeout 2s; client_body_timeout 2s;\n",
              policy => <<"END");
    agent_policy analysis {
        wall_clock 1h;
        launchers  user:$>;
        requests 100000000;  refusals 100000000;  audit_budget 100000000 4g;
        names 1000000;  bytes_up 10g;  bytes_down 10g;  mints 1000000;
        connections $at_once;  handshakes 1000;
        host plain.test:$port  { methods GET POST; websocket on; plaintext on;
                                 private 127.0.0.0/8; }
        host *.wild.test:$port { plaintext on; private 127.0.0.0/8; }
        host mute.test:$port   { plaintext on; private 127.0.0.0/8; }
        host gone.test:$port   { plaintext on; private 127.0.0.0/8; }
        host tls.test:$tls->{port} { methods GET POST; bearer api; $rule }
        host tunnel.test:$tls->{port} { tunnel on; private 127.0.0.0/8; }
    }
END
my $b = $t->broker(@policy);

sub sockets ($pid) {
    return scalar grep { (readlink $_ // '') =~ /socket/ } glob "/proc/$pid/fd/*";
}

my $fresh = max(map { sockets($_) } $b->workers);

# the program is outside of every box: its text goes in as an argument
my $program = $t->read("$AgentTest::LIB/sequences.py");

my @boxes = map {
    $t->spawn([$t->jail_path, 'run', '--control', $b->control, '--policy',
               'analysis', '--stdin', '--raw', '--', 'python3', '-c', $program,
               $port, $tls->{port}], pipes => 1,
              env => { $t->sanitizer_env(0) })
} 1 .. $boxes;

sub order ($box, $line) {
    syswrite $box->{in}, "$line\n";
}

sub hear ($box) {
    my $select = IO::Select->new($box->{out});
    die "a box does not answer\n" unless $select->can_read($AgentTest::WAIT);
    my $line = readline $box->{out};
    if (!defined $line) {
        my $err = do { local $/; readline $box->{err} };
        return "the box has ended: $err";
    }
    chomp $line;
    return $line;
}

my (%killed, %did);

sub worker_is_killed { $killed{ $b->kill_worker } = 1 }

my @events = (
    ['reload', sub { $b->reload }],
    ['reload', sub { $b->signal('HUP') }],
    ['kill',   \&worker_is_killed],
    ['reopen', sub { $b->signal('USR1') }],
    ['none',   sub { }],
);

# a start that meets a killed worker fails, which is not what is tried here
order($_, "probe $at_once") for @boxes;
is_deeply([map { hear($_) } @boxes], [('done') x @boxes],
          'control: the boxes run, and may have so many connections');

my $start = time;
my $round = 0;
my @bad;

while ($seconds ? time < $start + $seconds : $round < $rounds) {
    $round++;
    order($boxes[$_], "lives $seed.$round.$_ $lives") for 0 .. $#boxes;
    for (1 .. 1 + rand 3) {
        my ($name, $code) = @{ $events[rand @events] };
        $did{$name}++;
        $code->();
    }
    push @bad, map { "round $round: $_" } grep { $_ ne 'done' }
               map { hear($_) } @boxes;
    last if @bad;

    # whatever was held of the task's connections is free again
    order($_, "probe $at_once") for @boxes;
    push @bad, map { "round $round: $_" } grep { $_ ne 'done' }
               map { hear($_) } @boxes;
    last if @bad;
}

is_deeply(\@bad, [], "after each of $round rounds all connections of a task are "
          . "free again (SEED=$seed)");
note join ', ', map { "$_ $did{$_}" } sort keys %did;

for my $box (@boxes) {
    close $box->{in};
    waitpid $box->{pid}, 0;
    is($?, 0, 'a box goes on to its own end');
    $t->forget($box->{pid});
}

# all have ended, in whichever worker they were

AgentTest::wait_for('the old workers to leave', sub {
    $b->workers == 2 && !$b->leaving });

my %left;
eval {
    AgentTest::wait_for('the workers to have no socket of the tasks', sub {
        %left = map { $_ => sockets($_) } $b->workers;
        return !grep { $_ > $fresh } values %left;
    }, 20);
};
is_deeply([grep { $_ > $fresh } values %left], [],
          "a worker without tasks has no socket more than a new one, $fresh")
    or diag $t->run(['ss', '-xtuanp'])->{out}
            =~ s/^(?!.*pid=(?:@{[join '|', keys %left]}),).*\n//gmr;

my (%allowed, %end, %twice);
for my $line ($b->audit) {
    my ($pid) = $line->{writer} =~ /\.(\d+)$/;
    if ($line->{event} eq 'egress' && $line->{verdict} eq 'allowed') {
        $allowed{ $line->{request} } = $line unless $killed{$pid};
        $twice{ $line->{request} }++;
    }
    $end{ $line->{request} }++ if $line->{event} eq 'egress_end';
}
cmp_ok(keys %allowed, '>', $round, 'control: requests were allowed');
is_deeply([map { "$_->{host} $_->{path}" }
           @allowed{ grep { !$end{$_} } sort keys %allowed }], [],
          'each request that was allowed has its end on record');
is_deeply([grep { ($end{$_} // 0) > 1 || ($twice{$_} // 0) > 1 } keys %end], [],
          'none has two');

my @tasks = map { $_->{task} } $b->audit('task_end');
is(scalar @tasks, $boxes, 'each task has its end');

$b->stop;
my @errors = $b->audit_errors;
cmp_ok(scalar(grep { /^not JSON/ } @errors), '<=', keys %killed,
       'each worker that was killed tore one line at most');
is_deeply([grep { !/^not JSON/ } @errors], [],
          'every other line of the audit is whole and follows in number');
# a worker that is forked while the master is told to reopen its logs tries to
# do so before they are its own, and does so again
unlike($b->error_log =~ s/^.*(?:exited on signal 9\b|error\.log" failed \(13:).*$//gmr,
       qr/\[(?:alert|emerg)\]/,
       'nothing is reported at alert or emerg but what was done');

done_testing;
