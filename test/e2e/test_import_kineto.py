# SPDX-License-Identifier: Apache-2.0
#
# Traces of torch.profiler whose process groups, messages, numbers and hosts are told in the words of PyTorch.
# Must not live here: steps and frames of such traces (test_import.py), several of one rank (test_import_cycles.py).
import json

import pytest

import jobs
from flight_recorders import entry, flight
from test_import import analyse, kernel, kineto, launch, run_import

ANNOTATED = "nccl:{} {}{}{}"


def call(name, at, length, cat="cpu_op", **arguments):
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": at, "dur": length, "args": arguments}


def write(folder, traces, names="rank{}.json"):
    folder.mkdir(exist_ok=True)
    for rank, events in enumerate(traces):
        document = events if isinstance(events, dict) else kineto(rank, len(traces), events)
        (folder / names.format(rank)).write_text(json.dumps(document))
    return folder


def words(name, number, group, elements=4096, **more):
    """What PyTorch says of a call on the process group "5" of these ranks."""
    return {"Collective name": name, "In msg nelems": elements, "Out msg nelems": elements, "Group size": len(group),
            "dtype": "BFloat16", "Process Group Name": "5", "Process Group Description": "mesh_pp",
            "Process Group Ranks": str(group), "Seq": number, **more}


def message(sending, number, at, how, elements=4096):
    """Rank 1 sends to rank 3, in a group of both: world rank 3 is 1 there."""
    name, own, arrow, other = ("send", 0, "->", 1) if sending else ("recv", 1, "<-", 0)
    told = words(name, number, [1, 3], elements)
    if "world" in how:
        told["Dst Rank" if sending else "Src Rank"] = 3 if sending else 1
    if "group" in how:
        told["Rank"] = other
    title = ANNOTATED.format(name, own, arrow, other) if "title" in how else f"nccl:{name}"
    return [call("record_param_comms", at - 20, 60, **told), call(title, at - 10, 40, "user_annotation"),
            launch(at, 100 + number),
            kernel("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", at + 100, 500, correlation=100 + number,
                   **({} if "call" in how else told))]


@pytest.mark.parametrize("how", [("world",), ("group",), ("world", "group"), ("title",), ("call", "world"),
                                 ("call", "group"), ("call", "title")])
def test_messages_of_a_profiler_trace(how, tmp_path):
    """"Dst Rank" and "Src Rank" are world ranks, "Rank" and the annotation's numbers are of the group."""
    traces = [[kernel("void gemm()", 1000, 50)] for _ in range(4)]
    for number in range(3):
        traces[1] += message(True, number, 10_000 * (number + 1), how, 4096 + number)
        traces[3] += message(False, number, 10_000 * (number + 1) - 300, how, 4096 + number)
    said = run_import(write(tmp_path / "log", traces), "-o", tmp_path / "out").stdout
    assert "4 of 4 ranks, 6 operations on 1 communicators" in said and "left out" not in said
    links = analyse("links", tmp_path / "out")["links"]
    assert [(row["from"], row["to"], row["messages_matched"], row["bytes"]) for row in links] == [
        (1, 3, 3, 2 * (3 * 4096 + 3))]
    rows = [row for row in analyse("summary", tmp_path / "out")["summary"] if row["source"] == "gpu-event"]
    assert {(row["op"], row["comm_name"], row["comm_role"]) for row in rows} == {
        ("ncclSend", "mesh_pp 5", "PP"), ("ncclRecv", "mesh_pp 5", "PP")}
    assert "100.0 % of sends and receives paired" in " ".join(jobs.commtap("report", tmp_path / "out").stdout.split())


def batch(rank, number, at, world=4):
    """batch_isend_irecv: the calls launch nothing, one kernel does what both said."""
    events = []
    for place, (name, key, other) in enumerate((("send", "Dst Rank", (rank + 1) % world),
                                                ("recv", "Src Rank", (rank - 1) % world))):
        told = words(name, number, list(range(world)), 512 + number, **{key: other})
        events.append(call("record_param_comms", at + 20 * place, 15, **told))
    return events + [call("nccl:coalesced", at + 50, 40, "user_annotation"), launch(at + 60, 100 + number),
                     kernel("ncclDevKernel_SendRecv(x)", at + 200, 700, correlation=100 + number)]


