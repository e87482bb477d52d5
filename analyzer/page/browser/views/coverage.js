// SPDX-License-Identifier: Apache-2.0
//
// What all of this rests on: what was seen, what was lost, how well clocks agree.
"use strict";

{
    const names = {
        from_seconds: "Waits are known from",
        to_seconds: "until",
        covered_seconds: "Of that, on record on every rank",
        partial: "Records of some rank are missing",
        silent_ranks: "Ranks without any usable record",
        totals_complete: "Sums hold every call of the job",
        matched_share: "Collective calls matched on all ranks",
        collectives_matched: "Collectives matched on all ranks",
        collectives_partial: "Collectives with calls not on record",
        collectives_mismatched: "Collectives whose ranks called different operations",
        messages_matched: "Messages, send and receive paired",
        message_halves_alone: "Sends and receives whose other half is not on record",
        message_halves_unmatchable: "Sends and receives that nothing could pair",
        with_another_world: "Calls with processes of another world",
        source: "Sums come from",
        window: "Part of the time that was asked for",
        clock_error: "Clocks of the hosts agree within",
        missing_ranks: "Ranks without a dump",
        events_lost: "Events overwritten, in the sums alone",
        losses: "Lost in the recording",
        own_time: "Of the time, taken by commtap itself",
        cost_call: "By commtap itself in a call, mean",
        cost_budget: "COMMTAP_BUDGET allows",
        cost_shed: "Left out to stay within it",
    };
    /* What the value stands for where it is one of these. */
    const values = {
        source: {tables: "all calls, counted", records: "the calls on record"},
        window: {null: "all of it"},
        clock_error: {null: "not known: waits between hosts are not known either"},
    };

    /* Two digits: what is a hundredth of a percent is no nothing. */
    const smallPercent = (share) => Number((100 * share).toPrecision(2)) + " %";

    const windowText = function (part) {
        const times = part.from_seconds === null
            ? "nothing lies in it"
            : "from " + commtap.format.seconds(part.from_seconds) + " to " + commtap.format.seconds(part.to_seconds);
        return (part.steps ? "steps " + commtap.rangesText([part.steps]) + ", " : "") + times +
            (part.complete ? "" : ", not all of it on record");
    };

    /* What commtap itself took, as [key, text]; nothing where no call was measured. */
    const costRows = function (cost) {
        if (!cost) {
            return [["own_time", "not measured"]];
        }
        const most = cost.ranks_measured > 1 && cost.most_rank !== null
            ? "; of rank " + cost.most_rank + ": " + smallPercent(cost.most_share)
            : "";
        const shed = cost.shed.filter((step) => step.ranks > 0).map((step) => step.what.replace("_", " ") + " " +
            commtap.format.number(step.times, "time") + " on " + commtap.format.number(step.ranks, "rank") + ", " +
            commtap.format.seconds(step.seconds) + " in all");
        return [
            ["own_time", smallPercent(cost.share) + most],
            ["cost_call", commtap.format.nanoseconds(cost.call_ns) + ", by " + commtap.format.count(cost.calls_measured) +
                " measured ones"],
            ["cost_budget", cost.budget_share === null ? null : smallPercent(cost.budget_share)],
            ["cost_shed", shed.length > 0 ? shed.join("; ") : null],
        ].filter(([, text]) => text !== null);
    };

    /* Losses have names of their own in the dump, which say what they are. */
    const nameOf = (key) => names[key] || "Lost: " + key.replace(/_/g, " ");

    const textOf = function (key, value) {
        if (value === null || value === undefined) {
            return "not known";
        }
        if (typeof value === "boolean") {
            return value ? "yes" : "no";
        }
        if (Array.isArray(value)) {
            return value.length > 0 ? value.join(", ") : "none";
        }
        if (key === "window") {
            return windowText(value);
        }
        if (key.endsWith("_seconds")) {
            return commtap.format.seconds(value);
        }
        if (key.endsWith("_share")) {
            return commtap.format.percent(value);
        }
        return typeof value === "number" ? commtap.format.count(value) : String(value);
    };

    const draw = function (node) {
        const report = commtap.block("report");
        const list = commtap.element("dl", {class: "facts"});
        let marks = 0;
        const add = function (key, value) {
            list.append(commtap.element("dt", null, nameOf(key)),
                commtap.element("dd", null, (values[key] && values[key][value]) || textOf(key, value)));
            marks++;
        };
        Object.keys(report.coverage).forEach((key) => add(key, report.coverage[key]));
        add("clock_error", report.job.clock_error_us === null ? null : commtap.format.microseconds(report.job.clock_error_us));
        add("missing_ranks", report.job.missing_ranks);
        add("events_lost", report.job.events_lost);
        const lost = Object.keys(report.losses || {}).filter((key) => report.losses[key] > 0);
        lost.forEach((key) => add(key, report.losses[key]));
        if (lost.length === 0) {
            add("losses", "nothing");
        }
        costRows(report.own_cost).forEach(([key, text]) => add(key, text));
        node.append(list);
        node.dataset.marks = marks;
    };

    commtap.addView({id: "coverage", title: "Coverage and losses", about: "what these figures rest on", draw});
}
