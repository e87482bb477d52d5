# SPDX-License-Identifier: Apache-2.0
#
# Jobs of four NCCL ranks on the stand-in in which one thing goes wrong, and what commtap makes of it: a late rank, a
# slow link, a hang of each kind and a broken communicator are different faults and must be told apart. And jobs in
# which nothing goes wrong: graphs, bandwidths, DeepSpeed's figures. In every one the results must be those of a run
# without commtap, and the library must never have made a call that waits for a device.
# Must not live here: which calls are counted (test_nccl_calls.py), single devices' clocks (test_gpu_timing.py).
import collections
import re
import signal
import statistics
import subprocess

import pytest

import jobs

pytestmark = pytest.mark.alone

RANKS = 4
LATE, MS = 2, 15
STANDIN = jobs.BUILD / "standin"
ROUNDS = jobs.PROGRAMS / "nccl" / "rounds"
GRID = jobs.PROGRAMS / "nccl" / "grid"
NEVER_CALLED = {"synchronize", "free", "create-context", "destroy-busy"}


class Job:
    """The ranks of one scene, or of a grid, started; `where` is the directory of their dumps."""

    def __init__(self, folder, scene, *arguments, faults="", preload=True, **environment):
        self.where, self.calls = folder / "dumps", folder / "calls"
        ids = folder / "ids"
        ids.mkdir(parents=True)
        self.ranks = [subprocess.Popen(
            [GRID, str(rank), ids, *map(str, arguments)] if scene == "grid" else
            [ROUNDS, scene, str(rank), str(RANKS), ids, *map(str, arguments)], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env={
                **jobs.clean_environment(), "LD_LIBRARY_PATH": str(STANDIN), "RANK": str(rank), "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(RANKS), "STANDIN_NCCL_FAULTS": faults, "STANDIN_REPORT": str(self.calls),
                **({"LD_PRELOAD": str(jobs.SHIM), "COMMTAP_DIR": str(self.where)} if preload else {}), **environment})
                      for rank in range(RANKS)]

    def until(self, word, ranks=range(RANKS)):
        """Reads until these ranks have said it."""
        for rank in ranks:
            for line in self.ranks[rank].stdout:
                if line.split()[0] == word:
                    break

    def end(self, status=0):
        """What each rank said, when all have ended as they should."""
        try:
            said = [process.communicate(timeout=60) for process in self.ranks]
        finally:
            self.kill()
        assert [(process.returncode, err) for process, (_, err) in zip(self.ranks, said)] == [(status, "")] * RANKS
        if self.calls.exists():
            for line in self.calls.read_text().splitlines():
                _, what, library, number = line.split("\t")
                assert not ("libcommtap" in library and what in NEVER_CALLED and int(number)), line
        return [out for out, _ in said]

    def kill(self):
        for process in self.ranks:
            process.kill()
        for process in self.ranks:
            process.wait()


@pytest.fixture
def start(tmp_path):
    """Starts a scene; ranks that still run at the end of the test are killed."""
    started = []

    def begin(scene, *arguments, name="with", **how):
        started.append(Job(tmp_path / name, scene, *arguments, **how))
        return started[-1]
    yield begin
    for job in started:
        job.kill()


@pytest.fixture
def play(start):
    return lambda *words, **how: (lambda job: (job.end(), job.where)[1])(start(*words, **how))


def findings(result):
    return {finding["code"]: finding["text"] for finding in result["findings"]}


def diagnose(where):
    return jobs.document("diagnose", where)


def gpu_times(where, rank, op, size):
    """Durations in ns of one rank's launches."""
    return [record["duration_ns"] for record in jobs.records(where) if record["kind"] == "gpu" and
            (record["rank"], record["op"], record["bytes"]) == (rank, op, size)]


# ---- who is slow -----------------------------------------------------------------------------------------------------


def waits_of(result):
    """Seconds that all ranks spend in communication, of these waiting, and of these waiting for the late rank, who itself
    may wait for less than the clocks can tell."""
    return (sum(row["comm_seconds"] for row in result["ranks"]), sum(row["wait_seconds"] or 0 for row in result["ranks"]),
            next(row["waited_for_seconds"] for row in result["ranks"] if row["rank"] == LATE))


