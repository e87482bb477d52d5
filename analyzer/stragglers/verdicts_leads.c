/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that are slow at times.
 * Lives here: what leads_judge is given. Must not live here: the test itself (leads.c), what a claim needs
 * (verdicts.c).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/stragglers/verdicts.h"

/* With as many or more of its own rank class a rank is compared with those; with fewer each lead would be its own too
 * often by chance, and it is compared with all, each by what is usual for it. */
enum { LEADS_PEERS_MIN = 4 };

/* Columns of the batches that are compared with each other, and room for what is found of them. */
struct leads_input {
    size_t *columns;
    size_t count;
    struct sampled_collectives **samples;
    struct rank_leads *found;
};

/* How many stretches make at least the shortest batch. */
static uint32_t stretches_at_once(const struct straggler_analysis *analysis, const struct sampled_rows *rows) {
    if (rows->rows == 0 || analysis->window_ns <= 0)
        return 1;
    double stretches = (double)rows->numbers[rows->rows - 1] - rows->numbers[0] + 1;
    double held = BATCH_NS_LEAST * stretches / (double)analysis->window_ns;
    return (uint32_t)fmax(1, fmin(ceil(held), UINT32_MAX));
}

static bool make_rows(const struct straggler_analysis *analysis, const struct time_batches *batches,
                      struct leads_input *input, struct sampled_rows *rows) {
    for (size_t i = 0; i < input->count; i++)
        input->samples[i] = &analysis->times[batches->dumps[input->columns[i]]].sampled;
    return sampled_rows_make(rows, input->samples, input->count);
}

static bool judge_rows(const struct straggler_analysis *analysis, const struct sampled_rows *rows,
                       struct leads_input *input, bool level) {
    const struct leads_table table = {rows->rows,    input->count, rows->self_ns,
                                      rows->numbers, level,        stretches_at_once(analysis, rows)};
    return leads_judge(&table, analysis->workers, input->found);
}

static bool judge_list(struct straggler_analysis *analysis, const struct time_batches *batches,
                       struct leads_input *input, bool level) {
    struct sampled_rows rows = {0};
    if (input->count < 2)
        return true;
    bool done = make_rows(analysis, batches, input, &rows) && judge_rows(analysis, &rows, input, level);
    sampled_rows_free(&rows);
    return done;
}

static void list_class(struct leads_input *input, const struct rank_classes *classes, size_t columns,
                       size_t rank_class) {
    input->count = 0;
    for (size_t i = 0; i < columns; i++)
        if (rank_class == classes->count || classes->class_of[i] == rank_class)
            input->columns[input->count++] = i;
}

/* Whether a rank class is enough to be compared among itself: where rank classes are places, always. */
static bool is_enough(const struct rank_classes *classes, size_t rank_class) {
    return classes->count == 1 || classes->sizes[rank_class] >= (classes->placed ? 2 : LEADS_PEERS_MIN);
}

static bool judge_classes(struct straggler_analysis *analysis, const struct rank_classes *classes,
                          const struct time_batches *batches, struct leads_input *input) {
    for (size_t r = 0; r <= classes->count; r++) {
        bool all = r == classes->count;
        if (all ? classes->placed || classes->count == 1 : !is_enough(classes, r))
            continue;
        list_class(input, classes, batches->dump_count, r);
        if (!judge_list(analysis, batches, input, all))
            return false;
        for (size_t i = 0; i < input->count && input->count > 1; i++)
            if (!all || !is_enough(classes, classes->class_of[input->columns[i]]))
                analysis->leads[batches->dumps[input->columns[i]]] = input->found[i];
    }
    return true;
}

static bool leads_input_init(struct leads_input *input, const struct time_batches *batches) {
    *input = (struct leads_input){.columns = calloc(batches->dump_count, sizeof *input->columns),
                                  .samples = calloc(batches->dump_count, sizeof *input->samples),
                                  .found = calloc(batches->dump_count, sizeof *input->found)};
    return input->columns && input->samples && input->found;
}

static void leads_input_free(struct leads_input *input) {
    free(input->columns);
    free(input->samples);
    free(input->found);
}

/* Of two ranks the one that works less may well be the healthy one; unless, in most stretches, it does next to nothing,
 * as the master of a single worker. Its column; NOWHERE: they do the same work. */
static size_t idle_of_two(const struct sampled_rows *rows) {
    size_t idle[2] = {0};
    for (size_t row = 0; row < rows->rows; row++) {
        const int64_t *self = rows->self_ns + 2 * row;
        idle[0] += self[0] < self[1] / VERDICT_SHARE;
        idle[1] += self[1] < self[0] / VERDICT_SHARE;
    }
    return 2 * idle[0] > rows->rows ? 0 : 2 * idle[1] > rows->rows ? 1 : NOWHERE;
}

bool verdicts_judge_unlike(struct straggler_analysis *analysis, const struct time_batches *batches, bool *unlike) {
    struct leads_input input;
    struct sampled_rows rows = {0};
    bool done = leads_input_init(&input, batches);
    for (size_t i = 0; done && i < batches->dump_count; i++)
        input.columns[input.count++] = i;
    size_t idle = NOWHERE;
    if (done && input.count == 2) {
        done = make_rows(analysis, batches, &input, &rows);
        idle = done ? idle_of_two(&rows) : NOWHERE;
    }
    *unlike = idle != NOWHERE;
    if (*unlike) {
        done = judge_rows(analysis, &rows, &input, true);
        analysis->leads[batches->dumps[idle]] = input.found[idle];
        analysis->leads[batches->dumps[idle]].without_peer = true;
    }
    sampled_rows_free(&rows);
    leads_input_free(&input);
    return done;
}

bool verdicts_judge_leads(struct straggler_analysis *analysis, const struct rank_classes *classes,
                          const struct time_batches *batches) {
    struct leads_input input;
    bool done = leads_input_init(&input, batches) && judge_classes(analysis, classes, batches, &input);
    leads_input_free(&input);
    return done;
}
