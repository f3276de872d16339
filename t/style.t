#!/usr/bin/perl

# The sources keep the house's form: C of at most 80 columns without tabs or
# trailing blanks, a comment at the top of each file, no notes to oneself, and
# no words that mean another thing.

use v5.36;

use File::Find;
use Test::More;

my @files;
find({ no_chdir => 1, wanted => sub { push @files, $_ if /\.[ch]\z/ } },
     qw(jail ngx_agent_broker scripts t));
@files = sort @files;

ok(scalar @files, 'there are C sources');

for my $file (@files) {
    open my $f, '<', $file or die "$file: $!";
    my @lines = <$f>;
    my @bad;

    push @bad, "$file:1: no comment at the top" if $lines[0] !~ m{^/\*};

    for my $n (1 .. @lines) {
        my $line = $lines[$n - 1];
        chomp $line;
        push @bad, "$file:$n: over 80 columns" if length $line > 80;
        push @bad, "$file:$n: a tab" if $line =~ /\t/;
        push @bad, "$file:$n: trailing blanks" if $line =~ /\s$/;
        push @bad, "$file:$n: a note to oneself"
            if $line =~ /\b(?:TODO|FIXME|XXX)\b/;
        push @bad, "$file:$n: not a word of ours"
            if $line =~ /\b(?:sandbox|whitelist)/i;
    }

    is(join("\n", @bad), '', $file);
}

done_testing;
