#!/usr/bin/perl

# What holds on a host with cgroup v2, whatever this host has: two virtual
# machines with Debian's kernel, which has cgroup v2 alone, run t/vm/plain and
# t/vm/systemd, and their results are told here.

use v5.36;

use FindBin;
use Test::More;

my $dir = $FindBin::Bin;

# One subtest for each machine: its own tests, one a line, and why they failed.
sub machine ($name, @args) {
    my ($status, $text);

    subtest $name => sub {
        my @lines;

        # an emulated machine may stand still before it has told anything
        for my $try (1, 2) {
            open my $f, '-|', "$dir/run", @args or die "$dir/run: $!";
            @lines = <$f>;
            close $f;
            $status = $? >> 8;
            last if $status == 77 || grep { /^(?:not )?ok \d/ } @lines;
            diag "this machine stood still:\n@lines";
        }

        plan skip_all => 'no virtual machine can be made here (t/vm/run says why)'
            if $status == 77;

        my (@why, $ended);
        for my $line (@lines) {
            chomp $line;
            if ($line =~ /^(not )?ok \d+ - (.*)/) {
                ok !$1, $2;
                diag join "\n", @why if $1;
                @why = ();
            } elsif ($line =~ /^1\.\.\d+$/) {
                $ended = 1;
            } elsif ($line !~ /^ +ok |^ +1\.\.\d/) {
                push @why, $line;
            }
        }

        ok $ended, 'it came to its end' or diag @why ? join "\n", @why
                                                     : "status $status";
        is $status, 0, 'its status says that all was well';
    };

    return $status;
}

machine('cgroup v2 without systemd', "$dir/plain");
machine('cgroup v2 with systemd', '--systemd', "$dir/systemd");

done_testing;
