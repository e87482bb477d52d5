# SPDX-License-Identifier: Apache-2.0
"""GPU times on the stand-in's driver: what the dump of a one-process job says, and that the job noticed nothing.

Lives here: the scenes of test/timing/scenes.c. Must not live here: communication libraries and their wrappers.
Only lower bounds of times are asserted, or upper ones with room: the machine may be slow.
"""
import glob
import json
import os
import random
import subprocess
import time

import pytest

pytestmark = pytest.mark.alone

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, "build")
TIMING = os.path.join(BUILD, "test", "timing")
GPU, EXPOSED, MEMORY = 4, 10, 11  # enum record_kind
EVENTS, HOST, OFF = 2, 1, 0       # enum gpu_timing
MS = 1000000
NEVER_CALLED = {"synchronize", "free", "create-context", "destroy-busy"}


class Dump:
    def __init__(self, path):
        output = subprocess.run([os.path.join(TIMING, "show"), path], check=True, stdout=subprocess.PIPE, text=True)
        self.lines = {}
        self.why = ""
        for line in output.stdout.splitlines():
            what, *words = line.split(" ")
            if what == "why":
                self.why = line[4:]
            else:
                self.lines.setdefault(what, []).append(dict(zip(words[0::2], map(int, words[1::2]))))
        self.header = self.lines["header"][0]

    def records(self, kind=GPU, **wanted):
        return [r for r in self.lines.get("record", []) if r["kind"] == kind
                and all(r[key] == value for key, value in wanted.items())]


class Scene:
    """One run: its exit status, what it printed, its dump, the calls that the library made."""

    def __init__(self, directory, name, number=None, **environment):
        self.directory = str(directory)
        report = os.path.join(self.directory, "report")
        command = [os.path.join(TIMING, "scenes"), name] + ([str(number)] if number is not None else [])
        started = time.monotonic()
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, env={
            **os.environ, "LD_LIBRARY_PATH": os.path.join(BUILD, "standin"), "COMMTAP_DIR": self.directory,
            "COMMTAP_RUN_ID": "scene", "STANDIN_REPORT": report, **environment})
        self.seconds = time.monotonic() - started
        self.status = result.returncode
        self.errors = result.stderr
        self.said = {words[0]: int(words[1]) for words in map(str.split, result.stdout.splitlines())}
        self.calls = {}
        if os.path.exists(report):
            for line in open(report):
                _, what, library, number = line.rstrip("\n").split("\t")
                if "libengine" in library:
                    self.calls[what] = self.calls.get(what, 0) + int(number)

    def dumps(self):
        return [Dump(os.path.join(self.directory, f)) for f in sorted(os.listdir(self.directory)) if f.endswith(".ct")]

    def dump(self):
        dumps = self.dumps()
        assert len(dumps) == 1
        return dumps[0]

    def check(self):
        """The job ended well, and nothing that waits or makes contexts was called on its account."""
        assert self.status == 0, self.errors
        assert self.said["device"] == 0
        assert not NEVER_CALLED & {what for what, number in self.calls.items() if number}
        return self.dump()


@pytest.fixture
def scene(tmp_path):
    return lambda name, number=None, **environment: Scene(tmp_path, name, number, **environment)


def test_two_communicators_on_two_streams(scene):
    dump = scene("streams").check()
    assert dump.header["exited"] and dump.header["mode"] == EVENTS
    for comm, least in ((1, 3 * MS), (2, 6 * MS)):
        records = dump.records(comm=comm)
        assert [r["seq"] for r in records] == list(range(10))
        assert all(r["t1"] - r["t0"] >= least for r in records)
        # one after the other, but for the width of the anchors that place them: a busy machine makes it large
        room = max(anchor["width"] for anchor in dump.lines["anchor"]) + MS
        assert all(b["t0"] > a["t1"] - room for a, b in zip(records, records[1:]))
        row, = [r for r in dump.lines["row"] if r["comm"] == comm]
        assert row["count"] == 10
        assert row["time"] == sum(r["t1"] - r["t0"] for r in records)
    # the two streams ran at the same time, so the union is less than the sum
    assert dump.lines["device"][0]["busy"] < sum(r["time"] for r in dump.lines["row"]) * 0.9
    assert dump.lines["anchor"]
    assert dump.header["unfinished"] == dump.header["failed"] == dump.header["no_event"] == 0


