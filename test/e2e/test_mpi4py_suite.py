# SPDX-License-Identifier: Apache-2.0
#
# mpi4py's own test suite gives the same outcome, test by test and rank by rank, with commtap and without: a fixed
# sample of it (make check-mpi4py runs all). And that the comparison notices what it is there to notice.
# Must not live here: what commtap records of it.
import dataclasses
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mpi4py_suite"))
import compare
import environments
import main
import side

# A wheel that asks by weak references on an MPI that lacks much of what it asks for; the same on one that has nearly
# all; the older version, built from source. Every so many-th class of tests, so many that none of spawning is among
# them on Open MPI 4: there these hang now and then, also without commtap, and to tell would take minutes.
SAMPLE = [("openmpi-4", "4.1.2", 2, 12), ("mpich-5", "4.1.2", 1, 16), ("mpich-4", "3.1.6", 2, 16)]

# A suite of every kind of ending; in this order.
ENDINGS = '''
import os, time, unittest
class Test(unittest.TestCase):
    def test_a(self): pass
    def test_b(self): self.skipTest("not today")
    def test_c(self): self.assertEqual(1, 2, "at 0x7f0012345678\\nlast line")
    def test_d(self): raise OSError(2, "gone")
    @unittest.expectedFailure
    def test_e(self): self.fail()
    def test_f(self):
        with self.subTest(part=1): self.fail("first")
        with self.subTest(part=2): self.fail("second")
    def test_g(self): os._exit(3)
    def test_h(self): pass
    def test_i(self): time.sleep(600)
    def test_j(self): pass
'''


def cell_of(mpi, version):
    try:
        return environments.prepare(mpi, version)
    except environments.Unavailable as reason:
        pytest.skip(f"mpi4py {version} on {mpi}: {reason}")


@pytest.mark.parametrize("mpi, version, ranks, every", SAMPLE)
def test_the_suite_passes_as_without(mpi, version, ranks, every, tmp_path):
    verdict = compare.compare(cell_of(mpi, version), ranks, tmp_path, ["--every", str(every)])
    assert verdict.tests > 50 * ranks
    assert not verdict.different and not verdict.trouble, "\n".join(main.details(verdict))


@dataclasses.dataclass(frozen=True)
class OtherTests:
    """A cell whose tests are others."""

    cell: environments.Cell
    tests: pathlib.Path

    def __getattr__(self, name):
        return getattr(self.cell, name)


def test_every_ending_is_told_and_the_rest_has_its_turn(tmp_path, monkeypatch):
    cell = cell_of("mpich-4", "3.1.6")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_endings.py").write_text(ENDINGS)
    monkeypatch.setattr(side, "STALL", 5)
    found = side.run(OtherTests(cell, tmp_path / "tests"), 1, tmp_path / "run", True)
    name = "test_endings.Test.test_"
    assert found.outcomes == {
        (0, f"{name}a"): ("ok",),
        (0, f"{name}b"): ("skip: not today",),
        (0, f"{name}c"): ("fail: AssertionError: last line",),
        (0, f"{name}d"): ("error: FileNotFoundError: [Errno 2] gone",),
        (0, f"{name}e"): ("expected failure",),
        (0, f"{name}f (part=1)"): ("error: AssertionError: first",),
        (0, f"{name}f (part=2)"): ("error: AssertionError: second",),
        (0, f"{name}g"): ("died",),
        (0, f"{name}h"): ("ok",),
        (0, f"{name}i"): ("hung",),
        (0, f"{name}j"): ("ok",),
        (-1, "end of the job"): ("exit 0",),
        (-1, "lines of commtap"): (),
    }
    assert len(found.directories) == 3 and compare.unsound(found.directories) == []


@pytest.mark.parametrize(
    "stalled, used, hangs",
    [(30, 0, False), (60, 0, True), (60, 5, False), (60, 19, False), (60, 21, True), (149, 5, False), (151, 5, True)],
)
def test_a_job_that_only_gets_little_of_the_machine_does_not_hang(stalled, used, hangs):
    assert side._hangs(stalled, used, 2) == hangs


class Script:
    """Runs that give what a list says, one entry after the other; the last one again and again."""

    def __init__(self, without, with_commtap):
        self.lists = {False: without, True: with_commtap}
        self.runs = 0

    def __call__(self, cell, ranks, directory, preload, selection):
        self.runs += 1
        outcomes = self.lists[preload]
        first = outcomes.pop(0) if len(outcomes) > 1 else outcomes[0]
        return side.Side({(0, "m.C.test"): (first,), (0, "m.D.test"): ("ok",)})


@pytest.mark.parametrize(
    "without, with_commtap, different, fluctuating",
    [
        (["ok"], ["ok"], 0, 0),
        (["ok"], ["fail: x"], 1, 0),
        (["fail: x"], ["fail: y"], 1, 0),
        (["fail: x"], ["ok"], 1, 0),
        (["ok"], ["hung"], 1, 0),
        (["ok"], ["fail: x", "ok"], 1, 0),  # once is enough where it never happens without
        (["ok", "fail: x", "ok"], ["fail: x", "ok"], 0, 1),
        (["ok", "ok", "ok", "hung"], ["hung"], 0, 1),
        (["fail: x", "ok"], ["ok"], 0, 1),
    ],
)
def test_what_fluctuates_without_commtap_is_told_from_what_differs(without, with_commtap, different, fluctuating):
    script = Script(without, with_commtap)
    verdict = compare.compare(None, 1, pathlib.Path("nowhere"), run=script)
    assert (verdict.tests, len(verdict.different), len(verdict.fluctuating)) == (2, different, fluctuating)
    assert (script.runs == 2) == (different + fluctuating == 0)


