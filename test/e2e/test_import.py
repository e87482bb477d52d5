# SPDX-License-Identifier: Apache-2.0
#
# Traces of other tools: what comes out of real ones is known; made-up ones try the rest; damaged ones are refused.
# Must not live here: analyses of jobs that ran under the shim.
import gzip
import json
import os
import pickle
import random
import subprocess
import tarfile

import jobs
import pytest
from flight_recorders import DIFFERENCES, entry, flight, recorders_that_disagree

TRACES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "traces")


def run_import(*arguments, code=0):
    done = subprocess.run([jobs.COMMTAP, "import", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done


def analyse(command, directory, *arguments):
    return jobs.document(command, *arguments, directory)


def test_slow_worker_of_a_published_trace(tmp_path):
    said = run_import(os.path.join(TRACES, "straggler-AR-16.json.gz"), "-o", tmp_path / "ar").stdout
    assert "16 of 16 ranks, 25728 operations" in said
    found = analyse("stragglers", tmp_path / "ar")
    ranks = [s for s in found["stragglers"] if s["kind"] in ("rank", "host", "link")]
    assert [(s["kind"], s["rank"]) for s in ranks] == [("rank", 0)]
    assert 2.3 <= ranks[0]["slowdown_ratio"] <= 2.4
    others = [r["self_ratio"] for r in found["ranks"] if r["rank"] != 0]
    assert max(others) < 1.1
    # as published: S 1.973 over 44 steps, of which these are 16; fixing the worst worker explains all of it. What
    # differs: durations of transfers are known from their trimmed beginnings only where a peer was waited for.
    assert 1.93 <= found["what_if"]["slowdown"] <= 2.02
    assert found["what_if"]["worst_workers"] == 1
    assert 0.98 <= found["what_if"]["worst_workers_share"] <= 1.02
    # its peers' work is a little shorter than the mean of all, which holds its own
    assert found["what_if"]["slowdown"] <= ranks[0]["what_if_speedup"] <= 2.1
    page = " ".join(jobs.commtap("report", tmp_path / "ar").stdout.split())
    assert "2.03 times as fast if the same work and transfers took every rank the median time" in page
    assert "the worst rank alone would give 100 %" in page
    assert jobs.commtap("check", tmp_path / "ar").returncode == 0
    # every send met its receive, every collective its members
    assert analyse("report", tmp_path / "ar")["coverage"]["matched_share"] == 1


def test_stage_imbalance_of_a_published_trace(tmp_path):
    run_import(os.path.join(TRACES, "straggler-ST.json.gz"), "-o", tmp_path)
    found = analyse("stragglers", tmp_path)
    # nobody is slower than the other rank of its stage; stage 3 (ranks 6 and 7) has more to do
    assert [(s["kind"], s["rank"], s["ranks"]) for s in found["stragglers"]] == [("role", None, [6, 7])]
    assert 1.55 <= found["stragglers"][0]["slowdown_ratio"] <= 1.65
    assert max(r["self_ratio"] for r in found["ranks"]) < 1.05
    assert [f["code"] for f in found["findings"] if f["code"] in ("straggler", "uneven")] == ["uneven"]
    # as published: S 1.179; one worker of 8 explains 3.1 % of it, since the other one of its stage stays as slow
    assert 1.15 <= found["what_if"]["slowdown"] <= 1.2
    assert 0.01 <= found["what_if"]["worst_workers_share"] <= 0.06
    assert found["stragglers"][0]["what_if_speedup"] >= found["what_if"]["slowdown"]


def test_kineto_traces(tmp_path):
    run_import(os.path.join(TRACES, "dlrm_kineto.tar.gz"), "-o", tmp_path)
    gpu = [row for row in analyse("summary", tmp_path)["summary"] if row["source"] == "gpu-event"]
    assert sum(row["count"] for row in gpu) == 8 * 8
    # [[394241]] float on rank 0's annotation, around a kernel of 246 us
    reduce = [row for row in gpu if row["bytes"] == 394241 * 4]
    assert [(row["op"], row["count"], row["comm_size"]) for row in reduce] == [("ncclAllReduce", 8, 8)]
    assert 0 < reduce[0]["time_min_us"] <= 246 <= reduce[0]["time_max_us"]
    assert analyse("report", tmp_path)["coverage"]["matched_share"] == 1


def test_calls_of_imported_traces(tmp_path):
    """Their operations, though nothing says where they were called from."""
    run_import(os.path.join(TRACES, "dlrm_kineto.tar.gz"), "-o", tmp_path)
    root = analyse("calls", tmp_path)["root"]
    assert (root["count"], root["gpu_count"]) == (8 * 8, 8 * 8)
    rows = [row for row in analyse("summary", tmp_path)["summary"] if row["source"] == "gpu-event"]
    assert {op: sums["count"] for op, sums in root["ops"].items()} == {
        op: sum(row["count"] for row in rows if row["op"] == op) for op in {row["op"] for row in rows}}
    assert root["gpu_time_us"] == pytest.approx(sum(row["time_total_us"] for row in rows))


def test_filter_by_size(tmp_path):
    """The same calls pass in every command: 8 of the 40 all-to-alls and 24 reductions are of a megabyte and more."""
    run_import(os.path.join(TRACES, "dlrm_kineto.tar.gz"), "-o", tmp_path)
    every = [row for row in analyse("summary", tmp_path)["summary"] if row["source"] == "gpu-event"]
    for given, least, most in (("1M-", 1 << 20, 1 << 62), ("192-24K", 192, 24 << 10), ("-191", 0, 191), ("192", 192, 192)):
        passing = {(row["op"], row["bytes"]): row["count"] for row in every if least <= row["bytes"] <= most}
        rows = analyse("summary", tmp_path, "--sizes", given)["summary"]
        assert {(row["op"], row["bytes"]): row["count"] for row in rows if row["source"] == "gpu-event"} == passing
        assert analyse("calls", tmp_path, "--sizes", given)["root"]["count"] == sum(passing.values())
        records = jobs.commtap("export", "--format", "jsonl", "--sizes", given, tmp_path).stdout.splitlines()
        assert sum(json.loads(line)["kind"] == "gpu" for line in records) == sum(passing.values())
        steps = analyse("steps", tmp_path, "--sizes", given)["rows"]
        assert sum(row["operations"] for row in steps) <= sum(passing.values())
    refused = jobs.commtap("summary", "--sizes", "4K-1K", tmp_path, codes=(2,))
    assert "--sizes takes a size or a range of sizes" in refused.stderr


def kernel(name, at, length, **arguments):
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": at, "dur": length, "args": arguments}


def kineto(rank, world, events):
    return {"deviceProperties": [{"id": 0}], "distributedInfo": {"rank": rank, "world_size": world},
            "traceEvents": events}


def test_kineto_with_process_groups(tmp_path):
    group = {"Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000, "dtype": "BFloat16",
             "Group size": 2}
    files = []
    for rank in range(4):
        pair = {**group, "Process Group Name": "tp", "Process Group Ranks": "[0, 1]" if rank < 2 else "[2, 3]"}
        events = [kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", 1000 + 100 * i, 50, **pair) for i in range(3)]
        events.append(kernel("void gemm()", 5000, 1))
        files.append(tmp_path / f"rank{rank}.json")
        files[-1].write_text(json.dumps(kineto(rank, 4, events)))
    run_import(*files, "-o", tmp_path / "out")
    rows = [row for row in analyse("summary", tmp_path / "out")["summary"] if row["source"] == "gpu-event"]
    assert [(row["comm_size"], row["bytes"], row["count"]) for row in rows] == [(2, 2000, 6), (2, 2000, 6)]
    # the same moment of a rank twice is a mistake of the user's
    refused = run_import(files[0], files[0], "-o", tmp_path / "twice", code=3)
    assert "two traces of rank 0 overlap" in refused.stderr


def test_kernels_that_begin_before_their_launch_returned(tmp_path):
    """A launch takes 40 us; the kernel begins 10 us into it, on an idle stream. Its time is all of its own."""
    files = []
    for rank in range(2):
        events = []
        for i in range(30):
            at = 1000 + 200 * i
            events += [{"ph": "X", "cat": "user_annotation", "name": "nccl:all_reduce", "pid": 1, "tid": 1, "ts": at,
                        "dur": 40, "args": {}},
                       {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernelExC", "pid": 1, "tid": 1,
                        "ts": at + 5, "dur": 30, "args": {"correlation": i + 1}},
                       kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", at + 10, 100, correlation=i + 1)]
        files.append(tmp_path / f"rank{rank}.json")
        files[-1].write_text(json.dumps(kineto(rank, 2, events)))
    run_import(*files, "-o", tmp_path / "out")
    assert [row["comm_seconds"] for row in analyse("report", tmp_path / "out")["ranks"]] == pytest.approx([30 * 100e-6] * 2)


def test_work_hides_the_communication_that_it_overlaps(tmp_path):
    """MindSpore's example: of 100 ms compute 0-60 and 95-100, reduce 50-80, receive 80-95."""
    parts = [("forward-compute", 0, 60, 0), ("grads-reduce-scatter", 50, 80, 1), ("backward-recv", 80, 95, 2),
             ("backward-compute", 95, 100, 0)]
    events = [{"ph": "M", "name": "thread_name", "pid": data, "tid": 3 * stage + number,
               "args": {"name": f"PP rank {stage}, TP rank 0, {stream}"}}
              for data in range(2) for stage in range(2)
              for number, stream in enumerate(["compute", "dp-comm", "pp-comm"])]
    for data in range(2):
        for stage in range(2):
            for step in range(12):
                for seq, (name, start, end, stream) in enumerate(parts):
                    events.append({"ph": "X", "name": name.replace("recv", "send") if stage else name,
                                   "ts": 1000 * (100 * step + start), "dur": 1000 * (end - start), "pid": data,
                                   "tid": 3 * stage + stream, "args": {"step": step, "seq_id": seq}})
    (tmp_path / "line.json").write_text(json.dumps({"traceEvents": events}))
    run_import(tmp_path / "line.json", "-o", tmp_path / "out")
    row = analyse("steps", tmp_path / "out", "--rank", "0")["rows"][0]
    assert [round(row[key] * 1000) for key in ("step_seconds", "communication_alone_seconds", "computation_seconds",
                                               "collective_alone_seconds", "receive_alone_seconds", "stage_seconds")
            ] == [100, 35, 65, 20, 15, 85]


def test_stages_that_are_given(tmp_path):
    run_import(os.path.join(TRACES, "dlrm_kineto.tar.gz"), "-o", tmp_path)
    assert {row["stage"] for row in analyse("steps", tmp_path)["rows"]} == {None}
    rows = analyse("steps", tmp_path, "--stages", "4")["rows"]
    assert {row["rank"]: row["stage"] for row in rows} == {rank: rank // 2 + 1 for rank in range(8)}
    refused = jobs.commtap("steps", "--stages", "3", tmp_path, codes=(2,))
    assert "--stages takes a divisor of the number of ranks, 8, a list or a file, not '3'" in refused.stderr
    # stages of unlike sizes, as a list and as a file
    stages = tmp_path / "stages.txt"
    stages.write_text("# both ends of the pipeline hold an embedding\n0,1,7\n2-6\n")
    for given in ("0,1,7/2-6", stages):
        rows = analyse("steps", tmp_path, "--stages", given)["rows"]
        assert {row["rank"]: row["stage"] for row in rows} == {r: 1 if r in (0, 1, 7) else 2 for r in range(8)}
    stages.write_text("0-3\n\n4-8\n")
    for command in ("steps", "report"):
        refused = jobs.commtap(command, "--stages", stages, tmp_path, codes=(2,))
        assert f"{stages}:3: there is no rank 8: the job has 8" in refused.stderr
    missing = jobs.commtap("steps", "--stages", tmp_path / "none", tmp_path, codes=(3,))
    assert "none: No such file or directory" in missing.stderr


@pytest.mark.parametrize("steps", [1, 3])
def test_steps_of_the_profiler(steps, tmp_path):
    """Also of a single one, in which nothing comes back."""
    files = []
    for rank in range(2):
        events = []
        for i in range(steps):
            at = 10000 + 1000 * i
            events += [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{7 + i}", "pid": 1, "tid": 1,
                        "ts": at, "dur": 1000, "args": {}},
                       kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", at + 400, 100, correlation=2 * i),
                       kernel("ncclDevKernel_AllGather_RING_LL(x)", at + 700, 50, correlation=2 * i + 1)]
        files.append(tmp_path / f"rank{rank}.json")
        files[-1].write_text(json.dumps(kineto(rank, 2, events)))
    run_import(*files, "-o", tmp_path / "out")
    rows = analyse("steps", tmp_path / "out", "--by", "both")["rows"]
    assert [(row["rank"], row["step"]) for row in rows] == [(rank, step) for rank in range(2) for step in range(steps)]
    assert {round(row["step_seconds"] * 1e6) for row in rows} == {1000}
    assert {round(row["interval_seconds"] * 1e6) for row in rows} == {400}
    assert {row["operations"] for row in rows} == {2}


def test_kernels_hide_the_communication_that_they_overlap(tmp_path):
    """Of 100 ms: compute 0-60 in two kernels side by side and 95-99, reduce 50-80, gather 80-95; nothing from 99 on."""
    files = []
    for rank in range(2):
        events = []
        for step in range(4):
            at = 1_000_000 + 100_000 * step
            events += [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1,
                        "ts": at, "dur": 100_000, "args": {}},
                       kernel("void gemm()", at, 40_000), kernel("void gemm()", at + 30_000, 30_000),
                       kernel("void optimizer()", at + 95_000, 4_000),
                       kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", at + 50_000, 30_000),
                       kernel("ncclDevKernel_AllGather_RING_LL(x)", at + 80_000, 15_000)]
        files.append(tmp_path / f"rank{rank}.json")
        files[-1].write_text(json.dumps(kineto(rank, 2, events)))
    run_import(*files, "-o", tmp_path / "out")
    assert jobs.commtap("check", tmp_path / "out").returncode == 0
    row = analyse("steps", tmp_path / "out", "--rank", "0")["rows"][0]
    assert [round(row[key] * 1000) for key in ("step_seconds", "comm_seconds", "communication_alone_seconds",
                                               "computation_seconds", "idle_seconds")] == [100, 45, 35, 65, 1]
    # what is no operation is in no sum of operations
    assert {entry["op"] for entry in analyse("summary", tmp_path / "out")["summary"]} == {"ncclAllReduce", "ncclAllGather"}


def copy(at, length, **arguments):
    return {**kernel("Memcpy HtoD (Pinned -> Device)", at, length, **arguments), "cat": "gpu_memcpy"}


def launch(at, correlation):
    return {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": at, "dur": 5,
            "args": {"correlation": correlation}}


def test_gpu_in_the_steps_that_launched_its_kernels(tmp_path):
    """Two steps of 1000 us whose kernels begin 900 us after their launches: compute 0-400, copies in 350-430 and
    620-670, a reduction in 300-600, communication of which nothing more is told in 700-800."""
    files = []
    for rank in range(2):
        events, number = [], 0
        for step in range(2):
            at = 10_000 + 1000 * step
            events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1,
                           "ts": at, "dur": 1000, "args": {}})
            for make, start, length in ((lambda *a, **k: kernel("void gemm()", *a, **k), 0, 400), (copy, 350, 80),
                                        (copy, 620, 50),
                                        (lambda *a, **k: kernel("ncclDevKernel_AllReduce_Sum_f32(x)", *a, **k), 300, 300),
                                        (lambda *a, **k: kernel("ncclDevKernel_Generic_4(x)", *a, **k), 700, 100)):
                number += 1
                events += [launch(at + start, number),
                           make(at + start + 900, length, correlation=number, device=rank + 2)]
        # its launch was not recorded: it belongs to no step
        events.append(kernel("void gemm()", 10_500, 100, correlation=99, device=rank + 2))
        trace = kineto(rank, 2, events)
        trace["deviceProperties"] = [{"id": number, "name": f"Model {number}"} for number in range(4)]
        files.append(tmp_path / f"rank{rank}.json")
        files[-1].write_text(json.dumps(trace))
    run_import(*files, "-o", tmp_path / "out")
    by_both = analyse("steps", tmp_path / "out", "--by", "both")["gpus"]
    assert [(row["rank"], row["step"], row["gpu"], row["gpu_name"]) for row in by_both] == [
        (rank, step, rank + 2, f"Model {rank + 2}") for rank in range(2) for step in range(2)]
    keys = ("kernel_seconds", "busy_seconds", "idle_seconds", "compute_seconds", "communication_seconds",
            "overlap_seconds", "exposed_seconds", "copy_seconds")
    for row in by_both:
        assert [round(row[key] * 1e6) for key in keys] == [800, 750, 50, 400, 400, 100, 300, 130]
        assert row["overlap_share"] == pytest.approx(0.25)
    # the gap of 200 us between the steps' kernels is idle, too
    whole = analyse("steps", tmp_path / "out")["gpus"]
    assert [(row["rank"], row["steps"]) for row in whole] == [(0, 2), (1, 2)]
    for row in whole:
        assert [round(row[key] * 1e6) for key in keys] == [1800, 1500, 300, 800, 800, 200, 600, 260]
    last = analyse("steps", tmp_path / "out", "--step", "1", "--rank", "1")["gpus"]
    assert [(row["rank"], row["steps"], round(row["kernel_seconds"] * 1e6)) for row in last] == [(1, 1, 800)]
    assert [(row["gpu"], row["gpu_name"]) for row in analyse("report", tmp_path / "out")["ranks"]] == [
        (2, "Model 2"), (3, "Model 3")]
    # from 11000 to 12000 by the clock: what the first step launched until 11700, and the second one's from 11900 on
    second = analyse("steps", tmp_path / "out", "--by", "both", "--rank", "0")["rows"][1]
    assert [round(second[key] * 1e6) for key in ("idle_seconds", "communication_alone_seconds")] == [250, 300]
    # of the operations that are left the rest of a GPU's time is not known
    assert analyse("steps", tmp_path / "out", "--op", "allreduce")["gpus"] == []
    assert jobs.commtap("check", tmp_path / "out").stdout.count("incomplete") == 0


def test_gpu_times_are_those_of_holistic_trace_analysis(tmp_path):
    """Its own get_temporal_breakdown and get_comm_comp_overlap of two of its test traces, which leave out the last step
    (`make check-hta` runs it on the others)."""
    theirs = {0: (600058, 321378, 106252, 172428, 11.81), 1: (600674, 328671, 135548, 136455, 20.05)}
    run_import(*(os.path.join(TRACES, f"hta_sampled_rank-{rank}.json.gz") for rank in theirs), "-o", tmp_path)
    rows = analyse("steps", tmp_path, "--step", "0")["gpus"]
    assert {row["rank"]: (round(row["kernel_seconds"] * 1e6), round(row["idle_seconds"] * 1e6),
                          round(row["compute_seconds"] * 1e6),
                          round((row["busy_seconds"] - row["compute_seconds"]) * 1e6),
                          round(row["overlap_share"] * 100, 2)) for row in rows} == theirs


def test_kernels_without_a_gap_belong_to_the_steps_that_launched_them(tmp_path):
    """The last kernel of step 0 ends when the first one of step 1 begins. Nothing but they and the marks is recorded."""
    events = [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1,
               "ts": 1000 + 100 * step, "dur": 100, "args": {}} for step in range(2)]
    for number, (launched, at, length) in enumerate([(1010, 1150, 70), (1110, 1220, 30), (1120, 1250, 10)]):
        events += [launch(launched, number), kernel("void gemm()", at, length, correlation=number)]
    (tmp_path / "rank0.json").write_text(json.dumps(kineto(0, 1, events)))
    run_import(tmp_path / "rank0.json", "-o", tmp_path / "out")
    rows = analyse("steps", tmp_path / "out", "--by", "both")["gpus"]
    assert [(row["step"], round(row["compute_seconds"] * 1e6)) for row in rows] == [(0, 70), (1, 40)]
    assert "incomplete" not in jobs.commtap("check", tmp_path / "out").stderr


