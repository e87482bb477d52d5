// SPDX-License-Identifier: Apache-2.0
//
// Every step over all ranks: how long it took, how long ranks communicated and waited. Choosing steps here chooses them
// everywhere.
"use strict";

{
    const HEIGHT = 240;
    const MARGIN = {top: 12, right: 76, bottom: 36, left: 76};
    const state = {node: null};
    const lines = [
        {key: "step_seconds", name: "step", color: "ink", right: false},
        {key: "comm_seconds", name: "communication (mean of ranks)", color: "blue", right: true},
        {key: "wait_seconds", name: "of it, waiting (mean of ranks)", color: "orange", right: true},
    ];

    const drawLine = function (svg, rows, line, x, y) {
        const path = d3
            .line()
            .defined((row) => row[line.key] !== null && row[line.key] !== undefined)
            .x((row) => x(row.step))
            .y((row) => y(row[line.key]));
        svg.append("path")
            .datum(rows)
            .attr("class", "line")
            .style("stroke", "var(--" + line.color + ")")
            .attr("data-line", line.key)
            .attr("d", path);
    };

    const drawLegend = function (node) {
        const legend = commtap.element("p", {class: "legend"});
        lines.forEach((line) => {
            const key = commtap.element("span", {class: "key"});
            key.style.setProperty("background", "var(--" + line.color + ")");
            legend.append(key, " " + line.name + (line.right ? ", right axis  " : ", left axis  "));
        });
        node.append(legend);
    };

    const axes = function (svg, width, x, left, right) {
        const seconds = (axis) => axis.ticks(5).tickFormat(commtap.format.seconds);
        svg.append("g")
            .attr("transform", "translate(0," + (HEIGHT - MARGIN.bottom) + ")")
            .call(commtap.stepAxis(x));
        svg.append("g").attr("transform", "translate(" + MARGIN.left + ",0)").call(seconds(d3.axisLeft(left)));
        svg.append("g")
            .attr("transform", "translate(" + (width - MARGIN.right) + ",0)")
            .call(seconds(d3.axisRight(right)));
        const label = (text, at, y, turn) =>
            svg
                .append("text")
                .attr("class", "label")
                .attr("transform", "translate(" + at + "," + y + ") rotate(" + turn + ")")
                .text(text);
        label("step", width / 2, HEIGHT - 4, 0);
        label("step time", 10, HEIGHT / 2, -90);
        label("communication, waiting", width - 8, HEIGHT / 2, -90);
    };

    /* Brushing chooses the steps whose points lie in it; what was chosen elsewhere moves the brush. */
    const addBrush = function (svg, width, rows, x) {
        const brush = d3
            .brushX()
            .extent([
                [MARGIN.left, MARGIN.top],
                [width - MARGIN.right, HEIGHT - MARGIN.bottom],
            ])
            .on("end", () => {
                /* moved by what was chosen, not by hand */
                if (!d3.event.sourceEvent || d3.event.sourceEvent.type === "end") {
                    return;
                }
                if (!d3.event.selection) {
                    commtap.selection.choose({steps: null});
                    return;
                }
                const [from, to] = d3.event.selection.map(x.invert);
                const inside = rows.map((row) => row.step).filter((step) => step > from - 0.5 && step < to + 0.5);
                commtap.selection.choose({steps: commtap.rangesOf(inside)});
            });
        const group = svg.append("g").attr("class", "brush").call(brush);
        const steps = commtap.selection.steps;
        group.call(brush.move, steps ? [x(steps[0][0] - 0.5), x(steps[steps.length - 1][1] + 0.5)] : null);
    };

    const redraw = function (rows) {
        const width = commtap.widthOf(state.node);
        const steps = d3.extent(rows, (row) => row.step);
        const most = (right) =>
            d3.max(
                lines.filter((line) => line.right === right),
                (line) => d3.max(rows, (row) => row[line.key])
            ) || 1;
        const scale = (top) =>
            d3
                .scaleLinear()
                .domain([0, top])
                .nice()
                .range([HEIGHT - MARGIN.bottom, MARGIN.top]);
        const x = d3
            .scaleLinear()
            .domain([steps[0] - 0.5, steps[1] + 0.5])
            .range([MARGIN.left, width - MARGIN.right]);
        const left = scale(most(false));
        const right = scale(most(true));
        state.node.replaceChildren();
        const svg = d3
            .select(state.node)
            .append("svg")
            .attr("width", width)
            .attr("height", HEIGHT)
            .attr("role", "img")
            .attr("aria-label", "time, communication and waiting of " + rows.length + " steps");
        axes(svg, width, x, left, right);
        lines.forEach((line) => drawLine(svg, rows, line, x, line.right ? right : left));
        addBrush(svg, width, rows, x);
    };

    const draw = function (node) {
        const rows = commtap.block("overview").filter((row) => row.step !== null && row.step !== undefined);
        node.dataset.marks = rows.length;
        if (rows.length === 0) {
            commtap.empty(node, "No steps were found: no operation comes back at a regular distance, and none are marked.");
            return;
        }
        drawLegend(node);
        state.node = commtap.element("div");
        node.append(state.node);
        commtap.selection.onChange("overview", () => redraw(rows), ["steps"]);
        redraw(rows);
    };

    commtap.addView({
        id: "overview",
        title: "Steps",
        about: "time, communication and waiting of every step; drag to choose steps everywhere",
        draw,
    });
}
