// SPDX-License-Identifier: Apache-2.0
//
// Where a job stands: the verdict in words, who waits for whom as a graph, who is to blame, every wait as a row. Waits
// lead from the left to those that could end them on the right; what waits in a circle stands in one.
"use strict";

{
    const WIDTH = 210; // of a node, pixels
    const HEIGHT = 58;
    const COLUMN = 300; // from node to node
    const ROW = 78;
    const BEND = 16;
    const LETTERS = 34; // that fit into a node
    const BOWS = [0, 1, -1, 2, -2, 3, -3, 4, -4].map((rows) => rows * ROW); // of a curve around nodes, tried in this order
    const NODES_MOST = 60; // more than that are put together by what they do
    const DOING = {
        user_code: "in its own code", blocked: "waits", call: "in", poll: "asks again and again in", init: "in MPI_Init",
        finalize: "in MPI_Finalize", finished: "past MPI_Finalize", gone: "gone", no_dump: "left no dump",
    };
    const looks = {
        culprit: {name: "to blame", color: "red"},
        waits: {name: "waits", color: "orange"},
        collective: {name: "a collective that not all have come to", color: "blue"},
        other: {name: "does something else", color: "green"},
    };
    const state = {node: null, graph: null};

    const shorten = (text) => (text.length > LETTERS ? text.slice(0, LETTERS - 1) + "\u2026" : text);

    /* ---- the graph ------------------------------------------------------------------------------- */

    const culpritOf = function (rank) {
        return commtap.block("diagnosis").culprits.find((culprit) => culprit.rank === rank) || null;
    };

    const tellWait = (wait) =>
        "waits in " + wait.op + (wait.seq !== null ? " #" + wait.seq : "") + (wait.any ? " for any of them" : "");

    const tellProcess = function (process, waits, culprit) {
        const what = waits.length > 0 ? tellWait(waits[0]) : DOING[process.doing] + (process.op ? " " + process.op : "");
        return [
            what + (process.stopped ? ", stopped" : ""),
            culprit ? "to blame: " + culprit.state.replace(/_/g, " ") : waits.length > 0 ? waits[0].site || "" : "",
        ];
    };

    /* What processes of one node have in common. */
    const keyOf = function (process, waits, culprit, coarse) {
        const what = [process.doing, process.op, process.stopped, culprit ? culprit.state : ""];
        const each = waits.map((wait) =>
            coarse ? [wait.op] : [wait.op, wait.comm, wait.seq, wait.collective, wait.site, wait.waits_for.join(" ")]
        );
        return JSON.stringify([what, each]);
    };

    const collectiveKey = (collective, number, coarse) => "collective " + (coarse ? collective.op : number);

    /* Ranks that the picture is about: who waits, who is waited for, who is to blame. */
    const concerned = function (diagnosis, standstill) {
        const ranks = new Set(diagnosis.culprits.map((culprit) => culprit.rank));
        const collectives = new Set();
        standstill.waits.forEach((wait) => {
            const process = standstill.processes[wait.process];
            ranks.add(process ? process.rank : null);
            wait.waits_for.forEach((rank) => ranks.add(rank));
            if (wait.collective !== null) {
                collectives.add(wait.collective);
            }
        });
        collectives.forEach((number) => diagnosis.collectives[number].missing.forEach((rank) => ranks.add(rank)));
        return {ranks, collectives};
    };

    const addProcesses = function (graph, standstill, ranks, one) {
        const waitsOf = new Map();
        standstill.waits.forEach((wait) =>
            waitsOf.set(wait.process, (waitsOf.get(wait.process) || []).concat(wait)));
        standstill.processes.forEach((process, number) => {
            if (process.rank === null || !ranks.has(process.rank)) {
                return;
            }
            const waits = waitsOf.get(number) || [];
            const culprit = culpritOf(process.rank);
            const key = one ? "rank " + process.rank : keyOf(process, waits, culprit, graph.coarse);
            if (!graph.nodes.has(key)) {
                const look = culprit ? "culprit" : waits.length > 0 ? "waits" : "other";
                graph.nodes.set(key, {key, ranks: [], waits: [], look, lines: tellProcess(process, waits, culprit)});
            }
            const node = graph.nodes.get(key);
            node.ranks.push(process.rank);
            node.waits.push(...waits);
            graph.ofRank.set(process.rank, node);
        });
    };

    /* Of a persistent collective, which of its starts. */
    const startText = (start) => (start === null ? "" : ", start #" + start);

    const addCollectives = function (graph, diagnosis, numbers) {
        numbers.forEach((number) => {
            const collective = diagnosis.collectives[number];
            const key = collectiveKey(collective, number, graph.coarse);
            const known = graph.nodes.get(key);
            const node = known || {key, ranks: null, look: "collective", count: 0, missing: new Set()};
            node.count++;
            node.lines = node.count > 1
                ? [node.count + " of " + collective.op, ""]
                : [
                    collective.op + " #" + collective.seq + startText(collective.start),
                    "on " + (collective.comm_name || collective.comm),
                ];
            collective.missing.forEach((rank) => node.missing.add(rank));
            graph.nodes.set(key, node);
            graph.ofCollective.set(number, node);
        });
    };

    const addEdge = function (graph, from, to) {
        const key = from.key + "\n" + to.key;
        if (!graph.edges.has(key)) {
            graph.edges.set(key, {from, to, inCircle: false});
        }
    };

    const addEdges = function (graph) {
        Array.from(graph.nodes.values()).forEach((node) => {
            const targets = node.missing ? Array.from(node.missing) : d3.merge(node.waits.map((wait) => wait.waits_for));
            targets.forEach((rank) => graph.ofRank.has(rank) && addEdge(graph, node, graph.ofRank.get(rank)));
            (node.waits || []).forEach(
                (wait) => wait.collective !== null && addEdge(graph, node, graph.ofCollective.get(wait.collective))
            );
        });
    };

    /* The circle that the verdict names, as nodes in the order of waiting. */
    const circleOf = function (graph, diagnosis) {
        const circle = [];
        diagnosis.cycle.forEach((wait) => {
            const node = graph.ofRank.get(wait.rank);
            const own = node && node.waits.find((one) => one.op === wait.op && one.seq === wait.seq && one.comm === wait.comm);
            const collective = own && own.collective !== null ? graph.ofCollective.get(own.collective) : null;
            [node, collective].forEach((one) => one && !circle.includes(one) && circle.push(one));
        });
        circle.forEach((node, n) => {
            const edge = graph.edges.get(node.key + "\n" + circle[(n + 1) % circle.length].key);
            if (edge) {
                edge.inCircle = true;
            }
        });
        return circle;
    };

    const build = function (diagnosis, standstill, coarse) {
        const graph = {nodes: new Map(), edges: new Map(), ofRank: new Map(), ofCollective: new Map(), coarse};
        const {ranks, collectives} = concerned(diagnosis, standstill);
        addProcesses(graph, standstill, ranks, ranks.size <= 8);
        addCollectives(graph, diagnosis, collectives);
        addEdges(graph);
        graph.circle = circleOf(graph, diagnosis);
        return graph;
    };

    const buildGraph = function () {
        const diagnosis = commtap.block("diagnosis");
        const standstill = commtap.block("standstill");
        const graph = build(diagnosis, standstill, false);
        return graph.nodes.size > NODES_MOST ? build(diagnosis, standstill, true) : graph;
    };

    /* ---- places ---------------------------------------------------------------------------------- */

    /* How many waits lie between a node and the nearest one that waits for nobody, or is in the circle. */
    const layersOf = function (graph) {
        const edges = Array.from(graph.edges.values());
        const waiting = new Set(edges.filter((edge) => edge.from !== edge.to).map((edge) => edge.from));
        const nodes = Array.from(graph.nodes.values());
        let reached = graph.circle.length > 0 ? graph.circle : nodes.filter((node) => !waiting.has(node));
        reached = reached.length > 0 ? reached : nodes.slice(0, 1);
        const layers = [];
        const seen = new Set();
        while (reached.length > 0) {
            reached.forEach((node) => seen.add(node));
            layers.push(reached);
            const front = reached;
            reached = nodes.filter((node) =>
                !seen.has(node) && edges.some((edge) => edge.from === node && front.includes(edge.to)));
        }
        const rest = nodes.filter((node) => !seen.has(node));
        if (rest.length > 0) {
            layers[0] = layers[0].concat(rest);
        }
        return layers;
    };

    const place = function (graph) {
        const layers = layersOf(graph);
        const circle = graph.circle.length > 1 ? graph.circle : [];
        const across = circle.length > 0 ? Math.max(COLUMN / 2, circle.length * 26) : 0;
        const down = circle.length > 0 ? Math.max(ROW, circle.length * 26) : 0;
        const columns = layers.map((layer) => layer.filter((node) => !circle.includes(node)));
        const right = columns.length * COLUMN - COLUMN / 2;
        const height = Math.max(2 * down + ROW, d3.max(columns, (column) => column.length) * ROW);
        columns.forEach((column, n) =>
            column.forEach((node, row) => {
                node.x = right - n * COLUMN + (n === 0 && circle.length > 0 ? 2 * across + COLUMN : 0);
                node.y = (height * (row + 0.5)) / column.length;
            })
        );
        circle.forEach((node, n) => {
            node.x = right + across * (1 - Math.sin((2 * Math.PI * n) / circle.length));
            node.y = height / 2 - down * Math.cos((2 * Math.PI * n) / circle.length);
        });
        return {width: d3.max(Array.from(graph.nodes.values()), (node) => node.x) + COLUMN / 2, height};
    };

    /* Where the line between two nodes leaves the first one's box. */
    const border = function (from, to) {
        const dx = to.x - from.x;
        const dy = to.y - from.y;
        const scale = Math.min(
            dx === 0 ? Infinity : WIDTH / 2 / Math.abs(dx),
            dy === 0 ? Infinity : HEIGHT / 2 / Math.abs(dy)
        );
        return [from.x + dx * scale, from.y + dy * scale];
    };

    /* ---- drawing --------------------------------------------------------------------------------- */

    /* Ends and handles of the curve from one node to another, bowed by so many pixels away from where it would run. */
    const curveOf = function (edge, bow) {
        const {from, to} = edge;
        if (from === to) {
            const [x, y] = [from.x, from.y - HEIGHT / 2];
            return [[x - 30, y], [x - 30, y - 30], [x + 30, y - 30], [x + 30, y]];
        }
        if (to.x - from.x > WIDTH) {
            const middle = (from.x + to.x) / 2;
            return [[from.x + WIDTH / 2, from.y], [middle, from.y + bow], [middle, to.y + bow], [to.x - WIDTH / 2, to.y]];
        }
        /* bent to one side, so that two which wait for each other have two lines */
        const [x0, y0] = border(from, to);
        const [x1, y1] = border(to, from);
        const bend = (2 * (BEND + bow)) / 3 / (Math.hypot(x1 - x0, y1 - y0) || 1);
        const [dx, dy] = [-bend * (y1 - y0), bend * (x1 - x0)];
        return [[x0, y0], [(2 * x0 + x1) / 3 + dx, (2 * y0 + y1) / 3 + dy], [(x0 + 2 * x1) / 3 + dx, (y0 + 2 * y1) / 3 + dy],
            [x1, y1]];
    };

    const pointsOf = ([a, b, c, d]) =>
        d3.range(0, 1.001, 1 / 32).map((t) => [0, 1].map((axis) =>
            (1 - t) ** 3 * a[axis] + 3 * (1 - t) ** 2 * t * b[axis] + 3 * (1 - t) * t ** 2 * c[axis] + t ** 3 * d[axis]));

    /* How many points of a curve lie behind nodes that it neither leaves nor comes to. */
    const hiddenBy = (nodes, edge, curve) =>
        d3.sum(pointsOf(curve), ([x, y]) => nodes.some((node) => node !== edge.from && node !== edge.to &&
            Math.abs(x - node.x) < WIDTH / 2 + 4 && Math.abs(y - node.y) < HEIGHT / 2 + 4));

    /* Nodes hide what runs behind them: the curve with the least bow that none of them hides, or the least of it. */
    const routeEdges = function (graph) {
        const nodes = Array.from(graph.nodes.values());
        graph.edges.forEach((edge) => {
            let least = Infinity;
            for (let n = 0; n < BOWS.length && least > 0; n++) {
                const curve = curveOf(edge, BOWS[n]);
                const hidden = hiddenBy(nodes, edge, curve);
                edge.curve = hidden < least ? curve : edge.curve;
                least = Math.min(least, hidden);
            }
        });
    };

    const pathOf = ({curve: [a, b, c, d]}) => "M" + a + "C" + b + " " + c + " " + d;

    const drawEdges = function (svg, graph) {
        ["soft", "red"].forEach((color) =>
            svg.append("defs").append("marker").attr("id", "arrow-" + color).attr("viewBox", "0 0 8 8").attr("refX", 8)
                .attr("refY", 4).attr("markerWidth", 6).attr("markerHeight", 6).attr("orient", "auto")
                .append("path").attr("d", "M0,0L8,4L0,8Z").style("fill", "var(--" + color + ")")
        );
        svg.selectAll("path.wait").data(Array.from(graph.edges.values())).enter().append("path").attr("class", "wait")
            .attr("d", pathOf)
            .attr("data-circle", (edge) => (edge.inCircle ? "yes" : null))
            .attr("marker-end", (edge) => "url(#arrow-" + (edge.inCircle ? "red" : "soft") + ")")
            .style("stroke", (edge) => "var(--" + (edge.inCircle ? "red" : "soft") + ")");
    };

    const titleOf = (node) =>
        node.ranks ? commtap.format.ranks(node.ranks) : commtap.format.number(node.missing.size, "rank") + " missing";

    const tellNode = (node) => [titleOf(node)].concat(node.lines).filter((line) => line);

    const press = function (node) {
        if (node.ranks && node.ranks.length === 1) {
            commtap.showRank(node.ranks[0]);
        } else {
            const ranks = node.ranks || Array.from(node.missing);
            commtap.selection.choose({ranks: commtap.rangesOf(ranks)});
        }
    };

    const drawNodes = function (svg, graph) {
        const nodes = svg.selectAll("g.process").data(Array.from(graph.nodes.values())).enter().append("g")
            .attr("class", (node) => "process " + node.look)
            .attr("transform", (node) => "translate(" + (node.x - WIDTH / 2) + "," + (node.y - HEIGHT / 2) + ")")
            .attr("role", "button")
            .attr("tabindex", 0)
            .attr("aria-label", (node) => tellNode(node).join("; "))
            .on("click", press)
            .on("keydown", (node) => d3.event.key === "Enter" && press(node))
            .on("mousemove", (node) => commtap.showBeside(d3.event, tellNode(node)))
            .on("mouseleave", () => commtap.showBeside(d3.event, null));
        nodes.append("rect").attr("width", WIDTH).attr("height", HEIGHT)
            .attr("rx", (node) => (node.ranks ? 4 : HEIGHT / 2))
            .style("stroke", (node) => "var(--" + looks[node.look].color + ")");
        const line = (y, weight, text) =>
            nodes.append("text").attr("x", WIDTH / 2).attr("y", y).style("font-weight", weight)
                .text((node) => shorten(text(node)));
        line(18, 600, titleOf);
        line(34, 400, (node) => node.lines[0]);
        line(50, 400, (node) => node.lines[1]);
    };

    const drawGraph = function (node) {
        const graph = buildGraph();
        state.graph = graph;
        node.dataset.nodes = graph.nodes.size;
        node.dataset.edges = graph.edges.size;
        if (graph.nodes.size === 0) {
            commtap.empty(node, "Nobody waited in a call that others can be told to be missing in.");
            return;
        }
        const {width, height} = place(graph);
        const label = "who waits for whom: " + commtap.format.number(graph.nodes.size, "node") + ", " +
            commtap.format.number(graph.edges.size, "wait");
        const holder = commtap.element("div", {class: "scroll", tabindex: 0, role: "group", "aria-label": label});
        node.append(commtap.legend(Object.keys(looks).map((key) => looks[key])), holder);
        routeEdges(graph);
        const curves = d3.merge(Array.from(graph.edges.values(), (edge) => pointsOf(edge.curve)));
        const [left, top] = [0, 1].map((axis) => Math.min(0, d3.min(curves, (point) => point[axis])));
        const [right, bottom] = [width, height].map((size, axis) => Math.max(size, d3.max(curves, (point) => point[axis])));
        const svg = d3.select(holder).append("svg").attr("width", right - left + 8).attr("height", bottom - top + 32)
            .append("g").attr("transform", "translate(" + (4 - left) + "," + (28 - top) + ")");
        drawEdges(svg, graph);
        drawNodes(svg, graph);
        if (graph.coarse) {
            node.append(commtap.element("p", {class: "note"}, "There are many: ranks that do the same are one, and so are " +
                "collectives of one function. The rows below have every wait."));
        }
    };

    /* ---- in words and rows ----------------------------------------------------------------------- */

    const drawVerdict = function (node, diagnosis) {
        const list = commtap.element("ul", {class: "verdict " + diagnosis.severity});
        diagnosis.text.forEach((sentence, n) =>
            list.append(commtap.element("li", null, n === 0
                ? commtap.element("strong", null, commtap.linked(sentence))
                : commtap.linked(sentence)))
        );
        node.append(list);
    };

    /* "ranks 0, 2 in MPI_Allreduce", for each call that ranks wait in. */
    const openCalls = function (standstill) {
        const ofCall = new Map();
        standstill.waits.forEach((wait) => {
            const process = standstill.processes[wait.process];
            if (process && process.rank !== null) {
                ofCall.set(wait.op, (ofCall.get(wait.op) || new Set()).add(process.rank));
            }
        });
        return Array.from(ofCall, ([op, ranks]) => commtap.format.ranks(Array.from(ranks)) + " in " + op);
    };

    /** Where ranks stood in calls that never returned: that what they waited there is in no figure. */
    commtap.noteOpenCalls = function (node) {
        const calls = openCalls(commtap.block("standstill"));
        if (calls.length > 0) {
            node.append(commtap.element("p", {class: "note open-calls"}, "What is on record ends " +
                commtap.format.seconds(commtap.block("report").job.wall_seconds) + " into the job, when " + calls.join(", ") +
                " had not come back. How long they waited after that is in no figure and no picture; " +
                "the findings say since when."));
        }
    };

    const rankText = (value) => (value === null ? "-" : commtap.format.ranks(value));

    const drawTables = function (node, diagnosis, standstill) {
        const column = commtap.column;
        if (diagnosis.culprits.length > 0) {
            node.append(commtap.element("h3", null, "Who is to blame"));
            const culprits = new commtap.Table(
                node,
                [column("rank", "rank", {text: commtap.format.rank}), column("host", "host", {left: true}),
                    column("state", "what it is", {left: true}), column("where", "where", {left: true}),
                    column("reason", "why", {left: true})],
                {
                    name: "culprits",
                    search: (row) => [row.rank, row.host, row.state, row.where].join(" "),
                    press: (row) => row.rank !== null && commtap.showRank(row.rank),
                }
            );
            culprits.show(diagnosis.culprits);
        }
        if (standstill.waits.length === 0) {
            return;
        }
        node.append(commtap.element("h3", null, "Waits"));
        if (standstill.waits_found > standstill.waits.length) {
            node.append(commtap.element("p", {class: "note"}, "The first " +
                commtap.format.count(standstill.waits.length) + " of " + commtap.format.count(standstill.waits_found) + "."));
        }
        const waits = new commtap.Table(
            node,
            [column("rank", "rank", {text: commtap.format.rank}), column("op", "in", {left: true}),
                column("comm_name", "on", {left: true}), column("seq", "number"),
                column("start", "start"), column("waits_for", "waits for", {left: true, text: rankText}),
                column("site", "call site", {left: true})],
            {
                name: "waits",
                search: (row) => [row.rank, row.op, row.comm_name, row.site].join(" "),
                press: (row) => row.rank !== null && commtap.showRank(row.rank),
            }
        );
        const rows = standstill.waits.map((wait) => ({
            rank: standstill.processes[wait.process] ? standstill.processes[wait.process].rank : null,
            op: wait.op, comm_name: wait.comm_name || wait.comm, seq: wait.seq, site: wait.site,
            start: wait.collective === null ? null : diagnosis.collectives[wait.collective].start,
            waits_for: wait.collective === null ? wait.waits_for : diagnosis.collectives[wait.collective].missing,
        }));
        const redraw = () => waits.show(rows.filter((row) => row.rank === null || commtap.selection.hasRank(row.rank)));
        commtap.selection.onChange("hang", redraw, ["ranks", "host", "stage"]);
        redraw();
    };

    const draw = function (node) {
        const diagnosis = commtap.block("diagnosis");
        const standstill = commtap.block("standstill");
        drawVerdict(node, diagnosis);
        state.node = commtap.element("div", {class: "waits"});
        node.append(state.node);
        drawGraph(state.node);
        drawTables(node, diagnosis, standstill);
        node.dataset.marks = diagnosis.text.length;
    };

    commtap.addView({
        id: "hang",
        title: "Does it hang",
        about: "where every rank was when the dumps were read, or when the job ended, and for whom it waited",
        draw,
    });
}
