#!/usr/bin/perl

# git, unmodified, over https by each door: it clones, commits and pushes
# with a credential that it never sees, and is refused another host at once.

use v5.36;

use FindBin;
use lib $FindBin::Bin, 't/lib';
use AgentTest;
use Clients;
use Test::More;

my $t = AgentTest->new;

plan skip_all => 'no git http-backend'
    if !-x '/usr/lib/git-core/git-http-backend';

my $root = $t->dir . '/site';
my $git = "$root/git.internal/git";
my $log = $t->dir . '/site.log';
my $pair = $t->cert(['git.internal']);
my $need = "Bearer $Clients::TOKEN";

my %env = (GIT_CONFIG_GLOBAL => '/dev/null', HOME => $t->dir,
           GIT_AUTHOR_NAME => 'a', GIT_AUTHOR_EMAIL => 'a@b',
           GIT_COMMITTER_NAME => 'a', GIT_COMMITTER_EMAIL => 'a@b');

sub run (@command) {
    my $run = $t->run(\@command, env => \%env);
    die "@command: $run->{err}" if $run->{status};
    return $run->{out};
}

my $seed = $t->dir . '/seed';
run('git', 'init', '-q', '-b', 'main', $seed);
$t->write("$seed/README", "a project\n");
run('git', '-C', $seed, 'add', 'README');
run('git', '-C', $seed, 'commit', '-q', '-m', 'The first one');

for my $door ('proxy', 'web') {
    run('mkdir', '-p', $git);
    run('git', 'clone', '-q', '--bare', $seed, "$git/$door.git");
    run('git', '-C', "$git/$door.git", 'config', 'http.receivepack', 'true');
}

my $site = $t->helper('../clients/site.py',
    '--cert', $pair->{cert}, '--key', $pair->{key}, '--root', $root,
    '--log', $log, '--need', "git.internal=$need");

my $c = Clients->new($t,
    vault  => "git = $Clients::TOKEN\n",
    port  => $site->{port},
    hosts => { 'git.internal' => 'methods GET POST; bearer git;' },
);

# a body of more than http.postBuffer goes out chunked
$c->client('F-029', 'git clone and push', <<'END',
set -e
export GIT_TERMINAL_PROMPT=0
git clone -q "$1" clone
cd clone
cat README
head -c 3000000 /dev/urandom > data
git add data
git -c user.name=a -c user.email=a@b commit -q -m "From the box"
git push -q origin main
cd ..
rm -rf clone
END
    url => "https://git.internal:$site->{port}/git/DOOR.git",
    denied => "https://evil.example:$site->{port}/git/DOOR.git",
    expect => qr/^a project$/m,
    arrived => sub ($door) {
        my @requests = grep { $_->{target} =~ m{^/git/$door\.git/} }
                       $t->read_lines($log);
        return run('git', '-C', "$git/$door.git", 'log', '--format=%s', '-1')
               eq "From the box\n"
            && @requests >= 4
            && !grep { ($_->{authorization} // '') ne $need } @requests;
    });

$c->matrix;

done_testing;
