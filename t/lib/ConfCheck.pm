package ConfCheck;

# What nginx -t says of configurations, one after the other in one prefix.
#
#   use ConfCheck;
#   my $prefix = check_in($t, around => sub ($http) { "agent_policy a { }\n$http" },
#                         secret => $token);
#   accepted('a policy', $http);
#   refused('a policy twice', "agent_policy a { } #!", qr/defined already/);
#
# `#!` at the end of a line marks where a refusal must point to.  More arguments
# are options of AgentTest::nginx_t.

use v5.36;

use AgentTest;
use Exporter qw(import);
use Test::More;

our @EXPORT = qw(check_in try accepted refused);

my ($t, $prefix, %with);

# `around` gives the text of http for that of a test; nothing that is printed
# may have `secret` in it.
sub check_in ($test, %opt) {
    ($t, %with) = ($test, %opt);
    return $prefix = $t->nginx_prefix;
}

# Was it accepted; what was printed; the number of the marked line.
sub try ($http, %opt) {
    my $text = $with{around} ? $with{around}->($http) : $http;
    my ($ok, $said) = $t->nginx_t(prefix => $prefix, http => $text, %opt);
    my @lines = split /\n/, $t->read("$prefix/nginx.conf");
    my ($line) = grep { $lines[$_ - 1] =~ /#!$/ } 1 .. @lines;
    return ($ok, $said, $line);
}

sub accepted ($what, $http, %opt) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my ($ok, $said) = try($http, %opt);
    ok($ok, "accepted: $what") or diag $said;
    return;
}

# Refused once, in these words; at the marked line where there is a mark.
sub refused ($what, $http, $words, %opt) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my ($ok, $said, $line) = try($http, %opt);
    my @emerg = $said =~ /^(nginx: \[emerg\] .*)$/mg;
    my $fine = !$ok && @emerg == 1 && $emerg[0] =~ $words;
    $fine &&= $emerg[0] =~ m{ in \Q$prefix\E/nginx\.conf:$line$} if $line;
    $fine &&= index($said, $with{secret}) < 0 if defined $with{secret};
    ok($fine, "refused: $what")
        or diag(($line ? "line $line was meant\n" : '') . "it said: $said");
    return;
}

1;
