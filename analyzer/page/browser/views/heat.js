// SPDX-License-Identifier: Apache-2.0
//
// Rank by time: where ranks waited, and where they did work of their own.
"use strict";

{
    const LEFT = 112;
    const HOST = 56; // of it, for the names of hosts
    const BOTTOM = 28;
    const ROWS_MOST = 640; // pixels

    const shares = {
        waited: {name: "waiting", of: (heat, at) => heat.waited_percent[at]},
        own: {name: "own work (outside of communication)", of: (heat, at) => 100 - heat.communicated_percent[at]},
        communicated: {name: "communication, waiting included", of: (heat, at) => heat.communicated_percent[at]},
    };
    const state = {share: "waited", node: null, veil: null};

    /* Dumps in the order of hosts, so that a slow host is one band. */
    const chosenRows = function () {
        const dumps = commtap.block("page").dumps.map((dump, index) => ({dump, index}));
        const hosts = new Map(commtap.hosts().map((host, index) => [host, index]));
        return dumps
            .filter((item) => commtap.selection.hasRank(item.dump.rank))
            .sort((a, b) => (hosts.get(a.dump.host) || 0) - (hosts.get(b.dump.host) || 0) || a.index - b.index);
    };

    const paint = function (heat, rows, share) {
        const small = document.createElement("canvas");
        small.width = heat.intervals;
        small.height = rows.length;
        const context = small.getContext("2d");
        const image = context.createImageData(heat.intervals, rows.length);
        const pixels = new DataView(image.data.buffer);
        const palette = d3.range(101).map((percent) => {
            const color = d3.rgb(d3.interpolateCividis(percent / 100));
            return ((color.r << 24) | (color.g << 16) | (color.b << 8) | 255) >>> 0;
        });
        rows.forEach((row, y) => {
            for (let i = 0; i < heat.intervals; i++) {
                pixels.setUint32(4 * (y * heat.intervals + i), palette[share.of(heat, row.index * heat.intervals + i)]);
            }
        });
        context.putImageData(image, 0, 0);
        return small;
    };

    const labelRows = function (context, rows, height) {
        const each = height / rows.length;
        const every = Math.max(1, Math.ceil(12 / each));
        context.fillStyle = commtap.color("ink");
        context.font = "11px sans-serif";
        context.textAlign = "right";
        context.textBaseline = "middle";
        rows.forEach((row, y) => {
            if (y % every === 0) {
                context.fillText(commtap.format.member(row.dump), LEFT - 6, Math.max((y + 0.5) * each, 6));
            }
        });
        labelHosts(context, rows, each);
    };

    /* Left of the ranks: where each host begins, and its name where there is room. */
    const labelHosts = function (context, rows, each) {
        const first = rows.map((row, y) => y).filter((y) => y === 0 || rows[y - 1].dump.host !== rows[y].dump.host);
        context.textAlign = "left";
        first.forEach((y, n) => {
            const end = n + 1 < first.length ? first[n + 1] : rows.length;
            const {host} = rows[y].dump;
            if (n > 0) {
                context.fillRect(0, Math.round(y * each) - 1, HOST, 1);
            }
            if (first.length > 1 && (end - y) * each > 12) {
                context.fillText(host.length > 8 ? host.slice(0, 7) + "\u2026" : host, 0, ((y + end) / 2) * each);
            }
        });
    };

    const labelTime = function (context, x, width, height) {
        context.textAlign = "center";
        context.textBaseline = "top";
        x.ticks(8).forEach((tick) => {
            context.fillRect(x(tick), height, 1, 5);
            context.fillText(commtap.format.seconds(tick), Math.min(x(tick), width - 20), height + 8);
        });
    };

    const tellCell = (picture, row, interval) => [
        commtap.format.member(row.dump) + commtap.onHost(row.dump),
        "from " + commtap.format.microseconds((interval * picture.heat.span_us) / picture.heat.intervals),
        picture.share.name + ": " + picture.share.of(picture.heat, row.index * picture.heat.intervals + interval) + " %",
    ];

    const addPointing = function (picture) {
        const {heat, rows, width, height, canvas} = picture;
        const at = function (event) {
            const interval = Math.floor(((event.offsetX - LEFT) / (width - LEFT)) * heat.intervals);
            const row = rows[Math.floor((event.offsetY / height) * rows.length)];
            return row ? {row, interval: interval < heat.intervals ? interval : -1} : null;
        };
        canvas.addEventListener("mousemove", (event) => {
            const cell = at(event);
            commtap.showBeside(event, cell && cell.interval >= 0 ? tellCell(picture, cell.row, cell.interval) : null);
        });
        canvas.addEventListener("mouseleave", (event) => commtap.showBeside(event, null));
        canvas.addEventListener("click", (event) => {
            const cell = at(event);
            if (cell && event.offsetX < LEFT) {
                commtap.showRank(cell.row.dump.rank);
            } else if (cell) {
                commtap.selection.choose({ranks: commtap.rangesOf([cell.row.dump.rank])});
            }
        });
    };

    const addWalk = function (picture, holder) {
        const {heat, rows, width, height} = picture;
        const [wide, high] = [(width - LEFT) / heat.intervals, height / rows.length];
        commtap.walkable(holder, state.node, {
            rows: rows.length,
            first: (row, near) => near || 0,
            next: (row, interval, by) => Math.max(0, Math.min(interval + by, heat.intervals - 1)),
            tell: (row, interval) => tellCell(picture, rows[row], interval),
            box: (row, interval) => ({left: LEFT + interval * wide, top: row * high, width: wide, height: high}),
            rank: (row) => rows[row].dump.rank,
        });
    };

    const redraw = function () {
        const heat = commtap.block("heat");
        const rows = chosenRows();
        state.node.replaceChildren();
        state.veil = null;
        state.node.dataset.marks = rows.length * heat.intervals;
        if (rows.length === 0) {
            commtap.empty(state.node, "None of the ranks that are chosen has records.");
            return;
        }
        const share = shares[state.share];
        const width = commtap.widthOf(state.node);
        const height = Math.min(ROWS_MOST, Math.max(rows.length * 14, 60));
        const {canvas, context} = commtap.canvas(width, height + BOTTOM, share.name + " of " + rows.length + " ranks over time");
        context.imageSmoothingEnabled = rows.length > height;
        context.drawImage(paint(heat, rows, share), LEFT, 0, width - LEFT, height);
        labelRows(context, rows, height);
        const x = d3.scaleLinear().domain([0, heat.span_us / 1e6]).range([LEFT, width]);
        labelTime(context, x, width, height);
        const holder = commtap.element("div", null, canvas);
        const picture = {heat, rows, share, width, height, canvas};
        state.node.append(holder);
        addPointing(picture);
        addWalk(picture, holder);
        state.veil = () => commtap.veilOthers(holder, x, height);
        state.veil();
    };

    const draw = function (node) {
        const choices = Object.keys(shares).map((key) => [key, shares[key].name]);
        node.append(
            commtap.choice("Share of time in", choices, state.share, (value) => {
                state.share = value;
                redraw();
            }),
            commtap.element("span", {class: "ramp", "aria-hidden": "true"}),
            commtap.element("span", {class: "note"}, " 0 to 100 %, dark to bright; ranks by host")
        );
        commtap.noteOpenCalls(node);
        state.node = commtap.element("div");
        node.append(state.node);
        commtap.selection.onChange("heat", redraw, ["ranks", "host", "stage", "light"]);
        commtap.selection.onChange("heat-veil", () => state.veil && state.veil(), ["steps"]);
        redraw();
    };

    commtap.addView({
        id: "heat",
        title: "Ranks over time",
        about: "a row per rank, hosts together; press a row to see it alone everywhere, its name for its own page",
        draw,
    });
}
