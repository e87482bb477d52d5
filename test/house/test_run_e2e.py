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


def run(tmp_path, tests):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/conftest.py").write_text(CONFTEST)
    (tmp_path / "tests/test_planted.py").write_text(TESTS + tests)
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
    assert len((tmp_path / "tests/good").read_text()) == 1


@pytest.mark.parametrize("again", [2, 3, 4])
def test_what_fails_twice_fails(tmp_path, again):
    done = run(tmp_path, CHANCE.format("", [1, again]))
    assert done.returncode == 1
    assert "run_e2e: tests/test_planted.py::test_chance failed, and failed again alone" in done.stdout


def test_many_are_no_chance(tmp_path):
    """Three at most are tried again: these are four."""
    done = run(tmp_path, CHANCE.format("", [1]) + CHANCE.format("_too", [1]))
    assert done.returncode == 1 and "4 tests failed; more than 3 are not tried again" in done.stderr
    assert len((tmp_path / "tests/chance").read_text()) == 1


def test_tests_that_cannot_be_read_fail(tmp_path):
    done = run(tmp_path, "import nothing_of_that_name\n")
    assert done.returncode == 1 and "nothing_of_that_name" in done.stdout
