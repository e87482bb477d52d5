// SPDX-License-Identifier: Apache-2.0
//
// Memory in use on the GPUs over time, and the most of each.
"use strict";

{
    const HEIGHT = 260; // pixels
    const MARGIN = {top: 10, right: 16, bottom: 28, left: 70};
    const LINES_MOST = 64;
    const state = {node: null, table: null};

    const rows = function () {
        const dumps = commtap.block("page").dumps;
        return commtap
            .block("memory")
            .devices.map((device) => ({
                rank: dumps[device.dump].rank,
                host: dumps[device.dump].host,
                device: device.device,
                what: device.what,
                peak_bytes: device.peak_bytes,
                bytes: device.bytes,
            }))
            .filter((row) => commtap.selection.hasRank(row.rank));
    };

    const color = (line) => "var(--" + ["blue", "orange", "green", "purple", "red"][line % 5] + ")";

    /* Intervals with a sample and none beside them: a line through one alone has no length. */
    const lonely = (row) =>
        d3.range(row.bytes.length).filter((n) => isKnown(row, n) && !isKnown(row, n - 1) && !isKnown(row, n + 1));

    const isKnown = (row, n) => row.bytes[n] !== null && row.bytes[n] !== undefined;

    const drawLines = function (shown) {
        const block = commtap.block("memory");
        const width = commtap.widthOf(state.node);
        const x = d3.scaleLinear().domain([0, block.span_us / 1e6]).range([MARGIN.left, width - MARGIN.right]);
        const y = d3
            .scaleLinear()
            .domain([0, d3.max(shown, (row) => row.peak_bytes) || 1])
            .nice()
            .range([HEIGHT - MARGIN.bottom, MARGIN.top]);
        const middle = (n) => ((n + 0.5) * block.span_us) / block.intervals / 1e6;
        const path = d3
            .line()
            .x(([, n]) => x(middle(n)))
            .y(([bytes]) => y(bytes))
            .curve(d3.curveStepAfter);
        const points = (row) => row.bytes.map((bytes, n) => [bytes, n]).filter(([bytes]) => bytes !== null);
        const svg = d3
            .select(state.node)
            .append("svg")
            .attr("width", width)
            .attr("height", HEIGHT)
            .attr("role", "img")
            .attr("aria-label", "memory in use on " + commtap.format.number(shown.length, "GPU"));
        svg.append("g")
            .attr("transform", "translate(0," + (HEIGHT - MARGIN.bottom) + ")")
            .call(d3.axisBottom(x).ticks(8).tickFormat(commtap.format.seconds));
        svg.append("g")
            .attr("transform", "translate(" + MARGIN.left + ",0)")
            .call(d3.axisLeft(y).ticks(5).tickFormat(commtap.format.bytes));
        svg.selectAll("path.line")
            .data(shown)
            .join("path")
            .attr("class", "line")
            .style("stroke", (row, line) => color(line))
            .attr("d", (row) => path(points(row)))
            .on("mousemove", (row) => commtap.showBeside(d3.event, [
                "rank " + commtap.format.rank(row.rank) + commtap.onHost(row) + ", GPU " + row.device,
                row.what + ": at most " + commtap.format.bytes(row.peak_bytes),
            ]))
            .on("mouseleave", () => commtap.showBeside(d3.event, null));
        svg.selectAll("circle")
            .data(d3.merge(shown.map((row, line) => lonely(row).map((n) => ({row, line, n})))))
            .join("circle")
            .attr("cx", ({n}) => x(middle(n)))
            .attr("cy", ({row, n}) => y(row.bytes[n]))
            .attr("r", 2.5)
            .style("fill", ({line}) => color(line));
        commtap.veilOthers(state.node, x, HEIGHT - MARGIN.bottom);
    };

    const redraw = function () {
        const all = rows();
        const shown = all.slice().sort((a, b) => b.peak_bytes - a.peak_bytes).slice(0, LINES_MOST);
        state.node.replaceChildren();
        state.node.dataset.lines = shown.length;
        if (shown.length > 0) {
            drawLines(shown);
        }
        if (all.length > shown.length) {
            state.node.append(commtap.element("p", {class: "note"}, "The " + LINES_MOST + " GPUs with the highest peaks."));
        }
        state.table.show(all);
    };

    const draw = function (node) {
        const block = commtap.block("memory");
        node.dataset.marks = block.devices.length;
        if (block.devices.length === 0) {
            commtap.empty(node, "No memory of a GPU was sampled: that takes GPU times (COMMTAP_GPU_TIMING), or a PyTorch " +
                "trace with profile_memory=True.");
            return;
        }
        if (block.samples_left_out > 0) {
            node.append(commtap.element("p", {class: "note"}, commtap.format.number(block.samples_left_out, "sample") +
                " of GPUs beyond what a page holds are left out."));
        }
        state.node = commtap.element("div");
        node.append(state.node);
        const column = commtap.column;
        state.table = new commtap.Table(node, [
            column("rank", "rank", {text: commtap.format.rank}),
            column("host", "host", {left: true}),
            column("device", "GPU"),
            column("what", "what", {left: true}),
            column("peak_bytes", "at most", {heat: true}),
        ], {name: "memory", sort: "peak_bytes", filters: ["what"],
            search: (row) => row.rank + " " + row.host + " " + row.what});
        commtap.selection.onChange("memory-of-gpus", redraw, ["ranks", "host", "stage", "steps"]);
        redraw();
    };

    commtap.addView({
        id: "memory-of-gpus",
        title: "Memory of GPUs",
        about: "the most of each interval: all that is in use on a GPU, whoever uses it, or PyTorch's part of it where a " +
            "trace told that",
        draw,
    });
}
