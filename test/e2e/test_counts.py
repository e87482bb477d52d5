# SPDX-License-Identifier: Apache-2.0
#
# Counts and bytes in a summary are exactly what the programs did, and their results bitwise what they are without.
# Must not live here: how a program counts its own calls (test/programs/expect.h).
import pytest

import jobs

# program, ranks, arguments
PROGRAMS = [
    ("collectives", 4, []),
    ("collectives", 3, []),
    ("pointtopoint", 4, []),
    ("communicators", 4, ["40"]),
    ("communicators", 2, ["3000"]),
    ("insignificant", 4, []),
    ("threads", 2, ["3000", "12"]),
    ("outstanding", 2, ["1500"]),
    ("coverage", 2, []),
    ("large", 2, []),
    ("pcontrol", 2, []),
    ("forkexec", 2, []),
]


def run_with_ledger(mpi, ranks, command, tmp_path, **how):
    """The job's summary, its ledger and the digests of its results."""
    ledgers, where = tmp_path / "ledgers", tmp_path / "dumps"
    ledgers.mkdir()
    jobs.run(mpi, ranks, command, where, environment={"EXPECT_DIR": str(ledgers)}, **how)
    table, digests = jobs.ledger(ledgers)
    return jobs.summary(where), table, digests


@pytest.mark.parametrize("name, ranks, arguments", PROGRAMS, ids=[f"{p[0]}-{p[1]}" for p in PROGRAMS])
def test_counts_and_bytes_are_exact(mpi, name, ranks, arguments, tmp_path):
    command = [jobs.program(mpi, name), *arguments]
    result, ledger, digests = run_with_ledger(mpi, ranks, command, tmp_path)
    assert jobs.seen(result) == ledger
    assert len(digests) == ranks
    assert digests == jobs.digests_without(mpi, ranks, tuple(command), str(tmp_path / "without"))


@pytest.mark.parametrize("name", ["collectives", "pointtopoint"])
def test_counts_through_commtap_run(mpi, name, tmp_path):
    result, ledger, _ = run_with_ledger(mpi, 4, [jobs.program(mpi, name)], tmp_path, way="run")
    assert jobs.seen(result) == ledger


def test_report_and_summary_agree(mpi, where):
    jobs.run(mpi, 4, [jobs.program(mpi, "insignificant")], where)
    result = jobs.report(where)
    assert jobs.seen(result) == jobs.seen(jobs.summary(where))
    assert result["job"]["ranks_seen"] == result["job"]["ranks_expected"] == 4


@pytest.mark.parametrize("way", ["local", "deepbind", "dlmopen"])
def test_library_found_with_dlopen_and_dlsym(mpi, way, tmp_path):
    if way == "dlmopen" and mpi == "openmpi":
        pytest.skip("Open MPI's plugins cannot be loaded into a second name space, with or without commtap")
    command = [jobs.program(mpi, "loaded"), jobs.LIBRARY[mpi], way]
    result, ledger, _ = run_with_ledger(mpi, 2, command, tmp_path)
    assert jobs.seen(result) == ledger


def test_plugin_that_brings_the_library(mpi, tmp_path):
    command = [jobs.program(mpi, "plugin"), jobs.program(mpi, "plugin.so")]
    result, ledger, _ = run_with_ledger(mpi, 2, command, tmp_path)
    assert jobs.seen(result) == ledger


def test_more_operations_under_way_than_can_be_followed(mpi, tmp_path):
    """Calls are still counted exactly, results the same; what could not be followed is said."""
    command = [jobs.program(mpi, "outstanding"), "20000"]
    result, ledger, digests = run_with_ledger(mpi, 2, command, tmp_path)
    assert jobs.without_size(jobs.seen(result)) == jobs.without_size(ledger)
    assert digests == jobs.digests_without(mpi, 2, tuple(command), str(tmp_path / "without"))
    assert "could not be followed" in jobs.commtap("check", tmp_path / "dumps").stdout


