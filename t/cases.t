#!/usr/bin/perl

# t/CASES tells which test keeps which fault away.  A line has a case, the
# fault in a sentence, and one of
#
#   t/jail/box.t                a test in this file whose name has the case's
#                               id in it; several files, separated by commas
#   t/unit/x_test.c "words"     one whose name has these words in it
#   cannot apply: why           the mechanism that could fail is not there
#   not yet                     a promise still to come
#
# When the whole suite has run (scripts/test), such a test has run in it and
# was not skipped: t/lib/run-test has kept what each file printed.  Fuzz
# targets are run by make nightly.
#
# last: it reads what all the others have printed

use v5.36;

use File::Basename qw(dirname);
use Test::More;

open my $f, '<', 't/CASES' or die "t/CASES: $!";

# an ordinary user leaves out what needs root
my $is_whole = $ENV{AGENT_TEST_WHOLE} && $> == 0;
my (@wrong, @unnamed, @not_run, @later, %source, %printed);
my ($lines, $last) = (0, '');

while (my $line = <$f>) {
    chomp $line;
    my ($id, $fault, $where) = split / \| /, $line, 3;
    $lines++;

    if (($id // '') !~ /^[A-G]-\d{3}$/) {
        push @wrong, "line $.: \"$line\" begins with no id";
        next;
    }

    push @wrong, "$id is not in order, after $last" if $id lt $last;
    push @wrong, "$id says too little of the fault" if length $fault < 10;
    $last = $id;

    next if ($where // '') =~ /^cannot apply: \w+ \w+ \w+/;
    if (($where // '') eq 'not yet') {
        push @later, $id;
        next;
    }

    my @tests = ($where // '')
        =~ m{(t/[\w/.-]+\.(?:t|c))(?: "([^"]+)")?(?:,? |$)}g;
    push @wrong, "$id names neither a test nor a reason" if !@tests;

    while (my ($file, $words) = splice @tests, 0, 2) {
        if (!-f $file) {
            push @wrong, "$id names $file, which does not exist";
            next;
        }
        next if $file =~ m{^t/fuzz/};
        my $name = $words // $id;
        my $is = quotemeta($words // $id =~ tr/-/_/r) =~ s/_/[-_]/gr;
        if (source($file) !~ $is) {
            push @unnamed, "$id: no test in $file is named \"$name\"";
        } elsif ($is_whole && printed($file) !~ /^ *ok\b.*$is/m) {
            push @not_run, "$id: \"$name\" has not run in $file";
        }
    }
}

is(join("\n", @wrong), '',
   'each line of t/CASES has a case, a fault and a test');
is(join("\n", @unnamed), '', 'the tests that t/CASES names exist');

SKIP: {
    skip 'only scripts/test without arguments, as root, runs all of them', 1
        if !$is_whole;
    is(join("\n", @not_run), '', 'the tests that t/CASES names have run');
}

cmp_ok($lines, '>', 200, 'the cases are listed');
print STDERR scalar(@later), " of $lines cases are still to come: @later\n"
    if @later;

done_testing;


# the file, and the modules beside it that it uses, without comments
sub source ($file) {
    return $source{$file} //= do {
        my $text = do { local (@ARGV, $/) = $file; <> };
        if ($file =~ /\.c$/) {
            $text =~ s{/\*.*?\*/}{}gs;
            $text =~ s/"\s*"//g;
        } else {
            my @modules = grep { -f } map { dirname($file) . "/$_.pm" }
                          $text =~ /^use (\w+)\b/mg;
            $text = join "\n", $text =~ s/^\s*#.*//gmr,
                               map { source($_) } @modules;
        }
        $text;
    };
}

# what has run of it and was not skipped
sub printed ($file) {
    return $printed{$file} //= do {
        my $text = '';
        my $name = $file =~ s/\.c$//r;
        for my $kept (grep { -f } "objs/tap/$name", "objs-asan/tap/$name") {
            local (@ARGV, $/) = $kept;
            $text .= <>;
        }
        $text =~ s/^ *ok\b.*# skip.*//gmir;
    };
}
