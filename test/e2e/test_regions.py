# SPDX-License-Identifier: Apache-2.0
#
# COMMTAP_REGION: inside every call is counted, outside none, Init and Finalize included.
# Must not live here: ranges of several threads at once (test/unit/test_nvtx.c), what the report says (test_said.py).
import pytest

import jobs
import test_nccl_calls


def counts(directory):
    found = {}
    for row in jobs.summary(directory)["summary"]:
        if row["source"] == "host":
            found[row["op"], row["bytes"]] = found.get((row["op"], row["bytes"]), 0) + row["count"]
    return found


def test_pcontrol_begins_and_ends_what_is_recorded(mpi, tmp_path):
    jobs.run(mpi, 2, [jobs.program(mpi, "pcontrol")], tmp_path, knobs={"COMMTAP_REGION": "pcontrol"})
    assert counts(tmp_path) == {("MPI_Allreduce", 24): 2, ("MPI_Allreduce", 8): 2, ("MPI_Allreduce", 32): 8,
                                ("MPI_Finalize", 0): 2}


def test_ranges_begin_and_end_what_is_recorded(mpi, tmp_path):
    """A range that was open before MPI_Init counts, and one thread's range is a region for all."""
    knobs = {"COMMTAP_REGION": "nvtx:train *", "COMMTAP_STACK": "off"}
    jobs.run(mpi, 2, [jobs.program(mpi, "ranges"), "regions"], tmp_path, knobs=knobs)
    assert counts(tmp_path) == {("MPI_Init_thread", 0): 2, ("MPI_Barrier", 0): 2 * (1 + 2 + 4 + 8)}


def test_a_range_that_never_comes_leaves_nothing_to_count(mpi, tmp_path):
    jobs.run(mpi, 2, [jobs.program(mpi, "ranges"), "regions"], tmp_path, knobs={"COMMTAP_REGION": "nvtx:test *"})
    assert counts(tmp_path) == {}
    assert "COMMTAP_REGION" in jobs.commtap("summary", tmp_path).stdout


@pytest.mark.parametrize("timing, source", [("events", "gpu-event"), ("kernel", "in-kernel")])
def test_the_profilers_switch_begins_and_ends_what_is_recorded(timing, source, tmp_path):
    """On the host and on the GPU."""
    directory, books = test_nccl_calls.play("profiled", 2, tmp_path, COMMTAP_REGION="profiler",
                                            COMMTAP_GPU_TIMING=timing)
    assert books["ncclAllReduce", "calls"] == 4
    rows = jobs.summary(directory)["summary"]
    assert {(row["op"], row["source"], row["count"]) for row in rows} == {
        ("ncclAllReduce", "host", 4), ("ncclAllReduce", source, 4)}
    assert {record["seq"] for record in jobs.records(directory) if record["op"] == "ncclAllReduce"} == {3, 4}
    assert "unseen_calls" not in {finding["code"] for finding in jobs.report(directory)["findings"]}


def test_functions_left_out_are_not_timed_on_the_gpu_either(tmp_path):
    directory, _ = test_nccl_calls.play("all", 2, tmp_path, COMMTAP_OPS="allgather")
    assert {row["op"] for row in jobs.summary(directory)["summary"]} == {"ncclAllGather"}
