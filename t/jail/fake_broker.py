#!/usr/bin/env python3
"""A broker that does what a test says, and writes down what it is asked.

    fake_broker.py SOCKET LOG SCENARIO

SCENARIO is a JSON object:
    open      what to do with `open`; serve, resume, close, policy: the same
              "ok" (the default), {"refuse": ERROR}, {"raw": TEXT}, "hang",
              "close", or a list of these, one for each time
    task      replaces keys in the answer to `open`
    without   a list of keys that are left out of it
    after     a list of what to do when the doors are served:
              ["sleep", s], ["drain"], ["close"], ["stop", s] (the socket is
              gone for that long, then back), ["raw", TEXT], ["wait", OP]
    keep      true: the old connection stays open when the new one resumes
LOG gets one JSON object a line for each message, each connection, its end
("eof") and each request through a door ("door").
"""

import array
import json
import os
import socket
import sys
import threading
import time

CA = """-----BEGIN CERTIFICATE-----
MIIBhjCCAS2gAwIBAgIUFB6Ygy/jXyGJrIBxlbXZiIur+w4wCgYIKoZIzj0EAwIw
GDEWMBQGA1UEAwwNQSBmYWtlIGJyb2tlcjAgFw0yNjExMzAwMjA4MTBaGA8yMTI2
MTEwNjAyMDgxMFowGDEWMBQGA1UEAwwNQSBmYWtlIGJyb2tlcjBZMBMGByqGSM49
AgEGCCqGSM49AwEHA0IABAfjPkH8/vehz0w6d9JE+x5eawP0TPqLSY8N15oSWpXE
LC7UoVq1PapB4D8l+Y9WyJs2ZLd4OWf8scQf5QvHSIejUzBRMB0GA1UdDgQWBBRi
bwAyyLUo3HPX1IVSrl4qfVvQiDAfBgNVHSMEGDAWgBRibwAyyLUo3HPX1IVSrl4q
fVvQiDAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0cAMEQCIH4iof7etgcD
rlJtbZr4v4fuJzmjlmtecvCBBZ87lo/qAiAntejdBYwLUemfetwt2s5yWEi9+FgO
9+o8suae6J6g8g==
-----END CERTIFICATE-----
"""

IP_PKTINFO = 8
IPV6_FREEBIND = 78

path, log_path, scenario = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
log_file = open(log_path, "a", buffering=1)
lock = threading.Lock()
seen = threading.Condition()
counts = {}
ops = []

LIMITS = {
    "cpu": 1.0, "cpu_time_ms": 60000, "memory": 536870912, "pids": 256,
    "open_files": 1024, "wall_clock_ms": 20000, "output": 10000,
    "output_bytes": 1073741824, "near_limit": 80,
}

TASK = {
    "ok": True, "v": 1, "task_id": "0123456789abcdef0123456789abcdef",
    "limits": LIMITS,
    "box": {"isolation": "namespaces",
            "writable": [{"path": "/tmp/work", "bytes": 268435456}],
            "readable": [], "env": []},
    "ca": CA, "ca_hash": "a780eb87", "hosts": ["api.internal"], "hosts_count": 1,
    "policy_hash": "sha256:" + "ab" * 32,
    "doors": [{"name": "proxy", "port": 8899}],
}

EGRESS = {"allowed": 3, "denied": [], "denied_count": 0, "audit_lines": 7}


def log(**what):
    with lock:
        log_file.write(json.dumps(what) + "\n")
    with seen:
        ops.append(what.get("op"))
        seen.notify_all()


def action(op):
    what = scenario.get(op, "ok")
    if isinstance(what, list):
        n = counts.get(op, 0)
        counts[op] = n + 1
        what = what[min(n, len(what) - 1)]
    return what


current = [""]


def serve_door(listener):
    listener.setblocking(True)
    while True:
        try:
            conn, _ = listener.accept()
        except OSError:
            return
        conn.recv(65536)
        body = current[0].encode()
        log(op="door")
        conn.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%s"
                     % (len(body), body))
        conn.close()


