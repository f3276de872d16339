#!/usr/bin/perl

# Bodies far larger than what the broker may hold, and peers that are slow to
# send or to read them: nothing is kept on its disk, what it has in memory is
# a few buffers, and all of a body arrives.
#
# sanitizers: bodies of every kind pass through

use v5.36;

use lib 't/lib';
use AgentTest;
use Test::More;
use Time::HiRes qw(time);

use constant MIB => 1024 * 1024;

my $t     = AgentTest->new;
my $plain = $t->upstream(plain => 1);
my $safe  = $t->upstream(names => [qw(api.internal pinned.internal)]);
my ($port, $tls) = ($plain->port, $safe->port);
my $dns   = $t->dns({ map { $_ => { A => ['127.0.0.1'] } }
                      qw(api.internal pinned.internal) });
my $deaf  = $t->spawn(['/usr/bin/python3', "$AgentTest::LIB/trouble.py"],
                      pipes => 1);
chomp(my $deaf_port = readline($deaf->{out}) // die "no upstream\n");

my $proxy = $t->read("$AgentTest::ROOT/conf/agent_proxy.conf");
$proxy =~ s/client_max_body_size +10m/client_max_body_size 1g/ or die;
my $conf = $t->write('proxy.conf', $proxy);
my $here = 'methods GET POST; private 127.0.0.0/8;';
my $ca = $t->ca->{cert};

my $b = $t->broker(http => <<"END");
    resolver 127.0.0.1:$dns->{port};
    agent_audit logs/agent-audit.log;
    agent_policy analysis {
        launchers user:$>; wall_clock 1h; bytes_up 100g; bytes_down 100g;
        host 127.0.0.1:$port      { plaintext on; $here }
        host 127.0.0.1:$deaf_port { plaintext on; $here }
        host api.internal:$tls    { trusted_certificate $ca; $here }
        host pinned.internal:$tls { tunnel on; private 127.0.0.0/8; }
    }
    server {
        agent_control unix:%CONTROL%;
        include $conf;
    }
END

# nothing can be kept there: who would is told, and says so at [crit]
my @temp = grep { -d } glob "$b->{prefix}/temp/*";
chmod 0, @temp;
chmod 0555, "$b->{prefix}/temp";
ok(scalar @temp, 'there are directories for temporary files, all closed');

my ($worker) = $b->workers;
my $l = $t->launcher;
my $task = $l->open_task($b->control, 'analysis');
ok($task->{ok}, 'a task is opened') or diag explain $task;
my $box_ca = $t->write('box-ca.pem', $task->{ca});

sub memory ($what) {
    return ($t->read("/proc/$worker/status") =~ /^$what:\s+(\d+)/m)[0];
}

sub in_box (@command) {
    my $run = $l->do(run => { argv => [map { "$_" } @command], timeout => 30,
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
my ($down, $up) = (96 * MIB, 32 * MIB);
my $file = $t->write('body', "0123456789abcdef" x ($up / 16));

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

    is(in_box(split(' ', $curl), @how, "$url/big?n=$down"), "200:$down",
       "E-021 $what: a large answer arrives, all of it");

    # one that is not read, of a gigabyte: it stops at its upstream
    my $got = in_box(split(' ', $curl), @how, qw(--limit-rate 100k
                     --max-time 1), "$url/big?n=@{[1024 * MIB]}");
    like($got, qr/^200:\d+curl: \(28\)/, 'one that is hardly read is cut');

    my $upstream = $url =~ /^https/ ? $safe : $plain;
    my $had = $upstream->requests;
    like(in_box(split(' ', $curl), @how, '-X', 'POST', '--data-binary',
                "\@$file", "$url/echo"), qr/^200:/, 'a large body is sent');
    my ($sent) = (($upstream->requests)[$had]);
    is($sent->{body_bytes}, $up, 'all of it');
    like(in_box(split(' ', $curl), @how, '-X', 'POST', '-H',
                'Transfer-Encoding: chunked', '--data-binary', "\@$file",
                "$url/echo"), qr/^200:/, 'one without a length, too')
        if $what ne 'HTTP/2';
}

{
    my ($what, undef, @how) = @{ $doors[0] };
    my $got = in_box(split(' ', $curl), @how, qw(--max-time 1 -X POST
        --data-binary), "\@$file", "http://127.0.0.1:$deaf_port/deaf");
    like($got, qr/curl: \(28\)/, 'a body that is not read waits in the box');
}

my $grown = memory('VmHWM') - $before;
note "$grown KiB";
SKIP: {
    skip 'a sanitizer keeps what is freed', 1 if $t->{sanitize};
    cmp_ok($grown, '<', 4096, 'of all that the worker held a few buffers (KiB)');
}
is(join(' ', grep { (readlink($_) // '') =~ m{/temp/} }
             glob "/proc/$worker/fd/*"), '', 'and it has no temporary file');
unlike($b->error_log, qr/\[(?:crit|alert|emerg)\]/, 'nor wanted one')
    or diag grep { /crit|alert|emerg/ } split /(?<=\n)/, $b->error_log;

chmod 0755, "$b->{prefix}/temp";
done_testing;
