#!/usr/bin/python3
"""Package registries and git, as private ones are: over TLS, behind a token.

    site.py --cert C --key K --root DIR --log FILE [--need HOST=VALUE]...

serves DIR/HOST/ to the host of that name, and DIR/HOST/git/ by git's own
http-backend.  A host that is named by --need answers 401 unless the request
has that value as its Authorization.

Prints its port on stdout, and ends when its stdin closes.

Log, one JSON object a line, written before the answer:
  {"event":"request","host":..,"method":..,"target":..,"authorization":..}
"""

import argparse
import http.server
import json
import os
import socketserver
import ssl
import subprocess
import sys
import threading
import urllib.parse

BACKEND = "/usr/lib/git-core/git-http-backend"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def log_message(self, *args):
        pass

    def body(self):
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            data = b""
            while True:
                n = int(self.rfile.readline().split(b";")[0], 16)
                if n == 0:
                    while self.rfile.readline() not in (b"\r\n", b"\n", b""):
                        pass
                    return data
                data += self.rfile.read(n)
                self.rfile.readline()
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def answer(self, status, data, headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def git(self, root, path, query, body):
        env = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": root, "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
            "REMOTE_USER": "broker", "REMOTE_ADDR": "127.0.0.1",
            "REQUEST_METHOD": self.command, "PATH_INFO": path,
            "QUERY_STRING": query, "CONTENT_LENGTH": str(len(body)),
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING":
                self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        run = subprocess.run([BACKEND], input=body, env=env,
                             stdout=subprocess.PIPE)
        head, _, data = run.stdout.partition(b"\r\n\r\n")
        headers = [line.split(": ", 1)
                   for line in head.decode().split("\r\n")]
        status = [v for k, v in headers if k == "Status"]
        self.answer(int(status[0].split()[0]) if status else 200, data,
                    [(k, v) for k, v in headers if k != "Status"])

    def serve(self):
        body = self.body()
        host = self.headers.get("Host", "").split(":")[0]
        authorization = self.headers.get("Authorization")

        self.server.note(event="request", host=host, method=self.command,
                         target=self.path, authorization=authorization)

        need = self.server.need.get(host)
        if need and authorization != need:
            self.answer(401, b"{}", [("WWW-Authenticate", "Basic")])
            return

        url = urllib.parse.urlsplit(self.path)
        root = os.path.join(self.server.root, host)
        path = urllib.parse.unquote(url.path)

        if path.startswith("/git/"):
            self.git(os.path.join(root, "git"), path[len("/git"):],
                     url.query, body)
            return

        name = os.path.realpath(root + path)
        if os.path.isdir(name):
            name = os.path.join(name, "index.html")
        if not name.startswith(root + "/") or not os.path.isfile(name):
            self.answer(404, b"{}")
            return

        kinds = {".html": "text/html", ".json": "application/json"}
        with open(name, "rb") as f:
            self.answer(200, f.read(), [("Content-Type", kinds.get(
                os.path.splitext(name)[1], "application/octet-stream"))])

    do_GET = do_HEAD = do_POST = serve


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    lock = threading.Lock()

    def note(self, **what):
        with self.lock:
            os.write(self.log, (json.dumps(what) + "\n").encode())

    def finish_request(self, sock, peer):
        sock = self.context.wrap_socket(sock, server_side=True)
        super().finish_request(sock, peer)
        sock.close()

    def handle_error(self, request, peer):
        pass


def main():
    parser = argparse.ArgumentParser()
    for name in ("cert", "key", "root", "log"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--need", action="append", default=[])
    args = parser.parse_args()

    server = Server(("127.0.0.1", 0), Handler)
    server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.context.load_cert_chain(args.cert, args.key)
    server.root = os.path.realpath(args.root)
    server.need = dict(item.split("=", 1) for item in args.need)
    server.log = os.open(args.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND,
                         0o644)

    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
