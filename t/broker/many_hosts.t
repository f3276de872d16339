#!/usr/bin/perl

# A policy of many hosts is judged as one of few: what is found, what a reload
# changes for connections that are open, what the zone must hold, and that no
# worker, killed or not, keeps an old list.
#
# sanitizers: a snapshot in shared memory is read by offsets

use v5.36;

use lib 't/lib';
use AgentTest;
use JSON::PP ();
use Test::More;

my $hosts = $ENV{MANY_HOSTS} // 10_000;

my $t    = AgentTest->new;
my $up   = $t->upstream(names => ['api.internal', 'late.internal']);
my $port = $up->port;
my $rule = $t->rule;

# among the others, before and behind them
sub policy ($extra = '', $n = $hosts) {
    my $many = join '', map { "host h$_.svc.example.com;\n" } 1 .. $n / 2;
    my $more = join '', map { "host *.w$_.svc.example.com { methods POST; }\n" }
                        1 .. $n / 2;
    return "agent_policy analysis {\n$many host api.internal:$port { path "
           . "^/echo; $rule }\n$more$extra}\n";
}

sub too_small ($policy, $size) {
    my ($ok, $said) = $t->nginx_t(http => $t->policy_http(policy => $policy,
                                  http => "agent_zone $size;"));
    return $ok ? undef : $said;
}

