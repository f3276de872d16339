#!/usr/bin/perl

# agent-vault: what it writes is a vault for nginx, a value comes from standard
# input only and is never printed, and whatever fails leaves the file as it was
# and nothing beside it.
#
# sanitizers: it works with what an operator has typed

use v5.36;

use lib 't/lib';
use AgentTest;
use Test::More;
use Time::HiRes qw(sleep);

my $t    = AgentTest->new;
my $tool = "$t->{objs}/agent-vault";
my $dir  = "$t->{dir}/v";
my ($vault, $key) = ("$dir/vault", "$dir/key");

# no output of any run may have one of these
my @values = map { "sk_marker$_-0123456789abcdef" } 1 .. 9;
my $printed = '';

mkdir $dir, 0700;

sub av ($args, %opt) {
    my $run = $t->run([$tool, '--vault', $vault, @$args], %opt);
    $printed .= $run->{out} . $run->{err};
    return $run;
}

sub vault ($text, $mode = 0600) { return $t->write('v/vault', $text, $mode) }
sub bytes () { return -e $vault ? $t->read($vault) : undef }

sub names () {
    opendir my $d, $dir or die "$dir: $!";
    return join ' ', sort grep { !/^\.\.?$/ } readdir $d;
}

sub nginx_takes ($how = '') {
    my ($ok, $said) = $t->nginx_t(http => <<"END");
agent_vault $vault$how;
agent_audit logs/agent-audit.log;
agent_policy a { host api.internal { bearer api; } }
server { agent_control unix:%CONTROL%; include $AgentTest::ROOT/conf/agent_proxy.conf; }
END
    $printed .= $said;
    return $ok;
}

# It fails with this status and message, and the directory is as it was.
sub fails ($what, $args, $status, $words, %opt) {
    my ($before, $names) = (bytes(), names());
    my $run = av($args, %opt);
    is($run->{status}, $status, "$what: its status is $status");
    like($run->{err}, qr/\Aagent-vault: .*$words/, "$what: it says why");
    is($run->{out}, '', "$what: nothing is on stdout");
    is(bytes(), $before, "$what: the vault is as it was");
    is(names(), $names, "$what: no other file is there");
    return;
}


