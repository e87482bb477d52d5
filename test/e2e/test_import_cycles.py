# SPDX-License-Identifier: Apache-2.0
#
# What torch.profiler's schedule leaves: a trace per cycle and rank, as tensorboard_trace_handler names and Kineto writes
# them. Must not live here: what single traces hold (test_import.py).
import gzip
import json

import jobs
import pytest
from test_import import analyse, kernel, launch, run_import

BASE = 1_775_001_600_000_000_000  # Kineto counts from the beginning of a quarter
STEP, GAP = 1000, 4000            # us


def write_trace(folder, rank, cycle, world=2, worker=None, steps=3, base=BASE, marked=True, zipped=True, at=None, late=0):
    """The cycle's steps, each with a reduction of cycle + 1 thousand elements at 400 to 500 us, with wait=1, warmup=3."""
    begin = 10_000 + cycle * (3 * STEP + GAP) if at is None else at
    events = [{"ph": "X", "cat": "Trace", "ts": begin - 5, "dur": steps * STEP + 10, "pid": "Spans",
               "tid": "PyTorch Profiler", "name": "PyTorch Profiler (0)", "args": {"Op count": 0}},
              {"name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g", "pid": "Traces",
               "tid": "Trace PyTorch Profiler", "ts": begin - 5}]
    for step in range(steps):
        start, number = begin + step * STEP, 100 * cycle + step
        if marked:
            events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{4 + 7 * cycle + step}", "pid": 7,
                           "tid": 7, "ts": start, "dur": STEP, "args": {}})
        events += [launch(start + 300, number),
                   kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", start + 400 + late, 100 - late, correlation=number,
                          device=rank, **{"Collective name": "allreduce", "In msg nelems": 1000 * (cycle + 1),
                                          "Out msg nelems": 1000 * (cycle + 1), "dtype": "Float", "Group size": world,
                                          "Process Group Name": "0", "Process Group Ranks": str(list(range(world)))}),
                   kernel("void gemm()", start + 600, 300, correlation=number + 50, device=rank)]
    events.append({"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", "ts": begin + steps * STEP + 5})
    document = {"schemaVersion": 1, "deviceProperties": [{"id": 0}, {"id": 1}], "displayTimeUnit": "ms",
                "baseTimeNanoseconds": base, "traceEvents": events, "traceName": "x"}
    if world > 1:
        document["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": world, "pg_count": 1, "pg_config": [
            {"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": world,
             "ranks": list(range(world))}], "nccl_version": "2.27.5"}
    name = f"{worker or f'node1_{500 + rank}'}.{base + (begin + 4000) * 1000}.pt.trace.json"
    text = json.dumps(document).encode()
    folder.mkdir(exist_ok=True)
    path = folder / (name + ".gz" if zipped else name)
    path.write_bytes(gzip.compress(text) if zipped else text)
    return path


def steps_of(directory, rank):
    return [row for row in analyse("steps", directory, "--by", "both")["rows"] if row["rank"] == rank]


def reductions(directory):
    return {row["bytes"]: row["count"] for row in analyse("summary", directory)["summary"] if row["source"] == "gpu-event"}


@pytest.mark.parametrize("zipped", [True, False])
def test_cycles_are_stretches_of_one_rank(tmp_path, zipped):
    for cycle in (1, 0, 2):
        for rank in range(2):
            write_trace(tmp_path / "log", rank, cycle, zipped=zipped, late=rank * 40)
    run_import(tmp_path / "log", "-o", tmp_path / "out")
    assert reductions(tmp_path / "out") == {4000: 6, 8000: 6, 12000: 6}
    for rank in range(2):
        rows = steps_of(tmp_path / "out", rank)
        assert [row["step"] for row in rows] == list(range(9))
        assert {round(row["step_seconds"] * 1e6) for row in rows} == {STEP}  # what lies between cycles is no step
    # the GPU is idle between kernels of one cycle, not between cycles
    gpu = analyse("steps", tmp_path / "out")["gpus"][0]
    assert gpu["busy_seconds"] == pytest.approx(9 * 100e-6)
    assert gpu["kernel_seconds"] == pytest.approx(3 * (2 * STEP + 100) / 1e6)
    report = analyse("report", tmp_path / "out")
    assert report["coverage"]["matched_share"] == 1
    assert [round(row["comm_seconds"] * 1e6) for row in report["ranks"]] == [900, 540]
    assert report["coverage"]["partial"]
    assert report["coverage"]["covered_seconds"] == pytest.approx(9 * STEP / 1e6, rel=0.1)
    assert "cycles" in next(f["text"] for f in report["findings"] if f["code"] == "paused")
    assert "MPI_" not in jobs.commtap("report", tmp_path / "out").stdout


