#!/usr/bin/python3
"""Many requests of a box at the same time.

  box_requests.py HOW PORT HOST:PORT PATH CONNECTIONS EACH [CA]

HOW is http: CONNECTIONS connections with one GET each, which are kept open
after their answers, as an ordinary client does; or h2: as many TLS
connections, each with EACH streams, opened when the broker has said how many
it takes.  Prints, when all are answered or closed, one line of JSON:

  {"statuses":{"200":64,"429":1},"reasons":{"connections":1},
   "retry_after":1,"longest":1.52,"streams_max":32}

"longest" is the seconds until the last answer; "0" counts what was closed or
reset without one.  A line "sent" is printed on stderr when all are sent.
"""

import json
import selectors
import socket
import ssl
import struct
import sys
import time

how, port, name, path, connections, each = sys.argv[1:7]
port, connections, each = int(port), int(connections), int(each)
host = name.rsplit(':', 1)[0]
began = time.monotonic()
out = {"statuses": {}, "reasons": {}, "retry_after": 0, "longest": 0,
       "streams_max": 0}


def tell(status, body, retry_after):
    key = str(status)
    out["statuses"][key] = out["statuses"].get(key, 0) + 1
    out["retry_after"] += retry_after
    out["longest"] = time.monotonic() - began
    if status == 429:
        reason = json.loads(body)["reason"]
        out["reasons"][reason] = out["reasons"].get(reason, 0) + 1


# HTTP/2

def frame(kind, flags, stream, body):
    return (struct.pack('>I', len(body))[1:]
            + struct.pack('>BBI', kind, flags, stream) + body)


def text(t):
    return bytes([len(t)]) + t.encode()


def get():
    return b''.join(b'\0' + text(k) + text(v) for k, v in (
        (':method', 'GET'), (':scheme', 'https'), (':authority', name),
        (':path', path)))


# a status with the index of its name: as it is, or in Huffman's code
DIGITS = {'00000': '0', '00001': '1', '00010': '2', '011001': '3',
          '011010': '4', '011011': '5', '011100': '6', '011101': '7',
          '011110': '8', '011111': '9'}


def status_of(body):
    known = {8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500}
    while body[0] & 0xe0 == 0x20:
        body = body[1:]
    if body[0] & 0x80:
        return known[body[0] & 0x7f]
    n = body[1] & 0x7f
    value = body[2:2 + n]
    if not body[1] & 0x80:
        return int(value)
    bits, digits, at = ''.join('{:08b}'.format(x) for x in value), '', ''
    for bit in bits:
        at += bit
        if at in DIGITS:
            digits, at = digits + DIGITS[at], ''
    return int(digits)


class Http:
    def __init__(self):
        self.s = socket.create_connection(('127.0.0.1', port), 60)
        self.got = b''
        self.s.sendall(('GET http://%s%s HTTP/1.1\r\nHost: %s\r\n\r\n'
                        % (name, path, name)).encode())
        self.s.setblocking(False)
        self.open = 1

    def read(self):
        try:
            more = self.s.recv(65536)
        except OSError:
            more = b''
        self.got += more
        head, _, body = self.got.partition(b'\r\n\r\n')
        if not more:
            if self.open:
                tell(0, b'', 0)
            self.open = 0
            return False
        if self.open and b'\r\n\r\n' in self.got:
            lines = head.decode('latin1').lower().split('\r\n')
            length = [int(x.split(':')[1]) for x in lines
                      if x.startswith('content-length:')]
            if len(body) >= length[0]:
                tell(int(lines[0].split()[1]), body,
                     'retry-after: 1' in lines)
                self.open = 0
        return True


class H2:
    def __init__(self):
        c = ssl.create_default_context(cafile=sys.argv[7])
        c.set_alpn_protocols(['h2'])
        s = socket.create_connection(('127.0.0.1', port), 60)
        if port == 8899:
            s.sendall(('CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n'
                       % (name, name)).encode())
            head = s.recv(4096)
            assert b' 200 ' in head, head
        self.s = c.wrap_socket(s, server_hostname=host)
        assert self.s.selected_alpn_protocol() == 'h2'
        self.s.sendall(b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
                       + frame(4, 0, 0, b''))
        self.got, self.status, self.body = b'', {}, {}
        self.open, self.next, self.most = each, 1, None
        while self.most is None:
            self.take(self.s.recv(65536))
        out["streams_max"] = max(out["streams_max"], self.most)
        for _ in range(each):
            self.send()
        self.s.setblocking(False)

    def send(self):
        self.s.sendall(frame(1, 5, self.next, get()))
        self.next += 2

    def read(self):
        try:
            more = self.s.recv(65536)
        except ssl.SSLWantReadError:
            return True
        except OSError:
            more = b''
        if not more:
            for _ in range(self.open):
                tell(0, b'', 0)
            self.open = 0
            return False
        self.take(more)
        while self.s.pending():
            self.take(self.s.recv(65536))
        return True

    def take(self, more):
        self.got += more
        while len(self.got) >= 9:
            n = int.from_bytes(self.got[:3], 'big')
            if len(self.got) < 9 + n:
                return
            kind, flags, stream = struct.unpack('>BBI', self.got[3:9])
            body, self.got = self.got[9:9 + n], self.got[9 + n:]
            if kind == 4 and not flags & 1:
                for i in range(0, n, 6):
                    key, value = struct.unpack('>HI', body[i:i + 6])
                    if key == 3:
                        self.most = value
                self.s.sendall(frame(4, 1, 0, b''))
            elif kind == 1:
                self.status[stream] = status_of(body)
                self.body[stream] = b''
            elif kind == 0:
                self.body[stream] += body
            if kind == 3 or (kind in (0, 1) and flags & 1):
                self.open -= 1
                tell(self.status.get(stream, 0) if kind != 3 else 0,
                     self.body.get(stream, b''), 0)


loop = selectors.DefaultSelector()
clients = [(Http if how == 'http' else H2)() for _ in range(connections)]
for client in clients:
    loop.register(client.s, selectors.EVENT_READ, client)
print("sent", file=sys.stderr, flush=True)
while any(client.open for client in clients):
    ready = loop.select(90)
    assert ready, 'nothing comes any more'
    for key, _ in ready:
        if not key.data.read():
            loop.unregister(key.data.s)
print(json.dumps(out))