def memory(at, allocated, reserved, device=1, kind=1):
    return {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 9, "tid": 9, "ts": at,
            "args": {"Total Reserved": reserved, "Total Allocated": allocated, "Bytes": 512, "Device Id": device,
                     "Device Type": kind, "Addr": 4096, "Ev Idx": 7}}


def test_memory_of_a_profiler_trace(tmp_path):
    """Of 90 samples 0.7 ms apart every other one is within a millisecond of the one before. The peak lies on such a one."""
    peak, whole = 45, 95 << 20
    samples = [memory(1000 + 700 * i, (1 << 20) + i + (50 << 20 if i == peak else 0), (whole if i == peak else 60 << 20))
               for i in range(90)]
    others = [memory(5000, 1 << 40, 1 << 40, device=0), memory(5000, 1 << 40, 1 << 40, device=-1, kind=0),
              {**memory(5000, 1, 1), "args": {"Device Id": 1, "Device Type": 1, "Bytes": 5}}]
    kernels = [kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 1000 + 700 * i, 300, device=1) for i in range(90)]
    for name, events in (("with", [*samples[::-1], *others, *kernels]), ("without", kernels)):
        document = kineto(0, 1, events)
        document["deviceProperties"] = [{"id": 0, "totalGlobalMem": 1 << 40}, {"id": 1, "totalGlobalMem": 100 << 20}]
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
        run_import(tmp_path / f"{name}.json", "-o", tmp_path / name)
    rows = [json.loads(line) for line in jobs.commtap("export", "--format", "jsonl", tmp_path / "with").stdout.splitlines()]
    rows = [row for row in rows if row["kind"] == "memory"]
    held = {part: [row["bytes"] for row in rows if row["op"] == f"memory {part} by PyTorch"]
            for part in ("allocated", "reserved")}
    assert held["allocated"] == [(1 << 20) + i + (50 << 20 if i == peak else 0) for i in range(1, 90, 2)]
    assert held["reserved"] == [whole if i == peak else 60 << 20 for i in range(1, 90, 2)]
    found = [finding["text"] for finding in analyse("report", tmp_path / "with")["findings"]]
    assert "device memory was 95 % full at its peak on rank 0." in found
    # all else is what it is without
    for command in (("summary",), ("steps", "--by", "both"), ("calls",), ("stragglers",)):
        with_them, without = (analyse(command[0], tmp_path / name, *command[1:]) for name in ("with", "without"))
        for key in ("rows", "summary", "root", "ranks"):
            assert with_them.get(key) == without.get(key), (command, key)
    assert jobs.commtap("check", tmp_path / "with").returncode == 0