@pytest.mark.parametrize(
    "without, with_commtap, different",
    [
        ({"m.C.a": "hung"}, {"m.C.b": "hung"}, 0),
        ({"m.C.a": "hung"}, {"m.C.b": "hung", "m.C.c": "hung", "m.C.d": "hung"}, 0),
        ({"m.C.a": "hung"}, {"m.C.b": "hung", "m.D.c": "hung"}, 0),
        ({"m.C.a": "hung"}, {"n.C.b": "hung"}, 1),
        ({"m.C.a": "hung"}, {"m.C.b": "died"}, 1),
        ({"m.C.a": "hung"}, {"m.C.b": "fail: x"}, 1),
    ],
)
def test_in_which_test_of_a_module_a_job_hangs_is_chance(without, with_commtap, different):
    names = {**without, **with_commtap}

    def run(cell, ranks, directory, preload, selection):
        given = with_commtap if preload else without
        return side.Side({(0, name): (given.get(name, "ok"),) for name in names})

    verdict = compare.compare(None, 1, pathlib.Path("nowhere"), run=run)
    # One that hangs without commtap in every round and never with it differs too.
    assert len([key for key in verdict.different if key[1] in with_commtap]) == different


def test_hanging_far_more_often_with_commtap_differs():
    rounds = [0]

    def run(cell, ranks, directory, preload, selection):
        rounds[0] += not preload
        outcomes = {(0, "m.C.a"): ("ok",), (0, "m.C.b"): ("ok",)}
        if preload or rounds[0] == 1:
            outcomes[0, "m.C.b" if preload else "m.C.a"] = ("hung",)
        return side.Side(outcomes)

    history = compare.History()
    for number in range(8):
        history.add(*(run(None, 1, None, preload, ()) for preload in (False, True)))
        assert ((0, "m.C.b") in history.differing()) == (number >= 3), number


def test_the_table_tells_what_differs_and_sums_up_what_fluctuates():
    verdict = compare.Verdict(
        tests=9,
        different={(1, "m.C.a"): ([("ok",), ("ok",)], [("fail: x",), ("ok",)])},
        fluctuating={(0, "n.C.a"): ([("hung",), ("ok",)], [("hung",)]), (1, "n.C.b"): ([("ok",)], [("ok",)])},
        trouble=["d: exit 3"],
        seconds=(61, 70),
    )
    assert main.row("4.1.2", "impi", 2, verdict).split() == "4.1.2 impi 2 9 6 1 2 61 s 70 s".split()
    assert list(main.details(verdict)) == [
        "    different: rank 1 m.C.a",
        "        without 2 of 2: ok",
        "        with 1 of 2: fail: x",
        "        with 1 of 2: ok",
        "    fluctuate: 2 of n: without {hung; ok}, with {hung; ok}",
        "    trouble: d: exit 3",
    ]


def test_a_job_in_which_no_test_ran_is_no_success():
    def run(cell, ranks, directory, preload, selection):
        return side.Side({(-1, "end of the job"): ("died before its first test",)})

    verdict = compare.compare(None, 1, pathlib.Path("nowhere"), run=run)
    assert verdict.tests == 0 and len(verdict.trouble) == 1


def test_ranks_that_leave_no_dump_are_told(tmp_path):
    def run(cell, ranks, directory, preload, selection):
        return side.Side({(0, "m.C.test"): ("ok",)}, directories=[tmp_path] if preload else [])

    verdict = compare.compare(None, 2, pathlib.Path("nowhere"), run=run)
    assert verdict.trouble == [f"{tmp_path}: 0 dumps of 2 ranks"]


def test_a_test_that_a_side_never_reached_differs():
    def run(cell, ranks, directory, preload, selection):
        return side.Side({(0, "m.C.test"): ("ok",)} if not preload else {})

    verdict = compare.compare(None, 1, pathlib.Path("nowhere"), run=run)
    assert list(verdict.different) == [(0, "m.C.test")]


def test_what_cannot_be_had_is_skipped_with_a_line(tmp_path):
    """Offline: pip is pointed at nothing; where nothing was fetched before, each cell says so and none fails."""
    program = f"""
import pathlib, sys
sys.path.insert(0, {str(pathlib.Path(main.__file__).parent)!r})
import environments, main
environments.HOME = pathlib.Path({str(tmp_path)!r})
sys.exit(main.main())
"""
    offline = {**environments.jobs.clean_environment(), "PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_RETRIES": "0"}
    offline.pop("PIP_FIND_LINKS", None)
    words = [environments.jobs.PYTHON, "-c", program, "--mpi", "mpich-5,openmpi-5", "--mpi4py", "4.1.2"]
    done = subprocess.run(words, capture_output=True, text=True, env=offline, timeout=100)
    lines = done.stdout.splitlines()
    assert (done.returncode, len(lines)) == (0, 3), done.stderr
    assert all(" skipped: " in line and "cannot be had" in line for line in lines[1:]), lines


def test_what_is_not_the_pinned_file_is_refused(tmp_path, monkeypatch):
    try:
        environments.source("4.1.2")
    except environments.Unavailable as reason:
        pytest.skip(str(reason))
    monkeypatch.setenv("PIP_FIND_LINKS", str(environments.HOME))  # where it lies now
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setattr(environments, "HOME", tmp_path / "right")
    assert (environments.source("4.1.2") / "test").is_dir()
    monkeypatch.setattr(environments, "HOME", tmp_path / "wrong")
    monkeypatch.setattr(environments, "PINS", {pin: f"{pin} --hash=sha256:{64 * '0'}" for pin in environments.PINS})
    with pytest.raises(environments.Unavailable, match="DO NOT MATCH THE HASHES"):
        environments.source("4.1.2")
