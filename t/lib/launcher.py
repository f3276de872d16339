#!/usr/bin/python3
"""A launcher driven by hand: the control protocol and a box's end of it,
step by step, so that a test can do what the real launcher never would.

Commands come as JSON lines on stdin, each is answered by one line on stdout.
The box is a child in net (and user) namespaces of its own, whose sockets are
handed over like a launcher's, and which speaks to its doors on command; the
control connection is made from outside of it.

  {"do":"connect","name":"a","path":"/run/..."}     {"ok":true}
  {"do":"send","name":"a","message":{...}}          a line, without descriptors
  {"do":"raw","name":"a","data":base64}             any bytes
  {"do":"descriptors","name":"a","message":{...},"kinds":[KIND..]}
        KIND: {"listen":PORT} in the box      {"listen_host":PORT} outside it
              {"listen4":PORT} IPv4 only      {"udp":PORT} bound datagram
        {"udp4":PORT} IPv4 only
              {"stream":PORT} not listening   {"file":PATH}  {"pipe":true}
              {"unix":true} listening         {"mptcp":PORT} listening
              {"sctp":PORT} listening         {"reuseport":PORT} one of two
              {"deep":PORT} listening, a queue of 65535
              {"fuse":true} a file whose close waits for its file system
              {"again":N} the Nth descriptor made before
              {"connection":"a"} the connection itself
        "half":true leaves out the end of the line
  {"do":"receive","name":"a","timeout":5}           {"message":..} {"eof":true}
                                                    {"timeout":true}
  {"do":"close","name":"a"}                         {"do":"half_close",..} its
                                                    sending side only
  {"do":"tamper","index":N,"how":HOW}               with the Nth descriptor:
        shutdown, shutdown_read, blocking, linger, queue_error (one that only
        MSG_ERRQUEUE takes away), or one of OPTIONS
  {"do":"steal","index":N,"seconds":S}              makes it block, and takes
        the connections that wait on it, until the time is over
  {"do":"forget"}                                   closes its own copies: a
        door that the broker closes is gone then
  {"do":"end_fuse"}                                 the file system goes away
  {"do":"cookie","index":N}                         {"cookie":NETNS}
  {"do":"box_control","path":..,"message":{..}}     the control socket, asked
        from inside the box: {"message":..} {"eof":true}
  {"do":"exchange","port":8899,"data":base64,"timeout":5,"half_close":false}
        from inside the box: {"data":base64,"eof":bool}; reads to the end of
        the connection, of the answer (Content-Length), or of the time
  {"do":"run","argv":[..],"env":{},"data":base64}   a program in the box's net
        namespace: {"status":n,"data":base64 of its stdout,"err":text}
  {"do":"open","id":"x","port":8899}  {"do":"write","id":"x","data":..}
  {"do":"read","id":"x","timeout":5}  {"do":"shut","id":"x"}
        the same, one step at a time

An error is answered as {"error":"..."}.  Ends with its stdin.
"""

import base64
import ctypes
import fcntl
import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import time

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000

# What a launcher can set on a socket that it shares: level, option, value.
OPTIONS = {
    "linger": (socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 600)),
    "linger_0": (socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)),
    "peek_off": (socket.SOL_SOCKET, 42, 3),
    "rcvbuf": (socket.SOL_SOCKET, socket.SO_RCVBUF, 1),
    "sndbuf": (socket.SOL_SOCKET, socket.SO_SNDBUF, 1),
    "rcvlowat": (socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1 << 20),
    "defer_accept": (socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 60),
    "transparent": (socket.IPPROTO_IP, 19, 1),
    "busy_poll": (socket.SOL_SOCKET, 46, 100000),
    "oobinline": (socket.SOL_SOCKET, socket.SO_OOBINLINE, 1),
    "maxseg": (socket.IPPROTO_TCP, socket.TCP_MAXSEG, 88),
    "timeouts": (socket.SOL_SOCKET, socket.SO_RCVTIMEO,
                 struct.pack("ll", 0, 1)),
    "cork": (socket.IPPROTO_TCP, socket.TCP_CORK, 1),
    "user_timeout": (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1),
    "window_clamp": (socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, 1),
}


# In the box

def enter_box():
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.getuid(), os.getgid()

    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")

    for name, text in (("setgroups", "deny"),
                       ("uid_map", "%d %d 1" % (uid, uid)),
                       ("gid_map", "%d %d 1" % (gid, gid))):
        with open("/proc/self/" + name, "w") as f:
            f.write(text)

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(s, 0x8913, request))[1]
        fcntl.ioctl(s, 0x8914, struct.pack("16sH14x", b"lo", flags | 1))

    for family in (socket.AF_INET, socket.AF_INET6):
        route_local(family)


