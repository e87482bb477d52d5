// SPDX-License-Identifier: Apache-2.0
//
// Pictures on a canvas by keyboard: arrow keys move a frame from row to row and from place to place, what lies there is
// read out, Enter opens the page of its rank.
// Must not live here: what a picture shows.
"use strict";

{
    const HELP = "Arrow keys move from place to place, Enter opens the page of the rank that is framed.";

    const show = function (walker) {
        const {at, walk, frame, said} = walker;
        const box = walk.box(at.row, at.place);
        Object.keys(box).forEach((key) => {
            frame.style.setProperty(key, box[key] + "px");
        });
        frame.hidden = false;
        said.textContent = walk.tell(at.row, at.place).join("; ");
    };

    const goTo = function (walker, row) {
        const {at, walk} = walker;
        at.row = Math.max(0, Math.min(row, walk.rows - 1));
        at.place = walk.first(at.row, at.place);
        show(walker);
    };

    const goAlong = function (walker, by) {
        const {at, walk} = walker;
        at.place = at.place === null ? null : walk.next(at.row, at.place, by);
        show(walker);
    };

    const keys = {
        ArrowDown: (walker) => goTo(walker, walker.at.row + 1),
        ArrowUp: (walker) => goTo(walker, walker.at.row - 1),
        ArrowRight: (walker) => goAlong(walker, 1),
        ArrowLeft: (walker) => goAlong(walker, -1),
        PageDown: (walker) => goTo(walker, walker.at.row + 10),
        PageUp: (walker) => goTo(walker, walker.at.row - 10),
        Enter: (walker) => commtap.showRank(walker.walk.rank(walker.at.row, walker.at.place)),
    };

    /**
     * Lets a picture of rows be walked through; `holder` is as large as its canvas, `node` takes what is read out.
     * walk: rows (how many); first(row, near) the place of a row that is nearest to one of another row (null: its first),
     * null where it has none; next(row, place, by); tell(row, place) lines; box(row, place) {left, top, width, height};
     * rank(row, place). Where the picture has them: keys, further ones with what they do, at(row, place); help, what is
     * said of these; at, where to begin.
     */
    commtap.walkable = function (holder, node, walk) {
        const canvas = holder.querySelector("canvas");
        const walker = {
            walk,
            at: walk.at || {row: 0, place: null},
            frame: commtap.element("div", {class: "frame", hidden: ""}),
            said: commtap.element("p", {class: "note said", role: "status"}),
        };
        holder.classList.add("layers");
        holder.append(walker.frame);
        node.append(walker.said);
        canvas.tabIndex = 0;
        canvas.setAttribute("role", "application"); // screen readers hand arrow keys on to it
        canvas.setAttribute("aria-label", canvas.getAttribute("aria-label") + ". " + HELP + (walk.help || ""));
        canvas.addEventListener("focus", () => {
            if (canvas.matches(":focus-visible")) {
                goTo(walker, walker.at.row);
            }
        });
        canvas.addEventListener("blur", () => {
            walker.frame.hidden = true;
            walker.said.textContent = "";
        });
        canvas.addEventListener("keydown", (event) => {
            const further = walk.keys && walk.keys[event.key];
            if (keys[event.key] || further) {
                event.preventDefault();
            }
            if (keys[event.key]) {
                keys[event.key](walker);
            } else if (further) {
                further(walker.at.row, walker.at.place);
            }
        });
    };
}
