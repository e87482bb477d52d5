// SPDX-License-Identifier: Apache-2.0
//
// The call tree as a flame graph (B. Gregg): as wide as what was spent below a frame, operations on top.
"use strict";

{
    const ROW = 20; // pixels
    const LETTER = 6.6; // of the graph's writing
    const NARROWEST = 1; // pixels that a frame must have to be drawn
    const kinds = {
        root: {name: "everything", color: "soft"},
        nvtx: {name: "range", color: "purple"},
        python: {name: "Python function", color: "orange"},
        native: {name: "native function", color: "blue"},
        op: {name: "operation", color: "green"},
    };
    const weights = {
        time: {name: "time", of: (sums) => commtap.callTime(sums), text: commtap.format.microseconds},
        wait: {name: "waiting", of: (sums) => sums.wait_us || 0, text: commtap.format.microseconds},
        bytes: {name: "bytes", of: (sums) => sums.bytes || 0, text: commtap.format.bytes},
        count: {name: "calls", of: (sums) => sums.count || 0, text: commtap.format.count},
    };
    const state = {node: null, status: null, weight: "time", every: false, words: "", zoomed: []};

    /* ---- frames ---------------------------------------------------------------------------------- */

    /* What a frame calls itself, a frame per operation on top of it. */
    const operationsOf = function (node, weight) {
        const sums = new Map();
        (node.calls || []).forEach((call) => sums.set(call.op, (sums.get(call.op) || 0) + weight(call)));
        return Array.from(sums, ([op, value]) => ({name: op, kind: "op", value, children: []}));
    };

    /* The tree of what was spent: a frame's is what its children and its own operations spent. */
    const frameOf = function (node, weight) {
        const children = operationsOf(node, weight)
            .concat((node.children || []).map((child) => frameOf(child, weight)))
            .filter((child) => child.value > 0)
            .sort((a, b) => b.value - a.value || (a.name > b.name) - (a.name < b.name));
        return {name: commtap.frameName(node), kind: node.kind, value: d3.sum(children, (child) => child.value), children};
    };

    /* The frame that was zoomed into, found again by the names that lead there; what leads there is as wide. */
    const pathOf = function (root) {
        const path = [root];
        state.zoomed.forEach((name) => {
            const next = path[path.length - 1].children.find((child) => child.name === name);
            if (next) {
                path.push(next);
            }
        });
        return path;
    };

    const layOut = function (path, width) {
        const placed = [];
        const whole = path[path.length - 1];
        path.slice(0, -1).forEach((frame, depth) =>
            placed.push({frame, depth, x: 0, width, names: state.zoomed.slice(0, depth)}));
        const visit = function (frame, depth, x, names) {
            const wide = (frame.value / whole.value) * width;
            if (wide < NARROWEST) {
                return;
            }
            placed.push({frame, depth, x, width: wide, names});
            let at = x;
            frame.children.forEach((child) => {
                visit(child, depth + 1, at, names.concat(child.name));
                at += (child.value / whole.value) * width;
            });
        };
        visit(whole, path.length - 1, 0, state.zoomed.slice(0, path.length - 1));
        return placed;
    };

    /* What frames that match spent; a match within a match counts once. */
    const foundOf = (frame) =>
        frame.name.toLowerCase().includes(state.words) ? frame.value : d3.sum(frame.children, foundOf);

    /* ---- drawing --------------------------------------------------------------------------------- */

    const shorten = function (text, width) {
        const letters = Math.floor((width - 6) / LETTER);
        return letters < 3 ? "" : text.length <= letters ? text : text.slice(0, letters - 1) + "\u2026";
    };

    const tell = function (item, whole) {
        const {text, name} = weights[state.weight];
        return [item.frame.name, text(item.frame.value) + " (" + name + "), " +
            commtap.format.percent(item.frame.value / whole.value) + " of all"];
    };

    const zoom = function (names) {
        state.zoomed = names;
        redraw();
        const first = state.node.querySelector("g[tabindex]");
        if (first) {
            first.focus({preventScroll: true});
        }
    };

    const drawFrames = function (placed, root, width) {
        const height = (d3.max(placed, (item) => item.depth) + 1) * ROW;
        const svg = d3
            .select(state.node)
            .append("svg")
            .attr("class", "flame")
            .attr("width", width)
            .attr("height", height)
            .attr("role", "group")
            .attr("aria-label", "flame graph of " + weights[state.weight].name);
        const groups = svg
            .selectAll("g")
            .data(placed)
            .join("g")
            .attr("transform", (item) => "translate(" + item.x + "," + item.depth * ROW + ")")
            .attr("tabindex", 0)
            .attr("role", "button")
            .attr("class", (item) => (state.words && item.frame.name.toLowerCase().includes(state.words) ? "found" : null))
            .attr("data-kind", (item) => item.frame.kind)
            .attr("data-value", (item) => item.frame.value)
            .attr("aria-label", (item) => tell(item, root).join(", "))
            .on("click", (item) => zoom(item.names))
            .on("keydown", (item) => {
                if (d3.event.key === "Enter") {
                    zoom(item.names);
                } else if (d3.event.key === "Escape") {
                    zoom([]);
                }
            })
            .on("mousemove", (item) => commtap.showBeside(d3.event, tell(item, root)))
            .on("mouseleave", () => commtap.showBeside(d3.event, null));
        groups
            .append("rect")
            .attr("width", (item) => item.width)
            .attr("height", ROW - 1)
            .style("fill", (item) => "var(--" + kinds[item.frame.kind].color + ")");
        groups
            .append("text")
            .attr("x", 3)
            .attr("y", ROW - 6)
            .text((item) => shorten(item.frame.name, item.width));
    };

    const redraw = function () {
        const block = commtap.block(state.every ? "frames" : "calls");
        const root = frameOf(block.root, weights[state.weight].of);
        commtap.showBeside(null, null);
        state.node.replaceChildren();
        state.back.disabled = state.zoomed.length === 0;
        if (!(root.value > 0)) {
            commtap.empty(state.node, "Nothing of that is known by call site.");
            state.node.dataset.marks = 0;
            return;
        }
        const width = commtap.widthOf(state.node);
        const placed = layOut(pathOf(root), width);
        drawFrames(placed, root, width);
        state.node.dataset.marks = placed.length;
        state.status.textContent = state.words
            ? commtap.format.percent(foundOf(root) / root.value) + " of " + weights[state.weight].name + " is in what matches"
            : "";
    };

    const draw = function (node) {
        const search = commtap.element("input", {
            type: "search",
            "aria-label": "search in the flame graph",
            placeholder: "search",
            oninput: () => {
                state.words = search.value.toLowerCase();
                redraw();
            },
        });
        const choices = Object.keys(weights).map((key) => [key, weights[key].name]);
        state.back = commtap.button("Whole program", () => zoom([]));
        state.status = commtap.element("span", {class: "count", role: "status"});
        node.append(
            commtap.element("div", {class: "controls"}, search, commtap.choice("Width", choices, state.weight, (value) => {
                state.weight = value;
                redraw();
            }), commtap.choice("Frames", [["", "the program's"], ["every", "all"]], "", (value) => {
                state.every = value === "every";
                state.zoomed = [];
                redraw();
            }), state.back, state.status),
            commtap.legend(Object.keys(kinds).slice(1).map((kind) => kinds[kind])),
        );
        state.node = commtap.element("div");
        node.append(state.node);
        commtap.selection.onChange("flame", redraw, []);
        redraw();
    };

    commtap.addView({
        id: "flame",
        title: "Flame graph",
        about: "how much of the job's communication each line causes; press a frame, or Enter on it, to look closer",
        wholeRun: true,
        draw,
    });
}