def nobody_to_blame(result):
    """A busy machine may really slow a rank down a little: mending that one would not help."""
    return all(straggler["what_if_speedup"] < 1.1 for straggler in jobs.stragglers(result))


@pytest.mark.parametrize("fault, scene, explained", [
    ("stream-delay", "ahead", "other GPU work keeps them waiting"),
    ("host-delay", "steady", "enqueues its collectives late"),
])
def test_a_late_rank_is_named_with_where_it_is_late(play, fault, scene, explained):
    where = play(scene, 60, faults=f"{fault} rank={LATE} op=10 ms={MS}")
    result = jobs.report(where)
    assert [(s["kind"], s["rank"]) for s in jobs.stragglers(result)] == [("rank", LATE)]
    assert explained in findings(result)["straggler"]
    straggler = jobs.stragglers(result)[0]
    assert straggler["confidence"] >= 0.9 and straggler["what_if_speedup"] > 1.5
    communicating, waiting, for_it = waits_of(result)
    assert for_it > 0.8 * waiting
    # three ranks wait in each of fifty rounds; on a busy machine they are late themselves for a part of it
    assert for_it > 0.4 * 3 * 50 * MS / 1000
    assert explained in " ".join(jobs.commtap("stragglers", where).stdout.split())


@pytest.mark.parametrize("mode, where_late", [("events", "work on its GPU"), ("kernel", "its host or its GPU")])
def test_a_rank_late_in_a_captured_step_is_named(start, mode, where_late):
    """What graphs replay is matched between ranks as calls are. By the program's own clock rank 2 is late by seven
    eighths of late_us, since the others take 1 ms for what takes it 8; a busy machine has part of that back."""
    job = start("captured", 60, COMMTAP_GPU_TIMING=mode)
    said = [dict(line.split() for line in out.splitlines()) for out in job.end()]
    result = jobs.report(job.where)
    assert result["coverage"]["matched_share"] > 0.9
    straggler, = jobs.stragglers(result)
    assert (straggler["kind"], straggler["rank"]) == ("rank", LATE)
    wall, late = result["job"]["wall_seconds"], int(said[LATE]["late_us"]) * 1e-6
    assert straggler["what_if_speedup"] == pytest.approx(wall / (wall - late * 7 / 8), rel=0.3)
    text = " ".join(jobs.commtap("report", job.where).stdout.split())
    assert "rank 2 is late by" in text and where_late in text and "data loading" not in text


def test_captured_messages_are_matched_at_each_replay(start):
    """A graph that passes values on in a group, and reduces nothing: rank 2's partners wait for it at every replay, the one
    that sends to it, too."""
    replays = 60
    job = start("passed-on", replays)
    late = int(dict(line.split() for line in job.end()[LATE].splitlines())["late_us"]) * 1e-6
    result = jobs.report(job.where)
    coverage, lost = result["coverage"], result["losses"]["replays_untimed"]
    assert RANKS * replays - 2 * lost <= coverage["messages_matched"] <= RANKS * replays - lost / 2
    straggler, = jobs.stragglers(result)
    assert (straggler["kind"], straggler["rank"]) == ("rank", LATE)
    costs = {row["rank"]: row["caused_seconds"] for row in result["ranks"]}
    assert max(costs, key=costs.get) == LATE and costs[LATE] > 0.8 * sum(costs.values())
    assert costs[LATE] > 0.8 * late * 7 / 8  # at least one of the others waits


def test_calls_that_limit_the_device_are_pointed_out(play):
    """Everybody's calls take long: the launches begin inside them, and nobody is late."""
    result = jobs.report(play("steady", 30, faults="host-delay ms=4"))
    assert "began before their call had returned" in findings(result)["host_bound"]
    assert nobody_to_blame(result)


def test_a_slow_link_is_no_late_rank(play):
    """All are there and the data take their time: no rank is blamed, and most of the time is no waiting."""
    where = play("steady", 40, faults="link from=0 to=1 rate=4e6 ms=2")
    result = jobs.report(where)
    communicating, waiting, _ = waits_of(result)
    assert nobody_to_blame(result)
    assert waiting < 0.5 * communicating


