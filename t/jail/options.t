#!/usr/bin/perl

# No option takes a wall away: the options are those below, which only give
# the task files and words or tighten it, and no variable of the caller's
# environment changes what holds in the box.

use v5.36;

use FindBin;
use lib $FindBin::Bin;
use Jail;
use Test::More;

# To add one here, say first what it widens (`ask` is of `policy`, `compare` is
# doctor's).
my @options = sort qw(ask code compare control cpu cpu-time env env-file
                      external-id in label memory offline open-files out output
                      output-bytes output-keep pids policy raw stdin
                      wall-clock workspace);

subtest 'E-038 the options are the known ones, each of which widens nothing'
    => sub
{
    my $help = jail(['--help'])->{out};
    my %seen = map { $_ => 1 } $help =~ /(?:^\s*|\[)--([\w-]+)/mg;
    delete @seen{qw(help version json)};        # these only print
    is_deeply([sort keys %seen], \@options,
              '--help lists exactly the known options')
        or diag $help;
};

subtest 'E-038 an option that would weaken a wall is refused' => sub {
    for my $switch (qw(debug trace verbose unsafe insecure privileged no-sandbox
                       no-seccomp no-landlock no-broker allow-all allow-net net
                       host-network profile perf strace keep-caps user root
                       mount bind device cap-add no-limits no-audit test dev
                       dangerously-skip-permissions))
    {
        for my $text ("--$switch", "--$switch=1") {
            my $r = jail(['run', '--offline', $text, '--', 'echo', 'ran']);
            is("$r->{status} $r->{out}", '2 ', "$text is wrong usage");
            like($r->{err}, qr/\Q$switch\E/, "$text is named in the message");
        }
    }
};

# What holds in the box, as it sees it itself.
my $probe = <<'END';
grep -E '^(Cap|NoNewPrivs|Seccomp|Uid|Gid|Groups)' /proc/self/status
awk '{ print $4, $5, $6 }' /proc/self/mountinfo | sort
cat /proc/net/dev | cut -d: -f1; ulimit -a; env | sort
for f in /etc/shadow /root /sys/kernel /proc/kcore; do
    ls $f >/dev/null 2>&1 && echo "$f is there"
done
END

my @names = (qw(DEBUG TRACE VERBOSE UNSAFE INSECURE TEST PROFILE NO_SECCOMP
                NO_LANDLOCK LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT LD_DEBUG
                GLIBC_TUNABLES MALLOC_TRACE MALLOC_CHECK_ GCONV_PATH
                OPENSSL_CONF SSLKEYLOGFILE SECCOMP_DEBUG LIBCGROUP_LOGLEVEL
                CGROUP_LOGLEVEL GMON_OUT_PREFIX LLVM_PROFILE_FILE GCOV_PREFIX
                TMPDIR IFS BASH_ENV ENV PYTHONSTARTUP NODE_OPTIONS
                SOURCE_DATE_EPOCH),
             map { ("JAIL_$_", "AGENT_$_", "AGENT_BROKER_$_", "AGENT_TEST_$_") }
             qw(DEBUG TRACE UNSAFE TEST SKIP NO_SECCOMP NO_LANDLOCK PROFILE
                LOG OBJS ALLOW OFFLINE));
my %env = map { $_ => 1 } @names;
$env{LD_PRELOAD} = '/nonexistent.so';

for my $user (ways()) {
    my $way = way($user);
    subtest "E-038 $way: no variable of the environment changes what holds "
            . "in a box" => sub
    {
        my @seen = map { box($probe, user => $user, env => $_) } {}, \%env;
        like($seen[0]{stdout}, qr/^NoNewPrivs:\s+1$/m,
             'control: the walls are seen');
        is($seen[1]{stdout}, $seen[0]{stdout},
           'ids, mounts, limits and variables are the same');
        is($seen[1]{stderr}, $seen[0]{stderr},
           'what the box writes to stderr is the same');
        is_deeply($seen[1]{enforced}, $seen[0]{enforced},
                  '"enforced" of the result is the same');
        is_deeply($seen[1]{limits}, $seen[0]{limits},
                  '"limits" of the result are the same');
    };
}

done_testing;
