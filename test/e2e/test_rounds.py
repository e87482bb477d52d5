# SPDX-License-Identifier: Apache-2.0
#
# Real jobs whose ranks meet in other collectives than plain ones alone: the late rank is named, and the waits are there.
# Must not live here: made-up cases with integer answers (test/unit/test_waits.c, test/unit/test_comparison_groups.c).
import struct

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


# Waiting ranks of MPICH spin and never yield: more of them than processors slow each other down, really.
NEIGHBOURS = {"openmpi": 4, "mpich": 2}
# Who is late, and who has to wait for that in each round, or in some.
AMONG_NEIGHBOURS = {("openmpi", "neighbours"): (1, {0, 2, 3}), ("openmpi", "graph"): (1, {0, 2, 3}),
                    ("openmpi", "chain"): (1, {2, 3}), ("openmpi", "anew"): (1, {2}), ("mpich", "posted"): (1, {0}),
                    ("mpich", "chain"): (0, {1}), ("mpich", "prepared"): (1, {0})}


@pytest.mark.alone
@pytest.mark.parametrize("mpi, kind", AMONG_NEIGHBOURS)
def test_the_late_neighbour_is_named(mpi, kind, where):
    """Each waits for those that it takes from, no longer than it was in these calls by its own clock; who takes from
    nobody does not wait; and what the late one costs goes back to it, whoever passed it on."""
    late, waiting = AMONG_NEIGHBOURS[mpi, kind]
    said = jobs.run(mpi, NEIGHBOURS[mpi], [jobs.program(mpi, "rounds"), kind, str(ROUNDS), str(late), str(LATE_MS)],
                    where).stdout
    spent = {int(rank): float(seconds) for rank, seconds in map(str.split, said.splitlines())}
    report = jobs.report(where)
    named, = jobs.stragglers(report)
    assert (named["kind"], named["rank"]) == ("rank", late), report["findings"]
    assert named["what_if_speedup"] > 1.02  # whoever takes the processors away meanwhile adds to both times
    late_s = ROUNDS * LATE_MS / 1e3
    waits = {rank["rank"]: rank["wait_at_neighbours_seconds"] for rank in report["ranks"]}
    for rank in waiting:
        assert (0.1 if kind == "anew" else 0.5) * late_s < waits[rank] <= 1.01 * spent[rank], (waits, spent)
    if kind in ("chain", "anew"):
        assert waits[0] == 0
    caused = {rank["rank"]: rank["caused_seconds"] for rank in report["ranks"]}
    assert caused[late] > 0.5 * late_s, caused


def test_nobody_is_named_among_equal_neighbours(where):
    jobs.run("openmpi", RANKS, [jobs.program("openmpi", "rounds"), "line", str(ROUNDS), "0", "0"], where)
    assert jobs.persistent(jobs.report(where)) == []


def forget_neighbours(where):
    """As dumps before 2.11 are: these definitions are of a kind that nobody knows."""
    for path in jobs.dumps(where):
        said = path.read_bytes()
        known, unknown = struct.pack("<I", 0x43540000 | 12), struct.pack("<I", 0x43540000 | 99)
        assert known in said
        path.write_bytes(said.replace(known, unknown))


def test_waits_that_nobody_can_tell_have_no_figure(where):
    """Where nobody says who is whose neighbour the late rank is named, and no wait for it is made up."""
    jobs.run("openmpi", RANKS, [jobs.program("openmpi", "rounds"), "neighbours", str(ROUNDS), str(LATE), str(LATE_MS)],
             where)
    forget_neighbours(where)
    report = jobs.report(where)
    (named,) = [f["text"] for f in report["findings"] if f["text"].startswith(f"rank {LATE} ") and f["code"] == "straggler"]
    assert all(rank["wait_at_neighbours_seconds"] == 0 for rank in report["ranks"])
    waited = next(rank["waited_for_seconds"] for rank in report["ranks"] if rank["rank"] == LATE)
    assert "less than 1 ns" not in named
    assert ("no record tells how long the others waited" in named) == (waited == 0), (named, waited)