def route_local(family):
    """ip route add local default dev lo: every address is the box's own."""
    RTM_NEWROUTE, RTA_OIF, TABLE_LOCAL, SCOPE_HOST, TYPE_LOCAL = 24, 4, 255, 254, 2
    body = struct.pack("BBBBBBBBI", family, 0, 0, 0, TABLE_LOCAL, 3,
                       SCOPE_HOST, TYPE_LOCAL, 0)
    body += struct.pack("HHi", 8, RTA_OIF, 1)
    message = struct.pack("IHHII", 16 + len(body), RTM_NEWROUTE, 0x605, 1, 0)

    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as s:
        s.send(message + body)
        error = struct.unpack_from("i", s.recv(4096), 16)[0]
        if error:
            raise OSError(-error, "route")


def make_socket(kind):
    if "listen" in kind:
        s = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("::", kind["listen"]))
        s.listen(128)
    elif "listen4" in kind:
        s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("0.0.0.0", kind["listen4"]))
        s.listen(128)
    elif "mptcp" in kind:
        s = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 262)
        s.bind(("::", kind["mptcp"]))
        s.listen(128)
    elif "sctp" in kind:
        s = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 132)
        s.bind(("::", kind["sctp"]))
        s.listen(128)
    elif "reuseport" in kind:
        both = [socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
                for _ in range(2)]
        for s in both:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            s.bind(("::", kind["reuseport"]))
            s.listen(128)
        s = both[0]
        both[1].detach()                # it stays open, and takes its share
    elif "deep" in kind:
        try:
            with open("/proc/sys/net/core/somaxconn", "w") as f:
                f.write("65535")
        except PermissionError:
            pass                        # then it is as deep as the host says
        s = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        s.bind(("::", kind["deep"]))
        s.listen(65535)
    elif "unix" in kind:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.bind("")
        s.listen(128)
    elif "udp4" in kind:
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.bind(("0.0.0.0", kind["udp4"]))
    elif "udp" in kind:
        s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        s.bind(("::", kind["udp"]))
    else:
        s = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        s.bind(("::", kind["stream"]))
    return s


def read_some(s, end, whole):
    """What arrives until the answer is complete, the end, or the time."""
    data = b""
    while True:
        left = end - time.monotonic()
        if left <= 0 or not select.select([s], [], [], left)[0]:
            return data, False
        try:
            more = s.recv(65536)
        except ConnectionError:
            return data, True
        if not more:
            return data, True
        data += more
        if not whole:
            return data, False
        head, found, body = data.partition(b"\r\n\r\n")
        if found:
            length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.I)
            if length and len(body) >= int(length.group(1)):
                return data, False


def dial(port):
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    s.settimeout(5)
    s.connect(("127.0.0.1", int(port)))
    return s


def box_control(command):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.settimeout(5)
        s.connect(command["path"])
        try:
            s.sendall((json.dumps(command["message"]) + "\n").encode())
        except ConnectionError:
            pass                        # refused before a byte was read
        line = s.makefile("rb").readline()
    return {"message": json.loads(line)} if line else {"eof": True}


def box_command(command, streams):
    end = time.monotonic() + command.get("timeout", 5)
    data = base64.b64decode(command.get("data", ""))

    if command["do"] == "box_control":
        return box_control(command)

    if command["do"] == "exchange":
        with dial(command["port"]) as s:
            try:
                s.sendall(data)
                if command.get("half_close"):
                    s.shutdown(socket.SHUT_WR)
            except ConnectionError:
                pass                    # refused early: the answer is there
            data, eof = read_some(s, end, True)
    elif command["do"] == "run":
        p = subprocess.run(command["argv"], env=command.get("env") or {},
                           input=data, capture_output=True,
                           timeout=command.get("timeout", 30))
        return {"status": p.returncode,
                "data": base64.b64encode(p.stdout).decode(),
                "err": p.stderr.decode(errors="replace")}
    elif command["do"] == "open":
        streams[command["id"]] = dial(command["port"])
        return {"ok": True}
    elif command["do"] == "write":
        streams[command["id"]].sendall(data)
        return {"ok": True}
    elif command["do"] == "read":
        data, eof = read_some(streams[command["id"]], end, False)
    else:
        streams.pop(command["id"]).close()
        return {"ok": True}

    return {"data": base64.b64encode(data).decode(), "eof": eof}


