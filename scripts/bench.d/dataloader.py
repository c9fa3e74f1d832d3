"""The DataLoader part: throughput with everything kept, and with everything redirected.

The measure of all of them is the same program without the library in a /dev/shm that is large enough. One round runs
every set-up once, in an order that turns from round to round; a ratio is the median over the rounds of
(set-up / measure of the same round).
"""
import os
import statistics
import subprocess
import sys

from outcome import MeasureError

LARGE = "4g"
SMALL = "64m"
# Far below one batch: nothing but the smallest segments stays in the small /dev/shm.
BUDGET = "1m"

NO_LIBRARY = "no library"
FITS = "everything fits"
TMPFS = "all redirected to a tmpfs"
DISK = "all redirected to ext4"
GOALS = {FITS: 0.97, TMPFS: 0.97, DISK: 0.80}

# A mount namespace of its own: /dev/shm of size $1 and a tmpfs of size $2 on the directory $3.
BOX = (
    'mount -t tmpfs -o "size=$1,mode=1777" tmpfs /dev/shm && mount -t tmpfs -o "size=$2" tmpfs "$3" && '
    'shift 3 && exec "$@"'
)


def filesystem(path):
    """The type of the file system that `path` lies on."""
    done = subprocess.run(
        ["findmnt", "--noheadings", "--output", "FSTYPE", "--target", path], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def measure(bench):
    if filesystem(bench.work) != "ext4":
        raise MeasureError(f"{bench.opt.disk} is not on ext4; name a directory that is, by --disk DIR")
    larger = os.path.join(bench.work, "larger")
    disk = os.path.join(bench.work, "disk")
    os.makedirs(larger, exist_ok=True)
    os.makedirs(disk, exist_ok=True)

    setups = {
        NO_LIBRARY: (LARGE, "/dev/shm", bench.environment(False)),
        FITS: (LARGE, "/dev/shm", bench.environment(True)),
        TMPFS: (SMALL, larger, bench.environment(True, SHMGUARD_REDIRECT=larger, SHMGUARD_BUDGET=BUDGET)),
        DISK: (SMALL, disk, bench.environment(True, SHMGUARD_REDIRECT=disk, SHMGUARD_BUDGET=BUDGET)),
    }
    rates = {name: [] for name in setups}
    for turn in range(bench.opt.runs):
        names = list(setups)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            size, expected, env = setups[name]
            rates[name].append(run_once(bench, name, size, larger, expected, env))
        shown = ", ".join(f"{name} {rates[name][-1]:.1f}" for name in setups)
        print(f"dataloader, round {turn + 1} of {bench.opt.runs}, batches/s: {shown}", flush=True)

    for name, goal in GOALS.items():
        ratios = [one / base for one, base in zip(rates[name], rates[NO_LIBRARY])]
        bench.add(
            f"dataloader, {name}",
            "batches/s",
            statistics.median(rates[NO_LIBRARY]),
            statistics.median(rates[name]),
            statistics.median(ratios),
            goal,
            True,
            {"without": rates[NO_LIBRARY], "with": rates[name], "ratios": ratios},
        )


def run_once(bench, name, size, larger, expected, env):
    """Runs the loader once in a /dev/shm of `size`; batches per second. Every batch must lie in `expected`."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "batches.py")
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", BOX, "sh", size, LARGE, larger]
        + [sys.executable, program, str(bench.opt.batches), expected],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise MeasureError(f"dataloader, {name}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return float(done.stdout)
