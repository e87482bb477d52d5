# SPDX-License-Identifier: Apache-2.0
#
# Two runs side by side. The runs are made-up profiler traces, so that what changed is known.
# Must not live here: anything that depends on the speed of the machine.
import json
import math
import random
import subprocess

import jobs
import pytest


def kernel(name, at, length, elements):
    arguments = {"Collective name": name, "In msg nelems": elements, "Out msg nelems": elements, "dtype": "Float",
                 "Group size": 4, "Process Group Name": "all", "Process Group Ranks": "[0, 1, 2, 3]"}
    return {"ph": "X", "cat": "kernel", "name": "ncclDevKernel", "pid": 0, "tid": 7, "ts": at, "dur": length,
            "args": arguments}


def make_run(directory, seed, steps=60, reduce_us=1000.0, gather_us=400.0, noise=0.1, run_noise=0.0, ranks=4):
    """Each step an allreduce of 4 KiB and an all-gather of 1 KiB. The whole run is slower or faster by run_noise."""
    draw = random.Random(seed)
    all_of_it = math.exp(draw.gauss(0, run_noise))
    reduce_us, gather_us = reduce_us * all_of_it, gather_us * all_of_it
    lengths = [(reduce_us * draw.uniform(1 - noise, 1 + noise), gather_us * draw.uniform(1 - noise, 1 + noise))
               for _ in range(steps)]
    files = []
    for rank in range(ranks):
        at, events = 1000.0, []
        for reduce, gather in lengths:
            for name, length, elements in (("allreduce", reduce, 1024), ("allgather", gather, 256)):
                events.append(kernel(name, at, length, elements))
                at += length + 500
        files.append(directory.parent / f"{directory.name}-{rank}.json")
        files[-1].write_text(json.dumps({"distributedInfo": {"rank": rank, "world_size": ranks}, "traceEvents": events}))
    subprocess.run([jobs.COMMTAP, "import", *files, "-o", directory], check=True, capture_output=True)
    return directory


def diff(*arguments, code=0):
    return jobs.commtap("diff", *arguments, codes=(code,))


KNOWN = ("--run-noise", "1")  # what the runs here differ by


