#!/usr/bin/perl

# An upstream that answers before it has the whole body: its answer reaches the
# box at once, each time, and the rest of the body is not read for it.
#
# sanitizers: connections end while bodies are sent

use v5.36;

use lib 't/lib';
use AgentTest;
use JSON::PP;
use Test::More;

use constant MIB => 1024 * 1024;

my $t = AgentTest->new;
my %cert = %{ $t->cert(['api.internal']) };
my %log = (plain => $t->dir . '/plain.log', tls => $t->dir . '/tls.log');
my $plain = $t->helper('counting_upstream.py', $log{plain});
my $safe = $t->helper('counting_upstream.py', $log{tls}, $cert{cert},
                      $cert{key});
my ($port, $tls) = ($plain->{port}, $safe->{port});
my $rule = 'methods GET POST PUT; private 127.0.0.0/8; request_body 10g;';
my $ca = $t->ca->{cert};

my $b = $t->broker(names => ['api.internal'], policy => <<"END");
    agent_policy analysis {
        bytes_up 100g;
        host 127.0.0.1:$port   { plaintext on; $rule }
        host api.internal:$tls { trusted_certificate $ca; $rule }
    }
END

my ($l, $task) = $b->task;
my $box_ca = $t->write('box-ca.pem', $task->{ca});

sub flows ($by_tls, @args) {
    my $run = $l->do(run => { timeout => 90, argv => [
        '/usr/bin/python3', "$AgentTest::LIB/box_flows.py",
        map { "$_" } @args ], env => { $by_tls ? (BOX_CA => $box_ca) : () } });
    my $flows = eval { decode_json($run->{data}) };
    die 'no flows: ', $run->{error} // $run->{err}, "\n" unless $flows;
    return @$flows;
}

my $n = 0;

for my $case (['over cleartext', 0, "http://127.0.0.1:$port"],
              ['over TLS', 1, "https://api.internal:$tls"]) {
    my ($what, $by_tls, $url) = @$case;

    for my $how ('close', 'reset', 'keep') {
        for my $framing ('length', 'chunked') {
            subtest "G-029: $what, $framing, an upstream that answers 413 and "
                . "then: $how" => sub {
                my $tag = 'n' . ++$n;
                my @done = flows($by_tls, 'send', $framing, 15, 1024 * MIB,
                                 "$url/early?read=50000&how=$how&tag=$tag");
                is(scalar(grep { ($_->{status} // 0) == 413
                                 && $_->{text} eq "too much\n" } @done), 15,
                   'each of fifteen gets its answer') or diag explain \@done;
                is(scalar(grep { $_->{took} > 64 * MIB } @done), 0,
                   'none had to send its gigabyte');
                my @lines;
                AgentTest::wait_for('the lines of their ends', sub {
                    @lines = $b->audit('egress_end');
                    return @lines >= 15 * $n;
                });
                is(scalar(grep { $_->{bytes_up} > 24 * MIB } @lines), 0,
                   'the bytes that were read are counted, and few');
                is(scalar(grep { exists $_->{failure} } @lines), 0,
                   'no line of them has a failure') or diag explain \@lines;
            };
        }
    }

    subtest "G-029: $what, an answer that begins early takes the rest of its "
        . 'body' => sub {
        my ($done) = flows($by_tls, 'send', 'length', 1, 4 * MIB, "$url/late");
        is($done->{status}, 200, 'the answer is there');
        like($done->{text}, qr/ok.*@{[4 * MIB]}/s,
             'the upstream has received the whole body')
            or diag explain $done;
    };
}

subtest 'an answer arrives, and no record behind it that cannot be read'
    => sub {
    my @done = flows(1, 'send', 'length', 15, 64 * MIB,
                     "https://api.internal:$tls/early?read=50000&how=broken");
    is(scalar(grep { ($_->{status} // 0) == 413
                     && $_->{text} eq "too much\n" } @done), 15,
       'each of fifteen gets its answer') or diag explain \@done;
    $b->is_clean;
};

subtest 'G-029: over HTTP/2 an early answer arrives too' => sub {
    for my $how ('close', 'reset') {
        for my $i (1 .. 5) {
            my $run = $l->do(run => { timeout => 90, argv => ['/bin/sh', '-c',
                'head -c 1073741824 /dev/zero | curl -sS --http2 -x '
                . 'http://127.0.0.1:8899 --max-time 60 --cacert "$1" '
                . '-w "%{http_code}" -T - "$2"', 'sh', $box_ca,
                "https://api.internal:$tls/early?read=50000&how=$how"],
                env => { PATH => $ENV{PATH} } });
            is($run->{data}, "too much\n413", "$how: answer $i is passed on")
                or diag explain $run;
        }
    }
};

subtest 'G-029: what a refused request still sends is not read to its end'
    => sub {
    for my $framing ('length', 'chunked') {
        my ($done) = flows(0, 'send', $framing, 1, 1024 * MIB,
                           'http://no.internal/');
        is("$done->{status} $done->{reason}", '403 host_not_allowed',
           "$framing: the refusal arrives");
        cmp_ok($done->{took}, '<', 64 * MIB,
               "$framing: its gigabyte is not read");
    }
};

$b->is_clean;

done_testing;
