#!/usr/bin/perl

# t/CASES tells which test keeps which fault away: each line has a case, the
# fault in a sentence, and a test that is there, or why it cannot apply.

use v5.36;

use Test::More;

open my $f, '<', 't/CASES' or die "t/CASES: $!";

my ($lines, $last) = (0, '');

while (my $line = <$f>) {
    chomp $line;
    my ($id, $fault, $test) = split / \| /, $line, 3;
    my @files = ($test // '') =~ m{(t/[\w/.-]+\.(?:t|c|py))}g;

    my $wrong = ($id // '') !~ /^[A-F]-\d{3}$/ ? 'no case'
        : $id lt $last                        ? 'not in order'
        : length($fault // '') < 10           ? 'no fault'
        : !@files && ($test // '') !~ /\w+ \w+ \w+/ ? 'neither test nor reason'
        : (grep { !-e } @files)               ? 'a test that is not there'
        :                                       '';

    is($wrong, '', "line $.: " . ($id // ''));
    ($lines, $last) = ($lines + 1, $id // '');
}

cmp_ok($lines, '>', 200, 'the cases are listed');

done_testing;
