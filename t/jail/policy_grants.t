#!/usr/bin/perl

# What a policy grants to a box: variables that the caller may set, and more
# of the host's files, read-only or with a size; and what it cannot grant.

use v5.36;

use FindBin;
use IO::Socket::UNIX;
use lib $FindBin::Bin;
use Jail;
use POSIX ();
use Test::More;

my $n = 0;
my $secret = 'marker-value-xyzzy';

sub broker (%box) {
    $n++;
    return fake_broker({ task => { box => { isolation => 'namespaces',
        writable => [{ path => '/tmp/work', bytes => 16777216 }],
        readable => [], env => [], %box } } });
}

sub opened ($b) { return heard($b, 'open') }

sub task ($b, $script, $user, @args) {
    return jail(['run', '--control', $b->{socket}, @args, '--', 'sh', '-c',
                 $script], user => $user);
}

for my $user (ways()) {
    my $way = way($user);

    my $b = broker(env => [qw(LANG TZ TOKEN)]);
    subtest "$way: variables that the policy lists are set" => sub {
        my $vars = write_file('vars',
        "# comment\n\nTZ=Europe/Prague\nLANG=x y = z \n");
        my $r = task($b, 'env', $user, '--env', "TOKEN=$secret", '--env-file',
                     $vars);
        like($r->{json}{stdout}, qr/^TOKEN=$secret$/m,
             '--env sets one');
        like($r->{json}{stdout}, qr/^LANG=x y = z $/m,
             '--env-file sets one to the text as it is written');
        is(scalar(() = $r->{json}{stdout} =~ /^LANG=/mg), 1,
           'it replaces the launcher\'s own');
        is_deeply((opened($b))[0]{message}{env},
                  { TOKEN => $secret, TZ => 'Europe/Prague',
                    LANG => 'x y = z ' }, '"open" has all of them');

        $r = task($b, 'true', $user);
        ok(!exists((opened($b))[1]{message}{env}),
           '"open" of a task without has none');
    };

    subtest "$way: a variable that the policy does not list is refused" => sub {
        my $r = task($b, 'env', $user, '--env', "OTHER=$secret");
        is($r->{status}, 2, 'the status is 2');
        is($r->{out}, '', 'there is no result');
        like($r->{err}, qr/OTHER/, 'the message has its name');
        like($r->{err}, qr/leave it out/, 'the message says what to do');
        unlike($r->{err}, qr/$secret/, 'the message does not have its value');
    };

    subtest "$way: with --offline no variable may be set" => sub {
        my $r = jail(['run', '--offline', '--env', "TZ=$secret", '--', 'true'],
                     user => $user);
        is($r->{status}, 2, 'the status is 2');
        unlike($r->{out} . $r->{err}, qr/$secret/, 'no value is printed');
    };

    subtest "$way: a wrong line of --env-file is refused" => sub {
        for my $bad ("TZ=1\n$secret\n", "export TZ=$secret\n", "TZ=$secret\r\n",
                     "TZ=1\nTZ=$secret\n") {
            my $path = write_file('bad', $bad);
            my $line = $bad =~ /^TZ=1/ ? 2 : 1;
            my $shown = $bad =~ s/\Q$secret\E/.../r =~ s/\n/\\n/gr =~ s/\r/\\r/r;
            my $r = task($b, 'true', $user, '--env-file', $path);
            is($r->{status}, 2, "$shown: the status is 2");
            like($r->{err}, qr/bad:$line\b/,
                 "$shown: the message has the number of the line");
            unlike($r->{err}, qr/$secret/,
                   "$shown: the message does not have its text");
        }
    };

    subtest "$way: an --env-file that is not a file is refused" => sub {
        for my $file (dir(), dir() . '/none') {
            my $r = task($b, 'true', $user, '--env-file', $file);
            is($r->{status}, 2, "$file: the status is 2");
        }
    };
    fake_broker_end($b);

    # more of the host, and more that is writable

    my $at = $n;
    my $tree = dir() . "/tree$at";
    mkdir $tree;
    write_file("tree$at/data", "from the host\n");
    my $one = write_file("one$at", "one file\n");
    $b = broker(readable => [$tree, $one],
                writable => [{ path => '/tmp/work', bytes => 1 << 20 },
                             { path => '/data', bytes => 1 << 20 },
                             { path => '/opt/more/scratch', bytes => 65536 }]);
    subtest "A-028 $way: what a policy makes readable is in the box, read-only"
        => sub
    {
        my $r = task($b,
        "cat $tree/data $one; echo x > $tree/data; echo x > $one; "
                         . "touch $tree/new; ls ${\dir()}", $user);
        like($r->{json}{stdout}, qr/^from the host\none file\n/,
             'a directory and a file are in the box');
        is(scalar(() = $r->{json}{stderr} =~ /Read-only file system/g), 3,
           'neither can be written') or diag $r->{json}{stderr};
        like($r->{json}{stdout}, qr/file\none$at\ntree$at\n$/,
             'what lies beside them is not in the box');
    };

    subtest "A-111 $way: each writable directory ends at its own size" => sub {
        my $r = task($b, 'for d in /tmp/work /data /opt/more/scratch; do '
                       . 'head -c 2097152 /dev/zero > $d/f; stat -c %s $d/f; done',
                     $user);
        is_deeply([split /\n/, $r->{json}{stdout}], [1048576, 1048576, 65536],
                  '1 MiB, 1 MiB and 64 KiB');
    };
    fake_broker_end($b);

    subtest "$way: what is readable may lie in what is readable" => sub {
        mkdir "$tree/deep";
        my $b = broker(readable => [$tree, "$tree/data", "$tree/deep"]);
        my $r = task($b, "cat $tree/data; ls -d $tree/deep", $user);
        is($r->{json}{stdout}, "from the host\n$tree/deep\n",
           'a file and a directory below a directory');
        fake_broker_end($b);
    };

    # what would be mounted behind a link is refused, and not lost

    mkdir "$tree/real";
    symlink "$tree/real", "$tree/link";
    for my $path ("$tree/link/rw", '/var/tmp', '/var/run/rw') {
        subtest "$way: writable $path, behind a link, is refused" => sub {
            my $b = broker(readable => [$tree],
                           writable => [{ path => $path, bytes => 65536 }]);
            my $r = task($b, 'echo ran', $user);
            is($r->{status}, 125, 'the status is 125');
            like($r->{json}{error}{message},
                 qr/is a link: the policy must name/,
                 'the message names the link');
            is($r->{json}{stdout}, '', 'the command did not run');
            fake_broker_end($b);
        };
    }

    # a place that is the launcher's only is opened by the launcher; a box of
    # root's has no rights in one of root's

    subtest "A-123 $way: a directory of mode 0700 is in the box" => sub {
        my $own = dir() . "/own$at";
        mkdir $own;
        write_file("own$at/data", "private\n", 0600);
        chown user_id(), -1, $own, "$own/data" if $user && $> == 0;
        chmod 0700, $own;
        my $b = broker(readable => [$own]);
        my $r = task($b,
                     "cat $own/data; touch $own/data $own/new; echo started",
                     $user);
        if ($> != 0 || $user) {
            is($r->{json}{stdout}, "private\nstarted\n",
               'the caller\'s own: a file in it is read');
            is(scalar(() = $r->{json}{stderr} =~ /Read-only file system/g), 2,
               'the caller\'s own: nothing in it is written')
        or diag $r->{json}{stderr};
        } else {
            is($r->{json}{stdout}, "started\n",
               'root\'s: the box starts');
            is(scalar(() = $r->{json}{stderr} =~ /Permission denied/g), 3,
               'root\'s: nothing in it is read or written')
        or diag $r->{json}{stderr};
        }
        fake_broker_end($b);
    };

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
         [$deep, 'contains a socket'], [dir() . "/fifo$n", 'FIFO'],
         ['/proc/1', 'kernel'], ['/run', 'sockets'],
         [dir() . '/nowhere', 'cannot be found']) {
        my ($path, $why) = @$_;
        next if $path eq '/';           # not a path in the broker's answer
        subtest "$way: a policy with readable $path is refused" => sub {
            my $b = broker(readable => [$path]);
            my $r = task($b, 'true', $user);
            is($r->{status}, 125, 'the status is 125');
            is($r->{json}{error}{stage}, 'policy', 'the stage is the policy');
            like($r->{json}{error}{message}, qr/$why/,
                 "the message says: $why");
            ok($r->{json}{error}{fix}, 'there is a fix');
            fake_broker_end($b);
        };
    }
}

# a mount below a readable directory, in a mount namespace that is not the
# launcher's to change

subtest 'A-028 A-029 a mount below a readable directory is read-only' => sub {
    plan skip_all => 'needs root to mount' if $> != 0;
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
         'it is in the box');
    is(scalar(() = $r->{json}{stderr} =~ /Read-only file system/g), 2,
       'nothing in it can be written') or diag $r->{json}{stderr};
    is(scalar(grep { !/ ro,nosuid,nodev/ }
              $r->{json}{stdout} =~ /^(\d.*)/mg), 0,
       'it is nosuid and nodev') or diag $r->{json}{stdout};
    fake_broker_end($b);
};

done_testing;
