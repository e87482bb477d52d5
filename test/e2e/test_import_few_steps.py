# SPDX-License-Identifier: Apache-2.0
#
# Profiler traces of a few steps, as its schedule records them: within a step ranks do the same at different moments, and
# who is slow shows step by step. Jobs are played twice, with the fault and without; the truth is how long they take.
# Must not live here: long traces (test_import_late.py), how traces are read (test_import.py).
import json
import random

import pytest

import jobs

RANKS, LAUNCH = 4, 10  # a launch takes the host so many microseconds
WORLD = str(list(range(RANKS)))


class Job:
    """GPUs with streams, and hosts that launch into them. All times in microseconds."""

    def __init__(self, seed, slow=None, factor=1.0, late=0.0):
        self.random, self.slow, self.factor, self.late = random.Random(seed), slow, factor, late
        self.host, self.begin = [1e6] * RANKS, [1e6] * RANKS
        self.free = [{} for _ in range(RANKS)]  # per rank and stream: since when
        self.events = [[] for _ in range(RANKS)]

    def ready(self, rank, stream, *after):
        """When something that is launched now begins, after those times."""
        self.host[rank] += LAUNCH
        return max(self.host[rank] + 5, self.free[rank].get(stream, 0), *after)

    def ran(self, rank, stream, name, start, end, **arguments):
        number = len(self.events[rank]) + 1
        self.events[rank] += [
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1000 + rank, "tid": 1,
             "ts": self.host[rank] - LAUNCH, "dur": LAUNCH - 2, "args": {"correlation": number}},
            {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": start, "dur": end - start,
             "args": {"device": 0, "stream": stream, "correlation": number, **arguments}}]
        self.free[rank][stream] = end
        return end

    def compute(self, rank, length, *after):
        length *= self.random.uniform(0.98, 1.02) * (self.factor if rank == self.slow else 1)
        start = self.ready(rank, 7, *after)
        return self.ran(rank, 7, "ampere_sgemm_128x64_nn", start, start + length)

    def meet(self, stream, name, length, after, group="0"):
        """A collective of all; `after`: per rank."""
        starts = [self.ready(rank, stream, after[rank]) for rank in range(RANKS)]
        told = {"Collective name": name, "In msg nelems": 1 << 20, "Out msg nelems": 1 << 20, "Group size": RANKS, "dtype": "Float",
                "Process Group Name": group, "Process Group Description": f"group{group}", "Process Group Ranks": WORLD}
        for rank in range(RANKS):
            self.ran(rank, stream, "ncclDevKernel_Generic(args)", starts[rank], max(starts) + length, **told)
        return max(starts) + length

    def message(self, sender, receiver, after):
        starts = self.ready(sender, 20, after), self.ready(receiver, 20)
        end = max(starts) + 30
        for rank, start, told in ((sender, starts[0], {"Collective name": "send", "Dst Rank": receiver}),
                                  (receiver, starts[1], {"Collective name": "recv", "Src Rank": sender})):
            self.ran(rank, 20, "ncclDevKernel_SendRecv(args)", start, end, **told, **{
                "In msg nelems": 1 << 16, "Out msg nelems": 1 << 16, "Group size": RANKS, "dtype": "Float",
                "Process Group Name": "1", "Process Group Description": "pipeline", "Process Group Ranks": WORLD})
        return end

    def start_step(self):
        self.begin = list(self.host)
        for rank in range(RANKS):
            self.host[rank] += 200 * self.random.uniform(0.95, 1.05) + (self.late if rank == self.slow else 0)

    def end_step(self, number, wait, marked=True):
        for rank in range(RANKS):
            if wait:  # as loss.item() does; else the host runs ahead
                self.host[rank] = max(self.host[rank], *self.free[rank].values()) + 20
            name = f"ProfilerStep#{number}" if marked else "my step"
            self.events[rank].append({"ph": "X", "cat": "user_annotation", "name": name, "pid": 1000 + rank, "tid": 1,
                                      "ts": self.begin[rank], "dur": self.host[rank] - self.begin[rank] - 1, "args": {}})

    def write(self, folder):
        folder.mkdir()
        for rank in range(RANKS):
            (folder / f"rank-{rank}.json").write_text(json.dumps({
                "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": RANKS}, "traceEvents": self.events[rank],
                "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}], "baseTimeNanoseconds": 1700000000000000000}))

    def length(self):
        return max(max(streams.values()) for streams in self.free) - 1e6


def sharded(steps, wait, **fault):
    """Parameters of the next layers are gathered ahead, gradients are scattered behind: a rank that is fast has its step's
    kernels done long before its reductions end."""
    job = Job(**fault)
    for step in range(steps):
        job.start_step()
        gathered = [job.meet(20, "allgather", 60, [0] * RANKS) for _ in range(8)]
        for layer in range(8):
            done = [job.compute(rank, 1500, gathered[layer]) for rank in range(RANKS)]
            reduced = job.meet(21, "reduce_scatter", 200, done, "1")
        for rank in range(RANKS):
            job.compute(rank, 300, reduced)
        job.end_step(step, wait)
    return job


def pipeline(steps, wait, marked=True, **fault):
    """A stage on each rank; all forward, then all backward, then they meet."""
    job = Job(**fault)
    for step in range(steps):
        job.start_step()
        for _ in range(4):
            at = 0
            for stage in range(RANKS):
                at = job.message(stage - 1, stage, at) if stage else 0
                at = job.compute(stage, 2000, at)
        for _ in range(4):
            at = 0
            for stage in reversed(range(RANKS)):
                at = job.message(stage + 1, stage, at) if stage < RANKS - 1 else 0
                at = job.compute(stage, 4000, at)
        job.meet(22, "allreduce", 100, [job.free[rank][7] for rank in range(RANKS)])
        job.end_step(step, wait, marked)
    return job


def looked_at(folder, job):
    job.write(folder / "traces")
    jobs.commtap("import", folder / "traces", "-o", folder / "dumps")
    return jobs.document("stragglers", folder / "dumps"), " ".join(jobs.commtap("report", folder / "dumps").stdout.split())


@pytest.mark.parametrize("play, slow, wait, fault", [
    (sharded, 2, True, {"factor": 1.5}), (sharded, 0, False, {"factor": 1.3}),
    (pipeline, 0, True, {"factor": 1.4}), (pipeline, 1, False, {"factor": 1.4}), (pipeline, 2, True, {"factor": 1.25}),
    (pipeline, 3, False, {"factor": 1.4}), (pipeline, 0, True, {"late": 9000}), (pipeline, 2, True, {"late": 25000})])
def test_who_is_slow_in_each_of_a_few_steps(play, slow, wait, fault, tmp_path):
    steps = 5
    late = play(steps, wait, seed=1, slow=slow, **fault)
    lost = late.length() - play(steps, wait, seed=1).length()
    if "late" in fault:  # what is before a rank's first record is not known
        lost *= (steps - 1) / steps
    truth = late.length() / (late.length() - lost)
    assert truth > 1.05
    found, said = looked_at(tmp_path, late)
    assert [(one["kind"], one["rank"]) for one in found["stragglers"]] == [("rank", slow)]
    assert found["stragglers"][0]["what_if_speedup"] == pytest.approx(truth, rel=0.05)
    assert f"rank {slow} makes the others wait: own work in a step takes" in said
    assert "in the median step" in said and "slowest in 5 of 5 steps" in said


@pytest.mark.parametrize("play", [sharded, pipeline])
@pytest.mark.parametrize("wait", [True, False])
def test_nobody_is_slow_in_a_few_steps(play, wait, tmp_path):
    for seed in range(6):
        (tmp_path / str(seed)).mkdir()
        found, said = looked_at(tmp_path / str(seed), play(4, wait, seed=seed))
        assert found["stragglers"] == [] and found["suspects"] == [], seed
        assert "nobody makes the others wait beyond chance" in said
    if play is pipeline:
        assert "(4 steps compared)" in said


@pytest.mark.parametrize("slow", range(RANKS))
def test_where_no_step_is_marked_all_meet(slow, tmp_path):
    """The gradients' norm is summed up over all stages once in a step: what is before the first and behind the last is none."""
    late = pipeline(6, slow % 2 == 0, marked=False, seed=1, slow=slow, factor=1.4)
    truth = late.length() / pipeline(6, slow % 2 == 0, seed=1).length()
    found, said = looked_at(tmp_path, late)
    assert [(one["kind"], one["rank"]) for one in found["stragglers"]] == [("rank", slow)]
    assert found["stragglers"][0]["what_if_speedup"] == pytest.approx(truth, rel=0.05)
    assert "own work from one collective of all to the next takes" in said and "slowest in 5 of 5 parts" in said


def test_nobody_is_slow_where_all_meet(tmp_path):
    for seed in range(6):
        (tmp_path / str(seed)).mkdir()
        found, said = looked_at(tmp_path / str(seed), pipeline(5, seed % 2 == 0, marked=False, seed=seed))
        assert found["stragglers"] == [] and found["suspects"] == [], seed
        assert "(4 steps compared)" in said


def test_who_is_late_in_one_step_alone_is_not_slow(tmp_path):
    job = Job(seed=3, slow=1)
    for step in range(5):
        job.late = 8000 if step == 2 else 0
        job.start_step()
        done = [job.compute(rank, 3000) for rank in range(RANKS)]
        job.meet(20, "allreduce", 100, done)
        job.end_step(step, True)
    assert looked_at(tmp_path, job)[0]["stragglers"] == []


@pytest.mark.parametrize("steps, judged", [(2, False), (3, True)])
def test_two_steps_are_too_few(steps, judged, tmp_path):
    found, said = looked_at(tmp_path, sharded(steps, True, seed=5, slow=1, factor=1.6))
    assert ([one["rank"] for one in found["stragglers"]] == [1]) == judged
    assert ("too short to judge" in said) != judged