def serve_udp(s):
    """Replies with what it got, from the address that it was sent to."""
    s.setblocking(True)
    if s.family == socket.AF_INET6:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        s.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)
    else:
        s.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
    while True:
        data, control, _, peer = s.recvmsg(4096, 256)
        try:
            s.sendmsg([b"door " + data], control, 0, peer)
        except OSError as e:
            log(udp=str(e))


def describe(fd):
    s = socket.socket(fileno=os.dup(fd))
    with s:
        return {
            "family": int(s.family), "type": int(s.type),
            "listening": s.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN),
            "v6only": s.family == socket.AF_INET6 and s.getsockopt(
                socket.IPPROTO_IPV6, socket.IPV6_V6ONLY),
            "name": s.getsockname()[:2],
            "cookie": int.from_bytes(
                s.getsockopt(socket.SOL_SOCKET, 71, 8), sys.byteorder),
        }


def after(conn, listener_box):
    for step in scenario.get("after", []):
        if step[0] == "sleep":
            time.sleep(step[1])
        elif step[0] == "wait":
            with seen:
                seen.wait_for(lambda: step[1] in ops, 60)
        elif step[0] == "drain":
            conn.sendall(b'{"event":"drain"}\n')
        elif step[0] == "raw":
            conn.sendall(step[1].encode())
        elif step[0] == "close":
            conn.shutdown(socket.SHUT_RDWR)
        elif step[0] == "stop":
            listener_box[0].close()
            os.unlink(path)
            conn.shutdown(socket.SHUT_RDWR)
            time.sleep(step[1])
            listener_box[0] = listen()
            threading.Thread(target=accept, args=(listener_box,),
                             daemon=True).start()


def client(conn, listener_box):
    buf = b""
    fds = []
    while True:
        try:
            data, found, _, _ = socket.recv_fds(conn, 65536, 64)
        except OSError:
            data, found = b"", []
        fds += found
        if not data:
            log(op="eof")
            return
        buf += data
        while b"\n" in buf:
            line, buf = buf.split(b"\n", 1)
            message = json.loads(line)
            op = message.get("op")
            log(op=op, message=message, fds=[describe(f) for f in fds])
            what = action(op)
            if what == "hang":
                continue
            if what == "close":
                conn.shutdown(socket.SHUT_RDWR)
                return
            if isinstance(what, dict) and "raw" in what:
                conn.sendall(what["raw"].encode())
                continue
            if isinstance(what, dict) and "refuse" in what:
                conn.sendall(json.dumps(
                    {"ok": False, "error": what["refuse"],
                     "message": "as the scenario says"}).encode() + b"\n")
                conn.shutdown(socket.SHUT_RDWR)
                return
            if op == "open":
                answer = dict(TASK, **scenario.get("task", {}))
                for key in scenario.get("without", []):
                    del answer[key]
            elif op == "policy":
                answer = {"ok": True, "policy": {"name": message["policy"]}}
            elif op in ("serve", "resume"):
                answer = {"ok": True, "lease": "lease of " + op}
                current[0] = op
                for f in fds:
                    s = socket.socket(fileno=f)
                    if s.type == socket.SOCK_STREAM:
                        threading.Thread(target=serve_door, args=(s,),
                                         daemon=True).start()
                    else:
                        threading.Thread(target=serve_udp, args=(s,),
                                         daemon=True).start()
                fds = []
            elif op == "close":
                answer = {"ok": True, "egress": EGRESS}
            else:
                continue
            conn.sendall(json.dumps(answer).encode() + b"\n")
            if op == "serve":
                threading.Thread(target=after, args=(conn, listener_box),
                                 daemon=True).start()


def listen():
    s = socket.socket(socket.AF_UNIX)
    s.bind(path)
    os.chmod(path, 0o777)
    s.listen(64)
    return s


def accept(listener_box):
    listener = listener_box[0]
    while True:
        try:
            conn, _ = listener.accept()
        except OSError:
            return
        log(op="connect")
        threading.Thread(target=client, args=(conn, listener_box),
                         daemon=True).start()


listener_box = [listen()]
threading.Thread(target=accept, args=(listener_box,), daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
