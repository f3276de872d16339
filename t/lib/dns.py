#!/usr/bin/python3
"""A DNS server of a test's own, over UDP and TCP on one port.

Prints its port on stdout, and ends when its stdin closes.

Records are a JSON file, read again whenever it has changed:
  {"api.internal": {"A": ["127.0.0.1"], "AAAA": ["::1"], "ttl": 0},
   "rebind.test":  {"A": [["203.0.113.7"], ["127.0.0.1"]]},   a list of lists:
                                          one round after the other, and again
   "alias.test":   {"CNAME": "api.internal"},   the whole chain is answered;
                                                with "alone": true only itself
   "odd.test":     {"A": ["127.0.0.1"], "odd": "id"},    see Server.odd
   "gone.test":    {"rcode": "SERVFAIL"},
   "slow.test":    {"A": ["127.0.0.1"], "delay_ms": 300},
   "mute.test":    {"drop": true},           a list of types: only these
   "half.test":    {"A": [..], "drop_tcp": true},   says nothing over TCP
   "long.test":    {"A": [..], "delay_tcp_ms": 1500, "cut": 50},   says so many
                                          times over UDP that it was cut
   "else.test":    {"A": ["127.0.0.1"], "elsewhere": "127.0.0.2"},   an answer
        with that address comes first, from another address of this host
   "*.wild.test":  {"A": ["127.0.0.1"]}}
A name that is not there is NXDOMAIN; a type that is not there is an empty
answer.  Answers over 512 bytes are cut over UDP (TC), whole over TCP.

Log, one JSON object a line, written before the answer:
  {"name":"api.internal","type":"A","proto":"udp","rcode":"NOERROR",
   "answers":["127.0.0.1"],"from":40000}
with --watch FILE --watch-for TEXT also "seen": is the name in a line of that
file that has the text?
"""

import argparse
import json
import os
import socket
import struct
import sys
import threading
import time

TYPES = {1: "A", 5: "CNAME", 28: "AAAA", 12: "PTR", 16: "TXT", 65: "HTTPS"}
RCODES = {"NOERROR": 0, "FORMERR": 1, "SERVFAIL": 2, "NXDOMAIN": 3,
          "REFUSED": 5}


class Records:
    def __init__(self, path):
        self.path = path
        self.stamp = None
        self.table = {}
        self.rounds = {}
        self.lock = threading.Lock()

    def find(self, name):
        st = os.stat(self.path)
        stamp = (st.st_mtime_ns, st.st_size, st.st_ino)
        if stamp != self.stamp:
            with open(self.path) as f:
                self.table = json.load(f)
            self.stamp = stamp

        if name in self.table:
            return self.table[name]
        labels = name.split(".")
        for i in range(1, len(labels)):
            wild = "*." + ".".join(labels[i:])
            if wild in self.table:
                return self.table[wild]
        return None

    def answer(self, name, kind):
        """(rcode, [(type, value, owner)], ttl, entry)"""
        with self.lock:
            entry = self.find(name)
            if entry is None:
                return "NXDOMAIN", [], 0, {}
            if "rcode" in entry:
                return entry["rcode"], [], 0, entry

            ttl = entry.get("ttl", 0)
            found, owner, target = [], name, entry
            while "CNAME" in target and len(found) < 64:
                found.append(("CNAME", target["CNAME"], owner))
                owner = target["CNAME"]
                if entry.get("alone"):
                    return "NOERROR", found, ttl, entry
                target = self.find(owner) or {}

            values = target.get(kind, [])
            if values and isinstance(values[0], list):
                turn = self.rounds.get((name, kind), 0)
                self.rounds[(name, kind)] = turn + 1
                values = values[turn % len(values)]

            return ("NOERROR", found + [(kind, v, owner) for v in values],
                    ttl, entry)


def encode_name(name):
    out = b""
    for label in name.rstrip(".").split("."):
        raw = label.encode("latin-1")
        out += bytes([len(raw)]) + raw
    return out + b"\0"


def encode_value(kind, value):
    if kind == "A":
        return 1, socket.inet_pton(socket.AF_INET, value)
    if kind == "AAAA":
        return 28, socket.inet_pton(socket.AF_INET6, value)
    return 5, encode_name(value)


def parse_question(query):
    labels, at = [], 12
    while query[at]:
        n = query[at]
        labels.append(query[at + 1:at + 1 + n].decode("latin-1"))
        at += 1 + n
    kind, = struct.unpack_from("!H", query, at + 1)
    return ".".join(labels), TYPES.get(kind, str(kind)), query[12:at + 5]


