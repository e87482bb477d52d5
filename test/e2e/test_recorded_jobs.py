# SPDX-License-Identifier: Apache-2.0
#
# Flight recorders of simulated jobs of PyTorch: what went wrong in each is known, and is found; healthy ones are fine.
# Must not live here: the jobs (test/support/recorded_jobs.py), single entries (test_import.py).
import json

import jobs
import pytest
import recorded_jobs
from flight_recorders import entry, flight
from test_import import analyse, run_import
from test_import_moments import RANKS, diagnosed, named, recorded


def diagnosis(folder, output):
    run_import(folder, "-o", output)
    return analyse("diagnose", output)


FORMS = ["json", "pickle2", "pickle4"]
# One fault in every form: what is read is the same.
CASES = [(fault, form) for number, fault in enumerate(recorded_jobs.FAULTS)
         for form in (FORMS if number == 0 else [FORMS[number % len(FORMS)]])]


@pytest.mark.parametrize("fault, form", CASES, ids=lambda of: getattr(of, "__name__", of))
def test_faults(fault, form, tmp_path):
    (tmp_path / "given").mkdir()
    about, truth = recorded_jobs.make(len(fault.__name__), tmp_path / "given", fault, form)
    found = diagnosis(tmp_path / "given", tmp_path / "out")
    assert recorded_jobs.agrees(found, truth), (about, truth, found["verdict"], found["culprits"])


@pytest.mark.parametrize("seed", range(5, 60, 5))
def test_healthy_jobs_that_were_looked_at_while_they_ran(seed, tmp_path):
    (tmp_path / "given").mkdir()
    about, truth = recorded_jobs.make(seed, tmp_path / "given", recorded_jobs.healthy)
    said = jobs.commtap("import", tmp_path / "given", "-o", tmp_path / "out", codes=(0, 3))
    if said.returncode == 3:  # nothing was under way
        return
    found = analyse("diagnose", tmp_path / "out")
    assert recorded_jobs.agrees(found, truth), (about, found["verdict"], found["culprits"])


@pytest.mark.parametrize("seed", [102, 1029, 1058, 3008, 3026, 3046, 3137, 3217])
def test_what_is_left_of_launches_that_had_ended(seed, tmp_path):
    """Jobs whose recorders leave out what had ended, but for members of launches, or overwrote a part of them."""
    (tmp_path / "given").mkdir()
    about, truth = recorded_jobs.make(seed, tmp_path / "given")
    found = diagnosis(tmp_path / "given", tmp_path / "out")
    assert recorded_jobs.agrees(found, truth), (about, truth, found["verdict"], found["culprits"])


def test_what_is_overwritten_is_blamed_on_nobody(tmp_path):
    """Rank 2 waits in a batch for rank 1, whose own may be in the part of rank 2's recorder that is overwritten."""
    (tmp_path / "given").mkdir()
    recorded_jobs.make(5301, tmp_path / "given")
    found = diagnosis(tmp_path / "given", tmp_path / "out")
    assert (found["verdict"], found["culprits"]) == ("unknown", [])
    assert "nothing on record tells who lacks the other half" in " ".join(
        jobs.commtap("diagnose", tmp_path / "out", codes=(0, 1)).stdout.split())


@pytest.mark.parametrize("called", [[0, 1], [0, 1, 2], []], ids=["by the others", "by all", "by nobody"])
def test_what_lies_behind_a_message_of_which_nothing_is_known(called, tmp_path):
    """Ranks 0 and 1 wait for messages whose other half may be overwritten; behind these lies a collective. Who has not
    called that is waited for in any case, unless nobody has."""
    (tmp_path / "given").mkdir()
    documents = []

    def message(at, number, state, name):
        return {**entry(at, state, name), "is_p2p": True, "collective_seq_id": 12, "p2p_seq_id": number}

    for rank in range(3):
        others = [(rank + 1) % 3, (rank + 2) % 3]
        entries = [message(9, 20 * (rank + 1), "scheduled", name)  # the rest of a batch, of which more is overwritten
                   for other in others for name in (f"nccl:send {rank}->{other}", f"nccl:recv {rank}<-{other}")]
        entries.append(message(9, 20 * (rank + 1), "completed", "nccl:coalesced"))
        entries += [entry(n) for n in range(10, 13)]
        if rank < 2:
            entries += [message(14, 60, "scheduled", f"nccl:recv {rank}<-{others[0]}"),
                        message(14, 60, "scheduled", ["nccl:send 0->2", "nccl:recv 1<-0"][rank]),
                        message(14, 60, "started", "nccl:coalesced")]
        if rank in called:
            entries.append({**entry(16, "scheduled"), "collective_seq_id": 13})
        for one in entries:
            one["record_id"] = 30 + entries.index(one)
            one["time_discovered_started_ns"] = one["time_created_ns"] + 1000 if one["state"] != "scheduled" else None
        documents.append(flight(entries))
    write(tmp_path / "given", documents)
    found = diagnosis(tmp_path / "given", tmp_path / "out")
    culprits = [culprit["rank"] for culprit in found["culprits"]]
    assert culprits == ([2] if called == [0, 1] else [])


