#!/usr/bin/python3
"""Lives of launchers, drawn from a seed: what they ask for, in an order that
nobody has thought of, with descriptors of every kind beside it.

  control_sequences.py CONTROL_SOCKET POLICY

Commands on stdin, each answered by one line on stdout:
  lives SEED COUNT     so many lives, a few at the same time: "done"
  tasks N SECONDS      N tasks at the same time, one more is refused
  connections N SECONDS   the same of control connections
        "done" once it is so, or what there was instead after so many seconds
Ends with its stdin.  A life waits for an answer for a short time only: what
matters is what the broker makes of all this, not what it answers.
"""

import array
import json
import os
import random
import select
import signal
import socket
import struct
import sys
import time

import launcher

CONTROL, POLICY = sys.argv[1], sys.argv[2]

AT_ONCE = 3
FDS_MAX = 253                           # SCM_MAX_FD

WORDS = ["ok", "timeout", "memory", "a" * 64, "a" * 65, "", "A B", "\u00e9",
         "\x00", "0" * 32, "f" * 64]


class Over(Exception):
    """The life has ended."""


def flaw(rng):
    """Something that a key may not have, or may."""
    return rng.choice([None, True, -1, 0, 1, 2, 3, 1 << 62, 1e300, [], {},
                       rng.choice(WORDS), {"a": {"b": [1, {"c": None}]}}])


# Descriptors

def tcp_pair():
    with socket.create_server(("127.0.0.1", 0)) as s:
        a = socket.create_connection(s.getsockname())
        return a, s.accept()[0]


def lingering():
    """Its last close waits for a peer that does not read."""
    a, b = tcp_pair()
    a.setblocking(False)
    try:
        while True:
            a.send(bytes(65536))
    except OSError:
        pass
    a.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 60))
    return a, [b]


def full(depth):
    """A socket in whose queue others wait."""
    a, b = socket.socketpair()
    inner = full(depth - 1)[0] if depth else socket.socket()
    socket.send_fds(b, [b"x"], [inner.fileno()] * 3)
    inner.close()
    return a, [b]


def shut(s):
    s.bind(("127.0.0.1", 0))
    if s.type == socket.SOCK_STREAM:
        s.listen()
    try:
        s.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass                            # a datagram socket is shut all the same
    return s


def bound(kind, listen=False, family=socket.AF_INET):
    s = socket.socket(family, kind)
    s.bind(("", 0) if family != socket.AF_UNIX else "")
    if listen:
        s.listen()
    return s


def connected_udp():
    s = bound(socket.SOCK_DGRAM)
    s.connect(("127.0.0.1", 9))
    return s


def connected_unix():
    s = socket.socket(socket.AF_UNIX)
    s.connect(CONTROL)
    return s


HOST = {
    "pipe": lambda: os.pipe(),
    "null": lambda: os.open("/dev/null", os.O_RDWR),
    "memfd": lambda: os.memfd_create("x"),
    "eventfd": lambda: os.eventfd(1),
    "epoll": lambda: select.epoll(),
    "pidfd": lambda: os.pidfd_open(os.getpid()),
    "unix": lambda: socket.socketpair(),
    "unix_listening": lambda: bound(socket.SOCK_STREAM, True, socket.AF_UNIX),
    "seqpacket": lambda: socket.socketpair(type=socket.SOCK_SEQPACKET),
    "control": connected_unix,
    "tcp": lambda: socket.socket(),
    "tcp_listening": lambda: bound(socket.SOCK_STREAM, True),
    "tcp6_listening": lambda: bound(socket.SOCK_STREAM, True, socket.AF_INET6),
    "tcp_connected": tcp_pair,
    "udp": lambda: bound(socket.SOCK_DGRAM),
    "udp_connected": connected_udp,
    "shut": lambda: shut(socket.socket()),
    "shut_udp": lambda: shut(socket.socket(type=socket.SOCK_DGRAM)),
    "lingering": lingering,
    "full": lambda: full(0),
    "full_deep": lambda: full(2),
    "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0),
    "packet": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3),
    "raw": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
    "path": lambda: os.open("/etc/passwd", os.O_PATH),
    "directory": lambda: os.open("/", os.O_RDONLY),
    "terminal": lambda: os.openpty(),
}

