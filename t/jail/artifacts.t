#!/usr/bin/perl

# What a task leaves under /run/task/out comes into a directory of the
# caller's: regular files only, as they are, and nothing through a link.
#
# sanitizers: what a task left is collected

use v5.36;

use Digest::SHA qw(sha256_hex);
use Fcntl qw(S_IMODE);
use FindBin;
use lib $FindBin::Bin;
use Jail;
use Test::More;

my $n = 0;

sub place ($user) {
    my $parent = dir() . '/out.' . ++$n;
    mkdir $parent;
    chown user_id(), user_id(), $parent if $user && $> == 0;
    return "$parent/dir";
}

sub out ($script, $user, %opt) {
    my $dir = $opt{dir} // place($user);
    my $r = jail(['run', '--offline', '--out', $dir, @{ $opt{args} // [] },
                  '--', 'sh', '-c', "cd \$TASK_OUT && $script"],
                 user => $user, %opt);
    diag $r->{out}, $r->{err} if !$r->{json};
    return ($r->{json}, $dir, $r);
}

sub content ($path) { return scalar read_file($path) }

sub names ($dir) {
    opendir my $d, $dir or return;
    return sort grep { !/^\.\.?$/ } readdir $d;
}

sub skipped ($j) {
    return { map { ($_->{name} => $_->{reason}) } @{ $j->{artifacts_skipped} } };
}

for my $user (ways()) {
    my $way = way($user);

    subtest "$way: files of the task come into the caller's directory" => sub {
        my ($j, $dir) = out('printf "a,b\n1,2\n" > t.csv; mkdir sub; '
            . 'echo "{\"x\": 1}" > sub/result; printf "\211PNG\r\n\032\n" > p.txt;'
            . ': > empty; echo no >&2; chmod 4777 t.csv; exit 3', $user);
        is($j->{reason}, 'nonzero', 'the reason of the task is the same as without --out');
        is_deeply([map { [@$_{qw(name bytes type sha256)}] } @{ $j->{artifacts} }],
            [['empty', 0, 'text/plain', sha256_hex('')],
             ['p.txt', 8, 'image/png', sha256_hex("\x89PNG\r\n\x1a\n")],
             ['sub/result', 9, 'application/json', sha256_hex("{\"x\": 1}\n")],
             ['t.csv', 8, 'text/csv', sha256_hex("a,b\n1,2\n")]],
            'the result has the size, type and hash of each file');
        is_deeply($j->{artifacts_skipped}, [], 'no file was left out');
        is(content("$dir/t.csv"), "a,b\n1,2\n", 'a file is there');
        is(content("$dir/sub/result"), "{\"x\": 1}\n",
           'a file in a directory is there');
        is(S_IMODE((stat "$dir/t.csv")[2]), 0600,
           'a file is readable by its owner only, without the set-user-id bit');
        is(S_IMODE((stat "$dir/sub")[2]), 0700,
           'a directory is open to its owner only');
        is((stat "$dir/t.csv")[4], $user ? user_id() : $>,
           'a file is the caller\'s');
    };


    subtest "A-025 $way: a link that the task left is not followed" => sub {
        my $host = write_file("host.$n", 'host-marker');
        my ($j, $dir) = out("echo in > real; mkdir d; echo deep > d/f; "
               . "ln -s $host absolute; ln -s ../../../../..$host relative; "
               . 'ln -s real inside; ln -s d directory; ln -s nowhere dangling; '
               . 'ln -s /proc/self/fd/1 magic; ln real again; ln real d/again',
               $user);
        is_deeply(skipped($j), { absolute => 'symlink', relative => 'symlink',
            inside => 'symlink', directory => 'symlink', dangling => 'symlink',
            magic => 'symlink', real => 'hard_link', 'd/again' => 'hard_link' },
            'the result names links as links');
        is_deeply([names($dir)], ['again', 'd'], 'no name of a link is there');
        is(content("$dir/again"), "in\n",
           'a file with three names is taken once');
        is(content("$dir/d/f"), "deep\n", 'control: a directory is entered');
    };

    subtest "A-026 $way: what is not a file, or too large, is left out" => sub {
        my ($j, $dir) = out('mkfifo fifo; python3 -c "import socket; '
               . 's = socket.socket(socket.AF_UNIX); s.bind(\"socket\")"; '
               . 'mknod device c 1 3; truncate -s 1T sparse; '
               . 'truncate -s 4M hole; echo ok > ok; '
               . "printf x > \"\$(printf 'a\\n\\033[2J\\377\\\\b')\"", $user);
        is_deeply(skipped($j), { fifo => 'fifo', socket => 'socket',
                                 sparse => 'too_large' },
                  'the result names a FIFO, a socket and a sparse file');
        is_deeply([map { $_->{name} } @{ $j->{artifacts} }],
                  ['a\x0a\x1b[2J\xff\\\\b', 'hole', 'ok'],
                  'a name that a terminal would obey is escaped');
        is(-s "$dir/hole", 4 << 20, 'a hole within bounds is taken');
        cmp_ok((stat "$dir/hole")[12], '<', 64, 'a hole takes no room');
        like($j->{stderr}, qr/mknod/, 'a device cannot be made at all');
    };

    subtest "$way: of too many files a thousand are taken" => sub {
        my ($j, $dir) = out('for i in $(seq 1100); do : > $i; done', $user);
        is(scalar @{ $j->{artifacts} }, 1000, 'the result has 1000 files');
        is(scalar(() = names($dir)), 1000, 'the directory has 1000 files');
        is(scalar(grep { $_ eq 'too_many' } values %{ skipped($j) }), 100,
           'the result names the other hundred');
    };

    subtest "$way: names that a task makes do not fill the result" => sub {
        my ($j, $dir) = out('n=$(printf %200s | tr " " x); '
               . 'for i in $(seq 900); do : > $n$i; ln -s x l$n$i; done',
               $user);
        cmp_ok(length JSON::PP->new->encode($j), '<', 300_000,
               'the result is shorter than 300,000 bytes');
        is(scalar(() = names($dir)), scalar @{ $j->{artifacts} },
           'what it does not name is not taken');
        cmp_ok(scalar @{ $j->{artifacts} }, '>', 200,
               'control: many are taken');
        is($j->{artifacts_skipped}[-1]{reason}, 'more',
           'the last entry is the number of the rest');
        is($j->{artifacts_skipped}[-1]{count} + @{ $j->{artifacts_skipped} } - 1
           + @{ $j->{artifacts} }, 1800,
           'named, taken and counted are all there were');
    };

    subtest "$way: a directory too deep is left out" => sub {
        my ($j, $dir) = out('d=.; for i in $(seq 40); do d=$d/d; mkdir $d; done; '
                            . 'echo x > $d/f; echo y > d/y', $user);
        is_deeply([values %{ skipped($j) }], ['too_deep'],
                  'the result names it');
        is(content("$dir/d/y"), "y\n", 'what is above it is taken');
    };

    subtest "$way: modes do not hide a file" => sub {
        my ($j, $dir) = out('mkdir d; echo x > d/f; chmod 0 d/f d', $user);
        is(content("$dir/d/f"), "x\n",
           'a file of mode 0 in a directory of mode 0 is taken');
    };

    subtest "$way: what a killed task has written is taken" => sub {
        my ($j, $dir) = out('echo partial > f; sleep 99', $user,
                            args => ['--wall-clock', '500ms']);
        is($j->{reason}, 'timeout', 'control: the task is killed');
        is(content("$dir/f"), "partial\n", 'the file is there');
    };

    subtest "$way: a collection that fails, as on a full disk, leaves nothing"
        => sub
    {
        my ($j, $dir) = out('mkdir d; echo small > d/first; '
               . 'head -c 100000 /dev/zero | tr "\0" x > large; exit 3', $user,
               program => ['sh', '-c', 'ulimit -S -f 32; exec "$@"', 'sh']);
        is($j->{reason}, 'nonzero', 'the reason is the task\'s own');
        is($j->{exit_code}, 3, 'the exit code is the task\'s own');
        is($j->{error}{stage}, 'out', 'the stage of the error is "out"');
        like($j->{error}{message}, qr/large/, 'the message names the file');
        is_deeply($j->{artifacts}, [], 'the result has no artifact');
        ok(!-e $dir, 'the directory is not there');
    };

    subtest "$way: a directory with files in it is refused" => sub {
        mkdir my $full = place($user);
        write_file("$full/mine", '');
        my ($j, undef, $r) = out('true', $user, dir => $full);
        is($r->{status}, 125, 'the status is 125');
        is($j->{error}{stage}, 'out', 'the stage is "out"');
        is_deeply([names($full)], ['mine'], 'it is left as it is');
    };

    my $empty = place($user);
    mkdir $empty, 0755;
    chown user_id(), user_id(), $empty if $user && $> == 0;
    subtest "$way: an empty directory is taken" => sub {
        my ($j) = out('echo x > f', $user, dir => $empty);
        is(content("$empty/f"), "x\n", 'the file is in it');
    };

    subtest "A-039 $way: a link to a directory is refused" => sub {
        my $link = place($user);
        symlink $empty, $link;
        my (undef, undef, $r) = out('echo x > g', $user, dir => $link);
        is($r->{status}, 125, 'the status is 125');
        ok(!-e "$empty/g", 'nothing is written where it leads');
    };

    subtest "$way: a directory that cannot be made is refused" => sub {
        my (undef, undef, $r) = out('true', $user, dir => place($user)
                                    . '/none/x');
        is($r->{status}, 125, 'the status is 125');
    };

    subtest "$way: a task that did not run leaves no directory" => sub {
        my $new = place($user);
        my $r = jail(['run', '--offline', '--out', $new, '--',
                      'no-such-program'],
                     user => $user);
        is($r->{json}{reason}, 'exec', 'control: the task did not run');
        ok(!-e $new, 'the directory is not there');
    };
}

subtest 'an empty directory of another user is refused' => sub {
    plan skip_all => 'only root can be two users' if $> != 0;
    my $mine = place(0);
    mkdir $mine;
    chmod 0777, $mine;
    my (undef, undef, $r) = out('echo x > f', 1, dir => $mine);
    is($r->{status}, 125, 'the status is 125');
    is_deeply([names($mine)], [], 'it stays empty');
};

done_testing;
