# SPDX-License-Identifier: Apache-2.0
#
# Flight recorders that are not written at one moment: who was at work then is accused of nothing, who had stopped is.
# Must not live here: jobs with faults of other kinds (test_recorded_jobs.py).
import json
import math
import os

import jobs
import pytest
from flight_recorders import flight
from test_import import analyse, run_import

EPOCH = 1_700_000_000_000_000_000
RANKS, STEP_MS, TICK_MS = 4, 10, 100


def tick(ms):
    """When PyTorch's watchdog sees what ended then."""
    return math.ceil(ms / TICK_MS) * TICK_MS


def entry(rank, number, look, timing, ends):
    """A collective as it was at that moment; all times in ms."""
    created, end = number * STEP_MS + rank * .1, number * STEP_MS + 5
    over, begun = ends and end <= look, timing and created + .1 <= look
    seen = min(tick(end), look)
    one = {"record_id": number - 1, "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": number,
           "p2p_seq_id": 0, "is_p2p": False, "profiling_name": "nccl:all_reduce",
           "time_created_ns": EPOCH + int(created * 1e6), "input_sizes": [[4, 8]], "input_dtypes": ["Float"],
           "output_sizes": [[4, 8]], "output_dtypes": ["Float"],
           "state": "completed" if over else "started" if begun else "scheduled",
           "time_discovered_started_ns": EPOCH + int((seen if over else look) * 1e6) if begun else None,
           "time_discovered_completed_ns": EPOCH + int(seen * 1e6) if over else None}
    return {**one, "duration_ms": end - created - .1} if over and timing else one


def recorded(folder, looks, timing=False, stops=None, changes=None):
    """An all-reduce every 10 ms, and each rank's recorder at its own moment. `stops`: a rank, and the collective that it
    never comes to, in which the others wait. `changes`: what an entry of a rank says instead, by rank and number."""
    folder.mkdir()
    for rank, look in enumerate(looks):
        last = int(look / STEP_MS) if stops is None else stops[1] - (rank == stops[0])
        entries = [{**entry(rank, number, look, timing, stops is None or number < stops[1]),
                    **(changes or {}).get((rank, number), {})}
                   for number in range(1, last + 1) if number * STEP_MS + rank * .1 <= look]
        path = folder / f"nccl_trace_rank_{rank}"
        path.write_text(json.dumps(flight(entries, str(list(range(RANKS))))))
        os.utime(path, ns=(EPOCH + int(look * 1e6),) * 2)


def diagnosed(folder):
    run_import(folder / "given", "-o", folder / "out")
    return analyse("diagnose", folder / "out"), " ".join(jobs.commtap("diagnose", folder / "out", codes=(0, 1)).stdout.split())


def named(found):
    return [culprit["rank"] for culprit in found["culprits"]]


# Some 100 ms apart, as a controller asks one rank after the other; rank 2 is the first, then rank 0.
APART = [[2210.5, 2431.2, 2003.4, 2388.8], [2001.2, 2002.7, 7004.1, 2003.3], [2003.4, 2004.1, 2004.9, 2003.8]]


@pytest.mark.parametrize("timing", [True, False])
@pytest.mark.parametrize("looks", APART)
def test_a_job_at_work_that_was_dumped_rank_by_rank(looks, timing, tmp_path):
    recorded(tmp_path / "given", looks, timing)
    found, said = diagnosed(tmp_path)
    assert (found["verdict"], found["severity"], named(found)) == ("ok", "info", []), said


@pytest.mark.parametrize("timing", [True, False])
def test_whose_files_are_copies_with_later_times(timing, tmp_path):
    """Nothing tells when each was written; but others have ended collectives that rank 2 had not come to by then."""
    recorded(tmp_path / "given", APART[0], timing)
    for path in (tmp_path / "given").iterdir():
        os.utime(path, ns=(EPOCH + 7_200_000_000_000,) * 2)
    found, said = diagnosed(tmp_path)
    assert (found["verdict"], found["severity"]) == ("unknown", "warning"), said
    assert {culprit["state"] for culprit in found["culprits"]} == {"not_collected"}
    assert "the others wait for ranks 0, 2, 3, whose files were written before theirs, at work" in said
    assert "never began it" not in said


@pytest.mark.parametrize("timing", [True, False])
@pytest.mark.parametrize("apart", [0, 20_000])
def test_a_rank_that_had_stopped(apart, timing, tmp_path):
    """How long it was away before is told by when it called, which is exact, not by the watchdog's looks."""
    looks = [630_000 + apart * rank / RANKS for rank in range(RANKS)]
    recorded(tmp_path / "given", looks, timing, stops=(1, 41))
    found, said = diagnosed(tmp_path)
    assert (found["verdict"], named(found)) == ("hang", [1]), said
    culprit = found["culprits"][0]
    assert culprit["longest_away_seconds"] == pytest.approx(0.01, abs=1e-6)
    assert culprit["away_seconds"] == pytest.approx(looks[1] / 1e3 - .4001, abs=2e-3)
    assert "entries before that 10.0 ms apart at most" in said


def test_a_rank_that_had_stopped_just_before(tmp_path):
    """2 s, where steps take 10 ms."""
    recorded(tmp_path / "given", [2400, 2410, 2420, 2430], stops=(1, 41))
    found, said = diagnosed(tmp_path)
    assert (found["verdict"], named(found)) == ("hang", [1]), said


@pytest.mark.parametrize("members", [range(RANKS, 2 * RANKS), range(2 * RANKS)], ids=["their-own", "of-all"])
def test_files_of_an_older_run_beside(members, tmp_path):
    """Those of ranks that this run does not have lie there since the day before: that is no measure for its waits, nor did
    a run that was larger, and came further, end collectives with this one."""
    recorded(tmp_path / "given", [630_000] * RANKS, stops=(1, 41))
    recorded(tmp_path / "old", [2003.4] * RANKS)
    for rank in range(RANKS):
        document = json.loads((tmp_path / "old" / f"nccl_trace_rank_{rank}").read_text())
        document["pg_config"]["0"]["ranks"] = str(list(members))
        for one in document["entries"]:
            one["time_created_ns"] -= 86_400_000_000_000
        path = tmp_path / "given" / f"nccl_trace_rank_{RANKS + rank}"
        path.write_text(json.dumps(document))
        os.utime(path, ns=(EPOCH + 2_003_400_000 - 86_400_000_000_000,) * 2)
    found, said = diagnosed(tmp_path)
    assert (found["verdict"], named(found)) == ("hang", [1]), said
