#!/usr/bin/perl

# What a box's first process can run between clone and exec is small enough to
# be read at one sitting.  The functions are found by what calls them: the
# launcher is compiled once more, without inlining and with each function and
# each table in a section of its own, and from setup_run() and the table of
# walls, whose functions it calls, every symbol that a section refers to is
# followed, function pointers in tables too.  The lines
# of these functions are counted in the source: neither blank nor comment.
# Libraries are not counted.

use v5.36;

use lib 't/lib';
use File::Find;
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use Test::More;

my $MOST = 1500;
my @ENTRIES = qw(setup_run wall_table);

my $dir = tempdir(CLEANUP => 1);
my @sources;
find({ no_chdir => 1,
       wanted => sub { push @sources, $_ if /\.c\z/ } }, 'jail');
@sources = sort grep { $_ ne 'jail/box/seccomp_gen.c' } @sources;

my ($lines, $missing) = count_from(\@ENTRIES, compile($dir, @sources),
                                   bodies(@sources, headers('jail')));
is("@$missing", '', 'the source of every function that is called is found');

my (%sum, $total);
$sum{$_->[1]}[0] += $_->[2], $sum{$_->[1]}[1]++, $total += $_->[2]
    for @$lines;
diag(sprintf "%5d lines  %2d functions  %s", $sum{$_}->@*, $_)
    for sort { $sum{$b}[0] <=> $sum{$a}[0] || $a cmp $b } keys %sum;
diag(sprintf '%5d lines  %2d functions  %d files', $total, scalar @$lines,
     scalar keys %sum);

my @largest = sort { $b->[2] <=> $a->[2] } @$lines;
cmp_ok($total, '<=', $MOST, "from clone to exec there are at most $MOST lines")
    or diag('the largest: ' . join ', ',
            map { "$_->[0]() in $_->[1]: $_->[2]" } @largest[0 .. 9]);
cmp_ok(scalar @$lines, '>', 40, 'they are more than a few functions');

my %is_there = map { $_->[0] => 1 } @$lines;
ok($is_there{$_}, "$_() is one of them")
    for qw(setup_run mount_copy mounts_do routes_answer landlock_restrict
           seccomp_enter exec_main reaper_run fd_pass_send);


# Controls: a function that is called by a call, by another file, by a pointer
# in a table or by a static table of a function is counted; one that nothing
# calls is not; blank lines and comments are none.

{
    my $made = "$dir/made";
    make_path($made);
    my %text = (
        'one.c' => <<~'END',
            /* A comment. */
            int far(int n);
            static int near(int n);
            static int pointed(int n);
            int setup_run(int n);


            static int (*const table[])(int n) = { pointed };


            int
            setup_run(int n)
            {
                /*
                 * Not counted.
                 */

                return near(n) + far(n) + table[n](n);
            }


            static int
            near(int n)
            {
                return n + 1;
            }


            static int
            pointed(int n)
            {
                return n + 2;
            }


            int
            unused(int n)
            {
                return n + 3;
            }
            END
        'two.c' => <<~'END',
            /* Another. */
            static int
            inner(int n)
            {
                /* { */
                return n * 2;
            }


            int
            far(int n)
            {
                static int (*const steps[])(int n) = { inner };

                return steps[0](n);
            }
            END
    );
    for my $name (keys %text) {
        open my $f, '>', "$made/$name" or die "$made/$name: $!";
        print $f $text{$name};
        close $f;
    }
    my @made = sort map { "$made/$_" } keys %text;
    my ($found) = count_from(['setup_run'], compile("$dir/o", @made),
                               bodies(@made));
    is_deeply([map { [$_->[0], $_->[2]] } sort { $a->[0] cmp $b->[0] } @$found],
              [['far', 6], ['inner', 5], ['near', 5], ['pointed', 5],
               ['setup_run', 5]],
              'control: what is called is counted, by its lines of code');
}

done_testing;


