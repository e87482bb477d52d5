# SPDX-License-Identifier: Apache-2.0
#
# Profiler traces of jobs in which one rank is late, its host or its GPU: who, why, and what it costs, against the times
# that the traces were made from.
# Must not live here: how traces are read (test_import.py), several of one rank (test_import_cycles.py).
import functools
import json
import random

import pytest

import jobs

RANKS, STEPS, LATE = 4, 40, 2
# microseconds: the host's way to a step's first launch, the kernel before the reduction, the reduction
PREPARE, WORK, REDUCE = 500, 2500, 800

ALL_REDUCE = {"Collective name": "allreduce", "In msg nelems": 1000000, "Out msg nelems": 1000000, "Group size": RANKS, "dtype": "Float",
              "Process Group Name": "0", "Process Group Description": "default_pg", "Process Group Ranks": str(list(range(RANKS)))}


def written(path, rank, events):
    path.write_text(json.dumps({
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": RANKS}, "traceEvents": events,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}], "baseTimeNanoseconds": 1700000000000000000}))


def launched(events, rank, at, name, start, length, stream, **arguments):
    """A call of the host and the kernel that it launches."""
    number = len(events) + 1
    events += [{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1000 + rank, "tid": 1, "ts": at, "dur": 8,
                "args": {"correlation": number}},
               {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": start, "dur": length,
                "args": {"device": 0, "stream": stream, "correlation": number, **arguments}}]


def written_all(folder, events, end, hosts=None):
    """`hosts`: the names of theirs, rank by rank, as PyTorch puts them in front of its files' names."""
    if folder:
        folder.mkdir()
        for rank in range(RANKS):
            written(folder / (f"{hosts[rank]}_{4000 + rank}.1735701633948.pt.trace.json" if hosts else f"rank-{rank}.json"), rank, events[rank])
    return end - 1e6


def job(folder, host_late=0, gpu_late=0, gaps=(5,)):
    """Writes the traces; how long all of it takes. Each step the host waits for its GPU, as loss.item() does.
    `gaps`: from the end of a kernel to the beginning of the collective that needs it, one of these."""
    random.seed(7)
    events, begins = [[] for _ in range(RANKS)], [1e6] * RANKS
    free = list(begins)  # since when each GPU has nothing to do
    for step in range(STEPS):
        calls = [begins[rank] + PREPARE * random.uniform(0.99, 1.01) + (host_late if rank == LATE else 0) for rank in range(RANKS)]
        starts = [max(calls[rank] + 10, free[rank]) for rank in range(RANKS)]
        lengths = [WORK * random.uniform(0.99, 1.01) + (gpu_late if rank == LATE else 0) for rank in range(RANKS)]
        ready = [starts[rank] + lengths[rank] + random.choice(gaps) for rank in range(RANKS)]
        end = max(ready) + REDUCE
        for rank in range(RANKS):
            launched(events[rank], rank, calls[rank], "ampere_sgemm_128x64_nn", starts[rank], lengths[rank], 7)
            launched(events[rank], rank, calls[rank] + 30, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", ready[rank], end - ready[rank], 20,
                     **ALL_REDUCE)
            events[rank].append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1000 + rank, "tid": 1,
                                 "ts": begins[rank], "dur": end + 19 - begins[rank], "args": {}})
            begins[rank], free[rank] = end + 20, end
    return written_all(folder, events, max(free))


@pytest.mark.parametrize("late, where", [({"host_late": 3000}, "host"), ({"host_late": 1500}, "host"), ({"host_late": 300}, "host"),
                                         ({"gpu_late": 1500}, "GPU"), ({"gpu_late": 400}, "GPU")])
def test_who_is_late_and_what_that_costs(late, where, tmp_path):
    truth = job(tmp_path / "traces", **late) / job(None)
    jobs.commtap("import", tmp_path / "traces", "-o", tmp_path / "dumps")
    found = jobs.document("stragglers", tmp_path / "dumps")
    assert [(one["kind"], one["rank"]) for one in found["stragglers"]] == [("rank", LATE)]
    assert found["stragglers"][0]["what_if_speedup"] == pytest.approx(truth, rel=0.03)
    said = " ".join(jobs.commtap("report", tmp_path / "dumps").stdout.split())
    assert ("enqueues its collectives late" in said) == (where == "host")
    if "is late by" in said:
        assert "ms per step on average: its first operation" in said
        assert ("That is work on its GPU" in said) == (where == "GPU") != ("data loading, its host" in said)


def overlapping_job(folder, late=0, seed=7):
    """The reduction may begin halfway through a kernel that goes on beside it, and one host launches it `late`."""
    random.seed(seed)
    events, begin = [[] for _ in range(RANKS)], 1e6
    for step in range(STEPS):
        starts = [begin + 200 * random.uniform(0.9, 1.1) for _ in range(RANKS)]
        lengths = [4000 * random.uniform(0.97, 1.03) * (1.5 if random.random() < 0.01 else 1) for _ in range(RANKS)]
        launches = [begin + 150 * random.uniform(0.9, 1.1) + (late if rank == LATE else 0) for rank in range(RANKS)]
        ready = [max(launches[rank] + 10, starts[rank] + lengths[rank] / 2) for rank in range(RANKS)]
        reduced = max(ready) + 2500
        after = [max(reduced, starts[rank] + lengths[rank]) + 5 for rank in range(RANKS)]
        end = max(after) + 2000
        for rank in range(RANKS):
            launched(events[rank], rank, begin + 100, "ampere_sgemm_128x64_nn", starts[rank], lengths[rank], 7)
            launched(events[rank], rank, launches[rank], "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", ready[rank],
                     reduced - ready[rank], 20, **ALL_REDUCE)
            launched(events[rank], rank, launches[rank] + 30, "ampere_sgemm_32x32_nn", after[rank], 2000 * random.uniform(0.97, 1.0), 7)
            events[rank].append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1000 + rank, "tid": 1,
                                 "ts": begin, "dur": end - begin - 1, "args": {}})
        begin = end
    return written_all(folder, events, begin)


