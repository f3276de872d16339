#!/usr/bin/env python3
"""An upstream in trouble: what it does is the path that is asked for.

Prints its port; then, unless called with --quiet, the path of each request
that is read: somebody must read these lines.
"""

import gzip
import socket
import struct
import sys
import threading
import time
import zlib

BODY = b"the same bytes, again and again " * 64


def head(c):
    data = b""
    while b"\r\n\r\n" not in data:
        more = c.recv(65536)
        if not more:
            return None, b""
        data += more
    text, rest = data.split(b"\r\n\r\n", 1)
    return text.decode("latin-1"), rest


def send(c, body, *lines):
    c.sendall(b"".join([b"HTTP/1.1 200 OK\r\n",
                        *(line + b"\r\n" for line in lines),
                        b"Content-Length: %d\r\n\r\n" % len(body), body]))


def silent(c, rest):
    time.sleep(60)


def drip(c, rest):
    for byte in b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 400:
        c.sendall(bytes([byte]))
        time.sleep(0.2)


def deaf(c, rest):
    time.sleep(60)


def stop(c, rest):
    c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nbeginning")
    time.sleep(60)


def short(c, rest):
    c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nbeginning")


def torn(c, rest):
    c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nbeginning")
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def unchunked(c, rest, how="2"):
    c.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
              + {"1": b"zz\r\n", "2": b"9\r\nbeginning\r\nzz\r\n",
                 "lf": b"9\r\nbeginning\r\n5\nhello\r\n0\r\n\r\n"}[how])
    time.sleep(60)


def own(c, rest, status):
    """An error of its own, which claims to be the broker's."""
    c.sendall(b"HTTP/1.1 %s Own\r\nX-Agent-Broker: failed\r\nX-Own: yes\r\n"
              b"Connection: close\r\n"
              b"Content-Length: 7\r\n\r\nmy page" % status.encode())


def gone(c, rest):
    """Ends the connection without a word."""


def quick(c, rest):
    send(c, b"quick")


def fin(c, rest):
    """Ends its side, and reads on to the end of the other."""
    c.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf")
    c.shutdown(socket.SHUT_WR)
    while c.recv(65536):
        pass


def coded(c, rest, how):
    body = {"gzip": gzip.compress, "deflate": zlib.compress}.get(
        how, lambda b: b"\x00\xff" + b)(BODY)
    send(c, body, b"Content-Encoding: " + how.encode())


def serve(c):
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        while True:
            text, rest = head(c)
            if text is None:
                return
            path = text.split(" ")[1].split("?")[0].strip("/")
            if "--quiet" not in sys.argv:
                print(path, flush=True)
            name, _, how = path.partition("/")
            if how:
                globals()[name](c, rest, how)
            else:
                globals()[name](c, rest)
            if name != "quick" and name != "coded":
                return
    except OSError:
        pass
    finally:
        c.close()


listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    conn, _ = listener.accept()
    threading.Thread(target=serve, args=(conn,), daemon=True).start()
