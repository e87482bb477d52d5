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

static bool judge_list(struct straggler_analysis *analysis, const struct time_batches *batches,
                       struct leads_input *input, bool level) {
    struct sampled_rows rows = {0};
    if (input->count < 2)
        return true;
    for (size_t i = 0; i < input->count; i++)
        input->samples[i] = &analysis->times[batches->dumps[input->columns[i]]].sampled;
    bool done = sampled_rows_make(&rows, input->samples, input->count);
    const struct leads_table table = {rows.rows,    input->count, rows.self_ns,
                                      rows.numbers, level,        stretches_at_once(analysis, &rows)};
    done = done && leads_judge(&table, input->found);
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

bool verdicts_judge_unlike(struct straggler_analysis *analysis, const struct time_batches *batches, size_t column) {
    struct leads_input input;
    bool done = leads_input_init(&input, batches);
    for (size_t i = 0; done && i < batches->dump_count; i++)
        input.columns[input.count++] = i;
    done = done && judge_list(analysis, batches, &input, true);
    if (done) {
        analysis->leads[batches->dumps[column]] = input.found[column];
        analysis->leads[batches->dumps[column]].without_peer = true;
    }
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
