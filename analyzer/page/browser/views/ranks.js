// SPDX-License-Identifier: Apache-2.0
//
// Who makes the others wait, with the evidence; every rank's share; what mending would gain.
"use strict";

{
    const SURE_MOST = 0.99; // as findings put it: no figure is surer than what was looked at

    const whoIs = function (straggler) {
        if (straggler.kind === "host") {
            return "host " + straggler.host;
        }
        if (straggler.kind === "link" && straggler.link) {
            return "link " + straggler.link.src + " to " + straggler.link.dst;
        }
        const ranks = straggler.ranks && straggler.ranks.length > 0 ? straggler.ranks : [straggler.rank];
        return (ranks.length > 1 ? "ranks " : "rank ") + ranks.slice(0, 8).join(", ") +
            (ranks.length > 8 ? " and " + (ranks.length - 8) + " more" : "");
    };

    const tellStraggler = function (straggler) {
        const format = commtap.format;
        const facts = [
            "the others waited " + format.seconds(straggler.waited_for_seconds) + " for it",
            straggler.slowdown_ratio ? format.ratio(straggler.slowdown_ratio) + " times the others' own work" : "",
            straggler.site ? "at " + straggler.site : "",
            straggler.what_if_speedup
                ? "mended, the job would run " + format.ratio(straggler.what_if_speedup) + " times as fast"
                : "",
            "confidence " + format.ratio(Math.min(straggler.confidence, SURE_MOST)),
        ];
        return facts.filter((fact) => fact !== "").join("; ");
    };

    const drawStragglers = function (node, stragglers) {
        const list = commtap.element("ol", {class: "stragglers"});
        stragglers.forEach((straggler) => {
            const ranks = straggler.ranks && straggler.ranks.length > 0 ? straggler.ranks : [straggler.rank];
            const only = straggler.rank !== null && straggler.rank !== undefined && straggler.rank >= 0;
            const page = only ? commtap.element("a", {href: "#rank=" + straggler.rank}, "its page") : null;
            const press = commtap.button(whoIs(straggler), () =>
                commtap.selection.choose(
                    straggler.kind === "host" ? {host: straggler.host} : {ranks: commtap.rangesOf(ranks)}
                )
            );
            list.append(
                commtap.element("li", {class: only ? "rank" : straggler.kind}, press, ": ", tellStraggler(straggler), " ", page)
            );
        });
        if (stragglers.length > 0) {
            node.append(list);
        } else {
            commtap.empty(node, "Nobody is named: nobody is late more often than chance explains.");
        }
    };

    /* GPU and place in the parallel layout, where any is known. */
    const places = () =>
        [["gpu", "GPU", commtap.devicesOf], ["layout", "parallel layout", commtap.layoutOf]]
            .filter(([, , textOf]) => commtap.block("page").dumps.some((dump) => textOf(dump) !== ""))
            .map(([key, title, textOf]) =>
                commtap.column(key, title, {left: true, value: (row) => textOf(commtap.memberOf(row.rank)) || null}));

    const columns = function () {
        const column = commtap.column;
        return [
            column("rank", "rank", {text: commtap.format.rank}),
            column("host", "host", {left: true}),
            column("caused_seconds", "caused", {heat: true, about: "of all ranks' waits, what comes from this one in the end"}),
            column("wait_seconds", "waited", {heat: true, about: "for others"}),
            column("comm_seconds", "in communication", {heat: true}),
            column("transfer_seconds", "transferring", {heat: true}),
            column("critical_path_seconds", "on critical path", {heat: true}),
            column("self_ratio", "own work, ratio", {
                text: commtap.format.ratio,
                heat: true,
                about: "own work by the median of its peers",
            }),
            column("window_seconds", "looked at"),
            column("state", "ended", {left: true}),
        ].concat(places());
    };

    const draw = function (node) {
        const report = commtap.block("report");
        drawStragglers(node, report.stragglers);
        const table = new commtap.Table(node, columns(), {
            name: "ranks",
            sort: "caused_seconds",
            search: (row) => row.rank + " " + row.host + " " + row.state,
            press: (row) => commtap.selection.choose({ranks: commtap.rangesOf([row.rank])}),
        });
        const redraw = () => table.show(report.ranks.filter((row) => commtap.selection.hasRank(row.rank)));
        commtap.selection.onChange("ranks", redraw, ["ranks", "host", "stage"]);
        redraw();
        node.dataset.marks = report.ranks.length;
    };

    commtap.addView({
        id: "ranks",
        title: "Who makes the others wait",
        about: "named where chance is ruled out; every rank's share below",
        wholeRun: true,
        draw,
    });
}
