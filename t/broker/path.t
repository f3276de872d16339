#!/usr/bin/perl

# `path`: what a rule's patterns allow, by every door and form, whatever the
# spelling; and what is refused since servers read it in different ways.
#
# sanitizers: paths of a box are decoded and compared with patterns

use v5.36;

use lib 't/lib';
use AgentTest;
use JSON::PP ();
use Test::More;

my $t   = AgentTest->new;
my $up  = $t->upstream(names => ['api.internal', 'any.internal',
                                 'ws.internal', 'slow.internal']);
my $dns = $t->dns({ 'slow.internal' => { drop => 1 },
                    map { $_ => { A => ['127.0.0.1'] } }
                    qw(api.internal any.internal ws.internal) });
my $port = $up->port;
my $rule = $t->rule;

sub policy ($slow) {
    return <<"END";
    host api.internal:$port {
        methods GET POST OPTIONS;
        path    ^/echo/v1/ "^/echo/u/[0-9]{1,3}\$";
        path    ^/echo\$ '^/echo/%C3%BC/';
        path    "^/echo/(?:a+)+!";
        hint    "start at /echo/v1/";
        $rule
    }
    host any.internal:$port { $rule }
    host ws.internal:$port { path ^/upgrade\$; websocket on; $rule }
    host slow.internal:$port { path $slow; $rule }
END
}

my $b = $t->broker(dns => $dns, http => 'resolver_timeout 60s;',
                   policy => policy('^/echo'));
my ($l, $task) = $b->task;
my $ca = $t->write('box-ca.pem', $task->{ca});
my $api = "api.internal:$port";

sub seen () { return map { $_->{target} } $up->requests }

# each way a request can come: the answer's status, and its body
my %ways = (
    'an http URL' => sub ($path, $method = 'GET') {
        my $r = $l->get("http://$api$path", method => $method);
        return ($r->{status}, $r->{body});
    },
    'an https URL' => sub ($path, $method = 'GET') {
        my $r = $l->get("https://$api$path", method => $method);
        return ($r->{status}, $r->{body});
    },
    'origin-form' => sub ($path, $method = 'GET') {
        my $r = $l->http("$method $path HTTP/1.1\r\nHost: $api\r\n"
                         . "Connection: close\r\n\r\n");
        return ($r->{status}, $r->{body});
    },
    'the web door' => sub ($path, $method = 'GET') {
        my $r = $l->http("$method $path HTTP/1.1\r\nHost: $api\r\n"
                         . "Connection: close\r\n\r\n", port => $port);
        return ($r->{status}, $r->{body});
    },
    'HTTP/1.0' => sub ($path, $method = 'GET') {
        my $r = $l->http("$method http://$api$path HTTP/1.0\r\n\r\n");
        return ($r->{status}, $r->{body});
    },
    map {
        my ($what, @how) = @$_;
        $what => sub ($path, $method = 'GET') {
            my $run = $l->do(run => { env => { PATH => $ENV{PATH} },
                argv => ['curl', '-sS', '--max-time', '60', '--path-as-is',
                         '-g', '-X', $method, '-w', '\n%{http_code}',
                         '--cacert', $ca, @how, "https://$api$path"] });
            my ($body, $status) = $run->{data} =~ /\A(.*)\n(\d+)\z/s;
            return ($status, $body);
        };
    } ['CONNECT and HTTP/1.1 over TLS', '--http1.1', '-x',
       'http://127.0.0.1:8899'],
      ['CONNECT and HTTP/2', '--http2', '-x', 'http://127.0.0.1:8899'],
      ['HTTP/2 at the web door', '--http2', '--noproxy', '*',
       '--connect-to', '::192.0.2.7:'],
);

my @good = ('/echo/v1/', '/echo/v1/x', '/echo/%761/', '/echo/v1/?a=/../b;//%2f',
            '/echo/u/17', '/echo', '/ech%6F', '/echo/%c3%bc/', '/echo/v1/...',
            '/echo/v1/a%20b%3Fc');

my @bad = ('/', '/echo/', '/echo/v1', '/echo/V1/', '/echo/u/1234', '/echo/u/',
           '/x/echo/v1/', '/echo/v1/../u', '/echo/v1/..', '/echo/v1/./x',
           '/echo/v1//x', '//echo/v1/', '/echo/v1/%2e%2e/x', '/echo/v1/.%2E/x',
           '/echo%2Fv1/', '/echo/v1/x%2fy', '/echo/v1/%252e', '/echo/v1/%5c..',
           '/echo/v1/x\\y', '/echo/v1/;x', '/echo/v1/x;a=b', '/echo/v1/%3bx',
           '/echo/v1/%0d%0aX:', '/echo/v1/%c0%ae%c0%ae/', '/echo/v1/%ff');

# what core's own parser refuses before there is a rule
my @malformed = ('/echo/v1/%00', '/echo/v1/%', '/echo/v1/%zz', '/../echo/v1/');

sub refused ($what, $status, $body, $reason = 'path_not_allowed') {
    is($status, 403, "$what is refused with 403") or diag $body;
    my $said = eval { JSON::PP::decode_json($body) } // {};
    is($said->{reason}, $reason, "$what: the reason is $reason");
    return $said;
}

