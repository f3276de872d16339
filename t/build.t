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

subtest 'configure names all that is missing at once, by package' => sub {
    my $run = in_tree('auto/configure', '--cc=' . cc_without(
        qw(seccomp.h libcgroup.h jansson.h openssl/ssl.h pcre2.h libpsl.h)));

    is($run->{status}, 1, 'configure fails when libraries are missing');
    like($run->{err}, qr/apt-get[ ]install(?=.*[ ]libseccomp-dev)
                         (?=.*[ ]libcgroup-dev)(?=.*[ ]libjansson-dev)
                         (?=.*[ ]libssl-dev)(?=.*[ ]libpcre2-dev)
                         (?=.*[ ]libpsl-dev)/x,
         'one line installs every one of them');
    unlike($run->{err}, qr/apt-get install.*(?:gcc|nginx|cmocka)/,
           'the line has nothing that is installed');
    is(() = $run->{err} =~ /apt-get/g, 1, 'the line is printed once');
    ok(!-e "$tree/Makefile", 'no Makefile is written');

    $run = in_tree('auto/configure', '--with-nginx-src=/nonexistent',
                   '--nginx=/nonexistent');
    is($run->{status}, 1, 'configure fails without nginx and its headers');
    like($run->{err}, qr/apt-get install nginx-dev nginx$/m,
         'the packages of both are named');

    $run = in_tree('auto/configure', '--cc=/nonexistent/cc');
    is($run->{status}, 1, 'configure fails without a compiler');
    like($run->{err}, qr/apt-get install gcc libc6-dev$/m,
         'only the compiler is missing then, and no library');
};

subtest 'configure does without what only the tests need' => sub {
    my $run = in_tree('auto/configure', '--cc=' . cc_without('cmocka.h'));
    is($run->{status}, 0, 'configure succeeds without cmocka');
    like($run->{out}, qr/libcmocka-dev/, 'the package of cmocka is named');
};

subtest 'configure refuses an unknown option by name' => sub {
    my $run = in_tree('auto/configure', '--no-such-option=1');
    is($run->{status}, 2, 'the status is that of wrong usage');
    like($run->{err}, qr/"--no-such-option=1"/, 'the option is quoted');
};


# make

my ($jail, $module) = map { "$tree/objs/$_" }
                      'jail', 'ngx_agent_broker_module.so';

subtest 'an ordinary user builds both programs' => sub {
    my $run = in_tree('auto/configure', '--prefix=/opt/agent');
    is($run->{status}, 0, 'configure succeeds with everything there')
        or diag($run->{err});

    $run = in_tree('make', '-j2');
    is($run->{status}, 0, 'make succeeds')
        or BAIL_OUT("make: $run->{err}");
    ok(-x $jail, 'the launcher is built');
    ok(-f $module, 'the module is built');
};

subtest 'make does what has changed, and no more' => sub {
    is(in_tree('make', '-q')->{status}, 0, 'a second make has nothing to do');

    for my $header ('jail/shared/limits.h',
                    'ngx_agent_broker/ngx_agent_broker.h')
    {
        utime time + 2, time + 2, "$tree/$header";
        is(in_tree('make', '-q')->{status}, 1, "a changed $header is noticed");
        utime 0, 0, "$tree/$header";
        is(in_tree('make', '-q')->{status}, 0,
           "an old $header leaves nothing to do");
    }
};


# What was made

subtest 'both programs are hardened' => sub {
    my $elf = $t->run(['readelf', '-W', '-l', '-d', $jail])->{out};
    like($elf, qr/GNU_RELRO/, 'the launcher has read-only relocations');
    like($elf, qr/GNU_STACK.*RW /, 'the launcher has no executable stack');
    if (in_tree('grep', '-q', 'static-pie', 'Makefile')->{status} == 0) {
        unlike($elf, qr/INTERP/, 'the launcher is linked statically');
    }

    $elf = $t->run(['readelf', '-W', '-l', '-d', $module])->{out};
    like($elf, qr/BIND_NOW|FLAGS.*NOW/,
         'the module binds all its symbols at load');
    like($elf, qr/GNU_RELRO/, 'the module has read-only relocations');
};

subtest 'nginx loads the module' => sub {
    my ($ok, $said) = $t->nginx_t(module => $module);
    ok($ok, 'nginx -t succeeds') or diag($said);
};


# make install

subtest 'make install puts everything where DESTDIR and prefix say' => sub {
    my $dest = "$t->{dir}/dest";
    mkdir $dest;
    $t->give($dest, $user) if defined $user;

    my $run = in_tree('make', 'install', "DESTDIR=$dest", 'prefix=/usr');
    is($run->{status}, 0, 'make install succeeds')
        or diag($run->{err});

    ok(-x "$dest/usr/bin/jail", 'the launcher is in bin');
    ok(-x "$dest/usr/bin/agent-vault", 'the vault\'s tool is in bin');
    ok(-f "$dest/usr/share/man/man1/$_", "the manual page $_ is there")
        for qw(jail.1 agent-vault.1);
    ok(-f "$dest/usr/lib/nginx/modules/ngx_agent_broker_module.so",
       'the module is where nginx looks for it');
    ok(-f "$dest/usr/share/agent-broker/$_", "$_ is in share/agent-broker")
        for qw(conf/nginx.conf conf/agent_proxy.conf conf/vault.example
               conf/policies/example.conf README.md LICENSE);
};

subtest 'make clean leaves the sources' => sub {
    is(in_tree('make', 'clean')->{status}, 0, 'make clean succeeds');
    ok(!-e "$tree/objs" && !-e "$tree/Makefile", 'what was built is removed');
    ok(-f "$tree/README.md", 'what was not built is left');
};

done_testing;