def write(folder, documents):
    for rank, document in enumerate(documents):
        (folder / f"nccl_trace_rank_{rank}").write_text(json.dumps(document))


def test_numbers_of_older_versions(tmp_path):
    """Before 2.1 collectives and messages had one number, and nothing told them apart but the name."""
    (tmp_path / "given").mkdir()
    documents = []
    for rank in range(3):
        entries = [{**entry(n), "seq_id": n} for n in range(1, 4 if rank == 1 else 5)]
        if rank != 1:
            entries[-1].update(state="scheduled", time_discovered_completed_ns=None, duration_ms=None)
        for one in entries:
            for key in ("collective_seq_id", "p2p_seq_id", "is_p2p"):
                del one[key]
        documents.append({**flight(entries), "version": "1.5"})
    write(tmp_path / "given", documents)
    found = diagnosis(tmp_path / "given", tmp_path / "out")
    assert (found["verdict"], [culprit["rank"] for culprit in found["culprits"]]) == ("hang", [1])


def test_a_version_that_is_not_known_is_said(tmp_path):
    (tmp_path / "given").mkdir()
    write(tmp_path / "given", [{**flight([entry(1)], "[0]"), "version": "3.0"}])
    assert "version 3.0" in run_import(tmp_path / "given", "-o", tmp_path / "out").stdout


LOOKS = [630_000] * RANKS
ANOTHER_TYPE = {"input_dtypes": ["Int"], "output_dtypes": ["Int"]}


def test_a_mismatch_that_all_went_on_from_hides_no_hang(tmp_path):
    """Of collective 6, which ended everywhere as did those after it; rank 1 never comes to number 30."""
    recorded(tmp_path / "given", LOOKS, stops=(1, 30), changes={(2, 6): ANOTHER_TYPE})
    found, said = diagnosed(tmp_path)
    assert (found["verdict"], named(found), found["mismatch"]) == ("hang", [1], None), said
    assert "Beside that, the ranks disagree about collective #6 on default_pg" in said
    assert "rank 2 called ncclAllReduce(128 bytes, int32)" in said


@pytest.mark.parametrize("stops, looks", [((1, 12), LOOKS), (None, [206] * RANKS)], ids=["just before", "nothing hangs"])
def test_a_mismatch_without_a_hang_far_behind_is_what_is_told(stops, looks, tmp_path):
    recorded(tmp_path / "given", looks, stops=stops, changes={(2, 6): ANOTHER_TYPE})
    found, said = diagnosed(tmp_path)
    assert (found["verdict"], named(found)) == ("desync", [2]), said
    assert "Beside that" not in said


def test_a_second_mismatch_is_found_behind_one_that_all_went_on_from(tmp_path):
    recorded(tmp_path / "given", LOOKS, stops=(RANKS, 30), changes={(2, 6): ANOTHER_TYPE, (3, 30): ANOTHER_TYPE})
    found, said = diagnosed(tmp_path)
    assert (found["verdict"], named(found), found["mismatch"]["from_seq"]) == ("desync", [3], 30), said
    assert "Beside that, the ranks disagree about collective #6 on default_pg" in said


@pytest.mark.parametrize("lost, said_of", [([3], "Of rank 3 nothing is known: no file of it is here."),
                                           ([0, 3], "Of ranks 0, 3 nothing is known: no file of them is here.")])
def test_who_did_not_come_is_named_beside_files_that_are_missing(lost, said_of, tmp_path):
    recorded(tmp_path / "given", LOOKS, stops=(1, 30))
    for rank in lost:
        (tmp_path / "given" / f"nccl_trace_rank_{rank}").unlink()
    found, said = diagnosed(tmp_path)
    assert (found["verdict"], found["severity"]) == ("hang", "error"), said
    assert {culprit["rank"]: culprit["state"] for culprit in found["culprits"]} == {
        1: "in_user_code", **{rank: "no_dump" for rank in lost}}
    assert "the others wait for rank 1, which is elsewhere. " + said_of in said
    assert "rank 1 never began it; whether rank" in said


def test_who_is_away_for_a_moment_is_not_for_sure_to_blame_beside_a_missing_file(tmp_path):
    recorded(tmp_path / "given", [20_000] * RANKS, stops=(1, 30))
    (tmp_path / "given" / "nccl_trace_rank_3").unlink()
    found, said = diagnosed(tmp_path)
    assert (found["verdict"], found["severity"], named(found)) == ("hang", "warning", [1, 3]), said
    assert said.startswith("hang, or a long pause: the others wait for rank 1")


def test_a_missing_file_alone(tmp_path):
    recorded(tmp_path / "given", LOOKS, stops=(3, 30))
    (tmp_path / "given" / "nccl_trace_rank_3").unlink()
    found, said = diagnosed(tmp_path)
    assert (found["verdict"], named(found)) == ("dead_rank", [3]), said
    assert "ranks 0-2 wait; whether rank 3 began it is not known." in said
