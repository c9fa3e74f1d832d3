"""Runs tests of CPython's own suite; prints the outcome of each to stdout, one line, sorted.

    python3 outcomes.py MODULE [WORD...]

MODULE: such as test.test_multiprocessing_fork. WORD: only tests whose id contains one of the words.
A test that does not pass is run a second time, as CPython's own CI does (`python -m test --rerun`):
several of them allow their children a fixed time. Details go to stderr. Exit status 0 if there were
tests and no more of them failed than passed: the caller compares outcomes, failures included.
"""

import faulthandler
import sys
import unittest


class Outcomes(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.of = {}

    def note(self, test, outcome, detail=""):
        name = test.id()
        # A failing subtest has been noted already; its test must not become a success afterwards.
        if outcome == "ok" and name in self.of:
            return
        self.of[name] = outcome
        if outcome != "ok":
            print(f"{outcome}: {name}: {detail}", file=sys.stderr, flush=True)

    def addSuccess(self, test):
        self.note(test, "ok")

    def addFailure(self, test, err):
        self.note(test, "failed", self._exc_info_to_string(err, test))

    def addError(self, test, err):
        self.note(test, "error", self._exc_info_to_string(err, test))

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.note(test, "failed", self._exc_info_to_string(err, test))

    def addSkip(self, test, reason):
        self.note(test, "skipped", reason)

    def addExpectedFailure(self, test, err):
        self.note(test, "ok")

    def addUnexpectedSuccess(self, test):
        self.note(test, "failed", "unexpected success")


def each(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from each(item)
        else:
            yield item


def run(tests):
    outcomes = Outcomes()
    # A suite, not the tests one by one: it calls setUpModule and the like.
    unittest.TestSuite(tests).run(outcomes)
    return outcomes


def chosen(module, words):
    tests = list(each(unittest.defaultTestLoader.loadTestsFromName(module)))
    return [test for test in tests if not words or any(word in test.id() for word in words)]


def main():
    faulthandler.enable()
    module, words = sys.argv[1], sys.argv[2:]
    outcomes = run(chosen(module, words)).of
    bad = [name for name, outcome in outcomes.items() if outcome in ("failed", "error")]
    if bad:
        print(f"once more: {bad}", file=sys.stderr, flush=True)
        # Loaded again: a suite drops its tests once they have run.
        again = run([test for test in chosen(module, words) if test.id() in bad])
        outcomes.update(again.of)
    for name in sorted(outcomes):
        print(f"{outcomes[name]:8} {name}")
    passed = sum(outcome == "ok" for outcome in outcomes.values())
    failed = sum(outcome in ("failed", "error") for outcome in outcomes.values())
    print(f"{len(outcomes)} tests, {passed} passed, {failed} failed", file=sys.stderr, flush=True)
    sys.stdout.flush()
    sys.exit(0 if passed > failed else 1)


if __name__ == "__main__":
    main()
