"""Adds up what a strace of sizing, mapping, unlinking and closing tells: the most bytes that segments of /dev/shm wanted at
one moment. Reads the output of

    strace -f -ttt -y -e trace=openat,open,creat,unlink,unlinkat,ftruncate,fallocate,close,mmap,munmap,dup,dup2,dup3,fork,vfork,\
clone,clone3,execve,exit_group

from standard input and prints {"demand": bytes, "segments": number}.

A segment counts with its size from its sizing on until it has no name, no descriptor and no mapping in any process. A child
has its parent's descriptors and mappings (CLONE_VM and CLONE_FILES: the same ones); exec closes those that are close-on-exec,
which are all that shm_open makes, and drops the mappings; the end of a process drops what it had.
"""

import json
import re
import sys

CALL = re.compile(r"^(\d+)\s+([\d.]+) (\w+)\((.*)\)\s+= (\S+)(.*)$")
UNFINISHED = re.compile(r"^(\d+)\s+([\d.]+) (.*) <unfinished \.\.\.>$")
RESUMED = re.compile(r"^(\d+)\s+([\d.]+) <\.\.\. \w+ resumed>(.*)$")
END = re.compile(r"^(\d+)\s+([\d.]+) \+\+\+ ")
GUARD = "/dev/shm/"


class Segment:
    def __init__(self, name):
        self.name, self.size, self.named, self.holders = name, 0, True, 0


class Process:
    def __init__(self):
        self.fds, self.maps = {}, {}


segments, names, processes, threads, ended = [], {}, {}, {}, set()
peak = 0


def process(pid):
    pid = threads.get(pid, pid)
    return processes.setdefault(pid, Process())


def hold(segment, by):
    segment.holders += by


def note():
    global peak
    peak = max(peak, sum(s.size for s in segments if s.named or s.holders > 0))


def drop(table, key):
    held = table.pop(key, None)
    if held:
        hold(held[0] if isinstance(held, tuple) else held, -1)


def end(pid):
    if pid in threads:
        del threads[pid]
        return
    ended.add(pid)
    gone = processes.pop(pid, None)
    for table in (gone.fds, gone.maps) if gone else ():
        for key in list(table):
            drop(table, key)


def path(text):
    found = re.search(r'"(/dev/shm/[^"]*)"', text)
    return found.group(1) if found else None


def call(pid, name, arguments, answer):
    me = process(pid)
    number = int(answer, 0) if re.match(r"-?(0x)?[0-9a-f]+$", answer.split("<")[0]) else -1
    if answer.startswith("-"):
        return
    first = re.match(r"(-?\d+)", arguments)
    fd = int(first.group(1)) if first else -1
    if name in ("openat", "open", "creat"):
        if not (file := path(arguments)):
            return
        segment = names.get(file)
        if not segment:
            segment = names[file] = Segment(file)
            segments.append(segment)
        if "O_TRUNC" in arguments:
            segment.size = 0
        hold(segment, 1)
        me.fds[number] = segment
    elif name in ("unlink", "unlinkat"):
        segment = names.pop(path(arguments), None)
        if segment:
            segment.named = False
    elif name in ("ftruncate", "fallocate") and fd in me.fds:
        words = [word.strip() for word in arguments.split(",")]
        segment = me.fds[fd]
        segment.size = int(words[1]) if name == "ftruncate" else max(segment.size, int(words[2]) + int(words[3]))
        note()
    elif name == "close":
        drop(me.fds, fd)
    elif name in ("dup", "dup2", "dup3") and fd in me.fds:
        segment = me.fds[fd]
        hold(segment, 1)
        drop(me.fds, number)
        me.fds[number] = segment
    elif name == "mmap":
        words = [word.strip() for word in arguments.split(",")]
        at, length = int(answer, 16), int(words[1])
        unmap(me, at, length)
        mapped = re.match(r"(\d+)", words[4])
        segment = me.fds.get(int(mapped.group(1))) if mapped else None
        if segment:
            hold(segment, 1)
            me.maps[at] = (segment, length)
    elif name == "munmap":
        words = [word.strip() for word in arguments.split(",")]
        unmap(me, int(words[0], 16), int(words[1]))
    elif name in ("fork", "vfork", "clone", "clone3"):
        child = number
        if "CLONE_THREAD" in arguments or "CLONE_VM" in arguments and "CLONE_VFORK" not in arguments:
            threads[child] = threads.get(pid, pid)
            return
        # Its parent's call returns late: it may have opened files of its own, or be gone.
        if "CLONE_VM" in arguments or child in ended or child in processes and processes[child].fds:
            return
        new = processes.setdefault(child, Process())
        for mine, its in ((me.fds, new.fds), (me.maps, new.maps)):
            for key, held in mine.items():
                its.setdefault(key, held)
                hold(held[0] if isinstance(held, tuple) else held, 1)
    elif name == "execve":
        for table in (me.fds, me.maps):
            for key in list(table):
                drop(table, key)


def unmap(me, at, length):
    for start, (segment, size) in list(me.maps.items()):
        # Whole mappings only: nobody here unmaps parts.
        if at <= start and start + size <= at + length:
            drop(me.maps, start)


waiting = {}
for line in sys.stdin:
    line = line.rstrip("\n")
    if (found := UNFINISHED.match(line)):
        waiting[found.group(1)] = found.group(3)
        # A child may begin before its parent's call has returned.
        continue
    if (found := RESUMED.match(line)):
        line = f"{found.group(1)} {found.group(2)} {waiting.pop(found.group(1), '')}{found.group(3)}"
    if (found := CALL.match(line)):
        # `-y` decorates descriptors: 3</dev/shm/x>.
        arguments = re.sub(r"(\d)<[^>]*>(\(deleted\))?", r"\1", found.group(4))
        answer = found.group(5).split("<")[0]
        call(int(found.group(1)), found.group(3), arguments, answer)
    elif (found := END.match(line)):
        end(int(found.group(1)))

print(json.dumps({"demand": peak, "segments": len(segments)}))