def test_who_launches_late_beside_a_kernel(tmp_path):
    """Its GPU computes as long as the others', less of it is hidden, and the others wait."""
    truth = overlapping_job(tmp_path / "traces", late=3500) / overlapping_job(None)
    jobs.commtap("import", tmp_path / "traces", "-o", tmp_path / "dumps")
    found = jobs.document("stragglers", tmp_path / "dumps")
    assert [(one["kind"], one["rank"]) for one in found["stragglers"]] == [("rank", LATE)]
    assert found["stragglers"][0]["what_if_speedup"] == pytest.approx(truth, rel=0.03)
    said = " ".join(jobs.commtap("report", tmp_path / "dumps").stdout.split())
    assert "own work outside of all communication between two collectives" in said and "enqueues its collectives late" in said


def test_nobody_is_late_beside_a_kernel(tmp_path):
    for seed in range(10):
        overlapping_job(tmp_path / f"traces{seed}", seed=seed)
        jobs.commtap("import", tmp_path / f"traces{seed}", "-o", tmp_path / f"dumps{seed}")
        assert jobs.document("stragglers", tmp_path / f"dumps{seed}")["stragglers"] == [], seed


# traces round to microseconds: what overlaps by 1.5 may not
@pytest.mark.parametrize("gaps, follows", [((0, -0.001), True), ((0, -0.75), True), ((0, -3), False)])
def test_a_collective_right_behind_a_kernel_needed_it(gaps, follows, tmp_path):
    truth = job(tmp_path / "traces", gpu_late=1500, gaps=gaps) / job(None, gaps=gaps)
    jobs.commtap("import", tmp_path / "traces", "-o", tmp_path / "dumps")
    found = jobs.document("stragglers", tmp_path / "dumps")["stragglers"]
    assert [one["rank"] for one in found] == [LATE]
    assert (found[0]["what_if_speedup"] == pytest.approx(truth, rel=0.03)) == follows


