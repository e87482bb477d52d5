// SPDX-License-Identifier: Apache-2.0
//
// A pipeline at work: what each stage sends and receives, which send goes with which receive, and the bubbles, in which
// a rank neither computes nor transfers. One pipeline of several alike, one step or those that are chosen.
"use strict";

{
    const LEFT = 130;
    const ROW = 46; // pixels
    const BAR = 22;
    const BOTTOM = 28;
    const SEND = 4; // enum flow_place
    const RECEIVE = 5;
    const looks = {
        work: {name: "work", color: "rule"},
        send: {name: "send", color: "red"},
        receive: {name: "receive", color: "green"},
        other: {name: "other communication", color: "blue"},
        bubble: {name: "bubble: neither computing nor transferring", color: "orange"},
    };
    const state = {node: null, rows: null, links: null, data: null, pipeline: 0, step: null};

    /* ---- the data, once -------------------------------------------------------------------------- */

    const lookOf = function (block, i) {
        const {op, place} = block.columns;
        return place[i] === SEND ? "send" : place[i] === RECEIVE ? "receive" : block.own_work[op[i]] ? "work" : "other";
    };

    /* Ranks that exchange messages across stages are of one pipeline; the smallest of them stands for it. */
    const pipelinesOf = function (pairs, dumps) {
        const above = new Map();
        const top = (dump) => {
            let at = dump;
            while (above.has(at)) {
                at = above.get(at);
            }
            return at;
        };
        pairs.forEach((pair) => {
            const [a, b] = [top(pair.from), top(pair.to)];
            if (a !== b) {
                above.set(Math.max(a, b), Math.min(a, b));
            }
        });
        const members = new Map();
        pairs.forEach((pair) => [pair.from, pair.to].forEach((dump) => {
            const list = members.get(top(dump)) || new Set();
            members.set(top(dump), list.add(dump));
        }));
        return Array.from(members.keys()).sort((a, b) => a - b).map((key) =>
            Array.from(members.get(key)).sort((a, b) => dumps[a].stage - dumps[b].stage || a - b));
    };

    const gather = function (block) {
        const {dumps} = commtap.block("page");
        const {track, flow, place} = block.columns;
        const byDump = new Map();
        const ends = new Map();
        track.forEach((number, i) => {
            const {dump, kind} = block.tracks[number];
            if (kind === "network" || kind === "exposed") {
                return;
            }
            if (!byDump.has(dump)) {
                byDump.set(dump, []);
            }
            byDump.get(dump).push(i);
            if (place[i] === SEND || place[i] === RECEIVE) {
                const end = ends.get(flow[i]) || {};
                end[place[i] === SEND ? "send" : "receive"] = i;
                ends.set(flow[i], end);
            }
        });
        const dumpOf = (i) => block.tracks[track[i]].dump;
        const pairs = Array.from(ends.values())
            .filter((end) => end.send !== undefined && end.receive !== undefined)
            .map((end) => ({send: end.send, receive: end.receive, from: dumpOf(end.send), to: dumpOf(end.receive)}))
            .filter((pair) => dumps[pair.from].stage !== null && dumps[pair.to].stage !== null &&
                dumps[pair.from].stage !== dumps[pair.to].stage);
        return {block, columns: block.columns, byDump, pairs, pipelines: pipelinesOf(pairs, dumps)};
    };

    /* ---- time ------------------------------------------------------------------------------------ */

    const union = function (intervals) {
        const merged = [];
        intervals.slice().sort((a, b) => a[0] - b[0]).forEach(([from, to]) => {
            const last = merged[merged.length - 1];
            if (last && from <= last[1]) {
                last[1] = Math.max(last[1], to);
            } else if (to > from) {
                merged.push([from, to]);
            }
        });
        return merged;
    };

    /* What of merged intervals lies in none of the others. */
    const without = function (intervals, others) {
        const rest = [];
        let o = 0;
        intervals.forEach(([from, to]) => {
            let at = from;
            while (o > 0 && others[o - 1][1] > from) {
                o--;
            }
            for (; o < others.length && others[o][0] < to; o++) {
                if (others[o][0] > at) {
                    rest.push([at, others[o][0]]);
                }
                at = Math.max(at, others[o][1]);
            }
            if (at < to) {
                rest.push([at, to]);
            }
        });
        return rest;
    };

    const lengthOf = (intervals) => d3.sum(intervals, ([from, to]) => to - from);

    /* A rank's operations in a time, and its bubbles: waits in which nothing else goes on, and gaps where work is on
     * record, so that a gap is none. */
    const rankTime = function (data, dump, [from, to]) {
        const {begin_ns: begins, length_ns: lengths, wait_from_ns: waitFroms, wait_ns: waits, track} = data.block.columns;
        const items = (data.byDump.get(dump) || []).filter((i) => begins[i] < to && begins[i] + lengths[i] > from);
        const cut = ([a, b]) => [Math.max(a, from), Math.min(b, to)];
        const useful = [];
        const waiting = [];
        items.filter((i) => data.block.tracks[track[i]].kind !== "in flight").forEach((i) => {
            const wait = begins[i] + waitFroms[i];
            useful.push(cut([begins[i], wait]), cut([wait + waits[i], begins[i] + lengths[i]]));
            waiting.push(cut([wait, wait + waits[i]]));
        });
        const hasWork = (data.byDump.get(dump) || []).some((i) => lookOf(data.block, i) === "work");
        const bubbles = without(hasWork ? [[from, to]] : union(waiting), union(useful));
        return {items, bubbles};
    };

    /* Steps whose operations are held: number, and when each rank of the pipeline was in it, since the block's begin. */
    const stepsOf = function (data, dumps) {
        const steps = commtap.block("steps");
        const {block} = data;
        const places = dumps.map((dump) => ({dump, r: steps.dumps.indexOf(dump)}));
        const list = [];
        for (let cell = 0; cell < steps.cells && steps.steps_per_cell === 1; cell++) {
            const ofDump = new Map();
            places.forEach(({dump, r}) => {
                const at = r * steps.cells + cell;
                if (r >= 0 && steps.columns.step_us[at] !== null) {
                    const from = steps.columns.start_us[at] * 1000 - block.from_ns;
                    ofDump.set(dump, [from, from + steps.columns.step_us[at] * 1000]);
                }
            });
            const times = Array.from(ofDump.values());
            const [from, to] = [d3.min(times, (time) => time[0]), d3.max(times, (time) => time[1])];
            if (times.length > 0 && from > -1000 && to < block.to_ns - block.from_ns + 1000) {
                list.push({number: steps.first_step + cell, ofDump, from, to});
            }
        }
        return list;
    };

    /* What is shown: the chosen steps, else one. */
    const shownOf = function (steps, data, dumps) {
        const chosen = commtap.selection.steps ? steps.filter((step) => commtap.selection.hasStep(step.number)) : [];
        const shown = chosen.length > 0 ? chosen : steps.slice(state.step, state.step + 1);
        if (shown.length > 0) {
            return {steps: shown, time: [shown[0].from, d3.max(shown, (step) => step.to)]};
        }
        const time = [0, data.block.to_ns - data.block.from_ns];
        return {steps: [{number: null, ofDump: new Map(dumps.map((dump) => [dump, time]))}], time};
    };

    /* When a rank was in the steps shown. Stages enter a step one after the other. */
    const ownTimes = (shown, dump) =>
        union(shown.steps.filter((step) => step.ofDump.has(dump)).map((step) => step.ofDump.get(dump)));

    /* ---- drawing --------------------------------------------------------------------------------- */

    const drawBars = function (picture, time, y) {
        const {context, x, data} = picture;
        const {begin_ns: begins, length_ns: lengths} = data.block.columns;
        const [from, to] = x.range();
        const bar = (a, b, color, top, height) => {
            const left = Math.max(x(a), from);
            context.fillStyle = commtap.color(color);
            context.fillRect(left, top, Math.max(Math.min(x(b), to) - left, 0.7), height);
        };
        let marks = 0;
        time.items.forEach((i) => {
            const look = lookOf(data.block, i);
            /* sends above, receives below: they may go on at one time */
            const half = look === "send" || look === "receive";
            bar(begins[i], begins[i] + lengths[i], looks[look].color, look === "receive" ? y + BAR / 2 : y, half ? BAR / 2 : BAR);
            marks += half ? 1 : 0;
        });
        time.bubbles.forEach(([a, b]) => bar(a, b, looks.bubble.color, y + BAR + 2, 6));
        return marks;
    };

    const drawPairs = function (picture, dumps) {
        const {context, x, data} = picture;
        const {begin_ns: begins, length_ns: lengths} = data.block.columns;
        const [first, last] = x.domain();
        let drawn = 0;
        context.strokeStyle = commtap.color("joint");
        context.lineWidth = 1;
        data.pairs.forEach((pair) => {
            const [from, to] = [dumps.indexOf(pair.from), dumps.indexOf(pair.to)];
            const sent = begins[pair.send];
            const received = begins[pair.receive] + lengths[pair.receive];
            if (from < 0 || to < 0 || sent > last || received < first) {
                return;
            }
            drawn++;
            context.beginPath();
            context.moveTo(Math.max(x(sent), LEFT), from * ROW + 8 + BAR / 2);
            context.lineTo(Math.max(x(received), LEFT), to * ROW + 8 + BAR / 2);
            context.stroke();
        });
        return drawn;
    };

    const label = function (picture, dumps) {
        const {context, x, height} = picture;
        context.fillStyle = commtap.color("ink");
        context.font = "11px sans-serif";
        context.textAlign = "right";
        context.textBaseline = "middle";
        dumps.forEach((dump, n) => {
            const member = commtap.block("page").dumps[dump];
            const name = "stage " + member.stage + ", rank " + commtap.format.rank(member.rank);
            context.fillText(name, LEFT - 6, n * ROW + 8 + BAR / 2);
        });
        context.textAlign = "center";
        context.textBaseline = "top";
        x.ticks(6).forEach((tick) => {
            context.fillRect(x(tick), height, 1, 5);
            const text = commtap.format.nanoseconds(tick + picture.data.block.from_ns);
            context.fillText(text, Math.min(x(tick), x.range()[1] - 28), height + 8);
        });
    };

    const drawPicture = function (data, dumps, shown) {
        const width = commtap.widthOf(state.node);
        const height = ROW * dumps.length;
        const {canvas, context} = commtap.canvas(width, height + BOTTOM, "sends and receives of " + dumps.length + " ranks");
        const picture = {context, data, height, x: d3.scaleLinear().domain(shown.time).range([LEFT, width])};
        const times = dumps.map((dump) => rankTime(data, dump, shown.time));
        const holder = commtap.element("div", null, canvas);
        state.node.append(holder);
        state.node.dataset.marks = d3.sum(times, (time, n) => drawBars(picture, time, n * ROW + 8));
        state.node.dataset.pairs = drawPairs(picture, dumps);
        state.node.dataset.bubbles = d3.sum(times, (time) => time.bubbles.length);
        label(picture, dumps);
        addPointing(canvas, picture, dumps, times);
        addWalk(holder, picture, dumps, times);
    };

    /* By keyboard from operation to operation of a stage. */
    const addWalk = function (holder, picture, dumps, times) {
        const {begin_ns: begins, length_ns: lengths} = picture.data.block.columns;
        const inside = (at) => Math.max(LEFT, Math.min(picture.x(at), picture.x.range()[1]));
        commtap.walkable(holder, state.node, {
            rows: dumps.length,
            first: (row, near) => (times[row].items.length > 0 ? Math.min(near || 0, times[row].items.length - 1) : null),
            next: (row, place, by) => Math.max(0, Math.min(place + by, times[row].items.length - 1)),
            tell: (row, place) => (place === null
                ? [commtap.format.member(commtap.block("page").dumps[dumps[row]]), "nothing in sight"]
                : commtap.tellOperation(picture.data, times[row].items[place])),
            box: function (row, place) {
                const i = times[row].items[place];
                const [left, right] = place === null ? picture.x.range() : [inside(begins[i]), inside(begins[i] + lengths[i])];
                return {left, top: row * ROW, width: Math.max(right - left, 2), height: ROW};
            },
            rank: (row) => commtap.block("page").dumps[dumps[row]].rank,
        });
    };

    const addPointing = function (canvas, picture, dumps, times) {
        const {begin_ns: begins, length_ns: lengths} = picture.data.block.columns;
        canvas.addEventListener("mousemove", (event) => {
            const n = Math.floor(event.offsetY / ROW);
            const at = picture.x.invert(event.offsetX);
            const time = event.offsetX >= LEFT ? times[n] : null;
            if (!time) {
                commtap.showBeside(event, null);
                return;
            }
            const items = time.items.filter((i) => begins[i] <= at && at < begins[i] + lengths[i]);
            const bubble = time.bubbles.find(([from, to]) => from <= at && at < to);
            const lines = items.map((i) =>
                commtap.tellOperation(picture.data, i)[0] + ", " + commtap.format.nanoseconds(lengths[i]));
            commtap.showBeside(event, [commtap.format.member(commtap.block("page").dumps[dumps[n]])].concat(lines,
                bubble ? "bubble of " + commtap.format.nanoseconds(bubble[1] - bubble[0]) : []));
        });
        canvas.addEventListener("mouseleave", (event) => commtap.showBeside(event, null));
    };

    /* ---- figures --------------------------------------------------------------------------------- */

    const rankRows = (data, dumps, shown) =>
        dumps.map((dump) => {
            const {rank, host, stage} = commtap.block("page").dumps[dump];
            const own = ownTimes(shown, dump);
            const bubbles = d3.merge(own.map((time) => rankTime(data, dump, time).bubbles));
            return {rank, host, stage, bubble_us: lengthOf(bubbles) / 1000, bubbles: bubbles.length,
                bubble_share: own.length > 0 ? lengthOf(bubbles) / lengthOf(own) : null};
        });

    /* Messages from rank to rank that begin in the steps shown: as many as there are micro-batches. */
    const linkRows = function (data, dumps, shown) {
        const {begin_ns: begins, wait_ns: waits, bytes} = data.block.columns;
        const members = commtap.block("page").dumps;
        const rows = new Map();
        const own = new Map(dumps.map((dump) => [dump, ownTimes(shown, dump)]));
        data.pairs.filter((pair) => own.has(pair.from)).forEach((pair) => {
            const sent = begins[pair.send];
            if (!own.get(pair.from).some(([from, to]) => sent >= from && sent < to)) {
                return;
            }
            const key = pair.from + " " + pair.to;
            const row = rows.get(key) || {from: members[pair.from].rank, to: members[pair.to].rank,
                from_stage: members[pair.from].stage, to_stage: members[pair.to].stage, messages: 0, bytes: null,
                sender_wait_us: 0, receiver_wait_us: 0};
            row.messages++;
            row.bytes = bytes[pair.send] >= 0 ? (row.bytes || 0) + bytes[pair.send] : row.bytes;
            row.sender_wait_us += waits[pair.send] / 1000;
            row.receiver_wait_us += waits[pair.receive] / 1000;
            rows.set(key, row);
        });
        return Array.from(rows.values(), (row) => Object.assign(row, {per_step: row.messages / shown.steps.length}))
            .sort((a, b) => a.from_stage - b.from_stage || a.to_stage - b.to_stage);
    };

    const showTables = function (data, dumps, shown) {
        state.rows.show(rankRows(data, dumps, shown));
        state.links.show(linkRows(data, dumps, shown));
    };

    const addTables = function (node) {
        const column = commtap.column;
        const rank = {text: commtap.format.rank};
        node.append(commtap.element("h3", null, "Bubbles"));
        state.rows = new commtap.Table(node,
            [column("stage", "stage"), column("rank", "rank", rank), column("host", "host", {left: true}),
                column("bubble_share", "of the time", {text: commtap.format.percent, heat: true}),
                column("bubble_us", "bubbles"), column("bubbles", "how many")],
            {name: "bubbles", search: (row) => row.rank + " " + row.host});
        node.append(commtap.element("h3", null, "Messages between stages"),
            commtap.element("p", {class: "about"},
                "in a step one goes to the next stage, and one comes back, for each micro-batch"));
        state.links = new commtap.Table(node,
            [column("from_stage", "from stage"), column("to_stage", "to stage"), column("from", "from", rank),
                column("to", "to", rank),
                column("per_step", "a step", {text: (value) => commtap.format.count(Number(value.toFixed(2)))}),
                column("messages", "messages"), column("bytes", "bytes"),
                column("sender_wait_us", "sender waited", {heat: true}),
                column("receiver_wait_us", "receiver waited", {heat: true})],
            {name: "stage-messages", search: (row) => row.from + " " + row.to});
    };

    /* ---- the view -------------------------------------------------------------------------------- */

    const redraw = function () {
        const {data} = state;
        const dumps = data.pipelines[state.pipeline];
        const steps = stepsOf(data, dumps);
        state.step = state.step === null ? Math.floor(steps.length / 2) : Math.max(0, Math.min(state.step, steps.length - 1));
        const shown = shownOf(steps, data, dumps);
        const numbers = shown.steps.map((step) => step.number);
        state.node.replaceChildren();
        state.label.textContent = numbers[0] === null ? "no steps are known here: all of the time"
            : "step " + commtap.rangesText(commtap.rangesOf(numbers));
        drawPicture(data, dumps, shown);
        showTables(data, dumps, shown);
    };

    const turn = (by) => () => {
        commtap.selection.choose({steps: null});
        state.step += by;
        redraw();
    };

    const draw = function (node) {
        state.data = gather(commtap.block("operations"));
        const {pipelines} = state.data;
        if (pipelines.length === 0) {
            node.dataset.marks = 0;
            commtap.empty(node, "No ranks are known to be stages of a pipeline that send to each other in the time that this " +
                "page holds.");
            return;
        }
        const members = commtap.block("page").dumps;
        const names = pipelines.map((dumps, n) => [n, commtap.format.ranks(dumps.map((dump) => members[dump].rank))]);
        state.label = commtap.element("span", {role: "status"});
        node.append(
            commtap.legend(Object.keys(looks).map((key) => looks[key])),
            commtap.element("div", {class: "controls"},
                commtap.choice("Pipeline of", names, 0, (value) => {
                    state.pipeline = Number(value);
                    redraw();
                }),
                commtap.button("Previous step", turn(-1)), commtap.button("Next step", turn(1)), state.label)
        );
        state.node = commtap.element("div");
        node.append(state.node);
        addTables(node);
        commtap.selection.onChange("pipeline", redraw, ["steps", "light"]);
        redraw();
    };

    commtap.addView({
        id: "pipeline",
        title: "Pipeline",
        about: "stages from the first to the last: sends and the receives that they go with, and the bubbles",
        draw,
    });
}
