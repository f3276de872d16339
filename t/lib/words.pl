#!/usr/bin/perl

# The words that a user or an engineer reads once are plain technical English:
# the messages and comments of both programs, README and the other pages, the
# man page, the shipped configuration, the scripts and the names of tests.  Each
# row of the table is a turn of phrase that needs a second reading, with what is
# said instead.
#
#   perl t/lib/words.pl --counts      how many are in each file
#   perl t/lib/words.pl --list        each with its file and line

use v5.36;

package Words;

use File::Find;
use Test::More;

# [pattern, what to write instead]; the text has single blanks, no line ends
my @TICS = (
    [qr/\b(?:to|for|of|by|from|with|as|than) who\b(?! am\b)/i,
     '"anyone who", "whoever", "programs that"'],
    [qr/(?<!\bthere )\b(?:is|are|was|were) no (?!(?:longer|more|less)\b)\w+/i,
     '"is not a ..."'],
    [qr/\bwhat (?:is|was) told\b/i, 'what is printed, or sent'],
    [qr/\b(?:is|are|was|were) told (?:as|here|the same)\b/i, '"is reported"'],
    [qr/\b(?:stands|stood)\b(?! (?:for|still|by)\b)/i, '"is"'],
    [qr/\bstand (?=in|under|beside|below|above|there)/i, '"is"'],
    [qr/\bmend(?:s|ed|ing)?\b/i, '"fixes"'],
    [qr/\bof (?:32|64) bits\b/i, '"32-bit"'],
    [qr/\ban advice\b|\badvices\b/i, '"advice"'],
    [qr/(?<!\blet )(?<!\bleft )(?<!# )(?<!\bleaves it )(?<!\bruns? )\balone\b/i,
     '"only"'],
    [qr/\btill\b/i, '"until"'],
    [qr/\b(?:come|came|comes) whole\b/i, '"is fully received"'],
    [qr/\b(?:problem|fault|failure) of its own\b/i, '"internal error"'],
    [qr/\bin all(?=[.,;:)]|\z)/i, '"total"'],
    [qr/\ball that is like it\b/i, 'name what it is compared with'],
    [qr/\b(?:is|are) to be\b/i, '"must be"'],
    [qr/\b(?:can|cannot|could|may) be had\b/i, '"is available"'],
    [qr/\bnone gets\b/i, '"floor"'],
    [qr/\b(?:has|have|had) not got\b/i, '"does not have"'],
    [qr/\bof before\b/i, '"earlier"'],
    [qr/\bin the midst of\b/i, '"during"'],
    [qr/\bin a riddle\b/i, 'what is unclear about it'],
    [qr/\bone that may be (?:set|given)\b/i, '"allowed"'],
    [qr/\b(?:so|as) (?:it|they) (?:stands|stand)\b/i, '"as it is"'],
);

# A name of a test that needs the line before it says nothing by itself.
my $FRAGMENT = qr/^(?:and|or|nor|but|so is|too(?! \w)|also|then|at once|as well)\b/;

# Those that fail the test; in the others each is still reported.
my %IS_CLEAN = map { $_ => 1 } ('messages', 'comments', 'pages',
                                'names of tests', 'fragments',
                                'configuration and scripts');

# Tables of words that are looked for are not words that are said.
my %LEFT_OUT = ('t/lib/words.pl' => 1);

my %option = map { $_ => 1 } @ARGV;
my @texts;                              # [group, file, line, text]

for my $file (files(qr/\.[ch]\z/, qw(jail ngx_agent_broker))) {
    push @texts, map { ['messages', $file, @$_] } literals_of_c($file);
    push @texts, map { ['comments', $file, @$_] } comments_of_c($file);
}

for my $file (glob 'jail/*.1 ngx_agent_broker/tools/*.1') {
    push @texts, map { ['pages', $file, @$_] } paragraphs($file, 1);
}
for my $file ('README.md', glob '.github/*') {
    push @texts, map { ['pages', $file, @$_] } paragraphs($file, 0)
        if -f $file;
}

for my $file (files(qr/./, qw(conf auto scripts))) {
    push @texts, map { ['configuration and scripts', $file, @$_] }
                 paragraphs($file, 0);
}

for my $file (files(qr/\.(?:t|pm)\z|\A\w+\z/, 't')) {
    next if $LEFT_OUT{$file} || !is_perl($file);
    push @texts, map { ['names of tests', $file, @$_] } names_in($file);
}

my (%found, %count);

for my $text (@texts) {
    my ($group, $file, $line, $words) = @$text;
    for my $tic (@TICS) {
        next if $words !~ $tic->[0];
        while ($words =~ /(.{0,40}?)($tic->[0])(?=(.{0,30}))/g) {
            push @{ $found{$group} },
                 [$file, "$file:$line: \"$2\" in \"$1$2$3\": $tic->[1]"];
        }
    }
    push @{ $found{'fragments'} },
         [$file, "$file:$line: \"$words\" needs the line before it"]
        if $group eq 'names of tests' && $words =~ $FRAGMENT;
}

for my $group (sort keys %found) {
    $count{ $_->[0] }{$group}++ for @{ $found{$group} };
}

if ($option{'--counts'} || $option{'--list'}) {
    for my $file (sort keys %count) {
        my $of = $count{$file};
        say sprintf '%5d  %s  (%s)', eval { my $n = 0; $n += $_ for values %$of;
            $n }, $file, join ', ', map { "$of->{$_} $_" } sort keys %$of;
    }
    if ($option{'--list'}) {
        say $_->[1] for map { @{ $found{$_} } } sort keys %found;
    }
    exit 0;
}


# what the table finds and what it leaves

