# SPDX-License-Identifier: Apache-2.0
#
# The critical path by call site, delays, and what collectives take once everybody has come, on real jobs.
# Must not live here: figures that depend on the speed of the machine.

import pytest

import jobs

pytestmark = pytest.mark.alone

RANKS = {"openmpi": 4, "mpich": 2}
SLOW, STEPS, SLOW_MS = 1, 80, 20


def train(mpi, where):
    arguments = ["--steps", str(STEPS), "--slow-rank", str(SLOW), "--slow-ms", str(SLOW_MS)]
    jobs.run(mpi, RANKS[mpi], [jobs.program(mpi, "train"), *arguments], where)
    return jobs.report(where)


def close(a, b):
    return abs(a - b) <= 1e-6 + 1e-6 * abs(b)


def test_the_path_runs_through_the_work_of_the_slow_rank(mpi, where):
    result = train(mpi, where)
    path = result["critical_path"]
    assert not path["partial"]
    assert close(path["seconds"], path["to_seconds"] - path["from_seconds"])
    for part in "ranks", "sites":
        assert close(sum(row["seconds"] for row in path[part]), path["seconds"])
        assert close(sum(row["caused_seconds"] for row in path[part]), path["waits_seconds"])
    for site in path["sites"]:
        for key in "seconds", "caused_seconds", "work_seconds", "communication_seconds":
            assert close(sum(row[key] for row in site["ranks"]), site[key])
        assert close(site["work_seconds"] + site["communication_seconds"], site["seconds"])
    assert close(path["waits_seconds"], sum(row["wait_seconds"] for row in result["ranks"]))
    longest = path["sites"][0]
    assert longest["op"] == "MPI_Allreduce"
    assert "(train.c:" in longest["where"]
    assert longest["share"] > 0.5 and longest["work_seconds"] > longest["communication_seconds"]
    # what the others waited for is the slow rank's work before that call
    assert longest["caused_by_work_seconds"] > 0.5 * path["waits_seconds"]
    most = max(longest["ranks"], key=lambda row: row["caused_seconds"])
    assert most["rank"] == SLOW
    text = jobs.commtap("report", where).stdout
    assert "Critical path by call" in text and longest["where"] in text


def test_one_and_two_threads_see_the_same_path(mpi, where):
    train(mpi, where)
    for command in "report", "stragglers":
        one, two = (jobs.commtap(command, where, "--format", "json", "--threads", n).stdout for n in "12")
        assert one == two
        assert jobs.document(command, where)["critical_path"]["sites"]


def test_transfers_leave_the_waiting_out(mpi, where):
    result = train(mpi, where)
    rows = jobs.summary(where, "--transfers")["summary"]
    sums = [row for row in rows if row["op"] == "MPI_Allreduce"]
    assert sums and rows == result["summary"]
    for row in sums:
        assert row["transfer_count"] == row["count"]
        assert 0 <= row["completion_seconds"] <= row["transfer_seconds"] <= row["time_total_us"] / 1e6 + 1e-6
        assert close(row["wait_seconds"] + row["transfer_seconds"], row["time_total_us"] / 1e6)
        assert row["transfer_busbw_gb_per_s"] >= row["busbw_gb_per_s"]
    # the others wait for the slow rank in every step, which is no transfer
    large = max(sums, key=lambda row: row["bytes"])
    assert large["time_total_us"] / 1e6 - large["transfer_seconds"] > 0.5 * STEPS * SLOW_MS / 1e3 * (RANKS[mpi] - 1)
    assert all(row["transfer_seconds"] is None for row in jobs.summary(where)["summary"])
    assert all(row["transfer_count"] is None for row in rows if row["op"] == "MPI_Init")
    for row in result["ranks"]:
        states = ["wait_all", "late_broadcast", "wait_to_root", "wait_scan", "late_sender", "late_receiver"]
        assert close(sum(row[state + "_seconds"] for state in states), row["wait_seconds"])


@pytest.mark.parametrize("options", [["--by", "rank"], ["--from", "0", "--to", "1"], ["--rank", "0"]])
def test_transfers_are_of_whole_runs_by_operation(mpi, where, options):
    train(mpi, where)
    jobs.commtap("summary", where, "--transfers", *options, codes=(2,))
