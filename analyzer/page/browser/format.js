// SPDX-License-Identifier: Apache-2.0
//
// Numbers as text, in the units of the commands' tables: powers of 1000 for sizes, as there.
"use strict";

{
    const format = {};
    const RUNS_MOST = 8; // of ranks that one text lists

    const scaled = function (value, units, step) {
        let unit = 0;
        let rest = Math.abs(value);
        while (rest >= step && unit < units.length - 1) {
            rest /= step;
            unit++;
        }
        const digits = unit === 0 && Number.isInteger(rest) ? 0 : rest < 10 ? 2 : rest < 100 ? 1 : 0;
        return (value < 0 ? "-" : "") + rest.toFixed(digits) + " " + units[unit];
    };

    const known = (value) => value !== null && value !== undefined && !Number.isNaN(value);

    /** Each takes null for "not known". */
    format.bytes = (bytes) => (known(bytes) ? scaled(bytes, ["B", "kB", "MB", "GB", "TB", "PB"], 1000) : "-");
    format.seconds = function (seconds) {
        if (!known(seconds)) {
            return "-";
        }
        if (Math.abs(seconds) >= 1) {
            return seconds.toFixed(Math.abs(seconds) < 100 ? 2 : 0) + " s";
        }
        return seconds === 0 ? "0 s" : scaled(seconds * 1e9, ["ns", "us", "ms"], 1000);
    };
    format.microseconds = (us) => format.seconds(known(us) ? us / 1e6 : null);
    format.nanoseconds = (ns) => format.seconds(known(ns) ? ns / 1e9 : null);
    format.bandwidth = (value) => (known(value) ? scaled(value * 1e9, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"], 1000) : "-");
    format.percent = (share) => (known(share) ? (100 * share).toFixed(1) + " %" : "-");
    format.ratio = (value) => (known(value) ? value.toFixed(2) : "-");
    format.count = (value) => (known(value) ? value.toLocaleString("en") : "-");
    format.text = (value) => (known(value) && value !== "" ? String(value) : "-");
    format.rank = (value) => (known(value) && value >= 0 ? String(value) : "unknown");

    // Who a row of page.dumps is: "rank 3", or "rank 0 GPU 2" where a process has several.
    format.member = (dump) =>
        "rank " + format.rank(dump.rank) + (known(dump.gpu) ? " GPU " + dump.gpu : "");

    /** "rank 3", "ranks 0, 2-7", at most a few of many. */
    format.ranks = function (ranks) {
        const sorted = ranks.slice().sort((a, b) => a - b);
        const runs = [];
        sorted.forEach((rank) => {
            const last = runs[runs.length - 1];
            if (last && rank <= last[1] + 1) {
                last[1] = rank;
            } else {
                runs.push([rank, rank]);
            }
        });
        const texts = runs.slice(0, RUNS_MOST).map(([from, to]) => (from === to ? String(from) : from + "-" + to));
        return sorted.length === 0
            ? "no rank"
            : (sorted.length === 1 ? "rank " : "ranks ") + texts.join(", ") +
              (runs.length > RUNS_MOST ? " ... (" + format.count(sorted.length) + ")" : "");
    };

    /** "1 rank", "3 ranks". */
    format.number = (count, word) => format.count(count) + " " + word + (count === 1 ? "" : "s");

    /** One field of a CSV file, kept from being taken for a formula, as the commands do. */
    format.csv = function (value) {
        if (typeof value === "number" && !Number.isNaN(value)) {
            return String(value);
        }
        let text = known(value) ? String(value) : "";
        if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) {
            text = "'" + text;
        }
        return /[",\n\r]/.test(text) ? "\"" + text.replace(/"/g, "\"\"") + "\"" : text;
    };

    commtap.format = format;
}
