/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that are slow at times.
 * Lives here: what leads_judge is given. Must not live here: the test itself (leads.c), what a claim needs
 * (verdicts.c).
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/stragglers/verdicts.h"

/* Columns of the batches that are compared with each other, and room for what is found of them. */
struct leads_input {
    size_t *columns;
    size_t count;
    struct sampled_collectives **samples;
    struct rank_leads *found;
};

static bool judge_list(struct straggler_analysis *analysis, const struct time_batches *batches,
                       struct leads_input *input) {
    struct sampled_rows rows = {0};
    if (input->count < 2)
        return true;
    for (size_t i = 0; i < input->count; i++)
        input->samples[i] = &analysis->times[batches->dumps[input->columns[i]]].sampled;
    bool done = sampled_rows_make(&rows, input->samples, input->count);
    const struct leads_table table = {rows.rows, input->count, rows.self_ns, rows.numbers};
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

/* As rank_classes_judge_ranks does it: among those of its rank class, alone in it among all, or not at all where rank
 * classes are places. */
static bool judge_classes(struct straggler_analysis *analysis, const struct rank_classes *classes,
                          const struct time_batches *batches, struct leads_input *input) {
    for (size_t r = 0; r <= classes->count; r++) {
        bool all = r == classes->count;
        if (all ? classes->placed && classes->count > 1 : classes->sizes[r] < 2)
            continue;
        list_class(input, classes, batches->dump_count, r);
        if (!judge_list(analysis, batches, input))
            return false;
        for (size_t i = 0; i < input->count && input->count > 1; i++)
            if (!all || classes->sizes[classes->class_of[input->columns[i]]] < 2)
                analysis->leads[batches->dumps[input->columns[i]]] = input->found[i];
    }
    return true;
}

bool verdicts_judge_leads(struct straggler_analysis *analysis, const struct rank_classes *classes,
                          const struct time_batches *batches) {
    struct leads_input input = {.columns = calloc(batches->dump_count, sizeof *input.columns),
                                .samples = calloc(batches->dump_count, sizeof *input.samples),
                                .found = calloc(batches->dump_count, sizeof *input.found)};
    bool done = input.columns && input.samples && input.found && judge_classes(analysis, classes, batches, &input);
    free(input.columns);
    free(input.samples);
    free(input.found);
    return done;
}
