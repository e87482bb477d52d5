# SPDX-License-Identifier: Apache-2.0
"""The library as NCCL's profiler plugin, on the stand-in: kernel times, graphs, proxies, the audit of calls.

Lives here: jobs of test/timing/ranks.c and the training program. Must not live here: event timing (test_gpu_timing.py).
Versions 4 and 6 of the interface are proven by the stand-in alone.
"""
import collections
import json
import os
import subprocess

import pytest

import jobs
from test_gpu_timing import BUILD, TIMING, Dump

KERNEL, PROXY = 5, 6                    # enum record_kind
HOST, EVENTS, KERNEL_TIMES = 1, 2, 3    # enum gpu_timing
IN_KERNEL = 3                           # enum source
NONE = 0xffffffff                       # COMM_NONE
MS = 1000000
VERSIONS = ("4", "5", "6")
RECORDER = os.path.join(BUILD, "test", "standin", "nccl_test", "recorder.so")


class Job:
    """All ranks of one scene of test/timing/ranks.c, one device each; a directory per rank."""

    def __init__(self, directory, scene, size=3, preload=True, expect=0, **environment):
        self.directory, self.size = str(directory), size
        os.makedirs(self.directory, exist_ok=True)
        running = [self.start(scene, rank, preload, environment) for rank in range(size)]
        self.said = [process.communicate(timeout=60) for process in running]
        self.status = [process.returncode for process in running]
        assert self.status == [expect] * size, self.said

    def start(self, scene, rank, preload, environment):
        variables = {**jobs.clean_environment(), "LD_LIBRARY_PATH": os.path.join(BUILD, "standin"),
                     "STANDIN_DEVICES": str(self.size), "COMMTAP_GPU_TIMING": "kernel", "RANK": str(rank),
                     "WORLD_SIZE": str(self.size), "COMMTAP_DIR": os.path.join(self.directory, str(rank))}
        if preload:
            variables["LD_PRELOAD"] = str(jobs.SHIM)
        return subprocess.Popen([os.path.join(TIMING, "ranks"), scene, str(rank), str(self.size),
                                 os.path.join(self.directory, "id")], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, env={**variables, **environment})

    def dumps(self):
        found = []
        for rank in range(self.size):
            place = os.path.join(self.directory, str(rank))
            files = [f for f in os.listdir(place) if f.endswith(".ct")] if os.path.isdir(place) else []
            assert len(files) <= 1
            found += [Dump(os.path.join(place, f)) for f in files]
        return found

    def sums(self):
        return [out for out, _ in self.said]


def lossless(dump):
    assert dump.header["mode"] == KERNEL_TIMES
    assert [dump.header[what] for what in ("no_event", "unfinished", "failed", "replays_untimed")] == [0] * 4


@pytest.mark.parametrize("version", VERSIONS)
def test_every_launch_is_timed(tmp_path, version):
    job = Job(tmp_path, "streams", STANDIN_PROFILER_VERSION=version)
    assert len(job.dumps()) == 3
    for dump in job.dumps():
        lossless(dump)
        by_comm = collections.defaultdict(list)
        for record in dump.records(KERNEL):
            by_comm[record["comm"]].append(record)
        assert [[r["seq"] for r in records] for records in by_comm.values()] == [list(range(20))] * 2
        for comm, records in by_comm.items():
            assert all(a["t1"] <= b["t0"] for a, b in zip(records, records[1:]))
            row, = [r for r in dump.lines["row"] if r["comm"] == comm]
            assert (row["source"], row["count"]) == (IN_KERNEL, 20)
            assert row["time"] == sum(r["t1"] - r["t0"] for r in records)
        assert dump.lines["anchor"] and max(a["width"] for a in dump.lines["anchor"]) < MS
        assert [s["wrapped"] for s in dump.lines["sensor"]] == [s["plugged"] for s in dump.lines["sensor"]] == [40]


def test_times_lie_between_enqueueing_and_end(tmp_path):
    """Kernel times are in the host's clock: a launch starts after it was enqueued, on every rank at about the same
    time it can end only once the last has come."""
    job = Job(tmp_path, "streams", STANDIN_NCCL_FAULTS="stream-delay rank=1 op=10 ms=300",
              STANDIN_GLOBALTIMER_NS="123456789012345")
    launches = [sorted((r for r in dump.records(KERNEL)), key=lambda r: r["op"]) for dump in job.dumps()]
    late = max(zip(*launches), key=lambda one: one[0]["t1"] - one[0]["t0"])
    lengths = [r["t1"] - r["t0"] for r in late]
    assert lengths[0] > 200 * MS and lengths[2] > 200 * MS and lengths[1] < 100 * MS
    ends = [r["t1"] for r in late]
    assert max(ends) - min(ends) < 100 * MS  # a third of the delay: a busy machine lets one end later
    assert min(ends) > late[1]["t0"]  # of another device: its globaltimer is told apart


