// SPDX-License-Identifier: Apache-2.0
//
// Where in the program communication comes from: the call tree, level by level, with counts, bytes and times of every
// frame and of every operation below it, as quiet or as noisy as commtap calls.
"use strict";

{
    const OPEN_SHARE = 0.1; // of the whole: what is open at first
    const ROWS_MOST = 400; // on the screen
    const RECORDS_MOST = 40; // of one frame
    const state = {level: 0, words: "", toggled: new Map(), matches: null, body: null};
    const levels = [
        [0, "0: counts"],
        [1, "1: types, communicators and sizes"],
        [2, "2: every frame"],
        [3, "3: every record"],
    ];
    const columns = [
        ["count", "calls", (sums) => commtap.format.count(sums.count)],
        ["bytes", "bytes", (sums) => commtap.format.bytes(sums.bytes)],
        ["time_us", "time inside", (sums) => commtap.format.microseconds(sums.time_us)],
        ["wait_us", "waiting", (sums) => commtap.format.microseconds(sums.wait_us)],
        ["in_flight_us", "in flight", (sums) => commtap.format.microseconds(sums.in_flight_us)],
        ["gpu_time_us", "on GPUs", (sums) => commtap.format.microseconds(sums.gpu_time_us)],
    ];

    const tree = () => commtap.block(state.level < 2 ? "calls" : "frames");

    /** What a frame is called, with its place in the source where that is known. */
    commtap.frameName = (node) => node.name + (node.file ? " (" + node.file + (node.line ? ":" + node.line : "") + ")" : "");

    /** What frames and operations weigh: time of operations on GPUs where it is known, else inside calls. */
    commtap.callTime = (sums) => sums.gpu_time_us || sums.time_us || 0;

    /* ---- what is open and found ------------------------------------------------------------------ */

    const isMatch = (node, words) =>
        commtap.frameName(node).toLowerCase().includes(words) ||
        (node.calls || []).some((call) => call.op.toLowerCase().includes(words));

    /* Frames that match, and those that lead to one. */
    const findMatches = function (root, words) {
        const found = {own: new Set(), leading: new Set()};
        const visit = function (node) {
            const own = isMatch(node, words);
            const below = (node.children || []).map(visit).some((is) => is);
            if (own) {
                found.own.add(node);
            }
            if (below) {
                found.leading.add(node);
            }
            return own || below;
        };
        visit(root);
        return found;
    };

    const isOpen = function (node, root) {
        if (state.toggled.has(node)) {
            return state.toggled.get(node);
        }
        if (state.matches) {
            return state.matches.leading.has(node);
        }
        const whole = commtap.callTime(root);
        return node === root || (whole > 0 && commtap.callTime(node) / whole >= OPEN_SHARE);
    };

    /* ---- rows ------------------------------------------------------------------------------------ */

    const rowsOfCall = function (call, depth) {
        const format = commtap.format;
        const tell = (size) =>
            format.bytes(size.bytes) + (size.datatype ? " " + size.datatype : "") + " x " + format.count(size.count);
        const sizes = call.sizes.map(tell).join(", ");
        const where = call.comm ? " on " + (call.comm_name || call.comm) + (call.comm_size ? " of " + call.comm_size : "") : "";
        return {kind: "detail", depth, text: call.op + where + (sizes ? ": " + sizes : ""), sums: call};
    };

    const rowsOfRecords = function (node, depth) {
        const format = commtap.format;
        const rows = node.records.slice(0, RECORDS_MOST).map((record) => ({
            kind: "detail",
            depth,
            text: record.op + (record.seq !== null ? " #" + record.seq : "") + ", rank " + format.rank(record.rank) + ", " +
                new Date(record.realtime_ns / 1e6).toISOString() + (record.kind === "call" ? "" : ", " + record.kind),
            sums: {bytes: record.bytes, time_us: record.time_us},
        }));
        if (node.records.length > RECORDS_MOST) {
            const more = format.number(node.records.length - RECORDS_MOST, "record");
            rows.push({kind: "detail", depth, text: "and " + more, sums: {}});
        }
        return rows;
    };

    const rowsBelow = function (node, depth) {
        const types = (sums) => Object.keys(sums.datatypes || {}).map((type) => type + " x " + sums.datatypes[type]).join(", ");
        const ops = Object.keys(node.ops).map((op) => {
            const told = state.level > 0 ? types(node.ops[op]) : "";
            return {kind: "op", depth, text: op + (told ? " (" + told + ")" : ""), sums: node.ops[op]};
        });
        const calls = state.level > 0 ? (node.calls || []).map((call) => rowsOfCall(call, depth + 1)) : [];
        const records = state.level > 2 && node.records ? rowsOfRecords(node, depth + 1) : [];
        return ops.concat(calls, records);
    };

    const listRows = function (root) {
        const rows = [];
        const visit = function (node, depth) {
            if (state.matches && !state.matches.own.has(node) && !state.matches.leading.has(node)) {
                return;
            }
            const open = isOpen(node, root);
            rows.push({kind: "frame", depth, node, open, text: commtap.frameName(node), sums: node});
            if (open && rows.length <= ROWS_MOST) {
                rows.push(...rowsBelow(node, depth + 1));
                (node.children || [])
                    .slice()
                    .sort((a, b) => commtap.callTime(b) - commtap.callTime(a))
                    .forEach((child) => visit(child, depth + 1));
            }
        };
        visit(root, 0);
        return rows;
    };

    /* ---- drawing --------------------------------------------------------------------------------- */

    const nameCell = function (row) {
        const cell = commtap.element("td", {class: "left " + row.kind, title: row.text});
        cell.style.paddingLeft = 10 + 18 * row.depth + "px";
        if (row.kind !== "frame") {
            cell.append(row.text);
            return cell;
        }
        const button = commtap.button((row.open ? "\u25be " : "\u25b8 ") + row.text, () => {
            state.toggled.set(row.node, !row.open);
            redraw(row.node);
        });
        button.setAttribute("aria-expanded", row.open);
        cell.append(button);
        return cell;
    };

    const shownColumns = (root) => columns.filter(([key]) => root[key] > 0 || key === "count");

    const redraw = function (focused) {
        const root = tree().root;
        state.matches = state.words ? findMatches(root, state.words) : null;
        const rows = listRows(root);
        const shown = shownColumns(root);
        let focus = null;
        const head = ["frame, operations below it"].concat(shown.map(([, title]) => title));
        state.head.replaceChildren(
            ...head.map((title, n) => commtap.element("th", {scope: "col", class: n === 0 ? "left" : null}, title))
        );
        state.body.replaceChildren(
            ...rows.slice(0, ROWS_MOST).map((row) => {
                const name = nameCell(row);
                if (focused && row.node === focused) {
                    focus = name.firstChild;
                }
                const found = state.matches && row.kind === "frame" && state.matches.own.has(row.node);
                const cells = shown.map(([key, , text]) => (row.sums[key] === undefined ? "" : text(row.sums)));
                return commtap.element("tr", {class: found ? "found" : null}, name,
                    ...cells.map((text) => commtap.element("td", null, text)));
            })
        );
        if (focus) {
            focus.focus();
        }
        state.count.textContent = (state.matches ? commtap.format.number(state.matches.own.size, "frame") + " found. " : "") +
            (rows.length > ROWS_MOST ? "The first " + ROWS_MOST + " rows are shown: close frames, or search." : "");
        state.node.dataset.marks = rows.filter((row) => row.kind === "frame").length;
    };

    const controls = function () {
        const most = commtap.block("frames").noise;
        const search = commtap.element("input", {
            type: "search",
            "aria-label": "search in the call tree",
            placeholder: "search",
            oninput: () => {
                state.words = search.value.toLowerCase();
                state.toggled.clear();
                redraw();
            },
        });
        const level = commtap.choice("Noise", levels.filter(([noise]) => noise <= most), 0, (value) => {
            state.level = Number(value);
            state.toggled.clear();
            redraw();
        });
        state.count = commtap.element("span", {class: "count", role: "status"});
        return commtap.element("div", {class: "controls"}, search, level, state.count,
            most < 3 ? commtap.element("span", {class: "note"}, "commtap calls --noise 3 has every record") : null);
    };

    const draw = function (node) {
        const {root} = commtap.block("calls");
        state.node = node;
        if (!root || !root.count) {
            commtap.empty(node, "No call is in the tables of call sites.");
            node.dataset.marks = 0;
            return;
        }
        state.head = commtap.element("tr");
        state.body = commtap.element("tbody");
        node.append(
            controls(),
            commtap.element("div", {class: "scroll"},
                commtap.element("table", {class: "calls"}, commtap.element("thead", null, state.head), state.body))
        );
        commtap.notePostedSizes(node);
        redraw();
    };

    commtap.addView({
        id: "calls",
        title: "Call tree",
        about: "which lines of the program communicate; figures include those of the frames below",
        wholeRun: true,
        draw,
    });
}
