#!/usr/bin/perl

# The tree is ordered: a folder of jail/ or ngx_agent_broker/ uses only the
# folders below it, no files call each other in a circle, and a function that no
# other file calls is static.  All are computed from the symbols of the linked
# objects, and from the headers that a file includes; a failure names the edge
# or the function that breaks the rule.
#
# The order of the folders is the one of the map at the top of jail/jail.c and
# of ngx_agent_broker/ngx_agent_broker_module.c, which names every file once.

use v5.36;

use lib 't/lib';
use File::Basename qw(basename dirname);
use File::Find;
use Test::More;

chomp(my $root = `git rev-parse --show-toplevel 2> /dev/null` || '.');
chdir $root or die "$root: $!";

# nginx's macros find a module's configuration by this object, so every folder
# names it; it is data, and nothing is called through it
my %IS_KEY = (ngx_agent_broker_module => 1);

my @PARTS = (
    {
        name    => 'jail',
        top     => 'jail/jail.c',
        object  => sub ($c) { "objs/o/" . $c =~ s/\.c\z/.o/r },
        # a program that the build runs, not a part of the launcher
        without => { 'jail/box/seccomp_gen.c' => 1 },
    },
    {
        name    => 'ngx_agent_broker',
        top     => 'ngx_agent_broker/ngx_agent_broker_module.c',
        object  => sub ($c) {
            $c =~ m{/tools/} ? "objs/o/" . $c =~ s/\.c\z/.o/r
            : 'objs/nginx/addon/' . basename(dirname $c) . '/'
                . basename($c) =~ s/\.c\z/.o/r;
        },
        without => {},
    },
);

for my $part (@PARTS) {
    my $map = map_of($part->{top});
    my @sources = files_below($part->{name}, qr/\.[ch]\z/);
    my @folders = @{$map->{folders}};

    subtest "the map at the top of $part->{top} is the tree" => sub {
        my %there = map { $_ => 1 } map { dirname $_ } @sources;
        delete $there{$part->{name}};
        is_deeply([sort map { "$part->{name}/$_" } @folders],
                  [sort keys %there], 'it names every folder, and no other');
        for my $folder (@folders) {
            is_deeply([sort @{$map->{files}{$folder}}],
                      [sort map { basename $_ }
                       grep { dirname($_) eq "$part->{name}/$folder" }
                       @sources],
                      "it names every file of $folder/ once, and no other");
        }
    };

    # the top, then the folders in order; what both programs share is last
    my @order = ('.', @folders, $part->{name} eq 'jail' ? () : 'jail/shared');
    my %rank = map { $order[$_] => $_ } 0 .. $#order;
    my @c = grep { /\.c\z/ && !$part->{without}{$_} } @sources;
    push @c, files_below('jail/shared', qr/\.c\z/)
        if $part->{name} ne 'jail';

    my $edges = edges_of({ map { $_ => $part->{object}->($_) } @c });
    my ($up, $circles) = judge($edges, \%rank, $part->{name});

    is(join("\n", @$up), '',
       "$part->{name}: no folder calls one that is not below it");
    is(join("\n", @$circles), '',
       "$part->{name}: no files call each other in a circle");

    is(join("\n", includes_up(\@sources, \%rank, $part->{name})), '',
       "$part->{name}: no file includes a header of a folder above it");
}


# The rules are seen to be broken where they are

{
    my ($up, $circles) = judge(
        { 'x/a/1.c' => { 'x/b/2.c' => ['down'] },
          'x/b/2.c' => { 'x/b/3.c' => ['there'], 'x/a/1.c' => ['above'] },
          'x/b/3.c' => { 'x/b/2.c' => ['back'] } },
        { '.' => 0, a => 1, b => 2 }, 'x');
    is_deeply($up, ['x/b/2.c calls above of x/a/1.c'],
              'control: a call of a folder above is named');
    like("@$circles", qr{x/b/2.c calls there of x/b/3.c},
         'control: a circle is named by its calls');
}


# What is called neither by another file nor by a test is static or not needed

{
    my (%owner, %is_called);
    my @objects = grep { -f source_of($_) }
                  map { files_below($_, qr/\.o\z/) } 'objs/o', 'objs/nginx/addon';

    open my $nm, '-|', 'nm', '-A', @objects or die "nm: $!";
    while (my $line = <$nm>) {
        my ($object, $kind, $symbol) = $line =~ /^([^:]+):.* ([A-Za-z]) (\S+)$/
            or next;
        if ($kind eq 'U') { $is_called{$symbol} = 1 }
        elsif ($kind eq 'T' && $object !~ m{^objs/o/t/}) {
            $owner{$symbol} = source_of($object);
        }
    }
    close $nm;

    # what is built by itself, and calls that tests follow by name
    for my $file (glob('t/fuzz/*.c t/jail/*.t')) {
        local (@ARGV, $/) = $file;
        $is_called{$_} = 1 for <> =~ /\b([a-z]\w+)\b/g;
    }

    cmp_ok(scalar keys %owner, '>', 500, 'control: functions are found');
    is(join("\n", map { "$_() of $owner{$_}" }
                   grep { !$is_called{$_} && $_ ne 'main' } sort keys %owner),
       '', 'every function that is not static is called by another file');
}


# Both builds compile the same files

