#!/usr/bin/perl

# A workspace is copied into the box and back: what the task changed is told
# by name, nothing leads out, and nothing comes that the host would run.
#
# sanitizers: trees of a task's making are read

use v5.36;

use Fcntl qw(S_IMODE);
use File::Path qw(make_path);
use FindBin;
use lib $FindBin::Bin;
use Jail;
use Test::More;

my $n = 0;

# A workspace of these files; a value that is a reference is a link's target.
sub workspace ($user, %files) {
    my $dir = dir() . '/ws.' . ++$n;
    mkdir $dir;
    for my $path (sort keys %files) {
        make_path("$dir/$1") if $path =~ m{(.*)/};
        if (ref $files{$path}) {
            symlink ${ $files{$path} }, "$dir/$path" or die $!;
            next;
        }
        open my $f, '>', "$dir/$path" or die $!;
        print $f $files{$path};
        close $f;
    }
    if ($user && $> == 0) {
        system('chown', '-hR', user_id() . ':' . user_id(), $dir);
    }
    return $dir;
}

sub work ($dir, $script, $user, %opt) {
    my $r = jail(['run', '--offline', '--workspace', $dir,
                  @{ $opt{args} // [] }, '--', 'sh', '-c', $script],
                 user => $user, %opt);
    diag $r->{out}, $r->{err} if !$r->{json};
    return $r->{json};
}

sub content ($path) {
    open my $f, '<', $path or return;
    local $/;
    return scalar <$f>;
}

sub list ($dir) {
    return join ' ', sort map { s{^\./}{}r } grep { $_ ne '.' } split /\n/,
        `cd $dir && find . -mindepth 1`;
}

# A process of that name among the children of one, or theirs.
sub has_child ($pid, $name) {
    my @children = split ' ', join ' ', map { content($_) // '' }
                   glob "/proc/$pid/task/*/children";
    for my $child (@children) {
        return 1 if (content("/proc/$child/comm") // '') eq "$name\n"
                    || has_child($child, $name);
    }
    return 0;
}

sub refused ($j) {
    return { map { ($_->{name} => $_->{reason}) }
             @{ $j->{workspace}{refused} } };
}

for my $user (ways()) {
    my $way = way($user);

    # there and back

    my $dir = workspace($user, 'a' => "one\n", 'sub/b' => "two\n",
        'sub/c' => "three\n", 'same' => "same\n", 'old/x' => 'x',
        'link' => \'a', 'out' => \'/etc/passwd', 'run.sh' => "#!/bin/sh\n");
    chmod 0640, "$dir/a";
    chmod 0755, "$dir/run.sh";
    utime 1000000000, 1000000000, "$dir/same", "$dir/sub/c";
    my $ino = (stat "$dir/same")[1];

    my $j = work($dir, 'cat a sub/b; readlink link out; stat -c %Y same; '
        . 'test -x run.sh && echo runs; echo new > a; rm sub/c; rm -r old; '
        . 'mkdir -p d/e; echo deep > d/e/f; ln -s e/f d/l; touch same; '
        . 'printf "#!/bin/sh\n" > tool; chmod 4755 tool; exit 3', $user);
    is($j->{stdout}, "one\ntwo\na\n/etc/passwd\n1000000000\nruns\n",
       "$way: the box has files, links, times and modes");
    is($j->{reason}, 'nonzero', 'the task ended by itself');
    is_deeply($j->{workspace}, { copied => JSON::PP::true,
        added => ['d/', 'd/e/', 'd/e/f', 'd/l', 'tool'], changed => ['a'],
        removed => ['sub/c', 'old/x', 'old/'], refused => [], more => 0 },
        'what has changed is told by name') or diag explain $j->{workspace};
    is(content("$dir/a"), "new\n", 'a changed file comes back');
    is(S_IMODE((stat "$dir/a")[2]), 0640, 'with the mode it had');
    is(content("$dir/d/e/f"), "deep\n", 'a new one comes');
    is(readlink "$dir/d/l", 'e/f', 'a link inside comes');
    is(S_IMODE((stat "$dir/tool")[2]) & 07100, 0100,
       'a program stays one, without its set-user-id bit');
    is((stat "$dir/same")[1], $ino, 'what did not change is not touched');
    is(list($dir), 'a d d/e d/e/f d/l link out run.sh same sub sub/b tool',
       'what was removed is gone, and nothing else is there');
    is((lstat "$dir/d/e/f")[4], $user ? user_id() : $>, 'all is the caller\'s');

    $j = work($dir, 'cat d/e/f; rm -r d; echo now a file > d; rm a; mkdir a; '
                  . 'touch a/in', $user);
    is_deeply($j->{workspace}{refused}, [], 'types may change');
    is(content("$dir/d"), "now a file\n", 'a directory into a file');
    ok(-e "$dir/a/in", 'and a file into a directory');

    # links

    my $host = dir() . "/host.$n";
    open my $f, '>', $host; print $f 'host'; close $f;
    chmod 0666, $host;
    $dir = workspace($user, 'data' => \$host, 'dir/x' => 'x');
    $j = work($dir, "cat data; rm -r dir; ln -s ${\dir()} dir; "
        . "ln -s $host abs; ln -s ../x up; mkdir s; ln -s .. s/ok; "
        . 'ln -s ok/../../x s/via; rm data; echo evil > data', $user);
    is_deeply(refused($j), { abs => 'leads_outside', up => 'leads_outside',
        dir => 'leads_outside', 's/via' => 'leads_outside' },
        "A-025 $way: a link that leads outside is refused and told");
    is(content($host), 'host', 'A-025 what a link led to is untouched');
    is(content("$dir/data"), "evil\n", 'the link itself was replaced');
    is(readlink "$dir/s/ok", '..', 'a link that stays inside is not refused');

    # what the host would run

    $dir = workspace($user, '.git/HEAD' => "ref: refs/heads/main\n",
        '.git/config' => "[core]\n", '.git/hooks/pre-commit' => 'mine',
        '.bashrc' => 'mine');
    $j = work($dir, 'echo evil >> .git/config; '
        . 'echo evil > .git/hooks/post-checkout; rm .git/hooks/pre-commit; '
        . 'echo evil >> .bashrc; ln -s x .envrc; mkdir .vscode; '
        . 'echo {} > .vscode/tasks.json; echo {} > .mcp.json; '
        . 'mv .git was; mkdir .git; cp was/HEAD .git; echo ok > .git/index; '
        . 'mkdir -p bare/objects bare/refs; cp was/HEAD bare; '
        . 'echo evil > bare/config', $user);
    my $refused = refused($j);
    for my $name ('.git/config', '.git/hooks/pre-commit', '.bashrc', '.envrc',
                  '.vscode/', '.vscode/tasks.json', '.mcp.json',
                  'bare/config') {
        is($refused->{$name}, 'runs_code',
           "A-041 $way: $name is refused and told");
    }
    is(content("$dir/.git/config"), "[core]\n", 'A-041 and stays as it was');
    is(content("$dir/.git/hooks/pre-commit"), 'mine', 'A-041 the hook too');
    is(content("$dir/.bashrc"), 'mine', 'A-041 and the start-up file');
    ok(!-e "$dir/$_", "A-041 $_ did not come")
        for '.vscode', '.mcp.json', '.envrc', 'bare/config';
    ok(!-l "$dir/.envrc", 'A-041 not as a link either');
    is(content("$dir/.git/index"), "ok\n", 'git\'s data comes');

    # a repository in two tasks: its config, and then what makes it one

    for my $part ('HEAD', 'objects', 'refs', 'commondir') {
        $dir = workspace($user, 'mine.git/HEAD' => "ref: refs/heads/main\n",
                         'mine.git/objects/x' => '', 'mine.git/refs/x' => '');
        my $all = 'mkdir -p s/objects s/refs; echo x > s/HEAD; '
                  . ($part eq 'commondir' ? 'echo y > s/commondir; '
                     . 'rm -r s/objects; ' : '');
        $j = work($dir, "$all rm -r s/$part; echo evil > s/config", $user);
        is_deeply(refused($j), {}, "$way: a config alone is none of git's");
        $j = work($dir, "rm -r s/config; $all echo good > mine.git/HEAD",
                  $user);
        my $name = $part =~ /s$/ ? "s/$part/" : "s/$part";
        is(refused($j)->{$name}, 'runs_code',
           "A-041 $way: it gets no $part, in a second task either");
        ok(!-e "$dir/s/$part", "A-041 $way: there is no $part");
        is(content("$dir/mine.git/HEAD"), "good\n",
           'what was a repository before may change');
    }

    # special files, on either side

    $dir = workspace($user, 'a' => 'a');
    POSIX::mkfifo("$dir/fifo", 0600);
    chown user_id(), user_id(), "$dir/fifo" if $user && $> == 0;
    $j = work($dir, 'test -e fifo || echo none; echo x > fifo; mkfifo a2; '
                  . 'truncate -s 1T big; echo b > b', $user);
    is($j->{stdout}, "none\n", "A-026 $way: a FIFO is not copied in");
    is_deeply(refused($j), { fifo => 'conflict', a2 => 'special',
                             big => 'too_large' }, 'A-026 nor back');
    ok(-p "$dir/fifo", 'it is still there');
    is(content("$dir/b"), "b\n", 'and what is a file comes');

    # others at work in the meantime

    $dir = workspace($user, 'mine' => 'a', 'gone' => 'b', 'same' => 'c');
    my $p = spawn(['run', '--offline', '--workspace', $dir, '--', 'sh', '-c',
        'echo box > mine; echo box > new; rm gone; echo box > same; sleep 1'],
        user => $user);
    wait_for('the box', sub { has_child($p->{pid}, 'sleep') });
    for my $name (qw(mine new gone)) {
        open $f, '>', "$dir/$name"; print $f 'other'; close $f;
    }
    my $r = finish($p);
    is_deeply(refused($r->{json}), { map { $_ => 'conflict' }
                                     qw(mine new gone) },
              "$way: what others changed meanwhile is not overwritten");
    is(content("$dir/$_"), 'other', "$_ is theirs") for qw(mine new gone);
    is(content("$dir/same"), "box\n", 'what nobody else changed comes back');

    # two at once

    $dir = workspace($user, 'a' => 'a');
    $p = spawn(['run', '--offline', '--workspace', $dir, '--', 'sleep', '10'],
               user => $user);
    wait_for('the lock', sub {
        open my $l, '<', '/proc/locks';
        return grep { /FLOCK.* $p->{pid} / && /:${\((stat $dir)[1])} / } <$l>;
    });
    $r = jail(['run', '--offline', '--workspace', $dir, '--', 'true'],
              user => $user);
    is($r->{status}, 125, "A-114 $way: a workspace in use is refused");
    cmp_ok($r->{ms}, '<', 8000, 'at once');
    is($r->{json}{error}{stage}, 'workspace', 'as such');
    like($r->{json}{error}{message}, qr/in use by process $p->{pid} \(jail\)/,
         'with its holder');
    kill TERM => $p->{pid};
    $r = finish($p);
    is($r->{json}{reason}, 'canceled', 'the other one is not disturbed');
    is_deeply($r->{json}{workspace}{copied}, JSON::PP::false,
              'a task that is ended copies nothing back');
    $j = work($dir, 'cat a', $user);
    is($j->{stdout}, 'a', 'and then it is free');

    # only what has ended by itself

    for (['timeout', 'sleep 20', '--wall-clock', '300ms'],
         ['signal', 'kill -9 $$'], ['disk', 'head -c 300m /dev/zero > big']) {
        my ($reason, $script, @args) = @$_;
        $dir = workspace($user, 'a' => 'before', 'b' => 'b');
        $j = work($dir, "echo half > a; rm b; $script", $user,
                  args => \@args);
        is($j->{reason}, $reason, "$way: after $reason");
        is_deeply($j->{workspace}, { copied => JSON::PP::false, changed => [],
            added => [], removed => [], refused => [], more => 0 },
            'nothing is copied back, and that is told');
        is(content("$dir/a"), 'before', 'files are as they were');
        is(list($dir), 'a b', 'none is gone');
    }

    # what cannot be one

    $dir = workspace($user, 'big' => 'x' x 100);
    truncate "$dir/big", 64 << 20;
    $r = jail(['run', '--offline', '--workspace', $dir, '--memory', '64m',
               '--', 'true'], user => $user);
    is($r->{status}, 125, "$way: a workspace too large is refused");
    like($r->{json}{error}{message}, qr/more than 33554432 bytes/, 'as such');

    for my $bad ("$dir/none", "$dir/big", '/') {
        $r = jail(['run', '--offline', '--workspace', $bad, '--', 'true'],
                  user => $user);
        is($r->{status}, 125, "$way: $bad is no workspace");
        is($r->{json}{error}{stage}, 'workspace', 'which is told');
    }
    $r = jail(['run', '--offline', '--workspace', $dir, '--', 'true'],
              user => $user, env => { HOME => "$dir" });
    like($r->{json}{error}{message}, qr/home/, 'nor is a home');

    # a host that has no room left: nothing is half done

    $dir = workspace($user, 'a' => 'before', 'gone' => 'x');
    $j = work($dir, 'echo after > a; rm gone; '
        . 'head -c 100000 /dev/zero | tr "\0" x > large', $user,
        program => ['sh', '-c', 'ulimit -S -f 128; exec "$@"', 'sh']);
    is($j->{reason}, 'ok', "$way: a copy that fails is not the task's fault");
    is($j->{error}{stage}, 'workspace', 'it is told');
    is(list($dir), 'a gone', 'nothing came and nothing is gone');
    is(content("$dir/a"), 'before', 'nothing changed');

    # the result stays small

    $dir = workspace($user);
    $j = work($dir, 'n=$(printf %200s | tr " " x); '
                  . 'for i in $(seq 900); do : > $n$i; done', $user);
    cmp_ok(length JSON::PP->new->encode($j), '<', 200_000,
           "$way: names of the task's do not fill the result");
    is(@{ $j->{workspace}{added} } + $j->{workspace}{more}, 900,
       'what is not named is counted');
    is(scalar(split / /, list($dir)), 900, 'and copied all the same');

    # what a killed launcher left

    $dir = workspace($user, 'a' => 'a', '.agent-workspace/0' => 'left');
    $j = work($dir, 'ls -A', $user);
    is($j->{stdout}, "a\n", "$way: what a killed launcher left is not copied");
    is(list($dir), 'a', 'and removed');

    # the task's own files are not the workspace's

    $dir = workspace($user, 'a' => 'a');
    $j = work($dir, 'ls', $user, args => ['--in', $host]);
    like($j->{stdout}, qr/^host/m, "$way: --in beside a workspace");
    is(list($dir), 'a', 'its link does not come back');
}

SKIP: {
    skip 'needs two users', 1 if $> != 0;
    my $dir = workspace(0, 'a' => 'a');
    chmod 0777, $dir;
    my $r = jail(['run', '--offline', '--workspace', $dir, '--', 'true'],
                 user => 1);
    like($r->{json}{error}{message}, qr/belongs to another user/,
         'a directory of another user is no workspace');
}

done_testing;
