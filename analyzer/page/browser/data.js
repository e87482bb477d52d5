// SPDX-License-Identifier: Apache-2.0
//
// The page's blocks of data by name, each read when a view first asks for it, and what they say of single ranks.
// Must not live here: drawing.
"use strict";

const commtap = {views: []};

{
    const blocks = new Map();

    /* A column whose places are all alike is that value alone. */
    const spread = function (block, count) {
        Object.keys(block.columns).forEach((key) => {
            if (!Array.isArray(block.columns[key])) {
                block.columns[key] = new Array(count).fill(block.columns[key]);
            }
        });
    };
    const spreading = {
        steps: (block) => spread(block, block.ranks.length * block.cells),
        operations: (block) => spread(block, block.operations),
        path: (block) => spread(block, block.parts),
    };

    /** The block of that name, null where the page has none. */
    commtap.block = function (name) {
        if (!blocks.has(name)) {
            const element = document.getElementById("data-" + name);
            const block = element ? JSON.parse(element.textContent) : null;
            if (block && spreading[name]) {
                spreading[name](block);
            }
            blocks.set(name, block);
        }
        return blocks.get(name);
    };

    const members = new Map();

    /** Who took part: rank, host and stage (null where it is not known) by the rank's number. */
    commtap.memberOf = function (rank) {
        if (members.size === 0) {
            commtap.block("page").dumps.forEach((dump) => members.set(dump.rank, dump));
        }
        return members.get(rank) || {rank: rank, host: "", stage: null, devices: [], groups: []};
    };

    /** " on node7", empty where the host is not known. */
    commtap.onHost = (dump) => (dump.host ? " on " + dump.host : "");

    /** What views are chosen by: every host, and every stage that is known. */
    commtap.hosts = () =>
        Array.from(new Set(commtap.block("page").dumps.map((dump) => dump.host))).filter((host) => host !== "");
    commtap.stages = () =>
        Array.from(new Set(commtap.block("page").dumps.map((dump) => dump.stage)))
            .filter((stage) => stage !== null)
            .sort((a, b) => a - b);

    /**
     * Draws itself when it is first looked at: {id, title, about, draw(element)}; wholeRun: true where it cannot show
     * chosen steps alone.
     */
    commtap.addView = function (view) {
        commtap.views.push(view);
    };
}