{
    open my $f, '<', 'objs/nginx/Makefile' or die "objs/nginx/Makefile: $!";
    my %nginx = map { m{addon/(\w+/\w+)\.o:} ? ($1 => 1) : () } <$f>;
    my %rules = map { s{\.c\z}{}r =~ m{(\w+/\w+)\z} ? ($1 => 1) : () }
                split ' ', `make -s print-MODULE_SRCS`;
    is_deeply([sort keys %nginx], [sort keys %rules],
              'ngx_agent_broker/config and auto/rules.mk list the same files');
}


# What CONTRIBUTING tells as a walk is a list of functions that are there

{
    my $text = do {
        local (@ARGV, $/) = '.github/CONTRIBUTING.md';
        <>;
    };
    my @walks = $text =~ /^### Walk: (.*?)\n(.*?)(?=^##|\z)/msg;

    cmp_ok(scalar @walks, '>=', 6, 'CONTRIBUTING has at least three walks');

    while (my ($title, $walk) = splice @walks, 0, 2) {
        my @steps = $walk =~ /^\d+\. `(\w+)\(\)` in `([\w.\/-]+)`/mg;
        my (@missing, $n);
        while (my ($function, $file) = splice @steps, 0, 2) {
            $n++;
            my $source = -f $file ? do { local (@ARGV, $/) = $file; <> } : '';
            push @missing, "$function() in $file"
                if $source !~ /^\Q$function\E\(/m;
        }
        cmp_ok($n // 0, '>', 5, "the walk \"$title\" has its steps");
        is("@missing", '', "the functions of the walk \"$title\" exist");
    }
}

done_testing;


# The folders in order, and the files named below each
sub map_of ($file) {
    open my $f, '<', $file or die "$file: $!";
    my (@folders, %files, $blank);
    while (my $line = <$f>) {
        last if $line =~ m{^ \*/};
        if ($line =~ m{^ \* {2,}([a-z_]+)/(?= |$)}) {
            push @folders, $1;
        } elsif ($line =~ /^ \*$/) {
            $blank = 1;
            next;
        } elsif (@folders && $blank) {
            last;
        }
        $blank = 0;
        push @{$files{$folders[-1]}}, $line =~ /\b(\w+\.[ch])\b/g if @folders;
    }
    return { folders => \@folders, files => \%files };
}

# the source of an object, whichever build it is of
sub source_of ($object) {
    my $file = $object =~ s{^objs/(?:o|nginx/addon)/}{}r =~ s{\.o\z}{.c}r;
    return (grep { -f } $file, "ngx_agent_broker/$file", "jail/$file")[0]
        // $file;
}

sub files_below ($dir, $name) {
    my @files;
    find({ no_chdir => 1,
           wanted => sub { push @files, $_ if /$name/ } }, $dir);
    return sort @files;
}

# { source => { source it calls => [symbols] } }
sub edges_of ($objects) {
    my (%owner, %needs, %edges);
    for my $source (sort keys %$objects) {
        my $object = $objects->{$source};
        open my $nm, '-|', 'nm', $object or die "nm: $!";
        my $lines = 0;
        while (my $line = <$nm>) {
            my ($kind, $symbol) = $line =~ /([A-Za-z]) (\S+)$/ or next;
            $lines++;
            next if $IS_KEY{$symbol};
            if ($kind eq 'U') { push @{$needs{$source}}, $symbol }
            elsif ($kind =~ /[TDBRCVW]/) { $owner{$symbol} = $source }
        }
        close $nm;
        BAIL_OUT("$object: no symbols: run make first") if !$lines;
    }
    for my $source (keys %needs) {
        for my $symbol (@{$needs{$source}}) {
            my $other = $owner{$symbol} // next;
            push @{$edges{$source}{$other}}, $symbol if $other ne $source;
        }
    }
    return \%edges;
}

sub folder_of ($source, $part) {
    my $dir = dirname $source;
    return $dir eq $part ? '.' : $dir =~ s{^\Q$part\E/}{}r;
}

# The edges that run up, and those that close a circle
sub judge ($edges, $rank, $part) {
    my (@up, @circles, %reach);

    for my $from (sort keys %$edges) {
        for my $to (sort keys %{$edges->{$from}}) {
            my @symbols = sort @{$edges->{$from}{$to}};
            push @up, "$from calls @symbols of $to"
                if ($rank->{folder_of($to, $part)} // -1)
                    < ($rank->{folder_of($from, $part)} // 1e9);
        }
    }

    for my $from (keys %$edges) {
        my @todo = keys %{$edges->{$from}};
        while (defined(my $next = pop @todo)) {
            next if $reach{$from}{$next}++;
            push @todo, keys %{$edges->{$next} // {}};
        }
    }
    for my $from (sort keys %$edges) {
        for my $to (sort keys %{$edges->{$from}}) {
            push @circles, "$from calls @{$edges->{$from}{$to}} of $to"
                if $reach{$to}{$from};
        }
    }

    return (\@up, \@circles);
}

sub includes_up ($sources, $rank, $part) {
    my @bad;
    for my $source (@$sources) {
        open my $f, '<', $source or die "$source: $!";
        while (my $line = <$f>) {
            my ($header) = $line =~ /^#include "([^"]+)"/ or next;
            my $file = (grep { -f } "$part/$header", $header)[0] // next;
            my $to = $rank->{folder_of($file, $part)};
            push @bad, "$source includes $header"
                if !defined $to
                    || $file !~ m{^\Q$part\E/[^/]+\z}
                       && $to < $rank->{folder_of($source, $part)};
        }
    }
    return @bad;
}