@pytest.mark.parametrize("first", ["commtap", "the other tool"])
def test_another_tool_sees_what_it_sees_without(mpi, first, where):
    """A preloaded library that wraps MPI_X and calls PMPI_X, before commtap and behind it."""
    command, tool = [jobs.program(mpi, "train"), "--steps", "20"], jobs.program(mpi, "tool.so")
    without = jobs.run(mpi, 2, command, None, way="none", environment={"LD_PRELOAD": tool})
    assert without.stdout.count("the other tool saw 40") == 2
    both = [str(jobs.SHIM), tool] if first == "commtap" else [tool, str(jobs.SHIM)]
    done = jobs.run(mpi, 2, command, where, environment={"LD_PRELOAD": ":".join(both)})
    assert sorted(done.stdout.splitlines()) == sorted(without.stdout.splitlines())
    seen = jobs.without_size(jobs.seen(jobs.summary(where)))
    if first == "commtap":  # behind it, commtap sees only what the other tool passes on as MPI_X
        assert (seen["MPI_Allreduce"], seen["MPI_Bcast"]) == (2 * 40, 2)


def test_spawned_jobs_are_worlds_of_their_own(tmp_path):
    """On Open MPI: MPICH's packaged launcher cannot spawn."""
    ledgers, where = tmp_path / "ledgers", tmp_path / "dumps"
    ledgers.mkdir()
    command = [jobs.program("openmpi", "spawn")]
    jobs.run("openmpi", 2, command, where, environment={"EXPECT_DIR": str(ledgers)})
    dumps = jobs.dumps(where)
    assert len(dumps) == 4
    jobs.commtap("check", where)
    table, _ = jobs.ledger(ledgers)
    counted = jobs.seen(jobs.summary(where))
    assert all(count <= table[key] for key, count in counted.items())  # of the parents' world, or of both


def test_communicators_are_told_apart(mpi, tmp_path):
    result, _, _ = run_with_ledger(mpi, 4, [jobs.program(mpi, "communicators"), "10"], tmp_path)
    sizes = {(row["comm_name"], row["bytes"], row["count"], row["comm_size"])
             for row in result["summary"] if row["op"] == "MPI_Allreduce"}
    assert sizes >= {("duplicate", 4, 4, 4), ("without zero", 12, 3, 3), ("created", 20, 2, 2),
                     ("created by its group", 24, 2, 2), ("grid", 32, 4, 4), ("merged", 52, 4, 4)}
    halves = {row["comm"] for row in result["summary"] if row["op"] == "MPI_Allreduce" and row["bytes"] == 8}
    assert len(halves) == 2
    dups = {row["comm"]: (row["count"], row["comm_size"])
            for row in result["summary"] if row["op"] == "MPI_Allreduce" and row["bytes"] == 56}
    # one of MPI_COMM_WORLD and one of each rank's MPI_COMM_SELF, made and freed five times
    assert sorted(dups.values()) == 4 * [(5, 1)] + [(5 * 4, 4)]


def test_ops_globs_choose_what_is_recorded(mpi, where, tmp_path):
    knobs = {"COMMTAP_OPS": "all*,!allgather*,bcast"}
    jobs.run(mpi, 2, [jobs.program(mpi, "collectives")], where, knobs=knobs)
    ops = {op for op, _ in jobs.seen(jobs.summary(where)) if op not in ("MPI_Init", "MPI_Finalize")}
    assert ops == {"MPI_Allreduce", "MPI_Alltoall", "MPI_Alltoallv", "MPI_Alltoallw", "MPI_Bcast"}


def test_pcontrol_marks_steps(mpi, where):
    jobs.run(mpi, 2, [jobs.program(mpi, "pcontrol")], where)
    marks = [row for row in jobs.records(where) if row.get("kind", "").lower() == "mark"]
    levels = sorted(row["tag"] for row in marks if row["tag"] >= 100)
    assert levels == [100, 100, 101, 101, 102, 102, 103, 103]