# { file => { refers => { function or table => [names it refers to] },
#             functions => { name => 1 }, globals => { name => 1 } } }
sub compile ($into, @files) {
    my (%object, %known);
    my @cc = (qw(cc -std=gnu17 -D_GNU_SOURCE= -O0 -w -fPIE -ffunction-sections
                 -fdata-sections -iquote jail -iquote ngx_agent_broker
                 -iquote . -iquote), $ENV{AGENT_TEST_OBJS} // 'objs', '-c');

    make_path($into);

    # two at a time
    my @todo = @files;
    while (my @two = splice @todo, 0, 2) {
        my @pids;
        for my $file (@two) {
            $object{$file} = "$into/" . $file =~ tr{/}{_}r . '.o';
            my $pid = fork // die "fork: $!";
            exec @cc, '-o', $object{$file}, $file or die "cc: $!" if !$pid;
            push @pids, $pid;
        }
        for my $pid (@pids) {
            waitpid $pid, 0;
            BAIL_OUT('the launcher cannot be compiled') if $?;
        }
    }

    for my $file (@files) {
        my $from;
        for (`objdump -r $object{$file}`) {
            if (/^RELOCATION RECORDS FOR \[(\S+)\]/) {
                $from = name_of($1);
            } elsif (defined $from
                     && /^[0-9a-f]+ R_\S+ +(\S+?)(?:[+-]0x[0-9a-f]+)?$/)
            {
                push $known{$file}{refers}{$from}->@*, name_of($1) // next;
            }
        }
        for (`nm $object{$file}`) {
            $known{$file}{functions}{$1} = 1 if / [tT] (\S+)$/;
            $known{$file}{globals}{$1} = 1   if / [TDRBV] (\S+)$/;
        }
    }

    return \%known;
}

# .text.name, .data.rel.ro.local.name and .rodata.name are of "name"; a static
# table of a function is "table.0".  Debug and unwind sections are nobody's.
sub name_of ($section) {
    return $section if $section !~ /^\./;
    return $1 if $section =~ /^\.(?:text|rodata|data\.rel\.ro\.local|
                                 data\.rel\.ro|data\.rel\.local|data\.rel|
                                 data|bss)\.(.+)$/x;
    return;
}

# { file => { function => lines } }: a function's name begins a line
sub bodies (@files) {
    my %bodies;
    for my $file (@files) {
        open my $f, '<', $file or die "$file: $!";
        my $text = do { local $/; <$f> };
        $text =~ s{/\*.*?\*/}{ $& =~ tr/\n//cdr }gse;
        while ($text =~ /^[a-z][\w ]*\**\n(\w+)\([^;{}]*?\)\n\{\n.*?^\}$/gms) {
            my ($name, $body) = ($1, $&);
            $bodies{$file}{$name} = () = $body =~ /^.*\S.*$/gm;
        }
    }
    return \%bodies;
}

sub headers ($tree) {
    my @headers;
    find({ no_chdir => 1,
           wanted => sub { push @headers, $_ if /\.h\z/ } }, $tree);
    return @headers;
}

# [function, source, lines] of all that can be reached, and those that have no
# source.  What a file refers to is its own if it has it.
sub count_from ($entries, $known, $bodies) {
    my (%owner, %seen, @lines, @missing);

    for my $file (sort keys %$known) {
        $owner{$_} //= $file for keys(($known->{$file}{globals} // {})->%*);
    }

    my @todo = map { [$owner{$_} // BAIL_OUT("$_ is gone"), $_] } @$entries;

    while (my $next = pop @todo) {
        my ($file, $name) = @$next;
        my $own = $known->{$file}{functions}{$name}
               || $known->{$file}{refers}{$name};

        $file = $own ? $file : $owner{$name} // next;
        next if $seen{"$file $name"}++;

        if ($known->{$file}{functions}{$name}) {
            my ($source) = grep { $bodies->{$_}{$name} }
                           $file, grep { /\.h\z/ } sort keys %$bodies;
            if (!defined $source) {
                push @missing, "$name of $file";
            } elsif (!$seen{"$source $name counted"}++) {
                push @lines, [$name, $source, $bodies->{$source}{$name}];
            }
        }

        push @todo, map { [$file, $_] }
                    ($known->{$file}{refers}{$name} // [])->@*;
    }

    return (\@lines, \@missing);
}
