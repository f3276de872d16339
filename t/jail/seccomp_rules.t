#!/usr/bin/perl

# Every row of the table of system calls by what the kernel answers: the rows
# are read from the table itself, so that a new one is tried, or fails here
# for want of a probe.  Each also by the 32-bit entry and the one of x32, and
# with arguments that have high bits set; sockets of every family, netlink of
# every protocol.

use v5.36;

use FindBin;
use lib $FindBin::Bin;
use Jail;
use POSIX ();
use Test::More;

plan skip_all => 'the probe of system calls is for x86-64'
    if (POSIX::uname())[4] ne 'x86_64';

my %nr = do {
    my %n;
    open my $f, '-|', 'echo "#include <sys/syscall.h>" | gcc -E -dM -'
        or die $!;
    while (<$f>) { $n{$1} = $2 if /^#define __NR_(\w+) (\d+)/ }
    %n;
};

my @include = map { ('-I', root_dir() . "/jail$_") } '', '/box';
my $table = cc('table', <<'END_OF_C', '-D_GNU_SOURCE', @include) or die;
#include <stdio.h>
#include <string.h>
#include "seccomp_table.h"

int
main(void)
{
    size_t  i;

    for (i = 0; i < sizeof(seccomp_rules) / sizeof(seccomp_rules[0]); i++) {
        printf("%s %d %d\n", seccomp_rules[i].name, seccomp_rules[i].answer,
               seccomp_rules[i].conds[0].test != COND_END);
    }
    return 0;
}
END_OF_C

# probe WAY NAME NUMBER ARG...: in a child each, whose end is an answer, too
my $probe = cc('rule', <<'END_OF_C') or die;
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static long
call(long nr, const long *a)
{
    long           rc;
    register long  r10 __asm__("r10") = a[3];
    register long  r8 __asm__("r8") = a[4];
    register long  r9 __asm__("r9") = a[5];

    /* what returns twice must not return through a frame that is shared */
    __asm__ volatile ("syscall" : "=a" (rc)
                      : "a" (nr), "D" (a[0]), "S" (a[1]), "d" (a[2]),
                        "r" (r10), "r" (r8), "r" (r9)
                      : "rcx", "r11", "memory");
    return rc;
}

static long
call32(long nr)
{
    long  rc;

    __asm__ volatile ("int $0x80" : "=a" (rc)
                      : "a" (nr), "b" (-1), "c" (-1), "d" (-1), "S" (-1),
                        "D" (-1) : "memory", "r8", "r9", "r10", "r11");
    return rc;
}

int
main(int argc, char **argv)
{
    int               i, j, status, fds[2];
    long              a[6], nr, rc;
    pid_t             pid;
    char             *word, *name;
    struct itimerval  t = { { 0, 0 }, { 0, 100000 } };
    static char       zero[4096];

    for (i = 1; i < argc; i++) {
        name = strtok(argv[i], ",");
        nr = strtol(strtok(NULL, ","), NULL, 0);
        for (j = 0; j < 6; j++) {
            a[j] = -1;
        }
        for (j = 0; j < 6 && (word = strtok(NULL, ",")) != NULL; j++) {
            a[j] = strcmp(word, "PTR") == 0 ? (long) zero
                                            : (long) strtoull(word, NULL, 0);
        }
        pipe(fds);
        fflush(stdout);
        pid = fork();
        if (pid == 0) {
            setitimer(ITIMER_REAL, &t, NULL);
            rc = nr < 0 ? call32(-nr - 1) : call(nr, a);
            if (rc == 0 && strstr("clone fork vfork", name)) {
                _exit(0);
            }
            a[0] = rc;
            nr = fds[1];
            call(1, (long[]) { nr, (long) a, sizeof(long), 0, 0, 0 });
            call(231, (long[]) { 0, 0, 0, 0, 0, 0 });
        }
        close(fds[1]);
        rc = 0;
        j = (int) read(fds[0], &rc, sizeof(rc));
        close(fds[0]);
        waitpid(pid, &status, 0);
        printf("%s=%s\n", name,
               j != sizeof(rc) ? "ended"
               : rc < 0 && rc > -4096 ? strerrorname_np((int) -rc) : "ok");
    }
    return 0;
}
END_OF_C

my %rule = map { chomp; my ($n, @r) = split; $n => \@r } `$table`;
subtest 'control: the table of rules is read' => sub {
    cmp_ok(scalar keys %rule, '>', 300, 'it has more than 300 rows');
    is(scalar(grep { !exists $nr{$_} } keys %rule) < 20, 1,
       'nearly all of its calls exist on this machine')
        or diag join ' ', grep { !exists $nr{$_} } sort keys %rule;
};

# Rows with conditions: [arguments, answer].  The second form of each has a
# bit set that an int does not have.
my $high = 1 << 32;
my %only = (
    mknod => [['PTR', 0020666, 0x103], 'EPERM', ['PTR', 0060666, 0x800],
              'EPERM', ['PTR', 0010666, 0], 'EROFS|EEXIST|ENOENT',
              ['PTR', $high | 0020666, 0x103], 'EPERM'],
    mknodat => [[-1, 'PTR', 0020666, 0x103], 'EPERM',
                [-1, 'PTR', 0010666, 0], 'EBADF|ENOENT',
                [-1, 'PTR', $high | 0020666, 0x103], 'EPERM'],
    fcntl => [[1, 1024, 0], 'EPERM', [1, 1026, 0], 'EPERM', [1, 3, 0], 'ok',
              [1, $high | 1024, 0], 'EPERM', [1, $high | 1026, 0], 'EPERM',
              [1, $high | 3, 0], 'ok'],
    ioctl => [[1, 0x5412, 'PTR'], 'EPERM', [1, 0x541c, 'PTR'], 'EPERM',
              [1, $high | 0x5412, 'PTR'], 'EPERM',
              [1, $high | 0x541c, 'PTR'], 'EPERM',
              [1, 0x5413, 'PTR'], 'ENOTTY'],
    clone => [(map { ([$_ | 17, 0, 0, 0, 0], 'EPERM',
                      [$high | $_ | 17, 0, 0, 0, 0], 'EPERM') }
               0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000,
               0x20000000, 0x40000000), [17, 0, 0, 0, 0], 'ended|ok',
              [$high | 17, 0, 0, 0, 0], 'ended|ok|EINVAL'],
    personality => [[0], 'ok', [0xffffffff], 'ok', [0x40000], 'EPERM',
                    [0x400000], 'EPERM', [8], 'EPERM', [$high], 'ok',
                    [$high | 0x40000], 'EPERM'],
    # no page is shared with an equal one of others
    madvise => [[0, 0, 12], 'EINVAL', [0, 0, $high | 12], 'EINVAL',
                [0, 0, 4], 'ok'],
    prctl => [[67, 1, 0, 0, 0], 'EINVAL', [67, 0, 0, 0, 0], 'EINVAL',
              [$high | 67, 1, 0, 0, 0], 'EINVAL', [16, 'PTR', 0, 0, 0], 'ok'],
    # pid 1 of the box cannot be slowed down, nor all of one id
    prlimit64 => [[1, 7, 0, 0], 'EPERM', [$high | 1, 7, 0, 0], 'EPERM',
                  [0, 7, 0, 'PTR'], 'ok'],
    sched_setaffinity => [[1, 8, 'PTR'], 'EPERM', [$high | 1, 8, 'PTR'],
                          'EPERM', [0, 8, 'PTR'], 'EINVAL'],
    sched_setattr => [[1, 'PTR', 0], 'EPERM', [$high | 1, 'PTR', 0], 'EPERM',
                      [0, 'PTR', 0], 'ok'],
    sched_setparam => [[1, 'PTR'], 'EPERM', [$high | 1, 'PTR'], 'EPERM',
                       [0, 'PTR'], 'ok'],
    sched_setscheduler => [[1, 0, 'PTR'], 'EPERM', [$high | 1, 0, 'PTR'],
                           'EPERM', [0, 0, 'PTR'], 'ok'],
    setpriority => [[0, 1, 19], 'EPERM', [0, $high | 1, 19], 'EPERM',
                    [2, 0, 19], 'EPERM', [$high | 2, 0, 19], 'EPERM',
                    [0, 0, 19], 'ok'],
    ioprio_set => [[1, 1, 0], 'EPERM', [1, $high | 1, 0], 'EPERM',
                   [3, 0, 0], 'EPERM', [$high | 3, 0, 0], 'EPERM',
                   [1, 0, 0], 'ok'],
    socketpair => [[1, 1, 0, 'PTR'], 'ok', [2, 1, 0, 'PTR'], 'EAFNOSUPPORT',
                   [$high | 1, 1, 0, 'PTR'], 'ok',
                   [$high | 2, 1, 0, 'PTR'], 'EAFNOSUPPORT'],
    socket => [
        # 1, 2 and 10 are the ones; 16 is netlink
        (map { my $f = $_;
               map { ([$_ | $f, 1, 0],
                      $f =~ /^(?:1|2|10)$/ ? 'ok'
                      : $f == 16 ? 'ESOCKTNOSUPPORT' : 'EAFNOSUPPORT') }
               0, $high } 0 .. 45),
        (map { my $p = $_;
               map { ([16, 3, $_ | $p], $p ? 'EAFNOSUPPORT' : 'ok',
                      [$high | 16, 3, $_ | $p], $p ? 'EAFNOSUPPORT' : 'ok') }
               0, $high } 0 .. 22),
        [2, 3, 1], 'EPERM', [10, 3, 58], 'EPERM', [2, 3, 255], 'EPERM',
    ],
);

subtest 'A-050 every row with conditions has its probes, and the other way '
        . 'round' => sub
{
    my @missing = grep { $rule{$_}[1] && !$only{$_} } sort keys %rule;
    is("@missing", '', 'rows without probes');
    is(join(' ', grep { !$rule{$_} || !$rule{$_}[1] } sort keys %only), '',
       'probes without a row');
};

# What is allowed, and is EPERM by itself for nonsense
my %privileged = map { $_ => 1 } qw(setgroups);

# In the table and in no kernel of today; arguments that make more sense
my %absent = map { $_ => 1 } qw(epoll_ctl_old epoll_wait_old);
my %args = (futex => ['PTR', 0, 1]);

# name => [number, arguments, wanted]
my @tries;
sub try ($what, $number, $args, $want) {
    push @tries, [$what, join(',', 't' . @tries, $number, @$args), $want];
}

for my $name (sort keys %rule) {
    my ($answer, $is_only) = @{ $rule{$name} };
    my $nr = $nr{$name} // next;
    if ($is_only) {
        my @p = @{ $only{$name} // [] };
        while (my ($args, $want) = splice @p, 0, 2) {
            try("$name(@$args)", $nr, $args, qr/^(?:$want)$/);
        }
    } elsif ($answer) {
        my $want = $answer == 1 ? qr/^EPERM$/ : qr/^ENOSYS$/;
        try("$name", $nr, [], $want);
        try("$name of zeros", $nr, [(0) x 6], $want);
        try("$name of pointers", $nr, [('PTR') x 6], $want);
    } else {
        try("$name is let through", $nr, $args{$name} // [],
            $absent{$name} ? qr/^ENOSYS$/
            : $privileged{$name} ? qr/^(?!ENOSYS)/ : qr/^(?!ENOSYS|EPERM)/);
    }
    try("$name of x32", 0x40000000 | $nr, [], qr/^ENOSYS$/);
}
try("number $_ by the 32-bit entry", -$_ - 1, [], qr/^ENOSYS$/) for 0 .. 470;

# 335 and 336 are the kernel's own returns from its probes: it lets no filter
# see them (since 6.14), and answers a call from elsewhere with a
# signal or an error of its own
for my $n (335 .. 600) {
    next if grep { $_ == $n } values %nr;
    try("number $n, which the table does not have", $n, [],
        $n <= 336 ? qr/^(?:ENOSYS|ended|ENXIO)$/ : qr/^ENOSYS$/);
}

for my $user (ways()) {
    my $way = way($user);
    subtest "A-050 A-051 A-071 $way: every call is answered as the table says"
        => sub
    {
        my (%got, @bad);
        my $tried = 0;

        # a command line has its limits, and so has a result
        my @all = @tries;
        while (my @part = splice @all, 0, 400) {
            my $r = jail(['run', '--offline', '--in', $probe, '--output',
                          '10000',
                          '--', 'sh', '-c',
                          'cp rule p; chmod +x p; exec ./p "$@"', 'sh',
                          map { $_->[1] } @part], user => $user);
            my %part = ($r->{json}{stdout} // '') =~ /^(t\d+)=(\w+)$/mg;
            diag $r->{out}, $r->{err} if !%part;
            %got = (%got, %part);
        }

        for my $i (0 .. $#tries) {
            my ($what, undef, $want) = @{ $tries[$i] };
            my $got = $got{"t$i"} // 'nothing';
            $tried++ if $got ne 'nothing';
            push @bad, "$what: $got" if $got !~ $want;
        }
        is($tried, scalar @tries, 'all ' . @tries . ' were tried');
        is(join("\n", @bad), '', 'each has the answer of its row');
    };
}

# Outside, with the same nonsense for arguments, the error is about the
# nonsense; and there are families, protocols and 32-bit calls.
subtest 'control: outside of a box the same calls are answered otherwise'
    => sub
{
    plan skip_all => 'needs root' if $> != 0;
    my @refused = grep { $rule{$_}[0] == 1 && $nr{$_} && $_ ne 'vhangup' }
                  sort keys %rule;
    my %got = map { /^(\w+)=(\w+)$/ ? ($1 => $2) : () }
              split /\n/, `$probe @{[ map { "$_,$nr{$_}" } @refused ]}`;
    my @same = grep { $got{$_} eq 'EPERM' } @refused;
    cmp_ok(scalar @refused, '>', 40, 'more than 40 calls are refused in a box');
    cmp_ok(scalar @same, '<', @refused / 4,
           'most of them are not EPERM outside') or diag "@same";
    like(`$probe a,$nr{socket},16,3,15 b,$nr{socket},16,3,9 c,-21`,
         qr/^a=ok\nb=ok\nc=ok$/m,
         'netlink and the 32-bit entry work outside');
};

done_testing;
