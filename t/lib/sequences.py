#!/usr/bin/python3
"""Lives of connections in a box, drawn from a seed: whole and partial requests
of every kind, CONNECT, TLS, HTTP/2, half-closes, resets, at every door.

  sequences.py PLAIN_PORT TLS_PORT

Commands on stdin, each answered by one line on stdout:
  lives SEED COUNT   so many lives, one after the other: "done"
  probe N            N requests at the same time, all must be answered 200:
                     "done", or what came instead
Ends with its stdin.  A step waits for an answer for a short time only: what
matters is what the broker makes of all this, not what it answers.
"""

import os
import random
import select
import socket
import ssl
import struct
import sys

PLAIN, TLS = int(sys.argv[1]), int(sys.argv[2])

CONTEXT = ssl.create_default_context()
CONTEXT.check_hostname = False
CONTEXT.verify_mode = ssl.CERT_NONE

TROUBLE = ["silent", "drip", "deaf", "stop", "short", "own/200", "quick",
           "reset", "close"]


class Over(Exception):
    """The life has ended, by this end or the other."""


class Life:
    def __init__(self, rng):
        self.rng = rng
        self.sock = None
        self.tls = None

    # steps

    def connect(self):
        port = self.rng.choice([8899] * 6 + [80, 443, PLAIN, TLS, 53])
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=5)
        self.port = port

    def chance(self, p):
        return self.rng.random() < p

    def end(self):
        """One of the ways in which a connection ends."""
        how = self.rng.choice(["close", "reset", "half", "shut"])
        if how == "reset":
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                 struct.pack("ii", 1, 0))
        elif how == "half":
            self.sock.shutdown(socket.SHUT_WR)
            self.read(0.2)
        elif how == "shut":
            self.sock.shutdown(socket.SHUT_RDWR)
        raise Over

    def read(self, seconds, until=None):
        data = b""
        while select.select([self.sock], [], [], seconds)[0]:
            more = self.sock.recv(65536)
            if not more:
                raise Over
            data += more
            if until is None or until in data:
                break
        return data

    def send_raw(self, data):
        at = 0
        while at < len(data):
            n = len(data) - at
            if self.chance(0.3):
                n = self.rng.randint(1, n)
            self.sock.settimeout(0.5)
            at += self.sock.send(data[at:at + n])
            if self.chance(0.05):
                self.end()
            if self.chance(0.05):
                self.read(0.02)

    def send(self, data):
        if self.chance(0.1) and len(data) > 1:
            data = data[:self.rng.randint(1, len(data) - 1)]
        if self.chance(0.05):
            at = self.rng.randrange(len(data))
            data = data[:at] + bytes([self.rng.randrange(256)]) + data[at + 1:]
        if self.tls is None:
            self.send_raw(data)
        else:
            self.tls.write(data)
            self.send_raw(self.out.read())

    def receive(self):
        data = self.read(self.rng.choice([0.0, 0.05, 0.3]))
        if self.tls is not None and data:
            self.into.write(data)
            try:
                while self.tls.read(65536):
                    pass
            except ssl.SSLError:
                pass
            pending = self.out.read()
            if pending:
                self.send_raw(pending)

    def handshake(self, host, protocols):
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.set_alpn_protocols(protocols)
        self.into, self.out = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(self.into, self.out, server_hostname=host)
        for _ in range(20):
            try:
                tls.do_handshake()
                self.send_raw(self.out.read())
                break
            except ssl.SSLWantReadError:
                self.send_raw(self.out.read())
                data = self.read(1)
                if not data:
                    self.end()
                self.into.write(data)
        else:
            raise Over
        self.tls = tls

    # what is sent

    def target(self):
        host = self.rng.choice(["plain.test"] * 4 + ["w%d.wild.test"
            % self.rng.randrange(30), "mute.test", "gone.test", "evil.test"])
        path = "/" + self.rng.choice(TROUBLE)
        return host, PLAIN, path

    def request(self, absolute=True):
        host, port, path = self.target()
        if self.tls is not None:
            host, port, path = self.name, TLS, "/echo"
        method = self.rng.choice(["GET", "GET", "HEAD", "POST", "DELETE"])
        body, fields = b"", ""
        if method == "POST":
            n = self.rng.choice([0, 1, 1000, 100000])
            if self.chance(0.5):
                fields = "Content-Length: %d\r\n" % n
                body = b"x" * n
            else:
                fields = "Transfer-Encoding: chunked\r\n"
                body = b"%x\r\n" % n + b"y" * n + b"\r\n"
                body += b"" if n == 0 else b"0\r\n\r\n"
        if self.chance(0.1):
            fields += "Expect: 100-continue\r\n"
        if self.chance(0.1):
            fields += ("Connection: Upgrade\r\nUpgrade: websocket\r\n"
                       "Sec-WebSocket-Version: 13\r\n"
                       "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n")
        url = "http://%s:%d" % (host, port) if absolute else ""
        head = "%s %s%s HTTP/1.%d\r\nHost: %s:%d\r\n%s\r\n" % (
            method, url, path, self.rng.choice([1, 1, 1, 0]), host, port,
            fields)
        return head.encode() + body

    def frame(self, kind, flags, stream, data=b""):
        return (struct.pack("!I", len(data))[1:] + bytes([kind, flags])
                + struct.pack("!I", stream) + data)

    def literal(self, name, value):
        return (b"\x00" + bytes([len(name)]) + name.encode()
                + bytes([len(value)]) + value.encode())

    def http2(self):
        self.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + self.frame(4, 0, 0))
        stream = 1
        for _ in range(self.rng.randint(1, 8)):
            what = self.rng.randrange(8)
            if what < 4:
                block = b"".join(self.literal(n, v) for n, v in (
                    (":method", self.rng.choice(["GET", "POST"])),
                    (":scheme", "https"), (":path", "/echo"),
                    (":authority", "%s:%d" % (self.name, TLS))))
                end = self.rng.choice([5, 4])
                self.send(self.frame(1, end, stream, block))
                if end == 4 and self.chance(0.5):
                    self.send(self.frame(0, self.rng.choice([0, 1]), stream,
                                         b"z" * self.rng.choice([0, 1000])))
                stream += 2
            elif what == 4:
                self.send(self.frame(3, 0, max(1, stream - 2),
                                     b"\0\0\0\x08"))
            elif what == 5:
                self.send(self.frame(6, 0, 0, b"12345678"))
            elif what == 6:
                self.send(self.frame(8, 0, 0, b"\0\0\x10\0"))
            else:
                self.send(self.frame(self.rng.randrange(12), 0,
                                     self.rng.choice([0, 1, 2]),
                                     b"\0" * self.rng.randrange(20)))
            self.receive()
        if self.chance(0.3):
            self.send(self.frame(7, 0, 0, b"\0" * 8))

    def dns(self):
        name = self.rng.choice([b"\5plain\4test\0", b"\4evil\4test\0",
                                b"\1w\4wild\4test\0", b"\300\014"])
        query = struct.pack("!HHHHHH", 7, 0x100, 1, 0, 0, 0) + name + \
            struct.pack("!HH", self.rng.choice([1, 28, 255]), 1)
        if self.chance(0.5):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.sendto(query, ("127.0.0.1", 53))
        self.send(struct.pack("!H", len(query)) + query)
        self.receive()

    def run(self):
        self.connect()
        if self.port == 53:
            self.dns()
            self.end()

        secure = self.port in (443, TLS)
        self.name = self.rng.choice(["tls.test"] * 3 + ["evil.test"])

        if self.port == 8899 and self.chance(0.5):
            self.name = self.rng.choice(["tls.test"] * 3
                                        + ["tunnel.test", "evil.test"])
            port = self.rng.choice([TLS] * 5 + [443, PLAIN])
            self.send(("CONNECT %s:%d HTTP/1.1\r\nHost: %s:%d\r\n\r\n" % (
                self.name, port, self.name, port)).encode())
            self.read(0.5, b"\r\n\r\n")
            secure = self.chance(0.9)

        if secure:
            two = self.chance(0.4)
            self.handshake(self.name, ["h2"] if two else ["http/1.1"])
            if self.tls.selected_alpn_protocol() == "h2":
                self.http2()
                self.end()

        for _ in range(self.rng.randint(1, 4)):
            self.send(self.request(absolute=self.port == 8899
                                   and self.tls is None))
            if self.chance(0.8):
                self.receive()
        self.end()


def lives(seed, count):
    for n in range(count):
        life = Life(random.Random("%s %d" % (seed, n)))
        try:
            life.run()
        except (Over, OSError):
            pass                        # ssl.SSLError is one, too
        if life.sock is not None:
            life.sock.close()
    return "done"


def probe(n):
    socks = []
    for _ in range(n):
        s = socket.create_connection(("127.0.0.1", 8899), timeout=30)
        s.sendall(b"GET http://plain.test:%d/own/200 HTTP/1.1\r\n"
                  b"Host: plain.test:%d\r\nConnection: close\r\n\r\n"
                  % (PLAIN, PLAIN))
        socks.append(s)
    bad = []
    for s in socks:
        data = b""
        try:
            while True:
                more = s.recv(65536)
                if not more:
                    break
                data += more
        except OSError as e:
            data += str(e).encode()
        s.close()
        if not data.startswith(b"HTTP/1.1 200"):
            bad.append(data[:300].decode("latin-1"))
    return "done" if not bad else repr(bad)


def main():
    for line in sys.stdin:
        what, *args = line.split()
        answer = (lives(args[0], int(args[1])) if what == "lives"
                  else probe(int(args[0])))
        os.write(1, (answer + "\n").encode())


main()