def test_a_slow_operation_is_no_late_rank(play):
    where = play("steady", 40, faults=f"inside-delay rank={LATE} op=10 ms={MS}")
    result = jobs.report(where)
    communicating, waiting, _ = waits_of(result)
    assert nobody_to_blame(result)
    assert waiting < 0.3 * communicating
    for rank in range(RANKS):  # every member's interval holds it
        times = gpu_times(where, rank, "ncclAllReduce", 65536)
        assert len(times) == 40 and statistics.median(times[10:]) >= (MS - 1) * 1e6


@pytest.mark.parametrize("stages, tensor, host", [(2, 2, 0), (2, 2, 1), (4, 1, 0), (4, 1, 1)])
def test_a_late_rank_of_a_pipeline_is_named(play, stages, tensor, host):
    """Stages that send to each other, with reductions among neighbours or with no collective at all."""
    steps, batches = 20, 4
    where = play("grid", "--data", 1, "--stages", stages, "--tensor", tensor, "--steps", steps, "--batches", batches,
                 "--work-us", 3000, "--one-by-one", 1, "--streams", 2, "--late-rank", LATE, "--late-us", 3000 + 9000 * host,
                 "--late-host", host)
    result = jobs.report(where)
    assert (LATE, True) in [(s["rank"], s["what_if_speedup"] > 1.2) for s in jobs.stragglers(result)]
    # of activations to the next stage and gradients to the one before, none is left unmatched
    messages = 2 * (stages - 1) * tensor * steps * batches
    assert (result["coverage"]["messages_matched"], result["coverage"]["message_halves_alone"]) == (messages, 0)
    costs = {row["rank"]: row["caused_seconds"] for row in result["ranks"]}
    assert max(costs, key=costs.get) == LATE


# ---- who hangs -------------------------------------------------------------------------------------------------------


def both(job, waiting=range(RANKS)):
    """What is said while the job hangs; when it was killed the same must be said."""
    job.until("waiting", waiting)
    alive = diagnose(job.where)
    job.kill()
    dead = diagnose(job.where)
    assert alive["looks"] == 2
    assert (dead["verdict"], dead["collectives"]) == (alive["verdict"], alive["collectives"])
    # a report of the killed job is whole and says so first; who was in its own code then might have come back
    result = jobs.report(job.where)
    away = alive["verdict"] == "hang" and any(row["state"] == "in_user_code" for row in alive["culprits"])
    assert result["findings"][0]["code"] == ("maybe_hang" if away else alive["verdict"])
    assert result["job"]["ranks_seen"] == RANKS
    return alive


def test_operations_that_nobody_misses_do_not_move(start):
    result = both(start("steady", 20, faults=f"drop rank={LATE} op=10"))
    assert result["verdict"] == "hang"
    collective, = result["collectives"]
    assert (collective["op"], collective["seq"], collective["missing"]) == ("ncclAllReduce", 10, [])
    assert collective["entered"] == list(range(RANKS))


def test_a_rank_that_is_elsewhere(start):
    result = both(start("absent", 20), [0, 1, 3])
    assert result["verdict"] == "hang"
    collective, = result["collectives"]
    assert (collective["op"], collective["seq"], collective["missing"]) == ("ncclAllReduce", 20, [LATE])
    assert [(c["rank"], c["state"]) for c in result["culprits"]] == [(LATE, "in_user_code")]


@pytest.mark.parametrize("scene, said", [("function", "ncclAllGather"), ("count", "32768 bytes")])
def test_ranks_that_disagree(start, scene, said):
    result = both(start(scene, 20))
    assert result["verdict"] == "desync"
    assert [(c["rank"], c["state"]) for c in result["culprits"]] == [(LATE, "mismatch")]
    assert said in " ".join(result["text"])


def test_a_rank_that_died(start):
    job = start("dies", 20)
    job.until("waiting", [0, 1, 3])
    result = diagnose(job.where)
    assert result["verdict"] == "dead_rank"
    assert [(c["rank"], c["state"]) for c in result["culprits"]] == [(LATE, "dead")]
    job.kill()
    collective, = diagnose(job.where)["collectives"]  # its own last one had ended, though it could not note that
    assert (collective["seq"], collective["missing"]) == (20, [LATE])


