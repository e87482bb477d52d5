// SPDX-License-Identifier: Apache-2.0
//
// The critical path over the operations of the ranks: what would have made the job shorter had it been faster, from call
// site to call site and from rank to rank.
// Must not live here: the picture that it is drawn on (marey.js).
"use strict";

{
    const NEAR = 5; // of the line, pixels
    const WIDTH = 2; // of the line
    const HALO = 1.5; // on either side, which parts it from what lies below
    const path = {};

    /** Whether the page has any of it. */
    path.isKnown = () => commtap.block("path").parts > 0;

    /* The part that holds a moment, or the next one; ns since the job's start. */
    const firstAt = (columns, at) => {
        const place = d3.bisector((begin) => begin).right(columns.begin_ns, at) - 1;
        return place >= 0 && columns.begin_ns[place] + columns.length_ns[place] > at ? place : place + 1;
    };

    /* Parts that reach into what the picture shows. */
    const shownParts = function (picture) {
        const {columns} = commtap.block("path");
        const [from, to] = picture.x.domain().map((at) => at + picture.index.block.from_ns);
        const parts = [];
        for (let i = firstAt(columns, from); i < columns.begin_ns.length && columns.begin_ns[i] < to; i++) {
            parts.push(i);
        }
        return parts;
    };

    /** Draws it over the rows of ranks; what happens on ranks that are not shown is left out. Returns how many parts. */
    path.draw = function (picture) {
        const {columns} = commtap.block("path");
        const {context, left, rows} = picture;
        const x = (at) => Math.min(Math.max(picture.x(at - picture.index.block.from_ns), left), picture.width);
        const parts = shownParts(picture);
        let last = null;
        let changes = 0;
        context.beginPath();
        parts.forEach((i) => {
            const y = rows.get(columns.dump[i]);
            const end = columns.begin_ns[i] + columns.length_ns[i];
            if (y === undefined) {
                last = null;
                return;
            }
            const follows = last && last.end === columns.begin_ns[i];
            context[follows ? "lineTo" : "moveTo"](x(columns.begin_ns[i]), y);
            context.lineTo(x(end), y);
            changes += last !== null && last.y !== y;
            last = {end, y};
        });
        context.lineJoin = "round";
        // with its halo it takes half of the room at most, without a quarter: what lies below is still seen
        const room = (picture.width - left) / (changes + 1); // pixels from one rank to the next
        if (room >= 2 * (WIDTH + 2 * HALO)) {
            context.strokeStyle = commtap.color("paper");
            context.lineWidth = WIDTH + 2 * HALO;
            context.stroke();
        }
        context.strokeStyle = commtap.color("ink");
        context.lineWidth = Math.max(0.5, Math.min(WIDTH, room / 4));
        context.stroke();
        return parts.length;
    };

    /** What it says of a place of the picture, in lines; none where it does not run. */
    path.tell = function (picture, px, py) {
        const {columns, names, sites} = commtap.block("path");
        const at = picture.x.invert(px) + picture.index.block.from_ns;
        const i = firstAt(columns, at);
        const y = i < columns.begin_ns.length && columns.begin_ns[i] <= at ? picture.rows.get(columns.dump[i]) : undefined;
        if (y === undefined || Math.abs(py - y) > NEAR) {
            return [];
        }
        const length = commtap.format.nanoseconds(columns.length_ns[i]);
        const where = names[columns.op[i]] + " at " + sites[columns.site[i]];
        return ["critical path: " + length + (columns.inside[i] ? " in " : " of own work before ") + where];
    };

    /* Call sites along what is shown, each over all ranks. */
    const rowsOf = function (picture) {
        const {columns, names, sites} = commtap.block("path");
        const [from, to] = picture.x.domain().map((at) => at + picture.index.block.from_ns);
        const rows = new Map();
        shownParts(picture).forEach((i) => {
            const key = columns.op[i] + " " + columns.site[i];
            if (!rows.has(key)) {
                rows.set(key, {site: sites[columns.site[i]], op: names[columns.op[i]], call_us: 0, work_us: 0, ranks: new Set()});
            }
            const row = rows.get(key);
            const begin = Math.max(columns.begin_ns[i], from);
            const end = Math.min(columns.begin_ns[i] + columns.length_ns[i], to);
            row[columns.inside[i] ? "call_us" : "work_us"] += (end - begin) / 1000;
            row.ranks.add(commtap.block("page").dumps[columns.dump[i]].rank);
        });
        return Array.from(rows.values(), (row) =>
            Object.assign(row, {path_us: row.call_us + row.work_us, on: commtap.format.ranks(Array.from(row.ranks))}));
    };

    /** A table of the call sites along it; its show(picture) follows what is looked at. */
    path.table = function (node) {
        const column = commtap.column;
        node.append(commtap.element("h3", null, "Call sites along the critical path"),
            commtap.element("p", {class: "about"}, "of the time that is looked at, all ranks"));
        const table = new commtap.Table(
            node,
            [column("site", "call site", {left: true}), column("op", "function", {left: true}),
                column("path_us", "on the path", {heat: true}),
                column("work_us", "own work before", {about: "that leads to the call"}),
                column("call_us", "in the call"), column("on", "on", {left: true})],
            {name: "critical-path", sort: "path_us", search: (row) => row.site + " " + row.op}
        );
        return {show: (picture) => table.show(rowsOf(picture))};
    };

    commtap.path = path;
}
