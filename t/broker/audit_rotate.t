#!/usr/bin/perl

# The audit is moved away while it is written to, by whatever means and as
# often as one likes: no line is lost, doubled or torn, and none goes to the
# old file once there is a new one.

use v5.36;

use lib 't/lib';
use AgentTest;
use JSON::PP ();
use MIME::Base64 ();
use POSIX ();
use Test::More;

my $ROTATIONS = $ENV{AGENT_TEST_ROTATIONS} || 1000;

my $t   = AgentTest->new;
my $up  = $t->upstream(names => ['api.internal']);
my $dns = $t->dns({ 'api.internal' => { A => ['127.0.0.1'] } });
my $A   = 'api.internal:' . $up->port;

my %opt = (dns => $dns, policy => <<"END");
    agent_policy analysis {
        wall_clock 1h;
        names 1000000000;
        refusals 1000000000;
        audit_budget 1000000000 1000g;
        host $A { @{[ $t->rule ]} }
    }
END

# Asks for names in a box until its stop file is there.
sub asks ($l, $prefix, @more) {
    my $stop = "$t->{dir}/stop-$prefix";
    syswrite $l->{in}, JSON::PP::encode_json({ do => 'run',
        argv => ['/usr/bin/python3', "$AgentTest::LIB/ask_names.py", $prefix,
                 $stop, map { "$_" } @more], timeout => 600, env => { PATH => $ENV{PATH} } }) . "\n";
    return { launcher => $l, prefix => $prefix, stop => $stop };
}