def test_messages_that_are_launched_together(tmp_path):
    traces = [[event for number in range(5) for event in batch(rank, number, 10_000 * (number + 1))] for rank in range(4)]
    said = run_import(write(tmp_path / "log", traces), "-o", tmp_path / "out").stdout
    assert "left out" not in said
    rows = analyse("links", tmp_path / "out")["links"]
    assert {(row["from"], row["to"], row["messages_matched"], row["bytes"]) for row in rows} == {
        (rank, (rank + 1) % 4, 5, 2 * sum(512 + number for number in range(5))) for rank in range(4)}
    assert jobs.commtap("check", tmp_path / "out").returncode == 0


def test_what_is_left_out_is_told_with_what_it_lacks(tmp_path):
    traces = [[kernel("ncclDevKernel_AllReduce_Sum_f32(x)", 1000, 50)] for _ in range(4)]
    traces[1] += message(True, 0, 10_000, ())
    traces[2].append(kernel("ncclDevKernel_Something(x)", 20_000, 50))
    traces[2].append(kernel("ncclDevKernel_AllReduce_Sum_f32(x)", 30_000, 50, **{"Group size": 2}))
    said = run_import(write(tmp_path / "log", traces), "-o", tmp_path / "out").stdout
    assert ("left out: 3 events that say too little: 1 kernel that does not say what it does, 1 kernel whose process "
            "group does not tell its ranks, 1 kernel that sends or receives and does not say with whom\n") in said


def reduction(at, elements, number=None, name="allreduce", dtype="Float"):
    told = {"Collective name": name, "In msg nelems": elements, "Out msg nelems": elements, "dtype": dtype}
    if number is not None:
        told["Seq"] = number
    return kernel("ncclDevKernel_AllReduce_Sum_f32(x)", at, 50, **told)


def test_numbers_of_pytorch_tell_which_collectives_belong_together(tmp_path):
    """Rank 1's trace begins one collective later, and lost another one."""
    traces = [[reduction(1000 * number, 100 * number, number) for number in range(10, 20) if (rank, number) not in (
        (1, 10), (1, 14))] for rank in range(2)]
    run_import(write(tmp_path / "log", traces), "-o", tmp_path / "out")
    report = analyse("report", tmp_path / "out")
    assert not [f for f in report["findings"] if f["severity"] == "error"]
    assert report["coverage"]["matched_share"] == pytest.approx(16 / 18)
    # without them nothing tells: those of one place are none of one kind
    for events in traces:
        for event in events:
            del event["args"]["Seq"]
    said = run_import(write(tmp_path / "log", traces), "-o", tmp_path / "untold").stdout
    assert "note: the ranks' traces do not hold the same operations of default process group" in said
    report = analyse("report", tmp_path / "untold")
    assert not [f for f in report["findings"] if f["severity"] == "error"]
    assert report["coverage"]["matched_share"] == 0
    assert jobs.commtap("check", tmp_path / "untold").returncode == 0


def test_sizes_of_its_own_are_no_disagreement(tmp_path):
    """Of an exchange with splits every rank has another size."""
    traces = [[reduction(1000 * i, 100 * (rank + 1), name="all_to_allv") for i in range(4)] for rank in range(2)]
    said = run_import(write(tmp_path / "log", traces), "-o", tmp_path / "out").stdout
    assert "note:" not in said
    report = analyse("report", tmp_path / "out")
    assert report["coverage"]["matched_share"] == 1
    assert not [f for f in report["findings"] if f["severity"] == "error"]


