# SPDX-License-Identifier: Apache-2.0
"""The document that a campaign prints, made of its records.

Must not live here: judging, running jobs.
"""
import statistics

import verdict

WITHIN = 0.05


def percent(share):
    return f"{100 * share:.1f}"


def share_with_bounds(count, of):
    if of == 0:
        return "-"
    low, high = verdict.bounds(count, of)
    return f"{percent(count / of)} % ({percent(low)} to {percent(high)})"


def count_of(records, **wanted):
    return sum(1 for record in records if all(record.get(key) == value for key, value in wanted.items()))


def row(*cells):
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def head(*cells):
    return [row(*cells), "|" + "---|" * len(cells)]


def null_lines(records):
    """Nobody to blame: counted ones, and apart those whose clocks show that a rank was slowed down from outside."""
    lines = head("nobody to blame", "jobs", "accused", "share (95 % bounds)")
    parts = [("all counted", {"standing": "counted"})]
    parts += [(trait, {"standing": "counted", "trait": trait}) for trait in ("plain", "warm-up", "late start")]
    parts += [("apart: something else had 5 % of a rank's time, or of the processors", {"standing": "disturbed"})]
    for name, wanted in parts:
        chosen = [record for record in records if all(record.get(key) == value for key, value in wanted.items())]
        blamed = len(chosen) - count_of(chosen, outcome=verdict.EXACT)
        lines.append(row(name, len(chosen), blamed, share_with_bounds(blamed, len(chosen))))
    failed = count_of(records, standing="failed")
    return lines + (["", f"Failed or not ended: {failed}."] if failed else [])


def planted_row(name, records):
    counted = [record for record in records if record["standing"] == "counted"]
    apart = [record for record in records if record["standing"] == "disturbed"]
    cheap = [record for record in records if record["standing"] == "too cheap"]
    outcomes = [count_of(counted, outcome=outcome)
                for outcome in (verdict.EXACT, verdict.OTHERS, verdict.WRONG, verdict.MISSED)]
    return row(name, len(counted), *outcomes, share_with_bounds(outcomes[0], len(counted)),
               f"{count_of(apart, outcome=verdict.EXACT)} of {len(apart)}",
               f"{count_of(cheap, outcome=verdict.EXACT)} of {len(cheap)}", count_of(records, standing="failed"))


def planted_lines(records, by):
    lines = head(f"by {by}", "counted", *(verdict.EXACT, verdict.OTHERS, verdict.WRONG, verdict.MISSED),
                 "exactly named (95 % bounds)", "apart: exact", "too cheap: exact", "failed")
    for name in dict.fromkeys(record[by] for record in sorted(records, key=lambda record: record[by])):
        lines.append(planted_row(name, [record for record in records if record[by] == name]))
    return lines + [planted_row("all", records)]


def steady(ratios):
    return ratios[-1] / ratios[0] - 1 <= WITHIN


def what_if_by_clocks(records):
    """What mending was said to give beside what it gives by the clocks and the order in which ranks need each other:
    without the fault, or as the peers, whichever is nearer, or in between."""
    lines = head("what if, by the clocks", "exactly named", "promised within 5 %", "median error", "worst error",
                 "share (95 % bounds)")
    known = [record for record in records if record["standing"] == "counted" and record.get("promised")
             and record["outcome"] == verdict.EXACT]
    for fault in sorted({record["fault"] for record in known}):
        errors = [verdict.promise_error(record["promised"], record["gains"]) for record in known
                  if record["fault"] == fault]
        good = sum(1 for error in errors if abs(error) <= WITHIN)
        lines.append(row(fault, len(errors), good, f"{100 * statistics.median(errors):+.1f} %",
                         f"{100 * max(errors, key=abs):+.1f} %", share_with_bounds(good, len(errors))))
    return lines


def what_if_lines(records):
    """What mending was said to give beside what it gave; the truth is known where the pairs agree within WITHIN."""
    lines = head("what if, run again", "runs mended", "truth known within 5 %", "of these promised within 5 %",
                 "worst error", "share (95 % bounds)")
    mended = [record for record in records if record.get("mended")]
    for fault in sorted({record["fault"] for record in mended}):
        those = [record for record in mended if record["fault"] == fault]
        known = [record for record in those if steady(record["mended"])]
        errors = [record["promised"] / statistics.median(record["mended"]) - 1 for record in known]
        good = sum(1 for error in errors if abs(error) <= WITHIN)
        worst = f"{100 * max(errors, key=abs):+.1f} %" if errors else "-"
        lines.append(row(fault, len(those), len(known), good, worst, share_with_bounds(good, len(known))))
    return lines


def slowed_line(records):
    """How much of the figures rests on the clocks of ranks that no fault was planted in."""
    counted = [record for record in records if record["standing"] == "counted"]
    slowed = [record for record in counted if record["slowed"]]
    named = [record for record in slowed if record["outcome"] == verdict.EXACT
             and set(record["accused"]) != set(record["victims"])]
    return (f"In {len(slowed)} of the {len(counted)} counted jobs the machine made a rank slower, by less than 5 %, at a "
            f"hundredth of the job's time or more; in {len(named)} it was named, which is right by its own clock.")


def circumstances(record):
    """What a reader wants to know of a wrong verdict before looking at the dumps."""
    return (f"truth {record.get('victims')}, said {record.get('accused')}, "
            f"fault cost {percent(record.get('cost', 0))} %, {record.get('noise')} noise, {record.get('trait')}, "
            f"disturbed by {percent(record.get('disturbed', 0))} %, "
            f"drawn longer by {percent(record.get('drawn', 0))} %")


def wrong_lines(records, out):
    wrong = [record for record in records if record["outcome"] != verdict.EXACT]
    lines = [f"{len(wrong)} wrong verdicts are kept in {out}/wrong, each with again.txt:", ""] if wrong else []
    for record in wrong:
        job = f"{record['number']:04d} {record['fault']} {record['kind']} {record['mpi']} seed {record['seed']}"
        lines.append(f"- {job}: {record['outcome']} ({record['standing']}), {circumstances(record)}")
    return lines


def document(records, crowds, out, seconds, cores):
    taken = sum(record["others"] for record in records) / max(1e-9, sum(record["seconds"] for record in records))
    lines = ["# Real jobs whose truth comes from their own clocks", "",
             f"{len(records)} jobs on {cores} cores; this run took {seconds / 60:.0f} minutes. Other processes took "
             f"{taken:.2f} cores while jobs ran."]
    for crowd, ranks in crowds.items():
        those = [record for record in records if record["crowd"] == crowd]
        null = [record for record in those if record["fault"] == "none"]
        planted = [record for record in those if record["fault"] != "none"]
        lines += ["", f"## {ranks} ranks, {crowd}"] if those else []
        lines += ["", *null_lines(null)] if null else []
        if planted:
            lines += ["", *planted_lines(planted, "fault"), "", *planted_lines(planted, "kind")]
        if any(record.get("promised") for record in planted) and ranks <= cores:
            lines += ["", *what_if_by_clocks(planted)]
        if any(record.get("mended") for record in planted):
            lines += ["", *what_if_lines(planted)]
        if those:
            lines += ["", slowed_line(those)]
    return "\n".join([*lines, "", *wrong_lines(records, out)])
