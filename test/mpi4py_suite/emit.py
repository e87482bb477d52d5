# SPDX-License-Identifier: Apache-2.0
#
# Runs mpi4py's own tests in one rank and writes a JSON line as each begins and ends: also of a rank that is killed in
# the middle of one, it is then known in which.
# Must not live here: launching it (side.py), judging what it wrote (compare.py).
#
#   emit.py TESTS OUTPUT [--every K] [--only MODULE.CLASS] [--after NUMBER]
import argparse
import json
import os
import pathlib
import re
import sys
import unittest

# What differs from run to run in a message: addresses, numbers of processes and ports, names of temporary files.
CHANGING = re.compile(r"0x[0-9a-fA-F]+|\btmp\w{8}\b|\d{4,}")


def last_line(error):
    """The type of an exception and the last line of what it says."""
    lines = str(error[1]).strip().splitlines() or [""]
    return f"{error[0].__name__}: {CHANGING.sub('~', lines[-1])}"


class Emitter(unittest.TestResult):
    def __init__(self, path, begun):
        super().__init__()
        self.begun = begun  # tests before these, and those of these that have begun
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def emit(self, **what):
        os.write(self.file, (json.dumps(what) + "\n").encode())

    def startTest(self, test):
        super().startTest(test)
        self.begun += 1
        self.emit(begin=test.id(), number=self.begun)

    def stopTest(self, test):
        super().stopTest(test)
        self.emit(end=test.id())

    def outcome(self, test, text):
        self.emit(test=test.id(), outcome=text)

    def addSuccess(self, test):
        self.outcome(test, "ok")

    def addSkip(self, test, reason):
        self.outcome(test, f"skip: {CHANGING.sub('~', reason)}")

    def addFailure(self, test, error):
        self.outcome(test, f"fail: {last_line(error)}")

    def addError(self, test, error):
        self.outcome(test, f"error: {last_line(error)}")

    def addExpectedFailure(self, test, error):
        self.outcome(test, "expected failure")

    def addUnexpectedSuccess(self, test):
        self.outcome(test, "unexpected success")

    def addSubTest(self, test, subtest, error):
        if error:
            self.outcome(subtest, f"error: {last_line(error)}")


def classes(directory):
    """[(module.class, [tests])] of the suite, in an order that every rank and every run shares."""
    loader, found = unittest.TestLoader(), {}
    for name in sorted(path.stem for path in pathlib.Path(directory).glob("test_*.py")):
        pending = [loader.loadTestsFromName(name)]
        while pending:
            item = pending.pop(0)
            if isinstance(item, unittest.TestSuite):
                pending[:0] = list(item)
            else:
                found.setdefault(f"{type(item).__module__}.{type(item).__qualname__}", []).append(item)
    return list(found.items())


def select(found, every=1, only=None):
    """The tests of every `every`-th class, or of one class, in a list."""
    chosen = [tests for name, tests in found if name == only] if only else [tests for _, tests in found][::every]
    return [test for tests in chosen for test in tests]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tests")
    parser.add_argument("output")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--only")
    parser.add_argument("--after", type=int, default=0)
    options = parser.parse_args()
    sys.dont_write_bytecode = True
    sys.path.insert(0, options.tests)
    sys.argv[1:] = []
    for optional in ("cupy", "numba"):
        sys.modules[optional] = None
    from mpi4py import MPI

    emitter = Emitter(f"{options.output}.{MPI.COMM_WORLD.Get_rank()}", options.after)
    tests = select(classes(options.tests), options.every, options.only)
    unittest.TestSuite(tests[options.after :]).run(emitter)
    emitter.emit(finished=True)


if __name__ == "__main__":
    main()
