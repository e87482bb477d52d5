// SPDX-License-Identifier: Apache-2.0
//
// Who talks to whom as a graph: a node per rank, or per host where ranks are many. A node grows with the time its ranks
// communicate and wait; its colour is the share of that in which something moved.
"use strict";

{
    const HEIGHT = 520; // pixels
    const RADIUS_LEAST = 5;
    const RADIUS_MOST = 22;
    const RANKS_MOST = 60; // nodes of single ranks
    const NODES_MOST = 128;
    const MOVES = 7200; // of nodes until they rest, so that many rest as soon as few
    const MARGIN = 26;
    const PEERS_TOLD = 3; // of a node that is read out
    const STEP = 12; // pixels that an arrow key moves a node by
    const DIRECTIONS = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};

    /* ---- nodes and edges ------------------------------------------------------------------------- */

    const ranksOf = (links) => Array.from(new Set(d3.merge(links.map((link) => [link.from, link.to])))).sort((a, b) => a - b);

    /* Sums over the ranks of every node. */
    const nodesOf = function (ranks, byHost) {
        const figures = new Map(commtap.block("report").ranks.map((row) => [row.rank, row]));
        const nodes = new Map();
        ranks.forEach((rank) => {
            const key = byHost ? commtap.memberOf(rank).host : String(rank);
            const node = nodes.get(key) || {key, ranks: [], spent: 0, waited: 0};
            const row = figures.get(rank) || {};
            node.ranks.push(rank);
            node.spent += row.comm_seconds || 0; // waiting included
            node.waited += row.wait_seconds || 0;
            nodes.set(key, node);
        });
        return Array.from(nodes.values());
    };

    /* Both ways between two nodes in one. */
    const edgesOf = function (links, nodeOf) {
        const edges = new Map();
        links.forEach((link) => {
            const ends = [nodeOf.get(link.from), nodeOf.get(link.to)];
            if (!ends[0] || !ends[1] || ends[0] === ends[1]) {
                return;
            }
            ends.sort((a, b) => a.place - b.place);
            const key = ends[0].place + " " + ends[1].place;
            const none = {source: ends[0], target: ends[1], bytes: 0, messages: 0, waited: 0, estimated: true};
            const edge = edges.get(key) || none;
            edge.bytes += link.bytes;
            edge.messages += link.messages;
            edge.waited += link.wait_seconds || 0;
            edge.estimated = edge.estimated && link.method === "estimated";
            edges.set(key, edge);
        });
        return Array.from(edges.values());
    };

    const build = function (links) {
        const ranks = ranksOf(links);
        const hosts = new Set(ranks.map((rank) => commtap.memberOf(rank).host));
        const byHost = ranks.length > RANKS_MOST && hosts.size > 1;
        const all = nodesOf(ranks, byHost).sort((a, b) => b.spent - a.spent);
        const nodes = all.slice(0, NODES_MOST);
        const nodeOf = new Map();
        nodes.forEach((node, place) => {
            node.place = place;
            node.share = node.spent > 0 ? Math.max(0, Math.min(1, 1 - node.waited / node.spent)) : null;
            node.ranks.forEach((rank) => nodeOf.set(rank, node));
        });
        return {byHost, nodes, edges: edgesOf(links, nodeOf), leftOut: all.length - nodes.length};
    };

    /* ---- layout ---------------------------------------------------------------------------------- */

    const keepInside = function (node, width) {
        node.x = Math.max(MARGIN, Math.min(width - MARGIN, node.x));
        node.y = Math.max(MARGIN, Math.min(HEIGHT - MARGIN, node.y));
    };

    /* In a circle by rank, from where forces pull together what talks together. */
    const layOut = function (graph, width) {
        const inOrder = graph.nodes.slice().sort((a, b) => a.ranks[0] - b.ranks[0]);
        inOrder.forEach((node, n) => {
            node.x = width / 2 + (width / 3) * Math.sin((2 * Math.PI * n) / inOrder.length);
            node.y = HEIGHT / 2 - (HEIGHT / 3) * Math.cos((2 * Math.PI * n) / inOrder.length);
        });
        const room = Math.sqrt((width * HEIGHT) / graph.nodes.length);
        const largest = Math.max(RADIUS_LEAST + 2, Math.min(RADIUS_MOST, room / 4));
        const most = d3.max(graph.nodes, (node) => node.spent) || 1;
        graph.nodes.forEach((node) => {
            node.radius = RADIUS_LEAST + (largest - RADIUS_LEAST) * Math.sqrt(node.spent / most);
        });
        const distance = Math.min(110, room);
        const ticks = Math.max(30, Math.min(120, Math.round(MOVES / graph.nodes.length)));
        d3.forceSimulation(graph.nodes)
            .force("link", d3.forceLink(graph.edges).distance(distance).strength(0.3))
            .force("charge", d3.forceManyBody().strength(-distance * 2.5))
            .force("x", d3.forceX(width / 2).strength(0.06))
            .force("y", d3.forceY(HEIGHT / 2).strength(0.06 * Math.max(1, width / HEIGHT)))
            .force("collide", d3.forceCollide((node) => node.radius + 3))
            .stop()
            .alphaDecay(1 - Math.pow(0.001, 1 / ticks))
            .tick(ticks);
        graph.nodes.forEach((node) => keepInside(node, width));
    };

    /* ---- words ----------------------------------------------------------------------------------- */

    const nameOf = (graph, node) => (graph.byHost ? node.key : "rank " + node.key);

    const tellNode = function (graph, node) {
        const format = commtap.format;
        return [
            nameOf(graph, node) +
                (graph.byHost ? ", " + format.ranks(node.ranks) : commtap.onHost(commtap.memberOf(node.ranks[0]))),
            format.seconds(node.spent) + " in communication, " + format.seconds(node.waited) + " of it waiting",
            node.share === null ? "" : "something moved in " + format.percent(node.share) + " of it",
        ].filter((line) => line !== "");
    };

    /* With whom it exchanged most, which the edges' thickness shows. */
    const tellPeers = function (graph, node) {
        const edges = graph.edges.filter((edge) => edge.source === node || edge.target === node);
        const most = edges.sort((a, b) => b.bytes - a.bytes).slice(0, PEERS_TOLD);
        return most.map((edge) => commtap.format.bytes(edge.bytes) + (edge.estimated ? ", estimated," : "") + " with " +
            nameOf(graph, edge.source === node ? edge.target : edge.source));
    };

    const tellEdge = (graph, edge) => [
        nameOf(graph, edge.source) + " and " + nameOf(graph, edge.target),
        commtap.format.number(edge.messages, "message") + ", " + commtap.format.bytes(edge.bytes),
        edge.estimated ? "estimated, not measured" : "waited " + commtap.format.seconds(edge.waited) + " for each other",
    ];

    /* ---- drawing --------------------------------------------------------------------------------- */

    const place = function (picture) {
        picture.lines
            .attr("x1", (edge) => edge.source.x)
            .attr("y1", (edge) => edge.source.y)
            .attr("x2", (edge) => edge.target.x)
            .attr("y2", (edge) => edge.target.y);
        picture.groups.attr("transform", (node) => "translate(" + node.x + "," + node.y + ")");
    };

    const mark = function (picture) {
        picture.groups
            .classed("unchosen", (node) => picture.chosen.size > 0 && !picture.chosen.has(node))
            .attr("aria-pressed", (node) => picture.chosen.has(node));
        const ranks = d3.merge(Array.from(picture.chosen).map((node) => node.ranks));
        picture.changed(picture.chosen.size > 0 ? new Set(ranks) : null);
    };

    const choose = function (picture, nodes) {
        picture.chosen = new Set(nodes);
        mark(picture);
    };

    const addBrush = function (picture) {
        const brush = d3
            .brush()
            .extent([
                [0, 0],
                [picture.width, HEIGHT],
            ])
            .on("end", () => {
                const area = d3.event.selection;
                if (!d3.event.sourceEvent) {
                    return; // taken away, not drawn
                }
                const inside = (node) =>
                    area[0][0] <= node.x && node.x <= area[1][0] && area[0][1] <= node.y && node.y <= area[1][1];
                choose(picture, area ? picture.graph.nodes.filter(inside) : []);
            });
        const group = picture.svg.append("g").attr("class", "brush").call(brush);
        picture.svg.on("contextmenu", () => {
            d3.event.preventDefault();
            picture.clear();
        });
        picture.clear = function () {
            group.call(brush.move, null);
            choose(picture, []);
        };
    };

    const addEdges = function (picture) {
        const thick = d3
            .scaleSqrt()
            .domain([0, d3.max(picture.graph.edges, (edge) => edge.bytes) || 1])
            .range([1, 7]);
        picture.lines = picture.svg
            .append("g")
            .selectAll("line")
            .data(picture.graph.edges)
            .join("line")
            .attr("class", (edge) => (edge.estimated ? "edge estimated" : "edge"))
            .attr("stroke-width", (edge) => thick(edge.bytes))
            .on("mousemove", (edge) => commtap.showBeside(d3.event, tellEdge(picture.graph, edge)))
            .on("mouseleave", () => commtap.showBeside(d3.event, null));
    };

    const addNodes = function (picture) {
        const moveTo = function (node, x, y) {
            node.x = x;
            node.y = y;
            keepInside(node, picture.width);
            place(picture);
        };
        const drag = d3.drag().on("drag", (node) => moveTo(node, d3.event.x, d3.event.y));
        const toggle = function (node) {
            const nodes = picture.graph.nodes.filter((one) => picture.chosen.has(one) !== (one === node));
            choose(picture, nodes);
        };
        const press = function (node) {
            const {key} = d3.event;
            const [right, down] = DIRECTIONS[key] || [0, 0];
            if (key === "Enter" || key === " ") {
                toggle(node);
            } else if (key === "Escape") {
                picture.clear();
            } else if (DIRECTIONS[key]) {
                moveTo(node, node.x + right * STEP, node.y + down * STEP);
            } else {
                return;
            }
            d3.event.preventDefault(); // the page does not scroll
        };
        picture.groups = picture.svg
            .append("g")
            .selectAll("g")
            .data(picture.graph.nodes)
            .join("g")
            .attr("class", "graph-node")
            .attr("tabindex", 0)
            .attr("role", "button")
            .attr("data-node", (node) => node.key)
            .attr("aria-label", (node) => tellNode(picture.graph, node).concat(tellPeers(picture.graph, node)).join("; "))
            .call(drag)
            .on("keydown", press)
            .on("mousemove", (node) => commtap.showBeside(d3.event, tellNode(picture.graph, node)))
            .on("mouseleave", () => commtap.showBeside(d3.event, null));
        picture.groups
            .append("circle")
            .attr("r", (node) => node.radius)
            .attr("data-share", (node) => node.share)
            .attr("fill", (node) => (node.share === null ? "var(--panel)" : d3.interpolateCividis(node.share)));
        picture.groups
            .append("text")
            .attr("y", (node) => node.radius + 11)
            .text((node) => (node.key.length > 14 ? node.key.slice(0, 13) + "\u2026" : node.key));
    };

    /** Draws the graph of these links, `width` pixels wide; tells `changed` of the ranks of chosen nodes, null: all. */
    commtap.drawLinkGraph = function (holder, width, links, changed) {
        const graph = build(links);
        layOut(graph, width);
        const svg = d3
            .select(holder)
            .append("svg")
            .attr("class", "graph")
            .attr("width", width)
            .attr("height", HEIGHT)
            .attr("role", "group")
            .attr("aria-label", "graph of " + graph.nodes.length + (graph.byHost ? " hosts" : " ranks"));
        const picture = {svg, graph, width, changed, chosen: new Set()};
        addBrush(picture);
        addEdges(picture);
        addNodes(picture);
        place(picture);
        holder.style.width = width + "px";
        holder.append(
            commtap.element("p", {class: "note"}, "Colour: what share of the time in communication something moved, 0",
                commtap.element("span", {class: "ramp"}), " 1; the rest was waiting. Larger: more of both. " +
                (graph.edges.some((edge) => edge.estimated) ? "Dashed: estimated. " : "") +
                "Drag a node, or press arrow keys on it, to move it; drag beside nodes to choose some, Enter chooses one, or " +
                "one more, Escape or a right click all." +
                (graph.leftOut > 0 ? " Left out: " + commtap.format.count(graph.leftOut) + " that communicated less." : ""))
        );
        holder.dataset.nodes = graph.nodes.length;
        holder.dataset.edges = graph.edges.length;
        return picture;
    };
}
