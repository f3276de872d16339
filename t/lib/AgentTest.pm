package AgentTest;

# What every test needs: a directory of its own, certificates, an upstream and
# a DNS server that write down what reaches them, a real nginx with the module
# in it, and the launcher.
#
#   my $t    = AgentTest->new;
#   my $up   = $t->upstream(names => ['api.internal']);
#   my $rule = $t->rule;
#   my $b    = $t->broker(names => ['api.internal'],
#                         policy => "host api.internal:$up->{port} { $rule }");
#   my ($l, $task) = $b->task;              # a launcher driven by hand
#   is($l->get("http://api.internal:$up->{port}/")->{status}, 200, '...');
#   my $run = $t->jail(['run', '--control', $b->control, '--', 'id']);
#   is($run->{json}{reason}, 'ok', '...');
#   $b->is_clean;
#
# Nothing here sleeps: it waits for an event, looking every few milliseconds,
# and dies with what it waited for when the event does not come.  Everything
# that was started is ended by its pid when the object goes.
#
# AGENT_TEST_OBJS=objs-asan runs the same tests against the sanitizers' build;
# a report of theirs fails the test that caused it.  AGENT_TEST_KEEP=1 keeps
# the directory.

use v5.36;

use Cwd qw(abs_path);
use Fcntl qw(:flock O_RDONLY O_NONBLOCK);
use File::Basename qw(dirname);
use File::Path qw(remove_tree make_path);
use File::Temp ();
use IO::Handle;
use IO::Select;
use IO::Socket::INET;
use JSON::PP ();
use MIME::Base64 ();
use POSIX qw(:sys_wait_h :signal_h);
use Scalar::Util ();
use Test::More ();
use Time::HiRes qw(time);

use AgentSchema;

our $ROOT = abs_path(dirname(__FILE__) . '/../..');
our $LIB  = "$ROOT/t/lib";
our $WAIT = $ENV{AGENT_TEST_WAIT} || 60;      # seconds, to catch a hang

my $json = JSON::PP->new->utf8;
my %live;                                     # what END must end

$SIG{PIPE} = 'IGNORE';


# The directory

sub new ($class, %opt) {
    my $objs = $ENV{AGENT_TEST_OBJS} // 'objs';
    $objs = "$ROOT/$objs" unless $objs =~ m{^/};

    # not File::Temp's own removal: it would run in forked children too
    my $dir = File::Temp::tempdir('agent-test-XXXXXXXX', TMPDIR => 1);
    chmod 0755, $dir;

    my $self = bless {
        dir      => abs_path($dir),
        objs     => $objs,
        sanitize => scalar($objs =~ /asan/),
        owner    => $$,
        children => [],
    }, $class;

    $live{$self} = $self;
    Scalar::Util::weaken($live{$self});

    mkdir "$self->{dir}/reports";
    chmod 01777, "$self->{dir}/reports";

    return $self;
}

sub dir     ($self) { return $self->{dir} }
sub is_root         { return $> == 0 }

# A file below the test's directory; its path.
sub write ($self, $name, $text, $mode = 0644) {
    my $path = $name =~ m{^/} ? $name : "$self->{dir}/$name";
    make_path(dirname($path), { mode => 0755 });
    open my $f, '>', "$path.new" or die "$path: $!";
    print $f $text;
    close $f or die "$path: $!";
    chmod $mode, "$path.new";
    rename "$path.new", $path or die "$path: $!";
    return $path;
}

sub read ($self, $name) {
    my $path = $name =~ m{^/} ? $name : "$self->{dir}/$name";
    open my $f, '<', $path or return '';
    local $/;
    return scalar(<$f>) // '';
}

# A file of JSON lines, decoded.  A last line without its newline is not yet
# written and is left out; so is what a writer that was killed left of a line,
# after which the next one begins a new line (audit_errors reports it).  What
# was read before is not read again.
sub read_lines ($self, $name) {
    return map { { %$_ } } @{ $self->lines_of($name) };
}

# The same lines themselves: not to be changed.
sub lines_of ($self, $name) {
    my $path = $name =~ m{^/} ? $name : "$self->{dir}/$name";
    open my $f, '<', $path or return [];
    my ($dev, $inode, $size) = (stat $f)[0, 1, 7];

    my $kept = $self->{lines}{$path};
    if (!$kept || $kept->{id} ne "$dev.$inode" || $kept->{at} > $size) {
        $kept = $self->{lines}{$path}
              = { id => "$dev.$inode", at => 0, lines => [] };
    }

    return $kept->{lines} if $kept->{at} == $size;

    seek $f, $kept->{at}, 0;
    my $text = do { local $/; readline $f } // '';
    while ($text =~ /\G(.*)\n/g) {
        $kept->{at} += length($1) + 1;
        my $line = length $1 ? eval { $json->decode($1) } : undef;
        push @{ $kept->{lines} }, $line if $line;
    }

    return $kept->{lines};
}

# Waits until the code gives a true value, which it returns.
sub wait_for ($what, $code, $seconds = $WAIT) {
    my $end = time + $seconds;
    while (1) {
        my $value = $code->();
        return $value if $value;
        die "gave up waiting for $what after $seconds s\n",
            map { $_->seen } grep { defined } values %live if time > $end;
        select undef, undef, undef, 0.004;
    }
}