def test_a_rank_that_lost_a_cycle_is_compared_in_the_others(tmp_path):
    for cycle in range(3):
        write_trace(tmp_path / "log", 0, cycle)
    for cycle in (1, 2):
        write_trace(tmp_path / "log", 1, cycle, late=40)
    run_import(tmp_path / "log", "-o", tmp_path / "out")
    report = analyse("report", tmp_path / "out")
    # rank 0 waited 40 us in each of six reductions; matched with those of other cycles it were milliseconds
    assert [round(row["wait_seconds"] * 1e6) for row in report["ranks"]] == [240, 0]
    assert report["coverage"]["covered_seconds"] == pytest.approx(6 * STEP / 1e6, rel=0.1)


def test_traces_of_one_rank_that_overlap_are_refused_by_name(tmp_path):
    first = write_trace(tmp_path / "log", 0, 0)
    write_trace(tmp_path / "log", 1, 0)
    refused = run_import(first, first, tmp_path / "log", "-o", tmp_path / "out", code=3).stderr
    assert f"two traces of rank 0 overlap in time: {first.name} and {first.name}" in refused
    # the last kernel of one ends at 12.9 ms, its last step at 13
    for at, fine in ((12_999, False), (13_000, True)):
        folder = tmp_path / f"at{at}"
        for rank in range(2):
            write_trace(folder, rank, 0)
            second = write_trace(folder, rank, 1, at=at)
        done = run_import(folder, "-o", tmp_path / f"out{at}", code=0 if fine else 3)
        assert fine or second.name.replace("node1_501", "node1_500") in done.stderr
        assert not fine or len(steps_of(tmp_path / f"out{at}", 0)) == 6


def test_without_steps_the_cycles_are_counted(tmp_path):
    for cycle in range(2):
        for rank in range(2):
            write_trace(tmp_path / "log", rank, cycle, marked=False)
    run_import(tmp_path / "log", "-o", tmp_path / "out")
    assert reductions(tmp_path / "out") == {4000: 6, 8000: 6}
    assert analyse("report", tmp_path / "out")["coverage"]["matched_share"] == 1
    # of a rank with fewer traces nothing tells which they are
    write_trace(tmp_path / "log", 0, 2, marked=False)
    refused = run_import(tmp_path / "log", "-o", tmp_path / "fewer", code=3).stderr
    assert "the ranks have not as many traces each" in refused


def test_cycles_of_a_process_that_communicates_with_nobody(tmp_path):
    for cycle in range(2):
        write_trace(tmp_path / "log", 0, cycle, world=1)
    assert "1 of 1 ranks" in run_import(tmp_path / "log", "-o", tmp_path / "out").stdout
    assert len(steps_of(tmp_path / "out", 0)) == 6
    # of two processes without a rank nothing tells who they are
    write_trace(tmp_path / "log", 0, 2, world=1, worker="node1_9")
    assert "distributedInfo" in run_import(tmp_path / "log", "-o", tmp_path / "two", code=3).stderr


def test_traces_that_count_from_different_moments(tmp_path):
    """As of a job that was started again in the next quarter."""
    quarter = 91 * 86400 * 10**9
    for rank in range(2):
        write_trace(tmp_path / "log", rank, 0)
        write_trace(tmp_path / "log", rank, 1, base=BASE + quarter, at=10_000)
    run_import(tmp_path / "log", "-o", tmp_path / "out")
    rows = steps_of(tmp_path / "out", 0)
    assert len(rows) == 6 and {round(row["step_seconds"] * 1e6) for row in rows} == {STEP}
