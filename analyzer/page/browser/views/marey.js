// SPDX-License-Identifier: Apache-2.0
//
// Operations one by one: a line per rank, operations that belong together joined across ranks (after E. J. Marey's
// train schedules). Drag to look closer, double click to go back.
"use strict";

{
    const LEFT = 96;
    const BOTTOM = 28;
    const kinds = [
        {name: "all-reduce and its like", color: "blue", of: /reduce|all_?gather|bcast|broadcast/i},
        {name: "send", color: "red", of: /send/i},
        {name: "receive", color: "green", of: /recv|receive/i},
        {name: "other communication", color: "purple", of: /./},
        {name: "own work, where it is on record", color: "rule", of: null},
    ];
    const OWN_WORK = kinds.length - 1;
    const WAITING = {name: "waiting for others", color: "orange"};
    const SENT = 4; // enum flow_place
    const state = {
        node: null, sites: null, index: null, range: null, at: null, path: true, collapsed: new Set(),
        steps: null, outside: false,
    };

    /* ---- the data, once -------------------------------------------------------------------------- */

    const dumpOf = (index, i) => index.block.tracks[index.columns.track[i]].dump;

    /* Operations by dump in the order of time, and those of one flow together, by dump. */
    const indexOf = function (block) {
        const columns = block.columns;
        const byDump = new Map();
        const flows = new Map();
        const kindOf = block.names.map((name, n) =>
            block.own_work[n] ? OWN_WORK : kinds.findIndex((kind) => kind.of.test(name)));
        columns.track.forEach((track, i) => {
            const dump = block.tracks[track].dump;
            if (block.tracks[track].kind === "network" || block.tracks[track].kind === "exposed") {
                return;
            }
            if (!byDump.has(dump)) {
                byDump.set(dump, []);
            }
            byDump.get(dump).push(i);
            if (columns.flow[i] > 0) {
                if (!flows.has(columns.flow[i])) {
                    flows.set(columns.flow[i], []);
                }
                flows.get(columns.flow[i]).push(i);
            }
        });
        byDump.forEach((list) => list.sort((a, b) => columns.begin_ns[a] - columns.begin_ns[b]));
        flows.forEach((list) => list.sort((a, b) => dumpOf({block, columns}, a) - dumpOf({block, columns}, b)));
        return {block, columns, byDump, flows: Array.from(flows.values()), kindOf};
    };

    const chosenDumps = () =>
        commtap
            .block("page")
            .dumps.map((dump, number) => ({dump, number}))
            .filter((item) => commtap.selection.hasRank(item.dump.rank));

    /* A line for each rank, or one for all ranks of a stage. */
    const linesOf = function (dumps) {
        const lines = [];
        const ofStage = new Map();
        dumps.forEach((item) => {
            const stage = item.dump.stage;
            if (!state.collapsed.has(stage)) {
                lines.push({items: [item], name: commtap.format.member(item.dump)});
            } else if (ofStage.has(stage)) {
                ofStage.get(stage).items.push(item);
            } else {
                ofStage.set(stage, {items: [item], name: "stage " + stage});
                lines.push(ofStage.get(stage));
            }
        });
        return lines;
    };

    /* ---- drawing --------------------------------------------------------------------------------- */

    const yOf = (picture, dump) => picture.rows.get(dump);

    /* Where the operations of one rank lie, and their waits: left end and width, one after the other, by color. */
    const rectanglesOf = function (picture, dump) {
        const {index, width, from_ns: first, scale} = picture;
        const {begin_ns: begins, length_ns: lengths, wait_from_ns: waitFroms, wait_ns: waits, op} = index.columns;
        const byColor = kinds.map(() => []).concat([[]]);
        let marks = 0;
        (index.byDump.get(dump) || []).forEach((i) => {
            const from = LEFT + scale * (begins[i] - first);
            const to = from + scale * lengths[i];
            if (to < LEFT || from > width) {
                return;
            }
            marks++;
            const left = Math.max(from, LEFT);
            byColor[index.kindOf[op[i]]].push(left, Math.max(Math.min(to, width) - left, 0.7));
            if (waits[i] > 0) {
                const begin = Math.max(from + scale * waitFroms[i], LEFT);
                const end = Math.min(from + scale * (waitFroms[i] + waits[i]), width);
                byColor[kinds.length].push(begin, Math.max(end - begin, 0));
            }
        });
        return {byColor, marks};
    };

    /* A rank's rectangles of one color are one path: filled one by one, thousands of them take several times as long. */
    const drawOperations = function (picture) {
        const {context, bar} = picture;
        const colors = kinds.concat([WAITING]).map((kind) => commtap.color(kind.color));
        let marks = 0;
        picture.dumps.forEach((item) => {
            const y = yOf(picture, item.number) - bar / 2;
            const rectangles = rectanglesOf(picture, item.number);
            marks += rectangles.marks;
            rectangles.byColor.forEach((ends, n) => {
                if (ends.length === 0) {
                    return;
                }
                context.fillStyle = colors[n];
                context.beginPath();
                for (let i = 0; i < ends.length; i += 2) {
                    context.rect(ends[i], y, ends[i + 1], bar);
                }
                context.fill();
            });
        });
        return marks;
    };

    /* A collective's members from the first row to the last: their beginnings down, their ends up. A message's two. */
    const outline = function (picture, members) {
        const {index, x, context} = picture;
        const {begin_ns: begins, length_ns: lengths, place} = index.columns;
        const shown = members.filter((i) => picture.rows.has(dumpOf(index, i)));
        if (shown.length < 2) {
            return false;
        }
        const end = (i) => x(begins[i] + lengths[i]);
        const message = shown.find((i) => place[i] === SENT);
        if (d3.max(shown, end) < LEFT || d3.min(shown, (i) => x(begins[i])) > picture.width) {
            return false;
        }
        context.beginPath();
        if (message !== undefined) {
            const received = shown.find((i) => i !== message);
            context.moveTo(x(begins[message]), yOf(picture, dumpOf(index, message)));
            context.lineTo(end(received), yOf(picture, dumpOf(index, received)));
            context.stroke();
            return true;
        }
        if (state.collapsed.size > 0) { // otherwise rows are in the order of dumps, as members are
            shown.sort((a, b) => yOf(picture, dumpOf(index, a)) - yOf(picture, dumpOf(index, b)));
        }
        shown.forEach((i, n) => context[n ? "lineTo" : "moveTo"](x(begins[i]), yOf(picture, dumpOf(index, i))));
        shown.reverse().forEach((i) => context.lineTo(end(i), yOf(picture, dumpOf(index, i))));
        context.closePath();
        context.fill();
        return true;
    };

    /* How many flows lie over one another on average where there are any in sight; each is at least as wide as a pixel. */
    const depthOf = function (picture, flows) {
        const {index, x, width} = picture;
        const {begin_ns: begins, length_ns: lengths} = index.columns;
        let [depth, first, last] = [0, Infinity, -Infinity];
        flows.forEach((members) => {
            const from = Math.max(LEFT, d3.min(members, (i) => x(begins[i])));
            const to = Math.min(width, Math.max(from + 1, d3.max(members, (i) => x(begins[i] + lengths[i]))));
            if (to > from) {
                depth += to - from;
                [first, last] = [Math.min(first, from), Math.max(last, to)];
            }
        });
        return last > first ? depth / (last - first) : 0;
    };

    const drawFlows = function (picture) {
        const {context, index} = picture;
        let marks = 0;
        context.fillStyle = commtap.color("joined");
        context.strokeStyle = commtap.color("joint");
        context.lineWidth = 0.8;
        const isMessage = (members) => members.some((i) => index.columns.place[i] === SENT);
        [index.flows.filter((members) => !isMessage(members)), index.flows.filter(isMessage)].forEach((flows) => {
            context.globalAlpha = 1 / Math.max(1, depthOf(picture, flows)); // many together are as dark as one alone
            flows.forEach((members) => {
                marks += outline(picture, members) ? 1 : 0;
            });
        });
        context.globalAlpha = 1;
        return marks;
    };

    const drawAxes = function (picture) {
        const {context, x, height, index} = picture;
        const every = Math.max(1, Math.ceil(12 / picture.row));
        context.clearRect(0, 0, LEFT, height + BOTTOM);
        context.fillStyle = commtap.color("ink");
        context.font = "11px sans-serif";
        context.textBaseline = "middle";
        context.textAlign = "right";
        picture.lines.forEach((line, n) => {
            if (n % every === 0) {
                context.fillText(line.name, LEFT - 6, Math.max((n + 0.5) * picture.row, 6));
            }
        });
        context.textAlign = "center";
        context.textBaseline = "top";
        x.ticks(6).forEach((tick) => {
            context.fillRect(x(tick), height, 1, 5);
            context.fillText(
                commtap.format.nanoseconds(tick + index.block.from_ns),
                Math.max(LEFT + 24, Math.min(x(tick), picture.width - 28)),
                height + 8
            );
        });
    };

    const paint = function (picture) {
        picture.context.clearRect(0, 0, picture.width, picture.height + BOTTOM);
        const joined = drawFlows(picture);
        const marks = drawOperations(picture);
        state.node.dataset.path = state.path && commtap.path.isKnown() ? commtap.path.draw(picture) : 0;
        drawAxes(picture);
        state.node.dataset.marks = marks;
        state.node.dataset.joined = joined;
        state.node.dataset.from = Math.round(picture.x.domain()[0]);
        state.node.dataset.to = Math.round(picture.x.domain()[1]);
    };

    /* ---- pointing -------------------------------------------------------------------------------- */

    const operationAt = function (picture, px, py) {
        const line = picture.lines[Math.floor(py / picture.row)];
        const at = picture.x.invert(px);
        if (!line || px < LEFT) {
            return null;
        }
        const {begin_ns: begins, length_ns: lengths} = picture.index.columns;
        const slack = picture.x.invert(LEFT + 2) - picture.x.invert(LEFT);
        let found = null;
        line.items.forEach((item) =>
            (picture.index.byDump.get(item.number) || []).forEach((i) => {
                const inside = begins[i] - slack <= at && at <= begins[i] + lengths[i] + slack;
                if (inside && (found === null || lengths[i] < lengths[found])) {
                    found = i;
                }
            })
        );
        return found;
    };

    /** What is known of one operation, in lines. */
    commtap.tellOperation = function (index, i) {
        const {block, columns} = index;
        const member = commtap.block("page").dumps[dumpOf(index, i)];
        const communicator = columns.communicator[i] >= 0 ? block.communicators[columns.communicator[i]] : null;
        const job = commtap.block("report").job;
        const late = columns.waited_for[i] >= 0 ? commtap.block("page").dumps[columns.waited_for[i]] : null;
        return [
            block.names[columns.op[i]] + ", " + commtap.format.bytes(columns.bytes[i] >= 0 ? columns.bytes[i] : null),
            commtap.format.member(member) + commtap.onHost(member),
            "from " + commtap.format.nanoseconds(columns.begin_ns[i] + block.from_ns) + ", for " +
                commtap.format.nanoseconds(columns.length_ns[i]),
            late
                ? "waited " + commtap.format.nanoseconds(columns.wait_ns[i]) + " for " + commtap.format.member(late)
                : "",
            communicator ? "on " + (communicator.name || communicator.uid) + " of " + communicator.size : "",
            "at " + block.sites[columns.site[i]],
            job.clock_error_us === null
                ? "the hosts' clocks cannot be compared"
                : "clocks agree within " + commtap.format.microseconds(job.clock_error_us),
        ].filter((line) => line !== "");
    };

    const addBrush = function (picture, holder) {
        const svg = d3
            .select(holder)
            .append("svg")
            .attr("class", "over")
            .attr("width", picture.width)
            .attr("height", picture.height);
        const brush = d3
            .brushX()
            .extent([
                [LEFT, 0],
                [picture.width, picture.height],
            ])
            .on("end", () => {
                if (d3.event.selection) {
                    state.range = d3.event.selection.map(picture.x.invert);
                    redraw();
                }
            });
        svg.append("g").attr("class", "brush").call(brush);
        svg.on("dblclick", () => {
            state.range = null;
            redraw();
        });
        svg.on("mousemove", () => {
            const [px, py] = d3.mouse(svg.node());
            const i = operationAt(picture, px, py);
            const lines = (state.path ? commtap.path.tell(picture, px, py) : [])
                .concat(i === null ? [] : commtap.tellOperation(picture.index, i));
            commtap.showBeside(d3.event, lines.length > 0 ? lines : null);
        });
        svg.on("click", () => {
            const [px, py] = d3.mouse(svg.node());
            const line = picture.lines[Math.floor(py / picture.row)];
            if (px < LEFT && line && line.items.length === 1) {
                commtap.showRank(line.items[0].dump.rank);
            }
        });
        svg.on("mouseleave", () => commtap.showBeside(d3.event, null));
    };

    /* By keyboard: `share` of what is shown, around a moment that stays where it is. The picture is drawn anew, and takes
     * the keys that follow. */
    const zoom = function (picture, share, row, i) {
        const [from, to] = picture.x.domain();
        const {begin_ns: begins, length_ns: lengths} = picture.index.columns;
        const around = i === null ? (from + to) / 2 : Math.max(from, Math.min(begins[i] + lengths[i] / 2, to));
        const most = picture.index.block.to_ns - picture.index.block.from_ns;
        const first = Math.max(0, around - (around - from) * share);
        const last = Math.min(most, around + (to - around) * share);
        state.range = share === Infinity || (first === 0 && last === most) ? null : [first, last];
        state.at = {row, place: i};
        redraw();
        state.at = null;
        state.node.querySelector("canvas").focus();
    };

    /* By keyboard from operation to operation of a line, of those in sight. */
    const addWalk = function (picture, holder) {
        const {lines, index, x, row: high} = picture;
        const {begin_ns: begins, length_ns: lengths} = index.columns;
        const [from, to] = x.domain();
        const held = new Map();
        const operationsOf = function (row) {
            if (!held.has(row)) {
                const all = d3.merge(lines[row].items.map((item) => index.byDump.get(item.number) || []));
                held.set(row, all.filter((i) => begins[i] <= to && begins[i] + lengths[i] >= from)
                    .sort((a, b) => begins[a] - begins[b]));
            }
            return held.get(row);
        };
        const inside = (at) => Math.max(LEFT, Math.min(x(at), picture.width));
        commtap.walkable(holder, state.node, {
            rows: lines.length,
            at: state.at,
            help: " Plus and minus look closer and less close, 0 at the whole part.",
            keys: {
                "+": (row, i) => zoom(picture, 0.5, row, i),
                "-": (row, i) => zoom(picture, 2, row, i),
                "0": (row, i) => zoom(picture, Infinity, row, i),
            },
            first: function (row, near) {
                const list = operationsOf(row);
                const place = near === null ? 0 : d3.bisector((i) => begins[i]).left(list, begins[near]);
                return list.length > 0 ? list[Math.min(place, list.length - 1)] : null;
            },
            next: function (row, i, by) {
                const list = operationsOf(row);
                return list[Math.max(0, Math.min(list.indexOf(i) + by, list.length - 1))];
            },
            tell: (row, i) => (i === null ? [lines[row].name, "nothing in sight"] : commtap.tellOperation(index, i)),
            box: function (row, i) {
                const [left, right] = i === null ? [LEFT, picture.width] : [inside(begins[i]), inside(begins[i] + lengths[i])];
                return {left, top: row * high, width: Math.max(right - left, 2), height: high};
            },
            rank: (row, i) => (i === null ? lines[row].items[0].dump : commtap.block("page").dumps[dumpOf(index, i)]).rank,
        });
    };

    /* ---- the view -------------------------------------------------------------------------------- */

    /* Other steps were chosen: it looks at these, as far as the page holds them. */
    const followSteps = function () {
        if (state.steps === commtap.selection.steps) {
            return;
        }
        state.steps = commtap.selection.steps;
        const {from_ns: first, to_ns: last} = state.index.block;
        const span = commtap.chosenSpan();
        const [from, to] = (span || [0, 0]).map((us) => Math.max(0, Math.min(us * 1000, last) - first));
        state.outside = span !== null && from === to;
        state.range = from < to ? [from, to] : null;
    };

    const redraw = function () {
        const index = state.index;
        followSteps();
        const dumps = chosenDumps();
        commtap.showBeside(null, null);
        state.node.replaceChildren();
        if (dumps.length === 0 || index.columns.track.length === 0) {
            state.node.dataset.marks = 0;
            commtap.empty(state.node, "No single operations are on record for what is chosen.");
            return;
        }
        const width = commtap.widthOf(state.node);
        const lines = linesOf(dumps);
        const row = Math.max(2, Math.min(26, 620 / lines.length));
        const height = row * lines.length;
        const {canvas, context} = commtap.canvas(width, height + BOTTOM, "operations of " + dumps.length + " ranks");
        const holder = commtap.element("div", null, canvas);
        state.node.append(holder);
        const whole = [0, index.block.to_ns - index.block.from_ns];
        const [first, last] = state.range || whole;
        const picture = {
            context, index, dumps, lines, width, height, row,
            x: d3.scaleLinear().domain([first, last]).range([LEFT, width]),
            from_ns: first, // and pixels of a nanosecond: what is there by the thousand needs no function
            scale: (width - LEFT) / (last - first),
            left: LEFT,
            bar: Math.max(1.5, row * 0.5),
            rows: new Map(d3.merge(lines.map((line, n) => line.items.map((item) => [item.number, (n + 0.5) * row])))),
        };
        paint(picture);
        addBrush(picture, holder);
        addWalk(picture, holder);
        if (state.outside) {
            state.node.append(commtap.element("p", {class: "note"}, "The steps that are chosen are not in this part."));
        }
        if (state.sites) {
            state.sites.show(picture);
        }
    };

    const drawLegend = function (node) {
        const legend = commtap.legend(kinds.concat([WAITING]));
        legend.append(commtap.element("span", {class: "aside"}, "gaps: own work"));
        node.append(legend);
    };

    /* A button that keeps being pressed: calls back with whether it is. */
    const toggle = function (text, pressed, changed) {
        const button = commtap.button(text, () => {
            const now = button.getAttribute("aria-pressed") !== "true";
            button.setAttribute("aria-pressed", now);
            changed(now);
            redraw();
        });
        button.setAttribute("aria-pressed", pressed);
        return button;
    };

    const controls = function () {
        const bar = commtap.element("div", {class: "controls"}, commtap.button("Whole part", () => {
            state.range = null;
            redraw();
        }));
        if (commtap.path.isKnown()) {
            bar.append(toggle("Critical path", true, (shown) => {
                state.path = shown;
            }));
        }
        const stages = commtap.stages();
        if (stages.length > 0) {
            bar.append("one line for");
            stages.forEach((stage) =>
                bar.append(toggle("stage " + stage, false, (shown) => state.collapsed[shown ? "add" : "delete"](stage))));
        }
        return bar;
    };

    const draw = function (node) {
        const block = commtap.block("operations");
        state.index = indexOf(block);
        drawLegend(node);
        const report = commtap.block("report");
        if (block.from_ns > 0 || block.to_ns < report.job.wall_seconds * 1e9) {
            node.append(
                commtap.element("p", {class: "note"}, "A page holds single operations of a part of a long job: from " +
                    commtap.format.nanoseconds(block.from_ns) + " to " + commtap.format.nanoseconds(block.to_ns) +
                    ". commtap html --from, --to and --step choose another one.")
            );
        }
        commtap.noteOpenCalls(node);
        node.append(controls());
        state.node = commtap.element("div");
        node.append(state.node);
        if (commtap.path.isKnown()) {
            state.sites = commtap.path.table(node);
        }
        commtap.selection.onChange("marey", redraw, ["steps", "ranks", "host", "stage", "light"]);
        redraw();
    };

    commtap.addView({
        id: "marey",
        title: "Operations over time",
        about: "a line per rank; what belongs together is joined; drag, or press +, to look closer, double click, or press 0, " +
            "to go back",
        draw,
    });
}