def serve_box(pipe):
    """The child: sockets are kept open here too, as a launcher's are."""
    enter_box()
    kept, streams = [], {}
    lines = pipe.makefile("r")
    pipe.sendall(b"ready\n")

    for line in lines:
        command = json.loads(line)
        try:
            if "kind" in command:
                s = make_socket(command["kind"])
                kept.append(s)
                socket.send_fds(pipe, [b"{}\n"], [s.fileno()])
                continue
            if command["do"] == "forget":
                while kept:
                    kept.pop().close()
                answer = {"ok": True}
            else:
                answer = box_command(command, streams)
        except (OSError, LookupError, TypeError, ValueError,
                subprocess.SubprocessError) as e:
            answer = {"error": "%s: %s" % (type(e).__name__, e)}
        pipe.sendall((json.dumps(answer) + "\n").encode())


# A file system of one file, whose close is never answered.

def fuse_file():
    """The descriptor of its file, and the pid of who serves it."""
    ours, theirs = socket.socketpair()
    pid = os.fork()

    if pid == 0:
        try:
            device = fuse_mount()
            if os.fork() == 0:
                fd = os.open("/mnt/file", os.O_RDONLY)
                socket.send_fds(theirs, [b"f"], [fd])
                os._exit(0)             # waits, as every close of it
            fuse_serve(device)
        except OSError as e:
            theirs.sendall(str(e).encode())
        os._exit(0)

    data, fds, _, _ = socket.recv_fds(ours, 256, 1)
    if not fds:
        os.waitpid(pid, 0)
        raise OSError("fuse: " + data.decode())
    return fds[0], pid


def fuse_mount():
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR)

    if libc.unshare(CLONE_NEWNS) != 0 \
            or libc.mount(None, b"/", None, 0x44000, None) != 0 \
            or libc.mount(b"test", b"/mnt", b"fuse", 6,
                          b"fd=%d,rootmode=40000,user_id=0,group_id=0"
                          % device) != 0:
        raise OSError(ctypes.get_errno(), "mount")
    return device


def fuse_serve(device):
    INIT, LOOKUP, GETATTR, OPEN = 26, 1, 3, 14
    attr = struct.pack("=QQQQQQIIIIIIIIII", 2, 0, 0, 0, 0, 0, 0, 0, 0,
                       0o100644, 1, 0, 0, 0, 4096, 0)
    root = struct.pack("=QQQQQQIIIIIIIIII", 1, 0, 0, 0, 0, 0, 0, 0, 0,
                       0o040755, 2, 0, 0, 0, 4096, 0)
    end = time.monotonic() + 60

    while time.monotonic() < end:
        if not select.select([device], [], [], 1)[0]:
            continue
        data = os.read(device, 1 << 17)
        op, unique, node = struct.unpack_from("=4xIQQ", data)
        if op == INIT:
            answer = struct.pack("=IIIIHHIIHHI28x", 7, 31, 0, 0, 1, 1, 4096, 1,
                                 1, 0, 0)
        elif op == LOOKUP:
            answer = struct.pack("=QQQQII", 2, 0, 60, 60, 0, 0) + attr
        elif op == GETATTR:
            answer = struct.pack("=QII", 60, 0, 0) + (root if node == 1
                                                      else attr)
        elif op == OPEN:
            answer = struct.pack("=QII", 1, 0, 0)
        else:
            continue                    # a flush: close() waits for this
        os.write(device, struct.pack("=IiQ", 16 + len(answer), 0, unique)
                 + answer)


# Outside