BOX = ["tcp", "tcp_listening", "tcp6_listening", "tcp_connected", "udp",
       "udp_connected", "shut", "shut_udp", "lingering", "netlink", "packet"]


def numbers(made):
    """The descriptors of what one of HOST has made; they stay open."""
    fds = []
    for x in made if isinstance(made, (tuple, list)) else (made,):
        if isinstance(x, list):
            for kept in x:
                numbers(kept)
        elif isinstance(x, int):
            fds.append(x)
        elif isinstance(x, select.epoll):
            fds.append(os.dup(x.fileno()))
        else:
            fds.append(x.detach())
    return fds


class Box:
    """Sockets of a net namespace of its own: those of these doors, and some
    that cannot be doors.  With `knocks` connections wait at the doors."""

    def __init__(self, doors, kinds, knocks):
        ours, theirs = socket.socketpair()
        ours.settimeout(10)
        if os.fork() == 0:
            try:
                ours.close()
                self.serve(theirs, doors, kinds, knocks)
            finally:
                os._exit(0)
        theirs.close()
        self.pipe = ours                # it ends when this is closed
        self.doors, self.others = [], []
        for kept, n in ((self.doors, len(doors)), (self.others, len(kinds))):
            while len(kept) < n:
                data, fds, _, _ = socket.recv_fds(ours, 1, 1)
                if not fds:
                    raise OSError("no box")
                kept += fds

    def serve(self, pipe, doors, kinds, knocks):
        launcher.enter_box()
        made = [launcher.make_socket(
            {"udp" if name.endswith("-udp") else "listen": port})
            for name, port in doors]
        kept = []
        for _ in range(knocks):
            s = launcher.dial(8899)
            s.sendall(b"GET http://plain.test/ HTTP/1.1\r\nHost: pl")
            kept.append(s)
        for s in made:
            socket.send_fds(pipe, [b"d"], [s.fileno()])
        for kind in kinds:
            try:
                fd = numbers(HOST[kind]())[0]
            except OSError:
                fd = os.open("/dev/null", os.O_RDONLY)
            socket.send_fds(pipe, [b"k"], [fd])
        made.clear()
        pipe.recv(1)


# A life