# ---- what broke ------------------------------------------------------------------------------------------------------


def test_a_communicator_that_is_given_up(play):
    where = play("absent", 10, 800)
    result = jobs.report(where)
    assert "collective #10, which rank 2 never called, did not end" in findings(result)["given_up"]
    assert "ranks 0, 1, 3 gave up" in findings(result)["given_up"]
    assert "nccl_error" not in findings(result)
    posted = [record["seq"] for record in jobs.records(where) if record["kind"] == "post" and record["rank"] == 0]
    timed = [record["seq"] for record in jobs.records(where) if record["kind"] == "gpu" and record["rank"] == 0]
    assert posted == list(range(11))
    assert timed == list(range(10))  # what was aborted has no time


def test_an_asynchronous_error(play):
    """Only one rank is told; the others lose patience."""
    where = play("steady", 20, 800, faults=f"error rank={LATE} op=10 code=6")
    result = jobs.report(where)
    assert "on rank 2:" in findings(result)["nccl_error"]
    assert "ranks 0-3 gave up" in findings(result)["given_up"]
    told = [(record["rank"], record["result"]) for record in jobs.records(where)
            if record["op"] == "ncclCommGetAsyncError"]
    assert told == [(LATE, 6)]


def test_an_end_without_faults_has_no_findings_of_faults(play):
    found = findings(jobs.report(play("steady", 20)))
    assert not {"given_up", "nccl_error", "hang", "desync", "dead_rank", "straggler"} & set(found)


def test_killed_with_work_in_flight(start):
    job = start("killed", 20)
    job.end(status=-signal.SIGKILL)
    result = jobs.report(job.where)
    assert result["job"]["ranks_seen"] == RANKS
    assert "killed" in findings(result)
    assert jobs.commtap("check", job.where, codes=(0,)).returncode == 0
    posted = collections.Counter(record["rank"] for record in jobs.records(job.where) if record["kind"] == "post")
    assert posted == {rank: 30 for rank in range(RANKS)}
    rows = jobs.records(job.where, "--table", "communicators")
    # how far it was: thirty enqueued, not all of them done
    assert {row["enqueued"] for row in rows} == {30}
    assert all(10 <= row["completed"] < 30 for row in rows)


# ---- the job does not notice -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scene, rounds", [("steady", 10), ("ahead", 10), ("halves", 5), ("replays", 50)])
def test_results_are_bitwise_the_same(start, scene, rounds):
    results = [start(scene, rounds, name=name, preload=preload, **knobs).end() for name, preload, knobs in (
        ("without", False, {}), ("with", True, {}), ("host", True, {"COMMTAP_GPU_TIMING": "host"}))]
    assert results[0] == results[1] == results[2]
    assert all(out.startswith("digest ") for out in results[0])


def test_a_thousand_replays(play):
    where = play("replays", 1000)
    result = jobs.report(where)
    timed = collections.Counter((record["rank"], record["bytes"]) for record in jobs.records(where)
                                if record["kind"] == "gpu")
    counted = jobs.commtap("report", where).stdout
    assert set(timed) == {(rank, size) for rank in range(RANKS) for size in (256, 128)}
    # the rest is said to be untimed
    missing = 2 * 1000 * RANKS - sum(timed.values())
    assert 0 <= missing < 0.1 * 2 * 1000 * RANKS
    lost = sum(map(int, re.findall(r"(\d+) GPU operations? of graph replays w", counted)))
    assert lost == missing
    for size in (256, 128):
        host, = [row for row in result["summary"] if (row["bytes"], row["source"], row["op"]) == (
            size, "host", "ncclAllReduce")]
        assert host["count"] == RANKS  # captured once


