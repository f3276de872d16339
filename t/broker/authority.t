#!/usr/bin/perl

# The boxes' authority has an end: one that the broker made is renewed before
# it, and boxes that trust the old certificate do not see the change; one that
# the operator gave is warned of, and past its end no task starts.

use v5.36;

use lib 't/lib';
use AgentTest;
use POSIX ();
use Test::More;

my $t    = AgentTest->new;
my $up   = $t->upstream(names => ['api.internal']);
my $dns  = $t->dns({ 'api.internal' => { A => ['127.0.0.1'] } });
my $port = $up->port;
my $url  = "https://api.internal:$port/x";
my $rule = $t->rule;
my $day  = 24 * 60 * 60;

sub at ($seconds) {
    return POSIX::strftime('%Y%m%d%H%M%SZ', gmtime(time + $seconds));
}

# of a certificate's file: its key, its names, and how long it still is valid
sub facts ($file) {
    my $text = `openssl x509 -in $file -noout -pubkey -subject -ext subjectKeyIdentifier`;
    my ($end) = `openssl x509 -in $file -noout -enddate -dateopt iso_8601`
                =~ /=(\S+ \S+)Z/;
    my ($y, $m, $d, $H, $M, $S) = split /[- :]/, $end;
    return ($text, `date -u -d '$end' +%s` - time);
}

sub broker ($more, %opt) {
    return $t->broker(%opt, http => <<"END");
    resolver 127.0.0.1:$dns->{port} ipv6=off;
    agent_audit logs/agent-audit.log;
    agent_state %DIR%/state;
    $more
    agent_policy default {
        wall_clock 60s;
        host api.internal:$port { $rule }
    }
    server {
        agent_control unix:%CONTROL%;
        include $AgentTest::ROOT/conf/agent_proxy.conf;
    }
END
}

# a prefix whose ca.pem is this authority's
sub prefix ($own) {
    my $prefix = $t->nginx_prefix;
    mkdir "$prefix/state", 0700;
    $t->write("$prefix/state/ca.pem", $t->read($own->{key})
                                      . $t->read($own->{cert}), 0600);
    return $prefix;
}

sub told ($b) {
    my $l = $t->launcher;
    my $task = $l->open_task($b->control, "default");
    $l->stop;
    return $task;
}

sub run_box ($b, $args, $script) {
    return $t->jail(['run', '--control', $b->control, @$args, '--', 'sh', '-c',
                     $script]);
}

