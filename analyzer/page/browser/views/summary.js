// SPDX-License-Identifier: Apache-2.0
//
// The job in figures: how its time was spent, how well it works in parallel, what mending would gain, how it is laid out.
"use strict";

{
    const sum = (rows, key) => d3.sum(rows, (row) => row[key] || 0);

    const timeOf = function (report) {
        const format = commtap.format;
        const window = sum(report.ranks, "window_seconds");
        const share = (key) => (window > 0 ? sum(report.ranks, key) / window : null);
        return [
            ["Time", format.seconds(report.job.wall_seconds)],
            ["Of the ranks' time in communication", format.percent(share("comm_seconds"))],
            ["Of the ranks' time waiting for others", format.percent(share("wait_seconds"))],
            ["Of the ranks' time transferring", format.percent(share("transfer_seconds"))],
            ["Critical path", format.seconds(report.critical_path ? report.critical_path.seconds : null)],
        ];
    };

    const efficiencyOf = function (report) {
        const format = commtap.format;
        const {efficiencies, what_if: gain} = report;
        return [
            ["Parallel efficiency", format.percent(efficiencies && efficiencies.parallel_efficiency)],
            ["Load balance", format.percent(efficiencies && efficiencies.load_balance)],
            ["Communication efficiency", format.percent(efficiencies && efficiencies.communication_efficiency)],
            ["Faster with those named mended", gain && gain.named_speedup ? format.ratio(gain.named_speedup) + " times" : "-"],
            ["Faster with work dealt out evenly", gain && gain.even_speedup ? format.ratio(gain.even_speedup) + " times" : "-"],
        ];
    };

    const stepsOf = function () {
        const rows = commtap.block("overview").filter((row) => row.step !== null && row.step !== undefined);
        const middle = (key) => d3.median(rows, (row) => row[key]);
        return [
            ["Steps", commtap.format.count(commtap.block("steps").steps_found)],
            ["Median step", commtap.format.seconds(middle("step_seconds"))],
            ["Longest step", commtap.format.seconds(d3.max(rows, (row) => row.step_seconds))],
        ];
    };

    /* Communicators of one role in the parallel layout: "2 of 4 ranks". */
    const layoutOf = function () {
        const {dumps, communicators} = commtap.block("page");
        const bySize = new Map();
        communicators.filter((item) => item.role !== null).forEach((item) => {
            const sizes = bySize.get(item.role) || new Map();
            bySize.set(item.role, sizes.set(item.size, (sizes.get(item.size) || 0) + 1));
        });
        const rows = Array.from(bySize.keys()).sort().map((role) => [
            role + " groups",
            Array.from(bySize.get(role), ([size, count]) => count + " of " + commtap.format.number(size, "rank")).join(", "),
        ]);
        const devices = new Map();
        dumps.forEach((dump) => dump.devices.forEach((device) => {
            const name = device.name || "unnamed";
            devices.set(name, (devices.get(name) || 0) + 1);
        }));
        const hosts = commtap.hosts().length;
        return [["Ranks", commtap.format.count(dumps.length)],
            ["Hosts", hosts > 0 ? commtap.format.count(hosts) : "not known"]]
            .concat(commtap.stages().length > 0 ? [["Pipeline stages", commtap.stages().length]] : [])
            .concat(rows)
            .concat(Array.from(devices, ([name, count]) => ["GPU " + name, commtap.format.count(count)]));
    };

    const draw = function (node) {
        const report = commtap.block("report");
        const parts = [["Time", timeOf(report)], ["Efficiency", efficiencyOf(report)], ["Steps", stepsOf()],
            ["Layout", layoutOf()]];
        const grid = commtap.element("div", {class: "summary"});
        parts.forEach(([title, rows]) => {
            const list = commtap.element("dl", {class: "facts"});
            rows.forEach(([name, text]) => list.append(commtap.element("dt", null, name), commtap.element("dd", null, text)));
            grid.append(commtap.element("div", null, commtap.element("h3", null, title), list));
        });
        node.append(grid);
        commtap.noteOpenCalls(node);
        node.dataset.marks = d3.sum(parts, ([, rows]) => rows.length);
    };

    commtap.addView({id: "summary", title: "Summary", about: "the job in figures", wholeRun: true, draw});
}