def test_trace_without_communication(tmp_path):
    """Of one process that was no part of a distributed job, and says nothing of ranks and steps."""
    (tmp_path / "alone.json").write_text(json.dumps({"traceEvents": [
        {**kernel("void gemm()", 1000, 300), "cat": "Kernel"}, {**kernel("void gemm()", 1500, 100), "cat": "Kernel"}]}))
    assert "1 of 1 ranks, 0 operations" in run_import(tmp_path / "alone.json", "-o", tmp_path / "out").stdout
    row, = analyse("steps", tmp_path / "out")["gpus"]
    assert [round(row[key] * 1e6) for key in ("kernel_seconds", "idle_seconds", "compute_seconds")] == [600, 200, 400]
    assert row["overlap_share"] is None and row["steps"] == 0
    assert "GPUs, over the steps together" in jobs.commtap("steps", tmp_path / "out").stdout
    assert "incomplete" not in jobs.commtap("report", tmp_path / "out").stderr
    # nobody asked for a part of it
    assert "no operation of communication is on record" in jobs.commtap("report", tmp_path / "out").stdout
    assert "none was in what was imported" in jobs.commtap("summary", tmp_path / "out").stdout
    # two of them cannot be told apart
    refused = run_import(tmp_path / "alone.json", tmp_path / "alone.json", "-o", tmp_path / "two", code=3)
    assert "has no sound rank and world_size" in refused.stderr


