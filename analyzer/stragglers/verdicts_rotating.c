/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of verdicts.h: ranks that take turns.
 * Lives here: what turns_judge is given, and what its answer costs the job. Must not live here: the test itself
 * (rotating_stragglers.c).
 */
#include <stdlib.h>

#include "analyzer/stragglers/verdicts.h"
#include "analyzer/stragglers/rotating_stragglers.h"

/* What turns_judge is given, and where its columns come from. */
struct turns_input {
    struct turns_table table;
    size_t *columns; /* indices into blocks.dumps */
    int64_t *self_ns;
    uint32_t *role_of, *host_of, *numbers;
};

/* Ranks that are named for themselves take no turns, and peers are needed to tell. */
static void choose_columns(struct turns_input *input, const struct straggler_analysis *analysis,
                           const struct blocks *blocks, const struct roles *roles) {
    for (size_t i = 0; i < blocks->dump_count; i++) {
        bool named = roles->sizes[roles->role_of[i]] < TURNS_PEERS_MIN;
        for (size_t s = 0; s < analysis->straggler_count && !named; s++)
            named = analysis->stragglers[s].kind != STRAGGLER_ROLE &&
                    claims_concern(&analysis->stragglers[s], blocks->dumps[i]);
        if (named)
            continue;
        input->role_of[input->table.columns] = roles->role_of[i];
        input->host_of[input->table.columns] = analysis->clock->host_of[blocks->dumps[i]];
        input->columns[input->table.columns++] = i;
    }
}

static struct samples *samples_of(const struct turns_input *input, const struct straggler_analysis *analysis,
                                  const struct blocks *blocks, size_t column) {
    return &analysis->times[blocks->dumps[input->columns[column]]].samples;
}

/* The collectives that were seen on all columns, as rows. */
static void add_rows(struct turns_input *input, const struct straggler_analysis *analysis, const struct blocks *blocks,
                     uint32_t segment) {
    unsigned thin = samples_of(input, analysis, blocks, 0)->thin;
    size_t columns = input->table.columns;
    for (unsigned i = 0; i < SAMPLE_SEGMENT; i++) {
        int64_t *row = input->self_ns + input->table.rows * columns;
        bool seen = true;
        for (size_t c = 0; c < columns && seen; c++) {
            const int64_t *times = samples_segment(samples_of(input, analysis, blocks, c), segment);
            seen = times && times[i] != SAMPLE_NONE;
            row[c] = seen ? times[i] : 0;
        }
        input->numbers[input->table.rows] = (segment << thin) * SAMPLE_SEGMENT + i;
        input->table.rows += seen;
    }
}

static bool gather_rows(struct turns_input *input, const struct straggler_analysis *analysis,
                        const struct blocks *blocks) {
    unsigned thin = 0;
    for (size_t c = 0; c < input->table.columns; c++)
        if (samples_of(input, analysis, blocks, c)->thin > thin)
            thin = samples_of(input, analysis, blocks, c)->thin;
    for (size_t c = 0; c < input->table.columns; c++)
        samples_thin(samples_of(input, analysis, blocks, c), thin);
    const struct samples *first = samples_of(input, analysis, blocks, 0);
    /* one row more than there can be: the next one is written before it is known whether all saw it */
    size_t rows = (size_t)first->count * SAMPLE_SEGMENT + 1;
    input->self_ns = malloc(rows * input->table.columns * sizeof *input->self_ns);
    input->numbers = malloc(rows * sizeof *input->numbers);
    if (!input->self_ns || !input->numbers)
        return false;
    for (uint32_t s = 0; s < first->count; s++)
        add_rows(input, analysis, blocks, first->first + s);
    input->table.self_ns = input->self_ns;
    input->table.numbers = input->numbers;
    input->table.role_of = input->role_of;
    input->table.host_of = input->host_of;
    input->table.host_count = analysis->clock->host_count;
    return true;
}

static uint64_t collectives_of(const struct rank_bins *bins) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < bins->count; i++)
        count += bins->calls[i];
    return count;
}

/* Mended, the next ones would be the last: the cost is the slowest's lead. It matters where what noise does not explain
 * of it does. */
static void claim_turns(struct verdicts *verdicts, const struct turns_input *input, const struct turns *turns) {
    struct straggler_analysis *analysis = verdicts->analysis;
    const struct blocks *blocks = verdicts->blocks;
    int64_t window = analysis->window_ns, comm = 0;
    uint64_t count = collectives_of(&analysis->times[blocks->dumps[input->columns[0]]].bins);
    struct straggler straggler = {.kind = STRAGGLER_ROTATING,
                                  .dumps = verdicts->lists,
                                  .slowdown_ratio = turns->ratio > 1 ? turns->ratio : 1,
                                  .persistence = turns->most,
                                  .slowest = turns->most,
                                  .confidence = turns->confidence,
                                  .extra_ns = ns_clamped(turns->lead_ns * (double)count),
                                  .parts = turns->rows,
                                  .part_collectives = turns->width,
                                  .stood_out = turns->stood_out};
    for (size_t c = 0; c < input->table.columns; c++) {
        size_t dump = blocks->dumps[input->columns[c]];
        comm = add_ns(comm, analysis->times[dump].comm_ns / (int64_t)input->table.columns);
        if (turns->turns_of[c] == 0)
            continue;
        verdicts->lists[straggler.dump_count++] = dump;
        straggler.imposed_ns = add_ns(straggler.imposed_ns, analysis->causes.ranks[dump].imposed_ns);
        straggler.waited_for_ns = add_ns(straggler.waited_for_ns, analysis->waits.ranks[dump].waited_for_ns);
    }
    int64_t gain = straggler.extra_ns, least = window / CLAIM_SHARE + 1;
    if (straggler.dump_count == 0 || turns->extra_ns * (double)count < (double)least || gain < least || comm < least)
        return;
    straggler.host = analysis->clock->host_of[straggler.dumps[0]];
    straggler.what_if_speedup = gain < window ? (double)window / (double)(window - gain) : 1;
    verdicts->lists += straggler.dump_count;
    analysis->stragglers[analysis->straggler_count++] = straggler;
}

bool claims_name_turns(struct verdicts *verdicts, const struct roles *roles) {
    struct straggler_analysis *analysis = verdicts->analysis;
    const struct blocks *blocks = verdicts->blocks;
    struct turns_input input = {.columns = malloc(blocks->dump_count * sizeof *input.columns),
                                .role_of = malloc(blocks->dump_count * sizeof *input.role_of),
                                .host_of = malloc(blocks->dump_count * sizeof *input.host_of)};
    struct turns turns = {0};
    bool done = input.columns && input.role_of && input.host_of;
    if (done)
        choose_columns(&input, analysis, blocks, roles);
    if (done && input.table.columns >= TURNS_COLUMNS_MIN) {
        done = gather_rows(&input, analysis, blocks) && turns_judge(&input.table, &turns);
        if (done && turns.confidence >= CONFIDENCE_CLAIM)
            claim_turns(verdicts, &input, &turns);
    }
    turns_free(&turns);
    free(input.columns);
    free(input.role_of);
    free(input.host_of);
    free(input.numbers);
    free(input.self_ns);
    return done;
}
