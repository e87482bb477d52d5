# SPDX-License-Identifier: Apache-2.0
#
# Other tools that commtap's answers are compared with, fetched from PyPI by hashes and kept below build/.
# Must not live here: which part of a package is the tool, comparisons (test/*_peer).
import shutil
import subprocess
import sys

PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--retries", "1"]


def quietly(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, **options)


def install(home, pins, tool, *words, unpack=None):
    """Where the tool is; None, after a line, where it cannot be had.

    `words`: what pip is to choose. unpack(file, folder) takes what is needed out of the package; without it pip installs.
    """
    target, fetched, done = home / "packages", home / "fetched", home / "done"
    if done.exists() and done.read_text() == pins.read_text():
        return target
    for folder in (target, fetched):
        shutil.rmtree(folder, ignore_errors=True)
    home.mkdir(parents=True, exist_ok=True)
    way = ["download", "--dest", fetched] if unpack else ["install", "--target", target]
    said = quietly(*PIP, *way, "--no-deps", "--require-hashes", *words, "-r", pins, timeout=900)
    if said.returncode:
        print(f"the comparison is skipped, {tool} cannot be had:", (said.stderr.strip() or "?").splitlines()[-1])
        return None
    if unpack:
        unpack(next(fetched.iterdir()), target)
        shutil.rmtree(fetched)
    done.write_text(pins.read_text())
    return target