for my $what (sort keys %ways) {
    my $ask = $ways{$what};
    my $full = $what eq 'an http URL' || $what eq 'CONNECT and HTTP/2';
    subtest "B-069 $what: a path is judged in one form, and sent as it came"
        => sub {
        my @paths = $full ? @good : @good[0, 2, 3];
        for my $path (@paths) {
            my ($status, $body) = $ask->($path);
            is($status, 200, "$path is allowed") or diag $body;
        }
        is_deeply([(seen())[-@paths .. -1]], \@paths,
                  'each goes up as it was written');

        my $before = () = seen();
        my $dials = $up->connections;
        for my $path ($full ? @bad : @bad[2, 7, 10, 11, 12, 14, 18, 20]) {
            refused($path, $ask->($path));
        }
        for my $path ($full ? @malformed : ()) {
            is(($ask->($path))[0], 400, "$path is malformed");
        }
        is(scalar(() = seen()), $before, 'nothing of the refused goes up');
        is($up->connections, $dials, 'nothing is dialled for the refused');
    };
}

subtest 'host, port, method and path are judged in that order' => sub {
    my $r = $l->get("http://$api/no", method => 'DELETE');
    refused('a method and a path', $r->{status}, $r->{body},
            'method_not_allowed');
    $r = $l->get('http://api.internal/no', method => 'DELETE');
    refused('a port and a path', $r->{status}, $r->{body}, 'port_not_allowed');
    $r = $l->get("http://$api/no", method => 'POST', body => 'x' x 1000);
    refused('a body and a path', $r->{status}, $r->{body});
};

subtest 'an empty path is "/", and OPTIONS * has none' => sub {
    my $r = $l->get("http://$api");
    refused('an empty path', $r->{status}, $r->{body});
    $r = $l->http("GET http://$api?/echo/v1/ HTTP/1.1\r\nHost: $api\r\n\r\n");
    refused('an empty path with a query', $r->{status}, $r->{body});
    $r = $l->http("OPTIONS * HTTP/1.1\r\nHost: $api\r\n"
                  . "Connection: close\r\n\r\n");
    is($r->{status}, 400, 'OPTIONS * is malformed');
};

subtest 'a refusal says which paths there are, and is on record' => sub {
    my $r = $l->get("http://$api/echo/v1/../secret?q=1");
    my $said = refused('a path', $r->{status}, $r->{body});
    is($said->{path}, '/echo/v1/../secret', 'the answer has the path');
    like($said->{hint}, qr{allowed paths: .* \^/echo/v1/; start at /echo/v1/},
         'the hint has the patterns, and the hint of the rule');
    like($said->{detail}, qr/"\.\." segment/, 'the detail says why');
    my ($line) = grep { ($_->{path} // '') eq '/echo/v1/../secret' }
                 $b->audit('egress');
    is($line->{verdict}, 'denied', 'the line has the verdict');
    is($line->{reason}, 'path_not_allowed', 'the line has the reason');
    is($line->{rule}, $api, 'the line has the rule');
};

subtest 'a rule without patterns takes every path' => sub {
    for my $path ('/echo/../x', '/echo//x', '/echo/%2e;%25\\') {
        my $r = $l->get("http://any.internal:$port$path");
        is($r->{status}, 200, "$path is allowed") or diag $r->{body};
        is((seen())[-1], $path, 'it goes up as it was written');
    }
};

subtest 'E-034 a pattern that would take years ends in a refusal' => sub {
    for my $n (30, 4000) {
        my $r = $l->get("http://$api/echo/" . 'a' x $n . 'X!');
        my $said = refused("$n bytes", $r->{status}, $r->{body});
        like($said->{detail}, qr/takes too long|no pattern/,
             'the detail says why');
    }
    my $r = $l->get("http://$api/echo/aaa!");
    is($r->{status}, 200, 'what the pattern was meant for is allowed');
    $r = $l->get("http://$api/echo/v1/" . 'a' x 4096);
    my $said = refused('a path of more than 4096 bytes', $r->{status},
                       $r->{body});
    like($said->{detail}, qr/longer than 4096/, 'the detail says why');
};

subtest 'a websocket has a path too' => sub {
    my $upgrade = sub ($path) {
        return $l->http("GET http://ws.internal:$port$path HTTP/1.1\r\n"
            . "Host: ws.internal:$port\r\nConnection: Upgrade\r\n"
            . "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            . "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            until => 'head', timeout => 2);
    };
    my $r = $upgrade->('/upgrade/x');
    refused('another path', $r->{status}, $r->{body});
    is($upgrade->('/upgrade')->{status}, 101, 'the path is upgraded');
};

subtest 'C-027 a request that waits is judged by the new patterns' => sub {
    my $before = () = seen();
    $l->do(open => { id => 'w', port => 8899 });
    $l->do(write => { id => 'w', data => "GET http://slow.internal:$port/echo "
        . "HTTP/1.1\r\nHost: slow.internal:$port\r\n\r\n" });
    AgentTest::wait_for('the question', sub {
        $dns->questions('slow.internal') });
    $b->configure(policy => policy('^/other'));
    $b->signal('HUP');
    $b->audit_wait('config', action => 'reload');
    $dns->set({ 'slow.internal' => { A => ['127.0.0.1'] } });
    my $text = '';
    AgentTest::wait_for('the answer', sub {
        my $got = $l->do(read => { id => 'w', timeout => 5 });
        $text .= $got->{data} // '';
        return $got->{eof} || $text =~ /\}/;
    });
    like($text, qr{\AHTTP/1\.1 503 .*"policy_changed"}s,
         'it is answered 503 with policy_changed');
    like($text, qr/"hint":"[^"]*judged by the new policy, which may refuse it"/,
         'its hint does not promise that the new policy allows it');
    is(scalar(() = seen()), $before, 'nothing of it goes up');
};

$b->is_clean;

done_testing;
