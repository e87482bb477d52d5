# SPDX-License-Identifier: Apache-2.0
#
# Batches of messages in flight recorders that have wrapped: what can be told of them is told, and no more.
# Must not live here: jobs with faults of other kinds (test_recorded_jobs.py), single entries (test_import.py).
import json

import jobs
import pytest
from flight_recorders import flight
from test_import import analyse, run_import

AT = 1_700_000_000_000_000_000
STATES = {"": "completed", "!": "started", "?": "scheduled"}
LOST = 500  # records that were overwritten


def entries_of(rank, launches, lost):
    """Of one rank. "A" is a collective, "S1" a send to rank 1, "R1" a receive, "S1,R1" a batch, "S1," a batch of one; "!"
    behind it: begun, "?": only called, else ended. Batches take numbers of collectives, as PyTorch 2.4 to 2.6 have
    it; so the number that a recorder begins with is the rank's own."""
    entries, collective, message = [], (100 * (rank + 1) if lost else 0), 7
    world = {"process_group": ["0", "default_pg"], "pg_id": 0}
    pipe = {"process_group": ["1", "pp"], "pg_id": 1}
    reduced = 5

    def add(state, **more):
        at = AT + len(entries) * 1_000_000_000
        done, begun = state == "completed", state != "scheduled"
        entries.append({"record_id": lost + len(entries), "time_created_ns": at, "state": state,
                        "input_sizes": [[1024]], "output_sizes": [[1024]], "input_dtypes": ["Float"],
                        "output_dtypes": ["Float"], "time_discovered_started_ns": at + 1000 if begun else None,
                        "time_discovered_completed_ns": at + 500_000_000 if done else None,
                        "duration_ms": 1.5 if done else None, **more})

    for launch in launches.split():
        state, what = STATES[launch.strip("ASR,0123456789")], launch.strip("!?")
        if what == "A":
            reduced += 1
            add(state, **world, profiling_name="nccl:all_reduce", is_p2p=False, collective_seq_id=reduced, p2p_seq_id=0)
            continue
        parts = [part for part in what.split(",") if part]
        names = [f"nccl:send {rank}->{part[1:]}" if part[0] == "S" else f"nccl:recv {rank}<-{part[1:]}" for part in parts]
        batch = "," in what
        collective, message = collective + batch, message + (not batch)
        for name in names:
            add("scheduled" if batch else state, **pipe, profiling_name=name, is_p2p=True, collective_seq_id=collective,
                p2p_seq_id=message)
        if batch:
            add(state, **pipe, profiling_name="nccl:coalesced", is_p2p=True, collective_seq_id=collective,
                p2p_seq_id=message)
            entries[-1].update(input_sizes=[], output_sizes=[], input_dtypes=[], output_dtypes=[])
    return entries


def diagnosed(tmp_path, ranks, lost=LOST):
    given = tmp_path / "given"
    given.mkdir()
    members = str(list(range(len(ranks))))
    for rank, launches in enumerate(ranks):
        document = flight(entries_of(rank, launches, lost), members)
        document["pg_config"]["1"] = {"name": "1", "desc": "pp", "ranks": members}
        (given / f"nccl_trace_rank_{rank}").write_text(json.dumps(document))
    run_import(given, "-o", tmp_path / "out")
    found = analyse("diagnose", tmp_path / "out")
    said = " ".join(jobs.commtap("diagnose", tmp_path / "out", codes=(0, 1)).stdout.split())
    return found["verdict"], sorted(culprit["rank"] for culprit in found["culprits"]), said


def test_a_batch_that_a_gpu_never_began(tmp_path):
    """All that rank 2 launched before it has ended, and its neighbours are in theirs."""
    verdict, culprits, said = diagnosed(tmp_path, [
        "A S1,R1 S1,R1 S1,R1!", "A S0,R0 S2,R2 S0,R0 S2,R2! S0,R0?", "A S1,R1 S3,R3 S1,R1? S3,R3?",
        "A S2,R2 S2,R2! S2,R2?"])
    assert (verdict, culprits) == ("hang", [2]), said
    assert "rank 1 in" in said and "waits for rank 2" in said
    assert "its GPU has not begun it" in said


