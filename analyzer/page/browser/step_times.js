// SPDX-License-Identifier: Apache-2.0
//
// Steps as times and on axes: when the chosen ones ran, what of a picture lies outside of them, the axis that counts them.
// Must not live here: which steps are chosen (selection.js), figures of steps (views/steps.js).
"use strict";

{
    /* Beginnings are whole microseconds, and a step begins with an operation: rounding must not part the two. */
    const ROUNDING_US = 0.5;

    /* Where a rank's cell ends: where its next one begins, or after as many steps as it holds. */
    const endOf = function (steps, r, cell) {
        const {start_us: starts, step_us: lengths} = steps.columns;
        const at = r * steps.cells + cell;
        const next = cell + 1 < steps.cells ? starts[at + 1] : null;
        return next === null || next === undefined ? starts[at] + lengths[at] * steps.steps_per_cell : next;
    };

    const timesOf = function (steps, r) {
        const {start_us: starts, step_us: lengths} = steps.columns;
        return d3
            .range(steps.cells)
            .filter((cell) => commtap.selection.hasStep(steps.first_step + cell * steps.steps_per_cell))
            .filter((cell) => starts[r * steps.cells + cell] !== null && lengths[r * steps.cells + cell] !== null)
            .map((cell) => [starts[r * steps.cells + cell] - ROUNDING_US, endOf(steps, r, cell) - ROUNDING_US]);
    };

    /**
     * When the chosen steps of a dump (its place in the list of them) ran, each rank's own, as [from, to] in microseconds
     * since the job's start; null where all steps are chosen: then every time is.
     */
    commtap.chosenTimes = function (dump) {
        if (!commtap.selection.steps) {
            return null;
        }
        const steps = commtap.block("steps");
        const r = steps.dumps.indexOf(dump);
        return r >= 0 ? timesOf(steps, r) : [];
    };

    /** Whether a moment is in these times. */
    commtap.isInTimes = (times, us) => times === null || times.some(([from, to]) => from <= us && us < to);

    /** From the beginning of the first chosen step to the end of the last one, over all ranks; null: all, or none is known. */
    commtap.chosenSpan = function () {
        if (!commtap.selection.steps) {
            return null;
        }
        const steps = commtap.block("steps");
        const times = d3.merge(steps.ranks.map((rank, r) => timesOf(steps, r)));
        return times.length > 0 ? [d3.min(times, ([from]) => from), d3.max(times, ([, to]) => to)] : null;
    };

    /** Lays a veil over what a picture of time shows outside of the chosen steps; `x` takes seconds, in pixels of `holder`. */
    commtap.veilOthers = function (holder, x, height) {
        const [left, right] = x.range();
        const span = commtap.chosenSpan();
        const inside = (us) => Math.max(left, Math.min(x(us / 1e6), right));
        holder.classList.add("layers");
        holder.querySelectorAll(".veil").forEach((veil) => veil.remove());
        delete holder.dataset.chosen;
        if (!span) {
            return;
        }
        const [from, to] = span.map(inside);
        holder.dataset.chosen = Math.round(from) + " " + Math.round(to);
        [[left, from], [to, right]].forEach(([first, last]) => {
            const veil = commtap.element("div", {class: "veil"});
            veil.style.left = first + "px";
            veil.style.width = last - first + "px";
            veil.style.height = height + "px";
            holder.append(veil);
        });
    };

    /** An axis below a picture whose places are steps: between two of them there is none, nor before the first. */
    commtap.stepAxis = function (x) {
        const [first, last] = x.domain();
        return d3
            .axisBottom(x)
            .tickValues(x.ticks().filter((step) => Number.isInteger(step) && step > first && step < last))
            .tickFormat(d3.format("d"));
    };
}
