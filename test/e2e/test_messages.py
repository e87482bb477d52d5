# SPDX-License-Identifier: Apache-2.0
#
# Who is slow in real jobs without collectives. Must not live here: jobs with collectives (test_stragglers.py), figures
# that depend on the speed of the machine.
import pytest

import jobs

pytestmark = pytest.mark.alone

RANKS, STEPS, SLOW_MS = 4, 80, 15


def judged(where, kind, *slow, steps=STEPS):
    """What `stragglers` says of a job of one kind. Under Open MPI, whose waiting ranks yield: more spinning ranks than
    cores slow each other down, really."""
    jobs.run("openmpi", RANKS, [jobs.program("openmpi", "exchange"), kind, str(steps), *map(str, slow)], where)
    return jobs.document("stragglers", where)


@pytest.mark.parametrize("kind", ["halo", "overlap", "ring", "tree", "sweep"])
def test_planted_rank_is_named(kind, where):
    result = judged(where, kind, 2, SLOW_MS)
    assert [(s["kind"], s["rank"]) for s in jobs.stragglers(result)] == [("rank", 2)]
    named = jobs.stragglers(result)[0]
    assert named["confidence"] >= 0.9 and named["slowdown_ratio"] > 1.5 and named["what_if_speedup"] > 1.2
    assert result["blocks"] >= 8
    assert result["what_if"]["even_speedup"] >= named["what_if_speedup"]
    assert {row["rank"]: row["self_ratio"] for row in result["ranks"]}[2] > 1.5


def test_a_master_that_cannot_keep_up_is_named(where):
    """It needs 8 ms for what each of three workers brings every 5 ms."""
    result = judged(where, "farm", 0, 8)
    assert [(s["kind"], s["rank"]) for s in jobs.stragglers(result)] == [("rank", 0)]


@pytest.mark.parametrize("kind", ["halo", "tree"])
def test_a_rank_slow_now_and_then_is_named_with_when(kind, where):
    result = judged(where, kind, 1, 80, 10)
    assert [(s["kind"], s["rank"]) for s in jobs.stragglers(result)] == [("rank", 1)]
    when = jobs.stragglers(result)[0]["when"]
    assert 7 <= when["slow_steps"] <= 9 and when["every"] == 10 and when["slow_ratio"] > 5
    assert 0.05 < when["longer_seconds"] < 0.12
    text = " ".join(jobs.commtap("stragglers", where).stdout.split())
    assert f"in {when['slow_steps']} of {when['steps']} stretches (most of them 10 apart)" in text
    assert "nobody makes the others wait" not in text


@pytest.mark.parametrize("kind", ["halo", "overlap", "ring", "tree", "sweep", "farm"])
def test_nobody_is_named_where_nobody_is_slow(kind, tmp_path):
    """Whatever else the machine does may slow a rank down, really, but hardly the same one twice."""
    named = [{s["rank"] for s in jobs.stragglers(judged(tmp_path / str(again), kind))} for again in range(2)]
    assert not named[0] & named[1]
