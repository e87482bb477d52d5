# SPDX-License-Identifier: Apache-2.0
#
# Jobs in containers: in PID namespaces of their own, looked at from the host, which sees them, and from another
# container, which does not.
import contextlib
import json
import os
import signal
import subprocess
import time

import pytest

import jobs

RANKS = 2
UNSHARE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


def contained(words):
    return [*UNSHARE, *map(str, words)]


@pytest.fixture(autouse=True)
def allowed():
    tried = subprocess.run(contained(["true"]), capture_output=True)
    first = os.stat("/proc/self/ns/pid").st_ino == 0xeffffffc
    if tried.returncode != 0 or not first:
        pytest.skip("needs to be root in the first PID namespace")


@contextlib.contextmanager
def hanging(mpi, where):
    """A job that has come to its hang, all in one container."""
    line = jobs.job_line(mpi, RANKS, [jobs.program(mpi, "hang"), "skip"], where, knobs={"COMMTAP_RING": "16"})
    process = jobs.start(contained(line))
    try:
        assert process.stdout.read(RANKS * len("ready\n")).count("ready") == RANKS
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=20)


def state_of_job(where):
    (job,) = jobs.document("list", where)["jobs"]
    return job["state"]


def elsewhere(*words, codes=(0,)):
    """What commtap says in a container of its own."""
    done = subprocess.run(contained([jobs.COMMTAP, *words]), env=jobs.clean_environment(), capture_output=True, text=True)
    assert done.returncode in codes, done.stderr
    return done.stdout


def test_the_host_sees_a_job_in_a_container(mpi, where):
    with hanging(mpi, where):
        assert state_of_job(where) == "running"
        assert jobs.document("diagnose", where)["verdict"] == "hang"
        states = [row["state"] for row in jobs.document("top", "--once", where)["ranks"]]
        assert len(states) == RANKS and "gone" not in states
        orders = jobs.document("ctl", where, "pause", codes=(0, 1))
        assert all(row["answer"] == "awaited" for row in orders["processes"]), orders
        jobs.commtap("prune", "--older-than", "0s", where)
        assert len(jobs.dumps(where)) == RANKS
    for _ in range(100):  # its processes take a moment to end
        if state_of_job(where) != "running":
            break
        time.sleep(0.1)
    assert state_of_job(where) == "killed"
    jobs.commtap("prune", "--older-than", "0s", where)
    assert not jobs.dumps(where)


def test_another_container_cannot_tell_whether_it_runs(mpi, where):
    """Its dumps are left where they are, unless it is said that the job has ended."""
    with hanging(mpi, where):
        assert "unknown" in elsewhere("list", where) and "killed" not in elsewhere("list", where)
        elsewhere("prune", "--older-than", "0s", where)
        elsewhere("pack", "--delete", where, codes=(0, 1))
        assert len(jobs.dumps(where)) == RANKS
        said = elsewhere("diagnose", where, codes=(0, 1))
        assert "died" not in said and "has ended" not in said, said
    elsewhere("prune", "--older-than", "0s", where)
    assert len(jobs.dumps(where)) == RANKS
    elsewhere("prune", "--older-than", "0s", "--ended", where)
    assert not jobs.dumps(where)


def test_a_container_with_the_hosts_proc(where):
    """Its processes have other numbers in /proc than they know: none of them is taken for another, nor for dead."""
    jobs.need_mpi("openmpi")  # MPICH's UCX complains on stdout
    line = jobs.job_line("openmpi", RANKS, [jobs.program("openmpi", "hang"), "skip"], where, knobs={"COMMTAP_RING": "16"})
    process = jobs.start(["unshare", "--pid", "--fork", "--kill-child", *map(str, line)])
    try:
        assert process.stdout.read(RANKS * len("ready\n")).count("ready") == RANKS
        time.sleep(5)  # the heartbeat has looked
        assert state_of_job(where) == "running"
        result = jobs.document("diagnose", where)
        assert result["verdict"] == "hang" and "died" not in " ".join(result["text"]), result["text"]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=20)
    assert "died" not in " ".join(jobs.document("diagnose", where)["text"])


def test_each_rank_in_a_container_of_its_own(where):
    """Ranks that see nothing of each other are not told to be dead."""
    jobs.need_mpi("mpich")
    program = [*UNSHARE, jobs.program("mpich", "hang"), "skip"]
    process = jobs.start(jobs.job_line("mpich", RANKS, program, where, knobs={"COMMTAP_RING": "16"}))
    try:
        assert process.stdout.read(RANKS * len("ready\n")).count("ready") == RANKS
        time.sleep(5)
        assert state_of_job(where) == "running"
        assert jobs.document("diagnose", where)["verdict"] == "hang"
        assert json.loads(elsewhere("diagnose", "--format", "json", where))["verdict"] != "dead_rank"
    finally:
        jobs.stop(process)