subtest 'a vault is made, changed, sealed and opened, and nginx takes each'
    => sub {
    my $run = av([qw(add api)], stdin => "$values[0]\n");
    is($run->{status}, 0, 'an entry is added to a vault that was not there')
        or diag $run->{err};
    is(bytes(), "api = $values[0]\n", 'the line is in the file');
    is((stat $vault)[2] & 07777, 0600, 'its mode is 0600');
    ok(nginx_takes(), 'nginx takes it');

    vault("# ours\n\n  api\t=  $values[0]  \n# the next\ngit=$values[1]");
    is(av([qw(add third)], stdin => $values[2])->{status}, 0,
       'an entry is added behind a line without an end');
    is(bytes(), "# ours\n\n  api\t=  $values[0]  \n# the next\n"
                . "git=$values[1]\nthird = $values[2]\n",
       'the other lines are kept');
    is(av([qw(rotate api)], stdin => "$values[3]\n")->{status}, 0,
       'an entry is rotated');
    is(av([qw(remove third)])->{status}, 0, 'one is removed');
    is(bytes(), "# ours\n\n  api\t=  $values[3]  \n# the next\n"
                . "git=$values[1]\n", 'comments and order are kept');
    is(av(['list'])->{out}, "api plain\ngit plain\n", 'the list is of names');
    ok(nginx_takes(), 'nginx takes it');

    is(av(['--key', $key, 'init-key'])->{status}, 0, 'a key is made');
    is(-s $key, 32, 'it has 32 bytes');
    is((stat $key)[2] & 07777, 0600, 'its mode is 0600');
    is(av(['--key', $key, 'seal'])->{status}, 0, 'the vault is sealed');
    like(bytes(), qr/\A# ours\n\n  api\t=  \{gcm1\}[\w+\/]+=*  \n# the next\ngit=\{gcm1\}[\w+\/]+=*\n\z/,
         'each value is, and no more is changed');
    is(av(['list', '--key', $key])->{out}, "api sealed\ngit sealed\n",
       'the list says so');
    ok(nginx_takes(" key=$key"), 'nginx takes it with the key');
    ok(!nginx_takes(), 'nginx does not without it');

    my $sealed = bytes();
    is(av(['--key', $key, 'seal'])->{status}, 0, 'it can be sealed again');
    is(bytes(), $sealed, 'which changes nothing');
    is(av(['--key', $key, qw(add third)], stdin => $values[2])->{status}, 0,
       'an entry is added to a sealed vault');
    is(av(['--key', $key, qw(rotate api)], stdin => $values[4])->{status}, 0,
       'one is rotated');
    ok(nginx_takes(" key=$key"), 'nginx takes it');
    is(av([qw(remove git)])->{status}, 0, 'one is removed without the key');
    is(names(), 'key vault', 'there are no other files');

    vault(bytes() . "late=$values[5]\n");
    ok(!nginx_takes(" key=$key"), 'a value in clear beside sealed ones is '
                                  . 'refused');
    is(av(['--key', $key, 'seal'])->{status}, 0, 'it is sealed as well');
    ok(nginx_takes(" key=$key"), 'nginx takes it');

    is(av(['--key', $key, qw(open --plain)])->{status}, 0, 'it is opened');
    is(bytes(), "# ours\n\n  api\t=  $values[4]  \n# the next\n"
                . "third = $values[2]\nlate=$values[5]\n",
       'with the values that were sealed');
    ok(nginx_takes(), 'nginx takes it without the key');
};


