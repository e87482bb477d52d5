# SPDX-License-Identifier: Apache-2.0
#
# Somebody truncates, overwrites and restores a dump while commands read it: none crashes, none hangs, all name the file,
# and the other ranks' dumps are used.
# Must not live here: what exactly is noticed when (test/unit/test_changes.c).
import os
import random
import shutil
import threading
import time

import pytest

import jobs

COMMANDS = [["report"], ["summary"], ["summary", "--by", "site,op"], ["stragglers"], ["steps"], ["calls", "--noise", "3"],
            ["diagnose"], ["check"], ["export"], ["export", "--table", "peers"], ["report", "--format", "json"], ["diff"]]


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    where = tmp_path_factory.mktemp("changes") / "dumps"
    jobs.run("mpich", 3, [jobs.program("mpich", "ibsends")], where)
    return where


class Vandal(threading.Thread):
    """Does something to a file and restores it, again and again."""

    def __init__(self, path, harm):
        super().__init__()
        self.path, self.harm = path, harm
        self.random, self.over = random.Random(5), threading.Event()
        self.sound = path.read_bytes()

    def run(self):
        while not self.over.wait(self.random.random() * 0.05):
            self.harm(self, self.random.randrange(len(self.sound)))
            time.sleep(self.random.random() * 0.05)
            self.restore()

    def restore(self):
        with open(self.path, "r+b") as file:
            file.write(self.sound)

    def truncate(self, at):
        os.truncate(self.path, self.random.choice([0, 100, 65536, at]))

    def overwrite(self, at):
        with open(self.path, "r+b") as file:
            for _ in range(50):
                file.seek(self.random.randrange(len(self.sound) - 5000))
                file.write(self.random.randbytes(5000))
            file.truncate(at)
            file.truncate(len(self.sound))


@pytest.mark.parametrize("harm", [Vandal.truncate, Vandal.overwrite], ids=["truncate", "overwrite"])
def test_a_dump_that_changes_all_the_time(dumps, harm, tmp_path):
    where = tmp_path / "dumps"
    shutil.copytree(dumps, where)
    victim = sorted(where.glob("*.ct"))[0]
    vandal = Vandal(victim, harm)
    said = ""
    vandal.start()
    try:
        for command in COMMANDS:
            directories = [where, where] if command == ["diff"] else [where]
            # 1: check found problems; 3: an export, which prints as it reads, is not complete
            codes = {"check": (0, 1), "export": (0, 3)}.get(command[0], (0,))
            said += jobs.commtap(*command, *directories, codes=codes).stderr
    finally:
        vandal.over.set()
        vandal.join()
    assert victim.name in said
    assert not any(other.name in said for other in sorted(where.glob("*.ct"))[1:])
    vandal.restore()
    assert jobs.seen(jobs.report(where)) == jobs.seen(jobs.report(dumps))
