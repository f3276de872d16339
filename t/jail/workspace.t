#!/usr/bin/perl

# A workspace is copied into the box and back: the result names what the task
# changed, nothing leads outside, and nothing comes that the host would run.
#
# sanitizers: trees that a task has made are read

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

sub content ($path) { return scalar read_file($path) }

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

    subtest "$way: a workspace is copied into the box and back" => sub {
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
           'the box has files, links, times and modes');
        is($j->{reason}, 'nonzero', 'the task ended by itself');
        is_deeply($j->{workspace}, { copied => JSON::PP::true,
            added => ['d/', 'd/e/', 'd/e/f', 'd/l', 'tool'], changed => ['a'],
            removed => ['sub/c', 'old/x', 'old/'], refused => [], more => 0 },
            'the result names what was added, changed and removed')
        or diag explain $j->{workspace};
        is(content("$dir/a"), "new\n", 'a changed file comes back');
        is(S_IMODE((stat "$dir/a")[2]), 0640, 'a changed file keeps its mode');
        is(content("$dir/d/e/f"), "deep\n", 'a new file comes');
        is(readlink "$dir/d/l", 'e/f', 'a new link that stays inside comes');
        is(S_IMODE((stat "$dir/tool")[2]) & 07100, 0100,
           'a program stays one, without its set-user-id bit');
        is((stat "$dir/same")[1], $ino,
           'a file that did not change is not touched');
        is(list($dir), 'a d d/e d/e/f d/l link out run.sh same sub sub/b tool',
           'what was removed is gone, and nothing else is there');
        is((lstat "$dir/d/e/f")[4], $user ? user_id() : $>,
           'a new file is the caller\'s');

        $j = work($dir,
        'cat d/e/f; rm -r d; echo now a file > d; rm a; mkdir a; '
                      . 'touch a/in', $user);
        is_deeply($j->{workspace}{refused}, [],
                  'a file and a directory may change into each other');
        is(content("$dir/d"), "now a file\n",
           'a directory was replaced by a file');
        ok(-e "$dir/a/in", 'a file was replaced by a directory');
    };

    my $host = write_file("host.$n", 'host');
    chmod 0666, $host;

    subtest "A-025 $way: a link that leads outside is refused" => sub {
        my $dir = workspace($user, 'data' => \$host, 'dir/x' => 'x');
        my $j = work($dir, "cat data; rm -r dir; ln -s ${\dir()} dir; "
               . "ln -s $host abs; ln -s ../x up; mkdir s; ln -s .. s/ok; "
               . 'ln -s ok/../../x s/via; rm data; echo evil > data', $user);
        is_deeply(refused($j), { abs => 'leads_outside', up => 'leads_outside',
            dir => 'leads_outside', 's/via' => 'leads_outside' },
            'the result names each such link');
        is(content($host), 'host', 'what a link led to is untouched');
        is(content("$dir/data"), "evil\n",
           'the link itself was replaced by a file');
        is(readlink "$dir/s/ok", '..',
           'a link that stays inside is copied back');
    };

    subtest "A-041 $way: what the host would run is refused" => sub {
        my $dir = workspace($user, '.git/HEAD' => "ref: refs/heads/main\n",
               '.git/config' => "[core]\n", '.git/hooks/pre-commit' => 'mine',
               '.bashrc' => 'mine');
        my $j = work($dir, 'echo evil >> .git/config; '
               . 'echo evil > .git/hooks/post-checkout; rm .git/hooks/pre-commit; '
               . 'echo evil >> .bashrc; ln -s x .envrc; mkdir .vscode; '
               . 'echo {} > .vscode/tasks.json; echo {} > .mcp.json; '
               . 'mv .git was; mkdir .git; cp was/HEAD .git; echo ok > .git/index; '
               . 'mkdir -p bare/objects bare/refs; cp was/HEAD bare; '
               . 'echo evil > bare/config', $user);
        my $refused = refused($j);
        for my $name ('.git/config', '.git/hooks/pre-commit', '.bashrc',
                      '.envrc',
                      '.vscode/', '.vscode/tasks.json', '.mcp.json',
                      'bare/config') {
            is($refused->{$name}, 'runs_code',
               "the result says that $name runs code");
        }
        is(content("$dir/.git/config"), "[core]\n",
           'the config of git stays as it was');
        is(content("$dir/.git/hooks/pre-commit"), 'mine',
           'the hook of git stays as it was');
        is(content("$dir/.bashrc"), 'mine',
           'the start-up file stays as it was');
        ok(!-e "$dir/$_", "$_ did not come")
            for '.vscode', '.mcp.json', '.envrc', 'bare/config';
        ok(!-l "$dir/.envrc", '.envrc did not come as a link either');
        is(content("$dir/.git/index"), "ok\n", 'control: data of git\'s comes');
    };

    # a repository in two tasks: its config, and then what makes it one

    for my $part ('HEAD', 'objects', 'refs', 'commondir') {
        subtest "A-041 $way: no repository is made in two tasks, with $part "
                . "last" => sub
        {
            my $dir = workspace($user,
                                'mine.git/HEAD' => "ref: refs/heads/main\n",
                                'mine.git/objects/x' => '',
                                'mine.git/refs/x' => '');
            my $all = 'mkdir -p s/objects s/refs; echo x > s/HEAD; '
                      . ($part eq 'commondir' ? 'echo y > s/commondir; '
                         . 'rm -r s/objects; ' : '');
            my $j = work($dir, "$all rm -r s/$part; echo evil > s/config",
                         $user);
            is_deeply(refused($j), {}, 'a file "config" by itself comes');
            $j = work($dir, "rm -r s/config; $all echo good > mine.git/HEAD",
                      $user);
            my $name = $part =~ /s$/ ? "s/$part/" : "s/$part";
            is(refused($j)->{$name}, 'runs_code',
               "with it there, the result says that $part runs code");
            ok(!-e "$dir/s/$part", "$part did not come");
            is(content("$dir/mine.git/HEAD"), "good\n",
               'what was a repository before may change');
        };
    }

    subtest "A-026 $way: special files are copied neither in nor back" => sub {
        my $dir = workspace($user, 'a' => 'a');
        POSIX::mkfifo("$dir/fifo", 0600);
        chown user_id(), user_id(), "$dir/fifo" if $user && $> == 0;
        my $j = work($dir,
        'test -e fifo || echo none; echo x > fifo; mkfifo a2; '
                         . 'truncate -s 1T big; echo b > b', $user);
        is($j->{stdout}, "none\n", 'a FIFO of the workspace is not in the box');
        is_deeply(refused($j), { fifo => 'conflict', a2 => 'special',
                                 big => 'too_large' },
                                 'the result names a FIFO and a file that is '
                                 . 'too large');
        ok(-p "$dir/fifo", 'the FIFO of the workspace is still there');
        is(content("$dir/b"), "b\n", 'control: a file comes');
    };

    subtest "$way: what others changed in the meantime is not overwritten"
        => sub
    {
        my $dir = workspace($user, 'mine' => 'a', 'gone' => 'b', 'same' => 'c');
        # the task goes on when the files have changed
        pipe(my $in, my $go) or die $!;
        my $p = spawn(['run', '--offline', '--workspace', $dir, '--stdin', '--',
                       'sh', '-c', 'echo box > mine; echo box > new; rm gone; '
                       . 'echo box > same; read line'],
                      user => $user, before => sub { open STDIN, '<&', $in });
        wait_for('the box', sub { children((alive($p))[0] // 0) });
        write_file("$dir/$_", 'other') for qw(mine new gone);
        close $go;
        my $r = finish($p);
        is_deeply(refused($r->{json}), { map { $_ => 'conflict' }
                                         qw(mine new gone) },
                  'the result names each as a conflict');
        is(content("$dir/$_"), 'other',
           "the others' $_ is there") for qw(mine new gone);
        is(content("$dir/same"), "box\n",
           'a file that only the task changed comes back');
    };

    subtest "A-114 $way: a workspace in use is refused" => sub {
        my $dir = workspace($user, 'a' => 'a');
        my $p = spawn(['run', '--offline', '--workspace', $dir, '--', 'sleep',
                       '99'],
                      user => $user);
        wait_for('the lock', sub {
            open my $l, '<', '/proc/locks';
            return grep { /FLOCK.* $p->{pid} / && /:${\((stat $dir)[1])} / } <$l>;
        });
        my $r = jail(['run', '--offline', '--workspace', $dir, '--', 'true'],
                     user => $user);
        is($r->{status}, 125, 'the second launcher does not start its task');
        is($r->{json}{error}{stage}, 'workspace', 'the stage is the workspace');
        like($r->{json}{error}{message},
             qr/in use by process $p->{pid} \(jail\)/,
             'the message names the process that uses it');
        kill TERM => $p->{pid};
        $r = finish($p);
        is($r->{json}{reason}, 'canceled', 'the first task is not disturbed');
        is_deeply($r->{json}{workspace}{copied}, JSON::PP::false,
                  'a task that is ended copies nothing back');
        my $j = work($dir, 'cat a', $user);
        is($j->{stdout}, 'a', 'the workspace is free after that');
    };

    for (['timeout', 'sleep 99', '--wall-clock', '300ms'],
         ['signal', 'kill -9 $$'], ['disk', 'head -c 300m /dev/zero > big']) {
        my ($reason, $script, @args) = @$_;
        subtest "$way: a task that ends for $reason copies nothing back"
            => sub
        {
            my $dir = workspace($user, 'a' => 'before', 'b' => 'b');
            my $j = work($dir, "echo half > a; rm b; $script", $user,
                         args => \@args);
            is($j->{reason}, $reason, 'the reason');
            is_deeply($j->{workspace}, { copied => JSON::PP::false,
                                        changed => [],
                added => [], removed => [], refused => [], more => 0 },
                'the result says that nothing was copied');
            is(content("$dir/a"), 'before', 'a changed file is as it was');
            is(list($dir), 'a b', 'a removed file is there');
        };
    }

    subtest "$way: what cannot be a workspace is refused" => sub {
        my $dir = workspace($user, 'big' => 'x' x 100);
        truncate "$dir/big", 64 << 20;
        my $r = jail(['run', '--offline', '--workspace', $dir, '--memory',
                      '64m',
                      '--', 'true'], user => $user);
        is($r->{status}, 125, 'one that is too large: the status is 125');
        like($r->{json}{error}{message}, qr/more than 33554432 bytes/,
             'one that is too large: the message has the limit');

        for my $bad ("$dir/none", "$dir/big", '/') {
            $r = jail(['run', '--offline', '--workspace', $bad, '--', 'true'],
                      user => $user);
            is($r->{status}, 125, "$bad: the status is 125");
            is($r->{json}{error}{stage}, 'workspace',
               "$bad: the stage is the workspace");
        }
        $r = jail(['run', '--offline', '--workspace', $dir, '--', 'true'],
                  user => $user, env => { HOME => "$dir" });
        like($r->{json}{error}{message}, qr/home/,
             'a home: the message says so');
    };

    subtest "$way: a copy that fails, as on a full disk, leaves all as it was"
        => sub
    {
        my $dir = workspace($user, 'a' => 'before', 'gone' => 'x');
        my $j = work($dir, 'echo after > a; rm gone; '
               . 'head -c 100000 /dev/zero | tr "\0" x > large', $user,
               program => ['sh', '-c', 'ulimit -S -f 128; exec "$@"', 'sh']);
        is($j->{reason}, 'ok', 'the reason is the task\'s own');
        is($j->{error}{stage}, 'workspace',
           'the stage of the error is the workspace');
        is(list($dir), 'a gone', 'nothing came and nothing is gone');
        is(content("$dir/a"), 'before', 'a changed file is as it was');
    };

    subtest "$way: names that a task makes do not fill the result" => sub {
        my $dir = workspace($user);
        my $j = work($dir, 'n=$(printf %200s | tr " " x); '
                         . 'for i in $(seq 900); do : > $n$i; done', $user);
        cmp_ok(length JSON::PP->new->encode($j), '<', 200_000,
               'the result is shorter than 200,000 bytes');
        is(@{ $j->{workspace}{added} } + $j->{workspace}{more}, 900,
           'what is not named is counted');
        is(scalar(split / /, list($dir)), 900, 'all are copied');
    };

    subtest "$way: what a killed launcher left is removed" => sub {
        my $dir = workspace($user, 'a' => 'a', '.agent-workspace/0' => 'left');
        my $j = work($dir, 'ls -A', $user);
        is($j->{stdout}, "a\n", 'it is not in the box');
        is(list($dir), 'a', 'it is not in the workspace afterwards');
    };

    subtest "$way: --in beside a workspace" => sub {
        my $dir = workspace($user, 'a' => 'a');
        my $j = work($dir, 'ls', $user, args => ['--in', $host]);
        like($j->{stdout}, qr/^host/m, 'the file is in the box');
        is(list($dir), 'a', 'its link is not copied back');
    };
}

subtest 'a workspace that belongs to another user is refused' => sub {
    plan skip_all => 'only root can be two users' if $> != 0;
    my $dir = workspace(0, 'a' => 'a');
    chmod 0777, $dir;
    my $r = jail(['run', '--offline', '--workspace', $dir, '--', 'true'],
                 user => 1);
    like($r->{json}{error}{message}, qr/belongs to another user/,
         'the message says so');
};

done_testing;
