# SPDX-License-Identifier: Apache-2.0
#
# Collectives that return an error, on some ranks or on all, before and among 200 that do not: nobody is accused of
# anything, everything else is matched, and what failed is counted as failed. On both MPIs, which notice errors at
# different places. Must not live here: NCCL's (test_nccl_calls.py).
import collections
import time

import pytest

import jobs

RANKS = 3
GOOD = 200
ALL = [[], ["0"], ["2"]]  # who fails: all ranks, the one that is mostly root, the last one


@pytest.fixture
def where(tmp_path):
    return tmp_path / "dumps"


def failures(result):
    table = collections.Counter()
    for row in result["summary"]:
        table[row["op"]] += row["failed"]
    return {op: count for op, count in table.items() if count}


def diagnosis(directory):
    return jobs.document("diagnose", directory, codes=(0, 1))


def play(mpi, where, scene, who):
    jobs.run(mpi, RANKS, [jobs.program(mpi, "refused"), scene, *who], where)
    return judge(where)


def judge(where):
    """Nobody is accused for good, and every Allreduce was matched; the report."""
    result = jobs.report(where)
    assert jobs.persistent(result) == []
    assert [finding for finding in result["findings"] if finding["code"] in ("desync", "unmatched")] == []
    assert result["coverage"]["matched_share"] == 1
    world = [row for row in result["summary"] if row["op"] == "MPI_Allreduce" and row["comm_name"] == "MPI_COMM_WORLD"]
    assert sum(row["count"] for row in world) >= RANKS * GOOD
    assert diagnosis(where)["verdict"] == "ok"
    return result


def numbers(where, op, comm="MPI_COMM_WORLD"):
    """rank -> the numbers of its calls of `op`, in their order."""
    found = collections.defaultdict(list)
    for record in jobs.records(where):
        if record["op"] == op and record["comm_name"] == comm and record["kind"] in ("call", "post"):
            found[record["rank"]].append(record["seq"])
    return found


@pytest.mark.parametrize("who", ALL, ids=["all", "rank0", "rank2"])
@pytest.mark.parametrize("scene,failing", [("bcast", ["MPI_Bcast"]), ("ibcast", ["MPI_Ibcast"]),
                                           ("split", ["MPI_Comm_split"]), ("window", ["MPI_Win_create"]),
                                           ("free", ["MPI_Comm_free", "MPI_Win_free"])])
def test_refused_calls_take_no_number(mpi, where, scene, failing, who):
    result = play(mpi, where, scene, who)
    assert failures(result) == {op: RANKS if not who else 1 for op in failing}
    for op in failing:
        refused = [record for record in jobs.records(where) if record["op"] == op and record["failed"]]
        assert {record["seq"] for record in refused} == {None}
    counted = numbers(where, "MPI_Allreduce")
    assert counted[0] == counted[1] == counted[2]
    assert len(counted[0]) == GOOD


@pytest.mark.parametrize("who", ALL, ids=["all", "rank0", "rank2"])
def test_what_is_made_after_a_refused_creation_is_the_same_everywhere(mpi, where, who):
    result = play(mpi, where, "split", who)
    child = [row for row in result["summary"] if row["op"] == "MPI_Allreduce" and row["comm_name"] == "child"]
    assert [(row["count"], row["comm_size"]) for row in child] == [(RANKS * 20, RANKS)]


def test_a_window_that_was_not_freed_is_there_as_before(where):
    """MPICH alone refuses to free a window in use."""
    result = play("mpich", where, "busy", ["2"])
    assert failures(result) == {"MPI_Win_free": 1}
    fences = [record for record in jobs.records(where) if record["op"] == "MPI_Win_fence"]
    assert sorted(record["seq"] for record in fences) == sorted(list(range(10)) * RANKS)


@pytest.mark.parametrize("who", ALL, ids=["all", "rank0", "rank2"])
def test_a_call_left_by_a_jump_takes_no_number(mpi, where, who):
    play(mpi, where, "jump", who)


def test_a_file_that_is_not_there(mpi, where):
    """All ranks are told so, after they have asked each other: the number is taken on all."""
    result = play(mpi, where, "open", [])
    assert failures(result) == {"MPI_File_open": RANKS}
    opened = numbers(where, "MPI_File_open")
    assert opened[0] == opened[1] == opened[2] != [None]


@pytest.mark.parametrize("who", [[], ["2"]], ids=["all", "rank2"])
def test_a_truncated_bcast_did_take_place(mpi, where, who):
    """The root and the others have had it: where it failed it keeps its number, and what follows is matched."""
    result = play(mpi, where, "truncated", who)
    assert failures(result) == {"MPI_Bcast": 2 if not who else 1}
    took = numbers(where, "MPI_Bcast")
    assert took[0] == took[1] == took[2] == [50]


def test_what_others_took_part_in_shifts_one_rank(mpi, where):
    """They had a Bcast from the root, which waits for nobody: it is said whose numbers fell behind, nobody is accused,
    and all Allreduces are matched with those of their own round."""
    jobs.run(mpi, RANKS, [jobs.program(mpi, "refused"), "alone", "2"], where)
    result = jobs.report(where)
    assert jobs.persistent(result) == []
    said = {finding["code"]: finding["text"] for finding in result["findings"]}
    assert "desync" not in said
    assert said["refused"].startswith("on rank 2 MPI_Bcast returned an error where others took part in it")
    assert "#50 on MPI_COMM_WORLD" in said["refused"]
    assert result["coverage"]["matched_share"] == pytest.approx(RANKS * GOOD / (RANKS * GOOD + 2), abs=0.001)
    assert diagnosis(where)["verdict"] == "ok"


def test_a_hang_after_a_refused_call_says_so(where):
    """The others wait in a Comm_dup that one rank was refused, until all are killed."""
    process = jobs.start(jobs.job_line("openmpi", RANKS, [jobs.program("openmpi", "refused"), "waiting", "2"], where))
    try:
        assert wait_until(lambda: diagnosis(where)["verdict"] == "desync" if jobs.dumps(where) else False)
        text = jobs.commtap("diagnose", where, codes=(0, 1)).stdout
    finally:
        jobs.stop(process)
    assert "after MPI_Comm_dup, which returned an error" in " ".join(text.split())


def test_a_group_that_is_none_is_for_the_call_alone(where):
    """Open MPI lets it pass, window and errors being what they are; MPICH ends the job by itself."""
    play("openmpi", where, "no-group", [])


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.5)
    return False


def test_a_mixture_that_is_aborted(mpi, where):
    done = jobs.run(mpi, RANKS, [jobs.program(mpi, "refused"), "mixture", "2"], where, check=False)
    assert done.returncode != 0
    result = jobs.report(where)
    assert [finding for finding in result["findings"] if finding["code"] in ("desync", "unmatched")] == []
    assert failures(result) == {"MPI_Bcast": 1, "MPI_Ibcast": 1, "MPI_Comm_split": 1, "MPI_File_open": RANKS,
                                "MPI_Win_create": 1, "MPI_Comm_free": 1, "MPI_Win_free": 1}
    verdict = diagnosis(where)
    assert verdict["verdict"] == "dead_rank"
    assert [culprit["rank"] for culprit in verdict["culprits"]] == [0]
