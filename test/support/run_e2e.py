#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the end-to-end tests: side by side what stands it, after it jobs that hang, then one by one what tells by times.

Tests that failed in a few files are tried again, one file at a time, three times: real jobs on a busy machine now and
then meet what no bound foresaw. Those that pass each time are named in the last lines, so that the cause is looked for,
and do not fail the run; more than a few are no bad luck, and none is tried again.

Must not live here: what a test does or which part it belongs to (its marks, test/e2e/conftest.py).

  run_e2e.py DIRECTORY SCRATCH     pytest's words and closing lines go through; 0: all passed, also if at a second try
"""
import collections
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys

# In three whole runs of about 2,300 tests, whose causes were looked for, chance failed tests in 2, 2 and 3 files; where
# it fails a fixture it fails all tests of its file.
FILES_MOST = 3
# What fails every second time passes three tries of three in one run out of eight.
TRIES = 3


def beside(how):
    """As many at a time as there are processors and one more, which runs while others wait, where pytest can."""
    if importlib.util.find_spec("xdist") is None:
        return []
    return ["-n", str(1 + len(os.sched_getaffinity(0))), "--dist", how]


PARTS = [("not alone and not hangs", beside("loadfile")), ("hangs", beside("load")), ("alone", [])]


def run(*options):
    """pytest's exit status."""
    return subprocess.run([sys.executable, "-m", "pytest", "-q", *options], check=False).returncode


def run_part(marks, how, directory, cache):
    """(exit status, the tests that failed)"""
    status = run("-rs", "--durations=12", "-o", f"cache_dir={cache.resolve()}", "-m", marks, *how, str(directory))
    failed = cache / "v/cache/lastfailed"
    return status, sorted(json.loads(failed.read_text())) if failed.is_file() else []


def by_file(tests):
    files = collections.defaultdict(list)
    for test in tests:
        files[test.split("::")[0]].append(test)
    return files


def pass_alone(tests):
    return all(run("-p", "no:cacheprovider", *tests) == 0 for _ in range(TRIES))


def main():
    directory, scratch = map(pathlib.Path, sys.argv[1:])
    shutil.rmtree(scratch, ignore_errors=True)
    failed = []
    for number, (marks, how) in enumerate(PARTS):
        status, names = run_part(marks, how, directory, scratch / str(number))
        # 0 all passed, 1 some failed, 5 none has these marks; anything else is no answer about tests
        if status not in (0, 1, 5) or status == 1 and not names:
            sys.exit(f"run_e2e: pytest ended with {status} on '{marks}'")
        failed += names
    files = by_file(failed)
    if len(files) > FILES_MOST:
        sys.exit("\n".join([f"run_e2e: tests of more than {FILES_MOST} files failed, none is tried again:", *failed]))
    lasting = [file for file, tests in files.items() if not pass_alone(tests)]
    for test in failed:
        again = "failed again alone" if test.split("::")[0] in lasting else "passed alone: a bug of chance"
        print(f"run_e2e: {test} failed, and {again}")
    sys.exit(1 if lasting else 0)


if __name__ == "__main__":
    main()
