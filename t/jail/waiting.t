#!/usr/bin/perl

# A broker that does not answer, or of another version: no box without it,
# and nobody waits for it for ever.  The broker is a fake one.

use v5.36;

use FindBin;
use IPC::Open2 qw(open2);
use JSON::PP ();
use lib $FindBin::Bin;
use Jail;
use Test::More;
use Time::HiRes qw(sleep time);

my $json = JSON::PP->new->utf8;
my $n = 0;

sub broker ($scenario) {
    $n++;
    my %b = (socket => dir() . "/control.$n", log => dir() . "/log.$n");
    open my $f, '>', $b{log};
    $b{pid} = open2($b{out}, $b{in}, '/usr/bin/python3',
                    "$FindBin::Bin/fake_broker.py", $b{socket}, $b{log},
                    $json->encode($scenario));
    readline($b{out}) eq "ready\n" or die 'the fake broker did not start';
    return \%b;
}

sub heard ($b, $op) {
    open my $f, '<', $b->{log} or die $!;
    return grep { ($json->decode($_)->{op} // '') eq $op } <$f>;
}

sub end ($b) {
    close $b->{in};
    waitpid $b->{pid}, 0;
}

sub run ($b) { return ('run', '--control', $b->{socket}, '--', 'echo', 'ran') }

for my $user (ways()) {
    my $way = way($user);

    # E-013

    my $b = broker({ open => { refuse => 'version' } });
    my $r = jail([run($b)], user => $user);
    is($r->{status}, 125, "E-013 a broker of another version: no box ($way)");
    like($r->{json}{error}{message}, qr/version/, 'and that is said');
    end($b);

    for my $v (0, 2, '1') {
        $b = broker({ task => { v => $v } });
        $r = jail([run($b)], user => $user);
        is($r->{status}, 125, 'E-013 an answer of version '
                              . $json->allow_nonref->encode($v));
        is($r->{json}{error}{stage}, 'broker', 'the stage');
        like($r->{json}{error}{message}, qr/is \d, .* version 1/,
             'with both versions');
        is($r->{json}{stdout}, '', 'nothing ran');
        end($b);
    }

    # E-014: a broker that is busy starting answers later; one that does not
    # is not waited for without end

    for my $op (qw(open serve)) {
        $b = broker({ $op => 'hang' });
        $r = jail([run($b)], user => $user);
        is($r->{status}, 125, "E-014 no answer to $op: no box ($way)");
        is($r->{json}{error}{stage}, 'broker', 'the stage');
        cmp_ok($r->{ms}, '<', 35000, 'in bounded time');
        is($r->{json}{stdout}, '', 'nothing ran');
        end($b);
    }

    # its end while the launcher waits, with a box that is built and waits

    for my $signal (qw(TERM INT HUP KILL)) {
        $b = broker({ serve => 'hang' });
        my $p = spawn([run($b)], user => $user);
        wait_for('serve', sub { heard($b, 'serve') });
        cmp_ok(scalar(alive($p)), '>=', 1, 'control: there is a box');
        my $start = time;
        kill $signal => $p->{pid};
        $r = finish($p);
        cmp_ok(time - $start, '<', 1, "E-015 SIG$signal ends the wait ($way)");
        is($r->{json}{reason}, 'canceled', 'with a result')
            if $signal ne 'KILL';
        is($r->{json}{stdout} // '', '', 'nothing ran');
        ok(wait_for('the end', sub { !leftovers() }, 1), 'no box is left');
        ok(wait_for('its end', sub { heard($b, 'eof') }, 2),
           'and the broker sees the end');
        end($b);
    }
}

is(join(' ', leftovers()), '', 'no process of a box is left');

done_testing;
