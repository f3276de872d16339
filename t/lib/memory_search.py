#!/usr/bin/python3

# Where in the memory of processes some bytes are.  Standard input has a JSON
# object: {"pids": [...], "needles": {NAME: HEX}}; standard output gets a JSON
# list of {pid, needle, count, map, locked, dumped}, one for each mapping that
# has it, and {pid, searched} for each process.  Reads /proc/PID/mem: for root.

import json
import re
import sys


def mappings(pid):
    """(start, end, name, flags) of each readable mapping."""
    found = []
    with open('/proc/%d/smaps' % pid) as f:
        for line in f:
            head = re.match(r'([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+\s*(.*)',
                            line)
            if head:
                start, end, mode, name = head.groups()
                found.append([int(start, 16), int(end, 16), name, mode, []])
            elif line.startswith('VmFlags:'):
                found[-1][4] = line.split()[1:]
    return [m for m in found
            if m[3][0] == 'r' and m[2] not in ('[vvar]', '[vsyscall]')
            and not m[2].startswith('[vvar')]


def main():
    asked = json.load(sys.stdin)
    needles = {k: bytes.fromhex(v) for k, v in asked['needles'].items()}
    found = []

    for pid in asked['pids']:
        searched = 0
        with open('/proc/%d/mem' % pid, 'rb', 0) as mem:
            for start, end, name, _, flags in mappings(pid):
                mem.seek(start)
                try:
                    text = mem.read(end - start)
                except OSError:
                    continue
                searched += len(text)
                for needle, value in needles.items():
                    n = text.count(value)
                    if n:
                        found.append({'pid': pid, 'needle': needle, 'count': n,
                                      'map': name, 'locked': 'lo' in flags,
                                      'dumped': 'dd' not in flags})
        found.append({'pid': pid, 'searched': searched})

    json.dump(found, sys.stdout)


main()
