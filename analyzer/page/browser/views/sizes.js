// SPDX-License-Identifier: Apache-2.0
//
// How large the operations of every function are: a histogram each, a bar per power of two.
"use strict";

{
    const WIDTH = 380; // pixels of a histogram
    const HEIGHT = 150;
    const MARGIN = {top: 20, right: 8, bottom: 22, left: 58};
    const BAR_MOST = 60;
    const OPERATIONS_MOST = 12;
    const measures = {
        count: {name: "calls", text: commtap.format.count},
        bytes_total: {name: "bytes in all", text: commtap.format.bytes},
        time_total_us: {name: "time", text: commtap.format.microseconds},
    };
    const state = {node: null, measure: "count"};

    /* The power of two below a size; -1: no bytes at all. */
    const classOf = (bytes) => (bytes > 0 ? Math.floor(Math.log2(bytes)) : -1);

    const sizeOf = (power) => (power < 0 ? "0 B" : commtap.format.bytes(Math.pow(2, power)));

    const tellClass = (power) => (power < 0 ? "no bytes" : sizeOf(power) + " up to " + sizeOf(power + 1));

    /* Of every function the sums by class of size; of those that move bytes, most of the measure first. */
    const histograms = function () {
        const byOp = new Map();
        commtap.block("report").summary.forEach((row) => {
            if (row.bytes === null || row.op === null) {
                return;
            }
            const histogram = byOp.get(row.op) || {op: row.op, whole: 0, classes: new Map()};
            const power = classOf(row.bytes);
            const value = row[state.measure] || 0;
            histogram.whole += value;
            histogram.classes.set(power, (histogram.classes.get(power) || 0) + value);
            byOp.set(row.op, histogram);
        });
        return Array.from(byOp.values())
            .filter((histogram) => histogram.whole > 0 && d3.max(histogram.classes.keys()) >= 0)
            .sort((a, b) => b.whole - a.whole || (a.op > b.op) - (a.op < b.op));
    };

    const drawHistogram = function (histogram) {
        const measure = measures[state.measure];
        const powers = d3.extent(histogram.classes.keys());
        const x = d3
            .scaleBand()
            .domain(d3.range(powers[0], powers[1] + 1))
            .range([MARGIN.left, WIDTH - MARGIN.right])
            .paddingInner(0.1);
        const y = d3
            .scaleLinear()
            .domain([0, d3.max(Array.from(histogram.classes.values()))])
            .range([HEIGHT - MARGIN.bottom, MARGIN.top]);
        const bars = Array.from(histogram.classes);
        const width = Math.min(BAR_MOST, x.bandwidth());
        const svg = d3
            .select(state.node)
            .append("svg")
            .attr("width", WIDTH)
            .attr("height", HEIGHT)
            .attr("role", "img")
            .attr("data-op", histogram.op)
            .attr("aria-label", measure.name + " of " + histogram.op + " by size: " +
                bars.map(([power, value]) => tellClass(power) + " " + measure.text(value)).join("; "));
        svg.append("text").attr("x", MARGIN.left).attr("y", 12).text(histogram.op);
        svg.selectAll("rect")
            .data(bars)
            .join("rect")
            .attr("x", ([power]) => x(power) + (x.bandwidth() - width) / 2)
            .attr("width", width)
            .attr("y", ([, value]) => y(value))
            .attr("height", ([, value]) => y(0) - y(value))
            .attr("data-power", ([power]) => power)
            .attr("data-value", ([, value]) => value)
            .style("fill", "var(--blue)")
            .append("title")
            .text(([power, value]) => tellClass(power) + ": " + measure.text(value));
        const every = Math.ceil(x.domain().length / 5);
        const ticks = x.domain().filter((power, n) => n % every === 0);
        svg.append("g")
            .attr("transform", "translate(0," + (HEIGHT - MARGIN.bottom) + ")")
            .call(d3.axisBottom(x).tickValues(ticks).tickFormat(sizeOf));
        svg.append("g")
            .attr("transform", "translate(" + MARGIN.left + ",0)")
            .call(d3.axisLeft(y).ticks(3).tickFormat(measure.text));
    };

    const redraw = function () {
        const all = histograms();
        const shown = all.slice(0, OPERATIONS_MOST);
        state.node.replaceChildren();
        shown.forEach(drawHistogram);
        state.more.textContent = all.length > shown.length
            ? "The " + shown.length + " operations with most; the others are in the table."
            : "";
        state.body.dataset.marks = d3.sum(shown, (histogram) => histogram.classes.size);
        if (shown.length === 0) {
            commtap.empty(state.node, "No operation has bytes that are known.");
        }
    };

    const draw = function (node) {
        const choices = Object.keys(measures).map((key) => [key, measures[key].name]);
        state.body = node;
        state.node = commtap.element("div", {class: "histograms"});
        state.more = commtap.element("p", {class: "note"});
        node.append(
            commtap.element("div", {class: "controls"}, commtap.choice("Height", choices, state.measure, (value) => {
                state.measure = value;
                redraw();
            })),
            state.node,
            state.more
        );
        commtap.notePostedSizes(node);
        redraw();
    };

    commtap.addView({
        id: "sizes",
        title: "Sizes",
        about: "how large the operations of every function are, of the whole run; a bar per power of two, from the size " +
            "below it up to twice that",
        wholeRun: true,
        draw,
    });
}