for my $text ('it is no socket', 'names what mends it', 'a program of 32 bits',
              'where no name stands', 'it gives an advice', 'for who asks',
              'answers plain queries alone', 'has not come whole in time',
              'it has not got one')
{
    ok((grep { $text =~ $_->[0] } @TICS), "control: \"$text\" is found");
}

for my $text ('there is no broker at /run/x', 'it is no longer there',
              'who may start tasks', 'anyone who starts it', 'let alone',
              'a 32-bit program', 'it stands for the host', 'in all boxes',
              'advice for the reader', 'told apart')
{
    ok(!(grep { $text =~ $_->[0] } @TICS), "control: \"$text\" is left");
}

for my $group ('messages', 'comments', 'pages', 'configuration and scripts',
               'names of tests')
{
    cmp_ok(scalar(grep { $_->[0] eq $group } @texts), '>', 40,
           "$group are found");
}

for my $group ('messages', 'comments', 'pages', 'configuration and scripts',
               'names of tests', 'fragments')
{
    local $TODO = $IS_CLEAN{$group} ? undef : 'the words are being cleaned';
    is(join("\n", map { $_->[1] } @{ $found{$group} // [] }), '',
       "plain English in $group");
}

done_testing unless caller;


sub files ($name, @dirs) {
    my @files;
    find({ no_chdir => 1, wanted => sub {
        push @files, $_ if -f && m{([^/]*)\z} && $1 =~ $name;
    } }, @dirs);
    return sort @files;
}

sub text_of ($file) {
    local (@ARGV, $/) = $file;
    return <> // '';
}

sub is_perl ($file) { return text_of($file) =~ /\A(?:#!.*perl|package )/ }

# The number of the line at an offset, which only grows within a text.
sub line_at ($text, $offset) {
    state $of = 0;
    state $at = 0;
    state $line = 1;
    ($of, $at, $line) = ($text, 0, 1) if $of != $text || $at > $offset;
    $line += substr($$text, $at, $offset - $at) =~ tr/\n//;
    $at = $offset;
    return $line;
}

# [line, text]: string literals, neighbours joined, those of blanks only and
# of single words left out
sub literals_of_c ($file) {
    my $text = text_of($file);
    my @found;

    # comments, and the names of headers, become blanks of the same length
    $text =~ s{(/\*.*?\*/)}{$1 =~ s/[^\n]/ /gr}gse;
    $text =~ s{^(#include.*)}{' ' x length $1}gme;

    line_at(\$text, 0);
    while ($text =~ /("(?:[^"\\\n]|\\.)*"(?:\s*(?:PRI\w+\s*)?"(?:[^"\\\n]|\\.)*")*)/g) {
        my $line = line_at(\$text, $-[0]);
        my $words = $1 =~ s/"\s*(?:PRI\w+\s*)?"//gr;
        $words =~ s/\A"|"\z//g;
        push @found, [$line, plain($words =~ s/\\[nt]/ /gr)] if $words =~ / /;
    }
    return @found;
}

sub comments_of_c ($file) {
    my $text = text_of($file);
    my @found;
    line_at(\$text, 0);
    while ($text =~ m{/\*(.*?)\*/}gs) {
        my $line = line_at(\$text, $-[0]);
        push @found, [$line, plain($1 =~ s/^ *\* ?//gmr)];
    }
    return @found;
}

# Paragraphs, without the marks of comments; of a man page those between its
# macros, whose words are kept.
sub paragraphs ($file, $is_roff) {
    my ($n, $from, $words, @found) = (0, 1, '');
    for (split(/^/, text_of($file)), "\n") {
        my $line = $_;
        $n++;
        $line =~ s/^\s*(?:#|\/?\*)+ ?// if !$is_roff;
        my $ends = $line =~ /^\s*$/ || $is_roff
            && $line =~ /^\.(?:\\"|Sh|Ss|Pp|It|Bl|El|Bd|Ed|D[dt1l]|Os|Nm|Nd)/;
        if ($ends) {
            push @found, [$from, plain($words)] if $words =~ /\w/;
            $words = '';
            next if !$is_roff || $line !~ /^\.It/;
        }
        $from = $n if $words eq '';
        $line =~ s/^\.[A-Z]\w+ // if $is_roff;
        $line =~ s/\b(?:It|Op|Ar|Cm|Fl|Pa|Ev|Dv|Li|Ql|Dq|Va) //g if $is_roff;
        $words .= $line;
    }
    return @found;
}

# The last string of a call of Test::More's, and the name of a subtest.
sub names_in ($file) {
    my $text = text_of($file);
    my @found;

    $text =~ s/^__(?:END|DATA)__\n.*//ms;
    $text =~ s/^([ \t]*#.*)/' ' x length $1/gme;
    $text =~ s{(<<"?'?([A-Z]+)"?'?.*\n)(.*?)^\2$}
              {$1 . $3 =~ s/[^\n]/ /gr . ' ' x length $2}gmse;

    my $string = qr/'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"/s;
    line_at(\$text, 0);
    while ($text =~ /(?:^\s*subtest\s+|\b(?:pass|fail)\b\s*\(?\s*|,\s*)
                     ($string(?:\s*\.\s*$string)*)
                     \s*\)?\s*(?:;|=>|\n?\s*or\b|\n?\s*(?:if|unless|for)\b)/gmx)
    {
        my $words = $1;
        my $line = line_at(\$text, $-[1]);
        $words =~ s/['"]\s*\.\s*['"]//g;
        $words =~ s/\A['"]|['"]\z//g;
        push @found, [$line, plain($words =~ s/\\(['"])/$1/gr)]
            if $words =~ /[a-z]/ && $words !~ m{^[\w./:%\$-]+$}
               || $words =~ $FRAGMENT;
    }
    return @found;
}

sub plain ($text) { return $text =~ s/\s+/ /gr =~ s/^ | $//gr }

1;
