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

sub content ($path) {
    open my $f, '<', $path or return;
    local $/;
    return scalar <$f>;
}

sub names ($dir) {
    opendir my $d, $dir or return;
    return sort grep { !/^\.\.?$/ } readdir $d;
}

sub skipped ($j) {
    return { map { ($_->{name} => $_->{reason}) } @{ $j->{artifacts_skipped} } };
}

for my $user (ways()) {
    my $way = way($user);

    # what it is for

    my ($j, $dir) = out('printf "a,b\n1,2\n" > t.csv; mkdir sub; '
        . 'echo "{\"x\": 1}" > sub/result; printf "\211PNG\r\n\032\n" > p.txt;'
        . ': > empty; echo no >&2; chmod 4777 t.csv; exit 3', $user);
    is($j->{reason}, 'nonzero', "$way: the end of the task is told as ever");
    is_deeply([map { [@$_{qw(name bytes type sha256)}] } @{ $j->{artifacts} }],
        [['empty', 0, 'text/plain', sha256_hex('')],
         ['p.txt', 8, 'image/png', sha256_hex("\x89PNG\r\n\x1a\n")],
         ['sub/result', 9, 'application/json', sha256_hex("{\"x\": 1}\n")],
         ['t.csv', 8, 'text/csv', sha256_hex("a,b\n1,2\n")]],
        'each file is named with its size, type and hash');
    is_deeply($j->{artifacts_skipped}, [], 'nothing was left out');
    is(content("$dir/t.csv"), "a,b\n1,2\n", 'the file is there');
    is(content("$dir/sub/result"), "{\"x\": 1}\n", 'and the one below');
    is(S_IMODE((stat "$dir/t.csv")[2]), 0600,
       'it is its owner\'s alone, without the set-user-id bit');
    is(S_IMODE((stat "$dir/sub")[2]), 0700, 'as the directory is');
    is((stat "$dir/t.csv")[4], $user ? user_id() : $>, 'the caller\'s own');

    # links

    my $host = dir() . "/host.$n";
    open my $f, '>', $host; print $f 'host-marker'; close $f;
    chmod 0644, $host;
    ($j, $dir) = out("echo in > real; mkdir d; echo deep > d/f; "
        . "ln -s $host absolute; ln -s ../../../../..$host relative; "
        . 'ln -s real inside; ln -s d directory; ln -s nowhere dangling; '
        . 'ln -s /proc/self/fd/1 magic; ln real again; ln real d/again', $user);
    is_deeply(skipped($j), { absolute => 'symlink', relative => 'symlink',
        inside => 'symlink', directory => 'symlink', dangling => 'symlink',
        magic => 'symlink', real => 'hard_link', 'd/again' => 'hard_link' },
        "A-025 $way: links are told of as links");
    is_deeply([names($dir)], ['again', 'd'], 'A-025 and none is followed');
    is(content("$dir/again"), "in\n",
       'a file with three names is taken once');
    is(content("$dir/d/f"), "deep\n", 'a true directory is entered');

    # what is no file, and what is too much

    ($j, $dir) = out('mkfifo fifo; python3 -c "import socket; '
        . 's = socket.socket(socket.AF_UNIX); s.bind(\"socket\")"; '
        . 'mknod device c 1 3; truncate -s 1T sparse; '
        . 'truncate -s 4M hole; echo ok > ok; '
        . "printf x > \"\$(printf 'a\\n\\033[2J\\377\\\\b')\"", $user);
    is_deeply(skipped($j), { fifo => 'fifo', socket => 'socket',
                             sparse => 'too_large' },
              "A-026 $way: what is no file is told of and not opened");
    is_deeply([map { $_->{name} } @{ $j->{artifacts} }],
              ['a\x0a\x1b[2J\xff\\\\b', 'hole', 'ok'],
              'A-026 a name that a terminal would obey is escaped');
    is(-s "$dir/hole", 4 << 20, 'a hole within bounds is taken');
    cmp_ok((stat "$dir/hole")[12], '<', 64, 'and takes no room');
    like($j->{stderr}, qr/mknod/, 'a device cannot be made at all');

    ($j, $dir) = out('for i in $(seq 1100); do : > $i; done', $user);
    is(scalar @{ $j->{artifacts} }, 1000, "$way: 1000 files are taken");
    is(scalar(() = names($dir)), 1000, 'no more are there');
    is(scalar(grep { $_ eq 'too_many' } values %{ skipped($j) }), 100,
       'the others are named');

    ($j, $dir) = out('n=$(printf %200s | tr " " x); '
        . 'for i in $(seq 900); do : > $n$i; ln -s x l$n$i; done', $user);
    cmp_ok(length JSON::PP->new->encode($j), '<', 300_000,
           "$way: names of the task's do not fill the result");
    is(scalar(() = names($dir)), scalar @{ $j->{artifacts} },
       'what is not named is not taken');
    cmp_ok(scalar @{ $j->{artifacts} }, '>', 200, 'many are');
    is($j->{artifacts_skipped}[-1]{reason}, 'more', 'the rest is counted');
    is($j->{artifacts_skipped}[-1]{count} + @{ $j->{artifacts_skipped} } - 1
       + @{ $j->{artifacts} }, 1800, 'exactly');

    ($j, $dir) = out('d=.; for i in $(seq 40); do d=$d/d; mkdir $d; done; '
                     . 'echo x > $d/f; echo y > d/y', $user);
    is_deeply([values %{ skipped($j) }], ['too_deep'],
              "$way: a directory too deep is left");
    is(content("$dir/d/y"), "y\n", 'what is above it is not');

    # whatever its modes, whatever its end

    ($j, $dir) = out('mkdir d; echo x > d/f; chmod 0 d/f d', $user);
    is(content("$dir/d/f"), "x\n", "$way: modes do not hide a file");

    ($j, $dir) = out('echo partial > f; sleep 20', $user,
                     args => ['--wall-clock', '500ms']);
    is($j->{reason}, 'timeout', "$way: a task that is killed");
    is(content("$dir/f"), "partial\n", 'leaves what it has written');

    # a collection that fails

    ($j, $dir) = out('mkdir d; echo small > d/first; '
        . 'head -c 100000 /dev/zero | tr "\0" x > large; exit 3', $user,
        program => ['sh', '-c', 'ulimit -S -f 32; exec "$@"', 'sh']);
    is($j->{reason}, 'nonzero', "$way: a collection that fails is not the "
                                . 'task\'s fault');
    is($j->{exit_code}, 3, 'whose status is told');
    is($j->{error}{stage}, 'out', 'the error is the collection\'s');
    like($j->{error}{message}, qr/large/, 'and names the file');
    is_deeply($j->{artifacts}, [], 'no artifact is claimed');
    ok(!-e $dir, 'nothing half-written is left');

    # where to

    mkdir my $full = place($user);
    open $f, '>', "$full/mine"; close $f;
    my $r;
    ($j, undef, $r) = out('true', $user, dir => $full);
    is($r->{status}, 125, "$way: a directory with files in it is refused");
    is($j->{error}{stage}, 'out', 'at once');
    is_deeply([names($full)], ['mine'], 'and left as it is');

    my $empty = place($user);
    mkdir $empty, 0755;
    chown user_id(), user_id(), $empty if $user && $> == 0;
    ($j) = out('echo x > f', $user, dir => $empty);
    is(content("$empty/f"), "x\n", "$way: an empty one is taken");

    my $link = place($user);
    symlink $empty, $link;
    (undef, undef, $r) = out('echo x > g', $user, dir => $link);
    is($r->{status}, 125, "A-039 $way: a link is refused");
    ok(!-e "$empty/g", 'and not followed');

    (undef, undef, $r) = out('true', $user, dir => place($user) . '/none/x');
    is($r->{status}, 125, 'a directory that cannot be made is refused');

    my $new = place($user);
    $r = jail(['run', '--offline', '--out', $new, '--', 'no-such-program'],
              user => $user);
    is($r->{json}{reason}, 'exec', "$way: a task that did not run");
    ok(!-e $new, 'leaves no directory');
}

SKIP: {
    skip 'needs two users', 2 if $> != 0;
    my $mine = place(0);
    mkdir $mine;
    chmod 0777, $mine;
    my (undef, undef, $r) = out('echo x > f', 1, dir => $mine);
    is($r->{status}, 125, 'an empty directory of another user is refused');
    is_deeply([names($mine)], [], 'and stays empty');
}

done_testing;
