/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: a dump of any content is opened, everything in it is walked, and the stages run over it beside two
 * sound dumps.
 * Lives here: turning fuzz input into a dump, calling every function of the loader and every stage.
 * Must not live here: expectations; a crash or a sanitizer's report is the finding.
 *
 * Input: one byte of mode. Mode 0: the rest is the file. Otherwise the rest is a list of 12-byte patches over a sound
 * dump: section (0 = header and table), width, offset in units of 4 bytes (16 bit), value (64 bit); a section number of
 * 255 cuts the file instead.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/align/common_clock.h"
#include "analyzer/analyse/call_tree.h"
#include "analyzer/analyse/findings.h"
#include "analyzer/analyse/summary.h"
#include "analyzer/analyse/summary_deepspeed.h"
#include "analyzer/load/dump.h"
#include "analyzer/match/directory.h"
#include "test/unit/dump_builder.h"

enum { PATCH_BYTES = 12, CUT = 255 };

static uint64_t sink; /* keeps reads from being dropped */

static void walk_records(const struct dump *dump) {
    for (uint32_t lane = 0; lane < dump->lane_count; lane++) {
        struct record_cursor cursor;
        if (!record_cursor_begin(&cursor, dump, lane))
            return;
        for (const struct record *record; (record = record_cursor_next(&cursor));) {
            const struct dump_communicator *communicator = dump_communicator(dump, record->comm);
            sink += (uint64_t)dump_monotonic_ns(dump, record->t0) + (uint64_t)dump_realtime_ns(dump, record->t1);
            sink += dump_call(dump, record->call) ? dump_call(dump, record->call)->busbw : 0;
            sink += communicator ? strlen(communicator->name) : 0;
        }
        record_cursor_end(&cursor);
        sink += dump_lane_lost(dump, lane);
    }
}

static void walk_tables(const struct dump *dump) {
    for (uint32_t i = 0; i < dump->lane_count; i++) {
        const struct dump_lane *lane = &dump->lanes[i];
        for (uint32_t j = 0; j < lane->site_count; j++)
            sink += lane->sites[j].count;
        for (uint32_t j = 0; j < lane->peer_count; j++)
            sink += lane->peers[j].count;
        for (uint32_t j = 0; lane->ring && j < lane->ring_records; j += 64)
            sink += lane->ring[j].bytes;
    }
    for (uint32_t i = 0; i < dump->in_flight_count; i++)
        sink += dump->in_flight[i].call;
    for (uint32_t i = 0; i < dump->pending_count; i++)
        sink += dump->pending[i].request;
    for (uint32_t i = 0; i < dump->call_count; i++)
        sink += strlen(dump->calls[i].name) + strlen(dump->calls[i].torch);
    for (size_t i = 0; i < dump->epoch_count; i++)
        sink += dump->epochs[i]->ticks;
    for (size_t i = 0; i < dump->problems.count; i++)
        sink += strlen(dump->problems.items[i].text);
}

static void walk_communicators(const struct dump *dump) {
    int32_t ranks[64];
    for (uint32_t i = 0; i < dump->communicator_count; i++) {
        const struct dump_communicator *communicator = dump_communicator(dump, i);
        if (!communicator)
            continue;
        sink += dump_communicator_members(communicator, ranks, 64) + strlen(communicator->name);
        sink += communicator->progress ? communicator->progress->powers[PROGRESS_POWERS - 1] : 0;
    }
}

/* A small dump with something in every section. */
static struct dump_builder *make_sound(int32_t rank) {
    struct dump_builder *builder = dump_builder_new(
        &(struct dump_plan){.rank = rank, .world_size = 8, .lanes = 2, .ring_records = 64, .windows = 4});
    const struct member_run runs[] = {{0, 3, 2}, {1, 1, 1}};
    dump_builder_standard_calls(builder);
    for (uint64_t i = 0; i < 8; i++)
        dump_builder_anchor(builder, 1000 * i, 1000 * i, 5000 + 1000 * i, 3);
    dump_builder_world(builder);
    uint32_t other = dump_builder_communicator(builder, 42, "other", 0, runs, 2);
    dump_builder_freed(builder, other, 99, 3);
    dump_builder_epoch(builder, 1, 50);
    for (uint32_t lane = 0; lane < 2; lane++) {
        struct operation_row *row = dump_builder_operation(builder, lane);
        row->call = BUILDER_ALLREDUCE;
        row->source = SOURCE_HOST;
        row->bytes = 8;
        for (uint32_t i = 0; i < 100; i++) {
            dump_builder_count(row, 8, 10 + i);
            dump_builder_collective(builder, lane, BUILDER_ALLREDUCE, 0, i, 8, 20 * i, 20 * i + 10);
        }
        struct site_row *site = dump_builder_site(builder, lane);
        site->count = 1;
        site->call = BUILDER_ALLREDUCE;
        site->stack = lane + 1;
        dump_builder_peer(builder, lane)->count = 1;
    }
    /* a file that is not there: what is in files is test_symbols' to break */
    dump_builder_module(builder, "/nowhere/lib.so", "identity", 8, 0x400000, 0x1000);
    dump_builder_stack(builder, 1,
                       (const uint64_t[]){0x400010, 0x400020, STACK_ENTRY_PYTHON | STACK_PYTHON_ENTRY | 1ull << 32 | 7,
                                          STACK_ENTRY_CUT, STACK_ENTRY_LABEL | 1},
                       5);
    dump_builder_module_gone(builder, 0x400000);
    dump_builder_stack(builder, 2, (const uint64_t[]){0x400010}, 1);
    dump_builder_code(builder, 1, "forward", "/x/torch/utils/checkpoint.py");
    dump_builder_string(builder, 1, "range");
    struct window_block *block = dump_builder_window(builder, 0, 5);
    for (uint64_t ticket = 3; ticket < 20; ticket++)
        block->records[block->used++] = (struct record){.commit = ticket + 1, .kind = RECORD_CALL};
    dump_builder_progress(builder, 0)->enqueued = 3;
    dump_builder_in_flight(builder)->call = BUILDER_BARRIER;
    dump_builder_pending(builder)->call = BUILDER_IALLREDUCE;
    return builder;
}

