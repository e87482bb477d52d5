# SPDX-License-Identifier: Apache-2.0
#
# Programs that never call MPI_Init: ranks, communicators, who is slow and who hangs are told as of any other job.
# Must not live here: MPIs without sessions (Debian's Open MPI 4).
import jobs

RANKS = 4


def ran(where, *words):
    jobs.run("mpich", RANKS, [jobs.program("mpich", "sessions"), *words], where)
    return jobs.report(where)


def matched(report):
    """Ranks are those of mpi://WORLD, and whatever all of them called was found on all of them."""
    assert [row["rank"] for row in report["ranks"]] == list(range(RANKS))
    assert report["job"]["ranks_expected"] == report["job"]["ranks_seen"] == RANKS
    assert report["coverage"]["matched_share"] > 0.99
    return {row["comm_name"]: row["comm_size"] for row in report["summary"] if row["op"] in ("MPI_Allreduce", "MPI_Bcast")}


def test_a_slow_rank_of_sessions_is_named(where):
    report = ran(where, "slow", "2", "80")
    assert matched(report) == {"org.commtap.test": RANKS, "half": RANKS // 2}
    assert [row["rank"] for row in report["stragglers"] if row["kind"] == "rank"] == [2]


def test_of_several_sessions_as_well(where):
    """A second one begins before the first one ends."""
    report = ran(where, "twice", "1", "40")
    assert matched(report) == {"org.commtap.test": RANKS, "org.commtap.second": RANKS, "half": RANKS // 2}


def test_who_never_comes_is_named(where):
    """While it hangs, and after it was killed."""
    line = jobs.job_line("mpich", RANKS, [jobs.program("mpich", "sessions"), "skip", "1", "20"], where)
    process = jobs.start(line)
    try:
        assert process.stdout.read(RANKS * len("ready\n")).count("ready") == RANKS
        result = jobs.document("diagnose", where)
        for _ in range(10):
            if result["verdict"] != "ok":
                break
            result = jobs.document("diagnose", where)
    finally:
        jobs.stop(process)
    for found in (result, jobs.document("diagnose", where)):
        assert found["verdict"] == "hang", found["text"]
        assert [(c["rank"], c["state"]) for c in found["culprits"]] == [(1, "in_user_code")], found["text"]
        stalled, = found["collectives"]
        assert (stalled["comm_name"], stalled["op"]) == ("org.commtap.test", "MPI_Barrier")
        assert (stalled["entered"], stalled["missing"]) == ([0, 2, 3], [1])
