# SPDX-License-Identifier: Apache-2.0
#
# Python packages that Debian has not, fetched by the hashes in wheels.txt, kept below build/.
# Must not live here: the MPIs and mpi4pys of test/mpi4py_suite, tests.
import fcntl
import pathlib
import subprocess
import sys

import pytest

import jobs

WANTED = pathlib.Path(__file__).with_suffix(".txt")
HOME = jobs.BUILD / "test" / "wheels"
PIP = [jobs.PYTHON, "-m", "pip", "--quiet", "--disable-pip-version-check", "--retries", "1", "install", "--no-deps",
       "--require-hashes", "--only-binary", ":all:"]


def _install(target):
    jobs.need("python3-pip")
    done = subprocess.run([*PIP, "--target", str(target), "-r", str(WANTED)], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=300, check=False)
    if done.returncode:
        pytest.skip(f"{WANTED.name} cannot be had: {done.stderr.strip().splitlines()[-1][:160]}")


def use():
    """Puts the packages on the path; skips the test where they cannot be had."""
    HOME.mkdir(parents=True, exist_ok=True)
    target, done = HOME / "packages", HOME / "done"
    with open(HOME / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists() or done.read_text() != WANTED.read_text():
            _install(target)
            done.write_text(WANTED.read_text())
    if str(target) not in sys.path:
        sys.path.insert(0, str(target))
