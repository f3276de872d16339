#!/usr/bin/perl

# Where the broker's secrets are while it runs: each in one locked place that
# no core dump has, and nowhere else in the memory of master, workers and
# helpers, in /proc, in a log or in the box.

use v5.36;

use lib 't/lib';
use AgentTest;
use File::Find ();
use JSON::PP ();
use MIME::Base64 qw(encode_base64);
use Test::More;

plan skip_all => 'root is needed to read the memory of a worker'
    if !AgentTest::is_root();

my %old = (token => 'sk-first+0123456789/abcdef~marker',
           pair  => 'x-access-token:0123456789first-marker');
my %new = map { $_ => $old{$_} =~ s/first/other/r } keys %old;

my $t    = AgentTest->new;
my @kinds = qw(bearer basic header query ws);
my $up   = $t->upstream(names => [map { "$_.test" } @kinds]);
my $port = $up->port;
my $rule = $t->rule;
my $vault = $t->write('vault', entries(%old), 0600);

sub entries (%value) {
    return join '', map { "$_ = $value{$_}\n" } sort keys %value;
}

my $b = $t->broker(
    names => [map { "$_.test" } @kinds], vault => $vault, log_level => 'debug',
    policy => <<"END");
    host bearer.test:$port { methods GET POST; bearer token; $rule }
    host basic.test:$port  { basic pair; $rule }
    host header.test:$port { header X-Key token; $rule }
    host query.test:$port  { query key token; $rule }
    host ws.test:$port     { bearer token; websocket on; $rule }
END

my ($l, $task) = $b->task;
my $n = 0;