def backward_job(folder, slow=lambda rank, step: 1, first=None, hosts=None):
    """Kernels one right after the other, a reduction beside them after every second one, and one that needs them all.
    `first`: PyTorch's number of the first reduction, where it tells numbers."""
    random.seed(7)
    events, begin = [[] for _ in range(RANKS)], 1e6
    for step in range(STEPS):
        at, reduced = [begin + 100] * RANKS, begin
        for part in range(3):
            for kernel in range(2):
                for rank in range(RANKS):
                    length = 1200 * random.uniform(0.99, 1.01) * slow(rank, step)
                    launched(events[rank], rank, begin + 20 * (3 * part + kernel), "ampere_sgemm_128x64_nn", at[rank], length, 7)
                    at[rank] += length
            ready = [max(moment, reduced) for moment in at]
            reduced = max(ready) + 400
            for rank in range(RANKS):
                launched(events[rank], rank, begin + 20 * (3 * part + 2), "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", ready[rank],
                         reduced - ready[rank], 20, **ALL_REDUCE, **({} if first is None else {"Seq": first + 3 * step + part}))
        ends = [max(moment, reduced) + 300 for moment in at]
        for rank in range(RANKS):
            launched(events[rank], rank, begin + 200, "adam", ends[rank] - 300, 300, 7)
            events[rank].append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1000 + rank, "tid": 1,
                                 "ts": begin, "dur": max(ends) - begin, "args": {}})
        begin = max(ends) + 1
    return written_all(folder, events, begin, hosts)


def small_kernels_job(folder, each=12, steps=100):
    """Twenty kernels of 40 us a step, a reduction beside them after every second one; the late host launches one in `each` us."""
    random.seed(7)
    events, begins = [[] for _ in range(RANKS)], [1e6] * RANKS
    for step in range(steps):
        calls, at, reduced = [begin + 100 for begin in begins], [begin + 100 for begin in begins], max(begins)
        for part in range(10):
            for kernel in range(2):
                for rank in range(RANKS):
                    calls[rank] += each if rank == LATE else 12
                    start, length = max(at[rank], calls[rank] + 5), 40 * random.uniform(0.99, 1.01)
                    launched(events[rank], rank, calls[rank], "ampere_sgemm_128x64_nn", start, length, 7)
                    at[rank] = start + length
            ready = [max(at[rank], calls[rank] + 20, reduced) for rank in range(RANKS)]
            reduced = max(ready) + 15
            for rank in range(RANKS):
                launched(events[rank], rank, calls[rank] + 10, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", ready[rank],
                         reduced - ready[rank], 20, **ALL_REDUCE)
        for rank in range(RANKS):
            end = max(at[rank], reduced) + 60
            launched(events[rank], rank, calls[rank] + 20, "adam", end - 60, 60, 7)
            events[rank].append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1000 + rank, "tid": 1,
                                 "ts": begins[rank], "dur": end - begins[rank], "args": {}})
            begins[rank] = end + 1
    return written_all(folder, events, max(begins))


def pipeline_job(folder, slow=1.0, late=0):
    """Four stages that hand four parts of a step on, and reduce at its end. Hosts enqueue a step ahead; rank LATE's GPU takes `slow`
    times as long, or its host begins each step `late`."""
    random.seed(7)
    events, begins = [[] for _ in range(RANKS)], [1e6] * RANKS
    for step in range(STEPS):
        host = [begins[rank] + 200 + (late if rank == LATE else 0) for rank in range(RANKS)]
        at = [host[rank] + 10 for rank in range(RANKS)]
        for part in range(4):
            for rank in range(RANKS):
                if rank > 0:
                    at[rank] = exchange(events, host, (rank - 1, rank), [at[rank - 1], at[rank]])
                    at[rank - 1] = at[rank]
                length = 2000 * random.uniform(0.99, 1.01) * (slow if rank == LATE else 1)
                launched(events[rank], rank, host[rank], "ampere_sgemm_128x64_nn", at[rank], length, 7)
                host[rank], at[rank] = host[rank] + 20, at[rank] + length
        end = max(at) + 50
        for rank in range(RANKS):
            launched(events[rank], rank, host[rank], "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", at[rank], end - at[rank], 20, **ALL_REDUCE)
            events[rank].append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1000 + rank, "tid": 1,
                                 "ts": begins[rank], "dur": end + 19 - begins[rank], "args": {}})
            begins[rank] = end + 20
    return written_all(folder, events, max(begins))


