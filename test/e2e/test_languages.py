# SPDX-License-Identifier: Apache-2.0
#
# Callers in Fortran (mpif.h, use mpi, mpi_f08) and Python (mpi4py) are seen, each call once.
# Must not live here: mpi4py's own test suite (test_mpi4py_suite.py).
import pathlib
import re
import sys

import pytest

import jobs

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mpi4py_suite"))
import environments

BINDINGS = {"mpif.h": 1, "use mpi": 2, "mpi_f08": 3}


def fortran_expected(n):
    """(op, bytes) -> calls of test/programs/fortran.F90 on n ranks, MPI_Test apart."""
    expected = {
        ("MPI_Init", 0): n,
        ("MPI_Finalize", 0): n,
        ("MPI_Allreduce", 256): 6 * n,
        ("MPI_Allreduce", 64): n,
        ("MPI_Allreduce", 8): n,
        ("MPI_Bcast", 40): 4 * n,
        ("MPI_Reduce", 20): n,
        ("MPI_Gather", 12 * n): n,
        ("MPI_Allgather", 8 * n): n,
        ("MPI_Alltoall", 4 * n): n,
        ("MPI_Allgatherv", 4 * n * (n + 1) // 2): n,
        ("MPI_Waitall", 0): 3 * n,
        ("MPI_Sendrecv", 32): n,
        ("MPI_Send", 56): 1,
        ("MPI_Recv", 56): 1,
        ("MPI_Iallreduce", 16): n,
        ("MPI_Wait", 0): n,
        ("MPI_Ibarrier", 0): n,
        ("MPI_Comm_dup", 0): n,
        ("MPI_Comm_free", 0): n,
        ("MPI_Barrier", 0): n,
    }
    for i in (1, 2, 3):
        expected["MPI_Isend", 8 * (10 + i)] = n
        expected["MPI_Irecv", 8 * (10 + i)] = n
    return expected


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("ranks", [2, 4])
def test_fortran(mpi, binding, ranks, where):
    jobs.need("gfortran")
    done = jobs.run(mpi, ranks, [jobs.program(mpi, f"fortran-{BINDINGS[binding]}")], where)
    tests = sum(int(count) for count in re.findall(r"tests (\d+) rank", done.stdout))
    assert jobs.seen(jobs.summary(where)) == {**fortran_expected(ranks), ("MPI_Test", 0): tests}


def python_expected(n):
    """(op, bytes) -> calls of test/programs/counts.py on n ranks (even)."""
    return {
        ("MPI_Allreduce", 32): 15 * n + n,
        ("MPI_Bcast", 32): 3 * n,
        ("MPI_Reduce", 32): n,
        ("MPI_Isend", 10): n,
        ("MPI_Isend", 20): n,
        ("MPI_Isend", 30): n,
        ("MPI_Recv", 10): n,
        ("MPI_Recv", 20): n,
        ("MPI_Recv", 30): n,
        ("MPI_Wait", 0): 3 * n,
        ("MPI_Comm_split", 0): n,
        ("MPI_Comm_free", 0): n,
        ("MPI_Barrier", 0): n,
    }


def test_mpi4py(mpi, where):
    jobs.need("python3-numpy")
    environment = {}  # Debian's package is built on Open MPI
    if mpi == "mpich":
        try:
            environment = environments.prepare("mpich-4", "3.1.6").environment()
        except environments.Unavailable as reason:
            pytest.skip(f"mpi4py on MPICH: {reason}")
    jobs.run(mpi, 4, [jobs.PYTHON, str(jobs.ROOT / "test/programs/counts.py")], where, environment=environment)
    result = jobs.summary(where)
    seen = jobs.seen(result)
    ours = {key: count for key, count in seen.items() if key[0] not in ("MPI_Init_thread", "MPI_Finalize")}
    assert ours == python_expected(4)
    assert seen["MPI_Init_thread", 0] == seen["MPI_Finalize", 0] == 4
    names = {(row["comm_name"], row["comm_size"]) for row in result["summary"] if row["op"] == "MPI_Allreduce"}
    assert ("evens and odds", 2) in names