def test_a_batch_of_one_that_a_gpu_never_began(tmp_path):
    verdict, culprits, said = diagnosed(tmp_path, ["A S1, S1, S1,?", "A R0, S2, R0, S2, R0,! S2,?", "A R1, R1, R1,!"])
    assert (verdict, culprits) == ("hang", [0]), said


@pytest.mark.parametrize("less", ["S1,", "S1"], ids=["in a batch", "by itself"])
def test_a_receive_too_few_is_no_fault_of_the_transport(less, tmp_path):
    """Rank 0 left the receive out of its newest batch. Had that send and the receive of rank 1 belonged together, it
    would have ended; so that receive is over, and each waits for what the other one has not called."""
    verdict, culprits, said = diagnosed(tmp_path, [f"A S1,R1 S1,R1 S1,R1 {less}!", "A S0,R0 S0,R0 S0,R0!"])
    assert (verdict, culprits) == ("deadlock", [0, 1]), said
    assert "transport" not in said and "do not get through" not in said
    assert "rank 1 in ncclSend(destination 0" in said


def test_a_send_too_few_is_no_fault_of_the_transport(tmp_path):
    verdict, culprits, said = diagnosed(tmp_path, ["A S1,R1 S1,R1 R1, S1,R1 R1,!", "A S0,R0 S0,R0 S0,R0 S0,R0!"])
    assert (verdict, culprits) == ("deadlock", [0, 1]), said
    assert "transport" not in said and "do not get through" not in said


def test_two_halves_that_have_begun_and_are_alone(tmp_path):
    """Nothing else can be: the message itself does not move."""
    verdict, culprits, said = diagnosed(tmp_path, ["A S1,R1 S1,!", "A S0,R0 R0,!"])
    assert verdict == "hang" and "transport" in said


def test_several_possibilities_are_told_and_nobody_is_named(tmp_path):
    """Each rank's batch has a message for either neighbour, and either may be the one that lacks its half."""
    ranks = [f"A S{(r + 1) % 3},R{(r + 2) % 3} S{(r + 1) % 3},R{(r + 2) % 3} S{(r + 1) % 3},R{(r + 2) % 3}!" for r in range(3)]
    verdict, culprits, said = diagnosed(tmp_path, ranks)
    assert (verdict, culprits) == ("unknown", []), said
    assert "rank 0 in" in said and "waits for one or more of ranks 1, 2: which of them lacks its half is overwritten" in said


def test_of_several_possibilities_the_gpu_that_has_not_begun_is_meant(tmp_path):
    ranks = [f"A S{(r + 1) % 3},R{(r + 2) % 3} S{(r + 1) % 3},R{(r + 2) % 3} S{(r + 1) % 3},R{(r + 2) % 3}{state}"
             for r, state in enumerate("!!?")]
    verdict, culprits, said = diagnosed(tmp_path, ranks)
    assert (verdict, culprits) == ("hang", [2]), said


def test_a_message_before_a_batch_of_the_same_number_is_a_launch_of_its_own(tmp_path):
    """Batches leave the number of messages as it was. Rank 0's GPU is in the receive, rank 1 in its half of the batch."""
    verdict, culprits, said = diagnosed(tmp_path, ["A R1! S1,R1?", "A R0!"], lost=0)
    assert (verdict, culprits) == ("deadlock", [0, 1]), said


def test_messages_alone_tell_nothing_of_collectives_that_are_overwritten(tmp_path):
    """Rank 1's recorder holds no collective any more: that does not make its file older than the others'."""
    verdict, culprits, said = diagnosed(tmp_path, ["A S1, S1,!", "R0, R0,?"])
    assert (verdict, culprits) == ("hang", [1]), said
    assert "written before" not in said


def test_a_message_between_ranks_that_have_none(tmp_path):
    """Rank 0 sends to rank 2, of which that is unheard of, instead of to rank 1."""
    verdict, culprits, said = diagnosed(tmp_path, ["A S1, S1, S2,!", "A R0, S2, R0, S2, R0,!", "A R1, R1, R1,!"], lost=0)
    assert (verdict, culprits) == ("deadlock", [0, 1, 2]), said
    assert "waits for rank 2, which never called the other half, nor one of an earlier message, as far as is on record" in said
    assert said.count("nor one of an earlier message") == 1
