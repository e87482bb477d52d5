# SPDX-License-Identifier: Apache-2.0
#
# Several libraries in one process define MPI's functions, each for those who are linked to it: a real MPI, another one,
# a serial solver's stand-in. Everybody reaches the one that it reaches without commtap; one real MPI is recorded.
# Must not live here: functions that no library has (test_references.py).
import re
import subprocess

import pytest

import jobs

FOLDER = jobs.PROGRAMS / "neighbours"
MPI_NAMES = {"openmpi": "libmpi.so.40", "mpich": "libmpich.so.12"}
STAND_INS = ["serial", "own"]


def alone_and_recorded(where, *command):
    """What the program prints without commtap, and with it the same."""
    command = [str(word) for word in command]
    outcomes = []
    for preload in ({}, {"LD_PRELOAD": str(jobs.SHIM), "COMMTAP_DIR": str(where)}):
        environment = {**jobs.clean_environment(), **preload}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        outcomes.append((done.returncode, done.stdout, done.stderr))
    assert outcomes[1] == outcomes[0]
    return outcomes[0]


def plugins(where, how, *names):
    for name in names:
        if name in MPI_NAMES:
            jobs.need_mpi(name)
    return alone_and_recorded(where, FOLDER / "host", how, *[FOLDER / f"{name}.so" for name in names])


@pytest.mark.parametrize("how", ["now", "lazy", "opened"])
@pytest.mark.parametrize("solver", STAND_INS)
def test_a_stand_in_beside_the_real_mpi(mpi, where, solver, how):
    if mpi == "openmpi" and how != "opened":
        pytest.skip("Open MPI makes itself global when it starts: whoever comes later reaches it")
    code, out, _ = plugins(where, how, mpi, solver)
    assert code == 0 and "serial 0 101" in out and "serial finalizes" in out and "finalized 0" in out
    assert "namesake -20.25" in out
    assert ("101 21.75" in out and "serial barrier 5" in out) == (how != "lazy")
    assert jobs.seen(jobs.summary(where))["MPI_Allreduce", 8] == 7


@pytest.mark.parametrize("how", ["now", "lazy", "opened"])
@pytest.mark.parametrize("solver", STAND_INS)
def test_a_stand_in_before_the_real_mpi(mpi, where, solver, how):
    """The first library with MPI's functions is not the job's MPI for that: the real one is recorded."""
    if mpi == "openmpi" and how == "lazy":
        pytest.skip("Open MPI makes itself global when it starts: what is bound afterwards reaches it")
    code, out, _ = plugins(where, how, solver, mpi)
    assert code == 0 and "serial 0 101" in out and "serial finalizes" in out and "finalized 0" in out
    seen = jobs.seen(jobs.summary(where))
    assert seen["MPI_Allreduce", 8] == 7 and seen["MPI_Barrier", 0] == 1


@pytest.mark.parametrize("how", ["now", "opened"])
def test_two_real_libraries(where, how):
    """Open MPI makes itself global when it starts: who came before stays bound to his own."""
    code, out, _ = plugins(where, how, "mpich", "openmpi")
    assert code == 0
    assert re.findall(r"(\w+) .*finalized 0", out) == ["MPICH", "Open"]
    assert jobs.seen(jobs.summary(where))["MPI_Allreduce", 8] == 7


def test_a_stand_in_that_all_reach(mpi, where):
    """Linked before the real MPI: its calls are not the real one's, which nobody initializes."""
    code, out, _ = alone_and_recorded(where, FOLDER / f"serial-before-{mpi}")
    assert code == 0 and out.splitlines() == ["serial 0 101 0", "serial barrier 5", "serial finalizes"]
    assert not where.exists()


@pytest.mark.parametrize("first, second", [("openmpi", "mpich"), ("mpich", "openmpi")])
def test_a_program_linked_to_two(where, first, second):
    """Recorded with what the first one means by a handle."""
    jobs.need_mpi(first)
    jobs.need_mpi(second)
    code, out, _ = alone_and_recorded(where, FOLDER / f"{first}-before-{second}")
    assert code == 0 and re.findall(r"(\w+) .*finalized 0", out) == [{"mpich": "MPICH", "openmpi": "Open"}[first]]
    seen = jobs.seen(jobs.summary(where))
    assert seen["MPI_Allreduce", 8] == 7 and seen["MPI_Barrier", 0] == 1


@pytest.mark.parametrize("how", ["now", "lazy"])
def test_what_comes_next_behind_a_plugin(mpi, where, how):
    _, out, _ = plugins(where, how, mpi)
    assert re.search(r"next 1$", out, re.MULTILINE)


def test_a_look_up_before_the_c_library_has_begun(where):
    code, out, _ = alone_and_recorded(where, FOLDER / "environment", "last")
    assert code == 3 and out.startswith("1 /") and out.endswith(" last\n")


@pytest.mark.parametrize("how", ["now", "lazy"])
def test_nobody_sees_what_is_anothers(mpi, where, how):
    """A weak reference is no reference to what another plugin brought for itself."""
    code, out, _ = plugins(where, how, "own", "asking")
    assert code == 0 and out.count("asking") == 7 and not re.search(r"asking \w+ 1", out)
    _, out, _ = plugins(where, "opened", mpi, "own", "asking")
    assert mpi == "openmpi" or not re.search(r"asking \w+ 1", out)


def test_unloading_and_loading_again(mpi, where):
    code, out, _ = alone_and_recorded(where, FOLDER / "host", "again", MPI_NAMES[mpi])
    if mpi == "mpich":
        assert code == 0 and out == 2 * "init 0 finalize 0 close 0 still there 0\n"


@pytest.mark.parametrize("by", ["look-up", "plugin"])
def test_what_is_still_needed_stays(mpi, where, by):
    """Closed while the program has looked it up in the global scope, or a plugin is bound to it: as long as these are."""
    needs = [FOLDER / "unlinked.so"] if by == "plugin" else []
    code, out, _ = alone_and_recorded(where, FOLDER / "host", "kept", MPI_NAMES[mpi], *needs)
    assert code == 0 and "failed 0" in out
    assert mpi == "openmpi" or ("still there 1" in out) == (by == "look-up")
    assert {"MPI_Init", "MPI_Finalize"} <= set(jobs.without_size(jobs.seen(jobs.summary(where))))


def test_the_next_of_what_only_the_program_has(where):
    """The message of a look-up that finds nothing names the program, as ever."""
    code, out, _ = alone_and_recorded(where, FOLDER / "namesake")
    assert code == 0 and out.startswith("0 ") and "undefined symbol: MPI_Send_c" in out