class Life:
    def __init__(self, rng):
        self.rng = rng
        self.conns = []
        self.box = None
        self.lease = None
        self.doors = [("proxy", 8899), ("web", 80), ("web", 443),
                      ("dns-udp", 53), ("dns-tcp", 53)]
        self.task = "0" * 32

    def chance(self, p):
        return self.rng.random() < p

    def connect(self):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(2)
        s.connect(CONTROL)
        self.conns.append(s)
        return s

    def random_fds(self):
        n = self.rng.choice([0] * 12 + [1, 1, 1, 2, 3, 5, 6, 8, 63, 64, 65,
                                        FDS_MAX, self.rng.randint(0, FDS_MAX)])
        fds = []
        while n and len(fds) < min(n, 6):
            if self.box and self.chance(0.4):
                fds.append(self.rng.choice(self.box.doors + self.box.others))
                continue
            if self.conns and self.chance(0.05):
                fds.append(self.rng.choice(self.conns).fileno())
                continue
            try:
                fds += numbers(HOST[self.rng.choice(sorted(HOST))]())
            except OSError:
                fds.append(0)           # not root's
        return [self.rng.choice(fds) for _ in range(n)] if fds else []

    def message(self, op):
        v = self.rng.choice([1] * 8 + [2] * 4 + [0, 3, -1, "1", None, 1e9])
        m = {"v": v, "op": op}
        if op in ("open", "policy", "ask", "watch"):
            m["policy"] = self.rng.choice([POLICY] * 9 + ["unknown", "", 1])
        if op == "open":
            for key in ("external_id", "label", "code_sha256"):
                if self.chance(0.2):
                    m[key] = self.rng.choice(WORDS)
            if self.chance(0.2):
                m["env"] = {"LANG": "C", self.rng.choice(WORDS): "x"}
        elif op == "ask":
            m["v"] = self.rng.choice([2, 2, 2, v])
            m["method"] = self.rng.choice(["GET", "get", "", "X" * 100])
            m["url"] = self.rng.choice(["http://plain.test/", "https://a/../",
                                        "http://[::1]:1/", "x", "http://" +
                                        "a" * 9000])
        elif op == "health":
            m["v"] = self.rng.choice([2, 2, v])
        elif op == "resume":
            m["task_id"] = self.rng.choice([self.task, "f" * 32])
            m["lease"] = self.rng.choice([self.lease or "x", "x", "A" * 200])
        elif op == "near_limit":
            del m["v"]
            m.update(limit=self.rng.choice(WORDS), used=self.rng.choice(
                [0, 1, 1 << 62]))
        elif op == "close":
            del m["v"]
            m.update(reason=self.rng.choice(["ok"] * 4 + WORDS),
                     usage={"wall_ms": 1})
        elif op == "serve":
            del m["v"]
        if self.chance(0.08):
            m[self.rng.choice(["x", "op", "v", "policy"])] = flaw(self.rng)
        return m

    def junk(self):
        return self.rng.choice([
            lambda: b"{" * 5000,
            lambda: b'{"op":' * 3000,
            lambda: b'{"v":1,"v":1,"op":"open","policy":"x"}',
            lambda: b"\x00\xff\xfe",
            lambda: self.rng.randbytes(self.rng.randint(1, 200)),
            lambda: b" " * 65534,
            lambda: b" " * 65535,
            lambda: b" " * 65536,
            lambda: b'{"op":"open","policy":"' + b"a" * 70000 + b'"}',
            lambda: b"",
            lambda: b"[]",
            lambda: b'{"op":"health","v":2' + b"0" * 4000 + b"}",
        ])()

    def line(self):
        if self.chance(0.15):
            data = self.junk()
        else:
            data = json.dumps(self.message(self.rng.choice(
                ["open"] * 4 + ["serve"] * 3 + ["resume"] * 2 + [
                    "near_limit", "close", "policy", "ask", "health", "watch",
                    "drain", "", "x" * 100]))).encode()
        if self.chance(0.05) and data:
            at = self.rng.randrange(len(data))
            data = data[:at] + bytes([self.rng.randrange(256)]) + data[at + 1:]
        return data + b"\n"

    def send(self, s, data, fds=()):
        """In pieces; the descriptors stand beside one of them."""
        if self.chance(0.05):
            data = data[:self.rng.randint(0, len(data) - 1)]
        pieces = [data]
        if self.chance(0.3) and len(data) > 1:
            at = self.rng.randint(1, len(data) - 1)
            pieces = [data[:at], data[at:]]
        beside = self.rng.randrange(len(pieces))
        for i, piece in enumerate(pieces):
            flags = socket.MSG_OOB if self.chance(0.03) else 0
            given = list(fds) if i == beside else []
            if not given and self.chance(0.1):
                given = self.random_fds()
            control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                        array.array("i", given))] if given else []
            if piece:
                n = s.sendmsg([piece], control, flags)
                s.sendall(piece[n:])
            self.accident(s)

    def accident(self, s):
        """What may happen to a launcher at any time."""
        if self.chance(0.97):
            return
        how = self.rng.choice(["kill", "stop", "close", "half", "deaf", "shut",
                               "die"])
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif how == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif how == "close":
            self.conns.remove(s)
            s.close()
            raise Over
        elif how == "die":
            raise Over
        else:
            s.shutdown({"half": socket.SHUT_WR, "deaf": socket.SHUT_RD,
                        "shut": socket.SHUT_RDWR}[how])

    def receive(self, s, seconds):
        """One line, decoded; None: there is none."""
        data = b""
        end = time.monotonic() + seconds
        while not data.endswith(b"\n"):
            left = end - time.monotonic()
            if left <= 0 or not select.select([s], [], [], left)[0]:
                return None
            more = s.recv(65536)
            if not more:
                return None
            data += more
        try:
            return json.loads(data.splitlines()[0])
        except ValueError:
            return None

    def make_box(self):
        self.box = Box(self.doors, self.rng.sample(BOX, 3),
                       self.rng.choice([0, 0, 1, 5]))

    def wrong_doors(self):
        fds = list(self.box.doors)
        at = self.rng.randrange(len(fds))
        how = self.rng.randrange(5)
        if how == 0:
            fds.pop(at)
        elif how == 1:
            fds.append(fds[at])
        elif how == 2:
            self.rng.shuffle(fds)
        elif how == 3:
            fds[at] = self.rng.choice(self.box.others)
        else:
            return self.random_fds()
        return fds

    def step(self, s, op, fds=()):
        """One of a task's, as it should be, or nearly."""
        if self.chance(0.1):
            self.send(s, self.line(), self.random_fds())
        message = {"op": op}
        if op == "open":
            message.update(v=self.rng.choice([1, 2]), policy=POLICY)
        elif op == "resume":
            message.update(v=1, task_id=self.task, lease=self.lease or "x")
        elif op == "close":
            message.update(reason="ok", usage={"wall_ms": 1})
        elif op == "near_limit":
            message.update(limit="memory", used=1)
        data = json.dumps(message).encode() + b"\n"
        if self.chance(0.1):
            data += self.line() * self.rng.randint(1, 20)
        if self.chance(0.05):
            data += data
        self.send(s, data, fds if self.chance(0.97) else self.random_fds())
        self.accident(s)

    def task_life(self):
        s = self.connect()
        self.step(s, "open")
        if self.chance(0.9):            # else it goes on unheard
            reply = self.receive(s, 2) or {}
            if "task_id" in reply:
                self.task = reply["task_id"]
                self.doors = [(d["name"], d["port"]) for d in reply["doors"]]
        self.make_box()
        self.step(s, "serve", self.box.doors if self.chance(0.8)
                  else self.wrong_doors())
        if self.chance(0.9):
            self.lease = (self.receive(s, 2) or {}).get("lease")
        while self.chance(0.6):
            what = self.rng.randrange(4)
            if what == 0:
                self.step(s, "near_limit")
            elif what == 1:             # here and elsewhere
                other = self.connect()
                self.step(other, "resume", self.box.doors if self.chance(0.8)
                          else self.wrong_doors())
                if self.chance(0.8) and (self.receive(other, 1)
                                         or {}).get("ok"):
                    s = other
            elif what == 2:
                self.receive(s, 0.05)
            else:
                self.tamper()
        if self.chance(0.7):
            self.step(s, "close")
            if self.chance(0.8):
                self.receive(s, 1)
        if self.chance(0.3):            # the lease of a task that has ended
            self.step(self.connect(), "resume", self.box.doors)
            self.receive(self.conns[-1], 0.2)

    def tamper(self):
        s = socket.socket(fileno=os.dup(self.rng.choice(self.box.doors)))
        with s:
            how = self.rng.randrange(3)
            if how == 0:
                s.shutdown(socket.SHUT_RDWR)
            elif how == 1:
                s.setblocking(True)
            else:
                s.setsockopt(*launcher.OPTIONS[self.rng.choice(
                    sorted(launcher.OPTIONS))])

    def flood(self):
        """Messages with as many sockets as one may have, none waited for."""
        self.make_box()
        s = self.connect()
        s.setblocking(False)
        for _ in range(60):
            s.sendmsg([b'{"op":"serve"}\n'],
                      [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                        array.array("i", [self.box.doors[0]] * 64))])

    def any_life(self):
        if self.chance(0.3):
            self.make_box()
        for _ in range(self.rng.randint(1, 10)):
            if not self.conns or self.chance(0.3):
                self.connect()
            s = self.rng.choice(self.conns)
            what = self.rng.randrange(10)
            if what < 6:
                data = self.line()
                if self.chance(0.2):
                    data += b"".join(self.line() for _ in range(
                        self.rng.choice([1, 2, 30])))
                self.send(s, data, self.random_fds())
            elif what < 7:              # without its end
                self.send(s, b" " + self.junk()[:self.rng.randint(0, 70000)],
                          self.random_fds())
            elif what < 9:
                self.receive(s, self.rng.choice([0, 0.05, 0.3]))
            else:
                self.conns.remove(s)
                s.close()

    def run(self):
        what = self.rng.random()
        if what < 0.05:
            self.flood()
        elif what < 0.6:
            self.task_life()
        else:
            self.any_life()


