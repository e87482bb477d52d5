// SPDX-License-Identifier: Apache-2.0
//
// The cluster's step trace: what filled the steps of every rank, as a table; one row per rank, the mean of the chosen
// steps, or one per rank and step.
"use strict";

{
    const figures = [
        ["step_us", "step", "length of a step"],
        ["interval_us", "interval", "start to the first operation (data loading)"],
        ["forward_backward_us", "fwd+bwd", "first operation to the last gradient synchronisation"],
        ["tail_us", "tail", "from there to the next step"],
        ["comm_us", "comm", "in communication"],
        ["wait_us", "waited", "of that, waiting for others"],
        ["computation_us", "compute", "step without exposed communication"],
        ["communication_alone_us", "exposed", "communication that no computation hides"],
        ["receive_alone_us", "recv exposed", "receiving that no other communication overlaps"],
        ["stage_us", "stage", "step without exposed receiving"],
        ["collective_alone_us", "coll exposed", "exposed communication without receiving"],
        ["idle_us", "idle", "neither work nor communication"],
    ];

    const state = {byStep: false, table: null};

    /* One rank's mean over the chosen steps, each weighed alike; null where it has none of them. */
    const meanOf = function (steps, r, chosenCells) {
        const row = {rank: steps.ranks[r], step: null, steps: 0};
        const {step_us: lengths} = steps.columns;
        const known = chosenCells.filter((cell) => lengths[r * steps.cells + cell] !== null);
        if (known.length === 0) {
            return null;
        }
        figures.forEach(([key]) => {
            const values = known.map((cell) => steps.columns[key][r * steps.cells + cell]).filter((value) => value !== null);
            row[key] = values.length > 0 ? d3.sum(values) / values.length : null;
        });
        row.steps = known.length * steps.steps_per_cell;
        return row;
    };

    const chosenCells = (steps) =>
        d3.range(steps.cells).filter((cell) => commtap.selection.hasStep(steps.first_step + cell * steps.steps_per_cell));

    const chosenRanks = (steps) => d3.range(steps.ranks.length).filter((r) => commtap.selection.hasRank(steps.ranks[r]));

    /** A row for each chosen rank: the mean of its chosen steps. */
    commtap.stepRows = function () {
        const steps = commtap.block("steps");
        const cells = chosenCells(steps);
        return chosenRanks(steps)
            .map((r) => meanOf(steps, r, cells))
            .filter((row) => row);
    };

    /* Every chosen step of every chosen rank, by its place in the columns: there may be a hundred thousand. */
    const stepPlaces = function () {
        const steps = commtap.block("steps");
        const cells = chosenCells(steps);
        const places = [];
        chosenRanks(steps).forEach((r) =>
            cells.forEach((cell) => {
                if (steps.columns.step_us[r * steps.cells + cell] !== null) {
                    places.push(r * steps.cells + cell);
                }
            })
        );
        return places;
    };

    /* A column over rows of both kinds. */
    const columnOf = function (key, title, more) {
        const steps = commtap.block("steps");
        const members = steps.ranks.map((rank) => commtap.memberOf(rank));
        const figure = steps.columns[key];
        const ofPlace = {
            rank: (place) => steps.ranks[Math.floor(place / steps.cells)],
            step: (place) => steps.first_step + (place % steps.cells) * steps.steps_per_cell,
            steps: () => steps.steps_per_cell,
            host: (place) => members[Math.floor(place / steps.cells)].host,
            stage: (place) => members[Math.floor(place / steps.cells)].stage,
        }[key] || ((place) => figure[place]);
        const ofRow = key === "host" || key === "stage" ? (row) => commtap.memberOf(row.rank)[key] : (row) => row[key];
        const value = (row) => (typeof row === "number" ? ofPlace(row) : ofRow(row));
        return Object.assign(commtap.column(key, title, more), {value});
    };

    const columnsOf = function () {
        const steps = commtap.block("steps");
        const known = figures.filter(([key]) => steps.columns[key].some((value) => value !== null));
        return [columnOf("rank", "rank", {text: commtap.format.rank}), columnOf("host", "host", {left: true})]
            .concat(commtap.stages().length > 0 ? [columnOf("stage", "stage")] : [])
            .concat([columnOf("step", "step"), columnOf("steps", "steps")])
            .concat(known.map(([key, title, about]) => columnOf(key, title, {about, heat: true})));
    };

    const redraw = function () {
        state.table.show(state.byStep ? stepPlaces() : commtap.stepRows());
    };

    const draw = function (node) {
        const steps = commtap.block("steps");
        if (steps.ranks.length === 0) {
            commtap.empty(node, "No steps were found, so there is nothing to compare step by step.");
            node.dataset.marks = 0;
            return;
        }
        if (steps.steps_per_cell > 1) {
            node.append(
                commtap.element("p", {class: "note"}, "There are more steps than a page holds: " +
                    steps.steps_per_cell + " in a row are one here, their mean.")
            );
        }
        const by = commtap.choice("One row for", [["rank", "each rank"], ["both", "each rank and step"]], "rank", (value) => {
            state.byStep = value === "both";
            redraw();
        });
        node.append(by);
        const columns = columnsOf();
        const [rankOf, hostOf] = columns.map((column) => column.value);
        state.table = new commtap.Table(node, columns, {
            name: "steps",
            search: (row) => rankOf(row) + " " + hostOf(row),
            press: (row) => commtap.selection.choose({ranks: commtap.rangesOf([rankOf(row)])}),
        });
        commtap.selection.onChange("steps", redraw, ["steps", "ranks", "host", "stage"]);
        redraw();
        node.dataset.marks = steps.ranks.length * steps.cells;
    };

    commtap.addView({
        id: "steps",
        title: "Step trace",
        about: "what filled the steps of every rank; colours go from each column's least to its most",
        draw,
    });
}