def test_memory_is_sampled(scene):
    dump = scene("streams", STANDIN_MEMORY="1073741824").check()
    assert dump.lines["device"][0]["capacity"] == 1 << 30
    assert dump.lines["device"][0]["samples"] == len(dump.records(MEMORY)) >= 1


def test_special_handles_under_another_device(scene):
    run = scene("special")
    dump = run.check()
    assert run.said["context-kept"] == 1
    assert len(dump.records(device=0)) == 9
    assert all(r["t1"] - r["t0"] >= MS for r in dump.records())


def test_a_thousand_replays_under_the_strictest_capture(scene):
    dump = scene("replays").check()
    captured = dump.records(captured=1)
    assert len(captured) + dump.header["replays_untimed"] == 2000
    assert len(captured) >= 1900  # each had ended before the next began
    assert all(r["t1"] - r["t0"] >= 100000 for r in captured)
    assert len(dump.records(captured=0)) == 20


def test_replays_that_nobody_can_read_are_counted(scene):
    dump = scene("replays_at_once").check()
    assert len(dump.records(captured=1)) + dump.header["replays_untimed"] == 400
    assert dump.header["replays_untimed"] >= 300


@pytest.mark.parametrize("name", ["many_graphs", "nested_graphs", "captured_again"])
def test_every_replay_is_a_record_or_a_loss(scene, name):
    """By the program's own count: 1500 live graphs, a graph inside another, repeated capture into one graph."""
    run = scene(name)
    dump = run.check()
    assert len(dump.records(captured=1)) + dump.header["replays_untimed"] == run.said["launches"]
    assert dump.header["unfollowed"] == 0
    assert run.said.get("event-nodes", 0) == 0  # where they might be forbidden


def test_captured_group_of_two_streams_stays_joined(scene):
    dump = scene("captured_group").check()
    assert not dump.records()
    assert dump.header["replays_untimed"] == 5


def test_exposed_communication(scene):
    dump = scene("exposed").check()
    device = dump.lines["device"][0]
    waits = dump.records(EXPOSED)
    assert len(waits) == device["waits"] == 5
    assert device["exposed"] == sum(r["t1"] - r["t0"] for r in waits)
    assert {r["op"] for r in waits} == {r["op"] for r in dump.records()}
    assert 5 * 8 * MS < device["exposed"]  # of 20 ms each the first 5 or a little more are hidden


def test_the_runtimes_functions(scene):
    dump = scene("runtime").check()
    assert len(dump.records(captured=1)) + dump.header["replays_untimed"] == 5
    assert len(dump.records(captured=1)) >= 4
    assert len(dump.records(captured=0)) == 5
    waits = dump.records(EXPOSED)
    assert len(waits) == 5  # each told once, whichever functions the runtime itself calls
    assert sum(r["t1"] - r["t0"] for r in waits) > 5 * 15 * MS
    assert dump.header["unfinished"] == 1  # what the reset took away


def test_two_devices_in_one_process(scene):
    run = scene("devices")
    dump = run.check()
    assert run.said["second"] == 1
    assert [d["ordinal"] for d in dump.lines["device"]] == [0, 1]
    assert {a["device"] for a in dump.lines["anchor"]} == {0, 1}
    for device in (0, 1):
        assert {r["comm"] for r in dump.records(device=device)} == {device + 1}
        assert len(dump.records(device=device)) == 10


def test_device_reset_with_work_in_flight(scene):
    run = scene("reset")
    dump = run.check()
    assert run.said["device-again"] == 0
    # a busy machine may let one run to its end before the reset
    lost = dump.header["unfinished"] + dump.header["failed"]
    assert lost >= 1 and len(dump.records()) >= 3
    assert len(dump.records()) + lost == 6


def test_exit_with_work_in_flight(scene):
    run = scene("exit_busy")
    dump = run.check()
    assert run.seconds < 8  # five times two seconds of work are not waited for
    assert dump.header["exited"]
    assert len(dump.records()) == 5
    assert dump.header["unfinished"] == 5


