"""The parts about programs that use no shared memory: what the library costs whoever it does not concern."""
import contextlib
import os
import re
import statistics
import subprocess

from outcome import MeasureError

TRUE_RUNS = 200
PAIRS = (1000, 11000)


def measure_true(bench):
    """Wall time of /bin/true from posix_spawn to waitpid, alternating; the goals are for the difference of the medians: of the
    library as cargo build makes it, and of the packaged one."""
    measure_one_true(bench, "/bin/true, wall time", bench.library, 0.5)
    measure_one_true(bench, "/bin/true, packaged library", os.environ["SHMGUARD_PACKAGED"], 0.2)


def measure_one_true(bench, name, library, goal):
    done = subprocess.run(
        [bench.program("launch"), str(TRUE_RUNS), library, "/bin/true"],
        env=bench.environment(False),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise MeasureError(f"/bin/true: {done.stderr}")
    pairs = [tuple(int(word) / 1e6 for word in line.split()) for line in done.stdout.splitlines()]
    without, with_library = zip(*pairs)
    print(f"{name}: {len(pairs)} runs each, alternating", flush=True)
    bench.add(
        name,
        "ms",
        statistics.median(without),
        statistics.median(with_library),
        statistics.median(with_library) - statistics.median(without),
        goal,
        False,
        {"without": without, "with": with_library},
    )


def measure_memory(bench):
    """Private memory, descriptors and threads of a C program that only sleeps.

    Two of them run at once and one is looked at: a single one would have the pages of the library's file to itself, and
    smaps would call them private although they are page cache that all processes of a container share.
    """
    program = bench.program("sleeper")
    runs = max(bench.opt.runs, 7)
    seen = {False: [], True: []}
    for _ in range(runs):
        for library in (False, True):
            seen[library].append(look_at_sleeper(program, bench.environment(library)))
    print(f"memory: {runs} runs each, alternating", flush=True)
    for column, (name, unit, goal) in enumerate(
        (("private memory", "kB", 400), ("descriptors", "", 0), ("threads", "", 0))
    ):
        without = [sample[column] for sample in seen[False]]
        with_library = [sample[column] for sample in seen[True]]
        bench.add(
            f"sleeping program, {name}",
            unit,
            statistics.median(without),
            statistics.median(with_library),
            statistics.median(with_library) - statistics.median(without),
            goal,
            False,
            {"without": without, "with": with_library},
        )


def look_at_sleeper(program, env):
    """(kB of Private_* in smaps_rollup, descriptors, threads) of one of two that sleep."""
    with sleeping(program, env), sleeping(program, env) as child:
        proc = f"/proc/{child.pid}"
        with open(proc + "/smaps_rollup", encoding="ascii") as rollup:
            private = sum(int(line.split()[1]) for line in rollup if line.startswith("Private_"))
        if library_missing(proc, env):
            raise MeasureError("the library is not loaded in the sleeping program")
        return private, len(os.listdir(proc + "/fd")), len(os.listdir(proc + "/task"))


@contextlib.contextmanager
def sleeping(program, env):
    """The program, started and asleep; ended afterwards."""
    with subprocess.Popen([program], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        if child.stdout.read(1) != b"s":
            raise MeasureError("the sleeping program does not start")
        yield child
        child.stdin.close()
        child.wait()


def library_missing(proc, env):
    """True if the library that `env` preloads is not among the mappings of the process."""
    library = env.get("LD_PRELOAD")
    if library is None:
        return False
    with open(proc + "/maps", encoding="utf-8") as maps:
        return not any(line.rstrip().endswith(library) for line in maps)


def measure_instructions(bench):
    """User-space instructions that one anonymous private mmap + munmap takes, counted by callgrind.

    Two lengths of the same program: their difference is free of what start and end take.
    """
    program = bench.program("pairs")
    counts = {}
    for library in (False, True):
        few, many = (instructions(bench, program, pairs, library) for pairs in PAIRS)
        counts[library] = (many - few) / (PAIRS[1] - PAIRS[0])
    print("instructions: counted", flush=True)
    bench.add(
        "anonymous mmap + munmap, instructions",
        "",
        counts[False],
        counts[True],
        counts[True] - counts[False],
        40,
        False,
        {"without": [counts[False]], "with": [counts[True]]},
    )


def instructions(bench, program, pairs, library):
    """All instructions that `program PAIRS` executes."""
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", f"--callgrind-out-file={os.path.join(bench.work, 'callgrind')}"]
        + [program, str(pairs)],
        env=bench.environment(library),
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or not found:
        raise MeasureError(f"callgrind, exit status {done.returncode}:\n{done.stderr}")
    return int(found.group(1))
