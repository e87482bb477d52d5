# SPDX-License-Identifier: Apache-2.0
#
# What PyTorch launches together (batch_isend_irecv, coalesced collectives): every call says with whom, and the one
# kernel that follows says nothing. Older and newer releases put its launch into an annotation, others do not.
# Must not live here: kernels that say what they are (test_import_kineto.py, test_import_late.py).
import json
import random
import re

import pytest

import jobs

RANKS, STEPS, LATE = 4, 40, 2
WORK, TRANSFER = 2000, 100  # microseconds


class Rank:
    """One rank's events: two GPU streams, one thread."""

    def __init__(self, number):
        self.number, self.events, self.launches = number, [], 0

    def on_thread(self, category, name, at, length, **arguments):
        self.events.append({"ph": "X", "cat": category, "name": name, "pid": 1000 + self.number, "tid": 1, "ts": at, "dur": length,
                            "args": arguments})

    def kernel(self, at, name, start, end, stream):
        self.launches += 1
        self.on_thread("cuda_runtime", "cudaLaunchKernelExC", at, 5, correlation=self.launches)
        self.events.append({"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": start, "dur": end - start,
                            "args": {"device": 0, "stream": stream, "correlation": self.launches}})

    def call(self, at, name, ranks=range(RANKS), group="mesh", **partner):
        """Which launches nothing itself."""
        self.on_thread("cpu_op", "record_param_comms", at, 8, **{
            "Collective name": name, "In msg nelems": 250000, "Out msg nelems": 250000, "Group size": len(ranks), "dtype": "Float",
            "Process Group Name": str(min(ranks)), "Process Group Description": group, "Process Group Ranks": str(list(ranks)), **partner})

    def write(self, folder):
        (folder / f"node_{1000 + self.number}.{1700000000000 + self.number}.pt.trace.json").write_text(json.dumps({
            "distributedInfo": {"backend": "nccl", "rank": self.number, "world_size": RANKS}, "traceEvents": self.events,
            "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}], "baseTimeNanoseconds": 1700000000000000000}))


def imported(folder, calls, kernel, late=0, annotated=False, partners=lambda rank: range(RANKS)):
    """Each step all ranks compute, and then meet those that they have in a launch; the microseconds that each waits."""
    random.seed(3)
    ranks, begins, waits = [Rank(number) for number in range(RANKS)], [1e6] * RANKS, [0] * RANKS
    for _ in range(STEPS):
        ready = [begins[r] + (WORK + (late if r == LATE else 0)) * random.uniform(0.99, 1.01) for r in range(RANKS)]
        for rank in ranks:
            r, at = rank.number, begins[rank.number]
            last = max(ready[p] for p in partners(r))
            waits[r] += max(0, last - ready[r])
            rank.kernel(at - 200, "ampere_sgemm_128x64_nn", at, ready[r] - 2, 7)
            calls(rank, at - 150)
            if annotated:
                rank.on_thread("user_annotation", "nccl:coalesced", at - 101, 10)
            rank.kernel(at - 100, kernel, ready[r], max(last, ready[r]) + TRANSFER, 20)
        begins = [max(max(ready[p] for p in partners(r)), ready[r]) + TRANSFER + 5 for r in range(RANKS)]
    folder.mkdir()
    for rank in ranks:
        rank.write(folder)
    return waits


def exchange(rank, at):
    """To the next in the ring, from the one before."""
    rank.call(at, "send", **{"Dst Rank": (rank.number + 1) % RANKS})
    rank.call(at + 10, "recv", **{"Src Rank": (rank.number - 1) % RANKS})


def neighbours(rank):
    return [(rank - 1) % RANKS, rank, (rank + 1) % RANKS]


def found(folder):
    jobs.commtap("import", folder, "-o", folder.parent / "dumps")
    return jobs.report(folder.parent / "dumps")


@pytest.mark.parametrize("annotated", [False, True], ids=["alone", "annotated"])
def test_who_is_late_among_batches(annotated, tmp_path):
    waits = imported(tmp_path / "traces", exchange, "ncclDevKernel_SendRecv(args)", 600, annotated, neighbours)
    result = found(tmp_path / "traces")
    rows = {row["op"]: row["count"] for row in result["summary"] if row["source"] == "gpu-event"}
    assert rows == {"ncclGroupEnd": RANKS * STEPS}
    made = {row["op"]: row["count"] for row in result["summary"] if row["source"] == "host"}
    assert made["ncclSend"] == made["ncclRecv"] == RANKS * STEPS
    assert result["coverage"]["messages_matched"] == RANKS * STEPS and result["coverage"]["collectives_matched"] == 0
    assert [one["rank"] for one in result["stragglers"]] == [LATE]
    assert [row["wait_seconds"] * 1e6 for row in sorted(result["ranks"], key=lambda row: row["rank"])] == pytest.approx(waits, rel=0.02, abs=200)


@pytest.mark.parametrize("annotated", [False, True], ids=["alone", "annotated"])
def test_nobody_is_late_among_batches(annotated, tmp_path):
    imported(tmp_path / "traces", exchange, "ncclDevKernel_SendRecv(args)", 0, annotated, neighbours)
    result = found(tmp_path / "traces")
    assert result["stragglers"] == [] and not [one for one in result["findings"] if one["severity"] != "info"]


def two_steps(folder, annotated=False, beside=lambda rank, at: None):
    """Whose kernels run 900 later: a GPU computes for 300 and for 100, and from 50 after the former to 50 into the latter it
    sends and receives in one kernel."""
    for number in range(RANKS):
        rank = Rank(number)
        for at in (10000, 11000):
            rank.on_thread("user_annotation", f"ProfilerStep#{at // 1000}", at, 1000)
            rank.kernel(at + 10, "ampere_sgemm_128x64_nn", at + 900, at + 1200, 7)
            exchange(rank, at + 20)
            if annotated:
                rank.on_thread("user_annotation", "nccl:coalesced", at + 49, 10)
            rank.kernel(at + 50, "ncclDevKernel_SendRecv(args)", at + 1250, at + 1650, 20)
            rank.kernel(at + 60, "ampere_sgemm_128x64_nn", at + 1600, at + 1700, 7)
            beside(rank, at)
        rank.write(folder)
    jobs.commtap("import", folder, "-o", folder / "dumps")


@pytest.mark.parametrize("annotated", [False, True], ids=["alone", "annotated"])
def test_a_gpu_is_busy_while_it_exchanges(annotated, tmp_path):
    two_steps(tmp_path, annotated)
    keys = ("kernel_seconds", "busy_seconds", "idle_seconds", "compute_seconds", "communication_seconds", "overlap_seconds",
            "exposed_seconds")
    rows = {by: jobs.document("steps", *by, tmp_path / "dumps")["gpus"] for by in ((), ("--by", "both"))}
    assert [[round(row[key] * 1e6) for key in keys] for row in rows[()]] == [[1800, 1500, 300, 800, 800, 100, 700]] * RANKS
    assert [(row["rank"], row["step"]) for row in rows["--by", "both"]] == [(rank, step) for rank in range(RANKS) for step in range(2)]
    assert [[round(row[key] * 1e6) for key in keys] for row in rows["--by", "both"]] == [[800, 750, 50, 400, 400, 50, 350]] * RANKS * 2


def test_a_page_tells_kernels_that_communicate_from_others(tmp_path):
    """Those of which nobody knows the partners communicate, too; copies do not."""
    def beside(rank, at):
        rank.kernel(at + 70, "ncclDevKernel_Generic_4(x)", at + 1750, at + 1850, 21)
        rank.events.append({"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "pid": 0, "tid": 8, "ts": at + 1210, "dur": 30,
                            "args": {"device": 0, "stream": 8}})

    two_steps(tmp_path, beside=beside)
    jobs.commtap("html", tmp_path / "dumps", "-o", tmp_path / "page.html")
    heat = json.loads(re.search('id="data-heat"[^>]*>(.*?)</script>', (tmp_path / "page.html").read_text(), re.DOTALL)[1])
    each, count = heat["span_us"] / heat["intervals"], heat["intervals"]
    shares = [heat["communicated_percent"][rank * count:][:count] for rank in range(RANKS)]
    assert [sum(one) * each / 100 for one in shares] == pytest.approx([2 * (400 + 100)] * RANKS, rel=0.03)


def halves(rank):
    return range(2) if rank < 2 else range(2, RANKS)


@pytest.mark.parametrize("annotated", [False, True], ids=["alone", "annotated"])
def test_coalesced_gathers_are_their_groups(annotated, tmp_path):
    """Two all-gathers in one launch, in each of two process groups."""
    def gathers(rank, at):
        for number in range(2):
            rank.call(at + 10 * number, "_allgather_base", halves(rank.number), "shard")

    waits = imported(tmp_path / "traces", gathers, "ncclDevKernel_AllGather_RING_LL(args)", 600, annotated, halves)
    result = found(tmp_path / "traces")
    rows = [row for row in result["summary"] if row["source"] == "gpu-event"]
    assert {(row["op"], row["comm_name"], row["count"], row["bytes"]) for row in rows} == {
        ("ncclAllGather", f"shard {first}", 2 * STEPS, 2000000) for first in (0, 2)}
    assert [row["wait_seconds"] * 1e6 for row in sorted(result["ranks"], key=lambda row: row["rank"])] == pytest.approx(waits, rel=0.02, abs=200)


def test_a_kernel_of_which_nothing_is_told_is_of_no_group(tmp_path):
    """Two process groups are in use: it may be either's."""
    imported(tmp_path / "traces", lambda rank, at: rank.call(at, "allreduce", halves(rank.number), "shard") if at < 1e6 else None,
             "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", partners=halves)
    done = jobs.commtap("import", tmp_path / "traces", "-o", tmp_path / "dumps")
    assert f"left out: {RANKS * (STEPS - 1)} events" in done.stdout and "whose process group does not tell its ranks" in done.stdout
    assert sum(row["count"] for row in jobs.report(tmp_path / "dumps")["summary"] if row["source"] == "gpu-event") == RANKS
