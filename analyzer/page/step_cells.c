/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/page/step_cells.h"

#include <stddef.h>
#include <stdlib.h>

#include "analyzer/base/ns.h"
#include "analyzer/page/columns.h"

/* A figure of a step; of several in one cell, their mean. */
struct step_figure {
    const char *key;
    enum { FIELD_ITSELF, REST_OF_STEP, WHOLE_STEP } what;
    size_t offset;
};

#define FIGURE(KEY, FIELD)                                                                                             \
    { KEY, FIELD_ITSELF, offsetof(struct step, FIELD) }
#define REST(KEY, FIELD)                                                                                               \
    { KEY, REST_OF_STEP, offsetof(struct step, FIELD) }
#define LENGTH(KEY)                                                                                                    \
    { KEY, WHOLE_STEP, offsetof(struct step, end_ns) }
static const struct step_figure figures[] = {
    LENGTH("step_us"),
    FIGURE("comm_us", comm_ns),
    FIGURE("wait_us", wait_ns),
    FIGURE("interval_us", first_ns),
    FIGURE("forward_backward_us", sync_ns),
    FIGURE("tail_us", tail_ns),
    REST("stage_us", receive_alone_ns),
    FIGURE("receive_alone_us", receive_alone_ns),
    FIGURE("communication_alone_us", communication_alone_ns),
    REST("computation_us", communication_alone_ns),
    FIGURE("collective_alone_us", collective_alone_ns),
    FIGURE("idle_us", idle_ns),
};
enum { FIGURES = sizeof figures / sizeof *figures };

struct grid {
    const struct steps *steps;
    uint32_t first, cells; /* number of the first step; cells of each rank */
    uint32_t per_cell;     /* steps */
    int64_t job_start_ns;
    json_t *begins, *of_figure[FIGURES]; /* one array for all ranks, rank by rank */
};

static json_t *microseconds(int64_t ns, int64_t count) {
    int64_t least = count * 1000;
    return json_integer(ns >= 0 ? (ns + least / 2) / least : -((least / 2 - ns) / least));
}

static int64_t figure_of(const struct step *step, const struct step_figure *figure) {
    int64_t length = step->end_ns - step->start_ns;
    int64_t field = *(const int64_t *)((const char *)step + figure->offset);
    if (figure->what == WHOLE_STEP)
        return length;
    return figure->what == FIELD_ITSELF || field == STEP_UNKNOWN ? field : length - field;
}

/* The mean over those of `count` steps in which it is known; null where it is known in none. Steps without a number are
 * in no cell: they are nobody else's. */
static json_t *mean_of(const struct step *steps, size_t count, const struct step_figure *figure) {
    int64_t sum = 0, known = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t value = steps[i].number == NO_STEP ? STEP_UNKNOWN : figure_of(&steps[i], figure);
        if (value == STEP_UNKNOWN)
            continue;
        sum = add_ns(sum, value);
        known++;
    }
    return known > 0 ? microseconds(sum, known) : json_null();
}

static void append_cell(struct grid *grid, const struct step *steps, size_t count) {
    while (count > 0 && steps[0].number == NO_STEP)
        steps++, count--;
    json_array_append_new(grid->begins,
                          count > 0 ? microseconds(steps[0].start_ns - grid->job_start_ns, 1) : json_null());
    for (size_t f = 0; f < FIGURES; f++)
        json_array_append_new(grid->of_figure[f], mean_of(steps, count, &figures[f]));
}

static void append_rank(struct grid *grid, const struct rank_steps *rank) {
    size_t at = 0;
    for (uint32_t cell = 0; cell < grid->cells; cell++) {
        uint64_t end = (uint64_t)grid->first + (uint64_t)(cell + 1) * grid->per_cell;
        size_t from = at;
        while (at < rank->count && (rank->steps[at].number == NO_STEP || rank->steps[at].number < end))
            at++;
        append_cell(grid, &rank->steps[from], at - from);
    }
}

static bool has_steps(const struct steps *steps, size_t rank) {
    return steps->ranks[rank].count > 0;
}

/* The same by their place in the page's list of dumps: a rank may have several, one of each GPU. */
static json_t *dumps_of(const struct steps *steps) {
    json_t *dumps = json_array();
    for (size_t r = 0; r < steps->rank_count; r++)
        if (has_steps(steps, r))
            json_array_append_new(dumps, json_integer((json_int_t)steps->ranks[r].dump));
    return dumps;
}

static json_t *ranks_of(const struct steps *steps, const struct job *job) {
    json_t *ranks = json_array();
    for (size_t r = 0; r < steps->rank_count; r++)
        if (has_steps(steps, r))
            json_array_append_new(ranks, json_integer(job->dumps[steps->ranks[r].dump]->header->rank));
    return ranks;
}

static uint32_t steps_per_cell(const struct steps *steps) {
    uint64_t all = (uint64_t)steps->count * steps->rank_count;
    return (uint32_t)((all + STEP_CELLS_MOST - 1) / STEP_CELLS_MOST);
}

/* Hands the columns over. */
static json_t *columns_of(struct grid *grid) {
    json_t *columns = json_object();
    columns_add(columns, "start_us", grid->begins);
    for (size_t f = 0; f < FIGURES; f++)
        columns_add(columns, figures[f].key, grid->of_figure[f]);
    return columns;
}

json_t *step_cells_to_json(const struct steps *steps, const struct job *job, int64_t job_start_ns) {
    struct grid grid = {.steps = steps, .first = steps->first, .per_cell = steps_per_cell(steps)};
    grid.job_start_ns = job_start_ns;
    grid.cells = grid.per_cell > 0 ? (steps->count + grid.per_cell - 1) / grid.per_cell : 0;
    grid.begins = json_array();
    for (size_t f = 0; f < FIGURES; f++)
        grid.of_figure[f] = json_array();
    for (size_t r = 0; r < steps->rank_count; r++)
        if (has_steps(steps, r))
            append_rank(&grid, &steps->ranks[r]);
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "schema", "commtap.page.steps/1", "steps_found",
                     (json_int_t)steps->count, "first_step", (json_int_t)grid.first, "steps_per_cell",
                     (json_int_t)grid.per_cell, "cells", (json_int_t)grid.cells, "ranks", ranks_of(steps, job), "dumps",
                     dumps_of(steps), "columns", columns_of(&grid));
}