def test_a_number_that_repeats_is_none(tmp_path):
    """Coalesced collectives share a number: their places in the traces tell."""
    traces = [[reduction(1000 * i, 100, i // 2) for i in range(6)] for _ in range(2)]
    run_import(write(tmp_path / "log", traces), "-o", tmp_path / "out")
    assert analyse("report", tmp_path / "out")["coverage"]["matched_share"] == 1


def on_gpus(gpus, seen):
    """One trace per rank, which sees so many GPUs and works on this one of them."""
    traces = []
    for rank, gpu in enumerate(gpus):
        trace = kineto(rank, len(gpus), [kernel("ncclDevKernel_AllReduce_Sum_f32(x)", 1000 * i, 50, device=gpu)
                                         for i in range(1, 4)])
        traces.append({**trace, "deviceProperties": [{"id": i, "name": "NVIDIA H100"} for i in range(seen)]})
    return traces


def hosts_of(directory):
    report = analyse("report", directory)
    return report["job"]["hosts"], [row["host"] for row in report["ranks"]]


@pytest.mark.parametrize("gpus, seen, names, hosts", [
    ((0, 1, 0, 1), 8, ("nodea_10.1.pt.trace.json", "nodea_11.1.pt.trace.json", "nodeb_12.1.pt.trace.json",
                       "nodeb_13.1.pt.trace.json"), ["nodea", "nodea", "nodeb", "nodeb"]),
    # every process sees its own GPU alone: the names tell
    ((0, 0, 0, 0), 1, ("nodea_10.1.pt.trace.json", "nodeb_11.1.pt.trace.json", "nodea_12.1.pt.trace.json",
                       "nodeb_13.1.pt.trace.json"), ["nodea", "nodeb", "nodea", "nodeb"]),
    # containers of one name: two ranks on one GPU are not on one host
    ((0, 1, 0, 1), 8, [f"main_{rank}.1.pt.trace.json" for rank in range(4)], ["host0", "host0", "host1", "host1"]),
    ((0, 1, 0, 1), 8, [f"rank{rank}.json" for rank in range(4)], ["host0", "host0", "host1", "host1"]),
    ((0, 1, 0, 1), 2, [f"rank{rank}.json" for rank in range(4)], ["host0", "host0", "host1", "host1"]),
    ((3, 1, 2, 0), 4, [f"rank{rank}.json" for rank in range(4)], ["host0"] * 4),
    # nothing tells
    ((0, 0, 0, 0), 1, [f"rank{rank}.json" for rank in range(4)], [None] * 4)])
def test_hosts_of_a_profiler_trace(gpus, seen, names, hosts, tmp_path):
    (tmp_path / "log").mkdir()
    for name, trace in zip(names, on_gpus(gpus, seen)):
        (tmp_path / "log" / name).write_text(json.dumps(trace))
    run_import(tmp_path / "log", "-o", tmp_path / "out")
    assert hosts_of(tmp_path / "out") == (len({host for host in hosts if host}), hosts)
    page = jobs.commtap("report", tmp_path / "out").stdout
    assert ("4 ranks on " in page) == (hosts[0] is not None)


def test_flight_recorders_tell_no_hosts(tmp_path):
    for rank in range(2):
        document = flight([entry(number) for number in range(1, 4)], "[0, 1]")
        (tmp_path / f"trace_{rank}.json").write_text(json.dumps(document))
    run_import(tmp_path / "trace_0.json", tmp_path / "trace_1.json", "-o", tmp_path / "out")
    assert hosts_of(tmp_path / "out") == (0, [None, None])
    report = jobs.commtap("report", tmp_path / "out").stdout
    assert " 2 ranks, " in report and " host0" not in report
    assert {row["type"] for row in analyse("links", tmp_path / "out")["links"]} == {None}


def test_a_trace_does_not_tell_how_the_job_ended(tmp_path):
    traces = [[reduction(1000 * i, 100) for i in range(3)] for _ in range(2)]
    run_import(write(tmp_path / "log", traces), "-o", tmp_path / "out")
    report = analyse("report", tmp_path / "out")
    assert [row["state"] for row in report["ranks"]] == [None, None]
    assert report["diagnosis"]["verdict"] == "ok"
    said = " ".join(jobs.commtap("diagnose", tmp_path / "out").stdout.split())
    assert "all operations of the traces have ended" in said and "finalised" not in said
    page = " ".join(jobs.commtap("report", tmp_path / "out").stdout.split())
    assert "normally" not in page and "of one collective or message each at least, 8 are needed" in page