@pytest.mark.parametrize("version", ("5", "6"))
def test_every_replay_is_timed_at_its_call(tmp_path, version):
    for dump in Job(tmp_path, "graph", STANDIN_PROFILER_VERSION=version).dumps():
        lossless(dump)
        replays = dump.records(KERNEL, captured=1)
        assert len(replays) == 100 and len(dump.records(KERNEL, captured=0)) == 1
        assert len({r["op"] for r in replays}) == len({r["seq"] for r in replays}) == 1
        assert all(a["t1"] <= b["t0"] for a, b in zip(replays, replays[1:]))


def test_replays_of_groups(tmp_path):
    for dump in Job(tmp_path, "graph_of_groups").dumps():
        lossless(dump)
        by_op = collections.Counter(r["op"] for r in dump.records(KERNEL, captured=1))
        assert list(by_op.values()) == [20, 20]


def test_replays_without_events_of_calls_are_counted(tmp_path):
    """Version 4 does not say whose a replayed task is."""
    for dump in Job(tmp_path, "graph", STANDIN_PROFILER_VERSION="4").dumps():
        assert len(dump.records(KERNEL)) == 1 and not dump.records(KERNEL, captured=1)
        assert dump.header["replays_untimed"] == 100


def test_proxies_tell_bytes_and_waits_per_peer(tmp_path):
    job = Job(tmp_path, "streams", size=2, STANDIN_HOSTS="2",
              STANDIN_NCCL_FAULTS="link from=0 to=1 rate=1e9 ms=3")
    sent = {}
    for rank, dump in enumerate(job.dumps()):
        lossless(dump)
        timed = {r["op"] for r in dump.records(KERNEL)}
        assert dump.records(PROXY) and {r["op"] for r in dump.records(PROXY)} <= timed
        rows = dump.lines["transfer"]
        assert {r["peer"] for r in rows} == {1 - rank} and {r["sends"] for r in rows} == {0, 1}
        assert sum(r["operations"] for r in rows) == len(dump.records(PROXY))
        assert all(r["bytes"] and r["steps"] >= r["operations"] and r["channels"] == 1 for r in rows)
        for row in rows:
            sent[rank, row["comm"], row["sends"]] = row
    # the export has what the dumps have, row by row, as another reader sees it
    exported = [json.loads(line) for rank in range(2) for line in jobs.commtap(
        "export", "--table", "transfers", "--format", "jsonl",
        os.path.join(job.directory, str(rank))).stdout.splitlines()]
    assert [row["direction"] == "send" for row in exported] == [
        row["sends"] == 1 for dump in job.dumps() for row in dump.lines["transfer"]]
    for key, name in {"peer": "peer", "channels": "channels", "count": "operations", "proxy_steps": "steps",
                      "bytes_total": "bytes", "wait_gpu_ns": "gpu", "wait_peer_ns": "peers", "wait_wire_ns": "wire",
                      "wait_flush_ns": "flush"}.items():
        assert [row[key] for row in exported] == [row[name] for dump in job.dumps() for row in dump.lines["transfer"]]
    for comm in {comm for _, comm, _ in sent}:
        assert sent[0, comm, 1]["bytes"] == sent[1, comm, 0]["bytes"]
        slow, fast = sent[1, comm, 0], sent[0, comm, 0]
        assert slow["wire"] > 20 * 2 * MS  # 20 messages, 3 ms each on the way to rank 1


def test_training_names_the_slow_rank(tmp_path):
    running, directory = [], tmp_path / "dumps"
    for rank in range(4):
        running.append(subprocess.Popen(
            [str(jobs.PROGRAMS / "nccl" / "train"), "--steps", "30", "--slow-rank", "2", "--slow-ms", "12"],
            stdout=subprocess.DEVNULL, env={
                **jobs.clean_environment(), "LD_LIBRARY_PATH": os.path.join(BUILD, "standin"), "STANDIN_DEVICES": "4",
                "LD_PRELOAD": str(jobs.SHIM), "COMMTAP_DIR": str(directory), "RANK": str(rank), "WORLD_SIZE": "4",
                "LOCAL_RANK": str(rank), "MASTER_ADDR": "localhost", "MASTER_PORT": "7",
                "TRAIN_ID_FILE": str(tmp_path / "id"), "COMMTAP_GPU_TIMING": "auto",
                "CUDA_DEVICE_MAX_CONNECTIONS": "1"}))
    assert [process.wait(timeout=60) for process in running] == [0] * 4
    report = jobs.report(directory)
    assert [s["rank"] for s in jobs.stragglers(report)] == [2]
    timed = [row for row in report["summary"] if row["source"] == "in-kernel"]
    assert sum(row["count"] for row in timed) == 4 * 30 * 4
    assert not [f for f in report["findings"] if f["code"] in ("unseen_calls", "gpu_untimed")]