# what doctor says of the broker
sub doctor ($b) {
    my $r = $t->jail(['doctor', '--json', '--control', $b->control,
                      '--policy', 'default']);
    my ($row) = grep { $_->{name} eq 'broker' } @{ $r->{json}{layers} // [] };
    return $row // { said => $r->{err} };
}

sub health ($b) {
    my $l = $t->launcher;
    $l->do(connect => { name => 'h', path => $b->control });
    my $got = $l->ask('h', { v => 2, op => 'health' });
    $l->stop;
    return $got;
}

for my $case (['ends in two days', 2 * $day], ['has ended', -60],
              ['ends in 89 days', 89 * $day])
{
    my ($what, $left) = @$case;
    subtest "G-034: an authority of the broker's own that $what is renewed"
        => sub {
        my $own = $t->authority(at(-400 * $day), at($left));
        my $prefix = prefix($own);
        my $before = $t->read("$prefix/state/ca.pem");
        my $b = broker('agent_ca auto;', prefix => $prefix);
        my $task = told($b);
        my $now = $t->write('now.pem', $task->{ca} // '');

        my ($old_facts, $old_left) = facts($own->{cert});
        my ($new_facts, $new_left) = facts($now);
        is($new_facts, $old_facts, 'key and names stay');
        cmp_ok($new_left, '>', 3600 * $day, 'its end is years away');
        cmp_ok($old_left, '<', 90 * $day, 'control: that of the old was not');
        my $file = $t->read("$prefix/state/ca.pem");
        isnt($file, $before, 'its file is written anew');
        ok(index($file, $task->{ca}) > 0, 'it is the one that boxes are given');
        is((stat "$prefix/state/ca.pem")[2] & 07777, 0600, 'its mode is 0600');

        my $r = run_box($b, [], "curl -sS -o /dev/null -w '%{http_code}' $url");
        is($r->{json}{stdout}, '200', 'TLS works in a box')
            or diag $r->{out}, $r->{err}, $b->error_log;
        return if $left < 0;
        $r = run_box($b, ['--in', "$own->{cert}:old.pem"],
            "curl -sS --cacert old.pem -o /dev/null -w '%{http_code}' $url");
        is($r->{json}{stdout}, '200',
           'it works where the old certificate is trusted')
            or diag $r->{out}, $r->{err};
        my $kept = $t->read("$prefix/state/ca.pem");
        ok($b->reload, 'control: a reload');
        is($t->read("$prefix/state/ca.pem"), $kept,
           'the next reload does not renew it again');
        $b->stop;
    };
}

subtest 'G-034: nginx -t renews no file' => sub {
    my $own = $t->authority(at(-60), at($day));
    my $prefix = prefix($own);
    my $before = $t->read("$prefix/state/ca.pem");
    my ($ok, $said) = $t->nginx_t(prefix => $prefix, http => <<"END");
    agent_audit logs/agent-audit.log;
    agent_state $prefix/state;
    agent_policy a { }
    server { agent_control unix:%CONTROL%;
             include $AgentTest::ROOT/conf/agent_proxy.conf; }
END
    ok($ok, 'the configuration is accepted') or diag $said;
    is($t->read("$prefix/state/ca.pem"), $before, 'the file is as it was');
};

# What becomes old while the broker runs: the time from making a certificate
# to its end must be more than a start takes, or the next is tried.
sub soon ($make, $is_early) {
    for my $margin (6, 20, 60) {
        my $got = $make->($margin);
        return $got if $is_early->($got);
    }
    BAIL_OUT('this machine takes a minute to start nginx');
}

subtest 'G-034: a worker renews the broker\'s own authority without a reload'
    => sub {
    my $b = soon(sub ($margin) {
        my $own = $t->authority(at(-60), at(90 * $day + $margin));
        my $b = broker('', prefix => prefix($own));
        $b->{own} = $own;
        return $b;
    }, sub ($b) {
        index(told($b)->{ca}, $t->read($b->{own}{cert})) >= 0
    });
    my $old = told($b)->{ca};
    my $new;
    AgentTest::wait_for('another certificate', sub {
        $new = told($b)->{ca};
        return $new ne $old;
    });
    my ($old_facts) = facts($b->{own}{cert});
    my ($new_facts, $left) = facts($t->write('renewed.pem', $new));
    is($new_facts, $old_facts, 'key and names stay');
    cmp_ok($left, '>', 3600 * $day, 'its end is years away');
    like($b->error_log, qr/\[notice\].*authority is renewed/,
         'the error log says so');
    is(index($t->read($b->prefix . '/state/ca.pem'), $new), -1,
       'the worker writes no file');
    my $r = run_box($b, ['--in', "$b->{own}{cert}:old.pem"],
        "curl -sS -o /dev/null -w '%{http_code} ' $url;"
        . "curl -sS --cacert old.pem -o /dev/null -w '%{http_code}' $url");
    is($r->{json}{stdout}, '200 200', 'either certificate verifies a leaf')
        or diag $r->{out}, $r->{err};
    ok($b->reload, 'control: a reload');
    my ($kept_facts, $kept) = facts($t->write('kept.pem', told($b)->{ca}));
    cmp_ok($kept, '>', 3600 * $day, 'the next reload writes one');
    $b->stop;
};

subtest 'G-034: the end of an authority that was given is announced in the log'
    => sub {
    for my $case ([29 * $day + 600, 1], [31 * $day, 0]) {
        my ($left, $is_warned) = @$case;
        my $own = $t->authority(at(-60), at($left));
        my $b = broker("agent_ca $own->{cert} $own->{key};");
        my $said = $b->error_log;
        my $warned = () = $said =~ /\[warn\].*the boxes' authority "\Q$own->{cert}\E" ends in 29 days: no task can start after that/g;
        is($warned ? 1 : 0, $is_warned, "with @{[int $left / $day]} days left")
            or diag $said;
        ok(told($b)->{ok}, 'tasks start');
        my $health = health($b);
        is(join(' ', map { $health->{$_} // 'none' } qw(ok version audit)),
           '1 0.1.0 1', 'the broker is asked for its health')
            or diag explain $health;
        ok(abs($health->{ca_left} - $left) < 600, 'its answer has the seconds left');
        my $row = doctor($b);
        is($row->{state}, $is_warned ? 'warning' : 'ok', 'doctor\'s row')
            or diag explain $row;
        like($row->{detail}, qr/authority of the broker at .* ends in 2\d days/,
             'doctor says when') if $is_warned;
        $b->stop;
    }
};

subtest 'G-034: past the end of an authority that was given no task starts'
    => sub {
    my $b = soon(sub ($margin) {
        my $own = $t->authority(at(-60), at($margin));
        my $b = eval { broker("agent_ca $own->{cert} $own->{key};") };
        $b->{own} = $own if $b;
        return $b;
    }, sub ($b) { $b && told($b)->{ok} });

    # a box that lives on: its last TLS connection is refused by the broker
    my $box = $t->spawn([$t->jail_path, 'run', '--control', $b->control, '--',
        'sh', '-c', "while curl -sS -o /dev/null $url; do sleep 0.1; done;"
                    . "curl -sS -o /dev/null $url; echo \$?"], pipes => 1);
    my $r;
    AgentTest::wait_for('a start to be refused', sub {
        $r = told($b);
        return !$r->{ok};
    });
    is($r->{error}, 'ca_expired', 'the launcher is told which bound it was');
    like($r->{message}, qr/authority \("agent_ca"\) has expired/,
         'the message names the directive');
    $r = run_box($b, [], 'true');
    is($r->{status}, 125, 'a start fails') or diag $r->{out};
    is($r->{json}{reason}, 'setup', 'its reason is setup');
    is($r->{json}{error}{stage}, 'broker', 'its stage is the broker');
    like($r->{json}{error}{fix}, qr/"agent_ca auto;", and reload it/,
         'it says what to do') or diag $r->{out};
    my $row = doctor($b);
    is($row->{state}, 'missing', 'doctor says no') or diag explain $row;
    like($row->{detail}, qr/has expired: no task starts/, 'doctor says why');
    like($row->{fix}, qr/"agent_ca auto;"/, 'doctor says what to do');
    my ($refused) = $b->audit('task_refused');
    is($refused->{reason}, 'ca_expired', 'the audit has the refusal');

    my $said = do { local $/; readline $box->{out} };
    like($said, qr/"stdout":"35\\n"/, 'an earlier box gets a TLS alert')
        or diag $said;
    my ($line) = $b->audit('egress', reason => 'ca_expired');
    is(join(' ', $line->{verdict} // '', $line->{host} // ''),
       'denied api.internal', 'a line of the audit says denied')
        or diag explain [$b->audit('egress')];
    like($b->error_log, qr/\[error\].*authority "\S+" has ended, and no task/,
         'the error log says so');

    my $other = $t->authority(at(-60), at(400 * $day));
    $t->write($b->{own}{$_}, $t->read($other->{$_}), 0600) for qw(key cert);
    ok($b->reload, 'after it was replaced, a reload');
    ok(told($b)->{ok}, 'tasks start again');
};

done_testing;