# How many were answered, of one that has been told so, or has ended.
sub answered ($run, $tell = 1) {
    $t->write($run->{stop}, '') if $tell;
    my $r = JSON::PP::decode_json(scalar readline $run->{launcher}{out});
    diag explain $r if $r->{error} || $r->{err};
    return MIME::Base64::decode_base64($r->{data} // '') + 0;
}

sub file ($b) { return $b->prefix . '/logs/agent-audit.log' }

# The audit's files, the oldest first.
sub files ($broker) {
    my $file = file($broker);
    return ((map { "$file.$_" } sort { $a <=> $b }
             map { /\.(\d+)$/ } glob "$file.*"), $file);
}

# Moves the file away, has nginx told, and waits for the new one's first line,
# which the master writes when it has taken over.
sub rotate ($b, $tell = sub { $b->signal('USR1') }) {
    my $file = file($b);
    my $old = "$file." . ++$b->{rotated};
    rename $file, $old or die "rename: $!";
    $tell->();
    AgentTest::wait_for('a new file', sub { -s $file });
    return $old;
}

# How often each name of such a run is in the files: [missing], [doubled].
sub names ($prefix, $count, @files) {
    my @seen;
    for my $file (@files) {
        my $text = $t->read($file);
        $seen[$1]++ while $text =~ /"host":"\Q$prefix\E(\d+)\./g;
    }
    return ([grep { !$seen[$_] } 0 .. $count - 1],
            [grep { ($seen[$_] // 0) > 1 } 0 .. $#seen]);
}

sub descriptors ($pid) {
    return scalar(() = glob "/proc/$pid/fd/*");
}


# D-021: a thousand rotations under load, most by USR1, some as an operator
# types it, some by a reload

subtest 'D-021 a thousand rotations under load lose and double no line' => sub {
    my $b = $t->broker(%opt, workers => 2);
    my @boxes = map { ($b->task)[0] } 1 .. 3;
    rotate($b);
    my $had = descriptors($b->master);
    my @runs = map { asks($boxes[$_], "box$_-", 1 << 30, 2000) } 0 .. 2;

    my (%size, @new);
    for my $i (2 .. $ROTATIONS) {
        AgentTest::wait_for('some lines', sub { -s file($b) > 3000 });
        my $old = rotate($b, $i % 50 ? sub { $b->signal('USR1') } : sub {
            my $said = $t->run([$t->nginx_command($b->prefix, '-s',
                'reopen')], env => { $t->nginx_env });
            is($said->{status}, 0,
               "rotation $i: nginx -s reopen") or diag $said->{err};
        });
        $size{$old} = -s $old;
        push @new, [(stat file($b))[2, 4, 5]];
    }
    my @counts = map { answered($_) } @runs;
    my $all = eval join '+', @counts;
    note "$all lines, $ROTATIONS rotations";
    cmp_ok($all, '>', 5 * $ROTATIONS, 'control: much is written meanwhile');

    my @files = files($b);
    is(scalar @files, $ROTATIONS + 1,
       "there is a file for each of $ROTATIONS rotations");
    my (@missing, @doubled);
    for my $i (0 .. 2) {
        my ($missing, $doubled) = names("box$i-", $counts[$i], @files);
        push @missing, @$missing;
        push @doubled, @$doubled;
    }
    is("@missing[0 .. ($#missing > 9 ? 9 : $#missing)]", '',
       'each line that was answered for is in one of the files');
    is("@doubled[0 .. ($#doubled > 9 ? 9 : $#doubled)]", '',
       'no line is in two of the files');
    is_deeply([grep { -s $_ != $size{$_} } keys %size], [],
              'no line comes to an old file once the new one is there');
    my @errors = $b->audit_errors(@files);
    is_deeply([@errors[0 .. ($#errors > 4 ? 4 : $#errors)]], [],
              'every line is whole, and the numbers run on over all files');
    is_deeply([grep { $t->read($_) =~ /^\n|\n\n/ } @files], [],
              'no line is empty');
    my @first = map { JSON::PP::decode_json(($t->read($_) =~ /^(.*)\n/)[0]) }
                @files[1 .. $#files];
    is_deeply([grep { $_->{event} ne 'config' || $_->{action} ne 'reopen'
                      || !$_->{policies}{analysis} } @first], [],
              'each file begins with the configuration that is in force');
    my @wrong = grep { ($_->[0] & 07777) != 0640 || $_->[1] != $> } @new;
    is(scalar @wrong, 0,
       'each file belongs to the master\'s user and has mode 0640');
    is(descriptors($b->master), $had,
       'the master has no more descriptors than before');
    is_deeply([map { descriptors($_) > 60 ? $_ : () } $b->workers], [],
              'no worker has more than 60 descriptors');
    is_deeply([grep { $_ ne file($b) } map { readlink($_) =~ /agent-audit/
        ? readlink($_) : () } map { glob "/proc/$_/fd/*" } $b->master,
        $b->workers], [],
        'neither the master nor a worker has an old file open');
    unlike($b->error_log, qr/\[(?:alert|emerg|crit)\]/,
           'nothing is reported at alert, emerg or crit')
        or diag grep { /\[(?:alert|emerg|crit)\]/ } split /^/m, $b->error_log;

    # a file that was not moved is not begun again

    my $size = -s file($b);
    my $said = () = $b->error_log =~ /reopening logs/g;
    $b->signal('USR1');
    AgentTest::wait_for('all to hear of it', sub {
        $said + 3 <= (() = $b->error_log =~ /reopening logs/g)
    });
    is(-s file($b), $size, 'a file that was not moved is not begun again');
    $b->stop;
};


# By a reload; and a worker that drains writes what it still has to write to
# the new file, after a reload as after a reopen

for my $way ('a reload', 'a reopen after it') {
    my $b = $t->broker(%opt);
    my ($l) = $b->task;
    my ($worker) = $b->workers;
    $l->do(open => { id => 'slow', port => 8899 });
    $l->do(write => { id => 'slow', data => "GET http://$A/slow?ms=1500 "
        . "HTTP/1.1\r\nHost: $A\r\nConnection: close\r\n\r\n" });
    $b->audit_wait('egress', path => '/slow');

    my $reload = sub {
        $b->signal('HUP');
        AgentTest::wait_for('the old worker to drain', sub { $b->leaving });
    };
    my $old;
    if ($way eq 'a reload') {
        $old = rotate($b, $reload);
    } else {
        $reload->();
        $old = rotate($b);
    }
    my $size = -s $old;
    my $end = $b->audit_wait('egress_end', status => 200);
    like($end->{writer}, qr/\.$worker$/,
         "by $way: a worker that drains writes to the new file");
    is(-s $old, $size,
       "by $way: a worker that drains does not write to the old file");
    AgentTest::wait_for('it to be gone', sub { !$b->leaving });
    is($b->audit_wait('worker', action => 'end')->{writer}, $end->{writer},
       "by $way: the end of that worker is in the new file");
    is_deeply([$b->audit_errors(files($b))], [],
              "by $way: every line of both files is whole and follows in "
              . "number");
    $b->stop;
    unlike($b->error_log, qr/\[(?:alert|emerg|crit)\]/,
           "by $way: nothing is reported at alert, emerg or crit");
}


# A worker that hears of nothing while three hundred files come and go

subtest 'D-021 a worker that missed three hundred rotations writes to '
    . 'the newest'
    => sub {
    my $b = $t->broker(%opt);
    my ($l) = $b->task;
    my ($worker) = $b->workers;
    my $had = descriptors($worker);
    kill 'STOP', $worker;
    rotate($b) for 1 .. 300;
    kill 'CONT', $worker;
    is($l->get("http://evil.example/late")->{status}, 403,
       'a request after the rotations is answered');
    ok($b->audit_wait('egress', path => '/late'),
       'its line is in the newest file');
    rotate($b);
    is($l->get("http://evil.example/later")->{status}, 403,
       'a request after one more rotation is answered');
    ok($b->audit_wait('egress', path => '/later'),
       'its line is in the newest file again');
    AgentTest::wait_for('the signals to be heard', sub {
        descriptors($worker) <= $had
    });
    pass('the worker has no more descriptors than before');
    is_deeply([$b->audit_errors(files($b))], [],
              'every line of all files is whole and follows in number');
    $b->stop;
};


# What cannot be opened leaves the old file in use, and the log says why

subtest 'D-021 what cannot be opened leaves the old file in use' => sub {
    my $b = $t->broker(%opt);
    my ($l) = $b->task;
    my $file = file($b);
    my @cases = (
        ['a directory', sub { mkdir $file }, sub { rmdir $file }],
        ['a link', sub { symlink "$file.to", $file }, sub { unlink $file }],
        ['a FIFO', sub { POSIX::mkfifo($file, 0640) }, sub { unlink $file }],
    );
    push @cases, ['a file of the workers', sub {
        $t->write($file, ''); chown 65534, 65534, $file;
    }, sub { unlink $file }] if AgentTest::is_root();

    for my $case (@cases) {
        my ($what, $make, $undo) = @$case;
        my $old = "$file." . ++$b->{rotated};
        rename $file, $old or die;
        $make->();
        my $said = length $b->error_log;
        $b->signal('USR1');
        AgentTest::wait_for('the refusal', sub {
            substr($b->error_log, $said) =~ /the audit stays in its old file/
        });
        like(substr($b->error_log, $said), qr/\[emerg\].*agent_audit/,
             "$what in its place: the error log says so");
        is($l->get("http://$A/echo")->{status}, 200,
           "$what in its place: requests are served");
        like($t->read($old), qr/"path":"\/echo"/,
             "$what in its place: they are recorded in the old file");
        ok(!-e "$file.to", "$what in its place: nothing is made behind it");
        $undo->();
        $b->signal('USR1');
        AgentTest::wait_for('a new file', sub { -s $file });
        pass("$what in its place: when it is gone a new file is begun");
    }
    is_deeply([$b->audit_errors(files($b))], [],
              'every line of all files is whole and follows in number');
    $b->stop;
};


# By an ordinary user: nginx, its workers and the file are that user's

subtest 'D-021 an ordinary user\'s broker loses and doubles no line '
    . 'either'
    => sub {
    my $uid = $t->user;
    my $b = $t->broker(%opt, user => $uid);
    my ($l) = $b->task('analysis', user => $uid);
    my $run = asks($l, 'user-', 1 << 30, 2000);
    rotate($b) for 1 .. 20;
    my $count = answered($run);
    my ($missing, $doubled) = names('user-', $count, files($b));
    is_deeply([@$missing, @$doubled], [],
              'each line that was answered for is in one file');
    my @stat = stat file($b);
    is(sprintf('%o %d', $stat[2] & 07777, $stat[4]),
       sprintf('640 %d', $uid // $>),
       'the file belongs to that user and has mode 0640');
    is_deeply([$b->audit_errors(files($b))], [],
              'every line of all files is whole and follows in number');
    $b->stop;
    unlike($b->error_log, qr/\[(?:alert|emerg|crit)\]/,
           'nothing is reported at alert, emerg or crit')
        or diag $b->error_log;
};


# A file that is cut, as logrotate's copytruncate does, loses what the copy
# missed: it is noticed and on record, and what comes then is whole

subtest 'D-021 a file that is cut is noticed, and what comes then is '
    . 'whole'
    => sub {
    my $b = $t->broker(%opt);
    my ($l) = $b->task;
    my $file = file($b);
    my $run = asks($l, 'cut-');
    for my $i (1 .. 20) {
        my $before = -s $file;
        AgentTest::wait_for('some lines', sub { -s $file > $before + 2000 });
        truncate $file, $i % 2 ? 0 : 1001 or die;
    }
    AgentTest::wait_for('the line of the last cut', sub {
        $t->read($file) =~ /"action":"file_cut".*"bytes":\d+\}\n/
    });
    my $count = answered($run);
    my $text = $t->read($file);
    unlike($text, qr/\0/, 'the file has no hole');
    my @lines = split /\n/, substr $text, 1001;
    shift @lines;
    is_deeply([grep { length && !eval { JSON::PP::decode_json($_) } } @lines],
              [], 'every line after the last cut is whole');
    my @seqs = map { $_->{seq} } grep { $_->{event} =~ /dns|worker/ }
               map { length ? JSON::PP::decode_json($_) : () } @lines;
    is_deeply(\@seqs, [$seqs[0] .. $seqs[-1]],
              'every line after the last cut follows in number');
    like($text, qr/"host":"cut-@{[ $count - 1 ]}\./,
         'the last line that was answered for is there');
    like($b->error_log, qr/\[alert\].*cut off the audit file/,
         'the error log says that the file was cut');
    $b->stop;
};


# Workers that are killed in the midst of writing: what they have answered for
# is there, once, and the next one says how far they came

subtest 'D-021 D-028 workers that are killed while they write lose no answered '
    . 'line'
    => sub {
    my $b = $t->broker(%opt);
    my (%asked, %count, @killed);
    for my $i (1 .. 25) {
        my ($l) = $b->task;
        my $run = asks($l, "kill$i-");
        my ($worker) = $b->workers;
        AgentTest::wait_for('some lines', sub {
            $t->read(file($b)) =~ /"host":"kill$i-50.example"/
        });
        rotate($b) if $i % 2;
        kill 'KILL', $worker;
        push @killed, $worker;
        rotate($b) if $i % 3 == 0;
        AgentTest::wait_for('the next worker', sub {
            my @now = $b->workers;
            return @now && $now[0] != $worker;
        });
        $count{$i} = answered($run);
    }
    $b->stop;
    my @files = files($b);
    my @bad;
    for my $i (keys %count) {
        my ($missing, $doubled) = names("kill$i-", $count{$i}, @files);
        push @bad, map { "kill$i-$_" } @$missing, @$doubled;
    }
    is_deeply(\@bad, [],
              'each line that was answered for is in one file, once');

    my (%last, %lost, @order);
    for my $text (map { split /\n/, $t->read($_) } @files) {
        my $line = eval { JSON::PP::decode_json($text) } or next;
        $last{ $line->{writer} } = $line->{seq};
        push @{ $lost{ $line->{lost} } }, $line->{last_seq}
            if ($line->{action} // '') eq 'writer_lost';
    }
    my @lost = map { my $pid = $_; grep { /\.$pid$/ } keys %last } @killed;
    is(scalar @lost, 25, 'control: 25 workers were killed');
    is_deeply({ map { $_ => $lost{$_} } sort keys %lost },
              { map { $_ => [$last{$_}] } sort @lost },
              'each is recorded once as lost, with the number of its last '
              . 'line');
    my @torn = grep { length && !eval { JSON::PP::decode_json($_) } }
               map { split /\n/, $t->read($_) } @files;
    cmp_ok(scalar @torn, '<=', 25, 'each of them tore one line at most');
    is_deeply([grep { (() = /"\@timestamp"/g) > 1 } @torn], [],
              'no line is glued to a torn one');
};


# A worker that dies when half of a line is written, and while the master
# moves on: the half is ended, in the file where it is, and has no number

SKIP: {
    skip 'half a line of a dying worker: only root can stop it in a call', 1
        unless AgentTest::is_root();
    subtest 'D-021 half a line of a worker that dies is ended and has no number'
        => sub {

    my $b = $t->broker(%opt);
    my $file = file($b);

    for my $way ('the next worker', 'the master') {
        my ($l) = $b->task;
        $l->get('http://evil.example/');
        my ($worker) = $b->workers;
        my $had = length $t->read($file);
        my ($name, $last) = $t->read($file)
            =~ /.*"writer":"([^"]+\.$worker)","seq":(\d+)/s;
        my $old = $file;
        if ($way eq 'the master') {             # and has the signal already
            $old = "$file." . ++$b->{rotated};
            rename $file, $old or die;
            $b->signal('STOP');
        }
        my $killer = $t->spawn(['/usr/bin/python3',
            "$AgentTest::LIB/half_write.py", $worker, $old, 40], pipes => 1);
        (readline($killer->{out}) // '') eq "ready\n"
            or die 'no tracer: ', readline $killer->{err};
        ok(!$l->get('http://evil.example/cut')->{status},
           "ended by $way: control: the worker dies in its write");
        if ($way eq 'the master') {
            AgentTest::wait_for('its end', sub {
                $t->read("/proc/$worker/stat") =~ /\) Z/
            });
            $b->signal('USR1');
            $b->signal('CONT');
        }
        AgentTest::wait_for('the loss on record', sub {
            $t->read($file) =~ /"last_seq":$last,"lost":"\Q$name\E"\}\n/
        });
        pass(
             "ended by $way: the loss is recorded without a number for the "
             . "half line");
        my ($half, @next) = split /(?<=\n)/, substr $t->read($old), $had;
        like($half, qr/^\{"\@timestamp.{28}\n?\z/,
             "ended by $way: control: half of the line is there");
        push @next, split /^/m, $t->read($file) if $old ne $file;
        is_deeply([grep { !eval { JSON::PP::decode_json($_) } } @next], [],
                  "ended by $way: each line after it is whole");
        unlike($t->read($file), qr/^\n/, "ended by $way: no line is empty");
    }
    $b->stop;
    };
}


# D-022: no number of lines and no size of the file is the end of it

subtest 'D-022 neither a number of lines nor a size of the file ends the '
    . 'record'
    => sub {
    my $events = $ENV{AGENT_TEST_EVENTS} || 120_000;
    my $prefix = $t->nginx_prefix;
    my $file = $t->write("$prefix/logs/agent-audit.log", "{}\n", 0640);
    my $head = (1 << 32) + 12_345;              # a hole: nothing of the disk
    truncate $file, $head or die "truncate: $!";
    my $b = $t->broker(%opt, prefix => $prefix, workers => 2);
    my @boxes = map { ($b->task)[0] } 1 .. 2;
    my @runs = map { asks($boxes[$_], "many$_-", $events / 2) } 0, 1;
    my @counts = map { answered($_, 0) } @runs;
    is("@counts", join(' ', ($events / 2) x 2), "$events events are answered");

    for my $i (0, 1) {
        my $reply = $boxes[$i]->ask('task', { op => 'close', reason => 'ok',
                                              exit_code => 0, usage => {} });
        is($reply->{egress}{audit_lines}, $events / 2 + 2,
           "the events of task $i are counted");
    }

    open my $f, '<', $file or die;
    seek $f, $head + 1, 0;                      # and the newline after half a line
    my (%seq, @wrong, %names);
    while (my $text = readline $f) {
        my ($writer, $seq) = $text =~ /"writer":"([^"]+)","seq":(\d+)[,}]/;
        push @wrong, $text if !$seq || $seq != ++$seq{$writer};
        $names{$1}++ if $text =~ /"host":"(many[^"]+)"/;
    }
    is(scalar @wrong, 0,
       'all lines are in a file of over 4 GiB, and follow in number');
    is(scalar(keys %names), $events, 'each event is there');
    is_deeply([grep { $_ > 1 } values %names], [], 'no event is there twice');
    $b->stop;
    unlink $file;
};


# A limit on the size of files is a full disk, and not the end of a worker

subtest 'a limit on the size of files is a full disk, and not the end of '
    . 'a worker'
    => sub {
    my $limited = $t->write('nginx-limited', <<"END", 0755);
#!/bin/sh
exec prlimit --fsize=65536 -- @{[ AgentTest::nginx_binary() ]} "\$@"
END
    local $ENV{AGENT_TEST_NGINX} = $limited;
    my $b = $t->broker(%opt, log_level => 'crit');
    my ($l) = $b->task;
    my ($worker) = $b->workers;
    is(answered(asks($l, 'limit-', 300), 0), 300,
       'questions for names are answered as before');
    is($l->get("http://$A/echo")->{status}, 503,
       'a request that cannot be recorded is refused with 503');
    is(($b->workers)[0], $worker, 'the worker is the same');
    rotate($b);
    is($l->get("http://$A/echo")->{status}, 200,
       'with a new file a request is served');
    $b->stop;
};

done_testing;
