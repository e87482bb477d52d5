# SPDX-License-Identifier: Apache-2.0
"""The campaign's own arithmetic on figures worked out by hand: bounds, verdicts, clocks, plan, table."""
import argparse
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "campaign"))
import campaign  # noqa: E402
import table  # noqa: E402
import truth  # noqa: E402
import verdict  # noqa: E402

OPTIONS = argparse.Namespace(null=36, each=12, seed=1, only=None)


def report(*blamed, diagnosis="ok", named_speedup=None):
    """Blamed: (kind, ranks, confidence, gain)."""
    return {"stragglers": [{"kind": kind, "rank": ranks[0] if kind == "rank" else None, "ranks": ranks,
                            "confidence": confidence, "what_if_speedup": gain}
                           for kind, ranks, confidence, gain in blamed],
            "diagnosis": {"verdict": diagnosis, "culprits": []}, "what_if": {"named_speedup": named_speedup}}


# Closed forms at the ends; in between the Mendelian example of R's binom.test.
@pytest.mark.parametrize("count, of, low, high", [(0, 300, 0, 1 - 0.025 ** (1 / 300)), (60, 60, 0.025 ** (1 / 60), 1),
                                                  (682, 925, 0.7076683, 0.7654066)])
def test_bounds_are_those_of_clopper_and_pearson(count, of, low, high):
    assert verdict.bounds(count, of) == pytest.approx((low, high), abs=1e-7)


@pytest.mark.parametrize("blamed, victims, outcome", [
    ([("rank", [2], 0.99, 1.5)], [2], "exact"),
    ([], [], "exact"),
    ([("rank", [2], 0.89, 1.5)], [2], "missed"),
    ([("rank", [2], 0.99, 1.5), ("rank", [0], 0.95, 1.1)], [2], "others too"),
    ([("rank", [0], 0.99, 1.5)], [2], "wrong name"),
    ([("rank", [2], 0.99, 1.5)], [2, 3], "wrong name"),
    ([("rank", [0], 0.99, 1.5)], [], "wrong name"),
    ([("host", [0, 1, 2, 3], 0.99, 1.5)], [2], "others too"),
    ([("link", [], 0.99, 1.5)], [], "wrong name"),
])
def test_verdicts(blamed, victims, outcome):
    assert verdict.judge(report(*blamed), victims) == outcome


def test_who_the_machine_slowed_down_may_be_named_or_not():
    named = report(("rank", [2], 0.99, 1.5), ("rank", [0], 0.95, 1.1))
    assert verdict.judge(named, [2], [0]) == verdict.EXACT
    assert verdict.judge(named, [2], [0, 1]) == verdict.EXACT
    assert verdict.judge(report(("rank", [2], 0.99, 1.5)), [2], [0]) == verdict.EXACT
    assert verdict.judge(report(("rank", [0], 0.95, 1.1)), [2], [0]) == verdict.WRONG
    assert verdict.judge(named, [2], [1]) == verdict.OTHERS


def test_turns_of_ranks_that_share_processors_blame_nobody():
    turns = report(("rotating", [0, 1, 2, 3], 0.99, None))
    assert verdict.judge(turns, [], crowded=True) == verdict.EXACT
    assert verdict.judge(turns, []) == verdict.WRONG


def test_a_hang_in_a_job_that_ended_is_an_accusation():
    assert verdict.judge(report(diagnosis="hang"), []) == verdict.WRONG


def test_the_promise_is_that_of_the_guilty_rank_or_of_all_named():
    both = report(("rank", [0], 0.99, 1.5), ("rank", [2], 0.99, 1.2), named_speedup=1.9)
    assert verdict.promised(both, [2]) == 1.2
    assert verdict.promised(both, [0, 2]) == 1.9
    assert verdict.promised(both, [1]) is None


def test_init_and_finalize_are_not_mended():
    # 3 of 10 s are Init and Finalize: 1.25 times as fast in all takes 5 s of the 7
    assert verdict.without_frame(1.25, 10, 3) == pytest.approx(7 / 5)
    assert verdict.without_frame(1.25, 10, 0) == pytest.approx(1.25)
    assert verdict.without_frame(4, 10, 3) is None
    assert verdict.without_frame(None, 10, 3) is None


def computed(*ranks):
    """(base, extra) of every computation of every rank."""
    return [[(step, *pair) for step, pair in enumerate(rank)] for rank in ranks]


def both_durations(kind, fault, *ranks):
    return [truth.duration(kind, fault, computed(*ranks), share) for share in (1, 0)]


EVEN = [(10, 0)] * 4


def test_all_wait_for_the_slowest_at_every_collective():
    assert both_durations("train", "slow2", EVEN, [(10, 10)] * 4) == [80, 40]
    # nobody loses anything to a rank that is slow behind a slower one
    assert both_durations("train", "slow2", [(30, 0)] * 4, [(10, 10)] * 4) == [120, 120]