def test_names_and_roles_of_process_groups(tmp_path):
    """Two meshes over 4 ranks: what a kernel does not say of its group stands in the list of all of them."""
    config = [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": 4, "ranks": [0, 1, 2, 3]},
              {"pg_name": "1", "pg_desc": "mesh_tp", "pg_size": 2, "ranks": [0, 1]},
              {"pg_name": "2", "pg_desc": "mesh_tp", "pg_size": 2, "ranks": [2, 3]},
              {"pg_name": "3", "pg_desc": "undefined", "pg_size": 2, "ranks": [0, 2]},
              {"pg_name": "4", "pg_desc": "undefined", "pg_size": 2, "ranks": [1, 3]}]
    files = []
    for rank in range(4):
        tensor = {"Process Group Name": "1" if rank < 2 else "2", "Process Group Ranks": "[0, ..., 3]"}
        data = {"Process Group Name": "3" if rank % 2 == 0 else "4",
                "Process Group Description": "DATA_PARALLEL_GROUP_WITH_CP"}
        events = [kernel("ncclDevKernel_AllReduce_Sum_f32(x)", 1000, 50, **tensor),
                  kernel("ncclDevKernel_AllGather_RING(x)", 2000, 50, **data)]
        trace = kineto(rank, 4, events)
        trace["distributedInfo"]["pg_config"] = config
        files.append(tmp_path / f"rank{rank}.json")
        files[-1].write_text(json.dumps(trace))
    run_import(*files, "-o", tmp_path / "out")
    rows = [row for row in analyse("summary", tmp_path / "out")["summary"] if row["source"] == "gpu-event"]
    assert sorted((row["op"], row["comm_name"], row["comm_role"], row["comm_size"], row["count"]) for row in rows) == [
        ("ncclAllGather", "DATA_PARALLEL_GROUP_WITH_CP 3", "DP+CP", 2, 2),
        ("ncclAllGather", "DATA_PARALLEL_GROUP_WITH_CP 4", "DP+CP", 2, 2),
        ("ncclAllReduce", "mesh_tp 1", "TP", 2, 2), ("ncclAllReduce", "mesh_tp 2", "TP", 2, 2)]
    page = jobs.commtap("report", tmp_path / "out").stdout
    assert "mesh_tp 2" in page and "role" in page


def test_directory_of_traces(tmp_path):
    """Two ranks, one compressed, beside what is no trace: the same dumps as from the files by name, in any order."""
    folder = tmp_path / "log"
    (folder / "deeper").mkdir(parents=True)
    for rank in range(2):
        text = json.dumps(kineto(rank, 2, [kernel("ncclDevKernel_AllReduce_Sum_f32(x)", 1000, 50)]))
        (folder / f"host.{rank}.pt.trace.json").write_text(text)
    (folder / "host.1.pt.trace.json").rename(tmp_path / "plain")
    (folder / "host.1.pt.trace.json.gz").write_bytes(gzip.compress((tmp_path / "plain").read_bytes()))
    (folder / ".hidden.json").write_text("[")
    (folder / "deeper" / "host.0.json").write_text(text)
    (folder / "commtap.a.b.ct").write_text("a dump")
    os.mkfifo(folder / "pipe")
    said = run_import(folder, "-o", tmp_path / "out")
    assert "2 of 2 ranks, 2 operations" in said.stdout and said.stderr == ""
    run_import(folder / "host.1.pt.trace.json.gz", folder / "host.0.pt.trace.json", "-o", tmp_path / "named")
    dumps = [{path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("out", "named")]
    assert dumps[0] == dumps[1]
    # what else lies there is named, and takes nothing from the traces
    (folder / "notes.txt").write_text("lr = 0.1")
    said = run_import(folder, "-o", tmp_path / "noted")
    assert "2 of 2 ranks, 2 operations" in said.stdout and "1 documents that cannot be read" in said.stdout
    assert f"{folder}/notes.txt: at byte" in said.stderr
    (tmp_path / "empty").mkdir()
    assert f"{tmp_path / 'empty'}: a directory without a file" in run_import(tmp_path / "empty", "-o", tmp_path / "none", code=3).stderr


def test_unreadable_rank_is_no_loss_of_the_others(tmp_path):
    files = []
    for rank in range(2):
        files.append(tmp_path / f"rank{rank}.json")
        files[-1].write_text(json.dumps(kineto(rank, 2, [kernel("ncclDevKernel_AllReduce_Sum_f32(x)", 1000, 50)])))
    files[1].write_text(files[1].read_text()[:-4])
    said = run_import(*files, "-o", tmp_path / "out")
    assert "1 of 2 ranks, 1 operations" in said.stdout and "1 documents that cannot be read" in said.stdout
    assert "rank1.json: at byte" in said.stderr


def test_slow_rank_whose_work_communication_hides(tmp_path):
    """Each step works 10 + 10 + 10 ms, and the first of two reductions runs beside the last 10: rank 2 takes 13 for
    them. Of the gaps between its collectives that would be 24 ms for 21; of its work it is 33 for 30."""
    random.seed(4)
    ranks, first, second = 4, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(y)"
    events = [[] for _ in range(ranks)]
    begin = [1e6] * ranks
    for _ in range(60):
        half = [at + 20e3 * random.uniform(0.995, 1.005) for at in begin]
        end = [at + (13e3 if rank == 2 else 10e3) * random.uniform(0.995, 1.005) for rank, at in enumerate(half)]
        reduced = max(half) + 9e3
        last = max(max(end), reduced) + 1e3
        for rank in range(ranks):
            events[rank] += [kernel("void gemm()", begin[rank], half[rank] - begin[rank]),
                             kernel("void gemm()", half[rank], end[rank] - half[rank]),
                             kernel(first, half[rank], reduced - half[rank]),
                             kernel(second, max(end[rank], reduced), last - max(end[rank], reduced))]
        begin = [last] * ranks
    for rank in range(ranks):
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(kineto(rank, ranks, events[rank])))
    run_import(*[tmp_path / f"rank{rank}.json" for rank in range(ranks)], "-o", tmp_path / "out")
    found = analyse("stragglers", tmp_path / "out")
    assert [(s["kind"], s["rank"]) for s in found["stragglers"]] == [("rank", 2)]
    assert found["stragglers"][0]["slowdown_ratio"] == pytest.approx(33 / 30, abs=0.01)


