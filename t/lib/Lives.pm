package Lives;

# Boxes whose connections live and die in every way (t/lib/sequences.py), with
# a broker and the upstreams that they need.
#
#   my $lives = Lives->new($t, log_level => 'error');    # for $t->broker
#   my $b     = $lives->{broker};
#   my ($box) = $lives->start(1);               # what AgentTest::spawn gives
#   syswrite $box->{in}, "probe 8\n";           # {out} has "done\n" then

use v5.36;

use AgentTest;

our $AT_ONCE = 16;                      # `connections` of the policy

sub new ($class, $t, %opt) {
    my $up = $t->spawn(['/usr/bin/python3',
                        "$AgentTest::LIB/failing_upstream.py", '--quiet'],
                       pipes => 1);
    chomp(my $port = readline($up->{out}) // die "no upstream\n");
    my $tls = $t->upstream(names => ['tls.test', 'tunnel.test']);
    my $dns = $t->dns({ map({ ("$_.test" => { A => ['127.0.0.1'], ttl => 2 }) }
                            qw(plain tls tunnel *.wild)),
                        'mute.test' => { drop => JSON::PP::true } });
    my $rule = $t->rule;
    my $b = $t->broker(
        dns => $dns, workers => 2, vault => "api = sk_0123456789abcdef\n",
        http => "client_header_timeout 2s; client_body_timeout 2s;\n",
        %opt, policy => <<"END_OF_POLICY");
    agent_policy analysis {
        wall_clock 1h;  cpu_time 1h;
        launchers  user:$>;
        requests 100000000;  refusals 100000000;  audit_budget 100000000 4g;
        names 10000000;  bytes_up 100g;  bytes_down 100g;  mints 1000000;
        connections $AT_ONCE;  handshakes 1000;
        host plain.test:$port  { methods GET POST; websocket on; plaintext on;
                                 private 127.0.0.0/8; }
        host *.wild.test:$port { plaintext on; private 127.0.0.0/8; }
        host mute.test:$port   { plaintext on; private 127.0.0.0/8; }
        host gone.test:$port   { plaintext on; private 127.0.0.0/8; }
        host tls.test:$tls->{port} { methods GET POST; bearer api; $rule }
        host tunnel.test:$tls->{port} { tunnel on; private 127.0.0.0/8; }
    }
END_OF_POLICY

    # held, as an upstream whose pipe is closed ends
    return bless { t => $t, broker => $b, up => $up, tls => $tls, dns => $dns,
                   ports => [$port, $tls->{port}] }, $class;
}

# So many boxes.
sub start ($self, $count) {
    my $t = $self->{t};

    # the program is outside of every box: its text goes in as an argument
    my $program = $t->read("$AgentTest::LIB/sequences.py");

    return map {
        $t->spawn([$t->jail_path, 'run', '--control', $self->{broker}->control,
                   '--policy', 'analysis', '--stdin', '--raw', '--', 'python3',
                   '-c', $program, @{ $self->{ports} }], pipes => 1,
                  env => { $t->sanitizer_env(0) })
    } 1 .. $count;
}

# How many sockets a process has.
sub sockets ($pid) {
    return scalar grep { (readlink $_ // '') =~ /socket/ }
                  glob "/proc/$pid/fd/*";
}

1;