def exchange(events, host, ranks, starts):
    """A message from one of `ranks` to the other; when it is there."""
    end = max(starts) + 70
    for rank, other, name, key, start in zip(ranks, reversed(ranks), ("send", "recv"), ("Dst Rank", "Src Rank"), starts):
        launched(events[rank], rank, host[rank], "ncclDevKernel_SendRecv(args)", start, end - start, 40,
                 **{**ALL_REDUCE, "Collective name": name, key: other, "Process Group Name": "1", "Process Group Description": "pp"})
        host[rank] += 20
    return end


class RoundPipeline:
    """Four stages that six parts of a step go through twice: the last one sends to the first. Hosts enqueue a step ahead. A receive is
    enqueued behind the work before it, or `ahead` of it, on a stream of its own either way; a send goes on beside the work after it,
    which waits for it only where it `keeps` its stage. Rank LATE's GPU takes `slow` times as long. With two `stages` there are two
    such pipelines."""
    PARTS, ROUNDS, WORK, MESSAGE, LAUNCH = 6, 2, 2000, 70, 15

    def __init__(self, ahead, keeps, slow, stages=4):
        self.ahead, self.keeps, self.slow, self.stages = ahead, keeps, slow, stages
        self.random, self.events, self.begin = random.Random(7), [[] for _ in range(RANKS)], 1e6
        for self.step in range(STEPS):
            self.play()

    def play(self):
        steps = range(self.ROUNDS * self.PARTS)
        self.lengths = [[self.WORK * self.random.uniform(0.99, 1.01) * (self.slow if rank == LATE else 1) for _ in steps] for rank in range(RANKS)]
        self.worked, self.came = functools.cache(self._worked), functools.cache(self._came)
        ends = [self.worked(rank, steps[-1]) for rank in range(RANKS)]
        end = max(ends) + 50
        for rank in range(RANKS):
            self.tell(rank, steps, ends[rank], end)
        self.begin = end + 20

    def source(self, rank, number):
        """Whose work this one needs; None: nobody's."""
        return (rank - 1, number) if rank % self.stages else (rank + self.stages - 1, number - self.PARTS) if number >= self.PARTS else None

    def sink(self, rank, number):
        if (rank + 1) % self.stages:
            return rank + 1, number
        return (rank + 1 - self.stages, number + self.PARTS) if number < (self.ROUNDS - 1) * self.PARTS else None

    def before(self, rank, number):
        """The end of the work before this one."""
        return self.worked(rank, number - 1) if number else self.begin + 300

    def started(self, rank, number):
        sink = self.sink(rank, number - 1) if self.keeps and number else None
        return max(self.before(rank, number), self.came(rank, number) if self.source(rank, number) else 0, self.came(*sink) if sink else 0)

    def _worked(self, rank, number):
        return self.started(rank, number) + self.lengths[rank][number]

    def received(self, rank, number):
        """When the receive began."""
        last = number > 0 and self.source(rank, number - 1)
        return max(self.begin + 300 if self.ahead else self.before(rank, number), self.came(rank, number - 1) if last else 0)

    def sent(self, rank, number):
        last = self.sink(rank, number - 1) if number else None
        return max(self.worked(rank, number), self.came(*last) if last else 0)

    def _came(self, rank, number):
        return max(self.received(rank, number), self.sent(*self.source(rank, number))) + self.MESSAGE

    def tell(self, rank, steps, worked, end):
        host, first = self.begin, rank - rank % self.stages
        pipeline = {"Process Group Name": f"1{first}", "Process Group Description": "pp", "Group size": self.stages,
                    "Process Group Ranks": str(list(range(first, first + self.stages)))}
        for number in steps:
            for name, key, peer, start, there in (
                    ("recv", "Src Rank", self.source(rank, number), self.received, (rank, number)), (None,) * 5,
                    ("send", "Dst Rank", self.sink(rank, number), self.sent, self.sink(rank, number))):
                host += self.LAUNCH
                if not name:
                    launched(self.events[rank], rank, host, "ampere_sgemm_128x64_nn", self.started(rank, number), self.lengths[rank][number], 7)
                elif peer:
                    launched(self.events[rank], rank, host, "ncclDevKernel_SendRecv(args)", start(rank, number),
                             self.came(*there) - start(rank, number), 40 if name == "recv" else 41,
                             **{**ALL_REDUCE, "Collective name": name, key: peer[0], **pipeline})
        launched(self.events[rank], rank, host + self.LAUNCH, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", worked, end - worked, 20, **ALL_REDUCE)
        self.events[rank].append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{self.step}", "pid": 1000 + rank, "tid": 1,
                                  "ts": self.begin, "dur": end + 19 - self.begin, "args": {}})


