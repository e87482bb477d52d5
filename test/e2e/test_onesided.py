# SPDX-License-Identifier: Apache-2.0
#
# Real jobs whose ranks meet in one-sided synchronisation alone. Must not live here: waits of made-up records
# (test/unit/test_waits.c), fences that hang (test_diagnose.py).
import collections
import json

import pytest

import jobs

pytestmark = pytest.mark.alone

# Waiting ranks of MPICH spin and never yield: more of them than cores slow each other down, really.
RANKS = {"openmpi": 4, "mpich": 2}
STEPS, WORK_US, SLOW_US = 60, 5000, 15000


def took(mpi, kind, where, *slow, steps=STEPS):
    command = [jobs.program(mpi, "onesided"), kind, str(steps), str(WORK_US), *map(str, slow)]
    return float(jobs.run(mpi, RANKS[mpi], command, where).stdout.split()[1])


def counts(where):
    return {row["op"]: row["count"] for row in jobs.summary(where)["summary"]}


def test_rank_that_comes_late_to_fences_is_named(mpi, where):
    slow = RANKS[mpi] - 1
    seconds = took(mpi, "fence", where, slow, SLOW_US)
    result = jobs.report(where)
    named, = jobs.stragglers(result)
    assert (named["kind"], named["rank"]) == ("rank", slow)
    gain = result["job"]["wall_seconds"] * (1 - 1 / named["what_if_speedup"])
    assert 0.6 < gain / (1e-6 * STEPS * SLOW_US) < 1.3
    waits = {row["rank"]: row["wait_at_fence_seconds"] for row in result["ranks"]}
    assert waits[slow] == min(waits.values())
    for rank, wait in waits.items():
        assert rank == slow or 0.7 * STEPS * SLOW_US < 1e6 * wait < 1e6 * seconds
    assert counts(where)["MPI_Win_fence"] == RANKS[mpi] * (STEPS + 1)
    assert counts(where)["MPI_Put"] == 2 * RANKS[mpi] * STEPS
    assert jobs.document("steps", where)["steps_found"] in range(STEPS - 2, STEPS + 2)


def test_nobody_is_named_where_all_come_alike(mpi, where):
    took(mpi, "fence", where)
    assert jobs.persistent(jobs.report(where)) == []


def test_rank_that_is_late_to_every_tenth_fence_is_named(where):
    """Of two ranks one is the slower by chance in a dozen of steps too often: not under MPICH."""
    steps = 12 * 10
    took("openmpi", "fence", where, 0, 4 * SLOW_US, 10, steps=steps)
    named, = jobs.stragglers(jobs.report(where))
    assert (named["kind"], named["rank"]) == ("rank", 0)
    assert named["when"]["slow_steps"] in range(8, 16)


def test_rank_that_is_late_to_the_first_of_two_fences_is_named(mpi, where):
    """Ranks may pass that one, and wait in the second, or wait in it, which nobody knows."""
    took(mpi, "pair", where, 0, SLOW_US)
    result = jobs.report(where)
    assert [(s["kind"], s["rank"]) for s in jobs.stragglers(result)] == [("rank", 0)]
    assert counts(where)["MPI_Win_fence"] == 2 * RANKS[mpi] * STEPS


def test_waits_in_fences_that_let_ranks_pass_are_known_where_nobody_passed(mpi, where):
    """What the others spent in them, if these waited, is told as waits; if not, nothing is. Never a wait that is longer
    than that."""
    took(mpi, "open", where, 0, SLOW_US)
    result = jobs.report(where)
    assert counts(where)["MPI_Win_fence"] == RANKS[mpi] * STEPS
    for row in result["ranks"]:
        wait = row["wait_at_fence_seconds"] or 0
        assert 0 <= wait <= row["comm_seconds"]
        if row["rank"] != 0 and row["comm_seconds"] > 0.9e-6 * STEPS * SLOW_US:
            assert wait > 0.5 * row["comm_seconds"]


def test_rank_that_others_ask_whether_it_has_completed_is_named(mpi, where):
    """Test until the epoch is over is waiting as Wait is: one record for what was asked in vain."""
    took(mpi, "asks", where, 1, SLOW_US)
    result = jobs.report(where)
    named, = jobs.stragglers(result)
    assert (named["kind"], named["rank"]) == ("rank", 1)
    rows = {row["rank"]: row for row in result["ranks"]}
    assert rows[0]["late_post_seconds"] + rows[0]["early_wait_seconds"] > 0.5e-6 * STEPS * SLOW_US
    assert result["job"]["events_lost"] == 0 and counts(where)["MPI_Win_test"] >= RANKS[mpi] * STEPS
    gain = result["job"]["wall_seconds"] * (1 - 1 / named["what_if_speedup"])
    assert 0.6 < gain / (1e-6 * STEPS * SLOW_US) < 1.3


def test_rank_that_is_late_to_its_neighbours_is_named(mpi, where):
    """Each meets its neighbours only; what the others wait for each other goes back to the late one."""
    took(mpi, "groups", where, 1, SLOW_US)
    result = jobs.report(where)
    named, = jobs.stragglers(result)
    assert (named["kind"], named["rank"]) == ("rank", 1)
    rows = {row["rank"]: row for row in result["ranks"]}
    assert rows[0]["late_post_seconds"] + rows[0]["early_wait_seconds"] > 0.5e-6 * STEPS * SLOW_US
    assert rows[1]["caused_seconds"] > 0.5 * sum(row["wait_seconds"] for row in result["ranks"])
    trace = where.parent / "trace.json"
    jobs.commtap("timeline", "--format", "chrome", "-o", trace, where)
    slices = collections.Counter(event["name"] for event in json.loads(trace.read_text())["traceEvents"]
                                 if event.get("ph") in "BX")
    assert slices["MPI_Win_post"] == slices["MPI_Win_start"] == RANKS[mpi] * STEPS
    assert slices["waiting"] > STEPS / 2
    ends = counts(where)
    for call in ("post", "start", "complete", "wait"):
        assert ends[f"MPI_Win_{call}"] == RANKS[mpi] * STEPS
    gain = result["job"]["wall_seconds"] * (1 - 1 / named["what_if_speedup"])
    assert 0.6 < gain / (1e-6 * STEPS * SLOW_US) < 1.3
