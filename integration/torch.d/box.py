"""Runs a program in namespaces of its own with a small /dev/shm, then says what it left behind.

    unshare --mount --pid --fork --mount-proc --kill-child python3 box.py \
        --shm size=64m [--tmpfs DIR=SIZE] [--watch DIR]... [--limit S] [--grace G] \
        --report FILE -- PROGRAM...

As process 1 it waits until the program and everything that it started or orphaned has
ended, so what is listed afterwards is a leftover and not work in progress. What still runs
G seconds after the program ended, or the program itself after S seconds, is killed. FILE gets
JSON: `status` (as a shell says it: 128+N for signal N), `killed` (null, "program" or
"stragglers") and `left` (paths).

LD_PRELOAD for the program alone is given as BOX_PRELOAD.
"""

import argparse
import json
import os
import signal
import subprocess


def mount_tmpfs(where, options):
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=1777,{options}", "tmpfs", where], check=True)


def main():
    ask = argparse.ArgumentParser()
    ask.add_argument("--shm", required=True)
    ask.add_argument("--tmpfs")
    ask.add_argument("--watch", action="append", default=[])
    ask.add_argument("--limit", type=int, default=300)
    ask.add_argument("--grace", type=int, default=20)
    ask.add_argument("--report", required=True)
    ask.add_argument("program", nargs="+")
    opt = ask.parse_args()

    mount_tmpfs("/dev/shm", opt.shm)
    if opt.tmpfs:
        where, _, size = opt.tmpfs.rpartition("=")
        mount_tmpfs(where, f"size={size}")

    # Its own environment: what is to be tested must not be in this process.
    environment = dict(os.environ)
    if "BOX_PRELOAD" in environment:
        environment["LD_PRELOAD"] = environment.pop("BOX_PRELOAD")
    first = os.fork()
    if first == 0:
        os.execvpe(opt.program[0], opt.program, environment)
    status = killed = None

    def enough(*_):
        nonlocal killed
        killed = "program" if status is None else "stragglers"
        os.kill(-1, signal.SIGKILL)

    signal.signal(signal.SIGALRM, enough)
    signal.alarm(opt.limit)
    while True:
        try:
            pid, ended = os.wait()
        except ChildProcessError:
            break
        if pid == first:
            status = os.waitstatus_to_exitcode(ended)
            signal.alarm(opt.grace)
    signal.alarm(0)
    left = [
        os.path.join(folder, name)
        for top in ["/dev/shm", *opt.watch]
        for folder, folders, files in os.walk(top)
        for name in folders + files
    ]
    with open(opt.report, "w") as report:
        json.dump({"status": status if status >= 0 else 128 - status, "killed": killed, "left": left}, report)


if __name__ == "__main__":
    main()
