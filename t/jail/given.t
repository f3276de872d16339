#!/usr/bin/perl

# What a policy lets the caller add to a box: variables that it lists, and
# more of the host's files, read-only; and what it does not.

use v5.36;

use FindBin;
use IO::Socket::UNIX;
use IPC::Open2 qw(open2);
use JSON::PP ();
use lib $FindBin::Bin;
use Jail;
use Test::More;

my $json = JSON::PP->new->utf8;
my $n = 0;
my $secret = 'marker-value-xyzzy';

sub broker (%box) {
    my $socket = dir() . '/given.' . ++$n;
    my $scenario = { task => { box => { isolation => 'namespaces',
        writable => [{ path => '/tmp/work', bytes => 16777216 }],
        readable => [], env => [], %box } } };
    my $b = { socket => $socket, log => "$socket.log" };
    $b->{pid} = open2($b->{out}, $b->{in}, '/usr/bin/python3',
        "$FindBin::Bin/fake_broker.py", $socket, $b->{log},
        $json->encode($scenario));
    readline($b->{out}) eq "ready\n" or die 'the fake broker did not start';
    return $b;
}

sub opened ($b) {
    open my $f, '<', $b->{log} or die $!;
    return grep { ($_->{op} // '') eq 'open' } map { $json->decode($_) } <$f>;
}

sub task ($b, $script, $user, @args) {
    return jail(['run', '--control', $b->{socket}, @args, '--', 'sh', '-c',
                 $script], user => $user);
}

sub file ($name, $text, $mode = 0644) {
    my $path = dir() . "/$name";
    open my $f, '>', $path or die $!;
    print $f $text;
    close $f;
    chmod $mode, $path;
    return $path;
}

for my $user (ways()) {
    my $way = way($user);

    # variables

    my $b = broker(env => [qw(LANG TZ TOKEN)]);
    my $vars = file('vars', "# comment\n\nTZ=Europe/Prague\nLANG=x y = z \n");
    my $r = task($b, 'env', $user, '--env', "TOKEN=$secret", '--env-file',
                 $vars);
    like($r->{json}{stdout}, qr/^TOKEN=$secret$/m,
         "$way: a variable that the policy lists is set");
    like($r->{json}{stdout}, qr/^LANG=x y = z $/m,
         'a value of a file is taken as it stands');
    is(scalar(() = $r->{json}{stdout} =~ /^LANG=/mg), 1,
       'it takes the place of the launcher\'s own');
    is_deeply((opened($b))[0]{message}{env},
              { TOKEN => $secret, TZ => 'Europe/Prague',
                LANG => 'x y = z ' }, 'the broker is told of them');

    $r = task($b, 'true', $user);
    ok(!exists((opened($b))[1]{message}{env}), 'and of none when there are none');

    $r = task($b, 'env', $user, '--env', "OTHER=$secret");
    is($r->{status}, 2, "$way: a name that the policy does not list: status 2");
    is($r->{out}, '', 'there is no result');
    like($r->{err}, qr/OTHER/, 'the name is said');
    like($r->{err}, qr/leave it out/, 'and what to do');
    unlike($r->{err}, qr/$secret/, 'its value is not');

    $r = jail(['run', '--offline', '--env', "TZ=$secret", '--', 'true'],
              user => $user);
    is($r->{status}, 2, "$way: offline allows no variable");
    unlike($r->{out} . $r->{err}, qr/$secret/, 'and tells no value');

    for my $bad ("TZ=1\n$secret\n", "export TZ=$secret\n", "TZ=$secret\r\n",
                 "TZ=1\nTZ=$secret\n") {
        my $path = file('bad', $bad);
        my $line = $bad =~ /^TZ=1/ ? 2 : 1;
        $r = task($b, 'true', $user, '--env-file', $path);
        is($r->{status}, 2, 'a file with a wrong line is refused');
        like($r->{err}, qr/bad:$line\b/, 'by the number of its line');
        unlike($r->{err}, qr/$secret/, 'without its text');
    }

    for my $file (dir(), dir() . '/none') {
        $r = task($b, 'true', $user, '--env-file', $file);
        is($r->{status}, 2, 'a file that is none is refused');
    }
    close $b->{in};
    waitpid $b->{pid}, 0;

    # more of the host, and more that is writable

    my $at = $n;
    my $tree = dir() . "/tree$at";
    mkdir $tree;
    file("tree$at/data", "from the host\n");
    my $one = file("one$at", "one file\n");
    $b = broker(readable => [$tree, $one],
                writable => [{ path => '/tmp/work', bytes => 1 << 20 },
                             { path => '/data', bytes => 1 << 20 },
                             { path => '/opt/more/scratch', bytes => 65536 }]);
    $r = task($b, "cat $tree/data $one; echo x > $tree/data; echo x > $one; "
                  . "touch $tree/new; ls ${\dir()}", $user);
    like($r->{json}{stdout}, qr/^from the host\none file\n/,
         "$way: a readable directory and file are in the box");
    is(scalar(() = $r->{json}{stderr} =~ /Read-only file system/g), 3,
       'A-028 and cannot be written') or diag $r->{json}{stderr};
    like($r->{json}{stdout}, qr/file\none$at\ntree$at\n$/,
         'what lies beside them is not there');

    $r = task($b, 'for d in /tmp/work /data /opt/more/scratch; do '
                . 'head -c 2097152 /dev/zero > $d/f; stat -c %s $d/f; done',
              $user);
    is_deeply([split /\n/, $r->{json}{stdout}], [1048576, 1048576, 65536],
              "A-111 $way: each writable directory ends at its own size");
    close $b->{in};
    waitpid $b->{pid}, 0;

    # one that is in another

    mkdir "$tree/deep";
    $b = broker(readable => [$tree, "$tree/data", "$tree/deep"]);
    $r = task($b, "cat $tree/data; ls -d $tree/deep", $user);
    is($r->{json}{stdout}, "from the host\n$tree/deep\n",
       "$way: what is readable may lie in what is readable");
    close $b->{in};
    waitpid $b->{pid}, 0;

    # what would be mounted behind a link is refused, and not lost

    mkdir "$tree/real";
    symlink "$tree/real", "$tree/link";
    for my $path ("$tree/link/rw", '/var/tmp', '/var/run/rw') {
        $b = broker(readable => [$tree],
                    writable => [{ path => $path, bytes => 65536 }]);
        $r = task($b, 'echo ran', $user);
        is($r->{status}, 125, "$way: writable $path is refused");
        like($r->{json}{error}{message}, qr/is a link: the policy must name/,
             'with the reason');
        is($r->{json}{stdout}, '', 'and nothing runs');
        close $b->{in};
        waitpid $b->{pid}, 0;
    }

    # A-123: a place that is the launcher's alone is opened by the launcher;
    # root's boxes are nobody that such a place is open to

    my $own = dir() . "/own$at";
    mkdir $own;
    file("own$at/data", "private\n", 0600);
    chown user_id(), -1, $own, "$own/data" if $user && $> == 0;
    chmod 0700, $own;
    $b = broker(readable => [$own]);
    $r = task($b, "cat $own/data; touch $own/data $own/new; echo started",
              $user);
    if ($> != 0 || $user) {
        is($r->{json}{stdout}, "private\nstarted\n",
           "A-123 $way: a directory of mode 0700 is readable in the box");
        is(scalar(() = $r->{json}{stderr} =~ /Read-only file system/g), 2,
           'and not writable') or diag $r->{json}{stderr};
    } else {
        is($r->{json}{stdout}, "started\n",
           "A-123 $way: a directory that is root's alone is in the box");
        is(scalar(() = $r->{json}{stderr} =~ /Permission denied/g), 3,
           'and closed') or diag $r->{json}{stderr};
    }
    close $b->{in};
    waitpid $b->{pid}, 0;

    # what a policy must not give

    my $deep = dir() . "/deep$n";
    mkdir $deep;
    mkdir "$deep/below";
    my $socket = IO::Socket::UNIX->new(Local => "$deep/below/s", Listen => 1)
        or die $!;
    symlink '/root', dir() . "/link$n";
    symlink '/dev/null', dir() . "/device$n";
    POSIX::mkfifo(dir() . "/fifo$n", 0600);

    for (['/home', 'home'], [dir() . "/link$n", 'home'], ['/', 'home'],
         [dir() . "/device$n", 'device'], ["$deep/below/s", 'is a socket'],
         [$deep, 'holds a socket'], [dir() . "/fifo$n", 'FIFO'],
         ['/proc/1', 'kernel'], ['/run', 'sockets'],
         [dir() . '/nowhere', 'cannot be looked at']) {
        my ($path, $why) = @$_;
        next if $path eq '/';           # not a path in the broker's answer
        $b = broker(readable => [$path]);
        $r = task($b, 'true', $user);
        is($r->{status}, 125, "$way: readable $path is refused");
        is($r->{json}{error}{stage}, 'policy', 'as the policy\'s fault');
        like($r->{json}{error}{message}, qr/$why/, "because: $why");
        ok($r->{json}{error}{fix}, 'with what mends it');
        close $b->{in};
        waitpid $b->{pid}, 0;
    }
}

# a mount below a readable directory, in a mount namespace that is not the
# launcher's to change

SKIP: {
    skip 'needs root to mount', 3 if $> != 0;
    my $tree = dir() . '/mounts';
    mkdir $tree;
    mkdir "$tree/sub";
    my $b = broker(readable => [$tree]);
    my $r = finish(spawn(['run', '--control', $b->{socket}, '--', 'sh', '-c',
        "cat $tree/sub/f; touch $tree/sub/x $tree/y; grep $tree "
        . '/proc/self/mountinfo'],
        program => ['unshare', '-m', 'sh', '-c',
            "mount -t tmpfs none $tree/sub && echo below > $tree/sub/f && "
            . 'exec "$@"', 'sh']));
    like($r->{json}{stdout}, qr/^below\n/,
         'A-028 a mount below a readable directory is in the box');
    is(scalar(() = $r->{json}{stderr} =~ /Read-only file system/g), 2,
       'A-028 read-only, as the directory is') or diag $r->{json}{stderr};
    is(scalar(grep { !/ ro,nosuid,nodev/ }
              $r->{json}{stdout} =~ /^(\d.*)/mg), 0,
       'A-029 nosuid and nodev') or diag $r->{json}{stdout};
    close $b->{in};
    waitpid $b->{pid}, 0;
}

done_testing;
