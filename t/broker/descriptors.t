#!/usr/bin/perl

# Which descriptors the broker's processes have: master, worker and helper,
# over reloads, a new binary and their ends.  Each has one owner, who closes it
# once: a number that is closed twice is another owner's by then.

use v5.36;

use lib 't/lib';
use AgentTest;
use IO::Socket::INET;
use POSIX ();
no warnings 'portable';             # addresses have 64 bits
use Test::More;

my $t  = AgentTest->new;
my $up = $t->upstream(plain => 1);
my $port = $up->port;

# what each descriptor of a process is open on, sorted
sub open_on ($pid) {
    my @on;
    for my $fd (glob "/proc/$pid/fd/*") {
        my $to = readlink $fd // next;
        push @on, $to;
    }
    return sort @on;
}

sub helper_of ($worker) {
    my ($helper) = split ' ', $t->read("/proc/$worker/task/$worker/children");
    return $helper;
}

sub kinds ($pid, @kinds) {
    my %n;
    for my $to (open_on($pid)) {
        my ($kind) = grep { $to =~ $_->[1] } @kinds;
        $n{ $kind ? $kind->[0] : $to }++;
    }
    return \%n;
}

my $syslog = IO::Socket::INET->new(Proto => 'udp', LocalAddr => '127.0.0.1')
    or die "syslog: $!";
my $to = $syslog->sockport;

sub free_port {
    my $s = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1');
    return $s->sockport;
}

my $other = free_port();

# an ordinary server, whose syslog socket is opened with its first request
my %opt = (
    http => "server { listen 127.0.0.1:$other; return 204;"
          . "access_log syslog:server=127.0.0.1:$to; }",
    policy => <<"END");
    agent_policy analysis {
        launchers user:$>;
        host 127.0.0.1:$port { plaintext on; private 127.0.0.0/8; }
    }
END

my $b = $t->broker(%opt);

sub ask_other {
    my $s = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$other") or return;
    print $s "GET / HTTP/1.0\r\n\r\n";
    local $/;
    return <$s> =~ / 204 /;
}

ok(ask_other(), 'control: an ordinary server is served beside the broker');

my ($worker) = $b->workers;
my $helper = helper_of($worker);
my $state = $b->prefix . '/agent-state';

subtest 'G-035: worker and helper have what they need, and no more' => sub {
    ok((grep { $_ eq $state } open_on($b->{pid})),
       'control: the master has agent_state open');
    ok(!(grep { $_ eq $state } open_on($worker)),
       'the worker does not');
    is_deeply(kinds($helper, [log => qr/error\.log$/], [epoll => qr/eventpoll/],
                    [socket => qr/^socket:/]),
              { log => 1, epoll => 1, socket => 2 },
              'the helper has stderr, epoll, the control socket and its '
              . 'worker');

    my ($l, $task) = $b->task;
    is($l->get("http://127.0.0.1:$port/echo")->{status}, 200,
       'control: a task is served');
    is(kinds($helper, [socket => qr/^socket:/])->{socket}, 3,
       'of a task the helper has the control connection, and no door');
    $l->stop;
    AgentTest::wait_for('its end', sub {
        kinds($helper, [socket => qr/^socket:/])->{socket} == 2 });
    pass('after its end the helper has what it had');
    open my $maps, '<', "/proc/$helper/maps" or die "maps: $!";
    my $shared = 0;
    for (<$maps>) {
        $shared += hex($2) - hex($1) if /^(\w+)-(\w+) rw-s .*zero/;
    }
    cmp_ok($shared, '<=', 2 * POSIX::sysconf(POSIX::_SC_PAGESIZE()),
           'of shared memory it has its own page and one of core, not the '
           . 'vault and no task (bytes)');
};

subtest 'G-035: reloads and ends close each descriptor once' => sub {
    my @before;
    for (1 .. 4) {
        $b->reload;
        ok(ask_other(), 'control: the new worker has opened its syslog socket');
        if ($_ == 1) {
            @before = open_on($b->{pid});
            next;
        }

        # those of a worker that has ended are closed a moment later
        my $reload = $_;
        AgentTest::wait_for("the descriptors after reload $reload", sub {
            my @now = open_on($b->{pid});
            return @now <= @before;
        });
        pass("the master has no more after reload $reload");
    }
    $b->quit;
    unlike($b->error_log, qr/failed \(9:/, 'no descriptor is closed twice');
    $b->is_clean;
};

subtest 'the helper ends with its worker, however that ends' => sub {
    my $again = $t->broker(%opt);
    for my $how (qw(QUIT KILL)) {
        my ($worker) = $again->workers;
        my $helper = helper_of($worker);
        my ($l) = $again->task;
        kill $how, $worker;
        is($l->do(receive => { name => 'task', timeout => 60 })->{eof} // 0, 1,
           "$how: the launcher hears of the end") if $how eq 'KILL';
        $l->stop;
        AgentTest::wait_for('the end of the helper', sub {
            $t->read("/proc/$helper/stat") !~ /\) [^Z]/ });
        pass("$how: the helper is gone");
        AgentTest::wait_for('the next worker', sub {
            my ($next) = $again->workers;
            return $next && $next != $worker && helper_of($next) });
    }
    $again->stop;
};

done_testing;
