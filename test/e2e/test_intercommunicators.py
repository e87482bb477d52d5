# SPDX-License-Identifier: Apache-2.0
#
# Two groups of real ranks that talk over intercommunicators: everything is matched, waits and hangs are the right ranks'.
# Must not live here: made-up scenes with integer answers (test/unit/test_intercommunicators.c).
import collections

import pytest

import jobs

RANKS, LOWER, ROUNDS = 5, 2, 20


def test_everything_is_matched_and_the_late_rank_found(mpi, where):
    """Rank 1 of the lower group is late for barriers, and the upper group waits for it."""
    jobs.run(mpi, RANKS, [jobs.program(mpi, "groups"), "work", "1", "10"], where)
    report = jobs.report(where)
    coverage = report["coverage"]
    assert coverage["matched_share"] == 1
    assert coverage["collectives_partial"] == coverage["collectives_mismatched"] == 0
    assert coverage["with_another_world"] == 0
    assert coverage["messages_matched"] == 2 * LOWER * ROUNDS
    assert coverage["message_halves_alone"] == coverage["message_halves_unmatchable"] == 0
    waits = {rank["rank"]: rank["wait_seconds"] for rank in report["ranks"]}
    caused = {rank["rank"]: rank["waited_for_seconds"] for rank in report["ranks"]}
    late = ROUNDS * 0.01
    assert all(waits[rank] > 0.7 * late for rank in range(LOWER, RANKS))
    assert caused[1] > 0.7 * (RANKS - LOWER) * late
    assert caused[1] > 2 * max(seconds for rank, seconds in caused.items() if rank != 1)


def test_communicators_of_both_sides_are_one(mpi, where):
    """Also what is made of an intercommunicator, and a second one of the same groups with the same tag."""
    jobs.run(mpi, RANKS, [jobs.program(mpi, "groups"), "work", "1", "0"], where)
    members = collections.defaultdict(set)
    for record in jobs.records(where):
        if record["op"] == "MPI_Barrier":
            members[record["comm"]].add(record["rank"])
    sizes = sorted(len(ranks) for ranks in members.values())
    # between, again, the copy, the merged one, and the parts of ranks 0 and 2, and of 1, 3 and 4
    assert sizes == [2, 3, RANKS, RANKS, RANKS, RANKS]
    rows = {row["op"]: row for row in jobs.summary(where)["summary"] if row["comm_name"] == "between"}
    assert rows["MPI_Barrier"]["count"] == rows["MPI_Allreduce"]["count"] == RANKS * ROUNDS
    assert rows["MPI_Allreduce"]["comm_size"] == RANKS
    assert rows["MPI_Allreduce"]["algbw_gbps"] > 0 and rows["MPI_Allreduce"]["busbw_gbps"] is None


def test_peers_are_world_ranks_of_the_other_group(mpi, where):
    jobs.run(mpi, RANKS, [jobs.program(mpi, "groups"), "work", "1", "0"], where)
    pairs = collections.Counter()
    for row in jobs.records(where, "--table", "peers"):
        pairs[row["rank"], row["peer_rank"], row["op"]] += row["count"]
    expected = {}
    for lower in range(LOWER):
        for call in ("MPI_Send", "MPI_Recv"):
            expected[lower, lower + LOWER, call] = expected[lower + LOWER, lower, call] = ROUNDS
    assert pairs == expected


@pytest.mark.parametrize("mode, absent", [("barrier", RANKS - 1), ("root", 1)])
def test_who_is_missing_is_named(mpi, where, mode, absent):
    line = jobs.job_line(mpi, RANKS, [jobs.program(mpi, "groups"), mode], where)
    process = jobs.start(line)
    try:
        assert process.stdout.read(RANKS * len("ready\n")).count("ready") == RANKS
        for _ in range(10):
            result = jobs.document("diagnose", where)
            if result["verdict"] != "ok":
                break
    finally:
        jobs.stop(process)
    assert result["verdict"] == "hang", result["text"]
    assert [culprit["rank"] for culprit in result["culprits"]] == [absent], result["text"]
    assert [stalled["missing"] for stalled in result["collectives"]] == [[absent]]


def test_another_world_is_said_to_be_unknown(where):
    """On Open MPI: MPICH's packaged launcher cannot spawn."""
    jobs.run("openmpi", 2, [jobs.program("openmpi", "spawn")], where)
    report = jobs.report(where)
    assert report["coverage"]["with_another_world"] == 2 * (10 + 1)  # Allreduces, and what disconnects
    assert "22 calls with processes of another world" in jobs.commtap("report", where).stdout
