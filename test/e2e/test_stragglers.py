# SPDX-License-Identifier: Apache-2.0
#
# The planted slow rank is named; where nobody is slow, nobody is.
# Must not live here: figures that depend on the speed of the machine.
import concurrent.futures
import shutil

import pytest

import jobs

NULL_JOBS = 50


@pytest.mark.parametrize("way", ["preload", "run"])
@pytest.mark.parametrize("slow", [0, 2, 3])
def test_planted_rank_is_named(mpi, way, slow, where):
    arguments = ["--steps", "120", "--slow-rank", str(slow), "--slow-ms", "8"]
    jobs.run(mpi, 4, [jobs.program(mpi, "train"), *arguments], where, way=way)
    result = jobs.report(where)
    named = [(s["kind"], s["rank"]) for s in result["stragglers"]]
    assert named == [("rank", slow)]
    straggler = result["stragglers"][0]
    assert straggler["confidence"] >= 0.9
    # planted: 120 steps of 8 ms, waited for by three others; half of it allows for a busy machine
    assert straggler["imposed_wait_seconds"] > 0.5 * 120 * 0.008 * 3
    assert straggler["waited_for_seconds"] >= straggler["imposed_wait_seconds"] * 0.9
    assert straggler["what_if_speedup"] > 1.2
    waits = {row["rank"]: row["wait_seconds"] for row in result["ranks"]}
    assert waits[slow] == min(waits.values())
    text = jobs.commtap("report", where).stdout
    assert f"rank {slow}" in text


def test_stragglers_command_agrees_with_report(mpi, where):
    jobs.run(mpi, 4, [jobs.program(mpi, "train"), "--steps", "120", "--slow-rank", "1", "--slow-ms", "8"], where)
    text = jobs.commtap("stragglers", where).stdout
    assert "rank 1" in text


def null_job(mpi, seed, directory):
    jobs.run(mpi, 4, [jobs.program(mpi, "balanced"), str(seed), "40"], directory)
    result = jobs.report(directory)
    shutil.rmtree(directory)
    return result["stragglers"]


def test_nobody_is_named_where_nobody_is_slow(tmp_path):
    mpis = ["openmpi", "mpich"]
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        runs = {
            (mpis[seed % 2], seed): pool.submit(null_job, mpis[seed % 2], seed, tmp_path / str(seed))
            for seed in range(NULL_JOBS)
        }
        named = {run: future.result() for run, future in runs.items() if future.result()}
    assert named == {}
