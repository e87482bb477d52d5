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
    };
    /* What the value stands for where it is one of these. */
    const values = {
        source: {tables: "all calls, counted", records: "the calls on record"},
        window: {null: "all of it"},
        clock_error: {null: "not known: waits between hosts are not known either"},
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
        if (typeof value === "object") {
            return JSON.stringify(value);
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
        const losses = report.losses || {};
        Object.keys(losses)
            .filter((key) => losses[key] > 0)
            .forEach((key) => add(key, losses[key]));
        node.append(list);
        node.dataset.marks = marks;
    };

    commtap.addView({id: "coverage", title: "Coverage and losses", about: "what these figures rest on", draw});
}
