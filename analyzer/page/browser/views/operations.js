// SPDX-License-Identifier: Apache-2.0
//
// Sums per operation, communicator and size; waits by call site.
"use strict";

{
    const columns = function () {
        const column = commtap.column;
        const atMost = (row) => row.posted_sizes > 0; // receives without a status
        return [
            column("op", "operation", {left: true}),
            column("source", "timed by", {left: true}),
            column("comm_name", "communicator", {left: true}),
            column("comm_size", "size"),
            column("bytes", "bytes", {atMost}),
            column("count", "calls", {heat: true}),
            column("bytes_total", "in all", {text: commtap.format.bytes, heat: true, atMost}),
            column("time_total_us", "time", {heat: true}),
            column("time_avg_us", "mean"),
            column("time_p50_us", "median"),
            column("time_p99_us", "99 %"),
            column("time_max_us", "longest", {heat: true}),
            column("wait_seconds", "waiting", {heat: true}),
            column("busbw_gb_per_s", "bus bandwidth"),
        ];
    };

    /** Below figures with receives of which only the buffer's size is known: that they are such, how they are marked, more. */
    commtap.notePostedSizes = function (node, mark, more) {
        const posted = d3.sum(commtap.block("report").summary, (row) => row.posted_sizes);
        if (posted > 0) {
            node.append(commtap.element("p", {class: "note"}, commtap.format.number(posted, "receive") + " had no status: " +
                "sizes are those of the buffers" + (mark || "") + ", not of what came" + (more || "") + "."));
        }
    };

    const noteShares = function (node) {
        const shares = d3.sum(commtap.block("report").summary, (row) => row.shared_times);
        if (shares > 0) {
            node.append(commtap.element("p", {class: "note"}, "Times of " + commtap.format.number(shares, "GPU operation") +
                " are shares: NCCL ran several communicators of a group on one stream, and their common time is told by " +
                "their numbers of operations. No bandwidth is told of them."));
        }
    };

    const draw = function (node) {
        const report = commtap.block("report");
        const table = new commtap.Table(node, columns(), {
            name: "operations",
            search: (row) => [row.op, row.comm_name, row.source].join(" "),
        });
        table.show(report.summary);
        commtap.notePostedSizes(node, " (\u2264)", "; rows with such have no bandwidth");
        noteShares(node);
        node.append(commtap.element("h3", null, "Waits by call site"));
        const column = commtap.column;
        const sites = new commtap.Table(
            node,
            [
                column("site", "call site", {left: true}),
                column("wait_seconds", "waited there", {heat: true}),
                column("waited_for_seconds", "waited for", {heat: true}),
            ],
            {name: "sites", search: (row) => String(row.site)}
        );
        sites.show(report.sites);
        node.dataset.marks = report.summary.length;
    };

    commtap.addView({
        id: "operations-table",
        title: "Operations",
        about: "sums over all ranks, of the whole run",
        wholeRun: true,
        draw,
    });
}
