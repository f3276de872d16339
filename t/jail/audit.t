#!/usr/bin/perl

# The record and the boxes: each thing that happens to a task is on it once,
# with the id of the task's result; no box can read it; and what a box does a
# million times fills neither it nor the kernel's log.
#
# sanitizers: the launcher and the broker talk to each other

use v5.36;

use lib 't/lib';
use AgentTest;
use Fcntl qw(O_RDONLY O_NONBLOCK SEEK_END);
use Test::More;

my $t = AgentTest->new;
my $gone = "$t->{dir}/gone";
mkdir $gone;
my $vault = $t->write('vault', "api = sk_first_0123456789abcdef\n", 0600);

sub http_block ($more = '', $hint = 'first') {
    return <<"END";
    agent_audit logs/agent-audit.log;
    agent_vault $vault;
    agent_policy analysis {
        memory     64m;
        pids       20;
        cpu_time   1s;
        wall_clock 30s;
        output_bytes 1m;
        writable   /tmp/work 1m;
        host api.internal { bearer api; hint "$hint"; }
    }
    agent_policy others { launchers user:nobody; }
    agent_policy broken { readable $gone; }
    agent_policy talks { audit_budget 30 1m; wall_clock 1m; cpu_time 60s; }
    $more
    server {
        agent_control unix:%CONTROL%;
        include $AgentTest::ROOT/conf/agent_proxy.conf;
    }
END
}

my $b = $t->broker(http => http_block());
my $dir = $b->prefix;
my $log = "$dir/logs/agent-audit.log";

sub task ($args, @command) {
    return $t->jail(['run', '--control', $b->control, '--policy', 'analysis',
                     @$args, '--', @command]);
}


# The events of a task's life