def paths(node, above=()):
    """Every node of a call tree with operations of its own: the names that lead to it, and their counts."""
    below = [path for child in node["children"] for path in paths(child, (*above, child["name"]))]
    own = {op: sums["count"] - sum(child["ops"].get(op, {"count": 0})["count"] for child in node["children"])
           for op, sums in node["ops"].items()}
    return below + [(above, own)] if any(own.values()) else below


def test_frames_of_a_profiler_trace(tmp_path):
    """A forward collective in two nested modules, and a backward one on a thread without Python."""
    frame = lambda category, name, at, length, thread=1: {
        "ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread, "ts": at, "dur": length, "args": {}}
    launch = lambda number, at, thread=1: {**frame("cuda_runtime", "cudaLaunchKernelExC", at, 5, thread),
                                           "args": {"correlation": number}}
    files = []
    for rank in range(2):
        events = [frame("python_function", "/job/train.py(7): step", 1000, 900),
                  frame("python_function", "nn.Module: Net_0", 1050, 400),
                  frame("python_function", "/job/net.py(21): forward", 1060, 380),
                  frame("python_function", "nn.Module: Linear_0", 1100, 200),
                  frame("cpu_op", "c10d::allreduce_", 1110, 100), launch(1, 1150),
                  kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 1200, 50, correlation=1),
                  # after Linear_0, still in Net_0
                  launch(2, 1400), kernel("ncclDevKernel_AllGather_RING_LL(x)", 1410, 20, correlation=2),
                  frame("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 1600, 100, 2),
                  launch(3, 1650, 2), kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 1660, 50, correlation=3)]
        files.append(tmp_path / f"rank{rank}.json")
        files[-1].write_text(json.dumps(kineto(rank, 2, events)))
    run_import(*files, "-o", tmp_path / "out")
    assert jobs.commtap("check", tmp_path / "out").returncode == 0
    found = {" > ".join(path): own for path, own in paths(analyse("calls", tmp_path / "out")["root"])}
    # modules are ranges: they stand outside of the functions
    assert found == {"Net_0 > Linear_0 > step > forward": {"ncclAllReduce": 2},
                     "Net_0 > step > forward": {"ncclAllGather": 2},
                     "autograd::engine::evaluate_function: AddmmBackward0": {"ncclAllReduce": 2}}
    rows = analyse("summary", tmp_path / "out", "--by", "caller,op")["summary"]
    assert {(row["caller"], row["op"]): row["count"] for row in rows if row["source"] == "host"} == {
        ("forward", "ncclAllReduce"): 2, ("forward", "ncclAllGather"): 2,
        ("autograd::engine::evaluate_function: AddmmBackward0", "ncclAllReduce"): 2}
    tree = jobs.commtap("calls", tmp_path / "out").stdout
    assert "net.py:21" in tree and "BACKWARD PASS" in tree
    every = {path for path, _ in paths(analyse("calls", tmp_path / "out", "--noise", "2")["root"])}
    assert ("Net_0", "Linear_0", "step", "forward", "c10d::allreduce_") in every


def test_call_stacks_of_operators(tmp_path):
    """Without Python's functions an operator's argument tells who called it: innermost first, the lines executed. One
    inside another operator tells nothing new, nor does one inside a function on record."""
    event = lambda category, name, at, length, **arguments: {
        "ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": at, "dur": length, "args": arguments}
    stack = "/job/net.py(21): forward;/job/train.py(7): step;/job/train.py(30): <module>"
    files = []
    for rank in range(2):
        events = [event("user_annotation", "epoch", 900, 700),
                  event("cpu_op", "c10d::allreduce_", 1000, 100, **{"Call stack": stack}),
                  event("cpu_op", "record_param_comms", 1010, 80, **{"Call stack": stack}),
                  event("cuda_runtime", "cudaLaunchKernelExC", 1050, 5, correlation=1),
                  kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 1200, 50, correlation=1),
                  event("python_function", "/job/train.py(40): save", 1300, 200),
                  event("cpu_op", "c10d::allgather_", 1310, 100, **{"Call stack": "/job/train.py(44): save"}),
                  event("cuda_runtime", "cudaLaunchKernelExC", 1350, 5, correlation=2),
                  kernel("ncclDevKernel_AllGather_RING_LL(x)", 1410, 20, correlation=2)]
        files.append(tmp_path / f"rank{rank}.json")
        files[-1].write_text(json.dumps(kineto(rank, 2, events)))
    run_import(*files, "-o", tmp_path / "out")
    assert jobs.commtap("check", tmp_path / "out").returncode == 0
    found = {" > ".join(path): own for path, own in paths(analyse("calls", tmp_path / "out", "--noise", "2")["root"])}
    assert found == {"epoch > <module> > step > forward > c10d::allreduce_ > record_param_comms": {"ncclAllReduce": 2},
                     "epoch > save > c10d::allgather_": {"ncclAllGather": 2}}
    tree = jobs.commtap("calls", tmp_path / "out").stdout
    assert "net.py:21" in tree and "train.py:7" in tree and "train.py:40" in tree and "train.py:44" not in tree


def test_frames_of_a_flight_recorder(tmp_path):
    frames = [{"name": "all_reduce", "filename": "/usr/lib/python3/dist-packages/torch/distributed/c10d.py", "line": 9},
              {"name": "reduce_loss", "filename": "/job/train.py", "line": 41},
              {"name": "main", "filename": "??", "line": 0}]
    files = []
    for rank in range(2):
        files.append(tmp_path / f"trace_{rank}.json")
        files[-1].write_text(json.dumps(flight([{**entry(1), "frames": frames}, {**entry(2), "frames": frames[:1]},
                                                entry(3)], "[0, 1]")))
    run_import(*files, "-o", tmp_path / "out")
    found = {" > ".join(path): own for path, own in paths(analyse("calls", tmp_path / "out")["root"])}
    assert found == {"main > reduce_loss": {"ncclAllReduce": 2}, "all_reduce": {"ncclAllReduce": 2},
                     "": {"ncclAllReduce": 2}}
    # a recorder has no frames of autograd's engine: nothing tells the backward pass from the forward one
    assert "PASS" not in jobs.commtap("calls", tmp_path / "out").stdout


def test_frames_of_a_time_line(tmp_path):
    events = [{"ph": "M", "name": "thread_name", "pid": data, "tid": 1, "args": {"name": "PP rank 0, TP rank 0, dp-comm"}}
              for data in range(2)]
    events += [{"ph": "X", "name": "grads-reduce-scatter", "ts": 1000 * step, "dur": 100, "pid": data, "tid": 1,
                "sf": 7 if step else "9", "args": {"step": step, "seq_id": 0}} for step in range(3) for data in range(2)]
    (tmp_path / "line.json").write_text(json.dumps({
        "traceEvents": events, "stackFrames": {"7": {"name": "/job/train.py(12): reduce_gradients", "parent": "5"},
                                               "5": {"name": "main"}, "8": {"name": "loop", "parent": 8}}}))
    run_import(tmp_path / "line.json", "-o", tmp_path / "out")
    found = {" > ".join(path): own for path, own in paths(analyse("calls", tmp_path / "out")["root"])}
    assert found == {"main > reduce_gradients": {"grads-reduce-scatter": 4}, "": {"grads-reduce-scatter": 2}}


