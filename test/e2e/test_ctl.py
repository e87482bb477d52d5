# SPDX-License-Identifier: Apache-2.0
#
# commtap ctl: what is ordered of a running job is in force by each process's next call, to the call.
# Must not live here: what wishes look like in a dump (test/unit/test_control.c).
import collections
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import time

import pytest

import jobs
import staged
import test_nccl_calls as nccl
from test_staging import shared, stubs  # noqa: F401

pytestmark = pytest.mark.hangs

RANKS, CALLS, THREADS = 2, 10, 4


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


class Job:
    """A job of test/programs/ordered.c: its phases begin when they are asked for. After the last one it ends."""

    def __init__(self, mpi, where, files, phases, mode, ranks, **how):
        self.where, self.files, self.ranks = where, files, ranks
        words = [jobs.program(mpi, "ordered"), str(files), str(phases), *([mode] if mode else [])]
        self.process = jobs.start(jobs.job_line(mpi, ranks, words, where, **how))

    def begin(self, phase):
        (self.files / f"go.{phase}").touch()

    def end(self, phase):
        wait_for(lambda: len(list(self.files.glob(f"done.{phase}.*"))) == self.ranks)

    def phase(self, phase):
        self.begin(phase)
        self.end(phase)

    def finish(self):
        out, err = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, err
        return out, err

    def counts(self):
        """Calls per phase, told by their bytes."""
        rows = [row for row in jobs.summary(self.where)["summary"] if row["op"] == "MPI_Allreduce"]
        return {row["bytes"] // 8 - 1: row["count"] for row in rows}


@contextlib.contextmanager
def job(mpi, where, phases, mode="", ranks=RANKS, **how):
    files = where.parent / "files"
    files.mkdir()
    running = Job(mpi, where, files, phases, mode, ranks, **how)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            jobs.stop(running.process)


def ctl(where, *words, codes=(0, 1), wait=0):
    return jobs.document("ctl", "--wait", wait, where, *words, codes=codes)


def answers(result):
    return {row["rank"]: row["answer"] for row in result["processes"]}


def recording(result):
    return {row["rank"]: row["recording"] for row in result["processes"]}


def said(where, code):
    return [finding["text"] for finding in jobs.report(where)["findings"] if finding["code"] == code]


def test_pause_and_resume_change_the_counts_exactly(mpi, where):
    with job(mpi, where, 7) as run:
        run.phase(0)
        before = ctl(where)
        assert answers(before) == {0: "acknowledged", 1: "acknowledged"} and recording(before) == {0: "on", 1: "on"}
        asked = ctl(where, "pause", codes=(1,))  # nobody calls anything until phase 1
        assert answers(asked) == {0: "awaited", 1: "awaited"} and recording(asked) == {0: "on", 1: "on"}
        assert (asked["order"], asked["acknowledged"], asked["awaited"]) == ("pause", 0, 2)
        assert {row["doing"] for row in asked["processes"]} == {"computing"}
        run.phase(1)
        assert ctl(where, codes=(0,))["acknowledged"] == 2
        run.phase(2)
        ctl(where, "pause", codes=(1,))  # once more is no other pause
        run.phase(3)
        assert recording(ctl(where)) == {0: "paused", 1: "paused"}
        assert len(said(where, "paused")) == 2  # of the past, and that it is so now
        ctl(where, "resume", codes=(1,))
        run.phase(4)
        ctl(where, "pause", codes=(1,))
        ctl(where, "resume", codes=(1,))  # the last order counts: nobody ever paused
        run.phase(5)
        assert {row["pauses"] for row in ctl(where, codes=(0,))["processes"]} == {1}
        run.phase(6)
        run.finish()
    assert run.counts() == {phase: RANKS * CALLS for phase in (0, 4, 5, 6)}
    text, = said(where, "paused")
    assert "on 2 ranks, 1 time each" in text and "commtap ctl" in text
    assert "over" in jobs.commtap("ctl", where, "pause", codes=(3,)).stderr
    asked = jobs.commtap("ctl", where, "--format", "json", codes=(3,))  # nobody is there to ask either
    assert "over" in asked.stderr and answers(json.loads(asked.stdout)) == {0: "over", 1: "over"}


def test_a_rank_inside_of_a_call_acts_when_it_returns(mpi, where):
    with job(mpi, where, 3, "blocked") as run:
        run.phase(0)
        run.begin(1)
        wait_for(lambda: {row["doing"] for row in ctl(where)["processes"]} == {"computing", "MPI_Recv"})
        asked = {row["rank"]: row for row in ctl(where, "pause", wait=0.2, codes=(1,))["processes"]}
        assert [asked[rank]["answer"] for rank in (0, 1)] == ["awaited"] * 2
        assert asked[1]["doing"] == "MPI_Recv" and asked[1]["since_seconds"] >= 0.2
        assert "MPI_Recv" in jobs.commtap("ctl", "--wait", "0", where, codes=(1,)).stdout
        (run.files / "send").touch()
        run.end(1)  # and no call since
        assert answers(ctl(where, codes=(0,))) == {0: "acknowledged", 1: "acknowledged"}
        run.phase(2)
        run.finish()
    assert run.counts() == {0: RANKS * CALLS}
    calls = {row["op"]: row["count"] for row in jobs.summary(where)["summary"]}
    assert calls.get("MPI_Recv") == 1 and "MPI_Send" not in calls  # it was begun before


def test_of_several_threads_one_acts(where):
    with job("mpich", where, 4, "threads", ranks=1) as run:
        run.phase(0)
        ctl(where, "pause", codes=(1,))
        run.phase(1)
        assert {row["pauses"] for row in ctl(where, codes=(0,))["processes"]} == {1}
        run.phase(2)
        ctl(where, "resume", codes=(1,))
        run.phase(3)
        run.finish()
    counts, each = run.counts(), THREADS * CALLS * CALLS
    assert counts[0] == each and 2 not in counts
    # what the other threads called while one was about to act
    assert counts.get(1, 0) < THREADS * CALLS and each - THREADS * CALLS < counts[3] <= each


def test_a_forked_child_goes_on_as_its_parent(where):
    with job("openmpi", where, 3, "child", ranks=1) as run:
        run.phase(0)
        ctl(where, "pause", codes=(1,))
        run.phase(1)
        rows = ctl(where, codes=(0,))["processes"]
        assert len(rows) == 2 and len({row["pid"] for row in rows}) == 2
        assert {row["recording"] for row in rows} == {"paused"}
        ctl(where, "resume")
        run.phase(2)
        run.finish()
    assert run.counts() == {0: CALLS, 2: CALLS}


def test_orders_for_some_ranks(where):
    with job("openmpi", where, 3) as run:
        run.phase(0)
        assert list(answers(ctl(where, "--rank", "1", "pause", codes=(1,)))) == [1]
        for words in ([], ["pause"]):
            assert "no process has one of these ranks" in jobs.commtap("ctl", where, "--rank", "7", *words, codes=(3,)).stderr
        run.phase(1)
        result = ctl(where, codes=(0,))
        assert recording(result) == {0: "on", 1: "paused"}
        ctl(where, "resume")
        run.phase(2)
        run.finish()
    assert run.counts() == {0: 2 * CALLS, 1: CALLS, 2: 2 * CALLS}
    assert jobs.persistent(jobs.report(where)) == []
    assert jobs.document("diagnose", where)["verdict"] == "ok"


def test_what_the_operator_fixes_stays_as_it_is(where, tmp_path):
    """Orders are the user's, as the environment is; what is no setting is not the operator's to fix."""
    (tmp_path / "policy").write_text("fixed COMMTAP_STACK=off\nfixed COMMTAP_OPS=allreduce\nCOMMTAP_VERBOSE=off\n")
    with job("openmpi", where, 4, knobs={"COMMTAP_POLICY": str(tmp_path / "policy")}) as run:
        run.phase(0)
        for words in (["stack", "native"], ["ops", "bcast"], ["verbose", "ranks:7"]):
            ctl(where, *words, codes=(1,))
        run.phase(1)
        rows = ctl(where, codes=(1,))["processes"]
        assert {(row["answer"], row["refused"]) for row in rows} == {
            ("acknowledged", "the policy fixes COMMTAP_OPS; the policy fixes COMMTAP_STACK")}
        assert {(row["stack"], row["ops"], row["verbose"]) for row in rows} == {(None, None, "ranks:7")}
        assert "in force in 0 of 2 processes; refused by 2" in jobs.commtap("ctl", where, codes=(1,)).stdout
        ctl(where, "pause", codes=(1,))
        run.phase(2)
        assert recording(ctl(where, codes=(1,))) == {0: "paused", 1: "paused"}
        said_again = jobs.commtap("ctl", where, "pause", "--wait", "0", codes=(1,)).stdout  # nobody has called anything since
        assert "refused by" not in said_again
        run.phase(3)
        run.finish()
    assert run.counts() == {phase: RANKS * CALLS for phase in (0, 1)}
    assert jobs.document("calls", where)["root"]["children"] == []
    assert all("COMMTAP_OPS=allreduce" in text and "commtap ctl" not in text for text in said(where, "filtered"))


def test_a_snapshot_begins_an_epoch(mpi, where):
    with job(mpi, where, 3) as run:
        run.phase(0)
        ctl(where, "snapshot", codes=(1,))
        run.phase(1)
        assert {row["epoch"] for row in ctl(where, codes=(0,))["processes"]} == {1}
        ctl(where, "snapshot", codes=(1,))
        ctl(where, "snapshot", codes=(1,))  # two that a process reads as one are two nevertheless
        run.phase(2)
        run.finish()
    rows = [row for row in jobs.summary(where, "--by", "op,bytes,epoch")["summary"] if row["op"] == "MPI_Allreduce"]
    assert {(row["epoch"], row["bytes"] // 8 - 1): row["count"] for row in rows} == {
        (epoch, phase): RANKS * CALLS for epoch, phase in ((0, 0), (1, 1), (3, 2))}


def test_an_epoch_has_one_number_also_where_an_order_did_not_reach_all(where):
    with job("openmpi", where, 3) as run:
        run.phase(0)
        ctl(where, "snapshot", "--rank", 1, codes=(1,))
        run.phase(1)
        assert {row["epoch"] for row in ctl(where, codes=(0,))["processes"]} == {0, 1}
        ctl(where, "snapshot", codes=(1,))
        run.phase(2)
        assert {row["epoch"] for row in ctl(where, codes=(0,))["processes"]} == {2}
        run.finish()
    rows = [row for row in jobs.summary(where, "--by", "op,rank,bytes,epoch")["summary"] if row["op"] == "MPI_Allreduce"]
    assert {(row["rank"], row["epoch"], row["bytes"] // 8 - 1): row["count"] for row in rows} == {
        (rank, epoch, phase): CALLS for rank in range(RANKS)
        for epoch, phase in ((0, 0), (1 if rank == 1 else 0, 1), (2, 2))}


def test_functions_are_chosen_while_the_job_runs(mpi, where):
    with job(mpi, where, 3) as run:
        run.phase(0)
        refused = jobs.commtap("ctl", where, "ops", "no_such_function", codes=(2,))
        assert "no function" in refused.stderr
        ctl(where, "ops", "!allreduce", codes=(1,))
        run.phase(1)
        assert {row["ops"] for row in ctl(where, codes=(0,))["processes"]} == {"!allreduce"}
        ctl(where, "ops", "*", codes=(1,))
        run.phase(2)
        run.finish()
    assert run.counts() == {0: RANKS * CALLS, 2: RANKS * CALLS}
    text, = said(where, "filtered")
    assert "commtap ctl" in text and "2 ranks" in text
    assert said(where, "paused") == []


def test_lines_are_printed_while_they_are_wanted(mpi, where):
    with job(mpi, where, 5) as run:
        for phase, words in enumerate((None, ["on"], ["off"], ["ranks:1"])):
            if words:
                ctl(where, "verbose", *words, codes=(1,))
            run.phase(phase)
        ctl(where, "verbose", "off", codes=(1,))
        run.phase(4)
        err = run.finish()[1]
    lines = [line for line in err.splitlines() if "comm op: MPI_Allreduce" in line]
    sizes = collections.Counter((line.split("rank ")[1].split()[0], line.split("msg size: ")[1].split(" |")[0]) for line in lines)
    assert sizes == {("0", "16.0 B"): CALLS, ("1", "16.0 B"): CALLS, ("1", "32.0 B"): CALLS}


def stacks(where):
    """Calls by what their stacks hold: all up to main, the calling function alone, or nothing."""
    def count(node):
        return node["ops"].get("MPI_Allreduce", {"count": 0})["count"]

    root = jobs.document("calls", where, "--noise", "3")["root"]
    site = sum(count(node) for node in root["children"] if node["name"] == "reduce")
    others = sum(count(node) for node in root["children"] if node["name"] != "reduce")
    return {"walked": others, "site": site, "off": count(root) - site - others}


@pytest.mark.parametrize("first", ["off", "site", "full"])
def test_stacks_are_chosen_while_the_job_runs(where, first):
    modes = ["native", "site", "off", "full", "python", "off", "native"]
    with job("openmpi", where, len(modes) + 2, knobs={"COMMTAP_STACK": first}) as run:
        run.phase(0)
        for phase, mode in enumerate(modes, 1):
            ctl(where, "stack", mode, codes=(1,))
            run.phase(phase)
        assert {row["stack"] for row in ctl(where, codes=(0,))["processes"]} == {"native"}
        run.phase(8)
        run.finish()
    assert run.counts() == {phase: RANKS * CALLS for phase in range(9)}
    phases = {"walked": 5 + (first == "full"), "site": 1 + (first == "site"), "off": 2} # what was called while stacks had never been on is in no tree
    assert stacks(where) == {kind: count * RANKS * CALLS for kind, count in phases.items()}


# ---- NCCL, on the stand-in


@contextlib.contextmanager
def nccl_job(where, phases, **variables):
    files = where.parent / "files"
    files.mkdir()
    ranks = [subprocess.Popen([str(nccl.PROGRAMS / "ordered"), str(rank), str(RANKS), str(files), str(phases)],
                              env=nccl.environment(rank, RANKS, where, **variables), stderr=subprocess.PIPE, text=True)
             for rank in range(RANKS)]
    job = object.__new__(Job)
    job.where, job.files, job.ranks = where, files, RANKS
    try:
        yield job
        for process in ranks:
            assert process.communicate(timeout=60)[1] == "" and process.returncode == 0
    finally:
        for process in ranks:
            process.kill()


@pytest.mark.parametrize("timing", ["events", "kernel"])
def test_nccl_is_paused_with_its_times_on_gpus(timing, where):
    """Calls on the host, launches on the device and what graphs replay, each exactly those outside of the pause."""
    with nccl_job(where, 4, COMMTAP_GPU_TIMING=timing) as run:
        run.phase(0)
        ctl(where, "pause", codes=(1,))
        run.phase(1)
        run.phase(2)
        assert recording(ctl(where, codes=(0,))) == {0: "paused", 1: "paused"}
        ctl(where, "resume", codes=(1,))
        run.phase(3)
    rows = [row for row in jobs.summary(where)["summary"] if row["op"] in ("ncclAllReduce", "ncclBroadcast", "ncclAllGather")]
    source = {"events": "gpu-event", "kernel": "in-kernel"}[timing]
    each, seen = RANKS * CALLS, collections.Counter()
    for row in rows:
        seen[row["op"], row["source"], row["bytes"]] += row["count"]
    losses, missing = jobs.document("check", where)["losses"], 0
    for phase in (0, 3):
        size = 4 * (phase + 1)
        assert (seen.pop(("ncclAllReduce", "host", size)), seen.pop(("ncclBroadcast", "host", size))) == (each, 2 * each)
        missing += each - seen.pop(("ncclAllReduce", source, size)) + each - seen.pop(("ncclBroadcast", source, size)) // 2
    # a graph's events tell of its last replay alone: what was launched again too early is a loss that is counted
    missing += 2 * each - seen.pop(("ncclAllGather", source, 4000 * RANKS))
    assert 0 <= missing <= losses["gpu_no_event"] + losses["replays_untimed"] <= 2 * each
    assert set(seen) == {("ncclAllGather", "host", 4000 * RANKS)}  # captured


def test_what_takes_no_orders(where, tmp_path):
    for words in (["pauses"], ["pause", "now"], ["--wait", "x", "pause"], ["verbose"], ["verbose", "loud"],
                  ["stack", "deep"], ["ops"], ["ops", "x" * 256], ["ops", "!"], ["ops", "all*,!"]):
        assert jobs.commtap("ctl", where, *words, codes=(2,)).stdout == ""
    (tmp_path / "empty").mkdir()
    jobs.commtap("ctl", tmp_path / "empty", "pause", codes=(3,))
    with job("openmpi", where, 2) as run:
        run.phase(0)
        dump = jobs.dumps(where)[0]
        copy = tmp_path / "copy"
        shutil.copytree(where, copy)
        first = (copy / dump.name)
        first.unlink()
        first.symlink_to(dump)  # a link is none
        result = ctl(copy, "pause", codes=(1,))
        why = [row["why"] for row in result["processes"] if row["answer"] == "not_given"]
        assert len(why) == 1 and "link" in why[0]
        if os.geteuid() == 0:
            os.chown(dump, 12345, -1)
            why = [row["why"] for row in ctl(where, "pause", codes=(1,))["processes"] if row["why"]]
            assert len(why) == 1 and "another user" in why[0]
            os.chown(dump, 0, -1)
        run.phase(1)
        run.finish()
    assert run.counts()[0] == RANKS * CALLS


def test_dumps_that_are_staged_take_orders_on_their_host(shared):  # noqa: F811
    where = shared / "dumps"
    with job("openmpi", where, 3) as run:
        run.phase(0)
        assert len(stubs(where)) == RANKS and not jobs.dumps(where)
        assert answers(ctl(where, "pause", codes=(1,))) == {0: "awaited", 1: "awaited"}
        run.phase(1)
        assert answers(ctl(where, codes=(0,))) == {0: "acknowledged", 1: "acknowledged"}
        run.phase(2)
        run.finish()
    assert run.counts() == {0: RANKS * CALLS}


# ---- other hosts


def test_orders_reach_other_hosts_by_ssh(shared, tmp_path):  # noqa: F811
    """Rank 1 is made one of another host: it follows as the one that is here does, to the call."""
    where = shared / "dumps"
    ssh, boot_id = staged.play_another_host(tmp_path)
    trap = pathlib.Path(f"/tmp/trap{os.getpid()}")  # short, for globs are
    with job("openmpi", where, 5) as run:
        run.phase(0)
        staged.move_rank(stubs(where), 1, boot_id)
        rows = ctl(where, "pause", codes=(1,))["processes"]
        assert {row["rank"]: row["answer"] for row in rows} == {0: "awaited", 1: "not_given"} and "--ssh" in rows[1]["why"]
        asked = ctl(where, "--ssh", ssh, "pause", codes=(1,))
        assert answers(asked) == {0: "awaited", 1: "awaited"}
        assert [row["host"] for row in asked["processes"]][1] == "far1" and asked["processes"][1]["doing"] == "computing"
        run.phase(1)
        asked = ctl(where, "--ssh", ssh, codes=(0,))
        assert (asked["acknowledged"], recording(asked)) == (2, {0: "paused", 1: "paused"})
        run.phase(2)
        ctl(where, "--ssh", ssh, "resume", codes=(1,))
        words = f"*reduce,'$(touch {trap})`touch {trap}`;touch {trap}\n\"touch {trap}"
        rows = ctl(where, "--ssh", ssh, "--rank", "1", "ops", words, codes=(1,))["processes"]
        assert [row["rank"] for row in rows] == [1]
        run.phase(3)
        rows = ctl(where, "--ssh", ssh, codes=(0,))["processes"]
        assert [row["ops"] for row in rows] == [None, words] and not trap.exists()
        run.phase(4)
        run.finish()
    assert run.counts() == {0: 2 * CALLS, 3: 2 * CALLS, 4: 2 * CALLS}
    assert not list(pathlib.Path("/tmp").glob("tmp.*/dumps/*.stub"))


SILENCE_S = 6  # half of it is to be borne, twice as much is not

LYING = {  # what stands behind the true answer's greeting: why nobody is thought to have acknowledged
    "nothing": ("sed '/commtap answers/q'", "ended early"),
    "half of it": ("head -c 200", "ended early"),
    "no document": ("sed 's/commtap.ctl/commtap.tcl/'", "does not find it"),
    "of other processes": ("sed 's/\"pid\": [0-9]*/\"pid\": 1/'", "does not find it"),
    "an unknown state": ("sed 's/acknowledged\",/obeyed\",/'", "does not find it"),
    "no UTF-8": ("tr f '\\377'", "does not find it"),
}


def test_hosts_that_cannot_be_asked_are_named(shared, tmp_path):  # noqa: F811
    where, hidden = shared / "dumps", tmp_path / "bin"
    ssh, boot_id = staged.play_another_host(tmp_path)
    hidden.mkdir()
    shutil.copy(jobs.COMMTAP, hidden / "commtap")

    def asked(words, *order, program=jobs.COMMTAP):
        line = [program, "ctl", "--wait", "0", "--format", "json", "--ssh", words, where, *order]
        path = os.pathsep.join(folder for folder in os.environ["PATH"].split(os.pathsep) if not shutil.which("commtap", path=folder))
        done = subprocess.run(list(map(str, line)), capture_output=True, text=True, timeout=30,
                              env={**jobs.clean_environment(), "PATH": path})
        assert done.returncode == 1, done.stderr
        result = json.loads(done.stdout)
        assert [row["answer"] for row in result["processes"]] == ["acknowledged", "not_given"], result
        assert (result["acknowledged"], result["processes"][1]["host"]) == (1, "far1")
        return result["processes"][1]["why"]

    with job("openmpi", where, 1) as run:
        wait_for(lambda: len(stubs(where)) == RANKS)
        stub = staged.move_rank(stubs(where), 1, boot_id)
        sound = stub.read_text()
        text = jobs.commtap("ctl", where, "--ssh", "/bin/false", codes=(1,)).stdout
        assert "in force in 1 of 1 process" in text and "not given to 1" in text and "far1" in text
        for kind, (meddle, why) in LYING.items():
            path = tmp_path / "lying"
            path.write_text(f"#!/bin/sh\n{ssh} \"$@\" | {meddle}\n", encoding="utf-8")
            path.chmod(0o755)
            assert why in asked(path), kind
        for seconds, answered in ((SILENCE_S / 2, True), (2 * SILENCE_S, False)):
            path.write_text(f"#!/bin/sh\necho $$ >{tmp_path}/pid\ntrap '' TERM\nsleep {seconds}\nexec {ssh} \"$@\"\n", encoding="utf-8")
            done = jobs.document("ctl", "--wait", "0", "--timeout", SILENCE_S, "--ssh", path, where, codes=(0, 1))
            row = done["processes"][1]
            assert (row["answer"] == "acknowledged") == answered, row["why"]
            assert answered or "silent for" in row["why"]
            assert not pathlib.Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/exe").exists()
        none, other = staged.play_another_host(tmp_path, hidden)
        stub.write_text(sound.replace(boot_id, other))
        assert "no commtap there" in asked(none, program=hidden / "commtap")
        stub.write_text(sound)
        assert "was rebooted" in asked(none)
        for host in ("-oProxyCommand=false", "far1;true", "$(true)"):
            stub.write_text(sound.replace("far1", host))
            assert "impossible host" in jobs.document("ctl", "--wait", "0", "--ssh", ssh, where, codes=(1,))["processes"][1]["why"]
        stub.write_text(sound)
        os.chown(stub, 12345, -1)
        assert "another user" in asked(ssh)
        run.phase(0)
        run.finish()