@pytest.mark.parametrize("ahead, keeps", [(True, False), (False, False), (True, True)])
def test_what_a_slow_stage_costs_where_messages_go_on_beside_work(ahead, keeps, tmp_path):
    """Work does not wait for what was launched after it, nor for sends that others like it did not wait for."""
    slow = RoundPipeline(ahead, keeps, 1.4)
    written_all(tmp_path / "traces", slow.events, slow.begin)
    truth = (slow.begin - 1e6) / (RoundPipeline(ahead, keeps, 1).begin - 1e6)
    jobs.commtap("import", tmp_path / "traces", "-o", tmp_path / "dumps")
    found = jobs.document("stragglers", tmp_path / "dumps")["stragglers"]
    assert [one["rank"] for one in found] == [LATE]
    assert found[0]["what_if_speedup"] == pytest.approx(truth, rel=0.02)


@pytest.mark.parametrize("ahead", [True, False])
def test_stages_hide_more_or_less_of_the_same_work(ahead, tmp_path):
    """The last stage has fewer messages for its work to lie beside: it has no more work than the first."""
    job = RoundPipeline(ahead, False, 1, stages=2)
    written_all(tmp_path / "traces", job.events, job.begin)
    jobs.commtap("import", tmp_path / "traces", "-o", tmp_path / "dumps")
    codes = {one["code"] for one in jobs.document("report", tmp_path / "dumps")["findings"]}
    assert not codes & {"straggler", "suspect", "uneven", "hidden"}


def halves_job(folder, slow=1.0, layers=6, steps=14):
    """Work between whose pieces each half of the ranks meets, and a reduction of all beside each second piece, that only a step's end needs."""
    random.seed(7)
    events, begin = [[] for _ in range(RANKS)], 1e6
    for step in range(steps):
        at, host, reduced = [begin + 300] * RANKS, begin, begin

        def work(length):
            for rank in range(RANKS):
                own = length * random.uniform(0.98, 1.02) * (slow if rank == LATE else 1)
                launched(events[rank], rank, host, "ampere_sgemm_128x64_nn", at[rank], own, 7)
                at[rank] += own
        for layer in range(layers):
            work(3000)
            for half in ((0, 1), (2, 3)):
                over = max(at[rank] for rank in half) + 500
                for rank in half:
                    launched(events[rank], rank, host + 20, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", at[rank], over - at[rank], 30,
                             **{**ALL_REDUCE, "Group size": 2, "Process Group Name": f"half{half[0]}", "Process Group Ranks": str(list(half))})
                    at[rank] = over
            host += 40
            work(2000)
            reduced, begun = max(*at, reduced) + 2500, [max(moment, reduced) for moment in at]
            for rank in range(RANKS):
                launched(events[rank], rank, host + 20, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", begun[rank], reduced - begun[rank], 20, **ALL_REDUCE)
            host += 40
        end = max(*at, reduced)
        for rank in range(RANKS):
            events[rank].append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1000 + rank, "tid": 1,
                                 "ts": begin, "dur": end + 19 - begin, "args": {}})
        begin = end + 20
    return written_all(folder, events, begin)


def test_who_waits_with_a_slow_rank_is_not_slow(tmp_path):
    """Its work lies beside other reductions than that of the half that has no slow rank."""
    halves_job(tmp_path / "traces", 1.2)
    jobs.commtap("import", tmp_path / "traces", "-o", tmp_path / "dumps")
    found = jobs.document("report", tmp_path / "dumps")["findings"]
    named = [one["text"] for one in found if one["code"] in ("straggler", "suspect", "uneven", "hidden")]
    assert [text.startswith(f"rank {LATE} ") for text in named] == [True]


