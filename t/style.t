#!/usr/bin/perl

# The sources keep the house's form: C of at most 80 columns without tabs or
# trailing blanks, a comment at the top of each file, no notes to oneself, and
# no words that mean another thing.  A function that other files call begins
# with a word of its file's name, and a header is read once.  What the programs
# print, the pages and the names of tests are plain (t/lib/words.pl).

use v5.36;

use File::Find;
use Test::More;

# Names that say more than one with the file's word in it would.
my %IS_NAMED_OTHERWISE = map { $_ => 1 } qw(
    main
    box_has_tmp
);

my @files;
find({ no_chdir => 1, wanted => sub { push @files, $_ if /\.[ch]\z/ } },
     qw(jail ngx_agent_broker scripts t));
@files = sort @files;

cmp_ok(scalar @files, '>', 200, 'there are C sources');

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

    push @bad, names($file, @lines) if $file =~ m{^(?:jail|ngx_agent_broker)/};

    is(join("\n", @bad), '', $file);
}

# each exception is still one
my @functions = map { functions($_) } grep { m{^(?:jail|ngx_agent_broker)/} }
                                      @files;
my %is_there = map { $_ => 1 } @functions;
is_deeply([grep { !$is_there{$_} } sort keys %IS_NAMED_OTHERWISE], [],
          'the functions that are named otherwise exist');

subtest 'words are plain technical English' => sub {
    do './t/lib/words.pl' or die $@ || $!;
};

done_testing;


# The functions of a file that others may call: a line that begins with the
# name, below one with the type.
sub functions ($file) {
    return if $file !~ /\.c\z/;
    open my $f, '<', $file or die "$file: $!";
    return functions_of(<$f>);
}

sub functions_of (@lines) {
    my @found;
    for my $n (1 .. $#lines) {
        my ($name) = $lines[$n] =~ /^([a-z]\w*)\(/ or next;
        push @found, $name
            if $lines[$n - 1] =~ /^[a-z][\w *]*$/
               && $lines[$n - 1] !~ /^static\b/;
    }
    return @found;
}

sub names ($file, @lines) {
    my ($stem, $kind) = $file =~ m{([^/]+)\.([ch])\z};

    if ($kind eq 'h') {
        return if 1 == grep { /^#pragma once$/ } @lines;
        return "$file: it does not say #pragma once, once";
    }

    my %is_word = map { $_ => 1, s/s\z//r => 1 }
                  split /_/, $stem =~ s/^ngx_agent_//r;
    return map { "$file: $_() begins with no word of its file's name" }
           grep { !$IS_NAMED_OTHERWISE{$_}
                  && !$is_word{(split /_/, s/^ngx_(?:http_)?agent_//r)[0]} }
           functions_of(@lines);
}
