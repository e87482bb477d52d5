// SPDX-License-Identifier: Apache-2.0
//
// A table that sorts, searches, filters, pages and saves itself as CSV, of a hundred thousand rows as fast as of ten.
"use strict";

{
    const PAGE_ROWS = 50;

    const isText = (column) => column.left === true;

    /* The colour behind a cell: its place between the column's least and most. None where both read alike. */
    const heatColor = function (column, rows) {
        let least = Infinity;
        let most = -Infinity;
        for (let i = 0; i < rows.length; i++) {
            const value = column.value(rows[i]);
            if (value !== null) {
                least = value < least ? value : least;
                most = value > most ? value : most;
            }
        }
        const alike = !(most > least) || column.text(least) === column.text(most);
        return (value) => (value === null || alike ? null : ((value - least) / (most - least)).toFixed(3));
    };

    /* A control that limits a column to one of its texts. */
    const textFilter = function (column, changed) {
        const filter = {column, passes: null};
        const take = function (text) {
            filter.passes = text === "" ? null : (value) => value === text;
        };
        filter.control = commtap.choice(column.title, [["", "all"]], "", (text) => {
            take(text);
            changed();
        });
        const select = filter.control.querySelector("select");
        filter.offer = function (rows) {
            const texts = Array.from(new Set(rows.map(column.value))).filter((text) => text).sort();
            const chosen = texts.includes(select.value) ? select.value : "";
            const options = [["", "all"]].concat(texts.map((text) => [text, text]));
            select.replaceChildren(...options.map(([value, text]) => commtap.element("option", {value}, text)));
            select.value = chosen;
            take(chosen);
        };
        return filter;
    };

    /* One that limits it to ranges of numbers. */
    const rangeFilter = function (column, changed) {
        const filter = {column, passes: null, offer: () => null};
        filter.control = commtap.rangeField(column.title, (ranges) => {
            filter.passes = ranges ? (value) => value !== null && commtap.isInRanges(ranges, value) : null;
            changed();
        });
        return filter;
    };

    /* The number of a rank leads to its page, and presses nothing else. */
    const textOf = function (column, value, row) {
        const text = (column.atMost && column.atMost(row) && value !== null ? "\u2264 " : "") + column.text(value);
        return column.text === commtap.format.rank && value >= 0 && value !== null
            ? commtap.element("a", {href: "#rank=" + value, onclick: (event) => event.stopPropagation()}, text)
            : text;
    };

    class Table {
        /**
         * columns: [{key, title, about, value(row), text(value), left, heat, atMost(row)}]; rows: any objects; atMost: whether
         * the value is a bound of what is not known.
         * options: name (of the CSV file and of the search field), search(row) text to look in, press(row), sort (key),
         * filters (keys of columns that have a control of their own).
         */
        constructor(node, columns, options) {
            this.columns = columns;
            this.options = options;
            this.rows = [];
            this.page = 0;
            this.sort = {column: columns.find((column) => column.key === options.sort) || null, up: false};
            this.words = "";
            this.search = commtap.element("input", {
                type: "search",
                "aria-label": "search in " + options.name,
                placeholder: "search",
                oninput: () => {
                    this.words = this.search.value.toLowerCase();
                    this.page = 0;
                    this.draw();
                },
            });
            this.filters = (options.filters || []).map((key) => {
                const column = columns.find((one) => one.key === key);
                return (isText(column) ? textFilter : rangeFilter)(column, () => this.turn(-this.page));
            });
            this.count = commtap.element("span", {class: "count", role: "status"});
            this.before = commtap.button("Previous", () => this.turn(-1));
            this.after = commtap.button("Next", () => this.turn(1));
            this.head = commtap.element("tr");
            this.body = commtap.element("tbody");
            const csv = commtap.button("Save CSV", () => this.save());
            csv.classList.add("csv");
            node.append(
                commtap.element("div", {class: "controls of-table"}, this.search, ...this.filters.map((filter) => filter.control),
                    csv, this.before, this.after, this.count),
                commtap.element(
                    "div",
                    {class: "scroll"},
                    commtap.element("table", null, commtap.element("thead", null, this.head), this.body)
                )
            );
            this.drawHead();
        }

        show(rows) {
            this.rows = rows;
            this.page = 0;
            this.orders = new Map();
            this.texts = null;
            this.colors = new Map(
                this.columns.filter((column) => column.heat).map((column) => [column, heatColor(column, rows)])
            );
            this.filters.forEach((filter) => filter.offer(rows));
            this.draw();
        }

        turn(by) {
            this.page += by;
            this.draw();
        }

        sortBy(column) {
            this.sort = {column, up: this.sort.column === column && !this.sort.up};
            this.page = 0;
            this.drawHead();
            this.draw();
        }

        drawHead() {
            this.head.replaceChildren(
                ...this.columns.map((column) => {
                    const sorted = this.sort.column === column;
                    const up = this.sort.up !== isText(column);
                    const button = commtap.button(column.title, () => this.sortBy(column));
                    button.title = column.about || column.title;
                    button.dataset.key = column.key;
                    return commtap.element(
                        "th",
                        {
                            scope: "col",
                            class: isText(column) ? "left" : null,
                            "aria-sort": sorted ? (up ? "ascending" : "descending") : "none",
                        },
                        button
                    );
                })
            );
        }

        /* Places of all rows in order, numbers largest first, as the commands sort, unless turned round. */
        order() {
            const {column, up} = this.sort;
            const descending = up === isText(column);
            const name = column.key + descending;
            if (!this.orders.has(name)) {
                this.orders.set(name, commtap.orderOf(this.rows.map(column.value), descending));
            }
            return this.orders.get(name);
        }

        /* Whether a row passes search and filters, by its place. */
        chooser() {
            const {rows, words} = this;
            const filters = this.filters.filter((filter) => filter.passes);
            if (words && !this.texts) {
                this.texts = rows.map((row) => this.options.search(row).toLowerCase());
            }
            return (place) =>
                (!words || this.texts[place].includes(words)) &&
                filters.every((filter) => filter.passes(filter.column.value(rows[place])));
        }

        /** The rows that pass search and filters, in order. */
        chosen() {
            const places = this.sort.column ? this.order() : Array.from(this.rows.keys());
            return places.filter(this.chooser()).map((place) => this.rows[place]);
        }

        draw() {
            const rows = this.chosen();
            const pages = Math.max(1, Math.ceil(rows.length / PAGE_ROWS));
            this.page = Math.min(Math.max(this.page, 0), pages - 1);
            const first = this.page * PAGE_ROWS;
            const shown = rows.slice(first, first + PAGE_ROWS);
            this.before.disabled = this.page === 0;
            this.after.disabled = this.page === pages - 1;
            this.count.textContent =
                rows.length === 0
                    ? "no rows"
                    : commtap.format.count(first + 1) + " to " + commtap.format.count(first + shown.length) + " of " +
                      commtap.format.number(rows.length, "row");
            this.count.dataset.rows = rows.length;
            this.body.replaceChildren(...shown.map((row) => this.rowOf(row)));
        }

        rowOf(row) {
            const line = commtap.element("tr");
            this.columns.forEach((column) => {
                const value = column.value(row);
                const cell = commtap.element("td", {class: isText(column) ? "left" : null}, textOf(column, value, row));
                const place = column.heat ? this.colors.get(column)(value) : null;
                if (place !== null) {
                    cell.classList.add("heat");
                    cell.style.setProperty("--heat", place);
                }
                line.append(cell);
            });
            if (this.options.press) {
                line.tabIndex = 0;
                line.classList.add("pressable");
                line.addEventListener("click", () => this.options.press(row));
                line.addEventListener("keydown", (event) => {
                    if (event.key === "Enter") {
                        this.options.press(row);
                    }
                });
            }
            return line;
        }

        /** Every chosen row, raw values under the commands' keys. */
        csv() {
            const lines = [this.columns.map((column) => column.key).join(",")];
            this.chosen().forEach((row) => {
                lines.push(this.columns.map((column) => commtap.format.csv(column.value(row))).join(","));
            });
            return lines.join("\n") + "\n";
        }

        save() {
            commtap.save(this.options.name + ".csv", "text/csv", this.csv());
        }
    }

    commtap.Table = Table;

    const words = {bytes: "bytes", us: "microseconds", seconds: "seconds", gb_per_s: "bandwidth", share: "percent"};

    /** A column of a command's row: how it looks is told by the key's unit. */
    commtap.column = function (key, title, more) {
        const unit = Object.keys(words).find((ending) => key === ending || key.endsWith("_" + ending));
        const given = more || {};
        const format = given.left ? commtap.format.text : commtap.format[unit ? words[unit] : "count"];
        return Object.assign({key, title, value: (row) => (row[key] === undefined ? null : row[key]), text: format}, given);
    };
}
