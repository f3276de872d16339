#!/usr/bin/python3
"""A box's side of long bodies, raw: what a client library would not do.

  box_flows.py send HOW COUNT BYTES URL     COUNT requests at once, each with a
        body of BYTES; HOW is "length", "chunked", or
          line=N    a size line of N bytes before the only chunk
          lines=N   chunks of one byte, with N bytes of extension each
          trailer=N   a trailer of N bytes
          stuck     only half of the body is sent, and the rest waited with
  box_flows.py get COUNT URL                COUNT requests at once
  box_flows.py ws COUNT BYTES URL           COUNT upgrades, BYTES sent by each
  box_flows.py eof URL                      GET, and at once the end

Prints a JSON list, of each: status, reason (of a refusal), took (bytes sent),
got (bytes of the answer's body), closed (the connection ended).
With BOX_CA in the environment the request goes by CONNECT and TLS.
"""

import json
import os
import re
import select
import socket
import ssl
import sys
import threading
import urllib.parse

BLOCK = b"0123456789abcdef" * 4096
WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def dial(url):
    s = socket.create_connection(("127.0.0.1", 8899), 60)
    if "BOX_CA" not in os.environ:
        return s, url.geturl()
    to = url.netloc.encode()
    s.sendall(b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (to, to))
    s.recv(4096)
    context = ssl.create_default_context(cafile=os.environ["BOX_CA"])
    return (context.wrap_socket(s, server_hostname=url.hostname),
            url.path + ("?" + url.query if url.query else ""))


def pieces(how, n):
    word, _, more = how.partition("=")
    if word in ("length", "stuck"):
        for i in range(0, n, len(BLOCK)):
            yield BLOCK[:min(len(BLOCK), n - i)]
    elif word == "chunked":
        for i in range(0, n, len(BLOCK)):
            data = BLOCK[:min(len(BLOCK), n - i)]
            yield b"%x\r\n%s\r\n" % (len(data), data)
        yield b"0\r\n\r\n"
    elif word == "line":
        yield b"5;" + b"a" * (int(more) - 4) + b"\r\nhello\r\n0\r\n\r\n"
    elif word == "lines":
        one = b"1;" + b"a" * int(more) + b"\r\nx\r\n"
        for _ in range(n):
            yield one
        yield b"0\r\n\r\n"
    elif word == "trailer":
        yield b"5\r\nhello\r\n0\r\nA: " + b"a" * (int(more) - 5) + b"\r\n\r\n"


def exchange(s, head, parts, result):
    """Sends, and reads meanwhile, as an attentive client does."""
    answer = Answer(result)
    parts = iter(parts)
    waiting = head.encode()
    s.setblocking(False)

    while not answer.whole:
        readable, writable, _ = select.select([s], [s] if waiting else [], [],
                                              60)
        if not readable and not writable:
            break
        try:
            if writable:
                n = s.send(waiting)
                result["took"] += n
                waiting = waiting[n:] or next(parts, b"")
        except WOULD_BLOCK:
            pass
        except OSError:
            waiting = b""                   # its answer may still come
        try:
            if readable:
                answer.take(s.recv(65536))
        except WOULD_BLOCK:
            pass
        except OSError:
            answer.end()

    answer.tell()


class Answer:
    def __init__(self, result):
        self.result = result
        self.data = b""
        self.whole = False

    def end(self):
        self.result["closed"] = True
        self.whole = True

    def take(self, more):
        if not more:
            self.end()
            return
        if len(self.data) < 65536:
            self.data += more
        if self.data.startswith(b"HTTP/1.1 100 "):
            self.data = self.data.partition(b"\r\n\r\n")[2]
        head, found, body = self.data.partition(b"\r\n\r\n")
        if not found:
            return
        if "status" not in self.result:
            self.result["status"] = int(head.split(b" ")[1])
            self.result["got"] = len(body)
        else:
            self.result["got"] += len(more)
        length = re.search(rb"\ncontent-length: *(\d+)", head, re.I)
        if length:
            self.whole = self.result["got"] >= int(length.group(1))
        elif re.search(rb"\ntransfer-encoding:", head, re.I):
            self.whole = more.endswith(b"0\r\n\r\n")

    def tell(self):
        reason = re.search(rb'"reason": ?"([a-z_]+)"', self.data)
        self.result["reason"] = reason.group(1).decode() if reason else None
        text = self.data.partition(b"\r\n\r\n")[2]
        self.result["text"] = text[:64].decode("latin-1")


def send(how, n, url, result):
    s, target = dial(url)
    exchange(s, "POST %s HTTP/1.1\r\nHost: %s\r\n%s\r\n\r\n"
             % (target, url.netloc,
                "Content-Length: %d" % n if how in ("length", "stuck")
                else "Transfer-Encoding: chunked"),
             pieces(how, n // 2 if how == "stuck" else n), result)


def get(url, result, eof=False):
    s, target = dial(url)
    s.sendall(("GET %s HTTP/1.1\r\nHost: %s\r\n\r\n"
               % (target, url.netloc)).encode())
    if eof:
        s.shutdown(socket.SHUT_WR)
    exchange(s, "", (), result)


def websocket(n, url, result):
    s, target = dial(url)
    exchange(s, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\n"
             "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
             "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
             % (target, url.netloc), pieces("length", n), result)


def main():
    what, args = sys.argv[1], sys.argv[2:]
    url = urllib.parse.urlsplit(args[-1])
    count = 1 if what == "eof" else int(args[-3] if what in ("send", "ws")
                                        else args[0])
    results = [{"took": 0, "got": 0, "closed": False} for _ in range(count)]
    threads = []

    for result in results:
        if what == "send":
            job = (send, args[0], int(args[2]), url, result)
        elif what == "ws":
            job = (websocket, int(args[1]), url, result)
        else:
            job = (get, url, result, what == "eof")
        threads.append(threading.Thread(target=job[0], args=job[1:]))

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    print(json.dumps(results))


if __name__ == "__main__":
    sys.exit(main())
