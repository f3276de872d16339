#!/usr/bin/perl

# Bodies far larger than what the broker may hold, and peers that are slow to
# send or to read them: nothing is kept on its disk, what it has in memory is
# a few buffers, and all of a body arrives.
#
#   AGENT_TEST_BODY_MIB=5120    bodies of 5 GiB, up and down, by each door, as
#                               make nightly has them; not under sanitizers
#
# sanitizers: bodies of every kind pass through

use v5.36;

use lib 't/lib';
use AgentTest;
use Test::More;

use constant MIB => 1024 * 1024;

my $t     = AgentTest->new;
my $plain = $t->upstream(plain => 1);
my $safe  = $t->upstream(names => [qw(api.internal pinned.internal)]);
my ($port, $tls) = ($plain->port, $safe->port);
my $deaf  = $t->spawn(['/usr/bin/python3', "$AgentTest::LIB/failing_upstream.py"],
                      pipes => 1);
chomp(my $deaf_port = readline($deaf->{out}) // die "no upstream\n");

my $here = 'methods GET POST; private 127.0.0.0/8;';
my $ca = $t->ca->{cert};

my $b = $t->broker(names => [qw(api.internal pinned.internal)],
                   policy => <<"END");
    agent_policy analysis {
        launchers user:$>; wall_clock 1h; request_body 100g;
        bytes_up 100g; bytes_down 100g;
        host 127.0.0.1:$port      { plaintext on; $here }
        host 127.0.0.1:$deaf_port { plaintext on; $here }
        host api.internal:$tls    { trusted_certificate $ca; $here }
        host pinned.internal:$tls { tunnel on; private 127.0.0.0/8; }
    }
END

# nothing can be kept there: a worker that tries logs it as [crit]
my @temp = grep { -d } glob "$b->{prefix}/temp/*";
chmod 0, @temp;
chmod 0555, "$b->{prefix}/temp";
ok(scalar @temp,
   'control: nginx has directories for temporary files, and may write to '
   . 'none');

my ($worker) = $b->workers;
my ($l, $task) = $b->task;
my $box_ca = $t->write('box-ca.pem', $task->{ca});

sub memory ($what) {
    return ($t->read("/proc/$worker/status") =~ /^$what:\s+(\d+)/m)[0];
}

# A command that goes on beside the test; ended by the code's return.
sub beside ($mark, $code, @command) {
    my $pid = $l->do(run => { argv => ['/bin/sh', '-c',
        'mark=$1; shift; setsid /bin/sh -c \'mark=$1; shift; "$@" 2>&1 '
        . '| { head -c 1 >/dev/null; : >"$mark"; sleep 600; }\' sh "$mark" '
        . '"$@" </dev/null >/dev/null 2>&1 & echo $!', 'sh', $mark,
        map { "$_" } @command], env => { PATH => $ENV{PATH} } })->{data} + 0;
    $code->();
    my $is_alive = kill 0, $pid;
    kill 'KILL', -$pid;
    return $is_alive;
}

# as slow as 10 MiB a second
my $limit = 30 + ($ENV{AGENT_TEST_BODY_MIB} // 0) / 10;

sub in_box (@command) {
    my $run = $l->do(run => { argv => [map { "$_" } @command], timeout => $limit,
                              env => { PATH => $ENV{PATH} } });
    return $run->{error} // ($run->{data} . $run->{err});
}

my @proxy = ('-x', 'http://127.0.0.1:8899');
my @doors = (
    ['the proxy door', "http://127.0.0.1:$port", @proxy],
    ['CONNECT', "https://api.internal:$tls", @proxy, '--cacert', $box_ca,
     '--http1.1'],
    ['HTTP/2', "https://api.internal:$tls", '--cacert', $box_ca, '--http2',
     '--connect-to', '::127.0.0.1:'],
    ['a tunnel', "https://pinned.internal:$tls", @proxy, '--cacert', $ca,
     '--http1.1'],
);

my $curl = 'curl -sS -o /dev/null -w %{http_code}:%{size_download}';
my $mib = $t->{sanitize} ? undef : $ENV{AGENT_TEST_BODY_MIB};
my ($down, $up) = (($mib || 96) * MIB, 32 * MIB);
my $file = $t->write('body', "0123456789abcdef" x ($up / 16));

# of any size, and of zeros that no disk holds
my $sent_file = $t->write('large', '');
truncate $sent_file, $down or die "$sent_file: $!\n";

# what is allocated once: each door in each direction
for my $door (@doors) {
    my (undef, $url, @how) = @$door;
    in_box(split(' ', $curl), @how, "$url/big?n=@{[4 * MIB]}");
    in_box(split(' ', $curl), @how, '--data-binary', '@/etc/passwd',
           "$url/echo");
}
my $before = memory('VmHWM');

for my $door (@doors) {
    my ($what, $url, @how) = @$door;

    subtest "E-021 $what: large bodies pass whole and unbuffered" => sub {
        is(in_box(split(' ', $curl), @how, "$url/big?n=$down"), "200:$down",
           'a large answer arrives whole');

        # of a gigabyte that is not read the most stays at its upstream; how
        # much of it the worker took is seen in its memory at the end
        my $mark = $t->dir . '/mark-' . $what =~ s/\W/-/gr;
        ok(beside($mark, sub {
            AgentTest::wait_for('the first byte', sub { -e $mark });
            $t->wait_idle($worker, 'while an answer is not read');
        }, 'curl', '-sSN', @how, "$url/big?n=@{[1024 * MIB]}"),
           'an answer that its client does not read waits');

        my $upstream = $url =~ /^https/ ? $safe : $plain;
        my $had = $upstream->requests;
        like(in_box(split(' ', $curl), @how, '-X', 'POST', '-T', $sent_file,
                    "$url/sink"), qr/^200:/,
             'a request with a large body is answered');
        my ($sent) = (($upstream->requests)[$had]);
        is($sent->{body_bytes}, $down, 'a large body arrives whole');
        like(in_box(split(' ', $curl), @how, '-X', 'POST', '-H',
                    'Transfer-Encoding: chunked', '--data-binary', "\@$file",
                    "$url/echo"), qr/^200:/,
             'a request with a large body in chunks is answered')
            if $what ne 'HTTP/2';
    };
}

subtest 'E-021 a body that its upstream does not read waits in the box' => sub {
    my (undef, undef, @how) = @{ $doors[0] };
    ok(beside($t->dir . '/mark-deaf', sub {
        AgentTest::wait_for('the upstream to have the request', sub {
            (readline($deaf->{out}) // '') =~ /^deaf/ });
        $t->wait_idle($worker, 'while a body is not read');
    }, 'curl', '-sS', @how, qw(-X POST --data-binary), "\@$file",
       "http://127.0.0.1:$deaf_port/deaf"),
       'its client waits, and the worker has nothing to do');
};

my $grown = memory('VmHWM') - $before;
note "$grown KiB";
SKIP: {
    skip 'a sanitizer keeps what is freed', 1 if $t->{sanitize};
    cmp_ok($grown, '<', 4096,
           'E-021 the memory of the worker grew by a few buffers (KiB)');
}
is(join(' ', grep { (readlink($_) // '') =~ m{/temp/} }
             glob "/proc/$worker/fd/*"), '',
             'E-021 the worker has no temporary file open');
$b->is_clean;

chmod 0755, "$b->{prefix}/temp";
done_testing;
