# SPDX-License-Identifier: Apache-2.0
#
# COMMTAP_BUDGET on a job that does nothing but call: what is left out, in which order, what is said of it, and that the
# sums stay exact. How near the budget is kept is told on a made clock (test/unit/test_budget.c).
import jobs

CALLS = 20000
UNREACHABLE, ROOMY = "0.0001", "100"


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
