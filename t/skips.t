#!/usr/bin/perl

# A test that is skipped keeps no promise, so what CI may leave out is one
# list.  When the whole suite has run as root, with all the packages that
# scripts/test installs, whatever else was skipped fails here by its name.
#
# last: it reads what all the others have printed

use v5.36;

use File::Find;
use Test::More;

# where, what is said to be absent
my @MAY_BE_SKIPPED = (

    # memory is not given back, and more system calls are made
    [qr{^objs-asan/}, qr/^a sanitizer keeps what is freed$/],
    [qr{^objs-asan/}, qr/^a sanitizer makes system calls of its own$/],
    [qr{^objs-asan/}, qr/^KSM looks at each page of a sanitizer's map$/],
    [qr{^objs-asan/}, qr/^its objects cannot be linked with a shim$/],

    # modules and options of the kernel, which no package brings
    [qr{/hostile_launcher\.t$}, qr/^this kernel has no SCTP: /],
    [qr{/hostile_launcher\.t$}, qr/^this kernel has no MPTCP: /],
    [qr{/control_protocol\.t$}, qr/^this kernel has no MPTCP$/],
    [qr{/hostile_launcher\.t$}, qr{^/dev/fuse cannot be opened: }],
    [qr{/strangers\.t$}, qr{^/dev/fuse cannot be opened: }],
    [qr{/inherited_state\.t$}, qr/^this kernel has no KSM for a process$/],
    [qr{/inherited_state\.t$}, qr/^this kernel has no time namespaces$/],
    [qr{/network\.t$}, qr/^this kernel has no segment routing$/],
    [qr{/program_needs\.t$}, qr/^this kernel runs no 32-bit programs$/],
    [qr{/install\.t$}, qr/^this kernel mounts no overlay$/],

    # how the machine is set up, and when it was started
    [qr{/tls\.t$}, qr/^core_pattern puts cores into no directory$/],
    [qr{/audit\.t$}, qr{^/dev/kmsg cannot be opened$}],
    [qr{/inherited_state\.t$}, qr/^this host was started just before the test$/],
    [qr{/start_and_upgrade\.t$}, qr/^the old broker still answered$/],

    # another processor
    [qr{/(?:failing_calls|seccomp_rules)\.t$}, qr/ is for x86-64$/],
);

# A subtest, a test and a whole file that were skipped are told apart by
# nothing but the beginning of their lines.
sub skipped ($text) {
    return map { s/\s+\z//r }
           $text =~ /^ *(?:ok\b.*?|1\.\.0 )# skip(?:ped:?)?\s+(.*)/mgi;
}

sub is_known ($file, $what) {
    return grep { $file =~ $_->[0] && $what =~ $_->[1] } @MAY_BE_SKIPPED;
}

is_deeply([skipped(<<'END_OF_TAP')],
1..3
ok 1 - it holds
    ok 1 # skip no moon
ok 2 - a subtest # skip no sun
not ok 3 # TODO later
1..0 # SKIP only root
END_OF_TAP
          ['no moon', 'no sun', 'only root'],
          'control: a test, a subtest and a file that are skipped are found');
ok(!is_known('objs/tap/t/jail/trust.t', 'no keytool'),
   'control: a program that is not installed may not be skipped');

SKIP: {
    skip 'only scripts/test without arguments, as root, runs all tests', 1
        if !$ENV{AGENT_TEST_WHOLE} || $> != 0;

    my @unknown;
    find({ no_chdir => 1, wanted => sub {
        my $file = $_;
        return if !-f;
        my $text = do { local (@ARGV, $/) = $file; <> // '' };
        push @unknown, map { "$file: $_" }
                       grep { !is_known($file, $_) } skipped($text);
    } }, grep { -d } qw(objs/tap objs-asan/tap));

    is(join("\n", sort @unknown), '',
       'whatever was skipped is on the list of what CI may skip');
}

done_testing;
