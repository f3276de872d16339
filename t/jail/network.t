#!/usr/bin/perl

# The network of a box, from inside: every address leads to the broker's doors
# and to nothing else.  What is refused is refused, not waited for.

use v5.36;

use FindBin;
use JSON::PP ();
use lib $FindBin::Bin;
use Jail;
use Test::More;

my $json = JSON::PP->new->utf8;

my @doors = map { { name => $_->[0], port => $_->[1] } }
    ['proxy', 8899], ['web', 80], ['web', 443], ['dns-udp', 53],
    ['dns-tcp', 53];

sub broker (%task) {
    return fake_broker({ task => { doors => \@doors, %task } });
}

# What each of a list of [kind, address, port, scope?] comes to, as
# "answer" (a door's), "connected", the errno's name, or TIMEOUT if there is
# no reply at all
my $probe = <<'END';
import errno, json, socket, sys

def one(kind, address, port, scope=0):
    v6 = ":" in address
    s = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET,
                      socket.SOCK_STREAM if kind == "tcp"
                      else socket.SOCK_DGRAM)
    s.settimeout(patience)
    try:
        s.connect((address, port, 0, scope) if v6 else (address, port))
        s.send(b"GET / HTTP/1.0\r\n\r\n")
        answer = s.recv(100)
        return "answer" if answer.startswith((b"HTTP/1.0 200", b"door GET")) \
            else "connected"
    except TimeoutError:
        return "TIMEOUT"
    except OSError as e:
        return errno.errorcode[e.errno]
    finally:
        s.close()

patience = float(sys.argv[1])
json.dump([one(*what) for what in json.load(open("list"))], sys.stdout)
END

