#!/usr/bin/perl

# The task's files: read as the caller, copied into the box, read-only there.
#
# sanitizers: the caller's files are read

use v5.36;

use FindBin;
use lib $FindBin::Bin;
use Jail;
use Test::More;

my $py = write_file('hello.py', "import sys\nprint(sys.argv, __file__)\n");
my $csv = write_file('data.csv', "a,b\n1,2\n");
my $big = write_file('big', 'x' x (5 << 20));

for my $user (ways()) {
    my $way = way($user);
    subtest "$way: the code is a file with its suffix, its path is appended"
        => sub
    {
        my $r = jail(['run', '--offline', '--code', $py, '--',
                      '/usr/bin/python3',
                      '-u'], user => $user);
        is($r->{json}{stdout}, "['/run/task/code.py'] /run/task/code.py\n",
           'what Python sees of it');
    };

    subtest "A-007 $way: code from the standard input is in no argument"
        => sub
    {
        my $r = jail(['run', '--offline', '--code', '-', '--', 'sh'],
                     user => $user,
                     stdin => "echo from stdin; cat /proc/\$\$/cmdline");
        is($r->{json}{stdout}, "from stdin\nsh\0/run/task/code\0",
           'the arguments have the path of a file');
    };

    subtest "$way: files given by --in are in the box, read-only" => sub {
        my $r = jail(['run', '--offline', '--in', $csv, '--in', "$big:b i g",
                      '--in', "$py:\x{c3}\x{a9}.py", '--', 'sh', '-c',
                      'cat data.csv; wc -c < "b i g"; ls -l; '
                      . 'ls /run/task/in; echo x >> data.csv; '
                      . 'chmod 777 /run/task/in/data.csv; rm /run/task/in/data.csv; '
                      . 'touch /run/task/in/y'], user => $user);
        like($r->{json}{stdout}, qr/\Aa,b\n1,2\n5242880\n/,
             'they can be read in the working directory');
        like($r->{json}{stdout}, qr{data\.csv -> /run/task/in/data\.csv},
             'the names are links to /run/task/in');
        is(scalar(() = $r->{json}{stderr} =~ /Read-only|denied/g), 4,
           'neither they nor their directory can be changed')
        or diag $r->{json}{stderr};
        is(-s $csv, 8, 'the caller\'s file is as it was');
    };

    subtest "$way: the code belongs to the task, read-only" => sub {
        my $r = jail(['run', '--offline', '--code', $py, '--', 'sh', '-c',
                      'ls -la /run/task'], user => $user);
        like($r->{json}{stdout}, qr/-r--r--r-- 1 task.*code\.py/,
             'its mode and its owner');
    };
}

# only regular files, opened once, as the caller

system 'mkfifo', dir() . '/fifo';
for my $case (['a FIFO', dir() . '/fifo'], ['a device', '/dev/zero'],
              ['a directory', '/etc']) {
    my ($name, $path) = @$case;
    for my $how (['--in', "$path:x"], ['--code', $path]) {
        subtest "A-026 $how->[0] of $name is refused, not waited for" => sub {
            my $r = jail(['run', '--offline', @$how, '--', 'true']);
            is($r->{status}, 125, 'the status is 125');
            like($r->{json}{error}{message}, qr/not a regular file/,
                 'the message says that it is not a regular file');
            like($r->{json}{error}{fix}, qr/\Q$how->[0]\E/,
                 'the fix names the option');
        };
    }
}

subtest 'A-038 a file is read with the caller\'s rights' => sub {
    plan skip_all => 'needs root' if $> != 0;
    my $secret = write_file('secret', "root's\n");
    chmod 0600, $secret;
    my $r = jail(['run', '--offline', '--in', $secret, '--', 'cat', 'secret'],
                 user => 1);
    is($r->{json}{error}{errno}, 'EACCES',
       'an ordinary user: the errno is EACCES');
    $r = jail(['run', '--offline', '--in', $secret, '--', 'cat', 'secret']);
    is($r->{json}{stdout}, "root's\n", 'control: root\'s launcher reads it');
};

subtest 'files that do not fit into the box\'s memory are refused' => sub {
    my $r = jail(['run', '--offline', '--memory', '8m', '--in', $big, '--',
                  'true']);
    is($r->{json}{error}{stage}, 'in',
       'the stage is "in"');
};
subtest 'a file without a size, as of /proc, is read to its end' => sub {
    my $r = jail(['run', '--offline', '--in', '/proc/version', '--', 'cat',
                  'version']);
    like($r->{json}{stdout}, qr/^Linux version/,
         'its text is in the box');
};

no_cgroup_left();

done_testing;
