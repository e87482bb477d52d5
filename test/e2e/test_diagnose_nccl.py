# SPDX-License-Identifier: Apache-2.0
#
# Jobs that use NCCL alone and hang, on the stand-in: diagnosed while they do and after they were killed.
# Must not live here: MPI (test_diagnose.py).
import contextlib
import re
import signal
import subprocess
import time

import pytest

import jobs

pytestmark = pytest.mark.hangs

RANKS = 4
GOOD = 800  # collectives before a rank goes wrong: test/programs/nccl/hang.c
GOOD_MESSAGES = 20  # messages of each rank before that
GOOD_REPLAYS = 20
KNOBS = {"COMMTAP_RING": "16"}


def diagnose(where):
    return jobs.document("diagnose", where)


def start(mode, rank, where):
    variables = {**jobs.clean_environment(), **KNOBS, "LD_LIBRARY_PATH": str(jobs.BUILD / "standin"),
                 "STANDIN_DEVICES": str(RANKS), "LD_PRELOAD": str(jobs.SHIM), "COMMTAP_DIR": str(where),
                 "RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": str(rank), "MASTER_ADDR": "localhost",
                 "MASTER_PORT": "1234", "TRAIN_ID_FILE": f"{where}.id"}
    return subprocess.Popen([str(jobs.PROGRAMS / "nccl" / "hang"), mode], env=variables, stdout=subprocess.PIPE)


@contextlib.contextmanager
def hanging(mode, where):
    ranks = [start(mode, rank, where) for rank in range(RANKS)]
    try:
        for process in ranks:
            assert process.stdout.read(len(b"ready\n")) == b"ready\n"
        yield
    finally:
        for number in (signal.SIGSTOP, signal.SIGKILL):  # nobody sees another one go
            for process in ranks:
                process.send_signal(number)
        for process in ranks:
            process.wait()


def both(mode, where, said_when_dead=()):
    """The same must be said while the job hangs and when it was killed; or, then, one of these verdicts on the same
    facts: nobody saw how long it stood."""
    with hanging(mode, where):
        for _ in range(10):
            alive = diagnose(where)
            if alive["verdict"] != "ok":
                break
    dead = diagnose(where)
    for key in ("collectives", "cycle", "mismatch"):
        assert dead[key] == alive[key], (alive["text"], dead["text"])
    assert dead["verdict"] in (alive["verdict"], *said_when_dead), (alive["text"], dead["text"])
    assert states(dead) == states(alive)
    return alive


def states(result):
    return {c["rank"]: c["state"] for c in result["culprits"]}


def test_a_rank_that_never_calls(where):
    result = both("absent", where)
    assert result["verdict"] == "hang"
    (collective,) = result["collectives"]
    assert (collective["op"], collective["seq"]) == ("ncclAllReduce", GOOD)
    assert (collective["entered"], collective["missing"]) == ([0, 2, 3], [1])
    assert states(result) == {1: "in_user_code"}


def test_a_stream_that_is_blocked_before_it(where):
    result = both("stream", where)
    assert result["verdict"] == "hang"
    assert result["collectives"][0]["missing"] == [1]
    assert states(result) == {1: "blocked"}
    assert "before it on the stream" in result["culprits"][0]["reason"]
    assert "hang.c:" in result["culprits"][0]["where"]


def test_a_stream_that_is_blocked_before_a_broadcast(where):
    """Which is over for the others: they wait in a reduction that rank 1, whose host waits for its GPU, has not called."""
    result = both("broadcast", where)
    assert (result["verdict"], states(result)) == ("hang", {1: "in_user_code"}), result["text"]
    assert (result["collectives"][0]["op"], result["collectives"][0]["seq"]) == ("ncclAllReduce", GOOD + 1)
    reason = result["culprits"][0]["reason"]
    assert f"its GPU has not begun ncclBroadcast #{GOOD}" in reason and "before that on the stream does not end" in reason


def test_a_job_that_was_killed_at_work(where):
    """Of the moment when it ended, nothing is said as if it had lasted."""
    with hanging("working", where):
        time.sleep(3)  # memory of GPUs, by which the end is nearly known, is sampled every 2 s
    dead = diagnose(where)
    said = " ".join(dead["text"])
    assert dead["severity"] != "error", said
    if dead["verdict"] == "hang":
        assert dead["text"][0].startswith("hang, unless it was killed at work: the others waited for rank"), said
        assert "No wait was longer than is usual when they were last seen" in dead["text"][0], said
        assert "does not end" not in said


def test_another_count(where):
    result = both("count", where)
    assert result["verdict"] == "desync"
    assert states(result) == {2: "mismatch"}
    mismatch = result["mismatch"]
    assert mismatch["from_seq"] == mismatch["to_seq"] == GOOD
    assert (mismatch["expected"]["bytes"], mismatch["other"]["bytes"]) == (4096, 2048)


def test_a_collective_left_out(where):
    result = both("skipped", where)
    assert result["verdict"] == "desync"
    assert states(result) == {2: "mismatch"}
    assert result["mismatch"]["other"]["op"] == "ncclBroadcast"


def test_a_group(where):
    result = both("group", where)
    assert result["verdict"] == "hang"
    assert (result["collectives"][0]["seq"], result["collectives"][0]["missing"]) == (GOOD, [1])
    assert states(result) == {1: "in_user_code"}


