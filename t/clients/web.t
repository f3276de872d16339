#!/usr/bin/perl

# Programs that fetch one URL, unmodified, by each door of a box: an allowed
# host is reached with its credential, another is refused at once.

use v5.36;

use FindBin;
use lib $FindBin::Bin, 't/lib';
use AgentTest;
use Clients;
use Test::More;

my $t  = AgentTest->new;
my $up = $t->upstream(names => ['api.internal']);
my $dir = $t->dir . '/readable';
mkdir $dir;
my $programs = "$FindBin::Bin/programs";

# What is built or installed outside

sub build (@command) {
    my $run = $t->run(\@command, cwd => $dir, timeout => 300,
                      env => { HOME => $dir, GOCACHE => "$dir/.go",
                               GO111MODULE => 'off', GOFLAGS => '',
                               npm_config_cache => "$dir/.npm" });
    return $run->{status} == 0 ? undef
         : "$command[0]: " . ($run->{err} =~ /([^\n]+)/ ? $1 : 'failed');
}

my $no_java = Clients::has('javac')
            ? build('javac', '-d', $dir, "$programs/Fetch.java")
            : 'no javac';
my $no_go = Clients::has('go')
          ? build('go', 'build', '-o', "$dir/fetch-go",
                  "$programs/fetch.go")
          : 'no go';
my $no_undici = Clients::has('npm')
              ? build(qw(npm install --no-audit --no-fund --silent
                         --fetch-retries 0 undici@6))
              : 'no npm';
my $no_node = Clients::has('node') ? undef : 'no node';

sub python_has ($module) {
    return $t->run(['/usr/bin/python3', '-c', "import $module"])->{status}
           ? "no python3-$module" : undef;
}

my $no_lwp = $t->run(['/usr/bin/perl', '-MLWP::Protocol::https', '-e1'])
             ->{status} ? 'no liblwp-protocol-https-perl' : undef;

system('chmod', '-R', 'a+rX', $dir);

my $c = Clients->new($t,
    vault     => "api = $Clients::TOKEN\n",
    port     => $up->port,
    readable => [$dir],
    in       => [map { "$programs/$_" } qw(fetch.py fetch.js fetch.pl)],
    hosts    => { 'api.internal' => 'methods GET HEAD; bearer api;' },
);

sub client ($case, $name, $command, %opt) {
    my $path = ($opt{below} // '') . '/' . $name =~ tr/a-zA-Z0-9/-/cr;
    $c->client($case, $name, $command, %opt,
        url => 'https://api.internal:' . $up->port . "$path-DOOR",
        arrived => sub ($door) {
            my ($r) = grep { $_->{target} eq "$path-$door" } $up->requests;
            return $r && $r->{sni} eq 'api.internal'
                && join(' ', @{ $r->{headers}{authorization} // [] })
                   eq "Bearer $Clients::TOKEN";
        });
}

client('F-025', 'curl', 'curl -sS --fail "$1"');
client('F-034', 'curl HEAD', 'curl -sS --fail -I "$1"',
       expect => qr{^HTTP/\S+ 200}m);
client('F-035', 'curl, kept alive', 'curl -sS --fail -w "\n%{num_connects}\n" '
       . '"$1" "$1" "$1" "$1" "$1"', expect => qr/^(?:.+\n1\n)(?:.+\n0\n){4}/);

# the upstream's next event comes when the first has arrived in the box

client('F-037', 'curl, a stream', <<'END', below => '/gate',
curl -sSN --fail "$1" | while read -r line; do
    echo "$line"
    [ "$line" != "data: 0" ] || \
        curl -sS -o opened "${1%/gate/*}/open/${1##*/}"
done > stream
cat stream
grep -q '^data: 1$' stream
END
       expect => qr/^data: 0\n.*^data: 1$/ms);

client('F-025', 'wget', 'wget -nv -O - "$1"');
client('F-026', "python $_", "/usr/bin/python3 fetch.py $_ \"\$1\"",
       skip => $_ eq 'urllib' ? undef : python_has($_))
    for qw(urllib requests httpx);
client('F-026', 'python asyncio', '/usr/bin/python3 fetch.py streams "$1"',
       doors => ['web'], why => 'knows no proxy');
client('F-046', "node $_", "node fetch.js $_ \"\$1\"", skip => $no_node)
    for qw(fetch https);
client('F-046', 'node undici', 'node fetch.js undici "$1"',
       skip => $no_undici // $no_node,
       setup => "export UNDICI=$dir/node_modules/undici");
client('F-030 F-031', 'java HttpClient', "java -cp $dir Fetch \"\$1\"",
       skip => $no_java);
client('F-029', 'perl LWP', 'perl fetch.pl "$1"', skip => $no_lwp);
client('F-029', 'go net/http', "$dir/fetch-go \"\$1\"", skip => $no_go);

$c->matrix;

done_testing;
