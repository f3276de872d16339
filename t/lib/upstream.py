#!/usr/bin/python3
"""The outside world of a test: an HTTP server that writes down every byte.

What the broker sends is judged by what arrives here, so requests are kept
raw, and every connection and handshake is written down too: that nothing was
dialled must be as easy to prove as what was sent.  A line is in the log
before its answer is on the wire, so whoever has the answer can read the line.

Prints its port on stdout, and ends when its stdin closes, so that it cannot
outlive the test that started it.

Log, one JSON object a line:
  {"event":"accept","conn":1}       with --watch FILE --watch-for TEXT also
                                     "watched": how often TEXT is in FILE
  {"event":"handshake","conn":1,"ok":true,"sni":"api.internal","version":".."}
  {"event":"request","conn":1,"tls":true,"sni":..,"method":..,"target":..,
   "headers":[[name,value]..],"head":base64,"body":base64,"body_bytes":n}
  {"event":"close","conn":1}

Paths: /status/NNN  /echo  /headers  /slow?ms=  /stream?n=&ms=  /big?n=
  /set?NAME=VALUE&..  /redirect?to=  /raw?b64=&pad=  /cut?b64=&pad= (@PAD@: so many bytes)
  /short?n=
  /drop  /reset  /unread (answers without having read the body)
  /sink (counts a body with a length, of any size, and keeps nothing of it)
  /upgrade?connection=&upgrade=&accept= (lines of its head; empty: none)
    &gate=NAME (after /open/NAME)
  /gate/NAME  /interim/NAME  /open/NAME  /flood/status?n=  /flood/header?n=
Anything else: 200 and a small JSON object.
"""

import argparse
import base64
import hashlib
import json
import os
import re
import socket
import ssl
import struct
import sys
import threading
import time
import urllib.parse

BODY_MAX = 64 * 1024 * 1024
BODY_KEPT = 1024 * 1024

WEBSOCKET = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"     # RFC 6455, 1.3


class Log:
    def __init__(self, path):
        self.lock = threading.Lock()
        self.gates = {}
        self.fd = None
        if path:
            self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND,
                              0o644)

    def gate(self, name):
        with self.lock:
            return self.gates.setdefault(name, threading.Event())

    def write(self, **fields):
        if self.fd is not None:
            with self.lock:
                os.write(self.fd, (json.dumps(fields) + "\n").encode())


class Closed(Exception):
    pass


