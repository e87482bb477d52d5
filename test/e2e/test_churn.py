# SPDX-License-Identifier: Apache-2.0
#
# Communicators made and freed over and over: sums stay exact, ranks go on meeting each other, and the dump stays small.
# Must not live here: what that costs (test/bench).
import subprocess
import time

import pytest

import jobs

RANKS = 4
# calls of one round on one rank
ROUND = {"self": {"MPI_Comm_dup": 1, "MPI_Allreduce": 1, "MPI_Comm_free": 1},
         "world": {"MPI_Comm_dup": 1, "MPI_Allreduce": 1, "MPI_Comm_free": 1, "MPI_Comm_set_name": 1},
         "halves": {"MPI_Comm_split": 1, "MPI_Comm_dup": 1, "MPI_Allreduce": 2, "MPI_Comm_free": 2},
         "crossed": {"MPI_Comm_dup": 2, "MPI_Allreduce": 4, "MPI_Comm_free": 2},
         "busy": {"MPI_Comm_dup": 1, "MPI_Allreduce": 1, "MPI_Comm_free": 1}}
# communicators that calls were made on: those of other members, and those that lived at the same time, are others
OTHERS = {"self": RANKS + RANKS, "world": 1 + 1, "halves": 1 + 4 + 4, "crossed": 1 + 2, "busy": 1 + 1}


def churn(mpi, mode, rounds, where, **how):
    jobs.run(mpi, RANKS, [jobs.program(mpi, "churn"), mode, str(rounds)], where, **how)
    return jobs.dumps(where)


@pytest.mark.parametrize("mode", ROUND)
def test_sums_are_exact_and_ranks_meet(mpi, mode, tmp_path):
    rounds = 150
    churn(mpi, mode, rounds, tmp_path)
    result = jobs.report(tmp_path)
    calls = {}
    for row in result["summary"]:
        calls[row["op"]] = calls.get(row["op"], 0) + row["count"]
    for op, each in ROUND[mode].items():
        assert calls[op] == each * rounds * RANKS
    coverage = result["coverage"]
    assert coverage["matched_share"] == 1.0
    assert coverage["collectives_partial"] == coverage["collectives_mismatched"] == 0
    assert not {finding["code"] for finding in result["findings"]} & {"events_lost", "losses"}
    assert len({row["comm"] for row in result["summary"] if row["comm"]}) == OTHERS[mode]


@pytest.mark.parametrize("mode", ["self", "world", "halves"])
def test_bytes_are_bounded(mode, tmp_path):
    sizes = {}
    for rounds in (100, 2000):
        dumps = churn("openmpi", mode, rounds, tmp_path / str(rounds), knobs={"COMMTAP_RING": "16"})
        sizes[rounds] = max(dump.stat().st_blocks * 512 for dump in dumps)
    assert sizes[2000] <= sizes[100] + (16 << 10)  # sampled windows; 430 bytes of definitions each would be 800 KB


def test_a_hang_in_one_that_lives_again_is_named(mpi, tmp_path):
    line = jobs.job_line(mpi, RANKS, [jobs.program(mpi, "churn"), "hang", "50"], tmp_path)
    process = jobs.start(line)
    try:
        end = time.monotonic() + 60
        while time.monotonic() < end and not is_stuck(tmp_path):
            time.sleep(0.2)
        verdict = jobs.document("diagnose", tmp_path, codes=(0, 1))
    finally:
        jobs.stop(process)
    assert verdict["verdict"] == "hang"
    [stuck] = [c for c in verdict["collectives"] if c["op"] == "MPI_Allreduce"]
    assert stuck["missing"] == [1] and stuck["entered"] == [0, 2, 3]
    assert [culprit["rank"] for culprit in verdict["culprits"]] == [1]
    text = subprocess.run([str(jobs.COMMTAP), "diagnose", str(tmp_path)], capture_output=True, text=True,
                          check=False).stdout
    assert "the last" in text and "passing" not in text


def is_stuck(where):
    """The others stand in an Allreduce."""
    if len(jobs.dumps(where)) < RANKS:
        return False
    done = jobs.commtap("diagnose", "--format", "json", where, codes=(0, 1, 3))
    return done.returncode != 3 and '"hang"' in done.stdout


def test_end_and_number_of_lives_are_told(tmp_path):
    churn("openmpi", "world", 20, tmp_path)
    rows = [row for row in jobs.records(tmp_path, "--table", "communicators") if row["comm_name"] == "passing"]
    assert len(rows) == RANKS
    for row in rows:
        assert row["freed"] and row["lives"] == 20
