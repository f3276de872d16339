#!/usr/bin/python3
"""An upstream that counts every byte, also of what never comes to its end.

  counting_upstream.py LOG [CERT KEY]   HTTP/1.1, over TLS with a certificate

Prints its port.  LOG gets a JSON line for each connection that ends:
  {"path":"/sink","raw":n,"sent":n}     bytes received and sent, as they are in
                                        the connection (inside of TLS)
and before that, where a path says so, the path as a line of its own.

  /sink                 reads the body, answers 200 with its length
  /early?read=N&how=H   reads N bytes of the body and answers 413; then H is
                        "close": closes (unread bytes make that a reset),
                        "keep": stays open and reads no more, "reset": resets,
                        "broken": by TLS, a record that no key has made comes
                        in the answer's segment
  /wait?ms=N            answers after N milliseconds
  /late                 answers 200 at once, and goes on reading the body; then
                        the length of it is the answer's body
  /down?n=N&how=H       answers with N bytes; H is "length", "chunked" or "end"
  /ws?n=N               101; sends N bytes, logs its path, reads what comes
  /hold                 logs its path and reads until the client closes
  /drip                 logs its path; an answer that never ends, whose lines
                        are numbered, one each 20 ms
"""

import base64
import hashlib
import json
import os
import socket
import ssl
import struct
import sys
import threading
import time
import urllib.parse

BLOCK = bytes(range(256)) * 256
lock = threading.Lock()


def say(**fields):
    with lock:
        with open(sys.argv[1], "a") as log:
            log.write(json.dumps(fields) + "\n")


class Peer:
    def __init__(self, sock):
        self.sock = sock
        self.raw = 0
        self.sent = 0
        self.path = None
        self.buffer = b""

    def more(self):
        data = self.sock.recv(65536)
        if not data:
            raise EOFError
        self.raw += len(data)
        self.buffer += data

    def until(self, mark):
        while mark not in self.buffer:
            self.more()
        head, _, self.buffer = self.buffer.partition(mark)
        return head

    def send(self, data):
        self.sock.sendall(data)
        self.sent += len(data)

    def body(self, most=None):
        """Reads the body, or most bytes of it; how many those were."""
        got = 0
        if self.chunked:
            while most is None or got < most:
                size = int(self.until(b"\r\n").split(b";")[0], 16)
                if size == 0:
                    self.until(b"\r\n")
                    break
                left = size + 2
                while left:
                    if not self.buffer:
                        self.more()
                    n = min(left, len(self.buffer))
                    self.buffer = self.buffer[n:]
                    left -= n
                got += size
            return got
        most = self.length if most is None else min(most, self.length)
        while got < most:
            if not self.buffer:
                self.more()
            n = min(most - got, len(self.buffer))
            self.buffer = self.buffer[n:]
            got += n
        return got

    def answer(self, status, text, more=b""):
        self.send(b"HTTP/1.1 %d Answer\r\nContent-Length: %d\r\n%s\r\n%s"
                  % (status, len(text), more, text))

    def serve(self):
        while True:
            head = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
            self.method, target, _ = head[0].split(" ")
            names = {k.lower(): v.strip() for k, _, v in
                     (line.partition(":") for line in head[1:])}
            self.length = int(names.get("content-length", "0"))
            self.chunked = "chunked" in names.get("transfer-encoding", "")
            url = urllib.parse.urlsplit(target)
            query = dict(urllib.parse.parse_qsl(url.query))
            self.path = target
            if not getattr(self, url.path[1:])(query, names):
                return

    def sink(self, query, names):
        self.answer(200, b"%d\n" % self.body())
        return True

    def early(self, query, names):
        self.body(int(query.get("read", "0")))
        how = query.get("how", "close")
        if how == "broken":
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        self.answer(413, b"too much\n", b"Connection: close\r\n")
        if how == "broken":
            with socket.socket(fileno=os.dup(self.sock.fileno())) as raw:
                raw.sendall(b"\x17\x03\x03\0\x20" + b"x" * 32)
                raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
        if how == "keep":
            say(wait=self.path)
            time.sleep(600)
        if how == "reset":
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                 struct.pack("ii", 1, 0))
            # the answer is read before the reset can overtake it
            while struct.unpack("B", self.sock.getsockopt(
                    socket.IPPROTO_TCP, socket.TCP_INFO, 1))[0] == 1:
                unacked = struct.unpack_from("I", self.sock.getsockopt(
                    socket.IPPROTO_TCP, socket.TCP_INFO, 28), 24)[0]
                if unacked == 0:
                    break
                time.sleep(0.001)

    def wait(self, query, names):
        say(wait=self.path)
        time.sleep(int(query["ms"]) / 1000)
        self.answer(200, b"waited\n")
        return True

    def late(self, query, names):
        self.send(b"HTTP/1.1 200 Answer\r\nTransfer-Encoding: chunked\r\n\r\n"
                  b"3\r\nok\n\r\n")
        say(wait=self.path)
        text = b"%d\n" % self.body()
        self.send(b"%x\r\n%s\r\n0\r\n\r\n" % (len(text), text))
        return True

    def down(self, query, names):
        n = int(query["n"])
        how = query.get("how", "length")
        self.send(b"HTTP/1.1 200 Answer\r\n"
                  + {"length": b"Content-Length: %d\r\n\r\n" % n,
                     "chunked": b"Transfer-Encoding: chunked\r\n\r\n",
                     "end": b"Connection: close\r\n\r\n"}[how])
        while n and self.method != "HEAD":
            block = BLOCK[:n]
            if how == "chunked":
                self.send(b"%x\r\n%s\r\n" % (len(block), block))
            else:
                self.send(block)
            n -= len(block)
        if how == "chunked":
            self.send(b"0\r\n\r\n")
        return how != "end"

    def ws(self, query, names):
        key = names["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest())
        self.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                  b"Connection: Upgrade\r\nSec-WebSocket-Accept: " + accept
                  + b"\r\n\r\n")
        n = int(query.get("n", "0"))
        while n:
            self.send(BLOCK[:n])
            n -= len(BLOCK[:n])
        say(wait=self.path)
        while True:
            self.buffer = b""
            self.more()

    def hold(self, query, names):
        say(wait=self.path)
        while True:
            self.buffer = b""
            self.more()

    def drip(self, query, names):
        self.send(b"HTTP/1.1 200 Answer\r\nTransfer-Encoding: chunked\r\n\r\n")
        say(wait=self.path)
        for i in range(1000000):
            line = b"%d\n" % i
            self.send(b"%x\r\n%s\r\n" % (len(line), line))
            time.sleep(0.02)


def handle(sock, context):
    peer = None
    try:
        sock.settimeout(120)

        # else an answer that still waits is lost with a close, unsent
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context:
            sock = context.wrap_socket(sock, server_side=True)
        peer = Peer(sock)
        peer.serve()
    except (OSError, EOFError, ValueError, AttributeError):
        pass
    finally:
        if peer and peer.path:
            say(path=peer.path, raw=peer.raw, sent=peer.sent)
        sock.close()


def main():
    context = None
    if len(sys.argv) > 2:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*sys.argv[2:4])

    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", 0))
    listener.listen(256)
    print(listener.getsockname()[1], flush=True)

    def accept():
        while True:
            sock, _ = listener.accept()
            threading.Thread(target=handle, args=(sock, context),
                             daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()

    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
