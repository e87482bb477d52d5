// SPDX-License-Identifier: Apache-2.0
//
// How long messages take, or how fast they are, by type of link as box plots, and the messages far from the rest by name;
// beside them the links that NCCL's network proxies measured, each by the mean of its steps: of single ones nothing is kept.
"use strict";

{
    const ROW = 64; // pixels of a box and its outlying messages
    const LEFT = 110;
    const RIGHT = 24;
    const BOTTOM = 34;
    const FENCE = 1.5; // interquartile ranges beyond the quartiles: J. W. Tukey, Exploratory Data Analysis, 1977
    const DRAWN_MOST = 400; // outlying messages of a type that are drawn
    const LOG_RATIO = 50; // largest by least, from where on a linear axis shows the largest only
    const SIZES_MOST = 12;
    const PROXIES = "proxies";
    const SENT = 4; // enum flow_place
    const RECEIVED = 5;
    const measures = {
        seconds: {name: "time", text: commtap.format.seconds},
        gb_per_s: {name: "bandwidth", text: commtap.format.bandwidth},
        bytes: {name: "size", text: commtap.format.bytes},
    };
    const state = {node: null, table: null, messages: null, single: null, measure: "seconds", bytes: ""};

    /* ---- messages, once -------------------------------------------------------------------------- */

    const typeOf = (from, to) => (from.rank === to.rank ? "process"
        : from.host === "" || to.host === "" ? "ranks" : from.host === to.host ? "host" : "network");

    /* The time from when both ends were there until the receive was over, as commtap links has it: of calls that waited for
     * nothing else, where the message cannot have been there before. */
    const timeOf = function (columns, kinds, sent, received) {
        const timed = [sent, received].every((i) => kinds[columns.track[i]] === "thread" || kinds[columns.track[i]] === "GPU");
        const begin = Math.max(columns.begin_ns[sent], columns.begin_ns[received]);
        const end = columns.begin_ns[received] + columns.length_ns[received];
        const there = columns.begin_ns[sent] + columns.length_ns[sent] <= columns.begin_ns[received];
        return timed && !there && end > begin ? (end - begin) / 1e9 : null;
    };

    const messageOf = function (block, kinds, sent, received) {
        const {columns} = block;
        const [from, to] = [sent, received].map((i) => commtap.block("page").dumps[block.tracks[columns.track[i]].dump]);
        const bytes = columns.bytes[sent] >= 0 ? columns.bytes[sent] : columns.bytes[received];
        const seconds = timeOf(columns, kinds, sent, received);
        return {
            type: typeOf(from, to),
            op: block.names[columns.op[received]],
            from: from.rank,
            to: to.rank,
            dump: block.tracks[columns.track[received]].dump,
            bytes: bytes >= 0 ? bytes : null,
            seconds,
            gb_per_s: seconds > 0 && bytes > 0 ? bytes / seconds / 1e9 : null,
            at_seconds: (block.from_ns + columns.begin_ns[received]) / 1e9,
            site: columns.site[received] >= 0 ? block.sites[columns.site[received]] : null,
        };
    };

    const messagesOf = function (block) {
        const kinds = block.tracks.map((track) => track.kind);
        const {flow, place} = block.columns;
        const sends = new Map();
        flow.forEach((number, i) => place[i] === SENT && sends.set(number, i));
        const messages = [];
        flow.forEach((number, i) => {
            if (place[i] === RECEIVED && sends.has(number)) {
                messages.push(messageOf(block, kinds, sends.get(number), i));
            }
        });
        return messages;
    };

    /* A link that proxies measured, as one message of its mean step. */
    const stepOf = (link) => ({
        type: PROXIES,
        op: "mean of " + commtap.format.number(link.messages, "step"),
        from: link.from,
        to: link.to,
        bytes: link.bytes / link.messages,
        seconds: link.transfer_seconds === null ? null : link.transfer_seconds / link.messages,
        gb_per_s: link.bandwidth_gb_per_s,
        at_seconds: null,
        site: null,
    });

    const measuredLinks = () =>
        commtap.block("links").links.filter((link) => link.kind === "network" && link.messages > 0).map(stepOf);

    const counted = (box) => commtap.format.number(box.count, box.type === PROXIES ? "link" : "message");

    /* ---- boxes ----------------------------------------------------------------------------------- */

    const boxOf = function (type, messages) {
        const value = (message) => message[state.measure];
        const sorted = messages.map(value).sort((a, b) => a - b);
        const [low, middle, high] = [0.25, 0.5, 0.75].map((share) => d3.quantile(sorted, share));
        const fences = [low - FENCE * (high - low), high + FENCE * (high - low)];
        const inside = (number) => number >= fences[0] && number <= fences[1];
        const usual = sorted.filter(inside);
        return {
            type, low, middle, high,
            count: messages.length,
            least: usual[0],
            most: usual[usual.length - 1],
            outlying: messages
                .filter((message) => !inside(value(message)))
                .map((message) => Object.assign({beyond: value(message) > high ? "above" : "below"}, message)),
        };
    };

    /* A message is in the steps in which it was received; what proxies measured is of the whole run. */
    const chosenMessages = function () {
        const times = commtap.block("page").dumps.map((_, dump) => commtap.chosenTimes(dump));
        return state.messages.filter(
            (message) =>
                (commtap.selection.hasRank(message.from) || commtap.selection.hasRank(message.to)) &&
                (message.at_seconds === null || commtap.isInTimes(times[message.dump], message.at_seconds * 1e6)) &&
                (state.bytes === "" || message.bytes === Number(state.bytes))
        );
    };

    const scaleOf = function (boxes, width) {
        const values = d3.merge(boxes.map((box) => [box.least, box.most].concat(box.outlying.map((one) => one[state.measure]))));
        const [least, most] = d3.extent(values);
        const logarithmic = least > 0 && most / least > LOG_RATIO;
        const scale = logarithmic ? d3.scaleLog().domain([least, most]) : d3.scaleLinear().domain([0, most || 1]);
        return scale.nice().range([LEFT, width - RIGHT]);
    };

    const drawBox = function (svg, box, x, n) {
        const middle = n * ROW + ROW / 2;
        const group = svg.append("g").attr("class", "box").attr("data-type", box.type);
        const line = (from, to, top, bottom) =>
            group.append("line").attr("x1", x(from)).attr("x2", x(to)).attr("y1", middle + top).attr("y2", middle + bottom);
        const text = measures[state.measure].text;
        line(box.least, box.most, 0, 0);
        line(box.least, box.least, -8, 8);
        line(box.most, box.most, -8, 8);
        group
            .append("rect")
            .attr("x", x(box.low))
            .attr("width", Math.max(1, x(box.high) - x(box.low)))
            .attr("y", middle - 14)
            .attr("height", 28)
            .append("title")
            .text(box.type + ": half of " + counted(box) + " between " + text(box.low) + " and " +
                text(box.high) + ", median " + text(box.middle));
        line(box.middle, box.middle, -14, 14).attr("class", "median");
        group
            .selectAll("circle")
            .data(box.outlying.slice(0, DRAWN_MOST))
            .join("circle")
            .attr("cx", (message) => x(message[state.measure]))
            .attr("cy", (message, i) => middle + ((i % 5) - 2) * 4)
            .attr("r", 3)
            .on("mousemove", (message) => commtap.showBeside(d3.event, tellMessage(message)))
            .on("mouseleave", () => commtap.showBeside(d3.event, null));
        svg.append("text").attr("x", 4).attr("y", middle - 2).text(box.type);
        svg.append("text").attr("x", 4).attr("y", middle + 12).text(counted(box));
    };

    const tellMessage = (message) => [
        message.op + ", rank " + message.from + " to rank " + message.to + ", " + commtap.format.bytes(message.bytes),
        commtap.format.seconds(message.seconds) + ", " + commtap.format.bandwidth(message.gb_per_s),
        message.at_seconds === null
            ? "measured by network proxies"
            : "at " + commtap.format.seconds(message.at_seconds) + (message.site ? " in " + message.site : ""),
    ];

    const drawBoxes = function (boxes) {
        const width = commtap.widthOf(state.node);
        const height = boxes.length * ROW;
        const x = scaleOf(boxes, width);
        const svg = d3
            .select(state.node)
            .append("svg")
            .attr("width", width)
            .attr("height", height + BOTTOM)
            .attr("role", "img")
            .attr("aria-label", measures[state.measure].name + " of messages by type of link");
        boxes.forEach((box, n) => drawBox(svg, box, x, n));
        const axis = d3.axisBottom(x).ticks(6).tickFormat(measures[state.measure].text);
        if (x.base) { // logarithmic: powers of ten alone
            axis.tickValues(x.ticks().filter((tick) => Number.isInteger(Math.round(1e9 * Math.log10(tick)) / 1e9)));
        }
        svg.append("g").attr("transform", "translate(0," + height + ")").call(axis);
    };

    /* ---- the view -------------------------------------------------------------------------------- */

    const redraw = function () {
        const messages = chosenMessages();
        const known = messages.filter((message) => message[state.measure] !== null);
        const order = ["process", "host", "network", "ranks", PROXIES];
        const types = order.filter((type) => known.some((message) => message.type === type));
        const boxes = types.map((type) => boxOf(type, known.filter((message) => message.type === type)));
        state.node.replaceChildren();
        state.node.dataset.messages = known.length;
        if (boxes.length === 0) {
            commtap.empty(state.node, messages.length === 0
                ? "No message of what is chosen is held at both ends."
                : "None of " + commtap.format.number(messages.length, "message") + " was timed: each may have been there " +
                  "before, or its call may have waited for others.");
        } else {
            drawBoxes(boxes);
            state.node.append(commtap.element("p", {class: "note"},
                "Boxes hold the middle half, with the median; whiskers reach what lies within 1.5 times its width beyond it, " +
                "dots are further out. " + (types.includes(PROXIES)
                    ? "Of links that network proxies measured each counts once, by the mean of its steps. "
                    : "") + (messages.length > known.length
                    ? commtap.format.number(messages.length - known.length, "message") + " without a time are in none."
                    : "")));
        }
        state.table.show(d3.merge(boxes.map((box) => box.outlying)));
    };

    const sizeChoice = function () {
        const counts = d3.nest().key((message) => message.bytes).rollup((list) => list.length).entries(state.single);
        const sizes = counts
            .filter((size) => size.key !== "null")
            .sort((a, b) => b.value - a.value)
            .slice(0, SIZES_MOST)
            .map((size) => Number(size.key))
            .sort((a, b) => a - b);
        const choices = [["", "all"]].concat(sizes.map((bytes) => [bytes, commtap.format.bytes(bytes)]));
        return commtap.choice("Messages of", choices, "", (value) => {
            state.bytes = value;
            redraw();
        });
    };

    const columns = function () {
        const column = commtap.column;
        return [
            column("type", "type", {left: true}),
            column("op", "operation", {left: true}),
            column("from", "from", {text: commtap.format.rank}),
            column("to", "to", {text: commtap.format.rank}),
            column("bytes", "bytes"),
            column("seconds", "time", {heat: true}),
            column("gb_per_s", "bandwidth", {heat: true}),
            column("beyond", "beyond the fence", {left: true}),
            column("at_seconds", "when"),
            column("site", "call site", {left: true}),
        ];
    };

    const draw = function (node) {
        state.single = messagesOf(commtap.block("operations"));
        state.messages = state.single.concat(measuredLinks());
        node.dataset.marks = state.messages.length;
        if (state.messages.length === 0) {
            commtap.empty(node, "No message is held at both ends, and no network proxy measured a link: there is " +
                "nothing to compare.");
            return;
        }
        const choices = Object.keys(measures).map((key) => [key, measures[key].name]);
        node.append(
            commtap.element("div", {class: "controls"}, commtap.choice("Compare", choices, state.measure, (value) => {
                state.measure = value;
                redraw();
            }), sizeChoice())
        );
        state.node = commtap.element("div", {class: "scroll"});
        node.append(state.node, commtap.element("h3", null, "Outlying messages"));
        state.table = new commtap.Table(node, columns(), {
            name: "outlying",
            sort: "seconds",
            filters: ["from", "to", "type"],
            search: (row) => [row.op, row.from, row.to, row.site].join(" "),
        });
        commtap.selection.onChange("times", redraw, ["steps", "ranks", "host", "stage"]);
        redraw();
    };

    commtap.addView({
        id: "times",
        title: "Times of messages",
        about: "by type of link: single messages of the part that the page holds operation by operation, and links that " +
            "network proxies measured",
        draw,
    });
}
