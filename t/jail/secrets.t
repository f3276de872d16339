#!/usr/bin/perl

# No secret gets into a box under another name: not as a variable, not as code
# or a file, not in a workspace; each refusal names the thing, and never shows
# the text.  Ordinary things of the same kind get in.

use v5.36;

use lib 't/lib';
use AgentTest;
use Test::More;

my $t = AgentTest->new;
my $vault = 'sk_test_0123456789abcdef_vault';
my %secret = (
    'a token'     => 'ghp_Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb7c',
    'an address with a password' => 'postgres://app:Xk29fjQ1zz@db.internal/x',
);
my $key = $t->openssl(qw(genpkey -algorithm EC -pkeyopt
                         ec_paramgen_curve:P-256)) // '';
$key = ref $key ? $key->{out} : $key;

my $b = $t->broker(vault => "api = $vault\n", names => ['a.test'],
                   policy => <<"END");
    env LANG NOTE;
    env_despite_name SORT_KEY;
    host a.test { bearer api; }
END
my @run = ('run', '--control', $b->control, '--policy', 'analysis');

# what a refused start said
sub refused ($what, $args, $pattern, @texts) {
    my $run = $t->jail([@run, @$args, '--', '/bin/true']);
    my $said = $run->{out} . $run->{err};
    isnt($run->{status}, 0, "$what: nothing runs");
    like($said, $pattern, "$what: it says what was where");
    is(scalar(grep { index($said, $_) >= 0 } @texts), 0,
       "$what: the text is not shown");
    return $run;
}

sub runs ($what, $args) {
    my $run = $t->jail([@run, @$args, '--', '/bin/true']);
    is($run->{json}{reason}, 'ok', "control: $what") or diag $run->{out},
        $run->{err};
}

subtest 'a variable with a credential is refused' => sub {
    runs('an ordinary value', ['--env', 'NOTE=max_tokens=3 and a@b.example']);
    runs('a name that the policy lists despite its meaning',
         ['--env', 'SORT_KEY=name']);
    for my $what (sort keys %secret) {
        my $run = refused($what, ['--env', "NOTE=$secret{$what}"],
                          qr/--env NOTE holds $what/, $secret{$what});
        is($run->{status}, 2, "$what: it is wrong usage");
        refused("$what despite its name", ['--env', "SORT_KEY=$secret{$what}"],
                qr/--env SORT_KEY holds $what/, $secret{$what});
    }
    my $file = $t->write('variables', "NOTE=$secret{'a token'}\n", 0600);
    refused('a token in --env-file', ['--env-file', $file],
            qr/NOTE holds a token/, $secret{'a token'});
    refused('a value of the vault', ['--env', "NOTE=x-$vault-y"],
            qr/NOTE.* holds a value of the vault/, $vault);
    my ($line) = reverse $b->audit('task_refused');
    ok($line, 'it is on record that the task was refused');
    unlike($t->read($b->prefix . '/logs/agent-audit.log'), qr/\Q$vault/,
           'the record does not have the value');
};

subtest 'a hostile launcher is refused by the broker itself' => sub {
    my $l = $t->launcher;
    for my $what (sort keys %secret) {
        my $answer = $l->open_task($b->control, 'analysis',
                                   open => { env => { NOTE => $secret{$what} } });
        is($answer->{error}, 'bad_request', "$what: open is refused");
        like($answer->{message}, qr/"NOTE" holds $what/, "$what: with its name");
        unlike($answer->{message}, qr/\Q$secret{$what}/, "$what: not shown");
    }
    $l->stop;
};

subtest 'the name of a variable that means a secret is refused by nginx -t'
    => sub {
    for my $name (qw(PAYMENT_KEY GITHUB_TOKEN apiKey DATABASE_URL)) {
        my ($ok, $said) = $t->nginx_t(http =>
            $t->policy_http(policy => "env $name;"));
        ok(!$ok, "$name is refused");
        like($said, qr/"$name" means a secret.*env_despite_name.*nginx\.conf:\d/,
             "$name: it says what to do, and where");
    }
    for my $lines ('env_despite_name PAYMENT_KEY;', 'env MAX_TOKENS;') {
        my ($ok, $said) = $t->nginx_t(http => $t->policy_http(policy => $lines));
        ok($ok, "control: $lines") or diag $said;
    }
    my ($ok, $said) = $t->nginx_t(http => $t->policy_http(
        policy => 'env_despite_name LANG;'));
    like($said, qr/"LANG" does not mean a secret/,
         'a name that needs no exception gets none');
    ($ok, $said) = $t->nginx_t(http => $t->policy_http(
        policy => 'env_despite_name LD_PRELOAD_KEY;'));
    ok(!$ok, 'no exception is made for what changes the box');
};

subtest 'code and files with a credential are refused' => sub {
    my $text = "import os\nTOKEN = '$secret{'a token'}'\n";
    my $code = $t->write('main.py', $text);
    my $run = $t->jail([@run, '--code', $code, '--', 'python3']);
    is($run->{status}, 2, 'code with a token is wrong usage');
    like($run->{err}, qr/--code "\S+main\.py" holds a token/, 'it is named');
    unlike($run->{err}, qr/\Q$secret{'a token'}/, 'the token is not shown');

    my %in = (
        'data.csv'   => ["a,b\n1,$secret{'a token'}\n", qr/holds a token/],
        'server.txt' => [$key, qr/holds a private key/],
        '.env'       => ["A=1\n", qr/holds secrets by its name/],
        'id_ed25519' => ["x\n", qr/holds secrets by its name/],
        'late.txt'   => ['x' x 500_000 . " $secret{'a token'}",
                         qr/holds a token/],
    );
    for my $name (sort keys %in) {
        refused("--in $name", ['--in', $t->write("in/$name", $in{$name}[0])],
                $in{$name}[1], $secret{'a token'}, $key);
    }
    runs('a certificate', ['--in', $t->ca->{cert}]);
    runs('a table', ['--in', $t->write('in/table.csv', "a,b\n" x 100_000)]);
    runs('an example', ['--in', $t->write('in/.env.example', "KEY=\n")]);
};

subtest 'a workspace with a credential is refused' => sub {
    my $dir = "$t->{dir}/work";
    mkdir $dir;
    $t->write('work/main.py', "print(1)\n");
    runs('an ordinary one', ['--workspace', $dir]);
    $t->write('work/notes.txt', "token: $secret{'a token'}\n");
    refused('a token in it', ['--workspace', $dir],
            qr/--workspace "notes\.txt" holds a token/, $secret{'a token'});
    unlink "$dir/notes.txt";
    mkdir "$dir/sub";
    $t->write('work/sub/.env', "A=1\n");
    refused('a file of secrets in it', ['--workspace', $dir],
            qr{--workspace "sub/\.env" holds secrets by its name});
};

$b->stop;
$b->is_clean;

done_testing;
