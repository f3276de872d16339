#!/usr/bin/perl

# A broker that does not answer, or of another version: no box runs without
# it, and the launcher does not wait for ever.  The broker is a fake one.

use v5.36;

use FindBin;
use JSON::PP ();
use lib $FindBin::Bin;
use Jail;
use Test::More;

sub run ($b) { return ('run', '--control', $b->{socket}, '--', 'echo', 'ran') }

# A broker that is busy starting answers later, so there is a wait; its end is
# the launcher's own, before the one of finish().  All of them wait at once.

my @waits;
for my $user (ways()) {
    for my $op (qw(open serve)) {
        my $b = fake_broker({ $op => 'hang' });
        push @waits, [way($user), $op, $b, spawn([run($b)], user => $user)];
    }
}

for my $user (ways()) {
    my $way = way($user);

    subtest "E-013 $way: a broker that refuses this version: no box" => sub {
        my $b = fake_broker({ open => { refuse => 'version' } });
        my $r = jail([run($b)], user => $user);
        is($r->{status}, 125, 'the status is 125');
        like($r->{json}{error}{message}, qr/version/,
             'the error names the version');
        fake_broker_end($b);
    };

    for my $v (0, 2, '1') {
        my $shown = JSON::PP->new->allow_nonref->encode($v);
        subtest "E-013 $way: a reply of version $shown: no box" => sub {
            my $b = fake_broker({ task => { v => $v } });
            my $r = jail([run($b)], user => $user);
            is($r->{status}, 125, 'the status is 125');
            is($r->{json}{error}{stage}, 'broker', 'the stage is the broker');
            like($r->{json}{error}{message}, qr/is \d, .* version 1/,
                 'the error names both versions');
            is($r->{json}{stdout}, '', 'the command did not run');
            fake_broker_end($b);
        };
    }

    # with a box that is built and waits for the broker's answer

    for my $signal (qw(TERM INT HUP KILL)) {
        subtest "E-015 $way: SIG$signal while the launcher waits leaves no box"
            => sub
        {
            my $b = fake_broker({ serve => 'hang' });
            my $p = spawn([run($b)], user => $user);
            wait_for('serve', sub { heard($b, 'serve') });
            cmp_ok(scalar(alive($p)), '>=', 1, 'control: there is a box');
            kill $signal => $p->{pid};
            my $r = finish($p);
            # had the wait gone on, the reason would be setup
            is($r->{json}{reason}, 'canceled',
               'the result says that it was canceled') if $signal ne 'KILL';
            is($r->{json}{stdout} // '', '', 'the command did not run');
            ok(wait_for('the end', sub { !leftovers() }), 'no box is left');
            ok(wait_for('its end', sub { heard($b, 'eof') }),
               'the broker sees the connection end');
            fake_broker_end($b);
        };
    }
}

for (@waits) {
    my ($way, $op, $b, $p) = @$_;
    subtest "E-014 $way: no answer to $op: the launcher gives up" => sub {
        my $r = finish($p);
        is($r->{status}, 125, 'the status is 125');
        is($r->{json}{error}{stage}, 'broker', 'the stage is the broker');
        is($r->{json}{stdout}, '', 'the command did not run');
        fake_broker_end($b);
    };
}

none_left();

done_testing;
