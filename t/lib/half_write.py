#!/usr/bin/python3
"""Kills a process in the middle of a write: of its next one to a file only so
many bytes are written, and it does not come back from the call.

Usage: half_write.py PID FILE BYTES.  Prints "ready", then "killed".  x86_64.
"""

import ctypes
import os
import signal
import sys

SEIZE, SYSCALL, GETREGS, SETREGS = 0x4206, 24, 12, 13
SYSGOOD = 1
DX, DI, ORIG_AX = 12, 14, 15            # of struct user_regs_struct
WRITE = 1

pid, path, count = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p,
                        ctypes.c_void_p]


def trace(request, data=None):
    if libc.ptrace(request, pid, None, data) == -1:
        raise OSError(ctypes.get_errno(), "ptrace")


def next_stop(deliver=0):
    """To the next system call's entry or end."""
    while True:
        trace(SYSCALL, deliver)
        status = os.waitpid(pid, 0)[1]
        if not os.WIFSTOPPED(status):
            sys.exit("the process is gone")
        stop = os.WSTOPSIG(status)
        if stop == signal.SIGTRAP | 0x80:
            return
        deliver = 0 if stop == signal.SIGTRAP else stop


trace(SEIZE, SYSGOOD)
libc.ptrace(0x4207, pid, None, None)    # PTRACE_INTERRUPT
os.waitpid(pid, 0)
print("ready", flush=True)

regs = (ctypes.c_ulonglong * 27)()

while True:
    next_stop()
    trace(GETREGS, ctypes.addressof(regs))
    # at the entry of a call its result is -ENOSYS
    if ctypes.c_longlong(regs[10]).value != -38 or regs[ORIG_AX] != WRITE:
        continue
    if os.readlink("/proc/%d/fd/%d" % (pid, regs[DI])) == path:
        break

regs[DX] = count
trace(SETREGS, ctypes.addressof(regs))
next_stop()
os.kill(pid, signal.SIGKILL)
print("killed", flush=True)
