#!/usr/bin/perl

# What the build promises: it says all that is missing at once, by package;
# it works as an ordinary user out of a /usr it cannot write; a second make
# does nothing and a changed header rebuilds; what it makes is hardened, and
# nginx loads it; make install puts it where DESTDIR says.

use v5.36;

use lib 't/lib';
use AgentTest;
use Test::More;

my $t = AgentTest->new;
my $tree = $t->copy_tree;
my $user = $t->user;

$t->give($tree, $user) if defined $user;

sub in_tree (@command) {
    return $t->run(\@command, cwd => $tree, user => $user, timeout => 600,
                   env => { MAKEFLAGS => '', HOME => $t->dir });
}

# A compiler for which some headers are not installed.
sub cc_without (@headers) {
    my $pattern = join '|', @headers;
    return $t->write('bin/cc-without', <<"END", 0755);
#!/bin/sh
for arg in "\$@"; do
    case "\$arg" in
        *.c) grep -qE '<($pattern)>' "\$arg" && exit 1 ;;
    esac
done
exec cc "\$@"
END
}


# configure

my $run = in_tree('auto/configure', '--cc=' . cc_without(
    qw(seccomp.h libcgroup.h jansson.h openssl/ssl.h pcre2.h libpsl.h)));

is($run->{status}, 1, 'configure fails when libraries are missing');
like($run->{err}, qr/apt-get[ ]install(?=.*[ ]libseccomp-dev)(?=.*[ ]libcgroup-dev)
                     (?=.*[ ]libjansson-dev)(?=.*[ ]libssl-dev)
                     (?=.*[ ]libpcre2-dev)(?=.*[ ]libpsl-dev)/x,
     'and one line installs every one of them');
unlike($run->{err}, qr/apt-get install.*(?:gcc|nginx|cmocka)/,
       'and nothing that is there');
is(() = $run->{err} =~ /apt-get/g, 1, 'it is said once');
ok(!-e "$tree/Makefile", 'there is no Makefile then');

$run = in_tree('auto/configure', '--with-nginx-src=/nonexistent',
               '--nginx=/nonexistent');
is($run->{status}, 1, 'configure fails without nginx and its headers');
like($run->{err}, qr/apt-get install nginx-dev nginx$/m, 'and names both');

$run = in_tree('auto/configure', '--cc=/nonexistent/cc');
is($run->{status}, 1, 'configure fails without a compiler');
like($run->{err}, qr/apt-get install gcc libc6-dev$/m,
     'and does not blame the libraries for it');

$run = in_tree('auto/configure', '--cc=' . cc_without('cmocka.h'));
is($run->{status}, 0, 'cmocka is only for the tests');
like($run->{out}, qr/libcmocka-dev/, 'and its package is named');

$run = in_tree('auto/configure', '--no-such-option=1');
is($run->{status}, 2, 'an unknown option is refused');
like($run->{err}, qr/"--no-such-option=1"/, 'by name');

$run = in_tree('auto/configure', '--prefix=/opt/agent');
is($run->{status}, 0, 'with everything there, configure succeeds')
    or diag($run->{err});


# make

$run = in_tree('make', '-j2');
is($run->{status}, 0, 'make builds, as an ordinary user')
    or BAIL_OUT("make: $run->{err}");

my ($jail, $module) = map { "$tree/objs/$_" }
                      'jail', 'ngx_agent_broker_module.so';
ok(-x $jail, 'the launcher is there');
ok(-f $module, 'and the module');

is(in_tree('make', '-q')->{status}, 0, 'a second make has nothing to do');

for my $header ('jail/shared/limits.h', 'ngx_agent_broker/ngx_agent_broker.h') {
    utime time + 2, time + 2, "$tree/$header";
    is(in_tree('make', '-q')->{status}, 1, "a changed $header is noticed");
    utime 0, 0, "$tree/$header";
    is(in_tree('make', '-q')->{status}, 0, 'and nothing else is');
}


# What was made

my $elf = $t->run(['readelf', '-W', '-l', '-d', $jail])->{out};
like($elf, qr/GNU_RELRO/, 'the launcher has read-only relocations');
like($elf, qr/GNU_STACK.*RW /, 'and no executable stack');
if (in_tree('grep', '-q', 'static-pie', 'Makefile')->{status} == 0) {
    unlike($elf, qr/INTERP/, 'and is linked statically');
}

$elf = $t->run(['readelf', '-W', '-l', '-d', $module])->{out};
like($elf, qr/BIND_NOW|FLAGS.*NOW/, 'the module binds all its symbols at load');
like($elf, qr/GNU_RELRO/, 'and makes them read-only');

my ($ok, $said) = $t->nginx_t(module => $module);
ok($ok, "nginx loads the module") or diag($said);


# make install

mkdir "$t->{dir}/dest";
$t->give("$t->{dir}/dest", $user) if defined $user;

$run = in_tree('make', 'install', "DESTDIR=$t->{dir}/dest", 'prefix=/usr');
is($run->{status}, 0, 'make install works')
    or diag($run->{err});

my $dest = "$t->{dir}/dest";
ok(-x "$dest/usr/bin/jail", 'it installs bin/jail under DESTDIR and prefix');
ok(-f "$dest/usr/lib/nginx/modules/ngx_agent_broker_module.so",
   "the module where nginx looks for it");
ok(-f "$dest/usr/share/agent-broker/$_", "and $_")
    for qw(conf/nginx.conf conf/agent_proxy.conf conf/vault.example
           conf/policies/example.conf README.md LICENSE);

is(in_tree('make', 'clean')->{status}, 0, 'make clean works');
ok(!-e "$tree/objs" && !-e "$tree/Makefile", 'and leaves the sources');

done_testing;
