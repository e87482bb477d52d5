# SPDX-License-Identifier: Apache-2.0
#
# Jobs that use NCCL alone and hang, on the stand-in: diagnosed while they do and after they were killed.
# Must not live here: MPI (test_diagnose.py).
import contextlib
import signal
import subprocess

import pytest

import jobs

pytestmark = pytest.mark.hangs

RANKS = 4
GOOD = 800  # collectives before a rank goes wrong: test/programs/nccl/hang.c
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


def both(mode, where):
    """The same must be said while the job hangs and when it was killed."""
    with hanging(mode, where):
        for _ in range(10):
            alive = diagnose(where)
            if alive["verdict"] != "ok":
                break
    dead = diagnose(where)
    for key in ("verdict", "collectives", "cycle", "mismatch"):
        assert dead[key] == alive[key], (alive["text"], dead["text"])
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
