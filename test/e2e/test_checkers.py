# SPDX-License-Identifier: Apache-2.0
#
# Jobs under sanitizers, memory checkers and other allocators run with the library as they run without it.
# Must not live here: what is recorded (beyond that something is).
import collections
import re
import shutil
import subprocess
import warnings

import pytest

import jobs

FOLDER = jobs.PROGRAMS / "checkers"
PRELOADABLE = ["clang-address", "clang-thread", "clang-undefined", "clang-memory", "gcc-thread", "gcc-undefined"]
ALLOCATORS = ["libjemalloc.so.2", "libtcmalloc.so.4", "libtcmalloc_minimal.so.4"]
# what is the same in two runs: no process numbers, no addresses
CHANGING = re.compile(r"==\d+==|0x[0-9a-f]+|\bpid[ =]\d+|\(\d+\)")


def verdicts(text):
    """What a checker said, without the stacks: where the library's own frames are, and rightly."""
    lines = [CHANGING.sub("", line).strip() for line in text.splitlines()]
    said = re.compile(r"ERROR|WARNING|SUMMARY|[Ll]eak of|LeakSanitizer|definitely lost|Invalid|uninitialised|failed|refus|come first")
    return collections.Counter(line for line in lines if said.search(line) and not line.startswith("#"))


def outcome(mpi, command, where, count=2, **how):
    done = jobs.run(mpi, count, command, where, check=False, timeout=300, **how)
    return done.returncode, sorted(line for line in done.stdout.splitlines() if line.startswith("rank")), verdicts(done.stderr)


def differ_in_leaks_alone(one, other):
    """Of two outcomes: in which blocks were not freed, and in nothing else that the checker or the job said."""
    rest = [{line: n for line, n in found[2].items() if "leak" not in line.lower()} for found in (one, other)]
    return one[:2] == other[:2] and rest[0] == rest[1]


def outcomes(mpi, command, where, environment, count):
    """Without the library, and with it."""
    shutil.rmtree(where, ignore_errors=True)
    mine = {key: f"{jobs.SHIM}:{value}" if key == "LD_PRELOAD" else value for key, value in (environment or {}).items()}
    return (outcome(mpi, command, None, count, way="none", environment=environment),
            outcome(mpi, command, where, count, environment=mine))


def alike(pair, tries=1):
    """The outcome without the library, which is that with it; `pair` makes both. `tries`: for jobs of which a checker says
    now this, now that, with the library and without. Leaks that differ are compared once more, and said: of Open MPI's
    own a string of one of its closed plugins is a byte longer or shorter in some runs, beside other jobs in three of ten."""
    without, found = pair()
    if found != without and differ_in_leaks_alone(found, without):
        warnings.warn(f"leaks differ: {found[2] - without[2]} against {without[2] - found[2]}")
        tries = max(tries, 3)
    while found != without and tries > 1:
        tries -= 1
        without, found = pair()
    assert found == without
    return without


def assert_alike(mpi, command, where, environment=None, count=2, tries=1):
    without = alike(lambda: outcomes(mpi, command, where, environment, count), tries)
    assert len(jobs.dumps(where)) == count
    return without


@pytest.mark.parametrize("build", PRELOADABLE)
def test_sanitizers(mpi, where, build):
    # ThreadSanitizer finds races in MPI itself in one of ten runs
    _, ranks, _ = assert_alike(mpi, [str(FOLDER / f"{mpi}-{build}")], where, tries=5 if "thread" in build else 1)
    if build == "clang-memory":
        assert ranks == []  # which stops every job in MPI_Init
    elif (mpi, build) != ("mpich", "gcc-thread"):  # which crashes there by itself
        assert len(ranks) == 2


@pytest.mark.parametrize("build", PRELOADABLE)
def test_sanitizers_without_mpi(build):
    environment = jobs.clean_environment()
    done = [
        subprocess.run([FOLDER / f"absent-{build}"], env={**environment, **extra}, capture_output=True, text=True, timeout=60)
        for extra in ({}, {"LD_PRELOAD": str(jobs.SHIM)})
    ]
    assert (done[1].returncode, done[1].stdout, done[1].stderr) == (0, done[0].stdout, "")


def test_gccs_address_sanitizer_wants_to_be_first(mpi, where):
    """It refuses any preloaded library; under `commtap run` the job runs as it does by itself."""
    command = [str(FOLDER / f"{mpi}-gcc-address")]
    refused = outcome(mpi, command, None, way="none", environment={"LD_PRELOAD": str(FOLDER / "empty.so")})
    assert refused[0] != 0 and refused[1] == []
    assert outcome(mpi, command, where) == refused

    def pair():
        shutil.rmtree(where, ignore_errors=True)
        return outcome(mpi, command, None, way="none"), outcome(mpi, command, where, way="run")
    assert len(alike(pair)[1]) == 2
    assert len(jobs.dumps(where)) == 2


def test_valgrind(where):
    if not shutil.which("valgrind"):
        pytest.skip("no valgrind here")
    command = ["valgrind", "--error-exitcode=9", "--leak-check=no", jobs.program("mpich", "checked")]
    assert len(assert_alike("mpich", command, where, count=1)[1]) == 1


def test_heaptrack(where, tmp_path):
    if not shutil.which("heaptrack"):
        pytest.skip("no heaptrack here")
    command = ["heaptrack", "-o", str(tmp_path / "heap"), jobs.program("mpich", "checked")]
    assert len(assert_alike("mpich", command, where, count=1)[1]) == 1


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_allocators(mpi, where, allocator):
    environment = {"LD_PRELOAD": allocator}
    alone = jobs.run(mpi, 1, ["/bin/true"], None, way="none", environment=environment, check=False)
    if "cannot be preloaded" in alone.stderr:
        pytest.skip(f"no {allocator} here")
    assert len(assert_alike(mpi, [jobs.program(mpi, "checked")], where, environment)[1]) == 2


def test_nothing_of_ours_goes_through_who_interposes_on_libc(mpi, where):
    """Not while it starts (its functions may not be up), nor later (it would take our doings for the job's)."""
    preload = {"LD_PRELOAD": f"{jobs.SHIM}:{FOLDER / 'bystander.so'}"}
    done = jobs.run(mpi, 2, [jobs.program(mpi, "checked")], where, environment=preload)
    assert done.stdout.count("MPI is there\n") == 2 and done.stdout.count("rank") == 2
    assert "called by commtap" not in done.stderr
    assert len(jobs.dumps(where)) == 2
    alone = jobs.run(mpi, 1, ["/bin/true"], None, way="none", environment=preload)
    assert (alone.stdout, alone.stderr) == ("MPI is not there\n", "")