def ring_job(folder, slow=1.0, parts=6):
    """Work beside which each rank sends to the next one and receives from the one before; the work after it needs both to be over."""
    random.seed(7)
    events, begin = [[] for _ in range(RANKS)], 1e6
    for step in range(STEPS):
        ready = [begin + 300] * RANKS
        for part in range(parts):
            lengths = [1500 * random.uniform(0.99, 1.01) * (slow if rank == LATE else 1) for rank in range(RANKS)]
            came = [max(ready[rank], ready[rank - 1]) + 700 for rank in range(RANKS)]
            for rank in range(RANKS):
                after = (rank + 1) % RANKS
                for number, (name, key, peer, over, stream) in enumerate((("send", "Dst Rank", after, came[after], 41),
                                                                          ("recv", "Src Rank", (rank - 1) % RANKS, came[rank], 40))):
                    launched(events[rank], rank, begin + 60 * part + 20 * number, "ncclDevKernel_SendRecv(args)", ready[rank], over - ready[rank], stream,
                             **{**ALL_REDUCE, "Collective name": name, key: peer, "Process Group Name": "1", "Process Group Description": "cp"})
                launched(events[rank], rank, begin + 60 * part + 40, "flash_fwd_kernel", ready[rank], lengths[rank], 7)
            ready = [max(ready[rank] + lengths[rank], came[rank], came[(rank + 1) % RANKS]) for rank in range(RANKS)]
            for rank in range(RANKS):
                launched(events[rank], rank, begin + 60 * part + 55, "ampere_sgemm_128x64_nn", ready[rank], 300, 7)
                ready[rank] += 300
        end = max(ready) + 100
        for rank in range(RANKS):
            launched(events[rank], rank, begin + 60 * parts, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", ready[rank], end - ready[rank], 20, **ALL_REDUCE)
            events[rank].append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1000 + rank, "tid": 1,
                                 "ts": begin, "dur": end + 19 - begin, "args": {}})
        begin = end + 20
    return written_all(folder, events, begin)


def test_who_goes_on_behind_the_others_is_not_slow(tmp_path):
    """Ranks that began later find all messages there: none of their work lies beside waiting, and nobody waits for them."""
    random.seed(7)
    events, ready = [[] for _ in range(RANKS)], [1e6 + 900 * (rank % 2) for rank in range(RANKS)]
    for step in range(60):
        begins = list(ready)
        for part in range(3):
            came = [max(ready[rank], ready[rank - 1]) + 100 for rank in range(RANKS)]
            for rank in range(RANKS):
                after, host = (rank + 1) % RANKS, begins[rank] + 30 * part - 90
                for number, (name, key, peer, over, stream) in enumerate((("send", "Dst Rank", after, came[after], 41),
                                                                          ("recv", "Src Rank", (rank - 1) % RANKS, came[rank], 40))):
                    launched(events[rank], rank, host + 10 * number, "ncclDevKernel_SendRecv(args)", ready[rank], over - ready[rank], stream,
                             **{**ALL_REDUCE, "Collective name": name, key: peer, "Process Group Name": "1", "Process Group Description": "cp"})
                length = 1330 * random.uniform(0.995, 1.005)
                launched(events[rank], rank, host + 20, "flash_fwd_kernel", ready[rank], length, 7)
                begins.append(max(ready[rank] + length, came[rank], came[after]))
            ready = begins[-RANKS:]
        for half in ((0, 2), (1, 3)):
            over = max(ready[rank] for rank in half) + 50
            for rank in half:
                launched(events[rank], rank, begins[rank] + 10, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", ready[rank], over - ready[rank], 20,
                         **{**ALL_REDUCE, "Group size": 2, "Process Group Name": f"h{half[0]}", "Process Group Ranks": str(list(half))})
                ready[rank] = over
    written_all(tmp_path / "traces", events, max(ready))
    jobs.commtap("import", tmp_path / "traces", "-o", tmp_path / "dumps")
    codes = {one["code"] for one in jobs.document("report", tmp_path / "dumps")["findings"]}
    assert not codes & {"straggler", "suspect", "uneven", "hidden"}


