# SPDX-License-Identifier: Apache-2.0
"""What a report says of a job, held against the truth, and the bounds that counts of it have.

Must not live here: running jobs, printing.
"""
import math

EXACT, OTHERS, WRONG, MISSED = "exact", "others too", "wrong name", "missed"
NAMED_FROM = 0.9  # doc/commtap.schema.json, straggler.confidence: named from 0.9 up


def accused(report, crowded=False):
    """The ranks that the report blames; None among them stands for somebody who is no rank. Ranks that take turns are
    no accusation where they are `crowded`: they share processors, and that is what the report says."""
    named = [entry for entry in report["stragglers"]
             if entry["confidence"] >= NAMED_FROM and not (crowded and entry["kind"] == "rotating")]
    blamed = set()
    for entry in named:
        blamed |= {entry["rank"]} if entry["kind"] == "rank" else set(entry["ranks"]) or {None}
    if report["diagnosis"]["verdict"] != "ok":
        blamed |= {culprit["rank"] for culprit in report["diagnosis"]["culprits"]} or {None}
    return blamed


def judge(report, guilty, others=(), crowded=False):
    """`others`: slow by their own clocks, too, by the machine or behind somebody slower: right with them and without."""
    blamed, guilty = accused(report, crowded), set(guilty)
    if guilty <= blamed <= guilty | set(others):
        return EXACT
    if not blamed:
        return MISSED
    return OTHERS if guilty and guilty < blamed else WRONG


def promised(report, victims):
    """How many times as fast the job is said to run without its fault; None where nothing is said of it."""
    if len(victims) > 1:
        return (report["what_if"] or {}).get("named_speedup")
    gains = [entry["what_if_speedup"] for entry in report["stragglers"]
             if entry["kind"] == "rank" and entry["confidence"] >= NAMED_FROM and entry["rank"] in victims]
    return gains[0] if gains else None


def without_frame(gain, seconds, frame):
    """The gain of a part of a job, of that of all of it: `frame` seconds of these, as Init and Finalize, stay."""
    if gain is None or seconds / gain <= frame:
        return None
    return (seconds - frame) / (seconds / gain - frame)


def promise_error(gain, known):
    """How far a promise is from all gains known, and from what lies between them: 0 there, else a share of the nearest."""
    nearest = min(max(gain, min(known)), max(known))
    return gain / nearest - 1


def at_least(count, of, share):
    """Chance of count or more hits in that many tries (a binomial tail, which is a beta distribution's share)."""
    if share <= 0 or share >= 1:
        return 1.0 if count == 0 or share >= 1 else 0.0
    logs = (math.lgamma(of + 1) - math.lgamma(hit + 1) - math.lgamma(of - hit + 1) + hit * math.log(share)
            + (of - hit) * math.log1p(-share) for hit in range(count, of + 1))
    return math.fsum(math.exp(log) for log in logs)


def share_where(count, of, chance):
    """The share of hits with which count or more of them come with that chance: a quantile of beta, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if at_least(count, of, middle) < chance else (low, middle)
    return (low + high) / 2


def bounds(count, of, error=0.05):
    """Clopper and Pearson's bounds of the share of which count out of so many is a sample."""
    low = share_where(count, of, error / 2) if count > 0 else 0.0
    high = share_where(count + 1, of, 1 - error / 2) if count < of else 1.0
    return low, high