def test_flight_recorder(tmp_path):
    for rank in range(3):
        entries = [entry(n) for n in range(1, 5)]
        if rank != 1:
            entries.append(entry(5, "scheduled"))
        # pg_config may follow the entries that need it
        document = flight(entries)
        if rank == 2:
            document = dict(reversed(document.items()))
        (tmp_path / f"nccl_trace_rank_{rank}").write_text(json.dumps(document))
    run_import(*(tmp_path / f"nccl_trace_rank_{rank}" for rank in range(3)), "-o", tmp_path / "out")
    rows = {row["source"]: row for row in analyse("summary", tmp_path / "out")["summary"]}
    assert (rows["gpu-event"]["count"], rows["gpu-event"]["bytes"]) == (12, 128)
    assert rows["host"]["count"] == 14
    assert abs(rows["gpu-event"]["time_avg_us"] - 1500) < 1
    result = analyse("diagnose", tmp_path / "out")
    assert result["verdict"] != "ok"
    assert [(c["seq"], c["entered"], c["missing"]) for c in result["collectives"]] == [(5, [0, 2], [1])]


def test_imports_that_differ_in_a_word_are_different_runs(tmp_path):
    """Neither replaces the other; the same one again does."""
    for word in ("one", "another", "one"):
        document = {**flight([entry(1)], ranks="[0]"), "not understood": word}
        (tmp_path / "nccl_trace_rank_0").write_text(json.dumps(document))
        run_import(tmp_path / "nccl_trace_rank_0", "-o", tmp_path / "out")
    assert len({job["id"] for job in analyse("report", tmp_path / "out")["jobs"]}) == 2


@pytest.mark.parametrize("what", DIFFERENCES)
@pytest.mark.parametrize("earliest", [(1, 1, 1), (1, 3, 2)])
def test_what_flight_recorders_disagree_about(what, earliest, tmp_path):
    """Also where each ring begins elsewhere. Numbers are PyTorch's."""
    _, verdict, guilty = DIFFERENCES[what]
    for rank, document in enumerate(recorders_that_disagree(what, earliest)):
        (tmp_path / f"nccl_trace_rank_{rank}").write_text(json.dumps(document))
    run_import(*(tmp_path / f"nccl_trace_rank_{rank}" for rank in range(3)), "-o", tmp_path / "out")
    result = analyse("diagnose", tmp_path / "out")
    assert result["verdict"] == verdict
    assert {culprit["rank"] for culprit in result["culprits"]} == guilty
    assert "#5 on" in " ".join(result["text"])


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickled_flight_recorder_is_the_same_as_json(protocol, tmp_path):
    """As PyTorch writes it (protocol 2), and as Python does; tuples, shared values and keys that are numbers included."""
    shared = {"0": {"desc": "default_pg", "ranks": "[0, 1]"}, 7: {"desc": "other", "ranks": (0, 1)}}
    for rank in range(2):
        entries = [entry(n) for n in range(1, 4)] + [{**entry(1), "process_group": ("7", "other")}]
        document = {**flight(entries), "pg_config": shared, "pg_status": {0: shared, -1: 2.5, 1 << 40: None}}
        (tmp_path / f"pickled_rank_{rank}").write_bytes(pickle.dumps(document, protocol=protocol))
        (tmp_path / f"plain_rank_{rank}").write_text(json.dumps(document))
    outputs = []
    for way in ("pickled", "plain"):
        said = run_import(*(tmp_path / f"{way}_rank_{rank}" for rank in range(2)), "-o", tmp_path / way).stdout
        assert "2 of 2 ranks, 8 operations on 2 communicators" in said
        outputs.append(jobs.commtap("summary", "--by", "op,comm", "--format", "csv", tmp_path / way).stdout)
    assert outputs[0] == outputs[1]


def test_one_rank_that_cannot_be_read_does_not_lose_the_others(tmp_path):
    whole = pickle.dumps(flight([entry(n) for n in range(1, 5)], ranks="[0, 1, 2]"), protocol=2)
    for rank in range(3):
        (tmp_path / f"trace_rank_{rank}").write_bytes(whole[:-40] if rank == 1 else whole)
    done = run_import(*(tmp_path / f"trace_rank_{rank}" for rank in range(3)), "-o", tmp_path / "out")
    assert "trace_rank_1: at byte" in done.stderr and "left out: 1 documents" in done.stdout
    report = analyse("report", tmp_path / "out")
    assert [row["rank"] for row in report["ranks"]] == [0, 1, 2]
    assert "nothing is known of what 1 rank did (rank 1" in " ".join(f["text"] for f in report["findings"])


def grown(times):
    """A value that holds the same one twice, so often: a few bytes for a tree of 2 ** times values."""
    value = [1]
    for _ in range(times):
        value = [value, value]
    return value


def write_recorders(folder, documents):
    """Of each rank; bytes are a file's whole content."""
    folder.mkdir(parents=True)
    for rank, document in enumerate(documents):
        content = document if isinstance(document, bytes) else json.dumps(document).encode()
        (folder / f"nccl_trace_rank_{rank}").write_bytes(content)
    return folder


def diagnosis_of(tmp_path, documents):
    """The JSON, and the text in one line."""
    run_import(write_recorders(tmp_path / "given", documents), "-o", tmp_path / "out")
    said = jobs.commtap("diagnose", tmp_path / "out", codes=(0, 1)).stdout
    return analyse("diagnose", tmp_path / "out"), " ".join(said.split())


def reached(*states, ranks="[0, 1, 2]"):
    """A recorder whose rank came as far as these states of its collectives 1, 2, ... say."""
    return flight([{**entry(n, state), "time_discovered_started_ns": None if state == "scheduled" else 1}
                   for n, state in enumerate(states, 1)], ranks)


def malformed(document, **changes):
    return {**document, "entries": [{**one, **changes} for one in document["entries"]]}


WAITING, AWAY = reached("completed", "started"), reached("completed")


def test_who_differs_in_what_is_said(tmp_path):
    """Sizes that do not fit, and PyTorch's own names where they are all that differs."""
    says = {"input and output of one": "the sizes of ncclAllReduce #5 on default_pg do not fit: rank 1 called it with an "
                                       "input of 128 bytes and an output of 144, ranks 0, 2 with 128 bytes of each.",
            "sums of an all-to-all": "all ranks together put 12 bytes into it and take 24 out.",
            "two names of one function": "ranks 0, 2 called _reduce_scatter_base(128 bytes), rank 1 called "
                                         "reduce_scatter_tensor_coalesced(128 bytes)",
            "barrier and all-reduce": "ranks 0, 2 called barrier, rank 1 called ncclAllReduce(128 bytes)"}
    for number, (what, words) in enumerate(says.items()):
        assert words in diagnosis_of(tmp_path / str(number), recorders_that_disagree(what))[1]


def test_two_names_of_what_ended_are_no_disagreement(tmp_path):
    documents = [reached(*["completed"] * 3) for _ in range(3)]
    documents[1]["entries"][1]["profiling_name"] = "nccl:allreduce_coalesced"
    assert diagnosis_of(tmp_path, documents)[0]["verdict"] == "ok"


def test_all_have_called_and_nobody_was_seen_to_begin(tmp_path):
    """The transport is not to blame for what no GPU is known to have begun."""
    for number, (document, words) in enumerate([
            (reached("completed", "scheduled"), "no GPU is on record as having begun it"),
            (flight([entry(1), entry(2, "scheduled")]), "whether their GPUs began it is not on record")]):
        text = diagnosis_of(tmp_path / str(number), [document] * 3)[1]
        assert "#2 on default_pg: ranks 0-2 wait though all members have called it; " + words in text
        assert "transport" not in text
    text = diagnosis_of(tmp_path / "begun", [WAITING] * 3)[1]
    assert "all members have come: it does not move, which points at the transport" in text