# What may tell why an event has not come: what brokers logged last, and what
# processes with pipes that have ended had printed.
sub seen ($self) {
    my @seen;
    for my $broker (@{ $self->{brokers_live} // [] }) {
        my @lines = grep { !/\[(?:info|debug|notice)\]/ }
                    split /^/m, $broker->error_log;
        push @seen, map { "error.log: $_" } @lines > 5 ? @lines[-5 .. -1]
                                                       : @lines;
    }
    for my $pid (sort keys %{ $self->{pids} // {} }) {
        my $child = $self->{pids}{$pid} // next;
        next if !$child->{out} || waitpid($pid, POSIX::WNOHANG()) == 0;
        for my $from (@$child{qw(out err)}) {
            $from->blocking(0);
            sysread $from, my $text, 4096;
            push @seen, "process $pid: $text\n" if length $text;
        }
    }
    return @seen;
}

# Waits until a process has nothing to do: it sleeps, and has used no processor
# time, at each of ten looks in a row.  One that spins never comes there.
sub wait_idle ($self, $pid, $what) {
    my ($ticks, $looks) = (-1, 0);
    return wait_for("process $pid to be idle $what", sub {
        my ($state, @rest) = split ' ',
            $self->read("/proc/$pid/stat") =~ s/.*\) //sr;
        my $now = $rest[10] + $rest[11];
        $looks = $state eq 'S' && $now == $ticks ? $looks + 1 : 0;
        $ticks = $now;
        select undef, undef, undef, 0.02 if $looks < 10;
        return $looks == 10;
    }, 60);
}

# A copy of the sources (what git would track, built things left out) below
# the test's directory, to build or break.
sub copy_tree ($self, $name = 'tree') {
    my $tree = "$self->{dir}/$name";
    make_path($tree, { mode => 0755 });

    my $list = $self->run(['git', '-c', "safe.directory=$ROOT", '-C', $ROOT,
        qw(ls-files -z --cached --others --exclude-standard)]);
    my @files = $list->{status} == 0
        ? grep { -e "$ROOT/$_" } split /\0/, $list->{out}
        : split /\0/, $self->run(['sh', '-c', "cd $ROOT && find . -type f "
              . "! -path './objs*' ! -path './.git/*' ! -name Makefile "
              . '-print0'])->{out};

    my $copied = $self->run(['sh', '-c', "cd $ROOT && tar --null -T - -cf - "
        . "| tar -C $tree --no-same-owner -xf -"],
        stdin => join('', map { "$_\0" } @files));
    die "copying the tree: $copied->{err}" if $copied->{status} != 0;

    return $tree;
}


# Users

# An ordinary user for this test: when the test is root's, an id that nobody
# has; else the user who runs it (undef: no change is needed).
sub user ($self) {
    return undef unless is_root();
    return $self->{user} //= 200000 + $$ % 100000;
}

# Gives a path below the test's directory to the ordinary user.
sub give ($self, $path, $uid = $self->user) {
    return $path unless defined $uid;
    system('chown', '-R', "$uid:$uid", $path) == 0 or die "chown $path\n";
    return $path;
}

# The command line that runs a command as this user.
sub as_user ($self, $uid, @command) {
    return @command unless defined $uid && is_root();
    return ('setpriv', "--reuid=$uid", "--regid=$uid", '--clear-groups',
            '--', @command);
}

# A copy of a built file where that user can read it, when the tree is one
# that only root can enter.
sub reachable ($self, $path, $uid) {
    return $path unless defined $uid && is_root();

    return $self->{reachable}{$path} //= do {
        my @try = $self->as_user($uid, 'test', '-r', $path);
        if (system(@try) == 0) {
            $path;
        } else {
            my $copy = "$self->{dir}/" . ($path =~ s{.*/}{}r);
            system('cp', $path, $copy) == 0 or die "cp $path\n";
            chmod 0755, $copy;
            $copy;
        }
    };
}


# Sanitizers

sub sanitizer_env ($self, $leaks = 0) {
    return () unless $self->{sanitize};

    my $at = "log_path=$self->{dir}/reports/report";
    return (
        ASAN_OPTIONS  => "detect_odr_violation=0:detect_leaks=$leaks:$at",
        UBSAN_OPTIONS => "print_stacktrace=1:$at",
        LSAN_OPTIONS  => $at,
    );
}

# nginx itself is not built with the sanitizers, so their runtime must be
# there before the module is.
sub nginx_env ($self) {
    return () unless $self->{sanitize};

    state $libasan = do {
        chomp(my $path = `cc -print-file-name=libasan.so`);
        abs_path($path);
    };

    return ($self->sanitizer_env, LD_PRELOAD => $libasan);
}

