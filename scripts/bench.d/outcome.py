"""What a measurement gives back: a value, what it was compared with, and the goal."""
import os
import subprocess


class MeasureError(Exception):
    """A measurement that did not measure what it should have; the text says why."""


class Bench:
    """One run of the benchmarks.

    `library` is the absolute path of the library under test; `work` a directory on the disk under test, removed at the
    end; `opt` the command line.
    """

    def __init__(self, library, work, opt):
        self.library = library
        self.work = work
        self.opt = opt
        self.results = []

    def environment(self, library, **more):
        """The caller's environment without any variable of ours, and with the library preloaded or not."""
        env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("SHMGUARD_") and name not in ("LD_PRELOAD", "TORCH_SHARED_MEMORY_PATH")
        }
        if library:
            env["LD_PRELOAD"] = self.library
            env["SHMGUARD_STATE"] = os.path.join(self.work, "state")
        env.update(more)
        return env

    def program(self, name):
        """Compiles NAME.c of this directory; the path of the program."""
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".c")
        built = os.path.join(self.work, name)
        done = subprocess.run(["cc", "-O2", "-Wall", "-o", built, source], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise MeasureError(f"{name}.c does not compile:\n{done.stderr}")
        return built

    def add(self, name, unit, without, with_library, value, goal, at_least, samples):
        """Records a result.

        `value` is compared with `goal`: not below it if `at_least`, else not above it. `without` and `with_library` are
        the medians (or counts) in `unit` that it comes from; `samples` the single values, for the JSON.
        """
        met = value >= goal if at_least else value <= goal
        self.results.append(
            {
                "name": name,
                "unit": unit,
                "without": without,
                "with": with_library,
                "value": value,
                "goal": goal,
                "goal_is": "at least" if at_least else "at most",
                "met": met,
                "samples": samples,
            }
        )

    def print_table(self):
        rows = [("", "without", "with", "unit", "result", "goal", "")]
        for result in self.results:
            ratio = result["goal_is"] == "at least"
            rows.append(
                (
                    result["name"],
                    number(result["without"]),
                    number(result["with"]),
                    result["unit"],
                    f"{result['value']:.3f}" if ratio else f"{result['value']:+.4g}",
                    f">= {result['goal']:.2f}" if ratio else f"<= {result['goal']:+g}",
                    "met" if result["met"] else "MISSED",
                )
            )
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        for row in rows:
            cells = [row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
            print("  ".join(cells).rstrip())


def number(value):
    return f"{value:.0f}" if value >= 1000 or value == int(value) else f"{value:.4g}"