class Launcher:
    def __init__(self):
        self.box, child = socket.socketpair()
        self.connections = {}
        self.buffers = {}
        self.made = []

        self.pid = os.fork()
        if self.pid == 0:
            self.box.close()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            try:
                serve_box(child)
            finally:
                os._exit(0)
        child.close()

        if self.from_box() != b"ready\n":
            raise OSError("the box could not be made")

    def from_box(self):
        line = b""
        while not line.endswith(b"\n"):
            more = self.box.recv(65536)
            if not more:
                return line
            line += more
        return line

    def ask_box(self, command):
        self.box.sendall((json.dumps(command) + "\n").encode())
        return json.loads(self.from_box())

    def descriptor(self, kind):
        if "again" in kind:
            return self.made[kind["again"]]
        if "file" in kind:
            fd = os.open(kind["file"], os.O_RDONLY)
        elif "pipe" in kind:
            fd = os.pipe()[0]
        elif "connection" in kind:
            fd = os.dup(self.connections[kind["connection"]].fileno())
        elif "fuse" in kind:
            fd, self.fuse = fuse_file()
        elif "listen_host" in kind:
            s = make_socket({"listen": kind["listen_host"]})
            fd = s.detach()
        else:
            self.box.sendall((json.dumps({"kind": kind}) + "\n").encode())
            data, fds, _, _ = socket.recv_fds(self.box, 65536, 1)
            if not fds:
                raise OSError(data.decode())
            fd = fds[0]
        self.made.append(fd)
        return fd

    def socket_command(self, command):
        """What a hostile launcher does with a description it shares."""
        s = socket.socket(fileno=os.dup(self.made[command["index"]]))
        with s:
            if command["do"] == "cookie":
                data = s.getsockopt(socket.SOL_SOCKET, 71, 8)
                return {"cookie": struct.unpack("=Q", data)[0]}
            if command["how"] == "shutdown":
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass                # of a datagram socket, and it is shut
            elif command["how"] == "shutdown_read":
                try:
                    s.shutdown(socket.SHUT_RD)
                except OSError:
                    pass                # it is not connected, and is shut
            elif command["how"] == "blocking":
                s.setblocking(True)
            elif command["how"] == "queue_error":
                s.setsockopt(socket.IPPROTO_IPV6, 25, 1)    # IPV6_RECVERR
                try:                    # too long: an error is queued
                    s.setsockopt(socket.IPPROTO_IPV6, 23, 2)    # DO: MTU
                    s.sendto(bytes(65000), ("::ffff:127.0.0.1", 9))
                    s.sendto(b"x", ("::ffff:127.0.0.1", 9))
                    s.sendto(b"x", ("::1", 9))
                except OSError:
                    pass
            else:
                s.setsockopt(*OPTIONS[command["how"]])
        return {"ok": True}

    def steal(self, command):
        fd = os.dup(self.made[command["index"]])
        if os.fork() == 0:
            s = socket.socket(fileno=fd)
            end = time.monotonic() + command["seconds"]
            taken = 0
            while time.monotonic() < end:
                s.setblocking(True)
                if select.select([s], [], [], 0)[0]:
                    s.settimeout(0.0005)
                    try:
                        s.accept()[0].close()
                        taken += 1
                    except OSError:
                        pass
            os._exit(0)
        os.close(fd)
        return {"ok": True}

    def do(self, command):
        what, name = command["do"], command.get("name")

        if what in ("exchange", "run", "open", "write", "read", "shut",
                    "box_control"):
            return self.ask_box(command)

        if what in ("tamper", "cookie"):
            return self.socket_command(command)

        if what == "steal":
            return self.steal(command)

        if what == "forget":
            while self.made:
                os.close(self.made.pop())
            return self.ask_box(command)

        if what == "end_fuse":
            os.kill(self.fuse, signal.SIGKILL)
            os.waitpid(self.fuse, 0)
            return {"ok": True}

        if what == "connect":
            s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            s.connect(command["path"])
            self.connections[name] = s
            self.buffers[name] = b""
            return {"ok": True}

        s = self.connections[name]

        if what == "send":
            s.sendall((json.dumps(command["message"]) + "\n").encode())
        elif what == "raw":
            s.sendall(base64.b64decode(command["data"]))
        elif what == "descriptors":
            fds = [self.descriptor(kind) for kind in command["kinds"]]
            socket.send_fds(
                s, [(json.dumps(command["message"])
                     + ("" if command.get("half") else "\n")).encode()], fds)
        elif what == "half_close":
            s.shutdown(socket.SHUT_WR)
        elif what == "close":
            s.close()
            del self.connections[name]
        elif what == "receive":
            return self.receive(s, name, command.get("timeout", 5))
        else:
            return {"error": "unknown command"}

        return {"ok": True}

    def receive(self, s, name, timeout):
        end = time.monotonic() + timeout
        while b"\n" not in self.buffers[name]:
            left = end - time.monotonic()
            if left <= 0 or not select.select([s], [], [], left)[0]:
                return {"timeout": True}
            try:
                more = s.recv(65536)
            except ConnectionError:
                more = b""
            if not more:
                return {"eof": True}
            self.buffers[name] += more
        line, _, self.buffers[name] = self.buffers[name].partition(b"\n")
        return {"message": json.loads(line)}


def main():
    launcher = Launcher()
    print("0", flush=True)              # the line that says: ready

    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = launcher.do(command)
        except (OSError, LookupError, TypeError, ValueError) as e:
            answer = {"error": "%s: %s" % (type(e).__name__, e)}
        print(json.dumps(answer), flush=True)

    os.kill(launcher.pid, signal.SIGKILL)
    os.waitpid(launcher.pid, 0)


if __name__ == "__main__":
    main()