def message(number, name, state="completed"):
    return {**entry(number, state, "nccl:" + name), "is_p2p": True, "collective_seq_id": 0, "p2p_seq_id": number,
            "time_discovered_started_ns": 1}


def test_messages_have_the_numbers_of_their_recorder(tmp_path):
    """Not those of what it still holds."""
    sender = flight([message(n, "send 0->1") for n in range(17, 21)], "[0, 1]")
    receiver = flight([message(n, "recv 1<-0") for n in range(37, 41)] + [message(41, "recv 1<-0", "started")], "[0, 1]")
    for document in (sender, receiver):
        for record, one in enumerate(document["entries"], 16):
            one["record_id"] = record
    assert "rank 1 in ncclRecv(source 0, p2p_seq_id 41) on default_pg" in diagnosis_of(tmp_path, [sender, receiver])[1]


def test_a_file_of_something_else_is_no_recorder(tmp_path):
    """Rank 1 left none; what lies there ends in its number, too."""
    given = write_recorders(tmp_path / "given", [WAITING, b"", WAITING])
    (given / "nccl_trace_rank_1").rename(given / "core.1")
    run_import(given, "-o", tmp_path / "out")
    found = analyse("diagnose", tmp_path / "out")
    assert (found["verdict"], [c["state"] for c in found["culprits"]]) == ("dead_rank", ["no_dump"])


def test_a_batch_of_messages_is_no_collective(tmp_path):
    documents = []
    for rank in range(2):
        batch = [message(1, f"send {rank}->{1 - rank}", "scheduled"), message(1, f"recv {rank}<-{1 - rank}", "scheduled"),
                 message(1, "coalesced")]
        documents.append(flight([entry(1), *batch], "[0, 1]"))
    diagnosis_of(tmp_path, documents)
    tree = json.loads(jobs.commtap("calls", "--format", "commdebug", tmp_path / "out").stdout)
    assert "ncclAllReduce" in json.dumps(tree) and "ncclGroupEnd" not in json.dumps(tree)


def test_how_long_a_recorder_is_silent_ends_with_its_file(tmp_path):
    """Not with the moment at which it is looked at; of members of an archive no such time is known."""
    given = write_recorders(tmp_path / "given", [WAITING, AWAY, WAITING])
    newest_ns = entry(2)["time_created_ns"]
    for name in os.listdir(given):
        os.utime(given / name, ns=(newest_ns + 640_000_000_000,) * 2)
    run_import(given, "-o", tmp_path / "out")
    culprit, = analyse("diagnose", tmp_path / "out")["culprits"]
    assert culprit["rank"] == 1 and abs(culprit["away_seconds"] - 641) < 1
    assert "its newest entry 641 s old when the file was written" in culprit["reason"]
    assert "library" not in culprit["reason"]
    with tarfile.open(tmp_path / "all.tar", "w") as tar:
        for name in os.listdir(given):
            tar.add(given / name, name)
    run_import(tmp_path / "all.tar", "-o", tmp_path / "archive")
    found = analyse("diagnose", tmp_path / "archive")
    assert found["verdict"] == "hang" and abs(found["culprits"][0]["away_seconds"] - 1) < 0.01


def test_no_steps_are_found_by_knobs_of_another_tool(tmp_path):
    diagnosis_of(tmp_path, [WAITING, AWAY, WAITING])
    said = jobs.commtap("steps", tmp_path / "out").stdout
    assert "no steps found" in said and "COMMTAP_" not in said


