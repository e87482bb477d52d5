# SPDX-License-Identifier: Apache-2.0
"""What `make bench` says of tools measured side by side (test/bench/rounds.py)."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "bench"))
from rounds import beyond, cell, quartiles, side_by_side, times  # noqa: E402

# The second round ran on a machine three times as slow, the third without the tool.
ROUNDS = [{"bare": {"call": 10}, "floor": {"call": 20}, "tool": {"call": 50}},
          {"bare": {"call": 30}, "floor": {"call": 60}, "tool": {"call": 150}},
          {"bare": {"call": 11}, "floor": {"call": 22}},
          {"bare": {"call": 10}, "floor": {"call": 20}, "tool": {"call": 60}},
          {"floor": {"call": 20}, "tool": {"call": 60}},
          {"bare": {"call": 10}, "tool": {"call": 4000}}]


def test_quartiles_lie_within_the_values():
    assert quartiles([]) is None
    assert quartiles([7]) == (7, 7, 7)
    assert quartiles([3, 1]) == (1.5, 2, 2.5)
    assert quartiles([50, 10, 40, 20, 30]) == (20, 30, 40)


def test_variants_are_compared_within_a_round():
    assert times(ROUNDS, "tool", "floor", "call") == (2.5, 2.75, 3)
    assert beyond(ROUNDS, "tool", "floor", "call") == (37.5, 40, 52.5)
    assert beyond(ROUNDS, "floor", "bare", "call") == (10, 10.5, 15.75)


def test_nothing_is_made_of_what_was_never_measured():
    assert times(ROUNDS, "other", "floor", "call") is None
    assert times([{"floor": {"call": 0}, "tool": {"call": 1}}], "tool", "floor", "call") is None
    assert cell(ROUNDS, "other", "floor", "call") == "-"


def test_the_table():
    assert side_by_side(ROUNDS, ["bare", "floor", "tool", "other"], "bare", "floor", ["call"]) == [
        ["bare", "10.0 (10.0 to 11.0)"],
        ["floor", "20.0 (20.0 to 22.0)"],
        ["tool", "+40.0 (+37.5 to +52.5), 2.75 x (2.50 to 3.00)"],
        ["other", "-"]]
