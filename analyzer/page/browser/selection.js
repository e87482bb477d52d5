// SPDX-License-Identifier: Apache-2.0
//
// What of the job all views show: steps, ranks, a host, a stage. Whoever changes it tells everybody.
"use strict";

{
    const listeners = new Map();
    const postponed = new Map();
    const chosen = {steps: null, ranks: null, host: null, stage: null};

    const tell = function (name, callback) {
        const section = document.querySelector("section#" + name);
        if (section && section.dataset.seen === "no") {
            postponed.set(name, callback);
            section.dataset.drawn = "no";
        } else {
            callback();
        }
    };

    const selection = {
        /** Steps and ranks as ranges [first, last], both included, in order; a name, a number; null: all. */
        get steps() {
            return chosen.steps;
        },
        get ranks() {
            return chosen.ranks;
        },
        get host() {
            return chosen.host;
        },
        get stage() {
            return chosen.stage;
        },

        /** Takes what is given, leaves the rest, and tells everybody whom it concerns. */
        choose(change) {
            Object.assign(chosen, change);
            listeners.forEach((listener, name) => {
                if (!listener.keys || listener.keys.some((key) => key in change)) {
                    tell(name, listener.callback);
                }
            });
        },

        clear() {
            selection.choose({steps: null, ranks: null, host: null, stage: null});
        },

        /** Everybody draws anew, as pictures must where there is more or less room for them. */
        redraw() {
            listeners.forEach((listener, name) => tell(name, listener.callback));
        },

        isLimited: () => ["steps", "ranks", "host", "stage"].some((key) => chosen[key] !== null),

        hasStep: (step) => commtap.isInRanges(chosen.steps, step),

        hasRank(rank) {
            const member = commtap.memberOf(rank);
            return (
                commtap.isInRanges(chosen.ranks, rank) &&
                (chosen.host === null || member.host === chosen.host) &&
                (chosen.stage === null || member.stage === chosen.stage)
            );
        },

        /**
         * Calls back after every change of these keys (none given: of any); one listener per name. A view's name is its
         * id: it is told once it is seen.
         */
        onChange(name, callback, keys) {
            listeners.set(name, {callback, keys});
        },

        /** A view is seen, or no longer. */
        setSeen(section, isSeen) {
            section.dataset.seen = isSeen ? "yes" : "no";
            if (isSeen && postponed.has(section.id)) {
                const callback = postponed.get(section.id);
                postponed.delete(section.id);
                callback();
                section.dataset.drawn = "yes";
            }
        },
    };

    commtap.selection = selection;

    /** Ranges of the numbers, those that follow each other as one; of none null. */
    commtap.rangesOf = function (numbers) {
        const ranges = [];
        Array.from(numbers)
            .sort((a, b) => a - b)
            .forEach((number) => {
                const last = ranges[ranges.length - 1];
                if (last && number <= last[1] + 1) {
                    last[1] = number;
                } else {
                    ranges.push([number, number]);
                }
            });
        return ranges.length > 0 ? ranges : null;
    };

    commtap.isInRanges = (ranges, number) => !ranges || ranges.some(([first, last]) => number >= first && number <= last);

    const WANTED = "wanted: numbers, or two with a dash between them, with commas between these, as 0-3,8";

    /** "3", "3-7" or "0-3,8" as {ranges: [[first, last], ...]}, "" as {ranges: null}; of anything else {wrong: why}. */
    commtap.parseRanges = function (text) {
        const ranges = [];
        for (const part of text.trim() === "" ? [] : text.split(",")) {
            const match = /^\s*(\d+)\s*(?:-\s*(\d+)\s*)?$/.exec(part);
            if (!match) {
                return {wrong: WANTED};
            }
            const [first, last] = [Number(match[1]), Number(match[2] || match[1])];
            if (first > last) {
                return {wrong: "wanted: the smaller number first, as " + last + "-" + first};
            }
            ranges.push([first, last]);
        }
        return {ranges: ranges.length > 0 ? ranges.sort((a, b) => a[0] - b[0]) : null};
    };

    commtap.rangesText = (ranges) =>
        (ranges || []).map(([first, last]) => (first === last ? String(first) : first + "-" + last)).join(",");
}