sub probe ($broker, $list, %opt) {
    write_file('list', $json->encode($list));
    my @broker = $broker ? ('--control', $broker->{socket}) : '--offline';
    my $r = jail(['run', @broker, '--in', dir() . '/list', '--',
                  '/usr/bin/python3', '-c', $probe, $opt{patience} // WATCHDOG],
                 %opt);
    my $got = eval { $json->decode($r->{json}{stdout}) };
    diag "no probe: $r->{out}$r->{err}" if !$got;
    return $got;
}

my @v4 = qw(127.0.0.1 127.9.9.9 10.0.0.1 192.168.1.1 169.254.169.254
            192.0.2.7 198.18.0.5 8.8.8.8 0.0.0.0);
my @v6 = qw(::1 ::ffff:192.0.2.1 ::);

# on a kernel that has what their routes need
my $has_routes = `grep -c ' seg6_local_input' /proc/kallsyms` > 0;

push @v6, qw(2001:db8::7 fd00:ec2::254 64:ff9b::808:808 2606:4700::1111
             2002:7f00:1::1) if $has_routes;

sub each_is ($what, $wanted, $got, @list) {
    my @odd = map { "@{ $list[$_] }: $got->[$_]" }
              grep { $got->[$_] ne $wanted } 0 .. $#list;
    subtest $what => sub {
        is(join("\n", @odd), '', "each of " . @list . " is $wanted");
    };
}

for my $user (ways()) {
    my $way = way($user);
    my $b = broker();

    my @list = map { my $a = $_; map { ['tcp', $a, $_] } 80, 443, 8899, 53 }
               @v4, @v6;
    each_is("$way: every address leads to the doors", 'answer',
            probe($b, \@list, user => $user), @list);

    @list = map { my $a = $_; map { ['tcp', $a, $_] } 22, 25, 81, 853, 8898 }
            @v4, @v6;
    each_is("A-080 $way: any other port is refused, by IPv6 too",
            'ECONNREFUSED', probe($b, \@list, user => $user), @list);

    @list = map { ['udp', $_, 53] } @v4[0 .. 7], @v6;
    each_is("B-039 $way: whichever resolver is asked, the door replies",
            'answer', probe($b, \@list, user => $user), @list);

    @list = map { my $a = $_; map { ['udp', $a, $_] } 123, 443, 5353, 5355 }
            @v4[0 .. 7], @v6;
    each_is("B-039 $way: any other datagram is refused", 'ECONNREFUSED',
            probe($b, \@list, user => $user), @list);

    @list = map { my $a = $_; ((map { ['tcp', $a, $_, 1] } 22, 80, 443, 8899),
                               map { ['udp', $a, $_, 1] } 53, 9) }
            qw(fe80::1 febf::1 fec0::1);
    each_is("A-080 $way: no link-local address has a door",
            $has_routes ? 'EHOSTUNREACH' : 'ENETUNREACH',
            probe($b, \@list, user => $user), @list);

    # groups and scopes lead nowhere; how that is said is the kernel's

    subtest "A-080 $way: no multicast, no broadcast" => sub {
        my @list = (['udp', '224.0.0.251', 5353], ['udp', '224.0.0.252', 5355],
                    ['udp', 'ff02::fb', 5353, 1], ['udp', 'ff02::1:3', 5355, 1],
                    ['udp', '255.255.255.255', 67], ['tcp', '224.0.0.1', 80],
                    ['tcp', 'ff02::1', 80, 1], ['tcp', '255.255.255.255', 80]);
        my $got = probe($b, \@list, user => $user, patience => 5);
        my @odd = map { "@{ $list[$_] }: $got->[$_]" }
                  grep { $got->[$_] !~ /^E(?:CONNREFUSED|NETUNREACH|ACCES|
                                              ADDRNOTAVAIL|INVAL|HOSTUNREACH)$/x }
                  0 .. $#list;
        is(join("\n", @odd), '', 'each is refused');
    };

    subtest "A-060 A-062 A-080 B-039 F-033 F-045 $way: sockets, routes and "
            . "names in a box" => sub
    {
        my $r = jail(['run', '--control', $b->{socket}, '--',
                      '/usr/bin/python3', '-c', <<'END'], user => $user);
import errno, json, os, socket, struct, threading, urllib.request

def attempt(f, *args):
    try:
        f(*args)
        return "done"
    except OSError as e:
        return errno.errorcode[e.errno]

def netlink(kind):
    """A route or an address, as an administrator would change it."""
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    s.send(struct.pack("=IHHII BBBBBBBBI", 28, kind, 5, 1, 0,
                       2, 0, 0, 0, 255, 3, 254, 2, 0))
    code = struct.unpack_from("=i", s.recv(4096), 16)[0]
    return errno.errorcode.get(-code, "done")

def bound(family, address, port, reuse=()):
    s = socket.socket(family, socket.SOCK_STREAM)
    for option in reuse:
        s.setsockopt(socket.SOL_SOCKET, option, 1)
    s.bind((address, port))
    s.listen()
    return s

served = {}
for family, address, url in (
        (socket.AF_INET, "127.0.0.1", "http://127.0.0.1:8000/"),
        (socket.AF_INET, "127.0.0.1", "http://localhost:8000/"),
        (socket.AF_INET6, "::1", "http://[::1]:8000/")):
    listener = bound(family, address, 8000, [socket.SO_REUSEADDR])
    def serve():
        c, _ = listener.accept()
        c.recv(4096)
        c.sendall(b"HTTP/1.0 200 OK\r\n\r\nmine")
        c.close()
    threading.Thread(target=serve, daemon=True).start()
    served[url] = urllib.request.urlopen(url, timeout=5).read().decode()
    listener.close()

both = [socket.SO_REUSEADDR, socket.SO_REUSEPORT]
print(json.dumps({
    "interfaces": socket.if_nameindex(),
    "local": sorted({a[4][0] for a in socket.getaddrinfo("localhost", 80)}),
    "netlink": {p: attempt(socket.socket, socket.AF_NETLINK,
                           socket.SOCK_RAW, p) for p in range(23)},
    "packet": attempt(socket.socket, socket.AF_PACKET, socket.SOCK_RAW),
    "raw": attempt(socket.socket, socket.AF_INET, socket.SOCK_RAW, 1),
    "raw6": attempt(socket.socket, socket.AF_INET6, socket.SOCK_RAW, 58),
    "ping": attempt(socket.socket, socket.AF_INET, socket.SOCK_DGRAM, 1),
    "vsock": attempt(socket.socket, 40, socket.SOCK_STREAM),
    "newroute": netlink(24), "delroute": netlink(25), "newaddr": netlink(20),
    "low": attempt(bound, socket.AF_INET, "127.0.0.1", 81),
    "door": attempt(bound, socket.AF_INET, "127.0.0.1", 8899, both),
    "door6": attempt(bound, socket.AF_INET6, "::1", 8899, both),
    "served": served,
    "inet6": open("/proc/net/if_inet6").read().split()[0::6],
    "resolv": open("/etc/resolv.conf").read(),
}))
END
        my $in = eval { $json->decode($r->{json}{stdout}) }
            or diag "no result: $r->{out}$r->{err}";
        is_deeply($in->{interfaces}, [[1, 'lo']],
                  'the loopback interface is the only one');
        is_deeply($in->{inet6}, ['0' x 31 . '1'],
                  'it has no IPv6 address but ::1');
        is_deeply([grep { $in->{netlink}{$_} eq 'done' } 0 .. 22], [0],
                  'netlink is open for routes, to be read, only');
        is(join(' ', @{$in}{qw(packet raw raw6 vsock)}),
           'EAFNOSUPPORT EPERM EPERM EAFNOSUPPORT',
           'no packets, no raw sockets, no vsock');
        like($in->{ping}, qr/^E(?:ACCES|PERM)$/, 'no ping');
        is(join(' ', @{$in}{qw(newroute delroute newaddr)}),
           'EPERM EPERM EPERM', 'routes and addresses cannot be changed');
        is(join(' ', @{$in}{qw(low door door6)}),
           'EACCES EADDRINUSE EADDRINUSE',
           'the place of a door cannot be taken');
        is_deeply([values %{ $in->{served} }], [('mine') x 3],
                  'the task\'s own servers on loopback are reached');
        like($in->{resolv}, qr/^nameserver 127\.0\.0\.1\n/,
             'the resolver is the door');
    };
    fake_broker_end($b);

    # without a broker there is no door and no way

    @list = map { my $a = $_; map { ['tcp', $a, $_] } 53, 80, 8899 }
            '127.0.0.1', '::1';
    each_is("$way: offline no door is there", 'ECONNREFUSED',
            probe(undef, \@list, user => $user), @list);
    @list = map { my $a = $_; (['tcp', $a, 80], ['udp', $a, 53]) }
            '8.8.8.8', '169.254.169.254', '198.18.0.5', '2001:db8::7';
    my $got = probe(undef, \@list, user => $user);
    each_is("$way: offline no address is reachable", 'ENETUNREACH', $got,
            @list);

    subtest "B-039 $way: offline a name fails without a wait" => sub {
        # libc waits five seconds for a resolver that is not there
        my $j = box('sleep 5 & getent ahosts x.test; echo $?; '
                    . '/usr/bin/python3 -c "import socket; '
                    . 'socket.getaddrinfo(\'x.test\', 80)" 2>&1 | tail -1; '
                    . 'kill -0 $! && echo first', user => $user);
        like($j->{stdout}, qr/^2\nsocket.gaierror: .*\nfirst$/,
             'getent and Python say so before one wait of libc\'s is over');
    };
}

# What a box sends to IPv6 addresses leaves no neighbour each behind, which
# would be the host's memory.  The same in a namespace of its own shows that
# they are seen: there the route is the one that suffices for IPv4.
my $flood = <<'END';
import fcntl, socket, struct, sys

def netlink(kind, flags, body):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    s.send(struct.pack("=IHHII", 16 + len(body), kind, 1 | flags, 1, 0) + body)
    while True:
        data, at = s.recv(1 << 16), 0
        while at < len(data):
            size, kind = struct.unpack_from("=IH", data, at)
            yield kind, data[at + 16:at + size]
            at += size + 3 & ~3

if sys.argv[1] == "control":
    up = struct.pack("16sh14x", b"lo", 1)
    fcntl.ioctl(socket.socket(), 0x8914, up)    # SIOCSIFFLAGS
    route = struct.pack("=BBBBBBBBIHHi", 10, 0, 0, 0, 255, 3, 254, 2, 0,
                        8, 4, 1)
    assert struct.unpack("=i", next(netlink(24, 0x604, route))[1][:4]) == (0,)

FREEBIND = 78
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IPV6, FREEBIND, 1)
sent = 0
for i in range(20000):
    each = struct.pack("=II", i, i)
    source = struct.pack("=16si", b"\x20\x01\x0d\xb8" * 2 + each, 0)
    to = socket.inet_ntop(10, b"\x26\x06\x47\x00" * 2 + each)
    sent += s.sendmsg([b"x"], [(socket.IPPROTO_IPV6, socket.IPV6_PKTINFO,
                                source)] if i % 2 else [], 0, (to, 53))
