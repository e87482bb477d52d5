// SPDX-License-Identifier: Apache-2.0
//
// Who sent what to whom: the graph (links_graph.js) beside the adjacency matrix, and the table of all links.
"use strict";

{
    const MATRIX_LEAST = 500; // pixels
    const MATRIX_MOST = 900;
    const CELL_MOST = 22;
    const LEFT = 56;
    const TOP = 24;
    const GAP = 24;
    const GRAPH_LEAST = 420;
    const GRAPH_MOST = 1100;
    const state = {graph: null, matrix: null, table: null, kind: null, shade: "bytes", ranks: null};
    /* How the figures of a kind of links came about. */
    commtap.linkOrigins = {
        messages: "Counted by the ranks themselves; waits and times rest on messages that are on record at both ends.",
        network: "Measured: by NCCL's network proxies, step by step.",
        collectives: "Estimated, not measured: as if every collective went round a ring in the order of ranks.",
    };
    const shades = {
        bytes: "bytes",
        messages: "messages",
        wait_seconds: "waiting",
        transfer_seconds: "time transferring",
        bandwidth_gb_per_s: "bandwidth",
    };

    const chosenLinks = () =>
        commtap.block("links").links.filter(
            (link) => link.kind === state.kind && (commtap.selection.hasRank(link.from) || commtap.selection.hasRank(link.to))
        );

    /* Those between ranks that are chosen in the graph. */
    const shownLinks = () =>
        chosenLinks().filter((link) => !state.ranks || (state.ranks.has(link.from) && state.ranks.has(link.to)));

    /* Receives without a status have the size of their buffers. */
    const atMost = (link) => link.counted_by === "receiver";

    const tellLink = function (link) {
        const format = commtap.format;
        return [
            "rank " + link.from + " to rank " + link.to + " (" + format.text(link.type) + ")",
            format.number(link.messages, "message") + ", " + (atMost(link) ? "at most " : "") + format.bytes(link.bytes) +
                (link.counted_by ? ", counted by the " + link.counted_by : ""),
            "waited " + format.seconds(link.wait_seconds) + ", transferring " + format.seconds(link.transfer_seconds),
            link.bandwidth_gb_per_s !== null && link.bandwidth_gb_per_s !== undefined
                ? format.bandwidth(link.bandwidth_gb_per_s) + " (" + link.method + ")"
                : "bandwidth not measured: " + format.text(link.unmeasured),
        ];
    };

    const matrixRoom = () =>
        Math.max(MATRIX_LEAST, Math.min(MATRIX_MOST, 0.4 * commtap.widthOf(state.graph.parentNode)));

    /* Every rank's number, or of many so few that they do not run into each other. */
    const labelRanks = function (context, ranks, each) {
        context.fillStyle = commtap.color("ink");
        context.font = "11px sans-serif";
        const widest = context.measureText(ranks[ranks.length - 1]).width;
        const every = Math.max(1, Math.ceil(Math.max(12, widest + 6) / each));
        ranks.forEach((rank, n) => {
            if (n % every === 0) {
                context.textAlign = "right";
                context.fillText(rank, LEFT - 6, TOP + (n + 0.5) * each + 4);
                context.textAlign = "center";
                context.fillText(rank, LEFT + (n + 0.5) * each, 16);
            }
        });
        state.matrix.dataset.labelled = Math.ceil(ranks.length / every);
    };

    const drawMatrix = function (links) {
        state.matrix.replaceChildren();
        if (links.length === 0) {
            commtap.empty(state.matrix, "No link of that kind carried anything on record.");
            return;
        }
        const ranks = Array.from(new Set(d3.merge(links.map((link) => [link.from, link.to])))).sort((a, b) => a - b);
        const place = new Map(ranks.map((rank, n) => [rank, n]));
        const each = Math.min(CELL_MOST, matrixRoom() / ranks.length);
        const size = each * ranks.length;
        const label = "matrix of " + ranks.length + " ranks, from down, to across";
        const {canvas, context} = commtap.canvas(LEFT + size, TOP + size, label);
        const most = d3.max(links, (link) => link[state.shade] || 0) || 1;
        context.fillStyle = commtap.color("panel");
        context.fillRect(LEFT, TOP, size, size);
        links.forEach((link) => {
            const value = link[state.shade];
            if (value === null || value === undefined) {
                return;
            }
            context.fillStyle = d3.interpolateCividis(value / most);
            const side = each > 4 ? each - 1 : Math.max(each, 1);
            const at = (rank) => (each > 4 ? place.get(rank) * each : Math.floor(place.get(rank) * each));
            context.fillRect(LEFT + at(link.to), TOP + at(link.from), side, side);
        });
        labelRanks(context, ranks, each);
        const byPair = new Map(links.map((link) => [link.from + " " + link.to, link]));
        canvas.addEventListener("mousemove", (event) => {
            const to = ranks[Math.floor((event.offsetX - LEFT) / each)];
            const from = ranks[Math.floor((event.offsetY - TOP) / each)];
            const link = byPair.get(from + " " + to);
            commtap.showBeside(event, link ? tellLink(link) : null);
        });
        canvas.addEventListener("mouseleave", (event) => commtap.showBeside(event, null));
        const holder = commtap.element("div", null, canvas);
        state.matrix.append(holder, commtap.element("p", {class: "note"}, "From whom down, to whom across; bright is most: " +
            commtap.column(state.shade, "").text(most)));
        commtap.walkable(holder, state.matrix, {
            rows: ranks.length,
            first: (row, near) => near || 0,
            next: (row, to, by) => Math.max(0, Math.min(to + by, ranks.length - 1)),
            tell: function (row, to) {
                const link = byPair.get(ranks[row] + " " + ranks[to]);
                return link ? tellLink(link) : ["rank " + ranks[row] + " to rank " + ranks[to] + ": nothing of that kind"];
            },
            box: (row, to) => ({left: LEFT + to * each, top: TOP + row * each, width: each, height: each}),
            rank: (row) => ranks[row],
        });
    };

    const redrawShown = function () {
        const links = shownLinks();
        drawMatrix(links);
        state.table.show(links);
    };

    const redraw = function () {
        const links = chosenLinks();
        state.ranks = null;
        state.origin.textContent = commtap.linkOrigins[state.kind];
        state.graph.replaceChildren();
        if (links.length > 0) {
            const room = commtap.widthOf(state.graph.parentNode) - matrixRoom() - LEFT - GAP;
            const width = Math.max(GRAPH_LEAST, Math.min(GRAPH_MOST, room));
            const graph = commtap.drawLinkGraph(state.graph, width, links, (ranks) => {
                state.ranks = ranks;
                state.all.disabled = !ranks;
                redrawShown();
            });
            state.clear = graph.clear;
        }
        state.all.disabled = true;
        redrawShown();
    };

    const columns = function () {
        const column = commtap.column;
        return [
            column("from", "from", {text: commtap.format.rank}),
            column("to", "to", {text: commtap.format.rank}),
            column("from_host", "from host", {left: true}),
            column("to_host", "to host", {left: true}),
            column("type", "type", {left: true}),
            column("messages", "messages"),
            column("bytes", "bytes", {heat: true, atMost}),
            column("wait_seconds", "waited", {heat: true}),
            column("transfer_seconds", "transferring", {heat: true}),
            column("bandwidth_gb_per_s", "bandwidth", {heat: true}),
            column("bandwidth_at_least_gb_per_s", "at least"),
            column("method", "how measured", {left: true}),
            column("unmeasured", "why not", {left: true}),
            column("counted_by", "counted by", {left: true, about: "whose number and bytes they are; a receiver may know no " +
                "more of a message than the size of its buffer"}),
        ];
    };

    const draw = function (node) {
        const block = commtap.block("links");
        const kinds = Array.from(new Set(block.links.map((link) => link.kind)));
        node.dataset.marks = block.links.length;
        if (kinds.length === 0) {
            commtap.empty(node, "No link carried anything on record: there were no messages, " +
                "and no collective whose way is known.");
            return;
        }
        if (block.links_found > block.links.length) {
            node.append(
                commtap.element("p", {class: "note"}, "The page holds the " + commtap.format.count(block.links.length) +
                    " links that carried most of " + commtap.format.count(block.links_found) + "; commtap links has all of them.")
            );
        }
        state.kind = kinds[0];
        state.all = commtap.button("All nodes", () => state.clear());
        state.origin = commtap.element("p", {class: "note"});
        node.append(
            commtap.element(
                "div",
                {class: "controls"},
                commtap.choice("Links of", kinds.map((kind) => [kind, kind]), state.kind, (value) => {
                    state.kind = value;
                    redraw();
                }),
                commtap.choice("Shade by", Object.keys(shades).map((key) => [key, shades[key]]), state.shade, (value) => {
                    state.shade = value;
                    redrawShown();
                }),
                state.all
            ),
            state.origin
        );
        state.graph = commtap.element("div");
        state.matrix = commtap.element("div", {class: "scroll"});
        node.append(commtap.element("div", {class: "side-by-side"}, state.graph, state.matrix));
        state.table = new commtap.Table(node, columns(), {
            name: "links",
            sort: "bytes",
            filters: ["from", "to", "from_host", "to_host", "type", "method"],
            search: (row) => [row.from, row.to, row.from_host, row.to_host, row.type, row.method].join(" "),
        });
        commtap.selection.onChange("links", redraw, ["ranks", "host", "stage", "light"]);
        redraw();
    };

    commtap.addView({
        id: "links",
        title: "Links",
        about: "who sent what to whom, how fast, and how that was measured",
        wholeRun: true,
        draw,
    });
}
