# SPDX-License-Identifier: Apache-2.0
#
# Steps of real jobs: as many as the program took, and who spends them how.
# Must not live here: figures that depend on the speed of the machine.
import pytest

import jobs

pytestmark = pytest.mark.alone

RANKS = {"openmpi": 4, "mpich": 2}


def steps(directory, *arguments):
    return jobs.document("steps", *arguments, directory)


def test_steps_of_a_training_job(mpi, where):
    slow = RANKS[mpi] - 1
    arguments = ["--steps", "60", "--slow-rank", str(slow), "--slow-ms", "20"]
    jobs.run(mpi, RANKS[mpi], [jobs.program(mpi, "train"), *arguments], where)
    result = steps(where)
    assert result["schema"] == "commtap.steps/1"
    assert [level["operations"] for level in result["levels"] if level["level"] == "step"] == [2]
    assert 58 <= result["steps_found"] <= 60
    rows = {row["rank"]: row for row in result["rows"]}
    assert sorted(rows) == list(range(RANKS[mpi]))
    assert {row["operations"] for row in rows.values()} == {2.0}
    # the slow one works, the others wait for it
    for rank, row in rows.items():
        assert row["computation_seconds"] <= rows[slow]["computation_seconds"]
        assert row["step_seconds"] >= 0.02
        assert abs(row["computation_seconds"] + row["communication_alone_seconds"] - row["step_seconds"]) < 1e-6
    assert max(rows, key=lambda rank: rows[rank]["wait_seconds"]) != slow
    # what a step is on average: in communication, of that waiting, and in all
    by_step = steps(where, "--by", "step")["rows"]
    known = [row for row in by_step if row["step"] is not None and row["wait_seconds"] is not None]
    assert len(known) >= 50
    assert all(0 < row["wait_seconds"] <= row["comm_seconds"] <= row["step_seconds"] for row in known)
    assert {(row["stage"], row["idle_seconds"]) for row in by_step} == {(None, None)}
    # without a slow rank's calls a step is found by any rank: --by both has a row per rank and step
    both = steps(where, "--by", "both", "--step", "3-4")["rows"]
    assert sorted((row["rank"], row["step"]) for row in both) == [(r, s) for r in range(RANKS[mpi]) for s in (3, 4)]
    assert "steps of 2 operations" in jobs.commtap("steps", where).stdout


# what varies from step to step, by a program's own clock, shows in the steps where these begin with one collective
ITERATIONS = {"solver": True, "inner": True, "evaluation": False, "checkpoint": False, "sweep": False, "tasks": True}


@pytest.mark.parametrize("kind", ITERATIONS)
def test_steps_are_those_of_the_programs_clock(where, kind):
    """A step lasts from one anchor to the next: of 24 steps the last has none behind it, and may begin in its middle."""
    ran = jobs.run("openmpi", 4, [jobs.program("openmpi", "iterations"), kind], where)
    taken = [float(line) / 1e6 for line in ran.stdout.split()]
    assert len(taken) == 24
    assert 22 <= steps(where)["steps_found"] <= 24
    found = [row["step_seconds"] for row in steps(where, "--by", "both", "--rank", "0")["rows"]]
    assert sum(taken) - 2 * max(taken) <= sum(found) <= sum(taken) * 1.02
    if ITERATIONS[kind]:
        assert sum(abs(a - b) for a, b in zip(taken, found)) <= 0.1 * sum(found)


def test_pcontrol_marks_steps(mpi, where):
    jobs.run(mpi, 2, [jobs.program(mpi, "pcontrol")], where)
    rows = steps(where, "--marker", "pcontrol")["rows"]
    assert {(row["rank"], row["steps"], row["operations"]) for row in rows} == {(0, 3, 1.0), (1, 3, 1.0)}
    assert steps(where, "--marker", "pcontrol:102")["rows"] == []
    # the program has said what its steps are: nobody need ask
    assert steps(where)["rows"] == rows
    assert "each from one mark to the next" in jobs.commtap("steps", where).stdout
    assert steps(where, "--marker", "operations")["rows"] != rows


def test_steps_of_a_published_pipeline(tmp_path):
    trace = jobs.ROOT / "test" / "data" / "traces" / "straggler-ST.json.gz"
    jobs.commtap("import", trace, "-o", tmp_path / "st")
    rows = steps(tmp_path / "st", "--by", "both")["rows"]
    # two data-parallel ranks in each of four stages; work is on record, so that idle time is known
    assert {(row["rank"], row["stage"]) for row in rows} == {(rank, rank // 2 + 1) for rank in range(8)}
    for row in rows:
        assert 0 <= row["idle_seconds"] < 0.1 * row["step_seconds"]
        assert row["wait_seconds"] <= row["comm_seconds"]
    waited = sum(row["wait_seconds"] for row in rows if row["stage"] < 4) / 6
    assert waited > 1.5 * sum(row["wait_seconds"] for row in rows if row["stage"] == 4) / 2  # they wait for stage 4