subtest 'what is refused changes nothing' => sub {
    my $other = $t->write('v/other', 'x' x 32, 0600);
    my $short = $t->write('v/short', 'x' x 31, 0600);
    vault("api = $values[0]\n");
    my %in = (stdin => $values[1]);

    fails('a value as an argument', [qw(add new), $values[1]], 2,
          qr/a word too many; a value is read from standard input/);
    fails('a value as a name', ['add', $values[1]], 2, qr/NAME is not one/, %in);
    fails('a value as a command', [$values[1]], 2, qr/no such command/);
    fails('a value as an option', ["--$values[1]", 'list'], 2,
          qr/an option is unknown/);
    fails('an option that is cut', ['--ke', $key, 'seal'], 2,
          qr/an option is unknown/);
    fails('an option twice', ['--key', $key, '--key', $key, 'seal'], 2,
          qr/repeated/);
    fails('an option without its file', ['list', '--key'], 2, qr/has no FILE/);
    fails('no command', [], 2, qr/there is no command/);
    fails('two commands', [qw(list list)], 2, qr/a word too many/);
    fails('no name', ['add'], 2, qr/needs the NAME/);
    fails('open without --plain', ['--key', $key, 'open'], 2,
          qr/does nothing without it/);
    fails('--plain elsewhere', [qw(--plain list)], 2, qr/no other command/);
    fails('seal without a key', ['seal'], 2, qr/needs --key/);

    fails('a key that is there', ['--key', $other, 'init-key'], 1,
          qr/is there already/);
    fails('a key of 31 bytes', ['--key', $short, 'seal'], 1,
          qr/has 31 bytes and not 32/);
    chmod 0640, $other;
    fails('a key that is open to others', ['--key', $other, 'seal'], 1,
          qr/the vault's key .* is open to others \(mode 0640\): chmod 600/);
    chmod 0600, $other;
    fails('an entry that is there', [qw(add api)], 1,
          qr/has the entry "api" already/, %in);
    fails('one that is not', [qw(rotate git)], 1, qr/has no entry "git"/, %in);
    fails('one that is not, removed', [qw(remove git)], 1,
          qr/has no entry "git"/);
    fails('the value that it has', [qw(rotate api)], 1,
          qr/is the value that the entry "api" has already/,
          stdin => $values[0]);

    for my $case (['nothing', '', qr/no value/], ["\n", "\n", qr/no value/],
        ['two lines', "$values[1]\n$values[2]\n", qr/more than one line/],
        ['an empty line behind it', "$values[1]\n\n", qr/more than one line/],
        ['a carriage return', "$values[1]\r\n", qr/not one line of text/],
        ['a NUL', "$values[1]\0", qr/not one line of text/],
        ['a control byte', "$values[1]\x01", qr/control character/],
        ['no ASCII', "$values[1]\xff", qr/not ASCII/],
        ['a blank at its end', "$values[1] ", qr/a blank in it/],
        ['Bearer before it', "Bearer $values[1]", qr/begins with "Bearer"/],
        ['quotes', "\"$values[1]\"", qr/in quotes/],
        ['15 characters', 'sk_marker123456', qr/shorter than 16/],
        ['4097 characters', $values[1] . 'x' x 4080, qr/longer than 4096/],
        ['a megabyte', $values[1] x 50000, qr/longer than 4096/],
        ['the text of a sealed one', '{gcm1}' . 'A' x 64, qr/is sealed/],
    ) {
        my ($what, $in, $words) = @$case;
        fails("a value that is $what", [qw(rotate api)], 1, $words,
              stdin => $in);
    }

    # the vault itself
    fails('a key for values in clear', ['--key', $other, qw(add new)], 1,
          qr/line 1, entry "api": the value is not sealed/, %in);
    av(['--key', $other, 'seal']);
    fails('no key for sealed ones', [qw(add new)], 1,
          qr/are sealed: name their key/, %in);
    my $wrong = $t->write('v/wrong', 'y' x 32, 0600);
    for my $args ([qw(add new)], [qw(rotate api)], ['seal'], ['list'],
                  [qw(open --plain)])
    {
        next if "@$args" eq 'seal';         # there is nothing to seal
        fails("another key: @$args", ['--key', $wrong, @$args], 1,
              qr/line 1, entry "api": .* this is not the key/, %in);
    }

    vault("api = $values[0]\n$values[1]\n");
    fails('a line that is no entry', [qw(add new)], 1, qr/line 2: .* no "="/,
          %in);
    vault("api = $values[0]\n", 0644);
    fails('a vault that is open to others', [qw(add new)], 1,
          qr/open to others/, %in);
    chmod 0600, $vault;
    link $vault, "$vault.link";
    fails('a vault of two names', [qw(add new)], 1, qr/has 2 names/, %in);
    rename $vault, "$vault.real";
    unlink "$vault.link";
    symlink "$vault.real", $vault;
    fails('a link', [qw(add new)], 1, qr/it is a symbolic link/, %in);
    unlink $vault;
    fails('no vault', [qw(rotate api)], 1, qr/No such file/, %in);
    rename "$vault.real", $vault;
    chmod 0777, $dir;
    fails('a directory that others write', [qw(add new)], 1,
          qr/can be written by others/, %in);
    chmod 0700, $dir;
    unlink $other, $short, $wrong;
};


subtest 'a write that fails leaves the vault as it was' => sub {
    vault("api = $values[0]\n");
    my %in = (stdin => $values[1]);
    my $sh = 'exec "$@"';

    # SIGXFSZ ends a program that does not expect it
    my $before = bytes();
    for my $args ([qw(add new)], [qw(rotate api)], ['--key', $key, 'seal']) {
        my $run = $t->run(['bash', '-c', "ulimit -f 0; $sh", 'x', $tool,
                           '--vault', $vault, @$args], %in);
        $printed .= $run->{out} . $run->{err};
        is($run->{status}, 1, "no file may be written: @$args");
        like($run->{err}, qr/could not be written: File too large/,
             'it says why');
        is(bytes(), $before, 'the vault is as it was');
        is(names(), 'key vault', 'no other file is there');
    }

  SKIP: {
        skip 'mounts need root', 1 if !$t->is_root;

        # a disk without room, and one that cannot be written
        my $full = $t->run(['unshare', '-m', 'bash', '-c', <<'END', 'x',
set -e
mount -t tmpfs -o size=16k,mode=700 none "$2"
umask 077
echo "$4" > "$2/vault"
before=$(cat "$2/vault")
head -c 16k /dev/zero > "$2/fill" 2> /dev/null || true
printf %s "$3" | "$1" --vault "$2/vault" rotate api && exit 90
test "$before" = "$(cat "$2/vault")" || exit 91
test "$(ls -A "$2" | tr '\n' ' ')" = "fill vault " || exit 92
rm "$2/fill"
mount -o remount,ro "$2"
printf %s "$3" | "$1" --vault "$2/vault" rotate api && exit 93
mount -o remount,rw "$2"
test "$before" = "$(cat "$2/vault")" || exit 94
test "$(ls -A "$2")" = vault || exit 95
printf %s "$3" | "$1" --vault "$2/vault" rotate api || exit 96
test "$before" != "$(cat "$2/vault")" || exit 97
END
            $tool, $dir, $values[1], "api = $values[0]"]);
        $printed .= $full->{out} . $full->{err};
        is($full->{status}, 0, 'on a full disk and on one that cannot be '
                               . 'written it fails, and works after that')
            or diag $full->{err};
        like($full->{err}, qr/could not be written: No space left/,
             'it says that there is no room');
        like($full->{err}, qr/could not be written: Read-only file system/,
             'it says that nothing can be written');
    }
};


# Killed at whatever moment, the file is the old or the new one, and no value
# is anywhere in clear.
subtest 'a change that is killed has happened or has not' => sub {
    vault("api = $values[0]\n");
    is(av(['--key', $key, 'seal'])->{status}, 0, 'the vault is sealed');

    my ($killed, $bad) = (0, '');
    for my $n (0 .. 120) {
        my $p = $t->spawn([$tool, '--vault', $vault, '--key', $key, 'rotate',
                           'api'], pipes => 1);
        print { $p->{in} } $values[1 + $n % 8];
        close $p->{in};
        sleep $n * 0.0001;
        $killed += kill 'KILL', $p->{pid};
        waitpid $p->{pid}, 0;
        $t->forget($p->{pid});

        # its guard may still be about to remove the new file
        AgentTest::wait_for('the guard', sub { names() eq 'key vault' });
        my @with = grep { -f && $t->read($_) =~ /sk_marker/ }
                   glob "$dir/* $dir/.*";
        $bad .= "in clear after $n: @with\n" if @with;
        my $list = av(['list', '--key', $key]);
        $bad .= "after $n: $list->{out}$list->{err}\n"
            if $list->{out} ne "api sealed\n";
    }
    cmp_ok($killed, '>', 0, 'control: some were killed');
    is($bad, '', 'each left a vault that opens, and no value in clear');

    # what may be left is removed by the next
    $t->write('v/.agent-vault.new', 'what a killed one left', 0600);
    vault("api = $values[0]\n");
    is(av([qw(add new)], stdin => $values[1])->{status}, 0, 'the next works');
    is(names(), 'key vault', 'nothing is left beside the vault');
};


subtest 'of several at the same time none is lost' => sub {
    vault('');
    my @p = map {
        my $p = $t->spawn([$tool, '--vault', $vault, 'add', "entry_$_"],
                          pipes => 1);
        print { $p->{in} } "$values[0]-$_";
        close $p->{in};
        $p;
    } 1 .. 12;
    my @failed;
    for my $p (@p) {
        waitpid $p->{pid}, 0;
        push @failed, $? if $?;
        $t->forget($p->{pid});
    }
    is("@failed", '', 'all are done');
    is(scalar(my @lines = split /\n/, bytes()), 12, 'each added its entry');
    is(names(), 'key vault', 'there are no other files');
};


subtest 'the owner and the mode are kept' => sub {
    plan skip_all => 'another owner needs root' if !$t->is_root;
    my $user = $t->user;
    vault("api = $values[0]\n", 0400);
    $t->give($dir);
    chown $user, $user, $vault, $key;
    is(av([qw(rotate api)], stdin => $values[1])->{status}, 0,
       'root rotates an entry of another user\'s vault');
    is_deeply([(stat $vault)[4, 5, 2]], [$user, $user, 0100400],
              'it is still that user\'s, with its mode');
    my $copy = $t->reachable($tool, $user);
    chmod 0711, $t->{dir};
    my $run = $t->run([$copy, '--vault', $vault, 'rotate', 'api'],
                      user => $user, stdin => $values[2]);
    is($run->{status}, 0, 'the user rotates it') or diag $run->{err};
    chown 0, 0, $dir, $key;
    $run = $t->run([$copy, '--vault', $vault, 'rotate', 'api'],
                   user => $user, stdin => $values[3]);
    isnt($run->{status}, 0, 'in a directory of root\'s that user cannot');
    vault("api = $values[0]\n");
    chown 0, 0, $vault;
};


subtest 'a terminal is asked without an echo, and has it back' => sub {
    vault("api = $values[0]\n");
    my $python = <<'END';
import os, pty, select, signal, sys, termios
tool, vault, value, how = sys.argv[1:5]
pid, fd = pty.fork()
if pid == 0:
    os.execv(tool, [tool, '--vault', vault, 'rotate', 'api'])
seen = b''
while b'not shown' not in seen:
    seen += os.read(fd, 4096)
assert not termios.tcgetattr(fd)[3] & termios.ECHO
os.write(fd, value.encode() + (b'\n' if how == 'line' else b'\x03'))
while select.select([fd], [], [], 60)[0]:
    try:
        got = os.read(fd, 4096)
    except OSError:
        break
    if not got:
        break
    seen += got
_, status = os.waitpid(pid, 0)
sys.stdout.write('%d ' % status)
sys.stdout.write(seen.decode())
END
    my $run = $t->run(['python3', '-c', $python, $tool, $vault, $values[1],
                       'line']);
    $printed .= $run->{out};
    like($run->{out}, qr/\A0 value of api \(not shown\): \r?\n.*rotated/s,
         'it asks, and is done') or diag $run->{err};
    is(bytes(), "api = $values[1]\n", 'the value is what was typed');

    $run = $t->run(['python3', '-c', $python, $tool, $vault, $values[2],
                    'break']);
    $printed .= $run->{out};
    like($run->{out}, qr/\A2 /, 'SIGINT at the prompt ends it')
        or diag $run->{err};
    is(bytes(), "api = $values[1]\n", 'the vault is as it was');
};


subtest 'while it runs its memory and arguments show nothing' => sub {
    vault("api = $values[0]\n");
    my $p = $t->spawn([$tool, '--vault', $vault, 'rotate', 'api'], pipes => 1);
    syswrite $p->{in}, $values[1];
    AgentTest::wait_for('no core', sub {
        $t->read("/proc/$p->{pid}/limits") =~ /^Max core file size +0 +0 /m });
    unlike($t->read("/proc/$p->{pid}/cmdline")
           . $t->read("/proc/$p->{pid}/environ"), qr/sk_marker/,
           'no value is in its arguments or environment');
    close $p->{in};
    waitpid $p->{pid}, 0;
    is($?, 0, 'it is done');
    $t->forget($p->{pid});
};


unlike($printed, qr/sk_marker/, 'no run of this test has printed a value');

$t->finish;
done_testing;