# ---- messages


def circle_of(result):
    return [(step["rank"], step["waits_for"], step["op"]) for step in result["cycle"]]


def test_everybody_receives_before_he_sends(where):
    result = both("ring", where, ["hang"])
    assert result["verdict"] == "deadlock", result["text"]
    assert circle_of(result) == [(rank, [(rank - 1) % RANKS], "ncclRecv") for rank in (0, 3, 2, 1)]
    assert states(result) == {rank: "blocked" for rank in range(RANKS)}
    for culprit in result["culprits"]:
        assert f"ncclRecv(source {(culprit['rank'] - 1) % RANKS}, message #{GOOD_MESSAGES})" in culprit["where"]
        assert "on its GPU at receive_from (" in culprit["where"] and "hang.c:" in culprit["where"]


def test_a_message_that_nobody_receives(where):
    result = both("unreceived", where)
    assert (result["verdict"], states(result)) == ("hang", {1: "in_user_code"}), result["text"]
    assert any("rank 0 in ncclSend(destination 1, message #" in line and "hang.c:" in line and "waits for rank 1" in line
               for line in result["text"]), result["text"]


def test_two_communicators_in_different_orders(where):
    result = both("crossed", where, ["hang"])
    assert result["verdict"] == "deadlock", result["text"]
    assert circle_of(result) == [(0, [1], "ncclSend"), (1, [0], "ncclSend")]
    assert len({step["comm"] for step in result["cycle"]}) == 2


@contextlib.contextmanager
def under_commtap_run(mode, where):
    """The job runs; behind it, it was ended by a signal, and when is known."""
    script = ("for r in 0 1 2 3; do RANK=$r LOCAL_RANK=$r \"$0\" \"$1\" & pids=\"$pids $!\"; done; "
              "trap 'kill $pids' TERM; wait; wait")
    variables = {**jobs.clean_environment(), **KNOBS, "LD_LIBRARY_PATH": str(jobs.BUILD / "standin"),
                 "STANDIN_DEVICES": str(RANKS), "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "localhost",
                 "MASTER_PORT": "1234", "TRAIN_ID_FILE": f"{where}.id"}
    job = subprocess.Popen([str(jobs.COMMTAP), "run", "-o", str(where), "--", "sh", "-c", script,
                            str(jobs.PROGRAMS / "nccl" / "hang"), mode], env=variables, stdout=subprocess.PIPE,
                           text=True)
    try:
        for _ in range(RANKS):
            assert job.stdout.readline() == "ready\n"
        yield
    finally:
        job.send_signal(signal.SIGTERM)
        job.wait(timeout=60)


def test_a_circle_in_a_job_that_commtap_run_saw_terminated(where):
    with under_commtap_run("ring_waiting", where):
        for _ in range(10):
            if diagnose(where)["verdict"] == "deadlock":
                break
    result = diagnose(where)
    assert result["verdict"] == "deadlock", result["text"]
    assert states(result) == {rank: "blocked" for rank in range(RANKS)}


@pytest.mark.parametrize("mode", ["replayed", "replayed_exchange", "replayed_messages"])
def test_a_rank_that_stops_replaying_its_graph(mode, where):
    """No call shows that the others wait: their launches do, and that their GPUs have not ended the last one."""
    with under_commtap_run(mode, where):
        time.sleep(4)  # longer than any wait at work where there is something to compare with
        alive = diagnose(where)
    for result in (alive, diagnose(where)):
        assert result["verdict"] == "hang" and states(result) == {1: "in_user_code"}, result["text"]
        said = result["culprits"][0]["reason"]
        assert re.search(rf"having launched CUDA graphs with nccl\w+ on communicator \w+ {GOOD_REPLAYS} times, rank 0 "
                         rf"{GOOD_REPLAYS + 1} times", said), said
        stalled = [(row["op"], row["seq"], row["replayed"], row["entered"], row["missing"])
                   for row in result["collectives"]]
        assert stalled == ([("ncclAllReduce", GOOD_REPLAYS, True, [0, 2, 3], [1])] if mode == "replayed" else [])


def test_a_replay_that_all_are_in(where):
    """Its work before the communication is not on record: that nobody is blocked in a call does not make it fine, and
    nobody is to blame."""
    with under_commtap_run("replayed_computing", where):
        time.sleep(12)  # longer than any wait at work where there is nothing to compare with
        alive = diagnose(where)
    dead, report = diagnose(where), jobs.report(where)
    for result in (alive, dead):
        assert (result["verdict"], result["severity"]) == ("unknown", "warning"), result["text"]
        assert "It launches CUDA graphs that hold communication" in result["text"][0] and not result["culprits"]
    ended = next(f["text"] for f in report["findings"] if f["code"] == "killed")
    assert dead["text"][0] in ended


def test_a_job_that_replays_its_graph(where):
    with under_commtap_run("replaying", where):
        time.sleep(2)
        alive = diagnose(where)
    for result in (alive, diagnose(where)):
        assert result["verdict"] == "ok", result["text"]


def test_messages_that_get_through_are_no_hang(where):
    with hanging("to_and_fro", where):
        for _ in range(3):
            assert diagnose(where)["verdict"] == "ok"
    dead = diagnose(where)
    assert dead["verdict"] in ("ok", "unknown") or "unless it was killed at work" in dead["text"][0], dead["text"]
