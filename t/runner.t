#!/usr/bin/perl

# What runs the tests tells the truth of them: t/lib/run-test keeps what each
# prints, says what failed in one piece, ends what hangs and removes what is
# left; t/lib/schedule puts the longest first and keeps alone what asks for it.

use v5.36;

use lib 't/lib';
use AgentTest;
use Test::More;

my $t = AgentTest->new;
my $dir = "$t->{dir}/tree";

mkdir $_ for $dir, "$dir/t", "$dir/objs", "$t->{dir}/tmp";
symlink "$AgentTest::ROOT/t/lib", "$dir/t/lib" or die "t/lib: $!";

sub tests (%text) {
    $t->write("$dir/t/$_.t", "use v5.36;\nuse Test::More;\n$text{$_}")
        for keys %text;
}

sub prove (@args) {
    my %env = ref $args[-1] ? %{ pop @args } : ();
    my $run = $t->run(['prove', '--exec', 't/lib/run-test', @args],
                      cwd => $dir, env => { TMPDIR => "$t->{dir}/tmp",
                                            HARNESS_RULESFILE => '', %env });
    $run->{left} = [glob "$t->{dir}/tmp/*"];
    return $run;
}


subtest 'a failing line is printed with the subtests that it is in' => sub {
    tests(bad => <<'END');
ok 1, 'this one holds';
diag 'said of what holds';
subtest 'the outer promise' => sub {
    ok 1, 'its first part';
    subtest 'the inner promise' => sub { is 1, 2, 'one is two' };
};
SKIP: { skip 'there is no moon', 2 }
warn "from somewhere\n";
done_testing;
END
    my $run = prove('t/bad.t');
    isnt($run->{status}, 0, 'prove says so');
    like($run->{err}, qr{^---\ t/bad\.t\ failed\n
                         in:\ the\ outer\ promise\n
                         \ +in:\ the\ inner\ promise\n
                         \ +not\ ok\ 1\ -\ one\ is\ two\n
                         (?:\ +\#.*\n)*?
                         \ +\#\ +got:\ '1'\n}mx,
         'the line has its subtests and what was seen');
    unlike($run->{err}, qr/holds|its first part/,
           'nothing that held is printed');
    like($run->{err}, qr{^--- t/bad\.t printed on stderr\nfrom somewhere$}m,
         'what it printed on stderr is there');
    like($run->{err}, qr{^--- t/bad\.t skipped 2: there is no moon$}m,
         'what it skipped is printed');
    like($t->read("$dir/objs/tap/t/bad.t"),
         qr/^ok 1 - this one holds\n.*^not ok 2 - the outer promise$/ms,
         'all that it printed is kept');
};

subtest 'a test that holds prints nothing more' => sub {
    tests(good => "ok 1, 'it holds';\ndone_testing;\n");
    my $run = prove('t/good.t');
    is($run->{status}, 0, 'prove says so');
    is($run->{err}, '', 'nothing on stderr');
    like($run->{out}, qr/^All tests successful\.\nFiles=1, Tests=1,/m,
         'its last lines count it');
    like($t->read("$dir/objs/times"), qr{^[\d.]+ [\d.]+ t/good\.t$}m,
         'its time is noted');
};

subtest 'a test that hangs is ended, and what it left is removed' => sub {
    tests(hangs => <<'END');
system "sleep 60 &";
open my $f, '>', "$ENV{TMPDIR}/left" or die;
ok 1, 'so far';
sleep 60;
END
    my $run = prove('t/hangs.t', { AGENT_TEST_LIMIT => 1 });
    isnt($run->{status}, 0, 'prove says so');
    like($run->{err}, qr{^--- t/hangs\.t failed\nit was ended after 1 s$}m,
         'the reason is printed');
    cmp_ok($run->{seconds}, '<', 30,
           'a process that it left is not waited for');
    is_deeply($run->{left}, [], 'its temporary directory is gone');
};

subtest 'a test that dies fails' => sub {
    tests(dies => "ok 1, 'so far';\ndie \"for a reason\\n\";\n");
    my $run = prove('t/dies.t');
    isnt($run->{status}, 0, 'prove says so');
    like($run->{err}, qr/its status is \d+\n.*\nfor a reason$/m,
         'the reason is printed');
};

subtest 'the longest run first, a test without company after the others'
    => sub
{
    tests(map({ $_ => "ok 1;\ndone_testing;\n" } qw(long short new)),
          company => "# alone: it counts what there is\nok 1;\ndone_testing;\n",
          end => "# last: it reads the rest\nok 1;\ndone_testing;\n");
    $t->write("$dir/t/TIMES", "90.0 1.0 t/short.t\n1.0 1.0 t/end.t\n");
    $t->write("$dir/objs/times",
              "80.0 1.0 t/long.t\n2.0 1.0 t/short.t\n900.0 1.0 t/company.t\n");
    my $run = $t->run(['t/lib/schedule', 'objs/rules', map { "t/$_.t" }
                       qw(company end new short long)], cwd => $dir);
    is($run->{out}, join('', map { "t/$_.t\n" }
                         qw(long new short company end)),
       'by the last run here, then by the table');
    is($t->read("$dir/objs/rules"), <<'END', 'the rules have the same order');
---
seq:
  - par:
    - "t/long.t"
    - "t/new.t"
    - "t/short.t"
  - "t/company.t"
  - "t/end.t"
END
};

done_testing;