def rows(*arguments, known=KNOWN):
    document = jobs.document("diff", *known, *arguments)
    assert document["schema"] == "commtap.diff/1"
    return {(row["kind"], row["op"]): row for row in document["rows"] if row["source"] != "host"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    base = tmp_path_factory.mktemp("diff")
    return {"a": make_run(base / "a", 1), "again": make_run(base / "again", 2),
            "slow": make_run(base / "slow", 3, reduce_us=1300.0),
            "little": make_run(base / "little", 4, reduce_us=1030.0, noise=0.001),
            "short": make_run(base / "short", 5, steps=50, gather_us=400.0)}


def test_one_operation_became_slower(runs):
    found = rows(runs["a"], runs["slow"])
    reduce, gather = found["operation", "ncclAllReduce"], found["operation", "ncclAllGather"]
    assert (reduce["verdict"], reduce["count_a"], reduce["count_b"]) == ("slower", 240, 240)
    assert (reduce["comm_size"], reduce["bytes"]) == (4, 4096)
    assert 1.2 <= reduce["ratio"] <= 1.4 and reduce["confidence"] > 0.99
    assert gather["verdict"] == "same"
    assert found["step", None]["verdict"] == "slower"
    # the other way round it became faster; and CI hears of it
    assert rows(runs["slow"], runs["a"])["operation", "ncclAllReduce"]["verdict"] == "faster"
    diff(runs["a"], runs["slow"], *KNOWN, "--fail-on", "slower", code=1)
    diff(runs["a"], runs["slow"], *KNOWN, "--fail-on", "faster", code=0)
    diff(runs["a"], runs["slow"], *KNOWN, "--fail-on", "slower", "--threshold", "50", code=0)
    text = diff(runs["a"], runs["slow"]).stdout
    assert "ncclAllReduce" in text and "ncclAllGather" not in text
    assert "ncclAllGather" in diff(runs["a"], runs["slow"], "--all").stdout


def test_nothing_changed(runs):
    assert {row["verdict"] for row in rows(runs["a"], runs["again"]).values()} == {"same"}
    diff(runs["a"], runs["again"], *KNOWN, "--fail-on", "slower", "--fail-on", "faster", "--fail-on", "count")


def test_chance_is_ruled_out_but_the_change_is_small(runs):
    found = rows(runs["a"], runs["little"])["operation", "ncclAllReduce"]
    assert found["verdict"] == "same" and 1.0 < found["ratio"] < 1.05


def test_counts(runs):
    found = rows(runs["a"], runs["short"])["operation", "ncclAllReduce"]
    assert (found["count_a"], found["count_b"], found["verdict"]) == (240, 200, "same")
    diff(runs["a"], runs["short"], "--fail-on", "count", code=1)
    alone = rows(runs["a"], runs["short"], "--op", "AllGather")
    assert ("operation", "ncclAllReduce") not in alone


def test_call_sites_and_filters(tmp_path):
    """Two real jobs of 4 ranks and 60 steps, two collectives a step; in the second one rank comes late to the first."""
    def sites(*options):
        document = json.loads(diff("--format", "json", *KNOWN, *options, tmp_path / "even", tmp_path / "late").stdout)
        return {row["site"].partition(":")[0] + row["op"] + str(row["site"])[-4:]: row
                for row in document["rows"] if row["kind"] == "site"}, document
    for name, late in (("even", []), ("late", ["--slow-rank", "1", "--slow-ms", "10"])):
        jobs.run("openmpi", 4, [jobs.program("openmpi", "train"), "--steps", "60", *late], tmp_path / name)
    found, document = sites()
    reductions = sorted((row for row in found.values() if row["op"] == "MPI_Allreduce"), key=lambda row: row["site"])
    assert [(row["count_a"], row["count_b"]) for row in reductions] == [(240, 240)] * 2
    assert all("train.c:" in row["site"] for row in reductions)
    assert reductions[0]["verdict"] == "slower" and reductions[0]["ratio"] > 2 and reductions[0]["confidence"] > 0.9
    assert {row["kind"] for row in document["rows"]} == {"step", "operation", "site"}
    # what is left out is in no row, and steps are of all operations
    found, document = sites("--op", "bcast", "--rank", "0,2")
    assert [(row["op"], row["count_a"], row["count_b"]) for row in found.values()] == [("MPI_Bcast", 2, 2)]
    assert {row["kind"] for row in document["rows"]} == {"operation", "site"}
    found, document = sites("--step", "10-19", "--rank", "3")
    assert [(row["op"], row["count_a"], row["count_b"]) for row in found.values()] == [("MPI_Allreduce", 10, 10)] * 2
    steps = [row for row in document["rows"] if row["kind"] == "step"]
    assert [(row["count_a"], row["count_b"]) for row in steps] == [(10, 10)]
    assert document["a"]["source"] == "records" and document["a"]["window"]["steps"] == [10, 19]
    found, document = sites("--comm", "nobody")
    assert document["rows"] == []


def test_no_false_alarms(tmp_path):
    """40 pairs of equal runs with much noise, 2 of which may at most be called different."""
    alarms = 0
    for seed in range(40):
        a = make_run(tmp_path / f"a{seed}", 1000 + seed, steps=20, noise=0.5)
        b = make_run(tmp_path / f"b{seed}", 2000 + seed, steps=20, noise=0.5)
        alarms += any(row["verdict"] != "same" for row in rows(a, b).values())
    assert alarms <= 2


# ---- from run to run --------------------------------------------------------------------------------


def side(directory, seeds, **how):
    return [make_run(directory / str(seed), seed, **how) for seed in seeds]


def arguments_of(a, b):
    return [*(word for run in a[1:] for word in ("--baseline", run)), *(word for run in b[1:] for word in ("--again", run)),
            a[0], b[0]]


def test_one_run_of_each_side_tells_nothing(runs):
    """Beyond all chance for their calls; but what is that from one run to the next?"""
    found = rows(runs["a"], runs["slow"], known=())
    reduce = found["operation", "ncclAllReduce"]
    assert (reduce["verdict"], reduce["confidence"], reduce["run_spread"]) == ("unknown", None, None)
    assert 1.2 <= reduce["ratio"] <= 1.4
    assert {row["verdict"] for row in found.values()} <= {"unknown", "same"}
    text = " ".join(diff(runs["a"], runs["slow"]).stdout.split())
    assert "--baseline" in text and "moved" in text and " slower," not in text
    for what in ("slower", "faster"):
        assert "--run-noise" in diff(runs["a"], runs["slow"], "--fail-on", what, code=2).stderr
    diff(runs["a"], runs["slow"], "--fail-on", "count")
    # what runs differ by is more than that
    assert rows(runs["a"], runs["slow"], known=("--run-noise", "20"))["operation", "ncclAllReduce"]["verdict"] == "same"


def test_runs_that_differ_anyway(tmp_path):
    """Runs that are slower or faster as a whole by 10 %: three of each side tell that nothing changed, where pairs of
    them would differ beyond all chance; four tell that one operation takes twice as long, and the other does not."""
    moved = alarms = named = wrong = 0
    for job in range(12):
        here = tmp_path / str(job)
        here.mkdir()
        a = side(here, [100 * job + r for r in range(4)], steps=20, noise=0.05, run_noise=0.1)
        same = side(here, [100 * job + 10 + r for r in range(4)], steps=20, noise=0.05, run_noise=0.1)
        slow = side(here, [100 * job + 20 + r for r in range(4)], steps=20, noise=0.05, run_noise=0.1, reduce_us=2000.0)
        moved += any(row["verdict"] == "unknown" for row in rows(a[0], same[0], known=()).values())
        found = rows(*arguments_of(a[:3], same[:3]), known=())
        alarms += any(row["verdict"] != "same" for row in found.values())
        assert all(0 < row["run_spread"] < 0.4 and row["count_a"] % 3 == 0 for row in found.values())
        found = rows(*arguments_of(a, slow), known=())
        named += found["operation", "ncclAllReduce"]["verdict"] == "slower"
        wrong += found["operation", "ncclAllGather"]["verdict"] != "same"
    assert moved >= 6 and alarms <= 1 and named >= 10 and wrong <= 1


def test_real_runs_of_one_program(tmp_path):
    """Whatever else runs on this machine meanwhile."""
    for name in ("a", "b", "c", "d"):
        jobs.run("openmpi", 2, [jobs.program("openmpi", "train"), "--steps", "60"], tmp_path / name)
    a, b, c, d = (tmp_path / name for name in "abcd")
    document = jobs.document("diff", a, b)
    assert {row["verdict"] for row in document["rows"]} <= {"same", "unknown"}
    assert all(row["confidence"] is None for row in document["rows"])
    document = jobs.document("diff", *arguments_of([a, b], [c, d]))
    assert not [row for row in document["rows"] if row["confidence"] and row["confidence"] > 0.99]
    assert [len(document["further_a"]), len(document["further_b"])] == [1, 1] and document["notes"] == []


def test_sides_that_are_not_alike(runs, tmp_path):
    other = make_run(tmp_path / "two", 9, ranks=2)
    document = jobs.document("diff", runs["a"], other)
    assert len(document["notes"]) == 1 and "A has 4 ranks, B 2" in document["notes"][0]
    assert "A has 4 ranks, B 2" in diff(runs["a"], other).stdout
    refused = diff("--baseline", other, runs["a"], runs["slow"], code=3)
    assert str(other) in refused.stderr and "number of ranks" in refused.stderr and refused.stdout == ""
    # another program, and another build of one
    for mpi, name in (("openmpi", "train"), ("openmpi", "pcontrol")):
        jobs.run(mpi, 2, [jobs.program(mpi, name)], tmp_path / name)
    document = jobs.document("diff", tmp_path / "train", tmp_path / "pcontrol")
    assert len(document["notes"]) == 1 and "different programs" in document["notes"][0]
    refused = diff("--baseline", tmp_path / "pcontrol", tmp_path / "train", tmp_path / "train", code=3)
    assert str(tmp_path / "pcontrol") in refused.stderr and "build" in refused.stderr
    assert jobs.document("diff", tmp_path / "train", tmp_path / "train")["notes"] == []


def test_usage(runs, tmp_path):
    diff(runs["a"], code=2)
    diff(runs["a"], runs["slow"], "--threshold", "much", code=2)
    diff(runs["a"], runs["slow"], "--run-noise", "-1", code=2)
    diff(runs["a"], runs["slow"], "--fail-on", "anything", code=2)
    diff(runs["a"], tmp_path, code=3)
