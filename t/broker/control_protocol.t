#!/usr/bin/perl

# The control protocol: what is understood where, which descriptors are taken,
# whose lease it is, what becomes of a task when its launcher goes at any step
# of it, and what a launcher cannot do to the others.
#
# sanitizers: messages and descriptors of a stranger are read

use v5.36;

use lib 't/lib';
use AgentTest;
use Digest::SHA qw(hmac_sha256_hex);
use Encode ();
use Test::More;

my $root = AgentTest::is_root();

my $t     = AgentTest->new;
my $up    = $t->upstream(plain => 1);
my $port  = $up->port;
my $vault = $t->write('vault', "api = sk_control_0123456789abcdef\n", 0600);
my $other = $root ? $t->user : undef;       # another uid
my $group = 300000 + $$ % 100000;

# root and the user of the workers may always; who else is said
my $mine = $root ? '' : "launchers user:$>;";
my $others = defined $other ? "launchers user:$other;" : $mine;

my %opt = (vault => $vault, policy => <<"END", http => <<'HTTP');
    agent_policy analysis {
        $mine
        env LANG TZ;
        host 127.0.0.1:$port { plaintext on; private 127.0.0.0/8; }
    }
    agent_policy hinted {
        $mine
        host 127.0.0.1:$port {
            plaintext on; private 127.0.0.0/8; hint "@{["\xd1\x84" x 128]}";
        }
    }
    agent_policy open { $others }
    agent_policy group { launchers group:$group; }
    agent_policy closed { launchers user:12345; }
END
    agent_state state;
    agent_opens 10000r/s;
    agent_control_connections 1000;
    resolver 127.0.0.1:1;
HTTP

my $b = $t->broker(%opt);
my ($worker) = $b->workers;
my $l = $t->launcher;
my $n = 0;

sub fds { my @fds = glob "/proc/$worker/fd/*"; return scalar @fds }

# A refusal is heard before its connection is closed: how many there are then.
sub fds_are ($wanted) {
    eval { AgentTest::wait_for('descriptors', sub { fds() == $wanted }) };
    return fds();
}

sub connection ($l = $l) {
    my $name = 'c' . ++$n;
    my $did = $l->do(connect => { name => $name, path => $b->control });
    die $did->{error} if $did->{error};
    return $name;
}

sub opened ($l = $l, $policy = 'analysis') {
    my $name = connection($l);
    my $reply = $l->ask($name, { v => 1, op => 'open', policy => $policy });
    die "open: $reply->{message}\n" unless $reply->{ok};
    return ($name, $reply);
}

# The sockets of the doors in a reply; `proxy` replaces that of the first.
sub doors ($reply, $proxy = undef) {
    my @kinds = map {
        { ($_->{name} =~ /-udp$/ ? 'udp' : 'listen') => $_->{port} }
    } @{ $reply->{doors} };
    $kinds[0] = $proxy if $proxy;
    return \@kinds;
}

# The error of a refusal, and whether the connection was closed after it.
sub refusal ($l, $name, $reply) {
    if ($reply->{ok}) {
        $l->do(close => { name => $name });
        return 'accepted';
    }
    return $reply->{eof} ? 'eof' : 'nothing' unless $reply->{error};
    my $end = $l->do(receive => { name => $name, timeout => 10 });
    return "$reply->{error} without end" unless $end->{eof};
    $l->do(close => { name => $name });
    return $reply->{error};
}

