#!/usr/bin/perl

# What is in the broker's server, in its locations, and what they inherit
# from http is one list: anything else is refused by nginx -t, by name and line.

use v5.36;

use lib 't/lib';
use AgentTest;
use ConfCheck;
use Test::More;

my $t     = AgentTest->new;
my $proxy = "$AgentTest::ROOT/conf/agent_proxy.conf";
my $good  = $t->read($proxy);
my ($inner) = $good =~ /location \/ \{\n(.*)\n\}/s or die;
my ($outer) = $good =~ /^(.*)^location/ms;
my $prefix = check_in($t, around => sub ($http) {
    return "agent_audit logs/agent-audit.log;\nagent_policy a { }\n$http\n";
});
my $cert = $t->cert(['client']);
my $tried = $t->write('htpasswd', "me:{PLAIN}secret\n");

sub server ($more, $location = '') {
    return "server {\nagent_control unix:%CONTROL%;\n$more\n$outer\n"
           . "location / {\n$inner\n$location\n}\n}";
}

sub without ($name) { return $inner =~ s/^ *\Q$name\E\b[^;]*;//mr }

# the name, the rest of it, and where nginx itself would take it
my @never = (
    ['return', '200 x', 'server location'],
    ['set', '$x 1', 'server location'],
    ['rewrite_log', 'on', 'http server location'],
    ['mirror', '/x', 'http server location'],
    ['auth_request', '/x', 'http server location'],
    ['ssi', 'on', 'http server location'],
    ['slice', '1m', 'http server location'],
    ['add_before_body', '/x', 'http server location'],
    ['sub_filter', 'a b', 'http server location'],
    ['add_header', 'X-Agent-Broker allowed', 'http server location'],
    ['error_page', '502 =200 /x', ''],
    ['try_files', '/x =404', 'server location'],
    ['internal', '', 'location'],
    ['root', '/etc', 'http server location'],
    ['alias', '/etc/', 'location'],
    ['index', 'x', 'http server location'],
    ['satisfy', 'any', 'http server location'],
    ['deny', 'all', 'http server location'],
    ['auth_basic', 'x', 'http server location'],
    ['gzip', 'on', 'http server location'],
    ['gunzip', 'on', 'http server location'],
    ['expires', '1h', 'http server location'],
    ['limit_rate', '1', 'http server location'],
    ['stub_status', '', 'server location'],
    ['charset', 'utf-8', 'http server location'],
    ['client_body_in_file_only', 'on', 'http server location'],
    ['chunked_transfer_encoding', 'off', 'http server location'],
    ['max_ranges', '0', 'http server location'],
    ['merge_slashes', 'off', 'http server'],
    ['open_log_file_cache', 'max=10', 'http server location'],
    ['proxy_set_body', 'x', 'http server location'],
    ['proxy_method', 'GET', 'http server location'],
    ['proxy_pass_request_headers', 'off', 'http server location'],
    ['proxy_pass_request_body', 'off', 'http server location'],
    ['proxy_pass_header', 'X-Accel-Redirect', 'http server location'],
    ['proxy_force_ranges', 'on', 'http server location'],
    ['proxy_cookie_domain', 'a b', 'http server location'],
    ['proxy_cache_valid', '1h', 'http server location'],
    ['proxy_limit_rate', '1', 'http server location'],
    ['proxy_ssl_ciphers', 'eNULL', 'http server location'],
    ['proxy_ssl_conf_command', 'Options UnsafeLegacyRenegotiation',
     'http server location'],
    ['proxy_ssl_password_file', $tried, 'http server location'],
    ['ssl_protocols', 'TLSv1', 'http server'],
    ['ssl_ciphers', 'eNULL', 'http server'],
    ['ssl_early_data', 'on', 'http server'],
    ['ssl_verify_client', 'optional_no_ca', 'http server'],
);

subtest 'G-021: a directive that is not on the list is refused by its name '
    . 'and line' => sub {
    accepted('control: the shipped settings', server(''));
    accepted('control: the shipped file',
             "server { agent_control unix:%CONTROL%; include $proxy; }");

    # each at one of the places where nginx would take it, in turn
    my $turn = 0;
    for my $case (@never) {
        my ($name, $words, $where) = @$case;
        my @where = split ' ', $where;
        push @where, 'beside' if $where =~ /location/;
        $where = @where ? $where[$turn++ % @where] : '';
        my $text = $words eq '' ? "$name; #!" : "$name $words; #!";
        refused("$name in the server", server($text),
                qr/"\Q$name\E" is not allowed in the server with "agent_control"/)
            if $where eq 'server';
        refused("$name in the location", server('', $text),
                qr/"\Q$name\E" is not allowed in the server with "agent_control"/)
            if $where eq 'location';
        refused("$name of http", "$text\n" . server(''),
                qr/"\Q$name\E" of http is inherited by the server with/)
            if $where eq 'http';
        refused("$name in a location beside", server("location /x/ {\n$inner\n"
                . "$text\n}"), qr/"\Q$name\E" is not allowed in the server/)
            if $where eq 'beside';
    }

    for my $case (
        ['if in the server', server("if (\$http_a = b) { #!\nset \$x 1;\n}"), 'if'],
        ['if in the location',
         server('', "if (\$agent_task = x) { #!\nset \$x 1;\n}"), 'if'],
        ['if in if\'s stead: rewrite', server("rewrite ^ /x last;"), undef],
        ['limit_except', server('', "limit_except GET { #!\ndeny all;\n}"),
         'limit_except'],
        ['in a nested location', server('', "location /v1/ {\n$inner\n"
                                        . "mirror /x; #!\n}"), 'mirror'],
        ['before agent_control', "server {\nadd_header X y; #!\n"
             . "agent_control unix:%CONTROL%;\n$outer\nlocation / {\n"
             . "$inner\n}\n}", 'add_header'],
        ['of http, after the server', server('') . "\ngzip on; #!", 'gzip'],
    ) {
        my ($what, $http, $name) = @$case;
        refused($what, $http, $name ? qr/"\Q$name\E" (?:is not|of http)/
                                    : qr/regular expression/);
    }

    my $file = $t->write('more.conf', "\n\nmirror /x;\n");
    my ($ok, $said) = try(server('', "include $file;"));
    ok(!$ok && $said =~ /"mirror" is not allowed.* in \Q$file\E:3$/m,
       'refused: what an included file holds, with that file and its line')
        or diag $said;

    # of what is nowhere allowed in the http of a broker
    for my $module (['perl', 'ngx_http_perl_module', 'perl_modules /x;']) {
        my ($what, $so, $text) = @$module;
        my ($path) = grep { -f } "/usr/lib/nginx/modules/$so.so";
        next if !$path;
        refused("$what in http", "$text #!\n" . server(''),
                qr/"perl_modules" is not allowed in the http of a broker/,
                main => "load_module $path;");
    }
    refused('another cache of http', "memcached_buffer_size 4k; #!\n"
            . server(''), qr/"memcached_buffer_size" of http is inherited/);
};

subtest 'G-021: what is on the list has bounds' => sub {
    my @cases = (
        # the name, some that it may have, some that it may not
        ['proxy_next_upstream', ['error timeout', 'off'],
         ['error non_idempotent', 'timeout http_500', 'error http_404',
          'invalid_header', 'non_idempotent']],
        ['proxy_next_upstream_tries', ['1'], ['0', '100']],
        ['proxy_set_header', [], ['X-Key $http_authorization',
         'Authorization "Bearer 0123456789abcdef"', 'Host $http_host',
         'Connection close', 'X-Static 1', 'Host "x"']],
        ['proxy_ssl_protocols', ['TLSv1.2 TLSv1.3', 'TLSv1.3'],
         ['SSLv3 TLSv1.2', 'TLSv1 TLSv1.2', 'TLSv1.1']],
        ['proxy_ssl_verify_depth', ['1', '100'], ['101']],
        ['proxy_http_version', ['1.1'], ['1.0']],
        ['proxy_redirect', ['off'], ['http://a/ http://b/']],
        ['proxy_connect_timeout', ['1s', '5s'], ['5001ms', '6s', '1h']],
        ['proxy_read_timeout', ['1h'], ['61m']],
        ['large_client_header_buffers', ['4 8k', '8 64k'],
         ['8 65k', '1 1m', '1000 8k']],
        ['client_header_buffer_size', ['1k', '64k'], ['65k', '16m']],
        ['client_header_timeout', ['5s', '1h'], ['2h']],
        ['http2_max_concurrent_streams', ['32'], ['33', '100000']],
        ['keepalive_timeout', ['75s 60s', '0'], ['2h', '75s 2h']],
        ['request_pool_size', ['12k'], ['1m']],
        ['server_name', ['broker.internal'], ['~^(a+)+$', '$hostname']],
        ['access_log', ['logs/a.log combined if=$agent_logged', 'off',
          'logs/a.log combined buffer=4k if=$agent_logged flush=1s'],
         ['logs/a.log', 'logs/a.log combined', 'logs/a.log combined if=$status',
          'logs/$http_host.log combined if=$agent_logged',
          '/tmp/${uri} combined if=$agent_logged']],
    );
    for my $case (@cases) {
        my ($name, $good, $bad) = @$case;
        my $in_server = $name =~ /^(?:large_|client_header|http2|request_pool
                                     |server_name)/x;
        my $with = sub ($text) {
            return $in_server
                ? server('') =~ s/^\Q$name\E\b[^;]*;//mr
                             =~ s/^location/$text\nlocation/mr
                : server('') =~ s/^ *\Q$name\E\b[^;]*;//mrg
                             =~ s/^    proxy_pass /$text\n    proxy_pass /mr;
        };
        accepted("$name $_", $with->("$name $_;")) for @$good;
        refused("$name $_", $with->("$name $_; #!"),
                qr/"\Q$name\E" must be /) for @$bad;

        # and so where it is inherited
        refused("$name $bad->[0], of http", "$name $bad->[0]; #!\n" . server(''),
                qr/"\Q$name\E" must be .* inherits it from http in/)
            if $name =~ /^(?:proxy_[nsb]|large|http2|access)/;
    }

    refused('no proxy_ssl_protocols, of which nginx takes TLSv1',
            server('') =~ s/^ *proxy_ssl_protocols[^;]*;//mr,
            qr/needs "proxy_ssl_protocols TLSv1\.2 TLSv1\.3;" beside it/);
    accepted('proxy_ssl_protocols of http', "proxy_ssl_protocols TLSv1.3;\n"
             . (server('') =~ s/^ *proxy_ssl_protocols[^;]*;//mr));
    refused("a location of another kind: $_->[0]",
            server("$_->[1] { #!\n$inner\n}"), $_->[2])
        for ['named', 'location @x', qr/"location" must be a prefix/],
            ['a regex', 'location ~ x', qr/regular expression/];
    accepted("a location beside: $_", server("location $_ {\n$inner\n}"))
        for '/v1/', '= /x', '^~ /y/';
    refused('a log format that does not escape', "log_format x escape=none "
            . "'\$request'; #!\n" . server(''), qr/"log_format" must be/);
};

subtest 'G-021: other servers of the same nginx may have what they like'
    => sub {
    my $other = <<"END";
    map \$http_a \$b { default 1; }
    upstream back { server 127.0.0.1:1; keepalive 4; }
    server {
        listen unix:$prefix/other.sock;
        add_header X-Other 1;
        error_page 404 /x;
        if (\$b) { return 403; }
        location / { mirror /x; proxy_pass http://back; proxy_set_body x; }
        location ~ x { root /srv; ssi on; limit_except GET { deny all; } }
    }
END
    accepted('before the broker\'s', $other . server(''));
    accepted('after it', server('') . "\n$other");
    my ($ok, $said) = $t->nginx_t(prefix => $prefix,
        http => "gzip on;\nadd_header X y;\nerror_page 404 /x;\n$other");
    ok($ok, 'accepted: an nginx with the module and no broker') or diag $said;
};

SKIP: {
    skip 'only root has workers of another user', 1 if !AgentTest::is_root();
    subtest 'G-021: workers are neither root nor of its group' => sub {
        accepted('a user and a group', server(''),
                 worker_user => 'nobody nogroup');
        refused('the group of root', server(''),
                qr/workers would run with root's group.*"user nobody GROUP;"/,
                worker_user => 'nobody root');
        refused('root', server(''), qr/would run as root/,
                worker_user => 'root nogroup');
    };
}

done_testing;