def live(seed, errors):
    signal.alarm(20)
    try:
        Life(random.Random(seed)).run()
    except (Over, OSError):
        pass
    except Exception as e:              # of this program: it is to be seen
        os.write(errors, ("%r in line %d; " % (
            e, e.__traceback__.tb_next.tb_next.tb_lineno)).encode())
    os._exit(0)


def lives(seed, count):
    """Those that stop themselves go on a little later, or are killed."""
    rng = random.Random(seed)
    running, hung = set(), 0
    reader, writer = os.pipe()

    for n in range(count + AT_ONCE):
        if n < count:
            pid = os.fork()
            if pid == 0:
                live("%s %d" % (seed, n), writer)
            running.add(pid)
        while running and (len(running) == AT_ONCE or n >= count):
            pid, status = os.waitpid(-1, os.WUNTRACED)
            if os.WIFSTOPPED(status):
                time.sleep(rng.choice([0, 0.02, 0.2]))
                os.kill(pid, rng.choice([signal.SIGCONT, signal.SIGKILL]))
                continue
            running.discard(pid)
            hung += os.WIFSIGNALED(status) \
                and os.WTERMSIG(status) == signal.SIGALRM

    os.close(writer)
    with open(reader) as f:
        errors = f.read()
    return "%d lives hung; %s" % (hung, errors) if hung or errors else "done"