def test_killed_with_work_in_flight(scene):
    run = scene("killed")
    assert run.status == -9
    dump = run.dump()
    assert not dump.header["exited"]
    assert len(dump.records()) == 5


def test_driver_that_hangs_in_a_query_holds_nothing_up(scene):
    run = scene("exit_busy", STANDIN_EVENT_QUERY_HANG="libengine")
    dump = run.check()
    assert run.seconds < 8
    assert dump.header["exited"]
    assert not dump.records()
    assert dump.header["unfinished"] == 10


def test_harvester_ends_with_the_process_at_any_moment(scene, tmp_path):
    moments = random.Random(1)
    for i in range(60):
        directory = tmp_path / str(i)
        directory.mkdir()
        dump = Scene(directory, "brief", moments.randrange(4000)).check()
        assert dump.header["exited"]
        assert len(dump.records()) + dump.header["unfinished"] == 50


def test_forked_child_has_no_harvester(scene):
    run = scene("forked")
    dump = run.check()
    assert run.said["child"] == 0
    assert len(dump.records()) == 6


def test_aborted_communicator(scene):
    dump = scene("aborted").check()
    assert len(dump.records(comm=2)) == 1
    assert not dump.records(comm=1)
    assert dump.header["unfinished"] == 3


def test_threads_share_a_pool(scene):
    dump = scene("threads").check()
    assert len(dump.records()) == 800 and dump.header["no_event"] == 0
    assert len({r["op"] for r in dump.records()}) == len(dump.records())


def test_threads_that_all_come_first(scene):
    dump = scene("rush").check()
    assert len(dump.lines["device"]) == 1
    # what the others launch while the first one brings the device up finds none
    assert len(dump.records()) + dump.header["no_event"] == 8 * 200


def test_hand_me_down_handles(scene):
    """A stream's handle may come again in another context's hands."""
    dump = scene("reset", STANDIN_HANDLES_REUSED="1").check()
    assert len(dump.records()) == 3


@pytest.mark.parametrize("knob, environment, mode, explained", [
    ("off", {}, OFF, True), ("host", {}, HOST, True), ("events", {}, EVENTS, False),
    ("auto", {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}, HOST, True),
    ("events", {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}, EVENTS, False),
    ("auto", {"CUDA_DEVICE_MAX_CONNECTIONS": "16"}, EVENTS, False),
])
def test_mode(scene, knob, environment, mode, explained):
    run = scene("streams", 2, COMMTAP_GPU_TIMING=knob, **environment)
    assert run.status == 0
    assert run.said["device"] == (0 if mode == EVENTS else -1)
    dump = run.dump()
    assert dump.header["mode"] == mode
    assert len(dump.records()) == (4 if mode == EVENTS else 0)
    assert bool(dump.why) == explained


# ---- through NCCL's wrappers -----------------------------------------------------------------------------------------


class Job:
    """All ranks of test/timing/ranks.c on the stand-in, one device and one directory each."""

    def __init__(self, directory, scene, size=3, preload=True, **environment):
        self.directory = str(directory)
        self.size = size
        self.report = os.path.join(self.directory, "report")
        ranks = [self.start(scene, rank, preload, environment) for rank in range(size)]
        self.said = [p.communicate(timeout=60) for p in ranks]
        self.status = [p.returncode for p in ranks]

    def start(self, scene, rank, preload, environment):
        own = os.path.join(self.directory, f"rank{rank}")
        os.makedirs(own, exist_ok=True)
        return subprocess.Popen(
            [os.path.join(TIMING, "ranks"), scene, str(rank), str(self.size), os.path.join(self.directory, "id")],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={
                **os.environ, "LD_LIBRARY_PATH": os.path.join(BUILD, "standin"), "COMMTAP_DIR": own,
                "COMMTAP_RUN_ID": "job", "STANDIN_REPORT": self.report,
                **({"LD_PRELOAD": os.path.join(BUILD, "libcommtap.so")} if preload else {}), **environment})

    def dumps(self):
        """Rank by rank; the job has ended well and our library made no call that it must not make."""
        assert self.status == [0] * self.size, self.said
        for line in open(self.report):
            _, what, library, number = line.rstrip("\n").split("\t")
            assert not ("libcommtap" in library and what in NEVER_CALLED and int(number)), line
        return self.raw_dumps()

    def raw_dumps(self):
        found = []
        for rank in range(self.size):
            own = os.path.join(self.directory, f"rank{rank}")
            name, = [f for f in os.listdir(own) if f.endswith(".ct")]
            found.append(Dump(os.path.join(own, name)))
        return found