# A request of each kind, by the proxy's door and by TLS, and a websocket that
# stays open.
sub send_all () {
    my $id = 'ws' . ++$n;
    for my $kind (qw(bearer basic header query)) {
        is($l->get("http://$kind.test:$port/$n")->{status}, 200,
           "a request with $kind is served");
        my $run = $l->do(run => { timeout => 60, argv => [
            'curl', '-sS', '--cacert', $task->{ca_file} //=
                $t->write('box-ca.pem', $task->{ca}),
            '-x', 'http://127.0.0.1:8899', '-o', '/dev/null', '-w',
            '%{http_code}', "https://$kind.test:$port/tls$n"] });
        is($run->{data}, 200, "one over TLS with $kind is served")
            or diag explain $run;
    }
    $l->do(open => { id => $id, port => 8899 });
    $l->do(write => { id => $id, data =>
        "GET http://ws.test:$port/upgrade HTTP/1.1\r\nHost: ws.test:$port\r\n"
        . "Connection: Upgrade\r\nUpgrade: websocket\r\n"
        . "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        . "Sec-WebSocket-Version: 13\r\n\r\n" });
    like($l->do(read => { id => $id, timeout => 60 })->{data},
         qr{^HTTP/1.1 101 }, 'a websocket is opened');
    return;
}

# What is looked for, in each rendering.
sub needles () {
    my %found;
    for my $set ([old => \%old], [new => \%new]) {
        my ($age, $value) = @$set;
        $found{"$age token"} = $value->{token};
        $found{"$age pair"} = $value->{pair};
        $found{"$age pair in base64"} = encode_base64($value->{pair}, '');
        $found{"$age token in percent"} =
            $value->{token} =~ s/([^\w~.-])/sprintf '%%%02X', ord $1/ger;
    }
    my ($state) = grep { -f "$_/lease.key" } glob $b->prefix . '/*';
    $found{'lease key'} = $t->read("$state/lease.key");
    my $text = $t->openssl('pkey', '-in', "$state/ca.pem", '-noout', '-text')
               // '';
    my ($hex) = $text =~ /priv:\s*\n((?:\s+[0-9a-f:]+\n)+)/;
    my $scalar = pack 'H*', substr $hex =~ s/[\s:]//gr, -64;
    # as OpenSSL has it in memory, and as in a file
    $found{'authority key'} = reverse $scalar;
    $found{'authority key, of a file'} = $scalar;
    my ($pem) = $t->read("$state/ca.pem") =~ /PRIVATE KEY-----\n(.*?)\n/;
    $found{'authority key, PEM'} = substr $pem, 32;
    $found{control} = 'HTTP/1.1';
    return %found;
}

sub children ($pid) {
    return split ' ', $t->read("/proc/$pid/task/$pid/children");
}

# { needle => [mappings that have it] } of these processes
sub search (@pids) {
    my %needle = needles();
    my $run = $t->run(['python3', "$AgentTest::ROOT/t/lib/memory_search.py"],
        stdin => JSON::PP::encode_json({ pids => [map { 0 + $_ } @pids],
            needles => { map { $_ => unpack 'H*', $needle{$_} }
                         keys %needle } }));
    is($run->{status}, 0, 'the memory is searched') or diag $run->{err};
    my %found;
    for my $got (@{ JSON::PP::decode_json($run->{out}) }) {
        push @{ $found{ $got->{needle} // 'searched' } }, $got;
    }
    return \%found;
}

# Of each needle: in one place of each process, which is not in its cores.
sub is_in_its_place ($found, $needle, @pids) {
    my @in = @{ $found->{$needle} // [] };
    is_deeply([sort map { $_->{pid} } @in], [sort @pids],
              "the $needle is in one mapping of each");
    is_deeply([grep { $_->{dumped} } @in], [],
              "the $needle would be in no core dump");
    is_deeply([grep { $_->{count} != 1 } @in], [], "the $needle is there once");
    return;
}

for my $when ('before a reload', 'after one that rotates them') {
    my ($age, $gone) = $n ? ('new', 'old') : ('old', 'new');

    subtest "G-060: each secret is in one place $when" => sub {
        if ($age eq 'new') {
            $t->write('vault', entries(%new), 0600);
            ok($b->reload, 'the broker is reloaded');
            $l->stop;
            ($l, $task) = $b->task;
        }
        send_all();

        my @workers = ($b->workers, $b->leaving);
        my @helpers = map { children($_) } @workers;
        my @holders = ($b->master, @workers);
        cmp_ok(scalar @helpers, '>=', 1, 'control: a worker has a helper');

        my $found = search(@holders, @helpers);
        cmp_ok(scalar @{ $found->{searched} }, '==', @holders + @helpers,
               'control: all of them were searched');
        ok((grep { $_->{pid} == $workers[0] } @{ $found->{control} }),
           'control: what a worker has is found');

        is_in_its_place($found, $_, @holders)
            for "$age token", "$age pair", 'lease key', 'authority key';

        my @kept = grep { $_ ne 'control' && $_ ne 'searched'
                          && !/^(?:\Q$age\E (?:token|pair)|lease key|authority key)\z/ }
                   sort keys %$found;
        is_deeply([map { @{ $found->{$_} } } @kept], [],
                  'no rendering of one is anywhere, and no value of '
                  . ($age eq 'old' ? 'the future' : 'the past'));

        my %is_helper = map { $_ => 1 } @helpers;
        is_deeply([grep { $is_helper{ $_->{pid} } } map { @$_ }
                   @{$found}{grep { !/control|searched/ } keys %$found}], [],
                  'a helper has none');

        # the vault's pages are locked for as long as the master has them
        is_deeply([grep { $_->{pid} == $b->master && !$_->{locked} }
                   map { @$_ } @{$found}{grep { !/control|searched/ }
                                         keys %$found}], [],
                  'in the master all are locked into memory');
        is_deeply([grep { !$_->{locked} } map { @{ $found->{$_} } }
                   'lease key', 'authority key'], [],
                  'the broker\'s own are so in each process');
    };
}

subtest 'G-060: no secret is in a log, in /proc or in the box' => sub {
    my %needle = needles();
    delete $needle{control};
    my $pattern = join '|', map { quotemeta } values %needle;
    my ($bytes, @hits) = (0);
    File::Find::find({ no_chdir => 1, wanted => sub {
        return if !-f || m{/(?:lease\.key|ca\.pem)\z};
        my $text = $t->read($_);
        $bytes += length $text;
        push @hits, $_ if $text =~ /$pattern/;
    } }, $b->prefix);
    cmp_ok($bytes, '>', 50_000, 'control: the logs were read');
    is_deeply(\@hits, [], 'no file of the broker has one, but for its own');

    for my $pid ($b->master, $b->workers) {
        my $text = join '', map { $t->read("/proc/$pid/$_") }
                   qw(cmdline environ maps status limits);
        unlike($text, qr/$pattern/, "what /proc shows of pid $pid has none");
    }
    my $run = $l->do(run => { timeout => 60, argv => ['sh', '-c',
        'cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; env'] });
    unlike($run->{data}, qr/$pattern/, 'what a box sees has none');
};

$t->finish;
done_testing;
