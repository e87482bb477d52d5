// SPDX-License-Identifier: Apache-2.0
//
// One rank: where it ran, what is said of it, its steps beside the others', its operations, call sites and peers. The
// address says which one (#rank=3), so that whatever names a rank leads here.
"use strict";

{
    const HEIGHT = 170;
    const MARGIN = {top: 10, right: 16, bottom: 30, left: 64};
    const state = {rank: null, node: null, tables: null, unknown: null};

    /* ---- facts ----------------------------------------------------------------------------------- */

    /** GPUs of a rank, as text. */
    commtap.devicesOf = (member) =>
        (member.devices || []).map((device) => [device.name, device.bus ? "at " + device.bus : null, "(" + device.ordinal + ")"]
            .filter((text) => text).join(" ")).join(", ");

    /** Its place in the parallel layout, as text. */
    commtap.layoutOf = (member) =>
        (member.groups || []).map((group) => ({group, of: commtap.block("page").communicators[group.communicator]}))
            .filter((item) => item.of.role !== null)
            .map(({group, of}) => of.role + " rank " + group.place + " of " + of.size + " (" + of.name + ")").join(", ");

    const factsOf = function (member, row) {
        const format = commtap.format;
        return [
            ["Host", format.text(member.host)],
            ["Stage", format.text(member.stage)],
            ["GPU", format.text(commtap.devicesOf(member))],
            ["Parallel layout", format.text(commtap.layoutOf(member))],
            ["Waited for others", row && format.seconds(row.wait_seconds)],
            ["Others waited for it", row && format.seconds(row.waited_for_seconds)],
            ["Of all waits, caused in the end", row && format.seconds(row.caused_seconds)],
            ["In communication", row && format.seconds(row.comm_seconds)],
            ["Transferring", row && format.seconds(row.transfer_seconds)],
            ["On the critical path", row && format.seconds(row.critical_path_seconds)],
            ["Own work, ratio to its peers'", row && format.ratio(row.self_ratio)],
            ["Ended", row && format.text(row.state)],
        ].filter(([, text]) => text);
    };

    const drawFacts = function (node, member, row) {
        const list = commtap.element("dl", {class: "facts"});
        factsOf(member, row).forEach(([name, text]) =>
            list.append(commtap.element("dt", null, name), commtap.element("dd", null, text)));
        node.append(list);
    };

    /* Whether a text names the rank: "rank 3", "ranks 0, 2-4 and 7". */
    const names = (text, rank) =>
        (text.match(/\branks? \d+(?:-\d+)?(?:(?:, | and )\d+(?:-\d+)?)*/g) || []).some((list) =>
            list.match(/\d+(?:-\d+)?/g).some((run) => {
                const [from, to] = run.split("-").map(Number);
                return rank >= from && rank <= (to === undefined ? from : to);
            }));

    const drawFindings = function (node, rank) {
        const found = commtap.block("report").findings.filter((finding) => names(finding.text, rank));
        const list = commtap.element("ul", {class: "findings"});
        found.forEach((finding) => list.append(commtap.element("li", {class: finding.severity}, commtap.linked(finding.text))));
        node.append(found.length > 0 ? list : commtap.element("p", {class: "note"}, "No finding names it."));
        return found.length;
    };

    /* ---- its steps beside the others' ------------------------------------------------------------ */

    const stepRows = function (rank) {
        const steps = commtap.block("steps");
        const own = steps.ranks.indexOf(rank);
        const rows = [];
        for (let cell = 0; own >= 0 && cell < steps.cells; cell++) {
            const at = own * steps.cells + cell;
            if (steps.columns.step_us[at] === null) {
                continue;
            }
            const others = steps.ranks.map((_, r) => steps.columns.wait_us[r * steps.cells + cell])
                .filter((value) => value !== null);
            rows.push({
                step: steps.first_step + cell * steps.steps_per_cell, step_us: steps.columns.step_us[at],
                comm_us: steps.columns.comm_us[at], wait_us: steps.columns.wait_us[at], others_us: d3.median(others),
            });
        }
        return rows;
    };

    const lines = [
        {key: "step_us", name: "step", color: "ink"},
        {key: "comm_us", name: "communication", color: "blue"},
        {key: "wait_us", name: "of it, waiting", color: "orange"},
        {key: "others_us", name: "waiting, median of all ranks", color: "purple"},
    ];

    const drawSteps = function (node, rows) {
        if (rows.length === 0) {
            commtap.empty(node, "No steps of this rank are known.");
            return;
        }
        const width = commtap.widthOf(node);
        const steps = d3.extent(rows, (row) => row.step);
        const x = d3.scaleLinear().domain([steps[0] - 0.5, steps[1] + 0.5]).range([MARGIN.left, width - MARGIN.right]);
        const y = d3.scaleLinear().domain([0, d3.max(rows, (row) => row.step_us) || 1]).nice()
            .range([HEIGHT - MARGIN.bottom, MARGIN.top]);
        node.append(commtap.legend(lines));
        const svg = d3.select(node).append("svg").attr("width", width).attr("height", HEIGHT).attr("role", "img")
            .attr("aria-label", "time of " + rows.length + " steps of one rank");
        svg.append("g").attr("transform", "translate(0," + (HEIGHT - MARGIN.bottom) + ")")
            .call(commtap.stepAxis(x));
        svg.append("g").attr("transform", "translate(" + MARGIN.left + ",0)")
            .call(d3.axisLeft(y).ticks(4).tickFormat(commtap.format.microseconds));
        (commtap.selection.steps || []).forEach(([first, last]) => {
            const [from, to] = [first - 0.5, last + 0.5].map((step) => Math.max(x.range()[0], Math.min(x(step), x.range()[1])));
            svg.append("rect").attr("class", "chosen").attr("x", from).attr("width", to - from)
                .attr("y", MARGIN.top).attr("height", HEIGHT - MARGIN.bottom - MARGIN.top);
        });
        lines.forEach((line) =>
            svg.append("path").datum(rows).attr("class", "line").style("stroke", "var(--" + line.color + ")")
                .attr("d", d3.line().defined((row) => row[line.key] !== null && row[line.key] !== undefined)
                    .x((row) => x(row.step)).y((row) => y(row[line.key]))));
    };

    /* ---- its operations and peers ---------------------------------------------------------------- */

    /* Sums of its operations in the chosen steps by function and call site, and of its waits by whom they were for. */
    const operationRows = function (rank) {
        const block = commtap.block("operations");
        const {columns} = block;
        const {dumps} = commtap.block("page");
        const rows = new Map();
        const awaited = new Map();
        const times = dumps.map((dump, number) => (dump.rank === rank ? commtap.chosenTimes(number) : []));
        columns.track.forEach((track, i) => {
            const {dump, kind} = block.tracks[track];
            const isOwn = dumps[dump].rank === rank && kind !== "network" && kind !== "exposed";
            if (!isOwn || !commtap.isInTimes(times[dump], (block.from_ns + columns.begin_ns[i]) / 1000)) {
                return;
            }
            const key = columns.op[i] + " " + columns.site[i] + " " + kind;
            const row = rows.get(key) || {op: block.names[columns.op[i]], site: block.sites[columns.site[i]], on: kind,
                count: 0, time_us: 0, wait_us: 0, bytes: null};
            row.count++;
            row.time_us += columns.length_ns[i] / 1000;
            row.wait_us += columns.wait_ns[i] / 1000;
            row.bytes = columns.bytes[i] >= 0 ? (row.bytes || 0) + columns.bytes[i] : row.bytes;
            rows.set(key, row);
            if (columns.waited_for[i] >= 0) {
                const late = dumps[columns.waited_for[i]].rank;
                awaited.set(late, (awaited.get(late) || 0) + columns.wait_ns[i] / 1000);
            }
        });
        rows.forEach((row) => { // what is in flight was handed over by a call, which has the bytes, too
            const call = row.on === "in flight" && Array.from(rows.values()).some((one) =>
                one.on !== row.on && one.op === row.op && one.site === row.site && one.bytes !== null);
            row.bytes = call ? null : row.bytes;
        });
        return {rows: Array.from(rows.values()), awaited};
    };

    /* Figures of one kind of links count what those of another count, too, or are estimates: they are never added up. */
    const peerRows = function (rank, awaited) {
        const rows = new Map();
        const rowOf = (peer) => {
            if (!rows.has(peer)) {
                rows.set(peer, {rank: peer, host: commtap.memberOf(peer).host, awaited_us: 0});
            }
            return rows.get(peer);
        };
        const add = function (peer, key, bytes) {
            rowOf(peer)[key] = (rowOf(peer)[key] || 0) + (bytes || 0);
        };
        commtap.block("links").links.forEach((link) => {
            if (link.from === rank) {
                add(link.to, "sent_" + link.kind, link.bytes);
            } else if (link.to === rank) {
                add(link.from, "received_" + link.kind, link.bytes);
            }
        });
        awaited.forEach((us, peer) => {
            rowOf(peer).awaited_us = us;
        });
        return Array.from(rows.values());
    };

    /* Two columns for each kind of links that the rows have, and a sentence on how its figures came about. */
    const drawPeers = function (node, peers) {
        const column = commtap.column;
        const bytes = {text: commtap.format.bytes, heat: true};
        const kinds = Object.keys(commtap.linkOrigins).filter((kind) =>
            peers.some((row) => "sent_" + kind in row || "received_" + kind in row));
        node.append(commtap.element("h3", null, "Its peers"));
        if (commtap.selection.steps && kinds.length > 0) {
            node.append(commtap.element("p", {class: "note"}, "Sent and received: of the whole run."));
        }
        kinds.forEach((kind) => node.append(commtap.element("p", {class: "note"}, kind + ": " + commtap.linkOrigins[kind])));
        new commtap.Table(node,
            [column("rank", "rank", {text: commtap.format.rank}), column("host", "host", {left: true}),
                ...d3.merge(kinds.map((kind) => [column("sent_" + kind, "sent, " + kind, bytes),
                    column("received_" + kind, "received, " + kind, bytes)])),
                column("awaited_us", "waited for it", {heat: true, about: "in the operations above"})],
            {name: "peers-of-rank", sort: "awaited_us", search: (row) => row.rank + " " + row.host}).show(peers);
    };

    const drawOperations = function (node, rank) {
        const column = commtap.column;
        const {rows, awaited} = operationRows(rank);
        const block = commtap.block("operations");
        const steps = commtap.selection.steps;
        node.append(commtap.element("h3", null, "Its operations by call site"), commtap.element("p", {class: "about"},
            (steps ? "in the steps " + commtap.rangesText(steps) + ", of what is held " : "") + "from " +
                commtap.format.nanoseconds(block.from_ns) + " to " + commtap.format.nanoseconds(block.to_ns)));
        new commtap.Table(node,
            [column("op", "operation", {left: true}), column("site", "call site", {left: true}), column("on", "on", {left: true}),
                column("count", "calls"), column("time_us", "time", {heat: true}), column("wait_us", "waited", {heat: true}),
                column("bytes", "bytes", {about: "once: what was in flight has its bytes in the row of its call"})],
            {name: "operations-of-rank", sort: "time_us", search: (row) => row.op + " " + row.site}).show(rows);
        const peers = peerRows(rank, awaited);
        drawPeers(node, peers);
        return rows.length + peers.length;
    };

    /* ---- the view -------------------------------------------------------------------------------- */

    const redraw = function () {
        const member = commtap.memberOf(state.rank);
        const row = commtap.block("report").ranks.find((one) => one.rank === state.rank);
        const holder = commtap.element("div");
        state.field.value = state.rank;
        state.node.replaceChildren(commtap.element("h3", null, "Rank " + commtap.format.rank(state.rank)), holder);
        if (state.unknown !== null) {
            holder.append(commtap.element("p", {class: "wrong", role: "alert"}, "No rank " + state.unknown +
                " is on record; there are " + commtap.format.ranks(Array.from(new Set(ranks()))) + ". This is rank " +
                commtap.format.rank(state.rank) + "."));
        }
        drawFacts(holder, member, row);
        const findings = drawFindings(holder, state.rank);
        drawSteps(holder, stepRows(state.rank));
        const rows = drawOperations(holder, state.rank);
        state.node.dataset.rank = state.rank;
        state.node.dataset.findings = findings;
        state.node.dataset.marks = rows + findings + 1;
    };

    const ranks = () => commtap.block("page").dumps.map((dump) => dump.rank);

    const turn = (by) => () => {
        const all = Array.from(new Set(ranks())).sort((a, b) => a - b);
        const place = Math.max(0, Math.min(all.indexOf(state.rank) + by, all.length - 1));
        commtap.showRank(all[place]);
    };

    const draw = function (node) {
        state.field = commtap.element("input", {
            type: "number",
            min: 0,
            onchange: () => commtap.showRank(Number(state.field.value)),
        });
        state.node = commtap.element("div");
        node.append(
            commtap.element("div", {class: "controls"}, commtap.element("label", {class: "control"}, "Rank ", state.field),
                commtap.button("Previous rank", turn(-1)), commtap.button("Next rank", turn(1))),
            state.node
        );
        if (state.rank === null) {
            const guilty = commtap.block("report").stragglers.find((straggler) => ranks().includes(straggler.rank));
            state.rank = guilty ? guilty.rank : ranks()[0];
        }
        commtap.selection.onChange("rank", redraw, ["rank", "steps", "light"]);
        redraw();
    };

    /* Follows the address; one of a rank that there is not leads here, too, and is told so. */
    const follow = function () {
        const match = /^#rank=(\d+)$/.exec(location.hash);
        if (!match) {
            return;
        }
        const rank = Number(match[1]);
        state.unknown = ranks().includes(rank) ? null : rank;
        state.rank = state.unknown === null ? rank : state.rank;
        commtap.selection.choose({rank: state.rank});
        const section = document.getElementById("rank");
        section.tabIndex = -1;
        section.focus({preventScroll: true}); // the keys go on from there
        section.scrollIntoView();
    };

    commtap.showRank = function (rank) {
        const address = "#rank=" + rank;
        if (location.hash === address) {
            follow();
        } else {
            location.hash = address;
        }
    };

    window.addEventListener("hashchange", follow);
    window.addEventListener("load", follow);

    commtap.addView({
        id: "rank",
        title: "One rank",
        about: "where it ran, what is said of it, its steps, operations and peers; press the number of a rank anywhere",
        draw,
    });
}
