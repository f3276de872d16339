#!/usr/bin/perl

# The manual page is well-formed, and what it says of options, reasons and
# keys is what the program has.

use v5.36;

use FindBin;
use lib $FindBin::Bin;
use Jail;
use Test::More;

my $page = root_dir() . '/jail/jail.1';

open my $f, '<', $page or die "$page: $!";
my $text = do { local $/; <$f> };

subtest 'man finds no fault in the page' => sub {
    plan skip_all => 'man is not installed'
        if !grep { -x "$_/man" } split /:/, $ENV{PATH};
    my $said = qx{man --warnings -E UTF-8 -l -Tutf8 -Z $page 2>&1 >/dev/null};
    is($said, '', 'it has no warning');
};

subtest 'the page and --help have the same options' => sub {
    my $help = jail(['--help'])->{out};
    my %in_help = map { $_ => 1 } $help =~ /^ +--([a-z-]+)/mg;
    my ($run) = $text =~ /^\.Ss jail run\n(.*?)^\.Ss/ms;
    my %in_page = map { $_ => 1 }
                  map { /Fl -([a-z-]+)/g } grep { /^\.It/ } split /\n/, $run;

    is(join(' ', grep { !$in_page{$_} } sort keys %in_help), '',
       'every option of --help is in the page');
    is(join(' ', grep { !$in_help{$_} } sort keys %in_page), '',
       'every option of the page is in --help');
};

subtest 'the page has every key of a result' => sub {
    my $j = box('true');
    for my $key (sort keys %$j) {
        like($text, qr/^\.It Va .*\b\Q$key\E\b/m, "the key $key");
        next if ref $j->{$key} ne 'HASH';
        like($text, qr/\b\Q$_\E\b/, "the key $key.$_")
            for sort keys %{ $j->{$key} };
    }
};

subtest 'the page has every variable of a box' => sub {
    for my $name (map { /^(\w+)=/ } split /\n/, box('env')->{stdout}) {
        next if $name eq 'PWD';                # the shell's own
        like($text, qr/^\.It Ev .*\b$name\b/m, "the variable $name");
    }
};

subtest 'the page has every reason' => sub {
    open my $c, '<', root_dir() . '/jail/run/result.c' or die $!;
    my @reasons = do { local $/; <$c> } =~ /\[REASON_\w+\] = "(\w+)"/g;
    cmp_ok(scalar @reasons, '>', 10, 'control: there are more than ten');
    like($text, qr/^\.It Cm $_$/m, "the reason $_") for @reasons;
};

done_testing;
