#!/usr/bin/python3
"""Asks the name server of its net namespace for one name after the other, all
refused: each is a line of the audit that has to be there before the answer
is.  Usage: ask_names.py PREFIX STOP [COUNT [RATE]]

Asks for PREFIX0.example, PREFIX1.example and so on until COUNT names are
answered, or the file STOP is there, or the server is gone (no answer for 5 s);
at most RATE a second.  Prints how many were answered.
"""

import os
import socket
import sys
import time

prefix, stop = sys.argv[1:3]
count = int(sys.argv[3]) if len(sys.argv) > 3 else 1 << 62
rate = int(sys.argv[4]) if len(sys.argv) > 4 else 1 << 30

server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.connect(("127.0.0.1", 53))
server.settimeout(0.1)

start = time.monotonic()
n = 0

while n < count:

    if n % 16 == 0:
        if os.path.exists(stop):
            break
        ahead = start + n / rate - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)

    name = b"%s%d" % (prefix.encode(), n)
    asked = (n & 0xffff).to_bytes(2, "big")
    answer = b""
    waited = 0

    server.send(asked + b"\1\0\0\1\0\0\0\0\0\0"
                + bytes([len(name)]) + name + b"\7example\0\0\1\0\1")

    while answer[:2] != asked and waited < 50:
        try:
            answer = server.recv(512)
        except TimeoutError:
            waited = 50 if os.path.exists(stop) else waited + 1

    if answer[:2] != asked or answer[3] & 15 != 3:
        break
    n += 1

print(n)
