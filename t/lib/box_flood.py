#!/usr/bin/python3
"""A box that floods the broker in one way, until there is the file STOP.

  box_flood.py HOW PORT HOST:PORT STOP

HOW is one of the functions below.  Prints "begun" when the first act is done,
and at the end how often it acted; ends after a minute in any case.
"""

import os
import socket
import ssl
import struct
import sys
import time

how, port, name = sys.argv[1], int(sys.argv[2]), sys.argv[3]
host = name.rsplit(':', 1)[0]
held, acts = [], 0
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
context.set_alpn_protocols(['h2'])
GET = ('GET http://%s/echo HTTP/1.1\r\nHost: %s\r\n\r\n' % (name, name)).encode()
POST = ('POST http://%s/echo HTTP/1.1\r\nHost: %s\r\nContent-Length: 1000000'
        '\r\n\r\n' % (name, name)).encode()


def door(at=8899):
    s = socket.socket()
    s.settimeout(0.2)
    s.connect(('127.0.0.1', at))
    return s


def hold(s, most):
    held.append(s)
    if len(held) > most:
        held.pop(0).close()


def half():                             # and closed at once
    s = door()
    s.sendall(GET[:20])
    s.close()


def half_kept():
    s = door()
    s.sendall(GET[:20])
    hold(s, 500)


def churn():
    door().close()


def valid():
    s = door()
    s.sendall(GET)
    s.close()


def pipelined():
    s = door()
    s.sendall(GET * 50)
    hold(s, 50)


def refused():
    s = door()
    s.sendall(GET.replace(host.encode(), b'evil.example'))
    s.close()


def idle():
    hold(door(), 10000)


def hello():
    s = door(port)
    i, o = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(i, o, server_hostname=host).do_handshake()
    except ssl.SSLWantReadError:
        pass
    s.sendall(o.read())
    s.close()


def hello_half():
    s = door(port)
    s.sendall(b'\x16\x03\x01\x02\x00\x01')
    hold(s, 500)


def names():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(('127.0.0.1', 53))
    for _ in range(200):
        s.send(b'\0\1\1\0\0\1\0\0\0\0\0\0\4evil\7example\0\0\1\0\1')
    s.close()


def slow_reader():
    s = door()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.sendall(GET.replace(b'/echo', b'/big?n=1000000'))
    hold(s, 500)


def slow_writer():
    s = door()
    s.sendall(POST + b'x')
    hold(s, 500)


def h2(frames):
    s = context.wrap_socket(door(port), server_hostname=host)
    s.sendall(b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + frame(4, 0, 0, b''))
    for _ in range(20):
        s.sendall(frames)
    s.close()


def frame(kind, flags, stream, body):
    return (struct.pack('>I', len(body))[1:]
            + struct.pack('>BBI', kind, flags, stream) + body)


def text(t):
    return bytes([len(t)]) + t.encode()


def h2_resets():
    head = b''.join(b'\0' + text(k) + text(v) for k, v in (
        (':method', 'GET'), (':scheme', 'https'), (':authority', name),
        (':path', '/echo')))
    h2(b''.join(frame(1, 5, n, head) + frame(3, 0, n, b'\0\0\0\x08')
                for n in range(1, 401, 2)))


def h2_pings():
    h2(frame(6, 0, 0, b'x' * 8) * 500)


act = globals()[how]
first = True
end = time.monotonic() + 60

while not os.path.exists(sys.argv[4]) and time.monotonic() < end:
    try:
        act()
        acts += 1
    except OSError:
        time.sleep(0.001)
    if first:
        first = False
        print('begun', flush=True)

print(acts, flush=True)
os._exit(0)
