# SPDX-License-Identifier: Apache-2.0
#
# Real jobs whose ranks never block and ask again and again. Must not live here: how long polls took, which depends on
# the machine; series of polls made by hand (test/unit/test_polling.c).
import collections

import pytest

import jobs

pytestmark = pytest.mark.alone

RANKS, STEPS, WORK_US, SLOW_US = 4, 80, 5000, 15000


def polled(mpi, kind, where, *slow):
    command = [jobs.program(mpi, "polling"), kind, str(STEPS), str(WORK_US), *map(str, slow)]
    result = jobs.run(mpi, RANKS, command, where)
    return {line.split()[0]: [float(word) for word in line.split()[1:]] for line in result.stdout.splitlines()}


@pytest.mark.parametrize("kind", ["test", "naps", "iprobe", "iallreduce", "testsome"])
def test_planted_rank_is_named(kind, where):
    """Under Open MPI, whose polls yield: more spinning ranks than cores slow each other down, really."""
    polled("openmpi", kind, where, 2, SLOW_US)
    result = jobs.document("stragglers", where)
    assert [(s["kind"], s["rank"]) for s in jobs.stragglers(result)] == [("rank", 2)]
    assert jobs.stragglers(result)[0]["what_if_speedup"] > 1.05
    waited = {row["rank"]: row["wait_seconds"] for row in result["ranks"]}
    assert waited[2] < min(time for rank, time in waited.items() if rank != 2)
    sites = sorted(jobs.report(where)["sites"], key=lambda row: -row["wait_seconds"])
    op = {(row["op"]) for row in jobs.summary(where, "--by", "site,op")["summary"] if row["site"] == sites[0]["site"]}
    assert op == {"MPI_Recv" if kind == "iprobe" else "MPI_Testsome" if kind == "testsome" else "MPI_Test"}


def test_polls_in_a_row_are_one_record(where):
    """Between two series there is at least the call that ended the first of them, and each poll is counted."""
    polled("openmpi", "test", where)
    kinds = collections.Counter(row["kind"] for row in jobs.records(where))
    assert 0 < kinds["poll"] <= kinds["call"] + kinds["post"]
    counts = {row["op"]: row["count"] for row in jobs.summary(where)["summary"]}
    assert counts["MPI_Test"] > 2 * kinds["poll"]