class Connection:
    def __init__(self, sock, conn, tls, sni, args, log):
        self.sock = sock
        self.conn = conn
        self.tls = tls
        self.sni = sni
        self.args = args
        self.log = log
        self.buffer = b""

    # reading

    def more(self):
        data = self.sock.recv(65536)
        if not data:
            raise Closed
        self.buffer += data

    def read_until(self, mark):
        while mark not in self.buffer:
            if len(self.buffer) > 1024 * 1024:
                raise Closed
            self.more()
        end = self.buffer.index(mark) + len(mark)
        data, self.buffer = self.buffer[:end], self.buffer[end:]
        return data

    def read_bytes(self, n):
        data = bytearray(self.buffer[:n])
        self.buffer = self.buffer[n:]
        while len(data) < n:
            more = self.sock.recv(min(n - len(data), 65536))
            if not more:
                raise Closed
            data += more
        return bytes(data)

    def read_body(self, headers):
        names = {k.lower(): v for k, v in headers}

        if names.get("expect", "").lower() == "100-continue":
            self.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

        if "chunked" in names.get("transfer-encoding", "").lower():
            body = bytearray()
            while True:
                size = int(self.read_until(b"\r\n").split(b";")[0], 16)
                if size == 0:
                    while self.read_until(b"\r\n") != b"\r\n":
                        pass
                    return bytes(body)
                body += self.read_bytes(size)
                self.read_bytes(2)
                if len(body) > BODY_MAX:
                    raise Closed

        n = int(names.get("content-length", "0"))
        if n > BODY_MAX:
            raise Closed
        return self.read_bytes(n)

    def drop_body(self, headers):
        names = {k.lower(): v for k, v in headers}
        n = int(names["content-length"])
        left = n - len(self.buffer)
        self.buffer = b""
        while left > 0:
            more = len(self.sock.recv(min(left, 1024 * 1024)))
            if not more:
                raise Closed
            left -= more
        return n

    # answering

    def answer(self, status, body=b"", headers=(), ctype="application/json"):
        lines = ["HTTP/1.1 %d %s" % (status, "Answer"),
                 "Content-Type: " + ctype]
        if not (status < 200 or status in (204, 304)):
            lines.append("Content-Length: %d" % len(body))
        lines += ["%s: %s" % pair for pair in headers]
        if self.args.keep:
            lines.append("Keep-Alive: timeout=%d" % self.args.keep)
        if self.args.no_keepalive:
            lines.append("Connection: close")
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        if self.method == "HEAD" or status in (204, 304):
            body = b""
        self.sock.sendall(head + body)

    def do_status(self, rest, query, headers, body):
        self.answer(int(rest or "200"),
                    json.dumps({"status": int(rest or "200")}).encode())

    def do_echo(self, rest, query, headers, body):
        ctype = dict((k.lower(), v) for k, v in headers).get(
            "content-type", "application/octet-stream")
        self.answer(200, body, ctype=ctype)

    def do_headers(self, rest, query, headers, body):
        self.answer(200, json.dumps({"headers": headers}).encode())

    def do_slow(self, rest, query, headers, body):
        time.sleep(int(query.get("ms", "100")) / 1000)
        self.answer(200, b'{"slow":true}')

    def do_stream(self, rest, query, headers, body):
        self.sock.sendall(b"HTTP/1.1 200 Answer\r\n"
                          b"Content-Type: text/event-stream\r\n"
                          b"Transfer-Encoding: chunked\r\n\r\n")
        for i in range(int(query.get("n", "3"))):
            data = b"data: %d\n\n" % i
            self.sock.sendall(b"%x\r\n%s\r\n" % (len(data), data))
            time.sleep(int(query.get("ms", "10")) / 1000)
        self.sock.sendall(b"0\r\n\r\n")

    def do_gate(self, rest, query, headers, body):
        """One event, and the next when somebody asks for /open/NAME."""
        self.sock.sendall(b"HTTP/1.1 200 Answer\r\n"
                          b"Content-Type: text/event-stream\r\n"
                          b"Transfer-Encoding: chunked\r\n\r\n"
                          b"9\r\ndata: 0\n\n\r\n")
        self.log.gate(rest).wait(self.args.timeout)
        self.sock.sendall(b"9\r\ndata: 1\n\n\r\n0\r\n\r\n")

    def do_open(self, rest, query, headers, body):
        self.log.gate(rest).set()
        self.answer(200, b'{"open":true}')

    def do_interim(self, rest, query, headers, body):
        """An answer before the answer, which comes when /open/NAME does."""
        self.sock.sendall(b"HTTP/1.1 103 Hints\r\nLink: </x>\r\n\r\n")
        self.log.gate(rest).wait(self.args.timeout)
        self.answer(200, b'{"late":true}')

    def do_flood(self, rest, query, headers, body):
        """A line without an end: n bytes in the status line or a header."""
        self.sock.sendall({
            "status": b"HTTP/1.1 200 ",
            "header": b"HTTP/1.1 200 Answer\r\nX-Flood: ",
            "headers": b"HTTP/1.1 200 Answer\r\n",
        }[rest])
        block = (b"X-Flood: a\r\n" if rest == "headers" else b"a") * 4096
        for _ in range(int(query.get("n", "1048576")) // len(block)):
            self.sock.sendall(block)
        raise Closed

    def do_big(self, rest, query, headers, body):
        n = int(query.get("n", "1048576"))
        self.sock.sendall(b"HTTP/1.1 200 Answer\r\n"
                          b"Content-Type: application/octet-stream\r\n"
                          b"Content-Length: %d\r\n\r\n" % n)
        block = bytes(range(256)) * 256
        while n > 0 and self.method != "HEAD":
            self.sock.sendall(block[:n])
            n -= min(n, len(block))

    def do_set(self, rest, query, headers, body):
        self.answer(200, b'{"set":true}', headers=query.items())

    def do_redirect(self, rest, query, headers, body):
        self.answer(302, b"{}", headers=[("Location", query.get("to", "/"))])

    @staticmethod
    def raw_bytes(query):
        data = base64.urlsafe_b64decode(query.get("b64", ""))
        return data.replace(b"@PAD@", b"x" * int(query.get("pad", "0")))

    def do_raw(self, rest, query, headers, body):
        """These bytes, and an end, unless they are an answer that has one:
        a connection that can be used again is not closed behind its back."""
        data = self.raw_bytes(query)
        self.sock.sendall(data)
        head, end, body = data[data.rfind(b"HTTP/1."):].partition(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\nContent-Length: *(\d+)", head)
        if not (end and length and int(length[1]) == len(body)):
            raise Closed

    def do_cut(self, rest, query, headers, body):
        """The same, with an end in any case."""
        self.sock.sendall(self.raw_bytes(query))
        raise Closed

    def do_reset(self, rest, query, headers, body):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                             struct.pack("ii", 1, 0))
        raise Closed

    def do_short(self, rest, query, headers, body):
        n = int(query.get("n", "1000"))
        self.sock.sendall(b"HTTP/1.1 200 Answer\r\n"
                          b"Content-Length: %d\r\n\r\nshort" % n)
        raise Closed

    def do_drop(self, rest, query, headers, body):
        raise Closed

    def do_upgrade(self, rest, query, headers, body):
        """To a websocket that echoes bytes, or what the query says instead."""
        if "gate" in query:
            self.log.gate(query["gate"]).wait(60)
        names = {k.lower(): v for k, v in headers}
        key = names.get("sec-websocket-key", "").encode() + WEBSOCKET
        accept = base64.b64encode(hashlib.sha1(key).digest()).decode()
        lines = [query.get("connection", "Connection: Upgrade"),
                 query.get("upgrade", "Upgrade: websocket"),
                 query.get("accept", "Sec-WebSocket-Accept: " + accept)]
        self.sock.sendall("\r\n".join(
            ["HTTP/1.1 101 Switching Protocols"] + [x for x in lines if x]
            + ["", ""]).encode())
        while True:
            if self.buffer:
                self.sock.sendall(self.buffer)
                self.buffer = b""
            self.more()

    def serve(self):
        while True:
            head = self.read_until(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")
            self.method, target = (lines[0].split(" ") + ["", ""])[:2]
            headers = []
            for line in lines[1:]:
                name, colon, value = line.partition(":")
                if colon:
                    headers.append([name, value.strip()])

            body, dropped = b"", 0
            if target == "/sink":
                dropped = self.drop_body(headers)
            elif target != "/unread":
                body = self.read_body(headers)

            self.log.write(event="request", conn=self.conn, tls=self.tls,
                           sni=self.sni, method=self.method, target=target,
                           headers=headers,
                           head=base64.b64encode(head).decode(),
                           body=base64.b64encode(body[:BODY_KEPT]).decode(),
                           body_bytes=len(body) + dropped)

            url = urllib.parse.urlsplit(target)
            query = dict(urllib.parse.parse_qsl(url.query,
                                                keep_blank_values=True))
            word, _, rest = url.path.lstrip("/").partition("/")
            handler = getattr(self, "do_" + word, None)

            if handler:
                handler(rest, query, headers, body)
            else:
                names = {k.lower(): v for k, v in headers}
                self.answer(200, json.dumps({
                    "ok": True, "method": self.method, "path": url.path,
                    "host": names.get("host"), "body_bytes": len(body),
                }).encode())

            if self.args.no_keepalive:
                raise Closed


def handle(raw, conn, args, log, context, names):
    watched = {}
    if args.watch:
        with open(args.watch, "rb") as f:
            watched["watched"] = f.read().count(args.watch_for.encode())
    log.write(event="accept", conn=conn, **watched)
    sock = raw
    sni = None

    try:
        raw.settimeout(args.timeout)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        if context:
            try:
                sock = context.wrap_socket(raw, server_side=True,
                                           do_handshake_on_connect=False)
                sock.do_handshake()
            except (ssl.SSLError, OSError) as e:
                log.write(event="handshake", conn=conn, ok=False,
                          sni=names.pop(id(sock), None), error=str(e))
                return

            sni = names.pop(id(sock), None)
            log.write(event="handshake", conn=conn, ok=True, sni=sni,
                      version=sock.version())

        Connection(sock, conn, bool(context), sni, args, log).serve()

    except (Closed, OSError, ValueError):
        pass

    finally:
        # before the close, so that a peer that sees it can read the line
        log.write(event="close", conn=conn)
        try:
            sock.close()
        except OSError:
            pass


def tls_context(args, names):
    def load(pair):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*pair)
        if args.tls_max == "1.2":
            context.maximum_version = ssl.TLSVersion.TLSv1_2
        return context

    by_name = {}
    for item in args.sni:
        name, _, pair = item.partition("=")
        by_name[name] = load(pair.split(","))

    def choose(sock, name, context):
        names[id(sock)] = name
        if name in by_name:
            sock.context = by_name[name]

    context = load((args.cert, args.key))
    context.sni_callback = choose
    return context


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bind", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log")
    parser.add_argument("--cert")
    parser.add_argument("--key")
    parser.add_argument("--sni", action="append", default=[],
                        metavar="NAME=CERT,KEY")
    parser.add_argument("--tls-max", default="1.3")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--no-keepalive", action="store_true")
    parser.add_argument("--keep", type=int, default=61,
                        help="seconds in Keep-Alive; 0: none is sent")
    parser.add_argument("--watch", metavar="FILE",
                        help="count --watch-for in it at each accept")
    parser.add_argument("--watch-for", metavar="TEXT")
    parser.add_argument("--timeout", type=float, default=60)
    args = parser.parse_args()

    names = {}
    context = None if args.plain else tls_context(args, names)
    log = Log(args.log)

    family = socket.AF_INET6 if ":" in args.bind else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((args.bind, args.port))
    listener.listen(256)

    print(listener.getsockname()[1], flush=True)

    def accept():
        conn = 0
        while True:
            sock, _ = listener.accept()
            conn += 1
            threading.Thread(target=handle, daemon=True, args=(
                sock, conn, args, log, context, names)).start()

    threading.Thread(target=accept, daemon=True).start()

    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
