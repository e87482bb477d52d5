# SPDX-License-Identifier: Apache-2.0
#
# Real jobs whose ranks meet in other collectives than plain ones alone: the late rank is named, and the waits are there.
# Must not live here: made-up cases with integer answers (test/unit/test_waits.c, test/unit/test_comparison_groups.c).
import pytest

import jobs

RANKS, ROUNDS, LATE, LATE_MS = 4, 60, 1, 12


@pytest.mark.parametrize("mpi, kind", [("openmpi", "copy"), ("mpich", "copy"), ("openmpi", "between"),
                                       ("mpich", "between"), ("mpich", "started")])  # Open MPI 4 has none to start
def test_the_late_rank_is_named(mpi, kind, where):
    jobs.run(mpi, RANKS, [jobs.program(mpi, "rounds"), kind, str(ROUNDS), str(LATE), str(LATE_MS)], where)
    report = jobs.report(where)
    assert [(s["kind"], s["rank"]) for s in report["stragglers"]] == [("rank", LATE)], report["findings"]
    assert report["stragglers"][0]["what_if_speedup"] > 1.1  # a machine that others use, too, adds to both times
    ranks = {rank["rank"]: rank for rank in report["ranks"]}
    # ranks of the late one's own group wait for it as long as the library makes them
    waiting = [0, 2] if kind == "between" else [0, 2, 3]
    assert all(ranks[r]["wait_seconds"] > 0.5 * ROUNDS * LATE_MS / 1e3 for r in waiting), ranks
    assert all(rank["wait_seconds"] <= rank["comm_seconds"] for rank in ranks.values()), ranks


def test_waits_that_nobody_can_tell_have_no_figure(where):
    """Who is whose neighbour is on no record: the late rank is named, and no wait for it is made up."""
    jobs.run("openmpi", RANKS, [jobs.program("openmpi", "rounds"), "neighbours", str(ROUNDS), str(LATE), str(LATE_MS)],
             where)
    report = jobs.report(where)
    (named,) = [f["text"] for f in report["findings"] if f["text"].startswith(f"rank {LATE} ") and f["code"] == "straggler"]
    waited = next(rank["waited_for_seconds"] for rank in report["ranks"] if rank["rank"] == LATE)
    assert "less than 1 ns" not in named
    assert ("no record tells how long the others waited" in named) == (waited == 0), (named, waited)
