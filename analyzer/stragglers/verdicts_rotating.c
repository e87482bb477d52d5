/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that take turns.
 * Lives here: what rotating_judge is given, and what its answer costs the job. Must not live here: the test itself
 * (rotating_stragglers.c).
 */
#include <stdlib.h>

#include "analyzer/stragglers/verdicts.h"
#include "analyzer/stragglers/rotating_stragglers.h"

/* What rotating_judge is given, and where its columns come from. */
struct rotating_input {
    struct rotating_table table;
    size_t *columns; /* indices into batches.dumps */
    struct sampled_rows rows;
    uint32_t *class_of, *host_of;
};

/* Ranks that are named for themselves take no turns, and peers are needed to tell. */
static void choose_columns(struct rotating_input *input, const struct straggler_analysis *analysis,
                           const struct time_batches *batches, const struct rank_classes *classes) {
    for (size_t i = 0; i < batches->dump_count; i++) {
        bool named = classes->sizes[classes->class_of[i]] < ROTATING_PEERS_MIN;
        for (size_t s = 0; s < analysis->straggler_count && !named; s++)
            named = analysis->stragglers[s].kind != STRAGGLER_RANK_CLASS &&
                    straggler_concerns(&analysis->stragglers[s], batches->dumps[i]);
        if (named)
            continue;
        input->class_of[input->table.columns] = classes->class_of[i];
        input->host_of[input->table.columns] = analysis->clock->host_of[batches->dumps[i]];
        input->columns[input->table.columns++] = i;
    }
}

static bool gather_rows(struct rotating_input *input, const struct straggler_analysis *analysis,
                        const struct time_batches *batches) {
    struct sampled_collectives **samples = malloc(input->table.columns * sizeof *samples);
    for (size_t c = 0; samples && c < input->table.columns; c++)
        samples[c] = &analysis->times[batches->dumps[input->columns[c]]].sampled;
    bool done = samples && sampled_rows_make(&input->rows, samples, input->table.columns);
    free(samples);
    input->table.rows = input->rows.rows;
    input->table.self_ns = input->rows.self_ns;
    input->table.numbers = input->rows.numbers;
    input->table.class_of = input->class_of;
    input->table.host_of = input->host_of;
    input->table.host_count = analysis->clock->host_count;
    return done;
}

static uint64_t collectives_of(const struct rank_bins *bins) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < bins->count; i++)
        count += bins->calls[i];
    return count;
}

/* Mended, the next ones would be the last: the cost is the slowest's lead. It matters where what noise does not explain
 * of it does. */
static void name_rotating(struct verdicts *verdicts, const struct rotating_input *input,
                          const struct rotating *rotating) {
    struct straggler_analysis *analysis = verdicts->analysis;
    const struct time_batches *batches = verdicts->batches;
    int64_t window = analysis->window_ns, comm = 0;
    uint64_t count = collectives_of(&analysis->times[batches->dumps[input->columns[0]]].bins);
    struct straggler straggler = {.kind = STRAGGLER_ROTATING,
                                  .dumps = verdicts->lists,
                                  .slowdown_ratio = rotating->ratio > 1 ? rotating->ratio : 1,
                                  .persistence = rotating->most,
                                  .slowest = rotating->most,
                                  .confidence = rotating->confidence,
                                  .extra_ns = ns_clamped(rotating->lead_ns * (double)count),
                                  .parts = rotating->rows,
                                  .part_collectives = rotating->width,
                                  .part_begin = rotating->begin,
                                  .stood_out = rotating->stood_out};
    for (size_t c = 0; c < input->table.columns; c++) {
        size_t dump = batches->dumps[input->columns[c]];
        comm = add_ns(comm, analysis->times[dump].comm_ns / (int64_t)input->table.columns);
        if (rotating->times_slowest[c] == 0)
            continue;
        verdicts->lists[straggler.dump_count++] = dump;
        straggler.imposed_ns = add_ns(straggler.imposed_ns, analysis->delay_costs.ranks[dump].imposed_ns);
        straggler.waited_for_ns = add_ns(straggler.waited_for_ns, analysis->waits.ranks[dump].waited_for_ns);
    }
    int64_t gain = straggler.extra_ns, least = window / VERDICT_SHARE + 1;
    if (straggler.dump_count == 0 || rotating->extra_ns * (double)count < (double)least || gain < least || comm < least)
        return;
    straggler.host = analysis->clock->host_of[straggler.dumps[0]];
    straggler.what_if_speedup = gain < window ? (double)window / (double)(window - gain) : 1;
    verdicts->lists += straggler.dump_count;
    analysis->stragglers[analysis->straggler_count++] = straggler;
}

bool verdicts_name_rotating(struct verdicts *verdicts, const struct rank_classes *classes) {
    struct straggler_analysis *analysis = verdicts->analysis;
    const struct time_batches *batches = verdicts->batches;
    struct rotating_input input = {.columns = malloc(batches->dump_count * sizeof *input.columns),
                                   .class_of = malloc(batches->dump_count * sizeof *input.class_of),
                                   .host_of = malloc(batches->dump_count * sizeof *input.host_of)};
    struct rotating rotating = {0};
    bool done = input.columns && input.class_of && input.host_of;
    if (done)
        choose_columns(&input, analysis, batches, classes);
    if (done && input.table.columns >= ROTATING_COLUMNS_MIN) {
        done = gather_rows(&input, analysis, batches) && rotating_judge(&input.table, &rotating);
        if (done && rotating.confidence >= CONFIDENCE_VERDICT)
            name_rotating(verdicts, &input, &rotating);
    }
    rotating_free(&rotating);
    free(input.columns);
    free(input.class_of);
    free(input.host_of);
    sampled_rows_free(&input.rows);
    return done;
}