def test_a_hang_beside_a_desync_is_told(tmp_path):
    """In a group of its own; a wait for those who disagree is a consequence, and not told."""
    documents = []
    groups = {str(n): {"desc": f"tp_{n}", "ranks": ranks} for n, ranks in enumerate(["[0, 1]", "[2, 3]", "[0, 2]"])}
    for rank in range(4):
        group, entries = str(rank // 2), []
        for one in [entry(1), *([] if rank == 1 else [entry(2, "started")])]:
            entries.append({**one, "process_group": [group, "tp"], "time_discovered_started_ns": 1})
        if rank == 3:
            entries[-1]["profiling_name"] = "nccl:broadcast"
        if rank == 0:
            entries.append({**entry(1, "started"), "process_group": ["2", "tp"]})
        documents.append({**flight(entries), "pg_config": groups})
    found, text = diagnosis_of(tmp_path, documents)
    assert found["verdict"] == "desync" and {c["rank"] for c in found["culprits"]} == {2, 3}
    assert "That does not explain another wait: ncclAllReduce #2 on tp_0: rank 0 waits; rank 1 never began it." in text
    assert "on tp_2" not in text


def test_a_rank_of_which_nothing_is_known_beside_a_desync(tmp_path):
    """It is missing in the very collective that the others disagree about."""
    documents = [reached("completed", "started", ranks="[0, 1, 2, 3]") for _ in range(3)]
    documents[1]["entries"][1].update(input_sizes=[[2, 8]], output_sizes=[[2, 8]])
    found, text = diagnosis_of(tmp_path, [*documents, pickle.dumps(documents[0], protocol=2)[:-40]])
    assert found["verdict"] == "desync" and [c["rank"] for c in found["culprits"]] == [1]
    assert ("Besides, not all of its members are known to have come to it: ncclAllReduce #2 on default_pg: ranks 0-2 "
            "wait; whether rank 3 began it is not known: nothing in the file could be read.") in text
    assert "does not explain" not in text


def test_messages_before_whose_times_are_not_on_record(tmp_path):
    """The watchdog's looks tell no durations: that is not to say that there were none."""
    given = write_recorders(tmp_path / "given", [
        flight([{**message(n, name, "completed" if n < 6 else "started"), "duration_ms": None} for n in range(1, 7)],
               "[0, 1]") for name in ("send 0->1", "recv 1<-0")])
    for name in os.listdir(given):
        os.utime(given / name, ns=(entry(6)["time_created_ns"] + 9_000_000,) * 2)
    run_import(given, "-o", tmp_path / "out")
    found = analyse("diagnose", tmp_path / "out")
    assert found["verdict"] == "ok"
    assert found["text"][0].endswith("was 9.0 ms old; how long those before it took is not on record.")


def test_another_backend_has_its_own_names(tmp_path):
    documents = [malformed(document, profiling_name="gloo:all_reduce") for document in (WAITING, AWAY, WAITING)]
    assert "gloo:all_reduce #2 on default_pg: ranks 0, 2 wait" in diagnosis_of(tmp_path, documents)[1]


UNREAD = {
    "pickle that names": pickle.dumps({"entries": [os.system]}, protocol=2),
    "cut": json.dumps(WAITING).encode()[:-9],
    "pickle that grows": pickle.dumps({"entries": grown(24)}, protocol=2),
    "empty": b"",
    "entries in a dictionary": {**WAITING, "entries": {"0": WAITING["entries"][0]}},
    "groups in a list": {**WAITING, "pg_config": list(WAITING["pg_config"].values())},
    "no names": malformed(WAITING, profiling_name=None),
    "numbers that are none": malformed(WAITING, collective_seq_id="second"),
    "ranks that are none": {**WAITING, "pg_config": {"0": {"desc": "default_pg", "ranks": "many"}}},
}


@pytest.mark.parametrize("what", UNREAD)
def test_a_recorder_that_cannot_be_read_accuses_nobody(what, tmp_path):
    """Rank 1's says nothing: rank 2, which is known not to have come, is named; alone rank 1 is unknown, not dead."""
    found, text = diagnosis_of(tmp_path / "two", [WAITING, UNREAD[what], AWAY])
    assert (found["verdict"], [culprit["rank"] for culprit in found["culprits"]]) == ("hang", [2])
    assert "rank 2 never began it; whether rank 1 did is not known: nothing in the file could be read." in text
    found, text = diagnosis_of(tmp_path / "one", [WAITING, UNREAD[what], WAITING])
    assert found["verdict"] == "unknown"
    assert [(c["rank"], c["state"]) for c in found["culprits"]] == [(1, "not_collected")]
    assert "wait for rank 1, of which nothing is known" in text and "dead" not in text


def test_a_complete_flight_recorder_does_not_tell_how_the_job_ended(tmp_path):
    for rank in range(2):
        document = flight([entry(n) for n in range(1, 5)], ranks="[0, 1]")
        (tmp_path / f"nccl_trace_rank_{rank}").write_text(json.dumps(document))
    run_import(*(tmp_path / f"nccl_trace_rank_{rank}" for rank in range(2)), "-o", tmp_path / "out")
    report = analyse("report", tmp_path / "out")
    assert [row["state"] for row in report["ranks"]] == [None, None]
    assert {"killed", "running", "no_finalize"}.isdisjoint(f["code"] for f in report["findings"])


def test_output_depends_on_the_trace_alone(tmp_path):
    archive = os.path.join(TRACES, "dlrm_kineto.tar.gz")
    with tarfile.open(archive) as tar:
        members = [m for m in tar.getmembers() if m.isfile()]
        for member in members:
            (tmp_path / os.path.basename(member.name)).write_bytes(tar.extractfile(member).read())
    plain = sorted(tmp_path.glob("*.json"), reverse=True)
    (tmp_path / "first.json.gz").write_bytes(gzip.compress(plain[0].read_bytes()))
    run_import(archive, "-o", tmp_path / "a")
    run_import(tmp_path / "first.json.gz", *plain[1:], "-o", tmp_path / "b")
    files = sorted(os.listdir(tmp_path / "a"))
    assert files == sorted(os.listdir(tmp_path / "b")) and len(files) == 8
    summaries = [jobs.commtap("summary", "--format", "csv", tmp_path / d).stdout for d in "ab"]
    assert summaries[0] == summaries[1]


GOOD = json.dumps(kineto(0, 1, [kernel("ncclKernel_AllReduce_x", 1, 2)]))

HOSTILE = {
    "empty": (b"", "at byte 0"),
    "no json": (b"hello", "at byte 1: neither"),
    "cut": (GOOD[:-5].encode(), "the document ends too early"),
    "cut in a string": (b'{"traceEvents": [{"name": "ncc', "the document ends too early"),
    "wrong value": (b'{"traceEvents": [{"ph": X}]}', "at byte "),
    "no comma": (b'{"traceEvents": [1 2]}', "a comma is missing"),
    "trailing": (GOOD.encode() + b"]", "something follows"),
    "deep": (b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}", "nested more than 512 deep"),
    "nothing": (b"{}", "nothing in it"),
    "rank beyond": (json.dumps(kineto(7, 2, [kernel("ncclKernel_AllReduce_x", 1, 2)])).encode(), "distributedInfo"),
    "huge world": (json.dumps(kineto(0, 1 << 30, [kernel("ncclKernel_AllReduce_x", 1, 2)])).encode(), "distributedInfo"),
    "years apart": (json.dumps(kineto(0, 1, [kernel("ncclKernel_AllReduce_x", 1, 2),
                                             kernel("ncclKernel_AllReduce_x", 2e15, 2)])).encode(), "a year apart"),
    "cut pickle": (b"\x80\x02}q\x00(X\x07\x00\x00\x00entri", "at byte 6: the pickle ends too early"),
    "pickle that names": (pickle.dumps({"entries": [os.system]}, protocol=2), "GLOBAL: the pickle holds more than data"),
    "pickle that names by strings": (pickle.dumps({"entries": [os.system]}, protocol=4), "STACK_GLOBAL: "),
    "pickle that calls": (pickle.dumps({"entries": {1, 2}}, protocol=2), "GLOBAL: "),
    "pickle with an id": (b"\x80\x02}(X\x01\x00\x00\x00aX\x01\x00\x00\x00bQu.", "BINPERSID: "),
    "pickle in itself": (b"\x80\x02]q\x00h\x00a.", "at byte 7: a value is changed that is part of others"),
    "pickle in itself by a detour": (b"\x80\x02]q\x00]q\x01h\x00aa.", "a value is changed that is part of others"),
    "deep pickle": (b"\x80\x02" + b"]" * 5000 + b"a" * 4999 + b".", "nested more than 512 deep"),
    "pickle without a mark": (b"\x80\x02]NNe.", "no mark is there"),
    "pickle of a mark": (b"\x80\x02(.", "ends without a value"),
    "pickle with half an item": (b"\x80\x02}(Nu.", "a key without a value"),
    "pickle with a list as key": (b"\x80\x02}(]Nu.", "a key is neither a string nor a whole number"),
    "pickle of a number": (b"\x80\x02K\x01.", "neither a list nor a dictionary"),
    "pickle with a long number": (pickle.dumps({"a": 1 << 70}, protocol=2), "a number of more than 64 bits"),
    "pickle with bytes": (b"\x80\x03]C\x02\xff\xfea.", "a string is not UTF-8"),
    "pickle and more": (pickle.dumps({"entries": []}, protocol=2) + b"x", "something follows the pickle"),
    "pickle of a later machine": (b"\x80\x02\xf0.", "opcode 0xf0"),
    "pickle that grows": (pickle.dumps({"entries": grown(24)}, protocol=2), "memory"),
    "cut gzip": (gzip.compress(GOOD.encode() * 500)[:60], ""),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_files(what, tmp_path):
    content, words = HOSTILE[what]
    (tmp_path / "trace_0.json").write_bytes(content)
    refused = run_import(tmp_path / "trace_0.json", "-o", tmp_path / "out", code=3)
    assert "trace_0.json" in refused.stderr or "profiler" in refused.stderr
    assert words in refused.stderr
    assert not (tmp_path / "out").exists()


def test_strange_values_are_left_out(tmp_path):
    good = kernel("ncclKernel_AllReduce_x", 10, 5)
    strange = [kernel("ncclKernel_AllReduce_x", "soon", 5), kernel("ncclKernel_AllReduce_x", 1e300, 5),
               kernel("ncclKernel_AllReduce_x", 10, -5), kernel("ncclKernel_Nothing_x", 10, 5),
               kernel("ncclKernel_AllReduce_x", 20, 5, **{"Process Group Ranks": "[0, 1, ...]", "Group size": 9}),
               kernel("ncclKernel_AllReduce_x", 20, 5, **{"Process Group Ranks": [5]}), 17, None, [], {}]
    (tmp_path / "t.json").write_text(json.dumps(kineto(0, 1, [good, *strange])))
    said = run_import(tmp_path / "t.json", "-o", tmp_path / "out").stdout
    assert "1 of 1 ranks, 1 operations" in said and "left out: 6 events" in said
    assert jobs.commtap("check", tmp_path / "out").returncode == 0


def test_usage(tmp_path):
    run_import(tmp_path / "x", code=2)
    assert "No such file" in run_import(tmp_path / "x", "-o", tmp_path / "out", code=3).stderr