my $burn = 'while :; do :; done';
for my $case (
    ['ok',       [],                      'true'],
    ['nonzero',  [],                      'exit 3'],
    ['signal',   [],                      'kill -9 $$'],
    ['exec',     undef,                   ''],
    ['timeout',  ['--wall-clock', '200ms'], 'sleep 60'],
    ['cpu_time', [],                      $burn],
    ['oom',      [],
     'python3 -c \'x = "a" * (500 << 20)\''],
    ['pids',     [],                      'for i in $(seq 100); do sleep 1 & '
                                          . 'done || exit 1; exit 1'],
    ['disk',     [],                      'head -c 9m /dev/zero > f || exit 1'],
    ['output',   [],                      'head -c 9m /dev/zero'],
) {
    my ($reason, $args, $script) = @$case;
    subtest "D-028 a task that ends for $reason is in the audit" => sub {
        my $r = $args ? task($args, 'sh', '-c', $script)
                      : task([], '/no/such/program');
        my $id = $r->{json}{task_id} // '';
        is($r->{json}{reason}, $reason, 'control: the reason')
            or diag $r->{out}, $r->{err};
        my ($start, @more) = $b->audit('task_start', task => $id);
        ok($start && !@more, 'one line of its start has the result\'s id');
        my @ends = $b->audit('task_end', task => $id);
        is(scalar @ends, 1, 'one line of its end has it');
        is($ends[0]{reason}, $reason, 'the line of its end has the reason');
        my @all = grep { ($_->{task} // '') eq $id } $b->audit;
        is($all[-1]{event}, 'task_end', 'the line of its end is the last one');
        is($ends[0]{audit_lines}, scalar @all,
           'the line of its end counts all of them');
    };
}


# A launcher that gets a signal

for my $case (['TERM', 'canceled'], ['KILL', 'launcher_lost']) {
    my ($signal, $reason) = @$case;
    subtest "D-028 a launcher that gets SIG$signal: the audit says $reason"
        => sub
    {
        my $before = () = $b->audit('task_start');
        my $child = $t->spawn([$t->jail_path, 'run', '--control', $b->control,
            '--policy', 'analysis', '--external-id', "by-$signal", '--',
            'sh', '-c', "curl -s http://$signal.example/; exec sleep 60"],
            env => { $t->sanitizer_env }, pipes => 1);
        my $start;
        AgentTest::wait_for('its start', sub {
            my @starts = $b->audit('task_start');
            $start = $starts[-1];
            return @starts > $before;
        });
        is($start->{claimed}{external_id}, "by-$signal",
           'the line of its start has the external id');
        $b->audit_wait('egress', task => $start->{task});
        kill $signal, $child->{pid};
        my $end = $b->audit_wait('task_end', task => $start->{task});
        is($end->{reason}, $reason,
           'the line of its end has the reason') or diag explain $end;
        waitpid $child->{pid}, 0;
        $t->forget($child->{pid});
        is(scalar(() = $b->audit('task_end', task => $start->{task})), 1,
           'there is one line of its end');
    };
}


# What is refused has no start

subtest 'D-028 a refused start is one line, with its reason and user' => sub {
    my $r = $t->jail(['run', '--control', $b->control, '--policy', 'nothing',
                      '--', 'true']);
    is($r->{json}{reason}, 'setup', 'control: an unknown policy');
    $b->audit_wait('task_refused');
    my @refused = $b->audit('task_refused');
    is("@{[ map { \"$_->{reason} $_->{uid}\" } @refused ]}",
       "policy_unknown $>", 'an unknown policy: the reason and the user');

    my $l = $t->launcher;
    $l->do(connect => { name => 'a', path => $b->control });
    $l->ask('a', { v => 1, op => 'exec', task_id => 'f' x 32 });
    my $line = $b->audit_wait('task_refused', reason => 'bad_request');
    is($line->{uid}, $>, 'a wish to enter a box: the reason and the user');

    SKIP: {
        skip 'needs root, for another user', 1 unless AgentTest::is_root();
        my $other = $t->launcher(user => $t->user);
        $other->do(connect => { name => 'a', path => $b->control });
        $other->ask('a', { v => 1, op => 'open', policy => 'others' });
        $line = $b->audit_wait('task_refused', reason => 'not_allowed');
        is($line->{uid}, $t->user, 'a user that the policy does not list');
    }
};


subtest 'D-028 a host on which the box cannot be made: the end is setup'
    => sub
{
    rmdir $gone;
    my $r = $t->jail(['run', '--control', $b->control, '--policy', 'broken',
                      '--', 'true']);
    is($r->{json}{reason}, 'setup', 'control: the reason');
    my ($start, @more) = grep { $_->{policy} eq 'broken' }
                         $b->audit('task_start');
    ok(!@more, 'there is one line of its start at most');
    is($b->audit_wait('task_end', task => $start->{task})->{reason}, 'setup',
       'the line of its end says that it never ran') if $start;
    mkdir $gone;
};


subtest 'D-028 new policies and tokens are in the audit' => sub {
    my ($first) = $b->audit('config', action => 'start');
    $b->reload(http => http_block('', 'second'));
    my $second = $b->audit_wait('config', action => 'reload');
    is($second->{generation}, $first->{generation} + 1,
       'a reload is the next generation');
    isnt($second->{policies}{analysis}, $first->{policies}{analysis},
         'what changed has a new hash');
    is($second->{policies}{others}, $first->{policies}{others},
       'what did not change has the old one');
    is($second->{vault}, $first->{vault},
       'the revision of the tokens is the old one');

    $t->write('vault', "api = sk_second_0123456789abcdef\n", 0600);
    $b->reload;
    my $third = $b->audit_wait('config', generation => 3);
    is($third->{vault}, $first->{vault} + 1, 'new tokens are a new revision');
    is_deeply($third->{policies}, $second->{policies},
              'with new tokens only, the hashes of policies are the old ones');

    ok(!$b->reload(http => http_block('nonsense;', 'third')),
       'control: a reload is refused');
    is($b->audit_wait('config', action => 'refused')->{generation}, 3,
       'a refused reload is a line, of the old generation');
    $b->reload(http => http_block('', 'second'));
    unlike($t->read($log), qr/sk_(?:first|second)/, 'no token is in any line');
};

subtest 'D-028 every line fits the schema' => sub {
    is_deeply([$b->audit_errors], [], 'no errors');
};


subtest 'D-027 a box cannot read the audit' => sub {
    my $marker = 'of-another-box';
    task([], 'curl', '-s', "http://$marker.example/");
    like($t->read($log), qr/\Q$marker/,
         'control: what one box called is in it');

    my $r = task([], 'sh', '-c', <<"END");
exec 2>&1
cat $log; ls $dir; ls $dir/logs
find / -name '*agent-audit*' -o -name 'nginx.conf' 2> /dev/null
for p in /proc/[0-9]*; do ls -l \$p/fd; cat \$p/root$log; done
for u in logs/agent-audit.log agent-audit.log ..%2f..$log ..$log nginx.conf; do
    curl -s --path-as-is http://127.0.0.1:8899/\$u
    curl -s --path-as-is http://api.internal/\$u
    curl -s --path-as-is -x http://127.0.0.1:8899 http://localhost/\$u
    curl -s --path-as-is -x http://127.0.0.1:8899 file://$log
done
END
    unlike($r->{json}{stdout}, qr/\Q$marker\E|"event"/,
           'another box sees no line of it')
        or diag $r->{json}{stdout};
    unlike($r->{json}{stdout}, qr{^/.*agent-audit|-> .*agent-audit}m,
           'another box does not see where it is');
    like($r->{json}{stdout}, qr/No such file/, 'there is no such path');
};

subtest 'D-027 a policy that would show the audit is refused' => sub {
    $t->write("$log.1", "{}\n", 0640);
    symlink $log, "$t->{dir}/link";
    symlink "$dir/logs", "$t->{dir}/dirlink";
    for my $path ($log, "$dir/logs", $dir, $t->{dir}, "$t->{dir}/link",
                  "$t->{dir}/dirlink", "$log.1")
    {
        my ($fits, $said) = $t->nginx_t(prefix => "$t->{dir}/check",
            http => http_block("agent_policy shows { readable $path; }")
                    =~ s{logs/agent-audit.log}{$log}r);
        ok(!$fits, "readable $path is refused");
        like($said,
             qr/"readable .*" of policy "shows" would show "agent_(?:audit|vault) /,
             "readable $path: the message names what it would show")
        or diag $said;
    }
};


subtest 'E-035 a box that fills the audit is ended' => sub {
    my $r = $t->jail(['run', '--control', $b->control, '--policy', 'talks',
                      '--',
                      'sh', '-c',
                      'while :; do curl -s http://evil.example/; done']);
    is($r->{json}{reason}, 'broker', 'the reason is broker');
    like($r->{json}{error}{message} // '', qr/audit_budget/,
         'the message names the limit')
        or diag explain $r->{json};
    my $over = $b->audit_wait('task_end', task => $r->{json}{task_id});
    is($over->{reason}, 'audit_budget',
       'the line of its end has the reason audit_budget');
    cmp_ok($over->{audit_lines}, '<=', 32,
           'there are no more lines than its budget');
};



subtest 'E-035 a million refused calls leave nothing in the kernel\'s log'
    => sub
{
    sysopen my $kmsg, '/dev/kmsg', O_RDONLY|O_NONBLOCK
        or plan skip_all => '/dev/kmsg cannot be opened';

    my $logged = sub ($what, $do) {
        sysseek $kmsg, 0, SEEK_END;
        $do->();
        my $lines = 0;
        while (sysread $kmsg, my $line, 8192) {
            $lines++ if $line =~ $what;
        }
        return $lines;
    };

    # the same with the action that logs

    my $control = $logged->(qr/type=1326/, sub { $t->run(['/usr/bin/python3', '-c', <<'END']) });
import ctypes, struct
libc = ctypes.CDLL(None)
code = struct.pack("HBBI", 0x06, 0, 0, 0x7ffc0000)      # SECCOMP_RET_LOG
text = ctypes.create_string_buffer(code)
prog = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 1,
                                               ctypes.addressof(text)))
libc.prctl(38, 1, 0, 0, 0)
libc.prctl(22, 2, prog, 0, 0)
END
    note "control: $control lines of the logging action";

    my $r;
    my $lines = $logged->(qr/type=1326 .*syscall=(?:248|217)\b/, sub {
        $r = $t->jail(['run', '--control', $b->control, '--policy', 'talks',
                       '--', 'python3', '-c', <<'END']);
import ctypes
call = ctypes.CDLL(None).syscall
add_key = 248 if __import__("os").uname().machine == "x86_64" else 217
print(sum(call(add_key, 0, 0, 0, 0, 0) == -1 for i in range(1000000)))
END
    });
    is($r->{json}{stdout}, "1000000\n", 'control: a million calls are refused')
        or diag $r->{out}, $r->{err};
    is($r->{json}{reason}, 'ok', 'the program goes on');
    is($lines, 0, 'the kernel logs none of them');
};

subtest 'the broker has reported no error of its own' => sub {
    $b->stop;
    unlike($b->error_log =~ s/^.*unknown directive "nonsense".*$//mr,
           qr/\[(?:alert|emerg|crit)\]/,
           'error.log has no line of level alert, emerg or crit')
        or diag $b->error_log;
};

done_testing;
