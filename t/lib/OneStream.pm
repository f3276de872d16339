package OneStream;

# What a test says of a failure goes to the stream of its results, so that the
# two stay in order when the stream is kept (t/lib/run-test loads this first).

use v5.36;

use Test::More ();

my $builder = Test::More->builder;

$builder->failure_output($builder->output);

1;
