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
        /** [first, last] step or rank, both included, a name, a number; null: all. */
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

        hasStep: (step) => !chosen.steps || (step >= chosen.steps[0] && step <= chosen.steps[1]),

        hasRank(rank) {
            const member = commtap.memberOf(rank);
            return (
                (!chosen.ranks || (rank >= chosen.ranks[0] && rank <= chosen.ranks[1])) &&
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

    /** "3" or "3-7" as {range: [first, last]}, "" as {range: null}; of anything else {wrong: why}. */
    commtap.parseRange = function (text) {
        const match = /^\s*(\d+)\s*(?:-\s*(\d+)\s*)?$/.exec(text);
        if (!match) {
            return text.trim() === "" ? {range: null} : {wrong: "wanted: one number, or two with a dash between them, as 3-7"};
        }
        const [first, last] = [Number(match[1]), Number(match[2] || match[1])];
        return first <= last ? {range: [first, last]} : {wrong: "wanted: the smaller number first, as " + last + "-" + first};
    };

    commtap.rangeText = (range) => (range ? (range[0] === range[1] ? String(range[0]) : range[0] + "-" + range[1]) : "");
}
