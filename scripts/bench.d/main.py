"""Measures what the library costs against runs without it, and compares with the goals of the project.

Every ratio is measured in turns in one run (without, with, without, with ...), so that whatever else the machine does
meets both alike. Prints a table; --json FILE writes the same as JSON. Exit 1 if a goal is missed.

parts:
  dataloader    throughput of a DataLoader that only moves 19 MB batches: everything fits, everything
                redirected to a larger tmpfs, everything redirected to ext4; each against no library
                and a /dev/shm that is large enough
  true          wall time of /bin/true
  memory        private memory, descriptors and threads of a program that only sleeps
  instructions  user-space instructions of an anonymous mmap + munmap
"""
import argparse
import json
import os
import shutil
import sys
import tempfile

# No compiled files beside the sources.
sys.dont_write_bytecode = True

import dataloader  # noqa: E402
import process  # noqa: E402
from outcome import Bench, MeasureError  # noqa: E402

PARTS = {
    "dataloader": dataloader.measure,
    "true": process.measure_true,
    "memory": process.measure_memory,
    "instructions": process.measure_instructions,
}


def machine():
    """Cores, memory and kernel: what a reader needs to judge the numbers, and nothing that names this machine."""
    with open("/proc/meminfo", encoding="ascii") as meminfo:
        kib = int(meminfo.readline().split()[1])
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": kib * 1024,
        "kernel": os.uname().release.split("-")[0],
        "load_before": round(os.getloadavg()[0], 2),
    }


def options():
    ask = argparse.ArgumentParser(
        prog="scripts/bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ask.add_argument("parts", nargs="*", metavar="PART", help="which parts (default: all)")
    ask.add_argument("--runs", type=int, default=7, metavar="N", help="rounds of the DataLoader, at least 1 (default 7)")
    ask.add_argument("--json", metavar="FILE", help="write the results to FILE")
    ask.add_argument("--batches", type=int, default=400, metavar="N", help="batches timed in one run (default 400)")
    ask.add_argument("--disk", default="/var/tmp", metavar="DIR", help="a directory on ext4 (default /var/tmp)")
    opt = ask.parse_args()
    unknown = [part for part in opt.parts if part not in PARTS]
    if unknown:
        ask.error(f"no part named {unknown[0]}; there are: {', '.join(PARTS)}")
    if opt.runs < 1 or opt.batches < 1:
        ask.error("--runs and --batches want at least 1")
    return opt


def main():
    opt = options()
    here = machine()
    print(
        f"{here['cores']} cores, {here['memory_bytes'] / 2**30:.1f} GiB, Linux {here['kernel']}, "
        f"load {here['load_before']} before",
        flush=True,
    )
    if here["load_before"] > 0.5 * here["cores"]:
        print("note: the machine is busy with something else; the numbers will be rough", flush=True)
    if opt.runs < 7:
        print("note: the goals are meant for medians of at least 7 runs", flush=True)

    # On the disk under test: the ledger lives there too, as it would without any variable set.
    work = tempfile.mkdtemp(prefix="shmguard-bench-", dir=opt.disk)
    bench = Bench(os.environ["SHMGUARD_LIB"], work, opt)
    try:
        for name in opt.parts or PARTS:
            PARTS[name](bench)
    except MeasureError as error:
        sys.exit(f"error: {error}")
    finally:
        shutil.rmtree(work, ignore_errors=True)

    print()
    bench.print_table()
    if opt.json:
        with open(opt.json, "w", encoding="utf-8") as out:
            json.dump({"machine": here, "results": bench.results}, out, indent=2)
            out.write("\n")
    missed = [result["name"] for result in bench.results if not result["met"]]
    if missed:
        sys.exit("goal missed: " + "; ".join(missed))


if __name__ == "__main__":
    main()
