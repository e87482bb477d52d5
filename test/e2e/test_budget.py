# SPDX-License-Identifier: Apache-2.0
#
# COMMTAP_BUDGET on a job that does nothing but call: what is left out, in which order, what is said of it, and that the
# sums stay exact. That it is kept by jobs whose recording costs more than that; how near, for every budget, is told on a
# made clock (test/unit/test_budget.c).
import subprocess

import jobs
import test_ctl
import test_nccl_calls as nccl

CALLS = 20000
UNREACHABLE, ROOMY = "0.0001", "100"
SECONDS = 8  # a step lasts one at least
KEPT = 1 / 3  # the budget is kept within 20 %; the rest is room for a busy machine, and half or twice of it fails


def recorded(mpi, where, budget):
    jobs.run(mpi, 2, [jobs.program(mpi, "dense"), str(CALLS)], where, knobs={"COMMTAP_BUDGET": budget})
    return jobs.report(where)


def calls_of(report):
    return sum(row["count"] for row in report["summary"] if row["op"] == "MPI_Allreduce")


def shed(report):
    return {step["what"]: step["times"] for step in report["own_cost"]["shed"]}


def codes(report):
    return {finding["code"] for finding in report["findings"]}


def test_what_cannot_be_kept_sheds_all_there_is(mpi, tmp_path):
    """Stacks first, then records; a step is taken once, for nothing makes up for it."""
    report = recorded(mpi, tmp_path, UNREACHABLE)
    assert calls_of(report) == 2 * CALLS
    assert shed(report) == {"gpu_timing": 0, "stacks": 2, "records": 2}
    losses = report["losses"]
    assert 2 * CALLS > losses["stacks_shed"] > losses["records_shed"] > 0
    assert report["job"]["events_lost"] >= losses["records_shed"]
    assert {"left_out", "over_budget"} <= codes(report)
    text = " ".join(jobs.commtap("report", tmp_path).stdout.split())
    assert "COMMTAP_BUDGET allows 0.0001 %" in text and "records were left out 2 times on 2 ranks" in text
    sites = jobs.document("calls", tmp_path)
    assert sites["root"]["count"] >= 2 * CALLS
    check = jobs.document("check", tmp_path)
    assert [row["problems"] for row in check["dumps"]] == [0, 0]


def test_with_room_nothing_is_left_out(mpi, tmp_path):
    report = recorded(mpi, tmp_path, ROOMY)
    assert calls_of(report) == 2 * CALLS
    assert shed(report) == {"gpu_timing": 0, "stacks": 0, "records": 0}
    assert report["losses"]["stacks_shed"] == report["losses"]["records_shed"] == 0
    assert not {"left_out", "over_budget"} & codes(report)
    own = report["own_cost"]
    assert own["ranks_measured"] == 2 and own["calls_measured"] >= 2 * CALLS / 2048
    assert 0 < own["share"] <= own["most_share"] < 1 and own["call_ns"] > 0 and own["budget_share"] == 1


def test_of_gpus_launches_are_left_out_first_and_each_is_counted(tmp_path):
    """On the stand-in: calls on the host stay exact, and what the GPU's rows lack is in the losses."""
    phases, ranks = 30, test_ctl.RANKS
    with test_ctl.nccl_job(tmp_path / "dumps", phases, COMMTAP_GPU_TIMING="events", COMMTAP_BUDGET=UNREACHABLE) as run:
        for phase in range(phases):
            run.begin(phase)
        run.end(phases - 1)
    report = jobs.report(tmp_path / "dumps")
    steps = shed(report)
    assert ranks == steps["gpu_timing"] >= steps["stacks"] >= steps["records"]
    launches = ranks * phases * test_ctl.CALLS  # of each operation; the broadcasts are two by two
    counts = {(op, source): sum(row["count"] for row in report["summary"] if (row["op"], row["source"]) == (op, source))
              for op in ("ncclAllReduce", "ncclBroadcast") for source in ("host", "gpu-event")}
    assert counts["ncclAllReduce", "host"] == launches and counts["ncclBroadcast", "host"] == 2 * launches
    timed = counts["ncclAllReduce", "gpu-event"] + counts["ncclBroadcast", "gpu-event"] // 2
    losses = report["losses"]
    assert 0 < timed < launches and timed + losses["gpu_shed"] + losses["gpu_no_event"] == 2 * launches
    assert "left_out" in codes(report)
    text = " ".join(jobs.commtap("report", tmp_path / "dumps").stdout.split())
    assert f"{losses['gpu_shed']} GPU operations were not timed, to stay within COMMTAP_BUDGET" in text


def assert_kept(report, budget):
    """By each rank, the dearest one included, and by going back and forth."""
    own = report["own_cost"]
    assert own["budget_share"] == budget
    assert budget * (1 - KEPT) < own["share"] and own["most_share"] < budget * (1 + KEPT), own
    assert "over_budget" not in codes(report)


def test_a_budget_is_kept_by_a_job_whose_stacks_are_dear(mpi, tmp_path):
    """Its stacks take half of the time, all else a thirtieth; calls stay exact."""
    ended = jobs.run(mpi, 1, [jobs.program(mpi, "winding"), str(SECONDS)], tmp_path, knobs={"COMMTAP_BUDGET": "10"})
    report = jobs.report(tmp_path)
    assert_kept(report, 0.1)
    assert shed(report)["stacks"] >= 1
    assert calls_of(report) == int(ended.stdout.split()[1])


def launches(where, seconds, **knobs):
    """Two ranks that launch and launch; their report, and how many launches there were."""
    files = where / "files"
    files.mkdir(parents=True)
    ranks = [subprocess.Popen([str(nccl.PROGRAMS / "launches"), str(rank), "2", str(files), str(seconds)], text=True,
                              env=nccl.environment(rank, 2, where / "dumps", COMMTAP_GPU_TIMING="events", **knobs),
                              stdout=subprocess.PIPE) for rank in range(2)]
    said = [process.communicate(timeout=60)[0] for process in ranks]
    assert [process.returncode for process in ranks] == [0, 0]
    return jobs.report(where / "dumps"), sum(int(words.split()[1]) for words in said)


def test_a_budget_is_kept_by_a_job_whose_gpu_events_are_dear(tmp_path):
    """Half of what the job takes without a limit: its events are most of that. On a busy machine one look says more."""
    free = [launches(tmp_path / f"free{look}", SECONDS / 4)[0]["own_cost"]["share"] for look in range(3)]
    budget = round(min(free) / 2, 6)
    report, number = launches(tmp_path / "kept", SECONDS, COMMTAP_BUDGET=f"{budget * 100:.4f}")
    assert_kept(report, budget)
    assert shed(report)["gpu_timing"] >= 2
    calls = sum(row["count"] for row in report["summary"] if (row["op"], row["source"]) == ("ncclAllReduce", "host"))
    assert calls == number
