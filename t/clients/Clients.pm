package Clients;

# Clients as they are, in a box: each is run once by each door, asks an
# allowed host and then another one, and is judged by what arrived, by its
# exit status and by the audit.
#
#   my $c = Clients->new(%policy_and_upstreams);
#   $c->client('F-025', 'curl', 'curl -sS "$1"');
#   $c->matrix;
#
# A client is a command of the shell's; $1 is the URL.  Its doors are `proxy`
# (the variables as every box has them) and `web` (without them: any address
# that the resolver gave leads to the broker).

use v5.36;

use AgentTest;
use Test::More;

our $TOKEN = 'sk_test_0123456789abcdef_marker';

# variables that name a proxy, to be taken out for the other door
my $unset = 'unset HTTP_PROXY http_proxy HTTPS_PROXY https_proxy '
          . 'NODE_USE_ENV_PROXY JAVA_TOOL_OPTIONS';

# vault     its text
# hosts     { name => text of its rule }
# port      of all of them
# readable  paths
sub new ($class, $t, %opt) {
    my $self = bless { t => $t, rows => [], %opt }, $class;
    my $cert = $t->ca->{cert};

    my $rules = join '', map { <<"END" } sort keys %{ $opt{hosts} };
        host $_:$opt{port} {
            private 127.0.0.0/8;
            trusted_certificate $cert;
            $opt{hosts}{$_}
        }
END
    my $readable = join '', map { "        readable $_;\n" }
                            @{ $opt{readable} // [] };
    $self->{broker} = $t->broker(names => [keys %{ $opt{hosts} }],
                                 vault => $opt{vault}, policy => <<"END");
    agent_policy clients {
        memory 1g;
        cpu 2;
        wall_clock 600s;
        output 100000;
$readable
$rules
    }
END
    $self->{dns} = $self->{broker}{dns};
    return $self;
}

sub box ($self, $script, @args) {
    my $code = $self->{t}->write('script.sh', $script);
    my $run = $self->{t}->jail(['run', '--policy', 'clients', '--control',
        $self->{broker}->control, '--code', $code,
        map({ ('--in', $_) } @{ $self->{in} // [] }), @args, '--', 'sh'],
        timeout => 660);
    diag 'no result: ', $run->{out}, $run->{err} if !$run->{json};
    return $run->{json};
}

# One client.  Options:
#   doors    those it can use; default both
#   why      what keeps it from the others, for the matrix
#   skip     a reason not to run it at all
#   setup    commands before it
#   url      of the allowed host; DOOR in it becomes the door's name
#   denied   the same for the other host
#   expect   what it must print
#   arrived  sub ($door) → true when what should have arrived did
sub client ($self, $case, $name, $command, %opt) {
    my %doors = map { $_ => 1 } @{ $opt{doors} // ['proxy', 'web'] };
    my %row = (name => $name);
    push @{ $self->{rows} }, \%row;

    SKIP: {
        if ($opt{skip}) {
            @row{qw(proxy web)} = ("skipped: $opt{skip}") x 2;
            skip "$name: $opt{skip}", 1;
        }

        for my $door ('proxy', 'web') {
            $row{$door} = $doors{$door}
                        ? $self->one($case, $name, $door, $command, %opt)
                        : $opt{why};
        }
    }
}

sub one ($self, $case, $name, $door, $command, %opt) {
    my $url = $opt{url} =~ s/DOOR/$door/gr;
    my $denied = ($opt{denied} // "https://evil.example:$self->{port}/$door")
               =~ s/DOOR/$door/gr;
    my $variables = $door eq 'web' ? $unset : ':';
    my $setup = $opt{setup} // ':';

    my $json = $self->box(<<"END", @{ $opt{args} // [] });
$variables
$setup
client() {
$command
}
(client '$url') > allowed 2>&1
echo "allowed=\$?"
from=\$(date +%s%3N)
(client '$denied') > denied 2>&1
echo "denied=\$?"
echo "ms=\$((\$(date +%s%3N) - from))"
echo ===allowed; cat allowed; echo
echo ===denied; cat denied
END

    my $out = $json->{stdout} // '';
    my ($allowed, $refused, $ms)
        = $out =~ /^allowed=(\d+)\ndenied=(\d+)\nms=(\d+)\n/;
    my ($said) = $out =~ /^===allowed\n(.*)^===denied/ms;
    my $task = $json->{task_id};
    my $expect = $opt{expect} // qr/"ok": ?true/;

    my @lines = grep { ($_->{host} // '') eq 'evil.example' }
                grep { ($_->{verdict} // '') eq 'denied' }
                $self->{broker}->audit(undef, task => $task // '');
    my ($ok, $not);

    subtest "$case F-040 $name by the $door door" => sub {
        $ok = ok(defined $allowed && $allowed == 0 && $said =~ $expect,
                 'the allowed host is reached');
        $ok &= ok($opt{arrived}->($door),
                  'the upstream has the request with its credential');
        $ok &= unlike($out . ($json->{stderr} // ''), qr/\Q$TOKEN/,
                      'the credential is not in the box');

        # one that hangs has no status: the box is ended first
        $not = ok(defined $refused && $refused != 0,
                  'the host that no rule names fails, and the client ends');
        $not &= ok(scalar @lines, 'the refusal is in the audit');
    };

    diag "$name by $door: ", $out, $json->{stderr} // '',
         explain($json->{error}, $json->{reason},
                 [map { "$_->{event} $_->{reason}" } @lines])
        if !$ok || !$not;

    return sprintf '%s, %s in %d ms (%s)', $ok ? 'reached' : 'FAILED',
                   $not ? 'refused' : 'NOT REFUSED', $ms // 0,
                   join ' ', do { my %s; grep { !$s{$_}++ }
                                  map { $_->{event} } @lines };
}

# The matrix, and what must hold of the whole.
sub matrix ($self) {
    my $format = '%-22s | %-42s | %s';
    note sprintf $format, 'client', 'proxy variables', 'web door and DNS';
    note sprintf $format, $_->{name}, $_->{proxy}, $_->{web}
        for @{ $self->{rows} };

    $self->{broker}->is_clean;
}

sub has ($program) {
    return scalar grep { -x "$_/$program" } qw(/usr/bin /bin /usr/local/bin);
}

1;
