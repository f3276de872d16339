#!/usr/bin/perl

# pip, npm and apt, unmodified, by each door: each installs a package from a
# registry of its kind that wants a token, which only the broker has, and is
# refused another registry at once.

use v5.36;

use Digest::SHA ();
use FindBin;
use lib $FindBin::Bin, 't/lib';
use AgentTest;
use Clients;
use JSON::PP ();
use MIME::Base64;
use Test::More;

my $t = AgentTest->new;
my $root = $t->dir . '/site';
my $log = $t->dir . '/site.log';
my @hosts = qw(apt.internal npm.internal pypi.internal);
my $pair = $t->cert(\@hosts);
my $need = "Bearer $Clients::TOKEN";

my $site = $t->helper('../clients/site.py', '--cert', $pair->{cert},
    '--key', $pair->{key}, '--root', $root, '--log', $log,
    map { ('--need', "$_=$need") } @hosts);
my $port = $site->{port};

sub run (@command) {
    my $run = $t->run(\@command, env => { HOME => $t->dir });
    die "@command: $run->{err}" if $run->{status};
    return $run->{out};
}


# A wheel, its archive written by Python itself

my $wheel = 'tiny-1.0-py3-none-any.whl';
my $pypi = "$root/pypi.internal/simple/tiny";
$t->write("$pypi/index.html", "<a href=\"$wheel\">$wheel</a>\n");
run('/usr/bin/python3', '-c', <<'END', "$pypi/$wheel");
import sys, zipfile
files = {
    "tiny.py": "ANSWER = 42\n",
    "tiny-1.0.dist-info/METADATA":
        "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
    "tiny-1.0.dist-info/WHEEL":
        "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
}
record = "tiny-1.0.dist-info/RECORD"
with zipfile.ZipFile(sys.argv[1], "w") as z:
    for name, text in files.items():
        z.writestr(name, text)
    z.writestr(record, "".join("%s,,\n" % n for n in [*files, record]))
END


# A package of npm's

my $npm = "$root/npm.internal";
$t->write($t->dir . '/package/package.json',
          '{"name":"tiny","version":"1.0.0","main":"index.js"}');
$t->write($t->dir . '/package/index.js', "module.exports = 42;\n");
run('mkdir', '-p', "$npm/-");
run('tar', '-C', $t->dir, '-czf', "$npm/-/tiny-1.0.0.tgz", 'package');
$t->write("$npm/tiny", JSON::PP->new->encode({
    name => 'tiny', 'dist-tags' => { latest => '1.0.0' },
    versions => { '1.0.0' => {
        name => 'tiny', version => '1.0.0', main => 'index.js',
        dist => {
            tarball => "https://npm.internal:$port/-/tiny-1.0.0.tgz",
            integrity => 'sha512-' . encode_base64(Digest::SHA::sha512(
                $t->read("$npm/-/tiny-1.0.0.tgz")), ''),
        },
    } },
}));


# A flat repository of apt's

my $apt = "$root/apt.internal/debian";
my $no_apt = Clients::has('apt-get') && Clients::has('dpkg-deb')
           ? undef : 'no apt';
if (!$no_apt) {
    my $control = "Package: tiny\nVersion: 1.0\nArchitecture: all\n"
                . "Maintainer: a <a\@b>\nDescription: tiny\n";
    $t->write($t->dir . '/deb/DEBIAN/control', $control);
    run('mkdir', '-p', $apt);
    run('dpkg-deb', '--root-owner-group', '-b', $t->dir . '/deb',
        "$apt/tiny.deb");
    my $deb = $t->read("$apt/tiny.deb");
    $t->write("$apt/Packages", $control . "Filename: ./tiny.deb\nSize: "
        . length($deb) . "\nSHA256: " . Digest::SHA::sha256_hex($deb) . "\n");
    my $list = $t->read("$apt/Packages");
    $t->write("$apt/Release", "Date: Thu, 01 Jan 2026 00:00:00 UTC\nSHA256:\n "
        . Digest::SHA::sha256_hex($list) . ' ' . length($list)
        . " Packages\n");
}

my $c = Clients->new($t,
    vault  => "registry = $Clients::TOKEN\n",
    port  => $port,
    hosts => { map { $_ => 'bearer registry;' } @hosts },
);

sub client ($case, $name, $host, $last, $command, %opt) {
    $c->client($case, $name, $command, %opt, arrived => sub ($door) {
        my @requests = grep { $_->{host} eq $host } $t->read_lines($log);
        return !(grep { ($_->{authorization} // '') ne $need } @requests)
            && grep { $_->{target} =~ $last } @requests;
    });
}

# how often they try again is theirs to say, and is said here

client('F-026', 'pip', 'pypi.internal', qr/\.whl$/, <<'END',
/usr/bin/python3 -m pip install -q --no-cache-dir --retries 0 \
    --disable-pip-version-check --index-url "$1" --target here tiny &&
PYTHONPATH=here /usr/bin/python3 -c 'import tiny; print(tiny.ANSWER)'
END
    url => "https://pypi.internal:$port/simple",
    denied => "https://evil.example:$port/simple",
    expect => qr/^42$/m,
    skip => $t->run(['/usr/bin/python3', '-m', 'pip', '--version'])->{status}
            ? 'no python3-pip' : undef);

client('F-026', 'npm', 'npm.internal', qr/\.tgz$/, <<'END',
rm -rf module && mkdir module && cd module &&
npm install --no-audit --no-fund --fetch-retries 0 --registry "$1" tiny &&
node -e 'console.log(require("tiny"))'
END
    url => "https://npm.internal:$port/",
    denied => "https://evil.example:$port/",
    expect => qr/^42$/m,
    skip => Clients::has('npm') ? undef : 'no npm');

client('F-029', 'apt', 'apt.internal', qr/\.deb$/, <<'END',
rm -rf apt && mkdir -p apt/lists/partial apt/cache/archives/partial apt/etc &&
: > apt/status && echo "deb [trusted=yes] $1 ./" > apt/etc/sources.list &&
cat > apt/conf <<CONF
Dir::State "$PWD/apt";
Dir::State::status "$PWD/apt/status";
Dir::Cache "$PWD/apt/cache";
Dir::Etc "$PWD/apt/etc";
Acquire::Retries "0";
CONF
export APT_CONFIG=$PWD/apt/conf &&
apt-get update -qq --error-on=any && cd apt &&
apt-get download -qq tiny && dpkg-deb -f tiny_1.0_all.deb Package
END
    url => "https://apt.internal:$port/debian",
    denied => "https://evil.example:$port/debian",
    expect => qr/^tiny$/m,
    skip => $no_apt);

$c->matrix;

done_testing;
