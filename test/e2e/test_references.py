# SPDX-License-Identifier: Apache-2.0
#
# References to functions that may not be there: with the library preloaded programs and libraries see exactly what they
# see without it, whether they ask or call, and the linker says exactly the same.
# Must not live here: what a recorded call looks like.
import subprocess

import pytest

import jobs

LINKS = ["pie-lazy", "pie-now", "nopie-lazy", "nopie-now"]
MODES = [f"{when} {where}".split() for when in ("now", "lazy") for where in ("local", "global", "deepbind")]
MPI_NAMES = {"none": "libmpi.so.40", "openmpi": "libmpi.so.40", "mpich": "libmpich.so.12"}
FOLDER = jobs.PROGRAMS / "references"


def outcome(command, mpi, **variables):
    environment = {**jobs.clean_environment(), "REFERENCES_MPI": MPI_NAMES[mpi], **variables}
    if mpi != "none":
        jobs.need_mpi(mpi)
    done = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def assert_alike(mpi, *command):
    without = outcome(command, mpi)
    assert outcome(command, mpi, LD_PRELOAD=str(jobs.SHIM)) == without
    return without


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("mpi", MPI_NAMES)
def test_weak_references_from_the_start(mpi, link):
    code, out, _ = assert_alike(mpi, FOLDER / mpi / link)
    assert code == 0
    assert out.count("constants are r--p") == 2
    shown = [line for line in out.splitlines() if line.startswith(("program:", "needed:", "needed at"))]
    assert len(shown) == 3
    sees_mpi = [" 1" in line for line in shown]
    assert sees_mpi == 3 * [mpi != "none"]
    assert all(" 0" in line for line in shown)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("mpi", MPI_NAMES)
def test_a_strong_reference_to_nothing(mpi, link):
    """The linker's own message and exit code: at the start or, bound lazily, at the call."""
    program = FOLDER / mpi / f"strong-{link}"
    assert_alike(mpi, program)
    code, _, error = assert_alike(mpi, program, "call")
    assert code == 127 and "undefined symbol: MPI_Comm_iflush_buffer" in error


@pytest.mark.parametrize("mode", MODES, ids="-".join)
@pytest.mark.parametrize("mpi", MPI_NAMES)
def test_libraries_opened_later(mpi, mode):
    refused = 0
    for link in ("pie-lazy", "nopie-now"):
        for library in ("opened", "opened-strong"):
            for linked_to in MPI_NAMES:
                _, out, error = assert_alike(
                    mpi, FOLDER / mpi / link, "open", FOLDER / linked_to / f"{library}.so", *mode, "call"
                )
                refused += "undefined symbol: MPI_Comm_iflush_buffer" in out + error
            assert_alike(mpi, FOLDER / mpi / link, "open", FOLDER / "none" / f"{library}.so", *mode, "mpi", "call")
    assert refused >= 2


def test_every_function_that_may_be_absent_can_be_hidden():
    """One resolver per symbol of the library (shim/intercept/absent.c)."""
    symbols = subprocess.run(["readelf", "--dyn-syms", "-W", str(jobs.SHIM)], capture_output=True, text=True, check=True)
    count = int(symbols.stdout.split("contains ")[1].split()[0])
    source = (jobs.ROOT / "shim/intercept/absent.c").read_text()
    room = int(source.split("#define RESOLVERS")[1].split()[0])
    assert 700 < count <= room and source.count(f".rept {room}\\n") == 2
