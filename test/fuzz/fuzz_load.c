/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: a dump of any content is opened, everything in it is walked, and the stages run over it beside two
 * sound dumps.
 * Lives here: calling every function of the loader and every stage.
 * Must not live here: expectations; a crash or a sanitizer's report is the finding.
 *
 * Input: one byte of mode. Mode 0: the rest is the file. Otherwise the rest is patches over a sound dump (sound.h).
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
#include "test/fuzz/sound.h"

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
        builders[i] = fuzz_sound_dump(i + 1);
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
    if (deepspeed_build(&log, &set, NULL, &all))
        deepspeed_free(&log);
    judge(&set);
    make_tree(&set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct dump_builder *sound;
    if (!sound)
        sound = fuzz_sound_dump(0);
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
        length = fuzz_damage(file, bytes, original, data + 1, size - 1);
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
