# SPDX-License-Identifier: Apache-2.0
#
# What of the end-to-end tests is tried again, and when that saves the run. Must not live here: those tests.
import pathlib
import subprocess
import sys

import pytest

RUN = pathlib.Path(__file__).resolve().parents[1] / "support/run_e2e.py"
CONFTEST = """
def pytest_configure(config):
    for mark in ("alone", "hangs"):
        config.addinivalue_line("markers", mark + ": as in test/e2e")
"""
# COUNT counts the runs of one test, over processes
TESTS = """
import pathlib
import pytest

def runs(name):
    with open(pathlib.Path(__file__).parent / name, "a+") as count:
        count.write(".")
        return count.tell()

def test_good():
    assert runs("good") == 1

"""
CHANCE = """
@pytest.mark.alone
def test_chance{0}():
    assert runs("chance{0}") not in {1}

@pytest.fixture
def made{0}():
    assert runs("made{0}") not in {1}

@pytest.mark.hangs
def test_made{0}(made{0}):
    pass

"""


def run(tmp_path, tests, files=("planted",)):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/conftest.py").write_text(CONFTEST)
    for name in files:
        (tmp_path / f"tests/test_{name}.py").write_text(TESTS.replace('"good"', f'"good_{name}"') + tests)
    return subprocess.run([sys.executable, RUN, "tests", "scratch"], cwd=tmp_path, capture_output=True, text=True, check=False)


def test_all_pass(tmp_path):
    done = run(tmp_path, "")
    assert done.returncode == 0 and "1 passed" in done.stdout and "run_e2e" not in done.stdout


def test_what_fails_once_is_named_and_passes(tmp_path):
    """A test and a fixture, each in its part; what passed is not run again."""
    done = run(tmp_path, CHANCE.format("", [1]))
    assert done.returncode == 0, done.stdout
    for name in ("chance", "made"):
        assert f"run_e2e: tests/test_planted.py::test_{name} failed, and passed alone: a bug of chance" in done.stdout
        assert len((tmp_path / "tests" / name).read_text()) == 4
    assert len((tmp_path / "tests/good_planted").read_text()) == 1


@pytest.mark.parametrize("again", [2, 3, 4])
def test_what_fails_twice_fails(tmp_path, again):
    done = run(tmp_path, CHANCE.format("", [1, again]))
    assert done.returncode == 1
    assert "run_e2e: tests/test_planted.py::test_chance failed, and failed again alone" in done.stdout


def test_many_are_no_chance(tmp_path):
    """Those of three files at most are tried again: these are four, and three."""
    once = """
def test_once():
    assert runs(pathlib.Path(__file__).stem) > 1
"""
    done = run(tmp_path, once, ["a", "b", "c", "d"])
    assert done.returncode == 1 and "tests of more than 3 files failed, none is tried again:\ntests/test_a.py::test_once" in done.stderr
    assert len((tmp_path / "tests/test_a").read_text()) == 1
    (tmp_path / "three").mkdir()
    assert run(tmp_path / "three", once, ["a", "b", "c"]).returncode == 0


def test_tests_that_cannot_be_read_fail(tmp_path):
    done = run(tmp_path, "import nothing_of_that_name\n")
    assert done.returncode == 1 and "nothing_of_that_name" in done.stdout
