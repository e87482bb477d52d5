# SPDX-License-Identifier: Apache-2.0
#
# Jobs whose records are overwritten, on each rank up to another moment: what is said of them rests on the time that all
# ranks cover, and is as right as with all records.
# Must not live here: figures that depend on the speed of the machine.
import pytest

import jobs

pytestmark = pytest.mark.alone

LOOP = ("MPI_Allreduce", "MPI_Barrier")
STEPS, WORK_MS, SLOW, SLOW_MS = 200, 10, 1, 25


def play(where, records):
    """Seconds that `uneven` lost to its slow rank, by its own clocks, and what the report says of it."""
    arguments = [str(word) for word in (STEPS, WORK_MS, SLOW, SLOW_MS)]
    done = jobs.run("openmpi", 4, [jobs.program("openmpi", "uneven"), *arguments], where,
                    knobs={"COMMTAP_RING": str(records)} if records else {})
    return float(done.stdout.split("saved")[1].split()[0]), jobs.report(where)


def share_of_path(report, rank):
    """Of the critical path in the loop, what is that rank's."""
    rows = [row for site in report["critical_path"]["sites"] if site["op"] in LOOP for row in site["ranks"]]
    return sum(row["seconds"] for row in rows if row["rank"] == rank) / sum(row["seconds"] for row in rows)


@pytest.mark.parametrize("records", [None, 64, 256])
def test_small_rings_name_the_same_rank(where, records):
    saved, report = play(where, records)
    wall = report["job"]["wall_seconds"]
    assert [s["rank"] for s in jobs.stragglers(report) if s["kind"] == "rank"] == [SLOW]
    assert share_of_path(report, SLOW) > 0.6
    promised = next(s["what_if_speedup"] for s in jobs.stragglers(report) if s["rank"] == SLOW)
    assert abs(promised / (wall / (wall - saved)) - 1) < 0.2, (promised, saved, wall)
    coverage, partial = report["coverage"], records is not None
    assert [coverage["partial"], report["what_if"]["partial"], report["critical_path"]["partial"]] == [partial] * 3
    length, covered = coverage["to_seconds"] - coverage["from_seconds"], coverage["covered_seconds"]
    assert 0 < covered <= length * 1.0001
    assert (covered < 0.9 * length) == partial
    for part in (report["what_if"]["covered_seconds"], report["critical_path"]["seconds"]):
        assert 0.9 * covered < part < 1.001 * covered
    for row in report["ranks"]:
        assert row["wait_seconds"] + row["self_seconds"] <= covered * 1.001
    page = " ".join(jobs.commtap("report", where).stdout.split())
    assert ("in which no rank's are missing" in page) == ("of the rest, the records of some ranks are missing" in page) == partial
