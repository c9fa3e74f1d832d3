"""A process full of `file_system` segments is killed; torch_shm_manager has to clean up after it.

Prints one JSON line: whether every torch_shm_manager that ran had LIBRARY (the first
argument) mapped, and how many names the dead process had in /dev/shm.
"""

import json
import os
import signal
import sys

import torch
import torch.multiprocessing as mp


def victim(pipe):
    mp.set_sharing_strategy("file_system")
    kept = [torch.full((5_000_000,), float(index)).share_memory_() for index in range(6)]
    pipe.send(sum(float(tensor[-1]) for tensor in kept))
    pipe.recv()
    os.kill(os.getpid(), signal.SIGKILL)


def managers():
    """Pids of the torch_shm_manager processes of this pid namespace."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "torch_shm_manager":
                yield pid
        except OSError:
            continue  # ended meanwhile


def main():
    library = sys.argv[1]
    mine, theirs = mp.get_context("spawn").Pipe()
    process = mp.get_context("spawn").Process(target=victim, args=(theirs,))
    process.start()
    theirs.close()
    try:
        total = mine.recv()
    except EOFError:
        process.join()
        raise SystemExit(f"the victim died early: {signal.strsignal(-process.exitcode)}") from None
    names = [name for name in os.listdir("/dev/shm") if name.startswith("torch_")]
    mapped = []
    for pid in managers():
        with open(f"/proc/{pid}/maps") as maps:
            mapped.append(library in maps.read())
    mine.send("die")
    process.join()
    print(json.dumps({
        "victim_exit": process.exitcode,
        "total": total,
        "names": len(names),
        "managers": len(mapped),
        "managers_preloaded": sum(mapped),
    }), flush=True)


if __name__ == "__main__":
    main()