for i in range(1000):
    c = socket.socket(socket.AF_INET6)
    c.connect_ex(("2606:4700::%x" % i, 81))
    c.close()

neighbours = 0
for kind, _ in netlink(30, 0x300, struct.pack("=B11x", 10)):
    if kind == 3:
        break
    neighbours += 1
print(sent, neighbours)
END

subtest 'A-080 IPv6 addresses that a box calls leave no neighbours behind'
    => sub
{
    plan skip_all => 'this kernel has no segment routing' if !$has_routes;
    my $b = broker();
    my $r = jail(['run', '--control', $b->{socket}, '--', '/usr/bin/python3',
                  '-c', $flood, 'box']);
    my ($sent, $neighbours) = ($r->{json}{stdout} // '') =~ /^(\d+) (\d+)$/
        or diag "no numbers: $r->{out}$r->{err}";
    is($sent, 20_000, 'a box sends to 20,000 addresses');
    cmp_ok($neighbours // 9999, '<=', 4, 'the kernel keeps four at most');
    fake_broker_end($b);

    my $other = `unshare -Urn /usr/bin/python3 -c '$flood' control`;
    like($other, qr/^20000 [23]\d{4}$/,
         'control: in a namespace with an ordinary route it keeps each');
};

# As many doors as one message can carry, whatever the limit of open files

subtest '64 doors are served, with 16 open files as well' => sub {
    my @many = ((map { { name => 'web', port => 7000 + $_ } } 1 .. 62),
                { name => 'dns-udp', port => 53 },
                { name => 'proxy', port => 8899 });
    my $b = broker(doors => \@many);
    my @list = map { [$_->{name} eq 'dns-udp' ? 'udp' : 'tcp', '192.0.2.1',
                      $_->{port}] } @many;
    each_is('64 doors are served', 'answer', probe($b, \@list), @list);

    for my $try (1 .. 5) {
        my $r = jail(['run', '--control', $b->{socket}, '--open-files', '16',
                      '--', 'sh', '-c', 'ulimit -n']);
        is($r->{json}{stdout}, "16\n", "run $try with 16 open files")
            or diag $r->{out};
    }
    fake_broker_end($b);
};

# A machine without IPv6, and one without netlink: the calls are refused to
# the launcher as such a kernel does it

SKIP: {
    my $without = cc('without', <<'END', '-lseccomp');
#include <errno.h>
#include <seccomp.h>
#include <stdlib.h>
#include <unistd.h>

int
main(int argc, char **argv)
{
    scmp_filter_ctx  c = seccomp_init(SCMP_ACT_ALLOW);

    return seccomp_attr_set(c, SCMP_FLTATR_CTL_NNP, 1)
           || seccomp_rule_add(c, SCMP_ACT_ERRNO(atoi(argv[2])),
                               SCMP_SYS(socket), 1,
                               SCMP_A0(SCMP_CMP_EQ, atoi(argv[1])))
           || seccomp_load(c) || execv(argv[3], argv + 3);
}
END
    skip 'no libseccomp.a to link the program with', 2 if !$without;

    my $b = broker();
    my @list = map { my $a = $_; map { ['tcp', $a, $_] } 80, 443, 8899 } @v4;
    push @list, ['udp', '8.8.8.8', 53];
    each_is('on a host without IPv6 the doors are there for IPv4', 'answer',
            probe($b, \@list, program => [$without, 10, 97]), @list);

    subtest 'a box whose addresses cannot be made local does not start' => sub {
        my $r = jail(['run', '--control', $b->{socket}, '--', 'true'],
                     program => [$without, 16, 1]);
        is_deeply([@{ $r->{json}{error} // {} }{qw(stage errno)}],
                  ['net_route', 'EPERM'], 'the stage and the errno')
            or diag $r->{out};
        isnt($r->{json}{error}{fix}, undef, 'there is a fix');
    };
    fake_broker_end($b);
}

none_left();

done_testing;