def test_what_a_slow_rank_costs_where_work_waits_for_sends(tmp_path):
    """Each send goes on beside the work after it, and the next one needs it: it begins when the send is over."""
    truth = ring_job(tmp_path / "traces", 1.4) / ring_job(None)
    jobs.commtap("import", tmp_path / "traces", "-o", tmp_path / "dumps")
    found = jobs.document("stragglers", tmp_path / "dumps")["stragglers"]
    assert [one["rank"] for one in found] == [LATE]
    assert found[0]["what_if_speedup"] == pytest.approx(truth, rel=0.02)


@pytest.mark.parametrize("how, cause", [({}, None), ({"slow": 1.5}, "in time, but other GPU work"), ({"late": 6000}, "late: they find its GPU idle")])
def test_a_pipeline_and_who_is_late_in_it(how, cause, tmp_path):
    pipeline_job(tmp_path / "traces", **how)
    jobs.commtap("import", tmp_path / "traces", "-o", tmp_path / "dumps")
    found = jobs.document("report", tmp_path / "dumps")["findings"]
    named = [one["text"] for one in found if one["code"] == "straggler"]
    assert [text.startswith(f"rank {LATE} ") and cause in text for text in named] == [True] * bool(cause)
    late = [one["text"] for one in found if one["code"] == "step_interval"]
    assert [text.startswith(f"rank {LATE} ") for text in late] == [True] * ("late" in how)  # the first stage sends behind its work


@pytest.mark.parametrize("slow", [1.3, 2])
def test_what_a_slow_gpu_costs_beside_reductions(slow, tmp_path):
    truth = backward_job(tmp_path / "traces", lambda rank, step: slow if rank == LATE else 1) / backward_job(None)
    jobs.commtap("import", tmp_path / "traces", "-o", tmp_path / "dumps")
    result = jobs.document("stragglers", tmp_path / "dumps")
    assert [one["rank"] for one in result["stragglers"]] == [LATE]
    assert result["what_if"]["named_speedup"] == pytest.approx(truth, rel=0.02)
    assert 1.05 < result["what_if"]["slowdown"] <= truth


@pytest.mark.parametrize("first", [0, 1, 2])
def test_what_turns_cost_wherever_steps_begin(first, tmp_path):
    """In each step another rank is slow: parts of the run are steps, whatever number a step's first reduction has."""
    truth = backward_job(tmp_path / "traces", lambda rank, step: 1.4 if rank == step % RANKS else 1, first) / backward_job(None)
    jobs.commtap("import", tmp_path / "traces", "-o", tmp_path / "dumps")
    result = jobs.document("stragglers", tmp_path / "dumps")
    assert [one["kind"] for one in result["stragglers"]] == ["rotating"]
    assert result["stragglers"][0]["what_if_speedup"] == pytest.approx(truth, rel=0.1)


@pytest.mark.parametrize("slow", [1.2, 1.6])
def test_a_slow_host_beside_reductions(slow, tmp_path):
    """Whoever waits works on meanwhile: what lies between two reductions is not the same on all ranks."""
    truth = backward_job(tmp_path / "traces", lambda rank, step: slow if rank > 1 else 1, hosts=["a", "a", "b", "b"]) / backward_job(None)
    jobs.commtap("import", tmp_path / "traces", "-o", tmp_path / "dumps")
    result = jobs.document("stragglers", tmp_path / "dumps")
    assert [(one["kind"], one["host"], one["ranks"]) for one in result["stragglers"]] == [("host", "b", [2, 3])]
    assert result["stragglers"][0]["what_if_speedup"] == pytest.approx(truth, rel=0.02)
    assert "hidden" not in [one["code"] for one in jobs.document("report", tmp_path / "dumps")["findings"]]