def test_overlap_that_events_would_break_is_left_alone(play):
    """With one connection no events are put between kernels: the plugin times them, or nothing does and it is said why."""
    where = play("steady", 20, CUDA_DEVICE_MAX_CONNECTIONS="1")
    assert {row["source"] for row in jobs.summary(where)["summary"] if row["op"] == "ncclAllReduce"} == {
        "host", "in-kernel"}
    where = play("steady", 20, name="none", CUDA_DEVICE_MAX_CONNECTIONS="1", NCCL_PROFILER_PLUGIN="none")
    result = jobs.report(where)
    assert {row["source"] for row in result["summary"]} == {"host"}
    assert "CUDA_DEVICE_MAX_CONNECTIONS" in findings(result)["gpu_untimed"]
    assert "on 4 of 4 ranks" in findings(result)["gpu_untimed"]


# ---- figures ---------------------------------------------------------------------------------------------------------

# (function, bytes of one call as count * size [* n], bus bandwidth over algorithm's, calls per half and round), n = 2
FIGURES = [
    ("ncclAllReduce", 100 * 4, 2 * 1 / 2, 2), ("ncclAllGather", 200 * 4 * 2, 1 / 2, 2),
    ("ncclReduceScatter", 300 * 4 * 2, 1 / 2, 2), ("ncclBroadcast", 400 * 8, 1, 2), ("ncclReduce", 500 * 4, 1, 2),
    ("ncclAlltoAll", 600 * 4 * 2, 1 / 2, 2), ("ncclGather", 700 * 2, 1 / 2, 2), ("ncclScatter", 800 * 2, 1 / 2, 2),
    ("ncclSend", 900 * 4, 1, 1), ("ncclRecv", 900 * 4, 1, 1),
]


@pytest.fixture(scope="module")
def halves(tmp_path_factory):
    job = Job(tmp_path_factory.mktemp("halves"), "halves", 10)
    job.end()
    return job.where


@pytest.mark.parametrize("op, size, factor, calls", FIGURES)
def test_bandwidths_by_the_communicators_own_size(halves, op, size, factor, calls):
    rows = [row for row in jobs.summary(halves)["summary"] if row["op"] == op and row["source"] == "gpu-event"]
    assert len(rows) == 2 and len({row["comm"] for row in rows}) == 2  # the halves
    for row in rows:
        assert (row["comm_size"], row["bytes"], row["count"]) == (2, size, 10 * calls)
        assert row["bytes_total"] == row["count"] * size
        algorithm = 8 * row["bytes_total"] / (row["time_total_us"] * 1000)
        assert row["algbw_gbps"] == pytest.approx(algorithm, rel=1e-6)
        assert row["busbw_gbps"] == pytest.approx(algorithm * factor, rel=1e-6)
        assert row["algbw_gb_per_s"] == pytest.approx(algorithm / 8, rel=1e-6)


# (torch's name, function, bytes of a record, size of the tensor argument, tput in tensor sizes, busbw in tensor sizes),
# as DeepSpeed's logger reckons them for a world of 4, whatever the communicator
DEEPSPEED = [
    ("all_reduce", "ncclAllReduce", 400, 400, 2, 2 * 3 / 4),
    ("all_gather_into_tensor", "ncclAllGather", 1600, 800, 4, 4 * 3 / 4),
    ("reduce_scatter_tensor", "ncclReduceScatter", 2400, 2400, 4, 4 * 3 / 4),
    ("all_to_all_single", "ncclAlltoAll", 4800, 4800, 1, 3 / 4),
    ("broadcast", "ncclBroadcast", 3200, 3200, 1, 1),
    ("send", "ncclSend", 3600, 3600, 1, 1),
]


@pytest.mark.parametrize("name, op, size, tensor, tput, busbw", DEEPSPEED)
def test_deepspeeds_figures(halves, name, op, size, tensor, tput, busbw):
    log = jobs.document("summary", "--compat", "deepspeed", halves)["summary"]
    row = log[name][str(tensor)]
    times = sorted(gpu_times(halves, 0, op, size))
    assert row["count"] == len(times) == 10
    assert row["total_latency_ms"] == pytest.approx(sum(times) / 1e6, rel=1e-6)
    trimmed = statistics.mean(8 * tensor / t for t in times[1:-1])  # a tenth off either end
    assert row["tput_avg_gbps"] == pytest.approx(tput * trimmed, rel=1e-6)
    assert row["busbw_avg_gbps"] == pytest.approx(busbw * trimmed, rel=1e-6)