static bool nobody_lives(const struct dump *dump) {
    (void)dump;
    return false;
}

/* What `report` does before it prints. */
static void judge(const struct dump_set *set) {
    struct job job = {0};
    struct common_clock clock = {0};
    struct match_directory directory = {0};
    struct straggler_analysis analysis = {0};
    struct findings findings = {0};
    if (job_select(&job, set, NULL, nobody_lives) == 0 && common_clock_build(&clock, job.dumps, job.count) &&
        match_directory_build(&directory, job.dumps, job.count) &&
        straggler_analyse(&analysis, &clock, &directory, &(struct straggler_request){.workers = 1}))
        findings_collect(&findings, set, &job, &analysis);
    findings_free(&findings);
    straggler_analysis_free(&analysis);
    match_directory_free(&directory);
    common_clock_free(&clock);
    job_free(&job);
}

/* What `calls` does before it prints. */
static void make_tree(const struct dump_set *set) {
    const struct job job = {.dumps = set->dumps, .count = set->count};
    const struct filter all = {0};
    struct skip_list skip;
    struct call_tree tree = {0};
    struct symbols *symbols = symbols_new(set->dumps, set->count, "/nowhere");
    if (skip_list_init(&skip) && symbols && symbols_want_all(symbols) && symbols_resolve(symbols) &&
        call_tree_build(&tree, &(struct call_tree_request){
                                   .job = &job, .symbols = symbols, .skip = &skip, .filter = &all, .noise = 3}))
        sink += tree.root->sums.count;
    call_tree_free(&tree);
    symbols_free(symbols);
    skip_list_free(&skip);
}

/* The stages, over the fuzzed dump of rank 0 and sound ones of ranks 1 and 2. */
static void walk_stages(struct dump *dump) {
    static struct dump_builder *builders[2];
    static struct dump *others[2];
    static char directory_name[] = "fuzz";
    for (int32_t i = 0; i < 2 && !others[i]; i++) {
        size_t bytes;
        builders[i] = make_sound(i + 1);
        const void *data = dump_builder_data(builders[i], &bytes);
        others[i] = dump_open_buffer("sound.ct", data, bytes);
    }
    struct dump *dumps[] = {dump, others[0], others[1]};
    bool duplicate[] = {false, false, false};
    const struct dump_set set = {.directory = directory_name, .dumps = dumps, .count = 3, .duplicate = duplicate};
    const struct filter all = {0};
    struct summary summary;
    struct deepspeed log;
    if (summary_build(&summary, &set, NULL, SUMMARY_BY_DEFAULT | SUMMARY_BY_RANK))
        summary_free(&summary);
    if (deepspeed_build(&log, &set, &all))
        deepspeed_free(&log);
    judge(&set);
    make_tree(&set);
}

/* Applies one patch. Returns the file's new length. */
static size_t patch(uint8_t *file, size_t bytes, const struct dump_header *sound, const uint8_t *data) {
    static const size_t widths[] = {1, 2, 4, 8};
    uint64_t value;
    uint16_t units;
    memcpy(&units, data + 2, sizeof units);
    memcpy(&value, data + 4, sizeof value);
    size_t start = 0, offset = units * (size_t)4 % SECTION_ALIGN, width = widths[data[1] % 4];
    if (data[0] == CUT)
        return value % (bytes + 1);
    if (data[0] > 0 && data[0] <= SECTIONS_MAX)
        start = sound->sections[data[0] - 1].offset;
    if (start + offset + width <= bytes)
        memcpy(file + start + offset, &value, width);
    return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct dump_builder *sound;
    if (!sound)
        sound = make_sound(0);
    if (size == 0)
        return 0;
    size_t bytes;
    const uint8_t *original = dump_builder_data(sound, &bytes);
    if (data[0] == 0)
        bytes = size - 1;
    /* rounded up only as far as the alignment asks for: the sanitizer sees reads behind the end */
    uint8_t *file = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    if (!file)
        return 0;
    size_t length = bytes;
    memcpy(file, data[0] == 0 ? data + 1 : original, bytes);
    if (data[0] != 0)
        for (size_t at = 1; at + PATCH_BYTES <= size; at += PATCH_BYTES) {
            size_t end = patch(file, bytes, (const struct dump_header *)original, data + at);
            length = end < length ? end : length;
        }
    struct dump *dump = dump_open_buffer("fuzz.ct", file, length);
    if (dump && dump->header) {
        walk_records(dump);
        walk_tables(dump);
        walk_communicators(dump);
        walk_stages(dump);
    }
    dump_close(dump);
    free(file);
    return 0;
}