sub raw ($data, $name = connection()) {
    $l->do(raw => { name => $name, data => $data });
    my $got = $l->do(receive => { name => $name, timeout => 10 });
    return refusal($l, $name, $got->{message} // $got);
}

sub close_task ($l, $name, %more) {
    my $reply = $l->ask($name, { op => 'close', reason => 'ok', %more });
    $l->do(close => { name => $name });
    return $reply;
}

# A whole task of its own launcher.
sub task (%opt) { return $b->task(delete $opt{policy} // 'analysis', %opt) }

# after the first of everything the worker has what it keeps
{
    my ($l, $task) = task();
    $l->get("http://127.0.0.1:$port/echo");
    close_task($l, 'task');
    $l->stop;
    opened();
    $l = $t->launcher;
}
$l = $t->launcher;
AgentTest::wait_for('the end of the first tasks', sub {
    $b->audit('task_end') == 2
});

my $before = fds();


# Every operation in every state

my %op = (
    open       => { v => 1, op => 'open', policy => 'analysis' },
    serve      => { op => 'serve' },
    resume     => { v => 1, op => 'resume', task_id => '0' x 32, lease => 'x' },
    near_limit => { op => 'near_limit', limit => 'memory', used => 5 },
    close      => { op => 'close', reason => 'ok' },
    policy     => { v => 1, op => 'policy', policy => 'analysis' },
);

my %right = (
    new     => { map { $_ => 1 } qw(open resume policy) },
    opened  => { serve => 1, close => 1 },  # close: it could not be made
    serving => { map { $_ => 1 } qw(near_limit close) },
);

for my $state (qw(new opened serving)) {
    for my $what (sort keys %op, 'drain', 'hello') {
        next if $right{$state}{$what};
        my $l = $l;
        my $name = 'task';
        if ($state eq 'serving') {
            ($l) = task();
        } else {
            ($name) = $state eq 'new' ? connection() : opened();
        }
        my $got = $l->ask($name, $op{$what} // { op => $what });
        is(refusal($l, $name, $got), 'bad_request',
           "`$what` is refused as bad_request in the state $state");
        $l->stop if $state eq 'serving';
    }
}

# a name of launcher.py's own tells these from what is left of the loop
for my $case (
    ['an unknown key in open', { %{ $op{open} }, task_id => 'x' }],
    ['a key of another op',    { %{ $op{open} }, reason => 'ok' }],
    ['a long unknown key',     { %{ $op{open} }, 'x' x 100 => 1 }],
    ['an empty key',           { %{ $op{open} }, '' => 1 }],
    ['a key of two words',     { %{ $op{open} }, 'v op' => 1 }],
    ['no op',                  { v => 1, policy => 'analysis' }],
    ['an op that is a number', { v => 1, op => 1 }],
    ['an op that is a list',   { v => 1, op => ['open'] }],
    ['a policy that is a number', { %{ $op{open} }, policy => 1 }],
    ['no policy',              { v => 1, op => 'open' }],
    ['a long external_id',     { %{ $op{open} }, external_id => 'x' x 129 }],
    ['a long label',           { %{ $op{open} }, label => 'x' x 129 }],
    ['a label with a newline', { %{ $op{open} }, label => "a\nb" }],
    ['a label with an escape', { %{ $op{open} }, label => "a\e[1mb" }],
    ['a label with a DEL',     { %{ $op{open} }, label => "a\x7fb" }],
    ['a label with C1',        { %{ $op{open} }, label => "a\x{9b}b" }],
    ['an external_id with a tab', { %{ $op{open} }, external_id => "a\tb" }],
    ['an external_id that is a number', { %{ $op{open} }, external_id => 7 }],
    ['a code hash that is none', { %{ $op{open} }, code_sha256 => 'z' x 64 }],
    ['a short code hash',      { %{ $op{open} }, code_sha256 => 'a' x 63 }],
    ['a name in env that is not listed', { %{ $op{open} }, env => { PATH => '/' } }],
    ['an env that is a list',  { %{ $op{open} }, env => ['LANG'] }],
    ['an env value that is a number', { %{ $op{open} }, env => { LANG => 1 } }],
    ['resume without a lease', { v => 1, op => 'resume', task_id => '0' x 32 }],
    ['resume with a short id', { %{ $op{resume} }, task_id => '0' x 31 }],
) {
    my ($what, $message) = @$case;
    my $name = connection();
    is(refusal($l, $name, $l->ask($name, $message)), 'bad_request',
       "an operation with $what is refused as bad_request");
}

for my $v (undef, 0, 3, -1, '1', 1.5, [1], JSON::PP::true()) {
    my $name = connection();
    my %message = (%{ $op{open} }, v => $v);
    delete $message{v} if !defined $v;
    my $reply = $l->ask($name, \%message);
    my $shown = !defined $v ? 'none' : ref $v ? 'another type' : "'$v'";
    like($reply->{message}, qr/speaks versions 1 to 2/,
         "the version $shown is refused with the versions that are served");
    is(refusal($l, $name, $reply), 'version',
       "the version $shown is refused as version");
}

subtest 'an open with every key that may be there is understood' => sub {
    my $name = connection();
    my $reply = $l->ask($name, { %{ $op{open} },
        external_id => 'x' x 128, label => "\x{fc}ml\x{e4}ut \x{1f600}",
        code_sha256 => 'a1' x 32,
        env => { LANG => 'C', TZ => 'UTC' } });
    ok($reply->{ok}, 'the task is opened')
        or diag explain $reply;
    is_deeply([map { $_->{name} } $reply->{doors}[0]], ['proxy'],
              'the first door of the reply is the proxy');
    $l->do(close => { name => $name });
    my $start = $b->audit_wait('task_start', task => $reply->{task_id});
    is($start->{claimed}{external_id}, 'x' x 128,
       'what the launcher claims is recorded as claimed');
    $b->audit_wait('task_end', task => $reply->{task_id});
};

subtest 'a policy can be read without a task' => sub {
    my $name = connection();
    my $reply = $l->ask($name, $op{policy});
    ok($reply->{ok}, 'the policy is in the reply') or diag explain $reply;
    ok(!defined $reply->{task_id} && $reply->{policy},
       'the reply has no task');
    ok($l->do(receive => { name => $name })->{eof},
       'the connection is closed after the reply');
    for my $policy ('nothing', '', 'x' x 65, "analysis\x{fc}") {
        my $name = connection();
        is(refusal($l, $name, $l->ask($name, { %{ $op{open} },
           policy => $policy })), 'policy_unknown',
           'an open of the policy "' . ($policy =~ s/[^ -~]/?/gr)
           . '" is refused as policy_unknown');
    }
    my $other = connection();
    like($l->ask($other, { %{ $op{open} }, policy => "n\x{fc}" })->{message},
         qr/^policy "n\?\?+" is not in/,
         'bytes of an unknown name that are not ASCII are shown as ?');
};


# Lines

my $good = '{"v":1,"op":"open","policy":"analysis"}';

is(raw("$_->[1]\n"), 'bad_request',
   "a line with $_->[0] is refused as bad_request") for (
    ['an empty line', ''],
    ['garbage', "\xff\xfe\x00\x01"],
    ['text', 'open analysis'],
    ['a list', "[$good]"],
    ['a string', '"open"'],
    ['a number', '1'],
    ['null', 'null'],
    ['a key twice', '{"v":1,"op":"open","op":"open","policy":"analysis"}'],
    ['two objects on a line', "$good$good"],
    ['something after the object', "$good x"],
    ['a NUL after the object', "$good\0"],
    ['a NUL in a string', "{\"v\":1,\"op\":\"open\",\"policy\":\"anal\0ysis\"}"],
    ['an escaped NUL', '{"v":1,"op":"open","policy":"analysis\u0000"}'],
    ['an escaped NUL in a key', '{"v":1,"op":"open","policy":"analysis","a\u0000":1}'],
    ['broken UTF-8', "{\"v\":1,\"op\":\"open\",\"policy\":\"\xff\"}"],
    ['a lone surrogate', '{"v":1,"op":"open","policy":"\ud800"}'],
    ['half an object', '{"v":1,"op":"open"'],
    ['a deep one', ('[' x 30000) . (']' x 30000)],
    ['a huge number', '{"v":' . '9' x 400 . ',"op":"open","policy":"analysis"}'],
);

sub padded ($bytes) {
    return $good . ' ' x ($bytes - length($good) - 1) . "\n";
}

is(raw(padded(65536)), 'accepted', 'a line of 65536 bytes is understood');
is(raw(padded(65537)), 'bad_request',
   'a line of 65537 bytes is refused as bad_request');
is(raw('x' x 65536), 'bad_request',
   '65536 bytes without an end of line are refused as bad_request');
is(raw('x' x 500000), 'bad_request',
   '500000 bytes without an end of line are refused as bad_request');

subtest 'how the bytes of a line arrive changes nothing' => sub {
    my $name = connection();
    $l->do(raw => { name => $name, data => $_ }) for split //, "$good\n";
    my $got = $l->do(receive => { name => $name });
    ok($got->{message}{ok}, 'a line that comes byte by byte is understood');
    $l->do(close => { name => $name });

    $name = connection();
    $l->do(raw => { name => $name, data => "$good\n$good\n" });
    my $first = $l->do(receive => { name => $name });
    ok($first->{message}{ok},
       'of two lines in one write the first is understood');
    my $second = $l->do(receive => { name => $name });
    is(refusal($l, $name, $second->{message}), 'bad_request',
       'of two lines in one write the second is refused in its state');

    $name = connection();
    $l->do(raw => { name => $name, data => "$good\n" });
    $l->do(half_close => { name => $name });
    ok($l->do(receive => { name => $name })->{message}{ok},
       'a launcher that has ended its sending side still gets the answer');
    $l->do(close => { name => $name });
};


# Who may (A-017)

SKIP: {
    skip 'A-017 who may open a task: only root can be another user', 1
        unless $root;
    subtest 'A-017 only users that `launchers` names may open a task' => sub {

    my $user = $t->launcher(user => $other);
    for my $policy (qw(analysis closed group)) {
        my $name = connection($user);
        is(refusal($user, $name, $user->ask($name, { %{ $op{open} },
           policy => $policy })), 'not_allowed',
           "another user may not open a task of the policy $policy");
        my $refused = $b->audit_wait('task_refused', uid => $other);
        is($refused->{reason}, 'not_allowed',
           "the refusal of $policy is recorded with the uid of the user");
        $name = connection($user);
        is(refusal($user, $name, $user->ask($name, { %{ $op{policy} },
           policy => $policy })), 'not_allowed',
           "another user may not read the policy $policy");
    }

    my ($name, $reply) = opened($user, 'open');
    ok($reply->{ok}, 'a user that `launchers` names may open a task');
    is($b->audit_wait('task_start', task => $reply->{task_id})->{uid}, $other,
       'the task of that user is recorded with his uid');
    $user->stop;

    my $name2 = connection();
    is(refusal($l, $name2, $l->ask($name2, { %{ $op{open} },
       policy => 'closed' })), 'accepted',
       'root may open a task of any policy');
    };
}


# Descriptors (A-078)

sub serve_with ($kinds, $l = $l) {
    my ($name, $reply) = opened($l);
    $kinds = $kinds->($reply) if ref $kinds eq 'CODE';
    my $got = $l->ask($name, { op => 'serve' }, kinds => $kinds);
    if (($got->{error} // '') =~ /^\w*Error/) {
        $l->do(close => { name => $name });
        return "the test's: $got->{error}";
    }
    return refusal($l, $name, $got);
}

# the launcher's own copies are kept, so sockets are made once and used again
my (undef, $shape) = opened();
my @rest = @{ doors($shape) };
shift @rest;
my $made = 0;

sub first_door ($kind) {
    return sub ($reply) { [$kind, @rest] };
}

# the rest of the doors, made once (0..), then their copies
subtest 'A-078 A-017 of descriptors exactly the sockets of the doors are '
    . 'taken'
    => sub {
    {
        my $kinds = [@{ doors($shape) }];
        is(serve_with([@$kinds, { again => 0 }]), 'bad_descriptor',
           'one socket too many is refused');
        @rest = map { { again => $_ } } 1 .. $#$kinds;
    }

    is(serve_with($_->[1]), 'bad_descriptor', "refused: $_->[0]") for (
        ['no socket at all',   sub ($reply) { [] }],
        (@rest ? ['one socket too few', sub ($reply) { [{ again => 0 }, @rest[0 .. $#rest - 1]] }] : ()),
        ['a datagram socket',  first_door({ udp => 8899 })],
        ['a Unix socket',      first_door({ unix => JSON::PP::true() })],
        ['a listener of the host', first_door({ listen_host => 0 })],
        ['one on a wrong port', first_door({ listen => 8898 })],
        ['64 of the same',     sub ($reply) { [map { { again => 0 } } 1 .. 64] }],
        ['65 of the same',     sub ($reply) { [map { { again => 0 } } 1 .. 65] }],
        ['250 of the same',    sub ($reply) { [map { { again => 0 } } 1 .. 250] }],
    );

    {
        my $own = $t->launcher;
        is(serve_with(sub ($reply) { doors($reply, { stream => 8899 }) }, $own),
           'bad_descriptor', 'a socket that does not listen is refused');
        $own->stop;
    }

    SKIP: {
        my $got = serve_with(first_door({ mptcp => 8897 }));
        skip 'this kernel has no MPTCP', 1 if $got =~ /^the test/;
        is($got, 'bad_descriptor', 'an MPTCP listener is refused');
    }

    {
        my $four = $t->launcher;
        my ($name, $reply) = opened($four);
        my $kinds = doors($reply);
        $kinds->[0] = { listen4 => $kinds->[0]{listen} };
        my $got = $four->ask($name, { op => 'serve' }, kinds => $kinds);
        ok($got->{ok},
           'a listener of IPv4 only is taken') or diag explain $got;
        is($four->get('http://evil.example/')->{status}, 403,
           'a listener of IPv4 only is served');
        close_task($four, $name);
        $four->stop;
    }

    {
        my $name = connection();
        my $got = $l->ask($name, $op{open}, kinds => [{ again => 0 }]);
        is(refusal($l, $name, $got), 'bad_descriptor',
           'descriptors with `open` are refused');
        $name = connection();
        $got = $l->ask($name, $op{policy}, kinds => [map { { again => 0 } } 1 .. 60]);
        is(refusal($l, $name, $got), 'bad_descriptor',
           'descriptors with `policy` are refused');
        $name = connection();
        $got = $l->ask($name, { op => 'hello' }, kinds => [{ again => 0 }]);
        is(refusal($l, $name, $got), 'bad_request',
           'descriptors with an unknown operation are refused');

        # bytes without a line, with descriptors, again and again
        $name = connection();
        for (1 .. 5) {
            my $did = $l->do(descriptors => { name => $name, message => 'x',
                kinds => [map { { again => 0 } } 1 .. 60] });
        }
        my $end = $l->do(receive => { name => $name });
        is(refusal($l, $name, $end->{message} // $end), 'bad_request',
           'descriptors with a string, again and again, are refused');
    }

    {
        my ($one, $task) = task();
        my ($name, $reply) = opened($one);
        my $got = $one->ask($name, { op => 'serve' },
                            kinds => [map { { again => $_ } }
                                      0 .. $#{ $reply->{doors} }]);
        is(refusal($one, $name, $got), 'bad_descriptor',
           'sockets of the net namespace of another live task are refused');
        is($one->get('http://evil.example/')->{status}, 403,
           'the task of that namespace is served on');

        # the launcher speaks from inside a box: nobody there opens tasks
        my $inside = $one->do(box_control => { path => $b->control,
                                               message => $op{open} });
        is($inside->{message}{error}, 'not_allowed',
           'a peer inside of a box may not open a task');
        my $refused = $b->audit_wait('task_refused', reason => 'not_allowed',
                                     uid => $>);
        like($refused->{message}, qr/inside a box/,
             'the refusal of a peer inside of a box is recorded');

        # descriptors beside a message that takes none are dropped by the kernel
        $one->do(descriptors => { name => 'task', message => $op{near_limit},
                                  kinds => [map { { again => 0 } } 1 .. 200] });
        my $near = $b->audit_wait('near_limit', task => $task->{task_id});
        is($near->{claimed}{limit}, 'memory',
           'near_limit with descriptors is recorded without them');
        close_task($one, 'task');
        $one->stop;
    }
};


# Steps at which a launcher goes away

for my $step (
    ['after connecting', sub ($l, $name) { }],
    ['within a line',    sub ($l, $name) { $l->do(raw => { name => $name, data => '{"v":1,' }) }],
    ['after open, unread', sub ($l, $name) { $l->do(send => { name => $name, message => $op{open} }) }],
    ['after open',       sub ($l, $name) { $l->ask($name, $op{open}) }],
    ['within serve',     sub ($l, $name) { $l->ask($name, $op{open});
                           $l->do(raw => { name => $name, data => '{"op":"se' }) }],
    ['after serve, unread', sub ($l, $name) {
        my $r = $l->ask($name, $op{open});
        $l->do(descriptors => { name => $name, message => $op{serve},
                                kinds => doors($r) }) }],
    ['after serve',      sub ($l, $name) {
        my $r = $l->ask($name, $op{open});
        $l->ask($name, $op{serve}, kinds => doors($r)) }],
    ['after close, unread', sub ($l, $name) {
        my $r = $l->ask($name, $op{open});
        $l->ask($name, $op{serve}, kinds => doors($r));
        $l->do(send => { name => $name, message => $op{close} }) }],
) {
    my ($what, $go) = @$step;
    my $own = $t->launcher;
    my $name = connection($own);
    $go->($own, $name);
    $own->do(close => { name => $name });

    # the namespace is free again: the same box is served once more
    my $served = AgentTest::wait_for("the end of a task left $what", sub {
        my ($again, $reply) = opened($own);
        my $kinds = $what =~ /serve|close/ && $what !~ /within/
                  ? [map { { again => $_ } } 0 .. $#{ $reply->{doors} }]
                  : doors($reply);
        my $got = $own->ask($again, $op{serve}, kinds => $kinds);
        return $got->{ok} && ($own->get('http://evil.example/')->{status} // 0) == 403;
    });
    ok($served,
       "a launcher that goes away $what leaves nothing: its box is served "
       . "anew");
    $own->stop;
}


# The answer to `close`

subtest 'the reply to close and the line of the end count what was '
    . 'refused'
    => sub {
    my ($l, $task) = task();
    for my $i (1 .. 70) {
        $l->get("http://evil.example/p$i");
        $l->get("http://evil.example/p$i") if $i == 1;
    }
    my $reply = close_task($l, 'task', exit_code => 3,
                           usage => { wall_ms => 5, memory_peak => 7,
                                      else => 8, cpu_ms => 'x' });
    is(scalar @{ $reply->{egress}{denied} }, 64,
       'the reply lists 64 refusals at most');
    is($reply->{egress}{denied_count}, 71, 'the reply counts all refusals');
    is($reply->{egress}{denied}[0]{count}, 2,
       'the same refusal twice is listed once, counted twice');
    my $end = $b->audit_wait('task_end', task => $task->{task_id});
    is($end->{denied}, 71, 'the line of the end counts all refusals');
    is_deeply($end->{claimed}, { exit_code => 3, wall_ms => 5,
              memory_peak => 7 },
              'the line of the end has what is claimed, by itself and '
              . 'checked');
    my @lines = grep { ($_->{task} // '') eq $task->{task_id} } $b->audit;
    is($reply->{egress}{audit_lines}, scalar @lines,
       'audit_lines of the reply is the number of lines of the task');
    is($end->{audit_lines}, scalar @lines,
       'audit_lines of the line of the end is the number of lines of the '
       . 'task');
    $l->stop;
};

# escapes make a refusal longer; a launcher reads lines of 64 KiB

subtest 'escapes do not make the reply to close longer than a line' => sub {
    my ($l) = task(policy => 'hinted');
    my $path = '"' x 125;
    $l->get("http://127.0.0.1:$port/$_$path", method => 'M' x 32)
        for 10 .. 73;
    my $reply = close_task($l, 'task');
    my $egress = $reply->{egress};
    cmp_ok(length JSON::PP->new->ascii->encode($reply), '<', 65536,
           'the reply is shorter than 64 KiB');
    cmp_ok(scalar @{ $egress->{denied} }, '>', 32,
           'the reply lists as many refusals as have room');
    is($egress->{denied_count}, 64, 'the reply counts all refusals');
    $l->stop;
};

for my $reason (undef, 7, '', 'two words', 'OK', "ok\n", 'x' x 33, "\x{fc}") {
    my ($l) = task();
    my $reply = $l->ask('task', { op => 'close',
        defined $reason ? (reason => $reason) : () });
    is(refusal($l, 'task', $reply), 'bad_request',
       'close with the reason ' . (defined $reason
       ? '"' . ($reason =~ s/[^ -~]/?/gr) . '"' : 'left out')
       . ' is refused as bad_request');
    $l->stop;
}

subtest 'a box that still talks when its task is closed is cut off' => sub {
    # a box that is still talking when its task is closed
    my ($l, $task) = task();
    $l->do(open => { id => 'x', port => 8899 });
    $l->do(write => { id => 'x', data => "GET http://127.0.0.1:$port/stream?n=100000&ms=5 "
                      . "HTTP/1.1\r\nHost: 127.0.0.1:$port\r\n\r\n" });
    like($l->do(read => { id => 'x' })->{data}, qr/^HTTP\/1.1 200/,
         'control: an answer streams into the box');
    my $reply = close_task($l, 'task');
    ok($reply->{ok}, 'the task is closed');
    my $eof;
    AgentTest::wait_for('the end of the stream', sub {
        $eof = $l->do(read => { id => 'x', timeout => 1 })->{eof} });
    ok($eof, 'the stream is cut');
    my @lines = grep { ($_->{task} // '') eq $task->{task_id} } $b->audit;
    is($lines[-1]{event}, 'task_end',
       'the line of the task\'s end is its last');
    is($lines[-2]{event}, 'egress_end',
       'the line before it is the end of the stream');
    $l->stop;
};


# Leases

subtest 'C-023 a lease is worth something for its own task, user and '
    . 'namespace only'
    => sub {
    my ($one, $task) = task();
    my @same = map { { again => $_ } } 0 .. $#{ $task->{doors} };
    my %resume = (v => 1, op => 'resume', task_id => $task->{task_id},
                  lease => $task->{lease});

    ok(length $task->{lease} <= 512, 'a lease has 512 bytes at most');

    my $resume = sub ($l, $kinds, %change) {
        my $name = connection($l);
        return refusal($l, $name, $l->ask($name, { %resume, %change },
                                          kinds => $kinds));
    };

    my $two = $t->launcher;
    is($resume->($two, doors($task)), 'lease_invalid',
       'a lease shown from another net namespace is refused as lease_invalid');
    $two->stop;

    is($resume->($one, \@same, task_id => '0' x 32), 'lease_invalid',
       'a lease shown for another task is refused as lease_invalid');
    is($resume->($one, [], ()), 'bad_descriptor',
       'a lease shown without sockets is refused as bad_descriptor');

    SKIP: {
        skip 'only root can be another user', 1 unless $root;
        my $user = $t->launcher(user => $other);
        is($resume->($user, doors($task)), 'lease_invalid',
           'a lease shown by another user is refused as lease_invalid');
        $user->stop;
    }

    # every field changed, and nonsense
    my $lease = $task->{lease};
    my @parts = split /\./, $lease;
    my @bad = ('', '.', '1', '1.', '1..', '1...', '1....', '2', "x$lease",
               "$lease ", "$lease.", "$lease\n", ".$lease", " $lease",
               '1' x 512, '.' x 512, 'x' x 5000, '1.' x 200,
               '1.9999999999.' . '0' x 16 . '.analysis.' . '0' x 64,
               '1.-1.' . '0' x 16 . '.analysis.' . '0' x 64,
               '1.99999999999999999999.' . '0' x 16 . '.analysis.' . '0' x 64,
               '1.9999999999.' . '0' x 16 . '.' . 'a' x 400 . '.' . '0' x 64,
               '1.9999999999.' . '0' x 16 . '..' . '0' x 64,
               '1.9999999999.' . "\xff" x 16 . '.analysis.' . '0' x 64,
               '1.9999999999.analysis.' . '0' x 64,
               '%s%s%s%n', '1.%n.%s.analysis.' . '0' x 64);
    for my $i (0 .. $#parts) {
        my @change = @parts;
        $change[$i] = '';
        push @bad, join '.', @change;
        @change = @parts;
        splice @change, $i, 1;
        push @bad, join '.', @change;
        @change = @parts;
        $change[$i] .= '0';
        push @bad, join '.', @change;
        @change = @parts;
        substr($change[$i], -1) =~ tr/0-9a-z/1-9a-z0/;
        push @bad, join '.', @change;
    }
    push @bad, substr $lease, 0, $_ for 0 .. length($lease) - 1;

    my %got;
    $got{ $resume->($one, \@same, lease => $_) }++ for @bad;
    is(($got{lease_invalid} // 0) + ($got{bad_request} // 0), @bad,
       scalar(@bad) . ' leases with a change, or none at all, are refused')
        or diag explain \%got;

    is($resume->($one, \@same, lease => 7), 'bad_request',
       'a lease that is a number is refused as bad_request');

    # one that has expired: made with the broker's own key
    SKIP: {
        my $key = $t->read($b->prefix . '/state/lease.key');
        skip 'only root reads lease.key', 2 unless length $key == 32;
        my $cookie = $one->do(cookie => { index => 0 })->{cookie};
        my $make = sub ($expires) {
            my $proof = hmac_sha256_hex("$task->{task_id}|$>|analysis|$cookie|"
                . "$expires|" . ($parts[2] =~ s/^0+(?=.)//r), $key);
            return "1.$expires.$parts[2].analysis.$proof";
        };
        is($make->($parts[1]), $lease, 'control: the test can make a lease');
        is($resume->($one, \@same, lease => $make->(time - 1)),
           'lease_invalid',
           'a lease that has expired is refused as lease_invalid');
    }

    is($one->get('http://evil.example/')->{status}, 403,
       'after all of these the task is served');

    # taken over by its own launcher
    my $name = connection($one);
    my $got = $one->ask($name, \%resume, kinds => \@same);
    ok($got->{ok}, 'a live task is resumed on a second connection')
        or diag explain $got;
    is($one->get('http://evil.example/')->{status}, 403,
       'the resumed task is served');

    my $stale = $one->ask('task', { op => 'close', reason => 'ok' });
    is(refusal($one, 'task', $stale), 'task_unknown',
       'the first connection can no longer close the task');
    is($one->get('http://evil.example/')->{status}, 403,
       'the task is served after the close that was refused');
    is(scalar $b->audit('task_end', task => $task->{task_id}), 0,
       'the task has not ended by the close that was refused');

    ok(close_task($one, $name)->{ok}, 'the second connection closes the task');
    is(scalar $b->audit('task_end', task => $task->{task_id}), 1,
       'the task has ended once');
    is($resume->($one, \@same), 'task_unknown',
       'a task that has ended is not resumed');
    is($resume->($one, \@same, lease => $got->{lease}), 'task_unknown',
       'a task that has ended is not resumed with its newest lease either');
    is(scalar $b->audit('task_end', task => $task->{task_id}), 1,
       'the task has still ended once');
    $one->stop;
};

# B-006, D-009, D-010: a box cannot say who it is
subtest 'B-006 D-009 D-010 a box cannot say which task it is' => sub {
    my ($a, $task_a) = task();
    my ($c, $task_c) = task();
    $a->get('http://evil.example/who', headers => [
        "X-Task-Id: $task_c->{task_id}", "X-Agent-Task: $task_c->{task_id}",
        "X-Request-Id: " . 'f' x 5000, "Forwarded: for=$task_c->{task_id}",
        "Proxy-Authorization: Basic $task_c->{task_id}"]);
    my @who = $b->audit('egress', path => '/who');
    is_deeply([map { $_->{task} } @who], [$task_a->{task_id}],
              'a request has the task of its listener, whatever its headers '
              . 'say');
    isnt($who[0]{request}, 'f' x 16,
         'a request has an id of the broker, not that of its X-Request-Id');
    close_task($_, 'task') for $a, $c;
    $_->stop for $a, $c;
};


# A hostile launcher beside a good one

my ($good_l, $good_task) = task();

sub good_is_served ($what) {
    my $r = $good_l->get("http://127.0.0.1:$port/echo");
    is($r->{status}, 200, $what);
    return;
}

sub cpu {
    my @stat = split ' ', $t->read("/proc/$worker/stat") =~ s/.*\) //r;
    return $stat[11] + $stat[12];
}

good_is_served('control: a good task is served');

subtest 'a listener that its launcher shuts down closes its door' => sub {
    my ($bad, $task) = task();
    my $log = length $b->error_log;
    $bad->do(tamper => { index => 0, how => 'shutdown' });
    AgentTest::wait_for('the door to be closed', sub {
        substr($b->error_log, $log) =~ /tampered with, the door is closed/ });
    ok(1, 'the error log says that the door is closed');
    good_is_served('a task of another launcher is served beside it');

    $t->wait_idle($worker, 'beside a listener that was shut down');
    pass('the worker has nothing to do for it');
    ok(close_task($bad, 'task')->{ok},
       'the task of the listener can still be closed');
    $bad->stop;
};

for my $waiting (0, 3) {
    subtest "a listener made to block, with $waiting connections waiting, "
        . 'closes its door' => sub {
    my ($bad, $task) = task();
    my $log = length $b->error_log;
    $bad->do(tamper => { index => 0, how => 'blocking' });
    $bad->do(open => { id => "w$_", port => 8899 }) for 1 .. $waiting;
    good_is_served('a task of another launcher is served beside it');
    $bad->get('http://evil.example/', timeout => 0.5) if !$waiting;
    AgentTest::wait_for('the door to be closed', sub {
        substr($b->error_log, $log) =~ /tampered with, the door is closed/ });
    ok(1, 'the error log says that the door is closed');
    good_is_served('a task of another launcher is served after it');
    close_task($bad, 'task');
    $bad->stop;
    };
}

subtest 'a listener that lingers does not hold the worker up' => sub {
    my ($bad, $task) = task();
    $bad->do(tamper => { index => 0, how => 'linger' });
    $bad->do(open => { id => 'x', port => 8899 });
    $bad->do(write => { id => 'x', data => "GET http://127.0.0.1:$port/big?n=50000000 "
                        . "HTTP/1.1\r\nHost: 127.0.0.1:$port\r\n\r\n" });
    $bad->do(read => { id => 'x' });
    ok(close_task($bad, 'task')->{ok}, 'the task of the listener is closed');
    good_is_served('a task of another launcher is served while it lingers');
    $bad->stop;
};

close_task($good_l, 'task');
$good_l->stop;


# A socket that lingers makes whoever closes it last wait: not the worker.

for my $how ('cut', 'inside') {
    my $uid = $root ? $other : undef;
    my @ask = ($b->control, $how);
    my $r = $t->run(['/usr/bin/python3', '-c', <<'END', @ask], user => $uid);
import array, socket, struct, sys, threading, time
SCM = socket.SOL_SOCKET, socket.SCM_RIGHTS
def lingering():
    s = socket.create_server(('127.0.0.1', 0))
    c = socket.create_connection(s.getsockname())
    a = s.accept()[0]
    c.setblocking(False)
    try:
        while True:
            c.send(bytes(65536))
    except BlockingIOError:
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                     struct.pack('ii', 1, 600))
    return c, a
def control():
    u = socket.socket(socket.AF_UNIX)
    u.connect(sys.argv[1])
    return u
c, a = lingering()
x, y = socket.socketpair()
if sys.argv[2] == 'cut':                # more than the broker takes
    fds = [y.fileno()] * 100 + [c.fileno()]
else:                                   # in a message that nobody reads
    fds = [y.fileno()]
    x.sendmsg([b'x'], [(*SCM, array.array('i', [c.fileno()]))])
u = control()
u.sendmsg([b'x'], [(*SCM, array.array('i', fds))])
# where the broker was faster, one of these is the last: it waits, and not for
# the broker
for own in c, x, y:
    threading.Thread(target=own.close, daemon=True).start()
time.sleep(0.1)
u.close()
time.sleep(0.1)
u = control()
u.sendall(b'{"v":1,"op":"policy","policy":"none"}\n')
print('policy_unknown' in u.recv(4096).decode())
END
    is($r->{out}, "True\n", "a socket that lingers for ten minutes, handed "
       . "over and $how, holds nobody up")
        or diag $r->{err};
}


# Refusals without end do not fill the audit, which has their number.

SKIP: {
    skip 'refusals without end: only root can be another user', 1
        unless $root;
    subtest 'refusals without end of one user do not fill the audit' => sub {

    my $uid = $other + 1;
    my @ask = ($b->control);
    my $r = $t->run(['/usr/bin/python3', '-c', <<'END', @ask], user => $uid);
import socket, sys
for i in range(1500):
    u = socket.socket(socket.AF_UNIX)
    u.connect(sys.argv[1])
    u.sendall(b'{"v":1,"op":"policy","policy":"closed"}\n')
    if b'not_allowed' not in u.recv(4096):
        print('answered otherwise')
    u.close()
END
    is($r->{out}, '', 'each of 1500 refusals is answered');
    my ($lines, $told);
    AgentTest::wait_for('all refusals to be told', sub {
        my @of = grep { $_->{uid} == $uid } $b->audit('task_refused');
        my @more = grep { $_->{message} =~ /^\d+ more refusals$/ } @of;
        $lines = @of - @more;
        $told = $lines;
        $told += (split ' ', $_->{message})[0] for @more;
        $told >= 1500;
    });
    is($told, 1500, 'each of 1500 refusals is counted in the audit');
    cmp_ok($lines, '<', 1400, 'fewer lines than refusals are written');
    };
}


# Nothing is left

AgentTest::wait_for('every task to end', sub {
    my %ended = map { $_->{task} => 1 } $b->audit('task_end');
    !grep { !$ended{ $_->{task} } && $_->{task} ne $shape->{task_id} }
          $b->audit('task_start');
});
$l->stop;
AgentTest::wait_for('the descriptors to be what they were', sub {
    fds() == $before });
is(fds(), $before,
   'after all of that the worker has the descriptors that it had');
is_deeply([$b->workers], [$worker],
          'after all of that the worker is the same');


# What is not a socket never reaches the worker

SKIP: {
    skip 'A-078 what is not a socket: only root can be another user', 1
        unless $root;
    subtest 'A-078 what is not a socket is closed in the helper, and its user '
        . 'goes on'
        => sub {

    my $user = $t->launcher(user => $other);
    my ($name, $reply) = opened($user, 'open');
    my @kinds = @{ doors($reply) };
    my $got = $user->ask($name, { op => 'serve' },
                         kinds => [{ file => '/etc/passwd' },
                                   @kinds[1 .. $#kinds]]);
    is(refusal($user, $name, $got), 'bad_descriptor',
       'a file in place of a door is refused');
    is(fds_are($before), $before, 'the worker has no descriptor of it');
    ($name, $reply) = opened($user, 'open');
    ok($reply->{ok}, 'the user who sent it can open a task');
    my ($ok) = task();
    ok($ok, 'another user is served');
    $ok->stop;
    $user->stop;
    };
}

subtest 'A-078 a pipe in place of a door is refused' => sub {
    my $own = $t->launcher;
    my ($name, $reply) = opened($own);
    my @kinds = @{ doors($reply) };
    my $got = $own->ask($name, { op => 'serve' },
        kinds => [{ pipe => JSON::PP::true() }, @kinds[1 .. $#kinds]]);
    is(refusal($own, $name, $got), 'bad_descriptor',
       'the pipe is refused as bad_descriptor');
    $own->stop;
};



# Exactly one beginning and one end a task

subtest 'D-009 each task has exactly one beginning and one end on record'
    => sub {
    AgentTest::wait_for('the last tasks to end', sub {
        $b->audit('task_end') == grep { !$_->{resumed} } $b->audit('task_start')
    });
    my (%starts, %ends);
    $starts{ $_->{task} }++ for grep { !$_->{resumed} } $b->audit('task_start');
    $ends{ $_->{task} }++ for $b->audit('task_end');
    is_deeply([grep { $_ != 1 } values %starts], [],
              'each task has begun once');
    is_deeply([grep { $_ != 1 } values %ends], [], 'each task has ended once');
    is_deeply([sort keys %starts], [sort keys %ends],
              'the same tasks have begun and ended');
};

$b->is_clean(level => qr/alert|emerg/);


# Restart: the lease's key is kept

subtest 'a task is adopted after a restart, by the key that is kept' => sub {
    my $r = $t->broker(%opt);
    my ($own, $task) = $r->task;
    my @same = map { { again => $_ } } 0 .. $#{ $task->{doors} };
    my %resume = (v => 1, op => 'resume', task_id => $task->{task_id},
                  lease => $task->{lease});

    $r->stop;
    is(scalar $r->audit('task_end'), 0, 'a broker that stops ends no task');
    ok(AgentTest::wait_for('the end of the connection', sub {
        $own->do(receive => { name => 'task', timeout => 1 })->{eof} }),
       'the launcher sees the end of its connection');
    $r->start;

    $own->do(connect => { name => 'again', path => $r->control });
    my $got = $own->ask('again', \%resume, kinds => \@same);
    ok($got->{ok}, 'the next broker resumes the task') or diag explain $got;
    is($own->get('http://evil.example/')->{status}, 403,
       'the next broker serves the task');
    my $start = $r->audit_wait('task_start', task => $task->{task_id},
                               resumed => 1);
    ok($start, 'the resumption is recorded');
    my $reply = close_task($own, 'again');
    is($reply->{egress}{denied_count}, 1,
       'the next broker counts from the beginning');
    is(scalar $r->audit('task_end', task => $task->{task_id}), 1,
       'the task ends once');

    # without the key a lease is paper
    my ($two, $task2) = $r->task;
    $r->stop;
    unlink $r->prefix . '/state/lease.key';
    $r->start;
    $two->do(connect => { name => 'again', path => $r->control });
    $got = $two->ask('again', { %resume, task_id => $task2->{task_id},
        lease => $task2->{lease} }, kinds => [map { { again => $_ } }
                                              0 .. $#{ $task2->{doors} }]);
    is($got->{error}, 'lease_invalid',
       'a lease made with another key is refused as lease_invalid');
    $r->is_clean(level => qr/alert|emerg/);
    $_->stop for $own, $two;
};


# A small zone

subtest 'a zone that is full refuses new tasks and serves on' => sub {
    my $small = $t->broker(%opt, http => $opt{http} . 'agent_zone 430k; '
                         . 'agent_tasks 60;',
                           log_level => 'error');
    my $own = $t->launcher;
    my $failed = 0;
    for my $i (1 .. 1000) {
        $own->do(connect => { name => 'x', path => $small->control });
        my $reply = $own->ask('x', $op{open});
        $failed++ unless $reply->{ok};
        $own->do(close => { name => 'x' });
    }
    is($failed, 0,
       'a thousand tasks that were only opened leave room for another');

    # filled with what boxes were refused
    my @fill;
    for (1 .. 12) {
        my $f = $t->launcher;
        my $task = $f->open_task($small->control, 'analysis');
        last unless $task->{ok};
        push @fill, $f;
        $f->get('http://' . 'a' x 60 . ".example/" . 'x' x 200 . $_)
            for 1 .. 70;
        $f->get('http://' . join('.', ('b' x 60) x 3) . ".example/$_"
                . 'x' x 200) for 1 .. 70;
    }

    my ($busy, $live) = (undef, 0);
    for my $i (1 .. 200) {
        my $name = "y$i";
        $own->do(connect => { name => $name, path => $small->control });
        my $reply = $own->ask($name, $op{open});
        if (!$reply->{ok}) {
            $busy = $reply;
            last;
        }
        $live++;
    }
    is($busy->{error}, 'busy', 'an open without room is refused as busy')
        or diag "$live were opened";
    like($busy->{message} // '', qr/agent_zone/,
         'the refusal names the directive agent_zone');
    is($fill[0]->get('http://evil.example/')->{status}, 403,
       'a task that has its place is served');
    ok($fill[0]->ask('task', $op{close})->{ok},
       'a task that has its place can be closed');
    $own->do(connect => { name => 'z', path => $small->control });
    ok($own->ask('z', $op{open})->{ok},
       'after that close a task can be opened');
    $small->is_clean(level => qr/alert|emerg/);
};

done_testing;