def test_one_connection_means_kernel_times(tmp_path):
    for dump in Job(tmp_path, "streams", COMMTAP_GPU_TIMING="auto", CUDA_DEVICE_MAX_CONNECTIONS="1").dumps():
        lossless(dump)
        assert "CUDA_DEVICE_MAX_CONNECTIONS" in dump.why
        assert len(dump.records(KERNEL)) == 40


@pytest.mark.parametrize("mode", ("kernel", "events", "host"))
@pytest.mark.parametrize("version", VERSIONS)
def test_calls_that_no_wrapper_sees_are_counted(tmp_path, version, mode):
    if (version, mode) == ("4", "kernel"):
        pytest.skip("version 4 cannot tell them from replays")
    job = Job(tmp_path, "bypass", STANDIN_PROFILER_VERSION=version, COMMTAP_GPU_TIMING=mode)
    for rank, dump in enumerate(job.dumps()):
        row, = dump.lines["sensor"]
        assert (row["wrapped"], row["plugged"]) == (10, 20)
        findings = jobs.report(os.path.join(job.directory, str(rank)))["findings"]
        text, = [f["text"] for f in findings if f["code"] == "unseen_calls"]
        assert "50 %" in text and "ncclAllReduce" in text


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("scene", ("streams", "graph"))
def test_wrapped_calls_are_all_plugged(tmp_path, scene, version):
    for dump in Job(tmp_path, scene, STANDIN_PROFILER_VERSION=version, COMMTAP_GPU_TIMING="events").dumps():
        assert dump.header["mode"] == EVENTS
        assert all(row["wrapped"] == row["plugged"] > 0 for row in dump.lines["sensor"])
        assert not dump.records(KERNEL) and "transfer" not in dump.lines


def test_nothing_is_asked_when_off(tmp_path):
    for dump in Job(tmp_path, "streams", COMMTAP_GPU_TIMING="off").dumps():
        assert all(row["plugged"] == 0 for row in dump.lines["sensor"])


def test_a_users_plugin_stays(tmp_path):
    events = tmp_path / "events"
    job = Job(tmp_path, "streams", NCCL_PROFILER_PLUGIN=RECORDER, RECORDER_LOG=str(events))
    assert events.read_text().startswith("init ")
    for dump in job.dumps():
        assert dump.header["mode"] == EVENTS and "plugin is not in use" in dump.why
        assert all(row["plugged"] == 0 for row in dump.lines["sensor"])


def test_no_plugin_when_the_user_wants_none(tmp_path):
    for dump in Job(tmp_path, "streams", NCCL_PROFILER_PLUGIN="none").dumps():
        assert dump.header["mode"] == EVENTS and "plugin is not in use" in dump.why


def test_a_library_older_than_plugins(tmp_path):
    """It is told of the plugin and does not look: what was meant to be kernel times are events."""
    for dump in Job(tmp_path, "streams", STANDIN_NCCL_VERSION="22605", STANDIN_PROFILER_VERSION="3").dumps():
        assert dump.header["mode"] == EVENTS and "plugin is not in use" in dump.why


def test_a_plugin_that_never_came(tmp_path):
    """New enough, and it looks for another version of the interface than ours."""
    for dump in Job(tmp_path, "streams", STANDIN_PROFILER_VERSION="3").dumps():
        assert dump.header["mode"] == HOST and "did not load" in dump.why
        assert dump.header["no_event"] == 0


def test_loaded_without_the_preload(tmp_path):
    """What a child that inherited the variable meets: nothing."""
    job = Job(tmp_path, "graph", preload=False, NCCL_PROFILER_PLUGIN=str(jobs.SHIM))
    assert job.dumps() == []
    assert job.sums() == Job(tmp_path / "plain", "graph", preload=False).sums()


@pytest.mark.parametrize("scene", ("streams", "graph", "graph_of_groups", "overlap"))
def test_results_are_the_same_without_us(tmp_path, scene):
    assert Job(tmp_path / "with", scene).sums() == Job(tmp_path / "without", scene, preload=False).sums()


def test_a_fork_meanwhile(tmp_path):
    for dump in Job(tmp_path, "fork").dumps():
        lossless(dump)
        assert [r["seq"] for r in dump.records(KERNEL)] == list(range(20))


def test_killed_ranks_keep_what_has_run(tmp_path):
    for dump in Job(tmp_path, "killed", expect=-9).dumps():
        assert not dump.header["exited"]
        assert [r["seq"] for r in dump.records(KERNEL)][:10] == list(range(10))
        assert dump.lines["anchor"]