# UBSan beside a preloaded ASan writes to stderr whatever log_path says, and
# that is nginx's error log.
sub sanitizer_reports ($self) {
    my @reports = map { $self->read($_) } glob "$self->{dir}/reports/*";
    push @reports, map { /^(.*runtime error: .*(?:\n +#.*)*)/mg }
                   map { $self->read($_) }
                   glob "$self->{dir}/*/error.log $self->{dir}/*/stderr.log";
    return grep { /\S/ } @reports;
}


# Processes

# Runs a command to its end: { status, signal, out, err, seconds }.
#   stdin => text, env => {NAME => VALUE} (added), clean_env => 1,
#   user => uid, cwd => dir, timeout => seconds
sub run ($self, $command, %opt) {
    my $start = time;
    my $child = $self->spawn($command, %opt, pipes => 1);
    my ($out, $err) = ('', '');
    my $end = time + ($opt{timeout} // 120);
    my $select = IO::Select->new($child->{out}, $child->{err});
    my $input = $opt{stdin} // '';

    if (length $input) {
        $child->{in}->blocking(0);
    } else {
        close $child->{in};
        delete $child->{in};
    }

    while ($select->count) {
        my $left = $end - time;
        if ($left <= 0) {
            kill 'KILL', $child->{pid};
            $err .= "\n[killed by the test after its timeout]\n";
            last;
        }

        if ($child->{in}) {
            my $n = syswrite $child->{in}, $input, 65536;
            substr($input, 0, $n) = '' if $n;
            if ($input eq '' || (!defined $n && !$!{EAGAIN})) {
                close $child->{in};
                delete $child->{in};
            }
            $left = 0.01 if $left > 0.01;
        }

        for my $f ($select->can_read($left)) {
            my $n = sysread $f, my $data, 65536;
            if (!$n) {
                $select->remove($f);
                next;
            }
            ($f == $child->{out} ? $out : $err) .= $data;
        }
    }

    waitpid $child->{pid}, 0;
    my $status = $?;
    delete $self->{pids}{ $child->{pid} };

    return {
        status  => $status & 127 ? undef : $status >> 8,
        signal  => $status & 127,
        out     => $out,
        err     => $err,
        seconds => time - $start,
    };
}

# Starts a command: { pid, in, out, err } (with pipes => 1), or its output in
# the file log.  It is killed when the test ends.
sub spawn ($self, $command, %opt) {
    my ($in_r, $in_w, $out_r, $out_w, $err_r, $err_w);

    pipe $in_r, $in_w or die "pipe: $!";
    if ($opt{pipes}) {
        pipe $out_r, $out_w or die "pipe: $!";
        pipe $err_r, $err_w or die "pipe: $!";
    }

    my @command = $self->as_user($opt{user}, @$command);
    my $pid = fork // die "fork: $!";

    if ($pid == 0) {
        POSIX::dup2(fileno $in_r, 0);
        if ($opt{pipes}) {
            POSIX::dup2(fileno $out_w, 1);
            POSIX::dup2(fileno $err_w, 2);
        } elsif ($opt{log}) {
            open my $log, '>>', $opt{log} or POSIX::_exit(126);
            POSIX::dup2(fileno $log, 1);
            POSIX::dup2(fileno $log, 2);
        }
        $SIG{PIPE} = 'DEFAULT';
        %ENV = (PATH => $ENV{PATH}) if $opt{clean_env};
        $ENV{$_} = $opt{env}{$_} for keys %{ $opt{env} // {} };
        chdir $opt{cwd} if $opt{cwd};
        { no warnings; exec { $command[0] } @command; }
        print STDERR "$command[0]: $!\n";
        POSIX::_exit(127);
    }

    $_->blocking(1) for grep { defined } $out_r, $err_r;

    my $child = { pid => $pid, in => $in_w, out => $out_r, err => $err_r };
    Scalar::Util::weaken($self->{pids}{$pid} = $child);

    return $child;
}

sub forget ($self, $pid) { delete $self->{pids}{$pid} }


# The launcher.  jail(\@args, %opt of run): run's result with `json`, the one
# object on stdout (undef when there is none).
sub jail ($self, $args, %opt) {
    my $path = $self->reachable("$self->{objs}/jail", $opt{user});
    $opt{env} = { $self->sanitizer_env(0), %{ $opt{env} // {} } };

    my $run = $self->run([$path, @$args], %opt);
    $run->{json} = eval { $json->decode($run->{out}) };
    return $run;
}

sub jail_path   ($self) { return "$self->{objs}/jail" }
sub module_path ($self) { return "$self->{objs}/ngx_agent_broker_module.so" }


# Certificates: P-256, made by openssl, signed by the test's own authority.

sub openssl ($self, @args) {
    my $run = $self->run(['openssl', @args]);
    die "openssl @args: $run->{err}" if $run->{status} != 0;
    return $run->{out};
}

# { cert, key } of an authority; `name` makes others than the test's own.
sub ca ($self, $name = 'ca') {
    return $self->{ca}{$name} //= do {
        my ($cert, $key) = map { "$self->{dir}/$name.$_" } qw(crt key);
        $self->openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt',
            'ec_paramgen_curve:P-256', '-nodes', '-days', 30,
            '-subj', "/CN=Test authority $name",
            '-addext', 'basicConstraints=critical,CA:TRUE',
            '-addext', 'keyUsage=critical,keyCertSign,cRLSign',
            '-keyout', $key, '-out', $cert);
        { cert => $cert, key => $key };
    };
}

# { cert, key } for these names (DNS names or IP addresses).
#   ca => 'other' (another authority), days => -1 (expired)
sub cert ($self, $names, %opt) {
    my $ca = $self->ca($opt{ca} // 'ca');
    my $n = ++$self->{certs};
    my ($cert, $key, $csr, $ext)
        = map { "$self->{dir}/leaf$n.$_" } qw(crt key csr ext);

    my $alt = join ',', map {
        (/^[\d.]+$/ || /:/ ? 'IP:' : 'DNS:') . $_
    } @$names;

    $self->write($ext, "subjectAltName=$alt\n"
                       . "basicConstraints=CA:FALSE\n"
                       . "extendedKeyUsage=serverAuth\n");
    $self->openssl('req', '-new', '-newkey', 'ec', '-pkeyopt',
        'ec_paramgen_curve:P-256', '-nodes', '-subj', "/CN=test leaf $n",
        '-keyout', $key, '-out', $csr);
    $self->openssl('x509', '-req', '-in', $csr, '-CA', $ca->{cert},
        '-CAkey', $ca->{key}, '-CAcreateserial', '-days', $opt{days} // 7,
        '-extfile', $ext, '-out', $cert);

    return { cert => $cert, key => $key };
}

# { cert, key } of an authority that is valid between two times, written as
# 20300131235959Z.
sub authority ($self, $from, $to) {
    my $dir = "$self->{dir}/authority" . ++$self->{authorities};
    $self->write("$dir/index.txt", '');
    $self->write("$dir/conf", <<"END");
[ca]
default_ca = own
[own]
database = $dir/index.txt
new_certs_dir = $dir
rand_serial = yes
default_md = sha256
policy = names
x509_extensions = authority
[names]
commonName = supplied
[authority]
basicConstraints = critical,CA:TRUE,pathlen:0
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
END
    $self->openssl('req', '-new', '-newkey', 'ec', '-pkeyopt',
        'ec_paramgen_curve:P-256', '-nodes', '-subj', '/CN=Boxes authority',
        '-keyout', "$dir/key", '-out', "$dir/csr");
    $self->openssl('ca', '-batch', '-notext', '-selfsign', '-config',
        "$dir/conf", '-in', "$dir/csr", '-keyfile', "$dir/key",
        '-startdate', $from, '-enddate', $to, '-out', "$dir/cert");
    return { cert => "$dir/cert", key => "$dir/key" };
}


# A helper server of t/lib: prints its port, ends with its stdin.
sub helper ($self, $script, @args) {
    my %opt = ref $args[-1] ? %{ pop @args } : ();
    my $path = $self->reachable("$LIB/$script", $opt{user});
    my $child = $self->spawn(['/usr/bin/python3', $path, @args],
                             %opt, pipes => 1);
    my $port = readline $child->{out};

    if (!defined $port) {
        my $err = do { local $/; readline $child->{err} };
        die "$script did not start: $err\n";
    }

    chomp $port;
    return { %$child, port => $port, test => $self };
}

# The upstream: { port } and ->events, ->requests.
#   names => [...] for its certificate, cert => {cert,key},
#   sni => { name => {cert,key} }, plain => 1, no_keepalive => 1, bind => addr,
#   keep => seconds (61; 0: its answers do not tell how long it keeps them),
#   port => n, tls_max => '1.2', watch => file, watch_for => text (both: each
#   accept event has `watched`, how often the text was in the file then)
sub upstream ($self, %opt) {
    my $log = "$self->{dir}/upstream" . ++$self->{upstreams} . '.log';
    my @args = ('--log', $log);

    if ($opt{plain}) {
        push @args, '--plain';
    } else {
        my $pair = $opt{cert} // $self->cert($opt{names} // ['localhost']);
        push @args, '--cert', $pair->{cert}, '--key', $pair->{key};
        for my $name (sort keys %{ $opt{sni} // {} }) {
            push @args, '--sni', "$name=$opt{sni}{$name}{cert},"
                                 . $opt{sni}{$name}{key};
        }
    }

    push @args, '--no-keepalive' if $opt{no_keepalive};
    for my $name (qw(bind port keep tls_max watch watch_for)) {
        push @args, '--' . ($name =~ tr/_/-/r), $opt{$name}
            if defined $opt{$name};
    }

    my $server = $self->helper('upstream.py', @args);
    $server->{log} = $log;
    return bless $server, 'AgentTest::Upstream';
}

# The DNS server: { port } and ->set(records), ->questions.  watch => FILE,
# watch_for => TEXT: as dns.py says
sub dns ($self, $records = {}, %opt) {
    my $n = ++$self->{dnses};
    my $file = $self->write("dns$n.json", $json->encode($records));
    my $log = "$self->{dir}/dns$n.log";
    my @watch = $opt{watch}
        ? ('--watch', $opt{watch}, '--watch-for', $opt{watch_for}) : ();
    my $server = $self->helper('dns.py', '--records', $file, '--log', $log,
                               @watch);
    $server->{log} = $log;
    $server->{file} = $file;
    return bless $server, 'AgentTest::Dns';
}

# A launcher driven by hand (launcher.py tells what it can do):
#   $l->do(connect => { name => 'a', path => $b->control });
#   my $answer = $l->do(receive => { name => 'a' });
#   user => uid runs it as that user
sub launcher ($self, %opt) {
    return bless $self->helper('launcher.py', \%opt), 'AgentTest::Launcher';
}


# nginx

# The configuration text around a test's http block.  In `main` and `http`
# the words %DIR% and %CONTROL% stand for the prefix and the control socket.
sub nginx_conf ($self, $prefix, %opt) {
    my $module = $opt{module} // $self->module_path;
    $module = $self->reachable($module, $opt{user}) if $module;

    my $user = is_root() && !defined $opt{user}
             ? 'user ' . ($opt{worker_user} // 'nobody nogroup') . ';' : '';
    my $load = $module ? "load_module $module;" : '';
    my $workers = $opt{workers} // 1;
    my $level = $opt{log_level} // 'info';
    my $main = $opt{main} // '';
    my $http = defined $opt{policy} ? $self->policy_http(%opt)
             : $opt{http} // '';

    for ($main, $http) {
        s/%DIR%/$prefix/g;
        s/%CONTROL%/$prefix\/run\/control.sock/g;
        s{\Q$ROOT\E/(conf/[\w./-]+\.conf)}
         {$self->reachable("$ROOT/$1", $opt{user})}ge;
    }

    return <<"END";
daemon off;
worker_processes $workers;
pid $prefix/nginx.pid;
error_log $prefix/error.log $level;
lock_file $prefix/nginx.lock;
$load
$user
$main
events { worker_connections @{[$opt{connections} // 512]}; }
http {
    client_body_temp_path $prefix/temp/body;
    proxy_temp_path       $prefix/temp/proxy;
    fastcgi_temp_path     $prefix/temp/fastcgi;
    uwsgi_temp_path       $prefix/temp/uwsgi;
    scgi_temp_path        $prefix/temp/scgi;
    access_log            off;
$http
}
END
}

# The http block of a broker with these policies: see broker.
sub policy_http ($self, %opt) {
    my $policy = $opt{policy} =~ /^\s*agent_policy\b/ ? $opt{policy}
               : "agent_policy analysis {\n$opt{policy}\n}";
    my $resolver = $opt{dns} ? "resolver 127.0.0.1:$opt{dns}{port};" : '';
    my $vault = $opt{vault} ? "agent_vault $opt{vault};" : '';
    my $proxy = $opt{proxy} // "$ROOT/conf/agent_proxy.conf";

    return <<"END";
$resolver
$vault
agent_audit @{[ $opt{audit_path} // 'logs/agent-audit.log' ]};
@{[ $opt{http} // '' ]}
$policy
server {
    agent_control unix:%CONTROL%;
    @{[ $opt{server} // '' ]}
    include $proxy;
}
END
}

# The text of a rule: it opens loopback and trusts the test's authority.
sub rule ($self, $more = '') {
    return "private 127.0.0.0/8; trusted_certificate "
           . $self->ca->{cert} . "; $more";
}

sub nginx_prefix ($self, %opt) {
    my $prefix = $opt{prefix} // "$self->{dir}/broker" . ++$self->{brokers};
    make_path("$prefix/$_", { mode => 0755 }) for qw(run logs temp);
    return $prefix;
}

sub nginx_binary {
    return $ENV{AGENT_TEST_NGINX} // '/usr/sbin/nginx';
}

# An nginx that has 64 KiB at this directory, which no other process sees: for
# $ENV{AGENT_TEST_NGINX}, as root.
sub nginx_on_small_disk ($self, $dir) {
    mkdir $dir;
    return $self->write('nginx-on-small-disk', <<"END", 0755);
#!/bin/sh
exec unshare -m sh -c 'mount -t tmpfs -o size=64k,mode=755 none $dir &&
    exec @{[ nginx_binary() ]} "\$@"' nginx "\$@"
END
}

sub nginx_command ($self, $prefix, @args) {
    return (nginx_binary(), '-p', "$prefix/", '-c', "$prefix/nginx.conf",
            '-e', "$prefix/error.log", @args);
}

# nginx -t of such a configuration: (is it accepted, what nginx said).
sub nginx_t ($self, %opt) {
    my $prefix = $self->nginx_prefix(%opt);
    $self->write("$prefix/nginx.conf", $self->nginx_conf($prefix, %opt));
    $self->give($prefix, $opt{user}) if defined $opt{user};
    my $run = $self->run([$self->nginx_command($prefix, '-t')],
                         env => { $self->nginx_env }, user => $opt{user});
    return ($run->{status} == 0, $run->{err} . $run->{out});
}

# A running nginx; see AgentTest::Broker for what it can do.
#   policy => text: policies, or the rules of one called "analysis"; around
#   them stand the audit, the server with its control socket, and
#     names => [..] a DNS server ($b->{dns}) that has them at 127.0.0.1, or
#     dns => $dns, vault => "name = value\n", http => text before the policies,
#     server => text in the server, proxy => path of another agent_proxy.conf,
#     audit_path => path
#   http => text (without policy: all of the http block), main => text,
#   workers => n, user => uid (all of it runs as
#   that user), worker_user => 'name group', log_level, connections, prefix,
#   listen => port (also wait until this TCP port answers), module => path
#   ('' loads none), env => {}
sub broker ($self, %opt) {
    my $prefix = $self->nginx_prefix(%opt);

    $opt{dns} = $self->dns({ map { $_ => { A => ['127.0.0.1'] } }
                             @{ $opt{names} } }) if $opt{names};
    $opt{vault} = $self->write("vault" . ++$self->{vaults}, $opt{vault}, 0600)
        if defined $opt{vault} && $opt{vault} !~ m{^/};

    my $broker = bless { test => $self, prefix => $prefix, opt => \%opt,
                         dns => $opt{dns} }, 'AgentTest::Broker';
    $broker->start;
    push @{ $self->{brokers_live} }, $broker;
    return $broker;
}


# The end

sub finish ($self) {
    return if $self->{finished}++;

    for my $broker (@{ delete $self->{brokers_live} // [] }) {
        eval { $broker->stop };
    }

    for my $pid (keys %{ $self->{pids} // {} }) {
        kill 'KILL', $pid;
        waitpid $pid, 0;
    }

    my @reports = $self->sanitizer_reports;
    if (@reports) {
        Test::More::diag("a sanitizer reported:\n", @reports);
        $self->{failed} = 1;
    }

    if ($ENV{AGENT_TEST_KEEP}) {
        Test::More::diag("kept $self->{dir}");
    } else {
        remove_tree($self->{dir}, { safe => 0 });
    }

    return !@reports;
}

sub DESTROY ($self) {
    return if $self->{owner} != $$;
    local ($?, $@, $!);
    delete $live{$self};
    $self->finish;
    $AgentTest::failed = 1 if $self->{failed};
}

our $failed = 0;

END {
    my $status = $?;
    for my $self (grep { defined } values %live) {
        next if $self->{owner} != $$;
        $self->finish;
        $failed = 1 if $self->{failed};
    }
    $? = $failed && !$status ? 254 : $status;
}


package AgentTest::Server;

use v5.36;

sub port ($self) { return $self->{port} }

sub stop ($self) {
    my $pid = $self->{pid};
    close $self->{in} if $self->{in};
    waitpid $pid, 0;
    $self->{test}->forget($pid);
}


package AgentTest::Upstream;

use v5.36;
use MIME::Base64 ();

our @ISA = ('AgentTest::Server');

sub events ($self, $kind = undef) {
    my @events = $self->{test}->read_lines($self->{log});
    return grep { !$kind || $_->{event} eq $kind } @events;
}

# Every request that arrived: method, target, sni, tls, conn, head (raw
# bytes), body (raw), headers (hash of lists by lower-case name).
sub requests ($self) {
    my @requests = $self->events('request');
    for my $r (@requests) {
        my %by_name;
        push @{ $by_name{ lc $_->[0] } }, $_->[1] for @{ $r->{headers} };
        $r->{headers} = \%by_name;
        $r->{$_} = MIME::Base64::decode_base64($r->{$_}) for qw(head body);
    }
    return @requests;
}

# Was anything dialled at all?
sub connections ($self) { return scalar $self->events('accept') }


package AgentTest::Dns;

use v5.36;

our @ISA = ('AgentTest::Server');

sub set ($self, $records) {
    $self->{test}->write($self->{file}, JSON::PP->new->utf8->encode($records));
}

sub questions ($self, $name = undef) {
    return grep { !defined $name || lc $_->{name} eq $name }
           $self->{test}->read_lines($self->{log});
}


package AgentTest::Launcher;

use v5.36;

our @ISA = ('AgentTest::Server');

my $codec = JSON::PP->new->utf8->canonical;

# One command; its answer as a hash.  `data` is given and returned raw.
sub do ($self, $what, $args = {}) {
    my %command = (%$args, do => $what);
    $command{data} = MIME::Base64::encode_base64($command{data}, '')
        if defined $command{data};

    syswrite $self->{in}, $codec->encode(\%command) . "\n";
    my $line = readline $self->{out};
    die "the launcher ended\n" unless defined $line;

    my $answer = $codec->decode($line);
    $answer->{data} = MIME::Base64::decode_base64($answer->{data})
        if defined $answer->{data};
    return $answer;
}

# A message and the reply to it.
sub ask ($self, $name, $message, %opt) {
    my $sent = $opt{kinds}
        ? $self->do(descriptors => { name => $name, message => $message,
                                     kinds => $opt{kinds} })
        : $self->do(send => { name => $name, message => $message });
    return $sent if $sent->{error};
    my $got = $self->do(receive => { name => $name,
                                     timeout => $opt{timeout} // 60 });
    return $got->{message} // $got;
}

# Opens a task and serves its proxy door; the reply to `open`, with `lease`.
sub open_task ($self, $control, $policy, %opt) {
    my $name = $opt{name} // 'task';
    my $connected = $self->do(connect => { name => $name, path => $control });
    die $connected->{error} if $connected->{error};

    my $reply = $self->ask($name, { v => 1, op => 'open', policy => $policy,
                                    %{ $opt{open} // {} } });
    return $reply unless $reply->{ok};

    # a socket for each door, of the kind that its name says
    my $served = $self->ask($name, { op => 'serve' }, kinds => [map {
        { ($_->{name} =~ /-udp$/ ? 'udp' : 'listen') => $_->{port} }
    } @{ $reply->{doors} }]);
    return $served unless $served->{ok};

    return { %$reply, lease => $served->{lease} };
}

# One HTTP exchange from inside the box: { status, headers, body, raw, eof }.
sub http ($self, $raw, %opt) {
    my $got = $self->do(exchange => { port => 8899, timeout => 60, %opt,
                                      data => $raw });
    die $got->{error} if $got->{error};

    my ($head, $body) = split /\r\n\r\n/, $got->{data}, 2;
    my ($first, @lines) = split /\r\n/, $head // '';
    my %headers;
    for (@lines) {
        my ($key, $value) = /^([^:]+):\s*(.*)/ or next;
        push @{ $headers{ lc $key } }, $value;
    }

    return {
        status  => ($first // '') =~ m{^HTTP/1\.[01] (\d+)} ? $1 : undef,
        headers => \%headers,
        body    => $body,
        raw     => $got->{data},
        eof     => $got->{eof},
    };
}

# GET (or another method) by absolute-form, with no more than it needs.
sub get ($self, $url, %opt) {
    my ($host) = $url =~ m{^\w+://([^/]*)};
    my $method = delete $opt{method} // 'GET';
    my $headers = delete $opt{headers} // [];
    my $body = delete $opt{body};
    my @lines = ("$method $url HTTP/1.1", "Host: $host",
                 'Connection: close', @$headers);
    push @lines, 'Content-Length: ' . length $body if defined $body;
    return $self->http(join('', map { "$_\r\n" } @lines, '')
                       . ($body // ''), %opt);
}


package AgentTest::Broker;

use v5.36;

sub prefix    ($self) { return $self->{prefix} }
sub control   ($self) { return "$self->{prefix}/run/control.sock" }
sub master    ($self) { return $self->{pid} }
sub error_log ($self) { return $self->{test}->read("$self->{prefix}/error.log") }

sub configure ($self, %change) {
    my $test = $self->{test};
    $self->{opt} = { %{ $self->{opt} }, %change };
    $test->write("$self->{prefix}/nginx.conf",
                 $test->nginx_conf($self->{prefix}, %{ $self->{opt} }));
}

sub start ($self) {
    my $test = $self->{test};
    my $opt = $self->{opt};

    $self->configure;
    unlink $self->control, "$self->{prefix}/nginx.pid";

    if (defined $opt->{user}) {
        $test->give($self->{prefix}, $opt->{user});
    } elsif (AgentTest::is_root()) {
        # of the directories nginx keeps its temporary files in
        chmod 0755, $self->{prefix};
    }

    my $child = $test->spawn(
        [$test->nginx_command($self->{prefix})],
        env => { $test->nginx_env, %{ $opt->{env} // {} } },
        user => $opt->{user}, log => "$self->{prefix}/stderr.log");
    $self->{pid} = $child->{pid};
    $self->{in} = $child->{in};

    # nginx binds its sockets first, and writes its pid then: after that a
    # connection waits in the queue even when no worker runs yet
    AgentTest::wait_for('nginx to start', sub {
        if (waitpid($self->{pid}, POSIX::WNOHANG()) == $self->{pid}) {
            $test->forget($self->{pid});
            die "nginx did not start:\n" . $self->start_errors . "\n";
        }
        return $test->read("$self->{prefix}/nginx.pid") =~ /^\d+\n/;
    });

    AgentTest::wait_for('workers', sub {
        return $self->workers >= ($opt->{workers} // 1);
    });

    if ($opt->{listen}) {
        AgentTest::wait_for("port $opt->{listen}", sub {
            return IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                         PeerPort => $opt->{listen});
        });
    }

    return $self;
}

sub start_errors ($self) {
    my $test = $self->{test};
    return $test->read("$self->{prefix}/stderr.log") . $self->error_log;
}

# The pids of the workers that take new connections: a worker has its title
# once its start is complete, and changes it when it is told to leave.
sub workers ($self) {
    return $self->processes(qr/^nginx: worker process$/);
}

# Kills a worker that is picked by chance: its pid, once another one is there.
sub kill_worker ($self) {
    my @workers = $self->workers;
    my $victim = $workers[rand @workers];
    kill 'KILL', $victim;
    AgentTest::wait_for('another worker', sub {
        my @now = $self->workers;
        return @now == @workers && !grep { $_ == $victim } @now;
    });
    return $victim;
}

sub leaving ($self) {
    return $self->processes(qr/^nginx: worker process is shutting down$/);
}

sub processes ($self, $title) {
    my @pids;
    opendir my $proc, '/proc' or die "/proc: $!";
    for my $pid (sort { $a <=> $b } grep { /^\d+$/ } readdir $proc) {
        my $stat = $self->{test}->read("/proc/$pid/stat");
        next unless $stat =~ /\) \S (\d+) / && $1 == $self->{pid};
        my ($line) = split /\0/, $self->{test}->read("/proc/$pid/cmdline");
        push @pids, $pid if ($line // '') =~ s/\s+$//r =~ $title;
    }
    return @pids;
}

# Takes new options of nginx_conf, and returns when the new workers serve and
# no old one does.  A refused configuration: false, and the old one goes on.
sub reload ($self, %change) {
    my $test = $self->{test};
    my %old = map { $_ => 1 } $self->workers;
    my $logged = length $self->error_log;

    $self->configure(%change);
    kill 'HUP', $self->{pid};

    my $wanted = $self->{opt}{workers} // 1;
    my $ok;

    AgentTest::wait_for('the reload', sub {
        my $said = substr $self->error_log, $logged;
        if ($said =~ /\[emerg\]/) {
            $ok = 0;
            return 1;
        }
        my @now = $self->workers;
        return 0 if grep { $old{$_} } @now;
        return 0 if @now < $wanted;
        $ok = 1;
        return 1;
    });

    return $ok;
}

sub signal ($self, $name) { kill $name, $self->{pid} }

# Ends at once (TERM); quit lets the workers finish what they do (QUIT).
sub stop ($self) { $self->end('TERM') }
sub quit ($self) { $self->end('QUIT') }

sub end ($self, $signal) {
    my $pid = delete $self->{pid} or return;

    # the workers are not ours to wait for: should the master be gone without
    # them, they are ended by their pids
    local $self->{pid} = $pid;
    my @workers = ($self->workers, $self->leaving);
    delete $self->{pid};

    kill $signal, $pid;
    my $status;
    my $gone = eval {
        AgentTest::wait_for('nginx to end', sub {
            my $got = waitpid($pid, POSIX::WNOHANG());
            $status = $? if $got == $pid;
            return $got != 0;
        });
    };
    kill 'KILL', $pid, @workers unless $gone;
    waitpid $pid, 0 unless $gone;
    $self->{test}->forget($pid);
    return $status;
}

# The audit: every line decoded.  audit('egress', host => 'x') filters.
sub audit ($self, $event = undef, %match) {
    my $file = $self->{opt}{audit} // "$self->{prefix}/logs/agent-audit.log";
    my @found = grep {
        my $line = $_;
        (!defined $event || ($line->{event} // '') eq $event)
            && !grep { ($line->{$_} // '') ne $match{$_} } keys %match;
    } @{ $self->{test}->lines_of($file) };

    return wantarray ? map({ { %$_ } } @found) : scalar @found;
}

# What is wrong with the audit as a whole, all its files in their order: lines
# that are no JSON, do not fit the schema or are too long, and gaps in a
# writer's numbers.
sub audit_errors ($self, @files) {
    @files = $self->{opt}{audit} // "$self->{prefix}/logs/agent-audit.log"
        unless @files;
    my $schema = AgentSchema::load("$AgentTest::ROOT/conf/audit.schema.json");
    my (@errors, %seq);

    for my $text (map { split /(?<=\n)/, $self->{test}->read($_) } @files) {
        # what follows a writer that was killed begins on a new line
        next if $text eq "\n";

        my $line = eval { $json->decode($text) };
        if (!$line) {
            push @errors, "not JSON: $text";
            next;
        }
        push @errors, map { "$_: $text" } AgentSchema::errors($schema, $line);
        push @errors, "too long: $text" if length $text > 4096;
        push @errors, "not printable ASCII: $text"
            if $text =~ /[^\x20-\x7e\n]/;
        push @errors, "a gap before: $text"
            if $line->{seq} != ++$seq{ $line->{writer} };
    }

    return @errors;
}

# A launcher whose task of this policy is opened and served, and the task:
#   my ($l, $task) = $b->task('analysis');
sub task ($self, $policy = 'analysis', %opt) {
    my $l = $self->{test}->launcher(%opt);
    my $task = $l->open_task($self->control, $policy);
    die "a task of $policy: $task->{error} $task->{message}\n"
        unless $task->{ok};
    return ($l, $task);
}

# The end of a test: nothing went wrong that no assertion looks for.
#   level => qr/alert|emerg/ (default: crit, too), ignore => qr/lines/,
#   audit => 0 where the audit is too long to be read
sub is_clean ($self, %opt) {
    my $level = $opt{level} // qr/alert|emerg|crit/;
    my @wrong = grep { /\[(?:$level)\]/ } split /^/m, $self->error_log;
    @wrong = grep { $_ !~ $opt{ignore} } @wrong if $opt{ignore};

    Test::More::is_deeply([$self->audit_errors], [],
        'every line of the audit is whole, fits the schema and follows in '
        . 'number') if $opt{audit} // 1;
    Test::More::is(join('', @wrong), '',
        'nginx logged nothing at a level that calls for the operator');
}

# Waits until such a line is there; the newest one.
sub audit_wait ($self, $event, %match) {
    my @lines;
    AgentTest::wait_for("the audit line $event " . join(' ', %match), sub {
        @lines = $self->audit($event, %match);
        return scalar @lines;
    });
    return $lines[-1];
}

1;