my ($need) = (too_small(policy(), '8k') // '') =~ /they need "agent_zone (\d+)k"/;

subtest 'a zone that is too small is refused with the size that is needed'
    => sub {
    ok($need, 'nginx -t names it');
    cmp_ok($need, '>', $hosts * 2 * 40 / 1024, 'the size grows with the hosts');
    like(too_small(policy(), ($need - 1) . 'k'),
         qr/"agent_zone \d+" is too small for the policies/,
         'one kilobyte less is refused');
    is(too_small(policy(), "${need}k"), undef,
       'nginx -t accepts the size that was named');
    my $shipped = $t->read("$AgentTest::ROOT/conf/policies/example.conf")
                  =~ s/^\s*(?:#|bearer).*\n//gmr;
    is(too_small($shipped, '8m'), undef,
       'the default is enough for the policies as shipped');
};

my $b = $t->broker(names => [qw(api.internal late.internal)], workers => 2,
                   http => "agent_zone ${need}k;", policy => policy());
my ($l, $task) = $b->task;

sub reason ($url, %opt) {
    my $r = $l->get($url, %opt);
    my $said = eval { JSON::PP::decode_json($r->{body}) } // {};
    return $r->{status} == 200 ? 'ok' : $said->{reason} // $r->{raw};
}

subtest 'each host is found, and no other' => sub {
    is($task->{hosts_count}, $hosts + 1, 'the launcher is told how many');
    is(scalar @{ $task->{hosts} }, 64, 'the launcher is told 64 of them');
    is(reason("http://api.internal:$port/echo"), 'ok', 'the host with a port');
    for my $n (1, 2, $hosts / 2) {
        is(reason("http://h$n.svc.example.com/", method => 'POST'),
           'method_not_allowed', "host $n");
        is(reason("http://h$n.svc.example.com:81/"), 'port_not_allowed',
           "host $n on another port");
        is(reason("http://a.w$n.svc.example.com/"), 'method_not_allowed',
           "a name below wildcard $n");
        is(reason("http://w$n.svc.example.com/"), 'host_not_allowed',
           "wildcard $n itself");
    }
    is(reason('http://h0.svc.example.com/'), 'host_not_allowed',
       'a host that is none of them');
    is(reason("http://h@{[$hosts / 2 + 1]}.svc.example.com/"),
       'host_not_allowed', 'a host behind the last');
};

subtest 'jail policy lists as many hosts as a line has room for' => sub {
    my $r = $t->jail(['policy', '--control', $b->control, 'analysis']);
    is($r->{status}, 0, 'jail policy ends with 0') or diag $r->{err};
    my $said = eval { JSON::PP::decode_json($r->{out}) } // {};
    is($said->{rules_count}, $hosts + 1,
       'rules_count is the number of all rules');
    cmp_ok(scalar @{ $said->{rules} // [] }, '>', 60,
           'control: it lists some of them');
    $r = $t->jail(['policy', '--control', $b->control, 'analysis', '--ask',
                   'POST', "https://x.w@{[$hosts / 2]}.svc.example.com/"]);
    is($r->{status}, 0, 'a request to the last one is allowed') or diag $r->{out};
};

sub read_all ($id, $re) {
    my $text = '';
    AgentTest::wait_for("$re", sub {
        my $got = $l->do(read => { id => $id, timeout => 5 });
        $text .= $got->{data} // '';
        return $text =~ $re || $got->{eof} || $got->{error};
    });
    return $text;
}

subtest 'a connection from before a reload is judged by the new list' => sub {
    for my $id ('old', 'gone') {
        $l->do(open => { id => $id, port => 8899 });
        $l->do(write => { id => $id, data => 'GET ' });
    }
    is(reason("http://api.internal:$port/echo"), 'ok',
       'the worker has accepted them, and uses the old list');
    $b->configure(policy => policy("host late.internal:$port { $rule }\n")
                            =~ s/path \^\/echo/path ^\/other/r);
    $b->signal('HUP');
    $b->audit_wait('config', action => 'reload');
    $l->do(write => { id => 'old', data => "http://late.internal:$port/echo "
        . "HTTP/1.1\r\nHost: late.internal:$port\r\n\r\n" });
    like(read_all('old', qr/\r\n\r\n./s), qr{^HTTP/1\.1 200},
         'a host that is new is allowed');
    $l->do(write => { id => 'gone', data => "http://api.internal:$port/echo "
        . "HTTP/1.1\r\nHost: api.internal:$port\r\n\r\n" });
    like(read_all('gone', qr/\}/), qr{^HTTP/1\.1 403 .*path_not_allowed}s,
         'a path that is not allowed now is refused');
    $l->stop;
};

# The zone has room for two lists.  Each reload needs the one that no worker
# reads any more, also of those that were killed while they read it.

subtest 'reloads and killed workers leave no list behind' => sub {
    for my $i (1 .. 6) {
        my ($with) = $b->task;
        if ($i % 2) {
            my %killed = map { $_ => 1 } $b->workers;
            kill 'KILL', keys %killed;
            AgentTest::wait_for('other workers', sub {
                2 == grep { !$killed{$_} } $b->workers });
        }
        ok($b->reload(policy => policy("host r$i.example;\n")), "reload $i");
        $with->stop;
        my ($again, $opened) = $b->task;
        is($opened->{hosts_count}, $hosts + 2, "reload $i is in force");
        $again->stop;
    }
    ok($b->reload(policy => policy('', 2)), 'a reload to a short list');
    ok($b->reload(policy => policy('')), 'a reload back to the long one');
    my $ok = $b->reload(policy => policy('', $hosts * 2));
    ok(!$ok, 'a list that is too long for the zone is refused');
    like($b->error_log, qr/is too small for the policies/,
         'the log says that the zone is too small');
    my ($last) = $b->task;
    $last->stop;
};

# Of many lengths, so that the edges of what nginx reads at a time are at each
# byte of a line.

subtest 'a list is the same policy however its lines are written' => sub {
    my @names = map { 'h' . 'x' x ($_ % 53) . "$_.example"
                      . ($_ % 7 ? '' : ':8443') } 1 .. 2000;
    my %hash;
    for my $line ('host %s;', "host '%s';", 'host %s {}', "\thost\t %s;\r",
                  'host %s ; # ;', "# host a.example;\nhost\n%s;")
    {
        my $list = join '', map { sprintf("$line\n", $_) } @names;
        ok($b->reload(policy => "agent_policy analysis {\n$list}\n"), $line);
        my ($with, $opened) = $b->task;
        is($opened->{hosts_count}, 2000, 'it has all');
        $hash{ $opened->{policy_hash} } = 1;
        $with->stop;
    }
    is(keys %hash, 1, 'they have one hash');
};

$b->is_clean(ignore => qr{exited on signal 9|is too small for});

done_testing;
