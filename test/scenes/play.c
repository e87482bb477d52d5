/* SPDX-License-Identifier: Apache-2.0
 *
 * Plays one job (workload.h) and leaves its dumps in a directory, the same ones at every run: for pages of jobs that
 * are too large for this machine, and for pictures. Must not live here: what the jobs do, what has to be said of them.
 *
 *   play DIR KIND [NAME=VALUE ...]     as in: play dumps stencil ranks=72 ranks_per_host=9 steps=4 slow_rank=3 factor=2
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/scenes/workload.h"

static bool find_kind(const char *name, enum workload_kind *kind) {
    for (int i = 0; i < WORKLOADS; i++)
        if (strcmp(workload_name((enum workload_kind)i), name) == 0) {
            *kind = (enum workload_kind)i;
            return true;
        }
    return false;
}

static bool set_number(struct workload *w, const char *name, unsigned value) {
    const struct {
        const char *name;
        unsigned *number;
    } numbers[] = {{"ranks", &w->ranks},   {"ranks_per_host", &w->ranks_per_host},
                   {"steps", &w->steps},   {"stages", &w->stages},
                   {"tensor", &w->tensor}, {"pieces", &w->pieces}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(numbers[i].name, name) == 0) {
            *numbers[i].number = value;
            return true;
        }
    return false;
}

static bool set(struct workload *w, char *setting) {
    char *value = strchr(setting, '=');
    if (!value)
        return false;
    *value++ = '\0';
    if (strcmp(setting, "factor") == 0) {
        w->factor = atof(value);
        return true;
    }
    if (strcmp(setting, "slow_rank") == 0) {
        w->plant = PLANT_RANK;
        w->who = (unsigned)atoi(value);
        return true;
    }
    return set_number(w, setting, (unsigned)atoi(value));
}

/* ---- what a recorder would count --------------------------------------------------------------- */

enum { TRAIN_STEP = 1, MAIN = 2, FIRST_CALLER = 3 /* code objects of every dump */ };

/* Which function of the made-up program calls what. */
static const struct {
    uint16_t call;
    uint32_t line;
    const char *function;
} callers[] = {
    {BUILDER_ALLREDUCE, 61, "reduce_gradients"}, {BUILDER_NCCL_ALL_REDUCE, 61, "reduce_gradients"},
    {BUILDER_ALLGATHER, 48, "gather_weights"},   {BUILDER_SEND, 33, "send_activations"},
    {BUILDER_RECV, 27, "receive_activations"},   {BUILDER_ISEND, 33, "exchange_edges"},
    {BUILDER_IRECV, 31, "exchange_edges"},       {BUILDER_WAITALL, 38, "exchange_edges"},
};
enum { CALLERS = sizeof callers / sizeof *callers };

static uint64_t python(uint32_t code, uint32_t line) {
    return STACK_ENTRY_PYTHON | STACK_PYTHON_ENTRY | (uint64_t)code << 32 | line;
}

static void define_stacks(struct dump_builder *builder) {
    dump_builder_code(builder, TRAIN_STEP, "train_step", "train.py");
    dump_builder_code(builder, MAIN, "main", "train.py");
    for (uint32_t i = 0; i < CALLERS; i++) {
        const uint64_t entries[] = {python(FIRST_CALLER + i, callers[i].line), python(TRAIN_STEP, 80),
                                    python(MAIN, 97)};
        dump_builder_code(builder, FIRST_CALLER + i, callers[i].function, "train.py");
        dump_builder_stack(builder, i + 1, entries, sizeof entries / sizeof *entries);
    }
}

/* The number of the stack that a call is made from. */
static uint32_t stack_of(uint16_t call) {
    for (uint32_t i = 0; i < CALLERS; i++)
        if (callers[i].call == call)
            return i + 1;
    return STACK_NONE;
}

static void count_operation(struct dump_builder *builder, uint32_t lane, const struct record *record, uint32_t *used) {
    struct operation_row *rows = dump_builder_contents(builder, SECTION_OPERATIONS, lane), *row = NULL;
    for (uint32_t i = 0; i < *used && !row; i++)
        if (rows[i].call == record->call && rows[i].comm_epoch == record->comm && rows[i].bytes == record->bytes)
            row = &rows[i];
    if (!row) {
        row = dump_builder_operation(builder, lane);
        row->call = record->call;
        row->comm_epoch = record->comm;
        row->bytes = record->bytes;
        row->source = record->kind == RECORD_GPU ? SOURCE_GPU_EVENT : SOURCE_HOST;
        ++*used;
    }
    dump_builder_count(row, record->bytes, record->t1 - record->t0);
}

static void count_site(struct dump_builder *builder, uint32_t lane, const struct record *record, uint32_t *used) {
    struct site_row *rows = dump_builder_contents(builder, SECTION_SITES, lane), *row = NULL;
    for (uint32_t i = 0; i < *used && !row; i++)
        if (rows[i].call == record->call && rows[i].comm_epoch == record->comm && rows[i].stack == record->stack)
            row = &rows[i];
    if (!row) {
        row = dump_builder_site(builder, lane);
        row->call = record->call;
        row->comm_epoch = record->comm;
        row->stack = record->stack;
        ++*used;
    }
    row->count++;
    row->bytes_total += record->bytes;
    row->time_total += record->t1 - record->t0;
}

/* Records get their call sites, tables what records say. */
static void complete(struct dump_builder *builder) {
    const struct section *ring;
    define_stacks(builder);
    for (uint32_t lane = 0; (ring = dump_builder_section(builder, SECTION_RING, lane)); lane++) {
        struct record *records = dump_builder_contents(builder, SECTION_RING, lane);
        uint32_t operations = 0, sites = 0;
        for (uint64_t i = 0; i < ring->count && records[i].commit != 0; i++) {
            records[i].stack = stack_of(records[i].call);
            if (records[i].kind == RECORD_POST)
                continue;
            count_operation(builder, lane, &records[i], &operations);
            count_site(builder, lane, &records[i], &sites);
        }
    }
}

int main(int argc, char **argv) {
    enum workload_kind kind;
    bool understood = argc > 2 && find_kind(argv[2], &kind);
    struct workload workload = understood ? workload_standard(kind) : (struct workload){0};
    for (int i = 3; understood && i < argc; i++)
        understood = set(&workload, argv[i]);
    if (!understood) {
        fprintf(stderr, "usage: play DIR KIND [NAME=VALUE ...]\n");
        return 2;
    }
    struct stage *stage = workload_play(&workload);
    for (unsigned rank = 0; rank < workload.ranks; rank++)
        complete(stage_builder(stage, rank));
    int failed = stage_write(stage, argv[1]);
    if (failed)
        perror(argv[1]);
    stage_free(stage);
    return failed ? 1 : 0;
}