def test_a_host_that_launches_all_late(tmp_path):
    """Kernels shorter than their launches: the others' reductions lie ready behind the ones that wait."""
    truth = small_kernels_job(tmp_path / "traces", 60) / small_kernels_job(None)
    jobs.commtap("import", tmp_path / "traces", "-o", tmp_path / "dumps")
    result = jobs.document("stragglers", tmp_path / "dumps")
    assert [one["rank"] for one in result["stragglers"]] == [LATE]
    assert 0.87 * truth < result["stragglers"][0]["what_if_speedup"] <= truth  # what began behind a short reduction may have needed it


def test_a_short_run_is_judged_or_is_not(tmp_path):
    """80 ms of 250 stretches and more, and two steps: either who is slow is told, or that all is too short, never both."""
    for each, steps, told in ((150, 25, "straggler"), (90, 40, "straggler"), (90, 2, "too_short")):
        traces, dumps = tmp_path / f"traces{steps}", tmp_path / f"dumps{steps}"
        small_kernels_job(traces, each, steps)
        jobs.commtap("import", traces, "-o", dumps)
        codes = {one["code"] for one in jobs.document("report", dumps)["findings"]}
        assert codes & {"straggler", "suspect", "too_short"} == {told}


@pytest.mark.parametrize("only, times", [((0,), 12), ((17,), 12), ((5, 15, 25, 35), 6), ((), 1)])
def test_a_rank_that_is_slow_in_one_step(only, times, tmp_path):
    """As where a program is compiled: the others wait in each collective of that step, in the first one of the trace, too."""
    backward_job(tmp_path / "traces", lambda rank, step: times if rank == LATE and step in only else 1)
    jobs.commtap("import", tmp_path / "traces", "-o", tmp_path / "dumps")
    found = jobs.document("report", tmp_path / "dumps")["findings"]
    away = [one["text"] for one in found if one["code"] == "once_away"]
    assert [text.startswith(f"rank {LATE} was away once") for text in away] == [True] * (len(only) == 1)
    assert any(one["code"] == "straggler" for one in found) == (len(only) > 1)


@pytest.mark.parametrize("slow, first, last", [(1.0, 1, 0), (1.3, 1, 0), (1.3, 2, 2), (1.0, 0, 1)])
def test_a_trace_that_begins_one_collective_later(slow, first, last, tmp_path):
    """Without PyTorch's numbers the ends of kernels tell which belong together: on one host all leave a collective at once."""
    for name in ("whole", "traces"):
        backward_job(tmp_path / name, lambda rank, step: slow if rank == LATE else 1, hosts=["a"] * RANKS)
    for rank, lacks in ((1, slice(0, first)), (3, slice(3 * STEPS - last, None))):
        path = next((tmp_path / "traces").glob(f"a_{4000 + rank}.*"))
        trace = json.loads(path.read_text())
        kernels = [event["args"]["correlation"] for event in trace["traceEvents"] if "AllReduce" in event["name"]]
        trace["traceEvents"] = [event for event in trace["traceEvents"] if event["args"].get("correlation") not in kernels[lacks]]
        path.write_text(json.dumps(trace))
    said = jobs.commtap("import", tmp_path / "traces", "-o", tmp_path / "dumps").stdout
    assert ("rank 1's trace lacks the first" in " ".join(said.split())) == (first > 0)
    jobs.commtap("import", tmp_path / "whole", "-o", tmp_path / "all")
    found, truth = (jobs.document("stragglers", tmp_path / name) for name in ("dumps", "all"))
    assert [one["rank"] for one in found["stragglers"]] == [one["rank"] for one in truth["stragglers"]]
    waits = [[one["wait_seconds"] for one in jobs.document("report", tmp_path / name)["ranks"]] for name in ("dumps", "all")]
    assert waits[0] == pytest.approx(waits[1], rel=0.06, abs=2e-3)


def test_of_ranks_that_nobody_waits_for_all_work_is_told(tmp_path):
    """A launch that is late by less than matters: less of its rank's kernels is hidden, and they are as long as the others'."""
    overlapping_job(tmp_path / "traces", late=2150)
    jobs.commtap("import", tmp_path / "traces", "-o", tmp_path / "dumps")
    found = jobs.document("stragglers", tmp_path / "dumps")
    assert found["stragglers"] == []
    assert {row["rank"]: row["self_ratio"] for row in found["ranks"]}[LATE] == pytest.approx(1, abs=0.01)