class Server:
    def __init__(self, args):
        self.records = Records(args.records)
        self.log_fd = None
        if args.log:
            self.log_fd = os.open(
                args.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.watch = args.watch
        self.watch_for = (args.watch_for or "").encode()
        self.other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.other.bind(("127.0.0.19", 0))

    def log(self, event):
        if self.watch:
            with open(self.watch, "rb") as f:
                event["seen"] = any(
                    self.watch_for in line and event["name"].encode() in line
                    for line in f)
        if self.log_fd is not None:
            os.write(self.log_fd, (json.dumps(event) + "\n").encode())

    def reply(self, query, proto, peer=None, astray=None):
        name, kind, question = parse_question(query)

        if astray:
            entry = self.records.find(name.lower()) or {}
            if "elsewhere" not in entry or kind != "A":
                return None
            rcode, ttl = "NOERROR", 60
            answers = [("A", entry["elsewhere"], name.lower())]
        else:
            rcode, answers, ttl, entry = self.records.answer(name.lower(),
                                                             kind)
            self.log({"name": name, "type": kind, "proto": proto,
                      "rcode": rcode, "answers": [v for _, v, _ in answers],
                      "from": peer[1]})
            if entry.get("delay_ms"):
                time.sleep(entry["delay_ms"] / 1000)
            if entry.get("delay_tcp_ms") and proto == "tcp":
                time.sleep(entry["delay_tcp_ms"] / 1000)

        drop = entry.get("drop")
        if drop is True or (drop and kind in drop):
            return None
        if entry.get("drop_tcp") and proto == "tcp":
            return None

        body = b""
        for answer_kind, value, owner in answers:
            number, data = encode_value(answer_kind, value)
            body += b"\xc0\x0c" if owner == name.lower() else encode_name(owner)
            body += struct.pack("!HHIH", number, 1, ttl, len(data)) + data

        flags = 0x8580 | RCODES[rcode]       # answer, authoritative, RD, RA
        count = len(answers)
        if proto == "udp" and 12 + len(question) + len(body) > 512:
            flags |= 0x0200
            count, body = 0, b""

        answer = (query[:2] + struct.pack("!HHHHH", flags, 1, count, 0, 0)
                  + question + body)
        return self.odd(entry["odd"], answer) if "odd" in entry else answer

    def odd(self, how, answer):
        """What no server should say; the address in it leads astray."""
        if how == "id":
            return bytes([answer[0] ^ 0xff]) + answer[1:]
        if how == "question":
            return answer[:13] + b"x" + answer[14:]
        if how == "query":
            return answer[:2] + bytes([answer[2] & 0x7f]) + answer[3:]
        if how == "loop":                    # a name that points to itself
            return answer[:12] + b"\xc0\x0c" + answer[12:]
        if how == "nxdomain":                # and yet an address
            return answer[:3] + b"\x83" + answer[4:]
        if how == "count":                   # more answers than there are
            return answer[:6] + b"\xff\xff" + answer[8:]
        if how == "length":                  # an address of three bytes
            return answer[:-5] + b"\x03" + answer[-4:-1]
        if how == "short":
            return answer[:11]
        if how == "cut":
            return answer[:-2]
        return b""                           # "nothing"

    def safe_reply(self, query, proto, *more):
        try:
            return self.reply(query, proto, *more)
        except (IndexError, struct.error, KeyError, OSError, ValueError):
            return None

    def udp(self, sock):
        def one(query, peer):
            astray = self.safe_reply(query, "udp", peer, True)
            if astray:
                self.other.sendto(astray, peer)
            answer = self.safe_reply(query, "udp", peer)
            if answer:
                entry = self.records.find(parse_question(query)[0].lower())
                for _ in range((entry or {}).get("cut", 1)):
                    sock.sendto(answer, peer)

        while True:
            query, peer = sock.recvfrom(4096)
            threading.Thread(target=one, args=(query, peer),
                             daemon=True).start()

    def tcp(self, listener):
        def one(sock, peer):
            try:
                with sock, sock.makefile("rb") as f:
                    sock.settimeout(30)
                    while True:
                        size = f.read(2)
                        if len(size) < 2:
                            return
                        answer = self.safe_reply(
                            f.read(struct.unpack("!H", size)[0]), "tcp", peer)
                        if answer is None:
                            return
                        sock.sendall(struct.pack("!H", len(answer)) + answer)
            except OSError:
                pass

        while True:
            sock, peer = listener.accept()
            threading.Thread(target=one, args=(sock, peer),
                             daemon=True).start()


def bind_both(address):
    """One port for both; another program may hold its TCP half."""
    while True:
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind((address, 0))
        tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            tcp.bind((address, udp.getsockname()[1]))
        except OSError:
            udp.close()
            tcp.close()
            continue
        tcp.listen(64)
        return udp, tcp


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bind", default="127.0.0.1")
    parser.add_argument("--records", required=True)
    parser.add_argument("--log")
    parser.add_argument("--watch")
    parser.add_argument("--watch-for")
    args = parser.parse_args()

    server = Server(args)
    udp, tcp = bind_both(args.bind)

    threading.Thread(target=server.udp, args=(udp,), daemon=True).start()
    threading.Thread(target=server.tcp, args=(tcp,), daemon=True).start()

    print(udp.getsockname()[1], flush=True)

    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