# What is free again

def ask(s, message):
    s.sendall(message if isinstance(message, bytes)
              else json.dumps(message).encode() + b"\n")
    line = s.makefile("rb").readline()
    return json.loads(line) if line else {"error": "closed"}


def dial():
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(60)
    s.connect(CONTROL)
    return s


def tasks(n):
    conns = [dial() for _ in range(n + 1)]
    message = {"v": 1, "op": "open", "policy": POLICY}
    answers = [ask(s, message) for s in conns]
    for s, answer in zip(conns, answers):
        if answer.get("ok"):
            ask(s, {"op": "close", "reason": "ok"})
        s.close()
    return answers


def connections(n):
    """All have begun to ask before the first is answered."""
    conns = [dial() for _ in range(n + 1)]
    for s in conns:
        s.sendall(b'{"v":2,')
    answers = []
    for s in conns:
        answers.append(ask(s, b'"op":"health"}\n'))
        s.close()
    return answers


def until(seconds, probe, n):
    """One too many may be seen to be taken: each is taken at its own time."""
    end = time.monotonic() + seconds
    while True:
        try:
            got = [a.get("error", "ok") for a in probe(n)]
        except OSError as e:
            got = [str(e)]
        if sorted(got) == ["busy"] + ["ok"] * n:
            return "done"
        if time.monotonic() > end:
            return " ".join(got)
        time.sleep(0.3)


def main():
    print("0", flush=True)
    for line in sys.stdin:
        what, *args = line.split()
        answer = (lives(args[0], int(args[1])) if what == "lives" else
                  until(float(args[1]), {"tasks": tasks,
                                         "connections": connections}[what],
                        int(args[0])))
        os.write(1, (answer + "\n").encode())


main()