@pytest.fixture
def job(tmp_path):
    return lambda scene, **options: Job(tmp_path, scene, **options)


def test_nccl_on_two_communicators_and_streams(job):
    for dump in job("streams").dumps():
        assert dump.header["mode"] == EVENTS
        assert sorted(len(dump.records(comm=c)) for c in {r["comm"] for r in dump.records()}) == [20, 20]
        assert dump.header["unfinished"] == dump.header["failed"] == dump.header["no_event"] == 0


@pytest.mark.parametrize("scene", ["streams", "graph"])
def test_results_are_the_same_without_us(job, tmp_path, scene):
    sums = []
    for preload in (False, True):
        directory = tmp_path / str(preload)
        directory.mkdir()
        run = Job(directory, scene, preload=preload)
        assert run.status == [0] * run.size, run.said
        sums.append([out for out, _ in run.said])
    assert sums[0] == sums[1]


def test_nccl_in_graphs(job):
    """What replays took stands beside the calls that were captured, not in their time.

    Where other programs keep one rank's harvester from its core, some of that rank's are counted only.
    """
    run, timed = job("graph"), []
    for rank, dump in enumerate(run.dumps()):
        captured = dump.records(captured=1)
        assert len(captured) + dump.header["replays_untimed"] == 100
        timed.append(len(captured))
        assert len(dump.records(captured=0)) == 1
        said = subprocess.run([os.path.join(BUILD, "commtap"), "calls", "--format", "json",
                               os.path.join(run.directory, f"rank{rank}")], check=True, stdout=subprocess.PIPE)
        op = json.loads(said.stdout)["root"]["ops"]["ncclAllReduce"]
        assert (op["count"], op["gpu_count"], op["replay_count"]) == (2, 1, len(captured))
        assert op["replay_time_us"] == pytest.approx(sum(r["t1"] - r["t0"] for r in captured) / 1000)
    assert max(timed) >= 90 and min(timed) > 0


def test_late_rank_shows_in_the_others_times(job):
    """Its own operation is short, all others wait inside theirs."""
    run = job("overlap", STANDIN_NCCL_FAULTS="stream-delay rank=1 op=5 count=5 ms=30")
    times = [[r["t1"] - r["t0"] for r in dump.records()][5:] for dump in run.dumps()]
    assert all(time > 15 * MS for rank in (0, 2) for time in times[rank])
    assert all(time < 15 * MS for time in times[1])


def test_slow_operation_shows_on_all_ranks(job):
    run = job("overlap", STANDIN_NCCL_FAULTS="inside-delay op=5 count=5 ms=20")
    for dump in run.dumps():
        assert all(r["t1"] - r["t0"] > 15 * MS for r in dump.records()[5:])


def test_nccl_exposed_where_compute_waits(job):
    for dump in job("overlap", STANDIN_NCCL_FAULTS="inside-delay count=10 ms=10").dumps():
        waits = dump.records(EXPOSED)
        assert len(waits) == 10
        assert {r["op"] for r in waits} == {r["op"] for r in dump.records()}
        assert dump.lines["device"][0]["exposed"] > 10 * 5 * MS


def test_killed_ranks_keep_what_has_run(job):
    run = job("killed")
    assert run.status == [-9] * 3
    for dump in run.raw_dumps():
        assert len(dump.records()) >= 10
        assert not dump.header["exited"]


def test_declarations_agree_with_the_vendors_headers():
    roots = [root for root in sorted(glob.glob("/usr/local/cuda*/include")) + ["/usr/include"]
             if os.path.exists(os.path.join(root, "cuda.h"))]
    if not roots:
        pytest.skip("no cuda.h here")
    for root in roots:
        subprocess.run(["gcc", "-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-I" + ROOT, "-isystem", root,
                        "-fsyntax-only", os.path.join(ROOT, "test", "timing", "declarations.c")], check=True)