def test_a_delay_wanders_one_neighbour_per_step():
    late_once = [(10, 90), (10, 0), (10, 0), (10, 0)]
    far = [(10, 0), (10, 0), (10, 0), (100, 0)]
    # the far end's long step has begun when the delay comes
    assert truth.duration("halo", "rare", computed(late_once, EVEN, EVEN, EVEN, far), 1) == 130
    assert truth.duration("train", "rare", computed(late_once, EVEN, EVEN, EVEN, far), 1) == 220


def test_pairs_reduce_before_all_do():
    first = [(30, 0), (10, 0)]
    second = [(10, 0), (30, 0)]
    assert truth.duration("mix", "none", computed(first, first, second, second), 1) == 40
    assert truth.duration("gradients", "none", computed(first, first, second, second), 1) == 60


def test_a_pipeline_takes_its_filling_and_its_slowest_stage():
    assert both_durations("pipeline", "slow2", EVEN, [(10, 10)] * 4, EVEN) == [100, 60]


def test_a_late_receiver_holds_the_stage_before_it():
    assert both_durations("pipeline", "receiver", EVEN, [(10, 5)] * 4) == [70, 50]
    # held until 110 by the second stage's first part, the first one has 15 more to compute after each of its sends
    held = computed([(10, 15)] * 4, [(100, 0), *EVEN[1:]])
    assert truth.duration("pipeline", "receiver", held, 1) == 175


def test_a_master_pays_for_itself_and_for_its_slowest_worker():
    assert both_durations("rounds", "checkpoint", [(0, 7)] * 4, EVEN, EVEN) == [68, 40]


def test_rates_of_workers_add_up():
    # eight tasks: at 1/10 + 1/20 a piece takes 6.67, at 2/10 it takes 5
    assert both_durations("on-demand", "slow2", [(0, 0)], EVEN, [(10, 10)] * 4) == [pytest.approx(160 / 3), 40]
    assert both_durations("on-demand", "checkpoint", [(0, 7)], EVEN, EVEN) == [47, 40]


def write_clocks(folder, works, victims, planned=10, kind="train", late=0.0):
    folder.mkdir()
    for rank, (base, extra) in enumerate(works):
        total = {"kind": kind, "fault": "slow2", "victims": victims, "ranks": len(works), "rank": rank,
                 "planned_seconds": planned, "work_seconds": base + extra, "late_seconds": late * (rank in victims),
                 "wall_seconds": 1e-6 * (base + extra)}
        (folder / str(rank)).write_text(f"{json.dumps(total)}\n0 1.0 {base} {extra}\n")
    return truth.Clocks(folder)


def test_jobs_run_without_their_fault_tell_what_mending_gives(tmp_path, monkeypatch):
    bench, folders = campaign.Bench(tmp_path, tmp_path, 1), (tmp_path / str(number) for number in range(100))

    def run(command, _):
        return write_clocks(next(folders), [(10, 0), (10, 0 if "mended" in command else 5), (12, 0)], [1])
    monkeypatch.setattr(bench, "run", run)
    job = {"kind": "train", "seed": 1, "fault": "slow2", "mpi": "mpich", "ranks": 3, "crowd": "one per core"}
    assert bench.mend(job) == [1.25] * campaign.PAIRS_OF_RUNS


def test_clocks_tell_cost_and_disturbance(tmp_path):
    clocks = write_clocks(tmp_path / "planted", [(10, 0), (10, 10), (11, 0)], [1])
    assert (clocks.complete, clocks.loop_seconds) == (True, pytest.approx(20e-6))
    assert clocks.cost() == pytest.approx(1 - 11 / 20)
    assert clocks.disturbed() == pytest.approx(0.1)
    assert write_clocks(tmp_path / "pair", [(12, 0), (10, 0)], [1]).disturbed() == pytest.approx(0.2)
    assert write_clocks(tmp_path / "null", [(10, 0), (10, 0), (10, 0)], []).disturbed() == 0


def test_what_mending_gives_lies_between_no_fault_and_what_the_peers_take(tmp_path):
    # without its fault 9 of 20, as the others' median 7, held by the slowest of these 8
    assert write_clocks(tmp_path / "works", [(8, 0), (9, 11), (6, 0)], [1]).gains() == pytest.approx([20 / 9, 20 / 8])
    # that it starts late is mended with it
    late = write_clocks(tmp_path / "late", [(8, 0), (8, 12)], [1], late=2e-6)
    assert late.gains() == pytest.approx([20 / 8, 20 / 6])
    # a master has no peer, and is not one of its workers
    assert write_clocks(tmp_path / "master", [(4, 4), (8, 0)], [0], kind="rounds").gains() == pytest.approx([16 / 12])
    worker = write_clocks(tmp_path / "worker", [(1, 0), (8, 0), (9, 11)], [2], kind="rounds")
    assert worker.gains() == pytest.approx([21 / 10, 21 / 9])


