#!/usr/bin/perl

# The sources give no reason for a warning of cppcheck, of clang-tidy or of
# the compiler (make lint).  It takes as long as all other tests together, so
# it runs where AGENT_TEST_LINT is set, as .ci/run does.

use v5.36;

use Test::More;

plan skip_all => 'it runs with AGENT_TEST_LINT=yes, as in .ci/run'
    if !$ENV{AGENT_TEST_LINT};

chomp(my $jobs = `nproc 2> /dev/null` || 1);

my $said = `make -j$jobs lint 2>&1`;
is($?, 0, 'make lint finds nothing') or diag($said);

done_testing;