def test_a_promise_in_between_is_right():
    assert [verdict.promise_error(gain, [1.5, 1.2]) for gain in (1.2, 1.3, 1.5)] == [0, 0, 0]
    assert verdict.promise_error(1.8, [1.5, 1.2]) == pytest.approx(0.2)
    assert verdict.promise_error(1.08, [1.5, 1.2]) == pytest.approx(-0.1)


def test_who_is_hidden_behind_a_slower_one_costs_nothing(tmp_path):
    hidden = write_clocks(tmp_path / "hidden", [(10, 0), (10, 10), (10, 5)], [1, 2])
    assert hidden.guilty(0.01) == [1]
    assert hidden.cost([1]) == pytest.approx(1 - 15 / 20) and hidden.cost() == pytest.approx(1 - 10 / 20)
    # neither gains the job anything alone
    assert write_clocks(tmp_path / "alike", [(10, 0), (10, 10), (10, 10)], [1, 2]).guilty(0.01) == [1, 2]


def test_clocks_tell_whom_the_machine_slowed_down(tmp_path):
    assert write_clocks(tmp_path / "much", [(10, 0), (10, 10), (11, 0), (10, 0)], [1]).slowed(0.01) == []
    assert write_clocks(tmp_path / "alone", [(10, 0), (10.2, 0), (10, 0)], []).slowed(0.01) == [1]
    assert write_clocks(tmp_path / "hardly", [(10, 0), (10.05, 0), (10, 0)], []).slowed(0.01) == []


def test_the_plan_has_what_was_asked_for_in_equal_shares():
    jobs = campaign.plan(OPTIONS, ["openmpi", "mpich"], 2)
    assert [job["number"] for job in jobs] == list(range(36 + 8 * 12))
    null = [job for job in jobs if job["fault"] == "none"]
    assert sum(1 for job in null if job["ranks"] == 2) == 18
    assert sorted({(job["kind"], job["mpi"], job["ranks"]) for job in null}) == sorted(
        {(kind, mpi, ranks) for kind in campaign.KINDS for mpi in ("openmpi", "mpich") for ranks in (2, 4)})
    assert {job["kind"] for job in jobs if job["fault"] == "receiver"} == set(campaign.MESSAGE_KINDS)
    assert {job["ranks"] for job in jobs if job["fault"] == "two"} == {4}
    assert campaign.plan(OPTIONS, ["openmpi", "mpich"], 2) == jobs


def test_one_class_of_a_plan_keeps_its_numbers():
    options = argparse.Namespace(**{**vars(OPTIONS), "only": ["rare"]})
    jobs = campaign.plan(OPTIONS, ["mpich"], 2)
    assert campaign.plan(options, ["mpich"], 2) == [job for job in jobs if job["fault"] == "rare"]


def test_a_noisy_machine_is_refused():
    campaign.refuse_noise(3, 3.0)
    with pytest.raises(campaign.Noisy):
        campaign.refuse_noise(3, 3.1)


def record(number, outcome, standing, **more):
    return {"number": number, "fault": "rare", "kind": "halo", "mpi": "mpich", "crowd": "one per core", "seed": 1,
            "outcome": outcome, "standing": standing, "seconds": 2, "others": 1, "accused": [], "victims": [],
            "slowed": [], **more}


def test_the_table_counts_what_is_counted_and_shows_the_rest_apart():
    records = [record(0, "exact", "counted", promised=1.2, gains=[1.25], mended=[1.2, 1.21, 1.22]),
               record(1, "exact", "counted", promised=1.4, gains=[1 / 0.7, 1.5], mended=[1.2, 1.21, 1.22]),
               record(2, "exact", "counted", promised=1.4, gains=[1 / 0.7, 1.5], mended=[1.1, 1.21, 1.3]),
               record(3, "missed", "counted"), record(4, "missed", "too cheap"), record(5, "wrong name", "disturbed"),
               record(6, "wrong name", "counted", fault="none", trait="plain"),
               record(7, "exact", "disturbed", fault="none", trait="plain"),
               record(8, "exact", "counted", fault="none", trait="warm-up", slowed=[0], accused=[0]), record(9, "failed", "failed")]
    text = table.document(records, {"one per core": 2}, "OUT", 60, 2)
    assert "| rare | 4 | 3 | 0 | 0 | 1 | 75.0 % (19.4 to 99.4) | 0 of 1 | 0 of 1 | 1 |" in text
    assert "| rare | 3 | 3 | -2.0 % | -4.0 % | 100.0 % (29.2 to 100.0) |" in text
    assert "| rare | 3 | 2 | 1 | +15.7 % | 50.0 % (1.3 to 98.7) |" in text
    assert "| all counted | 2 | 1 | 50.0 % (1.3 to 98.7) |" in text
    assert "| apart: something else had 5 % of a rank's time, or of the processors | 1 | 0 | 0.0 % (0.0 to 97.5) |" in text
    assert "In 1 of the 6 counted jobs the machine made a rank slower" in text and "in 1 it was named" in text
    assert text.count("\n- 000") == 5 and "took 0.50 cores" in text
